/* test_rotate_variants.c: rotations in every layout, channel range, direction and axis layout that models use. */
#include "naive_rotation.h"

#include <stdlib.h>
#include <string.h>

enum { WIDE = NAIVE_CHANNELS };

/* Large enough for a row of any type. */
static double x[WIDE], y[WIDE], z[WIDE], w[WIDE];

static void fill(test_random *random, gyre_dtype dtype, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        test_put(x, dtype, (size_t)i, test_uniform(random));
}

/* Rotates one token at position[0], position[1], ... of the axes. */
static gyre_status rotate_axes(const gyre_encoding *e, gyre_direction direction, gyre_dtype dtype, const int64_t *position,
                               const void *in, void *out) {
    const int64_t n = gyre_encoding_get_config(e)->head_dim;
    const gyre_positions positions = {position, GYRE_DTYPE_I64, 0, 0, 0, 0, 1, 0};
    const gyre_cview from = gyre_cdense(in, dtype, 1, 1, 1, n);
    const gyre_view to = gyre_dense(out, dtype, 1, 1, 1, n);
    return gyre_rotate(e,
                       GYRE_ARGS(gyre_rotate_args, .direction = direction, .role = GYRE_ROLE_KEY, .positions = &positions,
                                 .in = from, .out = to),
                       NULL, NULL);
}

typedef struct shape {
    int64_t head_dim, first, dim;
} shape;
static const shape shapes[] = {{32, 0, 32}, {40, 0, 24}, {40, 16, 24}, {40, 6, 20}, {WIDE, 0, WIDE}, {WIDE, 9, 1306}};
enum { SHAPES = 6 };

static gyre_config config_of(const shape *s, gyre_layout layout, int clockwise) {
    gyre_config config = test_rope_config(s->head_dim, layout);
    config.rope.first_channel = s->first;
    config.rope.dim = s->dim;
    config.rope.clockwise = clockwise;
    config.rope.attention_factor = 1.25;
    return config;
}

typedef void variant_check(const gyre_encoding *e, gyre_dtype dtype, test_random *random);
static void for_all_variants(variant_check *check) {
    test_random random = {41};
    for (int i = 0; i < SHAPES; i++)
        for (int layout = GYRE_LAYOUT_HALF; layout <= GYRE_LAYOUT_INTERLEAVED_TO_HALF; layout++)
            for (int clockwise = 0; clockwise < 2; clockwise++)
                for (int type = 0; type < TEST_DTYPES; type++) {
                    const gyre_config config = config_of(&shapes[i], (gyre_layout)layout, clockwise);
                    gyre_encoding *e = test_encoding(&config);
                    fill(&random, test_dtypes[type], config.head_dim);
                    check(e, test_dtypes[type], &random);
                    gyre_encoding_free(e);
                }
}

static void check_formula(const gyre_encoding *e, gyre_dtype dtype, test_random *random) {
    (void)random;
    for (int direction = GYRE_DIRECTION_FORWARD; direction <= GYRE_DIRECTION_ADJOINT; direction++)
        for (int64_t position = -70; position < 5000; position += 1669) {
            const naive_rotation naive = {gyre_encoding_get_config(e), NULL, (gyre_direction)direction, GYRE_ROLE_KEY};
            assert_ok(rotate_row(e, naive.direction, GYRE_ROLE_KEY, dtype, position, x, y));
            naive_check(&naive, &position, 1.25L, dtype, x, y);
        }
}

static void check_in_place(const gyre_encoding *e, gyre_dtype dtype, test_random *random) {
    const size_t bytes = (size_t)gyre_encoding_get_config(e)->head_dim * gyre_dtype_size(dtype);
    (void)random;
    for (int direction = GYRE_DIRECTION_FORWARD; direction <= GYRE_DIRECTION_ADJOINT; direction++) {
        assert_ok(rotate_row(e, (gyre_direction)direction, GYRE_ROLE_KEY, dtype, 321, x, y));
        memcpy(z, x, bytes);
        assert_ok(rotate_row(e, (gyre_direction)direction, GYRE_ROLE_KEY, dtype, 321, z, z));
        assert_memory_equal(y, z, bytes);
    }
}

