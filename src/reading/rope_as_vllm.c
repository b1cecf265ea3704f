/* rope_as_vllm.c: how vLLM reads the scaling of a rotation (May 2026).
 *
 * It builds one table of angles when it starts, so nothing here follows the length of a sequence: dynamic NTK has one base,
 * LongRoPE one list.  The length that a reading is asked for stands for max_model_len. */
#include "reading/config_fields.h"
#include "reading/rope_engine.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

typedef void handler(const gyre_rope_engine *e);

static int failed(const gyre_rope_engine *e) {
    return gyre_build_status(e->build) != GYRE_OK;
}

static const gyre_scope *dict_of(const gyre_rope_engine *e) {
    return &e->source->dict;
}

static int has(const gyre_rope_engine *e, const char *key) {
    return gyre_scope_value(dict_of(e), key) != NULL;
}

/* -- which type -------------------------------------------------------------------------------------------------------- */
static int same_type(const char *modern, const char *legacy) {
    return strcmp(modern, legacy) == 0 || (strcmp(legacy, "su") == 0 && strcmp(modern, "longrope") == 0) ||
           (strcmp(legacy, "mrope") == 0 && strcmp(modern, "default") == 0);
}

/* A dict that speaks of a scaling has to name it; one with a base alone needs no name. */
static int speaks_of_scaling(const gyre_rope_engine *e) {
    static const char *const keys[] = {"factor", "alpha", "short_factor", "long_factor", "low_freq_factor", "mixed_b", NULL};
    return gyre_scope_first(dict_of(e), keys) != NULL;
}

/* Of latent attention, the model class makes every scaling DeepSeek's; MiniCPM3 is written otherwise. */
static int is_deepseek(const gyre_rope_engine *e) {
    const gyre_family *family = e->source->family;
    return (family->traits & GYRE_LATENT) && strcmp(family->model_type, "minicpm3") != 0;
}

/* NULL = the build has failed. */
static const char *type_of(const gyre_rope_engine *e) {
    const gyre_scope *dict = dict_of(e);
    const char *modern = gyre_scope_text(dict, "rope_type", ""), *legacy = gyre_scope_text(dict, "type", "");
    if (failed(e)) return NULL;
    if (*modern && *legacy && !same_type(modern, legacy))
        gyre_scope_fail(dict, GYRE_EUNSUPPORTED, "type", "\"%.40s\" contradicts rope_type \"%.40s\", and vllm stops at that",
                        legacy, modern);
    if (!*modern && !*legacy && speaks_of_scaling(e))
        gyre_scope_fail(dict, GYRE_EFORMAT, "rope_type", "missing, and vllm does not guess it");
    if (failed(e)) return NULL;
    const char *raw = *modern ? modern : legacy;
    if (strcmp(raw, "xdrope") == 0) return raw;
    if (strcmp(raw, "mrope") == 0) return "default";
    return e->source->type;
}

/* -- one by one -------------------------------------------------------------------------------------------------------- */
static void as_default(const gyre_rope_engine *e) {
    gyre_engine_scaling(e, GYRE_UNSCALED, NULL);
    if (gyre_scope_flag(dict_of(e), "use_fope", 0))
        gyre_scope_fail(dict_of(e), GYRE_EUNSUPPORTED, "use_fope",
                        "vllm mixes sines of several frequencies by trained weights here, which is no rotation");
}

static void as_linear(const gyre_rope_engine *e) {
    gyre_engine_scaling(e, GYRE_LINEAR, NULL);
    (void)gyre_engine_factor(e);
    if (json_is_integer(gyre_scope_value(dict_of(e), "factor")))
        gyre_scope_warn(
            dict_of(e), "factor",
            "a whole number: vllm takes it for a list of factors and stops with a TypeError; it wants one with a "
            "point (8.0)");
}

static void fixed_base(const gyre_rope_engine *e, const char *key, double growth, const char *scaling_why,
                       const char *factor_why) {
    gyre_engine_scaling(e, GYRE_NTK, scaling_why);
    gyre_engine_note(e, "factor", key, factor_why, growth);
    e->group->config.rope.factor = growth;
    if (growth < 1.0) gyre_scope_fail(dict_of(e), GYRE_EFORMAT, key, "gives %g times the base's growth, below 1", growth);
}

/* base alpha^(d / (d - 2)), at every length. */
static void as_alpha(const gyre_rope_engine *e) {
    const double alpha = gyre_scope_number(dict_of(e), "alpha", NAN);
    if (failed(e)) return;
    fixed_base(e, "alpha", alpha, "vllm grows the base once, by alpha, and keeps it at every length",
               "alpha: the base grows by alpha^(d / (d - 2))");
}

