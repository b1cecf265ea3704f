/* test_input_tables.c: learned tables with an offset, used at positions past the trained ones; positions from attention
 * masks. */
#include "support.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static gyre_config config_of(int64_t rows, int64_t offset, int64_t dim) {
    gyre_config config = GYRE_INIT(gyre_config);
    config.kind = GYRE_KIND_LEARNED;
    config.input.dim = dim;
    config.input.positions = rows;
    config.input.offset = offset;
    return config;
}

/* out[t] = what positions first + t add to zeros. The table is dense and of doubles. */
static gyre_status added(const gyre_encoding *e, const double *table, int64_t first, int64_t tokens, double *out) {
    const struct gyre_input_config *input = &gyre_encoding_get_config(e)->input;
    const gyre_positions positions = {NULL, GYRE_DTYPE_I64, first, 0, 0, 0, 0, 0};
    const gyre_tables tables = {.input = gyre_cdense(table, GYRE_DTYPE_F64, 1, 1, input->positions, input->dim)};
    const gyre_view view = gyre_dense(out, GYRE_DTYPE_F64, 1, tokens, 1, input->dim);
    const gyre_cview in = gyre_const(view);
    memset(out, 0, (size_t)(tokens * input->dim) * sizeof *out);
    return gyre_add_input(
        e, GYRE_ARGS(gyre_add_input_args, .tables = &tables, .positions = &positions, .in = in, .out = view), NULL, NULL);
}

/* -- masks -- */
/* Rows of the table that transformers looks up, one line per mask: no padding, right, left, both and inside, only
 * padding. */
static const unsigned char masks[5][6] = {
    {1, 1, 1, 1, 1, 1}, {1, 1, 1, 0, 0, 0}, {0, 0, 1, 1, 1, 1}, {0, 1, 1, 0, 9, 0}, {0, 0, 0, 0, 0, 0}};

static void rows_by_mask(void **state) {
    (void)state;
    static const struct {
        const char *model;
        int64_t offset, row[5][6];
    } rules[] = {
        /* cumsum(mask) * mask + padding_idx of 1; OPT: cumsum(mask) * mask - 1, plus 2: the same rows */
        {"RoBERTa, OPT",
         2,
         {{2, 3, 4, 5, 6, 7}, {2, 3, 4, 1, 1, 1}, {1, 1, 2, 3, 4, 5}, {1, 2, 3, 1, 4, 1}, {1, 1, 1, 1, 1, 1}}},
        {"padding_idx 0",
         1,
         {{1, 2, 3, 4, 5, 6}, {1, 2, 3, 0, 0, 0}, {0, 0, 1, 2, 3, 4}, {0, 1, 2, 0, 3, 0}, {0, 0, 0, 0, 0, 0}}},
    };
    double table[8], x[30];
    int64_t position[30];
    for (int r = 0; r < 8; r++)
        table[r] = r;
    assert_ok(gyre_positions_from_mask(masks[0], 5, 6, position));
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        const gyre_config config = config_of(8, rules[i].offset, 1);
        gyre_encoding *e = test_encoding(&config);
        const gyre_positions positions = {position, GYRE_DTYPE_I64, 0, 0, 6, 1, 0, 0};
        const gyre_tables tables = {.input = gyre_cdense(table, GYRE_DTYPE_F64, 1, 1, 8, 1)};
        const gyre_view out = gyre_dense(x, GYRE_DTYPE_F64, 5, 6, 1, 1);
        const gyre_cview in = gyre_const(out);
        memset(x, 0, sizeof x);
        assert_ok(gyre_add_input(
            e, GYRE_ARGS(gyre_add_input_args, .tables = &tables, .positions = &positions, .in = in, .out = out), NULL,
            NULL));
        for (int t = 0; t < 30; t++)
            if (x[t] != (double)rules[i].row[t / 6][t % 6])
                fail_msg("%s: token %d of mask %d has row %g", rules[i].model, t % 6, t / 6, x[t]);
        gyre_encoding_free(e);
    }
}

