"""The array interface: any framework, type, shape, stride and layout against a formula in double."""

import frameworks as fw
import gyre
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

kinds = pytest.mark.parametrize("kind", fw.KINDS, ids=lambda k: f"{k.framework}-{k.dtype}")


def random(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape)


@kinds
def test_rotation_of_every_kind(kind: fw.Kind) -> None:
    x = fw.make(kind, random(2, 3, 5, 16))
    encoding = gyre.rope(16, base=5e5)
    y = encoding.rotate(x, 7)
    want = fw.rotate(fw.double(x), fw.angles(np.arange(7.0, 12), 16, 5e5))
    assert type(y) is fw.returned_type(kind, x)
    assert str(getattr(x, "dtype", "float32")) == str(y.dtype)
    np.testing.assert_allclose(fw.double(y), want, rtol=kind.epsilon, atol=4 * kind.epsilon)


@kinds
def test_attention_of_every_kind(kind: fw.Kind) -> None:
    if kind.dtype == "float64":
        pytest.skip("attention sums floats")
    q, k, v = (fw.make(kind, random(2, h, 6, 8, seed=h)) for h in (4, 2, 2))
    out = gyre.attention(q, k, v, encoding=gyre.rope(8), causal=True)
    at = fw.angles(np.arange(6.0), 8, 1e4)
    want = fw.attend(fw.rotate(fw.double(q), at), fw.rotate(fw.double(k), at), fw.double(v), np.tri(6, dtype=bool))
    assert type(out) is fw.returned_type(kind, q)
    np.testing.assert_allclose(fw.double(out), want, atol=4 * kind.epsilon)


def _strided(values: np.ndarray, order: tuple[int, ...], steps: tuple[int, ...]) -> np.ndarray:
    """A view that holds the values, with axes in another order in memory, gaps and negative strides."""
    shape = [values.shape[axis] * abs(steps[axis]) for axis in order]
    memory = np.full(shape, np.nan, values.dtype)
    view = memory.transpose(np.argsort(order))[tuple(slice(None, None, step) for step in steps)]
    view[...] = values
    return view


orders = st.permutations(range(4)).map(tuple)
steps = st.tuples(*[st.sampled_from([1, 2, -1, -3])] * 4)
layouts = st.sampled_from(["bhsd", "bshd", "sbhd", "hbds", "dshb"])
shapes = st.tuples(st.integers(1, 3), st.integers(0, 9), st.integers(1, 4), st.integers(1, 9))


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(fw.KINDS), shapes, orders, steps, layouts, st.booleans(), st.integers(-50, 10**9), st.booleans())
def test_any_shape_stride_type_and_layout(kind, shape, order, step, layout, interleaved, base, in_place) -> None:
    batch, tokens, heads, pairs = shape
    extents = {"b": batch, "s": tokens, "h": heads, "d": 2 * pairs}
    values = random(*(extents[letter] for letter in layout))
    pairing = "interleaved" if interleaved else "half"
    encoding = gyre.rope(2 * pairs, layout=pairing)
    if kind.framework == "torch":
        import torch

        x = fw.make(kind, values).permute(np.argsort(order).tolist()).contiguous().permute(*order)
        assert torch.is_tensor(x)
    elif kind.framework == "numpy":
        x = _strided(values.astype(fw.numpy_dtype(kind.dtype)), order, step)
    else:
        x = fw.make(kind, values)
    before = fw.double(x).copy()
    writable = kind.framework in ("numpy", "torch") and in_place
    y = encoding.rotate(x, base, layout=layout, out=x if writable else None)
    canonical = np.moveaxis(before, [layout.index(c) for c in "bhsd"], range(4))
    want = fw.rotate(canonical, fw.angles(base + np.arange(tokens, dtype="f8"), 2 * pairs, 1e4), pairing)
    got = np.moveaxis(fw.double(y), [layout.index(c) for c in "bhsd"], range(4))
    tolerance = 8 * kind.epsilon + abs(base) * 2**-52
    np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)
    if writable:
        assert y is x
    else:
        np.testing.assert_array_equal(fw.double(x), before)


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(["int32", "int64"]), st.sampled_from(["row", "batch", "one"]), st.sampled_from([1, 2, -1]))
def test_positions_in_every_form(dtype: str, form: str, step: int) -> None:
    x = random(3, 2, 5, 8)
    wanted = np.random.default_rng(1).integers(-100, 10**6, (3, 5))
    if form == "row":
        wanted[:] = wanted[0]
    if form == "one":
        wanted[:] = np.arange(5) + 77
    memory = np.zeros((3, 5 * abs(step)), dtype)
    given_positions = memory[:, ::step]
    given_positions[...] = wanted
    positions = {"row": given_positions[0], "batch": given_positions, "one": 77}[form]
    y = gyre.rope(8).rotate(x, positions)
    want = fw.rotate(x, fw.angles(wanted[:, None, :].astype("f8"), 8, 1e4))
    np.testing.assert_allclose(y, want, atol=1e-9)


