/* rope_as_llama_cpp.c: the scaling that remains when llama.cpp's converter converts a config.json to a GGUF, and what
 * the engine then computes (August 2026).
 *
 * The converter has a class for each architecture.  Most take base, linear and YaRN from shared code.  Only some classes
 * write llama3 factors and LongRoPE's lists.  What a class does not write is lost silently.  The converter reads the
 * file through transformers 5. */
#include "reading/rope/rope_engine.h"
#include "reading/scaling_traits.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

enum {
    PERMUTED = 1,                   /* rows of q and k are reordered for interleaved pairs */
    LLAMA3_BAKED = 2,               /* llama3 becomes a tensor of divisors */
    LONGROPE_LISTS = 4,             /* LongRoPE's lists, original length and attention factor; no other scaling */
    LONGROPE_LISTS_ONLY = 8,        /* only the lists; a scaling without lists stops the converter */
    ALPHA_50 = 16,                  /* dynamic becomes a fixed base, with alpha 50 if the key is missing */
    ALPHA_1000 = 32,                /* ... 1000 */
    NO_ROPE_KEYS = 64,              /* writes neither base nor scaling */
    NO_BASE = 128,                  /* does not write the base */
    READS_BETAS = 256,              /* the engine reads the ends of the ramp and applies mscale_all_dim to cos and sin */
    MSCALE_IS_ALL_DIM = 512,        /* DeepSeek 2's architecture: mscale is taken for mscale_all_dim */
    PROPORTIONAL = 1024,            /* proportional becomes a tensor of divisors */
    LENGTH_IN_DICT = 2048,          /* with LLAMA3_BAKED: the original length is the one transformers reads */
    UNKNOWN_ATTENTION_FACTOR = 4096 /* what the engine multiplies cos and sin by is not known here */
};
typedef struct converter {
    const char *model_type;
    unsigned converter_traits;
} converter;

static const converter converters[] = {{"llama", PERMUTED | LLAMA3_BAKED},
                                       {"mistral", PERMUTED | LLAMA3_BAKED},
                                       {"mixtral", PERMUTED | LLAMA3_BAKED},
                                       {"ministral3", PERMUTED | LLAMA3_BAKED | READS_BETAS},
                                       {"mistral3", PERMUTED | LLAMA3_BAKED},
                                       {"arcee", PERMUTED | LLAMA3_BAKED},
                                       {"granite", PERMUTED | LLAMA3_BAKED},
                                       {"granitemoe", PERMUTED | LLAMA3_BAKED},
                                       {"granitemoeshared", PERMUTED | LLAMA3_BAKED},
                                       {"granitemoehybrid", PERMUTED | LLAMA3_BAKED},
                                       {"smollm3", PERMUTED | LLAMA3_BAKED},
                                       {"deci", PERMUTED | LLAMA3_BAKED},
                                       {"nemotron-nas", PERMUTED | LLAMA3_BAKED},
                                       {"apertus", LLAMA3_BAKED},
                                       {"llama4", LLAMA3_BAKED},
                                       {"exaone", LLAMA3_BAKED | LENGTH_IN_DICT},
                                       {"exaone4", LLAMA3_BAKED | LENGTH_IN_DICT},
                                       {"step3p5", LLAMA3_BAKED | LENGTH_IN_DICT},
                                       {"step3p7", LLAMA3_BAKED | LENGTH_IN_DICT},
                                       {"internlm2", PERMUTED},
                                       {"internlm3", PERMUTED},
                                       {"olmo", PERMUTED},
                                       {"deepseek", PERMUTED},
                                       {"arctic", PERMUTED},
                                       {"llada", PERMUTED},
                                       {"chameleon", PERMUTED},
                                       {"baichuan", PERMUTED},
                                       {"minicpm", PERMUTED | LONGROPE_LISTS_ONLY},
                                       {"minicpm3", LONGROPE_LISTS_ONLY | NO_BASE},
                                       {"phi3", LONGROPE_LISTS},
                                       {"phi4", LONGROPE_LISTS},
                                       {"phimoe", LONGROPE_LISTS},
                                       {"phi4_multimodal", LONGROPE_LISTS},
                                       {"hunyuan_v1_dense", ALPHA_50},
                                       {"hunyuan_vl", ALPHA_50},
                                       {"hunyuan_v1_moe", ALPHA_1000},
                                       {"gemma", NO_ROPE_KEYS},
                                       {"gemma2", NO_ROPE_KEYS},
                                       {"phi", NO_ROPE_KEYS},
                                       {"gpt_neox", NO_ROPE_KEYS},
                                       {"falcon", NO_ROPE_KEYS},
                                       {"orion", NO_ROPE_KEYS},
                                       {"gemma4", PROPORTIONAL},
                                       {"deepseek_v4", READS_BETAS | UNKNOWN_ATTENTION_FACTOR},
                                       {"deepseek_v2", MSCALE_IS_ALL_DIM},
                                       {"deepseek_v3", MSCALE_IS_ALL_DIM},
                                       {"kimi_k2", MSCALE_IS_ALL_DIM},
                                       {"glm4_moe_lite", MSCALE_IS_ALL_DIM}};

