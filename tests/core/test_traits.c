/* test_traits.c: what a kind says of itself is what its encodings do. */
#include "gyre/gyre_fields.h"
#include "support.h"

#include <string.h>

static gyre_encoding *encoding_of(gyre_kind kind) {
    gyre_config config = GYRE_INIT(gyre_config);
    config.kind = kind;
    config.head_dim = 8;
    config.heads = 2;
    config.input.dim = 8;
    config.trained_length = 16;
    assert_ok(gyre_config_suggest(&config));
    return test_encoding(&config);
}

static void names_are_found(void **state) {
    (void)state;
    int kinds = 0;
    for (; gyre_kind_name((gyre_kind)(kinds + 1)); kinds++)
        assert_int_equal(gyre_kind_find(gyre_kind_name((gyre_kind)(kinds + 1))), kinds + 1);
    assert_true(kinds >= GYRE_KIND_TAPA); /* the last of them when this was written */
    assert_int_equal(gyre_kind_find("Rope"), 0);
    assert_int_equal(gyre_kind_find(""), 0);
    assert_int_equal(gyre_kind_find(NULL), 0);
}

static void no_kind_has_nothing(void **state) {
    (void)state;
    static const gyre_kind none[] = {(gyre_kind)0, (gyre_kind)-1, (gyre_kind)77};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
        assert_int_equal(gyre_kind_places(none[i]), 0);
        assert_false(gyre_kind_has(none[i], GYRE_TRAIT_BIAS) || gyre_kind_has(none[i], GYRE_TRAIT_ROTATES));
    }
}

/* 1 if a number can be added to a score.  Tables of ones serve any scheme. */
static int adds_bias(const gyre_encoding *encoding) {
    enum { MOST = 4096 };
    static float ones[MOST];
    int64_t shape[4];
    float score[2] = {0};
    const gyre_positions positions = {.base = 0};
    const gyre_view scores = {score, GYRE_DTYPE_F32, {1, 1, 2, 1}, {2, 2, 1, 1}};
    assert_ok(gyre_encoding_table_shape(encoding, GYRE_TABLE_BIAS, shape));
    assert_true(shape[2] * shape[3] <= MOST);
    for (int i = 0; i < MOST; i++)
        ones[i] = 1;
    gyre_tables tables;
    memset(&tables, 0, sizeof tables);
    if (shape[2]) tables.bias = gyre_cdense(ones, GYRE_DTYPE_F32, 1, 1, shape[2], shape[3]);
    const gyre_status status = gyre_add_bias(
        encoding,
        GYRE_ARGS(gyre_add_bias_args, .tables = &tables, .queries = &positions, .keys = &positions, .scores = scores), NULL,
        NULL);
    assert_true(status == GYRE_OK || status == GYRE_EUNSUPPORTED);
    return status == GYRE_OK;
}

/* 1 if a position far past the trained length is refused, at the input or as a distance. */
static int ends(const gyre_encoding *encoding) {
    enum { FAR = 1 << 20 };
    int64_t shape[4], row;
    float x[8] = {0}, out[8];
    const gyre_positions positions = {.base = FAR};
    const gyre_cview in = gyre_cdense(x, GYRE_DTYPE_F32, 1, 1, 1, 8);
    const gyre_view to = gyre_dense(out, GYRE_DTYPE_F32, 1, 1, 1, 8);
    float table[8 * 16] = {0};
    gyre_tables tables;
    memset(&tables, 0, sizeof tables);
    assert_ok(gyre_encoding_table_shape(encoding, GYRE_TABLE_INPUT, shape));
    assert_true(shape[2] * shape[3] <= 8 * 16);
    if (shape[2]) tables.input = gyre_cdense(table, GYRE_DTYPE_F32, 1, 1, shape[2], shape[3]);
    return gyre_add_input(encoding,
                          GYRE_ARGS(gyre_add_input_args, .tables = &tables, .positions = &positions, .in = in, .out = to),
                          NULL, NULL) == GYRE_ERANGE ||
           gyre_encoding_row(encoding, FAR, 0, &row) == GYRE_ERANGE;
}

static void traits_are_what_encodings_do(void **state) {
    (void)state;
    double numbers[8];
    const char *name;
    for (int i = 1; (name = gyre_kind_name((gyre_kind)i)); i++) {
        const gyre_kind kind = (gyre_kind)i;
        gyre_encoding *encoding = encoding_of(kind);
        const struct {
            const char *what;
            int said, done;
        } traits[] = {
            {"turns", gyre_kind_has(kind, GYRE_TRAIT_ROTATES), !gyre_encoding_frequencies(encoding, 0, numbers, NULL)},
            {"has slopes", gyre_kind_has(kind, GYRE_TRAIT_SLOPES), !gyre_encoding_slopes(encoding, 0, numbers)},
            {"adds a bias", gyre_kind_has(kind, GYRE_TRAIT_BIAS), adds_bias(encoding)},
            {"ends", gyre_kind_has(kind, GYRE_TRAIT_ENDS), ends(encoding)},
            {"acts there", (int)gyre_kind_places(kind), (int)gyre_encoding_places(encoding)},
        };
        for (size_t t = 0; t < sizeof traits / sizeof *traits; t++)
            if (traits[t].said != traits[t].done)
                fail_msg("%s %s: the kind says %d, its encoding %d", name, traits[t].what, traits[t].said, traits[t].done);
        gyre_encoding_free(encoding);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_found),
        cmocka_unit_test(no_kind_has_nothing),
        cmocka_unit_test(traits_are_what_encodings_do),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
