"""Models whose tokens make the angles of queries and keys: logits against the papers' formulas in torch, in double."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path

import gyre
import gyre._command
import numpy as np
import pytest
import torch
from torch import Tensor

HEADS, DIM, LAYERS = 2, 16, 2
Weights = dict[str, Tensor]


def trained(folder: Path, encoding: str) -> Weights:
    """The weights of a small model after some steps, which move every tensor."""
    text = folder / "text"
    text.write_text("it was the best of times, it was the worst of times, " * 40)
    sizes = ["--width", "32", "--heads", str(HEADS), "--layers", str(LAYERS), "--context", "32", "--batch", "2", "--tokens", "2560"]
    gyre._command.run(["train", "--encoding", encoding, "--text", str(text), *sizes, "--warmup", "5", "--mix", "0", "-o", str(folder / "model")])
    data = (folder / "model" / "model.safetensors").read_bytes()
    header = int.from_bytes(data[:8], "little")
    tensors = json.loads(data[8 : 8 + header])
    tensors.pop("__metadata__", None)
    out = {}
    for name, one in tensors.items():
        first, last = one["data_offsets"]
        assert one["dtype"] == "F32"
        numbers = np.frombuffer(data[8 + header + first : 8 + header + last], "<f4").reshape(one["shape"])
        out[name] = torch.from_numpy(numbers.astype("f8"))
    return out


def carope(w: Weights, layer: str, x: Tensor, q: Tensor) -> Tensor:
    """The equations of Veisi 2025, section 2: [heads, tokens, pairs]."""
    f = 1 / (torch.nn.functional.softplus(x @ w[layer + "self_attn.token_frequencies.weight"].T) + 1)
    return (f.T[..., None] ** torch.arange(DIM // 2)).cumsum(1)


def selective(w: Weights, layer: str, x: Tensor, q: Tensor) -> Tensor:
    """Figure 9 of Movahedi 2025, for softmax attention: q [tokens, heads, DIM]."""
    names = {key: w[f"{layer}self_attn.selective.{key}.weight"] for key in ("angles", "taps", "gate", "bias")}
    unit = q * (q.square().sum(-1, keepdim=True) + 1e-6).rsqrt()
    phi = torch.einsum("thd,hpd->hpt", unit, names["angles"].view(HEADS, DIM // 2, DIM)).flatten(0, 1)
    kernel = names["taps"].flip(-1)[:, None]  # a convolution of torch has the token itself last
    phi = torch.nn.functional.conv1d(torch.nn.functional.pad(phi, (3, 0))[None], kernel, groups=phi.shape[0])[0]
    gate = (x * (x.square().sum(-1, keepdim=True) + 1e-6).rsqrt() @ names["gate"].T + names["bias"][:, 0]).sigmoid()
    phi = phi.view(HEADS, DIM // 2, -1).transpose(1, 2) * gate.T[..., None]
    return 10000.0 ** (-2 * torch.arange(DIM // 2, dtype=torch.float64) / DIM) * phi.cumsum(1)


def logits(w: Weights, ids: Tensor, angles_of: Callable[[Weights, str, Tensor, Tensor], Tensor]) -> Tensor:
    """A decoder of llama's kind whose pairs, in halves, rotate by these angles."""

    def norm(x: Tensor, name: str) -> Tensor:
        return x * (x.square().mean(-1, keepdim=True) + 1e-5).rsqrt() * w[name]

    x = w["model.embed_tokens.weight"][ids]
    for n in range(LAYERS):
        layer = f"model.layers.{n}."
        y = norm(x, layer + "input_layernorm.weight")
        q, k, v = ((y @ w[f"{layer}self_attn.{name}_proj.weight"].T).view(len(ids), HEADS, DIM) for name in "qkv")
        turn = torch.polar(torch.ones(1, dtype=torch.float64), angles_of(w, layer, y, q))
        turned = [torch.complex(*one.transpose(0, 1).chunk(2, -1)) * turn for one in (q, k)]
        scores = (turned[0] @ turned[1].conj().transpose(-1, -2)).real / math.sqrt(DIM)
        scores = scores.masked_fill(torch.ones(len(ids), len(ids), dtype=torch.bool).triu(1), -math.inf)
        mixed = (scores.softmax(-1) @ v.transpose(0, 1)).transpose(0, 1).flatten(1)
        x = x + mixed @ w[layer + "self_attn.o_proj.weight"].T
        y = norm(x, layer + "post_attention_layernorm.weight")
        gate, up = (y @ w[f"{layer}mlp.{name}_proj.weight"].T for name in ("gate", "up"))
        x = x + (torch.nn.functional.silu(gate) * up) @ w[layer + "mlp.down_proj.weight"].T
    return norm(x, "model.norm.weight") @ w["model.embed_tokens.weight"].T


@pytest.mark.parametrize(
    ("encoding", "angles_of", "part"),
    [("carope", carope, "token_frequencies"), ("selective-rope", selective, "selective.gate")],
)
def test_models_follow_the_papers(
    tmp_path: Path, encoding: str, angles_of: Callable[[Weights, str, Tensor, Tensor], Tensor], part: str
) -> None:
    w = trained(tmp_path, encoding)
    assert all(w[f"model.layers.{n}.self_attn.{part}.weight"].abs().max() > 1e-3 for n in range(LAYERS))
    text = "the worst of times, the season of light, it was the winter"
    model = gyre.open(tmp_path / "model")
    wanted = logits(w, torch.tensor(list(text.encode())), angles_of)
    np.testing.assert_allclose(model.logits(text), wanted.numpy(), rtol=0, atol=2e-5)
    without = logits(w, torch.tensor(list(text.encode())), lambda w, layer, x, q: torch.zeros(HEADS, len(x), DIM // 2).double())
    assert (wanted - without).abs().max() > 1e-2
    context, whole = model.context(64), model.context(64).read(text.encode())
    pieces = [context.read(text.encode()[a:b]) for a, b in ((0, 1), (1, 9), (9, 40))]
    np.testing.assert_array_equal(np.concatenate(pieces), whole[:40])
    context.truncate(20)
    np.testing.assert_array_equal(context.read(text.encode()[20:]), whole[20:])
