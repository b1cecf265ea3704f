/* architecture_config.c: what the decoder of a config.json computes. */
#include "model/architecture/architecture_names.h"

#include "core/encoding.h"
#include "files/json_load.h"
#include "reading/family.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MOST_SIZE = INT32_MAX / 4, MOST_LAYERS = 1 << 16 };

static int is_ok(const gyre_scope *s) {
    return gyre_build_status(s->source->build) == GYRE_OK;
}

/* -- sizes ------------------------------------------------------------------------------------------------------------- */
static const char *const names_of_vocab[] = {"vocab_size", NULL};
static const char *const names_of_width[] = {"hidden_size", "n_embd", "n_embed", "d_model", NULL};
static const char *const names_of_layers[] = {"num_hidden_layers", "n_layer", "n_layers", "num_layers", NULL};
static const char *const names_of_heads[] = {"num_attention_heads", "n_head", "n_heads", "num_heads", NULL};
static const char *const names_of_hidden[] = {"intermediate_size", "n_inner", "ffn_hidden_size", NULL};
static const char *const names_of_epsilon[] = {"rms_norm_eps", "layer_norm_eps", "layer_norm_epsilon", "norm_epsilon", NULL};
static const char *const names_of_activation[] = {"hidden_activation", "hidden_act", "activation_function", NULL};

static int64_t size_of(const gyre_scope *s, const char *const *names, int64_t most, int64_t fallback) {
    const char *key = gyre_scope_first(s, names);
    const int64_t size = key ? gyre_scope_size(s, key, 1, fallback) : fallback;
    if (size < 1) gyre_scope_fail(s, GYRE_EFORMAT, names[0], "missing");
    if (size > most) gyre_scope_fail(s, GYRE_EFORMAT, key, "%lld is past %lld", (long long)size, (long long)most);
    return size;
}

static int64_t kv_heads_of(const gyre_scope *s, const gyre_architecture *a, int64_t of_class) {
    const int64_t given = gyre_scope_size(s, "num_key_value_heads", 1, of_class);
    if (given < 1 || given > a->heads || a->heads % given != 0)
        gyre_scope_fail(s, GYRE_EFORMAT, "num_key_value_heads", "%lld does not divide the %lld heads", (long long)given,
                        (long long)a->heads);
    if (a->fused == GYRE_FUSED_HEADS && given != a->heads)
        gyre_scope_fail(s, GYRE_EUNSUPPORTED, "num_key_value_heads",
                        "%lld of %lld heads: query, key and value of each stand together in this family", (long long)given,
                        (long long)a->heads);
    return given;
}

static int64_t head_dim_of(const gyre_scope *s, const gyre_architecture *a) {
    const gyre_family *family = gyre_family_of(a->family);
    const int64_t of_class = family ? family->head_dim : 0;
    const int64_t dim = gyre_scope_size(s, "head_dim", 1, of_class ? of_class : a->width / a->heads);
    if (!gyre_scope_value(s, "head_dim") && !of_class && a->width % a->heads != 0)
        gyre_scope_fail(s, GYRE_EFORMAT, "head_dim", "missing, and the width is no multiple of the heads");
    if (dim < 1 || dim > MOST_SIZE / a->heads) gyre_scope_fail(s, GYRE_EFORMAT, "head_dim", "%lld", (long long)dim);
    return dim;
}

/* What a class has where its config is silent: of families whose published files rely on it. */
typedef struct class_sizes {
    int64_t vocab, width, layers, heads, kv_heads, hidden;
} class_sizes;

static class_sizes sizes_of_class(const gyre_architecture *a) {
    if (strncmp(a->family, "gemma3", 6) == 0) return (class_sizes){262208, 2304, 26, 8, 4, 9216};
    return (class_sizes){0};
}

static void read_sizes(const gyre_scope *s, gyre_architecture *a) {
    const class_sizes class = sizes_of_class(a);
    a->vocab = size_of(s, names_of_vocab, MOST_SIZE, class.vocab);
    a->width = size_of(s, names_of_width, MOST_SIZE, class.width);
    a->layers = size_of(s, names_of_layers, MOST_LAYERS, class.layers);
    a->heads = size_of(s, names_of_heads, MOST_SIZE, class.heads);
    if (!is_ok(s) || a->heads < 1) return;
    const int64_t four = a->width <= MOST_SIZE / 4 ? 4 * a->width : MOST_SIZE;
    a->hidden = size_of(s, names_of_hidden, MOST_SIZE, a->gated ? class.hidden : four);
    a->kv_heads = kv_heads_of(s, a, class.kv_heads ? class.kv_heads : a->heads);
    a->head_dim = is_ok(s) ? head_dim_of(s, a) : 1;
}

