/* attention_args.c: what a call of attention must satisfy, and the scratch it takes. */
#include "attention/attention_rotation.h"
#include "attention/attention_run.h"
#include "attention/backward.h"
#include "attention/decode.h"
#include "attention/option_args.h"
#include "attention/tables.h"
#include "attention/tiles.h"
#include "core/encoding.h"
#include "core/exec.h"
#include "core/positions.h"
#include "core/scheme.h"
#include "core/view.h"
#include <float.h>
#include <math.h>

/* MAX_CONCURRENCY: of a caller's exec; more jobs than that are never of use, and counts of tasks stay in range. */
enum { MAX_CHANNELS = 65536, MAX_CONCURRENCY = 65536 };

/* MAX_JOB_QUERY_TILES: query sides of a job, 64 KiB each at 128 channels; past 64 a tile of keys costs next to nothing for
 * each. TASKS_PER_JOB: enough that causal rows, the last of which have all the keys, even out. */
enum { MAX_JOB_QUERY_TILES = 64, TASKS_PER_JOB = 4 };

static int64_t round_up(int64_t n, int64_t to) {
    return (n + to - 1) / to * to;
}

static int shape_is(const gyre_cview *view, int64_t batch, int64_t tokens, int64_t heads, int64_t channels) {
    return view->shape[0] == batch && view->shape[1] == tokens && view->shape[2] == heads && view->shape[3] == channels;
}

static gyre_status check_shapes(const gyre_attention_args *args) {
    const int64_t *q = args->q.shape, *k = args->k.shape, *v = args->v.shape;
    for (int i = 0; i < 4; i++) {
        const int64_t least = i < 2 ? 0 : 1,
                      most = i == 3 ? MAX_CHANNELS : INT32_MAX; /* no tokens is fine, no heads is not */
        if (q[i] < least || k[i] < least || v[i] < least || q[i] > most || k[i] > most || v[i] > most) return GYRE_ESHAPE;
    }
    if (k[0] != q[0] || k[3] != q[3] || q[2] % k[2] != 0) return GYRE_ESHAPE;
    if (v[0] != k[0] || v[1] != k[1] || v[2] != k[2]) return GYRE_ESHAPE;
    const gyre_cview out = gyre_const(args->out), lse = gyre_const(args->lse);
    if (!shape_is(&out, q[0], q[1], q[2], v[3])) return GYRE_ESHAPE;
    if (gyre_view_elements(q) < 0 || gyre_view_elements(k) < 0 || gyre_view_elements(v) < 0) return GYRE_ESHAPE;
    if (gyre_view_elements(out.shape) < 0) return GYRE_ESHAPE;
    if (lse.data && !shape_is(&lse, q[0], q[1], q[2], 1)) return GYRE_ESHAPE;
    return GYRE_OK;
}

static int is_float_dtype(gyre_dtype dtype) {
    return dtype == GYRE_DTYPE_F32 || dtype == GYRE_DTYPE_F16 || dtype == GYRE_DTYPE_BF16;
}

static gyre_status check_types(const gyre_attention_args *args, const gyre_key_source *source) {
    if (!is_float_dtype(args->q.dtype) || !is_float_dtype(args->out.dtype)) return GYRE_EDTYPE;
    if (args->lse.data && args->lse.dtype != GYRE_DTYPE_F32) return GYRE_EDTYPE;
    return source || (is_float_dtype(args->k.dtype) && is_float_dtype(args->v.dtype)) ? GYRE_OK : GYRE_EDTYPE;
}

static gyre_status check_encoding(const gyre_attention_args *args) {
    const gyre_encoding *encoding = args->encoding;
    if (!encoding) return GYRE_OK;
    const int64_t heads = encoding->config.heads; /* 0: tables that all heads share */
    if ((encoding->scheme->places & GYRE_PLACE_SCORE) && heads > 0 && heads != args->q.shape[2]) return GYRE_ESHAPE;
    const gyre_status status = gyre_attention_rotation_check(args);
    return status ? status : gyre_tables_shape_check(args);
}

