/* test_attention_rotation.c: attention under rotations that depend on more than one angle per position: far pairs, xPos,
 * several axes, temperature, and causality by order. The definition is evaluated in double and in relative form, with the
 * cosine and sine of the angle between query and key, so nothing here rotates a row. */
#include "attention_setup.h"
#include "naive_chunks.h"
#include "support.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 2, TOKENS = 170, HEADS = 4, KEY_HEADS = 2, DIM = 24, AXES = 3 };
enum { ROW = HEADS * DIM, KEY_ROW = KEY_HEADS * DIM };

typedef struct problem {
    gyre_config config;
    gyre_encoding *encoding;
    int causal;
    int64_t window, queries; /* the last ones */
    int64_t at[BATCH][AXES][TOKENS];
    double inv_freq[DIM / 2], factor;
    int axis[DIM / 2];
    float q[BATCH * TOKENS * ROW], k[BATCH * TOKENS * KEY_ROW], v[BATCH * TOKENS * KEY_ROW], dout[BATCH * TOKENS * ROW];
    float out[BATCH * TOKENS * ROW], lse[BATCH * TOKENS * HEADS];
    float dq[BATCH * TOKENS * ROW], dk[BATCH * TOKENS * KEY_ROW], dv[BATCH * TOKENS * KEY_ROW];
    double x[3][BATCH * TOKENS * ROW]; /* q, k and v again */
} problem;

static problem *begin(const gyre_config *config, uint64_t seed) {
    problem *p = calloc(1, sizeof *p);
    test_random random = {seed};
    assert_non_null(p);
    p->config = *config;
    p->encoding = test_encoding(config);
    p->queries = TOKENS;
    p->causal = GYRE_CAUSAL_BY_POSITION;
    test_fill(&random, p->q, BATCH * TOKENS * ROW);
    test_fill(&random, p->k, BATCH * TOKENS * KEY_ROW);
    test_fill(&random, p->v, BATCH * TOKENS * KEY_ROW);
    test_fill(&random, p->dout, BATCH * TOKENS * ROW);
    for (int i = 0; i < BATCH * TOKENS * ROW; i++) {
        p->x[0][i] = (double)p->q[i];
        p->x[1][i] = i < BATCH * TOKENS * KEY_ROW ? (double)p->k[i] : 0;
        p->x[2][i] = i < BATCH * TOKENS * KEY_ROW ? (double)p->v[i] : 0;
    }
    for (int b = 0; b < BATCH; b++)
        for (int a = 0; a < AXES; a++)
            for (int t = 0; t < TOKENS; t++)
                p->at[b][a][t] = t + 5 * b;
    p->factor = 1;
    if (config->kind == GYRE_KIND_ROPE) assert_ok(gyre_encoding_frequencies(p->encoding, 0, p->inv_freq, &p->factor));
    return p;
}

static void end(problem *p) {
    gyre_encoding_free(p->encoding);
    free(p);
}

/* -- the definition -- */

/* The distance by which pair i rotates. */
static double turn_of(const problem *p, int i, const int64_t *m, const int64_t *n, int64_t step) {
    const struct gyre_rope_config *rope = &p->config.rope;
    const double near = (double)(m[p->axis[i] * step] - n[p->axis[i] * step]), w = (double)rope->far_window;
    if (naive_is_chunked(&p->config)) return naive_chunk_distance(&p->config, *m, *n);
    if (rope->far == GYRE_FAR_AS_NEAR || near < w) return near;
    if (rope->far == GYRE_FAR_CLAMPED) return w;
    if (rope->far == GYRE_FAR_LEAKY) return w + (near - w) / rope->far_factor;
    const double group = rope->far_factor;
    return floor((double)*m / group) - floor((double)*n / group) + w - floor(w / group);
}

static double temperature_of(const struct gyre_query_config *query, int64_t m) {
    const double n = (double)(m + 1), length = (double)query->reference_length;
    if (query->temperature == GYRE_TEMPERATURE_LOG) return n > length ? log(n) / log(length) : 1;
    if (query->temperature == GYRE_TEMPERATURE_LLAMA4) return 1 + query->slope * log(1 + floor(n / length));
    return 1;
}

