#!/usr/bin/python3
"""Writes vllm_rows.json: rows of the tables of cos and sin that vLLM keeps for 16-bit models, as PyTorch computes vLLM's
formulas on this CPU (model_executor/layers/rotary_embedding, restated here: frequencies, positions, outer product, cos and
sin in float; then the cast to the type of the model).  vLLM itself makes them on the GPU and was not run.  Needs
python3-torch: one built without MKL, as Debian's, because MKL rounds 2 of 100 cos and sin the other way.

    tests/reference/vllm_rows.py > tests/reference/vllm_rows.json
"""
import json
import math

import torch

POSITIONS = [0, 1, 17, 4095, 8191]
DIM = 64
LENGTH = 8192


def inv_freq(base):
    return 1.0 / (base ** (torch.arange(0, DIM, 2, dtype=torch.float) / DIM))


def yarn(base, factor, trained, fast=32, slow=1):
    def bound(turns):
        return DIM * math.log(trained / (turns * 2 * math.pi)) / (2 * math.log(base))

    powers = base ** (torch.arange(0, DIM, 2, dtype=torch.float) / DIM)
    low, high = max(math.floor(bound(fast)), 0), min(math.ceil(bound(slow)), DIM - 1)
    ramp = torch.clamp((torch.arange(DIM // 2, dtype=torch.float) - low) / (high - low), 0, 1)
    mask = 1 - ramp
    return 1.0 / (factor * powers) * (1 - mask) + 1.0 / powers * mask


def llama3(base, factor, low, high, trained):
    inv = inv_freq(base)
    length = 2 * math.pi / inv
    smooth = (trained / length - low) / (high - low)
    between = (1 - smooth) * inv / factor + smooth * inv
    return torch.where(length < trained / high, inv, torch.where(length > trained / low, inv / factor, between))


def table(inv, divisor, factor, dtype):
    t = torch.arange(LENGTH, dtype=torch.float)
    if divisor != 1:
        t = t / divisor  # LinearScalingRotaryEmbedding divides positions
    freqs = torch.einsum("i,j -> ij", t, inv)
    return torch.cat((freqs.cos() * factor, freqs.sin() * factor), dim=-1).to(dtype)


def words(tensor):
    return [bits & 0xFFFF for bits in tensor.contiguous().view(torch.int16).flatten().tolist()]


def checksum(values):
    """FNV-1a, 64 bits, over 16-bit values."""
    h = 0xCBF29CE484222325
    for v in values:
        h = (h ^ v) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return "%016x" % h


CASES = [
    ("default", {"base": 10000.0}, inv_freq(10000.0), 1, 1.0),
    ("default", {"base": 500000.0}, inv_freq(500000.0), 1, 1.0),
    ("linear", {"base": 10000.0, "factor": 2.0}, inv_freq(10000.0), 2.0, 1.0),
    ("linear", {"base": 10000.0, "factor": 2.5}, inv_freq(10000.0), 2.5, 1.0),
    ("linear", {"base": 500000.0, "factor": 3.0}, inv_freq(500000.0), 3.0, 1.0),
    ("yarn", {"base": 10000.0, "factor": 4.0, "trained": 4096}, yarn(10000.0, 4.0, 4096), 1, 0.1 * math.log(4.0) + 1.0),
    ("llama3", {"base": 500000.0, "factor": 8.0, "low": 1.0, "high": 4.0, "trained": 8192},
     llama3(500000.0, 8.0, 1.0, 4.0, 8192), 1, 1.0),
]

out = []
for scaling, keys, inv, divisor, factor in CASES:
    for name, dtype in (("bf16", torch.bfloat16), ("f16", torch.float16)):
        made = table(inv, divisor, factor, dtype)
        rows = [{"position": p, "cos_sin": "".join("%04x" % w for w in words(made[p]))} for p in POSITIONS]
        out.append({"torch": torch.__version__, "scaling": scaling, "type": name, "dim": DIM, **keys, "length": LENGTH,
                    "checksum": checksum(words(made)), "rows": rows})
print("[\n" + ",\n".join(json.dumps(case) for case in out) + "\n]")
