/* config_read.c: config.json as transformers 5 reads it, and Gyre's own keys for what transformers has no word for. */
#include "model/config_json.h"

#include "model/model.h"
#include "reading/config_fields.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct gyre_config position_config;

void gyre_config_arrays_free(gyre_config_arrays *arrays) {
    free(arrays->short_factor);
    free(arrays->long_factor);
    free(arrays->slopes);
    free(arrays->slopes_after);
    *arrays = (gyre_config_arrays){NULL, NULL, NULL, NULL};
}

/* -- reading: one value ------------------------------------------------------------------------------------------------ */
/* An object of the file and how messages call it.  The first failure sticks: later reads of any scope give nothing. */
typedef struct reader {
    const char *path;
    gyre_error *err;
    gyre_status status;
} reader;
typedef struct scope {
    reader *reader;
    const json_t *object;
    const char *prefix; /* "" or "rope_scaling." */
} scope;

static void fail(const scope *s, gyre_status status, const char *key, const char *why) {
    if (s->reader->status != GYRE_OK) return;
    s->reader->status = gyre_fail(s->reader->err, status, "%s%s: %s (%s)", s->prefix, key, why, s->reader->path);
}

/* NULL for a key that is missing or null, which transformers takes for the same. */
static const json_t *value_of(const scope *s, const char *key) {
    const json_t *value = s->reader->status == GYRE_OK ? json_object_get(s->object, key) : NULL;
    return json_is_null(value) ? NULL : value;
}

/* A size of at least 1; fallback where there is none (-1 = it must be there).  Some tools write sizes as reals. */
static int64_t size_at(const scope *s, const char *key, int64_t fallback) {
    const json_t *value = value_of(s, key);
    const double most = 9007199254740992.0; /* 2^53: the last up to which a double counts */
    if (!value) {
        if (fallback < 0) fail(s, GYRE_EFORMAT, key, "missing");
        return fallback;
    }
    const double number = json_number_value(value);
    if (json_is_number(value) && number >= 1.0 && number <= most && number == floor(number))
        return json_is_integer(value) ? (int64_t)json_integer_value(value) : (int64_t)number;
    fail(s, GYRE_EFORMAT, key, "not a size of at least 1");
    return fallback;
}

/* fallback: NAN = it must be there.  Nothing is infinite here: JSON has no word for it. */
static double number_at(const scope *s, const char *key, double fallback) {
    const json_t *value = value_of(s, key);
    if (!value) {
        if (isnan(fallback)) fail(s, GYRE_EFORMAT, key, "missing");
        return fallback;
    }
    if (!json_is_number(value)) fail(s, GYRE_EFORMAT, key, "not a number");
    return json_number_value(value);
}

/* For fields in which 0 would mean their default. */
static double positive_at(const scope *s, const char *key, double fallback) {
    const double number = number_at(s, key, fallback);
    if (value_of(s, key) && number <= 0.0) fail(s, GYRE_EFORMAT, key, "not above 0");
    return number;
}

static int flag_at(const scope *s, const char *key, int fallback) {
    const json_t *value = value_of(s, key);
    if (value && !json_is_boolean(value)) fail(s, GYRE_EFORMAT, key, "neither true nor false");
    return value ? json_is_true(value) : fallback;
}

/* fallback: NULL = it must be there.  Never NULL. */
static const char *text_at(const scope *s, const char *key, const char *fallback) {
    const json_t *value = value_of(s, key);
    if (!value && !fallback) fail(s, GYRE_EFORMAT, key, "missing");
    if (value && !json_is_string(value)) fail(s, GYRE_EFORMAT, key, "not a string");
    if (json_is_string(value)) return json_string_value(value);
    return fallback ? fallback : "";
}

/* What the key's word stands for; `unknown` is the status of any other word. */
static int word_at(const scope *s, const char *key, const char *fallback, const gyre_config_word *words,
                   gyre_status unknown) {
    char why[96];
    const char *text = text_at(s, key, fallback);
    const gyre_config_word *found = gyre_config_word_of(words, text);
    if (found) return found->value;
    snprintf(why, sizeof why, "\"%.60s\" is not known", text);
    fail(s, unknown, key, why);
    return 0;
}

