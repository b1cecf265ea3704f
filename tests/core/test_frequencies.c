/* test_frequencies.c: radians per position under every scaling. */
#include "gyre/gyre_fields.h"
#include "support.h"

#include <float.h>
#include <math.h>
#include <string.h>

enum { MAX_PAIRS = 256 };

static const struct {
    const char *name;
    gyre_scaling scaling;
} scalings[] = {{"default", GYRE_SCALING_NONE},      {"linear", GYRE_SCALING_LINEAR},
                {"ntk", GYRE_SCALING_NTK},           {"dynamic", GYRE_SCALING_DYNAMIC_NTK},
                {"yarn", GYRE_SCALING_YARN},         {"llama3", GYRE_SCALING_LLAMA3},
                {"longrope", GYRE_SCALING_LONGROPE}, {"proportional", GYRE_SCALING_PROPORTIONAL}};

static gyre_scaling scaling_named(const char *name) {
    for (size_t i = 0; i < sizeof scalings / sizeof *scalings; i++)
        if (strcmp(scalings[i].name, name) == 0) return scalings[i].scaling;
    fail_msg("no scaling %s", name);
    return GYRE_SCALING_NONE;
}

/* As transformers 5 reads a config. The LongRoPE factors are written to `lists`. */
static gyre_config config_of(const json_t *c, double lists[2][MAX_PAIRS]) {
    const json_t *scaling = json_object_get(c, "rope_scaling");
    if (!scaling) scaling = json_object_get(c, "rope_parameters");
    gyre_config config = test_rope_config(test_integer(c, "head_dim"), GYRE_LAYOUT_HALF);
    const double longest = test_number(c, "max_position_embeddings");
    double partial = test_number_or(c, "partial_rotary_factor", 1.0), original = longest;
    config.rope.base = test_number_or(c, "rope_theta", test_number_or(scaling, "rope_theta", 0));
    if (scaling) {
        const char *type = json_string_value(json_object_get(scaling, "rope_type"));
        config.rope.scaling = scaling_named(type ? type : test_string(scaling, "type"));
        original = test_number_or(scaling, "original_max_position_embeddings", longest);
        original = test_number_or(c, "original_max_position_embeddings", original);
        config.rope.factor = test_number_or(scaling, "factor", 0);
        config.rope.attention_factor = test_number_or(scaling, "attention_factor", 0);
        config.rope.mscale = test_number_or(scaling, "mscale", 0);
        config.rope.mscale_all_dim = test_number_or(scaling, "mscale_all_dim", 0);
        config.rope.beta_fast = test_number_or(scaling, "beta_fast", 0);
        config.rope.beta_slow = test_number_or(scaling, "beta_slow", 0);
        config.rope.low_freq = test_number_or(scaling, "low_freq_factor", 0);
        config.rope.high_freq = test_number_or(scaling, "high_freq_factor", 0);
        config.rope.fractional_bounds = json_is_false(json_object_get(scaling, "truncate"));
        if (config.rope.scaling == GYRE_SCALING_LONGROPE) {
            test_numbers(scaling, "short_factor", lists[0], MAX_PAIRS);
            test_numbers(scaling, "long_factor", lists[1], MAX_PAIRS);
            config.rope.short_factor = lists[0];
            config.rope.long_factor = lists[1];
            if (config.rope.factor == 0) config.rope.factor = longest / original;
        }
        if (config.rope.scaling == GYRE_SCALING_PROPORTIONAL) {
            config.rope.proportion = test_number_or(scaling, "partial_rotary_factor", 1.0);
            partial = 1.0;
        }
    }
    config.trained_length = (int64_t)original;
    config.rope.dim = (int64_t)((double)config.head_dim * partial);
    return config;
}

static void agrees_with_reference(void **state) {
    (void)state;
    json_t *cases = test_reference("rope.json"), *c;
    size_t at;
    json_array_foreach(cases, at, c) {
        double lists[2][MAX_PAIRS], want[MAX_PAIRS], got[MAX_PAIRS], factor;
        const gyre_config config = config_of(json_object_get(c, "config"), lists);
        const json_t *length = json_object_get(c, "seq_len");
        const char *name = test_string(c, "name");
        gyre_encoding *e = test_encoding(&config);
        const size_t pairs = test_numbers(c, "inv_freq", want, MAX_PAIRS);
        assert_int_equal(gyre_encoding_get_config(e)->rope.dim, test_integer(c, "rotary_dim"));
        assert_int_equal(gyre_encoding_get_config(e)->rope.dim, 2 * pairs);
        assert_ok(gyre_encoding_frequencies(e, json_is_integer(length) ? json_integer_value(length) : 0, got, &factor));
        for (size_t i = 0; i < pairs; i++)
            test_close(got[i], want[i], 1e-12L * fabsl((long double)want[i]), name);
        test_close(factor, test_number(c, "attention_factor"), 1e-12L, name);
        gyre_encoding_free(e);
    }
    json_decref(cases);
}