static void refused_masks(void **state) {
    (void)state;
    int64_t out[6] = {7, 7, 7, 7, 7, 7};
    assert_ok(gyre_positions_from_mask(NULL, 0, 6, NULL));
    assert_ok(gyre_positions_from_mask(NULL, 6, 0, NULL));
    assert_int_equal(gyre_positions_from_mask(masks[0], -1, 6, out), GYRE_EINVAL);
    assert_int_equal(gyre_positions_from_mask(masks[0], 1, -6, out), GYRE_EINVAL);
    assert_int_equal(gyre_positions_from_mask(NULL, 1, 6, out), GYRE_EINVAL);
    assert_int_equal(gyre_positions_from_mask(masks[0], 1, 6, NULL), GYRE_EINVAL);
    for (int t = 0; t < 6; t++)
        assert_int_equal(out[t], 7);
}

/* -- where positions end -- */
/* The first and the last position of a config work. One past them is refused, with the outputs unchanged. */
static void reaches(const gyre_config *config, int64_t first, int64_t last) {
    gyre_encoding *e = test_encoding(config);
    const int64_t rows = config->input.positions, dim = config->input.dim;
    double *table = calloc((size_t)(rows * dim), sizeof *table), *gradient = calloc((size_t)(rows * dim), sizeof *gradient);
    double *x = calloc((size_t)dim, sizeof *x), *none = calloc((size_t)(rows * dim), sizeof *none);
    assert_true(table && gradient && x && none);
    for (int64_t i = 0; i < rows * dim; i++)
        table[i] = 1;
    for (int end = 0; end < 4; end++) {
        const int64_t at[4] = {first, last, first - 1, last + 1};
        const gyre_positions positions[2] = {{NULL, GYRE_DTYPE_I64, at[end], 0, 0, 0, 0, 0},
                                             {&at[end], GYRE_DTYPE_I64, 0, 0, 0, 0, 0, 0}};
        const gyre_tables tables = {.input = gyre_cdense(table, GYRE_DTYPE_F64, 1, 1, rows, dim)};
        const gyre_table_gradients gradients = {.input = gyre_dense(gradient, GYRE_DTYPE_F64, 1, 1, rows, dim)};
        const gyre_view out = gyre_dense(x, GYRE_DTYPE_F64, 1, 1, 1, dim);
        const gyre_cview in = gyre_const(out), dout = gyre_cdense(table, GYRE_DTYPE_F64, 1, 1, 1, dim);
        for (int i = 0; i < 2; i++) {
            memset(x, 0, (size_t)dim * sizeof *x);
            memset(gradient, 0, (size_t)(rows * dim) * sizeof *gradient);
            assert_int_equal(gyre_add_input(e,
                                            GYRE_ARGS(gyre_add_input_args, .tables = &tables, .positions = &positions[i],
                                                      .in = in, .out = out),
                                            NULL, NULL),
                             end < 2 ? GYRE_OK : GYRE_ERANGE);
            assert_int_equal(gyre_add_input_gradient(e, &positions[i], &dout, &gradients, NULL, NULL),
                             end < 2 ? GYRE_OK : GYRE_ERANGE);
            for (int64_t c = 0; end < 2 && c < dim; c++)
                test_close(x[c], 1, 1e-15L, "the mean of equal rows");
            if (end < 2) continue;
            assert_memory_equal(x, none, (size_t)dim * sizeof *x);
            assert_memory_equal(gradient, none, (size_t)(rows * dim) * sizeof *gradient);
        }
    }
    gyre_encoding_free(e);
    free(table);
    free(gradient);
    free(x);
    free(none);
}

static void ends_of_every_range(void **state) {
    (void)state;
    gyre_config config = config_of(10, 0, 3);
    reaches(&config, 0, 9);
    config.input.offset = 2;
    reaches(&config, -2, 7);
    config.input.offset = 9;
    reaches(&config, -9, 0);
    config.input.offset = 2;
    config.input.resized_length = 5;
    reaches(&config, -2, 4);
    config.input.resized_length = 1;
    reaches(&config, -2, 0);
    config.input.resized_length = 31;
    reaches(&config, -2, 30);
    config.input.resized_length = INT32_MAX;
    reaches(&config, -2, INT32_MAX - 1);
    config.input.hierarchy = 0.5; /* weights that are exact, so that they cancel */
    config.input.resized_length = 0;
    reaches(&config, -2, 63);
    config.input.resized_length = 64;
    reaches(&config, -2, 63);
    config.input.resized_length = 5;
    reaches(&config, -2, 4);
    config = config_of(50000, 0, 1);
    config.input.hierarchy = 0.5;
    reaches(&config, 0, INT32_MAX - 1); /* 2.5e9 positions, more than the largest length */
}

