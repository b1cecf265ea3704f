/* test_stretched_slopes.c: attention with ALiBi's slopes past the trained length, against its definition in double: forward,
 * gradient and decoding from a cache, for every rule of the length in use. */
#include "attention_setup.h"
#include "gyre/gyre_cache.h"
#include "support.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 2, TOKENS = 90, HEADS = 4, KEY_HEADS = 2, DIM = 8, TRAINED = 20, BLOCK = 16 };
enum { Q_SIZE = BATCH * TOKENS * HEADS * DIM, K_SIZE = BATCH * TOKENS * KEY_HEADS * DIM };

static float q[Q_SIZE], k[K_SIZE], v[K_SIZE], dout[Q_SIZE], out[Q_SIZE], lse[BATCH * TOKENS * HEADS];
static float dq[Q_SIZE], dk[K_SIZE], dv[K_SIZE];
static double want_out[Q_SIZE], want_dq[Q_SIZE], want_dk[K_SIZE], want_dv[K_SIZE];

typedef struct way {
    const char *name;
    double factor;
    int64_t named; /* q_pos.context_length */
    gyre_slope_scaling scaling;
    gyre_length_policy policy;
    int by_row; /* context_lengths, 60 + 20 b */
} way;

static const way ways[] = {{"static", 3, 0, GYRE_SLOPE_SCALING_LINEAR, GYRE_LENGTH_POLICY_DECLARED, 0},
                           {"declared", 0, 0, GYRE_SLOPE_SCALING_NTK, GYRE_LENGTH_POLICY_DECLARED, 0},
                           {"named", 0, 70, GYRE_SLOPE_SCALING_NTK, GYRE_LENGTH_POLICY_DECLARED, 0},
                           {"named by row", 0, 0, GYRE_SLOPE_SCALING_LINEAR, GYRE_LENGTH_POLICY_CAUSAL, 1},
                           {"causal", 0, 0, GYRE_SLOPE_SCALING_LINEAR, GYRE_LENGTH_POLICY_CAUSAL, 0},
                           {"causal, ntk", 0, 0, GYRE_SLOPE_SCALING_NTK, GYRE_LENGTH_POLICY_CAUSAL, 0},
                           {"prefix", 0, 0, GYRE_SLOPE_SCALING_LINEAR, GYRE_LENGTH_POLICY_PREFIX, 0},
                           {"prefix, ntk as released", 0, 0, GYRE_SLOPE_SCALING_NTK_RELEASED, GYRE_LENGTH_POLICY_PREFIX, 0}};
enum { WAYS = sizeof ways / sizeof *ways };

static gyre_encoding *encoding_of(const way *w) {
    gyre_config config = GYRE_INIT(gyre_config);
    config.kind = GYRE_KIND_ALIBI;
    config.heads = HEADS;
    config.trained_length = TRAINED;
    config.context_length = 50;
    config.length_policy = w->policy;
    config.length_block = w->policy == GYRE_LENGTH_POLICY_CAUSAL ? BLOCK : 0;
    config.score.slope_scaling = w->scaling;
    config.score.slope_factor = w->factor;
    return test_encoding(&config);
}

/* The length in use for a query at m of row b; `read`: tokens that the call has read at its end. */
static double length_of(const way *w, int64_t b, int64_t m, int64_t read) {
    if (w->by_row) return 60 + 20 * (double)b;
    if (w->named) return (double)w->named;
    if (w->policy == GYRE_LENGTH_POLICY_CAUSAL) return (double)(m - m % BLOCK + BLOCK);
    return w->policy == GYRE_LENGTH_POLICY_PREFIX ? (double)read : 50;
}

/* Slopes of four heads are 2^-2 .. 2^-8. */
static double slope_of(const way *w, int64_t b, int64_t h, int64_t m, int64_t read) {
    const double a = w->factor > 0 ? w->factor : fmax(1, length_of(w, b, m, read) / TRAINED);
    return pow(2, -2 * (double)(h + 1)) / pow(a, w->scaling == GYRE_SLOPE_SCALING_LINEAR ? 1 : (double)h / 3);
}

static double dot(const float *a, const float *b) {
    double sum = 0;
    for (int c = 0; c < DIM; c++)
        sum += (double)a[c] * (double)b[c];
    return sum;
}

