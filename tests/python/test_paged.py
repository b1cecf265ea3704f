"""Attention over pages of the caller and over ragged batches: against numpy in double, for every kind of array."""

from typing import Any

import frameworks as fw
import gyre
import numpy as np
import pytest
from test_refusals import refused

HEADS, KEY_HEADS, CHANNELS, VALUES, PAGE, PAGES = 4, 2, 16, 8, 4, 20
LENGTHS, QUERIES = [11, 1, 30], [3, 1, 12]
STARTS = np.array([0, 3, 4, 16])


def definition(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Causal attention of the last tokens: [queries, heads, channels] over [keys, key heads, channels]."""
    out = np.zeros((*q.shape[:2], v.shape[2]))
    for h in range(HEADS):
        kh, vh = k[:, h // (HEADS // KEY_HEADS)].astype(float), v[:, h // (HEADS // KEY_HEADS)].astype(float)
        for i in range(len(q)):
            seen = len(k) - len(q) + i + 1
            s = kh[:seen] @ q[i, h].astype(float) / CHANNELS**0.5
            w = np.exp(s - s.max())
            out[i, h] = (w / w.sum()) @ vh[:seen]
    return out


class Paged:
    """Keys and values of three sequences, in pages and as arrays."""

    def __init__(self) -> None:
        random = np.random.default_rng(3)
        self.q = random.standard_normal((STARTS[-1], HEADS, CHANNELS)).astype("f4")
        self.k_pages = random.standard_normal((PAGES, PAGE, KEY_HEADS, CHANNELS)).astype("f4")
        self.v_pages = random.standard_normal((PAGES, PAGE, KEY_HEADS, VALUES)).astype("f4")
        order = random.permutation(PAGES).astype("i4")
        counts = [-(-n // PAGE) for n in LENGTHS]
        self.indptr = np.cumsum([0, *counts]).astype("i4")
        self.indices = order[: self.indptr[-1]].copy()
        self.last = np.array([n - (c - 1) * PAGE for n, c in zip(LENGTHS, counts, strict=True)], "i4")
        self.lengths = np.array(LENGTHS, "i4")
        self.table = np.zeros((3, max(counts)), "i4")
        for s in range(3):
            self.table[s, : counts[s]] = self.indices[self.indptr[s] : self.indptr[s + 1]]

    def rows(self, pages: np.ndarray, s: int) -> np.ndarray:
        listed = self.indices[self.indptr[s] : self.indptr[s + 1]]
        return pages[listed].reshape(-1, *pages.shape[2:])[: LENGTHS[s]]

    def want(self, s: int) -> np.ndarray:
        return definition(self.q[STARTS[s] : STARTS[s + 1]], self.rows(self.k_pages, s), self.rows(self.v_pages, s))


def whole_numbers(kind: fw.Kind, x: np.ndarray) -> Any:
    if kind.framework != "torch":
        return x
    import torch

    return torch.from_numpy(x)


KINDS = [kind for kind in fw.KINDS if kind.dtype != "float64"]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: f"{kind.framework}-{kind.dtype}")
def test_ragged_batch_in_pages_agrees_with_the_definition(kind: fw.Kind) -> None:
    p = Paged()
    arrays = [fw.make(kind, x) for x in (p.q, p.k_pages, p.v_pages)]
    p.q, p.k_pages, p.v_pages = (fw.double(x) for x in arrays)
    table = [whole_numbers(kind, x) for x in (p.table, p.lengths)]
    out = fw.double(gyre.paged_attention(*arrays, *table, query_starts=STARTS))
    for s in range(3):
        np.testing.assert_allclose(out[STARTS[s] : STARTS[s + 1]], p.want(s), atol=16 * kind.epsilon)


def test_tables_and_layouts_have_the_same_bits() -> None:
    p = Paged()
    want = gyre.paged_attention(p.q, p.k_pages, p.v_pages, p.table, p.lengths, query_starts=STARTS)
    flashinfer = {"indptr": p.indptr, "last_page_len": p.last, "query_starts": STARTS}
    heads_first = [np.ascontiguousarray(x.swapaxes(1, 2)) for x in (p.k_pages, p.v_pages)]
    out, lse = gyre.paged_attention(p.q, *heads_first, p.indices, page_layout="HND", lse=True, **flashinfer)
    assert out.tobytes() == want.tobytes()
    assert lse.shape == (STARTS[-1], HEADS) and np.isfinite(lse).all()
    for s in range(3):
        k, v = p.rows(p.k_pages, s), p.rows(p.v_pages, s)
        q = p.q[STARTS[s] : STARTS[s + 1]]
        alone = gyre.attention(q, k, v, layout="thd", causal=True)
        assert alone.tobytes() == want[STARTS[s] : STARTS[s + 1]].tobytes()


def test_rows_of_a_batch_are_sequences() -> None:
    p = Paged()
    rope = gyre.rope(CHANNELS)
    q = np.stack([p.q[STARTS[s + 1] - 1] for s in range(3)])[:, :, None]
    out = gyre.paged_attention(q, p.k_pages, p.v_pages, p.table, p.lengths, encoding=rope)
    for s in range(3):
        k, v = (np.ascontiguousarray(p.rows(x, s).swapaxes(0, 1)[None]) for x in (p.k_pages, p.v_pages))
        alone = gyre.attention(q[s : s + 1], k, v, encoding=rope, causal=True)
        assert alone.tobytes() == out[s : s + 1].tobytes()


def test_the_stride_of_one_row_of_pages_is_not_looked_at() -> None:
    p = Paged()
    only = np.array([0, 3])
    want = gyre.paged_attention(p.q[:3], p.k_pages, p.v_pages, p.table[:1], p.lengths[:1], query_starts=only)
    reversed_row = gyre.paged_attention(p.q[:3], p.k_pages, p.v_pages, p.table[:1][::-1], p.lengths[:1], query_starts=only)
    assert want.tobytes() == reversed_row.tobytes()


def test_pages_are_read_where_they_are() -> None:
    p = Paged()
    before = gyre.paged_attention(p.q, p.k_pages, p.v_pages, p.table, p.lengths, query_starts=STARTS)
    p.v_pages *= 2
    after = gyre.paged_attention(p.q, p.k_pages, p.v_pages, p.table, p.lengths, query_starts=STARTS)
    assert (2 * before).tobytes() == after.tobytes()


def test_what_is_refused() -> None:
    p = Paged()

    def call(*table: Any, **rest: Any) -> Any:
        return lambda: gyre.paged_attention(p.q, p.k_pages, p.v_pages, *table, query_starts=STARTS, **rest)

    refused(call(p.table), "give either them, or indptr and last_page_len", "key_lengths")
    refused(call(p.table.astype("i8"), p.lengths), "int32", "indices")
    refused(call(p.indices, p.lengths), "not 2 axes of adjacent numbers", "indices")
    refused(call(p.table, np.array([1, 1000, 1], "i4")), "1000 tokens of sequence 1, but a row of pages has 32", "key_lengths")
    refused(
        call(p.indices[:3], indptr=p.indptr, last_page_len=p.last), "ends at 12, but indices has 3 pages", "indptr"
    )  # fmt: skip
    falling = {"indptr": np.array([0, 9000, 2, 3], "i4"), "last_page_len": p.last}
    for more in ({}, {"weights": True}):  # nothing is read past the list, and no weights are made for 9000 pages
        refused(call(p.indices[:3], **falling, **more), r"pages.indptr\[2\]: 2 is below 9000 before it")
    long = {"indptr": p.indptr, "last_page_len": np.array([1, 2**31 - 1, 1], "i4")}
    refused(call(p.indices, **long, weights=True), r"pages.last_page_len\[1\]: 2147483647 is not in 1 .. 4")
    for numbers, text in (
        ({"key_end": np.array([11, 1, 99])}, "keys 0 .. 99 of sequence 2, which has 30 keys"),
        ({"key_end": np.array([20, 1, 30])}, "keys 0 .. 20 of sequence 0, which has 11 keys"),
        ({"key_first": np.array([0, 2, 0])}, "keys 2 .. 1 of sequence 1, which has 1 keys"),
    ):
        refused(call(p.table, p.lengths, **numbers), text)
    refused(call(p.table[::-1], p.lengths), "reversed or shared", "indices")
    refused(call(np.broadcast_to(p.table[2], p.table.shape), p.lengths), "reversed or shared", "indices")
    wrong = p.table.copy()
    wrong[2, 1] = PAGES
    refused(call(wrong, p.lengths), r"pages.indices\[17\]: 20 is not in 0 .. 19")


def test_ragged_batch_over_a_cache() -> None:
    p = Paged()
    cache = gyre.Cache(
        heads=KEY_HEADS, head_dim=CHANNELS, value_dim=VALUES, max_tokens=64, sequences=3, page_tokens=8, dtype="float32"
    )  # fmt: skip
    for s in range(3):
        k, v = (np.ascontiguousarray(p.rows(x, s).swapaxes(0, 1)[None]) for x in (p.k_pages, p.v_pages))
        cache.append(k, v, sequence=s)
    starts = np.array([0, 12, 13, 16])
    out = cache.attention(p.q, [2, 1, 0], query_starts=starts, layout="thd")
    q = p.q
    for i, s in enumerate([2, 1, 0]):
        first, end = starts[i : i + 2]
        want = definition(q[first:end], p.rows(p.k_pages, s), p.rows(p.v_pages, s))
        np.testing.assert_allclose(out[first:end], want, atol=2e-6)
