/* forward.c: attention of one segment, an online softmax over tiles of keys (Milakov and Gimelshein 2018, arXiv 1805.02867;
 * Dao et al. 2022, arXiv 2205.14135).
 *
 * A job holds many tiles of queries and one tile of keys, which is laid out once and used by all of them, so memory does not
 * grow with the number of keys. */
#include "attention/forward/forward.h"
#include "attention/double/double_attention.h"
#include "attention/forward/attention_weights.h"
#include "attention/forward/decode.h"
#include "attention/forward/row_states.h"
#include "attention/forward/straight.h"
#include "attention/terms/attention_rotation.h"
#include "attention/terms/dropout.h"
#include "attention/terms/tables.h"
#include "attention/terms/visibility.h"
#include "attention/tiles/rows.h"
#include "attention/tiles/scores.h"
#include "attention/tiles/scratch.h"
#include "attention/tiles/tiles.h"
#include "core/exec.h"
#include "core/view.h"
#include <math.h>
#include <string.h>

/* A tile of queries. */
typedef struct query_tile {
    gyre_query_buffers buffers;
    int nonfinite; /* a visible value is infinite or NaN */
} query_tile;

/* The working memory of a job. */
typedef struct worker {
    const gyre_attention_plan *plan;
    gyre_key_buffers keys;
    query_tile *tiles; /* [job_query_tiles] */
    gyre_table_buffers tables;
    char *decode;
} worker;

/* Some query tiles of some heads of an item, and the key tiles that they are computed with. */
typedef struct tile_task {
    int64_t item, head, heads, tile, tiles; /* head: query head; tile: of queries */
    int64_t first, end;                     /* key tiles */
} tile_task;

size_t gyre_forward_job_bytes(const gyre_attention_plan *plan) {
    gyre_arena a = {NULL, 0};
    gyre_key_buffers keys = {0};
    gyre_query_buffers buffers = {0};
    gyre_key_tile_layout(plan, &a, &keys);
    gyre_query_scratch_layout(plan, &a, &buffers, NULL);
    gyre_arena_alloc(&a, plan->job_query_tiles, sizeof(query_tile));
    for (int64_t i = 0; i < plan->job_query_tiles; i++)
        gyre_query_rows_layout(plan, &a, &buffers);
    return a.used + gyre_arena_round_up(gyre_decode_bytes(plan));
}

static void init_worker(const gyre_attention_call *call, int64_t job, worker *w) {
    const gyre_attention_plan *plan = call->plan;
    gyre_arena a = {gyre_job_memory(call, job), 0};
    gyre_query_buffers buffers = {0};
    *w = (worker){.plan = plan};
    gyre_key_tile_layout(plan, &a, &w->keys);
    gyre_query_scratch_layout(plan, &a, &buffers, &w->tables);
    w->tiles = gyre_arena_alloc(&a, plan->job_query_tiles, sizeof(query_tile));
    for (int64_t i = 0; i < plan->job_query_tiles; i++) {
        gyre_query_rows_layout(plan, &a, &buffers);
        w->tiles[i] = (query_tile){.buffers = buffers};
    }
    w->decode = a.memory + a.used;
}

/* *keys = positions, order and tiles of the keys of a batch row, which all jobs share. */
static void find_key_info(const gyre_attention_call *call, int64_t batch, gyre_key_buffers *keys) {
    const gyre_attention_plan *plan = call->plan;
    gyre_arena a = {call->scratch + plan->angle_bytes, 0};
    for (int64_t b = 0; b <= (plan->key_info_sets > 1 ? batch : 0); b++)
        gyre_key_info_layout(plan, &a, keys);
}

static gyre_online_softmax softmax_of(const gyre_attention_plan *plan, gyre_query_buffers *q) {
    return (gyre_online_softmax){plan->kernels, plan->value_pad, q->out_rows, q->row_max, q->row_sum};
}

/* -- a tile pair -- */

