/* test_sinusoidal.c: the sinusoid in every layout that models use, with offset, padding and scales. */
#include "support.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LAYOUTS = 5, MOST = 601 };

static gyre_config config_of(int64_t dim, gyre_sinusoid layout) {
    gyre_config config = GYRE_INIT(gyre_config);
    config.kind = GYRE_KIND_SINUSOIDAL;
    config.input.dim = dim;
    config.input.layout = layout;
    return config;
}

/* The vector that is added at `position`. */
static void added(const gyre_encoding *e, const double *number, int64_t position, int64_t dim, double *out) {
    const gyre_positions positions = {NULL, GYRE_DTYPE_I64, position, 0, 0, 0, 0, 0};
    const gyre_view view = gyre_dense(out, GYRE_DTYPE_F64, 1, 1, 1, dim);
    const gyre_cview in = gyre_const(view);
    const gyre_tables tables = {.input = gyre_cdense(number, GYRE_DTYPE_F64, 1, 1, 1, 1)};
    memset(out, 0, (size_t)dim * sizeof *out);
    assert_ok(gyre_add_input(
        e, GYRE_ARGS(gyre_add_input_args, .tables = number ? &tables : NULL, .positions = &positions, .in = in, .out = view),
        NULL, NULL));
}

/* Channel c at position m, as the papers write it. */
static long double formula(int64_t dim, gyre_sinusoid layout, long double base, long double m, int64_t c) {
    const int64_t half = dim / 2;
    if (layout == GYRE_SINUSOID_INTERLEAVED) {
        const long double angle = m * powl(base, -(long double)(c - c % 2) / (long double)dim);
        return c % 2 ? cosl(angle) : sinl(angle);
    }
    if (c == 2 * half) return 0;
    const int steep = layout == GYRE_SINUSOID_SIN_COS_T2T || layout == GYRE_SINUSOID_COS_SIN_T2T;
    const long double i = (long double)(c < half ? c : c - half);
    const long double exponent = steep ? i / (long double)(half - 1) : 2 * i / (long double)dim;
    const int cosine = (c >= half) == (layout == GYRE_SINUSOID_SIN_COS || layout == GYRE_SINUSOID_SIN_COS_T2T);
    const long double angle = m * expl(-exponent * logl(base));
    return cosine ? cosl(angle) : sinl(angle);
}

static void layouts_follow_their_formulas(void **state) {
    (void)state;
    static const int64_t dims[] = {4, 6, 300, 600, 5, 601}, positions[] = {-3, 0, 1, 77, 131071};
    double got[MOST];
    for (int layout = 0; layout < LAYOUTS; layout++)
        for (size_t d = 0; d < 6; d++)
            for (int other = 0; other < 2; other++) {
                const int64_t dim = dims[d];
                gyre_config config = config_of(dim, (gyre_sinusoid)layout);
                if (dim % 2 && layout != GYRE_SINUSOID_SIN_COS_T2T && layout != GYRE_SINUSOID_COS_SIN_T2T) continue;
                config.input.base = other ? 500 : 0;
                config.input.offset = other ? 9 : 0;
                config.input.scale = other ? -0.37 : 0;
                gyre_encoding *e = test_encoding(&config);
                assert_true(gyre_encoding_get_config(e)->input.scale == (other ? -0.37 : 1));
                for (size_t p = 0; p < 5; p++) {
                    added(e, NULL, positions[p], dim, got);
                    const long double m = (long double)(positions[p] + config.input.offset), base = other ? 500 : 10000;
                    for (int64_t c = 0; c < dim; c++)
                        test_close(got[c],
                                   (other ? (long double)-0.37 : 1) * formula(dim, (gyre_sinusoid)layout, base, m, c),
                                   1e-12L, "sinusoid");
                    if (dim % 2) assert_true(got[dim - 1] == 0);
                }
                gyre_encoding_free(e);
            }
}

