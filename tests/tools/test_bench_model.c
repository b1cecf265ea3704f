/* test_bench_model.c: gyre bench model: that its figures fit each other and the model, and that nothing of it stays. */
#include "run_command.h"

#include <math.h>

/* A layer of width 768: query and output, key and value, three matrices of the perceptron. */
enum { LAYER = 2 * 768 * 768 + 2 * 256 * 768 + 3 * 768 * 2048, VOCAB = 64 };

static void close_to(const json_t *row, const char *key, double want) {
    test_close(test_number(row, key), want, 1e-6 * fabs(want), key);
}

static int is_case(const json_t *row, const char *name) {
    return strcmp(test_string(row, "case"), name) == 0;
}

static void check_row(const json_t *row, const char *type, const char *name) {
    const double ns = test_number(row, "ns"), bytes = (LAYER + VOCAB * 768) * (strcmp(type, "f32") ? 2.0 : 4.0);
    const double pairs = 512.0 * 513 / 2, flops = 2.0 * (512.0 * LAYER + VOCAB * 768) + 4 * pairs * 768;
    assert_string_equal(test_string(row, "bench"), "model");
    assert_string_equal(test_string(row, "case"), name);
    assert_string_equal(test_string(row, "dtype"), type);
    assert_int_equal(test_integer(row, "threads"), 1);
    assert_int_equal(test_integer(row, "rounds"), 1);
    const int decode = is_case(row, "decode"), eval = is_case(row, "eval");
    close_to(row, "rate", decode ? bytes / ns : eval ? 512 * 1e9 / ns : flops / ns);
    close_to(row, "tokens_per_s", (decode ? 1 : 512) * 1e9 / ns);
    close_to(row, "value", test_number(row, "rate") / test_number(row, "limit")); /* of one round */
    assert_string_equal(test_string(row, "share"), decode ? "of_read" : eval ? "of_forward" : "of_peak");
    assert_true(json_is_null(json_object_get(row, "goal"))); /* goals are those of the whole model */
}

static void rows_fit_the_model(void **state) {
    static const char *const types[] = {"f32", "bf16"}, *const names[] = {"prefill", "decode", "eval"};
    (void)state;
    assert_int_equal(setenv("TMPDIR", in_folder("nothing"), 1), 0);
    const outcome *o = run("bench model --layers 1 --vocab 64 --rounds 1 --threads 1 --json");
    if (o->exit) fail_msg("%s", o->err);
    const char *at = o->out;
    for (int i = 0; i < 6; i++) {
        json_error_t error;
        json_t *row = json_loads(at, JSON_DISABLE_EOF_CHECK, &error);
        if (!row) fail_msg("%s: %s", error.text, at);
        check_row(row, types[i / 3], names[i % 3]);
        json_decref(row);
        at = strchr(at, '\n') + 1;
    }
    assert_string_equal(at, "");
    assert_int_equal(count_entries(in_folder("nothing")), 0);
    assert_int_equal(unsetenv("TMPDIR"), 0);
}

/* The model in bf16 alone.  One layer has few roundings in a row, each of at most 2^-8. */
static void products_of_rounded_numbers(void **state) {
    static const char *const names[] = {"prefill", "decode", "eval"};
    (void)state;
    const outcome *o = run("bench model --layers 1 --vocab 64 --rounds 1 --threads 1 --products bf16 --json");
    if (o->exit) fail_msg("%s", o->err);
    const char *at = o->out;
    for (int i = 0; i < 3; i++) {
        json_t *row = json_loads(at, JSON_DISABLE_EOF_CHECK, NULL);
        assert_non_null(row);
        check_row(row, "bf16", names[i]);
        assert_string_equal(test_string(row, "products"), "bf16");
        const json_t *error = json_object_get(row, "logit_error");
        if (i == 0)
            assert_true(json_number_value(error) > 1e-4 && json_number_value(error) < 0.02);
        else
            assert_true(json_is_null(error));
        json_decref(row);
        at = strchr(at, '\n') + 1;
    }
    assert_string_equal(at, "");
    assert_fails("bench model --shape smollm2 --products bf16", 2, "--products: ");
    assert_fails("bench rotate --products bf16", 2, "--products: not an option of gyre bench rotate");
}

