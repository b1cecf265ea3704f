"""Batches and shards: positions against transformers', shards against their definition, data of each framework."""

import json
from pathlib import Path

import frameworks as fw
import gyre
import numpy as np
import pytest

RNG = np.random.default_rng(19)
REFERENCE = Path(__file__).parent.parent / "reference"
LAYOUTS = ["contiguous", "zigzag", "striped", "zigzag_per_document"]


def ints(kind: fw.Kind, values: np.ndarray):
    """int32 values as an array of a framework."""
    if kind.framework == "torch":
        import torch

        return torch.from_numpy(values)
    if kind.framework == "jax":
        import jax.numpy as jnp

        return jnp.asarray(values)
    return memoryview(values) if kind.framework == "buffer" else values


# -- batches --


def test_a_packed_row_counts_each_document_from_0() -> None:
    batch = gyre.Batch([3, 2], row_tokens=7, padding_position=9)
    assert (batch.rows, batch.tokens, batch.axes, batch.documents, batch.sequences) == (1, 7, 1, 2, 3)
    assert batch.positions.tolist() == [[0, 1, 2, 0, 1, 9, 9]]
    assert batch.order.tolist() == [[0, 1, 2, 0, 1, -1, -1]] and batch.document_of.tolist() == [[0, 0, 0, 1, 1, -1, -1]]
    assert batch.query_starts.tolist() == batch.key_starts.tolist() == [0, 3, 5, 7]
    assert batch.key_end.tolist() == [3, 2, 0] and batch.next_positions.tolist() == [3, 2]
    assert batch.lengths.tolist() == [3, 2] and batch.context_lengths.tolist() == [3, 2, 0]
    assert batch.positions.dtype == np.int64 and batch.positions is batch.positions


def test_rows_with_padding_and_cached_tokens() -> None:
    left = gyre.Batch((1, 3), form="padded_left", cached=np.array([4, 0], "i4"))
    assert left.positions.tolist() == [[0, 0, 4], [0, 1, 2]] and left.key_first.tolist() == [2, 0]
    assert left.query_starts is None and left.order.tolist() == [[-1, -1, 4], [0, 1, 2]]
    right = gyre.Batch([1, 3], form="padded_right", first_positions=[10, 0])
    assert right.positions.tolist() == [[10, 0, 0], [0, 1, 2]] and right.key_end.tolist() == [1, 3]
    masked = gyre.Batch(mask=[[1, 0, 1], [0, 1, 1]])
    assert masked.positions.tolist() == [[0, 0, 1], [0, 0, 1]] and masked.lengths.tolist() == [2, 2]
    packed = gyre.Batch([2, 1], cached=[0, 3])
    assert packed.key_positions.tolist() == [[0, 1, 0, 1, 2, 3]] and packed.key_starts.tolist() == [0, 2, 6]
    none = gyre.Batch([])
    assert none.positions.shape == (1, 0) and none.query_starts.tolist() == [0]


def test_a_packed_row_from_running_sums_of_lengths() -> None:
    """A document with more keys than queries has its first keys in the cache."""
    plain = gyre.Batch.from_cu_seqlens(np.array([0, 3, 3, 5], "i4"), row_tokens=7)
    assert plain.lengths.tolist() == [3, 0, 2] and plain.positions.tolist() == [[0, 1, 2, 0, 1, 0, 0]]
    cached = gyre.Batch.from_cu_seqlens([0, 1, 3], [0, 5, 7])
    assert cached.positions.tolist() == [[4, 0, 1]] and cached.key_starts.tolist() == [0, 5, 7]
    assert cached.key_positions.tolist() == [[0, 1, 2, 3, 4, 0, 1]]
    for arguments, text in (
        (([0],), r"queries: has shape \[1\], not \[documents \+ 1\]"),
        (([1, 2],), "queries: begins with 1, not"),
        (([0, 3, 2],), "queries: falls from 3 to 2"),
        (([0, 2], [0, 2, 3]), "keys: has 2 documents, but queries has 1"),
        (([0, 1, 3], [0, 1, 2]), "keys: document 1 has 1 keys fewer than queries"),
    ):
        with pytest.raises(gyre.Error, match=text):
            gyre.Batch.from_cu_seqlens(*arguments)


