/* weights.c: attention weights written down. */
#include "attention/weights.h"
#include "core/view.h"

#include <math.h>
#include <string.h>

/* -- a call ------------------------------------------------------------------------------------------------------------ */

static void clear_query(void *arg, int64_t index) {
    const gyre_view *view = arg;
    const int64_t keys = view->shape[3], step = view->stride[3];
    for (int64_t h = 0; h < view->shape[2]; h++) {
        float *row = gyre_view_at(view, index / view->shape[1], index % view->shape[1], h, 0);
        if (step == 1)
            memset(row, 0, (size_t)keys * sizeof *row);
        else
            for (int64_t j = 0; j < keys; j++)
                row[j * step] = 0;
    }
}

void gyre_weights_clear(const gyre_attention_args *args, const gyre_exec *exec) {
    gyre_view view = args->weights;
    if (view.data) gyre_parallel(exec, clear_query, &view, view.shape[0] * view.shape[1]);
}

int64_t gyre_weights_tiles(const gyre_attention_plan *plan, int64_t *first) {
    const gyre_attention_args *args = plan->args;
    *first = 0;
    if (!args->weights.data || args->weights.shape[1] == 0) return 0;
    *first = args->weights_first / plan->tile_rows;
    return (args->weights_first + args->weights.shape[1] - 1) / plan->tile_rows - *first + 1;
}

/* -- a meeting --------------------------------------------------------------------------------------------------------- */

/* scores -> exp(score - top); out = their sum.  A row that has seen nothing: any shift keeps its weights at 0. */
static float exponentials(const gyre_attention_plan *plan, gyre_query_side *q, const gyre_meeting *meeting, int64_t i) {
    float sum;
    plan->kernels->exp_row_f32(q->scores + i * KEY_TILE, meeting->columns, q->top[i] == -INFINITY ? 0 : q->top[i], &sum);
    return sum;
}

void gyre_weights_sum(const gyre_attention_plan *plan, const gyre_key_side *keys, gyre_query_side *q,
                      const gyre_meeting *meeting) {
    gyre_tiles_score(plan, keys, q, meeting);
    for (int64_t i = 0; i < q->count; i++) {
        float top;
        plan->kernels->max_row_f32(q->scores + i * KEY_TILE, meeting->columns, &top);
        if (top > q->top[i]) {
            q->sum[i] *= exp((double)q->top[i] - (double)top);
            q->top[i] = top;
        }
        q->sum[i] += (double)exponentials(plan, q, meeting, i);
    }
}

/* Row i of the meeting, times `share`.  0 stays so, even in a row whose sum is a NaN. */
static void put_row(const gyre_query_side *q, const gyre_meeting *meeting, int64_t i, float share, const gyre_view *view,
                    int64_t query) {
    const float *row = q->scores + i * KEY_TILE;
    float *to = gyre_view_at(view, q->batch, query, q->head, meeting->tile * KEY_TILE + meeting->first);
    for (int64_t j = 0; j < meeting->count; j++)
        to[j * view->stride[3]] = row[j] == 0 ? 0 : row[j] * share;
}

void gyre_weights_put(const gyre_attention_plan *plan, const gyre_key_side *keys, gyre_query_side *q,
                      const gyre_meeting *meeting) {
    const gyre_attention_args *args = plan->args;
    gyre_tiles_score(plan, keys, q, meeting);
    for (int64_t i = 0; i < q->count; i++) {
        const int64_t query = q->first + i - args->weights_first;
        if (query < 0 || query >= args->weights.shape[1]) continue;
        const gyre_row_state state = {q->top[i], q->sum[i], q->bias[i], NULL};
        exponentials(plan, q, meeting, i);
        put_row(q, meeting, i, gyre_row_finish(plan, q->head, &state).share, &args->weights, query);
    }
}
