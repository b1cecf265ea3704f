/* test_bench_command.c: gyre bench encodings: what it measures with, and what it prints. */
#include "attention_setup.h"
#include "run_command.h"
#include "tools/bench/bench.h"
#include <math.h>

/* -- resident memory -- */
enum { GROWTH = 16 << 20 };

static int nothing(void *arg) {
    (void)arg;
    return 0;
}
static int fails(void *arg) {
    (void)arg;
    return 1;
}
/* Gone again before the end: only a high-water mark sees it. */
static int grows(void *arg) {
    volatile char *memory = malloc(GROWTH);
    if (!memory) return 1;
    for (int i = 0; i < GROWTH; i += 1024)
        memory[i] = 1;
    *(char *)arg = memory[0];
    free((void *)memory);
    return 0;
}

static void peak_of_a_call(void **state) {
    (void)state;
    char seen = 0;
    /* Of sanitizers, which keep notes on memory; that of threads many times its size. */
#ifdef __SANITIZE_THREAD__
    const int64_t slack = 8 * (int64_t)GROWTH;
#else
    const int64_t slack = 4 << 20;
#endif
    const int64_t peak = bench_peak_rss_growth(nothing, grows, &seen);
    assert_true(peak >= GROWTH - (1 << 20) && peak <= GROWTH + slack);
    assert_true(bench_peak_rss_growth(grows, nothing, &seen) <= GROWTH + slack);
    assert_int_equal(bench_peak_rss_growth(fails, grows, &seen), -1);
    assert_int_equal(bench_peak_rss_growth(nothing, fails, &seen), -1);
    assert_int_equal(seen, 0); /* all that was in another process */
}

/* -- which schemes -- */
static void every_kind_is_measured(void **state) {
    (void)state;
    bench_scheme all[BENCH_MAX_SCHEMES], some[BENCH_MAX_SCHEMES];
    const int count = bench_choose_schemes(NULL, all);
    assert_int_equal(bench_choose_schemes("all", some), count);
    for (int kind = GYRE_KIND_NOPE; gyre_kind_name((gyre_kind)kind); kind++) {
        int of_kind = 0;
        for (int i = 0; i < count; i++)
            of_kind += strcmp(all[i].scheme, gyre_kind_name((gyre_kind)kind)) == 0;
        assert_true(of_kind > 0);
        assert_int_equal(bench_choose_schemes(gyre_kind_name((gyre_kind)kind), some), of_kind);
    }
    for (int i = 0; i < count; i++)
        for (int j = 0; j < i; j++)
            assert_string_not_equal(all[i].name, all[j].name);
    assert_int_equal(bench_choose_schemes("deberta-v3,alibi,deberta-v3", some), 3);
    assert_string_equal(some[0].name, "alibi-causal"); /* in the library's order, each once */
    assert_string_equal(some[2].name, "deberta-v3");
}

/* -- what it prints -- */
typedef struct line {
    json_t *root;
    char *next;
} line;

/* Lines of JSON one after another; root NULL past the last. */
static line next_line(char *text) {
    line l = {NULL, strchr(text, '\n')};
    if (!l.next) return l;
    *l.next++ = 0;
    json_error_t error;
    l.root = json_loads(text, 0, &error);
    if (!l.root) fail_msg("%s: %s", error.text, text);
    return l;
}

static int64_t scratch_without_positions(int64_t tokens, int64_t heads, int64_t head_dim) {
    static float memory[1]; /* only shapes matter */
    attention_setup args = GYRE_INIT(attention_setup);
    args.q = args.k = args.v = gyre_cdense(memory, GYRE_DTYPE_F32, 1, tokens, heads, head_dim);
    args.out = gyre_dense(memory, GYRE_DTYPE_F32, 1, tokens, heads, head_dim);
    args.causal = GYRE_CAUSAL_BY_POSITION;
    return (int64_t)attention_scratch(&args, 0, NULL);
}