/* Channels before and after the rotated ones are copied with all their bits. */
static void check_passed(const gyre_encoding *e, gyre_dtype dtype, test_random *random) {
    const gyre_config *config = gyre_encoding_get_config(e);
    const size_t size = gyre_dtype_size(dtype), first = (size_t)config->rope.first_channel * size,
                 end = first + (size_t)config->rope.dim * size, bytes = (size_t)config->head_dim * size;
    for (int i = 0; i < WIDE; i++) {
        const uint64_t bits = i % 5 ? test_next(random) : UINT64_MAX;
        memcpy(&x[i], &bits, sizeof bits);
    }
    for (int in_place = 0; in_place < 2; in_place++) {
        memcpy(y, in_place ? x : w, bytes);
        assert_ok(rotate_row(e, GYRE_DIRECTION_FORWARD, GYRE_ROLE_KEY, dtype, 77, in_place ? y : x, y));
        assert_memory_equal(x, y, first);
        assert_memory_equal((char *)x + end, (char *)y + end, bytes - end);
    }
}

static void check_inverse_and_adjoint(const gyre_encoding *e, gyre_dtype dtype, test_random *random) {
    const int64_t n = gyre_encoding_get_config(e)->head_dim;
    if (dtype != GYRE_DTYPE_F64) return;
    long double left = 0, right = 0;
    assert_ok(rotate_row(e, GYRE_DIRECTION_FORWARD, GYRE_ROLE_KEY, dtype, 1234, x, y));
    assert_ok(rotate_row(e, GYRE_DIRECTION_INVERSE, GYRE_ROLE_KEY, dtype, 1234, y, z));
    for (int64_t i = 0; i < n; i++)
        test_close(z[i], x[i], 1e-15L, "inverse");
    test_fill_f64(random, w, (size_t)n);
    assert_ok(rotate_row(e, GYRE_DIRECTION_ADJOINT, GYRE_ROLE_KEY, dtype, 1234, w, z));
    for (int64_t i = 0; i < n; i++) {
        left += (long double)y[i] * (long double)w[i];
        right += (long double)x[i] * (long double)z[i];
    }
    test_close(left, right, 1e-12L, "<E x, w> = <x, E' w>");
}

static void matches_the_formula(void **state) {
    (void)state;
    for_all_variants(check_formula);
}
static void in_place_matches_out_of_place(void **state) {
    (void)state;
    for_all_variants(check_in_place);
}
static void unrotated_channels_are_copied(void **state) {
    (void)state;
    for_all_variants(check_passed);
}
static void inverse_and_adjoint(void **state) {
    (void)state;
    for_all_variants(check_inverse_and_adjoint);
}

/* Channel c of a half-split head is channel source(c) of the interleaved one. */
static int64_t source(const shape *s, int64_t c) {
    const int64_t in = c - s->first, half = s->dim / 2;
    return in < 0 || in >= s->dim ? c : s->first + 2 * (in % half) + in / half;
}

/* DeepSeek-V3's rotation is the interleaved rotation with permuted channels, to the last bit, at position 0 too. */
static void interleaved_to_half_permutes_interleaved(void **state) {
    (void)state;
    test_random random = {42};
    for (int i = 0; i < SHAPES; i++)
        for (int type = 0; type < TEST_DTYPES; type++)
            for (int64_t position = 0; position < 900; position += 450) {
                gyre_config config = config_of(&shapes[i], GYRE_LAYOUT_INTERLEAVED, 0);
                config.rope.attention_factor = 1;
                gyre_encoding *plain = test_encoding(&config);
                config.rope.layout = GYRE_LAYOUT_INTERLEAVED_TO_HALF;
                gyre_encoding *moved = test_encoding(&config);
                const size_t size = gyre_dtype_size(test_dtypes[type]);
                fill(&random, test_dtypes[type], config.head_dim);
                memset(x, 0xFF, size); /* a NaN: at position 0, all its bits must be copied */
                assert_ok(rotate_row(plain, GYRE_DIRECTION_FORWARD, GYRE_ROLE_KEY, test_dtypes[type], position, x, y));
                memcpy(w, x, sizeof w);
                assert_ok(rotate_row(moved, GYRE_DIRECTION_FORWARD, GYRE_ROLE_KEY, test_dtypes[type], position, x, z));
                assert_ok(rotate_row(moved, GYRE_DIRECTION_FORWARD, GYRE_ROLE_KEY, test_dtypes[type], position, w, w));
                for (int64_t c = 0; c < config.head_dim; c++) {
                    const size_t from = (size_t)source(&shapes[i], c) * size, to = (size_t)c * size;
                    if (position > 0 && (from < 2 * size + (size_t)shapes[i].first * size)) continue;
                    assert_memory_equal((char *)y + from, (char *)z + to, size);
                    assert_memory_equal((char *)y + from, (char *)w + to, size);
                }
                assert_ok(rotate_row(moved, GYRE_DIRECTION_INVERSE, GYRE_ROLE_KEY, test_dtypes[type], 0, z, w));
                if (position == 0) assert_memory_equal(w, x, (size_t)config.head_dim * size);
                gyre_encoding_free(plain);
                gyre_encoding_free(moved);
            }
}

