/* adaptive_gradient.c: the gradient.  With p the softmax weights, recomputed from scores and log-sum-exp,
 *
 *     ds_mn = p_mn (dout_m . v_n - dout_m . out_m)
 *
 * goes back through the network (adaptive_network.c) to products and biases.  A task is GRADIENT_ROWS queries of a sequence
 * with all their keys.  What keys, network and table get from a task is kept apart, and added in the order of tasks: so the
 * bits do not depend on threads. */
#include "adaptive/adaptive_biases.h"
#include "adaptive/adaptive_network.h"
#include "adaptive/adaptive_tiles.h"
#include "call/online_softmax.h"
#include "core/convert.h"
#include "core/exec.h"
#include "core/view.h"

#include <math.h>
#include <string.h>

typedef struct gradient_call {
    const gyre_adaptive_plan *plan;
    char *scratch;
    gyre_adaptive_totals totals;
    int64_t count; /* tasks of a wave: one for each job */
} gradient_call;

/* -- a tile of rows -- */

static void begin_rows(gyre_adaptive_buffers *b, int64_t sequence, int64_t first) {
    const gyre_adaptive_plan *plan = b->plan;
    const gyre_gradient_rows to = {b->dout_rows, b->out_rows, b->lse, b->delta, b->dq_rows, plan->value_pad, plan->head_pad};
    gyre_adaptive_rows_begin(b, sequence, first);
    gyre_gradient_rows_begin(plan->kernels, &b->all_rows, plan->dout, &plan->args->out, &plan->args->lse, &to);
    b->q_finite = gyre_tile_finite(plan->kernels, b->q_rows, b->all_rows.count * plan->head_pad);
    b->dout_finite = gyre_tile_finite(plan->kernels, b->dout_rows, b->all_rows.count * plan->value_pad);
    gyre_adaptive_biases_clear(b);
}

static void write_queries(const gyre_adaptive_buffers *b) {
    const gyre_adaptive_plan *plan = b->plan;
    plan->kernels->scale_row_f32(b->dq_rows, b->all_rows.count * plan->head_pad, (float)plan->args->scale);
    gyre_query_rows_write(&b->all_rows, b->dq_rows, plan->head_pad, &plan->gradients->dq);
}

/* -- a tile -- */

/* dscores = dout . v. */
static void weights_backward(gyre_adaptive_buffers *b, int64_t tile) {
    const gyre_adaptive_plan *plan = b->plan;
    const int64_t pad = plan->value_pad;
    for (int64_t h = 0; h < plan->heads; h++) {
        if (h % plan->group == 0) {
            gyre_adaptive_read_values(b, h / plan->group, tile);
            gyre_tile_transpose(plan->kernels, b->value_rows, pad, b->value_columns);
        }
        gyre_tile_products(plan->kernels, b->dout_rows + h * b->rows * pad, b->rows, pad, plan->args->v.shape[3],
                           b->value_columns, b->dscores + h * gyre_adaptive_plane(b));
    }
}

/* scores and dscores of a block -> weights, and x -> the gradients to products and biases. */
static void block_backward(gyre_adaptive_buffers *b, int64_t tile, const gyre_adaptive_block *block) {
    gyre_adaptive_scores(b, tile, block);
    for (int64_t h = 0; h < b->plan->heads; h++)
        for (int64_t i = block->first; i < block->first + block->count; i++) {
            const int64_t r = h * b->rows + i, at = h * gyre_adaptive_plane(b) + i * KEY_TILE;
            gyre_softmax_backward(b->plan->kernels, b->scores + at, b->dscores + at, b->lse[r], b->delta[r]);
        }
    gyre_adaptive_scores_backward(b, block);
}

static void products_backward(gyre_adaptive_buffers *b, int64_t tile) {
    const gyre_adaptive_plan *plan = b->plan;
    const int64_t rows = b->rows, plane = gyre_adaptive_plane(b);
    for (int64_t h = 0; h < plan->heads; h++) {
        const int64_t key_head = h / plan->group, key = key_head * gyre_adaptive_keys_padded(plan) + tile * KEY_TILE;
        const gyre_tile_weights values = {b->scores + h * plane, b->dout_rows + h * rows * plan->value_pad, rows,
                                          plan->value_pad, b->dout_finite};
        const gyre_tile_weights products = {b->x + h * plane, b->q_rows + h * rows * plan->head_pad, rows, plan->head_pad,
                                            b->q_finite};
        if (h % plan->group == 0) gyre_adaptive_read_keys(b, key_head, tile);
        gyre_weighted_to_keys(plan->kernels, &values, b->sums.dv + key * plan->value_pad);
        gyre_weighted_to_keys(plan->kernels, &products, b->sums.dk + key * plan->head_pad);
        gyre_weighted_to_queries(plan->kernels, &products, b->key_rows, b->dq_rows + h * rows * plan->head_pad);
    }
}

