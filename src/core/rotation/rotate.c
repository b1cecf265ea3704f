/* rotate.c: queries and keys turned by their positions.
 *
 * Work goes by blocks of tokens and, inside, by chunks of pairs, so that stack memory is bounded for any dimension.
 * Channels side by side go to the kernels as they lie; others are gathered into the half layout first. */
#include "core/convert.h"
#include "core/rotation/angle_table.h"
#include "core/rotation/angles.h"
#include "core/rotation/permute.h"
#include "core/view.h"

#include <math.h>
#include <string.h>

enum { TOKEN_BLOCK = 32, CHANNEL_CHUNK = 256 };
static const int64_t ALONE = 1 << 20; /* bytes below which waking another thread takes longer than the work */

/* Past 2^100 either way a magnitude is refused: its product with a channel would soon leave the range of float. */
static const double MOST_LOG2 = 100;

typedef struct rotation {
    gyre_angles angles;
    gyre_role role;
    const gyre_positions *positions;
    const gyre_cview *in;
    const gyre_view *out;
    int64_t first, dim;      /* the rotated channels; dim 0 where the scheme rotates nothing */
    gyre_layout read, write; /* how pairs lie in `in` and `out`: HALF or INTERLEAVED */
    int64_t elements;
    int64_t blocks; /* of tokens, per batch row */
    int in_place;
    int kept;         /* angles come from the encoding's table, where it has them, and go to the kernel with the row */
    gyre_turns turns; /* what such rows have in common */
    int moves;        /* in place, and moved between the layouts before or after the turn, not by it */
} rotation;

/* Pairs first .. first + count - 1, of frequencies `frequency`. */
typedef struct chunk {
    int64_t first, count;
    const gyre_frequency *frequency;
} chunk;

typedef struct token {
    int64_t b, t;
    const double *position;
    double scale;       /* of the whole row: the temperature, or what undoes it */
    double steps;       /* xPos: positions from the centre, negative where magnitudes are divided by */
    gyre_angles angles; /* scale included */
    int still;          /* no channel changes its value */
} token;

static double temperature_of(const rotation *r, int64_t position) {
    return r->role == GYRE_QUERY ? gyre_temperature_at(r->angles.encoding, position) : 1;
}

static double steps_of(const rotation *r, double position) {
    if (!r->angles.encoding->decay) return 0;
    const double steps = position - (double)r->angles.encoding->config.rope.xpos_center;
    return (r->role == GYRE_KEY) != (r->angles.direction == GYRE_INVERSE) ? -steps : steps;
}

static token token_of(const rotation *r, int64_t b, int64_t t, const double *position) {
    const double temperature = temperature_of(r, (int64_t)position[0]);
    token k = {.b = b,
               .t = t,
               .position = position,
               .scale = r->angles.direction == GYRE_INVERSE ? 1 / temperature : temperature,
               .steps = steps_of(r, position[0]),
               .angles = r->angles};
    k.angles.factor *= k.scale;
    k.still = k.scale == 1 && k.steps == 0 && (r->dim == 0 || gyre_angles_identity(&k.angles, position));
    return k;
}

/* -- channels that turn ---------------------------------------------------------------------------------------------- */

/* A chunk that is the whole row, its channels side by side. */
static int kernel_takes(const rotation *r, const chunk *c) {
    return r->in->stride[3] == 1 && r->out->stride[3] == 1 && c->count == r->dim / 2;
}

static inline void call_rotate(const gyre_kernels *kernels, gyre_dtype dtype, const gyre_turns *turns) {
    switch (dtype) {
    case GYRE_F16:
        kernels->rotate_f16(turns);
        return;
    case GYRE_BF16:
        kernels->rotate_bf16(turns);
        return;
    case GYRE_F64:
        kernels->rotate_f64(turns);
        return;
    default:
        kernels->rotate_f32(turns);
    }
}

static void turn_rows(const rotation *r, const gyre_turns *turns) {
    call_rotate(r->angles.encoding->kernels, r->in->dtype, turns);
}