/* The converter has no class for these.  They are read as if it treated them like Llama. */
static const char *const unsupported_types[] = {"ministral",
                                                "cwm",
                                                "jetmoe",
                                                "diffllama",
                                                "zamba2",
                                                "mllama_text_model",
                                                "csm",
                                                "moshi",
                                                "mimi",
                                                "internlm",
                                                "idefics",
                                                "Yi",
                                                "aquila",
                                                "emu3_text_model",
                                                "telechat",
                                                "telechat3",
                                                "nanochat",
                                                "vaultgemma",
                                                "minimax",
                                                "persimmon",
                                                "fuyu",
                                                "gptj",
                                                "gpt_neox_japanese",
                                                "recurrent_gemma",
                                                "zaya",
                                                "codegen",
                                                "roformer",
                                                "ernie4_5_vl_moe",
                                                "helium",
                                                "moonshine",
                                                "blt",
                                                "phi3_v",
                                                "t5gemma_module"};

/* gemma3_text is the decoder of gemma3. */
static int is_model_type(const char *model_type, const char *entry) {
    const size_t length = strlen(entry);
    return strncmp(model_type, entry, length) == 0 && (!model_type[length] || strcmp(model_type + length, "_text") == 0);
}

static unsigned converter_traits_of(const gyre_rope_source *source) {
    const char *type = source->family->model_type;
    for (size_t i = 0; i < sizeof converters / sizeof *converters; i++)
        if (is_model_type(type, converters[i].model_type)) return converters[i].converter_traits;
    for (size_t i = 0; i < sizeof unsupported_types / sizeof *unsupported_types; i++)
        if (is_model_type(type, unsupported_types[i])) {
            const int is_phi = strcmp(type, "phi3_v") == 0;
            gyre_scope_warn(&source->root, "model_type", "llama.cpp's converter has no class for %s; read as a %s", type,
                            is_phi ? "phi3" : "llama");
            return is_phi ? LONGROPE_LISTS : PERMUTED | LLAMA3_BAKED;
        }
    return 0;
}

static int failed(const gyre_rope_engine *e) {
    return !!gyre_build_status(e->build);
}

static int has_key(const gyre_rope_engine *e, const char *key) {
    return gyre_scope_value(&e->source->dict, key) != NULL;
}

static int is_mla(const gyre_rope_engine *e) {
    return (e->source->family->traits & GYRE_MLA) && !is_model_type(e->source->family->model_type, "minicpm3");
}

/* -- what is lost -- */
/* The scaling does not arrive: pairs rotate as trained. */
static void drop_scaling(const gyre_rope_engine *e, const char *why) {
    gyre_engine_set_scaling(e, GYRE_SCALING_NONE, why);
    gyre_scope_warn(&e->source->dict, e->source->type_key,
                    "\"%.40s\" does not reach llama.cpp, which rotates as without it: %s", e->source->type, why);
}

