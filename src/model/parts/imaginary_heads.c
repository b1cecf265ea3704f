/* imaginary_heads.c: RoPE++: each query makes two heads of attention. */
#include "core/rotation/permute.h"
#include "model/parts/head_parts.h"
#include "util/error.h"

#include <string.h>

/* Both members of a pair of channels. */
typedef struct pair_channels {
    int64_t x, y;
} pair_channels;

static pair_channels channels_of(const gyre_trained_heads *t, int64_t dim, int64_t pair) {
    return (pair_channels){gyre_member_channel(t->layout, dim, pair, 0), gyre_member_channel(t->layout, dim, pair, 1)};
}

/* -1j (x + 1j y) = y - 1j x: a rotation by -90 degrees, which commutes with that by the position. */
static void write_heads(const gyre_trained_heads *t, int64_t dim, const float *in, float *real, float *imaginary) {
    memcpy(real, in, (size_t)dim * sizeof *real);
    for (int64_t i = 0; i < dim / 2; i++) {
        const pair_channels at = channels_of(t, dim, i);
        imaginary[at.x] = in[at.y];
        imaginary[at.y] = -in[at.x];
    }
}

static void add_gradients(const gyre_trained_heads *t, int64_t dim, const float *real, const float *imaginary, float *in) {
    for (int64_t i = 0; i < dim / 2; i++) {
        const pair_channels at = channels_of(t, dim, i);
        in[at.x] = real[at.x] - imaginary[at.y];
        in[at.y] = real[at.y] + imaginary[at.x];
    }
}

/* Rows of floats whose channels are adjacent: in of half the heads, out of all of them. */
static void for_each_query(const gyre_trained_heads *t, const gyre_head_views *heads, int gradient) {
    const gyre_view *in = &heads->in[0], *out = &heads->out[0];
    for (int64_t b = 0; b < in->shape[0]; b++)
        for (int64_t token = 0; token < in->shape[1]; token++)
            for (int64_t h = 0; h < in->shape[2]; h++) {
                float *one = gyre_view_at(in, b, token, h, 0);
                float *real = gyre_view_at(out, b, token, 2 * h, 0), *imaginary = gyre_view_at(out, b, token, 2 * h + 1, 0);
                if (gradient)
                    add_gradients(t, in->shape[3], real, imaginary, one);
                else
                    write_heads(t, in->shape[3], one, real, imaginary);
            }
}

static void copy_keys(const gyre_view *from, const gyre_view *to) {
    for (int64_t b = 0; b < from->shape[0]; b++)
        for (int64_t token = 0; token < from->shape[1]; token++)
            for (int64_t h = 0; h < from->shape[2]; h++)
                memcpy(gyre_view_at(to, b, token, h, 0), gyre_view_at(from, b, token, h, 0),
                       (size_t)from->shape[3] * sizeof(float));
}

static gyre_status forward(const gyre_trained_heads *t, const gyre_positions *positions, const gyre_head_views *heads,
                           const gyre_part_work *work, gyre_error *err) {
    (void)positions, (void)work, (void)err;
    for_each_query(t, heads, 0);
    copy_keys(&heads->in[1], &heads->out[1]);
    return GYRE_OK;
}

static gyre_status gradient(const gyre_trained_heads *t, const gyre_positions *positions, const gyre_head_views *heads,
                            const gyre_head_views *d, const gyre_part_work *work, float *numbers, gyre_error *err) {
    (void)positions, (void)heads, (void)work, (void)numbers, (void)err;
    for_each_query(t, d, 1);
    copy_keys(&d->out[1], &d->in[1]);
    return GYRE_OK;
}

/* Both heads of a query read one key head. */
static gyre_status check(const gyre_model_config *c, const gyre_encoding *encoding, gyre_error *err) {
    (void)encoding;
    if (c->heads % (2 * c->kv_heads) == 0) return GYRE_OK;
    return gyre_fail(err, GYRE_EINVAL,
                     "layer_parts: imaginary needs heads that are a multiple of twice kv_heads, not %lld of %lld (model)",
                     (long long)c->heads, (long long)c->kv_heads);
}

const gyre_head_part gyre_head_part_imaginary = {
    .part = GYRE_LAYER_PART_IMAGINARY,
    .facts = &gyre_head_part_facts_imaginary,
    .variants = {{.name = "rope++ec", .layer_parts = GYRE_LAYER_PART_IMAGINARY, .head_factor = 2},
                 {.name = "rope++eh", .layer_parts = GYRE_LAYER_PART_IMAGINARY, .key_divisor = 2}},
    .needs = GYRE_PART_NEEDS_WHOLE,
    .check = check,
    .heads_of_query = 2,
    .forward = forward,
    .gradient = gradient};
