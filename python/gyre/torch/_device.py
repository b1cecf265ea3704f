"""Rotation on any device: exact angles from 64-bit phases, in operations of torch alone.

A position times an increment of Encoding._phases, modulo a turn, is exact in whole numbers (docs/devices.md).  So nothing is
copied from the device or waited for, and autograd, torch.compile, export, fake tensors and torch.func see plain operations.
Encodings whose angles are no multiples of a phase (xPos, angles as another program computes them, LongRoPE's start tokens)
read a table that the core makes for a device, which longer contexts share; a position past the length gives NaN.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, NamedTuple

import numpy
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor

from gyre._encoding import Encoding
from gyre._errors import Error
from gyre.torch import _fused
from gyre.torch._specs import (
    REAL,
    check_device,
    check_first,
    check_positions,
    check_tensor,
    depends_on_length,
    encoding_of,
    not_rotating,
)

# True: also tensors of the processor, whose operators otherwise call the core.  For tests.
forced = False


def takes(x: Tensor) -> bool:
    """Whether the operators of the core do not reach the memory of x."""
    return forced or x.device.type not in ("cpu", "meta")


# -- what is known before any tensor is: constants of a graph --


class Plan(NamedTuple):
    """A rotation at a context length."""

    kind: str
    channels: int
    first: int
    pairs: int
    read: str  # "half" or "interleaved"; the layout of pairs in x
    write: str
    axes: int
    axis: tuple[int, ...]  # of each pair; () = all of axis 0
    high: tuple[int, ...]  # 32 bits each of the increments; () = a table has the angles
    low: tuple[int, ...]
    whole: tuple[int, ...]  # both, with a sign; also beside a table, for xPos
    factor: float
    rows: int  # of the table that positions may read; 0 = phases
    made_rows: int  # of the table that is made, which serves longer contexts too
    variant: int  # what else a context length decides of the table
    by_role: bool  # the table of keys is another one (xPos)
    temperature: tuple[str, int, float] | None
    decays: tuple[int, ...]  # of xPos, beside `whole`: 2^-48 of a power of two for each position from the center; () = none
    center: int


def _temperature_of(config: dict[str, Any]) -> tuple[str, int, float] | None:
    kind = config["query.temperature"]
    if kind == "none":
        return None
    return kind, int(config["query.reference_length"]), float(config["query.slope"])


def _rows_of(config: dict[str, Any], length: int) -> int:
    rows = max(length, int(config["context_length"]), int(config["trained_length"]))
    if rows == 0:
        text = "length: is needed here: the angles of this encoding come from a table of that many positions"
        raise Error("EINVAL", text, "length")
    if config["rope.axes"] > 1:
        raise Error("EUNSUPPORTED", "encoding: angles of several axes from a table are supported on the processor alone", "encoding")
    return rows


def _variant_of(encoding: Encoding, length: int) -> int:
    """What a context length decides of a table, but for its rows."""
    config = encoding.config
    if config["rope.scaling"] == "longrope":  # two lists of factors
        return int(length > int(config["trained_length"])) if length else -1
    return length if depends_on_length(encoding) else 0


def _made_rows_of(encoding: Encoding, rows: int, length: int) -> int:
    """Rows up to a power of two, so that few tables are made while a context grows.  Not where a scaling follows the length
    and each length has a table, or none is given: the core then reads it from the largest position.  Nor where xPos's
    magnitude at the last row is out of range."""
    if depends_on_length(encoding) and (not length or encoding.config["rope.scaling"] != "longrope"):
        return rows
    made = 1 << (rows - 1).bit_length()
    try:
        encoding.rotate(numpy.zeros((1, 1, 1, encoding.config["head_dim"]), numpy.float32), made - 1, length=length)
    except Error as error:
        if error.status != "ERANGE":
            raise
        return rows
    return made


def _decays_of(encoding: Encoding, plan: Plan, length: int) -> tuple[int, ...]:
    """From the sizes of pairs (1, 0) that the core rotates as queries, at the center and xpos_base positions further.  In numpy,
    which no trace of torch records."""
    base = int(encoding.config["rope.xpos_base"])
    if plan.temperature is not None:
        encoding = encoding.replace(query__temperature="none")
    basis = numpy.zeros((1, 1, 2, plan.channels))
    pairs = slice(plan.first, plan.first + 2 * plan.pairs)
    basis[..., pairs] = numpy.tile([1.0, 0.0], plan.pairs) if plan.read == "interleaved" else numpy.repeat([1.0, 0.0], plan.pairs)
    rotated = encoding.rotate(basis, numpy.array([plan.center, plan.center + base]), layout="bhsd", length=length)[0, 0, :, pairs]
    both = (rotated[:, 0::2], rotated[:, 1::2]) if plan.write == "interleaved" else (rotated[:, : plan.pairs], rotated[:, plan.pairs :])
    near, far = numpy.log2(numpy.hypot(*both)).tolist()
    return tuple(round((b - a) / base * 2**48) for a, b in zip(near, far, strict=True))


@lru_cache(maxsize=1024)
def _plan_of(spec: str, length: int) -> Plan:
    encoding = encoding_of(spec)
    config = encoding.config
    if "query and key" not in encoding.places:
        raise not_rotating(encoding.kind)
    if encoding.kind == "tapa":
        raise Error("EUNSUPPORTED", "encoding: tapa is supported on the processor alone", "encoding")
    if encoding.kind != "rope":
        none = (), (), (), ()
        return Plan(encoding.kind, 0, 0, 0, "half", "half", 1, *none, 1.0, 0, 0, 0, False, _temperature_of(config), (), 0)
    layout = config["rope.layout"]
    read, write = ("interleaved", "half") if layout == "interleaved-to-half" else (layout, layout)
    is_xpos = config["rope.xpos_base"] > 0
    numbers: list[tuple[int, int]] = []
    factor, rows = 1.0, 0
    try:
        numbers, factor = encoding._phases(length)
    except Error as error:
        if error.status == "EINVAL" and length == 0:
            text = "length: is needed here: the scaling follows the length in use, and positions on a device are not looked at"
            raise Error("EINVAL", text, "length") from None
        if error.status != "EUNSUPPORTED":
            raise
    if is_xpos or not numbers:
        rows = _rows_of(config, length)
    axes = max(1, config["rope.axes"])
    plan = Plan(
        "rope", config["head_dim"], config["rope.first_channel"], config["rope.dim"] // 2, read, write, axes,
        tuple(axis for _, axis in numbers) if axes > 1 else (),
        () if is_xpos else tuple(one >> 32 for one, _ in numbers), () if is_xpos else tuple(one & 0xFFFFFFFF for one, _ in numbers),
        tuple(one - (one >> 63 << 64) for one, _ in numbers), factor, rows,
        _made_rows_of(encoding, rows, length) if rows else 0, _variant_of(encoding, length), is_xpos, _temperature_of(config),
        (), int(config["rope.xpos_center"]),
    )  # fmt: skip
    return plan._replace(decays=_decays_of(encoding, plan, length)) if is_xpos and numbers else plan


_untyped: Any = torch.compiler  # its functions have no types


def _plan_constant(spec: str, length: int) -> Plan:
    return _plan_of(spec, length)


plan_of: Callable[[str, int], Plan] = _untyped.assume_constant_result(_plan_constant)


# What was made once for a device: the last few tables, and short lists of numbers.  Fake tensors, of a trace, are not kept.
made_tables: dict[Any, Any] = {}
_made: dict[Any, Tensor] = {}
_captured: dict[int, Any] = {}  # what CUDA graphs read again when they are replayed


def keep(kept: dict[Any, Any], key: Any, one: Any, most: int) -> None:
    while len(kept) >= most:
        kept.pop(next(iter(kept)), None)
    kept[key] = one


def used(one: Any) -> Any:
    """What was made, for a call; it stays where a CUDA graph captures the call."""
    cuda: Any = torch.cuda  # its functions have no types
    if cuda.is_initialized() and cuda.is_current_stream_capturing():
        _captured[id(one)] = one
    return one


def _make_table(spec: str, length: int, role: str, dtype: torch.dtype, device: torch.device) -> Tensor:
    """cos and sin as the core rotates by them, [rows + 1, 2, pairs]; the last row is NaN."""
    plan, encoding = _plan_of(spec, length), encoding_of(spec)
    if encoding.config["query.temperature"] != "none":
        encoding = encoding.replace(query__temperature="none")
    with torch.device("cpu"), torch.inference_mode(False), torch.no_grad():
        basis = torch.zeros(1, 1, plan.made_rows, plan.channels, dtype=dtype)
        _pairs_of(basis, plan, plan.read)[0].fill_(1)
        rotated = encoding.rotate(basis, 0, layout="bhsd", role=role, length=length)
        both = torch.stack([one[0, 0] for one in _pairs_of(rotated, plan, plan.write)], 1)
        return torch.cat((both, torch.full_like(both[:1], float("nan")))).to(device)


@torch.library.custom_op(
    "gyre::table_rows",
    mutates_args=(),
    schema="(Tensor rows, str encoding, SymInt length, str role, bool double) -> Tensor",
)
def _table_rows(rows: Tensor, encoding: str, length: int, role: str, double: bool) -> Tensor:
    """[..., 2, pairs]: cos and sin.  An operator, because a graph would otherwise hold the table."""
    dtype = torch.float64 if double else torch.float32
    plan = _plan_of(encoding, length)
    key = encoding, plan.made_rows, plan.variant, role, dtype, rows.device
    table = made_tables.get(key)
    if table is None:
        table = _make_table(encoding, length, role, dtype, rows.device)
        keep(made_tables, key, table, 16)
    return _rows(used(table), rows)


@_table_rows.register_fake
def _(rows: Tensor, encoding: str, length: int, role: str, double: bool) -> Tensor:
    shape = (*rows.shape, 2, _plan_of(encoding, length).pairs)
    return rows.new_empty(shape, dtype=torch.float64 if double else torch.float32)


def _table_rows_of_each(info: Any, in_dims: Any, rows: Tensor, *rest: Any) -> tuple[Tensor, int]:
    return _table_rows(rows.movedim(in_dims[0], 0), *rest), 0


torch.library.register_vmap("gyre::table_rows", _table_rows_of_each)


def constant(numbers: tuple[float, ...], dtype: torch.dtype, like: Tensor) -> Tensor:
    """Numbers on the device of a tensor, copied there once."""
    if torch.compiler.is_compiling():
        return torch.tensor(numbers, dtype=dtype, device=like.device)
    if isinstance(like, FakeTensor):
        with like.fake_mode:
            return torch.tensor(numbers, dtype=dtype, device=like.device)
    key = numbers, dtype, like.device
    found = _made.get(key)
    if found is None:
        with torch.inference_mode(False):
            found = torch.tensor(numbers, dtype=dtype, device=like.device)
        if not isinstance(found, FakeTensor):
            keep(_made, key, found, 256)
    return found if isinstance(found, FakeTensor) else used(found)


def constants_of(plan: Plan, like: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """What the kernel of _fused reads: increments, the axis of each pair, and decays."""
    each = plan.whole, plan.axis or (0,) * plan.pairs, plan.decays or (0,)
    found = [constant(numbers, torch.int64, like) for numbers in each]
    return found[0], found[1], found[2]


def _rows(table: Tensor, at: Tensor) -> Tensor:
    """table[at]."""
    return table.index_select(0, at.reshape(-1)).reshape(*at.shape, *table.shape[1:])


# -- angles --


def _positions_of_pairs(positions: Tensor, plan: Plan) -> Tensor:
    """[..., tokens, 1], or [..., tokens, pairs] where pairs have different axes; int64."""
    at = positions.long()
    if not plan.axis or at.dim() == 1:
        return at.unsqueeze(-1)
    return at.index_select(0, constant(plan.axis, torch.int64, at)).movedim(0, -1)


class Increments(NamedTuple):
    """Of the phase, for each pair: 32 bits each, int64; and the attention factor, of no axis where it is a tensor."""

    high: Tensor
    low: Tensor
    factor: Tensor | float


def phase_angles(positions: Tensor, plan: Plan, by: Increments, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """The phase in two halves, 2^-32 and 2^-64 turns; neither product leaves 64 bits for positions up to 2^31.

    Graphs and devices without doubles: polynomials of floats, 46 operations that a compiler makes one of.  Else cos and sin
    of doubles, 13 that are launched.
    """
    at, (high, low, factor) = _positions_of_pairs(positions, plan), by
    polynomials = torch.compiler.is_compiling() or not has_doubles(positions.device)
    product = at * low
    top = (at * high + (product >> 32)) & 0xFFFFFFFF
    if dtype != torch.float64 and not polynomials:
        turned = top.double() * (torch.pi * 2.0**-31)
        return (turned.cos() * factor).to(dtype), (turned.sin() * factor).to(dtype)
    quarter = (top + (1 << 29)) >> 30
    rest, below = top - (quarter << 30), product & 0xFFFFFFFF
    if dtype == torch.float64:
        angle = (rest.double() + below.double() * 2.0**-32) * (torch.pi / 2 * 2.0**-30)
        cosine, sine = angle.cos(), angle.sin()
    else:
        cosine, sine = _polynomials(((rest << 16) + (below >> 16)).float() * 2.0**-45)
    swap = (quarter & 1) != 0
    across, along = torch.where(swap, sine, cosine), torch.where(swap, cosine, sine)
    negative = ((quarter + 1) & 2) != 0
    cosine, sine = torch.where(negative, -across, across), torch.where((quarter & 2) != 0, -along, along)
    return (cosine, sine) if isinstance(factor, float) and factor == 1 else (cosine * factor, sine * factor)


def _polynomials(y: Tensor) -> tuple[Tensor, Tensor]:
    """cos and sin of y eighths of a turn, as gyre_device.h computes them."""
    z = y * y
    c = ((z * 3.5313346e-6 - 3.2594200e-4) * z + 1.5854327e-2) * z - 3.0842513e-1
    s = ((z * -3.5877260e-5 + 2.4898720e-3) * z - 8.0745369e-2) * z + 2.6894206e-8
    return z * c + 1.0, y * 7.8539813e-1 + y * s


def has_doubles(device: torch.device) -> bool:
    """MPS has none, nor have some GPUs of Intel."""
    if device.type == "xpu" and torch.xpu.is_available():
        return bool(torch.xpu.get_device_properties(device).has_fp64)
    return device.type != "mps"


def _angles(
    positions: Tensor, spec: str, length: int, role: str, dtype: torch.dtype, by: Increments | None
) -> tuple[Tensor, Tensor]:
    """cos and sin, attention factor and xPos's magnitude included: [tokens, pairs] or [batch, tokens, pairs]."""
    plan = plan_of(spec, length)
    if by is not None:
        return phase_angles(positions, plan, by, dtype)
    if plan.high:
        high, low = (constant(part, torch.int64, positions) for part in (plan.high, plan.low))
        return phase_angles(positions, plan, Increments(high, low, plan.factor), dtype)
    at = positions.long()
    row = torch.where((at < 0) | (at >= plan.rows), plan.made_rows, at)
    of = role if plan.by_role else "query"
    both = _table_rows(row, spec, length, of, dtype == torch.float64).unbind(-2)
    return both[0], both[1]


