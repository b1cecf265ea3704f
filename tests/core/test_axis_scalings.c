/* test_axis_scalings.c: a scaling of its own for each axis, RIFLEx and DyPE, against their formulas. */
#include "gyre/gyre_fields.h"
#include "support.h"

#include <math.h>
#include <string.h>

enum { PAIRS = 24 };
static const double pi = 3.14159265358979323846;

/* Time, height and width of a video, as in HunyuanVideo with smaller heads. */
static gyre_config video(gyre_axes layout) {
    static const int64_t pairs[3] = {8, 8, 8};
    gyre_config config = test_rope_config(2 * PAIRS, GYRE_LAYOUT_INTERLEAVED);
    config.trained_length = 64;
    config.rope.base = 256;
    config.rope.axes = 3;
    config.rope.axes_layout = layout;
    memcpy(config.rope.axis_pairs, pairs, sizeof pairs);
    return config;
}

static void frequencies(const gyre_config *config, int64_t length, double f[PAIRS]) {
    gyre_encoding *e = test_encoding(config), *twin = test_encoding(gyre_encoding_get_config(e));
    double again[PAIRS], factor;
    assert_ok(gyre_encoding_frequencies(e, length, f, &factor));
    assert_true(factor == 1 || config->rope.scaling == GYRE_SCALING_YARN);
    assert_ok(gyre_encoding_frequencies(twin, length, again, NULL));
    assert_memory_equal(f, again, sizeof again);
    gyre_encoding_free(twin);
    gyre_encoding_free(e);
}

static double theta(double base, int i, int pairs) {
    return pow(base, -(double)i / pairs);
}

/* Linear by 2 in time, NTK by 4 in height with a base of its own, nothing in width. */
static void each_axis_has_its_own(void **state) {
    (void)state;
    double f[PAIRS];
    gyre_config config = video(GYRE_AXES_AXIAL);
    config.rope.axis[0] = (struct gyre_axis_config){.own = 1, .scaling = GYRE_SCALING_LINEAR, .factor = 2};
    config.rope.axis[1] = (struct gyre_axis_config){.own = 1, .scaling = GYRE_SCALING_NTK, .factor = 4, .base = 1000};
    frequencies(&config, 0, f);
    for (int i = 0; i < 8; i++) {
        test_close(f[i], theta(256, i, 8) / 2, 1e-15L, "time");
        test_close(f[8 + i], theta(1000 * pow(4, 16.0 / 14), i, 8), 1e-15L, "height");
        test_close(f[16 + i], theta(256, i, 8), 1e-15L, "width");
    }
    /* M-RoPE shares one sequence of frequencies: pair i has that of pair i of 24. */
    static const gyre_axes shared[] = {GYRE_AXES_CHUNKED, GYRE_AXES_INTERLEAVED};
    for (int l = 0; l < 2; l++) {
        config.rope.axes_layout = shared[l];
        frequencies(&config, 0, f);
        for (int i = 0; i < PAIRS; i++) {
            const int axis = l ? i % 3 : i / 8;
            const double want = axis == 0   ? theta(256, i, PAIRS) / 2
                                : axis == 1 ? theta(1000 * pow(4, 48.0 / 46), i, PAIRS)
                                            : theta(256, i, PAIRS);
            test_close(f[i], want, 1e-15L, "shared");
        }
    }
}

/* The ramp of YaRN's released code over n pairs. */
static double by_parts(double base, int i, int pairs, double trained, double s, double fast, double slow) {
    const double low = fmax(0, floor(pairs * log(trained / (2 * pi * fast)) / log(base)));
    const double high = fmin(2 * pairs - 1, ceil(pairs * log(trained / (2 * pi * slow)) / log(base)));
    const double ramp = fmin(1, fmax(0, (i - low) / (high - low)));
    return theta(base, i, pairs) * (1 - ramp) + theta(base, i, pairs) / s * ramp;
}

