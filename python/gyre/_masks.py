"""Masks of attention."""

from __future__ import annotations

import sys
from typing import Any

import numpy


def additive(mask: Any) -> Any:
    """Numbers to add, for a mask of truth values of any framework: 0 where a query sees a key, else -inf."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(mask, torch.Tensor):
        return torch.zeros(mask.shape, dtype=torch.float32, device="cpu").masked_fill_(~mask, -torch.inf)
    return numpy.where(numpy.asarray(mask), numpy.float32(0), numpy.float32(-numpy.inf))