/* transformers' dynamic base at n = s L', for every n. */
static void as_dynamic(const gyre_rope_engine *e) {
    if (has(e, "alpha")) {
        as_alpha(e);
        return;
    }
    const double s = gyre_engine_factor(e);
    if (failed(e)) return;
    fixed_base(
        e, "factor", s * s - s + 1.0,
        "vllm computes the dynamic base once, for factor x max_position_embeddings tokens, and keeps it at every length",
        gyre_build_text(e->build, "s^2 - s + 1 for the file's s = %g: transformers has 1 up to the trained length", s));
}

/* omega_i = (base s)^(-2 i / d) / s^(2 / d); or divisors exp(a (i + 1)^b). */
static void as_ntk(const gyre_rope_engine *e) {
    struct gyre_rope_config *rope = &e->group->config.rope;
    const double s = gyre_engine_factor(e), channels = (double)gyre_engine_channels(e);
    if (failed(e)) return;
    if (has(e, "mixed_b")) {
        const double exponent = gyre_scope_number(dict_of(e), "mixed_b", NAN);
        gyre_engine_scaling(
            e, exponent == 0.0 ? GYRE_LINEAR : GYRE_NTK_MIXED,
            gyre_build_text(e->build, "vllm's ntk with mixed_b %g: pair i is divided by exp(a (i + 1)^b)", exponent));
        rope->mixed_exponent = exponent;
        return;
    }
    gyre_engine_scaling(e, GYRE_LINEAR, "vllm's ntk: the base times the factor, and all pairs divided by factor^(2 / d)");
    rope->base = (rope->base > 0.0 ? rope->base : 10000.0) * s;
    rope->factor = pow(s, 2.0 / channels);
    gyre_engine_note(e, "base", "factor", "the file's base times its factor", rope->base);
    gyre_engine_note(e, "factor", "factor", gyre_build_text(e->build, "the file's %g^(2 / d)", s), rope->factor);
}

static void as_llama3(const gyre_rope_engine *e) {
    struct gyre_rope_config *rope = &e->group->config.rope;
    gyre_engine_scaling(e, GYRE_LLAMA3, NULL);
    (void)gyre_engine_factor(e);
    rope->low_freq = gyre_engine_positive(e, "low_freq_factor", "low_freq_factor", NAN);
    rope->high_freq = gyre_engine_positive(e, "high_freq_factor", "high_freq_factor", NAN);
    (void)gyre_engine_original(e);
}

/* Over the whole head, and the factor is not looked at. */
static void as_proportional(const gyre_rope_engine *e) {
    static const char *const unread[] = {"factor", NULL};
    gyre_config *config = &e->group->config;
    gyre_place place;
    const char *why = gyre_engine_unread(e, unread, &place);
    gyre_engine_scaling(e, GYRE_PROPORTIONAL, NULL);
    config->rope.proportion = gyre_engine_positive(e, "partial", "partial_rotary_factor", 1.0);
    config->rope.dim = config->head_dim;
    config->rope.factor = 1.0;
    if (why) gyre_engine_note(e, "factor", "factor", why, 1.0);
}

/* -- YaRN -------------------------------------------------------------------------------------------------------------- */
/* The factor that multiplies cos and sin: g from the factor alone, times a key of vllm's own. */
static void yarn_attention(const gyre_rope_engine *e, double magnitude, const char *const *unread) {
    gyre_place place;
    const char *why = gyre_engine_unread(e, unread, &place);
    double value = magnitude * gyre_scope_number(dict_of(e), "attn_factor", 1.0);
    if (has(e, "attn_factor")) {
        const gyre_place own = gyre_scope_place(dict_of(e), "attn_factor");
        why = why ? gyre_build_text(e->build, "times %s; %s", own.key, why)
                  : "0.1 ln s + 1 times attn_factor, a key of vllm's own";
        if (!place.key) place = own;
    }
    gyre_engine_attention(e, value, &place, why);
}

static void weaken(const gyre_rope_engine *e) {
    if (!has(e, "extrapolation_factor")) return;
    const double share = gyre_scope_number(dict_of(e), "extrapolation_factor", 1.0);
    if (share == 1.0 || failed(e)) return;
    const double attention = e->group->config.rope.attention_factor;
    const double derived = gyre_engine_magnitude(e->group->config.rope.factor, 1.0);
    gyre_engine_weaken(e, share);
    e->group->config.rope.attention_factor = attention > 0.0 ? attention : derived;
    const gyre_place place = gyre_scope_place(dict_of(e), "extrapolation_factor");
    gyre_build_field(
        e->build, e->group, "scaling", GYRE_FROM_FILE, &place,
        "yarn whose ramp keeps only extrapolation_factor of what it would keep: written as divisors of each pair", "yarn");
}