static gyre_kind kind_at(const scope *s, const char *key) {
    char why[96];
    const char *text = text_at(s, key, NULL), *name;
    for (int kind = 0; (name = gyre_kind_name((gyre_kind)kind)) != NULL; kind++)
        if (strcmp(name, text) == 0) return (gyre_kind)kind;
    snprintf(why, sizeof why, "\"%.60s\" is not known", text);
    fail(s, GYRE_EUNSUPPORTED, key, why);
    return GYRE_NOPE;
}

/* out = `count` numbers in memory the caller frees. */
static double *numbers_at(const scope *s, const char *key, int64_t count) {
    const json_t *list = value_of(s, key);
    if (!list) fail(s, GYRE_EFORMAT, key, "missing");
    if (list && (!json_is_array(list) || (int64_t)json_array_size(list) != count)) {
        char why[64];
        snprintf(why, sizeof why, "not a list of %" PRId64 " numbers", count);
        fail(s, GYRE_EFORMAT, key, why);
    }
    if (s->reader->status != GYRE_OK) return NULL;
    double *out = malloc((size_t)count * sizeof *out);
    if (!out) fail(s, GYRE_ENOMEM, key, "no memory");
    for (int64_t i = 0; i < count && out; i++) {
        const json_t *number = json_array_get(list, (size_t)i);
        if (!json_is_number(number)) fail(s, GYRE_EFORMAT, key, "holds something that is no number");
        out[i] = json_number_value(number);
    }
    return out;
}

/* -- reading: fields --------------------------------------------------------------------------------------------------- */
static int64_t whole_at(const scope *s, const char *key) {
    const json_t *value = value_of(s, key);
    if (!json_is_integer(value)) fail(s, GYRE_EFORMAT, key, "not a whole number");
    return (int64_t)json_integer_value(value);
}

static double nonzero_at(const scope *s, const char *key) {
    const double number = number_at(s, key, 0.0);
    if (number == 0.0) fail(s, GYRE_EFORMAT, key, "0, which is not a value of its own");
    return number;
}

/* A list of words, each of which stands for a bit. */
static unsigned set_at(const scope *s, const char *key, const gyre_config_word *words) {
    const json_t *list = value_of(s, key), *text;
    size_t i;
    unsigned set = 0;
    if (!json_is_array(list) || json_array_size(list) == 0) fail(s, GYRE_EFORMAT, key, "not a list of words");
    json_array_foreach((json_t *)list, i, text) {
        const gyre_config_word *found = json_is_string(text) ? gyre_config_word_of(words, json_string_value(text)) : NULL;
        if (!found) fail(s, GYRE_EFORMAT, key, "holds a word that is not known");
        set |= found ? (unsigned)found->value : 0;
    }
    return set;
}

static void read_field(const scope *s, const gyre_config_field *f, position_config *c) {
    switch (f->type) {
    case GYRE_CONFIG_SIZE:
        *gyre_config_count(c, f) = size_at(s, f->key, 0);
        break;
    case GYRE_CONFIG_WHOLE:
        *gyre_config_count(c, f) = whole_at(s, f->key);
        break;
    case GYRE_CONFIG_NUMBER:
        *gyre_config_number(c, f) = nonzero_at(s, f->key);
        break;
    case GYRE_CONFIG_FLAG:
        *gyre_config_bits(c, f) = (unsigned)flag_at(s, f->key, 0);
        break;
    case GYRE_CONFIG_WORD:
        *gyre_config_bits(c, f) = (unsigned)word_at(s, f->key, NULL, f->words, GYRE_EFORMAT);
        break;
    case GYRE_CONFIG_SET:
        *gyre_config_bits(c, f) = set_at(s, f->key, f->words);
        break;
    }
}

static void read_fields(const scope *s, const gyre_config_field *fields, position_config *c) {
    for (const gyre_config_field *f = fields; f->key; f++)
        if (value_of(s, f->key)) read_field(s, f, c);
}

