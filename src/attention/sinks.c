/* sinks.c: the end of a row of attention, with the score that no key has. */
#include "attention/sinks.h"
#include "core/view.h"

#include <math.h>

float gyre_sink_logit(const gyre_attention_plan *plan, int64_t head) {
    const gyre_cview *sinks = &plan->args->sink_logits;
    return sinks->data ? *(const float *)gyre_cview_at(sinks, 0, 0, head, 0) : -INFINITY;
}

/* The larger of the two is what the sum is relative to, so neither overflows. */
gyre_row_end gyre_row_close(const gyre_attention_plan *plan, int64_t head, double top, double sum, double bias) {
    const double sink = (double)gyre_sink_logit(plan, head) - bias;
    if (sum == 0) return (gyre_row_end){0, sink};
    if (sink <= top) sum += exp(sink - top);
    if (sink <= top || sink == -INFINITY) return (gyre_row_end){1 / sum, top + log(sum)};
    const double less = exp(top - sink), all = sum * less + 1;
    return (gyre_row_end){less / all, sink + log(all)};
}
