/* gguf_rope.c: the rotation that the keys and small tensors of a GGUF file describe, as llama.cpp computes it or as the
 * papers define it.  Angles follow llama.cpp's formulas, without the rounding errors of its float recurrence. */
#include "reading/gguf/gguf_source.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { MAX_CHANNEL_COUNT = 1 << 20, CONTEXT_PADDING = 256 };
static const double ZERO_FREQUENCY_DIVISOR = 1e30; /* large enough that nothing remains of a frequency */
static const double MIN_DIVISOR = 0x1p-10;         /* gyre_config's lower bound */
static const double pi = 3.14159265358979323846;

typedef enum scaling { NONE, LINEAR, YARN, LONGROPE } scaling;
static const char *const scaling_names[] = {"none", "linear", "yarn", "longrope"};

/* The rotation of a kind of layer. */
typedef struct layer_rotation {
    int sliding;
    int64_t dim;
    scaling type;
    double base, model_factor, factor; /* model_factor: of the model; base, factor: of these layers */
    double ext_factor;                 /* how much of YaRN's ramp applies: 1 all, 0 none */
    double yarn_beta_fast, yarn_beta_slow;
    double attn_factor; /* attn_factor, and other explicit multipliers */
    double log_multiplier;
    double total_attention_factor; /* the product of everything that multiplies cos and sin */
    const double *divisors,
        *long_divisors;          /* of frequencies; long_divisors: in contexts longer than L, if the reader switches */
    const char *divisors_tensor; /* name of the tensor */
    int fourth_axis;             /* 1: some divisors stop pairs of an uncounted axis */
} layer_rotation;

static int has_trait(const gyre_gguf_source *s, unsigned trait) {
    return (s->architecture.traits & trait) != 0;
}
static gyre_config *config_of(gyre_layer_group *group) {
    return &group->config;
}

/* -- sizes -- */
static const char *first_key(const gyre_gguf_source *s, const char *a, const char *b) {
    return a && gyre_gguf_find_arch_key(s, a) ? a : b;
}

static void read_head_dim(const gyre_gguf_source *s, gyre_layer_group *group, const layer_rotation *t) {
    gyre_config *config = config_of(group);
    const int64_t shared = s->heads > 0 ? s->embedding / s->heads : 0;
    const char *key = first_key(s, t->sliding ? "attention.key_length_swa" : NULL, "attention.key_length");
    if (has_trait(s, GYRE_GGUF_ROTARY_LAST)) key = first_key(s, "attention.key_length_mla", key);
    config->head_dim = gyre_gguf_read_size(s, key, 1, shared);
    if (config->head_dim == 0)
        gyre_gguf_fail(s, GYRE_EFORMAT, key, "missing, and so are embedding_length and attention.head_count");
    if (config->head_dim > MAX_CHANNEL_COUNT)
        gyre_gguf_fail(s, GYRE_EFORMAT, key, "more than %d channels", MAX_CHANNEL_COUNT);
    gyre_gguf_note_number(s, group, "head_dim", key, GYRE_ORIGIN_DERIVED, (double)config->head_dim,
                          gyre_gguf_find_arch_key(s, key) ? NULL : "embedding_length / attention.head_count");
}

static void read_dim(const gyre_gguf_source *s, gyre_layer_group *group, layer_rotation *t) {
    gyre_config *config = config_of(group);
    const char *key = first_key(s, t->sliding ? "rope.dimension_count_swa" : NULL, "rope.dimension_count");
    const int64_t head = config->head_dim;
    const int halved = !t->sliding && has_trait(s, GYRE_GGUF_HALF_WHERE_FULL);
    t->dim = gyre_gguf_read_size(s, key, 1, head);
    if (halved) t->dim /= 2;
    if (t->dim > head || t->dim % 2 != 0)
        gyre_gguf_fail(s, GYRE_EFORMAT, key, "%" PRId64 " channels are not pairs of a head of %" PRId64, t->dim, head);
    if (has_trait(s, GYRE_GGUF_WHOLE_HEAD) && !s->reference && t->dim != head)
        gyre_gguf_fail(s, GYRE_EUNSUPPORTED, key, "%" PRId64 " of %" PRId64 " channels; llama.cpp refuses that of a %s",
                       t->dim, head, s->name);
    config->rope.dim = t->dim;
    config->rope.first_channel = has_trait(s, GYRE_GGUF_ROTARY_LAST) && head > t->dim ? head - t->dim : 0;
    if (halved)
        gyre_build_set_number(s->build, group, "rotary_dim", GYRE_ORIGIN_FAMILY, NULL,
                              "layers without a window rotate half of rope.dimension_count", (double)t->dim);
    else
        gyre_gguf_note_number(s, group, "rotary_dim", key, GYRE_ORIGIN_READER, (double)t->dim, NULL);
    if (config->rope.first_channel)
        gyre_build_set_number(s->build, group, "rotary_first", GYRE_ORIGIN_FAMILY, NULL, "the last channels rotate",
                              (double)config->rope.first_channel);
}

