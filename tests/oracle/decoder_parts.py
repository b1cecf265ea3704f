"""The pieces that decoders are made of, in float64 and without tricks: norms, activations, frequencies, attention."""
import math

import numpy as np


def rms_norm(x, gain, eps):
    return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + eps) * gain


def layer_norm(x, gain, bias, eps):
    centered = x - np.mean(x, axis=-1, keepdims=True)
    y = centered / np.sqrt(np.mean(centered * centered, axis=-1, keepdims=True) + eps) * gain
    return y if bias is None else y + bias


def linear(x, w, bias=None):
    y = x @ w.T
    return y if bias is None else y + bias


def silu(x):
    return x / (1.0 + np.exp(-x))


def gelu_exact(x):
    return 0.5 * x * (1.0 + np.vectorize(math.erf)(x / math.sqrt(2.0)))


def gelu_tanh(x):
    return 0.5 * x * (1.0 + np.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * x**3)))


ACTIVATIONS = {
    "silu": silu,
    "gelu": gelu_exact,
    "gelu_new": gelu_tanh,
    "gelu_pytorch_tanh": gelu_tanh,
    "relu": lambda x: np.maximum(x, 0.0),
}

# -- rotations ---------------------------------------------------------------------------------------------------------


def plain_frequencies(base, dim):
    return 1.0 / base ** (np.arange(0, dim, 2) / dim)


def yarn(p, base, dim, longest):
    """transformers' _compute_yarn_parameters."""
    factor, original = p["factor"], p.get("original_max_position_embeddings") or longest

    def mscale_of(scale, m=1.0):
        return 1.0 if scale <= 1 else 0.1 * m * math.log(scale) + 1.0

    attention = p.get("attention_factor")
    if attention is None:
        if p.get("mscale") and p.get("mscale_all_dim"):
            attention = mscale_of(factor, p["mscale"]) / mscale_of(factor, p["mscale_all_dim"])
        else:
            attention = mscale_of(factor)

    def pair_that_turns(times):
        return dim * math.log(original / (times * 2 * math.pi)) / (2 * math.log(base))

    low, high = pair_that_turns(p.get("beta_fast") or 32), pair_that_turns(p.get("beta_slow") or 1)
    if p.get("truncate", True):
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, dim - 1)
    if low == high:
        high += 0.001
    ramp = np.clip((np.arange(dim // 2) - low) / (high - low), 0.0, 1.0)
    plain = plain_frequencies(base, dim)
    return plain / factor * ramp + plain * (1.0 - ramp), attention


def llama3(p, base, dim):
    plain = plain_frequencies(base, dim)
    low, high, original = p["low_freq_factor"], p["high_freq_factor"], p["original_max_position_embeddings"]
    out = []
    for f in plain:
        wavelength = 2 * math.pi / f
        if wavelength < original / high:
            out.append(f)
        elif wavelength > original / low:
            out.append(f / p["factor"])
        else:
            smooth = (original / wavelength - low) / (high - low)
            out.append((1 - smooth) * f / p["factor"] + smooth * f)
    return np.array(out), 1.0


def longrope(p, base, dim, longest, original, length):
    lists = p["long_factor"] if length > original else p["short_factor"]
    factor = p.get("factor") or longest / original
    attention = p.get("attention_factor")
    if attention is None:
        attention = 1.0 if factor <= 1 else math.sqrt(1 + math.log(factor) / math.log(original))
    return plain_frequencies(base, dim) / np.array(lists, dtype=np.float64), attention


def frequencies(config, dim, length, base=None, scaling="from config"):
    """Of the dim channels that turn, and what cosines and sines are multiplied by."""
    p = config.get("rope_parameters") or config.get("rope_scaling") if scaling == "from config" else scaling
    p = p or {}
    base = base or p.get("rope_theta") or config.get("rope_theta", 10000.0)
    kind = p.get("rope_type") or p.get("type") or "default"
    longest = config.get("max_position_embeddings")
    if kind == "default":
        return plain_frequencies(base, dim), 1.0
    if kind == "linear":
        return plain_frequencies(base, dim) / p["factor"], 1.0
    if kind == "dynamic":
        grown = p["factor"] * max(length, longest) / longest - (p["factor"] - 1)
        return plain_frequencies(base * grown ** (dim / (dim - 2)), dim), 1.0
    if kind == "yarn":
        return yarn(p, base, dim, longest)
    if kind == "llama3":
        return llama3(p, base, dim)
    if kind == "longrope":
        original = p.get("original_max_position_embeddings") or config["original_max_position_embeddings"]
        return longrope(p, base, dim, longest, original, length)
    raise ValueError(kind)


def turn_halves(x, inv_freq, multiplier):
    """x: [heads, tokens, head_dim]; channel i of the first 2 len(inv_freq) is paired with i + len(inv_freq)."""
    half = len(inv_freq)
    angles = np.arange(x.shape[1])[:, None] * inv_freq
    c, s = multiplier * np.cos(angles), multiplier * np.sin(angles)
    a, b, rest = x[..., :half], x[..., half : 2 * half], x[..., 2 * half :]
    return np.concatenate([a * c - b * s, b * c + a * s, rest], axis=-1)


def turn_neighbours(x, inv_freq):
    """The same with pairs 2i, 2i + 1."""
    dim = 2 * len(inv_freq)
    angles = np.arange(x.shape[1])[:, None] * inv_freq
    c, s = np.cos(angles), np.sin(angles)
    y = np.array(x)
    y[..., 0:dim:2] = x[..., 0:dim:2] * c - x[..., 1:dim:2] * s
    y[..., 1:dim:2] = x[..., 1:dim:2] * c + x[..., 0:dim:2] * s
    return y


# -- attention ---------------------------------------------------------------------------------------------------------


def split_heads(x, heads):
    """[tokens, heads head_dim] to [heads, tokens, head_dim]."""
    return x.reshape(x.shape[0], heads, -1).transpose(1, 0, 2)


def join_heads(x):
    return x.transpose(1, 0, 2).reshape(x.shape[1], -1)


def attend(q, k, v, scale, window=None, bias=None, cap=None, chunk=None, sinks=None):
    """q: [heads, tokens, head_dim]; k and v with as many heads or fewer.  A query sees itself and what was before it, of
    that the last `window`, or those of the `chunk` that it is in.  bias: [heads, tokens of keys], added to the scaled scores.  sinks:
    [heads], a logit more in each softmax."""
    group = q.shape[0] // k.shape[0]
    k, v = np.repeat(k, group, axis=0), np.repeat(v, group, axis=0)
    scores = q @ k.transpose(0, 2, 1) * scale
    if cap:
        scores = np.tanh(scores / cap) * cap
    if bias is not None:
        scores = scores + bias[:, None, :]
    n = q.shape[1]
    query, key = np.arange(n)[:, None], np.arange(n)[None, :]
    seen = key <= query
    if window:
        seen &= key > query - window
    if chunk:
        seen &= key // chunk == query // chunk
    scores = np.where(seen, scores, -np.inf)
    largest = scores.max(axis=-1, keepdims=True)
    if sinks is not None:
        largest = np.maximum(largest, sinks[:, None, None])
    weights = np.exp(scores - largest)
    rest = 0.0 if sinks is None else np.exp(sinks[:, None, None] - largest)
    weights /= weights.sum(axis=-1, keepdims=True) + rest
    return join_heads(weights @ v)
