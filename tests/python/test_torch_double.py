"""gyre.torch.attention of float64 tensors: values and gradients are those of torch's autograd over the formulas, in double."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import gyre
import gyre.torch as gt
import pytest
import torch

HEADS, KEY_HEADS, QUERIES, KEYS, DIM = 4, 2, 5, 7, 6
FIRST = KEYS - QUERIES  # the position of query 0
Tables = dict[str, torch.Tensor]


def distances() -> torch.Tensor:
    """Of each query to each key: m - n."""
    return torch.arange(FIRST, KEYS)[:, None] - torch.arange(KEYS)[None, :]


def products(q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
    return torch.einsum("bhmd,bhnd->bhmn", q, k)


def rotated(x: torch.Tensor, first: int) -> torch.Tensor:
    """RoPE, halves: transformers' llama."""
    half = x.shape[-1] // 2
    inv_freq = 10000.0 ** (-torch.arange(half, dtype=torch.float64) / half)
    angles = torch.arange(first, first + x.shape[-2], dtype=torch.float64)[:, None] * inv_freq
    a, b = x[..., :half], x[..., half:]
    return torch.cat((a * angles.cos() - b * angles.sin(), b * angles.cos() + a * angles.sin()), -1)


def rope(q: torch.Tensor, k: torch.Tensor, tables: Tables) -> torch.Tensor:
    return products(rotated(q, FIRST), rotated(k, 0)) / math.sqrt(DIM)


def plain(q: torch.Tensor, k: torch.Tensor, tables: Tables) -> torch.Tensor:
    return products(q, k) / math.sqrt(DIM)


def alibi(q: torch.Tensor, k: torch.Tensor, tables: Tables) -> torch.Tensor:
    slopes = 2.0 ** (-8 * torch.arange(1, HEADS + 1, dtype=torch.float64) / HEADS)
    return plain(q, k, tables) - slopes[:, None, None] * distances().abs()


def kerple(q: torch.Tensor, k: torch.Tensor, tables: Tables) -> torch.Tensor:
    r1, r2 = (row[:, None, None] for row in tables["bias"].reshape(2, HEADS))
    return plain(q, k, tables) - r1 * torch.log1p(r2 * distances().abs())


def t5(q: torch.Tensor, k: torch.Tensor, tables: Tables) -> torch.Tensor:
    """Distances below half of the buckets have one each."""
    return plain(q, k, tables) + tables["bias"].reshape(-1, HEADS)[distances().clamp(0)].permute(2, 0, 1)


def shaw_rows(tables: Tables, name: str) -> torch.Tensor:
    return tables[name].reshape(5, DIM)[(-distances()).clamp(-2, 2) + 2]


def shaw(q: torch.Tensor, k: torch.Tensor, tables: Tables) -> torch.Tensor:
    return plain(q, k, tables) + torch.einsum("bhmd,mnd->bhmn", q, shaw_rows(tables, "query")) / math.sqrt(DIM)


ENCODINGS: dict[str, tuple[gyre.Encoding | None, Callable[..., torch.Tensor]]] = {
    "none": (None, plain),
    "rope": (gyre.rope(DIM), rope),
    "alibi": (gyre.alibi(HEADS), alibi),
    "kerple": (gyre.kerple(HEADS), kerple),
    "t5": (gyre.t5(HEADS, buckets=16), t5),
    "shaw": (gyre.shaw(DIM, max_distance=2), shaw),
}


def tables_of(encoding: gyre.Encoding | None) -> Tables:
    shapes = encoding.table_shapes if encoding else {}
    return {name: (0.2 + torch.rand(shape, dtype=torch.float64)).requires_grad_() for name, shape in shapes.items()}


def by_formulas(name: str, x: list[torch.Tensor], tables: Tables, sink: torch.Tensor, **options: Any) -> torch.Tensor:
    q, k, v = x[0], *(one.repeat_interleave(HEADS // KEY_HEADS, 1) for one in x[1:])
    scores = ENCODINGS[name][1](q, k, tables)
    if options.get("softcap"):
        scores = options["softcap"] * torch.tanh(scores / options["softcap"])
    if options.get("mask") is not None:
        scores = scores + options["mask"]
    if options.get("causal"):
        scores = scores.masked_fill(distances() < 0, -math.inf)
    logits = torch.cat((scores, sink[None, :, None, None].expand(*scores.shape[:3], 1)), -1)
    weights = logits.softmax(-1)[..., :-1]
    out = torch.einsum("bhmn,bhnd->bhmd", weights, v)
    if name == "shaw":
        out = out + torch.einsum("bhmn,mnd->bhmd", weights, shaw_rows(tables, "value"))
    return out


def inputs() -> list[torch.Tensor]:
    torch.manual_seed(3)
    shapes = ((2, HEADS, QUERIES), (2, KEY_HEADS, KEYS), (2, KEY_HEADS, KEYS))
    return [torch.randn(*shape, DIM, dtype=torch.float64, requires_grad=True) for shape in shapes]


OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "causal": {"causal": True},
    "softcap": {"softcap": 1.5, "causal": True},
    "mask": {"mask": 0.5 * torch.arange(QUERIES * KEYS, dtype=torch.float64).reshape(QUERIES, KEYS).sin()},
}


@pytest.mark.parametrize("options", list(OPTIONS))
@pytest.mark.parametrize("name", list(ENCODINGS))
def test_values_and_gradients_are_those_of_autograd(name: str, options: str) -> None:
    x, sink = inputs(), torch.randn(HEADS, dtype=torch.float64, requires_grad=True)
    encoding = ENCODINGS[name][0]
    tables = tables_of(encoding)
    given = OPTIONS[options]
    wanted = by_formulas(name, x, tables, sink, **given)
    found = gt.attention(*x, encoding=encoding, tables=tables or None, sink_logits=sink, **given)
    assert found.dtype == torch.float64
    torch.testing.assert_close(found, wanted, rtol=1e-12, atol=1e-12)
    trained = [*x, sink, *tables.values()]
    dout = torch.randn_like(wanted)
    for a, b in zip(torch.autograd.grad(found, trained, dout), torch.autograd.grad(wanted, trained, dout), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("name", list(ENCODINGS))
def test_gradcheck(name: str) -> None:
    encoding = ENCODINGS[name][0]
    tables = tables_of(encoding)

    def call(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *each: torch.Tensor) -> Any:
        given = dict(zip(tables, each, strict=True)) or None
        return gt.attention(q, k, v, encoding=encoding, tables=given, causal=True, lse=True)

    assert torch.autograd.gradcheck(call, (*inputs(), *tables.values()), eps=1e-5, atol=1e-8, rtol=1e-8)


def test_compiles_as_it_runs() -> None:
    x, encoding = inputs(), gyre.rope(DIM)
    call = torch.compile(lambda q, k, v: gt.attention(q, k, v, encoding=encoding, lse=True), backend="eager", fullgraph=True)
    for found, wanted in zip(call(*x), gt.attention(*x, encoding=encoding, lse=True), strict=True):
        assert found.dtype == torch.float64
        assert torch.equal(found, wanted)


def test_types_are_not_mixed() -> None:
    q, k, v = (x.detach() for x in inputs())
    with pytest.raises(gyre.Error, match="k: is of type float32, not float64 as q"):
        gt.attention(q, k.float(), v)
    with pytest.raises(gyre.Error, match="k: is of type float64, not float16, bfloat16 or float32"):
        gt.attention(q.float(), k, v)
