/* test_methods.c: the `--methods` of the command against formulas computed here. */
#include "method_frequencies.h"
#include "tools/common/variants.h"

static void assert_close(double got, double expected) {
    if (!(fabs(got - expected) <= 1e-12 * fabs(expected))) fail_msg("%.17g, expected %.17g", got, expected);
}

/* ntk-past:4 is the model as trained up to its length and ntk:4 past it; base:500000 is another base at every context. */
static void test_methods_that_need_a_number(void **state) {
    (void)state;
    const gyre_config base = rope();
    double f[PAIRS], attention;
    static const int64_t contexts[] = {64, TRAINED, TRAINED + 1, 8 * TRAINED};
    for (int c = 0; c < 4; c++) {
        frequencies("ntk-past:4", &base, contexts[c], f, &attention);
        const double scaled = contexts[c] > TRAINED ? base_of_model * pow(4, (double)DIM / (DIM - 2)) : base_of_model;
        for (int i = 0; i < PAIRS; i++)
            assert_close(f[i], theta(scaled, i));
        assert_close(attention, 1);
        frequencies("base:500000", &base, contexts[c], f, &attention);
        for (int i = 0; i < PAIRS; i++)
            assert_close(f[i], theta(500000, i));
        assert_close(attention, 1);
    }
    method m;
    gyre_error err = {0, ""};
    assert_int_equal(method_parse("base", &m, &err), GYRE_EINVAL);
    assert_non_null(strstr(err.text, "base:500000"));
    assert_int_equal(method_parse("ntk-past", &m, &err), GYRE_EINVAL);
    assert_int_equal(method_parse("base:0.5", &m, &err), GYRE_EINVAL);
    assert_int_equal(method_parse("base:500000+logn", &m, &err), GYRE_OK);
}

static void test_names(void **state) {
    (void)state;
    static const struct {
        const char *text;
        gyre_scaling scaling;
        double factor;
    } good[] = {{"none", GYRE_SCALING_NONE, 0},
                {"linear", GYRE_SCALING_LINEAR, 0},
                {"ntk:4", GYRE_SCALING_NTK, 4},
                {"dynamic", GYRE_SCALING_DYNAMIC_NTK, 0},
                {"dynamic:2", GYRE_SCALING_DYNAMIC_NTK, 2},
                {"by-parts", GYRE_SCALING_BY_PARTS, 0},
                {"by-parts-paper:1.5", GYRE_SCALING_BY_PARTS_PAPER, 1.5},
                {"yarn:1e1", GYRE_SCALING_YARN, 10},
                {"linear:1", GYRE_SCALING_LINEAR, 1},
                {"ntk-mixed:8", GYRE_SCALING_NTK_MIXED, 8},
                {"llama3:8", GYRE_SCALING_LLAMA3, 8},
                {"rerope", GYRE_SCALING_NONE, 0},
                {"rerope:128", GYRE_SCALING_NONE, 128},
                {"leaky:2.5", GYRE_SCALING_NONE, 2.5},
                {"leaky:4294967296", GYRE_SCALING_NONE, 0x1p32},
                {"self-extend:4", GYRE_SCALING_NONE, 4},
                {"yarn:1e+1", GYRE_SCALING_YARN, 10},
                {"dynamic-yarn", GYRE_SCALING_DYNAMIC_YARN, 0}};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        method m;
        assert_int_equal(method_parse(good[i].text, &m, NULL), GYRE_OK);
        assert_int_equal(m.scaling, good[i].scaling);
        assert_true(m.factor == good[i].factor);
        assert_string_equal(m.label, good[i].text);
        assert_int_equal(m.keeps_model_scaling, strcmp(good[i].text, "none") == 0);
    }
}

