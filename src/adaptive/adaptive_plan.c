/* adaptive_plan.c: sizes and scratch of a call. */
#include "adaptive/adaptive_plan.h"
#include "core/encoding.h"
#include "core/exec.h"

enum { MOST_PLANE = ADAPTIVE_ROWS * KEY_TILE + PLANE_GAP };

/* -- scratch: lays out, or counts where the arena has no memory -- */

static void lay_out_sums(const gyre_adaptive_plan *plan, gyre_arena *a, gyre_adaptive_sums *s) {
    const int64_t keys = plan->key_heads * gyre_adaptive_keys_padded(plan);
    s->dhidden = gyre_arena_alloc(a, plan->width * plan->inputs, sizeof(double));
    s->dhidden_bias = gyre_arena_alloc(a, plan->width, sizeof(double));
    s->doutput = gyre_arena_alloc(a, plan->heads * (plan->width + 1), sizeof(double));
    s->dtable = gyre_arena_alloc(a, plan->table_rows * plan->heads, sizeof(double));
    s->dk = gyre_arena_floats(a, keys, plan->head_pad);
    s->dv = gyre_arena_floats(a, keys, plan->value_pad);
}

static size_t lay_out_shared(const gyre_adaptive_plan *plan, int gradient, char *memory, gyre_adaptive_weights *w,
                             gyre_adaptive_totals *totals) {
    gyre_arena a = {memory, 0};
    w->hidden = gyre_arena_floats(&a, plan->width, plan->inputs);
    w->hidden_bias = gyre_arena_floats(&a, 1, plan->width);
    w->output = gyre_arena_floats(&a, plan->heads, plan->width + 1);
    if (gradient) {
        totals->tasks = gyre_arena_alloc(&a, plan->jobs, sizeof *totals->tasks);
        lay_out_sums(plan, &a, &totals->sums);
    }
    return a.used;
}

static void lay_out_gradient(const gyre_adaptive_plan *plan, gyre_arena *a, gyre_adaptive_buffers *b) {
    const int64_t rows = plan->heads * ADAPTIVE_ROWS;
    b->scores = gyre_arena_floats(a, plan->heads, MOST_PLANE);
    b->dscores = gyre_arena_floats(a, plan->heads, MOST_PLANE);
    b->value_columns = gyre_arena_floats(a, plan->value_pad, KEY_TILE);
    b->dout_rows = gyre_arena_floats(a, rows, plan->value_pad);
    b->dq_rows = gyre_arena_floats(a, rows, plan->head_pad);
    b->lse = gyre_arena_floats(a, 1, rows);
    b->delta = gyre_arena_floats(a, 1, rows);
    b->units = gyre_arena_floats(a, plan->width, UNIT_STRIDE);
    b->dunits = gyre_arena_floats(a, plan->width, UNIT_STRIDE);
    lay_out_sums(plan, a, &b->sums);
}

static size_t lay_out_job(const gyre_adaptive_plan *plan, int gradient, char *memory, gyre_adaptive_buffers *b) {
    const int64_t rows = plan->heads * ADAPTIVE_ROWS;
    gyre_arena a = {memory, 0};
    b->q_rows = gyre_arena_floats(&a, rows, plan->head_pad);
    b->out_rows = gyre_arena_floats(&a, rows, plan->value_pad);
    b->row_max = gyre_arena_floats(&a, 1, rows);
    b->row_sum = gyre_arena_alloc(&a, rows, sizeof(double));
    b->key_rows = gyre_arena_floats(&a, KEY_TILE, plan->head_pad);
    b->key_columns = gyre_arena_floats(&a, plan->head_pad, KEY_TILE);
    b->value_rows = gyre_arena_floats(&a, KEY_TILE, plan->value_pad);
    b->x = b->scores = gyre_arena_floats(&a, 2 * plan->heads, MOST_PLANE);
    b->hidden = gyre_arena_floats(&a, plan->width + 1, UNIT_STRIDE);
    if (gradient) lay_out_gradient(plan, &a, b);
    return a.used;
}

