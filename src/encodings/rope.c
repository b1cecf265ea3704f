/* rope.c: RoPE: rotates pairs of channels of queries and keys by an angle proportional to the position.  This file checks
 * the config and prepares the encoding; src/core/rotation rotates. */
#include "core/encoding.h"
#include "core/positions.h"
#include "core/rotation/angle_table.h"
#include "core/rotation/angles_llama_cpp.h"
#include "core/rotation/angles_numpy.h"
#include "core/rotation/far_variants.h"
#include "core/rotation/frequency_torch.h"
#include "core/rotation/torch_math.h"
#include "encodings/schemes.h"
#include "gyre/gyre_fields.h"
#include "util/error.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

typedef struct gyre_rope_config rope_config;

static void fill_defaults(gyre_config *config) {
    rope_config *rope = &config->rope;
    if (rope->dim == 0 && rope->first_channel < config->head_dim) rope->dim = config->head_dim - rope->first_channel;
}

static gyre_status check_dims(const gyre_config *config, gyre_error *err) {
    const rope_config *rope = &config->rope;
    if (config->head_dim == 0) return gyre_fail(err, GYRE_EINVAL, "head_dim: missing; a rotation needs it (gyre_config)");
    if (rope->first_channel >= config->head_dim)
        return gyre_fail(err, GYRE_EINVAL,
                         "rope.first_channel: %" PRId64 " leaves no channel of head_dim %" PRId64 " (gyre_config)",
                         rope->first_channel, config->head_dim);
    if (rope->dim % 2 != 0)
        return gyre_fail(err, GYRE_EINVAL,
                         "rope.dim: %" PRId64 " is odd; a rotation acts on pairs of channels (gyre_config)", rope->dim);
    if (rope->dim > config->head_dim - rope->first_channel)
        return gyre_fail(err, GYRE_EINVAL,
                         "rope.dim: %" PRId64 " channels from %" PRId64 " on end past head_dim %" PRId64 " (gyre_config)",
                         rope->dim, rope->first_channel, config->head_dim);
    return GYRE_OK;
}

static gyre_status check_pairs_of_numbers(const rope_config *rope, gyre_error *err) {
    if (rope->beta_fast < rope->beta_slow)
        return gyre_fail(err, GYRE_EINVAL, "rope.beta_fast: %g is below beta_slow %g (gyre_config)", rope->beta_fast,
                         rope->beta_slow);
    if (rope->high_freq < rope->low_freq)
        return gyre_fail(err, GYRE_EINVAL, "rope.high_freq: %g is below low_freq %g (gyre_config)", rope->high_freq,
                         rope->low_freq);
    return GYRE_OK;
}

static gyre_status check_scaling(const gyre_config *config, gyre_error *err) {
    const gyre_scaling scaling = config->rope.scaling;
    const int64_t trained = config->trained_length;
    switch (scaling) {
    case GYRE_SCALING_NONE:
    case GYRE_SCALING_LINEAR:
    case GYRE_SCALING_PROPORTIONAL:
    case GYRE_SCALING_NTK_MIXED:
        return GYRE_OK;
    case GYRE_SCALING_NTK:
    case GYRE_SCALING_DYNAMIC_NTK:
        if (config->rope.dim == 2)
            return gyre_fail(err, GYRE_EINVAL, "rope.dim: 2 has one pair; NTK's exponent divides by dim - 2 (gyre_config)");
        break;
    case GYRE_SCALING_BY_PARTS:
    case GYRE_SCALING_BY_PARTS_PAPER:
    case GYRE_SCALING_YARN:
    case GYRE_SCALING_DYNAMIC_YARN:
    case GYRE_SCALING_LLAMA3:
    case GYRE_SCALING_RIFLEX:
    case GYRE_SCALING_RIFLEX_PAPER:
        break;
    case GYRE_SCALING_LONGROPE:
        if (trained == 1)
            return gyre_fail(err, GYRE_EINVAL, "trained_length: 1; longrope divides by its logarithm, 0 (gyre_config)");
        break;
    }
    if (trained == 0 && scaling != GYRE_SCALING_NTK)
        return gyre_fail(err, GYRE_EINVAL, "trained_length: missing; this scaling's formula needs it (gyre_config)");
    return GYRE_OK;
}