static void read_base(const gyre_gguf_source *s, gyre_layer_group *group, layer_rotation *t) {
    const int own = t->sliding && has_trait(s, GYRE_GGUF_SLIDING_BASE);
    const int of_sliding = t->sliding && gyre_gguf_find_arch_key(s, "rope.freq_base_swa");
    const char *key = of_sliding ? "rope.freq_base_swa" : own ? NULL : "rope.freq_base";
    t->base = key ? gyre_gguf_read_real(s, key, 10000) : 10000;
    if (key && !(t->base > 1)) gyre_gguf_fail(s, GYRE_EFORMAT, key, "%g is not above 1", t->base);
    config_of(group)->rope.base = t->base;
    gyre_gguf_note_number(s, group, "base", key, own ? GYRE_ORIGIN_FAMILY : GYRE_ORIGIN_READER, t->base,
                          own && !key ? "of layers with a window" : NULL);
}

/* -- scaling -- */
static scaling read_type(const gyre_gguf_source *s) {
    const gyre_gguf_kv *pair = gyre_gguf_find_arch_key(s, "rope.scaling.type");
    if (!pair) return LINEAR;
    for (int i = NONE; i <= LONGROPE; i++)
        if (gyre_gguf_equals(&pair->value, scaling_names[i])) return (scaling)i;
    if (pair->value.type != GYRE_GGUF_STRING)
        gyre_gguf_fail(s, GYRE_EFORMAT, "rope.scaling.type", "a %s, no word", gyre_gguf_type_name(pair->value.type));
    else
        gyre_gguf_fail(s, GYRE_EUNSUPPORTED, "rope.scaling.type", "\"%.*s\" is not one of none, linear, yarn, longrope",
                       pair->value.count < 40 ? (int)pair->value.count : 40, (const char *)pair->value.data);
    return NONE;
}

static const char *factor_key(const gyre_gguf_source *s) {
    return first_key(s, "rope.scaling.factor", "rope.scale_linear");
}

static double read_factor(const gyre_gguf_source *s, scaling type) {
    const double factor = gyre_gguf_read_real(s, factor_key(s), 0);
    if (factor < 0) gyre_gguf_fail(s, GYRE_EFORMAT, factor_key(s), "%g is below 0", factor);
    return factor == 0 || type == NONE ? 1 : factor;
}

static void read_ramp(const gyre_gguf_source *s, layer_rotation *t) {
    const int betas = has_trait(s, GYRE_GGUF_READS_BETAS) || s->reference,
              ext = has_trait(s, GYRE_GGUF_READS_EXT) || s->reference;
    t->ext_factor = t->type == YARN ? 1 : 0;
    t->yarn_beta_fast = has_trait(s, GYRE_GGUF_BETA_FAST_8) ? 8 : 32;
    t->yarn_beta_slow = 1;
    if (betas) t->yarn_beta_fast = gyre_gguf_read_real(s, "rope.scaling.yarn_beta_fast", t->yarn_beta_fast);
    if (betas) t->yarn_beta_slow = gyre_gguf_read_real(s, "rope.scaling.yarn_beta_slow", t->yarn_beta_slow);
    if (!(t->yarn_beta_fast > 0))
        gyre_gguf_fail(s, GYRE_EFORMAT, "rope.scaling.yarn_beta_fast", "%g is not above 0", t->yarn_beta_fast);
    if (!(t->yarn_beta_slow > 0))
        gyre_gguf_fail(s, GYRE_EFORMAT, "rope.scaling.yarn_beta_slow", "%g is not above 0", t->yarn_beta_slow);
    if (ext) {
        const double given = gyre_gguf_read_real(s, "rope.scaling.yarn_ext_factor", -1); /* negative: not set */
        if (given >= 0) t->ext_factor = given;
    }
}

/* Reads the explicit multipliers of the attention factor. */
static void read_attn_factor(const gyre_gguf_source *s, layer_rotation *t) {
    t->attn_factor = gyre_gguf_read_real(s, "rope.scaling.attn_factor", 1);
    /* With YaRN on, llama.cpp overwrites the second one before using it. */
    if (s->reference || (has_trait(s, GYRE_GGUF_READS_EXT) && t->ext_factor == 0))
        t->attn_factor *= gyre_gguf_read_real(s, "rope.scaling.yarn_attn_factor", 1);
    if (has_trait(s, GYRE_GGUF_READS_LOG_MULTIPLIER) || s->reference)
        t->log_multiplier = gyre_gguf_read_real(s, "rope.scaling.yarn_log_multiplier", 0);
    if (has_trait(s, GYRE_GGUF_LOG_MULTIPLIER_TENTH)) t->log_multiplier = (double)((float)t->log_multiplier / 0.1f);
}