static gyre_config scaled(gyre_scaling scaling, double factor) {
    gyre_config config = test_rope_config(64, GYRE_LAYOUT_HALF);
    config.trained_length = 4096;
    config.rope.scaling = scaling;
    config.rope.factor = factor;
    return config;
}

static double theta(int i) {
    return pow(10000.0, -2.0 * i / 64);
}

static void frequencies(const gyre_config *config, int64_t length, double *out) {
    gyre_encoding *e = test_encoding(config);
    assert_ok(gyre_encoding_frequencies(e, length, out, NULL));
    gyre_encoding_free(e);
}

static void ntk_divides_the_last_pair_only(void **state) {
    (void)state;
    double f[32];
    const gyre_config config = scaled(GYRE_SCALING_NTK, 8);
    frequencies(&config, 0, f);
    test_close(f[0], 1, 0, "first pair");
    test_close(f[31], theta(31) / 8, 1e-18, "last pair");
    for (int i = 1; i < 31; i++)
        assert_true(f[i] < theta(i) && f[i] > theta(i) / 8);
}

/* The paper's ramp is linear in the revolutions over the trained length. */
static void paper_ramp_counts_revolutions(void **state) {
    (void)state;
    double f[32];
    gyre_config config = scaled(GYRE_SCALING_BY_PARTS_PAPER, 4);
    frequencies(&config, 0, f);
    for (int i = 0; i < 32; i++) {
        const double revolutions = 4096 * theta(i) / 6.283185307179586;
        const double keep = revolutions > 32 ? 1 : revolutions < 1 ? 0 : (revolutions - 1) / 31;
        test_close(f[i], keep * theta(i) + (1 - keep) * theta(i) / 4, 1e-14, "by parts, in revolutions");
    }
    config.rope.beta_fast = config.rope.beta_slow = 2; /* a step */
    frequencies(&config, 0, f);
    for (int i = 0; i < 32; i++)
        test_close(f[i], 4096 * theta(i) / 6.283185307179586 >= 2 ? theta(i) : theta(i) / 4, 1e-14, "step in revolutions");
}

static void by_parts_is_yarn_without_its_factor(void **state) {
    (void)state;
    double f[32], g[32], a, b;
    const gyre_config parts = scaled(GYRE_SCALING_BY_PARTS, 4), yarn = scaled(GYRE_SCALING_YARN, 4);
    gyre_encoding *e = test_encoding(&parts), *y = test_encoding(&yarn);
    assert_ok(gyre_encoding_frequencies(e, 0, f, &a));
    assert_ok(gyre_encoding_frequencies(y, 0, g, &b));
    assert_memory_equal(f, g, sizeof f);
    assert_true(a == 1.0);
    test_close(b, 0.1 * log(4) + 1, 1e-15, "yarn's factor");
    gyre_encoding_free(e);
    gyre_encoding_free(y);
}

/* The upper end of the ramp is clamped to dim - 1, not to the last pair: here it runs from pair 15 to 63, with 32 pairs. */
static void ramp_is_clamped_as_released(void **state) {
    (void)state;
    double f[32];
    gyre_config config = scaled(GYRE_SCALING_BY_PARTS, 4);
    config.rope.base = 10;
    config.trained_length = 600; /* 64 ln(600 / (2 pi b)) / (2 ln 10) = 15.2 for b = 32, 63.4 for b = 1 */
    frequencies(&config, 0, f);
    for (int i = 0; i < 32; i++) {
        const double t = pow(10, -2.0 * i / 64), divided = i < 15 ? 0 : (i - 15) / 48.0;
        test_close(f[i], t * (1 - divided) + t / 4 * divided, 1e-14, "ramp");
    }
}

