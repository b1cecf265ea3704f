/* double_attention.c: attention of one segment in double, row by row.  With p the weights, kept_n what dropout multiplies
 * them by, and delta = dout . out - dlse:
 *
 *     dv_n = sum_m kept_mn p_mn dout_m        ds_mn = p_mn (kept_mn dout_m . v_n - delta_m) */
#include "attention/double/double_attention.h"
#include "attention/double/double_scores.h"
#include "attention/terms/dropout.h"
#include "attention/terms/softmax.h"
#include "core/convert.h"
#include "core/exec.h"
#include "core/positions.h"
#include "util/integers.h"
#include <math.h>
#include <string.h>

void gyre_double_measure(gyre_attention_plan *plan, int64_t concurrency) {
    gyre_double_job job;
    plan->jobs = gyre_min_i64(concurrency, plan->items);
    plan->job_bytes = gyre_double_job_layout(plan, NULL, &job);
}

/* -- dropout -- */

/* kept[j] = 0 if the weight of visible key j is dropped, else 1 / (1 - rate). */
static void read_kept(gyre_double_job *job) {
    const gyre_segment *segment = job->plan->segment;
    const gyre_dropout dropout = {job->plan->args->dropout, job->plan->args->seed, job->plan->kernels};
    gyre_dropout_block block = {.sequence = segment->sequence + job->batch,
                                .head = gyre_head_in_call(job->plan, job->head),
                                .query = segment->query_first + job->query,
                                .rows = 1,
                                .count = 1};
    if (segment->indexed) block.query = gyre_position_at(&segment->q_index, job->batch, job->query, 0);
    for (int64_t j = 0; j < job->count; j++) {
        const int64_t key = segment->indexed ? gyre_position_at(&segment->k_index, job->batch, job->key[j], 0)
                                             : segment->key_first + job->key[j];
        float x = 1;
        if (dropout.rate > 0) gyre_dropout_apply_indexed(&dropout, &block, &key, &x, NULL);
        job->kept[j] = x == 0 ? 0 : 1 / (1 - dropout.rate);
    }
}

/* -- forward -- */

/* out[:] = the sum over keys of weight times value; a weight of 0 adds nothing, even of an infinite or NaN value. */
static void sum_values(gyre_double_job *job) {
    const int64_t n = job->plan->value_dim;
    memset(job->out, 0, (size_t)n * sizeof *job->out);
    for (int64_t j = 0; j < job->count; j++) {
        const double weight = job->score[j] * job->kept[j];
        if (weight == 0) continue;
        gyre_double_value(job, j);
        for (int64_t c = 0; c < n; c++)
            job->out[c] += weight * job->value[c];
    }
}

static void write_weights(const gyre_double_job *job, double factor) {
    const gyre_attention_inputs *args = job->plan->args;
    const int64_t query = job->query - args->weights_first;
    if (!args->weights.data || query < 0 || query >= args->weights.shape[1]) return;
    for (int64_t j = 0; j < job->count; j++) {
        float *to = gyre_view_at(&args->weights, job->batch, query, job->head, job->key[j]);
        *to = (float)(job->score[j] == 0 && !args->weights_are_scores ? 0 : job->score[j] * factor);
    }
}

/* score[j] -> exp(score[j] - *largest); out = their sum, with the sink logit. */
static double exponentiate(gyre_double_job *job, double *largest) {
    const double sink = gyre_sink_logit(job->plan, job->head);
    *largest = sink;
    for (int64_t j = 0; j < job->count; j++)
        *largest = job->score[j] > *largest ? job->score[j] : *largest;
    const double shift = *largest == -INFINITY ? 0 : *largest;
    double sum = 0;
    for (int64_t j = 0; j < job->count; j++)
        sum += job->score[j] = exp(job->score[j] - shift);
    return sum + exp(sink - shift);
}

static void forward_query(gyre_double_job *job, int64_t query) {
    const gyre_attention_inputs *args = job->plan->args;
    double largest;
    gyre_double_query_begin(job, query);
    gyre_double_scores(job);
    read_kept(job);
    if (args->weights_are_scores) write_weights(job, 1);
    const double sum = exponentiate(job, &largest), factor = sum == 0 ? 0 : 1 / sum;
    if (!args->weights_are_scores) write_weights(job, factor);
    sum_values(job);
    for (int64_t c = 0; c < job->plan->value_dim; c++)
        job->out[c] = gyre_canonical_f64(sum == 0 ? 0 : job->out[c] * factor);
    gyre_store_row_f64(job->out, job->plan->value_dim, gyre_view_at(&args->out, job->batch, query, job->head, 0),
                       args->out.dtype, args->out.stride[3]);
    const double lse = gyre_canonical_f64(largest + log(sum));
    if (args->lse.data)
        gyre_store_row_f64(&lse, 1, gyre_view_at(&args->lse, job->batch, query, job->head, 0), args->lse.dtype, 1);
}

