"""The configs of the synthetic models.  Sizes are small and uneven on purpose: a mistaken dimension must not fit by chance, and
an epsilon of 0.01 shows where one of 1e-5 would not."""

LLAMA = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": 61, "hidden_size": 24, "intermediate_size": 40,
    "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 4, "hidden_act": "silu",
    "max_position_embeddings": 64, "rms_norm_eps": 0.01, "rope_theta": 10000.0, "attention_bias": False,
    "tie_word_embeddings": False, "torch_dtype": "float32",
}  # fmt: skip
GROUPED = {**LLAMA, "num_key_value_heads": 2, "head_dim": 8}
PHI3 = {
    "architectures": ["Phi3ForCausalLM"], "model_type": "phi3", "vocab_size": 61, "hidden_size": 32, "intermediate_size": 44,
    "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "hidden_act": "silu",
    "max_position_embeddings": 64, "original_max_position_embeddings": 64, "rms_norm_eps": 0.01, "rope_theta": 10000.0,
    "rope_scaling": None, "sliding_window": 64, "tie_word_embeddings": False, "torch_dtype": "float32",
}  # fmt: skip
LONGROPE = {
    "type": "longrope", "short_factor": [1.0, 1.3, 1.9, 2.5], "long_factor": [1.0, 2.0, 5.0, 9.0],
}  # fmt: skip
NEOX = {
    "architectures": ["GPTNeoXForCausalLM"], "model_type": "gpt_neox", "vocab_size": 61, "hidden_size": 48,
    "intermediate_size": 100, "num_hidden_layers": 2, "num_attention_heads": 3, "hidden_act": "gelu", "rotary_pct": 0.25,
    "rotary_emb_base": 10000, "max_position_embeddings": 64, "layer_norm_eps": 0.01, "use_parallel_residual": True,
    "tie_word_embeddings": False, "torch_dtype": "float32",
}  # fmt: skip
GPT2 = {
    "architectures": ["GPT2LMHeadModel"], "model_type": "gpt2", "vocab_size": 61, "n_embd": 24, "n_layer": 2, "n_head": 3,
    "n_positions": 32, "n_ctx": 32, "activation_function": "gelu_new", "layer_norm_epsilon": 0.02, "torch_dtype": "float32",
}  # fmt: skip
BLOOM = {
    "architectures": ["BloomForCausalLM"], "model_type": "bloom", "vocab_size": 61, "hidden_size": 24, "n_layer": 2,
    "n_head": 6, "layer_norm_epsilon": 0.02, "apply_residual_connection_post_layernorm": False, "seq_length": 64,
    "torch_dtype": "float32",
}  # fmt: skip
MPT = {
    "architectures": ["MPTForCausalLM"], "model_type": "mpt", "vocab_size": 61, "d_model": 24, "n_layers": 2, "n_heads": 6,
    "expansion_ratio": 4, "max_seq_len": 64, "no_bias": True, "learned_pos_emb": True, "layer_norm_epsilon": 1e-05,
    "attn_config": {
        "attn_type": "multihead_attention", "alibi": True, "alibi_bias_max": 8, "clip_qkv": None, "qk_ln": False,
        "prefix_lm": False, "softmax_scale": None, "attn_pdrop": 0}, "torch_dtype": "float32",
}  # fmt: skip
GEMMA = {
    "architectures": ["GemmaForCausalLM"], "model_type": "gemma", "vocab_size": 61, "hidden_size": 24,
    "intermediate_size": 40, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 1, "head_dim": 8,
    "hidden_act": "gelu_pytorch_tanh", "max_position_embeddings": 64, "rms_norm_eps": 0.02, "rope_theta": 10000.0,
    "attention_bias": False, "torch_dtype": "float32",
}  # fmt: skip
GEMMA2 = {
    **GEMMA, "architectures": ["Gemma2ForCausalLM"], "model_type": "gemma2", "num_hidden_layers": 3,
    "num_key_value_heads": 2, "hidden_activation": "gelu_pytorch_tanh", "query_pre_attn_scalar": 8, "sliding_window": 5,
    "attn_logit_softcapping": 2.5, "final_logit_softcapping": 3.0,
}  # fmt: skip
GEMMA3 = {
    **GEMMA, "architectures": ["Gemma3ForCausalLM"], "model_type": "gemma3_text", "num_hidden_layers": 4,
    "num_key_value_heads": 2, "hidden_activation": "gelu_pytorch_tanh", "query_pre_attn_scalar": 12, "sliding_window": 5,
    "sliding_window_pattern": 3, "rope_theta": 1000000.0, "rope_local_base_freq": 10000.0,
    "rope_scaling": {"rope_type": "linear", "factor": 4.0}, "attn_logit_softcapping": None,
    "final_logit_softcapping": None,
}  # fmt: skip
STABLELM = {
    "architectures": ["StableLmForCausalLM"], "model_type": "stablelm", "vocab_size": 61, "hidden_size": 48,
    "intermediate_size": 60, "num_hidden_layers": 2, "num_attention_heads": 3, "num_key_value_heads": 1,
    "hidden_act": "silu", "max_position_embeddings": 64, "layer_norm_eps": 0.02, "rope_theta": 10000,
    "partial_rotary_factor": 0.25, "use_qkv_bias": True, "qk_layernorm": False, "use_parallel_residual": False,
    "tie_word_embeddings": False,
}  # fmt: skip
STARCODER2 = {
    "architectures": ["Starcoder2ForCausalLM"], "model_type": "starcoder2", "vocab_size": 61, "hidden_size": 24,
    "intermediate_size": 60, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
    "hidden_act": "gelu_pytorch_tanh", "max_position_embeddings": 64, "norm_epsilon": 0.03, "norm_type": "layer_norm",
    "rope_theta": 100000.0, "sliding_window": None, "use_bias": True, "mlp_type": "default",
}  # fmt: skip
# What a class computes without being told so is left to it in the models named *_unsaid.
MAY_BE_LEFT_OUT = {
    "hidden_act", "hidden_activation", "activation_function", "rms_norm_eps", "layer_norm_eps", "layer_norm_epsilon",
    "norm_epsilon", "tie_word_embeddings", "rope_theta", "rope_scaling", "rotary_pct", "rotary_emb_base", "attention_bias",
    "partial_rotary_factor", "use_parallel_residual", "use_bias", "use_qkv_bias", "attn_config", "expansion_ratio", "no_bias",
    "learned_pos_emb", "query_pre_attn_scalar", "attn_logit_softcapping", "final_logit_softcapping",
    "apply_residual_connection_post_layernorm", "attention_multiplier", "embedding_multiplier", "residual_multiplier",
    "logits_scaling", "qk_layernorm", "sliding_window_pattern", "rope_local_base_freq", "use_sliding_window",
    "max_window_layers", "no_rope_layer_interval", "n_ctx", "norm_type", "mlp_type", "torch_dtype", "architectures",
}  # fmt: skip


