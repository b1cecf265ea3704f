/* architecture_config.c: the architecture that a config.json describes. */
#include "gyre/gyre_fields.h"
#include "model/architecture/architecture_families.h"

#include "reading/family.h"
#include "util/json_load.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MAX_DIM = INT32_MAX / 4, MAX_LAYERS = 1 << 16 };

static int is_ok(const gyre_scope *s) {
    return !gyre_build_status(s->source->build);
}

/* -- sizes -- */
static const char *const vocab_keys[] = {"vocab_size", NULL};
static const char *const model_dim_keys[] = {"hidden_size", "n_embd", "n_embed", "d_model", NULL};
static const char *const layers_keys[] = {"num_hidden_layers", "n_layer", "n_layers", "num_layers", NULL};
static const char *const heads_keys[] = {"num_attention_heads", "n_head", "n_heads", "num_heads", NULL};
static const char *const mlp_dim_keys[] = {"intermediate_size", "n_inner", "ffn_hidden_size", NULL};
static const char *const epsilon_keys[] = {"rms_norm_eps", "layer_norm_eps", "layer_norm_epsilon", "norm_epsilon", NULL};
static const char *const activation_keys[] = {"hidden_activation", "hidden_act", "activation_function", NULL};

static int64_t read_dim(const gyre_scope *s, const char *const *names, int64_t max, int64_t fallback) {
    const char *key = gyre_scope_first(s, names);
    const int64_t size = key ? gyre_scope_integer(s, key, 1, fallback) : fallback;
    if (size < 1) gyre_scope_fail(s, GYRE_EFORMAT, names[0], "missing");
    if (size > max) gyre_scope_fail(s, GYRE_EFORMAT, key, "%lld is past %lld", (long long)size, (long long)max);
    return size;
}

static int64_t read_kv_heads(const gyre_scope *s, const gyre_architecture *a, int64_t fallback) {
    const int64_t given = gyre_scope_integer(s, "num_key_value_heads", 1, fallback);
    if (given < 1 || given > a->heads || a->heads % given != 0)
        gyre_scope_fail(s, GYRE_EFORMAT, "num_key_value_heads", "%lld does not divide the %lld heads", (long long)given,
                        (long long)a->heads);
    if (a->qkv_layout == GYRE_QKV_INTERLEAVED && given != a->heads)
        gyre_scope_fail(s, GYRE_EUNSUPPORTED, "num_key_value_heads",
                        "%lld of %lld heads: query, key and value of each stand together in this family", (long long)given,
                        (long long)a->heads);
    return given;
}

static int64_t read_head_dim(const gyre_scope *s, const gyre_architecture *a) {
    const gyre_family *family = gyre_family_of(a->family);
    const int64_t family_dim = family ? family->head_dim : 0;
    const int64_t dim = gyre_scope_integer(s, "head_dim", 1, family_dim ? family_dim : a->model_dim / a->heads);
    if (!gyre_scope_value(s, "head_dim") && !family_dim && a->model_dim % a->heads != 0)
        gyre_scope_fail(s, GYRE_EFORMAT, "head_dim", "missing, and the width is not a multiple of the heads");
    if (dim < 1 || dim > MAX_DIM / a->heads) gyre_scope_fail(s, GYRE_EFORMAT, "head_dim", "%lld", (long long)dim);
    return dim;
}

/* Sizes that a class has by default, for families whose published configs leave them out. */
typedef struct default_sizes {
    int64_t vocab, model_dim, layers, heads, kv_heads, mlp_dim;
} default_sizes;

static default_sizes family_default_sizes(const gyre_architecture *a) {
    if (strncmp(a->family, "gemma3", 6) == 0) return (default_sizes){262208, 2304, 26, 8, 4, 9216};
    return (default_sizes){0};
}

