/* test_accuracy_bounds.c: what gyre explain --accuracy and gyre diff --accuracy compute of a config that states any width of
 * a head and any number of kinds of layers.  Work is counted in angles. */
#include "run_command.h"
#include "tools/explain/explain_accuracy.h"
#include <math.h>

static const double base = 500000;

/* Of one group. */
static void compute(explain_accuracy *out, const explain_stats *stats) {
    explain_accuracy *made = NULL;
    gyre_error err = {0, ""};
    if (explain_accuracy_compute(&made, &stats, 1, &err)) fail_msg("%s", err.text);
    *out = *made;
    explain_accuracy_free(&made, 1);
}

static gyre_encoding *wide_encoding(int64_t dim, double own_base, gyre_scaling scaling) {
    gyre_config c = GYRE_INIT(gyre_config);
    c.kind = GYRE_KIND_ROPE;
    c.head_dim = dim;
    c.trained_length = 8192;
    c.rope.base = own_base;
    c.rope.scaling = scaling;
    c.rope.factor = scaling ? 2 : 0;
    return test_encoding(&c);
}

static explain_stats stats_of(const gyre_encoding *e) {
    return (explain_stats){
        .config = gyre_encoding_get_config(e), .pairs = gyre_encoding_get_config(e)->rope.dim / 2, .trained = 8192};
}

/* The accuracy of the widest head that is measured in full, and of two that are sampled; each is computed once. */
static explain_accuracy of_512, of_2048, of_65536;