/* Scores are those of the interleaved layout, provided that both queries and keys were written in this layout. */
static void scores_in_every_layout_agree(void **state) {
    (void)state;
    test_random random = {43};
    const shape s = {48, 8, 36};
    double score[2];
    for (int layout = 0; layout < 2; layout++) {
        const gyre_config config = config_of(&s, layout ? GYRE_LAYOUT_INTERLEAVED_TO_HALF : GYRE_LAYOUT_INTERLEAVED, 0);
        gyre_encoding *e = test_encoding(&config);
        random.state = 43;
        fill(&random, GYRE_DTYPE_F64, 48);
        assert_ok(rotate_row(e, GYRE_DIRECTION_FORWARD, GYRE_ROLE_KEY, GYRE_DTYPE_F64, 1000, x, y));
        fill(&random, GYRE_DTYPE_F64, 48);
        assert_ok(rotate_row(e, GYRE_DIRECTION_FORWARD, GYRE_ROLE_KEY, GYRE_DTYPE_F64, 993, x, z));
        score[layout] = 0;
        for (int c = 0; c < 48; c++)
            score[layout] += y[c] * z[c];
        gyre_encoding_free(e);
    }
    test_close(score[0], score[1], 1e-14L, "score");
}

/* Memory with gaps and a negative channel stride, several heads, tokens and batch rows; also in place. */
static void strided_matches_dense(void **state) {
    (void)state;
    enum { BATCH = 2, TOKENS = 35, HEADS = 3, CHANNELS = 40, ALL = BATCH * TOKENS * HEADS * CHANNELS };
    static double dense[ALL], in[ALL], apart[3 * ALL];
    test_random random = {44};
    for (int layout = GYRE_LAYOUT_HALF; layout <= GYRE_LAYOUT_INTERLEAVED_TO_HALF; layout++)
        for (int type = 0; type < TEST_DTYPES; type++)
            for (int direction = GYRE_DIRECTION_FORWARD; direction <= GYRE_DIRECTION_INVERSE; direction++) {
                const size_t size = gyre_dtype_size(test_dtypes[type]);
                const gyre_config config = config_of(&shapes[2], (gyre_layout)layout, 0);
                const gyre_positions positions = {NULL, GYRE_DTYPE_I64, -3, 0, 0, 0, 0, 0};
                gyre_encoding *e = test_encoding(&config);
                for (size_t i = 0; i < ALL; i++)
                    test_put(in, test_dtypes[type], i, test_uniform(&random));
                const gyre_cview from = gyre_cdense(in, test_dtypes[type], BATCH, TOKENS, HEADS, CHANNELS);
                const gyre_view to = gyre_dense(dense, test_dtypes[type], BATCH, TOKENS, HEADS, CHANNELS);
                assert_ok(gyre_rotate(e,
                                      GYRE_ARGS(gyre_rotate_args, .direction = (gyre_direction)direction,
                                                .role = GYRE_ROLE_KEY, .positions = &positions, .in = from, .out = to),
                                      NULL, NULL));
                gyre_view there = {(char *)apart + (ALL - 1) * 3 * size,
                                   test_dtypes[type],
                                   {BATCH, TOKENS, HEADS, CHANNELS},
                                   {-3 * TOKENS * HEADS * CHANNELS, -3 * HEADS * CHANNELS, -3 * CHANNELS, -3}};
                for (size_t i = 0; i < ALL; i++)
                    memcpy((char *)there.data - 3 * i * size, (char *)in + i * size, size);
                const gyre_cview read = gyre_const(there);
                assert_ok(gyre_rotate(e,
                                      GYRE_ARGS(gyre_rotate_args, .direction = (gyre_direction)direction,
                                                .role = GYRE_ROLE_KEY, .positions = &positions, .in = read, .out = there),
                                      NULL, NULL));
                for (size_t i = 0; i < ALL; i++)
                    assert_memory_equal((char *)there.data - 3 * i * size, (char *)dense + i * size, size);
                gyre_encoding_free(e);
            }
}

