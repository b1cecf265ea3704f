/* scratch.c: the layout of the scratch of a call. */
#include "attention/tiles/scratch.h"
#include "attention/terms/table_buffers.h"

void gyre_key_info_layout(const gyre_attention_plan *plan, gyre_arena *a, gyre_key_buffers *buffers) {
    const int64_t rows = plan->key_tiles * KEY_TILE;
    buffers->positions = gyre_arena_alloc(a, rows, sizeof *buffers->positions);
    buffers->order = plan->by_order ? gyre_arena_alloc(a, rows, sizeof *buffers->order) : buffers->positions;
    buffers->tiles = gyre_arena_alloc(a, plan->key_tiles, sizeof *buffers->tiles);
}

void gyre_key_tile_layout(const gyre_attention_plan *plan, gyre_arena *a, gyre_key_buffers *buffers) {
    for (int variant = 0; variant < plan->rotation.variants[GYRE_ROLE_KEY]; variant++)
        buffers->k_columns[variant] = gyre_arena_floats(a, KEY_TILE, plan->head_pad);
    buffers->v_rows = gyre_arena_floats(a, KEY_TILE, plan->value_pad);
    if (plan->key_scales_apart) buffers->k_scale = gyre_arena_floats(a, 1, KEY_TILE);
    if (plan->value_scales_apart) buffers->v_scale = gyre_arena_floats(a, 1, KEY_TILE);
}

size_t gyre_key_buffers_layout(const gyre_attention_plan *plan, char *memory, gyre_key_buffers *buffers) {
    gyre_arena a = {memory, 0};
    const int64_t rows = plan->key_tiles * KEY_TILE;
    gyre_key_buffers s = {0};
    gyre_key_info_layout(plan, &a, &s);
    for (int variant = 0; variant < plan->rotation.variants[GYRE_ROLE_KEY]; variant++) {
        s.k_columns[variant] = gyre_arena_floats(&a, rows, plan->head_pad);
        s.k_rows[variant] = gyre_arena_floats(&a, rows, plan->head_pad);
        s.dk_rows[variant] = gyre_arena_floats(&a, rows, plan->head_pad);
    }
    s.v_columns = gyre_arena_floats(&a, rows, plan->value_pad);
    s.dv_rows = gyre_arena_floats(&a, rows, plan->value_pad);
    if (plan->gated) s.dgate_sums = gyre_arena_alloc(&a, plan->group * rows, sizeof *s.dgate_sums);
    if (memory) *buffers = s;
    return a.used;
}

void gyre_query_rows_layout(const gyre_attention_plan *plan, gyre_arena *a, gyre_query_buffers *buffers) {
    for (int variant = 0; variant < plan->rotation.variants[GYRE_ROLE_QUERY]; variant++)
        buffers->q_rows[variant] = gyre_arena_floats(a, QUERY_TILE, plan->head_pad);
    buffers->out_rows = gyre_arena_floats(a, QUERY_TILE, plan->value_pad);
    buffers->table_rows = buffers->q_rows[0];
    if (plan->table.content || plan->table.position) buffers->table_rows = gyre_arena_floats(a, QUERY_TILE, plan->head_pad);
    if (!buffers->gradient) return;
    for (int variant = 0; variant < plan->rotation.variants[GYRE_ROLE_QUERY]; variant++)
        buffers->gradient->dq_rows[variant] = gyre_arena_floats(a, QUERY_TILE, plan->head_pad);
    buffers->gradient->dout_rows = gyre_arena_floats(a, QUERY_TILE, plan->value_pad);
}

void gyre_query_scratch_layout(const gyre_attention_plan *plan, gyre_arena *a, gyre_query_buffers *buffers,
                               gyre_table_buffers *tables) {
    gyre_table_buffers t = {0};
    if (plan->rotation.variants[GYRE_ROLE_QUERY] > 1) buffers->variant_scores = gyre_arena_floats(a, QUERY_TILE, KEY_TILE);
    if (plan->rotation.xpos) {
        buffers->xpos.rows = gyre_arena_floats(a, QUERY_TILE, plan->head_pad);
        buffers->xpos.decay = gyre_arena_floats(a, 1, plan->head_pad);
    }
    buffers->scores = gyre_arena_floats(a, QUERY_TILE, KEY_TILE);
    if (plan->products > 1) buffers->phases.products = gyre_arena_floats(a, QUERY_TILE, KEY_TILE);
    if (plan->products > 1 && buffers->gradient) buffers->phases.cosines = gyre_arena_floats(a, QUERY_TILE, KEY_TILE);
    buffers->key_rows = gyre_arena_floats(a, KEY_TILE, plan->head_pad > plan->value_pad ? plan->head_pad : plan->value_pad);
    if (buffers->gradient) {
        buffers->gradient->dscores = gyre_arena_floats(a, QUERY_TILE, KEY_TILE);
        if (plan->softcap > 0) buffers->gradient->cap_slope = gyre_arena_floats(a, QUERY_TILE, KEY_TILE);
    }
    if (plan->uses_tables) gyre_tables_layout(plan, a, &t);
    buffers->tables = tables;
    if (tables) *tables = t;
}