static double yarn_mscale(double factor, double k) {
    return factor <= 1 ? 1 : 0.1 * k * log(factor) + 1;
}

/* out = YaRN's factor of cos and sin for the model's factor: g(s, 1), or a ratio if a multiplier is given. */
static double yarn_factor(const gyre_gguf_source *s, const layer_rotation *t) {
    const double m = t->log_multiplier;
    if (m == 0) return yarn_mscale(t->model_factor, 1);
    return yarn_mscale(t->model_factor, has_trait(s, GYRE_GGUF_MSCALE_IS_ALL_DIM) ? m : 1) / yarn_mscale(t->model_factor, m);
}

/* Refuses 0 and absurd values.  In gyre_config 0 would mean "not given". */
static void check_attention(const gyre_gguf_source *s, double attention, double scores) {
    const char *key = first_key(s, "rope.scaling.attn_factor", "rope.scaling.yarn_attn_factor");
    key = first_key(s, key, first_key(s, "rope.scaling.yarn_log_multiplier", factor_key(s)));
    if (!(attention >= 0x1p-64 && attention <= 0x1p64))
        gyre_gguf_fail(s, GYRE_EFORMAT, key, "makes an attention factor of %g", attention);
    if (!(scores >= 0x1p-64 && scores <= 0x1p64)) gyre_gguf_fail(s, GYRE_EFORMAT, key, "multiplies scores by %g", scores);
}

/* llama.cpp passes its kernel the factor divided by 1 + 0.1 ln s; the kernel multiplies by that again, with the layer's
 * own s. */
static void set_attention(const gyre_gguf_source *s, gyre_layer_group *group, layer_rotation *t) {
    const double whole = 1 + 0.1 * log(t->model_factor);
    const double handed = t->ext_factor != 0 ? yarn_factor(s, t) / whole * t->attn_factor : t->attn_factor;
    t->total_attention_factor = t->ext_factor != 0 ? handed * (1 + 0.1 * log(t->factor)) : handed;
    if (t->sliding && has_trait(s, GYRE_GGUF_SLIDING_UNSCALED)) t->total_attention_factor = 1;
    check_attention(s, t->total_attention_factor, 1);
    if (!has_trait(s, GYRE_GGUF_SCALES_SOFTMAX)) return;
    const double m = t->log_multiplier;
    const double each = s->reference ? (t->ext_factor != 0 && m != 0 ? yarn_mscale(t->model_factor, m) : 1)
                                     : handed * whole * (1 + 0.1 * m * log(t->model_factor));
    check_attention(s, t->total_attention_factor, each * each);
    group->softmax_multiplier = each * each;
    gyre_build_set_number(s->build, group, "softmax_multiplier", GYRE_ORIGIN_DERIVED, NULL,
                          "latent attention multiplies scores by the square of YaRN's factor", group->softmax_multiplier);
}

static void read_scaling(const gyre_gguf_source *s, layer_rotation *t) {
    t->type = read_type(s);
    t->model_factor = t->factor = read_factor(s, t->type);
    read_ramp(s, t);
    read_attn_factor(s, t);
    if (!t->sliding) return;
    if (has_trait(s, GYRE_GGUF_SLIDING_BASE) || has_trait(s, GYRE_GGUF_SLIDING_UNSCALED)) t->factor = 1;
    if (has_trait(s, GYRE_GGUF_SLIDING_UNSCALED)) t->ext_factor = 0;
}

/* -- divisors: the small tensors -- */
/* Fails, naming the tensor. */
static void fail_tensor(const gyre_gguf_source *s, const gyre_gguf_tensor *tensor, const char *name, const char *why) {
    const gyre_place place = {name, 0, tensor->info_offset};
    gyre_build_fail(s->build, GYRE_EFORMAT, &place, "%s: %s", name, why);
}

static const double *read_divisors(const gyre_gguf_source *s, const char *name, int64_t pairs) {
    const gyre_gguf_tensor *tensor = gyre_gguf_find_tensor(s->file, name);
    if (!tensor) return NULL;
    if (tensor->type != 0 || tensor->rank != 1 || tensor->dims[0] != (uint64_t)pairs) {
        fail_tensor(s, tensor, name, gyre_build_format(s->build, "not %" PRId64 " floats, one for each pair", pairs));
        return NULL;
    }
    if (!tensor->data) { /* the head of a file may end before it */
        fail_tensor(s, tensor, name, "the file ends before its data");
        return NULL;
    }
    double *out = gyre_build_alloc_numbers(s->build, pairs);
    if (!out) return NULL;
    const gyre_gguf_value values = {GYRE_GGUF_ARRAY, GYRE_GGUF_F32, (uint64_t)pairs, tensor->data};
    for (int64_t i = 0; i < pairs; i++)
        if (!gyre_gguf_number(&values, (uint64_t)i, &out[i]) || !isfinite(out[i]) || out[i] < MIN_DIVISOR) {
            fail_tensor(s, tensor, name,
                        gyre_build_format(s->build, "element %" PRId64 ", %g, is not a divisor", i, out[i]));
            return NULL;
        }
    return out;
}

