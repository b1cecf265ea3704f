/* adaptive_tiles.c: a tile of queries of all heads, and its products with a tile of keys.
 *
 * A pair has the same numbers in every tile: products sum over channels, the network over heads, both in an order that does
 * not depend on the other pairs.  With call/tile_rows.h that fixes the bits of a row. */
#include "adaptive/adaptive_tiles.h"
#include "adaptive/adaptive_biases.h"
#include "core/view.h"

#include <string.h>

/* -- rows -- */

void gyre_adaptive_rows_begin(gyre_adaptive_buffers *b, int64_t sequence, int64_t first) {
    const gyre_adaptive_plan *plan = b->plan;
    b->sequence_index = sequence;
    b->sequence = gyre_adaptive_sequence(plan, sequence);
    b->first = first;
    const int64_t left = b->sequence.queries - first;
    b->rows = left < ADAPTIVE_ROWS ? left : ADAPTIVE_ROWS;
    b->all_rows = (gyre_query_rows){
        .batch = b->sequence.batch, .query = b->sequence.query + first, .count = plan->heads * b->rows, .queries = b->rows};
    gyre_query_rows_read(plan->kernels, &b->all_rows, &plan->args->q, b->q_rows, plan->head_pad);
    plan->kernels->scale_row_f32(b->q_rows, b->all_rows.count * plan->head_pad, (float)plan->args->scale);
    gyre_adaptive_query_positions(b);
}

int64_t gyre_adaptive_visible(const gyre_adaptive_buffers *b, int64_t row) {
    const gyre_call_sequence *s = &b->sequence;
    const int64_t sees = b->plan->args->two_sided ? s->keys : s->keys - s->queries + b->first + row + 1;
    return sees > 0 ? sees : 0;
}

int64_t gyre_adaptive_tiles_seen(const gyre_adaptive_buffers *b) {
    return gyre_tiles_of(gyre_adaptive_visible(b, b->rows - 1), KEY_TILE);
}

int64_t gyre_adaptive_seen(const gyre_adaptive_buffers *b, int64_t row, int64_t tile) {
    const int64_t seen = gyre_adaptive_visible(b, row) - tile * KEY_TILE;
    return seen < 0 ? 0 : seen > KEY_TILE ? KEY_TILE : seen;
}

/* -- keys -- */

void gyre_adaptive_read_keys(gyre_adaptive_buffers *b, int64_t head, int64_t tile) {
    const gyre_adaptive_plan *plan = b->plan;
    const gyre_key_reader keys = {plan->kernels, &plan->source, GYRE_KEYS, plan->args->q.shape[3], plan->head_pad, 0};
    gyre_tile_read_keys(&keys, &b->sequence, head, tile, b->key_rows);
}

void gyre_adaptive_read_values(gyre_adaptive_buffers *b, int64_t head, int64_t tile) {
    const gyre_adaptive_plan *plan = b->plan;
    const gyre_key_reader values = {plan->kernels, &plan->source, GYRE_VALUES, plan->args->v.shape[3], plan->value_pad, 0};
    gyre_tile_read_keys(&values, &b->sequence, head, tile, b->value_rows);
}

/* -- what the network reads -- */

static void multiply_keys(gyre_adaptive_buffers *b, int64_t tile) {
    const gyre_adaptive_plan *plan = b->plan;
    for (int64_t h = 0; h < plan->heads; h++) {
        if (h % plan->group == 0) {
            gyre_adaptive_read_keys(b, h / plan->group, tile);
            gyre_tile_transpose(plan->kernels, b->key_rows, plan->head_pad, b->key_columns);
        }
        gyre_tile_products(plan->kernels, b->q_rows + h * b->rows * plan->head_pad, b->rows, plan->head_pad,
                           plan->args->q.shape[3], b->key_columns, b->x + h * gyre_adaptive_plane(b));
    }
}

/* x = 0 where a query does not see a key: an infinite or NaN key must not reach sums over pairs. */
static void clear_unseen(gyre_adaptive_buffers *b, int64_t tile) {
    const int64_t planes = 2 * b->plan->heads, plane = gyre_adaptive_plane(b);
    for (int64_t i = 0; i < b->rows; i++) {
        const int64_t seen = gyre_adaptive_seen(b, i, tile);
        for (int64_t h = 0; h < planes && seen < KEY_TILE; h++)
            memset(b->x + h * plane + i * KEY_TILE + seen, 0, (size_t)(KEY_TILE - seen) * sizeof(float));
    }
}

void gyre_adaptive_inputs(gyre_adaptive_buffers *b, int64_t tile) {
    const gyre_adaptive_plan *plan = b->plan;
    const int64_t plane = gyre_adaptive_plane(b);
    float *biases = b->x + plan->heads * plane;
    multiply_keys(b, tile);
    memset(biases, 0, (size_t)(plan->heads * plane) * sizeof(float));
    if (plan->biased) gyre_adaptive_biases(b, tile, biases);
    clear_unseen(b, tile);
    for (int64_t h = 0; h < plan->heads && plan->adds && plan->biased; h++) {
        float *products = b->x + h * plane;
        plan->kernels->add_f32(products, products, biases + h * plane, b->rows * KEY_TILE);
    }
}