/* -- reading: the model ------------------------------------------------------------------------------------------------ */
static void read_sizes(const scope *s, gyre_model_config *c) {
    c->vocab = size_at(s, "vocab_size", -1);
    c->width = size_at(s, "hidden_size", -1);
    c->layers = size_at(s, "num_hidden_layers", -1);
    c->heads = size_at(s, "num_attention_heads", -1);
    c->hidden = size_at(s, "intermediate_size", -1);
    c->norm_epsilon = positive_at(s, "rms_norm_eps", NAN);
    if (s->reader->status != GYRE_OK) return;
    c->kv_heads = size_at(s, "num_key_value_heads", c->heads);
    c->head_dim = size_at(s, "head_dim", c->width / c->heads);
    if (!value_of(s, "head_dim") && c->width % c->heads != 0)
        fail(s, GYRE_EFORMAT, "head_dim", "missing, and hidden_size is no multiple of num_attention_heads");
}

/* What a decoder of Gyre's does not compute.  Each default is that of transformers' Llama. */
static void check_architecture(const scope *s) {
    if (!flag_at(s, "tie_word_embeddings", 0))
        fail(s, GYRE_EUNSUPPORTED, "tie_word_embeddings",
             "false: only models that share the embedding with the output are read");
    if (flag_at(s, "attention_bias", 0)) fail(s, GYRE_EUNSUPPORTED, "attention_bias", "true: layers have no biases here");
    if (flag_at(s, "mlp_bias", 0)) fail(s, GYRE_EUNSUPPORTED, "mlp_bias", "true: layers have no biases here");
    if (strcmp(text_at(s, "hidden_act", "silu"), "silu") != 0)
        fail(s, GYRE_EUNSUPPORTED, "hidden_act", "only silu is computed");
    if (value_of(s, "quantization_config"))
        fail(s, GYRE_EUNSUPPORTED, "quantization_config", "quantized weights are not read");
}

/* -- reading: rotations ------------------------------------------------------------------------------------------------ */
/* Version 4 has rope_scaling, version 5 rope_parameters; a rope_scaling that holds anything takes the other's place. */
static scope rope_scope(const scope *root) {
    const json_t *scaling = value_of(root, "rope_scaling"), *parameters = value_of(root, "rope_parameters");
    if (scaling && !json_is_object(scaling)) fail(root, GYRE_EFORMAT, "rope_scaling", "not an object");
    if (parameters && !json_is_object(parameters)) fail(root, GYRE_EFORMAT, "rope_parameters", "not an object");
    const int old = json_object_size(scaling) > 0;
    const scope s = {root->reader, old ? scaling : parameters, old ? "rope_scaling." : "rope_parameters."};
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)s.object, key, value) if (json_is_object(value))
        fail(&s, GYRE_EUNSUPPORTED, key, "positions that differ from layer to layer are not read");
    return s;
}

/* L: transformers 5 lets the key beside the dictionary win over the one in it. */
static int64_t trained_length(const scope *root, const scope *rope, gyre_scaling scaling) {
    const int needs_any = gyre_scaling_has_original_length(scaling) || scaling == GYRE_DYNAMIC_NTK;
    if (gyre_scaling_has_original_length(scaling)) {
        const int64_t inside = size_at(rope, "original_max_position_embeddings", 0);
        const int64_t original = size_at(root, "original_max_position_embeddings", inside);
        if (original > 0) return original;
    }
    return size_at(root, "max_position_embeddings", needs_any ? -1 : 0);
}

/* The share of the head that turns, as rope.dim (truncated, as Python's int does), or of its pairs. */
static void read_share(const scope *root, const scope *rope, int64_t head_dim, struct gyre_rope_config *out) {
    const char *key = "partial_rotary_factor";
    const scope *s = value_of(root, key) ? root : rope;
    const double share = positive_at(s, key, 1.0);
    if (share > 1.0) fail(s, GYRE_EFORMAT, key, "above 1");
    out->dim = head_dim;
    out->proportion = share;
    if (out->scaling == GYRE_PROPORTIONAL || s->reader->status != GYRE_OK) return;
    out->proportion = 0.0;
    out->dim = (int64_t)((double)head_dim * share);
    if (out->dim < 2 || out->dim % 2 != 0) fail(s, GYRE_EFORMAT, key, "leaves no whole pairs of channels to turn");
}

