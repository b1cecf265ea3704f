/* bench_attention_call.c: the memory and the arguments of one call of gyre bench attention. */
#include "tools/bench/bench_attention.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* -- numbers -- */
/* Converts a number in -1 .. 1 to a 16-bit type.  Truncates, because only speed is measured. */
static uint16_t truncate_float(float x, gyre_dtype dtype) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    if (dtype == GYRE_DTYPE_BF16) return (uint16_t)(bits >> 16);
    const uint32_t sign = bits >> 31 << 15, exponent = bits >> 23 & 0xff;
    return (uint16_t)(exponent < 113 ? sign : sign | (exponent - 112) << 10 | (bits >> 13 & 0x3ff));
}

/* Fills in `count` random numbers in -1 .. 1. */
static void fill(void *data, gyre_dtype dtype, int64_t count, uint64_t seed) {
    for (int64_t i = 0; i < count; i++) {
        const float x = -1 + 2 * (float)bench_random(&seed);
        if (dtype == GYRE_DTYPE_F32)
            ((float *)data)[i] = x;
        else
            ((uint16_t *)data)[i] = truncate_float(x, dtype);
    }
}

/* -- data -- */
static void *alloc_random(int64_t count, gyre_dtype dtype, uint64_t seed) {
    void *memory = bench_alloc_huge((size_t)count * gyre_dtype_size(dtype));
    if (memory) fill(memory, dtype, count, seed);
    return memory;
}

static void *alloc_bytes(int64_t bytes) {
    void *memory = bench_alloc_huge((size_t)bytes);
    if (memory) memset(memory, 1, (size_t)bytes);
    return memory;
}

gyre_status attn_data_create(attn_data *d, int gradient, gyre_error *err) {
    const int64_t q = d->queries * d->heads * ATTN_HEAD_DIM, k = d->keys * d->key_heads * ATTN_HEAD_DIM;
    d->q = alloc_random(q, d->q_dtype, 1);
    d->k = d->dtype == GYRE_DTYPE_Q8 ? alloc_bytes((int64_t)attn_kv_bytes(d)) : alloc_random(2 * k, d->dtype, 2);
    d->v = d->k ? (char *)d->k + (size_t)k * gyre_dtype_size(d->dtype) : NULL;
    d->out = alloc_random(q, d->q_dtype, 4);
    d->lse = d->dout = d->dq = d->dk = d->dv = NULL;
    int failed = !d->q || !d->k || !d->out;
    if (gradient) {
        d->lse = alloc_random(d->queries * d->heads, GYRE_DTYPE_F32, 5);
        d->dout = alloc_random(q, GYRE_DTYPE_F32, 6);
        d->dq = alloc_random(q, GYRE_DTYPE_F32, 7);
        d->dk = alloc_random(k, GYRE_DTYPE_F32, 8);
        d->dv = alloc_random(k, GYRE_DTYPE_F32, 9);
        failed |= !d->lse || !d->dout || !d->dq || !d->dk || !d->dv;
    }
    if (!failed) return GYRE_OK;
    attn_data_free(d);
    return gyre_fail(err, GYRE_ENOMEM, "%lld keys: out of memory (gyre bench)", (long long)d->keys);
}

void attn_data_free(attn_data *d) {
    void *const all[] = {d->q, d->k, d->out, d->lse, d->dout, d->dq, d->dk, d->dv};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
}

double attn_flops(const attn_data *d, int gradient) {
    const double before = (double)(d->keys - d->queries), n = (double)d->queries;
    const double pairs = n * before + n * (n + 1) / 2;
    return (gradient ? 5 : 2) * 2.0 * ATTN_HEAD_DIM * pairs * (double)d->heads;
}
double attn_kv_bytes(const attn_data *d) {
    const double row = ATTN_HEAD_DIM * (double)gyre_dtype_size(d->dtype) + (d->dtype == GYRE_DTYPE_Q8 ? sizeof(float) : 0);
    return 2.0 * (double)d->keys * (double)d->key_heads * row;
}

/* -- the call -- */
static gyre_status make_encoding(attn_call *call, const gyre_config *config, const attn_data *data, gyre_error *err) {
    gyre_config whole = *config;
    int64_t s[4];
    whole.head_dim = ATTN_HEAD_DIM;
    whole.heads = data->heads;
    gyre_status status = gyre_encoding_create(&call->encoding, &whole, NULL, err);
    if (!status) status = gyre_encoding_table_shape(call->encoding, GYRE_TABLE_BIAS, s);
    if (status || s[0] == 0) return status;
    call->table = alloc_random(s[0] * s[1] * s[2] * s[3], GYRE_DTYPE_F32, 10);
    call->tables.bias = gyre_cdense(call->table, GYRE_DTYPE_F32, s[0], s[1], s[2], s[3]);
    return call->table ? GYRE_OK : gyre_fail(err, GYRE_ENOMEM, "table: out of memory (gyre bench)");
}

void attn_call_init_args(attn_call *out, const attn_data *data) {
    const attn_data *d = data;
    *out = (attn_call){.args = GYRE_INIT(gyre_attention_args)};
    gyre_attention_args *args = &out->args;
    args->q = gyre_cdense(d->q, d->q_dtype, 1, d->queries, d->heads, ATTN_HEAD_DIM);
    args->k = gyre_cdense(d->k, d->dtype, 1, d->keys, d->key_heads, ATTN_HEAD_DIM);
    args->v = gyre_cdense(d->v, d->dtype, 1, d->keys, d->key_heads, ATTN_HEAD_DIM);
    args->out = gyre_dense(d->out, d->q_dtype, 1, d->queries, d->heads, ATTN_HEAD_DIM);
    args->q_pos.base = d->keys - d->queries;
    args->causal = GYRE_CAUSAL_BY_POSITION;
}