static void clockwise_negates_the_position(void **state) {
    (void)state;
    test_random random = {45};
    for (int type = 0; type < TEST_DTYPES; type++)
        for (int direction = GYRE_DIRECTION_FORWARD; direction <= GYRE_DIRECTION_ADJOINT; direction++)
            for (int table = 0; table < 2; table++) {
                gyre_config config = config_of(&shapes[1], GYRE_LAYOUT_HALF, 1);
                config.rope.table_positions = table ? 500 : 0;
                gyre_encoding *clockwise = test_encoding(&config);
                config.rope.clockwise = 0;
                gyre_encoding *counter = test_encoding(&config);
                fill(&random, test_dtypes[type], 40);
                assert_ok(rotate_row(clockwise, (gyre_direction)direction, GYRE_ROLE_KEY, test_dtypes[type], 444, x, y));
                assert_ok(rotate_row(counter, (gyre_direction)direction, GYRE_ROLE_KEY, test_dtypes[type], -444, x, z));
                assert_memory_equal(y, z, 40 * gyre_dtype_size(test_dtypes[type]));
                gyre_encoding_free(clockwise);
                gyre_encoding_free(counter);
            }
}

/* -- axes -- */
typedef struct deal {
    int64_t head_dim, dim, axes, section[4];
    gyre_axes layout;
} deal;

static gyre_config axes_config(const deal *d) {
    gyre_config config = test_rope_config(d->head_dim, GYRE_LAYOUT_HALF);
    config.rope.dim = d->dim;
    config.rope.axes = d->axes;
    config.rope.axes_layout = d->layout;
    memcpy(config.rope.axis_pairs, d->section, sizeof d->section);
    return config;
}

static const deal deals[] = {
    {128, 128, 3, {16, 24, 24, 0}, GYRE_AXES_CHUNKED},     /* Qwen2-VL */
    {128, 128, 3, {24, 20, 20, 0}, GYRE_AXES_INTERLEAVED}, /* Qwen3-VL */
    {256, 64, 3, {11, 11, 10, 0}, GYRE_AXES_INTERLEAVED},  /* Qwen3.5 */
    {80, 80, 2, {20, 20, 0, 0}, GYRE_AXES_AXIAL},          /* the vision tower of Qwen2-VL */
    {64, 64, 4, {5, 0, 20, 7}, GYRE_AXES_CHUNKED},
    {96, 96, 3, {16, 20, 12, 0}, GYRE_AXES_AXIAL},
    {WIDE, 1206, 3, {203, 200, 200, 0}, GYRE_AXES_INTERLEAVED}}; /* more than the library processes at once */
enum { DEALS = 7 };

/* As in the models' code. Either blocks one after the other, or axis 0 for all pairs, then axis 1 for every third pair from
 * 1 on below 3 section[1], and axis 2 for every third pair from 2 on below 3 section[2]. */
static void axis_map(const deal *d, int *axis) {
    int64_t at = 0;
    if (d->layout != GYRE_AXES_INTERLEAVED) {
        for (int a = 0; a < 4; a++)
            for (int64_t i = 0; i < d->section[a]; i++)
                axis[at++] = a;
        return;
    }
    for (int64_t i = 0; i < d->dim / 2; i++)
        axis[i] = 0;
    for (int a = 1; a < 3; a++)
        for (int64_t i = a; i < 3 * d->section[a]; i += 3)
            axis[i] = a;
}