/* -- several axes -- */

static gyre_status check_sections(const rope_config *rope, gyre_error *err) {
    int64_t sum = 0;
    for (int64_t a = 0; a < GYRE_MAX_AXES; a++) {
        const int64_t maximum = a < rope->axes ? rope->dim / 2 : 0;
        if (rope->axis_pairs[a] < 0 || rope->axis_pairs[a] > maximum)
            return gyre_fail(err, GYRE_EINVAL,
                             "rope.axis_pairs[%" PRId64 "]: %" PRId64 " pairs, of an axis that can have 0 to %" PRId64
                             " (gyre_config)",
                             a, rope->axis_pairs[a], maximum);
        sum += rope->axis_pairs[a];
    }
    if (sum == rope->dim / 2 || (sum == 0 && rope->axes == 1)) return GYRE_OK;
    return gyre_fail(err, GYRE_EINVAL,
                     "rope.axis_pairs: %" PRId64 " pairs in all, but rope.dim has %" PRId64 " (gyre_config)", sum,
                     rope->dim / 2);
}

static gyre_status check_axes(const rope_config *rope, gyre_error *err) {
    const gyre_status status = check_sections(rope, err);
    if (status) return status;
    if (rope->axes_layout == GYRE_AXES_INTERLEAVED) {
        if (rope->axes != 3)
            return gyre_fail(err, GYRE_EINVAL, "rope.axes: %" PRId64 " cannot be interleaved; three can (gyre_config)",
                             rope->axes);
        for (int64_t a = 1; a < 3; a++)
            if (rope->axis_pairs[a] > 0 && 3 * (rope->axis_pairs[a] - 1) + a >= rope->dim / 2)
                return gyre_fail(err, GYRE_EINVAL,
                                 "rope.axis_pairs[%" PRId64 "]: %" PRId64 " pairs, three apart, end past pair %" PRId64
                                 " (gyre_config)",
                                 a, rope->axis_pairs[a], rope->dim / 2 - 1);
    }
    return GYRE_OK;
}

/* -- a separate scaling for each axis -- */

static gyre_status check_own_axes(const gyre_config *config, gyre_error *err) {
    const gyre_scaling scaling = config->rope.scaling;
    if (scaling == GYRE_SCALING_RIFLEX || scaling == GYRE_SCALING_RIFLEX_PAPER)
        return gyre_fail(err, GYRE_EINVAL,
                         "rope.scaling: %s is a scaling of an axis; set rope.axis[0].scaling (gyre_config)",
                         gyre_scaling_name(scaling));
    for (int64_t a = config->rope.axes; a < GYRE_MAX_AXES; a++)
        if (config->rope.axis[a].own)
            return gyre_fail(err, GYRE_EINVAL, "rope.axis[%" PRId64 "].own: there are %" PRId64 " axes (gyre_config)", a,
                             config->rope.axes);
    return GYRE_OK;
}

/* of_axis: the config of the axis alone (gyre_axis_scaling). */
static gyre_status check_riflex(const gyre_config *of_axis, int64_t a, gyre_error *err) {
    const struct gyre_axis_config *axis = &of_axis->rope.axis[a];
    const int64_t pairs = of_axis->rope.dim / 2;
    if (of_axis->rope.scaling != GYRE_SCALING_RIFLEX && of_axis->rope.scaling != GYRE_SCALING_RIFLEX_PAPER) return GYRE_OK;
    if (axis->intrinsic_pair == 0 && axis->repeats_at == 0)
        return gyre_fail(
            err, GYRE_EINVAL,
            "rope.axis[%" PRId64 "].intrinsic_pair: missing, and so is repeats_at; RIFLEx needs one (gyre_config)", a);
    if (axis->intrinsic_pair > pairs)
        return gyre_fail(err, GYRE_EINVAL,
                         "rope.axis[%" PRId64 "].intrinsic_pair: %" PRId64 " of %" PRId64 " pairs (gyre_config)", a,
                         axis->intrinsic_pair, pairs);
    return GYRE_OK;
}

