/* tables.c: what an encoding adds by distance, for one tile pair at a time. */
#include "attention/terms/tables.h"
#include "attention/terms/softmax.h"
#include "attention/terms/table_packing.h"
#include "core/convert.h"
#include "core/encoding.h"
#include "core/scheme.h"
#include "core/table_view.h"
#include "core/view.h"
#include "util/integers.h"

#include <string.h>

/* -- biases of the query -- */

/* rows[i] += scale bias[head] */
static void add_bias(const gyre_attention_plan *plan, const gyre_query_buffers *q, gyre_table which, float *rows) {
    enum { CHUNK = 64 };
    const gyre_cview *view = gyre_table_of(plan->args->tables, which);
    float bias[CHUNK];
    for (int64_t first = 0; first < plan->head_dim; first += CHUNK) {
        const int64_t head = gyre_head_in_call(plan, q->head), left = plan->head_dim - first,
                      n = left < CHUNK ? left : CHUNK;
        gyre_load_row(gyre_cview_at(view, 0, head, 0, first), view->dtype, view->stride[3], n, bias);
        for (int64_t i = 0; i < q->count; i++)
            for (int64_t c = 0; c < n; c++)
                rows[i * plan->head_pad + first + c] += plan->scale * bias[c];
    }
}

void gyre_tables_bias_queries(const gyre_attention_plan *plan, gyre_query_buffers *q) {
    if (q->table_rows != q->q_rows[0])
        memcpy(q->table_rows, q->q_rows[0], (size_t)(q->count * plan->head_pad) * sizeof *q->table_rows);
    if (plan->table.position) add_bias(plan, q, GYRE_TABLE_POSITION_BIAS, q->table_rows);
    if (plan->table.content) add_bias(plan, q, GYRE_TABLE_CONTENT_BIAS, q->q_rows[0]);
}

void gyre_tables_bind_tile(const gyre_attention_plan *plan, gyre_query_buffers *q) {
    if (plan->table.content || plan->table.position) return; /* such jobs have one tile at a time */
    q->tables->dq_rows = q->gradient->dq_rows[0];
    q->tables->q_finite = q->gradient->q_finite;
}

void gyre_tables_begin_queries(const gyre_attention_plan *plan, gyre_query_buffers *q) {
    gyre_table_buffers *t = q->tables;
    plan->kernels->finite_row_f32(q->table_rows, q->count * plan->head_pad, &t->q_finite);
    if (t->dq_rows != q->gradient->dq_rows[0])
        memset(t->dq_rows, 0, (size_t)(q->count * plan->head_pad) * sizeof *t->dq_rows);
}

/* gradient[head] += sum of the rows */
static void sum_rows(const gyre_attention_plan *plan, const gyre_query_buffers *q, const float *rows, double *gradient) {
    double *to = gradient + q->head % plan->group * plan->head_pad;
    for (int64_t i = 0; i < q->count; i++)
        for (int64_t c = 0; c < plan->head_pad; c++)
            to[c] += (double)rows[i * plan->head_pad + c];
}

void gyre_tables_end_queries(const gyre_attention_plan *plan, gyre_query_buffers *q) {
    const gyre_table_buffers *t = q->tables;
    if (t->dcontent) sum_rows(plan, q, q->gradient->dq_rows[0], t->dcontent);
    if (t->dposition) sum_rows(plan, q, t->dq_rows, t->dposition);
    for (int64_t i = 0; t->dq_rows != q->gradient->dq_rows[0] && i < q->count * plan->head_pad; i++)
        q->gradient->dq_rows[0][i] += t->dq_rows[i];
}

/* -- the distances of a tile pair, and the bias and row of each -- */

static int same_bias(const gyre_query_buffers *q) {
    int same = 1;
    for (int64_t i = 1; i < q->count; i++)
        same &= q->scheme_bias[i] == q->scheme_bias[0];
    return same;
}

/* Lists each distance once if the positions of the keys are consecutive, those of the queries close, and all rows have the
 * same bias, as in every self-attention.  Otherwise lists one entry for each pair. */
