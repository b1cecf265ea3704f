/* gyre_attention.h: attention with positions, in one pass, and its gradient.  Part of libgyre; gyre.h includes it, and its
 * conventions hold. */
#ifndef GYRE_ATTENTION_H
#define GYRE_ATTENTION_H
#include "gyre/gyre.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The order in which sums over keys and channels are added.
 * FIXED promises: at one tier (GYRE_CPU), the rows of out and lse of a query are the same bits however its sequence is cut
 * into calls (whole, in pieces, token by token), for any number of threads, any other sequences in the batch, padding,
 * page_tokens and capacity of a cache, and for a fork.  Each call has the keys of the sequence from its first one on, and
 * each query sees the same keys in every cut: a causal query with no later token at an equal or lower position, or one whose
 * keys are all there.  Zeros of out and lse are positive, and their NaNs are one NaN.  `weights` are not promised.
 * Calls still differ by LENGTH_POLICY_PREFIX, whose length is that of the call; by dropout, which counts queries in the
 * call; by tokens removed from a cache or shifted, which changes the places of keys; and in xPos's ERANGE, which looks at
 * whole tiles. */
typedef enum gyre_order {
    GYRE_ORDER_FAST, /* up to 8 queries read keys in place and split them, which adds in another order than many queries */
    GYRE_ORDER_FIXED /* by tiles of 128 keys, counted from the first key of the sequence.  Slower with up to 8 queries */
} gyre_order;

/* -- what some calls of attention have beside the others -- */

/* Sequences of a batch that is packed or padded, and what each of them has for itself. */
typedef struct gyre_attention_batch {
    size_t size; /* set by GYRE_INIT */
    /* A packed batch: q and k have batch 1, and sequence s is queries q_starts[s] .. q_starts[s + 1] - 1 and the same of
     * keys.  [sequences + 1] each, from 0 to all tokens, not falling.  NULL = one sequence per batch row.  Where positions
     * have no data, those of each sequence begin at base. */
    const int64_t *q_starts, *k_starts;
    int64_t sequences; /* needed with q_starts; ignored without: 0 = one for each batch row */
    /* Padding: row b (or sequence b) has keys k_first[b] .. k_end[b] - 1, counted in it.  [batch or sequences] each.
     * NULL = from the first, to the last. */
    const int64_t *k_first, *k_end;
    /* BY_ORDER: query q_end[b] - 1 of row (or sequence) b stands beside its key k_end[b] - 1, counted in it.  For queries
     * that are padded on the right as keys are, or not padded beside keys that are.  [batch or sequences], 0 .. queries.
     * NULL = the last query beside the last key, padding included.  Other calls ignore it. */
    const int64_t *q_end;
    /* The context length in use, [batch or sequences], instead of q_pos.context_length; 0 = by length_policy.  For
     * LENGTH_POLICY_PREFIX: highest position of the whole sequence + 1.  NULL = as q_pos.context_length says. */
    const int64_t *context_lengths;
    /* F32 [batch or sequences, 1, query heads, 1]: ALiBi's slopes of each row, for keys before and after the query, within
     * 2^64 of 0.  They take the place of the encoding's, as gyre_encoding_slopes tells those: neither before_scale nor
     * score.slope_scaling divides them.  FlashAttention's alibi_slopes [batch, heads].  Stride 0 broadcasts.  They are
     * constants and have no gradient.  data NULL = the encoding's */
    gyre_cview slopes;
    /* Positions of each head: token t of row b in query head h is at q_pos.data[... + h * q_pos_head_stride], in key head h
     * at k_pos.data[... + h * k_pos_head_stride].  0 = all heads share them.  Others want data.  Each head is then
     * computed as a call of its own (query heads of one key head together where only keys differ), and dk and dv are F32
     * where query heads that share a key differ.  gyre_rotate: see there. */
    int64_t q_pos_head_stride, k_pos_head_stride;
} gyre_attention_batch;

/* Gates that forget: a number for each token and query head, whose difference is added to scores: s[m][n] += c[m] - c[n],
 * after the scale and before the softcap.  In the Forgetting Transformer (arXiv 2503.02130) c is the running sum of log
 * forget gates, as gyre_gate_sums adds them.  c = -slope x position is ALiBi for keys before the query.  F32 or F64
 * [batch, query or key, query heads, 1], in any order of memory; F64 keeps the differences of large sums.  Packed and
 * padded as q and k.  Both or neither; data NULL = none.  Attention over a cache reads those of the keys that it keeps, and
 * ignores k.  They combine with every encoding.  An infinite or NaN c of a visible pair makes the row NaN; that of a
 * masked key does not. */
