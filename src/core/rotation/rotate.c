/* rotate.c: gyre_rotate: rotates queries and keys by their positions.
 *
 * Work is divided into blocks of tokens and these into chunks of pairs, so that stack memory is bounded for any
 * dimension.  Contiguous rows go straight to the kernels; others are gathered into the half layout first. */
#include "core/convert.h"
#include "core/encoding.h"
#include "core/exec.h"
#include "core/positions.h"
#include "core/rotation/angle_table.h"
#include "core/rotation/cached_angles.h"
#include "core/rotation/permute.h"
#include "core/rotation/temperature.h"
#include "core/scheme.h"
#include "core/sized.h"
#include "core/system_alloc.h"
#include "core/view.h"
#include "kernels/places/place_kernels.h"
#include "util/error.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { TOKEN_BLOCK = 32, HEAD_TOKEN_BLOCK = 128, CHANNEL_CHUNK = 256 };
/* Separate heads that are rotated together, so that each angle is read once for all of them.  Heads are often a power of
 * two apart, and then their rows compete for the ways of a first-level cache, 8 and more: one row a head in place, two
 * otherwise. */
enum { HEADS_IN_PLACE = 8, HEADS_APART = 4 };
static const int64_t PAST_CACHES_BYTES = 1 << 23;  /* of out: the caches of a core would not keep it for the reader */
static const int64_t MIN_PARALLEL_BYTES = 1 << 20; /* below, waking another thread takes longer than the work */

/* Magnitudes outside 2^-100 .. 2^100 are refused: their product with a channel would soon leave the range of float. */
static const double MAX_LOG2_MAGNITUDE = 100;

typedef struct rotate_call {
    gyre_angles angles;
    gyre_role role;
    const gyre_positions *positions;
    const gyre_cview *in;
    const gyre_view *out;
    int64_t first, dim;      /* the rotated channels; dim 0 where the scheme rotates nothing */
    gyre_layout read, write; /* the layout of pairs in `in` and `out`: HALF or INTERLEAVED */
    int64_t elements;
    int64_t block_tokens; /* at most HEAD_TOKEN_BLOCK */
    int64_t blocks;       /* blocks of tokens per batch row */
    int in_place;
    int uses_table;          /* rows of the encoding's angle table go to the kernel directly */
    int head_by_head;        /* the heads of a token lie further apart than the tokens of a head */
    int64_t heads_at_once;   /* of those that are gone through together then */
    gyre_rotate_job job;     /* what the kernel calls for such rows have in common */
    int permutes_separately; /* in place between two layouts: channels move before or after the rotation, not with it */
} rotate_call;

/* Pairs first .. first + count - 1 and their frequencies. */
typedef struct chunk {
    int64_t first, count;
    const gyre_frequency *frequency;
} chunk;

typedef struct token {
    int64_t b, t;
    const double *position;
    double scale;         /* multiplies channels: the temperature, or its inverse */
    double xpos_distance; /* xPos: positions from the centre; negated where the magnitude divides */
    gyre_angles angles;   /* their factor includes scale */
    int unchanged;        /* 1: no channel changes its value */
} token;

static double temperature_of(const rotate_call *r, int64_t position) {
    return r->role == GYRE_ROLE_QUERY ? gyre_temperature_at(r->angles.encoding, position) : 1;
}

static double xpos_distance_of(const rotate_call *r, double position) {
    if (!r->angles.encoding->xpos_log2_decay) return 0;
    const double xpos_distance = position - (double)r->angles.encoding->config.rope.xpos_center;
    return (r->role == GYRE_ROLE_KEY) != (r->angles.direction == GYRE_DIRECTION_INVERSE) ? -xpos_distance : xpos_distance;
}

static token token_of(const rotate_call *r, int64_t b, int64_t t, const double *position) {
    const double temperature = temperature_of(r, (int64_t)position[0]);
    token k = {.b = b,
               .t = t,
               .position = position,
               .scale = r->angles.direction == GYRE_DIRECTION_INVERSE ? 1 / temperature : temperature,
               .xpos_distance = xpos_distance_of(r, position[0]),
               .angles = r->angles};
    k.angles.factor *= k.scale;
    k.unchanged = k.scale == 1 && k.xpos_distance == 0 && (r->dim == 0 || gyre_angles_identity(&k.angles, position));
    return k;
}

/* -- rotated channels -- */

/* The chunk is the whole row, and its channels are contiguous. */
static int is_contiguous_row(const rotate_call *r, const chunk *c) {
    return r->in->stride[3] == 1 && r->out->stride[3] == 1 && c->count == r->dim / 2;
}

typedef void (*rotate_kernel)(const gyre_rotate_job *job);