def test_a_packed_row_from_positions() -> None:
    batch = gyre.Batch.from_position_ids([[0, 1, 2, 0, 1, 0, 7, 8]])
    assert batch.positions.tolist() == [[0, 1, 2, 0, 1, 0, 7, 8]] and batch.lengths.tolist() == [3, 2, 1, 2]
    assert batch.query_starts.tolist() == batch.key_starts.tolist() == [0, 3, 5, 6, 8]
    assert gyre.Batch.from_position_ids([]).documents == 0
    with pytest.raises(gyre.Error, match=r"position_ids: has shape \[2, 2\], not \[tokens\]"):
        gyre.Batch.from_position_ids([[0, 1], [0, 1]])
    q, k, v = (RNG.standard_normal((8, heads, 8), dtype="f4") for heads in (2, 1, 1))
    packed = gyre.attention(q, k, v, encoding=gyre.rope(8), causal=True, **batch.arguments)
    for first, end in ((0, 3), (3, 5), (5, 6), (6, 8)):  # a score sees distances, so the last document may count from 0
        alone = gyre.attention(q[first:end], k[first:end], v[first:end], encoding=gyre.rope(8), causal=True)
        np.testing.assert_allclose(packed[first:end], alone, rtol=1e-5, atol=1e-6)


def test_batches_and_shards_show_what_they_are() -> None:
    batch = gyre.Batch([5, 3], row_tokens=10)
    assert repr(batch) == "<gyre.Batch packed: 1 row of 10 tokens, 2 documents, 2 of padding, lengths [5, 3]>"
    padded = gyre.Batch([[2, gyre.Grid(1, 1, 2)], [7]], form="padded_left", axes=3)
    assert repr(padded) == "<gyre.Batch in rows: 2 rows of 7 tokens, 2 documents, 3 axes, 3 of padding, lengths [4, 7]>"
    assert repr(gyre.Batch([1] * 9)).endswith("lengths [1, 1, 1, 1, 1, 1, ...]>")
    assert repr(gyre.Shards(batch, 2)) == "<gyre.Shards zigzag: 2 ranks, 5 tokens of each row, imbalance 1.429>"
    uneven = gyre.Shards(gyre.Batch([5]), 2, layout="contiguous")
    assert "2 to 3 tokens" in repr(uneven)


@pytest.mark.parametrize("file", ["mrope_5.json", "mrope_4.json"])
def test_images_and_videos_stand_where_transformers_puts_them(file) -> None:
    forms = {"left": "padded_left", "right": "padded_right", "masked": "masked"}
    cases = json.loads((REFERENCE / file).read_text())
    assert len(cases) >= 12
    for case in cases:
        spans = [[s[0] if len(s) == 1 else gyre.Grid(*s) for s in row] for row in case["spans"]]
        marks = np.array([[c == "1" for c in row] for row in case["mask"]])
        masked = case["form"] == "masked"
        batch = gyre.Batch(
            spans,
            form=forms[case["form"]],
            row_tokens=marks.shape[1],
            mask=marks if masked else None,
            axes=3,
            after_grid=case["after"],
            padding_position=case["padding"],
        )
        np.testing.assert_array_equal(batch.positions, case["positions"])
        assert batch.next_positions.tolist() == case["next"]


def test_blocks_of_patches_and_two_axes() -> None:
    batch = gyre.Batch([[gyre.Grid(1, 2, 4, merge=2)]], axes=2)
    assert batch.positions[:, 0].tolist() == [[0, 0, 1, 1, 0, 0, 1, 1], [0, 1, 0, 1, 2, 3, 2, 3]]
    mixed = gyre.Batch([2, [1, gyre.Grid(1, 1, 2)]], axes=3)
    assert mixed.lengths.tolist() == [2, 3] and mixed.positions.shape == (3, 1, 5)


@pytest.mark.parametrize("form", ["packed", "padded_left", "padded_right"])
def test_attention_takes_the_arguments_of_a_batch(form) -> None:
    """Each document attends as it does alone."""
    lengths = [5, 2, 9]
    rope = gyre.rope(8)
    batch = gyre.Batch(lengths, form=form, row_tokens=18 if form == "packed" else None)
    shape = (18, 2, 8) if form == "packed" else (3, 9, 2, 8)
    q, k, v = (RNG.standard_normal(shape).astype("f4") for _ in range(3))
    layout = "thd" if form == "packed" else "bshd"
    out = gyre.attention(q, k, v, encoding=rope, causal=True, layout=layout, **batch.arguments)
    for d, length in enumerate(lengths):
        mine = batch.document_of[0] == d if form == "packed" else (d, batch.document_of[d] == d)
        alone = gyre.attention(q[mine], k[mine], v[mine], encoding=rope, causal=True)
        assert len(alone) == length
        np.testing.assert_allclose(out[mine], alone, atol=1e-6)


