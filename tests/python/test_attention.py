"""Attention and cache against a formula in double."""

import frameworks as fw
import gyre
import numpy as np
import pytest

RNG = np.random.default_rng(5)


def operands(batch=2, heads=4, kv_heads=2, queries=6, keys=9, dim=16, dtype="f4"):
    shapes = (heads, queries), (kv_heads, keys), (kv_heads, keys)
    return [RNG.standard_normal((batch, h, n, dim)).astype(dtype) for h, n in shapes]


def rotated(q, k, base=1e4):
    first = k.shape[2] - q.shape[2]
    at = lambda n, f: fw.angles(np.arange(f, f + n, dtype="f8"), q.shape[-1], base)  # noqa: E731
    return fw.rotate(q, at(q.shape[2], first)), fw.rotate(k, at(k.shape[2], 0))


def causal(queries, keys):
    return np.tri(queries, keys, keys - queries, dtype=bool)


def test_the_last_query_stands_beside_the_last_key() -> None:
    q, k, v = operands()
    out = gyre.attention(q, k, v, encoding=gyre.rope(16), causal=True)
    np.testing.assert_allclose(out, fw.attend(*rotated(q, k), v, causal(6, 9)), atol=1e-6)


@pytest.mark.parametrize("layout", ["bhsd", "bshd", "shbd"])
def test_layouts(layout) -> None:
    q, k, v = operands()
    moved = ["bhsd".index(c) for c in layout]
    out, lse = gyre.attention(*(x.transpose(moved) for x in (q, k, v)), layout=layout, lse=True)
    plain, plain_lse = gyre.attention(q, k, v, lse=True)
    np.testing.assert_array_equal(out, plain.transpose(moved))
    rest = ["bhs".index(c) for c in layout if c != "d"]
    np.testing.assert_array_equal(lse, plain_lse.transpose(rest))


def test_window_softcap_scale_and_sinks() -> None:
    q, k, v = operands(queries=9)
    distance = np.arange(9)[:, None] - np.arange(9)
    out = gyre.attention(q, k, v, window=(3, 2))
    np.testing.assert_allclose(out, fw.attend(q, k, v, (distance < 3) & (-distance < 2)), atol=1e-6)
    out = gyre.attention(q, k, v, window=3, sinks=2, causal=True)
    seen = (distance >= 0) & ((distance < 3) | (np.arange(9) < 2))
    np.testing.assert_allclose(out, fw.attend(q, k, v, seen), atol=1e-6)
    out = gyre.attention(q * 9, k, v, softcap=2, scale=0.5)
    scores = 2 * np.tanh(9 * q.astype("f8") @ np.repeat(k, 2, 1).swapaxes(-1, -2) * 0.5 / 2)
    weights = np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)
    np.testing.assert_allclose(out, weights @ np.repeat(v, 2, 1), atol=1e-5)


@pytest.mark.parametrize("window", [(3, None), (None, 2), (0, 2), (3, 0), (None, None), (0, 0), [3, 2], 0])
def test_a_side_of_a_window_without_an_end(window) -> None:
    """None and 0 mean all keys of that side: forward, gradient and cache."""
    q, k, v = operands(queries=9)
    distance = np.arange(9)[:, None] - np.arange(9)
    before, after = window or (0, 0)
    seen = (distance < (before or 99)) & (-distance < (after or 99))
    out, lse = gyre.attention(q, k, v, window=window, lse=True)
    np.testing.assert_allclose(out, fw.attend(q, k, v, seen), atol=1e-6)
    dout = RNG.standard_normal(out.shape).astype("f4")
    got = gyre.attention_gradient(dout, q, k, v, out, lse, window=window)
    want = gyre.attention_gradient(dout, q, k, v, out, lse, mask=seen)
    for one, other in zip(got[:3], want[:3], strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)
    cache = gyre.Cache(heads=2, head_dim=16, max_tokens=9)
    cache.append(k[:1], v[:1])
    np.testing.assert_allclose(cache.attention(q[:1], causal=False, window=window), out[:1], atol=1e-6)


