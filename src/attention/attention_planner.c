/* attention_planner.c: decides how a segment is computed, and how much scratch that takes. */
#include "attention/attention_planner.h"
#include "attention/double/double_attention.h"
#include "attention/forward/decode.h"
#include "attention/forward/forward.h"
#include "attention/forward/partials.h"
#include "attention/forward/straight.h"
#include "attention/gradient/gradient_tiles.h"
#include "attention/terms/attention_rotation.h"
#include "attention/terms/table_buffers.h"
#include "attention/tiles/scratch.h"
#include "core/exec.h"
#include "core/positions.h"
#include "util/integers.h"

/* MAX_CONCURRENCY: limit on gyre_exec.concurrency.  More jobs are never useful, and task counts stay in range.
 * JOB_QUERY_BYTES, MAX_JOB_QUERY_TILES: query tiles of a job.  All of them are read for each tile of keys, so they should
 * stay in the second-level cache.  Sixteen of 128 channels are enough to share the cost of laying out a tile of keys.
 * TASKS_PER_JOB: enough tasks to even out causal rows, the last of which have all the keys. */
enum { MAX_CONCURRENCY = 65536, JOB_QUERY_BYTES = 1 << 20, MAX_JOB_QUERY_TILES = 64, TASKS_PER_JOB = 4 };

/* -- measures -- */

/* Two positions are at most 2 GYRE_MAX_POSITION apart, so a wider window has no effect.  Sums with it stay in range. */
static void measure_window(gyre_attention_plan *plan, const gyre_attention_inputs *args) {
    const int64_t most = 2 * GYRE_MAX_POSITION, after = args->window_after > 0 ? args->window_after : args->window;
    plan->window = args->window > most ? 0 : args->window;
    plan->window_after = args->causal || after > most ? 0 : after;
}

/* part, parts, products, key_dim and head_pad. */
static void measure_channels(gyre_attention_plan *plan) {
    const int64_t some = plan->encoding ? plan->encoding->product_channels : 0, first = some > 0 ? some : plan->head_dim;
    plan->part[0] = (gyre_channel_part){0, first, 0, gyre_round_up_i64(first, 16)};
    plan->parts = plan->products = 1;
    plan->key_dim = plan->head_dim;
    plan->head_pad = plan->part[0].pad;
    if (some == 0) return;
    const int64_t others = plan->head_dim - some;
    plan->part[1] = (gyre_channel_part){first, others, plan->head_pad, gyre_round_up_i64(others, 16)};
    plan->parts = 2;
    plan->products = plan->encoding->scheme->phase_row ? 2 : 1;
    if (plan->products == 1) plan->key_dim = first;
    plan->head_pad += plan->part[1].pad;
}

static void measure(gyre_attention_plan *plan, const gyre_attention_inputs *args) {
    const int64_t *q = args->q.shape, *k = args->k.shape;
    plan->queries = q[1];
    plan->keys = k[1];
    plan->query_heads = q[2];
    plan->key_heads = k[2];
    plan->group = q[2] / k[2];
    plan->head_dim = q[3];
    measure_channels(plan);
    plan->value_dim = args->v.shape[3];
    plan->value_pad = gyre_round_up_i64(plan->value_dim, 16);
    plan->tile_rows = gyre_query_tile_rows(args);
    plan->query_tiles = (plan->queries + plan->tile_rows - 1) / plan->tile_rows;
    plan->key_tiles = (plan->keys + KEY_TILE - 1) / KEY_TILE;
    plan->items = q[0] * k[2];
    plan->scale = (float)gyre_score_scale(plan);
    plan->by_order = args->causal == GYRE_CAUSAL_BY_ORDER;
    plan->fixed_order = args->order == GYRE_ORDER_FIXED && !plan->gradient;
    plan->continues = plan->fixed_order && args->state.data;
    plan->gated = args->q_gate_sums.data != NULL;
    measure_window(plan, args);
    gyre_attention_rotation_measure(plan);
    gyre_tables_measure(plan);
    plan->bf16_keys =
        !plan->fixed_order && plan->source->k_dtype == GYRE_DTYPE_BF16 && plan->rotation.pairs == 0 && plan->products == 1;
    plan->bf16_values = !plan->fixed_order && plan->source->v_dtype == GYRE_DTYPE_BF16;
    plan->key_scales_apart =
        plan->fixed_order && plan->source->k_dtype == GYRE_DTYPE_Q8 && !plan->table.key && !plan->table.factors;
    plan->value_scales_apart = plan->fixed_order && plan->source->v_dtype == GYRE_DTYPE_Q8 && !plan->table.value;
    plan->sinks = args->sinks;
    plan->softcap = (float)args->softcap;
}