def test_decoding_a_packed_row_over_cached_keys() -> None:
    batch = gyre.Batch([1, 2], cached=[6, 0])
    rope = gyre.rope(8)
    q = RNG.standard_normal((3, 2, 8)).astype("f4")
    k, v = (RNG.standard_normal((9, 2, 8)).astype("f4") for _ in range(2))
    out = gyre.attention(q, k, v, encoding=rope, causal=True, **batch.arguments)
    alone = gyre.attention(q[:1], k[:7], v[:7], encoding=rope, causal=True)
    np.testing.assert_allclose(out[:1], alone, atol=1e-6)


@pytest.mark.parametrize("kind", [k for k in fw.KINDS if k.dtype == "float32"], ids=str)
def test_labels_are_shifted_within_documents(kind) -> None:
    batch = gyre.Batch([3, 1, 2], row_tokens=8)
    ids = np.array([[10, 11, 12, 20, 30, 31, 99, 99]], "i4")
    labels = batch.shift_labels(ints(kind, ids))
    assert isinstance(labels, fw.returned_type(kind, ints(kind, ids)))
    want = [[11, 12, -100, -100, 31, -100, -100, -100]]
    assert np.asarray(labels).tolist() == want
    flat = ids[0].copy()
    assert batch.shift_labels(flat, ignore=-1, out=flat) is flat and flat.tolist() == [11, 12, -1, -1, 31, -1, -1, -1]


# -- shards --


def random_batch() -> gyre.Batch:
    form = ["packed", "padded_left", "padded_right"][RNG.integers(3)]
    lengths = RNG.integers(0, 12, RNG.integers(1, 6))
    extra = int(RNG.integers(3))
    row = int(lengths.sum() if form == "packed" else lengths.max()) + extra
    return gyre.Batch(lengths, form=form, row_tokens=row or None, axes=int(RNG.integers(1, 4)))


def seen_pairs(batch: gyre.Batch, shard: gyre.Shard, window: int) -> int:
    """Of each query of the shard, the keys of its document at or before it and less than `window` away."""
    own = shard.order[shard.order >= 0]
    return int(np.minimum(own + 1, window or own.max(initial=0) + 1).sum())


def test_shards_are_a_partition_and_join_to_the_whole() -> None:
    for i in range(300):
        batch = random_batch()
        packed = batch.query_starts is not None
        window = int(RNG.integers(0, 5))
        layout = LAYOUTS[i % (4 if packed else 3)]
        shards = gyre.Shards(batch, int(RNG.integers(1, 8)), layout=layout, window=window)
        data = RNG.standard_normal((batch.rows, batch.tokens, 3)).astype("f4")
        back = np.full_like(data, np.nan)
        for r, shard in enumerate(shards):
            assert shard.rank == r and shard.tokens == len(shard.index) and list(shard.index) == sorted(shard.index)
            np.testing.assert_array_equal(shard.positions, batch.positions[..., shard.index])
            np.testing.assert_array_equal(shard.order, batch.order[..., shard.index])
            runs = [np.arange(first, first + count) for first, count in shard.runs]
            np.testing.assert_array_equal(np.concatenate([*runs, shard.index[:0]]), shard.index)
            assert shard.pairs == seen_pairs(batch, shard, window)
            np.testing.assert_array_equal(shard.take(data), data[:, shard.index])
            assert shard.put(shard.take(data), back) is back
            if packed:
                assert shard.starts[-1] == shard.tokens and len(shard.starts) == batch.sequences + 1
        assert sorted(np.concatenate([s.index for s in shards])) == list(range(batch.tokens))
        np.testing.assert_array_equal(back, data)
        np.testing.assert_array_equal(shards.join([s.take(data) for s in shards]), data)
        pairs = [s.pairs for s in shards]
        assert shards.imbalance == pytest.approx(max(pairs) * len(pairs) / sum(pairs) if sum(pairs) else 1)


def test_work_of_the_layouts_over_one_document() -> None:
    zigzag, contiguous = gyre.Shards(16, 2), gyre.Shards(16, 2, layout="contiguous")
    assert [s.pairs for s in zigzag] == [68, 68] and zigzag.imbalance == 1
    assert [s.pairs for s in contiguous] == [36, 100] and zigzag[0].index.tolist() == [0, 1, 2, 3, 12, 13, 14, 15]
    assert zigzag[-1].rank == 1 and [s.rank for s in zigzag[:1]] == [0] and len(zigzag) == 2
    assert zigzag.batch.tokens == 16 and [s.pairs for s in gyre.Shards(16, 2, causal=False)] == [128, 128]
    each_way = gyre.Shards(16, 2, causal=False, window=(2, 1))
    assert sum(s.pairs for s in each_way) == 16 + 15  # itself, and one before
    assert "gyre.Shard 0: 8 tokens" in repr(zigzag[0])
    with pytest.raises(IndexError, match="rank 2 of 2"):
        zigzag[2]