/* Both ends at the same fractional pair: a step of 0.001 avoids a division by 0. */
static void ramp_without_width(void **state) {
    (void)state;
    double f[32];
    gyre_config config = scaled(GYRE_SCALING_BY_PARTS, 4);
    config.rope.fractional_bounds = 1;
    config.rope.beta_fast = config.rope.beta_slow = 2; /* at pair 20.1 */
    frequencies(&config, 0, f);
    for (int i = 0; i < 32; i++)
        test_close(f[i], i <= 20 ? theta(i) : theta(i) / 4, 1e-14, "step");
}

static void one_mscale_alone_is_ignored(void **state) {
    (void)state;
    double a;
    gyre_config config = scaled(GYRE_SCALING_YARN, 40);
    config.rope.mscale_all_dim = 0.707;
    gyre_encoding *e = test_encoding(&config);
    assert_ok(gyre_encoding_frequencies(e, 0, NULL, &a));
    test_close(a, 0.1 * log(40) + 1, 1e-15, "mscale_all_dim alone");
    gyre_encoding_free(e);
}

/* Llama 4 Scout has low_freq = high_freq = 1: a step without a blend, and no division by 0. */
static void llama3_step(void **state) {
    (void)state;
    double f[32];
    gyre_config config = scaled(GYRE_SCALING_LLAMA3, 16);
    config.rope.low_freq = config.rope.high_freq = 1;
    frequencies(&config, 0, f);
    for (int i = 0; i < 32; i++)
        test_close(f[i], 6.283185307179586 / theta(i) < 4096 ? theta(i) : theta(i) / 16, 1e-14, "step");
}

static void longrope_switches_past_the_trained_length(void **state) {
    (void)state;
    double shorter[32], longer[32], f[32];
    gyre_config config = scaled(GYRE_SCALING_LONGROPE, 4);
    for (int i = 0; i < 32; i++) {
        shorter[i] = 1 + i * 0.01;
        longer[i] = 2 + i;
    }
    config.rope.short_factor = shorter;
    config.rope.long_factor = longer;
    config.context_length = 8192;
    gyre_encoding *e = test_encoding(&config);
    for (int i = 0; i < 32; i++)
        shorter[i] = longer[i] = NAN; /* the encoding has its own copies */
    assert_ok(gyre_encoding_frequencies(e, 0, f, NULL));
    test_close(f[5], theta(5) / 7, 1e-14, "own length is long");
    assert_ok(gyre_encoding_frequencies(e, 4096, f, NULL));
    test_close(f[5], theta(5) / 1.05, 1e-14, "L is short");
    assert_ok(gyre_encoding_frequencies(e, 4097, f, NULL));
    test_close(f[5], theta(5) / 7, 1e-14, "L + 1 is long");
    gyre_encoding_free(e);
}

static void proportional_leaves_other_pairs_unrotated(void **state) {
    (void)state;
    double f[32];
    gyre_config config = scaled(GYRE_SCALING_PROPORTIONAL, 2);
    config.rope.proportion = 0.334;
    frequencies(&config, 0, f);
    for (int i = 0; i < 32; i++)
        test_close(f[i], i < 10 ? theta(i) / 2 : 0, 1e-15, "proportional"); /* floor(0.334 x 64 / 2) = 10 */
}

/* theta_i / exp(a (i + 1)^b) with a (dim / 2)^b = ln s, as in Su's article 9706. */
static void mixed_ntk(void **state) {
    (void)state;
    const double exponents[] = {0, 0.625, 1, 0.1, 3};
    double f[32];
    for (size_t e = 0; e < sizeof exponents / sizeof *exponents; e++) {
        gyre_config config = scaled(GYRE_SCALING_NTK_MIXED, 8);
        config.rope.mixed_exponent = exponents[e];
        const double b = e == 0 ? 0.625 : exponents[e], a = log(8) / pow(32, b);
        frequencies(&config, 0, f);
        for (int i = 0; i < 32; i++)
            test_close(f[i], theta(i) / exp(a * pow(i + 1, b)), 1e-15L * (long double)theta(i) * 8, "mixed");
        test_close(f[31], theta(31) / 8, 1e-16L * (long double)theta(31), "the last pair is divided by s");
        assert_true(f[0] < 1 && f[0] > 1.0 / 8);
    }
    gyre_config config = scaled(GYRE_SCALING_NTK_MIXED, 1); /* no factor, no change */
    double plain[32];
    frequencies(&config, 0, f);
    config = scaled(GYRE_SCALING_NONE, 1);
    frequencies(&config, 0, plain);
    assert_memory_equal(f, plain, sizeof f);
}