/* 16 MiB would be a float for each pair of tokens. */
static void no_scheme_needs_a_matrix(void **state) {
    (void)state;
    bench_scheme all[BENCH_MAX_SCHEMES];
    const int count = bench_choose_schemes(NULL, all);
    const outcome *o = run("bench encodings --tokens 2k --heads 1 --head-dim 16 --rounds 1 --threads 1 --json");
    if (o->exit) fail_msg("%s", o->err);
    static char text[1 << 16];
    memcpy(text, o->out, sizeof text);
    int rows = 0;
    for (line l = next_line(text); l.root; l = next_line(l.next), rows++) {
        assert_true(rows < count);
        assert_string_equal(test_string(l.root, "scheme"), all[rows].name);
        assert_int_equal(test_integer(l.root, "tokens"), 2048);
        assert_int_equal(test_integer(l.root, "matrix_bytes"), 4 * 2048 * 2048);
        /* Their calls lay out memory of their own, less of it. */
        if (all[rows].extra != BENCH_CONTEXTUAL && all[rows].extra != BENCH_ADAPTIVE)
            assert_true(test_integer(l.root, "scratch_bytes") >= scratch_without_positions(2048, 1, 16));
        if (rows == 0) assert_int_equal(test_integer(l.root, "scratch_bytes"), scratch_without_positions(2048, 1, 16));
        if (test_integer(l.root, "peak_bytes") >= 4 * 2048 * 2048 / 2)
            fail_msg("%s: memory grew by %lld bytes", all[rows].name, (long long)test_integer(l.root, "peak_bytes"));
        const double ms = test_number(l.root, "ms"), base = test_number(l.root, "base_ms");
        assert_true(ms > 0 && base > 0);
        test_close(test_number(l.root, "ratio"), ms / base, 1e-9 * ms / base, "ratio of one round");
        assert_true(json_is_null(json_object_get(l.root, "goal"))); /* that is for 12 heads of 64 */
        json_decref(l.root);
    }
    assert_int_equal(rows, count);
}

static void every_gradient_runs(void **state) {
    (void)state;
    bench_scheme all[BENCH_MAX_SCHEMES];
    const outcome *o = run("bench encodings --tokens 24,40 --heads 2 --head-dim 8 --rounds 2 --threads 2 --gradient --json");
    if (o->exit) fail_msg("%s", o->err);
    static char text[1 << 16];
    memcpy(text, o->out, sizeof text);
    int rows = 0;
    for (line l = next_line(text); l.root; l = next_line(l.next), rows++) {
        assert_true(json_is_true(json_object_get(l.root, "gradient")));
        assert_int_equal(test_integer(l.root, "threads"), 2);
        json_decref(l.root);
    }
    assert_int_equal(rows, 2 * bench_choose_schemes(NULL, all));
}

/* out = the sum of dout x out of one call of the scheme on the data. */
static double loss_of(const bench_scheme *scheme, const bench_data *data) {
    bench_shape shape = data->shape;
    bench_data forward = *data;
    bench_call call;
    double loss = 0;
    shape.gradient = 0;
    forward.shape = shape;
    assert_ok(bench_call_create(&call, scheme, scheme->causal, &forward, NULL));
    const size_t bytes = bench_call_scratch(&call, NULL);
    void *scratch = aligned_alloc(64, (bytes + 127) / 64 * 64);
    assert_ok(bench_call_run(&call, scratch, bytes, NULL));
    for (int64_t i = 0; i < shape.tokens * shape.heads * shape.head_dim; i++)
        loss += (double)data->dout[i] * (double)call.out[i];
    free(scratch);
    bench_call_free(&call);
    return loss;
}

/* Along the gradient g, which the call writes to x, the loss changes by |g|^2 a step. */
static void check_gradient(const bench_scheme *scheme, bench_data *data, float *x, const float *g) {
    const int64_t count = data->shape.tokens * data->shape.heads * data->shape.head_dim;
    double square = 0, loss[2];
    float *kept = malloc((size_t)count * sizeof *kept);
    assert_non_null(kept);
    memcpy(kept, x, (size_t)count * sizeof *kept);
    for (int64_t i = 0; i < count; i++)
        square += (double)g[i] * (double)g[i];
    const double step = 0.02 / sqrt(square);
    for (int s = 0; s < 2; s++) {
        for (int64_t i = 0; i < count; i++)
            x[i] = kept[i] + (float)(s ? -step : step) * g[i];
        loss[s] = loss_of(scheme, data);
    }
    memcpy(x, kept, (size_t)count * sizeof *kept);
    free(kept);
    assert_true(square > 1e-3);
    test_close((loss[0] - loss[1]) / (2 * step), square, 0.02 * square, scheme->name);
}