def test_later_documents_keep_their_rows() -> None:
    """Megatron-LM #5243: the second document took the positions of the first."""
    shards = gyre.Shards(gyre.Batch([4, 4], first_positions=[0, 100]), 2, layout="zigzag_per_document")
    assert shards[0].index.tolist() == [0, 3, 4, 7] and shards[0].positions.tolist() == [[0, 3, 100, 103]]
    assert shards[1].index.tolist() == [1, 2, 5, 6] and shards[1].positions.tolist() == [[1, 2, 101, 102]]


def test_axes_are_never_dealt_out() -> None:
    """Automodel #1482: positions [axes, rows, tokens] were cut along the axes."""
    batch = gyre.Batch([[2, gyre.Grid(1, 2, 3)], 4], axes=3)
    for shard in gyre.Shards(batch, 3):
        assert shard.positions.shape == (3, 1, 4)
        np.testing.assert_array_equal(shard.positions, batch.positions[:, :, shard.index])


def test_labels_shift_before_they_are_dealt_out() -> None:
    batch = gyre.Batch([5, 3])
    labels = batch.shift_labels(np.arange(8, dtype="i8"))
    dealt = [s.take(labels).tolist() for s in gyre.Shards(batch, 2)]
    assert dealt == [[1, 2, 7, -100], [3, 4, -100, 6]]


@pytest.mark.parametrize("kind", fw.KINDS, ids=str)
@pytest.mark.parametrize("layout", [None, "bshd", "shbd"])
def test_data_of_each_framework(kind, layout) -> None:
    batch = gyre.Batch([7, 4], form="padded_right")
    order = layout or "bhsd"
    extents = {"b": 2, "s": 7, "h": 3, "d": 5}
    values = RNG.standard_normal([extents[c] for c in order])
    whole, axis = fw.make(kind, values), order.index("s")
    shards = gyre.Shards(batch, 3, layout="striped")
    parts = [s.take(whole, layout=layout) for s in shards]
    for shard, part in zip(shards, parts, strict=True):
        assert isinstance(part, fw.returned_type(kind, whole))
        np.testing.assert_array_equal(fw.double(part), np.take(fw.double(whole), shard.index, axis))
    joined = shards.join(parts, layout=layout)
    assert isinstance(joined, fw.returned_type(kind, whole))
    np.testing.assert_array_equal(fw.double(joined), fw.double(whole))


def test_strides_and_given_memory() -> None:
    whole = RNG.standard_normal((3, 16, 2)).transpose(2, 1, 0)  # [rows, tokens, channels], channels far apart
    shards = gyre.Shards(gyre.Batch([16, 16], form="padded_right"), 4)
    memory = np.zeros((2, 4, 6))[..., ::2]
    assert shards[1].take(whole, out=memory) is memory
    np.testing.assert_array_equal(memory, whole[:, shards[1].index])
    back = np.zeros((3, 16, 2)).transpose(2, 1, 0)
    shards[1].put(memory, back)
    np.testing.assert_array_equal(back[:, shards[1].index], memory)
    assert not back[:, shards[0].index].any()


def check_masks(make, kind, number) -> None:
    values = RNG.integers(0, 2, (2, 16)) != 0
    shards, whole = gyre.Shards(gyre.Batch([16, 16], form="padded_right"), 3, layout="striped"), make(values)
    parts = [s.take(whole) for s in shards]
    for shard, part in zip(shards, parts, strict=True):
        assert isinstance(part, kind) and str(part.dtype).endswith("bool")
        np.testing.assert_array_equal(np.asarray(part), values[:, shard.index])
    np.testing.assert_array_equal(np.asarray(shards.join(parts)), values)
    back, memory = make(np.zeros_like(values)), make(np.zeros_like(values[:, shards[1].index]))
    for shard, part in zip(shards, parts, strict=True):
        assert shard.put(part, back) is back
    np.testing.assert_array_equal(np.asarray(back), values)
    assert shards[1].take(whole, out=memory) is memory
    np.testing.assert_array_equal(np.asarray(memory), np.asarray(parts[1]))
    for call in (
        lambda: shards[1].put(number(parts[1]), back),
        lambda: shards[1].take(whole, out=number(memory)),
        lambda: shards.join([parts[0], number(parts[1]), parts[2]]),
    ):
        with pytest.raises(gyre.Error, match="not bool") as refused:
            call()
        assert refused.value.status == "EDTYPE"
    with pytest.raises(gyre.Error, match="out: ") as refused:
        shards[1].take(whole, out=memory[:, :2])
    assert refused.value.status == "ESHAPE"


