/* decoder_memory.c: the caches, activations and scratch of a decoder. */
#include "core/encoding.h"
#include "model/decoder.h"
#include "model/ops/float_buffer.h"
#include "model/ops/linear.h"
#include "util/error.h"

#include <stdlib.h>

/* Layers that count positions, or that adapt biases of none, read keys as they are. */
static const gyre_encoding *cached_encoding(const gyre_decoder *d, int64_t layer) {
    const gyre_head_part *part = gyre_network_trained_heads(d->net, layer).part;
    if (d->net->arch.rotates_input || (part && part->facts->replaces_rotation)) return NULL;
    if (gyre_decoder_has_own_attention(d)) return gyre_own_attention_encoding(d->encoding);
    return gyre_decoder_encoding(d, d->net->layer[layer].group);
}

int64_t gyre_decoder_resized_dim(const gyre_decoder *d) {
    const gyre_architecture *a = &d->net->arch;
    const gyre_head_part *part = gyre_head_part_of(a->layer_parts);
    const int64_t dim = gyre_encoding_get_config(d->net->group[0].encoding)->head_dim;
    return gyre_head_part_resizes(part) ? (a->heads + a->kv_heads) * dim : 0;
}

static gyre_status create_caches(gyre_decoder *d, const gyre_context_options *options, gyre_error *err) {
    const gyre_architecture *a = &d->net->arch;
    const int64_t resized = gyre_decoder_resized_dim(d);
    gyre_cache_config config = GYRE_INIT(gyre_cache_config);
    config.keys = GYRE_CACHE_KEYS_RAW; /* encodings change from read to read, and keys in memory are those of the model */
    config.max_tokens = options->max_tokens;
    config.key_dtype = config.value_dtype = options->cache_dtype;
    config.gate_heads = gyre_decoder_forgets(d) ? a->heads : 0;
    d->cache = calloc((size_t)a->layers, sizeof(gyre_cache *));
    if (!d->cache) return gyre_fail(err, GYRE_ENOMEM, "context: out of memory (gyre_context_create)");
    for (int64_t layer = 0; layer < a->layers; layer++) {
        const gyre_network_layer *l = &d->net->layer[layer];
        if (l->keys_of != layer) continue;
        config.heads = l->k.count;
        config.head_dim = resized ? resized / (a->heads + a->kv_heads) : l->k.channels;
        config.value_dim = l->v.channels;
        config.encoding = cached_encoding(d, layer);
        const gyre_status status = gyre_cache_create(&d->cache[layer], &config, NULL, err);
        if (status) return status;
    }
    return GYRE_OK;
}

/* out = bytes for up to `rows` queries.  Layers of a group need the same, so one of each is asked, but for those before a
 * part that makes queries and keys. */
static size_t attention_scratch(const gyre_decoder *d, int64_t rows) {
    const int64_t with_part = gyre_part_first_layer(d->net->arch.layer_parts, d->net->arch.layers);
    size_t max = 0;
    if (gyre_decoder_has_own_attention(d)) {
        const gyre_own_call call = gyre_decoder_own_call(d, 0, rows, rows);
        return gyre_own_attention_scratch(&call, 0, d->exec);
    }
    for (int group = 0; group < d->net->groups; group++)
        for (int64_t layer = 0; layer < d->net->arch.layers; layer++) {
            if (d->net->layer[layer].group != group) continue;
            gyre_attention_gates gates;
            gyre_attention_args args = gyre_decoder_attention_args(d, layer, rows, rows, &gates);
            gyre_attention_batch batch = GYRE_INIT(gyre_attention_batch);
            const int64_t first = 0;
            size_t bytes = 0;
            batch.k_first = &first;
            batch.k_end = &rows;
            if (d->net->group[group].chunk > 0) args.batch = &batch;
            if (gyre_cache_attention_scratch(gyre_decoder_cache(d, layer), NULL, &args, d->exec, &bytes, NULL)) return 0;
            max = bytes > max ? bytes : max;
            if (layer >= with_part) break;
        }
    return max;
}

