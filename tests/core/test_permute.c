/* test_permute.c: rows of projections permuted between the layouts of a rotation. */
#include "core/rotation/permute.h"
#include "support.h"

#include <stdlib.h>
#include <string.h>

enum { HEADS = 2, CHANNELS = 12, FIRST = 3, DIM = 8, INPUTS = 5, ALL = HEADS * CHANNELS * INPUTS };

static gyre_encoding *rope(gyre_layout layout) {
    gyre_config config = test_rope_config(CHANNELS, layout);
    config.rope.first_channel = FIRST;
    config.rope.dim = DIM;
    return test_encoding(&config);
}

/* The half layout is r(2, d/2), the interleaved one r(d/2, 2). Rows 3 .. 10 of a head are rotated, the rest are not. */
static void rows_are_permuted(void **state) {
    (void)state;
    static const int from_half[CHANNELS] = {0, 1, 2, 3, 7, 4, 8, 5, 9, 6, 10, 11};
    int32_t in[ALL], out[ALL], back[ALL];
    for (int i = 0; i < ALL; i++)
        in[i] = i;
    gyre_encoding *e = rope(GYRE_LAYOUT_HALF);
    const gyre_cview rows = gyre_cdense(in, GYRE_DTYPE_I32, 1, HEADS, CHANNELS, INPUTS),
                     moved = {out, GYRE_DTYPE_I32, {1, HEADS, CHANNELS, INPUTS}, {ALL, CHANNELS * INPUTS, INPUTS, 1}};
    const gyre_view there = gyre_dense(out, GYRE_DTYPE_I32, 1, HEADS, CHANNELS, INPUTS);
    const gyre_view again = gyre_dense(back, GYRE_DTYPE_I32, 1, HEADS, CHANNELS, INPUTS);
    assert_ok(gyre_permute_rows(e, GYRE_LAYOUT_HALF, GYRE_LAYOUT_INTERLEAVED, &rows, &there, NULL));
    for (int i = 0; i < ALL; i++) {
        const int head = i / (CHANNELS * INPUTS), row = i / INPUTS % CHANNELS;
        assert_int_equal(out[i], (head * CHANNELS + from_half[row]) * INPUTS + i % INPUTS);
    }
    assert_ok(gyre_permute_rows(e, GYRE_LAYOUT_INTERLEAVED, GYRE_LAYOUT_HALF, &moved, &again, NULL));
    assert_memory_equal(back, in, sizeof in);
    const gyre_view over = gyre_dense(in, GYRE_DTYPE_I32, 1, HEADS - 1, CHANNELS, INPUTS);
    const gyre_cview under = gyre_cdense(in + INPUTS, GYRE_DTYPE_I32, 1, HEADS - 1, CHANNELS, INPUTS);
    gyre_error err = {0, ""};
    assert_int_equal(gyre_permute_rows(e, GYRE_LAYOUT_HALF, GYRE_LAYOUT_INTERLEAVED, &under, &over, &err), GYRE_EINVAL);
    assert_non_null(strstr(err.text, "out: overlaps in"));
    for (int i = 0; i < ALL; i++)
        assert_int_equal(in[i], i);
    for (int layout = GYRE_LAYOUT_HALF; layout <= GYRE_LAYOUT_INTERLEAVED; layout++) { /* to itself: a copy */
        memset(back, 0, sizeof back);
        assert_ok(gyre_permute_rows(e, (gyre_layout)layout, (gyre_layout)layout, &rows, &again, NULL));
        assert_memory_equal(back, in, sizeof in);
    }
    gyre_encoding_free(e);
}

