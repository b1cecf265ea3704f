/* angle_match.c: a table against the frequencies of one reading, in each precision. */
#include "reading/angles/angle_audit.h"
#include "util/integers.h"

#include "core/convert.h"

#include <math.h>

/* -- precision -- */
static double to_bf16(double x) {
    return (double)gyre_bf16_to_f32(gyre_f64_to_bf16(x));
}
static double to_f16(double x) {
    return (double)gyre_f16_to_f32(gyre_f64_to_f16(x));
}

static double rounded_to(gyre_dtype type, double x) {
    return type == GYRE_DTYPE_BF16 ? to_bf16(x) : type == GYRE_DTYPE_F16 ? to_f16(x) : x;
}

typedef struct angle {
    double value, slack; /* radians; how far a computation in this precision may be off */
} angle;

/* out = the type that the frequencies are rounded to; F64 = none. */
static gyre_dtype half_of(gyre_angle_precision precision) {
    switch (precision) {
    case GYRE_ANGLE_PRECISION_BF16_FREQUENCIES:
    case GYRE_ANGLE_PRECISION_BF16_ANGLES:
        return GYRE_DTYPE_BF16;
    case GYRE_ANGLE_PRECISION_F16_FREQUENCIES:
    case GYRE_ANGLE_PRECISION_F16_ANGLES:
        return GYRE_DTYPE_F16;
    default:
        return GYRE_DTYPE_F64;
    }
}

double gyre_angle_f32_slack(double frequency) {
    return frequency != 0 ? 0x1p-24 * (8 + fabs(log(fabs(frequency)))) : 0;
}

static angle angle_at(gyre_angle_precision precision, double frequency, double slack, int64_t m) {
    const double at = (double)m;
    const gyre_dtype half = half_of(precision);
    if (precision == GYRE_ANGLE_PRECISION_EXACT) return (angle){at * frequency, at * fabs(frequency) * 0x1p-48};
    if (precision == GYRE_ANGLE_PRECISION_F32) return (angle){at * frequency, at * fabs(frequency) * slack};
    const double rounded = rounded_to(half, frequency);
    if (precision == GYRE_ANGLE_PRECISION_BF16_FREQUENCIES || precision == GYRE_ANGLE_PRECISION_F16_FREQUENCIES)
        return (angle){at * rounded, at * fabs(rounded) * 0x1p-23};
    return (angle){rounded_to(half, rounded_to(half, at) * rounded), 0};
}

/* -- numbers -- */
/* out = half a unit in the last place of the type, at numbers up to x. */
static double half_unit(gyre_dtype type, double x) {
    const int bits = type == GYRE_DTYPE_BF16 ? 8 : type == GYRE_DTYPE_F16 ? 11 : type == GYRE_DTYPE_F32 ? 24 : 53;
    const int least = type == GYRE_DTYPE_F16 ? -14 : -126;
    const int64_t exponent = x > 0 ? gyre_clamp_i64(ilogb(x), least, 1023) : least;
    return ldexp(1, (int)exponent - bits);
}

/* What a number is compared with. */
typedef struct bound {
    double wanted, most; /* largest error that the precision explains */
} bound;

static bound bound_of(double value, double slope, double factor, double slack, gyre_dtype rounded) {
    const double wanted = value * factor;
    const double loose = factor * (slack * fmin(1, fabs(slope) + slack) + (rounded == GYRE_DTYPE_F64 ? 0x1p-50 : 0x1p-22));
    return (bound){wanted, loose + half_unit(rounded, fabs(wanted) + loose)};
}

/* Errors of one number.  *largest grows.  out = 1 if it is off. */
static int is_off(double number, bound b, double *largest) {
    if (isnan(b.wanted)) return !isnan(number); /* angles that overflow f16 */
    const double error = fabs(number - b.wanted);
    if (!(error <= b.most)) {
        *largest = isfinite(error) ? fmax(*largest, error) : INFINITY;
        return 1;
    }
    *largest = fmax(*largest, error);
    return 0;
}

/* -- rows -- */
typedef struct search {
    const gyre_angle_rows *rows;
    const gyre_angle_plan *plan;
    const gyre_angle_wanted *wanted;
    gyre_dtype rounded;
    gyre_angle_precision precision;
    double *row;
} search;

/* out = the first pair of row m that is off; -1 = none. */
static int64_t pair_off(const search *s, int64_t m, double *largest) {
    const gyre_angle_plan *p = s->plan;
    const int halves = p->columns == GYRE_ANGLE_COLUMNS_HALVES, twice = p->columns != GYRE_ANGLE_COLUMNS_ONCE;
    const int64_t copy = twice ? halves ? p->pairs : 1 : 0;
    int64_t first = -1;
    gyre_angle_row(s->rows, m, s->row);
    for (int64_t i = 0; i < p->pairs; i++) {
        const double f = s->wanted->frequencies[i];
        const angle a = angle_at(s->precision, f, s->wanted->slack[i], m);
        const double c = isfinite(a.value) ? cos(a.value) : NAN, d = isfinite(a.value) ? sin(a.value) : NAN;
        int off = 0;
        for (int64_t k = 0; k <= copy; k += copy ? copy : 1) {
            if (p->cos_at >= 0)
                off |= is_off(s->row[p->cos_at + i * p->step + k], bound_of(c, d, s->wanted->factor, a.slack, s->rounded),
                              largest);
            if (p->sin_at >= 0)
                off |= is_off(s->row[p->sin_at + i * p->step + k], bound_of(d, c, s->wanted->factor, a.slack, s->rounded),
                              largest);
        }
        if (off && first < 0) first = i;
    }
    return first;
}

