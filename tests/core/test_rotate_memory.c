/* test_rotate_memory.c: gyre_rotate on batches: strides, in place, in parts, on threads, positions of any type and
 * stride. */
#include "naive_rotation.h"

#include <stdlib.h>
#include <string.h>

enum { BATCH = 2, TOKENS = 70, HEADS = 3, CHANNELS = 72, ALL = BATCH * TOKENS * HEADS * CHANNELS };

typedef struct sample {
    gyre_encoding *e;
    gyre_dtype dtype;
    int64_t position[BATCH][TOKENS];
    gyre_positions positions;
    double x[ALL], dense[ALL]; /* large enough for any type */
} sample;

static sample *sample_make(gyre_dtype dtype, gyre_layout layout) {
    sample *s = calloc(1, sizeof *s);
    assert_non_null(s);
    test_random random = {8};
    s->e = rope_encoding(CHANNELS, 64, layout);
    s->dtype = dtype;
    for (size_t i = 0; i < ALL; i++)
        test_put(s->x, dtype, i, test_uniform(&random));
    for (int i = 0; i < BATCH * TOKENS; i++)
        s->position[i / TOKENS][i % TOKENS] = (int64_t)(test_next(&random) % 4000) - 1000;
    s->positions = (gyre_positions){s->position, GYRE_DTYPE_I64, 0, 0, TOKENS, 1, 0, 0};
    const gyre_cview in = gyre_cdense(s->x, dtype, BATCH, TOKENS, HEADS, CHANNELS);
    const gyre_view out = gyre_dense(s->dense, dtype, BATCH, TOKENS, HEADS, CHANNELS);
    assert_ok(gyre_rotate(
        s->e, GYRE_ARGS(gyre_rotate_args, .role = GYRE_ROLE_KEY, .positions = &s->positions, .in = in, .out = out), NULL,
        NULL));
    return s;
}

static void sample_free(sample *s) {
    gyre_encoding_free(s->e);
    free(s);
}

typedef void sample_check(sample *s);
static void for_all_samples(sample_check *check) {
    for (int layout = 0; layout < 2; layout++)
        for (int type = 0; type < TEST_DTYPES; type++) {
            sample *s = sample_make(test_dtypes[type], layout ? GYRE_LAYOUT_INTERLEAVED : GYRE_LAYOUT_HALF);
            check(s);
            sample_free(s);
        }
}

static void check_batches(sample *s) {
    gyre_config config = *gyre_encoding_get_config(s->e);
    for (int row = 0; row < BATCH * TOKENS * HEADS; row++) {
        const int token = row / HEADS;
        naive_check_rope(&config, s->dtype, s->position[token / TOKENS][token % TOKENS], s->x, s->dense, row * CHANNELS);
    }
}

static void check_in_place(sample *s) {
    const gyre_view out = gyre_dense(s->x, s->dtype, BATCH, TOKENS, HEADS, CHANNELS);
    const gyre_cview in = gyre_const(out);
    assert_ok(gyre_rotate(
        s->e, GYRE_ARGS(gyre_rotate_args, .role = GYRE_ROLE_KEY, .positions = &s->positions, .in = in, .out = out), NULL,
        NULL));
    assert_memory_equal(s->x, s->dense, ALL * gyre_dtype_size(s->dtype));
}

/* Memory as [channel][head][token][batch] with gaps, and a negative stride along the tokens. */
static void check_strided(sample *s) {
    const size_t size = gyre_dtype_size(s->dtype);
    const int64_t stride[4] = {2, -2 * BATCH, 2 * BATCH * TOKENS, 2 * BATCH * TOKENS * HEADS};
    char *x = calloc(2 * ALL, size), *y = calloc(2 * ALL, size);
    assert_non_null(x);
    assert_non_null(y);
    const int64_t start = 2 * BATCH * (TOKENS - 1);
    gyre_view out = gyre_dense(y + (size_t)start * size, s->dtype, BATCH, TOKENS, HEADS, CHANNELS);
    memcpy(out.stride, stride, sizeof stride);
    gyre_cview in = gyre_const(out);
    in.data = x + (size_t)start * size;
    for (int check = 0; check < 2; check++) {
        for (int64_t i = 0; i < ALL; i++) {
            const int64_t offset = start + i / (TOKENS * HEADS * CHANNELS) * stride[0] +
                                   i / (HEADS * CHANNELS) % TOKENS * stride[1] + i / CHANNELS % HEADS * stride[2] +
                                   i % CHANNELS * stride[3];
            if (check)
                assert_memory_equal(y + (size_t)offset * size, (char *)s->dense + (size_t)i * size, size);
            else
                memcpy(x + (size_t)offset * size, (char *)s->x + (size_t)i * size, size);
        }
        if (!check)
            assert_ok(gyre_rotate(
                s->e, GYRE_ARGS(gyre_rotate_args, .role = GYRE_ROLE_KEY, .positions = &s->positions, .in = in, .out = out),
                NULL, NULL));
    }
    free(x);
    free(y);
}