def test_masks_of_truth_values_and_numbers() -> None:
    q, k, v = operands()
    seen = RNG.random((2, 1, 6, 9)) < 0.7
    seen[..., 0] = True
    want = fw.attend(q, k, v, seen)
    np.testing.assert_allclose(gyre.attention(q, k, v, mask=seen), want, atol=1e-6)
    added = np.where(seen, 0, -np.inf).astype("f4")
    np.testing.assert_allclose(gyre.attention(q, k, v, mask=added), want, atol=1e-6)
    np.testing.assert_allclose(gyre.attention(q, k, v, mask=added[0, 0]), fw.attend(q, k, v, seen[0]), atol=1e-6)


def test_alibi_and_t5_bias() -> None:
    q, k, v = operands(queries=9)
    alibi = gyre.alibi(4)
    np.testing.assert_allclose(alibi.slopes(), 2.0 ** -np.arange(2, 9, 2))
    distance = abs(np.arange(9)[:, None] - np.arange(9))
    bias = alibi.bias(9)
    np.testing.assert_allclose(bias, -alibi.slopes()[:, None, None] * distance, rtol=1e-6)
    np.testing.assert_allclose(gyre.attention(q, k, v, encoding=alibi), fw.attend(q, k, v, bias=bias), atol=1e-6)
    np.testing.assert_array_equal(alibi.bias(2, 9), bias[:, -2:])
    t5, table = gyre.t5(4, bidirectional=True), RNG.standard_normal((32, 4)).astype("f4")
    bias = t5.bias(9, tables=table)
    assert bias.shape == (4, 9, 9) and bias[2, 3, 5] == table[t5.row(3, 5), 2]
    out = gyre.attention(q, k, v, encoding=t5, tables=table)
    np.testing.assert_allclose(out, fw.attend(q, k, v, bias=bias), atol=1e-6)
    scores = np.ones((2, 4, 9, 9), "f8")
    assert t5.add_bias(scores, 9, tables=table) is scores
    np.testing.assert_allclose(scores, 1 + bias[None].repeat(2, 0), atol=1e-6)
    ones = np.ones((4, 9, 9), "f4")
    rows = np.array([[t5.row(m, n) for n in range(9)] for m in range(9)])
    np.testing.assert_array_equal(
        t5.bias_gradient(ones, 9, tables=table)["bias"][:, 0], np.bincount(rows.ravel(), minlength=32)
    )


def test_packed_and_padded_batches() -> None:
    lengths = [3, 5, 1]
    q, k, v = (RNG.standard_normal((9, 2, 8)).astype("f4") for _ in range(3))
    starts = np.cumsum([0, *lengths]).astype("i4")
    rope = gyre.rope(8)
    out = gyre.attention(q, k, v, encoding=rope, causal=True, query_starts=starts, key_starts=starts)
    for a, b in zip(starts, starts[1:]):
        alone = gyre.attention(q[a:b], k[a:b], v[a:b], encoding=rope, causal=True)
        np.testing.assert_allclose(out[a:b], alone, atol=1e-6)
    q, k, v = operands()
    ends = np.array([4, 9])
    out = gyre.attention(q, k, v, key_end=ends)
    np.testing.assert_allclose(out, fw.attend(q, k, v, (np.arange(9) < ends[:, None])[:, None, None]), atol=1e-6)


def test_sink_logits() -> None:
    q, k, v = operands(batch=1)
    sinks = RNG.standard_normal(4).astype("f4")
    out = gyre.attention(q, k, v, sink_logits=sinks)
    scores = q.astype("f8") @ np.repeat(k, 2, 1).swapaxes(-1, -2) / 4
    weights = np.exp(scores) / (np.exp(scores).sum(-1, keepdims=True) + np.exp(sinks.astype("f8"))[:, None, None])
    np.testing.assert_allclose(out, weights @ np.repeat(v, 2, 1), atol=1e-6)


def gates(tokens, heads=4, batch=2):
    return np.cumsum(np.log(RNG.uniform(0.5, 1, (batch, heads, tokens))), -1)


def forgetting(q, k, v, queries, keys):
    scores = q.astype("f8") @ np.repeat(k, 2, 1).swapaxes(-1, -2) / 4 + queries[..., None] - keys[..., None, :]
    weights = np.exp(scores - scores.max(-1, keepdims=True)) * causal(q.shape[2], k.shape[2])
    return weights / weights.sum(-1, keepdims=True) @ np.repeat(v, 2, 1)


