/* backward_tiles.c: the gradient of one item.  With p the softmax weights, recomputed from the scores and the log-sum-exp,
 *
 *     dv_n = sum_m p_mn dout_m            ds_mn = p_mn (dout_m . v_n - delta_m),   delta_m = dout_m . out_m
 *     dE(m)q_m = scale sum_n ds_mn E(n)k_n,   dE(n)k_n = scale sum_m ds_mn E(m)q_m
 *
 * and the adjoint of E leads back to the raw q and k.  Under dropout the two products with dout take what is left of the
 * weights, p'_mn = p_mn / (1 - chance) or 0, for p_mn: dv_n = sum_m p'_mn dout_m, and ds_mn = p'_mn dout_m . v_n - p_mn
 * delta_m, delta as before.  Under a softcap ds is multiplied by its slope.  A score that no key has (sink_logits) is in the
 * log-sum-exp and nowhere else.  Queries come in one order, so every sum has one order. */
#include "attention/backward.h"
#include "attention/dropout.h"
#include "attention/sight.h"
#include "attention/tables.h"
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

/* Adds the score that no key has to the sums of the rows, which their largest score comes to have. */
static void add_sink(const gyre_attention_plan *plan, gyre_query_side *q) {
    const double sink = (double)gyre_sink_logit(plan, q->head);
    for (int64_t i = 0; sink != -INFINITY && i < q->count; i++) {
        const double score = sink - q->bias[i], top = (double)q->top[i];
        if (score <= top)
            q->sum[i] += exp(score - top);
        else
            q->sum[i] = 1 + q->sum[i] * exp(top - score), q->top[i] = (float)score;
    }
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
    add_sink(plan, q);
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
    if (plan->relative) {
        gyre_tables_take_up(plan, q);
        gyre_tables_begin_queries(plan, q);
    }
}

/* A row whose log-sum-exp is a NaN: so are the weights of the keys that it sees, and no others. */
static void poison(float *scores, int64_t n) {
    for (int64_t j = 0; j < n; j++)
        scores[j] = scores[j] == -INFINITY ? 0 : NAN;
}

/* p -> p', dp -> what ds is made of. */
static void drop(const gyre_attention_plan *plan, const gyre_query_side *q, const gyre_meeting *meeting, int64_t i, float *p,
                 float *dp) {
    const gyre_dropout dropout = {plan->args->dropout, plan->args->seed, plan->kernels};
    const gyre_dropout_block block = {.sequence = plan->pass->sequence + q->batch,
                                      .head = q->head,
                                      .query = plan->pass->query_first + q->first + i,
                                      .rows = 1,
                                      .key = plan->pass->key_first + meeting->tile * KEY_TILE + meeting->first,
                                      .count = meeting->count};
    gyre_dropout_apply_both(&dropout, &block, p, dp, KEY_TILE);
}

