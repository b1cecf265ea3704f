/* attention_setup.h: a call of attention with all its options in one struct, so that a test sets any of them by name and
 * copies calls whole.  Each call makes gyre_attention_args and the structs behind its pointers from it. */
#ifndef GYRE_TESTS_ATTENTION_SETUP_H
#define GYRE_TESTS_ATTENTION_SETUP_H
#include "gyre/gyre_cache.h"

/* The fields of gyre_attention_args, then those of its batch, gates, dropout, weights and part, then what the gradient has
 * beside dout, dq, dk, dv and tables. */
typedef struct attention_setup {
    size_t size;
    const gyre_encoding *encoding;
    const gyre_tables *tables;
    gyre_cview q, k, v;
    gyre_positions q_pos, k_pos;
    double scale, softcap;
    gyre_causal causal;
    gyre_order order;
    int64_t window, window_after, sinks;
    gyre_cview mask, sink_logits;
    gyre_view out, lse;
    const int64_t *q_starts, *k_starts;
    int64_t sequences;
    const int64_t *k_first, *k_end, *q_end, *context_lengths;
    gyre_cview slopes;
    int64_t q_pos_head_stride, k_pos_head_stride;
    gyre_cview q_gate_sums, k_gate_sums;
    double dropout;
    uint64_t seed;
    gyre_view weights;
    int64_t weights_first;
    int weights_are_scores;
    gyre_view state;
    const gyre_positions *q_index, *k_index;
    gyre_view dq_gate_sums, dk_gate_sums;
    int accumulate;
} attention_setup;

/* Memory for the structs of one call. */
typedef struct attention_structs {
    gyre_attention_args args;
    gyre_attention_batch batch;
    gyre_attention_gates gates;
    gyre_attention_dropout dropout;
    gyre_attention_weights weights;
    gyre_attention_part part;
} attention_structs;

static inline void attention_setup_options(const attention_setup *s, attention_structs *to) {
    to->batch = (gyre_attention_batch){.size = sizeof to->batch,
                                       .q_starts = s->q_starts,
                                       .k_starts = s->k_starts,
                                       .sequences = s->sequences,
                                       .k_first = s->k_first,
                                       .k_end = s->k_end,
                                       .q_end = s->q_end,
                                       .context_lengths = s->context_lengths,
                                       .slopes = s->slopes,
                                       .q_pos_head_stride = s->q_pos_head_stride,
                                       .k_pos_head_stride = s->k_pos_head_stride};
    to->gates = (gyre_attention_gates){.size = sizeof to->gates, .q = s->q_gate_sums, .k = s->k_gate_sums};
    to->dropout = (gyre_attention_dropout){.size = sizeof to->dropout, .rate = s->dropout, .seed = s->seed};
    to->weights = (gyre_attention_weights){
        .size = sizeof to->weights, .out = s->weights, .first = s->weights_first, .scores = s->weights_are_scores};
    to->part =
        (gyre_attention_part){.size = sizeof to->part, .state = s->state, .q_index = s->q_index, .k_index = s->k_index};
}

/* out = the arguments in `to`; NULL where s is. */
static inline const gyre_attention_args *attention_setup_args(const attention_setup *s, attention_structs *to) {
    if (!s) return NULL;
    attention_setup_options(s, to);
    const size_t size = s->size == sizeof *s ? sizeof to->args : s->size; /* a wrong size reaches the call */
    to->args = (gyre_attention_args){.size = size,
                                     .encoding = s->encoding,
                                     .tables = s->tables,
                                     .q = s->q,
                                     .k = s->k,
                                     .v = s->v,
                                     .q_pos = s->q_pos,
                                     .k_pos = s->k_pos,
                                     .scale = s->scale,
                                     .softcap = s->softcap,
                                     .causal = s->causal,
                                     .order = s->order,
                                     .window = s->window,
                                     .window_after = s->window_after,
                                     .sinks = s->sinks,
                                     .mask = s->mask,
                                     .sink_logits = s->sink_logits,
                                     .out = s->out,
                                     .lse = s->lse,
                                     .batch = &to->batch,
                                     .gates = &to->gates,
                                     .dropout = &to->dropout,
                                     .weights = &to->weights,
                                     .part = &to->part};
    return &to->args;
}

static inline gyre_status run_attention(const attention_setup *s, gyre_scratch scratch, const gyre_exec *exec,
                                        gyre_error *err) {
    attention_structs structs;
    return gyre_attention(attention_setup_args(s, &structs), scratch, exec, err);
}

/* out = bytes of scratch; 0 where the call is refused. */
static inline size_t attention_scratch(const attention_setup *s, int gradient, const gyre_exec *exec) {
    attention_structs structs;
    size_t bytes = 0;
    return gyre_attention_scratch(attention_setup_args(s, &structs), gradient, exec, &bytes, NULL) ? 0 : bytes;
}

/* out = g, with what s has of a gradient. */
static inline gyre_attention_gradients attention_setup_gradients(const attention_setup *s,
                                                                 const gyre_attention_gradients *g) {
    gyre_attention_gradients all = *g;
    all.dq_gates = s->dq_gate_sums;
    all.dk_gates = s->dk_gate_sums;
    all.accumulate = s->accumulate;
    return all;
}

static inline gyre_status run_attention_gradient(const attention_setup *s, const gyre_attention_gradients *g,
                                                 gyre_scratch scratch, const gyre_exec *exec, gyre_error *err) {
    attention_structs structs;
    const gyre_attention_gradients all = attention_setup_gradients(s, g);
    return gyre_attention_gradient(attention_setup_args(s, &structs), &all, scratch, exec, err);
}

static inline gyre_status run_cache_attention(const gyre_cache *cache, const int64_t *sequences, const attention_setup *s,
                                              gyre_scratch scratch, const gyre_exec *exec, gyre_error *err) {
    attention_structs structs;
    return gyre_cache_attention(cache, sequences, attention_setup_args(s, &structs), scratch, exec, err);
}

static inline size_t cache_attention_scratch(const gyre_cache *cache, const int64_t *sequences, const attention_setup *s,
                                             const gyre_exec *exec) {
    attention_structs structs;
    size_t bytes = 0;
    const gyre_attention_args *args = attention_setup_args(s, &structs);
    return gyre_cache_attention_scratch(cache, sequences, args, exec, &bytes, NULL) ? 0 : bytes;
}

/* out = what is in use; zeros where the cache is NULL. */
static inline gyre_cache_usage cache_usage(const gyre_cache *cache) {
    gyre_cache_usage usage = GYRE_INIT(gyre_cache_usage);
    return gyre_cache_get_usage(cache, &usage) ? (gyre_cache_usage){0} : usage;
}

#endif
