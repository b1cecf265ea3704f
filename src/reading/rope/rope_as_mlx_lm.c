/* rope_as_mlx_lm.c: scalings as mlx-lm reads them (August 2026).
 *
 * Angles are computed in each call; only dynamic NTK depends on its length.  Queries and keys are multiplied by what
 * multiplies cos and sin elsewhere, which is the same. */
#include "reading/rope/mlx_class.h"
#include "reading/rope/rope_engine.h"

#include <math.h>
#include <string.h>

typedef void scaling_reader(const gyre_rope_engine *e);

enum { MLX_ORIGINAL_LENGTH = 4096, MLX_LLAMA3_LENGTH = 8192 };

static int failed(const gyre_rope_engine *e) {
    return !!gyre_build_status(e->build);
}

static const gyre_scope *dict_of(const gyre_rope_engine *e) {
    return &e->source->dict;
}

static int has_key(const gyre_rope_engine *e, const char *key) {
    return gyre_scope_value(dict_of(e), key) != NULL;
}

/* out = L: the key of the dict, or of the file for Phi-3's classes, else the program's default.  Also sets it. */
static int64_t read_original(const gyre_rope_engine *e, int beside, int64_t fallback) {
    static const char key[] = "original_max_position_embeddings";
    const gyre_rope_source *s = e->source;
    const gyre_scope *scope = beside ? &s->root : &s->dict;
    gyre_rope_provenance found = {GYRE_ORIGIN_READER, {NULL, 0, 0}};
    if (gyre_scope_value(scope, key)) found = gyre_rope_provenance_of(s, scope, key);
    const int64_t length = gyre_rope_read_length(scope, key, fallback);
    if (length <= 0) gyre_scope_fail(scope, GYRE_EFORMAT, key, "missing");
    gyre_rope_set_trained_length(s, e->group, length, &found, NULL);
    if (failed(e)) return 1;
    const char *why = found.place.key ? NULL : gyre_build_format(e->build, "mlx-lm's default, whatever the model has");
    gyre_build_set_number(e->build, e->group, "original_length", found.origin, &found.place, why, (double)length);
    return length;
}

/* -- types -- */
static void as_default(const gyre_rope_engine *e) {
    gyre_engine_set_scaling(e, GYRE_SCALING_NONE, NULL);
}

static void as_linear(const gyre_rope_engine *e) {
    gyre_engine_set_scaling(e, GYRE_SCALING_LINEAR, NULL);
    (void)gyre_engine_read_factor(e);
}

/* As transformers, from the length of each call.  HunYuan's class has a fixed base by alpha. */
static void as_dynamic(const gyre_rope_engine *e) {
    if (strncmp(e->source->family->model_type, "hunyuan", 7) == 0) {
        const double alpha = gyre_scope_number(dict_of(e), "alpha", 1.0);
        gyre_engine_set_scaling(e, GYRE_SCALING_NTK, "mlx-lm grows the base once, by alpha");
        gyre_engine_note_number(e, "factor", "alpha", "alpha: the base grows by alpha^(d / (d - 2))", alpha);
        e->group->config.rope.factor = alpha;
        if (alpha < 1.0) gyre_scope_fail(dict_of(e), GYRE_EFORMAT, "alpha", "%g is below 1", alpha);
        return;
    }
    gyre_engine_set_scaling(e, GYRE_SCALING_DYNAMIC_NTK, NULL);
    (void)gyre_engine_read_factor(e);
}

static void as_llama3(const gyre_rope_engine *e) {
    struct gyre_rope_config *rope = &e->group->config.rope;
    gyre_engine_set_scaling(e, GYRE_SCALING_LLAMA3, NULL);
    (void)gyre_engine_read_factor(e);
    (void)read_original(e, 0, MLX_LLAMA3_LENGTH);
    rope->low_freq = gyre_engine_read_positive(e, "low_freq_factor", "low_freq_factor", 1.0);
    rope->high_freq = gyre_engine_read_positive(e, "high_freq_factor", "high_freq_factor", 4.0);
    if (rope->high_freq < rope->low_freq)
        gyre_scope_fail(dict_of(e), GYRE_EFORMAT, "high_freq_factor", "%g is below low_freq_factor, %g", rope->high_freq,
                        rope->low_freq);
}

