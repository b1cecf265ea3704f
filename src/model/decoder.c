/* decoder.c: reading a sequence with a model: whole prefix or token by token, the same code. */
#include "model/layer_tables.h"
#include "model/layers.h"
#include <stdlib.h>

enum { CHUNK_ROWS = 512 }; /* rows per pass: enough for the matrix products, little enough to stay in cache */

struct gyre_context {
    const gyre_model *model;
    const gyre_encoding *encoding;
    gyre_layer_tables tables;
    int64_t max_tokens;
    int64_t tokens, held;  /* read; of those, in the cache: the next one's position */
    int64_t sinks, window; /* gyre_context_stream; window 0 = all are held */
    int64_t length;        /* in use of the tokens being read; 0 = the encoding's own, or each token's */
    gyre_cache **cache;    /* [layers], of one sequence; keys raw: they are turned when read, at any length */
    float *memory;         /* of the block and of the last norm */
    gyre_block block;
    float *final, *final_scale;
    void *scratch; /* attention's */
    size_t scratch_bytes;
};

/* Queries: the last `rows` tokens of the first `tokens`. */
static gyre_attention_args attention_args(const gyre_context *x, int64_t layer, int64_t rows, int64_t tokens) {
    const gyre_model_config *c = &x->model->config;
    gyre_attention_args args = GYRE_ATTENTION_INIT;
    gyre_view views[3];
    gyre_block_views(c, x->block.qkv, rows, 1, views);
    args.encoding = x->encoding;
    args.tables = &x->tables.layer[layer];
    args.q = gyre_const(views[0]);
    args.q_pos.base = tokens - rows;
    args.q_pos.length = x->length;
    args.causal = 1;
    args.out = gyre_dense(x->block.mixed, GYRE_F32, 1, rows, c->heads, c->head_dim);
    return args;
}

static gyre_status create_caches(gyre_context *x, gyre_error *err) {
    const gyre_model_config *c = &x->model->config;
    gyre_cache_config config = GYRE_CACHE_INIT;
    config.encoding = x->encoding;
    config.heads = c->kv_heads;
    config.head_dim = c->head_dim;
    config.max_tokens = x->max_tokens;
    x->cache = calloc((size_t)c->layers, sizeof(gyre_cache *));
    if (!x->cache) return gyre_fail(err, GYRE_ENOMEM, "context: out of memory (gyre_context_create)");
    for (int64_t layer = 0; layer < c->layers; layer++) {
        const gyre_status status = gyre_cache_create(&x->cache[layer], &config, NULL, err);
        if (status) return status;
    }
    return GYRE_OK;
}

/* The most that any number of queries needs: few go another way than many, and as many as keys may share their angles. */
static size_t scratch_bytes(const gyre_context *x, int64_t rows) {
    enum { FEW = 8 };
    size_t most = 0;
    for (int64_t n = 1; n <= rows; n = n < FEW || n >= rows - 1 ? n + 1 : rows - 1) {
        const gyre_attention_args args = attention_args(x, 0, n, n);
        const size_t bytes = gyre_cache_attention_scratch(x->cache[0], NULL, &args, NULL);
        if (!bytes) return 0;
        most = bytes > most ? bytes : most;
    }
    return most;
}

static gyre_status allocate(gyre_context *x) {
    const gyre_model_config *c = &x->model->config;
    const int64_t rows = x->max_tokens < CHUNK_ROWS ? x->max_tokens : CHUNK_ROWS, block = gyre_block_floats(c, rows);
    x->memory = gyre_floats(block + rows * (c->width + 1));
    if (!x->memory) return GYRE_ENOMEM;
    gyre_block_carve(&x->block, c, rows, x->memory);
    x->final = x->memory + block;
    x->final_scale = x->final + rows * c->width;
    x->scratch_bytes = scratch_bytes(x, rows);
    if (!x->scratch_bytes) return GYRE_EINVAL;
    x->scratch = gyre_floats((int64_t)(x->scratch_bytes / sizeof(float)) + 1);
    return x->scratch ? GYRE_OK : GYRE_ENOMEM;
}