static void pairs_rotate_by_their_axes(void **state) {
    (void)state;
    test_random random = {46};
    const int64_t positions[][4] = {{7, 11, 13, 17}, {0, 3, 0, 0}, {1000, -5, 123456, 9}, {0, 0, 0, 4}};
    for (int i = 0; i < DEALS; i++) {
        gyre_config config = axes_config(&deals[i]);
        config.rope.table_positions = i % 2 ? 50 : 0; /* an angle table, of no use with different axes */
        gyre_encoding *e = test_encoding(&config);
        int axis[WIDE];
        axis_map(&deals[i], axis);
        for (int type = 0; type < TEST_DTYPES; type++)
            for (int direction = GYRE_DIRECTION_FORWARD; direction <= GYRE_DIRECTION_INVERSE; direction++)
                for (size_t p = 0; p < sizeof positions / sizeof *positions; p++) {
                    const naive_rotation naive = {gyre_encoding_get_config(e), axis, (gyre_direction)direction,
                                                  GYRE_ROLE_KEY};
                    fill(&random, test_dtypes[type], config.head_dim);
                    assert_ok(rotate_axes(e, naive.direction, test_dtypes[type], positions[p], x, y));
                    naive_check(&naive, positions[p], 1, test_dtypes[type], x, y);
                }
        gyre_encoding_free(e);
    }
}

/* The rows and columns of an image, from the formula of the vision towers: the first half of the pairs rotates by the row,
 * the second by the column, both with frequencies 10000^(-2 j / (d / 2)). */
static void axial_picture(void **state) {
    (void)state;
    enum { D = 80 };
    const gyre_config config = axes_config(&deals[3]);
    gyre_encoding *e = test_encoding(&config);
    for (int64_t row = 0; row < 4; row++)
        for (int64_t column = 0; column < 5; column++)
            for (int pair = 0; pair < D / 2; pair++) {
                const int64_t place[2] = {row, column};
                const int j = pair % (D / 4);
                const double angle = (double)(pair < D / 4 ? row : column) * pow(10000, -2.0 * j / (D / 2.0));
                memset(x, 0, sizeof x);
                x[pair] = 1;
                assert_ok(rotate_axes(e, GYRE_DIRECTION_FORWARD, GYRE_DTYPE_F64, place, x, y));
                test_close(y[pair], cos(angle), 1e-15L, "cos");
                test_close(y[pair + D / 2], sin(angle), 1e-15L, "sin");
            }
    gyre_encoding_free(e);
}

/* Text has the same position on every axis, given once or per axis, and rotates as with one axis, to the last bit. */
static void equal_axes_match_one_axis(void **state) {
    (void)state;
    test_random random = {47};
    for (int i = 0; i < 3; i++)
        for (int type = 0; type < TEST_DTYPES; type++)
            for (int table = 0; table < 2; table++) {
                const size_t bytes = (size_t)deals[i].head_dim * gyre_dtype_size(test_dtypes[type]);
                gyre_config config = axes_config(&deals[i]);
                config.rope.table_positions = table ? 100 : 0;
                gyre_encoding *several = test_encoding(&config);
                gyre_config one = test_rope_config(deals[i].head_dim, GYRE_LAYOUT_HALF);
                one.rope.dim = deals[i].dim;
                gyre_encoding *alone = test_encoding(&one);
                const int64_t place[3] = {99, 99, 99};
                fill(&random, test_dtypes[type], deals[i].head_dim);
                assert_ok(rotate_row(alone, GYRE_DIRECTION_FORWARD, GYRE_ROLE_KEY, test_dtypes[type], 99, x, y));
                assert_ok(rotate_axes(several, GYRE_DIRECTION_FORWARD, test_dtypes[type], place, x, z));
                assert_memory_equal(y, z, bytes);
                assert_ok(rotate_row(several, GYRE_DIRECTION_FORWARD, GYRE_ROLE_KEY, test_dtypes[type], 99, x, z));
                assert_memory_equal(y, z, bytes);
                gyre_encoding_free(several);
                gyre_encoding_free(alone);
            }
}

