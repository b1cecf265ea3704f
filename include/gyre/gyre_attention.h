/* gyre_attention.h: attention with positions, in one pass, and its gradient.  Part of libgyre; gyre.h includes it, and its
 * conventions hold. */
#ifndef GYRE_ATTENTION_H
#define GYRE_ATTENTION_H
#include "gyre/gyre.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The order in which sums over keys and channels are added.
 * FIXED guarantees: at one tier (GYRE_CPU), the rows of out and lse of a query have the same bits for any split of its
 * sequence into calls (whole, in pieces, token by token), any number of threads, any other sequences in the batch,
 * padding, page_tokens and capacity of a cache, and in a fork.  Each call has the keys of the sequence from the first on,
 * and each query sees the same keys in every split: a causal query with no later token at an equal or lower position, or
 * one whose keys are all present.  Zeros of out and lse are positive, and all their NaNs have the same bits.  `weights`
 * are not covered.
 * Calls still differ with LENGTH_POLICY_PREFIX, whose length is that of the call; with dropout, which counts queries in
 * the call; after tokens of a cache are removed or shifted, which changes the places of keys; and in xPos's ERANGE, which
 * is checked for whole tiles. */
typedef enum gyre_order {
    GYRE_ORDER_FAST, /* up to 8 queries read keys in place and split them, which sums in another order than many queries */
    GYRE_ORDER_FIXED /* by tiles of 128 keys, counted from the first key of the sequence.  Slower with up to 8 queries */
} gyre_order;

/* -- options of some calls of attention -- */

/* Sequences of a packed or padded batch, and options of each sequence. */
typedef struct gyre_attention_batch {
    size_t size; /* set by GYRE_INIT */
    /* A packed batch: q and k have batch 1, and sequence s is queries q_starts[s] .. q_starts[s + 1] - 1 and the keys
     * likewise.  [sequences + 1] each, from 0 to all tokens, not decreasing.  NULL = one sequence per batch row.  Without
     * data, positions of each sequence begin at base. */
    const int64_t *q_starts, *k_starts;
    int64_t sequences; /* needed with q_starts; ignored without: 0 = one for each batch row */
    /* Padding: row b (or sequence b) has keys k_first[b] .. k_end[b] - 1, counted within it.  [batch or sequences] each.
     * NULL = from the first, to the last. */
    const int64_t *k_first, *k_end;
    /* BY_ORDER: query q_end[b] - 1 of row (or sequence) b is aligned with its key k_end[b] - 1, counted within it.  For
     * queries padded on the right like the keys, or unpadded queries with padded keys.  [batch or sequences],
     * 0 .. queries.
     * NULL = the last query is aligned with the last key, padding included.  Other calls ignore it. */
    const int64_t *q_end;
    /* The context length in use, [batch or sequences], instead of q_pos.context_length; 0 = by length_policy.  For
     * LENGTH_POLICY_PREFIX: highest position of the whole sequence + 1.  NULL = q_pos.context_length. */
    const int64_t *context_lengths;
    /* F32 [batch or sequences, 1, query heads, 1]: ALiBi's slopes of each row, for keys before and after the query, within
     * 2^64 of 0.  They replace those of gyre_encoding_slopes: neither before_scale nor score.slope_scaling divides them.
     * FlashAttention's alibi_slopes [batch, heads].  Stride 0 broadcasts.  They are constants and have no gradient.  data
     * NULL = the encoding's */
    gyre_cview slopes;
    /* Positions of each head: token t of row b in query head h is at q_pos.data[... + h * q_pos_head_stride], in key head
     * h at k_pos.data[... + h * k_pos_head_stride].  0 = all heads share them.  Others need data.  Each head is then
     * computed as a separate call (query heads of one key head together if only keys differ), and dk and dv must be F32 if
     * query heads that share a key differ.  For gyre_rotate, see there. */
    int64_t q_pos_head_stride, k_pos_head_stride;
} gyre_attention_batch;

/* Forget gates: a number for each token and query head, whose difference is added to scores: s[m][n] += c[m] - c[n], after
 * the scale and before the softcap.  In the Forgetting Transformer (arXiv 2503.02130) c is the running sum of log forget
 * gates, computed by gyre_gate_sums.  c = -slope x position is ALiBi for keys before the query.  F32 or F64 [batch, query
 * or key, query heads, 1], in any order of memory; F64 keeps the differences of large sums.  Packed and padded as q and k.
 * Both or neither; data NULL = none.  Attention over a cache uses the cached gate sums of the keys, and ignores k.  They
 * combine with every encoding.  An infinite or NaN c of a visible pair makes the row NaN; that of a masked key does
 * not. */