/* -- what is computed -------------------------------------------------------------------------------------------------- */
static void read_activation(const gyre_scope *s, gyre_architecture *a) {
    static const struct {
        const char *name;
        gyre_activation activation;
    } known[] = {{"silu", GYRE_SILU},          {"swish", GYRE_SILU},          {"gelu", GYRE_GELU},
                 {"gelu_new", GYRE_GELU_TANH}, {"gelu_fast", GYRE_GELU_TANH}, {"gelu_pytorch_tanh", GYRE_GELU_TANH},
                 {"relu", GYRE_RELU}};
    /* Gemma's hidden_act speaks of the exact GELU, which its class has never computed. */
    const int is_gemma = strncmp(a->family, "gemma", 5) == 0;
    const char *key = gyre_scope_first(s, names_of_activation);
    if (!key || (is_gemma && strcmp(key, "hidden_activation") != 0)) return;
    const char *name = gyre_scope_text(s, key, "silu");
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(known[i].name, name) == 0) {
            a->activation = known[i].activation;
            return;
        }
    gyre_scope_fail(s, GYRE_EUNSUPPORTED, key, "\"%.60s\" is not computed", name);
}

static double number_above_0(const gyre_scope *s, const char *key, double fallback) {
    const double x = gyre_scope_number(s, key, fallback);
    if (is_ok(s) && !(x > 0.0)) gyre_scope_fail(s, GYRE_EFORMAT, key, "%g is not above 0", x);
    return x;
}

static double cap_of(const gyre_scope *s, const char *key, double of_class) {
    if (!gyre_scope_value(s, key)) return gyre_scope_has(s, key) ? 0 : of_class;
    return number_above_0(s, key, 1);
}

static void read_traits(const gyre_scope *s, const gyre_family_row *row, gyre_architecture *a) {
    static const uint32_t inputs = 1u << GYRE_ROLE_QKV | 1u << GYRE_ROLE_Q | 1u << GYRE_ROLE_K | 1u << GYRE_ROLE_V;
    static const uint32_t attention = inputs | 1u << GYRE_ROLE_O;
    static const uint32_t perceptron =
        1u << GYRE_ROLE_GATE_UP | 1u << GYRE_ROLE_GATE | 1u << GYRE_ROLE_UP | 1u << GYRE_ROLE_DOWN;
    const int is_gemma2 = strcmp(a->family, "gemma2") == 0;
    if (row->traits & GYRE_TAKES_BIAS_FLAGS) {
        a->biases |= gyre_scope_flag(s, "attention_bias", 0) ? attention : 0;
        a->biases |= gyre_scope_flag(s, "mlp_bias", 0) ? perceptron : 0;
    }
    if (row->traits & GYRE_SCALED_EMBEDDING) a->embed_scale = sqrt((double)a->width);
    if (row->traits & GYRE_SOFTCAPS) {
        a->score_cap = cap_of(s, "attn_logit_softcapping", is_gemma2 ? 50 : 0);
        a->logit_cap = cap_of(s, "final_logit_softcapping", is_gemma2 ? 30 : 0);
    }
    if (row->traits & GYRE_GRANITE_SCALES) {
        a->embed_scale = gyre_scope_number(s, "embedding_multiplier", 1);
        a->residual_scale = gyre_scope_number(s, "residual_multiplier", 1);
        a->logit_scale = 1 / number_above_0(s, "logits_scaling", 1);
    }
    if (row->traits & GYRE_LOGIT_SCALE) a->logit_scale = gyre_scope_number(s, "logit_scale", 0.0625);
    if (row->traits & GYRE_PARALLEL_FLAG) a->parallel = gyre_scope_flag(s, "use_parallel_residual", row->parallel);
    if (strcmp(a->family, "starcoder2") == 0 && gyre_scope_flag(s, "use_bias", 1)) a->biases |= attention | perceptron;
    if (strcmp(a->family, "stablelm") == 0 && gyre_scope_flag(s, "use_qkv_bias", 0)) a->biases |= inputs;
    if (strcmp(a->family, "gpt_neox") == 0 && gyre_scope_flag(s, "attention_bias", 1))
        a->biases |= 1u << GYRE_ROLE_QKV | 1u << GYRE_ROLE_O;
}

