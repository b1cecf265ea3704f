/* gyre_adaptive.h: data-adaptive position encoding (DAPE, Zheng 2024, arXiv 2405.14722), forward and gradient.  Part of
 * libgyre.  The conventions of gyre.h hold.
 *
 * The bias of a static scheme is the same for every text.  DAPE adapts it to query and key: a small network, shared by all
 * positions, reads the products A and the biases B of all heads of a query m and a key n,
 *
 *     A[h] = scale q[m][h] . k[n][h / group]
 *     B[h] = b(h, m, n) of a scheme + bias[m][h][n] of the caller
 *     f(x) = output_bias + output_weights l(hidden_bias + hidden_weights x),   l(z) = z, below 0 slope z
 *     s[h] = A[h] + B[h] + f([A[0], ..., A[H - 1], B[0], ..., B[H - 1]])[h]
 *
 * and attention is softmax(s) v.  Masks act on s: the network reads only visible pairs.
 *
 * "DAPE V2" (arXiv 2410.04798) has a convolution over neighbouring keys in place of f.  It is not supported. */
#ifndef GYRE_ADAPTIVE_H
#define GYRE_ADAPTIVE_H
#include "gyre/gyre_cache.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The terms beside f, and the input of f: H or 2 H numbers for H query heads. */
typedef enum gyre_adaptive_form {
    GYRE_ADAPTIVE_FORM_CONCAT_RESIDUAL, /* A + B + f([A, B]): the released code, and the residual form of the paper */
    GYRE_ADAPTIVE_FORM_CONCAT,          /* A + f([A, B]): the first formula of the paper's section 3.2 */
    GYRE_ADAPTIVE_FORM_ADD_RESIDUAL     /* A + B + f(A + B).  Without biases A + f(A), for rotated queries and keys or
                                         * without positions: DAPEV1 and Nope_C of the released code */
} gyre_adaptive_form;

/* Weights of the network, each layer in PyTorch's order: W is the hidden width, I the inputs.  F32, F16, BF16 or F64 each,
 * read as F32. */
typedef struct gyre_adaptive_network {
    gyre_cview hidden_weights; /* [1, 1, W, I]: at least 1 hidden unit.  I = 2 x query heads, those of A first, or, in
                                * ADD_RESIDUAL, query heads */
    gyre_cview hidden_bias;    /* [1, 1, 1, W]; data NULL = zeros */
    gyre_cview output_weights; /* [1, 1, query heads, W] */
    gyre_cview output_bias;    /* [1, 1, 1, query heads]; data NULL = zeros */
} gyre_adaptive_network;

typedef struct gyre_adaptive_args {
    size_t size;        /* set by GYRE_INIT */
    gyre_cview q, k, v; /* [batch, query or key, head, channel]; query heads are a multiple of key heads.  F32, F16, BF16 or
                         * F64 each, read as F32 */
    gyre_adaptive_network network;
    gyre_adaptive_form form;
    double slope;  /* of the leaky ReLU below 0; 0 = 0.01, as in the released code (PyTorch's own) */
    double scale;  /* of q . k; 0 = 1 / sqrt(channels of q) */
    int two_sided; /* 0 = causal: the last query of a sequence is aligned with its last key, and each earlier query sees one
                    * key fewer than the next.  1 = each sees all keys */
    /* The scheme whose bias is adapted: ALIBI, T5, KERPLE, FIRE or SANDWICH; NULL = none.  tables: only its bias table is
     * read; NULL if it has none. */
    const gyre_encoding *encoding;
    const gyre_tables *tables; /* NULL = none */
    /* Its positions, as in gyre_attention_args: without data, those of each sequence begin at base, padding included.
     * q_pos->context_length is that of the call, 0 = the encoding's own.  Both or none; NULL = the first key of each
     * sequence after its padding is at 0, the last query at the position of the last key. */
    const gyre_positions *q_pos, *k_pos;
    /* Biases of the caller, added to those of the scheme: F32, F16, BF16 or F64 [batch, query, query heads, key].  Stride
     * 0 broadcasts.  Packed: [1, all queries, query heads, keys of the longest sequence], keys counted in their sequence.
     * The network reads them, so -inf does not hide a key and makes its row NaN: two_sided, k_first and k_end hide keys.
     * data NULL = none */
    gyre_cview bias;
    /* A packed batch: q and k have batch 1, and sequence s is queries q_starts[s] .. q_starts[s + 1] - 1 and the keys
     * likewise.  [sequences + 1] each, from 0 to all tokens, not decreasing.  NULL = one sequence per batch row. */
    const int64_t *q_starts, *k_starts;
    int64_t sequences; /* needed with q_starts; ignored without: 0 = one for each batch row */
    /* Padding: row b (or sequence b) has keys k_first[b] .. k_end[b] - 1, counted within it.  [batch or sequences] each.
     * NULL = from the first, to the last. */
    const int64_t *k_first, *k_end;
    gyre_view out; /* F32, F16, BF16 or F64 [batch, query, query heads, channels of v] */
    gyre_view lse; /* F32 or F64 [batch, query, query heads, 1]: log-sum-exp of each row; data NULL = not wanted */
} gyre_adaptive_args;

