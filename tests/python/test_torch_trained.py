"""gyre.torch.gate_sums, attention with forget gates, angle_rotate, polar_rotate and fourier_rotate: values and gradients against formulas of
torch in double, opcheck and torch.compile."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import gyre
import gyre.torch as gt
import pytest
import torch
from test_torch_operators import both_ways, compare, formula, frequencies, inputs


def leaf(*shape: int, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    return torch.randn(*shape, dtype=dtype, requires_grad=True)


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(7)


# -- gates that forget --


def test_sums_and_their_gradients_of_any_order() -> None:
    x = torch.nn.functional.logsigmoid(leaf(2, 3, 70))
    assert torch.equal(gt.gate_sums(x), x.cumsum(-1))
    assert torch.equal(gt.gate_sums(x.transpose(1, 2), layout="bshd"), x.cumsum(-1).transpose(1, 2))
    short, packed, starts = leaf(1, 2, 5), leaf(9, 2), torch.tensor([0, 4, 4, 9])
    for call, given in (
        (lambda x: gt.gate_sums(x), short),
        (lambda x: gt.gate_sums(x, starts=starts), packed),
        (lambda x: gt.gate_sums(x, initial=torch.ones(1, 2, dtype=torch.float64)), short),
    ):
        assert torch.autograd.gradcheck(call, (given,))
        assert torch.autograd.gradgradcheck(call, (given,))
    half = short.detach().bfloat16().requires_grad_()
    sums = gt.gate_sums(half, double=False)
    assert sums.dtype == torch.float32
    weights = torch.randn(1, 2, 5)
    (found,) = torch.autograd.grad(sums, half, weights)
    assert torch.equal(found, weights.double().flip(-1).cumsum(-1).flip(-1).bfloat16())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
def test_opcheck_sums(dtype: torch.dtype) -> None:
    rows, packed = torch.randn(2, 5, 3).to(dtype).transpose(1, 2), torch.randn(6, 2).to(dtype)
    each: list[tuple[Any, ...]] = [
        (rows, None, None, "bhsd", True),
        (rows, None, torch.zeros(2, 3, dtype=torch.float64), "bhsd", False),
        (packed, torch.tensor([0, 2, 6]), None, "thd", True),
    ]
    for x, *rest in each:
        torch.library.opcheck(torch.ops.gyre.gate_sums.default, (x.detach().requires_grad_(), *rest))
    dsums = torch.randn(2, 3, 5, dtype=torch.float64, requires_grad=True)
    torch.library.opcheck(torch.ops.gyre.gate_sums_gradient.default, (dsums, None, "bhsd", dtype))


def forgetting(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, queries: torch.Tensor, keys: torch.Tensor, softcap: float = 0.0
) -> torch.Tensor:
    """Causal attention of the Forgetting Transformer, as its paper has it, in the type of q."""
    group = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
    scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1]) + queries[..., :, None] - keys[..., None, :]
    scores = softcap * torch.tanh(scores / softcap) if softcap else scores
    hidden = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1 + scores.shape[-1] - scores.shape[-2])
    return scores.masked_fill(hidden, -math.inf).softmax(-1) @ v


@pytest.mark.parametrize("rotated", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_gate_of_each_token_is_trained(rotated: bool, dtype: torch.dtype) -> None:
    """Gradients through sums to the logits of gates, beside those to q, k and v; alone and beside RoPE."""
    rope = gyre.rope(32)
    given = [*inputs(), torch.randn(2, 4, 9, dtype=dtype, requires_grad=True)]
    doubles = [x.detach().double().requires_grad_() for x in given]
    sums = gt.gate_sums(torch.nn.functional.logsigmoid(given[3]))
    encoding = rope if rotated else None
    found = gt.attention(*given[:3], encoding=encoding, causal=True, query_gate_sums=sums, key_gate_sums=sums)
    at, right = torch.arange(9)[None], torch.nn.functional.logsigmoid(doubles[3]).cumsum(-1)
    q, k = (formula(x, at, frequencies(rope), 1.0) if rotated else x for x in doubles[:2])
    compare(found, forgetting(q, k, doubles[2], right, right), given, doubles)


@pytest.mark.parametrize("softcap", [None, 2.0])
def test_gate_sums_of_queries_and_keys_have_gradients_of_their_own(softcap: float | None) -> None:
    """Under softcap the query's is not 0.  Fewer queries than keys, strides of other layouts."""
    q, k, v = inputs()
    queries, keys = leaf(2, 5, 4), leaf(2, 9, 4, dtype=torch.float32)
    given = [q, k, v, queries, keys]
    doubles = [x.detach().double().requires_grad_() for x in given]
    rows = [x.transpose(1, 2) for x in (q[:, :, -5:], k, v)]
    found = gt.attention(
        *rows, causal=True, softcap=softcap, layout="bshd", query_gate_sums=queries, key_gate_sums=keys
    ).transpose(1, 2)
    moved = [x.transpose(1, 2) for x in doubles[3:]]
    wanted = forgetting(doubles[0][:, :, -5:], *doubles[1:3], *moved, softcap or 0.0)
    compare(found, wanted, given, doubles)


