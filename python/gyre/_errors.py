"""The exceptions of Gyre."""

from __future__ import annotations

import os
import re
from typing import Any

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
    "lengths": "documents",
}


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
    """No memory, or none of the pages of a cache is free (status "ENOMEM")."""


def make(status: int, text: str, field: str | None) -> Error:
    """The exception for a gyre_status."""
    name = _STATUS.get(status, "EINVAL")
    text = re.sub(r" \(gyre_\w+\)$", "", text)
    argument = re.sub(r"\[\d+\]$", "", field) if field else ""
    if argument in _ARGUMENTS:
        text = re.sub(rf"^{argument}\b", _ARGUMENTS[argument], text)
        field = _ARGUMENTS[argument]
    kind = {"EIO": FileError, "ENOMEM": OutOfMemory}.get(name, Error)
    return kind(name, text, field)


def path_text(path: Any, name: str) -> str:
    """The name of a file as a str.  Raises gyre.Error for what is none, and for one with a NUL."""
    if not isinstance(path, (str, bytes, os.PathLike)):
        raise Error("EINVAL", f"{name}: is a {type(path).__name__}, not a str or a pathlib.Path", name)
    text = os.fsdecode(path)
    if "\0" in text:
        raise Error("EINVAL", f"{name}: is {text!r}, but the name of a file has no NUL", name)
    return text

