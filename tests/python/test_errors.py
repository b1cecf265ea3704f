"""Bad input: one exception that names the argument, what it is, and what would be right."""

import os
import pickle
import re
import subprocess
import sys
from pathlib import Path

import gyre
import numpy as np
import pytest

ROPE = gyre.rope(8)
X = np.zeros((1, 2, 3, 8), "f4")


def zeros(*shape: int, dtype: str = "f4") -> np.ndarray:
    return np.zeros(shape, dtype)


def read_only() -> np.ndarray:
    x = X.copy()
    x.flags.writeable = False
    return x


def unaligned() -> np.ndarray:
    return np.frombuffer(bytearray(4 * 48 + 1), "f4", offset=1).reshape(1, 2, 3, 8)


def consumed() -> object:
    capsule = X.__dlpack__()
    ROPE.rotate(capsule)
    return capsule


# what is called, the status, the field, and what the text says
CASES = [
    (lambda: ROPE.rotate([1, 2]), "EINVAL", "x", "x: is a list, not an array: pass one of numpy, torch or JAX"),
    (lambda: ROPE.rotate(3.0), "EINVAL", "x", "x: is a float, not an array"),
    (lambda: ROPE.rotate(zeros(1, 2, 3, 8, dtype="i4")), "EDTYPE", "x", "int32, not float16, bfloat16, float32 or float64"),
    (lambda: ROPE.rotate(zeros(1, 2, 3, 8, dtype=">f4")), "EDTYPE", "x", "x: is of type '>f'"),
    (lambda: ROPE.rotate(zeros(1, 2, 3, 8, dtype="O")), "EDTYPE", "x", "x: is of type 'O'"),
    (lambda: ROPE.rotate(zeros(1, 2, 3, 6)), "ESHAPE", "x", "x: 6 channels a head, the encoding has 8"),
    (lambda: ROPE.rotate(zeros(2, 8)), "ESHAPE", "x", "x: has 2 axes, but layout 'bhsd' has 4"),
    (lambda: ROPE.rotate(X, layout="bhs"), "EINVAL", "layout", "layout: is 'bhs', not letters of axes such as 'bhsd'"),
    (lambda: ROPE.rotate(X, role="value"), "EINVAL", "role", "role: is 'value', not one of 'query', 'key'"),
    (lambda: ROPE.rotate(X, [0, 1, 2]), "EINVAL", "positions", "positions: is a list"),
    (lambda: ROPE.rotate(X, zeros(3)), "EDTYPE", "positions", "float32, not int32 or int64"),
    (lambda: ROPE.rotate(X, zeros(4, dtype="i8")), "ESHAPE", "positions", r"shape \[4\], not \[tokens\] or \[batch, tokens\]"),
    (lambda: ROPE.rotate(X, 2**40), "ERANGE", "positions", "positions: "),
    (lambda: ROPE.rotate(X, 2**70), "EINVAL", "positions", "not a whole number of 64 bits"),
    (lambda: ROPE.rotate(X, out=read_only()), "EINVAL", "out", "out: is read-only"),
    (lambda: ROPE.rotate(X, out=zeros(1, 2, 3, 8, dtype="f8")), "EDTYPE", "out", "out: is of type float64, not float32"),
    (lambda: ROPE.rotate(X, out=zeros(1, 2, 4, 8)), "ESHAPE", "out", "out"),
    (lambda: ROPE.rotate(X, out=np.lib.stride_tricks.as_strided(zeros(8), (1, 2, 3, 8), (0, 0, 0, 4))), "EINVAL", "out", "out"),
    (lambda: ROPE.rotate(unaligned()), "EINVAL", "x", "x: its memory is not aligned to its elements: pass a copy"),
    (lambda: ROPE.rotate(consumed()), "EINVAL", "x", "x: its DLPack capsule was consumed"),
    (lambda: ROPE.rotate_pair(X, zeros(1, 2, 4, 8)), "ESHAPE", "k", r"k: has shape \[1, 2, 4, 8\], but q has \[1, 2, 3, 8\]"),
    (lambda: ROPE.rotate_pair(X, X, out=X), "EINVAL", "out", "out: is .* not a tuple of two arrays"),
    (lambda: gyre.rope(7), "EINVAL", "rope.dim", "rope.dim: 7 is odd"),
    (lambda: gyre.rope(8, scaling="yarm"), "EINVAL", "rope.scaling", "rope.scaling: is 'yarm', not one of 'none', 'linear'"),
    (lambda: gyre.rope(8, base="x"), "EINVAL", "rope.base", "rope.base: is 'x', not a number"),
    (lambda: gyre.Encoding(kind="rope", size=3), "EINVAL", "size", "size: is not a field of a config"),
    (lambda: gyre.alibi(4, slopes=[1, 2]), "EINVAL", "score.slopes", "score.slopes: has 2 numbers, not 4"),
    (lambda: gyre.alibi(4).rotate(X, 0), "EUNSUPPORTED", "encoding", "encoding: alibi does not rotate"),
    (lambda: gyre.alibi(4).frequencies(), "EUNSUPPORTED", "encoding", "alibi rotates nothing"),
    (lambda: ROPE.bias(4), "EUNSUPPORTED", None, "score"),
    (lambda: ROPE.add(zeros(2, 8)), "EUNSUPPORTED", None, "input"),
    (lambda: gyre.t5(2).bias(3), "EINVAL", None, "table"),
    (lambda: gyre.t5(2).bias(3, tables=zeros(31, 2)), "ESHAPE", "tables", r"'bias' is not of shape \[1, 1, 32, 2\]"),
    (lambda: gyre.t5(2).bias(3, tables={"query": zeros(2)}), "EINVAL", "tables", "t5 has no table 'query'"),
    (lambda: gyre.Encoding.from_config({"a": 1}), "EFORMAT", "model_type", "model_type: missing"),
    (lambda: gyre.Encoding.from_config({"rope_type": "yarn"}), "EINVAL", "head_dim", "head_dim: missing"),
    (lambda: gyre.Encoding.from_config([1]), "EINVAL", "source", "source: is a list, not the path"),
    (lambda: gyre.Encoding.from_config({"model_type": "llama", "x": object()}), "EINVAL", "source", "source: is not a config"),
    (lambda: gyre.Encoding.from_config("/nowhere/config.json"), "EIO", "source", "source: /nowhere/config.json"),
    (lambda: gyre.Encoding.from_config("setup.cfg", profile="hf-6"), "EINVAL", "profile", "'hf-6', not one of hf-5"),
    (lambda: gyre.open("/nowhere"), "EIO", "path", "path: /nowhere does not exist"),
    (lambda: gyre.diff("/nowhere"), "EIO", "a", "a: /nowhere does not exist"),
    (lambda: gyre.attention(X, X, [1]), "EINVAL", "v", "v: is a list"),
    (lambda: gyre.attention(X, X, X.astype("f8")), "EDTYPE", "v", "float64, not float16, bfloat16 or float32"),
    (lambda: gyre.attention(X, zeros(1, 2, 3, 4), X), "ESHAPE", "k", "k"),
    (lambda: gyre.attention(X, X, X, encoding="rope"), "EINVAL", "encoding", "encoding: is not a gyre.Encoding"),
    (lambda: gyre.attention(X, X, X, causal="yes"), "EINVAL", "causal", "causal: is 'yes', not one of"),
    (lambda: gyre.attention(X, X, X, window=(1, 2, 3)), "EINVAL", "window", "window: is "),
    (lambda: gyre.attention(X, X, X, mask=zeros(9)), "ESHAPE", "mask", "mask: has 1 axes"),
    (lambda: gyre.attention(X, X, X, key_starts=zeros(2, dtype="i4")), "EINVAL", "query_starts", "query_starts"),
    (lambda: gyre.Cache(ROPE, heads=2, max_tokens=0), "EINVAL", "max_tokens", "max_tokens"),
    (lambda: gyre.Cache(ROPE, heads=2, max_tokens=4, dtype="int8"), "EINVAL", "dtype", "not one of"),
    (lambda: gyre.Cache(ROPE, heads=2, max_tokens=2).append(X, X), "ENOMEM", None, ""),
    (lambda: gyre.Cache(ROPE, heads=2, max_tokens=2).tokens(5), "EINVAL", "sequence", "no sequence 5"),
    (lambda: gyre.rerotate(X.copy(), ROPE, gyre.alibi(2)), "EUNSUPPORTED", "new", "new: alibi rotates nothing"),
    (lambda: gyre.rerotate(read_only(), ROPE, shift=1), "EINVAL", "k", "k: is read-only"),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: (case[2] or "other") + "-" + case[3][:24])