/* Every type, with all bits; [input][channel][head] in memory, with a negative stride along the channels. */
static void any_type_and_stride(void **state) {
    (void)state;
    test_random random = {61};
    uint64_t in[ALL], out[ALL], apart[2 * ALL];
    gyre_encoding *e = rope(GYRE_LAYOUT_INTERLEAVED);
    for (int type = GYRE_DTYPE_F32; type <= GYRE_DTYPE_I64; type++) {
        const size_t size = gyre_dtype_size((gyre_dtype)type);
        for (int i = 0; i < ALL; i++)
            in[i] = i % 4 ? test_next(&random) : UINT64_MAX; /* NaNs keep their payload */
        const gyre_cview rows = gyre_cdense(in, (gyre_dtype)type, 1, HEADS, CHANNELS, INPUTS);
        const gyre_view dense = gyre_dense(out, (gyre_dtype)type, 1, HEADS, CHANNELS, INPUTS);
        const gyre_view strided = {(char *)apart + 2 * HEADS * (CHANNELS - 1) * size,
                                   (gyre_dtype)type,
                                   {1, HEADS, CHANNELS, INPUTS},
                                   {0, 2, -2 * HEADS, 2 * HEADS * CHANNELS}};
        assert_ok(gyre_permute_rows(e, GYRE_LAYOUT_INTERLEAVED, GYRE_LAYOUT_HALF, &rows, &dense, NULL));
        assert_ok(gyre_permute_rows(e, GYRE_LAYOUT_INTERLEAVED, GYRE_LAYOUT_HALF, &rows, &strided, NULL));
        for (int i = 0; i < ALL; i++) {
            const int64_t place = i / (CHANNELS * INPUTS) * strided.stride[1] + i / INPUTS % CHANNELS * strided.stride[2] +
                                  i % INPUTS * strided.stride[3];
            assert_memory_equal((char *)strided.data + place * (int64_t)size, (char *)out + (size_t)i * size, size);
        }
        const gyre_cview moved = gyre_const(strided);
        const gyre_view back = gyre_dense(out, (gyre_dtype)type, 1, HEADS, CHANNELS, INPUTS);
        assert_ok(gyre_permute_rows(e, GYRE_LAYOUT_HALF, GYRE_LAYOUT_INTERLEAVED, &moved, &back, NULL));
        assert_memory_equal(out, in, ALL * size);
    }
    gyre_encoding_free(e);
}

/* -- a layer with grouped queries -- */
enum { QUERIES = 4, KEYS = 2, TOKENS = 6, WIDTH = 10 };

/* y[token][head][channel] = W x + bias, rotated to the token's position. W is [head][channel][input]. */
static void project(const gyre_encoding *e, gyre_role role, const double *weight, const double *bias, int64_t heads,
                    const double *x, double *y) {
    for (int64_t t = 0; t < TOKENS; t++)
        for (int64_t row = 0; row < heads * CHANNELS; row++) {
            double sum = bias[row];
            for (int64_t i = 0; i < WIDTH; i++)
                sum += weight[row * WIDTH + i] * x[t * WIDTH + i];
            y[t * heads * CHANNELS + row] = sum;
        }
    const gyre_positions positions = {NULL, GYRE_DTYPE_I64, 100, 0, 0, 0, 0, 0};
    const gyre_view view = gyre_dense(y, GYRE_DTYPE_F64, 1, TOKENS, heads, CHANNELS);
    const gyre_cview in = gyre_const(view);
    assert_ok(gyre_rotate(e, GYRE_ARGS(gyre_rotate_args, .role = role, .positions = &positions, .in = in, .out = view), NULL,
                          NULL));
}

static void permuted(const gyre_encoding *e, gyre_layout from, gyre_layout to, int64_t heads, int64_t inputs,
                     const double *in, double *out) {
    const gyre_cview rows = gyre_cdense(in, GYRE_DTYPE_F64, 1, heads, CHANNELS, inputs);
    const gyre_view moved = gyre_dense(out, GYRE_DTYPE_F64, 1, heads, CHANNELS, inputs);
    assert_ok(gyre_permute_rows(e, from, to, &rows, &moved, NULL));
}

/* A model trained with one layout has the same scores under the other after its projections are permuted: query heads and
 * fewer key heads, weights and biases. */
