/* turns.c: angles of a call, and who turns by which. */
#include "attention/turns.h"
#include "core/rotation/angle_table.h"

#include <string.h>

gyre_status gyre_turns_check(const gyre_attention_args *args) {
    const gyre_encoding *encoding = args->encoding;
    if (!encoding) return GYRE_OK;
    const int turns = (encoding->scheme->places & GYRE_AT_QUERY_KEY) != 0;
    if (turns && encoding->config.head_dim != args->q.shape[3]) return GYRE_ESHAPE;
    /* Both grow or shrink with the sign of the distance, which order alone does not tell. */
    return (encoding->decay || encoding->config.rope.far) && args->causal != 1 ? GYRE_EUNSUPPORTED : GYRE_OK;
}

static int same_positions(const gyre_positions *a, const gyre_positions *b) {
    if (a->data != b->data) return 0;
    if (!a->data) return a->base == b->base;
    return a->dtype == b->dtype && a->stride_batch == b->stride_batch && a->stride_token == b->stride_token &&
           a->stride_axis == b->stride_axis;
}

/* Batch rows whose positions differ. */
static int64_t sets_of(const gyre_positions *positions, int64_t batch) {
    return positions->data && positions->stride_batch != 0 ? batch : 1;
}

void gyre_turns_measure(gyre_attention_plan *plan) {
    const gyre_encoding *encoding = plan->encoding;
    const gyre_attention_args *args = plan->args;
    plan->turn = (struct gyre_turn_plan){0};
    if (!encoding || !(encoding->scheme->places & GYRE_AT_QUERY_KEY)) return;
    plan->turn.pairs = encoding->config.rope.dim / 2;
    plan->turn.far = encoding->config.rope.far != GYRE_FAR_AS_NEAR;
    plan->turn.window = encoding->config.rope.window;
    plan->turn.fades = encoding->decay != NULL;
    plan->turn.sets[GYRE_QUERY] = sets_of(&args->q_pos, args->q.shape[0]);
    plan->turn.sets[GYRE_KEY] = plan->source->turned ? 0 : sets_of(&args->k_pos, args->k.shape[0]);
    /* Passes that a larger one stands for may share nothing, however alike its own queries and keys stand. */
    const int alike = plan->queries == plan->keys && same_positions(&args->q_pos, &args->k_pos);
    plan->turn.shared =
        alike && !plan->turn.far && !plan->turn.fades && !plan->source->turned && !plan->pass->stands_for_all;
}

size_t gyre_turns_place(gyre_attention_plan *plan, char *memory) {
    gyre_arena a = {memory, 0};
    struct gyre_turn_plan *turn = &plan->turn;
    for (int role = 0; turn->pairs > 0 && role < 2; role++) {
        const int64_t rows = turn->sets[role] * (role == GYRE_QUERY ? plan->queries : plan->keys);
        for (int far = 0; far <= turn->far; far++) {
            if (role == GYRE_KEY && turn->shared)
                turn->rows[role][far] = turn->rows[GYRE_QUERY][far];
            else
                turn->rows[role][far] = gyre_arena_take(&a, rows * 2 * turn->pairs, sizeof(float));
        }
    }
    turn->step_memory = turn->pairs > 0 ? gyre_arena_take(&a, (int64_t)gyre_turn_steps_bytes(plan->encoding), 1) : NULL;
    return a.used;
}

/* What xPos leaves of the fastest pair across one tile must stay a float with room to spare. */
static gyre_status check_spans(const gyre_encoding *encoding, const gyre_positions *positions, int64_t batch, int64_t tokens,
                               int64_t tile) {
    enum { MOST_BITS = 100 };
    const int64_t sets = sets_of(positions, batch);
    for (int64_t b = 0; b < sets; b++)
        for (int64_t first = 0; first < tokens; first += tile) {
            int64_t low = INT64_MAX, high = INT64_MIN;
            for (int64_t i = first; i < tokens && i < first + tile; i++) {
                const int64_t position = gyre_position_at(positions, b, i, 0);
                low = position < low ? position : low;
                high = position > high ? position : high;
            }
            if (-encoding->decay[0] * (double)(high - low) > MOST_BITS) return GYRE_ERANGE;
        }
    return GYRE_OK;
}

