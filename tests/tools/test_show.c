/* test_show.c: gyre show against the formulas, computed here. */
#include "run_command.h"
#include "tools/cli/cli.h"

#include <math.h>

static double theta(int64_t pair, int64_t dim, double base) {
    return pow(base, -2.0 * (double)pair / (double)dim);
}

/* The two members of a pair, in the layout of its name. */
static void members(const char *layout, int64_t dim, int64_t pair, int64_t at[2]) {
    at[0] = strcmp(layout, "half") == 0 ? pair : 2 * pair;
    at[1] = strcmp(layout, "half") == 0 ? pair + dim / 2 : 2 * pair + 1;
}

static void rotation(void **state) {
    (void)state;
    enum { DIM = 6, POSITION = 7 };
    static const char *const layouts[] = {"half", "interleaved"};
    json_t *root = run_json("show rotation --dim 6 --base 50 --position 7 --json");
    test_close(test_number(root, "length"), sqrt(91), 1e-14, "length"); /* 1 + 4 + 9 + 16 + 25 + 36 */
    for (int l = 0; l < 2; l++) {
        const json_t *of = json_object_get(root, layouts[l]), *scores = json_object_get(of, "scores");
        double companion[DIM], rotated[DIM], first[3];
        assert_int_equal(test_numbers(of, "companion", companion, DIM), DIM);
        assert_int_equal(test_numbers(of, "rotated", rotated, DIM), DIM);
        test_close(test_number(of, "length"), sqrt(91), 1e-12, "length after the rotation");
        for (int64_t i = 0; i < DIM / 2; i++) {
            int64_t at[2];
            members(layouts[l], DIM, i, at);
            const double x = (double)at[0] + 1, y = (double)at[1] + 1, angle = POSITION * theta(i, DIM, 50);
            assert_true(companion[at[0]] == -y && companion[at[1]] == x);
            test_close(rotated[at[0]], x * cos(angle) - y * sin(angle), 1e-12, "first of a pair");
            test_close(rotated[at[1]], x * sin(angle) + y * cos(angle), 1e-12, "second of a pair");
        }
        assert_int_equal(json_array_size(scores), 5);
        for (int d = 0; d < 5; d++) {
            const json_t *row = json_array_get(scores, (size_t)d);
            const double one = json_number_value(json_array_get(row, 0)), far = json_number_value(json_array_get(row, 2));
            test_close(far, one, 1e-12, "a score a million positions further");
            first[d < 3 ? d : 2] = one;
        }
        assert_true(fabs(first[0] - first[1]) > 1e-3 && fabs(first[1] - first[2]) > 1e-3); /* distances differ */
    }
    assert_true(test_number(root, "score_spread") < 1e-12 && test_number(root, "permuted_difference") < 1e-12);
    json_decref(root);
}

/* A pair past the fourth is computed and not printed. */
static void rotation_of_a_head(void **state) {
    (void)state;
    const outcome *o = run("show rotation --dim 64");
    assert_int_equal(o->exit, 0);
    assert_non_null(strstr(o->out, "32 pairs (four shown), base 10000"));
    assert_non_null(strstr(o->out, "channels  3, 35 "));
    assert_null(strstr(o->out, "channels  4, 36"));
}

/* A vector is written out where it is short. */
static void rotation_of_a_pair(void **state) {
    (void)state;
    assert_non_null(strstr(run("show rotation --dim 2")->out, "x = (1, 2) at position m = 3: 1 pair, base 10000"));
    assert_non_null(strstr(run("show rotation --dim 4")->out, "x = (1, 2, 3, 4) at position m = 3: 2 pairs, base 10000"));
    assert_non_null(strstr(run("show rotation --dim 6")->out, "x = (1, 2, ..., 6) at position m = 3: 3 pairs, base 10000"));
}

static void shift(void **state) {
    (void)state;
    double error[4], alone[4];
    json_t *root = run_json("show shift --dim 6 --base 100 --json");
    assert_int_equal(test_numbers(root, "error", error, 4), 4);
    assert_int_equal(test_numbers(root, "sines_alone", alone, 4), 4);
    for (int i = 0; i < 4; i++)
        assert_true(error[i] < 1e-14);
    /* sin((p + 1) theta) = cos(theta) sin(p theta) + sin(theta) cos(p theta): the rest is at most sin(theta). */
    test_close(alone[0], sin(1), 1e-2, "sines alone");
    json_decref(root);
}

