/* angle_rows.c: the rows of a table of any shape, and the meaning of their columns. */
#include "reading/angles/angle_audit.h"
#include "util/error.h"
#include "util/integers.h"

#include "core/convert.h"

#include <inttypes.h>
#include <math.h>

enum { SAMPLE = 64 }; /* first rows that say what the columns are */

/* -- rows -- */
static gyre_status fail_shape(const gyre_cview *v, gyre_error *err) {
    return gyre_fail(err, GYRE_ESHAPE,
                     "table: the shape [%" PRId64 ", %" PRId64 ", %" PRId64 ", %" PRId64
                     "] is none of [pairs], [positions, columns], [positions, pairs, 2], [positions, 2, pairs] and [2, "
                     "positions, pairs], with any extents of 1",
                     v->shape[0], v->shape[1], v->shape[2], v->shape[3]);
}

gyre_status gyre_angle_rows_open(gyre_angle_rows *out, const gyre_cview *view, gyre_error *err) {
    int64_t extent[4], stride[4];
    int rank = 0;
    for (int i = 0; i < 4; i++) {
        if (view->shape[i] < 1) return fail_shape(view, err);
        if (view->shape[i] == 1) continue;
        extent[rank] = view->shape[i], stride[rank++] = view->stride[i];
    }
    *out = (gyre_angle_rows){.view = view, .rows = 1, .outer = 1, .inner = 1};
    if (rank == 1) {
        out->inner = extent[0], out->inner_stride = stride[0];
    } else if (rank == 2) {
        out->rows = extent[0], out->row_stride = stride[0];
        out->inner = extent[1], out->inner_stride = stride[1];
    } else if (rank == 3 && (extent[1] == 2 || extent[2] == 2)) {
        out->rows = extent[0], out->row_stride = stride[0];
        out->outer = extent[1], out->outer_stride = stride[1];
        out->inner = extent[2], out->inner_stride = stride[2];
    } else if (rank == 3 && extent[0] == 2) {
        out->rows = extent[1], out->row_stride = stride[1];
        out->outer = 2, out->outer_stride = stride[0];
        out->inner = extent[2], out->inner_stride = stride[2];
    } else {
        return fail_shape(view, err);
    }
    out->width = out->outer * out->inner;
    return GYRE_OK;
}

void gyre_angle_row(const gyre_angle_rows *rows, int64_t t, double *out) {
    const gyre_cview *v = rows->view;
    const char *data = v->data;
    const int64_t size = (int64_t)gyre_dtype_size(v->dtype);
    for (int64_t i = 0; i < rows->outer; i++)
        gyre_load_row_f64(data + (t * rows->row_stride + i * rows->outer_stride) * size, v->dtype, rows->inner_stride,
                          rows->inner, out + i * rows->inner);
}

/* -- columns -- */
/* What holds in most of the first rows. */
typedef struct votes {
    int rows;
    int twice_halves, twice_interleaved;           /* each number twice */
    int unit_halves, unit_interleaved;             /* squares of two columns have one sum */
    int part_twice_halves, part_twice_interleaved; /* each number of the first half of a row twice */
} votes;

static int is_twice(const double *row, int64_t width, int interleaved) {
    const int64_t half = width / 2;
    if (width % 2) return 0;
    for (int64_t i = 0; i < half; i++) {
        const double a = interleaved ? row[2 * i] : row[i], b = interleaved ? row[2 * i + 1] : row[half + i];
        if (!(a == b)) return 0;
    }
    return 1;
}

/* out = 1 if the squares of two columns have the sum *sum in all pairs; *sum below 0 is set to that of the first.  bf16
 * leaves a sum of two squares 2^-7 off. */
static int is_unit(const double *row, int64_t width, int interleaved, double *sum) {
    const int64_t half = width / 2;
    if (width % 2) return 0;
    for (int64_t i = 0; i < half; i++) {
        const double a = interleaved ? row[2 * i] : row[i], b = interleaved ? row[2 * i + 1] : row[half + i];
        const double squares = a * a + b * b;
        if (*sum < 0 && isfinite(squares)) *sum = squares;
        if (!(fabs(squares - *sum) <= 0.02 * *sum)) return 0;
    }
    return *sum > 0;
}

