"""gyre.PreparedAttention has the bits of gyre.attention, over memory that changes; Cache.append to many sequences those of one
append for each."""

import gc
import threading
from typing import Any

import frameworks as fw
import gyre
import numpy as np
import pytest

HEADS, KEY_HEADS, DIM, MOST = 4, 2, 16, 12
RNG = np.random.default_rng(6)
ENCODINGS = {"none": None, "rope": gyre.rope(DIM), "alibi": gyre.alibi(HEADS)}
KINDS = [kind for kind in fw.KINDS if kind.framework in ("numpy", "torch")]


def operands(kind: fw.Kind, queries: int = 1) -> list[Any]:
    shapes = (HEADS, queries), (KEY_HEADS, MOST), (KEY_HEADS, MOST)
    return [fw.make(kind, RNG.standard_normal((1, heads, tokens, DIM))) for heads, tokens in shapes]


def same(a: Any, b: Any) -> None:
    np.testing.assert_array_equal(fw.double(a), fw.double(b))


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("name", list(ENCODINGS))
def test_decoding_step_by_step(kind: fw.Kind, name: str) -> None:
    """Keys are written where they are, and each run sees one more."""
    q, k, v = operands(kind)
    later = [fw.make(kind, RNG.standard_normal((1, HEADS, 1, DIM))) for _ in range(MOST)]
    call = gyre.PreparedAttention(q, k, v, encoding=ENCODINGS[name], causal=True, lse=True)
    for keys in [1, 2, 3, 7, MOST, 2]:
        x = later[keys - 1]
        k[:, :, keys - 1] = k[:, :, 0] * keys / 8
        out, lse = call.run(x, keys=keys)
        wanted, wanted_lse = gyre.attention(
            x, k[:, :, :keys], v[:, :, :keys], encoding=ENCODINGS[name], causal=True, lse=True
        )
        same(out, wanted)
        same(lse, wanted_lse)
        assert out is call.result[0]
        assert type(out) is type(wanted)
    same(call.run()[0], gyre.attention(later[1], k[:, :, :2], v[:, :, :2], encoding=ENCODINGS[name], causal=True))


def test_positions_and_several_queries() -> None:
    q, k, v = operands(fw.Kind("numpy", "float32"), queries=3)
    rope = ENCODINGS["rope"]
    call = gyre.PreparedAttention(q, k, v, encoding=rope)
    five = q, k[:, :, :5], v[:, :, :5]
    found = call.run(keys=5, position=100, key_position=90)
    same(found, gyre.attention(*five, encoding=rope, positions=100, key_positions=90))
    same(call.run(keys=5), gyre.attention(*five, encoding=rope))
    at = np.array([7, 3, 5])
    where = {"positions": at, "key_positions": np.arange(MOST)}
    call = gyre.PreparedAttention(q, k, v, encoding=rope, causal=True, **where)
    at += 2
    same(call.run(), gyre.attention(q, k, v, encoding=rope, causal=True, **where))


def test_memory_is_that_of_the_caller_and_stays() -> None:
    """Nothing is copied: out is the caller's; arrays that only the call has live on."""
    q, k, v = operands(fw.Kind("numpy", "float32"))
    out = np.empty_like(q)
    call = gyre.PreparedAttention(q, k.copy(), v.copy(), out=out)
    gc.collect()
    assert call.run() is out
    same(out, gyre.attention(q, k, v))
    call.run(k=(k * 2).copy(), v=v.copy())
    gc.collect()
    same(call.run(), gyre.attention(q, k * 2, v))
    q *= 3
    same(call.run(), gyre.attention(q, k * 2, v))


def test_what_a_run_refuses() -> None:
    q, k, v = operands(fw.Kind("numpy", "float32"))
    call = gyre.PreparedAttention(q, k, v)
    for keys in (0, -1, MOST + 1):
        with pytest.raises(gyre.Error, match=rf"keys: {keys} is not in 1 \.\. {MOST}"):
            call.run(keys=keys)
    for wrong in (q.astype("f2"), q[:, :, :, :8], np.repeat(q, 2, -1)[..., ::2]):
        with pytest.raises(gyre.Error, match="q: has another type, shape or strides"):
            call.run(wrong)
    with pytest.raises(gyre.Error, match=r"positions: 1099511627776 of token 0 is past 2\^31"):
        gyre.PreparedAttention(q, k, v, encoding=ENCODINGS["rope"]).run(position=1 << 40)
    same(call.run(), gyre.attention(q, k, v))
    with pytest.raises(gyre.Error, match="k: has 2 axes"):
        gyre.PreparedAttention(q, k[0, 0], v)


