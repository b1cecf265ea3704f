/* test_encoding.c: creation: defaults, every error, allocation failure; and the small functions of the header. */
#include "gyre/gyre_cache.h"
#include "gyre/gyre_fields.h"
#include "support.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static double ones[32];
static double broken[32];

static gyre_config rope(void) {
    return test_rope_config(64, GYRE_LAYOUT_HALF);
}

static gyre_config of(gyre_kind kind) {
    gyre_config config = GYRE_INIT(gyre_config);
    config.kind = kind;
    return config;
}

/* One case of a rule: a wrong value, and the field that the message must begin with. */
#define REFUSED(start, field_path, wrong, ...)                                                                              \
    do {                                                                                                                    \
        gyre_config config = start;                                                                                         \
        gyre_config *c = &config;                                                                                           \
        __VA_ARGS__;                                                                                                        \
        c->field_path = wrong;                                                                                              \
        assert_config_refused(c, #field_path);                                                                              \
    } while (0)

static void wrong_common_fields(void **state) {
    (void)state;
    REFUSED(rope(), size, 0, (void)0);
    REFUSED(rope(), size, 65536, (void)0);
    REFUSED(rope(), kind, (gyre_kind)77, (void)0);
    REFUSED(rope(), kind, (gyre_kind)0, (void)0); /* forgotten */
    gyre_config forgotten = GYRE_INIT(gyre_config);
    assert_config_error(&forgotten, "kind: not set; GYRE_KIND_NOPE is an encoding without positions (gyre_config)");
    assert_int_equal(gyre_config_suggest(&forgotten), GYRE_EINVAL);
    assert_null(gyre_kind_name((gyre_kind)0));
    assert_string_equal(gyre_kind_name((gyre_kind)1), "nope");
    forgotten.kind = GYRE_KIND_NOPE; /* asked for */
    gyre_encoding_free(test_encoding(&forgotten));
    REFUSED(rope(), kind, (gyre_kind)-1, (void)0);
    REFUSED(rope(), head_dim, -1, (void)0);
    REFUSED(rope(), head_dim, INT64_MAX, (void)0);
    REFUSED(rope(), heads, -1, (void)0);
    REFUSED(rope(), trained_length, -1, (void)0);
    REFUSED(of(GYRE_KIND_LEARNED), input.dim, 0, c->input.positions = 4);
    REFUSED(of(GYRE_KIND_LEARNED), input.dim, -4, c->input.positions = 4);
    REFUSED(of(GYRE_KIND_LEARNED), input.positions, 0, c->input.dim = 4);
    REFUSED(of(GYRE_KIND_LEARNED), input.positions, -1, c->input.dim = 4);
    REFUSED(of(GYRE_KIND_SINUSOIDAL), input.dim, 0, (void)0);
    REFUSED(of(GYRE_KIND_SINUSOIDAL), input.dim, 7, (void)0);
    REFUSED(of(GYRE_KIND_SINUSOIDAL), input.dim, 2, c->input.layout = GYRE_SINUSOID_SIN_COS_T2T);
    REFUSED(of(GYRE_KIND_SINUSOIDAL), input.layout, (gyre_sinusoid)9, c->input.dim = 8);
    REFUSED(of(GYRE_KIND_SINUSOIDAL), input.base, 1, c->input.dim = 8);
    REFUSED(of(GYRE_KIND_SINUSOIDAL), input.base, NAN, c->input.dim = 8);
    REFUSED(of(GYRE_KIND_ALIBI), heads, 0, (void)0);
}

static void wrong_rotations(void **state) {
    (void)state;
    REFUSED(of(GYRE_KIND_ROPE), head_dim, 0, (void)0);
    REFUSED(rope(), rope.dim, 7, (void)0);
    REFUSED(rope(), rope.dim, 66, (void)0);
    REFUSED(rope(), rope.dim, -2, (void)0);
    REFUSED(rope(), rope.layout, (gyre_layout)3, (void)0);
    REFUSED(rope(), rope.scaling, (gyre_scaling)99, (void)0);
    REFUSED(rope(), context_length, -1, (void)0);
    REFUSED(rope(), rope.table_positions, -2, (void)0);
    REFUSED(rope(), rope.base, 1, (void)0);
    REFUSED(rope(), rope.base, -10000, (void)0);
    REFUSED(rope(), rope.base, NAN, (void)0);
    REFUSED(rope(), rope.base, INFINITY, (void)0);
    REFUSED(rope(), rope.factor, 0.5, (void)0);
    REFUSED(rope(), rope.factor, NAN, (void)0);
    REFUSED(rope(), rope.attention_factor, -1, (void)0);
    REFUSED(rope(), rope.attention_factor, INFINITY, (void)0);
    REFUSED(rope(), rope.attention_factor, 0x1.fp-65, (void)0);
    REFUSED(rope(), rope.attention_factor, 0x1.1p64, (void)0);
    REFUSED(rope(), rope.mscale, 1e300,
            (c->rope.scaling = GYRE_SCALING_YARN, c->trained_length = 64, c->rope.factor = 4, c->rope.mscale_all_dim = 1));
    REFUSED(rope(), rope.mscale, -1, (void)0);
    REFUSED(rope(), rope.mscale_all_dim, NAN, (void)0);
    REFUSED(rope(), rope.beta_fast, 0.5, (void)0); /* below beta_slow's 1 */
    REFUSED(rope(), rope.beta_slow, -1, (void)0);
    REFUSED(rope(), rope.high_freq, 0.5, (void)0); /* below low_freq's 1 */
    REFUSED(rope(), rope.low_freq, NAN, (void)0);
    REFUSED(rope(), rope.proportion, 1.5, (void)0);
    REFUSED(rope(), rope.proportion, -0.5, (void)0);
    REFUSED(rope(), length_policy, (gyre_length_policy)3, (void)0);
    REFUSED(rope(), length_policy, (gyre_length_policy)-1, (void)0);
    REFUSED(rope(), length_block, -1, (void)0);
    REFUSED(rope(), length_block, (int64_t)1 << 31, (void)0);
    REFUSED(rope(), rope.dim, 2, c->rope.scaling = GYRE_SCALING_NTK);
    REFUSED(rope(), rope.dim, 2, (c->rope.scaling = GYRE_SCALING_DYNAMIC_NTK, c->trained_length = 64));
    const gyre_scaling of_length[] = {GYRE_SCALING_DYNAMIC_NTK,    GYRE_SCALING_DYNAMIC_YARN, GYRE_SCALING_BY_PARTS,
                                      GYRE_SCALING_BY_PARTS_PAPER, GYRE_SCALING_YARN,         GYRE_SCALING_LLAMA3,
                                      GYRE_SCALING_LONGROPE};
    for (size_t i = 0; i < sizeof of_length / sizeof *of_length; i++)
        REFUSED(rope(), trained_length, 0, c->rope.scaling = of_length[i]);
}

static void wrong_lists(void **state) {
    (void)state;
    static const double bad[] = {0, -1, NAN, INFINITY, 0x1.fp-11};
    gyre_config longrope = rope();
    longrope.rope.scaling = GYRE_SCALING_LONGROPE;
    longrope.trained_length = 64;
    longrope.rope.short_factor = longrope.rope.long_factor = ones;
    REFUSED(longrope, trained_length, 1, (void)0);
    REFUSED(longrope, rope.short_factor, NULL, (void)0);
    REFUSED(longrope, rope.long_factor, NULL, (void)0);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        broken[31] = bad[i];
        REFUSED(longrope, rope.short_factor, broken, (void)0);
        REFUSED(longrope, rope.long_factor, broken, (void)0);
    }
    broken[31] = NAN;
    REFUSED(of(GYRE_KIND_ALIBI), score.slopes, broken, c->heads = 32);
    broken[31] = -1e300;
    REFUSED(of(GYRE_KIND_ALIBI), score.slopes, broken, c->heads = 32);
    gyre_encoding *out;
    assert_int_equal(gyre_encoding_create(NULL, &longrope, NULL, NULL), GYRE_EINVAL);
    assert_int_equal(gyre_encoding_create(&out, NULL, NULL, NULL), GYRE_EINVAL);
}