static void truncation(const gyre_rope_engine *e, int honoured) {
    const int truncate = gyre_scope_flag(dict_of(e), "truncate", 1), said = has(e, "truncate");
    if (failed(e)) return;
    const gyre_place place = gyre_scope_place(dict_of(e), "truncate");
    const char *why =
        truncate || honoured ? NULL : "vllm rounds the ramp's ends for this model class whatever truncate says";
    const int rounds = truncate || !honoured;
    e->group->config.rope.fractional_bounds = !rounds;
    gyre_build_field(e->build, e->group, "truncate", said ? GYRE_FROM_FILE : GYRE_FROM_READER, said ? &place : NULL, why,
                     "%s", rounds ? "true" : "false");
}

static void ramp(const gyre_rope_engine *e, int truncate_honoured) {
    gyre_engine_betas(e);
    truncation(e, truncate_honoured);
}

/* With several axes the table is made for 4 L tokens, and the turns are counted over those too. */
static void count_over_table(const gyre_rope_engine *e, int64_t original) {
    e->group->config.trained_length = 4 * original;
    gyre_engine_note(e, "trained_length", "original_max_position_embeddings",
                     "with several axes vllm makes its table four times as long, and counts turns over that",
                     4.0 * (double)original);
}

static void as_yarn(const gyre_rope_engine *e) {
    static const char *const unread[] = {"attention_factor", "mscale", "mscale_all_dim", NULL};
    const int axes = has(e, "mrope_section");
    gyre_engine_scaling(e, GYRE_YARN, NULL);
    const double s = gyre_engine_factor(e);
    const int64_t original = gyre_engine_original(e);
    ramp(e, 1);
    if (axes && original < INT64_MAX / 4) count_over_table(e, original);
    const int applied = axes || gyre_scope_flag(dict_of(e), "apply_yarn_scaling", 1);
    if (failed(e)) return;
    yarn_attention(e, applied ? gyre_engine_magnitude(s, 1.0) : 1.0, unread);
    weaken(e);
}

/* 0.07 ln s + 1, with s the ratio of the lengths. */
static void as_telechat3(const gyre_rope_engine *e) {
    static const char *const unread[] = {"factor", "attention_factor", "mscale", "mscale_all_dim", NULL};
    struct gyre_rope_config *rope = &e->group->config.rope;
    gyre_engine_scaling(e, GYRE_YARN, "telechat3-yarn: YaRN with 0.07 ln s + 1 for 0.1 ln s + 1");
    const int64_t original = gyre_engine_original(e);
    ramp(e, 1);
    if (failed(e)) return;
    rope->factor = (double)e->source->max_positions / (double)original;
    gyre_engine_note(e, "factor", NULL, "max_position_embeddings / original_max_position_embeddings", rope->factor);
    if (rope->factor < 1.0)
        gyre_scope_fail(dict_of(e), GYRE_EFORMAT, "original_max_position_embeddings", "above max_position_embeddings");
    if (failed(e)) return;
    yarn_attention(e, rope->factor > 1.0 ? 0.07 * log(rope->factor) + 1.0 : 1.0, unread);
    weaken(e);
}

static void deepseek(const gyre_rope_engine *e, int multiplies_scores) {
    static const char *const unread[] = {"attention_factor", NULL};
    gyre_engine_scaling(e, GYRE_YARN, multiplies_scores ? "deepseek_yarn: both mscale keys count by themselves" : NULL);
    const double s = gyre_engine_factor(e);
    (void)gyre_engine_original(e);
    ramp(e, 0);
    const double mscale = gyre_engine_number(e, "mscale", "mscale", 1.0);
    const double all = gyre_engine_number(e, "mscale_all_dim", "mscale_all_dim", 0.0);
    if (failed(e)) return;
    const double of_scores = gyre_engine_magnitude(s, all);
    yarn_attention(e, gyre_engine_magnitude(s, mscale) / of_scores, unread);
    if (multiplies_scores)
        gyre_engine_softmax(e, of_scores * of_scores, "mscale_all_dim", NULL);
    else
        gyre_engine_softmax(e, 1.0, "apply_yarn_scaling", "apply_yarn_scaling is false: vllm leaves the scores alone");
    weaken(e);
}