static inline rotate_kernel kernel_of(const gyre_place_kernels *kernels, gyre_dtype dtype) {
    return dtype == GYRE_DTYPE_F16    ? kernels->rotate_f16
           : dtype == GYRE_DTYPE_BF16 ? kernels->rotate_bf16
           : dtype == GYRE_DTYPE_F64  ? kernels->rotate_f64
                                      : kernels->rotate_f32;
}

static void run_rotate_kernel(const rotate_call *r, const gyre_rotate_job *job) {
    kernel_of(r->angles.encoding->kernels, r->in->dtype)(job);
}

static void rotate_contiguous(const rotate_call *r, const token *k, const void *cosine, const void *sine, int negate_sine) {
    gyre_rotate_job job = r->job;
    job.in = gyre_cview_at(r->in, k->b, k->t, 0, r->first);
    job.out = gyre_view_at(r->out, k->b, k->t, 0, r->first);
    job.cosine = cosine;
    job.sine = sine;
    job.negate_sine = negate_sine;
    run_rotate_kernel(r, &job);
}

/* Address of member 0 or 1 of a pair, and the distance in elements between neighbouring pairs. */
static const void *member_in(const rotate_call *r, const token *k, int64_t h, int64_t pair, int member) {
    return gyre_cview_at(r->in, k->b, k->t, h, r->first + gyre_member_channel(r->read, r->dim, pair, member));
}
static void *member_out(const rotate_call *r, const token *k, int64_t h, int64_t pair, int member) {
    return gyre_view_at(r->out, k->b, k->t, h, r->first + gyre_member_channel(r->write, r->dim, pair, member));
}
static int64_t step_in(const rotate_call *r) {
    return gyre_member_stride(r->read) * r->in->stride[3];
}
static int64_t step_out(const rotate_call *r) {
    return gyre_member_stride(r->write) * r->out->stride[3];
}

/* Strided channels, or more pairs than a chunk: gathers a row on the stack in its own type, rotates it, scatters it. */
static void rotate_gathered(const rotate_call *r, const chunk *c, const token *k, const void *cosine, const void *sine,
                            int negate_sine) {
    const int64_t n = c->count, size = (int64_t)gyre_dtype_size(r->in->dtype);
    double memory[2 * GYRE_PAIR_CHUNK];
    char *const x = (char *)memory;
    const gyre_rotate_job job = {x, x, 1, n, 0, 0, 1, 1, negate_sine, cosine, sine, 0, 0};
    for (int64_t h = 0; h < r->in->shape[2]; h++) {
        for (int m = 0; m < 2; m++)
            gyre_copy_row(member_in(r, k, h, c->first, m), step_in(r), x + m * n * size, 1, r->in->dtype, n);
        run_rotate_kernel(r, &job);
        for (int m = 0; m < 2; m++)
            gyre_copy_row(x + m * n * size, 1, member_out(r, k, h, c->first, m), step_out(r), r->in->dtype, n);
    }
}

static void cos_sin_f64(const chunk *c, const token *k, double *cosine, double *sine) {
    const double *xpos_log2_decay = k->angles.encoding->xpos_log2_decay;
    gyre_angles_f64(&k->angles, c->frequency, c->first, c->count, k->position, cosine, sine);
    for (int64_t i = 0; xpos_log2_decay && i < c->count; i++) {
        const double magnitude = exp2(k->xpos_distance * xpos_log2_decay[c->first + i]);
        cosine[i] *= magnitude;
        sine[i] *= magnitude;
    }
}

static gyre_cos_sin_view cos_sin_f32(const chunk *c, const token *k, float *buffer) {
    if (!k->angles.encoding->xpos_log2_decay)
        return gyre_angles_f32(&k->angles, c->frequency, c->first, c->count, k->position, buffer);
    const gyre_cos_sin_view out = {buffer, buffer + c->count, 0};
    double cosine[GYRE_PAIR_CHUNK], sine[GYRE_PAIR_CHUNK];
    cos_sin_f64(c, k, cosine, sine);
    for (int64_t i = 0; i < c->count; i++) {
        buffer[i] = (float)cosine[i];
        buffer[c->count + i] = (float)sine[i];
    }
    return out;
}

static void rotate_token_f32(const rotate_call *r, const chunk *c, const token *k) {
    float buffer[2 * GYRE_PAIR_CHUNK];
    const gyre_cos_sin_view pair_cos_sin = cos_sin_f32(c, k, buffer);
    if (is_contiguous_row(r, c))
        rotate_contiguous(r, k, pair_cos_sin.cosine, pair_cos_sin.sine, pair_cos_sin.negate_sine);
    else
        rotate_gathered(r, c, k, pair_cos_sin.cosine, pair_cos_sin.sine, pair_cos_sin.negate_sine);
}

static void rotate_token_f64(const rotate_call *r, const chunk *c, const token *k) {
    double cosine[GYRE_PAIR_CHUNK], sine[GYRE_PAIR_CHUNK];
    cos_sin_f64(c, k, cosine, sine);
    if (is_contiguous_row(r, c))
        rotate_contiguous(r, k, cosine, sine, 0);
    else
        rotate_gathered(r, c, k, cosine, sine, 0);
}