def unsaid(config, **changes):
    return {**{k: v for k, v in config.items() if k not in MAY_BE_LEFT_OUT}, **changes}


def llama_like(model_type, name, **changes):
    return {**GROUPED, "model_type": model_type, "architectures": [name + "ForCausalLM"], **changes}


QWEN2 = llama_like("qwen2", "Qwen2", use_sliding_window=False, sliding_window=4, max_window_layers=2)
QWEN3 = llama_like("qwen3", "Qwen3", use_sliding_window=False, sliding_window=None, max_window_layers=2, rms_norm_eps=0.03)
SMOLLM3 = llama_like("smollm3", "SmolLM3", num_hidden_layers=4, rope_theta=2000000.0, use_sliding_window=False)
COHERE = llama_like("cohere", "Cohere", layer_norm_eps=0.02, logit_scale=0.3, use_qk_norm=False, rope_theta=500.0)
del COHERE["rms_norm_eps"], COHERE["tie_word_embeddings"], COHERE["head_dim"]
del QWEN2["attention_bias"], QWEN2["head_dim"]

# -- experts, sinks, chunks, latents, norms in other places (families_newer.py) --
SLIDES = ["sliding_attention", "full_attention"]


def newer(model_type, name, *without, **changes):
    """Without the keys that its class does not have."""
    config = llama_like(model_type, name, **changes)
    return {k: v for k, v in config.items() if k not in ("attention_bias", *without)}


MIXTRAL = newer("mixtral", "Mixtral", num_local_experts=6, num_experts_per_tok=2, sliding_window=None)
QWEN_EXPERTS = {"num_experts": 6, "num_experts_per_tok": 3, "moe_intermediate_size": 20, "decoder_sparse_step": 1, "mlp_only_layers": []}
QWEN3_MOE = newer("qwen3_moe", "Qwen3Moe", **QWEN_EXPERTS, norm_topk_prob=True, use_sliding_window=False)
QWEN2_MOE = newer("qwen2_moe", "Qwen2Moe", "head_dim", **QWEN_EXPERTS, norm_topk_prob=False, shared_expert_intermediate_size=28,
                  use_sliding_window=False)