static void drop_base(const gyre_rope_engine *e, unsigned converter_traits) {
    struct gyre_rope_config *rope = &e->group->config.rope;
    if (!(converter_traits & (NO_ROPE_KEYS | NO_BASE)) || rope->base == 0.0 || rope->base == 10000.0) return;
    rope->base = 10000.0;
    const gyre_scope *scope = has_key(e, "rope_theta") ? &e->source->dict : &e->source->root;
    const gyre_place place = gyre_scope_place(scope, "rope_theta");
    gyre_build_set_number(e->build, e->group, "base", GYRE_ORIGIN_READER, &place,
                          "the converter writes no base for this architecture, and llama.cpp takes 10000", 10000.0);
}

static void note_permuted_layout(const gyre_rope_engine *e) {
    if (e->group->config.rope.layout != GYRE_LAYOUT_HALF) return;
    gyre_build_set_field(
        e->build, e->group, "layout", GYRE_ORIGIN_FAMILY, NULL,
        "llama.cpp rotates interleaved pairs; its converter reorders the rows of q and k so that scores stay the same",
        "half");
}

/* Mistral 4 is converted by DeepSeek 2's class, which does not write it. */
static void drop_temperature(const gyre_rope_engine *e, unsigned converter_traits) {
    static const char key[] = "llama_4_scaling_beta";
    if (e->group->config.query.temperature != GYRE_TEMPERATURE_MINISTRAL || converter_traits & READS_BETAS ||
        !has_key(e, key))
        return;
    const gyre_place place = gyre_scope_place(&e->source->dict, key);
    e->group->config.query = (struct gyre_query_config){GYRE_TEMPERATURE_NONE, 0, 0.0};
    gyre_build_set_field(e->build, e->group, "query_temperature", GYRE_ORIGIN_DERIVED, &place,
                         "llama.cpp's converter does not write it for this architecture", "none");
    gyre_build_warn(e->build, &place, "%s: llama.cpp's converter does not write it for this architecture", place.key);
}

/* On a context shift, the engine's code multiplies keys by this factor a second time. */
static void warn_context_shift(const gyre_rope_engine *e, double attention) {
    if (!failed(e) && attention != 1.0)
        gyre_scope_warn(
            &e->source->dict, e->source->type_key,
            "every context shift of llama.cpp multiplies the cached keys by the attention factor, %.6g, again: do not shift",
            attention);
}

/* -- types -- */
static void linear(const gyre_rope_engine *e) {
    if (!has_key(e, "factor")) {
        drop_scaling(e, "the converter does not take linear if factor is missing");
        return;
    }
    gyre_engine_set_scaling(e, GYRE_SCALING_LINEAR, NULL);
    (void)gyre_engine_read_factor(e);
}

/* The converter looks for the original length only beside the dict, and otherwise assumes 8192. */
static int64_t llama3_original_length(const gyre_rope_engine *e) {
    static const char key[] = "original_max_position_embeddings";
    const gyre_rope_source *s = e->source;
    const int64_t beside = gyre_scope_integer(&s->root, key, 1, 0), within = gyre_scope_integer(&s->dict, key, 1, 0);
    const int64_t length = beside ? beside : 8192;
    if (failed(e)) return length;
    const gyre_place place = gyre_scope_place(beside ? &s->root : &s->dict, key);
    const char *why = NULL;
    if (within && within != length)
        why = gyre_build_format(
            e->build,
            "the converter reads original_max_position_embeddings beside the rotation's keys, not among them (%" PRId64
            "), so it takes %" PRId64,
            within, length);
    const gyre_place *at = beside || within ? &place : NULL;
    const gyre_origin origin = beside ? GYRE_ORIGIN_FILE : GYRE_ORIGIN_READER;
    if (why) gyre_build_warn(e->build, &place, "%s", why);
    gyre_build_set_number(e->build, e->group, "original_length", origin, at, why, (double)length);
    gyre_build_set_number(e->build, e->group, "trained_length", GYRE_ORIGIN_DERIVED, at, why, (double)length);
    return length;
}

