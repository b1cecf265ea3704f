#include "model/architecture/architecture_families.h"
#include "gyre/gyre_fields.h"

#include <string.h>

#define BIT(role)   GYRE_TENSOR_BIT(role)
#define NORM_BIASES (BIT(FINAL_NORM) | BIT(ATTN_NORM) | BIT(MLP_NORM))
#define MLP_BIASES  (BIT(UP) | BIT(DOWN))
#define QKV_BIASES  (BIT(Q) | BIT(K) | BIT(V))
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
#define GEMMA_NORMS                                                                                                         \
    [GYRE_TENSOR_ATTN_NORM] = LLAMA_LAYER "input_layernorm",                                                                \
    [GYRE_TENSOR_POST_ATTN_NORM] = LLAMA_LAYER "post_attention_layernorm",                                                  \
    [GYRE_TENSOR_MLP_NORM] = LLAMA_LAYER "pre_feedforward_layernorm",                                                       \
    [GYRE_TENSOR_POST_MLP_NORM] = LLAMA_LAYER "post_feedforward_layernorm"
static const char *const gemma2_names[GYRE_TENSOR_ROLES] = {LLAMA_TOP, GEMMA_NORMS, LLAMA_ATTENTION, LLAMA_MLP};
static const char *const gemma4_names[GYRE_TENSOR_ROLES] = {
    LLAMA_TOP,
    [GYRE_TENSOR_LAYER_INPUTS] = "model.embed_tokens_per_layer",
    [GYRE_TENSOR_LAYER_INPUTS_MAP] = "model.per_layer_model_projection",
    [GYRE_TENSOR_LAYER_INPUTS_NORM] = "model.per_layer_projection_norm",
    GEMMA_NORMS,
    LLAMA_ATTENTION,
    LLAMA_MLP,
    [GYRE_TENSOR_ROUTER] = LLAMA_LAYER "router.proj",
    [GYRE_TENSOR_ROUTER_NORM] = LLAMA_LAYER "router.scale",
    [GYRE_TENSOR_EXPERT_SCALES] = LLAMA_LAYER "router.per_expert_scale",
    [GYRE_TENSOR_EXPERTS_GATE_UP] = LLAMA_LAYER "experts.gate_up_proj",
    [GYRE_TENSOR_EXPERTS_DOWN] = LLAMA_LAYER "experts.down_proj",
    [GYRE_TENSOR_EXPERTS_NORM] = LLAMA_LAYER "pre_feedforward_layernorm_2",
    [GYRE_TENSOR_POST_EXPERTS_NORM] = LLAMA_LAYER "post_feedforward_layernorm_2",
    [GYRE_TENSOR_POST_DENSE_NORM] = LLAMA_LAYER "post_feedforward_layernorm_1",
    [GYRE_TENSOR_INPUT_GATE] = LLAMA_LAYER "per_layer_input_gate",
    [GYRE_TENSOR_INPUT_OUT] = LLAMA_LAYER "per_layer_projection",
    [GYRE_TENSOR_POST_INPUT_NORM] = LLAMA_LAYER "post_per_layer_input_norm",
    [GYRE_TENSOR_LAYER_SCALE] = LLAMA_LAYER "layer_scalar"};
static const char *const olmo2_names[GYRE_TENSOR_ROLES] = {
    LLAMA_TOP, [GYRE_TENSOR_POST_ATTN_NORM] = LLAMA_LAYER "post_attention_layernorm",
    [GYRE_TENSOR_POST_MLP_NORM] = LLAMA_LAYER "post_feedforward_layernorm", LLAMA_ATTENTION, LLAMA_MLP};
static const char *const glm4_names[GYRE_TENSOR_ROLES] = {LLAMA_TOP,
                                                          [GYRE_TENSOR_ATTN_NORM] = LLAMA_LAYER "input_layernorm",
                                                          [GYRE_TENSOR_POST_ATTN_NORM] =
                                                              LLAMA_LAYER "post_self_attn_layernorm",
                                                          [GYRE_TENSOR_MLP_NORM] = LLAMA_LAYER "post_attention_layernorm",
                                                          [GYRE_TENSOR_POST_MLP_NORM] = LLAMA_LAYER "post_mlp_layernorm",
                                                          LLAMA_ATTENTION,
                                                          LLAMA_MLP};