typedef struct gyre_attention_gates {
    size_t size; /* set by GYRE_INIT */
    gyre_cview q, k;
} gyre_attention_gates;

/* Dropout of weights. */
typedef struct gyre_attention_dropout {
    size_t size;   /* set by GYRE_INIT */
    double rate;   /* in [0, 1): a weight becomes 0 with this probability, else is divided by 1 - rate; 0 = none */
    uint64_t seed; /* the draw depends on seed, sequence, query head, and on query and key counted from 0 in their sequence,
                    * padding included.  Forward and gradient agree for any threads.  0 = the seed 0 */
} gyre_attention_dropout;

/* The weights of some queries, for pictures. */
typedef struct gyre_attention_weights {
    size_t size;   /* set by GYRE_INIT */
    gyre_view out; /* F32 [batch, n, query heads, key]: softmax of queries first .. first + n - 1, without dropout.  Packed:
                    * [1, n, query heads, keys of the longest sequence], queries counted in the call, keys in their sequence,
                    * 0 past its last.  data NULL = not wanted */
    int64_t first; /* 0 = from the first query on */
} gyre_attention_weights;

/* A part: some queries of a sequence with some of its keys, for keys that are split over calls or machines
 * (docs/sharding.md). */
typedef struct gyre_attention_part {
    size_t size; /* set by GYRE_INIT */
    /* The rows so far: F64 [batch, query, query heads, 2 + channels of v], last stride 1: the largest score, the sum of
     * exp(score - largest), and the sum of values times exp(score - largest) (after dropout).  Read, and written with the
     * keys of this call added; all zeros: no key yet.  out and lse, where wanted, are of all keys so far: give them, and
     * sink_logits, to the last call alone.  With state, out.data may be NULL, and then all of out is ignored.  ORDER_FAST:
     * the keys of the call are summed by themselves and added, in double.  ORDER_FIXED: the sum goes on where it stands, so
     * calls whose keys follow each other have the bits of one call with all of them.  Each call but the last has a multiple
     * of 128 keys, and with ALiBi, KERPLE and gates each query sees a key at its own position, without a mask.  Not with
     * weights (EINVAL).  data NULL = one call has all keys.  The gradient ignores it. */
    gyre_view state;
    /* Place of each token in the sequence that the call has a part of.  data NULL: base, base + 1, ..., in each sequence.
     * Visibility by order and the draw of dropout then go by them, and sinks by order are the keys of index 0 .. sinks - 1.
     * Both or none; NULL = the call has the sequence, as q_end and k_first say. */
    const gyre_positions *q_index, *k_index;
} gyre_attention_part;

/* -- attention with all its options -- */

/* What every call has.  The pointers at the end are of what few have; NULL = none. */
typedef struct gyre_attention_args {
    size_t size;                   /* set by GYRE_INIT */
    const gyre_encoding *encoding; /* NULL = none, or applied before */
    const gyre_tables *tables;     /* NULL = none */
    gyre_cview q, k, v;            /* [batch, query or key, head, channel], each F32, F16 or BF16; query heads are a multiple
                                    * of key heads; needed */
    gyre_positions q_pos, k_pos;   /* q_pos.context_length is that of the call; 0 = by length_policy.  That of k_pos is
                                    * ignored.  All 0 = positions 0, 1, 2, ... (over a cache: the last tokens); with
                                  * causal BY_POSITION fewer queries than keys need a base or data */
    double scale;                  /* of q.k, q.A and k.B; finite as a float; 0 = 1 / sqrt(head_dim), DeBERTa:
                                    * 1 / sqrt(head_dim (1 + terms)), TAPA, whose phase it leaves alone:
                                    * 1 / sqrt(score.amplitudes) */
    double softcap; /* c > 0: a score s, biases included, becomes c tanh(s / c) before the mask: Gemma 2.  0 = none */
    gyre_causal causal;
    gyre_order order; /* the gradient has one order for all calls and ignores it */
    int64_t window;   /* a query at m sees keys with |m - n| < window; 0 = all.  window_after sets the side of later keys */
    /* A window with two sides: m - n < window for keys before the query, n - m < window_after for keys after it; 0 = window.
     * window 0 and window_after set: all keys before.  FlashAttention's window_size (left, right) is window = left + 1 and
     * window_after = right + 1.  Causal calls see no key after the query and ignore it. */
    int64_t window_after;
    int64_t sinks;          /* and keys at positions below this, whatever the window: StreamingLLM, arXiv 2309.17453.
                             * BY_ORDER: the first keys, from k_first on.  0 = none */
    gyre_cview mask;        /* F32, F16 or BF16 [batch, query, query heads, key], added to scores; -infinity = masked.
                             * Stride 0 broadcasts.  data NULL = none.  Packed: [1, all queries, query heads, keys of the
                             * longest sequence], keys counted in their sequence */
    gyre_cview sink_logits; /* F32 [1, 1, query heads, 1]: a score without a key takes its part of each softmax: gpt-oss.
                             * data NULL = none */
    gyre_view out;          /* F32, F16 or BF16 [batch, query, query heads, channels of v]; needed, but for part->state */
    gyre_view lse;          /* F32 or F64 [batch, query, query heads, 1]: log-sum-exp of each row; data NULL = not wanted */
    const gyre_attention_batch *batch;
    const gyre_attention_gates *gates;
    const gyre_attention_dropout *dropout;
    const gyre_attention_weights *weights;
    const gyre_attention_part *part;
} gyre_attention_args;

