/* test_evaluate.c: perplexity by each protocol, and windows of passkeys and copies, against direct counts. */
#include "gyre/gyre_model.h"
#include "gyre/gyre_research.h"
#include "model/model.h"
#include "support.h"

#include <math.h>
#include <string.h>

enum { VOCAB = 256, COUNT = 3000 };

static int32_t ids[COUNT];
static gyre_text text = {ids, COUNT, 1, 1, COUNT};

static void draw_text(void) {
    test_random r = {4};
    for (int i = 0; i < COUNT; i++)
        ids[i] = (int32_t)(' ' + test_next(&r) % 90);
}

static gyre_model *small_model(gyre_kind kind) {
    gyre_model_config c = gyre_model_config_default();
    c.model_dim = 32;
    c.layers = 2;
    c.heads = c.kv_heads = 2;
    c.head_dim = 16;
    c.mlp_dim = 48;
    c.position.kind = kind;
    c.position.trained_length = c.position.input.positions = 64;
    gyre_model *m = NULL;
    gyre_error err;
    assert_ok(gyre_model_create(&m, &c, 8, &err));
    return m;
}

/* nats[i] = -log p(ids[start + i + 1]) in the window from start. */
static void window_nats(const gyre_model *m, int64_t start, int64_t context, double *nats) {
    static float logits[1024 * VOCAB];
    gyre_context *x = NULL;
    gyre_error err;
    assert_ok(gyre_context_create(
        &x, m, &(gyre_context_options){.size = sizeof(gyre_context_options), .max_tokens = context}, &err));
    assert_ok(gyre_context_forward(x, ids + start, context, context, logits, &err));
    gyre_context_free(x);
    for (int64_t i = 0; i < context; i++) {
        const float *row = logits + i * VOCAB;
        double sum = 0;
        for (int j = 0; j < VOCAB; j++)
            sum += exp((double)row[j] - (double)row[ids[start + i + 1]]);
        nats[i] = log(sum);
    }
}

typedef struct protocol_case {
    gyre_eval_protocol protocol;
    int64_t context, stride, starts_every, scored;
} protocol_case;

static void protocols(void **state) {
    (void)state;
    static const protocol_case cases[] = {{GYRE_EVAL_PROTOCOL_SLIDING, 64, 0, 32, 32},
                                          {GYRE_EVAL_PROTOCOL_SLIDING, 700, 100, 100, 100},
                                          {GYRE_EVAL_PROTOCOL_TRUNCATE, 128, 32, 128, 128},
                                          {GYRE_EVAL_PROTOCOL_LAST, 600, 300, 300, 200},
                                          {GYRE_EVAL_PROTOCOL_LAST, 64, 64, 64, 32}};
    gyre_model *m = small_model(GYRE_KIND_ROPE);
    static double nats[1024];
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        const protocol_case *c = &cases[k];
        double sum = 0;
        int64_t windows = 0;
        for (int64_t s = 0; s + c->context + 1 <= COUNT; s += c->starts_every, windows++) {
            window_nats(m, s, c->context, nats);
            for (int64_t i = c->context - c->scored; i < c->context; i++)
                sum += nats[i];
        }
        gyre_eval_options o = GYRE_INIT(gyre_eval_options);
        gyre_eval_result r;
        gyre_error err;
        o.context = c->context;
        o.stride = c->stride;
        o.protocol = c->protocol;
        assert_ok(gyre_evaluate(m, &text, &o, &r, NULL, &err));
        assert_int_equal(r.windows, windows);
        assert_int_equal(r.scored, windows * c->scored);
        test_close(r.nats, sum / (double)r.scored, 2e-6 * r.nats, "nats per token");
    }
    gyre_model_free(m);
}

