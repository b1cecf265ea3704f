/* test_cache_set_encoding.c: keys rotated by one encoding and moved to another are as if they had been appended under the
 * latter. */
#include "gyre/gyre_cache.h"
#include "naive_cache.h"

enum { TOKENS = 40, CONTEXT = 64 };

/* theta_i of plain base, or what the case makes of it, and the attention factor. */
typedef struct plan {
    gyre_config config;
    int64_t length;
    double theta[DIM / 2], factor;
} plan;

static const double short_factor[DIM / 2] = {1, 1, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6};
static const double long_factor[DIM / 2] = {1, 1.5, 2, 3, 5, 8, 13, 21};

static plan plain_plan(double base) {
    plan p = {.config = test_rope_config(DIM, GYRE_LAYOUT_HALF), .factor = 1};
    p.config.rope.base = base;
    for (int i = 0; i < DIM / 2; i++)
        p.theta[i] = pow(base, -2.0 * i / DIM);
    return p;
}

/* Above or below its switch, depending on the length. */
static plan long_rope(int64_t length) {
    plan p = plain_plan(10000);
    p.config.trained_length = CONTEXT;
    p.config.rope.scaling = GYRE_SCALING_LONGROPE;
    p.config.rope.factor = 4;
    p.config.rope.short_factor = short_factor;
    p.config.rope.long_factor = long_factor;
    p.length = length;
    p.factor = sqrt(1 + log(4) / log(CONTEXT));
    for (int i = 0; i < DIM / 2; i++)
        p.theta[i] /= length > CONTEXT ? long_factor[i] : short_factor[i];
    return p;
}

static plan dynamic(int64_t length) {
    plan p = plain_plan(10000);
    const double s = 2.0 * (double)length / CONTEXT - 1, base = 10000 * pow(s, (double)DIM / (DIM - 2));
    p.config.trained_length = CONTEXT;
    p.config.rope.scaling = GYRE_SCALING_DYNAMIC_NTK;
    p.config.rope.factor = 2;
    p.length = length;
    for (int i = 0; i < DIM / 2; i++)
        p.theta[i] = pow(base, -2.0 * i / DIM);
    return p;
}

static plan with_factor(double base, double factor) {
    plan p = plain_plan(base);
    p.config.rope.attention_factor = p.factor = factor;
    return p;
}

static void rotate_by(const plan *p, int64_t at, const double *x, double *y) {
    for (int i = 0; i < DIM / 2; i++) {
        const double angle = (double)at * p->theta[i];
        y[i] = p->factor * (x[i] * cos(angle) - x[i + DIM / 2] * sin(angle));
        y[i + DIM / 2] = p->factor * (x[i] * sin(angle) + x[i + DIM / 2] * cos(angle));
    }
}

/* The stored key of a token, shifted or not, is E(appended position) k. */
static void compare_turned(const gyre_cache *cache, const cache_case *c, const plan *p, int64_t sequence,
                           const model_sequence *s, int roundings) {
    const gyre_key_source source = gyre_cache_source(cache, sequence);
    assert_int_equal(gyre_cache_tokens(cache, sequence), s->count);
    for (int64_t t = 0; t < s->count; t++)
        for (int h = 0; h < HEADS; h++) {
            gyre_key_run run;
            double want[DIM], got[DIM];
            source.run(&source, 0, h, t, &run);
            const int64_t now = s->token[t].at[0], stored_at = now - (run.shift ? run.shift[0] : 0);
            rotate_by(p, c->keys == GYRE_CACHE_KEYS_ROTATED ? stored_at : 0, s->token[t].k[h], want);
            for (int i = 0; i < DIM; i++) {
                if (c->keys == GYRE_CACHE_KEYS_RAW) want[i] = s->token[t].k[h][i];
                got[i] = stored(run.k, c->key_dtype, run.k_scale, i);
            }
            const double most = 2 * largest(want, DIM);
            compare_row(want, got, DIM, roundings * case_error(c->key_dtype, most) + 4e-7 * most, "key");
        }
}

