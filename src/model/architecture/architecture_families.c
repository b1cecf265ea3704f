#include "model/architecture/architecture_families.h"
#include "gyre/gyre_fields.h"

#include <string.h>

#define BIT(role)   GYRE_TENSOR_BIT(role)
#define NORM_BIASES (BIT(FINAL_NORM) | BIT(ATTN_NORM) | BIT(MLP_NORM))
#define MLP_BIASES  (BIT(UP) | BIT(DOWN))
#define ALL_BIASES  GYRE_ALL_BIASES

/* -- names -- */
#define LLAMA_LAYER "model.layers.%d."
#define LLAMA_ATTENTION                                                                                                     \
    [GYRE_TENSOR_QUERY_NORM] = LLAMA_LAYER "self_attn.q_norm", [GYRE_TENSOR_KEY_NORM] = LLAMA_LAYER "self_attn.k_norm",     \
    [GYRE_TENSOR_QKV] = LLAMA_LAYER "self_attn.qkv_proj", [GYRE_TENSOR_Q] = LLAMA_LAYER "self_attn.q_proj",                 \
    [GYRE_TENSOR_K] = LLAMA_LAYER "self_attn.k_proj", [GYRE_TENSOR_V] = LLAMA_LAYER "self_attn.v_proj",                     \
    [GYRE_TENSOR_O] = LLAMA_LAYER "self_attn.o_proj"
#define LLAMA_MLP                                                                                                           \
    [GYRE_TENSOR_GATE_UP] = LLAMA_LAYER "mlp.gate_up_proj", [GYRE_TENSOR_GATE] = LLAMA_LAYER "mlp.gate_proj",               \
    [GYRE_TENSOR_UP] = LLAMA_LAYER "mlp.up_proj", [GYRE_TENSOR_DOWN] = LLAMA_LAYER "mlp.down_proj"
#define LLAMA_TOP                                                                                                           \
    [GYRE_TENSOR_EMBEDDING] = "model.embed_tokens", [GYRE_TENSOR_FINAL_NORM] = "model.norm",                                \
    [GYRE_TENSOR_LM_HEAD] = "lm_head"

static const char *const llama_names[GYRE_TENSOR_ROLES] = {
    LLAMA_TOP, [GYRE_TENSOR_ATTN_NORM] = LLAMA_LAYER "input_layernorm",
    [GYRE_TENSOR_MLP_NORM] = LLAMA_LAYER "post_attention_layernorm", LLAMA_ATTENTION, LLAMA_MLP};
static const char *const gemma2_names[GYRE_TENSOR_ROLES] = {
    LLAMA_TOP,
    [GYRE_TENSOR_ATTN_NORM] = LLAMA_LAYER "input_layernorm",
    [GYRE_TENSOR_POST_ATTN_NORM] = LLAMA_LAYER "post_attention_layernorm",
    [GYRE_TENSOR_MLP_NORM] = LLAMA_LAYER "pre_feedforward_layernorm",
    [GYRE_TENSOR_POST_MLP_NORM] = LLAMA_LAYER "post_feedforward_layernorm",
    LLAMA_ATTENTION,
    LLAMA_MLP};
static const char *const olmo2_names[GYRE_TENSOR_ROLES] = {
    LLAMA_TOP, [GYRE_TENSOR_POST_ATTN_NORM] = LLAMA_LAYER "post_attention_layernorm",
    [GYRE_TENSOR_POST_MLP_NORM] = LLAMA_LAYER "post_feedforward_layernorm", LLAMA_ATTENTION, LLAMA_MLP};
static const char *const starcoder2_names[GYRE_TENSOR_ROLES] = {LLAMA_TOP,
                                                                [GYRE_TENSOR_ATTN_NORM] = LLAMA_LAYER "input_layernorm",
                                                                [GYRE_TENSOR_MLP_NORM] =
                                                                    LLAMA_LAYER "post_attention_layernorm",
                                                                LLAMA_ATTENTION,
                                                                [GYRE_TENSOR_UP] = LLAMA_LAYER "mlp.c_fc",
                                                                [GYRE_TENSOR_DOWN] = LLAMA_LAYER "mlp.c_proj"};