/* -- unrotated channels -- */

/* Multiplies by the token's scale in double, rounded once.  Phases are not scaled. */
static void scale_channels(const rotate_call *r, const token *k, int64_t h, int64_t first, int64_t count) {
    const gyre_encoding *encoding = r->angles.encoding;
    const int64_t end = encoding->scheme->phase_row ? encoding->product_channels : first + count;
    double x[CHANNEL_CHUNK];
    for (int64_t done = 0, n; done < count; done += n) {
        n = count - done < CHANNEL_CHUNK ? count - done : CHANNEL_CHUNK;
        gyre_load_row_f64(gyre_cview_at(r->in, k->b, k->t, h, first + done), r->in->dtype, r->in->stride[3], n, x);
        for (int64_t c = 0; c < n && first + done + c < end; c++)
            x[c] *= k->scale;
        gyre_store_row_f64(x, n, gyre_view_at(r->out, k->b, k->t, h, first + done), r->out->dtype, r->out->stride[3]);
    }
}

/* Channels first .. first + count - 1 of a token: scaled, or copied bit for bit. */
static void copy_channels(const rotate_call *r, const token *k, int64_t first, int64_t count) {
    if (count == 0 || (r->in_place && k->scale == 1)) return;
    for (int64_t h = 0; h < r->in->shape[2]; h++)
        if (k->scale != 1)
            scale_channels(r, k, h, first, count);
        else
            gyre_copy_row(gyre_cview_at(r->in, k->b, k->t, h, first), r->in->stride[3],
                          gyre_view_at(r->out, k->b, k->t, h, first), r->out->stride[3], r->in->dtype, count);
}

/* The pairs of an unchanged token: copied bit for bit from layout to layout. */
static void copy_pairs(const rotate_call *r, const token *k) {
    for (int64_t h = 0; h < r->in->shape[2]; h++)
        for (int m = 0; m < 2; m++)
            gyre_copy_row(member_in(r, k, h, 0, m), step_in(r), member_out(r, k, h, 0, m), step_out(r), r->in->dtype,
                          r->dim / 2);
}

/* Moves the pairs of a token in place between the two layouts. */
static void permute_token(const rotate_call *r, const token *k) {
    for (int64_t h = 0; h < r->out->shape[2]; h++) {
        void *row = gyre_view_at(r->out, k->b, k->t, h, r->first);
        if (r->angles.direction == GYRE_DIRECTION_FORWARD)
            gyre_deinterleave_row(row, r->out->dtype, r->out->stride[3], r->dim / 2);
        else
            gyre_interleave_row(row, r->out->dtype, r->out->stride[3], r->dim / 2);
    }
}

static void copy_unrotated(const rotate_call *r, const token *k) {
    const int64_t end = r->first + r->dim;
    copy_channels(r, k, 0, r->first);
    copy_channels(r, k, end, r->in->shape[3] - end);
    if (!k->unchanged) return;
    if (!r->in_place)
        copy_pairs(r, k);
    else if (r->read != r->write)
        permute_token(r, k);
}

/* -- the call -- */

static void rotate_chunks(const rotate_call *r, const token *tokens, int64_t count) {
    gyre_frequency buffer[GYRE_PAIR_CHUNK];
    for (chunk c = {0, 0, NULL}; c.first < r->dim / 2; c.first += c.count) {
        c.count = r->dim / 2 - c.first < GYRE_PAIR_CHUNK ? r->dim / 2 - c.first : GYRE_PAIR_CHUNK;
        c.frequency = gyre_angles_frequencies(&r->angles, c.first, c.count, buffer);
        for (int64_t t = 0; t < count; t++) {
            if (tokens[t].unchanged) continue;
            if (r->in->dtype == GYRE_DTYPE_F64)
                rotate_token_f64(r, &c, &tokens[t]);
            else
                rotate_token_f32(r, &c, &tokens[t]);
        }
    }
}

/* -- tokens whose angles are in the table -- */
/* One axis, no factor except the attention factor, contiguous channels: the table row is all that the kernel needs. */
static int can_use_table(const rotate_call *r) {
    const gyre_encoding *e = r->angles.encoding;
    return r->dim > 0 && e->angles && !e->axis && !e->xpos_log2_decay && r->angles.uses_stored &&
           r->angles.factor == e->attention_factor &&
           (r->role == GYRE_ROLE_KEY || e->config.query.temperature == GYRE_TEMPERATURE_NONE) && r->in->stride[3] == 1 &&
           r->out->stride[3] == 1 && !r->permutes_separately;
}

