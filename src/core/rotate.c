/* rotate.c: queries and keys turned by their positions.
 *
 * Work goes by blocks of tokens and, inside, by chunks of pairs, so that stack memory is bounded for any dimension.
 * Contiguous float channels go to the kernels as they lie; everything else is gathered into the half layout first. */
#include "core/angles.h"
#include "core/convert.h"
#include "core/view.h"

enum { TOKEN_BLOCK = 32 };

typedef struct rotation {
    gyre_angles angles;
    const gyre_positions *positions;
    const gyre_cview *in;
    const gyre_view *out;
    int64_t blocks; /* of tokens, per batch row */
    int in_place;
} rotation;

/* Pairs first .. first + count - 1, of frequencies `frequency`. */
typedef struct chunk {
    int64_t first, count;
    const gyre_frequency *frequency;
} chunk;

static int kernel_takes(const rotation *r, const chunk *c) {
    return r->in->dtype == GYRE_F32 && r->in->stride[3] == 1 && r->out->stride[3] == 1 &&
           c->count == r->angles.encoding->config.rope.dim / 2;
}

static void call_kernel(const gyre_encoding *encoding, const float *in, float *out, const gyre_heads *heads,
                        gyre_cos_sin turn) {
    if (encoding->config.rope.layout == GYRE_HALF)
        encoding->kernels->rotate_half_f32(in, out, heads, turn.cosine, turn.sine);
    else
        encoding->kernels->rotate_interleaved_f32(in, out, heads, turn.cosine, turn.sine);
}

/* The channel where member 0 or 1 of the chunk's first pair lies, and the channels from pair to pair. */
static int64_t member_channel(const struct gyre_rope_config *rope, int64_t first, int member) {
    return rope->layout == GYRE_HALF ? first + member * (rope->dim / 2) : 2 * first + member;
}
static int64_t member_step(const struct gyre_rope_config *rope) {
    return rope->layout == GYRE_HALF ? 1 : 2;
}

static void turn_gathered(const rotation *r, const chunk *c, gyre_cos_sin turn, int64_t b, int64_t t, int64_t h) {
    const gyre_encoding *encoding = r->angles.encoding;
    const struct gyre_rope_config *rope = &encoding->config.rope;
    const int64_t n = c->count, step = member_step(rope);
    const gyre_heads one = {1, n, 2 * n, 2 * n};
    float x[2 * GYRE_PAIR_CHUNK];
    for (int m = 0; m < 2; m++)
        gyre_load_row(gyre_cview_at(r->in, b, t, h, member_channel(rope, c->first, m)), r->in->dtype,
                      step * r->in->stride[3], n, x + m * n);
    encoding->kernels->rotate_half_f32(x, x, &one, turn.cosine, turn.sine);
    for (int m = 0; m < 2; m++)
        gyre_store_row(x + m * n, n, gyre_view_at(r->out, b, t, h, member_channel(rope, c->first, m)), r->out->dtype,
                       step * r->out->stride[3]);
}

static void turn_token_f32(const rotation *r, const chunk *c, int64_t b, int64_t t, const double *position) {
    float buffer[2 * GYRE_PAIR_CHUNK];
    const gyre_cos_sin turn = gyre_angles_f32(&r->angles, c->frequency, c->first, c->count, position, buffer);
    if (kernel_takes(r, c)) {
        const gyre_heads heads = {r->in->shape[2], c->count, r->in->stride[2], r->out->stride[2]};
        call_kernel(r->angles.encoding, gyre_cview_at(r->in, b, t, 0, 0), gyre_view_at(r->out, b, t, 0, 0), &heads, turn);
        return;
    }
    for (int64_t h = 0; h < r->in->shape[2]; h++)
        turn_gathered(r, c, turn, b, t, h);
}

