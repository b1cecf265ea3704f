/* table_buffers.c: what an encoding adds by distance, as decided for a segment, and the memory it takes. */
#include "attention/terms/table_buffers.h"
#include "attention/terms/factors.h"
#include "attention/terms/tables.h"
#include "core/positions.h"
#include "core/scheme.h"

#include <string.h>

int gyre_has_vector_table(const gyre_encoding *encoding, gyre_table which, unsigned term) {
    return encoding && (encoding->table[which].rows > 0 || (encoding->fixed_terms & term));
}

/* -- the plan -- */

/* The distances of visible pairs, if positions count up from a base. */
static void measure_distances(gyre_attention_plan *plan) {
    const gyre_attention_inputs *args = plan->args;
    const int windowed = args->sinks == 0 && !plan->by_order; /* sinks may be at any distance */
    const int64_t before = plan->window, after = plan->window_after, most = GYRE_MAX_POSITION;
    if (args->q_pos.data || args->k_pos.data) return;
    if (args->q_pos.base < -most || args->q_pos.base > most || args->k_pos.base < -most || args->k_pos.base > most) return;
    int64_t low = args->k_pos.base - args->q_pos.base - (plan->queries - 1);
    int64_t high = args->k_pos.base - args->q_pos.base + plan->keys - 1;
    if (args->causal && !plan->by_order && high > 0) high = 0;
    if (windowed && before > 0 && low < 1 - before) low = 1 - before;
    if (windowed && after > 0 && high > after - 1) high = after - 1;
    plan->table.first_distance = low;
    plan->table.distance_count = high >= low ? high - low + 1 : 0;
}

/* Only the rows that occur are packed, so a short text does not pay for a long table.  Tiles are scored whole, so distances
 * up to a tile's width outside those of visible pairs occur too. */
static void measure_rows(gyre_attention_plan *plan) {
    const gyre_distance_map *map = &plan->encoding->distance_map;
    const int64_t margin = QUERY_TILE + KEY_TILE;
    plan->table.first_row = 0;
    plan->table.end_row = plan->table.rows;
    if (plan->table.distance_count == 0 || plan->table.rows == 0) return;
    int64_t first = plan->table.first_distance - margin, last = first + plan->table.distance_count + 2 * margin;
    first = first < -map->clip_distance ? -map->clip_distance : first > map->clip_distance ? map->clip_distance : first;
    last = last < -map->clip_distance ? -map->clip_distance : last > map->clip_distance ? map->clip_distance : last;
    plan->table.first_row = plan->table.rows;
    plan->table.end_row = 0;
    for (int64_t distance = first; distance <= last; distance++) {
        const int64_t row = gyre_distance_map_row(map, distance);
        if (row < plan->table.first_row) plan->table.first_row = row;
        if (row >= plan->table.end_row) plan->table.end_row = row + 1;
    }
    plan->table.first_row -= plan->table.first_row % 16; /* they are packed by 16 */
}

void gyre_tables_measure(gyre_attention_plan *plan) {
    const gyre_encoding *encoding = plan->encoding;
    plan->table = (gyre_table_plan){0};
    plan->uses_tables = 0;
    if (!encoding) return;
    plan->table.factors = encoding->query_factors;
    plan->table.query = !plan->table.factors && gyre_has_vector_table(encoding, GYRE_TABLE_QUERY, GYRE_TERM_QUERY);
    plan->table.key = gyre_has_vector_table(encoding, GYRE_TABLE_KEY, GYRE_TERM_KEY);
    plan->table.value = gyre_has_vector_table(encoding, GYRE_TABLE_VALUE, GYRE_TERM_VALUE);
    plan->table.has_score_bias = encoding->scheme->bias_row && !encoding->scheme->bias_tile;
    plan->table.trains_pair_bias = encoding->scheme->bias_tile && encoding->scheme->bias_row_gradient;
    plan->table.content = encoding->table[GYRE_TABLE_CONTENT_BIAS].rows > 0;
    plan->table.position = encoding->table[GYRE_TABLE_POSITION_BIAS].rows > 0;
    plan->table.bias_rows = encoding->table[GYRE_TABLE_BIAS].rows;
    for (int which = GYRE_TABLE_QUERY; which <= GYRE_TABLE_VALUE; which++)
        if (encoding->table[which].rows > 0) plan->table.rows = encoding->table[which].rows;
    if (encoding->fixed_terms) plan->table.rows = 2 * encoding->distance_map.clip_distance + 1;
    plan->table.rows += encoding->zero_row;
    plan->table.query_part =
        plan->parts > plan->products ? plan->part[1] : (gyre_channel_part){0, plan->head_dim, 0, plan->head_pad};
    plan->table.row_pad = (plan->table.rows + 15) / 16 * 16 + 16;
    measure_distances(plan);
    measure_rows(plan);
    plan->uses_tables =
        plan->table.has_score_bias || plan->table.trains_pair_bias || plan->table.rows > 0 || plan->table.content;
}

/* -- memory -- */

int64_t gyre_table_heads_in_item(const gyre_attention_plan *plan, int which) {
    return plan->encoding->table[which].heads > 1 ? plan->group : 1;
}

typedef struct packing {
    gyre_table which;
    int wanted, rows, columns;
    int64_t pad;
} packing;