static const char long_name[] = "rope_factors_long.weight", short_name[] = "rope_factors_short.weight",
                  freqs_name[] = "rope_freqs.weight";

/* llama.cpp allocates whole blocks of tokens and then chooses one of the lists for good. */
static int allocates_past_original(const gyre_gguf_source *s) {
    const int64_t length = gyre_build_length(s->build), asked = length > 0 ? length : s->context;
    if (asked > s->original_length) return 1;
    return (asked + CONTEXT_PADDING - 1) / CONTEXT_PADDING * CONTEXT_PADDING > s->original_length;
}

static void take_divisors(const gyre_gguf_source *s, layer_rotation *t) {
    const int64_t pairs = t->dim / 2;
    if (t->sliding && has_trait(s, GYRE_GGUF_DIVISORS_FULL_ONLY)) return;
    if ((t->divisors = read_divisors(s, freqs_name, pairs))) {
        t->divisors_tensor = freqs_name;
        return;
    }
    const double *after = read_divisors(s, long_name, pairs), *before = read_divisors(s, short_name, pairs);
    if (s->reference && after && before) {
        t->divisors = before;
        t->long_divisors = after;
        t->divisors_tensor = long_name;
    } else if (allocates_past_original(s)) {
        t->divisors = after;
        t->divisors_tensor = after ? long_name : NULL;
    } else {
        t->divisors = before;
        t->divisors_tensor = before ? short_name : NULL;
    }
}

/* -- axes -- */
static const char sections_key[] = "rope.dimension_sections";

/* out = the number of pairs that the sections assign to axes. */
static int64_t read_sections(const gyre_gguf_source *s, int64_t section[4]) {
    const gyre_gguf_kv *pair = gyre_gguf_find_arch_key(s, sections_key);
    int64_t sum = 0;
    if (!pair) return 0;
    if (pair->value.count > 4) gyre_gguf_fail(s, GYRE_EFORMAT, sections_key, "more than 4 sections");
    for (uint64_t i = 0; i < pair->value.count && i < 4; i++) {
        if (!gyre_gguf_integer(&pair->value, i, &section[i]) || section[i] < 0 || section[i] > MAX_CHANNEL_COUNT) {
            gyre_gguf_fail(s, GYRE_EFORMAT, sections_key, "section %d is not a number of pairs", (int)i);
            return 0;
        }
        sum += section[i];
    }
    return sum;
}

/* With interleaved sections, if one ends early, llama.cpp assigns its pairs to a fourth axis, whose position is always
 * 0. */
static void zero_fourth_axis(const gyre_gguf_source *s, layer_rotation *t, const int64_t section[4]) {
    const int64_t pairs = t->dim / 2;
    int64_t stopped = 0;
    for (int64_t i = 0; i < pairs; i++)
        stopped += i >= 3 * section[i % 3];
    double *divisors = stopped && !s->reference ? gyre_build_alloc_numbers(s->build, pairs) : NULL;
    if (!divisors) return;
    for (int64_t i = 0; i < pairs; i++)
        divisors[i] = (t->divisors ? t->divisors[i] : 1) * (i >= 3 * section[i % 3] ? ZERO_FREQUENCY_DIVISOR : 1);
    t->divisors = divisors;
    t->fourth_axis = 1;
    gyre_gguf_warn(s, sections_key,
                   "%" PRId64 " of %" PRId64 " pairs do not rotate: llama.cpp assigns them to a fourth axis, whose position "
                   "is always 0; the model was trained with them on the first",
                   stopped, pairs);
}