static void table_for_people(void **state) {
    (void)state;
    const outcome *o = run("bench model --layers 1 --vocab 64 --rounds 1 --threads 2");
    if (o->exit) fail_msg("%s", o->err);
    assert_non_null(strstr(o->out, "6.3M parameters: 1 layer, width 768, 12 heads on 4 of 64"));
    static const char *const rows[] = {"\nprefill   ", "\ndecode    ", "\neval      "};
    for (int i = 0; i < 3; i++) { /* f32 and bf16 */
        const char *first = strstr(o->out, rows[i]), *second = first ? strstr(first + 1, rows[i]) : NULL;
        assert_true(second && !strstr(second + 1, rows[i]));
    }
    assert_null(strstr(o->out, "missed"));
}

/* Of smollm2: width 576, 9 heads on 3 of 64, hidden 1536.  In a pass of `rows` tokens the last layer computes one row after
 * its keys, and attends with one. */
enum { QKV = 576 * 960, AFTER = 576 * 576 + 3 * 576 * 1536 };

static void check_shape_row(const json_t *row, const char *name, int64_t tokens) {
    const int decodes = !strcmp(name, "decode");
    const double ns = test_number(row, "ns"), layers = 3, passes = tokens > 512 ? 3 : 1, n = (double)tokens;
    const double flops =
        2 * (layers * n * QKV + (2 * n + passes) * AFTER + passes * VOCAB * 576) + 2 * n * (n + 1) * 576 * 2;
    const double bytes = 2 * (layers * (QKV + AFTER) + VOCAB * 576) + 8 * n * layers * 192;
    assert_string_equal(test_string(row, "bench"), "model-shape");
    assert_string_equal(test_string(row, "case"), name);
    assert_int_equal(test_integer(row, "tokens"), tokens);
    assert_int_equal(test_integer(row, "layers"), 3);
    assert_int_equal(test_integer(row, "parameters"), 3 * (QKV + AFTER + 2 * 576) + VOCAB * 576 + 576);
    assert_int_equal(test_integer(row, "rounds"), decodes ? 2 : 1);
    close_to(row, "rate", (decodes ? bytes : flops) / ns);
    close_to(row, "tokens_per_s", (decodes ? 1 : n) * 1e9 / ns);
    close_to(row, "value", test_number(row, "rate") / test_number(row, "limit"));
    const double parts = test_number(row, "products") + test_number(row, "attention") + test_number(row, "rotation");
    test_close(parts + test_number(row, "rest"), 1, 1e-9, "parts");
    assert_true(test_number(row, "products") > 0 && test_number(row, "attention") > 0);
}

static void a_shape_at_lengths(void **state) {
    (void)state;
    const outcome *o =
        run("bench model --shape smollm2 --layers 3 --vocab 64 --tokens 300,813 --rounds 2 --threads 1 --json");
    if (o->exit) fail_msg("%s", o->err);
    const char *at = o->out;
    for (int i = 0; i < 4; i++) {
        json_error_t error;
        json_t *row = json_loads(at, JSON_DISABLE_EOF_CHECK, &error);
        if (!row) fail_msg("%s: %s", error.text, at);
        check_shape_row(row, i % 2 ? "decode" : "prefill", i < 2 ? 300 : 813);
        json_decref(row);
        at = strchr(at, '\n') + 1;
    }
    assert_string_equal(at, "");
    assert_non_null(strstr(run("bench model --shape smollm2 --layers 2 --vocab 64 --tokens 64 --threads 2")->out,
                           "2 layers, width 576, 9 heads on 3 of 64"));
}

static void wrong_use(void **state) {
    (void)state;
    assert_fails("bench model --layers 0", 2, "--layers: 0 is below 1");
    assert_fails("bench model --shape large", 2, "--shape: large is none of 100m, smollm2, smollm2-360m");
    assert_fails("bench model --tokens 64", 2, "--tokens: gyre bench model needs --shape with it");
    assert_fails("bench model --shape smollm2 --tokens 64,32", 2, "--tokens");
    assert_fails("bench train --vocab 64", 2, "--vocab: not an option of gyre bench train");
    assert_int_equal(setenv("TMPDIR", "/no/such/folder", 1), 0);
    assert_fails("bench model --layers 1", 1, "/no/such/folder: no temporary folder can be made there");
    assert_int_equal(unsetenv("TMPDIR"), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(rows_fit_the_model), cmocka_unit_test(products_of_rounded_numbers),
                                       cmocka_unit_test(table_for_people), cmocka_unit_test(a_shape_at_lengths),
                                       cmocka_unit_test(wrong_use)};
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
