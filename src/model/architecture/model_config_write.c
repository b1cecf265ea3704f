/* model_config_write.c: writes the config.json of a model made here.
 *
 * "model_type" is "llama" only if transformers' Llama computes the same numbers.  Every other model is a "gyre", which
 * no other program loads by mistake. */
#include "gyre/gyre_fields.h"
#include "model/architecture/layer_part_keys.h"
#include "model/architecture/model_config_json.h"
#include "util/error.h"

#include "core/encoding.h"
#include "files/json_write.h"
#include "reading/scaling_traits.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct gyre_config position_config;

static void put_numbers(gyre_json_writer *w, const char *key, const double *values, int64_t count) {
    json_t *list = json_array();
    for (int64_t i = 0; i < count; i++)
        w->failed |= json_array_append_new(list, json_real(values[i])) != 0;
    gyre_json_put(w, key, list);
}

static void put_set(gyre_json_writer *w, const gyre_config_field *f, unsigned set) {
    json_t *list = json_array();
    for (const gyre_field_name *n = f->names; n->text; n++)
        if (set & (unsigned)n->value) w->failed |= json_array_append_new(list, json_string(n->text)) != 0;
    gyre_json_put(w, f->key, list);
}

/* out = the default config of this kind.  Fields with the default value are not written.  A kind that has no valid
 * default gets zeros. */
static position_config default_config(const position_config *c) {
    position_config plain = GYRE_INIT(gyre_config);
    gyre_encoding *encoding;
    plain.kind = c->kind;
    plain.head_dim = c->head_dim;
    plain.heads = c->heads;
    plain.trained_length = c->trained_length;
    plain.input.dim = c->input.dim;
    if (gyre_encoding_create(&encoding, &plain, NULL, NULL)) return plain;
    plain = *gyre_encoding_get_config(encoding);
    gyre_encoding_free(encoding);
    return plain;
}

static int is_default(const gyre_config_field *f, const position_config *c, const position_config *plain) {
    const gyre_field_value a = gyre_config_get(c, f), b = gyre_config_get(plain, f);
    const int standard = f->standard != 0 && (f->type == GYRE_FIELD_NUMBER ? a.number : (double)a.integer) == f->standard;
    if (f->type == GYRE_FIELD_LIST) return !a.list;
    return (a.integer == b.integer && a.number == b.number) || standard;
}

static void put_field(gyre_json_writer *w, const gyre_config_field *f, const position_config *c) {
    const gyre_field_value value = gyre_config_get(c, f);
    switch (f->type) {
    case GYRE_FIELD_COUNT:
    case GYRE_FIELD_LENGTH:
    case GYRE_FIELD_INTEGER:
        gyre_json_put_integer(w, f->key, value.integer);
        break;
    case GYRE_FIELD_NUMBER:
        gyre_json_put_number(w, f->key, value.number);
        break;
    case GYRE_FIELD_FLAG:
        gyre_json_put(w, f->key, json_boolean(value.integer != 0));
        break;
    case GYRE_FIELD_CHOICE:
        gyre_json_put_string(w, f->key, gyre_field_spelling(f, (int)value.integer));
        break;
    case GYRE_FIELD_SET:
        put_set(w, f, (unsigned)value.integer);
        break;
    case GYRE_FIELD_LIST:
        put_numbers(w, f->key, value.list, gyre_config_list_length(c, f));
        break;
    }
}

/* Fields with a key whose name begins so: of one place of gyre_config. */
static void put_fields(gyre_json_writer *w, const char *place, const position_config *c) {
    const position_config plain = default_config(c);
    const gyre_config_field *f;
    for (int i = 0; (f = gyre_config_field_at(i)); i++)
        if (f->key && strncmp(f->name, place, strlen(place)) == 0 && !is_default(f, c, &plain)) put_field(w, f, c);
}

/* 1 if each of them has its default value. */
static int all_default(const char *place, const position_config *c) {
    const position_config plain = default_config(c);
    const gyre_config_field *f;
    for (int i = 0; (f = gyre_config_field_at(i)); i++)
        if (f->key && strncmp(f->name, place, strlen(place)) == 0 && !is_default(f, c, &plain)) return 0;
    return 1;
}

/* out = the smallest fraction that the reader truncates back to `dim`. */
static double rotary_fraction(int64_t dim, int64_t head_dim) {
    double fraction = (double)dim / (double)head_dim;
    if ((int64_t)((double)head_dim * fraction) < dim) fraction = nextafter(fraction, 1.0);
    return fraction;
}

/* 1 if the attention factor must be written.  0 means the scaling's own, which is 1 for all but three scalings. */
static int has_attention_factor(const struct gyre_rope_config *rope) {
    return rope->attention_factor != 0.0 &&
           (gyre_scaling_has_attention_factor(rope->scaling) || rope->attention_factor != 1.0);
}

