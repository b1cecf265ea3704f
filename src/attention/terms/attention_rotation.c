/* attention_rotation.c: the angles of a segment, and rows rotated by them. */
#include "attention/terms/attention_rotation.h"
#include "attention/terms/visibility.h"
#include "core/exec.h"
#include "core/positions.h"
#include "core/rotation/rotate_rows.h"
#include "core/scheme.h"

#include <string.h>

static int same_positions(const gyre_positions *a, const gyre_positions *b) {
    if (a->data != b->data) return 0;
    if (!a->data) return a->base == b->base;
    return a->dtype == b->dtype && a->stride_batch == b->stride_batch && a->stride_token == b->stride_token &&
           a->stride_axis == b->stride_axis;
}

/* out = batch rows that need positions of their own. */
static int64_t set_count(const gyre_positions *positions, int64_t batch) {
    return positions->data && positions->stride_batch != 0 ? batch : 1;
}

/* Queries that share their angles with the keys need no memory for them, but a call with fewer queries does not share, and
 * must not need more scratch.  So the memory beside that of the keys is bounded: a query tile past the bound computes its
 * angles for each head, which costs little beside the thousands of keys that such a call has.
 * TRANSIENT_PAIRS: of a row that fits the stack. */
enum { MAX_SEPARATE_QUERY_ROWS = 8192, TRANSIENT_PAIRS = 512 };

/* out = queries of a set whose angles have memory of their own. */
static int64_t separate_query_rows(const gyre_attention_plan *plan) {
    const gyre_rotation_plan *rotation = &plan->rotation;
    const int must_store =
        plan->gradient || rotation->variants[GYRE_ROLE_QUERY] > 1 || rotation->xpos || rotation->pairs > TRANSIENT_PAIRS;
    return must_store || plan->queries < MAX_SEPARATE_QUERY_ROWS ? plan->queries : MAX_SEPARATE_QUERY_ROWS;
}

void gyre_attention_rotation_measure(gyre_attention_plan *plan) {
    const gyre_encoding *encoding = plan->encoding;
    const gyre_attention_inputs *args = plan->args;
    plan->rotation = (gyre_rotation_plan){.variants = {1, 1}};
    if (!encoding || !(encoding->scheme->places & GYRE_PLACE_QUERY_KEY)) return;
    plan->rotation.pairs = encoding->config.rope.dim / 2;
    for (int role = 0; role < 2; role++)
        plan->rotation.variants[role] = gyre_variant_count(&encoding->config, (gyre_role)role);
    plan->rotation.xpos = encoding->xpos_log2_decay != NULL;
    plan->rotation.sets[GYRE_ROLE_QUERY] = set_count(&args->q_pos, args->q.shape[0]);
    plan->rotation.sets[GYRE_ROLE_KEY] = plan->source->rotated ? 0 : set_count(&args->k_pos, args->k.shape[0]);
    const int same = plan->queries == plan->keys && same_positions(&args->q_pos, &args->k_pos);
    const int one_variant = plan->rotation.variants[GYRE_ROLE_QUERY] == 1;
    plan->rotation.shared = same && one_variant && !plan->rotation.xpos && !plan->source->rotated;
    plan->rotation.query_rows = plan->rotation.shared ? plan->queries : separate_query_rows(plan);
}

size_t gyre_attention_rotation_layout(gyre_attention_plan *plan, char *memory) {
    gyre_arena a = {memory, 0};
    gyre_rotation_plan *rotation = &plan->rotation;
    for (int role = 0; rotation->pairs > 0 && role < 2; role++) {
        const int64_t rows = rotation->sets[role] * (role == GYRE_ROLE_QUERY ? separate_query_rows(plan) : plan->keys);
        for (int variant = 0; variant < rotation->variants[role]; variant++)
            rotation->rows[role][variant] = gyre_arena_floats(&a, rows, 2 * rotation->pairs);
    }
    if (rotation->shared) rotation->rows[GYRE_ROLE_QUERY][0] = rotation->rows[GYRE_ROLE_KEY][0];
    rotation->angle_step_memory =
        rotation->pairs > 0 ? gyre_arena_alloc(&a, (int64_t)gyre_rotation_steps_bytes(plan->encoding), 1) : NULL;
    return a.used;
}

