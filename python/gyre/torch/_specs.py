"""Arguments of the operators of torch."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy
import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.autograd import forward_ad as untyped

from gyre._encoding import BY_LENGTH, Encoding
from gyre._errors import Error
from gyre._specs import encoding_of, spec_of

if TYPE_CHECKING:
    from typing_extensions import TypeIs

__all__ = [
    "LONG_REAL",
    "REAL",
    "SHORT_REAL",
    "WHOLE",
    "check_angle_positions",
    "check_core_device",
    "check_device",
    "check_fake",
    "check_first",
    "check_layout",
    "check_numbers",
    "check_positions",
    "check_rotation",
    "check_rows",
    "check_score_positions",
    "check_tables",
    "check_tensor",
    "depends_on_length",
    "dtype_text",
    "encoding_of",
    "forward_ad",
    "is_whole",
    "length_of",
    "no_tangent",
    "not_rotating",
    "options_of",
    "spec_of",
    "split_positions",
    "tensor",
    "whole",
    "word",
]


@lru_cache(maxsize=1024)
def options_of(text: str) -> dict[str, Any]:
    """The options of a call; not to be changed."""
    options: dict[str, Any] = json.loads(text)
    if isinstance(options.get("window"), list):
        options["window"] = tuple(options["window"])
    return options


def split_positions(positions: Any, name: str = "positions") -> tuple[torch.Tensor | None, int]:
    """(a tensor, 0) or (None, the first position)."""
    if positions is None or isinstance(positions, torch.Tensor):
        return positions, 0
    if is_whole(positions):
        return None, whole(positions, name)
    raise Error("EINVAL", f"{name}: is a {type(positions).__name__}, not a tensor or an int", name)


def is_whole(value: Any) -> TypeIs[int]:
    """Whether a value is one whole number: an int, or numpy's."""
    return isinstance(value, (int, torch.SymInt, numpy.integer))


def whole(value: Any, name: str) -> Any:
    """A number that an operator takes as one; torch.compile may have it open."""
    if isinstance(value, torch.SymInt):
        return value
    if isinstance(value, bool) or not hasattr(type(value), "__index__"):
        raise Error("EINVAL", f"{name}: is {value!r}, not a whole number", name)
    value = int(value)
    if not -(2**63) <= value < 2**63:
        raise Error("EINVAL", f"{name}: is {value}, not a whole number of 64 bits", name)
    return value


def number(value: Any, name: str) -> Any:
    """A real number, or None."""
    if value is None or isinstance(value, (float, torch.SymFloat, torch.SymInt)):
        return value
    if isinstance(value, bool) or not (hasattr(type(value), "__index__") or hasattr(type(value), "__float__")):
        raise Error("EINVAL", f"{name}: is {value!r}, not a number", name)
    return float(value)


def optional_tensor(x: Any, name: str) -> torch.Tensor | None:
    """x, if it is a tensor or None."""
    return None if x is None else tensor(x, name)


def length_of(length: Any) -> int:
    """A context length; 0 = that of the encoding."""
    if length is None:
        return 0
    found: int = whole(length, "length")
    if found < 0:
        raise Error("EINVAL", f"length: is {found}, not a number of tokens, 0 or more", "length")
    return found


def no_tangent(**given: Any) -> None:
    """Refuses tangents of forward-mode derivatives, which an operator without a rule for them would drop."""
    if forward_ad._current_level < 0:
        return
    for name, x in given.items():
        for one in x if isinstance(x, (list, tuple)) else [x]:
            if isinstance(one, torch.Tensor) and forward_ad.unpack_dual(one).tangent is not None:
                text = f"{name}: has a forward-mode tangent (jvp, jacfwd), which is not supported; use reverse mode"
                raise Error("EUNSUPPORTED", text, name)


def word(value: Any, name: str, words: tuple[str, ...]) -> str:
    """One of some words."""
    if not isinstance(value, str) or value not in words:
        raise Error("EINVAL", f"{name}: is {value!r}, not one of {', '.join(repr(one) for one in words)}", name)
    return value