/* *bytes = scratch that gyre_attention (gradient 0) or gyre_attention_gradient (gradient 1) needs, not 0.  Memory, tables,
 * positions and lse are not looked at, but whether there are gate sums is.  Promise: the size for some queries, keys and
 * batch rows serves every call that differs only in having fewer of them, in where its positions begin, and in a smaller
 * exec.  Packed: fewer tokens in all, cut in any way.  Padded: any k_first and k_end.  So it can be taken once for the
 * largest.  It grows with tokens x head_dim, tables and exec->concurrency, never with n x n.
 * Errors: those of the call in shapes and numbers. */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_attention_scratch(const gyre_attention_args *args, int gradient,
                                                            const gyre_exec *exec, size_t *bytes, gyre_error *err);
/* out[b][m][h][:] = sum over visible n of a[m][n] (v[b][n][h / group][:] + V[r]),
 * a[m] = softmax over n of scale (E(m)q . E(n)k + q . A[r] + k . B[r]) + b(h, m, n) + c[m] - c[n], r = r(m, n),
 * group = query heads / key heads.
 * TAPA has (q_A . k_A) cos(2 pi |m - n|^exponent (q_P . k_P) / sqrt(channels of P)) in place of E(m)q . E(n)k.
 * Transformer-XL adds scale (u . k + v . A[r]).  The temperature scales q in both products with it, not u, v and k . B.
 * ReRoPE, leaky ReRoPE and Self-Extend use the far rotation where m - n >= rope.far_window; Dual Chunk Attention rotates by
 * the chunks of m and n (gyre_far).
 * Rows: a row without a visible key, or with all scores -infinity, is zeros, its lse -infinity (or that of its sink logit).
 * A weight of exactly 0 adds nothing, even of an infinite or NaN value: masked keys cannot leak.
 * Accuracy: sums are of floats; f16 and bf16 are widened when read, and out is rounded once.  Biases that fall without bound
 * (ALiBi, KERPLE, gates) are formed relative to the row's nearest visible key before they are rounded, so far keys keep
 * their differences.  Under softcap the whole score is needed and they do not.  lse has the whole bias, rounded to float.
 * TAPA's phases are products of floats: off by 2 pi |m - n|^exponent times the error of (q_P . k_P) / sqrt(channels of P).
 * out, lse and weights may not overlap q, k, v, the mask, the sink logits or each other (EINVAL).  Elements count, not the
 * memory between them: out may lie between the rows of q.
 * Limits: at least 1 head, at most 65536 channels, other extents below 2^31 (ESHAPE).
 * Errors: EINVAL, ESHAPE, EDTYPE, ERANGE (positions; xPos: tokens of one tile, 128 keys or 64 queries in order, so far apart
 * that a pair falls below 2^-100: 28000 positions at xpos_base 512), EUNSUPPORTED (xPos and far distances without
 * CAUSAL_BY_POSITION), ENOMEM (scratch too small). */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_attention(const gyre_attention_args *args, gyre_scratch scratch,
                                                    const gyre_exec *exec, gyre_error *err);

/* Rows whose keys were split over several calls, added up. */
typedef struct gyre_attention_merge_args {
    size_t size; /* set by GYRE_INIT */
    /* [parts]: the state that each wrote, begun with zeros.  They are added in this order, so pass them in the order of
     * their keys, not in that of their arrival: then the bits repeat. */
    const gyre_cview *states;
    int64_t parts;          /* at least 1; needed */
    gyre_cview sink_logits; /* as in gyre_attention_args, in which no part had them; data NULL = none */
    gyre_view out, lse;     /* as in gyre_attention_args; data NULL = not wanted */
} gyre_attention_merge_args;
/* out, lse = rows over the keys of all parts, summed in double.  No output overlaps an input or the other output (EINVAL).
 * Errors: EINVAL, ESHAPE, EDTYPE. */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_attention_merge(const gyre_attention_merge_args *args, const gyre_exec *exec,
                                                          gyre_error *err);