static void scores_are_unchanged(void **state) {
    (void)state;
    test_random random = {62};
    static double x[TOKENS * WIDTH], wq[2][QUERIES * CHANNELS * WIDTH], wk[2][KEYS * CHANNELS * WIDTH];
    static double bq[2][QUERIES * CHANNELS], bk[2][KEYS * CHANNELS];
    static double q[2][TOKENS * QUERIES * CHANNELS], k[2][TOKENS * KEYS * CHANNELS];
    for (int from = GYRE_LAYOUT_HALF; from <= GYRE_LAYOUT_INTERLEAVED; from++) {
        const gyre_layout layouts[2] = {(gyre_layout)from,
                                        from == GYRE_LAYOUT_HALF ? GYRE_LAYOUT_INTERLEAVED : GYRE_LAYOUT_HALF};
        test_fill_f64(&random, x, TOKENS * WIDTH);
        test_fill_f64(&random, wq[0], QUERIES * CHANNELS * WIDTH);
        test_fill_f64(&random, wk[0], KEYS * CHANNELS * WIDTH);
        test_fill_f64(&random, bq[0], QUERIES * CHANNELS);
        test_fill_f64(&random, bk[0], KEYS * CHANNELS);
        for (int side = 0; side < 2; side++) {
            gyre_encoding *e = rope(layouts[side]);
            if (side) {
                permuted(e, layouts[0], layouts[1], QUERIES, WIDTH, wq[0], wq[1]);
                permuted(e, layouts[0], layouts[1], KEYS, WIDTH, wk[0], wk[1]);
                permuted(e, layouts[0], layouts[1], QUERIES, 1, bq[0], bq[1]);
                permuted(e, layouts[0], layouts[1], KEYS, 1, bk[0], bk[1]);
            }
            project(e, GYRE_ROLE_QUERY, wq[side], bq[side], QUERIES, x, q[side]);
            project(e, GYRE_ROLE_KEY, wk[side], bk[side], KEYS, x, k[side]);
            gyre_encoding_free(e);
        }
        assert_memory_not_equal(q[0], q[1], sizeof q[0]);
        for (int m = 0; m < TOKENS; m++)
            for (int n = 0; n < TOKENS; n++)
                for (int h = 0; h < QUERIES; h++) {
                    double score[2] = {0, 0};
                    for (int side = 0; side < 2; side++)
                        for (int c = 0; c < CHANNELS; c++)
                            score[side] += q[side][(m * QUERIES + h) * CHANNELS + c] *
                                           k[side][(n * KEYS + h / (QUERIES / KEYS)) * CHANNELS + c];
                    test_close(score[1], score[0], 1e-12L, "score");
                }
    }
}

/* -- rows moved in place -- */
static void in_place(void **state) {
    (void)state;
    const gyre_dtype types[] = {GYRE_DTYPE_F32, GYRE_DTYPE_F16, GYRE_DTYPE_F64};
    enum { MOST = 2000 };
    static uint64_t data[4 * MOST];
    for (int64_t pairs = 1; pairs <= MOST; pairs += pairs < 10 ? 1 : pairs < 1020 ? 101 : 489)
        for (size_t type = 0; type < 3; type++)
            for (int64_t stride = -2; stride <= 2; stride += 3) {
                const gyre_dtype dtype = types[type];
                const size_t size = gyre_dtype_size(dtype);
                char *row = (char *)data + (stride < 0 ? (2 * pairs - 1) * 2 * (int64_t)size : 0);
                for (int64_t i = 0; i < 2 * pairs; i++) {
                    const uint64_t number = (uint64_t)i;
                    memcpy(row + i * stride * (int64_t)size, &number, size);
                }
                gyre_deinterleave_row(row, dtype, stride, pairs);
                for (int64_t i = 0; i < 2 * pairs; i++) {
                    const uint64_t number = (uint64_t)(i < pairs ? 2 * i : 2 * (i - pairs) + 1);
                    assert_memory_equal(row + i * stride * (int64_t)size, &number, size);
                }
                gyre_interleave_row(row, dtype, stride, pairs);
                for (int64_t i = 0; i < 2 * pairs; i++) {
                    const uint64_t number = (uint64_t)i;
                    assert_memory_equal(row + i * stride * (int64_t)size, &number, size);
                }
            }
}

