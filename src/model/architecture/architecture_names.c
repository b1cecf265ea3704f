/* architecture_names.c: the families that are run, what their classes compute where a config is silent, and their tensors'
 * names. */
#include "model/architecture/architecture_names.h"

#include <string.h>

#define BIT(role)   GYRE_BIT(role)
#define NORM_BIASES (BIT(LAST_NORM) | BIT(NORM1) | BIT(NORM2))
#define MLP_BIASES  (BIT(UP) | BIT(DOWN))
#define ALL_BIASES  GYRE_ALL_BIASES

/* -- names ------------------------------------------------------------------------------------------------------------- */
#define LLAMA "model.layers.%d."
#define LLAMA_ATTENTION                                                                                                     \
    [GYRE_ROLE_QUERY_NORM] = LLAMA "self_attn.q_norm", [GYRE_ROLE_KEY_NORM] = LLAMA "self_attn.k_norm",                     \
    [GYRE_ROLE_QKV] = LLAMA "self_attn.qkv_proj", [GYRE_ROLE_Q] = LLAMA "self_attn.q_proj",                                 \
    [GYRE_ROLE_K] = LLAMA "self_attn.k_proj", [GYRE_ROLE_V] = LLAMA "self_attn.v_proj",                                     \
    [GYRE_ROLE_O] = LLAMA "self_attn.o_proj"
#define LLAMA_PERCEPTRON                                                                                                    \
    [GYRE_ROLE_GATE_UP] = LLAMA "mlp.gate_up_proj", [GYRE_ROLE_GATE] = LLAMA "mlp.gate_proj",                               \
    [GYRE_ROLE_UP] = LLAMA "mlp.up_proj", [GYRE_ROLE_DOWN] = LLAMA "mlp.down_proj"
#define LLAMA_OUTSIDE                                                                                                       \
    [GYRE_ROLE_EMBEDDING] = "model.embed_tokens", [GYRE_ROLE_LAST_NORM] = "model.norm", [GYRE_ROLE_HEAD] = "lm_head"

static const char *const llama_names[GYRE_ROLES] = {
    LLAMA_OUTSIDE, [GYRE_ROLE_NORM1] = LLAMA "input_layernorm", [GYRE_ROLE_NORM2] = LLAMA "post_attention_layernorm",
    LLAMA_ATTENTION, LLAMA_PERCEPTRON};
static const char *const gemma2_names[GYRE_ROLES] = {LLAMA_OUTSIDE,
                                                     [GYRE_ROLE_NORM1] = LLAMA "input_layernorm",
                                                     [GYRE_ROLE_POST1] = LLAMA "post_attention_layernorm",
                                                     [GYRE_ROLE_NORM2] = LLAMA "pre_feedforward_layernorm",
                                                     [GYRE_ROLE_POST2] = LLAMA "post_feedforward_layernorm",
                                                     LLAMA_ATTENTION,
                                                     LLAMA_PERCEPTRON};
static const char *const olmo2_names[GYRE_ROLES] = {LLAMA_OUTSIDE, [GYRE_ROLE_POST1] = LLAMA "post_attention_layernorm",
                                                    [GYRE_ROLE_POST2] = LLAMA "post_feedforward_layernorm", LLAMA_ATTENTION,
                                                    LLAMA_PERCEPTRON};
static const char *const starcoder2_names[GYRE_ROLES] = {
    LLAMA_OUTSIDE,   [GYRE_ROLE_NORM1] = LLAMA "input_layernorm", [GYRE_ROLE_NORM2] = LLAMA "post_attention_layernorm",
    LLAMA_ATTENTION, [GYRE_ROLE_UP] = LLAMA "mlp.c_fc",           [GYRE_ROLE_DOWN] = LLAMA "mlp.c_proj"};
