/* test_growth.c: gyre bench growth: exponents of numbers whose growth is known, and what it prints. */
#include "run_command.h"
#include "tools/bench/growth/growth.h"
#include <math.h>

enum { DECADES = 6, DOUBLINGS = 8 };
static const int64_t decades[DECADES] = {10, 100, 1000, 10000, 100000, 1000000};
static const int64_t doublings[DOUBLINGS] = {1024, 2048, 4096, 8192, 16384, 32768, 65536, 131072};

static void powers_are_found(void **state) {
    (void)state;
    static const double powers[] = {0, 0.5, 1, 1.5, 2, 3};
    for (int p = 0; p < 6; p++)
        for (int constant = 0; constant < 3; constant++) { /* none; as large as the growth at the second and third size */
            double values[DECADES];
            for (int i = 0; i < DECADES; i++)
                values[i] = (constant ? pow((double)decades[constant], powers[p]) : 0) + pow((double)decades[i], powers[p]);
            const double found = growth_exponent(decades, values, DECADES);
            if (fabs(found - powers[p]) > 0.1) fail_msg("%g with constant %d: %g", powers[p], constant, found);
        }
}

/* A tenth of noise moves no exponent past the margin, and no defect below it. */
static void noise_is_below_the_margin(void **state) {
    (void)state;
    test_random random = {3};
    for (int trial = 0; trial < 500; trial++) {
        double constant[DOUBLINGS], linear[DOUBLINGS], loglinear[DOUBLINGS], square[DOUBLINGS];
        for (int i = 0; i < DOUBLINGS; i++) {
            const double n = (double)doublings[i], noise = 1 + 0.1 * (double)test_uniform(&random);
            constant[i] = noise;
            linear[i] = (3000 + n) * noise;
            loglinear[i] = n * log(n) * noise;
            square[i] = (1e7 + n * n) * noise;
        }
        assert_false(growth_is_above(growth_exponent(doublings, constant, DOUBLINGS), 0));
        assert_false(growth_is_above(growth_exponent(doublings, linear, DOUBLINGS), 1));
        assert_true(growth_is_above(growth_exponent(doublings, linear, DOUBLINGS), 0));
        assert_false(growth_is_above(growth_exponent(doublings, loglinear, DOUBLINGS), 1));
        assert_false(growth_is_above(growth_exponent(doublings, square, DOUBLINGS), 2));
        assert_true(growth_is_above(growth_exponent(doublings, square, DOUBLINGS), 1));
    }
}

/* A search in a list for each of its items, which is as long as the rest of the work at a fiftieth of the largest size. */
static void a_late_square_is_above_one(void **state) {
    (void)state;
    double values[DECADES];
    for (int i = 0; i < DECADES; i++)
        values[i] = 500 + (double)decades[i] + (double)decades[i] * (double)decades[i] / 2e4;
    assert_true(growth_is_above(growth_exponent(decades, values, DECADES), 1));
}

static void too_few_sizes_have_no_exponent(void **state) {
    (void)state;
    static const double values[] = {1, 2};
    assert_true(isnan(growth_exponent(decades, values, 0)) && isnan(growth_exponent(decades, values, 1)));
    assert_false(growth_is_above(growth_exponent(decades, values, 1), 0));
    assert_float_equal(growth_exponent(decades, values, 2), log10(2), 1e-12);
}

/* -- the command -- */
static void lists_have_a_number_for_each_size(const json_t *row, const char *last_of, const char *list) {
    const json_t *values = json_object_get(row, list);
    const size_t count = json_array_size(json_object_get(row, "sizes"));
    assert_int_equal(json_array_size(values), count);
    assert_true(json_number_value(json_array_get(values, count - 1)) == test_number(row, last_of));
}

static void rows_follow_from_their_sizes(void **state) {
    (void)state;
    json_t *row = run_json("bench growth --only explain-config --rounds 1 --json");
    int64_t sizes[GROWTH_SIZES];
    double seconds[GROWTH_SIZES];
    int count = 0;
    for (; count < (int)json_array_size(json_object_get(row, "sizes")); count++) {
        sizes[count] = json_integer_value(json_array_get(json_object_get(row, "sizes"), (size_t)count));
        seconds[count] = json_number_value(json_array_get(json_object_get(row, "seconds_by_size"), (size_t)count));
        assert_true(seconds[count] > 0);
    }
    assert_true(count == 4 && sizes[0] == 40 && sizes[3] == 40000);
    assert_string_equal(test_string(row, "case"), "explain-config");
    assert_string_equal(test_string(row, "unit"), "keys");
    lists_have_a_number_for_each_size(row, "largest", "sizes");
    lists_have_a_number_for_each_size(row, "seconds", "seconds_by_size");
    lists_have_a_number_for_each_size(row, "bytes", "bytes_by_size");
    const double time = growth_exponent(sizes, seconds, count), memory = test_number(row, "memory_exponent");
    assert_float_equal(test_number(row, "time_exponent"), time, 1e-9);
    assert_int_equal(json_is_true(json_object_get(row, "defect")),
                     growth_is_above(time, test_number(row, "time_expected")) ||
                         growth_is_above(memory, test_number(row, "memory_expected")));
    json_decref(row);
}

static void cases_are_chosen_by_name(void **state) {
    (void)state;
    const outcome *o = run("bench growth --only cache-fork,convert-layers --rounds 1");
    assert_int_equal(o->exit, 0);
    assert_non_null(strstr(o->out, "\ncache-fork "));
    assert_non_null(strstr(o->out, "\nconvert-layers "));
    assert_null(strstr(o->out, "\ncache-shift "));
    assert_int_equal(run("bench growth --only spoons")->exit, 2);
    assert_int_equal(run("bench growth --quick")->exit, 2);
}

/* A folder that cannot be made. */
static void failures_are_reported(void **state) {
    (void)state;
    setenv("TMPDIR", in_folder("nowhere"), 1);
    assert_fails("bench growth --only explain-config --rounds 1 --json", 1, "nowhere");
    unsetenv("TMPDIR");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(powers_are_found),
        cmocka_unit_test(noise_is_below_the_margin),
        cmocka_unit_test(a_late_square_is_above_one),
        cmocka_unit_test(too_few_sizes_have_no_exponent),
        cmocka_unit_test(rows_follow_from_their_sizes),
        cmocka_unit_test(cases_are_chosen_by_name),
        cmocka_unit_test(failures_are_reported),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