typedef struct gyre_attention_gates {
    size_t size; /* set by GYRE_INIT */
    gyre_cview q, k;
} gyre_attention_gates;

/* Dropout of weights. */
typedef struct gyre_attention_dropout {
    size_t size;   /* set by GYRE_INIT */
    double rate;   /* in [0, 1): a weight becomes 0 with this probability, else is divided by 1 - rate; 0 = none */
    uint64_t seed; /* the draw depends on seed, sequence, query head, and on query and key counted from 0 within their
                    * sequence, padding included.  Forward and gradient agree for any threads.  0 = the seed 0 */
} gyre_attention_dropout;

/* The attention weights of some queries, for pictures. */
typedef struct gyre_attention_weights {
    size_t size;   /* set by GYRE_INIT */
    gyre_view out; /* F32 [batch, n, query heads, key]: softmax of queries first .. first + n - 1, without dropout.  Packed:
                    * [1, n, query heads, keys of the longest sequence], queries counted within the call, keys within their
                    * sequence, 0 past its last.  data NULL = not wanted */
    int64_t first; /* 0 = from the first query on */
    int scores;    /* 1 = scores in place of weights: what the softmax reads, with biases, softcap and mask; -infinity where
                    * a key is masked or past the last of its sequence */
} gyre_attention_weights;

/* Some queries of a sequence with some of its keys, for keys that are split over calls or machines (docs/sharding.md). */
typedef struct gyre_attention_part {
    size_t size; /* set by GYRE_INIT */
    /* The rows so far: F64 [batch, query, query heads, 2 + channels of v], last stride 1: the largest score, the sum of
     * exp(score - largest), and the sum of values times exp(score - largest) (after dropout).  Read, and written with the
     * keys of this call added; all zeros: no key yet.  out and lse, if wanted, are of all keys so far: pass them, and
     * sink_logits, only to the last call.  With state, out.data may be NULL, and then all of out is ignored.  ORDER_FAST:
     * the keys of the call are summed separately and added, in double.  ORDER_FIXED: the call continues the sum, so calls
     * with successive keys have the bits of one call with all of them.  Each call but the last has a multiple of 128 keys,
     * and with ALiBi, KERPLE and gates each query sees a key at its own position, without a mask.  Not with weights
     * (EINVAL).  data NULL = one call has all keys.  The gradient ignores it. */
    gyre_view state;
    /* Index of each token in the whole sequence.  data NULL: base, base + 1, ..., in each sequence.  Visibility by order
     * and the draw of dropout then use them, and sinks by order are the keys of index 0 .. sinks - 1.
     * Both or none; NULL = the call has the whole sequence, with q_end and k_first. */
    const gyre_positions *q_index, *k_index;
} gyre_attention_part;

/* -- attention with all its options -- */

