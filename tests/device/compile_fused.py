"""Compiles gyre.torch's Triton kernels for devices that need not be there: each layout that is read and written, back and
forth, xPos, norms, their gradient and the write to a cache, in bfloat16 and float32."""

from __future__ import annotations

from itertools import product
from typing import Any

import triton
from gyre.torch._kernels import normed_gradient, rotate_heads
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

TARGETS = ((GPUTarget("cuda", 80, 32), "cubin"), (GPUTarget("cuda", 90, 32), "cubin"), (GPUTarget("hip", "gfx942", 64), "hsaco"))
SHAPE = {"PAIRS": 48, "FIRST": 8, "REST": 32, "BLOCK_PAIRS": 64, "BLOCK_REST": 32, "BLOCK_HEADS": 4}
POINTERS = {"positions": "*i64", "increments": "*i64", "axes": "*i64", "decays": "*i64", "slots": "*i64"}
WEIGHTS = ("q_weight", "k_weight")
SUMS = ("q_to_weight", "k_to_weight")
TENSORS = ("q", "q_out", "q_gradient", "k", "k_out", "k_gradient", "v", "k_cache", "v_cache")
COUNTS = ("tokens", "q_heads", "k_heads", "v_heads", "v_channels", "page_tokens", "center")


def type_of(name: str, kind: str, constants: dict[str, Any]) -> str:
    if name in constants:
        return "constexpr"
    if name in TENSORS or name in WEIGHTS:
        return kind
    if name in POINTERS or name in SUMS:
        return POINTERS.get(name, "*fp32")
    return "fp32" if name in ("factor", "epsilon") else "i32" if name in COUNTS else "i64"


# (READ_HALF, WRITE_HALF, BACK): half and interleaved each way, and interleaved-to-half, which the adjoint writes the other way.
LAYOUTS = [(half, half, back) for half, back in product((True, False), repeat=2)] + [(False, True, False), (True, False, True)]
PLAIN = {"XPOS": 0, "NORM": False, "CACHED": False, "BLOCK_VALUES": 1}
CASES: list[tuple[Any, dict[str, Any]]] = [
    (rotate_heads, {**PLAIN, "READ_HALF": read, "WRITE_HALF": write, "BACK": back}) for read, write, back in LAYOUTS
]
HALF = {"READ_HALF": True, "WRITE_HALF": True}
CASES += [(rotate_heads, {**PLAIN, **HALF, "XPOS": role, "BACK": role < 0}) for role in (1, -1)]
CASES += [
    (rotate_heads, {**HALF, "BACK": False, "XPOS": xpos, "NORM": norm, "CACHED": cached, "BLOCK_VALUES": 128 if cached else 1})
    for xpos, norm, cached in ((0, True, False), (0, True, True), (0, False, True), (1, True, True))
]
CASES += [(normed_gradient, {**HALF, "XPOS": xpos}) for xpos in (0, 1)]

for target, form in TARGETS:
    sizes = []
    for (kernel, more), kind in product(CASES, ("*bf16", "*fp32")):
        constants = {**SHAPE, **more}
        signature = {name: type_of(name, kind, constants) for name in kernel.arg_names}
        compiled = triton.compile(ASTSource(kernel, signature, constexprs=constants), target=target)
        sizes.append(len(compiled.asm[form]))
    print(f"{target.backend} {target.arch}: {len(sizes)} of {form}, {min(sizes)} to {max(sizes)} bytes, not run")
