/* test_given_frequencies.c: rotations whose frequencies are given one by one (rope.frequencies). */
#include "gyre/gyre_fields.h"
#include "support.h"

#include <float.h>
#include <math.h>
#include <string.h>

enum { PAIRS = 24, DIM = 2 * PAIRS };

/* Follows no power, and includes both ends of the range. */
static void fill(double *list) {
    for (int i = 0; i < PAIRS; i++)
        list[i] = i == 0 ? 1024 : i == PAIRS - 1 ? 0 : 3.0 / (1 + i * i);
}

static gyre_config config_of(const double *list, gyre_scaling scaling) {
    gyre_config config = test_rope_config(DIM, GYRE_LAYOUT_INTERLEAVED);
    config.trained_length = 512;
    config.rope.scaling = scaling;
    if (scaling != GYRE_SCALING_NONE) config.rope.factor = 4;
    config.rope.frequencies = list;
    return config;
}

static void rotates_by_the_list(void **state) {
    (void)state;
    static const int64_t positions[] = {-7, 1, 1000, 100003};
    double list[PAIRS], own[PAIRS], got[PAIRS], x[DIM];
    fill(list);
    memcpy(own, list, sizeof list);
    const gyre_config config = config_of(own, GYRE_SCALING_NONE);
    gyre_encoding *e = test_encoding(&config);
    memset(own, 0, sizeof own); /* the list is copied */
    assert_ok(gyre_encoding_frequencies(e, 0, got, NULL));
    assert_memory_equal(got, list, sizeof list);
    assert_memory_equal(gyre_encoding_get_config(e)->rope.frequencies, list, sizeof list);
    for (size_t p = 0; p < sizeof positions / sizeof *positions; p++) {
        for (int c = 0; c < DIM; c++)
            x[c] = c % 2 == 0;
        assert_ok(gyre_rotate_dense(e, GYRE_ROLE_KEY, gyre_dense(x, GYRE_DTYPE_F64, 1, 1, 1, DIM), positions[p], 0, NULL));
        for (int i = 0; i < PAIRS; i++) {
            const long double angle = (long double)positions[p] * (long double)list[i];
            const long double bound = 0x1p-51L + 0.5L * LDBL_EPSILON * fabsl(angle); /* the rounding of `angle` */
            test_close(x[2 * i], cosl(angle), bound, "cos");
            test_close(x[2 * i + 1], sinl(angle), bound, "sin");
        }
    }
    gyre_encoding_free(e);
}

/* The powers of a base, given, are what the base gives, under every scaling that acts on them alone. */
static void scalings_act_on_the_list(void **state) {
    (void)state;
    static const gyre_scaling scalings[] = {GYRE_SCALING_NONE,          GYRE_SCALING_LINEAR,    GYRE_SCALING_LLAMA3,
                                            GYRE_SCALING_PROPORTIONAL,  GYRE_SCALING_NTK_MIXED, GYRE_SCALING_LONGROPE,
                                            GYRE_SCALING_BY_PARTS_PAPER};
    double list[PAIRS], divisors[PAIRS], wanted[PAIRS], got[PAIRS];
    for (int i = 0; i < PAIRS; i++) {
        list[i] = (double)powl(10000, -(long double)i / PAIRS);
        divisors[i] = 1 + i;
    }
    for (size_t s = 0; s < sizeof scalings / sizeof *scalings; s++)
        for (int axes = 1; axes <= 2; axes++) {
            gyre_config config = config_of(NULL, scalings[s]);
            config.rope.axes = axes;
            if (axes == 2) config.rope.axis_pairs[0] = config.rope.axis_pairs[1] = PAIRS / 2;
            if (scalings[s] == GYRE_SCALING_PROPORTIONAL) config.rope.proportion = 0.5;
            if (scalings[s] == GYRE_SCALING_LONGROPE) config.rope.short_factor = config.rope.long_factor = divisors;
            gyre_encoding *by_base = test_encoding(&config);
            config.rope.frequencies = list;
            gyre_encoding *given = test_encoding(&config);
            double factors[2];
            gyre_scaling_parts parts[2];
            assert_ok(gyre_encoding_frequencies(by_base, 2048, wanted, &factors[0]));
            assert_ok(gyre_encoding_frequencies(given, 2048, got, &factors[1]));
            assert_ok(gyre_encoding_scaling_parts(by_base, 2048, &parts[0]));
            assert_ok(gyre_encoding_scaling_parts(given, 2048, &parts[1]));
            for (int i = 0; i < PAIRS; i++)
                test_close(got[i], wanted[i], 0x1p-51L * wanted[i], "frequency");
            assert_true(factors[0] == factors[1]);
            assert_memory_equal(&parts[0], &parts[1], sizeof parts[0]);
            gyre_encoding_free(by_base);
            gyre_encoding_free(given);
        }
}