def tensor(x: Any, name: str) -> torch.Tensor:
    """x, if it is a tensor."""
    if not isinstance(x, torch.Tensor):
        raise Error("EINVAL", f"{name}: is a {type(x).__name__}, not a tensor of torch", name)
    return x


forward_ad: Any = untyped  # its functions have no types
REAL = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
SHORT_REAL, LONG_REAL = REAL[:3], REAL[2:]
WHOLE = (torch.int32, torch.int64)
MOST_POSITION = 2**31
_TABLES = ("input", "query", "key", "value", "bias", "content_bias", "position_bias")


def check_device(**given: Any) -> None:
    """Refuses tensors of several devices.  For operators without memory: torch runs these where any tensor has none, and
    on the processor they would return uninitialised memory."""
    first: tuple[str, torch.Tensor] | None = None
    for name, x in given.items():
        for one in x if isinstance(x, (list, tuple)) else [x]:
            if not isinstance(one, torch.Tensor):
                continue
            first = first or (name, one)
            if one.device.type == first[1].device.type:
                continue
            odd, other = ((name, one), first) if one.device.type != "cpu" else (first, (name, one))
            text = f"{odd[0]}: is on {odd[1].device}, but {other[0]} is on {other[1].device}: pass both on one device"
            raise Error("EUNSUPPORTED", text, odd[0])


def check_core_device(**given: Any) -> None:
    """The same for operators that compute on the processor alone: refuses other devices, as the core does real tensors there."""
    check_device(**given)
    for name, x in given.items():
        for one in x if isinstance(x, (list, tuple)) else [x]:
            if isinstance(one, torch.Tensor) and one.device.type not in ("cpu", "meta"):
                text = f"{name}: is on {one.device}, but Gyre computes on the processor: pass a copy in its memory"
                raise Error("EUNSUPPORTED", text, name)


def check_fake(**given: Any) -> None:
    """Refuses real tensors beside fake ones, for which torch has a message about its own workings."""
    if torch.compiler.is_compiling():
        return
    each = [(name, one) for name, x in given.items() for one in (x if isinstance(x, (list, tuple)) else [x])]
    fake = [isinstance(one, FakeTensor) for _, one in each if isinstance(one, torch.Tensor)]
    if not any(fake) or all(fake):
        return
    for name, one in each:
        if isinstance(one, FakeTensor):
            mode: Any = one.fake_mode
            if mode.allow_non_fake_inputs:
                return
    for name, one in each:
        if isinstance(one, torch.Tensor) and not isinstance(one, FakeTensor):
            text = f"{name}: is a tensor with numbers beside fake ones: make it under the FakeTensorMode, or with its from_tensor"
            raise Error("EINVAL", text, name)


def depends_on_length(encoding: Encoding) -> bool:
    """Does the context length in use change its frequencies?"""
    return encoding.config["rope.scaling"] in BY_LENGTH


def dtype_text(x: torch.Tensor) -> str:
    """ "float32", ..."""
    return str(x.dtype).removeprefix("torch.")


def check_layout(x: torch.Tensor, layout: str | None, name: str = "x") -> str:
    """The layout of x, which is "bhsd" for four axes and "thd" for three where none is given."""
    if layout is not None and not isinstance(layout, str):
        raise Error("EINVAL", f"layout: is {layout!r}, not letters of axes such as 'bhsd', 'bshd' or 'thd'", "layout")
    layout = layout or ("thd" if x.dim() == 3 else "bhsd")
    if len(layout) != x.dim():
        raise Error("ESHAPE", f"{name}: has {x.dim()} axes, but layout {layout!r} has {len(layout)}", name)
    return layout


def _check_type(x: torch.Tensor, name: str, types: tuple[torch.dtype, ...]) -> None:
    """Refuses other types."""
    if x.dtype not in types:
        *most, last = (str(one).removeprefix("torch.") for one in types)
        raise Error("EDTYPE", f"{name}: is of type {dtype_text(x)}, not {', '.join(most)} or {last}", name)


