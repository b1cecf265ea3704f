"""The exceptions of Gyre."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from typing import Any

from gyre._guesses import hint, hint_of_word

_STATUS = {
    -1: "EINVAL",
    -2: "ESHAPE",
    -3: "EDTYPE",
    -4: "ENOMEM",
    -5: "EFORMAT",
    -6: "EIO",
    -7: "EUNSUPPORTED",
    -8: "ERANGE",
}
# What the C interface calls an argument, and what Python calls it.
_ARGUMENTS = {
    "in": "x",
    "q_pos": "positions",
    "k_pos": "key_positions",
    "window_after": "window",
    "before": "old",
    "after": "new",
    "q_starts": "query_starts",
    "k_starts": "key_starts",
    "k_first": "key_first",
    "k_end": "key_end",
    "q_end": "query_end",
    "q_gate_sums": "query_gate_sums",
    "k_gate_sums": "key_gate_sums",
    "gates": "gate_sums",
    "from": "source",
    "to": "target",
    "context_length": "length",
    "new_positions.context_length": "new_length",
    "lengths": "documents",
}
_LENGTH = "pass length=, or set context_length or length_policy of the encoding"
_FILE_WORDS = ("opening", "writing", "reading", "closing")  # what the library was doing to a file


class Error(ValueError):
    """What Gyre refuses, and why.

    Attributes:
        status: "EINVAL", "ESHAPE", "EDTYPE", "ENOMEM", "EFORMAT", "EIO", "EUNSUPPORTED" or "ERANGE", as in gyre.h.
        text: "what: why".
        field: the argument or the field of a config at fault; None where there is none.
    """

    status: str
    text: str
    field: str | None

    def __init__(self, status: str, text: str, field: str | None = None) -> None:
        super().__init__(text)
        self.status = status
        self.text = text
        self.field = field

    def __str__(self) -> str:
        return self.text

    def __reduce__(self) -> tuple[type[Error], tuple[str, str, str | None]]:
        return type(self), (self.status, self.text, self.field)


class FileError(Error, OSError):
    """A file that cannot be read or written (status "EIO")."""


class OutOfMemory(Error, MemoryError):
    """Not enough memory, or no page of a cache is free (status "ENOMEM")."""


def _argument(name: str) -> str:
    """What Python calls an argument of C; "q_starts[2]" has an index behind it."""
    base, bracket, index = name.partition("[")
    if base not in _ARGUMENTS and base.endswith("positions.context_length") or base.endswith("_pos.context_length"):
        return "length"
    if base in ("queries.context_length", "keys.context_length"):
        return "length"
    return _ARGUMENTS.get(base, base) + bracket + index


def _of_two(text: str) -> str | None:
    """The one at fault where the library names two: "first, count: ..." and "k_first, k_end: ..."."""
    if found := re.match(r"first, count: -?\d+ tokens from (-?\d+) on of a sequence that has (\d+)", text):
        return "count" if 0 <= int(found[1]) <= int(found[2]) else "first"
    if found := re.match(r"k_first, k_end: keys (-?\d+) \.\. (-?\d+) of (?:sequence \d+, which|row \d+, whose sequence) has (\d+)", text):
        return "key_end" if 0 <= int(found[1]) <= int(found[3]) else "key_first"
    return None


def make(status: int, text: str, field: str | None) -> Error:
    """The exception for a gyre_status."""
    name = _STATUS.get(status, "EINVAL")
    text = re.sub(r" \(gyre_\w+\)$", "", text)
    if field is None:
        field = _of_two(text)
        text = text.replace("k_first, k_end:", "key_first, key_end:", 1)
    elif ((argument := _argument(field)) != field or field.startswith("starts[")) and text.startswith(field):
        text, field = argument + text[len(field) :], argument.partition("[")[0]
    text = re.sub(r"channels a head, (before|after) has", lambda found: f"channels a head, {_ARGUMENTS[found[1]]} has", text)
    text = re.sub(r"(\d+ queries have no) q_pos,", r"\1 positions,", text)
    text = re.sub(r"(tokens before) k_end$", r"\1 key_end", text)
    text = text.replace("set context_length in the call or the config, or length_policy in the config", _LENGTH)
    if found := re.search(r": is '([^']*)', not one of (.*)$", text):
        text += hint_of_word(found[1], re.findall(r"[^', ]+", found[2]))
    elif field and text.startswith(f"{field}: is not a field of a config"):
        from gyre._encoding import FIELDS  # which imports this file

        text += hint(field.replace("__", "."), FIELDS)
    if name == "EIO" and (field is None or field in _FILE_WORDS):
        text = text.removeprefix(f"{field}: ")
        text, field = f"path: {text}", "path"
    kind = {"EIO": FileError, "ENOMEM": OutOfMemory}.get(name, Error)
    return kind(name, text, field)


@contextlib.contextmanager
def calling(**names: str) -> Iterator[None]:
    """Names arguments as a function of Python does, whose helper has others: calling(path="source")."""
    try:
        yield
    except Error as why:
        name = names.get(why.field or "")
        if name is None:
            raise
        text = re.sub(rf"^{re.escape(why.field or '')}\b", name, why.text)
        raise type(why)(why.status, text, name) from why.__cause__


def path_text(path: Any, name: str) -> str:
    """The name of a file as a str.  Raises gyre.Error for what is none, and for one with a NUL."""
    if not isinstance(path, (str, bytes, os.PathLike)):
        raise Error("EINVAL", f"{name}: is a {type(path).__name__}, not a str or a pathlib.Path", name)
    text = os.fsdecode(path)
    if "\0" in text:
        raise Error("EINVAL", f"{name}: is {text!r}, but the name of a file has no NUL", name)
    return text

