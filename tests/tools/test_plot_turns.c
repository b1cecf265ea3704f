/* test_plot_turns.c: the numbers of gyre plot helix --axis position and gyre plot hands, against definitions in double. */
#define _XOPEN_SOURCE 700 /* mkdtemp */
#include "read_plot_table.h"
#include "tools/cli/cli.h"

#include <math.h>

static const double PI = 3.14159265358979323846;

/* Some pairs over the positions. */
static void helix_by_position(void **state) {
    (void)state;
    table t = table_of("helix --axis position --base 100 --head-dim 16 --position 20");
    const int pair = column_of(&t, "pair", ""), at = column_of(&t, "position", "tokens"),
              angle = column_of(&t, "angle", "rad");
    const int c = column_of(&t, "cos", ""), s = column_of(&t, "sin", ""), whole = column_of(&t, "is_token", "");
    int64_t tokens = 0, pairs = 0;
    for (int64_t r = 0; r < rows_of(&t); r++) {
        const double want = number(&t, r, at) * pow(100, -2 * number(&t, r, pair) / 16);
        test_close(number(&t, r, angle), want, 1e-12, "angle");
        test_close(number(&t, r, c), cos(want), 1e-12, "cos");
        test_close(number(&t, r, s), sin(want), 1e-12, "sin");
        if (number(&t, r, whole) != 0) assert_true(number(&t, r, at) == (double)(tokens++ % 21));
        pairs += number(&t, r, at) == 0;
    }
    assert_int_equal(pairs, 4);
    assert_int_equal(tokens, 4 * 21);
    table_free(&t);
    assert_fails("plot helix --axis position --bases 100,1e4", CLI_FAILED, "bases: curves by position have one base");
    assert_fails("plot helix --axis position --position 9999", CLI_FAILED, "position: 9999");
    assert_fails("plot helix --axis position @alibi", CLI_FAILED, "does not rotate");
    assert_fails("plot clock --axis position", CLI_USAGE, "--axis: clock does not take it");
}

/* 43200 s is what a clock of 12 hours tells apart, and 129600 s are three times that. */
static void wall_clock(void **state) {
    (void)state;
    static const double periods[3] = {60, 3600, 43200};
    static const char *const methods[3] = {"none", "linear", "ntk"};
    table t = table_of("hands --position 90061");
    const int method = column_of(&t, "method", ""), by = column_of(&t, "slowed_by", ""),
              step = column_of(&t, "step", "rad/s");
    const int turns = column_of(&t, "turns", "turns"), end = column_of(&t, "turns_at_the_end", "turns");
    const int angle = column_of(&t, "angle", "rad"), shown = column_of(&t, "turns_in_trained_length", "turns");
    assert_int_equal(rows_of(&t), 9);
    for (int64_t r = 0; r < 9; r++) {
        const int hand = (int)(r % 3);
        const double want = r < 3 ? 1 : r < 6 ? 3 : (const double[3]){1, sqrt(3), 3}[hand];
        assert_string_equal(text(&t, r, method), methods[r / 3]);
        test_close(number(&t, r, by), want, 1e-12, "slowed by");
        test_close(number(&t, r, step), 2 * PI / (periods[hand] * want), 1e-12, "step");
        test_close(number(&t, r, shown), 43200 / periods[hand], 1e-12, "turns in training");
        test_close(number(&t, r, turns), 90061 / (periods[hand] * want), 1e-9, "turns");
        test_close(number(&t, r, end), 129600 / (periods[hand] * want), 1e-9, "turns in all");
        test_close(cos(number(&t, r, angle)), cos(90061 / (periods[hand] * want) * 2 * PI), 1e-9, "angle");
    }
    table_free(&t);
    assert_fails("plot hands --position 129601", CLI_FAILED, "position: 129601 s are past the end, 129600 s");
    assert_fails("plot hands --base 100", CLI_USAGE, "--base: hands does not take it");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(helix_by_position), cmocka_unit_test(wall_clock)};
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
