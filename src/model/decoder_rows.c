/* decoder_rows.c: reading with a model whose layers have an attention of their own: keys and values of every token, in plain
 * arrays, and that attention over them. */
#include "core/convert.h"
#include "model/decoder.h"
#include "util/error.h"

#include <stdlib.h>

/* out = bytes of a token's keys, or values, in one layer. */
static size_t row_bytes(const gyre_decoder *d) {
    const gyre_architecture *a = &d->net->arch;
    return (size_t)(a->kv_heads * a->head_dim) * gyre_dtype_size(d->rows.dtype);
}

/* out = bytes of all keys, or all values; 0 = more than can be counted. */
static size_t all_bytes(const gyre_decoder *d) {
    const double bytes = (double)d->net->arch.layers * (double)d->rows.max_tokens * (double)row_bytes(d);
    if (!(bytes < (double)(SIZE_MAX / 4))) return 0;
    return (size_t)(d->net->arch.layers * d->rows.max_tokens) * row_bytes(d);
}

gyre_status gyre_decoder_rows_create(gyre_decoder *d, const gyre_context_options *options, gyre_error *err) {
    const gyre_dtype dtype = options->cache_dtype;
    if (!gyre_decoder_keeps_rows(d)) return GYRE_OK;
    const char *needs = gyre_own_attention_needs(d->net->arch.layer_parts, d->encoding),
               *says = gyre_own_attention_says(d->net->arch.layer_parts);
    if (needs)
        return gyre_fail(err, GYRE_EUNSUPPORTED, "encoding: %s, and this one does not fit: %s (gyre_context_create)", says,
                         needs);
    if (dtype != GYRE_DTYPE_F32 && dtype != GYRE_DTYPE_F16 && dtype != GYRE_DTYPE_BF16)
        return gyre_fail(err, dtype == GYRE_DTYPE_Q8 ? GYRE_EUNSUPPORTED : GYRE_EDTYPE,
                         "cache_dtype: %s, over keys in F32, F16 or BF16 (gyre_context_create)", says);
    d->rows.dtype = dtype;
    d->rows.max_tokens = options->max_tokens;
    const size_t bytes = all_bytes(d);
    d->rows.keys = bytes ? malloc(bytes) : NULL;
    d->rows.values = bytes ? malloc(bytes) : NULL;
    if (d->rows.keys && d->rows.values) return GYRE_OK;
    return gyre_fail(err, GYRE_ENOMEM, "context: out of memory for %lld tokens (gyre_context_create)",
                     (long long)options->max_tokens);
}

void gyre_decoder_rows_free(gyre_decoder *d) {
    free(d->rows.keys);
    free(d->rows.values);
}

int64_t gyre_decoder_rows_bytes(const gyre_decoder *d) {
    return gyre_decoder_keeps_rows(d) ? 2 * (int64_t)all_bytes(d) : 0;
}

/* Rows of keys or values of a layer, from token `first` on. */
static char *rows_at(const gyre_decoder *d, char *memory, int64_t layer, int64_t first) {
    return memory + (size_t)(layer * d->rows.max_tokens + first) * row_bytes(d);
}

static gyre_cview rows_view(const gyre_decoder *d, char *memory, int64_t layer, int64_t tokens) {
    const gyre_architecture *a = &d->net->arch;
    return gyre_cdense(rows_at(d, memory, layer, 0), d->rows.dtype, 1, tokens, a->kv_heads, a->head_dim);
}

static gyre_own_call call_of(const gyre_decoder *d, int64_t layer, int64_t rows, int64_t tokens) {
    const gyre_architecture *a = &d->net->arch;
    return (gyre_own_call){.layer = gyre_network_own_attention(d->net, layer),
                           .q = gyre_const(gyre_decoder_heads(d, &d->net->q, rows)),
                           .k = rows_view(d, d->rows.keys, layer, tokens),
                           .v = rows_view(d, d->rows.values, layer, tokens),
                           .encoding = d->encoding,
                           .tables = d->tables.layer ? &d->tables.layer[layer] : NULL,
                           .q_pos = {.base = tokens - rows, .context_length = d->length},
                           .out = gyre_dense(d->buffers.attn_out, GYRE_DTYPE_F32, 1, rows, a->heads, a->head_dim)};
}

size_t gyre_decoder_rows_scratch(const gyre_decoder *d, int64_t rows) {
    const gyre_own_call call = call_of(d, 0, rows, d->rows.max_tokens);
    return gyre_own_attention_scratch(&call, 0, d->exec);
}

/* The heads of a row of keys, or values, lie side by side in models made here. */
static void store_rows(gyre_decoder *d, int64_t layer, int64_t rows) {
    const int64_t channels = d->net->arch.kv_heads * d->net->arch.head_dim;
    for (int64_t r = 0; r < rows; r++) {
        const float *row = d->buffers.qkv + r * d->qkv_dim;
        gyre_store_row(row + d->net->k.offset, channels, rows_at(d, d->rows.keys, layer, d->cached + r), d->rows.dtype, 1);
        gyre_store_row(row + d->net->v.offset, channels, rows_at(d, d->rows.values, layer, d->cached + r), d->rows.dtype, 1);
    }
}

gyre_status gyre_decoder_rows_attention(gyre_decoder *d, int64_t layer, int64_t rows, int wanted, gyre_error *err) {
    store_rows(d, layer, rows);
    if (!wanted) return GYRE_OK;
    const gyre_own_call call = call_of(d, layer, rows, d->cached + rows);
    return gyre_own_attention_run(&call, d->buffers.attn_scratch, d->buffers.attn_scratch_bytes, d->exec, err);
}