gyre_status gyre_context_create(gyre_context **out, const gyre_model *model, const gyre_encoding *encoding,
                                int64_t max_tokens, gyre_error *err) {
    if (!out || !model)
        return gyre_fail(err, GYRE_EINVAL, "context: no %s given (gyre_context_create)", out ? "model" : "out");
    if (max_tokens < 1 || max_tokens > (int64_t)1 << 31)
        return gyre_fail(err, GYRE_EINVAL, "max_tokens: %lld is not in 1 .. 2^31 (gyre_context_create)",
                         (long long)max_tokens);
    gyre_context *x = calloc(1, sizeof *x);
    if (!x) return gyre_fail(err, GYRE_ENOMEM, "context: out of memory (gyre_context_create)");
    gyre_blas_single_thread();
    x->model = model;
    x->encoding = encoding ? encoding : model->encoding;
    x->max_tokens = max_tokens;
    gyre_status status = gyre_layer_tables_create(&x->tables, model, x->encoding, err);
    if (!status) status = create_caches(x, err);
    if (status) {
        gyre_context_free(x);
        return status;
    }
    status = allocate(x);
    if (status) {
        gyre_context_free(x);
        return gyre_fail(err, status, "context: %s for %lld tokens (gyre_context_create)",
                         status == GYRE_ENOMEM ? "out of memory" : "the encoding does not fit the model",
                         (long long)max_tokens);
    }
    *out = x;
    return GYRE_OK;
}

void gyre_context_free(gyre_context *context) {
    if (!context) return;
    gyre_layer_tables_free(&context->tables);
    for (int64_t layer = 0; context->cache && layer < context->model->config.layers; layer++)
        gyre_cache_free(context->cache[layer]);
    free(context->cache);
    free(context->memory);
    free(context->scratch);
    free(context);
}

/* Only the first `tokens` stay. */
static void cut(gyre_context *x, int64_t tokens) {
    for (int64_t layer = 0; layer < x->model->config.layers; layer++) {
        const int64_t more = gyre_cache_tokens(x->cache[layer], 0) - tokens;
        if (more <= 0) continue;
        /* The last tokens leave no hole, so that nothing can fail. */
        const gyre_status status = gyre_cache_drop(x->cache[layer], 0, tokens, more);
        (void)status;
    }
    x->held = tokens;
}

void gyre_context_reset(gyre_context *context) {
    cut(context, 0);
    context->tokens = 0;
}
int64_t gyre_context_tokens(const gyre_context *context) {
    return context->tokens;
}

static gyre_status store_keys(gyre_context *x, int64_t layer, int64_t rows) {
    const gyre_positions positions = {.base = x->held};
    gyre_view views[3];
    gyre_block_views(&x->model->config, x->block.qkv, rows, 1, views);
    const gyre_cview k = gyre_const(views[1]), v = gyre_const(views[2]);
    return gyre_cache_append(x->cache[layer], 0, &k, &v, &positions, NULL);
}

/* The position after the last of n more tokens. */
static int64_t end_of_read(const gyre_context *x, int64_t n) {
    return x->window && n > x->window - x->held ? x->window : x->held + n;
}

/* Under GYRE_LENGTH_PREFIX a read is one pass, in however many chunks it is done. */
static int64_t length_of_read(const gyre_context *x, int64_t n) {
    const gyre_config *config = gyre_encoding_config(x->encoding);
    return config->kind == GYRE_ROPE && config->rope.length_policy == GYRE_LENGTH_PREFIX ? end_of_read(x, n) : 0;
}

