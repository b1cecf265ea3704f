"""Writes tests/families/NAME.json for every synthetic model: python3 tests/oracle/make_families.py [NAME ...]"""
import json
import pathlib
import sys
import zlib

import numpy as np

from families import logits_of
from fixtures import FIXTURES
from gguf_layout import gguf_of
from synthetic_weights import Weights, values

FOLDER = pathlib.Path(__file__).resolve().parent.parent / "families"
TOKENS = 24


def lines(entries):
    """One entry a line, so that a change shows as what it is."""
    return "{\n" + ",\n".join(f"  {json.dumps(k)}: {json.dumps(v)}" for k, v in entries.items()) + "\n }"


def tokens_of(seed, vocab, count):
    picked = values(seed, "tokens", (count,), 0.0, 1.0)
    return [int(t) for t in np.floor((picked + 1) / 2 * vocab).clip(0, vocab - 1)]


def fixture(name):
    config, extras = FIXTURES[name]
    seed = zlib.crc32(name.encode())
    count, dtype = extras.get("tokens", TOKENS), extras.get("dtype", "F32")
    rows = [0, 7, count * 2 // 3 - 1, count - 1]
    tokens = tokens_of(seed, 61, count)
    weights = Weights(seed, dtype)
    logits = logits_of({**config, **extras}, weights, np.array(tokens))
    shown = ",\n".join("  [" + ", ".join("%.7g" % x for x in logits[i]) + "]" for i in rows)
    gguf = gguf_of(name, config, weights)
    parts = {
        "seed": seed,
        "dtype": json.dumps(dtype),
        "length": extras.get("length", 0),
        "config": lines(config),
        "tensors": lines(weights.asked),
        "tokens": tokens,
        "rows": rows,
        "logits": f"[\n{shown}\n ]",
    }
    if gguf:
        parts["gguf"] = "{\n  \"keys\": " + lines(gguf["keys"]) + ",\n  \"tensors\": " + lines(gguf["tensors"]) + "\n }"
    text = ",\n".join(f" {json.dumps(k)}: {v if isinstance(v, str) else json.dumps(v)}" for k, v in parts.items())
    return "{\n" + text + "\n}\n"


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name in sys.argv[1:] or FIXTURES:
        text = fixture(name)
        json.loads(text)
        assert len(text) < 30000
        (FOLDER / f"{name}.json").write_text(text)
        print(name, len(text))