/* A copy of a whole config, with another table size, covers that table's positions. */
static void unbounded_length_stays_unbounded(void **state) {
    (void)state;
    gyre_config config = config_of(10, 2, 3);
    for (int extended = 0; extended < 2; extended++) {
        config.input.hierarchy = extended ? 0.5 : 0;
        gyre_encoding *e = test_encoding(&config);
        gyre_config copy = *gyre_encoding_get_config(e);
        copy.input.positions = 12;
        reaches(&copy, -2, extended ? 99 : 9);
        gyre_encoding_free(e);
    }
}

/* -- values -- */
enum { ROWS = 17, OFFSET = 2, N = ROWS - OFFSET, DIM = 300 };
static double table[ROWS * DIM], got[(N * N + OFFSET) * DIM], plain[ROWS * DIM];

static void fill_table(uint64_t seed) {
    test_random random = {seed};
    test_fill_f64(&random, table, ROWS * DIM);
}

static void resized_tables_begin_like_the_original(void **state) {
    (void)state;
    fill_table(41);
    gyre_config config = config_of(ROWS, OFFSET, DIM);
    config.input.scale = 0.3;
    gyre_encoding *e = test_encoding(&config);
    assert_ok(added(e, table, -OFFSET, ROWS, plain));
    for (int i = 0; i < ROWS * DIM; i++)
        assert_true(plain[i] == table[i] * 0.3);
    gyre_encoding_free(e);
    for (int i = 1; i < 10; i++) {
        config.input.hierarchy = i / 10.0;
        e = test_encoding(&config);
        assert_ok(added(e, table, -OFFSET, ROWS, got));
        assert_memory_equal(got, plain, sizeof plain); /* to the last bit, including padding */
        gyre_encoding_free(e);
    }
}

/* kexue.fm 7947: q_(i n + j) = alpha u_i + (1 - alpha) u_j, u_i = (p_i - alpha p_0) / (1 - alpha). */
static void hierarchy_matches_the_article(void **state) {
    (void)state;
    static const double alphas[] = {0.4, 0.5, 0.01, 0.93};
    fill_table(42);
    for (int a = 0; a < 4; a++) {
        gyre_config config = config_of(ROWS, OFFSET, DIM);
        const long double alpha = config.input.hierarchy = alphas[a];
        gyre_encoding *e = test_encoding(&config);
        assert_ok(added(e, table, 0, N * N, got));
        for (int m = 0; m < N * N; m++)
            for (int c = 0; c < DIM; c++) {
                const double *p = table + OFFSET * DIM + c;
                const long double ui = (p[m / N * DIM] - alpha * p[0]) / (1 - alpha);
                const long double uj = (p[m % N * DIM] - alpha * p[0]) / (1 - alpha);
                test_close(got[m * DIM + c], alpha * ui + (1 - alpha) * uj, 1e-14L / (1 - alpha), "hierarchy");
            }
        gyre_encoding_free(e);
    }
}

/* The trained rows around position m of `length`, found by walking along the n rows. */
static void resizing_keeps_both_ends(void **state) {
    (void)state;
    static const int64_t cases[][2] = {{8, 8}, {8, 15}, {8, 22}, {8, 5},   {8, 2},
                                       {8, 1}, {1, 1},  {1, 9},  {2, 200}, {15, 225}};
    fill_table(43);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const int64_t n = cases[i][0], length = cases[i][1];
        gyre_config config = config_of(n + OFFSET, OFFSET, DIM);
        config.input.resized_length = length;
        gyre_encoding *e = test_encoding(&config);
        assert_ok(added(e, table, -OFFSET, length + OFFSET, got));
        assert_memory_equal(got, table, (OFFSET + 1) * DIM * sizeof *got); /* padding, and the first row */
        if (length > 1)
            assert_memory_equal(got + (OFFSET + length - 1) * DIM, table + (OFFSET + n - 1) * DIM, DIM * sizeof *got);
        int64_t low = 0, past = 0; /* row low + remainder / (length - 1) */
        for (int64_t m = 1; m < length; m++) {
            for (past += n - 1; past >= length - 1; past -= length - 1)
                low++;
            const double *row = table + (OFFSET + low) * DIM, *to = got + (OFFSET + m) * DIM;
            const long double share = (long double)past / (long double)(length - 1);
            if (past == 0) assert_memory_equal(to, row, DIM * sizeof *to);
            for (int c = 0; past > 0 && c < DIM; c++)
                test_close(to[c], row[c] + share * ((long double)row[DIM + c] - row[c]), 1e-15L, "between two rows");
        }
        gyre_encoding_free(e);
    }
}

