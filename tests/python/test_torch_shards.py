"""Context parallelism in torch: merge, gradients through log-sum-exps, and attention over shards, against one attention over
all keys and against formulas in double."""

from __future__ import annotations

import math
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import gyre
import gyre.torch as gt
import pytest
import torch

ROOT = Path(__file__).parent.parent.parent
ROPE = gyre.rope(16)


def seen(queries: torch.Tensor, keys: torch.Tensor, *, causal: bool = False, window: Any = None, sinks: int = 0) -> torch.Tensor:
    """[queries, keys], of positions: by the definitions of gyre.attention."""
    apart = queries[:, None] - keys[None, :]
    before, after = window if isinstance(window, tuple) else (window, window)
    visible = torch.ones_like(apart, dtype=torch.bool)
    if before:
        visible &= apart < before
    if after:
        visible &= -apart < after
    visible |= (keys < sinks)[None, :]
    return visible & (apart >= 0) if causal else visible


def formula(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, visible: torch.Tensor, sink: torch.Tensor | None = None, bias: Any = 0) -> Any:
    """(out, lse) in double, [batch, heads, tokens, channels]; rows that see nothing are zeros and -inf."""
    group = q.shape[1] // k.shape[1]
    k, v = (x.repeat_interleave(group, 1) for x in (k, v))
    scores = (q @ k.mT * q.shape[-1] ** -0.5 + bias).masked_fill(~visible, -math.inf)
    if sink is not None:
        scores = torch.cat((scores, sink[None, :, None, None].expand(*scores.shape[:-1], 1)), -1)
    lse = scores.logsumexp(-1)
    weights = (scores - lse.masked_fill(lse == -math.inf, 0).unsqueeze(-1)).exp()
    return weights[..., : k.shape[-2]] @ v, lse


def numbers(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed + sum(shape)), dtype=torch.float64).to(dtype)


def alike(got: Any, wanted: Any, bound: float = 2e-5) -> None:
    for a, b in zip(got, wanted, strict=True):
        torch.testing.assert_close(a.double(), b.double(), rtol=bound, atol=bound)


# -- merge --


def test_merge_has_gradients_of_any_order_in_double() -> None:
    outs = [numbers(1, 2, 3, 4, seed=i, dtype=torch.float64).requires_grad_() for i in range(3)]
    sums = [numbers(1, 2, 3, seed=i, dtype=torch.float64).requires_grad_() for i in range(3)]

    def merged(*given: torch.Tensor) -> Any:
        return gt.merge(given[:3], given[3:])

    assert torch.autograd.gradcheck(merged, (*outs, *sums))
    assert torch.autograd.gradgradcheck(merged, (*outs, *sums))
    out, lse = merged(*outs, *sums)
    torch.testing.assert_close(lse, torch.stack(sums).logsumexp(0))
    weights = torch.stack(sums).softmax(0).unsqueeze(-1)
    torch.testing.assert_close(out, (weights * torch.stack(outs)).sum(0))


def test_merge_of_formulas_over_any_split_of_keys() -> None:
    """In double, values and gradients: unequal parts, an empty one, rows that a part or all parts do not see."""
    q, k, v = (numbers(2, heads, tokens, 8, seed=3, dtype=torch.float64).requires_grad_() for heads, tokens in ((4, 6), (2, 11), (2, 11)))
    at, to = torch.arange(6) * 2 - 3, torch.arange(11)  # the first two queries are before all keys
    visible = seen(at, to, causal=True, window=5)
    whole = formula(q, k, v, visible)
    assert (whole[1] == -math.inf).any()
    given = numbers(2, 4, 6, 8, dtype=torch.float64), numbers(2, 4, 6, dtype=torch.float64)
    finite = whole[1] > -math.inf
    wanted = torch.autograd.grad((whole[0] * given[0]).sum() + (whole[1][finite] * given[1][finite]).sum(), (q, k, v))
    for split in ([11], [1, 10], [4, 0, 7], [0, 11], [3, 5, 2, 1]):
        parts, begin = [], 0
        for count in split:
            end = begin + count
            parts.append(formula(q, k[:, :, begin:end], v[:, :, begin:end], visible[:, begin:end]))
            begin = end
        out, lse = gt.merge([one[0] for one in parts], [one[1] for one in parts])
        torch.testing.assert_close(out, whole[0])
        torch.testing.assert_close(lse, whole[1])
        got = torch.autograd.grad((out * given[0]).sum() + (lse[finite] * given[1][finite]).sum(), (q, k, v))
        alike(got, wanted, 1e-12)