static void add_values(const gyre_attention_plan *plan, const gyre_key_buffers *keys, gyre_query_buffers *q,
                       const gyre_tile_pair *tile_pair) {
    for (int64_t i = 0; plan->value_scales_apart && i < q->count; i++)
        gyre_row_multiply(q->scores + i * KEY_TILE, keys->v_scale + tile_pair->first, tile_pair->count);
    const float *values = keys->v_rows + (tile_pair->buffer_tile * KEY_TILE + tile_pair->first) * plan->value_pad;
    for (gyre_row_block block = {0}; gyre_next_row_block(plan, keys, q, tile_pair, &block);) {
        const gyre_matmul product = {.m = block.rows,
                                     .n = plan->value_pad,
                                     .k = block.keys,
                                     .a = q->scores + block.first * KEY_TILE,
                                     .a_row_stride = KEY_TILE,
                                     .a_col_stride = 1,
                                     .b = values,
                                     .b_row_stride = plan->value_pad,
                                     .c = q->out_rows + block.first * plan->value_pad,
                                     .c_row_stride = plan->value_pad,
                                     .accumulate = 1};
        const int finite = keys->v_finite || keys->zero_nonfinite;
        if (plan->bf16_values && finite)
            plan->kernels->matmul_bf16(&product);
        else
            gyre_weighted_product(plan->kernels, &product, finite);
    }
}

static void attend_tile_pair(const gyre_attention_plan *plan, const gyre_key_buffers *keys, gyre_query_buffers *q,
                             const gyre_tile_pair *tile_pair) {
    gyre_tile_pair_score(plan, keys, q, tile_pair);
    const gyre_online_softmax softmax = softmax_of(plan, q);
    gyre_softmax_update(&softmax, 0, q->count, tile_pair->columns, q->scores);
    const gyre_dropout_rows drop = {0, q->count, q->scores, NULL}; /* row_sum is of all weights, dropped ones too */
    gyre_dropout_tile_pair(plan, q, tile_pair, &drop);
    add_values(plan, keys, q, tile_pair);
    if (plan->table.value) gyre_tables_add_values(plan, q, tile_pair);
}

/* out += weights times the infinite and NaN values, which attend_tile_pair took for zeros.  row_max is known. */
static void add_nonfinite_values(const gyre_attention_plan *plan, const gyre_key_buffers *keys, gyre_query_buffers *q,
                                 const gyre_tile_pair *tile_pair) {
    if (keys->v_finite && !plan->table.value) return;
    gyre_tile_pair_score(plan, keys, q, tile_pair);
    for (int64_t i = 0; i < q->count; i++)
        gyre_row_exp(plan, q, tile_pair, i);
    const gyre_dropout_rows drop = {0, q->count, q->scores, NULL};
    gyre_dropout_tile_pair(plan, q, tile_pair, &drop);
    const float *values = keys->v_rows + (tile_pair->buffer_tile * KEY_TILE + tile_pair->first) * plan->value_pad;
    for (int64_t i = 0; i < q->count && !keys->v_finite; i++)
        for (int64_t j = 0; j < tile_pair->count; j++)
            gyre_row_add_nonfinite(q->scores[i * KEY_TILE + j], values + j * plan->value_pad, plan->value_pad,
                                   q->out_rows + i * plan->value_pad);
    if (plan->table.value) gyre_tables_add_nonfinite_values(plan, q, tile_pair);
}

static void find_row_max(const gyre_attention_plan *plan, const gyre_key_buffers *keys, gyre_query_buffers *q,
                         const gyre_tile_pair *tile_pair) {
    gyre_tile_pair_score(plan, keys, q, tile_pair);
    gyre_row_max_update(plan, q, tile_pair);
}

/* -- a task -- */

/* The row of gyre_attention_inputs.state. */
static double *state_of(const gyre_attention_plan *plan, int64_t batch, int64_t query, int64_t head) {
    return gyre_view_at(&plan->args->state, batch, query, head, 0);
}