static void call_kernel(const rotation *r, const token *k, const void *cosine, const void *sine, int back) {
    gyre_turns turns = r->turns;
    turns.in = gyre_cview_at(r->in, k->b, k->t, 0, r->first);
    turns.out = gyre_view_at(r->out, k->b, k->t, 0, r->first);
    turns.cosine = cosine;
    turns.sine = sine;
    turns.back = back;
    turn_rows(r, &turns);
}

/* Member 0 or 1 of the chunk's first pair, and the elements from pair to pair. */
static const void *member_in(const rotation *r, const token *k, int64_t h, int64_t pair, int member) {
    return gyre_cview_at(r->in, k->b, k->t, h, r->first + gyre_member_channel(r->read, r->dim, pair, member));
}
static void *member_out(const rotation *r, const token *k, int64_t h, int64_t pair, int member) {
    return gyre_view_at(r->out, k->b, k->t, h, r->first + gyre_member_channel(r->write, r->dim, pair, member));
}
static int64_t step_in(const rotation *r) {
    return gyre_member_step(r->read) * r->in->stride[3];
}
static int64_t step_out(const rotation *r) {
    return gyre_member_step(r->write) * r->out->stride[3];
}

/* Channels that lie apart, or more of them than a chunk: through rows on the stack, in the type they have. */
static void turn_gathered(const rotation *r, const chunk *c, const token *k, const void *cosine, const void *sine,
                          int back) {
    const int64_t n = c->count, size = (int64_t)gyre_dtype_size(r->in->dtype);
    _Alignas(double) char x[2 * GYRE_PAIR_CHUNK * sizeof(double)];
    const gyre_turns turns = {x, x, 1, n, 0, 0, 1, 1, back, cosine, sine, 0};
    for (int64_t h = 0; h < r->in->shape[2]; h++) {
        for (int m = 0; m < 2; m++)
            gyre_copy_row(member_in(r, k, h, c->first, m), step_in(r), x + m * n * size, 1, r->in->dtype, n);
        turn_rows(r, &turns);
        for (int m = 0; m < 2; m++)
            gyre_copy_row(x + m * n * size, 1, member_out(r, k, h, c->first, m), step_out(r), r->in->dtype, n);
    }
}

static void cos_sin_f64(const chunk *c, const token *k, double *cosine, double *sine) {
    const double *decay = k->angles.encoding->decay;
    gyre_angles_f64(&k->angles, c->frequency, c->first, c->count, k->position, cosine, sine);
    for (int64_t i = 0; decay && i < c->count; i++) {
        const double magnitude = exp2(k->steps * decay[c->first + i]);
        cosine[i] *= magnitude;
        sine[i] *= magnitude;
    }
}

static gyre_cos_sin cos_sin_f32(const chunk *c, const token *k, float *buffer) {
    if (!k->angles.encoding->decay)
        return gyre_angles_f32(&k->angles, c->frequency, c->first, c->count, k->position, buffer);
    const gyre_cos_sin out = {buffer, buffer + c->count, 0};
    double cosine[GYRE_PAIR_CHUNK], sine[GYRE_PAIR_CHUNK];
    cos_sin_f64(c, k, cosine, sine);
    for (int64_t i = 0; i < c->count; i++) {
        buffer[i] = (float)cosine[i];
        buffer[c->count + i] = (float)sine[i];
    }
    return out;
}

static void turn_token_f32(const rotation *r, const chunk *c, const token *k) {
    float buffer[2 * GYRE_PAIR_CHUNK];
    const gyre_cos_sin turn = cos_sin_f32(c, k, buffer);
    if (kernel_takes(r, c))
        call_kernel(r, k, turn.cosine, turn.sine, turn.back);
    else
        turn_gathered(r, c, k, turn.cosine, turn.sine, turn.back);
}

static void turn_token_f64(const rotation *r, const chunk *c, const token *k) {
    double cosine[GYRE_PAIR_CHUNK], sine[GYRE_PAIR_CHUNK];
    cos_sin_f64(c, k, cosine, sine);
    if (kernel_takes(r, c))
        call_kernel(r, k, cosine, sine, 0);
    else
        turn_gathered(r, c, k, cosine, sine, 0);
}

/* -- channels that do not -------------------------------------------------------------------------------------------- */

