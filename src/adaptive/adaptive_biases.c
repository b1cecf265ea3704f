/* adaptive_biases.c: the biases that the network adapts.
 *
 * A scheme gives a whole tile in float (bias_tile), or a number for each distance.  Both are the same bits for a pair in
 * every tile. */
#include "adaptive/adaptive_biases.h"
#include "adaptive/adaptive_tiles.h"
#include "core/convert.h"
#include "core/encoding.h"
#include "core/positions.h"
#include "core/view.h"

/* -- positions -- */

/* to[i] = the position of token first + i of a sequence that begins at token `start` of the views. */
static void read_positions(const gyre_adaptive_buffers *b, const gyre_positions *positions, int64_t start, int64_t first,
                           int64_t count, int64_t *to) {
    gyre_positions own = *positions;
    if (!own.data) own.base -= start;
    gyre_positions_read(&own, b->sequence.batch, first, count, to);
}

void gyre_adaptive_query_positions(gyre_adaptive_buffers *b) {
    const gyre_adaptive_args *args = b->plan->args;
    const gyre_call_sequence *s = &b->sequence;
    if (args->q_pos) {
        read_positions(b, args->q_pos, s->query, s->query + b->first, b->rows, b->q_positions);
        return;
    }
    for (int64_t i = 0; i < b->rows; i++)
        b->q_positions[i] = s->keys - s->queries + b->first + i;
}

/* out = keys of the tile. */
static int64_t key_positions(gyre_adaptive_buffers *b, int64_t tile) {
    const gyre_adaptive_args *args = b->plan->args;
    const int64_t first = tile * KEY_TILE, left = b->sequence.keys - first, count = left < KEY_TILE ? left : KEY_TILE;
    if (args->k_pos) read_positions(b, args->k_pos, b->sequence.k_start, b->sequence.key + first, count, b->k_positions);
    for (int64_t j = 0; j < count && !args->k_pos; j++)
        b->k_positions[j] = first + j;
    return count;
}

/* -- of a scheme -- */

/* The distances of a tile of a scheme whose bias depends on them alone. */
typedef struct distances {
    int64_t low, count; /* low + i, i < count; 0 = more than MAX_DISTANCES */
    int64_t at[MAX_DISTANCES];
} distances;

static void extend(const int64_t *x, int64_t n, int64_t *low, int64_t *high) {
    for (int64_t i = 0; i < n; i++) {
        *low = x[i] < *low ? x[i] : *low;
        *high = x[i] > *high ? x[i] : *high;
    }
}

static void list_distances(const gyre_adaptive_buffers *b, int64_t keys, distances *d) {
    int64_t q_low = INT64_MAX, q_high = INT64_MIN, k_low = INT64_MAX, k_high = INT64_MIN;
    extend(b->q_positions, b->rows, &q_low, &q_high);
    extend(b->k_positions, keys, &k_low, &k_high);
    d->low = k_low - q_high;
    d->count = k_high - q_low - d->low + 1;
    if (d->count > MAX_DISTANCES) d->count = 0;
    for (int64_t i = 0; i < d->count; i++)
        d->at[i] = d->low + i;
}

static gyre_bias_row row_of(const gyre_adaptive_buffers *b, int64_t head, int64_t i, int64_t keys) {
    const gyre_positions *q_pos = b->plan->args->q_pos;
    return (gyre_bias_row){head, b->q_positions[i], b->k_positions, keys, NULL, q_pos ? q_pos->context_length : 0};
}

static gyre_bias_row row_of_distances(const gyre_adaptive_buffers *b, int64_t head, const distances *d) {
    gyre_bias_row row = row_of(b, head, 0, 0);
    row.q = 0;
    row.k = d->at;
    row.n = d->count;
    return row;
}

/* Biases that fall without bound come relative to those of `nearest`, which is the query's own position: 0 there. */
static void add_tile(const gyre_adaptive_buffers *b, int64_t head, int64_t keys, float *to) {
    const gyre_adaptive_args *args = b->plan->args;
    const gyre_bias_tile tile = {.q = b->q_positions,
                                 .k = b->k_positions,
                                 .nearest = b->q_positions,
                                 .queries = b->rows,
                                 .keys = keys,
                                 .ld = KEY_TILE,
                                 .scores = to,
                                 .length = args->q_pos ? args->q_pos->context_length : 0};
    args->encoding->scheme->bias_tile(args->encoding, args->tables, head, &tile);
}

static void add_distances(const gyre_adaptive_buffers *b, int64_t head, int64_t keys, const distances *d, float *to) {
    const gyre_adaptive_args *args = b->plan->args;
    const gyre_bias_row all = row_of_distances(b, head, d);
    double bias[MAX_DISTANCES];
    args->encoding->scheme->bias_row(args->encoding, args->tables, &all, bias);
    for (int64_t i = 0; i < b->rows; i++) {
        const int64_t first = b->q_positions[i] + d->low; /* the key whose bias is the first of the list */
        for (int64_t j = 0; j < keys; j++)
            to[i * KEY_TILE + j] += (float)bias[b->k_positions[j] - first];
    }
}