static void begin_rows(const gyre_attention_plan *plan, gyre_query_buffers *q) {
    const gyre_online_softmax softmax = softmax_of(plan, q);
    gyre_softmax_begin(&softmax, q->count);
    for (int64_t r = 0; plan->continues && r < q->count; r++) {
        gyre_row_state row = {.bias = q->bias[r], .out = q->out_rows + r * plan->value_pad};
        gyre_row_state_load(state_of(plan, q->batch, q->first + r, q->head), plan->value_dim, &row);
        q->row_max[r] = row.row_max, q->row_sum[r] = row.row_sum;
    }
}

static void read_queries(worker *w, const tile_task *s) {
    const gyre_attention_plan *plan = w->plan;
    for (int64_t i = 0; i < s->heads * s->tiles; i++) {
        gyre_query_buffers *q = &w->tiles[i].buffers;
        const int64_t first = (s->tile + i % s->tiles) * plan->tile_rows, left = plan->queries - first;
        const gyre_row_range rows = {s->item / plan->key_heads, s->head + i / s->tiles, first,
                                     left < plan->tile_rows ? left : plan->tile_rows};
        gyre_query_buffers_fill(plan, &w->keys, &rows, q);
        begin_rows(plan, q);
    }
}

typedef void tile_pair_fn(const gyre_attention_plan *plan, const gyre_key_buffers *keys, gyre_query_buffers *q,
                          const gyre_tile_pair *tile_pair);

/* Which tiles of queries: FINITE_TILES, those that have seen no infinite or NaN value, until they see one and become
 * nonfinite; NONFINITE_TILES, the others; or all. */
typedef enum tile_filter { FINITE_TILES, NONFINITE_TILES, ALL_TILES } tile_filter;

/* Calls `what` for each tile pair of a task.  out = 1 if some tile of queries is nonfinite. */
static int for_each_tile_pair(worker *w, const tile_task *s, tile_pair_fn *what, tile_filter which) {
    const gyre_attention_plan *plan = w->plan;
    int nonfinite = 0;
    for (int64_t t = s->first; t < s->end; t++) {
        gyre_tile_pair tile_pair;
        int filled = 0;
        gyre_between(plan);
        w->keys.first_buffer_tile = t;
        for (int64_t i = 0; i < s->heads * s->tiles; i++) {
            query_tile *q = &w->tiles[i];
            nonfinite |= q->nonfinite;
            if (which != ALL_TILES && q->nonfinite != (which == NONFINITE_TILES)) continue;
            if (!gyre_tile_pair_visible(plan, &w->keys, &q->buffers, t, &tile_pair)) continue;
            if (!filled) gyre_key_tile_fill(plan, s->item, t, &w->keys, w->tiles[0].buffers.key_rows);
            filled = 1;
            q->nonfinite |= (which == FINITE_TILES || w->keys.zero_nonfinite) && !w->keys.v_finite;
            nonfinite |= q->nonfinite;
            if (which != FINITE_TILES || !q->nonfinite) what(plan, &w->keys, &q->buffers, &tile_pair);
        }
    }
    return nonfinite;
}

/* The fixed order: a row must not round differently because another row of its tile sees an infinite or NaN value.  So
 * these are zeros at first, and are added once the largest score of each row is known, where only rows that give them
 * weight change.  The queries are read. */
static int attend_in_fixed_order(worker *w, const tile_task *s) {
    w->keys.zero_nonfinite = 1;
    for_each_tile_pair(w, s, attend_tile_pair, ALL_TILES);
    w->keys.zero_nonfinite = 0;
    return for_each_tile_pair(w, s, add_nonfinite_values, NONFINITE_TILES);
}

/* A weight that is 0 in the end must not be multiplied with an infinite or NaN value on the way.  So tiles that see such a
 * value are computed again with their largest score known from the start, where no weight shrinks later.  That rounds
 * differently, so each tile of queries decides for itself: which other tiles are in its task depends on the number of
 * threads.  out = 1 if some tile saw such a value. */