static void by_position_and_threads(void **state) {
    (void)state;
    gyre_model *m = small_model(GYRE_KIND_ALIBI);
    double buckets[7], again[7], all = 0;
    gyre_eval_options o = GYRE_INIT(gyre_eval_options);
    gyre_eval_result r, same;
    gyre_error err;
    gyre_pool *pool = NULL;
    o.context = 600;
    o.protocol = GYRE_EVAL_PROTOCOL_TRUNCATE;
    o.by_position = buckets;
    o.buckets = 7;
    assert_ok(gyre_evaluate(m, &text, &o, &r, NULL, &err));
    for (int b = 0; b < 7; b++) {
        int64_t in = 0;
        for (int64_t i = 0; i < 600; i++)
            in += i * 7 / 600 == b;
        all += buckets[b] * (double)in / 600;
    }
    test_close(all, r.nats, 1e-12 * r.nats, "buckets hold every prediction");
    assert_ok(gyre_pool_create(&pool, 3, &err));
    const gyre_exec exec = gyre_pool_exec(pool);
    o.by_position = again;
    assert_ok(gyre_evaluate(m, &text, &o, &same, &exec, &err));
    assert_memory_equal(&r.nats, &same.nats, sizeof r.nats);
    assert_memory_equal(buckets, again, sizeof buckets);
    o.by_position = NULL;
    o.windows = 4; /* one more than threads: they read the last one together */
    assert_ok(gyre_evaluate(m, &text, &o, &r, NULL, &err));
    assert_ok(gyre_evaluate(m, &text, &o, &same, &exec, &err));
    assert_int_equal(same.windows, 4);
    assert_memory_equal(&r.nats, &same.nats, sizeof r.nats);
    gyre_pool_free(pool);
    gyre_model_free(m);
}

static void spread_windows(void **state) {
    (void)state;
    gyre_model *m = small_model(GYRE_KIND_NOPE);
    double nats[64], sum = 0;
    gyre_eval_options o = GYRE_INIT(gyre_eval_options);
    gyre_eval_result r;
    gyre_error err;
    o.context = 64;
    o.windows = 3;
    assert_ok(gyre_evaluate(m, &text, &o, &r, NULL, &err));
    const int64_t available = (COUNT - 1 - 64) / 32 + 1;
    for (int64_t w = 0; w < 3; w++) {
        window_nats(m, w * available / 3 * 32, 64, nats);
        for (int i = 32; i < 64; i++)
            sum += nats[i];
    }
    assert_int_equal(r.windows, 3);
    test_close(r.nats, sum / 96, 2e-6 * r.nats, "three of them");
    gyre_model_free(m);
}

/* Only marked tokens count: those whose index is a multiple of `every`. */
static void counted_tokens(void **state) {
    (void)state;
    enum { EVERY = 5, CONTEXT = 64, WINDOWS = 3 };
    static const int64_t starts[WINDOWS] = {0, 11, 700};
    static unsigned char counted[COUNT];
    gyre_model *m = small_model(GYRE_KIND_ROPE);
    double nats[CONTEXT], by_window[WINDOWS], sum = 0;
    int64_t scored = 0;
    gyre_eval_options o = GYRE_INIT(gyre_eval_options);
    gyre_eval_result r;
    gyre_error err;
    for (int64_t i = 0; i < COUNT; i++)
        counted[i] = i % EVERY == 0;
    o.context = CONTEXT;
    o.starts = starts;
    o.windows = WINDOWS;
    o.by_window = by_window;
    o.counted = counted;
    assert_ok(gyre_evaluate(m, &text, &o, &r, NULL, &err));
    for (int w = 0; w < WINDOWS; w++) {
        double own = 0;
        int count = 0;
        window_nats(m, starts[w], CONTEXT, nats);
        for (int i = CONTEXT / 2; i < CONTEXT; i++)
            if ((starts[w] + i + 1) % EVERY == 0) own += nats[i], count++;
        test_close(by_window[w], own / count, 2e-6 * by_window[w], "of a window");
        sum += own;
        scored += count;
    }
    assert_int_equal(r.scored, scored);
    test_close(r.nats, sum / (double)scored, 2e-6 * r.nats, "of all");
    memset(counted, 0, sizeof counted);
    assert_int_equal(gyre_evaluate(m, &text, &o, &r, NULL, &err), GYRE_EINVAL);
    assert_non_null(strstr(err.text, "counted: no prediction of the window at token 0 counts"));
    gyre_model_free(m);
}

static void explicit_window_starts(void **state) {
    (void)state;
    static const int64_t starts[3] = {7, 2000, 7};
    gyre_model *m = small_model(GYRE_KIND_ROPE);
    double nats[64], by_window[3], sum = 0;
    gyre_eval_options o = GYRE_INIT(gyre_eval_options);
    gyre_eval_result r;
    gyre_error err;
    o.context = 64;
    o.windows = 3;
    o.starts = starts;
    o.by_window = by_window;
    assert_ok(gyre_evaluate(m, &text, &o, &r, NULL, &err));
    for (int w = 0; w < 3; w++) {
        double here = 0;
        window_nats(m, starts[w], 64, nats);
        for (int i = 32; i < 64; i++)
            here += nats[i];
        test_close(by_window[w], here / 32, 2e-6 * by_window[w], "each of them");
        sum += here;
    }
    assert_int_equal(r.scored, 96);
    test_close(r.nats, sum / 96, 2e-6 * r.nats, "windows that begin where told");
    static const int64_t beyond[1] = {COUNT - 64};
    o.windows = 1;
    o.starts = beyond;
    assert_int_equal(gyre_evaluate(m, &text, &o, &r, NULL, &err), GYRE_EINVAL);
    gyre_model_free(m);
}