static void list_distances(gyre_query_buffers *q, const gyre_tile_pair *tile_pair, const int64_t *k) {
    gyre_table_buffers *t = q->tables;
    const int64_t n = tile_pair->count, low = k[0] - q->high, high = k[n - 1] - q->low;
    t->distinct = tile_pair->keys->consecutive && high - low < QUERY_TILE * KEY_TILE && same_bias(q);
    if (t->distinct) {
        t->entries = high - low + 1;
        for (int64_t e = 0; e < t->entries; e++)
            t->distance[e] = low + e;
        for (int64_t i = 0; i < q->count; i++)
            t->offset[i] = k[0] - q->positions[i] - low;
        return;
    }
    t->entries = q->count * n;
    for (int64_t i = 0; i < q->count; i++) {
        t->offset[i] = i * n;
        for (int64_t j = 0; j < n; j++)
            t->distance[i * n + j] = k[j] - q->positions[i];
    }
}

/* 1: from one entry to the next the row changes by 0 or 1, always the same way. */
static int rows_step(const int32_t *restrict row, int64_t n) {
    int rises = 1, falls = 1;
    for (int64_t e = 1; e < n; e++) {
        const int32_t step = row[e] - row[e - 1];
        rises &= step == 0 || step == 1;
        falls &= step == 0 || step == -1;
    }
    return rises || falls;
}

static void look_up_rows(const gyre_distance_map *map, gyre_query_buffers *q) {
    gyre_table_buffers *t = q->tables;
    for (int64_t e = 0; e < t->entries; e++)
        t->row[e] = gyre_distance_map_row(map, t->distance[e]);
    t->row_steps = t->distinct && rows_step(t->row, t->entries);
    t->toeplitz = t->distinct;
    for (int64_t i = 1; i < q->count; i++)
        t->toeplitz &= q->positions[i] == q->positions[i - 1] + 1;
    for (int64_t e = 0; t->toeplitz && t->row_reversed && e < t->entries; e++)
        t->row_reversed[e] = t->row[t->entries - 1 - e];
}

static gyre_bias_row distances_of(const gyre_attention_plan *plan, const gyre_query_buffers *q, int64_t first, int64_t n) {
    return (gyre_bias_row){gyre_head_in_call(plan, q->head), 0, q->tables->distance + first, n, NULL, 0};
}

/* Computes the biases of one head for every distance of consecutive positions, once instead of in every tile. */
static void cache_score_biases(const gyre_attention_plan *plan, gyre_query_buffers *q) {
    enum { CHUNK = 128 };
    gyre_table_buffers *t = q->tables;
    int64_t distance[CHUNK];
    if (t->cached_bias_head == q->head) return;
    t->cached_bias_head = q->head;
    for (int64_t first = 0; first < plan->table.distance_count; first += CHUNK) {
        const int64_t left = plan->table.distance_count - first, n = left < CHUNK ? left : CHUNK;
        const gyre_bias_row row = {gyre_head_in_call(plan, q->head), 0, distance, n, NULL, 0};
        for (int64_t i = 0; i < n; i++)
            distance[i] = plan->table.first_distance + first + i;
        plan->encoding->scheme->bias_row(plan->encoding, plan->args->tables, &row, t->cached_bias + first);
    }
}

/* score_bias[e] = bias of entry first + e.  Only pairs that are not visible have distances outside the cached ones. */
static void read_score_biases(const gyre_attention_plan *plan, gyre_query_buffers *q, int64_t first, int64_t n,
                              double *score_bias) {
    const gyre_table_buffers *t = q->tables;
    const gyre_bias_row row = distances_of(plan, q, first, n);
    if (plan->table.distance_count == 0) {
        plan->encoding->scheme->bias_row(plan->encoding, plan->args->tables, &row, score_bias);
        return;
    }
    cache_score_biases(plan, q);
    for (int64_t e = 0; e < n; e++) {
        const int64_t at = row.k[e] - plan->table.first_distance;
        score_bias[e] = at >= 0 && at < plan->table.distance_count ? t->cached_bias[at] : 0;
    }
}

static void add_score_biases(const gyre_attention_plan *plan, gyre_query_buffers *q, const gyre_tile_pair *tile_pair) {
    enum { CHUNK = 128 };
    gyre_table_buffers *t = q->tables;
    double score_bias[CHUNK];
    for (int64_t first = 0; first < t->entries; first += CHUNK) {
        const int64_t n = t->entries - first < CHUNK ? t->entries - first : CHUNK;
        read_score_biases(plan, q, first, n, score_bias);
        for (int64_t e = 0; e < n; e++)
            t->score_bias[first + e] =
                (float)(score_bias[e] - q->scheme_bias[t->distinct ? 0 : (first + e) / tile_pair->count]);
    }
    const gyre_gather_add pick = {.lines = q->count,
                                  .n = tile_pair->count,
                                  .to = q->scores,
                                  .to_row_stride = KEY_TILE,
                                  .from = t->score_bias,
                                  .offset = t->offset};
    plan->kernels->gather_add_f32(&pick);
}

