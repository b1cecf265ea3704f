/* test_clipped_methods.c: clipped RoPE as a method and a modifier, and LongRoPE's start tokens as a modifier. */
#include "method_frequencies.h"

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

/* Pairs that make no whole turn in training, or as many as the number says, after the model's own scaling or another. */
static void test_clipped(void **state) {
    (void)state;
    gyre_config base = rope();
    const double turn = 2 * acos(-1);
    int unfinished = 0;
    for (int i = 0; i < PAIRS; i++)
        unfinished += turn / theta(base_of_model, i) > TRAINED;
    assert_in_range(unfinished, 3, PAIRS - 3);
    static const struct {
        const char *text, *plain;
        gyre_clip mode;
        int pairs; /* 0 = the unfinished ones */
    } cases[] = {{"clipped", "none", GYRE_CLIP_SOFT, 0},
                 {"clipped:5", "none", GYRE_CLIP_SOFT, 5},
                 {"clipped-hard", "none", GYRE_CLIP_HARD, 0},
                 {"none+clipped-hard:3", "none", GYRE_CLIP_HARD, 3},
                 {"yarn:4+clipped:7", "yarn:4", GYRE_CLIP_SOFT, 7},
                 {"ntk+clipped-hard:4", "ntk", GYRE_CLIP_HARD, 4},
                 {"linear+clipped+logn", "linear", GYRE_CLIP_SOFT, 0}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        method m;
        double plain[PAIRS], clipped[PAIRS];
        assert_int_equal(method_parse(cases[c].text, &m, NULL), GYRE_OK);
        assert_false(method_is_none(&m));
        const int n = cases[c].pairs ? cases[c].pairs : unfinished;
        const gyre_config config = config_under(cases[c].text, &base, 4 * TRAINED);
        assert_int_equal(config.rope.clip.mode, cases[c].mode);
        assert_int_equal(config.rope.clip.pairs, n);
        frequencies(cases[c].plain, &base, 4 * TRAINED, plain, NULL);
        frequencies(cases[c].text, &base, 4 * TRAINED, clipped, NULL);
        for (int i = 0; i < PAIRS; i++) {
            const int j = i - (PAIRS - n);
            const double soft = 0.5 * (1 + cos(acos(-1) * j / (n - 1)));
            const double share = j < 0 ? 1 : cases[c].mode == GYRE_CLIP_HARD ? 0 : soft;
            if (!(fabs(clipped[i] - plain[i] * share) <= 1e-12 * plain[i])) fail_msg("%s: pair %d", cases[c].text, i);
        }
    }
    /* The model's scaling stays, and so does its clip under another method. */
    base.rope.scaling = GYRE_SCALING_LINEAR;
    base.rope.factor = 3;
    const gyre_config kept = config_under("clipped:6", &base, 4 * TRAINED);
    assert_true(kept.rope.scaling == GYRE_SCALING_LINEAR && kept.rope.factor == 3);
    assert_int_equal(config_under("yarn:4", &kept, 4 * TRAINED).rope.clip.pairs, 6);
    /* More pairs than the model turns are not clipped, in the place of what was asked for. */
    method many;
    gyre_config none;
    gyre_error refusal = {0, ""};
    assert_int_equal(config_under("clipped:16", &base, 4 * TRAINED).rope.clip.pairs, PAIRS);
    assert_int_equal(method_parse("yarn:4+clipped-hard:17", &many, NULL), GYRE_OK);
    assert_int_equal(method_config(&many, &base, TRAINED, 4 * TRAINED, NULL, &none, &refusal), GYRE_EINVAL);
    assert_string_equal(refusal.text,
                        "method yarn:4+clipped-hard:17: the model rotates 16 pairs, so no more can be clipped");
    /* Where all pairs make a turn none is clipped.  Without a rotation, or a length to count over, there is an error. */
    base = rope();
    base.trained_length = 1 << 20;
    assert_int_equal(config_under("clipped", &base, 1 << 20).rope.clip.mode, GYRE_CLIP_NONE);
    gyre_encoding *encoding = NULL;
    gyre_error err = {0, ""};
    method m;
    assert_int_equal(method_parse("clipped", &m, NULL), GYRE_OK);
    assert_int_equal(method_encoding(&m, &base, 0, 2048, NULL, &encoding, &err), GYRE_EINVAL);
    assert_non_null(strstr(err.text, "does not say its trained length"));
    base.kind = GYRE_KIND_ALIBI;
    base.heads = 4;
    assert_int_equal(method_encoding(&m, &base, TRAINED, 2048, NULL, &encoding, &err), GYRE_EUNSUPPORTED);
    assert_non_null(strstr(err.text, "method clipped: the model has no rotation"));
    assert_int_equal(method_parse("linear+clipped", &m, NULL), GYRE_OK);
    assert_int_equal(method_encoding(&m, &base, TRAINED, 2048, NULL, &encoding, &err), GYRE_EUNSUPPORTED);
}

static void test_start_tokens(void **state) {
    (void)state;
    double lists[PAIRS];
    for (int i = 0; i < PAIRS; i++)
        lists[i] = 1 + i / 4.0;
    gyre_config base = rope();
    base.rope.scaling = GYRE_SCALING_LONGROPE;
    base.rope.factor = 4;
    base.rope.short_factor = base.rope.long_factor = lists;
    gyre_config paper = config_under("none+start:4", &base, 4 * TRAINED),
                released = config_under("none+logn+start-released:9", &base, 4 * TRAINED);
    assert_true(paper.rope.longrope.start_tokens == 4 && paper.rope.longrope.starts == GYRE_LONGROPE_START_PAPER);
    assert_true(released.rope.longrope.start_tokens == 9 && released.rope.longrope.starts == GYRE_LONGROPE_START_RELEASED);
    paper.rope.short_factor = paper.rope.long_factor = lists; /* those of the encoding are gone */
    assert_int_equal(config_under("none", &paper, 4 * TRAINED).rope.longrope.start_tokens, 4);
    assert_int_equal(config_under("yarn", &paper, 4 * TRAINED).rope.longrope.start_tokens, 0);
    static const char *const bad[] = {"none+start",   "none+start:",         "none+start:0",
                                      "none+start:x", "none+start-released", "none+start:4+start:4"};
    gyre_error err = {0, ""};
    method m;
    for (int i = 0; i < 6; i++) {
        assert_int_equal(method_parse(bad[i], &m, &err), GYRE_EINVAL);
        assert_non_null(strstr(err.text, i == 5 ? "two kinds of start tokens" : "needs a number of start tokens"));
    }
    gyre_encoding *encoding = NULL;
    assert_int_equal(method_parse("yarn:4+start:4", &m, &err), GYRE_OK);
    assert_false(method_is_none(&m));
    assert_int_equal(method_encoding(&m, &base, TRAINED, 2048, NULL, &encoding, &err), GYRE_EINVAL);
    assert_non_null(strstr(err.text, "another scaling than longrope"));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_clipped), cmocka_unit_test(test_start_tokens)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
