"""Data-adaptive position encoding (DAPE): values against numpy, gradients against differences of that."""

import gyre
import numpy as np
import pytest

HEADS, KEY_HEADS, CHANNELS, VALUES, WIDTH = 4, 2, 3, 5, 6
FORMS = ["concat-residual", "concat", "add-residual"]


def definition(
    q: np.ndarray,
    k: np.ndarray,
    v: np.ndarray,
    weights: dict[str, np.ndarray],
    bias: np.ndarray,
    form: str,
    *,
    slope: float = 0.01,
    causal: bool = True,
) -> np.ndarray:
    """q [heads, queries, channels], k and v [key heads, keys, channels], bias [heads, queries, keys]; as the released code."""
    queries, keys = q.shape[1], k.shape[1]
    k, v = (np.repeat(x, q.shape[0] // k.shape[0], 0) for x in (k, v))
    products = q @ k.swapaxes(1, 2) * q.shape[2] ** -0.5
    x = products + bias if form == "add-residual" else np.concatenate([products, bias])
    unit = np.einsum("wi,iqk->wqk", weights["hidden_weights"], x) + weights["hidden_bias"][:, None, None]
    hidden = np.where(unit > 0, unit, slope * unit)
    score = np.einsum("hw,wqk->hqk", weights["output_weights"], hidden) + weights["output_bias"][:, None, None]
    score = score + products + (0 if form == "concat" else bias)
    if causal:
        score = np.where(np.tril(np.ones((queries, keys)), keys - queries) == 1, score, -np.inf)
    weight = np.exp(score - score.max(-1, keepdims=True))
    return (weight / weight.sum(-1, keepdims=True)) @ v


def numbers(queries: int, keys: int, form: str) -> tuple[list[np.ndarray], dict[str, np.ndarray], np.ndarray]:
    random = np.random.default_rng(queries)
    inputs = HEADS if form == "add-residual" else 2 * HEADS
    shapes = [(HEADS, queries, CHANNELS), (KEY_HEADS, keys, CHANNELS), (KEY_HEADS, keys, VALUES)]
    names = {
        "hidden_weights": (WIDTH, inputs),
        "hidden_bias": (WIDTH,),
        "output_weights": (HEADS, WIDTH),
        "output_bias": (HEADS,),
        "bias": (HEADS, queries, keys),
    }
    weights = {name: 0.7 * random.standard_normal(shape) for name, shape in names.items()}
    return [random.standard_normal(shape) for shape in shapes], weights, random.standard_normal((HEADS, queries, VALUES))


def split(weights: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray, dict[str, np.ndarray]]:
    rest = {name: x for name, x in weights.items() if name not in ("hidden_weights", "output_weights")}
    return weights["hidden_weights"], weights["output_weights"], rest


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("causal", [True, False])
def test_values_and_gradients(form: str, causal: bool) -> None:
    inputs, weights, dout = numbers(5, 9, form)
    *network, rest = split(weights)
    options = {"form": form, "causal": causal, "slope": 0.2, "layout": "hsd", **rest}
    out, lse = gyre.adaptive_attention(*inputs, *network, lse=True, **options)
    assert out.dtype == np.float64 and lse.dtype == np.float32 and lse.shape == (HEADS, 5)

    def values(moved: list[np.ndarray], with_weights: dict[str, np.ndarray]) -> np.ndarray:
        return definition(*moved, with_weights, with_weights["bias"], form, slope=0.2, causal=causal)

    assert np.allclose(out, values(inputs, weights), rtol=0, atol=2e-6)
    *found, others = gyre.adaptive_gradient(dout, *inputs, *network, out, lse, **options)
    assert set(others) == {*weights, "tables"} and others["tables"] == {}
    given = [*inputs, *weights.values()]
    found += [others[name] for name in weights]
    for i, (one, gradient) in enumerate(zip(given, found, strict=True)):
        assert gradient.size == one.size and gradient.dtype == np.float64
        step = np.random.default_rng(9).standard_normal(one.shape)
        loss = []
        for sign in (1, -1):
            moved = [x + sign * 1e-6 * step if n == i else x for n, x in enumerate(given)]
            loss.append(np.sum(dout * values(moved[:3], dict(zip(weights, moved[3:], strict=True)))))
        got = np.sum(step * gradient.reshape(one.shape))
        assert np.isclose(got, (loss[0] - loss[1]) / 2e-6, rtol=3e-5, atol=3e-5)


SCHEMES = [
    (gyre.alibi(heads=HEADS), None),
    (gyre.kerple(heads=HEADS), np.linspace(0.1, 0.9, 2 * HEADS).reshape(2, HEADS)),
    (gyre.t5(heads=HEADS), np.linspace(-1, 1, 32 * HEADS).reshape(32, HEADS)),
    (gyre.fire(heads=HEADS, hidden_units=3), np.linspace(0.3, 1, 12 * HEADS).reshape(12, HEADS)),
]


@pytest.mark.parametrize("encoding, table", SCHEMES, ids=[scheme.kind for scheme, _ in SCHEMES])
def test_biases_of_schemes(encoding: gyre.Encoding, table: np.ndarray | None) -> None:
    inputs, weights, dout = numbers(7, 7, "concat-residual")
    *network, rest = split(weights)
    del rest["bias"]
    given = {"encoding": encoding, **({} if table is None else {"tables": table})}
    static = encoding.bias(7, tables=table, double=True)
    out, lse = gyre.adaptive_attention(*inputs, *network, layout="hsd", lse=True, **rest, **given)
    assert np.allclose(out, definition(*inputs, weights, static, "concat-residual"), rtol=0, atol=3e-6)
    *_, others = gyre.adaptive_gradient(dout, *inputs, *network, out, lse, layout="hsd", **rest, **given)
    of_bias = gyre.adaptive_gradient(
        dout, *inputs, *network, *gyre.adaptive_attention(*inputs, *network, layout="hsd", lse=True, bias=static, **rest),
        layout="hsd", bias=static, **rest,
    )[3]["bias"][0]  # fmt: skip
    if table is None:
        assert others["tables"] == {}
        return
    step = np.random.default_rng(3).standard_normal(table.shape)
    moved = [encoding.bias(7, tables=table + sign * 1e-6 * step, double=True) for sign in (1, -1)]
    wanted = np.sum(of_bias * (moved[0] - moved[1])) / 2e-6
    assert np.isclose(np.sum(step * others["tables"]["bias"].reshape(table.shape)), wanted, rtol=1e-4, atol=1e-4)


def test_packed_and_with_a_cache() -> None:
    inputs, weights, _ = numbers(9, 9, "concat-residual")
    q, k, v = (x.astype(np.float32) for x in inputs)
    *network, rest = split({name: x.astype(np.float32) for name, x in weights.items() if name != "bias"})
    options = {"layout": "hsd", "encoding": gyre.kerple(heads=HEADS), "tables": np.full((2, HEADS), 0.4, np.float32), **rest}
    whole = gyre.adaptive_attention(q, k, v, *network, **options)
    steps = range(9)
    one = [gyre.adaptive_attention(q[:, t : t + 1], k[:, : t + 1], v[:, : t + 1], *network, **options) for t in steps]
    assert np.array_equal(np.concatenate(one, 1), whole)
    at = [gyre.adaptive_attention(q[:, t:], k, v, *network, positions=t, **options) for t in (0, 4)]
    assert np.array_equal(at[0], whole) and np.array_equal(at[1], whole[:, 4:])
    starts = np.array([0, 4, 9])
    packed = gyre.adaptive_attention(q, k, v, *network, query_starts=starts, key_starts=starts, **options)
    assert np.array_equal(packed[:, :4], whole[:, :4])
    assert np.array_equal(packed[:, 4:], gyre.adaptive_attention(q[:, 4:], k[:, 4:], v[:, 4:], *network, **options))
    options["layout"] = "bhsd"
    padded = gyre.adaptive_attention(q[None, :, :4], k[None], v[None], *network, key_end=np.array([4]), **options)
    assert np.array_equal(padded[0], whole[:, :4])


def test_refusals() -> None:
    inputs, weights, dout = numbers(5, 9, "concat-residual")
    *network, rest = split(weights)

    def refused(match: str, /, *given: np.ndarray, **options: object) -> None:
        with pytest.raises(gyre.Error, match=match):
            gyre.adaptive_attention(*(given or (*inputs, *network)), layout="hsd", **{**rest, **options})  # type: ignore[arg-type]

    refused(r"hidden_weights: has 1 axes, not \[hidden units, inputs\]", *inputs, network[0][0], network[1])
    refused(r"output_bias: has 2 axes, not \[heads\]", output_bias=np.zeros((1, HEADS)))
    refused("hidden_weights", form="add-residual")
    refused("form: is 'both', not one of 'concat-residual', 'concat', 'add-residual'", form="both")
    refused("causal: is 'position', not one of 'none', 'order'", causal="position")
    refused("causal: ", causal=1)
    refused("slope: is 0", slope=0)
    refused("encoding: rope adds no bias", encoding=gyre.rope(head_dim=4))
    refused("q: 4 heads, the encoding has 8", encoding=gyre.alibi(heads=8))
    refused("bias: missing", encoding=gyre.kerple(heads=HEADS))
    refused(r"bias: has shape \[4, 5, 8\]", bias=rest["bias"][..., :8])
    refused("positions: needed beside key_positions", key_positions=0)
    refused("key_starts: missing", query_starts=np.array([0, 5]))
    out, lse = gyre.adaptive_attention(*inputs, *network, layout="hsd", lse=True, **rest)
    with pytest.raises(gyre.Error, match="dout: has shape"):
        gyre.adaptive_gradient(dout[:, :4], *inputs, *network, out, lse, layout="hsd", **rest)
