/* test_latents.c: multi-head latent attention in its absorbed form, over views and over a cache of latents, against the
 * plain form in double: keys and values of every head, expanded from the latents. */
#include "attention_setup.h"
#include "gyre/gyre_cache.h"
#include "naive_latents.h"

static const gyre_dtype TYPES[] = {GYRE_DTYPE_F32, GYRE_DTYPE_F16, GYRE_DTYPE_BF16, GYRE_DTYPE_Q8};
static const char *const NAMES[] = {"f32", "f16", "bf16", "q8"};
enum { TYPE_COUNT = 4 };

/* -- a bound -- */

/* How far a number of a stored row may be from what was appended, over the largest of the row: half an ulp, or half a step
 * of Q8.  In float also the rounding of the sums. */
static double unit_of(gyre_dtype type) {
    const double sums = 0x1p-20;
    return sums + (type == GYRE_DTYPE_F16    ? 0x1p-11
                   : type == GYRE_DTYPE_BF16 ? 0x1p-8
                   : type == GYRE_DTYPE_Q8   ? 1 / 254.0
                                             : 0);
}

/* out = the bound of a plain output channel v of a head whose absorbed query is q.  Each channel of a key is off by at most
 * d = unit x largest, so a score by at most ds = scale |q|_1 d, a weight by a factor of e^(+-2 ds), and a value by d. */
static double bound_of(const latent_problem *p, double unit, const float *q, int64_t head, int64_t v) {
    const latent_shape *s = &p->s;
    double largest = 0, query = 0, up = 0;
    for (int64_t i = 0; i < s->tokens * latent_channels(s); i++)
        largest = fmax(largest, fabs((double)p->key[i]));
    largest *= 1.4143; /* a rotated pair */
    for (int64_t i = 0; i < latent_channels(s); i++)
        query += fabs((double)q[i]);
    for (int64_t r = 0; r < s->rank; r++)
        up += fabs((double)p->up_v[(head * s->value + v) * s->rank + r]);
    const double ds = p->scale * query * unit * largest;
    return up * (unit * largest + expm1(2 * ds) * largest);
}

/* out: [count][head][rank], attention over latents, of queries first .. first + count - 1. */
static void check_rows(const latent_problem *p, gyre_dtype type, int64_t first, int64_t count, const float *out,
                       const double *slopes) {
    const latent_shape *s = &p->s;
    double want[256], got[256], latent[1024];
    for (int64_t row = 0; row < count * s->heads; row++) {
        const int64_t query = first + row / s->heads, head = row % s->heads;
        const latent_row r = {query, head, query + 1, slopes ? slopes[head] : 0};
        latent_plain(p, &r, want);
        for (int64_t i = 0; i < s->rank; i++)
            latent[i] = (double)out[row * s->rank + i];
        latent_value(p, head, latent, got);
        for (int64_t v = 0; v < s->value; v++) {
            const float *q = p->q + (query * s->heads + head) * latent_channels(s);
            test_close((long double)got[v], (long double)want[v], (long double)bound_of(p, unit_of(type), q, head, v),
                       "an output of plain attention");
        }
    }
}

/* -- attention -- */

static float *room_for(const latent_problem *p, int64_t count) {
    return room((size_t)(count * p->s.heads * p->s.rank), sizeof(float));
}

/* A cache of a type: a prompt at once, which is many queries, and the last tokens one by one. */
static void check_cache(const latent_problem *p, gyre_dtype type, gyre_cache_keys keys, int64_t page_tokens) {
    gyre_cache_config config = latent_cache_config(p, type, keys);
    config.page_tokens = page_tokens;
    gyre_cache *cache;
    assert_ok(gyre_cache_create(&cache, &config, NULL, NULL));
    assert_int_equal(gyre_cache_get_config(cache)->value_dim, p->s.rank);
    assert_int_equal(gyre_cache_get_config(cache)->value_dtype, type);
    const int64_t prompt = p->s.tokens - 3;
    float *out = room_for(p, p->s.tokens);
    for (int64_t t = 0, n; t < p->s.tokens; t += n) {
        n = t == 0 ? prompt : 1;
        latent_append(cache, p, 0, t, n);
        const attention_setup args = latent_args(p, t, n, out);
        latent_attend(cache, 0, &args);
        const int64_t skip = t == 0 ? prompt - 2 : 0; /* the definition is slow */
        check_rows(p, type, t + skip, n - skip, out + skip * p->s.heads * p->s.rank, NULL);
    }
    free(out);
    gyre_cache_free(cache);
}