def test_gates_that_forget() -> None:
    q, k, v = operands()
    sums = gates(9)
    want = forgetting(q, k, v, sums[..., -6:], sums)
    given = {"query_gate_sums": sums[..., -6:], "key_gate_sums": sums}
    np.testing.assert_allclose(gyre.attention(q, k, v, causal=True, **given), want, atol=2e-6)
    moved = [x.transpose(0, 2, 1, 3) for x in (q, k, v)]
    rows = {name: x.swapaxes(1, 2).astype("f4") for name, x in given.items()}
    out = gyre.attention(*moved, causal=True, layout="bshd", **rows)
    np.testing.assert_allclose(out.transpose(0, 2, 1, 3), want, atol=1e-5)
    with pytest.raises(gyre.Error, match="key_gate_sums: missing"):
        gyre.attention(q, k, v, query_gate_sums=sums[..., -6:])
    with pytest.raises(gyre.Error, match=r"query_gate_sums: has shape \[2, 4, 5\], not \[2, 4, 6\]"):
        gyre.attention(q, k, v, query_gate_sums=sums[..., -5:], key_gate_sums=sums)
    with pytest.raises(gyre.Error, match=r"key_gate_sums: has shape \[2, 2, 9\], not \[2, 4, 9\]"):
        gyre.attention(q, k, v, query_gate_sums=sums[..., -6:], key_gate_sums=sums[:, :2])
    with pytest.raises(gyre.Error, match="key_gate_sums: .*float32 or float64"):
        gyre.attention(q, k, v, query_gate_sums=sums[..., -6:], key_gate_sums=sums.astype("f2"))


def test_gradient_of_gates() -> None:
    q, k, v = operands(queries=9)
    sums = [gates(9), gates(9)]
    dout = RNG.standard_normal(q.shape).astype("f4")
    given = {"query_gate_sums": sums[0], "key_gate_sums": sums[1], "causal": True}
    out, lse = gyre.attention(q, k, v, lse=True, **given)
    gradients = gyre.attention_gradient(dout, q, k, v, out, lse, **given)[3]
    for i, name in enumerate(["query_gate_sums", "key_gate_sums"]):
        assert gradients[name].shape == sums[i].shape and gradients[name].dtype == np.float64
        for at in [(0, 0, 0), (1, 2, 5), (1, 3, 8)]:
            loss = []
            for step in (1e-5, -1e-5):
                shifted = [x.copy() for x in sums]
                shifted[i][at] += step
                loss.append((forgetting(q, k, v, *shifted) * dout).sum())
            np.testing.assert_allclose(gradients[name][at], (loss[0] - loss[1]) / 2e-5, atol=3e-5)


def test_a_cache_keeps_gates() -> None:
    q, k, v = operands(batch=1)
    sums = gates(9, batch=1)
    cache = gyre.Cache(heads=2, head_dim=16, max_tokens=16, gate_heads=4)
    for first, last in ((0, 5), (5, 9)):
        cache.append(k[:, :, first:last], v[:, :, first:last], gate_sums=sums[..., first:last])
    out = cache.attention(q, query_gate_sums=sums[..., -6:])
    np.testing.assert_allclose(out, forgetting(q, k, v, sums[..., -6:], sums), atol=2e-6)
    with pytest.raises(gyre.Error, match="gate_sums: missing"):
        cache.append(k, v)
    with pytest.raises(gyre.Error, match="gate_heads: 3 query heads cannot share 2 key heads evenly"):
        gyre.Cache(heads=2, head_dim=16, max_tokens=16, gate_heads=3)
    assert "gate_sums=None" in gyre.Cache.append.__text_signature__ and "gate_heads" in gyre.Cache.append.__doc__