/* s.  YaRN may say null and LongRoPE nothing, both meaning the ratio of the two lengths. */
static double factor_at(const scope *root, const scope *rope, const position_config *c) {
    const gyre_scaling scaling = c->rope.scaling;
    if (scaling == GYRE_UNSCALED) return 0.0;
    const int from_lengths = scaling == GYRE_LONGROPE || (scaling == GYRE_YARN && json_object_get(rope->object, "factor"));
    if (from_lengths && !value_of(rope, "factor")) {
        const double ratio = (double)size_at(root, "max_position_embeddings", -1) / (double)c->trained_length;
        return scaling == GYRE_LONGROPE && ratio < 1.0 ? 1.0 : ratio;
    }
    const double factor = number_at(rope, "factor", scaling == GYRE_PROPORTIONAL ? 1.0 : NAN);
    if (factor < 1.0) fail(rope, GYRE_EFORMAT, "factor", "below 1");
    return factor;
}

static void read_parts(const scope *rope, struct gyre_rope_config *out) {
    out->beta_fast = number_at(rope, "beta_fast", 0.0); /* 0 = the default, for transformers too */
    out->beta_slow = number_at(rope, "beta_slow", 0.0);
    out->fractional_bounds = !flag_at(rope, "truncate", 1);
    if (out->scaling != GYRE_YARN) return;
    out->mscale = number_at(rope, "mscale", 0.0);
    out->mscale_all_dim = number_at(rope, "mscale_all_dim", 0.0);
}

static void read_scaling(const scope *rope, int is_gyre, struct gyre_rope_config *out, gyre_config_arrays *arrays) {
    const int parts = out->scaling == GYRE_BY_PARTS || out->scaling == GYRE_BY_PARTS_PAPER || out->scaling == GYRE_YARN;
    if (parts) read_parts(rope, out);
    if (out->scaling == GYRE_LLAMA3) {
        out->low_freq = positive_at(rope, "low_freq_factor", NAN);
        out->high_freq = positive_at(rope, "high_freq_factor", NAN);
    }
    if (out->scaling == GYRE_LONGROPE) {
        out->short_factor = arrays->short_factor = numbers_at(rope, "short_factor", out->dim / 2);
        out->long_factor = arrays->long_factor = numbers_at(rope, "long_factor", out->dim / 2);
    }
    /* transformers leaves it out for the other types, so a Llama's must not have it. */
    if (is_gyre || gyre_scaling_has_attention_factor(out->scaling))
        out->attention_factor = positive_at(rope, "attention_factor", 0.0);
}

static void read_sections(const scope *root, struct gyre_rope_config *out) {
    const char *key = "rope_section";
    const json_t *list = value_of(root, key);
    if (out->axes > GYRE_MAX_AXES) {
        fail(root, GYRE_EFORMAT, "rope_axes", "more than any rotation has");
        return;
    }
    if (!json_is_array(list) || (int64_t)json_array_size(list) != out->axes)
        fail(root, GYRE_EFORMAT, key, "not a list of a number for each of rope_axes");
    for (int64_t a = 0; a < out->axes && root->reader->status == GYRE_OK; a++) {
        const json_t *pairs = json_array_get(list, (size_t)a);
        if (!json_is_integer(pairs)) fail(root, GYRE_EFORMAT, key, "holds something that is no whole number");
        out->section[a] = (int64_t)json_integer_value(pairs);
    }
}

