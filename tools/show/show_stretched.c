/* show_stretched.c: positions divided by s: how far apart are the rotated keys of neighbours, and how many of them are the
 * same in the type that a model stores them in? */
#include "tools/common/variants.h"
#include "tools/show/show.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { FACTORS = 7, TYPES = 3, POSITIONS = 4096 };
static const gyre_dtype types[TYPES] = {GYRE_DTYPE_F32, GYRE_DTYPE_F16, GYRE_DTYPE_BF16};

typedef struct stretched_result {
    double factor, apart; /* apart: least |E(m + 1) x - E(m) x| / |x|, in double */
    double same[TYPES];   /* share of neighbours whose rows are the same bits */
} stretched_result;

/* Writes element c: a sign, and 1 + m / 128, which every type represents. */
static void put(void *row, gyre_dtype dtype, int64_t c, unsigned sign, unsigned m) {
    const double f64 = (sign ? -1 : 1) * (1 + m / 128.0);
    const float f32 = (float)f64;
    const uint16_t half = (uint16_t)(sign << 15 | (dtype == GYRE_DTYPE_F16 ? 15U << 10 | m << 3 : 127U << 7 | m));
    const void *from = dtype == GYRE_DTYPE_F64 ? (const void *)&f64 : dtype == GYRE_DTYPE_F32 ? (const void *)&f32 : &half;
    const size_t size = gyre_dtype_size(dtype);
    memcpy((char *)row + (size_t)c * size, from, size);
}

/* x[rows][dim] = one random row, rotated to positions 0 .. rows - 1 in this type. */
static gyre_status rotate_rows(const show_options *o, const gyre_encoding *rope, int64_t rows, gyre_dtype dtype, void *x,
                               gyre_error *err) {
    const size_t row = (size_t)o->dim * gyre_dtype_size(dtype);
    const gyre_positions positions = {.base = 0};
    const gyre_view out = gyre_dense(x, dtype, 1, rows, 1, o->dim);
    const gyre_cview in = gyre_const(out);
    uint64_t random = 1;
    for (int64_t c = 0; c < o->dim; c++) {
        const unsigned sign = show_random(&random) < 0;
        put(x, dtype, c, sign, (unsigned)(fabs(show_random(&random)) * 128) % 128);
    }
    for (int64_t i = 1; i < rows; i++)
        memcpy((char *)x + (size_t)i * row, x, row);
    return gyre_rotate(rope,
                       GYRE_ARGS(gyre_rotate_args, .role = GYRE_ROLE_KEY, .positions = &positions, .in = in, .out = out),
                       &o->exec, err);
}

static double least_step(const double *x, int64_t rows, int64_t dim) {
    double least = INFINITY, square = 0;
    for (int64_t c = 0; c < dim; c++)
        square += x[c] * x[c];
    for (int64_t i = 1; i < rows; i++) {
        double sum = 0;
        for (int64_t c = 0; c < dim; c++)
            sum += (x[i * dim + c] - x[(i - 1) * dim + c]) * (x[i * dim + c] - x[(i - 1) * dim + c]);
        least = fmin(least, sqrt(sum / square));
    }
    return least;
}

static gyre_status measure(const show_options *o, int64_t rows, void *x, stretched_result *r, gyre_error *err) {
    gyre_encoding *rope = NULL;
    gyre_status status = shift_create(&rope, o->dim, o->base, 0, r->factor, err);
    if (!status) status = rotate_rows(o, rope, rows, GYRE_DTYPE_F64, x, err);
    if (!status) r->apart = least_step(x, rows, o->dim);
    for (int t = 0; t < TYPES && !status; t++) {
        const size_t row = (size_t)o->dim * gyre_dtype_size(types[t]);
        int64_t same = 0;
        status = rotate_rows(o, rope, rows, types[t], x, err);
        for (int64_t i = 1; i < rows && !status; i++)
            same += memcmp((char *)x + (size_t)i * row, (char *)x + (size_t)(i - 1) * row, row) == 0;
        r->same[t] = (double)same / (double)(rows - 1);
    }
    gyre_encoding_free(rope);
    return status;
}

static void print(const show_options *o, int64_t rows, const stretched_result *r, FILE *text) {
    const stretched_result *last = &r[FACTORS - 1];
    fprintf(text, "Stretched %g times, %.1f %% of neighbouring rows differ in f32, %.1f %% in f16, %.1f %% in bf16.\n\n",
            last->factor, 100 * (1 - last->same[0]), 100 * (1 - last->same[1]), 100 * (1 - last->same[2]));
    fprintf(text, "                                       neighbours stored as the same bits\n"
                  "  divided by   least step, of |x|      f32        f16       bf16\n");
    for (int f = 0; f < FACTORS; f++)
        fprintf(text, "  %-10g   %.1e           %7.2f %%  %7.2f %%  %7.2f %%\n", r[f].factor, r[f].apart, 100 * r[f].same[0],
                100 * r[f].same[1], 100 * r[f].same[2]);
    fprintf(text,
            "\nA random key of %lld channels at positions 0 .. %lld, base %g. Step: from one position to the next, in "
            "double. The same bits: no computation on stored keys can distinguish the two positions.\n",
            (long long)o->dim, (long long)rows - 1, o->base);
}

static json_t *json_of(const show_options *o, int64_t rows, const stretched_result *r) {
    json_t *list = json_array();
    for (int f = 0; f < FACTORS; f++)
        (void)json_array_append_new(list, JSON_OBJECT("factor", JSON(r[f].factor), "least_step", JSON(r[f].apart),
                                                      "same_f32", JSON(r[f].same[0]), "same_f16", JSON(r[f].same[1]),
                                                      "same_bf16", JSON(r[f].same[2])));
    return JSON_OBJECT("question", JSON("stretched"), "dim", JSON(o->dim), "base", JSON(o->base), "positions", JSON(rows),
                       "factors", list);
}

gyre_status show_stretched(const show_options *o, FILE *text, json_t **out, gyre_error *err) {
    const int64_t rows = o->positions ? o->positions : POSITIONS;
    void *x = cli_alloc(rows * o->dim, sizeof(double));
    stretched_result r[FACTORS];
    gyre_status status = GYRE_OK;
    for (int f = 0; f < FACTORS && !status; f++) {
        r[f].factor = f ? 10 * r[f - 1].factor : 1;
        status = measure(o, rows, x, &r[f], err);
    }
    if (!status && text)
        print(o, rows, r, text);
    else if (!status)
        *out = json_of(o, rows, r);
    free(x);
    return status;
}
