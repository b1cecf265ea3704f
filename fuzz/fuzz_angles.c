/* fuzz_angles.c: every scaling, layout and angle path of a rotation, by gyre_encoding_frequencies, gyre_cos_sin and
 * gyre_rotate, against the formulas of fuzz_frequencies.h.  The angles of other programs have to be near the exact ones, and
 * every call has to compute the same. */
#include "fuzz_bytes.h"
#include "fuzz_frequencies.h"
#include "fuzz_support.h"
#include "fuzz_views.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MOST_DIM = 1200, MOST_PAIRS = MOST_DIM / 2, MOST_TOKENS = 12 };

typedef struct call {
    fuzz_bytes in;
    test_random random;
    gyre_config config;
    gyre_encoding *encoding;
    int64_t batch, tokens, heads, length; /* length: in use, 0 = the encoding's own */
    int64_t at[MOST_TOKENS * GYRE_MAX_AXES];
    gyre_positions where;
    double lists[2][MOST_PAIRS], rate[MOST_PAIRS], start[MOST_PAIRS], factor;
    double error[MOST_PAIRS]; /* of a frequency, relative */
    int has_starts;
} call;

/* -- choosing -- */
static void choose_fields(call *c) {
    static const double bases[] = {0, 100, 10000, 500000, 2, 1000000, 10, 1.5};
    struct gyre_rope_config *r = &c->config.rope;
    const int64_t pairs = c->config.head_dim / 2;
    r->dim = 2 * (pairs - (fuzz_choice(&c->in, 3) == 1 ? fuzz_between(&c->in, 0, pairs - 1) : 0));
    r->first_channel = fuzz_choice(&c->in, 2) ? c->config.head_dim - r->dim : 0;
    r->layout = (gyre_layout)fuzz_choice(&c->in, 3);
    r->clockwise = fuzz_choice(&c->in, 6) == 1;
    r->base = bases[fuzz_choice(&c->in, 8)];
    r->factor = fuzz_choice(&c->in, 4) ? 1 + fuzz_choice(&c->in, 64) / 4.0 : 0;
    c->config.context_length = fuzz_choice(&c->in, 3) == 1 ? 1 + fuzz_between(&c->in, 0, 60000) : 0;
    r->table_positions = fuzz_choice(&c->in, 3) == 1 ? GYRE_NO_TABLE : fuzz_choice(&c->in, 2) ? 100 : 0;
    r->attention_factor = fuzz_choice(&c->in, 8) == 1 ? 0.25 * (1 + fuzz_choice(&c->in, 12)) : 0;
    if (fuzz_choice(&c->in, 4) == 1) {
        r->beta_slow = 0.25 * (1 + fuzz_choice(&c->in, 16));
        r->beta_fast = r->beta_slow * (1 + fuzz_choice(&c->in, 32));
        r->low_freq = r->beta_slow;
        r->high_freq = r->low_freq + 0.5 * (1 + fuzz_choice(&c->in, 8));
        r->mscale = fuzz_choice(&c->in, 4) / 2.0;
        r->mscale_all_dim = fuzz_choice(&c->in, 4) / 2.0;
        r->fractional_bounds = fuzz_choice(&c->in, 2);
        r->proportion = fuzz_choice(&c->in, 5) / 4.0;
        r->mixed_exponent = fuzz_choice(&c->in, 5) / 4.0;
    }
    r->resonance = fuzz_choice(&c->in, 6) == 1;
    c->config.rope.clip.mode = (gyre_clip)(fuzz_choice(&c->in, 8) % 3);
    if (c->config.rope.clip.mode) c->config.rope.clip.pairs = fuzz_choice(&c->in, 24);
    for (int64_t i = 0; i < r->dim / 2; i++) {
        c->lists[0][i] = 1 + 0.01 * (double)i;
        c->lists[1][i] = 0.5 + (double)i;
    }
    r->short_factor = c->lists[0];
    r->long_factor = c->lists[1];
}