static void read_rope(const scope *root, int is_gyre, gyre_model_config *c, gyre_config_arrays *arrays) {
    position_config *position = &c->position;
    const scope rope = rope_scope(root);
    const char *key = value_of(&rope, "rope_type") ? "rope_type" : "type";
    position->kind = GYRE_ROPE;
    position->rope.scaling = (gyre_scaling)word_at(&rope, key, "default", gyre_rope_types, GYRE_EUNSUPPORTED);
    position->rope.base = number_at(value_of(&rope, "rope_theta") ? &rope : root, "rope_theta", 10000.0);
    if (position->rope.base <= 1.0) fail(root, GYRE_EFORMAT, "rope_theta", "not above 1");
    position->trained_length = trained_length(root, &rope, position->rope.scaling);
    position->rope.length = size_at(root, "rope_length", 0);
    if (root->reader->status != GYRE_OK) return;
    read_share(root, &rope, c->head_dim, &position->rope);
    position->rope.factor = factor_at(root, &rope, position);
    read_scaling(&rope, is_gyre, &position->rope, arrays);
    if (!is_gyre) return;
    if (flag_at(root, "rope_interleaved", 0)) position->rope.layout = GYRE_INTERLEAVED;
    read_fields(root, gyre_rope_fields, position);
    if (position->rope.axes > 1) read_sections(root, &position->rope);
}

/* -- reading: the whole ------------------------------------------------------------------------------------------------ */
static void read_gyre(const scope *s, gyre_model_config *c, gyre_config_arrays *arrays) {
    position_config *position = &c->position;
    position->kind = kind_at(s, "position_embedding_type");
    position->trained_length = size_at(s, "max_position_embeddings", 0);
    if (s->reader->status != GYRE_OK) return;
    read_fields(s, gyre_table_fields, position);
    read_fields(s, gyre_query_fields, position);
    if (position->kind == GYRE_ROPE) read_rope(s, 1, c, arrays);
    if (position->kind == GYRE_LEARNED) (void)size_at(s, "position_table_rows", -1);
    if (value_of(s, "alibi_slopes")) position->score.slopes = arrays->slopes = numbers_at(s, "alibi_slopes", c->heads);
    if (value_of(s, "alibi_slopes_after"))
        position->score.slopes_after = arrays->slopes_after = numbers_at(s, "alibi_slopes_after", c->heads);
}

static void read_model(const scope *s, gyre_model_config *c, gyre_config_arrays *arrays) {
    static const gyre_config_word types[] = {{"llama", 0}, {"gyre", 1}, {NULL, 0}};
    const int is_gyre = word_at(s, "model_type", NULL, types, GYRE_EUNSUPPORTED);
    check_architecture(s);
    read_sizes(s, c);
    if (s->reader->status != GYRE_OK) return;
    if (is_gyre)
        read_gyre(s, c, arrays);
    else
        read_rope(s, 0, c, arrays);
    c->position.head_dim = c->head_dim;
    c->position.heads = c->heads;
    c->position.input.dim = c->width;
}

gyre_status gyre_config_parse(const char *json, size_t bytes, const char *path, gyre_model_config *out,
                              gyre_config_arrays *arrays, gyre_error *err) {
    json_error_t error;
    json_t *root = json_loadb(json, bytes, JSON_REJECT_DUPLICATES, &error);
    if (!root) {
        gyre_fail(err, GYRE_EFORMAT, "config: %s, line %d (%s)", error.text, error.line, path);
        if (err) err->offset = (uint64_t)(error.position > 0 ? error.position : 0);
        return GYRE_EFORMAT; /* also without memory: jansson does not tell */
    }
    gyre_model_config config = GYRE_MODEL_CONFIG_INIT;
    gyre_config_arrays own = {NULL, NULL, NULL, NULL};
    reader r = {path, err, GYRE_OK};
    const scope s = {&r, root, ""};
    if (json_is_object(root))
        read_model(&s, &config, &own);
    else
        fail(&s, GYRE_EFORMAT, "config", "not an object");
    json_decref(root);
    if (r.status == GYRE_OK) {
        *out = config;
        *arrays = own;
    } else {
        gyre_config_arrays_free(&own);
    }
    return r.status;
}