static void eval_errors(void **state) {
    (void)state;
    gyre_model *m = small_model(GYRE_KIND_LEARNED);
    gyre_eval_options o = GYRE_INIT(gyre_eval_options);
    gyre_eval_result r = {-1, -1, -1};
    gyre_error err;
    o.context = COUNT;
    assert_int_equal(gyre_evaluate(m, &text, &o, &r, NULL, &err), GYRE_EINVAL);
    assert_non_null(strstr(err.text, "text: 3000 tokens"));
    o.context = 128;
    assert_int_equal(gyre_evaluate(m, &text, &o, &r, NULL, &err), GYRE_ERANGE);
    o.context = 64;
    o.stride = 65;
    assert_int_equal(gyre_evaluate(m, &text, &o, &r, NULL, &err), GYRE_EINVAL);
    ids[10] = 256;
    o.stride = 0;
    assert_int_equal(gyre_evaluate(m, &text, &o, &r, NULL, &err), GYRE_EINVAL);
    assert_non_null(strstr(err.text, "token 10: 256"));
    draw_text();
    assert_true(r.windows == -1); /* untouched */
    gyre_model_free(m);
}

/* -- passkeys -- */
typedef struct question {
    int32_t mark, digits[4];
    int asked_at;
} question;

/* Parses a window. out = the number of keys found; each is hidden once and asked for once, with the same digits. */
static int read_keys(const int32_t *w, int64_t n, const unsigned char *asked, question *q) {
    int keys = 0;
    for (int64_t i = 0; i < n; i++) {
        if (w[i] < GYRE_PASSKEY_MARK || w[i] == GYRE_PASSKEY_MARK + GYRE_PASSKEY_KEYS) continue;
        int known = 0;
        while (known < keys && q[known].mark != w[i])
            known++;
        assert_int_equal(w[i + 5], GYRE_PASSKEY_MARK + GYRE_PASSKEY_KEYS);
        if (known == keys) {
            q[keys] = (question){w[i], {w[i + 1], w[i + 2], w[i + 3], w[i + 4]}, 0};
            keys++;
            for (int d = 1; d <= 4; d++)
                assert_true(w[i + d] >= '0' && w[i + d] <= '9' && !asked[i + d]);
        } else {
            assert_int_equal(q[known].asked_at, 0);
            assert_memory_equal(q[known].digits, w + i + 1, sizeof q[known].digits);
            q[known].asked_at = (int)i;
            for (int d = 1; d <= 4; d++)
                assert_true(asked[i + d]);
        }
    }
    return keys;
}

static void passkey_windows(void **state) {
    (void)state;
    static const int64_t lengths[] = {16, 64, 127, 256, 2048};
    static const int expected[] = {1, 4, 7, 8, 8};
    static int32_t w[2048];
    static unsigned char asked[2048];
    uint64_t random = 3;
    for (int l = 0; l < 5; l++)
        for (int trial = 0; trial < 50; trial++) {
            question q[GYRE_PASSKEY_KEYS] = {{0}};
            gyre_passkey_window(&text, GYRE_PASSKEY_KEYS, lengths[l], &random, w, asked);
            assert_int_equal(read_keys(w, lengths[l], asked, q), expected[l]);
            int count = 0, pairs[100] = {0};
            for (int64_t i = 0; i < lengths[l]; i++)
                count += asked[i];
            assert_int_equal(count, 4 * expected[l]);
            for (int k = 0; k < expected[l]; k++) {
                assert_true(q[k].asked_at >= lengths[l] - 6 * expected[l]); /* at the end */
                for (int d = 0; d < 3; d++)
                    pairs[(q[k].digits[d] - '0') * 10 + q[k].digits[d + 1] - '0']++;
            }
            for (int p = 0; p < 100; p++)
                assert_true(pairs[p] <= 1);
        }
}