/* The row of query t and its part of the gradients. */
static void naive_row(const way *w, int64_t b, int64_t t, int64_t h, int64_t read) {
    double p[TOKENS], sum = 0, most = -INFINITY, mean = 0;
    const int64_t row = ((b * TOKENS + t) * HEADS + h) * DIM;
    for (int64_t n = 0; n <= t; n++) {
        const int64_t key = ((b * TOKENS + n) * KEY_HEADS + h / 2) * DIM;
        p[n] = dot(q + row, k + key) / sqrt(DIM) - slope_of(w, b, h, t, read) * (double)(t - n);
        most = fmax(most, p[n]);
    }
    for (int64_t n = 0; n <= t; n++)
        sum += p[n] = exp(p[n] - most);
    for (int64_t n = 0; n <= t; n++) {
        const int64_t key = ((b * TOKENS + n) * KEY_HEADS + h / 2) * DIM;
        p[n] /= sum;
        mean += p[n] * dot(dout + row, v + key);
        for (int c = 0; c < DIM; c++)
            want_out[row + c] += p[n] * (double)v[key + c];
    }
    for (int64_t n = 0; n <= t; n++) {
        const int64_t key = ((b * TOKENS + n) * KEY_HEADS + h / 2) * DIM;
        const double ds = p[n] * (dot(dout + row, v + key) - mean) / sqrt(DIM);
        for (int c = 0; c < DIM; c++) {
            want_dq[row + c] += ds * (double)k[key + c];
            want_dk[key + c] += ds * (double)q[row + c];
            want_dv[key + c] += p[n] * (double)dout[row + c];
        }
    }
}

static void naive(const way *w, int64_t read) {
    memset(want_out, 0, sizeof want_out);
    memset(want_dq, 0, sizeof want_dq);
    memset(want_dk, 0, sizeof want_dk);
    memset(want_dv, 0, sizeof want_dv);
    for (int64_t b = 0; b < BATCH; b++)
        for (int64_t t = 0; t < TOKENS; t++)
            for (int64_t h = 0; h < HEADS; h++)
                naive_row(w, b, t, h, read);
}

static void agree(const char *name, const char *what, const float *got, const double *want, int64_t n, double tolerance) {
    double scale = 0;
    for (int64_t i = 0; i < n; i++)
        scale = fmax(scale, fabs(want[i]));
    for (int64_t i = 0; i < n; i++)
        if (!(fabs((double)got[i] - want[i]) <= tolerance * scale))
            fail_msg("%s, %s[%lld]: %.9g, not %.9g", name, what, (long long)i, (double)got[i], want[i]);
}

static attention_setup args_of(const gyre_encoding *e, const way *w, const int64_t *lengths) {
    attention_setup args = GYRE_INIT(attention_setup);
    args.encoding = e;
    args.q = gyre_cdense(q, GYRE_DTYPE_F32, BATCH, TOKENS, HEADS, DIM);
    args.k = gyre_cdense(k, GYRE_DTYPE_F32, BATCH, TOKENS, KEY_HEADS, DIM);
    args.v = gyre_cdense(v, GYRE_DTYPE_F32, BATCH, TOKENS, KEY_HEADS, DIM);
    args.out = gyre_dense(out, GYRE_DTYPE_F32, BATCH, TOKENS, HEADS, DIM);
    args.lse = gyre_dense(lse, GYRE_DTYPE_F32, BATCH, TOKENS, HEADS, 1);
    args.causal = GYRE_CAUSAL_BY_POSITION;
    args.q_pos.context_length = w->named;
    if (w->by_row) args.context_lengths = lengths;
    return args;
}

static void draw(void) {
    test_random random = {41};
    test_fill(&random, q, Q_SIZE);
    test_fill(&random, k, K_SIZE);
    test_fill(&random, v, K_SIZE);
    test_fill(&random, dout, Q_SIZE);
}