/* The arguments of attention.  The pointers at the end are options of few calls; NULL = none. */
typedef struct gyre_attention_args {
    size_t size;                   /* set by GYRE_INIT */
    const gyre_encoding *encoding; /* NULL = none, or applied before */
    const gyre_tables *tables;     /* NULL = none */
    gyre_cview q, k, v;            /* [batch, query or key, head, channel], each F32, F16 or BF16; k and v also in blocks,
                                    * Q8_0 or Q4_0 (not in the gradient); or all F64, as are out, lse and dout then;
                                    * query heads are a multiple of key heads; needed */
    gyre_positions q_pos, k_pos;   /* q_pos.context_length is that of the call; 0 = by length_policy.  That of k_pos is
                                    * ignored.  All 0 = positions 0, 1, 2, ... (over a cache: the last tokens) */
    double scale;                  /* of q.k, q.A and k.B; finite as a float; 0 = 1 / sqrt(head_dim), DeBERTa:
                                    * 1 / sqrt(head_dim (1 + terms)), TAPA (whose phase is not scaled):
                                    * 1 / sqrt(score.amplitudes), INKLING (whose bias is not scaled):
                                    * 1 / sqrt(head_dim - relative_channels) */
    double softcap; /* c > 0: a score s, biases included, becomes c tanh(s / c) before the mask: Gemma 2.  0 = none */
    gyre_causal causal;
    gyre_order order; /* the gradient has one order for all calls and ignores it */
    int64_t window;   /* a query at m sees keys with |m - n| < window; 0 = all.  window_after sets the side of later keys */
    /* A window with two sides: m - n < window for keys before the query, n - m < window_after for keys after it; 0 = window.
     * window 0 and window_after set: all keys before.  FlashAttention's window_size (left, right) is window = left + 1 and
     * window_after = right + 1.  Causal calls see no key after the query and ignore it. */
    int64_t window_after;
    int64_t sinks;          /* keys at positions below this are visible outside the window: StreamingLLM, arXiv 2309.17453.
                             * BY_ORDER: the first keys, from k_first on.  0 = none */
    gyre_cview mask;        /* F32, F16 or BF16, with q in F64 also F64, [batch, query, query heads, key], added to scores;
                             * -infinity = masked.
                             * Stride 0 broadcasts.  data NULL = none.  Packed: [1, all queries, query heads, keys of the
                             * longest sequence], keys counted within their sequence */
    gyre_cview sink_logits; /* F32, with q in F64 also F64, [1, 1, query heads, 1]: an additional logit without a key in each
                             * softmax: gpt-oss.  data NULL = none */
    gyre_view out;          /* F32, F16, BF16, or F64 as q, [batch, query, query heads, channels of v]; needed, except with
                             * part->state */
    gyre_view lse;          /* F32 or F64, with q in F64 F64, [batch, query, query heads, 1]: log-sum-exp of each row; data
                             * NULL = not wanted */
    const gyre_attention_batch *batch;
    const gyre_attention_gates *gates;
    const gyre_attention_dropout *dropout;
    const gyre_attention_weights *weights;
    const gyre_attention_part *part;
} gyre_attention_args;

/* *bytes = scratch for gyre_attention (gradient 0) or gyre_attention_gradient (gradient 1), not 0.  Data of views, tables,
 * positions and lse are not read; only whether gate sums are present matters.  The size for some queries, keys and batch
 * rows suffices for every call that differs only in having fewer of them, in its first positions, and in a smaller exec.
 * Packed: fewer tokens in all, split in any way.  Padded: any k_first and k_end.  So it can be computed once for the
 * largest call.  It grows with tokens x head_dim, tables and exec->concurrency, never with n x n.
 * Errors: those of the call in shapes and numbers. */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_attention_scratch(const gyre_attention_args *args, int gradient,
                                                            const gyre_exec *exec, size_t *bytes, gyre_error *err);
/* out[b][m][h][:] = sum over visible n of a[m][n] (v[b][n][h / group][:] + V[r]),
 * a[m] = softmax over n of scale (E(m)q . E(n)k + q . A[r] + k . B[r]) + b(h, m, n) + c[m] - c[n], r = r(m, n),
 * group = query heads / key heads.
 * TAPA has (q_A . k_A) cos(2 pi |m - n|^exponent (q_P . k_P) / sqrt(channels of P)) in place of E(m)q . E(n)k.
 * Inkling adds t(m) r . P[m - n] at distances 0 .. score.max_distance - 1, r the last channels of q and t the temperature.
 * Transformer-XL adds scale (u . k + v . A[r]).  The temperature scales q in both of its products, not u, v and k . B.
 * ReRoPE, leaky ReRoPE and Self-Extend use the far rotation if m - n >= rope.far_window; Dual Chunk Attention rotates by
 * the chunks of m and n (gyre_far).
 * Rows: a row without a visible key, or with all scores -infinity, is zeros, its lse -infinity (or that of its sink logit).
 * A weight of exactly 0 adds nothing, even of an infinite or NaN value: masked keys cannot leak.
 * Accuracy: sums are of floats; f16 and bf16 are widened when read, and out is rounded once.  Biases that decrease without
 * bound (ALiBi, KERPLE, gates) are computed relative to the row's nearest visible key before rounding, so far keys keep
 * their differences.  Softcap needs the whole score, and loses them.  lse has the whole bias, rounded to float.
 * TAPA's phases are products of floats: error 2 pi |m - n|^exponent times that of (q_P . k_P) / sqrt(channels of P).
 * F64: q, k, v and out are doubles, and so is all arithmetic: rotation, scores, softmax and biases, which are then not
 * relative to a key.  For checks of gradients: it is slow.  Both orders are FIXED, for dq too; threads change no gradient.
 * Not with part->state (EUNSUPPORTED), and not over a cache or pages (EDTYPE).  Weights are F32.
 * out, lse and weights may not overlap q, k, v, the mask, the sink logits or each other (EINVAL).  Only elements count, not
 * the memory between them: out may interleave with the rows of q.
 * Limits: at least 1 head, at most 65536 channels, other extents below 2^31 (ESHAPE).
 * Errors: EINVAL, ESHAPE, EDTYPE, ERANGE (positions; xPos: tokens of one tile, 128 keys or 64 queries in order, so far apart
 * that a pair falls below 2^-100: 28000 positions at xpos_base 512), EUNSUPPORTED (xPos and far distances without
 * CAUSAL_BY_POSITION), ENOMEM (scratch too small). */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_attention(const gyre_attention_args *args, gyre_scratch scratch,
                                                    const gyre_exec *exec, gyre_error *err);

