/* partials.c: partial results of rows of attention, and their sum. */
#include "attention/forward/partials.h"
#include <math.h>
#include <string.h>

size_t gyre_partials_layout(const gyre_attention_plan *plan, char *memory, int64_t item, int64_t split, gyre_partial *out) {
    const int64_t rows = plan->partial_rows;
    gyre_arena a = {NULL, 0};
    gyre_arena_alloc(&a, rows * plan->value_pad, sizeof(float));
    gyre_arena_alloc(&a, rows, sizeof(double));
    gyre_arena_alloc(&a, rows, sizeof(double));
    gyre_arena_alloc(&a, rows, sizeof(float));
    const size_t stride = a.used;
    if (out) {
        a = (gyre_arena){memory + (size_t)(item * plan->key_splits + split) * stride, 0};
        out->out = gyre_arena_alloc(&a, rows * plan->value_pad, sizeof(float));
        out->row_sum = gyre_arena_alloc(&a, rows, sizeof(double));
        out->bias = gyre_arena_alloc(&a, rows, sizeof(double));
        out->row_max = gyre_arena_alloc(&a, rows, sizeof(float));
    }
    return stride;
}

/* to += factor * from.  A factor of 0 adds nothing, even for an infinite `from`. */
static void add_scaled(float *restrict to, const float *restrict from, int64_t n, float factor) {
    for (int64_t c = 0; factor != 0 && c < n; c++)
        to[c] += factor * from[c];
}

void gyre_partials_combine(const gyre_attention_plan *plan, char *memory, int64_t item, int64_t key_splits, int64_t row,
                           gyre_row_state *state) {
    gyre_partial part;
    float row_max = -INFINITY;
    for (int64_t p = 0; p < key_splits; p++) {
        gyre_partials_layout(plan, memory, item, p, &part);
        row_max = part.row_max[row] > row_max || isnan(part.row_max[row]) ? part.row_max[row] : row_max;
    }
    state->row_max = row_max;
    state->row_sum = 0;
    memset(state->out, 0, (size_t)plan->value_pad * sizeof *state->out);
    for (int64_t p = 0; p < key_splits; p++) {
        gyre_partials_layout(plan, memory, item, p, &part);
        state->bias = part.bias[row];
        if (part.row_max[row] == -INFINITY && part.row_sum[row] == 0) continue;
        const double factor = part.row_max[row] == row_max ? 1 : exp((double)part.row_max[row] - (double)row_max);
        state->row_sum += factor * part.row_sum[row];
        add_scaled(state->out, part.out + row * plan->value_pad, plan->value_pad, (float)factor);
    }
}