static double score(const problem *p, int b, int64_t m, int64_t n, int h) {
    const double *q = p->x[0] + (b * TOKENS + m) * ROW + h * DIM, *k = p->x[1] + (b * TOKENS + n) * KEY_ROW + h / 2 * DIM;
    const struct gyre_rope_config *rope = &p->config.rope;
    const int pairs = p->config.kind == GYRE_KIND_ROPE ? (int)(rope->dim ? rope->dim : DIM - rope->first_channel) / 2 : 0;
    const int64_t *at_m = &p->at[b][0][m], *at_n = &p->at[b][0][n];
    double sum = 0;
    for (int c = 0; c < DIM; c++)
        if (c < rope->first_channel || c >= rope->first_channel + 2 * pairs) sum += q[c] * k[c];
    for (int i = 0; i < pairs; i++) {
        const int half = rope->layout == GYRE_LAYOUT_HALF;
        const int lo = (int)rope->first_channel + (half ? i : 2 * i),
                  hi = (int)rope->first_channel + (half ? i + pairs : 2 * i + 1);
        const double angle = turn_of(p, i, at_m, at_n, TOKENS) * p->inv_freq[i] * (rope->clockwise ? -1 : 1);
        double pair = (q[lo] * k[lo] + q[hi] * k[hi]) * cos(angle) - (q[hi] * k[lo] - q[lo] * k[hi]) * sin(angle);
        if (rope->xpos_base > 0)
            pair *= pow((2.0 * i + 0.4 * 2 * pairs) / (1.4 * 2 * pairs), (double)(*at_m - *at_n) / rope->xpos_base);
        sum += pair * p->factor * p->factor;
    }
    return sum * temperature_of(&p->config.query, *at_m) / sqrt(DIM);
}

static int is_visible(const problem *p, int b, int64_t m, int64_t n) {
    const int64_t order = p->causal == GYRE_CAUSAL_BY_ORDER ? m - n : p->at[b][0][m] - p->at[b][0][n];
    if (p->causal && order < 0) return 0;
    return p->window == 0 || llabs(order) < p->window;
}

/* out[DIM] of one query and head; returns the log-sum-exp. */
static double attend(const problem *p, int b, int64_t m, int h, double *out) {
    double s[TOKENS], top = -INFINITY, sum = 0;
    for (int64_t n = 0; n < TOKENS; n++) {
        s[n] = is_visible(p, b, m, n) ? score(p, b, m, n, h) : -INFINITY;
        top = s[n] > top ? s[n] : top;
    }
    memset(out, 0, DIM * sizeof *out);
    for (int64_t n = 0; n < TOKENS && top > -INFINITY; n++) {
        const double weight = exp(s[n] - top), *v = p->x[2] + (b * TOKENS + n) * KEY_ROW + h / 2 * DIM;
        sum += weight;
        for (int c = 0; c < DIM; c++)
            out[c] += weight * v[c];
    }
    for (int c = 0; c < DIM && sum > 0; c++)
        out[c] /= sum;
    return top + log(sum);
}

/* sum of dout . out over the rows of one batch row and the heads of one key head. */
static double loss(const problem *p, int b, int key_head, int64_t from, int64_t to) {
    double out[DIM], sum = 0;
    for (int64_t m = from; m < to; m++)
        for (int h = 2 * key_head; h < 2 * key_head + 2; h++) {
            attend(p, b, m, h, out);
            for (int c = 0; c < DIM; c++)
                sum += out[c] * (double)p->dout[(b * TOKENS + m) * ROW + h * DIM + c];
        }
    return sum;
}

/* -- the library -- */