/* The largest number of positions: weights are still exact fractions. */
static void resizing_to_large_lengths(void **state) {
    (void)state;
    const double ends[2] = {0, 1};
    double x[3];
    gyre_config config = config_of(2, 0, 1);
    config.input.resized_length = INT32_MAX;
    gyre_encoding *e = test_encoding(&config);
    assert_ok(added(e, ends, INT32_MAX - 3, 3, x));
    assert_true(x[0] == 2147483644.0 / 2147483646.0 && x[1] == 2147483645.0 / 2147483646.0 && x[2] == 1);
    gyre_encoding_free(e);
}

/* -- every type, any strides, in place -- */
enum { BATCH = 3, TOKENS = 70, ALL = BATCH * TOKENS * DIM };
typedef struct sample {
    int64_t position[BATCH][TOKENS];
    double x[ALL], want[ALL];
} sample;

/* The weight of row r at position m by the documented rules, in double. kind 0: as trained; 1: alpha = 1/2; 2: 29
 * positions. */
enum { KINDS = 3, LENGTH = 29 };
static double share_of(int kind, int64_t m, int64_t r) {
    r -= OFFSET;
    if (m < 0 || kind == 0) return r == m ? 1 : 0;
    if (kind == 1) return (r == m % N) + (m >= N) * ((r == m / N) - (r == 0));
    const double place = (double)(m * (N - 1)) / (LENGTH - 1); /* 14 / 28: halves, exact */
    const double away = fabs(place - (double)r);
    return away < 1 ? 1 - away : 0;
}

static gyre_config kind_of(int kind) {
    gyre_config config = config_of(ROWS, OFFSET, DIM);
    if (kind == 1) config.input.hierarchy = 0.5;
    if (kind == 2) config.input.resized_length = LENGTH;
    config.input.scale = 0.25;
    return config;
}

/* Numbers of few bits: sums are exact in any order, so only the final rounding remains. */
static sample *sample_make(int kind, gyre_dtype dtype) {
    static const int64_t ends[KINDS] = {N, N * N, LENGTH};
    sample *s = calloc(1, sizeof *s);
    assert_non_null(s);
    test_random random = {44};
    for (int i = 0; i < ROWS * DIM; i++)
        table[i] = ldexp(floor(ldexp(test_uniform(&random), 20)), -20);
    for (int i = 0; i < BATCH * TOKENS; i++)
        s->position[i / TOKENS][i % TOKENS] = (int64_t)(test_next(&random) % (uint64_t)(ends[kind] + OFFSET)) - OFFSET;
    for (size_t i = 0; i < ALL; i++) {
        double p = 0;
        const int64_t m = s->position[i / DIM / TOKENS][i / DIM % TOKENS];
        for (int64_t r = 0; r < ROWS; r++)
            p += 0.25 * share_of(kind, m, r) * table[(size_t)r * DIM + i % DIM];
        test_put(s->x, dtype, i, ldexp(floor(ldexp(test_uniform(&random), 10)), -8));
        test_put(s->want, dtype, i, test_get(s->x, dtype, i) + p);
    }
    return s;
}

