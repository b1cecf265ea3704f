/* backward.c: gyre_attention_gradient.  With p the softmax weights, recomputed from the scores and the log-sum-exp,
 *
 *     dv_n = sum_m p_mn dout_m            ds_mn = p_mn (dout_m . v_n - delta_m),   delta_m = dout_m . out_m
 *     dE(m)q_m = scale sum_n ds_mn E(n)k_n,   dE(n)k_n = scale sum_m ds_mn E(m)q_m
 *
 * and the adjoint of E leads back to the raw q and k.  Queries come in one order, so every sum has one order. */
#include "attention/tables.h"
#include "attention/tiles.h"
#include "attention/turns.h"
#include "core/view.h"
#include <math.h>
#include <string.h>

/* Turns gradients of E(m)x, near and far, into those of x, in x[0]. */
static void turn_back(const gyre_attention_plan *plan, gyre_role role, const gyre_rows *rows, float *const x[2]) {
    for (int far = 0; far <= plan->turn.far; far++) {
        const gyre_turned how = {role, far, 1};
        gyre_turns_apply(plan, rows, &how, x[far]);
    }
    for (int64_t i = 0; plan->turn.far && i < rows->count * plan->head_pad; i++)
        x[0][i] += x[1][i];
}

/* top = log-sum-exp of the scores, relative to the row's bias as they are. */
static void sum_again(const gyre_attention_plan *plan, const gyre_key_side *keys, gyre_query_side *q) {
    gyre_tiles_largest(plan, keys, q);
    memset(q->sum, 0, sizeof q->sum);
    for (int64_t t = 0; t < plan->key_tiles; t++) {
        gyre_meeting meeting;
        if (!gyre_tiles_meet(plan, keys, q, t, &meeting)) continue;
        gyre_tiles_score(plan, keys, q, &meeting);
        for (int64_t i = 0; i < q->count; i++) {
            float sum;
            plan->kernels->exp_row_f32(q->scores + i * KEY_TILE, meeting.columns, q->top[i] == -INFINITY ? 0 : q->top[i],
                                       &sum);
            q->sum[i] += (double)sum;
        }
    }
    for (int64_t i = 0; i < q->count; i++)
        q->top[i] = (float)((double)q->top[i] + log(q->sum[i]));
}

/* The lse that the caller kept is right to a float.  Where a bias that all keys of a row have in common takes up its digits,
 * too few are left for the weights, and the row is summed again without that bias. */
static void fill_tops(const gyre_attention_plan *plan, const gyre_key_side *keys, const gyre_rows *rows,
                      gyre_query_side *q) {
    const gyre_view *lse = &plan->args->lse;
    int biased = 0;
    for (int64_t i = 0; i < q->count; i++)
        biased |= q->bias[i] != 0;
    if (biased) sum_again(plan, keys, q);
    for (int64_t i = 0; i < q->count; i++) {
        const int64_t at = rows->batch * lse->stride[0] + (rows->first + i) * lse->stride[1] + rows->head * lse->stride[2];
        if (q->bias[i] == 0) q->top[i] = ((const float *)lse->data)[at];
        if (q->top[i] == -INFINITY) q->top[i] = 0; /* no key is seen: any shift keeps the weights at 0 */
    }
}