gyre_status gyre_attention_args_check(const gyre_attention_args *args, const gyre_key_source *source) {
    if (!args || args->size != sizeof *args || args->window < 0 || args->q_pos.context_length < 0) return GYRE_EINVAL;
    if (!(fabs(args->scale) <= FLT_MAX)) return GYRE_EINVAL;
    if (args->causal < 0 || args->causal > GYRE_CAUSAL_BY_ORDER) return GYRE_EINVAL;
    gyre_status status = check_types(args, source);
    if (!status) status = check_shapes(args);
    if (!status) status = check_encoding(args);
    if (!status) status = gyre_segments_check(args);
    return status ? status : gyre_options_check(args);
}

gyre_status gyre_attention_views_check(const gyre_attention_args *args, const gyre_key_source *source) {
    gyre_status status = gyre_cview_check(&args->q, "q", "gyre_attention", NULL);
    if (!status && !source) status = gyre_cview_check(&args->k, "k", "gyre_attention", NULL);
    if (!status && !source) status = gyre_cview_check(&args->v, "v", "gyre_attention", NULL);
    if (!status) status = gyre_output_check(&args->out, "out", "gyre_attention", NULL);
    if (!status && args->lse.data) status = gyre_output_check(&args->lse, "lse", "gyre_attention", NULL);
    return status;
}

/* -- measures -- */

static void measure(gyre_attention_plan *plan, const gyre_attention_args *args) {
    const int64_t *q = args->q.shape, *k = args->k.shape;
    plan->queries = q[1];
    plan->keys = k[1];
    plan->query_heads = q[2];
    plan->key_heads = k[2];
    plan->group = q[2] / k[2];
    plan->head_dim = q[3];
    plan->head_pad = round_up(q[3], 16);
    plan->value_dim = args->v.shape[3];
    plan->value_pad = round_up(plan->value_dim, 16);
    plan->tile_rows = args->causal && plan->queries <= SHORT_QUERIES ? SHORT_QUERY_TILE : QUERY_TILE;
    plan->query_tiles = (plan->queries + plan->tile_rows - 1) / plan->tile_rows;
    plan->key_tiles = (plan->keys + KEY_TILE - 1) / KEY_TILE;
    plan->items = q[0] * k[2];
    const double terms = args->encoding ? args->encoding->score_terms : 1;
    plan->scale = (float)(args->scale != 0 ? args->scale : 1 / sqrt((double)plan->head_dim * terms));
    plan->by_order = args->causal == GYRE_CAUSAL_BY_ORDER;
    gyre_attention_rotation_measure(plan);
    gyre_tables_measure(plan);
    /* No two positions are further apart than twice the largest, so a wider window is none; and sums stay in range. */
    plan->window = args->window > 2 * GYRE_MAX_POSITION ? 0 : args->window;
    plan->sinks = args->sinks;
    plan->softcap = (float)args->softcap;
}

static int64_t min_i64(int64_t a, int64_t b) {
    return a < b ? a : b;
}
static int64_t max_i64(int64_t a, int64_t b) {
    return a > b ? a : b;
}

/* Who works on what.  A row is computed the same way wherever it falls, so how the work is dealt out may depend on how many
 * threads there are.  What memory it takes must grow with queries, keys and heads: counted by the smaller tiles, and room
 * for partials however many queries there are, since a shorter pass of the same call may be cut otherwise. */
static void schedule_forward(gyre_attention_plan *plan, int64_t concurrency) {
    const int64_t tiles = (plan->queries + SHORT_QUERY_TILE - 1) / SHORT_QUERY_TILE;
    plan->split_keys = plan->queries <= MAX_DECODE_QUERIES;
    plan->heads_at_once = plan->uses_tables ? 1 : plan->group; /* tables keep what they know of one head */
    plan->job_query_tiles = max_i64(plan->heads_at_once, min_i64(MAX_JOB_QUERY_TILES, plan->heads_at_once * tiles));
    const int64_t most = plan->job_query_tiles / plan->heads_at_once;
    const int64_t wanted =
        plan->query_tiles * plan->items * plan->group / plan->heads_at_once / (TASKS_PER_JOB * concurrency);
    plan->chunk_tiles = concurrency == 1 ? most : min_i64(most, max_i64(1, wanted));
    plan->chunks = (plan->query_tiles + plan->chunk_tiles - 1) / plan->chunk_tiles;
    plan->key_splits = max_i64(1, (plan->keys + KEYS_PER_SPLIT - 1) / KEYS_PER_SPLIT);
    plan->heads_together = gyre_decode_heads_together(plan);
    plan->partial_rows = plan->group * min_i64(plan->queries, MAX_DECODE_QUERIES);
    plan->key_info_sets = plan->args->k_pos.data && plan->args->k_pos.stride_batch != 0 ? plan->args->q.shape[0] : 1;
    plan->jobs = min_i64(concurrency, max_i64(plan->items * plan->group * tiles, plan->items * plan->key_splits));
}