/* Under any scaling, resonance rounds each scaled wavelength to the nearest integer. */
static void resonance_rounds_wavelengths(void **state) {
    (void)state;
    const gyre_scaling scalings_tried[] = {GYRE_SCALING_NONE,        GYRE_SCALING_LINEAR, GYRE_SCALING_NTK,
                                           GYRE_SCALING_DYNAMIC_NTK, GYRE_SCALING_YARN,   GYRE_SCALING_PROPORTIONAL,
                                           GYRE_SCALING_NTK_MIXED};
    const double two_pi = 6.283185307179586476925;
    double before[32], after[32];
    for (size_t s = 0; s < sizeof scalings_tried / sizeof *scalings_tried; s++) {
        gyre_config config = scaled(scalings_tried[s], 4);
        config.rope.proportion = 0.5;
        gyre_config_clear_unused(&config);
        frequencies(&config, 9000, before);
        config.rope.resonance = 1;
        frequencies(&config, 9000, after);
        for (int i = 0; i < 32; i++) {
            if (before[i] == 0) {
                assert_true(after[i] == 0);
                continue;
            }
            const double wavelength = two_pi / after[i], whole = round(wavelength);
            test_close(wavelength, whole, 1e-15L * (long double)whole, "a whole wavelength");
            test_close(whole, two_pi / before[i], 0.5L + 1e-9L, "the nearest one");
        }
    }
    gyre_config config = scaled(GYRE_SCALING_NONE, 1);
    config.rope.resonance = 1;
    frequencies(&config, 0, after);
    test_close(after[0], two_pi / 6, 1e-15L, "2 pi becomes 6");
    test_close(after[2], two_pi / 11, 1e-15L, "11.17 becomes 11");
}

/* A wavelength below 1 becomes 1: the pair makes a whole revolution per position. */
static void resonance_of_the_fastest(void **state) {
    (void)state;
    double fast[32], f[32];
    for (int i = 0; i < 32; i++)
        fast[i] = 0x1p-10;
    gyre_config config = scaled(GYRE_SCALING_LONGROPE, 1);
    config.rope.short_factor = config.rope.long_factor = fast;
    config.rope.resonance = 1;
    frequencies(&config, 0, f);
    test_close(f[0], 6.283185307179586476925, 1e-15L, "one position");
}

/* Every axis counts its own pairs. */
static void axial_frequencies(void **state) {
    (void)state;
    double f[32];
    gyre_config config = scaled(GYRE_SCALING_LINEAR, 2);
    config.rope.axes = 2;
    config.rope.axes_layout = GYRE_AXES_AXIAL;
    config.rope.axis_pairs[0] = 20;
    config.rope.axis_pairs[1] = 12;
    frequencies(&config, 0, f);
    for (int i = 0; i < 32; i++)
        test_close(f[i], pow(10000, i < 20 ? -i / 20.0 : -(i - 20) / 12.0) / 2, 1e-15L, "axial");
}

static void counted(const gyre_config *config, int64_t length, int64_t kept, int64_t blended, int64_t divided) {
    gyre_scaling_parts parts;
    gyre_encoding *e = test_encoding(config);
    assert_ok(gyre_encoding_scaling_parts(e, length, &parts));
    assert_int_equal(parts.kept, kept);
    assert_int_equal(parts.blended, blended);
    assert_int_equal(parts.divided, divided);
    gyre_encoding_free(e);
}

static void ramp_bounds_count_pairs(void **state) {
    (void)state;
    gyre_config config = scaled(GYRE_SCALING_NONE, 0);
    counted(&config, 0, 32, 0, 0);
    config = scaled(GYRE_SCALING_LINEAR, 4);
    counted(&config, 0, 0, 0, 32);
    config = scaled(GYRE_SCALING_NTK, 4);
    counted(&config, 0, 1, 30, 1);
    config = scaled(GYRE_SCALING_DYNAMIC_NTK, 1); /* the length determines the factor */
    counted(&config, 0, 32, 0, 0);
    counted(&config, 4 * 4096, 1, 30, 1);
    config = scaled(GYRE_SCALING_YARN, 40); /* ramp from pair 10 to pair 23: 0..10 as trained, 23..31 divided */
    counted(&config, 0, 11, 12, 9);
    config = scaled(GYRE_SCALING_PROPORTIONAL, 1);
    config.rope.proportion = 0.5;
    counted(&config, 0, 16, 0, 16);
    config = scaled(GYRE_SCALING_NTK_MIXED, 4); /* exp(a) is 1.17: every pair changes */
    counted(&config, 0, 0, 31, 1);
    config = scaled(GYRE_SCALING_YARN, 40); /* rounding of wavelengths does not count as scaling */
    config.rope.resonance = 1;
    counted(&config, 0, 11, 12, 9);
    config = scaled(GYRE_SCALING_LINEAR, 4);
    config.rope.axes = 2;
    config.rope.axes_layout = GYRE_AXES_AXIAL;
    config.rope.axis_pairs[0] = config.rope.axis_pairs[1] = 16;
    counted(&config, 0, 0, 0, 32);
}

