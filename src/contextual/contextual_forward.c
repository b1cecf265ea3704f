/* contextual_forward.c: attention by an online softmax over tiles of keys, from the last one to the first. */
#include "attention/terms/softmax.h"
#include "contextual/contextual_run.h"
#include "contextual/contextual_tiles.h"
#include "core/convert.h"
#include "core/exec.h"
#include "core/view.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

typedef struct forward_call {
    const gyre_contextual_plan *plan;
    char *scratch;
    atomic_int_least64_t next;
} forward_call;

/* Clears by writing: an infinity times 0 would be a NaN. */
static void rescale(const gyre_contextual_plan *plan, float *row, float factor) {
    if (factor == 0)
        memset(row, 0, (size_t)plan->value_pad * sizeof *row);
    else
        plan->kernels->scale_row_f32(row, plan->value_pad, factor);
}

/* Scores of row r become weights relative to its largest score so far; its sums follow. */
static void softmax_update(gyre_contextual_buffers *b, int64_t r) {
    const gyre_contextual_plan *plan = b->plan;
    float *row = b->keys->scores + r * KEY_TILE, largest, sum;
    plan->kernels->max_row_f32(row, KEY_TILE, &largest);
    if (largest > b->row_max[r]) {
        const float change = b->row_max[r] - largest, shrink = change < GYRE_SMALLEST_WEIGHT_LOG ? 0 : expf(change);
        rescale(plan, b->out_rows + r * plan->value_pad, shrink);
        b->row_sum[r] *= (double)shrink;
        b->row_max[r] = largest;
    }
    plan->kernels->weights_row_f32(row, KEY_TILE, b->row_max[r] == -INFINITY ? 0 : b->row_max[r], &sum);
    b->row_sum[r] += (double)sum;
}

/* Adds infinite and NaN values to the rows that give them weight, and puts zeros in their place: then the product with the
 * others rounds alike for all rows. */
static void take_nonfinite(gyre_contextual_buffers *b, int64_t first_row) {
    const int64_t pad = b->plan->value_pad;
    gyre_contextual_keys *keys = b->keys;
    for (int64_t i = 0; i < KEY_TILE * pad; i++) {
        if (isfinite(keys->v_rows[i])) continue;
        for (int64_t r = first_row; r < b->rows; r++) {
            const float weight = keys->scores[r * KEY_TILE + i / pad];
            if (weight != 0) b->out_rows[r * pad + i % pad] += weight * keys->v_rows[i];
        }
        keys->v_rows[i] = 0;
        keys->has_v = 0; /* the next tile of rows reads them again */
    }
}

static void attend_tile(gyre_contextual_buffers *b, int64_t tile) {
    const gyre_contextual_plan *plan = b->plan;
    const int64_t first = gyre_contextual_first_row(b, tile), pad = plan->value_pad;
    gyre_contextual_keys *keys = b->keys;
    gyre_contextual_row row;
    gyre_contextual_products(b, tile, first);
    for (int64_t r = first; r < b->rows; r++) {
        const int64_t seen = gyre_contextual_seen(b, r, tile), at = r * KEY_TILE;
        b->position[r] = gyre_contextual_count(plan, keys->gate_logits + at, seen, b->position[r], &row);
        gyre_contextual_score(plan, &row, b->z + r * plan->z_pad, seen, keys->scores + at);
        softmax_update(b, r);
    }
    gyre_contextual_values(b, tile);
    if (!gyre_contextual_finite(plan, keys->v_rows, KEY_TILE * pad)) take_nonfinite(b, first);
    const gyre_matmul product = {.m = b->rows - first,
                                 .n = pad,
                                 .k = KEY_TILE,
                                 .a = keys->scores + first * KEY_TILE,
                                 .a_row_stride = KEY_TILE,
                                 .a_col_stride = 1,
                                 .b = keys->v_rows,
                                 .b_row_stride = pad,
                                 .c = b->out_rows + first * pad,
                                 .c_row_stride = pad,
                                 .accumulate = 1};
    plan->kernels->matmul_f32(&product);
}

static void write_row(gyre_contextual_buffers *b, int64_t r) {
    const gyre_contextual_plan *plan = b->plan;
    const gyre_view *out = &plan->args->out, *lse = &plan->args->lse;
    const int64_t batch = b->sequence.batch, query = b->sequence.query + (b->first_row + r) / plan->group;
    const int64_t head = b->key_head * plan->group + (b->first_row + r) % plan->group;
    float *row = b->out_rows + r * plan->value_pad;
    const gyre_row_state state = {b->row_max[r], b->row_sum[r], 0, row};
    const gyre_row_normalizer end = gyre_row_normalize(&state, (double)-INFINITY);
    rescale(plan, row, end.out_scale);
    for (int64_t c = 0; c < out->shape[3]; c++)
        row[c] = gyre_canonical(row[c]);
    gyre_store_row(row, out->shape[3], gyre_view_at(out, batch, query, head, 0), out->dtype, out->stride[3]);
    if (!lse->data) return;
    const double value = gyre_canonical_f64(end.lse);
    gyre_store_row_f64(&value, 1, gyre_view_at(lse, batch, query, head, 0), lse->dtype, 1);
}

static void begin_rows(gyre_contextual_buffers *b, int64_t item, int64_t first_row) {
    gyre_contextual_rows_begin(b, item, first_row);
    memset(b->out_rows, 0, (size_t)(b->rows * b->plan->value_pad) * sizeof(float));
    for (int64_t r = 0; r < b->rows; r++)
        b->row_max[r] = -INFINITY, b->row_sum[r] = 0;
}

/* `count` tiles of rows, which read each tile of keys once. */
static void attend_rows(gyre_contextual_buffers *b, int64_t count, int64_t item, int64_t first_row) {
    for (int64_t i = 0; i < count; i++)
        begin_rows(&b[i], item, first_row + i * QUERY_TILE);
    for (int64_t tile = gyre_contextual_tiles_seen(&b[count - 1]) - 1; tile >= 0; tile--)
        for (int64_t i = 0; i < count; i++)
            if (tile < gyre_contextual_tiles_seen(&b[i])) attend_tile(&b[i], tile);
    for (int64_t i = 0; i < count; i++)
        for (int64_t r = 0; r < b[i].rows; r++)
            write_row(&b[i], r);
}

static void run_job(void *arg, int64_t job) {
    forward_call *call = arg;
    const gyre_contextual_plan *plan = call->plan;
    const int64_t tasks = plan->items * plan->chunks, most = plan->rows_at_once;
    gyre_contextual_keys keys;
    gyre_contextual_buffers b[ROWS_AT_ONCE];
    gyre_contextual_job(plan, call->scratch, job, &keys, b);
    for (int64_t task; (task = atomic_fetch_add(&call->next, 1)) < tasks;) {
        const int64_t item = task % plan->items;
        const int64_t first = (plan->chunks - 1 - task / plan->items) * most * QUERY_TILE; /* the longest rows first */
        const gyre_contextual_sequence s = gyre_contextual_sequence_at(plan->args, item / plan->key_heads);
        const int64_t left = (gyre_contextual_row_count(plan, &s) - first + QUERY_TILE - 1) / QUERY_TILE;
        if (left > 0) attend_rows(b, left < most ? left : most, item, first);
    }
}

void gyre_contextual_forward_run(const gyre_contextual_plan *plan, char *scratch, const gyre_exec *exec) {
    forward_call call = {.plan = plan, .scratch = scratch};
    gyre_contextual_embeddings_fill(plan, scratch, exec);
    gyre_parallel(exec, run_job, &call, plan->jobs);
}