/* Three rows of I32 positions for each batch row, in the models' layout [axis][batch][token]. */
static void positions_of_axes_in_rows(void **state) {
    (void)state;
    enum { BATCH = 2, TOKENS = 40, D = 128 };
    static int32_t place[3][BATCH][TOKENS];
    static double in[BATCH * TOKENS * D], out[BATCH * TOKENS * D];
    test_random random = {48};
    const gyre_config config = axes_config(&deals[1]);
    gyre_encoding *e = test_encoding(&config);
    for (int i = 0; i < 3 * BATCH * TOKENS; i++)
        place[i / (BATCH * TOKENS)][i / TOKENS % BATCH][i % TOKENS] = (int32_t)(test_next(&random) % 100);
    test_fill_f64(&random, in, BATCH * TOKENS * D);
    const gyre_positions positions = {place, GYRE_DTYPE_I32, 0, 0, TOKENS, 1, BATCH * TOKENS, 0};
    const gyre_cview from = gyre_cdense(in, GYRE_DTYPE_F64, BATCH, TOKENS, 1, D);
    const gyre_view to = gyre_dense(out, GYRE_DTYPE_F64, BATCH, TOKENS, 1, D);
    assert_ok(gyre_rotate(
        e, GYRE_ARGS(gyre_rotate_args, .role = GYRE_ROLE_KEY, .positions = &positions, .in = from, .out = to), NULL, NULL));
    int axis[D];
    axis_map(&deals[1], axis);
    for (int t = 0; t < BATCH * TOKENS; t++) {
        const naive_rotation naive = {gyre_encoding_get_config(e), axis, GYRE_DIRECTION_FORWARD, GYRE_ROLE_KEY};
        const int64_t at[3] = {place[0][t / TOKENS][t % TOKENS], place[1][t / TOKENS][t % TOKENS],
                               place[2][t / TOKENS][t % TOKENS]};
        naive_check(&naive, at, 1, GYRE_DTYPE_F64, in + t * D, out + t * D);
    }
    /* One position out of range on the last axis: nothing is written. */
    place[2][1][39] = INT32_MIN;
    gyre_positions wide = positions;
    int64_t far[3] = {1, 2, ((int64_t)1 << 31) + 1};
    wide = (gyre_positions){far, GYRE_DTYPE_I64, 0, 0, 0, 0, 1, 1};
    memcpy(in, out, sizeof in);
    assert_int_equal(
        gyre_rotate(e, GYRE_ARGS(gyre_rotate_args, .role = GYRE_ROLE_KEY, .positions = &wide, .in = from, .out = to), NULL,
                    NULL),
        GYRE_ERANGE);
    assert_memory_equal(in, out, sizeof in);
    gyre_encoding_free(e);
}

/* -- what is refused -- */
static void wrong_channels_and_directions(void **state) {
    (void)state;
    const gyre_config good = config_of(&shapes[2], GYRE_LAYOUT_INTERLEAVED, 0); /* 40: channels 16 .. 39 */
    ASSERT_CONFIG_REFUSED(good, rope.first_channel, 40);
    ASSERT_CONFIG_REFUSED(good, rope.first_channel, INT32_MAX);
    ASSERT_CONFIG_REFUSED(good, rope.first_channel, -1);
    ASSERT_CONFIG_REFUSED(good, rope.dim, 26);
    ASSERT_CONFIG_REFUSED(good, rope.layout, (gyre_layout)3);
    ASSERT_CONFIG_REFUSED(good, rope.clockwise, 2);
    ASSERT_CONFIG_REFUSED(good, rope.resonance, -1);
    ASSERT_CONFIG_REFUSED(good, rope.mixed_exponent, -0.5);
    ASSERT_CONFIG_REFUSED(good, rope.mixed_exponent, (double)INFINITY);
    gyre_config config = good;
    config.rope.dim = 0; /* the remaining channels: 24, or an odd 23 */
    gyre_encoding *e = test_encoding(&config);
    assert_int_equal(gyre_encoding_get_config(e)->rope.dim, 24);
    assert_int_equal(gyre_encoding_get_config(e)->rope.axes, 1);
    gyre_encoding_free(e);
    config.rope.first_channel = 17;
    assert_config_refused(&config, "rope.dim");
}

