/* decoder_contextual.c: reading with a model whose queries count positions: keys and values of every token, and attention
 * over them.  gyre_cache does not run it. */
#include "core/convert.h"
#include "model/decoder.h"
#include "util/error.h"

#include <stdlib.h>

/* out = bytes of a token's keys, or values, in one layer. */
static size_t row_bytes(const gyre_decoder *d) {
    const gyre_architecture *a = &d->net->arch;
    return (size_t)(a->kv_heads * a->head_dim) * gyre_dtype_size(d->contextual.dtype);
}

/* out = bytes of all keys, or all values; 0 = more than can be counted. */
static size_t all_bytes(const gyre_decoder *d) {
    const double bytes = (double)d->net->arch.layers * (double)d->contextual.max_tokens * (double)row_bytes(d);
    if (!(bytes < (double)(SIZE_MAX / 4))) return 0;
    return (size_t)(d->net->arch.layers * d->contextual.max_tokens) * row_bytes(d);
}

gyre_status gyre_decoder_contextual_create(gyre_decoder *d, const gyre_context_options *options, gyre_error *err) {
    const gyre_config *other = gyre_encoding_get_config(d->encoding);
    const gyre_dtype dtype = options->cache_dtype;
    if (!gyre_decoder_counts(d)) return GYRE_OK;
    if (other->kind != GYRE_KIND_NOPE || other->query.temperature != GYRE_TEMPERATURE_NONE)
        return gyre_fail(err, GYRE_EUNSUPPORTED,
                         "encoding: the queries of the model count positions, and no others take their place "
                         "(gyre_context_create)");
    if (dtype != GYRE_DTYPE_F32 && dtype != GYRE_DTYPE_F16 && dtype != GYRE_DTYPE_BF16)
        return gyre_fail(err, dtype == GYRE_DTYPE_Q8 ? GYRE_EUNSUPPORTED : GYRE_EDTYPE,
                         "cache_dtype: the queries of the model count positions, over keys in F32, F16 or BF16 "
                         "(gyre_context_create)");
    d->contextual.dtype = dtype;
    d->contextual.max_tokens = options->max_tokens;
    const size_t bytes = all_bytes(d);
    d->contextual.keys = bytes ? malloc(bytes) : NULL;
    d->contextual.values = bytes ? malloc(bytes) : NULL;
    if (d->contextual.keys && d->contextual.values) return GYRE_OK;
    return gyre_fail(err, GYRE_ENOMEM, "context: out of memory for %lld tokens (gyre_context_create)",
                     (long long)options->max_tokens);
}

void gyre_decoder_contextual_free(gyre_decoder *d) {
    free(d->contextual.keys);
    free(d->contextual.values);
}

int64_t gyre_decoder_contextual_bytes(const gyre_decoder *d) {
    return gyre_decoder_counts(d) ? 2 * (int64_t)all_bytes(d) : 0;
}

/* Rows of keys or values of a layer, from token `first` on. */
static char *rows_at(const gyre_decoder *d, char *memory, int64_t layer, int64_t first) {
    return memory + (size_t)(layer * d->contextual.max_tokens + first) * row_bytes(d);
}

static gyre_cview rows_view(const gyre_decoder *d, char *memory, int64_t layer, int64_t tokens) {
    const gyre_architecture *a = &d->net->arch;
    return gyre_cdense(rows_at(d, memory, layer, 0), d->contextual.dtype, 1, tokens, a->kv_heads, a->head_dim);
}

static gyre_contextual_args args_of(const gyre_decoder *d, int64_t layer, int64_t rows, int64_t tokens) {
    const gyre_architecture *a = &d->net->arch;
    const gyre_cview qkv[3] = {gyre_const(gyre_decoder_heads(d, &d->net->q, rows)),
                               rows_view(d, d->contextual.keys, layer, tokens),
                               rows_view(d, d->contextual.values, layer, tokens)};
    gyre_contextual_args args = gyre_network_contextual(d->net, layer, qkv);
    args.out = gyre_dense(d->buffers.attn_out, GYRE_DTYPE_F32, 1, rows, a->heads, a->head_dim);
    return args;
}

size_t gyre_decoder_contextual_scratch(const gyre_decoder *d, int64_t rows) {
    const gyre_contextual_args args = args_of(d, 0, rows, d->contextual.max_tokens);
    return gyre_contextual_scratch(&args, 0, d->exec);
}

/* The heads of a row of keys, or values, lie side by side in models made here. */
static void store_rows(gyre_decoder *d, int64_t layer, int64_t rows) {
    const int64_t channels = d->net->arch.kv_heads * d->net->arch.head_dim;
    for (int64_t r = 0; r < rows; r++) {
        const float *row = d->buffers.qkv + r * d->qkv_dim;
        gyre_store_row(row + d->net->k.offset, channels, rows_at(d, d->contextual.keys, layer, d->cached + r),
                       d->contextual.dtype, 1);
        gyre_store_row(row + d->net->v.offset, channels, rows_at(d, d->contextual.values, layer, d->cached + r),
                       d->contextual.dtype, 1);
    }
}

gyre_status gyre_decoder_contextual_attention(gyre_decoder *d, int64_t layer, int64_t rows, int wanted, gyre_error *err) {
    store_rows(d, layer, rows);
    if (!wanted) return GYRE_OK;
    const gyre_contextual_args args = args_of(d, layer, rows, d->cached + rows);
    return gyre_contextual_attention(&args, d->buffers.attn_scratch, d->buffers.attn_scratch_bytes, d->exec, err);
}