/* Every scaling of rope acts on an axial axis by itself; lengths are those of the axis. */
static void scalings_of_axial_axes(void **state) {
    (void)state;
    double f[PAIRS];
    gyre_config config = video(GYRE_AXES_AXIAL);
    config.rope.scaling = GYRE_SCALING_BY_PARTS;
    config.rope.factor = 4;
    config.rope.beta_fast = 8;
    config.rope.beta_slow = 1;
    config.rope.axis[0] =
        (struct gyre_axis_config){.own = 1, .scaling = GYRE_SCALING_BY_PARTS, .factor = 2, .trained_length = 33};
    frequencies(&config, 0, f);
    for (int i = 0; i < 8; i++) {
        test_close(f[i], by_parts(256, i, 8, 33, 2, 8, 1), 1e-15L, "time");
        test_close(f[8 + i], by_parts(256, i, 8, 64, 4, 8, 1), 1e-15L, "height");
        test_close(f[16 + i], by_parts(256, i, 8, 64, 4, 8, 1), 1e-15L, "width");
    }
    config = video(GYRE_AXES_AXIAL);
    config.rope.axis[0] = (struct gyre_axis_config){.own = 1, .scaling = GYRE_SCALING_DYNAMIC_NTK, .trained_length = 16};
    config.rope.axis[1] =
        (struct gyre_axis_config){.own = 1, .scaling = GYRE_SCALING_DYNAMIC_NTK, .trained_length = 16, .context_length = 32};
    for (int64_t length = 16; length <= 64; length += 48) {
        frequencies(&config, length, f);
        for (int i = 0; i < 8; i++) {
            test_close(f[i], theta(256 * pow((double)length / 16, 16.0 / 14), i, 8), 1e-15L, "time");
            test_close(f[8 + i], theta(256 * pow(2, 16.0 / 14), i, 8), 1e-15L, "height");
        }
    }
}

/* HunyuanVideo, base 256 and 16 channels for time: a video repeats at latent frame 48, so k = 4, with a period of 50.
 * CogVideoX, base 10000 and 16 channels: at 20, so k = 2, with a period of 20.  Both are from RIFLEx's code. */
static void riflex(void **state) {
    (void)state;
    static const struct {
        double base;
        int64_t repeats_at, k;
    } models[] = {{256, 48, 4}, {10000, 20, 2}};
    for (int m = 0; m < 2; m++)
        for (int paper = 0; paper < 2; paper++)
            for (int named = 0; named < 2; named++) {
                double f[PAIRS];
                gyre_config config = video(GYRE_AXES_AXIAL);
                config.rope.base = models[m].base;
                config.rope.axis[0] =
                    (struct gyre_axis_config){.own = 1,
                                              .scaling = paper ? GYRE_SCALING_RIFLEX_PAPER : GYRE_SCALING_RIFLEX,
                                              .factor = 2,
                                              .trained_length = 33,
                                              .intrinsic_pair = named ? models[m].k : 0,
                                              .repeats_at = named ? 0 : models[m].repeats_at};
                frequencies(&config, 0, f);
                for (int i = 0; i < PAIRS; i++) {
                    const double slow = (paper ? 1 : 0.9) * 2 * pi / 66;
                    test_close(f[i], i == models[m].k - 1 ? slow : theta(models[m].base, i % 8, 8), 1e-15L, "frequency");
                }
            }
    /* A sequence with one axis has axis[0] too. */
    double f[PAIRS];
    gyre_config config = test_rope_config(2 * PAIRS, GYRE_LAYOUT_HALF);
    config.trained_length = 100;
    config.rope.axis[0] =
        (struct gyre_axis_config){.own = 1, .scaling = GYRE_SCALING_RIFLEX, .factor = 3, .intrinsic_pair = 24};
    frequencies(&config, 0, f);
    test_close(f[23], 0.9 * 2 * pi / 300, 1e-15L, "the last pair");
    test_close(f[22], theta(10000, 22, PAIRS), 1e-15L, "the one before");
}