static const char *const phi_names[GYRE_TENSOR_ROLES] = {[GYRE_TENSOR_EMBEDDING] = "model.embed_tokens",
                                                         [GYRE_TENSOR_FINAL_NORM] = "model.final_layernorm",
                                                         [GYRE_TENSOR_LM_HEAD] = "lm_head",
                                                         [GYRE_TENSOR_ATTN_NORM] = LLAMA_LAYER "input_layernorm",
                                                         [GYRE_TENSOR_Q] = LLAMA_LAYER "self_attn.q_proj",
                                                         [GYRE_TENSOR_K] = LLAMA_LAYER "self_attn.k_proj",
                                                         [GYRE_TENSOR_V] = LLAMA_LAYER "self_attn.v_proj",
                                                         [GYRE_TENSOR_O] = LLAMA_LAYER "self_attn.dense",
                                                         [GYRE_TENSOR_UP] = LLAMA_LAYER "mlp.fc1",
                                                         [GYRE_TENSOR_DOWN] = LLAMA_LAYER "mlp.fc2"};
#define NEOX_LAYER "gpt_neox.layers.%d."
static const char *const neox_names[GYRE_TENSOR_ROLES] = {[GYRE_TENSOR_EMBEDDING] = "gpt_neox.embed_in",
                                                          [GYRE_TENSOR_FINAL_NORM] = "gpt_neox.final_layer_norm",
                                                          [GYRE_TENSOR_LM_HEAD] = "embed_out",
                                                          [GYRE_TENSOR_ATTN_NORM] = NEOX_LAYER "input_layernorm",
                                                          [GYRE_TENSOR_MLP_NORM] = NEOX_LAYER "post_attention_layernorm",
                                                          [GYRE_TENSOR_QKV] = NEOX_LAYER "attention.query_key_value",
                                                          [GYRE_TENSOR_O] = NEOX_LAYER "attention.dense",
                                                          [GYRE_TENSOR_UP] = NEOX_LAYER "mlp.dense_h_to_4h",
                                                          [GYRE_TENSOR_DOWN] = NEOX_LAYER "mlp.dense_4h_to_h"};
/* Files may put "transformer." before all of these. */
static const char *const gpt2_names[GYRE_TENSOR_ROLES] = {
    [GYRE_TENSOR_EMBEDDING] = "wte",        [GYRE_TENSOR_POSITION_EMBEDDING] = "wpe", [GYRE_TENSOR_FINAL_NORM] = "ln_f",
    [GYRE_TENSOR_LM_HEAD] = "lm_head",      [GYRE_TENSOR_ATTN_NORM] = "h.%d.ln_1",    [GYRE_TENSOR_MLP_NORM] = "h.%d.ln_2",
    [GYRE_TENSOR_QKV] = "h.%d.attn.c_attn", [GYRE_TENSOR_O] = "h.%d.attn.c_proj",     [GYRE_TENSOR_UP] = "h.%d.mlp.c_fc",
    [GYRE_TENSOR_DOWN] = "h.%d.mlp.c_proj"};
static const char *const gptj_names[GYRE_TENSOR_ROLES] = {
    [GYRE_TENSOR_EMBEDDING] = "wte",       [GYRE_TENSOR_FINAL_NORM] = "ln_f",      [GYRE_TENSOR_LM_HEAD] = "lm_head",
    [GYRE_TENSOR_ATTN_NORM] = "h.%d.ln_1", [GYRE_TENSOR_Q] = "h.%d.attn.q_proj",   [GYRE_TENSOR_K] = "h.%d.attn.k_proj",
    [GYRE_TENSOR_V] = "h.%d.attn.v_proj",  [GYRE_TENSOR_O] = "h.%d.attn.out_proj", [GYRE_TENSOR_UP] = "h.%d.mlp.fc_in",
    [GYRE_TENSOR_DOWN] = "h.%d.mlp.fc_out"};
