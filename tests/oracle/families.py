"""Decoders as transformers 5 computes them, each written down from its own class: config, weights, tokens to logits.

Names and shapes of tensors are those of checkpoints on the Hub."""
import math

import numpy as np

from decoder_parts import (
    ACTIVATIONS, attend, frequencies, gelu_exact, gelu_tanh, layer_norm, linear, rms_norm, split_heads, turn_halves,
    turn_neighbours)  # fmt: skip
from families_newer import CLASSES as NEWER
from families_newer import DEFAULTS as NEWER_DEFAULTS


# What each class's config has where a file says nothing.
LIKE_LLAMA = {"hidden_act": "silu", "rms_norm_eps": 1e-6, "tie_word_embeddings": False, "rope_theta": 10000.0}
LIKE_GPT2 = {"activation_function": "gelu_new", "layer_norm_epsilon": 1e-5}
LIKE_GEMMA2 = {
    "hidden_activation": "gelu_pytorch_tanh", "rms_norm_eps": 1e-6, "rope_theta": 10000.0, "head_dim": 256,
    "query_pre_attn_scalar": 256, "sliding_window": 4096,
}  # fmt: skip
DEFAULTS = {
    "llama": LIKE_LLAMA, "mistral": LIKE_LLAMA, "qwen2": LIKE_LLAMA, "qwen3": {**LIKE_LLAMA, "head_dim": 128},
    "smollm3": {**LIKE_LLAMA, "tie_word_embeddings": True, "rope_theta": 2000000.0},
    "granite": {**LIKE_LLAMA, "attention_multiplier": 1.0}, "olmo2": {**LIKE_LLAMA, "rms_norm_eps": 1e-5},
    "stablelm": {"hidden_act": "silu", "layer_norm_eps": 1e-5, "partial_rotary_factor": 0.25, "use_qkv_bias": False},
    "starcoder2": {"hidden_act": "gelu_pytorch_tanh", "norm_epsilon": 1e-5, "use_bias": True},
    "phi": {"hidden_act": "gelu_new", "layer_norm_eps": 1e-5, "partial_rotary_factor": 0.5},
    "phi3": {**LIKE_LLAMA, "rms_norm_eps": 1e-5},
    "cohere": {"hidden_act": "silu", "layer_norm_eps": 1e-5, "rope_theta": 10000.0},
    "gpt_neox": {
        "hidden_act": "gelu", "layer_norm_eps": 1e-5, "rotary_pct": 0.25, "rotary_emb_base": 10000,
        "use_parallel_residual": True},
    "gpt2": LIKE_GPT2, "gptj": {**LIKE_GPT2, "rotary_dim": 64}, "bloom": {"layer_norm_epsilon": 1e-5},
    "mpt": {"layer_norm_epsilon": 1e-5, "attn_config": {}},
    "gemma": {"hidden_act": "gelu_pytorch_tanh", "rms_norm_eps": 1e-6, "rope_theta": 10000.0, "head_dim": 256},
    "gemma2": {**LIKE_GEMMA2, "attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0},
    "gemma3_text": {**LIKE_GEMMA2, "rope_theta": 1000000.0, "rope_local_base_freq": 10000.0},
}  # fmt: skip


def head_dim_of(c):
    return c.get("head_dim") or c["hidden_size"] // c["num_attention_heads"]


def separate_qkv(c, w, at, x, bias):
    """Three matrices, fewer key and value heads than query heads where the config says so."""
    heads, dim = c["num_attention_heads"], head_dim_of(c)
    kv = c.get("num_key_value_heads") or heads
    out = []
    for letter, n in (("q", heads), ("k", kv), ("v", kv)):
        m = w.matrix(f"{at}.{letter}_proj.weight", n * dim, c["hidden_size"], 1.5 if letter == "q" else 1.0)
        b = w.bias(f"{at}.{letter}_proj.bias", n * dim) if bias else None
        out.append(split_heads(linear(x, m, b), n))
    return out


def gated(c, w, at, x, act, bias=False):
    width, hidden = c["hidden_size"], c["intermediate_size"]
    y = []
    for name in ("gate_proj", "up_proj"):
        m = w.matrix(f"{at}.{name}.weight", hidden, width)
        y.append(linear(x, m, w.bias(f"{at}.{name}.bias", hidden) if bias else None))
    down = w.matrix(f"{at}.down_proj.weight", width, hidden)
    return linear(act(y[0]) * y[1], down, w.bias(f"{at}.down_proj.bias", width) if bias else None)


def smollm3_turns(c, i):
    """Whether layer i has a rotation."""
    return c["no_rope_layers"][i] == 1 if c.get("no_rope_layers") else (i + 1) % c.get("no_rope_layer_interval", 4) != 0


def layer_window(c, i):
    """Of layer i, as the classes' layer_types have it; None = sees all."""
    kind, window = c["model_type"], c.get("sliding_window")
    if c.get("layer_types"):
        return window if c["layer_types"][i] == "sliding_attention" else None
    if kind in ("mistral", "phi3", "starcoder2"):
        return window
    if kind in ("qwen2", "qwen3"):
        return window if c.get("use_sliding_window") and i >= c["max_window_layers"] else None
    if kind == "smollm3":
        return window if c.get("use_sliding_window") and not smollm3_turns(c, i) else None
    if kind == "gemma2":
        return window if (i + 1) % 2 else None
    if kind == "gemma3_text":
        return window if (i + 1) % c.get("sliding_window_pattern", 6) else None
    return None


def llama(c, w, tokens):
    """Also mistral, qwen2, qwen3, smollm3, granite: those that were written from it, told apart by the config."""
    kind, width, dim, eps = c["model_type"], c["hidden_size"], head_dim_of(c), c["rms_norm_eps"]
    inv_freq, multiplier = frequencies(c, dim, len(tokens))
    table = w.table("model.embed_tokens.weight", c["vocab_size"], width)
    h = table[tokens] * c.get("embedding_multiplier", 1.0)
    grows = c.get("residual_multiplier", 1.0)
    for i in range(c["num_hidden_layers"]):
        at = f"model.layers.{i}"
        if c.get("with_unused"):
            w.unused(f"{at}.self_attn.rotary_emb.inv_freq", (dim // 2,))
        x = rms_norm(h, w.gain(f"{at}.input_layernorm.weight", width), eps)
        q, k, v = separate_qkv(c, w, f"{at}.self_attn", x, kind == "qwen2" or c.get("attention_bias"))
        if kind == "qwen3":
            q = rms_norm(q, w.gain(f"{at}.self_attn.q_norm.weight", dim), eps)
            k = rms_norm(k, w.gain(f"{at}.self_attn.k_norm.weight", dim), eps)
        if kind != "smollm3" or smollm3_turns(c, i):
            q, k = turn_halves(q, inv_freq, multiplier), turn_halves(k, inv_freq, multiplier)
        scale = c["attention_multiplier"] if kind == "granite" else dim**-0.5
        a = attend(q, k, v, scale, layer_window(c, i))
        o = w.matrix(f"{at}.self_attn.o_proj.weight", width, a.shape[1])
        o_bias = w.bias(f"{at}.self_attn.o_proj.bias", width) if c.get("attention_bias") else None
        h = h + linear(a, o, o_bias) * grows
        x = rms_norm(h, w.gain(f"{at}.post_attention_layernorm.weight", width), eps)
        h = h + gated(c, w, f"{at}.mlp", x, ACTIVATIONS[c["hidden_act"]], c.get("mlp_bias")) * grows
    h = rms_norm(h, w.gain("model.norm.weight", width), eps)
    shared = c.get("tie_word_embeddings") and not c.get("with_head")
    head = table if shared else w.matrix("lm_head.weight", c["vocab_size"], width)
    return linear(h, head) / c.get("logits_scaling", 1.0)


def olmo2(c, w, tokens):
    """Norms after attention and perceptron and none before; those of query and key over all heads at once."""
    width, heads, kv, dim, eps = (
        c["hidden_size"], c["num_attention_heads"], c["num_key_value_heads"], head_dim_of(c), c["rms_norm_eps"])  # fmt: skip
    inv_freq, multiplier = frequencies(c, dim, len(tokens))
    h = w.table("model.embed_tokens.weight", c["vocab_size"], width)[tokens]
    for i in range(c["num_hidden_layers"]):
        at = f"model.layers.{i}"
        s = f"{at}.self_attn"
        q = linear(h, w.matrix(f"{s}.q_proj.weight", heads * dim, width, 1.5))
        k = linear(h, w.matrix(f"{s}.k_proj.weight", kv * dim, width))
        v = split_heads(linear(h, w.matrix(f"{s}.v_proj.weight", kv * dim, width)), kv)
        q = split_heads(rms_norm(q, w.gain(f"{s}.q_norm.weight", heads * dim), eps), heads)
        k = split_heads(rms_norm(k, w.gain(f"{s}.k_norm.weight", kv * dim), eps), kv)
        q, k = turn_halves(q, inv_freq, multiplier), turn_halves(k, inv_freq, multiplier)
        a = linear(attend(q, k, v, dim**-0.5), w.matrix(f"{s}.o_proj.weight", width, heads * dim))
        h = h + rms_norm(a, w.gain(f"{at}.post_attention_layernorm.weight", width), eps)
        m = gated(c, w, f"{at}.mlp", h, ACTIVATIONS[c["hidden_act"]])
        h = h + rms_norm(m, w.gain(f"{at}.post_feedforward_layernorm.weight", width), eps)
    h = rms_norm(h, w.gain("model.norm.weight", width), eps)
    return linear(h, w.matrix("lm_head.weight", c["vocab_size"], width))


def norm_with_bias(w, name, x, eps):
    return layer_norm(x, w.gain(f"{name}.weight", x.shape[-1]), w.bias(f"{name}.bias", x.shape[-1]), eps)


def affine(w, name, x, out, bias=True, strength=1.0):
    m = w.matrix(f"{name}.weight", out, x.shape[-1], strength)
    return linear(x, m, w.bias(f"{name}.bias", out) if bias else None)


def stablelm(c, w, tokens):
    width, heads, kv, dim = c["hidden_size"], c["num_attention_heads"], c["num_key_value_heads"], head_dim_of(c)
    eps, hidden, bias = c["layer_norm_eps"], c["intermediate_size"], c["use_qkv_bias"]
    inv_freq, multiplier = frequencies(c, int(dim * c["partial_rotary_factor"]), len(tokens))
    h = w.table("model.embed_tokens.weight", c["vocab_size"], width)[tokens]
    for i in range(c["num_hidden_layers"]):
        at = f"model.layers.{i}"
        x = norm_with_bias(w, f"{at}.input_layernorm", h, eps)
        q, k, v = separate_qkv(c, w, f"{at}.self_attn", x, bias)
        q, k = turn_halves(q, inv_freq, multiplier), turn_halves(k, inv_freq, multiplier)
        a = affine(w, f"{at}.self_attn.o_proj", attend(q, k, v, dim**-0.5), width, False)
        if c.get("use_parallel_residual"):
            h = h + a + gated(c, w, f"{at}.mlp", x, ACTIVATIONS[c["hidden_act"]])
        else:
            h = h + a
            x = norm_with_bias(w, f"{at}.post_attention_layernorm", h, eps)
            h = h + gated(c, w, f"{at}.mlp", x, ACTIVATIONS[c["hidden_act"]])
    return affine(w, "lm_head", norm_with_bias(w, "model.norm", h, eps), c["vocab_size"], False)


def starcoder2(c, w, tokens):
    width, dim, eps, bias = c["hidden_size"], head_dim_of(c), c["norm_epsilon"], c["use_bias"]
    inv_freq, multiplier = frequencies(c, dim, len(tokens))
    table = w.table("model.embed_tokens.weight", c["vocab_size"], width)
    h = table[tokens]
    for i in range(c["num_hidden_layers"]):
        at = f"model.layers.{i}"
        x = norm_with_bias(w, f"{at}.input_layernorm", h, eps)
        q, k, v = separate_qkv(c, w, f"{at}.self_attn", x, bias)
        q, k = turn_halves(q, inv_freq, multiplier), turn_halves(k, inv_freq, multiplier)
        a = attend(q, k, v, dim**-0.5, layer_window(c, i))
        h = h + affine(w, f"{at}.self_attn.o_proj", a, width, bias)
        x = norm_with_bias(w, f"{at}.post_attention_layernorm", h, eps)
        x = ACTIVATIONS[c["hidden_act"]](affine(w, f"{at}.mlp.c_fc", x, c["intermediate_size"], bias))
        h = h + affine(w, f"{at}.mlp.c_proj", x, width, bias)
    return linear(norm_with_bias(w, "model.norm", h, eps), table)


def cohere(c, w, tokens):
    """Attention and perceptron read one norm, which has no bias, and are added together; neighbouring channels turn."""
    width, dim, eps, act = c["hidden_size"], head_dim_of(c), c["layer_norm_eps"], ACTIVATIONS[c["hidden_act"]]
    inv_freq, _ = frequencies(c, dim, len(tokens))
    table = w.table("model.embed_tokens.weight", c["vocab_size"], width)
    h = table[tokens]
    for i in range(c["num_hidden_layers"]):
        at = f"model.layers.{i}"
        x = layer_norm(h, w.gain(f"{at}.input_layernorm.weight", width), None, eps)
        q, k, v = separate_qkv(c, w, f"{at}.self_attn", x, c.get("attention_bias"))
        a = attend(turn_neighbours(q, inv_freq), turn_neighbours(k, inv_freq), v, dim**-0.5)
        a = affine(w, f"{at}.self_attn.o_proj", a, width, c.get("attention_bias"))
        h = h + a + gated(c, w, f"{at}.mlp", x, act)
    h = layer_norm(h, w.gain("model.norm.weight", width), None, eps)
    return linear(h, table) * c.get("logit_scale", 0.0625)


def phi(c, w, tokens):
    """Attention and perceptron read one norm and are added together."""
    width, dim, eps = c["hidden_size"], head_dim_of(c), c["layer_norm_eps"]
    inv_freq, multiplier = frequencies(c, int(dim * c["partial_rotary_factor"]), len(tokens))
    h = w.table("model.embed_tokens.weight", c["vocab_size"], width)[tokens]
    for i in range(c["num_hidden_layers"]):
        at = f"model.layers.{i}"
        x = norm_with_bias(w, f"{at}.input_layernorm", h, eps)
        q, k, v = separate_qkv(c, w, f"{at}.self_attn", x, True)
        q, k = turn_halves(q, inv_freq, multiplier), turn_halves(k, inv_freq, multiplier)
        a = affine(w, f"{at}.self_attn.dense", attend(q, k, v, dim**-0.5), width)
        m = ACTIVATIONS[c["hidden_act"]](affine(w, f"{at}.mlp.fc1", x, c["intermediate_size"]))
        h = a + affine(w, f"{at}.mlp.fc2", m, width) + h
    return affine(w, "lm_head", norm_with_bias(w, "model.final_layernorm", h, eps), c["vocab_size"])


def phi3(c, w, tokens):
    width, heads, kv, dim = c["hidden_size"], c["num_attention_heads"], c["num_key_value_heads"], head_dim_of(c)
    eps, hidden = c["rms_norm_eps"], c["intermediate_size"]
    inv_freq, multiplier = frequencies(c, int(dim * c.get("partial_rotary_factor", 1.0)), len(tokens))
    table = w.table("model.embed_tokens.weight", c["vocab_size"], width)
    h = table[tokens]
    for i in range(c["num_hidden_layers"]):
        at = f"model.layers.{i}"
        x = rms_norm(h, w.gain(f"{at}.input_layernorm.weight", width), eps)
        fused = affine(w, f"{at}.self_attn.qkv_proj", x, (heads + 2 * kv) * dim, False, 1.3)
        q = split_heads(fused[:, : heads * dim], heads)
        k = split_heads(fused[:, heads * dim : (heads + kv) * dim], kv)
        v = split_heads(fused[:, (heads + kv) * dim :], kv)
        q, k = turn_halves(q, inv_freq, multiplier), turn_halves(k, inv_freq, multiplier)
        a = attend(q, k, v, dim**-0.5, layer_window(c, i))
        h = h + affine(w, f"{at}.self_attn.o_proj", a, width, False)
        x = rms_norm(h, w.gain(f"{at}.post_attention_layernorm.weight", width), eps)
        both = affine(w, f"{at}.mlp.gate_up_proj", x, 2 * hidden, False)
        m = both[:, hidden:] * ACTIVATIONS[c["hidden_act"]](both[:, :hidden])
        h = h + affine(w, f"{at}.mlp.down_proj", m, width, False)
    h = rms_norm(h, w.gain("model.norm.weight", width), eps)
    return linear(h, table) if c.get("tie_word_embeddings") else affine(w, "lm_head", h, c["vocab_size"], False)


def gpt_neox(c, w, tokens):
    width, heads, eps = c["hidden_size"], c["num_attention_heads"], c["layer_norm_eps"]
    dim, n = width // heads, len(tokens)
    inv_freq, multiplier = frequencies(
        {"rope_theta": c["rotary_emb_base"], **c}, int(dim * c["rotary_pct"]), n, base=c["rotary_emb_base"])  # fmt: skip
    h = w.table("gpt_neox.embed_in.weight", c["vocab_size"], width)[tokens]
    for i in range(c["num_hidden_layers"]):
        at = f"gpt_neox.layers.{i}"
        if c.get("with_unused"):
            w.unused(f"{at}.attention.bias", (1, 1, 32, 32))
            w.unused(f"{at}.attention.masked_bias", ())
            w.unused(f"{at}.attention.rotary_emb.inv_freq", (len(inv_freq),))
        fused = affine(w, f"{at}.attention.query_key_value", norm_with_bias(w, f"{at}.input_layernorm", h, eps), 3 * width,
                       c.get("attention_bias", True), 1.3)  # fmt: skip
        q, k, v = np.split(fused.reshape(n, heads, 3 * dim).transpose(1, 0, 2), 3, axis=-1)
        q, k = turn_halves(q, inv_freq, multiplier), turn_halves(k, inv_freq, multiplier)
        a = affine(w, f"{at}.attention.dense", attend(q, k, v, dim**-0.5), width, c.get("attention_bias", True))
        beside = h if c["use_parallel_residual"] else h + a
        x = norm_with_bias(w, f"{at}.post_attention_layernorm", beside, eps)
        m = ACTIVATIONS[c["hidden_act"]](affine(w, f"{at}.mlp.dense_h_to_4h", x, c["intermediate_size"]))
        h = h + a + affine(w, f"{at}.mlp.dense_4h_to_h", m, width)
    h = norm_with_bias(w, "gpt_neox.final_layer_norm", h, eps)
    return affine(w, "embed_out", h, c["vocab_size"], False)


def gpt2(c, w, tokens):
    width, heads, eps, n = c["n_embd"], c["n_head"], c["layer_norm_epsilon"], len(tokens)
    dim, hidden = width // heads, c.get("n_inner") or 4 * width
    p = "" if c.get("without_prefix") else "transformer."
    table = w.table(f"{p}wte.weight", c["vocab_size"], width)
    h = table[tokens] + w.table(f"{p}wpe.weight", c["n_positions"], width)[:n]

    def conv1d(name, x, out):
        return x @ w.matrix_in_out(f"{name}.weight", x.shape[-1], out) + w.bias(f"{name}.bias", out)

    for i in range(c["n_layer"]):
        at = f"{p}h.{i}"
        if c.get("with_unused"):
            w.unused(f"{at}.attn.bias", (1, 1, 32, 32))
        fused = conv1d(f"{at}.attn.c_attn", norm_with_bias(w, f"{at}.ln_1", h, eps), 3 * width)
        q, k, v = (split_heads(part, heads) for part in np.split(fused, 3, axis=1))
        scale = dim**-0.5 if c.get("scale_attn_weights", True) else 1.0
        if c.get("scale_attn_by_inverse_layer_idx"):
            scale /= i + 1
        h = h + conv1d(f"{at}.attn.c_proj", attend(q, k, v, scale), width)
        x = norm_with_bias(w, f"{at}.ln_2", h, eps)
        h = h + conv1d(f"{at}.mlp.c_proj", ACTIVATIONS[c["activation_function"]](conv1d(f"{at}.mlp.c_fc", x, hidden)), width)
    h = norm_with_bias(w, f"{p}ln_f", h, eps)
    return linear(h, w.matrix("lm_head.weight", c["vocab_size"], width) if c.get("with_head") else table)


def gptj(c, w, tokens):
    width, heads, eps = c["n_embd"], c["n_head"], c["layer_norm_epsilon"]
    dim, hidden = width // heads, c.get("n_inner") or 4 * width
    turned = c["rotary_dim"] or dim
    inv_freq = 1.0 / 10000.0 ** (np.arange(0, turned, 2) / turned)
    h = w.table("transformer.wte.weight", c["vocab_size"], width)[tokens]
    for i in range(c["n_layer"]):
        at = f"transformer.h.{i}"
        x = norm_with_bias(w, f"{at}.ln_1", h, eps)
        q, k, v = (split_heads(affine(w, f"{at}.attn.{l}_proj", x, width, False, 1.3), heads) for l in "qkv")
        q, k = turn_neighbours(q, inv_freq), turn_neighbours(k, inv_freq)
        a = affine(w, f"{at}.attn.out_proj", attend(q, k, v, 1 / math.sqrt(dim)), width, False)
        m = ACTIVATIONS[c["activation_function"]](affine(w, f"{at}.mlp.fc_in", x, hidden))
        h = a + affine(w, f"{at}.mlp.fc_out", m, width) + h
    return affine(w, "lm_head", norm_with_bias(w, "transformer.ln_f", h, eps), c["vocab_size"])


def bloom(c, w, tokens):
    width, heads, eps, n = c["hidden_size"], c["n_head"], c["layer_norm_epsilon"], len(tokens)
    p, dim = "" if c.get("without_prefix") else "transformer.", width // heads
    below = 2 ** math.floor(math.log2(heads))
    slopes = [2.0 ** (-8.0 * (i + 1) / below) for i in range(below)]
    slopes += [2.0 ** (-4.0 * (2 * i + 1) / below) for i in range(heads - below)]
    bias = np.array(slopes)[:, None] * np.arange(n)
    table = w.table(f"{p}word_embeddings.weight", c["vocab_size"], width)
    h = norm_with_bias(w, f"{p}word_embeddings_layernorm", table[tokens], eps)
    for i in range(c["n_layer"]):
        at = f"{p}h.{i}"
        x = norm_with_bias(w, f"{at}.input_layernorm", h, eps)
        over = x if c.get("apply_residual_connection_post_layernorm") else h
        fused = affine(w, f"{at}.self_attention.query_key_value", x, 3 * width, True, 1.3).reshape(n, heads, 3, dim)
        q, k, v = (fused[:, :, j].transpose(1, 0, 2) for j in range(3))
        h = over + affine(w, f"{at}.self_attention.dense", attend(q, k, v, dim**-0.5, bias=bias), width)
        x = norm_with_bias(w, f"{at}.post_attention_layernorm", h, eps)
        over = x if c.get("apply_residual_connection_post_layernorm") else h
        m = gelu_tanh(affine(w, f"{at}.mlp.dense_h_to_4h", x, 4 * width))
        h = over + affine(w, f"{at}.mlp.dense_4h_to_h", m, width)
    return linear(norm_with_bias(w, f"{p}ln_f", h, eps), table)


def mpt(c, w, tokens):
    """Slopes are those of a bias_max of 8, whatever attn_config has; norms have no bias."""
    width, heads, eps, n = c["d_model"], c["n_heads"], c["layer_norm_epsilon"], len(tokens)
    attn, dim = c["attn_config"], width // heads
    above = 2 ** math.ceil(math.log2(heads))
    slopes = [2.0 ** (-8.0 * (i + 1) / above) for i in range(above)]
    if above != heads:
        slopes = (slopes[1::2] + slopes[::2])[:heads]
    bias = np.array(slopes)[:, None] * np.arange(1 - n, 1)
    scale = attn.get("softmax_scale") or 1 / math.sqrt(dim)
    table = w.table("transformer.wte.weight", c["vocab_size"], width)
    h = table[tokens]
    for i in range(c["n_layers"]):
        at = f"transformer.blocks.{i}"
        x = layer_norm(h, w.gain(f"{at}.norm_1.weight", width), None, eps)
        fused = affine(w, f"{at}.attn.Wqkv", x, 3 * width, False, 1.3)
        if attn.get("clip_qkv"):
            fused = np.clip(fused, -attn["clip_qkv"], attn["clip_qkv"])
        q, k, v = (split_heads(part, heads) for part in np.split(fused, 3, axis=1))
        h = h + affine(w, f"{at}.attn.out_proj", attend(q, k, v, scale, bias=bias), width, False)
        x = layer_norm(h, w.gain(f"{at}.norm_2.weight", width), None, eps)
        m = gelu_exact(affine(w, f"{at}.ffn.up_proj", x, 4 * width, False))
        h = h + affine(w, f"{at}.ffn.down_proj", m, width, False)
    return linear(layer_norm(h, w.gain("transformer.norm_f.weight", width), None, eps), table)


def gemma(c, w, tokens):
    """All four: stored gains are what is added to 1, embeddings are multiplied by the root of the width."""
    kind, width, dim, eps = c["model_type"], c["hidden_size"], c["head_dim"], c["rms_norm_eps"]
    act = ACTIVATIONS[c["hidden_act"] if kind == "gemma" else c["hidden_activation"]]
    scale = (dim if kind == "gemma" else c["query_pre_attn_scalar"]) ** -0.5
    n, by_type = len(tokens), c.get("rope_parameters") or {}
    if "full_attention" in by_type:
        everywhere, local = ({"max_position_embeddings": None, "rope_parameters": by_type[t]} for t in (
            "full_attention", "sliding_attention"))  # fmt: skip
        everywhere, local = frequencies(everywhere, dim, n), frequencies(local, dim, n)
    else:
        everywhere = frequencies(c, dim, n)
        local = frequencies(c, dim, n, c["rope_local_base_freq"], {}) if kind == "gemma3_text" else everywhere
    table = w.table("model.embed_tokens.weight", c["vocab_size"], width, 0.2)
    h = table[tokens] * math.sqrt(width)

    def norm(name, x):
        return rms_norm(x, 1.0 + w.gain_around_zero(f"{name}.weight", x.shape[-1]), eps)

    for i in range(c["num_hidden_layers"]):
        at = f"model.layers.{i}"
        q, k, v = separate_qkv(c, w, f"{at}.self_attn", norm(f"{at}.input_layernorm", h), False)
        if kind == "gemma3_text":
            q, k = norm(f"{at}.self_attn.q_norm", q), norm(f"{at}.self_attn.k_norm", k)
        window = layer_window(c, i)
        turns = local if window else everywhere
        q, k = turn_halves(q, *turns), turn_halves(k, *turns)
        a = attend(q, k, v, scale, window, cap=c.get("attn_logit_softcapping"))
        a = affine(w, f"{at}.self_attn.o_proj", a, width, False)
        h = h + (a if kind == "gemma" else norm(f"{at}.post_attention_layernorm", a))
        x = norm(f"{at}.post_attention_layernorm" if kind == "gemma" else f"{at}.pre_feedforward_layernorm", h)
        m = gated(c, w, f"{at}.mlp", x, act)
        h = h + (m if kind == "gemma" else norm(f"{at}.post_feedforward_layernorm", m))
    logits = linear(norm("model.norm", h), table)
    cap = c.get("final_logit_softcapping")
    return np.tanh(logits / cap) * cap if cap else logits


def logits_of(c, weights, tokens):
    kind = c["model_type"]
    if kind in NEWER:
        return NEWER[kind]({**NEWER_DEFAULTS[kind], **c}, weights, tokens)
    return CLASSES[kind]({**DEFAULTS[kind], **c}, weights, tokens)


CLASSES = {
    "llama": llama, "mistral": llama, "qwen2": llama, "qwen3": llama, "smollm3": llama, "granite": llama, "olmo2": olmo2,
    "stablelm": stablelm, "starcoder2": starcoder2, "phi": phi, "phi3": phi3, "cohere": cohere, "gpt_neox": gpt_neox, "gpt2": gpt2,
    "gptj": gptj, "bloom": bloom, "mpt": mpt, "gemma": gemma, "gemma2": gemma, "gemma3_text": gemma,
}  # fmt: skip
