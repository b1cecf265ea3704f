/* decode.c: few queries with keys and values read in place.
 *
 * All query heads of a key head and all their queries are rows of one block, so each key and each value is read and
 * converted once for all of them.  Rotated keys are never rotated again.  If their positions have been shifted since, the
 * queries are rotated the other way: <E(m) q, R(s) k> = <R(-s) E(m) q, k>. */
#include "attention/forward/decode.h"
#include "attention/terms/attention_rotation.h"
#include "attention/terms/biases.h"
#include "attention/terms/phases.h"
#include "attention/terms/visibility.h"
#include "attention/tiles/rows.h"
#include "attention/tiles/scores.h"
#include "attention/tiles/tiles.h"
#include "core/positions.h"
#include "core/rotation/rotate_rows.h"
#include "core/rotation/temperature.h"
#include "core/scheme.h"
#include "core/view.h"
#include <math.h>
#include <string.h>

/* STAGING_ROWS: rows copied into `staging` at a time, few enough to stay in the first-level cache.
 * PIECE: keys that one head reads before the next head does, at least, if the heads of a token are adjacent, as a model's
 * projections leave them.  Memory is slowest at single rows far apart.  So the piece of all heads, which is contiguous, is
 * prefetched in order while the piece before it is read from the cache, head by head.  A piece of short rows has more keys,
 * while all heads have at most PIECE_BYTES.
 *
 *     memory:    token 0: head 0 1 2 ... | token 1: head 0 1 2 ... | ...
 *     prefetch:  piece p + 1, all heads in memory order
 *     compute:   piece p of head 0, piece p of head 1, ... */
enum { STAGING_ROWS = 32, PIECE = 16, PIECE_BYTES = 1 << 14, LINE = 64, TRANSPOSED_ROWS = 16, PREFETCHED_ROWS = 64 };

/* One item of a task. */
typedef struct decode_state {
    const gyre_attention_plan *plan;
    const gyre_key_buffers *keys;
    const gyre_partial *to;
    int64_t batch, head, rows;         /* head: key head; rows: as in gyre_partial */
    gyre_query_buffers *query_buffers; /* [heads of the item] */
    float *q_rows;                     /* [rows][head_pad], rotated and scaled */
    float *shifted_q_rows;             /* q_rows rotated back by `shift`; only if has_shift */
    float *scores;                     /* [rows][KEY_TILE]; the softmax turns them into weights */
    float *phases;                     /* with phases, as scores: products of the second part */
    float *staging;               /* [STAGING_ROWS][max(head_pad, value_pad)], or [KEY_TILE][value_pad] integers of Q8 */
    float *columns;               /* fixed order: [head_pad][STAGING_ROWS], keys of `staging`, transposed */
    float *sums;                  /* fixed order: as to->out, over one tile; otherwise NULL */
    int64_t shift[GYRE_MAX_AXES]; /* of the keys read last */
    int has_shift;
    int visible_to_any; /* 1: some query sees some key of the current tile */
    gyre_tile_pair tile_pair;
} decode_state;

/* -- supported segments, and their memory -- */

static int scheme_supported(const gyre_attention_plan *plan) {
    const struct gyre_table_plan *table = &plan->table;
    const int vectors = table->factors || table->query || table->key || table->value || table->content || table->position;
    return !plan->gradient && !plan->rotation.xpos && plan->rotation.variants[GYRE_ROLE_QUERY] == 1 && !vectors &&
           plan->args->dropout == 0;
}

int gyre_decode_supported(const gyre_attention_plan *plan) {
    return plan->queries <= MAX_DECODE_QUERIES && scheme_supported(plan);
}

