/* lab_statistics.c: means and intervals of a cell.
 *
 * Every seed is measured on the same windows, so a cell is a table of seeds by windows.  The bootstrap draws seeds and,
 * apart from them, windows, each as many as there are, with replacement, and takes the mean of the cells of both: the
 * interval covers other seeds and other windows of such a text.  With one seed it covers the windows only.  Windows are
 * stretches of the text for perplexity, and whole windows of keys or segments, because answers in one window are not
 * independent.  All cells use the same draws, from a generator that is seeded again, so output is reproducible and rows
 * are comparable. */
#include "tools/lab/bootstrap.h"
#include "tools/lab/lab.h"
#include <math.h>
#include <string.h>

int64_t lab_values(const lab_plan *plan, const lab_row *row, int context, lab_measure measure, int64_t seeds,
                   double values[LAB_SEEDS * LAB_WINDOWS]) {
    int64_t windows = 0;
    for (int64_t s = 0; s < seeds; s++) {
        const lab_cell *cell = &row->cells[s][context];
        const lab_answers *a = measure == LAB_KEYS ? &cell->keys : &cell->copies;
        windows = measure == LAB_PERPLEXITY ? plan->regions : a->windows;
        for (int64_t w = 0; w < windows; w++)
            values[s * windows + w] =
                measure == LAB_PERPLEXITY ? cell->by_region[w] : (double)a->right[w] * (double)a->windows / (double)a->asked;
    }
    return windows;
}

static double value_of(const lab_cell *cell, lab_measure measure) {
    return measure == LAB_PERPLEXITY ? cell->nats : measure == LAB_KEYS ? cell->keys.share : cell->copies.share;
}

static lab_figure figure_of(const lab_plan *plan, const lab_row *row, int context, lab_measure measure, int64_t seeds) {
    double values[LAB_SEEDS * LAB_WINDOWS] = {0};
    lab_figure f = {.least = INFINITY, .greatest = 0};
    const int64_t windows = lab_values(plan, row, context, measure, seeds, values);
    bootstrap_interval(values, seeds, windows, &f.low, &f.high);
    for (int64_t s = 0; s < seeds; s++) {
        const double value = value_of(&row->cells[s][context], measure);
        f.mean += value / (double)seeds;
        f.least = fmin(f.least, value);
        f.greatest = fmax(f.greatest, value);
    }
    if (measure == LAB_PERPLEXITY) f = (lab_figure){exp(f.mean), exp(f.low), exp(f.high), exp(f.least), exp(f.greatest)};
    return f;
}

void lab_summarise(const lab_plan *plan, lab_row *row, int context) {
    lab_spread s = {.known = 1};
    for (int64_t i = 0; i < plan->seeds; i++) /* seeds are measured in order */
        s.measured += row->cells[i][context].measured;
    for (int64_t i = 0; i < s.measured; i++)
        s.known = s.known && row->cells[i][context].known;
    for (int m = 0; m < plan->measures && s.known && s.measured; m++)
        s.of[m] = figure_of(plan, row, context, (lab_measure)m, s.measured);
    row->spread[context] = s;
}