static void test_wrong_names(void **state) {
    (void)state;
    static const struct {
        const char *text, *says;
    } bad[] = {{"", "not one of none, linear"},
               {"yran", "method \"yran\": no such method; did you mean yarn?"},
               {"dynamic-yran:4", "did you mean dynamic-yarn?"},
               {"lineer+logn", "did you mean linear?"},
               {"abf:500000", "did you mean base:NUMBER, as in base:500000?"},
               {"pi:4", "did you mean linear?"},
               {"ntk-by-parts", "did you mean by-parts?"},
               {"dynamic-ntk:4", "did you mean dynamic?"},
               {"wavelets", "not one of none, linear"},
               {"yarm", "did you mean yarn?"},
               {"NTK", "not one of"},
               {"ntk ", "did you mean ntk?"},
               {" ntk", "did you mean ntk?"},
               {"ntk:", "method ntk: no factor follows its colon"},
               {"rerope:+logn", "method rerope: no window follows its colon"},
               {"ntk:0.5", "below 1"},
               {"ntk:0", "below 1"},
               {"ntk:-2", "the factor is below 1, the least allowed"},
               {"ntk:-", "not a number"},
               {"ntk:-inf", "not a number"},
               {"ntk:--2", "not a number"},
               {"ntk:inf", "not a number"},
               {"ntk:nan", "not a number"},
               {"ntk:1e999", "not finite"},
               {"ntk:4x", "not a number"},
               {"ntk:4:4", "not a number"},
               {"ntk:0x10", "not a number"},
               {"ntk: 4", "not a number"},
               {"none:2", "takes no factor"},
               {":4", "not one of"},
               {"by-part", "did you mean by-parts?"},
               {"by-parts-papers", "did you mean by-parts-paper?"},
               {"rerope:0", "the window is below 1"},
               {"dca:0", "method dca:0: the chunk is below 2, the least allowed"},
               {"dca:1", "method dca:1: the chunk is below 2, the least allowed"},
               {"dca-paper:1.5", "the chunk is below 2, the least allowed"},
               {"rerope:3.5", "the window is not a whole number"},
               {"rerope:1e10", "the window is not a whole number"},
               {"rerope:x", "the window is not a number"},
               {"self-extend:1.5", "the group is not a whole number"},
               {"self-extend:0", "the group is below 1"},
               {"leaky:0.5", "the factor is below 1"},
               {"leaky:inf", "the factor is not a number"},
               {"leaky:-1", "the factor is below 1, the least allowed"},
               {"leaky:1e300", "the factor is above 2^32, the most allowed"},
               {"leaky:4294967297", "the factor is above 2^32"},
               {"yarn+", "\"+\" is not one of +resonance, +logn"},
               {"yarn+log", "\"+log\" is not one of +resonance, +logn"},
               {"yarn+resonance+resonance", "is given twice"},
               {"yarn+resonance:4", "\"+resonance:4\" is not one of"},
               {"clipped:", "method clipped:: \"\" is not a number of pairs"},
               {"clipped:0", "\"0\" is not a number of pairs from 1 to 2^31 - 1"},
               {"clipped:2.5", "\"2.5\" is not a number of pairs"},
               {"clipped-hard:-3", "\"-3\" is not a number of pairs"},
               {"yarn:4+clipped:1e3", "\"1e3\" is not a number of pairs"},
               {"clipped:3000000000", "is not a number of pairs"},
               {"clipped+clipped-hard", "method clipped+clipped-hard: clips twice"},
               {"clippd", "did you mean clipped?"},
               {"yarn+clip", "\"+clip\" is not one of +resonance, +logn, +clipped"},
               {"+logn", "not one of none, linear"},
               {"none:2+logn", "takes no factor"},
               {"dynamic-yarn:4", "method dynamic-yarn:4: dynamic-yarn takes no factor"},
               {"dynamic-linear:4", "method dynamic-linear:4: dynamic-linear takes no factor"},
               {"ntk:4.0000000000000000000000000000000000000000000000000", "too long"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        method m = {.factor = 77};
        gyre_error err = {0, ""};
        assert_int_equal(method_parse(bad[i].text, &m, &err), GYRE_EINVAL);
        if (!strstr(err.text, bad[i].says)) fail_msg("\"%s\": \"%s\" lacks \"%s\"", bad[i].text, err.text, bad[i].says);
        assert_true(m.factor == 77); /* a failing call leaves its output unchanged */
    }
}

static void test_lists(void **state) {
    (void)state;
    method *methods = NULL;
    int64_t count = 0;
    assert_int_equal(methods_parse("none,ntk:2,ntk:2,yarn", &methods, &count, NULL), GYRE_OK);
    assert_int_equal(count, 4);
    assert_string_equal(methods[0].label, "none");
    assert_string_equal(methods[2].label, "ntk:2");
    assert_string_equal(methods[3].name, "yarn");
    free(methods);
    static const char *const bad[] = {"", ",", "none,", ",none", "none,,yarn", "none;yarn"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        methods = NULL;
        count = -1;
        assert_int_equal(methods_parse(bad[i], &methods, &count, NULL), GYRE_EINVAL);
        assert_null(methods);
        assert_int_equal(count, -1);
    }
}

static void test_static_factor_ignores_the_context(void **state) {
    (void)state;
    const gyre_config base = rope();
    static const int64_t contexts[] = {1, 128, TRAINED, 2 * TRAINED, 16 * TRAINED};
    for (size_t c = 0; c < sizeof contexts / sizeof *contexts; c++) {
        double inv_freq[PAIRS], factor;
        frequencies("linear:4", &base, contexts[c], inv_freq, &factor);
        for (int i = 0; i < PAIRS; i++)
            assert_close(inv_freq[i], theta(base_of_model, i) / 4);
        assert_close(factor, 1);
        frequencies("ntk:4", &base, contexts[c], inv_freq, NULL);
        const double widened = base_of_model * pow(4, (double)DIM / (DIM - 2));
        for (int i = 0; i < PAIRS; i++)
            assert_close(inv_freq[i], theta(widened, i));
        frequencies("yarn:4", &base, contexts[c], inv_freq, &factor);
        assert_close(factor, 0.1 * log(4) + 1);
    }
}

static void test_no_factor_follows_the_context(void **state) {
    (void)state;
    const gyre_config base = rope();
    static const struct {
        int64_t context;
        double factor;
    } cases[] = {{1, 1}, {TRAINED - 1, 1}, {TRAINED, 1}, {TRAINED * 3 / 2, 1.5}, {8 * TRAINED, 8}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        double inv_freq[PAIRS], factor;
        frequencies("linear", &base, cases[c].context, inv_freq, NULL);
        for (int i = 0; i < PAIRS; i++)
            assert_close(inv_freq[i], theta(base_of_model, i) / cases[c].factor);
        frequencies("ntk", &base, cases[c].context, inv_freq, NULL);
        assert_close(inv_freq[PAIRS - 1], theta(base_of_model, PAIRS - 1) / cases[c].factor);
        frequencies("yarn", &base, cases[c].context, inv_freq, &factor);
        assert_close(factor, 0.1 * log(cases[c].factor) + 1);
        assert_close(inv_freq[PAIRS - 1], theta(base_of_model, PAIRS - 1) / cases[c].factor);
    }
}

static void test_dynamic(void **state) {
    (void)state;
    const gyre_config base = rope();
    double plain[PAIRS], inv_freq[PAIRS];
    frequencies("none", &base, TRAINED, plain, NULL);
    frequencies("dynamic", &base, TRAINED / 2, inv_freq, NULL);
    assert_memory_equal(inv_freq, plain, sizeof plain); /* inside the trained length: no change at all */
    frequencies("dynamic:3", &base, TRAINED, inv_freq, NULL);
    assert_memory_equal(inv_freq, plain, sizeof plain);
    static const struct {
        const char *text;
        double alpha;
    } cases[] = {{"dynamic", 4 * 4 - 3}, {"dynamic:1", 4}, {"dynamic:2", 2 * 4 - 1}, {"dynamic:4", 4 * 4 - 3}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        frequencies(cases[c].text, &base, 4 * TRAINED, inv_freq, NULL);
        const double widened = base_of_model * pow(cases[c].alpha, (double)DIM / (DIM - 2));
        for (int i = 0; i < PAIRS; i++)
            assert_close(inv_freq[i], theta(widened, i));
    }
}

static void test_none_keeps_the_scaling(void **state) {
    (void)state;
    gyre_config base = rope();
    base.rope.scaling = GYRE_SCALING_YARN;
    base.rope.factor = 8;
    base.rope.attention_factor = 1.25;
    double inv_freq[PAIRS], factor;
    frequencies("none", &base, 4 * TRAINED, inv_freq, &factor);
    assert_close(factor, 1.25);
    assert_close(inv_freq[PAIRS - 1], theta(base_of_model, PAIRS - 1) / 8);
    frequencies("linear:2", &base, 4 * TRAINED, inv_freq, &factor);
    assert_close(factor, 1);
    for (int i = 0; i < PAIRS; i++)
        assert_close(inv_freq[i], theta(base_of_model, i) / 2);
    frequencies("yarn:2", &base, 4 * TRAINED, inv_freq, &factor);
    assert_close(factor, 0.1 * log(2) + 1);
}

static int64_t kept(const char *text, const method_betas *betas) {
    const gyre_config base = rope();
    method m;
    gyre_encoding *encoding = NULL;
    gyre_scaling_parts parts;
    assert_int_equal(method_parse(text, &m, NULL), GYRE_OK);
    assert_int_equal(method_encoding(&m, &base, TRAINED, 4 * TRAINED, betas, &encoding, NULL), GYRE_OK);
    assert_int_equal(gyre_encoding_scaling_parts(encoding, 0, &parts), GYRE_OK);
    assert_int_equal(parts.kept + parts.blended + parts.divided, PAIRS);
    gyre_encoding_free(encoding);
    return parts.kept;
}

static void test_betas(void **state) {
    (void)state;
    /* The paper's ramp does not change the pairs with at least beta_fast revolutions over the trained length. */
    static const method_betas betas[] = {{32, 1}, {8, 1}, {2, 2}};
    for (size_t b = 0; b < sizeof betas / sizeof *betas; b++) {
        int64_t expected = 0;
        for (int i = 0; i < PAIRS; i++)
            expected += TRAINED * theta(base_of_model, i) / (2 * acos(-1)) >= betas[b].fast;
        assert_int_equal(kept("by-parts-paper:4", &betas[b]), expected);
    }
    assert_int_equal(kept("by-parts-paper:4", NULL), kept("by-parts-paper:4", &betas[0]));
    assert_true(kept("yarn:4", &betas[1]) > kept("yarn:4", &betas[0]));
}

/* The slopes of four heads, 2^-2 .. 2^-8, under a method at a context. */
static void slopes_under(const char *text, int64_t context, int64_t length, double slopes[4]) {
    gyre_config base = GYRE_INIT(gyre_config);
    base.kind = GYRE_KIND_ALIBI;
    base.heads = 4;
    method m;
    gyre_error err = {0, ""};
    gyre_encoding *encoding = NULL;
    assert_int_equal(method_parse(text, &m, &err), GYRE_OK);
    assert_int_equal(method_depends_on_length(&m, &base), strncmp(text, "dynamic", 7) == 0);
    assert_int_equal(method_encoding(&m, &base, TRAINED, context, NULL, &encoding, &err), GYRE_OK);
    assert_int_equal(config_depends_on_length(gyre_encoding_get_config(encoding)), strncmp(text, "dynamic", 7) == 0);
    assert_int_equal(gyre_encoding_slopes(encoding, length, slopes), GYRE_OK);
    gyre_encoding_free(encoding);
}

static void test_methods_stretch_slopes(void **state) {
    (void)state;
    static const struct {
        const char *text;
        int64_t context, length;
        double first, last; /* what the slopes of the steepest and the flattest head are divided by */
    } cases[] = {{"linear", 4 * TRAINED, 0, 4, 4},
                 {"linear", TRAINED / 2, 0, 1, 1},
                 {"linear:3", TRAINED / 2, 0, 3, 3},
                 {"ntk:8", TRAINED, 0, 1, 8},
                 {"ntk", 2 * TRAINED, 0, 1, 2},
                 {"ntk-past:4", TRAINED, 0, 1, 1},
                 {"ntk-past:4", TRAINED + 1, 0, 1, 4},
                 {"dynamic-linear", 4 * TRAINED, 0, 4, 4},
                 {"dynamic-linear", 4 * TRAINED, 2 * TRAINED, 2, 2},
                 {"dynamic-linear", 4 * TRAINED, 5, 1, 1},
                 {"dynamic", 4 * TRAINED, 0, 1, 4},
                 {"dynamic", 4 * TRAINED, 2 * TRAINED, 1, 2},
                 {"none", 4 * TRAINED, 0, 1, 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        double slopes[4];
        slopes_under(cases[i].text, cases[i].context, cases[i].length, slopes);
        for (int h = 0; h < 4; h++)
            assert_close(slopes[h], pow(2, -2 * (h + 1)) / cases[i].first / pow(cases[i].last / cases[i].first, h / 3.0));
    }
}

/* What stretches one kind of positions is refused for the other. */
static void test_slopes_and_rotations_are_told_apart(void **state) {
    (void)state;
    static const struct {
        gyre_kind kind;
        const char *text, *says;
        gyre_status status;
    } cases[] = {{GYRE_KIND_ALIBI, "yarn", "method yarn: the model has no rotation to scale (alibi)", GYRE_EUNSUPPORTED},
                 {GYRE_KIND_ALIBI, "rerope", "method rerope: the model has no rotation to scale (alibi)", GYRE_EUNSUPPORTED},
                 {GYRE_KIND_ALIBI, "ntk+resonance", "method ntk+resonance: the model has no rotation", GYRE_EUNSUPPORTED},
                 {GYRE_KIND_ALIBI, "dynamic:2", "method dynamic:2: takes no factor for slopes", GYRE_EINVAL},
                 {GYRE_KIND_ROPE, "dynamic-linear", "method dynamic-linear: the model has no slopes to stretch (rope)",
                  GYRE_EUNSUPPORTED}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        gyre_config base = rope();
        base.kind = cases[i].kind;
        base.heads = 4;
        gyre_encoding *encoding = NULL;
        gyre_error err = {0, ""};
        method m;
        assert_int_equal(method_parse(cases[i].text, &m, NULL), GYRE_OK);
        assert_int_equal(method_encoding(&m, &base, TRAINED, TRAINED, NULL, &encoding, &err), cases[i].status);
        if (!strstr(err.text, cases[i].says)) fail_msg("\"%s\" lacks \"%s\"", err.text, cases[i].says);
    }
}

static void test_refusals(void **state) {
    (void)state;
    static const struct {
        gyre_kind kind;
        const char *says;
    } cases[] = {{GYRE_KIND_T5, "method linear: the model has no rotation to scale (t5)"},
                 {GYRE_KIND_NOPE, "method linear: the model has no rotation to scale (nope)"},
                 {GYRE_KIND_LEARNED, "method linear: the model has no rotation to scale (learned)"},
                 {GYRE_KIND_SINUSOIDAL, "method linear: the model has no rotation to scale (sinusoidal)"}};
    method linear, none;
    assert_int_equal(method_parse("linear", &linear, NULL), GYRE_OK);
    assert_int_equal(method_parse("none", &none, NULL), GYRE_OK);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        gyre_config base = rope();
        base.kind = cases[i].kind;
        base.heads = 4;
        base.input.dim = DIM;
        base.input.positions = TRAINED;
        base.score.buckets = 32;
        gyre_encoding *encoding = NULL;
        gyre_error err = {0, ""};
        assert_int_equal(method_encoding(&linear, &base, TRAINED, TRAINED, NULL, &encoding, &err), GYRE_EUNSUPPORTED);
        assert_string_equal(err.text, cases[i].says);
        assert_null(encoding);
        assert_int_equal(method_encoding(&none, &base, TRAINED, TRAINED, NULL, &encoding, &err), GYRE_OK);
        assert_int_equal(gyre_encoding_get_config(encoding)->kind, cases[i].kind);
        gyre_encoding_free(encoding);
    }
    gyre_config base = rope();
    base.trained_length = 0;
    gyre_encoding *encoding = NULL;
    gyre_error err = {0, ""};
    assert_int_equal(method_encoding(&linear, &base, 0, 64, NULL, &encoding, &err), GYRE_EINVAL);
    assert_non_null(strstr(err.text, "does not say its trained length"));
    assert_int_equal(method_encoding(&none, &base, 0, 0, NULL, &encoding, &err), GYRE_EINVAL);
    assert_null(encoding);
}

/* -- far turns and modifiers -- */
static gyre_config config_under(const char *text, const gyre_config *base, int64_t context) {
    method m;
    gyre_error err = {0, ""};
    gyre_encoding *encoding = NULL;
    assert_int_equal(method_parse(text, &m, &err), GYRE_OK);
    if (method_encoding(&m, base, base->trained_length, context, NULL, &encoding, &err)) fail_msg("%s: %s", text, err.text);
    const gyre_config config = *gyre_encoding_get_config(encoding);
    gyre_encoding_free(encoding);
    return config;
}

static void test_modifiers_are_read(void **state) {
    (void)state;
    static const struct {
        const char *text, *name;
        int resonance, logn;
    } good[] = {{"yarn:16+resonance", "yarn", 1, 0},
                {"none+logn", "none", 0, 1},
                {"rerope+logn+resonance", "rerope", 1, 1},
                {"ntk:1e+1+resonance", "ntk", 1, 0},
                {"none", "none", 0, 0}};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        method m;
        assert_int_equal(method_parse(good[i].text, &m, NULL), GYRE_OK);
        assert_string_equal(m.name, good[i].name);
        assert_string_equal(m.label, good[i].text);
        assert_int_equal(m.resonance, good[i].resonance);
        assert_int_equal(m.logn, good[i].logn);
        assert_int_equal(method_is_none(&m), i == 4);
    }
}

