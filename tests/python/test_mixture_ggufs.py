"""GGUFs of mixtures of experts, written by the gguf package as llama.cpp's converter lays them out, against transformers.

Names of tensors and keys are the package's.  The weights are those of a tiny random model of transformers.
"""

import os

import numpy as np
import pytest

if "GYRE_JUDGES" not in os.environ:
    pytest.skip("ci/run judges runs it", allow_module_level=True)

torch = pytest.importorskip("torch")
gguf = pytest.importorskip("gguf")
pytest.importorskip("gyre")

from test_families import DEEPSEEK, EXPERTS, TOLERANCE, difference, gyre_logits, logits_by_token, logits_whole, make_model  # noqa: E402

PLAIN = {"rope_parameters": {"rope_type": "default", "rope_theta": 10000.0}}
# The architecture, model_type, changes of its config, and the type of the experts.
MODELS = {
    "mixtral": ("LLAMA", "mixtral", {**EXPERTS, "sliding_window": None}, "F32"),
    "qwen2_moe": ("QWEN2MOE", "qwen2_moe", {**EXPERTS, "shared_expert_intermediate_size": 48}, "F32"),
    "qwen3_moe": ("QWEN3MOE", "qwen3_moe", {**EXPERTS, "head_dim": 24, "norm_topk_prob": True}, "F32"),
    "qwen3_moe, Q8_0": ("QWEN3MOE", "qwen3_moe", {**EXPERTS, "head_dim": 24, "norm_topk_prob": True}, "Q8_0"),
    "gpt_oss": ("GPT_OSS", "gpt_oss", {**EXPERTS, **PLAIN, "head_dim": 24, "sliding_window": 16}, "F32"),
    "gpt_oss, MXFP4": ("GPT_OSS", "gpt_oss", {**EXPERTS, **PLAIN, "head_dim": 24, "sliding_window": 16, "intermediate_size": 96}, "MXFP4"),
    "glm4_moe": ("GLM4_MOE", "glm4_moe", {**EXPERTS, "n_routed_experts": 8, "head_dim": 24, "use_qk_norm": True, "attention_bias": True,
                                          "first_k_dense_replace": 1, "norm_topk_prob": True, "routed_scaling_factor": 1.5}, "F32"),
    "glm4_moe, no norms of heads": ("GLM4_MOE", "glm4_moe", {**EXPERTS, "n_routed_experts": 8, "head_dim": 24, "first_k_dense_replace": 2,
                                                             "norm_topk_prob": False}, "F32"),
    "deepseek_v3": ("DEEPSEEK2", "deepseek_v3", {**DEEPSEEK, **PLAIN}, "F32"),
    "deepseek_v3, one map of keys and values": ("DEEPSEEK2", "deepseek_v3", {**DEEPSEEK, **PLAIN}, "F32"),
    "deepseek_v3, both forms": ("DEEPSEEK2", "deepseek_v3", {**DEEPSEEK, **PLAIN}, "F32"),
    "deepseek_v3, no query latent": ("DEEPSEEK2", "deepseek_v3", {**DEEPSEEK, **PLAIN, "q_lora_rank": None}, "F32"),
}


def write_latents(writer, config, joined):
    """joined: as files had them before keys and values were maps of their own; None: both forms of the maps."""
    head_dim = config.qk_nope_head_dim + config.qk_rope_head_dim
    writer.add_kv_lora_rank(config.kv_lora_rank)
    if config.q_lora_rank:
        writer.add_q_lora_rank(config.q_lora_rank)
    writer.add_rope_dimension_count(config.qk_rope_head_dim)
    writer.add_head_count_kv(config.num_attention_heads if joined else 1)
    writer.add_key_length(head_dim if joined else config.kv_lora_rank + config.qk_rope_head_dim)
    writer.add_value_length(config.v_head_dim if joined else config.kv_lora_rank)
    if not joined:
        writer.add_key_length_mla(head_dim)
        writer.add_value_length_mla(config.v_head_dim)
    writer.add_expert_group_count(config.n_group)
    writer.add_expert_group_used_count(config.topk_group)


