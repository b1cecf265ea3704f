"""Contextual and adaptive attention over a cache: against numpy in double, and with the bits of arrays of the same tokens."""

from typing import Any

import frameworks as fw
import gyre
import numpy as np
import pytest
from test_adaptive import definition as adaptive
from test_contextual import definition as contextual
from test_refusals import refused

HEADS, KEY_HEADS, CHANNELS, VALUES, QUERIES, WIDTH = 4, 2, 8, 6, 3, 5
DTYPES = ["float32", "float16", "bfloat16", "q8"]
ROWS = [[0, 1, 2], [2, 0, 0], [1]]


class Tokens:
    """A sequence: keys and values [key heads, tokens, channels] and positions."""

    def __init__(self) -> None:
        self.k, self.v = np.zeros((KEY_HEADS, 0, CHANNELS), "f4"), np.zeros((KEY_HEADS, 0, VALUES), "f4")
        self.at = np.zeros(0, int)


def exact(random: np.random.Generator, *shape: int) -> np.ndarray:
    """Rows of whole numbers over 64, one of them 127: each type of a cache keeps them as they are."""
    x = random.integers(-127, 128, shape)
    x[..., 1] = 127
    return (x / 64).astype("f4")


def filled(encoding: gyre.Encoding | None = None, dtype: str = "float32", **config: Any) -> tuple[gyre.Cache, list[Tokens]]:
    """Three sequences, two of which share pages and have holes and moved tokens."""
    random = np.random.default_rng(5)
    cache = gyre.Cache(
        encoding, heads=KEY_HEADS, head_dim=CHANNELS, value_dim=VALUES, max_tokens=512, sequences=3, page_tokens=16,
        dtype=dtype, **config,
    )  # fmt: skip
    all_tokens = [Tokens() for _ in range(3)]

    def append(sequence: int, count: int) -> None:
        s = all_tokens[sequence]
        k, v = exact(random, KEY_HEADS, count, CHANNELS), exact(random, KEY_HEADS, count, VALUES)
        cache.append(k[None], v[None], sequence=sequence)
        s.at = np.concatenate([s.at, np.arange(count) + (s.at[-1] + 1 if len(s.at) else 0)])
        s.k, s.v = np.concatenate([s.k, k], 1), np.concatenate([s.v, v], 1)

    def remove(sequence: int, first: int, count: int) -> None:
        s, gone = all_tokens[sequence], np.s_[first : first + count]
        cache.remove(first, count, sequence=sequence)
        s.k, s.v, s.at = np.delete(s.k, gone, 1), np.delete(s.v, gone, 1), np.delete(s.at, gone)

    append(0, 40)
    cache.fork(0, 1)
    all_tokens[1].k, all_tokens[1].v, all_tokens[1].at = (getattr(all_tokens[0], name) for name in ("k", "v", "at"))
    append(2, 7)
    remove(0, 10, 4)
    append(0, 130)
    append(1, 5)
    cache.shift(20, 25, -9, sequence=1)
    all_tokens[1].at = all_tokens[1].at - 9 * (np.arange(45) >= 20)
    for i, s in enumerate(all_tokens):
        np.testing.assert_array_equal(cache.positions(i), s.at)
    return cache, all_tokens