static void every_type_is_rounded_once(void **state) {
    (void)state;
    static double wide[3 * ALL];
    static float transposed[ROWS * DIM];
    gyre_pool *pool;
    assert_ok(gyre_pool_create(&pool, 3, NULL));
    const gyre_exec exec = gyre_pool_exec(pool);
    for (int kind = 0; kind < KINDS; kind++)
        for (int type = 0; type < 4; type++) {
            const size_t size = gyre_dtype_size(test_dtypes[type]);
            const gyre_config config = kind_of(kind);
            gyre_encoding *e = test_encoding(&config);
            sample *s = sample_make(kind, test_dtypes[type]);
            for (int i = 0; i < ROWS * DIM; i++)
                transposed[i % DIM * ROWS + i / DIM] = (float)table[i];
            const gyre_positions positions = {s->position, GYRE_DTYPE_I64, 0, 0, TOKENS, 1, 0, 0};
            gyre_tables tables = {.input = gyre_cdense(transposed, GYRE_DTYPE_F32, 1, 1, ROWS, DIM)};
            tables.input.stride[2] = 1;
            tables.input.stride[3] = ROWS;
            const gyre_cview in = gyre_cdense(s->x, test_dtypes[type], BATCH, TOKENS, 1, DIM);
            gyre_view out = gyre_dense(wide, test_dtypes[type], BATCH, TOKENS, 1, DIM);
            for (int d = 0; d < 4; d++)
                out.stride[d] *= 3;
            assert_ok(gyre_add_input(
                e, GYRE_ARGS(gyre_add_input_args, .tables = &tables, .positions = &positions, .in = in, .out = out), &exec,
                NULL));
            for (size_t i = 0; i < ALL; i++)
                assert_memory_equal((char *)wide + 3 * i * size, (char *)s->want + i * size, size);
            out = gyre_dense(s->x, test_dtypes[type], BATCH, TOKENS, 1, DIM);
            assert_ok(gyre_add_input(
                e, GYRE_ARGS(gyre_add_input_args, .tables = &tables, .positions = &positions, .in = in, .out = out), NULL,
                NULL));
            assert_memory_equal(s->x, s->want, ALL * size);
            gyre_encoding_free(e);
            free(s);
        }
    gyre_pool_free(pool);
}

/* -- gradients -- */
/* The transpose: row r gets its weight times every token, accumulated. All numbers are exact. */
static void gradients_are_the_transpose(void **state) {
    (void)state;
    static double want[ROWS * DIM], sum[2 * ROWS * DIM];
    for (int kind = 0; kind < KINDS; kind++)
        for (int type = 0; type < 4; type++) {
            const gyre_config config = kind_of(kind);
            gyre_encoding *e = test_encoding(&config);
            sample *s = sample_make(kind, test_dtypes[type]);
            for (int i = 0; i < ROWS * DIM; i++)
                want[i] = sum[2 * i] = 0.5;
            for (size_t i = 0; i < ALL; i++)
                for (int64_t r = 0; r < ROWS; r++)
                    want[(size_t)r * DIM + i % DIM] += 0.25 *
                                                       share_of(kind, s->position[i / DIM / TOKENS][i / DIM % TOKENS], r) *
                                                       test_get(s->x, test_dtypes[type], i);
            const gyre_positions positions = {s->position, GYRE_DTYPE_I64, 0, 0, TOKENS, 1, 0, 0};
            const gyre_cview dout = gyre_cdense(s->x, test_dtypes[type], BATCH, TOKENS, 1, DIM);
            gyre_table_gradients gradients = {.input = gyre_dense(sum, GYRE_DTYPE_F64, 1, 1, ROWS, DIM)};
            for (int d = 0; d < 4; d++)
                gradients.input.stride[d] *= 2;
            assert_ok(gyre_add_input_gradient(e, &positions, &dout, &gradients, NULL, NULL));
            for (int i = 0; i < ROWS * DIM; i++)
                if (sum[2 * i] != want[i]) fail_msg("kind %d: %a is not %a", kind, sum[2 * i], want[i]);
            gyre_encoding_free(e);
            free(s);
        }
}