def test_a_number_may_run_the_call() -> None:
    """A run holds no lock while it reads its arguments."""
    q, k, v = operands(fw.Kind("numpy", "float32"))
    call = gyre.PreparedAttention(q, k, v)

    class Five:
        def __index__(self) -> int:
            call.run(keys=3)
            return 5

    wanted, found = gyre.attention(q, k[:, :, :5], v[:, :, :5]), []
    thread = threading.Thread(target=lambda: found.append(call.run(keys=Five()).copy()), daemon=True)  # type: ignore[arg-type]
    thread.start()
    thread.join(60)
    assert len(found) == 1
    same(found[0], wanted)


@pytest.mark.skipif(not any(kind.framework == "jax" for kind in fw.KINDS), reason="no JAX")
def test_jax_is_refused() -> None:
    q, k, v = operands(fw.Kind("jax", "float32"))
    with pytest.raises(gyre.Error, match="q: is neither of numpy nor of torch"):
        gyre.PreparedAttention(q, k, v)


# -- append to many sequences --


def caches(count: int, **config: Any) -> list[gyre.Cache]:
    return [
        gyre.Cache(ENCODINGS["rope"], heads=KEY_HEADS, max_tokens=200, sequences=5, page_tokens=8, **config) for _ in range(count)
    ]


def assert_alike(a: gyre.Cache, b: gyre.Cache) -> None:
    q = RNG.standard_normal((5, HEADS, 1, DIM)).astype("f4")
    for sequence in range(5):
        np.testing.assert_array_equal(a.positions(sequence), b.positions(sequence))
    same(a.attention(q), b.attention(q))


def tokens(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype("f4")


def test_append_to_many_is_one_append_for_each() -> None:
    many, one = caches(2)
    starts, order = [0, 3, 4, 10], [4, 0, 2]
    k, v = tokens(10, KEY_HEADS, DIM), tokens(10, KEY_HEADS, DIM)
    many.append(k, v, sequences=order, starts=np.array(starts))
    for i, sequence in enumerate(order):
        part = slice(starts[i], starts[i + 1])
        one.append(k[part], v[part], sequence=sequence)
    assert_alike(many, one)
    k, v = tokens(5, KEY_HEADS, 1, DIM), tokens(5, KEY_HEADS, 1, DIM)  # a decoding step: a batch row each
    many.append(k, v, sequences=[3, 1, 4, 0, 2])
    for row, sequence in enumerate([3, 1, 4, 0, 2]):
        one.append(k[row : row + 1], v[row : row + 1], sequence=sequence)
    assert_alike(many, one)
    many.append(k[:2, :, 0], v[:2, :, 0], np.array([70, 80]), sequences=[1, 0])
    one.append(k[:1], v[:1], 70, sequence=1)
    one.append(k[1:2], v[1:2], 80, sequence=0)
    assert_alike(many, one)


def test_append_to_many_is_all_or_nothing() -> None:
    (cache,) = caches(1)
    k = tokens(2, KEY_HEADS, DIM)
    for sequences, message in (([1, 1], "twice|sequences"), ([0, 9], r"sequences: 9 is not in 0 \.\. 4")):
        with pytest.raises(gyre.Error, match=message):
            cache.append(k, k, sequences=sequences)
    for wrong, message in (
        ({"sequences": [0, 1], "sequence": 1}, "sequence: is given beside sequences"),
        ({"starts": [0, 2]}, "starts: needs sequences"),
        ({"sequences": 3}, "sequences: is not a list"),
        ({"sequences": [0, 1], "starts": np.array([0, 1])}, "starts: has shape"),
        ({"sequences": [0, 1], "length": 64}, "positions: missing"),
    ):
        with pytest.raises(gyre.Error, match=message):
            cache.append(k, k, **wrong)
    assert cache.usage()["tokens"] == 0