/* kappa = 2 t^2, or as given: s^kappa for linear and NTK, the ends of the ramp times kappa for YaRN. */
static void dype(void **state) {
    (void)state;
    static const double times[] = {0, 0.25, 0.7, 1};
    for (int t = 0; t < 4; t++)
        for (int given = 0; given < 2; given++) {
            double f[PAIRS];
            gyre_config config = video(GYRE_AXES_AXIAL);
            config.rope.diffusion = (struct gyre_diffusion_config){
                .timed = 1, .time = times[t], .strength = given ? 1.5 : 0, .exponent = given ? 0.5 : 0};
            const double kappa = given ? 1.5 * sqrt(times[t]) : 2 * times[t] * times[t];
            config.rope.factor = 4;
            config.rope.scaling = GYRE_SCALING_LINEAR;
            frequencies(&config, 0, f);
            for (int i = 0; i < PAIRS; i++)
                test_close(f[i], theta(256, i % 8, 8) / pow(4, kappa), 2e-15L, "Dy-PI");
            config.rope.scaling = GYRE_SCALING_NTK;
            frequencies(&config, 0, f);
            for (int i = 0; i < PAIRS; i++)
                test_close(f[i], theta(256 * pow(pow(4, kappa), 16.0 / 14), i % 8, 8), 2e-15L, "Dy-NTK");
            config.rope.scaling = GYRE_SCALING_YARN;
            config.rope.beta_fast = 8;
            config.rope.beta_slow = 1;
            frequencies(&config, 0, f);
            for (int i = 0; i < PAIRS; i++) {
                const double want = kappa > 0 ? by_parts(256, i % 8, 8, 64, 4, 8 * kappa, kappa) : theta(256, i % 8, 8);
                test_close(f[i], want, 2e-15L, "Dy-YaRN");
            }
        }
}

/* As time goes to 0, no pair is scaled, although the ends of YaRN's ramp leave the pairs and cross. */
static void dype_ends_unscaled(void **state) {
    (void)state;
    double f[PAIRS];
    gyre_config config = video(GYRE_AXES_AXIAL);
    config.rope.scaling = GYRE_SCALING_YARN;
    config.rope.factor = 8;
    config.rope.diffusion = (struct gyre_diffusion_config){.timed = 1, .time = 1e-5};
    frequencies(&config, 0, f);
    for (int i = 0; i < PAIRS; i++)
        test_close(f[i], theta(256, i % 8, 8), 1e-15L, "kept");
}

/* DyPE is defined for some scalings.  With none of them on any axis it would change nothing, so it is refused. */
static void dype_needs_what_it_fades(void **state) {
    (void)state;
    static const gyre_scaling others[] = {GYRE_SCALING_NONE,     GYRE_SCALING_DYNAMIC_NTK,  GYRE_SCALING_LLAMA3,
                                          GYRE_SCALING_LONGROPE, GYRE_SCALING_PROPORTIONAL, GYRE_SCALING_NTK_MIXED};
    static const gyre_scaling fading[] = {GYRE_SCALING_LINEAR,         GYRE_SCALING_NTK,  GYRE_SCALING_BY_PARTS,
                                          GYRE_SCALING_BY_PARTS_PAPER, GYRE_SCALING_YARN, GYRE_SCALING_DYNAMIC_YARN};
    static const char unknown[] =
        "rope.diffusion.timed: DyPE fades linear, NTK, by parts and YaRN, and no axis has one of them (gyre_config)";
    static const char nothing[] = "rope.diffusion.timed: is set, but has no effect where rope.scaling is none (gyre_config)";
    double ones[PAIRS], f[PAIRS], plain[PAIRS];
    for (int i = 0; i < PAIRS; i++)
        ones[i] = 1;
    for (int s = 0; s < 6; s++) {
        gyre_config config = video(GYRE_AXES_AXIAL);
        const char *why = others[s] ? unknown : nothing;
        config.rope.scaling = others[s];
        config.rope.factor = others[s] ? 4 : 0;
        if (others[s]) config.rope.short_factor = config.rope.long_factor = ones;
        config.rope.diffusion = (struct gyre_diffusion_config){.timed = 1, .time = 0.3};
        assert_config_refused(&config, "rope.diffusion.timed");
        assert_config_error(&config, why);
        config.rope.axis[2] =
            (struct gyre_axis_config){.own = 1, .scaling = GYRE_SCALING_RIFLEX, .factor = 2, .repeats_at = 48};
        assert_config_error(&config, why);
        config.rope.axis[1] = (struct gyre_axis_config){.own = 1, .scaling = fading[s], .factor = 4, .context_length = 256};
        gyre_encoding *e = test_encoding(&config);
        assert_ok(gyre_encoding_frequencies(e, 0, f, NULL));
        gyre_encoding_free(e);
        config.rope.diffusion = (struct gyre_diffusion_config){0};
        gyre_encoding *without = test_encoding(&config);
        assert_ok(gyre_encoding_frequencies(without, 0, plain, NULL));
        gyre_encoding_free(without);
        assert_memory_not_equal(f + 8, plain + 8, 8 * sizeof *f); /* the axis that fades */
        assert_memory_equal(f, plain, 8 * sizeof *f);
        assert_memory_equal(f + 16, plain + 16, 8 * sizeof *f);
    }
}