static void choose_axes(call *c) {
    struct gyre_rope_config *r = &c->config.rope;
    const int64_t pairs = r->dim / 2;
    int64_t left = pairs;
    r->axes_layout = (gyre_axes)fuzz_choice(&c->in, 3);
    r->axes = r->axes_layout == GYRE_AXES_INTERLEAVED ? 3 : 1 + fuzz_choice(&c->in, GYRE_MAX_AXES);
    for (int64_t a = r->axes - 1; a > 0; a--) {
        const int64_t most = r->axes_layout == GYRE_AXES_INTERLEAVED ? (pairs - a + 2) / 3 : left;
        r->axis_pairs[a] = fuzz_between(&c->in, 0, most < left ? most : left);
        left -= r->axis_pairs[a];
    }
    r->axis_pairs[0] = left;
    for (int64_t a = 0; a < r->axes; a++) {
        struct gyre_axis_config *own = &c->config.rope.axis[a];
        if (fuzz_choice(&c->in, 3) == 1) continue;
        *own = (struct gyre_axis_config){.own = 1, .scaling = (gyre_scaling)fuzz_choice(&c->in, 14)};
        own->base = fuzz_choice(&c->in, 2) ? 0 : 20 * (1 + fuzz_choice(&c->in, 200));
        own->factor = fuzz_choice(&c->in, 3) / 2.0 * 3;
        own->trained_length = fuzz_choice(&c->in, 2) ? 0 : 2 + fuzz_choice(&c->in, 100);
        own->context_length = fuzz_choice(&c->in, 3) == 1 ? 1 + fuzz_choice(&c->in, 200) : 0;
        own->intrinsic_pair = fuzz_choice(&c->in, 2) ? 0 : 1 + fuzz_choice(&c->in, 4);
        own->repeats_at = 1 + fuzz_choice(&c->in, 250);
    }
}

static void choose_config(call *c) {
    struct gyre_rope_config *r = &c->config.rope;
    c->config = (gyre_config)GYRE_INIT(gyre_config);
    c->config.kind = GYRE_KIND_ROPE;
    r->scaling = (gyre_scaling)fuzz_choice(&c->in, 12);
    r->angles = fuzz_choice(&c->in, 2) ? (gyre_angle_path)fuzz_choice(&c->in, 8) : GYRE_ANGLE_PATH_EXACT;
    const int is_long = fuzz_choice(&c->in, 8) == 7;
    c->config.head_dim = is_long ? 500 + fuzz_between(&c->in, 0, MOST_DIM - 500) : 2 + fuzz_choice(&c->in, 150);
    c->config.trained_length = 2 + fuzz_between(&c->in, 0, 9000);
    choose_fields(c);
    if (r->angles != GYRE_ANGLE_PATH_EXACT) { /* what programs have */
        r->resonance = 0;
        c->config.rope.clip.mode = GYRE_CLIP_NONE;
        c->config.rope.clip.pairs = 0;
        if (r->angles != GYRE_ANGLE_PATH_LLAMA_CPP || r->scaling != GYRE_SCALING_YARN) return;
        if (r->base < 100) r->base = 0; /* where the ramp has no length, ggml and the released code differ */
        r->beta_fast = r->beta_slow = 0;
        c->config.trained_length += 64;
        return;
    }
    const int more = fuzz_choice(&c->in, 6);
    if (more == 1) choose_axes(c);
    if (more == 2) {
        r->xpos_base = 4 << fuzz_choice(&c->in, 9);
        r->xpos_center = fuzz_between(&c->in, -1000, 1000);
    }
    if (more == 3) {
        c->config.rope.longrope.start_tokens = 1 + fuzz_choice(&c->in, 200);
        c->config.rope.longrope.starts = (gyre_longrope_start)fuzz_choice(&c->in, 2);
    }
    if (more == 4) {
        c->config.rope.diffusion.timed = 1;
        c->config.rope.diffusion.time = fuzz_choice(&c->in, 9) / 8.0;
        c->config.rope.diffusion.strength = fuzz_choice(&c->in, 4);
        c->config.rope.diffusion.exponent = fuzz_choice(&c->in, 4);
    }
    c->config.query.temperature = (gyre_temperature)(fuzz_choice(&c->in, 3) == 1 ? fuzz_choice(&c->in, 4) : 0);
    if (c->config.query.temperature) c->config.query.reference_length = 2 + fuzz_between(&c->in, 0, 300);
}