static void test_far_rotations(void **state) {
    (void)state;
    const gyre_config base = rope();
    const gyre_config clamped = config_under("rerope", &base, 4 * TRAINED),
                      own = config_under("rerope:100", &base, 4 * TRAINED);
    assert_int_equal(clamped.rope.far, GYRE_FAR_CLAMPED);
    assert_int_equal(clamped.rope.far_window, TRAINED / 2);
    assert_int_equal(own.rope.far_window, 100);
    assert_int_equal(own.rope.scaling, GYRE_SCALING_NONE);
    const gyre_config leaky = config_under("leaky", &base, 4 * TRAINED),
                      grouped = config_under("self-extend", &base, 4 * TRAINED);
    assert_int_equal(leaky.rope.far, GYRE_FAR_LEAKY);
    assert_int_equal(leaky.rope.far_window, TRAINED / 2);
    /* The largest distance, 4 L - 1, becomes the largest trained one, L - 1. */
    assert_close(TRAINED / 2 + (4 * TRAINED - 1 - TRAINED / 2) / leaky.rope.far_factor, TRAINED - 1);
    assert_int_equal(grouped.rope.far, GYRE_FAR_GROUPED);
    const int64_t group = (int64_t)grouped.rope.far_factor, window = grouped.rope.far_window;
    assert_true((double)group == grouped.rope.far_factor);
    assert_true((4 * TRAINED - 1) / group + window - window / group <= TRAINED - 1);
    assert_true((4 * TRAINED - 1) / (group - 1) + window - window / (group - 1) > TRAINED - 1); /* and no less would do */
    assert_true(config_under("leaky:3", &base, 4 * TRAINED).rope.far_factor == 3);
    assert_true(config_under("self-extend:9", &base, 2 * TRAINED).rope.far_factor == 9);
    /* Within the trained length nothing is far, unless the window is given. */
    static const char *const names[] = {"rerope", "leaky", "self-extend"};
    for (int i = 0; i < 3; i++)
        assert_int_equal(config_under(names[i], &base, TRAINED).rope.far, GYRE_FAR_AS_NEAR);
    assert_int_equal(config_under("rerope:64", &base, TRAINED).rope.far, GYRE_FAR_CLAMPED);
    /* Another method resets a far rotation; none keeps it. */
    assert_int_equal(config_under("ntk", &clamped, 4 * TRAINED).rope.far, GYRE_FAR_AS_NEAR);
    assert_int_equal(config_under("none", &clamped, 4 * TRAINED).rope.far, GYRE_FAR_CLAMPED);
}