/* Rotating parts cut along batch, token or head gives the rotation of the whole. */
static void check_splits(sample *s) {
    const size_t size = gyre_dtype_size(s->dtype);
    static double y[ALL];
    memset(y, 0, sizeof y);
    const gyre_cview whole = gyre_cdense(s->x, s->dtype, BATCH, TOKENS, HEADS, CHANNELS);
    for (int64_t b = 0; b < BATCH; b++)
        for (int64_t first = 0, count; first < TOKENS; first += count)
            for (int64_t h = 0; h < HEADS; h += 2) {
                count = first == 0 ? 33 : first == 33 ? 1 : TOKENS - 34;
                const int64_t offset = b * whole.stride[0] + first * whole.stride[1] + h * whole.stride[2];
                gyre_cview in = whole;
                in.data = (const char *)s->x + (size_t)offset * size;
                in.shape[0] = 1;
                in.shape[1] = count;
                in.shape[2] = h + 2 <= HEADS ? 2 : 1;
                gyre_view out = {(char *)y + (size_t)offset * size, s->dtype, {0}, {0}};
                memcpy(out.shape, in.shape, sizeof in.shape);
                memcpy(out.stride, in.stride, sizeof in.stride);
                const gyre_positions positions = {&s->position[b][first], GYRE_DTYPE_I64, 0, 0, TOKENS, 1, 0, 0};
                assert_ok(gyre_rotate(
                    s->e, GYRE_ARGS(gyre_rotate_args, .role = GYRE_ROLE_KEY, .positions = &positions, .in = in, .out = out),
                    NULL, NULL));
            }
    assert_memory_equal(y, s->dense, ALL * size);
}

static void check_threads(sample *s) {
    static double y[ALL];
    const gyre_cview in = gyre_cdense(s->x, s->dtype, BATCH, TOKENS, HEADS, CHANNELS);
    const gyre_view out = gyre_dense(y, s->dtype, BATCH, TOKENS, HEADS, CHANNELS);
    for (int threads = 1; threads <= 3; threads++) {
        gyre_pool *pool;
        assert_ok(gyre_pool_create(&pool, threads, NULL));
        const gyre_exec exec = gyre_pool_exec(pool);
        memset(y, 0, sizeof y);
        assert_ok(gyre_rotate(
            s->e, GYRE_ARGS(gyre_rotate_args, .role = GYRE_ROLE_KEY, .positions = &s->positions, .in = in, .out = out),
            &exec, NULL));
        assert_memory_equal(y, s->dense, ALL * gyre_dtype_size(s->dtype));
        gyre_pool_free(pool);
    }
}

/* Positions as I32, stored in reverse, one row for the whole batch. */
static void check_position_views(sample *s) {
    static double y[ALL];
    const size_t size = gyre_dtype_size(s->dtype), row = ALL / BATCH * size;
    int32_t narrow[TOKENS];
    for (int t = 0; t < TOKENS; t++)
        narrow[TOKENS - 1 - t] = (int32_t)s->position[0][t];
    const gyre_positions positions = {narrow + TOKENS - 1, GYRE_DTYPE_I32, 0, 0, 0, -1, 0, 0};
    gyre_cview in = gyre_cdense(s->x, s->dtype, BATCH, TOKENS, HEADS, CHANNELS);
    const gyre_view out = gyre_dense(y, s->dtype, BATCH, TOKENS, HEADS, CHANNELS);
    in.stride[0] = 0; /* both batch rows read the same input */
    assert_ok(gyre_rotate(s->e,
                          GYRE_ARGS(gyre_rotate_args, .role = GYRE_ROLE_KEY, .positions = &positions, .in = in, .out = out),
                          NULL, NULL));
    assert_memory_equal(y, s->dense, row);
    assert_memory_equal((char *)y + row, s->dense, row);
}