def numbers(*shape: int, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype("f4")


def grouped(x: np.ndarray) -> np.ndarray:
    return np.repeat(x, HEADS // KEY_HEADS, 0).astype("f8")


# -- contextual --


@pytest.mark.parametrize("rows", ROWS, ids=str)
@pytest.mark.parametrize("dtype", DTYPES)
def test_contextual(dtype: str, rows: list[int]) -> None:
    cache, tokens = filled(dtype=dtype)
    q, e = numbers(len(rows), HEADS, QUERIES, CHANNELS), numbers(9, CHANNELS, seed=2)
    out, lse = cache.contextual_attention(q, e, sequences=rows, position_scale=0.6, lse=True)
    assert out.shape == (len(rows), HEADS, QUERIES, VALUES) and out.dtype == np.float32
    assert lse.shape == (len(rows), HEADS, QUERIES) and lse.dtype == np.float32
    for b, row in enumerate(rows):
        k, v = tokens[row].k, tokens[row].v
        want, want_lse = gyre.contextual_attention(q[b], k, v, e, layout="hsd", position_scale=0.6, lse=True)
        np.testing.assert_array_equal(out[b], want)
        np.testing.assert_array_equal(lse[b], want_lse)
        of_double = contextual(q[b].astype("f8"), grouped(k), grouped(v), e.astype("f8"), grouped(k), 0.6)
        np.testing.assert_allclose(out[b], of_double, rtol=0, atol=5e-6)


def test_contextual_options() -> None:
    cache, tokens = filled()
    q, e = numbers(2, HEADS, QUERIES, CHANNELS), numbers(9, HEADS, CHANNELS, seed=2)
    named = {"scale": 0.3, "gate_scale": 1.0, "position_scale": 0.7, "key_first": np.array([2, 0]), "key_end": np.array([9, 5])}
    rows = [1, 2]
    out = cache.contextual_attention(q, e, sequences=rows, **named)
    for b, row in enumerate(rows):
        mine = {name: x[b : b + 1] if isinstance(x, np.ndarray) else x for name, x in named.items()}
        want = gyre.contextual_attention(q[b : b + 1], tokens[row].k[None], tokens[row].v[None], e, **mine)
        np.testing.assert_array_equal(out[b : b + 1], want)
    plain = cache.contextual_attention(q, e)
    np.testing.assert_array_equal(plain, cache.contextual_attention(q, e, sequences=[0, 1]))
    strided = np.ascontiguousarray(q.transpose(0, 2, 1, 3))[..., ::-1]  # read where it lies: reversed channels, read alone
    strided.flags.writeable = False
    other = cache.contextual_attention(strided[..., ::-1], e, layout="bshd")
    np.testing.assert_array_equal(other.transpose(0, 2, 1, 3), plain)
    one = cache.contextual_attention(q[0].transpose(1, 0, 2), e, sequences=[0])
    np.testing.assert_array_equal(one.transpose(1, 0, 2), plain[0])


def test_contextual_decoding_is_a_whole_call() -> None:
    q, k, v = numbers(1, HEADS, 20, CHANNELS), numbers(1, KEY_HEADS, 20, CHANNELS, seed=2), numbers(1, KEY_HEADS, 20, VALUES, seed=3)
    e = numbers(6, CHANNELS, seed=4)
    cache = gyre.Cache(heads=KEY_HEADS, head_dim=CHANNELS, value_dim=VALUES, max_tokens=20)
    whole = gyre.contextual_attention(q, k, v, e)
    for t in range(20):
        cache.append(k[:, :, t : t + 1], v[:, :, t : t + 1])
        np.testing.assert_array_equal(cache.contextual_attention(q[:, :, t : t + 1], e), whole[:, :, t : t + 1])


def test_contextual_over_latents() -> None:
    """Values that are the first channels of keys."""
    cache = gyre.Cache(heads=1, head_dim=CHANNELS, value_dim=VALUES, max_tokens=9, values_in_keys=True)
    k, q, e = numbers(1, 1, 9, CHANNELS), numbers(1, HEADS, QUERIES, CHANNELS, seed=2), numbers(4, CHANNELS, seed=3)
    cache.append(k)
    want = gyre.contextual_attention(q, k, k[..., :VALUES], e)
    np.testing.assert_array_equal(cache.contextual_attention(q, e), want)


# -- adaptive --


def network(form: str = "concat-residual") -> dict[str, np.ndarray]:
    inputs = HEADS if form == "add-residual" else 2 * HEADS
    shapes = {"hidden_weights": (WIDTH, inputs), "hidden_bias": (WIDTH,), "output_weights": (HEADS, WIDTH), "output_bias": (HEADS,)}
    return {name: 0.7 * numbers(*shape, seed=i + 7) for i, (name, shape) in enumerate(shapes.items())}


def alibi_bias(queries: np.ndarray, keys: np.ndarray) -> np.ndarray:
    slopes = 2.0 ** (-8 * np.arange(1, HEADS + 1) / HEADS)
    return -slopes[:, None, None] * np.abs(queries[:, None] - keys)


@pytest.mark.parametrize("form", ["concat-residual", "concat", "add-residual"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("rows", ROWS, ids=str)
def test_adaptive(dtype: str, form: str, rows: list[int]) -> None:
    encoding = gyre.alibi(heads=HEADS)
    cache, tokens = filled(encoding, dtype)
    q, weights = numbers(len(rows), HEADS, QUERIES, CHANNELS), network(form)
    out, lse = cache.adaptive_attention(q, sequences=rows, form=form, slope=0.2, lse=True, **weights)
    assert out.shape == (len(rows), HEADS, QUERIES, VALUES) and lse.shape == (len(rows), HEADS, QUERIES)
    for b, row in enumerate(rows):
        s = tokens[row]
        want, want_lse = gyre.adaptive_attention(
            q[b], s.k, s.v, encoding=encoding, positions=s.at[-QUERIES:], key_positions=s.at, layout="hsd", form=form,
            slope=0.2, lse=True, **weights,
        )  # fmt: skip
        np.testing.assert_array_equal(out[b], want)
        np.testing.assert_array_equal(lse[b], want_lse)
        double = {name: x.astype("f8") for name, x in weights.items()}
        bias = alibi_bias(s.at[-QUERIES:], s.at)
        of_double = adaptive(q[b].astype("f8"), s.k.astype("f8"), s.v.astype("f8"), double, bias, form, slope=0.2)
        np.testing.assert_allclose(out[b], of_double, rtol=0, atol=2e-5)


def test_adaptive_tables_and_biases_of_the_caller() -> None:
    kerple, table = gyre.kerple(heads=HEADS), np.linspace(0.1, 0.9, 2 * HEADS).reshape(2, HEADS)
    q, weights, rows = numbers(2, HEADS, QUERIES, CHANNELS), network(), [2, 1]
    bias = numbers(2, 1, QUERIES, 45, seed=9)  # as many keys as the longer sequence
    end = np.array([6, 44])
    for encoding, tables in ((kerple, table), (kerple, {"bias": table}), (None, None)):
        cache, tokens = filled(encoding)
        out = cache.adaptive_attention(q, sequences=rows, tables=tables, bias=bias, key_end=end, causal=False, scale=0.4, **weights)
        for b, row in enumerate(rows):
            s = tokens[row]
            at = {"positions": s.at[end[b] - QUERIES : end[b]], "key_positions": s.at} if encoding else {}
            want = gyre.adaptive_attention(
                q[b : b + 1], s.k[None], s.v[None], encoding=encoding, tables=tables, bias=bias[b : b + 1, ..., : len(s.at)],
                key_end=end[b : b + 1], causal=False, scale=0.4, **weights, **at,
            )  # fmt: skip
            np.testing.assert_array_equal(out[b : b + 1], want)
    cache, _ = filled(kerple)


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("scaling", [None, "linear"])
def test_adaptive_batches_that_are_padded(scaling: str | None, causal: bool) -> None:
    """More queries than a sequence has keys, as arrays take them; a length alone moves no query."""
    encoding = gyre.alibi(heads=HEADS, scaling=scaling, trained_length=16) if scaling else gyre.alibi(heads=HEADS)
    cache, tokens = filled(encoding)
    q, weights, rows = numbers(3, HEADS, QUERIES, CHANNELS), network(), [0, 1, 2]
    named = {"causal": causal, **({"length": 40} if scaling else {}), **weights}
    for ends in ([len(tokens[row].at) for row in rows], [1, 2, 0], [2, 5, 7]):
        out = cache.adaptive_attention(q, sequences=rows, key_end=np.array(ends), **named)
        for b, row in enumerate(rows):
            s = tokens[row]
            index = np.arange(ends[b] - QUERIES, ends[b])
            at = np.where(index < 0, s.at[0] + index, s.at[index])
            want = gyre.adaptive_attention(
                q[b : b + 1], s.k[None], s.v[None], encoding=encoding, key_end=np.array(ends[b : b + 1]),
                positions=at, key_positions=s.at, **named,
            )  # fmt: skip
            np.testing.assert_array_equal(out[b : b + 1], want)
            if causal:
                assert not out[b][:, index < 0].any()


def test_adaptive_positions_and_length() -> None:
    encoding = gyre.alibi(heads=HEADS, scaling="linear", trained_length=16, context_length=32)  # slopes are divided by length / 16
    cache, tokens = filled(encoding)
    q, weights, rows = numbers(2, HEADS, QUERIES, CHANNELS), network(), [1, 0]
    last = np.stack([tokens[row].at[-QUERIES:] for row in rows])

    def arrays(positions: np.ndarray, **named: Any) -> np.ndarray:
        return np.stack([
            gyre.adaptive_attention(
                q[b], tokens[row].k, tokens[row].v, encoding=encoding, positions=positions[b], key_positions=tokens[row].at,
                layout="hsd", **weights, **named,
            )
            for b, row in enumerate(rows)
        ])  # fmt: skip

    plain = cache.adaptive_attention(q, sequences=rows, **weights)
    np.testing.assert_array_equal(plain, arrays(last))
    np.testing.assert_array_equal(cache.adaptive_attention(q, sequences=rows, positions=last, **weights), plain)
    moved = last + np.array([[7], [-2]])
    np.testing.assert_array_equal(cache.adaptive_attention(q, sequences=rows, positions=moved, **weights), arrays(moved))
    assert not np.array_equal(arrays(moved), plain)
    same = np.broadcast_to(100 + np.arange(QUERIES), (2, QUERIES))  # one number: the first query of every row
    np.testing.assert_array_equal(cache.adaptive_attention(q, sequences=rows, positions=100, **weights), arrays(same))
    long = cache.adaptive_attention(q, sequences=rows, length=320, **weights)
    np.testing.assert_array_equal(long, arrays(last, length=320))
    assert not np.array_equal(long, plain)
    both = cache.adaptive_attention(q, sequences=rows, length=320, positions=moved, **weights)
    np.testing.assert_array_equal(both, arrays(moved, length=320))


# -- what both share --


def calls(cache: gyre.Cache, q: Any, **named: Any) -> list[Any]:
    e = numbers(5, CHANNELS, seed=2)
    return [
        lambda: cache.contextual_attention(q, e, **named),
        lambda: cache.adaptive_attention(q, **network(), **named),
    ]


@pytest.mark.parametrize("kind", fw.KINDS, ids=str)
def test_arrays_of_frameworks(kind: fw.Kind) -> None:
    cache, _ = filled()
    rounded = fw.double(fw.make(kind, numbers(1, HEADS, QUERIES, CHANNELS)))
    given = fw.make(kind, rounded)
    for call, of_double in zip(calls(cache, given), calls(cache, rounded), strict=True):
        out = call()
        assert isinstance(out, fw.returned_type(kind, given)) and str(out.dtype).endswith(kind.dtype)
        np.testing.assert_allclose(fw.double(out), of_double(), rtol=kind.epsilon, atol=kind.epsilon)


def test_parameters_of_frameworks() -> None:
    torch = pytest.importorskip("torch")
    cache, _ = filled()
    q, e, weights = numbers(1, HEADS, QUERIES, CHANNELS), numbers(5, CHANNELS, seed=2), network()
    tensors = {name: torch.from_numpy(x) for name, x in weights.items()}
    out = cache.contextual_attention(torch.from_numpy(q), torch.from_numpy(e))
    np.testing.assert_array_equal(out.numpy(), cache.contextual_attention(q, e))
    out = cache.adaptive_attention(torch.from_numpy(q), **tensors)
    np.testing.assert_array_equal(out.numpy(), cache.adaptive_attention(q, **weights))
    needs = torch.from_numpy(q).requires_grad_()
    for call in (*calls(cache, needs), lambda: cache.attention(needs)):
        refused(call, "q: requires a gradient", "q")


def test_what_a_cache_refuses() -> None:
    cache, _ = filled()
    q, e, weights = numbers(1, HEADS, QUERIES, CHANNELS), numbers(5, CHANNELS, seed=2), network()
    for call in calls(cache, q[..., :7]):
        assert refused(call, "q: 7 channels, but the cache has 8", "q").status == "ESHAPE"
    for call in calls(cache, q[:, :3]):
        assert refused(call, "q: ", "q").status == "ESHAPE"
    for call in calls(cache, q, sequences=[3]):
        assert refused(call, r"^sequences\[0\]: 3 is not in 0 .. 2$", "sequences[0]").status == "EINVAL"
    for call in calls(cache, q, sequences=[0, 1]):
        refused(call, "sequences: is not a list with a sequence for each of 1 batch rows", "sequences")
    for call in calls(cache, q, key_end=np.array([1, 2])):
        refused(call, "key_end: ", "key_end")
    for call in calls(cache, q, key_end=np.array([1000])):
        refused(call, "key_end: ", "key_end")
    for call in calls(cache, q, scale=0):
        refused(call, "scale: is 0", "scale")
    for call in calls(cache, q, layout="bsd"):
        refused(call, "q: .*'bsd'", "q")
    for call in calls(cache, q.astype("i4")):
        refused(call, "q: ", "q")
    refused(lambda: cache.contextual_attention(q, e[0]), r"embeddings: has 1 axes, not \[positions, channels\]", "embeddings")
    refused(lambda: cache.contextual_attention(q, e[:, :5]), "embeddings: ", "embeddings")
    refused(lambda: cache.contextual_attention(q, numbers(5, 3, CHANNELS)), "embeddings: ", "embeddings")
    wrong = {**weights, "hidden_weights": weights["hidden_weights"][:, :4]}
    refused(lambda: cache.adaptive_attention(q, **wrong), "hidden_weights: ", "hidden_weights")
    refused(lambda: cache.adaptive_attention(q, causal="position", **weights), "causal: is 'position'", "causal")
    refused(lambda: cache.adaptive_attention(q, bias=numbers(QUERIES, 165), **weights), "bias: ", "bias")
    refused(lambda: cache.adaptive_attention(q, bias=numbers(2, 166), **weights), "bias: ", "bias")


def test_encodings_that_a_cache_refuses() -> None:
    q, e, weights = numbers(1, HEADS, QUERIES, CHANNELS), numbers(5, CHANNELS, seed=2), network()
    biased, _ = filled(gyre.alibi(heads=HEADS))
    why = refused(lambda: biased.contextual_attention(q, e), "^cache: has an encoding, but queries count positions$", "cache")
    assert why.status == "EUNSUPPORTED"
    rotated, _ = filled(gyre.rope(CHANNELS))
    refused(lambda: rotated.adaptive_attention(q, **weights), "encoding: rope adds no bias", "encoding")
    trained, _ = filled(gyre.kerple(heads=HEADS))
    refused(lambda: trained.adaptive_attention(q, **weights), "tables.bias: ", "tables.bias")
    gated = gyre.Cache(heads=KEY_HEADS, head_dim=CHANNELS, max_tokens=9, gate_heads=HEADS)
    for call in calls(gated, q):
        assert refused(call, "cache: keeps gate sums", "cache").status == "EUNSUPPORTED"
    for call in calls(gyre.Cache(heads=KEY_HEADS, head_dim=CHANNELS, max_tokens=9), q):
        assert np.array_equal(call(), np.zeros(q.shape, "f4"))  # rows without a key


def test_an_encoding_that_is_set_while_arguments_are_read() -> None:
    cache, _ = filled(gyre.alibi(heads=HEADS))
    q, weights = numbers(1, HEADS, QUERIES, CHANNELS), network()

    class Sets:
        def __dlpack__(self, **options: Any) -> Any:
            cache.set_encoding(gyre.alibi(heads=HEADS, max_bias=4))
            return q.__dlpack__()

        def __dlpack_device__(self) -> tuple[int, int]:
            return 1, 0

    text = "encoding: was changed by another thread during the call"
    refused(lambda: cache.adaptive_attention(Sets(), **weights), text, "encoding")
    assert cache.adaptive_attention(q, **weights).shape == (1, HEADS, QUERIES, VALUES)