/* out = cos, then sin of token t; NULL if the table has no such row, or the rotation is the identity, which copies. */
static const void *table_row_of(const rotate_call *r, int64_t b, int64_t t) {
    const gyre_encoding *e = r->angles.encoding;
    const int64_t m = gyre_position_at(r->positions, b, t, 0);
    if (m == 0 && r->angles.factor == 1) return NULL;
    return r->in->dtype == GYRE_DTYPE_F64 ? (const void *)gyre_angle_table_row_f64(e, m) : gyre_angle_table_row(e, m);
}

typedef void (*rotate_tokens_kernel)(const gyre_rotate_tokens_job *job);

static rotate_tokens_kernel tokens_kernel_of(const gyre_place_kernels *kernels, gyre_dtype dtype) {
    return dtype == GYRE_DTYPE_F16    ? kernels->rotate_tokens_f16
           : dtype == GYRE_DTYPE_BF16 ? kernels->rotate_tokens_bf16
           : dtype == GYRE_DTYPE_F64  ? kernels->rotate_tokens_f64
                                      : kernels->rotate_tokens_f32;
}

/* Some heads of adjacent tokens that all have a row of the table. */
typedef struct row_block {
    int64_t b, first, tokens, head, heads;
    const void *const *rows; /* [tokens] */
} row_block;

static int64_t offset_of(const int64_t *stride, const row_block *k) {
    return k->b * stride[0] + k->first * stride[1] + k->head * stride[2];
}

static void rotate_row_block(const rotate_call *r, const row_block *k) {
    const int64_t size = (int64_t)gyre_dtype_size(r->in->dtype);
    gyre_rotate_tokens_job job = {.one = r->job,
                                  .rows = k->rows,
                                  .tokens = k->tokens,
                                  .in_token_stride = r->in->stride[1],
                                  .out_token_stride = r->out->stride[1]};
    job.one.in = (const char *)r->job.in + offset_of(r->in->stride, k) * size;
    job.one.out = (char *)r->job.out + offset_of(r->out->stride, k) * size;
    job.one.heads = k->heads;
    tokens_kernel_of(r->angles.encoding->kernels, r->in->dtype)(&job);
}

/* Rotates adjacent tokens that have a row of the table, in the order of memory. */
static void rotate_run(const rotate_call *r, row_block k) {
    const int64_t heads = r->in->shape[2];
    k.heads = r->head_by_head ? 1 : heads;
    for (k.head = 0; k.head < heads; k.head += k.heads)
        rotate_row_block(r, &k);
}

/* Rotates the tokens of a block whose angles are in the table; done[t] = 1 for those. */
static void rotate_from_table(const rotate_call *r, int64_t b, int64_t first, int64_t count, unsigned char *done) {
    const void *rows[HEAD_TOKEN_BLOCK];
    for (int64_t t = 0; t < count; t++) {
        rows[t] = table_row_of(r, b, first + t);
        done[t] = rows[t] != NULL;
        if (!done[t] || r->in_place || r->dim == r->in->shape[3]) continue;
        const token k = {.b = b, .t = first + t, .scale = 1};
        copy_channels(r, &k, 0, r->first);
        copy_channels(r, &k, r->first + r->dim, r->in->shape[3] - r->first - r->dim);
    }
    for (int64_t t = 0, end; t < count; t = end) {
        for (end = t + 1; end < count && done[end] == done[t];)
            end++;
        if (done[t]) rotate_run(r, (row_block){.b = b, .first = first + t, .tokens = end - t, .rows = rows + t});
    }
}

static void rotate_token_block(void *arg, int64_t block) {
    const rotate_call *r = arg;
    const int64_t b = block / r->blocks, first = block % r->blocks * r->block_tokens;
    const int64_t left = r->in->shape[1] - first, count = left < r->block_tokens ? left : r->block_tokens;
    const int64_t axes = gyre_axes_of(r->angles.encoding);
    double positions[HEAD_TOKEN_BLOCK * GYRE_MAX_AXES];
    token tokens[HEAD_TOKEN_BLOCK];
    int64_t count_general = 0;
    unsigned char done[HEAD_TOKEN_BLOCK] = {0};
    if (r->uses_table) rotate_from_table(r, b, first, count, done);
    for (int64_t t = 0; t < count; t++) {
        if (done[t]) continue;
        double *position = positions + count_general * axes;
        gyre_positions_read_axes(r->angles.encoding, r->positions, b, first + t, 1, position);
        token *k = &tokens[count_general++];
        *k = token_of(r, b, first + t, position);
        copy_unrotated(r, k);
        if (r->permutes_separately && r->angles.direction != GYRE_DIRECTION_FORWARD) permute_token(r, k);
    }
    if (count_general > 0) rotate_chunks(r, tokens, count_general);
    for (int64_t t = 0; r->permutes_separately && r->angles.direction == GYRE_DIRECTION_FORWARD && t < count_general; t++)
        permute_token(r, &tokens[t]);
}

/* -- tokens of one head after the other -- */
static int64_t head_groups(const rotate_call *r) {
    return (r->in->shape[2] + r->heads_at_once - 1) / r->heads_at_once;
}