static int attend(worker *w, const tile_task *s) {
    const gyre_attention_plan *plan = w->plan;
    const int64_t count = s->heads * s->tiles;
    read_queries(w, s);
    for (int64_t i = 0; i < count; i++)
        w->tiles[i].nonfinite = plan->table.value && !gyre_tables_values_finite(plan, &w->tiles[i].buffers);
    if (plan->fixed_order) return attend_in_fixed_order(w, s);
    if (!for_each_tile_pair(w, s, attend_tile_pair, FINITE_TILES)) return 0;
    for (int64_t i = 0; i < count; i++)
        if (w->tiles[i].nonfinite) begin_rows(plan, &w->tiles[i].buffers);
    for_each_tile_pair(w, s, find_row_max, NONFINITE_TILES);
    for_each_tile_pair(w, s, attend_tile_pair, NONFINITE_TILES);
    return 1;
}

/* -- finished rows -- */

/* Writes the log-sum-exp of a row; out = factor of its weighted sum of values. */
static float finish_row(const gyre_attention_plan *plan, const gyre_row_range *row, const gyre_row_state *state) {
    const gyre_view *lse = &plan->args->lse;
    const gyre_row_normalizer sum = gyre_row_finish(plan, row->head, state);
    if (!lse->data) return sum.out_scale;
    void *to = gyre_view_at(lse, row->batch, row->first, row->head, 0);
    const double value = plan->fixed_order ? gyre_canonical_f64(sum.lse) : sum.lse;
    if (lse->dtype == GYRE_DTYPE_F64)
        *(double *)to = value;
    else
        *(float *)to = plan->fixed_order ? gyre_canonical((float)value) : (float)value;
    return sum.out_scale;
}

/* Adds the keys of this call to the row of the caller's state; *state = the row over all keys so far.  In the fixed order it
 * went on from there and has them all. */
static void carry_row(const gyre_attention_plan *plan, const gyre_row_range *row, gyre_row_state *state) {
    double *to = state_of(plan, row->batch, row->first, row->head);
    if (plan->continues) {
        gyre_row_state_store(state, plan->value_dim, to);
        return;
    }
    gyre_row_state_add_row(to, state, plan->value_dim);
    state->bias = to[GYRE_STATE_LARGEST];
    gyre_row_state_load(to, plan->value_dim, state);
}

/* The weighted sum of a row becomes its output. */
static void finish_out(const gyre_attention_plan *plan, const gyre_row_range *row, gyre_row_state *state) {
    if (plan->args->state.data) carry_row(plan, row, state);
    gyre_row_rescale(plan->kernels, state->out, plan->value_pad, finish_row(plan, row, state));
    if (!plan->fixed_order) return;
    float *out = state->out;
    for (int64_t c = 0, n = plan->value_pad; c < n; c++)
        out[c] = gyre_canonical(out[c]);
}

static void write_rows(const gyre_attention_plan *plan, gyre_query_buffers *q) {
    for (int64_t i = 0; i < q->count; i++) {
        const gyre_row_range row = {q->batch, q->head, q->first + i, 1};
        gyre_row_state state = {q->row_max[i], q->row_sum[i], q->bias[i], q->out_rows + i * plan->value_pad};
        finish_out(plan, &row, &state);
    }
    const gyre_row_range rows = {q->batch, q->head, q->first, q->count};
    if (plan->args->out.data) gyre_rows_write(plan, &plan->args->out, &rows, q->out_rows, plan->value_pad);
}

