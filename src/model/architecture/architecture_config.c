/* architecture_config.c: the architecture that a config.json describes. */
#include "gyre/gyre_fields.h"
#include "model/architecture/architecture_families.h"
#include "model/architecture/mixture_config.h"

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
static const char *const activation_keys[] = {"hidden_activation", "hidden_act", "activation_function", "activation", NULL};

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
    if (strcmp(a->family, "gemma4_text") == 0) return (default_sizes){262144, 2304, 30, 8, 4, 9216};
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
    a->head_dim = a->value_dim = is_ok(s) ? read_head_dim(s, a) : 1;
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
    if (a->activation == GYRE_ACTIVATION_CLAMPED_SWIGLU) return; /* gpt_oss: its hidden_act is not read */
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

/* A key says whether the roles of `bits` have biases; their state in `a` is its default. */
static void read_bias_flag(const gyre_scope *s, const char *key, uint64_t bits, gyre_architecture *a) {
    const int on = gyre_scope_bool(s, key, (a->required_biases & bits) != 0);
    a->required_biases = on ? a->required_biases | bits : a->required_biases & ~bits;
}

static void read_biases(const gyre_scope *s, unsigned traits, gyre_architecture *a) {
    const uint64_t inputs = GYRE_TENSOR_BIT(QKV) | GYRE_TENSOR_BIT(Q) | GYRE_TENSOR_BIT(K) | GYRE_TENSOR_BIT(V);
    const uint64_t attention = inputs | GYRE_TENSOR_BIT(O);
    const uint64_t mlp = GYRE_TENSOR_BIT(GATE_UP) | GYRE_TENSOR_BIT(GATE) | GYRE_TENSOR_BIT(UP) | GYRE_TENSOR_BIT(DOWN);
    const struct {
        unsigned trait;
        const char *key;
        uint64_t bits;
    } flags[] = {
        {GYRE_TRAIT_BIAS_FLAGS | GYRE_TRAIT_ATTENTION_BIAS_FLAG, "attention_bias", attention},
        {GYRE_TRAIT_BIAS_FLAGS | GYRE_TRAIT_MLP_BIAS_FLAG, "mlp_bias", mlp},
        {GYRE_TRAIT_INPUT_BIAS_FLAG, "attention_bias", inputs},
        {GYRE_TRAIT_OUT_BIAS_FLAG, "attention_out_bias", GYRE_TENSOR_BIT(O)},
        {GYRE_TRAIT_USE_BIAS_FLAG, "use_bias", attention | mlp},
        {GYRE_TRAIT_QKV_BIAS_KEY, "qkv_bias", inputs},
        {GYRE_TRAIT_USE_QKV_BIAS_KEY, "use_qkv_bias", inputs},
        {GYRE_TRAIT_FALCON_KEYS, "bias", attention | mlp},
        {GYRE_TRAIT_LATENTS, "attention_bias", GYRE_TENSOR_BIT(QUERY_DOWN) | GYRE_TENSOR_BIT(KV_DOWN) | GYRE_TENSOR_BIT(O)},
    };
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
        if (traits & flags[i].trait) read_bias_flag(s, flags[i].key, flags[i].bits, a);
}

/* cohere: LayerNorm with gains for each head; llama4: no gains, and after the rotation, which keeps lengths, so that the
 * norm may come before it; glm4_moe: as qwen3. */
static void read_qk_norm(const gyre_scope *s, gyre_architecture *a) {
    const int is_llama4 = strcmp(a->family, "llama4_text") == 0;
    if (!gyre_scope_bool(s, "use_qk_norm", is_llama4)) return;
    a->qk_norm = is_llama4                          ? GYRE_HEAD_NORMS_UNIT
                 : strcmp(a->family, "cohere") == 0 ? GYRE_HEAD_NORMS_GAINS
                                                    : GYRE_HEAD_NORMS_EACH;
}

