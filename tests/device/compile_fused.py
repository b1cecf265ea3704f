"""Compiles gyre.torch's Triton kernel for devices that need not be there: each layout that is read and written, back and
forth, in bfloat16 and float32."""

from __future__ import annotations

from itertools import product
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


# (READ_HALF, WRITE_HALF, BACK): half and interleaved each way, and interleaved-to-half, which the adjoint writes the other way.
CASES = [(half, half, back) for half, back in product((True, False), repeat=2)] + [(False, True, False), (True, False, True)]

for target, form in TARGETS:
    sizes = []
    for (read, write, back), kind in product(CASES, ("*bf16", "*fp32")):
        constants = {**SHAPE, "READ_HALF": read, "WRITE_HALF": write, "BACK": back}
        signature = {name: type_of(name, kind, constants) for name in rotate_heads.arg_names}
        compiled = triton.compile(ASTSource(rotate_heads, signature, constexprs=constants), target=target)
        sizes.append(len(compiled.asm[form]))
    print(f"{target.backend} {target.arch}: {len(sizes)} of {form}, {min(sizes)} to {max(sizes)} bytes, not run")