/* -- a call that is prepared once, for many runs -- */

/* A call of gyre_attention with its checks, its plan and its scratch memory: for a loop of many small calls, each of which
 * would take longer to check and plan than to compute. */
typedef struct gyre_prepared_attention gyre_prepared_attention;
/* *out = that call.  args: as of gyre_attention.  The data of q, k, v and out may be NULL, and is then needed in each run.
 * lse is written if it has data here.  All else that args point to is borrowed, must outlive the object, and is read in each
 * run.  exec is copied, and used in each run.
 * Errors: those of gyre_attention_scratch; ENOMEM. */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_prepared_attention_create(gyre_prepared_attention **out,
                                                                    const gyre_attention_args *args, const gyre_exec *exec,
                                                                    const gyre_alloc *alloc, gyre_error *err);
GYRE_API void gyre_prepared_attention_free(gyre_prepared_attention *prepared); /* NULL is fine */
/* What differs from run to run.  A pointer of NULL = that of the last run, refused or not, or of creation. */
typedef struct gyre_attention_memory {
    size_t size;            /* set by GYRE_INIT */
    const void *q, *k, *v;  /* the data of the views; NULL = as before */
    void *out, *lse;        /* lse: only if it had data at creation; NULL = as before */
    int64_t keys;           /* the run has the first `keys` keys of k, v, the mask and the gates; 0 = as many as at creation,
                              * which is the most */
    int64_t q_base, k_base; /* positions without data: those of token 0; 0 = position 0 */
} gyre_attention_memory;
/* gyre_attention with this memory, and its bits.  It allocates nothing.  Positions with data are read where they were.
 * The first run makes every check.  Later ones of a call without batch, length policy, gates, weights, part, mask and
 * tables check only addresses, overlap and positions; one query over few keys (256 KB with values) then costs a fraction of
 * a microsecond beside its work.  One run at a time.
 * Errors: those of gyre_attention; EINVAL (prepared NULL, keys, an lse that was NULL at creation). */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_prepared_attention_run(gyre_prepared_attention *prepared,
                                                                 const gyre_attention_memory *memory, gyre_error *err);

/* -- keys and values in pages of your own -- */

/* Keys and values of sequences in pages, and the table of pages of FlashInfer (indptr) or of vLLM (lengths). */
typedef struct gyre_pages {
    size_t size;            /* set by GYRE_INIT */
    gyre_cview k, v;        /* [pages, tokens of a page, key heads, channels], F32, F16, BF16, Q8_0 or Q4_0, any strides:
                             * NHD and HND */
    const int32_t *indices; /* the pages of each sequence, in order; needed */
    /* FlashInfer: sequence s has pages indices[indptr[s]] .. indices[indptr[s + 1] - 1], the last of which has
     * last_page_len[s] tokens, 1 .. tokens of a page.  [sequences + 1] and [sequences]; needed without lengths. */
    const int32_t *indptr, *last_page_len;
    /* vLLM: sequence s has lengths[s] tokens, in pages from indices[s * row_stride] on.  [sequences]; NULL = FlashInfer's */
    const int32_t *lengths;
    int64_t row_stride; /* needed with lengths; ignored without */
    int64_t sequences;  /* 0 = none; with q_starts, batch->sequences of the call */
} gyre_pages;
/* gyre_attention over keys and values in pages: batch row s, or with batch->q_starts queries q_starts[s] ..
 * q_starts[s + 1] - 1, see the tokens of sequence s.  The bits are those of a call over dense keys.  args->k and v are
 * ignored.  Keys of sequence s are at positions k_pos.base, + 1, ..., or, with data, at those of row s.  q_pos.data NULL and
 * base 0, without k_pos.data: the queries are the last tokens, or the last before k_end; with q_end, query q_end - 1 is the
 * last one before k_end.  An encoding rotates raw keys as they are read; NULL = they are rotated, as is q.
 * mask and weights have the keys of the longest sequence; entries past the end of a shorter one are not read, and weights
 * there are 0.  gates->k is in pages too: [pages, tokens of a page, query heads, 1].  With q_starts, mask, state, gates->q
 * and the indices of part have the queries of all sequences in one batch row.
 * Errors: as gyre_attention; EINVAL (a page that is not there, k_starts); EUNSUPPORTED (dropout). */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_paged_attention(const gyre_attention_args *args, const gyre_pages *pages,
                                                          gyre_scratch scratch, const gyre_exec *exec, gyre_error *err);