/* -- angles -- */

int64_t gyre_xpos_key_center(const gyre_attention_plan *plan, const int64_t *positions, int64_t count) {
    int64_t center = positions[0];
    for (int64_t i = 1; !plan->fixed_order && i < count; i++)
        center = positions[i] > center ? positions[i] : center;
    return center;
}

/* XPOS_QUERY_GRID: few enough positions that a magnitude relative to the multiple below is not small, and enough that a
 * tile has few multiples, each with its own factors. */
enum { XPOS_QUERY_GRID = 16 };

/* out = the position that xPos magnitudes of a query are relative to, in a tile whose lowest is `low`. */
static int64_t query_center(const gyre_attention_plan *plan, int64_t position, int64_t low) {
    const int64_t rest = position % XPOS_QUERY_GRID;
    return plan->fixed_order ? position - (rest < 0 ? rest + XPOS_QUERY_GRID : rest) : low;
}

/* Angles of a tile with xPos: of runs of rows that are relative to one position. */
static void prepare_xpos_tile(const gyre_attention_plan *plan, gyre_rotation_spec *how, int64_t first, int64_t count,
                              float *rows) {
    int64_t position[KEY_TILE], low = INT64_MAX, high = INT64_MIN;
    gyre_positions_read(how->positions, how->batch, first, count, position);
    gyre_min_max(position, count, &low, &high);
    for (int64_t i = 0, end; i < count; i = end) {
        const int is_query = how->role == GYRE_ROLE_QUERY;
        const int64_t center = is_query ? query_center(plan, position[i], low) : gyre_xpos_key_center(plan, position, count);
        for (end = i + 1; end < count && (!is_query || query_center(plan, position[end], low) == center);)
            end++;
        how->center = (double)center;
        gyre_rotation_angles(plan->encoding, how, first + i, end - i, rows + i * 2 * plan->rotation.pairs);
    }
}

/* 1: no query sees any of the keys, so their angles are never read. */
static int never_visible(const gyre_attention_plan *plan, int64_t batch, int64_t first, int64_t count) {
    if (plan->rotation.sets[GYRE_ROLE_KEY] < plan->rotation.sets[GYRE_ROLE_QUERY])
        return 0; /* batch rows may see different keys */
    const gyre_row_range rows = {batch, 0, first, count};
    return !gyre_keys_visible(plan, &rows);
}

/* out = query tiles of a set whose angles are stored. */
static int64_t stored_query_tiles(const gyre_attention_plan *plan) {
    return (plan->rotation.query_rows + plan->tile_rows - 1) / plan->tile_rows;
}

/* Computes the angles of tile `index` of one role, counted over its sets. */
static void prepare_tile(const gyre_attention_plan *plan, gyre_role role, int64_t index) {
    const gyre_rotation_plan *rotation = &plan->rotation;
    const gyre_attention_inputs *args = plan->args;
    const int64_t tiles = role == GYRE_ROLE_QUERY ? stored_query_tiles(plan) : plan->key_tiles;
    const int64_t size = role == GYRE_ROLE_QUERY ? plan->tile_rows : KEY_TILE,
                  all = role == GYRE_ROLE_QUERY ? rotation->query_rows : plan->keys;
    const int64_t first = index % tiles * size, count = all - first < size ? all - first : size;
    gyre_rotation_spec how = {.role = role,
                              .length = args->q_pos.context_length,
                              .batch = index / tiles,
                              .positions = role == GYRE_ROLE_QUERY ? &args->q_pos : &args->k_pos,
                              .steps = rotation->use_angle_steps ? &rotation->steps : NULL};
    if (role == GYRE_ROLE_KEY && (!plan->gradient || plan->segment->accumulate_dkv) &&
        never_visible(plan, how.batch, first, count))
        return; /* (the first gradient of keys rotates all of them back) */
    for (how.variant = 0; how.variant < rotation->variants[role]; how.variant++) {
        float *rows = rotation->rows[role][how.variant] + (how.batch * all + first) * 2 * rotation->pairs;
        if (rotation->xpos)
            prepare_xpos_tile(plan, &how, first, count, rows);
        else
            gyre_rotation_angles(plan->encoding, &how, first, count, rows);
    }
}