/* The number of right answers of a trained model, recomputed from the same windows and the logits of single reads. */
static void passkey_counts(void **state) {
    (void)state;
    enum { CONTEXT = 160, WINDOWS = 4, KEYS = 8 };
    gyre_model *m = NULL; /* a model that finds keys: with random weights both counts would be 0 */
    static int32_t w[CONTEXT];
    static unsigned char asked[CONTEXT];
    static float logits[CONTEXT * VOCAB];
    gyre_passkey_options o = GYRE_INIT(gyre_passkey_options);
    gyre_passkey_result r;
    gyre_error err;
    assert_ok(gyre_model_open(&m, GYRE_TEST_DATA "/../models/rope", NULL, &err));
    o.context = CONTEXT;
    o.trials = 30;
    o.seed = 12;
    int64_t by_window[30], found = 0;
    o.by_window = by_window;
    assert_ok(gyre_passkey(m, &text, &o, &r, NULL, &err));
    assert_int_equal(r.windows, WINDOWS);
    assert_int_equal(r.trials, WINDOWS * KEYS);
    for (int i = 0; i < WINDOWS; i++)
        found += by_window[i];
    assert_int_equal(r.right, found);
    uint64_t random = 12;
    int right = 0;
    gyre_context *x = NULL;
    assert_ok(gyre_context_create(
        &x, m, &(gyre_context_options){.size = sizeof(gyre_context_options), .max_tokens = CONTEXT}, &err));
    for (int i = 0; i < WINDOWS; i++) {
        gyre_passkey_window(&text, KEYS, CONTEXT, &random, w, asked);
        gyre_context_reset(x);
        assert_ok(gyre_context_forward(x, w, CONTEXT, CONTEXT, logits, &err));
        int run = 0;
        for (int p = 1; p < CONTEXT; p++) {
            if (!asked[p]) continue;
            int best = 0;
            for (int v = 1; v < VOCAB; v++)
                if (logits[(p - 1) * VOCAB + v] > logits[(p - 1) * VOCAB + best]) best = v;
            run = best == w[p] ? run + 1 : 0;
            if (!asked[p + 1 < CONTEXT ? p + 1 : p] || p + 1 == CONTEXT) {
                right += run == 4;
                run = 0;
            }
        }
    }
    assert_int_equal(r.right, right);
    assert_true(right > WINDOWS * KEYS / 2);
    gyre_context_free(x);
    o.context = 15;
    assert_int_equal(gyre_passkey(m, &text, &o, &r, NULL, &err), GYRE_EINVAL);
    o.context = COUNT + 1;
    assert_int_equal(gyre_passkey(m, &text, &o, &r, NULL, &err), GYRE_EINVAL);
    static const int64_t too_many[] = {INT64_MAX, (int64_t)1 << 60, (int64_t)1 << 36};
    for (size_t i = 0; i < sizeof too_many / sizeof *too_many; i++) {
        o.context = 32;
        o.trials = too_many[i];
        assert_int_equal(gyre_passkey(m, &text, &o, &r, NULL, &err), GYRE_EINVAL);
        assert_non_null(strstr(err.text, "at most 2^32 bytes"));
    }
    gyre_model_free(m);
}

/* -- copying -- */
/* Parses a window: its last segments are copies.  out = their number; each stands once before, at a place of its own. */
static int check_copies(const int32_t *w, int64_t n, const unsigned char *asked) {
    int64_t body = n, places[8];
    int copies = 0, used[256] = {0};
    while (body >= GYRE_COPYING_LENGTH && asked[body - 1]) {
        body -= GYRE_COPYING_LENGTH;
        for (int i = 0; i < GYRE_COPYING_LENGTH; i++) {
            assert_int_equal(asked[body + i], i >= GYRE_COPYING_GIVEN);
            assert_true(w[body + i] >= 33 && w[body + i] < 127);
            assert_int_equal(used[w[body + i]]++, 0); /* two bytes of a copy say which one it is */
        }
        copies++;
    }
    for (int64_t i = 0; i < body; i++)
        assert_false(asked[i]);
    for (int c = 0; c < copies; c++) {
        places[c] = -1;
        for (int64_t at = 0; at + GYRE_COPYING_LENGTH <= body; at++)
            if (memcmp(w + at, w + body + c * GYRE_COPYING_LENGTH, GYRE_COPYING_LENGTH * sizeof *w) == 0) places[c] = at;
        assert_true(places[c] >= 0);
        int others = 0; /* one segment in each equal part of the text before */
        for (int d = 0; d < c; d++)
            others += ((places[d] + 1) * copies - 1) / body == ((places[c] + 1) * copies - 1) / body;
        assert_int_equal(others, 0);
    }
    return copies;
}

