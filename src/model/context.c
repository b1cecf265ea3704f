/* context.c: reading a sequence with a model: whole prefix or token by token, the same code. */
#include "model/context.h"
#include "core/positions.h"
#include "core/sized.h"
#include "util/error.h"

#include "model/layers.h"

#include <stdlib.h>

static const gyre_config *config_of(const gyre_context *x, int group) {
    return gyre_encoding_get_config(gyre_context_encoding(x, group));
}

/* -- memory -- */
static gyre_status create_caches(gyre_context *x, gyre_dtype type, gyre_error *err) {
    const gyre_architecture *a = &x->net->arch;
    gyre_cache_config config = GYRE_INIT(gyre_cache_config);
    config.heads = a->kv_heads;
    config.head_dim = a->head_dim;
    config.max_tokens = x->max_tokens;
    config.key_dtype = config.value_dtype = type;
    x->cache = calloc((size_t)a->layers, sizeof(gyre_cache *));
    if (!x->cache) return gyre_fail(err, GYRE_ENOMEM, "context: out of memory (gyre_context_create)");
    for (int64_t layer = 0; layer < a->layers; layer++) {
        config.encoding = gyre_context_encoding(x, x->net->layer[layer].group);
        const gyre_status status = gyre_cache_create(&x->cache[layer], &config, NULL, err);
        if (status) return status;
    }
    return GYRE_OK;
}

/* out = bytes for up to `rows` queries.  The layers of a group need the same. */
static size_t attention_scratch(const gyre_context *x, int64_t rows) {
    size_t most = 0;
    for (int group = 0; group < x->net->groups; group++)
        for (int64_t layer = 0; layer < x->net->arch.layers; layer++) {
            if (x->net->layer[layer].group != group) continue;
            const gyre_attention_args args = gyre_context_attention_args(x, layer, rows, rows);
            const size_t bytes = gyre_cache_attention_scratch(x->cache[layer], NULL, &args, x->exec);
            if (!bytes) return 0;
            most = bytes > most ? bytes : most;
            break;
        }
    return most;
}

static int64_t max_of(int64_t a, int64_t b) {
    return a > b ? a : b;
}

enum { LAYER_LINEARS = 7 }; /* of a layer */

static int64_t product_scratch(const gyre_context *x, int64_t rows) {
    const gyre_network *n = x->net;
    const int width = x->exec ? (int)x->exec->concurrency : 1;
    int64_t most = gyre_gemm_scratch(&n->lm_head.w, rows, width);
    for (int64_t i = 0; i < n->arch.layers; i++) {
        const gyre_network_layer *l = &n->layer[i];
        const gyre_affine *linears[LAYER_LINEARS] = {&l->qkv[0],     &l->qkv[1],     &l->qkv[2], &l->o,
                                                     &l->gate_up[0], &l->gate_up[1], &l->down};
        for (int m = 0; m < LAYER_LINEARS; m++)
            if (linears[m]->w.out > 0) most = max_of(most, gyre_gemm_scratch(&linears[m]->w, rows, width));
    }
    return most;
}

enum { BUFFERS = 8, CACHE_LINE = 16 /* floats */ };