/* 1 if transformers' Llama computes exactly this encoding from the keys below. */
static int is_llama(const gyre_model_config *model) {
    const position_config *c = &model->position;
    if (model->position_form || model->shared_tables || model->rotates_input || model->layer_parts || model->layer_bases)
        return 0;
    const gyre_scaling scaling = c->rope.scaling;
    const int known = scaling != GYRE_SCALING_NTK && scaling != GYRE_SCALING_BY_PARTS &&
                      scaling != GYRE_SCALING_BY_PARTS_PAPER && scaling != GYRE_SCALING_NTK_MIXED &&
                      scaling != GYRE_SCALING_DYNAMIC_YARN;
    return gyre_kind_has(c->kind, GYRE_TRAIT_ROTATES) && all_default("rope.", c) && all_default("length_", c) &&
           all_default("query.", c) && c->rope.dim == c->head_dim && known &&
           (gyre_scaling_has_attention_factor(scaling) || !has_attention_factor(&c->rope));
}

/* out = the length that the model serves: the trained length L, times the factor if the file also has L. */
static int64_t max_positions(const position_config *c) {
    const double max = 9007199254740992.0, length = c->rope.factor * (double)c->trained_length;
    if (!gyre_kind_has(c->kind, GYRE_TRAIT_ROTATES) || !gyre_scaling_has_original_length(c->rope.scaling))
        return c->trained_length;
    return length < max ? (int64_t)llround(length) : (int64_t)max;
}

static void put_by_parts(gyre_json_writer *w, const struct gyre_rope_config *rope) {
    gyre_json_put_number(w, "beta_fast", rope->beta_fast);
    gyre_json_put_number(w, "beta_slow", rope->beta_slow);
    if (rope->fractional_bounds) gyre_json_put(w, "truncate", json_false());
    if (rope->mscale != 0.0) gyre_json_put_number(w, "mscale", rope->mscale);
    if (rope->mscale_all_dim != 0.0) gyre_json_put_number(w, "mscale_all_dim", rope->mscale_all_dim);
}

static json_t *scaling_json(const position_config *c) {
    const struct gyre_rope_config *rope = &c->rope;
    const int scaled = rope->scaling != GYRE_SCALING_NONE;
    gyre_json_writer w = {json_object(), 0};
    gyre_json_put_string(&w, "rope_type", gyre_rope_type(rope->scaling));
    if (scaled) gyre_json_put_number(&w, "factor", rope->factor);
    if (gyre_scaling_has_original_length(rope->scaling))
        gyre_json_put_integer(&w, "original_max_position_embeddings", c->trained_length);
    if (rope->scaling == GYRE_SCALING_BY_PARTS || rope->scaling == GYRE_SCALING_BY_PARTS_PAPER ||
        rope->scaling == GYRE_SCALING_YARN || rope->scaling == GYRE_SCALING_DYNAMIC_YARN)
        put_by_parts(&w, rope);
    if (rope->scaling == GYRE_SCALING_LLAMA3) {
        gyre_json_put_number(&w, "low_freq_factor", rope->low_freq);
        gyre_json_put_number(&w, "high_freq_factor", rope->high_freq);
    }
    if (rope->scaling == GYRE_SCALING_LONGROPE) {
        put_numbers(&w, "short_factor", rope->short_factor, rope->dim / 2);
        put_numbers(&w, "long_factor", rope->long_factor, rope->dim / 2);
    }
    if (rope->scaling == GYRE_SCALING_PROPORTIONAL) gyre_json_put_number(&w, "partial_rotary_factor", rope->proportion);
    if (has_attention_factor(rope)) gyre_json_put_number(&w, "attention_factor", rope->attention_factor);
    if (!w.failed) return w.object;
    json_decref(w.object);
    return NULL;
}

static void put_length(gyre_json_writer *w, const position_config *c) {
    if (c->context_length > 0) gyre_json_put_integer(w, "rope_length", c->context_length);
    put_fields(w, "length_", c);
}

static void put_rope(gyre_json_writer *w, const position_config *c) {
    const struct gyre_rope_config *rope = &c->rope;
    const int plain = rope->scaling == GYRE_SCALING_NONE && !has_attention_factor(rope);
    gyre_json_put_number(w, "rope_theta", rope->base);
    gyre_json_put(w, "rope_scaling", plain ? json_null() : scaling_json(c));
    if (rope->dim != c->head_dim) gyre_json_put_number(w, "partial_rotary_factor", rotary_fraction(rope->dim, c->head_dim));
    put_fields(w, "rope.", c);
    put_length(w, c);
    if (rope->axes <= 1) return;
    json_t *sections = json_array();
    for (int64_t a = 0; a < rope->axes; a++)
        w->failed |= json_array_append_new(sections, json_integer(rope->axis_pairs[a])) != 0;
    gyre_json_put(w, "rope_section", sections);
}

