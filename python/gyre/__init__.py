"""Position encodings and position-aware attention for Transformers, on anyone's arrays.

    enc = gyre.rope(128, base=5e5, scaling=gyre.Yarn(factor=4, trained_length=8192))
    q, k = enc.rotate_pair(q, k, positions)           # numpy, torch, JAX, ...; nothing is copied
    out = gyre.attention(q, k, v, encoding=enc, causal=True)
    gyre.Encoding.from_config("config.json").explain()

Arrays are read in place: numpy, torch, JAX, anything with __dlpack__ or the buffer protocol, any strides, float16,
bfloat16, float32 and float64.  Results are of the caller's kind.  Computing releases the GIL.  Errors are gyre.Error.
"""

from __future__ import annotations

import os as _os
from typing import Any as _Any

from gyre import _gyre
from gyre._command import Interrupted, diff, explain, extend
from gyre._encoding import Encoding, audit_cache, fields
from gyre._errors import Error, FileError, OutOfMemory
from gyre._gyre import (
    Cache,
    Caches,
    PreparedAttention,
    adaptive_attention,
    adaptive_gradient,
    angle_gradient,
    angle_rotate,
    attention,
    attention_gradient,
    contextual_attention,
    contextual_gradient,
    draw_positions,
    fourier_gradient,
    fourier_rotate,
    gate_sums,
    gate_sums_gradient,
    get_threads,
    paged_attention,
    polar_gradient,
    polar_rotate,
    rerotate,
    set_threads,
    trained_gradient,
    trained_rotate,
)
from gyre._kinds import (
    alibi,
    bert,
    deberta,
    fire,
    inkling,
    kerple,
    learned,
    multiplicative,
    nezha,
    nope,
    rope,
    sandwich,
    shaw,
    sinusoidal,
    t5,
    tapa,
    transformer_xl,
    xpos,
)
from gyre._model import Context, Model, Tokenizer, open
from gyre._options import of_kind as _of_kind
from gyre._positions import Batch, Grid, Shard, Shards
from gyre._results import Difference, Explanation, Extensions, Measurement, Result, TableAudit
from gyre._scalings import (
    ByParts,
    ByPartsPaper,
    DynamicNtk,
    DynamicYarn,
    Linear,
    Llama3,
    LongRope,
    Ntk,
    NtkMixed,
    Proportional,
    Riflex,
    RiflexPaper,
    Scaling,
    Yarn,
)

__version__ = _gyre.version()
if hasattr(_os, "register_at_fork"):
    _os.register_at_fork(after_in_child=_gyre.after_fork)

__all__ = [
    "Batch",
    "ByParts",
    "ByPartsPaper",
    "Cache",
    "Caches",
    "Context",
    "Difference",
    "DynamicNtk",
    "DynamicYarn",
    "Encoding",
    "Error",
    "Explanation",
    "Extensions",
    "FileError",
    "Grid",
    "Interrupted",
    "Linear",
    "Llama3",
    "LongRope",
    "Measurement",
    "Model",
    "Ntk",
    "NtkMixed",
    "OutOfMemory",
    "PreparedAttention",
    "Proportional",
    "Result",
    "Riflex",
    "RiflexPaper",
    "Scaling",
    "Shard",
    "Shards",
    "TableAudit",
    "Tokenizer",
    "Yarn",
    "adaptive_attention",
    "adaptive_gradient",
    "angle_gradient",
    "angle_rotate",
    "alibi",
    "attention",
    "attention_gradient",
    "audit_cache",
    "bert",
    "contextual_attention",
    "contextual_gradient",
    "deberta",
    "diff",
    "draw_positions",
    "explain",
    "extend",
    "fields",
    "fire",
    "fourier_gradient",
    "fourier_rotate",
    "gate_sums",
    "gate_sums_gradient",
    "get_threads",
    "inkling",
    "kerple",
    "learned",
    "multiplicative",
    "nezha",
    "nope",
    "open",
    "paged_attention",
    "polar_gradient",
    "polar_rotate",
    "rerotate",
    "rope",
    "sandwich",
    "set_threads",
    "shaw",
    "sinusoidal",
    "t5",
    "tapa",
    "trained_gradient",
    "trained_rotate",
    "transformer_xl",
    "xpos",
]


def __getattr__(name: str) -> _Any:
    return _of_kind(name)