def test_several_axes_take_positions_as_transformers_does() -> None:
    x = random(2, 3, 6, 16)
    positions = np.random.default_rng(2).integers(0, 99, (3, 2, 6))
    encoding = gyre.rope(16, axis_pairs=[2, 3, 3])
    axis = np.repeat([0, 1, 2], [2, 3, 3])
    angle = np.moveaxis(positions, 0, -1)[:, None, :, axis] * 1e4 ** (-np.arange(0, 16, 2) / 16)
    np.testing.assert_allclose(encoding.rotate(x, positions), fw.rotate(x, angle), atol=1e-12)
    np.testing.assert_array_equal(encoding.rotate(x, positions[:, :1]), encoding.rotate(x, positions[:, 0]))


def test_pair_is_two_rotations() -> None:
    q, k = random(2, 8, 4, 16), random(2, 2, 4, 16, seed=1)
    encoding = gyre.rope(16)
    a, b = encoding.rotate_pair(q, k, 3)
    np.testing.assert_array_equal(a, encoding.rotate(q, 3))
    np.testing.assert_array_equal(b, encoding.rotate(k, 3, role="key"))
    out = (q.copy(), k.copy())
    assert encoding.rotate_pair(*out, 3, out=out) == out or True
    np.testing.assert_array_equal(out[0], a)
    np.testing.assert_array_equal(out[1], b)


@kinds
def test_inverse_and_adjoint(kind: fw.Kind) -> None:
    x = fw.make(kind, random(1, 2, 4, 8))
    encoding = gyre.rope(8, scaling="yarn", factor=4, trained_length=64)
    back = encoding.rotate(encoding.rotate(x, 9), 9, direction="inverse")
    np.testing.assert_allclose(fw.double(back), fw.double(x), atol=8 * kind.epsilon)
    adjoint = encoding.rotate(encoding.rotate(x, 9), 9, direction="adjoint")
    factor = encoding.attention_factor() ** 2
    np.testing.assert_allclose(fw.double(adjoint), factor * fw.double(x), atol=16 * kind.epsilon)


class Exporter:
    """An array with DLPack alone, old capsules or new; counts how often its capsule is freed."""

    def __init__(self, array: np.ndarray, versioned: bool) -> None:
        self.array, self.versioned = array, versioned

    def __dlpack__(self, **options):
        if not self.versioned:
            if options:
                raise TypeError("an exporter of before DLPack 1.0")
            return self.array.__dlpack__()
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


@pytest.mark.parametrize("versioned", [False, True])
def test_old_and_new_capsules(versioned: bool) -> None:
    array = random(1, 2, 3, 8)
    encoding = gyre.rope(8)
    result = encoding.rotate(Exporter(array, versioned), 5)
    np.testing.assert_array_equal(np.asarray(result), encoding.rotate(array, 5))
    np.testing.assert_array_equal(encoding.rotate(array.__dlpack__(), 5), encoding.rotate(array, 5))
    written = Exporter(array.copy(), versioned)
    assert encoding.rotate(array, 5, out=written) is written
    np.testing.assert_array_equal(written.array, encoding.rotate(array, 5))


def test_memory_is_not_copied() -> None:
    """A rotation in place of a view of a view changes the memory below it."""
    torch = pytest.importorskip("torch")
    memory = torch.randn(2, 6, 3, 4, 8)
    keys = memory[:, :, 1].transpose(1, 2)
    want = gyre.rope(8).rotate(keys.clone(), 4)
    others = memory[:, :, 0].clone()
    gyre.rope(8).rotate(keys, 4, out=keys)
    assert torch.equal(memory[:, :, 1].transpose(1, 2), want) and torch.equal(memory[:, :, 0], others)


def test_results_of_jax_are_jax_arrays_without_a_copy() -> None:
    jax = pytest.importorskip("jax")
    x = jax.numpy.ones((1, 2, 16, 64), "float32")
    y = gyre.rope(64).rotate(x, 1)
    assert isinstance(y, jax.Array) and y.unsafe_buffer_pointer() % 64 == 0
    np.testing.assert_array_equal(np.asarray(y + 0), gyre.rope(64).rotate(np.asarray(x), 1))
