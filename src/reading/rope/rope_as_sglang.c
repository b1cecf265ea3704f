/* rope_as_sglang.c: scalings as SGLang reads them (September 2026), after transformers 5 has read the file.
 *
 * One table of angles is built at the start, except for LongRoPE, whose lists alternate with the tokens of a call. */
#include "reading/rope/rope_vllm_shared.h"

#include <math.h>
#include <string.h>

typedef void scaling_reader(const gyre_rope_engine *e);

static int failed(const gyre_rope_engine *e) {
    return !!gyre_build_status(e->build);
}

static const gyre_scope *dict_of(const gyre_rope_engine *e) {
    return &e->source->dict;
}

static int has_key(const gyre_rope_engine *e, const char *key) {
    return gyre_scope_value(dict_of(e), key) != NULL;
}

/* -- types -- */
static void as_default(const gyre_rope_engine *e) {
    gyre_engine_set_scaling(e, GYRE_SCALING_NONE, NULL);
    if (gyre_scope_bool(dict_of(e), "use_fope", 0))
        gyre_scope_fail(dict_of(e), GYRE_EUNSUPPORTED, "use_fope",
                        "SGLang mixes sines of several frequencies by trained weights here, which is not a rotation");
    if (gyre_scope_bool(dict_of(e), "video_rope", 0) || gyre_scope_bool(dict_of(e), "mrope_interleaved_glm", 0))
        gyre_scope_warn(dict_of(e), has_key(e, "video_rope") ? "video_rope" : "mrope_interleaved_glm",
                        "SGLang distributes pairs over axes in an order of its own here, which Gyre does not describe");
}

/* The class for several axes takes no mscale keys and fails. */
static void check_axes(const gyre_rope_engine *e) {
    static const char *const keys[] = {"mscale", "mscale_all_dim", NULL};
    const char *key = has_key(e, "mrope_section") ? gyre_scope_first(dict_of(e), keys) : NULL;
    if (key)
        gyre_scope_fail(dict_of(e), GYRE_EUNSUPPORTED, key, "SGLang's YaRN for several axes fails on it with a TypeError");
}

static void as_yarn(const gyre_rope_engine *e) {
    static const char *const unread[] = {"attention_factor", NULL};
    gyre_engine_set_scaling(e, GYRE_SCALING_YARN, NULL);
    const double s = gyre_engine_read_factor(e);
    (void)gyre_engine_read_original_length(e);
    gyre_vllm_read_ramp(e, 1);
    check_axes(e);
    const int both = has_key(e, "mscale") && has_key(e, "mscale_all_dim");
    const double mscale = gyre_scope_number(dict_of(e), "mscale", 1.0),
                 all = gyre_scope_number(dict_of(e), "mscale_all_dim", 0.0);
    if (failed(e)) return;
    gyre_vllm_set_attention(
        e, both ? gyre_rope_yarn_mscale(s, mscale) / gyre_rope_yarn_mscale(s, all) : gyre_rope_yarn_mscale(s, 1.0), 1,
        unread);
    gyre_vllm_weaken_ramp(e);
}

/* The class of latent attention renames every type except default without looking at it. */
static void as_latent(const gyre_rope_engine *e) {
    const char *type = e->source->type;
    if (strcmp(type, "yarn") != 0 && strcmp(type, "deepseek_yarn") != 0)
        gyre_scope_warn(dict_of(e), e->source->type_key,
                        "SGLang reads \"%.40s\" as deepseek_yarn for models with latent attention", type);
    gyre_vllm_read_latent_yarn(e, gyre_scope_bool(dict_of(e), "apply_yarn_scaling", 1), 1);
}

/* -- LongRoPE -- */
/* In each call, the long list applies to all tokens if a position in the batch is above L: one token later than in
 * transformers.  The token at L itself takes the first row of the other table. */
static void as_longrope(const gyre_rope_engine *e) {
    static const char *const unread[] = {"factor", "attention_factor", NULL};
    struct gyre_rope_config *rope = &e->group->config.rope;
    gyre_place place;
    gyre_engine_set_scaling(e, GYRE_SCALING_LONGROPE,
                            "a call with a position above the original length has the long list for all of its tokens");
    const int64_t original = gyre_engine_read_original_length(e);
    if (original == 1)
        gyre_scope_fail(dict_of(e), GYRE_EFORMAT, "original_max_position_embeddings",
                        "1; longrope divides by its logarithm, 0");
    if (rope->layout != GYRE_LAYOUT_HALF)
        gyre_scope_fail(dict_of(e), GYRE_EUNSUPPORTED, e->source->type_key,
                        "SGLang has longrope only for pairs (i, i + d/2)");
    gyre_rope_read_longrope_factors(e->source, e->group);
    if (failed(e)) return;
    const double ratio = (double)e->source->max_positions / (double)original;
    rope->factor = ratio > 1.0 ? ratio : 1.0;
    gyre_engine_note_number(e, "factor", NULL, "max_position_embeddings / original_max_position_embeddings", rope->factor);
    const int64_t asked = gyre_build_length(e->build);
    const char *why = gyre_engine_ignored_keys(e, unread, &place),
               *own = asked > original + 1 ? "long_mscale" : "short_mscale";
    double value = gyre_rope_longrope_attention_factor(ratio, original);
    if (has_key(e, own)) {
        value = gyre_scope_number(dict_of(e), own, value);
        place = gyre_scope_place(dict_of(e), own);
        why = gyre_build_format(e->build, "%s, which transformers does not read", place.key);
    }
    if (!failed(e)) gyre_engine_set_attention_factor(e, value, &place, why);
}