static int add_product(size_t *sum, int64_t count, size_t bytes) {
    size_t product;
    return !__builtin_mul_overflow((size_t)count, bytes, &product) && !__builtin_add_overflow(*sum, product, sum);
}

static int size_forward(gyre_attention_plan *plan) {
    gyre_arena info = {NULL, 0}, flags = {NULL, 0};
    gyre_key_buffers keys = {0};
    gyre_key_info_layout(plan, &info, &keys);
    gyre_arena_alloc(&flags, plan->items, sizeof(atomic_int));
    plan->partial_bytes = flags.used;
    plan->job_bytes = gyre_forward_job_bytes(plan);
    return add_product(&plan->info_bytes, plan->key_info_sets, info.used) &&
           add_product(&plan->partial_bytes, plan->items * plan->key_splits, gyre_partials_layout(plan, NULL, 0, 0, NULL));
}

gyre_status gyre_attention_plan_make(gyre_attention_plan *plan, const gyre_segment *segment, int gradient,
                                     const gyre_exec *exec) {
    const int64_t concurrency = min_i64(gyre_exec_concurrency(exec), MAX_CONCURRENCY);
    *plan = (gyre_attention_plan){.segment = segment,
                                  .args = &segment->args,
                                  .source = &segment->source,
                                  .encoding = segment->args.encoding,
                                  .gradient = gradient};
    plan->kernels = plan->encoding ? plan->encoding->kernels : gyre_kernels_select();
    measure(plan, &segment->args);
    plan->angle_bytes = gyre_attention_rotation_layout(plan, NULL);
    int counted = 1;
    if (gradient) {
        plan->jobs = min_i64(concurrency, plan->items);
        plan->key_buffer_bytes = gyre_key_buffers_layout(plan, NULL, NULL);
        plan->job_bytes = gyre_gradient_job_layout(plan, NULL, NULL);
    } else {
        schedule_forward(plan, concurrency);
        counted = size_forward(plan);
    }
    plan->bytes = plan->angle_bytes;
    counted &= add_product(&plan->bytes, 1, plan->info_bytes) && add_product(&plan->bytes, 1, plan->partial_bytes) &&
               add_product(&plan->bytes, plan->jobs, plan->key_buffer_bytes) &&
               add_product(&plan->bytes, plan->jobs, plan->job_bytes);
    return counted ? GYRE_OK : GYRE_ENOMEM;
}

gyre_status gyre_attention_plan_check(const gyre_attention_plan *plan, const void *scratch, size_t bytes) {
    const gyre_attention_args *args = plan->args;
    gyre_positions k_pos = args->k_pos;
    k_pos.context_length = 0; /* ignored, whatever it is */
    if (plan->gradient && !args->lse.data) return GYRE_EINVAL;
    if (bytes < plan->bytes) return GYRE_ENOMEM;
    if (plan->bytes > 0 && (!scratch || (uintptr_t)scratch % ALIGNMENT != 0)) return GYRE_EINVAL;
    gyre_status status = gyre_tables_check(plan);
    if (!status)
        status = gyre_positions_check(args->encoding, &args->q_pos, args->q.shape[0], plan->queries, "q_pos",
                                      "gyre_attention", NULL);
    if (!status)
        status = gyre_positions_check(args->encoding, &k_pos, args->k.shape[0], plan->keys, "k_pos", "gyre_attention", NULL);
    return status ? status : gyre_attention_rotation_check_range(plan);
}

size_t gyre_attention_scratch(const gyre_attention_args *args, int gradient, const gyre_exec *exec) {
    gyre_attention_plan plan;
    gyre_segment segment;
    if (!gradient) return gyre_attention_run_scratch(args, NULL, exec);
    if (gyre_attention_args_check(args, NULL)) return 0;
    gyre_segments_upper_bound(args, NULL, &segment);
    if (gyre_attention_plan_make(&plan, &segment, 1, exec)) return 0;
    return plan.bytes > 0 ? plan.bytes : ALIGNMENT; /* 0 means invalid */
}