/* With cosines first, the halves of the reference are swapped. */
static void cos_sin_layout_swaps_the_halves(void **state) {
    (void)state;
    static const char *const keys[] = {"concatenated", "tensor2tensor"};
    static const gyre_sinusoid layouts[] = {GYRE_SINUSOID_COS_SIN, GYRE_SINUSOID_COS_SIN_T2T};
    json_t *cases = test_reference("sinusoidal.json"), *c;
    size_t index, seen = 0;
    json_array_foreach(cases, index, c) for (int layout = 0; layout < 2; layout++) {
        double want[1024], got[1024];
        if (json_is_null(json_object_get(c, keys[layout]))) continue;
        const size_t dim = test_numbers(c, keys[layout], want, 1024), half = dim / 2;
        gyre_config config = config_of((int64_t)dim, layouts[layout]);
        config.input.base = test_number(c, "base");
        gyre_encoding *e = test_encoding(&config);
        added(e, NULL, test_integer(c, "position"), (int64_t)dim, got);
        for (size_t i = 0; i < half; i++) {
            test_close(got[i], want[half + i], 1e-12, keys[layout]);
            test_close(got[half + i], want[i], 1e-12, keys[layout]);
        }
        gyre_encoding_free(e);
        seen++;
    }
    assert_true(seen > 20);
    json_decref(cases);
}

/* Rows as the models' own code computes them, dim 8, base 10000; values from 30-digit arithmetic. */
static void rows_of_known_models(void **state) {
    (void)state;
    static const struct {
        const char *model;
        gyre_sinusoid layout;
        int64_t offset, position;
        double want[8];
    } rows[] = {
        /* XLM, token 3: sin, cos of 3, .3, .03, .003 */
        {"XLM",
         GYRE_SINUSOID_INTERLEAVED,
         0,
         3,
         {0.1411200080598672221, -0.98999249660044545727, 0.2955202066613395751, 0.95533648912560601964,
          0.029995500202495660769, 0.99955003374898751627, 0.0029999955000020249996, 0.99999550000337499899}},
        /* Marian: the same values, sines first */
        {"Marian",
         GYRE_SINUSOID_SIN_COS,
         0,
         3,
         {0.1411200080598672221, 0.2955202066613395751, 0.029995500202495660769, 0.0029999955000020249996,
          -0.98999249660044545727, 0.95533648912560601964, 0.99955003374898751627, 0.99999550000337499899}},
        /* M2M100 and XGLM, first token: row padding_idx + 1 = 2; frequencies 10000^(-i / 3) */
        {"M2M100",
         GYRE_SINUSOID_SIN_COS_T2T,
         2,
         0,
         {0.90929742682568169540, 0.0926985007787272274055, 0.00430885604674281167494, 0.00019999999866666666933,
          -0.41614683654714238700, 0.995694224123739861927, 0.999990716836695663487, 0.99999998000000006667}},
        {"MusicGen",
         GYRE_SINUSOID_COS_SIN_T2T,
         0,
         2,
         {-0.41614683654714238700, 0.995694224123739861927, 0.999990716836695663487, 0.99999998000000006667,
          0.90929742682568169540, 0.0926985007787272274055, 0.00430885604674281167494, 0.00019999999866666666933}},
    };
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        double got[8];
        gyre_config config = config_of(8, rows[r].layout);
        config.input.offset = rows[r].offset;
        gyre_encoding *e = test_encoding(&config);
        added(e, NULL, rows[r].position, 8, got);
        for (int c = 0; c < 8; c++)
            test_close(got[c], rows[r].want[c], 1e-15L, rows[r].model);
        gyre_encoding_free(e);
    }
}