static void choose_positions(call *c) {
    const int64_t axes = c->config.rope.axes > 1 ? c->config.rope.axes : 1;
    const int64_t reach = fuzz_choice(&c->in, 3) ? 400 : 1 << 18;
    const int64_t first = fuzz_between(&c->in, -reach / 4, reach);
    const int counted = fuzz_choice(&c->in, 2);
    for (int64_t i = 0; i < c->tokens * axes; i++)
        c->at[i] = counted ? first + i / axes : (int64_t)(test_next(&c->random) % (uint64_t)(2 * reach)) - reach / 2;
    c->where = counted ? (gyre_positions){.base = first} : (gyre_positions){c->at, GYRE_DTYPE_I64, 0, 0, 0, axes, 1, 0};
    c->length = fuzz_choice(&c->in, 3) == 1 ? 1 + fuzz_between(&c->in, 0, 60000) : 0;
    c->where.context_length = c->length;
}

/* -- the definition -- */
/* out = what a float path may put a frequency off: a few roundings, which weigh more against what a factor left of it, and
 * on a short ramp of LLAMA3; llama.cpp multiplies from pair to pair. */
static double path_error(const gyre_config *c, int64_t pair) {
    const struct gyre_rope_config *r = &c->rope;
    if (r->angles == GYRE_ANGLE_PATH_EXACT) return 1e-15;
    const double steps = r->angles == GYRE_ANGLE_PATH_LLAMA_CPP ? 2 * (double)pair : 0;
    const double low = r->low_freq ? r->low_freq : 1, high = r->high_freq ? r->high_freq : 4;
    const double ramp = r->scaling == GYRE_SCALING_LLAMA3 && high > low ? high / (high - low) : 1;
    return (32 + steps + 4 * r->factor * ramp) * 0x1p-24;
}

static void define(call *c) {
    for (int64_t i = 0; i < c->config.rope.dim / 2; i++) {
        c->rate[i] = fuzz_frequency(&c->config, c->length, i);
        c->start[i] = fuzz_unscaled_frequency(&c->config, i);
        c->error[i] = path_error(&c->config, i);
    }
    c->factor = fuzz_attention_factor(&c->config, c->length);
    c->has_starts = fuzz_has_start_tokens(&c->config, c->length);
}

/* cos and sin of a pair of a token with their factor, and what each may be off in double. */
typedef struct turn {
    double cosine, sine, factor, error;
} turn;

static turn turn_of(const call *c, int64_t t, int64_t pair) {
    const gyre_config *config = &c->config;
    const gyre_angle_path path = config->rope.angles;
    const int64_t axes = config->rope.axes > 1 ? config->rope.axes : 1;
    const int64_t m = c->at[t * axes + fuzz_axis_of(config, pair)];
    const int is_start = c->has_starts && m < config->rope.longrope.start_tokens;
    const double angle = (double)m * (is_start ? c->start[pair] : c->rate[pair]);
    const double factor = is_start && config->rope.longrope.starts == GYRE_LONGROPE_START_RELEASED ? 1 : c->factor;
    const gyre_dtype dtype = path == GYRE_ANGLE_PATH_TORCH_BF16 || path == GYRE_ANGLE_PATH_VLLM_BF16 ? GYRE_DTYPE_BF16
                             : path == GYRE_ANGLE_PATH_TORCH_F16 || path == GYRE_ANGLE_PATH_VLLM_F16 ? GYRE_DTYPE_F16
                                                                                                     : GYRE_DTYPE_F32;
    turn out = {factor * cos(angle), factor * sin(angle), factor, factor * (fabs(angle) * c->error[pair] + 4e-16)};
    if (path != GYRE_ANGLE_PATH_EXACT) out.error += 2 * factor * 0x1p-23 + 2 * fuzz_rounding(dtype, factor);
    if (config->rope.clockwise) out.sine = -out.sine;
    return out;
}

/* -- checking -- */
static void check_frequencies(const call *c) {
    double found[MOST_PAIRS], factor;
    gyre_scaling_parts parts;
    const int64_t pairs = c->config.rope.dim / 2;
    fuzz_require(!gyre_encoding_frequencies(c->encoding, c->length, found, &factor), "frequencies");
    for (int64_t i = 0; i < pairs; i++)
        fuzz_require(fabs(found[i] - c->rate[i]) <= c->error[i] * c->rate[i], "a frequency is that of its formula");
    fuzz_require(fabs(factor - c->factor) <= 1e-6 * c->factor, "the attention factor is that of its formula");
    fuzz_require(!gyre_encoding_scaling_parts(c->encoding, c->length, &parts), "parts");
    fuzz_require(parts.kept >= 0 && parts.blended >= 0 && parts.divided >= 0 &&
                     parts.kept + parts.blended + parts.divided == pairs,
                 "each pair is kept, blended or divided");
}