/* Half of the tokens are appended 100 positions too late and moved back, so that their slices rotate by a shift. */
static void shifted_is_plain(void **state) {
    (void)state;
    const latent_shape shape = {5, 32, 16, 12, 8, 60, 12345, GYRE_LAYOUT_INTERLEAVED_TO_HALF, 1};
    const int64_t half = shape.tokens / 2, back[GYRE_MAX_AXES] = {-100};
    latent_problem p = make_latents(&shape, 77);
    float *out = room_for(&p, shape.tokens);
    for (int t = 0; t < TYPE_COUNT; t++)
        for (int k = 0; k < 2; k++) {
            const gyre_cache_config config = latent_cache_config(&p, TYPES[t], (gyre_cache_keys)k);
            const gyre_cview late = latent_keys(&p, half, half);
            const gyre_positions at = {.base = shape.first + half + 100};
            gyre_cache *cache;
            assert_ok(gyre_cache_create(&cache, &config, NULL, NULL));
            latent_append(cache, &p, 0, 0, half);
            assert_ok(gyre_cache_append(cache, GYRE_ARGS(gyre_cache_append_args, .k = late, .positions = &at), NULL, NULL));
            assert_ok(gyre_cache_shift(cache, (gyre_cache_range){0, half, half}, back, NULL));
            for (int64_t count = 1; count <= 20; count += 19) {
                const attention_setup args = latent_args(&p, shape.tokens - count, count, out);
                latent_attend(cache, 0, &args);
                check_rows(&p, TYPES[t], shape.tokens - count, count, out, NULL);
            }
            gyre_cache_free(cache);
        }
    free(out);
    free_latents(&p);
}

/* Views: values are a view of the memory of the keys. */
static void check_views(const latent_problem *p) {
    const int64_t count = p->s.tokens;
    float *out = room_for(p, count);
    attention_setup args = latent_args(p, 0, count, out);
    args.encoding = p->encoding;
    args.k = latent_keys(p, 0, count);
    args.v = latent_values(p, 0, count);
    args.k_pos.base = p->s.first;
    attend(&args, NULL);
    check_rows(p, GYRE_DTYPE_F32, 0, count, out, NULL);
    free(out);
}

static const latent_shape SHAPES[] = {
    {5, 32, 16, 12, 8, 40, 0, GYRE_LAYOUT_INTERLEAVED, 0},
    {4, 48, 8, 16, 24, 150, 37, GYRE_LAYOUT_INTERLEAVED_TO_HALF, 1},
    {3, 40, 32, 8, 16, 33, 10000000 - 33, GYRE_LAYOUT_INTERLEAVED, 1},
    {2, 24, 16, 8, 8, 20, 10000000 - 20, GYRE_LAYOUT_HALF, 0},
    {64, 16, 8, 4, 4, 20, 5, GYRE_LAYOUT_INTERLEAVED_TO_HALF, 1},
    {1, 8, 8, 8, 8, 12, -6, GYRE_LAYOUT_INTERLEAVED, 0},
};
enum { SHAPE_COUNT = sizeof SHAPES / sizeof *SHAPES };

static void absorbed_is_plain(void **state) {
    (void)state;
    static const int64_t pages[] = {0, 16};
    for (int i = 0; i < SHAPE_COUNT; i++) {
        latent_problem p = make_latents(&SHAPES[i], 10 + (uint64_t)i);
        check_views(&p);
        for (int t = 0; t < TYPE_COUNT; t++)
            for (int k = 0; k < 2; k++)
                for (int g = 0; g < 2; g++)
                    check_cache(&p, TYPES[t], (gyre_cache_keys)k, pages[g]);
        free_latents(&p);
    }
}

/* DeepSeek-V3's widths, with fewer heads: 512 + 64 channels, and 128 of a plain key and value. */
static void deepseek_widths(void **state) {
    (void)state;
    const latent_shape shape = {8, 512, 64, 128, 128, 21, 163000, GYRE_LAYOUT_INTERLEAVED_TO_HALF, 1};
    latent_problem p = make_latents(&shape, 99);
    for (int t = 0; t < TYPE_COUNT; t++) {
        print_message("%s\n", NAMES[t]);
        check_cache(&p, TYPES[t], GYRE_CACHE_KEYS_ROTATED, 8);
    }
    check_cache(&p, GYRE_DTYPE_BF16, GYRE_CACHE_KEYS_RAW, 0);
    free_latents(&p);
}