/* M2M100: padding gets zeros, tokens count from padding_idx + 1 = 2, wherever the padding is. */
static void padding_is_zero(void **state) {
    (void)state;
    static const unsigned char mask[2][4] = {{0, 0, 1, 1}, {1, 1, 1, 0}};
    static const int64_t sinusoid_positions[2][4] = {{0, 0, 2, 3}, {2, 3, 4, 0}};
    int64_t position[2][4];
    double x[2][4][9] = {{{0}}};
    assert_ok(gyre_positions_from_mask(mask[0], 2, 4, position[0]));
    gyre_config config = config_of(9, GYRE_SINUSOID_SIN_COS_T2T);
    config.input.offset = 2;
    config.input.zero_padding = 1;
    config.input.scale = 2;
    gyre_encoding *e = test_encoding(&config);
    const gyre_positions positions = {position, GYRE_DTYPE_I64, 0, 0, 4, 1, 0, 0};
    const gyre_view out = gyre_dense(x, GYRE_DTYPE_F64, 2, 4, 1, 9);
    const gyre_cview in = gyre_const(out);
    assert_ok(gyre_add_input(e, GYRE_ARGS(gyre_add_input_args, .positions = &positions, .in = in, .out = out), NULL, NULL));
    for (int b = 0; b < 2; b++)
        for (int t = 0; t < 4; t++)
            for (int c = 0; c < 9; c++)
                if (mask[b][t])
                    test_close(x[b][t][c],
                               2 * formula(9, GYRE_SINUSOID_SIN_COS_T2T, 10000, (long double)sinusoid_positions[b][t], c),
                               1e-14L, "token");
                else
                    assert_true(x[b][t][c] == 0);
    double got[9];
    added(e, NULL, -2, 9, got); /* no padding: the sinusoid of 0 */
    assert_true(got[0] == 0 && got[4] == 2);
    gyre_encoding_free(e);
    config.input.zero_padding = 0;
    e = test_encoding(&config);
    added(e, NULL, -1, 9, got);
    test_close(got[0], 2 * sinl(1), 1e-15L, "position -1 without padding");
    gyre_encoding_free(e);
}

static void far_positions(void **state) {
    (void)state;
    const int64_t far = (int64_t)1 << 31;
    double got[8];
    gyre_config config = config_of(8, GYRE_SINUSOID_COS_SIN);
    config.input.offset = INT32_MAX;
    gyre_encoding *e = test_encoding(&config);
    for (int sign = -1; sign <= 1; sign += 2) {
        added(e, NULL, sign * far, 8, got);
        for (int c = 0; c < 8; c++)
            test_close(got[c], formula(8, GYRE_SINUSOID_COS_SIN, 10000, (long double)(sign * far + INT32_MAX), c), 1e-9L,
                       "far position");
        const gyre_positions past = {NULL, GYRE_DTYPE_I64, sign * (far + 1), 0, 0, 0, 0, 0};
        const gyre_view out = gyre_dense(got, GYRE_DTYPE_F64, 1, 1, 1, 8);
        const gyre_cview in = gyre_const(out);
        assert_int_equal(
            gyre_add_input(e, GYRE_ARGS(gyre_add_input_args, .positions = &past, .in = in, .out = out), NULL, NULL),
            GYRE_ERANGE);
    }
    gyre_encoding_free(e);
}

/* -- a trained scale -- */
enum { BATCH = 3, TOKENS = 131, DIM = 300, ALL = BATCH * TOKENS * DIM };

typedef struct sample {
    gyre_encoding *e;
    int64_t position[BATCH][TOKENS];
    double x[ALL], y[ALL];
} sample;

static sample *sample_make(void) {
    sample *s = calloc(1, sizeof *s);
    assert_non_null(s);
    test_random random = {31};
    gyre_config config = config_of(DIM, GYRE_SINUSOID_COS_SIN_T2T);
    config.input.trained_scale = 1;
    config.input.scale = 0.25;
    config.input.offset = 3;
    s->e = test_encoding(&config);
    for (int i = 0; i < BATCH * TOKENS; i++)
        s->position[i / TOKENS][i % TOKENS] = (int64_t)(test_next(&random) % 1000) - 500;
    test_fill_f64(&random, s->x, ALL);
    return s;
}

static void sample_free(sample *s) {
    gyre_encoding_free(s->e);
    free(s);
}

