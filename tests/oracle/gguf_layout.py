"""What llama.cpp's converter makes of a model: keys, and for each tensor its source and what is done to it on the way.

    copy        as it is
    turn        rows of each head from halves to neighbours: [head, half, i] to [head, i, half]
    unfuse      rows from [head, q or k or v, channel] to [q or k or v, head, channel]
    transpose   [in, out] to [out, in]
    add_one     1 is added: what Gemma's norms multiply by
    stack       matrices of all experts in one tensor
    latent      of the rows of each head some, [row, latent], or turned: [latent, row]
    columns     of each expert, [in, out] to [out, in]; outputs from a first one on, every second or all
    values      numbers of the converter's own
"""
import math

from decoder_parts import llama3, plain_frequencies

SUFFIXES_LLAMA = {
    "input_layernorm": "attn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output", "post_attention_layernorm": "ffn_norm", "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down", "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm",
    "self_attn.qkv_proj": "attn_qkv", "mlp.gate_up_proj": "ffn_up", "self_attn.dense": "attn_output", "mlp.fc1": "ffn_up",
    "mlp.fc2": "ffn_down", "mlp.c_fc": "ffn_up", "mlp.c_proj": "ffn_down",
}  # fmt: skip
SUFFIXES_GEMMA2 = {
    **SUFFIXES_LLAMA, "post_attention_layernorm": "post_attention_norm", "pre_feedforward_layernorm": "ffn_norm",
    "post_feedforward_layernorm": "post_ffw_norm",
}  # fmt: skip
SUFFIXES_NEOX = {
    "input_layernorm": "attn_norm", "attention.query_key_value": "attn_qkv", "attention.dense": "attn_output",
    "post_attention_layernorm": "ffn_norm", "mlp.dense_h_to_4h": "ffn_up", "mlp.dense_4h_to_h": "ffn_down",
    "self_attention.query_key_value": "attn_qkv", "self_attention.dense": "attn_output",
}  # fmt: skip
SUFFIXES_GPT2 = {
    "ln_1": "attn_norm", "attn.c_attn": "attn_qkv", "attn.c_proj": "attn_output", "ln_2": "ffn_norm", "mlp.c_fc": "ffn_up",
    "mlp.c_proj": "ffn_down",
}  # fmt: skip
SUFFIXES_MPT = {
    "norm_1": "attn_norm", "attn.Wqkv": "attn_qkv", "attn.out_proj": "attn_output", "norm_2": "ffn_norm",
    "ffn.up_proj": "ffn_up", "ffn.down_proj": "ffn_down",
}  # fmt: skip
SUFFIXES_EXPERTS = {
    **SUFFIXES_LLAMA, "block_sparse_moe.gate": "ffn_gate_inp", "mlp.gate": "ffn_gate_inp", "mlp.shared_expert_gate": "ffn_gate_inp_shexp",
    "mlp.shared_expert.gate_proj": "ffn_gate_shexp", "mlp.shared_expert.up_proj": "ffn_up_shexp",
    "mlp.shared_expert.down_proj": "ffn_down_shexp",
}  # fmt: skip
SUFFIXES_GPT_OSS = {
    **SUFFIXES_LLAMA, "post_attention_layernorm": "post_attention_norm", "mlp.router": "ffn_gate_inp", "self_attn.sinks": "attn_sinks",
}  # fmt: skip
SUFFIXES_DEEPSEEK = {
    **SUFFIXES_EXPERTS, "self_attn.q_a_proj": "attn_q_a", "self_attn.q_a_layernorm": "attn_q_a_norm", "self_attn.q_b_proj": "attn_q_b",
    "self_attn.kv_a_proj_with_mqa": "attn_kv_a_mqa", "self_attn.kv_a_layernorm": "attn_kv_a_norm", "self_attn.kv_b_proj": "attn_kv_b",
    "mlp.gate.e_score_correction_bias": "exp_probs_b", "mlp.shared_experts.gate_proj": "ffn_gate_shexp",
    "mlp.shared_experts.up_proj": "ffn_up_shexp", "mlp.shared_experts.down_proj": "ffn_down_shexp",
}  # fmt: skip
PARTS_OF_EXPERTS = {"w1": "gate", "w3": "up", "w2": "down", "gate_proj": "gate", "up_proj": "up", "down_proj": "down"}
OUTER = {
    "model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output", "model.final_layernorm": "output_norm",
    "gpt_neox.embed_in": "token_embd", "gpt_neox.final_layer_norm": "output_norm", "embed_out": "output",
    "transformer.wte": "token_embd", "transformer.wpe": "position_embd", "transformer.ln_f": "output_norm",
    "transformer.word_embeddings": "token_embd", "transformer.word_embeddings_layernorm": "token_embd_norm",
    "transformer.norm_f": "output_norm",
}  # fmt: skip
SUFFIXES = {
    "gemma2": SUFFIXES_GEMMA2, "gemma3_text": SUFFIXES_GEMMA2, "gpt_neox": SUFFIXES_NEOX, "bloom": SUFFIXES_NEOX,
    "gpt2": SUFFIXES_GPT2, "mpt": SUFFIXES_MPT, "mixtral": SUFFIXES_EXPERTS, "qwen2_moe": SUFFIXES_EXPERTS,
    "qwen3_moe": SUFFIXES_EXPERTS, "gpt_oss": SUFFIXES_GPT_OSS, "deepseek_v3": SUFFIXES_DEEPSEEK,
}  # fmt: skip
ARCHITECTURES = {"mistral": "llama", "phi": "phi2", "gpt_neox": "gptneox", "gemma3_text": "gemma3", "mixtral": "llama",
                 "qwen2_moe": "qwen2moe", "qwen3_moe": "qwen3moe", "gpt_oss": "gpt-oss",
                 "deepseek_v3": "deepseek2"}