/* Rotations whose numbers are trained are measured as models run them: forward and gradient to queries, keys, values. */
static void trained_rotations_are_what_they_say(void **state) {
    (void)state;
    static const char *const names[] = {"pope", "trained-frequencies", "fope"};
    const bench_shape shape = {24, 2, 8, 1};
    bench_scheme chosen[BENCH_MAX_SCHEMES], none[BENCH_MAX_SCHEMES];
    bench_data data;
    assert_ok(bench_data_create(&data, &shape, NULL));
    assert_true(bench_choose_schemes("nope", none) > 0);
    const double without = loss_of(&none[0], &data);
    for (int i = 0; i < 3; i++) {
        bench_call call;
        assert_int_equal(bench_choose_schemes(names[i], chosen), 1);
        assert_true(fabs(loss_of(chosen, &data) - without) > 1e-3);
        assert_ok(bench_call_create(&call, chosen, chosen->causal, &data, NULL));
        const size_t bytes = bench_call_scratch(&call, NULL);
        void *scratch = aligned_alloc(64, (bytes + 127) / 64 * 64);
        assert_ok(bench_call_forward(&call, NULL, NULL));
        assert_ok(bench_call_run(&call, scratch, bytes, NULL));
        check_gradient(chosen, &data, data.q, data.dq);
        check_gradient(chosen, &data, data.k, data.dk);
        check_gradient(chosen, &data, data.v, data.dv);
        free(scratch);
        bench_call_free(&call);
    }
    bench_data_free(&data);
}

static void table_for_people(void **state) {
    (void)state;
    const outcome *o = run("bench encodings --tokens 16 --heads 1 --head-dim 8 --schemes alibi,nope --rounds 1 --threads 1");
    assert_int_equal(o->exit, 0);
    assert_string_equal(o->err, "");
    assert_non_null(strstr(o->out, "16 tokens, 1 heads of 8, forward, 1 thread, medians of 1 rounds"));
    assert_non_null(strstr(o->out, "peak MiB"));
    assert_non_null(strstr(o->out, "\nalibi-bidirectional      none "));
    assert_non_null(strstr(o->out, "\nalibi-causal             causal "));
    assert_non_null(strstr(o->out, "\nnope "));
    assert_null(strstr(o->out, "rope-"));
}

/* A result a line, so that a reader needs no parser that knows where one ends. */
static void results_are_lines(void **state) {
    (void)state;
    const outcome *o = run("bench angles --rounds 1 --threads 1 --json");
    assert_int_equal(o->exit, 0);
    static char text[1 << 16];
    memcpy(text, o->out, sizeof text);
    int lines = 0;
    for (line l = next_line(text); l.root; l = next_line(l.next), lines++) {
        assert_string_equal(test_string(l.root, "bench"), "angles");
        json_decref(l.root);
    }
    assert_true(lines > 0);
}

/* Each call of a cache, then what each type of keys and values loses. */
static void calls_of_a_cache(void **state) {
    (void)state;
    const outcome *o = run("bench cache --rounds 1 --threads 1 --json");
    if (o->exit) fail_msg("%s", o->err);
    static char text[1 << 16];
    memcpy(text, o->out, sizeof text);
    int calls = 0, types = 0;
    for (line l = next_line(text); l.root; l = next_line(l.next)) {
        assert_string_equal(test_string(l.root, "bench"), "cache");
        const json_t *us = json_object_get(l.root, "us"), *error = json_object_get(l.root, "error");
        assert_true(!us != !error);
        if (us) assert_true(json_real_value(us) > 0);
        if (error) assert_true(types == 0 ? json_real_value(error) == 0 : json_real_value(error) < 0.02);
        calls += us != NULL;
        types += error != NULL;
        json_decref(l.root);
    }
    assert_int_equal(calls, 16);
    assert_int_equal(types, 4);
}

/* The cache that it saves goes to the folder that TMPDIR names, not to /tmp. */
static void cache_is_saved_under_tmpdir(void **state) {
    (void)state;
    assert_int_equal(setenv("TMPDIR", in_folder("nowhere"), 1), 0);
    const outcome *o = run("bench cache --rounds 1 --threads 1");
    assert_int_equal(o->exit, 1);
    assert_non_null(strstr(o->err, "nowhere: no temporary folder can be made there"));
    assert_int_equal(unsetenv("TMPDIR"), 0);
}