static void require_frequencies(const gyre_encoding *encoding, const gyre_config *config) {
    double found[MOST_PAIRS];
    fuzz_require(!gyre_encoding_frequencies(encoding, 0, found, NULL), "frequencies of a simple rotation");
    for (int64_t i = 0; i < config->rope.dim / 2; i++)
        fuzz_require(fabs(found[i] - fuzz_frequency(config, 0, i)) <= 1e-15 * found[i], "are those of its formula");
}

/* The simple calls that make a rotation. */
static void check_created(const call *c) {
    gyre_config plain = GYRE_INIT(gyre_config);
    gyre_encoding *rope = NULL, *encoding = NULL;
    plain.trained_length = c->config.trained_length;
    plain.rope.dim = c->config.rope.dim;
    plain.rope.base = c->config.rope.base;
    fuzz_require(!gyre_rope_create(&rope, plain.rope.dim, plain.rope.base, c->config.rope.layout, NULL), "RoPE");
    require_frequencies(rope, &plain);
    plain.rope.scaling = c->config.rope.scaling;
    plain.rope.factor = c->config.rope.factor;
    const gyre_status status =
        gyre_rope_create_scaled(&encoding, rope, plain.rope.scaling, plain.rope.factor, plain.trained_length, NULL);
    gyre_encoding_free(rope);
    const int is_ntk = plain.rope.scaling == GYRE_SCALING_NTK || plain.rope.scaling == GYRE_SCALING_DYNAMIC_NTK;
    const int is_dynamic = plain.rope.scaling == GYRE_SCALING_DYNAMIC_NTK || plain.rope.scaling == GYRE_SCALING_DYNAMIC_YARN,
              has_lists = plain.rope.scaling == GYRE_SCALING_LONGROPE,
              forgotten = plain.rope.factor == 0 && plain.rope.scaling != GYRE_SCALING_NONE && !is_dynamic;
    const int refused = has_lists || forgotten || (is_ntk && plain.rope.dim == 2);
    fuzz_require(status == (refused ? GYRE_EINVAL : GYRE_OK), "RoPE, stretched");
    if (status) return;
    require_frequencies(encoding, &plain);
    gyre_encoding_free(encoding);
}

static void check_cos_sin(call *c, gyre_dtype dtype, const gyre_exec *exec) {
    const int64_t pairs = c->config.rope.dim / 2;
    fuzz_view v[4];
    for (int i = 0; i < 4; i++)
        v[i] = fuzz_view_make(&c->in, dtype, c->batch, c->tokens, 1, pairs);
    fuzz_require(!gyre_cos_sin(c->encoding, &c->where, &v[0].view, &v[1].view, NULL, NULL), "cos and sin");
    fuzz_require(!gyre_cos_sin(c->encoding, &c->where, &v[2].view, &v[3].view, exec, NULL), "on two threads");
    fuzz_views_require_same(&v[0], &v[2], "threads and strides change no bit of cos");
    fuzz_views_require_same(&v[1], &v[3], "threads and strides change no bit of sin");
    for (int64_t i = 0; i < c->batch * c->tokens * pairs; i++) {
        const int64_t b = i / pairs / c->tokens, t = i / pairs % c->tokens;
        const turn want = turn_of(c, t, i % pairs);
        const double error = want.error + fuzz_rounding(dtype, want.factor) * (dtype != GYRE_DTYPE_F64);
        fuzz_require(fabs(fuzz_view_at(&v[0], b, t, 0, i % pairs) - want.cosine) <= error, "cos is near its definition");
        fuzz_require(fabs(fuzz_view_at(&v[1], b, t, 0, i % pairs) - want.sine) <= error, "sin is near its definition");
    }
    for (int i = 0; i < 4; i++)
        fuzz_view_free(&v[i]);
}

/* Channels of a pair: read from, and written to. */
typedef struct lane {
    int64_t from[2], to[2];
} lane;

static lane lane_of(const call *c, gyre_direction direction, int64_t pair) {
    const gyre_layout layout = c->config.rope.layout;
    const int64_t pairs = c->config.rope.dim / 2, first = c->config.rope.first_channel;
    lane out;
    for (int m = 0; m < 2; m++) {
        const int64_t half = first + pair + m * pairs, interleaved = first + 2 * pair + m;
        const int both = layout == GYRE_LAYOUT_INTERLEAVED_TO_HALF, forward = direction == GYRE_DIRECTION_FORWARD;
        out.from[m] = layout == GYRE_LAYOUT_HALF || (both && !forward) ? half : interleaved;
        out.to[m] = layout == GYRE_LAYOUT_HALF || (both && forward) ? half : interleaved;
    }
    return out;
}

