"""Decoders as transformers 5 computes them: mixtures of experts, sinks, chunks, latents, and norms in other places.  As in
families.py, each is written down from its own class."""
import math

import numpy as np

from decoder_parts import (
    attend, frequencies, gelu_exact, gelu_tanh, layer_norm, linear, rms_norm, silu, split_heads, turn_halves, turn_neighbours)  # fmt: skip

LIKE_LLAMA = {"rms_norm_eps": 1e-5, "rope_theta": 10000.0}
DEFAULTS = {
    "mixtral": LIKE_LLAMA, "qwen2_moe": {**LIKE_LLAMA, "norm_topk_prob": False}, "qwen3_moe": {**LIKE_LLAMA, "norm_topk_prob": False},
    "gpt_oss": LIKE_LLAMA, "ernie4_5_moe": LIKE_LLAMA, "glm4": {**LIKE_LLAMA, "partial_rotary_factor": 0.5}, "olmo3": LIKE_LLAMA,
    "exaone4": LIKE_LLAMA, "cohere2": {"layer_norm_eps": 1e-5, "logit_scale": 0.0625}, "seed_oss": LIKE_LLAMA,
    "llama4_text": {**LIKE_LLAMA, "attn_scale": 0.1}, "deepseek_v3": LIKE_LLAMA, "falcon": {"layer_norm_epsilon": 1e-5},
    "ministral3": LIKE_LLAMA, "gemma4_text": {"rms_norm_eps": 1e-6},
}  # fmt: skip


def dims(c):
    heads = c["num_attention_heads"]
    return c["hidden_size"], heads, c["num_key_value_heads"], c.get("head_dim") or c["hidden_size"] // heads


def affine(w, name, x, out, bias=False, strength=1.0):
    m = w.matrix(f"{name}.weight", out, x.shape[-1], strength)
    return linear(x, m, w.bias(f"{name}.bias", out) if bias else None)


def rms(w, name, x, eps):
    return rms_norm(x, w.gain(f"{name}.weight", x.shape[-1]), eps)


def swiglu(w, at, x, dim, bias=False):
    gate, up = (affine(w, f"{at}.{n}_proj", x, dim, bias) for n in ("gate", "up"))
    return affine(w, f"{at}.down_proj", silu(gate) * up, x.shape[-1], bias)


def qkv(w, at, x, heads, kv, dim, bias=False):
    """Queries, keys and values: [heads, tokens, dim]."""
    return [split_heads(affine(w, f"{at}.{l}_proj", x, n * dim, bias, 1.5 if l == "q" else 1.0), n)
            for l, n in (("q", heads), ("k", kv), ("v", kv))]  # fmt: skip


# -- experts -----------------------------------------------------------------------------------------------------------


def softmax(x):
    y = np.exp(x - x.max(axis=-1, keepdims=True))
    return y / y.sum(axis=-1, keepdims=True)


def sigmoid(x):
    return 1.0 / (1.0 + np.exp(-x))


def largest(keys, count):
    return np.argsort(-keys, kind="stable")[:count]


def mix(x, scores, keys, active, expert, normalized, scale=1.0, of_input=False):
    """Each token through the `active` experts of the largest keys; expert(number, rows) computes one."""
    out = np.zeros_like(x)
    for t in range(len(x)):
        chosen = largest(keys[t], active)
        weights = scores[t][chosen] / (scores[t][chosen].sum() if normalized else 1.0) * scale
        for e, weight in zip(chosen, weights, strict=True):
            row = x[t : t + 1]
            out[t] += expert(e, row * weight)[0] if of_input else weight * expert(e, row)[0]
    return out


def per_expert(w, at, count, dim, names=("gate_proj", "up_proj", "down_proj")):
    """Experts with three tensors each, all of them made at once."""
    def made(width):
        return [[w.matrix(f"{at}.{e}.{n}.weight", *((width, dim) if i == 2 else (dim, width))) for i, n in enumerate(names)]
                for e in range(count)]  # fmt: skip

    state = {}

    def expert(e, x):
        if not state:
            state["all"] = made(x.shape[-1])
        gate, up, down = state["all"][e]
        return linear(silu(linear(x, gate)) * linear(x, up), down)

    return expert