static int64_t assign_buffers(gyre_context *x, int64_t rows, float *memory) {
    const gyre_architecture *a = &x->net->arch;
    gyre_forward_buffers *p = &x->buffers;
    float **parts[BUFFERS] = {&p->x,         &p->norm,    &p->qkv,     &p->attn_out,
                              &p->block_out, &p->gate_up, &p->mlp_act, &p->gemm_scratch};
    const int branches = x->net->layer[0].post_attn_norm.gain != NULL || a->residual_scale != 1;
    const int64_t sizes[BUFFERS] = {rows * a->model_dim,
                                    rows * a->model_dim,
                                    rows * x->qkv_dim,
                                    rows * a->heads * a->head_dim,
                                    branches ? rows * a->model_dim : 0,
                                    rows * (a->gated ? 2 : 1) * a->mlp_dim,
                                    rows * a->mlp_dim,
                                    product_scratch(x, rows)};
    int64_t sum = 0;
    for (int i = 0; i < BUFFERS; i++) {
        *parts[i] = memory ? memory + sum : NULL;
        sum += (sizes[i] + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE;
    }
    return sum;
}

static gyre_status allocate(gyre_context *x) {
    const int64_t rows = x->max_tokens < GYRE_PREFILL_CHUNK ? x->max_tokens : GYRE_PREFILL_CHUNK;
    x->memory_floats = assign_buffers(x, rows, NULL);
    x->memory = gyre_alloc_floats(x->memory_floats);
    if (!x->memory) return GYRE_ENOMEM;
    (void)assign_buffers(x, rows, x->memory);
    x->buffers.attn_scratch_bytes = attention_scratch(x, rows);
    if (!x->buffers.attn_scratch_bytes) return GYRE_EINVAL;
    x->buffers.attn_scratch = gyre_alloc_floats((int64_t)(x->buffers.attn_scratch_bytes / sizeof(float)) + 1);
    return x->buffers.attn_scratch ? GYRE_OK : GYRE_ENOMEM;
}

/* -- beginning -- */
/* Files hold no table but the input's, whose rows another encoding must have as they are. */
static gyre_status check_tables(const gyre_context *x, gyre_error *err) {
    const gyre_encoding *own = x->net->group[x->net->main_group].encoding;
    for (int which = 0; which < GYRE_TABLE_COUNT; which++) {
        const gyre_table_size *has = &own->table[which], *wants = &x->encoding->table[which];
        if (wants->rows == 0 || (has->rows == wants->rows && has->heads == wants->heads && has->channels == wants->channels))
            continue;
        return gyre_fail(err, GYRE_EINVAL, "encoding: %s has a table that the model, with %s, has not (context)",
                         gyre_kind_name(x->encoding->config.kind), gyre_kind_name(own->config.kind));
    }
    return GYRE_OK;
}

static gyre_status init_context(gyre_context *x, const gyre_context_options *options, gyre_error *err) {
    gyre_status status =
        x->model->weights ? gyre_layer_tables_create(&x->tables, x->model, x->encoding, err) : check_tables(x, err);
    if (!status) status = create_caches(x, options->cache_dtype, err);
    if (status) return status;
    status = allocate(x);
    if (!status) return GYRE_OK;
    return gyre_fail(err, status, "context: %s for %lld tokens (gyre_context_create)",
                     status == GYRE_ENOMEM ? "out of memory" : "the encoding does not fit the model",
                     (long long)x->max_tokens);
}

gyre_status gyre_context_create(gyre_context **out, const gyre_model *model, const gyre_context_options *given,
                                gyre_error *err) {
    gyre_context_options own;
    const gyre_context_options *options = &own;
    if (!out || !model) return gyre_fail(err, GYRE_EINVAL, "%s: is NULL (gyre_context_create)", out ? "model" : "out");
    if (gyre_sized_read(&own, sizeof own, given, "gyre_context_options", err)) return GYRE_EINVAL;
    if (options->max_tokens < 1 || options->max_tokens > (int64_t)1 << 31)
        return gyre_fail(err, GYRE_EINVAL, "max_tokens: %lld is not in 1 .. 2^31 (gyre_context_create)",
                         (long long)options->max_tokens);
    gyre_context *x = calloc(1, sizeof *x);
    if (!x) return gyre_fail(err, GYRE_ENOMEM, "context: out of memory (gyre_context_create)");
    gyre_blas_single_thread();
    x->model = model;
    x->net = model->network;
    x->encoding = options->encoding ? options->encoding : model->encoding;
    x->kernels = x->encoding->kernels;
    x->exec = options->exec;
    x->max_tokens = options->max_tokens;
    x->qkv_dim = (x->net->arch.heads + 2 * x->net->arch.kv_heads) * x->net->arch.head_dim;
    const gyre_status status = init_context(x, options, err);
    if (status)
        gyre_context_free(x);
    else
        *out = x;
    return status;
}

void gyre_context_free(gyre_context *context) {
    if (!context) return;
    gyre_layer_tables_free(&context->tables);
    for (int64_t layer = 0; context->cache && layer < context->net->arch.layers; layer++)
        gyre_cache_free(context->cache[layer]);
    free(context->cache);
    free(context->memory);
    free(context->buffers.attn_scratch);
    free(context);
}

int64_t gyre_context_bytes(const gyre_context *context) {
    int64_t bytes = context->memory_floats * (int64_t)sizeof(float) + (int64_t)context->buffers.attn_scratch_bytes;
    for (int64_t layer = 0; layer < context->net->arch.layers; layer++)
        bytes += (int64_t)gyre_cache_get_usage(context->cache[layer]).bytes;
    return bytes;
}

/* Only the first `tokens` stay. */
static void truncate_caches(gyre_context *x, int64_t tokens) {
    for (int64_t layer = 0; layer < x->net->arch.layers; layer++) {
        const int64_t more = gyre_cache_tokens(x->cache[layer], 0) - tokens;
        if (more <= 0) continue;
        /* The last tokens leave no hole, so that nothing can fail. */
        const gyre_status status = gyre_cache_remove(x->cache[layer], 0, tokens, more, NULL);
        (void)status;
    }
    x->cached = tokens;
}

void gyre_context_reset(gyre_context *context) {
    truncate_caches(context, 0);
    context->tokens = 0;
}
gyre_status gyre_context_truncate(gyre_context *context, int64_t tokens) {
    if (tokens < 0 || tokens > context->tokens || context->window) return GYRE_EINVAL;
    truncate_caches(context, tokens);
    context->tokens = tokens;
    return GYRE_OK;
}
int64_t gyre_context_tokens(const gyre_context *context) {
    return context->tokens;
}

/* The position after the last of n more tokens. */
static int64_t read_end(const gyre_context *x, int64_t n) {
    return x->window && n > x->window - x->cached ? x->window : x->cached + n;
}

/* Under GYRE_LENGTH_POLICY_PREFIX a read is one pass, in however many chunks it is done. */
static int64_t read_length_in_use(const gyre_context *x, int64_t n) {
    const gyre_config *config = gyre_encoding_get_config(x->encoding);
    return config->kind == GYRE_KIND_ROPE && config->rope.length_policy == GYRE_LENGTH_POLICY_PREFIX ? read_end(x, n) : 0;
}

/* -- without end -- */
gyre_status gyre_context_stream(gyre_context *context, int64_t sinks, int64_t window, gyre_error *err) {
    const gyre_config *config = gyre_encoding_get_config(context->encoding);
    if (context->tokens > 0)
        return gyre_fail(err, GYRE_EINVAL, "context: %lld tokens were read before (gyre_context_stream)",
                         (long long)context->tokens);
    if (window != 0 || sinks != 0) {
        if (sinks < 0 || window < sinks + 2 || window > context->max_tokens)
            return gyre_fail(err, GYRE_EINVAL,
                             "window: %lld with %lld sinks is not in sinks + 2 .. %lld, the most tokens "
                             "(gyre_context_stream)",
                             (long long)window, (long long)sinks, (long long)context->max_tokens);
        if (gyre_encoding_places(context->encoding) & GYRE_PLACE_INPUT)
            return gyre_fail(err, GYRE_EUNSUPPORTED,
                             "%s: adds positions at the input, where they stay (gyre_context_stream)",
                             gyre_kind_name(config->kind));
    }
    context->sinks = sinks;
    context->window = window;
    return GYRE_OK;
}

/* *rows = how many of n tokens to read next: at the end of the window one, for which the oldest that is no sink goes. */
static gyre_status make_room(gyre_context *x, int64_t n, int64_t *rows) {
    *rows = n < GYRE_PREFILL_CHUNK ? n : GYRE_PREFILL_CHUNK;
    if (!x->window) return GYRE_OK;
    if (x->cached < x->window) {
        *rows = *rows < x->window - x->cached ? *rows : x->window - x->cached;
        return GYRE_OK;
    }
    *rows = 1;
    for (int64_t layer = 0; layer < x->net->arch.layers; layer++) {
        const gyre_status status = gyre_cache_slide(x->cache[layer], 0, x->sinks, x->window - 1, &x->cached, NULL);
        if (status) return status;
    }
    return GYRE_OK;
}

/* -- reading -- */
static gyre_status check_positions(const gyre_context *x, int64_t n, gyre_error *err) {
    const int64_t end = read_end(x, n);
    const gyre_positions positions = {.base = x->cached < end ? x->cached : end - 1};
    for (int group = 0; group < x->net->groups && n > 0; group++) {
        const gyre_status status =
            gyre_positions_check(gyre_context_encoding(x, group), &positions, 1, end - positions.base, NULL, NULL, NULL);
        if (status)
            return gyre_fail(err, status, "position %lld: the encoding (%s) ends before it (gyre_context_read)",
                             (long long)(end - 1), gyre_kind_name(config_of(x, group)->kind));
    }
    return GYRE_OK;
}

static gyre_status check_read(const gyre_context *x, const int32_t *tokens, int64_t n, int64_t rows, gyre_error *err) {
    if (n < 0 || rows < 0 || rows > n)
        return gyre_fail(err, GYRE_EINVAL, "tokens: %lld read and logits of %lld wanted (gyre_context_read)", (long long)n,
                         (long long)rows);
    if (!x->window && n > x->max_tokens - x->tokens)
        return gyre_fail(err, GYRE_EINVAL, "tokens: no room for %lld more after %lld of %lld (gyre_context_read)",
                         (long long)n, (long long)x->tokens, (long long)x->max_tokens);
    for (int64_t i = 0; i < n; i++)
        if (tokens[i] < 0 || tokens[i] >= x->net->arch.vocab)
            return gyre_fail(err, GYRE_EINVAL, "token %lld: %d is outside the vocabulary of %lld (gyre_context_read)",
                             (long long)i, tokens[i], (long long)x->net->arch.vocab);
    return check_positions(x, n, err);
}

/* Forgets what of a read was taken in before it failed; where the window has moved, all. */
static void rollback(gyre_context *x, int64_t held, int64_t read) {
    if (x->window) {
        gyre_context_reset(x);
        return;
    }
    truncate_caches(x, held);
    x->tokens -= read;
}

gyre_status gyre_context_forward(gyre_context *context, const int32_t *tokens, int64_t n, int64_t rows, float *logits,
                                 gyre_error *err) {
    gyre_status status = check_read(context, tokens, n, rows, err);
    if (status) return status;
    const int64_t before = context->cached, vocab = context->net->arch.vocab;
    context->length = read_length_in_use(context, n);
    for (int64_t from = 0, chunk; from < n; from += chunk) {
        status = make_room(context, n - from, &chunk);
        int64_t wanted = from + chunk - (n - rows);
        wanted = wanted < 0 ? 0 : wanted > chunk ? chunk : wanted;
        if (!status) status = gyre_context_embed(context, tokens + from, chunk);
        if (!status) status = gyre_context_forward_layers(context, chunk, wanted > 0);
        if (status) {
            rollback(context, before, from);
            return gyre_fail(err, status, "attention: %s (gyre_context_read)", gyre_status_text(status));
        }
        if (wanted) gyre_context_logits(context, chunk, wanted, logits);
        logits = wanted ? logits + wanted * vocab : logits;
        context->tokens += chunk;
        context->cached += chunk;
    }
    return GYRE_OK;
}