static votes count_votes(const gyre_angle_rows *rows, double *row) {
    votes v = {.rows = (int)gyre_min_i64(rows->rows, SAMPLE)};
    const int64_t width = rows->width, half = width / 2;
    double sums[2] = {-1, -1};
    for (int t = 0; t < v.rows; t++) {
        gyre_angle_row(rows, t, row);
        v.twice_halves += is_twice(row, width, 0);
        v.twice_interleaved += is_twice(row, width, 1);
        v.unit_halves += is_unit(row, width, 0, &sums[0]);
        v.unit_interleaved += is_unit(row, width, 1, &sums[1]);
        v.part_twice_halves += is_twice(row, half, 0);
        v.part_twice_interleaved += is_twice(row, half, 1);
    }
    return v;
}

static int most(const votes *v, int count) {
    return 2 * count > v->rows;
}

/* out = 1 if column a, not b, is the cos of the slowest pair, whose angle is small in the first row wherever the table
 * begins.  b below 0: if column a is a cos. */
static int is_cos(const gyre_angle_rows *rows, int64_t a, int64_t b, double *row) {
    gyre_angle_row(rows, 0, row);
    return fabs(row[a]) >= (b < 0 ? 0.5 : fabs(row[b]));
}

static gyre_angle_columns columns_of(int halves, int interleaved) {
    return halves ? GYRE_ANGLE_COLUMNS_HALVES : interleaved ? GYRE_ANGLE_COLUMNS_INTERLEAVED : GYRE_ANGLE_COLUMNS_ONCE;
}

/* Cos and sin in two halves of a row. */
static void plan_halves(gyre_angle_plan *out, const gyre_angle_rows *rows, const votes *v, double *row) {
    const int64_t half = rows->width / 2;
    out->columns = columns_of(most(v, v->part_twice_halves), most(v, v->part_twice_interleaved));
    out->pairs = out->columns == GYRE_ANGLE_COLUMNS_ONCE ? half : half / 2;
    out->step = out->columns == GYRE_ANGLE_COLUMNS_INTERLEAVED ? 2 : 1;
    const int first = is_cos(rows, (out->pairs - 1) * out->step, half + (out->pairs - 1) * out->step, row);
    out->form = first ? GYRE_ANGLE_FORM_COS_SIN : GYRE_ANGLE_FORM_SIN_COS;
    out->cos_at = first ? 0 : half;
    out->sin_at = first ? half : 0;
}

static void plan_pairs(gyre_angle_plan *out, const gyre_angle_rows *rows, double *row) {
    out->form = GYRE_ANGLE_FORM_PAIRS;
    out->pairs = rows->width / 2;
    out->step = 2;
    out->cos_at = !is_cos(rows, rows->width - 2, rows->width - 1, row);
    out->sin_at = !out->cos_at;
}

static void plan_one(gyre_angle_plan *out, const gyre_angle_rows *rows, const votes *v, double *row) {
    out->columns = columns_of(most(v, v->twice_halves), most(v, v->twice_interleaved));
    out->pairs = out->columns == GYRE_ANGLE_COLUMNS_ONCE ? rows->width : rows->width / 2;
    out->step = out->columns == GYRE_ANGLE_COLUMNS_INTERLEAVED ? 2 : 1;
    if (rows->rows == 1) {
        out->form = GYRE_ANGLE_FORM_FREQUENCIES;
        out->cos_at = 0;
        return;
    }
    const int cosine = is_cos(rows, (out->pairs - 1) * out->step, -1, row);
    out->form = cosine ? GYRE_ANGLE_FORM_COS : GYRE_ANGLE_FORM_SIN;
    *(cosine ? &out->cos_at : &out->sin_at) = 0;
}

void gyre_angle_plan_find(gyre_angle_plan *out, const gyre_angle_rows *rows, double *row) {
    const votes v = count_votes(rows, row);
    *out = (gyre_angle_plan){.columns = GYRE_ANGLE_COLUMNS_ONCE, .cos_at = -1, .sin_at = -1, .step = 1};
    if (rows->rows > 1 && most(&v, v.unit_halves)) /* before the others: its numbers may be there twice too */
        plan_halves(out, rows, &v, row);
    else if (rows->rows > 1 && most(&v, v.unit_interleaved))
        plan_pairs(out, rows, row);
    else
        plan_one(out, rows, &v, row);
}
