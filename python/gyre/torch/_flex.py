"""score_mod and mask_mod: what an encoding adds to scores, and which keys a query sees, for torch's FlexAttention."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from gyre._encoding import Encoding
from gyre._errors import Error
from gyre._guesses import named
from gyre.torch import _scores
from gyre.torch._attention import sides_of, split_tables
from gyre.torch._specs import dtype_text, is_whole, length_of, number, optional_tensor, spec_of, tensor, whole

ScoreMod = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor], Tensor]
MaskMod = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]


def _check_whole(x: Tensor | None, name: str, axes: tuple[int, ...]) -> None:
    if x is None:
        return
    if x.dtype not in (torch.int32, torch.int64):
        raise Error("EDTYPE", f"{name}: is of type {dtype_text(x)}, not int32 or int64", name)
    if x.dim() not in axes:
        raise Error("ESHAPE", f"{name}: has {x.dim()} axes, not {' or '.join(map(str, axes))}", name)


class _Tokens:
    """Where the tokens of one side stand: positions, and the sequences of a packed batch."""

    def __init__(self, positions: Any, starts: Tensor | None, name: str) -> None:
        self.first: int = whole(positions, name) if is_whole(positions) else 0
        given = None if positions is None or is_whole(positions) else tensor(positions, name)
        _check_whole(given, name, (1, 2))
        self.sequence: Tensor | None = None
        if starts is not None:
            at = starts.long()
            lengths = at.diff()
            self.sequence = torch.repeat_interleave(torch.arange(lengths.numel(), device=at.device), lengths)
            if positions is None:
                given = torch.arange(self.sequence.numel(), device=at.device) - at[:-1][self.sequence]
        self.positions = given

    def position(self, b: Tensor, token: Tensor) -> Tensor:
        if self.positions is None:
            return token.long() + self.first
        return (self.positions[token] if self.positions.dim() == 1 else self.positions[b, token]).long()


def _sides(positions: Any, key_positions: Any, query_starts: Any, key_starts: Any) -> tuple[_Tokens, _Tokens]:
    starts = optional_tensor(query_starts, "query_starts"), optional_tensor(key_starts, "key_starts")
    if (starts[0] is None) != (starts[1] is None):
        name = "key_starts" if starts[1] is None else "query_starts"
        raise Error("EINVAL", f"{name}: missing: a packed batch needs query_starts and key_starts", name)
    for one, name in zip(starts, ("query_starts", "key_starts"), strict=True):
        _check_whole(one, name, (1,))
    if starts[0] is not None and starts[1] is not None and starts[0].shape != starts[1].shape:
        text = f"key_starts: has {starts[1].numel()} numbers, query_starts has {starts[0].numel()}"
        raise Error("ESHAPE", text, "key_starts")
    return _Tokens(positions, starts[0], "positions"), _Tokens(key_positions, starts[1], "key_positions")


@named
def score_mod(
    encoding: Encoding,
    *,
    positions: Tensor | int | None = None,
    key_positions: Tensor | int | None = None,
    query_starts: Tensor | None = None,
    key_starts: Tensor | None = None,
    tables: Mapping[str, Tensor] | Tensor | None = None,
    softcap: float | None = None,
    length: int | None = None,
    device: torch.device | str | None = None,
) -> ScoreMod:
    """A score_mod of torch.nn.attention.flex_attention that adds what the encoding adds to a score: ALiBi, T5, KERPLE, FIRE.

    Rotate queries and keys before, by rotate or rotate_pair, if they are to be rotated.

    Args:
        positions, key_positions: int32 or int64 [tokens] or [batch, tokens], or an int p for p, p + 1, ...; None = 0, 1, ...
            In decoding, pass those of the queries.
        query_starts, key_starts: a packed batch: sequence s is tokens starts[s] .. starts[s + 1] - 1.  Positions None then
            begin at 0 in each, of queries too.  Lengths of sequences are read, which waits for a device.
        tables: of schemes that train one, as in gyre.torch.bias; it gets its gradient where FlexAttention computes one.
        softcap: c tanh(s / c) of the sum.  length: the context length in use.
        device: of q, where neither a table nor positions have one; None = torch's default.

    The number is computed in float32, or float64 for such scores.  Raises gyre.Error.
    """
    plan = _scores.plan_of(spec_of(encoding), length_of(length))
    each, names = split_tables(tables)
    table = _scores.table_of(each, names, plan)
    query, key = _sides(positions, key_positions, query_starts, key_starts)
    placed = [x for x in (table, query.positions, key.positions) if x is not None]
    like = placed[0] if placed and device is None else torch.empty(0, device=device)
    of = {dtype: _scores.held(plan, table, like, dtype) for dtype in (torch.float32, torch.float64)}
    cap = number(softcap, "softcap")

    def add(score: Tensor, b: Tensor, h: Tensor, q: Tensor, kv: Tensor) -> Tensor:
        dtype = torch.float64 if score.dtype == torch.float64 else torch.float32
        total = score + _scores.number(plan, of[dtype], query.position(b, q), key.position(b, kv), h, dtype)
        return torch.tanh(total / cap) * cap if cap else total

    return add


@named
def mask_mod(
    *,
    causal: bool = False,
    window: int | tuple[int | None, int | None] | None = None,
    sinks: int | None = None,
    positions: Tensor | int | None = None,
    key_positions: Tensor | int | None = None,
    query_starts: Tensor | None = None,
    key_starts: Tensor | None = None,
    key_first: Tensor | None = None,
    key_end: Tensor | None = None,
) -> MaskMod:
    """A mask_mod of torch.nn.attention.flex_attention: the keys that gyre.attention with these arguments shows a query.

    Arguments as in gyre.attention and score_mod; causal compares positions.  key_first, key_end: int32 or int64 [batch].
    """
    if not isinstance(causal, bool):
        raise Error("EINVAL", f"causal: is {causal!r}, not True or False: FlexAttention has no order of tokens", "causal")
    before, after = sides_of(window)
    kept = 0 if sinks is None else whole(sinks, "sinks")
    query, key = _sides(positions, key_positions, query_starts, key_starts)
    ends = [optional_tensor(key_first, "key_first"), optional_tensor(key_end, "key_end")]
    for one, name in zip(ends, ("key_first", "key_end"), strict=True):
        _check_whole(one, name, (1,))

    def seen(b: Tensor, h: Tensor, q: Tensor, kv: Tensor) -> Tensor:
        m, n = query.position(b, q), key.position(b, kv)
        found = n >= m - before + 1 if before else kv >= 0
        if after and not causal:
            found = found & (n <= m + after - 1)
        if kept:
            found = found | (n < kept)
        if causal:
            found = found & (n <= m)
        if query.sequence is not None and key.sequence is not None:
            found = found & (query.sequence[q] == key.sequence[kv])
        if ends[0] is not None:
            found = found & (kv >= ends[0][b])
        return found if ends[1] is None else found & (kv < ends[1][b])

    return seen