static void wrong_axes(void **state) {
    (void)state;
    const gyre_config chunked = axes_config(&deals[0]), mixed = axes_config(&deals[1]);
    ASSERT_CONFIG_REFUSED(chunked, rope.axes, 5);
    ASSERT_CONFIG_REFUSED(chunked, rope.axes, -1);
    ASSERT_CONFIG_REFUSED(chunked, rope.axes_layout, (gyre_axes)3);
    ASSERT_CONFIG_REFUSED(chunked, rope.axis_pairs[1], -1);
    ASSERT_CONFIG_REFUSED(chunked, rope.axis_pairs[3], 1);
    ASSERT_CONFIG_REFUSED(chunked, rope.axis_pairs[0], INT64_MAX);
    gyre_config config = chunked;
    config.rope.axis_pairs[2] = 23;
    assert_config_refused(&config, "rope.axis_pairs");
    memset(config.rope.axis_pairs, 0, sizeof config.rope.axis_pairs);
    assert_config_refused(&config, "rope.axis_pairs");
    config.rope.axes = 1; /* one axis needs none */
    gyre_encoding_free(test_encoding(&config));
    config.rope.axis_pairs[0] = 63;
    assert_config_refused(&config, "rope.axis_pairs");

    config = mixed;
    config.rope.axes = 2;
    config.rope.axis_pairs[0] = 44;
    config.rope.axis_pairs[2] = 0;
    assert_config_refused(&config, "rope.axes");
    config = mixed; /* pairs 1, 4, .. 61, 64: there is no pair 64 */
    config.rope.axis_pairs[0] = 22;
    config.rope.axis_pairs[1] = 22;
    assert_config_refused(&config, "rope.axis_pairs[1]");
    config.rope.axis_pairs[1] = 20;
    config.rope.axis_pairs[2] = 22;
    assert_config_refused(&config, "rope.axis_pairs[2]");
}

static void wrong_far_settings(void **state) {
    (void)state;
    gyre_config good = test_rope_config(64, GYRE_LAYOUT_HALF);
    good.rope.far = GYRE_FAR_LEAKY;
    good.rope.far_window = 8;
    good.rope.far_factor = 16;
    gyre_encoding_free(test_encoding(&good));
    ASSERT_CONFIG_REFUSED(good, rope.far, (gyre_far)6);
    ASSERT_CONFIG_REFUSED(good, rope.far_window, 0);
    ASSERT_CONFIG_REFUSED(good, rope.far_window, -1);
    ASSERT_CONFIG_REFUSED(good, rope.far_factor, 0);
    ASSERT_CONFIG_REFUSED(good, rope.far_factor, -2);
    ASSERT_CONFIG_REFUSED(good, rope.far_factor, 0x1p-11);
    ASSERT_CONFIG_REFUSED(good, rope.far_factor, 0x1.1p32);
    ASSERT_CONFIG_REFUSED(good, rope.far_factor, (double)NAN);
    good.rope.far = GYRE_FAR_GROUPED;
    gyre_encoding_free(test_encoding(&good));
    ASSERT_CONFIG_REFUSED(good, rope.far_factor, 0.5);
    ASSERT_CONFIG_REFUSED(good, rope.far_factor, 2.5);
    gyre_config config = axes_config(&deals[0]);
    config.rope.far = GYRE_FAR_CLAMPED;
    config.rope.far_window = 8;
    assert_config_refused(&config, "rope.far");
    config = good;
    config.rope.xpos_base = 512;
    assert_config_refused(&config, "rope.far");
}

static void wrong_chunk_settings(void **state) {
    (void)state;
    gyre_config good = test_rope_config(64, GYRE_LAYOUT_HALF);
    good.rope.far = GYRE_FAR_CHUNKED;
    good.rope.chunk.size = 48;
    good.rope.chunk.local = 47;
    good.rope.chunk.original_length = INT64_C(1) << 40;
    gyre_encoding_free(test_encoding(&good));
    ASSERT_CONFIG_REFUSED(good, rope.chunk.size, 0);
    ASSERT_CONFIG_REFUSED(good, rope.chunk.size, -48);
    ASSERT_CONFIG_REFUSED(good, rope.chunk.size, INT64_C(1) << 31);
    ASSERT_CONFIG_REFUSED(good, rope.chunk.local, 0);
    ASSERT_CONFIG_REFUSED(good, rope.chunk.local, -1);
    ASSERT_CONFIG_REFUSED(good, rope.chunk.local, 48);
    ASSERT_CONFIG_REFUSED(good, rope.chunk.original_length, -1);
    ASSERT_CONFIG_REFUSED(good, rope.far_window, 8);
    ASSERT_CONFIG_REFUSED(good, rope.far_factor, 2);
    good.rope.xpos_base = 512;
    assert_config_refused(&good, "rope.far");
}

