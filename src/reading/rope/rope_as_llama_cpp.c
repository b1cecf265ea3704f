/* rope_as_llama_cpp.c: what becomes of the scaling of a config.json that llama.cpp's converter turns into a GGUF, and what
 * its engine then computes (August 2026).
 *
 * The converter has a class for each architecture.  Most take base, linear and YaRN from one common place; llama3 factors
 * and LongRoPE's lists are written by some classes alone, and what a class does not write is lost without a word.  The file
 * comes to it through transformers 5. */
#include "reading/config_fields.h"
#include "reading/rope/rope_engine.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

enum {
    PERMUTED = 1,         /* rows of q and k are reordered for interleaved pairs */
    LLAMA3_BAKED = 2,     /* llama3 becomes a tensor of divisors */
    LISTS = 4,            /* LongRoPE's lists, its original length and its attention factor; no other scaling */
    LISTS_ALONE = 8,      /* the lists and nothing else; a scaling without lists stops the converter */
    ALPHA_50 = 16,        /* dynamic becomes a fixed base, alpha 50 without the key */
    ALPHA_1000 = 32,      /* ... 1000 */
    NOTHING_WRITTEN = 64, /* neither base nor scaling */
    NO_BASE = 128,        /* not the base */
    OWN_BETAS = 256,      /* the engine reads the ramp's turns, and mscale_all_dim goes to cos and sin */
    MSCALE_ASSUMED = 512, /* DeepSeek 2's architecture: mscale is taken to be mscale_all_dim */
    PROPORTIONAL = 1024,  /* proportional becomes a tensor of divisors */
    LENGTH_WITHIN = 2048, /* with LLAMA3_BAKED: the original length is the one that transformers reads */
    UNTOLD = 4096         /* what the engine multiplies by is not known here */
};
typedef struct converter {
    const char *model_type;
    unsigned does;
} converter;

static const converter converters[] = {{"llama", PERMUTED | LLAMA3_BAKED},
                                       {"mistral", PERMUTED | LLAMA3_BAKED},
                                       {"mixtral", PERMUTED | LLAMA3_BAKED},
                                       {"ministral3", PERMUTED | LLAMA3_BAKED | OWN_BETAS},
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
                                       {"exaone", LLAMA3_BAKED | LENGTH_WITHIN},
                                       {"exaone4", LLAMA3_BAKED | LENGTH_WITHIN},
                                       {"internlm2", PERMUTED},
                                       {"internlm3", PERMUTED},
                                       {"olmo", PERMUTED},
                                       {"deepseek", PERMUTED},
                                       {"arctic", PERMUTED},
                                       {"llada", PERMUTED},
                                       {"chameleon", PERMUTED},
                                       {"baichuan", PERMUTED},
                                       {"minicpm", PERMUTED | LISTS_ALONE},
                                       {"minicpm3", LISTS_ALONE | NO_BASE},
                                       {"phi3", LISTS},
                                       {"phi4", LISTS},
                                       {"phimoe", LISTS},
                                       {"phi4_multimodal", LISTS},
                                       {"hunyuan_v1_dense", ALPHA_50},
                                       {"hunyuan_vl", ALPHA_50},
                                       {"hunyuan_v1_moe", ALPHA_1000},
                                       {"gemma", NOTHING_WRITTEN},
                                       {"gemma2", NOTHING_WRITTEN},
                                       {"phi", NOTHING_WRITTEN},
                                       {"gpt_neox", NOTHING_WRITTEN},
                                       {"falcon", NOTHING_WRITTEN},
                                       {"orion", NOTHING_WRITTEN},
                                       {"gemma4", PROPORTIONAL},
                                       {"deepseek_v4", OWN_BETAS | UNTOLD},
                                       {"deepseek_v2", MSCALE_ASSUMED},
                                       {"deepseek_v3", MSCALE_ASSUMED},
                                       {"kimi_k2", MSCALE_ASSUMED},
                                       {"glm4_moe_lite", MSCALE_ASSUMED}};