static void copying_windows(void **state) {
    (void)state;
    static const int64_t lengths[] = {20, 64, 127, 256, 2048};
    static const int expected[] = {1, 3, 6, 8, 8};
    static int32_t w[2048];
    static unsigned char asked[2048];
    uint64_t random = 3;
    for (int l = 0; l < 5; l++)
        for (int trial = 0; trial < 50; trial++) {
            gyre_copying_window(&text, 8, lengths[l], &random, w, asked);
            assert_int_equal(check_copies(w, lengths[l], asked), expected[l]);
        }
}

/* out = the bytes asked for that are the likeliest when the window is read at once. */
static int right_bytes(const gyre_model *m, const int32_t *w, int64_t n, const unsigned char *asked) {
    static float logits[256 * VOCAB];
    gyre_context *x = NULL;
    gyre_error err;
    int right = 0;
    assert_ok(
        gyre_context_create(&x, m, &(gyre_context_options){.size = sizeof(gyre_context_options), .max_tokens = n}, &err));
    assert_ok(gyre_context_forward(x, w, n, n, logits, &err));
    for (int64_t p = 1; p < n; p++) {
        int best = 0;
        for (int v = 1; v < VOCAB; v++)
            if (logits[(p - 1) * VOCAB + v] > logits[(p - 1) * VOCAB + best]) best = v;
        right += asked[p] && best == w[p];
    }
    gyre_context_free(x);
    return right;
}

/* The right bytes of a trained model in each window, recomputed; and the same for one that cannot copy. */
static void copying_counts(void **state) {
    (void)state;
    enum { CONTEXT = 160, WINDOWS = 8, SEGMENTS = 4, ASKED = GYRE_COPYING_LENGTH - GYRE_COPYING_GIVEN };
    gyre_model *m = NULL;
    static const char SENTENCE[] = "all the world is a stage and all the men and women merely players; ";
    static int32_t w[CONTEXT], words[COUNT];
    static unsigned char asked[CONTEXT];
    gyre_text english = {.ids = words, .count = COUNT};
    gyre_passkey_options o = GYRE_INIT(gyre_passkey_options);
    gyre_passkey_result r;
    gyre_error err;
    int64_t by_window[30], all = 0;
    for (int i = 0; i < COUNT; i++) /* a text of random bytes hides its segments */
        words[i] = (unsigned char)SENTENCE[i % (sizeof SENTENCE - 1)];
    assert_ok(gyre_model_open(&m, GYRE_TEST_DATA "/../models/rope", NULL, &err));
    o.context = CONTEXT;
    o.trials = 30;
    o.seed = 12;
    o.by_window = by_window;
    assert_ok(gyre_copying(m, &english, &o, &r, NULL, &err));
    assert_int_equal(r.windows, WINDOWS);
    assert_int_equal(r.trials, WINDOWS * SEGMENTS * ASKED);
    uint64_t random = 12;
    for (int i = 0; i < WINDOWS; i++) {
        gyre_copying_window(&english, SEGMENTS, CONTEXT, &random, w, asked);
        assert_int_equal(by_window[i], right_bytes(m, w, CONTEXT, asked));
        all += by_window[i];
    }
    assert_int_equal(r.right, all);
    assert_true(r.right > r.trials / 2); /* it was trained on copies */
    gyre_model_free(m);
    assert_ok(gyre_model_open(&m, GYRE_TEST_DATA "/../models/nope", NULL, &err));
    assert_ok(gyre_copying(m, &english, &o, &r, NULL, &err));
    assert_true(r.right < r.trials / 4); /* it learnt no copying, docs/results.md */
    o.context = 2 * GYRE_COPYING_LENGTH + 3;
    assert_int_equal(gyre_copying(m, &english, &o, &r, NULL, &err), GYRE_EINVAL);
    assert_non_null(strstr(err.text, "(copying)"));
    o.context = COUNT + 1;
    assert_int_equal(gyre_copying(m, &english, &o, &r, NULL, &err), GYRE_EINVAL);
    gyre_model_free(m);
}

static int setup(void **state) {
    (void)state;
    draw_text();
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(protocols),       cmocka_unit_test(by_position_and_threads), cmocka_unit_test(spread_windows),
        cmocka_unit_test(counted_tokens),  cmocka_unit_test(explicit_window_starts),  cmocka_unit_test(eval_errors),
        cmocka_unit_test(passkey_windows), cmocka_unit_test(passkey_counts),          cmocka_unit_test(copying_windows),
        cmocka_unit_test(copying_counts)};
    return cmocka_run_group_tests(tests, setup, NULL);
}