/* -- experts -- */
#define LLAMA_NORMS                                                                                                         \
    [GYRE_TENSOR_ATTN_NORM] = LLAMA_LAYER "input_layernorm", [GYRE_TENSOR_MLP_NORM] = LLAMA_LAYER "post_attention_"         \
                                                                                                  "layernorm"
#define LLAMA_STACKS                                                                                                        \
    [GYRE_TENSOR_EXPERTS_GATE_UP] = LLAMA_LAYER "mlp.experts.gate_up_proj", [GYRE_TENSOR_EXPERTS_DOWN] =                    \
                                                                                LLAMA_LAYER "mlp.experts.down_proj"
#define LLAMA_EXPERTS                                                                                                       \
    LLAMA_STACKS, [GYRE_TENSOR_ROUTER] = LLAMA_LAYER "mlp.gate",                                                            \
                  [GYRE_TENSOR_EXPERT_GATE] = LLAMA_LAYER "mlp.experts.%d.gate_proj",                                       \
                  [GYRE_TENSOR_EXPERT_UP] = LLAMA_LAYER "mlp.experts.%d.up_proj",                                           \
                  [GYRE_TENSOR_EXPERT_DOWN] = LLAMA_LAYER "mlp.experts.%d.down_proj"
#define SHARED_EXPERT(name)                                                                                                 \
    [GYRE_TENSOR_SHARED_GATE] = LLAMA_LAYER name ".gate_proj", [GYRE_TENSOR_SHARED_UP] = LLAMA_LAYER name ".up_proj",       \
    [GYRE_TENSOR_SHARED_DOWN] = LLAMA_LAYER name ".down_proj"
static const char *const mixtral_names[GYRE_TENSOR_ROLES] = {
    LLAMA_TOP,
    LLAMA_NORMS,
    LLAMA_ATTENTION,
    [GYRE_TENSOR_ROUTER] = LLAMA_LAYER "block_sparse_moe.gate",
    [GYRE_TENSOR_EXPERT_GATE] = LLAMA_LAYER "block_sparse_moe.experts.%d.w1",
    [GYRE_TENSOR_EXPERT_UP] = LLAMA_LAYER "block_sparse_moe.experts.%d.w3",
    [GYRE_TENSOR_EXPERT_DOWN] = LLAMA_LAYER "block_sparse_moe.experts.%d.w2"};
static const char *const qwen_moe_names[GYRE_TENSOR_ROLES] = {LLAMA_TOP,
                                                              LLAMA_NORMS,
                                                              LLAMA_ATTENTION,
                                                              LLAMA_MLP,
                                                              LLAMA_EXPERTS,
                                                              SHARED_EXPERT("mlp.shared_expert"),
                                                              [GYRE_TENSOR_SHARED_SWITCH] =
                                                                  LLAMA_LAYER "mlp.shared_expert_gate"};
static const char *const gpt_oss_names[GYRE_TENSOR_ROLES] = {LLAMA_TOP,
                                                             LLAMA_NORMS,
                                                             LLAMA_ATTENTION,
                                                             LLAMA_STACKS,
                                                             [GYRE_TENSOR_ROUTER] = LLAMA_LAYER "mlp.router",
                                                             [GYRE_TENSOR_SINKS] = LLAMA_LAYER "self_attn.sinks"};
static const char *const ernie_moe_names[GYRE_TENSOR_ROLES] = {LLAMA_TOP,
                                                               LLAMA_NORMS,
                                                               LLAMA_ATTENTION,
                                                               LLAMA_MLP,
                                                               LLAMA_EXPERTS,
                                                               SHARED_EXPERT("mlp.shared_experts"),
                                                               [GYRE_TENSOR_ROUTER_CHOICE] =
                                                                   LLAMA_LAYER "mlp.moe_statics.e_score_correction_bias"};