static void add_rows(const gyre_adaptive_buffers *b, int64_t head, int64_t keys, float *to) {
    const gyre_adaptive_args *args = b->plan->args;
    double bias[KEY_TILE];
    for (int64_t i = 0; i < b->rows; i++) {
        const gyre_bias_row row = row_of(b, head, i, keys);
        args->encoding->scheme->bias_row(args->encoding, args->tables, &row, bias);
        for (int64_t j = 0; j < keys; j++)
            to[i * KEY_TILE + j] += (float)bias[j];
    }
}

static void add_scheme(const gyre_adaptive_buffers *b, int64_t keys, float *to) {
    const gyre_scheme *scheme = b->plan->args->encoding->scheme;
    distances d = {.count = 0};
    if (!scheme->bias_tile) list_distances(b, keys, &d);
    for (int64_t h = 0; h < b->plan->heads; h++) {
        float *plane = to + h * gyre_adaptive_plane(b);
        if (scheme->bias_tile)
            add_tile(b, h, keys, plane);
        else if (d.count > 0)
            add_distances(b, h, keys, &d, plane);
        else
            add_rows(b, h, keys, plane);
    }
}

/* -- of the caller -- */

/* The place in a view of biases of a query of the tile and the first key of a tile. */
typedef struct bias_place {
    int64_t batch, query, key;
} bias_place;

static bias_place place_of(const gyre_adaptive_buffers *b, int64_t i, int64_t tile) {
    const gyre_call_sequence *s = &b->sequence;
    return (bias_place){s->batch, s->query + b->first + i, s->key - s->k_start + tile * KEY_TILE};
}

static void add_callers(const gyre_adaptive_buffers *b, int64_t tile, int64_t keys, float *to) {
    const gyre_cview *view = &b->plan->args->bias;
    float row[KEY_TILE];
    for (int64_t h = 0; h < b->plan->heads; h++)
        for (int64_t i = 0; i < b->rows; i++) {
            const bias_place at = place_of(b, i, tile);
            float *scores = to + h * gyre_adaptive_plane(b) + i * KEY_TILE;
            gyre_load_row(gyre_cview_at(view, at.batch, at.query, h, at.key), view->dtype, view->stride[3], keys, row);
            for (int64_t j = 0; j < keys; j++)
                scores[j] += row[j];
        }
}

void gyre_adaptive_biases(gyre_adaptive_buffers *b, int64_t tile, float *to) {
    const gyre_adaptive_args *args = b->plan->args;
    const int64_t keys = key_positions(b, tile);
    if (args->encoding) add_scheme(b, keys, to);
    if (args->bias.data) add_callers(b, tile, keys, to);
}

/* -- gradients -- */

/* Sums by distance first, where one call of the scheme then has all. */
static void scheme_backward(gyre_adaptive_buffers *b, int64_t head, int64_t keys, const distances *d, const float *dbiases) {
    const gyre_adaptive_args *args = b->plan->args;
    const gyre_scheme *scheme = args->encoding->scheme;
    const gyre_view table = gyre_dense(b->sums.dtable, GYRE_DTYPE_F64, 1, 1, b->plan->table_rows, b->plan->heads);
    double sum[MAX_DISTANCES] = {0};
    for (int64_t i = 0; i < b->rows; i++) {
        const gyre_bias_row row = row_of(b, head, i, keys);
        for (int64_t j = 0; j < keys; j++)
            if (d->count > 0)
                sum[row.k[j] - row.q - d->low] += (double)dbiases[i * KEY_TILE + j];
            else
                sum[j] = (double)dbiases[i * KEY_TILE + j];
        if (d->count == 0) scheme->bias_row_gradient(args->encoding, args->tables, &row, sum, &table, head);
    }
    const gyre_bias_row all = row_of_distances(b, head, d);
    if (d->count > 0) scheme->bias_row_gradient(args->encoding, args->tables, &all, sum, &table, head);
}

static void write_callers(const gyre_adaptive_buffers *b, int64_t tile, int64_t keys, const float *dbiases) {
    const gyre_view *view = &b->plan->gradients->dbias;
    for (int64_t h = 0; h < b->plan->heads; h++)
        for (int64_t i = 0; i < b->rows; i++) {
            const bias_place at = place_of(b, i, tile);
            gyre_store_row(dbiases + h * gyre_adaptive_plane(b) + i * KEY_TILE, keys,
                           gyre_view_at(view, at.batch, at.query, h, at.key), view->dtype, view->stride[3]);
        }
}

void gyre_adaptive_biases_backward(gyre_adaptive_buffers *b, int64_t tile, const float *dbiases) {
    const gyre_adaptive_args *args = b->plan->args;
    const int64_t keys = key_positions(b, tile);
    distances d = {.count = 0};
    if (b->plan->gradients->dbias.data) write_callers(b, tile, keys, dbiases);
    if (!b->plan->gradients->dtable.data) return;
    if (!args->encoding->scheme->bias_tile) list_distances(b, keys, &d);
    for (int64_t h = 0; h < b->plan->heads; h++)
        scheme_backward(b, h, keys, &d, dbiases + h * gyre_adaptive_plane(b));
}

void gyre_adaptive_biases_clear(const gyre_adaptive_buffers *b) {
    gyre_view view = b->plan->gradients->dbias;
    gyre_view_narrow(&view, 0, b->sequence.batch, 1);
    gyre_view_narrow(&view, 1, b->sequence.query + b->first, b->rows);
    gyre_view_clear(&view);
}