/* A file may state any width of a head.  One of 512 channels is measured as ever, and none takes more angles than it. */
static void wide_heads_take_no_more_work(void **state) {
    (void)state;
    static const struct {
        int64_t dim, keys, every, last, of_doubling, queries, ratio;
        int like_another; /* with GYRE_TEST_ALL */
    } cases[] = {{128, 64, 32768, 16, 2, 8, 8, 0},  {512, 64, 8192, 16, 2, 8, 8, 0}, {1024, 64, 1024, 16, 2, 8, 8, 1},
                 {2048, 32, 512, 16, 2, 8, 8, 0},   {8192, 8, 64, 16, 2, 8, 8, 1},   {16384, 4, 32, 8, 1, 2, 64, 0},
                 {65536, 1, 8, 2, 1, 1, 1 << 24, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (cases[i].like_another && !test_all()) continue;
        gyre_encoding *e = wide_encoding(cases[i].dim, base, GYRE_SCALING_NONE);
        const explain_stats stats = stats_of(e);
        explain_accuracy a;
        compute(&a, &stats);
        assert_int_equal(a.keys, cases[i].keys);
        assert_int_equal(a.every, cases[i].every);
        assert_int_equal(a.of_octave, cases[i].every / 4);
        assert_int_equal(a.last, cases[i].last);
        assert_int_equal(a.search_of_doubling, cases[i].of_doubling);
        assert_int_equal(a.search_queries, cases[i].queries);
        assert_int_equal(a.distance_ratio, cases[i].ratio);
        for (int t = 0; t < 3; t++) /* a sample of as many numbers */
            assert_true(fabs(a.kept[3 + t] - (double[]){0x1p-11 * 0.42, 0x1p-8 * 0.42, 0.0052}[t]) < 0.1 * a.kept[3 + t]);
        assert_int_equal(isnan(a.kept[2]), cases[i].dim > 1024); /* gyre_cache takes no wider head */
        assert_true(a.error[0][0] > 0 && a.error[0][0] < 0x1p-24);
        if (cases[i].dim == 512) of_512 = a;
        if (cases[i].dim == 2048) of_2048 = a;
        if (cases[i].dim == 65536) of_65536 = a;
        if (cases[i].dim > 512 && a.angles > of_512.angles)
            fail_msg("%lld channels: %lld angles, %lld of 512", (long long)cases[i].dim, (long long)a.angles,
                     (long long)of_512.angles);
        gyre_encoding_free(e);
    }
}

/* Frequencies that follow the length are computed for each context, and at each position of the search. */
static void wide_heads_that_follow_take_no_more_work(void **state) {
    (void)state;
    static const int64_t dims[] = {512, 65536};
    int64_t angles[2];
    for (int i = 0; i < 2; i++) {
        gyre_encoding *e = wide_encoding(dims[i], base, GYRE_SCALING_DYNAMIC_NTK);
        const explain_stats stats = stats_of(e);
        explain_accuracy a;
        compute(&a, &stats);
        assert_true(a.follows_length);
        angles[i] = a.angles;
        gyre_encoding_free(e);
    }
    if (angles[1] > angles[0]) fail_msg("%lld angles, %lld of 512", (long long)angles[1], (long long)angles[0]);
}

/* Groups that turn alike have one accuracy; many that do not share the work of four. */
static void groups_share_the_work(void **state) {
    (void)state;
    enum { GROUPS = 12 };
    gyre_encoding *encodings[GROUPS];
    explain_stats stats[GROUPS];
    const explain_stats *list[GROUPS];
    explain_accuracy *made[GROUPS];
    gyre_error err = {0, ""};
    int64_t all = 0;
    for (int i = 0; i < GROUPS; i++) {
        encodings[i] = wide_encoding(512, i < GROUPS / 2 ? base : base + i, GYRE_SCALING_NONE);
        stats[i] = stats_of(encodings[i]);
        list[i] = &stats[i];
    }
    assert_true(of_512.angles > 0);
    assert_ok(explain_accuracy_compute(made, list, GROUPS, &err));
    for (int i = 0; i < GROUPS; i++) {
        assert_int_equal(made[i] == made[0], i < GROUPS / 2);
        all += i == 0 || made[i] != made[0] ? made[i]->angles : 0;
    }
    if (all > 4 * of_512.angles) fail_msg("%lld angles, %lld of one", (long long)all, (long long)of_512.angles);
    explain_accuracy_free(made, GROUPS);
    const int few = GROUPS / 2 + (test_all() ? 2 : 1); /* three kinds, or two: each as if alone */
    assert_ok(explain_accuracy_compute(made, list, few, &err));
    assert_true(made[0]->angles == of_512.angles && explain_accuracy_equal(made[0], &of_512));
    explain_accuracy_free(made, few);
    for (int i = 0; i < GROUPS; i++)
        gyre_encoding_free(encodings[i]);
}

static void too_many_pairs_are_refused(void **state) {
    (void)state;
    gyre_encoding *e[] = {wide_encoding(65536, base, GYRE_SCALING_NONE), wide_encoding(128, base, GYRE_SCALING_NONE)};
    const explain_stats stats[] = {stats_of(e[0]), stats_of(e[1])}, *list[] = {&stats[0], &stats[1]};
    explain_accuracy *made[2];
    gyre_error err = {0, ""};
    assert_int_equal(explain_accuracy_compute(made, list, 2, &err), GYRE_EUNSUPPORTED);
    assert_non_null(strstr(err.text, "32832 pairs in all kinds of layers; the most is 32768; --layer-type picks some"));
    assert_true(!made[0] && !made[1]);
    gyre_encoding_free(e[0]);
    gyre_encoding_free(e[1]);
}

static void what_was_sampled_is_said(void **state) {
    (void)state;
    char text[1024];
    write_file("wide.json", text,
               (size_t)snprintf(text, sizeof text,
                                "{\"model_type\": \"llama\", \"hidden_size\": 65536, \"num_attention_heads\": 1,\n"
                                " \"num_hidden_layers\": 2, \"max_position_embeddings\": 8192, \"head_dim\": 65536}\n"));
    const outcome *o = run("explain @wide.json --accuracy");
    assert_int_equal(o->exit, 0);
    assert_non_null(strstr(o->out, "measured: all positions below 8; from there on 2 of each doubling, and the last 2"));
    assert_non_null(strstr(o->out, "at 1 position of each doubling"));
    assert_non_null(strstr(o->out, "1 query instead of 8"));
    assert_true(of_65536.angles > 0);
    json_t *json = explain_accuracy_json(&of_65536);
    const json_t *search = json_object_get(json, "search");
    assert_int_equal(test_integer(search, "of_each_doubling"), 1);
    assert_int_equal(test_integer(search, "queries"), 1);
    assert_int_equal(test_integer(search, "distance_ratio"), 1 << 24);
    json_decref(json);
}

/* Any number or reason that is shown tells two apart. */
static void equality_is_of_all_that_is_shown(void **state) {
    (void)state;
    const explain_accuracy a = of_2048; /* gyre_cache takes no such head: NAN */
    explain_accuracy b = a;
    const double changed = 1;
    assert_true(a.angles > 0);
    double *const numbers[] = {&b.error[2][b.count - 1], &b.rounding,         &b.kept[0],         &b.kept[5],
                               &b.shifted[4][2],         &b.attention_factor, &b.table_factor[3], &b.factor_moves[5]};
    assert_true(explain_accuracy_equal(&a, &b));
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        b = a;
        *numbers[i] = *numbers[i] == changed ? 2 : changed;
        if (explain_accuracy_equal(&a, &b)) fail_msg("number %zu", i);
    }
    int64_t *const integers[] = {&b.lengths[1],       &b.every,          &b.of_octave,         &b.last,
                                 &b.largest_position, &b.moves_from[7],  &b.search_end,        &b.keys,
                                 &b.search_queries,   &b.distance_ratio, &b.search_of_doubling};
    for (size_t i = 0; i < sizeof integers / sizeof *integers; i++) {
        b = a;
        ++*integers[i];
        if (explain_accuracy_equal(&a, &b)) fail_msg("integer %zu", i);
    }
    b = a;
    b.follows_length = !a.follows_length;
    assert_false(explain_accuracy_equal(&a, &b));
    b = a;
    b.count--;
    assert_false(explain_accuracy_equal(&a, &b));
    b = a;
    snprintf(b.reason[6], sizeof b.reason[6], "another");
    assert_false(explain_accuracy_equal(&a, &b));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wide_heads_take_no_more_work), cmocka_unit_test(wide_heads_that_follow_take_no_more_work),
        cmocka_unit_test(groups_share_the_work),        cmocka_unit_test(too_many_pairs_are_refused),
        cmocka_unit_test(what_was_sampled_is_said),     cmocka_unit_test(equality_is_of_all_that_is_shown),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