/* In double, rounded once. */
static void scale_channels(const rotation *r, const token *k, int64_t h, int64_t first, int64_t count) {
    double x[CHANNEL_CHUNK];
    for (int64_t done = 0, n; done < count; done += n) {
        n = count - done < CHANNEL_CHUNK ? count - done : CHANNEL_CHUNK;
        gyre_load_row_f64(gyre_cview_at(r->in, k->b, k->t, h, first + done), r->in->dtype, r->in->stride[3], n, x);
        for (int64_t c = 0; c < n; c++)
            x[c] *= k->scale;
        gyre_store_row_f64(x, n, gyre_view_at(r->out, k->b, k->t, h, first + done), r->out->dtype, r->out->stride[3]);
    }
}

/* Channels first .. first + count - 1 of a token: scaled, or bit for bit. */
static void pass_channels(const rotation *r, const token *k, int64_t first, int64_t count) {
    if (count == 0 || (r->in_place && k->scale == 1)) return;
    for (int64_t h = 0; h < r->in->shape[2]; h++)
        if (k->scale != 1)
            scale_channels(r, k, h, first, count);
        else
            gyre_copy_row(gyre_cview_at(r->in, k->b, k->t, h, first), r->in->stride[3],
                          gyre_view_at(r->out, k->b, k->t, h, first), r->out->stride[3], r->in->dtype, count);
}

/* The rotated channels of a token that is still: bit for bit, from layout to layout. */
static void pass_pairs(const rotation *r, const token *k) {
    for (int64_t h = 0; h < r->in->shape[2]; h++)
        for (int m = 0; m < 2; m++)
            gyre_copy_row(member_in(r, k, h, 0, m), step_in(r), member_out(r, k, h, 0, m), step_out(r), r->in->dtype,
                          r->dim / 2);
}

/* In place and between two layouts. */
static void move_token(const rotation *r, const token *k) {
    for (int64_t h = 0; h < r->out->shape[2]; h++) {
        void *row = gyre_view_at(r->out, k->b, k->t, h, r->first);
        if (r->angles.direction == GYRE_FORWARD)
            gyre_unshuffle_row(row, r->out->dtype, r->out->stride[3], r->dim / 2);
        else
            gyre_shuffle_row(row, r->out->dtype, r->out->stride[3], r->dim / 2);
    }
}

static void pass_token(const rotation *r, const token *k) {
    const int64_t end = r->first + r->dim;
    pass_channels(r, k, 0, r->first);
    pass_channels(r, k, end, r->in->shape[3] - end);
    if (!k->still) return;
    if (!r->in_place)
        pass_pairs(r, k);
    else if (r->read != r->write)
        move_token(r, k);
}

/* -- the call -------------------------------------------------------------------------------------------------------- */

static void turn_pairs(const rotation *r, const token *tokens, int64_t count) {
    gyre_frequency buffer[GYRE_PAIR_CHUNK];
    for (chunk c = {0, 0, NULL}; c.first < r->dim / 2; c.first += c.count) {
        c.count = r->dim / 2 - c.first < GYRE_PAIR_CHUNK ? r->dim / 2 - c.first : GYRE_PAIR_CHUNK;
        c.frequency = gyre_angles_frequencies(&r->angles, c.first, c.count, buffer);
        for (int64_t t = 0; t < count; t++) {
            if (tokens[t].still) continue;
            if (r->in->dtype == GYRE_F64)
                turn_token_f64(r, &c, &tokens[t]);
            else
                turn_token_f32(r, &c, &tokens[t]);
        }
    }
}

/* -- tokens whose angles are kept ------------------------------------------------------------------------------------ */
/* One axis, nothing but the attention factor on it, channels side by side: the row of the table is all that is needed. */
static int takes_kept(const rotation *r) {
    const gyre_encoding *e = r->angles.encoding;
    return r->dim > 0 && e->angles && !e->axis && !e->decay && r->angles.own && r->angles.factor == e->attention_factor &&
           (r->role == GYRE_KEY || e->config.query.temperature == GYRE_TEMPERATURE_NONE) && r->in->stride[3] == 1 &&
           r->out->stride[3] == 1 && !r->moves;
}