static void fill_queries(const gyre_attention_call *call, const gyre_key_side *keys, const gyre_rows *rows,
                         gyre_query_side *q) {
    const gyre_attention_plan *plan = call->plan;
    const gyre_cview out = gyre_const(plan->args->out);
    gyre_query_side_fill(plan, keys, rows, q);
    fill_tops(plan, keys, rows, q);
    gyre_rows_read(plan, call->dout, rows, q->dout_rows, plan->value_pad);
    gyre_rows_read(plan, &out, rows, q->out_rows, plan->value_pad);
    q->q_finite = 1;
    for (int far = 0; far <= plan->turn.far; far++) {
        int finite;
        plan->kernels->finite_row_f32(q->q_rows[far], q->count * plan->head_pad, &finite);
        q->q_finite &= finite;
        memset(q->dq_rows[far], 0, (size_t)(q->count * plan->head_pad) * sizeof(float));
    }
    plan->kernels->finite_row_f32(q->dout_rows, q->count * plan->value_pad, &q->dout_finite);
    for (int64_t i = 0; i < q->count; i++) {
        const float *dout = q->dout_rows + i * plan->value_pad;
        plan->kernels->dot_row_f32(dout, q->out_rows + i * plan->value_pad, plan->value_pad, &q->delta[i]);
    }
    if (plan->relative) gyre_tables_begin_queries(plan, q);
}

/* A row whose log-sum-exp is a NaN: so are the weights of the keys that it sees, and no others. */
static void poison(float *scores, int64_t n) {
    for (int64_t j = 0; j < n; j++)
        scores[j] = scores[j] == -INFINITY ? 0 : NAN;
}

/* scores -> p, dscores -> ds. */
static void weights(const gyre_attention_plan *plan, const gyre_key_side *keys, gyre_query_side *q,
                    const gyre_meeting *meeting) {
    const gyre_matmul product = {.m = q->count,
                                 .n = meeting->columns,
                                 .k = plan->value_pad,
                                 .a = q->dout_rows,
                                 .a_row = plan->value_pad,
                                 .a_col = 1,
                                 .b = keys->v_columns + meeting->tile * KEY_TILE * plan->value_pad + meeting->first,
                                 .b_row = KEY_TILE,
                                 .c = q->dscores,
                                 .c_row = KEY_TILE};
    plan->kernels->matmul_f32(&product);
    if (plan->table.value) gyre_tables_dweights(plan, q, meeting);
    for (int64_t i = 0; i < q->count; i++) {
        float *p = q->scores + i * KEY_TILE, *dp = q->dscores + i * KEY_TILE, sum;
        if (isnan(q->top[i]))
            poison(p, meeting->columns);
        else
            plan->kernels->exp_row_f32(p, meeting->columns, q->top[i], &sum);
        plan->kernels->softmax_gradient_row_f32(p, dp, meeting->columns, q->delta[i]);
    }
}

typedef struct query_rows {
    const float *rows;
    int64_t pad;
    int finite;
} query_rows;

/* to[key] += sum over queries of weights[query][key] rows[query]. */
static void add_to_keys(const gyre_attention_plan *plan, const gyre_query_side *q, const gyre_meeting *meeting,
                        const float *weight, query_rows from, float *to) {
    const gyre_matmul product = {.m = meeting->count,
                                 .n = from.pad,
                                 .k = q->count,
                                 .a = weight,
                                 .a_row = 1,
                                 .a_col = KEY_TILE,
                                 .b = from.rows,
                                 .b_row = from.pad,
                                 .c = to + (meeting->tile * KEY_TILE + meeting->first) * from.pad,
                                 .c_row = from.pad,
                                 .accumulate = 1};
    gyre_tiles_weigh(plan, &product, from.finite);
}

/* dq += sum over keys of dscores[query][key] k[key]; near keys of xPos through what fades between the tiles. */
static void add_to_queries(const gyre_attention_plan *plan, const gyre_key_side *keys, const gyre_query_side *q,
                           const gyre_meeting *meeting, int far, const float *dscores) {
    const int fades = plan->turn.fades && !far;
    const gyre_matmul product = {.m = q->count,
                                 .n = plan->head_pad,
                                 .k = meeting->count,
                                 .a = dscores,
                                 .a_row = KEY_TILE,
                                 .a_col = 1,
                                 .b = keys->k_rows[far] + (meeting->tile * KEY_TILE + meeting->first) * plan->head_pad,
                                 .b_row = plan->head_pad,
                                 .c = fades ? q->faded_rows : q->dq_rows[far],
                                 .c_row = plan->head_pad,
                                 .accumulate = !fades};
    gyre_tiles_weigh(plan, &product, meeting->keys->k_finite);
    for (int64_t i = 0; fades && i < q->count; i++)
        for (int64_t c = 0; c < plan->head_pad; c++)
            q->dq_rows[0][i * plan->head_pad + c] += q->fade[c] * q->faded_rows[i * plan->head_pad + c];
}