def test_merge_takes_layouts_types_and_numbers_nobody_wrote() -> None:
    out, lse = numbers(2, 5, 3, 4).half(), numbers(2, 5, 3)  # bshd, as flash-attention has it
    empty = torch.full_like(out, math.nan), torch.full_like(lse, -math.inf)
    got = gt.merge([out, empty[0]], [lse, empty[1]], layout="bshd")
    assert torch.equal(got[0], out) and got[0].dtype == torch.float16 and torch.equal(got[1], lse)
    none = gt.merge(torch.stack([empty[0]] * 2), torch.stack([empty[1]] * 2), layout="bshd")
    assert (none[0] == 0).all() and (none[1] == -math.inf).all()
    x = numbers(2, 3, 4, seed=1).requires_grad_()
    gt.merge([x, x], [torch.zeros(2, 3), torch.full((2, 3), -math.inf)])[0].sum().backward()
    assert torch.equal(x.grad, torch.ones_like(x))
    large = gt.merge([out, out], [lse + 3e4, lse + 3e4], layout="bshd")
    assert large[0].isfinite().all() and torch.allclose(large[1], lse + 3e4 + math.log(2))
    compiled = torch.compile(lambda out, lse: gt.merge([out, out * 2], [lse, lse + 1], layout="bshd"), fullgraph=True, backend="eager")
    alike(compiled(out.float(), lse), gt.merge([out.float(), out.float() * 2], [lse, lse + 1], layout="bshd"))


def test_merge_refuses() -> None:
    out, lse = numbers(2, 3, 4), numbers(2, 3)
    for given, text in (
        (([out], []), "lse: of 0 parts, but out of 1"),
        (([], []), "lse: of 0 parts"),
        (([out, out[:1]], [lse, lse]), "out: part 1 has shape"),
        (([out], [lse.T]), "lse: part 0 has shape"),
        (([out], [0.5]), r"lse\[0\]: is a float"),
        (([out[0]], [lse]), "layout 'bhsd'|has 2 axes"),
        ((None, [lse]), "out: is a NoneType, not a list of tensors"),
        (([out], torch.tensor(0.5)), "lse: is a tensor without axes"),
        (([out, out.to(torch.complex64)], [lse, lse]), r"out\[1\]: is of type complex64"),
        (([out], [lse.int()]), r"lse\[0\]: is of type int32"),
    ):
        with pytest.raises(gyre.Error, match=text):
            gt.merge(*given)


# -- gradients through lse --

CASES: dict[str, dict[str, Any]] = {
    "all": {},
    "causal": {"causal": True},
    "window": {"causal": True, "window": 3},
    "two sides": {"window": (3, 2)},
    "sinks": {"causal": True, "window": 2, "sinks": 2},
    "sees nothing": {"causal": True, "positions": torch.arange(7) - 2, "key_positions": torch.arange(7)},
}