@pytest.mark.parametrize("keys", ["raw", "rotated"])
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "q8"])
def test_a_cache_of_latents_is_plain_attention(keys, dtype) -> None:
    heads, rank, slice_, nope, value, tokens = 4, 32, 16, 8, 12, 9
    up_k, up_v = RNG.standard_normal((heads, nope, rank)), RNG.standard_normal((heads, value, rank))
    latents, q = RNG.standard_normal((tokens, 1, rank + slice_)), RNG.standard_normal((tokens, heads, nope + slice_))
    rope = gyre.rope(rank + slice_, first_channel=rank, layout="interleaved")
    turn = gyre.rope(slice_, layout="interleaved").rotate
    shared = turn(latents[:, :, rank:]).repeat(heads, 1)
    wanted = fw.attend(
        *(
            x.swapaxes(0, 1)[None]
            for x in (
                np.concatenate([q[..., :nope], turn(q[..., nope:])], -1),
                np.concatenate([np.einsum("hdr,tr->thd", up_k, latents[:, 0, :rank]), shared], -1),
                np.einsum("hdr,tr->thd", up_v, latents[:, 0, :rank]),
            )
        ),
        np.tri(tokens, dtype=bool),
    )[0].swapaxes(0, 1)
    absorbed = np.concatenate([np.einsum("hdr,thd->thr", up_k, q[..., :nope]), q[..., nope:]], -1).astype("f4")
    cache = gyre.Cache(rope, heads=1, max_tokens=16, keys=keys, dtype=dtype, values_in_keys=True, page_tokens=4)
    assert cache.usage()["token_bytes"] == {"float32": 4, "float16": 2, "bfloat16": 2, "q8": 1}[dtype] * 48 + 12 + 4 * (
        dtype == "q8"
    )
    error = {"float32": 1e-5, "float16": 0.02, "bfloat16": 0.2, "q8": 0.4}[dtype]
    for first, last in ((0, 7), (7, 8), (8, 9)):
        cache.append(latents[first:last].astype("f4"))
        out = cache.attention(absorbed[first:last], scale=(nope + slice_) ** -0.5)
        got = np.einsum("hdr,thr->thd", up_v, out)
        np.testing.assert_allclose(got, wanted[first:last], atol=error * abs(wanted).max())
    with pytest.raises(gyre.Error, match="v: is given, but the cache takes values from keys"):
        cache.append(latents.astype("f4"), latents.astype("f4"))
    with pytest.raises(gyre.Error, match="v: is missing"):
        gyre.Cache(rope, heads=1, max_tokens=4).append(latents[:1].astype("f4"))
    with pytest.raises(gyre.Error, match="value_dtype: values are in keys"):
        gyre.Cache(rope, heads=1, max_tokens=4, values_in_keys=True, value_dtype="q8")


def test_gradient_against_torch() -> None:
    torch = pytest.importorskip("torch")
    q, k, v = (torch.tensor(x) for x in operands(kv_heads=4, queries=9))
    table = torch.randn(32, 4)
    inputs = [x.clone().double().requires_grad_() for x in (q, k, v, table)]
    t5 = gyre.t5(4)
    rows = torch.tensor([[t5.row(m, n) for n in range(9)] for m in range(9)])
    bias = inputs[3][rows].permute(2, 0, 1) + torch.where(torch.ones(9, 9).tril() > 0, 0.0, -torch.inf)
    want = torch.nn.functional.scaled_dot_product_attention(*inputs[:3], attn_mask=bias.expand(2, -1, -1, -1))
    dout = torch.randn_like(q)
    want.backward(dout.double())
    options = {"encoding": t5, "tables": table, "causal": True}
    out, lse = gyre.attention(q, k, v, lse=True, **options)
    torch.testing.assert_close(out, want.float(), atol=2e-6, rtol=1e-5)
    *dqkv, tables = gyre.attention_gradient(dout, q, k, v, out, lse, **options)
    for got, x in zip([*dqkv, tables["bias"]], inputs, strict=True):
        assert isinstance(got, torch.Tensor)
        torch.testing.assert_close(got, x.grad.float(), atol=2e-5, rtol=1e-4)


def test_a_bias_is_an_array_of_the_kind_of_its_table() -> None:
    torch = pytest.importorskip("torch")
    for encoding, shape in ((gyre.t5(4), (32, 4)), (gyre.kerple(4), (2, 4)), (gyre.fire(4, hidden_units=6), (21, 4))):
        table = RNG.random(shape, dtype=np.float32) + np.float32(0.1)
        wanted = encoding.bias(7, tables=table)
        assert isinstance(wanted, np.ndarray)
        for given in (torch.from_numpy(table), {"bias": torch.from_numpy(table)}):
            got = encoding.bias(7, tables=given)
            assert isinstance(got, torch.Tensor)
            np.testing.assert_array_equal(got.numpy(), wanted)