ERNIE_MOE = newer("ernie4_5_moe", "Ernie4_5_Moe", "head_dim", moe_num_experts=6, moe_k=3, moe_intermediate_size=20,
                  moe_num_shared_experts=2, moe_layer_start_index=1, moe_layer_end_index=-1, moe_layer_interval=1, use_bias=False,
                  tie_word_embeddings=True)
GPT_OSS = newer(
    "gpt_oss", "GptOss", num_local_experts=5, num_experts_per_tok=3, layer_types=SLIDES, sliding_window=5, head_dim=8,
    max_position_embeddings=4096, rope_scaling={
        "rope_type": "yarn", "factor": 32.0, "beta_fast": 8.0, "beta_slow": 1.0, "truncate": False,
        "original_max_position_embeddings": 128})  # fmt: skip
LLAMA4 = newer(
    "llama4_text", "Llama4", num_hidden_layers=3, num_local_experts=4, num_experts_per_tok=2, intermediate_size_mlp=36,
    no_rope_layers=[1, 1, 0], moe_layers=[0, 2], attention_chunk_size=9, use_qk_norm=True, attn_temperature_tuning=True,
    floor_scale=4, attn_scale=0.2)  # fmt: skip
DEEPSEEK = newer(
    "deepseek_v3", "DeepseekV3", "head_dim", n_routed_experts=8, n_shared_experts=2, num_experts_per_tok=3,
    moe_intermediate_size=20, n_group=4, topk_group=2, norm_topk_prob=True, routed_scaling_factor=1.5, first_k_dense_replace=1,
    num_key_value_heads=4, q_lora_rank=14, kv_lora_rank=12, qk_nope_head_dim=10, qk_rope_head_dim=6, v_head_dim=8,
    max_position_embeddings=512)  # fmt: skip
FALCON = {
    "architectures": ["FalconForCausalLM"], "model_type": "falcon", "vocab_size": 61, "hidden_size": 32,
    "num_hidden_layers": 2, "num_attention_heads": 4, "layer_norm_epsilon": 0.02, "max_position_embeddings": 64,
    "new_decoder_architecture": False, "multi_query": True, "parallel_attn": True, "bias": False, "alibi": False,
    "activation": "gelu", "rope_theta": 10000.0}  # fmt: skip
GEMMA4 = {
    **GEMMA, "architectures": ["Gemma4ForCausalLM"], "model_type": "gemma4_text", "num_hidden_layers": 3, "num_key_value_heads": 2,
    "hidden_activation": "gelu_pytorch_tanh", "layer_types": SLIDES + SLIDES[1:], "sliding_window": 5, "num_kv_shared_layers": 0,
    "hidden_size_per_layer_input": 0, "attention_k_eq_v": False, "use_double_wide_mlp": False, "enable_moe_block": False,
    "final_logit_softcapping": None, "rope_parameters": {
        "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
        "full_attention": {"rope_type": "proportional", "partial_rotary_factor": 0.25, "rope_theta": 1000000.0}}}  # fmt: skip
del GEMMA4["hidden_act"], GEMMA4["rope_theta"]
COHERE2 = newer("cohere2", "Cohere2", "rms_norm_eps", "tie_word_embeddings", layer_norm_eps=0.02, logit_scale=0.3,
                layer_types=SLIDES, sliding_window=5)
GLM4 = newer("glm4", "Glm4", attention_bias=True, partial_rotary_factor=0.5, head_dim=12) | {"attention_bias": True}