/* A block of heads_at_once heads: neighbouring blocks are adjacent in memory, which the processor then reads ahead. */
static void rotate_head_block(void *arg, int64_t block) {
    const rotate_call *all = arg;
    const int64_t size = (int64_t)gyre_dtype_size(all->in->dtype), heads = all->in->shape[2];
    const int64_t groups = head_groups(all), row = block / all->blocks, h = row % groups * all->heads_at_once;
    const int64_t count = heads - h < all->heads_at_once ? heads - h : all->heads_at_once;
    gyre_cview in = *all->in;
    gyre_view out = *all->out;
    rotate_call r = *all;
    in.data = (const char *)in.data + h * in.stride[2] * size;
    out.data = (char *)out.data + h * out.stride[2] * size;
    in.shape[2] = out.shape[2] = count;
    r.job.in = (const char *)r.job.in + h * in.stride[2] * size;
    r.job.out = (char *)r.job.out + h * out.stride[2] * size;
    r.in = &in;
    r.out = &out;
    r.job.heads = count;
    r.head_by_head = 0;
    rotate_token_block(&r, row / groups * all->blocks + block % all->blocks);
}

/* Whether groups of heads are rotated one after the other: the heads of a token are further apart than the tokens of a
 * head, and every angle is in the table, because others would be computed again for each group. */
static int goes_by_heads(const rotate_call *r) {
    const int64_t end = gyre_angle_table_length(r->angles.encoding);
    if (!r->uses_table || !r->head_by_head || r->in->shape[1] < 2 * TOKEN_BLOCK) return 0;
    for (int64_t b = 0; b < r->in->shape[0]; b++)
        for (int64_t t = 0; t < r->in->shape[1]; t++) {
            const int64_t m = gyre_position_at(r->positions, b, t, 0);
            if (m < 0 || m >= end) return 0;
        }
    return 1;
}

/* ERANGE if the magnitude of xPos times the other factors leaves the range.  Its extremes are the first and the last
 * pair. */
static gyre_status check_magnitudes(const rotate_call *r, gyre_error *err) {
    const double *xpos_log2_decay = r->angles.encoding->xpos_log2_decay;
    for (int64_t b = 0; xpos_log2_decay && b < r->in->shape[0]; b++)
        for (int64_t t = 0; t < r->in->shape[1]; t++) {
            const double position = (double)gyre_position_at(r->positions, b, t, 0);
            const token k = token_of(r, b, t, &position);
            const double fixed = log2(k.angles.factor), fast = fixed + k.xpos_distance * xpos_log2_decay[0],
                         slow = fixed + k.xpos_distance * xpos_log2_decay[r->dim / 2 - 1];
            if (!(fabs(fast) <= MAX_LOG2_MAGNITUDE && fabs(slow) <= MAX_LOG2_MAGNITUDE))
                return gyre_fail(err, GYRE_ERANGE,
                                 "positions: %.0f of token %" PRId64 " in row %" PRId64
                                 " is too far from rope.xpos_center %" PRId64
                                 "; the magnitude of a pair leaves 2^-100 .. 2^100 (gyre_rotate)",
                                 position, t, b, r->angles.encoding->config.rope.xpos_center);
        }
    return GYRE_OK;
}

/* The kernel can read one layout and write the other.  In place that overwrites channels that are still unread, unless the
 * chunk is the whole row, which is read before it is written. */
static void choose_layouts(rotate_call *r, gyre_layout layout) {
    r->read = r->write = layout == GYRE_LAYOUT_HALF ? GYRE_LAYOUT_HALF : GYRE_LAYOUT_INTERLEAVED;
    if (layout != GYRE_LAYOUT_INTERLEAVED_TO_HALF) return;
    r->permutes_separately = r->in_place && r->dim / 2 > GYRE_PAIR_CHUNK;
    if (r->permutes_separately) return;
    if (r->angles.direction == GYRE_DIRECTION_FORWARD)
        r->write = GYRE_LAYOUT_HALF;
    else
        r->read = GYRE_LAYOUT_HALF;
}