/* Two lengths rotate alike unless the longer one is past the original length. */
static void chunks_sharpen_with_the_length(void **state) {
    (void)state;
    static const int64_t lengths[] = {0, 1, 100, 101, 1000000};
    for (int far = GYRE_FAR_GROUPED; far <= GYRE_FAR_CHUNKED_PAPER; far++) {
        gyre_config config = test_rope_config(64, GYRE_LAYOUT_HALF);
        const int chunked = far != GYRE_FAR_GROUPED;
        config.rope.far = (gyre_far)far;
        config.rope.far_window = chunked ? 0 : 8;
        config.rope.far_factor = chunked ? 0 : 8;
        config.trained_length = 300;
        config.rope.chunk = (struct gyre_chunk_config){48, 16, 100};
        gyre_encoding *e = test_encoding(&config);
        for (int i = 0; i < 5; i++) {
            double factor = 0, own[32], plain[32];
            const double n = lengths[i] ? (double)lengths[i] : 300;
            assert_ok(gyre_encoding_frequencies(e, lengths[i], own, &factor));
            assert_ok(gyre_encoding_frequencies(e, 100, plain, NULL));
            assert_memory_equal(own, plain, sizeof own);
            test_close(factor, chunked && n > 100 ? 1 + 0.1 * log(n / 100) : 1, 1e-15, "factor");
        }
        gyre_encoding_free(e);
    }
}

/* -- suggestions -- */
static void suggestions(void **state) {
    (void)state;
    static const int64_t windows[] = {0, 256, 128, 256};
    static const double factors[] = {0, 0, 16, 8};
    for (int far = GYRE_FAR_AS_NEAR; far <= GYRE_FAR_GROUPED; far++) {
        gyre_config config = test_rope_config(64, GYRE_LAYOUT_HALF);
        config.trained_length = 512;
        config.rope.far = (gyre_far)far;
        assert_ok(gyre_config_suggest(&config));
        assert_int_equal(config.rope.far_window, windows[far]);
        assert_true(config.rope.far_factor == factors[far]);
        gyre_encoding_free(test_encoding(&config));
        config.rope.far_window = 5;
        config.rope.far_factor = 3;
        assert_ok(gyre_config_suggest(&config)); /* what is set stays */
        assert_true(config.rope.far_window == 5 && config.rope.far_factor == 3);
    }
    for (int64_t dim = 6; dim <= 128; dim += 2)
        for (int layout = GYRE_AXES_CHUNKED; layout <= GYRE_AXES_AXIAL; layout++) {
            gyre_config config = test_rope_config(128, GYRE_LAYOUT_HALF);
            config.rope.dim = dim;
            config.rope.axes = 3;
            config.rope.axes_layout = (gyre_axes)layout;
            assert_ok(gyre_config_suggest(&config));
            assert_true(config.rope.axis_pairs[0] - config.rope.axis_pairs[2] <= 1);
            gyre_encoding_free(test_encoding(&config)); /* every even split is valid */
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(matches_the_formula),
        cmocka_unit_test(in_place_matches_out_of_place),
        cmocka_unit_test(unrotated_channels_are_copied),
        cmocka_unit_test(inverse_and_adjoint),
        cmocka_unit_test(interleaved_to_half_permutes_interleaved),
        cmocka_unit_test(scores_in_every_layout_agree),
        cmocka_unit_test(strided_matches_dense),
        cmocka_unit_test(clockwise_negates_the_position),
        cmocka_unit_test(pairs_rotate_by_their_axes),
        cmocka_unit_test(axial_picture),
        cmocka_unit_test(equal_axes_match_one_axis),
        cmocka_unit_test(positions_of_axes_in_rows),
        cmocka_unit_test(wrong_channels_and_directions),
        cmocka_unit_test(wrong_axes),
        cmocka_unit_test(wrong_chunk_settings),
        cmocka_unit_test(chunks_sharpen_with_the_length),
        cmocka_unit_test(wrong_far_settings),
        cmocka_unit_test(suggestions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