static void wrong_arguments(void **state) {
    (void)state;
    float in[ALL] = {0}, out[ALL], before[ALL];
    test_random random = {63};
    test_fill(&random, out, ALL);
    memcpy(before, out, sizeof out);
    gyre_config none = GYRE_INIT(gyre_config);
    none.kind = GYRE_KIND_NOPE;
    none.head_dim = CHANNELS;
    gyre_encoding *e = rope(GYRE_LAYOUT_HALF), *nope = test_encoding(&none);
    const gyre_cview rows = gyre_cdense(in, GYRE_DTYPE_F32, 1, HEADS, CHANNELS, INPUTS);
    const gyre_view moved = gyre_dense(out, GYRE_DTYPE_F32, 1, HEADS, CHANNELS, INPUTS);
    assert_int_equal(gyre_permute_rows(NULL, GYRE_LAYOUT_HALF, GYRE_LAYOUT_HALF, &rows, &moved, NULL), GYRE_EINVAL);
    assert_int_equal(gyre_permute_rows(e, GYRE_LAYOUT_HALF, GYRE_LAYOUT_HALF, NULL, &moved, NULL), GYRE_EINVAL);
    assert_int_equal(gyre_permute_rows(e, GYRE_LAYOUT_HALF, GYRE_LAYOUT_HALF, &rows, NULL, NULL), GYRE_EINVAL);
    assert_int_equal(gyre_permute_rows(nope, GYRE_LAYOUT_HALF, GYRE_LAYOUT_INTERLEAVED, &rows, &moved, NULL),
                     GYRE_EUNSUPPORTED);
    assert_int_equal(gyre_permute_rows(e, GYRE_LAYOUT_INTERLEAVED_TO_HALF, GYRE_LAYOUT_HALF, &rows, &moved, NULL),
                     GYRE_EINVAL);
    assert_int_equal(gyre_permute_rows(e, GYRE_LAYOUT_HALF, (gyre_layout)-1, &rows, &moved, NULL), GYRE_EINVAL);

    gyre_cview bad = rows;
    bad.dtype = GYRE_DTYPE_I32;
    assert_int_equal(gyre_permute_rows(e, GYRE_LAYOUT_HALF, GYRE_LAYOUT_INTERLEAVED, &bad, &moved, NULL), GYRE_EDTYPE);
    bad.dtype = (gyre_dtype)42;
    assert_int_equal(gyre_permute_rows(e, GYRE_LAYOUT_HALF, GYRE_LAYOUT_INTERLEAVED, &bad, &moved, NULL), GYRE_EDTYPE);
    bad = rows;
    bad.shape[1] = 1;
    assert_int_equal(gyre_permute_rows(e, GYRE_LAYOUT_HALF, GYRE_LAYOUT_INTERLEAVED, &bad, &moved, NULL), GYRE_ESHAPE);
    bad = rows;
    bad.data = NULL;
    assert_int_equal(gyre_permute_rows(e, GYRE_LAYOUT_HALF, GYRE_LAYOUT_INTERLEAVED, &bad, &moved, NULL), GYRE_EINVAL);
    bad = gyre_const(moved); /* in place */
    assert_int_equal(gyre_permute_rows(e, GYRE_LAYOUT_HALF, GYRE_LAYOUT_INTERLEAVED, &bad, &moved, NULL), GYRE_EINVAL);
    gyre_view shared = moved;
    shared.stride[3] = 0;
    assert_int_equal(gyre_permute_rows(e, GYRE_LAYOUT_HALF, GYRE_LAYOUT_INTERLEAVED, &rows, &shared, NULL), GYRE_EINVAL);
    const gyre_cview layers = gyre_cdense(in, GYRE_DTYPE_F32, HEADS, 1, CHANNELS, INPUTS);
    const gyre_view of_layers = gyre_dense(out, GYRE_DTYPE_F32, HEADS, 1, CHANNELS, INPUTS);
    assert_int_equal(gyre_permute_rows(e, GYRE_LAYOUT_HALF, GYRE_LAYOUT_INTERLEAVED, &layers, &of_layers, NULL),
                     GYRE_ESHAPE);
    const gyre_cview narrow = gyre_cdense(in, GYRE_DTYPE_F32, 1, HEADS, CHANNELS - 2, INPUTS);
    const gyre_view of_narrow = gyre_dense(out, GYRE_DTYPE_F32, 1, HEADS, CHANNELS - 2, INPUTS);
    assert_int_equal(gyre_permute_rows(e, GYRE_LAYOUT_HALF, GYRE_LAYOUT_INTERLEAVED, &narrow, &of_narrow, NULL),
                     GYRE_ESHAPE);
    const gyre_cview empty = gyre_cdense(NULL, GYRE_DTYPE_F32, 1, 0, CHANNELS, INPUTS);
    const gyre_view of_empty = gyre_dense(NULL, GYRE_DTYPE_F32, 1, 0, CHANNELS, INPUTS);
    assert_ok(gyre_permute_rows(e, GYRE_LAYOUT_HALF, GYRE_LAYOUT_INTERLEAVED, &empty, &of_empty, NULL));
    assert_memory_equal(out, before, sizeof out);
    gyre_encoding_free(e);
    gyre_encoding_free(nope);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_permuted), cmocka_unit_test(any_type_and_stride), cmocka_unit_test(scores_are_unchanged),
        cmocka_unit_test(in_place),          cmocka_unit_test(wrong_arguments),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