static int64_t gemm_scratch(const gyre_decoder *d, int64_t rows) {
    const gyre_network *n = d->net;
    const int concurrency = d->exec ? (int)d->exec->concurrency : 1;
    int64_t max = gyre_gemm_scratch(&n->lm_head.w, rows, concurrency);
    const int64_t inputs = gyre_gemm_scratch(&n->layer_inputs_map.w, rows, concurrency);
    max = inputs > max ? inputs : max;
    for (int64_t i = 0; i < n->arch.layers; i++) {
        const gyre_affine *linears[GYRE_LAYER_LINEARS];
        gyre_network_layer_linears(&n->layer[i], linears);
        for (int m = 0; m < GYRE_LAYER_LINEARS; m++) {
            const int64_t floats = gyre_gemm_scratch(&linears[m]->w, rows, concurrency);
            max = floats > max ? floats : max;
        }
        const int64_t experts = gyre_experts_gemm_scratch(&n->arch.mixture, &n->layer[i].experts, rows, concurrency);
        max = experts > max ? experts : max;
    }
    return max;
}

/* The widest layer. */
typedef struct widths {
    int64_t qkv, values, mlp;
} widths;

static widths largest_widths(const gyre_network *n) {
    widths most = {0, 0, n->arch.layer_rules.inputs};
    for (int64_t i = 0; i < n->arch.layers; i++) {
        const gyre_network_layer *l = &n->layer[i];
        const widths own = {gyre_network_qkv_dim(l), l->v.channels, l->mlp_dim};
        most.qkv = own.qkv > most.qkv ? own.qkv : most.qkv;
        most.values = own.values > most.values ? own.values : most.values;
        most.mlp = own.mlp > most.mlp ? own.mlp : most.mlp;
    }
    return most;
}

enum { BUFFERS = 17 };

/* Points the buffers into `memory`, or counts only if that is NULL.  out = floats needed. */
static int64_t assign_buffers(gyre_decoder *d, int64_t rows, float *memory) {
    const gyre_architecture *a = &d->net->arch;
    gyre_decoder_buffers *b = &d->buffers;
    float *gate_sums, *part_kept; /* two floats take the place of a double */
    float **parts[BUFFERS] = {&b->x,       &b->norm,        &b->qkv,          &b->attn_out, &b->block_out,
                              &b->gate_up, &b->mlp_act,     &b->gates,        &gate_sums,   &b->resized,
                              &b->experts, &b->beside,      &b->layer_inputs, &b->latent,   &b->gemm_scratch,
                              &part_kept,  &b->part_scratch};
    const gyre_trained_heads heads = gyre_network_trained_heads(d->net, d->net->arch.layers - 1);
    const int64_t gates = gyre_decoder_forgets(d) ? rows * a->heads : 0;
    const int64_t experts = gyre_experts_scratch(&a->mixture, a->model_dim, rows);
    const widths most = largest_widths(d->net);
    const int needs_block_out =
        d->net->layer[0].post_attn_norm.gain != NULL || a->residual_scale != 1 || a->rotates_input || experts;
    const int64_t sizes[BUFFERS] = {rows * a->model_dim,
                                    rows * a->model_dim,
                                    rows * d->qkv_dim,
                                    rows * a->heads * most.values,
                                    needs_block_out ? rows * a->model_dim : 0,
                                    rows * (a->gated ? 2 : 1) * most.mlp,
                                    rows * most.mlp,
                                    gates,
                                    2 * gates,
                                    rows * gyre_decoder_resized_dim(d),
                                    experts,
                                    a->mixture.beside_mlp ? 2 * rows * a->model_dim : 0,
                                    gyre_decoder_layer_inputs_floats(a, rows),
                                    rows * gyre_decoder_latent_dim(a),
                                    gemm_scratch(d, rows),
                                    2 * rows * gyre_part_kept(&heads),
                                    gyre_part_scratch(&heads, rows, d->exec ? (int)d->exec->concurrency : 1)};
    int64_t sum = 0;
    for (int i = 0; i < BUFFERS; i++) {
        *parts[i] = memory ? memory + sum : NULL;
        sum += gyre_round_up_floats(sizes[i]);
    }
    if (!experts) b->experts = NULL;
    b->gate_sums = (double *)(void *)gate_sums;
    b->part_kept = (double *)(void *)part_kept;
    return sum;
}