static void repeats(void **state) {
    (void)state;
    enum { POSITIONS = 5000, DIM = 8 };
    double least[6];
    json_t *root = run_json("show repeats --dim 8 --base 50 --positions 5000 --json");
    assert_int_equal(test_numbers(root, "least_distance", least, 6), 4);
    for (int64_t f = 0, from = 1; f < 4; f++, from *= 10) {
        double want = INFINITY;
        for (int64_t k = from; k < POSITIONS; k++) {
            double square = 0;
            for (int64_t i = 0; i < DIM / 2; i++)
                square += 2 - 2 * cos((double)k * theta(i, DIM, 50));
            want = fmin(want, sqrt(square));
        }
        test_close(least[f], want, 1e-9, "least distance");
    }
    assert_true(test_number(root, "sample_off_by") < 1e-9);
    json_decref(root);
}

static void interpolation(void **state) {
    (void)state;
    enum { DIM = 128, DISTANCES = 300 };
    double least = INFINITY;
    json_t *root = run_json("show interpolation-error --positions 300 --json");
    for (int64_t s = 1; s <= DISTANCES; s++) {
        double real = 0, imaginary = 0, b = 0;
        for (int64_t j = 0; j < DIM / 2; j++) {
            real += cos((double)s * theta(j, DIM, 10000));
            imaginary += sin((double)s * theta(j, DIM, 10000));
            b += sqrt(real * real + imaginary * imaginary);
        }
        least = fmin(least, b);
    }
    const double bound = DIM / (32 * log(10000));
    test_close(test_number(root, "interpolation_bound"), bound, 1e-12, "bound");
    test_close(test_number(root, "least_b"), least, 1e-8, "B");
    test_close(test_number(root, "bounds_ratio"), 2 * least / bound, 1e-7, "ratio");
    assert_true(test_number(root, "bounds_ratio") > 600);
    assert_true(test_number(root, "interpolation_error") > 0 && test_number(root, "interpolation_error") < bound);
    assert_true(test_number(root, "largest_score") < 2 * least);
    json_decref(root);
}

/* Position 1 differs from 0 by an angle of 1 / s in the fastest pair: once that is below half a step of the type at 1, the
 * pair's largest channel stays, and the smaller ones follow at smaller angles. */
static void stretched(void **state) {
    (void)state;
    json_t *root = run_json("show stretched --dim 2 --positions 100 --json"), *factors = json_object_get(root, "factors");
    assert_int_equal(json_array_size(factors), 7);
    for (size_t i = 0; i < 7; i++) {
        const json_t *row = json_array_get(factors, i);
        const double factor = test_number(row, "factor");
        test_close(test_number(row, "least_step"), 2 * sin(0.5 / factor), 1e-12, "step");
        assert_true(test_number(row, "same_f32") == 0);
        if (factor <= 10) assert_true(test_number(row, "same_bf16") == 0);
        if (factor >= 1e5) assert_true(test_number(row, "same_bf16") > 0.8 && test_number(row, "same_f16") > 0.5);
        assert_true(test_number(row, "same_f16") <= test_number(row, "same_bf16"));
    }
    json_decref(root);
}

static void text_and_refusals(void **state) {
    (void)state;
    static const char *const lines[] = {"show rotation", "show shift --dim 8", "show repeats --positions 3000",
                                        "show stretched --positions 50", "show interpolation-error --positions 20"};
    for (int i = 0; i < 5; i++) {
        const outcome *o = run(lines[i]);
        assert_int_equal(o->exit, 0);
        assert_true(strlen(o->out) > 200);
        for (const char *line = o->out, *end; (end = strchr(line, '\n')); line = end + 1)
            assert_true(end - line <= 124);
    }
    const outcome *o = run("show repeats --dim 2 --positions 1000");
    assert_null(strstr(o->out, "0.0000"));
    assert_null(strstr(o->out, "the others"));
    assert_non_null(strstr(o->out, "once in 6.28 positions, and"));
    assert_fails("show shift --positions 3", CLI_USAGE, "--positions: shift has its own positions");
    assert_fails("show rotation --positions 3", CLI_USAGE, "--positions: rotation has its own positions");
    assert_fails("show shift --position 3", CLI_USAGE, "--position: only rotation has one vector");
    assert_fails("show", CLI_USAGE, "QUESTION: missing");
    assert_fails("show shift repeats", CLI_USAGE, "one question at a time");
    assert_fails("show shift --dim 7", CLI_USAGE, "--dim: 7 is odd");
    assert_fails("show circles", CLI_USAGE, "QUESTION");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(rotation),
                                       cmocka_unit_test(rotation_of_a_head),
                                       cmocka_unit_test(rotation_of_a_pair),
                                       cmocka_unit_test(shift),
                                       cmocka_unit_test(repeats),
                                       cmocka_unit_test(interpolation),
                                       cmocka_unit_test(stretched),
                                       cmocka_unit_test(text_and_refusals)};
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
