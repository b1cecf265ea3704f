/* attention_rotation.c: angles of a call, and who turns by which. */
#include "attention/attention_rotation.h"
#include "core/encoding.h"
#include "core/exec.h"
#include "core/positions.h"
#include "core/rotation/angle_table.h"
#include "core/rotation/rotate_rows.h"
#include "core/scheme.h"

#include <string.h>

gyre_status gyre_attention_rotation_check(const gyre_attention_args *args) {
    const gyre_encoding *encoding = args->encoding;
    if (!encoding) return GYRE_OK;
    const int rotates = (encoding->scheme->places & GYRE_PLACE_QUERY_KEY) != 0;
    if (rotates && encoding->config.head_dim != args->q.shape[3]) return GYRE_ESHAPE;
    /* Both grow or shrink with the sign of the distance, which order alone does not tell. */
    return (encoding->xpos_log2_decay || encoding->config.rope.far) && args->causal != 1 ? GYRE_EUNSUPPORTED : GYRE_OK;
}

static int same_positions(const gyre_positions *a, const gyre_positions *b) {
    if (a->data != b->data) return 0;
    if (!a->data) return a->base == b->base;
    return a->dtype == b->dtype && a->stride_batch == b->stride_batch && a->stride_token == b->stride_token &&
           a->stride_axis == b->stride_axis;
}

/* Batch rows whose positions differ. */
static int64_t set_count(const gyre_positions *positions, int64_t batch) {
    return positions->data && positions->stride_batch != 0 ? batch : 1;
}

void gyre_attention_rotation_measure(gyre_attention_plan *plan) {
    const gyre_encoding *encoding = plan->encoding;
    const gyre_attention_args *args = plan->args;
    plan->rotation = (struct gyre_rotation_plan){0};
    if (!encoding || !(encoding->scheme->places & GYRE_PLACE_QUERY_KEY)) return;
    plan->rotation.pairs = encoding->config.rope.dim / 2;
    plan->rotation.far = encoding->config.rope.far != GYRE_FAR_AS_NEAR;
    plan->rotation.window = encoding->config.rope.far_window;
    plan->rotation.xpos = encoding->xpos_log2_decay != NULL;
    plan->rotation.sets[GYRE_ROLE_QUERY] = set_count(&args->q_pos, args->q.shape[0]);
    plan->rotation.sets[GYRE_ROLE_KEY] = plan->source->rotated ? 0 : set_count(&args->k_pos, args->k.shape[0]);
    /* Passes that a larger one stands for may share nothing, however alike its own queries and keys stand. */
    const int alike = plan->queries == plan->keys && same_positions(&args->q_pos, &args->k_pos);
    plan->rotation.shared =
        alike && !plan->rotation.far && !plan->rotation.xpos && !plan->source->rotated && !plan->segment->is_upper_bound;
}

size_t gyre_attention_rotation_layout(gyre_attention_plan *plan, char *memory) {
    gyre_arena a = {memory, 0};
    struct gyre_rotation_plan *rotation = &plan->rotation;
    for (int role = 0; rotation->pairs > 0 && role < 2; role++) {
        const int64_t rows = rotation->sets[role] * (role == GYRE_ROLE_QUERY ? plan->queries : plan->keys);
        for (int far = 0; far <= rotation->far; far++) {
            if (role == GYRE_ROLE_KEY && rotation->shared)
                rotation->rows[role][far] = rotation->rows[GYRE_ROLE_QUERY][far];
            else
                rotation->rows[role][far] = gyre_arena_alloc(&a, rows * 2 * rotation->pairs, sizeof(float));
        }
    }
    rotation->angle_step_memory =
        rotation->pairs > 0 ? gyre_arena_alloc(&a, (int64_t)gyre_rotation_steps_bytes(plan->encoding), 1) : NULL;
    return a.used;
}

/* What xPos leaves of the fastest pair across one tile must stay a float with room to spare. */
static gyre_status check_xpos_range(const gyre_encoding *encoding, const gyre_positions *positions, int64_t batch,
                                    int64_t tokens, int64_t tile) {
    enum { MOST_BITS = 100 };
    const int64_t sets = set_count(positions, batch);
    for (int64_t b = 0; b < sets; b++)
        for (int64_t first = 0; first < tokens; first += tile) {
            int64_t low = INT64_MAX, high = INT64_MIN;
            for (int64_t i = first; i < tokens && i < first + tile; i++) {
                const int64_t position = gyre_position_at(positions, b, i, 0);
                low = position < low ? position : low;
                high = position > high ? position : high;
            }
            if (-encoding->xpos_log2_decay[0] * (double)(high - low) > MOST_BITS) return GYRE_ERANGE;
        }
    return GYRE_OK;
}

