/* forward.c: gyre_attention, an online softmax over tiles of keys (Milakov and Gimelshein 2018, arXiv 1805.02867;
 * Dao et al. 2022, arXiv 2205.14135).
 *
 * A row keeps its largest score so far, the sum of exp(score - largest) and the weighted sum of values; when a tile brings a
 * larger score, the two sums shrink by exp(old - new).  A job holds many tiles of queries and one tile of keys, which is
 * laid out once and meets all of them, so memory does not grow with the number of keys. */
#include "attention/decode.h"
#include "attention/dropout.h"
#include "attention/option_args.h"
#include "attention/run.h"
#include "attention/sight.h"
#include "attention/tables.h"
#include "attention/tiles.h"
#include "attention/turns.h"
#include "attention/weights.h"
#include "core/view.h"
#include <math.h>
#include <string.h>

/* What a job works with. */
typedef struct worker {
    const gyre_attention_plan *plan;
    gyre_key_side keys;
    gyre_query_side *sides; /* [slots] */
    gyre_table_side tables;
    char *decode;
} worker;

/* A task: some query tiles of some heads of an item, and the key tiles they meet. */
typedef struct share {
    int64_t item, head, heads, tile, tiles; /* head: of the query heads; tile: of queries */
    int64_t first, end;                     /* key tiles */
} share;

