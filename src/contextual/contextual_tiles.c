/* contextual_tiles.c: rows of queries and tiles of keys as floats, gates, positions and scores.
 *
 * Tiles of keys (call/tile_rows.h) are gone through from the last to the first.  A key that a row does not see has gate 0
 * too. */
#include "contextual/contextual_tiles.h"
#include "core/exec.h"
#include "core/view.h"

#include <math.h>

/* -- embeddings -- */

typedef struct fill_call {
    const gyre_contextual_plan *plan;
    gyre_contextual_embeddings to;
} fill_call;

/* 16 positions of a head. */
static void fill_embeddings(void *arg, int64_t task) {
    const fill_call *c = arg;
    const gyre_contextual_plan *plan = c->plan;
    const gyre_cview *view = &plan->args->embeddings;
    const int64_t blocks = plan->z_pad / 16, head = task / blocks, first = task % blocks * 16, pad = plan->head_pad;
    float *rows = c->to.rows + (head * plan->z_pad + first) * pad;
    for (int64_t i = 0; i < 16; i++) {
        float *row = rows + i * pad;
        if (first + i >= view->shape[1]) {
            gyre_row_clear_padding(row, 0, pad);
            continue;
        }
        gyre_tile_read_row(plan->kernels, gyre_cview_at(view, 0, first + i, head, 0), view, row, pad);
        plan->kernels->scale_row_f32(row, pad, (float)plan->args->position_scale);
    }
    const gyre_transpose job = {.rows = 16,
                                .columns = pad,
                                .in = rows,
                                .in_row_stride = pad,
                                .out = c->to.columns + head * pad * plan->z_pad + first,
                                .out_row_stride = plan->z_pad};
    plan->kernels->transpose_f32(&job);
}

void gyre_contextual_embeddings_fill(const gyre_contextual_plan *plan, char *scratch, const gyre_exec *exec) {
    fill_call call = {.plan = plan};
    gyre_contextual_shared(plan, scratch, &call.to);
    gyre_parallel(exec, fill_embeddings, &call, plan->embedding_heads * (plan->z_pad / 16));
}

/* -- rows -- */

/* z = products with the embeddings that these rows can reach: a row that sees n keys counts to n at most. */
static void multiply_embeddings(gyre_contextual_buffers *b) {
    const gyre_contextual_plan *plan = b->plan;
    const int64_t reach = (b->rows > 0 ? b->visible[b->rows - 1] : 0) + 2, pad = plan->head_pad;
    b->z_columns = reach < plan->z_pad ? (reach + 15) / 16 * 16 : plan->z_pad;
    const int64_t apart = plan->embedding_heads > 1 ? plan->group : 1; /* rows from one of a head to its next */
    for (int64_t r = 0; r < apart && r < b->rows; r++) {
        const int64_t own = b->key_head * plan->group + (b->first_row + r) % plan->group;
        const int64_t head = plan->embedding_heads > 1 ? own : 0;
        const gyre_matmul product = {.m = (b->rows - r + apart - 1) / apart,
                                     .n = b->z_columns,
                                     .k = plan->args->q.shape[3],
                                     .a = b->q_rows + r * pad,
                                     .a_row_stride = apart * pad,
                                     .a_col_stride = 1,
                                     .b = b->embeddings.columns + head * pad * plan->z_pad,
                                     .b_row_stride = plan->z_pad,
                                     .c = b->z + r * plan->z_pad,
                                     .c_row_stride = apart * plan->z_pad};
        plan->kernels->matmul_f32(&product);
    }
}

void gyre_contextual_rows_begin(gyre_contextual_buffers *b, int64_t item, int64_t first_row) {
    const gyre_contextual_plan *plan = b->plan;
    b->sequence = gyre_contextual_sequence_of(plan, item);
    b->item = item;
    b->key_head = item % plan->key_heads;
    b->first_row = first_row;
    const int64_t left = gyre_contextual_row_count(plan, &b->sequence) - first_row;
    b->rows = left < QUERY_TILE ? left : QUERY_TILE;
    for (int64_t r = 0; r < b->rows; r++) {
        const int64_t sees = b->sequence.keys - b->sequence.queries + (first_row + r) / plan->group + 1;
        b->visible[r] = sees > 0 ? sees : 0;
        b->position[r] = 0;
    }
    b->all_rows = (gyre_query_rows){.batch = b->sequence.batch,
                                    .query = b->sequence.query,
                                    .head = b->key_head * plan->group,
                                    .first = first_row,
                                    .count = b->rows,
                                    .heads = plan->group};
    gyre_query_rows_read(plan->kernels, &b->all_rows, &plan->args->q, b->q_rows, plan->head_pad);
    multiply_embeddings(b);
}

int64_t gyre_contextual_tiles_seen(const gyre_contextual_buffers *b) {
    return (b->visible[b->rows - 1] + KEY_TILE - 1) / KEY_TILE;
}

int64_t gyre_contextual_first_row(const gyre_contextual_buffers *b, int64_t tile) {
    int64_t r = 0;
    while (r < b->rows && b->visible[r] <= tile * KEY_TILE)
        r++;
    return r;
}

int64_t gyre_contextual_seen(const gyre_contextual_buffers *b, int64_t row, int64_t tile) {
    const int64_t seen = b->visible[row] - tile * KEY_TILE;
    return seen < 0 ? 0 : seen > KEY_TILE ? KEY_TILE : seen;
}