/* ALiBi in place of the rotation: nothing of a key rotates, so value_dim has to be told. */
static void alibi_over_latents(void **state) {
    (void)state;
    const latent_shape shape = {8, 32, 16, 12, 8, 50, 0, GYRE_LAYOUT_INTERLEAVED, 0};
    latent_problem p = make_latents(&shape, 5);
    double slopes[8];
    gyre_encoding *alibi;
    assert_ok(gyre_alibi_create(&alibi, 8, NULL));
    for (int h = 0; h < 8; h++)
        slopes[h] = pow(2, -(h + 1));
    gyre_cache_config config = latent_cache_config(&p, GYRE_DTYPE_F32, GYRE_CACHE_KEYS_RAW);
    config.encoding = alibi;
    config.value_dim = shape.rank;
    gyre_cache *cache;
    float *out = room_for(&p, shape.tokens);
    assert_ok(gyre_cache_create(&cache, &config, NULL, NULL));
    latent_append(cache, &p, 0, 0, shape.tokens);
    for (int64_t count = 1; count <= shape.tokens; count += shape.tokens - 1) {
        const attention_setup args = latent_args(&p, shape.tokens - count, count, out);
        latent_attend(cache, 0, &args);
        check_rows(&p, GYRE_DTYPE_F32, shape.tokens - count, count, out, slopes);
    }
    free(out);
    gyre_cache_free(cache);
    gyre_encoding_free(alibi);
    free_latents(&p);
}

/* -- pieces -- */

/* In the fixed order a prompt has the same bits whole, in pieces and token by token, over any pages, and over views. */
static void pieces_have_the_same_bits(void **state) {
    (void)state;
    const latent_shape shape = {8, 64, 32, 16, 16, 290, 1000, GYRE_LAYOUT_INTERLEAVED_TO_HALF, 1};
    static const int64_t pieces[] = {290, 131, 64, 9, 1}, pages[] = {0, 100, 16, 7, 1};
    latent_problem p = make_latents(&shape, 3);
    const size_t bytes = (size_t)(shape.tokens * shape.heads * shape.rank) * sizeof(float);
    float *whole = room_for(&p, shape.tokens), *out = room_for(&p, shape.tokens);
    for (int t = 0; t < TYPE_COUNT; t++)
        for (int i = 0; i < 5; i++) {
            gyre_cache_config config = latent_cache_config(&p, TYPES[t], (gyre_cache_keys)(t % 2));
            gyre_cache *cache;
            config.page_tokens = pages[i];
            assert_ok(gyre_cache_create(&cache, &config, NULL, NULL));
            for (int64_t first = 0, n; first < shape.tokens; first += n) {
                n = shape.tokens - first < pieces[i] ? shape.tokens - first : pieces[i];
                latent_append(cache, &p, 0, first, n);
                attention_setup args = latent_args(&p, first, n, (i == 0 ? whole : out) + first * shape.heads * shape.rank);
                args.order = GYRE_ORDER_FIXED;
                latent_attend(cache, 0, &args);
            }
            gyre_cache_free(cache);
            if (i > 0) assert_memory_equal(out, whole, bytes);
            if (i > 0 || TYPES[t] != GYRE_DTYPE_F32) continue;
            attention_setup args = latent_args(&p, 0, shape.tokens, out);
            args.encoding = p.encoding;
            args.k = latent_keys(&p, 0, shape.tokens);
            args.v = latent_values(&p, 0, shape.tokens);
            args.k_pos.base = shape.first;
            args.order = GYRE_ORDER_FIXED;
            attend(&args, NULL);
            assert_memory_equal(out, whole, bytes);
        }
    free(whole);
    free(out);
    free_latents(&p);
}

/* -- the gradient -- */

typedef struct gradients {
    double *latent, *slice; /* [token][rank], [token][rope], raw */
} gradients;

/* The gradient of sum g . out to latents and slices through the plain form; g: [token][head][value].  The rotation of a
 * product is that of the difference, so a slice gets E(n)^T E(m) q. */