/* Rotation and attention take the frequencies of each axis. */
static void rotation_uses_them(void **state) {
    (void)state;
    double x[2 * PAIRS], y[2 * PAIRS], f[PAIRS];
    const int64_t at[3] = {1000, -37, 5};
    test_random random = {6};
    gyre_config config = video(GYRE_AXES_AXIAL);
    config.rope.axis[0] =
        (struct gyre_axis_config){.own = 1, .scaling = GYRE_SCALING_RIFLEX, .factor = 2, .intrinsic_pair = 3};
    config.rope.axis[2] = (struct gyre_axis_config){.own = 1, .scaling = GYRE_SCALING_LINEAR, .factor = 1.5};
    frequencies(&config, 0, f);
    for (int i = 0; i < 2 * PAIRS; i++)
        x[i] = (double)(test_next(&random) % 1000) / 500 - 1;
    gyre_encoding *e = test_encoding(&config);
    const gyre_positions positions = {.data = at, .dtype = GYRE_DTYPE_I64, .stride_axis = 1};
    const gyre_cview in = gyre_cdense(x, GYRE_DTYPE_F64, 1, 1, 1, 2 * PAIRS);
    const gyre_view out = gyre_dense(y, GYRE_DTYPE_F64, 1, 1, 1, 2 * PAIRS);
    assert_ok(gyre_rotate(
        e, GYRE_ARGS(gyre_rotate_args, .role = GYRE_ROLE_KEY, .positions = &positions, .in = in, .out = out), NULL, NULL));
    for (int i = 0; i < PAIRS; i++) {
        const int axis = i / 8;
        const long double angle = (long double)at[axis] * (long double)f[i];
        test_close(y[2 * i], (long double)x[2 * i] * cosl(angle) - (long double)x[2 * i + 1] * sinl(angle), 1e-12L, "x");
        test_close(y[2 * i + 1], (long double)x[2 * i] * sinl(angle) + (long double)x[2 * i + 1] * cosl(angle), 1e-12L, "y");
    }
    gyre_encoding_free(e);
}

#define REFUSED(field, text, change)                                                                                        \
    do {                                                                                                                    \
        gyre_config c = video(GYRE_AXES_AXIAL);                                                                             \
        c.rope.scaling = GYRE_SCALING_LINEAR;                                                                               \
        c.rope.axis[1] = (struct gyre_axis_config){.own = 1, .scaling = GYRE_SCALING_RIFLEX, .intrinsic_pair = 1};          \
        c.rope.diffusion = (struct gyre_diffusion_config){.timed = 1, .time = 0.5};                                         \
        gyre_encoding_free(test_encoding(&c));                                                                              \
        change;                                                                                                             \
        assert_config_refused(&c, field);                                                                                   \
        assert_config_error(&c, text);                                                                                      \
    } while (0)