static void move(const cache_case *c, const plan *from, const plan *to) {
    gyre_encoding *before = test_encoding(&from->config), *after = test_encoding(&to->config);
    gyre_cache_config config = case_config(c, before);
    gyre_cache *cache = NULL;
    model_sequence *s = calloc(2, sizeof *s);
    test_random random = {21};
    const int64_t delta[GYRE_MAX_AXES] = {-13, 0, 0, 0};
    config.context_length = from->length;
    assert_ok(gyre_cache_create(&cache, &config, NULL, NULL));
    assert_ok(model_append(cache, c, &s[0], 0, TOKENS, 3, 1, &random));
    assert_ok(gyre_cache_fork(cache, 0, 1, NULL));
    s[1] = s[0];
    assert_ok(gyre_cache_shift(cache, (gyre_cache_range){1, 5, 20}, delta, NULL)); /* shared pages, two shifts */
    for (int i = 5; i < 25; i++)
        s[1].token[i].at[0] -= 13;
    for (int i = 0; i < 2; i++)
        compare_turned(cache, c, from, i, &s[i], 1);
    assert_ok(gyre_cache_set_encoding(cache, after, to->length, NULL, NULL));
    gyre_encoding_free(before);
    assert_ptr_equal(gyre_cache_get_config(cache)->encoding, after);
    assert_int_equal(gyre_cache_get_config(cache)->context_length, to->length);
    for (int i = 0; i < 2; i++)
        compare_turned(cache, c, to, i, &s[i], 3);
    assert_ok(model_append(cache, c, &s[1], 1, 3, 90, 1, &random)); /* later tokens are rotated by the new encoding */
    compare_turned(cache, c, to, 1, &s[1], 3);
    free(s);
    gyre_cache_free(cache);
    gyre_encoding_free(after);
}

static void moves(void **state) {
    (void)state;
    const plan pairs[][2] = {{plain_plan(100), plain_plan(5000)},          {long_rope(CONTEXT), long_rope(4 * CONTEXT)},
                             {long_rope(4 * CONTEXT), long_rope(CONTEXT)}, {dynamic(2 * CONTEXT), dynamic(3 * CONTEXT)},
                             {plain_plan(100), with_factor(100, 1.5)},     {with_factor(100, 1.5), with_factor(2000, 0.8)}};
    const gyre_dtype dtypes[] = {GYRE_DTYPE_F32, GYRE_DTYPE_F16, GYRE_DTYPE_BF16, GYRE_DTYPE_Q8};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        for (int d = 0; d < 4; d++) {
            const cache_case paged = {GYRE_CACHE_KEYS_ROTATED, dtypes[d], GYRE_DTYPE_F32, 2, 128, 16, 1,
                                      GYRE_LAYOUT_HALF,        0},
                             raw = {GYRE_CACHE_KEYS_RAW, dtypes[d], GYRE_DTYPE_F32, 2, 128, 0, 1, GYRE_LAYOUT_HALF, 0};
            move(&paged, &pairs[i][0], &pairs[i][1]);
            move(&raw, &pairs[i][0], &pairs[i][1]);
        }
}