/* What a token takes, and how far each type is from f32. */
static void latents_of_a_cache(void **state) {
    (void)state;
    const outcome *o = run("bench latents --quick --threads 1 --only decode-16h --json");
    if (o->exit) fail_msg("%s", o->err);
    static const char *const types[] = {"f16", "bf16", "q8"};
    static const int64_t bytes[] = {1152, 1152, 580}, plain[] = {10240, 10240, 5248};
    static const double errors[] = {2e-3, 2e-2, 6e-2};
    static char text[1 << 16];
    memcpy(text, o->out, sizeof text);
    int rows = 0;
    for (line l = next_line(text); l.root; l = next_line(l.next), rows++) {
        assert_true(rows < 3);
        assert_string_equal(test_string(l.root, "bench"), "latents");
        assert_string_equal(test_string(l.root, "dtype"), types[rows]);
        assert_int_equal(test_integer(l.root, "token_bytes"), bytes[rows]);
        assert_int_equal(test_integer(l.root, "plain_token_bytes"), plain[rows]);
        assert_true(test_number(l.root, "error") > 0 && test_number(l.root, "error") < errors[rows]);
        assert_true(test_number(l.root, "ms") > 0 && test_number(l.root, "plain_ms") > 0);
        assert_true(test_number(l.root, "ratio") > 0 && test_number(l.root, "of_read") > 0);
        json_decref(l.root);
    }
    assert_int_equal(rows, 3);
    assert_fails("bench latents --only decode-16", 2, "--only: \"decode-16\" is not one of decode-16h-f16, ");
}

/* A row for each size, and the same of a rotation. */
static void calls_beside_loops(void **state) {
    (void)state;
    const outcome *o = run("bench call --rounds 1 --json");
    if (o->exit) fail_msg("%s", o->err);
    static char text[1 << 16];
    memcpy(text, o->out, sizeof text);
    int attention = 0, rotations = 0;
    for (line l = next_line(text); l.root; l = next_line(l.next)) {
        const int rotates = strcmp(test_string(l.root, "operation"), "rotate") == 0;
        assert_string_equal(test_string(l.root, "bench"), "call");
        assert_true(test_integer(l.root, "head_dim") >= 8 && (test_integer(l.root, "keys") > 0) == !rotates);
        assert_true(test_number(l.root, "loop_ns") > 0 && test_number(l.root, "call_ns") > 0);
        test_close((long double)test_number(l.root, "ratio"),
                   (long double)(test_number(l.root, "prepared_ns") / test_number(l.root, "loop_ns")), 1e-9L, "ratio");
        rotations += rotates;
        attention += !rotates;
        json_decref(l.root);
    }
    assert_int_equal(attention, 42);
    assert_int_equal(rotations, 6);
}

static void wrong_use(void **state) {
    (void)state;
    assert_fails("bench", 2,
                 "known are: rotate, angles, add, encodings, attention, cache, call, latents, products, train, model");
    assert_fails("bench encoding", 2,
                 "known are: rotate, angles, add, encodings, attention, cache, call, latents, products, train, model");
    assert_fails("bench encodings train", 2, "one benchmark at a time");
    assert_fails("bench encodings --schemes albi", 2, "did you mean alibi?");
    assert_fails("bench encodings --schemes something", 2, "one of nope, ");
    assert_fails("bench encodings --schemes alibi,", 2, "\"\" is not one of ");
    assert_fails("bench encodings --tokens 1", 2, "--tokens: 1 is below 2");
    assert_fails("bench encodings --rounds 0", 2, "--rounds: 0 is below 1");
    assert_fails("bench encodings --heads 0", 2, "--heads: 0 is below 1");
    assert_fails("bench encodings --context 32", 2, "--context: not an option of gyre bench encodings");
    assert_fails("bench train --gradient", 2, "--gradient: not an option of gyre bench train");
    assert_fails("bench encodings --schemes rope --head-dim 7 --tokens 16", 1, "rope-no-table: rope.dim: 7 is odd");
    assert_fails("bench encodings --tokens 64 --heads 2 --head-dim 15 --rounds 1", 1,
                 "trained-frequencies: needs heads of an even number of channels");
    assert_string_equal(run("bench encodings --tokens 64 --heads 2 --head-dim 15 --rounds 1")->out, ""); /* no row before */
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(peak_of_a_call),
                                       cmocka_unit_test(every_kind_is_measured),
                                       cmocka_unit_test(table_for_people),
                                       cmocka_unit_test(no_scheme_needs_a_matrix),
                                       cmocka_unit_test(every_gradient_runs),
                                       cmocka_unit_test(trained_rotations_are_what_they_say),
                                       cmocka_unit_test(results_are_lines),
                                       cmocka_unit_test(calls_of_a_cache),
                                       cmocka_unit_test(cache_is_saved_under_tmpdir),
                                       cmocka_unit_test(cache_is_saved_under_tmpdir),
                                       cmocka_unit_test(latents_of_a_cache),
                                       cmocka_unit_test(calls_beside_loops),
                                       cmocka_unit_test(wrong_use)};
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