void gyre_adaptive_shared(const gyre_adaptive_plan *plan, char *scratch, gyre_adaptive_weights *weights,
                          gyre_adaptive_totals *totals) {
    lay_out_shared(plan, plan->dout != NULL, scratch, weights, totals);
}

void gyre_adaptive_job(const gyre_adaptive_plan *plan, char *scratch, int64_t job, gyre_adaptive_buffers *b) {
    gyre_adaptive_totals unused;
    *b = (gyre_adaptive_buffers){.plan = plan};
    lay_out_shared(plan, plan->dout != NULL, scratch, &b->weights, &unused);
    lay_out_job(plan, plan->dout != NULL, scratch + plan->shared_bytes + (size_t)job * plan->job_bytes, b);
}

/* 1: the bytes of scratch fit an int64, with room to spare for padding. */
static int countable(const gyre_adaptive_plan *plan) {
    const double heads = (double)plan->heads, width = (double)plan->width,
                 channels = (double)plan->head_pad + (double)plan->value_pad;
    const double network = 3 * (width + 1) * (3 * heads + UNIT_STRIDE + 2) + heads * (double)plan->table_rows;
    const double tiles = (heads * ADAPTIVE_ROWS + KEY_TILE) * (3 * channels + 5 * KEY_TILE);
    const double keys = (double)plan->key_heads * (double)gyre_adaptive_keys_padded(plan) * channels;
    return 8 * ((double)plan->jobs + 1) * (network + tiles + keys) + 0x1p20 * (double)plan->jobs < 0x1p61;
}

gyre_status gyre_adaptive_plan_make(void *call, const gyre_exec *exec, size_t *bytes) {
    gyre_adaptive_call *c = call;
    const gyre_adaptive_args *args = &c->args;
    const int gradient = c->common.use == GYRE_CALL_GRADIENT;
    gyre_adaptive_plan *plan = &c->plan;
    /* Sizes follow the shapes, not the sequences: so they only grow with the tokens, however these are cut. */
    const int64_t *q = args->q.shape, *k = args->k.shape;
    const gyre_call_batch batch = GYRE_CALL_BATCH(args);
    *plan = (gyre_adaptive_plan){.args = args,
                                 .dout = gradient ? c->common.dout : NULL,
                                 .gradients = gradient ? &c->gradients : NULL,
                                 .kernels = gyre_kernels_select()};
    plan->source = c->common.source ? *c->common.source : gyre_key_source_of_views(&args->k, &args->v, NULL);
    plan->biased = args->encoding || args->bias.data;
    plan->adds = args->form == GYRE_ADAPTIVE_FORM_ADD_RESIDUAL;
    plan->sequences = gyre_call_sequences(&batch);
    plan->heads = q[2];
    plan->key_heads = k[2];
    plan->group = q[2] / k[2];
    plan->inputs = plan->adds ? q[2] : 2 * q[2];
    plan->width = args->network.hidden_weights.shape[2];
    plan->head_pad = gyre_pad16(q[3]);
    plan->value_pad = gyre_pad16(args->v.shape[3]);
    plan->table_rows = args->encoding ? args->encoding->table[GYRE_TABLE_BIAS].rows : 0;
    plan->row_tiles = gyre_tiles_of(q[1], ADAPTIVE_ROWS);
    plan->most_keys = gradient ? gyre_tiles_of(k[1], KEY_TILE) : 0;
    const int64_t tasks = plan->sequences * (gradient ? gyre_tiles_of(q[1], GRADIENT_ROWS) : plan->row_tiles);
    const int64_t most = gyre_exec_concurrency(exec);
    plan->jobs = most < tasks ? most : tasks > 0 ? tasks : 1;
    if (!countable(plan)) return GYRE_ENOMEM;
    gyre_adaptive_weights weights;
    gyre_adaptive_totals totals;
    gyre_adaptive_buffers buffers;
    plan->shared_bytes = lay_out_shared(plan, gradient, NULL, &weights, &totals);
    plan->job_bytes = lay_out_job(plan, gradient, NULL, &buffers);
    *bytes = plan->shared_bytes + (size_t)plan->jobs * plan->job_bytes;
    return GYRE_OK;
}