/* A field that is set although the switch it needs was left at 0 would change nothing, without a word. */
static void forgotten_switches(void **state) {
    (void)state;
    REFUSED(rope(), rope.factor, 4, (void)0);
    REFUSED(rope(), rope.far_window, 50, (void)0);
    REFUSED(rope(), rope.clip.pairs, 4, (void)0);
    REFUSED(rope(), rope.long_factor, ones, (void)0);
    REFUSED(rope(), length_block, 8, (void)0);
    REFUSED(rope(), rope.xpos_center, 5, (void)0);
    REFUSED(of(GYRE_KIND_ALIBI), score.slope_factor, 2, c->heads = 4);
    gyre_config config = rope();
    config.rope.factor = 4;
    assert_config_error(&config, "rope.factor: is set, but has no effect where rope.scaling is none (gyre_config)");
    config.rope.scaling = GYRE_SCALING_YARN;
    config.trained_length = 64;
    config.rope.clip = (struct gyre_clip_config){GYRE_CLIP_HARD, 2};
    config.rope.resonance = 1;
    gyre_encoding_free(test_encoding(&config));
    gyre_config_unscale(&config);
    const gyre_config plain = rope();
    assert_int_equal(config.rope.scaling, GYRE_SCALING_NONE);
    assert_int_equal(config.rope.resonance + (int)config.rope.clip.mode + (int)config.rope.clip.pairs, 0);
    assert_true(config.rope.factor == plain.rope.factor);
    gyre_encoding_free(test_encoding(&config));
    config.rope.far_window = 50;
    config.rope.dim = 16;
    gyre_config_clear_unused(&config);
    assert_int_equal(config.rope.far_window, 0);
    assert_int_equal(config.rope.dim, 16); /* it needs no switch */
    gyre_encoding_free(test_encoding(&config));
}