static attention_setup arguments(problem *p) {
    attention_setup args = GYRE_INIT(attention_setup);
    const int64_t skip = TOKENS - p->queries;
    const gyre_positions at = {p->at, GYRE_DTYPE_I64, 0, 0, AXES * TOKENS, 1, TOKENS, 0};
    args.encoding = p->encoding;
    args.q = gyre_cdense(p->q + skip * ROW, GYRE_DTYPE_F32, BATCH, p->queries, HEADS, DIM);
    args.k = gyre_cdense(p->k, GYRE_DTYPE_F32, BATCH, TOKENS, KEY_HEADS, DIM);
    args.v = gyre_cdense(p->v, GYRE_DTYPE_F32, BATCH, TOKENS, KEY_HEADS, DIM);
    args.out = gyre_dense(p->out + skip * ROW, GYRE_DTYPE_F32, BATCH, p->queries, HEADS, DIM);
    args.lse = gyre_dense(p->lse + skip * HEADS, GYRE_DTYPE_F32, BATCH, p->queries, HEADS, 1);
    args.q.stride[0] = args.out.stride[0] = TOKENS * ROW;
    args.lse.stride[0] = TOKENS * HEADS;
    args.q_pos = args.k_pos = at;
    args.q_pos.data = &p->at[0][0][skip];
    args.causal = p->causal;
    args.window = p->window;
    return args;
}

static void run(problem *p, int threads) {
    attention_setup args = arguments(p);
    const int64_t skip = TOKENS - p->queries;
    gyre_pool *pool = NULL;
    assert_ok(gyre_pool_create(&pool, threads, NULL));
    const gyre_exec exec = gyre_pool_exec(pool);
    size_t bytes = attention_scratch(&args, 1, &exec);
    const size_t forward = attention_scratch(&args, 0, &exec);
    assert_true(bytes > 0 && forward > 0);
    bytes = bytes > forward ? bytes : forward;
    void *scratch = aligned_alloc(64, (bytes + 63) / 64 * 64);
    assert_non_null(scratch);
    memset(scratch, 0xFF, bytes); /* NaNs */
    gyre_cview dout = gyre_cdense(p->dout + skip * ROW, GYRE_DTYPE_F32, BATCH, p->queries, HEADS, DIM);
    gyre_view dqkv[3] = {gyre_dense(p->dq + skip * ROW, GYRE_DTYPE_F32, BATCH, p->queries, HEADS, DIM),
                         gyre_dense(p->dk, GYRE_DTYPE_F32, BATCH, TOKENS, KEY_HEADS, DIM),
                         gyre_dense(p->dv, GYRE_DTYPE_F32, BATCH, TOKENS, KEY_HEADS, DIM)};
    dout.stride[0] = dqkv[0].stride[0] = TOKENS * ROW;
    assert_ok(run_attention(&args, (gyre_scratch){scratch, bytes}, &exec, NULL));
    assert_ok(run_attention_gradient(
        &args, GYRE_ARGS(gyre_attention_gradients, .dout = dout, .dq = dqkv[0], .dk = dqkv[1], .dv = dqkv[2]),
        (gyre_scratch){scratch, bytes}, &exec, NULL));
    free(scratch);
    gyre_pool_free(pool);
}

static void check_forward(const problem *p) {
    double want[DIM], worst = 0, size = 0;
    for (int b = 0; b < BATCH; b++)
        for (int64_t m = TOKENS - p->queries; m < TOKENS; m++)
            for (int h = 0; h < HEADS; h++) {
                const float *got = p->out + (b * TOKENS + m) * ROW + h * DIM;
                const double lse = attend(p, b, m, h, want);
                test_close(p->lse[(b * TOKENS + m) * HEADS + h], lse, 1e-5 * (1 + fabs(lse)), "lse");
                for (int c = 0; c < DIM; c++) {
                    worst = fmax(worst, fabs((double)got[c] - want[c]));
                    size = fmax(size, fabs(want[c]));
                }
            }
    test_close(worst / size, 0, 1e-5, "out");
}

/* Central differences at a sample of the elements of q, k and v. */
static void check_gradient(problem *p, uint64_t seed) {
    const float *const got[3] = {p->dq, p->dk, p->dv};
    static const char *const names[3] = {"dq", "dk", "dv"};
    test_random random = {seed};
    const double h = 1e-4;
    for (int part = 0; part < 3; part++)
        for (int sample = 0; sample < 6; sample++) {
            const int width = part == 0 ? ROW : KEY_ROW, b = sample % BATCH;
            const int64_t skip = part == 0 ? TOKENS - p->queries : 0;
            const int64_t token = skip + (int64_t)(test_next(&random) % (uint64_t)(TOKENS - skip));
            const int64_t column = (int64_t)(test_next(&random) % (uint64_t)width);
            const int64_t i = (b * TOKENS + token) * width + column;
            const int key_head = (int)(part == 0 ? column / DIM / 2 : column / DIM);
            const int64_t from = part == 0 ? token : TOKENS - p->queries, to = part == 0 ? token + 1 : TOKENS;
            const double saved = p->x[part][i];
            p->x[part][i] = saved + h;
            const double up = loss(p, b, key_head, from, to);
            p->x[part][i] = saved - h;
            const double down = loss(p, b, key_head, from, to);
            p->x[part][i] = saved;
            test_close(got[part][i], (up - down) / (2 * h), 2e-5, names[part]);
        }
}