static gyre_status run(rotate_call *r, const gyre_exec *exec, gyre_error *err) {
    r->in_place = gyre_same_memory(r->in, r->out);
    if (r->dim > 0) choose_layouts(r, r->angles.encoding->config.rope.layout);
    r->uses_table = can_use_table(r);
    r->head_by_head =
        llabs(r->in->stride[2]) + llabs(r->out->stride[2]) > llabs(r->in->stride[1]) + llabs(r->out->stride[1]);
    if (r->dim > 0)
        r->job =
            (gyre_rotate_job){.in = gyre_cview_at(r->in, 0, 0, 0, r->first),
                              .out = gyre_view_at(r->out, 0, 0, 0, r->first),
                              .heads = r->in->shape[2],
                              .pairs = r->dim / 2,
                              .in_head_stride = r->in->stride[2],
                              .out_head_stride = r->out->stride[2],
                              .from_half = r->read == GYRE_LAYOUT_HALF,
                              .to_half = r->write == GYRE_LAYOUT_HALF,
                              .negate_sine = r->angles.direction != GYRE_DIRECTION_FORWARD,
                              .exceeds_cache = r->elements >= MIN_PARALLEL_BYTES / (int64_t)gyre_dtype_size(r->in->dtype),
                              .past_caches = r->elements >= PAST_CACHES_BYTES / (int64_t)gyre_dtype_size(r->in->dtype)};
    r->heads_at_once = r->in_place ? HEADS_IN_PLACE : HEADS_APART;
    const gyre_status status = check_magnitudes(r, err);
    if (status) return status;
    const gyre_exec *threads = r->elements < MIN_PARALLEL_BYTES / (int64_t)gyre_dtype_size(r->in->dtype) ? NULL : exec;
    const int by_heads = goes_by_heads(r);
    r->block_tokens = by_heads ? HEAD_TOKEN_BLOCK : TOKEN_BLOCK;
    r->blocks = (r->in->shape[1] + r->block_tokens - 1) / r->block_tokens;
    if (by_heads)
        gyre_parallel(threads, rotate_head_block, r, r->blocks * r->in->shape[0] * head_groups(r));
    else
        gyre_parallel(threads, rotate_token_block, r, r->blocks * r->in->shape[0]);
    return GYRE_OK;
}

/* Fast path for decoding: one token whose angles are in the table.  The general path would add a fifth to its time.
 * out = 1 if the call is such a one; *job = it, without memory and angles. */
static int is_single_token(const gyre_encoding *e, const gyre_rotate_args *args, gyre_rotate_job *job) {
    const struct gyre_rope_config *rope = &e->config.rope;
    const gyre_cview *in = &args->in;
    const gyre_view *out = &args->out;
    if (!(e->scheme->places & GYRE_PLACE_QUERY_KEY) || in->shape[0] != 1 || in->shape[1] != 1 || !e->angles || e->axis ||
        e->xpos_log2_decay || rope->dim != in->shape[3] || in->dtype == GYRE_DTYPE_F64 || in->stride[3] != 1 ||
        out->stride[3] != 1 || rope->layout == GYRE_LAYOUT_INTERLEAVED_TO_HALF ||
        (args->direction == GYRE_DIRECTION_INVERSE && e->attention_factor != 1) ||
        (args->role == GYRE_ROLE_QUERY && e->config.query.temperature != GYRE_TEMPERATURE_NONE) ||
        (args->positions->context_length != 0 &&
         !gyre_rope_same_frequencies(&e->config, args->positions->context_length, 0)))
        return 0;
    const int half = rope->layout == GYRE_LAYOUT_HALF;
    const int negate_sine = args->direction != GYRE_DIRECTION_FORWARD;
    *job = (gyre_rotate_job){
        NULL, NULL, in->shape[2], rope->dim / 2, in->stride[2], out->stride[2], half, half, negate_sine, NULL, NULL, 0, 0};
    return 1;
}

/* out = 1 if done: the table has position m, which is in range. */
static int rotate_single_token(const gyre_encoding *e, const gyre_rotate_job *of, gyre_dtype dtype, int64_t m,
                               const void *in, void *out) {
    const float *row = m == 0 && e->attention_factor == 1 ? NULL : gyre_angle_table_row(e, m); /* at 0: the identity */
    if (!row) return 0;
    gyre_rotate_job job = *of;
    job.in = in, job.out = out, job.cosine = row, job.sine = row + job.pairs;
    kernel_of(e->kernels, dtype)(&job);
    return 1;
}

static gyre_status check_choices(gyre_direction direction, gyre_role role, gyre_error *err) {
    const gyre_status status = gyre_direction_check(direction, "gyre_rotate", err);
    if (status || role == GYRE_ROLE_QUERY || role == GYRE_ROLE_KEY) return status;
    return gyre_fail(err, GYRE_EINVAL, "role: %d is neither QUERY nor KEY (gyre_rotate)", (int)role);
}

/* All that does not depend on memory and positions. */
static gyre_status check_rotation(const gyre_encoding *encoding, const gyre_rotate_args *args, gyre_error *err) {
    if (!encoding || !args->positions)
        return gyre_fail(err, GYRE_EINVAL, "%s: is NULL (gyre_rotate)", encoding ? "positions" : "encoding");
    return check_choices(args->direction, args->role, err);
}

static gyre_status check_channels(const gyre_encoding *encoding, const gyre_cview *in, gyre_error *err) {
    if (!(encoding->scheme->places & GYRE_PLACE_QUERY_KEY) || in->shape[3] == encoding->config.head_dim) return GYRE_OK;
    return gyre_fail(err, GYRE_ESHAPE, "in: %" PRId64 " channels a head, the encoding has %" PRId64 " (gyre_rotate)",
                     in->shape[3], encoding->config.head_dim);
}