static void message_names_field_value_and_struct(void **state) {
    (void)state;
    gyre_encoding *out;
    gyre_error err;
    gyre_config config = rope();
    config.rope.dim = 7;
    assert_int_equal(gyre_encoding_create(&out, &config, NULL, &err), GYRE_EINVAL);
    assert_string_equal(err.text, "rope.dim: 7 is odd; a rotation acts on pairs of channels (gyre_config)");
}

/* The ends of the accepted ranges give finite numbers. */
static void extreme_configs_give_finite_results(void **state) {
    (void)state;
    double least[2] = {0x1p-10, 0x1p-10};
    float x[4] = {1, 0, 0, 0}, y[4];
    const gyre_positions positions = {NULL, GYRE_DTYPE_I64, (int64_t)1 << 31, 0, 0, 0, 0, 0};
    const gyre_cview in = gyre_cdense(x, GYRE_DTYPE_F32, 1, 1, 1, 4);
    const gyre_view out = gyre_dense(y, GYRE_DTYPE_F32, 1, 1, 1, 4);
    gyre_config config = test_rope_config(4, GYRE_LAYOUT_HALF);
    config.trained_length = config.context_length = 64;
    config.rope.scaling = GYRE_SCALING_LONGROPE;
    config.rope.short_factor = config.rope.long_factor = least;
    gyre_encoding *e = test_encoding(&config);
    assert_ok(gyre_rotate(
        e, GYRE_ARGS(gyre_rotate_args, .role = GYRE_ROLE_KEY, .positions = &positions, .in = in, .out = out), NULL, NULL));
    test_close((long double)hypotf(y[0], y[2]), 1, 1e-6L, "length of the rotated pair");
    gyre_encoding_free(e);
    for (int sign = -1; sign <= 1; sign += 2) {
        config = test_rope_config(4, GYRE_LAYOUT_HALF);
        config.rope.attention_factor = ldexp(1, 64 * sign);
        e = test_encoding(&config);
        assert_ok(gyre_rotate(e,
                              GYRE_ARGS(gyre_rotate_args, .direction = GYRE_DIRECTION_INVERSE, .role = GYRE_ROLE_KEY,
                                        .positions = &positions, .in = in, .out = out),
                              NULL, NULL));
        test_close((long double)hypotf(y[0], y[2]) * ldexpl(1, 64 * sign), 1, 1e-6L, "inverse");
        gyre_encoding_free(e);
    }
}

static void defaults_are_filled_in(void **state) {
    (void)state;
    gyre_config config = rope();
    config.trained_length = 512;
    config.rope.scaling = GYRE_SCALING_YARN;
    config.rope.factor = 4;
    gyre_encoding *e = test_encoding(&config);
    const gyre_config *full = gyre_encoding_get_config(e);
    assert_int_equal(full->rope.dim, 64);
    assert_int_equal(full->context_length, 0); /* open, in a copy too */
    assert_true(full->rope.base == 10000 && full->rope.factor == 4 && full->rope.proportion == 1);
    assert_true(full->rope.beta_fast == 32 && full->rope.beta_slow == 1);
    assert_true(full->rope.low_freq == 1 && full->rope.high_freq == 4);
    assert_true(full->rope.attention_factor == 0); /* a changed copy recomputes its derived numbers */
    assert_int_equal(gyre_encoding_places(e), GYRE_PLACE_QUERY_KEY);
    gyre_encoding *again = test_encoding(full);
    assert_memory_equal(full, gyre_encoding_get_config(again), sizeof *full);
    gyre_encoding_free(again);
    gyre_encoding_free(e);
    gyre_encoding_free(NULL);
}