/* out = the magnitude of xPos and of the temperature, apart. */
static double xpos_of(const call *c, gyre_role role, int64_t t, int64_t pair) {
    const struct gyre_rope_config *r = &c->config.rope;
    const double dim = (double)r->dim, zeta = (2 * (double)pair + 0.4 * dim) / (1.4 * dim);
    if (r->xpos_base == 0) return 1;
    const double power = (double)(c->at[t] - r->xpos_center) / r->xpos_base;
    return pow(zeta, role == GYRE_ROLE_KEY ? -power : power);
}

typedef struct rotation {
    gyre_direction direction;
    gyre_role role;
    fuzz_view x, y;
} rotation;

static void check_pair(const call *c, const rotation *r, const int64_t at[3], int64_t pair) {
    const gyre_dtype dtype = r->x.view.dtype;
    const int64_t axes = c->config.rope.axes > 1 ? c->config.rope.axes : 1;
    const int is_inverse = r->direction == GYRE_DIRECTION_INVERSE;
    const double sign = r->direction == GYRE_DIRECTION_FORWARD ? 1 : -1;
    const turn t = turn_of(c, at[1], pair);
    const lane l = lane_of(c, r->direction, pair);
    double size = xpos_of(c, r->role, at[1], pair);
    if (r->role == GYRE_ROLE_QUERY) size *= fuzz_temperature(&c->config, c->at[at[1] * axes]);
    if (is_inverse) size = 1 / (size * t.factor * t.factor);
    const double x = fuzz_view_at(&r->x, at[0], at[1], at[2], l.from[0]),
                 y = fuzz_view_at(&r->x, at[0], at[1], at[2], l.from[1]);
    const double want[2] = {size * (x * t.cosine - sign * y * t.sine), size * (sign * x * t.sine + y * t.cosine)};
    const double single = dtype == GYRE_DTYPE_F64 ? 1e-14 : 0x1p-21; /* of a product of floats, in terms of its size */
    const double error = 2 * size * (t.error + single * t.factor);
    for (int m = 0; m < 2; m++)
        fuzz_require(fabs(fuzz_view_at(&r->y, at[0], at[1], at[2], l.to[m]) - want[m]) <=
                         error + fuzz_rounding(dtype, want[m]) * 1.01,
                     "a pair rotates as defined");
}

static void check_rotation(const call *c, const rotation *r) {
    const struct gyre_rope_config *rope = &c->config.rope;
    const int64_t axes = rope->axes > 1 ? rope->axes : 1;
    for (int64_t i = 0; i < c->batch * c->tokens * c->heads; i++) {
        const int64_t at[3] = {i / c->heads / c->tokens, i / c->heads % c->tokens, i % c->heads};
        const double heat = fuzz_temperature(&c->config, c->at[at[1] * axes]);
        const double all = r->role == GYRE_ROLE_KEY ? 1 : r->direction == GYRE_DIRECTION_INVERSE ? 1 / heat : heat;
        for (int64_t pair = 0; pair < rope->dim / 2; pair++)
            check_pair(c, r, at, pair);
        for (int64_t n = 0; n < c->config.head_dim; n++) {
            if (n >= rope->first_channel && n < rope->first_channel + rope->dim) continue;
            const double want = all * fuzz_view_at(&r->x, at[0], at[1], at[2], n);
            fuzz_require(fabs(fuzz_view_at(&r->y, at[0], at[1], at[2], n) - want) <=
                             fuzz_rounding(r->x.view.dtype, want) * (all != 1) * 1.01 + 1e-15 * fabs(want) * (all != 1),
                         "what does not rotate is copied or scaled");
        }
    }
}

/* The largest magnitude of a token, as a power of 2: past 100 it is refused. */
static double most_bits(const call *c, gyre_role role) {
    double most = 0;
    for (int64_t t = 0; t < c->tokens; t++)
        for (int64_t i = 0; i < c->config.rope.dim / 2; i++)
            most = fmax(most, fabs(log2(c->factor * xpos_of(c, role, t, i))));
    return most;
}