static void turn_token_f64(const rotation *r, const chunk *c, int64_t b, int64_t t, const double *position) {
    const struct gyre_rope_config *rope = &r->angles.encoding->config.rope;
    const int64_t in_step = member_step(rope) * r->in->stride[3], out_step = member_step(rope) * r->out->stride[3];
    double cosine[GYRE_PAIR_CHUNK], sine[GYRE_PAIR_CHUNK];
    gyre_angles_f64(&r->angles, c->frequency, c->first, c->count, position, cosine, sine);
    for (int64_t h = 0; h < r->in->shape[2]; h++) {
        const double *a = gyre_cview_at(r->in, b, t, h, member_channel(rope, c->first, 0));
        const double *d = gyre_cview_at(r->in, b, t, h, member_channel(rope, c->first, 1));
        double *low = gyre_view_at(r->out, b, t, h, member_channel(rope, c->first, 0));
        double *high = gyre_view_at(r->out, b, t, h, member_channel(rope, c->first, 1));
        for (int64_t i = 0; i < c->count; i++) {
            const double x = a[i * in_step], y = d[i * in_step];
            low[i * out_step] = x * cosine[i] - y * sine[i];
            high[i * out_step] = x * sine[i] + y * cosine[i];
        }
    }
}

/* Channels first .. of a token, bit for bit. */
static void copy_token(const rotation *r, int64_t b, int64_t t, int64_t first) {
    if (r->in_place) return;
    for (int64_t h = 0; h < r->in->shape[2]; h++)
        gyre_copy_row(gyre_cview_at(r->in, b, t, h, first), r->in->stride[3], gyre_view_at(r->out, b, t, h, first),
                      r->out->stride[3], r->in->dtype, r->in->shape[3] - first);
}

static void turn_block(void *arg, int64_t block) {
    const rotation *r = arg;
    const int64_t dim = r->angles.encoding->config.rope.dim, pairs = dim / 2;
    const int64_t b = block / r->blocks, first = block % r->blocks * TOKEN_BLOCK;
    const int64_t left = r->in->shape[1] - first, count = left < TOKEN_BLOCK ? left : TOKEN_BLOCK;
    const int64_t axes = gyre_axes_of(r->angles.encoding);
    double positions[TOKEN_BLOCK * GYRE_MAX_AXES];
    gyre_frequency buffer[GYRE_PAIR_CHUNK];
    gyre_positions_read_axes(r->angles.encoding, r->positions, b, first, count, positions);
    for (int64_t t = 0; t < count; t++)
        copy_token(r, b, first + t, gyre_angles_identity(&r->angles, positions + t * axes) ? 0 : dim);
    for (chunk c = {0, 0, NULL}; c.first < pairs; c.first += c.count) {
        c.count = pairs - c.first < GYRE_PAIR_CHUNK ? pairs - c.first : GYRE_PAIR_CHUNK;
        c.frequency = gyre_angles_frequencies(&r->angles, c.first, c.count, buffer);
        for (int64_t t = 0; t < count; t++) {
            if (gyre_angles_identity(&r->angles, positions + t * axes)) continue;
            if (r->in->dtype == GYRE_F64)
                turn_token_f64(r, &c, b, first + t, positions + t * axes);
            else
                turn_token_f32(r, &c, b, first + t, positions + t * axes);
        }
    }
}

static void copy_block(void *arg, int64_t block) {
    const rotation *r = arg;
    const int64_t b = block / r->blocks, first = block % r->blocks * TOKEN_BLOCK;
    for (int64_t t = first; t < first + TOKEN_BLOCK && t < r->in->shape[1]; t++)
        copy_token(r, b, t, 0);
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
    if (gyre_view_elements(in->shape) == 0) return GYRE_OK;
    status = gyre_positions_check(encoding, positions, in->shape[0], in->shape[1]);
    if (status != GYRE_OK) return status;

    rotation r = {.positions = positions, .in = in, .out = out, .in_place = gyre_same_memory(in, out)};
    r.blocks = (in->shape[1] + TOKEN_BLOCK - 1) / TOKEN_BLOCK;
    if (turns) r.angles = gyre_angles_of(encoding, direction, positions->length);
    gyre_parallel(exec, turns ? turn_block : copy_block, &r, r.blocks * in->shape[0]);
    return GYRE_OK;
}
