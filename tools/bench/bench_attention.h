/* bench_attention.h: one call of attention that gyre bench attention measures, and its memory. */
#ifndef GYRE_TOOLS_BENCH_ATTENTION_H
#define GYRE_TOOLS_BENCH_ATTENTION_H
#include "gyre/gyre_cache.h"
#include "tools/bench/bench.h"

enum { ATTN_HEAD_DIM = 128, ATTN_HEADS = 32, ATTN_KV_HEADS = 8 };

/* Q, K and V of one type, and what comes of them. */
typedef struct attn_data {
    int64_t queries, keys, heads, key_heads;
    gyre_dtype q_dtype, dtype;        /* dtype: of keys and values */
    void *q, *k, *v, *out;            /* v: right behind k */
    float *lse, *dout, *dq, *dk, *dv; /* NULL but for a gradient */
} attn_data;
/* Random, and the same for all calls.  On failure nothing is held. */
gyre_status attn_data_create(attn_data *data, int gradient, gyre_error *err);
void attn_data_free(attn_data *data);

/* A causal call on such data, which stays the caller's. */
typedef struct attn_call {
    gyre_encoding *encoding;
    gyre_cache *cache; /* NULL = the views of args */
    gyre_tables tables;
    float *table;
    gyre_attention_args args;
    gyre_cview dout;
    gyre_view dqkv[3];
    int gradient; /* 1 = the gradient is what runs */
    void *scratch;
    size_t bytes;
} attn_call;
/* config NULL: no encoding.  head_dim and heads are filled in, and a table where the scheme has one of biases.  scratch: for
 * execs[0 .. count - 1], whichever needs most. */
gyre_status attn_call_create(attn_call *out, const gyre_config *config, const attn_data *data, int gradient,
                             const gyre_exec *execs, int count, gyre_error *err);
/* The same with keys and values in a cache of their type, turned by `config` when they are appended or when they are
 * read. */
gyre_status attn_call_create_cached(attn_call *out, const gyre_config *config, gyre_cache_keys keys, gyre_dtype dtype,
                                    const attn_data *data, const gyre_exec *execs, int count, gyre_error *err);
void attn_call_free(attn_call *call);
/* The arguments alone of a forward call without an encoding: neither scratch nor anything to free. */
void attn_call_init_args(attn_call *out, const attn_data *data);
/* arg: an attn_call. */
gyre_status attn_run(void *arg, const gyre_exec *exec);
size_t attn_scratch_bytes(const attn_call *call, const gyre_exec *exec);

/* Products of scores and of weighted values for the pairs that a causal call sees; a gradient has five products to the
 * forward's two. */
double attn_flops(const attn_data *data, int gradient);
/* Bytes of all keys and values, each once; of Q8 with the floats that they are multiplied by. */
double attn_kv_bytes(const attn_data *data);

/* -- memory -- */
/* Prefill of so many tokens: its scratch, and by how much a process grows in the call (-1 = not known, or not asked for). */
typedef struct attn_memory {
    int64_t tokens, heads, key_heads, threads;
    int64_t scratch, peak;
} attn_memory;
/* peak asked for: call it while the process has one thread. */
gyre_status attn_measure_memory(attn_memory *m, int peak, gyre_error *err);

#endif