# Those that the converter takes, and that its engine computes as transformers does.
CONVERTED = [
    "llama_tied", "llama_biases", "llama_llama3", "llama_linear", "llama_yarn_usual", "llama_head", "mistral", "qwen2", "qwen3", "smollm3", "starcoder2",
    "phi", "phi3", "phi3_short", "phi3_long", "gpt_neox", "gpt_neox_serial", "gpt2_prefixed", "gpt2_head", "bloom", "mpt",
    "mpt_clamp", "gemma",
    "gemma2", "gemma3_six", "mixtral", "qwen2_moe", "qwen3_moe", "gpt_oss_plain", "deepseek_v3_fine",
]  # fmt: skip


def new_name(model_type, name):
    stem, _, kind = name.rpartition(".")
    if stem in OUTER:
        return f"{OUTER[stem]}.{kind}"
    if stem.endswith((".rotary_emb", "attention")) or name.endswith((".attn.bias", "attention.masked_bias")):
        return None  # buffers of old files
    if name.endswith(".sinks"):
        stem, kind = name, "weight"
    if name.endswith(".e_score_correction_bias"):
        stem, kind = name, "bias"
    parts = stem.split(".")
    at = next(i for i, part in enumerate(parts) if part.isdigit())
    return f"blk.{parts[at]}.{SUFFIXES.get(model_type, SUFFIXES_LLAMA)['.'.join(parts[at + 1:])]}.{kind}"


def treatment(c, name):
    kind = c["model_type"]
    if kind in ("llama", "mistral", "smollm3", "mixtral") and ".q_proj" in name:
        return ["turn", name, c["num_attention_heads"]]
    if kind in ("llama", "mistral", "smollm3", "mixtral") and ".k_proj" in name:
        return ["turn", name, c["num_key_value_heads"]]
    if ".query_key_value" in name:
        return ["unfuse", name, c.get("n_head") or c["num_attention_heads"]]
    if kind == "gpt2" and name.endswith(".weight") and ".c_" in name:
        return ["transpose", name]
    if kind.startswith("gemma") and "norm" in name:
        return ["add_one", name]
    return ["copy", name]