/* ds reaches the keys and the queries as they were turned. */
static void add_products(const gyre_attention_plan *plan, gyre_key_side *keys, gyre_query_side *q,
                         const gyre_meeting *meeting) {
    const int64_t *positions = keys->positions + meeting->tile * KEY_TILE + meeting->first;
    const float *far_scores = q->dscores;
    if (meeting->near && meeting->far) {
        gyre_turns_divide(plan, positions, q, meeting);
        far_scores = q->far_scores;
    }
    if (meeting->near) {
        const query_rows rows = {q->seen_rows, plan->head_pad, q->q_finite};
        add_to_keys(plan, q, meeting, q->dscores, rows, keys->dk_rows[0]);
        add_to_queries(plan, keys, q, meeting, 0, q->dscores);
    }
    if (meeting->far) {
        const query_rows rows = {q->q_rows[1], plan->head_pad, q->q_finite};
        add_to_keys(plan, q, meeting, far_scores, rows, keys->dk_rows[1]);
        add_to_queries(plan, keys, q, meeting, 1, far_scores);
    }
}

/* One tile of queries of one head: its dq, and its part of the item's dk and dv. */
static void differentiate(const gyre_attention_call *call, gyre_key_side *keys, const gyre_rows *rows, gyre_query_side *q) {
    const gyre_attention_plan *plan = call->plan;
    fill_queries(call, keys, rows, q);
    const query_rows to_values = {q->dout_rows, plan->value_pad, q->dout_finite};
    for (int64_t t = 0; t < plan->key_tiles; t++) {
        gyre_meeting meeting;
        if (!gyre_tiles_meet(plan, keys, q, t, &meeting)) continue;
        gyre_tiles_score(plan, keys, q, &meeting);
        weights(plan, keys, q, &meeting);
        add_to_keys(plan, q, &meeting, q->scores, to_values, keys->dv_rows);
        if (plan->relative) gyre_tables_differentiate(plan, keys, q, &meeting);
        add_products(plan, keys, q, &meeting);
    }
    if (plan->relative) gyre_tables_end_queries(plan, q);
    /* q_rows, and with them dk, had the scale from the start */
    for (int64_t i = 0; i < q->count; i++)
        for (int far = 0; far <= plan->turn.far; far++)
            plan->kernels->scale_row_f32(q->dq_rows[far] + i * plan->head_pad, plan->head_pad, q->scale[i]);
    turn_back(plan, GYRE_QUERY, rows, q->dq_rows);
    gyre_rows_write(plan, &call->dqkv[0], rows, q->dq_rows[0], plan->head_pad);
}

static void differentiate_item(const gyre_attention_call *call, int64_t item, gyre_key_side *keys, gyre_query_side *q) {
    const gyre_attention_plan *plan = call->plan;
    const int64_t batch = item / plan->key_heads, key_head = item % plan->key_heads;
    const size_t key_rows = (size_t)(plan->key_tiles * KEY_TILE);
    gyre_key_side_fill(plan, item, keys, q);
    if (plan->relative) gyre_tables_clear(plan, q);
    for (int far = 0; far <= plan->turn.far; far++)
        memset(keys->dk_rows[far], 0, key_rows * (size_t)plan->head_pad * sizeof(float));
    memset(keys->dv_rows, 0, key_rows * (size_t)plan->value_pad * sizeof(float));
    for (int64_t i = 0; i < plan->group * plan->query_tiles; i++) {
        const int64_t first = i % plan->query_tiles * plan->tile_rows, left = plan->queries - first;
        const int64_t head = key_head * plan->group + i / plan->query_tiles;
        const gyre_rows rows = {batch, head, first, left < plan->tile_rows ? left : plan->tile_rows};
        differentiate(call, keys, &rows, q);
    }
    const gyre_rows all = {batch, key_head, 0, plan->keys};
    turn_back(plan, GYRE_KEY, &all, keys->dk_rows);
    gyre_rows_write(plan, &call->dqkv[1], &all, keys->dk_rows[0], plan->head_pad);
    gyre_rows_write(plan, &call->dqkv[2], &all, keys->dv_rows, plan->value_pad);
}