static const char *const deepseek_names[GYRE_TENSOR_ROLES] = {
    LLAMA_TOP,
    LLAMA_NORMS,
    LLAMA_ATTENTION,
    LLAMA_MLP,
    LLAMA_EXPERTS,
    SHARED_EXPERT("mlp.shared_experts"),
    [GYRE_TENSOR_ROUTER_CHOICE] = LLAMA_LAYER "mlp.gate.e_score_correction_bias",
    [GYRE_TENSOR_QUERY_DOWN] = LLAMA_LAYER "self_attn.q_a_proj",
    [GYRE_TENSOR_QUERY_LATENT_NORM] = LLAMA_LAYER "self_attn.q_a_layernorm",
    [GYRE_TENSOR_QUERY_UP] = LLAMA_LAYER "self_attn.q_b_proj",
    [GYRE_TENSOR_KV_DOWN] = LLAMA_LAYER "self_attn.kv_a_proj_with_mqa",
    [GYRE_TENSOR_KV_LATENT_NORM] = LLAMA_LAYER "self_attn.kv_a_layernorm",
    [GYRE_TENSOR_KV_UP] = LLAMA_LAYER "self_attn.kv_b_proj"};
static const char *const llama4_names[GYRE_TENSOR_ROLES] = {
    LLAMA_TOP,
    LLAMA_NORMS,
    LLAMA_ATTENTION,
    [GYRE_TENSOR_GATE] = LLAMA_LAYER "feed_forward.gate_proj",
    [GYRE_TENSOR_UP] = LLAMA_LAYER "feed_forward.up_proj",
    [GYRE_TENSOR_DOWN] = LLAMA_LAYER "feed_forward.down_proj",
    [GYRE_TENSOR_ROUTER] = LLAMA_LAYER "feed_forward.router",
    [GYRE_TENSOR_EXPERTS_GATE_UP] = LLAMA_LAYER "feed_forward.experts.gate_up_proj",
    [GYRE_TENSOR_EXPERTS_DOWN] = LLAMA_LAYER "feed_forward.experts.down_proj",
    SHARED_EXPERT("feed_forward.shared_expert")};

/* -- other names -- */
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

#define FALCON(norm)                                                                                                        \
    [GYRE_TENSOR_EMBEDDING] = "word_embeddings", [GYRE_TENSOR_FINAL_NORM] = "ln_f", [GYRE_TENSOR_LM_HEAD] = "lm_head",      \
    [GYRE_TENSOR_ATTN_NORM] = norm, [GYRE_TENSOR_QKV] = "h.%d.self_attention.query_key_value",                              \
    [GYRE_TENSOR_O] = "h.%d.self_attention.dense", [GYRE_TENSOR_UP] = "h.%d.mlp.dense_h_to_4h",                             \
    [GYRE_TENSOR_DOWN] = "h.%d.mlp.dense_4h_to_h"
static const char *const falcon_names[GYRE_TENSOR_ROLES] = {
    FALCON("h.%d.input_layernorm"), [GYRE_TENSOR_MLP_NORM] = "h.%d.post_attention_layernorm"};