static void places_and_table_shapes(void **state) {
    (void)state;
    static const unsigned places[] = {0, GYRE_PLACE_INPUT, GYRE_PLACE_INPUT, GYRE_PLACE_QUERY_KEY, GYRE_PLACE_SCORE};
    for (int kind = 0; kind < 5; kind++) {
        gyre_config config = rope();
        config.kind = (gyre_kind)(GYRE_KIND_NOPE + kind);
        config.heads = 4;
        config.input.dim = 6;
        config.input.positions = 10;
        int64_t shape[4] = {9, 9, 9, 9};
        const int64_t table[4] = {1, 1, 10, 6}, none[4] = {0};
        gyre_encoding *e = test_encoding(&config);
        assert_int_equal(gyre_encoding_places(e), places[kind]);
        assert_ok(gyre_encoding_table_shape(e, GYRE_TABLE_INPUT, shape));
        assert_memory_equal(shape, config.kind == GYRE_KIND_LEARNED ? table : none, sizeof shape);
        assert_int_equal(gyre_encoding_table_shape(e, (gyre_table)(GYRE_TABLE_POSITION_BIAS + 1), shape), GYRE_EINVAL);
        gyre_encoding_free(e);
    }
}

/* -- allocation failure -- */
/* out = the number of allocations that the config needs. If any of them fails, creation returns ENOMEM and frees the
 * others. */
static int survives(const gyre_config *config) {
    for (int n = 0; n < 100; n++) {
        test_budget b = {.left = n};
        const gyre_alloc alloc = test_budget_alloc(&b);
        gyre_encoding *e = NULL;
        gyre_error err = {0, ""};
        const gyre_status status = gyre_encoding_create(&e, config, &alloc, &err);
        if (status == GYRE_OK) {
            assert_int_equal(b.live, n);
            gyre_encoding_free(e);
            assert_int_equal(b.live, 0);
            return n;
        }
        assert_int_equal(status, GYRE_ENOMEM);
        assert_null(e);
        assert_int_equal(b.live, 0);
        assert_non_null(strstr(err.text, "memory:"));
    }
    fail();
    return 0;
}

static void failing_allocations(void **state) {
    (void)state;
    gyre_config config = of(GYRE_KIND_NOPE);
    assert_int_equal(survives(&config), 1);
    config = of(GYRE_KIND_SINUSOIDAL);
    config.input.dim = 8;
    assert_int_equal(survives(&config), 2);
    config = of(GYRE_KIND_ALIBI);
    config.heads = 8;
    assert_int_equal(survives(&config), 2);
    config = rope();
    config.rope.scaling = GYRE_SCALING_LONGROPE;
    config.trained_length = 64;
    config.rope.short_factor = config.rope.long_factor = ones;
    config.rope.table_positions = 3;
    assert_int_equal(survives(&config), 5); /* the object, two lists, frequencies, the table */
    config = rope();
    config.rope.axes = 2;
    config.rope.axis_pairs[0] = config.rope.axis_pairs[1] = 16;
    assert_int_equal(survives(&config), 3); /* the object, the axes, frequencies */
    config = rope();
    config.rope.xpos_base = 512;
    assert_int_equal(survives(&config), 3); /* the object, the decays, frequencies */
}

static void *modest_alloc(void *ctx, size_t bytes, size_t align) {
    size_t *most = ctx;
    if (bytes > *most) *most = bytes;
    return bytes > 1000000 ? NULL : aligned_alloc(align, (bytes + align - 1) / align * align);
}

static void modest_free(void *ctx, void *memory) {
    (void)ctx;
    free(memory);
}