static void store_partial(const gyre_attention_plan *plan, const gyre_query_buffers *q, const gyre_partial *to) {
    const int64_t at = q->head % plan->group * plan->queries + q->first;
    memcpy(to->out + at * plan->value_pad, q->out_rows, (size_t)(q->count * plan->value_pad) * sizeof(float));
    memcpy(to->row_max + at, q->row_max, (size_t)q->count * sizeof *q->row_max);
    memcpy(to->row_sum + at, q->row_sum, (size_t)q->count * sizeof *q->row_sum);
    memcpy(to->bias + at, q->bias, (size_t)q->count * sizeof *q->bias);
}

/* -- many queries: chunks of them with all keys -- */

static void run_chunks(void *arg, int64_t job) {
    gyre_attention_call *call = arg;
    const gyre_attention_plan *plan = call->plan;
    const int64_t heads = plan->heads_at_once, groups = plan->items * plan->group / heads;
    worker w;
    init_worker(call, job, &w);
    for (int64_t task; (task = atomic_fetch_add(&call->next, 1)) < call->tasks;) {
        const int64_t tile = (plan->chunks - 1 - task / groups) * plan->chunk_tiles; /* the longest causal rows first */
        const int64_t left = plan->query_tiles - tile, at = task % groups * heads;   /* over all query heads */
        const tile_task s = {.item = at / plan->group,
                             .head = at % plan->query_heads,
                             .heads = heads,
                             .tile = tile,
                             .tiles = left < plan->chunk_tiles ? left : plan->chunk_tiles,
                             .end = plan->key_tiles};
        find_key_info(call, s.item / plan->key_heads, &w.keys);
        attend(&w, &s);
        for (int64_t i = 0; i < s.heads * s.tiles; i++)
            write_rows(plan, &w.tiles[i].buffers);
    }
}

/* -- few queries: splits of the keys, then their sum -- */

/* out = [items]: 1 = a split of the item has seen an infinite or NaN value. */
static atomic_int *nonfinite_items(const gyre_attention_call *call) {
    const gyre_attention_plan *plan = call->plan;
    gyre_arena a = {NULL, 0};
    gyre_arena_alloc(&a, plan->items, sizeof(atomic_int));
    return (atomic_int *)(void *)(gyre_partial_memory(call) + plan->partial_bytes - a.used);
}

/* *to = all heads of an item over key tiles first .. end - 1.  out = 1 if a value was infinite or NaN. */
static int attend_item(worker *w, int64_t item, int64_t first, int64_t end, const gyre_partial *to) {
    const gyre_attention_plan *plan = w->plan;
    int nonfinite = 0;
    for (int64_t h = 0; h < plan->group; h += plan->heads_at_once) {
        const tile_task s = {.item = item,
                             .head = item % plan->key_heads * plan->group + h,
                             .heads = plan->heads_at_once,
                             .tiles = plan->query_tiles,
                             .first = first,
                             .end = end};
        nonfinite |= attend(w, &s);
        for (int64_t i = 0; i < s.heads * s.tiles; i++)
            store_partial(plan, &w->tiles[i].buffers, to);
    }
    return nonfinite;
}

/* out = decoding tasks for one split of one batch row: key heads are read several at a time. */
static int64_t tasks_per_row(const gyre_attention_plan *plan) {
    return (plan->key_heads + plan->heads_together - 1) / plan->heads_together;
}

static void run_decode_task(const gyre_attention_call *call, worker *w, const gyre_decode_task *task) {
    const gyre_attention_plan *plan = call->plan;
    gyre_partial to[MAX_HEADS_TOGETHER];
    int nonfinite[MAX_HEADS_TOGETHER];
    for (int64_t i = 0; i < task->items; i++)
        gyre_partials_layout(plan, gyre_partial_memory(call), task->item + i, task->first / plan->split_keys_each, &to[i]);
    gyre_decode_split(plan, &w->keys, task, w->decode, to, nonfinite);
    for (int64_t i = 0; i < task->items; i++)
        if (nonfinite[i]) atomic_store(&nonfinite_items(call)[task->item + i], 1);
}