/* Attention and mlp have a norm each. */
const char *const gyre_falcon_two_norms[GYRE_TENSOR_ROLES] = {FALCON("h.%d.ln_attn"), [GYRE_TENSOR_MLP_NORM] =
                                                                                          "h.%d.ln_mlp"};

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
#define GGUF_EXPERTS                                                                                                        \
    [GYRE_TENSOR_GATE] = GGUF_LAYER "ffn_gate", [GYRE_TENSOR_UP] = GGUF_LAYER "ffn_up",                                     \
    [GYRE_TENSOR_ROUTER] = GGUF_LAYER "ffn_gate_inp", [GYRE_TENSOR_ROUTER_CHOICE] = GGUF_LAYER "exp_probs_b.bias",          \
    [GYRE_TENSOR_EXPERTS_GATE_UP] = GGUF_LAYER "ffn_gate_up_exps", [GYRE_TENSOR_EXPERTS_GATE] = GGUF_LAYER "ffn_gate_exps", \
    [GYRE_TENSOR_EXPERTS_UP] = GGUF_LAYER "ffn_up_exps", [GYRE_TENSOR_EXPERTS_DOWN] = GGUF_LAYER "ffn_down_exps",           \
    [GYRE_TENSOR_SHARED_SWITCH] = GGUF_LAYER "ffn_gate_inp_shexp", [GYRE_TENSOR_SHARED_GATE] = GGUF_LAYER "ffn_gate_shexp", \
    [GYRE_TENSOR_SHARED_UP] = GGUF_LAYER "ffn_up_shexp", [GYRE_TENSOR_SHARED_DOWN] = GGUF_LAYER "ffn_down_shexp",           \
    [GYRE_TENSOR_EXPERT_GATE] = GGUF_LAYER "ffn_gate.%d", [GYRE_TENSOR_EXPERT_UP] = GGUF_LAYER "ffn_up.%d",                 \
    [GYRE_TENSOR_EXPERT_DOWN] = GGUF_LAYER "ffn_down.%d"
static const char *const gguf_expert_names[GYRE_TENSOR_ROLES] = {GGUF_SHARED, GGUF_EXPERTS};
static const char *const gguf_latent_names[GYRE_TENSOR_ROLES] = {GGUF_SHARED,
                                                                 GGUF_EXPERTS,
                                                                 [GYRE_TENSOR_QUERY_DOWN] = GGUF_LAYER "attn_q_a",
                                                                 [GYRE_TENSOR_QUERY_LATENT_NORM] =
                                                                     GGUF_LAYER "attn_q_a_norm",
                                                                 [GYRE_TENSOR_QUERY_UP] = GGUF_LAYER "attn_q_b",
                                                                 [GYRE_TENSOR_KV_DOWN] = GGUF_LAYER "attn_kv_a_mqa",
                                                                 [GYRE_TENSOR_KV_LATENT_NORM] = GGUF_LAYER "attn_kv_a_norm",
                                                                 [GYRE_TENSOR_KV_UP] = GGUF_LAYER "attn_kv_b",
                                                                 [GYRE_TENSOR_LATENT_KEYS] = GGUF_LAYER "attn_k_b",
                                                                 [GYRE_TENSOR_LATENT_VALUES] = GGUF_LAYER "attn_v_b"};