static void read_traits(const gyre_scope *s, const gyre_family_row *row, gyre_architecture *a) {
    const int is_gemma2 = strcmp(a->family, "gemma2") == 0;
    read_biases(s, row->traits, a);
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
    if (row->traits & GYRE_TRAIT_QK_NORM_FLAG) read_qk_norm(s, a);
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

/* Three forms: queries share one key head (7B), a number of key heads (40B), or have one each. */
static void read_falcon(const gyre_scope *s, gyre_architecture *a) {
    const int groups = gyre_scope_bool(s, "new_decoder_architecture", 0), one = gyre_scope_bool(s, "multi_query", 1);
    const int64_t given = gyre_scope_integer(s, "num_kv_heads", 1, a->heads);
    const int64_t norms = gyre_scope_integer(s, "num_ln_in_parallel_attn", 1, groups ? 2 : 1);
    a->parallel_residual = gyre_scope_bool(s, "parallel_attn", 1);
    a->kv_heads = groups ? given : one ? 1 : a->heads;
    a->qkv_layout = groups ? GYRE_QKV_GROUPED : one ? GYRE_QKV_CONCAT : GYRE_QKV_INTERLEAVED;
    a->parallel_mlp_norm = a->parallel_residual && norms == 2;
    if (a->parallel_mlp_norm) a->names = gyre_falcon_two_norms;
    if (is_ok(s) && (a->kv_heads > a->heads || a->heads % a->kv_heads != 0))
        gyre_scope_fail(s, GYRE_EFORMAT, "num_kv_heads", "%lld does not divide the heads", (long long)given);
    if (groups && !a->parallel_residual)
        gyre_scope_fail(s, GYRE_EUNSUPPORTED, "parallel_attn", "false with new_decoder_architecture: no class computes it");
    if (a->parallel_mlp_norm && !groups)
        gyre_scope_fail(s, GYRE_EUNSUPPORTED, "num_ln_in_parallel_attn",
                        "2 without new_decoder_architecture: no class computes it");
}

static void read_latents(const gyre_scope *s, gyre_architecture *a) {
    const int64_t turning = gyre_scope_integer(s, "qk_rope_head_dim", 1, 64);
    a->latents.kv = gyre_scope_integer(s, "kv_lora_rank", 1, 512);
    a->latents.query = gyre_scope_has(s, "q_lora_rank") ? gyre_scope_integer(s, "q_lora_rank", 1, 0) : 1536;
    a->latents.still = gyre_scope_integer(s, "qk_nope_head_dim", 0, 128);
    a->latents.epsilon = 1e-6; /* that of the class, whatever rms_norm_eps is */
    a->value_dim = gyre_scope_integer(s, "v_head_dim", 1, 128);
    a->kv_heads = a->heads;
    const int64_t largest = MAX_DIM / (2 * a->heads);
    if (turning > largest || a->latents.still > largest || a->value_dim > largest || a->latents.kv > MAX_DIM / 2 ||
        a->latents.query > MAX_DIM)
        gyre_scope_fail(s, GYRE_EFORMAT, "qk_rope_head_dim", "sizes of latents and heads are past %d", (int)MAX_DIM);
    a->head_dim = a->latents.still + turning;
}

/* intermediate_size is that of experts. */
static void read_llama4(const gyre_scope *s, gyre_architecture *a) {
    a->mlp_dim = read_dim(s, (const char *const[]){"intermediate_size_mlp", NULL}, MAX_DIM, 16384);
    a->chunked = 1;
}

/* out = num_key_value_heads of per_layer_config, which must be the same in all entries that have it; 0 = in none. */
static int64_t read_listed_kv_heads(const gyre_scope *s) {
    const gyre_scope all = gyre_scope_child(s, "per_layer_config");
    const char *layer;
    json_t *value;
    int64_t heads = 0;
    json_object_foreach((json_t *)all.object, layer, value) {
        const gyre_scope own = gyre_scope_child(&all, layer);
        const int64_t given = gyre_scope_integer(&own, "num_key_value_heads", 1, 0);
        if (given && heads && given != heads)
            gyre_scope_fail(&own, GYRE_EUNSUPPORTED, "num_key_value_heads",
                            "%lld, and %lld in another layer: one number is run", (long long)given, (long long)heads);
        if (given) heads = given;
    }
    return heads;
}

/* How layers differ.  The reading has the head_dim of each. */
static void read_gemma4(const gyre_scope *s, gyre_architecture *a) {
    const char *sees = gyre_scope_string(s, "use_bidirectional_attention", "");
    gyre_layer_rules *r = &a->layer_rules;
    const int by_layer = gyre_scope_value(s, "per_layer_config") != NULL;
    r->heads_by_group = r->scaled = a->value_norm = 1;
    a->attn_softcap = 0; /* no class computes one */
    r->wide_values_are_keys = gyre_scope_bool(s, "attention_k_eq_v", 0);
    r->wide_kv_heads = by_layer                  ? read_listed_kv_heads(s)
                       : r->wide_values_are_keys ? gyre_scope_integer(s, "num_global_key_value_heads", 1, 0)
                                                 : 0;
    if (r->wide_kv_heads > a->heads || (r->wide_kv_heads > 0 && a->heads % r->wide_kv_heads != 0))
        gyre_scope_fail(s, GYRE_EFORMAT, by_layer ? "per_layer_config" : "num_global_key_value_heads",
                        "%lld key heads do not divide the %lld heads", (long long)r->wide_kv_heads, (long long)a->heads);
    r->sharing = gyre_scope_integer(s, "num_kv_shared_layers", 0, 0);
    if (r->sharing >= a->layers)
        gyre_scope_fail(s, GYRE_EFORMAT, "num_kv_shared_layers", "%lld of %lld layers: none has keys", (long long)r->sharing,
                        (long long)a->layers);
    r->sharing_mlp_dim = gyre_scope_bool(s, "use_double_wide_mlp", 0) ? 2 * a->mlp_dim : 0;
    r->inputs = gyre_scope_has(s, "hidden_size_per_layer_input") && !gyre_scope_value(s, "hidden_size_per_layer_input")
                    ? 0
                    : gyre_scope_integer(s, "hidden_size_per_layer_input", 0, 256);
    if (r->inputs > MAX_DIM / a->layers)
        gyre_scope_fail(s, GYRE_EFORMAT, "hidden_size_per_layer_input", "%lld channels of %lld layers", (long long)r->inputs,
                        (long long)a->layers);
    r->inputs_vocab = read_dim(s, (const char *const[]){"vocab_size_per_layer_input", NULL}, MAX_DIM, 262144);
    if (r->inputs > 0 && r->inputs_vocab < a->vocab)
        gyre_scope_fail(s, GYRE_EUNSUPPORTED, "vocab_size_per_layer_input", "fewer than the %lld tokens of the vocabulary",
                        (long long)a->vocab);
    if (strcmp(sees, "all") == 0)
        gyre_scope_fail(s, GYRE_EUNSUPPORTED, "use_bidirectional_attention",
                        "\"all\": attention to later tokens is not computed by a decoder");
}

/* gpt_oss has its two numbers as keys since transformers 5.24. */
static void read_clamped_swiglu(const gyre_scope *s) {
    if (gyre_scope_number(s, "swiglu_alpha", 1.702) != 1.702)
        gyre_scope_fail(s, GYRE_EUNSUPPORTED, "swiglu_alpha", "only 1.702 is computed");
    if (gyre_scope_number(s, "swiglu_limit", 7) != 7)
        gyre_scope_fail(s, GYRE_EUNSUPPORTED, "swiglu_limit", "only 7 is computed");
}

/* Quantized safetensors: experts in blocks of MXFP4 alone. */
static void reject_quantization(const gyre_scope *s, const gyre_mixture *mixture) {
    if (!gyre_scope_value(s, "quantization_config")) return;
    const gyre_scope how = gyre_scope_child(s, "quantization_config");
    const char *method = gyre_scope_string(&how, "quant_method", "");
    if (!mixture->packed || strcmp(method, "mxfp4") != 0)
        gyre_scope_fail(s, GYRE_EUNSUPPORTED, "quantization_config", "quantized safetensors are not read%s",
                        mixture->packed ? " but for experts in blocks of mxfp4" : "");
}

/* Refuses keys that ask for something the decoder does not compute. */
static void reject_unsupported(const gyre_scope *s, unsigned traits, const gyre_mixture *mixture) {
    static const struct {
        const char *key, *why;
        unsigned unless; /* the family reads it */
    } flags[] = {
        {"qk_layernorm", "norms of queries and keys with biases are not computed", 0},
        {"use_qk_norm", "norms of queries and keys by head are not computed for this family", GYRE_TRAIT_QK_NORM_FLAG},
        {"scale_attn_by_inverse_layer_idx", "scores scaled by layer are not computed", 0},
        {"apply_residual_connection_post_layernorm", "a residual taken after the norm is not computed", 0},
        {"add_cross_attention", "an encoder is not read", 0},
        {"use_bidirectional_attention", "attention to later tokens is not computed by a decoder", GYRE_TRAIT_GEMMA4_KEYS},
        {"alibi_with_sinks", "not computed", 0}};
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
        if (!(traits & flags[i].unless) && gyre_scope_value(s, flags[i].key) && gyre_scope_bool(s, flags[i].key, 0))
            gyre_scope_fail(s, GYRE_EUNSUPPORTED, flags[i].key, "true: %s", flags[i].why);
    const gyre_scope plus = gyre_scope_child(s, "rope_config");
    if (gyre_scope_bool(&plus, "imag", 0))
        gyre_scope_fail(s, GYRE_EUNSUPPORTED, "rope_config",
                        "imag: true: imaginary heads are computed in models made here alone");
    reject_quantization(s, mixture);
    if (traits & GYRE_TRAIT_GEMMA4_KEYS) return; /* enable_moe_block says whether num_experts counts */
    if (!mixture->routing.experts && (gyre_scope_value(s, "num_experts") || gyre_scope_value(s, "num_local_experts")))
        gyre_scope_fail(s, GYRE_EUNSUPPORTED, gyre_scope_value(s, "num_experts") ? "num_experts" : "num_local_experts",
                        "this family has no experts");
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
    if (row->traits & GYRE_TRAIT_FALCON_KEYS) read_falcon(s, a);
    if (row->traits & GYRE_TRAIT_LATENTS) read_latents(s, a);
    if (row->traits & GYRE_TRAIT_GEMMA4_KEYS) read_gemma4(s, a);
    if (a->activation == GYRE_ACTIVATION_CLAMPED_SWIGLU) read_clamped_swiglu(s);
    if (strcmp(a->family, "llama4_text") == 0) read_llama4(s, a);
    gyre_mixture_from_config(s, a);
    a->extra_layers = gyre_scope_integer(s, "num_nextn_predict_layers", 0, 0);
    reject_unsupported(s, row->traits, &a->mixture);
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
                             .qk_norm = row->traits & GYRE_TRAIT_QK_NORM       ? GYRE_HEAD_NORMS_EACH
                                        : row->traits & GYRE_TRAIT_QK_NORM_ALL ? GYRE_HEAD_NORMS_ALL
                                                                               : GYRE_HEAD_NORMS_NONE,
                             .sinks = (row->traits & GYRE_TRAIT_SINKS) != 0,
                             .parallel_mlp_norm = (row->traits & GYRE_TRAIT_PARALLEL_MLP_NORM) != 0,
                             .embed_scale = 1,
                             .residual_scale = 1,
                             .logit_scale = 1};
    snprintf(a->family, sizeof a->family, "%s", row->type);
}