static gyre_status check_positions(const gyre_encoding *encoding, const gyre_rotate_args *args, gyre_error *err) {
    return gyre_positions_check(encoding, args->positions, args->in.shape[0], args->in.shape[1], "positions", "gyre_rotate",
                                err);
}

static rotate_call call_of(const gyre_encoding *encoding, const gyre_rotate_args *args) {
    rotate_call r = {.elements = gyre_view_elements(args->in.shape),
                     .angles = {.encoding = encoding, .direction = args->direction, .factor = 1},
                     .role = args->role,
                     .positions = args->positions,
                     .in = &args->in,
                     .out = &args->out};
    if (!(encoding->scheme->places & GYRE_PLACE_QUERY_KEY)) return r;
    r.angles = gyre_angles_of(encoding, args->direction, args->positions->context_length);
    r.first = encoding->config.rope.first_channel;
    r.dim = encoding->config.rope.dim;
    return r;
}

/* Rotates what is checked. */
static gyre_status rotate(const gyre_encoding *encoding, const gyre_rotate_args *args, const gyre_exec *exec,
                          gyre_error *err) {
    gyre_rotate_job job;
    if (is_single_token(encoding, args, &job) &&
        rotate_single_token(encoding, &job, args->in.dtype, gyre_position_at(args->positions, 0, 0, 0), args->in.data,
                            args->out.data))
        return GYRE_OK;
    rotate_call r = call_of(encoding, args);
    return run(&r, exec, err);
}

/* All checks of a call; *empty = 1: there is nothing to rotate. */
static gyre_status check_call(const gyre_encoding *encoding, const gyre_rotate_args *args, int *empty, gyre_error *err) {
    gyre_status status = check_rotation(encoding, args, err);
    if (!status) status = gyre_in_out_check(&args->in, &args->out, "gyre_rotate", err);
    if (!status) status = check_channels(encoding, &args->in, err);
    *empty = gyre_view_elements(args->in.shape) == 0;
    if (status || *empty) return status;
    status = check_positions(encoding, args, err);
    return status ? status : gyre_in_out_apart_check(&args->in, &args->out, "gyre_rotate", err);
}

gyre_status gyre_rotate(const gyre_encoding *encoding, const gyre_rotate_args *given, const gyre_exec *exec,
                        gyre_error *err) {
    gyre_rotate_args args;
    int empty;
    if (gyre_sized_read(&args, sizeof args, given, "gyre_rotate_args", err)) return GYRE_EINVAL;
    const gyre_status status = check_call(encoding, &args, &empty, err);
    return status || empty ? status : rotate(encoding, &args, exec, err);
}

/* -- slices -- */

/* Some tokens of a batch row, and some of their heads. */
typedef struct slice_part {
    int64_t b, first, tokens, head, heads;
} slice_part;

static gyre_status rotate_part(const gyre_encoding *encoding, const gyre_rotate_args *args, const slice_part *part,
                               gyre_error *err) {
    gyre_rotate_args own = *args;
    gyre_positions at = gyre_positions_of_row(args->positions, part->b);
    if (at.data)
        at.data = (const char *)at.data + part->first * at.stride_token * (int64_t)gyre_dtype_size(at.dtype);
    else
        at.base += part->first;
    own.positions = &at;
    gyre_cview_narrow(&own.in, 0, part->b, 1), gyre_view_narrow(&own.out, 0, part->b, 1);
    gyre_cview_narrow(&own.in, 1, part->first, part->tokens), gyre_view_narrow(&own.out, 1, part->first, part->tokens);
    gyre_cview_narrow(&own.in, 2, part->head, part->heads), gyre_view_narrow(&own.out, 2, part->head, part->heads);
    return rotate(encoding, &own, NULL, err);
}

gyre_status gyre_rotate_slice(const gyre_encoding *encoding, const gyre_rotate_args *given, gyre_slice slice,
                              gyre_error *err) {
    gyre_rotate_args args;
    int empty;
    gyre_status status = gyre_slice_check(slice, "gyre_rotate_slice", err);
    if (status || gyre_sized_read(&args, sizeof args, given, "gyre_rotate_args", err)) return GYRE_EINVAL;
    status = check_call(encoding, &args, &empty, err);
    if (status || empty) return status;
    const rotate_call whole = call_of(encoding, &args);
    status = check_magnitudes(&whole, err); /* so that all slices fail, or none */
    const int64_t tokens = args.in.shape[1], all = args.in.shape[0] * tokens, heads = args.in.shape[2];
    const int by_heads = all < slice.count;
    const int64_t end = by_heads ? all : all * (slice.index + 1) / slice.count,
                  head = by_heads ? heads * slice.index / slice.count : 0,
                  head_end = by_heads ? heads * (slice.index + 1) / slice.count : heads;
    for (int64_t t = by_heads ? 0 : all * slice.index / slice.count; t < end && head < head_end && !status;) {
        slice_part part = {t / tokens, t % tokens, tokens - t % tokens, head, head_end - head};
        if (part.tokens > end - t) part.tokens = end - t;
        status = rotate_part(encoding, &args, &part, err);
        t += part.tokens;
    }
    return status;
}