static void llama3(const gyre_rope_engine *e, unsigned converter_traits) {
    struct gyre_rope_config *rope = &e->group->config.rope;
    if (!(converter_traits & LLAMA3_BAKED)) {
        drop_scaling(e, "the converter writes llama3's factors only for models with Llama's structure");
        return;
    }
    gyre_engine_set_scaling(e, GYRE_SCALING_LLAMA3, NULL);
    rope->factor = gyre_engine_read_positive(e, "factor", "factor", 8.0);
    if (rope->factor < 1.0) gyre_scope_fail(&e->source->dict, GYRE_EFORMAT, "factor", "%g is below 1", rope->factor);
    rope->low_freq = gyre_engine_read_positive(e, "low_freq_factor", "low_freq_factor", 1.0);
    rope->high_freq = gyre_engine_read_positive(e, "high_freq_factor", "high_freq_factor", 4.0);
    e->group->config.trained_length =
        converter_traits & LENGTH_IN_DICT ? gyre_engine_read_original_length(e) : llama3_original_length(e);
}

/* HunYuan's classes: base alpha^(d / (d - 2)). */
static void dynamic(const gyre_rope_engine *e, unsigned converter_traits) {
    if (!(converter_traits & (ALPHA_50 | ALPHA_1000))) {
        drop_scaling(e, "it has no base that grows with the context");
        return;
    }
    const double alpha = gyre_scope_number(&e->source->dict, "alpha", converter_traits & ALPHA_50 ? 50.0 : 1000.0);
    gyre_engine_set_scaling(e, GYRE_SCALING_NTK, "the converter grows the base once, by alpha");
    e->group->config.rope.factor = alpha;
    gyre_engine_note_number(e, "factor", "alpha", "alpha: the base grows by alpha^(d / (d - 2))", alpha);
    if (!failed(e) && !(alpha >= 1.0)) gyre_scope_fail(&e->source->dict, GYRE_EFORMAT, "alpha", "%g is below 1", alpha);
}

static void proportional(const gyre_rope_engine *e, unsigned converter_traits) {
    static const char *const unread[] = {"factor", NULL};
    gyre_place place;
    const char *why = gyre_engine_ignored_keys(e, unread, &place);
    if (!(converter_traits & PROPORTIONAL)) {
        drop_scaling(e, "the converter takes proportional only for Gemma 4");
        return;
    }
    gyre_engine_set_scaling(e, GYRE_SCALING_PROPORTIONAL, NULL);
    gyre_rope_read_proportion(e->source, e->group);
    e->group->config.rope.factor = 1.0;
    if (why) gyre_engine_note_number(e, "factor", "factor", why, 1.0);
}

