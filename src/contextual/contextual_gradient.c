/* contextual_gradient.c: the gradient of an item.  With p the softmax weights, recomputed from scores and log-sum-exp, and
 * z_m[c] = q_m . e_c,
 *
 *     ds_mn = p_mn (dout_m . v_n - dout_m . out_m)
 *     dz_m[c], dz_m[c + 1] = sums of ds_mn by the parts of position (m, n), whose floor is c
 *     dposition_mn = ds_mn (z_m[c + 1] - z_m[c]),   0 past the last position
 *     dgate_mn = sum over j <= n of dposition_mj,   because the position of each key up to n counts gate n
 *
 * Positions are sums from the last key on, gradients of gates sums from the first on.  So a first pass goes from the
 * last tile to the first and keeps the position of each row at each tile; the second goes back. */
#include "call/online_softmax.h"
#include "contextual/contextual_tiles.h"
#include "core/convert.h"
#include "core/exec.h"
#include "core/view.h"

#include <math.h>
#include <string.h>

typedef struct gradient_call {
    const gyre_contextual_plan *plan;
    char *scratch;
    int64_t first_item; /* of a wave: one item for each job */
} gradient_call;

static int64_t embedding_heads_of_item(const gyre_contextual_plan *plan) {
    return plan->embedding_heads > 1 ? plan->group : 1;
}

/* -- rows -- */

static void begin_rows(gyre_contextual_buffers *b, int64_t item, int64_t first_row) {
    const gyre_contextual_plan *plan = b->plan;
    const gyre_gradient_rows to = {b->dout_rows, b->out_rows, b->lse, b->delta, b->dq_rows, plan->value_pad, plan->head_pad};
    gyre_contextual_rows_begin(b, item, first_row);
    gyre_gradient_rows_begin(plan->kernels, &b->all_rows, plan->dout, &plan->args->out, &plan->args->lse, &to);
    b->q_finite = gyre_tile_finite(plan->kernels, b->q_rows, b->rows * plan->head_pad);
    b->dout_finite = gyre_tile_finite(plan->kernels, b->dout_rows, b->rows * plan->value_pad);
    memset(b->carry, 0, sizeof b->carry);
    memset(b->dz, 0, (size_t)(b->rows * plan->z_pad) * sizeof(float));
}

/* starts[tile][row]: the position of each row before it counts the keys of a tile. */
static void find_starts(gyre_contextual_buffers *b) {
    const gyre_contextual_plan *plan = b->plan;
    gyre_contextual_row row;
    for (int64_t tile = gyre_contextual_tiles_seen(b) - 1; tile >= 0; tile--) {
        const int64_t first = gyre_contextual_first_row(b, tile);
        memcpy(b->starts + tile * QUERY_TILE, b->position, sizeof b->position);
        if (tile == 0 || !gyre_contextual_counts(b, 0)) continue;
        gyre_contextual_products(b, tile, first);
        for (int64_t r = first; r < b->rows; r++)
            b->position[r] = gyre_contextual_count(plan, b->keys->gate_logits + r * KEY_TILE,
                                                   gyre_contextual_seen(b, r, tile), b->position[r], &row);
    }
}

/* -- a row in a tile -- */

/* The same where all keys of the tile are at the last position, which no gate moves. */
static void ended_backward(gyre_contextual_buffers *b, int64_t r, int64_t seen) {
    const gyre_contextual_plan *plan = b->plan;
    const float scale = (float)plan->args->scale;
    float *ds = b->keys->dscores + r * KEY_TILE, *dgate = b->keys->dgates + r * KEY_TILE;
    float *dz = b->dz + r * plan->z_pad + plan->args->embeddings.shape[1] - 1;
    for (int64_t j = 0; j < seen; j++)
        *dz += ds[j];
    for (int64_t j = 0; j < KEY_TILE; j++)
        ds[j] *= scale;
    if (plan->gates_apart) memset(dgate, 0, KEY_TILE * sizeof(float));
}

/* ds -> dz, and gradients to both products: dscores to q . k, dgates to q . gate_key, which are one where gates are of k. */
static void positions_backward(gyre_contextual_buffers *b, int64_t r, int64_t seen, const gyre_contextual_row *row) {
    const gyre_contextual_plan *plan = b->plan;
    const float scale = (float)plan->args->scale, *z = b->z + r * plan->z_pad;
    float *ds = b->keys->dscores + r * KEY_TILE, *dgate = b->keys->dgates + r * KEY_TILE, *dz = b->dz + r * plan->z_pad;
    double carry = b->carry[r];
    for (int64_t j = 0; j < seen; j++) {
        const float d = ds[j], part = row->part[j], gate = row->gate[j];
        const int32_t c = row->at[j];
        dz[c] += d * (1 - part);
        dz[c + 1] += d * part;
        if (part != 0) carry += (double)d * (double)(z[c + 1] - z[c]);
        ds[j] = scale * d;
        const float through = (float)(plan->args->gate_scale * (double)(gate * (1 - gate)) * carry);
        if (plan->gates_apart)
            dgate[j] = through;
        else
            ds[j] += through;
    }
    for (int64_t j = seen; j < KEY_TILE && plan->gates_apart; j++)
        dgate[j] = 0;
    b->carry[r] = carry;
}

