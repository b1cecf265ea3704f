/* config_json.c: config.json as transformers 5 reads it, and Gyre's own keys for what transformers has no word for.
 *
 * "model_type": "llama" is written only where transformers' Llama computes the same numbers; every other model is a "gyre",
 * which nobody can load by mistake. */
#include "model/config_json.h"

#include "encodings/schemes.h"
#include "model/model.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct gyre_config position_config;

typedef struct word {
    const char *text;
    int value;
} word;

static const word rope_types[] = {{"default", GYRE_UNSCALED},
                                  {"linear", GYRE_LINEAR},
                                  {"ntk", GYRE_NTK},
                                  {"dynamic", GYRE_DYNAMIC_NTK},
                                  {"by-parts", GYRE_BY_PARTS},
                                  {"by-parts-paper", GYRE_BY_PARTS_PAPER},
                                  {"yarn", GYRE_YARN},
                                  {"llama3", GYRE_LLAMA3},
                                  {"longrope", GYRE_LONGROPE},
                                  {"proportional", GYRE_PROPORTIONAL},
                                  {NULL, 0}};
static const word layouts[] = {{"interleaved", GYRE_SIN_INTERLEAVED},
                               {"concatenated", GYRE_SIN_CONCATENATED},
                               {"tensor2tensor", GYRE_SIN_TENSOR2TENSOR},
                               {NULL, 0}};
static const word *word_of_text(const word *words, const char *text) {
    while (words->text && strcmp(words->text, text) != 0)
        words++;
    return words->text ? words : NULL;
}

static const char *text_of(const word *words, int value) {
    while (words->text && words->value != value)
        words++;
    return words->text;
}

/* Scalings whose frequencies depend on L and that keep it apart from the length the model now serves. */
static int has_original_length(gyre_scaling scaling) {
    return scaling == GYRE_BY_PARTS || scaling == GYRE_BY_PARTS_PAPER || scaling == GYRE_YARN || scaling == GYRE_LLAMA3 ||
           scaling == GYRE_LONGROPE;
}

/* Scalings for which transformers reads attention_factor. */
static int has_own_attention_factor(gyre_scaling scaling) {
    return scaling == GYRE_YARN || scaling == GYRE_LONGROPE;
}