/* Each refusal leaves the keys as they were. */
static void refused(void **state) {
    (void)state;
    const cache_case c = {GYRE_CACHE_KEYS_ROTATED, GYRE_DTYPE_F16, GYRE_DTYPE_F32, 1, 64, 16, 1, GYRE_LAYOUT_HALF, 0};
    const plan from = plain_plan(100);
    gyre_encoding *before = test_encoding(&from.config);
    gyre_cache *cache = case_cache(&c, before);
    model_sequence *s = calloc(1, sizeof *s);
    test_random random = {21};
    assert_ok(model_append(cache, &c, s, 0, TOKENS, 0, 1, &random));
    struct {
        gyre_config config;
        gyre_status status;
    } others[8];
    for (int i = 0; i < 8; i++)
        others[i].config = from.config;
    others[0].config.rope.layout = GYRE_LAYOUT_INTERLEAVED;
    others[0].status = GYRE_EINVAL;
    others[1].config.rope.dim = DIM / 2;
    others[1].status = GYRE_ESHAPE;
    others[2].config.rope.dim = DIM - 2;
    others[2].config.rope.first_channel = 2;
    others[2].status = GYRE_ESHAPE;
    others[3].config.head_dim = 2 * DIM;
    others[3].status = GYRE_ESHAPE;
    others[4].config.length_policy = GYRE_LENGTH_POLICY_CAUSAL;
    others[4].status = GYRE_EUNSUPPORTED;
    others[5].config.rope.xpos_base = 512;
    others[5].status = GYRE_EUNSUPPORTED;
    others[6].config.rope.axes = 2;
    others[6].config.rope.axis_pairs[0] = others[6].config.rope.axis_pairs[1] = DIM / 4;
    others[6].status = GYRE_EUNSUPPORTED;
    others[7].config = (gyre_config)GYRE_INIT(gyre_config);
    others[7].config.kind = GYRE_KIND_NOPE;
    others[7].status = GYRE_ESHAPE; /* turns nothing */
    for (int i = 0; i < 8; i++) {
        gyre_encoding *other = test_encoding(&others[i].config);
        assert_int_equal(gyre_cache_set_encoding(cache, other, 0, NULL, NULL), others[i].status);
        gyre_encoding_free(other);
    }
    assert_int_equal(gyre_cache_set_encoding(cache, NULL, 0, NULL, NULL), GYRE_EINVAL);
    assert_int_equal(gyre_cache_set_encoding(cache, before, -1, NULL, NULL), GYRE_EINVAL);
    assert_int_equal(gyre_cache_set_encoding(NULL, before, 0, NULL, NULL), GYRE_EINVAL);
    compare_turned(cache, &c, &from, 0, s, 1);
    free(s);
    gyre_cache_free(cache);
    gyre_encoding_free(before);
}

/* Keys near the largest number a cache takes, moved to a larger factor: a row of Q8 has no infinity, and becomes NaN. */
static void what_overflows_is_nan_in_q8(void **state) {
    (void)state;
    const cache_case c = {GYRE_CACHE_KEYS_ROTATED, GYRE_DTYPE_Q8, GYRE_DTYPE_F32, 1, 64, 16, 1, GYRE_LAYOUT_HALF, 0};
    const plan from = plain_plan(100), to = with_factor(100, 100);
    gyre_encoding *before = test_encoding(&from.config), *after = test_encoding(&to.config);
    gyre_cache *cache = case_cache(&c, before);
    static float k[2][HEADS][DIM], v[2][HEADS][DIM];
    for (int h = 0; h < HEADS; h++)
        for (int i = 0; i < DIM; i++) {
            k[0][h][i] = i == 3 ? 0x1p125f : 1;
            k[1][h][i] = 1;
        }
    const gyre_cview keys = gyre_cdense(k, GYRE_DTYPE_F32, 1, 2, HEADS, DIM),
                     values = gyre_cdense(v, GYRE_DTYPE_F32, 1, 2, HEADS, VALUES);
    const gyre_positions at = {0};
    assert_ok(
        gyre_cache_append(cache, GYRE_ARGS(gyre_cache_append_args, .k = keys, .v = values, .positions = &at), NULL, NULL));
    assert_ok(gyre_cache_set_encoding(cache, after, 0, NULL, NULL));
    const gyre_key_source source = gyre_cache_source(cache, 0);
    for (int t = 0; t < 2; t++)
        for (int h = 0; h < HEADS; h++) {
            gyre_key_run run;
            source.run(&source, 0, h, t, &run);
            for (int i = 0; i < DIM; i++) {
                const double x = stored(run.k, GYRE_DTYPE_Q8, run.k_scale, i);
                assert_int_equal(isnan(x) != 0, t == 0);
                assert_true(t == 0 || fabs(x) <= 142);
            }
        }
    gyre_cache_free(cache);
    gyre_encoding_free(before);
    gyre_encoding_free(after);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(moves), cmocka_unit_test(refused),
                                       cmocka_unit_test(what_overflows_is_nan_in_q8)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