/* Every type but default: the class renames it without looking. */
static void as_deepseek(const gyre_rope_engine *e) {
    const char *type = e->source->type;
    if (strcmp(type, "yarn") != 0 && strcmp(type, "deepseek_yarn") != 0 && strcmp(type, "deepseek_llama_scaling") != 0)
        gyre_scope_warn(dict_of(e), e->source->type_key ? e->source->type_key : "rope_type",
                        "vllm reads \"%.40s\" as deepseek_yarn for models with latent attention", type);
    deepseek(e, strcmp(type, "deepseek_llama_scaling") != 0 && gyre_scope_flag(dict_of(e), "apply_yarn_scaling", 1));
}

/* -- LongRoPE ---------------------------------------------------------------------------------------------------------- */
static void as_longrope(const gyre_rope_engine *e) {
    static const char *const unread[] = {"factor", "attention_factor", NULL};
    struct gyre_rope_config *rope = &e->group->config.rope;
    gyre_place place;
    gyre_engine_scaling(e, GYRE_LONGROPE, NULL);
    const int64_t original = gyre_engine_original(e), asked = gyre_build_length(e->build), served = asked ? asked : original;
    if (rope->layout != GYRE_HALF)
        gyre_scope_fail(dict_of(e), GYRE_EUNSUPPORTED, e->source->type_key ? e->source->type_key : "short_factor",
                        "vllm has longrope for pairs (i, i + d/2) alone");
    if (failed(e)) return;
    const double ratio = (double)e->source->max_positions / (double)original;
    rope->factor = ratio > 1.0 ? ratio : 1.0;
    gyre_engine_note(e, "factor", NULL, "max_position_embeddings / original_max_position_embeddings", rope->factor);
    gyre_engine_longrope(e, served, original);
    const char *why = gyre_engine_unread(e, unread, &place), *own = served > original ? "long_mscale" : "short_mscale";
    double value = ratio > 1.0 ? sqrt(1.0 + log(ratio) / log((double)original)) : 1.0;
    if (has(e, own)) {
        value = gyre_scope_number(dict_of(e), own, value);
        place = gyre_scope_place(dict_of(e), own);
        why = gyre_build_text(e->build, "%s, which transformers does not read", place.key);
    }
    if (!failed(e)) gyre_engine_attention(e, value, &place, why);
}

/* -- beside the scaling ------------------------------------------------------------------------------------------------ */
/* rope_dim, else the share in whatever class: transformers' classes written like Llama's do not look at it. */
static void rotated_channels(const gyre_rope_engine *e, const char *type) {
    static const char share_key[] = "partial_rotary_factor";
    struct gyre_rope_config *rope = &e->group->config.rope;
    const gyre_scope *dict = dict_of(e), *root = &e->source->root;
    const int64_t before = gyre_engine_channels(e), dim = gyre_scope_size(dict, "rope_dim", 1, 0);
    if (failed(e) || strcmp(type, "proportional") == 0 || is_deepseek(e)) return;
    const gyre_scope *scope = has(e, share_key) || e->source->layer_type ? dict : root;
    const json_t *share = gyre_scope_value(scope, share_key);
    int64_t now = dim;
    if (!dim && json_is_number(share)) {
        const double p = json_number_value(share);
        if (!(p > 0.0 && p <= 1.0)) gyre_scope_fail(scope, GYRE_EFORMAT, share_key, "%g is not within 0 to 1", p);
        now = p > 0.0 && p <= 1.0 ? (int64_t)((double)e->group->config.head_dim * p) : 0;
    }
    if (failed(e) || now == 0 || now == before) return;
    rope->dim = now;
    const gyre_place place = gyre_scope_place(dim ? dict : scope, dim ? "rope_dim" : share_key);
    gyre_build_number(e->build, e->group, "rotary_dim", GYRE_DERIVED, &place,
                      dim ? "rope_dim, a key of vllm's own" : "vllm reads partial_rotary_factor for every model class",
                      (double)now);
}