@lru_cache(maxsize=1024)
def _angles_alone_of(spec: str) -> str:
    """The encoding without xPos's magnitudes, which differ by role."""
    encoding = encoding_of(spec)
    if not encoding.config["rope.xpos_base"]:
        return spec
    return encoding.replace(rope__xpos_base=0, rope__xpos_center=0)._spec


def _angles_alone_constant(spec: str) -> str:
    return _angles_alone_of(spec)


angles_alone: Callable[[str], str] = _untyped.assume_constant_result(_angles_alone_constant)


def _temperature_at(positions: Tensor, plan: Plan, dtype: torch.dtype) -> Tensor:
    """[tokens] or [batch, tokens]."""
    assert plan.temperature is not None
    kind, reference, slope = plan.temperature
    at = positions.long()
    at = at.select(0, 0) if plan.axes > 1 and at.dim() > 1 else at
    if kind == "log":
        grown = (at + 1).clamp(min=1).to(dtype).log() / math.log(reference)
        return torch.where(at < reference, torch.ones_like(grown), grown)
    steps = torch.div((at + 1 if kind == "llama4" else at).clamp(min=0), reference, rounding_mode="floor")
    return steps.to(dtype).log1p() * slope + 1.0


def cos_sin(positions: Tensor, spec: str, length: int, by: Increments | None = None) -> tuple[Tensor, Tensor]:
    """As the operator gyre::cos_sin, without xPos's magnitudes; float32 [..., tokens, pairs].  by: increments in place of the
    encoding's at that length."""
    return _angles(positions, angles_alone(spec), length, "query", torch.float32, by)


