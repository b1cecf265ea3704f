/* model_config_write.c: the config.json of a model.
 *
 * "model_type": "llama" is written only where transformers' Llama computes the same numbers; every other model is a "gyre",
 * which nobody can load by mistake. */
#include "model/architecture/model_config_json.h"
#include "util/error.h"

#include "model/model.h"
#include "reading/config_fields.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct gyre_config position_config;

typedef struct json_writer {
    json_t *object;
    int failed;
} json_writer;

static void put(json_writer *w, const char *key, json_t *value) {
    w->failed |= json_object_set_new(w->object, key, value) != 0;
}
static void put_size(json_writer *w, const char *key, int64_t value) {
    put(w, key, json_integer(value));
}
static void put_number(json_writer *w, const char *key, double value) {
    put(w, key, json_real(value));
}
static void put_text(json_writer *w, const char *key, const char *value) {
    put(w, key, json_string(value));
}

static void put_numbers(json_writer *w, const char *key, const double *values, int64_t count) {
    json_t *list = json_array();
    for (int64_t i = 0; i < count; i++)
        w->failed |= json_array_append_new(list, json_real(values[i])) != 0;
    put(w, key, list);
}

static void put_set(json_writer *w, const char *key, unsigned set, const gyre_config_enum_name *words) {
    json_t *list = json_array();
    for (; words->text; words++)
        if (set & (unsigned)words->value) w->failed |= json_array_append_new(list, json_string(words->text)) != 0;
    put(w, key, list);
}

/* What a config of this kind is by itself: fields that have the same value need not be said.  Where a kind needs more to be
 * one at all, all zeros. */
static position_config default_config(const position_config *c) {
    position_config plain = GYRE_INIT(gyre_config);
    gyre_encoding *encoding;
    plain.kind = c->kind;
    plain.head_dim = c->head_dim;
    plain.heads = c->heads;
    plain.trained_length = c->trained_length;
    plain.input.dim = c->input.dim;
    if (gyre_encoding_create(&encoding, &plain, NULL, NULL) != GYRE_OK) return plain;
    plain = *gyre_encoding_get_config(encoding);
    gyre_encoding_free(encoding);
    return plain;
}

static int is_equal(const gyre_config_field *f, position_config *a, position_config *b) {
    if (f->type == GYRE_CONFIG_NUMBER) return *gyre_config_double_field(a, f) == *gyre_config_double_field(b, f);
    if (f->type == GYRE_CONFIG_SIZE || f->type == GYRE_CONFIG_INTEGER)
        return *gyre_config_int64_field(a, f) == *gyre_config_int64_field(b, f);
    return *gyre_config_unsigned_field(a, f) == *gyre_config_unsigned_field(b, f);
}

static void put_field(json_writer *w, const gyre_config_field *f, position_config *c) {
    switch (f->type) {
    case GYRE_CONFIG_SIZE:
    case GYRE_CONFIG_INTEGER:
        put_size(w, f->key, *gyre_config_int64_field(c, f));
        break;
    case GYRE_CONFIG_NUMBER:
        put_number(w, f->key, *gyre_config_double_field(c, f));
        break;
    case GYRE_CONFIG_FLAG:
        put(w, f->key, json_boolean(*gyre_config_unsigned_field(c, f) != 0));
        break;
    case GYRE_CONFIG_ENUM:
        put_text(w, f->key, gyre_config_enum_text(f->enum_names, (int)*gyre_config_unsigned_field(c, f)));
        break;
    case GYRE_CONFIG_BITMASK:
        put_set(w, f->key, *gyre_config_unsigned_field(c, f), f->enum_names);
        break;
    }
}

/* A key that stands for another field under this kind is left out: the kind has no use for the field that owns it. */
static void put_fields(json_writer *w, const gyre_config_field *fields, const position_config *c) {
    position_config copy = *c, plain = default_config(c);
    for (const gyre_config_field *f = fields; f->key; f++)
        if (!is_equal(f, &copy, &plain) && !gyre_config_find_older(c->kind, f->key)) put_field(w, f, &copy);
}

