#!/usr/bin/python3
"""Writes numpy_rows.json: frequencies, cos and sin as NumPy computes them on this CPU in float, in the order of operations of
TensorRT-LLM's RopeEmbeddingUtils (formulas restated here).  Needs python3-numpy.  The file here: NumPy 2.4.6, AVX-512.

    tests/reference/numpy_rows.py > tests/reference/numpy_rows.json
"""
import json
import math

import numpy as np

POSITIONS = [0, 1, 17, 4095, 32767, 70000, 100000, 131071, 1000000, 10000000]


def powers(base, dim):
    return (base ** (np.arange(0, dim, 2) / dim)).astype(np.float32)


def linear(base, dim, factor):
    return 1.0 / factor / powers(base, dim)


def llama3(base, dim, factor, low, high, trained):
    """In double from frequencies in float, as NumPy 1 computes with its numbers in a Python loop."""
    out = []
    for inv in (1.0 / powers(base, dim)).tolist():
        length = 2 * math.pi / inv
        kept = min(1.0, max(0.0, (trained / length - low) / (high - low)))
        if kept == 1:
            out.append(inv)
        elif kept == 0:
            out.append(inv / factor)
        else:
            out.append((1 - kept) * inv / factor + kept * inv)
    return np.array(out, dtype=np.float32)


def hexes(values):
    return "".join("%08x" % bits for bits in np.ascontiguousarray(values, dtype=np.float32).view(np.uint32).tolist())


def case(frequencies, **fields):
    angles = np.array(POSITIONS, dtype=np.float32)[:, None] * frequencies[None, :].astype(np.float32)
    rows = [{"position": p, "cos": hexes(np.cos(a)), "sin": hexes(np.sin(a))} for p, a in zip(POSITIONS, angles)]
    return {**fields, "inv_freq": hexes(frequencies), "rows": rows}


cases = [case(1.0 / powers(base, dim), scaling="default", dim=dim, base=base)
         for base in (10000.0, 500000.0, 1000000.0) for dim in (64, 96, 128)]
cases.append(case(linear(10000.0, 128, 4.0), scaling="linear", dim=128, base=10000.0, factor=4.0))
cases.append(case(linear(10000.0, 128, 3.0), scaling="linear", dim=128, base=10000.0, factor=3.0))
cases.append(case(llama3(500000.0, 128, 8.0, 1.0, 4.0, 8192), scaling="llama3", dim=128, base=500000.0, factor=8.0, low=1.0,
                  high=4.0, trained=8192))
print("[" + ",\n ".join(json.dumps(c) for c in cases) + "]")
