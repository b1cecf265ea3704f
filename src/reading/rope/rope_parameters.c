/* rope_parameters.c: expresses a rotation as keys of a config.json. */
#include "reading/rope/rope_parameters.h"

#include "core/rotation/frequency.h"
#include "gyre/gyre_fields.h"
#include "reading/scaling_traits.h"
#include "util/error.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct gyre_rope_config rope_config;

int gyre_rope_key_is_not_scaling(const char *key) {
    static const char *const keys[] = {"rope_theta",        "partial_rotary_factor", "mrope_section",
                                       "mrope_interleaved", "xdrope_section",        "llama_4_scaling_beta"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (strcmp(keys[i], key) == 0) return 1;
    return 0;
}

/* -- values -- */
/* json_object_set_new refuses NULL, so checking `failed` once is enough. */
typedef struct json_keys {
    json_t *values;
    int failed;
} json_keys;

static void add_key(json_keys *p, const char *key, json_t *value) {
    p->failed |= json_object_set_new(p->values, key, value) != 0;
}

static void add_number(json_keys *p, const char *key, double value) {
    add_key(p, key, json_real(value));
}

static void add_list(json_keys *p, const char *key, const double *values, int64_t count) {
    json_t *list = json_array();
    for (int64_t i = 0; i < count; i++)
        p->failed |= json_array_append_new(list, json_real(values[i])) != 0;
    add_key(p, key, list);
}

static void add_original_length(json_keys *p, const gyre_config *c) {
    add_key(p, "original_max_position_embeddings", json_integer(c->trained_length));
}

/* Values that are the type's default are left out. */
static void add_ramp_keys(json_keys *p, const rope_config *rope) {
    if (rope->beta_fast != 32.0) add_number(p, "beta_fast", rope->beta_fast);
    if (rope->beta_slow != 1.0) add_number(p, "beta_slow", rope->beta_slow);
    if (rope->fractional_bounds) add_key(p, "truncate", json_false());
    if (rope->mscale != 0.0) add_number(p, "mscale", rope->mscale);
    if (rope->mscale_all_dim != 0.0) add_number(p, "mscale_all_dim", rope->mscale_all_dim);
}

/* -- lists -- */
/* out[i] = theta_i / omega_i at a length.  Fails for a pair that does not rotate, which has no such number. */
static gyre_status divisors(const gyre_encoding *encoding, int64_t length, double *out, gyre_error *err) {
    const gyre_config *c = gyre_encoding_get_config(encoding);
    const int64_t pairs = c->rope.dim / 2;
    gyre_config plain = *c;
    gyre_config_unscale(&plain);
    gyre_encoding *trained = NULL;
    double *theta = malloc((size_t)pairs * sizeof *theta);
    if (!theta) return gyre_fail(err, GYRE_ENOMEM, "longrope: no memory for its lists");
    gyre_status status = gyre_encoding_create(&trained, &plain, NULL, err);
    if (!status) status = gyre_encoding_frequencies(trained, 0, theta, NULL);
    if (!status) status = gyre_encoding_frequencies(encoding, length, out, NULL);
    for (int64_t i = 0; i < pairs && !status; i++) {
        if (out[i] == 0.0)
            status = gyre_fail(err, GYRE_EUNSUPPORTED,
                               "scaling: pair %lld does not rotate, which a list cannot state (config.json)", (long long)i);
        else
            out[i] = theta[i] / out[i];
    }
    gyre_encoding_free(trained);
    free(theta);
    return status;
}

/* The short list is for lengths up to L, the long one beyond. */
static gyre_status add_longrope_factors(json_keys *p, const gyre_encoding *encoding, int64_t length, gyre_error *err) {
    const gyre_config *c = gyre_encoding_get_config(encoding);
    const int64_t pairs = c->rope.dim / 2;
    double *list = malloc((size_t)pairs * sizeof *list);
    if (!list) return gyre_fail(err, GYRE_ENOMEM, "longrope: no memory for its lists");
    gyre_status status = divisors(encoding, c->trained_length, list, err);
    if (!status) {
        add_list(p, "short_factor", list, pairs);
        status = divisors(encoding, length, list, err);
    }
    if (!status) add_list(p, "long_factor", list, pairs);
    free(list);
    return status;
}

/* -- which type -- */
static int is_one_of_parts(gyre_scaling scaling) {
    return scaling == GYRE_SCALING_BY_PARTS || scaling == GYRE_SCALING_YARN || scaling == GYRE_SCALING_DYNAMIC_YARN;
}

/* out = 1 if the type of the scaling's own name expresses all of it. */
static int name_suffices(const gyre_config *c, gyre_rope_dialect dialect) {
    const rope_config *rope = &c->rope;
    const double factor = gyre_rope_attention_factor(c, 0);
    if (dialect == GYRE_DIALECT_NATIVE) return 1;
    if (rope->resonance || c->rope.clip.mode != GYRE_CLIP_NONE) return 0;
    switch (rope->scaling) {
    case GYRE_SCALING_NONE:
    case GYRE_SCALING_NTK:
        return factor == 1.0;
    case GYRE_SCALING_LINEAR:
    case GYRE_SCALING_DYNAMIC_NTK:
    case GYRE_SCALING_LLAMA3:
    case GYRE_SCALING_PROPORTIONAL:
        return factor == 1.0 && dialect != GYRE_DIALECT_LONGROPE_ONLY;
    case GYRE_SCALING_BY_PARTS:
    case GYRE_SCALING_YARN:
        return dialect != GYRE_DIALECT_LONGROPE_ONLY;
    case GYRE_SCALING_LONGROPE:
        return 1;
    default:
        return 0;
    }
}

static const char *type_name(const gyre_config *c, gyre_rope_dialect dialect) {
    if (dialect != GYRE_DIALECT_NATIVE && c->rope.scaling == GYRE_SCALING_NTK) return "default";
    if (dialect != GYRE_DIALECT_NATIVE && c->rope.scaling == GYRE_SCALING_BY_PARTS) return "yarn";
    return gyre_rope_type(c->rope.scaling);
}

/* out = 1 if the file must give the attention factor, because the type computes another from its other keys. */
static int needs_attention_factor(const gyre_config *c, gyre_rope_dialect dialect) {
    if (c->rope.scaling == GYRE_SCALING_BY_PARTS && dialect != GYRE_DIALECT_NATIVE) return 1;
    if (gyre_scaling_has_attention_factor(c->rope.scaling)) return c->rope.attention_factor != 0.0;
    return gyre_rope_attention_factor(c, 0) != 1.0;
}

static void add_named_scaling(json_keys *p, const gyre_config *c, gyre_rope_dialect dialect) {
    const rope_config *rope = &c->rope;
    const int plain =
        rope->scaling == GYRE_SCALING_NONE || (rope->scaling == GYRE_SCALING_NTK && dialect != GYRE_DIALECT_NATIVE);
    if (!plain && (rope->scaling != GYRE_SCALING_PROPORTIONAL || rope->factor != 1.0)) add_number(p, "factor", rope->factor);
    if (gyre_scaling_has_original_length(rope->scaling)) add_original_length(p, c);
    if (needs_attention_factor(c, dialect)) add_number(p, "attention_factor", gyre_rope_attention_factor(c, 0));
    if (is_one_of_parts(rope->scaling) || rope->scaling == GYRE_SCALING_BY_PARTS_PAPER) add_ramp_keys(p, rope);
    if (rope->scaling == GYRE_SCALING_LLAMA3) {
        add_number(p, "low_freq_factor", rope->low_freq);
        add_number(p, "high_freq_factor", rope->high_freq);
    }
    if (rope->scaling == GYRE_SCALING_PROPORTIONAL) add_number(p, "partial_rotary_factor", rope->proportion);
    if (rope->scaling == GYRE_SCALING_LONGROPE) {
        add_list(p, "short_factor", rope->short_factor, rope->dim / 2);
        add_list(p, "long_factor", rope->long_factor, rope->dim / 2);
    }
}

static double ntk_base(const gyre_config *c, gyre_rope_dialect dialect) {
    const double dim = (double)c->rope.dim;
    if (c->rope.scaling != GYRE_SCALING_NTK || dialect == GYRE_DIALECT_NATIVE) return c->rope.base;
    return (double)((long double)c->rope.base * powl((long double)c->rope.factor, (long double)(dim / (dim - 2.0))));
}

gyre_status gyre_rope_parameters_of(const gyre_encoding *encoding, int64_t length, gyre_rope_dialect dialect,
                                    gyre_rope_parameters *out, gyre_error *err) {
    const gyre_config *c = gyre_encoding_get_config(encoding);
    const int named = name_suffices(c, dialect), is_ntk = c->rope.scaling == GYRE_SCALING_DYNAMIC_NTK;
    json_keys p = {json_object(), 0};
    gyre_status status = GYRE_OK;
    if (c->rope.longrope.start_tokens > 0 && dialect != GYRE_DIALECT_NATIVE)
        status = gyre_fail(err, GYRE_EUNSUPPORTED, "start tokens: transformers has no key for them (config.json)");
    *out = (gyre_rope_parameters){type_name(c, dialect), p.values, ntk_base(c, dialect), length, 0};
    if (is_ntk) out->length = c->trained_length;
    if (status) {
        /* nothing is added */
    } else if (named) {
        add_named_scaling(&p, c, dialect);
        out->resonance = dialect == GYRE_DIALECT_NATIVE && c->rope.resonance;
    } else if (is_ntk || c->rope.scaling == GYRE_SCALING_DYNAMIC_YARN) {
        status = gyre_fail(err, GYRE_EUNSUPPORTED,
                           "scaling: frequencies follow the length otherwise than \"dynamic\" (config.json)");
    } else {
        out->type = "longrope";
        out->base = c->rope.base;
        add_number(&p, "factor", fmax(1.0, (double)length / (double)c->trained_length));
        add_original_length(&p, c);
        add_number(&p, "attention_factor", gyre_rope_attention_factor(c, length));
        status = add_longrope_factors(&p, encoding, length, err);
    }
    if (!status && p.failed) status = gyre_fail(err, GYRE_ENOMEM, "scaling: no memory for its keys (config.json)");
    if (status) {
        json_decref(p.values);
        out->values = NULL;
    }
    return status;
}
