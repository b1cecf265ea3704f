/* report_axis.c: the range of an axis and its ticks.
 *
 * Linear axes use gnuplot's own ticks.  On logarithmic axes gnuplot marks decades only, which leaves a perplexity
 * between 3 and 8 without a single number. */
#include "report/report_internal.h"

#include <math.h>
#include <stdlib.h>

enum { MAX_TICKS = 11 };

void gyre_report_range_add(gyre_report_range *data_range, double value) {
    if (data_range->low > data_range->high) {
        data_range->low = data_range->high = value;
        return;
    }
    if (value < data_range->low) data_range->low = value;
    if (value > data_range->high) data_range->high = value;
}

int gyre_report_axis_can_show(const gyre_report_axis *axis, double value) {
    return isfinite(value) && (axis->scale == GYRE_REPORT_SCALE_LINEAR || value > 0);
}

gyre_status gyre_report_axis_check(const gyre_report_axis *axis, const char *name, gyre_error *err) {
    if ((unsigned)axis->scale > GYRE_REPORT_SCALE_LOG10)
        return gyre_fail(err, GYRE_EINVAL, "%s axis: %d is not a scale (figure)", name, (int)axis->scale);
    if (axis->low == axis->high) return GYRE_OK;
    if (!gyre_report_axis_can_show(axis, axis->low) || !gyre_report_axis_can_show(axis, axis->high) ||
        axis->low > axis->high)
        return gyre_fail(err, GYRE_EINVAL, "%s axis: no range from %g to %g (figure)", name, axis->low, axis->high);
    return GYRE_OK;
}

/* -- ranges -- */
/* out = the axis's own range, or that of the data with a margin, so that no point is on the frame. */
static gyre_report_range range_of(const gyre_report_axis *axis, gyre_report_range data) {
    gyre_report_range range = {axis->low, axis->high};
    if (axis->low != axis->high) return range;
    const int linear = axis->scale == GYRE_REPORT_SCALE_LINEAR;
    double low = linear ? data.low : log(data.low), high = linear ? data.high : log(data.high);
    const double smallest = linear ? 1e-6 * fmax(1, fabs(high)) : 1e-3;
    const double margin = high - low > smallest ? 0.04 * (high - low) : linear ? 0.1 * fmax(1e-3, fabs(high)) : 0.2;
    low -= margin;
    high += margin;
    /* The margin does not reach below 0 if all data is above 0. */
    range.low = !linear ? exp(low) : data.low > 0 && low < 0 ? 0 : low;
    range.high = linear ? high : exp(high);
    return range;
}

double gyre_report_axis_fraction(const gyre_report_axis *axis, gyre_report_range data_range, double value) {
    const gyre_report_range range = range_of(axis, data_range);
    if (axis->scale == GYRE_REPORT_SCALE_LINEAR) return (value - range.low) / (range.high - range.low);
    return log(value / range.low) / log(range.high / range.low);
}

/* -- ticks -- */
typedef struct tick_writer {
    gyre_report_buffer *script;
    gyre_report_range range;
    double clip;
    int count;
} tick_writer;

static void put_tick(tick_writer *w, double at, const char *label) {
    if (!(at >= w->range.low * (1 - 1e-9) && at <= w->range.high * (1 + 1e-9))) return;
    /* Leaves room for the label of the clip. */
    if (w->clip > 0 && fabs(log(at / w->clip)) < 0.05 * log(w->range.high / w->range.low)) return;
    gyre_report_put(w->script, w->count++ ? ", " : "");
    gyre_report_put_gnuplot_string(w->script, label);
    gyre_report_put(w->script, " ");
    gyre_report_put_gnuplot_number(w->script, at);
    if (!*label) gyre_report_put(w->script, " 1"); /* a minor tick */
}

static void put_clip_tick(tick_writer *w) {
    char number[64], label[80];
    if (!(w->clip > 0)) return;
    gyre_report_format_number(number, 'g', 6, w->clip);
    snprintf(label, sizeof label, "≥ %s", number);
    const double clip = w->clip;
    w->clip = 0;
    put_tick(w, clip, label);
}

static void format_binary(double value, char label[72]) {
    static const char *const suffix[] = {"", "k", "M", "G", "T"};
    char number[64];
    int power = 0;
    while (value >= 1024 && power < 4) {
        value /= 1024;
        power++;
    }
    gyre_report_format_number(number, 'g', 6, value);
    snprintf(label, 72, "%s%s", number, suffix[power]);
}

static void put_log2_ticks(tick_writer *w) {
    const int first = (int)floor(log2(w->range.low)), last = (int)ceil(log2(w->range.high));
    const int step = (last - first) / MAX_TICKS + 1;
    char label[72];
    for (int e = first; e <= last; e++) {
        format_binary(ldexp(1, e), label);
        put_tick(w, ldexp(1, e), e % step == 0 ? label : "");
    }
}