static gyre_status allocate_buffers(gyre_decoder *d, int64_t max_tokens) {
    const int64_t rows = max_tokens < GYRE_PREFILL_CHUNK ? max_tokens : GYRE_PREFILL_CHUNK;
    gyre_decoder_buffers *b = &d->buffers;
    b->memory_floats = assign_buffers(d, rows, NULL);
    b->memory = gyre_alloc_floats(b->memory_floats);
    if (!b->memory) return GYRE_ENOMEM;
    (void)assign_buffers(d, rows, b->memory);
    b->attn_scratch_bytes = attention_scratch(d, rows);
    if (!b->attn_scratch_bytes) return GYRE_EINVAL;
    b->attn_scratch = gyre_alloc_floats((int64_t)(b->attn_scratch_bytes / sizeof(float)) + 1);
    return b->attn_scratch ? GYRE_OK : GYRE_ENOMEM;
}

/* For a model opened from files, which hold no position table but the input's.  Another encoding must have the same one. */
static gyre_status check_tables(const gyre_decoder *d, gyre_error *err) {
    const gyre_encoding *own = d->net->group[d->net->main_group].encoding;
    for (int which = 0; which < GYRE_TABLE_COUNT; which++) {
        const gyre_table_size *has = &own->table[which], *wants = &d->encoding->table[which];
        if (wants->rows == 0 || (has->rows == wants->rows && has->heads == wants->heads && has->channels == wants->channels))
            continue;
        return gyre_fail(err, GYRE_EINVAL, "encoding: %s needs a table that the model, with %s, does not have (context)",
                         gyre_kind_name(d->encoding->config.kind), gyre_kind_name(own->config.kind));
    }
    return GYRE_OK;
}

/* What layers train takes the place of the encoding's rotation, so another one would be ignored. */
static gyre_status check_rotated(const gyre_decoder *d, gyre_error *err) {
    const gyre_config *own = gyre_encoding_get_config(d->net->group[0].encoding),
                      *other = gyre_encoding_get_config(d->encoding);
    const struct gyre_rope_config *a = &own->rope, *b = &other->rope;
    const gyre_head_part *part = gyre_head_part_of(d->net->arch.layer_parts);
    if (!part || !part->facts->replaces_rotation) return GYRE_OK;
    if (gyre_rotation_is_plain(d->encoding) && b->base == a->base && b->dim == a->dim &&
        b->first_channel == a->first_channel && b->layout == a->layout && b->resonance == a->resonance)
        return GYRE_OK;
    return gyre_fail(err, GYRE_EUNSUPPORTED,
                     "encoding: the model trained what rotates (%s), and no other rotation takes its place "
                     "(gyre_context_create)",
                     part->facts->key);
}

static gyre_status check_own_attention(const gyre_decoder *d, gyre_error *err) {
    const int64_t parts = d->net->arch.layer_parts;
    const char *needs = gyre_decoder_has_own_attention(d) ? gyre_own_attention_needs(parts, d->encoding) : NULL;
    if (!needs) return GYRE_OK;
    return gyre_fail(err, GYRE_EUNSUPPORTED, "encoding: %s, and this one does not fit: %s (gyre_context_create)",
                     gyre_own_attention_says(parts), needs);
}

static int has_bf16(const gyre_network *n) {
    int found = n->lm_head.w.type == GYRE_STORED_BF16;
    for (int64_t i = 0; i < n->arch.layers; i++) {
        const gyre_network_layer *l = &n->layer[i];
        const gyre_affine *linears[GYRE_LAYER_LINEARS];
        gyre_network_layer_linears(l, linears);
        for (int j = 0; j < GYRE_LAYER_LINEARS; j++)
            found |= linears[j]->w.out > 0 && linears[j]->w.type == GYRE_STORED_BF16;
        for (int64_t e = 0; l->experts.expert && e < n->arch.mixture.routing.experts; e++)
            found |= l->experts.expert[e].down.w.type == GYRE_STORED_BF16;
    }
    return found;
}

