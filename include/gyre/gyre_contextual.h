/* gyre_contextual.h: contextual position encoding (CoPE, Golovneva 2024, arXiv 2405.18719), forward and gradient.  Part of
 * libgyre.  The conventions of gyre.h hold.
 *
 * A query counts keys, weighted by gates.  With a gate for each query m and key n,
 *
 *     g[m][n] = sigmoid(gate_scale q[m] . gate_key[n])
 *     p[m][n] = min(g[m][n] + g[m][n + 1] + ... + g[m][m], positions - 1)
 *     s[m][n] = scale q[m] . k[n] + position_scale q[m] . e(p[m][n])
 *
 * where e(p) interpolates linearly from embedding floor(p) to the next one.  Attention is causal.  ("Clipped RoPE", arXiv
 * 2602.05258, is also called CoPE, but is a rotation.)
 *
 * Paper and released code differ in the scales.  The paper's text has gates of the unscaled q . k (gate_scale 1).  Its
 * listing has gates of the scaled score, and the unscaled q . e: the defaults here.  The released code has position_scale
 * = scale, or 1 with --cope-nodiv.  gate_keys are its --cope-sep-key and --cope-val-gates. */
#ifndef GYRE_CONTEXTUAL_H
#define GYRE_CONTEXTUAL_H
#include "gyre/gyre_cache.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct gyre_contextual_args {
    size_t size;           /* set by GYRE_INIT */
    gyre_cview q, k, v;    /* [batch, query or key, head, channel]; query heads are a multiple of key heads */
    gyre_cview gate_keys;  /* shaped as k, for the products q . gate_key; data NULL = k */
    gyre_cview embeddings; /* [1, positions, query heads or 1, channels of q]: at least 1 position; heads 1 = all share
                            * them.  These five are F32, F16, BF16 or F64 each, read as F32 */
    double scale;          /* of q . k; 0 = 1 / sqrt(channels of q) */
    double gate_scale;     /* of q . gate_key; 0 = 1 / sqrt(channels of q) */
    double position_scale; /* of q . e; 0 = 1 */
    /* A packed batch: q and k have batch 1, and sequence s is queries q_starts[s] .. q_starts[s + 1] - 1 and the keys
     * likewise.  [sequences + 1] each, from 0 to all tokens, not decreasing.  NULL = one sequence per batch row. */
    const int64_t *q_starts, *k_starts;
    int64_t sequences; /* needed with q_starts; ignored without: 0 = one for each batch row */
    /* Padding: row b (or sequence b) has keys k_first[b] .. k_end[b] - 1, counted within it.  [batch or sequences] each.
     * NULL = from the first, to the last. */
    const int64_t *k_first, *k_end;
    gyre_view out; /* F32, F16, BF16 or F64 [batch, query, query heads, channels of v] */
    gyre_view lse; /* F32 or F64 [batch, query, query heads, 1]: log-sum-exp of each row; data NULL = not wanted */
} gyre_contextual_args;

/* Outputs of gyre_contextual_gradient.  data NULL = not wanted. */
typedef struct gyre_contextual_gradients {
    size_t size;                      /* set by GYRE_INIT */
    gyre_view dq, dk, dv, dgate_keys; /* shaped as q, k, v and gate_keys, F32, F16, BF16 or F64: overwritten.  Without
                                       * gate_keys dk includes the gradient through the gates, and dgate_keys must be
                                       * NULL */
    gyre_view dembeddings;            /* shaped as the embeddings, F32 or F64: added to */
} gyre_contextual_gradients;

/* *bytes = scratch for gyre_contextual_attention (gradient 0) or gyre_contextual_gradient (gradient 1), not 0.  Data of
 * views is not read; only whether gate_keys is NULL matters.  The size grows with exec->concurrency and positions x
 * channels, for the gradient also with keys x channels; never with n x n.  The size for some queries, keys, positions and
 * batch rows suffices for every call with fewer of them and a smaller exec. */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_contextual_scratch(const gyre_contextual_args *args, int gradient,
                                                             const gyre_exec *exec, size_t *bytes, gyre_error *err);

/* out[b][m][h][:] = sum over n of softmax(s[m])[n] v[b][n][h / group][:], group = query heads / key heads.  The last query
 * of a sequence is aligned with its last key; each earlier query sees one key fewer than the next.
 * Rows: a row without a key is zeros, its lse -infinity.  Invisible keys cannot leak into a row, not even infinite or NaN
 * ones.
 * Bits: the rows of a query have the same bits for any split of its sequence into calls (whole, in pieces, token by token
 * over the keys so far), packed, padded or beside other sequences, and for any number of threads.
 * Accuracy: products and weights are of floats, positions are summed in double; out is rounded once.
 * out and lse overlap neither the inputs nor each other (EINVAL).
 * Limits: at least 1 head, at most 65536 channels, at most 2^24 positions, other extents below 2^31 (ESHAPE).
 * Errors: EINVAL, ESHAPE, EDTYPE, ENOMEM (scratch too small). */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_contextual_attention(const gyre_contextual_args *args, gyre_scratch scratch,
                                                               const gyre_exec *exec, gyre_error *err);

/* gyre_contextual_attention over the keys and values of sequences[b] for batch row b.  args->k and v are ignored; k_first
 * and k_end count within the sequence.  The last query is aligned with the last token, or the last before k_end: append
 * before attending.
 * A row has the same bits as with an array of the same numbers, for any pages.
 * Errors: as gyre_contextual_attention; EINVAL (no such sequence, q_starts, k_starts); EUNSUPPORTED (gate_keys; a cache
 * with an encoding, because queries count positions, or with gate sums). */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_cache_contextual_attention(const gyre_cache *cache, const int64_t *sequences,
                                                                     const gyre_contextual_args *args, gyre_scratch scratch,
                                                                     const gyre_exec *exec, gyre_error *err);
/* *bytes = scratch for gyre_cache_contextual_attention, not 0.  sequences NULL = any sequences, up to
 * max_tokens long.  The size for some queries and tokens suffices for fewer of them and any number of batch rows. */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_cache_contextual_scratch(const gyre_cache *cache, const int64_t *sequences,
                                                                   const gyre_contextual_args *args, const gyre_exec *exec,
                                                                   size_t *bytes, gyre_error *err);

/* The gradients of a loss, given dout (as out) and the out and lse that gyre_contextual_attention wrote.  Gates and
 * weights are recomputed tile by tile.  At a position that is a whole number, or positions - 1, e(p) has a corner; the
 * gradient with respect to p is 0 there, as in the released code.  Gradients overlap neither the inputs nor each other
 * (EINVAL).  k, v and gate_keys may share memory; then the gradient of a shared number is the sum, which the caller adds.
 * Errors: as gyre_contextual_attention; EINVAL (no lse). */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_contextual_gradient(const gyre_contextual_args *args, const gyre_cview *dout,
                                                              const gyre_contextual_gradients *gradients,
                                                              gyre_scratch scratch, const gyre_exec *exec, gyre_error *err);

#ifdef __cplusplus
}
#endif
#endif /* GYRE_CONTEXTUAL_H */
