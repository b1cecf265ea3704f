"""Tiny random models of transformers, by family."""

from __future__ import annotations

from typing import Any

import torch
import transformers

transformers.logging.set_verbosity_error()

_SIZES = {
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 64,
    "vocab_size": 128,
    "max_position_embeddings": 512,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
_EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32}
_BOTH = {"layer_types": ["sliding_attention", "full_attention"]}
_YARN = {"rope_type": "yarn", "rope_theta": 1e4, "factor": 4.0, "original_max_position_embeddings": 128}
_LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 5e5,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}
_LONGROPE = {
    "rope_type": "longrope",
    "rope_theta": 1e4,
    "short_factor": [1.0 + 0.1 * i for i in range(8)],
    "long_factor": [1.0 + 0.9 * i for i in range(8)],
    "original_max_position_embeddings": 128,
    "factor": 4.0,
}
_DYNAMIC = {"rope_type": "dynamic", "rope_theta": 1e4, "factor": 4.0}
_LINEAR = {"rope_type": "linear", "rope_theta": 1e4, "factor": 4.0}
_DEEPSEEK: dict[str, Any] = {
    "kv_lora_rank": 16,
    "q_lora_rank": 16,
    "qk_rope_head_dim": 8,
    "qk_nope_head_dim": 16,
    "v_head_dim": 16,
    "n_routed_experts": 4,
    "n_group": 1,
    "topk_group": 1,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 32,
    "num_key_value_heads": 4,
}
# name: (class of the config, what differs from _SIZES)
FAMILIES: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("LlamaConfig", {}),
    "llama-3.1": ("LlamaConfig", {"rope_parameters": _LLAMA3}),
    "llama-linear": ("LlamaConfig", {"rope_parameters": _LINEAR}),
    "llama-dynamic": ("LlamaConfig", {"rope_parameters": _DYNAMIC}),
    "mistral": ("MistralConfig", {}),
    "mixtral": ("MixtralConfig", {}),
    "qwen2": ("Qwen2Config", {}),
    "qwen2-yarn": ("Qwen2Config", {"rope_parameters": _YARN}),
    "qwen3": ("Qwen3Config", {}),
    "qwen3-moe": ("Qwen3MoeConfig", _EXPERTS),
    "gemma": ("GemmaConfig", {"head_dim": 16}),
    "gemma2": ("Gemma2Config", {"head_dim": 16}),
    "gemma3": ("Gemma3TextConfig", {"head_dim": 16, **_BOTH}),
    "gemma4": ("Gemma4TextConfig", {"head_dim": 16, "hidden_size_per_layer_input": 0, **_BOTH}),
    "gpt-neox": ("GPTNeoXConfig", {}),
    "phi": ("PhiConfig", {}),
    "phi3": ("Phi3Config", {}),
    "phi3-longrope": ("Phi3Config", {"rope_parameters": _LONGROPE, "original_max_position_embeddings": 128}),
    "cohere": ("CohereConfig", {}),
    "cohere2": ("Cohere2Config", _BOTH),
    "olmo2": ("Olmo2Config", {}),
    "falcon": ("FalconConfig", {}),
    "stablelm": ("StableLmConfig", {}),
    "glm": ("GlmConfig", {"head_dim": 16}),
    "glm4": ("Glm4Config", {"head_dim": 16}),
    "starcoder2": ("Starcoder2Config", {}),
    "smollm3": ("SmolLM3Config", {}),
    "ernie-4.5": ("Ernie4_5Config", {"head_dim": 16}),
    "deepseek-v3": ("DeepseekV3Config", _DEEPSEEK),
    "gpt-oss": ("GptOssConfig", {"head_dim": 16, "num_local_experts": 4}),
    "gpt-j": ("GPTJConfig", {"rotary_dim": 8}),
    "codegen": ("CodeGenConfig", {"rotary_dim": 8}),
    "llama4": ("Llama4TextConfig", {"head_dim": 16, "intermediate_size_mlp": 64, "num_local_experts": 2}),
    "modernbert": ("ModernBertConfig", _BOTH),
    "deepseek-v2": ("DeepseekV2Config", _DEEPSEEK),
}
FAMILIES |= {
    name: (config, {"rope_parameters": {"rope_type": "default", "rope_theta": 1e4, "mrope_section": section}, **more})
    for name, config, section, more in (
        ("qwen2-vl", "Qwen2VLTextConfig", [2, 3, 3], {}),
        ("qwen2.5-vl", "Qwen2_5_VLTextConfig", [2, 3, 3], {}),
        ("qwen3-vl", "Qwen3VLTextConfig", [4, 2, 2], {"head_dim": 16}),
    )
}
# The sections are those of the class, which are of heads of another size.
FAMILIES |= {
    "qwen3-vl-own-sections": ("Qwen3VLTextConfig", {"head_dim": 64}),
    "qwen3.5": (
        "Qwen3_5TextConfig",
        {"head_dim": 64, "layer_types": ["linear_attention", "full_attention"], "linear_num_value_heads": 4}
        | {"linear_num_key_heads": 2, "linear_key_head_dim": 16, "linear_value_head_dim": 16},
    ),
}
AXES = ("qwen3-vl-own-sections", "qwen3.5", "qwen2-vl", "qwen2.5-vl", "qwen3-vl")  # positions of three axes; decoders without a head
NOT_PATCHED = {"gpt2": ("GPT2Config", {})}  # does not rotate
WITH_TABLES = ("gpt-j", "codegen")  # a table of angles: of each layer, since transformers 5.24 of a rotary module


def config_of(name: str, **changes: Any) -> Any:
    kind, more = {**FAMILIES, **NOT_PATCHED}[name]
    return getattr(transformers, kind)(**{**_SIZES, **more, **changes})


def class_of(name: str) -> Any:
    """The class of transformers that makes and loads models of a family."""
    if name in AXES:
        return getattr(transformers, FAMILIES[name][0].replace("TextConfig", "TextModel"))
    return transformers.AutoModel if name == "modernbert" else transformers.AutoModelForCausalLM


def model_of(name: str, **changes: Any) -> torch.nn.Module:
    torch.manual_seed(0)
    config, kind = config_of(name, **changes), class_of(name)
    model: torch.nn.Module = (kind(config) if name in AXES else kind.from_config(config)).eval()
    return model