static long double term(const sample *s, int shared, int b, int t, int c) {
    const int64_t m = s->position[shared ? 0 : b][t] + 3;
    return 0.25L * formula(DIM, GYRE_SINUSOID_COS_SIN_T2T, 10000, (long double)m, c);
}

static void trained_scale_multiplies(void **state) {
    (void)state;
    sample *s = sample_make();
    const float small = -1.5f;
    const double wide = -1.5;
    int64_t shape[4];
    const int64_t one[4] = {1, 1, 1, 1};
    assert_ok(gyre_encoding_table_shape(s->e, GYRE_TABLE_INPUT, shape));
    assert_memory_equal(shape, one, sizeof one);
    assert_int_equal(gyre_encoding_places(s->e), GYRE_PLACE_INPUT);
    for (int narrow = 0; narrow < 2; narrow++)
        for (int shared = 0; shared < 2; shared++) {
            const gyre_tables tables = {.input = gyre_cdense(narrow ? (const void *)&small : &wide,
                                                             narrow ? GYRE_DTYPE_F32 : GYRE_DTYPE_F64, 1, 1, 1, 1)};
            const gyre_positions positions = {s->position, GYRE_DTYPE_I64, 0, 0, shared ? 0 : TOKENS, 1, 0, 0};
            const gyre_cview in = gyre_cdense(s->x, GYRE_DTYPE_F64, BATCH, TOKENS, 1, DIM);
            const gyre_view out = gyre_dense(s->y, GYRE_DTYPE_F64, BATCH, TOKENS, 1, DIM);
            assert_ok(gyre_add_input(
                s->e, GYRE_ARGS(gyre_add_input_args, .tables = &tables, .positions = &positions, .in = in, .out = out), NULL,
                NULL));
            for (int i = 0; i < ALL; i += 7)
                test_close(s->y[i], s->x[i] - 1.5L * term(s, shared, i / DIM / TOKENS, i / DIM % TOKENS, i % DIM), 1e-13L,
                           "scaled sinusoid");
        }
    sample_free(s);
}

/* d loss / d alpha = sum of dout . (scale x sinusoid), for every combination of types, accumulated. */
static void gradient_of_the_scale(void **state) {
    (void)state;
    static double dout[2 * ALL];
    sample *s = sample_make();
    for (int type = 0; type < 4; type++)
        for (int shared = 0; shared < 2; shared++) {
            long double want = 0.5L, size = 0;
            for (int i = 0; i < ALL; i++) {
                test_put(dout, test_dtypes[type], 2 * (size_t)i, s->x[i]);
                const long double part = test_get(dout, test_dtypes[type], 2 * (size_t)i) *
                                         term(s, shared, i / DIM / TOKENS, i / DIM % TOKENS, i % DIM);
                want += part;
                size += fabsl(part);
            }
            gyre_cview view = gyre_cdense(dout, test_dtypes[type], BATCH, TOKENS, 1, DIM);
            for (int d = 0; d < 4; d++)
                view.stride[d] *= 2;
            const gyre_positions positions = {s->position, GYRE_DTYPE_I64, 0, 0, shared ? 0 : TOKENS, 1, 0, 0};
            double wide = 0.5;
            float narrow = 0.5f;
            gyre_table_gradients gradients = {.input = gyre_dense(&wide, GYRE_DTYPE_F64, 1, 1, 1, 1)};
            assert_ok(gyre_add_input_gradient(s->e, &positions, &view, &gradients, NULL, NULL));
            test_close(wide, want, 1e-13L * size, "gradient of the scale");
            gradients.input = gyre_dense(&narrow, GYRE_DTYPE_F32, 1, 1, 1, 1);
            assert_ok(gyre_add_input_gradient(s->e, &positions, &view, &gradients, NULL, NULL));
            test_close(narrow, want, test_half_ulp(GYRE_DTYPE_F32, (double)want) * 1.001L, "its float");
        }
    sample_free(s);
}

