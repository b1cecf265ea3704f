/* test_rerotate.c: keys of one encoding made those of another: what gyre_rotate gives from raw keys, in one rounding. */
#include "core/convert.h"
#include "gyre/gyre_cache.h"
#include "support.h"

#include <math.h>
#include <string.h>

enum { BATCH = 2, TOKENS = 37, HEADS = 3, DIM = 24, ALL = BATCH * TOKENS * HEADS * DIM };

static void fill_random(double *x, uint64_t seed) {
    test_random random = {seed};
    for (int i = 0; i < ALL; i++)
        x[i] = (double)(int64_t)test_next(&random) * 0x1p-63;
}

static gyre_view view_of(void *data, gyre_dtype dtype) {
    return gyre_dense(data, dtype, BATCH, TOKENS, HEADS, DIM);
}

static void rotate_keys(const gyre_encoding *e, const gyre_positions *at, const double *in, double *out) {
    const gyre_cview from = gyre_cdense(in, GYRE_DTYPE_F64, BATCH, TOKENS, HEADS, DIM);
    const gyre_view to = view_of(out, GYRE_DTYPE_F64);
    assert_ok(gyre_rotate(e, GYRE_ARGS(gyre_rotate_args, .role = GYRE_ROLE_KEY, .positions = at, .in = from, .out = to),
                          NULL, NULL));
}

static gyre_config config_of(gyre_layout layout) {
    gyre_config config = test_rope_config(DIM, layout);
    config.rope.first_channel = 2;
    config.rope.dim = 16;
    config.trained_length = 512;
    return config;
}

/* The law that defines the call, for a pair of configs. */
static void assert_becomes(const gyre_config *old_config, const gyre_config *new_config, const gyre_positions *p,
                           const gyre_positions *q) {
    static double raw[ALL], keys[ALL], want[ALL];
    gyre_encoding *old_one = test_encoding(old_config), *new_one = test_encoding(new_config);
    fill_random(raw, 5);
    rotate_keys(old_one, p, raw, keys);
    rotate_keys(new_one, q, raw, want);
    const gyre_view in_place = view_of(keys, GYRE_DTYPE_F64);
    const gyre_cview in = gyre_const(in_place);
    assert_ok(gyre_rerotate(GYRE_ARGS(gyre_rerotate_args, .before = old_one, .after = new_one, .old_positions = p,
                                      .new_positions = q, .in = in, .out = in_place),
                            NULL, NULL));
    for (int i = 0; i < ALL; i++)
        test_close(keys[i], want[i], 1e-13L, "a key");
    gyre_encoding_free(old_one);
    gyre_encoding_free(new_one);
}

static const gyre_positions here = {.base = 70000}, there = {.base = -1234};

static void another_base_factor_and_list(void **state) {
    (void)state;
    static const double short_list[8] = {1, 1, 1.1, 1.2, 1.3, 1.5, 2, 3}, long_list[8] = {1, 1.5, 2, 3, 5, 8, 13, 21};
    for (int layout = GYRE_LAYOUT_HALF; layout <= GYRE_LAYOUT_INTERLEAVED_TO_HALF; layout++) {
        const gyre_config plain = config_of((gyre_layout)layout);
        gyre_config base = plain, yarn = plain, list = plain, clockwise = plain;
        base.rope.base = 500000;
        yarn.rope.scaling = GYRE_SCALING_YARN;
        yarn.rope.factor = 8;
        list.rope.scaling = GYRE_SCALING_LONGROPE;
        list.rope.factor = 16;
        list.rope.short_factor = short_list;
        list.rope.long_factor = long_list;
        list.context_length = 512;
        clockwise.rope.clockwise = 1;
        assert_becomes(&plain, &base, &here, &here);
        assert_becomes(&plain, &yarn, &here, &there);
        assert_becomes(&yarn, &plain, &there, &here);
        assert_becomes(&list, &yarn, &here, &there);
        assert_becomes(&clockwise, &plain, &here, &there);
        const gyre_positions short_use = {.base = 3, .context_length = 512}, long_use = {.base = 3, .context_length = 8192};
        assert_becomes(&list, &list, &short_use, &long_use); /* LongRoPE past its switch */
    }
}