/* -- between a tile [QUERY_TILE][KEY_TILE] and blocks of table rows -- */

/* Rows low .. high are needed.  The block has first .. first + count - 1. */
typedef struct row_block {
    int32_t low, high, first, count;
    int covers_all; /* the block has all of them */
} row_block;

static void widen(row_block *rows, const int32_t *row, int64_t n) {
    for (int64_t e = 0; e < n; e++) {
        rows->low = row[e] < rows->low ? row[e] : rows->low;
        rows->high = row[e] > rows->high ? row[e] : rows->high;
    }
}

/* Some of the queries and some of the keys of a tile pair. */
typedef struct sub_tile {
    int64_t query, queries, key, keys;
} sub_tile;

/* out = the rows that a sub-tile needs, before the first block. */
static row_block rows_of(const gyre_query_buffers *q, sub_tile p) {
    const gyre_table_buffers *t = q->tables;
    row_block rows = {INT32_MAX, -1, 0, 0, 0};
    if (t->distinct) { /* the distances are one run */
        int64_t begin = t->offset[p.query], end = t->offset[p.query];
        for (int64_t i = p.query + 1; i < p.query + p.queries; i++) {
            begin = t->offset[i] < begin ? t->offset[i] : begin;
            end = t->offset[i] > end ? t->offset[i] : end;
        }
        const int64_t n = end - begin + p.keys;
        widen(&rows, t->row + begin + p.key, t->row_steps ? 1 : n); /* rows that go one way have both extremes at the ends */
        widen(&rows, t->row + begin + p.key + n - 1, 1);
    } else {
        for (int64_t i = p.query; i < p.query + p.queries; i++)
            widen(&rows, t->row + t->offset[i] + p.key, p.keys);
    }
    return rows;
}

static sub_tile all_of(const gyre_query_buffers *q, const gyre_tile_pair *tile_pair) {
    return (sub_tile){0, q->count, 0, tile_pair->count};
}

static int next_block(row_block *block) {
    block->first = block->count > 0 ? block->first + block->count : block->low;
    if (block->first > block->high) return 0;
    block->count = block->high - block->first < ROW_BLOCK ? block->high - block->first + 1 : ROW_BLOCK;
    block->covers_all = block->count > block->high - block->low;
    return 1;
}

/* Fixed order: blocks end at multiples of ROW_BLOCK, so that a sum over rows is cut at the same rows in any tile. */
static int next_aligned_block(row_block *block) {
    if (!next_block(block)) return 0;
    const int32_t most = ROW_BLOCK - block->first % ROW_BLOCK;
    block->count = block->count < most ? block->count : most;
    block->covers_all = block->count > block->high - block->low;
    return 1;
}

static int block_has_row(row_block block, int32_t row) {
    return row >= block.first && row - block.first < block.count;
}

/* The channels that a table on queries or values is multiplied with, in rows that lie row_stride_of apart. */
static int64_t pad_of(const gyre_attention_plan *plan, const gyre_query_buffers *q, const gyre_packed_table *packed) {
    return packed == &q->tables->value ? plan->value_pad : plan->table.query_part.pad;
}

static int64_t row_stride_of(const gyre_attention_plan *plan, const gyre_query_buffers *q, const gyre_packed_table *packed) {
    return packed == &q->tables->value ? plan->value_pad : plan->head_pad;
}

static void gather_by_query(const gyre_attention_plan *plan, const gyre_query_buffers *q, sub_tile p, row_block block,
                            float *tile) {
    const gyre_table_buffers *t = q->tables;
    const gyre_gather_add pick = {.lines = p.queries,
                                  .n = p.keys,
                                  .to = tile + p.query * KEY_TILE,
                                  .to_row_stride = KEY_TILE,
                                  .from = t->query_products,
                                  .from_row_stride = ROW_BLOCK,
                                  .row = t->row,
                                  .offset = t->offset + p.query,
                                  .base = block.first,
                                  .steady = t->row_steps};
    if (block.covers_all) {
        plan->kernels->gather_add_f32(&pick);
        return;
    }
    for (int64_t i = 0; i < p.queries; i++)
        for (int64_t j = 0; j < p.keys; j++) {
            const int32_t row = t->row[t->offset[p.query + i] + j];
            if (block_has_row(block, row)) pick.to[i * KEY_TILE + j] += t->query_products[i * ROW_BLOCK + row - block.first];
        }
}

