"""Queries and keys of a layer rotated by one Triton kernel: exact angles from 64-bit phases, computed once for all heads.

The kernel also multiplies by xPos's magnitudes, normalizes q and k before, and writes keys and values to a paged cache after.
Used where GYRE_TRITON=1 is in the environment and Triton is installed, for tensors of a device in float32, float16 and
bfloat16.  It was run by Triton's interpreter and compiled for sm_80, sm_90 and gfx942, but on no device (docs/devices.md).
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor

_SHORT = (torch.float32, torch.float16, torch.bfloat16)


class Turn(NamedTuple):
    """A rotation as the kernel takes it."""

    plan: Any
    letters: str  # of the axes of each tensor
    back: bool
    role: str  # of the first tensor; the second one is keys


class Pages(NamedTuple):
    """Pages of keys and values, [pages, tokens of a page, heads, channels], and the slot of each token."""

    keys: Tensor
    values: Tensor
    v: Tensor
    slots: Tensor  # [batch x tokens], contiguous


class Norms(NamedTuple):
    """RMS norms of q and of k before the rotation."""

    weights: tuple[Tensor, ...]
    epsilon: float


def wanted() -> bool:
    """Whether the environment asks for the kernel, and Triton is there."""
    return os.environ.get("GYRE_TRITON") == "1" and importlib.util.find_spec("triton") is not None


def takes(plan: Any, *tensors: Tensor) -> bool:
    """Whether the kernel can do this rotation.  Graphs, forward-mode derivatives and torch.func take operations of torch."""
    if not (plan.high or plan.decays) or plan.temperature or torch.compiler.is_compiling() or not wanted():
        return False
    if torch._C._are_functorch_transforms_active() or torch.autograd.forward_ad._current_level >= 0:
        return False
    return all(x.dtype in _SHORT and x.numel() > 0 and not isinstance(x, FakeTensor) for x in tensors)


def _strides(x: Tensor, letters: str) -> list[int]:
    """Of batch, tokens, heads, channels; an axis that x lacks has stride 0."""
    return [x.stride(letters.index(letter)) if letter in letters else 0 for letter in "bshd"]


def _extent(x: Tensor, letters: str, letter: str) -> int:
    return x.shape[letters.index(letter)] if letter in letters else 1


def _power(n: int) -> int:
    """The next power of two."""
    return 1 << (n - 1).bit_length()


class _Call:
    """What every launch passes on."""

    def __init__(self, turn: Turn, tensors: tuple[Tensor, ...], at: Tensor, constants: tuple[Tensor, ...], norms: Norms | None) -> None:
        """at: [axes, batch, tokens], expanded.  constants: increments, the axis of each pair, decays."""
        plan, letters, q, k = turn.plan, turn.letters, tensors[0], tensors[-1]
        self.tokens, self.rows = _extent(q, letters, "s"), _extent(q, letters, "b") * _extent(q, letters, "s")
        self.heads = _extent(q, letters, "h"), _extent(k, letters, "h") if len(tensors) == 2 else 0
        self.channels = plan.channels
        increments, axis, decays = constants
        self.angles = at, increments, axis, plan.factor, self.tokens
        limit = 2**62 // max(1, *(abs(one) for one in plan.decays)) if plan.decays else 0
        weights = norms.weights if norms else (q, q)
        self.sizes = decays, plan.center, limit, weights[0], weights[-1], norms.epsilon if norms else 0.0
        read, write = (plan.write, plan.read) if turn.back else (plan.read, plan.write)
        rest = plan.channels - 2 * plan.pairs
        self.constexprs: dict[str, Any] = {
            "PAIRS": plan.pairs, "FIRST": plan.first, "REST": rest, "READ_HALF": read == "half", "WRITE_HALF": write == "half",
            "XPOS": (1 if turn.role == "query" else -1) if plan.decays else 0,
            "BLOCK_PAIRS": _power(plan.pairs), "BLOCK_REST": _power(max(rest, 1)), "BLOCK_HEADS": 4,
        }  # fmt: skip
        # Triton launches on the current device.
        self.device = torch.cuda.device(q.device) if q.is_cuda else contextlib.nullcontext()


def _launch(
    turn: Turn, tensors: tuple[Tensor, ...], at: Tensor, constants: tuple[Tensor, ...], norms: Norms | None = None, pages: Pages | None = None
) -> tuple[Tensor, ...]:
    from gyre.torch._kernels import rotate_heads

    call, letters = _Call(turn, tensors, at, constants, norms), turn.letters
    outs = tuple(torch.empty_like(x) for x in tensors)
    q, k = tensors[0], tensors[-1]
    with call.device:
        rotate_heads[(call.rows,)](
            q, outs[0], k, outs[-1], *call.angles, *call.heads,
            *_strides(q, letters), *_strides(outs[0], letters), *_strides(k, letters), *_strides(outs[-1], letters),
            *at.stride(), *call.sizes, *_pages(pages, k, letters),
            **call.constexprs, BACK=turn.back, NORM=norms is not None, CACHED=pages is not None,
            BLOCK_VALUES=_power(_extent(pages.v, letters, "d")) if pages else 1,
        )  # fmt: skip
    return outs


def _pages(pages: Pages | None, k: Tensor, letters: str) -> list[Any]:
    if pages is None:
        return [k, k, k, k, 1, 0, 0, *[0] * 12]
    v = pages.v
    extents = [pages.keys.shape[1], _extent(v, letters, "h"), _extent(v, letters, "d")]
    return [pages.keys, v, pages.values, pages.slots, *extents, *pages.keys.stride(), *_strides(v, letters), *pages.values.stride()]


class _Rotation(torch.autograd.Function):
    """One or two tensors, rotated; its gradient is the adjoint."""

    @staticmethod
    def forward(ctx: Any, turn: Turn, at: Tensor, increments: Tensor, axis: Tensor, decays: Tensor, *tensors: Tensor) -> tuple[Tensor, ...]:
        ctx.save_for_backward(at, increments, axis, decays)
        ctx.turn = turn
        return _launch(turn, tensors, at, (increments, axis, decays))

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Any, ...]:
        back = ctx.turn._replace(back=not ctx.turn.back)
        return (*[None] * 5, *_rotation.apply(back, *ctx.saved_tensors, *gradients))


class _Normed(torch.autograd.Function):
    """Queries and keys, normalized and rotated.  Its gradient has none."""

    @staticmethod
    def forward(
        ctx: Any, turn: Turn, epsilon: float, at: Tensor, increments: Tensor, axis: Tensor, decays: Tensor, q_weight: Tensor,
        k_weight: Tensor, q: Tensor, k: Tensor,
    ) -> tuple[Tensor, ...]:  # fmt: skip
        ctx.save_for_backward(at, increments, axis, decays, q_weight, k_weight, q, k)
        ctx.turn, ctx.epsilon = turn, epsilon
        return _launch(turn, (q, k), at, (increments, axis, decays), Norms((q_weight, k_weight), epsilon))

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Any, ...]:
        from gyre.torch._kernels import normed_gradient

        at, increments, axis, decays, *weights, q, k = ctx.saved_tensors
        call, letters = _Call(ctx.turn, (q, k), at, (increments, axis, decays), Norms(tuple(weights), ctx.epsilon)), ctx.turn.letters
        outs = tuple(torch.empty_like(x) for x in (q, k))
        sums = [q.new_empty((call.rows, call.channels), dtype=torch.float32) for _ in outs]
        each = (q, gradients[0], outs[0]), (k, gradients[1], outs[1])
        with call.device:
            normed_gradient[(call.rows,)](
                *each[0], *each[1], *call.angles, *call.heads, *(n for one in each for x in one for n in _strides(x, letters)),
                *at.stride(), *call.sizes, *sums, **call.constexprs,
            )  # fmt: skip
        to_weights = (one.sum(0).to(weight.dtype) for one, weight in zip(sums, weights, strict=True))
        return (*[None] * 6, *to_weights, *outs)


_rotation: Any = _Rotation  # its apply has no types
_normed: Any = _Normed


def _positions(turn: Turn, lead: Tensor, positions: Tensor) -> Tensor:
    """[axes, batch, tokens], expanded."""
    axes = turn.plan.axes
    at = positions if axes > 1 and positions.dim() > 1 else positions.unsqueeze(0)
    at = at if at.dim() == 3 else at.unsqueeze(1)
    return at.expand(axes, _extent(lead, turn.letters, "b"), positions.shape[-1])


def rotate(turn: Turn, tensors: tuple[Tensor, ...], positions: Tensor, constants: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """One tensor, or queries and keys; constants: increments as int64, the axis of each pair, and decays."""
    found: tuple[Tensor, ...] = _rotation.apply(turn, _positions(turn, tensors[0], positions), *constants, *tensors)
    return found


def rotate_layer(
    turn: Turn, tensors: tuple[Tensor, ...], positions: Tensor, constants: tuple[Tensor, ...], norms: Norms | None, pages: Pages | None
) -> tuple[Tensor, Tensor]:
    """Queries and keys, normalized before; pages get keys and values, and then there are no gradients."""
    at = _positions(turn, tensors[0], positions)
    if norms is not None:
        norms = Norms(tuple(one.contiguous() for one in norms.weights), norms.epsilon)
    if pages is not None:
        q, k = _launch(turn, tuple(x.detach() for x in tensors), at, constants, norms, pages)
    elif norms is None:
        q, k = rotate(turn, tensors, positions, constants)
    else:
        q, k = _normed.apply(turn, norms.epsilon, at, *constants, *norms.weights, *tensors)
    return q, k