def write_keys(writer, config, joined):
    """Those that the converter writes of every model, and of experts."""
    def has(*names):
        return next((value for name in names if (value := getattr(config, name, None)) is not None), None)

    head_dim = has("head_dim") or config.hidden_size // config.num_attention_heads
    rope = config.rope_parameters
    more = int(config.model_type == "glm4_moe")  # layers of multi-token prediction
    writer.add_block_count(config.num_hidden_layers + more)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    if config.model_type == "deepseek_v3":
        write_latents(writer, config, joined)
    else:
        writer.add_head_count_kv(config.num_key_value_heads)
        writer.add_key_length(head_dim)
        writer.add_value_length(head_dim)
        writer.add_rope_dimension_count(int(head_dim * rope.get("partial_rotary_factor", 1.0)))
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(rope["rope_theta"])
    writer.add_vocab_size(config.vocab_size)
    writer.add_expert_count(has("num_local_experts", "num_experts", "n_routed_experts"))
    writer.add_expert_used_count(config.num_experts_per_tok)
    if config.model_type != "mixtral":
        writer.add_expert_feed_forward_length(has("moe_intermediate_size") if config.model_type != "gpt_oss" else config.intermediate_size)
    if config.model_type == "qwen2_moe":
        writer.add_expert_shared_feed_forward_length(config.shared_expert_intermediate_size)
    if config.model_type == "gpt_oss":
        writer.add_sliding_window(config.sliding_window)
    if config.model_type in ("glm4_moe", "deepseek_v3"):
        writer.add_expert_shared_count(config.n_shared_experts)
        writer.add_leading_dense_block_count(config.first_k_dense_replace)
        writer.add_expert_gating_func(gguf.ExpertGatingFuncType.SIGMOID)
        writer.add_expert_weights_scale(config.routed_scaling_factor)
        writer.add_expert_weights_norm(config.norm_topk_prob)
    if more:
        writer.add_nextn_predict_layers(more)


def turned(matrix, heads):
    """Rows of each head from halves to neighbours, as files of llama have queries and keys."""
    return matrix.reshape(heads, 2, -1, *matrix.shape[1:]).swapaxes(1, 2).reshape(matrix.shape)


def parts_of(name, weight, config, joined):
    """(name for the package, numbers) of every tensor that a parameter of transformers becomes."""
    if name.endswith("experts.gate_up_proj"):
        gate, up = (weight[..., ::2].swapaxes(1, 2), weight[..., 1::2].swapaxes(1, 2)) if config.model_type == "gpt_oss" else np.split(weight, 2, axis=1)
        return [(name.replace("gate_up", "gate") + ".weight", gate), (name.replace("gate_up", "up") + ".weight", up)]
    if name.endswith("experts.gate_up_proj_bias"):
        base = name.removesuffix("gate_up_proj_bias")
        return [(base + "gate_proj.bias", weight[..., ::2]), (base + "up_proj.bias", weight[..., 1::2])]
    if name.endswith("experts.down_proj"):
        return [(name + ".weight", weight.swapaxes(1, 2) if config.model_type == "gpt_oss" else weight)]
    if name.endswith("experts.down_proj_bias"):
        return [(name.removesuffix("_bias") + ".bias", weight)]
    if name.endswith("kv_b_proj.weight") and not joined:
        heads = weight.reshape(config.num_attention_heads, -1, config.kv_lora_rank)
        keys, values = np.split(heads, [config.qk_nope_head_dim], axis=1)
        parts = [(name.replace("kv_b", "k_b"), keys.swapaxes(1, 2)), (name.replace("kv_b", "v_b"), values)]
        return parts if joined is not None else [(name, weight), *parts]
    if name.endswith("shared_expert_gate.weight"):
        return [(name, weight[0])]  # the converter had squeezed tensors once
    if name.endswith("sinks"):
        return [(name + ".weight", weight)]
    if name.endswith("e_score_correction_bias"):
        return [(name.removesuffix("_bias") + ".bias", weight)]
    if config.model_type == "mixtral":
        for letter, heads in (("q", config.num_attention_heads), ("k", config.num_key_value_heads)):
            if name.endswith(f"{letter}_proj.weight"):
                return [(name, turned(weight, heads))]
    return [(name, weight)]