def test_gates_of_a_packed_batch() -> None:
    starts = torch.tensor([0, 4, 9])
    q, k, v = (x.detach()[0].transpose(0, 1) for x in inputs())
    logits = leaf(9, 4)
    sums = gt.gate_sums(torch.nn.functional.logsigmoid(logits), starts=starts)
    gates = {"query_gate_sums": sums, "key_gate_sums": sums}
    found = gt.attention(q, k, v, causal=True, query_starts=starts, key_starts=starts, **gates)
    right = logits.detach().requires_grad_()
    parts = []
    for part in (slice(4), slice(4, 9)):
        each = [x[part].transpose(0, 1)[None].double() for x in (q, k, v)]
        alone = torch.nn.functional.logsigmoid(right[part]).cumsum(0).transpose(0, 1)[None]
        parts.append(forgetting(*each, alone, alone)[0].transpose(0, 1))
    compare(found, torch.cat(parts), [logits], [right])


@pytest.mark.parametrize("layout", ["bhsd", "bshd", "thd"])
def test_opcheck_attention_with_gates(layout: str) -> None:
    qkv, sums = [x.detach() for x in inputs()], torch.randn(2, 4, 9, dtype=torch.float64)
    if layout == "bshd":
        qkv, sums = [x.transpose(1, 2) for x in qkv], sums.transpose(1, 2)
    if layout == "thd":
        qkv, sums = [x[0].transpose(0, 1) for x in qkv], sums[0].transpose(0, 1)
    given = [x.requires_grad_() for x in qkv]
    none: list[Any] = [None] * 9
    options = f'{{"layout": "{layout}", "causal": true, "softcap": 3.0, "tables": []}}'
    gates = [sums.detach().requires_grad_(), sums.detach().float().requires_grad_()]
    torch.library.opcheck(torch.ops.gyre.attention.default, (*given, [], *none, *gates, None, None, 0, 0, "", options))
    none[3] = torch.zeros(4, requires_grad=True)
    rope = gyre.rope(32)._spec
    torch.library.opcheck(torch.ops.gyre.attention.default, (*given, [], *none, *gates, None, None, 0, 0, rope, options))


def test_gates_beside_tables_and_sinks() -> None:
    """Each gradient arrives where it belongs."""
    t5 = gyre.t5(4)
    sums = [leaf(2, 4, 9), leaf(2, 4, 9)]
    given = [*inputs(), leaf(32, 4, dtype=torch.float32), leaf(4, dtype=torch.float32), *sums]
    doubles = [x.detach().double().requires_grad_() for x in given]

    def call(each: list[torch.Tensor]) -> torch.Tensor:
        gates = {"query_gate_sums": each[5], "key_gate_sums": each[6]}
        out: torch.Tensor = gt.attention(*each[:3], encoding=t5, causal=True, tables=each[3], sink_logits=each[4], **gates)
        return out

    q, k, v, table, sinks, queries, keys = doubles
    k, v = k.repeat_interleave(2, 1), v.repeat_interleave(2, 1)
    distance = (torch.arange(9)[:, None] - torch.arange(9)[None]).clamp(min=0)
    scores = q @ k.transpose(-1, -2) / math.sqrt(32) + table[distance].permute(2, 0, 1) + queries[..., None] - keys[..., None, :]
    scores = scores.masked_fill(torch.ones(9, 9, dtype=torch.bool).triu(1), -math.inf)
    more = torch.cat((scores, sinks[None, :, None, None].expand(2, 4, 9, 1)), -1)
    compare(call(given), more.softmax(-1)[..., :-1] @ v, given, doubles)