# -- rotation --


def _pairs_of(x: Tensor, plan: Plan, layout: str) -> tuple[Tensor, Tensor]:
    """Views of both members of the pairs of the last axis."""
    part, pairs = x.narrow(-1, plan.first, 2 * plan.pairs), plan.pairs
    half = layout == "half"
    two = part.view(*part.shape[:-1], *((2, pairs) if half else (pairs, 2))).unbind(-2 if half else -1)
    return two[0], two[1]


def _joined(x: Tensor, first: Tensor, second: Tensor, plan: Plan, layout: str) -> Tensor:
    """Those members, with the channels of x that are in no pair."""
    turned = torch.stack((first, second), -2 if layout == "half" else -1).flatten(-2)
    after = plan.channels - plan.first - 2 * plan.pairs
    if plan.first == 0 and after == 0:
        return turned
    return torch.cat((x.narrow(-1, 0, plan.first), turned, x.narrow(-1, plan.channels - after, after)), -1)


def _beside(numbers: Tensor, letters: str, trailing: int) -> Tensor:
    """Numbers of tokens, [tokens, ...] or [batch, tokens, ...], with the axes that x has without its channels."""
    has_batch = numbers.dim() - trailing == 2 and "b" in letters
    if numbers.dim() - trailing == 2 and not has_batch:
        numbers = numbers.select(0, 0)
    if has_batch and letters.index("s") < letters.index("b"):
        numbers = numbers.transpose(0, 1)
    for i, letter in enumerate(letters):
        if letter == "h" or (letter == "b" and not has_batch):
            numbers = numbers.unsqueeze(i)
    return numbers


