"""Arguments of the operators of torch."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any

import torch

from gyre._errors import Error
from gyre._specs import encoding_of, spec_of

__all__ = ["check_layout", "encoding_of", "options_of", "spec_of", "split_positions", "tensor"]


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
    if isinstance(positions, int):
        return None, positions
    raise Error("EINVAL", f"{name}: is a {type(positions).__name__}, not a tensor or an int", name)


def tensor(x: Any, name: str) -> torch.Tensor:
    """x, if it is a tensor."""
    if not isinstance(x, torch.Tensor):
        raise Error("EINVAL", f"{name}: is a {type(x).__name__}, not a tensor of torch", name)
    return x


def check_layout(x: torch.Tensor, layout: str | None) -> str:
    """The layout of x, which is "bhsd" for four axes and "thd" for three where none is given."""
    layout = layout or ("thd" if x.dim() == 3 else "bhsd")
    if len(layout) != x.dim():
        raise Error("ESHAPE", f"x: has {x.dim()} axes, but layout {layout!r} has {len(layout)}", "x")
    return layout
