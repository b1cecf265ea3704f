/* bench_attention.h: one attention call of gyre bench attention, and its memory. */
#ifndef GYRE_TOOLS_BENCH_ATTENTION_H
#define GYRE_TOOLS_BENCH_ATTENTION_H
#include "gyre/gyre_cache.h"
#include "tools/bench/bench.h"

enum { ATTN_HEAD_DIM = 128, ATTN_HEADS = 32, ATTN_KV_HEADS = 8 };

/* The inputs and outputs of a call. */
typedef struct attn_data {
    int64_t queries, keys, heads, key_heads;
    gyre_dtype q_dtype, dtype;        /* dtype: of keys and values */
    void *q, *k, *v, *out;            /* v: directly after k */
    float *lse, *dout, *dq, *dk, *dv; /* NULL unless a gradient is measured */
} attn_data;
/* Fills in random numbers, the same for all calls.  On failure nothing is allocated.  Errors: ENOMEM. */
gyre_status attn_data_create(attn_data *data, int gradient, gyre_error *err);
void attn_data_free(attn_data *data);

/* A causal call on data that the caller owns. */
typedef struct attn_call {
    gyre_encoding *encoding;
    gyre_cache *cache; /* NULL = the views of args */
    gyre_tables tables;
    float *table;
    gyre_attention_args args;
    gyre_cview dout;
    gyre_view dqkv[3];
    int gradient; /* 1: runs the gradient */
    void *scratch;
    size_t bytes;
} attn_call;
/* Which call it is.  Zeros: the forward call over views, in the fast order. */
typedef struct attn_options {
    int gradient; /* 1: the gradient, over views */
    gyre_order order;
    int cached;           /* 1: keys and values are in a cache, which has the next two */
    gyre_cache_keys keys; /* whether keys are rotated when they are appended or when they are read */
    gyre_dtype dtype;
} attn_options;
/* config NULL: no encoding; a cache must have one.  head_dim, heads and a bias table, if the scheme has one, are filled in.
 * The scratch is large enough for each of execs[0 .. count - 1].  Errors: EINVAL, ENOMEM, those of gyre_encoding_create. */
gyre_status attn_call_create(attn_call *out, const gyre_config *config, const attn_options *options, const attn_data *data,
                             const gyre_exec *execs, int count, gyre_error *err);
void attn_call_free(attn_call *call);
/* Sets only the arguments of a forward call without an encoding: no scratch, nothing to free. */
void attn_call_init_args(attn_call *out, const attn_data *data);
/* arg: an attn_call. */
gyre_status attn_run(void *arg, const gyre_exec *exec);
size_t attn_scratch_bytes(const attn_call *call, const gyre_exec *exec);

/* out = floating-point operations of the matrix products for the visible pairs of a causal call: two products forward, five
 * for a gradient. */
double attn_flops(const attn_data *data, int gradient);
/* out = bytes of all keys and values; of Q8 including the scales. */
double attn_kv_bytes(const attn_data *data);

/* -- memory -- */
/* A prefill: the scratch it needs, and the growth of a process during the call (-1 = not known or not measured). */
typedef struct attn_memory {
    int64_t tokens, heads, key_heads, threads;
    int64_t scratch, peak;
} attn_memory;
/* peak 1: also measures the growth; call it while the process has one thread. */
gyre_status attn_measure_memory(attn_memory *m, int peak, gyre_error *err);

#endif