static gyre_status check_axis_scalings(const gyre_config *config, gyre_error *err) {
    gyre_status status = check_own_axes(config, err);
    for (int64_t a = 0; a < config->rope.axes && !status; a++) {
        int64_t first;
        const gyre_config of_axis = gyre_axis_scaling(config, a, &first);
        if (of_axis.rope.dim == 0) continue;
        status = check_scaling(&of_axis, err);
        if (!status) status = check_riflex(&of_axis, a, err);
    }
    return status;
}

static gyre_status check_diffusion(const gyre_config *config, gyre_error *err) {
    if (!config->rope.diffusion.timed || gyre_config_has(config, "rope.diffusion.timed")) return GYRE_OK;
    return gyre_fail(
        err, GYRE_EINVAL,
        "rope.diffusion.timed: DyPE fades linear, NTK, by parts and YaRN, and no axis has one of them (gyre_config)");
}

/* Far variants move positions, so that a position does not show whether its token is a start token. */
static gyre_status check_start(const gyre_config *config, gyre_error *err) {
    const struct gyre_longrope_config *longrope = &config->rope.longrope;
    if (longrope->start_tokens == 0) return GYRE_OK;
    const char *what = config->rope.scaling != GYRE_SCALING_LONGROPE       ? "another scaling than longrope"
                       : config->rope.axes > 1 || config->rope.axis[0].own ? "several axes, or a scaling of an axis"
                       : config->rope.far != GYRE_FAR_AS_NEAR              ? "far pairs that rotate less"
                       : config->rope.xpos_base != 0                       ? "xPos"
                                                                           : NULL;
    if (!what) return GYRE_OK;
    return gyre_fail(err, GYRE_EINVAL, "rope.longrope.start_tokens: start tokens cannot be combined with %s (gyre_config)",
                     what);
}

static gyre_status fill_axes(gyre_encoding *encoding, gyre_error *err) {
    const rope_config *rope = &encoding->config.rope;
    if (rope->axes == 1) return GYRE_OK;
    encoding->axis = gyre_encoding_allocate(encoding, rope->dim / 2, sizeof *encoding->axis, err);
    if (!encoding->axis) return GYRE_ENOMEM;
    for (int64_t i = 0; i < rope->dim / 2; i++)
        encoding->axis[i] = (unsigned char)gyre_axis_of_pair(rope, i);
    return GYRE_OK;
}

/* -- rotation that depends on the distance between query and key -- */

static gyre_status check_chunk(const gyre_config *config, gyre_error *err) {
    const struct gyre_chunk_config *chunk = &config->rope.chunk;
    if (config->rope.far_window != 0 || config->rope.far_factor != 0)
        return gyre_fail(err, GYRE_EINVAL,
                         "rope.%s: Dual Chunk Attention counts rope.chunk.size and rope.chunk.local (gyre_config)",
                         config->rope.far_window != 0 ? "far_window" : "far_factor");
    if (chunk->size == 0)
        return gyre_fail(err, GYRE_EINVAL, "rope.chunk.size: missing; Dual Chunk Attention needs it (gyre_config)");
    if (chunk->local == 0)
        return gyre_fail(err, GYRE_EINVAL, "rope.chunk.local: missing; Dual Chunk Attention needs it (gyre_config)");
    if (chunk->local >= chunk->size)
        return gyre_fail(err, GYRE_EINVAL,
                         "rope.chunk.local: %" PRId64 " leaves no chunk of rope.chunk.size %" PRId64 " (gyre_config)",
                         chunk->local, chunk->size);
    return GYRE_OK;
}