static void read_sizes(const gyre_scope *s, gyre_architecture *a) {
    const default_sizes defaults = family_default_sizes(a);
    a->vocab = read_dim(s, vocab_keys, MAX_DIM, defaults.vocab);
    a->model_dim = read_dim(s, model_dim_keys, MAX_DIM, defaults.model_dim);
    a->layers = read_dim(s, layers_keys, MAX_LAYERS, defaults.layers);
    a->heads = read_dim(s, heads_keys, MAX_DIM, defaults.heads);
    if (!is_ok(s) || a->heads < 1) return;
    const int64_t four_dims = a->model_dim <= MAX_DIM / 4 ? 4 * a->model_dim : MAX_DIM;
    a->mlp_dim = read_dim(s, mlp_dim_keys, MAX_DIM, a->gated ? defaults.mlp_dim : four_dims);
    a->kv_heads = read_kv_heads(s, a, defaults.kv_heads ? defaults.kv_heads : a->heads);
    a->head_dim = is_ok(s) ? read_head_dim(s, a) : 1;
}

/* -- activation, scales, biases -- */
static void read_activation(const gyre_scope *s, gyre_architecture *a) {
    static const struct {
        const char *name;
        gyre_activation activation;
    } known[] = {{"silu", GYRE_ACTIVATION_SILU},
                 {"swish", GYRE_ACTIVATION_SILU},
                 {"gelu", GYRE_ACTIVATION_GELU},
                 {"gelu_new", GYRE_ACTIVATION_GELU_TANH},
                 {"gelu_fast", GYRE_ACTIVATION_GELU_TANH},
                 {"gelu_pytorch_tanh", GYRE_ACTIVATION_GELU_TANH},
                 {"relu", GYRE_ACTIVATION_RELU}};
    /* Gemma's hidden_act says exact GELU, which its class has never computed.  hidden_activation counts. */
    const int is_gemma = strncmp(a->family, "gemma", 5) == 0;
    const char *key = gyre_scope_first(s, activation_keys);
    if (!key || (is_gemma && strcmp(key, "hidden_activation") != 0)) return;
    const char *name = gyre_scope_string(s, key, "silu");
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(known[i].name, name) == 0) {
            a->activation = known[i].activation;
            return;
        }
    gyre_scope_fail(s, GYRE_EUNSUPPORTED, key, "\"%.60s\" is not computed", name);
}

static double read_positive_number(const gyre_scope *s, const char *key, double fallback) {
    const double x = gyre_scope_number(s, key, fallback);
    if (is_ok(s) && !(x > 0.0)) gyre_scope_fail(s, GYRE_EFORMAT, key, "%g is not above 0", x);
    return x;
}

static double read_softcap(const gyre_scope *s, const char *key, double fallback) {
    if (!gyre_scope_value(s, key)) return gyre_scope_has(s, key) ? 0 : fallback;
    return read_positive_number(s, key, 1);
}

static void read_traits(const gyre_scope *s, const gyre_family_row *row, gyre_architecture *a) {
    static const uint32_t inputs = 1u << GYRE_TENSOR_QKV | 1u << GYRE_TENSOR_Q | 1u << GYRE_TENSOR_K | 1u << GYRE_TENSOR_V;
    static const uint32_t attention = inputs | 1u << GYRE_TENSOR_O;
    static const uint32_t mlp =
        1u << GYRE_TENSOR_GATE_UP | 1u << GYRE_TENSOR_GATE | 1u << GYRE_TENSOR_UP | 1u << GYRE_TENSOR_DOWN;
    const int is_gemma2 = strcmp(a->family, "gemma2") == 0;
    if (row->traits & GYRE_TRAIT_BIAS_FLAGS) {
        a->required_biases |= gyre_scope_bool(s, "attention_bias", 0) ? attention : 0;
        a->required_biases |= gyre_scope_bool(s, "mlp_bias", 0) ? mlp : 0;
    }
    if (row->traits & GYRE_TRAIT_SCALED_EMBEDDING) a->embed_scale = sqrt((double)a->model_dim);
    if (row->traits & GYRE_TRAIT_SOFTCAPS) {
        a->attn_softcap = read_softcap(s, "attn_logit_softcapping", is_gemma2 ? 50 : 0);
        a->logit_softcap = read_softcap(s, "final_logit_softcapping", is_gemma2 ? 30 : 0);
    }
    if (row->traits & GYRE_TRAIT_GRANITE_SCALES) {
        a->embed_scale = gyre_scope_number(s, "embedding_multiplier", 1);
        a->residual_scale = gyre_scope_number(s, "residual_multiplier", 1);
        a->logit_scale = 1 / read_positive_number(s, "logits_scaling", 1);
    }
    if (row->traits & GYRE_TRAIT_LOGIT_SCALE) a->logit_scale = gyre_scope_number(s, "logit_scale", 0.0625);
    if (row->traits & GYRE_TRAIT_PARALLEL_FLAG)
        a->parallel_residual = gyre_scope_bool(s, "use_parallel_residual", row->parallel_residual);
    if (strcmp(a->family, "starcoder2") == 0 && gyre_scope_bool(s, "use_bias", 1)) a->required_biases |= attention | mlp;
    if (strcmp(a->family, "stablelm") == 0 && gyre_scope_bool(s, "use_qkv_bias", 0)) a->required_biases |= inputs;
    if (strcmp(a->family, "gpt_neox") == 0 && gyre_scope_bool(s, "attention_bias", 1))
        a->required_biases |= 1u << GYRE_TENSOR_QKV | 1u << GYRE_TENSOR_O;
}