/* Only a key of its own beside the rotation's, as Mistral's files have it, makes queries hotter. */
static void temperature(const gyre_rope_engine *e) {
    struct gyre_query_config *query = &e->group->config.query;
    const gyre_scope scaling = gyre_scope_into(&e->source->root, "llama_4_scaling");
    if (scaling.object) {
        query->temperature = GYRE_TEMPERATURE_MINISTRAL;
        query->length = gyre_scope_size(&scaling, "original_max_position_embeddings", 1, 0);
        query->slope = gyre_scope_number(&scaling, "beta", NAN);
        const gyre_place place = gyre_scope_place(&e->source->root, "llama_4_scaling");
        gyre_build_field(e->build, e->group, "query_temperature", GYRE_FROM_FILE, &place, NULL, "ministral");
        gyre_build_number(e->build, e->group, "temperature_length", GYRE_FROM_FILE, &place, NULL, (double)query->length);
        gyre_build_number(e->build, e->group, "temperature_slope", GYRE_FROM_FILE, &place, NULL, query->slope);
    } else if (has(e, "llama_4_scaling_beta")) {
        static const char *const names[] = {"query_temperature", "temperature_length", "temperature_slope"};
        const gyre_place place = gyre_scope_place(dict_of(e), "llama_4_scaling_beta");
        const char *why = "vllm reads llama_4_scaling beside the rotation's keys, not llama_4_scaling_beta among them";
        *query = (struct gyre_query_config){GYRE_TEMPERATURE_NONE, 0, 0.0};
        for (size_t i = 0; i < sizeof names / sizeof *names; i++)
            gyre_build_field(e->build, e->group, names[i], GYRE_DERIVED, &place, why, "none");
    }
}

/* max_model_len where the user gives none.  Gemma 3's max_position_embeddings has the factor in it already. */
static void served_length(const gyre_rope_engine *e, const char *type) {
    const int yarn = strstr(type, "yarn") != NULL, longrope = strcmp(type, "longrope") == 0;
    double factor = has(e, "factor") ? gyre_scope_number(dict_of(e), "factor", 1.0) : 1.0;
    if (strcmp(type, "llama3") == 0 || longrope || strncmp(e->source->family->model_type, "gemma3", 6) == 0) factor = 1.0;
    if (failed(e)) return;
    const int64_t counted = e->group->config.trained_length;
    const double trained = (double)(strcmp(type, "yarn") == 0 && has(e, "mrope_section") ? counted / 4 : counted);
    const double length = factor * (yarn || longrope ? trained : (double)e->source->max_positions);
    if (failed(e) || length == (double)e->source->max_positions) return;
    const gyre_place place = gyre_scope_place(&e->source->root, "max_position_embeddings");
    const char *why = longrope ? "max_model_len, where none is given: the original length"
                      : yarn   ? "max_model_len, where none is given: the factor times the original length"
                             : "max_model_len, where none is given: max_position_embeddings times the factor, even where it "
                               "counts the factor in already";
    gyre_build_number(e->build, e->group, "max_length", GYRE_DERIVED, &place, why, floor(length));
}

/* Chunks of the context, each counted from 0: what lies outside the chunk is turned by a clamped distance. */
static int in_chunks(const gyre_rope_engine *e) {
    static const char key[] = "dual_chunk_attention_config";
    if (!gyre_scope_value(&e->source->root, key)) return 0;
    gyre_scope_warn(&e->source->root, key,
                    "vllm counts positions within chunks and leaves the scaling unread; what is told here is the rotation "
                    "within a chunk, not how chunks see each other");
    gyre_engine_scaling(e, GYRE_UNSCALED, "dual_chunk_attention_config goes before any scaling");
    return 1;
}

static handler *handler_of(const gyre_rope_engine *e, const char *type) {
    static const struct {
        const char *type;
        handler *read;
    } types[] = {{"default", as_default},
                 {"linear", as_linear},
                 {"dynamic", as_dynamic},
                 {"xdrope", as_alpha},
                 {"ntk", as_ntk},
                 {"yarn", as_yarn},
                 {"llama3", as_llama3},
                 {"longrope", as_longrope},
                 {"proportional", as_proportional},
                 {"telechat3-yarn", as_telechat3},
                 {"deepseek_yarn", as_deepseek},
                 {"deepseek_llama_scaling", as_deepseek}};
    if (is_deepseek(e) && strcmp(type, "default") != 0) return as_deepseek;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (strcmp(types[i].type, type) == 0) return types[i].read;
    return NULL;
}

void gyre_rope_as_vllm(const gyre_rope_source *source, gyre_layers *group) {
    const gyre_rope_engine engine = {"vllm", source, group, source->root.source->build}, *e = &engine;
    const char *type = type_of(e);
    if (!type) return;
    handler *read = handler_of(e, type);
    if (!read) {
        gyre_scope_fail(&source->dict, GYRE_EUNSUPPORTED, source->type_key ? source->type_key : "rope_type",
                        "vllm knows no type \"%.40s\"", type);
        return;
    }
    rotated_channels(e, type);
    temperature(e);
    if (in_chunks(e)) return;
    read(e);
    served_length(e, read == as_deepseek ? "deepseek_yarn" : type);
}