/* gpt-oss and glm4moe: the norm before the mlp is called as one after attention elsewhere. */
static const char *const gguf_post_names[GYRE_TENSOR_ROLES] = {[GYRE_TENSOR_EMBEDDING] = "token_embd",
                                                               [GYRE_TENSOR_FINAL_NORM] = "output_norm",
                                                               [GYRE_TENSOR_LM_HEAD] = "output",
                                                               [GYRE_TENSOR_ATTN_NORM] = GGUF_LAYER "attn_norm",
                                                               [GYRE_TENSOR_MLP_NORM] = GGUF_LAYER "post_attention_norm",
                                                               [GYRE_TENSOR_QUERY_NORM] = GGUF_LAYER "attn_q_norm",
                                                               [GYRE_TENSOR_KEY_NORM] = GGUF_LAYER "attn_k_norm",
                                                               [GYRE_TENSOR_QKV] = GGUF_LAYER "attn_qkv",
                                                               [GYRE_TENSOR_Q] = GGUF_LAYER "attn_q",
                                                               [GYRE_TENSOR_K] = GGUF_LAYER "attn_k",
                                                               [GYRE_TENSOR_V] = GGUF_LAYER "attn_v",
                                                               [GYRE_TENSOR_O] = GGUF_LAYER "attn_output",
                                                               [GYRE_TENSOR_SINKS] = GGUF_LAYER "attn_sinks.weight",
                                                               [GYRE_TENSOR_DOWN] = GGUF_LAYER "ffn_down",
                                                               GGUF_EXPERTS};
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
    {"qwen2", llama_names, "", GYRE_NORM_RMS, GYRE_ACTIVATION_SILU, 0, 1e-6, 0, QKV_BIASES, 1, 0, 0, 0, 0, GYRE_QKV_CONCAT},
    {"qwen3", llama_names, "", GYRE_NORM_RMS, GYRE_ACTIVATION_SILU, 0, 1e-6, GYRE_TRAIT_BIAS_FLAGS | GYRE_TRAIT_QK_NORM, 0, 1, 0, 0, 0, 0, GYRE_QKV_CONCAT},
    {"ministral", llama_names, "", GYRE_NORM_RMS, GYRE_ACTIVATION_SILU, 0, 1e-6, 0, 0, 1, 0, 0, 0, 0, GYRE_QKV_CONCAT},
    {"ministral3", llama_names, "", GYRE_NORM_RMS, GYRE_ACTIVATION_SILU, 0, 1e-5, 0, 0, 1, 0, 0, 0, 0, GYRE_QKV_CONCAT},
    {"mixtral", mixtral_names, "", GYRE_NORM_RMS, GYRE_ACTIVATION_SILU, 0, 1e-5, 0, 0, 1, 0, 0, 0, 0, GYRE_QKV_CONCAT},
    {"qwen2_moe", qwen_moe_names, "", GYRE_NORM_RMS, GYRE_ACTIVATION_SILU, 0, 1e-6, GYRE_TRAIT_QKV_BIAS_KEY, QKV_BIASES, 1, 0, 0, 0, 0, GYRE_QKV_CONCAT},
    {"qwen3_moe", qwen_moe_names, "", GYRE_NORM_RMS, GYRE_ACTIVATION_SILU, 0, 1e-6, GYRE_TRAIT_BIAS_FLAGS | GYRE_TRAIT_QK_NORM, 0, 1, 0, 0, 0, 0, GYRE_QKV_CONCAT},
    {"gpt_oss", gpt_oss_names, "", GYRE_NORM_RMS, GYRE_ACTIVATION_CLAMPED_SWIGLU, 0, 1e-5, GYRE_TRAIT_BIAS_FLAGS | GYRE_TRAIT_SINKS, QKV_BIASES | BIT(O) | BIT(ROUTER) | BIT(EXPERTS_GATE_UP) | BIT(EXPERTS_DOWN), 1, 0, 0, 0, 0, GYRE_QKV_CONCAT},
    {"ernie4_5", llama_names, "", GYRE_NORM_RMS, GYRE_ACTIVATION_SILU, 0, 1e-5, GYRE_TRAIT_USE_BIAS_FLAG, 0, 1, 0, 0, 0, 1, GYRE_QKV_CONCAT},
    {"ernie4_5_moe", ernie_moe_names, "", GYRE_NORM_RMS, GYRE_ACTIVATION_SILU, 0, 1e-5, GYRE_TRAIT_USE_BIAS_FLAG, 0, 1, 0, 0, 0, 1, GYRE_QKV_CONCAT},
    {"seed_oss", llama_names, "", GYRE_NORM_RMS, GYRE_ACTIVATION_SILU, 0, 1e-6, GYRE_TRAIT_INPUT_BIAS_FLAG | GYRE_TRAIT_OUT_BIAS_FLAG | GYRE_TRAIT_MLP_BIAS_FLAG, QKV_BIASES, 1, 0, 0, 0, 0, GYRE_QKV_CONCAT},
    {"glm4", glm4_names, "", GYRE_NORM_RMS, GYRE_ACTIVATION_SILU, 0, 1.5625e-7, GYRE_TRAIT_INPUT_BIAS_FLAG, QKV_BIASES, 1, 0, 1, 0, 0, GYRE_QKV_CONCAT},
    {"glm4_moe", deepseek_names, "", GYRE_NORM_RMS, GYRE_ACTIVATION_SILU, 0, 1e-5, GYRE_TRAIT_INPUT_BIAS_FLAG | GYRE_TRAIT_QK_NORM_FLAG, 0, 1, 0, 0, 0, 0, GYRE_QKV_CONCAT},
    {"llama4_text", llama4_names, "", GYRE_NORM_RMS, GYRE_ACTIVATION_SILU, 0, 1e-5, GYRE_TRAIT_BIAS_FLAGS | GYRE_TRAIT_QK_NORM_FLAG, 0, 1, 0, 0, 0, 0, GYRE_QKV_CONCAT},
    {"deepseek_v3", deepseek_names, "", GYRE_NORM_RMS, GYRE_ACTIVATION_SILU, 0, 1e-6, GYRE_TRAIT_LATENTS, 0, 1, 0, 0, 0, 0, GYRE_QKV_CONCAT},
    {"falcon", falcon_names, "transformer.", GYRE_NORM_LAYER, GYRE_ACTIVATION_GELU, 0, 1e-5, GYRE_TRAIT_FALCON_KEYS, NORM_BIASES, 0, 1, 0, 0, 1, GYRE_QKV_CONCAT},
    {"smollm3", llama_names, "", GYRE_NORM_RMS, GYRE_ACTIVATION_SILU, 0, 1e-6, GYRE_TRAIT_BIAS_FLAGS, 0, 1, 0, 0, 0, 1, GYRE_QKV_CONCAT},
    {"granite", llama_names, "", GYRE_NORM_RMS, GYRE_ACTIVATION_SILU, 0, 1e-6, GYRE_TRAIT_BIAS_FLAGS | GYRE_TRAIT_GRANITE_SCALES, 0, 1, 0, 0, 0, 0, GYRE_QKV_CONCAT},
    {"olmo2", olmo2_names, "", GYRE_NORM_RMS, GYRE_ACTIVATION_SILU, 0, 1e-5, GYRE_TRAIT_BIAS_FLAGS | GYRE_TRAIT_QK_NORM_ALL, 0, 1, 0, 1, 0, 0, GYRE_QKV_CONCAT},
    {"olmo3", olmo2_names, "", GYRE_NORM_RMS, GYRE_ACTIVATION_SILU, 0, 1e-5, GYRE_TRAIT_BIAS_FLAGS | GYRE_TRAIT_QK_NORM_ALL, 0, 1, 0, 1, 0, 0, GYRE_QKV_CONCAT},
    {"exaone4", olmo2_names, "", GYRE_NORM_RMS, GYRE_ACTIVATION_SILU, 0, 1e-5, GYRE_TRAIT_QK_NORM, 0, 1, 0, 1, 0, 0, GYRE_QKV_CONCAT},
    {"phi3", llama_names, "", GYRE_NORM_RMS, GYRE_ACTIVATION_SILU, 0, 1e-5, 0, 0, 1, 0, 0, 0, 0, GYRE_QKV_CONCAT},
    {"gemma", llama_names, "", GYRE_NORM_RMS, GYRE_ACTIVATION_GELU_TANH, 1, 1e-6, GYRE_TRAIT_BIAS_FLAGS | GYRE_TRAIT_SCALED_EMBEDDING, 0, 1, 0, 0, 0, 1, GYRE_QKV_CONCAT},
    {"gemma2", gemma2_names, "", GYRE_NORM_RMS, GYRE_ACTIVATION_GELU_TANH, 1, 1e-6, GYRE_TRAIT_BIAS_FLAGS | GYRE_TRAIT_SCALED_EMBEDDING | GYRE_TRAIT_SOFTCAPS, 0, 1, 0, 1, 0, 1, GYRE_QKV_CONCAT},
    {"gemma3_text", gemma2_names, "", GYRE_NORM_RMS, GYRE_ACTIVATION_GELU_TANH, 1, 1e-6, GYRE_TRAIT_BIAS_FLAGS | GYRE_TRAIT_SCALED_EMBEDDING | GYRE_TRAIT_SOFTCAPS | GYRE_TRAIT_QK_NORM, 0, 1, 0, 1, 0, 1, GYRE_QKV_CONCAT},
    {"gemma4_text", gemma4_names, "", GYRE_NORM_RMS, GYRE_ACTIVATION_GELU_TANH, 0, 1e-6, GYRE_TRAIT_ATTENTION_BIAS_FLAG | GYRE_TRAIT_SCALED_EMBEDDING | GYRE_TRAIT_SOFTCAPS | GYRE_TRAIT_QK_NORM | GYRE_TRAIT_GEMMA4_KEYS, 0, 1, 0, 1, 0, 1, GYRE_QKV_CONCAT},
    {"cohere2", llama_names, "", GYRE_NORM_LAYER, GYRE_ACTIVATION_SILU, 0, 1e-5, GYRE_TRAIT_BIAS_FLAGS | GYRE_TRAIT_LOGIT_SCALE, 0, 1, 1, 0, 0, 1, GYRE_QKV_CONCAT},
    {"cohere", llama_names, "", GYRE_NORM_LAYER, GYRE_ACTIVATION_SILU, 0, 1e-5, GYRE_TRAIT_BIAS_FLAGS | GYRE_TRAIT_LOGIT_SCALE | GYRE_TRAIT_QK_NORM_FLAG, 0, 1, 1, 0, 0, 1, GYRE_QKV_CONCAT},
    {"stablelm", llama_names, "", GYRE_NORM_LAYER, GYRE_ACTIVATION_SILU, 0, 1e-5, GYRE_TRAIT_PARALLEL_FLAG | GYRE_TRAIT_USE_QKV_BIAS_KEY, NORM_BIASES, 1, 0, 0, 0, 0, GYRE_QKV_CONCAT},
    {"starcoder2", starcoder2_names, "", GYRE_NORM_LAYER, GYRE_ACTIVATION_GELU_TANH, 0, 1e-5, GYRE_TRAIT_USE_BIAS_FLAG, NORM_BIASES | QKV_BIASES | BIT(O) | MLP_BIASES, 0, 0, 0, 0, 1, GYRE_QKV_CONCAT},
    {"phi", phi_names, "", GYRE_NORM_LAYER, GYRE_ACTIVATION_GELU_TANH, 0, 1e-5, 0, ALL_BIASES | BIT(LM_HEAD), 0, 1, 0, 0, 0, GYRE_QKV_CONCAT},
    {"gpt_neox", neox_names, "", GYRE_NORM_LAYER, GYRE_ACTIVATION_GELU, 0, 1e-5, GYRE_TRAIT_PARALLEL_FLAG | GYRE_TRAIT_PARALLEL_MLP_NORM | GYRE_TRAIT_ATTENTION_BIAS_FLAG, NORM_BIASES | MLP_BIASES | BIT(QKV) | BIT(O), 0, 1, 0, 0, 0, GYRE_QKV_INTERLEAVED},
    {"gpt2", gpt2_names, "transformer.", GYRE_NORM_LAYER, GYRE_ACTIVATION_GELU_TANH, 0, 1e-5, 0, ALL_BIASES, 0, 0, 0, 1, 1, GYRE_QKV_CONCAT},
    {"gptj", gptj_names, "transformer.", GYRE_NORM_LAYER, GYRE_ACTIVATION_GELU_TANH, 0, 1e-5, 0, NORM_BIASES | MLP_BIASES | BIT(LM_HEAD), 0, 1, 0, 0, 0, GYRE_QKV_CONCAT},
    {"bloom", bloom_names, "transformer.", GYRE_NORM_LAYER, GYRE_ACTIVATION_GELU_TANH, 0, 1e-5, 0, ALL_BIASES | BIT(EMBED_NORM), 0, 0, 0, 0, 1, GYRE_QKV_INTERLEAVED},
    {"mpt", mpt_names, "transformer.", GYRE_NORM_LAYER, GYRE_ACTIVATION_GELU, 0, 1e-5, GYRE_TRAIT_MPT_KEYS, 0, 0, 0, 0, 0, 1, GYRE_QKV_CONCAT},
};
static const gyre_wrapper_row wrappers[] = {
    {"gemma3", "gemma3_text", NULL, 1, 0}, {"gemma4", "gemma4_text", NULL, 1, 0}, {"llama4", "llama4_text", NULL, 0, 0},
    {"mistral3", "mistral", NULL, 1, 0}, {"llava", "llama", NULL, 0, 0}, {"internvl", "qwen2", NULL, 1, 0},
    {"idefics3", "llama", NULL, 0, 0}, {"smolvlm", "llama", NULL, 0, 0},
    {"qwen2_vl", "qwen2_vl_text", "qwen2", 0, 1}, {"qwen2_5_vl", "qwen2_5_vl_text", "qwen2", 0, 1},
    {"qwen3_vl", "qwen3_vl_text", "qwen3", 0, 0},
};
const char *const gyre_wrapped_prefixes[] = {"model.language_model.", "language_model.model.", "model.text_model.", "model.", NULL};
/* In a GGUF a missing output matrix means tied, and gains are stored as they are used.  llama.cpp runs some families
 * with a cheaper GELU than they were trained with.  Gyre computes the one of the training. */