static void prepare_task(void *arg, int64_t task) {
    const gyre_attention_plan *plan = arg;
    const int64_t queries =
        plan->rotation.cached_rows[GYRE_ROLE_QUERY] ? 0 : plan->rotation.sets[GYRE_ROLE_QUERY] * stored_query_tiles(plan);
    if (task < queries)
        prepare_tile(plan, GYRE_ROLE_QUERY, task);
    else
        prepare_tile(plan, GYRE_ROLE_KEY, task - queries);
}

/* Positions mostly rise, so the last token shows whether the encoding's own table is long enough. */
static void prepare_steps(gyre_attention_plan *plan) {
    gyre_rotation_plan *rotation = &plan->rotation;
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
    gyre_rotation_plan *rotation = &plan->rotation;
    const gyre_attention_inputs *args = plan->args;
    for (int role = 0; role < 2; role++) {
        const gyre_rotation_spec how = {.role = (gyre_role)role,
                                        .length = args->q_pos.context_length,
                                        .positions = role == GYRE_ROLE_QUERY ? &args->q_pos : &args->k_pos};
        rotation->cached_rows[role] = NULL;
        if (rotation->sets[role] != 1) continue;
        rotation->cached_rows[role] =
            gyre_rotation_cached_rows(plan->encoding, &how, role == GYRE_ROLE_QUERY ? plan->queries : plan->keys);
    }
}

void gyre_attention_rotation_prepare(gyre_attention_plan *plan, const gyre_exec *exec) {
    const gyre_rotation_plan *rotation = &plan->rotation;
    if (rotation->pairs == 0) return;
    prepare_steps(plan);
    find_cached_rows(plan);
    const int64_t queries =
        rotation->cached_rows[GYRE_ROLE_QUERY] ? 0 : rotation->sets[GYRE_ROLE_QUERY] * stored_query_tiles(plan);
    const int64_t keys =
        rotation->shared || rotation->cached_rows[GYRE_ROLE_KEY] ? 0 : rotation->sets[GYRE_ROLE_KEY] * plan->key_tiles;
    gyre_parallel(exec, prepare_task, (void *)plan, queries + keys);
}

/* Queries past the stored ones: one row at a time, its angles on the stack. */
static void rotate_transient(const gyre_attention_plan *plan, const gyre_row_range *rows, float *x) {
    float angles[2 * TRANSIENT_PAIRS];
    const gyre_rotation_spec how = {.role = GYRE_ROLE_QUERY,
                                    .length = plan->args->q_pos.context_length,
                                    .batch = plan->rotation.sets[GYRE_ROLE_QUERY] > 1 ? rows->batch : 0,
                                    .positions = &plan->args->q_pos,
                                    .steps = plan->rotation.use_angle_steps ? &plan->rotation.steps : NULL};
    for (int64_t i = 0; i < rows->count; i++) {
        gyre_rotation_angles(plan->encoding, &how, rows->first + i, 1, angles);
        gyre_rotate_rows(plan->encoding, angles, 1, x + i * plan->head_pad, plan->head_pad, 0);
    }
}