/* Copies [batch][tokens][heads][channels] to [batch][heads][tokens][channels], or back. */
static void swap_heads(const double *from, double *to, size_t size, int back) {
    const size_t row = CHANNELS * size;
    for (int b = 0; b < BATCH; b++)
        for (int t = 0; t < TOKENS; t++)
            for (int h = 0; h < HEADS; h++) {
                const size_t tokens_first = (size_t)((b * TOKENS + t) * HEADS + h),
                             heads_first = (size_t)((b * HEADS + h) * TOKENS + t);
                memcpy((char *)to + (back ? tokens_first : heads_first) * row,
                       (const char *)from + (back ? heads_first : tokens_first) * row, row);
            }
}

/* Tokens of a head side by side, as [batch, heads, tokens, channels] is, at positions that the table has and one that it may
 * not have.  They are compared with the tokens of a dense batch, one by one.  At position 0 nothing is rotated. */
static void check_heads_apart(sample *s, int64_t last) {
    static double x[ALL], y[ALL], got[ALL], want[ALL];
    const size_t size = gyre_dtype_size(s->dtype);
    int64_t at[BATCH][TOKENS];
    for (int i = 0; i < BATCH * TOKENS; i++)
        at[i / TOKENS][i % TOKENS] = i == BATCH * TOKENS - 1 ? last : (i * 7) % 1000;
    const gyre_positions positions = {at, GYRE_DTYPE_I64, 0, 0, TOKENS, 1, 0, 0};
    for (int b = 0; b < BATCH; b++)
        for (int t = 0; t < TOKENS; t++) {
            const size_t offset = (size_t)((b * TOKENS + t) * HEADS * CHANNELS) * size;
            const gyre_cview in = gyre_cdense((const char *)s->x + offset, s->dtype, 1, 1, HEADS, CHANNELS);
            const gyre_view out = gyre_dense((char *)want + offset, s->dtype, 1, 1, HEADS, CHANNELS);
            const gyre_positions one = {&at[b][t], GYRE_DTYPE_I64, 0, 0, 0, 1, 0, 0};
            assert_ok(gyre_rotate(
                s->e, GYRE_ARGS(gyre_rotate_args, .role = GYRE_ROLE_KEY, .positions = &one, .in = in, .out = out), NULL,
                NULL));
        }
    for (int threads = 1; threads <= 3; threads++)
        for (int in_place = 0; in_place < 2; in_place++) {
            gyre_pool *pool;
            assert_ok(gyre_pool_create(&pool, threads, NULL));
            const gyre_exec exec = gyre_pool_exec(pool);
            swap_heads(s->x, x, size, 0);
            memset(y, 0, sizeof y);
            gyre_view out = gyre_dense(in_place ? x : y, s->dtype, BATCH, TOKENS, HEADS, CHANNELS);
            out.stride[1] = CHANNELS;
            out.stride[2] = (int64_t)TOKENS * CHANNELS;
            gyre_cview in = gyre_const(out);
            in.data = x;
            assert_ok(gyre_rotate(
                s->e, GYRE_ARGS(gyre_rotate_args, .role = GYRE_ROLE_KEY, .positions = &positions, .in = in, .out = out),
                &exec, NULL));
            swap_heads(out.data, got, size, 1);
            assert_memory_equal(got, want, ALL * size);
            gyre_pool_free(pool);
        }
}
static void check_heads_in_table(sample *s) {
    check_heads_apart(s, 999);
}
static void check_heads_past_table(sample *s) {
    check_heads_apart(s, 10000000);
}

static void error_bound_holds_in_batches(void **state) {
    (void)state;
    for_all_samples(check_batches);
}
static void in_place_matches_out_of_place(void **state) {
    (void)state;
    for_all_samples(check_in_place);
}
static void strided_matches_dense(void **state) {
    (void)state;
    for_all_samples(check_strided);
}
static void parts_match_the_whole(void **state) {
    (void)state;
    for_all_samples(check_splits);
}
static void threads_change_nothing(void **state) {
    (void)state;
    for_all_samples(check_threads);
}
static void positions_of_any_type_and_stride(void **state) {
    (void)state;
    for_all_samples(check_position_views);
}

static void heads_that_lie_apart_match_tokens(void **state) {
    (void)state;
    for_all_samples(check_heads_in_table);
    for_all_samples(check_heads_past_table);
}