/* What its authors' code (llm-foundry) can be told, and transformers' class passes over. */
static void refuse_of_mpt(const gyre_scope *s, const gyre_scope *attention) {
    const char *type = gyre_scope_text(attention, "attn_type", "multihead_attention");
    if (strcmp(type, "multihead_attention") != 0 && strcmp(type, "grouped_query_attention") != 0)
        gyre_scope_fail(attention, GYRE_EUNSUPPORTED, "attn_type", "\"%.60s\" is not computed", type);
    if (gyre_scope_flag(attention, "prefix_lm", 0))
        gyre_scope_fail(attention, GYRE_EUNSUPPORTED, "prefix_lm", "true: attention to later tokens is not computed");
    if (gyre_scope_flag(attention, "qk_ln", 0))
        gyre_scope_fail(attention, GYRE_EUNSUPPORTED, "qk_ln", "true: norms of whole queries are not computed");
    if (gyre_scope_flag(attention, "qk_gn", 0))
        gyre_scope_fail(attention, GYRE_EUNSUPPORTED, "qk_gn", "true: norms of queries by head are not computed");
    const char *norm = gyre_scope_text(s, "norm_type", "low_precision_layernorm");
    if (strcmp(norm, "low_precision_layernorm") != 0 && strcmp(norm, "layernorm") != 0)
        gyre_scope_fail(s, GYRE_EUNSUPPORTED, "norm_type", "\"%.60s\" is not computed for mpt", norm);
    if (gyre_scope_value(s, "block_overrides"))
        gyre_scope_fail(s, GYRE_EUNSUPPORTED, "block_overrides", "layers that differ are not read");
    if (!gyre_scope_value(s, "ffn_config")) return;
    const gyre_scope perceptron = gyre_scope_into(s, "ffn_config");
    const char *ffn = gyre_scope_text(&perceptron, "ffn_type", "mptmlp");
    if (strcmp(ffn, "mptmlp") != 0)
        gyre_scope_fail(&perceptron, GYRE_EUNSUPPORTED, "ffn_type", "\"%.60s\" is not computed", ffn);
}

/* MPT keeps what concerns attention in an object of its own. */
static void read_mpt(const gyre_scope *s, gyre_architecture *a) {
    const gyre_scope attention = gyre_scope_into(s, "attn_config");
    refuse_of_mpt(s, &attention);
    const double ratio = number_above_0(s, "expansion_ratio", 4);
    const double hidden = ratio * (double)a->width;
    if (!is_ok(s)) return;
    if (!(hidden >= 1 && hidden <= MOST_SIZE)) gyre_scope_fail(s, GYRE_EFORMAT, "expansion_ratio", "%g", ratio);
    a->hidden = is_ok(s) ? (int64_t)hidden : 1;
    if (gyre_scope_value(&attention, "clip_qkv")) a->clip_qkv = number_above_0(&attention, "clip_qkv", 1);
    if (!gyre_scope_flag(s, "no_bias", 1)) a->biases = GYRE_ALL_BIASES;
    if (gyre_scope_value(&attention, "kv_n_heads")) {
        a->kv_heads = gyre_scope_size(&attention, "kv_n_heads", 1, a->heads);
        if (is_ok(s) && (a->kv_heads > a->heads || a->heads % a->kv_heads != 0))
            gyre_scope_fail(&attention, GYRE_EFORMAT, "kv_n_heads", "%lld does not divide the heads",
                            (long long)a->kv_heads);
    }
    if (gyre_scope_value(s, "logit_scale") && gyre_scope_number(s, "logit_scale", 1) != 1)
        gyre_scope_fail(s, GYRE_EUNSUPPORTED, "logit_scale", "scaled logits are not computed for mpt");
}

/* Keys that ask for something else than what the decoder computes. */
static void refuse_what_is_not_done(const gyre_scope *s) {
    static const struct {
        const char *key, *why;
    } flags[] = {{"qk_layernorm", "norms of queries and keys with biases are not computed"},
                 {"use_qk_norm", "norms of queries and keys by head are not computed for this family"},
                 {"scale_attn_by_inverse_layer_idx", "scores scaled by layer are not computed"},
                 {"apply_residual_connection_post_layernorm", "a residual taken after the norm is not computed"},
                 {"add_cross_attention", "an encoder is not read"},
                 {"use_bidirectional_attention", "attention to later tokens is not computed by a decoder"},
                 {"alibi_with_sinks", "not computed"}};
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
        if (gyre_scope_value(s, flags[i].key) && gyre_scope_flag(s, flags[i].key, 0))
            gyre_scope_fail(s, GYRE_EUNSUPPORTED, flags[i].key, "true: %s", flags[i].why);
    if (gyre_scope_value(s, "quantization_config"))
        gyre_scope_fail(s, GYRE_EUNSUPPORTED, "quantization_config", "quantized safetensors are not read");
    if (gyre_scope_value(s, "num_experts") || gyre_scope_value(s, "num_local_experts"))
        gyre_scope_fail(s, GYRE_EUNSUPPORTED, gyre_scope_value(s, "num_experts") ? "num_experts" : "num_local_experts",
                        "a mixture of experts is not run");
}

