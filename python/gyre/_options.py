"""Options of encodings, made from the description of a config (config.def): names, types, ranges, defaults."""

from __future__ import annotations

import inspect
import math
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from gyre._encoding import FIELDS, Encoding
from gyre._guesses import hint

# Options whose name is not the last part of their member's.
MEMBERS = {
    "truncate": "rope.fractional_bounds",
    "chunk_size": "rope.chunk.size",
    "local_size": "rope.chunk.local",
    "original_length": "rope.chunk.original_length",
    "temperature": "query.temperature",
    "reference_length": "query.reference_length",
    "slope": "query.slope",
    "clip": "rope.clip.mode",
    "clip_pairs": "rope.clip.pairs",
    "start_tokens": "rope.longrope.start_tokens",
    "starts": "rope.longrope.starts",
    "dype_time": "rope.diffusion.time",
    "dype_strength": "rope.diffusion.strength",
    "dype_exponent": "rope.diffusion.exponent",
}
_OPTIONS = {member: option for option, member in MEMBERS.items()}
_TYPES = {"number": "float", "flag": "bool", "choice": "str", "set": "Iterable[str]", "list": "Sequence[float]"}


def option_of(member: str) -> str:
    """The option that sets a member of gyre_config."""
    return _OPTIONS.get(member, member.rpartition(".")[2])


def default_of(member: str) -> Any:
    """What an option is where it is not given: None where only other fields say, or where it has no effect by itself."""
    field = FIELDS[member]
    if field["type"] == "flag":
        return member in MEMBERS.values()  # truncate, the opposite of its member
    return None if field["when"] else field["zero"] or field["standard"] or None


def type_of(member: str, default: Any) -> str:
    """The type of an option, as a stub has it."""
    return _TYPES.get(FIELDS[member]["type"], "int") + (" | None" if default is None else "")


def _plain(number: float) -> str:
    power = round(math.log2(abs(number))) if number else 0
    if abs(number) >= 2**20 or 0 < abs(number) < 0.01:
        return ("-" if number < 0 else "") + f"2^{power}"
    return f"{number:g}"


def describe(member: str, condition: bool = True) -> str:
    """The type of an option, its range, where it has an effect, and its default."""
    field = FIELDS[member]
    words = {"number": "a number", "flag": "True or False", "set": "a set of terms", "list": "a list of numbers"}
    text = words.get(field["type"], "a whole number")
    if field["type"] == "choice":
        text = ", ".join(f'"{name}"' for name in field["names"])
    low, high = field["minimum"], field["maximum"]
    if math.isfinite(low):
        text += f" {'above' if field['above'] else 'from'} {_plain(low)}" + (f" to {_plain(high)}" if math.isfinite(high) else " on")
    if condition and field["when"] and field["values"]:
        text += f", with {option_of(field['when'])} " + " or ".join(f'"{one}"' for one in field["values"])
    return text + (f"; None = {_plain(field['standard'])}" if field["when"] and field["standard"] else "")


def document(text: str, members: Iterable[tuple[str, str]], conditions: bool = True) -> str:
    """A docstring, with what the description says of each option, (name, member)."""
    rows = "".join(f"\n    {name}: {describe(member, conditions)}" for name, member in members)
    return f"{text}\n\nValues:{rows}" if rows else text


def members_of(
    kind: str,
    positional: Iterable[str] = (),
    *,
    place: str = "score",
    more: Iterable[str] = (),
    without: Iterable[str] = (),
    renamed: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Options of a kind, and their members: the fields that the kind has and not all have, those of `positional` first.

    more, without: members that it has too, and has not.  renamed: options by other names than their members'.
    """
    every = FIELDS["kind"]["kinds"]
    fields = [f["name"] for f in FIELDS.values() if kind in f["kinds"] and f["kinds"] != every and "[" not in f["name"]]
    new = dict(renamed or {})
    named = new | {option_of(m): m for m in [*fields, *more] if m not in {*new.values(), *without}}
    first = {name: named.pop(name, name if name in FIELDS else f"{place}.{name}") for name in positional}
    return first | named


def function(
    kind: str,
    text: str,
    members: Mapping[str, str],
    *,
    by_place: int = 1,
    required: Iterable[str] = (),
    defaults: Mapping[str, Any] | None = None,
    others: Mapping[str, str] | None = None,
    build: Callable[[dict[str, Any]], Encoding] | None = None,
) -> Callable[..., Encoding]:
    """The function that makes encodings of a kind.

    members: options and their members, of which the first `by_place` are given by place.  required: those without a default
    beside them.  others: types of options that are not fields.  build: makes the encoding of the options; None = encoding_of.
    """
    first, given = list(members)[:by_place], dict(defaults or {})
    parameters = []
    for name, member in members.items():
        default = given.get(name, inspect.Parameter.empty if name in (*first, *required) else default_of(member))
        by = inspect.Parameter.POSITIONAL_OR_KEYWORD if name in first else inspect.Parameter.KEYWORD_ONLY
        parameters.append(inspect.Parameter(name, by, default=default, annotation=(others or {}).get(name, type_of(member, default))))
    for name, annotation in (others or {}).items():
        if name not in members:
            parameters.append(inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation))
    signature = inspect.Signature(parameters, return_annotation="Encoding")

    def make(*args: Any, **kwargs: Any) -> Encoding:
        try:
            bound = signature.bind(*args, **kwargs)
        except TypeError as why:
            unknown = next((name for name in kwargs if name not in signature.parameters), "")
            raise TypeError(f"{make.__name__}() {why}{hint(unknown, signature.parameters)}") from None
        bound.apply_defaults()
        return build(bound.arguments) if build else encoding_of(kind, members, bound.arguments)

    make.__name__ = make.__qualname__ = kind.replace("-", "_")
    make.__doc__ = document(text, members.items())
    make.__signature__ = signature  # type: ignore[attr-defined]
    return make


def encoding_of(kind: str, members: Mapping[str, str], options: Mapping[str, Any], **more: Any) -> Encoding:
    """The encoding of options; one without a value keeps its default."""
    given = {members[name]: value for name, value in options.items() if value is not None}
    return Encoding(kind=kind, **given, **more)


def of_kind(name: str) -> Callable[..., Encoding]:
    """The function of a scheme that _kinds.py does not name: its fields are its options."""
    for kind in FIELDS["kind"]["names"]:
        if kind.replace("-", "_") == name:
            return function(kind, f"The scheme {kind!r} of docs/encodings.md.", members_of(kind, ["heads"]))
    known = sys.modules["gyre"].__all__
    raise AttributeError(f"module 'gyre' has no attribute {name!r}{hint(name, known)}", name=name, obj=None)