/* An absurdly large table is requested in full, and refused. */
static void absurd_tables(void **state) {
    (void)state;
    size_t most = 0;
    gyre_encoding *e = NULL;
    const gyre_alloc alloc = {modest_alloc, modest_free, &most};
    gyre_config config = rope();
    config.rope.table_positions = INT32_MAX;
    assert_int_equal(gyre_encoding_create(&e, &config, &alloc, NULL), GYRE_ENOMEM);
    assert_null(e);
    assert_true(most >= (size_t)INT32_MAX * 64 * sizeof(float));
}

/* -- small functions -- */
static void small_functions(void **state) {
    (void)state;
    for (int status = 0; status >= -8; status--)
        for (int other = 0; other > status; other--)
            assert_string_not_equal(gyre_status_text((gyre_status)status), gyre_status_text((gyre_status)other));
    assert_non_null(gyre_status_text((gyre_status)1234));
    assert_string_equal(gyre_version(), "0.1.0");
    assert_int_equal(gyre_dtype_size(GYRE_DTYPE_F32), 4);
    assert_int_equal(gyre_dtype_size(GYRE_DTYPE_F16), 2);
    assert_int_equal(gyre_dtype_size(GYRE_DTYPE_BF16), 2);
    assert_int_equal(gyre_dtype_size(GYRE_DTYPE_F64), 8);
    assert_int_equal(gyre_dtype_size(GYRE_DTYPE_I32), 4);
    assert_int_equal(gyre_dtype_size(GYRE_DTYPE_I64), 8);
    assert_int_equal(gyre_dtype_size((gyre_dtype)42), 0);
    const int64_t shape[4] = {2, 3, 4, 5}, stride[4] = {60, 20, 5, 1};
    const gyre_view view = gyre_dense(ones, GYRE_DTYPE_F32, 2, 3, 4, 5);
    const gyre_cview read_only = gyre_const(view), direct = gyre_cdense(ones, GYRE_DTYPE_F32, 2, 3, 4, 5);
    assert_memory_equal(view.shape, shape, sizeof shape);
    assert_memory_equal(view.stride, stride, sizeof stride);
    assert_memory_equal(read_only.shape, shape, sizeof shape);
    assert_memory_equal(read_only.stride, stride, sizeof stride);
    assert_memory_equal(direct.shape, shape, sizeof shape);
    assert_memory_equal(direct.stride, stride, sizeof stride);
    assert_true(read_only.data == ones && direct.data == ones && view.data == ones);
    assert_true(read_only.dtype == GYRE_DTYPE_F32 && direct.dtype == GYRE_DTYPE_F32 && view.dtype == GYRE_DTYPE_F32);
}

static void *some_memory(void *ctx, size_t bytes, size_t align) {
    (void)ctx, (void)bytes, (void)align;
    return NULL;
}

/* An allocator without a function would be called. */
static void allocators_have_functions(void **state) {
    const gyre_alloc no_free = {some_memory, NULL, NULL}, empty = {NULL, NULL, NULL};
    gyre_config config = GYRE_INIT(gyre_config);
    gyre_cache_config cache_config = GYRE_INIT(gyre_cache_config);
    gyre_encoding *encoding = NULL;
    gyre_cache *cache = NULL;
    gyre_error err;
    (void)state;
    config.kind = GYRE_KIND_NOPE;
    assert_int_equal(gyre_encoding_create(&encoding, &config, &no_free, &err), GYRE_EINVAL);
    assert_string_equal(err.text, "alloc.free: is NULL (gyre_encoding_create)");
    cache_config.heads = 1, cache_config.head_dim = 8, cache_config.max_tokens = 4;
    assert_int_equal(gyre_cache_create(&cache, &cache_config, &empty, &err), GYRE_EINVAL);
    assert_string_equal(err.text, "alloc.alloc: is NULL (gyre_cache_create)");
    assert_null(encoding);
    assert_null(cache);
}

int main(void) {
    for (int i = 0; i < 32; i++)
        ones[i] = broken[i] = 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(allocators_have_functions),
        cmocka_unit_test(wrong_common_fields),
        cmocka_unit_test(wrong_rotations),
        cmocka_unit_test(wrong_lists),
        cmocka_unit_test(forgotten_switches),
        cmocka_unit_test(message_names_field_value_and_struct),
        cmocka_unit_test(extreme_configs_give_finite_results),
        cmocka_unit_test(defaults_are_filled_in),
        cmocka_unit_test(places_and_table_shapes),
        cmocka_unit_test(failing_allocations),
        cmocka_unit_test(absurd_tables),
        cmocka_unit_test(small_functions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