/* -- a tile -- */

/* dscores = dout . v. */
static void weights_backward(gyre_contextual_buffers *b, int64_t tile, int64_t first) {
    const gyre_contextual_plan *plan = b->plan;
    const int64_t pad = plan->value_pad;
    gyre_contextual_values(b, tile);
    gyre_tile_transpose(plan->kernels, b->keys->v_rows, pad, b->keys->v_columns);
    gyre_tile_products(plan->kernels, b->dout_rows + first * pad, b->rows - first, pad, plan->args->v.shape[3],
                       b->keys->v_columns, b->keys->dscores + first * KEY_TILE);
}

static void tile_backward(gyre_contextual_buffers *b, int64_t tile) {
    const gyre_contextual_plan *plan = b->plan;
    const int64_t first = gyre_contextual_first_row(b, tile), key = tile * KEY_TILE, pad = plan->head_pad,
                  count = b->rows - first, at_weights = first * KEY_TILE;
    const float *q_rows = b->q_rows + first * pad;
    float *dq_rows = b->dq_rows + first * pad;
    const gyre_tile_weights weights = {b->keys->scores + at_weights, b->dout_rows + first * plan->value_pad, count,
                                       plan->value_pad, b->dout_finite};
    const gyre_tile_weights products = {b->keys->dscores + at_weights, q_rows, count, pad, b->q_finite},
                            gates = {b->keys->dgates + at_weights, q_rows, count, pad, b->q_finite};
    gyre_contextual_row row;
    gyre_contextual_products(b, tile, first);
    weights_backward(b, tile, first);
    for (int64_t r = first; r < b->rows; r++) {
        const int64_t seen = gyre_contextual_seen(b, r, tile), at = r * KEY_TILE;
        gyre_contextual_count(plan, b->keys->gate_logits + at, seen, b->starts[tile * QUERY_TILE + r], &row);
        gyre_contextual_score(plan, &row, b->z + r * plan->z_pad, seen, b->keys->scores + at);
        gyre_softmax_backward(plan->kernels, b->keys->scores + at, b->keys->dscores + at, b->lse[r], b->delta[r]);
        if (row.ended)
            ended_backward(b, r, seen);
        else
            positions_backward(b, r, seen, &row);
    }
    gyre_weighted_to_keys(plan->kernels, &weights, b->dv + key * plan->value_pad);
    gyre_weighted_to_keys(plan->kernels, &products, b->dk + key * pad);
    gyre_weighted_to_queries(plan->kernels, &products, b->keys->k_rows, dq_rows);
    if (!plan->gates_apart) return;
    gyre_weighted_to_keys(plan->kernels, &gates, b->dgate_keys + key * pad);
    gyre_weighted_to_queries(plan->kernels, &gates, b->keys->gate_rows, dq_rows);
}

/* -- embeddings -- */

/* dq += dz e and de += dz q, for the rows of each head that has its own embeddings. */
static void embeddings_backward(gyre_contextual_buffers *b) {
    const gyre_contextual_plan *plan = b->plan;
    const int64_t apart = embedding_heads_of_item(plan), pad = plan->head_pad;
    for (int64_t r = 0; r < apart && r < b->rows; r++) {
        const int64_t own = (b->first_row + r) % plan->group;
        const int64_t head = plan->embedding_heads > 1 ? b->key_head * plan->group + own : 0;
        const int64_t rows = (b->rows - r + apart - 1) / apart;
        gyre_matmul product = {.m = rows,
                               .n = pad,
                               .k = b->z_columns,
                               .a = b->dz + r * plan->z_pad,
                               .a_row_stride = apart * plan->z_pad,
                               .a_col_stride = 1,
                               .b = b->embeddings.rows + head * plan->z_pad * pad,
                               .b_row_stride = pad,
                               .c = b->dq_rows + r * pad,
                               .c_row_stride = apart * pad,
                               .accumulate = 1};
        plan->kernels->matmul_f32(&product);
        product = (gyre_matmul){.m = b->z_columns,
                                .n = pad,
                                .k = rows,
                                .a = b->dz + r * plan->z_pad,
                                .a_row_stride = 1,
                                .a_col_stride = apart * plan->z_pad,
                                .b = b->q_rows + r * pad,
                                .b_row_stride = apart * pad,
                                .c = b->dembeddings + (apart > 1 ? own : 0) * plan->z_pad * pad,
                                .c_row_stride = pad,
                                .accumulate = 1};
        if (plan->gradients->dembeddings.data) gyre_weighted_product(plan->kernels, &product, b->q_finite);
    }
}