/* out = the sum of n numbers, in 16 lanes; n is a multiple of 16. */
static float sum_row(const float *x, int64_t n) {
    float lane[16] = {0}, sum = 0;
    for (int64_t j = 0; j < n; j += 16)
        for (int l = 0; l < 16; l++)
            lane[l] += x[j + l];
    for (int l = 0; l < 16; l++)
        sum += lane[l];
    return sum;
}

/* 1: all keys with a weight have one distance row, *only. */
static int weights_one_row(const int32_t *row, const float *weight, int64_t n, int32_t *only) {
    int64_t first = 0;
    int one = 1;
    while (first < n - 1 && weight[first] == 0)
        first++;
    for (int64_t j = first; j < n; j++)
        one &= row[j] == row[first] || weight[j] == 0;
    *only = row[first];
    return one;
}

/* A sum in lanes is faster where all need one table row.  The fixed order asks each row: the tile depends on the cut. */
static void scatter_by_query(const gyre_attention_plan *plan, gyre_query_buffers *q, const gyre_tile_pair *tile_pair,
                             row_block block, const float *tile) {
    for (int64_t i = 0; i < q->count; i++) {
        const int32_t *restrict row = q->tables->row + q->tables->offset[i];
        const float *restrict from = tile + i * KEY_TILE;
        float *restrict to = q->tables->query_products + i * ROW_BLOCK;
        int32_t only;
        if (block.covers_all && block.count == 1) {
            to[0] = sum_row(from, tile_pair->columns);
            continue;
        }
        memset(to, 0, (size_t)block.count * sizeof *to);
        if (plan->fixed_order && weights_one_row(row, from, tile_pair->count, &only)) {
            if (block_has_row(block, only)) to[only - block.first] = sum_row(from, tile_pair->columns);
            continue;
        }
        for (int64_t j = 0; j < tile_pair->count; j++)
            if (block.covers_all || block_has_row(block, row[j])) to[row[j] - block.first] += from[j];
    }
}

static void gather_by_key(const gyre_attention_plan *plan, const gyre_query_buffers *q, sub_tile p, row_block block,
                          float *tile) {
    const gyre_table_buffers *t = q->tables;
    const gyre_gather_add pick = {.lines = p.queries,
                                  .n = p.keys,
                                  .to = tile + p.key,
                                  .to_row_stride = KEY_TILE,
                                  .from = t->key_products,
                                  .row = t->row + p.key,
                                  .offset = t->offset,
                                  .base = block.first,
                                  .step = KEY_BLOCK};
    if (block.covers_all) {
        plan->kernels->gather_add_f32(&pick);
        return;
    }
    for (int64_t i = 0; i < p.queries; i++)
        for (int64_t j = 0; j < p.keys; j++) {
            const int32_t row = pick.row[t->offset[i] + j];
            if (block_has_row(block, row)) pick.to[i * KEY_TILE + j] += t->key_products[(row - block.first) * KEY_BLOCK + j];
        }
}

static void scatter_by_key(gyre_query_buffers *q, int64_t first, int64_t columns, row_block block, const float *tile) {
    memset(q->tables->key_products, 0, (size_t)block.count * KEY_BLOCK * sizeof(float));
    for (int64_t i = 0; i < q->count; i++) {
        const int32_t *restrict row = q->tables->row + q->tables->offset[i] + first;
        const float *restrict from = tile + i * KEY_TILE + first;
        float *restrict to = q->tables->key_products;
        if (block.covers_all)
            for (int64_t j = 0; j < columns; j++)
                to[(row[j] - block.first) * KEY_BLOCK + j] += from[j];
        else
            for (int64_t j = 0; j < columns; j++)
                if (block_has_row(block, row[j])) to[(row[j] - block.first) * KEY_BLOCK + j] += from[j];
    }
}