static void tile_backward(gyre_adaptive_buffers *b, int64_t tile) {
    const gyre_adaptive_plan *plan = b->plan;
    gyre_adaptive_inputs(b, tile);
    weights_backward(b, tile);
    for (int64_t first = 0; first < b->rows; first += NETWORK_ROWS) {
        const int64_t left = b->rows - first;
        const gyre_adaptive_block block = {first, left < NETWORK_ROWS ? left : NETWORK_ROWS};
        block_backward(b, tile, &block);
    }
    products_backward(b, tile);
    if (plan->gradients->dtable.data || plan->gradients->dbias.data)
        gyre_adaptive_biases_backward(b, tile, plan->adds ? b->x : b->x + plan->heads * gyre_adaptive_plane(b));
}

/* -- a task -- */

/* Each number of the sums of network and table, one array after the other. */
typedef struct sum_range {
    double *sums;
    int64_t count;
} sum_range;
enum { SUM_RANGES = 4 };
static void list_sums(const gyre_adaptive_plan *plan, const gyre_adaptive_sums *s, sum_range out[SUM_RANGES]) {
    out[0] = (sum_range){s->dhidden, plan->width * plan->inputs};
    out[1] = (sum_range){s->dhidden_bias, plan->width};
    out[2] = (sum_range){s->doutput, plan->heads * (plan->width + 1)};
    out[3] = (sum_range){s->dtable, plan->table_rows * plan->heads};
}

static void clear_sums(const gyre_adaptive_plan *plan, const gyre_adaptive_sums *s) {
    sum_range ranges[SUM_RANGES];
    list_sums(plan, s, ranges);
    for (int i = 0; i < SUM_RANGES; i++)
        memset(ranges[i].sums, 0, (size_t)ranges[i].count * sizeof(double));
}

/* out = the key tiles that some query of a task sees. */
static int64_t tiles_of_task(const gyre_adaptive_plan *plan, const gyre_adaptive_task *task) {
    const gyre_adaptive_buffers last = {
        .plan = plan, .sequence = gyre_adaptive_sequence(plan, task->sequence), .first = task->first, .rows = task->count};
    return gyre_adaptive_tiles_seen(&last);
}

static void run_task(void *arg, int64_t job) {
    const gradient_call *call = arg;
    const gyre_adaptive_plan *plan = call->plan;
    const gyre_adaptive_task *task = &call->totals.tasks[job];
    const int64_t seen = tiles_of_task(plan, task) * KEY_TILE, keys = gyre_adaptive_keys_padded(plan);
    gyre_adaptive_buffers b;
    gyre_adaptive_job(plan, call->scratch, job, &b);
    gyre_adaptive_network_begin(&b);
    clear_sums(plan, &b.sums);
    for (int64_t h = 0; h < plan->key_heads; h++) {
        memset(b.sums.dk + h * keys * plan->head_pad, 0, (size_t)(seen * plan->head_pad) * sizeof(float));
        memset(b.sums.dv + h * keys * plan->value_pad, 0, (size_t)(seen * plan->value_pad) * sizeof(float));
    }
    for (int64_t i = 0; i < task->count; i += ADAPTIVE_ROWS) {
        begin_rows(&b, task->sequence, task->first + i);
        for (int64_t tile = 0; tile < gyre_adaptive_tiles_seen(&b); tile++)
            tile_backward(&b, tile);
        write_queries(&b);
    }
}

/* -- sums over tasks -- */

/* A tile of keys of a head, of dk or of dv. */
typedef struct key_sums {
    float *total;
    const float *part;
    int64_t head, tile, pad;
} key_sums;

static void collect(const gyre_adaptive_plan *plan, const gyre_adaptive_task *task, const key_sums *k, const gyre_view *to) {
    const gyre_call_sequence s = gyre_adaptive_sequence(plan, task->sequence);
    const int64_t n = KEY_TILE * k->pad;
    const int seen = k->tile < tiles_of_task(plan, task);
    if (task->first == 0) memset(k->total, 0, (size_t)n * sizeof(float));
    for (int64_t i = 0; seen && i < n; i++)
        k->total[i] += k->part[i];
    if (task->first + task->count < s.queries) return;
    for (int64_t j = 0, key = k->tile * KEY_TILE; j < KEY_TILE && key < s.keys; j++, key++)
        gyre_store_row(k->total + j * k->pad, to->shape[3], gyre_view_at(to, s.batch, s.key + key, k->head, 0), to->dtype,
                       to->stride[3]);
}