/* Only slopes that differ from the scheme's own are in the config. */
static void put_slopes(gyre_json_writer *w, const position_config *c) {
    if (c->score.slopes) put_numbers(w, "alibi_slopes", c->score.slopes, c->heads);
    if (c->score.slopes_after) put_numbers(w, "alibi_slopes_after", c->score.slopes_after, c->heads);
}

static void put_position(gyre_json_writer *w, const position_config *c, int llama) {
    if (c->trained_length > 0) gyre_json_put_integer(w, "max_position_embeddings", max_positions(c));
    if (llama) {
        put_rope(w, c);
        return;
    }
    gyre_json_put_string(w, "position_embedding_type", gyre_kind_name(c->kind));
    put_fields(w, "input.", c);
    put_fields(w, "score.", c);
    put_fields(w, "query.", c);
    if (gyre_kind_has(c->kind, GYRE_TRAIT_ROTATES))
        put_rope(w, c);
    else if (gyre_config_has(c, "context_length"))
        put_length(w, c);
    if (c->score.slopes || c->score.slopes_after) put_slopes(w, c);
}

static void put_model(gyre_json_writer *w, const gyre_model_config *c, const char *dtype) {
    static const char *const forms[] = {"sum", "product", "concatenated"};
    const int llama = is_llama(c);
    gyre_json_put(w, "architectures", json_pack("[s]", llama ? "LlamaForCausalLM" : "GyreForCausalLM"));
    gyre_json_put_string(w, "model_type", llama ? "llama" : "gyre");
    gyre_json_put_string(w, "torch_dtype", dtype);
    gyre_json_put_integer(w, "vocab_size", c->vocab);
    gyre_json_put_integer(w, "hidden_size", c->model_dim);
    gyre_json_put_integer(w, "intermediate_size", c->mlp_dim);
    gyre_json_put_integer(w, "num_hidden_layers", c->layers);
    gyre_json_put_integer(w, "num_attention_heads", c->heads);
    gyre_json_put_integer(w, "num_key_value_heads", c->kv_heads);
    gyre_json_put_integer(w, "head_dim", c->head_dim);
    gyre_json_put_number(w, "rms_norm_eps", c->norm_epsilon);
    gyre_json_put_string(w, "hidden_act", "silu");
    gyre_json_put(w, "attention_bias", json_false());
    gyre_json_put(w, "mlp_bias", json_false());
    gyre_json_put(w, "tie_word_embeddings", json_true());
    if (c->position_form) gyre_json_put_string(w, "position_form", forms[c->position_form]);
    if (c->shared_tables) gyre_json_put(w, "shared_tables", json_true());
    if (c->rotates_input) gyre_json_put(w, "rotates_input", json_true());
    gyre_layer_parts_write(w, c->layer_parts);
    put_position(w, &c->position, llama);
    if (c->layer_bases) put_numbers(w, "layer_rope_theta", c->layer_bases, c->layers);
}

/* What no config.json states. */
static gyre_status check_stated(const position_config *c, gyre_error *err) {
    for (int64_t a = 0; a < GYRE_MAX_AXES; a++)
        if (c->rope.axis[a].own)
            return gyre_fail(err, GYRE_EUNSUPPORTED, "axis[%lld]: a config.json cannot state it (gyre_model_config)",
                             (long long)a);
    if (!c->rope.diffusion.timed) return GYRE_OK;
    return gyre_fail(err, GYRE_EUNSUPPORTED, "diffusion: a config.json cannot state it (gyre_model_config)");
}

gyre_status gyre_model_config_to_json(const gyre_model_config *config, gyre_dtype dtype, char **out, gyre_error *err) {
    const char *name = dtype == GYRE_DTYPE_F32    ? "float32"
                       : dtype == GYRE_DTYPE_F16  ? "float16"
                       : dtype == GYRE_DTYPE_BF16 ? "bfloat16"
                                                  : NULL;
    if (!name) return gyre_fail(err, GYRE_EDTYPE, "dtype: %d is not F32, F16 or BF16 (config.json)", (int)dtype);
    const gyre_status status = check_stated(&config->position, err);
    if (status) return status;
    gyre_json_writer w = {json_object(), 0};
    put_model(&w, config, name);
    char *text = w.failed ? NULL : gyre_json_dump(w.object);
    json_decref(w.object);
    if (!text) return gyre_fail(err, GYRE_ENOMEM, "config.json: no memory");
    *out = text;
    return GYRE_OK;
}
