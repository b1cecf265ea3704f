"""gyre.torch.rotate, attention and bias: values, gradients, opcheck and torch.compile."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import gyre
import gyre.torch as gt
import numpy
import pytest
import torch

YARN = gyre.rope(32, scaling="yarn", factor=4.0, trained_length=64)  # cos and sin have a factor
ROPES = {
    "plain": gyre.rope(32),
    "yarn": YARN,
    "interleaved": gyre.rope(32, layout="interleaved"),
    "partial": gyre.rope(32, dim=16),
    "axes": gyre.rope(32, axis_pairs=(8, 4, 4)),
    "temperature": gyre.rope(32, temperature="llama4", reference_length=4, slope=0.1),
}


def formula(x: torch.Tensor, positions: torch.Tensor, inv_freq: torch.Tensor, factor: float) -> torch.Tensor:
    """The rotation of transformers' llama, [batch, heads, tokens, channels]."""
    angles = positions.to(x.dtype)[:, None, :, None] * inv_freq.to(x.dtype)
    cosine, sine = (torch.cat((f(angles), f(angles)), -1) * factor for f in (torch.cos, torch.sin))
    half = x.shape[-1] // 2
    return x * cosine + torch.cat((-x[..., half:], x[..., :half]), -1) * sine


def frequencies(encoding: gyre.Encoding) -> torch.Tensor:
    return torch.from_numpy(encoding.frequencies())


def positions_of(encoding: gyre.Encoding, tokens: int) -> torch.Tensor:
    """Positions without order; [axes, batch, tokens] for several axes."""
    one = torch.tensor([[(7 * i) % 11 for i in range(tokens)], [i + 100 for i in range(tokens)]])
    return torch.stack([one, one + 1, one + 5]) if encoding.config["rope.axes"] > 1 else one


@pytest.mark.parametrize("name", ["plain", "yarn"])
def test_rotate_is_the_formula(name: str) -> None:
    encoding = ROPES[name]
    x = torch.randn(2, 3, 5, 32, dtype=torch.float64)
    positions = positions_of(encoding, 5)
    wanted = formula(x, positions, frequencies(encoding), encoding.attention_factor())
    torch.testing.assert_close(gt.rotate(x, encoding, positions), wanted, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(gt.rotate_pair(x, x, encoding, positions)[1], wanted, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", list(ROPES))
@pytest.mark.parametrize("role", ["query", "key"])
def test_rotate_gradients_in_double(name: str, role: str) -> None:
    encoding = ROPES[name]
    x = torch.randn(2, 1, 3, 32, dtype=torch.float64, requires_grad=True)
    positions = positions_of(encoding, 3)
    assert torch.autograd.gradcheck(lambda x: gt.rotate(x, encoding, positions, role=role), (x,))
    assert torch.autograd.gradgradcheck(lambda x: gt.rotate(x, encoding, positions, role=role), (x,))


def test_rotate_pair_gradients_in_double() -> None:
    q = torch.randn(1, 2, 3, 32, dtype=torch.float64, requires_grad=True)
    k = torch.randn(1, 1, 3, 32, dtype=torch.float64, requires_grad=True)
    for encoding in (YARN, ROPES["temperature"]):
        assert torch.autograd.gradcheck(lambda q, k: gt.rotate_pair(q, k, encoding, 5), (q, k))
        assert torch.autograd.gradgradcheck(lambda q, k: gt.rotate_pair(q, k, encoding, 5), (q, k))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("transposed", [False, True])
def test_opcheck_rotate(dtype: torch.dtype, transposed: bool) -> None:
    x = torch.randn(2, 3, 5, 32).to(dtype)
    if transposed:
        x = x.transpose(1, 2).contiguous().transpose(1, 2)
    x.requires_grad_()
    rest = (YARN._spec, "bhsd", "query", "forward", 0)
    torch.library.opcheck(torch.ops.gyre.rotate.default, (x, torch.arange(5), 0, *rest))
    torch.library.opcheck(torch.ops.gyre.rotate.default, (x, None, 3, *rest))
    k = x[:, :1].detach().clone().requires_grad_()
    torch.library.opcheck(torch.ops.gyre.rotate_pair.default, (x, k, None, 3, YARN._spec, "bhsd", "forward", 0))


def phased(q: torch.Tensor, k: torch.Tensor, amplitudes: int, exponent: float) -> torch.Tensor:
    """TAPA's scores, eq. 12 of arXiv 2509.12635."""
    at = torch.arange(k.shape[2], dtype=q.dtype)
    distance = (at[-q.shape[2] :, None] - at).abs() ** exponent
    a, p = (
        q[..., part] @ k[..., part].transpose(-1, -2) / math.sqrt(q[..., part].shape[-1])
        for part in (slice(None, amplitudes), slice(amplitudes, None))
    )
    return a * torch.cos(2 * math.pi * distance * p)


def reference(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    bias: torch.Tensor | None = None,
    sinks: torch.Tensor | None = None,
    inv_freq: torch.Tensor | None = None,
    tapa: tuple[int, float] | None = None,
) -> torch.Tensor:
    """Causal attention with the formulas of the papers, in the type of q."""
    if inv_freq is not None:
        at = torch.arange(q.shape[2])[None]
        q, k = formula(q, at, inv_freq, 1.0), formula(k, at, inv_freq, 1.0)
    group = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
    scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1]) if tapa is None else phased(q, k, *tapa)
    scores = scores if bias is None else scores + bias
    scores = scores.masked_fill(torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1), -math.inf)
    if sinks is not None:
        more = sinks[None, :, None, None].expand(*scores.shape[:3], 1)
        return torch.cat((scores, more), -1).softmax(-1)[..., :-1] @ v
    return scores.softmax(-1) @ v