/* <dout, p of a table change> = <gradient, table change>, with weights that are not exact. */
static void gradients_and_changes_agree(void **state) {
    (void)state;
    static double dout[(N * N + OFFSET) * DIM], gradient[ROWS * DIM];
    test_random random = {45};
    fill_table(46);
    test_fill_f64(&random, dout, (N * N + OFFSET) * DIM);
    for (int kind = 0; kind < 3; kind++) {
        gyre_config config = config_of(ROWS, OFFSET, DIM);
        config.input.scale = -1.7;
        if (kind == 0) config.input.hierarchy = 0.4;
        if (kind > 0) config.input.resized_length = kind == 1 ? N * N : 8;
        const int64_t tokens = kind < 2 ? N * N + OFFSET : 8 + OFFSET;
        gyre_encoding *e = test_encoding(&config);
        assert_ok(added(e, table, -OFFSET, tokens, got));
        memset(gradient, 0, sizeof gradient);
        const gyre_positions positions = {NULL, GYRE_DTYPE_I64, -OFFSET, 0, 0, 0, 0, 0};
        const gyre_cview view = gyre_cdense(dout, GYRE_DTYPE_F64, 1, tokens, 1, DIM);
        const gyre_table_gradients gradients = {.input = gyre_dense(gradient, GYRE_DTYPE_F64, 1, 1, ROWS, DIM)};
        assert_ok(gyre_add_input_gradient(e, &positions, &view, &gradients, NULL, NULL));
        long double out = 0, in = 0, size = 0;
        for (int i = 0; i < tokens * DIM; i++) {
            out += (long double)dout[i] * got[i];
            size += fabsl((long double)dout[i] * got[i]);
        }
        for (int i = 0; i < ROWS * DIM; i++)
            in += (long double)gradient[i] * table[i];
        test_close(in, out, 1e-14L * size, "adjoint");
        gyre_encoding_free(e);
    }
}

/* Float sums round at every step. Their order is the order of tokens, for any number of threads. */
static void threads_change_nothing(void **state) {
    (void)state;
    static float sums[3][ROWS * DIM];
    static double out[2][ALL];
    for (int kind = 0; kind < KINDS; kind++) {
        sample *s = sample_make(kind, GYRE_DTYPE_F64);
        gyre_config config = kind_of(kind);
        if (kind == 1) config.input.hierarchy = 0.4;
        config.input.scale = 0.7;
        gyre_encoding *e = test_encoding(&config);
        const gyre_positions positions = {s->position, GYRE_DTYPE_I64, 0, 0, TOKENS, 1, 0, 0};
        const gyre_cview in = gyre_cdense(s->x, GYRE_DTYPE_F64, BATCH, TOKENS, 1, DIM);
        const gyre_tables tables = {.input = gyre_cdense(table, GYRE_DTYPE_F64, 1, 1, ROWS, DIM)};
        memset(sums, 0, sizeof sums);
        for (int i = 0; i < 3; i++) {
            gyre_pool *pool;
            assert_ok(gyre_pool_create(&pool, 1 + 2 * i, NULL));
            const gyre_exec exec = gyre_pool_exec(pool);
            const gyre_table_gradients gradients = {.input = gyre_dense(sums[i], GYRE_DTYPE_F32, 1, 1, ROWS, DIM)};
            const gyre_view view = gyre_dense(out[i > 0], GYRE_DTYPE_F64, BATCH, TOKENS, 1, DIM);
            assert_ok(gyre_add_input_gradient(e, &positions, &in, &gradients, i ? &exec : NULL, NULL));
            assert_ok(gyre_add_input(
                e, GYRE_ARGS(gyre_add_input_args, .tables = &tables, .positions = &positions, .in = in, .out = view),
                i ? &exec : NULL, NULL));
            assert_memory_equal(sums[i], sums[0], sizeof sums[0]);
            assert_memory_equal(out[i > 0], out[0], sizeof out[0]);
            gyre_pool_free(pool);
        }
        gyre_encoding_free(e);
        free(s);
    }
}

/* -- creation -- */
static void wrong_ranges(void **state) {
    (void)state;
    const gyre_config right = config_of(10, 2, 4);
    gyre_config wrong = right;
    wrong.input.offset = -1;
    assert_config_error(&wrong, "input.offset: -1 is negative (gyre_config)");
    wrong.input.offset = 10;
    assert_config_error(&wrong, "input.offset: 10 leaves no row of input.positions 10 (gyre_config)");
    wrong = right;
    wrong.input.resized_length = -1;
    assert_config_error(&wrong, "input.resized_length: -1 is negative (gyre_config)");
    wrong.input.resized_length = (int64_t)1 << 31;
    assert_config_error(&wrong, "input.resized_length: 2147483648 is past 2^31 - 1 (gyre_config)");
    wrong = right;
    wrong.input.hierarchy = 0.4;
    wrong.input.resized_length = 65;
    assert_config_error(&wrong, "input.resized_length: 65 is past 64, all that 8 rows make two by two (gyre_config)");
}