static void threads_do_not_change_the_gradient(void **state) {
    (void)state;
    sample *s = sample_make();
    static const int64_t tokens[] = {1, 2, 63, 64, 65, TOKENS};
    for (size_t n = 0; n < sizeof tokens / sizeof *tokens; n++) {
        gyre_cview dout = gyre_cdense(s->x, GYRE_DTYPE_F64, BATCH, TOKENS, 1, DIM);
        dout.shape[1] = tokens[n];
        const gyre_positions positions = {s->position, GYRE_DTYPE_I64, 0, 0, TOKENS, 1, 0, 0};
        double alone = 0, together = 0;
        long double want = 0;
        for (int i = 0; i < ALL; i++)
            if (i / DIM % TOKENS < tokens[n]) want += s->x[i] * term(s, 0, i / DIM / TOKENS, i / DIM % TOKENS, i % DIM);
        gyre_table_gradients gradients = {.input = gyre_dense(&alone, GYRE_DTYPE_F64, 1, 1, 1, 1)};
        assert_ok(gyre_add_input_gradient(s->e, &positions, &dout, &gradients, NULL, NULL));
        test_close(alone, want, 1e-10L, "every token once");
        for (int threads = 1; threads < 6; threads += 2) {
            gyre_pool *pool;
            assert_ok(gyre_pool_create(&pool, threads, NULL));
            const gyre_exec exec = gyre_pool_exec(pool);
            gradients.input.data = &together;
            together = 0;
            assert_ok(gyre_add_input_gradient(s->e, &positions, &dout, &gradients, &exec, NULL));
            assert_memory_equal(&alone, &together, sizeof alone);
            gyre_pool_free(pool);
        }
    }
    sample_free(s);
}

static void trained_scale_needs_its_table(void **state) {
    (void)state;
    sample *s = sample_make();
    static double before[ALL];
    const double number = 1;
    double sum = 7;
    const gyre_positions positions = {NULL, GYRE_DTYPE_I64, 0, 0, 0, 0, 0, 0};
    const gyre_cview in = gyre_cdense(s->x, GYRE_DTYPE_F64, BATCH, TOKENS, 1, DIM);
    const gyre_view out = gyre_dense(s->y, GYRE_DTYPE_F64, BATCH, TOKENS, 1, DIM);
    gyre_tables tables = {.input = gyre_cdense(NULL, GYRE_DTYPE_F64, 1, 1, 1, 1)};
    gyre_table_gradients gradients = {.input = gyre_dense(NULL, GYRE_DTYPE_F64, 1, 1, 1, 1)};
    assert_int_equal(
        gyre_add_input(s->e, GYRE_ARGS(gyre_add_input_args, .positions = &positions, .in = in, .out = out), NULL, NULL),
        GYRE_EINVAL);
    assert_int_equal(
        gyre_add_input(s->e,
                       GYRE_ARGS(gyre_add_input_args, .tables = &tables, .positions = &positions, .in = in, .out = out),
                       NULL, NULL),
        GYRE_EINVAL);
    assert_int_equal(gyre_add_input_gradient(s->e, &positions, &in, NULL, NULL, NULL), GYRE_EINVAL);
    assert_int_equal(gyre_add_input_gradient(s->e, &positions, &in, &gradients, NULL, NULL), GYRE_EINVAL);
    tables.input = gyre_cdense(&number, GYRE_DTYPE_F64, 1, 1, 1, DIM);
    gradients.input = gyre_dense(&sum, GYRE_DTYPE_F64, 1, 1, 2, 1);
    assert_int_equal(
        gyre_add_input(s->e,
                       GYRE_ARGS(gyre_add_input_args, .tables = &tables, .positions = &positions, .in = in, .out = out),
                       NULL, NULL),
        GYRE_ESHAPE);
    assert_int_equal(gyre_add_input_gradient(s->e, &positions, &in, &gradients, NULL, NULL), GYRE_ESHAPE);
    tables.input = gyre_cdense(&number, GYRE_DTYPE_BF16, 1, 1, 1, 1);
    gradients.input = gyre_dense(&sum, GYRE_DTYPE_F16, 1, 1, 1, 1);
    assert_int_equal(
        gyre_add_input(s->e,
                       GYRE_ARGS(gyre_add_input_args, .tables = &tables, .positions = &positions, .in = in, .out = out),
                       NULL, NULL),
        GYRE_EDTYPE);
    assert_int_equal(gyre_add_input_gradient(s->e, &positions, &in, &gradients, NULL, NULL), GYRE_EDTYPE);
    const gyre_positions far = {NULL, GYRE_DTYPE_I64, ((int64_t)1 << 31) - TOKENS + 2, 0, 0, 0, 0, 0};
    gradients.input = gyre_dense(&sum, GYRE_DTYPE_F64, 1, 1, 1, 1);
    assert_int_equal(gyre_add_input_gradient(s->e, &far, &in, &gradients, NULL, NULL), GYRE_ERANGE);
    assert_true(sum == 7);
    assert_memory_equal(s->y, before, sizeof before);
    sample_free(s);
}