gyre_status gyre_turns_range(const gyre_attention_plan *plan) {
    const gyre_attention_args *args = plan->args;
    if (!plan->turn.fades) return GYRE_OK;
    const gyre_status status = check_spans(plan->encoding, &args->q_pos, args->q.shape[0], plan->queries, plan->tile_rows);
    return status ? status : check_spans(plan->encoding, &args->k_pos, args->k.shape[0], plan->keys, KEY_TILE);
}

/* -- angles ---------------------------------------------------------------------------------------------------------- */

/* The position that magnitudes of a tile are relative to: no query of it is before, no key after. */
static double center_of(const gyre_turn *turn, int64_t first, int64_t count) {
    int64_t center = gyre_position_at(turn->positions, turn->batch, first, 0);
    for (int64_t i = 1; i < count; i++) {
        const int64_t position = gyre_position_at(turn->positions, turn->batch, first + i, 0);
        if (turn->role == GYRE_QUERY ? position < center : position > center) center = position;
    }
    return (double)center;
}

/* 1: no query sees any of the keys; their turns are never asked for. */
static int unseen(const gyre_attention_plan *plan, int64_t batch, int64_t first, int64_t count) {
    if (plan->turn.sets[GYRE_KEY] < plan->turn.sets[GYRE_QUERY]) return 0; /* batch rows may see differently */
    const gyre_rows rows = {batch, 0, first, count};
    return !gyre_tiles_seen(plan, &rows);
}

/* Tile `index` of one role, counted over its sets. */
static void prepare_tile(const gyre_attention_plan *plan, gyre_role role, int64_t index) {
    const struct gyre_turn_plan *turn = &plan->turn;
    const gyre_attention_args *args = plan->args;
    const int64_t tiles = role == GYRE_QUERY ? plan->query_tiles : plan->key_tiles;
    const int64_t size = role == GYRE_QUERY ? plan->tile_rows : KEY_TILE,
                  all = role == GYRE_QUERY ? plan->queries : plan->keys;
    const int64_t first = index % tiles * size, count = all - first < size ? all - first : size;
    gyre_turn how = {.role = role,
                     .length = args->q_pos.length,
                     .batch = index / tiles,
                     .positions = role == GYRE_QUERY ? &args->q_pos : &args->k_pos,
                     .steps = turn->by_steps ? &turn->steps : NULL};
    if (role == GYRE_KEY && (!plan->gradient || plan->pass->again) && unseen(plan, how.batch, first, count))
        return; /* the first gradient of keys turns all of them back */
    if (turn->fades) how.center = center_of(&how, first, count);
    for (how.far = 0; how.far <= turn->far; how.far++)
        gyre_turn_angles(plan->encoding, &how, first, count,
                         turn->rows[role][how.far] + (how.batch * all + first) * 2 * turn->pairs);
}

static void prepare_task(void *arg, int64_t task) {
    const gyre_attention_plan *plan = arg;
    const int64_t queries = plan->turn.kept[GYRE_QUERY] ? 0 : plan->turn.sets[GYRE_QUERY] * plan->query_tiles;
    if (task < queries)
        prepare_tile(plan, GYRE_QUERY, task);
    else
        prepare_tile(plan, GYRE_KEY, task - queries);
}

/* Positions mostly rise, so the last token tells whether the encoding's own table reaches. */
static void prepare_steps(gyre_attention_plan *plan) {
    struct gyre_turn_plan *turn = &plan->turn;
    const gyre_positions *positions = &plan->args->k_pos;
    const int64_t length = plan->args->q_pos.length;
    turn->by_steps = 0;
    if (turn->sets[GYRE_KEY] == 0 || plan->keys == 0) return;
    const int64_t last = gyre_position_at(positions, turn->sets[GYRE_KEY] - 1, plan->keys - 1, 0);
    turn->by_steps = gyre_turn_steps_pay(plan->encoding, length, last, plan->keys);
    if (turn->by_steps) gyre_angle_steps_make(plan->encoding, length, turn->step_memory, &turn->steps);
}