/* out = bytes of one item, a multiple of ALIGNMENT. */
static size_t layout_decode(const gyre_attention_plan *plan, char *memory, decode_state *d) {
    const int64_t rows = plan->partial_rows, pad = plan->head_pad > plan->value_pad ? plan->head_pad : plan->value_pad;
    gyre_arena a = {memory, 0};
    d->query_buffers = gyre_arena_alloc(&a, plan->group, sizeof *d->query_buffers);
    d->q_rows = gyre_arena_alloc(&a, rows * plan->head_pad, sizeof(float));
    d->shifted_q_rows = gyre_arena_alloc(&a, rows * plan->head_pad, sizeof(float));
    d->scores = gyre_arena_alloc(&a, rows * KEY_TILE, sizeof(float));
    if (plan->products > 1) d->phases = gyre_arena_alloc(&a, rows * KEY_TILE, sizeof(float));
    d->staging = gyre_arena_alloc(&a, STAGING_ROWS * pad, sizeof(float));
    if (plan->fixed_order) {
        d->columns = gyre_arena_alloc(&a, STAGING_ROWS * plan->head_pad, sizeof(float));
        d->sums = gyre_arena_alloc(&a, rows * plan->value_pad, sizeof(float));
    }
    return (a.used + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

/* out = heads_together of any segment with the shapes of the plan. */
static int64_t max_heads_together(const gyre_attention_plan *plan) {
    const int64_t heads_together =
        plan->source->heads_together < plan->key_heads ? plan->source->heads_together : plan->key_heads;
    return !scheme_supported(plan) || heads_together < 1 ? 1
           : heads_together < MAX_HEADS_TOGETHER         ? heads_together
                                                         : MAX_HEADS_TOGETHER;
}

/* Several queries for each key are enough work to hide the latency of memory.  Pieces would only cost time there. */
int64_t gyre_decode_heads_together(const gyre_attention_plan *plan) {
    return plan->queries == 1 ? max_heads_together(plan) : 1;
}

/* Counted for any number of queries: a segment with fewer queries may take this path where the largest does not. */
size_t gyre_decode_bytes(const gyre_attention_plan *plan) {
    decode_state d;
    return scheme_supported(plan) ? (size_t)max_heads_together(plan) * layout_decode(plan, NULL, &d) : 0;
}

/* -- scores -- */

/* out = the queries, rotated back by the shift of the keys. */
static const float *queries_for(decode_state *d, const gyre_key_run *run) {
    const gyre_attention_plan *plan = d->plan;
    int64_t any = 0;
    for (int a = 0; run->shift && a < GYRE_MAX_AXES; a++)
        any |= run->shift[a];
    if (any == 0 || plan->rotation.pairs == 0) return d->q_rows;
    if (d->has_shift && memcmp(d->shift, run->shift, sizeof d->shift) == 0) return d->shifted_q_rows;
    const gyre_strided_rows rows = {d->rows, plan->head_pad, d->shifted_q_rows};
    memcpy(d->shifted_q_rows, d->q_rows, (size_t)(d->rows * plan->head_pad) * sizeof *d->q_rows);
    gyre_rotate_rows_by_shift(plan->encoding, plan->args->q_pos.context_length, run->shift, -1, &rows);
    memcpy(d->shift, run->shift, sizeof d->shift);
    d->has_shift = 1;
    return d->shifted_q_rows;
}

/* job->angles: NULL unless the keys must be rotated. */
static void score_rows(const gyre_kernels *kernels, gyre_dtype dtype, const gyre_key_scores *job) {
    if (dtype == GYRE_DTYPE_F16)
        (job->angles ? kernels->score_rotated_f16 : kernels->score_rows_f16)(job);
    else if (dtype == GYRE_DTYPE_BF16)
        (job->angles ? kernels->score_rotated_bf16 : kernels->score_rows_bf16)(job);
    else if (dtype == GYRE_DTYPE_Q8)
        (job->angles ? kernels->score_rotated_q8 : kernels->score_rows_q8)(job);
    else
        (job->angles ? kernels->score_rotated_f32 : kernels->score_rows_f32)(job);
}

/* 1: kernels can rotate the keys while they read them. */
static int rotates_in_kernel(const gyre_attention_plan *plan) {
    const gyre_config *config = &plan->encoding->config;
    return plan->rotation.pairs % 16 == 0 && config->rope.layout == GYRE_LAYOUT_HALF && config->rope.first_channel == 0;
}

/* Prefetches a row that may not exist.  (Kernels that read many rows prefetch themselves.) */
static void prefetch_row(uintptr_t row, int64_t bytes) {
    for (int64_t b = 0; b < bytes; b += LINE)
        /* NOLINTNEXTLINE(performance-no-int-to-ptr): it may be past the end */
        __builtin_prefetch((const char *)(row + (uintptr_t)b), 0, 2);
}

/* staging = keys first .. first + n - 1 of a run, as rotated floats, unless a kernel rotates them (`rotates` 0).  rows:
 * the keys, counted in the segment. */
static void stage_keys(const decode_state *d, const gyre_key_run *run, int64_t first, const gyre_row_range *rows,
                       int rotates) {
    const gyre_attention_plan *plan = d->plan;
    const gyre_dtype dtype = plan->source->k_dtype;
    const int64_t step = gyre_dtype_bytes(dtype, run->k_row_stride),
                  bytes = gyre_dtype_bytes(dtype, plan->head_dim * run->k_step);
    const gyre_attention_rotation how = {.role = GYRE_ROLE_KEY};
    for (int64_t j = 0; j < rows->count; j++) {
        const char *from = (const char *)run->k + (first + j) * step;
        prefetch_row((uintptr_t)from + (uintptr_t)(STAGING_ROWS * step), bytes);
        gyre_row_read(plan->kernels, from, dtype, run->k_step, plan->head_dim, d->staging + j * plan->head_pad);
    }
    if (rotates) gyre_attention_rotate(plan, rows, &how, d->staging);
}

/* Scores of keys that must be rotated, are blocks, or whose channels are not adjacent.  first: index of the run in the
 * segment; channel: the first that is multiplied; in_kernel: 1 = the kernel rotates the keys. */
static void score_staged(const decode_state *d, const gyre_key_run *run, int64_t first, int64_t channel, int in_kernel,
                         const gyre_key_scores *all) {
    const gyre_attention_rotation how = {.role = GYRE_ROLE_KEY};
    for (int64_t done = 0; done < run->count; done += STAGING_ROWS) {
        const int64_t left = run->count - done, n = left < STAGING_ROWS ? left : STAGING_ROWS;
        const gyre_row_range rows = {d->batch, d->head, first + done, n};
        gyre_key_scores job = *all;
        stage_keys(d, run, done, &rows, !in_kernel && !d->plan->source->rotated);
        if (in_kernel) job.angles = gyre_attention_angle_rows(d->plan, &rows, &how), job.pairs = d->plan->rotation.pairs;
        job.keys = n;
        job.k = d->staging + channel;
        job.k_row_stride = d->plan->head_pad;
        job.k_scale = all->k_scale ? all->k_scale + done : NULL;
        job.scores = all->scores + done;
        score_rows(d->plan->kernels, GYRE_DTYPE_F32, &job);
    }
}

/* Prefetches TRANSPOSED_ROWS keys from `first` on, which may not exist. */
static void prefetch_keys(const decode_state *d, int64_t first) {
    const gyre_attention_plan *plan = d->plan;
    const gyre_dtype dtype = plan->source->k_dtype;
    gyre_key_run run;
    if (first >= plan->keys) return;
    gyre_key_run_at(plan->source, d->batch, d->head, first, TRANSPOSED_ROWS, &run);
    const int64_t step = gyre_dtype_bytes(dtype, run.k_row_stride),
                  bytes = gyre_dtype_bytes(dtype, plan->head_dim * run.k_step);
    for (int64_t j = 0; j < run.count; j++)
        prefetch_row((uintptr_t)run.k + (uintptr_t)(j * step), bytes);
}

/* out = where products of a part go. */
static float *products_of(const decode_state *d, int part) {
    return part > 0 ? d->phases : d->scores;
}

/* Q8: multiplies products of n keys of the tile pair from `done` on by the scales of the keys. */
static void scale_piece_scores(const decode_state *d, int64_t done, int64_t n, float *products) {
    const int64_t first = d->tile_pair.tile * KEY_TILE + d->tile_pair.first, end = done + n;
    gyre_key_run run;
    for (; d->plan->key_scales_apart && done < end; done += run.count) {
        gyre_key_run_at(d->plan->source, d->batch, d->head, first + done, end - done, &run);
        for (int64_t r = 0; r < d->rows; r++)
            gyre_row_multiply(products + r * KEY_TILE + done, run.k_scale, run.count);
    }
}

/* Products of a part of the channels of n keys in `columns`. */
static void multiply_columns(const decode_state *d, int64_t done, int64_t n, int part) {
    const gyre_channel_part *of = &d->plan->part[part];
    const gyre_matmul product = {.m = d->rows,
                                 .n = (n + 15) / 16 * 16,
                                 .k = of->pad,
                                 .a = d->q_rows + of->at,
                                 .a_row_stride = d->plan->head_pad,
                                 .a_col_stride = 1,
                                 .b = d->columns + of->at * STAGING_ROWS,
                                 .b_row_stride = STAGING_ROWS,
                                 .c = products_of(d, part) + done,
                                 .c_row_stride = KEY_TILE};
    d->plan->kernels->matmul_f32(&product);
    scale_piece_scores(d, done, n, products_of(d, part));
}

/* Scores of keys from .. end - 1 of the tile pair in the fixed order: each as gyre_tile_pair_score adds it, one
 * channel after the other.  That needs keys in columns, rotated as tiles of keys are. */
static void score_piece_in_fixed_order(const decode_state *d, int64_t from, int64_t end, int prefetched) {
    const gyre_attention_plan *plan = d->plan;
    const int64_t first = d->tile_pair.tile * KEY_TILE + d->tile_pair.first, pad = plan->head_pad;
    for (int64_t done = from; done < end; done += STAGING_ROWS) {
        const int64_t n = end - done < STAGING_ROWS ? end - done : STAGING_ROWS;
        for (int64_t j = 0; j < n; j += TRANSPOSED_ROWS) {
            const int64_t left = n - j, some = left < TRANSPOSED_ROWS ? left : TRANSPOSED_ROWS;
            const gyre_row_range keys = {d->batch, d->head, first + done + j, some};
            const gyre_transpose transpose = {TRANSPOSED_ROWS, pad, d->staging, pad, d->columns + j, STAGING_ROWS};
            if (!prefetched) prefetch_keys(d, first + done + j + PREFETCHED_ROWS);
            gyre_key_rows_read(plan, &keys, 0, d->staging);
            plan->kernels->transpose_f32(&transpose);
        }
        for (int part = 0; part < plan->products; part++)
            multiply_columns(d, done, n, part);
    }
}

/* Products over the channels of a part with a run that begins at key `done` of the tile pair. */
static void score_run(decode_state *d, const gyre_key_run *run, int64_t done, int part, int prefetched) {
    const gyre_attention_plan *plan = d->plan;
    const gyre_channel_part *of = &plan->part[part];
    const int rotates = plan->rotation.pairs > 0 && !plan->source->rotated, in_kernel = rotates && rotates_in_kernel(plan);
    const int is_block = gyre_is_block(plan->source->k_dtype);
    const int64_t first = d->tile_pair.tile * KEY_TILE + d->tile_pair.first + done;
    gyre_key_scores job = {.rows = d->rows,
                           .keys = run->count,
                           .channels = of->count,
                           .q = queries_for(d, run) + of->at,
                           .q_row_stride = plan->head_pad,
                           .k = (const char *)run->k + gyre_dtype_bytes(plan->source->k_dtype, of->first),
                           .k_row_stride = run->k_row_stride,
                           .k_scale = run->k_scale,
                           .scores = products_of(d, part) + done,
                           .score_row_stride = KEY_TILE,
                           .prefetched = prefetched};
    if (is_block || run->k_step != 1 || rotates != in_kernel) {
        score_staged(d, run, first, of->first, is_block && in_kernel, &job);
        return;
    }
    const gyre_row_range rows = {d->batch, d->head, first, run->count};
    const gyre_attention_rotation how = {.role = GYRE_ROLE_KEY};
    if (rotates) job.angles = gyre_attention_angle_rows(plan, &rows, &how), job.pairs = plan->rotation.pairs;
    score_rows(plan->kernels, plan->source->k_dtype, &job);
}

/* scores = queries . keys, for `piece` keys of the tile pair from `from` on, run by run. */
static void score_piece(decode_state *d, int64_t from, int64_t piece) {
    const int64_t first = d->tile_pair.tile * KEY_TILE + d->tile_pair.first;
    const int64_t end = d->tile_pair.count < from + piece ? d->tile_pair.count : from + piece;
    gyre_key_run run;
    if (d->plan->fixed_order) {
        score_piece_in_fixed_order(d, from, end, piece < KEY_TILE);
        return;
    }
    for (int64_t done = from; done < end; done += run.count) {
        gyre_key_run_at(d->plan->source, d->batch, d->head, first + done, end - done, &run);
        for (int part = 0; part < d->plan->products; part++)
            score_run(d, &run, done, part, piece < KEY_TILE);
    }
}

/* scores += the biases of a head, relative to those of the rows. */
static void add_score_biases(const decode_state *d, gyre_query_buffers *q) {
    const gyre_attention_plan *plan = d->plan;
    const gyre_tile_pair *tile_pair = &d->tile_pair;
    const int64_t *positions = d->keys->positions + tile_pair->tile * KEY_TILE + tile_pair->first;
    double score_bias[KEY_TILE];
    gyre_biases_add(plan, d->keys, q, tile_pair);
    for (int64_t i = 0; plan->table.has_score_bias && i < q->count; i++) {
        const gyre_bias_row row = {gyre_head_in_call(plan, q->head),
                                   q->positions[i],
                                   positions,
                                   tile_pair->count,
                                   gyre_slope_of_call(plan, q->batch, q->head),
                                   plan->args->q_pos.context_length};
        plan->encoding->scheme->bias_row(plan->encoding, plan->args->tables, &row, score_bias);
        for (int64_t j = 0; j < tile_pair->count; j++)
            q->scores[i * KEY_TILE + j] += (float)(score_bias[j] - q->scheme_bias[i]);
    }
}

/* -- weights and values -- */

static void weighted_sum_rows(const gyre_kernels *kernels, gyre_dtype dtype, const gyre_weighted_values *job) {
    if (dtype == GYRE_DTYPE_F16)
        kernels->weighted_sum_f16(job);
    else if (dtype == GYRE_DTYPE_BF16)
        kernels->weighted_sum_bf16(job);
    else if (dtype == GYRE_DTYPE_Q8)
        kernels->weighted_sum_q8(job);
    else
        kernels->weighted_sum_f32(job);
}

/* 1: the kernel may round the weights of a call together. */
static int rounds_weights(const gyre_attention_plan *plan) {
    return plan->source->v_dtype == GYRE_DTYPE_Q8 && !plan->fixed_order;
}

/* Values whose channels are not adjacent or in blocks, and those of Q8 in the fixed order, because the kernel of Q8
 * may round weights. */
static void weighted_sum_staged(const decode_state *d, const gyre_key_run *run, const gyre_weighted_values *all) {
    const gyre_attention_plan *plan = d->plan;
    const gyre_dtype dtype = plan->source->v_dtype;
    const int64_t step = gyre_dtype_bytes(dtype, run->v_row_stride);
    for (int64_t done = 0; done < run->count; done += STAGING_ROWS) {
        const int64_t left = run->count - done, n = left < STAGING_ROWS ? left : STAGING_ROWS;
        for (int64_t j = 0; j < n; j++)
            gyre_row_read(plan->kernels, (const char *)run->v + (done + j) * step, dtype, run->v_step, plan->value_dim,
                          d->staging + j * plan->value_pad);
        gyre_weighted_values job = *all;
        job.keys = n;
        job.v = d->staging;
        job.v_row_stride = plan->value_pad;
        job.weights = all->weights + done;
        plan->kernels->weighted_sum_f32(&job);
    }
}

/* out += weights . values of a run that begins at key `done` of the tile pair. */
static void weighted_sum_run(const decode_state *d, const gyre_key_run *run, int64_t done, int prefetched) {
    const gyre_attention_plan *plan = d->plan;
    for (int64_t r = 0; run->v_scale && r < d->rows; r++)
        gyre_row_multiply(d->scores + r * KEY_TILE + done, run->v_scale, run->count);
    const gyre_weighted_values job = {.rows = d->rows,
                                      .keys = run->count,
                                      .channels = plan->value_dim,
                                      .weights = d->scores + done,
                                      .weight_row_stride = KEY_TILE,
                                      .v = run->v,
                                      .v_row_stride = run->v_row_stride,
                                      .out = plan->fixed_order ? d->sums : d->to->out,
                                      .out_row_stride = plan->value_pad,
                                      .prefetched = prefetched};
    if (run->v_step == 1 && !gyre_is_block(plan->source->v_dtype) &&
        (plan->source->v_dtype != GYRE_DTYPE_Q8 || rounds_weights(plan)))
        weighted_sum_rows(plan->kernels, plan->source->v_dtype, &job);
    else
        weighted_sum_staged(d, run, &job);
}

/* Fixed order: the product of a tile begins at 0, and is added at its end, as gyre_matmul does. */
static void add_sums(const decode_state *d) {
    for (int64_t i = 0; i < d->rows * d->plan->value_pad; i++)
        d->to->out[i] += d->sums[i];
}

/* -- a split -- */

static void begin_split(decode_state *d) {
    const gyre_attention_plan *plan = d->plan;
    const gyre_partial *to = d->to;
    for (int64_t g = 0; g < plan->group; g++) {
        const gyre_row_range rows = {d->batch, d->head * plan->group + g, 0, plan->queries};
        gyre_query_buffers *q = &d->query_buffers[g];
        memset(q, 0, sizeof *q);
        q->q_rows[0] = q->table_rows = d->q_rows + g * plan->queries * plan->head_pad;
        q->scores = d->scores + g * plan->queries * KEY_TILE;
        if (plan->products > 1) q->phases.products = d->phases + g * plan->queries * KEY_TILE;
        gyre_query_buffers_fill(plan, d->keys, &rows, q);
        memcpy(to->bias + g * plan->queries, q->bias, (size_t)plan->queries * sizeof *q->bias);
    }
    memset(to->out, 0, (size_t)(d->rows * plan->value_pad) * sizeof *to->out);
    for (int64_t r = 0; r < d->rows; r++)
        to->row_max[r] = -INFINITY, to->row_sum[r] = 0;
}

/* 1: *tile_pair = the part of the tile that some head sees.  Heads that see any of it see the same part. */
static int visible_to_any(const decode_state *d, int64_t tile, gyre_tile_pair *tile_pair) {
    for (int64_t g = 0; g < d->plan->group; g++)
        if (gyre_tile_pair_visible(d->plan, d->keys, &d->query_buffers[g], tile, tile_pair)) return 1;
    return 0;
}

static void softmax_tile(decode_state *d) {
    const gyre_tile_pair *tile_pair = &d->tile_pair;
    gyre_phase_turns turns; /* heads share their positions */
    if (d->plan->products > 1) gyre_phases_list(d->plan, d->keys, d->query_buffers, tile_pair, &turns);
    for (int64_t g = 0; g < d->plan->group; g++) {
        if (d->plan->products > 1) gyre_phases_apply(d->plan, d->keys, &d->query_buffers[g], tile_pair, &turns);
        add_score_biases(d, &d->query_buffers[g]);
        gyre_tile_pair_mask(d->plan, d->keys, &d->query_buffers[g], tile_pair);
    }
    const gyre_online_softmax softmax = {d->plan->kernels, d->plan->value_pad, d->to->out, d->to->row_max, d->to->row_sum};
    gyre_softmax_update(&softmax, 0, d->rows, tile_pair->columns, d->scores);
}

/* out += weights . values of several runs, keys from .. end - 1 of the tile pair.  A kernel of Q8 may round the weights of a
 * call together, so the values of a piece are one call however many pages they are in. */
static void weighted_sum_gathered(decode_state *d, int64_t from, int64_t end) {
    const gyre_attention_plan *plan = d->plan;
    gyre_key_run run, all = {.v = d->staging, .count = end - from, .v_row_stride = plan->value_pad, .v_step = 1};
    for (int64_t done = from; done < end; done += run.count) {
        const int64_t first = d->tile_pair.tile * KEY_TILE + d->tile_pair.first + done;
        gyre_key_run_at(plan->source, d->batch, d->head, first, end - done, &run);
        for (int64_t j = 0; j < run.count; j++)
            memcpy((int8_t *)d->staging + (done - from + j) * plan->value_pad, (const int8_t *)run.v + j * run.v_row_stride,
                   (size_t)plan->value_dim);
        for (int64_t r = 0; run.v_scale && r < d->rows; r++)
            gyre_row_multiply(d->scores + r * KEY_TILE + done, run.v_scale, run.count);
    }
    weighted_sum_run(d, &all, from, 1);
}

/* out += weights . values, for `piece` values of the tile pair from `from` on, run by run. */
static void weighted_sum_piece(decode_state *d, int64_t from, int64_t piece) {
    const int64_t first = d->tile_pair.tile * KEY_TILE + d->tile_pair.first;
    const int64_t end = d->tile_pair.count < from + piece ? d->tile_pair.count : from + piece;
    gyre_key_run run;
    for (int64_t done = from; done < end; done += run.count) {
        gyre_key_run_at(d->plan->source, d->batch, d->head, first + done, end - done, &run);
        if (rounds_weights(d->plan) && run.v_step == 1 && run.count < end - done) {
            weighted_sum_gathered(d, done, end);
            return;
        }
        weighted_sum_run(d, &run, done, piece < KEY_TILE);
    }
}

/* out = keys of a piece of so many adjacent heads: less than a tile, because the kernels prefetch whole tiles themselves. */
static int64_t piece_of(const gyre_attention_plan *plan, int64_t heads) {
    const int64_t row = plan->head_dim > plan->value_dim ? plan->head_dim : plan->value_dim;
    int64_t piece = PIECE;
    if (heads == 1) return KEY_TILE;
    while (piece < KEY_TILE / 2 && gyre_dtype_bytes(plan->source->k_dtype, 2 * piece * heads * row) <= PIECE_BYTES)
        piece *= 2;
    return piece;
}

/* Prefetches fraction h of `heads` of the `piece` keys from `first` on, of all adjacent heads, in memory order.
 * values: 1 = values, 0 = keys. */
static void prefetch_fraction(const decode_state *d, int values, int64_t first, int64_t piece, int64_t h, int64_t heads) {
    const gyre_attention_plan *plan = d->plan;
    if (first >= plan->keys) return;
    gyre_key_run run;
    gyre_key_run_at(plan->source, d->batch, d->head, first, piece, &run);
    const gyre_dtype dtype = values ? plan->source->v_dtype : plan->source->k_dtype;
    const int64_t bytes = gyre_dtype_bytes(dtype, heads * (values ? plan->value_dim : plan->head_dim)),
                  lines = (bytes + LINE - 1) / LINE,
                  step = gyre_dtype_bytes(dtype, values ? run.v_row_stride : run.k_row_stride);
    const int64_t begin = lines * run.count * h / heads, end = lines * run.count * (h + 1) / heads;
    const char *row = (const char *)(values ? run.v : run.k) + begin / lines * step;
    for (int64_t i = begin, line = begin % lines; i < end; i++) {
        __builtin_prefetch(row + line * LINE, 0, 2);
        if (++line == lines) line = 0, row += step;
    }
}

/* Reads the keys or values of a tile, piece by piece, each piece for all heads.  Each head prefetches its fraction of the
 * next piece.  After the keys come the values, after the values the keys of the next tile. */
static void read_tile(const gyre_attention_plan *plan, decode_state *d, int64_t heads, int64_t tile, int values) {
    const int64_t piece = piece_of(plan, heads);
    for (int64_t from = 0; from < KEY_TILE; from += piece)
        for (int64_t h = 0; h < heads; h++) {
            const int last = from + piece == KEY_TILE;
            const int64_t next = tile * KEY_TILE + (last ? (values ? KEY_TILE : 0) : from + piece);
            if (heads > 1) prefetch_fraction(d, values != last, next, piece, h, heads);
            if (!d[h].visible_to_any || from >= d[h].tile_pair.count) continue;
            if (values)
                weighted_sum_piece(&d[h], from, piece);
            else
                score_piece(&d[h], from, piece);
        }
}

static void attend_tile(const gyre_attention_plan *plan, decode_state *d, int64_t heads, int64_t tile) {
    for (int64_t h = 0; h < heads; h++)
        d[h].visible_to_any = visible_to_any(&d[h], tile, &d[h].tile_pair);
    read_tile(plan, d, heads, tile, 0);
    for (int64_t h = 0; h < heads; h++) {
        if (d[h].visible_to_any) softmax_tile(&d[h]);
        if (d[h].sums) memset(d[h].sums, 0, (size_t)(d[h].rows * d[h].plan->value_pad) * sizeof(float));
    }
    read_tile(plan, d, heads, tile, 1);
    for (int64_t h = 0; h < heads; h++)
        if (d[h].sums && d[h].visible_to_any) add_sums(&d[h]);
}

static int all_finite(const decode_state *d) {
    int finite;
    d->plan->kernels->finite_row_f32(d->to->out, d->rows * d->plan->value_pad, &finite);
    for (int64_t r = 0; r < d->rows; r++)
        finite &= isfinite(d->to->row_sum[r]) != 0;
    return finite;
}

void gyre_decode_split(const gyre_attention_plan *plan, const gyre_key_buffers *keys, const gyre_decode_task *task,
                       char *memory, const gyre_partial *out, int *nonfinite) {
    decode_state d[MAX_HEADS_TOGETHER];
    for (int64_t h = 0; h < task->items; h++) {
        const int64_t item = task->item + h;
        d[h] = (decode_state){.plan = plan,
                              .keys = keys,
                              .to = &out[h],
                              .batch = item / plan->key_heads,
                              .head = item % plan->key_heads,
                              .rows = plan->group * plan->queries};
        memory += layout_decode(plan, memory, &d[h]);
        begin_split(&d[h]);
    }
    for (int64_t t = task->first / KEY_TILE; t * KEY_TILE < task->first + task->count; t++)
        attend_tile(plan, d, task->items, t);
    for (int64_t h = 0; h < task->items; h++)
        nonfinite[h] = !all_finite(&d[h]);
}

/* -- one query with few keys: neither splits nor positions of keys in memory -- */

/* STRAIGHT_BYTES: keys and values of a call that one thread reads sooner than others wake up, and that need no prefetch in
 * the order of memory.  STRAIGHT_BYTES_ALONE: with one thread, what a second-level cache holds. */
enum { STRAIGHT_BYTES = 1 << 18, STRAIGHT_BYTES_ALONE = 1 << 20 };

/* 1: each query sees all keys, whose positions are consecutive. */
static int sees_all_keys(const gyre_attention_plan *plan) {
    const gyre_positions *keys = &plan->args->k_pos;
    if (!plan->args->causal && plan->window == 0 && plan->window_after == 0) return 1;
    if (plan->segment->indexed || (!plan->by_order && keys->data)) return 0;
    const int64_t first = plan->by_order ? plan->segment->key_first : keys->base, last = first + plan->keys - 1;
    for (int64_t batch = 0; batch < plan->items / plan->key_heads; batch++) {
        const gyre_row_range query = {batch, 0, 0, 1};
        int64_t order;
        gyre_order_read(plan, GYRE_ROLE_QUERY, &query, &order);
        const gyre_visible_range visible = gyre_visible_to_query(plan, order);
        if (first < visible.low || last > visible.high) return 0;
        if (plan->by_order) break; /* the same in each row */
    }
    return 1;
}

int64_t gyre_decode_most_straight_keys(const gyre_attention_plan *plan, int alone) {
    const gyre_attention_inputs *args = plan->args;
    const gyre_scheme *scheme = plan->encoding ? plan->encoding->scheme : NULL;
    const size_t row = (size_t)gyre_dtype_bytes(plan->source->k_dtype, plan->head_dim) +
                       (size_t)gyre_dtype_bytes(plan->source->v_dtype, plan->value_dim);
    if (plan->queries != 1 || plan->items == 0 || !plan->split_keys || plan->fixed_order || plan->products != 1 ||
        args->state.data || args->mask.data || args->weights.data || plan->gated || plan->softcap > 0 ||
        plan->table.has_score_bias || (scheme && (scheme->decays || scheme->bias_tile)) || !gyre_decode_supported(plan))
        return 0;
    const size_t bytes = alone && plan->straight_kernel ? STRAIGHT_BYTES_ALONE : STRAIGHT_BYTES;
    const int64_t most = (int64_t)(bytes / row) / plan->items;
    return most < plan->split_keys_each ? most : plan->split_keys_each;
}

int gyre_decode_is_straight(const gyre_attention_plan *plan) {
    return plan->keys > 0 && plan->keys <= plan->most_straight_keys && sees_all_keys(plan);
}

/* The rows of queries as gyre_query_buffers_fill makes them. */
static void read_straight_queries(const decode_state *d) {
    const gyre_attention_plan *plan = d->plan;
    const gyre_attention_rotation how = {.role = GYRE_ROLE_QUERY};
    float scale = plan->scale;
    if (plan->encoding)
        scale *= (float)gyre_temperature_at(plan->encoding, gyre_position_at(&plan->args->q_pos, d->batch, 0, 0));
    for (int64_t g = 0; g < plan->group; g++) {
        const gyre_row_range query = {d->batch, d->head * plan->group + g, 0, 1};
        float *q = d->q_rows + g * plan->head_pad;
        gyre_rows_read(plan, &plan->args->q, &query, q, plan->head_pad);
        gyre_attention_rotate(plan, &query, &how, q);
        plan->kernels->scale_row_f32(q, plan->part[0].pad, scale);
    }
}

int gyre_decode_straight(const gyre_attention_plan *plan, int64_t item, char *memory, const gyre_partial *to) {
    decode_state d = {
        .plan = plan, .to = to, .batch = item / plan->key_heads, .head = item % plan->key_heads, .rows = plan->group};
    /* As many keys at a time as gyre_decode_split reads, so that sums round alike. */
    const int64_t left_heads = plan->key_heads - d.head / plan->heads_together * plan->heads_together;
    const int64_t piece = piece_of(plan, left_heads < plan->heads_together ? left_heads : plan->heads_together);
    const gyre_online_softmax softmax = {plan->kernels, plan->value_pad, to->out, to->row_max, to->row_sum};
    layout_decode(plan, memory, &d);
    gyre_softmax_begin(&softmax, d.rows);
    read_straight_queries(&d);
    for (int64_t tile = 0; tile < plan->key_tiles; tile++) {
        const int64_t left = plan->keys - tile * KEY_TILE, count = left < KEY_TILE ? left : KEY_TILE;
        const int64_t columns = gyre_pad16(count);
        d.tile_pair = (gyre_tile_pair){.tile = tile, .count = count, .columns = columns};
        for (int64_t from = 0; from < count; from += piece)
            score_piece(&d, from, piece);
        for (int64_t r = 0; r < d.rows; r++)
            for (int64_t j = count; j < columns; j++)
                d.scores[r * KEY_TILE + j] = -INFINITY;
        gyre_softmax_update(&softmax, 0, d.rows, columns, d.scores);
        for (int64_t from = 0; from < count; from += piece)
            weighted_sum_piece(&d, from, piece);
    }
    return all_finite(&d);
}
