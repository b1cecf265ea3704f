"""Attention over a batch that ranks of a group share, and the sum of attentions over some keys each.

The rows of a part are out and lse.  Both have gradients, so the sum of parts is a few operations of torch, and autograd leads
from the loss back to each part.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
import torch.distributed
from torch import Tensor

from gyre._encoding import Encoding
from gyre._errors import Error
from gyre._guesses import named
from gyre._positions import Shard, Shards
from gyre.torch._attention import attention
from gyre.torch._specs import REAL, SHORT_REAL, check_device, check_layout, check_rows, check_tensor, depends_on_length, tensor, whole

_distributed: Any = torch.distributed  # its functions have types in some builds


# -- the sum of parts --


def _parts(parts: Any, name: str) -> list[Any]:
    if not isinstance(parts, (Tensor, Sequence)) or (isinstance(parts, Tensor) and parts.dim() == 0):
        what = "tensor without axes" if isinstance(parts, Tensor) else type(parts).__name__
        raise Error("EINVAL", f"{name}: is a {what}, not a list of tensors, or one whose first axis is that of parts", name)
    return list(parts)


def merge(out: Sequence[Tensor] | Tensor, lse: Sequence[Tensor] | Tensor, *, layout: str | None = None) -> tuple[Tensor, Tensor]:
    """Attention over all keys, from attentions of the same queries over some of the keys each.

    lse = log(sum exp(lse[i])) and out = sum exp(lse[i] - lse) out[i], over parts i.  Each key belongs to one part.

    Args:
        out: the results of the parts, in a list or along a first axis: [batch, heads, tokens, channels], of any device and
            any real type; see layout.
        lse: their log-sum-exps, as attention(..., lse=True) returns them: without the axis of channels.  -inf = the row of
            this part sees no key, and its numbers in out are not looked at.
        layout: "bhsd", "bshd", "thd" or the like, of out; None = "bhsd", "thd" for three axes.

    Returns (out, lse), out of the type of the first part, lse float32 or float64: the widest type of any lse.  Sums are of
    that type.  A row that no part sees is zeros, with lse -inf.  Both have gradients of any order.  Raises gyre.Error.
    """
    outs, lses = _parts(out, "out"), _parts(lse, "lse")
    if len(outs) != len(lses) or not outs:
        raise Error("ESHAPE", f"lse: of {len(lses)} parts, but out of {len(outs)}: pass one for each, at least one", "lse")
    letters = check_layout(tensor(outs[0], "out"), layout, "out").replace("t", "s")
    check_tensor(outs[0], "out", letters, REAL)
    channel = letters.index("d")
    rows = [extent for axis, extent in enumerate(outs[0].shape) if axis != channel]
    for i, (part, sums) in enumerate(zip(outs, lses, strict=True)):
        check_device(out=outs[0], **{f"out[{i}]": tensor(part, f"out[{i}]"), f"lse[{i}]": tensor(sums, f"lse[{i}]")})
        if part.shape != outs[0].shape:
            raise Error("ESHAPE", f"out: part {i} has shape {list(part.shape)}, but part 0 has {list(outs[0].shape)}", "out")
        if list(sums.shape) != rows:
            raise Error("ESHAPE", f"lse: part {i} has shape {list(sums.shape)}, not {rows}, that of out without channels", "lse")
        check_tensor(part, f"out[{i}]", letters, REAL)
        check_rows(sums, f"lse[{i}]", letters, REAL)
    dtype = torch.float64 if any(one.dtype == torch.float64 for one in lses) else torch.float32
    each = torch.stack([one.to(dtype) for one in lses])
    most = each.detach().amax(0)
    most = torch.where(most == -math.inf, torch.zeros_like(most), most)
    weights = (each - most).exp()
    total = weights.sum(0)
    empty = total == 0
    total = torch.where(empty, torch.ones_like(total), total)
    merged = torch.zeros_like(outs[0], dtype=dtype)
    for part, share in zip(outs, (weights / total).unbind(), strict=True):
        share = share.unsqueeze(channel)
        merged = merged + share * torch.where(share > 0, part.to(dtype), torch.zeros_like(merged))
    return merged.to(outs[0].dtype), torch.where(empty, torch.full_like(total, -math.inf), most + total.log())


# -- keys and values of all ranks --


def _global(group: Any, rank: int) -> int:
    """A rank of the group, counted over all processes."""
    return rank if group is None else int(_distributed.get_global_rank(group, rank))


class _Gather(torch.autograd.Function):
    """Keys and values of each rank, on every rank.  Gradients are added where the tensor came from, in float32."""

    @staticmethod
    def forward(ctx: Any, group: Any, tokens: list[int], axis: int, *own: Tensor) -> tuple[Tensor, ...]:
        """tokens: of each rank, along the axis.  Returns the tensors of rank 0, then those of rank 1, and so on."""
        ctx.group, ctx.rank, ctx.each = group, _distributed.get_rank(group), len(own)
        found, works = [], []
        for r, count in enumerate(tokens):
            for x in own:
                shape = [*x.shape[:axis], count, *x.shape[axis + 1 :]]
                part = x.detach().clone(memory_format=torch.contiguous_format) if r == ctx.rank else x.new_empty(shape)
                found.append(part)
                if part.numel():
                    works.append(_distributed.broadcast(part, _global(group, r), group=group, async_op=True))
        for work in works:
            work.wait()
        return tuple(found)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Any, ...]:
        sums, works = [], []
        for i, gradient in enumerate(gradients):
            wide = torch.promote_types(gradient.dtype, torch.float32)
            sums.append(gradient.to(wide, copy=True, memory_format=torch.contiguous_format))
            if gradient.numel():
                to = _global(ctx.group, i // ctx.each)
                works.append(_distributed.reduce(sums[-1], to, group=ctx.group, async_op=True))
        for work in works:
            work.wait()
        first = ctx.rank * ctx.each
        return None, None, None, *(sums[i].to(gradients[i].dtype) for i in range(first, first + ctx.each))


_gather: Any = _Gather  # its apply has no types


# -- attention of a rank --


def _arguments(queries: Shard, keys: Shard) -> dict[str, Any]:
    """Of a call of attention: queries of one shard over the keys of another."""
    packed = queries.starts is not None and len(queries.starts) > 2
    if queries.rows == 1 and not packed and keys.key_first is None:  # one document: rows of any batch are alike
        numbers = {"positions": queries.positions[..., 0, :], "key_positions": keys.positions[..., 0, :]}
    else:
        numbers = {"positions": queries.positions, "key_positions": keys.positions}
        numbers |= {"query_starts": queries.starts, "key_starts": keys.starts, "key_first": keys.key_first, "key_end": keys.key_end}
    return {name: torch.from_numpy(one) for name, one in numbers.items() if one is not None}


def _keys_of_each(k: Any, v: Any, shards: Shards, rank: int, group: Any, letters: str) -> list[tuple[Tensor, Tensor]]:
    """Keys and values of each rank, in the order of ranks."""
    apart, counts, axis = isinstance(k, Tensor), [shard.tokens for shard in shards], letters.index("s")
    if not apart and not len(k) == len(v) == len(shards):
        raise Error("ESHAPE", f"k: {len(k)} tensors, and v {len(v)}, are not one for each of {len(shards)} ranks", "k")
    both = [(k, v)] if apart else list(zip(k, v, strict=True))
    for r, given in zip([rank] if apart else range(len(shards)), both, strict=True):
        for name, x in zip("kv", given, strict=True):
            check_tensor(tensor(x, name), name, letters, SHORT_REAL)
            if x.shape[axis] != counts[r]:
                raise Error("ESHAPE", f"{name}: has {x.shape[axis]} tokens, but shard {r} has {counts[r]}", name)
    if not apart or len(shards) == 1:
        return both
    found = _gather.apply(group, counts, axis, k, v)
    return list(zip(found[0::2], found[1::2], strict=True))


def _rank_of(shards: Shards, rank: int | None, group: Any, apart: bool) -> int:
    """This rank; apart: keys are in other processes."""
    if apart and len(shards) > 1:
        size = _distributed.get_world_size(group) if _distributed.is_available() and _distributed.is_initialized() else 1
        if size != len(shards):
            text = f"shards: of {len(shards)} ranks, but the group has {size}: pass k and v of each rank in lists, or init_process_group"
            raise Error("EINVAL", text, "shards")
        own = int(_distributed.get_rank(group))
        if rank is not None and whole(rank, "rank") != own:
            raise Error("EINVAL", f"rank: is {rank}, but this process is rank {own} of the group", "rank")
        return own
    at: int = whole(0 if rank is None and len(shards) == 1 else rank, "rank")
    if not 0 <= at < len(shards):
        raise Error("EINVAL", f"rank: is {at}, not 0 .. {len(shards) - 1}", "rank")
    return at


@named
def shard_attention(
    q: Tensor,
    k: Tensor | Sequence[Tensor],
    v: Tensor | Sequence[Tensor],
    shards: Shards,
    rank: int | None = None,
    *,
    group: Any = None,
    encoding: Encoding | None = None,
    layout: str | None = None,
    causal: bool | str = False,
    window: int | tuple[int | None, int | None] | None = None,
    sinks: int | None = None,
    scale: float | None = None,
    softcap: float | None = None,
    tables: Mapping[str, Tensor] | Tensor | None = None,
    sink_logits: Tensor | None = None,
    length: int | None = None,
    lse: bool = False,
) -> Any:
    """Attention of a rank's queries over the keys of all ranks of a context-parallel group, with gradients.

    Every rank of the group makes this call, and calls backward where one does.  Keys and values of all ranks are in the
    memory of each during both.

    Args:
        q: queries of this rank, as in attention: the tokens of shards[rank].
        k, v: keys and values of this rank, which torch.distributed sends to the others.  Or lists of those of every rank,
            where they are in this process: nothing is sent.
        shards: who has which tokens, and their positions.  A packed batch of several documents has layout "thd".
        rank: None = that of this process.  group: of torch.distributed; None = all processes.
        causal: True or "position" = a query sees keys at positions not above its own.
        length: the context length in use; None = that of the longest document, where a scaling follows it.
        lse: True = return (out, lse), both with gradients.
        encoding, layout, window, sinks, scale, softcap, tables, sink_logits: as in attention.

    Returns out, shaped as q with the channels of v.  Gradients of k and v are those of the losses of all ranks, summed in
    float32; those of tables and sink logits are of this rank's queries: their sum over ranks is that of the whole.  Each
    part is rounded to the type of q before it is added.  Raises gyre.Error.
    """
    if isinstance(k, Tensor) != isinstance(v, Tensor):
        text = f"v: is a {type(v).__name__}, but k is a {type(k).__name__}: pass both as tensors, or both as lists"
        raise Error("EINVAL", text, "v")
    for name, x in (("k", k), ("v", v)):
        if not isinstance(x, (Tensor, Sequence)):
            raise Error("EINVAL", f"{name}: is a {type(x).__name__}, not a tensor, or a list with that of each rank", name)
    if not isinstance(shards, Shards):
        raise Error("EINVAL", f"shards: is a {type(shards).__name__}, not gyre.Shards", "shards")
    at = _rank_of(shards, rank, group, isinstance(k, Tensor))
    if causal == "order":
        raise Error("EUNSUPPORTED", "causal: 'order' counts tokens, of which a rank has some: use 'position'", "causal")
    letters = check_layout(tensor(q, "q"), layout, "q").replace("t", "s")
    check_tensor(q, "q", letters, SHORT_REAL)
    own, each, tokens = shards[at], list(shards), q.shape[letters.index("s")]
    if tokens != own.tokens:
        raise Error("ESHAPE", f"q: has {tokens} tokens, but shard {at} has {own.tokens}", "q")
    heads = q.shape[letters.index("h")] if "h" in letters else 1
    if sink_logits is not None and list(tensor(sink_logits, "sink_logits").shape) != [heads]:
        text = f"sink_logits: has shape {list(sink_logits.shape)}, not [{heads}], a number for each head"
        raise Error("ESHAPE", text, "sink_logits")
    if length is None and encoding is not None and depends_on_length(encoding):
        length = int(shards.batch.context_lengths.max(initial=1))
    options: dict[str, Any] = {
        "encoding": encoding, "layout": layout, "causal": causal, "window": window, "sinks": sinks, "scale": scale,
        "softcap": softcap, "tables": tables, "length": length, "lse": True,
    }  # fmt: skip
    outs, sums = [], []
    for keys, (its_k, its_v) in zip(each, _keys_of_each(k, v, shards, at, group, letters), strict=True):
        part, its_lse = attention(q, its_k, its_v, **_arguments(own, keys), **options)
        outs.append(part)
        sums.append(its_lse)
    if sink_logits is not None:  # a score without a value
        shape = [-1 if letter == "h" else 1 for letter in letters.replace("d", "")]
        outs.append(torch.zeros_like(outs[0]))
        sums.append(sink_logits.float().view(shape).expand_as(sums[0]))
    found = merge(outs, sums, layout=layout)
    return found if lse else found[0]
