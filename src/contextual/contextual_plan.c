/* contextual_plan.c: sizes and scratch of a call. */
#include "contextual/contextual_plan.h"
#include "core/exec.h"

/* -- scratch -- */

/* Lays out, or counts where the arena has no memory. */
static void lay_out_keys(const gyre_contextual_plan *plan, int gradient, gyre_arena *a, gyre_contextual_keys *k) {
    *k = (gyre_contextual_keys){.item = -1};
    k->k_rows = k->gate_rows = gyre_arena_floats(a, KEY_TILE, plan->head_pad);
    k->k_columns = k->gate_columns = gyre_arena_floats(a, plan->head_pad, KEY_TILE);
    k->v_rows = gyre_arena_floats(a, KEY_TILE, plan->value_pad);
    k->scores = k->gate_logits = gyre_arena_floats(a, QUERY_TILE, KEY_TILE);
    if (gradient) {
        k->v_columns = gyre_arena_floats(a, plan->value_pad, KEY_TILE);
        k->dscores = k->dgates = gyre_arena_floats(a, QUERY_TILE, KEY_TILE);
    }
    if (!plan->gates_apart) return;
    k->gate_rows = gyre_arena_floats(a, KEY_TILE, plan->head_pad);
    k->gate_columns = gyre_arena_floats(a, plan->head_pad, KEY_TILE);
    k->gate_logits = gyre_arena_floats(a, QUERY_TILE, KEY_TILE);
    if (gradient) k->dgates = gyre_arena_floats(a, QUERY_TILE, KEY_TILE);
}

static void lay_out_rows(const gyre_contextual_plan *plan, gyre_arena *a, gyre_contextual_buffers *b) {
    b->q_rows = gyre_arena_floats(a, QUERY_TILE, plan->head_pad);
    b->z = gyre_arena_floats(a, QUERY_TILE, plan->z_pad);
    b->out_rows = gyre_arena_floats(a, QUERY_TILE, plan->value_pad);
}

static void lay_out_gradient(const gyre_contextual_plan *plan, gyre_arena *a, gyre_contextual_buffers *b) {
    const int64_t keys = plan->most_keys * KEY_TILE, heads = plan->embedding_heads > 1 ? plan->group : 1;
    b->dout_rows = gyre_arena_floats(a, QUERY_TILE, plan->value_pad);
    b->dq_rows = gyre_arena_floats(a, QUERY_TILE, plan->head_pad);
    b->dz = gyre_arena_floats(a, QUERY_TILE, plan->z_pad);
    b->dk = gyre_arena_floats(a, keys, plan->head_pad);
    b->dv = gyre_arena_floats(a, keys, plan->value_pad);
    b->dembeddings = gyre_arena_floats(a, heads * plan->z_pad, plan->head_pad);
    b->starts = gyre_arena_alloc(a, plan->most_keys * QUERY_TILE, sizeof *b->starts);
    if (plan->gates_apart) b->dgate_keys = gyre_arena_floats(a, keys, plan->head_pad);
}

static size_t lay_out_job(const gyre_contextual_plan *plan, int gradient, char *memory, gyre_contextual_keys *keys,
                          gyre_contextual_buffers *b) {
    gyre_arena a = {memory, 0};
    lay_out_keys(plan, gradient, &a, keys);
    for (int64_t i = 0; i < plan->rows_at_once; i++)
        lay_out_rows(plan, &a, &b[i]);
    if (gradient) lay_out_gradient(plan, &a, &b[0]);
    return a.used;
}

static size_t lay_out_shared(const gyre_contextual_plan *plan, char *memory, gyre_contextual_embeddings *e) {
    gyre_arena a = {memory, 0};
    e->rows = gyre_arena_floats(&a, plan->embedding_heads * plan->z_pad, plan->head_pad);
    e->columns = gyre_arena_floats(&a, plan->embedding_heads * plan->head_pad, plan->z_pad);
    return a.used;
}

void gyre_contextual_shared(const gyre_contextual_plan *plan, char *scratch, gyre_contextual_embeddings *embeddings) {
    lay_out_shared(plan, scratch, embeddings);
}