static void read_family(const gyre_scope *s, const gyre_family_row *row, gyre_architecture *a) {
    gyre_architecture_from_row(a, row);
    read_sizes(s, a);
    if (!is_ok(s)) return;
    a->norm_epsilon = row->epsilon;
    const char *epsilon = gyre_scope_first(s, names_of_epsilon);
    if (epsilon) a->norm_epsilon = number_above_0(s, epsilon, row->epsilon);
    a->tied = gyre_scope_flag(s, "tie_word_embeddings", row->tied);
    read_activation(s, a);
    read_traits(s, row, a);
    if (row->traits & GYRE_MPT_KEYS) read_mpt(s, a);
    refuse_what_is_not_done(s);
}

void gyre_architecture_from_row(gyre_architecture *a, const gyre_family_row *row) {
    *a = (gyre_architecture){.names = row->names,
                             .prefix = row->prefix,
                             .norm = row->norm,
                             .gain_offset = row->gain_offset,
                             .activation = row->activation,
                             .gated = row->gated,
                             .parallel = row->parallel,
                             .post_norms = row->post_norms,
                             .fused = row->fused,
                             .transposed = row->transposed,
                             .tied = row->tied,
                             .biases = row->biases,
                             .head_norms = (row->traits & GYRE_HEAD_NORMS) != 0,
                             .parallel_norm2 = (row->traits & GYRE_BOTH_NORMS) != 0,
                             .embed_scale = 1,
                             .residual_scale = 1,
                             .logit_scale = 1};
    snprintf(a->family, sizeof a->family, "%s", row->type);
}

/* A decoder beside a tower for images: the texts of gemma3 are read by gemma3_text. */
static void read_gemma3(const gyre_scope *s, gyre_architecture *a) {
    const gyre_scope text = gyre_scope_into(s, "text_config");
    if (!text.object) {
        gyre_scope_fail(s, GYRE_EFORMAT, "text_config", "missing: it describes the decoder");
        return;
    }
    read_family(&text, gyre_family_row_of("gemma3_text"), a);
    refuse_what_is_not_done(s);
    if (gyre_scope_value(s, "tie_word_embeddings")) a->tied = gyre_scope_flag(s, "tie_word_embeddings", 1);
    snprintf(a->family, sizeof a->family, "gemma3");
    a->prefix = "language_model.";
    a->tower = 1;
}

static void read_root(const gyre_scope *s, gyre_architecture *a) {
    const char *type = gyre_scope_text(s, "model_type", NULL);
    if (!is_ok(s)) return;
    const gyre_family_row *row = gyre_family_row_of(type);
    if (row)
        read_family(s, row, a);
    else if (strcmp(type, "gemma3") == 0)
        read_gemma3(s, a);
    else if (strcmp(type, "gyre") == 0)
        gyre_scope_fail(s, GYRE_EUNSUPPORTED, "model_type", "\"gyre\": name its folder, not a file of it");
    else
        gyre_scope_fail(s, GYRE_EUNSUPPORTED, "model_type", "\"%.60s\" is not run, but these are: gyre, %s", type,
                        gyre_family_list(0));
}

gyre_status gyre_architecture_of_config(gyre_architecture *out, const char *json, size_t bytes, const char *path,
                                        gyre_error *err) {
    json_error_t error;
    gyre_architecture a;
    gyre_build *build = gyre_build_begin(path, "config.json", GYRE_AS_HF_5, 0, err);
    if (!build) return GYRE_ENOMEM;
    json_t *root = gyre_json_load(json, bytes, &error);
    const gyre_json_source source = {build, json, bytes};
    const gyre_scope s = {&source, root, ""};
    if (!root) { /* also without memory: jansson does not tell */
        const gyre_place place = {NULL, error.line > 0 ? error.line : 1, error.position > 0 ? (uint64_t)error.position : 0};
        gyre_build_fail(build, GYRE_EFORMAT, &place, "config: %.200s", error.text);
    } else if (json_is_object(root)) {
        read_root(&s, &a);
    } else {
        gyre_build_fail(build, GYRE_EFORMAT, NULL, "config: not an object");
    }
    json_decref(root);
    const gyre_status status = gyre_build_status(build);
    if (status == GYRE_OK) *out = a;
    gyre_build_discard(build);
    return status;
}
