/* rope_words.c: from a rotation to the keys of a config.json. */
#include "reading/rope/rope_words.h"

#include "core/encoding.h"
#include "reading/config_fields.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct gyre_rope_config rope_config;

int gyre_rope_key_stays(const char *key) {
    static const char *const keys[] = {"rope_theta",        "partial_rotary_factor", "mrope_section",
                                       "mrope_interleaved", "xdrope_section",        "llama_4_scaling_beta"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (strcmp(keys[i], key) == 0) return 1;
    return 0;
}

/* -- values ------------------------------------------------------------------------------------------------------ */
/* json_object_set_new refuses a NULL, so that one look at `failed` is enough. */
typedef struct pad {
    json_t *values;
    int failed;
} pad;

static void say(pad *p, const char *key, json_t *value) {
    p->failed |= json_object_set_new(p->values, key, value) != 0;
}

static void say_number(pad *p, const char *key, double value) {
    say(p, key, json_real(value));
}

static void say_list(pad *p, const char *key, const double *values, int64_t count) {
    json_t *list = json_array();
    for (int64_t i = 0; i < count; i++)
        p->failed |= json_array_append_new(list, json_real(values[i])) != 0;
    say(p, key, list);
}

static void say_length(pad *p, const gyre_config *c) {
    say(p, "original_max_position_embeddings", json_integer(c->trained_length));
}

/* What is as the type has it by itself is not said. */
static void say_parts(pad *p, const rope_config *rope) {
    if (rope->beta_fast != 32.0) say_number(p, "beta_fast", rope->beta_fast);
    if (rope->beta_slow != 1.0) say_number(p, "beta_slow", rope->beta_slow);
    if (rope->fractional_bounds) say(p, "truncate", json_false());
    if (rope->mscale != 0.0) say_number(p, "mscale", rope->mscale);
    if (rope->mscale_all_dim != 0.0) say_number(p, "mscale_all_dim", rope->mscale_all_dim);
}

/* -- lists ------------------------------------------------------------------------------------------------------- */
/* out[i] = theta_i / omega_i at a length; a pair that stands still has no such number. */
static gyre_status divisors(const gyre_encoding *encoding, int64_t length, double *out, gyre_error *err) {
    const gyre_config *c = gyre_encoding_config(encoding);
    const int64_t pairs = c->rope.dim / 2;
    gyre_config plain = *c;
    plain.rope.scaling = GYRE_UNSCALED;
    plain.rope.resonance = 0;
    gyre_encoding *trained = NULL;
    double *theta = malloc((size_t)pairs * sizeof *theta);
    if (!theta) return gyre_fail(err, GYRE_ENOMEM, "longrope: no memory for its lists");
    gyre_status status = gyre_encoding_create(&trained, &plain, NULL, err);
    if (status == GYRE_OK) status = gyre_encoding_frequencies(trained, 0, theta, NULL);
    if (status == GYRE_OK) status = gyre_encoding_frequencies(encoding, length, out, NULL);
    for (int64_t i = 0; i < pairs && status == GYRE_OK; i++) {
        if (out[i] == 0.0)
            status = gyre_fail(err, GYRE_EUNSUPPORTED, "scaling: pair %lld stands still, which no list says (config.json)",
                               (long long)i);
        else
            out[i] = theta[i] / out[i];
    }
    gyre_encoding_free(trained);
    free(theta);
    return status;
}

/* The short list holds up to L, the long one past it. */
static gyre_status say_divisors(pad *p, const gyre_encoding *encoding, int64_t length, gyre_error *err) {
    const gyre_config *c = gyre_encoding_config(encoding);
    const int64_t pairs = c->rope.dim / 2;
    double *list = malloc((size_t)pairs * sizeof *list);
    if (!list) return gyre_fail(err, GYRE_ENOMEM, "longrope: no memory for its lists");
    gyre_status status = divisors(encoding, c->trained_length, list, err);
    if (status == GYRE_OK) {
        say_list(p, "short_factor", list, pairs);
        status = divisors(encoding, length, list, err);
    }
    if (status == GYRE_OK) say_list(p, "long_factor", list, pairs);
    free(list);
    return status;
}

/* -- which words ------------------------------------------------------------------------------------------------- */
static int is_one_of_parts(gyre_scaling scaling) {
    return scaling == GYRE_BY_PARTS || scaling == GYRE_YARN || scaling == GYRE_DYNAMIC_YARN;
}

/* 1 where the type that bears its name says all of it. */
static int has_name(const gyre_config *c, gyre_vocabulary vocabulary) {
    const rope_config *rope = &c->rope;
    const double factor = gyre_rope_attention_factor(c, 0);
    if (vocabulary == GYRE_WORDS_NATIVE) return 1;
    if (rope->resonance) return 0;
    switch (rope->scaling) {
    case GYRE_UNSCALED:
    case GYRE_NTK:
        return factor == 1.0;
    case GYRE_LINEAR:
    case GYRE_DYNAMIC_NTK:
    case GYRE_LLAMA3:
    case GYRE_PROPORTIONAL:
        return factor == 1.0 && vocabulary != GYRE_WORDS_LISTS;
    case GYRE_BY_PARTS:
    case GYRE_YARN:
        return vocabulary != GYRE_WORDS_LISTS;
    case GYRE_LONGROPE:
        return 1;
    default:
        return 0;
    }
}

static const char *name_of(const gyre_config *c, gyre_vocabulary vocabulary) {
    if (vocabulary != GYRE_WORDS_NATIVE && c->rope.scaling == GYRE_NTK) return "default";
    if (vocabulary != GYRE_WORDS_NATIVE && c->rope.scaling == GYRE_BY_PARTS) return "yarn";
    return gyre_config_text_of(gyre_rope_types, (int)c->rope.scaling);
}

/* 1 where the file must give the attention factor, for it is not what the type makes of its other keys. */
static int says_attention_factor(const gyre_config *c, gyre_vocabulary vocabulary) {
    if (c->rope.scaling == GYRE_BY_PARTS && vocabulary != GYRE_WORDS_NATIVE) return 1;
    if (gyre_scaling_has_attention_factor(c->rope.scaling)) return c->rope.attention_factor != 0.0;
    return gyre_rope_attention_factor(c, 0) != 1.0;
}

static void say_by_name(pad *p, const gyre_config *c, gyre_vocabulary vocabulary) {
    const rope_config *rope = &c->rope;
    const int plain = rope->scaling == GYRE_UNSCALED || (rope->scaling == GYRE_NTK && vocabulary != GYRE_WORDS_NATIVE);
    if (!plain && (rope->scaling != GYRE_PROPORTIONAL || rope->factor != 1.0)) say_number(p, "factor", rope->factor);
    if (gyre_scaling_has_original_length(rope->scaling)) say_length(p, c);
    if (says_attention_factor(c, vocabulary)) say_number(p, "attention_factor", gyre_rope_attention_factor(c, 0));
    if (is_one_of_parts(rope->scaling) || rope->scaling == GYRE_BY_PARTS_PAPER) say_parts(p, rope);
    if (rope->scaling == GYRE_LLAMA3) {
        say_number(p, "low_freq_factor", rope->low_freq);
        say_number(p, "high_freq_factor", rope->high_freq);
    }
    if (rope->scaling == GYRE_PROPORTIONAL) say_number(p, "partial_rotary_factor", rope->proportion);
    if (rope->scaling == GYRE_LONGROPE) {
        say_list(p, "short_factor", rope->short_factor, rope->dim / 2);
        say_list(p, "long_factor", rope->long_factor, rope->dim / 2);
    }
}

static double base_of(const gyre_config *c, gyre_vocabulary vocabulary) {
    const double dim = (double)c->rope.dim;
    if (c->rope.scaling != GYRE_NTK || vocabulary == GYRE_WORDS_NATIVE) return c->rope.base;
    return (double)((long double)c->rope.base * powl((long double)c->rope.factor, (long double)(dim / (dim - 2.0))));
}

gyre_status gyre_rope_words_of(const gyre_encoding *encoding, int64_t length, gyre_vocabulary vocabulary,
                               gyre_rope_words *out, gyre_error *err) {
    const gyre_config *c = gyre_encoding_config(encoding);
    const int named = has_name(c, vocabulary), is_ntk = c->rope.scaling == GYRE_DYNAMIC_NTK;
    pad p = {json_object(), 0};
    gyre_status status = GYRE_OK;
    *out = (gyre_rope_words){name_of(c, vocabulary), p.values, base_of(c, vocabulary), length, 0};
    if (is_ntk) out->length = c->trained_length;
    if (named) {
        say_by_name(&p, c, vocabulary);
        out->resonance = vocabulary == GYRE_WORDS_NATIVE && c->rope.resonance;
    } else if (is_ntk || c->rope.scaling == GYRE_DYNAMIC_YARN) {
        status = gyre_fail(err, GYRE_EUNSUPPORTED,
                           "scaling: frequencies that follow the length, and more than \"dynamic\" says (config.json)");
    } else {
        out->type = "longrope";
        out->base = c->rope.base;
        say_number(&p, "factor", fmax(1.0, (double)length / (double)c->trained_length));
        say_length(&p, c);
        say_number(&p, "attention_factor", gyre_rope_attention_factor(c, length));
        status = say_divisors(&p, encoding, length, err);
    }
    if (status == GYRE_OK && p.failed) status = gyre_fail(err, GYRE_ENOMEM, "scaling: no memory for its keys (config.json)");
    if (status != GYRE_OK) {
        json_decref(p.values);
        out->values = NULL;
    }
    return status;
}