static void check(problem *p, uint64_t seed) {
    static float saved[BATCH * TOKENS * ROW], saved_dk[BATCH * TOKENS * KEY_ROW];
    run(p, 1);
    check_forward(p);
    check_gradient(p, seed);
    memcpy(saved, p->out, sizeof saved);
    memcpy(saved_dk, p->dk, sizeof saved_dk);
    run(p, 3);
    assert_memory_equal(saved, p->out, sizeof saved);
    assert_memory_equal(saved_dk, p->dk, sizeof saved_dk);
    end(p);
}

static gyre_config rope(void) {
    gyre_config config = test_rope_config(DIM, GYRE_LAYOUT_HALF);
    config.rope.base = 100;
    config.trained_length = 64;
    return config;
}

/* -- tests -- */

static void far_pairs(void **state) {
    (void)state;
    static const struct {
        gyre_far far;
        double factor;
    } methods[] = {{GYRE_FAR_CLAMPED, 0}, {GYRE_FAR_LEAKY, 16}, {GYRE_FAR_LEAKY, 2.5}, {GYRE_FAR_GROUPED, 4}};
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++)
        for (int64_t window = 1; window <= 300; window *= i % 2 ? 17 : 41) {
            gyre_config config = rope();
            config.rope.far = methods[i].far;
            config.rope.far_factor = methods[i].factor;
            config.rope.far_window = window;
            config.rope.scaling = i == 3 ? GYRE_SCALING_YARN : GYRE_SCALING_NONE;
            config.rope.factor = i == 3 ? 4 : 0;
            problem *p = begin(&config, 100 + i);
            p->window = i == 1 ? 90 : 0;
            p->queries = i == 2 ? 50 : TOKENS;
            check(p, 7 + i);
        }
}

/* All at once and token by token give the same, at large positions. */
static void far_pairs_decode(void **state) {
    (void)state;
    static float whole[BATCH * TOKENS * ROW];
    gyre_config config = rope();
    config.rope.far = GYRE_FAR_GROUPED;
    config.rope.far_factor = 8;
    config.rope.far_window = 33;
    problem *p = begin(&config, 5);
    for (int64_t *at = &p->at[0][0][0]; at < &p->at[0][0][0] + sizeof p->at / sizeof *at; at++)
        *at += 10000000;
    run(p, 2);
    memcpy(whole, p->out, sizeof whole);
    for (p->queries = 1; p->queries < 140; p->queries += 60) {
        run(p, 2);
        for (int i = 0; i < BATCH * TOKENS * ROW; i++)
            test_close(p->out[i], whole[i], 1e-5, "token by token");
    }
    end(p);
}

/* Chunks of 1 token, of a few, across tiles, and longer than the call; positions below 0 too. */
static void chunks(void **state) {
    (void)state;
    static const struct { int64_t size, local; } sizes[] = {{10, 9}, {20, 6}, {60, 40}, {64, 32}, {150, 7}, {300, 90}};
    for (int i = 0; i < 12; i++) {
        gyre_config config = rope();
        config.rope.far = i % 2 ? GYRE_FAR_CHUNKED_PAPER : GYRE_FAR_CHUNKED;
        config.rope.chunk.size = sizes[i / 2].size;
        config.rope.chunk.local = sizes[i / 2].local;
        config.rope.chunk.original_length = i % 3 == 0 ? 50 : 0;
        config.context_length = TOKENS;
        config.rope.scaling = i == 4 ? GYRE_SCALING_LINEAR : GYRE_SCALING_NONE;
        config.rope.factor = i == 4 ? 2 : 0;
        problem *p = begin(&config, 200 + (uint64_t)i);
        test_close(p->factor, i % 3 == 0 ? 1 + 0.1 * log(TOKENS / 50.0) : 1, 1e-15, "factor of cos and sin");
        for (int64_t *at = &p->at[0][0][0]; i >= 8 && at < &p->at[0][0][0] + sizeof p->at / sizeof *at; at++)
            *at -= 90;
        p->window = i == 3 ? 70 : 0;
        p->queries = i == 5 ? 33 : TOKENS;
        check(p, 40 + (uint64_t)i);
    }
}