# -- PoPE --


def angles(numbers: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
    """[batch, heads, tokens, channels]; positions [axes, batch, tokens]."""
    return torch.einsum("abt,ahp->bhtp", positions.to(numbers.dtype), numbers)


def polar(x: torch.Tensor, f: torch.Tensor, positions: torch.Tensor, phases: torch.Tensor | None, pairs: str = "half") -> torch.Tensor:
    """The formula of PoPE's paper, phases clamped as in lucidrains/PoPE-pytorch."""
    at = angles(f, positions)
    if phases is not None:
        at = at + phases.clamp(-2 * math.pi, 0)[:, None]
    each = torch.polar(torch.logaddexp(x, torch.zeros_like(x)), at.expand_as(x))
    return torch.cat((each.real, each.imag), -1) if pairs == "half" else torch.view_as_real(each).flatten(-2)


@pytest.mark.parametrize("heads", [1, 3])
@pytest.mark.parametrize("pairs", ["half", "interleaved"])
def test_polar_coordinates_have_gradients(heads: int, pairs: str) -> None:
    x, f = leaf(2, 3, 4, 6), leaf(2, heads, 6)
    phases = (4 * torch.randn(heads, 6, dtype=torch.float64) - 3).requires_grad_()  # some past both bounds
    assert (phases > 0).any() and (phases < -2 * math.pi).any() and phases.clamp(-2 * math.pi, 0).eq(phases).any()
    at = torch.randint(-9, 9, (2, 2, 4))
    given = (x, f, phases)

    def found(x: torch.Tensor, f: torch.Tensor, phases: torch.Tensor) -> torch.Tensor:
        return gt.polar_rotate(x, f, at, phases=phases, pairs=pairs)

    out, wanted = found(*given), polar(x, f, at, phases, pairs)
    torch.testing.assert_close(out, wanted, rtol=1e-12, atol=1e-12)
    weights = torch.randn_like(out)
    for one, other in zip(torch.autograd.grad(out, given, weights), torch.autograd.grad(wanted, given, weights), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-11, atol=1e-11)
    assert torch.autograd.gradcheck(found, given)
    assert torch.autograd.gradcheck(lambda x, f: gt.polar_rotate(x.transpose(1, 2), f[:1], 5, layout="bshd"), (x, f))


def test_attention_over_polar_coordinates() -> None:
    """Scores of the paper, with grouped queries, in the gradient of all that is trained."""
    f = (10000.0 ** (-torch.arange(6) / 6)).view(1, 1, 6)
    given = [torch.randn(s, requires_grad=True) for s in ((1, 4, 9, 6), (1, 2, 9, 6), (1, 2, 9, 5), (2, 6))]
    doubles = [x.detach().double().requires_grad_() for x in given]
    q, k = gt.polar_rotate(given[0], f.double()), gt.polar_rotate(given[1], f.double(), phases=given[3])
    out = gt.attention(q, k, given[2], causal=True, scale=6**-0.5)
    q, k, v, phases = doubles
    k, v, phases = (x.repeat_interleave(2, -3 if x.dim() > 2 else 0) for x in (k, v, phases))
    at = torch.arange(9)[None, None]
    wide = [polar(x, f.double(), at, p).view(1, 4, 9, 2, 6) for x, p in ((q, None), (k, phases))]
    scores = torch.einsum("bhmrc,bhnrc->bhmn", *wide) / math.sqrt(6)
    scores = scores.masked_fill(torch.ones(9, 9, dtype=torch.bool).triu(1), -math.inf)
    compare(out, scores.softmax(-1) @ v, given, doubles)


def test_imaginary_heads() -> None:
    """RoPE++: attention over q and -1j q as heads that share keys is the softmax of both parts of a complex product."""
    d, tokens = 8, 7
    q, k, v = (torch.randn(1, h, tokens, d, requires_grad=True) for h in (4, 2, 2))
    rope = gyre.rope(d)
    heads = torch.stack((q, torch.cat((q[..., d // 2 :], -q[..., : d // 2]), -1)), 2).flatten(1, 2)
    out = gt.attention(heads, k, v, encoding=rope, causal=True)
    doubles = [x.detach().double().requires_grad_() for x in (q, k, v)]
    a, b = (torch.complex(x[..., : d // 2], x[..., d // 2 :]) for x in doubles[:2])
    angles = torch.outer(torch.arange(tokens, dtype=torch.float64), frequencies(rope))
    turned = torch.polar(torch.ones_like(angles), angles)
    products = (a * turned) @ (b * turned).repeat_interleave(2, 1).conj().transpose(-1, -2) / math.sqrt(d)
    scores = torch.stack((products.real, products.imag), 2).flatten(1, 2)
    hidden = torch.ones(tokens, tokens, dtype=torch.bool).triu(1)
    wanted = scores.masked_fill(hidden, -math.inf).softmax(-1) @ doubles[2].repeat_interleave(4, 1)
    compare(out, wanted, [q, k, v], doubles)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
def test_opcheck_polar_rotate(dtype: torch.dtype) -> None:
    x = torch.randn(2, 4, 3, 6).to(dtype).transpose(1, 2)
    f, phases = leaf(1, 3, 6), leaf(1, 6, dtype=torch.float32)
    operator = torch.ops.gyre.polar_rotate.default
    torch.library.opcheck(operator, (x.requires_grad_(), f, phases, torch.arange(4), 0, "half", "bhsd"))
    torch.library.opcheck(operator, (x, f.detach(), None, None, 3, "interleaved", "bhsd"))


# -- angles that tokens make --


def turned(x: torch.Tensor, angles: torch.Tensor) -> torch.Tensor:
    """Pairs in halves."""
    a, b = x.chunk(2, -1)
    return torch.cat((a * angles.cos() - b * angles.sin(), a * angles.sin() + b * angles.cos()), -1)


@pytest.mark.parametrize("heads", [1, 3])
def test_angles_have_gradients(heads: int) -> None:
    x, made = leaf(2, 3, 5, 8), leaf(2, heads, 5, 4)

    def found(x: torch.Tensor, made: torch.Tensor) -> torch.Tensor:
        return gt.angle_rotate(x, gt.gate_sums(made))

    out, wanted = found(x, made), turned(x, made.cumsum(2))
    torch.testing.assert_close(out, wanted, rtol=1e-12, atol=1e-12)
    weights = torch.randn_like(out)
    for one, other in zip(
        torch.autograd.grad(out, (x, made), weights), torch.autograd.grad(wanted, (x, made), weights), strict=True
    ):
        torch.testing.assert_close(one, other, rtol=1e-11, atol=1e-11)
    assert torch.autograd.gradcheck(found, (x, made))
    angles = made.detach()
    assert torch.autograd.gradgradcheck(lambda x: gt.angle_rotate(x, angles), (x,))
    apart = gt.angle_rotate(x.transpose(1, 2), angles[..., :3].transpose(1, 2), pairs="interleaved", first_channel=2, layout="bshd")
    part = turned(torch.cat((x[..., 2:8:2], x[..., 3:9:2]), -1), angles[..., :3])
    torch.testing.assert_close(apart[..., 2:8].transpose(1, 2), torch.stack(part.split(3, -1), -1).flatten(-2))


def test_selective_attention_is_that_of_the_formula() -> None:
    """Softmax attention whose pairs turn by what the tokens between query and key made, with grouped queries."""
    given = [torch.randn(s, requires_grad=True) for s in ((1, 4, 9, 8), (1, 2, 9, 8), (1, 2, 9, 5), (1, 1, 9, 4))]
    doubles = [x.detach().double().requires_grad_() for x in given]
    angles = gt.gate_sums(given[3])
    assert angles.dtype == torch.float64
    out = gt.attention(gt.angle_rotate(given[0], angles), gt.angle_rotate(given[1], angles), given[2], causal=True)
    q, k, v, made = doubles
    k, v = (x.repeat_interleave(2, 1) for x in (k, v))
    (a, b), (c, d) = q.chunk(2, -1), k.chunk(2, -1)
    sums = made.cumsum(2)
    between = sums[..., :, None, :] - sums[..., None, :, :]
    even = a[..., :, None, :] * c[..., None, :, :] + b[..., :, None, :] * d[..., None, :, :]
    odd = b[..., :, None, :] * c[..., None, :, :] - a[..., :, None, :] * d[..., None, :, :]
    scores = (even * between.cos() - odd * between.sin()).sum(-1) / math.sqrt(8)
    scores = scores.masked_fill(torch.ones(9, 9, dtype=torch.bool).triu(1), -math.inf)
    compare(out, scores.softmax(-1) @ v, given, doubles)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
def test_opcheck_angle_rotate(dtype: torch.dtype) -> None:
    x = torch.randn(2, 4, 3, 8).to(dtype).transpose(1, 2).requires_grad_()
    angles = leaf(2, 1, 4, 4, dtype=torch.float32)
    operator = torch.ops.gyre.angle_rotate.default
    torch.library.opcheck(operator, (x, angles, "half", 0, "bhsd", False))
    torch.library.opcheck(operator, (x, leaf(2, 3, 4, 3), "interleaved", 1, "bhsd", False))
    torch.library.opcheck(operator, (x, angles.detach(), "half", 0, "bhsd", True))
    with pytest.raises(gyre.Error, match="rotating back has no gradient"):
        operator(x, angles, "half", 0, "bhsd", True).sum().backward()
    torch.library.opcheck(
        torch.ops.gyre.gate_sums.default, (leaf(2, 3, 5, 4), None, torch.zeros(2, 3, 4, dtype=torch.float64), "bhsd", True)
    )


# -- FoPE --


def series(
    x: torch.Tensor, f: torch.Tensor, a: torch.Tensor, b: torch.Tensor, at: torch.Tensor, pairs: int, released: bool
) -> torch.Tensor:
    """The formula of FoPE's paper, of pairs in halves; the rest as its released code pads it, or still."""
    angle = at[:, None, :, None].to(f.dtype) * f
    c, s = torch.cos(angle) @ a, torch.sin(angle) @ b
    pad = (0, pairs - c.shape[-1])
    c, s = torch.nn.functional.pad(c, pad, value=1.0), torch.nn.functional.pad(s, pad, value=float(released))
    one, other, rest = x[..., :pairs], x[..., pairs : 2 * pairs], x[..., 2 * pairs :]
    return torch.cat((c * one - s * other, s * one + c * other, rest), -1)


@pytest.mark.parametrize("rest", ["still", "released"])
@pytest.mark.parametrize("heads", [1, 3])
def test_fourier_series_have_gradients(rest: str, heads: int) -> None:
    x, f, a, b = leaf(2, 3, 4, 12), leaf(5), leaf(heads, 5, 3), leaf(heads, 5, 3)
    at = torch.randint(-9, 9, (2, 4))
    given = (x, f, a, b)

    def found(*given: torch.Tensor) -> torch.Tensor:
        return gt.fourier_rotate(*given, at, all_pairs=5, rest=rest)

    out, wanted = found(*given), series(*given, at, 5, rest == "released")
    torch.testing.assert_close(out, wanted, rtol=1e-12, atol=1e-12)
    weights = torch.randn_like(out)
    for one, other in zip(torch.autograd.grad(out, given, weights), torch.autograd.grad(wanted, given, weights), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-11, atol=1e-11)
    assert torch.autograd.gradcheck(found, given)
    numbers = [one.detach() for one in given[1:]]
    assert torch.autograd.gradgradcheck(lambda x: found(x, *numbers), (x,))
    apart = gt.fourier_rotate(
        x.transpose(1, 2), *numbers, 3, pairs="interleaved", first_channel=2, layout="bshd"
    ).transpose(1, 2)
    part = torch.cat((x[..., 2:8:2], x[..., 3:9:2]), -1)
    moved = series(part, *numbers, 3 + torch.arange(4)[None], 3, False)
    torch.testing.assert_close(apart[..., 2:8], torch.stack(moved.split(3, -1), -1).flatten(-2))
    assert torch.equal(apart[..., :2], x[..., :2]) and torch.equal(apart[..., 8:], x[..., 8:])


def test_one_series_for_cosines_and_sines() -> None:
    x, f, a = leaf(1, 2, 4, 6), leaf(4), leaf(1, 4, 3)
    assert torch.autograd.gradcheck(lambda x, f, a: gt.fourier_rotate(x, f, a, a), (x, f, a))


def test_the_series_of_rope_is_a_rotation() -> None:
    rope, x = gyre.rope(8), torch.randn(1, 2, 5, 8)
    same = torch.eye(4, dtype=torch.float64)[None]
    torch.testing.assert_close(gt.fourier_rotate(x, frequencies(rope), same, same, 7), gt.rotate(x, rope, 7))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
def test_opcheck_fourier_rotate(dtype: torch.dtype) -> None:
    x = torch.randn(2, 4, 3, 12).to(dtype).transpose(1, 2).requires_grad_()
    numbers = [leaf(5), leaf(3, 5, 4), leaf(3, 5, 4, dtype=torch.float32)]
    operator = torch.ops.gyre.fourier_rotate.default
    torch.library.opcheck(operator, (x, *numbers, torch.arange(4), 0, "half", 6, "released", 0, "bhsd", False))
    bare = [one.detach() for one in numbers]
    torch.library.opcheck(operator, (x, *bare, None, 3, "interleaved", None, "still", 2, "bhsd", True))
    with pytest.raises(gyre.Error, match="rotating back has no gradient"):
        operator(x, *numbers, None, 0, "half", None, "still", 0, "bhsd", True).sum().backward()


# -- all of them --


@pytest.mark.parametrize("backend", ["aot_eager", pytest.param("inductor", marks=pytest.mark.slow)])
def test_compile_without_a_graph_break(backend: str) -> None:
    """A layer that trains gates, phases and series, for a length that changes."""

    def step(
        x: torch.Tensor, gate: torch.Tensor, f: torch.Tensor, phases: torch.Tensor, a: torch.Tensor, b: torch.Tensor
    ) -> torch.Tensor:
        sums = gt.gate_sums(torch.nn.functional.logsigmoid(x @ gate).transpose(1, 2))
        heads = x.unflatten(-1, (2, 8)).transpose(1, 2)
        q, k = gt.polar_rotate(heads, f), gt.polar_rotate(heads, f, phases=phases)
        v = gt.fourier_rotate(heads, f[0, 0, :3], a, b, 5, all_pairs=4)
        v = gt.trained_rotate(v, f[:, :, :2], phases=phases[:, :2])
        v = gt.angle_rotate(v, gt.gate_sums(heads[..., :3]))
        out: torch.Tensor = gt.attention(q, k, v, causal=True, scale=8**-0.5, query_gate_sums=sums, key_gate_sums=sums)
        return out.sin()

    given = [torch.randn(s, requires_grad=True) for s in ((16, 2), (1, 1, 8), (2, 8), (2, 3, 4), (2, 3, 4))]
    with torch.no_grad():
        given[2].clamp_(-3, -0.1)
    compiled = torch.compile(step, fullgraph=True, dynamic=True, backend=backend)
    for tokens in (5, 12):
        each = [torch.randn(2, tokens, 16, requires_grad=True), *given]
        out, right = compiled(*each), step(*each)
        torch.testing.assert_close(out, right)
        weights = torch.randn_like(out)
        for one, other in zip(torch.autograd.grad(out, each, weights), torch.autograd.grad(right, each, weights), strict=True):
            torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


def test_bad_arguments_are_named() -> None:
    x, f, phases, a = torch.randn(1, 2, 3, 8), torch.randn(1, 1, 8), torch.randn(1, 8), torch.randn(1, 3, 4)
    t, sums = torch.randn(3), torch.randn(1, 2, 3)
    calls: list[tuple[Callable[[], Any], str]] = [
        (lambda: gt.gate_sums([0.5]), "log_gates: is a list"),
        (lambda: gt.gate_sums(sums, layout=3), "layout: is 3"),
        (lambda: gt.gate_sums(sums, double="x"), "double: is 'x'"),
        (lambda: gt.gate_sums(sums, starts=[0, 3]), "starts: is a list"),
        (lambda: gt.gate_sums(sums, initial=leaf(1, 2)), "initial: requires a gradient"),
        (lambda: gt.attention(x, x, x, query_gate_sums=[1.0]), "query_gate_sums: is a list"),
        (lambda: gt.polar_rotate(x, [1.0]), "frequencies: is a list"),
        (lambda: gt.polar_rotate(x, f, pairs="thirds"), "pairs: is 'thirds', not one of 'half', 'interleaved'"),
        (lambda: gt.polar_rotate(x, f * math.nan), "frequencies: nan at"),
        (lambda: gt.fourier_rotate(x, t, a, None), "sines: is a NoneType"),
        (lambda: gt.fourier_rotate(x, t, a, a, rest="moving"), "rest: is 'moving', not one of 'still', 'released'"),
        (lambda: gt.fourier_rotate(x, t, a, a, all_pairs=1.5), "all_pairs: is 1.5"),
        (lambda: gt.trained_rotate(x, f, pairs=3), "pairs: is 3"),
        (lambda: gt.trained_rotate(x, f[..., :4], first_channel="x"), "first_channel: is 'x'"),
        (lambda: gt.polar_rotate(x, f, phases=phases, positions=2**70), "positions"),
    ]
    for call, text in calls:
        with pytest.raises(gyre.Error, match=text):
            call()


def test_meta_tensors_refuse_what_the_processor_refuses() -> None:
    def x(device: str, *shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        return torch.zeros(*shape, dtype=dtype, device=device)

    def at(device: str, *shape: int) -> torch.Tensor:
        return torch.zeros(*shape, dtype=torch.int64, device=device)

    def row(d: str) -> torch.Tensor:
        return x(d, 2, 3, 4, 8)

    def gates(d: str, *shapes: tuple[int, ...], dtype: torch.dtype = torch.float64) -> Any:
        named = zip(("query_gate_sums", "key_gate_sums"), shapes, strict=False)
        return gt.attention(row(d), row(d)[:, :1], row(d)[:, :1], **{n: x(d, *shape, dtype=dtype) for n, shape in named})

    right: list[Callable[[str], Any]] = [
        lambda d: gt.gate_sums(x(d, 2, 3, 4)),
        lambda d: gates(d, (2, 3, 4), (2, 3, 4)),
        lambda d: gates(d, (2, 3, 4), (2, 3, 4), dtype=torch.float32),
        lambda d: gt.polar_rotate(row(d), x(d, 2, 3, 8), at(d, 2, 2, 4), phases=x(d, 1, 8)),
        lambda d: gt.trained_rotate(row(d), x(d, 1, 1, 3), at(d, 4), phases=x(d, 3, 3), first_channel=2),
        lambda d: gt.gate_sums(x(d, 2, 3, 4, 5)),
        lambda d: gt.angle_rotate(row(d), x(d, 2, 1, 4, 3), first_channel=2),
        lambda d: gt.angle_rotate(row(d), x(d, 2, 3, 4, 4, dtype=torch.float64)),
        lambda d: gt.fourier_rotate(row(d), x(d, 5), x(d, 1, 5, 2), x(d, 1, 5, 2), at(d, 2, 4), all_pairs=4),
    ]
    for i, call in enumerate(right):
        assert both_ways(call) == [None, None], i
    wrong: list[Callable[[str], Any]] = [
        lambda d: gt.gate_sums(x(d, 2, 3, 4, dtype=torch.int32)),
        lambda d: gt.gate_sums(x(d, 2, 3, 4, 5), layout="thd"),
        lambda d: gt.gate_sums(x(d, 2, 3, 4), layout="bhxd"),
        lambda d: gates(d, (2, 3, 4)),
        lambda d: gates(d, (2, 1, 4), (2, 3, 4)),
        lambda d: gates(d, (2, 3, 4), (2, 1, 4)),
        lambda d: gates(d, (2, 3, 4, 1), (2, 3, 4)),
        lambda d: gates(d, (2, 3, 4), (2, 3, 4), dtype=torch.float16),
        lambda d: gt.polar_rotate(row(d), x(d, 3, 8)),
        lambda d: gt.polar_rotate(row(d), x(d, 1, 2, 8)),
        lambda d: gt.polar_rotate(row(d), x(d, 1, 1, 4)),
        lambda d: gt.polar_rotate(row(d), x(d, 5, 1, 8)),
        lambda d: gt.polar_rotate(row(d), x(d, 1, 1, 8), phases=x(d, 8)),
        lambda d: gt.polar_rotate(row(d), x(d, 1, 1, 8), phases=x(d, 1, 7)),
        lambda d: gt.polar_rotate(row(d), x(d, 1, 1, 8), at(d, 3)),
        lambda d: gt.polar_rotate(row(d), x(d, 1, 1, 8, dtype=torch.float16)),
        lambda d: gt.polar_rotate(x(d, 2, 3, 4, 8, dtype=torch.int32), x(d, 1, 1, 8)),
        lambda d: gt.trained_rotate(row(d), x(d, 1, 1, 5)),
        lambda d: gt.trained_rotate(row(d), x(d, 1, 1, 4), first_channel=1),
        lambda d: gt.trained_rotate(row(d), x(d, 1, 1, 4), first_channel=-1),
        lambda d: gt.trained_rotate(row(d), x(d, 1, 1, 4), layout="bhsx"),
        lambda d: gt.angle_rotate(row(d), x(d, 2, 3, 4)),
        lambda d: gt.angle_rotate(row(d), x(d, 2, 3, 4, 5)),
        lambda d: gt.angle_rotate(row(d), x(d, 2, 3, 4, 4), first_channel=1),
        lambda d: gt.angle_rotate(row(d), x(d, 2, 2, 4, 4)),
        lambda d: gt.angle_rotate(row(d), x(d, 1, 3, 4, 4)),
        lambda d: gt.angle_rotate(row(d), x(d, 2, 3, 4, 4, dtype=torch.float16)),
        lambda d: gt.fourier_rotate(row(d), x(d, 1, 5), x(d, 1, 5, 2), x(d, 1, 5, 2)),
        lambda d: gt.fourier_rotate(row(d), x(d, 5), x(d, 1, 4, 2), x(d, 1, 5, 2)),
        lambda d: gt.fourier_rotate(row(d), x(d, 5), x(d, 1, 5, 2), x(d, 1, 5, 3)),
        lambda d: gt.fourier_rotate(row(d), x(d, 5), x(d, 2, 5, 2), x(d, 2, 5, 2)),
        lambda d: gt.fourier_rotate(row(d), x(d, 5), x(d, 1, 5, 2), x(d, 1, 5, 2), all_pairs=1),
        lambda d: gt.fourier_rotate(row(d), x(d, 5), x(d, 1, 5, 2), x(d, 1, 5, 2), all_pairs=5),
        lambda d: gt.fourier_rotate(row(d), x(d, 5), x(d, 1, 5, 2), x(d, 1, 5, 2), first_channel=5),
        lambda d: gt.fourier_rotate(row(d), x(d, 5), x(d, 1, 5, 2), x(d, 1, 5, 2), at(d, 2, 2, 4)),
    ]
    for i, call in enumerate(wrong):
        fields = both_ways(call)
        assert fields[0] is not None and fields[0] == fields[1], (i, fields)


def test_tensors_of_two_devices_are_refused() -> None:
    x, f, t, a, sums = (torch.zeros(s) for s in ((1, 2, 3, 8), (1, 1, 8), (3,), (1, 3, 4), (1, 2, 3)))
    cases: list[tuple[Callable[[], Any], str]] = [
        (lambda: gt.polar_rotate(x, f.to("meta")), "frequencies"),
        (lambda: gt.polar_rotate(x.to("meta"), f), "x"),
        (lambda: gt.trained_rotate(x, f[..., :4], phases=f[0, :, :4].to("meta")), "phases"),
        (lambda: gt.fourier_rotate(x, t, a, a.to("meta")), "sines"),
        (lambda: gt.gate_sums(sums, initial=torch.zeros(1, 2, device="meta")), "initial"),
        (lambda: gt.attention(x, x, x, query_gate_sums=sums, key_gate_sums=sums.to("meta")), "key_gate_sums"),
    ]
    for call, field in cases:
        with pytest.raises(gyre.Error, match=f"{field}: is on meta, but .* is on cpu: pass both on one device"):
            call()


def test_forward_mode_is_refused() -> None:
    x, f, t, a, sums = (torch.randn(s) for s in ((1, 2, 3, 8), (1, 1, 8), (3,), (1, 3, 4), (1, 2, 3)))
    with torch.autograd.forward_ad.dual_level():

        def dual(x: torch.Tensor) -> torch.Tensor:
            return torch.autograd.forward_ad.make_dual(x, torch.ones_like(x))

        cases: list[tuple[Callable[[], Any], str]] = [
            (lambda: gt.gate_sums(dual(sums)), "log_gates"),
            (lambda: gt.attention(x, x, x, query_gate_sums=sums, key_gate_sums=dual(sums)), "key_gate_sums"),
            (lambda: gt.polar_rotate(x, dual(f)), "frequencies"),
            (lambda: gt.polar_rotate(x, f, phases=dual(f[0])), "phases"),
            (lambda: gt.trained_rotate(x, f[..., :4], phases=dual(f[0, :, :4])), "phases"),
            (lambda: gt.fourier_rotate(x, t, dual(a), a), "cosines"),
        ]
        for call, field in cases:
            with pytest.raises(gyre.Error, match=f"{field}: has a forward-mode tangent"):
                call()
