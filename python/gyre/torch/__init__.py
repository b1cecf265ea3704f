"""Gyre in PyTorch: operators with gradients that torch.compile keeps whole, and a check of the rotary buffers of a model.

    q = gyre.torch.rotate(q, enc, positions)                       # differentiable; no graph break
    out = gyre.torch.attention(q, k, v, encoding=enc, causal=True)
    print(gyre.torch.audit(model))                                 # a model of transformers: are its rotary buffers right?
    with gyre.torch.patch(model): ...                              # its rotations are Gyre's

rotate, rotate_pair, bias, score_mod, mask_mod, RotaryEmbedding and patch take tensors of any device, the others those of
the processor.  Needs torch 2.4; audit, patch and register_attention need transformers.
"""

from __future__ import annotations

from typing import Any as _Any

from gyre._guesses import hint as _hint
from gyre.torch._adaptive import adaptive_attention
from gyre.torch._attention import attention, bias
from gyre.torch._audit import Audit, Finding, audit
from gyre.torch._contextual import contextual_attention
from gyre.torch._flex import mask_mod, score_mod
from gyre.torch._gates import gate_sums
from gyre.torch._interface import register_attention
from gyre.torch._layer import rotate_layer
from gyre.torch._module import RotaryEmbedding
from gyre.torch._patch import Patch, patch, unpatch
from gyre.torch._rotate import rotate, rotate_pair
from gyre.torch._shards import merge, shard_attention
from gyre.torch._trained import angle_rotate, fourier_rotate, polar_rotate, trained_rotate

__all__ = [
    "Audit",
    "Finding",
    "Patch",
    "RotaryEmbedding",
    "adaptive_attention",
    "angle_rotate",
    "attention",
    "audit",
    "bias",
    "contextual_attention",
    "fourier_rotate",
    "gate_sums",
    "mask_mod",
    "merge",
    "patch",
    "polar_rotate",
    "register_attention",
    "rotate",
    "rotate_layer",
    "rotate_pair",
    "score_mod",
    "shard_attention",
    "trained_rotate",
    "unpatch",
]


def __getattr__(name: str) -> _Any:
    raise AttributeError(f"module 'gyre.torch' has no attribute {name!r}{_hint(name, __all__)}", name=name, obj=None)