def _check_axes(x: torch.Tensor, name: str, layout: str, axes: int) -> None:
    letters = layout.replace("t", "s")
    if len(set(letters)) != len(letters) or not {"s", "d"} <= set(letters) <= set("bhsd"):
        text = f"layout: is {layout!r}, not letters of axes such as 'bhsd', 'bshd' or 'thd': b batch, s or t token, h head, d channel"
        raise Error("EINVAL", text, "layout")
    if x.dim() != axes:
        raise Error("ESHAPE", f"{name}: has {x.dim()} axes, but layout {layout!r} has {axes}: pass layout=", name)


def check_tensor(x: torch.Tensor, name: str, layout: str, types: tuple[torch.dtype, ...]) -> None:
    """Refuses what the core refuses of a type and a number of axes; for tensors without memory."""
    _check_axes(x, name, layout, len(layout))
    _check_type(x, name, types)


def check_rows(x: torch.Tensor, name: str, layout: str, types: tuple[torch.dtype, ...]) -> None:
    """The same for numbers of tokens and heads, which have the axes of a layout but channels."""
    _check_axes(x, name, layout, len(layout) - 1)
    _check_type(x, name, types)


def check_numbers(x: torch.Tensor, name: str, form: str, wanted: Sequence[Any]) -> None:
    """Refuses what the core refuses of trained numbers.  wanted: an extent or several for each axis, None = any; what
    torch.compile keeps open is not looked at."""
    if x.dim() != len(wanted):
        raise Error("ESHAPE", f"{name}: has {x.dim()} axes, not {form}", name)
    _check_type(x, name, LONG_REAL)
    for extent, right in zip(x.shape, wanted, strict=True):
        allowed = right if isinstance(right, tuple) else (right,)
        if all(isinstance(one, int) for one in (extent, *allowed)) and extent not in allowed:
            raise Error("ESHAPE", f"{name}: has shape {list(x.shape)}, not {form} with {' or '.join(map(str, allowed))}", name)


def check_positions(positions: torch.Tensor, axes: int, batch: Any, tokens: Any, name: str = "positions") -> None:
    """Refuses what the core refuses of positions; extents that torch.compile keeps open are not looked at."""
    if positions.dtype not in WHOLE:
        raise Error("EDTYPE", f"{name}: is of type {dtype_text(positions)}, not int32 or int64", name)
    shape, several = list(positions.shape), axes > 1
    wanted: list[Any] = [axes, batch, tokens] if several else [batch, tokens]
    lead = wanted[:-1] if len(shape) == len(wanted) else wanted[:1] if several and len(shape) == 2 else []
    good = len(shape) == len(lead) + 1
    for i, (extent, right) in enumerate(zip(shape, [*lead, tokens], strict=False)):
        if isinstance(extent, int) and isinstance(right, int) and extent != right:
            good = good and extent == 1 and i == len(lead) - 1 and not (several and i == 0)
    if not good:
        forms = f"[tokens] or [batch, tokens] with batch {batch} and"
        if several:
            forms = f"[tokens], [axes, tokens] or [axes, batch, tokens] with {axes} axes, batch {batch},"
        raise Error("ESHAPE", f"{name}: has shape {shape}, not {forms} {tokens} tokens", name)


def check_first(first: Any, tokens: Any) -> None:
    """Refuses a first position from which some token is past 2^31; what torch.compile keeps open is not looked at."""
    if not isinstance(first, int):
        return
    past = 0 if abs(first) > MOST_POSITION else MOST_POSITION + 1 - first
    if past == 0 or (isinstance(tokens, int) and tokens > past):
        raise Error("ERANGE", f"positions: {first + past} of token {past} is past 2^31", "positions")