void gyre_contextual_job(const gyre_contextual_plan *plan, char *scratch, int64_t job, gyre_contextual_keys *keys,
                         gyre_contextual_buffers *b) {
    for (int64_t i = 0; i < plan->rows_at_once; i++) {
        b[i] = (gyre_contextual_buffers){.plan = plan, .keys = keys};
        lay_out_shared(plan, scratch, &b[i].embeddings);
    }
    lay_out_job(plan, plan->dout != NULL, scratch + plan->shared_bytes + (size_t)job * plan->job_bytes, keys, b);
}

/* 1: the bytes of scratch fit an int64, with room to spare for padding. */
static int countable(const gyre_contextual_plan *plan) {
    const double shared = 2.0 * (double)plan->embedding_heads * (double)plan->z_pad * (double)plan->head_pad;
    const double rows =
        2.0 * QUERY_TILE * (double)plan->z_pad + (double)plan->group * (double)plan->z_pad * (double)plan->head_pad;
    const double keys = (double)plan->most_keys * KEY_TILE * (2.0 * (double)plan->head_pad + (double)plan->value_pad + 1);
    const double tiles = 2048.0 * ((double)plan->head_pad + (double)plan->value_pad + KEY_TILE);
    return 4 * (shared + (double)plan->jobs * (rows + keys + tiles)) < 0x1p61;
}

gyre_status gyre_contextual_plan_make(void *call, const gyre_exec *exec, size_t *bytes) {
    gyre_contextual_call *c = call;
    const gyre_contextual_args *args = &c->args;
    const int gradient = c->common.use == GYRE_CALL_GRADIENT;
    gyre_contextual_plan *plan = &c->plan;
    /* Sizes follow the shapes, not the sequences: so they only grow with the tokens, however these are cut. */
    const int64_t *q = args->q.shape, *k = args->k.shape, positions = args->embeddings.shape[1];
    const gyre_call_batch batch = GYRE_CALL_BATCH(args);
    *plan = (gyre_contextual_plan){.args = args,
                                   .dout = gradient ? c->common.dout : NULL,
                                   .gradients = gradient ? &c->gradients : NULL,
                                   .kernels = gyre_kernels_select()};
    plan->source = c->common.source ? *c->common.source : gyre_key_source_of_views(&args->k, &args->v, NULL);
    plan->gate_source = gyre_key_source_of_views(&args->gate_keys, &args->gate_keys, NULL);
    plan->gates_apart = args->gate_keys.data != NULL;
    plan->sequences = gyre_call_sequences(&batch);
    plan->key_heads = k[2];
    plan->group = q[2] / k[2];
    plan->items = plan->sequences * plan->key_heads;
    plan->head_pad = gyre_pad16(q[3]);
    plan->value_pad = gyre_pad16(args->v.shape[3]);
    plan->most_rows = gyre_tiles_of(q[1] * plan->group, QUERY_TILE);
    plan->most_keys = gyre_tiles_of(k[1], KEY_TILE);
    plan->embedding_heads = args->embeddings.shape[2];
    plan->z_pad = gyre_pad16((positions < k[1] + 1 ? positions : k[1] + 1) + 1);
    plan->rows_at_once = gradient || plan->most_rows < 1  ? 1
                         : plan->most_rows < ROWS_AT_ONCE ? plan->most_rows
                                                          : ROWS_AT_ONCE;
    plan->chunks = gyre_tiles_of(plan->most_rows, plan->rows_at_once);
    const int64_t tasks = gradient ? plan->items : plan->items * plan->chunks, most = gyre_exec_concurrency(exec);
    plan->jobs = most < tasks ? most : tasks > 0 ? tasks : 1;
    if (!countable(plan)) return GYRE_ENOMEM;
    gyre_contextual_embeddings embeddings;
    gyre_contextual_keys keys;
    gyre_contextual_buffers buffers[ROWS_AT_ONCE];
    plan->shared_bytes = lay_out_shared(plan, NULL, &embeddings);
    plan->job_bytes = lay_out_job(plan, gradient, NULL, &keys, buffers);
    *bytes = plan->shared_bytes + (size_t)plan->jobs * plan->job_bytes;
    return GYRE_OK;
}