/* A tile of keys of a key head, over the tasks of a wave in their order. */
static void collect_keys(void *arg, int64_t index) {
    const gradient_call *call = arg;
    const gyre_adaptive_plan *plan = call->plan;
    const gyre_adaptive_gradients *to = plan->gradients;
    const gyre_adaptive_sums *totals = &call->totals.sums;
    const int64_t at = index * KEY_TILE, head = index / plan->most_keys, tile = index % plan->most_keys;
    for (int64_t i = 0; i < call->count; i++) {
        gyre_adaptive_buffers b;
        gyre_adaptive_job(plan, call->scratch, i, &b);
        const key_sums dk = {totals->dk + at * plan->head_pad, b.sums.dk + at * plan->head_pad, head, tile, plan->head_pad};
        const key_sums dv = {totals->dv + at * plan->value_pad, b.sums.dv + at * plan->value_pad, head, tile,
                             plan->value_pad};
        if (to->dk.data) collect(plan, &call->totals.tasks[i], &dk, &to->dk);
        if (to->dv.data) collect(plan, &call->totals.tasks[i], &dv, &to->dv);
    }
}

static void collect_sums(const gradient_call *call) {
    sum_range totals[SUM_RANGES], parts[SUM_RANGES];
    list_sums(call->plan, &call->totals.sums, totals);
    for (int64_t job = 0; job < call->count; job++) {
        gyre_adaptive_buffers b;
        gyre_adaptive_job(call->plan, call->scratch, job, &b);
        list_sums(call->plan, &b.sums, parts);
        for (int i = 0; i < SUM_RANGES; i++)
            for (int64_t n = 0; n < totals[i].count; n++)
                totals[i].sums[n] += parts[i].sums[n];
    }
}

/* view[0][0][r][c] += sums[r * stride + c * step]. */
static void add_sums(const gyre_view *view, const double *sums, int64_t stride, int64_t step) {
    for (int64_t r = 0; view->data && r < view->shape[2]; r++)
        for (int64_t c = 0; c < view->shape[3]; c++)
            gyre_view_add(view, 0, 0, r, c, sums[r * stride + c * step]);
}

/* -- the call -- */

/* Queries of a sequence that the next task begins with. */
typedef struct cursor {
    int64_t sequence, first;
} cursor;

/* Lists the tasks of a wave.  out = how many. */
static int64_t list_tasks(const gyre_adaptive_plan *plan, cursor *next, gyre_adaptive_task *tasks) {
    int64_t count = 0;
    while (count < plan->jobs && next->sequence < plan->sequences) {
        const int64_t left = gyre_adaptive_sequence(plan, next->sequence).queries - next->first;
        if (left > 0)
            tasks[count++] = (gyre_adaptive_task){next->sequence, next->first, left < GRADIENT_ROWS ? left : GRADIENT_ROWS};
        next->first += GRADIENT_ROWS;
        if (left <= GRADIENT_ROWS) *next = (cursor){next->sequence + 1, 0};
    }
    return count;
}

void gyre_adaptive_gradient_run(void *call, char *scratch, const gyre_exec *exec) {
    const gyre_adaptive_plan *plan = &((gyre_adaptive_call *)call)->plan;
    const gyre_adaptive_gradients *to = plan->gradients;
    const gyre_adaptive_args *args = plan->args;
    gyre_adaptive_weights weights;
    gradient_call run = {.plan = plan, .scratch = scratch};
    cursor next = {0, 0};
    gyre_adaptive_shared(plan, scratch, &weights, &run.totals);
    gyre_adaptive_weights_fill(plan, scratch);
    clear_sums(plan, &run.totals.sums);
    if (args->k_first || args->k_end || args->q_starts || args->q.shape[1] == 0) {
        gyre_view_clear(&to->dk); /* of keys that are padding, and of sequences without a query */
        gyre_view_clear(&to->dv);
    }
    while ((run.count = list_tasks(plan, &next, run.totals.tasks)) > 0) {
        gyre_parallel(exec, run_task, &run, run.count);
        gyre_parallel(exec, collect_keys, &run, plan->key_heads * plan->most_keys);
        collect_sums(&run);
    }
    const gyre_adaptive_sums *sums = &run.totals.sums;
    add_sums(&to->dhidden_weights, sums->dhidden, plan->inputs, 1);
    add_sums(&to->dhidden_bias, sums->dhidden_bias, 0, 1);
    add_sums(&to->doutput_weights, sums->doutput, plan->width + 1, 1);
    add_sums(&to->doutput_bias, sums->doutput + plan->width, 0, plan->width + 1);
    add_sums(&to->dtable, sums->dtable, plan->heads, 1);
}