/* From jquesnelle/yarn's LlamaDynamicYaRNScaledRotaryEmbedding, with 40 digits: base 10000, 64 channels, L = 4096. */
static const struct {
    int64_t length;
    long double attention, f[7];
} dynamic_yarn[] = {{100,
                     1.0L,
                     {1.0L, 0.056234132519034908L, 0.0421696503428582249L, 0.01L, 0.0017782794100389228L,
                      0.00133352143216332403L, 0.000133352143216332403L}},
                    {4096,
                     1.0L,
                     {1.0L, 0.056234132519034908L, 0.0421696503428582249L, 0.01L, 0.0017782794100389228L,
                      0.00133352143216332403L, 0.000133352143216332403L}},
                    {4097,
                     1.00002441108275274L,
                     {1.0L, 0.056234132519034908L, 0.0421688585880969012L, 0.00999887347214659882L, 0.00177787875378161507L,
                      0.00133319594487209549L, 0.000133319594487209549L}},
                    {16384,
                     1.13862943611198906L,
                     {1.0L, 0.056234132519034908L, 0.0397367859000010196L, 0.00653846153846153846L, 0.000547162895396591631L,
                      0.000333380358040831006L, 0.0000333380358040831006L}},
                    {163840,
                     1.36888794541139363L,
                     {1.0L, 0.056234132519034908L, 0.039006926567143858L, 0.0055L, 0.00017782794100389228L,
                      0.0000333380358040831006L, 3.33380358040831006e-6L}}};

static void dynamic_yarn_follows_the_length(void **state) {
    (void)state;
    static const int pair[7] = {0, 10, 11, 16, 22, 23, 31};
    for (double factor = 1; factor <= 4; factor += 3) { /* which is ignored */
        const gyre_config config = scaled(GYRE_SCALING_DYNAMIC_YARN, factor);
        gyre_encoding *e = test_encoding(&config);
        for (size_t n = 0; n < sizeof dynamic_yarn / sizeof *dynamic_yarn; n++) {
            double f[32], attention;
            assert_ok(gyre_encoding_frequencies(e, dynamic_yarn[n].length, f, &attention));
            for (int i = 0; i < 7; i++)
                test_close(f[pair[i]], dynamic_yarn[n].f[i], 2e-16L * dynamic_yarn[n].f[i], "dynamic YaRN");
            test_close(attention, dynamic_yarn[n].attention, 3e-16L, "its attention factor");
        }
        gyre_encoding_free(e);
    }
    gyre_config config = scaled(GYRE_SCALING_DYNAMIC_YARN, 1);
    counted(&config, 0, 32, 0, 0);
    counted(&config, 4096, 32, 0, 0);
    counted(&config, 4097, 11, 12, 9);
    counted(&config, 163840, 11, 12, 9);
    config.context_length = 163840; /* the encoding's own length, if the call gives none */
    counted(&config, 0, 11, 12, 9);
    counted(&config, 4096, 32, 0, 0);
}