/* Outputs of gyre_adaptive_gradient.  data NULL = not wanted. */
typedef struct gyre_adaptive_gradients {
    size_t size;          /* set by GYRE_INIT */
    gyre_view dq, dk, dv; /* shaped as q, k and v, F32, F16, BF16 or F64: overwritten */
    /* Shaped as the weights of the network, F32 or F64: added to. */
    gyre_view dhidden_weights, dhidden_bias, doutput_weights, doutput_bias;
    gyre_view dtable; /* of tables->bias, in its shape, F32 or F64: added to */
    gyre_view dbias;  /* of the biases of the caller, in their full shape without stride 0, F32, F16, BF16 or F64:
                       * overwritten; 0 for an invisible key */
} gyre_adaptive_gradients;

/* *bytes = scratch for gyre_adaptive_attention (gradient 0) or gyre_adaptive_gradient (gradient 1), not 0.  Data of views
 * is not read; only whether bias is NULL matters.  The size grows with exec->concurrency and heads x (channels and the
 * hidden width), for the gradient also with keys x channels; never with n x n.  The size for some queries, keys and batch
 * rows suffices for every call with fewer of them and a smaller exec. */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_adaptive_scratch(const gyre_adaptive_args *args, int gradient,
                                                           const gyre_exec *exec, size_t *bytes, gyre_error *err);

/* out[b][m][h][:] = sum over n of softmax(s[m])[h][n] v[b][n][h / group][:], group = query heads / key heads.
 * Rows: a row without a key is zeros, its lse -infinity.  Invisible keys cannot leak into a row, not even infinite or NaN
 * ones.  A NaN of a visible pair reaches all heads of its query, because the network reads all of them.
 * Bits: the rows of a query have the same bits for any split of the queries of its sequence into calls (causal: whole, in
 * pieces, token by token over the keys so far), packed, padded or beside other sequences, and for any number of threads.
 * Accuracy: absolute biases are rounded to float, because the network reads them; a bias of -100000 has steps of 0.008.
 * Products, the network and weights are of floats; out is rounded once.
 * out and lse overlap neither the inputs nor each other (EINVAL).
 * Limits: at least 1 head, at most 65536 channels and hidden units, other extents below 2^31 (ESHAPE).
 * Errors: EINVAL, ESHAPE, EDTYPE, ERANGE (positions), EUNSUPPORTED (the encoding adds no number to scores), ENOMEM
 * (scratch too small). */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_adaptive_attention(const gyre_adaptive_args *args, gyre_scratch scratch,
                                                             const gyre_exec *exec, gyre_error *err);

/* gyre_adaptive_attention over the keys, values and positions of sequences[b] for batch row b.  args->k, v and k_pos are
 * ignored; args->encoding is NULL or the cache's (else EINVAL).  q_pos NULL, or without data and base, = the queries are
 * the last tokens of their sequences, or the last before k_end.  bias has the keys of the longest sequence; k_first and
 * k_end count within the sequence.  Append first.  A row has the same bits as with an array of the same numbers, for any
 * pages.  Queries past the number of tokens count down from the position of the first.
 * Errors: as gyre_adaptive_attention; EINVAL (no such sequence, q_starts, k_starts); EUNSUPPORTED (a cache with gate sums or
 * several axes). */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_cache_adaptive_attention(const gyre_cache *cache, const int64_t *sequences,
                                                                   const gyre_adaptive_args *args, gyre_scratch scratch,
                                                                   const gyre_exec *exec, gyre_error *err);
/* *bytes = scratch for gyre_cache_adaptive_attention, not 0.  sequences NULL = any sequences, up to
 * max_tokens long.  The size for some queries and tokens suffices for fewer of them and any number of batch rows. */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_cache_adaptive_scratch(const gyre_cache *cache, const int64_t *sequences,
                                                                 const gyre_adaptive_args *args, const gyre_exec *exec,
                                                                 size_t *bytes, gyre_error *err);

/* The gradients of a loss, given dout (as out) and the out and lse that gyre_adaptive_attention wrote.  Scores, hidden
 * units and weights are recomputed tile by tile.  A hidden unit at exactly 0 has the derivative `slope`, as in PyTorch.
 * Gradients of the network and of the table are sums over pairs in a fixed order, in double (the network's: of sums of up
 * to 512 pairs in float).  Gradients overlap neither the inputs nor each other (EINVAL).  k and v may share memory; then
 * the gradient of a shared number is the sum, which the caller adds.
 * Errors: as gyre_adaptive_attention; EINVAL (no lse; a dtable or dbias without its input). */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_adaptive_gradient(const gyre_adaptive_args *args, const gyre_cview *dout,
                                                            const gyre_adaptive_gradients *gradients, gyre_scratch scratch,
                                                            const gyre_exec *exec, gyre_error *err);

#ifdef __cplusplus
}
#endif
#endif /* GYRE_ADAPTIVE_H */
