/* test_stream.c: endless reading with sink tokens and a window, at positions within the cache. */
#include "model/model.h"
#include "naive_decoder.h"
#include "support.h"

enum { TOKENS = 70, VOCAB = NAIVE_VOCAB, HEAD = NAIVE_HEAD_DIM, WINDOW = 24, SINKS = 4 };

static gyre_model *model_of(const gyre_config *position) {
    gyre_model_config c = naive_model_config();
    c.position = *position;
    return naive_model(&c, 0.15);
}

/* -- the definition -- */
/* The cached tokens in order, and the projections of each token in each layer. */
typedef struct held {
    int64_t token[WINDOW], count;
    double *qkv;   /* [layers][TOKENS][row] */
    double *gates; /* [layers][TOKENS][heads] logarithms of forget gates, of all tokens read */
    int64_t row;
} held;

/* Attention of the newest token over all cached ones, each at its index in the cache. */
static void attend(const naive *d, const held *cache, int64_t layer, double *out) {
    const gyre_model_config *c = &d->m->config;
    const int64_t dim = c->head_dim, group = c->heads / c->kv_heads, m = cache->count - 1;
    const int64_t query = gyre_query_dim(c), keys = c->heads * query;
    const double *own = cache->qkv + (layer * TOKENS + cache->token[m]) * cache->row;
    const naive_part *part = naive_part_in(d, layer);
    const int polar = part && part->dot;
    naive_scheme scheme = naive_scheme_make(d, layer);
    for (int64_t h = 0; h < c->heads; h++) {
        double s[WINDOW], sum = 0, q[2 * HEAD], k[2 * HEAD] = {0}, values[WINDOW][2 * HEAD];
        for (int64_t n = 0; n <= m; n++) {
            const naive_pair pair = {layer, h, m, n};
            const double *other = cache->qkv + (layer * TOKENS + cache->token[n]) * cache->row;
            memcpy(q, own + h * query, (size_t)query * sizeof *q);
            memcpy(k, other + keys + h / group * dim, (size_t)dim * sizeof *k);
            if (!polar && !scheme.of.rotates) {
                naive_rotate(d, layer, (double)m, q);
                naive_rotate(d, layer, (double)n, k);
            }
            const naive_pair read = {layer, h, cache->token[m], cache->token[n]}; /* gates of removed tokens count */
            const scheme_terms terms = naive_terms(&scheme, &pair, q, k, values[n]);
            const double dot = polar ? part->dot(d, &pair, q, k) : terms.product;
            s[n] = exp(dot / sqrt(terms.channels) + terms.bias +
                       naive_forgotten(d, cache->gates + layer * TOKENS * c->heads, &read));
            sum += s[n];
        }
        memset(out + h * dim, 0, (size_t)dim * sizeof *out);
        for (int64_t n = 0; n <= m; n++)
            for (int64_t i = 0; i < dim; i++)
                out[h * dim + i] += s[n] / sum *
                                    (values[n][i] + cache->qkv[(layer * TOKENS + cache->token[n]) * cache->row + keys +
                                                               (c->kv_heads + h / group) * dim + i]);
    }
    naive_scheme_free(&scheme);
}

static void read_layer(const naive *d, held *cache, int64_t layer, int64_t t, double *x) {
    const gyre_model_config *c = &d->m->config;
    const double *w[GYRE_WEIGHT_FIRST_TABLE];
    double y[32], mixed[4 * HEAD], gate[80], back[32];
    double *qkv = cache->qkv + (layer * TOKENS + t) * cache->row;
    for (int i = 0; i < GYRE_WEIGHT_FIRST_TABLE; i++)
        w[i] = d->w + gyre_layer_tensor_offset(&d->m->layout, layer, i);
    naive_norm(d, w[GYRE_WEIGHT_ATTN_NORM], x, y);
    naive_project(d, layer, cache->count - 1, y, qkv);
    for (int64_t h = 0; h < c->heads && naive_forgets(d); h++)
        cache->gates[(layer * TOKENS + t) * c->heads + h] = naive_log_gate(d, layer, h, y);
    attend(d, cache, layer, mixed);
    naive_product(w[GYRE_WEIGHT_O], c->model_dim, c->heads * c->head_dim, mixed, back);
    for (int64_t i = 0; i < c->model_dim; i++)
        x[i] += back[i];
    naive_norm(d, w[GYRE_WEIGHT_MLP_NORM], x, y);
    naive_product(w[GYRE_WEIGHT_GATE], 2 * c->mlp_dim, c->model_dim, y, gate);
    for (int64_t i = 0; i < c->mlp_dim; i++)
        gate[i] = gate[i] / (1 + exp(-gate[i])) * gate[c->mlp_dim + i];
    naive_product(w[GYRE_WEIGHT_DOWN], c->model_dim, c->mlp_dim, gate, back);
    for (int64_t i = 0; i < c->model_dim; i++)
        x[i] += back[i];
}

