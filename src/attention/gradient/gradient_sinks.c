/* gradient_sinks.c: the gradient of gyre_attention_inputs.sink_logits. */
#include "attention/gradient/gradient_sinks.h"
#include "attention/terms/softmax.h"
#include "core/convert.h"
#include "core/exec.h"
#include "core/view.h"
#include <math.h>

/* out = dout . out - dlse of one row, summed by parts. */
static double delta_of(const gyre_attention_call *call, int64_t batch, int64_t token, int64_t head) {
    enum { PART = 128 };
    const gyre_attention_plan *plan = call->plan;
    const gyre_cview out = gyre_const(plan->args->out);
    double sum = call->dlse->data ? -gyre_cview_real(call->dlse, batch, token, head) : 0;
    for (int64_t first = 0; first < plan->value_dim; first += PART) {
        const int64_t n = plan->value_dim - first < PART ? plan->value_dim - first : PART;
        float a[PART], b[PART], part;
        gyre_load_row(gyre_cview_at(call->dout, batch, token, head, first), call->dout->dtype, call->dout->stride[3], n, a);
        gyre_load_row(gyre_cview_at(&out, batch, token, head, first), out.dtype, out.stride[3], n, b);
        for (int64_t c = n; c < (n + 15) / 16 * 16; c++)
            a[c] = b[c] = 0;
        plan->kernels->dot_row_f32(a, b, (n + 15) / 16 * 16, &part);
        sum += (double)part;
    }
    return sum;
}

/* The gradient of one head, whose rows are summed in order. */
static void differentiate_sink(void *arg, int64_t head) {
    const gyre_attention_call *call = arg;
    const gyre_attention_inputs *args = call->plan->args;
    const gyre_cview lse = gyre_const(args->lse);
    const double sink = gyre_sink_logit(call->plan, head);
    double sum = 0;
    for (int64_t b = 0; b < args->q.shape[0]; b++)
        for (int64_t i = 0; i < call->plan->queries && sink != -INFINITY; i++) {
            const double weight = exp(sink - gyre_cview_real(&lse, b, i, head));
            if (weight != 0) sum -= weight * delta_of(call, b, i, head);
        }
    gyre_view_add(&call->gradients->sink_logits, 0, 0, gyre_head_in_call(call->plan, head), 0, sum);
}

void gyre_sink_gradient(gyre_attention_call *call, const gyre_exec *exec) {
    if (!call->gradients || !call->gradients->sink_logits.data || !call->plan->args->sink_logits.data) return;
    gyre_parallel(exec, differentiate_sink, call, call->plan->query_heads);
}
