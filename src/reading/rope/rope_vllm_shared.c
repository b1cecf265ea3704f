/* rope_vllm_shared.c: shared by the readers for vLLM and SGLang. */
#include "reading/rope/rope_vllm_shared.h"

#include <math.h>
#include <string.h>

static const gyre_scope *dict_of(const gyre_rope_engine *e) {
    return &e->source->dict;
}

static int failed(const gyre_rope_engine *e) {
    return !!gyre_build_status(e->build);
}

static int has_key(const gyre_rope_engine *e, const char *key) {
    return gyre_scope_value(dict_of(e), key) != NULL;
}

int gyre_vllm_is_latent(const gyre_rope_engine *e) {
    const gyre_family *family = e->source->family;
    return (family->traits & GYRE_MLA) && strcmp(family->model_type, "minicpm3") != 0;
}

/* -- linear and NTK -- */
void gyre_vllm_read_linear(const gyre_rope_engine *e) {
    gyre_engine_set_scaling(e, GYRE_SCALING_LINEAR, NULL);
    (void)gyre_engine_read_factor(e);
    if (json_is_integer(gyre_scope_value(dict_of(e), "factor")))
        gyre_scope_warn(
            dict_of(e), "factor",
            "a whole number; %s takes it as a list of factors and fails with a TypeError; write it with a point (8.0)",
            e->program);
}

void gyre_vllm_set_ntk_base(const gyre_rope_engine *e, const char *key, double growth, const char *scaling_why,
                            const char *factor_why) {
    gyre_engine_set_scaling(e, GYRE_SCALING_NTK, scaling_why);
    gyre_engine_note_number(e, "factor", key, factor_why, growth);
    e->group->config.rope.factor = growth;
    if (growth < 1.0) gyre_scope_fail(dict_of(e), GYRE_EFORMAT, key, "gives %g times the base's growth, below 1", growth);
}

void gyre_vllm_read_alpha(const gyre_rope_engine *e) {
    const double alpha = gyre_scope_number(dict_of(e), "alpha", NAN);
    if (failed(e)) return;
    gyre_vllm_set_ntk_base(
        e, "alpha", alpha,
        gyre_build_format(e->build, "%s grows the base once, by alpha, and keeps it at every length", e->program),
        "alpha: the base grows by alpha^(d / (d - 2))");
}

void gyre_vllm_read_dynamic(const gyre_rope_engine *e) {
    if (has_key(e, "alpha")) {
        gyre_vllm_read_alpha(e);
        return;
    }
    const double s = gyre_engine_read_factor(e);
    if (failed(e)) return;
    gyre_vllm_set_ntk_base(
        e, "factor", s * s - s + 1.0,
        gyre_build_format(
            e->build,
            "%s computes the dynamic base once, for factor x max_position_embeddings tokens, and keeps it at every length",
            e->program),
        gyre_build_format(e->build, "s^2 - s + 1 for the file's s = %g; transformers has 1 up to the trained length", s));
}

/* -- llama3 and proportional -- */
void gyre_vllm_read_llama3(const gyre_rope_engine *e) {
    gyre_engine_set_scaling(e, GYRE_SCALING_LLAMA3, NULL);
    (void)gyre_engine_read_factor(e);
    (void)gyre_engine_read_original_length(e);
    gyre_rope_read_freq_factors(e->source, e->group);
}

void gyre_vllm_read_proportional(const gyre_rope_engine *e) {
    static const char *const unread[] = {"factor", NULL};
    gyre_place place;
    const char *why = gyre_engine_ignored_keys(e, unread, &place);
    gyre_engine_set_scaling(e, GYRE_SCALING_PROPORTIONAL, NULL);
    gyre_rope_read_proportion(e->source, e->group);
    e->group->config.rope.factor = 1.0;
    if (why) gyre_engine_note_number(e, "factor", "factor", why, 1.0);
}