/* out = the distance by which a query at m and a key at n turn, m >= n >= 0: the formulas of gyre.h. */
static int64_t turned_by(const gyre_config *c, int64_t m, int64_t n) {
    const int64_t window = c->rope.far_window, group = (int64_t)c->rope.far_factor;
    const int paper = c->rope.far == GYRE_FAR_CHUNKED_PAPER;
    if (c->rope.far == GYRE_FAR_CLAMPED) return m - n < window ? m - n : window;
    if (c->rope.far == GYRE_FAR_GROUPED) return m - n < window ? m - n : m / group - n / group + window - window / group;
    const int64_t size = c->rope.chunk.size, chunk = size - c->rope.chunk.local, apart = m / chunk - n / chunk;
    const int64_t cap = size - paper, last = paper || 2 * chunk - 1 > size ? cap : 2 * chunk - 1;
    if (apart == 0) return m - n;
    const int64_t query = apart > 1 ? last : chunk + m % chunk < cap ? chunk + m % chunk : cap;
    return query - n % chunk;
}

/* The first distance of two tokens that some place turns otherwise, by trying them all. */
static void first_far_changes(void **state) {
    (void)state;
    enum { PLACES = 90 };
    int tried = 0;
    for (int64_t size = 2; size < 24; size++)
        for (int64_t local = 1; local < 24; local++)
            for (gyre_far far = GYRE_FAR_CLAMPED; far <= GYRE_FAR_CHUNKED_PAPER; far++) {
                gyre_config c = GYRE_INIT(gyre_config);
                const int is_chunked = far == GYRE_FAR_CHUNKED || far == GYRE_FAR_CHUNKED_PAPER;
                if (far == GYRE_FAR_LEAKY || (is_chunked && local >= size)) continue;
                c.kind = GYRE_KIND_ROPE;
                c.rope.far = far;
                if (is_chunked) c.rope.chunk.size = size, c.rope.chunk.local = local;
                if (!is_chunked) c.rope.far_window = size, c.rope.far_factor = (double)local;
                int64_t first = -1;
                for (int64_t d = 1; d < PLACES && first < 0; d++)
                    for (int64_t m = d; m < PLACES + d; m++)
                        if (turned_by(&c, m, m - d) != d) first = d;
                if (far_first_change(&c) != first)
                    fail_msg("far %d, %lld, %lld: %lld, not %lld", (int)far, (long long)size, (long long)local,
                             (long long)far_first_change(&c), (long long)first);
                tried++;
            }
    assert_true(tried > 1000);
    gyre_config near = GYRE_INIT(gyre_config);
    assert_int_equal(far_first_change(&near), -1);
}

