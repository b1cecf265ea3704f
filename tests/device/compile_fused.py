"""Compiles gyre.torch's Triton kernel for devices that need not be there: each layout, back and forth, in bfloat16 and
float32."""

from __future__ import annotations

from typing import Any

import triton
from gyre.torch._kernels import rotate_heads
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

TARGETS = ((GPUTarget("cuda", 80, 32), "cubin"), (GPUTarget("cuda", 90, 32), "cubin"), (GPUTarget("hip", "gfx942", 64), "hsaco"))
SHAPE = {"PAIRS": 48, "FIRST": 8, "REST": 32, "BLOCK_PAIRS": 64, "BLOCK_REST": 32, "BLOCK_HEADS": 4}


def type_of(name: str, kind: str, constants: dict[str, Any]) -> str:
    if name in constants:
        return "constexpr"
    if name in ("q", "q_out", "k", "k_out"):
        return kind
    if name in ("positions", "increments", "axes"):
        return "*i64"
    return "fp32" if name == "factor" else "i32" if name in ("tokens", "q_heads", "k_heads") else "i64"


for target, form in TARGETS:
    sizes = []
    for half, back, kind in ((True, False, "*bf16"), (False, True, "*fp32")):
        constants = {**SHAPE, "READ_HALF": half, "WRITE_HALF": not half or not back, "BACK": back}
        signature = {name: type_of(name, kind, constants) for name in rotate_heads.arg_names}
        compiled = triton.compile(ASTSource(rotate_heads, signature, constexprs=constants), target=target)
        sizes.append(len(compiled.asm[form]))
    print(f"{target.backend} {target.arch}: {form} of {' and '.join(map(str, sizes))} bytes, not run")