def check_angle_positions(positions: torch.Tensor, axes: int) -> None:
    """Refuses what the core refuses of positions whose own shape gives the rows and the tokens."""
    several = axes > 1
    if positions.dim() < 1 or positions.dim() > 2 + several:
        raise Error("ESHAPE", f"positions: has {positions.dim()} axes, not 1 .. {2 + several}", "positions")
    batch = positions.shape[-2] if positions.dim() > 1 + several else 1
    check_positions(positions, axes, batch, positions.shape[-1])


def check_score_positions(queries: torch.Tensor, keys: torch.Tensor) -> list[Any]:
    """Refuses what the core refuses of the positions of scores.  Returns [the batch], or [] where neither has one."""
    both = (("queries", queries), ("keys", keys))
    for name, x in both:
        if x.dim() not in (1, 2):
            raise Error("ESHAPE", f"{name}: has {x.dim()} axes, not [tokens] or [batch, tokens]", name)
    rows = [x.shape[0] for _, x in both if x.dim() == 2]
    known = [one for one in rows if isinstance(one, int)]
    batch = max([1, *known]) if len(known) == len(rows) else next(one for one in rows if not isinstance(one, int))
    for name, x in both:
        check_positions(x, 1, batch, x.shape[-1], name)
    return [batch] if rows else []


def _fits(shape: Sequence[Any], wanted: Sequence[int]) -> bool:
    """Whether a table has a shape of four axes, of which those of extent 1 may be left out."""
    at = 0
    for i, extent in enumerate(wanted):
        if extent == 1 and len(shape) - at < len(wanted) - i:
            continue
        if at >= len(shape) or (isinstance(shape[at], int) and shape[at] != extent):
            return False
        at += 1
    return at == len(shape)


def check_tables(
    tables: Sequence[torch.Tensor], names: Sequence[str], kind: str, shapes: Sequence[tuple[str, tuple[int, ...]]]
) -> None:
    """Refuses what the core refuses of tables, from what is known without their numbers.  shapes: Encoding.table_shapes."""
    each = dict(shapes)
    if tables and names[0] == "":
        if len(each) != 1:
            raise Error("EINVAL", f"tables: {kind} has {len(each)} tables: pass a dict of arrays by name", "tables")
        names = list(each)
    for name, table in zip(names, tables, strict=True):
        if name not in _TABLES:
            known = ", ".join([f"'{one}'" for one in _TABLES])
            raise Error("EINVAL", f"tables: a key is none of {known}", "tables")
        if name not in each:
            raise Error("EINVAL", f"tables: {kind} has no table '{name}'", "tables")
        if table.dtype not in LONG_REAL:
            raise Error("EDTYPE", f"{name}: is of type {dtype_text(table)}, not float32 or float64", name)
        if not _fits(table.shape, each[name]):
            text = f"tables: '{name}' is not of shape {list(each[name])} (axes of extent 1 may be left out)"
            raise Error("ESHAPE", text, "tables")


def not_rotating(kind: str) -> Error:
    """The core's refusal of an encoding that does not rotate."""
    text = f"encoding: {kind} does not rotate: Encoding.places says where it acts, and gyre.attention applies it"
    return Error("EUNSUPPORTED", text, "encoding")


def check_rotation(x: torch.Tensor, name: str, positions: torch.Tensor | None, encoding: str, layout: str) -> None:
    """Refuses what the core refuses of a rotation, for tensors without memory."""
    check_tensor(x, name, layout, REAL)
    check_device(**{name: x}, positions=positions)
    if "query and key" not in encoding_of(encoding).places:
        raise not_rotating(encoding_of(encoding).kind)
    config = encoding_of(encoding).config
    channels = x.shape[layout.index("d")]
    if config["kind"] == "rope" and channels != config["head_dim"]:
        raise Error("ESHAPE", f"{name}: {channels} channels a head, the encoding has {config['head_dim']}", name)
    if positions is not None:
        batch = x.shape[layout.index("b")] if "b" in layout else 1
        tokens = x.shape[layout.replace("t", "s").index("s")]
        check_positions(positions, max(1, config["rope.axes"]), batch, tokens)