static void as_proportional(const gyre_rope_engine *e) {
    gyre_engine_set_scaling(e, GYRE_SCALING_PROPORTIONAL, NULL);
    gyre_rope_read_proportion(e->source, e->group);
    gyre_rope_read_factor(e->source, e->group, 1.0);
}

/* Latent attention also multiplies its scores. */
static void multiply_scores(const gyre_rope_engine *e, double all) {
    if (!(e->source->family->traits & GYRE_MLA) || all == 0.0 || failed(e)) return;
    const double of_scores = gyre_rope_yarn_mscale(e->group->config.rope.factor, all);
    gyre_engine_set_softmax(e, of_scores * of_scores, "mscale_all_dim", NULL);
}

static void as_yarn(const gyre_rope_engine *e) {
    static const char *const unread[] = {"attention_factor", "attn_factor", NULL};
    gyre_place place;
    gyre_engine_set_scaling(e, GYRE_SCALING_YARN, NULL);
    const double s = gyre_engine_read_factor(e);
    (void)read_original(e, 0, MLX_ORIGINAL_LENGTH);
    gyre_rope_read_ramp(e->source, e->group, 1);
    const double mscale = gyre_engine_read_number(e, "mscale", "mscale", 1.0);
    const double all = gyre_engine_read_number(e, "mscale_all_dim", "mscale_all_dim", 0.0);
    const char *why = gyre_engine_ignored_keys(e, unread, &place);
    if (failed(e)) return;
    gyre_engine_set_attention_factor(e, gyre_rope_yarn_mscale(s, mscale) / gyre_rope_yarn_mscale(s, all), &place, why);
    multiply_scores(e, all);
}

/* The long list at every length. */
static void as_longrope(const gyre_rope_engine *e) {
    static const char *const unread[] = {"factor", "attention_factor", NULL};
    struct gyre_rope_config *rope = &e->group->config.rope;
    const char *type = e->source->family->model_type;
    const int is_phi = strcmp(type, "phi3") == 0 || strcmp(type, "phimoe") == 0, has_own = strcmp(type, "phimoe") == 0;
    gyre_place place;
    gyre_engine_set_scaling(e, GYRE_SCALING_LONGROPE, "mlx-lm has the long list at every length");
    const int64_t original = read_original(e, is_phi, is_phi || strcmp(type, "minicpm3") == 0 ? MLX_ORIGINAL_LENGTH : 0);
    if (original == 1)
        gyre_scope_fail(dict_of(e), GYRE_EFORMAT, "original_max_position_embeddings",
                        "1; longrope divides by its logarithm, 0");
    if (rope->layout != GYRE_LAYOUT_HALF)
        gyre_scope_fail(dict_of(e), GYRE_EUNSUPPORTED, e->source->type_key,
                        "mlx-lm has longrope only for pairs (i, i + d/2)");
    gyre_engine_choose_longrope_list(e, GYRE_ENGINE_ANY_LENGTH, original);
    if (failed(e)) return;
    const double ratio = (double)e->source->max_positions / (double)original;
    rope->factor = ratio > 1.0 ? ratio : 1.0;
    gyre_engine_note_number(e, "factor", NULL, "max_position_embeddings / original_max_position_embeddings", rope->factor);
    const char *why = gyre_engine_ignored_keys(e, unread, &place);
    double value = gyre_rope_longrope_attention_factor(ratio, original);
    if (has_own && has_key(e, "long_mscale")) {
        value = gyre_scope_number(dict_of(e), "long_mscale", value);
        place = gyre_scope_place(dict_of(e), "long_mscale");
        why = "long_mscale, at every length";
    }
    if (!failed(e)) gyre_engine_set_attention_factor(e, value, &place, why);
}