/* Written out up to 10000, then as 10⁵, so that readers need not count zeros. */
static void format_power_of_ten(int mantissa, int power, char label[72]) {
    static const char *const raised[] = {"⁰", "¹", "²", "³", "⁴", "⁵", "⁶", "⁷", "⁸", "⁹"};
    if (power >= -3 && power <= 4) {
        char number[64];
        gyre_report_format_number(number, 'g', 6, mantissa * pow(10, power));
        snprintf(label, 72, "%s", number);
        return;
    }
    const int digits = abs(power);
    char factor[16] = "";
    if (mantissa > 1) snprintf(factor, sizeof factor, "%d·", mantissa);
    snprintf(label, 72, "%s10%s%s%s%s", factor, power < 0 ? "⁻" : "", digits > 99 ? raised[digits / 100] : "",
             digits > 9 ? raised[digits / 10 % 10] : "", raised[digits % 10]);
}

/* Labels decades, and 2 and 5 within them if few decades show.  Other digits get minor ticks. */
static void put_log10_ticks(tick_writer *w, double decades) {
    const int first = (int)floor(log10(w->range.low)), last = (int)ceil(log10(w->range.high));
    const int step = (last - first) / MAX_TICKS + 1;
    char label[72];
    for (int e = first; e <= last; e++)
        for (int m = 1; m <= 9; m++) {
            const int named = m == 1 ? e % step == 0 : decades < 2.5 && (m == 2 || m == 5);
            if (!named && (step > 1 || decades > 6)) continue;
            format_power_of_ten(m, e, label);
            put_tick(w, m * pow(10, e), named ? label : "");
        }
}

/* Within one decade: steps of 1, 2 or 5, as on a linear axis. */
static void put_linear_ticks(tick_writer *w) {
    const double rough = (w->range.high - w->range.low) / 6, power = pow(10, floor(log10(rough)));
    const double step = power * (rough < 1.5 * power ? 1 : rough < 3.5 * power ? 2 : rough < 7.5 * power ? 5 : 10);
    char label[64];
    const double first = ceil(w->range.low / step);
    for (int i = 0; (first + i) * step <= w->range.high; i++) {
        gyre_report_format_number(label, 'g', 6, (first + i) * step);
        put_tick(w, (first + i) * step, label);
    }
}

/* Logarithmic axes get a list of ticks.  Linear axes keep gnuplot's and get one for the clip. */
static void put_ticks(gyre_report_buffer *script, char letter, const gyre_report_axis *axis, gyre_report_range range,
                      double clip) {
    tick_writer w = {script, range, clip, 0};
    const double decades = axis->scale == GYRE_REPORT_SCALE_LINEAR ? 0 : log10(range.high / range.low);
    if (axis->scale == GYRE_REPORT_SCALE_LINEAR && !(clip > 0)) return;
    gyre_report_printf(script, axis->scale == GYRE_REPORT_SCALE_LINEAR ? "set %ctics add (" : "set %ctics (", letter);
    if (axis->scale == GYRE_REPORT_SCALE_LOG2)
        put_log2_ticks(&w);
    else if (axis->scale == GYRE_REPORT_SCALE_LOG10 && decades > 0.8)
        put_log10_ticks(&w, decades);
    else if (axis->scale == GYRE_REPORT_SCALE_LOG10)
        put_linear_ticks(&w);
    put_clip_tick(&w);
    gyre_report_put(script, ")\n");
}

void gyre_report_put_axis(gyre_report_buffer *script, char letter, const gyre_report_axis *axis,
                          gyre_report_range data_range, double clip) {
    const gyre_report_range range = range_of(axis, data_range);
    gyre_report_printf(script, "set %crange [", letter);
    gyre_report_put_gnuplot_number(script, range.low);
    gyre_report_put(script, ":");
    gyre_report_put_gnuplot_number(script, range.high);
    gyre_report_put(script, "]\n");
    if (axis->scale != GYRE_REPORT_SCALE_LINEAR)
        gyre_report_printf(script, "set logscale %c %d\n", letter, axis->scale == GYRE_REPORT_SCALE_LOG2 ? 2 : 10);
    put_ticks(script, letter, axis, range, clip);
    gyre_report_printf(script, "set %clabel ", letter);
    gyre_report_put_gnuplot_string(script, axis->label);
    gyre_report_printf(script, " textcolor rgb '" GYRE_REPORT_INK_LABEL "' offset %s\n", letter == 'x' ? "0,0.4" : "0,0");
}