/* *bytes = scratch for gyre_paged_attention, not 0.  That for some queries and tokens of a sequence suffices for fewer. */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_paged_attention_scratch(const gyre_attention_args *args, const gyre_pages *pages,
                                                                  const gyre_exec *exec, size_t *bytes, gyre_error *err);

/* Keys in pages, rotated in place. */
typedef struct gyre_rotate_pages_args {
    size_t size;             /* set by GYRE_INIT */
    const gyre_pages *pages; /* the table; its k and v are ignored; needed */
    gyre_view k;             /* as k of gyre_pages, to be written */
    const int64_t *firsts;   /* [sequences]: tokens firsts[s] .. the last of sequence s are rotated; NULL = all */
    int64_t base;            /* position of token 0 of each sequence; 0 = position 0 */
    int64_t context_length;  /* as in gyre_positions; 0 = the encoding's own */
} gyre_rotate_pages_args;
/* gyre_rotate of keys at positions base + firsts[s], ..., in place, and its bits: of the tokens that came last.  Pages
 * that sequences share are rotated once for each sequence whose tokens they are, so pass only those that are new.
 * Errors: as gyre_rotate; EINVAL (a page that is not there, firsts outside the sequence). */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_rotate_pages(const gyre_encoding *encoding, const gyre_rotate_pages_args *args,
                                                       const gyre_exec *exec, gyre_error *err);

/* Slice index of count of gyre_attention: some of the key heads with their query heads, and with more slices than key heads
 * some of the batch rows.  All slices together are the call, with its bits, and all fail if it does.  Each has its scratch
 * memory, of the size that gyre_attention_scratch returns with exec NULL.
 * Errors: those of gyre_attention; EINVAL (slice), EUNSUPPORTED (dropout). */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_attention_slice(const gyre_attention_args *args, gyre_slice slice,
                                                          gyre_scratch scratch, gyre_error *err);

/* States of rows whose keys were split over several calls. */
typedef struct gyre_attention_merge_args {
    size_t size; /* set by GYRE_INIT */
    /* [parts]: the state of each part, zeros before its first call.  They are added in this order, so pass them in the
     * order of their keys, not of their arrival: then the bits are reproducible. */
    const gyre_cview *states;
    int64_t parts;          /* at least 1; needed */
    gyre_cview sink_logits; /* as in gyre_attention_args; no part had them; data NULL = none */
    gyre_view out, lse;     /* as in gyre_attention_args; data NULL = not wanted */
} gyre_attention_merge_args;
/* out, lse = rows over the keys of all parts, summed in double.  No output overlaps an input or the other output (EINVAL).
 * Errors: EINVAL, ESHAPE, EDTYPE. */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_attention_merge(const gyre_attention_merge_args *args, const gyre_exec *exec,
                                                          gyre_error *err);

/* -- for trainers: the gradient of attention -- */