static const gyre_family_row gguf_rows[] = {
    {"llama", gguf_expert_names, "", GYRE_NORM_RMS, GYRE_ACTIVATION_SILU, 0, 0, 0, 0, 1, 0, 0, 0, 0, GYRE_QKV_CONCAT},
    {"qwen2", gguf_names, "", GYRE_NORM_RMS, GYRE_ACTIVATION_SILU, 0, 0, 0, QKV_BIASES, 1, 0, 0, 0, 0, GYRE_QKV_CONCAT},
    {"qwen3", gguf_names, "", GYRE_NORM_RMS, GYRE_ACTIVATION_SILU, 0, 0, GYRE_TRAIT_QK_NORM, 0, 1, 0, 0, 0, 0, GYRE_QKV_CONCAT},
    {"qwen2moe", gguf_expert_names, "", GYRE_NORM_RMS, GYRE_ACTIVATION_SILU, 0, 0, 0, QKV_BIASES, 1, 0, 0, 0, 0, GYRE_QKV_CONCAT},
    {"qwen3moe", gguf_expert_names, "", GYRE_NORM_RMS, GYRE_ACTIVATION_SILU, 0, 0, GYRE_TRAIT_QK_NORM, 0, 1, 0, 0, 0, 0, GYRE_QKV_CONCAT},
    {"gpt-oss", gguf_post_names, "", GYRE_NORM_RMS, GYRE_ACTIVATION_CLAMPED_SWIGLU, 0, 0, GYRE_TRAIT_SINKS, QKV_BIASES | BIT(O) | BIT(ROUTER) | BIT(EXPERTS_GATE) | BIT(EXPERTS_UP) | BIT(EXPERTS_DOWN), 1, 0, 0, 0, 0, GYRE_QKV_CONCAT},
    {"deepseek2", gguf_latent_names, "", GYRE_NORM_RMS, GYRE_ACTIVATION_SILU, 0, 0, GYRE_TRAIT_LATENTS, 0, 1, 0, 0, 0, 0, GYRE_QKV_CONCAT},
    {"glm4moe", gguf_post_names, "", GYRE_NORM_RMS, GYRE_ACTIVATION_SILU, 0, 0, GYRE_TRAIT_QK_NORM_FLAG, 0, 1, 0, 0, 0, 0, GYRE_QKV_CONCAT},
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

const gyre_wrapper_row *gyre_wrapper_row_of(const char *model_type) {
    for (size_t i = 0; i < sizeof wrappers / sizeof *wrappers; i++)
        if (strcmp(wrappers[i].type, model_type) == 0) return &wrappers[i];
    return NULL;
}

const gyre_family_row *gyre_family_row_of_gguf(const char *architecture) {
    return find(gguf_rows, sizeof gguf_rows / sizeof *gguf_rows, architecture);
}
