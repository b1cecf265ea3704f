"""What operators of frameworks take in place of a Python object: an encoding as text."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any

from gyre._encoding import Encoding
from gyre._errors import Error


def spec_of(encoding: Any) -> str:
    """The text of an encoding.  It is a plain attribute: torch.compile reads it as a constant of the graph."""
    if not isinstance(encoding, Encoding):
        raise Error("EINVAL", f"encoding: is a {type(encoding).__name__}, not a gyre.Encoding", "encoding")
    return encoding._spec


@lru_cache(maxsize=1024)
def encoding_of(spec: str) -> Encoding:
    """The encoding of a text.  Encodings never change, so one serves every call with this text."""
    return Encoding(**json.loads(spec))