void gyre_config_arrays_free(gyre_config_arrays *arrays) {
    free(arrays->short_factor);
    free(arrays->long_factor);
    free(arrays->slopes);
    *arrays = (gyre_config_arrays){NULL, NULL, NULL};
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
static int word_at(const scope *s, const char *key, const char *fallback, const word *words, gyre_status unknown) {
    char why[96];
    const char *text = text_at(s, key, fallback);
    const word *found = word_of_text(words, text);
    if (found) return found->value;
    snprintf(why, sizeof why, "\"%.60s\" is not known", text);
    fail(s, unknown, key, why);
    return 0;
}

/* The registry has the spelling of every kind; those that a model holds come first. */
static gyre_kind kind_at(const scope *s, const char *key) {
    char why[96];
    const char *text = text_at(s, key, NULL);
    for (int kind = 0; gyre_model_holds((gyre_kind)kind); kind++)
        if (strcmp(gyre_kind_name((gyre_kind)kind), text) == 0) return (gyre_kind)kind;
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
    const int needs_any = has_original_length(scaling) || scaling == GYRE_DYNAMIC_NTK;
    if (has_original_length(scaling)) {
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
    if (is_gyre || has_own_attention_factor(out->scaling))
        out->attention_factor = positive_at(rope, "attention_factor", 0.0);
}

static void read_rope(const scope *root, int is_gyre, gyre_model_config *c, gyre_config_arrays *arrays) {
    position_config *position = &c->position;
    const scope rope = rope_scope(root);
    const char *key = value_of(&rope, "rope_type") ? "rope_type" : "type";
    position->kind = GYRE_ROPE;
    position->rope.scaling = (gyre_scaling)word_at(&rope, key, "default", rope_types, GYRE_EUNSUPPORTED);
    position->rope.base = number_at(value_of(&rope, "rope_theta") ? &rope : root, "rope_theta", 10000.0);
    if (position->rope.base <= 1.0) fail(root, GYRE_EFORMAT, "rope_theta", "not above 1");
    position->trained_length = trained_length(root, &rope, position->rope.scaling);
    position->rope.length = size_at(root, "rope_length", 0);
    if (root->reader->status != GYRE_OK) return;
    read_share(root, &rope, c->head_dim, &position->rope);
    position->rope.factor = factor_at(root, &rope, position);
    read_scaling(&rope, is_gyre, &position->rope, arrays);
    if (is_gyre && flag_at(root, "rope_interleaved", 0)) position->rope.layout = GYRE_INTERLEAVED;
}

/* -- reading: the whole ------------------------------------------------------------------------------------------------ */
static void read_gyre(const scope *s, gyre_model_config *c, gyre_config_arrays *arrays) {
    position_config *position = &c->position;
    position->kind = kind_at(s, "position_embedding_type");
    position->trained_length = size_at(s, "max_position_embeddings", 0);
    if (s->reader->status != GYRE_OK) return;
    if (position->kind == GYRE_ROPE) read_rope(s, 1, c, arrays);
    if (position->kind == GYRE_LEARNED) position->input.positions = size_at(s, "position_table_rows", -1);
    if (position->kind == GYRE_SINUSOIDAL) {
        position->input.layout = (gyre_sinusoid)word_at(s, "sinusoid_layout", "interleaved", layouts, GYRE_EFORMAT);
        position->input.base = positive_at(s, "sinusoid_base", 0.0);
    }
    if (position->kind == GYRE_ALIBI && value_of(s, "alibi_slopes"))
        position->score.slopes = arrays->slopes = numbers_at(s, "alibi_slopes", c->heads);
}

static void read_model(const scope *s, gyre_model_config *c, gyre_config_arrays *arrays) {
    static const word types[] = {{"llama", 0}, {"gyre", 1}, {NULL, 0}};
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
    gyre_config_arrays own = {NULL, NULL, NULL};
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

/* -- writing ----------------------------------------------------------------------------------------------------------- */
typedef struct writer {
    json_t *object;
    int failed;
} writer;

static void put(writer *w, const char *key, json_t *value) {
    w->failed |= json_object_set_new(w->object, key, value) != 0;
}
static void put_size(writer *w, const char *key, int64_t value) {
    put(w, key, json_integer(value));
}
static void put_number(writer *w, const char *key, double value) {
    put(w, key, json_real(value));
}
static void put_text(writer *w, const char *key, const char *value) {
    put(w, key, json_string(value));
}

static void put_numbers(writer *w, const char *key, const double *values, int64_t count) {
    json_t *list = json_array();
    for (int64_t i = 0; i < count; i++)
        w->failed |= json_array_append_new(list, json_real(values[i])) != 0;
    put(w, key, list);
}

/* The smallest share that the reader truncates back to `dim`. */
static double share_of(int64_t dim, int64_t head_dim) {
    double share = (double)dim / (double)head_dim;
    if ((int64_t)((double)head_dim * share) < dim) share = nextafter(share, 1.0);
    return share;
}

/* 1 if the file must say the factor: 0 is the scaling's own, which is 1 for all but two. */
static int says_attention_factor(const struct gyre_rope_config *rope) {
    return rope->attention_factor != 0.0 && (has_own_attention_factor(rope->scaling) || rope->attention_factor != 1.0);
}

/* 1 where transformers' Llama computes exactly this encoding from the keys below. */
static int is_llama(const position_config *c) {
    const gyre_scaling scaling = c->rope.scaling;
    const int known = scaling != GYRE_NTK && scaling != GYRE_BY_PARTS && scaling != GYRE_BY_PARTS_PAPER;
    return c->kind == GYRE_ROPE && c->rope.layout == GYRE_HALF && c->rope.dim == c->head_dim && known &&
           (has_own_attention_factor(scaling) || !says_attention_factor(&c->rope));
}

/* The length that the model serves: L, or L stretched where the file keeps L beside it. */
static int64_t served_length(const position_config *c) {
    const double most = 9007199254740992.0, length = c->rope.factor * (double)c->trained_length;
    if (c->kind != GYRE_ROPE || !has_original_length(c->rope.scaling)) return c->trained_length;
    return length < most ? (int64_t)llround(length) : (int64_t)most;
}

static void put_parts(writer *w, const struct gyre_rope_config *rope) {
    put_number(w, "beta_fast", rope->beta_fast);
    put_number(w, "beta_slow", rope->beta_slow);
    if (rope->fractional_bounds) put(w, "truncate", json_false());
    if (rope->mscale != 0.0) put_number(w, "mscale", rope->mscale);
    if (rope->mscale_all_dim != 0.0) put_number(w, "mscale_all_dim", rope->mscale_all_dim);
}

static json_t *scaling_json(const position_config *c) {
    const struct gyre_rope_config *rope = &c->rope;
    const int scaled = rope->scaling != GYRE_UNSCALED;
    writer w = {json_object(), 0};
    put_text(&w, "rope_type", text_of(rope_types, (int)rope->scaling));
    if (scaled) put_number(&w, "factor", rope->factor);
    if (has_original_length(rope->scaling)) put_size(&w, "original_max_position_embeddings", c->trained_length);
    if (rope->scaling == GYRE_BY_PARTS || rope->scaling == GYRE_BY_PARTS_PAPER || rope->scaling == GYRE_YARN)
        put_parts(&w, rope);
    if (rope->scaling == GYRE_LLAMA3) {
        put_number(&w, "low_freq_factor", rope->low_freq);
        put_number(&w, "high_freq_factor", rope->high_freq);
    }
    if (rope->scaling == GYRE_LONGROPE) {
        put_numbers(&w, "short_factor", rope->short_factor, rope->dim / 2);
        put_numbers(&w, "long_factor", rope->long_factor, rope->dim / 2);
    }
    if (rope->scaling == GYRE_PROPORTIONAL) put_number(&w, "partial_rotary_factor", rope->proportion);
    if (says_attention_factor(rope)) put_number(&w, "attention_factor", rope->attention_factor);
    if (!w.failed) return w.object;
    json_decref(w.object);
    return NULL;
}

static void put_rope(writer *w, const position_config *c) {
    const struct gyre_rope_config *rope = &c->rope;
    const int plain = rope->scaling == GYRE_UNSCALED && !says_attention_factor(rope);
    put_number(w, "rope_theta", rope->base);
    put(w, "rope_scaling", plain ? json_null() : scaling_json(c));
    if (rope->dim != c->head_dim) put_number(w, "partial_rotary_factor", share_of(rope->dim, c->head_dim));
    if (rope->layout == GYRE_INTERLEAVED) put(w, "rope_interleaved", json_true());
    if (rope->length > 0 && rope->length != c->trained_length) put_size(w, "rope_length", rope->length);
}

/* 1 if these are not the slopes that the heads get by themselves. */
static int has_own_slopes(const position_config *c) {
    position_config plain = GYRE_CONFIG_INIT;
    gyre_encoding *encoding;
    plain.kind = GYRE_ALIBI;
    plain.heads = c->heads;
    if (!c->score.slopes) return 0;
    if (gyre_encoding_create(&encoding, &plain, NULL, NULL) != GYRE_OK) return 1;
    const double *slopes = gyre_encoding_config(encoding)->score.slopes;
    const int own = memcmp(slopes, c->score.slopes, (size_t)c->heads * sizeof *slopes) != 0;
    gyre_encoding_free(encoding);
    return own;
}

static void put_position(writer *w, const position_config *c) {
    if (c->trained_length > 0) put_size(w, "max_position_embeddings", served_length(c));
    if (!is_llama(c)) put_text(w, "position_embedding_type", gyre_kind_name(c->kind));
    if (c->kind == GYRE_ROPE) put_rope(w, c);
    if (c->kind == GYRE_LEARNED) put_size(w, "position_table_rows", c->input.positions);
    if (c->kind == GYRE_SINUSOIDAL) {
        put_text(w, "sinusoid_layout", text_of(layouts, (int)c->input.layout));
        put_number(w, "sinusoid_base", c->input.base);
    }
    if (c->kind == GYRE_ALIBI && has_own_slopes(c)) put_numbers(w, "alibi_slopes", c->score.slopes, c->heads);
}

static void put_model(writer *w, const gyre_model_config *c, const char *dtype) {
    const int llama = is_llama(&c->position);
    put(w, "architectures", json_pack("[s]", llama ? "LlamaForCausalLM" : "GyreForCausalLM"));
    put_text(w, "model_type", llama ? "llama" : "gyre");
    put_text(w, "torch_dtype", dtype);
    put_size(w, "vocab_size", c->vocab);
    put_size(w, "hidden_size", c->width);
    put_size(w, "intermediate_size", c->hidden);
    put_size(w, "num_hidden_layers", c->layers);
    put_size(w, "num_attention_heads", c->heads);
    put_size(w, "num_key_value_heads", c->kv_heads);
    put_size(w, "head_dim", c->head_dim);
    put_number(w, "rms_norm_eps", c->norm_epsilon);
    put_text(w, "hidden_act", "silu");
    put(w, "attention_bias", json_false());
    put(w, "mlp_bias", json_false());
    put(w, "tie_word_embeddings", json_true());
    put_position(w, &c->position);
}

/* The fewest digits that read back as the same numbers: 1e-5, not 1.0000000000000001e-5. */
static char *print_shortest(const json_t *root) {
    for (size_t digits = 6; digits <= 17; digits++) {
        char *text = json_dumps(root, JSON_INDENT(2) | JSON_REAL_PRECISION(digits));
        json_t *back = text ? json_loads(text, 0, NULL) : NULL;
        const int same = json_equal(root, back);
        json_decref(back);
        if (same) return text;
        free(text);
        if (!back) break; /* no memory */
    }
    return NULL;
}

gyre_status gyre_config_print(const gyre_model_config *config, gyre_dtype dtype, char **out, gyre_error *err) {
    const char *name = dtype == GYRE_F32    ? "float32"
                       : dtype == GYRE_F16  ? "float16"
                       : dtype == GYRE_BF16 ? "bfloat16"
                                            : NULL;
    if (!name) return gyre_fail(err, GYRE_EDTYPE, "dtype: %d is not F32, F16 or BF16 (config.json)", (int)dtype);
    writer w = {json_object(), 0};
    put_model(&w, config, name);
    char *text = w.failed ? NULL : print_shortest(w.object);
    json_decref(w.object);
    if (!text) return gyre_fail(err, GYRE_ENOMEM, "config.json: no memory");
    *out = text;
    return GYRE_OK;
}