def check(x: Tensor, name: str, positions: Tensor | None, plan: Plan, letters: str) -> None:
    """Refuses what check_rotation refuses, of what is known before a graph runs."""
    check_tensor(x, name, letters, REAL)
    check_device(**{name: x}, positions=positions)
    channels = x.shape[letters.index("d")]
    if plan.kind == "rope" and channels != plan.channels:
        raise Error("ESHAPE", f"{name}: {channels} channels a head, the encoding has {plan.channels}", name)
    if positions is not None:
        batch = x.shape[letters.index("b")] if "b" in letters else 1
        check_positions(positions, plan.axes, batch, x.shape[letters.index("s")])


def _turn(x: Tensor, angles: tuple[Tensor, Tensor], heat: Tensor | None, plan: Plan, letters: str, back: bool) -> Tensor:
    channel = letters.index("d")
    rest = letters.replace("d", "")
    given = x.movedim(channel, -1)
    work = given if given.dtype in (torch.float32, torch.float64) else given.float()
    if heat is not None:
        work = work * _beside(heat, rest, 0).unsqueeze(-1)
    if plan.pairs:
        cosine, sine = (_beside(one, rest, 1) for one in angles)
        a, b = _pairs_of(work, plan, plan.write if back else plan.read)
        sine = -sine if back else sine
        work = _joined(work, a * cosine - b * sine, a * sine + b * cosine, plan, plan.read if back else plan.write)
    return work.to(x.dtype).movedim(-1, channel)