/* -- gradient -- */

/* out = dout . out - dlse.  job->dout = the row of dout. */
static double read_delta(const gyre_attention_call *call, gyre_double_job *job, int64_t query, double lse) {
    const gyre_view *out = &job->plan->args->out;
    const int64_t n = job->plan->value_dim, b = job->batch, h = job->head;
    gyre_load_row_f64(gyre_view_at(out, b, query, h, 0), out->dtype, out->stride[3], n, job->out);
    gyre_load_row_f64(gyre_cview_at(call->dout, b, query, h, 0), call->dout->dtype, call->dout->stride[3], n, job->dout);
    double delta = call->dlse->data && lse != -INFINITY ? -gyre_cview_real(call->dlse, b, query, h) : 0;
    for (int64_t c = 0; c < n; c++)
        delta += job->dout[c] * job->out[c];
    return delta;
}

static void sink_backward(gyre_double_job *job, double lse, double delta) {
    const gyre_view *view = job->gradients ? &job->gradients->sink_logits : NULL;
    const double sink = gyre_sink_logit(job->plan, job->head);
    if (view && view->data && sink != -INFINITY)
        gyre_view_add(view, 0, 0, gyre_head_in_call(job->plan, job->head), 0, -exp(sink - lse) * delta);
}

static void gradient_query(const gyre_attention_call *call, gyre_double_job *job, int64_t query) {
    const int64_t n = job->plan->value_dim;
    const gyre_cview lse_view = gyre_const(job->plan->args->lse);
    gyre_double_query_begin(job, query);
    gyre_double_scores(job);
    read_kept(job);
    const double lse = gyre_cview_real(&lse_view, job->batch, query, job->head);
    const double delta = read_delta(call, job, query, lse);
    for (int64_t j = 0; j < job->count; j++) {
        const double p = lse == -INFINITY ? 0 : exp(job->score[j] - lse);
        double dweight = 0;
        job->dscore[j] = 0;
        if (p == 0) continue; /* even if its value is infinite */
        gyre_double_value(job, j);
        for (int64_t c = 0; c < n; c++)
            dweight += job->dout[c] * job->value[c];
        job->dscore[j] = p * ((job->kept[j] == 0 ? 0 : job->kept[j] * dweight) - delta);
        if (job->kept[j] != 0) gyre_double_value_backward(job, j, p * job->kept[j], job->dout);
    }
    sink_backward(job, lse, delta);
    gyre_double_scores_backward(job);
    gyre_double_query_end(job, &call->dqkv[0]);
}

/* -- a segment -- */

static void run_item(const gyre_attention_call *call, gyre_double_job *job, int64_t item) {
    const gyre_attention_plan *plan = call->plan;
    gyre_double_item_begin(job, item);
    for (int64_t g = 0; g < plan->group; g++) {
        gyre_double_head_begin(job, job->key_head * plan->group + g);
        for (int64_t query = 0; query < plan->queries; query++)
            if (plan->gradient)
                gradient_query(call, job, query);
            else
                forward_query(job, query);
        if (plan->gradient && plan->gated) gyre_double_head_end(job);
    }
    if (plan->gradient) gyre_double_item_end(job, &call->dqkv[1]);
}

static void run_items(void *arg, int64_t index) {
    gyre_attention_call *call = arg;
    gyre_double_job job;
    gyre_double_job_layout(call->plan, gyre_job_memory(call, index), &job);
    job.gradients = call->gradients;
    for (int64_t item; (item = atomic_fetch_add(&call->next, 1)) < call->tasks;)
        run_item(call, &job, item);
}

/* Items share the gradients of tables, which are added in the order of items by one job. */
void gyre_double_run(gyre_attention_call *call, const gyre_exec *exec) {
    atomic_init(&call->next, 0);
    call->tasks = call->plan->items;
    gyre_parallel(exec, run_items, call, call->gradients ? 1 : call->plan->jobs);
}