static const char *const phi_names[GYRE_ROLES] = {[GYRE_ROLE_EMBEDDING] = "model.embed_tokens",
                                                  [GYRE_ROLE_LAST_NORM] = "model.final_layernorm",
                                                  [GYRE_ROLE_HEAD] = "lm_head",
                                                  [GYRE_ROLE_NORM1] = LLAMA "input_layernorm",
                                                  [GYRE_ROLE_Q] = LLAMA "self_attn.q_proj",
                                                  [GYRE_ROLE_K] = LLAMA "self_attn.k_proj",
                                                  [GYRE_ROLE_V] = LLAMA "self_attn.v_proj",
                                                  [GYRE_ROLE_O] = LLAMA "self_attn.dense",
                                                  [GYRE_ROLE_UP] = LLAMA "mlp.fc1",
                                                  [GYRE_ROLE_DOWN] = LLAMA "mlp.fc2"};
#define NEOX "gpt_neox.layers.%d."
static const char *const neox_names[GYRE_ROLES] = {[GYRE_ROLE_EMBEDDING] = "gpt_neox.embed_in",
                                                   [GYRE_ROLE_LAST_NORM] = "gpt_neox.final_layer_norm",
                                                   [GYRE_ROLE_HEAD] = "embed_out",
                                                   [GYRE_ROLE_NORM1] = NEOX "input_layernorm",
                                                   [GYRE_ROLE_NORM2] = NEOX "post_attention_layernorm",
                                                   [GYRE_ROLE_QKV] = NEOX "attention.query_key_value",
                                                   [GYRE_ROLE_O] = NEOX "attention.dense",
                                                   [GYRE_ROLE_UP] = NEOX "mlp.dense_h_to_4h",
                                                   [GYRE_ROLE_DOWN] = NEOX "mlp.dense_4h_to_h"};
/* "transformer." may stand before all of these. */
static const char *const gpt2_names[GYRE_ROLES] = {
    [GYRE_ROLE_EMBEDDING] = "wte",        [GYRE_ROLE_POSITIONS] = "wpe",      [GYRE_ROLE_LAST_NORM] = "ln_f",
    [GYRE_ROLE_HEAD] = "lm_head",         [GYRE_ROLE_NORM1] = "h.%d.ln_1",    [GYRE_ROLE_NORM2] = "h.%d.ln_2",
    [GYRE_ROLE_QKV] = "h.%d.attn.c_attn", [GYRE_ROLE_O] = "h.%d.attn.c_proj", [GYRE_ROLE_UP] = "h.%d.mlp.c_fc",
    [GYRE_ROLE_DOWN] = "h.%d.mlp.c_proj"};
static const char *const gptj_names[GYRE_ROLES] = {
    [GYRE_ROLE_EMBEDDING] = "wte",       [GYRE_ROLE_LAST_NORM] = "ln_f",       [GYRE_ROLE_HEAD] = "lm_head",
    [GYRE_ROLE_NORM1] = "h.%d.ln_1",     [GYRE_ROLE_Q] = "h.%d.attn.q_proj",   [GYRE_ROLE_K] = "h.%d.attn.k_proj",
    [GYRE_ROLE_V] = "h.%d.attn.v_proj",  [GYRE_ROLE_O] = "h.%d.attn.out_proj", [GYRE_ROLE_UP] = "h.%d.mlp.fc_in",
    [GYRE_ROLE_DOWN] = "h.%d.mlp.fc_out"};
static const char *const bloom_names[GYRE_ROLES] = {[GYRE_ROLE_EMBEDDING] = "word_embeddings",
                                                    [GYRE_ROLE_EMBED_NORM] = "word_embeddings_layernorm",
                                                    [GYRE_ROLE_LAST_NORM] = "ln_f",
                                                    [GYRE_ROLE_HEAD] = "lm_head",
                                                    [GYRE_ROLE_NORM1] = "h.%d.input_layernorm",
                                                    [GYRE_ROLE_NORM2] = "h.%d.post_attention_layernorm",
                                                    [GYRE_ROLE_QKV] = "h.%d.self_attention.query_key_value",
                                                    [GYRE_ROLE_O] = "h.%d.self_attention.dense",
                                                    [GYRE_ROLE_UP] = "h.%d.mlp.dense_h_to_4h",
                                                    [GYRE_ROLE_DOWN] = "h.%d.mlp.dense_4h_to_h"};