/* out = query tiles of `rows` rows that a job holds, at most: queries and weighted sums of values for heads_at_once
 * heads. */
static int64_t max_query_tiles(const gyre_attention_plan *plan, int64_t rows) {
    const int64_t bytes = rows * (plan->head_pad + plan->value_pad) * (int64_t)sizeof(float);
    return gyre_max_i64(plan->heads_at_once, gyre_min_i64(MAX_JOB_QUERY_TILES, JOB_QUERY_BYTES / gyre_max_i64(1, bytes)));
}

/* Divides the work.  A row is computed the same way in any task, so the tasks may depend on the number of threads.  The
 * memory must grow with queries, keys and heads (scratch.h), whichever way they are divided.  So it is counted by the
 * smaller tiles, and there is room for partials and decoding for any number of queries. */
static void schedule_forward(gyre_attention_plan *plan, int64_t concurrency) {
    const int64_t tiles = (plan->queries + SHORT_QUERY_TILE - 1) / SHORT_QUERY_TILE;
    plan->split_keys =
        plan->queries <= MAX_DECODE_QUERIES && !plan->continues && (!plan->fixed_order || gyre_decode_supported(plan));
    plan->heads_at_once = plan->uses_tables ? 1 : plan->group; /* table buffers hold one head */
    plan->job_query_tiles =
        gyre_min_i64(max_query_tiles(plan, SHORT_QUERY_TILE), plan->heads_at_once * gyre_max_i64(1, tiles));
    const int64_t most = gyre_min_i64(plan->job_query_tiles, max_query_tiles(plan, plan->tile_rows)) / plan->heads_at_once;
    const int64_t wanted =
        plan->query_tiles * plan->items * plan->group / plan->heads_at_once / (TASKS_PER_JOB * concurrency);
    plan->chunk_tiles = concurrency == 1 ? most : gyre_min_i64(most, gyre_max_i64(1, wanted));
    plan->chunks = (plan->query_tiles + plan->chunk_tiles - 1) / plan->chunk_tiles;
    plan->split_keys_each = plan->fixed_order ? gyre_max_i64(1, plan->keys) : KEYS_PER_SPLIT;
    plan->key_splits = gyre_max_i64(1, (plan->keys + plan->split_keys_each - 1) / plan->split_keys_each);
    plan->straight_kernel = plan->queries == 1 && gyre_straight_suits(plan);
    plan->most_straight_keys = gyre_decode_most_straight_keys(plan, concurrency == 1);
    plan->heads_together = gyre_decode_heads_together(plan);
    if (plan->fixed_order) /* heads are all there is to share among jobs */
        plan->heads_together = gyre_min_i64(plan->heads_together, gyre_max_i64(1, plan->items / concurrency));
    plan->partial_rows = plan->group * gyre_min_i64(plan->queries, MAX_DECODE_QUERIES);
    plan->key_info_sets = plan->args->k_pos.data && plan->args->k_pos.stride_batch != 0 ? plan->args->q.shape[0] : 1;
    plan->jobs = gyre_min_i64(concurrency, gyre_max_i64(plan->items * plan->group * tiles, plan->items * plan->key_splits));
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
    const int64_t concurrency = gyre_min_i64(gyre_exec_concurrency(exec), MAX_CONCURRENCY);
    *plan = (gyre_attention_plan){.segment = segment,
                                  .args = &segment->args,
                                  .source = &segment->source,
                                  .encoding = segment->args.encoding,
                                  .gradient = gradient,
                                  .is_double = segment->args.q.dtype == GYRE_DTYPE_F64};
    plan->kernels = plan->encoding ? gyre_kernels_beside(plan->encoding->kernels) : gyre_kernels_select();
    measure(plan, &segment->args);
    plan->angle_bytes = plan->is_double ? 0 : gyre_attention_rotation_layout(plan, NULL);
    int counted = 1;
    if (plan->is_double) {
        gyre_double_measure(plan, concurrency);
    } else if (gradient) {
        plan->jobs = gyre_min_i64(concurrency, plan->items);
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

void gyre_attention_plan_set_keys(gyre_attention_plan *plan, gyre_segment *segment, int64_t keys) {
    segment->args.k.shape[1] = segment->args.v.shape[1] = keys;
    segment->query_order = keys - plan->queries;
    plan->keys = keys;
    plan->key_tiles = gyre_tiles_of(keys, KEY_TILE);
    plan->rotation.shared = 0; /* the queries have memory for their angles */
}