/* 1 if no field of the list needs saying. */
static int all_default(const gyre_config_field *fields, const position_config *c) {
    position_config copy = *c, plain = default_config(c);
    for (const gyre_config_field *f = fields; f->key; f++)
        if (!is_equal(f, &copy, &plain)) return 0;
    return 1;
}

/* The smallest share that the reader truncates back to `dim`. */
static double rotary_fraction(int64_t dim, int64_t head_dim) {
    double share = (double)dim / (double)head_dim;
    if ((int64_t)((double)head_dim * share) < dim) share = nextafter(share, 1.0);
    return share;
}

/* 1 if the file must say the factor: 0 is the scaling's own, which is 1 for all but three. */
static int has_attention_factor(const struct gyre_rope_config *rope) {
    return rope->attention_factor != 0.0 &&
           (gyre_scaling_has_attention_factor(rope->scaling) || rope->attention_factor != 1.0);
}

/* 1 where transformers' Llama computes exactly this encoding from the keys below. */
static int is_llama(const position_config *c) {
    const gyre_scaling scaling = c->rope.scaling;
    const int known = scaling != GYRE_SCALING_NTK && scaling != GYRE_SCALING_BY_PARTS &&
                      scaling != GYRE_SCALING_BY_PARTS_PAPER && scaling != GYRE_SCALING_NTK_MIXED &&
                      scaling != GYRE_SCALING_DYNAMIC_YARN;
    return c->kind == GYRE_KIND_ROPE && all_default(gyre_rope_fields, c) && all_default(gyre_query_fields, c) &&
           c->rope.dim == c->head_dim && known &&
           (gyre_scaling_has_attention_factor(scaling) || !has_attention_factor(&c->rope));
}

/* The length that the model serves: L, or L stretched where the file keeps L beside it. */
static int64_t max_positions(const position_config *c) {
    const double most = 9007199254740992.0, length = c->rope.factor * (double)c->trained_length;
    if (c->kind != GYRE_KIND_ROPE || !gyre_scaling_has_original_length(c->rope.scaling)) return c->trained_length;
    return length < most ? (int64_t)llround(length) : (int64_t)most;
}

static void put_by_parts(json_writer *w, const struct gyre_rope_config *rope) {
    put_number(w, "beta_fast", rope->beta_fast);
    put_number(w, "beta_slow", rope->beta_slow);
    if (rope->fractional_bounds) put(w, "truncate", json_false());
    if (rope->mscale != 0.0) put_number(w, "mscale", rope->mscale);
    if (rope->mscale_all_dim != 0.0) put_number(w, "mscale_all_dim", rope->mscale_all_dim);
}

static json_t *scaling_json(const position_config *c) {
    const struct gyre_rope_config *rope = &c->rope;
    const int scaled = rope->scaling != GYRE_SCALING_NONE;
    json_writer w = {json_object(), 0};
    put_text(&w, "rope_type", gyre_config_enum_text(gyre_rope_types, (int)rope->scaling));
    if (scaled) put_number(&w, "factor", rope->factor);
    if (gyre_scaling_has_original_length(rope->scaling)) put_size(&w, "original_max_position_embeddings", c->trained_length);
    if (rope->scaling == GYRE_SCALING_BY_PARTS || rope->scaling == GYRE_SCALING_BY_PARTS_PAPER ||
        rope->scaling == GYRE_SCALING_YARN || rope->scaling == GYRE_SCALING_DYNAMIC_YARN)
        put_by_parts(&w, rope);
    if (rope->scaling == GYRE_SCALING_LLAMA3) {
        put_number(&w, "low_freq_factor", rope->low_freq);
        put_number(&w, "high_freq_factor", rope->high_freq);
    }
    if (rope->scaling == GYRE_SCALING_LONGROPE) {
        put_numbers(&w, "short_factor", rope->short_factor, rope->dim / 2);
        put_numbers(&w, "long_factor", rope->long_factor, rope->dim / 2);
    }
    if (rope->scaling == GYRE_SCALING_PROPORTIONAL) put_number(&w, "partial_rotary_factor", rope->proportion);
    if (has_attention_factor(rope)) put_number(&w, "attention_factor", rope->attention_factor);
    if (!w.failed) return w.object;
    json_decref(w.object);
    return NULL;
}

