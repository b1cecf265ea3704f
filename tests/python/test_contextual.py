"""Contextual position encoding (CoPE): values against numpy, gradients against differences of that."""

import gyre
import numpy as np
import pytest


def definition(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, e: np.ndarray, gate_keys: np.ndarray, position_scale: float
) -> np.ndarray:
    """q [heads, queries, channels], k and v [heads, keys, channels], e [positions, channels]; as the paper's listing."""
    queries, keys, scale = q.shape[1], k.shape[1], q.shape[2] ** -0.5
    seen = np.tril(np.ones((queries, keys)), keys - queries)
    gates = seen / (1 + np.exp(-scale * q @ gate_keys.swapaxes(1, 2)))
    position = np.minimum(np.cumsum(gates[..., ::-1], -1)[..., ::-1], len(e) - 1)
    logits, low, high = q @ e.T, np.floor(position).astype(int), np.ceil(position).astype(int)
    part = position - low
    of = position_scale * ((1 - part) * np.take_along_axis(logits, low, -1) + part * np.take_along_axis(logits, high, -1))
    score = np.where(seen == 1, scale * q @ k.swapaxes(1, 2) + of, -np.inf)
    weight = np.exp(score - score.max(-1, keepdims=True))
    return (weight / weight.sum(-1, keepdims=True)) @ v


def numbers(queries: int = 5, keys: int = 9) -> list[np.ndarray]:
    random = np.random.default_rng(queries)
    shapes = [(2, queries, 4), (2, keys, 4), (2, keys, 3), (4, 4), (2, keys, 4), (2, queries, 3)]
    return [1.5 * random.standard_normal(shape) for shape in shapes]


@pytest.mark.parametrize("separate", [False, True])
def test_values_and_gradients(separate: bool) -> None:
    *inputs, dout = numbers()
    q, k, v, e, gate_keys = inputs
    options = {"gate_keys": gate_keys} if separate else {}
    out, lse = gyre.contextual_attention(q, k, v, e, layout="hsd", position_scale=0.7, lse=True, **options)
    assert out.dtype == np.float64 and lse.dtype == np.float32 and lse.shape == (2, 5)

    def loss(*moved: np.ndarray) -> float:
        return float(np.sum(dout * definition(*moved[:4], moved[4] if separate else moved[1], 0.7)))

    assert np.allclose(out, definition(q, k, v, e, gate_keys if separate else k, 0.7), rtol=0, atol=2e-6)
    found = gyre.contextual_gradient(dout, q, k, v, e, out, lse, layout="hsd", position_scale=0.7, **options)
    assert (found[4] is not None) == separate
    for i in range(5 if separate else 4):
        assert found[i].shape == inputs[i].shape and found[i].dtype == np.float64
        step = np.random.default_rng(9).standard_normal(inputs[i].shape)
        moved = [[x + sign * 1e-6 * step if n == i else x for n, x in enumerate(inputs)] for sign in (1, -1)]
        assert np.isclose(np.sum(step * found[i]), (loss(*moved[0]) - loss(*moved[1])) / 2e-6, rtol=2e-5, atol=2e-5)


def test_packed_and_with_a_cache() -> None:
    q, k, v, e = (x.astype(np.float32) for x in numbers(9)[:4])
    whole = gyre.contextual_attention(q, k, v, e, layout="hsd")
    one = [gyre.contextual_attention(q[:, t : t + 1], k[:, : t + 1], v[:, : t + 1], e, layout="hsd") for t in range(9)]
    assert np.array_equal(np.concatenate(one, 1), whole)
    starts = np.array([0, 4, 9])
    packed = gyre.contextual_attention(q, k, v, e, layout="hsd", query_starts=starts, key_starts=starts)
    assert np.array_equal(packed[:, :4], whole[:, :4])
    assert np.array_equal(packed[:, 4:], gyre.contextual_attention(q[:, 4:], k[:, 4:], v[:, 4:], e, layout="hsd"))
    padded = gyre.contextual_attention(q[None, :, :4], k[None], v[None], e, key_end=np.array([4]))
    assert np.array_equal(padded[0], whole[:, :4])


def test_refusals() -> None:
    q, k, v, e, gate_keys, dout = numbers()
    with pytest.raises(gyre.Error, match=r"embeddings: has 1 axes, not \[positions, channels\]"):
        gyre.contextual_attention(q, k, v, e[0], layout="hsd")
    with pytest.raises(gyre.Error, match="embeddings"):
        gyre.contextual_attention(q, k, v, e[:, :3], layout="hsd")
    with pytest.raises(gyre.Error, match="gate_keys"):
        gyre.contextual_attention(q, k, v, e, layout="hsd", gate_keys=gate_keys[:, :8])
    with pytest.raises(gyre.Error, match="position_scale: is 0"):
        gyre.contextual_attention(q, k, v, e, layout="hsd", position_scale=0)
    with pytest.raises(gyre.Error, match="key_starts: missing"):
        gyre.contextual_attention(q, k, v, e, layout="hsd", query_starts=np.array([0, 5]))
    out, lse = gyre.contextual_attention(q, k, v, e, layout="hsd", lse=True)
    with pytest.raises(gyre.Error, match="dout: has shape"):
        gyre.contextual_gradient(dout[:, :4], q, k, v, e, out, lse, layout="hsd")
    with pytest.raises(gyre.Error, match="lse: has shape"):
        gyre.contextual_gradient(dout, q, k, v, e, out, lse[:1], layout="hsd")
