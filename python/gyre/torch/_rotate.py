"""gyre::rotate and gyre::rotate_pair."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from gyre._encoding import Encoding
from gyre._errors import Error
from gyre._guesses import named
from gyre.torch import _device, _lengths
from gyre.torch._specs import (
    check_device,
    check_fake,
    check_layout,
    check_rotation,
    encoding_of,
    forward_ad,
    length_of,
    spec_of,
    split_positions,
    tensor,
)

_ADJOINT = {"forward": "adjoint", "adjoint": "forward"}


@torch.library.custom_op(
    "gyre::rotate",
    mutates_args=(),
    schema="(Tensor x, Tensor? positions, SymInt first, str encoding, str layout, str role, str direction, SymInt length)"
    " -> Tensor",
)
def _rotate(
    x: Tensor,
    positions: Tensor | None,
    first: int,
    encoding: str,
    layout: str,
    role: str,
    direction: str,
    length: int,
) -> Tensor:
    x, out = x.detach(), torch.empty_like(x, requires_grad=False)
    at = first if positions is None else positions
    length = _lengths.in_use(length, positions, encoding)
    encoding_of(encoding).rotate(x, at, layout=layout, role=role, direction=direction, length=length, out=out)
    return out


@_rotate.register_fake
def _(x: Tensor, positions: Tensor | None, first: int, encoding: str, layout: str, *rest: Any) -> Tensor:
    check_rotation(x, "x", positions, encoding, layout)
    return torch.empty_like(x, requires_grad=False)


def _keep(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    positions = inputs[1]
    ctx.save_for_backward(positions)
    ctx.rest = inputs[2:]


def _backward(ctx: Any, dout: Tensor) -> tuple[Any, ...]:
    (positions,) = ctx.saved_tensors
    first, encoding, layout, role, direction, length = ctx.rest
    dx = _rotate(dout, positions, first, encoding, layout, role, _ADJOINT[direction], length)
    return (dx, *[None] * 7)


_rotate.register_autograd(_backward, setup_context=_keep)


@torch.library.custom_op(
    "gyre::rotate_pair",
    mutates_args=(),
    schema="(Tensor q, Tensor k, Tensor? positions, SymInt first, str encoding, str layout, str direction, SymInt length)"
    " -> (Tensor, Tensor)",
)
def _rotate_pair(
    q: Tensor, k: Tensor, positions: Tensor | None, first: int, encoding: str, layout: str, direction: str, length: int
) -> tuple[Tensor, Tensor]:
    q, k = q.detach(), k.detach()
    outs = torch.empty_like(q), torch.empty_like(k)
    at = first if positions is None else positions
    length = _lengths.in_use(length, positions, encoding)
    e = encoding_of(encoding)
    if direction == "forward":
        e.rotate_pair(q, k, at, layout=layout, length=length, out=outs)
    else:
        e.rotate(q, at, layout=layout, role="query", direction=direction, length=length, out=outs[0])
        e.rotate(k, at, layout=layout, role="key", direction=direction, length=length, out=outs[1])
    return outs


@_rotate_pair.register_fake
def _(
    q: Tensor, k: Tensor, positions: Tensor | None, first: int, encoding: str, layout: str, *rest: Any
) -> tuple[Tensor, Tensor]:
    check_device(q=q, k=k)
    check_rotation(q, "q", positions, encoding, layout)
    check_rotation(k, "k", positions, encoding, layout)
    if any(q.shape[i] != k.shape[i] for i in range(q.dim()) if layout[i] != "h"):
        text = f"k: has shape {list(k.shape)}, but q has {list(q.shape)}: they may differ in their heads alone"
        raise Error("ESHAPE", text, "k")
    return torch.empty_like(q, requires_grad=False), torch.empty_like(k, requires_grad=False)


def _keep_pair(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    ctx.save_for_backward(inputs[2])
    ctx.rest = inputs[3:]


def _backward_pair(ctx: Any, dq: Tensor, dk: Tensor) -> tuple[Any, ...]:
    (positions,) = ctx.saved_tensors
    first, encoding, layout, direction, length = ctx.rest
    both = _rotate_pair(dq, dk, positions, first, encoding, layout, _ADJOINT[direction], length)
    return (*both, *[None] * 6)


_rotate_pair.register_autograd(_backward_pair, setup_context=_keep_pair)


def _linear(function: Callable[..., tuple[Tensor, ...]], *given: Tensor) -> tuple[Tensor, ...]:
    """function(*given), with tangents of forward-mode derivatives: that of a linear function is the function of it.

    Operators of torch.library have no rule for these, and would drop them.
    """
    if forward_ad._current_level < 0:
        return function(*given)
    both = [forward_ad.unpack_dual(x) for x in given]
    if all(one.tangent is None for one in both):
        return function(*given)
    results = function(*(one.primal for one in both))
    tangents = function(*(torch.zeros_like(one.primal) if one.tangent is None else one.tangent for one in both))
    return tuple(forward_ad.make_dual(a, b) for a, b in zip(results, tangents, strict=True))


def _each(info: Any, in_dims: Any, operator: Any, tensors: int, args: tuple[Any, ...]) -> tuple[Any, Any]:
    """An operator under vmap: one row after the other."""
    if info.batch_size == 0:  # results are shaped as the first tensors, which have no row to compute
        pairs = list(zip(args, in_dims, strict=True))[:tensors]
        empty = tuple(x.new_empty((0, *x.shape)) if at is None else x.movedim(at, 0).clone() for x, at in pairs)
        return (empty[0], 0) if tensors == 1 else (empty, (0,) * tensors)
    rows = []
    for i in range(info.batch_size):
        rows.append(operator(*(x if at is None else x.select(at, i) for x, at in zip(args, in_dims, strict=True))))
    if tensors == 1:
        return torch.stack(rows), 0
    return tuple(torch.stack([row[i] for row in rows]) for i in range(tensors)), (0,) * tensors


torch.library.register_vmap("gyre::rotate", lambda info, in_dims, *args: _each(info, in_dims, _rotate, 1, args))
torch.library.register_vmap("gyre::rotate_pair", lambda info, in_dims, *args: _each(info, in_dims, _rotate_pair, 2, args))


@named
def rotate(
    x: Tensor,
    encoding: Encoding,
    positions: Tensor | int | None = None,
    *,
    layout: str | None = None,
    role: str = "query",
    direction: str = "forward",
    length: int | None = None,
) -> Tensor:
    """x rotated, as Encoding.rotate does, with a gradient to x, under torch.compile too.

    Args:
        x: [batch, heads, tokens, channels], float16, bfloat16, float32 or float64, any strides; see layout.
        encoding: one that rotates: RoPE, xPos.
        positions: int32 or int64 [tokens] or [batch, tokens], with several axes [axes, tokens] or [axes, batch, tokens];
            an int p for p, p + 1, ...; None = 0, 1, ...
        layout: "bhsd", "bshd", "thd" or the like; None = "bhsd", "thd" for three axes.
        role: "query" or "key", which differ under a temperature and under xPos.
        direction: "forward", or "adjoint": the transpose, which gradients go through.
        length: the context length in use, in tokens; None = the encoding's own.

    Returns a tensor with the shape and the type of x, and on the processor with its order of strides.  On other devices
    float32 angles are within 3.3e-8 up to position 2^31; in graphs, under GYRE_TRITON=1 and without doubles (MPS, some of
    Intel) 1.26e-7.  xPos, LongRoPE's start tokens and angles of other programs come from a table: results past length,
    context length or trained length positions are NaN.
    Raises gyre.Error.
    """
    if direction not in _ADJOINT:
        raise Error(
            "EINVAL",
            f"direction: {direction!r} has no gradient here; it is 'forward' or 'adjoint' (Encoding.rotate has 'inverse')",
            "direction",
        )
    if role not in ("query", "key"):
        raise Error("EINVAL", f"role: is {role!r}, not 'query' or 'key'", "role")
    at, first = split_positions(positions)
    chosen = check_layout(tensor(x, "x"), layout)
    check_fake(x=x, positions=at)
    rest = (at, first, spec_of(encoding), chosen, role, direction, length_of(length))
    if _device.takes(x):
        return _device.rotate(x, *rest)
    return _linear(lambda x: (_rotate(x, *rest),), x)[0]


@named
def rotate_pair(
    q: Tensor,
    k: Tensor,
    encoding: Encoding,
    positions: Tensor | int | None = None,
    *,
    layout: str | None = None,
    length: int | None = None,
) -> tuple[Tensor, Tensor]:
    """(q, k) rotated at the same positions, each in its role; otherwise as rotate."""
    at, first = split_positions(positions)
    chosen = check_layout(tensor(q, "q"), layout, "q")
    check_layout(tensor(k, "k"), layout, "k")
    check_fake(q=q, k=k, positions=at)
    rest = (at, first, spec_of(encoding), chosen, "forward", length_of(length))
    if _device.takes(q):
        return _device.rotate_pair(q, k, *rest)
    both = _linear(lambda q, k: _rotate_pair(q, k, *rest), q, k)
    return both[0], both[1]