static gyre_status choose_products(gyre_decoder *d, gyre_products products, gyre_error *err) {
    if (products == GYRE_PRODUCTS_F32) return GYRE_OK;
    if (products != GYRE_PRODUCTS_BF16)
        return gyre_fail(err, GYRE_EINVAL, "products: %d is not a gyre_products (gyre_context_create)", (int)products);
    if (!has_bf16(d->net))
        return gyre_fail(err, GYRE_EUNSUPPORTED,
                         "products: bf16 is for matrices stored as bf16, and the model has none (gyre_context_create)");
    d->rounding = gyre_kernels_rounding(d->kernels);
    d->kernels = &d->rounding;
    return GYRE_OK;
}

static gyre_status prepare_heads(gyre_decoder *d, gyre_error *err) {
    gyre_status status = GYRE_OK;
    for (int64_t layer = 0; layer < d->net->arch.layers && !status; layer++) {
        const gyre_trained_heads heads = gyre_network_trained_heads(d->net, layer);
        if (!heads.part || !heads.part->prepare) continue;
        d->prepared_floats = heads.part->prepared_floats(&heads);
        if (!d->prepared) d->prepared = gyre_alloc_floats(d->net->arch.layers * d->prepared_floats);
        if (!d->prepared) return gyre_fail(err, GYRE_ENOMEM, "context: out of memory (gyre_context_create)");
        status = heads.part->prepare(&heads, d->prepared + layer * d->prepared_floats, err);
    }
    return status;
}

static gyre_status create_kept(gyre_decoder *d, int64_t max_tokens, gyre_error *err) {
    const gyre_architecture *a = &d->net->arch;
    const gyre_trained_heads heads = gyre_network_trained_heads(d->net, d->net->arch.layers - 1);
    const gyre_status status =
        gyre_kept_create(&d->gates, a->layers, max_tokens, gyre_decoder_forgets(d) ? a->heads : 0, err);
    return status ? status : gyre_kept_create(&d->part, a->layers, max_tokens, gyre_part_kept(&heads), err);
}

gyre_status gyre_decoder_create(gyre_decoder *d, const gyre_model *model, const gyre_context_options *options,
                                gyre_error *err) {
    const gyre_encoding *encoding = options->encoding ? options->encoding : model->encoding;
    *d = (gyre_decoder){.net = model->network,
                        .encoding = encoding,
                        .kernels = gyre_kernels_beside(encoding->kernels),
                        .exec = options->exec,
                        .qkv_dim = largest_widths(model->network).qkv,
                        .order = options->order};
    gyre_status status = model->weights ? gyre_layer_tables_create(&d->tables, model, encoding, err) : check_tables(d, err);
    if (!status) status = check_rotated(d, err);
    if (!status) status = check_own_attention(d, err);
    if (!status) status = choose_products(d, options->products, err);
    if (!status) status = create_caches(d, options, err);
    if (!status) status = prepare_heads(d, err);
    if (!status) status = create_kept(d, options->max_tokens, err);
    if (status) return status;
    status = allocate_buffers(d, options->max_tokens);
    if (!status) return GYRE_OK;
    return gyre_fail(err, status, "context: %s for %lld tokens (gyre_context_create)",
                     status == GYRE_ENOMEM ? "out of memory" : "the encoding does not fit the model",
                     (long long)options->max_tokens);
}

void gyre_decoder_free(gyre_decoder *d) {
    gyre_layer_tables_free(&d->tables);
    for (int64_t layer = 0; d->cache && layer < d->net->arch.layers; layer++)
        gyre_cache_free(d->cache[layer]);
    free(d->cache);
    gyre_kept_free(&d->gates);
    gyre_kept_free(&d->part);
    free(d->prepared);
    free(d->buffers.memory);
    free(d->buffers.attn_scratch);
}

int64_t gyre_decoder_bytes(const gyre_decoder *d) {
    int64_t bytes = d->buffers.memory_floats * (int64_t)sizeof(float) + (int64_t)d->buffers.attn_scratch_bytes;
    bytes += gyre_kept_bytes(&d->gates) + gyre_kept_bytes(&d->part) +
             d->net->arch.layers * d->prepared_floats * (int64_t)sizeof(float);
    for (int64_t layer = 0; d->cache && layer < d->net->arch.layers; layer++) {
        gyre_cache_usage usage = GYRE_INIT(gyre_cache_usage);
        if (d->cache[layer] && !gyre_cache_get_usage(d->cache[layer], &usage)) bytes += (int64_t)usage.bytes;
    }
    return bytes;
}