def test_bad_input_is_named(case) -> None:
    call, status, field, text = case
    with pytest.raises(gyre.Error) as caught:
        call()
    error = caught.value
    assert isinstance(error, ValueError)
    assert (error.status, error.text) == (status, str(error))
    if field:
        assert error.field == field
    assert re.search(text, error.text), error.text
    assert not re.search(r"\(gyre_\w+\)$", error.text)


def test_kinds_of_errors() -> None:
    with pytest.raises(OSError) as caught:
        gyre.open("/nowhere")
    assert isinstance(caught.value, gyre.FileError) and isinstance(caught.value, gyre.Error)
    copy = pickle.loads(pickle.dumps(caught.value))
    assert (copy.status, copy.text, copy.field) == ("EIO", "path: /nowhere does not exist", "path")
    with pytest.raises(MemoryError):
        gyre.Cache(ROPE, heads=2, max_tokens=2).append(X, X)


def test_a_failed_call_leaves_its_output() -> None:
    out = np.full_like(X, 7)
    with pytest.raises(gyre.Error):
        ROPE.rotate(X, 2**40, out=out)
    assert (out == 7).all()


def test_usage_errors_are_type_errors() -> None:
    for call in (lambda: ROPE.rotate(), lambda: ROPE.rotate(X, 0, 1), lambda: ROPE.rotate(X, lenght=3), lambda: ROPE.rotate(X, x=X)):
        with pytest.raises(TypeError, match="rotate"):
            call()