static void read_axes(const gyre_gguf_source *s, gyre_layer_group *group, layer_rotation *t) {
    gyre_config *config = config_of(group);
    int64_t section[4] = {0, 0, 0, 0};
    const gyre_gguf_position_type pairs = s->architecture.pairs;
    const int several = pairs == GYRE_GGUF_MROPE || pairs == GYRE_GGUF_IMROPE;
    const int64_t sum = several || has_trait(s, GYRE_GGUF_OPTIONAL_SECTIONS) ? read_sections(s, section) : 0;
    config->rope.layout = pairs == GYRE_GGUF_NORM && sum == 0 ? GYRE_LAYOUT_INTERLEAVED : GYRE_LAYOUT_HALF;
    gyre_build_set_field(s->build, group, "layout", GYRE_ORIGIN_FAMILY, NULL, NULL, "%s",
                         config->rope.layout == GYRE_LAYOUT_INTERLEAVED ? "interleaved" : "half");
    if (several && sum == 0)
        gyre_gguf_fail(s, GYRE_EFORMAT, sections_key, "missing or all 0, but the model has several axes");
    if (sum == 0 || gyre_build_status(s->build)) return;
    if (sum != t->dim / 2)
        gyre_gguf_fail(s, GYRE_EUNSUPPORTED, sections_key, "%" PRId64 " pairs in all, but %" PRId64 " rotate", sum,
                       t->dim / 2);
    if (pairs == GYRE_GGUF_IMROPE && section[3] > 0)
        gyre_gguf_fail(s, GYRE_EUNSUPPORTED, sections_key, "a fourth axis, but axes are interleaved by threes");
    for (int axis = 1; axis < 3 && pairs == GYRE_GGUF_IMROPE; axis++)
        if (section[axis] > 0 && axis + 3 * (section[axis] - 1) >= t->dim / 2)
            gyre_gguf_fail(s, GYRE_EUNSUPPORTED, sections_key,
                           "section %d: it takes every third of %" PRId64 " pairs, which is fewer than %" PRId64, axis,
                           t->dim / 2, section[axis]);
    config->rope.axes = section[3] > 0 ? 4 : 3;
    config->rope.axes_layout = pairs == GYRE_GGUF_IMROPE ? GYRE_AXES_INTERLEAVED : GYRE_AXES_CHUNKED;
    memcpy(config->rope.axis_pairs, section, sizeof section);
    const gyre_place place = gyre_gguf_place(s, sections_key);
    gyre_build_set_field(s->build, group, "axes", GYRE_ORIGIN_FAMILY, NULL, NULL, "%s",
                         pairs == GYRE_GGUF_IMROPE ? "interleaved" : "chunked");
    gyre_build_set_field(s->build, group, "sections", GYRE_ORIGIN_FILE, &place, NULL,
                         "%" PRId64 ", %" PRId64 ", %" PRId64 "%s", section[0], section[1], section[2],
                         section[3] ? gyre_build_format(s->build, ", %" PRId64, section[3]) : "");
    if (pairs == GYRE_GGUF_IMROPE) zero_fourth_axis(s, t, section);
}

/* -- config -- */
static double yarn_corr_dim(const gyre_gguf_source *s, const layer_rotation *t, double revolutions) {
    return (double)t->dim * log((double)s->original_length / (2 * pi * revolutions)) / (2 * log(t->base));
}

static void yarn_corr_dims(const gyre_gguf_source *s, const layer_rotation *t, double *low, double *high) {
    *low = fmax(0, floor(yarn_corr_dim(s, t, t->yarn_beta_fast)));
    *high = fmin((double)(t->dim - 1), ceil(yarn_corr_dim(s, t, t->yarn_beta_slow)));
}

/* out = 1 if a gyre_scaling computes this rotation. */
static int is_standard_scaling(const gyre_gguf_source *s, const layer_rotation *t) {
    double low, high;
    if (t->divisors || t->factor < 1 || (t->ext_factor != 0 && t->ext_factor != 1)) return 0;
    if (t->ext_factor == 0 || s->reference) return 1;
    yarn_corr_dims(s, t, &low, &high);
    return low <= high; /* if the ends cross, llama.cpp uses a step, others a ramp that runs backwards */
}

static void set_standard_scaling(const gyre_gguf_source *s, gyre_layer_group *group, const layer_rotation *t) {
    gyre_config *config = config_of(group);
    struct gyre_rope_config *rope = &config->rope;
    rope->scaling = t->ext_factor != 0 ? GYRE_SCALING_YARN : t->factor > 1 ? GYRE_SCALING_LINEAR : GYRE_SCALING_NONE;
    rope->factor = rope->scaling == GYRE_SCALING_NONE ? 0 : t->factor;
    const double own = rope->scaling == GYRE_SCALING_YARN ? yarn_mscale(t->factor, 1) : 1;
    rope->attention_factor = t->total_attention_factor == own ? 0 : t->total_attention_factor;
    if (rope->scaling != GYRE_SCALING_YARN) return;
    config->trained_length = s->original_length;
    rope->beta_fast = t->yarn_beta_fast;
    rope->beta_slow = t->yarn_beta_slow;
    rope->fractional_bounds = s->reference && has_trait(s, GYRE_GGUF_TRUNCATE_FALSE);
}