/* A given attention factor holds at every length. With the mscale pair, both use the current s. */
static void dynamic_yarn_attention_factor(void **state) {
    (void)state;
    const long double s = 4;
    double attention;
    gyre_config config = scaled(GYRE_SCALING_DYNAMIC_YARN, 1);
    config.rope.mscale = 0.707;
    config.rope.mscale_all_dim = 1.5;
    gyre_encoding *e = test_encoding(&config);
    assert_ok(gyre_encoding_frequencies(e, 16384, NULL, &attention));
    test_close(attention, (0.1L * 0.707L * logl(s) + 1) / (0.1L * 1.5L * logl(s) + 1), 3e-16L, "mscale");
    assert_ok(gyre_encoding_frequencies(e, 0, NULL, &attention));
    test_close(attention, 1, 0, "mscale at L");
    gyre_encoding_free(e);
    config.rope.attention_factor = 1.25;
    e = test_encoding(&config);
    for (int64_t length = 100; length < 100000; length *= 7) {
        assert_ok(gyre_encoding_frequencies(e, length, NULL, &attention));
        test_close(attention, 1.25L, 0, "given");
    }
    gyre_encoding_free(e);
    gyre_error err = {0, ""};
    config = scaled(GYRE_SCALING_DYNAMIC_YARN, 1); /* 1 at L, and larger than any float at the largest length */
    config.rope.mscale = 1e30;
    config.rope.mscale_all_dim = 1;
    assert_int_equal(gyre_encoding_create(&e, &config, NULL, &err), GYRE_EINVAL);
    assert_non_null(strstr(err.text, "rope.mscale: 1e+30 over 1"));
    config = scaled(GYRE_SCALING_DYNAMIC_YARN, 1);
    config.rope.angles = GYRE_ANGLE_PATH_TORCH;
    assert_int_equal(gyre_encoding_create(&e, &config, NULL, NULL), GYRE_EUNSUPPORTED);
    config = scaled(GYRE_SCALING_DYNAMIC_YARN, 1);
    config.trained_length = 0;
    assert_int_equal(gyre_encoding_create(&e, &config, NULL, NULL), GYRE_EINVAL);
}

/* x rotated at one position under a length by gyre_rotate, gyre_cos_sin and the formulas. */
static void check_rotated_at(const gyre_encoding *e, int64_t position, size_t n) {
    double x[64], y[64], back[64], f[32], cosine[32], sine[32];
    const gyre_positions at = {.base = position, .context_length = dynamic_yarn[n].length};
    const long double a = dynamic_yarn[n].attention;
    for (int i = 0; i < 64; i++)
        x[i] = sin(3.7 * i + 0.2);
    const gyre_cview in = gyre_cdense(x, GYRE_DTYPE_F64, 1, 1, 1, 64);
    const gyre_view out = gyre_dense(y, GYRE_DTYPE_F64, 1, 1, 1, 64), undone = gyre_dense(back, GYRE_DTYPE_F64, 1, 1, 1, 64);
    const gyre_view c = gyre_dense(cosine, GYRE_DTYPE_F64, 1, 1, 1, 32), s = gyre_dense(sine, GYRE_DTYPE_F64, 1, 1, 1, 32);
    const gyre_cview rotated = gyre_const(out);
    assert_ok(gyre_encoding_frequencies(e, dynamic_yarn[n].length, f, NULL));
    assert_ok(gyre_rotate(e, GYRE_ARGS(gyre_rotate_args, .role = GYRE_ROLE_KEY, .positions = &at, .in = in, .out = out),
                          NULL, NULL));
    assert_ok(gyre_cos_sin(e, &at, &c, &s, NULL, NULL));
    for (int i = 0; i < 32; i++) {
        const long double angle = (long double)position * (long double)f[i], co = a * cosl(angle), si = a * sinl(angle);
        test_close(cosine[i], co, 1e-11L, "cosine");
        test_close(sine[i], si, 1e-11L, "sine");
        test_close(y[i], x[i] * co - x[i + 32] * si, 1e-11L, "rotated");
        test_close(y[i + 32], x[i] * si + x[i + 32] * co, 1e-11L, "rotated");
    }
    assert_ok(gyre_rotate(e,
                          GYRE_ARGS(gyre_rotate_args, .direction = GYRE_DIRECTION_INVERSE, .role = GYRE_ROLE_KEY,
                                    .positions = &at, .in = rotated, .out = undone),
                          NULL, NULL));
    for (int i = 0; i < 64; i++)
        test_close(back[i], x[i], 1e-14L, "undone");
    assert_ok(gyre_rotate(e,
                          GYRE_ARGS(gyre_rotate_args, .direction = GYRE_DIRECTION_ADJOINT, .role = GYRE_ROLE_KEY,
                                    .positions = &at, .in = rotated, .out = undone),
                          NULL, NULL));
    for (int i = 0; i < 64; i++)
        test_close(back[i], (long double)x[i] * a * a, 1e-14L, "adjoint");
}