/* -- LongRoPE -- */
static void longrope(const gyre_rope_engine *e, unsigned converter_traits) {
    static const char *const unread[] = {"factor", "attention_factor", "short_mscale", "long_mscale", NULL};
    gyre_config *config = &e->group->config;
    const int64_t max_positions = e->source->max_positions, asked = gyre_build_length(e->build);
    gyre_place place;
    if (!(converter_traits & (LONGROPE_LISTS | LONGROPE_LISTS_ONLY))) {
        drop_scaling(e, "the converter writes the lists only for Phi-3 and MiniCPM");
        return;
    }
    gyre_engine_set_scaling(e, GYRE_SCALING_LONGROPE, NULL);
    const int64_t original = gyre_engine_read_original_length(e);
    if (max_positions <= 0) gyre_scope_fail(&e->source->root, GYRE_EFORMAT, "max_position_embeddings", "missing");
    if (original == 1)
        gyre_scope_fail(&e->source->dict, GYRE_EFORMAT, "original_max_position_embeddings",
                        "1 has logarithm 0, which longrope divides by");
    if (failed(e)) return;
    /* If no original length is written, the engine uses the model's length, and no attention factor. */
    const int64_t switched = converter_traits & LONGROPE_LISTS ? original : max_positions;
    const double ratio = converter_traits & LONGROPE_LISTS ? (double)max_positions / (double)original : 1.0;
    if (switched != original) {
        config->trained_length = switched;
        gyre_engine_note_number(e, "trained_length", "original_max_position_embeddings",
                                "the converter does not write the original length for this architecture", (double)switched);
    }
    config->rope.factor = ratio > 1.0 ? ratio : 1.0;
    gyre_engine_note_number(e, "factor", NULL,
                            converter_traits & LONGROPE_LISTS ? "max_position_embeddings / original_max_position_embeddings"
                                                              : "no attention factor is written for this architecture",
                            config->rope.factor);
    gyre_engine_choose_longrope_list(e, asked ? asked : max_positions, switched);
    const char *why = gyre_engine_ignored_keys(e, unread, &place);
    if (failed(e)) return;
    const double attention = gyre_rope_longrope_attention_factor(ratio, original);
    gyre_engine_set_attention_factor(e, attention, &place, why);
    warn_context_shift(e, attention);
}

/* -- YaRN -- */
/* Written into the GGUF for every architecture, but read by few. */
static void ramp(const gyre_rope_engine *e, unsigned converter_traits) {
    static const char *const keys[] = {"beta_fast", "beta_slow"};
    struct gyre_rope_config *rope = &e->group->config.rope;
    double *const revolutions[] = {&rope->beta_fast, &rope->beta_slow};
    static const double usual[] = {32.0, 1.0};
    gyre_rope_read_ramp(e->source, e->group, 1);
    for (int i = 0; i < 2 && !(converter_traits & READS_BETAS); i++) {
        const char *const unread[] = {keys[i], NULL};
        gyre_place place;
        if (*revolutions[i] != usual[i])
            gyre_engine_note_number(e, keys[i], keys[i], gyre_engine_ignored_keys(e, unread, &place), usual[i]);
        *revolutions[i] = usual[i];
    }
}

/* g(s, 1), or g(s, 1) / g(s, m) if the converter writes m = mscale_all_dim.  With latent attention all scores are also
 * multiplied by (that times g(s, m))^2, so that without m the factor counts twice. */
static void yarn_attention(const gyre_rope_engine *e, unsigned converter_traits, double s) {
    if (converter_traits & UNKNOWN_ATTENTION_FACTOR) {
        gyre_scope_warn(&e->source->dict, e->source->type_key,
                        "the attention factor of llama.cpp in this architecture is not known; 1 is assumed");
        gyre_engine_set_attention_factor(e, 1.0, &(gyre_place){NULL, 0, 0}, NULL);
        return;
    }
    static const char *const plain[] = {"attention_factor", "attn_factor", "mscale", "mscale_all_dim", NULL};
    static const char *const arrives[] = {"attention_factor", "attn_factor", "mscale", NULL};
    const int written = is_mla(e) || converter_traits & READS_BETAS;
    gyre_place place;
    const char *why = gyre_engine_ignored_keys(e, written ? arrives : plain, &place);
    double value = gyre_rope_yarn_mscale(s, 1.0), all = 0.0;
    if (written) {
        all = gyre_engine_read_number(e, "mscale_all_dim", "mscale_all_dim", converter_traits & READS_BETAS ? NAN : 0.0);
        const double mscale = converter_traits & MSCALE_IS_ALL_DIM && all != 1.0 ? all : 1.0;
        if (all != 0.0) value = gyre_rope_yarn_mscale(s, mscale) / gyre_rope_yarn_mscale(s, all);
        e->group->config.rope.mscale = e->group->config.rope.mscale_all_dim = 0.0;
    }
    if (failed(e)) return;
    gyre_engine_set_attention_factor(e, value, &place, why);
    warn_context_shift(e, value);
    if (!is_mla(e)) return;
    const double of_scores = value * (s > 1.0 ? 1.0 + 0.1 * all * log(s) : 1.0);
    gyre_engine_set_softmax(
        e, of_scores * of_scores, "mscale_all_dim",
        all == 0.0
            ? "without mscale_all_dim llama.cpp multiplies cos and sin by 0.1 ln s + 1, and all scores by its square again"
            : NULL);
}