static void forward_and_gradient(void **state) {
    (void)state;
    static const int64_t lengths[BATCH] = {60, 80};
    draw();
    for (int i = 0; i < WAYS; i++) {
        gyre_encoding *e = encoding_of(&ways[i]);
        const attention_setup args = args_of(e, &ways[i], lengths);
        const gyre_view dqkv[3] = {gyre_dense(dq, GYRE_DTYPE_F32, BATCH, TOKENS, HEADS, DIM),
                                   gyre_dense(dk, GYRE_DTYPE_F32, BATCH, TOKENS, KEY_HEADS, DIM),
                                   gyre_dense(dv, GYRE_DTYPE_F32, BATCH, TOKENS, KEY_HEADS, DIM)};
        const gyre_cview from = gyre_cdense(dout, GYRE_DTYPE_F32, BATCH, TOKENS, HEADS, DIM);
        const size_t bytes = attention_scratch(&args, 1, NULL), forward = attention_scratch(&args, 0, NULL);
        void *scratch = aligned_alloc(64, ((bytes > forward ? bytes : forward) + 63) / 64 * 64);
        gyre_error err = {0, ""};
        if (run_attention(&args, (gyre_scratch){scratch, forward}, NULL, &err)) fail_msg("%s: %s", ways[i].name, err.text);
        if (run_attention_gradient(
                &args, GYRE_ARGS(gyre_attention_gradients, .dout = from, .dq = dqkv[0], .dk = dqkv[1], .dv = dqkv[2]),
                (gyre_scratch){scratch, bytes}, NULL, &err))
            fail_msg("%s: %s", ways[i].name, err.text);
        naive(&ways[i], TOKENS);
        agree(ways[i].name, "out", out, want_out, Q_SIZE, 3e-6);
        agree(ways[i].name, "dq", dq, want_dq, Q_SIZE, 5e-6);
        agree(ways[i].name, "dk", dk, want_dk, K_SIZE, 5e-6);
        agree(ways[i].name, "dv", dv, want_dv, K_SIZE, 5e-6);
        free(scratch);
        gyre_encoding_free(e);
    }
}

/* Keys are kept as they are, whatever the length does later. */
static void decode_one(gyre_cache *cache, const gyre_encoding *e, const way *w, int64_t t) {
    static const int64_t sequence = 0;
    const gyre_positions at = {.base = t};
    const gyre_cview key = gyre_cdense(k + t * KEY_HEADS * DIM, GYRE_DTYPE_F32, 1, 1, KEY_HEADS, DIM);
    const gyre_cview value = gyre_cdense(v + t * KEY_HEADS * DIM, GYRE_DTYPE_F32, 1, 1, KEY_HEADS, DIM);
    gyre_error err = {0, ""};
    attention_setup args = GYRE_INIT(attention_setup);
    args.encoding = e;
    args.q = gyre_cdense(q + t * HEADS * DIM, GYRE_DTYPE_F32, 1, 1, HEADS, DIM);
    args.out = gyre_dense(out + t * HEADS * DIM, GYRE_DTYPE_F32, 1, 1, HEADS, DIM);
    args.q_pos = (gyre_positions){.base = t, .context_length = w->named};
    args.causal = GYRE_CAUSAL_BY_POSITION;
    if (gyre_cache_append(cache,
                          GYRE_ARGS(gyre_cache_append_args, .sequence = sequence, .k = key, .v = value, .positions = &at),
                          NULL, &err))
        fail_msg("%s: %s", w->name, err.text);
    const size_t bytes = cache_attention_scratch(cache, &sequence, &args, NULL);
    void *scratch = aligned_alloc(64, (bytes + 63) / 64 * 64);
    if (run_cache_attention(cache, &sequence, &args, (gyre_scratch){scratch, bytes}, NULL, &err))
        fail_msg("%s: %s", w->name, err.text);
    free(scratch);
}

static void decoding(void **state) {
    (void)state;
    draw();
    for (int i = 0; i < WAYS; i++) {
        if (ways[i].by_row) continue;
        gyre_encoding *e = encoding_of(&ways[i]);
        gyre_cache_config config = GYRE_INIT(gyre_cache_config);
        gyre_cache *cache = NULL;
        config.encoding = e;
        config.keys = GYRE_CACHE_KEYS_RAW;
        config.heads = KEY_HEADS;
        config.head_dim = DIM;
        config.max_tokens = TOKENS;
        assert_ok(gyre_cache_create(&cache, &config, NULL, NULL));
        memset(want_out, 0, sizeof want_out);
        for (int64_t t = 0; t < TOKENS; t++) {
            decode_one(cache, e, &ways[i], t);
            for (int64_t h = 0; h < HEADS; h++)
                naive_row(&ways[i], 0, t, h, t + 1);
        }
        agree(ways[i].name, "decoded", out, want_out, TOKENS * HEADS * DIM, 3e-6);
        gyre_cache_free(cache);
        gyre_encoding_free(e);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(forward_and_gradient), cmocka_unit_test(decoding)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