/* query_products[i][r] = rows[i] . table[r] */
static void product_by_query(const gyre_attention_plan *plan, const gyre_query_buffers *q, sub_tile p, row_block block,
                             const float *rows, const gyre_packed_table *packed) {
    const int64_t stride = row_stride_of(plan, q, packed);
    const gyre_matmul product = {.m = p.queries,
                                 .n = gyre_round_up_i64(block.count, 16),
                                 .k = pad_of(plan, q, packed),
                                 .a = rows + p.query * stride,
                                 .a_row_stride = stride,
                                 .a_col_stride = 1,
                                 .b = packed->columns + block.first,
                                 .b_row_stride = plan->table.row_pad,
                                 .c = q->tables->query_products,
                                 .c_row_stride = ROW_BLOCK};
    plan->kernels->matmul_f32(&product);
}

/* key_products[r][j] = scale table[r] . k for the keys of a sub-tile */
static void product_by_key(const gyre_attention_plan *plan, const gyre_key_buffers *keys, const gyre_query_buffers *q,
                           sub_tile p, row_block block, const gyre_tile_pair *tile_pair) {
    const int64_t n = gyre_round_up_i64(p.keys, 16);
    const gyre_matmul product = {.m = block.count,
                                 .n = n,
                                 .k = plan->head_pad,
                                 .a = q->tables->key.rows + block.first * plan->head_pad,
                                 .a_row_stride = plan->head_pad,
                                 .a_col_stride = 1,
                                 .b = keys->k_columns[0] + tile_pair->buffer_tile * KEY_TILE * plan->head_pad +
                                      tile_pair->first + p.key,
                                 .b_row_stride = KEY_TILE,
                                 .c = q->tables->key_products,
                                 .c_row_stride = n};
    plan->kernels->matmul_f32(&product);
}

/* to[i] += sum over rows of query_products[i][r] table[r] */
static void add_rows(const gyre_attention_plan *plan, const gyre_query_buffers *q, row_block block,
                     const gyre_packed_table *packed, float *to) {
    const int64_t pad = pad_of(plan, q, packed);
    const gyre_matmul product = {.m = q->count,
                                 .n = pad,
                                 .k = block.count,
                                 .a = q->tables->query_products,
                                 .a_row_stride = ROW_BLOCK,
                                 .a_col_stride = 1,
                                 .b = packed->rows + block.first * pad,
                                 .b_row_stride = pad,
                                 .c = to,
                                 .c_row_stride = row_stride_of(plan, q, packed),
                                 .accumulate = 1};
    gyre_weighted_product(plan->kernels, &product, packed->finite || packed->zero_nonfinite);
}

/* As product_by_key and gather_by_key, by key: key_products[j][r] = scale k[j] . table[r].  Each line of `by_key` is a
 * key with its entries for all queries; the transpose makes lines of queries.  A key uses few rows, so the loop takes
 * few keys at a time. */
static void gather_by_key_transposed(const gyre_attention_plan *plan, const gyre_key_buffers *keys, gyre_query_buffers *q,
                                     sub_tile p, row_block block, const gyre_tile_pair *tile_pair) {
    gyre_table_buffers *t = q->tables;
    float key_lines[KEY_BLOCK * QUERY_TILE] = {0}, transposed[QUERY_TILE * KEY_BLOCK];
    int64_t offset[KEY_BLOCK];
    const gyre_matmul product = {.m = p.keys,
                                 .n = gyre_round_up_i64(block.count, 16),
                                 .k = plan->head_pad,
                                 .a = keys->k_columns[0] + tile_pair->buffer_tile * KEY_TILE * plan->head_pad +
                                      tile_pair->first + p.key,
                                 .a_row_stride = 1,
                                 .a_col_stride = KEY_TILE,
                                 .b = t->key.columns + block.first,
                                 .b_row_stride = plan->table.row_pad,
                                 .c = t->key_products,
                                 .c_row_stride = KEY_BLOCK_ROWS};
    for (int64_t j = 0; j < p.keys; j++)
        offset[j] = t->entries - 1 - (t->offset[0] + p.key + j);
    const gyre_gather_add by_key = {.lines = p.keys,
                                    .n = q->count,
                                    .to = key_lines,
                                    .to_row_stride = QUERY_TILE,
                                    .from = t->key_products,
                                    .from_row_stride = KEY_BLOCK_ROWS,
                                    .row = t->row_reversed,
                                    .offset = offset,
                                    .base = block.first,
                                    .steady = t->row_steps};
    const gyre_transpose transpose = {KEY_BLOCK, QUERY_TILE, key_lines, QUERY_TILE, transposed, KEY_BLOCK};
    const gyre_gather_add add = {.lines = q->count,
                                 .n = p.keys,
                                 .to = q->scores + p.key,
                                 .to_row_stride = KEY_TILE,
                                 .from = transposed,
                                 .from_row_stride = KEY_BLOCK};
    plan->kernels->matmul_f32(&product);
    plan->kernels->gather_add_f32(&by_key);
    plan->kernels->transpose_f32(&transpose);
    plan->kernels->gather_add_f32(&add);
}

