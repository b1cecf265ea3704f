/* model_config_read.c: reads the config.json of a model to be trained.  Positions come from the same reader that `gyre
 * explain` uses, with the profile of transformers 5, so what is explained is what runs. */
#include "gyre/gyre_fields.h"
#include "model/architecture/layer_part_keys.h"
#include "model/architecture/model_config_json.h"

#include "model/model.h"
#include "reading/family.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct gyre_config position_config;

void gyre_config_arrays_free(gyre_config_arrays *arrays) {
    free(arrays->short_factor);
    free(arrays->long_factor);
    free(arrays->frequencies);
    free(arrays->slopes);
    free(arrays->slopes_after);
    free(arrays->layer_bases);
    *arrays = (gyre_config_arrays){.slopes = NULL};
}

/* -- the model -- */
static int is_ok(const gyre_scope *s) {
    return !gyre_build_status(s->source->build);
}

static int64_t required_size(const gyre_scope *s, const char *key) {
    if (!gyre_scope_value(s, key)) gyre_scope_fail(s, GYRE_EFORMAT, key, "missing");
    return gyre_scope_integer(s, key, 1, 1);
}

static void read_sizes(const gyre_scope *s, gyre_model_config *c) {
    c->vocab = required_size(s, "vocab_size");
    c->model_dim = required_size(s, "hidden_size");
    c->layers = required_size(s, "num_hidden_layers");
    c->heads = required_size(s, "num_attention_heads");
    c->mlp_dim = required_size(s, "intermediate_size");
    c->norm_epsilon = gyre_scope_number(s, "rms_norm_eps", NAN);
    if (!(c->norm_epsilon > 0.0)) gyre_scope_fail(s, GYRE_EFORMAT, "rms_norm_eps", "not above 0");
    if (!is_ok(s)) return;
    c->kv_heads = gyre_scope_integer(s, "num_key_value_heads", 1, c->heads);
    c->head_dim = gyre_scope_integer(s, "head_dim", 1, c->model_dim / c->heads);
    if (!gyre_scope_value(s, "head_dim") && c->model_dim % c->heads != 0)
        gyre_scope_fail(s, GYRE_EFORMAT, "head_dim", "missing, and hidden_size is not a multiple of num_attention_heads");
}

/* Refuses what a model made here cannot compute.  Defaults are those of transformers' Llama. */
static void check_architecture(const gyre_scope *s) {
    static const char *const biases[] = {"attention_bias", "mlp_bias"};
    if (!gyre_scope_bool(s, "tie_word_embeddings", 0))
        gyre_scope_fail(s, GYRE_EUNSUPPORTED, "tie_word_embeddings",
                        "false: only models that share the embedding with the output are read");
    for (int i = 0; i < 2; i++)
        if (gyre_scope_bool(s, biases[i], 0))
            gyre_scope_fail(s, GYRE_EUNSUPPORTED, biases[i], "true: layers have no biases here");
    if (strcmp(gyre_scope_string(s, "hidden_act", "silu"), "silu") != 0)
        gyre_scope_fail(s, GYRE_EUNSUPPORTED, "hidden_act", "only silu is computed");
    if (gyre_scope_value(s, "quantization_config"))
        gyre_scope_fail(s, GYRE_EUNSUPPORTED, "quantization_config", "quantized weights are not read");
}

/* -- positions -- */
/* *out = a copy of the list, which the caller frees. */
static const double *copy_array(const gyre_scope *s, const double *list, int64_t count, double **out) {
    if (!list || !is_ok(s)) return NULL;
    *out = malloc((size_t)count * sizeof **out);
    if (!*out)
        gyre_build_fail(s->source->build, GYRE_ENOMEM, NULL, "config: no memory");
    else
        memcpy(*out, list, (size_t)count * sizeof **out);
    return *out;
}