gyre_status gyre_attention_rotation_check_range(const gyre_attention_plan *plan) {
    const gyre_attention_args *args = plan->args;
    if (!plan->rotation.xpos) return GYRE_OK;
    const gyre_status status =
        check_xpos_range(plan->encoding, &args->q_pos, args->q.shape[0], plan->queries, plan->tile_rows);
    return status ? status : check_xpos_range(plan->encoding, &args->k_pos, args->k.shape[0], plan->keys, KEY_TILE);
}

/* -- angles -- */

/* The position that magnitudes of a tile are relative to: no query of it is before, no key after. */
static double center_of(const gyre_rotation_spec *rotation, int64_t first, int64_t count) {
    int64_t center = gyre_position_at(rotation->positions, rotation->batch, first, 0);
    for (int64_t i = 1; i < count; i++) {
        const int64_t position = gyre_position_at(rotation->positions, rotation->batch, first + i, 0);
        if (rotation->role == GYRE_ROLE_QUERY ? position < center : position > center) center = position;
    }
    return (double)center;
}

/* 1: no query sees any of the keys; their turns are never asked for. */
static int never_visible(const gyre_attention_plan *plan, int64_t batch, int64_t first, int64_t count) {
    if (plan->rotation.sets[GYRE_ROLE_KEY] < plan->rotation.sets[GYRE_ROLE_QUERY])
        return 0; /* batch rows may see differently */
    const gyre_row_range rows = {batch, 0, first, count};
    return !gyre_keys_visible(plan, &rows);
}

/* Tile `index` of one role, counted over its sets. */
static void prepare_tile(const gyre_attention_plan *plan, gyre_role role, int64_t index) {
    const struct gyre_rotation_plan *rotation = &plan->rotation;
    const gyre_attention_args *args = plan->args;
    const int64_t tiles = role == GYRE_ROLE_QUERY ? plan->query_tiles : plan->key_tiles;
    const int64_t size = role == GYRE_ROLE_QUERY ? plan->tile_rows : KEY_TILE,
                  all = role == GYRE_ROLE_QUERY ? plan->queries : plan->keys;
    const int64_t first = index % tiles * size, count = all - first < size ? all - first : size;
    gyre_rotation_spec how = {.role = role,
                              .length = args->q_pos.context_length,
                              .batch = index / tiles,
                              .positions = role == GYRE_ROLE_QUERY ? &args->q_pos : &args->k_pos,
                              .steps = rotation->use_angle_steps ? &rotation->steps : NULL};
    if (role == GYRE_ROLE_KEY && (!plan->gradient || plan->segment->accumulate_dkv) &&
        never_visible(plan, how.batch, first, count))
        return; /* the first gradient of keys turns all of them back */
    if (rotation->xpos) how.center = center_of(&how, first, count);
    for (how.far = 0; how.far <= rotation->far; how.far++)
        gyre_rotation_angles(plan->encoding, &how, first, count,
                             rotation->rows[role][how.far] + (how.batch * all + first) * 2 * rotation->pairs);
}

static void prepare_task(void *arg, int64_t task) {
    const gyre_attention_plan *plan = arg;
    const int64_t queries =
        plan->rotation.cached_rows[GYRE_ROLE_QUERY] ? 0 : plan->rotation.sets[GYRE_ROLE_QUERY] * plan->query_tiles;
    if (task < queries)
        prepare_tile(plan, GYRE_ROLE_QUERY, task);
    else
        prepare_tile(plan, GYRE_ROLE_KEY, task - queries);
}

/* Positions mostly rise, so the last token tells whether the encoding's own table reaches. */
static void prepare_steps(gyre_attention_plan *plan) {
    struct gyre_rotation_plan *rotation = &plan->rotation;
    const gyre_positions *positions = &plan->args->k_pos;
    const int64_t length = plan->args->q_pos.context_length;
    rotation->use_angle_steps = 0;
    if (rotation->sets[GYRE_ROLE_KEY] == 0 || plan->keys == 0) return;
    const int64_t last = gyre_position_at(positions, rotation->sets[GYRE_ROLE_KEY] - 1, plan->keys - 1, 0);
    rotation->use_angle_steps = gyre_rotation_steps_worthwhile(plan->encoding, length, last, plan->keys);
    if (rotation->use_angle_steps)
        gyre_angle_steps_make(plan->encoding, length, rotation->angle_step_memory, &rotation->steps);
}