static gyre_status rotate(const call *c, const rotation *r, const fuzz_view *to, const gyre_exec *exec) {
    const gyre_cview in = gyre_const(r->x.view);
    gyre_error err = {0, ""};
    const gyre_status status = gyre_rotate(c->encoding,
                                           GYRE_ARGS(gyre_rotate_args, .direction = r->direction, .role = r->role,
                                                     .positions = &c->where, .in = in, .out = to->view),
                                           exec, &err);
    fuzz_require_error(status, &err);
    return status;
}

/* A dense copy in place, by the simple call where it can: the bits of the complete one. */
static void check_dense(call *c, rotation *r) {
    const int64_t dim = c->config.head_dim;
    fuzz_bytes none = {NULL, 0};
    gyre_error err = {0, ""};
    fuzz_view z = fuzz_view_make(&none, r->x.view.dtype, c->batch, c->tokens, c->heads, dim);
    for (int64_t i = 0; i < c->batch * c->tokens * c->heads * dim; i++)
        test_put(z.view.data, z.view.dtype, (size_t)i,
                 fuzz_view_at(&r->x, i / dim / c->heads / c->tokens, i / dim / c->heads % c->tokens, i / dim % c->heads,
                              i % dim));
    if (r->direction == GYRE_DIRECTION_FORWARD && !c->where.data) {
        const gyre_view x = gyre_dense(z.view.data, z.view.dtype, c->batch, c->tokens, c->heads, dim);
        fuzz_require(!gyre_rotate_dense(c->encoding, r->role, x, c->where.base, c->length, &err), "the simple call");
        fuzz_views_require_same(&z, &r->y, "the simple call has the bits of the complete one");
    }
    fuzz_view_free(&z);
}

/* A scaling that follows the length is refused past the trained length where no length is known. */
static void check_open_length(call *c) {
    const int64_t axes = c->config.rope.axes > 1 ? c->config.rope.axes : 1;
    int is_past = 0;
    for (int64_t i = 0; i < c->tokens * axes; i++)
        is_past |= c->at[i] >= c->config.trained_length;
    if (!is_past || c->length > 0 || c->config.context_length > 0 || !fuzz_follows_length(&c->config)) return;
    fuzz_bytes none = {NULL, 0};
    gyre_error err = {0, ""};
    fuzz_view x = fuzz_view_make(&none, GYRE_DTYPE_F32, 1, c->tokens, 1, c->config.head_dim);
    rotation r = {GYRE_DIRECTION_FORWARD, GYRE_ROLE_KEY, x, x};
    fuzz_require(rotate(c, &r, &x, NULL) == GYRE_EINVAL, "a rotation whose length is open is refused");
    fuzz_view angles = fuzz_view_make(&none, GYRE_DTYPE_F64, 1, c->tokens, 2, c->config.rope.dim / 2);
    gyre_view cosine = angles.view, sine = angles.view;
    cosine.shape[2] = sine.shape[2] = 1;
    sine.data = (double *)sine.data + sine.stride[2];
    fuzz_require(gyre_cos_sin(c->encoding, &c->where, &cosine, &sine, NULL, &err) == GYRE_EINVAL, "and so are angles");
    fuzz_require_error(GYRE_EINVAL, &err);
    fuzz_view_free(&x);
    fuzz_view_free(&angles);
    c->length = c->where.context_length = 1 + fuzz_between(&c->in, 0, 60000);
}

/* (1, 0) rotates to (cos, sin): the same numbers as those of gyre_cos_sin. */
static void check_units(call *c, gyre_dtype dtype) {
    const int64_t pairs = c->config.rope.dim / 2;
    fuzz_bytes none = {NULL, 0};
    rotation r = {GYRE_DIRECTION_FORWARD, GYRE_ROLE_KEY, fuzz_view_make(&none, dtype, 1, c->tokens, 1, c->config.head_dim),
                  fuzz_view_make(&c->in, dtype, 1, c->tokens, 1, c->config.head_dim)};
    fuzz_view cosine = fuzz_view_make(&c->in, dtype, 1, c->tokens, 1, pairs),
              sine = fuzz_view_make(&c->in, dtype, 1, c->tokens, 1, pairs);
    for (int64_t i = 0; i < c->tokens * pairs; i++)
        test_put(r.x.view.data, dtype, (size_t)(i / pairs * c->config.head_dim + lane_of(c, r.direction, i % pairs).from[0]),
                 1);
    fuzz_require(!rotate(c, &r, &r.y, NULL), "unit vectors rotate");
    fuzz_require(!gyre_cos_sin(c->encoding, &c->where, &cosine.view, &sine.view, NULL, NULL), "and have angles");
    for (int64_t i = 0; i < c->tokens * pairs; i++) {
        const lane l = lane_of(c, r.direction, i % pairs);
        fuzz_require(fuzz_view_at(&r.y, 0, i / pairs, 0, l.to[0]) == fuzz_view_at(&cosine, 0, i / pairs, 0, i % pairs) &&
                         fuzz_view_at(&r.y, 0, i / pairs, 0, l.to[1]) == fuzz_view_at(&sine, 0, i / pairs, 0, i % pairs),
                     "rotation and gyre_cos_sin have the same numbers");
    }
    fuzz_view_free(&r.x);
    fuzz_view_free(&r.y);
    fuzz_view_free(&cosine);
    fuzz_view_free(&sine);
}