static void test_chunks(void **state) {
    (void)state;
    const gyre_config base = rope(), dca = config_under("dca", &base, 4 * TRAINED),
                      paper = config_under("dca-paper", &base, 4 * TRAINED), own = config_under("dca:60", &base, TRAINED);
    assert_int_equal(dca.rope.far, GYRE_FAR_CHUNKED);
    assert_int_equal(dca.rope.chunk.size, TRAINED * 3 / 4);
    assert_int_equal(dca.rope.chunk.local, TRAINED / 8);
    assert_int_equal(dca.rope.chunk.original_length, 0);
    assert_int_equal(dca.rope.far_window, 0);
    assert_true(dca.rope.far_factor == 0 && dca.rope.scaling == GYRE_SCALING_NONE);
    assert_int_equal(paper.rope.far, GYRE_FAR_CHUNKED_PAPER);
    assert_int_equal(paper.rope.chunk.size, TRAINED);
    assert_int_equal(paper.rope.chunk.local, TRAINED / 4);
    assert_int_equal(own.rope.chunk.size, 60);
    assert_int_equal(own.rope.chunk.local, 10);
    assert_int_equal(config_under("dca:3", &base, TRAINED).rope.chunk.local, 1);
    /* Within the trained length the model stays as it is; another method resets the chunks, and none keeps them. */
    assert_int_equal(config_under("dca", &base, TRAINED).rope.far, GYRE_FAR_AS_NEAR);
    assert_int_equal(config_under("rerope", &dca, 4 * TRAINED).rope.chunk.size, 0);
    assert_int_equal(config_under("none", &dca, 4 * TRAINED).rope.chunk.size, dca.rope.chunk.size);
}