size_t gyre_forward_job_bytes(const gyre_attention_plan *plan) {
    gyre_arena a = {NULL, 0};
    gyre_key_side keys = {0};
    gyre_query_side side = {0};
    gyre_key_tile_place(plan, &a, &keys);
    gyre_query_work_place(plan, &a, &side, NULL);
    gyre_arena_take(&a, plan->slots, sizeof(gyre_query_side));
    for (int64_t i = 0; i < plan->slots; i++)
        gyre_query_rows_place(plan, &a, &side);
    return a.used + (gyre_decode_bytes(plan) + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

static void place_worker(const gyre_attention_call *call, int64_t job, worker *w) {
    const gyre_attention_plan *plan = call->plan;
    gyre_arena a = {gyre_job_memory(call, job), 0};
    gyre_query_side side = {0};
    *w = (worker){.plan = plan};
    gyre_key_tile_place(plan, &a, &w->keys);
    gyre_query_work_place(plan, &a, &side, &w->tables);
    w->sides = gyre_arena_take(&a, plan->slots, sizeof(gyre_query_side));
    for (int64_t i = 0; i < plan->slots; i++) {
        gyre_query_rows_place(plan, &a, &side);
        w->sides[i] = side;
    }
    w->decode = a.memory + a.used;
}

/* Where the keys of a batch row are, as every job sees it. */
static void know_keys(const gyre_attention_call *call, int64_t batch, gyre_key_side *keys) {
    const gyre_attention_plan *plan = call->plan;
    gyre_arena a = {call->scratch + plan->turn_bytes, 0};
    for (int64_t b = 0; b <= (plan->infos > 1 ? batch : 0); b++)
        gyre_key_info_place(plan, &a, keys);
}

/* -- a tile of queries and a tile of keys ------------------------------------------------------------------------------ */

/* Sums of weights are of all of them; only then some are dropped. */
static void drop_weights(const gyre_attention_plan *plan, const gyre_query_side *q, const gyre_meeting *meeting) {
    const gyre_pass *pass = plan->pass;
    const gyre_dropout dropout = {plan->args->dropout, plan->args->seed, plan->kernels};
    const gyre_dropout_block block = {.sequence = pass->sequence + q->batch,
                                      .head = q->head,
                                      .query = pass->query_first + q->first,
                                      .rows = q->count,
                                      .key = pass->key_first + meeting->tile * KEY_TILE + meeting->first,
                                      .count = meeting->count};
    if (dropout.chance > 0) gyre_dropout_apply(&dropout, &block, q->scores, KEY_TILE);
}

static void add_values(const gyre_attention_plan *plan, const gyre_key_side *keys, gyre_query_side *q,
                       const gyre_meeting *meeting) {
    const gyre_matmul product = {.m = q->count,
                                 .n = plan->value_pad,
                                 .k = meeting->count,
                                 .a = q->scores,
                                 .a_row = KEY_TILE,
                                 .a_col = 1,
                                 .b = keys->v_rows + (meeting->held * KEY_TILE + meeting->first) * plan->value_pad,
                                 .b_row = plan->value_pad,
                                 .c = q->out_rows,
                                 .c_row = plan->value_pad,
                                 .accumulate = 1};
    gyre_tiles_weigh(plan, &product, keys->v_finite);
}

static void meet(const gyre_attention_plan *plan, const gyre_key_side *keys, gyre_query_side *q,
                 const gyre_meeting *meeting) {
    gyre_tiles_score(plan, keys, q, meeting);
    const gyre_softmax rows = {q->count, meeting->columns, q->scores, q->top, q->sum, q->out_rows};
    gyre_softmax_meet(plan, &rows);
    drop_weights(plan, q, meeting);
    add_values(plan, keys, q, meeting);
    if (plan->table.value) gyre_tables_add_values(plan, q, meeting);
}

static void find_top(const gyre_attention_plan *plan, const gyre_key_side *keys, gyre_query_side *q,
                     const gyre_meeting *meeting) {
    gyre_tiles_score(plan, keys, q, meeting);
    for (int64_t i = 0; i < q->count; i++) {
        float top;
        plan->kernels->max_row_f32(q->scores + i * KEY_TILE, meeting->columns, &top);
        if (top > q->top[i]) q->top[i] = top;
    }
}

/* -- a task ------------------------------------------------------------------------------------------------------------ */

static void begin_rows(const gyre_attention_plan *plan, gyre_query_side *q) {
    memset(q->out_rows, 0, (size_t)(q->count * plan->value_pad) * sizeof(float));
    for (int64_t r = 0; r < q->count; r++)
        q->top[r] = -INFINITY, q->sum[r] = 0;
}

static void read_queries(worker *w, const share *s) {
    const gyre_attention_plan *plan = w->plan;
    for (int64_t i = 0; i < s->heads * s->tiles; i++) {
        gyre_query_side *q = &w->sides[i];
        const int64_t first = (s->tile + i % s->tiles) * plan->tile_rows, left = plan->queries - first;
        const gyre_rows rows = {s->item / plan->key_heads, s->head + i / s->tiles, first,
                                left < plan->tile_rows ? left : plan->tile_rows};
        gyre_query_side_fill(plan, &w->keys, &rows, q);
        begin_rows(plan, q);
    }
}

typedef void work(const gyre_attention_plan *plan, const gyre_key_side *keys, gyre_query_side *q,
                  const gyre_meeting *meeting);

/* Tiles of queries: those that have met no value that is infinite or NaN, and the first such makes them strange; those that
 * are; or all. */
typedef enum which_sides { USUAL, STRANGE, ALL } which_sides;

/* The share's tiles of queries meet its tiles of keys.  out = 1 where some are strange. */
static int meet_all(worker *w, const share *s, work *what, which_sides which) {
    const gyre_attention_plan *plan = w->plan;
    int strange = 0;
    for (int64_t t = s->first; t < s->end; t++) {
        gyre_meeting meeting;
        int filled = 0;
        w->keys.first_held = t;
        for (int64_t i = 0; i < s->heads * s->tiles; i++) {
            gyre_query_side *q = &w->sides[i];
            strange |= q->strange;
            if (which != ALL && q->strange != (which == STRANGE)) continue;
            if (!gyre_tiles_meet(plan, &w->keys, q, t, &meeting)) continue;
            if (!filled) gyre_key_tile_fill(plan, s->item, t, &w->keys, w->sides[0].key_rows);
            filled = 1;
            q->strange |= which == USUAL && !w->keys.v_finite;
            strange |= q->strange;
            if (which != USUAL || !q->strange) what(plan, &w->keys, q, &meeting);
        }
    }
    return strange;
}

/* An infinite or NaN value must not meet a weight that is 0 in the end: with the largest score known, none shrinks.  That
 * is rounded otherwise, so each tile of queries goes by what it meets itself, not by what others of the share do, which
 * the number of threads decides.  out = 1 where some met one. */
static int attend(worker *w, const share *s) {
    const gyre_attention_plan *plan = w->plan;
    const int64_t count = s->heads * s->tiles;
    read_queries(w, s);
    for (int64_t i = 0; i < count; i++)
        w->sides[i].strange = plan->table.value && !gyre_tables_values_finite(plan, &w->sides[i]);
    if (!meet_all(w, s, meet, USUAL)) return 0;
    for (int64_t i = 0; i < count; i++)
        if (w->sides[i].strange) begin_rows(plan, &w->sides[i]);
    meet_all(w, s, find_top, STRANGE);
    meet_all(w, s, meet, STRANGE);
    return 1;
}

/* -- rows that are done ------------------------------------------------------------------------------------------------ */

/* out = what the row's sum of values is multiplied by; its log-sum-exp is written. */
static float finish_row(const gyre_attention_plan *plan, const gyre_rows *row, const gyre_row_state *state) {
    const gyre_view *lse = &plan->args->lse;
    const gyre_row_sum sum = gyre_row_finish(plan, row->head, state);
    if (lse->data) *(float *)gyre_view_at(lse, row->batch, row->first, row->head, 0) = sum.lse;
    return sum.share;
}

static void write_rows(const gyre_attention_plan *plan, gyre_query_side *q) {
    for (int64_t i = 0; i < q->count; i++) {
        const gyre_rows row = {q->batch, q->head, q->first + i, 1};
        const gyre_row_state state = {q->top[i], q->sum[i], q->bias[i], q->out_rows + i * plan->value_pad};
        gyre_row_shrink(plan, state.out, finish_row(plan, &row, &state));
    }
    const gyre_rows rows = {q->batch, q->head, q->first, q->count};
    gyre_rows_write(plan, &plan->args->out, &rows, q->out_rows, plan->value_pad);
}

static void keep_partial(const gyre_attention_plan *plan, const gyre_query_side *q, const gyre_partial *to) {
    const int64_t at = q->head % plan->group * plan->queries + q->first;
    memcpy(to->out + at * plan->value_pad, q->out_rows, (size_t)(q->count * plan->value_pad) * sizeof(float));
    memcpy(to->top + at, q->top, (size_t)q->count * sizeof *q->top);
    memcpy(to->sum + at, q->sum, (size_t)q->count * sizeof *q->sum);
    memcpy(to->bias + at, q->bias, (size_t)q->count * sizeof *q->bias);
}

/* -- many queries: chunks of them against all keys --------------------------------------------------------------------- */

static void run_chunks(void *arg, int64_t job) {
    gyre_attention_call *call = arg;
    const gyre_attention_plan *plan = call->plan;
    const int64_t heads = plan->heads_at_once, groups = plan->items * plan->group / heads;
    worker w;
    place_worker(call, job, &w);
    for (int64_t task; (task = atomic_fetch_add(&call->next, 1)) < call->tasks;) {
        const int64_t tile = (plan->chunks - 1 - task / groups) * plan->chunk_tiles; /* the longest causal rows first */
        const int64_t left = plan->query_tiles - tile, at = task % groups * heads;   /* over all query heads */
        const share s = {.item = at / plan->group,
                         .head = at % plan->query_heads,
                         .heads = heads,
                         .tile = tile,
                         .tiles = left < plan->chunk_tiles ? left : plan->chunk_tiles,
                         .end = plan->key_tiles};
        know_keys(call, s.item / plan->key_heads, &w.keys);
        attend(&w, &s);
        for (int64_t i = 0; i < s.heads * s.tiles; i++)
            write_rows(plan, &w.sides[i]);
    }
}

/* -- few queries: parts of the keys, then their sum -------------------------------------------------------------------- */

static char *partial_memory(const gyre_attention_call *call) {
    return call->scratch + call->plan->turn_bytes + call->plan->info_bytes;
}
/* By item: 1 = a part met a value that is infinite or NaN. */
static atomic_int *strange_items(const gyre_attention_call *call) {
    const gyre_attention_plan *plan = call->plan;
    gyre_arena a = {NULL, 0};
    gyre_arena_take(&a, plan->items, sizeof(atomic_int));
    return (atomic_int *)(void *)(partial_memory(call) + plan->partial_bytes - a.used);
}

/* All heads of an item against key tiles first .. end - 1, into a partial.  out = 1 where a value was strange. */
static int attend_item(worker *w, int64_t item, int64_t first, int64_t end, const gyre_partial *to) {
    const gyre_attention_plan *plan = w->plan;
    int strange = 0;
    for (int64_t h = 0; h < plan->group; h += plan->heads_at_once) {
        const share s = {.item = item,
                         .head = item % plan->key_heads * plan->group + h,
                         .heads = plan->heads_at_once,
                         .tiles = plan->query_tiles,
                         .first = first,
                         .end = end};
        strange |= attend(w, &s);
        for (int64_t i = 0; i < s.heads * s.tiles; i++)
            keep_partial(plan, &w->sides[i], to);
    }
    return strange;
}

/* Tasks of few queries: heads that are read together, of a batch row. */
static int64_t shares_of_row(const gyre_attention_plan *plan) {
    return (plan->key_heads + plan->beside - 1) / plan->beside;
}

static void run_quick(const gyre_attention_call *call, worker *w, const gyre_decode_task *task) {
    const gyre_attention_plan *plan = call->plan;
    gyre_partial to[MOST_BESIDE];
    int strange[MOST_BESIDE];
    for (int64_t i = 0; i < task->items; i++)
        gyre_partials_place(plan, partial_memory(call), task->item + i, task->first / PART_KEYS, &to[i]);
    gyre_decode_part(plan, &w->keys, task, w->decode, to, strange);
    for (int64_t i = 0; i < task->items; i++)
        if (strange[i]) atomic_store(&strange_items(call)[task->item + i], 1);
}

static void run_tiled(const gyre_attention_call *call, worker *w, const gyre_decode_task *task) {
    const int64_t first = task->first / KEY_TILE, end = (task->first + task->count + KEY_TILE - 1) / KEY_TILE;
    for (int64_t i = task->item; i < task->item + task->items; i++) {
        gyre_partial to;
        gyre_partials_place(call->plan, partial_memory(call), i, task->first / PART_KEYS, &to);
        if (attend_item(w, i, first, end, &to)) atomic_store(&strange_items(call)[i], 1);
    }
}

static void run_parts(void *arg, int64_t job) {
    gyre_attention_call *call = arg;
    const gyre_attention_plan *plan = call->plan;
    const int64_t of_row = shares_of_row(plan), shares = plan->items / plan->key_heads * of_row;
    worker w;
    place_worker(call, job, &w);
    for (int64_t i; (i = atomic_fetch_add(&call->next, 1)) < call->tasks;) {
        const int64_t batch = i % shares / of_row, head = i % shares % of_row * plan->beside;
        const int64_t first = i / shares * PART_KEYS, left = plan->key_heads - head;
        const gyre_decode_task task = {.item = batch * plan->key_heads + head,
                                       .items = left < plan->beside ? left : plan->beside,
                                       .first = first,
                                       .count = plan->keys - first < PART_KEYS ? plan->keys - first : PART_KEYS};
        know_keys(call, batch, &w.keys);
        if (gyre_decode_serves(plan))
            run_quick(call, &w, &task);
        else
            run_tiled(call, &w, &task);
    }
}

/* Where a value is strange, all keys at once, so that no weight shrinks to 0 later. */
static void run_sums(void *arg, int64_t job) {
    gyre_attention_call *call = arg;
    const gyre_attention_plan *plan = call->plan;
    worker w;
    place_worker(call, job, &w);
    for (int64_t item; (item = atomic_fetch_add(&call->next, 1)) < call->tasks;) {
        gyre_partial all;
        gyre_row_state state = {.out = w.sides[0].out_rows};
        const int strange = atomic_load(&strange_items(call)[item]);
        gyre_partials_place(plan, partial_memory(call), item, 0, &all);
        know_keys(call, item / plan->key_heads, &w.keys);
        if (strange) attend_item(&w, item, 0, plan->key_tiles, &all);
        for (int64_t i = 0; i < plan->group * plan->queries; i++) {
            gyre_partials_add(plan, partial_memory(call), item, strange ? 1 : plan->parts, i, &state);
            const gyre_rows row = {item / plan->key_heads, item % plan->key_heads * plan->group + i / plan->queries,
                                   i % plan->queries, 1};
            gyre_row_shrink(plan, state.out, finish_row(plan, &row, &state));
            gyre_rows_write(plan, &plan->args->out, &row, state.out, plan->value_pad);
        }
    }
}

/* -- weights that are wanted ---------------------------------------------------------------------------------------------
 */

static void run_weights(void *arg, int64_t job) {
    gyre_attention_call *call = arg;
    const gyre_attention_plan *plan = call->plan;
    const int64_t heads = plan->heads_at_once, groups = plan->items * plan->group / heads;
    int64_t first;
    worker w;
    place_worker(call, job, &w);
    gyre_weights_tiles(plan, &first);
    for (int64_t task; (task = atomic_fetch_add(&call->next, 1)) < call->tasks;) {
        const int64_t at = task % groups * heads; /* over all query heads */
        const share s = {.item = at / plan->group,
                         .head = at % plan->query_heads,
                         .heads = heads,
                         .tile = first + task / groups,
                         .tiles = 1,
                         .end = plan->key_tiles};
        know_keys(call, s.item / plan->key_heads, &w.keys);
        read_queries(&w, &s);
        meet_all(&w, &s, gyre_weights_sum, ALL);
        meet_all(&w, &s, gyre_weights_put, ALL);
    }
}

/* -- a pass ------------------------------------------------------------------------------------------------------------ */

static void run(gyre_attention_call *call, const gyre_exec *exec, void (*job)(void *, int64_t), int64_t tasks) {
    atomic_store(&call->next, 0);
    call->tasks = tasks;
    gyre_parallel(exec, job, call, call->plan->jobs < tasks ? call->plan->jobs : tasks);
}

static void fill_info(void *arg, int64_t set) {
    gyre_attention_call *call = arg;
    gyre_key_side keys = {0};
    know_keys(call, set, &keys);
    for (int64_t t = 0; t < call->plan->key_tiles; t++)
        gyre_key_info_fill(call->plan, set, t, &keys);
}

static void run_few(gyre_attention_call *call, const gyre_exec *exec) {
    const gyre_attention_plan *plan = call->plan;
    for (int64_t i = 0; i < plan->items; i++)
        atomic_init(&strange_items(call)[i], 0);
    run(call, exec, run_parts, plan->items / plan->key_heads * shares_of_row(plan) * plan->parts);
    run(call, exec, run_sums, plan->items);
}

static void run_pass(gyre_attention_plan *plan, char *scratch, const gyre_exec *exec) {
    gyre_attention_call call = {.plan = plan, .scratch = scratch};
    const int64_t groups = plan->items * plan->group / plan->heads_at_once;
    int64_t first;
    gyre_turns_place(plan, scratch);
    gyre_turns_prepare(plan, exec);
    gyre_parallel(exec, fill_info, &call, plan->infos);
    if (plan->few)
        run_few(&call, exec);
    else
        run(&call, exec, run_chunks, plan->chunks * groups);
    run(&call, exec, run_weights, gyre_weights_tiles(plan, &first) * groups);
}

/* -- a call ------------------------------------------------------------------------------------------------------------ */

gyre_status gyre_attention_run_check(const gyre_attention_args *args, const gyre_key_source *source, const void *scratch,
                                     size_t bytes, const gyre_exec *exec) {
    gyre_attention_plan plan;
    gyre_passes passes;
    gyre_pass pass;
    gyre_status status = gyre_attention_args_check(args, source);
    if (!status) status = gyre_weights_check(args);
    if (status || gyre_view_elements(args->out.shape) == 0) return status;
    status = gyre_attention_views_check(args, source);
    if (!status) status = gyre_passes_positions_check(args);
    gyre_passes_begin(&passes, args, source);
    while (!status && gyre_passes_next(&passes, &pass)) {
        status = gyre_attention_plan_make(&plan, &pass, 0, exec);
        if (!status) status = gyre_attention_plan_check(&plan, scratch, bytes);
    }
    return status;
}

gyre_status gyre_attention_run(const gyre_attention_args *args, const gyre_key_source *source, void *scratch, size_t bytes,
                               const gyre_exec *exec) {
    gyre_attention_plan plan;
    gyre_passes passes;
    gyre_pass pass;
    gyre_status status = gyre_attention_run_check(args, source, scratch, bytes, exec);
    if (status || gyre_view_elements(args->out.shape) == 0) return status;
    gyre_weights_clear(args, exec);
    gyre_passes_begin(&passes, args, source);
    while (gyre_passes_next(&passes, &pass)) {
        status = gyre_attention_plan_make(&plan, &pass, 0, exec);
        if (status) return status;
        if (plan.queries > 0) run_pass(&plan, scratch, exec);
    }
    return GYRE_OK;
}

size_t gyre_attention_run_scratch(const gyre_attention_args *args, const gyre_key_source *source, const gyre_exec *exec) {
    gyre_attention_plan plan;
    gyre_pass pass;
    if (gyre_attention_args_check(args, source) || gyre_weights_check(args)) return 0;
    gyre_passes_largest(args, source, &pass);
    if (gyre_attention_plan_make(&plan, &pass, 0, exec)) return 0;
    return plan.bytes > 0 ? plan.bytes : ALIGNMENT; /* 0 means invalid */
}

gyre_status gyre_attention(const gyre_attention_args *args, void *scratch, size_t bytes, const gyre_exec *exec) {
    return gyre_attention_run(args, NULL, scratch, bytes, exec);
}