typedef struct gyre_attention_gradients {
    size_t size;                        /* set by GYRE_INIT */
    gyre_cview dout;                    /* gradient of the loss for out: F32, F16, BF16, or F64 as q, shaped as out */
    gyre_view dq, dk, dv;               /* shaped as q, k and v, each F32 or of the input's type: overwritten */
    const gyre_table_gradients *tables; /* for tables inside attention, and sink_logits: added to; NULL = none wanted */
    gyre_view dq_gates, dk_gates;       /* for gates: F32 or F64, shaped alike, overwritten.  The gradient for log gates is
                                         * gyre_gate_sums_gradient of both.  That of queries is 0 except for rounding,
                                         * softcap and sink logits, because a softmax is invariant to a shift of the row.
                                         * data NULL = not wanted */
    int accumulate;  /* 1 = dq, dk and dv, which are F32 or F64, and the gradients for gates are added to; lse is F64 and,
                     * like out, of all keys of the row */
    gyre_cview dlse; /* gradient of the loss for lse: F32 or F64, shaped as lse; that of a row without keys is not looked at.
                      * data NULL = 0 */
} gyre_attention_gradients;
/* gradients = those of a loss, given dout and the out and lse that gyre_attention wrote.  Those of tables are summed in a
 * fixed order.  Weights are recomputed tile by tile.  dq, dk and dv may not overlap the inputs (dout, out and lse
 * included) or each other (EINVAL).  k and v may share memory (latents, whose values are channels of the keys); then the
 * gradient of a shared number is the sum of its dk and its dv, which the caller adds.  args->weights is ignored.
 * A part (accumulate): out and lse are those of the whole row, and the sum of the gradients over all parts of a row or of
 * a key is that of one call.  Each part adds the contributions of its pairs to table gradients.  Pass sink_logits to one
 * part of each query.
 * Errors: as gyre_attention; EINVAL (no lse); EDTYPE (dk or dv not F32 if queries of a sequence differ in their context
 * length, LENGTH_POLICY_CAUSAL, or query heads of a key head in their positions). */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_attention_gradient(const gyre_attention_args *args,
                                                             const gyre_attention_gradients *gradients, gyre_scratch scratch,
                                                             const gyre_exec *exec, gyre_error *err);

/* -- running sums of what tokens make: log gates that forget, angles -- */

typedef struct gyre_gate_sums_args {
    size_t size;           /* set by GYRE_INIT */
    gyre_cview log_gates;  /* F32, F16, BF16 or F64 [batch, token, heads, columns]: 1 column of gates, of angles as many as
                            * pairs rotate (gyre_angle_rotation) */
    const int64_t *starts; /* [sequences + 1] as q_starts, for batch 1: sums restart at each document of a packed batch.
                            * NULL = one sequence per batch row */
    int64_t sequences;     /* needed with starts; ignored without: 0 = one for each batch row */
    gyre_cview before;     /* F64 [batch or sequences, 1, heads, columns], the sum before the first token, for a sequence in
                        * pieces; pieces have the bits of one call.  data NULL = 0 */
    gyre_view sums;        /* F64, or F32 for short sequences; shaped as log_gates; the same view, or no overlap */
} gyre_gate_sums_args;
/* sums[b][t][h][i] = log_gates[b][0][h][i] + ... + log_gates[b][t][h][i], added in double in the order of tokens: the c of
 * gyre_attention_gates, or the angles of gyre_angle_rotate.  A gate f in (0, 1] has the log gate ln f; with f = sigmoid(x)
 * that is -ln(1 + exp(-x)).
 * (For a padding token that forgets nothing, use the log gate 0.)
 * The error of a sum is at most tokens x 2^-53 of the largest magnitude of a sum up to it.
 * The numbers are not checked: one above 0, such as a gate instead of its logarithm, is not an error and increases the
 * weight of far keys; NaN or an infinity spreads to every later sum.
 * Errors: EINVAL, ESHAPE, EDTYPE. */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_gate_sums(const gyre_gate_sums_args *args, const gyre_exec *exec, gyre_error *err);
/* dlog_gates[b][t][h][i] = dsums[0] + dsums[1], summed over tokens t and later of the sequence, in double: the gradient of
 * a loss for the log gates, given dq_gates and dk_gates of the same tokens.  dsums[1] may have data NULL.
 * dsums: F32 or F64; dlog_gates: F32, F16, BF16 or F64; all [batch, token, heads, columns].  starts: as in gyre_gate_sums.
 * No overlap.  Errors: EINVAL, ESHAPE, EDTYPE. */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_gate_sums_gradient(const gyre_cview dsums[2], const int64_t *starts,
                                                             int64_t sequences, const gyre_view *dlog_gates,
                                                             const gyre_exec *exec, gyre_error *err);

#ifdef __cplusplus
}
#endif
#endif /* GYRE_ATTENTION_H */