static void several_axes(void **state) {
    (void)state;
    int64_t p[3][BATCH][TOKENS];
    int32_t q[BATCH][TOKENS][3];
    for (int a = 0; a < 3; a++)
        for (int b = 0; b < BATCH; b++)
            for (int t = 0; t < TOKENS; t++) {
                p[a][b][t] = 31 * t * (a + 1) + b;
                q[b][t][a] = 7 * t - 100 * a * b;
            }
    const gyre_positions at = {p, GYRE_DTYPE_I64, 0, 0, TOKENS, 1, (int64_t)BATCH * TOKENS, 0},
                         to = {q, GYRE_DTYPE_I32, 0, 0, (int64_t)TOKENS * 3, 3, 1, 0};
    gyre_config config = config_of(GYRE_LAYOUT_HALF);
    config.rope.axes = 3;
    config.rope.axis_pairs[0] = 2;
    config.rope.axis_pairs[1] = 3;
    config.rope.axis_pairs[2] = 3;
    gyre_config interleaved = config;
    interleaved.rope.axes_layout = GYRE_AXES_INTERLEAVED;
    interleaved.rope.axis_pairs[0] = 3;
    interleaved.rope.axis_pairs[2] = 2;
    assert_becomes(&config, &config, &at, &to);
    assert_becomes(&config, &interleaved, &at, &to);
}

/* A shift under YaRN and temperature: the factor was applied when the key was written, and is not applied again. */
static void factors_are_applied_once(void **state) {
    (void)state;
    static double raw[ALL], keys[ALL];
    gyre_config config = config_of(GYRE_LAYOUT_HALF);
    config.rope.scaling = GYRE_SCALING_YARN;
    config.rope.factor = 32;
    gyre_encoding *e = test_encoding(&config);
    fill_random(raw, 9);
    memcpy(keys, raw, sizeof raw);
    const gyre_view view = view_of(keys, GYRE_DTYPE_F64);
    const gyre_cview in = gyre_const(view);
    for (int64_t i = 0; i < 100; i++) {
        const gyre_positions from = {.base = 1000 - i}, to = {.base = 999 - i};
        assert_ok(gyre_rerotate(GYRE_ARGS(gyre_rerotate_args, .before = e, .after = e, .old_positions = &from,
                                          .new_positions = &to, .in = in, .out = view),
                                NULL, NULL));
    }
    for (int r = 0; r < BATCH * TOKENS * HEADS; r++) {
        double before = 0, after = 0;
        for (int c = 0; c < DIM; c++) {
            before += raw[r * DIM + c] * raw[r * DIM + c];
            after += keys[r * DIM + c] * keys[r * DIM + c];
        }
        test_close(after, before, 1e-12L, "the length of a key");
    }
    gyre_encoding_free(e);
}

static void store_all(const double *in, gyre_dtype dtype, void *out) {
    gyre_store_row_f64(in, ALL, out, dtype, 1);
}