/* -- the parts of the scratch -- */

void *gyre_arena_alloc(gyre_arena *a, int64_t count, size_t size) {
    char *part = a->memory ? a->memory + a->used : NULL;
    a->used += ((size_t)count * size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    return part;
}

static float *alloc_floats(gyre_arena *a, int64_t rows, int64_t columns) {
    return gyre_arena_alloc(a, rows * columns, sizeof(float));
}

void gyre_key_info_layout(const gyre_attention_plan *plan, gyre_arena *a, gyre_key_buffers *buffers) {
    const int64_t rows = plan->key_tiles * KEY_TILE;
    buffers->positions = gyre_arena_alloc(a, rows, sizeof *buffers->positions);
    buffers->order = plan->by_order ? gyre_arena_alloc(a, rows, sizeof *buffers->order) : buffers->positions;
    buffers->tiles = gyre_arena_alloc(a, plan->key_tiles, sizeof *buffers->tiles);
}

void gyre_key_tile_layout(const gyre_attention_plan *plan, gyre_arena *a, gyre_key_buffers *buffers) {
    for (int far = 0; far <= plan->rotation.far; far++)
        buffers->k_columns[far] = alloc_floats(a, KEY_TILE, plan->head_pad);
    buffers->v_rows = alloc_floats(a, KEY_TILE, plan->value_pad);
}

size_t gyre_key_buffers_layout(const gyre_attention_plan *plan, char *memory, gyre_key_buffers *buffers) {
    gyre_arena a = {memory, 0};
    const int64_t rows = plan->key_tiles * KEY_TILE;
    gyre_key_buffers s = {0};
    gyre_key_info_layout(plan, &a, &s);
    for (int far = 0; far <= plan->rotation.far; far++) {
        s.k_columns[far] = alloc_floats(&a, rows, plan->head_pad);
        s.k_rows[far] = alloc_floats(&a, rows, plan->head_pad);
        s.dk_rows[far] = alloc_floats(&a, rows, plan->head_pad);
    }
    s.v_columns = alloc_floats(&a, rows, plan->value_pad);
    s.dv_rows = alloc_floats(&a, rows, plan->value_pad);
    if (memory) *buffers = s;
    return a.used;
}

void gyre_query_rows_layout(const gyre_attention_plan *plan, gyre_arena *a, gyre_query_buffers *buffers) {
    for (int far = 0; far <= plan->rotation.far; far++)
        buffers->q_rows[far] = alloc_floats(a, QUERY_TILE, plan->head_pad);
    buffers->out_rows = alloc_floats(a, QUERY_TILE, plan->value_pad);
    buffers->table_rows = buffers->q_rows[0];
    if (plan->table.content || plan->table.position) buffers->table_rows = alloc_floats(a, QUERY_TILE, plan->head_pad);
    for (int far = 0; plan->gradient && far <= plan->rotation.far; far++)
        buffers->dq_rows[far] = alloc_floats(a, QUERY_TILE, plan->head_pad);
    if (plan->gradient) buffers->dout_rows = alloc_floats(a, QUERY_TILE, plan->value_pad);
}

void gyre_query_scratch_layout(const gyre_attention_plan *plan, gyre_arena *a, gyre_query_buffers *buffers,
                               gyre_table_buffers *tables) {
    gyre_table_buffers t = {0};
    if (plan->rotation.far) buffers->far_scores = alloc_floats(a, QUERY_TILE, KEY_TILE);
    if (plan->rotation.xpos) {
        buffers->xpos_rows = alloc_floats(a, QUERY_TILE, plan->head_pad);
        buffers->xpos_decay = alloc_floats(a, 1, plan->head_pad);
    }
    buffers->scores = alloc_floats(a, QUERY_TILE, KEY_TILE);
    buffers->key_rows = alloc_floats(a, KEY_TILE, plan->head_pad > plan->value_pad ? plan->head_pad : plan->value_pad);
    if (plan->gradient) {
        buffers->dscores = alloc_floats(a, QUERY_TILE, KEY_TILE);
        if (plan->softcap > 0) buffers->cap_slope = alloc_floats(a, QUERY_TILE, KEY_TILE);
    }
    if (plan->uses_tables) gyre_tables_layout(plan, a, &t);
    buffers->tables = tables;
    if (tables) *tables = t;
}