/* The oldest token that is not a sink is removed for the next. */
static void take_in(held *cache, int64_t t) {
    if (cache->count == WINDOW) {
        memmove(cache->token + SINKS, cache->token + SINKS + 1, (WINDOW - SINKS - 1) * sizeof *cache->token);
        cache->count--;
    }
    cache->token[cache->count++] = t;
}

static void compute(const naive *d, const int32_t *tokens, double *logits) {
    const gyre_model_config *c = &d->m->config;
    held cache = {.row = c->heads * gyre_query_dim(c) + 2 * c->kv_heads * c->head_dim};
    cache.qkv = malloc((size_t)(c->layers * TOKENS * cache.row) * sizeof *cache.qkv);
    cache.gates = calloc((size_t)(c->layers * TOKENS * c->heads), sizeof *cache.gates);
    for (int64_t t = 0; t < TOKENS; t++) {
        double x[32], y[32];
        take_in(&cache, t);
        memcpy(x, d->w + tokens[t] * c->model_dim, sizeof x);
        for (int64_t layer = 0; layer < c->layers; layer++)
            read_layer(d, &cache, layer, t, x);
        naive_norm(d, d->w + d->m->layout.final_norm.offset, x, y);
        naive_product(d->w, VOCAB, c->model_dim, y, logits + t * VOCAB);
    }
    free(cache.qkv);
    free(cache.gates);
}

/* -- tests -- */
static void check(const gyre_model *m, const float *got, const double *want, int64_t tokens, const char *what) {
    double scale = 0;
    for (int64_t i = 0; i < tokens * VOCAB; i++)
        scale = fmax(scale, fabs(want[i]));
    for (int64_t i = 0; i < tokens * VOCAB; i++)
        test_close((double)got[i], want[i], (long double)(naive_error(gyre_model_get_encoding(m)) * scale), what);
}

static void read_in(gyre_context *x, int64_t piece, float *logits) {
    int32_t tokens[TOKENS];
    gyre_error err = {0, ""};
    naive_draw_tokens(tokens, TOKENS);
    for (int64_t from = 0; from < TOKENS; from += piece) {
        const int64_t n = TOKENS - from < piece ? TOKENS - from : piece;
        if (gyre_context_forward(x, tokens + from, n, n, logits + from * VOCAB, &err)) fail_msg("%s", err.text);
    }
    assert_int_equal(gyre_context_tokens(x), TOKENS);
}

/* A cache for the window alone, and a larger one. */
static void check_model(const gyre_model *m, int64_t length, const char *what) {
    static float logits[TOKENS * VOCAB];
    static double want[TOKENS * VOCAB], whole[TOKENS * VOCAB];
    static const int64_t rooms[] = {WINDOW, WINDOW + 1, 3 * WINDOW}, pieces[] = {1, 9, TOKENS};
    int32_t tokens[TOKENS];
    gyre_context *x = NULL;
    naive_draw_tokens(tokens, TOKENS);
    double *w = naive_weights(m);
    const naive d = {m, gyre_model_get_encoding(m), w, TOKENS, length, NULL, NULL};
    compute(&d, tokens, want);
    naive_logits(&d, tokens, whole);
    free(w);
    for (int i = 0; i < 3; i++) {
        assert_ok(gyre_context_create(
            &x, m, &(gyre_context_options){.size = sizeof(gyre_context_options), .max_tokens = rooms[i]}, NULL));
        assert_ok(gyre_context_stream(x, SINKS, WINDOW, NULL));
        read_in(x, pieces[i], logits);
        check(m, logits, want, TOKENS, what);
        check(m, logits, whole, WINDOW, "within the window all is seen");
        gyre_context_reset(x);
        read_in(x, 9, logits);
        check(m, logits, want, TOKENS, "after a reset");
        gyre_context_free(x);
    }
}

static void matches_the_definition(void **state) {
    (void)state;
    for (int i = 0; i < SCHEMES; i++) {
        if (!test_scheme_attends(i, GYRE_CAUSAL_BY_POSITION)) continue; /* positions at the input do not stream */
        const gyre_config p = test_scheme_config(i, 4, HEAD, TOKENS);
        gyre_model *m = model_of(&p);
        check_model(m, 0, test_schemes[i].name);
        gyre_model_free(m);
    }
}

/* Keys that are rotated before they are cached cannot be moved. */
static void refuses_window(const gyre_model *m) {
    gyre_context *x = NULL;
    gyre_error err = {0, ""};
    assert_ok(gyre_context_create(&x, m, GYRE_ARGS(gyre_context_options, .max_tokens = WINDOW), &err));
    assert_int_equal(gyre_context_stream(x, SINKS, WINDOW, &err), GYRE_EUNSUPPORTED);
    gyre_context_free(x);
}