static void yarn(const gyre_rope_engine *e, unsigned converter_traits) {
    if (!has_key(e, "factor")) {
        drop_scaling(e, "the converter does not take yarn if factor is missing or null");
        return;
    }
    static const char *const unread[] = {"extrapolation_factor", NULL};
    gyre_place place;
    gyre_engine_set_scaling(e, GYRE_SCALING_YARN,
                            converter_traits & READS_BETAS ? NULL : gyre_engine_ignored_keys(e, unread, &place));
    const double s = gyre_engine_read_factor(e);
    (void)gyre_engine_read_original_length(e);
    ramp(e, converter_traits);
    yarn_attention(e, converter_traits, s);
    if (converter_traits & READS_BETAS && !failed(e)) {
        const double extrapolation_factor = gyre_scope_number(&e->source->dict, "extrapolation_factor", 1.0);
        if (extrapolation_factor != 1.0 && !failed(e)) gyre_engine_apply_extrapolation_factor(e, extrapolation_factor);
    }
}

/* -- interleaved axes -- */
/* out = the scaling as a divisor for each pair, whatever its type. */
static double *scaling_divisors(const gyre_rope_engine *e) {
    struct gyre_rope_config *rope = &e->group->config.rope;
    if (rope->scaling == GYRE_SCALING_YARN) gyre_engine_apply_extrapolation_factor(e, 1.0);
    double *out = gyre_build_alloc_numbers(e->build, rope->dim / 2);
    for (int64_t i = 0; i < rope->dim / 2 && out; i++)
        out[i] = rope->scaling == GYRE_SCALING_LONGROPE ? rope->short_factor[i]
                 : rope->scaling == GYRE_SCALING_LINEAR ? rope->factor
                                                        : 1.0;
    return out;
}

/* When an axis has all its pairs, llama.cpp assigns the following ones to a fourth axis, whose position in text is 0.
 * transformers assigns them to the first. */
static void zero_fourth_axis(const gyre_rope_engine *e) {
    gyre_config *config = &e->group->config;
    struct gyre_rope_config *rope = &config->rope;
    const int64_t pairs = rope->dim / 2;
    int64_t stopped = 0;
    if (rope->axes != 3 || rope->axes_layout != GYRE_AXES_INTERLEAVED) return;
    for (int64_t i = 0; i < pairs; i++)
        stopped += i >= 3 * rope->axis_pairs[i % 3];
    double *divisors = stopped > 0 && !failed(e) ? scaling_divisors(e) : NULL;
    if (!divisors) return;
    for (int64_t i = 0; i < pairs; i++)
        if (i >= 3 * rope->axis_pairs[i % 3]) divisors[i] = 1e30; /* so that nothing of the frequency remains */
    gyre_engine_set_divisors(config, divisors);
    const gyre_place place = gyre_scope_place(&e->source->dict, "mrope_section");
    const char *why =
        gyre_build_format(e->build,
                          "%" PRId64 " of %" PRId64 " pairs do not rotate: llama.cpp assigns them to a fourth axis, whose "
                          "position is 0; transformers has them on the first",
                          stopped, pairs);
    gyre_build_set_field(e->build, e->group, "sections", GYRE_ORIGIN_FILE, &place, why, "%" PRId64 " %" PRId64 " %" PRId64,
                         rope->axis_pairs[0], rope->axis_pairs[1], rope->axis_pairs[2]);
    gyre_build_warn(e->build, &place, "%s", why);
}