/* -- other keys -- */
/* The context that SGLang serves if the user gives none. */
static void note_context_length(const gyre_rope_engine *e, const char *type) {
    static const char *const scaled[] = {"linear", "dynamic", "proportional", NULL};
    const double factor = has_key(e, "factor") ? gyre_scope_number(dict_of(e), "factor", 1.0) : 1.0;
    int is_scaled = 0;
    for (int i = 0; scaled[i]; i++)
        is_scaled |= strcmp(scaled[i], type) == 0;
    if (failed(e) || e->source->max_positions <= 0 || !is_scaled || e->source->nested || factor == 1.0 ||
        has_key(e, "original_max_position_embeddings"))
        return;
    const gyre_place place = gyre_scope_place(&e->source->root, "max_position_embeddings");
    gyre_build_set_number(
        e->build, e->group, "max_length", GYRE_ORIGIN_DERIVED, &place,
        "context_length, if not given: max_position_embeddings times the factor, even if it includes the factor",
        floor(factor * (double)e->source->max_positions));
}

/* The fraction counts in every class, while transformers' classes modelled on Llama ignore it. */
static void note_partial(const gyre_rope_engine *e) {
    const gyre_config *config = &e->group->config;
    if (!(e->source->family->traits & GYRE_WHOLE_HEAD) || config->rope.dim >= config->head_dim) return;
    gyre_build_set_number(e->build, e->group, "rotary_dim", GYRE_ORIGIN_DERIVED, NULL,
                          "SGLang rotates a share of the head in this class too; transformers rotates the whole head",
                          (double)config->rope.dim);
}

/* Goes before any scaling: the rotation has the plain frequencies. */
static int uses_dual_chunk(const gyre_rope_engine *e) {
    if (!gyre_rope_read_chunks(e->source, e->group)) return 0;
    gyre_engine_set_scaling(e, GYRE_SCALING_NONE, "dual_chunk_attention_config has precedence over any scaling");
    return 1;
}

#define YARN_KEYS                                                                                                           \
    "factor", "original_max_position_embeddings", "beta_fast", "beta_slow", "attention_factor", "mscale", "mscale_all_dim", \
        "attn_factor", "extrapolation_factor", "truncate", "apply_yarn_scaling"
#define AXES_KEYS "mrope_section", "mrope_interleaved", "mrope_interleaved_glm", "video_rope"
static const char *const plain_keys[] = {AXES_KEYS, "use_fope", NULL};
static const char *const factor_keys[] = {AXES_KEYS, "factor", NULL};
static const char *const dynamic_keys[] = {AXES_KEYS, "factor", "alpha", "xdrope_section", NULL};
static const char *const ramp_keys[] = {AXES_KEYS, YARN_KEYS, NULL};
static const char *const llama3_keys[] = {AXES_KEYS,         "factor",           "original_max_position_embeddings",
                                          "low_freq_factor", "high_freq_factor", NULL};
static const char *const longrope_keys[] = {AXES_KEYS,          "factor",       "original_max_position_embeddings",
                                            "attention_factor", "short_factor", "long_factor",
                                            "long_mscale",      "short_mscale", NULL};

typedef struct reader {
    const char *type;
    scaling_reader *read;
    const char *const *keys;
} reader;
static const reader readers[] = {{"deepseek_yarn", as_latent, ramp_keys},
                                 {"default", as_default, plain_keys},
                                 {"linear", gyre_vllm_read_linear, factor_keys},
                                 {"dynamic", gyre_vllm_read_dynamic, dynamic_keys},
                                 {"yarn", as_yarn, ramp_keys},
                                 {"llama3", gyre_vllm_read_llama3, llama3_keys},
                                 {"longrope", as_longrope, longrope_keys},
                                 {"proportional", gyre_vllm_read_proportional, factor_keys}};

static const reader *reader_of(const gyre_rope_engine *e, const char *type) {
    if (gyre_vllm_is_latent(e) && strcmp(type, "default") != 0) return &readers[0];
    for (size_t i = 0; i < sizeof readers / sizeof *readers; i++)
        if (strcmp(readers[i].type, type) == 0) return &readers[i];
    return NULL;
}

void gyre_rope_as_sglang(const gyre_rope_source *source, gyre_layer_group *group) {
    const gyre_rope_engine engine = gyre_engine_begin(source, group), *e = &engine;
    const reader *found = reader_of(e, source->type);
    if (!found) {
        gyre_rope_fail_unknown_type(source, "default, linear, dynamic, yarn, deepseek_yarn, llama3, longrope, proportional");
        return;
    }
    note_partial(e);
    if (uses_dual_chunk(e)) return;
    found->read(e);
    note_context_length(e, source->type);
    gyre_rope_warn_unread_keys(source, found->keys);
}