static void wrong_fields(void **state) {
    (void)state;
    const gyre_config right = config_of(10, 2, 4);
    gyre_config wrong = right;
    wrong.input.hierarchy = 1;
    assert_config_error(&wrong, "input.hierarchy: 1 is not between 0 and 1 (gyre_config)");
    wrong.input.hierarchy = -0.4;
    assert_config_error(&wrong, "input.hierarchy: -0.4 is not between 0 and 1 (gyre_config)");
    wrong.input.hierarchy = NAN;
    assert_config_error(&wrong, "input.hierarchy: nan is not finite (gyre_config)");
    wrong = right;
    wrong.input.scale = NAN;
    assert_config_error(&wrong, "input.scale: nan is not finite (gyre_config)");
    wrong.input.scale = INFINITY;
    assert_config_error(&wrong, "input.scale: inf is not finite (gyre_config)");
    wrong = right;
    wrong.input.trained_scale = 1;
    assert_config_error(&wrong, "input.trained_scale: 1 is for the sinusoid; a learned table trains whole (gyre_config)");
    wrong = right;
    wrong.input.zero_padding = 1;
    assert_config_error(&wrong,
                        "input.zero_padding: 1 is for the sinusoid; padding has a row of a learned table (gyre_config)");
    wrong = right;
    wrong.input.dim = 0;
    assert_config_error(&wrong, "input.dim: missing; learned needs the model's width (gyre_config)");
    wrong = right;
    wrong.input.positions = 0;
    assert_config_error(&wrong, "input.positions: missing; a learned table needs its number of rows (gyre_config)");
}

static void suggested_rows_include_the_offset(void **state) {
    (void)state;
    static const struct {
        int64_t positions, offset, trained, want;
    } cases[] = {{0, 0, 512, 512}, {0, 2, 512, 514},         {100, 2, 512, 100}, {0, 2, 0, 0},
                 {0, 2, -5, 0},    {0, 2, INT64_MAX - 1, 0}, {0, -1, 512, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        gyre_config config = config_of(cases[i].positions, cases[i].offset, 4);
        config.trained_length = cases[i].trained;
        gyre_config want = config;
        want.input.positions = cases[i].want;
        assert_ok(gyre_config_suggest(&config));
        assert_memory_equal(&config, &want, sizeof want);
    }
}

/* Creation without memory leaves nothing allocated. A learned table needs only the object. */
static void failing_allocations(void **state) {
    (void)state;
    gyre_config configs[2] = {kind_of(1), GYRE_INIT(gyre_config)};
    configs[1].kind = GYRE_KIND_SINUSOIDAL;
    configs[1].input.dim = 8;
    configs[1].input.trained_scale = 1;
    for (int i = 0; i < 2; i++)
        for (int n = 0; n <= i + 1; n++) {
            test_budget b = {.left = n};
            const gyre_alloc alloc = test_budget_alloc(&b);
            gyre_encoding *e = NULL;
            gyre_error err = {0, ""};
            assert_int_equal(gyre_encoding_create(&e, &configs[i], &alloc, &err), n <= i ? GYRE_ENOMEM : GYRE_OK);
            assert_int_equal(b.live, n <= i ? 0 : n);
            if (n <= i) assert_non_null(strstr(err.text, "memory:"));
            gyre_encoding_free(e);
            assert_int_equal(b.live, 0);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_by_mask),
        cmocka_unit_test(refused_masks),
        cmocka_unit_test(ends_of_every_range),
        cmocka_unit_test(unbounded_length_stays_unbounded),
        cmocka_unit_test(resized_tables_begin_like_the_original),
        cmocka_unit_test(hierarchy_matches_the_article),
        cmocka_unit_test(resizing_keeps_both_ends),
        cmocka_unit_test(resizing_to_large_lengths),
        cmocka_unit_test(every_type_is_rounded_once),
        cmocka_unit_test(gradients_are_the_transpose),
        cmocka_unit_test(gradients_and_changes_agree),
        cmocka_unit_test(threads_change_nothing),
        cmocka_unit_test(wrong_ranges),
        cmocka_unit_test(wrong_fields),
        cmocka_unit_test(suggested_rows_include_the_offset),
        cmocka_unit_test(failing_allocations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