/* -- everything together -- */
/* For layers with a window, the converter takes only the base. */
static int drop_sliding_scaling(const gyre_rope_engine *e) {
    const char *layers = e->source->layer_type;
    if (!layers || strcmp(layers, "sliding_attention") != 0 || !has_key(e, e->source->type_key)) return 0;
    if (strcmp(e->source->type, "default") == 0) return 0;
    drop_scaling(e, "the converter takes only the base of layers with a window");
    return 1;
}

static void read_by_type(const gyre_rope_engine *e, unsigned converter_traits) {
    const char *type = e->source->type;
    if (strcmp(type, "default") == 0)
        gyre_engine_set_scaling(e, GYRE_SCALING_NONE, NULL);
    else if (strcmp(type, "llama3") == 0)
        llama3(e, converter_traits);
    else if (strcmp(type, "longrope") == 0 || strcmp(type, "su") == 0)
        longrope(e, converter_traits);
    else if (strcmp(type, "proportional") == 0)
        proportional(e, converter_traits);
    else if (strcmp(type, "dynamic") == 0 || (strcmp(type, "xdrope") == 0 && converter_traits & ALPHA_50))
        dynamic(e, converter_traits);
    else if (converter_traits & (LONGROPE_LISTS | NO_BASE | NO_ROPE_KEYS))
        drop_scaling(e, "the converter writes no such scaling for this architecture");
    else if (strcmp(type, "linear") == 0)
        linear(e);
    else if (strcmp(type, "yarn") == 0)
        yarn(e, converter_traits);
    else
        drop_scaling(e, "the converter does not know the type");
}

#define LENGTHS "factor", "original_max_position_embeddings"
/* Keys that are read, or that the note of another field mentions. */
static const char *const *keys_read(const gyre_rope_engine *e) {
    static const char *const none[] = {NULL}, *const factor[] = {"factor", NULL}, *const alpha[] = {"factor", "alpha", NULL};
    static const char *const ramp_keys[] = {
        LENGTHS,          "attention_factor", "attn_factor",          "beta_fast", "beta_slow", "mscale",
        "mscale_all_dim", "truncate",         "extrapolation_factor", NULL};
    static const char *const bands[] = {LENGTHS, "low_freq_factor", "high_freq_factor", NULL};
    static const char *const lists[] = {
        LENGTHS, "attention_factor", "short_factor", "long_factor", "long_mscale", "short_mscale", NULL};
    if (strcmp(e->source->type, "yarn") == 0) return ramp_keys; /* the config may express it by divisors */
    switch (e->group->config.rope.scaling) {
    case GYRE_SCALING_LINEAR:
    case GYRE_SCALING_PROPORTIONAL:
        return factor;
    case GYRE_SCALING_NTK:
        return alpha;
    case GYRE_SCALING_LLAMA3:
        return bands;
    case GYRE_SCALING_LONGROPE:
        return lists;
    default:
        return none;
    }
}

void gyre_rope_as_llama_cpp(const gyre_rope_source *source, gyre_layer_group *group) {
    const gyre_rope_engine engine = gyre_engine_begin(source, group), *e = &engine;
    const unsigned converter_traits = converter_traits_of(source);
    if (converter_traits & PERMUTED) note_permuted_layout(e);
    drop_base(e, converter_traits);
    if (converter_traits & LONGROPE_LISTS_ONLY && strcmp(source->type, "default") != 0 && !has_key(e, "short_factor")) {
        gyre_scope_fail(&source->dict, GYRE_EUNSUPPORTED, e->source->type_key,
                        "\"%.40s\": llama.cpp's converter wants short_factor and long_factor with any scaling of this model",
                        source->type);
        return;
    }
    drop_temperature(e, converter_traits);
    if (!drop_sliding_scaling(e)) read_by_type(e, converter_traits);
    if (group->config.rope.scaling != GYRE_SCALING_NONE || strcmp(source->type, "default") == 0)
        gyre_rope_warn_unread_keys(source, keys_read(e));
    zero_fourth_axis(e);
}
