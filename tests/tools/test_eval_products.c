/* test_eval_products.c: gyre eval --products: products that round what they multiply to bf16, and what that costs. */
#include "run_command.h"
#include <math.h>

#define EVAL "eval rope --text @text --contexts 32,64 --windows 3"

static double perplexity_of(const json_t *root) {
    return json_number_value(json_object_get(json_array_get(json_object_get(root, "results"), 0), "perplexity"));
}

static double perplexity_under(const char *options) {
    char line[200];
    snprintf(line, sizeof line, EVAL " --json%s", options);
    json_t *root = run_json(line);
    const double found = perplexity_of(root);
    json_decref(root);
    return found;
}

/* The cost is the difference of the losses of two runs; a journal keeps the two apart. */
static void costs_what_is_printed(void **state) {
    (void)state;
    json_t *floats = run_json(EVAL " --json"), *rounded = run_json(EVAL " --json --products bf16");
    const double cost = json_number_value(json_object_get(rounded, "products_cost"));
    assert_string_equal(test_string(floats, "products"), "f32");
    assert_true(json_is_null(json_object_get(floats, "products_cost")));
    assert_string_equal(test_string(rounded, "products"), "bf16");
    const double here = perplexity_of(floats), there = perplexity_of(rounded);
    assert_true(cost != 0 && fabs(cost) < 0.01);
    assert_true(fabs(log(there) - log(here) - cost) < 1e-12);
    json_decref(floats);
    json_decref(rounded);
    assert_true(perplexity_under(" --journal @cells") == here);
    assert_true(perplexity_under(" --journal @cells --resume --products bf16") == there);
    assert_true(perplexity_under(" --journal @cells --resume") == here);
    const outcome *o = run(EVAL " --products bf16");
    char line[100];
    snprintf(line, sizeof line, "products  bf16, %.2g nats per token %s than f32 (none at 32)\n", fabs(cost),
             cost < 0 ? "less" : "more");
    if (!strstr(o->out, line)) fail_msg("lacks %s in %s", line, o->out);
    assert_null(strstr(run(EVAL)->out, "products"));
}

static void refused(void **state) {
    (void)state;
    assert_fails(EVAL " --products bf16 --passkey 8", 2, "--products: ");
    assert_fails("eval @rope --text @text --contexts 32 --products bf16", 1,
                 "products: bf16 is for matrices stored as bf16, and the model has none");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(costs_what_is_printed), cmocka_unit_test(refused)};
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