/* dembeddings of the caller += those of the items of a wave, in their order: one position of all heads. */
static void collect_position(void *arg, int64_t position) {
    const gradient_call *call = arg;
    const gyre_contextual_plan *plan = call->plan;
    const gyre_view *to = &plan->gradients->dembeddings;
    const int64_t heads = embedding_heads_of_item(plan), left = plan->items - call->first_item;
    for (int64_t i = 0; i < (left < plan->jobs ? left : plan->jobs); i++) {
        gyre_contextual_keys keys;
        gyre_contextual_buffers b;
        gyre_contextual_job(plan, call->scratch, i, &keys, &b);
        for (int64_t h = 0; h < heads; h++) {
            const int64_t head = plan->embedding_heads > 1 ? (call->first_item + i) % plan->key_heads * plan->group + h : 0;
            const float *from = b.dembeddings + (h * plan->z_pad + position) * plan->head_pad;
            for (int64_t c = 0; c < to->shape[3]; c++)
                gyre_view_add(to, 0, position, head, c, plan->args->position_scale * (double)from[c]);
        }
    }
}

/* -- an item -- */

static void write_keys(const gyre_contextual_plan *plan, int64_t item, const float *from, int64_t pad, const gyre_view *to) {
    const gyre_call_sequence s = gyre_contextual_sequence_of(plan, item);
    for (int64_t j = 0; to->data && j < s.keys; j++)
        gyre_store_row(from + j * pad, to->shape[3], gyre_view_at(to, s.batch, s.key + j, item % plan->key_heads, 0),
                       to->dtype, to->stride[3]);
}

static void run_item(void *arg, int64_t job) {
    const gradient_call *call = arg;
    const gyre_contextual_plan *plan = call->plan;
    const int64_t item = call->first_item + job, keys = plan->most_keys * KEY_TILE;
    gyre_contextual_keys key_tile;
    gyre_contextual_buffers b;
    if (item >= plan->items) return;
    const gyre_call_sequence s = gyre_contextual_sequence_of(plan, item);
    gyre_contextual_job(plan, call->scratch, job, &key_tile, &b);
    memset(b.dk, 0, (size_t)(keys * plan->head_pad) * sizeof(float));
    memset(b.dv, 0, (size_t)(keys * plan->value_pad) * sizeof(float));
    if (plan->gates_apart) memset(b.dgate_keys, 0, (size_t)(keys * plan->head_pad) * sizeof(float));
    memset(b.dembeddings, 0, (size_t)(embedding_heads_of_item(plan) * plan->z_pad * plan->head_pad) * sizeof(float));
    for (int64_t first = 0; first < gyre_contextual_row_count(plan, &s); first += QUERY_TILE) {
        begin_rows(&b, item, first);
        find_starts(&b);
        for (int64_t tile = 0; tile < gyre_contextual_tiles_seen(&b); tile++)
            tile_backward(&b, tile);
        embeddings_backward(&b);
        gyre_query_rows_write(&b.all_rows, b.dq_rows, plan->head_pad, &plan->gradients->dq);
    }
    write_keys(plan, item, b.dk, plan->head_pad, &plan->gradients->dk);
    write_keys(plan, item, b.dv, plan->value_pad, &plan->gradients->dv);
    write_keys(plan, item, b.dgate_keys, plan->head_pad, &plan->gradients->dgate_keys);
}

void gyre_contextual_gradient_run(void *call, char *scratch, const gyre_exec *exec) {
    const gyre_contextual_plan *plan = &((gyre_contextual_call *)call)->plan;
    const gyre_contextual_gradients *to = plan->gradients;
    const int64_t positions = to->dembeddings.shape[1] < plan->z_pad ? to->dembeddings.shape[1] : plan->z_pad;
    gradient_call run = {.plan = plan, .scratch = scratch};
    if (plan->args->k_first || plan->args->k_end) {
        gyre_view_clear(&to->dk); /* of keys that are padding */
        gyre_view_clear(&to->dv);
        gyre_view_clear(&to->dgate_keys);
    }
    gyre_contextual_embeddings_fill(plan, scratch, exec);
    for (; run.first_item < plan->items; run.first_item += plan->jobs) {
        gyre_parallel(exec, run_item, &run, plan->jobs);
        if (to->dembeddings.data) gyre_parallel(exec, collect_position, &run, positions);
    }
}