/* The attention factor of a length goes with its frequencies, whatever the encoding's own length is. */
static void attention_factor_follows_the_length(void **state) {
    (void)state;
    for (size_t own = 0; own < sizeof dynamic_yarn / sizeof *dynamic_yarn; own++) {
        gyre_config config = scaled(GYRE_SCALING_DYNAMIC_YARN, 1);
        config.context_length = dynamic_yarn[own].length;
        config.rope.table_positions = 512;
        gyre_encoding *e = test_encoding(&config);
        for (size_t n = 0; n < sizeof dynamic_yarn / sizeof *dynamic_yarn; n++) {
            check_rotated_at(e, 0, n);
            check_rotated_at(e, 333, n);
            check_rotated_at(e, 5000, n);
        }
        gyre_encoding_free(e);
    }
}

static void only_rotations_have_frequencies(void **state) {
    (void)state;
    double f[32];
    gyre_scaling_parts parts;
    gyre_config config = GYRE_INIT(gyre_config);
    config.kind = GYRE_KIND_NOPE;
    gyre_encoding *e = test_encoding(&config);
    assert_int_equal(gyre_encoding_frequencies(e, 0, f, NULL), GYRE_EUNSUPPORTED);
    assert_int_equal(gyre_encoding_scaling_parts(e, 0, &parts), GYRE_EUNSUPPORTED);
    gyre_encoding_free(e);
    config = scaled(GYRE_SCALING_DYNAMIC_NTK, 2);
    e = test_encoding(&config);
    assert_int_equal(gyre_encoding_frequencies(e, -1, f, NULL), GYRE_EINVAL);
    assert_int_equal(gyre_encoding_scaling_parts(e, -1, &parts), GYRE_EINVAL);
    assert_int_equal(gyre_encoding_scaling_parts(e, 0, NULL), GYRE_EINVAL);
    gyre_encoding_free(e);
}

/* The bound that gyre_rotate states at position 2^31, for the pairs that came nearest to it among 137000: cos and sin of
 * position times frequency, computed with 40 digits. */
static void angles_at_the_largest_position(void **state) {
    (void)state;
    static double lists[40];
    for (int i = 0; i < 40; i++)
        lists[i] = 1.0 / 1024 * (1 + i * 0.0371);
    const struct {
        gyre_scaling scaling;
        double base, factor;
        int64_t dim, pair;
        double frequency;
        long double cosine, sine;
    } cases[] = {{GYRE_SCALING_NONE, 1.5, 1, 96, 37, 0.73, 0.80192955191264357155L, 0.59741860848921227678L},
                 {GYRE_SCALING_NONE, 500000, 1, 128, 1, 0.81, 0.98791308474774187501L, -0.15500882872985325506L},
                 {GYRE_SCALING_NTK, 1.5, 3, 128, 22, 0.59, -0.51401713892572085018L, 0.85777991401676933365L},
                 {GYRE_SCALING_NTK_MIXED, 500000, 3, 512, 6, 0.65, -0.61905148827411007439L, 0.78535040260103601546L},
                 {GYRE_SCALING_LONGROPE, 1000000, 2, 80, 1, 699, -0.9964008171792104236L, 0.084766806738260973506L}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const int64_t dim = cases[i].dim, pair = cases[i].pair;
        const gyre_positions at = {.base = (int64_t)1 << 31};
        double x[512] = {0}, y[512];
        gyre_config config = test_rope_config(dim, GYRE_LAYOUT_HALF);
        config.rope.base = cases[i].base;
        config.rope.scaling = cases[i].scaling;
        config.rope.factor = cases[i].factor;
        config.rope.attention_factor = 1;
        config.trained_length = config.context_length = 4096;
        if (cases[i].scaling == GYRE_SCALING_LONGROPE) config.rope.short_factor = config.rope.long_factor = lists;
        x[pair] = 1;
        gyre_encoding *e = test_encoding(&config);
        const gyre_cview in = gyre_cdense(x, GYRE_DTYPE_F64, 1, 1, 1, dim);
        const gyre_view out = gyre_dense(y, GYRE_DTYPE_F64, 1, 1, 1, dim);
        assert_ok(gyre_rotate(
            e, GYRE_ARGS(gyre_rotate_args, .role = GYRE_ROLE_QUERY, .positions = &at, .in = in, .out = out), NULL, NULL));
        const long double error = (long double)y[pair + dim / 2] * cases[i].cosine - (long double)y[pair] * cases[i].sine;
        const long double bound = LDBL_MANT_DIG >= 64 ? 2e-10L : 3e-7L;
        assert_true(fabsl(error) < bound * (long double)fmax(1, cases[i].frequency));
        gyre_encoding_free(e);
    }
}