static void run_items(void *arg, int64_t job) {
    gyre_attention_call *call = arg;
    gyre_key_side keys;
    gyre_query_side queries;
    gyre_table_side tables;
    gyre_key_side_place(call->plan, gyre_side_memory(call, job), &keys);
    gyre_query_side_place(call->plan, gyre_job_memory(call, job), &queries, &tables);
    for (int64_t item; (item = atomic_fetch_add(&call->next, 1)) < call->tasks;)
        differentiate_item(call, item, &keys, &queries);
}

/* One item a job, so that the parts of the tables' gradients lie side by side and can be added in the order of items. */
static void run_wave(void *arg, int64_t job) {
    gyre_attention_call *call = arg;
    gyre_key_side keys;
    gyre_query_side queries;
    gyre_table_side tables;
    if (call->wave + job >= call->tasks) return;
    gyre_key_side_place(call->plan, gyre_side_memory(call, job), &keys);
    gyre_query_side_place(call->plan, gyre_job_memory(call, job), &queries, &tables);
    differentiate_item(call, call->wave + job, &keys, &queries);
}

gyre_status gyre_attention_gradient(const gyre_attention_args *args, const gyre_cview *dout, const gyre_view dqkv[3],
                                    const gyre_table_gradients *gradients, void *scratch, size_t bytes,
                                    const gyre_exec *exec) {
    gyre_attention_plan plan;
    gyre_pass pass;
    gyre_status status = gyre_attention_args_check(args, NULL);
    if (status) return status;
    gyre_passes_largest(args, NULL, &pass);
    status = gyre_attention_plan_make(&plan, &pass, 1, exec);
    if (status) return status;
    if (!dout || !dqkv) return GYRE_EINVAL;
    const gyre_cview out = gyre_const(args->out), *inputs[3] = {&args->q, &args->k, &args->v};
    int64_t elements = 0;
    status = gyre_attention_same_shape(dout, &out);
    for (int i = 0; i < 3 && !status; i++) {
        const gyre_cview gradient = gyre_const(dqkv[i]);
        status = gyre_attention_same_shape(&gradient, inputs[i]);
        if (!status) status = gyre_output_check(&dqkv[i]);
        elements |= gyre_view_elements(gradient.shape);
    }
    if (status || elements == 0) return status;
    status = gyre_attention_views_check(args, NULL);
    if (!status) status = gyre_attention_plan_check(&plan, scratch, bytes);
    if (!status) status = gyre_tables_gradient_check(&plan, gradients);
    if (status) return status;
    gyre_turns_place(&plan, scratch);
    gyre_turns_prepare(&plan, exec);
    gyre_attention_call call = {.plan = &plan, .scratch = scratch, .dout = dout, .dqkv = dqkv, .gradients = gradients};
    atomic_init(&call.next, 0);
    call.tasks = plan.items;
    if (!plan.relative || !gradients) {
        gyre_parallel(exec, run_items, &call, plan.jobs);
        return GYRE_OK;
    }
    for (; call.wave < call.tasks; call.wave += plan.jobs) {
        gyre_parallel(exec, run_wave, &call, plan.jobs);
        gyre_tables_collect(&call, exec);
    }
    return GYRE_OK;
}