static void test_modifiers(void **state) {
    (void)state;
    const gyre_config base = rope();
    const gyre_config sharp = config_under("yarn:4+logn", &base, 4 * TRAINED),
                      whole = config_under("ntk+resonance", &base, 2048);
    assert_int_equal(sharp.query.temperature, GYRE_TEMPERATURE_LOG);
    assert_int_equal(sharp.query.reference_length, TRAINED);
    assert_int_equal(sharp.rope.scaling, GYRE_SCALING_YARN);
    assert_int_equal(sharp.rope.resonance, 0);
    assert_int_equal(whole.rope.resonance, 1);
    assert_int_equal(whole.query.temperature, GYRE_TEMPERATURE_NONE);
    /* A model trained with integer wavelengths keeps them integer under a method: Resonance YaRN. */
    assert_int_equal(config_under("yarn:4", &whole, 2048).rope.resonance, 1);
    /* +logn needs no rotation. */
    gyre_config alibi = base;
    alibi.kind = GYRE_KIND_ALIBI;
    alibi.heads = 4;
    assert_int_equal(config_under("none+logn", &alibi, 2048).query.temperature, GYRE_TEMPERATURE_LOG);
    gyre_encoding *encoding = NULL;
    gyre_error err = {0, ""};
    method m;
    assert_int_equal(method_parse("none+resonance", &m, NULL), GYRE_OK);
    assert_int_equal(method_encoding(&m, &alibi, TRAINED, 2048, NULL, &encoding, &err), GYRE_EUNSUPPORTED);
    assert_non_null(strstr(err.text, "method none+resonance: the model has no rotation"));
    assert_int_equal(method_parse("none+logn", &m, NULL), GYRE_OK);
    assert_int_equal(method_encoding(&m, &base, 1, 2048, NULL, &encoding, &err), GYRE_EINVAL);
    assert_int_equal(method_parse("rerope", &m, NULL), GYRE_OK);
    assert_int_equal(method_encoding(&m, &base, 3, 2048, NULL, &encoding, &err), GYRE_EINVAL);
    assert_non_null(strstr(err.text, "leaves no window"));
}