/* -- keys -- */

static void read_keys(const gyre_contextual_buffers *b, const gyre_key_source *source, int64_t tile, float *to) {
    const gyre_contextual_plan *plan = b->plan;
    const gyre_key_reader keys = {plan->kernels, source, GYRE_KEYS, plan->args->q.shape[3], plan->head_pad, 0};
    gyre_tile_read_keys(&keys, &b->sequence, b->key_head, tile, to);
}

/* to[r][j] = q_rows[r] . column j, for rows from first_row on. */
static void multiply_keys(const gyre_contextual_buffers *b, int64_t first_row, const float *columns, float *to) {
    const gyre_contextual_plan *plan = b->plan;
    gyre_tile_products(plan->kernels, b->q_rows + first_row * plan->head_pad, b->rows - first_row, plan->head_pad,
                       plan->args->q.shape[3], columns, to + first_row * KEY_TILE);
}

static double last_position(const gyre_contextual_plan *plan) {
    return (double)(plan->args->embeddings.shape[1] - 1);
}

int gyre_contextual_counts(const gyre_contextual_buffers *b, int64_t first_row) {
    for (int64_t r = first_row; r < b->rows; r++)
        if (b->position[r] < last_position(b->plan)) return 1;
    return 0;
}

/* The keys of a tile are not those in memory any more. */
static gyre_contextual_keys *turn_to(const gyre_contextual_buffers *b, int64_t tile) {
    gyre_contextual_keys *keys = b->keys;
    if (keys->item != b->item || keys->tile != tile) keys->has_k = keys->has_gates = keys->has_v = 0;
    keys->item = b->item;
    keys->tile = tile;
    return keys;
}

void gyre_contextual_products(const gyre_contextual_buffers *b, int64_t tile, int64_t first_row) {
    const gyre_contextual_plan *plan = b->plan;
    gyre_contextual_keys *keys = turn_to(b, tile);
    if (!keys->has_k) {
        read_keys(b, &plan->source, tile, keys->k_rows);
        gyre_tile_transpose(plan->kernels, keys->k_rows, plan->head_pad, keys->k_columns);
        keys->has_k = 1;
    }
    multiply_keys(b, first_row, keys->k_columns, keys->scores);
    if (!plan->gates_apart || (!plan->dout && !gyre_contextual_counts(b, first_row))) return;
    if (!keys->has_gates) {
        read_keys(b, &plan->gate_source, tile, keys->gate_rows);
        gyre_tile_transpose(plan->kernels, keys->gate_rows, plan->head_pad, keys->gate_columns);
        keys->has_gates = 1;
    }
    multiply_keys(b, first_row, keys->gate_columns, keys->gate_logits);
}

void gyre_contextual_values(const gyre_contextual_buffers *b, int64_t tile) {
    gyre_contextual_keys *keys = turn_to(b, tile);
    const gyre_contextual_plan *plan = b->plan;
    const gyre_key_reader values = {plan->kernels, &plan->source, GYRE_VALUES, plan->args->v.shape[3], plan->value_pad, 0};
    if (!keys->has_v) gyre_tile_read_keys(&values, &b->sequence, b->key_head, tile, keys->v_rows);
    keys->has_v = 1;
}

/* -- a row -- */

/* gate[j] = sigmoid(gate_scale logits[j]), from exp(-|x|), so that small gates keep their digits. */
static void open_gates(const gyre_contextual_plan *plan, const float *restrict logits, float *restrict gate) {
    const float scale = (float)plan->args->gate_scale;
    float unused;
    for (int64_t j = 0; j < KEY_TILE; j++)
        gate[j] = -fabsf(scale * logits[j]);
    plan->kernels->exp_row_f32(gate, KEY_TILE, 0, &unused);
    for (int64_t j = 0; j < KEY_TILE; j++)
        gate[j] = (scale * logits[j] >= 0 ? 1.0F : gate[j]) / (1.0F + gate[j]);
}

double gyre_contextual_count(const gyre_contextual_plan *plan, const float *gate_logits, int64_t seen, double position,
                             gyre_contextual_row *row) {
    const double last = last_position(plan);
    row->ended = position >= last;
    if (row->ended) return position;
    open_gates(plan, gate_logits, row->gate);
    for (int64_t j = seen - 1; j >= 0; j--) {
        position += (double)row->gate[j];
        const double p = position > last ? last : position; /* a NaN stays one ... */
        row->at[j] = (int32_t)(p <= last ? p : last);       /* ... and points to memory that there is */
        row->part[j] = (float)(p - (double)row->at[j]);
    }
    return position;
}

static inline float between(const float *z, float part) {
    return z[0] + part * (z[1] - z[0]);
}

void gyre_contextual_score(const gyre_contextual_plan *plan, const gyre_contextual_row *row, const float *z, int64_t seen,
                           float *restrict scores) {
    const float scale = (float)plan->args->scale;
    if (row->ended) {
        const float term = between(z + plan->args->embeddings.shape[1] - 1, 0);
        for (int64_t j = 0; j < KEY_TILE; j++)
            scores[j] = scale * scores[j] + term;
    } else {
        for (int64_t j = 0; j < seen; j++)
            scores[j] = scale * scores[j] + between(z + row->at[j], row->part[j]);
    }
    for (int64_t j = seen; j < KEY_TILE; j++)
        scores[j] = -INFINITY;
}
