/* context.c: reads one sequence with a model, a whole prompt or token by token through the same code. */
#include "core/positions.h"
#include "core/sized.h"
#include "model/overflow.h"
#include "util/error.h"

#include <stdlib.h>

struct gyre_context {
    gyre_decoder decoder;
    int64_t max_tokens;
    int64_t tokens;        /* read so far; decoder.cached of them are in the cache */
    int64_t sinks, window; /* of gyre_context_stream; window 0 = every token stays in the cache */
};

/* -- creation -- */
gyre_status gyre_context_create(gyre_context **out, const gyre_model *model, const gyre_context_options *given,
                                gyre_error *err) {
    gyre_context_options own;
    const gyre_context_options *options = &own;
    if (!out || !model) return gyre_fail(err, GYRE_EINVAL, "%s: is NULL (gyre_context_create)", out ? "model" : "out");
    if (gyre_sized_read(&own, sizeof own, given, "gyre_context_options", err)) return GYRE_EINVAL;
    if (options->max_tokens < 1 || options->max_tokens > (int64_t)1 << 31)
        return gyre_fail(err, GYRE_EINVAL, "max_tokens: %lld is not in 1 .. 2^31 (gyre_context_create)",
                         (long long)options->max_tokens);
    if (options->first_position < 0 || options->first_position > ((int64_t)1 << 31) - options->max_tokens)
        return gyre_fail(err, GYRE_EINVAL, "first_position: %lld is not in 0 .. 2^31 - max_tokens (gyre_context_create)",
                         (long long)options->first_position);
    if (options->order != GYRE_ORDER_FAST && options->order != GYRE_ORDER_FIXED)
        return gyre_fail(err, GYRE_EINVAL, "order: %d is not a gyre_order (gyre_context_create)", (int)options->order);
    gyre_context *x = calloc(1, sizeof *x);
    if (!x) return gyre_fail(err, GYRE_ENOMEM, "context: out of memory (gyre_context_create)");
    x->max_tokens = options->max_tokens;
    gyre_status status = gyre_decoder_create(&x->decoder, model, options, err);
    x->decoder.first = options->first_position;
    if (!status && options->first_position && gyre_decoder_has_own_attention(&x->decoder))
        status = gyre_fail(err, GYRE_EUNSUPPORTED, "first_position: %s (gyre_context_create)",
                           gyre_own_attention_says(x->decoder.net->arch.layer_parts));
    if (status)
        gyre_context_free(x);
    else
        *out = x;
    return status;
}

void gyre_context_free(gyre_context *context) {
    if (!context) return;
    gyre_decoder_free(&context->decoder);
    free(context);
}

int64_t gyre_context_bytes(const gyre_context *context) {
    return gyre_decoder_bytes(&context->decoder);
}

int64_t gyre_context_tokens(const gyre_context *context) {
    return context->tokens;
}

/* -- dropping tokens -- */
/* Keeps the first `tokens` tokens. */
static void truncate_caches(gyre_decoder *d, int64_t tokens) {
    for (int64_t layer = 0; d->cache && layer < d->net->arch.layers; layer++) {
        if (!d->cache[layer]) continue;
        const int64_t excess = gyre_cache_tokens(d->cache[layer], 0) - tokens;
        if (excess <= 0) continue;
        /* Cannot fail: removing the last tokens leaves no hole. */
        const gyre_status status = gyre_cache_remove(d->cache[layer], (gyre_cache_range){0, tokens, excess}, NULL);
        (void)status;
    }
    gyre_kept_truncate(&d->gates, tokens);
    gyre_kept_truncate(&d->part, tokens);
    d->cached = tokens;
}

void gyre_context_reset(gyre_context *context) {
    truncate_caches(&context->decoder, 0);
    context->tokens = 0;
}

gyre_status gyre_context_truncate(gyre_context *context, int64_t tokens) {
    if (tokens < 0 || tokens > context->tokens || context->window) return GYRE_EINVAL;
    truncate_caches(&context->decoder, tokens);
    context->tokens = tokens;
    return GYRE_OK;
}