/* Options of llm-foundry, the authors' code, that transformers' class ignores. */
static void reject_unsupported_mpt(const gyre_scope *s, const gyre_scope *attention) {
    const char *type = gyre_scope_string(attention, "attn_type", "multihead_attention");
    if (strcmp(type, "multihead_attention") != 0 && strcmp(type, "grouped_query_attention") != 0)
        gyre_scope_fail(attention, GYRE_EUNSUPPORTED, "attn_type", "\"%.60s\" is not computed", type);
    if (gyre_scope_bool(attention, "prefix_lm", 0))
        gyre_scope_fail(attention, GYRE_EUNSUPPORTED, "prefix_lm", "true: attention to later tokens is not computed");
    if (gyre_scope_bool(attention, "qk_ln", 0))
        gyre_scope_fail(attention, GYRE_EUNSUPPORTED, "qk_ln", "true: norms of whole queries are not computed");
    if (gyre_scope_bool(attention, "qk_gn", 0))
        gyre_scope_fail(attention, GYRE_EUNSUPPORTED, "qk_gn", "true: norms of queries by head are not computed");
    const char *norm = gyre_scope_string(s, "norm_type", "low_precision_layernorm");
    if (strcmp(norm, "low_precision_layernorm") != 0 && strcmp(norm, "layernorm") != 0)
        gyre_scope_fail(s, GYRE_EUNSUPPORTED, "norm_type", "\"%.60s\" is not computed for mpt", norm);
    if (gyre_scope_value(s, "block_overrides"))
        gyre_scope_fail(s, GYRE_EUNSUPPORTED, "block_overrides", "layers that differ are not read");
    if (!gyre_scope_value(s, "ffn_config")) return;
    const gyre_scope mlp = gyre_scope_child(s, "ffn_config");
    const char *ffn = gyre_scope_string(&mlp, "ffn_type", "mptmlp");
    if (strcmp(ffn, "mptmlp") != 0) gyre_scope_fail(&mlp, GYRE_EUNSUPPORTED, "ffn_type", "\"%.60s\" is not computed", ffn);
}