def test_masks_are_dealt_out() -> None:
    check_masks(np.asarray, np.ndarray, lambda mask: mask.astype("f4"))
    torch = pytest.importorskip("torch")
    check_masks(torch.from_numpy, torch.Tensor, lambda mask: mask.float())


def test_torch_counts_what_is_put() -> None:
    torch = pytest.importorskip("torch")
    shards = gyre.Shards(8, 2)
    whole = torch.zeros(1, 8)
    version = whole._version
    shards[0].put(torch.ones(1, 4), whole)
    assert whole._version > version and whole[0].tolist() == [1, 1, 0, 0, 0, 0, 1, 1]
    with pytest.raises(gyre.Error, match="whole: requires a gradient"):
        shards[0].take(torch.zeros(1, 8, requires_grad=True))


def test_shards_outlive_what_made_them() -> None:
    shard = gyre.Shards(gyre.Batch([6, 2]), 2)[1]
    assert shard.take(np.arange(8)).tolist() == shard.index.tolist()


# -- errors --

BATCH = gyre.Batch([5, 3])
SHARDS = gyre.Shards(BATCH, 2)
ROW = np.zeros((1, 8), "f4")
MISTAKES = {
    "no documents": (lambda: gyre.Batch(), "EINVAL", "documents", "missing"),
    "below 0": (lambda: gyre.Batch([3, -1]), "EINVAL", "documents", "documents[1]: -1 is not in 0"),
    "not whole": (lambda: gyre.Batch([1.5]), "EDTYPE", "documents", "float64, not a list of whole"),
    "a word": (lambda: gyre.Batch(["a"]), "EDTYPE", "documents", "documents: is "),
    "two axes": (lambda: gyre.Batch(np.ones((2, 2), "i8")), "ESHAPE", "documents", "has 2 axes"),
    "a span": (lambda: gyre.Batch([[1, "x"]]), "EINVAL", "documents", "span 'x' of document 0"),
    "no rows": (lambda: gyre.Batch([[gyre.Grid(1, 0, 2)]]), "EINVAL", None, "below 1"),
    "form": (lambda: gyre.Batch([1], form="dense"), "EINVAL", "form", "'padded_left'"),
    "after": (lambda: gyre.Batch([1], after_grid="before"), "EINVAL", "after_grid", "'sides'"),
    "axes": (lambda: gyre.Batch([1], axes=4), "EINVAL", "axes", "4 is not in 0 .. 3"),
    "short": (lambda: gyre.Batch([4], row_tokens=3), "EINVAL", "row_tokens", "fewer than the 4"),
    "far": (lambda: gyre.Batch([4], first_positions=[2**31]), "ERANGE", "documents", "past 2^31"),
    "cached": (lambda: gyre.Batch([4], cached=[1, 2]), "ESHAPE", "cached", "has shape [2], not [1]"),
    "flat mask": (lambda: gyre.Batch(mask=[1, 0]), "ESHAPE", "mask", "not [documents, tokens]"),
    "other mask": (lambda: gyre.Batch([2], mask=[[1, 0]]), "EINVAL", "mask", "1 tokens of document 0, but lengths has 2"),
    "mask rows": (lambda: gyre.Batch([2, 1], mask=[[1, 1]]), "ESHAPE", "mask", "1 rows, but there are 2 documents"),
    "mask row": (lambda: gyre.Batch(row_tokens=3, mask=[[1, 1]]), "EINVAL", "row_tokens", "have 2 tokens"),
    "packed mask": (lambda: gyre.Batch(mask=[[1]], form="packed"), "EINVAL", "mask", "the form is not MASKED"),
    "float labels": (lambda: BATCH.shift_labels(ROW), "EDTYPE", "labels", "float32, not int32 or int64"),
    "few labels": (lambda: BATCH.shift_labels(np.zeros((1, 7), "i4")), "ESHAPE", None, "[1, 8, 1, 1]"),
    "ranks": (lambda: gyre.Shards(BATCH, 0), "EINVAL", "ranks", "0 is not in 1 .. 65536"),
    "no batch": (lambda: gyre.Shards("all", 2), "EINVAL", "batch", "is a str"),
    "layout": (lambda: gyre.Shards(BATCH, 2, layout="ring"), "EINVAL", "layout", "'striped'"),
    "per row": (
        lambda: gyre.Shards(gyre.Batch([1], form="padded_left"), 1, layout="zigzag_per_document"),
        "EINVAL",
        "layout",
        "needs a packed batch",
    ),
    "tokens": (lambda: SHARDS[0].take(ROW[:, :7]), "ESHAPE", "whole", "[1, 8, 1, 1]"),
    "letters": (lambda: SHARDS[0].take(ROW, layout="bd"), "EINVAL", "layout", "s or t token"),
    "complex numbers": (lambda: SHARDS[0].take(ROW.astype(np.complex64)), "EDTYPE", "whole", "not float16, bfloat16"),
    "same memory": (lambda: SHARDS[0].take(ROW, out=ROW[:, :4]), "EINVAL", "out", "shares memory with whole"),
    "out type": (lambda: SHARDS[0].take(ROW, out=np.zeros((1, 4))), "EDTYPE", "out", "float64, not float32"),
    "part type": (lambda: SHARDS[0].put(np.zeros((1, 4)), ROW), "EDTYPE", "whole", "F64"),
    "few parts": (lambda: SHARDS.join([ROW]), "ESHAPE", "parts", "not 2, one of each rank"),
    "part tokens": (lambda: SHARDS.join([ROW, ROW]), "ESHAPE", "part", "[1, 4, 1, 1]"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_are_named(name) -> None:
    call, status, field, text = MISTAKES[name]
    with pytest.raises(gyre.Error) as caught:
        call()
    assert caught.value.status == status and text in caught.value.text, caught.value.text
    if field:
        assert caught.value.field == field, caught.value.field


# -- random positions --


def test_drawn_positions_are_those_of_their_definitions() -> None:
    for seed in range(40):
        drawn = gyre.draw_positions("randomized", 12, 30, rows=3, seed=seed)
        assert drawn.shape == (3, 12) and drawn.dtype == np.int64
        assert (np.diff(drawn) > 0).all() and drawn.min() >= 0 and drawn.max() < 30
        shape = gyre.draw_positions("shape", 12, 30, seed=seed)[0]
        assert (np.diff(shape) == 1).all() and 0 <= shape[0] <= 18
        pose = np.diff(gyre.draw_positions("pose", 12, 30, seed=seed)[0])
        assert (pose != 1).sum() <= 1 and pose.sum() <= 29
    assert gyre.draw_positions("none", 4, 9).tolist() == [[0, 1, 2, 3]]
    assert gyre.draw_positions("randomized", 0, 9, rows=2).shape == (2, 0)


def test_drawn_positions_follow_the_seed() -> None:
    one = gyre.draw_positions("randomized", 8, 1000, rows=4, seed=5)
    assert (one == gyre.draw_positions("randomized", 8, 1000, rows=4, seed=5)).all()
    assert (one[:2] == gyre.draw_positions("randomized", 8, 1000, rows=2, seed=5)).all()
    assert (one != gyre.draw_positions("randomized", 8, 1000, rows=4, seed=6)).any()


def test_drawn_positions_rotate() -> None:
    drawn = gyre.draw_positions("randomized", 6, 500, rows=2, seed=1)
    rope, x = gyre.rope(8), RNG.standard_normal((2, 1, 6, 8)).astype("f4")
    rotated = rope.rotate(x, positions=drawn)
    for row in range(2):
        for token in range(6):
            one = rope.rotate(x[row : row + 1, :, token : token + 1], positions=drawn[row, token : token + 1])
            assert (one == rotated[row : row + 1, :, token : token + 1]).all()


@pytest.mark.parametrize(
    ("arguments", "options", "text"),
    [
        (("random", 3, 9), {}, "draw"),
        (("pose", 10, 9), {}, "n: 10 positions of a range of 9"),
        (("pose", -1, 9), {}, "tokens: is negative"),
        (("pose", 3, 9), {"rows": -1}, "rows: is negative"),
        (("shape", 3, 2**31 + 1), {}, "range: 2147483649"),
    ],
)
def test_draws_are_refused(arguments, options, text) -> None:
    with pytest.raises(gyre.Error, match=text):
        gyre.draw_positions(*arguments, **options)