/* Every scaled wavelength is the nearest integer. */
static void test_resonance_rounds_what_is_scaled(void **state) {
    (void)state;
    const gyre_config base = rope();
    const double turn = 2 * acos(-1);
    double plain[PAIRS], rounded[PAIRS];
    static const char *const texts[][2] = {{"none", "none+resonance"}, {"yarn:4", "yarn:4+resonance"}};
    for (int t = 0; t < 2; t++) {
        frequencies(texts[t][0], &base, 4 * TRAINED, plain, NULL);
        frequencies(texts[t][1], &base, 4 * TRAINED, rounded, NULL);
        for (int i = 0; i < PAIRS; i++)
            assert_close(turn / rounded[i], round(turn / plain[i]));
    }
}

/* Su, kexue.fm 9706: pair m = 1 .. d / 2 is divided by exp(a m^b), a (d / 2)^b = ln k, b = 0.625. */
static void test_ntk_mixed(void **state) {
    (void)state;
    const gyre_config base = rope();
    static const struct {
        const char *text;
        double factor;
    } cases[] = {{"ntk-mixed:8", 8}, {"ntk-mixed", 4}};
    for (int c = 0; c < 2; c++) {
        double inv_freq[PAIRS];
        const double a = log(cases[c].factor) / pow(PAIRS, 0.625);
        frequencies(cases[c].text, &base, 4 * TRAINED, inv_freq, NULL);
        for (int i = 0; i < PAIRS; i++)
            assert_close(inv_freq[i], theta(base_of_model, i) / exp(a * pow(i + 1, 0.625)));
    }
}

