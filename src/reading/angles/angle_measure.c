/* angle_measure.c: factor, frequencies and base of a table, from its numbers alone. */
#include "reading/angles/angle_audit.h"
#include "util/integers.h"

#include "core/convert.h"

#include <math.h>

static const double TWO_PI = 6.283185307179586476925286766559;
enum { FACTOR_ROWS = 64 };

/* -- the type that holds all numbers -- */
static int holds(double x, gyre_dtype type) {
    if (isnan(x)) return 1;
    if (type == GYRE_DTYPE_BF16) return (double)gyre_bf16_to_f32(gyre_f64_to_bf16(x)) == x;
    if (type == GYRE_DTYPE_F16) return (double)gyre_f16_to_f32(gyre_f64_to_f16(x)) == x;
    return type == GYRE_DTYPE_F64 || (double)(float)x == x;
}

static gyre_dtype find_rounded(const gyre_angle_rows *rows, double *row) {
    static const gyre_dtype types[] = {GYRE_DTYPE_BF16, GYRE_DTYPE_F16, GYRE_DTYPE_F32, GYRE_DTYPE_F64};
    int held[4] = {1, 1, 1, 1};
    for (int64_t t = 0; t < rows->rows; t++) {
        gyre_angle_row(rows, t, row);
        for (int k = 0; k < 4; k++)
            for (int64_t i = 0; i < rows->width && held[k]; i++)
                held[k] = holds(row[i], types[k]);
        if (!held[0] && !held[1] && !held[2]) break;
    }
    for (int k = 0; k < 3; k++)
        if (held[k]) return types[k];
    return GYRE_DTYPE_F64;
}

/* -- factor -- */
static double measure_factor(const gyre_angle_rows *rows, const gyre_angle_plan *p, double *row) {
    double sum = 0, largest = 0;
    int64_t count = 0;
    const int64_t sample = p->form == GYRE_ANGLE_FORM_COS ? 1 : gyre_min_i64(rows->rows, FACTOR_ROWS);
    for (int64_t t = 0; t < sample; t++) {
        gyre_angle_row(rows, t, row);
        for (int64_t i = 0; i < p->pairs; i++) {
            const double c = p->cos_at < 0 ? 0 : row[p->cos_at + i * p->step],
                         s = p->sin_at < 0 ? 0 : row[p->sin_at + i * p->step];
            const double squares = c * c + s * s;
            if (!isfinite(squares)) continue;
            sum += squares;
            count++;
            largest = fmax(largest, squares);
        }
    }
    if (p->form == GYRE_ANGLE_FORM_SIN) return sqrt(largest);
    return count ? sqrt(sum / (double)count) : 0;
}

/* -- frequencies -- */
static double wrap(double angle) {
    return angle - TWO_PI * nearbyint(angle / TWO_PI);
}

/* out = the angle that a row says, nearest to the one that is expected; NaN if it says too little. */
static double angle_near(const gyre_angle_plan *p, const double *row, int64_t i, double factor, double expected) {
    if (p->cos_at >= 0 && p->sin_at >= 0) {
        const double angle = atan2(row[p->sin_at + i * p->step], row[p->cos_at + i * p->step]);
        return expected + wrap(angle - expected);
    }
    const int is_cos = p->cos_at >= 0;
    const double value = row[(is_cos ? p->cos_at : p->sin_at) + i * p->step] / factor;
    const double one = is_cos ? acos(fmin(1, fmax(-1, value))) : asin(fmin(1, fmax(-1, value)));
    if (expected < 0.7) return one; /* the first quarter of a turn, where the angle has one sign */
    if (!(fabs(value) < 0.98)) return NAN;
    const double other = is_cos ? -one : TWO_PI / 2 - one;
    const double a = expected + wrap(one - expected), b = expected + wrap(other - expected);
    return fabs(a - expected) < fabs(b - expected) ? a : b;
}

/* From row 1 on, each estimate says how often a pair has turned up to a row half as far again, and that row makes it more
 * exact, until the table leaves its own frequencies.  last[i]: unused rows are left at 0. */
static void measure_frequencies(const gyre_angle_rows *rows, const gyre_angle_plan *p, gyre_angle_measure *out,
                                double *row) {
    double *f = out->frequencies;
    for (int64_t i = 0; i < p->pairs; i++)
        f[i] = NAN;
    for (int64_t m = 1; m < rows->rows; m += gyre_max_i64(1, m / 2)) {
        gyre_angle_row(rows, m, row);
        for (int64_t i = 0; i < p->pairs; i++) {
            const int first = m == 1;
            if (!first && isnan(f[i])) continue;
            const double expected = first ? 0 : f[i] * (double)m, angle = angle_near(p, row, i, out->factor, expected);
            if (isnan(angle)) continue;
            if (first || expected < 0.7 || fabs(angle - expected) < 0.5) f[i] = angle / (double)m;
        }
    }
}

/* -- base -- */
/* out = the relative error of a measured frequency, about. */
static double error_of(const gyre_angle_rows *rows, const gyre_angle_plan *p, gyre_dtype rounded, double frequency) {
    const double unit = rounded == GYRE_DTYPE_BF16 ? 0x1p-8 : rounded == GYRE_DTYPE_F16 ? 0x1p-11 : 0x1p-21;
    if (p->form == GYRE_ANGLE_FORM_FREQUENCIES) return unit;
    const double one = p->cos_at >= 0 && p->sin_at >= 0 ? unit : sqrt(unit);
    return fmax(one / ((double)rows->rows * frequency), 0x1p-20);
}

/* out = the base, if all frequencies that are known well are base^(-i / pairs); else 0. */
static double find_base(const gyre_angle_rows *rows, const gyre_angle_plan *p, const gyre_angle_measure *m) {
    double best = 0, best_error = INFINITY;
    for (int pass = 0; pass < 2; pass++)
        for (int64_t i = 1; i < p->pairs; i++) {
            const double f = m->frequencies[i];
            const double relative = f > 0 ? error_of(rows, p, m->rounded, f) : INFINITY;
            if (!(f > 0) || relative > 0.02) {
                if (p->form == GYRE_ANGLE_FORM_FREQUENCIES) return 0; /* a pair that does not rotate */
                continue;
            }
            const double share = (double)p->pairs / (double)i, base = -log(f) * share, error = relative * share;
            if (pass == 0 && error < best_error) best = base, best_error = error;
            if (pass == 1 && fabs(base - best) > 0.002 + 3 * (error + best_error)) return 0;
        }
    return isfinite(best_error) && fabs(m->frequencies[0] - 1) < 0.02 ? exp(best) : 0;
}

void gyre_angle_measure_table(gyre_angle_measure *out, const gyre_angle_rows *rows, const gyre_angle_plan *plan,
                              double *row) {
    out->rounded = find_rounded(rows, row);
    out->factor = 1;
    if (plan->form == GYRE_ANGLE_FORM_FREQUENCIES) {
        gyre_angle_row(rows, 0, row);
        for (int64_t i = 0; i < plan->pairs; i++)
            out->frequencies[i] = row[plan->cos_at + i * plan->step];
    } else {
        out->factor = measure_factor(rows, plan, row);
        measure_frequencies(rows, plan, out, row);
    }
    out->base = find_base(rows, plan, out);
}