def experts(source):
    """The tensors that those of experts become, with their treatment: of the first expert for all of them."""
    layer = source.split(".")[2]
    at, part = source.split(".experts.")[0] + ".experts", source.split(".experts.")[1]
    if part.startswith("gate_up_proj") or part.startswith("down_proj"):
        kind = "bias" if part.endswith("_bias") else "weight"
        if part.startswith("down"):
            how = ["copy", source] if kind == "bias" else ["columns", source, 0, 1]
            return {f"blk.{layer}.ffn_down_exps.{kind}": how}
        return {f"blk.{layer}.ffn_{name}_exps.{kind}": ["columns", source, i, 2] for i, name in enumerate(("gate", "up"))}
    number, matrix, _ = part.split(".")
    if number != "0":
        return {}
    return {f"blk.{layer}.ffn_{PARTS_OF_EXPERTS[matrix]}_exps.weight": ["stack", f"{at}.%d.{matrix}.weight"]}


def first(c, *names):
    return next((c[n] for n in names if c.get(n) is not None), None)


def sizes(c):
    """Those that every architecture has, under the names that configs have for them."""
    width, heads = first(c, "hidden_size", "n_embd", "d_model"), first(c, "num_attention_heads", "n_head", "n_heads")
    return {
        "block_count": first(c, "num_hidden_layers", "n_layer", "n_layers"),
        "context_length": first(c, "max_position_embeddings", "n_positions", "seq_length", "max_seq_len"),
        "embedding_length": width,
        "feed_forward_length": first(c, "intermediate_size", "n_inner") or 4 * width,
        "attention.head_count": heads,
        "attention.head_count_kv": first(c, "num_key_value_heads") or heads,
    }


def rotation(c):
    kind, out = c["model_type"], {}
    if kind in ("gpt2", "bloom", "mpt"):
        return out
    if kind == "deepseek_v3":
        return {"rope.dimension_count": c["qk_rope_head_dim"], "rope.freq_base": float(c["rope_theta"])}
    dim = c.get("head_dim") or c["hidden_size"] // c["num_attention_heads"]
    share = first(c, "partial_rotary_factor", "rotary_pct") or 1.0
    out["rope.dimension_count"] = int(dim * share)
    out["rope.freq_base"] = float(first(c, "rope_theta", "rotary_emb_base"))
    if c.get("head_dim"):
        out["attention.key_length"] = out["attention.value_length"] = dim
    p = c.get("rope_scaling") or {}
    if (p.get("rope_type") or p.get("type")) == "linear":
        out |= {"rope.scaling.type": "linear", "rope.scaling.factor": p["factor"]}
    if p.get("rope_type") == "yarn":
        out |= {"rope.scaling.type": "yarn", "rope.scaling.factor": p["factor"],
                "rope.scaling.original_context_length": p["original_max_position_embeddings"]}  # fmt: skip
    return out