/* -- streaming -- */
gyre_status gyre_context_stream(gyre_context *context, int64_t sinks, int64_t window, gyre_error *err) {
    const gyre_encoding *encoding = context->decoder.encoding;
    if (context->tokens > 0)
        return gyre_fail(err, GYRE_EINVAL, "context: %lld tokens were read before (gyre_context_stream)",
                         (long long)context->tokens);
    if (window != 0 || sinks != 0) {
        if (sinks < 0 || window < sinks + 2 || window > context->max_tokens)
            return gyre_fail(err, GYRE_EINVAL,
                             "window: %lld with %lld sinks is not in sinks + 2 .. %lld, the most tokens "
                             "(gyre_context_stream)",
                             (long long)window, (long long)sinks, (long long)context->max_tokens);
        if (context->decoder.watched || context->decoder.watched_queries)
            return gyre_fail(err, GYRE_EUNSUPPORTED, "weights: are being recorded, by token (gyre_context_stream)");
        if (context->decoder.first)
            return gyre_fail(err, GYRE_EUNSUPPORTED, "first_position: %lld; a window counts from 0 (gyre_context_stream)",
                             (long long)context->decoder.first);
        if (gyre_decoder_rotates_before(&context->decoder))
            return gyre_fail(err, GYRE_EUNSUPPORTED, "keys: are rotated before they are cached (gyre_context_stream)");
        if (gyre_encoding_places(encoding) & GYRE_PLACE_INPUT)
            return gyre_fail(err, GYRE_EUNSUPPORTED,
                             "%s: adds positions at the input, where they cannot be changed (gyre_context_stream)",
                             gyre_kind_name(gyre_encoding_get_config(encoding)->kind));
    }
    context->sinks = sinks;
    context->window = window;
    return GYRE_OK;
}

gyre_status gyre_context_watch(gyre_context *context, int64_t layer, float *weights, gyre_error *err) {
    gyre_decoder *d = &context->decoder;
    if (layer < 0 || layer >= d->net->arch.layers)
        return gyre_fail(err, GYRE_EINVAL, "layer: %lld is not in 0 .. %lld (gyre_context_watch)", (long long)layer,
                         (long long)d->net->arch.layers - 1);
    if (context->window)
        return gyre_fail(err, GYRE_EUNSUPPORTED, "window: one of %lld tokens moves the keys (gyre_context_watch)",
                         (long long)context->window);
    if (gyre_decoder_has_own_attention(d) && weights)
        return gyre_fail(err, GYRE_EUNSUPPORTED, "weights: %s, whose weights are not available (gyre_context_watch)",
                         gyre_own_attention_says(d->net->arch.layer_parts));
    d->watched = weights;
    d->watched_layer = layer;
    d->watched_tokens = context->max_tokens;
    return GYRE_OK;
}

gyre_status gyre_context_watch_heads(gyre_context *context, int64_t layer, float *queries, float *keys, gyre_error *err) {
    gyre_decoder *d = &context->decoder;
    if (layer < 0 || layer >= d->net->arch.layers)
        return gyre_fail(err, GYRE_EINVAL, "layer: %lld is not in 0 .. %lld (gyre_context_watch_heads)", (long long)layer,
                         (long long)d->net->arch.layers - 1);
    if (queries && d->net->layer[layer].keys_of != layer)
        return gyre_fail(err, GYRE_EUNSUPPORTED, "layer: %lld reads the keys of layer %lld (gyre_context_watch_heads)",
                         (long long)layer, (long long)d->net->layer[layer].keys_of);
    if (queries &&
        (d->net->layer[layer].k.channels != d->net->arch.head_dim || d->net->layer[layer].k.count != d->net->arch.kv_heads))
        return gyre_fail(err, GYRE_EUNSUPPORTED,
                         "layer: %lld has %lld key heads of %lld channels, the model %lld of %lld "
                         "(gyre_context_watch_heads)",
                         (long long)layer, (long long)d->net->layer[layer].k.count,
                         (long long)d->net->layer[layer].k.channels, (long long)d->net->arch.kv_heads,
                         (long long)d->net->arch.head_dim);
    if (!queries != !keys)
        return gyre_fail(err, GYRE_EINVAL, "%s: is NULL (gyre_context_watch_heads)", queries ? "keys" : "queries");
    if (context->window)
        return gyre_fail(err, GYRE_EUNSUPPORTED, "window: one of %lld tokens moves the keys (gyre_context_watch_heads)",
                         (long long)context->window);
    if (gyre_projected_heads(d->net->arch.layer_parts, d->net->arch.heads) != d->net->arch.heads && queries)
        return gyre_fail(err, GYRE_EUNSUPPORTED, "queries: each is two heads of attention (gyre_context_watch_heads)");
    if (gyre_decoder_rotates_before(d) && queries)
        return gyre_fail(err, GYRE_EUNSUPPORTED, "keys: are rotated before they are cached (gyre_context_watch_heads)");
    d->watched_queries = queries;
    d->watched_keys = keys;
    d->watched_heads_layer = layer;
    return GYRE_OK;
}