static const char *const mpt_names[GYRE_ROLES] = {[GYRE_ROLE_EMBEDDING] = "wte",
                                                  [GYRE_ROLE_LAST_NORM] = "norm_f",
                                                  [GYRE_ROLE_HEAD] = "lm_head",
                                                  [GYRE_ROLE_NORM1] = "blocks.%d.norm_1",
                                                  [GYRE_ROLE_NORM2] = "blocks.%d.norm_2",
                                                  [GYRE_ROLE_QKV] = "blocks.%d.attn.Wqkv",
                                                  [GYRE_ROLE_O] = "blocks.%d.attn.out_proj",
                                                  [GYRE_ROLE_UP] = "blocks.%d.ffn.up_proj",
                                                  [GYRE_ROLE_DOWN] = "blocks.%d.ffn.down_proj"};

#define BLOCK "blk.%d."
#define GGUF_SHARED                                                                                                         \
    [GYRE_ROLE_EMBEDDING] = "token_embd", [GYRE_ROLE_POSITIONS] = "position_embd",                                          \
    [GYRE_ROLE_EMBED_NORM] = "token_embd_norm", [GYRE_ROLE_LAST_NORM] = "output_norm", [GYRE_ROLE_HEAD] = "output",         \
    [GYRE_ROLE_NORM1] = BLOCK "attn_norm", [GYRE_ROLE_NORM2] = BLOCK "ffn_norm",                                            \
    [GYRE_ROLE_POST1] = BLOCK "post_attention_norm", [GYRE_ROLE_POST2] = BLOCK "post_ffw_norm",                             \
    [GYRE_ROLE_QUERY_NORM] = BLOCK "attn_q_norm", [GYRE_ROLE_KEY_NORM] = BLOCK "attn_k_norm",                               \
    [GYRE_ROLE_QKV] = BLOCK "attn_qkv", [GYRE_ROLE_Q] = BLOCK "attn_q", [GYRE_ROLE_K] = BLOCK "attn_k",                     \
    [GYRE_ROLE_V] = BLOCK "attn_v", [GYRE_ROLE_O] = BLOCK "attn_output", [GYRE_ROLE_DOWN] = BLOCK "ffn_down"
static const char *const gguf_names[GYRE_ROLES] = {
    GGUF_SHARED, [GYRE_ROLE_GATE] = BLOCK "ffn_gate", [GYRE_ROLE_UP] = BLOCK "ffn_up"};
/* phi3: gate and up are one tensor, under the name of the second. */
static const char *const gguf_fused_names[GYRE_ROLES] = {GGUF_SHARED, [GYRE_ROLE_GATE_UP] = BLOCK "ffn_up"};