static void put_rope(json_writer *w, const position_config *c) {
    const struct gyre_rope_config *rope = &c->rope;
    const int plain = rope->scaling == GYRE_SCALING_NONE && !has_attention_factor(rope);
    put_number(w, "rope_theta", rope->base);
    put(w, "rope_scaling", plain ? json_null() : scaling_json(c));
    if (rope->dim != c->head_dim) put_number(w, "partial_rotary_factor", rotary_fraction(rope->dim, c->head_dim));
    if (rope->context_length > 0 && rope->context_length != c->trained_length)
        put_size(w, "rope_length", rope->context_length);
    put_fields(w, gyre_rope_fields, c);
    if (rope->axes <= 1) return;
    json_t *sections = json_array();
    for (int64_t a = 0; a < rope->axes; a++)
        w->failed |= json_array_append_new(sections, json_integer(rope->axis_pairs[a])) != 0;
    put(w, "rope_section", sections);
}

/* Slopes that the heads get by themselves are not in the config. */
static void put_slopes(json_writer *w, const position_config *c) {
    if (c->score.slopes) put_numbers(w, "alibi_slopes", c->score.slopes, c->heads);
    if (c->score.slopes_after) put_numbers(w, "alibi_slopes_after", c->score.slopes_after, c->heads);
}

static void put_position(json_writer *w, const position_config *c) {
    if (c->trained_length > 0) put_size(w, "max_position_embeddings", max_positions(c));
    if (is_llama(c)) {
        put_rope(w, c);
        return;
    }
    put_text(w, "position_embedding_type", gyre_kind_name(c->kind));
    put_fields(w, gyre_input_score_fields, c);
    put_fields(w, gyre_query_fields, c);
    if (c->kind == GYRE_KIND_ROPE) put_rope(w, c);
    if (c->score.slopes || c->score.slopes_after) put_slopes(w, c);
}

static void put_model(json_writer *w, const gyre_model_config *c, const char *dtype) {
    const int llama = is_llama(&c->position);
    put(w, "architectures", json_pack("[s]", llama ? "LlamaForCausalLM" : "GyreForCausalLM"));
    put_text(w, "model_type", llama ? "llama" : "gyre");
    put_text(w, "torch_dtype", dtype);
    put_size(w, "vocab_size", c->vocab);
    put_size(w, "hidden_size", c->model_dim);
    put_size(w, "intermediate_size", c->mlp_dim);
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
char *gyre_json_dump(const json_t *root) {
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

gyre_status gyre_model_config_to_json(const gyre_model_config *config, gyre_dtype dtype, char **out, gyre_error *err) {
    const char *name = dtype == GYRE_DTYPE_F32    ? "float32"
                       : dtype == GYRE_DTYPE_F16  ? "float16"
                       : dtype == GYRE_DTYPE_BF16 ? "bfloat16"
                                                  : NULL;
    if (!name) return gyre_fail(err, GYRE_EDTYPE, "dtype: %d is not F32, F16 or BF16 (config.json)", (int)dtype);
    json_writer w = {json_object(), 0};
    put_model(&w, config, name);
    char *text = w.failed ? NULL : gyre_json_dump(w.object);
    json_decref(w.object);
    if (!text) return gyre_fail(err, GYRE_ENOMEM, "config.json: no memory");
    *out = text;
    return GYRE_OK;
}