/* -- a tile pair -- */

/* What the query table is multiplied with. */
static const float *query_rows(const gyre_attention_plan *plan, const gyre_query_buffers *q) {
    return q->table_rows + plan->table.query_part.at;
}

static sub_tile key_block(const gyre_query_buffers *q, const gyre_tile_pair *tile_pair, int64_t first) {
    const int64_t left = tile_pair->count - first;
    return (sub_tile){0, q->count, first, left < KEY_BLOCK ? left : KEY_BLOCK};
}

/* Few queries at a time: neighbours use nearly the same rows. */
static sub_tile query_block(const gyre_query_buffers *q, const gyre_tile_pair *tile_pair, int64_t first) {
    const int64_t left = q->count - first;
    return (sub_tile){first, left < QUERY_BLOCK ? left : QUERY_BLOCK, 0, tile_pair->count};
}

static int one_row(row_block rows) {
    return rows.low == rows.high;
}

static void score_by_query(const gyre_attention_plan *plan, gyre_query_buffers *q, const gyre_tile_pair *tile_pair,
                           const float *rows, const gyre_packed_table *packed, float *tile) {
    const sub_tile all = all_of(q, tile_pair);
    row_block rows_of_all = rows_of(q, all);
    if (one_row(rows_of_all) && next_block(&rows_of_all)) { /* all distances are clipped: one product for each query */
        product_by_query(plan, q, all, rows_of_all, rows, packed);
        gather_by_query(plan, q, all, rows_of_all, tile);
        return;
    }
    for (int64_t first = 0; first < q->count; first += QUERY_BLOCK) {
        const sub_tile p = query_block(q, tile_pair, first);
        for (row_block block = rows_of(q, p); next_block(&block);) {
            product_by_query(plan, q, p, block, rows, packed);
            gather_by_query(plan, q, p, block, tile);
        }
    }
}

static void score_by_key(const gyre_attention_plan *plan, const gyre_key_buffers *keys, gyre_query_buffers *q,
                         const gyre_tile_pair *tile_pair) {
    const sub_tile all = all_of(q, tile_pair);
    row_block rows_of_all = rows_of(q, all);
    if (one_row(rows_of_all) && next_block(&rows_of_all)) { /* all distances are clipped: one product for each key */
        const gyre_gather_add pick = {
            .lines = q->count, .n = all.keys, .to = q->scores, .to_row_stride = KEY_TILE, .from = q->tables->key_products};
        product_by_key(plan, keys, q, all, rows_of_all, tile_pair);
        plan->kernels->gather_add_f32(&pick);
        return;
    }
    for (int64_t first = 0; first < tile_pair->count; first += KEY_BLOCK) {
        const sub_tile p = key_block(q, tile_pair, first);
        for (row_block block = rows_of(q, p); next_block(&block);) {
            if (q->tables->toeplitz && block.covers_all && block.count <= KEY_BLOCK_ROWS) {
                gather_by_key_transposed(plan, keys, q, p, block, tile_pair);
            } else {
                product_by_key(plan, keys, q, p, block, tile_pair);
                gather_by_key(plan, q, p, block, q->scores);
            }
        }
    }
}

void gyre_tables_list(const gyre_attention_plan *plan, const gyre_key_buffers *keys, gyre_query_buffers *queries,
                      const gyre_tile_pair *tile_pair) {
    if (!plan->table.has_score_bias && plan->table.rows == 0) return;
    gyre_tables_pack(plan, queries);
    list_distances(queries, tile_pair, keys->positions + tile_pair->tile * KEY_TILE + tile_pair->first);
    if (plan->table.rows > 0) look_up_rows(&plan->encoding->distance_map, queries);
}

void gyre_tables_score(const gyre_attention_plan *plan, const gyre_key_buffers *keys, gyre_query_buffers *queries,
                       const gyre_tile_pair *tile_pair) {
    gyre_table_buffers *t = queries->tables;
    if (plan->table.has_score_bias) add_score_biases(plan, queries, tile_pair);
    if (plan->table.query) score_by_query(plan, queries, tile_pair, query_rows(plan, queries), &t->query, queries->scores);
    if (plan->table.key) score_by_key(plan, keys, queries, tile_pair);
}

