"""Queries and keys of a layer rotated by one Triton kernel: exact angles from 64-bit phases, computed once for all heads.

Used where GYRE_TRITON=1 is in the environment and Triton is installed, for tensors of a device in float32, float16 and
bfloat16.  It was run by Triton's interpreter and compiled for sm_80, sm_90 and gfx942, but on no device (docs/devices.md).
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
from typing import Any

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor

_SHORT = (torch.float32, torch.float16, torch.bfloat16)


def wanted() -> bool:
    """Whether the environment asks for the kernel, and Triton is there."""
    return os.environ.get("GYRE_TRITON") == "1" and importlib.util.find_spec("triton") is not None


def takes(plan: Any, *tensors: Tensor) -> bool:
    """Whether the kernel can do this rotation.  Graphs, forward-mode derivatives and torch.func take operations of torch."""
    if not plan.high or plan.temperature or torch.compiler.is_compiling() or not wanted():
        return False
    if torch._C._are_functorch_transforms_active() or torch.autograd.forward_ad._current_level >= 0:
        return False
    return all(x.dtype in _SHORT and x.numel() > 0 and not isinstance(x, FakeTensor) for x in tensors)


def _strides(x: Tensor, letters: str) -> list[int]:
    """Of batch, tokens, heads, channels; an axis that x lacks has stride 0."""
    return [x.stride(letters.index(letter)) if letter in letters else 0 for letter in "bshd"]


def _extent(x: Tensor, letters: str, letter: str) -> int:
    return x.shape[letters.index(letter)] if letter in letters else 1


def _launch(tensors: tuple[Tensor, ...], at: Tensor, constants: tuple[Tensor, Tensor], plan: Any, letters: str, back: bool) -> tuple[Tensor, ...]:
    """at: [axes, batch, tokens], expanded."""
    from gyre.torch._kernels import rotate_heads

    outs = tuple(torch.empty_like(x) for x in tensors)
    q, k = tensors[0], tensors[-1]
    batch, tokens = _extent(q, letters, "b"), _extent(q, letters, "s")
    read, write = (plan.write, plan.read) if back else (plan.read, plan.write)
    increments, axis = constants
    rest = plan.channels - 2 * plan.pairs
    with torch.cuda.device(q.device) if q.is_cuda else contextlib.nullcontext():  # Triton launches on the current one
        rotate_heads[(batch * tokens,)](
            q, outs[0], k, outs[-1], at, increments, axis, plan.factor, tokens,
            _extent(q, letters, "h"), _extent(k, letters, "h") if len(tensors) == 2 else 0,
            *_strides(q, letters), *_strides(outs[0], letters), *_strides(k, letters), *_strides(outs[-1], letters),
            *at.stride(),
            PAIRS=plan.pairs, FIRST=plan.first, REST=rest, READ_HALF=read == "half", WRITE_HALF=write == "half", BACK=back,
            BLOCK_PAIRS=_power(plan.pairs), BLOCK_REST=_power(max(rest, 1)), BLOCK_HEADS=4,
        )  # fmt: skip
    return outs


def _power(n: int) -> int:
    """The next power of two."""
    return 1 << (n - 1).bit_length()


class _Rotation(torch.autograd.Function):
    """One or two tensors, rotated; its gradient is the adjoint."""

    @staticmethod
    def forward(ctx: Any, at: Tensor, increments: Tensor, axis: Tensor, plan: Any, letters: str, back: bool, *tensors: Tensor) -> tuple[Tensor, ...]:
        ctx.save_for_backward(at, increments, axis)
        ctx.rest = plan, letters, back
        return _launch(tensors, at, (increments, axis), plan, letters, back)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Any, ...]:
        plan, letters, back = ctx.rest
        return (*[None] * 6, *_rotation.apply(*ctx.saved_tensors, plan, letters, not back, *gradients))


_rotation: Any = _Rotation  # its apply has no types


def rotate(tensors: tuple[Tensor, ...], positions: Tensor, constants: tuple[Tensor, Tensor], plan: Any, letters: str, back: bool) -> tuple[Tensor, ...]:
    """One tensor, or queries and keys; constants: increments as int64, and the axis of each pair."""
    batch, tokens = _extent(tensors[0], letters, "b"), positions.shape[-1]
    several = plan.axes > 1 and positions.dim() > 1
    at = positions if several else positions.unsqueeze(0)
    at = at if at.dim() == 3 else at.unsqueeze(1)
    found: tuple[Tensor, ...] = _rotation.apply(at.expand(plan.axes, batch, tokens), *constants, plan, letters, back, *tensors)
    return found