def inputs(heads: int = 4, key_heads: int = 2, tokens: int = 9) -> list[torch.Tensor]:
    torch.manual_seed(0)
    shapes = ((2, heads, tokens, 32), (2, key_heads, tokens, 32), (2, key_heads, tokens, 16))
    return [torch.randn(shape, requires_grad=True) for shape in shapes]


def gradients(out: torch.Tensor, wanted: list[torch.Tensor]) -> list[torch.Tensor]:
    weights = torch.linspace(-1, 1, out.numel(), dtype=out.dtype).view(out.shape)
    return list(torch.autograd.grad((out * weights).sum(), wanted))


def compare(out: torch.Tensor, wanted: torch.Tensor, into: list[torch.Tensor], doubles: list[torch.Tensor]) -> None:
    """float32 results and gradients against those of double: sums are of floats, so gradcheck's differences are not."""
    torch.testing.assert_close(out.double(), wanted, rtol=1e-5, atol=2e-6)
    for got, right in zip(gradients(out, into), gradients(wanted, doubles), strict=True):
        torch.testing.assert_close(got.double(), right, rtol=1e-4, atol=5e-6)


def test_attention_gradients_with_rope() -> None:
    encoding = ROPES["plain"]
    qkv = inputs()
    doubles = [x.detach().double().requires_grad_() for x in qkv]
    out = gt.attention(*qkv, encoding=encoding, causal=True)
    compare(out, reference(*doubles, inv_freq=frequencies(encoding)), qkv, doubles)


def test_attention_gradients_of_sink_logits() -> None:
    qkv = [*inputs(), torch.randn(4, requires_grad=True)]
    doubles = [x.detach().double().requires_grad_() for x in qkv]
    out = gt.attention(*qkv[:3], causal=True, sink_logits=qkv[3])
    compare(out, reference(*doubles[:3], sinks=doubles[3]), qkv, doubles)


@pytest.mark.parametrize("amplitudes, exponent", [(None, None), (5, 0.05), (31, 0.3)])
def test_attention_gradients_of_tapa(amplitudes: int | None, exponent: float | None) -> None:
    encoding = gyre.tapa(32, amplitudes=amplitudes, exponent=exponent)
    qkv = inputs()
    doubles = [x.detach().double().requires_grad_() for x in qkv]
    out = gt.attention(*qkv, encoding=encoding, causal=True)
    compare(out, reference(*doubles, tapa=(amplitudes or 16, exponent or 0.1)), qkv, doubles)


def test_attention_gradients_of_three_vectors() -> None:
    encoding = gyre.multiplicative(32, max_distance=3)
    qkv = [*inputs(), torch.randn(7, 32, requires_grad=True)]
    doubles = [x.detach().double().requires_grad_() for x in qkv]
    out = gt.attention(*qkv[:3], encoding=encoding, causal=True, tables=qkv[3])
    q, k, v, table = doubles
    row = (torch.arange(9)[None] - torch.arange(9)[:, None]).clamp(-3, 3) + 3
    scores = torch.einsum("bhqc,bhkc,qkc->bhqk", q, k.repeat_interleave(2, 1), table[row]) / math.sqrt(32)
    scores = scores.masked_fill(torch.ones(9, 9, dtype=torch.bool).triu(1), -math.inf)
    compare(out, scores.softmax(-1) @ v.repeat_interleave(2, 1), qkv, doubles)


def test_attention_gradients_of_vectors_of_tokens() -> None:
    encoding = gyre.inkling(32, max_distance=4, relative_channels=5)
    q, k, v = (x.detach() for x in inputs())
    qkv = [x.requires_grad_() for x in (q, k[..., :27].clone(), v, torch.randn(4, 5))]
    doubles = [x.detach().double().requires_grad_() for x in qkv]
    out = gt.attention(*qkv[:3], encoding=encoding, causal=True, tables=qkv[3])
    q, k, v, table = doubles
    distance = torch.arange(9)[:, None] - torch.arange(9)
    bias = (q[..., 27:] @ table.T).gather(-1, distance.clamp(0, 3).expand(2, 4, 9, 9)).masked_fill(distance > 3, 0)
    scores = q[..., :27] @ k.repeat_interleave(2, 1).transpose(-1, -2) / math.sqrt(27) + bias
    scores = scores.masked_fill(torch.ones(9, 9, dtype=torch.bool).triu(1), -math.inf)
    compare(out, scores.softmax(-1) @ v.repeat_interleave(2, 1), qkv, doubles)


