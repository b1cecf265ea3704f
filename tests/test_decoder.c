/* test_decoder.c: reading a sequence: against the formulas in double, and token by token against all at once. */
#include "naive_decoder.h"
#include "support.h"

enum { TOKENS = 80, TRAINED = 32, VOCAB = 48 };

static gyre_model_config tiny(gyre_kind kind) {
    gyre_model_config c = GYRE_MODEL_CONFIG_INIT;
    c.vocab = VOCAB;
    c.width = 32;
    c.layers = 3;
    c.heads = 4;
    c.kv_heads = 2;
    c.head_dim = 8;
    c.hidden = 40;
    c.position.kind = kind;
    c.position.trained_length = TRAINED;
    c.position.input.positions = 2 * TOKENS;
    return c;
}

static gyre_model *model_of(const gyre_model_config *c) {
    gyre_model *m = NULL;
    gyre_error err;
    assert_ok(gyre_model_create(&m, c, 11, &err));
    test_random r = {5};
    for (int64_t i = 0; i < m->count; i++)
        m->weights[i] += 0.1f * (float)test_uniform(&r);
    return m;
}

static void draw_tokens(int32_t *tokens, int64_t n) {
    test_random r = {9};
    for (int64_t i = 0; i < n; i++)
        tokens[i] = (int32_t)(test_next(&r) % VOCAB);
}

/* Reads tokens in pieces of `piece`, with all logits. */
static void read_in(const gyre_model *m, const gyre_encoding *e, const int32_t *tokens, int64_t piece, float *logits) {
    gyre_context *x = NULL;
    gyre_error err;
    assert_ok(gyre_context_create(&x, m, e, TOKENS, &err));
    for (int64_t from = 0; from < TOKENS; from += piece) {
        const int64_t n = TOKENS - from < piece ? TOKENS - from : piece;
        assert_ok(gyre_context_read(x, tokens + from, n, n, logits + from * VOCAB, &err));
    }
    assert_int_equal(gyre_context_tokens(x), TOKENS);
    gyre_context_free(x);
}

static double largest(const float *x, int64_t n) {
    double most = 0;
    for (int64_t i = 0; i < n; i++)
        most = fmax(most, fabs((double)x[i]));
    return most;
}

static void check_same(const float *a, const float *b, double bound, const char *what) {
    const double scale = largest(b, TOKENS * VOCAB);
    for (int64_t i = 0; i < TOKENS * VOCAB; i++)
        test_close((double)a[i], (double)b[i], bound * scale, what);
}

static void check_encoding(const gyre_model *m, const gyre_encoding *e, int64_t length, const char *what) {
    static float whole[TOKENS * VOCAB], pieces[TOKENS * VOCAB], exact[TOKENS * VOCAB];
    static double logits[TOKENS * VOCAB];
    int32_t tokens[TOKENS];
    draw_tokens(tokens, TOKENS);
    read_in(m, e, tokens, TOKENS, whole);
    double *w = naive_weights(m);
    const naive d = {&m->config, e, w, TOKENS, length};
    naive_logits(&d, tokens, logits);
    free(w);
    for (int64_t i = 0; i < TOKENS * VOCAB; i++)
        exact[i] = (float)logits[i];
    check_same(whole, exact, 1e-5, what);
    read_in(m, e, tokens, 1, pieces);
    check_same(pieces, whole, 1e-5, what);
    read_in(m, e, tokens, 7, pieces);
    check_same(pieces, whole, 1e-5, what);
}

static void every_encoding(void **state) {
    (void)state;
    for (int kind = GYRE_NOPE; kind <= GYRE_ALIBI; kind++) {
        const gyre_model_config c = tiny((gyre_kind)kind);
        gyre_model *m = model_of(&c);
        check_encoding(m, gyre_model_encoding(m), 0, gyre_kind_name((gyre_kind)kind));
        gyre_model_free(m);
    }
}