/* Whom the converter has no class for; read as if it took the file for one made like Llama's. */
static const char *const not_taken[] = {"ministral",
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

/* gemma3_text is gemma3's decoder. */
static int names(const char *model_type, const char *entry) {
    const size_t length = strlen(entry);
    return strncmp(model_type, entry, length) == 0 && (!model_type[length] || strcmp(model_type + length, "_text") == 0);
}

static unsigned what_is_done(const gyre_rope_source *source) {
    const char *type = source->family->model_type;
    for (size_t i = 0; i < sizeof converters / sizeof *converters; i++)
        if (names(type, converters[i].model_type)) return converters[i].does;
    for (size_t i = 0; i < sizeof not_taken / sizeof *not_taken; i++)
        if (names(type, not_taken[i])) {
            const int is_phi = strcmp(type, "phi3_v") == 0;
            gyre_scope_warn(&source->root, "model_type",
                            "llama.cpp's converter has no class for %s; read as if it took it for a %s", type,
                            is_phi ? "phi3" : "llama");
            return is_phi ? LISTS : PERMUTED | LLAMA3_BAKED;
        }
    return 0;
}

static int failed(const gyre_rope_engine *e) {
    return gyre_build_status(e->build) != GYRE_OK;
}

static int has(const gyre_rope_engine *e, const char *key) {
    return gyre_scope_value(&e->source->dict, key) != NULL;
}

static int is_latent(const gyre_rope_engine *e) {
    return (e->source->family->traits & GYRE_LATENT) && !names(e->source->family->model_type, "minicpm3");
}

/* -- what is lost ------------------------------------------------------------------------------------------------------ */
/* Pairs turn as trained: a scaling that does not arrive. */
static void dropped(const gyre_rope_engine *e, const char *why) {
    gyre_engine_scaling(e, GYRE_UNSCALED, why);
    gyre_scope_warn(&e->source->dict, e->source->type_key,
                    "\"%.40s\" does not reach llama.cpp, which turns as without it: %s", e->source->type, why);
}

static void lost_base(const gyre_rope_engine *e, unsigned does) {
    struct gyre_rope_config *rope = &e->group->config.rope;
    if (!(does & (NOTHING_WRITTEN | NO_BASE)) || rope->base == 0.0 || rope->base == 10000.0) return;
    rope->base = 10000.0;
    const gyre_scope *scope = has(e, "rope_theta") ? &e->source->dict : &e->source->root;
    const gyre_place place = gyre_scope_place(scope, "rope_theta");
    gyre_build_number(e->build, e->group, "base", GYRE_FROM_READER, &place,
                      "the converter writes no base for this architecture, and llama.cpp takes 10000", 10000.0);
}

static void permuted_layout(const gyre_rope_engine *e) {
    if (e->group->config.rope.layout != GYRE_HALF) return;
    gyre_build_field(
        e->build, e->group, "layout", GYRE_FROM_FAMILY, NULL,
        "llama.cpp turns interleaved pairs; its converter reorders the rows of q and k so that scores stay the same",
        "half");
}

/* The class of DeepSeek 2, by which Mistral 4 is converted, does not write it. */
static void lost_temperature(const gyre_rope_engine *e, unsigned does) {
    static const char key[] = "llama_4_scaling_beta";
    if (e->group->config.query.temperature != GYRE_TEMPERATURE_MINISTRAL || does & OWN_BETAS || !has(e, key)) return;
    const gyre_place place = gyre_scope_place(&e->source->dict, key);
    e->group->config.query = (struct gyre_query_config){GYRE_TEMPERATURE_NONE, 0, 0.0};
    gyre_build_field(e->build, e->group, "query_temperature", GYRE_DERIVED, &place,
                     "llama.cpp's converter does not write it for this architecture", "none");
    gyre_build_warn(e->build, &place, "%s: llama.cpp's converter does not write it for this architecture", place.key);
}

/* The engine's code for a context shift hands the kernel the factor that the keys have been multiplied by before. */
static void warn_of_shift(const gyre_rope_engine *e, double attention) {
    if (!failed(e) && attention != 1.0)
        gyre_scope_warn(
            &e->source->dict, e->source->type_key,
            "every context shift of llama.cpp multiplies the cached keys by the attention factor, %.6g, once more: do "
            "not shift",
            attention);
}

/* -- one by one -------------------------------------------------------------------------------------------------------- */
static void linear(const gyre_rope_engine *e) {
    if (!has(e, "factor")) {
        dropped(e, "the converter takes linear for unknown where factor is missing");
        return;
    }
    gyre_engine_scaling(e, GYRE_LINEAR, NULL);
    (void)gyre_engine_factor(e);
}

/* The converter looks for the original length beside the dict alone, and for 8192 where it is not there. */
static int64_t baked_length(const gyre_rope_engine *e) {
    static const char key[] = "original_max_position_embeddings";
    const gyre_rope_source *s = e->source;
    const int64_t beside = gyre_scope_size(&s->root, key, 1, 0), within = gyre_scope_size(&s->dict, key, 1, 0);
    const int64_t length = beside ? beside : 8192;
    if (failed(e)) return length;
    const gyre_place place = gyre_scope_place(beside ? &s->root : &s->dict, key);
    const char *why = NULL;
    if (within && within != length)
        why = gyre_build_text(
            e->build,
            "the converter reads original_max_position_embeddings beside the rotation's keys, not among them "
            "(%" PRId64 "), and takes %" PRId64,
            within, length);
    const gyre_place *at = beside || within ? &place : NULL;
    const gyre_origin origin = beside ? GYRE_FROM_FILE : GYRE_FROM_READER;
    if (why) gyre_build_warn(e->build, &place, "%s", why);
    gyre_build_number(e->build, e->group, "original_length", origin, at, why, (double)length);
    gyre_build_number(e->build, e->group, "trained_length", GYRE_DERIVED, at, why, (double)length);
    return length;
}

static void llama3(const gyre_rope_engine *e, unsigned does) {
    struct gyre_rope_config *rope = &e->group->config.rope;
    if (!(does & LLAMA3_BAKED)) {
        dropped(e, "the converter writes llama3's factors for models made like Llama alone");
        return;
    }
    gyre_engine_scaling(e, GYRE_LLAMA3, NULL);
    rope->factor = gyre_engine_positive(e, "factor", "factor", 8.0);
    if (rope->factor < 1.0) gyre_scope_fail(&e->source->dict, GYRE_EFORMAT, "factor", "%g is below 1", rope->factor);
    rope->low_freq = gyre_engine_positive(e, "low_freq_factor", "low_freq_factor", 1.0);
    rope->high_freq = gyre_engine_positive(e, "high_freq_factor", "high_freq_factor", 4.0);
    e->group->config.trained_length = does & LENGTH_WITHIN ? gyre_engine_original(e) : baked_length(e);
}

/* HunYuan's classes: base alpha^(d / (d - 2)). */
static void dynamic(const gyre_rope_engine *e, unsigned does) {
    if (!(does & (ALPHA_50 | ALPHA_1000))) {
        dropped(e, "it has no base that grows with the context");
        return;
    }
    const double alpha = gyre_scope_number(&e->source->dict, "alpha", does & ALPHA_50 ? 50.0 : 1000.0);
    gyre_engine_scaling(e, GYRE_NTK, "the converter grows the base once, by alpha");
    e->group->config.rope.factor = alpha;
    gyre_engine_note(e, "factor", "alpha", "alpha: the base grows by alpha^(d / (d - 2))", alpha);
    if (!failed(e) && !(alpha >= 1.0)) gyre_scope_fail(&e->source->dict, GYRE_EFORMAT, "alpha", "%g is below 1", alpha);
}

static void proportional(const gyre_rope_engine *e, unsigned does) {
    static const char *const unread[] = {"factor", NULL};
    gyre_place place;
    const char *why = gyre_engine_unread(e, unread, &place);
    if (!(does & PROPORTIONAL)) {
        dropped(e, "the converter knows proportional for Gemma 4 alone");
        return;
    }
    gyre_engine_scaling(e, GYRE_PROPORTIONAL, NULL);
    gyre_rope_read_proportion(e->source, e->group);
    e->group->config.rope.factor = 1.0;
    if (why) gyre_engine_note(e, "factor", "factor", why, 1.0);
}

/* -- LongRoPE ---------------------------------------------------------------------------------------------------------- */
static void longrope(const gyre_rope_engine *e, unsigned does) {
    static const char *const unread[] = {"factor", "attention_factor", "short_mscale", "long_mscale", NULL};
    gyre_config *config = &e->group->config;
    const int64_t most = e->source->max_positions, asked = gyre_build_length(e->build);
    gyre_place place;
    if (!(does & (LISTS | LISTS_ALONE))) {
        dropped(e, "the converter writes the lists for Phi-3 and MiniCPM alone");
        return;
    }
    gyre_engine_scaling(e, GYRE_LONGROPE, NULL);
    const int64_t original = gyre_engine_original(e);
    if (most <= 0) gyre_scope_fail(&e->source->root, GYRE_EFORMAT, "max_position_embeddings", "missing");
    if (original == 1)
        gyre_scope_fail(&e->source->dict, GYRE_EFORMAT, "original_max_position_embeddings",
                        "1 has logarithm 0, which longrope divides by");
    if (failed(e)) return;
    /* Where no original length is written the engine takes that of the model, and no attention factor. */
    const int64_t switched = does & LISTS ? original : most;
    const double ratio = does & LISTS ? (double)most / (double)original : 1.0;
    if (switched != original) {
        config->trained_length = switched;
        gyre_engine_note(e, "trained_length", "original_max_position_embeddings",
                         "the converter does not write the original length for this architecture", (double)switched);
    }
    config->rope.factor = ratio > 1.0 ? ratio : 1.0;
    gyre_engine_note(e, "factor", NULL,
                     does & LISTS ? "max_position_embeddings / original_max_position_embeddings"
                                  : "no attention factor is written for this architecture",
                     config->rope.factor);
    gyre_engine_longrope(e, asked ? asked : most, switched);
    const char *why = gyre_engine_unread(e, unread, &place);
    if (failed(e)) return;
    const double attention = gyre_rope_longrope_magnitude(ratio, original);
    gyre_engine_attention(e, attention, &place, why);
    warn_of_shift(e, attention);
}

/* -- YaRN -------------------------------------------------------------------------------------------------------------- */
/* Written into the GGUF for every architecture, and read from it for few. */
static void ramp(const gyre_rope_engine *e, unsigned does) {
    static const char *const keys[] = {"beta_fast", "beta_slow"};
    struct gyre_rope_config *rope = &e->group->config.rope;
    double *const turns[] = {&rope->beta_fast, &rope->beta_slow};
    static const double usual[] = {32.0, 1.0};
    gyre_rope_read_ramp(e->source, e->group, 1);
    for (int i = 0; i < 2 && !(does & OWN_BETAS); i++) {
        const char *const unread[] = {keys[i], NULL};
        gyre_place place;
        if (*turns[i] != usual[i]) gyre_engine_note(e, keys[i], keys[i], gyre_engine_unread(e, unread, &place), usual[i]);
        *turns[i] = usual[i];
    }
}

/* g(s, 1), or over g(s, m) where the converter writes m = mscale_all_dim; with latent attention (that times g(s, m))^2 on
 * all scores too, so that without m the factor counts on both. */
static void yarn_attention(const gyre_rope_engine *e, unsigned does, double s) {
    if (does & UNTOLD) {
        gyre_scope_warn(
            &e->source->dict, e->source->type_key,
            "what llama.cpp multiplies cos and sin by in this architecture is not known here, and taken to be 1");
        gyre_engine_attention(e, 1.0, &(gyre_place){NULL, 0, 0}, NULL);
        return;
    }
    static const char *const plain[] = {"attention_factor", "attn_factor", "mscale", "mscale_all_dim", NULL};
    static const char *const arrives[] = {"attention_factor", "attn_factor", "mscale", NULL};
    const int written = is_latent(e) || does & OWN_BETAS;
    gyre_place place;
    const char *why = gyre_engine_unread(e, written ? arrives : plain, &place);
    double value = gyre_rope_magnitude(s, 1.0), all = 0.0;
    if (written) {
        all = gyre_engine_number(e, "mscale_all_dim", "mscale_all_dim", does & OWN_BETAS ? NAN : 0.0);
        const double mscale = does & MSCALE_ASSUMED && all != 1.0 ? all : 1.0;
        if (all != 0.0) value = gyre_rope_magnitude(s, mscale) / gyre_rope_magnitude(s, all);
        e->group->config.rope.mscale = e->group->config.rope.mscale_all_dim = 0.0;
    }
    if (failed(e)) return;
    gyre_engine_attention(e, value, &place, why);
    warn_of_shift(e, value);
    if (!is_latent(e)) return;
    const double of_scores = value * (s > 1.0 ? 1.0 + 0.1 * all * log(s) : 1.0);
    gyre_engine_softmax(e, of_scores * of_scores, "mscale_all_dim",
                        all == 0.0
                            ? "without mscale_all_dim llama.cpp counts 0.1 ln s + 1 on cos and sin and once more, squared, "
                              "on all scores"
                            : NULL);
}

static void yarn(const gyre_rope_engine *e, unsigned does) {
    if (!has(e, "factor")) {
        dropped(e, "the converter takes yarn for unknown where factor is missing or null");
        return;
    }
    static const char *const unread[] = {"extrapolation_factor", NULL};
    gyre_place place;
    gyre_engine_scaling(e, GYRE_YARN, does & OWN_BETAS ? NULL : gyre_engine_unread(e, unread, &place));
    const double s = gyre_engine_factor(e);
    (void)gyre_engine_original(e);
    ramp(e, does);
    yarn_attention(e, does, s);
    if (does & OWN_BETAS && !failed(e)) {
        const double share = gyre_scope_number(&e->source->dict, "extrapolation_factor", 1.0);
        if (share != 1.0 && !failed(e)) gyre_engine_weaken(e, share);
    }
}

/* -- axes that take turns --------------------------------------------------------------------------------------------------
 */
/* As divisors of each pair, whatever scaling they come from. */
static double *as_divisors(const gyre_rope_engine *e) {
    struct gyre_rope_config *rope = &e->group->config.rope;
    if (rope->scaling == GYRE_YARN) gyre_engine_weaken(e, 1.0);
    double *out = gyre_build_numbers(e->build, rope->dim / 2);
    for (int64_t i = 0; i < rope->dim / 2 && out; i++)
        out[i] = rope->scaling == GYRE_LONGROPE ? rope->short_factor[i] : rope->scaling == GYRE_LINEAR ? rope->factor : 1.0;
    return out;
}

/* Where an axis has had its share, llama.cpp counts its further pairs to a fourth axis, whose position in text is 0, and
 * transformers to the first. */
static void hold_back(const gyre_rope_engine *e) {
    gyre_config *config = &e->group->config;
    struct gyre_rope_config *rope = &config->rope;
    const int64_t pairs = rope->dim / 2;
    int64_t held = 0;
    if (rope->axes != 3 || rope->axes_layout != GYRE_AXES_INTERLEAVED) return;
    for (int64_t i = 0; i < pairs; i++)
        held += i >= 3 * rope->section[i % 3];
    double *divisors = held > 0 && !failed(e) ? as_divisors(e) : NULL;
    if (!divisors) return;
    for (int64_t i = 0; i < pairs; i++)
        if (i >= 3 * rope->section[i % 3]) divisors[i] = 1e30; /* until nothing is left of it */
    gyre_engine_set_list(config, divisors);
    const gyre_place place = gyre_scope_place(&e->source->dict, "mrope_section");
    const char *why =
        gyre_build_text(e->build,
                        "%" PRId64 " of %" PRId64 " pairs stand still: llama.cpp counts them to a fourth axis, whose "
                        "position is 0, where transformers has them on the first",
                        held, pairs);
    gyre_build_field(e->build, e->group, "sections", GYRE_FROM_FILE, &place, why, "%" PRId64 " %" PRId64 " %" PRId64,
                     rope->section[0], rope->section[1], rope->section[2]);
    gyre_build_warn(e->build, &place, "%s", why);
}

/* -- all together ------------------------------------------------------------------------------------------------------ */
/* Of the layers of a window the converter takes the base alone. */
static int base_alone(const gyre_rope_engine *e) {
    const char *layers = e->source->layer_type;
    if (!layers || strcmp(layers, "sliding_attention") != 0 || !has(e, e->source->type_key)) return 0;
    if (strcmp(e->source->type, "default") == 0) return 0;
    dropped(e, "of layers with a window the converter takes the base alone");
    return 1;
}

static void by_type(const gyre_rope_engine *e, unsigned does) {
    const char *type = e->source->type;
    if (strcmp(type, "default") == 0)
        gyre_engine_scaling(e, GYRE_UNSCALED, NULL);
    else if (strcmp(type, "llama3") == 0)
        llama3(e, does);
    else if (strcmp(type, "longrope") == 0 || strcmp(type, "su") == 0)
        longrope(e, does);
    else if (strcmp(type, "proportional") == 0)
        proportional(e, does);
    else if (strcmp(type, "dynamic") == 0 || (strcmp(type, "xdrope") == 0 && does & ALPHA_50))
        dynamic(e, does);
    else if (does & (LISTS | NO_BASE | NOTHING_WRITTEN))
        dropped(e, "the converter writes no such scaling for this architecture");
    else if (strcmp(type, "linear") == 0)
        linear(e);
    else if (strcmp(type, "yarn") == 0)
        yarn(e, does);
    else
        dropped(e, "the converter does not know the type");
}

#define LENGTHS "factor", "original_max_position_embeddings"
/* What is read, or told of beside the field that it would have set. */
static const char *const *keys_of(const gyre_rope_engine *e) {
    static const char *const none[] = {NULL}, *const factor[] = {"factor", NULL}, *const alpha[] = {"factor", "alpha", NULL};
    static const char *const ramp_keys[] = {
        LENGTHS,          "attention_factor", "attn_factor",          "beta_fast", "beta_slow", "mscale",
        "mscale_all_dim", "truncate",         "extrapolation_factor", NULL};
    static const char *const bands[] = {LENGTHS, "low_freq_factor", "high_freq_factor", NULL};
    static const char *const lists[] = {
        LENGTHS, "attention_factor", "short_factor", "long_factor", "long_mscale", "short_mscale", NULL};
    if (strcmp(e->source->type, "yarn") == 0) return ramp_keys; /* the config may say it by divisors */
    switch (e->group->config.rope.scaling) {
    case GYRE_LINEAR:
    case GYRE_PROPORTIONAL:
        return factor;
    case GYRE_NTK:
        return alpha;
    case GYRE_LLAMA3:
        return bands;
    case GYRE_LONGROPE:
        return lists;
    default:
        return none;
    }
}

void gyre_rope_as_llama_cpp(const gyre_rope_source *source, gyre_layers *group) {
    const gyre_rope_engine engine = gyre_engine_begin(source, group), *e = &engine;
    const unsigned does = what_is_done(source);
    if (does & PERMUTED) permuted_layout(e);
    lost_base(e, does);
    if (does & LISTS_ALONE && strcmp(source->type, "default") != 0 && !has(e, "short_factor")) {
        gyre_scope_fail(&source->dict, GYRE_EUNSUPPORTED, e->source->type_key,
                        "\"%.40s\": llama.cpp's converter wants short_factor and long_factor with any scaling of this model",
                        source->type);
        return;
    }
    lost_temperature(e, does);
    if (!base_alone(e)) by_type(e, does);
    if (group->config.rope.scaling != GYRE_UNSCALED || strcmp(source->type, "default") == 0)
        gyre_rope_check_keys(source, keys_of(e));
    hold_back(e);
}