/* Bounds of leaky's divisor: below 2^-10, a far pair would rotate so fast that its angle at position 2^31 has no correct
 * digits (as with longrope's factors); above 2^32, it does not rotate past the window at all. */
static gyre_status check_far(const gyre_config *config, gyre_error *err) {
    const rope_config *rope = &config->rope;
    const double factor = rope->far_factor;
    if (rope->far == GYRE_FAR_AS_NEAR) return GYRE_OK;
    if (rope->axes > 1 || rope->xpos_base != 0)
        return gyre_fail(err, GYRE_EINVAL, "rope.far: far pairs cannot be combined with %s (gyre_config)",
                         rope->axes > 1 ? "several axes" : "xPos");
    if (gyre_is_chunked(rope)) return check_chunk(config, err);
    if (rope->far_window == 0)
        return gyre_fail(err, GYRE_EINVAL, "rope.far_window: missing; it is the distance at which far begins (gyre_config)");
    if (factor == 0 && rope->far != GYRE_FAR_CLAMPED)
        return gyre_fail(err, GYRE_EINVAL, "rope.far_factor: missing; this rope.far needs it (gyre_config)");
    if (rope->far == GYRE_FAR_GROUPED && factor != floor(factor))
        return gyre_fail(err, GYRE_EINVAL, "rope.far_factor: %g is not a whole number (gyre_config)", factor);
    return GYRE_OK;
}

static gyre_status check_xpos(const rope_config *rope, gyre_error *err) {
    if (rope->xpos_base == 0 && rope->xpos_center != 0)
        return gyre_fail(err, GYRE_EINVAL,
                         "rope.xpos_center: is set, but has no effect where rope.xpos_base is 0 (gyre_config)");
    if (rope->xpos_base == 0) return GYRE_OK;
    if (rope->axes > 1)
        return gyre_fail(err, GYRE_EINVAL, "rope.xpos_base: xPos has one axis, not %" PRId64 " (gyre_config)", rope->axes);
    return GYRE_OK;
}

static gyre_status fill_xpos_decay(gyre_encoding *encoding, gyre_error *err) {
    const rope_config *rope = &encoding->config.rope;
    if (rope->xpos_base == 0) return GYRE_OK;
    encoding->xpos_log2_decay = gyre_encoding_allocate(encoding, rope->dim / 2, sizeof *encoding->xpos_log2_decay, err);
    if (!encoding->xpos_log2_decay) return GYRE_ENOMEM;
    for (int64_t i = 0; i < rope->dim / 2; i++) {
        const long double dim = (long double)rope->dim, zeta = (2.0L * (long double)i + 0.4L * dim) / (1.4L * dim);
        encoding->xpos_log2_decay[i] = (double)(log2l(zeta) / (long double)rope->xpos_base);
    }
    return GYRE_OK;
}

/* -- creation -- */

static gyre_status copy_numbers(gyre_encoding *encoding, const double *given, double **own, gyre_error *err) {
    const int64_t pairs = encoding->config.rope.dim / 2;
    *own = gyre_encoding_allocate(encoding, pairs, sizeof **own, err);
    if (!*own) return GYRE_ENOMEM;
    memcpy(*own, given, (size_t)pairs * sizeof **own);
    return GYRE_OK;
}

static gyre_status copy_factors(gyre_encoding *encoding, const double *given, const char *name, double **own,
                                gyre_error *err) {
    const int64_t pairs = encoding->config.rope.dim / 2;
    if (!given)
        return gyre_fail(err, GYRE_EINVAL, "rope.%s: missing; longrope has one number for each pair (gyre_config)", name);
    for (int64_t i = 0; i < pairs; i++)
        if (!isfinite(given[i]) || given[i] < 0x1p-10) /* the angle of a faster pair has no correct digits at 2^31 */
            return gyre_fail(err, GYRE_EINVAL, "rope.%s[%" PRId64 "]: %g is not a number of at least 2^-10 (gyre_config)",
                             name, i, given[i]);
    return copy_numbers(encoding, given, own, err);
}