static void check_rotations(call *c, const gyre_exec *exec) {
    const gyre_dtype dtype = fuzz_choice(&c->in, 4) == 3 ? GYRE_DTYPE_F64 : fuzz_dtype(&c->in);
    const int64_t dim = c->config.head_dim;
    rotation r = {.direction = (gyre_direction)fuzz_choice(&c->in, 3),
                  .role = fuzz_choice(&c->in, 2) ? GYRE_ROLE_KEY : GYRE_ROLE_QUERY};
    r.x = fuzz_view_make(&c->in, dtype, c->batch, c->tokens, c->heads, dim);
    r.y = fuzz_view_make(&c->in, dtype, c->batch, c->tokens, c->heads, dim);
    fuzz_view z = fuzz_view_make(&c->in, dtype, c->batch, c->tokens, c->heads, dim);
    fuzz_view_fill(&r.x, &c->random, 1);
    const gyre_status status = rotate(c, &r, &r.y, NULL);
    const double bits = c->config.rope.xpos_base > 0 ? most_bits(c, r.role) : 0;
    fuzz_require(!status || (status == GYRE_ERANGE && bits > 99.9), "a legal rotation is done");
    fuzz_require(bits < 100.1 || status, "magnitudes past 2^100 are refused");
    for (size_t i = 0; status && i < r.y.bytes; i++)
        fuzz_require(((unsigned char *)r.y.view.data)[i] == 0, "a refused call writes nothing");
    if (!status) {
        if (bits < 13 || dtype == GYRE_DTYPE_F32 || dtype == GYRE_DTYPE_F64) check_rotation(c, &r); /* else f16 overflows */
        fuzz_require(!rotate(c, &r, &z, exec), "on two threads");
        fuzz_views_require_same(&z, &r.y, "threads and strides change no bit");
        check_dense(c, &r);
        fuzz_require(!rotate(c, &r, &r.x, NULL), "in place");
        fuzz_views_require_same(&r.x, &r.y, "in place are the same bits");
    }
    fuzz_view_free(&r.x);
    fuzz_view_free(&r.y);
    fuzz_view_free(&z);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static gyre_pool *pool;
    static call c;
    gyre_error err = {0, ""};
    if (!pool) fuzz_require(!gyre_pool_create(&pool, 2, NULL), "two threads");
    const gyre_exec exec = gyre_pool_exec(pool);
    memset(&c, 0, sizeof c);
    c.in = (fuzz_bytes){data, size};
    c.random.state = 1 + fuzz_byte(&c.in);
    c.batch = 1 + fuzz_choice(&c.in, 2);
    c.tokens = 1 + fuzz_choice(&c.in, MOST_TOKENS);
    c.heads = 1 + fuzz_choice(&c.in, 3);
    choose_config(&c);
    const gyre_status status = gyre_encoding_create(&c.encoding, &c.config, NULL, &err);
    fuzz_require_error(status, &err);
    if (status) return 0;
    choose_positions(&c);
    check_open_length(&c);
    define(&c);
    check_frequencies(&c);
    check_created(&c);
    check_cos_sin(&c, fuzz_choice(&c.in, 2) ? GYRE_DTYPE_F64 : GYRE_DTYPE_F32, &exec);
    if (c.config.rope.xpos_base == 0) check_units(&c, fuzz_choice(&c.in, 2) ? GYRE_DTYPE_F64 : GYRE_DTYPE_F32);
    check_rotations(&c, &exec);
    gyre_encoding_free(c.encoding);
    return 0;
}