/* -- classes that read less -- */
/* Phi-3's class: longrope or linear by "type", and no other name or type. */
static const char *phi3_type(const gyre_rope_engine *e, const char *type) {
    const char *own = gyre_scope_string(dict_of(e), "type", "");
    if (!dict_of(e)->object) return type;
    if (!*own || !has_key(e, "long_factor"))
        gyre_scope_fail(dict_of(e), GYRE_EFORMAT, *own ? "long_factor" : "type", "missing; mlx-lm's class for phi3 fails");
    if (strcmp(own, "longrope") == 0 || strcmp(own, "su") == 0) return "longrope";
    if (strcmp(own, "linear") == 0) return own;
    gyre_scope_warn(dict_of(e), "type", "\"%.40s\": mlx-lm's class for phi3 scales nothing", own);
    return "default";
}

/* out = the type that the class sees. */
static const char *type_of(const gyre_rope_engine *e, unsigned reads) {
    const char *type = e->source->type, *model = e->source->family->model_type;
    if (strcmp(model, "phi3") == 0) return phi3_type(e, type);
    if (reads & GYRE_MLX_LONG) return "longrope";
    if ((reads & GYRE_MLX_LINEAR) && dict_of(e)->object && strcmp(type, "linear") != 0) {
        gyre_scope_warn(dict_of(e), e->source->type_key, "\"%.40s\": mlx-lm's class for %s scales nothing", type, model);
        return "default";
    }
    return type;
}

/* mlx-lm rotates by one position, which for text is that of every axis. */
static const char *const plain_keys[] = {"mrope_section", "mrope_interleaved", NULL};
static const char *const factor_keys[] = {"mrope_section", "mrope_interleaved", "factor", "alpha", NULL};
static const char *const ramp_keys[] = {"factor",
                                        "original_max_position_embeddings",
                                        "beta_fast",
                                        "beta_slow",
                                        "mscale",
                                        "mscale_all_dim",
                                        "attn_factor",
                                        "attention_factor",
                                        "truncate",
                                        "mrope_section",
                                        "mrope_interleaved",
                                        NULL};
static const char *const llama3_keys[] = {"factor", "original_max_position_embeddings", "low_freq_factor",
                                          "high_freq_factor", NULL};
static const char *const longrope_keys[] = {"factor",           "original_max_position_embeddings",
                                            "attention_factor", "short_factor",
                                            "long_factor",      "long_mscale",
                                            "short_mscale",     NULL};

typedef struct reader {
    const char *type;
    scaling_reader *read;
    const char *const *keys;
} reader;
static const reader readers[] = {{"default", as_default, plain_keys},
                                 {"mrope", as_default, plain_keys},
                                 {"linear", as_linear, factor_keys},
                                 {"dynamic", as_dynamic, factor_keys},
                                 {"yarn", as_yarn, ramp_keys},
                                 {"deepseek_yarn", as_yarn, ramp_keys},
                                 {"telechat3-yarn", as_yarn, ramp_keys},
                                 {"llama3", as_llama3, llama3_keys},
                                 {"longrope", as_longrope, longrope_keys},
                                 {"proportional", as_proportional, factor_keys}};

void gyre_rope_as_mlx_lm(const gyre_rope_source *source, gyre_layer_group *group) {
    const gyre_rope_engine engine = gyre_engine_begin(source, group), *e = &engine;
    const gyre_mlx_class *class = gyre_mlx_class_of(source->family->model_type);
    const char *type = type_of(e, class ? class->reads : GYRE_MLX_SCALED);
    const reader *found = NULL;
    for (size_t i = 0; i < sizeof readers / sizeof *readers && !found; i++)
        if (strcmp(readers[i].type, type) == 0) found = &readers[i];
    if (!found) {
        gyre_rope_fail_unknown_type(source,
                                    "default, linear, dynamic, yarn, deepseek_yarn, llama3, longrope, proportional, mrope");
        return;
    }
    gyre_mlx_set_class_fields(source, group);
    found->read(e);
    gyre_rope_warn_unread_keys(source, found->keys);
}
