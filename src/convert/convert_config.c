/* convert_config.c: the config.json of a converted model.
 *
 * If only the type of the weights changes, it is the source's text with that word replaced.  Otherwise it is written as
 * a llama, a qwen2 or a qwen3 that transformers reads.  If the layout of pairs is not what those classes expect,
 * model_type is "gyre", which no other program loads by mistake. */
#include "convert/conversion.h"

#include "files/json_write.h"
#include "model/architecture/model_config_json.h"
#include "model/model.h"
#include "reading/config_edit.h"
#include "reading/rope/rope_parameters.h"
#include "util/error.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *torch_dtype_name(gyre_stored_type type) {
    return type == GYRE_STORED_F32 ? "float32" : type == GYRE_STORED_BF16 ? "bfloat16" : "float16";
}

/* -- only another type -- */
static gyre_status edit_dtype(gyre_conversion *c, gyre_error *err) {
    static const char *const keys[] = {"torch_dtype", "dtype"}, *const objects[] = {"", "text_config"};
    const char *name = torch_dtype_name(gyre_convert_main_type(c));
    gyre_config_edit edit;
    int found = 0;
    gyre_edit_begin(&edit, c->source.config.text, c->source.config.bytes, err);
    for (int i = 0; i < 4 && !edit.status; i++)
        if (gyre_edit_has(&edit, objects[i / 2], keys[i % 2])) {
            gyre_edit_set(&edit, objects[i / 2], keys[i % 2], json_string(name), NULL);
            found = 1;
        }
    if (!found && !edit.status) gyre_edit_set(&edit, "", keys[0], json_string(name), "model_type");
    const gyre_status status = edit.status;
    if (!status) {
        c->config = edit.text;
        edit.text = NULL;
    }
    gyre_edit_end(&edit);
    return status;
}

/* -- a new file -- */
static const struct {
    const char *model_type, *class;
} classes[] = {{"llama", "LlamaForCausalLM"},
               {"qwen2", "Qwen2ForCausalLM"},
               {"qwen3", "Qwen3ForCausalLM"},
               {"gyre", "GyreForCausalLM"}};

static void put_family(gyre_json_writer *w, const char *model_type) {
    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++)
        if (strcmp(classes[i].model_type, model_type) == 0)
            gyre_json_put(w, "architectures", json_pack("[s]", classes[i].class));
    gyre_json_put_string(w, "model_type", model_type);
}

/* out = the decimal with the fewest digits that rounds to the same float.  A GGUF stores the number as a float. */
static double shortest_decimal(double x) {
    char text[32];
    for (int digits = 1; digits <= 9; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, x);
        if ((float)strtod(text, NULL) == (float)x) return strtod(text, NULL);
    }
    return x;
}

static void put_sizes(gyre_json_writer *w, const gyre_architecture *a, int of_gguf) {
    gyre_json_put_integer(w, "vocab_size", a->vocab);
    gyre_json_put_integer(w, "hidden_size", a->model_dim);
    gyre_json_put_integer(w, "intermediate_size", a->mlp_dim);
    gyre_json_put_integer(w, "num_hidden_layers", a->layers);
    gyre_json_put_integer(w, "num_attention_heads", a->heads);
    gyre_json_put_integer(w, "num_key_value_heads", a->kv_heads);
    gyre_json_put_integer(w, "head_dim", a->head_dim);
    gyre_json_put_number(w, "rms_norm_eps", of_gguf ? shortest_decimal(a->norm_epsilon) : a->norm_epsilon);
    gyre_json_put_string(w, "hidden_act", "silu");
}

static int has_bias(const gyre_conversion *c, gyre_tensor_role role) {
    char stem[96], name[112];
    if (!c->source.arch.names[role]) return 0;
    snprintf(stem, sizeof stem, c->source.arch.names[role], 0); /* NOLINT: a pattern of the families' table */
    snprintf(name, sizeof name, "%s.bias", stem);
    return gyre_convert_source_find(&c->source, name) != NULL;
}

/* For llama and gyre.  Classes of qwen have fixed biases. */
static void put_biases(gyre_json_writer *w, const gyre_conversion *c) {
    if (strcmp(c->family, "qwen2") == 0) return;
    gyre_json_put(w, "attention_bias", json_boolean(has_bias(c, GYRE_TENSOR_Q)));
    if (strcmp(c->family, "qwen3") != 0) gyre_json_put(w, "mlp_bias", json_boolean(has_bias(c, GYRE_TENSOR_UP)));
}

/* Returns 1 if lm_head is the embedding. */
static int is_tied(const gyre_conversion *c) {
    if (c->source.kind != GYRE_SOURCE_GGUF) return c->source.arch.tied;
    return gyre_convert_source_find(&c->source, "output.weight") == NULL;
}