/* One token after the other gives what all at once gives, and a chunk that is longer than the call changes nothing. */
static void chunks_decode(void **state) {
    (void)state;
    static float whole[BATCH * TOKENS * ROW];
    gyre_config config = rope();
    problem *p = begin(&config, 5);
    run(p, 2);
    memcpy(whole, p->out, sizeof whole);
    end(p);
    for (int i = 0; i < 2; i++) {
        config.rope.far = GYRE_FAR_CHUNKED;
        config.rope.chunk.size = i == 0 ? 500 : 48;
        config.rope.chunk.local = 20;
        p = begin(&config, 5);
        run(p, 2);
        for (int j = 0; i == 0 && j < BATCH * TOKENS * ROW; j++)
            test_close(p->out[j], whole[j], 1e-6, "one chunk");
        memcpy(whole, p->out, sizeof whole);
        for (p->queries = 1; p->queries < 140; p->queries += 60) {
            run(p, 2);
            for (int j = 0; j < BATCH * TOKENS * ROW; j++)
                test_close(p->out[j], whole[j], 1e-5, "token by token");
        }
        end(p);
    }
}

static void xpos(void **state) {
    (void)state;
    static const double bases[] = {512, 40, 512};
    for (int i = 0; i < 3; i++) {
        gyre_config config = rope();
        config.rope.xpos_base = bases[i];
        config.rope.dim = i == 1 ? DIM - 8 : 0;
        config.rope.first_channel = i == 1 ? 6 : 0;
        config.rope.layout = i == 1 ? GYRE_LAYOUT_INTERLEAVED : GYRE_LAYOUT_HALF;
        problem *p = begin(&config, 30 + (uint64_t)i);
        for (int t = 0; i == 2 && t < TOKENS; t++) /* far out, and with gaps */
            for (int b = 0; b < BATCH; b++)
                p->at[b][0][t] = 1000000000 + 37 * t;
        p->queries = i == 0 ? TOKENS : 77;
        check(p, 70 + (uint64_t)i);
    }
}

/* Qwen2-VL's kind of positions: text, then an image of 10 x 9 patches at one time, then text. */
static void place_image(problem *p) {
    for (int b = 0; b < BATCH; b++)
        for (int t = 0, next = 0; t < TOKENS; t++) {
            const int patch = t - 40 - 3 * b;
            const int inside = patch >= 0 && patch < 90;
            if (patch == 90) next = 40 + 3 * b + 10;
            for (int a = 0; a < AXES; a++)
                p->at[b][a][t] = !inside ? next : 40 + 3 * b + (a == 1 ? patch / 9 : a == 2 ? patch % 9 : 0);
            next += !inside;
        }
}

static void several_axes(void **state) {
    (void)state;
    for (int i = 0; i < 4; i++) {
        gyre_config config = rope();
        config.rope.axes = AXES;
        config.rope.axes_layout = i % 2 ? GYRE_AXES_INTERLEAVED : GYRE_AXES_CHUNKED;
        config.rope.axis_pairs[0] = 4, config.rope.axis_pairs[1] = 4, config.rope.axis_pairs[2] = 4;
        config.rope.clockwise = i == 2;
        problem *p = begin(&config, 50 + (uint64_t)i);
        for (int pair = 0; pair < DIM / 2; pair++)
            p->axis[pair] = i % 2 ? pair % 3 : pair / 4;
        place_image(p);
        p->causal = i < 3 ? GYRE_CAUSAL_BY_ORDER : 0;
        p->window = i == 1 ? 60 : 0;
        p->queries = i == 0 ? 100 : TOKENS;
        check(p, 90 + (uint64_t)i);
    }
}

