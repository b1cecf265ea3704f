/* contextual_forward.c: attention by an online softmax over tiles of keys, from the last one to the first. */
#include "call/online_softmax.h"
#include "contextual/contextual_tiles.h"
#include "core/exec.h"

static gyre_online_softmax softmax_of(gyre_contextual_buffers *b) {
    return (gyre_online_softmax){b->plan->kernels, b->plan->value_pad, b->out_rows, b->row_max, b->row_sum};
}

static void attend_tile(gyre_contextual_buffers *b, int64_t tile) {
    const gyre_contextual_plan *plan = b->plan;
    const int64_t first = gyre_contextual_first_row(b, tile);
    const gyre_online_softmax softmax = softmax_of(b);
    gyre_contextual_keys *keys = b->keys;
    gyre_contextual_row row;
    gyre_contextual_products(b, tile, first);
    for (int64_t r = first; r < b->rows; r++) {
        const int64_t seen = gyre_contextual_seen(b, r, tile), at = r * KEY_TILE;
        b->position[r] = gyre_contextual_count(plan, keys->gate_logits + at, seen, b->position[r], &row);
        gyre_contextual_score(plan, &row, b->z + r * plan->z_pad, seen, keys->scores + at);
        gyre_softmax_update(&softmax, r, 1, KEY_TILE, keys->scores + at);
    }
    gyre_contextual_values(b, tile);
    if (gyre_softmax_add_values(&softmax, first, b->rows - first, keys->scores + first * KEY_TILE, keys->v_rows))
        keys->has_v = 0; /* the next tile of rows reads them again */
}

static void begin_rows(gyre_contextual_buffers *b, int64_t item, int64_t first_row) {
    gyre_contextual_rows_begin(b, item, first_row);
    const gyre_online_softmax softmax = softmax_of(b);
    gyre_softmax_begin(&softmax, b->rows);
}

/* `count` tiles of rows, which read each tile of keys once. */
static void attend_rows(gyre_contextual_buffers *b, int64_t count, int64_t item, int64_t first_row) {
    for (int64_t i = 0; i < count; i++)
        begin_rows(&b[i], item, first_row + i * QUERY_TILE);
    for (int64_t tile = gyre_contextual_tiles_seen(&b[count - 1]) - 1; tile >= 0; tile--)
        for (int64_t i = 0; i < count; i++)
            if (tile < gyre_contextual_tiles_seen(&b[i])) attend_tile(&b[i], tile);
    for (int64_t i = 0; i < count; i++) {
        const gyre_online_softmax softmax = softmax_of(&b[i]);
        gyre_softmax_write(&softmax, &b[i].all_rows, &b[i].plan->args->out, &b[i].plan->args->lse);
    }
}

static void run_job(void *arg, int64_t job) {
    gyre_call_tasks *call = arg;
    const gyre_contextual_plan *plan = call->plan;
    const int64_t tasks = plan->items * plan->chunks, most = plan->rows_at_once;
    gyre_contextual_keys keys;
    gyre_contextual_buffers b[ROWS_AT_ONCE];
    gyre_contextual_job(plan, call->scratch, job, &keys, b);
    for (int64_t task; (task = atomic_fetch_add(&call->next, 1)) < tasks;) {
        const int64_t item = task % plan->items;
        const int64_t first = (plan->chunks - 1 - task / plan->items) * most * QUERY_TILE; /* the longest rows first */
        const gyre_call_sequence s = gyre_contextual_sequence_of(plan, item);
        const int64_t left = (gyre_contextual_row_count(plan, &s) - first + QUERY_TILE - 1) / QUERY_TILE;
        if (left > 0) attend_rows(b, left < most ? left : most, item, first);
    }
}

void gyre_contextual_run(void *call, char *scratch, const gyre_exec *exec) {
    const gyre_contextual_plan *plan = &((gyre_contextual_call *)call)->plan;
    gyre_call_tasks forward = {.plan = plan, .scratch = scratch};
    gyre_contextual_embeddings_fill(plan, scratch, exec);
    gyre_parallel(exec, run_job, &forward, plan->jobs);
}