/* What no gyre_scaling computes becomes a list of divisors: the unscaled frequency over the one that llama.cpp uses. */
static const double *make_divisors(const gyre_gguf_source *s, const layer_rotation *t, const double *divisors) {
    const int64_t pairs = t->dim / 2;
    double *out = gyre_build_alloc_numbers(s->build, pairs), low = 0, high = 0;
    if (!out) return NULL;
    if (t->ext_factor != 0) yarn_corr_dims(s, t, &low, &high);
    for (int64_t i = 0; i < pairs; i++) {
        const double ramp = ((double)i - low) / fmax(0.001, high - low);
        const double keep = t->ext_factor * (1 - fmin(1, fmax(0, ramp)));
        out[i] = (divisors ? divisors[i] : 1) / (keep + (1 - keep) / t->factor);
        if (!(out[i] >= MIN_DIVISOR && isfinite(out[i]))) {
            gyre_gguf_fail(s, GYRE_EFORMAT, factor_key(s), "pair %" PRId64 " is divided by %g", i, out[i]);
            return NULL;
        }
    }
    return out;
}

static void set_divisor_list(const gyre_gguf_source *s, gyre_layer_group *group, const layer_rotation *t) {
    gyre_config *config = config_of(group);
    struct gyre_rope_config *rope = &config->rope;
    rope->scaling = GYRE_SCALING_LONGROPE;
    config->trained_length = s->original_length;
    rope->factor = t->factor > 1 ? t->factor : 0;
    rope->attention_factor = t->total_attention_factor;
    rope->short_factor = make_divisors(s, t, t->divisors);
    rope->long_factor = t->long_divisors ? make_divisors(s, t, t->long_divisors) : rope->short_factor;
    if (!t->long_divisors || gyre_gguf_find_arch_key(s, "rope.scaling.attn_factor")) return;
    /* 0: the paper's own factor, a function of how far the context was extended. */
    rope->attention_factor = 0;
    rope->factor = s->context > s->original_length ? (double)s->context / (double)s->original_length : 1;
}

/* -- fields -- */
static void note_scaling(const gyre_gguf_source *s, gyre_layer_group *group, const layer_rotation *t) {
    const char *key = "rope.scaling.type";
    const gyre_place place = gyre_gguf_place(s, key);
    const char *type = t->ext_factor != 0 ? "yarn" : t->factor != 1 ? "linear" : "default";
    if (t->divisors_tensor == freqs_name) type = "rope_freqs";
    if (t->divisors_tensor == long_name || t->divisors_tensor == short_name) type = "longrope";
    if (t->divisors_tensor) {
        const gyre_place tensor = {t->divisors_tensor, 0, gyre_gguf_find_tensor(s->file, t->divisors_tensor)->info_offset};
        gyre_build_set_field(s->build, group, "scaling", GYRE_ORIGIN_FILE, &tensor,
                             t->long_divisors ? "the long list past the original length, the short one up to it"
                             : t->divisors_tensor == freqs_name ? "the tensor divides the frequencies"
                             : t->divisors_tensor == long_name
                                 ? "the long list at every position, by the context allocated"
                                 : "the short list at every position, by the context allocated",
                             "%s", type);
    } else if (gyre_gguf_find_arch_key(s, key)) {
        gyre_build_set_field(s->build, group, "scaling", GYRE_ORIGIN_FILE, &place, NULL, "%s", type);
    } else {
        gyre_build_set_field(s->build, group, "scaling", GYRE_ORIGIN_READER, NULL, "a missing rope.scaling.type is linear",
                             "%s", type);
    }
}

static void note_ramp(const gyre_gguf_source *s, gyre_layer_group *group, const layer_rotation *t) {
    const int read = has_trait(s, GYRE_GGUF_READS_BETAS) || s->reference;
    gyre_gguf_note_number(s, group, "beta_fast", read ? "rope.scaling.yarn_beta_fast" : NULL, GYRE_ORIGIN_READER,
                          t->yarn_beta_fast, NULL);
    gyre_gguf_note_number(s, group, "beta_slow", read ? "rope.scaling.yarn_beta_slow" : NULL, GYRE_ORIGIN_READER,
                          t->yarn_beta_slow, NULL);
    gyre_build_set_field(s->build, group, "truncate", GYRE_ORIGIN_READER, NULL,
                         s->reference ? NULL : "llama.cpp always rounds the ramp's ends", "%s",
                         config_of(group)->rope.fractional_bounds ? "false" : "true");
    if (t->ext_factor != 1)
        gyre_gguf_note_number(s, group, "yarn_ext_factor", "rope.scaling.yarn_ext_factor", GYRE_ORIGIN_READER, t->ext_factor,
                              NULL);
}