/* With axial axes each axis reads the numbers of its pairs. */
static void axes_read_their_part(void **state) {
    (void)state;
    double list[PAIRS], got[PAIRS];
    fill(list);
    gyre_config config = config_of(list, GYRE_SCALING_NONE);
    config.rope.axes = 2;
    config.rope.axes_layout = GYRE_AXES_AXIAL;
    config.rope.axis_pairs[0] = 5;
    config.rope.axis_pairs[1] = PAIRS - 5;
    gyre_encoding *e = test_encoding(&config);
    assert_ok(gyre_encoding_frequencies(e, 0, got, NULL));
    assert_memory_equal(got, list, sizeof list);
    gyre_encoding_free(e);
}

/* A scaled encoding keeps the list of the one that it is made from. */
static void scaled_keeps_the_list(void **state) {
    (void)state;
    double list[PAIRS], got[PAIRS];
    gyre_encoding *scaled = NULL;
    gyre_error err;
    fill(list);
    const gyre_config config = config_of(list, GYRE_SCALING_NONE);
    gyre_encoding *e = test_encoding(&config);
    assert_ok(gyre_rope_create_scaled(&scaled, e, GYRE_SCALING_LINEAR, 8, 0, &err));
    gyre_encoding_free(e);
    assert_ok(gyre_encoding_frequencies(scaled, 0, got, NULL));
    for (int i = 0; i < PAIRS; i++)
        assert_true(got[i] == list[i] / 8);
    gyre_encoding_free(scaled);
}

static void wrong_lists_are_refused(void **state) {
    (void)state;
    static const gyre_scaling need_base[] = {GYRE_SCALING_NTK, GYRE_SCALING_DYNAMIC_NTK, GYRE_SCALING_BY_PARTS,
                                             GYRE_SCALING_YARN, GYRE_SCALING_DYNAMIC_YARN};
    static const double bad[] = {-0x1p-1000, 1024.5, (double)NAN, (double)INFINITY};
    static const gyre_angle_path paths[] = {GYRE_ANGLE_PATH_LLAMA_CPP, GYRE_ANGLE_PATH_TENSORRT_LLM, GYRE_ANGLE_PATH_TORCH};
    double list[PAIRS];
    fill(list);
    for (size_t s = 0; s < sizeof need_base / sizeof *need_base; s++) {
        const gyre_config config = config_of(list, need_base[s]);
        assert_config_refused(&config, "rope.frequencies");
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        fill(list);
        list[3] = bad[i];
        const gyre_config config = config_of(list, GYRE_SCALING_NONE);
        assert_config_refused(&config, "rope.frequencies[3]");
    }
    fill(list);
    gyre_config config = config_of(list, GYRE_SCALING_NONE);
    config.rope.axis[0].own = 1;
    assert_config_refused(&config, "rope.frequencies");
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        gyre_encoding *e = NULL;
        gyre_error err;
        config = config_of(list, GYRE_SCALING_NONE);
        config.rope.angles = paths[i];
        assert_int_equal(gyre_encoding_create(&e, &config, NULL, &err), GYRE_EUNSUPPORTED);
        assert_non_null(strstr(err.text, "rope.angles: "));
        assert_null(e);
    }
}

static void without_memory(void **state) {
    (void)state;
    double list[PAIRS];
    int failed = 0;
    fill(list);
    const gyre_config config = config_of(list, GYRE_SCALING_NONE);
    for (int left = 0;; left++) {
        test_budget budget = {.left = left};
        const gyre_alloc alloc = test_budget_alloc(&budget);
        gyre_encoding *e = NULL;
        const gyre_status status = gyre_encoding_create(&e, &config, &alloc, NULL);
        if (status) {
            assert_int_equal(status, GYRE_ENOMEM);
            assert_int_equal(budget.live, 0);
            failed++;
            continue;
        }
        gyre_encoding_free(e);
        assert_int_equal(budget.live, 0);
        break;
    }
    assert_true(failed >= 3); /* the encoding, the list and the frequencies in use */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rotates_by_the_list),     cmocka_unit_test(scalings_act_on_the_list),
        cmocka_unit_test(axes_read_their_part),    cmocka_unit_test(scaled_keeps_the_list),
        cmocka_unit_test(wrong_lists_are_refused), cmocka_unit_test(without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