/* Every type: the bits of the double result of the same stored keys, rounded once; channels apart copied; any strides. */
static void any_type_is_rounded_once(void **state) {
    (void)state;
    static double raw[ALL], wide[ALL];
    static uint64_t in[ALL], out[ALL], want[ALL], apart[2 * ALL];
    gyre_config a = config_of(GYRE_LAYOUT_INTERLEAVED), b = a;
    b.rope.base = 1e6;
    gyre_encoding *before = test_encoding(&a), *after = test_encoding(&b);
    fill_random(raw, 3);
    static const gyre_dtype types[] = {GYRE_DTYPE_F32, GYRE_DTYPE_F16, GYRE_DTYPE_BF16, GYRE_DTYPE_F64};
    for (int i = 0; i < 4; i++) {
        const size_t size = gyre_dtype_size(types[i]);
        store_all(raw, types[i], in);
        gyre_load_row_f64(in, types[i], 1, ALL, wide);
        const gyre_view doubles = view_of(wide, GYRE_DTYPE_F64), dense = view_of(out, types[i]);
        const gyre_cview from = gyre_cdense(in, types[i], BATCH, TOKENS, HEADS, DIM), same = gyre_const(doubles);
        assert_ok(gyre_rerotate(GYRE_ARGS(gyre_rerotate_args, .before = before, .after = after, .old_positions = &here,
                                          .new_positions = &there, .in = same, .out = doubles),
                                NULL, NULL));
        store_all(wide, types[i], want);
        assert_ok(gyre_rerotate(GYRE_ARGS(gyre_rerotate_args, .before = before, .after = after, .old_positions = &here,
                                          .new_positions = &there, .in = from, .out = dense),
                                NULL, NULL));
        assert_memory_equal(out, want, ALL * size);
        /* [token][channel][head][batch], channels backwards, on several threads */
        gyre_view strided = {(char *)apart + (size_t)(DIM - 1) * HEADS * BATCH * size,
                             types[i],
                             {BATCH, TOKENS, HEADS, DIM},
                             {1, (int64_t)DIM * HEADS * BATCH, BATCH, -(int64_t)HEADS * BATCH}};
        gyre_pool *pool = NULL;
        assert_ok(gyre_pool_create(&pool, 3, NULL));
        const gyre_exec exec = gyre_pool_exec(pool);
        assert_ok(gyre_rerotate(GYRE_ARGS(gyre_rerotate_args, .before = before, .after = after, .old_positions = &here,
                                          .new_positions = &there, .in = from, .out = strided),
                                &exec, NULL));
        gyre_pool_free(pool);
        for (int64_t e = 0; e < ALL; e++) {
            const int64_t c = e % DIM, h = e / DIM % HEADS, t = e / DIM / HEADS % TOKENS, n = e / DIM / HEADS / TOKENS;
            const int64_t place =
                n * strided.stride[0] + t * strided.stride[1] + h * strided.stride[2] + c * strided.stride[3];
            assert_memory_equal((char *)strided.data + place * (int64_t)size, (char *)want + (size_t)e * size, size);
        }
    }
    gyre_encoding_free(before);
    gyre_encoding_free(after);
}

static void assert_refused(const gyre_config *after_config, gyre_status status, const char *text) {
    static float keys[ALL], kept[ALL];
    const gyre_config plain = config_of(GYRE_LAYOUT_HALF);
    gyre_encoding *before = test_encoding(&plain), *after = test_encoding(after_config);
    gyre_error err;
    for (int i = 0; i < ALL; i++)
        keys[i] = kept[i] = (float)i;
    const gyre_view view = view_of(keys, GYRE_DTYPE_F32);
    const gyre_cview in = gyre_const(view);
    assert_int_equal(gyre_rerotate(GYRE_ARGS(gyre_rerotate_args, .before = before, .after = after, .old_positions = &here,
                                             .new_positions = &there, .in = in, .out = view),
                                   NULL, &err),
                     status);
    assert_string_equal(err.text, text);
    assert_memory_equal(keys, kept, sizeof keys);
    gyre_encoding_free(before);
    gyre_encoding_free(after);
}

static void wrong_encodings_are_refused(void **state) {
    (void)state;
    gyre_config other = config_of(GYRE_LAYOUT_INTERLEAVED);
    assert_refused(&other, GYRE_EINVAL, "after: rope.layout 1, but the keys are rotated in 0 (gyre_rerotate)");
    other = config_of(GYRE_LAYOUT_HALF);
    other.rope.dim = 8;
    assert_refused(&other, GYRE_ESHAPE,
                   "after: rotates 8 channels from 2 on, but the keys are rotated in 16 from 2 on (gyre_rerotate)");
    other = config_of(GYRE_LAYOUT_HALF);
    other.rope.xpos_base = 512;
    assert_refused(&other, GYRE_EUNSUPPORTED, "after: xPos scales keys by their position (gyre_rerotate)");
    other = test_rope_config(2 * DIM, GYRE_LAYOUT_HALF);
    assert_refused(&other, GYRE_ESHAPE, "in: 24 channels a head, after has 48 (gyre_rerotate)");
    other = (gyre_config)GYRE_INIT(gyre_config);
    other.kind = GYRE_KIND_NOPE;
    assert_refused(&other, GYRE_EUNSUPPORTED, "after: nope rotates nothing (gyre_rerotate)");
}