static void run_tiled(const gyre_attention_call *call, worker *w, const gyre_decode_task *task) {
    const int64_t first = task->first / KEY_TILE, end = (task->first + task->count + KEY_TILE - 1) / KEY_TILE;
    for (int64_t i = task->item; i < task->item + task->items; i++) {
        gyre_partial to;
        gyre_partials_layout(call->plan, gyre_partial_memory(call), i, task->first / call->plan->split_keys_each, &to);
        if (attend_item(w, i, first, end, &to)) atomic_store(&nonfinite_items(call)[i], 1);
    }
}

static void run_key_splits(void *arg, int64_t job) {
    gyre_attention_call *call = arg;
    const gyre_attention_plan *plan = call->plan;
    const int64_t row_tasks = tasks_per_row(plan), split_tasks = plan->items / plan->key_heads * row_tasks;
    /* The splits of a head one after the other, as its keys are in memory.  Angles are shared by heads: where they are read,
     * those of a split stay in the cache while all heads take it. */
    const int by_head = plan->source->rotated || plan->rotation.pairs == 0;
    worker w;
    init_worker(call, job, &w);
    for (int64_t i; (i = atomic_fetch_add(&call->next, 1)) < call->tasks;) {
        const int64_t row_task = by_head ? i / plan->key_splits : i % split_tasks,
                      split = by_head ? i % plan->key_splits : i / split_tasks;
        const int64_t batch = row_task / row_tasks, head = row_task % row_tasks * plan->heads_together;
        const int64_t first = split * plan->split_keys_each, left = plan->key_heads - head;
        const int64_t keys = plan->keys - first;
        const gyre_decode_task task = {.item = batch * plan->key_heads + head,
                                       .items = left < plan->heads_together ? left : plan->heads_together,
                                       .first = first,
                                       .count = keys < plan->split_keys_each ? keys : plan->split_keys_each};
        gyre_between(plan);
        find_key_info(call, batch, &w.keys);
        if (gyre_decode_supported(plan))
            run_decode_task(call, &w, &task);
        else
            run_tiled(call, &w, &task);
    }
}

/* Items with an infinite or NaN value are computed again over all keys at once, so that no weight shrinks to 0 later. */
static void combine_key_splits(void *arg, int64_t job) {
    gyre_attention_call *call = arg;
    const gyre_attention_plan *plan = call->plan;
    worker w;
    init_worker(call, job, &w);
    for (int64_t item; (item = atomic_fetch_add(&call->next, 1)) < call->tasks;) {
        gyre_partial all;
        gyre_row_state state = {.out = w.tiles[0].buffers.out_rows};
        const int nonfinite = atomic_load(&nonfinite_items(call)[item]);
        gyre_partials_layout(plan, gyre_partial_memory(call), item, 0, &all);
        find_key_info(call, item / plan->key_heads, &w.keys);
        if (nonfinite) attend_item(&w, item, 0, plan->key_tiles, &all);
        for (int64_t i = 0; i < plan->group * plan->queries; i++) {
            gyre_partials_combine(plan, gyre_partial_memory(call), item, nonfinite ? 1 : plan->key_splits, i, &state);
            const gyre_row_range row = {item / plan->key_heads, item % plan->key_heads * plan->group + i / plan->queries,
                                        i % plan->queries, 1};
            finish_out(plan, &row, &state);
            if (plan->args->out.data) gyre_rows_write(plan, &plan->args->out, &row, state.out, plan->value_pad);
        }
    }
}

/* -- gyre_attention_inputs.weights -- */

