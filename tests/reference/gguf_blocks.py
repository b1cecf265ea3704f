#!/usr/bin/env python3
"""Writes gguf_blocks.json: blocks of every stored type of ggml and their numbers, as the gguf package of llama.cpp (MIT
licence) dequantizes them; of Q8_1, Q8_K and F64, which it does not, from their definition.  With "grids": the codebooks of the
IQ types as src/kernels/quants/quant_grids.c holds them.  Needs gguf.  The file here: gguf 0.19.0, NumPy 2.4.6.

    tests/reference/gguf_blocks.py > tests/reference/gguf_blocks.json
    tests/reference/gguf_blocks.py grids > src/kernels/quants/quant_grids.c
"""
import json
import sys

import gguf
import numpy as np

BLOCKS = 400
# Bytes whose bit 6 is cleared, so that the scale that they end is finite.
CLEARED = {"F16": [1], "BF16": [1], "F64": [7], "Q8_0": [1], "Q8_1": [1], "Q8_K": [3], "Q4_0": [1], "Q4_1": [1, 3], "Q5_0": [1],
           "Q5_1": [1, 3], "Q2_K": [81, 83], "Q3_K": [109], "Q4_K": [1, 3], "Q5_K": [1, 3], "Q6_K": [209], "IQ4_NL": [1],
           "IQ4_XS": [1], "MXFP4": [0], "NVFP4": [], "IQ3_S": [1], "IQ3_XXS": [1], "IQ2_S": [1], "IQ2_XS": [1], "IQ2_XXS": [1],
           "IQ1_S": [1], "IQ1_M": [55], "TQ1_0": [53], "TQ2_0": [65]}
OTHER_SIZES = {"Q8_1": (32, 36)}  # of ggml; the package has the size of an older one


def dequantize(name, blocks):
    """blocks: [n][bytes] uint8.  Returns [n][numbers] float32."""
    if name == "F64":
        return blocks.view(np.float64).astype(np.float32)
    if name == "Q8_1":
        return blocks[:, :2].copy().view(np.float16).astype(np.float32) * blocks[:, 4:].view(np.int8).astype(np.float32)
    if name == "Q8_K":
        return blocks[:, :4].copy().view(np.float32) * blocks[:, 4:260].view(np.int8).astype(np.float32)
    return gguf.quants.dequantize(blocks, gguf.GGMLQuantizationType[name]).reshape(len(blocks), -1)


def sizes(name):
    return OTHER_SIZES.get(name) or gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[name]]


def random_bytes(count):
    """The upper bytes of x = 6364136223846793005 x + 1442695040888963407 (mod 2^64), from x = 0 on."""
    out, x = bytearray(), 0
    for _ in range(count):
        x = (6364136223846793005 * x + 1442695040888963407) % 2**64
        out.append(x >> 56)
    return bytes(out)


def fnv1a(data):
    hashed = 0xcbf29ce484222325
    for byte in data:
        hashed = ((hashed ^ byte) * 0x100000001b3) % 2**64
    return hashed


def case(name):
    count, size = sizes(name)
    blocks = np.frombuffer(random_bytes(BLOCKS * size), np.uint8).reshape(BLOCKS, size).copy()
    for byte in CLEARED[name]:
        blocks[:, byte] &= 0xbf
    numbers = dequantize(name, blocks)
    assert numbers.shape == (BLOCKS, count) and numbers.dtype == np.float32 and np.isfinite(numbers).all()
    return {"name": name, "ggml": int(gguf.GGMLQuantizationType[name]), "numbers": count, "bytes": size, "blocks": BLOCKS, "cleared": CLEARED[name],
            "first": numbers[0].astype(">f4").tobytes().hex(), "hash": f"{fnv1a(numbers.tobytes()):016x}"}


HEAD = '''/* quant_grids.c: the codebooks of ggml's IQ types, facts of the format, as gguf 0.19.0, the package of llama.cpp, has them
 * (copyright Georgi Gerganov and the ggml authors, MIT licence).  An entry is a word: digit i of b bits, from bit i b on, is
 * the place of number i in a short list of values.  Entries rise; no rule is known that makes them.  Written by
 * tests/reference/gguf_blocks.py grids. */
#include "kernels/quants/quant_grids.h"

const int8_t gyre_iq4_values[16] = {%s};
const int8_t gyre_e2m1_values[16] = {%s};
'''
GRIDS = {"iq3_s": "IQ3_S", "iq3_xxs": "IQ3_XXS", "iq2_s": "IQ2_S", "iq2_xs": "IQ2_XS", "iq2_xxs": "IQ2_XXS", "iq1": "IQ1_S"}


def grid_words(name):
    kind = getattr(gguf.quants, name)
    kind.init_grid()
    values = [float(x) for x in kind.grid_map]
    bits = 3 if len(values) == 8 else 2
    return [sum(values.index(x) << bits * i for i, x in enumerate(entry)) for entry in kind.grid.reshape(kind.grid_shape).tolist()]


def print_grids():
    values = [", ".join(map(str, kind.kvalues)) for kind in (gguf.quants.IQ4_NL, gguf.quants.MXFP4)]
    print(HEAD % tuple(values), end="")
    for grid, name in GRIDS.items():
        words = grid_words(name)
        assert words == sorted(words)
        print(f"\n/* clang-format off */\nconst uint16_t gyre_grid_{grid}[{len(words)}] = {{")
        for i in range(0, len(words), 16):
            print("    " + ",".join(f"0x{word:04x}" for word in words[i:i + 16]) + ",")
        print("};\n/* clang-format on */")


if __name__ == "__main__" and sys.argv[1:] == ["grids"]:
    print_grids()
elif __name__ == "__main__":
    print(json.dumps([case(name) for name in CLEARED], indent=1))
