/* test_bench_attention.c: gyre bench attention: which cases it has, and that its figures fit each other. */
#include "run_command.h"
#include "tools/bench/bench_attention.h"
#include "tools/bench/bench_roofline.h"

#include <math.h>

/* -- measuring in turn -- */
typedef struct calls {
    int count, fails_at;
} calls;

static gyre_status count_call(void *arg, const gyre_exec *exec) {
    calls *c = arg;
    (void)exec;
    return ++c->count == c->fails_at ? GYRE_ERANGE : GYRE_OK;
}

static void rounds_run_all(void **state) {
    (void)state;
    calls a = {0, 0}, b = {0, 0};
    bench_series sa = {.run = count_call, .arg = &a, .amount = 1}, sb = {.run = count_call, .arg = &b, .amount = 1};
    bench_series *const both[] = {&sa, &sb};
    bench_rounds rounds = bench_rounds_begin(bench_this_core(), 2);
    assert_ok(bench_run_interleaved(both, 2, 0, &rounds, NULL));
    assert_int_equal(rounds.count, 2);
    assert_true(sa.times >= 1000 && a.count >= 2 * sa.times); /* so short that the clock needs many */
    assert_true(sa.seconds[0] > 0 && sa.seconds[1] > 0 && sb.seconds[1] > 0);
    a = (calls){0, 5000};
    rounds = bench_rounds_begin(bench_this_core(), 2);
    assert_int_equal(bench_run_interleaved(both, 2, 0, &rounds, NULL), GYRE_ERANGE);
}

/* -- limits -- */
static void limits_run(void **state) {
    (void)state;
    gyre_pool *pool;
    assert_ok(gyre_pool_create(&pool, 2, NULL));
    const gyre_exec exec = gyre_pool_exec(pool);
    enum { COUNT = 1031 }; /* what is past the last whole step is left alone: a sanitizer would tell */
    float *numbers = aligned_alloc(64, 64 * 65);
    assert_non_null(numbers);
    for (int i = 0; i < COUNT; i++)
        numbers[i] = 1;
    bench_memory_read reading = {numbers, COUNT * sizeof(float)};
    assert_ok(bench_run_memory_read(&reading, &exec));
    free(numbers);
    assert_ok(bench_run_fma(NULL, &exec));
    assert_true(bench_fma_flops(&exec) == 2 * bench_fma_flops(&(gyre_exec){NULL, NULL, 1}));
    gyre_pool_free(pool);
}

/* -- calls -- */
static void flops_of_visible_pairs(void **state) {
    (void)state;
    attn_data d = {.queries = 3, .keys = 5, .heads = 2, .key_heads = 1, .dtype = GYRE_DTYPE_F16};
    assert_true(attn_flops(&d, 0) == (3 + 4 + 5) * 2 * 4.0 * 128); /* pairs, heads, two products of 128 */
    assert_true(attn_flops(&d, 1) == attn_flops(&d, 0) * 5 / 2);
    assert_true(attn_kv_bytes(&d) == 2 * 5 * 128 * 2.0);
}

static void call_in_the_fixed_order(void **state) {
    (void)state;
    const gyre_exec exec = {NULL, NULL, 1};
    gyre_config config = GYRE_INIT(gyre_config);
    config.kind = GYRE_KIND_ROPE;
    for (int i = 0; i < 4; i++) {
        const attn_options options = {
            .order = i % 2 ? GYRE_ORDER_FIXED : GYRE_ORDER_FAST, .cached = i / 2, .dtype = GYRE_DTYPE_F32};
        attn_data d = {.queries = 1, .keys = 40, .heads = 2, .key_heads = 1};
        attn_call call;
        assert_ok(attn_data_create(&d, 0, NULL));
        assert_ok(attn_call_create(&call, &config, &options, &d, &exec, 1, NULL));
        assert_int_equal(call.args.order, options.order);
        assert_int_equal(call.cache != NULL, options.cached);
        assert_ok(attn_run(&call, &exec));
        attn_call_free(&call);
        attn_data_free(&d);
    }
}

static void memory_of_a_prefill(void **state) {
    (void)state;
    gyre_error err;
    attn_memory m = {.tokens = 700, .heads = 4, .key_heads = 2, .threads = 2}, none = m;
    assert_ok(attn_measure_memory(&m, 1, &err));
    assert_true(m.scratch > 0 && m.peak >= 0 && m.peak < (int64_t)64 << 20);
    assert_ok(attn_measure_memory(&none, 0, &err));
    assert_int_equal(none.scratch, m.scratch);
    assert_int_equal(none.peak, -1);
}

/* -- what it prints -- */
static void close_ratio(const json_t *root, const char *key, double want) {
    test_close(test_number(root, key), want, 1e-6 * fabs(want), key);
}

static json_t *one_line(const char *command) {
    json_error_t error;
    const outcome *o = run(command);
    if (o->exit) fail_msg("%s", o->err);
    json_t *root = json_loads(o->out, 0, &error);
    if (!root) fail_msg("%s: %s", error.text, o->out);
    return root;
}