static void wrong_configs(void **state) {
    (void)state;
    const gyre_config right = config_of(8, GYRE_SINUSOID_INTERLEAVED);
    gyre_config wrong = right;
    wrong.input.offset = -1;
    assert_config_error(&wrong, "input.offset: -1 is negative (gyre_config)");
    wrong.input.offset = (int64_t)1 << 31;
    assert_config_error(&wrong, "input.offset: 2147483648 is past 2^31 - 1 (gyre_config)");
    wrong = right;
    wrong.input.scale = -INFINITY;
    assert_config_error(&wrong, "input.scale: -inf is not finite (gyre_config)");
    wrong = right;
    wrong.input.resized_length = 64;
    assert_config_error(&wrong, "input.resized_length: 64 is for a learned table; a sinusoid has no end (gyre_config)");
    wrong = right;
    wrong.input.hierarchy = 0.4;
    assert_config_error(&wrong, "input.hierarchy: 0.4 is for a learned table; a sinusoid has no end (gyre_config)");
    wrong = right;
    wrong.input.dim = 0;
    assert_config_error(&wrong, "input.dim: missing; sinusoidal needs the model's width (gyre_config)");
    wrong = right;
    wrong.input.layout = (gyre_sinusoid)LAYOUTS;
    assert_config_error(
        &wrong, "input.layout: 5 is not one of interleaved, sin-cos, sin-cos-t2t, cos-sin, cos-sin-t2t (gyre_config)");
    wrong.input.layout = (gyre_sinusoid)-1;
    assert_config_error(
        &wrong, "input.layout: -1 is not one of interleaved, sin-cos, sin-cos-t2t, cos-sin, cos-sin-t2t (gyre_config)");
    wrong = config_of(3, GYRE_SINUSOID_COS_SIN_T2T);
    assert_config_error(&wrong, "input.dim: 3 is below 4; this layout divides by dim / 2 - 1 (gyre_config)");
    wrong = config_of(5, GYRE_SINUSOID_COS_SIN);
    assert_config_error(&wrong, "input.dim: 5 is odd; each sine needs its cosine (gyre_config)");
}

/* -- cached rows -- */
static void *plain_alloc(void *ctx, size_t bytes, size_t align) {
    (void)ctx;
    return aligned_alloc(align, (bytes + align - 1) / align * align);
}
static void plain_free(void *ctx, void *memory) {
    (void)ctx;
    free(memory);
}

/* With a caller's allocator no rows are cached. The results have the same bits as with cached rows, inside and outside their
 * range. */