def test_weights_and_scores() -> None:
    q, k, v = inputs()
    out, lse, weights, scores = gt.attention(q, k, v, encoding=YARN, causal=True, lse=True, weights=True, scores=True)
    assert out.requires_grad and lse.requires_grad and not weights.requires_grad and not scores.requires_grad
    torch.testing.assert_close(out, weights @ v.repeat_interleave(2, 1), rtol=1e-5, atol=2e-6)
    torch.testing.assert_close(scores.softmax(-1), weights, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(scores.logsumexp(-1), lse, rtol=1e-5, atol=1e-5)
    plain = gt.attention(q, k, v, causal=True, scores=True)[1]
    want = q.double() @ k.double().repeat_interleave(2, 1).transpose(-1, -2) / math.sqrt(32)
    want = want.masked_fill(torch.ones(9, 9, dtype=torch.bool).triu(1), -math.inf)
    torch.testing.assert_close(plain.double(), want.detach(), rtol=1e-5, atol=2e-6)
    compiled = torch.compile(lambda q, k, v: gt.attention(q, k, v, causal=True, weights=True)[1], backend="eager", fullgraph=True)
    torch.testing.assert_close(compiled(q, k, v), plain.softmax(-1), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("as_dict", [False, True])
def test_attention_gradients_of_a_t5_table(as_dict: bool) -> None:
    encoding = gyre.t5(4)
    (name,) = encoding.table_shapes
    qkv = [*inputs(), torch.randn(32, 4, requires_grad=True)]
    doubles = [x.detach().double().requires_grad_() for x in qkv]
    out = gt.attention(*qkv[:3], encoding=encoding, causal=True, tables={name: qkv[3]} if as_dict else qkv[3])
    distance = (torch.arange(9)[:, None] - torch.arange(9)[None]).clamp(min=0)  # less than 16: a bucket each
    compare(out, reference(*doubles[:3], bias=doubles[3][distance].permute(2, 0, 1)), qkv, doubles)


def test_attention_options() -> None:
    q, k, v = inputs()
    out, lse = gt.attention(q, k, v, encoding=YARN, causal=True, window=(3, 1), positions=7, lse=True)
    same, same_lse = gyre.attention(
        q.detach(), k.detach(), v.detach(), encoding=YARN, causal=True, window=(3, 1), positions=7, lse=True
    )
    assert torch.equal(out, same) and torch.equal(lse, same_lse)
    assert out.requires_grad and lse.requires_grad
    seen = torch.ones(9, 9, dtype=torch.bool).tril()
    torch.testing.assert_close(gt.attention(q, k, v, mask=seen), gt.attention(q, k, v, causal=True))
    with pytest.raises(gyre.Error, match="mask: requires a gradient"):
        gt.attention(q, k, v, mask=torch.zeros(9, 9, requires_grad=True))


@pytest.mark.parametrize("layout", ["bhsd", "bshd", "thd"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_opcheck_attention(layout: str, dtype: torch.dtype) -> None:
    qkv = inputs()
    if layout == "bshd":
        qkv = [x.detach().transpose(1, 2) for x in qkv]
    if layout == "thd":
        qkv = [x.detach()[0].transpose(0, 1).contiguous() for x in qkv]
    qkv = [x.detach().to(dtype).requires_grad_() for x in qkv]
    none: list[Any] = [None] * 11
    options = f'{{"layout": "{layout}", "causal": true, "tables": []}}'
    torch.library.opcheck(torch.ops.gyre.attention.default, (*qkv, [], *none, None, None, 0, 0, YARN._spec, options))
    sinks = torch.zeros(4, requires_grad=True)
    none[3] = sinks
    torch.library.opcheck(torch.ops.gyre.attention.default, (*qkv, [], *none, 3, 3, 0, 0, "", options))


def test_opcheck_tables_and_bias() -> None:
    encoding = gyre.t5(4)
    table = torch.randn(32, 4, requires_grad=True)
    none: list[Any] = [None] * 11
    options = '{"layout": "bhsd", "causal": true, "tables": [""]}'
    torch.library.opcheck(
        torch.ops.gyre.attention.default, (*inputs(), [table], *none, None, None, 0, 0, encoding._spec, options)
    )
    at = torch.arange(6)
    torch.library.opcheck(torch.ops.gyre.bias.default, (at, at, [table], encoding._spec, '{"tables": [""]}', False, 0))
    torch.library.opcheck(torch.ops.gyre.bias.default, (at, at, [], gyre.alibi(4)._spec, '{"tables": []}', True, 0))


def test_whole_numbers_of_numpy() -> None:
    """What numpy counts is a number of tokens or a first position, as an int is."""
    rope, t5, table, x = gyre.rope(8), gyre.t5(4), torch.randn(32, 4), torch.randn(1, 2, 3, 8)
    for kind in (numpy.int64, numpy.int32, numpy.uint8):
        assert torch.equal(gt.rotate(x, rope, kind(3)), gt.rotate(x, rope, 3))
        assert torch.equal(gt.rotate_pair(x, x, rope, kind(3))[1], gt.rotate(x, rope, 3))
        assert torch.equal(gt.bias(t5, kind(5), kind(9), tables=table), gt.bias(t5, 5, 9, tables=table))
        assert torch.equal(
            gt.attention(x, x, x, encoding=rope, positions=kind(3), key_positions=kind(2)),
            gt.attention(x, x, x, encoding=rope, positions=3, key_positions=2),
        )
    for wrong in (numpy.float64(3), numpy.arange(3), numpy.bool_(True), "3", True):
        with pytest.raises(gyre.Error, match="positions: is "):
            gt.rotate(x, rope, wrong)


def test_a_bias_is_of_the_kind_of_its_table() -> None:
    t5, table = gyre.t5(4), torch.randn(32, 4)
    for keys in (None, 9):
        found = t5.bias(5, keys, tables=table)
        assert isinstance(found, torch.Tensor) and torch.equal(found, gt.bias(t5, 5, keys, tables=table))
        assert isinstance(t5.bias(5, keys, tables=table.numpy()), numpy.ndarray)
    assert isinstance(t5.bias(numpy.arange(5), tables=table), numpy.ndarray)  # positions come first
    assert isinstance(gyre.alibi(4).bias(5), numpy.ndarray)


def test_bias() -> None:
    alibi = gyre.alibi(8)
    assert torch.equal(gt.bias(alibi, 3, 10), torch.from_numpy(alibi.bias(3, 10)))
    t5 = gyre.t5(4)
    table = torch.randn(32, 4, requires_grad=True)
    out = gt.bias(t5, 9, tables=table)
    right = table.detach().clone().requires_grad_()
    distance = (torch.arange(9)[:, None] - torch.arange(9)[None]).clamp(min=0)
    wanted = right[distance].permute(2, 0, 1)
    assert torch.equal(out, wanted)
    torch.testing.assert_close(gradients(out, [table])[0], gradients(wanted, [right])[0])


@pytest.mark.parametrize("backend", ["aot_eager", pytest.param("inductor", marks=pytest.mark.slow)])
def test_compile_without_a_graph_break(backend: str) -> None:
    t5 = gyre.t5(4)
    table = torch.randn(32, 4, requires_grad=True)

    def step(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, table: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
        a, b = gt.rotate_pair(q * 2, k + 1, YARN, at)
        b = gt.rotate(b, ROPES["plain"], at, role="key")
        out: torch.Tensor = gt.attention(a, b, v, encoding=t5, tables=table, causal=True, window=5)
        return out.sin() + gt.bias(t5, at, tables={"bias": table}).mean()

    qkv = [*inputs(), table]
    at = torch.arange(9)
    compiled = torch.compile(step, fullgraph=True, backend=backend)
    right, out = step(*qkv, at), compiled(*qkv, at)
    torch.testing.assert_close(out, right)
    for a, b in zip(gradients(out, qkv), gradients(right, qkv), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


def test_compile_with_a_changing_length() -> None:
    compiled = torch.compile(lambda x: gt.rotate(x, YARN), fullgraph=True, dynamic=True, backend="aot_eager")
    for tokens in (3, 8, 17):
        x = torch.randn(1, 2, tokens, 32)
        assert torch.equal(compiled(x), gt.rotate(x, YARN))


def test_export_keeps_the_operator() -> None:
    class Rotate(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return gt.rotate(x, YARN, 2)

    x = torch.randn(1, 2, 4, 32)
    program = torch.export.export(Rotate(), (x,))
    assert any("gyre.rotate" in str(node.target) for node in program.graph.nodes)
    assert torch.equal(program.module()(x), gt.rotate(x, YARN, 2))


def test_gradients_of_any_strides() -> None:
    """sum() gives a gradient whose elements are all one number in memory; a permuted result, one of other strides."""
    x = torch.randn(1, 2, 5, 32, requires_grad=True)
    for f in (lambda x: gt.rotate(x, YARN), lambda x: gt.attention(x, x, x, encoding=YARN, causal=True)):
        (dense,) = torch.autograd.grad(f(x), x, torch.ones(1, 2, 5, 32))
        (expanded,) = torch.autograd.grad(f(x).sum(), x)
        (permuted,) = torch.autograd.grad(f(x).transpose(1, 2), x, torch.ones(1, 5, 2, 32))
        assert torch.equal(dense, expanded) and torch.equal(dense, permuted)


def test_bad_arguments_are_named() -> None:
    x = torch.randn(1, 2, 4, 32)
    for call, text in (
        (lambda: gt.rotate([1.0], YARN), "x: is a list"),
        (lambda: gt.rotate(x, "rope"), "encoding: is a str"),
        (lambda: gt.rotate(x, YARN, [1, 2]), "positions: is a list"),
        (lambda: gt.rotate(x, YARN, direction="inverse"), "direction: 'inverse'"),
        (lambda: gt.rotate(x, YARN, layout="thd"), "x: has 4 axes"),
        (lambda: gt.rotate(x.to(torch.int32), YARN), "x: "),
        (lambda: gt.attention(x, x, None, encoding=YARN), "v: is a NoneType"),
        (lambda: gt.rotate(x[..., :30], YARN), "30"),
    ):
        with pytest.raises(gyre.Error, match=text):
            call()


# -- tensors without memory --


def both_ways(call: Callable[[str], Any]) -> list[str | None]:
    """What a call says on the processor and on the meta device: the field at fault, or None."""
    said: list[str | None] = []
    for device in ("cpu", "meta"):
        try:
            call(device)
            said.append(None)
        except gyre.Error as why:
            said.append(why.field)
    return said


def test_meta_tensors_refuse_what_the_processor_refuses() -> None:
    rope, axes, alibi = gyre.rope(8), gyre.rope(8, axis_pairs=[2, 1, 1]), gyre.alibi(2)

    def x(device: str, *shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        return torch.zeros(*shape, dtype=dtype, device=device)

    def at(device: str, *shape: int, dtype: torch.dtype = torch.int64) -> torch.Tensor:
        return torch.zeros(*shape, dtype=dtype, device=device)

    right: list[Callable[[str], Any]] = [
        lambda d: gt.rotate(x(d, 2, 2, 3, 8), rope, at(d, 3)),
        lambda d: gt.rotate(x(d, 2, 2, 3, 8), rope, at(d, 2, 3)),
        lambda d: gt.rotate(x(d, 2, 2, 3, 8), rope, at(d, 1, 3)),
        lambda d: gt.rotate(x(d, 2, 2, 3, 8), axes, at(d, 3, 3)),
        lambda d: gt.rotate(x(d, 2, 2, 3, 8), axes, at(d, 3, 1, 3)),
        lambda d: gt.rotate(x(d, 2, 2, 3, 8), axes, at(d, 3, 2, 3)),
        lambda d: gt.rotate(x(d, 2, 2, 3, 8), axes, at(d, 3)),
        lambda d: gt.rotate_pair(x(d, 2, 4, 3, 8), x(d, 2, 2, 3, 8), rope, at(d, 3)),
        lambda d: gt.attention(x(d, 1, 4, 3, 8), x(d, 1, 2, 5, 8), x(d, 1, 2, 5, 6), encoding=rope),
        lambda d: gt.bias(alibi, at(d, 3), at(d, 2, 4)),
        lambda d: gt.RotaryEmbedding(rope)(x(d, 1), at(d, 2, 3)),
        lambda d: gt.RotaryEmbedding(axes)(x(d, 1), at(d, 3, 2, 3)),
    ]
    for call in right:
        assert both_ways(call) == [None, None]
    wrong: list[Callable[[str], Any]] = [
        lambda d: gt.rotate(x(d, 2, 2, 3, 6), rope),
        lambda d: gt.rotate(x(d, 2, 2, 3, 8, dtype=torch.int32), rope),
        lambda d: gt.rotate(x(d, 2, 2, 3, 8), rope, layout="bhsx"),
        lambda d: gt.rotate(x(d, 2, 2, 3, 8), rope, layout="bhdd"),
        lambda d: gt.rotate(x(d, 2, 2, 3, 8), rope, at(d, 4)),
        lambda d: gt.rotate(x(d, 2, 2, 3, 8), rope, at(d, 3, 3)),
        lambda d: gt.rotate(x(d, 2, 2, 3, 8), rope, at(d, 3, dtype=torch.float32)),
        lambda d: gt.rotate(x(d, 2, 2, 3, 8), axes, at(d, 2, 3)),
        lambda d: gt.rotate(x(d, 2, 2, 3, 8), axes, at(d, 1, 3)),
        lambda d: gt.rotate(x(d, 2, 2, 3, 8), axes, at(d, 3, 3, 3)),
        lambda d: gt.rotate_pair(x(d, 2, 2, 3, 6), x(d, 2, 2, 3, 6), rope),
        lambda d: gt.rotate_pair(x(d, 2, 2, 3, 8), x(d, 2, 2, 4, 8), rope),
        lambda d: gt.attention(x(d, 1, 2, 3, 6), x(d, 1, 2, 3, 6), x(d, 1, 2, 3, 6), encoding=rope),
        lambda d: gt.attention(x(d, 1, 2, 3, 8), x(d, 1, 2, 3, 4), x(d, 1, 2, 3, 8), encoding=rope),
        lambda d: gt.attention(x(d, 1, 2, 3, 8), x(d, 1, 2, 3, 8), x(d, 1, 2, 4, 8), encoding=rope),
        lambda d: gt.attention(x(d, 1, 3, 3, 8), x(d, 1, 2, 3, 8), x(d, 1, 2, 3, 8), encoding=rope),
        lambda d: gt.attention(x(d, 1, 2, 3, 8, dtype=torch.float64), x(d, 1, 2, 3, 8), x(d, 1, 2, 3, 8), encoding=rope),
        lambda d: gt.bias(alibi, at(d, 3, dtype=torch.float32)),
        lambda d: gt.bias(alibi, at(d, 3, 3, 3)),
        lambda d: gt.RotaryEmbedding(rope)(x(d, 1), at(d, 2, 2, 3)),
        lambda d: gt.RotaryEmbedding(rope)(x(d, 1), at(d, 2, 3, dtype=torch.float32)),
        lambda d: gt.RotaryEmbedding(axes)(x(d, 1), at(d, 2, 2, 3)),
    ]
    for i, call in enumerate(wrong):
        fields = both_ways(call)
        assert fields[0] is not None and fields[1] is not None, (i, fields)
        assert fields[0] == fields[1], (i, fields)


def test_numbers_of_tokens_that_are_none() -> None:
    with pytest.raises(gyre.Error, match="queries: is 6, but there are positions of 4 keys"):
        gt.bias(gyre.alibi(2), 6, torch.arange(4))
    for call in (lambda: gt.bias(gyre.alibi(2), -1), lambda: gt.bias(gyre.alibi(2), 2, -1)):
        with pytest.raises(gyre.Error, match="is -1, not a number of tokens"):
            call()


# -- what gyre refuses, gyre.torch refuses by the same error --


def test_only_errors_of_gyre() -> None:
    x, rope, alibi = torch.randn(1, 2, 4, 32), gyre.rope(32), gyre.alibi(2)
    calls: list[tuple[Callable[[], Any], str]] = [
        (lambda: gt.rotate(x, rope, role=3), "role"),
        (lambda: gt.rotate(x, rope, length=1.5), "length"),
        (lambda: gt.rotate(x, rope, length="a"), "length"),
        (lambda: gt.rotate(x, rope, length=-4), "length"),
        (lambda: gt.rotate(x, rope, 2**70), "positions"),
        (lambda: gt.rotate(x, rope, layout=3), "layout"),
        (lambda: gt.rotate_pair(x, x, rope, length=2**70), "length"),
        (lambda: gt.bias(alibi, 2**40), "keys"),
        (lambda: gt.bias(alibi, 4, double="x"), "double"),
        (lambda: gt.bias(alibi, 4, length=1.5), "length"),
    ]
    options: list[tuple[dict[str, Any], str]] = [
        ({"scale": math.nan}, "scale"),
        ({"scale": math.inf}, "scale"),
        ({"softcap": "x"}, "softcap"),
        ({"dropout": math.nan}, "dropout"),
        ({"causal": torch.tensor(True).numpy()[()]}, "causal"),
        ({"causal": 'a"b'}, "causal"),
        ({"tables": {'a"b': torch.zeros(2)}}, "tables"),
        ({"tables": {"a\n": torch.zeros(2)}}, "tables"),
        ({"seed": 2**64 - 1}, "seed"),
        ({"query_starts": [0, 1]}, "query_starts"),
        ({"mask": torch.zeros(4, 4).numpy()}, "mask"),
        ({"window": True}, "window"),
        ({"window": (1, 2, 3)}, "window"),
        ({"sinks": 1.5}, "sinks"),
        ({"order": 3}, "order"),
        ({"layout": 3}, "layout"),
    ]
    for call, field in calls:
        with pytest.raises(gyre.Error, match=field):
            call()
    for more, field in options:
        with pytest.raises(gyre.Error) as why:
            gt.attention(x, x, x, encoding=rope, **more)
        assert field in str(why.value), (more, str(why.value))


def test_forward_mode() -> None:
    """A rotation is linear, so its tangent is the rotated tangent; what has no rule is refused."""
    x, t = torch.randn(1, 2, 3, 32, dtype=torch.float64), torch.randn(1, 2, 3, 32, dtype=torch.float64)
    out, tangent = torch.func.jvp(lambda x: gt.rotate(x, YARN, 5), (x,), (t,))
    assert torch.equal(out, gt.rotate(x, YARN, 5)) and torch.equal(tangent, gt.rotate(t, YARN, 5))
    step = torch.compile(lambda x, t: torch.func.jvp(lambda x: gt.rotate(x, YARN, 5), (x,), (t,))[1], backend="eager")
    assert torch.equal(step(x, t), tangent)
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(x, t)
        q, k = gt.rotate_pair(dual, x, YARN, 5)
        assert torch.equal(torch.autograd.forward_ad.unpack_dual(q).tangent, gt.rotate(t, YARN, 5))
        assert not torch.autograd.forward_ad.unpack_dual(k).tangent.any()
        with pytest.raises(gyre.Error, match="k: has a forward-mode tangent"):
            gt.attention(x.float(), torch.autograd.forward_ad.make_dual(x.float(), t.float()), x.float())
    one = x[:, :1, :1]
    forward = torch.func.jacfwd(lambda x: gt.rotate(x, YARN, 5))(one)
    reverse = torch.autograd.functional.jacobian(lambda x: gt.rotate(x, YARN, 5), one)
    assert forward.any()
    torch.testing.assert_close(forward, reverse)
    rows = torch.randn(4, 1, 2, 3, 32)
    mapped = torch.func.vmap(lambda x: gt.rotate_pair(x, x, YARN)[1], in_dims=1, out_dims=1)(rows.movedim(0, 1))
    assert torch.equal(mapped.movedim(1, 0), torch.stack([gt.rotate(one, YARN) for one in rows]))


def test_the_default_device_is_not_that_of_the_arguments() -> None:
    x, seen = torch.randn(1, 2, 4, 32), torch.ones(4, 4, dtype=torch.bool).tril()
    wanted, numbers = gt.attention(x, x, x, causal=True), gt.bias(gyre.alibi(4), 4)
    with torch.device("meta"):
        torch.testing.assert_close(gt.attention(x, x, x, mask=seen), wanted)
        assert torch.equal(gt.bias(gyre.alibi(4), 4), numbers)


# -- tensors of several devices --


def test_a_tensor_on_meta_beside_one_of_the_processor_is_refused() -> None:
    """torch runs the functions for shapes there, whose results on the processor are memory that nothing wrote."""
    rope, t5, x, at = ROPES["plain"], gyre.t5(2), torch.randn(1, 2, 3, 32), torch.arange(3)
    m, m_at, table = x.to("meta"), at.to("meta"), torch.zeros(32, 2, device="meta")
    m_mask = torch.zeros(3, 3, device="meta")
    weight = x.clone().requires_grad_()
    cases: list[tuple[Callable[[], Any], str]] = [
        (lambda: gt.rotate(x, rope, m_at), "positions"),
        (lambda: gt.rotate(weight, rope, m_at), "positions"),
        (lambda: gt.rotate(m, rope, at), "x"),
        (lambda: gt.rotate_pair(x, m, rope), "k"),
        (lambda: gt.rotate_pair(m, x, rope), "q"),
        (lambda: gt.rotate_pair(x, x, rope, m_at), "positions"),
        (lambda: gt.attention(x, m, x), "k"),
        (lambda: gt.attention(weight, x, m), "v"),
        (lambda: gt.attention(m, x, x), "q"),
        (lambda: gt.attention(x, x, x, mask=m_mask), "mask"),
        (lambda: gt.attention(x, x, x, mask=m_mask > 0), "mask"),
        (lambda: gt.attention(x, x, x, encoding=rope, positions=m_at), "positions"),
        (lambda: gt.attention(x, x, x, key_end=torch.ones(1, dtype=torch.int64, device="meta")), "key_end"),
        (lambda: gt.attention(x, x, x, sink_logits=torch.zeros(2, device="meta")), "sink_logits"),
        (lambda: gt.attention(x, x, x, encoding=t5, tables=table), "tables"),
        (lambda: gt.bias(t5, at, tables=table), "tables"),
        (lambda: gt.bias(t5, at, m_at, tables=torch.zeros(32, 2)), "keys"),
        (lambda: gt.RotaryEmbedding(rope)(x, m_at[None]), "position_ids"),
        (lambda: torch.ops.gyre.rotate(x, m_at, 0, rope._spec, "bhsd", "query", "forward", 0), "positions"),
    ]
    for i, (call, field) in enumerate(cases):
        with pytest.raises(gyre.Error, match=f"{field}: is on meta, but .* is on cpu: pass both on one device") as caught:
            call()
        assert caught.value.field == field, i
    for y in (
        gt.rotate(m, rope, m_at),
        gt.rotate(m, rope, 3),
        gt.rotate_pair(m, m, rope, m_at)[1],
        gt.attention(m, m, m, mask=m_mask > 0, encoding=t5, tables=table),
        gt.RotaryEmbedding(rope)(m, m_at[None])[0],
        gt.bias(t5, 5, tables=table),
        gt.bias(t5, m_at, tables=table),
    ):
        assert y.is_meta
    dynamic = gyre.rope(8, scaling="dynamic", factor=4.0, trained_length=64)
    cosine, sine = gt.RotaryEmbedding(dynamic)(m, m_at[None])  # of a length that is not known, but of one shape
    assert cosine.is_meta and sine.shape == (1, 3, 8)


def test_real_tensors_beside_fake_ones_are_refused_by_name() -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode

    at, key, rows = torch.arange(3), torch.randn(1, 2, 3, 32), torch.arange(3)[None]
    with FakeTensorMode():
        x = torch.randn(1, 2, 3, 32)
        for call, field in (
            (lambda: gt.rotate(x, YARN, at), "positions"),
            (lambda: gt.rotate_pair(x, key, YARN), "k"),
            (lambda: gt.attention(x, key, x), "k"),
            (lambda: gt.bias(gyre.alibi(2), torch.arange(3), at), "keys"),
            (lambda: gt.RotaryEmbedding(YARN)(x, rows), "position_ids"),
        ):
            with pytest.raises(gyre.Error, match=f"^{field}: is a tensor with numbers beside fake ones"):
                call()
        assert gt.rotate(x, YARN, torch.arange(3)).shape == x.shape


def test_what_does_not_rotate_is_refused() -> None:
    x = torch.randn(1, 4, 3, 32)
    for one in (x, x.to("meta")):
        for call in (lambda one=one: gt.rotate(one, gyre.alibi(4)), lambda one=one: gt.rotate_pair(one, one, gyre.alibi(4))):
            with pytest.raises(gyre.Error, match="encoding: alibi does not rotate") as caught:
                call()
            assert caught.value.status == "EUNSUPPORTED" and caught.value.field == "encoding"


def test_windows_of_one_side() -> None:
    q, k, v = (torch.randn(1, 2, 9, 32, requires_grad=True) for _ in range(3))
    distance = torch.arange(9)[:, None] - torch.arange(9)
    for window, seen in (((3, None), distance < 3), ((None, 3), -distance < 3), ([3, 2], (distance < 3) & (-distance < 2))):
        found, wanted = gt.attention(q, k, v, window=window), gt.attention(q, k, v, mask=seen)
        torch.testing.assert_close(found, wanted)
        for one, other in zip(
            torch.autograd.grad(found.sum(), (q, k, v)), torch.autograd.grad(wanted.sum(), (q, k, v)), strict=True
        ):
            torch.testing.assert_close(one, other)
    for window in (True, (1, True), [1]):
        with pytest.raises(gyre.Error, match="window: is "):
            gt.attention(q, k, v, window=window)


def test_vmap_over_no_rows() -> None:
    x, at = torch.randn(0, 2, 3, 32), torch.arange(3)
    empty = torch.func.vmap(lambda x: gt.rotate(x[None], YARN, at))(x)
    assert empty.shape == (0, 1, 2, 3, 32)
    both = torch.func.vmap(lambda q, k: gt.rotate_pair(q[None], k[None], YARN), in_dims=(1, None))(x.movedim(0, 1), x.new_zeros(1, 3, 32))
    assert both[0].shape == (0, 1, 2, 3, 32) and both[1].shape == (0, 1, 1, 3, 32)


def test_trained_frequencies_have_gradients() -> None:
    x = torch.randn(2, 3, 4, 8, dtype=torch.float64, requires_grad=True)
    frequencies = torch.randn(2, 3, 4, dtype=torch.float64, requires_grad=True)
    phases = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
    positions = torch.randint(-5, 5, (2, 2, 4))
    assert torch.autograd.gradcheck(lambda *a: gt.trained_rotate(a[0], a[1], positions, phases=a[2]), (x, frequencies, phases))
    assert torch.autograd.gradcheck(lambda x, f: gt.trained_rotate(x, f[:, :1], 3, pairs="interleaved"), (x, frequencies))
    arguments = (x, frequencies, phases, positions, 0, "half", 0, "bhsd", False)
    torch.library.opcheck(torch.ops.gyre.trained_rotate.default, arguments)


def released(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, kerple: torch.Tensor, mlp: torch.nn.Sequential
) -> torch.Tensor:
    """DAPE-Kerple as the released code computes it: the network on [scores, biases], then the mask."""
    n = q.shape[-2]
    seen = torch.ones(n, n, dtype=torch.bool).tril()
    distance = (torch.arange(n)[:, None] - torch.arange(n)).clamp(min=0)
    products = q @ k.mT / q.shape[-1] ** 0.5
    bias = (-kerple[0, :, None, None] * torch.log1p(kerple[1, :, None, None] * distance)).expand_as(products)
    adapted = mlp(torch.cat([products, bias], 1).permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
    return (products + bias + adapted).masked_fill(~seen, -torch.inf).softmax(-1) @ v


def test_adaptive_biases_have_gradients() -> None:
    torch.manual_seed(7)
    heads, tokens = 3, 20
    mlp = torch.nn.Sequential(torch.nn.Linear(2 * heads, 8), torch.nn.LeakyReLU(), torch.nn.Linear(8, heads)).double()
    given = [torch.randn(2, heads, tokens, 8, requires_grad=True) for _ in range(3)]
    table = torch.rand(2, heads, requires_grad=True)
    (w1, b1), (w2, b2) = ([p.detach().float().requires_grad_() for p in layer.parameters()] for layer in (mlp[0], mlp[2]))
    options = {"encoding": gyre.kerple(heads=heads), "tables": table}
    found = gt.adaptive_attention(*given, w1, w2, hidden_bias=b1, output_bias=b2, **options)
    wanted = released(*[x.double() for x in given], table.double(), mlp)
    torch.testing.assert_close(found, wanted.float(), rtol=1e-5, atol=1e-5)
    dout = torch.randn_like(found)
    ours = torch.autograd.grad(found, [*given, table, w1, b1, w2, b2], dout)
    theirs = torch.autograd.grad(wanted, [*given, table, *mlp.parameters()], dout.double())
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other.float(), rtol=1e-4, atol=1e-4)
    assert gt.adaptive_attention(*[x.detach().bfloat16() for x in given], w1, w2, **options).dtype == torch.bfloat16
    assert torch.equal(gt.adaptive_attention(*given, w1, w2, encoding=options["encoding"], tables={"bias": table}),
                       gt.adaptive_attention(*given, w1, w2, **options))  # fmt: skip


@pytest.mark.parametrize("form", ["concat-residual", "concat", "add-residual"])
def test_adaptive_operator(form: str) -> None:
    torch.manual_seed(8)
    heads, tokens = 2, 9
    given = [torch.randn(1, heads, tokens, 4, requires_grad=True) for _ in range(3)]
    inputs = heads if form == "add-residual" else 2 * heads
    weights = [torch.randn(*shape, requires_grad=True) for shape in ((5, inputs), (heads, 5), (5,), (heads,))]
    bias = torch.randn(tokens, tokens, requires_grad=True)  # heads share it
    starts = torch.tensor([0, 4, 9])
    lists = (None, None, starts, starts, None, None)
    arguments = (*given, *weights, None, bias[:, :5], *lists, 0.2, None, None, None, 0, True, form, "", "bhsd")
    torch.library.opcheck(torch.ops.gyre.adaptive_attention.default, arguments, rtol=1e-4, atol=1e-4)
    encoding = gyre.alibi(heads=heads)

    def compiled(q: torch.Tensor, start: int) -> torch.Tensor:
        out: torch.Tensor = gt.adaptive_attention(q, *given[1:], *weights[:2], form=form, encoding=encoding, positions=start)
        return out

    whole = torch.compile(compiled, backend="eager", fullgraph=True)
    assert torch.equal(whole(given[0], 0), compiled(given[0], 0))


def listing(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, e: torch.Tensor) -> torch.Tensor:
    """Contextual positions as in the listing of CoPE's paper, from torch's own operations."""
    n = q.shape[-2]
    seen = torch.ones(n, n, dtype=torch.bool).tril()
    logits = (q @ k.mT / q.shape[-1] ** 0.5).masked_fill(~seen, -torch.inf)
    position = logits.sigmoid().flip(-1).cumsum(-1).flip(-1).clamp(max=len(e) - 1)
    each, low, high = q @ e.T, position.floor().long(), position.ceil().long()
    part = position - low
    return (logits + each.gather(-1, high) * part + each.gather(-1, low) * (1 - part)).softmax(-1) @ v


def test_contextual_positions_have_gradients() -> None:
    torch.manual_seed(5)
    given = [torch.randn(*shape, requires_grad=True) for shape in ((2, 3, 20, 8), (2, 3, 20, 8), (2, 3, 20, 8), (6, 8))]
    found, wanted = gt.contextual_attention(*given), listing(*[x.double() for x in given])
    torch.testing.assert_close(found, wanted.float(), rtol=1e-5, atol=1e-5)
    dout = torch.randn_like(found)
    for one, other in zip(torch.autograd.grad(found, given, dout), torch.autograd.grad(wanted, given, dout.double()), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)
    starts = torch.tensor([0, 7, 20])
    arguments = [x[:1] if x.ndim == 4 else x for x in given] + [given[1][:1], starts, starts, None, None, 0.5, None, 1.0, "bhsd"]
    torch.library.opcheck(torch.ops.gyre.contextual_attention.default, tuple(arguments), rtol=1e-4, atol=1e-4)
    half = [x.detach().bfloat16() for x in given]
    assert gt.contextual_attention(*half).dtype == torch.bfloat16
    for i, name in enumerate(("q", "k", "v", "embeddings")):
        with pytest.raises(gyre.Error, match=f"{name}: is a NoneType, not a tensor of torch"):
            gt.contextual_attention(*given[:i], None, *given[i + 1 :])


def test_what_is_no_tensor_and_no_number_is_named() -> None:
    q, w1, w2, e = torch.randn(1, 2, 5, 4), torch.randn(3, 4), torch.randn(2, 3), torch.randn(6, 4)
    for call, options in (
        (gt.adaptive_attention, {"hidden_bias": [0.0], "bias": "x", "tables": "x", "query_starts": [0, 5], "slope": "a",
                                 "scale": True, "causal": "position", "form": "both"}),
        (gt.contextual_attention, {"gate_keys": "x", "key_end": [5], "scale": "a", "position_scale": [1.0]}),
    ):  # fmt: skip
        weights = (w1, w2) if call is gt.adaptive_attention else (e,)
        for name, value in options.items():
            with pytest.raises(gyre.Error, match=f"^{name}: is "):
                call(q, q, q, *weights, **{name: value})
    with pytest.raises(gyre.Error, match="^hidden_weights: is a list"):
        gt.adaptive_attention(q, q, q, [[1.0]], w2)
    assert torch.equal(gt.adaptive_attention(q, q, q, w1, w2, causal="order"), gt.adaptive_attention(q, q, q, w1, w2))
    assert torch.equal(gt.adaptive_attention(q, q, q, w1, w2, causal="none"), gt.adaptive_attention(q, q, q, w1, w2, causal=False))