/* -- YaRN -- */
void gyre_vllm_read_ramp(const gyre_rope_engine *e, int truncate_honoured) {
    static const char *const keys[] = {"beta_fast", "beta_slow"};
    for (int i = 0; i < 2; i++) {
        const int is_null = gyre_scope_has(dict_of(e), keys[i]) && !has_key(e, keys[i]);
        if (is_null || gyre_scope_number(dict_of(e), keys[i], 1.0) == 0.0)
            gyre_scope_fail(dict_of(e), GYRE_EUNSUPPORTED, keys[i], "%s, by which %s would divide; leave the key out",
                            is_null ? "null" : "0", e->program);
    }
    gyre_rope_read_ramp(e->source, e->group, !truncate_honoured);
}

void gyre_vllm_weaken_ramp(const gyre_rope_engine *e) {
    if (!has_key(e, "extrapolation_factor")) return;
    const double extrapolation_factor = gyre_scope_number(dict_of(e), "extrapolation_factor", 1.0);
    if (extrapolation_factor == 1.0 || failed(e)) return;
    gyre_engine_apply_extrapolation_factor(e, extrapolation_factor);
    const gyre_place place = gyre_scope_place(dict_of(e), "extrapolation_factor");
    gyre_build_set_field(
        e->build, e->group, "scaling", GYRE_ORIGIN_FILE, &place,
        "yarn whose ramp keeps only extrapolation_factor of each kept share: given as divisors of each pair", "yarn");
}

void gyre_vllm_set_attention(const gyre_rope_engine *e, double magnitude, int times_key, const char *const *unread) {
    gyre_place place;
    const char *why = gyre_engine_ignored_keys(e, unread, &place);
    if (times_key && has_key(e, "attn_factor")) {
        const gyre_place own = gyre_scope_place(dict_of(e), "attn_factor");
        magnitude *= gyre_scope_number(dict_of(e), "attn_factor", 1.0);
        why = why ? gyre_build_format(e->build, "times %s; %s", own.key, why)
                  : gyre_build_format(e->build, "0.1 ln s + 1 times attn_factor, a key of %s", e->program);
        if (!place.key) place = own;
    }
    gyre_engine_set_attention_factor(e, magnitude, &place, why);
}

void gyre_vllm_read_latent_yarn(const gyre_rope_engine *e, int multiplies_scores, int has_own_keys) {
    static const char *const theirs[] = {"attention_factor", NULL}, *const both[] = {"attention_factor", "attn_factor",
                                                                                     NULL};
    gyre_engine_set_scaling(e, GYRE_SCALING_YARN,
                            multiplies_scores ? "deepseek_yarn: each mscale key has an effect without the other" : NULL);
    const double s = gyre_engine_read_factor(e);
    (void)gyre_engine_read_original_length(e);
    gyre_vllm_read_ramp(e, 0);
    /* DeepSeek-V4's class sets both to 0. */
    const int is_v4 = strcmp(e->source->family->model_type, "deepseek_v4") == 0;
    const double mscale = is_v4 ? 0.0 : gyre_engine_read_number(e, "mscale", "mscale", 1.0);
    const double all = is_v4 ? 0.0 : gyre_engine_read_number(e, "mscale_all_dim", "mscale_all_dim", 0.0);
    if (failed(e)) return;
    const double of_scores = gyre_rope_yarn_mscale(s, all);
    gyre_vllm_set_attention(e, gyre_rope_yarn_mscale(s, mscale) / of_scores, has_own_keys, has_own_keys ? theirs : both);
    if (multiplies_scores)
        gyre_engine_set_softmax(e, of_scores * of_scores, "mscale_all_dim", NULL);
    else
        gyre_engine_set_softmax(
            e, 1.0, "apply_yarn_scaling",
            gyre_build_format(e->build, "apply_yarn_scaling is false: %s leaves the scores alone", e->program));
    if (has_own_keys) gyre_vllm_weaken_ramp(e);
}
