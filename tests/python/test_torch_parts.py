"""Parts of layers that make queries and keys: models that Gyre reads, against a decoder in torch, in double, whose heads follow
the papers: RoPE++ by complex numbers, HARoPE by torch.matrix_exp, RePo by a network, CARoPE and Selective RoPE by running sums."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path

import gyre
import numpy as np
import pytest
import torch
from torch.nn.functional import conv1d, pad, rms_norm, silu, softplus

VOCAB, WIDTH, LAYERS, HEADS, KEYS, DIM, HIDDEN, TOKENS = 29, 24, 3, 4, 2, 6, 20, 17
THETA = 10000.0 ** (-torch.arange(DIM // 2, dtype=torch.float64) / (DIM // 2))
Weights = dict[str, torch.Tensor]
# Queries and keys [head, token, channel] of attention, from those of the projections and what these read.
Part = Callable[[Weights, int, torch.Tensor, torch.Tensor, torch.Tensor], tuple[torch.Tensor, torch.Tensor]]


def turned(x: torch.Tensor, angles: torch.Tensor) -> torch.Tensor:
    """Pairs in halves, by angles [head or 1, token, pair]."""
    a, b = x.chunk(2, -1)
    return torch.cat((a * angles.cos() - b * angles.sin(), a * angles.sin() + b * angles.cos()), -1)


def rotated(x: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
    """By positions [head or 1, token]."""
    return turned(x, positions[..., None] * THETA)


def by_sums(q: torch.Tensor, k: torch.Tensor, steps: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """By the running sums of steps [key head, token, pair]."""
    angles = steps.cumsum(1)
    return turned(q, angles.repeat_interleave(HEADS // KEYS, 0)), turned(k, angles)


def by_number(q: torch.Tensor, k: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    at = torch.arange(q.shape[1], dtype=torch.float64)[None]
    return rotated(q, at), rotated(k, at)


def matrices(w: Weights, layer: int, x: torch.Tensor, q: torch.Tensor, k: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """HARoPE: M q and the inverse of M, transposed, times k."""
    of = f"model.layers.{layer}.self_attn.head_matrices."
    left, right = (w[f"{of}{side}.weight"].view(KEYS, DIM, DIM) for side in ("left", "right"))
    u, v = (torch.matrix_exp((a - a.mT) / 2) for a in (left, right))
    matrix = u @ torch.diag_embed(softplus(w[f"{of}scales.weight"]) + 1e-6) @ v.mT
    both = (matrix.repeat_interleave(HEADS // KEYS, 0), torch.linalg.inv(matrix).mT)
    return by_number(q @ both[0].mT, k @ both[1].mT)


def imaginary(w: Weights, layer: int, x: torch.Tensor, q: torch.Tensor, k: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """RoPE++: each query, and -1j times it."""
    turned = -1j * torch.complex(*q.chunk(2, -1))
    return by_number(torch.stack((q, torch.cat((turned.real, turned.imag), -1)), 1).flatten(0, 1), k)


def positions(w: Weights, layer: int, x: torch.Tensor, q: torch.Tensor, k: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """RePo: positions of a gated network, from layer ceil(5 / 16 of all) on."""
    if layer < math.ceil(5 * LAYERS / 16):
        return by_number(q, k)
    gate, content, final = (w[f"model.layers.{layer}.self_attn.{name}_map.weight"] for name in ("gate", "content", "final"))
    z = ((silu(x @ gate.T) * (x @ content.T)) @ final.T).T
    return rotated(q, z.repeat_interleave(HEADS // KEYS, 0)), rotated(k, z)


def frequencies(w: Weights, layer: int, x: torch.Tensor, q: torch.Tensor, k: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """CARoPE: the equations of section 2."""
    f = 1 / (softplus(x @ w[f"model.layers.{layer}.self_attn.token_frequencies.weight"].T) + 1)
    return by_sums(q, k, f.T[..., None] ** torch.arange(DIM // 2))


def selective(w: Weights, layer: int, x: torch.Tensor, q: torch.Tensor, k: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Selective RoPE: figure 9, for softmax attention."""

    def of(name: str) -> torch.Tensor:
        return w[f"model.layers.{layer}.self_attn.selective.{name}.weight"]

    def unit(x: torch.Tensor) -> torch.Tensor:
        return x * (x.square().sum(-1, keepdim=True) + 1e-6).rsqrt()

    shared = unit(q).view(KEYS, HEADS // KEYS, -1, DIM).transpose(1, 2).flatten(2)
    made = (shared @ of("angles").view(KEYS, DIM // 2, -1).mT).mT.flatten(0, 1)
    kernel = of("taps").flip(-1)[:, None]  # a convolution of torch has the token itself last
    mixed = conv1d(pad(made, (3, 0)), kernel, groups=len(made)).view(KEYS, DIM // 2, -1).mT
    gate = (unit(x) @ of("gate").T + of("bias")[:, 0]).sigmoid()
    return by_sums(q, k, gate.T[..., None] * mixed * THETA)


PARTS: dict[str, tuple[Part, dict[str, tuple[int, int]]]] = {
    "head_matrices": (
        matrices,
        {f"head_matrices.{side}": (KEYS * DIM, DIM) for side in ("left", "right")} | {"head_matrices.scales": (KEYS, DIM)},
    ),
    "imaginary": (imaginary, {}),
    "repositioned": (
        positions,
        {"gate_map": (WIDTH // 8, WIDTH), "content_map": (WIDTH // 8, WIDTH), "final_map": (KEYS, WIDTH // 8)},
    ),
    "token_frequencies": (frequencies, {"token_frequencies": (KEYS, WIDTH)}),
    "selective_rotation": (
        selective,
        {
            "selective.angles": (KEYS * DIM // 2, HEADS // KEYS * DIM),
            "selective.taps": (KEYS * DIM // 2, 4),
            "selective.gate": (KEYS, WIDTH),
            "selective.bias": (KEYS, 1),
        },
    ),
}


def make_weights(part: str) -> Weights:
    queries = HEADS // 2 if part == "imaginary" else HEADS
    shapes: dict[str, tuple[int, ...]] = {"model.embed_tokens": (VOCAB, WIDTH), "model.norm": (WIDTH,)}
    for layer in range(LAYERS):
        of = f"model.layers.{layer}."
        shapes |= {of + name: (WIDTH,) for name in ("input_layernorm", "post_attention_layernorm")}
        shapes |= {of + f"self_attn.{name}_proj": (n * DIM, WIDTH) for name, n in (("q", queries), ("k", KEYS), ("v", KEYS))}
        shapes |= {of + "self_attn.o_proj": (WIDTH, HEADS * DIM), of + "mlp.down_proj": (WIDTH, HIDDEN)}
        shapes |= {of + f"mlp.{name}_proj": (HIDDEN, WIDTH) for name in ("gate", "up")}
        if part != "repositioned" or layer > 0:
            shapes |= {f"{of}self_attn.{name}": shape for name, shape in PARTS[part][1].items()}
    return {f"{name}.weight": torch.randn(shape) * (0.5 if len(shape) > 1 else 1) for name, shape in shapes.items()}


def write(folder: Path, part: str, weights: Weights) -> None:
    config = {
        "model_type": "gyre",
        "vocab_size": VOCAB,
        "hidden_size": WIDTH,
        "intermediate_size": HIDDEN,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "num_key_value_heads": KEYS,
        "head_dim": DIM,
        "rms_norm_eps": 1e-5,
        "tie_word_embeddings": True,
        "position_embedding_type": "rope",
        "max_position_embeddings": 64,
        part: True,
    }
    (folder / "config.json").write_text(json.dumps(config))
    header, data = {}, b""
    for name, x in weights.items():
        raw = x.numpy().tobytes()
        header[name] = {"dtype": "F32", "shape": list(x.shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    (folder / "model.safetensors").write_bytes(len(text).to_bytes(8, "little") + text + data)


def logits(part: str, given: Weights, ids: list[int]) -> torch.Tensor:
    w = {name: x.double() for name, x in given.items()}
    x = w["model.embed_tokens.weight"][ids]
    hidden = torch.ones(len(ids), len(ids), dtype=torch.bool).triu(1)
    for layer in range(LAYERS):

        def of(name: str, layer: int = layer) -> torch.Tensor:
            return w[f"model.layers.{layer}.{name}.weight"]

        y = rms_norm(x, (WIDTH,), of("input_layernorm"), 1e-5)
        q, k, v = ((y @ of(f"self_attn.{n}_proj").T).view(len(ids), -1, DIM).transpose(0, 1) for n in "qkv")
        q, k = PARTS[part][0](w, layer, y, q, k)
        k, v = (side.repeat_interleave(HEADS // KEYS, 0) for side in (k, v))
        scores = (q @ k.mT / math.sqrt(DIM)).masked_fill(hidden, -math.inf).softmax(-1)
        x = x + (scores @ v).transpose(0, 1).flatten(1) @ of("self_attn.o_proj").T
        y = rms_norm(x, (WIDTH,), of("post_attention_layernorm"), 1e-5)
        x = x + (silu(y @ of("mlp.gate_proj").T) * (y @ of("mlp.up_proj").T)) @ of("mlp.down_proj").T
    return rms_norm(x, (WIDTH,), w["model.norm.weight"], 1e-5) @ w["model.embed_tokens.weight"].T


@pytest.mark.parametrize("part", sorted(PARTS))
def test_models_are_those_of_the_papers(part: str, tmp_path: Path) -> None:
    torch.manual_seed(3)
    weights = make_weights(part)
    write(tmp_path, part, weights)
    ids = torch.randint(VOCAB, (TOKENS,)).tolist()
    wanted = logits(part, weights, ids).numpy()
    context = gyre.open(tmp_path).context(TOKENS)
    found = np.concatenate([context.read(ids[:7]), context.read(ids[7:8]), context.read(ids[8:])])
    np.testing.assert_allclose(found, wanted, rtol=0, atol=2e-5 * np.abs(wanted).max())
    context.truncate(8)
    np.testing.assert_array_equal(context.read(ids[8:]), found[8:])