const float *gyre_attention_angle_rows(const gyre_attention_plan *plan, const gyre_row_range *rows,
                                       const gyre_attention_rotation *how) {
    const gyre_rotation_plan *rotation = &plan->rotation;
    const int64_t set = rotation->sets[how->role] > 1 ? rows->batch : 0;
    const int is_cached = rotation->cached_rows[how->role] != NULL;
    if (how->role == GYRE_ROLE_QUERY && !is_cached && rows->first >= rotation->query_rows) return NULL;
    const int64_t all = how->role == GYRE_ROLE_KEY ? plan->keys : is_cached ? plan->queries : rotation->query_rows;
    const float *all_rows = is_cached ? rotation->cached_rows[how->role] : rotation->rows[how->role][how->variant];
    return all_rows + (set * all + rows->first) * 2 * rotation->pairs;
}

void gyre_attention_rotate(const gyre_attention_plan *plan, const gyre_row_range *rows, const gyre_attention_rotation *how,
                           float *x) {
    if (plan->rotation.pairs == 0) return;
    const float *angles = gyre_attention_angle_rows(plan, rows, how);
    if (angles)
        gyre_rotate_rows(plan->encoding, angles, rows->count, x, plan->head_pad, how->transpose);
    else
        rotate_transient(plan, rows, x);
}

void gyre_attention_rotate_shift(const gyre_attention_plan *plan, const int64_t *shift, int64_t count, float *x) {
    int64_t any = 0;
    for (int a = 0; a < GYRE_MAX_AXES; a++)
        any |= shift[a];
    if (plan->rotation.pairs == 0 || any == 0) return;
    const gyre_strided_rows rows = {count, plan->head_pad, x};
    gyre_rotate_rows_by_shift(plan->encoding, plan->args->q_pos.context_length, shift, 1, &rows);
}

/* -- a tile pair -- */

void gyre_attention_near_queries(const gyre_attention_plan *plan, gyre_query_buffers *q, const gyre_tile_pair *tile_pair) {
    q->near_q_rows = q->q_rows[0];
    if (!plan->rotation.xpos) return;
    int64_t center = 0;
    for (int64_t i = 0; i < q->count; i++) {
        const int64_t before = center;
        center = query_center(plan, q->positions[i], q->low);
        if (i == 0 || center != before)
            gyre_xpos_decay_factors(plan->encoding, center - tile_pair->keys->center, plan->head_pad, q->xpos.decay);
        const float *restrict from = q->q_rows[0] + i * plan->head_pad, *restrict xpos_decay = q->xpos.decay;
        float *restrict to = q->xpos.rows + i * plan->head_pad;
        for (int64_t c = 0; c < plan->head_pad; c++)
            to[c] = from[c] * xpos_decay[c];
    }
    q->near_q_rows = q->xpos.rows;
}

void gyre_attention_select_variant(const gyre_attention_plan *plan, const int64_t *keys, int variant, gyre_query_buffers *q,
                                   const gyre_tile_pair *tile_pair) {
    for (int64_t i = 0; i < q->count; i++) {
        const int64_t last = gyre_variant_last_key(&plan->encoding->config, variant, q->positions[i]);
        const float *restrict of_variant = q->variant_scores + i * KEY_TILE;
        float *restrict scores = q->scores + i * KEY_TILE;
        for (int64_t j = 0; j < tile_pair->count; j++)
            scores[j] = keys[j] <= last ? of_variant[j] : scores[j];
    }
}

void gyre_attention_split_variant(const gyre_attention_plan *plan, const int64_t *keys, int variant, gyre_query_buffers *q,
                                  const gyre_tile_pair *tile_pair) {
    for (int64_t i = 0; i < q->count; i++) {
        const int64_t last = gyre_variant_last_key(&plan->encoding->config, variant, q->positions[i]);
        float *restrict of_variant = q->variant_scores + i * KEY_TILE;
        float *restrict dscores = q->gradient->dscores + i * KEY_TILE;
        for (int64_t j = 0; j < tile_pair->count; j++) {
            of_variant[j] = keys[j] <= last ? dscores[j] : 0;
            dscores[j] = keys[j] <= last ? 0 : dscores[j];
        }
    }
}