static void note_fields(const gyre_gguf_source *s, gyre_layer_group *group, const layer_rotation *t) {
    const int own = t->factor != t->model_factor; /* the file's factor applies to other layers */
    const char *given = "rope.scaling.attn_factor";
    note_scaling(s, group, t);
    gyre_gguf_note_number(s, group, "factor", own || t->type == NONE ? NULL : factor_key(s),
                          own ? GYRE_ORIGIN_FAMILY : GYRE_ORIGIN_READER, t->factor,
                          gyre_gguf_find_arch_key(s, factor_key(s)) && t->type == NONE
                              ? "rope.scaling.type none: the factor is ignored"
                              : NULL);
    gyre_gguf_note_number(s, group, "original_length", "rope.scaling.original_context_length", GYRE_ORIGIN_DERIVED,
                          (double)s->original_length,
                          gyre_gguf_find_arch_key(s, "rope.scaling.original_context_length") ? NULL : "context_length");
    const double attention = t->long_divisors && config_of(group)->rope.attention_factor == 0
                                 ? sqrt(1 + log(config_of(group)->rope.factor) / log((double)s->original_length))
                                 : t->total_attention_factor;
    gyre_gguf_note_number(s, group, "attention_factor",
                          t->ext_factor == 0 && gyre_gguf_find_arch_key(s, given) ? given : NULL,
                          t->ext_factor != 0 ? GYRE_ORIGIN_DERIVED : GYRE_ORIGIN_READER, attention,
                          t->ext_factor == 0    ? NULL
                          : t->log_multiplier   ? "g(s, 1) / g(s, yarn_log_multiplier), times attn_factor"
                          : t->attn_factor != 1 ? "0.1 ln s + 1, times attn_factor"
                                                : "0.1 ln s + 1");
    if (t->ext_factor != 0 && gyre_gguf_find_arch_key(s, given))
        gyre_gguf_note_number(s, group, "attn_factor", given, GYRE_ORIGIN_READER, gyre_gguf_read_real(s, given, 1), NULL);
    if (t->ext_factor != 0) note_ramp(s, group, t);
}

/* -- temperature and scale -- */
static void read_temperature(const gyre_gguf_source *s, gyre_layer_group *group) {
    struct gyre_query_config *query = &config_of(group)->query;
    const int of_keys = has_trait(s, GYRE_GGUF_TEMPERATURE_KEYS) || s->reference;
    const double slope = gyre_gguf_read_real(s, "attention.temperature_scale", 0);
    if (slope == 0 || !(of_keys || has_trait(s, GYRE_GGUF_TEMPERATURE_ORIGINAL_LENGTH))) return;
    const char *key = of_keys ? "attention.temperature_length" : "rope.scaling.original_context_length";
    const int needed = of_keys && !s->reference;
    if (slope < 0) gyre_gguf_fail(s, GYRE_EFORMAT, "attention.temperature_scale", "%g is below 0", slope);
    query->temperature = GYRE_TEMPERATURE_MINISTRAL;
    query->slope = slope;
    query->reference_length = gyre_gguf_read_size(s, key, 1, needed ? -1 : s->original_length);
    const gyre_place place = gyre_gguf_place(s, "attention.temperature_scale");
    gyre_build_set_field(s->build, group, "query_temperature", GYRE_ORIGIN_FILE, &place, NULL, "ministral");
    gyre_gguf_note_number(s, group, "temperature_length", key, GYRE_ORIGIN_DERIVED, (double)query->reference_length, NULL);
    gyre_gguf_note_number(s, group, "temperature_slope", "attention.temperature_scale", GYRE_ORIGIN_READER, slope, NULL);
}

static void read_scale(const gyre_gguf_source *s, gyre_layer_group *group) {
    const char *key = "attention.scale";
    const double head = sqrt((double)config_of(group)->head_dim);
    const int largest = s->architecture.period == 2 ? 46 : 62; /* number of layers of Gemma 2 27B, of Gemma 3 27B */
    if (has_trait(s, GYRE_GGUF_SCALE_ONE)) group->scale = 1;
    const int64_t width = s->heads > 0 ? s->embedding / s->heads : 0;
    if (has_trait(s, GYRE_GGUF_GEMMA_SCALE) && s->blocks == largest && width > 0) group->scale = 1 / sqrt((double)width);
    if (has_trait(s, GYRE_GGUF_SCALES_SOFTMAX)) group->scale = group->softmax_multiplier / head;
    if (has_trait(s, GYRE_GGUF_READS_EXT)) { /* Grok */
        key = "attention.output_scale";
        group->scale = 0.08838834764831845;
    }
    group->scale = gyre_gguf_read_real(s, key, group->scale);
    if (group->scale != 0) gyre_gguf_note_number(s, group, "scale", key, GYRE_ORIGIN_FAMILY, group->scale, NULL);
}