static gyre_status put_rotation(gyre_json_writer *w, const gyre_conversion *c, gyre_error *err) {
    static const char *const old_keys[] = {"rope_theta",
                                           "rope_scaling",
                                           "rope_parameters",
                                           "rope_layout",
                                           "rope_length",
                                           "position_embedding_type",
                                           "partial_rotary_factor",
                                           "rope_interleaved"};
    const int native = strcmp(c->family, "gyre") == 0;
    gyre_rope_parameters parameters;
    for (size_t i = 0; i < sizeof old_keys / sizeof *old_keys; i++)
        (void)json_object_del(w->object, old_keys[i]);
    const gyre_status status = gyre_rope_parameters_of(
        c->encoding, c->length, native ? GYRE_DIALECT_NATIVE : GYRE_DIALECT_TRANSFORMERS, &parameters, err);
    if (status) return status;
    gyre_json_put_integer(w, "max_position_embeddings", parameters.length);
    if (native) gyre_json_put_string(w, "position_embedding_type", "rope");
    gyre_json_put_number(w, "rope_theta", parameters.base);
    if (strcmp(parameters.type, "default") == 0 && json_object_size(parameters.values) == 0) {
        gyre_json_put(w, "rope_scaling", json_null());
    } else {
        json_t *dict = json_pack("{s:s}", "rope_type", parameters.type);
        w->failed |= !dict || json_object_update(dict, parameters.values) != 0;
        gyre_json_put(w, "rope_scaling", dict);
    }
    if (native && c->to == GYRE_LAYOUT_INTERLEAVED) gyre_json_put_string(w, "rope_layout", "interleaved");
    json_decref(parameters.values);
    return GYRE_OK;
}

/* transformers looks for the begin and end tokens in config.json too. */
static void put_bos_eos(gyre_json_writer *w, const gyre_conversion *c) {
    static const struct {
        const char *key, *of_gguf;
    } ends[] = {{"bos_token_id", "tokenizer.ggml.bos_token_id"}, {"eos_token_id", "tokenizer.ggml.eos_token_id"}};
    for (int i = 0; i < 2; i++) {
        int64_t id = i + 1;
        if (c->source.kind == GYRE_SOURCE_FOLDER) continue;
        if (c->source.kind == GYRE_SOURCE_GGUF) {
            const gyre_gguf_kv *pair = gyre_gguf_find_key(gyre_tensor_store_gguf(c->source.store), ends[i].of_gguf);
            if (!pair || !gyre_gguf_integer(&pair->value, 0, &id)) continue;
        }
        gyre_json_put_integer(w, ends[i].key, id);
    }
}

static gyre_status write_all(gyre_json_writer *w, gyre_conversion *c, gyre_error *err) {
    put_family(w, c->family);
    gyre_json_put_string(w, json_object_get(w->object, "dtype") ? "dtype" : "torch_dtype",
                         torch_dtype_name(gyre_convert_main_type(c)));
    put_sizes(w, &c->source.arch, c->source.kind == GYRE_SOURCE_GGUF);
    put_biases(w, c);
    gyre_json_put(w, "tie_word_embeddings", json_boolean(is_tied(c)));
    put_bos_eos(w, c);
    return put_rotation(w, c, err);
}

/* A "gyre" config is only useful if Gyre can read it, so it is read back. */
static gyre_status check_native(const gyre_conversion *c, gyre_error *err) {
    gyre_model_config model = gyre_model_config_default();
    gyre_config_arrays arrays = {.slopes = NULL};
    gyre_architecture arch;
    gyre_config_document config;
    gyre_error why = {0, ""};
    gyre_status status = gyre_config_document_parse(&config, c->config, strlen(c->config), "config.json", &why);
    if (!status) {
        status = gyre_model_config_read(&config, &model, &arrays, &why);
        gyre_config_arrays_free(&arrays);
        if (status) status = gyre_architecture_from_config(&arch, &config, NULL);
        gyre_config_document_free(&config);
    }
    if (!status) return GYRE_OK;
    return gyre_fail(err, GYRE_EUNSUPPORTED,
                     "layout: no program reads interleaved pairs in a model like this one: %.200s (%s)", why.text,
                     c->source.path);
}

static gyre_status make_new(gyre_conversion *c, gyre_error *err) {
    gyre_json_writer w = {NULL, 0};
    if (!c->encoding)
        return gyre_fail(err, GYRE_EUNSUPPORTED, "positions: layers with different positions are not converted (%s)",
                         c->source.path);
    w.object = c->source.kind == GYRE_SOURCE_FOLDER ? json_deep_copy(c->source.config.root) : json_object();
    gyre_status status = w.object ? write_all(&w, c, err) : gyre_fail(err, GYRE_ENOMEM, "config.json: no memory");
    if (!status) {
        c->config = w.failed ? NULL : gyre_json_dump(w.object);
        if (!c->config) status = gyre_fail(err, GYRE_ENOMEM, "config.json: no memory");
    }
    json_decref(w.object);
    if (!status && strcmp(c->family, "gyre") == 0) status = check_native(c, err);
    return !status ? gyre_convert_check_positions(c, c->config, strlen(c->config), err) : status;
}

gyre_status gyre_convert_make_config(gyre_conversion *c, gyre_error *err) {
    const int same = c->source.kind == GYRE_SOURCE_FOLDER && strcmp(c->family, c->source.reading->model_type) == 0;
    if (same && (!c->encoding || c->to == c->declared_layout)) return edit_dtype(c, err);
    return make_new(c, err);
}