/* 1 if a scaling reads rope.base, not the frequencies alone. */
static int scaling_needs_base(gyre_scaling scaling) {
    return scaling == GYRE_SCALING_NTK || scaling == GYRE_SCALING_DYNAMIC_NTK || scaling == GYRE_SCALING_BY_PARTS ||
           scaling == GYRE_SCALING_YARN || scaling == GYRE_SCALING_DYNAMIC_YARN;
}

/* The bound is that of the slowest divisor of LongRoPE, by which a pair would rotate as fast. */
static gyre_status copy_frequencies(gyre_encoding *encoding, gyre_error *err) {
    const rope_config *rope = &encoding->config.rope;
    if (!rope->frequencies) return GYRE_OK;
    if (scaling_needs_base(rope->scaling))
        return gyre_fail(err, GYRE_EINVAL, "rope.frequencies: %s is defined by a base, not by frequencies (gyre_config)",
                         gyre_scaling_name(rope->scaling));
    for (int64_t a = 0; a < rope->axes; a++)
        if (rope->axis[a].own)
            return gyre_fail(err, GYRE_EINVAL, "rope.frequencies: axis %" PRId64 " has its own scaling (gyre_config)", a);
    for (int64_t i = 0; i < rope->dim / 2; i++)
        if (!(rope->frequencies[i] >= 0 && rope->frequencies[i] <= 1024))
            return gyre_fail(err, GYRE_EINVAL, "rope.frequencies[%" PRId64 "]: %g is not within 0 .. 1024 (gyre_config)", i,
                             rope->frequencies[i]);
    return copy_numbers(encoding, rope->frequencies, &encoding->given_frequencies, err);
}

/* The factor is given or derived.  Outside these bounds scores, which contain its square, and inverses leave the range of
 * float.  A factor that depends on the length (dynamic YaRN) is 1 at the trained length and monotone, so the longest length
 * is its extreme. */
static gyre_status set_attention_factor(gyre_encoding *encoding, gyre_error *err) {
    const rope_config *rope = &encoding->config.rope;
    const double own = gyre_rope_attention_factor(&encoding->config, 0),
                 factor = gyre_rope_attention_factor(&encoding->config, INT64_MAX);
    encoding->attention_factor = own;
    if (factor >= 0x1p-64 && factor <= 0x1p64) return GYRE_OK;
    if (rope->attention_factor != 0.0)
        return gyre_fail(err, GYRE_EINVAL, "rope.attention_factor: %g is outside [2^-64, 2^64] (gyre_config)", factor);
    return gyre_fail(err, GYRE_EINVAL, "rope.mscale: %g over %g makes an attention factor of %g (gyre_config)", rope->mscale,
                     rope->mscale_all_dim, factor);
}

static gyre_status make_angle_table(gyre_encoding *encoding, gyre_error *err) {
    const struct gyre_rope_config *rope = &encoding->config.rope;
    const int64_t trained = encoding->config.trained_length, used = encoding->config.context_length;
    if (rope->table_positions > 0) return gyre_angle_table_make(encoding, rope->dim / 2, rope->table_positions, err);
    if (rope->table_positions != GYRE_NO_TABLE)
        gyre_angle_table_make_default(encoding, rope->dim / 2, trained > used ? trained : used);
    return GYRE_OK;
}

/* out = what the config asks for and no program but Gyre has; otherwise `other`. */
static const char *unknown_to_programs(const gyre_config *config, const char *other) {
    return config->rope.frequencies                   ? "frequencies that are given (rope.frequencies)"
           : config->rope.clip.mode != GYRE_CLIP_NONE ? "clipped pairs (rope.clip.mode)"
           : config->rope.longrope.start_tokens > 0   ? "start tokens (rope.longrope.start_tokens)"
           : config->rope.diffusion.timed             ? "scaling that fades (rope.diffusion.timed)"
           : config->rope.resonance                   ? "whole wavelengths (rope.resonance)"
           : config->rope.axis[0].own                 ? "scaling of an axis (rope.axis[0].own)"
                                                      : other;
}