static void wrong_fields(void **state) {
    (void)state;
    REFUSED("rope.axis[1].own", "rope.axis[1].own: 2 is neither 0 nor 1 (gyre_config)", c.rope.axis[1].own = 2);
    REFUSED("rope.axis[3].own", "rope.axis[3].own: there are 3 axes (gyre_config)", c.rope.axis[3].own = 1);
    REFUSED("rope.axis[1].base", "rope.axis[1].base: 1 is not above 1 (gyre_config)", c.rope.axis[1].base = 1);
    REFUSED("rope.axis[1].factor", "rope.axis[1].factor: 0.5 is below 1 (gyre_config)", c.rope.axis[1].factor = 0.5);
    REFUSED("rope.axis[0].trained_length", "rope.axis[0].trained_length: -1 is negative (gyre_config)",
            c.rope.axis[0].trained_length = -1);
    REFUSED("rope.axis[1].intrinsic_pair", "rope.axis[1].intrinsic_pair: 9 of 8 pairs (gyre_config)",
            c.rope.axis[1].intrinsic_pair = 9);
    REFUSED("rope.axis[1].intrinsic_pair",
            "rope.axis[1].intrinsic_pair: missing, and so is repeats_at; RIFLEx needs one (gyre_config)",
            c.rope.axis[1].intrinsic_pair = 0);
    REFUSED("rope.axis[1].scaling",
            "rope.axis[1].scaling: 14 is not one of none, linear, ntk, dynamic, by-parts, by-parts-paper, yarn, llama3, "
            "longrope, "
            "proportional, ntk-mixed, dynamic-yarn, riflex, riflex-paper (gyre_config)",
            c.rope.axis[1].scaling = (gyre_scaling)14);
    REFUSED("rope.scaling", "rope.scaling: riflex is a scaling of an axis; set rope.axis[0].scaling (gyre_config)",
            c.rope.scaling = GYRE_SCALING_RIFLEX);
    REFUSED("trained_length", "trained_length: missing; this scaling's formula needs it (gyre_config)",
            c.trained_length = 0);
    REFUSED("rope.diffusion.timed", "rope.diffusion.timed: -1 is neither 0 nor 1 (gyre_config)",
            c.rope.diffusion.timed = -1);
    REFUSED("rope.diffusion.time", "rope.diffusion.time: 1.5 is above 1 (gyre_config)", c.rope.diffusion.time = 1.5);
    REFUSED("rope.diffusion.strength", "rope.diffusion.strength: -1 is below 0 (gyre_config)",
            c.rope.diffusion.strength = -1);
    REFUSED("rope.diffusion.exponent", "rope.diffusion.exponent: -1 is below 0 (gyre_config)",
            c.rope.diffusion.exponent = -1);
}

/* What all axes share has an effect by the scaling that any of them has, and by no other. */
static void shared_fields_act_by_any_axis(void **state) {
    (void)state;
    gyre_config c = video(GYRE_AXES_AXIAL);
    assert_false(gyre_config_has(&c, "rope.beta_fast") || gyre_config_has(&c, "rope.diffusion.timed"));
    c.rope.axis[2].own = 1;
    c.rope.axis[2].scaling = GYRE_SCALING_YARN;
    assert_true(gyre_config_has(&c, "rope.beta_fast") && gyre_config_has(&c, "rope.diffusion.timed"));
    assert_false(gyre_config_has(&c, "rope.low_freq") || gyre_config_has(&c, "rope.short_factor"));
    c.rope.axis[3] = (struct gyre_axis_config){.own = 1, .scaling = GYRE_SCALING_LLAMA3}; /* there is no such axis */
    assert_false(gyre_config_has(&c, "rope.low_freq"));
    c.rope.scaling = GYRE_SCALING_LLAMA3;
    assert_true(gyre_config_has(&c, "rope.low_freq") && gyre_config_has(&c, "rope.factor"));
    for (int a = 0; a < 3; a++)
        c.rope.axis[a] = (struct gyre_axis_config){.own = 1, .scaling = GYRE_SCALING_YARN};
    assert_false(gyre_config_has(&c, "rope.low_freq"));
    assert_false(gyre_config_has(&c, "no.such_field"));
    c.rope.axes = 0; /* one */
    assert_true(gyre_config_has(&c, "rope.beta_slow"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_axis_has_its_own),
        cmocka_unit_test(scalings_of_axial_axes),
        cmocka_unit_test(riflex),
        cmocka_unit_test(dype),
        cmocka_unit_test(dype_ends_unscaled),
        cmocka_unit_test(dype_needs_what_it_fades),
        cmocka_unit_test(rotation_uses_them),
        cmocka_unit_test(wrong_fields),
        cmocka_unit_test(shared_fields_act_by_any_axis),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
