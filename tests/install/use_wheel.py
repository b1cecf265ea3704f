"""Uses what is in a wheel: the extension, each library of others inside it, the command, the models.  Python and numpy alone."""

import subprocess
import sys
from pathlib import Path

import gyre
import numpy

# Rotation, by its formula.
x = numpy.random.default_rng(0).standard_normal((1, 1, 5, 8))
got = gyre.rope(8).rotate(x, 100)
angles = numpy.arange(100, 105)[:, None] * 10000.0 ** (-numpy.arange(4) / 4)
first, second = x[..., :4], x[..., 4:]
wanted = numpy.concatenate(
    (first * numpy.cos(angles) - second * numpy.sin(angles), first * numpy.sin(angles) + second * numpy.cos(angles)), -1
)
assert numpy.abs(got - wanted).max() < 1e-12

assert gyre.Encoding.from_config("/llama-3.1-8b.json").head_dim == 128  # jansson
model = gyre.open("rope")
ids = model.tokenizer().encode("The quick brown fox")  # PCRE2
assert model.tokenizer().decode(ids) == "The quick brown fox"
assert numpy.isfinite(model.logits(ids, rows=1)).all()
assert gyre.rope(64, angles="torch").cos_sin(4)[0].shape == (4, 64)  # SLEEF
explained = subprocess.run(
    [sys.executable, "-m", "gyre", "explain", "/llama-3.1-8b.json"], capture_output=True, text=True, check=True
)
assert "500000" in explained.stdout
bundled = list(Path("/site/gyre.libs").iterdir())
print(f"gyre {gyre.__version__}: {len(bundled)} libraries inside, {', '.join(sorted(one.name.split('-')[0] for one in bundled))}")
