"""gyre.gate_sums and its gradient against numpy."""

from collections.abc import Callable
from typing import Any

import frameworks as fw
import gyre
import numpy as np
import pytest

RNG = np.random.default_rng(3)


def log_gates(*shape: int) -> np.ndarray:
    return np.log(RNG.uniform(0.2, 1, shape))


@pytest.mark.parametrize("kind", fw.KINDS, ids=str)
def test_sums_are_those_of_numpy(kind: fw.Kind) -> None:
    given = fw.make(kind, log_gates(2, 3, 70))
    wide = kind.framework != "jax"  # without jax_enable_x64 there are no doubles
    sums = gyre.gate_sums(given, double=wide)
    assert isinstance(sums, fw.returned_type(kind, given))
    assert str(sums.dtype).removeprefix("torch.") == ("float64" if wide else "float32")
    np.testing.assert_allclose(fw.double(sums), np.cumsum(fw.double(given), -1), rtol=1e-14 if wide else 1e-7)


def test_layouts_strides_and_pieces() -> None:
    x = log_gates(2, 9, 3)
    whole = np.cumsum(x, 1)
    np.testing.assert_array_equal(gyre.gate_sums(x, layout="bshd"), whole)
    np.testing.assert_array_equal(gyre.gate_sums(x.transpose(0, 2, 1)), whole.transpose(0, 2, 1))
    np.testing.assert_array_equal(gyre.gate_sums(x[:, ::-2], layout="bshd"), np.cumsum(x[:, ::-2], 1))
    first = gyre.gate_sums(x[:, :4], layout="bshd")
    rest = gyre.gate_sums(x[:, 4:], layout="bshd", initial=first[:, -1])
    np.testing.assert_array_equal(np.concatenate([first, rest], 1), whole)
    assert gyre.gate_sums(x[:, :0], layout="bshd").shape == (2, 0, 3)


def test_documents_of_a_packed_batch() -> None:
    x, starts, initial = log_gates(9, 2), np.array([0, 4, 4, 9]), log_gates(3, 2)
    sums = gyre.gate_sums(x, starts=starts)
    np.testing.assert_array_equal(sums, np.concatenate([np.cumsum(x[:4], 0), np.cumsum(x[4:], 0)]))
    later = gyre.gate_sums(x, starts=starts.astype("i4"), initial=initial)
    np.testing.assert_allclose(later - sums, initial[[0] * 4 + [2] * 5], rtol=1e-13)
    one, other = RNG.standard_normal((2, 9, 2))
    found = gyre.gate_sums_gradient(one, other, starts=starts)
    each = [(one + other)[part][::-1].cumsum(0)[::-1] for part in (slice(4), slice(4, 9))]
    np.testing.assert_allclose(found, np.concatenate(each), rtol=1e-13, atol=1e-14)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_the_gradient_is_the_transpose(dtype: str) -> None:
    x = RNG.standard_normal((2, 3, 100)).astype(dtype)
    one, other = RNG.standard_normal((2, 2, 3, 100)).astype(dtype)
    found = gyre.gate_sums_gradient(one, other)
    assert found.dtype == dtype and found.shape == x.shape
    change = float(np.sum((one + other).astype("f8") * np.cumsum(x.astype("f8"), -1)))
    assert np.isclose(np.sum(found.astype("f8") * x), change, rtol=1e-5 if dtype == "f4" else 1e-12)
    np.testing.assert_array_equal(gyre.gate_sums_gradient(one), gyre.gate_sums_gradient(one, np.zeros_like(one)))


def test_refusals() -> None:
    x, starts = log_gates(1, 2, 6), np.array([0, 2, 6])
    packed = log_gates(6, 2)
    calls: list[tuple[Callable[[], Any], str]] = [
        (lambda: gyre.gate_sums([0.5]), "log_gates: is a list"),
        (lambda: gyre.gate_sums(x.astype("i4")), "log_gates: .*float16, bfloat16, float32 or float64"),
        (lambda: gyre.gate_sums(x[None], layout="thd"), "log_gates: has 4 axes"),
        (lambda: gyre.gate_sums(x, layout="bhs"), "layout: is 'bhs'"),
        (lambda: gyre.gate_sums(np.zeros((2, 2, 6)), starts=starts), "starts: is set, but there are 2 batch rows"),
        (lambda: gyre.gate_sums(packed, starts=starts[:1]), "starts: has 1 numbers"),
        (lambda: gyre.gate_sums(packed, starts=starts[:2]), r"starts\[1\]: 2 is not the number of tokens, 6"),
        (lambda: gyre.gate_sums(packed, starts=np.array([0, 4, 2, 6])), r"starts\[2\]: 2 is below 4"),
        (lambda: gyre.gate_sums(packed, starts=starts.astype("f8")), "starts: .*int32 or int64"),
        (lambda: gyre.gate_sums(packed, starts=starts, initial=np.zeros((1, 2))), r"initial: has shape \[1, 2\], not \[2, 2\]"),
        (lambda: gyre.gate_sums(x, initial=np.zeros((1, 2), "f4")), "initial: .*float64"),
        (lambda: gyre.gate_sums_gradient(x.astype("f2")), "dquery_gate_sums: .*float32 or float64"),
        (lambda: gyre.gate_sums_gradient(x, x[..., :5]), r"dkey_gate_sums: has shape \[1, 2, 5\], not \[1, 2, 6\]"),
        (lambda: gyre.gate_sums_gradient(packed, starts=np.array([1, 6])), r"starts\[0\]: 1 is not 0"),
    ]
    for call, text in calls:
        with pytest.raises(gyre.Error, match=text) as caught:
            call()
        assert caught.value.field == text.partition(":")[0].partition("\\")[0], text