static const char *const bloom_names[GYRE_TENSOR_ROLES] = {[GYRE_TENSOR_EMBEDDING] = "word_embeddings",
                                                           [GYRE_TENSOR_EMBED_NORM] = "word_embeddings_layernorm",
                                                           [GYRE_TENSOR_FINAL_NORM] = "ln_f",
                                                           [GYRE_TENSOR_LM_HEAD] = "lm_head",
                                                           [GYRE_TENSOR_ATTN_NORM] = "h.%d.input_layernorm",
                                                           [GYRE_TENSOR_MLP_NORM] = "h.%d.post_attention_layernorm",
                                                           [GYRE_TENSOR_QKV] = "h.%d.self_attention.query_key_value",
                                                           [GYRE_TENSOR_O] = "h.%d.self_attention.dense",
                                                           [GYRE_TENSOR_UP] = "h.%d.mlp.dense_h_to_4h",
                                                           [GYRE_TENSOR_DOWN] = "h.%d.mlp.dense_4h_to_h"};
static const char *const mpt_names[GYRE_TENSOR_ROLES] = {[GYRE_TENSOR_EMBEDDING] = "wte",
                                                         [GYRE_TENSOR_FINAL_NORM] = "norm_f",
                                                         [GYRE_TENSOR_LM_HEAD] = "lm_head",
                                                         [GYRE_TENSOR_ATTN_NORM] = "blocks.%d.norm_1",
                                                         [GYRE_TENSOR_MLP_NORM] = "blocks.%d.norm_2",
                                                         [GYRE_TENSOR_QKV] = "blocks.%d.attn.Wqkv",
                                                         [GYRE_TENSOR_O] = "blocks.%d.attn.out_proj",
                                                         [GYRE_TENSOR_UP] = "blocks.%d.ffn.up_proj",
                                                         [GYRE_TENSOR_DOWN] = "blocks.%d.ffn.down_proj"};

#define GGUF_LAYER "blk.%d."
#define GGUF_SHARED                                                                                                         \
    [GYRE_TENSOR_EMBEDDING] = "token_embd", [GYRE_TENSOR_POSITION_EMBEDDING] = "position_embd",                             \
    [GYRE_TENSOR_EMBED_NORM] = "token_embd_norm", [GYRE_TENSOR_FINAL_NORM] = "output_norm",                                 \
    [GYRE_TENSOR_LM_HEAD] = "output", [GYRE_TENSOR_ATTN_NORM] = GGUF_LAYER "attn_norm",                                     \
    [GYRE_TENSOR_MLP_NORM] = GGUF_LAYER "ffn_norm", [GYRE_TENSOR_POST_ATTN_NORM] = GGUF_LAYER "post_attention_norm",        \
    [GYRE_TENSOR_POST_MLP_NORM] = GGUF_LAYER "post_ffw_norm", [GYRE_TENSOR_QUERY_NORM] = GGUF_LAYER "attn_q_norm",          \
    [GYRE_TENSOR_KEY_NORM] = GGUF_LAYER "attn_k_norm", [GYRE_TENSOR_QKV] = GGUF_LAYER "attn_qkv",                           \
    [GYRE_TENSOR_Q] = GGUF_LAYER "attn_q", [GYRE_TENSOR_K] = GGUF_LAYER "attn_k", [GYRE_TENSOR_V] = GGUF_LAYER "attn_v",    \
    [GYRE_TENSOR_O] = GGUF_LAYER "attn_output", [GYRE_TENSOR_DOWN] = GGUF_LAYER "ffn_down"
static const char *const gguf_names[GYRE_TENSOR_ROLES] = {
    GGUF_SHARED, [GYRE_TENSOR_GATE] = GGUF_LAYER "ffn_gate", [GYRE_TENSOR_UP] = GGUF_LAYER "ffn_up"};