/* Why a program's angles are refused: the program has no such thing, or Gyre does not know how the program computes it. */
static gyre_status refuse_path(const char *program, const char *lacks, const char *unknown, gyre_error *err) {
    if (lacks) return gyre_fail(err, GYRE_EUNSUPPORTED, "rope.angles: %s has no %s (gyre_config)", program, lacks);
    return gyre_fail(err, GYRE_EUNSUPPORTED, "rope.angles: Gyre has no path for %s with %s (gyre_config)", program, unknown);
}

static const char *scaling_text(gyre_scaling scaling) {
    static const char *const texts[] = {[GYRE_SCALING_NTK] = "an NTK-aware base",
                                        [GYRE_SCALING_DYNAMIC_NTK] = "dynamic NTK",
                                        [GYRE_SCALING_BY_PARTS] = "NTK by parts",
                                        [GYRE_SCALING_BY_PARTS_PAPER] = "ramp over revolutions",
                                        [GYRE_SCALING_YARN] = "YaRN",
                                        [GYRE_SCALING_LONGROPE] = "LongRoPE",
                                        [GYRE_SCALING_PROPORTIONAL] = "a proportional rotation",
                                        [GYRE_SCALING_NTK_MIXED] = "mixed NTK",
                                        [GYRE_SCALING_DYNAMIC_YARN] = "dynamic YaRN"};
    const size_t i = (size_t)scaling;
    return i < sizeof texts / sizeof *texts && texts[i] ? texts[i] : "such a scaling";
}

static int is_of_no_program(gyre_scaling scaling) {
    return scaling == GYRE_SCALING_BY_PARTS_PAPER || scaling == GYRE_SCALING_NTK_MIXED ||
           scaling == GYRE_SCALING_DYNAMIC_YARN;
}

static gyre_status refuse_llama_cpp(const gyre_config *config, gyre_error *err) {
    const gyre_scaling scaling = config->rope.scaling;
    const char *lacks = unknown_to_programs(config, NULL);
    if (!lacks && (is_of_no_program(scaling) || scaling == GYRE_SCALING_DYNAMIC_NTK)) lacks = scaling_text(scaling);
    if (!lacks && config->rope.fractional_bounds)
        lacks = "ramp with fractional ends (rope.fractional_bounds): it rounds them";
    return refuse_path("llama.cpp", lacks, config->rope.axes > 1 ? "several axes" : scaling_text(scaling), err);
}

static gyre_status refuse_tensorrt_llm(const gyre_config *config, gyre_error *err) {
    const gyre_scaling scaling = config->rope.scaling;
    const char *lacks = unknown_to_programs(config, NULL);
    if (!lacks && is_of_no_program(scaling)) lacks = scaling_text(scaling);
    return refuse_path("TensorRT-LLM", lacks, config->rope.axes > 1 ? "several axes" : scaling_text(scaling), err);
}

static gyre_status refuse_torch(const gyre_config *config, gyre_error *err) {
    const char *lacks = unknown_to_programs(config, NULL);
    if (!gyre_torch_math_available())
        return gyre_fail(err, GYRE_EUNSUPPORTED, "rope.angles: PyTorch's need a build with SLEEF (gyre_config)");
    if (!lacks && is_of_no_program(config->rope.scaling)) lacks = scaling_text(config->rope.scaling);
    return refuse_path(gyre_is_vllm(config->rope.angles) ? "vLLM" : "transformers", lacks,
                       config->rope.axes > 1 ? "axial rotations" : scaling_text(config->rope.scaling), err);
}

