"""gyre.torch on the way of a device, by its Triton kernel and in operations of torch, against flash-attn: its Triton kernel in
the same interpreter, its formula in torch and the tables of its rotary module, xPos included.  Its CUDA extension is not built."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import sys
import types
from typing import Any

import gyre
import gyre.torch as gt
import pytest
import torch
from check_layer import by_kernel, close, numbers

# Name: (arguments of flash_attn's RotaryEmbedding, the encoding of heads of 32 channels).  Its xPos has its center in the middle
# of the table, of 64 rows here.
ROPES: dict[str, tuple[dict[str, Any], gyre.Encoding]] = {
    "gpt-neox": ({"dim": 32}, gyre.rope(32)),
    "gpt-j": ({"dim": 32, "interleaved": True}, gyre.rope(32, layout="interleaved")),
    "partial": ({"dim": 12, "base": 500.0}, gyre.rope(32, dim=12, base=500.0)),
    "partial gpt-j": ({"dim": 12, "interleaved": True}, gyre.rope(32, dim=12, layout="interleaved")),
    "xpos": ({"dim": 32, "scale_base": 512}, gyre.xpos(32, xpos_base=512.0, xpos_center=32, trained_length=64)),
    "xpos gpt-j": (
        {"dim": 16, "scale_base": 40, "interleaved": True},
        gyre.xpos(32, dim=16, xpos_base=40.0, xpos_center=32, trained_length=64, layout="interleaved"),
    ),
}
PLAIN = [name for name in ROPES if "xpos" not in name]


@pytest.fixture
def flash(monkeypatch: pytest.MonkeyPatch) -> Any:
    """flash_attn.layers.rotary without flash_attn/__init__.py, which imports the CUDA extension, on tensors of the processor."""
    found = importlib.util.find_spec("flash_attn")
    assert found is not None and found.submodule_search_locations, "flash-attn is not installed"
    package = types.ModuleType("flash_attn")
    package.__path__ = list(found.submodule_search_locations)
    monkeypatch.setitem(sys.modules, "flash_attn", package)
    # It launches by the device of x, and by a wrapper that takes compiled kernels alone.
    monkeypatch.setattr(torch.cuda, "device", lambda _: contextlib.nullcontext())
    monkeypatch.setattr(torch.library, "wrap_triton", lambda kernel: kernel)
    rotary = importlib.import_module("flash_attn.layers.rotary")
    assert "Interpreted" in type(sys.modules["flash_attn.ops.triton.rotary"].rotary_kernel).__name__
    return rotary


@pytest.mark.parametrize("kernel", [False, True])
@pytest.mark.parametrize("name", ROPES)
def test_queries_and_keys_of_its_module(name: str, kernel: bool, flash: Any) -> None:
    arguments, encoding = ROPES[name]
    q, kv = numbers(2, 7, 4, 32, seed=1), numbers(2, 7, 2, 2, 32, seed=2)
    for first in (0, 50, torch.tensor([3, 57])):
        module = flash.RotaryEmbedding(**arguments)
        wanted_q, wanted_kv = module(q.clone(), kv.clone(), seqlen_offset=first, max_seqlen=64)
        at = torch.arange(7) + (first[:, None] if isinstance(first, torch.Tensor) else first)
        with by_kernel(kernel):
            got = gt.rotate_pair(q, kv[:, :, 0], encoding, at, layout="bshd", length=64 if "xpos" in name else None)
        close(got[0], wanted_q, 1e-5)  # its angles are products of floats
        close(got[1], wanted_kv[:, :, 0], 1e-5)
        assert torch.equal(wanted_kv[:, :, 1], kv[:, :, 1])


def tables(encoding: gyre.Encoding, rows: int) -> tuple[torch.Tensor, torch.Tensor]:
    """cos and sin [rows, pairs] from doubles."""
    config = encoding.config
    turns = config["rope.base"] ** (-2 * torch.arange(config["rope.dim"] // 2, dtype=torch.float64) / config["rope.dim"])
    angles = torch.arange(rows, dtype=torch.float64)[:, None] * turns
    return angles.cos().float(), angles.sin().float()


@pytest.mark.parametrize("kernel", [False, True])
@pytest.mark.parametrize("name", PLAIN)
def test_rotation_and_gradient(name: str, kernel: bool, flash: Any) -> None:
    encoding = ROPES[name][1]
    interleaved = encoding.config["rope.layout"] == "interleaved"
    x, given = numbers(2, 9, 4, 32, seed=3).requires_grad_(), numbers(2, 9, 4, 32, seed=4)
    both = tables(encoding, 100)
    wanted = flash.apply_rotary_emb(x, *both, interleaved=interleaved, seqlen_offsets=91)
    (slope,) = torch.autograd.grad(wanted, x, given)
    formula = flash.apply_rotary_emb_torch(x, *(one[91:] for one in both), interleaved=interleaved)
    with by_kernel(kernel):
        got = gt.rotate(x, encoding, 91, layout="bshd")
        (found,) = torch.autograd.grad(got, x, given)
    for a, b in ((got, wanted), (got, formula), (found, slope)):
        close(a, b, 1e-6)
    assert (wanted - x).abs().max() > 0.1


@pytest.mark.parametrize("kernel", [False, True])
@pytest.mark.parametrize("name", PLAIN)
def test_packed_sequences(name: str, kernel: bool, flash: Any) -> None:
    encoding = ROPES[name][1]
    starts = [0, 5, 6, 13]
    x = numbers(13, 4, 32, seed=5)
    more = {"cu_seqlens": torch.tensor(starts, dtype=torch.int32), "max_seqlen": 7}
    wanted = flash.apply_rotary_emb(x, *tables(encoding, 7), interleaved=encoding.config["rope.layout"] == "interleaved", **more)
    at = torch.from_numpy(gyre.Batch.from_cu_seqlens(starts).positions)
    with by_kernel(kernel):
        got = gt.rotate(x, encoding, at.reshape(-1))
    close(got, wanted, 1e-6)