/* phi3: gate and up are one tensor, called ffn_up. */
static const char *const gguf_fused_names[GYRE_TENSOR_ROLES] = {GGUF_SHARED, [GYRE_TENSOR_GATE_UP] = GGUF_LAYER "ffn_up"};

/* -- families -- */
/* clang-format off */
static const gyre_family_row hf_rows[] = {
    /* type, names, prefix, norm, activation, gain offset, epsilon, traits, biases, gated, parallel, post norms,
     * transposed, tied, fused */
    {"llama", llama_names, "", GYRE_NORM_RMS, GYRE_ACTIVATION_SILU, 0, 1e-6, GYRE_TRAIT_BIAS_FLAGS, 0, 1, 0, 0, 0, 0, GYRE_QKV_CONCAT},
    {"mistral", llama_names, "", GYRE_NORM_RMS, GYRE_ACTIVATION_SILU, 0, 1e-6, 0, 0, 1, 0, 0, 0, 0, GYRE_QKV_CONCAT},
    {"qwen2", llama_names, "", GYRE_NORM_RMS, GYRE_ACTIVATION_SILU, 0, 1e-6, 0, BIT(Q) | BIT(K) | BIT(V), 1, 0, 0, 0, 0, GYRE_QKV_CONCAT},
    {"qwen3", llama_names, "", GYRE_NORM_RMS, GYRE_ACTIVATION_SILU, 0, 1e-6, GYRE_TRAIT_BIAS_FLAGS | GYRE_TRAIT_QK_NORM, 0, 1, 0, 0, 0, 0, GYRE_QKV_CONCAT},
    {"smollm3", llama_names, "", GYRE_NORM_RMS, GYRE_ACTIVATION_SILU, 0, 1e-6, GYRE_TRAIT_BIAS_FLAGS, 0, 1, 0, 0, 0, 1, GYRE_QKV_CONCAT},
    {"granite", llama_names, "", GYRE_NORM_RMS, GYRE_ACTIVATION_SILU, 0, 1e-6, GYRE_TRAIT_BIAS_FLAGS | GYRE_TRAIT_GRANITE_SCALES, 0, 1, 0, 0, 0, 0, GYRE_QKV_CONCAT},
    {"olmo2", olmo2_names, "", GYRE_NORM_RMS, GYRE_ACTIVATION_SILU, 0, 1e-5, GYRE_TRAIT_BIAS_FLAGS | GYRE_TRAIT_QK_NORM, 0, 1, 0, 1, 0, 0, GYRE_QKV_CONCAT},
    {"phi3", llama_names, "", GYRE_NORM_RMS, GYRE_ACTIVATION_SILU, 0, 1e-5, 0, 0, 1, 0, 0, 0, 0, GYRE_QKV_CONCAT},
    {"gemma", llama_names, "", GYRE_NORM_RMS, GYRE_ACTIVATION_GELU_TANH, 1, 1e-6, GYRE_TRAIT_BIAS_FLAGS | GYRE_TRAIT_SCALED_EMBEDDING, 0, 1, 0, 0, 0, 1, GYRE_QKV_CONCAT},
    {"gemma2", gemma2_names, "", GYRE_NORM_RMS, GYRE_ACTIVATION_GELU_TANH, 1, 1e-6, GYRE_TRAIT_BIAS_FLAGS | GYRE_TRAIT_SCALED_EMBEDDING | GYRE_TRAIT_SOFTCAPS, 0, 1, 0, 1, 0, 1, GYRE_QKV_CONCAT},
    {"gemma3_text", gemma2_names, "", GYRE_NORM_RMS, GYRE_ACTIVATION_GELU_TANH, 1, 1e-6, GYRE_TRAIT_BIAS_FLAGS | GYRE_TRAIT_SCALED_EMBEDDING | GYRE_TRAIT_SOFTCAPS | GYRE_TRAIT_QK_NORM, 0, 1, 0, 1, 0, 1, GYRE_QKV_CONCAT},
    {"cohere", llama_names, "", GYRE_NORM_LAYER, GYRE_ACTIVATION_SILU, 0, 1e-5, GYRE_TRAIT_BIAS_FLAGS | GYRE_TRAIT_LOGIT_SCALE, 0, 1, 1, 0, 0, 1, GYRE_QKV_CONCAT},
    {"stablelm", llama_names, "", GYRE_NORM_LAYER, GYRE_ACTIVATION_SILU, 0, 1e-5, GYRE_TRAIT_PARALLEL_FLAG, NORM_BIASES, 1, 0, 0, 0, 0, GYRE_QKV_CONCAT},
    {"starcoder2", starcoder2_names, "", GYRE_NORM_LAYER, GYRE_ACTIVATION_GELU_TANH, 0, 1e-5, 0, NORM_BIASES, 0, 0, 0, 0, 1, GYRE_QKV_CONCAT},
    {"phi", phi_names, "", GYRE_NORM_LAYER, GYRE_ACTIVATION_GELU_TANH, 0, 1e-5, 0, ALL_BIASES | BIT(LM_HEAD), 0, 1, 0, 0, 0, GYRE_QKV_CONCAT},
    {"gpt_neox", neox_names, "", GYRE_NORM_LAYER, GYRE_ACTIVATION_GELU, 0, 1e-5, GYRE_TRAIT_PARALLEL_FLAG | GYRE_TRAIT_PARALLEL_MLP_NORM, NORM_BIASES | MLP_BIASES, 0, 1, 0, 0, 0, GYRE_QKV_INTERLEAVED},
    {"gpt2", gpt2_names, "transformer.", GYRE_NORM_LAYER, GYRE_ACTIVATION_GELU_TANH, 0, 1e-5, 0, ALL_BIASES, 0, 0, 0, 1, 1, GYRE_QKV_CONCAT},
    {"gptj", gptj_names, "transformer.", GYRE_NORM_LAYER, GYRE_ACTIVATION_GELU_TANH, 0, 1e-5, 0, NORM_BIASES | MLP_BIASES | BIT(LM_HEAD), 0, 1, 0, 0, 0, GYRE_QKV_CONCAT},
    {"bloom", bloom_names, "transformer.", GYRE_NORM_LAYER, GYRE_ACTIVATION_GELU_TANH, 0, 1e-5, 0, ALL_BIASES | BIT(EMBED_NORM), 0, 0, 0, 0, 1, GYRE_QKV_INTERLEAVED},
    {"mpt", mpt_names, "transformer.", GYRE_NORM_LAYER, GYRE_ACTIVATION_GELU, 0, 1e-5, GYRE_TRAIT_MPT_KEYS, 0, 0, 0, 0, 0, 1, GYRE_QKV_CONCAT},
};
/* In a GGUF a missing output matrix means tied, and gains are stored as they are used.  llama.cpp runs some families
 * with a cheaper GELU than they were trained with.  Gyre computes the one of the training. */