static void json_line_of_prefill(void **state) {
    (void)state;
    json_t *root = one_line("bench attention --only prefill-512-f32-rope --rounds 1 --threads 1 --json");
    assert_string_equal(test_string(root, "bench"), "attention");
    assert_string_equal(test_string(root, "case"), "prefill");
    assert_string_equal(test_string(root, "with"), "rope");
    assert_string_equal(test_string(root, "dtype"), "f32");
    assert_int_equal(test_integer(root, "n"), 512);
    assert_int_equal(test_integer(root, "threads"), 1);
    const double ns = test_number(root, "ns"), gflops = test_number(root, "gflops");
    close_ratio(root, "gflops", 4.0 * 128 * 32 * 512 * 513 / 2 / ns);
    close_ratio(root, "of_peak", gflops / test_number(root, "peak_gflops"));
    close_ratio(root, "of_roofline", gflops / test_number(root, "peak_gflops"));
    close_ratio(root, "ratio", ns / test_number(root, "base_ns"));
    assert_true(json_is_null(json_object_get(root, "gbps")));
    assert_true(json_is_null(json_object_get(root, "speedup")));
    assert_string_equal(test_string(json_object_get(root, "goal"), "of"), "ratio");
    close_ratio(json_object_get(root, "goal"), "most", 1.05);
    json_decref(root);
}

static void json_line_of_decoding(void **state) {
    (void)state;
    json_t *root = one_line("bench attention --only decode-4096-f32-per-head --rounds 1 --threads 1 --json");
    const double ns = test_number(root, "ns"), bytes = 2.0 * 4096 * 32 * 128 * 4;
    close_ratio(root, "gbps", bytes / ns);
    close_ratio(root, "gflops", 4.0 * 128 * 32 * 4096 / ns);
    close_ratio(root, "of_read", bytes / ns / test_number(root, "read_gbps"));
    const double by_arithmetic = test_number(root, "gflops") / test_number(root, "peak_gflops");
    close_ratio(root, "of_roofline", fmax(by_arithmetic, test_number(root, "of_read")));
    assert_true(json_is_null(json_object_get(root, "of_peak")));
    json_decref(root);
}

/* The baseline has the same type and keys: only the order differs. */
static void json_line_of_the_fixed_order(void **state) {
    (void)state;
    static const char *const names[] = {"decode-4096-q8-fixed", "decode-4096-f16-raw-fixed", "prefill-512-f32-fixed"};
    for (int i = 0; i < 3; i++) {
        char command[128];
        snprintf(command, sizeof command, "bench attention --only %s --rounds 1 --threads 1 --json", names[i]);
        json_t *root = one_line(command);
        assert_string_equal(test_string(root, "name"), names[i]);
        assert_non_null(strstr(test_string(root, "with"), "fixed"));
        close_ratio(root, "ratio", test_number(root, "ns") / test_number(root, "base_ns"));
        assert_true(json_is_null(json_object_get(root, "goal")));
        json_decref(root);
    }
}

static void table_for_people(void **state) {
    (void)state;
    const outcome *o = run("bench attention --only decode-4096-f32 --rounds 1");
    if (o->exit) fail_msg("%s", o->err);
    assert_non_null(strstr(o->out, "32 query heads, 8 key heads"));
    assert_non_null(strstr(o->out, "\ndecode-4096-f32                  1 "));
    assert_non_null(strstr(o->out, "\ndecode-4096-f32                  2 "));
    assert_non_null(strstr(o->out, "\ndecode-4096-f32-per-head         2 "));
    assert_non_null(strstr(o->out, "speedup >= 1.80"));
    assert_null(strstr(o->out, "prefill"));
}

/* Lines that say how far it is go to stderr, one for each case; rows come on stdout as before. */
static void progress_beside_rows(void **state) {
    (void)state;
    const outcome *o = run("bench attention --only prefill-512-f32,decode-4096-f32-per-head --quick --threads 1 --json");
    if (o->exit) fail_msg("%s", o->err);
    int rows = 0;
    for (const char *line = o->out; *line; rows++) {
        json_error_t error;
        json_t *row = json_loads(line, JSON_DISABLE_EOF_CHECK, &error);
        if (!row) fail_msg("%s: %s", error.text, line);
        assert_int_equal(test_integer(row, "rounds"), 3); /* --quick */
        json_decref(row);
        line = strchr(line, '\n') + 1;
    }
    assert_int_equal(rows, 6); /* prefill-512-f32, the same under alibi, rope and t5 and in the fixed order, the decoding */
    assert_non_null(strstr(o->err, "gyre: prefill-512-f32: "));
    assert_non_null(strstr(o->err, "gyre: decode-4096-f32-per-head: 100%, 0:00 left\n"));
}

static void wrong_use(void **state) {
    (void)state;
    assert_fails("bench attention --quick --only prefill-8192", 2, "--only: --quick leaves out all of it");
    assert_fails("bench attention --quick --memory", 2, "--memory: contradicts --quick");
    assert_fails("bench rotate --quick", 2, "--quick: not an option of gyre bench rotate");
    assert_fails("bench attention --only prefil", 2, "--only: \"prefil\" is not one of prefill-512-f32, ");
    assert_fails("bench attention --only decode,prefill-512-f23", 2, "did you mean prefill-512-f32?");
    assert_fails("bench attention --only decode,", 2, "\"\" is not one of ");
    assert_fails("bench attention --schemes rope", 2, "--schemes: not an option of gyre bench attention");
    assert_fails("bench encodings --only decode", 2, "--only: not an option of gyre bench encodings");
    assert_fails("bench train --memory", 2, "--memory: not an option of gyre bench train");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_of_a_prefill),

        cmocka_unit_test(rounds_run_all),
        cmocka_unit_test(limits_run),
        cmocka_unit_test(flops_of_visible_pairs),
        cmocka_unit_test(call_in_the_fixed_order),
        cmocka_unit_test(json_line_of_prefill),
        cmocka_unit_test(json_line_of_decoding),
        cmocka_unit_test(json_line_of_the_fixed_order),
        cmocka_unit_test(table_for_people),
        cmocka_unit_test(progress_beside_rows),
        cmocka_unit_test(wrong_use),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