/* -- warnings -- */
/* Warns where llama.cpp is known to compute something unintended. */
static void warn_known_bugs(const gyre_gguf_source *s, const layer_rotation *t) {
    if (s->reference) return;
    if (fabs(t->total_attention_factor - 1) > 1e-6) /* keys are floats: compensating YaRN's factor leaves 1.00000001 */
        gyre_gguf_warn(s, t->ext_factor != 0 ? "rope.scaling.type" : "rope.scaling.attn_factor",
                       "every context shift multiplies all cached keys by the attention factor, %.6g, again: do not shift",
                       t->total_attention_factor);
    if (t->divisors_tensor == long_name || t->divisors_tensor == short_name)
        gyre_gguf_warn(
            s, "rope.scaling.original_context_length",
            "LongRoPE's list is chosen once, by the allocated context and not by the length in use: here the %s one",
            t->divisors_tensor == long_name ? "long" : "short");
    if (t->ext_factor != 0 && has_trait(s, GYRE_GGUF_TRUNCATE_FALSE))
        gyre_gguf_warn(s, "rope.scaling.type",
                       "the model was trained without rounded ends of the ramp (truncate false); llama.cpp rounds them");
}

/* The converter writes these keys for every model. */
static void warn_unread_key(const gyre_gguf_source *s, const char *suffix, int is_read, double without) {
    const double x = gyre_gguf_read_real(s, suffix, without);
    if (!is_read && x != without)
        gyre_gguf_warn(s, suffix, "%g is not read: llama.cpp has %g for a %s", x, without, s->name);
}

void gyre_gguf_warn_rotation(const gyre_gguf_source *s) {
    const int betas = has_trait(s, GYRE_GGUF_READS_BETAS) || s->reference,
              ext = has_trait(s, GYRE_GGUF_READS_EXT) || s->reference;
    const scaling type = read_type(s);
    const double factor = gyre_gguf_read_real(s, factor_key(s), 0);
    warn_unread_key(s, "rope.scaling.yarn_beta_fast", betas, 32);
    warn_unread_key(s, "rope.scaling.yarn_beta_slow", betas, 1);
    warn_unread_key(s, "rope.scaling.yarn_ext_factor", ext || type != YARN, 1);
    warn_unread_key(s, "rope.scaling.yarn_attn_factor", s->reference || (ext && type != YARN), 1);
    warn_unread_key(s, "rope.scaling.yarn_log_multiplier", has_trait(s, GYRE_GGUF_READS_LOG_MULTIPLIER) || s->reference, 0);
    warn_unread_key(s, "attention.temperature_scale",
                    has_trait(s, GYRE_GGUF_TEMPERATURE_KEYS | GYRE_GGUF_TEMPERATURE_ORIGINAL_LENGTH) || s->reference, 0);
    warn_unread_key(s, "attention.max_alibi_bias", 0, 0);
    if (!gyre_gguf_find_arch_key(s, "rope.scaling.type") &&
        gyre_gguf_find_arch_key(s, "rope.scaling.original_context_length") && factor > 1)
        gyre_gguf_warn(s, "rope.scaling.type", "missing, so the factor of %g is linear", factor);
    if (type == NONE && factor > 1) gyre_gguf_warn(s, factor_key(s), "%g is ignored, because the type is none", factor);
    if (factor > 0 && factor < 1) gyre_gguf_warn(s, factor_key(s), "%g is below 1: all pairs rotate faster", factor);
    if (gyre_gguf_find_arch_key(s, "rope.scaling.factor") && gyre_gguf_find_arch_key(s, "rope.scale_linear"))
        gyre_gguf_warn(s, "rope.scale_linear", "the older name of rope.scaling.factor, which is also set and is read");
    if (gyre_gguf_find_arch_key(s, "rope.scaling.alpha"))
        gyre_gguf_warn(s, "rope.scaling.alpha", "informative: the base is assumed to include it");
}

/* -- everything together -- */
void gyre_gguf_read_rotation(const gyre_gguf_source *s, gyre_layer_group *group, int sliding) {
    layer_rotation t = {.sliding = sliding, .factor = 1, .model_factor = 1};
    gyre_config *config = config_of(group);
    gyre_build_set_kind(s->build, group, "rope", NULL);
    config->heads = s->heads;
    config->trained_length = s->context;
    config->context_length = gyre_build_length(s->build);
    read_head_dim(s, group, &t);
    read_dim(s, group, &t);
    if (gyre_build_status(s->build)) return;
    read_base(s, group, &t);
    read_scaling(s, &t);
    take_divisors(s, &t);
    read_axes(s, group, &t);
    if (gyre_build_status(s->build)) return;
    set_attention(s, group, &t);
    if (is_standard_scaling(s, &t))
        set_standard_scaling(s, group, &t);
    else
        set_divisor_list(s, group, &t);
    gyre_gguf_note_number(s, group, "max_length", "context_length", GYRE_ORIGIN_READER, (double)s->context, NULL);
    const char *counted = config->trained_length == s->context ? "context_length" : "rope.scaling.original_context_length";
    gyre_gguf_note_number(s, group, "trained_length", counted, GYRE_ORIGIN_DERIVED, (double)config->trained_length, NULL);
    note_fields(s, group, &t);
    read_temperature(s, group);
    read_scale(s, group);
    warn_known_bugs(s, &t);
}