/* With ALiBi too, whose distances are those in the cache, and polar coordinates, which turn when they are read. */
static void with_layer_parts(void **state) {
    (void)state;
    static const struct {
        gyre_kind kind;
        int64_t parts;
        const char *name;
    } cases[] = {{GYRE_KIND_NOPE, GYRE_LAYER_PART_FORGET_GATES, "gates"},
                 {GYRE_KIND_ALIBI, GYRE_LAYER_PART_FORGET_GATES, "gates and ALiBi"}};
    enum { CASES = sizeof cases / sizeof *cases };
    for (int i = 0; i < CASES + NAIVE_PARTS; i++) {
        const naive_part *part = &naive_parts[i < CASES ? 0 : i - CASES];
        gyre_model_config c = naive_model_config();
        c.position.kind = i < CASES ? cases[i].kind : GYRE_KIND_ROPE;
        c.layer_parts = i < CASES ? cases[i].parts : part->parts;
        c.position.trained_length = TOKENS;
        gyre_model *m = naive_model(&c, 0.15);
        if (i < CASES || !part->rotates)
            check_model(m, 0, i < CASES ? cases[i].name : part->key);
        else
            refuses_window(m);
        gyre_model_free(m);
    }
    static const double bases[] = {40, 0, 10000};
    gyre_model_config c = naive_model_config();
    c.position.kind = GYRE_KIND_ROPE;
    c.layer_bases = bases;
    c.layer_bases_count = 3;
    gyre_model *m = naive_model(&c, 0.15);
    check_model(m, 0, "bases of layers");
    gyre_model_free(m);
}

/* A scaling with a declared length, Self-Extend and Dual Chunk Attention, with the same cache. */
static void with_extensions(void **state) {
    (void)state;
    gyre_config p = test_rope_config(HEAD, GYRE_LAYOUT_INTERLEAVED);
    p.heads = 4;
    p.trained_length = 16;
    p.rope.scaling = GYRE_SCALING_DYNAMIC_YARN;
    p.rope.base = 100;
    p.context_length = WINDOW;
    gyre_model *m = model_of(&p);
    check_model(m, WINDOW, "dynamic YaRN");
    gyre_model_free(m);
    p = test_rope_config(HEAD, GYRE_LAYOUT_HALF);
    p.heads = 4;
    p.rope.far = GYRE_FAR_GROUPED;
    p.rope.far_window = 6;
    p.rope.far_factor = 3;
    m = model_of(&p);
    check_model(m, 0, "Self-Extend");
    gyre_model_free(m);
    p = test_rope_config(HEAD, GYRE_LAYOUT_HALF);
    p.heads = 4;
    p.rope.far = GYRE_FAR_CHUNKED;
    p.rope.chunk.size = 7;
    p.rope.chunk.local = 3;
    m = model_of(&p);
    check_model(m, 0, "Dual Chunk Attention");
    gyre_model_free(m);
}

static void refusals(void **state) {
    (void)state;
    static const int64_t wrong[][2] = {{-1, 8}, {4, 5}, {0, 1}, {4, WINDOW + 1}, {3, 0}, {0, -8}};
    gyre_config p = test_rope_config(HEAD, GYRE_LAYOUT_HALF);
    p.heads = 4;
    p.trained_length = 32;
    gyre_model *m = model_of(&p);
    gyre_context *x = NULL;
    gyre_error err = {0, ""};
    const int32_t tokens[WINDOW + 1] = {1};
    float logits[VOCAB];
    assert_ok(gyre_context_create(&x, m, &(gyre_context_options){.size = sizeof(gyre_context_options), .max_tokens = WINDOW},
                                  &err));
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(gyre_context_stream(x, wrong[i][0], wrong[i][1], &err), GYRE_EINVAL);
    assert_non_null(strstr(err.text, "window: -8 with 0 sinks"));
    assert_ok(gyre_context_stream(x, 1, 8, &err));
    assert_ok(gyre_context_stream(x, 0, 0, &err)); /* no window after all */
    assert_int_equal(gyre_context_forward(x, tokens, WINDOW + 1, 1, logits, &err), GYRE_EINVAL);
    assert_non_null(strstr(err.text, "no room"));
    assert_ok(gyre_context_forward(x, tokens, 1, 1, logits, &err));
    assert_int_equal(gyre_context_stream(x, 1, 8, &err), GYRE_EINVAL);
    assert_non_null(strstr(err.text, "1 tokens were read before"));
    gyre_context_free(x);
    gyre_model_free(m);
    p.kind = GYRE_KIND_SINUSOIDAL;
    m = model_of(&p);
    assert_ok(gyre_context_create(&x, m, &(gyre_context_options){.size = sizeof(gyre_context_options), .max_tokens = WINDOW},
                                  &err));
    assert_int_equal(gyre_context_stream(x, 1, 8, &err), GYRE_EUNSUPPORTED);
    assert_non_null(strstr(err.text, "sinusoidal: adds positions at the input"));
    gyre_context_free(x);
    gyre_model_free(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(matches_the_definition), cmocka_unit_test(with_extensions),
                                       cmocka_unit_test(with_layer_parts), cmocka_unit_test(refusals)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