def llama_with_experts(c, w, tokens):
    """mixtral, qwen2_moe, qwen3_moe, ernie4_5_moe."""
    kind, eps = c["model_type"], c["rms_norm_eps"]
    width, heads, kv, dim = dims(c)
    inv_freq, multiplier = frequencies(c, dim, len(tokens))
    table = w.table("model.embed_tokens.weight", c["vocab_size"], width)
    h = table[tokens]
    for i in range(c["num_hidden_layers"]):
        at = f"model.layers.{i}"
        q, k, v = qkv(w, f"{at}.self_attn", rms(w, f"{at}.input_layernorm", h, eps), heads, kv, dim, kind == "qwen2_moe")
        if kind == "qwen3_moe":
            q, k = rms(w, f"{at}.self_attn.q_norm", q, eps), rms(w, f"{at}.self_attn.k_norm", k, eps)
        if kind == "ernie4_5_moe":
            q, k = turn_neighbours(q, inv_freq), turn_neighbours(k, inv_freq)
        else:
            q, k = turn_halves(q, inv_freq, multiplier), turn_halves(k, inv_freq, multiplier)
        h = h + affine(w, f"{at}.self_attn.o_proj", attend(q, k, v, dim**-0.5), width)
        h = h + experts_of(c, w, i, rms(w, f"{at}.post_attention_layernorm", h, eps))
    h = rms(w, "model.norm", h, eps)
    return linear(h, table) if kind == "ernie4_5_moe" else affine(w, "lm_head", h, c["vocab_size"])


def experts_of(c, w, i, x):
    kind, at = c["model_type"], f"model.layers.{i}"
    if kind == "mixtral":
        scores = softmax(affine(w, f"{at}.block_sparse_moe.gate", x, c["num_local_experts"]))
        expert = per_expert(w, f"{at}.block_sparse_moe.experts", c["num_local_experts"], c["intermediate_size"], ("w1", "w3", "w2"))
        return mix(x, scores, scores, c["num_experts_per_tok"], expert, True)
    if kind == "ernie4_5_moe":
        if i < c["moe_layer_start_index"]:
            return swiglu(w, f"{at}.mlp", x, c["intermediate_size"])
        scores = softmax(affine(w, f"{at}.mlp.gate", x, c["moe_num_experts"]))
        keys = scores + w.get(f"{at}.mlp.moe_statics.e_score_correction_bias", (1, c["moe_num_experts"]), 0.0, 0.2)
        expert = per_expert(w, f"{at}.mlp.experts", c["moe_num_experts"], c["moe_intermediate_size"])
        shared = swiglu(w, f"{at}.mlp.shared_experts", x, c["moe_intermediate_size"] * c["moe_num_shared_experts"])
        return mix(x, scores, keys, c["moe_k"], expert, True) + shared
    if (i + 1) % c.get("decoder_sparse_step", 1) != 0 or i in c.get("mlp_only_layers", ()):
        return swiglu(w, f"{at}.mlp", x, c["intermediate_size"])
    scores = softmax(affine(w, f"{at}.mlp.gate", x, c["num_experts"]))
    expert = per_expert(w, f"{at}.mlp.experts", c["num_experts"], c["moe_intermediate_size"])
    out = mix(x, scores, scores, c["num_experts_per_tok"], expert, c["norm_topk_prob"])
    if kind == "qwen2_moe":
        shared = swiglu(w, f"{at}.mlp.shared_expert", x, c["shared_expert_intermediate_size"])
        out += sigmoid(affine(w, f"{at}.mlp.shared_expert_gate", x, 1)) * shared
    return out


E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])