static void layout_packed(const gyre_attention_plan *plan, gyre_arena *a, const packing *how, gyre_packed_table *packed) {
    *packed = (gyre_packed_table){.head = -1,
                                  .shared = plan->encoding->table[how->which].heads <= 1,
                                  .zero_nonfinite = plan->fixed_order && how->which == GYRE_TABLE_VALUE};
    if (!how->wanted) return;
    if (how->rows) packed->rows = gyre_arena_alloc(a, plan->table.rows * how->pad, sizeof(float));
    if (how->columns) packed->columns = gyre_arena_alloc(a, plan->table.row_pad * how->pad, sizeof(float));
    if (plan->gradient && plan->encoding->table[how->which].rows > 0)
        packed->gradient =
            gyre_arena_alloc(a, gyre_table_heads_in_item(plan, how->which) * plan->table.rows * how->pad, sizeof(float));
}

/* With a query bias, the keys and the query table are multiplied with different queries, which have different gradients. */
static void layout_biases(const gyre_attention_plan *plan, gyre_arena *a, gyre_table_buffers *buffers) {
    const int64_t floats = QUERY_TILE * plan->head_pad, doubles = plan->group * plan->head_pad;
    if ((!plan->table.content && !plan->table.position) || !plan->gradient) return;
    buffers->dq_rows = gyre_arena_alloc(a, floats, sizeof *buffers->dq_rows);
    if (plan->table.content) buffers->dcontent = gyre_arena_alloc(a, doubles, sizeof *buffers->dcontent);
    if (plan->table.position) buffers->dposition = gyre_arena_alloc(a, doubles, sizeof *buffers->dposition);
}

void gyre_tables_layout(const gyre_attention_plan *plan, gyre_arena *a, gyre_table_buffers *buffers) {
    const int64_t pairs = QUERY_TILE * KEY_TILE;
    const int factors = plan->table.factors;
    const packing query = {GYRE_TABLE_QUERY, plan->table.query || factors, plan->gradient || factors, 1,
                           plan->table.query_part.pad};
    const packing key = {GYRE_TABLE_KEY, plan->table.key, 1, 1, plan->head_pad};
    const packing value = {GYRE_TABLE_VALUE, plan->table.value, !plan->gradient, plan->gradient, plan->value_pad};
    buffers->distance = gyre_arena_alloc(a, pairs, sizeof *buffers->distance);
    if (plan->table.has_score_bias) {
        buffers->score_bias = gyre_arena_alloc(a, pairs, sizeof *buffers->score_bias);
        buffers->cached_bias = gyre_arena_alloc(a, plan->queries + plan->keys, sizeof *buffers->cached_bias);
        buffers->cached_bias_head = -1;
    }
    if (plan->gradient && plan->encoding->scheme->bias_row_gradient) {
        if (plan->table.has_score_bias) buffers->dscore_bias = gyre_arena_alloc(a, pairs, sizeof *buffers->dscore_bias);
        buffers->dbias = gyre_arena_alloc(a, plan->table.bias_rows * plan->group, sizeof *buffers->dbias);
    }
    layout_biases(plan, a, buffers);
    if (plan->table.rows > 0) {
        buffers->row = gyre_arena_alloc(a, pairs, sizeof *buffers->row);
        buffers->query_products = gyre_arena_alloc(a, QUERY_TILE * ROW_BLOCK + 16, sizeof *buffers->query_products);
    }
    if (factors) {
        buffers->factor_columns = gyre_arena_floats(a, FACTOR_COLUMNS, plan->head_pad);
        buffers->factored_rows = gyre_arena_floats(a, QUERY_TILE, plan->head_pad);
    }
    if (plan->table.key) buffers->row_reversed = gyre_arena_alloc(a, pairs, sizeof *buffers->row_reversed);
    if (plan->table.key)
        buffers->key_products = gyre_arena_alloc(a, ROW_BLOCK * KEY_BLOCK + 16, sizeof *buffers->key_products);
    layout_packed(plan, a, &query, &buffers->query);
    layout_packed(plan, a, &key, &buffers->key);
    layout_packed(plan, a, &value, &buffers->value);
}

static void clear(const gyre_attention_plan *plan, int which, const gyre_packed_table *packed, int64_t pad) {
    const int64_t rows = plan->table.end_row - plan->table.first_row;
    for (int64_t h = 0; packed->gradient && h < gyre_table_heads_in_item(plan, which); h++)
        memset(packed->gradient + (h * plan->table.rows + plan->table.first_row) * pad, 0,
               (size_t)(rows * pad) * sizeof(float));
}

void gyre_tables_clear(const gyre_attention_plan *plan, gyre_query_buffers *queries) {
    gyre_table_buffers *t = queries->tables;
    clear(plan, GYRE_TABLE_QUERY, &t->query, plan->table.query_part.pad);
    clear(plan, GYRE_TABLE_KEY, &t->key, plan->head_pad);
    clear(plan, GYRE_TABLE_VALUE, &t->value, plan->value_pad);
    const size_t biases = (size_t)(plan->group * plan->head_pad) * sizeof(double);
    if (t->dcontent) memset(t->dcontent, 0, biases);
    if (t->dposition) memset(t->dposition, 0, biases);
    if (t->dbias) memset(t->dbias, 0, (size_t)(plan->table.bias_rows * plan->group) * sizeof *t->dbias);
}
