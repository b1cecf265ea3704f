/* forward.c: gyre_attention, an online softmax over tiles of keys (Milakov and Gimelshein 2018, arXiv 1805.02867;
 * Dao et al. 2022, arXiv 2205.14135).
 *
 * A row keeps its largest score so far, the sum of exp(score - largest) and the weighted sum of values; when a tile brings a
 * larger score, the two sums shrink by exp(old - new). */
#include "attention/sinks.h"
#include "attention/tables.h"
#include "attention/tiles.h"
#include "attention/turns.h"
#include "core/view.h"
#include <math.h>
#include <string.h>

/* Cleared by a factor of 0, which an infinity would survive as a NaN.  (A NaN among the weights lives on in their sum.) */
static void shrink_row(const gyre_attention_plan *plan, float *row, float factor) {
    if (factor == 0)
        memset(row, 0, (size_t)plan->value_pad * sizeof *row);
    else
        plan->kernels->scale_row_f32(row, plan->value_pad, factor);
}

/* scores -> weights of one tile, the rows' sums brought to their new largest score. */
static void update_softmax(const gyre_attention_plan *plan, gyre_query_side *q, const gyre_meeting *meeting) {
    for (int64_t i = 0; i < q->count; i++) {
        float *row = q->scores + i * KEY_TILE, top, sum;
        plan->kernels->max_row_f32(row, meeting->columns, &top);
        if (top > q->top[i]) {
            const float shrink = expf(q->top[i] - top);
            shrink_row(plan, q->out_rows + i * plan->value_pad, shrink);
            q->sum[i] *= shrink;
            q->top[i] = top;
        }
        /* a row that has seen nothing yet: any shift keeps its weights at 0 */
        plan->kernels->exp_row_f32(row, meeting->columns, q->top[i] == -INFINITY ? 0 : q->top[i], &sum);
        q->sum[i] += sum;
    }
}

static void add_values(const gyre_attention_plan *plan, const gyre_key_side *keys, gyre_query_side *q,
                       const gyre_meeting *meeting) {
    const gyre_matmul product = {.m = q->count,
                                 .n = plan->value_pad,
                                 .k = meeting->count,
                                 .a = q->scores,
                                 .a_row = KEY_TILE,
                                 .a_col = 1,
                                 .b = keys->v_rows + (meeting->held * KEY_TILE + meeting->first) * plan->value_pad,
                                 .b_row = plan->value_pad,
                                 .c = q->out_rows,
                                 .c_row = plan->value_pad,
                                 .accumulate = 1};
    gyre_tiles_weigh(plan, &product, meeting->keys->v_finite);
}

static void write_rows(const gyre_attention_plan *plan, const gyre_rows *rows, gyre_query_side *q) {
    const gyre_view *lse = &plan->args->lse;
    for (int64_t i = 0; i < q->count; i++) {
        const gyre_row_end end = gyre_row_close(plan, rows->head, (double)q->top[i], q->sum[i], q->bias[i]);
        shrink_row(plan, q->out_rows + i * plan->value_pad, (float)end.share);
        if (!lse->data) continue;
        const int64_t at = rows->batch * lse->stride[0] + (rows->first + i) * lse->stride[1] + rows->head * lse->stride[2];
        ((float *)lse->data)[at] = (float)(q->bias[i] + end.weighs);
    }
    gyre_rows_write(&plan->args->out, rows, q->out_rows, plan->value_pad);
}

static int values_finite(const gyre_attention_plan *plan, const gyre_key_side *keys, gyre_query_side *q) {
    gyre_meeting meeting;
    if (plan->table.value && !gyre_tables_values_finite(plan, q)) return 0;
    for (int64_t t = 0; t < plan->key_tiles; t++)
        if (gyre_tiles_meet(plan, keys, q, t, &meeting) && !meeting.keys->v_finite) return 0;
    return 1;
}

/* One tile of queries of one head against all keys. */
static void attend(const gyre_attention_plan *plan, const gyre_key_side *keys, const gyre_rows *rows, gyre_query_side *q) {
    gyre_query_side_fill(plan, keys, rows, q);
    memset(q->out_rows, 0, (size_t)(q->count * plan->value_pad) * sizeof(float));
    for (int64_t i = 0; i < q->count; i++)
        q->top[i] = -INFINITY, q->sum[i] = 0;
    /* An infinite or NaN value must not meet a weight that is 0 in the end: with the largest score known, none shrinks. */
    if (!values_finite(plan, keys, q)) gyre_tiles_largest(plan, keys, q);
    for (int64_t t = 0; t < plan->key_tiles; t++) {
        gyre_meeting meeting;
        if (!gyre_tiles_meet(plan, keys, q, t, &meeting)) continue;
        gyre_tiles_score(plan, keys, q, &meeting);
        update_softmax(plan, q, &meeting);
        add_values(plan, keys, q, &meeting);
        if (plan->table.value) gyre_tables_add_values(plan, q, &meeting);
    }
    write_rows(plan, rows, q);
}