static void temperature(void **state) {
    (void)state;
    for (int i = 0; i < 4; i++) {
        gyre_config config = rope();
        if (i == 1) config.kind = GYRE_KIND_NOPE;
        config.query.temperature = i < 2 ? GYRE_TEMPERATURE_LOG : GYRE_TEMPERATURE_LLAMA4;
        config.query.reference_length = i < 2 ? 24 : 10;
        config.query.slope = 0.3;
        config.rope.far = i == 3 ? GYRE_FAR_CLAMPED : GYRE_FAR_AS_NEAR;
        config.rope.far_window = i == 3 ? 50 : 0;
        check(begin(&config, 11 + (uint64_t)i), 13 + (uint64_t)i);
    }
}

/* Tokens of one tile so distant that the xPos factor overflows a float are refused, and nothing is written. */
static void xpos_range(void **state) {
    (void)state;
    gyre_config config = rope();
    config.rope.xpos_base = 512;
    problem *p = begin(&config, 8);
    attention_setup args = arguments(p);
    const size_t bytes = attention_scratch(&args, 0, NULL);
    void *scratch = aligned_alloc(64, (bytes + 63) / 64 * 64);
    assert_non_null(scratch);
    for (int t = 0; t < TOKENS; t++)
        p->at[1][0][t] = t < 100 ? t : t + 40000;
    assert_int_equal(run_attention(&args, (gyre_scratch){scratch, bytes}, NULL, NULL), GYRE_ERANGE);
    for (int i = 0; i < BATCH * TOKENS * ROW; i++)
        assert_true(p->out[i] == 0);
    for (int t = 0; t < TOKENS; t++)
        p->at[1][0][t] = t < 100 ? t : t + 20000;
    assert_ok(run_attention(&args, (gyre_scratch){scratch, bytes}, NULL, NULL));
    free(scratch);
    run(p, 2);
    check_forward(p);
    end(p);
}

/* Keys that no query sees get no gradient, whatever the scratch contained. */
static void masked_keys(void **state) {
    (void)state;
    gyre_config config = rope();
    problem *p = begin(&config, 9);
    p->queries = 4;
    for (int b = 0; b < BATCH; b++)
        for (int t = TOKENS - 4; t < TOKENS; t++)
            p->at[b][0][t] = 3; /* the queries have early positions, the keys before them late ones */
    run(p, 2);
    for (int b = 0; b < BATCH; b++)
        for (int t = 40; t < TOKENS - 4; t++)
            for (int c = 0; c < KEY_ROW; c++)
                assert_true(p->dk[(b * TOKENS + t) * KEY_ROW + c] == 0);
    check_forward(p);
    end(p);
}

/* Both need to know which of two tokens is earlier. */
static void needs_causality(void **state) {
    (void)state;
    for (int i = 0; i < 2; i++) {
        gyre_config config = rope();
        config.rope.xpos_base = i == 0 ? 512 : 0;
        config.rope.far = i == 1 ? GYRE_FAR_CLAMPED : GYRE_FAR_AS_NEAR;
        config.rope.far_window = i == 1 ? 9 : 0;
        problem *p = begin(&config, 3);
        attention_setup args = arguments(p);
        args.causal = 0;
        assert_int_equal(attention_scratch(&args, 0, NULL), 0);
        assert_int_equal(run_attention(&args, (gyre_scratch){NULL, 0}, NULL, NULL), GYRE_EUNSUPPORTED);
        args.causal = GYRE_CAUSAL_BY_ORDER;
        assert_int_equal(run_attention(&args, (gyre_scratch){NULL, 0}, NULL, NULL), GYRE_EUNSUPPORTED);
        args.causal = 3;
        assert_int_equal(run_attention(&args, (gyre_scratch){NULL, 0}, NULL, NULL), GYRE_EINVAL);
        end(p);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(far_pairs),     cmocka_unit_test(far_pairs_decode), cmocka_unit_test(xpos),
        cmocka_unit_test(several_axes),  cmocka_unit_test(temperature),      cmocka_unit_test(needs_causality),
        cmocka_unit_test(xpos_range),    cmocka_unit_test(masked_keys),      cmocka_unit_test(chunks),
        cmocka_unit_test(chunks_decode),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