/* Results too large for the caches may be written past them, several heads at a time: the same bits as in place, and
 * nothing beside them.  The gap after each head moves rows off the lines of the cache. */
static void check_large(gyre_dtype dtype, gyre_layout layout, int64_t dim, int heads_apart, int64_t gap) {
    enum { HEADS_OF_LARGE = 11, WIDTH = 128, GUARD = 64 };
    const size_t size = gyre_dtype_size(dtype);
    const int64_t tokens = (1 << 23) / (int64_t)size / (HEADS_OF_LARGE * WIDTH) + 50, head = tokens * WIDTH + gap;
    const int64_t strides[4] = {0, heads_apart ? WIDTH : HEADS_OF_LARGE * (WIDTH + gap), heads_apart ? head : WIDTH + gap,
                                1};
    const size_t all = (size_t)(heads_apart ? HEADS_OF_LARGE * head : tokens * HEADS_OF_LARGE * (WIDTH + gap)) + GUARD;
    char *want = aligned_alloc(64, (all * size + 63) / 64 * 64), *got = aligned_alloc(64, (all * size + 63) / 64 * 64);
    assert_true(want && got);
    uint32_t bits = 1;
    for (size_t i = 0; i < all * size / 2; i++) { /* of either sign, exponents near 1 */
        bits = bits * 1664525 + 1013904223;
        const uint16_t x = (uint16_t)(0x3c00 | (bits >> 16 & 0x83ff));
        memcpy(want + 2 * i, &x, 2);
    }
    memset(got, 0x5A, all * size);
    gyre_encoding *e = rope_encoding(WIDTH, dim, layout);
    gyre_view view = {want, dtype, {1, tokens, HEADS_OF_LARGE, WIDTH}, {strides[0], strides[1], strides[2], strides[3]}};
    const gyre_cview in = gyre_const(view);
    const gyre_positions positions = {.base = 7};
    gyre_view out = view;
    out.data = got;
    gyre_pool *pool;
    assert_ok(gyre_pool_create(&pool, 2, NULL));
    const gyre_exec exec = gyre_pool_exec(pool);
    assert_ok(gyre_rotate(
        e, GYRE_ARGS(gyre_rotate_args, .role = GYRE_ROLE_KEY, .positions = &positions, .in = in, .out = out), &exec, NULL));
    assert_ok(gyre_rotate(
        e, GYRE_ARGS(gyre_rotate_args, .role = GYRE_ROLE_KEY, .positions = &positions, .in = in, .out = view), NULL, NULL));
    for (int64_t h = 0; h < HEADS_OF_LARGE; h++)
        for (int64_t t = 0; t < tokens; t++) {
            const size_t at = (size_t)(t * strides[1] + h * strides[2]) * size;
            if (memcmp(got + at, want + at, WIDTH * size) != 0)
                fail_msg("type %d, layout %d, dim %d, head %d, token %d", dtype, layout, (int)dim, (int)h, (int)t);
            for (size_t i = 0; gap && !heads_apart && i < (size_t)gap * size; i++)
                assert_int_equal(got[at + WIDTH * size + i], 0x5A);
        }
    gyre_pool_free(pool);
    gyre_encoding_free(e);
    free(want);
    free(got);
}

static void large_results_have_the_same_bits(void **state) {
    (void)state;
    static const gyre_dtype types[] = {GYRE_DTYPE_F32, GYRE_DTYPE_F16, GYRE_DTYPE_BF16};
    for (int i = 0; i < 3; i++)
        for (int heads_apart = 0; heads_apart < 2; heads_apart++) {
            check_large(types[i], GYRE_LAYOUT_HALF, 128, heads_apart, 0);
            check_large(types[i], GYRE_LAYOUT_INTERLEAVED, 128, heads_apart, 64);
            check_large(types[i], GYRE_LAYOUT_INTERLEAVED_TO_HALF, 64, heads_apart, 3);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(error_bound_holds_in_batches),
        cmocka_unit_test(in_place_matches_out_of_place),
        cmocka_unit_test(strided_matches_dense),
        cmocka_unit_test(parts_match_the_whole),
        cmocka_unit_test(threads_change_nothing),
        cmocka_unit_test(positions_of_any_type_and_stride),
        cmocka_unit_test(heads_that_lie_apart_match_tokens),
        cmocka_unit_test(large_results_have_the_same_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