@pytest.mark.parametrize("amplitudes, exponent, scale", [(None, None, None), (5, 0.4, 0.5)])
def test_tapa(amplitudes, exponent, scale) -> None:
    q, k, v = operands(heads=2, kv_heads=2, queries=9)
    tapa = gyre.tapa(16, amplitudes=amplitudes, exponent=exponent)
    first, at = amplitudes or 8, np.arange(9)
    a, p = (np.einsum("bhqc,bhkc->bhqk", *(x[..., part].astype("f8") for x in (q, k)))
            for part in (np.s_[:first], np.s_[first:]))
    phase = 2 * np.pi * np.abs(at[:, None] - at, dtype="f8") ** (exponent or 0.1) * p / np.sqrt(16 - first)
    scores = np.where(causal(9, 9), a * np.cos(phase) * (scale or first**-0.5), -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    want = weights / weights.sum(-1, keepdims=True) @ v
    np.testing.assert_allclose(gyre.attention(q, k, v, encoding=tapa, causal=True, scale=scale), want, atol=3e-6)
    cache = gyre.Cache(tapa, heads=2, max_tokens=64, page_tokens=4)
    cache.append(k[:1], v[:1])
    cache.shift(0, 9, 5)
    got = cache.attention(q[:1], positions=at + 5, causal=True, scale=scale)
    np.testing.assert_allclose(got, want[:1], atol=3e-6)
    for wrong in (lambda: tapa.bias(3, 3), lambda: tapa.frequencies(), lambda: tapa.cos_sin(at)):
        with pytest.raises(gyre.Error, match="tapa"):
            wrong()


def test_inkling() -> None:
    """The formula of transformers 5.24, modeling_inkling.py; keys lack the channels of r."""
    q, k, v = operands(heads=2, kv_heads=2, queries=9)
    k, table, at = np.ascontiguousarray(k[..., :12]), RNG.standard_normal((5, 4)).astype("f4"), np.arange(9)
    inkling = gyre.inkling(16, max_distance=5, relative_channels=4, temperature="inkling", reference_length=3, slope=0.4)
    assert inkling.table_shapes == {"query": (1, 1, 5, 4)}
    distance = at[:, None] - at
    far = np.einsum("bhqc,rc->bhqr", q[..., 12:].astype("f8"), table)
    bias = np.take_along_axis(far, np.broadcast_to(distance.clip(0, 4), (*far.shape[:2], 9, 9)), -1)
    tau = (1 + 0.4 * np.log(np.maximum(1, (at + 1) / 3)))[:, None]
    scores = tau * (np.einsum("bhqc,bhkc->bhqk", q[..., :12].astype("f8"), k) / np.sqrt(12) + np.where(distance < 5, bias, 0))
    scores = np.where(causal(9, 9), scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    want = weights / weights.sum(-1, keepdims=True) @ v
    np.testing.assert_allclose(gyre.attention(q, k, v, encoding=inkling, tables=table, causal=True), want, atol=3e-6)
    cache = gyre.Cache(inkling, heads=2, head_dim=12, value_dim=v.shape[-1], max_tokens=64, page_tokens=4)
    cache.append(k[:1], v[:1])
    np.testing.assert_allclose(cache.attention(q[:1], tables=table), want[:1], atol=3e-6)
    with pytest.raises(gyre.Error, match="q: 15 channels"):
        cache.attention(q[:1, ..., :15], tables=table)


def by_chunks(position: int, relation: int, size: int, local: int, paper: bool) -> int:
    """The position of a query whose key is `relation` chunks before its own; that of a key with relation 0."""
    chunk = size - local
    i, cap = position % chunk, size - paper
    return [i, min(chunk + i, cap), cap if paper else min(2 * chunk - 1, cap)][min(relation, 2)]


@pytest.mark.parametrize("paper", [False, True])
def test_dual_chunk_attention(paper) -> None:
    size, local, tokens = 7, 3, 19
    q, k, v = operands(heads=2, kv_heads=2, queries=tokens, keys=tokens)
    rope = gyre.rope(
        16, far="chunked-paper" if paper else "chunked", chunk_size=size, local_size=local, original_length=10,
        context_length=tokens,
    )
    assert [rope.config[f"rope.chunk.{name}"] for name in ("size", "local", "original_length")] == [size, local, 10]
    sharp = (1 + 0.1 * np.log(tokens / 10)) ** 2
    at = np.arange(tokens)
    turned = lambda x, positions: fw.rotate(x, fw.angles(np.array(positions, "f8"), 16, 1e4))  # noqa: E731
    keys = turned(k, at % (size - local))
    scores = np.full((2, 2, tokens, tokens), -np.inf)
    for relation in range(tokens // (size - local) + 1):
        queries = turned(q, [by_chunks(m, relation, size, local, paper) for m in at])
        here = (at[:, None] // (size - local) - at // (size - local) == relation) & (at <= at[:, None])
        scores = np.where(here, sharp * np.einsum("bhqc,bhkc->bhqk", queries, keys) / 4, scores)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    want = weights / weights.sum(-1, keepdims=True) @ v
    np.testing.assert_allclose(gyre.attention(q, k, v, encoding=rope, causal=True), want, atol=2e-6)
    cache = gyre.Cache(rope, heads=2, max_tokens=64, keys="raw", page_tokens=4)
    for t in range(tokens):
        cache.append(k[:1, :, t : t + 1], v[:1, :, t : t + 1])
        np.testing.assert_allclose(cache.attention(q[:1, :, t : t + 1]), want[:1, :, t : t + 1], atol=2e-6)
    with pytest.raises(gyre.Error, match="rope.far depends on the query"):
        gyre.Cache(rope, heads=2, max_tokens=64, keys="rotated")


@pytest.mark.parametrize("keys", ["raw", "rotated"])
@pytest.mark.parametrize("dtype", ["float32", "float16", "q8"])
def test_decoding_with_a_cache_is_attention_over_all(keys, dtype) -> None:
    q, k, v = operands(batch=1, queries=9)
    rope = gyre.rope(16)
    cache = gyre.Cache(rope, heads=2, max_tokens=64, keys=keys, dtype=dtype, page_tokens=4)
    want = gyre.attention(q, k, v, encoding=rope, causal=True)
    tolerance = {"float32": 1e-6, "float16": 2e-3, "q8": 3e-2}[dtype]
    for t in range(9):
        cache.append(k[:, :, t : t + 1], v[:, :, t : t + 1])
        out = cache.attention(q[:, :, t : t + 1])
        np.testing.assert_allclose(out, want[:, :, t : t + 1], atol=tolerance)
    assert cache.tokens() == 9 and cache.positions().tolist() == list(range(9))


def test_editing_a_cache(tmp_path) -> None:
    q, k, v = operands(batch=1, queries=1, keys=12)
    rope = gyre.rope(16)
    cache = gyre.Cache(rope, heads=2, max_tokens=96, sequences=3, page_tokens=4, keys="rotated")
    cache.append(k, v)
    cache.fork(0, 1)
    assert cache.usage()["shared_tokens"] == 12
    cache.remove(2, 3)
    cache.shift(2, 7, -3)
    assert cache.tokens() == 9 and cache.positions().tolist() == list(range(9))
    left = np.r_[0:2, 5:12]
    want = gyre.attention(q, k[:, :, left], v[:, :, left], encoding=rope)
    np.testing.assert_allclose(cache.attention(q, causal=False), want, atol=1e-6)
    np.testing.assert_allclose(
        cache.attention(q, [1], causal=False), gyre.attention(q, k, v, encoding=rope), atol=1e-6
    )
    cache.fork(1, 2)
    assert cache.slide(2, 6, sequence=2) == 6 and cache.tokens(2) == 6
    cache.save(tmp_path / "cache")
    loaded = gyre.Cache.load(tmp_path / "cache", rope)
    np.testing.assert_array_equal(loaded.attention(q, [1]), cache.attention(q, [1]))
    other = gyre.rope(16, base=1e6)
    cache.set_encoding(other)
    np.testing.assert_allclose(
        cache.attention(q, [1], causal=False), gyre.attention(q, k, v, encoding=other), atol=1e-6
    )


@pytest.mark.parametrize("kind", [k for k in fw.KINDS if k.framework in ("numpy", "torch")], ids=str)
def test_rerotate(kind) -> None:
    raw = RNG.standard_normal((2, 3, 5, 16))
    old = gyre.rope(16)
    new = gyre.rope(16, base=1e6, scaling="yarn", factor=4, trained_length=64)
    keys = old.rotate(fw.make(kind, raw), 100, role="key")
    moved = gyre.rerotate(keys, old, new, positions=100, shift=-60)
    assert moved is keys
    want = new.rotate(raw, 40, role="key")
    np.testing.assert_allclose(fw.double(moved), want, atol=8 * kind.epsilon)
    there = gyre.rerotate(keys, new, positions=40, shift=1000)
    np.testing.assert_allclose(fw.double(there), new.rotate(raw, 1040, role="key"), atol=16 * kind.epsilon)


def test_rerotate_by_a_number_for_each_axis() -> None:
    encoding = gyre.rope(16, axis_pairs=[4, 4])
    positions = np.arange(10).reshape(2, 5)
    raw = RNG.standard_normal((1, 2, 5, 16))
    keys = encoding.rotate(raw, positions)
    gyre.rerotate(keys, encoding, positions=positions, shift=(7, -2))
    np.testing.assert_allclose(keys, encoding.rotate(raw, positions + np.array([[7], [-2]])), atol=1e-12)
    with pytest.raises(gyre.Error, match="shift: is .1, 2, 3., not a whole number or a list of 2"):
        gyre.rerotate(keys, encoding, positions=positions, shift=(1, 2, 3))


def test_keys_are_kept_rotated_where_the_encoding_allows_it() -> None:
    assert gyre.Cache(gyre.rope(16), heads=2, max_tokens=4).keys == "rotated"
    assert gyre.Cache(gyre.rope(16), heads=2, max_tokens=4, keys="raw").keys == "raw"
    assert gyre.Cache(gyre.rope(16, far="clamped", far_window=4), heads=2, max_tokens=4).keys == "raw"
    with pytest.raises(gyre.Error, match="keys: is 'kept', not one of 'default', 'raw', 'rotated'"):
        gyre.Cache(gyre.rope(16), heads=2, max_tokens=4, keys="kept")


def test_queries_of_a_cache_are_the_last_tokens_of_each_sequence() -> None:
    """Sequences of other lengths and positions in one batch; a position that is given, 0 among them, is taken as it is."""
    rope, lengths = gyre.rope(16), [9, 4]
    cache = gyre.Cache(rope, heads=2, max_tokens=32, sequences=2)
    q, k, v = operands()
    for row, n in enumerate(lengths):
        cache.append(k[row : row + 1, :, :n], v[row : row + 1, :, :n], 5 * row, sequence=row)
    out = cache.attention(q[:, :, :3])
    for row, n in enumerate(lengths):
        at = np.arange(n) + 5 * row
        one = (q[row : row + 1, :, :3], k[row : row + 1, :, :n], v[row : row + 1, :, :n])
        want = gyre.attention(*one, encoding=rope, positions=at[-3:], key_positions=at, causal=True)
        np.testing.assert_allclose(out[row : row + 1], want, atol=2e-6)
        given = cache.attention(one[0], sequences=[row], positions=5 * row)
        want = gyre.attention(*one, encoding=rope, positions=at[:3], key_positions=at, causal=True)
        np.testing.assert_allclose(given, want, atol=2e-6)
    ended = cache.attention(q[:1, :, :3], sequences=[0], key_end=np.array([6]))
    at = np.arange(6)
    want = gyre.attention(q[:1, :, :3], k[:1, :, :6], v[:1, :, :6], encoding=rope, positions=at[-3:], key_positions=at, causal=True)
    np.testing.assert_allclose(ended, want, atol=2e-6)


def test_one_position_of_all_tokens_is_a_stride_of_zero() -> None:
    """numpy and torch broadcast by a stride of 0, which C refuses unless it is asked for."""
    rope, x = gyre.rope(16), operands()[0]
    same = np.broadcast_to(np.int64(7), (x.shape[2],))
    np.testing.assert_array_equal(rope.rotate(x, same), rope.rotate(x, same.copy()))
    each = np.broadcast_to(np.array([[3], [8]]), (2, x.shape[2]))
    np.testing.assert_array_equal(rope.rotate(x, each), rope.rotate(x, each.copy()))


@pytest.mark.parametrize("layout", ["bhsd", "bshd"])
def test_weights_and_scores(layout) -> None:
    """The softmax and what it reads, [batch, heads, queries, keys] in any layout."""
    q, k, v = operands()
    moved = [x.transpose(["bhsd".index(c) for c in layout]) for x in (q, k, v)]
    bias = RNG.standard_normal((6, 9)).astype("f4")
    out, lse, weights, scores = gyre.attention(*moved, layout=layout, causal=True, mask=bias, lse=True, weights=True, scores=True)
    want = q.astype("f8") @ np.repeat(k, 2, 1).swapaxes(-1, -2) / 4 + bias
    want = np.where(causal(6, 9), want, -np.inf)
    assert weights.dtype == scores.dtype == np.float32 and weights.shape == scores.shape == (2, 4, 6, 9)
    np.testing.assert_allclose(scores, want, atol=2e-6)
    soft = np.exp(want) / np.exp(want).sum(-1, keepdims=True)
    np.testing.assert_allclose(weights, soft, atol=1e-6)
    np.testing.assert_allclose(out.transpose(["bhsd".index(c) for c in layout]), soft @ np.repeat(v, 2, 1), atol=2e-6)
    plain, only = gyre.attention(*moved, layout=layout, causal=True, mask=bias, scores=True)
    np.testing.assert_array_equal(only, scores)
    np.testing.assert_array_equal(plain, out)
    _, dropped = gyre.attention(*moved, layout=layout, causal=True, mask=bias, weights=True, dropout=0.5)
    np.testing.assert_array_equal(dropped, weights)


def test_weights_of_packed_sequences() -> None:
    q, k, v = (RNG.standard_normal((7, h, 8)).astype("f4") for h in (4, 2, 2))
    starts = np.array([0, 3, 7])
    _, weights, scores = gyre.attention(q, k, v, query_starts=starts, key_starts=starts, causal=True, weights=True, scores=True)
    assert weights.shape == scores.shape == (4, 7, 4)
    for first, end in ((0, 3), (3, 7)):
        alone = [x[first:end] for x in (q, k, v)]
        _, w, s = gyre.attention(*alone, causal=True, weights=True, scores=True)
        np.testing.assert_array_equal(weights[:, first:end, : end - first], w)
        np.testing.assert_array_equal(scores[:, first:end, : end - first], s)
    assert (weights[:, :3, 3] == 0).all() and (scores[:, :3, 3] == -np.inf).all()


def test_weights_over_a_cache() -> None:
    q, k, v = operands(queries=2)
    cache = gyre.Cache(encoding=gyre.rope(16), sequences=2, heads=2, head_dim=16, max_tokens=512)
    for sequence in range(2):
        cache.append(k[sequence : sequence + 1], v[sequence : sequence + 1], sequence=sequence)
    out, weights, scores = cache.attention(q, weights=True, scores=True)
    same, w, s = gyre.attention(q, k, v, encoding=gyre.rope(16), causal=True, weights=True, scores=True)
    np.testing.assert_allclose(out, same, atol=1e-6)
    np.testing.assert_allclose(weights, w, atol=1e-6)
    np.testing.assert_allclose(scores, s, atol=2e-6)


def test_the_product_of_three_vectors() -> None:
    q, k, v = operands(queries=9)
    table = RNG.standard_normal((7, 16)).astype("f4")
    encoding = gyre.multiplicative(16, max_distance=3)
    assert encoding.table_shapes == {"query": (1, 1, 7, 16)}
    row = np.clip(np.arange(9) - np.arange(9)[:, None], -3, 3) + 3
    want = np.einsum("bhqc,bhkc,qkc->bhqk", q.astype("f8"), np.repeat(k, 2, 1), table[row]) / 4
    out, scores = gyre.attention(q, k, v, encoding=encoding, tables=table, scores=True)
    np.testing.assert_allclose(scores, want, atol=5e-6)
    weights = np.exp(want) / np.exp(want).sum(-1, keepdims=True)
    np.testing.assert_allclose(out, weights @ np.repeat(v, 2, 1), atol=5e-6)
    ones = gyre.attention(q, k, v, encoding=encoding, tables=np.ones_like(table))
    np.testing.assert_allclose(ones, gyre.attention(q, k, v), atol=1e-6)