/* The language model of a wrapper, whose other parts are not run. */
static void read_wrapped(const gyre_scope *s, const gyre_wrapper_row *wrapper, gyre_architecture *a) {
    const gyre_scope child = gyre_scope_child(s, "text_config");
    const gyre_scope *text = child.object || !wrapper->flat ? &child : s;
    if (!text->object) {
        gyre_scope_fail(s, GYRE_EFORMAT, "text_config", "missing: it describes the decoder");
        return;
    }
    const char *type = text == s ? wrapper->text : gyre_scope_string(text, "model_type", wrapper->text);
    const int usual = strcmp(type, wrapper->text) == 0 || strcmp(type, wrapper->type) == 0;
    const gyre_family_row *row = gyre_family_row_of(!usual ? type : wrapper->row ? wrapper->row : wrapper->text);
    if (!row || strncmp(row->names[GYRE_TENSOR_EMBEDDING], "model.", 6) != 0) {
        gyre_scope_fail(text, GYRE_EUNSUPPORTED, "model_type", "\"%.60s\" within %s " GYRE_FAMILY_NOT_RUN, type,
                        wrapper->type);
        return;
    }
    read_family(text, row, a);
    if (text != s) reject_unsupported(s, row->traits, &a->mixture);
    /* transformers leaves out what the text's class does to logits, and vLLM does not. */
    if (a->logit_scale != 1 || (a->logit_softcap > 0 && !a->layer_rules.heads_by_group))
        gyre_scope_fail(text, GYRE_EUNSUPPORTED, "model_type",
                        "\"%.60s\" within %s: scaled or capped logits are not run there", type, wrapper->type);
    a->tied = gyre_scope_bool(s, "tie_word_embeddings", wrapper->tied) || gyre_scope_bool(text, "tie_word_embeddings", 0);
    snprintf(a->family, sizeof a->family, "%s", wrapper->type);
    a->wrapped = 1;
}

static void read_root(const gyre_scope *s, gyre_architecture *a) {
    const char *type = gyre_scope_string(s, "model_type", NULL);
    if (!is_ok(s)) return;
    const gyre_family_row *row = gyre_family_row_of(type);
    if (row)
        read_family(s, row, a);
    else if (gyre_wrapper_row_of(type))
        read_wrapped(s, gyre_wrapper_row_of(type), a);
    else if (strcmp(type, "gyre") == 0)
        gyre_scope_fail(s, GYRE_EUNSUPPORTED, "model_type", "\"gyre\": name its folder, not a file of it");
    else
        gyre_scope_fail(s, GYRE_EUNSUPPORTED, "model_type", "\"%.60s\" " GYRE_FAMILY_NOT_RUN, type);
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