/* *rows = how many of the next n tokens to read in one pass.  Once the window is full it is one token, for which the
 * oldest token that is not a sink is dropped. */
static gyre_status make_room(gyre_context *x, int64_t n, int64_t *rows, gyre_error *err) {
    gyre_decoder *d = &x->decoder;
    *rows = n < GYRE_PREFILL_CHUNK ? n : GYRE_PREFILL_CHUNK;
    if (!x->window) return GYRE_OK;
    if (d->cached < x->window) {
        *rows = *rows < x->window - d->cached ? *rows : x->window - d->cached;
        return GYRE_OK;
    }
    *rows = 1;
    const gyre_status status = gyre_caches_slide(d->cache, d->net->arch.layers, 0, x->sinks, x->window - 1, err);
    if (!status) d->cached = x->window - 1;
    return status;
}

/* -- reading -- */
/* What a read leaves of its last `rows` tokens. */
typedef struct read_output {
    const char *what, *call; /* "logits", "gyre_context_forward" */
    void (*write)(gyre_decoder *d, int64_t rows, int64_t wanted, float *to);
    float *to;     /* [rows][width] */
    int64_t width; /* numbers of a token */
} read_output;

/* out = the position after the last of n more tokens. */
static int64_t read_end(const gyre_context *x, int64_t n) {
    const int64_t next = x->decoder.first + x->decoder.cached; /* with a window, first is 0 */
    return x->window && n > x->window - next ? x->window : next + n;
}

/* out = the context length in use for a read of n tokens.  Under GYRE_LENGTH_POLICY_PREFIX it is the same for all chunks
 * of the read. */
static int64_t read_length_in_use(const gyre_context *x, int64_t n) {
    const gyre_config *config = gyre_encoding_get_config(x->decoder.encoding);
    return config->length_policy == GYRE_LENGTH_POLICY_PREFIX ? read_end(x, n) : 0;
}

static gyre_status check_positions(const gyre_context *x, int64_t n, const char *call, gyre_error *err) {
    const gyre_decoder *d = &x->decoder;
    const int64_t end = read_end(x, n);
    const int64_t next = d->first + d->cached;
    gyre_positions positions = {.base = next < end ? next : end - 1};
    for (int group = 0; group < d->net->groups && n > 0; group++) {
        const gyre_encoding *encoding = gyre_decoder_encoding(d, group);
        const int declared = gyre_encoding_get_config(encoding)->length_policy == GYRE_LENGTH_POLICY_DECLARED;
        positions.context_length = declared ? 0 : end; /* a policy gives each query a length */
        const gyre_status status =
            gyre_positions_check(encoding, &positions, 1, end - positions.base, "position", call, err);
        if (status == GYRE_EINVAL) return status;
        if (status)
            return gyre_fail(err, status, "position %lld: the encoding (%s) ends before it (%s)", (long long)(end - 1),
                             gyre_kind_name(gyre_encoding_get_config(encoding)->kind), call);
    }
    return GYRE_OK;
}

static gyre_status check_read(const gyre_context *x, const int32_t *tokens, int64_t n, int64_t rows, const read_output *out,
                              gyre_error *err) {
    const int64_t vocab = x->decoder.net->arch.vocab;
    if (n < 0 || rows < 0 || rows > n)
        return gyre_fail(err, GYRE_EINVAL, "tokens: %lld read and %s of %lld wanted (%s)", (long long)n, out->what,
                         (long long)rows, out->call);
    if (rows > 0 && !out->to)
        return gyre_fail(err, GYRE_EINVAL, "%s: is NULL, but those of %lld tokens are wanted (%s)", out->what,
                         (long long)rows, out->call);
    if (!x->window && n > x->max_tokens - x->tokens)
        return gyre_fail(err, GYRE_EINVAL, "tokens: no room for %lld more after %lld of %lld (%s)", (long long)n,
                         (long long)x->tokens, (long long)x->max_tokens, out->call);
    for (int64_t i = 0; i < n; i++)
        if (tokens[i] < 0 || tokens[i] >= vocab)
            return gyre_fail(err, GYRE_EINVAL, "token %lld: %d is outside the vocabulary of %lld (%s)", (long long)i,
                             tokens[i], (long long)vocab, out->call);
    return check_positions(x, n, out->call, err);
}