def test_a_config_that_is_none_names_its_line(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text('{"model_type": "llama",\n "hidden_size": }')
    with pytest.raises(gyre.Error) as caught:
        gyre.Encoding.from_config(path)
    assert caught.value.status == "EFORMAT" and "line 2" in caught.value.text


def test_tensors_that_cannot_be_read() -> None:
    torch = pytest.importorskip("torch")
    x = torch.zeros(1, 2, 3, 8)
    cases = {
        "meta": x.to("meta"),
        "detach": x.clone().requires_grad_(),
        "strided": x.to_sparse(),
        "resolve_neg": torch.complex(x, x).conj().imag,
        "int32": x.int(),
        "complex64": x.to(torch.complex64),
    }
    for wanted, tensor in cases.items():
        with pytest.raises(gyre.Error, match=wanted):
            ROPE.rotate(tensor)
    with pytest.raises(gyre.Error, match="positions: .*meta"):
        ROPE.rotate(x, torch.arange(3, device="meta"))


class OnDevice:
    """An array on a GPU, as DLPack tells it."""

    device = "cuda:1"

    def __dlpack__(self, **options):
        raise AssertionError("must not be asked for")

    def __dlpack_device__(self):
        return (2, 1)


def test_an_array_on_a_gpu_is_refused_by_name() -> None:
    with pytest.raises(gyre.Error, match="x: is on cuda:1, but Gyre computes on the processor"):
        ROPE.rotate(OnDevice())
    with pytest.raises(gyre.Error, match="positions: is on cuda:1"):
        ROPE.rotate(X, OnDevice())


@pytest.mark.parametrize(
    ("variable", "value", "text"),
    [
        ("GYRE_CPU", "AVX2", "EINVAL: GYRE_CPU: 'AVX2' is not one of amx, avx512bf16, avx512vnni, avx512, avx2, neon, wasm, scalar, amx-emulated; this "),
        ("GYRE_CPU", "bogus", "EINVAL: GYRE_CPU: 'bogus' is not one of "),
        ("GYRE_CPU", "wasm", "EUNSUPPORTED: GYRE_CPU: this processor or this build has no wasm; it has "),
        ("GYRE_THREADS", "many", "EINVAL: GYRE_THREADS: 'many' is not a number of threads, 0 .. 1024"),
        ("GYRE_THREADS", "-1", "EINVAL: GYRE_THREADS: '-1' is not a number of threads"),
        ("GYRE_THREADS", "4096", "EINVAL: GYRE_THREADS: '4096' is not a number of threads"),
        ("GYRE_CPU", "scalar", ""),
        ("GYRE_CPU", "", ""),
        ("GYRE_THREADS", "", ""),
        ("GYRE_THREADS", "2", ""),
    ],
)
def test_the_environment(variable: str, value: str, text: str) -> None:
    """A value that would be ignored ends the import."""
    code = "import gyre; gyre.rope(8)"
    ended = subprocess.run([sys.executable, "-c", code], env={**os.environ, variable: value}, capture_output=True, text=True)
    assert (ended.returncode != 0) == bool(text), ended.stderr
    assert text.split(": ", 1)[-1] in ended.stderr