/* 1 = the token is done. */
static int turn_kept(const rotation *r, int64_t b, int64_t t) {
    const gyre_encoding *e = r->angles.encoding;
    const int64_t m = gyre_position_at(r->positions, b, t, 0), size = (int64_t)gyre_dtype_size(r->in->dtype);
    if (m == 0 && r->angles.factor == 1) return 0; /* stays bit for bit */
    const int wide = r->in->dtype == GYRE_F64;
    const void *row = wide ? (const void *)gyre_angle_table_wide_row(e, m) : gyre_angle_table_row(e, m);
    if (!row) return 0;
    gyre_turns turns = r->turns;
    turns.in = (const char *)turns.in + (b * r->in->stride[0] + t * r->in->stride[1]) * size;
    turns.out = (char *)turns.out + (b * r->out->stride[0] + t * r->out->stride[1]) * size;
    turns.cosine = row;
    turns.sine = (const char *)row + (size_t)turns.pairs * (wide ? sizeof(double) : sizeof(float));
    if (!r->in_place && r->dim < r->in->shape[3]) {
        const token k = {.b = b, .t = t, .scale = 1};
        pass_channels(r, &k, 0, r->first);
        pass_channels(r, &k, r->first + r->dim, r->in->shape[3] - r->first - r->dim);
    }
    turn_rows(r, &turns);
    return 1;
}

static void turn_block(void *arg, int64_t block) {
    const rotation *r = arg;
    const int64_t b = block / r->blocks, first = block % r->blocks * TOKEN_BLOCK;
    const int64_t left = r->in->shape[1] - first, count = left < TOKEN_BLOCK ? left : TOKEN_BLOCK;
    const int64_t axes = gyre_axes_of(r->angles.encoding);
    double positions[TOKEN_BLOCK * GYRE_MAX_AXES];
    token tokens[TOKEN_BLOCK];
    int64_t others = 0;
    for (int64_t t = 0; t < count; t++) {
        if (r->kept && turn_kept(r, b, first + t)) continue;
        double *position = positions + others * axes;
        gyre_positions_read_axes(r->angles.encoding, r->positions, b, first + t, 1, position);
        token *k = &tokens[others++];
        *k = token_of(r, b, first + t, position);
        pass_token(r, k);
        if (r->moves && r->angles.direction != GYRE_FORWARD) move_token(r, k);
    }
    if (others > 0) turn_pairs(r, tokens, others);
    for (int64_t t = 0; r->moves && r->angles.direction == GYRE_FORWARD && t < others; t++)
        move_token(r, &tokens[t]);
}

/* ERANGE where xPos and the factors beside it together leave the range; the fastest and the slowest pair are the ends. */
static gyre_status check_magnitudes(const rotation *r) {
    const double *decay = r->angles.encoding->decay;
    for (int64_t b = 0; decay && b < r->in->shape[0]; b++)
        for (int64_t t = 0; t < r->in->shape[1]; t++) {
            const double position = (double)gyre_position_at(r->positions, b, t, 0);
            const token k = token_of(r, b, t, &position);
            const double fixed = log2(k.angles.factor), fast = fixed + k.steps * decay[0],
                         slow = fixed + k.steps * decay[r->dim / 2 - 1];
            if (!(fabs(fast) <= MOST_LOG2 && fabs(slow) <= MOST_LOG2)) return GYRE_ERANGE;
        }
    return GYRE_OK;
}

/* A chunk of pairs goes straight from one layout to the other.  In place it would run over channels that are still to be
 * read, but where the chunk is the whole row: that is read before it is written. */
static void choose_layouts(rotation *r, gyre_layout layout) {
    r->read = r->write = layout == GYRE_HALF ? GYRE_HALF : GYRE_INTERLEAVED;
    if (layout != GYRE_INTERLEAVED_TO_HALF) return;
    r->moves = r->in_place && r->dim / 2 > GYRE_PAIR_CHUNK;
    if (r->moves) return;
    if (r->angles.direction == GYRE_FORWARD)
        r->write = GYRE_HALF;
    else
        r->read = GYRE_HALF;
}