static void find_cached_rows(gyre_attention_plan *plan) {
    struct gyre_rotation_plan *rotation = &plan->rotation;
    const gyre_attention_args *args = plan->args;
    for (int role = 0; role < 2; role++) {
        const gyre_rotation_spec how = {.role = (gyre_role)role,
                                        .length = args->q_pos.context_length,
                                        .positions = role == GYRE_ROLE_QUERY ? &args->q_pos : &args->k_pos};
        rotation->cached_rows[role] = NULL;
        if (rotation->sets[role] != 1 || rotation->far) continue;
        rotation->cached_rows[role] =
            gyre_rotation_cached_rows(plan->encoding, &how, role == GYRE_ROLE_QUERY ? plan->queries : plan->keys);
    }
}

void gyre_attention_rotation_prepare(gyre_attention_plan *plan, const gyre_exec *exec) {
    const struct gyre_rotation_plan *rotation = &plan->rotation;
    if (rotation->pairs == 0) return;
    prepare_steps(plan);
    find_cached_rows(plan);
    const int64_t queries = rotation->cached_rows[GYRE_ROLE_QUERY] ? 0 : rotation->sets[GYRE_ROLE_QUERY] * plan->query_tiles;
    const int64_t keys =
        rotation->shared || rotation->cached_rows[GYRE_ROLE_KEY] ? 0 : rotation->sets[GYRE_ROLE_KEY] * plan->key_tiles;
    gyre_parallel(exec, prepare_task, (void *)plan, queries + keys);
}

void gyre_attention_rotate(const gyre_attention_plan *plan, const gyre_row_range *rows, const gyre_attention_rotation *how,
                           float *x) {
    const struct gyre_rotation_plan *rotation = &plan->rotation;
    if (rotation->pairs == 0) return;
    const int64_t all = how->role == GYRE_ROLE_QUERY ? plan->queries : plan->keys;
    const int64_t set = rotation->sets[how->role] > 1 ? rows->batch : 0;
    const float *all_rows =
        rotation->cached_rows[how->role] ? rotation->cached_rows[how->role] : rotation->rows[how->role][how->far];
    const float *angles = all_rows + (set * all + rows->first) * 2 * rotation->pairs;
    gyre_rotate_rows(plan->encoding, angles, rows->count, x, plan->head_pad, how->inverse);
}

void gyre_attention_rotate_shift(const gyre_attention_plan *plan, const int64_t *shift, int64_t count, float *x) {
    int64_t any = 0;
    for (int a = 0; a < GYRE_MAX_AXES; a++)
        any |= shift[a];
    if (plan->rotation.pairs == 0 || any == 0) return;
    const gyre_strided_rows rows = {count, plan->head_pad, x};
    gyre_rotate_rows_by_shift(plan->encoding, plan->args->q_pos.context_length, shift, 1, &rows);
}

/* -- a meeting -- */

void gyre_attention_near_queries(const gyre_attention_plan *plan, gyre_query_buffers *q, const gyre_tile_pair *tile_pair) {
    q->near_q_rows = q->q_rows[0];
    if (!plan->rotation.xpos) return;
    gyre_xpos_decay_factors(plan->encoding, q->low - tile_pair->keys->high, plan->head_pad, q->xpos_decay);
    for (int64_t i = 0; i < q->count; i++) {
        const float *restrict from = q->q_rows[0] + i * plan->head_pad, *restrict xpos_decay = q->xpos_decay;
        float *restrict to = q->xpos_rows + i * plan->head_pad;
        for (int64_t c = 0; c < plan->head_pad; c++)
            to[c] = from[c] * xpos_decay[c];
    }
    q->near_q_rows = q->xpos_rows;
}

void gyre_attention_select_far(const gyre_attention_plan *plan, const int64_t *keys, gyre_query_buffers *q,
                               const gyre_tile_pair *tile_pair) {
    for (int64_t i = 0; i < q->count; i++) {
        const int64_t last = q->positions[i] - plan->rotation.window; /* keys up to here are far */
        const float *restrict far = q->far_scores + i * KEY_TILE;
        float *restrict scores = q->scores + i * KEY_TILE;
        for (int64_t j = 0; j < tile_pair->count; j++)
            scores[j] = keys[j] <= last ? far[j] : scores[j];
    }
}

void gyre_attention_split_far(const gyre_attention_plan *plan, const int64_t *keys, gyre_query_buffers *q,
                              const gyre_tile_pair *tile_pair) {
    for (int64_t i = 0; i < q->count; i++) {
        const int64_t last = q->positions[i] - plan->rotation.window;
        float *restrict far = q->far_scores + i * KEY_TILE;
        float *restrict dscores = q->dscores + i * KEY_TILE;
        for (int64_t j = 0; j < tile_pair->count; j++) {
            far[j] = keys[j] <= last ? dscores[j] : 0;
            dscores[j] = keys[j] <= last ? 0 : dscores[j];
        }
    }
}