/* -- a rotation that is kept between runs -- */

struct gyre_prepared_rotation {
    gyre_alloc alloc;
    const gyre_encoding *encoding;
    gyre_rotate_args args; /* its positions are those below */
    gyre_positions positions;
    gyre_exec exec; /* run NULL = the calling thread */
    gyre_bound_views views;
    int empty, alike, is_single; /* alike: out has the strides of in.  is_single: `single`, at positions up to `last` */
    gyre_rotate_job single;
    int64_t last;
};

/* Memory that is not given yet is checked in each run. */
static gyre_status check_without_memory(const gyre_rotate_args *args, gyre_error *err) {
    double memory = 0; /* of which only the address is looked at; no element type is aligned more strictly */
    gyre_rotate_args own = *args;
    own.in.data = own.out.data = &memory;
    return gyre_in_out_check(&own.in, &own.out, "gyre_rotate", err);
}

gyre_status gyre_prepared_rotation_create(gyre_prepared_rotation **out, const gyre_encoding *encoding,
                                          const gyre_rotate_args *given, const gyre_exec *exec, const gyre_alloc *alloc,
                                          gyre_error *err) {
    static const char name[] = "gyre_prepared_rotation_create";
    gyre_rotate_args args;
    gyre_alloc own;
    if (!out) return gyre_fail(err, GYRE_EINVAL, "out: is NULL (%s)", name);
    gyre_status status = gyre_alloc_read(&own, alloc, name, err);
    if (!status) status = gyre_sized_read(&args, sizeof args, given, "gyre_rotate_args", err);
    if (!status) status = check_rotation(encoding, &args, err);
    if (!status) status = check_without_memory(&args, err);
    if (!status) status = check_channels(encoding, &args.in, err);
    if (status) return status;
    gyre_prepared_rotation *p = own.alloc(own.ctx, sizeof *p, 64);
    if (!p) return gyre_fail(err, GYRE_ENOMEM, "memory: %zu bytes cannot be allocated (%s)", sizeof *p, name);
    const gyre_cview written = gyre_const(args.out);
    *p = (gyre_prepared_rotation){.alloc = own, .encoding = encoding, .args = args, .positions = *args.positions};
    p->args.positions = &p->positions;
    p->empty = gyre_view_elements(args.in.shape) == 0;
    p->alike = memcmp(args.in.stride, args.out.stride, sizeof args.in.stride) == 0;
    p->is_single =
        !p->empty && !p->positions.data && p->positions.context_length >= 0 && is_single_token(encoding, &args, &p->single);
    p->last = encoding->last_position;
    if (p->positions.context_length == 0 && encoding->last_scaled < p->last) p->last = encoding->last_scaled;
    if (exec) p->exec = *exec;
    gyre_bound_views_add(&p->views, "in", &args.in, 0);
    gyre_bound_views_add(&p->views, "out", &written, 1);
    *out = p;
    return GYRE_OK;
}

void gyre_prepared_rotation_free(gyre_prepared_rotation *p) {
    if (!p) return;
    const gyre_alloc alloc = p->alloc;
    alloc.free(alloc.ctx, p);
}

gyre_status gyre_prepared_rotation_run(const gyre_prepared_rotation *p, const void *in, void *out, int64_t base,
                                       gyre_error *err) {
    static const char name[] = "gyre_prepared_rotation_run";
    int apart;
    if (!p) return gyre_fail(err, GYRE_EINVAL, "prepared: is NULL (%s)", name);
    if (p->empty) return GYRE_OK;
    void *const to = out ? out : p->args.out.data;
    const void *const data[2] = {in ? in : p->args.in.data, to};
    gyre_status status = gyre_bound_views_check(&p->views, data, &apart, name, err);
    if (!status && p->is_single && (apart || (p->alike && data[0] == data[1])) && base >= p->encoding->first_position &&
        base <= p->last && rotate_single_token(p->encoding, &p->single, p->args.in.dtype, base, data[0], to))
        return GYRE_OK;
    gyre_rotate_args args = p->args;
    gyre_positions positions = p->positions;
    args.positions = &positions;
    args.in.data = data[0], args.out.data = to;
    positions.base = base;
    if (!status && !apart) status = gyre_in_out_apart_check(&args.in, &args.out, name, err);
    if (!status) status = check_positions(p->encoding, &args, err);
    return status ? status : rotate(p->encoding, &args, p->exec.run ? &p->exec : NULL, err);
}
