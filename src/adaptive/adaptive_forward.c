/* adaptive_forward.c: attention by an online softmax over tiles of keys, all heads of a tile of queries at once. */
#include "adaptive/adaptive_network.h"
#include "adaptive/adaptive_tiles.h"
#include "call/online_softmax.h"
#include "core/exec.h"

/* Rows of all heads. */
static gyre_online_softmax softmax_of(gyre_adaptive_buffers *b) {
    return (gyre_online_softmax){b->plan->kernels, b->plan->value_pad, b->out_rows, b->row_max, b->row_sum};
}

/* out_rows += weights v. */
static void add_values(gyre_adaptive_buffers *b, int64_t tile) {
    const gyre_adaptive_plan *plan = b->plan;
    const gyre_online_softmax softmax = softmax_of(b);
    for (int64_t h = 0; h < plan->heads; h++) {
        if (h % plan->group == 0) gyre_adaptive_read_values(b, h / plan->group, tile);
        if (gyre_softmax_add_values(&softmax, h * b->rows, b->rows, b->scores + h * gyre_adaptive_plane(b), b->value_rows))
            gyre_adaptive_read_values(b, h / plan->group, tile); /* the next head needs what zeros took the place of */
    }
}

static void attend_tile(gyre_adaptive_buffers *b, int64_t tile) {
    const gyre_online_softmax softmax = softmax_of(b);
    gyre_adaptive_inputs(b, tile);
    for (int64_t first = 0; first < b->rows; first += NETWORK_ROWS) {
        const int64_t left = b->rows - first;
        const gyre_adaptive_block block = {first, left < NETWORK_ROWS ? left : NETWORK_ROWS};
        gyre_adaptive_scores(b, tile, &block);
    }
    for (int64_t h = 0; h < b->plan->heads; h++)
        gyre_softmax_update(&softmax, h * b->rows, b->rows, KEY_TILE, b->scores + h * gyre_adaptive_plane(b));
    add_values(b, tile);
}

static void attend_rows(gyre_adaptive_buffers *b, int64_t sequence, int64_t first) {
    const gyre_adaptive_plan *plan = b->plan;
    const gyre_online_softmax softmax = softmax_of(b);
    gyre_adaptive_rows_begin(b, sequence, first);
    gyre_softmax_begin(&softmax, b->all_rows.count);
    for (int64_t tile = 0; tile < gyre_adaptive_tiles_seen(b); tile++)
        attend_tile(b, tile);
    gyre_softmax_write(&softmax, &b->all_rows, &plan->args->out, &plan->args->lse);
}

static void run_job(void *arg, int64_t job) {
    gyre_call_tasks *call = arg;
    const gyre_adaptive_plan *plan = call->plan;
    const int64_t tasks = plan->sequences * plan->row_tiles;
    gyre_adaptive_buffers b;
    gyre_adaptive_job(plan, call->scratch, job, &b);
    gyre_adaptive_network_begin(&b);
    for (int64_t task; (task = atomic_fetch_add(&call->next, 1)) < tasks;) {
        const int64_t first = (plan->row_tiles - 1 - task / plan->sequences) * ADAPTIVE_ROWS; /* the longest rows first */
        const int64_t sequence = task % plan->sequences;
        if (first < gyre_adaptive_sequence(plan, sequence).queries) attend_rows(&b, sequence, first);
    }
}

void gyre_adaptive_run(void *call, char *scratch, const gyre_exec *exec) {
    const gyre_adaptive_plan *plan = &((gyre_adaptive_call *)call)->plan;
    gyre_call_tasks forward = {.plan = plan, .scratch = scratch};
    gyre_adaptive_weights_fill(plan, scratch);
    gyre_parallel(exec, run_job, &forward, plan->jobs);
}