/* -- for trainers: the gradient of attention -- */

typedef struct gyre_attention_gradients {
    size_t size;                        /* set by GYRE_INIT */
    gyre_cview dout;                    /* of the loss to out: F32, F16 or BF16, shaped as it */
    gyre_view dq, dk, dv;               /* shaped as q, k and v, each F32 or of the input's type: overwritten */
    const gyre_table_gradients *tables; /* tables inside attention, and sink_logits: added to; NULL = none wanted */
    gyre_view dq_gates, dk_gates;       /* to gates: F32 or F64, shaped alike, overwritten.  That to log gates is
                                         * gyre_gate_sums_gradient of both.  That of queries is 0 but for rounding, softcap
                                         * and sink logits, because a softmax does not change when a row shifts.  data NULL =
                                         * not wanted */
    int accumulate; /* 1 = dq, dk and dv, which are F32, and the gradients to gates are added to; lse is F64 and, like out,
                     * of all keys of the row */
} gyre_attention_gradients;
/* gradients = those of a loss, given its dout and the out and lse that gyre_attention wrote.  Those of tables are added in a
 * fixed order.  Weights are recomputed tile by tile.  dq, dk and dv may not overlap the inputs (dout, out and lse included)
 * or each other (EINVAL).  k and v may share memory (latents, whose values are channels of the keys); then the gradient to a
 * shared number is the sum of its dk and its dv, which the caller adds.  args->weights is ignored.
 * A part (accumulate): out and lse are those of the whole row, and the gradients of all parts of a row or of a key, added
 * up, are those of one call.  Each part adds to table gradients what its pairs give.  sink_logits goes to one part of each
 * query.
 * Errors: as gyre_attention; EINVAL (no lse); EDTYPE (dk or dv not F32 where queries of a sequence differ in their context
 * length, LENGTH_POLICY_CAUSAL, or query heads of a key head in their positions). */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_attention_gradient(const gyre_attention_args *args,
                                                             const gyre_attention_gradients *gradients, gyre_scratch scratch,
                                                             const gyre_exec *exec, gyre_error *err);

/* -- gates that forget -- */

typedef struct gyre_gate_sums_args {
    size_t size;           /* set by GYRE_INIT */
    gyre_cview log_gates;  /* F32, F16, BF16 or F64 [batch, token, heads, 1] */
    const int64_t *starts; /* [sequences + 1] as q_starts, for batch 1: each document of a packed batch begins at 0.  NULL =
                            * one sequence per batch row */
    int64_t sequences;     /* needed with starts; ignored without: 0 = one for each batch row */
    gyre_cview before; /* F64 [batch or sequences, 1, heads, 1], the sum before the first token, for a sequence that comes in
                        * pieces; pieces have the bits of one call.  data NULL = 0 */
    gyre_view sums;    /* F64, or F32 for short sequences; shaped as log_gates; the same view as it, or apart from it */
} gyre_gate_sums_args;
/* sums[b][t][h] = log_gates[b][0][h] + ... + log_gates[b][t][h]: the c of gyre_attention_gates, added in double in the order
 * of tokens.  A gate f in (0, 1] has the log gate ln f; with f = sigmoid(x) that is -ln(1 + exp(-x)).
 * (To forget nothing at a padding token, give it the log gate 0.)
 * The numbers are added as they are: one above 0, as a gate in the place of its logarithm, is no error and makes far keys
 * weigh more; NaN or an infinity is in every sum after it.
 * Errors: EINVAL, ESHAPE, EDTYPE. */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_gate_sums(const gyre_gate_sums_args *args, const gyre_exec *exec, gyre_error *err);
/* dlog_gates[b][t][h] = dsums[0] + dsums[1], added over tokens t and after of the sequence, in double: the gradient of a
 * loss to the log gates, given dq_gates and dk_gates of the same tokens.  dsums[1] may have data NULL.
 * dsums: F32 or F64; dlog_gates: F32, F16, BF16 or F64; all [batch, token, heads, 1].  starts: as in gyre_gate_sums.  No
 * overlap.  Errors: EINVAL, ESHAPE, EDTYPE. */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_gate_sums_gradient(const gyre_cview dsums[2], const int64_t *starts,
                                                             int64_t sequences, const gyre_view *dlog_gates,
                                                             const gyre_exec *exec, gyre_error *err);

#ifdef __cplusplus
}
#endif
#endif /* GYRE_ATTENTION_H */