/* Llama 3.1: over the trained length, pairs of fewer than 1 turn are divided by the factor, pairs of more than 4 stay, and
 * between them frequencies are mixed by the turns. */
static void test_llama3(void **state) {
    (void)state;
    const gyre_config base = rope();
    double inv_freq[PAIRS];
    int kept = 0, blended = 0, divided = 0;
    frequencies("llama3:8", &base, 4 * TRAINED, inv_freq, NULL);
    for (int i = 0; i < PAIRS; i++) {
        const double turns = TRAINED * theta(base_of_model, i) / (2 * acos(-1)), share = (turns - 1) / 3;
        const double part = share < 0 ? 0 : share > 1 ? 1 : share;
        assert_close(inv_freq[i], theta(base_of_model, i) * (part + (1 - part) / 8));
        kept += part == 1;
        divided += part == 0;
        blended += part > 0 && part < 1;
    }
    assert_true(kept > 0 && blended > 0 && divided > 0);
}

/* The group is the smallest that fits, found without a step for each smaller one. */
static void groups_of_vast_contexts(void **state) {
    (void)state;
    const int64_t vast = INT64_C(1) << 40;
    method m;
    assert_int_equal(method_parse("self-extend", &m, NULL), GYRE_OK);
    for (int64_t trained = 4; trained <= 40; trained++)
        for (int64_t context = trained + 1; context < 3000; context += 7) {
            const int64_t window = trained / 2;
            int64_t group = 1;
            while ((context - 1) / group + window - window / group > trained - 1)
                group++;
            assert_true(method_factor(&m, trained, context) == (double)group);
        }
    /* 1 + floor((2^40 - 1) / 2): a loop over all groups would take hours. */
    assert_true(method_factor(&m, 4, vast) == (double)(vast / 2));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(groups_of_vast_contexts),
        cmocka_unit_test(test_methods_that_need_a_number),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_wrong_names),
        cmocka_unit_test(test_lists),
        cmocka_unit_test(test_static_factor_ignores_the_context),
        cmocka_unit_test(test_no_factor_follows_the_context),
        cmocka_unit_test(test_dynamic),
        cmocka_unit_test(test_none_keeps_the_scaling),
        cmocka_unit_test(test_betas),
        cmocka_unit_test(test_methods_stretch_slopes),
        cmocka_unit_test(test_slopes_and_rotations_are_told_apart),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_modifiers_are_read),
        cmocka_unit_test(test_far_rotations),
        cmocka_unit_test(first_far_changes),
        cmocka_unit_test(test_chunks),
        cmocka_unit_test(test_modifiers),
        cmocka_unit_test(test_resonance_rounds_what_is_scaled),
        cmocka_unit_test(test_ntk_mixed),
        cmocka_unit_test(test_llama3),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
