#!/usr/bin/python3
"""Writes torch_rows.json: frequencies, cos and sin as PyTorch computes them on this CPU, in float, in the order of operations
of transformers' modeling_rope_utils (formulas restated here).  Needs python3-torch.

    tests/reference/torch_rows.py > tests/reference/torch_rows.json
"""
import json
import math

import torch

POSITIONS = [0, 1, 17, 4095, 32767, 131071, 1000000, 10000000]
DIM = 64


def powers(base, dim=DIM):
    return base ** (torch.arange(0, dim, 2, dtype=torch.int64).float() / dim)


def yarn(base, factor, trained, truncate=True, fast=32, slow=1):
    def bound(turns):
        return DIM * math.log(trained / (turns * 2 * math.pi)) / (2 * math.log(base))

    low, high = bound(fast), bound(slow)
    if truncate:
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, DIM - 1)
    if low == high:
        high += 0.001
    ramp = torch.clamp((torch.arange(DIM // 2, dtype=torch.float32) - low) / (high - low), 0, 1)
    kept = 1 - ramp
    power = powers(base)
    return 1.0 / (factor * power) * (1 - kept) + 1.0 / power * kept


def llama3(base, factor, low, high, trained):
    inv = 1.0 / powers(base)
    length = 2 * math.pi / inv
    out = torch.where(length > trained / low, inv / factor, inv)
    smooth = (trained / length - low) / (high - low)
    between = (1 - smooth) * out / factor + smooth * out
    medium = ~(length < trained / high) * ~(length > trained / low)
    return torch.where(medium, between, out)


def hexes(tensor):
    return "".join("%08x" % (bits & 0xFFFFFFFF) for bits in tensor.contiguous().view(torch.int32).tolist())


ONES = [1.0 + 0.37 * i for i in range(DIM // 2)]
DYNAMIC = 10000.0 * ((2.0 * 8192 / 2048) - 1.0) ** (DIM / (DIM - 2))
CASES = [
    ("default", {"base": 10000.0}, 1.0 / powers(10000.0), 1.0),
    ("default", {"base": 500000.0}, 1.0 / powers(500000.0), 1.0),
    ("default", {"base": 1000000.0}, 1.0 / powers(1000000.0), 1.0),
    ("linear", {"base": 10000.0, "factor": 3.0}, 1.0 / powers(10000.0) / 3.0, 1.0),
    ("dynamic", {"base": 10000.0, "factor": 2.0, "trained": 2048, "length": 8192}, 1.0 / powers(DYNAMIC), 1.0),
    ("yarn", {"base": 10000.0, "factor": 16.0, "trained": 4096}, yarn(10000.0, 16.0, 4096), 0.1 * math.log(16.0) + 1.0),
    ("yarn", {"base": 150000.0, "factor": 32.0, "trained": 4096, "truncate": False},
     yarn(150000.0, 32.0, 4096, truncate=False), 0.1 * math.log(32.0) + 1.0),
    ("llama3", {"base": 500000.0, "factor": 8.0, "low": 1.0, "high": 4.0, "trained": 8192},
     llama3(500000.0, 8.0, 1.0, 4.0, 8192), 1.0),
    ("longrope", {"base": 10000.0, "factor": 32.0, "trained": 4096, "list": ONES},
     1.0 / (torch.tensor(ONES, dtype=torch.float32) * powers(10000.0)), math.sqrt(1 + math.log(32.0) / math.log(4096))),
]

out = []
for scaling, keys, inv, attention in CASES:
    rows = []
    for position in POSITIONS:
        angle = inv * float(position)
        rows.append({"position": position, "cos": hexes(angle.cos() * attention), "sin": hexes(angle.sin() * attention)})
    out.append({"torch": torch.__version__, "scaling": scaling, "dim": DIM, **keys, "inv_freq": hexes(inv), "rows": rows})
print("[\n" + ",\n".join(json.dumps(case) for case in out) + "\n]")