/* out = the first row that is off, with *pair; rows = none, with *largest of all. */
static int64_t first_off(const search *s, int64_t *pair, double *largest) {
    *largest = 0;
    for (int64_t m = 0; m < s->rows->rows; m++) {
        *pair = pair_off(s, m, largest);
        if (*pair >= 0) return m;
    }
    return s->rows->rows;
}

/* out = the first row with an angle 0.01 rad off the exact one, because of a precision of 16 bits; -1 = none. */
static int64_t first_inexact(const search *s) {
    if (half_of(s->precision) == GYRE_DTYPE_F64) return -1;
    for (int64_t m = 0; m < s->rows->rows; m++)
        for (int64_t i = 0; i < s->plan->pairs; i++) {
            const double f = s->wanted->frequencies[i];
            if (!(fabs(angle_at(s->precision, f, 0, m).value - f * (double)m) <= 0.01)) return m;
        }
    return -1;
}

static void match_rows(gyre_angle_match *out, search *s) {
    int64_t longest = -1;
    for (int k = 0; k <= GYRE_ANGLE_PRECISION_F16_ANGLES && longest < s->rows->rows; k++) {
        int64_t pair = -1;
        s->precision = (gyre_angle_precision)k;
        const int64_t first = first_off(s, &pair, &out->largest_error);
        if (first <= longest) continue;
        longest = first;
        out->precision = s->precision;
        out->first_pair = pair;
    }
    s->precision = out->precision;
    if (longest == s->rows->rows) {
        out->inexact_from = first_inexact(s);
        return;
    }
    out->first_position = longest;
    out->largest_error = 0;
    for (int64_t m = 0; m < s->rows->rows; m++)
        out->positions_off += pair_off(s, m, &out->largest_error) >= 0;
}

/* -- frequencies -- */
/* out = the first position at which frequencies so far apart are 0.01 rad apart; -1 = none up to 2^31. */
static int64_t position_apart(double gap) {
    const double at = floor(0.01 / gap) + 1;
    return gap == 0 ? -1 : !isfinite(gap) ? 0 : at <= 2147483648.0 ? (int64_t)at : -1;
}

/* A pair that the rounding of the table does not explain is off. */
static void match_frequencies(gyre_angle_match *out, const search *s) {
    const gyre_angle_plan *p = s->plan;
    double gap = 0;
    gyre_angle_row(s->rows, 0, s->row);
    for (int64_t i = 0; i < p->pairs; i++) {
        const double f = s->wanted->frequencies[i], number = s->row[p->cos_at + i * p->step],
                     slack = fabs(f) * s->wanted->slack[i];
        const double error = fabs(number - f);
        out->largest_error = error <= out->largest_error ? out->largest_error : isfinite(error) ? error : INFINITY;
        if (error <= slack + half_unit(s->rounded, fabs(f) + slack)) continue;
        out->positions_off++;
        if (!(error <= gap)) gap = error, out->first_pair = i;
    }
    out->precision = s->rounded == GYRE_DTYPE_BF16  ? GYRE_ANGLE_PRECISION_BF16_FREQUENCIES
                     : s->rounded == GYRE_DTYPE_F16 ? GYRE_ANGLE_PRECISION_F16_FREQUENCIES
                                                    : GYRE_ANGLE_PRECISION_F32;
    if (out->positions_off == 0) {
        if (out->precision != GYRE_ANGLE_PRECISION_F32) out->inexact_from = position_apart(out->largest_error);
        return;
    }
    out->first_position = position_apart(gap);
    if (out->first_position < 0) out->first_position = INT64_MAX; /* off, but never by 0.01 rad */
}

void gyre_angle_match_table(gyre_angle_match *out, const gyre_angle_rows *rows, const gyre_angle_plan *plan,
                            gyre_dtype rounded, const gyre_angle_wanted *wanted, double *row) {
    search s = {rows, plan, wanted, rounded, GYRE_ANGLE_PRECISION_EXACT, row};
    out->first_position = out->first_pair = out->inexact_from = -1;
    out->positions_off = 0;
    out->largest_error = 0;
    out->precision = GYRE_ANGLE_PRECISION_EXACT;
    if (wanted->pairs != plan->pairs) {
        out->first_position = 0;
        out->positions_off = plan->form == GYRE_ANGLE_FORM_FREQUENCIES ? plan->pairs : rows->rows;
        out->largest_error = INFINITY;
    } else if (plan->form == GYRE_ANGLE_FORM_FREQUENCIES) {
        match_frequencies(out, &s);
    } else {
        match_rows(out, &s);
    }
}

int gyre_angle_restarts(const gyre_angle_rows *rows, const gyre_angle_plan *plan, int64_t from, double *row) {
    double *other = row + rows->width;
    if (from < 1 || plan->form == GYRE_ANGLE_FORM_FREQUENCIES) return 0;
    gyre_angle_row(rows, 0, row);
    gyre_angle_row(rows, from, other);
    for (int64_t i = 0; i < rows->width; i++) /* cos is the factor, which may be another, and sin 0 */
        if (fabs(other[i] - row[i]) > 0.25) return 0;
    if (from + 1 >= rows->rows) return 0;
    gyre_angle_row(rows, 1, row);
    gyre_angle_row(rows, from + 1, other);
    const int64_t at = plan->sin_at >= 0 ? plan->sin_at : plan->cos_at; /* the fastest pair has turned as far */
    return fabs(other[at] - row[at]) < 0.05;
}