/* -- families ---------------------------------------------------------------------------------------------------------- */
/* clang-format off */
static const gyre_family_row rows[] = {
    /* type, names, prefix, norm, activation, gain offset, epsilon, traits, biases, gated, parallel, post norms, transposed, tied, fused */
    {"llama", llama_names, "", GYRE_NORM_RMS, GYRE_SILU, 0, 1e-6, GYRE_TAKES_BIAS_FLAGS, 0, 1, 0, 0, 0, 0, GYRE_FUSED_BLOCKS},
    {"mistral", llama_names, "", GYRE_NORM_RMS, GYRE_SILU, 0, 1e-6, 0, 0, 1, 0, 0, 0, 0, GYRE_FUSED_BLOCKS},
    {"qwen2", llama_names, "", GYRE_NORM_RMS, GYRE_SILU, 0, 1e-6, 0, BIT(Q) | BIT(K) | BIT(V), 1, 0, 0, 0, 0, GYRE_FUSED_BLOCKS},
    {"qwen3", llama_names, "", GYRE_NORM_RMS, GYRE_SILU, 0, 1e-6, GYRE_TAKES_BIAS_FLAGS | GYRE_HEAD_NORMS, 0, 1, 0, 0, 0, 0, GYRE_FUSED_BLOCKS},
    {"smollm3", llama_names, "", GYRE_NORM_RMS, GYRE_SILU, 0, 1e-6, GYRE_TAKES_BIAS_FLAGS, 0, 1, 0, 0, 0, 1, GYRE_FUSED_BLOCKS},
    {"granite", llama_names, "", GYRE_NORM_RMS, GYRE_SILU, 0, 1e-6, GYRE_TAKES_BIAS_FLAGS | GYRE_GRANITE_SCALES, 0, 1, 0, 0, 0, 0, GYRE_FUSED_BLOCKS},
    {"olmo2", olmo2_names, "", GYRE_NORM_RMS, GYRE_SILU, 0, 1e-5, GYRE_TAKES_BIAS_FLAGS | GYRE_HEAD_NORMS, 0, 1, 0, 1, 0, 0, GYRE_FUSED_BLOCKS},
    {"phi3", llama_names, "", GYRE_NORM_RMS, GYRE_SILU, 0, 1e-5, 0, 0, 1, 0, 0, 0, 0, GYRE_FUSED_BLOCKS},
    {"gemma", llama_names, "", GYRE_NORM_RMS, GYRE_GELU_TANH, 1, 1e-6, GYRE_TAKES_BIAS_FLAGS | GYRE_SCALED_EMBEDDING, 0, 1, 0, 0, 0, 1, GYRE_FUSED_BLOCKS},
    {"gemma2", gemma2_names, "", GYRE_NORM_RMS, GYRE_GELU_TANH, 1, 1e-6, GYRE_TAKES_BIAS_FLAGS | GYRE_SCALED_EMBEDDING | GYRE_SOFTCAPS, 0, 1, 0, 1, 0, 1, GYRE_FUSED_BLOCKS},
    {"gemma3_text", gemma2_names, "", GYRE_NORM_RMS, GYRE_GELU_TANH, 1, 1e-6, GYRE_TAKES_BIAS_FLAGS | GYRE_SCALED_EMBEDDING | GYRE_SOFTCAPS | GYRE_HEAD_NORMS, 0, 1, 0, 1, 0, 1, GYRE_FUSED_BLOCKS},
    {"cohere", llama_names, "", GYRE_NORM_LAYER, GYRE_SILU, 0, 1e-5, GYRE_TAKES_BIAS_FLAGS | GYRE_LOGIT_SCALE, 0, 1, 1, 0, 0, 1, GYRE_FUSED_BLOCKS},
    {"stablelm", llama_names, "", GYRE_NORM_LAYER, GYRE_SILU, 0, 1e-5, GYRE_PARALLEL_FLAG | GYRE_USE_BIAS, NORM_BIASES, 1, 0, 0, 0, 0, GYRE_FUSED_BLOCKS},
    {"starcoder2", starcoder2_names, "", GYRE_NORM_LAYER, GYRE_GELU_TANH, 0, 1e-5, GYRE_USE_BIAS, NORM_BIASES, 0, 0, 0, 0, 1, GYRE_FUSED_BLOCKS},
    {"phi", phi_names, "", GYRE_NORM_LAYER, GYRE_GELU_TANH, 0, 1e-5, 0, ALL_BIASES | BIT(HEAD), 0, 1, 0, 0, 0, GYRE_FUSED_BLOCKS},
    {"gpt_neox", neox_names, "", GYRE_NORM_LAYER, GYRE_GELU, 0, 1e-5, GYRE_PARALLEL_FLAG | GYRE_BOTH_NORMS, NORM_BIASES | MLP_BIASES, 0, 1, 0, 0, 0, GYRE_FUSED_HEADS},
    {"gpt2", gpt2_names, "transformer.", GYRE_NORM_LAYER, GYRE_GELU_TANH, 0, 1e-5, 0, ALL_BIASES, 0, 0, 0, 1, 1, GYRE_FUSED_BLOCKS},
    {"gptj", gptj_names, "transformer.", GYRE_NORM_LAYER, GYRE_GELU_TANH, 0, 1e-5, 0, NORM_BIASES | MLP_BIASES | BIT(HEAD), 0, 1, 0, 0, 0, GYRE_FUSED_BLOCKS},
    {"bloom", bloom_names, "transformer.", GYRE_NORM_LAYER, GYRE_GELU_TANH, 0, 1e-5, 0, ALL_BIASES | BIT(EMBED_NORM), 0, 0, 0, 0, 1, GYRE_FUSED_HEADS},
    {"mpt", mpt_names, "transformer.", GYRE_NORM_LAYER, GYRE_GELU, 0, 1e-5, GYRE_MPT_KEYS, 0, 0, 0, 0, 0, 1, GYRE_FUSED_BLOCKS},
};
/* The engine knows a tied head by its absence; gains are stored as they are used.  Where it takes a cheaper GELU than the one
 * a family was trained with, that one is computed here. */