static gyre_status check_angles(const gyre_config *config, gyre_error *err) {
    if (config->rope.angles == GYRE_ANGLE_PATH_EXACT) return GYRE_OK;
    if (!gyre_has_program_angles())
        return gyre_fail(err, GYRE_EUNSUPPORTED, "rope.angles: libgyre_rope has exact angles alone (gyre_config)");
    if (config->rope.angles == GYRE_ANGLE_PATH_LLAMA_CPP)
        return gyre_llama_cpp_supports(config) && !config->rope.frequencies ? GYRE_OK : refuse_llama_cpp(config, err);
    if (config->rope.angles == GYRE_ANGLE_PATH_TENSORRT_LLM)
        return gyre_numpy_supports(config) && !config->rope.frequencies ? GYRE_OK : refuse_tensorrt_llm(config, err);
    return gyre_torch_supports(config) && !config->rope.frequencies ? GYRE_OK : refuse_torch(config, err);
}

static gyre_status check(const gyre_config *config, gyre_error *err) {
    const rope_config *rope = &config->rope;
    gyre_status status = check_dims(config, err);
    if (!status) status = check_pairs_of_numbers(rope, err);
    if (!status) status = check_scaling(config, err);
    if (!status) status = check_axes(rope, err);
    if (!status) status = check_axis_scalings(config, err);
    if (!status) status = check_diffusion(config, err);
    if (!status) status = check_far(config, err);
    if (!status) status = check_start(config, err);
    if (!status) status = check_angles(config, err);
    return !status ? check_xpos(rope, err) : status;
}

static int uses_longrope(const gyre_config *config) {
    int uses = config->rope.scaling == GYRE_SCALING_LONGROPE;
    for (int64_t a = 0; a < config->rope.axes; a++)
        uses |= config->rope.axis[a].own && config->rope.axis[a].scaling == GYRE_SCALING_LONGROPE;
    return uses;
}

static gyre_status fill_start(gyre_encoding *encoding, gyre_error *err) {
    const int64_t pairs = encoding->config.rope.dim / 2;
    gyre_config plain = encoding->config;
    if (encoding->config.rope.longrope.start_tokens == 0) return GYRE_OK;
    encoding->start_frequency = gyre_encoding_allocate(encoding, pairs, sizeof *encoding->start_frequency, err);
    if (!encoding->start_frequency) return GYRE_ENOMEM;
    plain.rope.scaling = GYRE_SCALING_NONE;
    gyre_rope_frequencies(&plain, 0, 0, pairs, encoding->start_frequency);
    return GYRE_OK;
}

static gyre_status init(gyre_encoding *encoding, gyre_error *err) {
    gyre_config *config = &encoding->config;
    fill_defaults(config);
    gyre_status status = check(config, err);
    if (!status && uses_longrope(config)) {
        status = copy_factors(encoding, config->rope.short_factor, "short_factor", &encoding->short_factor, err);
        if (!status) status = copy_factors(encoding, config->rope.long_factor, "long_factor", &encoding->long_factor, err);
    }
    if (!status) status = copy_frequencies(encoding, err);
    if (!status) status = set_attention_factor(encoding, err);
    if (!status) status = fill_axes(encoding, err);
    if (!status) status = fill_xpos_decay(encoding, err);
    if (!status) status = fill_start(encoding, err);
    if (status) return status;
    encoding->frequency = gyre_encoding_allocate(encoding, config->rope.dim / 2, sizeof *encoding->frequency, err);
    if (!encoding->frequency) return GYRE_ENOMEM;
    gyre_rope_frequencies(config, 0, 0, config->rope.dim / 2, encoding->frequency);
    return make_angle_table(encoding, err);
}

/* Divides the pairs evenly among the axes; the remainder goes to the first axes. */
static void suggest_sections(gyre_config *config) {
    rope_config *rope = &config->rope;
    const int64_t dim = rope->dim > 0 ? rope->dim : config->head_dim - rope->first_channel;
    if (rope->axes < 2 || rope->axes > GYRE_MAX_AXES || dim < 2) return;
    for (int64_t a = 0; a < rope->axes; a++)
        if (rope->axis_pairs[a] != 0) return;
    for (int64_t a = 0; a < rope->axes; a++)
        rope->axis_pairs[a] = dim / 2 / rope->axes + (a < dim / 2 % rope->axes);
}