static void plain_gradient(const latent_problem *p, const float *g, const gradients *to) {
    const latent_shape *s = &p->s;
    double *weights = room((size_t)s->tokens, sizeof *weights), *dot = room((size_t)s->tokens, sizeof *dot), turned[256];
    for (int64_t row = 0; row < s->tokens * s->heads; row++) {
        const int64_t m = row / s->heads, h = row % s->heads;
        const latent_row r = {m, h, m + 1, 0};
        const float *q = p->plain_q + row * (s->nope + s->rope);
        double mean = 0;
        latent_weights(p, &r, weights);
        for (int64_t n = 0; n <= m; n++) {
            dot[n] = 0;
            for (int64_t v = 0; v < s->value; v++)
                for (int64_t i = 0; i < s->rank; i++) {
                    const double up = (double)p->up_v[(h * s->value + v) * s->rank + i] * (double)g[row * s->value + v];
                    dot[n] += up * (double)p->key[n * latent_channels(s) + i];
                    to->latent[n * s->rank + i] += weights[n] * up;
                }
            mean += weights[n] * dot[n];
        }
        for (int64_t n = 0; n <= m; n++) {
            const double ds = p->scale * weights[n] * (dot[n] - mean);
            for (int64_t j = 0; j < s->nope; j++)
                for (int64_t i = 0; i < s->rank; i++)
                    to->latent[n * s->rank + i] += ds * (double)q[j] * (double)p->up_k[(h * s->nope + j) * s->rank + i];
            latent_rotate(s, q + s->nope, m - n, turned);
            for (int64_t i = 0; i < s->rope; i++)
                to->slice[n * s->rope + i] += ds * turned[i];
        }
    }
    free(weights);
    free(dot);
}

/* dk + dv over the latents, and dk over the slice, are the gradient of the plain form. */
static void check_gradient(const latent_shape *shape, uint64_t seed) {
    latent_problem p = make_latents(shape, seed);
    const int64_t tokens = shape->tokens, heads = shape->heads, rank = shape->rank, n = latent_channels(shape);
    const gradients want = {room((size_t)(tokens * rank), sizeof(double)),
                            room((size_t)(tokens * shape->rope), sizeof(double))};
    float *g = room((size_t)(tokens * heads * shape->value), sizeof *g), *dout = room_for(&p, tokens),
          *out = room_for(&p, tokens), *lse = room((size_t)(tokens * heads), sizeof *lse),
          *dq = room((size_t)(tokens * heads * n), sizeof *dq), *dk = room((size_t)(tokens * n), sizeof *dk),
          *dv = room((size_t)(tokens * rank), sizeof *dv);
    test_random random = {seed + 1};
    test_fill(&random, g, (size_t)(tokens * heads * shape->value));
    for (int64_t row = 0; row < tokens * heads; row++) /* dout = up_v^T g */
        for (int64_t i = 0; i < rank; i++) {
            double sum = 0;
            for (int64_t v = 0; v < shape->value; v++)
                sum += (double)p.up_v[(row % heads * shape->value + v) * rank + i] * (double)g[row * shape->value + v];
            dout[row * rank + i] = (float)sum;
        }
    plain_gradient(&p, g, &want);
    attention_setup args = latent_args(&p, 0, tokens, out);
    args.encoding = p.encoding;
    args.k = latent_keys(&p, 0, tokens);
    args.v = latent_values(&p, 0, tokens);
    args.k_pos.base = shape->first;
    args.lse = gyre_dense(lse, GYRE_DTYPE_F32, 1, tokens, heads, 1);
    attend(&args, NULL);
    const gyre_cview douts = gyre_cdense(dout, GYRE_DTYPE_F32, 1, tokens, heads, rank);
    const gyre_view dqkv[3] = {gyre_dense(dq, GYRE_DTYPE_F32, 1, tokens, heads, n),
                               gyre_dense(dk, GYRE_DTYPE_F32, 1, tokens, 1, n),
                               gyre_dense(dv, GYRE_DTYPE_F32, 1, tokens, 1, rank)};
    differentiate(&args, &douts, dqkv, NULL, NULL);
    double most = 0;
    for (int64_t i = 0; i < tokens * rank; i++)
        most = fmax(most, fabs(want.latent[i]));
    for (int64_t t = 0; t < tokens; t++) {
        for (int64_t i = 0; i < rank; i++)
            test_close((long double)dk[t * n + i] + (long double)dv[t * rank + i], (long double)want.latent[t * rank + i],
                       (long double)most * 0x1p-18L, "the gradient to a latent");
        for (int64_t i = 0; i < shape->rope; i++)
            test_close((long double)dk[t * n + rank + i], (long double)want.slice[t * shape->rope + i],
                       (long double)most * 0x1p-18L, "the gradient to a slice");
    }
    void *all[] = {want.latent, want.slice, g, dout, out, lse, dq, dk, dv};
    for (int i = 0; i < 9; i++)
        free(all[i]);
    free_latents(&p);
}

static void gradient_is_plain(void **state) {
    (void)state;
    for (int i = 0; i < 4; i++)
        check_gradient(&SHAPES[i], 40 + (uint64_t)i);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shifted_is_plain),          cmocka_unit_test(absorbed_is_plain),
        cmocka_unit_test(deepseek_widths),           cmocka_unit_test(alibi_over_latents),
        cmocka_unit_test(pieces_have_the_same_bits), cmocka_unit_test(gradient_is_plain),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