/* Query tile `index` of an item, counted over the heads of its group. */
static void attend_part(const gyre_attention_plan *plan, int64_t item, int64_t index, const gyre_key_side *keys,
                        gyre_query_side *q) {
    const int64_t first = index % plan->query_tiles * plan->tile_rows, left = plan->queries - first;
    const int64_t head = item % plan->key_heads * plan->group + index / plan->query_tiles;
    const gyre_rows rows = {item / plan->key_heads, head, first, left < plan->tile_rows ? left : plan->tile_rows};
    attend(plan, keys, &rows, q);
}

/* -- jobs: whole items ---------------------------------------------------------------------------------------------- */
static void run_items(void *arg, int64_t job) {
    gyre_attention_call *call = arg;
    const gyre_attention_plan *plan = call->plan;
    gyre_key_side keys;
    gyre_query_side queries;
    gyre_table_side tables;
    gyre_key_side_place(plan, gyre_side_memory(call, job), &keys);
    gyre_query_side_place(plan, gyre_job_memory(call, job), &queries, &tables);
    for (int64_t item; (item = atomic_fetch_add(&call->next, 1)) < call->tasks;) {
        gyre_key_side_fill(plan, item, 0, plan->key_tiles, &keys, &queries);
        for (int64_t i = 0; i < plan->group * plan->query_tiles; i++)
            attend_part(plan, item, i, &keys, &queries);
    }
}

/* -- jobs: items laid out first, then their query tiles ------------------------------------------------------------ */

/* Key tiles per task: few tasks, since each looks at all query positions once. */
static int64_t fill_share(const gyre_attention_plan *plan) {
    return (plan->key_tiles + plan->jobs - 1) / plan->jobs;
}

static void run_fills(void *arg, int64_t job) {
    gyre_attention_call *call = arg;
    const gyre_attention_plan *plan = call->plan;
    const int64_t share = fill_share(plan);
    gyre_query_side work;
    gyre_table_side tables;
    gyre_query_side_place(plan, gyre_job_memory(call, job), &work, &tables);
    for (int64_t task; (task = atomic_fetch_add(&call->next, 1)) < call->tasks;) {
        const int64_t item = task / plan->jobs, begin = task % plan->jobs * share, end = begin + share;
        gyre_key_side keys;
        gyre_key_side_place(plan, gyre_side_memory(call, item), &keys);
        gyre_key_side_fill(plan, item, begin, end < plan->key_tiles ? end : plan->key_tiles, &keys, &work);
    }
}

static void run_parts(void *arg, int64_t job) {
    gyre_attention_call *call = arg;
    const gyre_attention_plan *plan = call->plan;
    const int64_t parts = plan->group * plan->query_tiles;
    gyre_query_side queries;
    gyre_table_side tables;
    gyre_query_side_place(plan, gyre_job_memory(call, job), &queries, &tables);
    for (int64_t task; (task = atomic_fetch_add(&call->next, 1)) < call->tasks;) {
        gyre_key_side keys;
        gyre_key_side_place(plan, gyre_side_memory(call, task / parts), &keys);
        attend_part(plan, task / parts, parts - 1 - task % parts, &keys, &queries); /* the longest causal rows first */
    }
}

static void run(gyre_attention_call *call, const gyre_exec *exec, void (*job)(void *, int64_t), int64_t tasks) {
    atomic_store(&call->next, 0);
    call->tasks = tasks;
    gyre_parallel(exec, job, call, call->plan->jobs);
}

gyre_status gyre_attention(const gyre_attention_args *args, void *scratch, size_t bytes, const gyre_exec *exec) {
    gyre_attention_plan plan;
    gyre_status status = gyre_attention_plan_make(&plan, args, 0, exec);
    if (status || gyre_view_elements(args->out.shape) == 0) return status;
    status = gyre_attention_plan_check(&plan, scratch, bytes);
    if (status) return status;
    gyre_turns_place(&plan, scratch);
    gyre_turns_prepare(&plan, exec);
    gyre_attention_call call = {.plan = &plan, .scratch = scratch};
    if (plan.split) {
        run(&call, exec, run_fills, plan.items * plan.jobs);
        run(&call, exec, run_parts, plan.items * plan.group * plan.query_tiles);
    } else {
        run(&call, exec, run_items, plan.items);
    }
    return GYRE_OK;
}