def positions_from(first: int, x: Tensor, letters: str) -> Tensor:
    """first, first + 1, ..., one for each token of x."""
    tokens = x.shape[letters.index("s")]
    check_first(first, tokens)
    return torch.arange(tokens, device=x.device) + first


def check_alike(q: Tensor, k: Tensor, layout: str) -> None:
    """Refuses queries and keys that differ in more than their heads."""
    check_device(q=q, k=k)
    if any(q.shape[i] != k.shape[i] for i in range(q.dim()) if layout[i] != "h"):
        text = f"k: has shape {list(k.shape)}, but q has {list(q.shape)}: they may differ in their heads alone"
        raise Error("ESHAPE", text, "k")


def _each(
    tensors: tuple[tuple[str, Tensor, str], ...], positions: Tensor | None, first: int, spec: str, layout: str, back: bool, length: int,
    by: Increments | None,
) -> list[Tensor]:  # fmt: skip
    """Tensors by name and role, rotated at the same positions."""
    plan, letters = plan_of(spec, length), layout.replace("t", "s")
    for name, x, _ in tensors:
        check(x, name, positions, plan, letters)
    _, lead, _ = tensors[0]
    positions = positions_from(first, lead, letters) if positions is None else positions
    given = tuple(x for _, x, _ in tensors)
    if by is None and _fused.takes(plan, *given):
        turn = _fused.Turn(plan, letters, back, tensors[0][2])
        return list(_fused.rotate(turn, given, positions, constants_of(plan, lead)))
    found: list[Tensor] = []
    angles: dict[tuple[str, torch.dtype], tuple[Tensor, Tensor]] = {}
    for _, x, role in tensors:
        dtype = torch.float64 if x.dtype == torch.float64 else torch.float32
        key = role if plan.by_role else "", dtype
        if plan.pairs and key not in angles:
            angles[key] = _angles(positions, spec, length, role, dtype, by)
        heat = _temperature_at(positions, plan, dtype) if plan.temperature and role == "query" else None
        both = angles[key] if plan.pairs else (x, x)
        found.append(_turn(x, both, heat, plan, letters, back))
    return found


def rotate(
    x: Tensor, positions: Tensor | None, first: int, spec: str, layout: str, role: str, direction: str, length: int,
    by: Increments | None = None,
) -> Tensor:  # fmt: skip
    """As the operator gyre::rotate; by: as in cos_sin."""
    return _each((("x", x, role),), positions, first, spec, layout, direction != "forward", length, by)[0]


def rotate_pair(
    q: Tensor, k: Tensor, positions: Tensor | None, first: int, spec: str, layout: str, direction: str, length: int,
    by: Increments | None = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """As the operator gyre::rotate_pair; by: as in cos_sin."""
    check_alike(q, k, layout)
    both = (("q", q, "query"), ("k", k, "key"))
    found = _each(both, positions, first, spec, layout, direction != "forward", length, by)
    return found[0], found[1]


@contextlib.contextmanager
def forcing(wanted: bool = True) -> Iterator[None]:
    """Has tensors of the processor take this way, or not, for tests."""
    global forced
    before, forced = forced, wanted
    try:
        yield
    finally:
        forced = before