def packed_stack(w, name, experts, inputs, out):
    """[experts, inputs, out] of blocks of 32 numbers of four bits, the even one in the low bits of a byte."""
    blocks = w.bytes(f"{name}_blocks", (experts, out, inputs // 32, 16), 0, 256)
    scales = w.bytes(f"{name}_scales", (experts, out, inputs // 32), 121, 125)
    pairs = np.stack([E2M1[blocks & 15], E2M1[blocks >> 4]], axis=-1).reshape(*scales.shape, 32)
    return (pairs * 2.0 ** (scales[..., None] - 127)).reshape(experts, out, inputs).transpose(0, 2, 1)


def gpt_oss(c, w, tokens):
    """Gates and ups of the experts alternate; both are clamped."""
    width, heads, kv, dim = dims(c)
    eps, experts, hidden = c["rms_norm_eps"], c["num_local_experts"], c["intermediate_size"]
    inv_freq, multiplier = frequencies(c, dim, len(tokens))
    h = w.table("model.embed_tokens.weight", c["vocab_size"], width)[tokens]
    for i in range(c["num_hidden_layers"]):
        at = f"model.layers.{i}"
        q, k, v = qkv(w, f"{at}.self_attn", rms(w, f"{at}.input_layernorm", h, eps), heads, kv, dim, True)
        q, k = turn_halves(q, inv_freq, multiplier), turn_halves(k, inv_freq, multiplier)
        window = c["sliding_window"] if c["layer_types"][i] == "sliding_attention" else None
        a = attend(q, k, v, dim**-0.5, window, sinks=w.gain(f"{at}.self_attn.sinks", heads))
        h = h + affine(w, f"{at}.self_attn.o_proj", a, width, True)
        x = rms(w, f"{at}.post_attention_layernorm", h, eps)
        scores = softmax(affine(w, f"{at}.mlp.router", x, experts, True))
        made = (lambda *of: packed_stack(w, *of)) if "quantization_config" in c else w.stack
        both, down = made(f"{at}.mlp.experts.gate_up_proj", experts, width, 2 * hidden), made(
            f"{at}.mlp.experts.down_proj", experts, hidden, width)  # fmt: skip
        both_bias = w.get(f"{at}.mlp.experts.gate_up_proj_bias", (experts, 2 * hidden), 0.0, 4.0)
        down_bias = w.get(f"{at}.mlp.experts.down_proj_bias", (experts, width), 0.0, 0.3)

        def expert(e, row, both=both, down=down, both_bias=both_bias, down_bias=down_bias):
            y = row @ both[e] + both_bias[e]
            gate, up = np.minimum(y[:, ::2], 7.0), np.clip(y[:, 1::2], -7.0, 7.0)
            return (up + 1) * gate * sigmoid(1.702 * gate) @ down[e] + down_bias[e]

        h = h + mix(x, scores, scores, c["num_experts_per_tok"], expert, True)
    return affine(w, "lm_head", rms(w, "model.norm", h, eps), c["vocab_size"])


def llama4(c, w, tokens):
    """Rotated layers see chunks and normalize queries and keys; the others grow queries with their position."""
    width, heads, kv, dim = dims(c)
    eps, experts, hidden, n = c["rms_norm_eps"], c["num_local_experts"], c["intermediate_size"], len(tokens)
    inv_freq, _ = frequencies(c, dim, n)
    h = w.table("model.embed_tokens.weight", c["vocab_size"], width)[tokens]
    for i in range(c["num_hidden_layers"]):
        at = f"model.layers.{i}"
        q, k, v = qkv(w, f"{at}.self_attn", rms(w, f"{at}.input_layernorm", h, eps), heads, kv, dim)
        if c["no_rope_layers"][i]:
            q, k = (rms_norm(turn_neighbours(x, inv_freq), 1.0, eps) for x in (q, k))
        else:
            q = q * (np.log1p(np.floor((np.arange(n) + 1.0) / c["floor_scale"])) * c["attn_scale"] + 1.0)[:, None]
        a = attend(q, k, v, dim**-0.5, chunk=c["attention_chunk_size"] if c["no_rope_layers"][i] else None)
        h = h + affine(w, f"{at}.self_attn.o_proj", a, width)
        x = rms(w, f"{at}.post_attention_layernorm", h, eps)
        if i not in c["moe_layers"]:
            h = h + swiglu(w, f"{at}.feed_forward", x, c["intermediate_size_mlp"])
            continue
        scores = affine(w, f"{at}.feed_forward.router", x, experts)
        both, down = w.stack(f"{at}.feed_forward.experts.gate_up_proj", experts, width, 2 * hidden), w.stack(
            f"{at}.feed_forward.experts.down_proj", experts, hidden, width)  # fmt: skip

        def expert(e, row, both=both, down=down):
            y = row @ both[e]
            return (silu(y[:, :hidden]) * y[:, hidden:]) @ down[e]

        mixed = mix(x, sigmoid(scores), scores, c["num_experts_per_tok"], expert, False, of_input=True)
        h = h + swiglu(w, f"{at}.feed_forward.shared_expert", x, hidden) + mixed
    return affine(w, "lm_head", rms(w, "model.norm", h, eps), c["vocab_size"])


def deepseek(c, w, tokens):
    """Queries, keys and values from latents; experts by groups."""
    width, heads, eps = c["hidden_size"], c["num_attention_heads"], c["rms_norm_eps"]
    still, turning, value, latent = c["qk_nope_head_dim"], c["qk_rope_head_dim"], c["v_head_dim"], c["kv_lora_rank"]
    inv_freq, multiplier = frequencies(c, turning, len(tokens))
    p, scale = c.get("rope_scaling") or {}, (still + turning) ** -0.5
    if p.get("mscale_all_dim"):
        scale *= (0.1 * p["mscale_all_dim"] * math.log(p["factor"]) + 1.0) ** 2
    h = w.table("model.embed_tokens.weight", c["vocab_size"], width)[tokens]
    for i in range(c["num_hidden_layers"]):
        at = f"model.layers.{i}"
        s, x = f"{at}.self_attn", rms(w, f"{at}.input_layernorm", h, eps)
        if c["q_lora_rank"]:
            q = affine(w, f"{s}.q_b_proj", rms(w, f"{s}.q_a_layernorm", affine(w, f"{s}.q_a_proj", x, c["q_lora_rank"]), 1e-6),
                       heads * (still + turning), False, 1.5)  # fmt: skip
        else:
            q = affine(w, f"{s}.q_proj", x, heads * (still + turning), False, 1.5)
        q, down = split_heads(q, heads), affine(w, f"{s}.kv_a_proj_with_mqa", x, latent + turning)
        kv = affine(w, f"{s}.kv_b_proj", rms(w, f"{s}.kv_a_layernorm", down[:, :latent], 1e-6), heads * (still + value))
        kv = split_heads(kv, heads)
        turned = multiplier * turn_neighbours(down[None, :, latent:], inv_freq)
        q = np.concatenate([q[..., :still], multiplier * turn_neighbours(q[..., still:], inv_freq)], axis=-1)
        k = np.concatenate([kv[..., :still], np.repeat(turned, heads, axis=0)], axis=-1)
        h = h + affine(w, f"{s}.o_proj", attend(q, k, kv[..., still:], scale), width)
        x = rms(w, f"{at}.post_attention_layernorm", h, eps)
        if i < c["first_k_dense_replace"]:
            h = h + swiglu(w, f"{at}.mlp", x, c["intermediate_size"])
            continue
        experts, groups = c["n_routed_experts"], c["n_group"]
        scores = sigmoid(affine(w, f"{at}.mlp.gate", x, experts))
        keys = scores + w.get(f"{at}.mlp.gate.e_score_correction_bias", (experts,), 0.0, 0.3)
        by_group = keys.reshape(len(x), groups, -1)
        sums = np.sort(by_group, axis=-1)[..., -2:].sum(axis=-1)
        for t in range(len(x)):
            dropped = [g for g in range(groups) if g not in largest(sums[t], c["topk_group"])]
            by_group[t, dropped] = -np.inf
        expert = per_expert(w, f"{at}.mlp.experts", experts, c["moe_intermediate_size"])
        h = h + mix(x, scores, keys, c["num_experts_per_tok"], expert, c["norm_topk_prob"], c["routed_scaling_factor"])
        h = h + swiglu(w, f"{at}.mlp.shared_experts", x, c["moe_intermediate_size"] * c["n_shared_experts"])
    return affine(w, "lm_head", rms(w, "model.norm", h, eps), c["vocab_size"])


# -- norms in other places, layers without rotation, parallel blocks ------------------------------------------------------


def after_the_blocks(c, w, tokens):
    """olmo3, whose norms of queries and keys are of all heads at once, and exaone4, whose full layers do not rotate."""
    width, heads, kv, dim = dims(c)
    kind, eps = c["model_type"], c["rms_norm_eps"]
    inv_freq, _ = frequencies(c, dim, len(tokens))
    h = w.table("model.embed_tokens.weight", c["vocab_size"], width)[tokens]
    for i in range(c["num_hidden_layers"]):
        at, slides = f"model.layers.{i}", c["layer_types"][i] == "sliding_attention"
        s = f"{at}.self_attn"
        q, k = affine(w, f"{s}.q_proj", h, heads * dim, False, 1.5), affine(w, f"{s}.k_proj", h, kv * dim)
        v = split_heads(affine(w, f"{s}.v_proj", h, kv * dim), kv)
        if kind == "olmo3":
            q, k = rms(w, f"{s}.q_norm", q, eps), rms(w, f"{s}.k_norm", k, eps)
        q, k = split_heads(q, heads), split_heads(k, kv)
        if kind == "exaone4":
            q, k = rms(w, f"{s}.q_norm", q, eps), rms(w, f"{s}.k_norm", k, eps)
        if kind == "olmo3" or slides:
            q, k = turn_halves(q, inv_freq, 1.0), turn_halves(k, inv_freq, 1.0)
        a = affine(w, f"{s}.o_proj", attend(q, k, v, dim**-0.5, c["sliding_window"] if slides else None), width)
        h = h + rms(w, f"{at}.post_attention_layernorm", a, eps)
        h = h + rms(w, f"{at}.post_feedforward_layernorm", swiglu(w, f"{at}.mlp", h, c["intermediate_size"]), eps)
    return affine(w, "lm_head", rms(w, "model.norm", h, eps), c["vocab_size"])


def glm4(c, w, tokens):
    """Four norms; half of the head turns, neighbours; gate and up in one matrix."""
    width, heads, kv, dim = dims(c)
    eps, hidden = c["rms_norm_eps"], c["intermediate_size"]
    inv_freq, _ = frequencies(c, int(dim * c["partial_rotary_factor"]), len(tokens))
    h = w.table("model.embed_tokens.weight", c["vocab_size"], width)[tokens]
    for i in range(c["num_hidden_layers"]):
        at = f"model.layers.{i}"
        q, k, v = qkv(w, f"{at}.self_attn", rms(w, f"{at}.input_layernorm", h, eps), heads, kv, dim, c["attention_bias"])
        a = attend(turn_neighbours(q, inv_freq), turn_neighbours(k, inv_freq), v, dim**-0.5)
        h = h + rms(w, f"{at}.post_self_attn_layernorm", affine(w, f"{at}.self_attn.o_proj", a, width), eps)
        both = affine(w, f"{at}.mlp.gate_up_proj", rms(w, f"{at}.post_attention_layernorm", h, eps), 2 * hidden)
        m = affine(w, f"{at}.mlp.down_proj", silu(both[:, :hidden]) * both[:, hidden:], width)
        h = h + rms(w, f"{at}.post_mlp_layernorm", m, eps)
    return affine(w, "lm_head", rms(w, "model.norm", h, eps), c["vocab_size"])


def gemma4_layers(c):
    """Of each layer: head_dim, key heads, window, frequencies, and the layer whose keys it reads."""
    listed, n = c.get("per_layer_config", {}), c["num_hidden_layers"]
    shares = n - c["num_kv_shared_layers"]
    out = []
    for i, kind in enumerate(c["layer_types"]):
        full = kind == "full_attention"
        own = next((o for key, o in listed.items() if int(key) == i), {})
        dim, kv = own.get("head_dim", c["head_dim"]), own.get("num_key_value_heads", c["num_key_value_heads"])
        if full and not listed:
            dim = c["global_head_dim"]
            kv = c["num_global_key_value_heads"] if c["attention_k_eq_v"] and c["num_global_key_value_heads"] else kv
        p = c["rope_parameters"][kind]
        turning = int(p.get("partial_rotary_factor", 1.0) * dim // 2)
        inv_freq = p["rope_theta"] ** -(2 * np.arange(dim // 2) / dim) * (np.arange(dim // 2) < turning)
        same = [j for j in range(shares) if c["layer_types"][j] == kind]
        out.append((dim, kv, None if full else c["sliding_window"], inv_freq, i if i < shares else same[-1]))
    return out


def gemma4_experts(c, w, at, h):
    """Beside the mlp, from the same stream through two norms."""
    width, experts, hidden, eps = h.shape[-1], c["num_experts"], c["moe_intermediate_size"], c["rms_norm_eps"]
    routed = rms_norm(h, w.gain(f"{at}.router.scale", width), eps) * width**-0.5
    scores = softmax(affine(w, f"{at}.router.proj", routed, experts))
    scales = w.gain(f"{at}.router.per_expert_scale", experts)
    both = w.get(f"{at}.experts.gate_up_proj", (experts, 2 * hidden, width), 0.0, (3.0 / width) ** 0.5)
    down = w.get(f"{at}.experts.down_proj", (experts, width, hidden), 0.0, (3.0 / hidden) ** 0.5)

    def expert(e, row):
        y = linear(row, both[e])
        return scales[e] * linear(gelu_tanh(y[:, :hidden]) * y[:, hidden:], down[e])

    out = mix(rms(w, f"{at}.pre_feedforward_layernorm_2", h, eps), scores, scores, c["top_k_experts"], expert, True)
    return rms(w, f"{at}.post_feedforward_layernorm_2", out, eps)


def gemma4(c, w, tokens):
    """Heads by layer, keys of earlier layers, keys as values, and inputs that every layer has beside the stream."""
    width, heads, eps, n, beside = c["hidden_size"], c["num_attention_heads"], c["rms_norm_eps"], len(tokens), c["hidden_size_per_layer_input"]
    table = w.table("model.embed_tokens.weight", c["vocab_size"], width)
    h = table[tokens] * width**0.5
    if beside:
        packed = c["num_hidden_layers"] * beside
        inputs = affine(w, "model.per_layer_model_projection", h, packed) * width**-0.5
        inputs = rms(w, "model.per_layer_projection_norm", inputs.reshape(n, -1, beside), eps)
        of_tokens = w.table("model.embed_tokens_per_layer.weight", c["vocab_size_per_layer_input"], packed)[tokens] * beside**0.5
        inputs = (inputs + of_tokens.reshape(inputs.shape)) / 2**0.5
    kept = {}
    for i, (dim, kv, window, inv_freq, source) in enumerate(gemma4_layers(c)):
        at = f"model.layers.{i}"
        s, x = f"{at}.self_attn", rms(w, f"{at}.input_layernorm", h, eps)
        q = rms(w, f"{s}.q_norm", split_heads(affine(w, f"{s}.q_proj", x, heads * dim), heads), eps)
        if source == i:
            k = split_heads(affine(w, f"{s}.k_proj", x, kv * dim), kv)
            v = k if c["attention_k_eq_v"] and not window else split_heads(affine(w, f"{s}.v_proj", x, kv * dim), kv)
            kept[i] = turn_halves(rms(w, f"{s}.k_norm", k, eps), inv_freq, 1.0), rms_norm(v, 1.0, eps)
        elif c.get("with_unused"):
            w.unused(f"{s}.k_proj.weight", (kv * dim, width))
            w.unused(f"{s}.k_norm.weight", (dim,))
        a = attend(turn_halves(q, inv_freq, 1.0), *kept[source], 1.0, window)
        h = h + rms(w, f"{at}.post_attention_layernorm", affine(w, f"{s}.o_proj", a, width), eps)
        x = rms(w, f"{at}.pre_feedforward_layernorm", h, eps)
        hidden = c["intermediate_size"] * (2 if c["use_double_wide_mlp"] and source != i else 1)
        gate, up = affine(w, f"{at}.mlp.gate_proj", x, hidden), affine(w, f"{at}.mlp.up_proj", x, hidden)
        m = affine(w, f"{at}.mlp.down_proj", gelu_tanh(gate) * up, width)
        if c["enable_moe_block"]:
            m = rms(w, f"{at}.post_feedforward_layernorm_1", m, eps) + gemma4_experts(c, w, at, h)
        h = h + rms(w, f"{at}.post_feedforward_layernorm", m, eps)
        if beside:
            g = gelu_tanh(affine(w, f"{at}.per_layer_input_gate", h, beside)) * inputs[:, i]
            h = h + rms(w, f"{at}.post_per_layer_input_norm", affine(w, f"{at}.per_layer_projection", g, width), eps)
        h = h * w.get(f"{at}.layer_scalar", (1,), 1.0, 0.3)
    y = linear(rms(w, "model.norm", h, eps), table)
    cap = c["final_logit_softcapping"]
    return np.tanh(y / cap) * cap if cap else y


def cohere2(c, w, tokens):
    width, heads, kv, dim = dims(c)
    inv_freq, _ = frequencies(c, dim, len(tokens))
    table = w.table("model.embed_tokens.weight", c["vocab_size"], width)

    def norm(name, x):
        return layer_norm(x, w.gain(f"{name}.weight", width), None, c["layer_norm_eps"])

    h = table[tokens]
    for i in range(c["num_hidden_layers"]):
        at, slides = f"model.layers.{i}", c["layer_types"][i] == "sliding_attention"
        x = norm(f"{at}.input_layernorm", h)
        q, k, v = qkv(w, f"{at}.self_attn", x, heads, kv, dim)
        if slides:
            q, k = turn_neighbours(q, inv_freq), turn_neighbours(k, inv_freq)
        a = attend(q, k, v, dim**-0.5, c["sliding_window"] if slides else None)
        h = h + affine(w, f"{at}.self_attn.o_proj", a, width) + swiglu(w, f"{at}.mlp", x, c["intermediate_size"])
    return linear(norm("model.norm", h), table) * c["logit_scale"]


def seed_oss(c, w, tokens):
    width, heads, kv, dim = dims(c)
    eps = c["rms_norm_eps"]
    inv_freq, _ = frequencies(c, dim, len(tokens))
    h = w.table("model.embed_tokens.weight", c["vocab_size"], width)[tokens]
    for i in range(c["num_hidden_layers"]):
        at = f"model.layers.{i}"
        q, k, v = qkv(w, f"{at}.self_attn", rms(w, f"{at}.input_layernorm", h, eps), heads, kv, dim, True)
        a = attend(turn_halves(q, inv_freq, 1.0), turn_halves(k, inv_freq, 1.0), v, dim**-0.5)
        h = h + affine(w, f"{at}.self_attn.o_proj", a, width, c["attention_out_bias"])
        x = rms(w, f"{at}.post_attention_layernorm", h, eps)
        h = h + swiglu(w, f"{at}.mlp", x, c["intermediate_size"], c["mlp_bias"])
    return affine(w, "lm_head", rms(w, "model.norm", h, eps), c["vocab_size"])


def falcon(c, w, tokens):
    """One key head for all queries, several with their queries beside them, or one for each query."""
    width, heads, eps, n = c["hidden_size"], c["num_attention_heads"], c["layer_norm_epsilon"], len(tokens)
    dim, grouped, bias = width // heads, c["new_decoder_architecture"], c["bias"]
    kv = c["num_kv_heads"] if grouped else 1 if c["multi_query"] else heads
    inv_freq, _ = frequencies(c, dim, n)
    slopes = np.array([2.0 ** (-8.0 * (i + 1) / heads) for i in range(heads)])
    table = w.table("transformer.word_embeddings.weight", c["vocab_size"], width)

    def norm(name, x):
        return layer_norm(x, w.gain(f"{name}.weight", width), w.bias(f"{name}.bias", width), eps)

    h = table[tokens]
    for i in range(c["num_hidden_layers"]):
        at = f"transformer.h.{i}"
        x = norm(f"{at}.ln_attn" if grouped else f"{at}.input_layernorm", h)
        beside = norm(f"{at}.ln_mlp", h) if grouped else x
        fused = affine(w, f"{at}.self_attention.query_key_value", x, (heads + 2 * kv) * dim, bias, 1.3)
        parts = fused.reshape(n, kv, heads // kv + 2, dim).transpose(1, 2, 0, 3)
        q, k, v = parts[:, :-2].reshape(heads, n, dim), parts[:, -2], parts[:, -1]
        if c["alibi"]:
            a = attend(q, k, v, dim**-0.5, bias=slopes[:, None] * np.arange(n) * dim**-0.5)
        else:
            a = attend(turn_halves(q, inv_freq, 1.0), turn_halves(k, inv_freq, 1.0), v, dim**-0.5)
        h = h + affine(w, f"{at}.self_attention.dense", a, width, bias)
        if not c["parallel_attn"]:
            beside = norm(f"{at}.post_attention_layernorm", h)
        m = gelu_exact(affine(w, f"{at}.mlp.dense_h_to_4h", beside, 4 * width, bias))
        h = h + affine(w, f"{at}.mlp.dense_4h_to_h", m, width, bias)
    return linear(norm("transformer.ln_f", h), table)


CLASSES = {
    "mixtral": llama_with_experts, "qwen2_moe": llama_with_experts, "qwen3_moe": llama_with_experts,
    "ernie4_5_moe": llama_with_experts, "gpt_oss": gpt_oss, "llama4_text": llama4, "deepseek_v3": deepseek,
    "olmo3": after_the_blocks, "exaone4": after_the_blocks, "glm4": glm4, "gemma4_text": gemma4, "cohere2": cohere2, "seed_oss": seed_oss, "falcon": falcon,
}  # fmt: skip