static void check_cached(const gyre_config *config, gyre_dtype dtype) {
    enum { ROWS = 7 };
    static double x[ROWS * 33], y[ROWS * 33], z[ROWS * 33]; /* of any type */
    static const int64_t where[ROWS] = {0, 1, 63, 64, 499, 500, -1};
    const gyre_alloc alloc = {plain_alloc, plain_free, NULL};
    const int64_t dim = config->input.dim;
    const float one = 0.75f;
    gyre_encoding *with = test_encoding(config), *without = NULL;
    assert_ok(gyre_encoding_create(&without, config, &alloc, NULL));
    test_random random = {77};
    for (int64_t i = 0; i < ROWS * dim; i++)
        test_put(x, dtype, (size_t)i, test_uniform(&random));
    const gyre_tables tables = {.input = gyre_cdense(&one, GYRE_DTYPE_F32, 1, 1, 1, 1)};
    const gyre_positions positions = {where, GYRE_DTYPE_I64, 0, 0, 0, 1, 0, 0};
    const gyre_cview in = gyre_cdense(x, dtype, 1, ROWS, 1, dim);
    const gyre_view a = gyre_dense(y, dtype, 1, ROWS, 1, dim), b = gyre_dense(z, dtype, 1, ROWS, 1, dim);
    assert_ok(gyre_add_input(
        with, GYRE_ARGS(gyre_add_input_args, .tables = &tables, .positions = &positions, .in = in, .out = a), NULL, NULL));
    assert_ok(gyre_add_input(without,
                             GYRE_ARGS(gyre_add_input_args, .tables = &tables, .positions = &positions, .in = in, .out = b),
                             NULL, NULL));
    assert_memory_equal(y, z, (size_t)(ROWS * dim) * gyre_dtype_size(dtype));
    static double apart[2 * ROWS * 33]; /* for strided channels too */
    gyre_view wide = gyre_dense(apart, dtype, 1, ROWS, 1, dim);
    for (int i = 0; i < 4; i++)
        wide.stride[i] *= 2;
    assert_ok(gyre_add_input(
        with, GYRE_ARGS(gyre_add_input_args, .tables = &tables, .positions = &positions, .in = in, .out = wide), NULL,
        NULL));
    for (int64_t i = 0; i < ROWS * dim; i++)
        assert_true(test_get(apart, dtype, (size_t)(2 * i)) == test_get(y, dtype, (size_t)i));
    gyre_encoding_free(with);
    gyre_encoding_free(without);
}

static void cached_rows_change_no_bit(void **state) {
    (void)state;
    static const gyre_dtype dtypes[] = {GYRE_DTYPE_F32, GYRE_DTYPE_F16, GYRE_DTYPE_BF16, GYRE_DTYPE_F64};
    for (int layout = GYRE_SINUSOID_INTERLEAVED; layout <= GYRE_SINUSOID_COS_SIN_T2T; layout++)
        for (int type = 0; type < 4; type++)
            for (int way = 0; way < 2; way++) {
                gyre_config config = GYRE_INIT(gyre_config);
                config.kind = GYRE_KIND_SINUSOIDAL;
                config.trained_length = 500;
                config.input.layout = (gyre_sinusoid)layout;
                config.input.dim = layout == GYRE_SINUSOID_SIN_COS_T2T || layout == GYRE_SINUSOID_COS_SIN_T2T ? 33 : 32;
                config.input.offset = way ? 2 : 0;
                config.input.zero_padding = way;
                config.input.scale = way ? 3.1 : 0;
                config.input.trained_scale = way;
                check_cached(&config, dtypes[type]);
            }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cached_rows_change_no_bit),
        cmocka_unit_test(layouts_follow_their_formulas),
        cmocka_unit_test(cos_sin_layout_swaps_the_halves),
        cmocka_unit_test(rows_of_known_models),
        cmocka_unit_test(padding_is_zero),
        cmocka_unit_test(far_positions),
        cmocka_unit_test(trained_scale_multiplies),
        cmocka_unit_test(gradient_of_the_scale),
        cmocka_unit_test(threads_do_not_change_the_gradient),
        cmocka_unit_test(trained_scale_needs_its_table),
        cmocka_unit_test(wrong_configs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