/* Decoding token by token equals the whole prefix under every extension, at one declared length. */
static void every_method(void **state) {
    (void)state;
    static const double factors[4] = {1, 1.5, 2.5, 4};
    for (int scaling = GYRE_UNSCALED; scaling <= GYRE_PROPORTIONAL; scaling++)
        for (int layout = GYRE_HALF; layout <= GYRE_INTERLEAVED; layout++) {
            gyre_model_config c = tiny(GYRE_ROPE);
            struct gyre_rope_config *r = &c.position.rope;
            r->layout = (gyre_layout)layout;
            gyre_model *m = model_of(&c);
            gyre_config p = m->config.position;
            p.rope.scaling = (gyre_scaling)scaling;
            p.rope.length = TOKENS;
            p.rope.table_positions = layout == GYRE_HALF ? TOKENS / 2 : 0; /* with angles from the table and computed ones */
            p.rope.factor = scaling == GYRE_UNSCALED ? 0 : 2.5;
            p.rope.proportion = scaling == GYRE_PROPORTIONAL ? 0.5 : 0;
            if (scaling == GYRE_LONGROPE) p.rope.short_factor = p.rope.long_factor = factors;
            gyre_encoding *e = test_encoding(&p);
            check_encoding(m, e, TOKENS, "scaling");
            gyre_encoding_free(e);
            gyre_model_free(m);
        }
}

/* The last rows alone are what they are among all rows; tokens before them may skip work. */
static void last_rows(void **state) {
    (void)state;
    const gyre_model_config c = tiny(GYRE_ROPE);
    gyre_model *m = model_of(&c);
    static float all[600 * VOCAB], some[600 * VOCAB];
    static int32_t tokens[600];
    draw_tokens(tokens, 600);
    gyre_context *x = NULL;
    gyre_error err;
    assert_ok(gyre_context_create(&x, m, NULL, 600, &err));
    assert_ok(gyre_context_read(x, tokens, 600, 600, all, &err));
    for (int64_t rows = 0; rows <= 600; rows += 150) {
        gyre_context_reset(x);
        assert_ok(gyre_context_read(x, tokens, 600, rows, some, &err));
        for (int64_t i = 0; i < rows * VOCAB; i++)
            test_close((double)some[i], (double)all[(600 - rows) * VOCAB + i], 2e-5, "last rows");
    }
    gyre_context_free(x);
    gyre_model_free(m);
}

/* Schemes with tables inside attention: there are no weights for those. */
static void refuses_what_it_cannot_hold(void **state) {
    (void)state;
    for (int kind = GYRE_ALIBI + 1; kind <= GYRE_DEBERTA; kind++) {
        gyre_model_config c = tiny((gyre_kind)kind);
        gyre_model *m = NULL;
        gyre_error err = {0};
        c.position.score.buckets = c.position.score.max_distance = 32;
        assert_int_equal(gyre_model_create(&m, &c, 1, &err), GYRE_EUNSUPPORTED);
        assert_null(m);
        assert_non_null(strstr(err.text, gyre_kind_name((gyre_kind)kind)));
    }
}

static void errors(void **state) {
    (void)state;
    const gyre_model_config c = tiny(GYRE_LEARNED);
    gyre_model *m = model_of(&c);
    gyre_context *x = NULL;
    gyre_error err;
    float logits[VOCAB];
    int32_t tokens[3] = {1, 2, VOCAB};
    assert_int_equal(gyre_context_create(&x, m, NULL, 0, &err), GYRE_EINVAL);
    assert_null(x);
    assert_ok(gyre_context_create(&x, m, NULL, 4 * TOKENS, &err));
    assert_int_equal(gyre_context_read(x, tokens, 3, 1, logits, &err), GYRE_EINVAL);
    assert_non_null(strstr(err.text, "token 2: 48"));
    assert_int_equal(gyre_context_read(x, tokens, 2, 3, logits, &err), GYRE_EINVAL);
    assert_int_equal(gyre_context_tokens(x), 0);
    tokens[2] = 0;
    for (int i = 0; i < 2 * TOKENS; i++)
        assert_ok(gyre_context_read(x, tokens, 1, 0, NULL, &err));
    assert_int_equal(gyre_context_read(x, tokens, 1, 1, logits, &err), GYRE_ERANGE); /* the learned table ends */
    assert_int_equal(gyre_context_tokens(x), 2 * TOKENS);
    gyre_context_free(x);
    assert_ok(gyre_context_create(&x, m, NULL, 2, &err));
    assert_int_equal(gyre_context_read(x, tokens, 3, 1, logits, &err), GYRE_EINVAL);
    assert_non_null(strstr(err.text, "no room"));
    gyre_context_free(x);
    gyre_model_free(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_encoding), cmocka_unit_test(every_method),
                                       cmocka_unit_test(last_rows), cmocka_unit_test(refuses_what_it_cannot_hold),
                                       cmocka_unit_test(errors)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