int gyre_tables_values_finite(const gyre_attention_plan *plan, gyre_query_buffers *queries) {
    gyre_tables_pack(plan, queries);
    return queries->tables->value.finite;
}

void gyre_tables_add_values(const gyre_attention_plan *plan, gyre_query_buffers *queries, const gyre_tile_pair *tile_pair) {
    row_block block = rows_of(queries, all_of(queries, tile_pair));
    while (plan->fixed_order ? next_aligned_block(&block) : next_block(&block)) {
        scatter_by_query(plan, queries, tile_pair, block, queries->scores);
        add_rows(plan, queries, block, &queries->tables->value, queries->out_rows);
    }
}

void gyre_tables_add_nonfinite_values(const gyre_attention_plan *plan, gyre_query_buffers *queries,
                                      const gyre_tile_pair *tile_pair) {
    enum { CHUNK = 64 };
    const gyre_table_buffers *t = queries->tables;
    gyre_cview view;
    float entries[CHUNK];
    if (t->value.finite || !gyre_vector_table_view(plan->encoding, plan->args->tables, GYRE_TABLE_VALUE, &view)) return;
    for (int64_t e = 0; e < queries->count * tile_pair->count; e++) {
        const int64_t i = e / tile_pair->count, j = e % tile_pair->count, row = t->row[t->offset[i] + j];
        const float weight = queries->scores[i * KEY_TILE + j];
        for (int64_t c = 0; weight != 0 && c < plan->value_dim; c += CHUNK) {
            const int64_t n = plan->value_dim - c < CHUNK ? plan->value_dim - c : CHUNK;
            gyre_load_row(gyre_cview_at(&view, 0, t->value.head, row, c), view.dtype, view.stride[3], n, entries);
            gyre_row_add_nonfinite(weight, entries, n, queries->out_rows + i * plan->value_pad + c);
        }
    }
}

void gyre_tables_dweights(const gyre_attention_plan *plan, gyre_query_buffers *queries, const gyre_tile_pair *tile_pair) {
    score_by_query(plan, queries, tile_pair, queries->gradient->dout_rows, &queries->tables->value,
                   queries->gradient->dscores);
}

/* -- gradients -- */

/* out = the gradient of the packed rows from `first` on. */
static float *gradient_at(const gyre_attention_plan *plan, const gyre_query_buffers *q, const gyre_packed_table *packed,
                          int32_t first, int64_t pad) {
    return packed->gradient + ((packed->shared ? 0 : q->head % plan->group) * plan->table.rows + first) * pad;
}

/* gradient[r] += sum over queries of query_products[i][r] rows[i] */
static void add_to_rows(const gyre_attention_plan *plan, const gyre_query_buffers *q, row_block block, const float *rows,
                        int finite, const gyre_packed_table *packed) {
    const int64_t pad = pad_of(plan, q, packed);
    if (!packed->gradient) return;
    const gyre_matmul product = {.m = block.count,
                                 .n = pad,
                                 .k = q->count,
                                 .a = q->tables->query_products,
                                 .a_row_stride = 1,
                                 .a_col_stride = ROW_BLOCK,
                                 .b = rows,
                                 .b_row_stride = row_stride_of(plan, q, packed),
                                 .c = gradient_at(plan, q, packed, block.first, pad),
                                 .c_row_stride = pad,
                                 .accumulate = 1};
    gyre_weighted_product(plan->kernels, &product, finite);
}

/* key_products has the dscores of the keys from `first` on, summed by row.
 * dk += scale sum over rows of key_products[r] table[r]; the gradient of the table += key_products[r] k. */