/* -- without end ----------------------------------------------------------------------------------------------------- */
gyre_status gyre_context_stream(gyre_context *context, int64_t sinks, int64_t window, gyre_error *err) {
    const gyre_config *config = gyre_encoding_config(context->encoding);
    if (context->tokens > 0)
        return gyre_fail(err, GYRE_EINVAL, "context: %lld tokens were read before (gyre_context_stream)",
                         (long long)context->tokens);
    if (window != 0 || sinks != 0) {
        if (sinks < 0 || window < sinks + 2 || window > context->max_tokens)
            return gyre_fail(err, GYRE_EINVAL,
                             "window: %lld with %lld sinks is not in sinks + 2 .. %lld, the most tokens "
                             "(gyre_context_stream)",
                             (long long)window, (long long)sinks, (long long)context->max_tokens);
        if (gyre_encoding_places(context->encoding) & GYRE_AT_INPUT)
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
    *rows = n < CHUNK_ROWS ? n : CHUNK_ROWS;
    if (!x->window) return GYRE_OK;
    if (x->held < x->window) {
        *rows = *rows < x->window - x->held ? *rows : x->window - x->held;
        return GYRE_OK;
    }
    *rows = 1;
    for (int64_t layer = 0; layer < x->model->config.layers; layer++) {
        const gyre_status status = gyre_cache_slide(x->cache[layer], 0, x->sinks, x->window - 1, &x->held);
        if (status) return status;
    }
    return GYRE_OK;
}

/* -- reading --------------------------------------------------------------------------------------------------------- */
/* The last layer only has to store its keys and values where no logits are wanted. */
static gyre_status read_layers(gyre_context *x, int64_t rows, int wanted) {
    const int64_t layers = x->model->config.layers, only = 0;
    for (int64_t layer = 0; layer < layers; layer++) {
        gyre_block_begin(x->model, layer, &x->block);
        gyre_status status = store_keys(x, layer, rows);
        if (status || (layer + 1 == layers && !wanted)) return status;
        const gyre_attention_args args = attention_args(x, layer, rows, x->held + rows);
        status = gyre_cache_attention(x->cache[layer], &only, &args, x->scratch, x->scratch_bytes, NULL);
        if (status) return status;
        gyre_block_end(x->model, layer, &x->block, x->block.x);
    }
    return GYRE_OK;
}

static void write_logits(gyre_context *x, int64_t rows, int64_t wanted, float *logits) {
    const gyre_model_config *c = &x->model->config;
    const gyre_norm norm = {x->model->weights + x->model->layout.norm.offset, wanted, c->width, c->norm_epsilon};
    const gyre_linear head = {x->model->weights, wanted, c->width, c->vocab};
    gyre_norm_forward(&norm, x->block.x + (rows - wanted) * c->width, x->final, x->final_scale);
    gyre_linear_forward(&head, x->final, 0, logits);
}

static gyre_status check_read(const gyre_context *x, const int32_t *tokens, int64_t n, int64_t rows, gyre_error *err) {
    if (n < 0 || rows < 0 || rows > n)
        return gyre_fail(err, GYRE_EINVAL, "tokens: %lld read and logits of %lld wanted (gyre_context_read)", (long long)n,
                         (long long)rows);
    if (!x->window && n > x->max_tokens - x->tokens)
        return gyre_fail(err, GYRE_EINVAL, "tokens: no room for %lld more after %lld of %lld (gyre_context_read)",
                         (long long)n, (long long)x->tokens, (long long)x->max_tokens);
    for (int64_t i = 0; i < n; i++)
        if (tokens[i] < 0 || tokens[i] >= x->model->config.vocab)
            return gyre_fail(err, GYRE_EINVAL, "token %lld: %d is outside the vocabulary of %lld (gyre_context_read)",
                             (long long)i, tokens[i], (long long)x->model->config.vocab);
    const int64_t end = end_of_read(x, n);
    const gyre_positions positions = {.base = x->held < end ? x->held : end - 1};
    const gyre_status status = n ? gyre_positions_check(x->encoding, &positions, 1, end - positions.base) : GYRE_OK;
    if (status)
        return gyre_fail(err, status, "position %lld: the encoding (%s) ends before it (gyre_context_read)",
                         (long long)(end - 1), gyre_kind_name(gyre_encoding_config(x->encoding)->kind));
    return GYRE_OK;
}

/* Forgets what of a read was taken in before it failed; where the window has moved, all. */
static void undo(gyre_context *x, int64_t held, int64_t read) {
    if (x->window) {
        gyre_context_reset(x);
        return;
    }
    cut(x, held);
    x->tokens -= read;
}

gyre_status gyre_context_read(gyre_context *context, const int32_t *tokens, int64_t n, int64_t rows, float *logits,
                              gyre_error *err) {
    gyre_status status = check_read(context, tokens, n, rows, err);
    if (status) return status;
    const int64_t before = context->held, vocab = context->model->config.vocab;
    context->length = length_of_read(context, n);
    for (int64_t from = 0, chunk; from < n; from += chunk) {
        status = make_room(context, n - from, &chunk);
        int64_t wanted = from + chunk - (n - rows);
        wanted = wanted < 0 ? 0 : wanted > chunk ? chunk : wanted;
        context->block.rows = chunk;
        if (!status)
            status = gyre_embed(context->model, context->encoding, tokens + from, 1, chunk, context->held, context->block.x);
        if (!status) status = read_layers(context, chunk, wanted > 0);
        if (status) {
            undo(context, before, from);
            return gyre_fail(err, status, "attention: %s (gyre_context_read)", gyre_status_text(status));
        }
        if (wanted) write_logits(context, chunk, wanted, logits);
        logits = wanted ? logits + wanted * vocab : logits;
        context->tokens += chunk;
        context->held += chunk;
    }
    return GYRE_OK;
}