static void describe_gradient(attn_call *call, const attn_data *d) {
    call->args.lse = gyre_dense(d->lse, GYRE_DTYPE_F32, 1, d->queries, d->heads, 1);
    call->dout = gyre_cdense(d->dout, GYRE_DTYPE_F32, 1, d->queries, d->heads, ATTN_HEAD_DIM);
    call->dqkv[0] = gyre_dense(d->dq, GYRE_DTYPE_F32, 1, d->queries, d->heads, ATTN_HEAD_DIM);
    call->dqkv[1] = gyre_dense(d->dk, GYRE_DTYPE_F32, 1, d->keys, d->key_heads, ATTN_HEAD_DIM);
    call->dqkv[2] = gyre_dense(d->dv, GYRE_DTYPE_F32, 1, d->keys, d->key_heads, ATTN_HEAD_DIM);
}

static const int64_t sequence_id = 0;

size_t attn_scratch_bytes(const attn_call *call, const gyre_exec *exec) {
    size_t bytes = 0;
    const gyre_status status = call->cache
                                   ? gyre_cache_attention_scratch(call->cache, &sequence_id, &call->args, exec, &bytes, NULL)
                                   : gyre_attention_scratch(&call->args, call->gradient, exec, &bytes, NULL);
    return status ? 0 : bytes;
}

static gyre_status make_scratch(attn_call *call, const gyre_exec *execs, int count, gyre_error *err) {
    for (int i = 0; i < count; i++) {
        const size_t bytes = attn_scratch_bytes(call, &execs[i]);
        if (bytes > call->bytes) call->bytes = bytes;
    }
    if (call->bytes == 0) return gyre_fail(err, GYRE_EINVAL, "attention: this library does not take the call (gyre bench)");
    call->scratch = bench_alloc_huge(call->bytes);
    return call->scratch ? GYRE_OK : gyre_fail(err, GYRE_ENOMEM, "scratch: out of memory (gyre bench)");
}

/* -- a cache -- */

static gyre_status append_all(attn_call *call, const attn_data *data, gyre_error *err) {
    enum { CHUNK = 1024 }; /* tokens; the same numbers are repeated */
    const int64_t count = CHUNK * data->key_heads * ATTN_HEAD_DIM;
    float *memory = alloc_random(2 * count, GYRE_DTYPE_F32, 11);
    gyre_status status = memory ? GYRE_OK : GYRE_ENOMEM;
    for (int64_t first = 0; first < data->keys && !status; first += CHUNK) {
        const int64_t left = data->keys - first, tokens = left < CHUNK ? left : CHUNK;
        const gyre_cview k = gyre_cdense(memory, GYRE_DTYPE_F32, 1, tokens, data->key_heads, ATTN_HEAD_DIM);
        const gyre_cview v = gyre_cdense(memory + count, GYRE_DTYPE_F32, 1, tokens, data->key_heads, ATTN_HEAD_DIM);
        const gyre_positions positions = {NULL, GYRE_DTYPE_I64, first, 0, 0, 0, 0, 0};
        status = gyre_cache_append(
            call->cache, GYRE_ARGS(gyre_cache_append_args, .sequence = sequence_id, .k = k, .v = v, .positions = &positions),
            NULL, NULL);
    }
    free(memory);
    return status ? gyre_fail(err, status, "cache: %s (gyre bench)", gyre_status_text(status)) : GYRE_OK;
}

static gyre_status make_cache(attn_call *call, const attn_options *options, const attn_data *data, gyre_error *err) {
    gyre_cache_config shape = GYRE_INIT(gyre_cache_config);
    shape.encoding = call->encoding;
    shape.keys = options->keys;
    shape.key_dtype = shape.value_dtype = options->dtype;
    shape.heads = data->key_heads;
    shape.head_dim = ATTN_HEAD_DIM;
    shape.max_tokens = data->keys;
    const gyre_status status = gyre_cache_create(&call->cache, &shape, &bench_huge_alloc, err);
    return status ? status : append_all(call, data, err);
}

gyre_status attn_call_create(attn_call *out, const gyre_config *config, const attn_options *options, const attn_data *data,
                             const gyre_exec *execs, int count, gyre_error *err) {
    attn_call_init_args(out, data);
    if (data->lse) describe_gradient(out, data);
    out->gradient = options->gradient;
    out->args.order = options->order;
    gyre_status status = config ? make_encoding(out, config, data, err) : GYRE_OK;
    if (!status && options->cached) status = make_cache(out, options, data, err);
    if (!options->cached) { /* a cache has its own */
        out->args.encoding = out->encoding;
        out->args.tables = out->table ? &out->tables : NULL;
    }
    if (!status) status = make_scratch(out, execs, count, err);
    if (status) attn_call_free(out);
    return status;
}

void attn_call_free(attn_call *call) {
    gyre_cache_free(call->cache);
    gyre_encoding_free(call->encoding);
    free(call->table);
    free(call->scratch);
    *call = (attn_call){0};
}

gyre_status attn_run(void *arg, const gyre_exec *exec) {
    const attn_call *call = arg;
    if (call->cache)
        return gyre_cache_attention(call->cache, &sequence_id, &call->args, (gyre_scratch){call->scratch, call->bytes}, exec,
                                    NULL);
    return call->gradient ? gyre_attention_gradient(&call->args,
                                                    GYRE_ARGS(gyre_attention_gradients, .dout = call->dout,
                                                              .dq = call->dqkv[0], .dk = call->dqkv[1], .dv = call->dqkv[2]),
                                                    (gyre_scratch){call->scratch, call->bytes}, exec, NULL)
                          : gyre_attention(&call->args, (gyre_scratch){call->scratch, call->bytes}, exec, NULL);
}