static const gyre_family_row gguf_rows[] = {
    {"llama", gguf_names, "", GYRE_NORM_RMS, GYRE_SILU, 0, 0, 0, 0, 1, 0, 0, 0, 0, GYRE_FUSED_BLOCKS},
    {"qwen2", gguf_names, "", GYRE_NORM_RMS, GYRE_SILU, 0, 0, 0, BIT(Q) | BIT(K) | BIT(V), 1, 0, 0, 0, 0, GYRE_FUSED_BLOCKS},
    {"qwen3", gguf_names, "", GYRE_NORM_RMS, GYRE_SILU, 0, 0, GYRE_HEAD_NORMS, 0, 1, 0, 0, 0, 0, GYRE_FUSED_BLOCKS},
    {"smollm3", gguf_names, "", GYRE_NORM_RMS, GYRE_SILU, 0, 0, 0, 0, 1, 0, 0, 0, 0, GYRE_FUSED_BLOCKS},
    {"phi3", gguf_fused_names, "", GYRE_NORM_RMS, GYRE_SILU, 0, 0, 0, 0, 1, 0, 0, 0, 0, GYRE_FUSED_BLOCKS},
    {"gemma", gguf_names, "", GYRE_NORM_RMS, GYRE_GELU_TANH, 0, 0, GYRE_SCALED_EMBEDDING, 0, 1, 0, 0, 0, 0, GYRE_FUSED_BLOCKS},
    {"gemma2", gguf_names, "", GYRE_NORM_RMS, GYRE_GELU_TANH, 0, 0, GYRE_SCALED_EMBEDDING | GYRE_SOFTCAPS, 0, 1, 0, 1, 0, 0, GYRE_FUSED_BLOCKS},
    {"gemma3", gguf_names, "", GYRE_NORM_RMS, GYRE_GELU_TANH, 0, 0, GYRE_SCALED_EMBEDDING | GYRE_HEAD_NORMS, 0, 1, 0, 1, 0, 0, GYRE_FUSED_BLOCKS},
    {"phi2", gguf_names, "", GYRE_NORM_LAYER, GYRE_GELU_TANH, 0, 0, 0, ALL_BIASES & ~BIT(NORM2), 0, 1, 0, 0, 0, GYRE_FUSED_BLOCKS},
    {"gptneox", gguf_names, "", GYRE_NORM_LAYER, GYRE_GELU, 0, 0, GYRE_PARALLEL_FLAG | GYRE_BOTH_NORMS, NORM_BIASES | MLP_BIASES, 0, 1, 0, 0, 0, GYRE_FUSED_BLOCKS},
    {"gpt2", gguf_names, "", GYRE_NORM_LAYER, GYRE_GELU_TANH, 0, 0, 0, ALL_BIASES, 0, 0, 0, 0, 0, GYRE_FUSED_BLOCKS},
    {"starcoder2", gguf_names, "", GYRE_NORM_LAYER, GYRE_GELU_TANH, 0, 0, 0, ALL_BIASES, 0, 0, 0, 0, 0, GYRE_FUSED_BLOCKS},
    {"bloom", gguf_names, "", GYRE_NORM_LAYER, GYRE_GELU_TANH, 0, 0, 0, ALL_BIASES | BIT(EMBED_NORM), 0, 0, 0, 0, 0, GYRE_FUSED_BLOCKS},
    {"mpt", gguf_names, "", GYRE_NORM_LAYER, GYRE_GELU, 0, 0, GYRE_MPT_KEYS, 0, 0, 0, 0, 0, 0, GYRE_FUSED_BLOCKS},
};
/* clang-format on */

static const gyre_family_row *find(const gyre_family_row *list, size_t count, const char *type) {
    for (size_t i = 0; i < count; i++)
        if (strcmp(list[i].type, type) == 0) return &list[i];
    return NULL;
}

const gyre_family_row *gyre_family_row_of(const char *model_type) {
    return find(rows, sizeof rows / sizeof *rows, model_type);
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