/* As the released code of Dual Chunk Attention for Llama: three quarters and an eighth of the trained length. */
static void suggest_chunk(gyre_config *config) {
    const int64_t size = config->trained_length * 3 / 4, local = config->trained_length / 8;
    if (config->rope.chunk.size == 0) config->rope.chunk.size = size;
    if (config->rope.chunk.local == 0)
        config->rope.chunk.local = local < config->rope.chunk.size ? local : config->rope.chunk.size / 6;
}

/* The windows and leaky's divisor that Su measured best (kexue.fm 9708): half the trained length, or a quarter with divisor
 * 16.  Groups of 8 reach 4.5 times the trained length. */
static void suggest(gyre_config *config) {
    rope_config *rope = &config->rope;
    suggest_sections(config);
    if (gyre_is_chunked(rope)) suggest_chunk(config);
    if (rope->far == GYRE_FAR_AS_NEAR || gyre_is_chunked(rope)) return;
    const int64_t window = config->trained_length / (rope->far == GYRE_FAR_LEAKY ? 4 : 2);
    if (rope->far_window == 0) rope->far_window = window > 0 ? window : config->trained_length;
    if (rope->far_factor == 0 && rope->far != GYRE_FAR_CLAMPED) rope->far_factor = rope->far == GYRE_FAR_LEAKY ? 16 : 8;
}

const gyre_scheme gyre_scheme_rope = {.kind = GYRE_KIND_ROPE,
                                      .places = GYRE_PLACE_QUERY_KEY,
                                      .traits = GYRE_TRAIT_ROTATES,
                                      .same_at = gyre_rope_same_frequencies,
                                      .init = init,
                                      .suggest = suggest};

/* -- the simple layer -- */

gyre_status gyre_rope_create(gyre_encoding **out, int64_t head_dim, double base, gyre_layout layout, gyre_error *err) {
    gyre_config config = GYRE_INIT(gyre_config);
    config.kind = GYRE_KIND_ROPE;
    config.head_dim = head_dim;
    config.rope.base = base;
    config.rope.layout = layout;
    return gyre_encoding_make(out, &gyre_scheme_rope, &config, NULL, err);
}

gyre_status gyre_rope_create_scaled(gyre_encoding **out, const gyre_encoding *rope, gyre_scaling scaling, double factor,
                                    int64_t trained_length, gyre_error *err) {
    if (!rope || rope->config.kind != GYRE_KIND_ROPE)
        return gyre_fail(err, GYRE_EINVAL, "rope: %s (gyre_rope_create_scaled)", rope ? "does not rotate" : "is NULL");
    const int follows = scaling == GYRE_SCALING_DYNAMIC_NTK || scaling == GYRE_SCALING_DYNAMIC_YARN;
    if (factor == 0 && !follows && scaling != GYRE_SCALING_NONE)
        return gyre_fail(err, GYRE_EINVAL, "factor: is 0 (gyre_rope_create_scaled)");
    gyre_config config = rope->config;
    for (int64_t a = 0; a < config.rope.axes; a++)
        if (config.rope.axis[a].own)
            return gyre_fail(err, GYRE_EINVAL, "rope: axis %d has its own scaling (gyre_rope_create_scaled)", (int)a);
    config.context_length = 0;
    if (trained_length) config.trained_length = trained_length;
    config.rope.scaling = scaling;
    if (config.rope.table_positions > 0) config.rope.table_positions = 0; /* as many as the new lengths ask for */
    config.length_policy = follows ? GYRE_LENGTH_POLICY_CAUSAL : GYRE_LENGTH_POLICY_DECLARED;
    gyre_config_clear_unused(&config); /* fields of the scaling that rope has */
    config.rope.factor = factor;
    return gyre_encoding_make(out, &gyre_scheme_rope, &config, rope->uses_malloc ? NULL : &rope->alloc, err);
}