static void read_position(const gyre_scope *s, const gyre_family *family, gyre_model_config *c, gyre_config_arrays *arrays) {
    family->read(family, s);
    if (!is_ok(s)) return;
    const gyre_layer_group *all = gyre_build_find_group(s->source->build, "all");
    if (!all && family->read == gyre_read_native) {
        all = gyre_build_find_group(s->source->build, GYRE_NATIVE_ROTATES);
        c->layer_bases =
            copy_array(s, gyre_scope_numbers(s, "layer_rope_theta", c->layers), c->layers, &arrays->layer_bases);
        c->layer_bases_count = c->layers;
    }
    if (!all) {
        gyre_scope_fail(s, GYRE_EUNSUPPORTED, gyre_scope_value(s, "layer_types") ? "layer_types" : "rope_parameters",
                        "positions that differ from layer to layer are not run");
        return;
    }
    if (!is_ok(s)) return;
    c->position = all->config;
    /* The default context length.  rope_length is Gyre's own key, in a Llama's file too. */
    c->position.context_length =
        gyre_config_has(&c->position, "context_length") ? gyre_scope_integer(s, "rope_length", 1, 0) : 0;
    c->position.head_dim = gyre_rotated_head_dim(c);
    c->position.heads = c->heads;
    c->position.input.dim = c->model_dim;
    struct gyre_rope_config *rope = &c->position.rope;
    rope->short_factor = copy_array(s, rope->short_factor, rope->dim / 2, &arrays->short_factor);
    rope->long_factor = copy_array(s, rope->long_factor, rope->dim / 2, &arrays->long_factor);
    rope->frequencies = copy_array(s, rope->frequencies, rope->dim / 2, &arrays->frequencies);
    c->position.score.slopes = copy_array(s, c->position.score.slopes, c->heads, &arrays->slopes);
    c->position.score.slopes_after = copy_array(s, c->position.score.slopes_after, c->heads, &arrays->slopes_after);
}

/* The keys of a gyre alone. */
static void read_experiments(const gyre_scope *s, gyre_model_config *c) {
    static const char *const forms[] = {"sum", "product", "concatenated"};
    const char *form = gyre_scope_string(s, "position_form", forms[0]);
    while (c->position_form < 3 && strcmp(form, forms[c->position_form]) != 0)
        c->position_form++;
    if (c->position_form == 3) gyre_scope_fail(s, GYRE_EFORMAT, "position_form", "none of sum, product, concatenated");
    c->shared_tables = gyre_scope_bool(s, "shared_tables", 0);
    c->rotates_input = gyre_scope_bool(s, "rotates_input", 0);
    c->layer_parts = gyre_layer_parts_read(s);
}

static void read_model(const gyre_scope *s, gyre_model_config *c, gyre_config_arrays *arrays) {
    const char *type = gyre_scope_string(s, "model_type", NULL);
    const gyre_family *family = gyre_family_of(type);
    if (!family || (strcmp(type, "llama") != 0 && strcmp(type, "gyre") != 0))
        gyre_scope_fail(s, GYRE_EUNSUPPORTED, "model_type", "\"%.60s\" is not run, but llama and gyre are", type);
    check_architecture(s);
    read_sizes(s, c);
    if (strcmp(type, "gyre") == 0) read_experiments(s, c);
    if (family && is_ok(s)) read_position(s, family, c, arrays);
}

gyre_status gyre_model_config_read(const gyre_config_document *config, gyre_model_config *out, gyre_config_arrays *arrays,
                                   gyre_error *err) {
    gyre_build *build = gyre_build_begin(config->path, "config.json", GYRE_PROFILE_HF_5, 0, err);
    if (!build) return GYRE_ENOMEM;
    gyre_model_config read = gyre_model_config_default();
    gyre_config_arrays lists = {.slopes = NULL};
    const gyre_json_source source = {build, config->text, config->bytes, NULL, NULL};
    const gyre_scope s = {&source, config->root, ""};
    read_model(&s, &read, &lists);
    const gyre_status status = gyre_build_status(build);
    if (!status) {
        *out = read;
        gyre_model_config_complete(out);
        *arrays = lists;
    } else {
        gyre_config_arrays_free(&lists);
    }
    gyre_build_discard(build);
    return status;
}

gyre_status gyre_model_config_parse(const char *json, size_t bytes, const char *path, gyre_model_config *out,
                                    gyre_config_arrays *arrays, gyre_error *err) {
    gyre_config_document document;
    gyre_status status = gyre_config_document_parse(&document, json, bytes, path, err);
    if (status) return status;
    status = gyre_model_config_read(&document, out, arrays, err);
    gyre_config_document_free(&document);
    return status;
}