/* Row i: scores -> p (p' under dropout), dp -> ds. */
static void differentiate_row(const gyre_attention_plan *plan, gyre_query_side *q, const gyre_meeting *meeting, int64_t i) {
    float *p = q->scores + i * KEY_TILE, *dp = q->dscores + i * KEY_TILE, *kept = p, whole[KEY_TILE], sum;
    if (isnan(q->top[i]))
        poison(p, meeting->columns);
    else
        plan->kernels->exp_row_f32(p, meeting->columns, q->top[i], &sum);
    if (plan->args->dropout > 0) {
        memcpy(whole, p, (size_t)meeting->columns * sizeof *p);
        kept = whole;
        drop(plan, q, meeting, i, p, dp);
    }
    plan->kernels->softmax_gradient_row_f32(kept, dp, meeting->columns, q->delta[i]);
    const float *restrict slope = q->cap_slope ? q->cap_slope + i * KEY_TILE : NULL;
    for (int64_t j = 0; slope && j < meeting->columns; j++)
        dp[j] *= slope[j];
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
    for (int64_t i = 0; i < q->count; i++)
        differentiate_row(plan, q, meeting, i);
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

static void differentiate(const gyre_attention_plan *plan, gyre_key_side *keys, gyre_query_side *q,
                          const gyre_meeting *meeting) {
    const query_rows to_values = {q->dout_rows, plan->value_pad, q->dout_finite};
    if (plan->relative) gyre_tables_take_up(plan, q);
    gyre_tiles_score(plan, keys, q, meeting);
    weights(plan, keys, q, meeting);
    add_to_keys(plan, q, meeting, q->scores, to_values, keys->dv_rows);
    if (plan->relative) gyre_tables_differentiate(plan, keys, q, meeting);
    add_products(plan, keys, q, meeting);
}

/* The tile has met all keys: its dq. */
static void finish_queries(const gyre_attention_call *call, const gyre_rows *rows, gyre_query_side *q) {
    const gyre_attention_plan *plan = call->plan;
    if (plan->relative) {
        gyre_tables_take_up(plan, q);
        gyre_tables_end_queries(plan, q);
    }
    /* q_rows, and with them dk, had the scale from the start */
    for (int64_t i = 0; i < q->count; i++)
        for (int far = 0; far <= plan->turn.far; far++)
            plan->kernels->scale_row_f32(q->dq_rows[far] + i * plan->head_pad, plan->head_pad, q->scale[i]);
    turn_back(plan, GYRE_QUERY, rows, q->dq_rows);
    gyre_rows_write(plan, &call->dqkv[0], rows, q->dq_rows[0], plan->head_pad);
}

/* -- an item --------------------------------------------------------------------------------------------------------- */

/* Biases of the query have memory for one tile under way. */
static int64_t tiles_at_once(const gyre_attention_plan *plan) {
    return plan->table.content || plan->table.position ? 1 : TILES_AT_ONCE;
}

size_t gyre_gradient_job_place(const gyre_attention_plan *plan, char *memory, gyre_gradient_job *job) {
    gyre_arena a = {memory, 0};
    gyre_query_side shared = {0};
    gyre_query_work_place(plan, &a, &shared, job ? &job->tables : NULL);
    for (int64_t i = 0; i < tiles_at_once(plan); i++) {
        gyre_query_side *own = job ? &job->q[i] : &shared; /* large: not to be copied for a count */
        if (job) *own = shared;
        gyre_query_rows_place(plan, &a, own);
    }
    return a.used;
}

/* Tile `index` of the query tiles of all heads of an item.  Tables keep what they know of one head, so there the tiles of a
 * head come one after the other; else heads do, whose tiles meet the same keys. */
static gyre_rows rows_of_tile(const gyre_attention_plan *plan, int64_t item, int64_t index) {
    const int64_t head = plan->relative ? index / plan->query_tiles : index % plan->group;
    const int64_t tile = plan->relative ? index % plan->query_tiles : index / plan->group;
    const int64_t first = tile * plan->tile_rows, left = plan->queries - first;
    return (gyre_rows){item / plan->key_heads, item % plan->key_heads * plan->group + head, first,
                       left < plan->tile_rows ? left : plan->tile_rows};
}

/* *count tiles from `index` on, of one head where there are tables. */
static int64_t take_tiles(const gyre_attention_plan *plan, int64_t item, int64_t index, gyre_rows *rows) {
    const int64_t all = plan->group * plan->query_tiles, most = tiles_at_once(plan);
    int64_t count = 0;
    for (; count < most && index + count < all; count++) {
        rows[count] = rows_of_tile(plan, item, index + count);
        if (plan->relative && rows[count].head != rows[0].head) break;
    }
    return count;
}

/* Tiles of queries from `index` on against all keys; out = how many. */
static int64_t differentiate_tiles(const gyre_attention_call *call, int64_t item, int64_t index, gyre_key_side *keys,
                                   gyre_gradient_job *job) {
    const gyre_attention_plan *plan = call->plan;
    gyre_rows rows[TILES_AT_ONCE];
    const int64_t count = take_tiles(plan, item, index, rows);
    for (int64_t i = 0; i < count; i++)
        fill_queries(call, keys, &rows[i], &job->q[i]);
    for (int64_t t = 0; t < plan->key_tiles; t++)
        for (int64_t i = 0; i < count; i++) {
            gyre_meeting meeting;
            if (gyre_tiles_meet(plan, keys, &job->q[i], t, &meeting)) differentiate(plan, keys, &job->q[i], &meeting);
        }
    for (int64_t i = 0; i < count; i++)
        finish_queries(call, &rows[i], &job->q[i]);
    return count;
}

/* 1: the pass has something to say about tile t: it is the first to have these keys, or some query sees them. */
static int matters(const gyre_attention_plan *plan, const gyre_key_side *keys, gyre_span seen, int64_t t) {
    return !plan->pass->again || gyre_span_meets(seen, keys->tiles[t].least, keys->tiles[t].most);
}

static void clear_keys(const gyre_attention_plan *plan, const gyre_key_side *keys, int64_t t) {
    const size_t head = (size_t)(KEY_TILE * plan->head_pad), value = (size_t)(KEY_TILE * plan->value_pad);
    for (int far = 0; far <= plan->turn.far; far++)
        memset(keys->dk_rows[far] + (size_t)t * head, 0, head * sizeof(float));
    memset(keys->dv_rows + (size_t)t * value, 0, value * sizeof(float));
}

/* To the caller, with what earlier passes left, which are floats. */
static void write_rows(const gyre_attention_plan *plan, const gyre_view *view, const gyre_rows *rows, float *restrict from,
                       int64_t pad, float *restrict before) {
    const gyre_cview left = gyre_const(*view);
    if (plan->pass->again) {
        gyre_rows_read(plan, &left, rows, before, pad);
        for (int64_t i = 0; i < rows->count * pad; i++)
            from[i] += before[i];
    }
    gyre_rows_write(plan, view, rows, from, pad);
}

static void finish_keys(const gyre_attention_call *call, int64_t item, int64_t t, const gyre_key_side *keys, float *work) {
    const gyre_attention_plan *plan = call->plan;
    const int64_t at = t * KEY_TILE, head = plan->head_pad, value = plan->value_pad;
    const gyre_rows rows = {item / plan->key_heads, item % plan->key_heads, at, keys->tiles[t].count};
    float *const dk[2] = {keys->dk_rows[0] + at * head, plan->turn.far ? keys->dk_rows[1] + at * head : NULL};
    turn_back(plan, GYRE_KEY, &rows, dk);
    write_rows(plan, &call->dqkv[1], &rows, dk[0], head, work);
    write_rows(plan, &call->dqkv[2], &rows, keys->dv_rows + at * value, value, work);
}

void gyre_gradient_of_item(const gyre_attention_call *call, int64_t item, gyre_key_side *keys, gyre_gradient_job *job) {
    const gyre_attention_plan *plan = call->plan;
    const gyre_span seen = gyre_seen_by_batch(plan, item / plan->key_heads);
    gyre_key_side_fill(plan, item, keys, &job->q[0]);
    if (plan->relative) gyre_tables_clear(plan, &job->q[0]);
    for (int64_t t = 0; t < plan->key_tiles; t++)
        if (matters(plan, keys, seen, t)) clear_keys(plan, keys, t);
    for (int64_t i = 0; i < plan->group * plan->query_tiles;)
        i += differentiate_tiles(call, item, i, keys, job);
    for (int64_t t = 0; t < plan->key_tiles; t++)
        if (matters(plan, keys, seen, t)) finish_keys(call, item, t, keys, job->q[0].key_rows);
}