def own_keys(c):
    kind = c["model_type"]
    if kind == "gpt_neox":
        return {"use_parallel_residual": c["use_parallel_residual"]}
    if kind == "mpt":
        clip = c["attn_config"]["clip_qkv"]
        out = {"attention.clamp_kqv": clip} if clip else {}
        return {"attention.max_alibi_bias": float(c["attn_config"]["alibi_bias_max"]), **out}
    if kind == "gemma2":
        return {
            "attn_logit_softcapping": c["attn_logit_softcapping"], "final_logit_softcapping": c["final_logit_softcapping"],
            "attention.sliding_window": c["sliding_window"]}  # fmt: skip
    if kind == "gemma3_text":
        return {"attention.sliding_window": c["sliding_window"]}
    if kind in ("mixtral", "qwen2_moe", "qwen3_moe", "gpt_oss"):
        out = {"expert_count": first(c, "num_local_experts", "num_experts"), "expert_used_count": c["num_experts_per_tok"]}
        if kind != "mixtral":
            out["expert_feed_forward_length"] = first(c, "moe_intermediate_size", "intermediate_size")
        if kind == "qwen2_moe":
            out["expert_shared_feed_forward_length"] = c["shared_expert_intermediate_size"]
        if kind == "gpt_oss":
            out["attention.sliding_window"] = c["sliding_window"]
        return out
    if kind == "deepseek_v3":
        return {
            "attention.head_count_kv": 1, "attention.key_length": c["kv_lora_rank"] + c["qk_rope_head_dim"],
            "attention.value_length": c["kv_lora_rank"], "attention.key_length_mla": c["qk_nope_head_dim"] + c["qk_rope_head_dim"],
            "attention.value_length_mla": c["v_head_dim"], "attention.kv_lora_rank": c["kv_lora_rank"],
            "attention.q_lora_rank": c["q_lora_rank"], "expert_count": c["n_routed_experts"], "expert_used_count": c["num_experts_per_tok"],
            "expert_feed_forward_length": c["moe_intermediate_size"], "expert_shared_count": c["n_shared_experts"],
            "leading_dense_block_count": c["first_k_dense_replace"], "expert_group_count": c["n_group"],
            "expert_group_used_count": c["topk_group"], "expert_gating_func": 2, "expert_weights_norm": True,
            "expert_weights_scale": c["routed_scaling_factor"]}  # fmt: skip
    if kind == "phi3":
        original, out = c["original_max_position_embeddings"], {"attention.sliding_window": c["sliding_window"]}
        out["rope.scaling.original_context_length"] = original
        if c["rope_scaling"]:
            longer = c["max_position_embeddings"] / original
            out["rope.scaling.attn_factor"] = math.sqrt(1 + math.log(longer) / math.log(original))
        return out
    return {}


def own_tensors(c):
    p = c.get("rope_scaling") or {}
    if p.get("rope_type") == "llama3":
        dim = c["head_dim"]
        divisors = plain_frequencies(c["rope_theta"], dim) / llama3(p, c["rope_theta"], dim)[0]
        return {"rope_freqs.weight": ["values", [float("%.9g" % x) for x in divisors]]}
    if p.get("type") == "longrope":
        return {"rope_factors_long.weight": ["values", p["long_factor"]],
                "rope_factors_short.weight": ["values", p["short_factor"]]}  # fmt: skip
    return {}


def gguf_of(name, c, weights):
    if name not in CONVERTED:
        return None
    arch = ARCHITECTURES.get(c["model_type"], c["model_type"])
    eps = first(c, "rms_norm_eps", "layer_norm_eps", "layer_norm_epsilon", "norm_epsilon")
    eps_key = "attention.layer_norm_rms_epsilon" if "rms_norm_eps" in c else "attention.layer_norm_epsilon"
    keys = {**sizes(c), **rotation(c), eps_key: eps, **own_keys(c)}
    tensors = {}
    for source in weights.asked:
        if ".kv_b_proj." in source and "kv_lora_rank" in c:  # split, as newer files have it
            at, still = f"blk.{source.split('.')[2]}.attn_", c["qk_nope_head_dim"]
            tensors[f"{at}k_b.weight"] = ["latent", source, c["num_attention_heads"], 0, still, 1]
            tensors[f"{at}v_b.weight"] = ["latent", source, c["num_attention_heads"], still, c["v_head_dim"], 0]
            continue
        if ".experts." in source:
            tensors |= experts(source)
            continue
        made = new_name(c["model_type"], source)
        if made:
            tensors[made] = treatment(c, source)
    return {
        "keys": {"general.architecture": arch, **{f"{arch}.{k}": v for k, v in keys.items()}, f"{arch}.vocab_size": 61},
        "tensors": {**tensors, **own_tensors(c)},
    }