static const gyre_family_row gguf_rows[] = {
    {"llama", gguf_names, "", GYRE_NORM_RMS, GYRE_ACTIVATION_SILU, 0, 0, 0, 0, 1, 0, 0, 0, 0, GYRE_QKV_CONCAT},
    {"qwen2", gguf_names, "", GYRE_NORM_RMS, GYRE_ACTIVATION_SILU, 0, 0, 0, BIT(Q) | BIT(K) | BIT(V), 1, 0, 0, 0, 0, GYRE_QKV_CONCAT},
    {"qwen3", gguf_names, "", GYRE_NORM_RMS, GYRE_ACTIVATION_SILU, 0, 0, GYRE_TRAIT_QK_NORM, 0, 1, 0, 0, 0, 0, GYRE_QKV_CONCAT},
    {"smollm3", gguf_names, "", GYRE_NORM_RMS, GYRE_ACTIVATION_SILU, 0, 0, 0, 0, 1, 0, 0, 0, 0, GYRE_QKV_CONCAT},
    {"phi3", gguf_fused_names, "", GYRE_NORM_RMS, GYRE_ACTIVATION_SILU, 0, 0, 0, 0, 1, 0, 0, 0, 0, GYRE_QKV_CONCAT},
    {"gemma", gguf_names, "", GYRE_NORM_RMS, GYRE_ACTIVATION_GELU_TANH, 0, 0, GYRE_TRAIT_SCALED_EMBEDDING, 0, 1, 0, 0, 0, 0, GYRE_QKV_CONCAT},
    {"gemma2", gguf_names, "", GYRE_NORM_RMS, GYRE_ACTIVATION_GELU_TANH, 0, 0, GYRE_TRAIT_SCALED_EMBEDDING | GYRE_TRAIT_SOFTCAPS, 0, 1, 0, 1, 0, 0, GYRE_QKV_CONCAT},
    {"gemma3", gguf_names, "", GYRE_NORM_RMS, GYRE_ACTIVATION_GELU_TANH, 0, 0, GYRE_TRAIT_SCALED_EMBEDDING | GYRE_TRAIT_QK_NORM, 0, 1, 0, 1, 0, 0, GYRE_QKV_CONCAT},
    {"phi2", gguf_names, "", GYRE_NORM_LAYER, GYRE_ACTIVATION_GELU_TANH, 0, 0, 0, ALL_BIASES & ~BIT(MLP_NORM), 0, 1, 0, 0, 0, GYRE_QKV_CONCAT},
    {"gptneox", gguf_names, "", GYRE_NORM_LAYER, GYRE_ACTIVATION_GELU, 0, 0, GYRE_TRAIT_PARALLEL_FLAG | GYRE_TRAIT_PARALLEL_MLP_NORM, NORM_BIASES | MLP_BIASES, 0, 1, 0, 0, 0, GYRE_QKV_CONCAT},
    {"gpt2", gguf_names, "", GYRE_NORM_LAYER, GYRE_ACTIVATION_GELU_TANH, 0, 0, 0, ALL_BIASES, 0, 0, 0, 0, 0, GYRE_QKV_CONCAT},
    {"starcoder2", gguf_names, "", GYRE_NORM_LAYER, GYRE_ACTIVATION_GELU_TANH, 0, 0, 0, ALL_BIASES, 0, 0, 0, 0, 0, GYRE_QKV_CONCAT},
    {"bloom", gguf_names, "", GYRE_NORM_LAYER, GYRE_ACTIVATION_GELU_TANH, 0, 0, 0, ALL_BIASES | BIT(EMBED_NORM), 0, 0, 0, 0, 0, GYRE_QKV_CONCAT},
    {"mpt", gguf_names, "", GYRE_NORM_LAYER, GYRE_ACTIVATION_GELU, 0, 0, GYRE_TRAIT_MPT_KEYS, 0, 0, 0, 0, 0, 0, GYRE_QKV_CONCAT},
};
/* clang-format on */

static const gyre_family_row *find(const gyre_family_row *list, size_t count, const char *type) {
    for (size_t i = 0; i < count; i++)
        if (strcmp(list[i].type, type) == 0) return &list[i];
    return NULL;
}

const gyre_family_row *gyre_family_row_of(const char *model_type) {
    return find(hf_rows, sizeof hf_rows / sizeof *hf_rows, model_type);
}

const gyre_family_row *gyre_family_row_of_gguf(const char *architecture) {
    return find(gguf_rows, sizeof gguf_rows / sizeof *gguf_rows, architecture);
}

const char *gyre_family_list(int of_gguf) {
    return of_gguf ? "llama, qwen2, qwen3, smollm3, phi2, phi3, gemma, gemma2, gemma3, gptneox, gpt2, starcoder2, bloom, mpt"
                   : "llama, mistral, qwen2, qwen3, smollm3, granite, olmo2, phi, phi3, gemma, gemma2, gemma3, gemma3_text, "
                     "cohere, "
                     "stablelm, starcoder2, gpt_neox, gpt2, gptj, bloom, mpt";
}
