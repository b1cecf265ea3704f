"""cos and sin under scalings whose frequencies follow the context length in use, which no one reads from a device.

LongRoPE has two lists of frequencies, so both are there and the length picks one.  Dynamic NTK and dynamic YaRN have others
at each length: a table has those of all lengths up to one that is declared.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy
import torch
from torch import Tensor

from gyre.torch import _device
from gyre.torch._device import Increments, Plan, constant, plan_of
from gyre.torch._specs import encoding_of

FOLLOWS = -1  # the context length is one past the largest position, and not below the trained length; operators read it


def trained_length(spec: str) -> int:
    return int(encoding_of(spec).config["trained_length"])


def _is_longrope_constant(spec: str) -> bool:
    return bool(encoding_of(spec).config["rope.scaling"] == "longrope")


_untyped: Any = torch.compiler  # its functions have no types
_trained: Callable[[str], int] = _untyped.assume_constant_result(trained_length)
_is_longrope: Callable[[str], bool] = _untyped.assume_constant_result(_is_longrope_constant)


def read_length(positions: Tensor, trained: int) -> int:
    """The context length in use; waits for the device."""
    return max(trained, int(positions.max()) + 1) if positions.numel() else trained


def in_use(length: int, positions: Tensor | None, spec: str) -> int:
    """The context length that an operator of the core computes for."""
    if length != FOLLOWS or positions is None:
        return length
    return read_length(positions, trained_length(spec))


def _make_table(spec: str, most: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Increments at each length from the trained one to `most`, [lengths + 1, pairs], and factors, NaN for longer ones."""
    encoding = encoding_of(spec)
    phases = [encoding._phases(length) for length in range(trained_length(spec), most + 1)]
    whole = numpy.array([[one for one, _ in pairs] for pairs, _ in [*phases, phases[-1]]], numpy.uint64).view(numpy.int64)
    factors = numpy.array([*(factor for _, factor in phases), numpy.nan])
    dtype = torch.float64 if _device.has_doubles(device) else torch.float32
    with torch.inference_mode(False):
        return torch.from_numpy(whole).to(device), torch.from_numpy(factors).to(device, dtype)


@torch.library.custom_op(
    "gyre::increments_by_length", mutates_args=(), schema="(Tensor length, str encoding, SymInt most) -> (Tensor, Tensor)"
)
def _by_length(length: Tensor, encoding: str, most: int) -> tuple[Tensor, Tensor]:
    """[1, pairs] and [1] of a length [1].  An operator, because a graph would otherwise hold the table."""
    key = encoding, most, length.device
    table = _device.made_tables.get(key)
    if table is None:
        table = _make_table(encoding, most, length.device)
        _device.keep(_device.made_tables, key, table, 16)
    _device.used(table)
    row = (length - trained_length(encoding)).clamp(0, len(table[1]) - 1)
    return table[0].index_select(0, row), table[1].index_select(0, row)


@_by_length.register_fake
def _(length: Tensor, encoding: str, most: int) -> tuple[Tensor, Tensor]:
    pairs = encoding_of(encoding).config["rope.dim"] // 2
    dtype = torch.float64 if _device.has_doubles(length.device) else torch.float32
    return length.new_empty((1, pairs), dtype=torch.int64), length.new_empty(1, dtype=dtype)


def _of_two(length: Tensor, near: Plan, far: Plan, trained: int) -> tuple[Tensor, Tensor]:
    """The same for LongRoPE: up to the trained length, and past it."""
    row = (length - trained).clamp(0, 1)
    dtype = torch.float64 if _device.has_doubles(length.device) else torch.float32
    whole = constant(near.whole + far.whole, torch.int64, length).view(2, -1)
    return whole.index_select(0, row), constant((near.factor, far.factor), dtype, length).index_select(0, row)


def increments(positions: Tensor, spec: str, most: int) -> Increments | None:
    """Those at the length in use, without reading it: under LongRoPE, and for other scalings up to a length of `most`, where
    that is past the trained length; for longer ones the factor is NaN.  None = the length must be read."""
    trained = _trained(spec)
    two = _is_longrope(spec)
    plan, far = plan_of(spec, trained), plan_of(spec, trained + 1)  # start tokens rotate otherwise in long contexts alone
    if not (plan.high and far.high) or not (two or most > trained) or positions.numel() == 0:
        return None
    used = positions.amax().long().reshape(1) + 1
    if two:
        whole, factor = _of_two(used, plan, far, trained)
    else:
        whole, factor = _by_length(used, spec, most)
    whole, factor = whole.select(0, 0), factor.select(0, 0)  # not by an index, which needs a device in fake tensors
    return Increments(whole >> 32 & 0xFFFFFFFF, whole & 0xFFFFFFFF, factor)


def following(positions: Tensor, spec: str, most: int) -> tuple[int, Increments | None]:
    """(the trained length, increments of the length in use), or (the length in use, None) where it must be read."""
    by = increments(positions, spec, most)
    return (_trained(spec) if by is not None else read_length(positions, _trained(spec))), by


def cos_sin(positions: Tensor, spec: str, length: int, most: int) -> tuple[Tensor, Tensor]:
    """As _device.cos_sin, also where the length FOLLOWS."""
    by = None
    if length == FOLLOWS:
        spec = _device.angles_alone(spec)
        length, by = following(positions, spec, most)
    return _device.cos_sin(positions, spec, length, by)
