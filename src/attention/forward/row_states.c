/* row_states.c: rows whose keys are not all in one call. */
#include "attention/forward/row_states.h"
#include <math.h>
#include <string.h>

/* What both sides of a sum are multiplied by, and the largest score that the sum is relative to. */
typedef struct factors {
    double largest, to, from;
} factors;

static factors factors_of(double to_largest, double to_sum, double from_largest, double from_sum) {
    if (from_sum == 0) return (factors){to_largest, 1, 0};
    if (to_sum == 0) return (factors){from_largest, 0, 1};
    if (from_largest == to_largest) return (factors){to_largest, 1, 1};
    if (from_largest > to_largest) return (factors){from_largest, exp(to_largest - from_largest), 1};
    return (factors){to_largest, 1, exp(from_largest - to_largest)}; /* a NaN reaches the result */
}

/* out = a x + b y, of which a factor of 0 adds nothing. */
static double add(double a, double x, double b, double y) {
    return (a == 0 ? 0 : a * x) + (b == 0 ? 0 : b * y);
}

void gyre_row_state_add(double *to, const double *from, int64_t channels) {
    const factors f = factors_of(to[GYRE_STATE_LARGEST], to[GYRE_STATE_SUM], from[GYRE_STATE_LARGEST], from[GYRE_STATE_SUM]);
    to[GYRE_STATE_LARGEST] = f.largest;
    for (int64_t i = GYRE_STATE_SUM; i < GYRE_STATE_VALUES + channels; i++)
        to[i] = add(f.to, to[i], f.from, from[i]);
}

void gyre_row_state_add_row(double *to, const gyre_row_state *row, int64_t channels) {
    const double largest = (double)row->row_max + row->bias;
    const factors f = factors_of(to[GYRE_STATE_LARGEST], to[GYRE_STATE_SUM], largest, row->row_sum);
    if (row->row_sum == 0) return;
    to[GYRE_STATE_LARGEST] = f.largest;
    to[GYRE_STATE_SUM] = add(f.to, to[GYRE_STATE_SUM], f.from, row->row_sum);
    for (int64_t c = 0; c < channels; c++)
        to[GYRE_STATE_VALUES + c] = add(f.to, to[GYRE_STATE_VALUES + c], f.from, (double)row->out[c]);
}

/* The largest score becomes a float; the sums take the rounding. */
void gyre_row_state_load(const double *state, int64_t channels, gyre_row_state *row) {
    row->row_max = -INFINITY;
    row->row_sum = 0;
    memset(row->out, 0, (size_t)channels * sizeof *row->out);
    if (state[GYRE_STATE_SUM] == 0) return;
    const double relative = state[GYRE_STATE_LARGEST] - row->bias;
    row->row_max = (float)relative;
    const double factor = relative == (double)row->row_max ? 1 : exp(relative - (double)row->row_max);
    row->row_sum = state[GYRE_STATE_SUM] * factor;
    for (int64_t c = 0; c < channels; c++)
        row->out[c] = (float)(state[GYRE_STATE_VALUES + c] * factor);
}

void gyre_row_state_store(const gyre_row_state *row, int64_t channels, double *state) {
    state[GYRE_STATE_LARGEST] = row->row_sum == 0 ? 0 : (double)row->row_max + row->bias;
    state[GYRE_STATE_SUM] = row->row_sum;
    for (int64_t c = 0; c < channels; c++)
        state[GYRE_STATE_VALUES + c] = (double)row->out[c];
}