/* Powers of a wide head are products of two, each within a unit in the last place of long double; a narrow head's are as
 * they were. */
static void wide_heads_have_the_same_frequencies(void **state) {
    (void)state;
    static const int64_t dims[] = {510, 512, 514, 4098, 65536};
    static double got[32768];
    for (size_t d = 0; d < sizeof dims / sizeof *dims; d++) {
        gyre_config config = test_rope_config(dims[d], GYRE_LAYOUT_HALF);
        config.rope.base = 500000;
        gyre_encoding *e = test_encoding(&config);
        assert_ok(gyre_encoding_frequencies(e, 0, got, NULL));
        for (int64_t i = 0; i < dims[d] / 2; i++) {
            const long double want = powl(500000, -(long double)i / (long double)(dims[d] / 2));
            const long double off = fabsl((long double)got[i] - want) / want;
            if (dims[d] <= 512 ? got[i] != (double)want : off > 0x1p-53L + 4 * LDBL_EPSILON)
                fail_msg("%lld channels, pair %lld: off by %Lg", (long long)dims[d], (long long)i, off);
        }
        gyre_encoding_free(e);
    }
}

/* A power in long double takes as long as a hundred products, and a file of a few bytes may ask for tens of thousands of
 * pairs.  cmake/tests.cmake has the linker send calls here. */
/* NOLINTBEGIN(bugprone-reserved-identifier): the linker's names */
long double __wrap_powl(long double base, long double exponent);
long double __real_powl(long double base, long double exponent);
static int64_t powers;

long double __wrap_powl(long double base, long double exponent) {
    powers++;
    return __real_powl(base, exponent);
}
/* NOLINTEND(bugprone-reserved-identifier) */

static void wide_heads_share_powers(void **state) {
    (void)state;
    static double all[32768];
    static const gyre_scaling cases[] = {GYRE_SCALING_NONE, GYRE_SCALING_LINEAR, GYRE_SCALING_DYNAMIC_NTK,
                                         GYRE_SCALING_YARN};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        gyre_config config = test_rope_config(65536, GYRE_LAYOUT_HALF);
        gyre_scaling_parts parts;
        config.trained_length = 8192;
        config.rope.scaling = cases[i];
        config.rope.factor = cases[i] == GYRE_SCALING_NONE ? 1 : 4;
        gyre_encoding *e = test_encoding(&config);
        powers = 0;
        assert_ok(gyre_encoding_frequencies(e, 32768, all, NULL));
        const int64_t of_frequencies = powers;
        powers = 0;
        assert_ok(gyre_encoding_scaling_parts(e, 32768, &parts));
        assert_true(of_frequencies > 0 && parts.kept + parts.blended + parts.divided == 32768);
        if (of_frequencies > 1000 || powers > 2000)
            fail_msg("scaling %d: %lld powers of frequencies, %lld of parts", (int)cases[i], (long long)of_frequencies,
                     (long long)powers);
        gyre_encoding_free(e);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(agrees_with_reference),
        cmocka_unit_test(ntk_divides_the_last_pair_only),
        cmocka_unit_test(paper_ramp_counts_revolutions),
        cmocka_unit_test(by_parts_is_yarn_without_its_factor),
        cmocka_unit_test(ramp_is_clamped_as_released),
        cmocka_unit_test(ramp_without_width),
        cmocka_unit_test(one_mscale_alone_is_ignored),
        cmocka_unit_test(llama3_step),
        cmocka_unit_test(longrope_switches_past_the_trained_length),
        cmocka_unit_test(proportional_leaves_other_pairs_unrotated),
        cmocka_unit_test(mixed_ntk),
        cmocka_unit_test(resonance_rounds_wavelengths),
        cmocka_unit_test(resonance_of_the_fastest),
        cmocka_unit_test(axial_frequencies),
        cmocka_unit_test(ramp_bounds_count_pairs),
        cmocka_unit_test(dynamic_yarn_follows_the_length),
        cmocka_unit_test(dynamic_yarn_attention_factor),
        cmocka_unit_test(attention_factor_follows_the_length),
        cmocka_unit_test(only_rotations_have_frequencies),
        cmocka_unit_test(angles_at_the_largest_position),
        cmocka_unit_test(wide_heads_have_the_same_frequencies),
        cmocka_unit_test(wide_heads_share_powers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