@pytest.mark.parametrize("sink", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_lse_has_gradients(name: str, sink: bool) -> None:
    options = dict(CASES[name])
    q, k, v = (numbers(2, heads, 7, 8, seed=heads).requires_grad_() for heads in (4, 2, 2))
    logits = numbers(4).requires_grad_() if sink else None
    leaves = [x for x in (q, k, v, logits) if x is not None]
    out, lse = gt.attention(q, k, v, sink_logits=logits, lse=True, **options)
    rules = {key: options[key] for key in ("causal", "window", "sinks") if key in options}
    at = options.get("positions", torch.arange(7))
    wide = [x.detach().double().requires_grad_() for x in leaves]
    wanted = formula(*wide[:3], seen(at, torch.arange(7), **rules), wide[3] if sink else None)
    alike((out.detach(), lse.detach()), [x.detach() for x in wanted])
    given, finite = (numbers(2, 4, 7, 8, seed=5), numbers(2, 4, 7, seed=6)), wanted[1] > -math.inf

    def slopes(found: Any, of: Any, with_out: bool) -> Any:
        loss = (found[1] * given[1].to(found[1].dtype))[finite].sum()
        return torch.autograd.grad(loss + ((found[0] * given[0].to(found[0].dtype)).sum() if with_out else 0), of, retain_graph=True, allow_unused=True)

    for with_out in (True, False):
        alike([x for x in slopes((out, lse), leaves, with_out)], [torch.zeros_like(y) if x is None else x for x, y in zip(slopes(wanted, wide, with_out), wide, strict=True)])


def test_lse_has_gradients_to_a_trained_table_and_bfloat16() -> None:
    t5, table = gyre.t5(4), numbers(32, 4).requires_grad_()
    q, k, v = (numbers(1, 4, 9, 8, seed=i).requires_grad_() for i in range(3))
    _, lse = gt.attention(q, k, v, encoding=t5, causal=True, tables=table, lse=True)
    given = numbers(1, 4, 9)
    got = torch.autograd.grad((lse * given).sum(), (q, k, table))
    wide = [x.detach().double().requires_grad_() for x in (q, k, v, table)]
    bias = gt.bias(t5, 9, tables=wide[3], double=True)
    _, wanted = formula(*wide[:3], seen(torch.arange(9), torch.arange(9), causal=True), bias=bias)
    alike(got, torch.autograd.grad((wanted * given).sum(), (wide[0], wide[1], wide[3])))
    short = [x.detach().bfloat16().requires_grad_() for x in (q, k, v)]
    _, lse = gt.attention(*short, encoding=t5, causal=True, tables=table, lse=True)
    alike(torch.autograd.grad((lse * given).sum(), short[:2]), got[:2], 0.03)


def test_attention_with_gradients_of_lse_is_an_operator() -> None:
    q, k, v = (numbers(1, 2, 4, 8, seed=i).requires_grad_() for i in range(3))

    def step(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        out, lse = gt.attention(q, k, v, causal=True, lse=True)
        return out.sum() + lse.square().sum()

    wanted = torch.autograd.grad(step(q, k, v), (q, k, v))
    torch._dynamo.reset()
    compiled = torch.compile(step, fullgraph=True, backend="aot_eager")
    alike(torch.autograd.grad(compiled(q, k, v), (q, k, v)), wanted, 1e-6)
    given = torch.ones(1, 2, 4), numbers(1, 2, 4)
    out, lse = gyre.attention(*(x.detach() for x in (q, k, v)), lse=True)
    with pytest.raises(gyre.Error, match="dlse: "):
        gyre.attention_gradient(torch.ones_like(out), *(x.detach() for x in (q, k, v)), out, lse, dlse=given[0][:, :1])
    zero = gyre.attention_gradient(torch.zeros_like(out), *(x.detach() for x in (q, k, v)), out, lse, dlse=given[1])
    once = gyre.attention_gradient(torch.zeros_like(out), *(x.detach() for x in (q, k, v)), out, lse)
    assert zero[0].abs().sum() > 0 and (zero[2] == 0).all() and (once[0] == 0).all()


# -- attention over shards --


def over_shards(q: Any, k: Any, v: Any, shards: gyre.Shards, layout: str, **options: Any) -> Any:
    """(out, lse) of the whole, from the calls of all ranks."""
    axis, index = layout.replace("t", "s").index("s"), [torch.from_numpy(shard.index) for shard in shards]
    keys, values = ([x.index_select(axis, at) for at in index] for x in (k, v))
    found = [
        gt.shard_attention(q.index_select(axis, at), keys, values, shards, rank, layout=layout, lse=True, **options)
        for rank, at in enumerate(index)
    ]
    back = torch.cat(index).argsort()
    rows = layout.replace("d", "").replace("t", "s").index("s")
    return torch.cat([one[0] for one in found], axis).index_select(axis, back), torch.cat([one[1] for one in found], rows).index_select(rows, back)


OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "causal": {"causal": True, "encoding": ROPE},
    "window": {"causal": True, "encoding": ROPE, "window": 4},
    "sinks": {"causal": True, "window": (3, 0), "sinks": 2, "softcap": 5.0},
    "sink logits": {"causal": True, "sink_logits": numbers(4, seed=9)},
    "alibi": {"causal": True, "encoding": gyre.alibi(4)},
    "dynamic": {"causal": True, "encoding": gyre.rope(16, scaling="dynamic", factor=2.0, trained_length=8)},
}


@pytest.mark.parametrize("layout", ["contiguous", "zigzag", "striped"])
@pytest.mark.parametrize("name", OPTIONS)
def test_shards_are_one_attention(name: str, layout: str) -> None:
    """Shards of unequal sizes: 3 ranks of 13 tokens; some are empty: 7 ranks of 5."""
    for tokens, ranks in ((13, 3), (5, 7), (6, 1)):
        shards = gyre.Shards(tokens, ranks=ranks, layout=layout)
        sizes = [shard.tokens for shard in shards]
        assert sum(sizes) == tokens and (ranks == 1 or len(set(sizes)) > 1)
        q, k, v = (numbers(2, heads, tokens, 16, seed=heads).requires_grad_() for heads in (4, 2, 2))
        given = numbers(2, 4, tokens, 16, seed=1), numbers(2, 4, tokens, seed=2)
        length = {"length": tokens} if name == "dynamic" else {}
        sink = OPTIONS[name].get("sink_logits")
        leaves = [q, k, v] + ([] if sink is None else [sink.clone().requires_grad_()])
        more = {} if sink is None else {"sink_logits": leaves[3]}
        whole = gt.attention(q, k, v, lse=True, **{**OPTIONS[name], **length, **more})
        parts = over_shards(q, k, v, shards, "bhsd", **{**OPTIONS[name], **more})
        alike(parts, whole, 3e-6)
        slopes = [torch.autograd.grad((one[0] * given[0]).sum() + (one[1] * given[1]).sum(), leaves) for one in (parts, whole)]
        alike(*slopes)


def test_shards_of_packed_and_padded_batches() -> None:
    for batch, layout, shape in (
        (gyre.Batch([5, 1, 8], row_tokens=16), "thd", (16,)),
        (gyre.Batch([5, 9, 2], form="padded_right"), "bhsd", (3, 9)),
        (gyre.Batch([5, 9, 2], form="padded_left"), "bshd", (3, 9)),
    ):
        heads = [4, 2, 2]
        orders = {"thd": lambda h: (*shape, h, 16), "bhsd": lambda h: (3, h, 9, 16), "bshd": lambda h: (3, 9, h, 16)}
        q, k, v = (numbers(*orders[layout](h), seed=h).requires_grad_() for h in heads)
        arguments = {name: torch.from_numpy(one) for name, one in batch.arguments.items()}
        options = {"causal": True, "encoding": ROPE, "window": 6}
        whole = gt.attention(q, k, v, lse=True, layout=layout, **arguments, **options)
        real = torch.from_numpy(batch.order >= 0)
        for kind in ("zigzag", "contiguous", "striped"):
            parts = over_shards(q, k, v, gyre.Shards(batch, ranks=3, layout=kind), layout, **options)
            keep = real[0] if layout == "thd" else real if layout == "bshd" else real[:, None].expand(3, 4, 9)
            alike((parts[0][keep], parts[1][keep]), (whole[0][keep], whole[1][keep]), 3e-6)
            wide = keep.reshape(*keep.shape, *[1] * (whole[0].dim() - keep.dim()))
            given = numbers(*whole[0].shape, seed=4) * wide
            alike(*(torch.autograd.grad((one[0] * given).sum(), (q, k, v), retain_graph=True) for one in (parts, whole)))


def test_shards_refuse() -> None:
    shards = gyre.Shards(8, ranks=2)
    q, k = numbers(1, 2, 4, 16), numbers(1, 2, 4, 16)
    both = [k, k]
    for call, text in (
        (lambda: gt.shard_attention(q, both, both, shards), "rank: is None"),
        (lambda: gt.shard_attention(q, both, both, shards, 2), "rank: is 2, not 0 .. 1"),
        (lambda: gt.shard_attention(q[:, :, :3], both, both, shards, 0), "q: has 3 tokens, but shard 0 has 4"),
        (lambda: gt.shard_attention(q, both[:1], both, shards, 0), "k: 1 tensors, and v 2"),
        (lambda: gt.shard_attention(q, [k, k[:, :, :3]], both, shards, 0), "k: has 3 tokens, but shard 1 has 4"),
        (lambda: gt.shard_attention(q, k, k, shards, 0), "shards: of 2 ranks, but the group has 1"),
        (lambda: gt.shard_attention(q, both, both, shards, 0, causal="order"), "causal: 'order'"),
        (lambda: gt.shard_attention(q, k, both, shards, 0), "v: is a list"),
        (lambda: gt.shard_attention(q, None, None, shards, 0), "k: is a NoneType, not a tensor, or a list"),
        (lambda: gt.shard_attention(q, (x for x in both), both, shards, 0), "k: is a generator"),
        (lambda: gt.shard_attention(q, [k, k[0, 0]], both, shards, 0), "k: has 2 axes"),
        (lambda: gt.shard_attention(q, both, [k, k.int()], shards, 0), "v: is of type int32"),
        (lambda: gt.shard_attention(q, both, both, None, 0), "shards: is a NoneType, not gyre.Shards"),
        (lambda: gt.shard_attention(q, both, both, shards, 0, layout="bhxd"), "layout: is 'bhxd'"),
        (lambda: gt.shard_attention(q, both, both, shards, 0, sink_logits=q[0, 0, 0]), r"sink_logits: has shape \[16\], not \[2\]"),
    ):
        with pytest.raises(gyre.Error, match=text):
            call()


PROGRAM = '''
if dist.get_rank() == 0:
    torch.save([weight.grad for weight in project.parameters()], "gradients.pt")
parts = [None] * dist.get_world_size()
dist.all_gather_object(parts, (mine.index, out.detach()))
if dist.get_rank() == 0:
    torch.save(parts, "parts.pt")
dist.destroy_process_group()
'''


@pytest.mark.parametrize("processes", [1, 3])
def test_the_program_of_the_page_over_several_processes(processes: int, tmp_path: Path) -> None:
    """docs/torch.md: each process has its shard; out and the summed gradients are those of one process with all tokens."""
    page = (ROOT / "docs/torch.md").read_text()
    section = page[page.index("## Context parallelism") :]
    block = re.search(r"```python\n(.*?)```", section, re.S)
    assert block and block[1].rstrip().endswith("dist.destroy_process_group()")
    (tmp_path / "program.py").write_text(block[1].replace("dist.destroy_process_group()\n", "") + PROGRAM)
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "GYRE_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}", "program.py"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=1800, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    parts = torch.load(tmp_path / "parts.pt", weights_only=False)
    torch.manual_seed(0)
    x, project = torch.randn(1, 1000, 64), torch.nn.Linear(64, 3 * 64)
    q, k, v = project(x).unflatten(-1, (3, 4, 16)).permute(2, 0, 3, 1, 4)
    whole = gt.attention(q, k, v, encoding=ROPE, causal=True)
    assert len(parts) == processes and sum(len(index) for index, _ in parts) == 1000
    for index, out in parts:
        torch.testing.assert_close(out, whole.detach()[:, :, torch.from_numpy(index)], rtol=1e-5, atol=1e-5)
    whole.square().sum().backward()
    for got, weight in zip(torch.load(tmp_path / "gradients.pt"), project.parameters(), strict=True):
        torch.testing.assert_close(got, weight.grad, rtol=1e-4, atol=1e-3)
