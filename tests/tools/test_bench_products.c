/* test_bench_products.c: gyre bench products: which cases it has, and that its figures fit each other. */
#include "run_command.h"
#include "tools/bench/bench_only.h"

#include <math.h>

static void close_ratio(const json_t *root, const char *key, double want) {
    test_close(test_number(root, key), want, 1e-6 * fabs(want), key);
}

static json_t *next_row(const char **at) {
    json_error_t error;
    json_t *row = json_loads(*at, JSON_DISABLE_EOF_CHECK, &error);
    if (!row) fail_msg("%s: %s", error.text, *at);
    *at = strchr(*at, '\n') + 1;
    return row;
}

/* -- which cases -- */
static void words_match_names(void **state) {
    (void)state;
    assert_true(bench_only_matches("nt", "nt-64-768x768"));
    assert_true(bench_only_matches("row-f32,nt-64", "nt-64-768x768"));
    assert_true(bench_only_matches("nt-64-768x768", "nt-64-768x768"));
    assert_false(bench_only_matches("nt-6", "nt-64-768x768")); /* up to a dash */
    assert_false(bench_only_matches("nn,row", "nt-64-768x768"));
}

/* -- what it prints -- */
/* x w^T, and the gradients of the same product. */
static void rows_of_products(void **state) {
    (void)state;
    static const char *const names[] = {"nt-64-2048x768", "nn-64-2048x768", "tn-64-2048x768"};
    const outcome *o =
        run("bench products --only nt-64-2048x768,nn-64-2048x768,tn-64-2048x768 --rounds 1 --threads 1 --json");
    if (o->exit) fail_msg("%s", o->err);
    const char *at = o->out;
    for (int i = 0; i < 3; i++) {
        json_t *row = next_row(&at);
        assert_string_equal(test_string(row, "bench"), "products");
        assert_string_equal(test_string(row, "name"), names[i]);
        assert_memory_equal(test_string(row, "case"), names[i], 2);
        assert_int_equal(test_integer(row, "rows"), 64);
        assert_int_equal(test_integer(row, "out"), 2048);
        assert_int_equal(test_integer(row, "in"), 768);
        assert_int_equal(test_integer(row, "threads"), 1);
        close_ratio(row, "gflops", 2.0 * 64 * 2048 * 768 / test_number(row, "ns"));
        close_ratio(row, "of_peak", test_number(row, "gflops") / test_number(row, "peak_gflops"));
        assert_true(json_is_null(json_object_get(row, "gbps")));
        assert_true(json_is_null(json_object_get(row, "speedup")));
        assert_string_equal(test_string(json_object_get(row, "goal"), "of"), "of_peak");
        json_decref(row);
    }
    assert_string_equal(at, "");
    assert_non_null(strstr(o->err, "gyre: tn-64-2048x768: 100%, 0:00 left\n"));
}

/* 128 MiB of blocks of 34 bytes for 32 weights, in rows of 4096. */
static void row_of_stored_weights(void **state) {
    (void)state;
    const outcome *o = run("bench products --only row-q8_0 --rounds 1 --threads 1 --json");
    if (o->exit) fail_msg("%s", o->err);
    const char *at = o->out;
    json_t *row = next_row(&at);
    const double out = (128 << 20) / (4096 / 32 * 34), bytes = floor(out) * 4096 / 32 * 34;
    const double ns = test_number(row, "ns");
    assert_string_equal(test_string(row, "dtype"), "q8_0");
    assert_int_equal(test_integer(row, "rows"), 1);
    assert_int_equal(test_integer(row, "out"), (int64_t)floor(out));
    close_ratio(row, "gbps", bytes / ns);
    close_ratio(row, "gflops", 2 * floor(out) * 4096 / ns);
    close_ratio(row, "of_read", test_number(row, "gbps") / test_number(row, "read_gbps"));
    assert_true(test_number(row, "of_saved") > 0);
    assert_true(json_is_null(json_object_get(row, "of_peak")));
    assert_string_equal(test_string(json_object_get(row, "goal"), "of"), "of_read");
    json_decref(row);
    assert_string_equal(at, "");
}

/* Products on one thread and on two; gradients run on one. */
static void table_for_people(void **state) {
    (void)state;
    const outcome *o = run("bench products --only nt-64-768x768,nn-64-768x768 --quick");
    if (o->exit) fail_msg("%s", o->err);
    assert_non_null(strstr(o->out, "\nnt-64-768x768              1 "));
    assert_non_null(strstr(o->out, "\nnt-64-768x768              2 "));
    assert_non_null(strstr(o->out, "\nnn-64-768x768              1 "));
    assert_null(strstr(o->out, "\nnn-64-768x768              2 "));
    assert_non_null(strstr(o->out, "speedup >= 1.80"));
    assert_null(strstr(o->out, "row-"));
}

static void wrong_use(void **state) {
    (void)state;
    assert_fails("bench products --only row-q8", 2, "did you mean row-q8_0?");
    assert_fails("bench products --only something", 2, "--only: \"something\" is not one of nt-64-768x768, ");
    assert_fails("bench products --memory", 2, "--memory: not an option of gyre bench products");
    assert_fails("bench model --only row", 2, "--only: not an option of gyre bench model");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(words_match_names), cmocka_unit_test(rows_of_products),
                                       cmocka_unit_test(row_of_stored_weights), cmocka_unit_test(table_for_people),
                                       cmocka_unit_test(wrong_use)};
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
