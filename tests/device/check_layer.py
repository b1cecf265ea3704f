"""gyre.torch.rotate_layer, in operations of torch and by the Triton kernel in its interpreter, against the formulas of
transformers' Qwen 3 and of vLLM's caches; and the rotation of Liger's kernel, in the same interpreter."""

from __future__ import annotations

import contextlib
import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent / "python"))

import gyre
import gyre.torch as gt
import pytest
import torch
from gyre.torch import _device, _fused
from transformers.models.qwen3.configuration_qwen3 import Qwen3Config
from transformers.models.qwen3.modeling_qwen3 import Qwen3RMSNorm, Qwen3RotaryEmbedding, apply_rotary_pos_emb

BOUNDS = {torch.float32: 2e-6, torch.float16: 2**-9, torch.bfloat16: 2**-6}
ROPES = {
    "half": gyre.rope(32),
    "interleaved": gyre.rope(32, layout="interleaved"),
    "deepseek": gyre.rope(32, layout="interleaved-to-half"),
    "partial": gyre.rope(32, dim=12, first_channel=8),
    "m-rope": gyre.rope(32, axis_pairs=(8, 4, 4)),
    "xpos": gyre.xpos(32, trained_length=4096),
}


@contextlib.contextmanager
def by_kernel(wanted: bool) -> Iterator[list[int]]:
    """On the way of a device, with a number for each launch."""
    launches: list[int] = []
    launch = _fused._launch

    def counted(*args: Any) -> Any:
        launches.append(1)
        return launch(*args)

    with pytest.MonkeyPatch.context() as patch, _device.forcing():
        patch.setattr(_fused, "_launch", counted)
        patch.setenv("GYRE_TRITON", "1" if wanted else "0")
        yield launches
    assert bool(launches) is wanted