static void add_by_key(const gyre_attention_plan *plan, gyre_key_buffers *keys, const gyre_query_buffers *q, row_block block,
                       const gyre_tile_pair *tile_pair, int64_t first) {
    const int64_t at = (tile_pair->tile * KEY_TILE + tile_pair->first + first) * plan->head_pad;
    const gyre_packed_table *packed = &q->tables->key;
    gyre_matmul product = {.m = key_block(q, tile_pair, first).keys,
                           .n = plan->head_pad,
                           .k = block.count,
                           .a = q->tables->key_products,
                           .a_row_stride = 1,
                           .a_col_stride = KEY_BLOCK,
                           .b = packed->rows + block.first * plan->head_pad,
                           .b_row_stride = plan->head_pad,
                           .c = keys->dk_rows[0] + at,
                           .c_row_stride = plan->head_pad,
                           .accumulate = 1};
    gyre_weighted_product(plan->kernels, &product, packed->finite);
    if (!packed->gradient) return;
    product.m = block.count;
    product.k = key_block(q, tile_pair, first).keys;
    product.a_row_stride = KEY_BLOCK;
    product.a_col_stride = 1;
    product.b = keys->k_rows[0] + at;
    product.c = gradient_at(plan, q, packed, block.first, plan->head_pad);
    gyre_weighted_product(plan->kernels, &product, tile_pair->keys->k_finite);
}

/* Row by row, from the positions themselves. */
static void pair_bias_backward(const gyre_attention_plan *plan, const gyre_key_buffers *keys, gyre_query_buffers *q,
                               const gyre_tile_pair *tile_pair) {
    const gyre_view gradient = gyre_dense(q->tables->dbias, GYRE_DTYPE_F64, 1, 1, plan->table.bias_rows, plan->group);
    const float *dscores = q->gradient->dscores;
    const int64_t *k = keys->positions + tile_pair->tile * KEY_TILE + tile_pair->first;
    double dscore[KEY_TILE];
    for (int64_t i = 0; q->tables->dbias && i < q->count; i++) {
        const gyre_bias_row row = {gyre_head_in_call(plan, q->head), q->positions[i], k, tile_pair->count, NULL, 0};
        for (int64_t j = 0; j < tile_pair->count; j++)
            dscore[j] = (double)dscores[i * KEY_TILE + j];
        plan->encoding->scheme->bias_row_gradient(plan->encoding, plan->args->tables, &row, dscore, &gradient,
                                                  q->head % plan->group);
    }
}

static void score_bias_backward(const gyre_attention_plan *plan, gyre_query_buffers *q, const gyre_tile_pair *tile_pair) {
    gyre_table_buffers *t = q->tables;
    const float *dscores = q->gradient->dscores;
    if (!t->dbias) return;
    memset(t->dscore_bias, 0, (size_t)t->entries * sizeof *t->dscore_bias);
    for (int64_t i = 0; i < q->count; i++)
        for (int64_t j = 0; j < tile_pair->count; j++)
            t->dscore_bias[t->offset[i] + j] += (double)dscores[i * KEY_TILE + j];
    const gyre_bias_row row = distances_of(plan, q, 0, t->entries);
    const gyre_view gradient = gyre_dense(t->dbias, GYRE_DTYPE_F64, 1, 1, plan->table.bias_rows, plan->group);
    plan->encoding->scheme->bias_row_gradient(plan->encoding, plan->args->tables, &row, t->dscore_bias, &gradient,
                                              q->head % plan->group);
}

void gyre_tables_backward(const gyre_attention_plan *plan, gyre_key_buffers *keys, gyre_query_buffers *queries,
                          const gyre_tile_pair *tile_pair) {
    gyre_table_buffers *t = queries->tables;
    if (plan->table.has_score_bias) score_bias_backward(plan, queries, tile_pair);
    if (plan->table.trains_pair_bias) pair_bias_backward(plan, keys, queries, tile_pair);
    if (plan->table.rows == 0) return;
    for (row_block block = rows_of(queries, all_of(queries, tile_pair)); next_block(&block);) {
        if (plan->table.query) {
            scatter_by_query(plan, queries, tile_pair, block, queries->gradient->dscores);
            add_rows(plan, queries, block, &t->query, t->dq_rows + plan->table.query_part.at);
            add_to_rows(plan, queries, block, query_rows(plan, queries), t->q_finite, &t->query);
        }
        if (plan->table.value) {
            scatter_by_query(plan, queries, tile_pair, block, queries->scores);
            add_to_rows(plan, queries, block, queries->gradient->dout_rows, queries->gradient->dout_finite, &t->value);
        }
    }
    for (int64_t first = 0; plan->table.key && first < tile_pair->count; first += KEY_BLOCK) {
        const sub_tile p = key_block(queries, tile_pair, first);
        for (row_block block = rows_of(queries, p); next_block(&block);) {
            scatter_by_key(queries, p.key, p.keys, block, queries->gradient->dscores);
            add_by_key(plan, keys, queries, block, tile_pair, first);
        }
    }
}