static void wrong_arguments_are_refused(void **state) {
    (void)state;
    static float keys[ALL];
    const gyre_config plain = config_of(GYRE_LAYOUT_HALF);
    gyre_encoding *e = test_encoding(&plain);
    gyre_error err;
    const gyre_view view = view_of(keys, GYRE_DTYPE_F32), doubles = view_of(keys, GYRE_DTYPE_F64);
    const gyre_cview in = gyre_const(view);
    const gyre_positions far_off = {.base = INT64_C(1) << 40};
    assert_int_equal(gyre_rerotate(GYRE_ARGS(gyre_rerotate_args, .after = e, .old_positions = &here, .new_positions = &there,
                                             .in = in, .out = view),
                                   NULL, &err),
                     GYRE_EINVAL);
    assert_string_equal(err.text, "before: is NULL (gyre_rerotate)");
    assert_int_equal(gyre_rerotate(GYRE_ARGS(gyre_rerotate_args, .before = e, .old_positions = &here,
                                             .new_positions = &there, .in = in, .out = view),
                                   NULL, &err),
                     GYRE_EINVAL);
    assert_int_equal(
        gyre_rerotate(GYRE_ARGS(gyre_rerotate_args, .before = e, .after = e, .new_positions = &there, .in = in, .out = view),
                      NULL, &err),
        GYRE_EINVAL);
    assert_string_equal(err.text, "old_positions: is NULL (gyre_rerotate)");
    assert_int_equal(
        gyre_rerotate(GYRE_ARGS(gyre_rerotate_args, .before = e, .after = e, .old_positions = &here, .in = in, .out = view),
                      NULL, &err),
        GYRE_EINVAL);
    gyre_cview no_in = in;
    gyre_view no_out = view;
    no_in.data = no_out.data = NULL;
    assert_int_equal(gyre_rerotate(GYRE_ARGS(gyre_rerotate_args, .before = e, .after = e, .old_positions = &here,
                                             .new_positions = &there, .in = no_in, .out = view),
                                   NULL, &err),
                     GYRE_EINVAL);
    assert_non_null(strstr(err.text, "in: has no memory for its shape"));
    assert_int_equal(gyre_rerotate(GYRE_ARGS(gyre_rerotate_args, .before = e, .after = e, .old_positions = &here,
                                             .new_positions = &there, .in = in, .out = no_out),
                                   NULL, &err),
                     GYRE_EINVAL);
    assert_non_null(strstr(err.text, "out: has no memory for its shape"));
    assert_int_equal(gyre_rerotate(NULL, NULL, &err), GYRE_EINVAL);
    assert_string_equal(err.text, "gyre_rerotate_args: is NULL (gyre_rerotate_args)");
    assert_int_equal(gyre_rerotate(GYRE_ARGS(gyre_rerotate_args, .before = e, .after = e, .old_positions = &here,
                                             .new_positions = &there, .in = in, .out = doubles),
                                   NULL, NULL),
                     GYRE_EDTYPE);
    assert_int_equal(gyre_rerotate(GYRE_ARGS(gyre_rerotate_args, .before = e, .after = e, .old_positions = &far_off,
                                             .new_positions = &there, .in = in, .out = view),
                                   NULL, &err),
                     GYRE_ERANGE);
    assert_non_null(strstr(err.text, "old_positions"));
    assert_int_equal(gyre_rerotate(GYRE_ARGS(gyre_rerotate_args, .before = e, .after = e, .old_positions = &here,
                                             .new_positions = &far_off, .in = in, .out = view),
                                   NULL, &err),
                     GYRE_ERANGE);
    assert_non_null(strstr(err.text, "new_positions"));
    gyre_encoding_free(e);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(another_base_factor_and_list), cmocka_unit_test(several_axes),
        cmocka_unit_test(factors_are_applied_once),     cmocka_unit_test(any_type_is_rounded_once),
        cmocka_unit_test(wrong_encodings_are_refused),  cmocka_unit_test(wrong_arguments_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