/* MPT has the options of attention in an object of their own. */
static void read_mpt(const gyre_scope *s, gyre_architecture *a) {
    const gyre_scope attention = gyre_scope_child(s, "attn_config");
    reject_unsupported_mpt(s, &attention);
    const double ratio = read_positive_number(s, "expansion_ratio", 4);
    const double mlp_dim = ratio * (double)a->model_dim;
    if (!is_ok(s)) return;
    if (!(mlp_dim >= 1 && mlp_dim <= MAX_DIM)) gyre_scope_fail(s, GYRE_EFORMAT, "expansion_ratio", "%g", ratio);
    a->mlp_dim = is_ok(s) ? (int64_t)mlp_dim : 1;
    if (gyre_scope_value(&attention, "clip_qkv")) a->clip_qkv = read_positive_number(&attention, "clip_qkv", 1);
    if (!gyre_scope_bool(s, "no_bias", 1)) a->required_biases = GYRE_ALL_BIASES;
    if (gyre_scope_value(&attention, "kv_n_heads")) {
        a->kv_heads = gyre_scope_integer(&attention, "kv_n_heads", 1, a->heads);
        if (is_ok(s) && (a->kv_heads > a->heads || a->heads % a->kv_heads != 0))
            gyre_scope_fail(&attention, GYRE_EFORMAT, "kv_n_heads", "%lld does not divide the heads",
                            (long long)a->kv_heads);
    }
    if (gyre_scope_value(s, "logit_scale") && gyre_scope_number(s, "logit_scale", 1) != 1)
        gyre_scope_fail(s, GYRE_EUNSUPPORTED, "logit_scale", "scaled logits are not computed for mpt");
}

/* Refuses keys that ask for something the decoder does not compute. */
static void reject_unsupported(const gyre_scope *s) {
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
        if (gyre_scope_value(s, flags[i].key) && gyre_scope_bool(s, flags[i].key, 0))
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
    const char *epsilon = gyre_scope_first(s, epsilon_keys);
    if (epsilon) a->norm_epsilon = read_positive_number(s, epsilon, row->epsilon);
    a->tied = gyre_scope_bool(s, "tie_word_embeddings", row->tied);
    read_activation(s, a);
    read_traits(s, row, a);
    if (row->traits & GYRE_TRAIT_MPT_KEYS) read_mpt(s, a);
    reject_unsupported(s);
}

void gyre_architecture_from_row(gyre_architecture *a, const gyre_family_row *row) {
    *a = (gyre_architecture){.names = row->names,
                             .prefix = row->prefix,
                             .norm = row->norm,
                             .gain_offset = row->gain_offset,
                             .activation = row->activation,
                             .gated = row->gated,
                             .parallel_residual = row->parallel_residual,
                             .post_norms = row->post_norms,
                             .qkv_layout = row->qkv_layout,
                             .transposed = row->transposed,
                             .tied = row->tied,
                             .required_biases = row->required_biases,
                             .qk_norm = (row->traits & GYRE_TRAIT_QK_NORM) != 0,
                             .parallel_mlp_norm = (row->traits & GYRE_TRAIT_PARALLEL_MLP_NORM) != 0,
                             .embed_scale = 1,
                             .residual_scale = 1,
                             .logit_scale = 1};
    snprintf(a->family, sizeof a->family, "%s", row->type);
}

/* gemma3 is a gemma3_text decoder beside an image encoder. */
static void read_gemma3(const gyre_scope *s, gyre_architecture *a) {
    const gyre_scope text = gyre_scope_child(s, "text_config");
    if (!text.object) {
        gyre_scope_fail(s, GYRE_EFORMAT, "text_config", "missing: it describes the decoder");
        return;
    }
    read_family(&text, gyre_family_row_of("gemma3_text"), a);
    reject_unsupported(s);
    if (gyre_scope_value(s, "tie_word_embeddings")) a->tied = gyre_scope_bool(s, "tie_word_embeddings", 1);
    snprintf(a->family, sizeof a->family, "gemma3");
    a->prefix = "language_model.";
    a->vision_tower = 1;
}

static void read_root(const gyre_scope *s, gyre_architecture *a) {
    const char *type = gyre_scope_string(s, "model_type", NULL);
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

gyre_status gyre_architecture_from_config(gyre_architecture *out, const gyre_config_document *config, gyre_error *err) {
    gyre_architecture a;
    gyre_build *build = gyre_build_begin(config->path, "config.json", GYRE_PROFILE_HF_5, 0, err);
    if (!build) return GYRE_ENOMEM;
    const gyre_json_source source = {build, config->text, config->bytes, NULL, NULL};
    const gyre_scope s = {&source, config->root, ""};
    read_root(&s, &a);
    const gyre_status status = gyre_build_status(build);
    if (!status) *out = a;
    gyre_build_discard(build);
    return status;
}
