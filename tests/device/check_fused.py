"""gyre.torch's Triton kernel, run by Triton's interpreter on tensors of the processor, against the core."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent / "python"))

import gyre
import gyre.torch as gt
import pytest
import torch
from gyre.torch import _device, _fused, _kernels
from test_torch_device import ROPES, TABLES, close, positions_of

# The interpreter truncates floats to bfloat16, so that its last bit is no claim.
KINDS = (torch.float32, torch.float16, torch.bfloat16)
FUSED = {
    name: one
    for name, one in {**ROPES, "xpos": TABLES["xpos"]}.items()
    if one[0].kind == "rope" and one[0].config["query.temperature"] == "none"
}


@pytest.fixture(autouse=True)
def launches(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """One number for each launch."""
    found: list[int] = []
    launch = _fused._launch

    def counted(*args: Any) -> Any:
        found.append(1)
        return launch(*args)

    monkeypatch.setattr(_fused, "_launch", counted)
    return found


def test_the_interpreter_runs() -> None:
    assert _fused.wanted() and "Interpreted" in type(_kernels.rotate_heads).__name__


@pytest.mark.parametrize("name", list(FUSED))
@pytest.mark.parametrize("dtype", KINDS)
def test_queries_and_keys_in_one_launch(name: str, dtype: torch.dtype, launches: list[int]) -> None:
    encoding, length = FUSED[name]
    at = positions_of(encoding, 5, far=name != "xpos")
    q, k, dq, dk = (torch.randn(2, heads, 5, 32).to(dtype) for heads in (6, 2, 6, 2))
    q.requires_grad_()
    k.requires_grad_()
    wanted = gt.rotate_pair(q, k, encoding, at, length=length)
    slopes = torch.autograd.grad(wanted, (q, k), (dq, dk))
    with _device.forcing():
        got = gt.rotate_pair(q, k, encoding, at, length=length)
        assert len(launches) == 1
        found = torch.autograd.grad(got, (q, k), (dq, dk))
        assert len(launches) == 2
    for a, b, x in zip((*got, *found), (*wanted, *slopes), (q, k, dq, dk), strict=True):
        close(a, b, x)


@pytest.mark.parametrize("layout", ["half", "interleaved"])
def test_magnitudes_of_each_role(layout: str, launches: list[int]) -> None:
    """xPos multiplies queries and divides keys; a position past the length of a table has an angle too."""
    encoding = gyre.xpos(32, layout=layout, xpos_center=50, trained_length=64)
    x, at = torch.randn(1, 2, 4, 32), torch.tensor([0, 50, 51, 3000])
    for role in ("query", "key"):
        for direction in ("forward", "adjoint"):
            wanted = encoding.rotate(x, at, role=role, direction=direction)
            with _device.forcing():
                close(gt.rotate(x, encoding, at, role=role, direction=direction), wanted, x)
    assert len(launches) == 4
    with _device.forcing():
        far = gt.rotate(x, encoding, torch.tensor([2**31, -(2**31), 10**8, 0]))
    assert (far[:, :, 0, 0] == 0).all() and not far[:, :, 1, 0].isfinite().any(), "a decay of 2^-7e6, and its inverse"


@pytest.mark.parametrize("layout", ["bhsd", "bshd", "sbhd", "dsbh"])
def test_any_strides(layout: str, launches: list[int]) -> None:
    encoding = FUSED["middle"][0]
    x = torch.randn(2, 7, 5, 64)[..., ::2].permute(["bhsd".index(letter) for letter in layout])
    at = positions_of(encoding, 5, far=True)
    for positions in (at, at[0], at[:1], at[0].int(), 5, None):
        wanted = gt.rotate(x, encoding, positions, layout=layout, direction="adjoint")
        with _device.forcing():
            close(gt.rotate(x, encoding, positions, layout=layout, direction="adjoint"), wanted, x)
    assert len(launches) == 6
    packed, expanded = torch.randn(5, 3, 32), torch.randn(1, 1, 5, 32).expand(2, 3, 5, 32)
    with _device.forcing():
        got, spread = gt.rotate(packed, encoding, at[0]), gt.rotate(expanded, encoding, at)
    close(got, gt.rotate(packed, encoding, at[0]), packed)
    close(spread, gt.rotate(expanded, encoding, at), expanded)


def test_second_derivatives() -> None:
    encoding, x = gyre.rope(32), torch.randn(1, 2, 3, 32, requires_grad=True)
    with _device.forcing():
        (first,) = torch.autograd.grad(gt.rotate(x, encoding, 7).pow(3).sum(), x, create_graph=True)
        (second,) = torch.autograd.grad(first.sum(), x)
    y = x.detach().double().requires_grad_()
    (first,) = torch.autograd.grad(gt.rotate(y, encoding, 7).pow(3).sum(), y, create_graph=True)
    torch.testing.assert_close(second.double(), torch.autograd.grad(first.sum(), y)[0], rtol=1e-4, atol=1e-4)


def test_what_takes_operations_of_torch(launches: list[int]) -> None:
    encoding, x = gyre.rope(32), torch.randn(2, 2, 3, 32)
    hot = gyre.rope(32, temperature="log", reference_length=4)
    with _device.forcing():
        gt.rotate(x.double(), encoding)
        gt.rotate(x, hot)
        gt.rotate(x[:0], encoding)
        torch.func.vmap(lambda one: gt.rotate(one, encoding, layout="hsd"))(x)
        torch.func.jvp(lambda one: gt.rotate(one, encoding), (x,), (x,))
        torch.compile(lambda one: gt.rotate(one, encoding), fullgraph=True, backend="eager")(x)
    assert not launches
