/* bootstrap.c: percentiles of resampled means of a table. */
#include "tools/lab/bootstrap.h"
#include "util/random.h"

#include <stdlib.h>

/* out = a number below n, of 31 bits. */
static int64_t draw_below(uint64_t *state, int64_t n) {
    return (int64_t)(((gyre_random_next(state) >> 32) * (uint64_t)n) >> 32);
}

static int by_value(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

void bootstrap_draw(uint64_t *state, int64_t n, int *counts) {
    for (int64_t i = 0; i < n; i++)
        counts[i] = 0;
    for (int64_t i = 0; i < n; i++)
        counts[draw_below(state, n)]++;
}

double bootstrap_mean(const double *values, int64_t rows, int64_t columns, const int *row_counts, const int *column_counts) {
    double sum = 0;
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < columns && row_counts[r]; c++)
            sum += row_counts[r] * column_counts[c] * values[r * columns + c];
    return sum / (double)(rows * columns);
}

void bootstrap_percentiles(double *values, int64_t count, double *low, double *high) {
    qsort(values, (size_t)count, sizeof *values, by_value);
    *low = values[count / 40];
    *high = values[count - 1 - count / 40];
}

void bootstrap_interval(const double *values, int64_t rows, int64_t columns, double *low, double *high) {
    double means[BOOTSTRAP_RESAMPLES];
    int row_counts[BOOTSTRAP_ROWS], column_counts[BOOTSTRAP_COLUMNS];
    uint64_t state = BOOTSTRAP_START;
    for (int i = 0; i < BOOTSTRAP_RESAMPLES; i++) {
        bootstrap_draw(&state, rows, row_counts);
        bootstrap_draw(&state, columns, column_counts);
        means[i] = bootstrap_mean(values, rows, columns, row_counts, column_counts);
    }
    bootstrap_percentiles(means, BOOTSTRAP_RESAMPLES, low, high);
}
