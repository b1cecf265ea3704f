/* partials.c: the parts of a row of attention added up. */
#include "attention/sight.h"
#include <math.h>
#include <string.h>

size_t gyre_partials_place(const gyre_attention_plan *plan, char *memory, int64_t item, int64_t part, gyre_partial *out) {
    const int64_t rows = plan->few_rows;
    gyre_arena a = {NULL, 0};
    gyre_arena_take(&a, rows * plan->value_pad, sizeof(float));
    gyre_arena_take(&a, rows, sizeof(double));
    gyre_arena_take(&a, rows, sizeof(double));
    gyre_arena_take(&a, rows, sizeof(float));
    const size_t stride = a.used;
    if (out) {
        a = (gyre_arena){memory + (size_t)(item * plan->parts + part) * stride, 0};
        out->out = gyre_arena_take(&a, rows * plan->value_pad, sizeof(float));
        out->sum = gyre_arena_take(&a, rows, sizeof(double));
        out->bias = gyre_arena_take(&a, rows, sizeof(double));
        out->top = gyre_arena_take(&a, rows, sizeof(float));
    }
    return stride;
}

gyre_row_sum gyre_row_finish(const gyre_attention_plan *plan, int64_t head, const gyre_row_state *state) {
    const double top = (double)state->top, sink = (double)gyre_sink_logit(plan, head) - state->bias;
    double most = top, sum = state->sum;
    if (sink != -INFINITY) { /* a NaN has its way */
        most = sink <= top ? top : sink;
        sum = sum * exp(top - most) + exp(sink - most);
    }
    if (sum == 0) return (gyre_row_sum){0, -INFINITY};
    return (gyre_row_sum){(float)(exp(top - most) / sum), (float)(state->bias + most + log(sum))};
}

/* A factor of 0 leaves out what it multiplies, even an infinity. */
static void add_scaled(float *restrict to, const float *restrict from, int64_t n, float factor) {
    for (int64_t c = 0; factor != 0 && c < n; c++)
        to[c] += factor * from[c];
}

void gyre_partials_add(const gyre_attention_plan *plan, char *memory, int64_t item, int64_t parts, int64_t row,
                       gyre_row_state *state) {
    gyre_partial part;
    float top = -INFINITY;
    for (int64_t p = 0; p < parts; p++) {
        gyre_partials_place(plan, memory, item, p, &part);
        top = part.top[row] > top || isnan(part.top[row]) ? part.top[row] : top;
    }
    state->top = top;
    state->sum = 0;
    memset(state->out, 0, (size_t)plan->value_pad * sizeof *state->out);
    for (int64_t p = 0; p < parts; p++) {
        gyre_partials_place(plan, memory, item, p, &part);
        state->bias = part.bias[row];
        if (part.top[row] == -INFINITY && part.sum[row] == 0) continue;
        const double factor = part.top[row] == top ? 1 : exp((double)part.top[row] - (double)top);
        state->sum += factor * part.sum[row];
        add_scaled(state->out, part.out + row * plan->value_pad, plan->value_pad, (float)factor);
    }
}