static void run_weights(void *arg, int64_t job) {
    gyre_attention_call *call = arg;
    const gyre_attention_plan *plan = call->plan;
    const int64_t heads = plan->heads_at_once, groups = plan->items * plan->group / heads;
    int64_t first;
    worker w;
    init_worker(call, job, &w);
    gyre_weights_tiles(plan, &first);
    for (int64_t task; (task = atomic_fetch_add(&call->next, 1)) < call->tasks;) {
        const int64_t at = task % groups * heads; /* over all query heads */
        const tile_task s = {.item = at / plan->group,
                             .head = at % plan->query_heads,
                             .heads = heads,
                             .tile = first + task / groups,
                             .tiles = 1,
                             .end = plan->key_tiles};
        find_key_info(call, s.item / plan->key_heads, &w.keys);
        read_queries(&w, &s);
        for_each_tile_pair(&w, &s, gyre_weights_sum, ALL_TILES);
        for_each_tile_pair(&w, &s, gyre_weights_write, ALL_TILES);
    }
}

/* -- a segment -- */

static void run_tasks(gyre_attention_call *call, const gyre_exec *exec, void (*job)(void *, int64_t), int64_t tasks) {
    atomic_store(&call->next, 0);
    call->tasks = tasks;
    gyre_parallel(exec, job, call, call->plan->jobs < tasks ? call->plan->jobs : tasks);
}

static void fill_info(void *arg, int64_t set) {
    gyre_attention_call *call = arg;
    gyre_key_buffers keys = {0};
    find_key_info(call, set, &keys);
    for (int64_t t = 0; t < call->plan->key_tiles; t++)
        gyre_key_info_fill(call->plan, set, t, &keys);
}

static void run_split_keys(gyre_attention_call *call, const gyre_exec *exec) {
    const gyre_attention_plan *plan = call->plan;
    for (int64_t i = 0; i < plan->items; i++)
        atomic_init(&nonfinite_items(call)[i], 0);
    run_tasks(call, exec, run_key_splits, plan->items / plan->key_heads * tasks_per_row(plan) * plan->key_splits);
    run_tasks(call, exec, combine_key_splits, plan->items);
}

/* One query with few keys, in the caller's thread.  out = 0: a value is infinite or NaN, and all is to be computed again. */
static int run_straight(const gyre_attention_call *call) {
    const gyre_attention_plan *plan = call->plan;
    char *memory;
    int finite;
    gyre_partial part;
    if (gyre_straight_run(plan, &finite)) return finite;
    memory = gyre_job_memory(call, 0) + plan->job_bytes - gyre_arena_round_up(gyre_decode_bytes(plan));
    gyre_partials_layout(plan, gyre_partial_memory(call), 0, 0, &part);
    for (int64_t item = 0; item < plan->items; item++) {
        if (!gyre_decode_straight(plan, item, memory, &part)) return 0;
        for (int64_t i = 0; i < plan->group; i++) {
            gyre_row_state state = {part.row_max[i], part.row_sum[i], 0, part.out + i * plan->value_pad};
            const gyre_row_range row = {item / plan->key_heads, item % plan->key_heads * plan->group + i, 0, 1};
            for (int64_t c = 0; c < plan->value_pad; c++)
                state.out[c] += 0.0F; /* as the sum of partials leaves a negative zero */
            finish_out(plan, &row, &state);
            if (plan->args->out.data) gyre_rows_write(plan, &plan->args->out, &row, state.out, plan->value_pad);
        }
    }
    return 1;
}

void gyre_forward_run(gyre_attention_plan *plan, char *scratch, const gyre_exec *exec) {
    gyre_attention_call call = {.plan = plan, .scratch = scratch};
    int64_t first;
    if (plan->is_double) {
        gyre_double_run(&call, exec);
        return;
    }
    const int64_t groups = plan->items * plan->group / plan->heads_at_once;
    gyre_attention_rotation_layout(plan, scratch);
    gyre_attention_rotation_prepare(plan, exec);
    if (gyre_decode_is_straight(plan) && run_straight(&call)) return;
    gyre_parallel(exec, fill_info, &call, plan->key_info_sets);
    if (plan->split_keys)
        run_split_keys(&call, exec);
    else
        run_tasks(&call, exec, run_chunks, plan->chunks * groups);
    run_tasks(&call, exec, run_weights, gyre_weights_tiles(plan, &first) * groups);
}