def numbers(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def close(got: torch.Tensor, wanted: torch.Tensor, bound: float) -> None:
    assert got.shape == wanted.shape
    assert float((got.double() - wanted.double()).abs().max()) <= bound * (1 + float(wanted.abs().max()))


def definition(x: torch.Tensor, weight: torch.Tensor, encoding: gyre.Encoding, at: torch.Tensor, role: str) -> torch.Tensor:
    """In double: x / sqrt(mean(x^2) + 1e-6) weight, rotated."""
    y = x.double() * (x.double().square().mean(-1, keepdim=True) + 1e-6).rsqrt() * weight.double()
    return gt.rotate(y, encoding, at, role=role)


@pytest.mark.parametrize("kernel", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_qwen3_of_transformers(kernel: bool, dtype: torch.dtype) -> None:
    """Their modules on [batch, tokens, heads, channels], forward and backward."""
    config = Qwen3Config(head_dim=32, hidden_size=64, num_attention_heads=4, num_key_value_heads=2)
    norms = [Qwen3RMSNorm(32, eps=config.rms_norm_eps) for _ in range(2)]
    for i, norm in enumerate(norms):
        norm.weight.data = 1 + numbers(32, seed=i) / 4
    at = torch.tensor([[0, 1, 2, 77, 3]]).expand(2, 5)
    raw = [numbers(2, 5, heads, 32, seed=heads, dtype=dtype).requires_grad_() for heads in (4, 2)]
    cosine, sine = Qwen3RotaryEmbedding(config)(raw[0].float(), at)
    first, second = (norm(x.float()).transpose(1, 2) for norm, x in zip(norms, raw, strict=True))
    wanted = apply_rotary_pos_emb(first, second, cosine, sine)
    given = [numbers(2, heads, 5, 32, seed=7, dtype=dtype) for heads in (4, 2)]
    leaves = [*raw, *(norm.weight for norm in norms)]
    slopes = torch.autograd.grad(wanted, leaves, [x.float() for x in given])
    encoding = gyre.Encoding.from_config(config)
    with by_kernel(kernel):
        got = gt.rotate_layer(
            *(x.transpose(1, 2) for x in raw), encoding, at, norms=(norms[0].weight, norms[1].weight), epsilon=config.rms_norm_eps
        )
        found = torch.autograd.grad(got, leaves, given)
    for a, b in zip((*got, *found[:2]), (*wanted, *slopes[:2]), strict=True):
        assert a.dtype == dtype
        close(a, b, max(BOUNDS[dtype], 2e-5))  # their angles are products of floats
    for a, b in zip(found[2:], slopes[2:], strict=True):
        close(a, b, 1e-4 if dtype == torch.float32 else 0.02)


@pytest.mark.parametrize("kernel", [False, True])
@pytest.mark.parametrize("name", ROPES)
def test_norm_and_rotation_are_their_definition(name: str, kernel: bool) -> None:
    encoding = ROPES[name]
    at = torch.tensor([[0, 5, 1000], [7, 7, 2]])
    at = torch.stack([at, at + 1, at.flip(0)]) if name == "m-rope" else at
    q, k = (numbers(2, heads, 3, 32, seed=heads).requires_grad_() for heads in (6, 2))
    weights = [(1 + numbers(32, seed=i) / 4).requires_grad_() for i in range(2)]
    leaves, given = [q, k, *weights], [numbers(2, heads, 3, 32, seed=9) for heads in (6, 2)]
    wanted = definition(q, weights[0], encoding, at, "query"), definition(k, weights[1], encoding, at, "key")
    slopes = torch.autograd.grad(wanted, leaves, [x.double() for x in given])
    with by_kernel(kernel):
        got = gt.rotate_layer(q, k, encoding, at, norms=(weights[0], weights[1]))
        found = torch.autograd.grad(got, leaves, given)
    for a, b in zip((*got, *found), (*wanted, *slopes), strict=True):
        close(a, b, 5e-6)
    with by_kernel(kernel):
        plain = gt.rotate_layer(q, k, encoding, at)
    for a, b in zip(plain, gt.rotate_pair(q, k, encoding, at), strict=True):
        close(a, b, 2e-6)


@pytest.mark.parametrize("kernel", [False, True])
@pytest.mark.parametrize("form", ["nhd", "hnd", "strided"])
def test_pages_are_written_where_the_slots_say(kernel: bool, form: str) -> None:
    """As vLLM's reshape_and_cache: page slot // tokens, place slot % tokens; nothing for slots below 0, nothing elsewhere."""
    encoding, at = gyre.rope(32), torch.tensor([3, 4, 5, 900, 6])
    slots = torch.tensor([9, 2, -1, 0, 11], dtype=torch.int32 if form == "hnd" else torch.int64)
    q, k, v = numbers(5, 4, 32, seed=1), numbers(5, 2, 32, seed=2), numbers(5, 2, 24, seed=3)
    weights = 1 + numbers(32, seed=4) / 4, 1 + numbers(32, seed=5) / 4

    def cache(channels: int) -> torch.Tensor:
        if form == "hnd":
            return torch.full((4, 2, 3, channels), 7.0, dtype=torch.bfloat16).transpose(1, 2)
        whole = torch.full((4, 3, 2, 2 * channels), 7.0, dtype=torch.bfloat16)
        return whole[..., ::2] if form == "strided" else whole[..., :channels]

    keys, values = cache(32), cache(24)
    with by_kernel(kernel), torch.no_grad():
        got = gt.rotate_layer(q, k, encoding, at, norms=weights, pages=(keys, values), v=v, slots=slots)
    wanted = definition(k.movedim(0, 1)[None], weights[1], encoding, at[None], "key")[0].movedim(0, 1)
    close(got[1], wanted, 5e-6)
    wanted_keys, wanted_values = torch.full((12, 2, 32), 7.0), torch.full((12, 2, 24), 7.0)
    for token, slot in enumerate(slots.tolist()):
        if slot >= 0:
            wanted_keys[slot], wanted_values[slot] = wanted[token].float(), v[token]
    close(keys.reshape(12, 2, 32), wanted_keys, 2**-7)
    assert torch.equal(values.reshape(12, 2, 24)[slots[slots >= 0].long()], v[slots >= 0].bfloat16()) or kernel
    close(values.reshape(12, 2, 24), wanted_values, 2**-7)
    untouched = [slot for slot in range(12) if slot not in slots.tolist()]
    assert (keys.reshape(12, 2, 32)[untouched] == 7).all() and (values.reshape(12, 2, 24)[untouched] == 7).all()
    before = keys.clone()
    with by_kernel(kernel), torch.no_grad():
        gt.rotate_layer(q, k, encoding, at, pages=(keys, values), v=v, slots=torch.full((5,), -1))
    assert torch.equal(keys, before)


@pytest.mark.parametrize("kernel", [False, True])
def test_what_is_refused(kernel: bool) -> None:
    q, k, v = numbers(5, 4, 32), numbers(5, 2, 32), numbers(5, 2, 24)
    keys, values, slots = torch.zeros(4, 3, 2, 32), torch.zeros(4, 3, 2, 24), torch.arange(5)
    pages = {"pages": (keys, values), "v": v, "slots": slots}
    for more, text in (
        ({"norms": (torch.ones(31), torch.ones(32))}, r"norms: the weight of q has shape \[31\], not \[32\]"),
        ({"norms": (torch.ones(32), torch.ones(32).int())}, "norms: the weight of k is of type int32"),
        ({**pages, "v": None}, "v: missing"),
        ({**pages, "slots": None}, "slots: missing"),
        ({**pages, "slots": slots[:4]}, "slots: is .* not int32 or int64 for each of 5 tokens"),
        ({**pages, "pages": (keys, values[..., :23])}, "pages: those of values have shape"),
        ({**pages, "pages": (keys[:, :, :1], values)}, "pages: those of keys have shape"),
        ({**pages, "pages": (keys,)}, "pages: is a tuple of 1, not a pair of tensors, of keys and of values"),
        ({**pages, "pages": (keys[:, :0], values[:, :0])}, "pages: those of keys have shape .*: no token has a slot"),
        ({**pages, "pages": (keys.int(), values)}, "pages: those of keys are of type int32"),
        ({**pages, "v": v[:3]}, r"v: has shape \[3, 2, 24\], but k has \[5, 2, 32\]"),
        ({"v": v}, "pages: missing: v is written to them"),
        ({"norms": torch.ones(32)}, "norms: is a Tensor, not a pair of tensors, of q and of k"),
    ):
        with pytest.raises(gyre.Error, match=text), _device.forcing(kernel):
            gt.rotate_layer(q, k, gyre.rope(32), **more)
    with pytest.raises(gyre.Error, match="pages: q, k, v or a norm requires a gradient"), _device.forcing(kernel):
        gt.rotate_layer(q, k.requires_grad_(), gyre.rope(32), **pages)
    weight = torch.ones(32, requires_grad=True)  # a cache would become part of the graph of each call
    with pytest.raises(gyre.Error, match="pages: q, k, v or a norm requires a gradient"), _device.forcing(kernel):
        gt.rotate_layer(q, k.detach(), gyre.rope(32), norms=(weight, weight), **pages)


def test_the_rotation_of_liger() -> None:
    """Its Triton kernel in the interpreter, on [batch, heads, tokens, channels] with cos and sin of transformers."""
    if importlib.util.find_spec("liger_kernel") is None:
        pytest.skip("liger-kernel is not installed")
    from liger_kernel.ops.rope import LigerRopeFunction

    config = Qwen3Config(head_dim=32, hidden_size=64, num_attention_heads=4, num_key_value_heads=2)
    q, k, at = numbers(1, 4, 5, 32, seed=1), numbers(1, 2, 5, 32, seed=2), torch.arange(5)[None] * 19
    cosine, sine = Qwen3RotaryEmbedding(config)(q, at)
    theirs = LigerRopeFunction.apply(q.clone(), k.clone(), cosine, sine)
    with by_kernel(True):
        ours = gt.rotate_layer(q, k, gyre.Encoding.from_config(config), at)
    for a, b in zip(ours, theirs, strict=True):
        close(a, b, 2e-5)