static gyre_status run(rotation *r, const gyre_exec *exec) {
    r->in_place = gyre_same_memory(r->in, r->out);
    if (r->dim > 0) choose_layouts(r, r->angles.encoding->config.rope.layout);
    r->blocks = (r->in->shape[1] + TOKEN_BLOCK - 1) / TOKEN_BLOCK;
    r->kept = takes_kept(r);
    if (r->dim > 0)
        r->turns = (gyre_turns){.in = gyre_cview_at(r->in, 0, 0, 0, r->first),
                                .out = gyre_view_at(r->out, 0, 0, 0, r->first),
                                .heads = r->in->shape[2],
                                .pairs = r->dim / 2,
                                .in_head = r->in->stride[2],
                                .out_head = r->out->stride[2],
                                .from_half = r->read == GYRE_HALF,
                                .to_half = r->write == GYRE_HALF,
                                .back = r->angles.direction != GYRE_FORWARD,
                                .streams = r->elements >= ALONE / (int64_t)gyre_dtype_size(r->in->dtype)};
    const gyre_status status = check_magnitudes(r);
    if (status == GYRE_OK)
        gyre_parallel(r->elements < ALONE / (int64_t)gyre_dtype_size(r->in->dtype) ? NULL : exec, turn_block, r,
                      r->blocks * r->in->shape[0]);
    return status;
}

/* A token of a model that generates, whose angles are kept: what the general way spends on it would be a fifth of the time.
 * 1 = it is done. */
static int turn_one(const gyre_encoding *e, gyre_direction direction, gyre_role role, const gyre_positions *positions,
                    const gyre_cview *in, const gyre_view *out) {
    const struct gyre_rope_config *rope = &e->config.rope;
    if (in->shape[0] != 1 || in->shape[1] != 1 || !e->angles || e->axis || e->decay || rope->dim != in->shape[3] ||
        in->dtype == GYRE_F64 || in->stride[3] != 1 || out->stride[3] != 1 || rope->layout == GYRE_INTERLEAVED_TO_HALF ||
        (direction == GYRE_INVERSE && e->attention_factor != 1) ||
        (role == GYRE_QUERY && e->config.query.temperature != GYRE_TEMPERATURE_NONE) ||
        (positions->length != 0 && !gyre_rope_same_frequencies(&e->config, positions->length, 0)))
        return 0;
    const int64_t m = gyre_position_at(positions, 0, 0, 0), pairs = rope->dim / 2;
    const float *row = m == 0 && e->attention_factor == 1 ? NULL : gyre_angle_table_row(e, m); /* at 0 it stays as it is */
    if (!row) return 0;
    const int half = rope->layout == GYRE_HALF, back = direction != GYRE_FORWARD;
    const gyre_turns turns = {in->data, out->data, in->shape[2], pairs, in->stride[2], out->stride[2],
                              half,     half,      back,         row,   row + pairs,   0};
    call_rotate(e->kernels, in->dtype, &turns);
    return 1;
}

gyre_status gyre_rotate(const gyre_encoding *encoding, gyre_direction direction, gyre_role role,
                        const gyre_positions *positions, const gyre_cview *in, const gyre_view *out, const gyre_exec *exec) {
    if (!encoding || !positions || !in || !out) return GYRE_EINVAL;
    if (direction != GYRE_FORWARD && direction != GYRE_INVERSE && direction != GYRE_ADJOINT) return GYRE_EINVAL;
    if (role != GYRE_QUERY && role != GYRE_KEY) return GYRE_EINVAL;
    const int turns = (encoding->scheme->places & GYRE_AT_QUERY_KEY) != 0;
    gyre_status status = gyre_pair_check(in, out);
    if (status != GYRE_OK) return status;
    if (turns && in->shape[3] != encoding->config.head_dim) return GYRE_ESHAPE;
    const int64_t elements = gyre_view_elements(in->shape);
    if (elements == 0) return GYRE_OK;
    status = gyre_positions_check(encoding, positions, in->shape[0], in->shape[1]);
    if (status != GYRE_OK) return status;
    if (turns && turn_one(encoding, direction, role, positions, in, out)) return GYRE_OK;

    rotation r = {.elements = elements,
                  .angles = {.encoding = encoding, .direction = direction, .factor = 1},
                  .role = role,
                  .positions = positions,
                  .in = in,
                  .out = out};
    if (turns) {
        r.angles = gyre_angles_of(encoding, direction, positions->length);
        r.first = encoding->config.rope.first;
        r.dim = encoding->config.rope.dim;
    }
    return run(&r, exec);
}