def store(writer, name, numbers, stored, rng):
    """Writes the tensor; out = its numbers, as the package dequantizes them."""
    kind = gguf.GGMLQuantizationType[stored if "_exps.weight" in name else "F32"]
    numbers = np.ascontiguousarray(numbers, dtype=np.float32)
    if kind == gguf.GGMLQuantizationType.F32:
        writer.add_tensor(name, numbers)
        return numbers
    if kind == gguf.GGMLQuantizationType.MXFP4:  # random blocks: the package does not make them
        data = rng.integers(0, 256, (*numbers.shape[:-1], numbers.shape[-1] // 32, 17), dtype=np.uint8)
        data[..., 0] = rng.integers(121, 125, data.shape[:-1])
        data = data.reshape(*numbers.shape[:-1], -1)
    else:
        data = gguf.quants.quantize(numbers, kind)
    writer.add_tensor(name, data, raw_dtype=kind)
    return gguf.quants.dequantize(data, kind)


def write_gguf(model, architecture, stored, path, joined):
    """The model as a GGUF.  Its experts become what the file has after quantization."""
    config, rng = model.config, np.random.default_rng(3)
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH[architecture], config.num_hidden_layers)
    writer = gguf.GGUFWriter(path, gguf.MODEL_ARCH_NAMES[gguf.MODEL_ARCH[architecture]])
    write_keys(writer, config, joined)
    for name, weight in model.state_dict().items():
        made = []
        for source, numbers in parts_of(name, weight.float().numpy(), config, joined):
            target = names.get_name(source, try_suffixes=(".weight", ".bias"))
            assert target, source
            made.append(store(writer, target, numbers, stored, rng))
        if "experts.gate_up_proj" in name or name.endswith("experts.down_proj"):
            put_back(name, weight, made, config)
    extra = f"blk.{config.num_hidden_layers}.nextn.enorm.weight"
    if architecture == "GLM4_MOE":
        writer.add_tensor(extra, np.ones(config.hidden_size, dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def put_back(name, weight, made, config):
    if name.endswith("_bias"):
        return
    with torch.no_grad():
        if config.model_type != "gpt_oss":
            weight.copy_(torch.from_numpy(np.concatenate(made, axis=1)))
        elif len(made) == 1:
            weight.copy_(torch.from_numpy(made[0].swapaxes(1, 2).copy()))
        else:
            weight.copy_(torch.from_numpy(np.stack(made, axis=2).reshape(len(made[0]), -1, weight.shape[1]).swapaxes(1, 2).copy()))


@pytest.mark.parametrize("name", MODELS)
def test_logits(name, tmp_path):
    architecture, kind, changes, stored = MODELS[name]
    model = make_model(kind, changes)
    for key, value in model.state_dict().items():
        if key.endswith("e_score_correction_bias"):
            value.uniform_(-0.3, 0.3)
    path = tmp_path / "model.gguf"
    write_gguf(model, architecture, stored, path, joined=None if "both" in name else "one map" in name)
    tokens = torch.randint(3, 96, (48,), generator=torch.Generator().manual_seed(1))
    want = logits_whole(model, tokens)
    assert want.std() > 0.1
    for cut, theirs in ((0, want), (1, logits_by_token(model, tokens)), (7, want)):
        assert difference(gyre_logits(path, cut, tokens, profile="llama.cpp"), theirs) <= TOLERANCE