/* After a failed read: drops the tokens of it that were stored.  If the window has moved, the sequence cannot be
 * restored and everything is dropped. */
static void rollback(gyre_context *x, int64_t cached_before, int64_t read) {
    if (x->window) {
        gyre_context_reset(x);
        return;
    }
    truncate_caches(&x->decoder, cached_before);
    x->tokens -= read;
}

/* Reads `rows` tokens in one pass, after those in the cache, and the results of the last `wanted` of them. */
static gyre_status read_pass(gyre_context *x, const int32_t *tokens, int64_t rows, int64_t wanted, const read_output *out,
                             gyre_error *err) {
    gyre_decoder *d = &x->decoder;
    gyre_status status = gyre_decoder_embed(d, tokens, rows, err);
    const int64_t kept = d->watched ? rows : wanted; /* rows of the last layer */
    if (!status) status = gyre_decoder_forward(d, rows, kept, err);
    if (!status && wanted) out->write(d, kept, wanted, out->to);
    return status;
}

/* After a pass with numbers that are not finite, or that a cache refused: the same pass again, with a look after each
 * step. */
static gyre_status fail_overflow(gyre_context *x, const int32_t *tokens, int64_t rows, int64_t wanted,
                                 const read_output *out, gyre_error *err) {
    gyre_decoder *d = &x->decoder;
    gyre_overflow found = {.what = NULL};
    truncate_caches(d, d->cached);
    d->overflow = &found;
    const gyre_status status = read_pass(x, tokens, rows, wanted, out, err);
    d->overflow = NULL;
    if (status && !found.what && found.refused) return gyre_overflow_refused(found.refused - 1, x->tokens, err);
    return status && !found.what ? status : gyre_overflow_fail(d, &found, x->tokens, err);
}

/* Positions and shapes were checked before, so a cache that refuses a layer refuses its numbers. */
static gyre_status read_finite(gyre_context *x, const int32_t *tokens, int64_t rows, int64_t wanted, const read_output *out,
                               gyre_error *err) {
    const gyre_status status = read_pass(x, tokens, rows, wanted, out, err);
    const int sound =
        status ? status != GYRE_EINVAL : gyre_decoder_is_finite(&x->decoder, rows, out->to, wanted * out->width);
    return sound ? status : fail_overflow(x, tokens, rows, wanted, out, err);
}

static gyre_status read_tokens(gyre_context *context, const int32_t *tokens, int64_t n, int64_t rows, read_output out,
                               gyre_error *err) {
    gyre_decoder *d = &context->decoder;
    gyre_status status = check_read(context, tokens, n, rows, &out, err);
    if (status) return status;
    const int64_t cached_before = d->cached;
    d->length = read_length_in_use(context, n);
    for (int64_t from = 0, chunk; from < n; from += chunk) {
        status = make_room(context, n - from, &chunk, err);
        int64_t wanted = from + chunk - (n - rows); /* results of this chunk */
        wanted = wanted < 0 ? 0 : wanted > chunk ? chunk : wanted;
        if (!status) status = read_finite(context, tokens + from, chunk, wanted, &out, err);
        if (status) {
            rollback(context, cached_before, from);
            return status;
        }
        if (wanted) out.to += wanted * out.width;
        context->tokens += chunk;
        d->cached += chunk;
    }
    if (d->net->mapped) status = gyre_tensor_store_check(d->net->mapped, err);
    if (status) rollback(context, cached_before, n);
    return status;
}

gyre_status gyre_context_forward(gyre_context *context, const int32_t *tokens, int64_t n, int64_t rows, float *logits,
                                 gyre_error *err) {
    const read_output out = {"logits", "gyre_context_forward", gyre_decoder_logits, logits,
                             context->decoder.net->arch.vocab};
    return read_tokens(context, tokens, n, rows, out, err);
}

gyre_status gyre_context_embed(gyre_context *context, const int32_t *tokens, int64_t n, int64_t rows, float *states,
                               gyre_error *err) {
    const read_output out = {"states", "gyre_context_embed", gyre_decoder_states, states,
                             context->decoder.net->arch.model_dim};
    return read_tokens(context, tokens, n, rows, out, err);
}
