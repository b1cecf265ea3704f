/* test_eval_budget.c: gyre eval --budget. */
#include "run_command.h"

/* A budget in which all fits changes nothing, and one in which nothing fits is an error.  What lies between depends on the
 * clock. */
static void budgets(void **state) {
    (void)state;
    static const char line[] = "eval @rope --text @text --contexts 32,64 --windows 4 --methods none,linear:2 --json";
    char with[256];
    snprintf(with, sizeof with, "%s --budget 100h", line);
    json_t *plain = run_json(line), *ample = run_json(with);
    assert_true(json_equal(json_object_get(plain, "results"), json_object_get(ample, "results")));
    assert_true(json_equal(json_object_get(plain, "protocol"), json_object_get(ample, "protocol")));
    json_decref(plain);
    json_decref(ample);
    snprintf(with, sizeof with, "%s --budget 0.000000001s", line);
    assert_fails(with, 1, "are too few for one window of 32 tokens under each method");
    snprintf(with, sizeof with, "%s --budget 5", line);
    assert_fails(with, 2, "--budget: \"5\" is not a time such as 30s, 5min or 2h");
    snprintf(with, sizeof with, "%s --budget -5s", line);
    assert_fails(with, 2, "is not a time");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(budgets)};
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