static void find_kept(gyre_attention_plan *plan) {
    struct gyre_turn_plan *turn = &plan->turn;
    const gyre_attention_args *args = plan->args;
    for (int role = 0; role < 2; role++) {
        const gyre_turn how = {.role = (gyre_role)role,
                               .length = args->q_pos.length,
                               .positions = role == GYRE_QUERY ? &args->q_pos : &args->k_pos};
        turn->kept[role] = NULL;
        if (turn->sets[role] != 1 || turn->far) continue;
        turn->kept[role] = gyre_turn_kept(plan->encoding, &how, role == GYRE_QUERY ? plan->queries : plan->keys);
    }
}

void gyre_turns_prepare(gyre_attention_plan *plan, const gyre_exec *exec) {
    const struct gyre_turn_plan *turn = &plan->turn;
    if (turn->pairs == 0) return;
    prepare_steps(plan);
    find_kept(plan);
    const int64_t queries = turn->kept[GYRE_QUERY] ? 0 : turn->sets[GYRE_QUERY] * plan->query_tiles;
    const int64_t keys = turn->shared || turn->kept[GYRE_KEY] ? 0 : turn->sets[GYRE_KEY] * plan->key_tiles;
    gyre_parallel(exec, prepare_task, (void *)plan, queries + keys);
}

void gyre_turns_apply(const gyre_attention_plan *plan, const gyre_rows *rows, const gyre_turned *how, float *x) {
    const struct gyre_turn_plan *turn = &plan->turn;
    if (turn->pairs == 0) return;
    const int64_t all = how->role == GYRE_QUERY ? plan->queries : plan->keys;
    const int64_t set = turn->sets[how->role] > 1 ? rows->batch : 0;
    const float *all_rows = turn->kept[how->role] ? turn->kept[how->role] : turn->rows[how->role][how->far];
    const float *angles = all_rows + (set * all + rows->first) * 2 * turn->pairs;
    gyre_turn_rows(plan->encoding, angles, rows->count, x, plan->head_pad, how->back);
}

void gyre_turns_shift(const gyre_attention_plan *plan, const int64_t *shift, int64_t count, float *x) {
    int64_t any = 0;
    for (int a = 0; a < GYRE_MAX_AXES; a++)
        any |= shift[a];
    if (plan->turn.pairs == 0 || any == 0) return;
    const gyre_shifted rows = {count, plan->head_pad, x};
    gyre_turn_shift(plan->encoding, plan->args->q_pos.length, shift, 1, &rows);
}

/* -- a meeting --------------------------------------------------------------------------------------------------------- */

void gyre_turns_meet(const gyre_attention_plan *plan, gyre_query_side *q, const gyre_meeting *meeting) {
    q->seen_rows = q->q_rows[0];
    if (!plan->turn.fades) return;
    gyre_turn_fade(plan->encoding, q->low - meeting->keys->high, plan->head_pad, q->fade);
    for (int64_t i = 0; i < q->count; i++) {
        const float *restrict from = q->q_rows[0] + i * plan->head_pad, *restrict fade = q->fade;
        float *restrict to = q->faded_rows + i * plan->head_pad;
        for (int64_t c = 0; c < plan->head_pad; c++)
            to[c] = from[c] * fade[c];
    }
    q->seen_rows = q->faded_rows;
}

void gyre_turns_choose(const gyre_attention_plan *plan, const int64_t *keys, gyre_query_side *q,
                       const gyre_meeting *meeting) {
    for (int64_t i = 0; i < q->count; i++) {
        const int64_t last = q->positions[i] - plan->turn.window; /* keys up to here are far */
        const float *restrict far = q->far_scores + i * KEY_TILE;
        float *restrict scores = q->scores + i * KEY_TILE;
        for (int64_t j = 0; j < meeting->count; j++)
            scores[j] = keys[j] <= last ? far[j] : scores[j];
    }
}

void gyre_turns_divide(const gyre_attention_plan *plan, const int64_t *keys, gyre_query_side *q,
                       const gyre_meeting *meeting) {
    for (int64_t i = 0; i < q->count; i++) {
        const int64_t last = q->positions[i] - plan->turn.window;
        float *restrict far = q->far_scores + i * KEY_TILE;
        float *restrict dscores = q->dscores + i * KEY_TILE;
        for (int64_t j = 0; j < meeting->count; j++) {
            far[j] = keys[j] <= last ? dscores[j] : 0;
            dscores[j] = keys[j] <= last ? 0 : dscores[j];
        }
    }
}
