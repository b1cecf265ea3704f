"""gyre::gate_sums and gyre::gate_sums_gradient."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from gyre import _gyre as core
from gyre._errors import Error
from gyre.torch._specs import REAL, check_core_device, check_fake, check_rows, check_tensor, no_tangent, tensor

_DOUBLES = {True: torch.float64, False: torch.float32}


@torch.library.custom_op(
    "gyre::gate_sums",
    mutates_args=(),
    schema="(Tensor log_gates, Tensor? starts, Tensor? initial, str layout, bool double) -> Tensor",
)
def _sums(log_gates: Tensor, starts: Tensor | None, initial: Tensor | None, layout: str, double: bool) -> Tensor:
    sums: Tensor = core.gate_sums(log_gates.detach(), layout=layout, starts=starts, initial=initial, double=double)
    return sums


@_sums.register_fake
def _(log_gates: Tensor, starts: Tensor | None, initial: Tensor | None, layout: str, double: bool) -> Tensor:
    check_core_device(log_gates=log_gates, starts=starts, initial=initial)
    (check_tensor if log_gates.dim() == len(layout) else check_rows)(log_gates, "log_gates", layout, REAL)
    return log_gates.new_empty(log_gates.shape, dtype=_DOUBLES[double])


@torch.library.custom_op(
    "gyre::gate_sums_gradient",
    mutates_args=(),
    schema="(Tensor dsums, Tensor? starts, str layout, ScalarType dtype) -> Tensor",
)
def _gradient(dsums: Tensor, starts: Tensor | None, layout: str, dtype: torch.dtype) -> Tensor:
    found: Tensor = core.gate_sums_gradient(dsums.detach(), layout=layout, starts=starts)
    return found.to(dtype)


@_gradient.register_fake
def _(dsums: Tensor, starts: Tensor | None, layout: str, dtype: torch.dtype) -> Tensor:
    check_core_device(dsums=dsums, starts=starts)
    return dsums.new_empty(dsums.shape, dtype=dtype)


def _keep(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    log_gates, starts, _, ctx.layout, _ = inputs
    ctx.dtype = log_gates.dtype
    ctx.save_for_backward(starts)


def _backward(ctx: Any, dsums: Tensor) -> tuple[Any, ...]:
    (starts,) = ctx.saved_tensors
    return _gradient(dsums, starts, ctx.layout, ctx.dtype), None, None, None, None


_sums.register_autograd(_backward, setup_context=_keep)


def _keep_gradient(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    dsums, starts, ctx.layout, _ = inputs
    ctx.double = dsums.dtype == torch.float64
    ctx.save_for_backward(starts)


def _backward_gradient(ctx: Any, ddlog_gates: Tensor) -> tuple[Any, ...]:
    """The transpose of sums from the end is sums from the beginning."""
    (starts,) = ctx.saved_tensors
    return _sums(ddlog_gates, starts, None, ctx.layout, ctx.double), None, None, None


_gradient.register_autograd(_backward_gradient, setup_context=_keep_gradient)


def gate_sums(
    log_gates: Tensor,
    *,
    layout: str | None = None,
    starts: Tensor | None = None,
    initial: Tensor | None = None,
    double: bool = True,
) -> Tensor:
    """gyre.gate_sums, with a gradient to log_gates of any order, under torch.compile too.

        log_gates = torch.nn.functional.logsigmoid(projection(x)).transpose(1, 2)  # [batch, heads, tokens]
        sums = gyre.torch.gate_sums(log_gates)
        out = gyre.torch.attention(q, k, v, causal=True, query_gate_sums=sums, key_gate_sums=sums)

    Angles for gyre.torch.angle_rotate have an axis of pairs more.  initial gets no gradient.  Raises gyre.Error.
    """
    chosen = layout or ("thd" if tensor(log_gates, "log_gates").dim() == 2 else "bhsd")
    if not isinstance(chosen, str):
        raise Error("EINVAL", f"layout: is {layout!r}, not letters of axes such as 'bhsd', 'bshd' or 'thd'", "layout")
    if not isinstance(double, bool):
        raise Error("EINVAL", f"double: is {double!r}, not True or False", "double")
    for name, one in (("starts", starts), ("initial", initial)):
        if one is not None:
            tensor(one, name)
    if initial is not None and initial.requires_grad:
        text = "initial: requires a gradient, which gate_sums does not compute; use initial.detach()"
        raise Error("EUNSUPPORTED", text, "initial")
    check_fake(log_gates=log_gates, starts=starts, initial=initial)
    no_tangent(log_gates=log_gates, initial=initial)
    sums: Tensor = _sums(log_gates, starts, initial, chosen, double)
    return sums