# name: config, and what is not in a config: "with_unused", "without_prefix", "tokens", "length", "dtype".
FIXTURES = {
    "llama": ({**LLAMA, "rope_scaling": None}, {"with_unused": True}),
    "llama_tied": ({**GROUPED, "tie_word_embeddings": True}, {}),
    "llama_biases": ({**GROUPED, "attention_bias": True, "mlp_bias": True}, {}),
    "llama_llama3": (
        {**GROUPED, "num_key_value_heads": 1, "rope_theta": 500.0, "rope_scaling": {
            "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
            "original_max_position_embeddings": 100}}, {}),
    "llama_linear": ({**GROUPED, "rope_scaling": {"type": "linear", "factor": 4.0}}, {}),
    "llama_yarn": (
        {**GROUPED, "head_dim": 16, "rope_theta": 100.0, "max_position_embeddings": 4096, "rope_scaling": {
            "rope_type": "yarn", "factor": 32.0, "beta_fast": 8.0, "beta_slow": 1.0, "truncate": False,
            "original_max_position_embeddings": 128}}, {}),
    "llama_yarn_mscale": (
        {**{k: v for k, v in GROUPED.items() if k != "rope_theta"}, "head_dim": 16, "max_position_embeddings": 4096,
         "rope_parameters": {
            "rope_type": "yarn", "rope_theta": 100.0, "factor": 8.0, "beta_fast": 8.0, "beta_slow": 1.0, "mscale": 2.0,
            "mscale_all_dim": 0.5, "original_max_position_embeddings": 512}}, {}),
    "mistral": (llama_like("mistral", "Mistral", sliding_window=None), {}),
    "mistral_window": (llama_like("mistral", "Mistral", sliding_window=5, num_hidden_layers=3), {}),
    "qwen2": (QWEN2, {}),
    "qwen2_window": ({**QWEN2, "use_sliding_window": True, "max_window_layers": 1, "num_hidden_layers": 3}, {}),
    "qwen3": ({**QWEN3, "head_dim": 12}, {}),
    "smollm3": (SMOLLM3, {}),
    "smollm3_listed": ({**SMOLLM3, "num_hidden_layers": 3, "no_rope_layers": [1, 0, 1], "no_rope_layer_interval": 2}, {}),
    "granite": (
        llama_like("granite", "Granite", embedding_multiplier=3.0, attention_multiplier=0.25, residual_multiplier=0.5,
                   logits_scaling=2.5), {}),
    "olmo2": (llama_like("olmo2", "Olmo2"), {}),
    "stablelm": (STABLELM, {}),
    "stablelm_parallel": ({**STABLELM, "use_parallel_residual": True, "use_qkv_bias": False}, {}),
    "starcoder2": (STARCODER2, {}),
    "starcoder2_window": ({**STARCODER2, "sliding_window": 7, "use_bias": False}, {}),
    "phi": (
        {"architectures": ["PhiForCausalLM"], "model_type": "phi", "vocab_size": 61, "hidden_size": 48,
         "intermediate_size": 70, "num_hidden_layers": 2, "num_attention_heads": 3, "num_key_value_heads": None,
         "hidden_act": "gelu_new", "max_position_embeddings": 64, "layer_norm_eps": 0.02, "rope_theta": 10000.0,
         "partial_rotary_factor": 0.5, "qk_layernorm": False, "rope_scaling": None, "tie_word_embeddings": False}, {}),
    "phi3": (PHI3, {}),
    "phi3_window": ({**PHI3, "sliding_window": 6, "tie_word_embeddings": True}, {}),
    "phi3_short": (
        {**PHI3, "max_position_embeddings": 1024, "original_max_position_embeddings": 256, "rope_scaling": LONGROPE},
        {"length": 24}),
    "phi3_long": (
        {**PHI3, "max_position_embeddings": 512, "original_max_position_embeddings": 16, "rope_scaling": LONGROPE},
        {"length": 24}),
    "phi3_partial": (
        {**PHI3, "partial_rotary_factor": 0.75, "hidden_size": 64, "max_position_embeddings": 512,
         "rope_scaling": {**LONGROPE, "short_factor": [1.0, 1.1, 1.3, 1.9, 2.2, 2.5],
                          "long_factor": [1.0, 2.0, 3.0, 5.0, 7.0, 9.0]}}, {}),
    "gpt_neox": (NEOX, {"with_unused": True}),
    "gpt_neox_serial": (
        {**NEOX, "use_parallel_residual": False, "attention_bias": False, "rotary_pct": 1.0}, {}),
    "gpt2_prefixed": (GPT2, {"with_unused": True}),
    "gpt2_plain": ({**GPT2, "n_inner": 50, "scale_attn_by_inverse_layer_idx": False}, {"without_prefix": True}),
    "gptj": (
        {"architectures": ["GPTJForCausalLM"], "model_type": "gptj", "vocab_size": 61, "n_embd": 36, "n_layer": 2,
         "n_head": 3, "n_inner": None, "n_positions": 64, "rotary": True, "rotary_dim": 6, "activation_function": "gelu_new",
         "layer_norm_epsilon": 0.01, "tie_word_embeddings": False}, {}),
    "bloom": (BLOOM, {}),
    "bloom_plain": ({**BLOOM, "n_head": 4, "hidden_size": 32, "n_inner": None}, {"without_prefix": True}),
    "mpt": (MPT, {}),
    "mpt_clip": (
        {**MPT, "n_heads": 4, "layer_norm_epsilon": 0.02, "attn_config": {**MPT["attn_config"], "clip_qkv": 0.8, "softmax_scale": 0.7}}, {}),
    "mpt_bias_max": ({**MPT, "attn_config": {**MPT["attn_config"], "alibi_bias_max": 16}}, {}),
    "gemma": (GEMMA, {}),
    "gemma2": (GEMMA2, {}),
    "gemma2_scalar": ({**GEMMA2, "query_pre_attn_scalar": 20, "attn_logit_softcapping": None}, {}),
    "gemma3": (GEMMA3, {}),
    "gemma3_six": ({**GEMMA3, "num_hidden_layers": 7, "query_pre_attn_scalar": 8, "sliding_window_pattern": 6}, {}),
    "gemma3_types": (
        {**unsaid(GEMMA3), "rope_parameters": {
            "sliding_attention": {"rope_type": "default", "rope_theta": 20000.0},
            "full_attention": {"rope_type": "linear", "factor": 2.0, "rope_theta": 500000.0}},
         "query_pre_attn_scalar": 8, "layer_types": [
            "sliding_attention", "full_attention", "full_attention", "sliding_attention"]}, {}),
    "cohere": (COHERE, {}),
    "cohere_biases": ({**COHERE, "attention_bias": True, "num_key_value_heads": None}, {}),
    "smollm3_window": ({**SMOLLM3, "use_sliding_window": True, "sliding_window": 5}, {}),
    # "with_head": transformers 5 ties nothing to a head that is in the files, and differs.
    "llama_head": ({**GROUPED, "tie_word_embeddings": True}, {"with_head": True}),
    "gpt2_head": (GPT2, {"with_head": True}),
    "llama_dynamic": (
        {**GROUPED, "max_position_embeddings": 16, "rope_scaling": {"rope_type": "dynamic", "factor": 2.0}}, {"length": 24}),
    "llama_yarn_usual": (
        {**GROUPED, "head_dim": 16, "rope_theta": 100.0, "max_position_embeddings": 4096, "rope_scaling": {
            "rope_type": "yarn", "factor": 8.0, "original_max_position_embeddings": 512}}, {}),
    "mpt_clamp": ({**MPT, "attn_config": {**MPT["attn_config"], "clip_qkv": 0.8}}, {}),
    "qwen3_types": (
        {**QWEN3, "num_hidden_layers": 3, "use_sliding_window": True, "sliding_window": 6,
         "layer_types": ["full_attention", "sliding_attention", "full_attention"]}, {}),
    # Longer than a tile of attention, wider than a tile of a product, narrower than a float.
    "mistral_long": (
        llama_like("mistral", "Mistral", sliding_window=70, num_hidden_layers=2, max_position_embeddings=256),
        {"tokens": 200}),
    "bloom_long": ({**BLOOM, "seq_length": 256}, {"tokens": 200}),
    "gemma2_long": ({**GEMMA2, "sliding_window": 50, "max_position_embeddings": 256}, {"tokens": 200}),
    "llama_wide": (
        {**LLAMA, "hidden_size": 320, "intermediate_size": 530, "num_attention_heads": 5, "num_key_value_heads": 1,
         "rms_norm_eps": 1e-05}, {"tokens": 70}),
    "llama_wide_bf16": (
        {**LLAMA, "hidden_size": 320, "intermediate_size": 530, "num_attention_heads": 5, "num_key_value_heads": 1,
         "torch_dtype": "bfloat16"}, {"tokens": 70, "dtype": "BF16"}),
    "gpt2_f16": ({**GPT2, "torch_dtype": "float16"}, {"dtype": "F16"}),
    "gpt_neox_bf16": ({**NEOX, "torch_dtype": "bfloat16"}, {"dtype": "BF16"}),
    "mixtral": (MIXTRAL, {}),
    "mixtral_bf16": ({**MIXTRAL, "torch_dtype": "bfloat16"}, {"dtype": "BF16"}),
    "qwen2_moe": (QWEN2_MOE, {}),
    "qwen3_moe": ({**QWEN3_MOE, "head_dim": 12}, {}),
    "qwen3_moe_dense": ({**QWEN3_MOE, "norm_topk_prob": False, "num_hidden_layers": 3, "mlp_only_layers": [1]}, {}),
    "ernie4_5_moe": (ERNIE_MOE, {}),
    "gpt_oss": (GPT_OSS, {}),
    "gpt_oss_f16": ({**GPT_OSS, "torch_dtype": "float16"}, {"dtype": "F16"}),
    "gpt_oss_plain": ({**GPT_OSS, "rope_scaling": {"rope_type": "default", "rope_theta": 10000.0}}, {}),
    "gpt_oss_mxfp4": (
        {**GPT_OSS, "hidden_size": 64, "intermediate_size": 96, "torch_dtype": "bfloat16", "quantization_config": {
            "quant_method": "mxfp4", "modules_to_not_convert": ["model.layers.*.self_attn", "lm_head"]}}, {"dtype": "BF16"}),
    "llama4": (LLAMA4, {}),
    "deepseek_v3": (DEEPSEEK, {}),
    # Its GGUF has one epsilon for all norms; the class has its own for latents.
    "deepseek_v3_fine": ({**DEEPSEEK, "rms_norm_eps": 1e-6}, {}),
    "deepseek_v3_yarn": (
        {**DEEPSEEK, "q_lora_rank": None, "first_k_dense_replace": 0, "rope_scaling": {
            "rope_type": "yarn", "factor": 8.0, "mscale": 1.0, "mscale_all_dim": 0.8, "original_max_position_embeddings": 64}}, {}),
    "olmo3": (newer("olmo3", "Olmo3", layer_types=SLIDES, sliding_window=5, rope_theta=500000.0), {}),
    "exaone4": (newer("exaone4", "Exaone4", layer_types=SLIDES, sliding_window=5), {}),
    "glm4": (GLM4, {}),
    "gemma4": (
        {**GEMMA4, "num_hidden_layers": 6, "layer_types": SLIDES * 3, "global_head_dim": 12, "num_kv_shared_layers": 2,
         "hidden_size_per_layer_input": 10, "vocab_size_per_layer_input": 61, "use_double_wide_mlp": True},
        {"with_unused": True}),
    "gemma4_keys_are_values": (
        {**GEMMA4, "global_head_dim": 12, "attention_k_eq_v": True, "num_global_key_value_heads": 1,
         "final_logit_softcapping": 3.0}, {}),
    "gemma4_saved": (
        {**GEMMA4, "per_layer_config": {"1": {"head_dim": 12, "num_key_value_heads": 4}, "2": {"head_dim": 12, "num_key_value_heads": 4}},
         "enable_moe_block": True, "num_experts": 6, "top_k_experts": 3, "moe_intermediate_size": 20}, {}),
    "cohere2": (COHERE2, {}),
    "seed_oss": (newer("seed_oss", "SeedOss", attention_out_bias=False, mlp_bias=True) | {"attention_bias": True}, {}),
    "falcon": ({**FALCON, "bias": True}, {}),
    "falcon_grouped": ({**FALCON, "new_decoder_architecture": True, "num_kv_heads": 2}, {}),
    "falcon_alibi": ({**FALCON, "multi_query": False, "parallel_attn": False, "alibi": True}, {}),
    # The class's own defaults.
    "llama_unsaid": (unsaid(LLAMA), {}),
    "mistral_unsaid": (unsaid(llama_like("mistral", "Mistral")), {}),
    "qwen2_unsaid": (unsaid(QWEN2), {}),
    "qwen3_unsaid": (unsaid({k: v for k, v in QWEN3.items() if k != "head_dim"}), {}),
    "smollm3_unsaid": (unsaid(SMOLLM3), {}),
    "granite_unsaid": (unsaid(llama_like("granite", "Granite")), {}),
    "olmo2_unsaid": (unsaid(llama_like("olmo2", "Olmo2")), {}),
    "stablelm_unsaid": (unsaid(STABLELM), {}),
    "starcoder2_unsaid": (unsaid(STARCODER2), {}),
    "phi_unsaid": (
        {"model_type": "phi", "vocab_size": 61, "hidden_size": 48, "intermediate_size": 70, "num_hidden_layers": 2,
         "num_attention_heads": 3}, {}),
    "phi3_unsaid": (unsaid(PHI3), {}),
    "gpt_neox_unsaid": (unsaid(NEOX), {}),
    "gpt2_unsaid": (unsaid(GPT2), {}),
    "bloom_unsaid": (unsaid(BLOOM), {}),
    "mpt_unsaid": (unsaid(MPT), {}),
    "gemma_unsaid": (unsaid(GEMMA), {}),
    "gemma2_unsaid": (unsaid({k: v for k, v in GEMMA2.items() if k != "head_dim"}), {}),
    "gemma3_unsaid": (unsaid(GEMMA3), {}),
}  # fmt: skip
