"""Attention with positions, its gradient, and the cache."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Self, TypeVar

import numpy

from gyre import _gyre
from gyre._encoding import Encoding
from gyre._errors import Error, path_text

A = TypeVar("A")


_OPTIONS = (
    "layout",
    "positions",
    "key_positions",
    "causal",
    "window",
    "sinks",
    "scale",
    "softcap",
    "tables",
    "mask",
    "sink_logits",
    "dropout",
    "seed",
    "query_starts",
    "key_starts",
    "key_first",
    "key_end",
    "query_end",
    "order",
    "length",
    "query_gate_sums",
    "key_gate_sums",
)


_ALL = 2**40  # keys: more than positions can be apart, so a side without an end
_WINDOW = "not a number of keys or (before, after)"


def whole_window(window: Any) -> Any:
    """None, a number, or (before, after) with None for all; raises gyre.Error for what is neither."""
    if isinstance(window, (tuple, list)):
        if len(window) != 2 or any(isinstance(one, bool) for one in window):
            raise Error("EINVAL", f"window: is {window!r}, {_WINDOW}", "window")
        return tuple(one or None for one in window)
    if isinstance(window, bool):
        raise Error("EINVAL", f"window: is {window!r}, {_WINDOW}", "window")
    return window


def _sides(window: Any) -> dict[str, Any]:
    """What the extension takes, for which a missing window_after is as `window`."""
    window = whole_window(window)
    if not isinstance(window, tuple):
        return {"window": window}
    before, after = window
    if before is None and after is None:
        return {}
    return {"window": before, "window_after": _ALL if after is None else after}


def _options(call: dict[str, Any]) -> dict[str, Any]:
    """The options among the arguments of a call, as the extension takes them."""
    options = {name: call[name] for name in _OPTIONS if name in call}
    causal = options.pop("causal")
    if causal is True or causal is False:
        causal = "position" if causal else "none"
    options["causal"] = causal
    options.update(_sides(options.pop("window")))
    options["mask"] = _additive(options.pop("mask"))
    return {name: value for name, value in options.items() if value is not None}


def _additive(mask: Any) -> Any:
    """A mask of truth values, True where a query sees a key, becomes numbers to add."""
    dtype = str(getattr(mask, "dtype", ""))
    if dtype in ("torch.bool", "bool"):
        _gyre.check_array(mask, "mask")
    if dtype == "torch.bool":
        import torch

        return torch.zeros(mask.shape, dtype=torch.float32, device="cpu").masked_fill_(~mask, -torch.inf)
    if dtype == "bool":
        return numpy.where(numpy.asarray(mask), numpy.float32(0), numpy.float32(-numpy.inf))
    return mask


def attention(
    q: A,
    k: Any,
    v: Any,
    *,
    encoding: Encoding | None = None,
    layout: str | None = None,
    positions: Any = None,
    key_positions: Any = None,
    causal: bool | str = False,
    window: int | tuple[int | None, int | None] | None = None,
    sinks: int | None = None,
    scale: float | None = None,
    softcap: float | None = None,
    tables: Any = None,
    mask: Any = None,
    sink_logits: Any = None,
    dropout: float | None = None,
    seed: int | None = None,
    query_starts: Any = None,
    key_starts: Any = None,
    key_first: Any = None,
    key_end: Any = None,
    query_end: Any = None,
    order: str | None = None,
    length: int | None = None,
    query_gate_sums: Any = None,
    key_gate_sums: Any = None,
    out: Any = None,
    lse: bool = False,
) -> Any:
    """softmax(scale q . k) v with positions applied to raw q, k and v, in one pass and without an n x n matrix.

    Args:
        q, k, v: arrays of float16, bfloat16 or float32, any strides, [batch, heads, tokens, channels] for layout "bhsd".
            Query heads are a multiple of key heads.
        encoding: None = without positions, or they were applied before.
        layout: "bhsd" (the default of four axes), "bshd", "thd" (of three) or other letters.
        positions, key_positions: of queries and keys, as in Encoding.rotate.  None: keys stand at 0, 1, 2, ..., and the
            last query beside the last key.
        causal: True or "position" = a query sees keys at positions not above its own; "order" = counted in tokens.
        window: a query sees keys less than `window` positions away; (before, after) names each side; None and 0 = all, of a
            side too.
        sinks: keys at positions below this are seen whatever the window (StreamingLLM, arXiv 2309.17453).
        scale: of q . k; None = 1 / sqrt(channels).  softcap: c tanh(s / c) of a score s (Gemma 2).
        tables: of schemes that train some: a dict of arrays by name, or the one table there is.
        mask: [batch, heads, queries, keys], fewer axes from the left or 1 to broadcast; numbers to add, or truth
            values, True where a key is seen.
        sink_logits: float32 [heads]: a score without a key in each softmax (gpt-oss).
        dropout: probability of a weight to become 0, drawn from `seed`.
        query_starts, key_starts: a packed batch, "thd": sequence s is tokens starts[s] .. starts[s + 1] - 1.
        key_first, key_end: padding: row b has keys key_first[b] .. key_end[b] - 1.  query_end: see q_end in gyre.h.
        order: "fixed" = the bits of a query do not depend on how its sequence is cut into calls.
        length: the context length in use.
        query_gate_sums, key_gate_sums: float32 or float64 [batch, heads, tokens], in the layout of q without channels, a
            number for each token and query head whose difference is added to scores: running sums of log forget gates
            (Forgetting Transformer, arXiv 2503.02130).  numpy.cumsum in float64 makes them.
        out: memory for the result, shaped as q with the channels of v.
        lse: True = return (out, lse), lse float32 without the axis of channels: the log-sum-exp of each row.

    Returns an array of the kind and type of q.  A row that sees no key is zeros.  Sums are of floats.

    Raises:
        gyre.Error: it names the argument, what it is and what would be right.
    """
    options = _options(locals())
    return _gyre.attention(q, k, v, encoding=encoding, out=out, lse=lse, **options)


def attention_gradient(
    dout: Any,
    q: A,
    k: Any,
    v: Any,
    out: Any,
    lse: Any,
    *,
    encoding: Encoding | None = None,
    layout: str | None = None,
    positions: Any = None,
    key_positions: Any = None,
    causal: bool | str = False,
    window: int | tuple[int | None, int | None] | None = None,
    sinks: int | None = None,
    scale: float | None = None,
    softcap: float | None = None,
    tables: Any = None,
    mask: Any = None,
    sink_logits: Any = None,
    dropout: float | None = None,
    seed: int | None = None,
    query_starts: Any = None,
    key_starts: Any = None,
    key_first: Any = None,
    key_end: Any = None,
    query_end: Any = None,
    length: int | None = None,
    query_gate_sums: Any = None,
    key_gate_sums: Any = None,
    float32: bool = False,
) -> tuple[Any, Any, Any, dict[str, Any]]:
    """Gradients of a loss to raw q, k and v and to the tables, given that to out.

    out, lse: what attention(..., lse=True) returned for the same arguments.  float32: True = gradients of float32 whatever
    the inputs; needed where queries of a sequence differ in their context length.

    Returns (dq, dk, dv, {table: float32 gradient}), the dict also with "sink_logits", "query_gate_sums"
    and "key_gate_sums" where those were given, the latter in their type.
    """
    options = _options(locals())
    return _gyre.attention_gradient(dout, q, k, v, out, lse, encoding=encoding, float32=float32, **options)


class Cache(_gyre.Cache):
    """Keys and values of earlier tokens of one layer, for several sequences, in pages.

    A sequence that is forked shares its pages until one of the two writes.  Moving tokens changes a number, not keys.
    One call at a time uses a cache; others wait.
    """

    def __new__(
        cls,
        encoding: Encoding | None = None,
        *,
        heads: int,
        max_tokens: int,
        head_dim: int | None = None,
        value_dim: int | None = None,
        keys: str = "raw",
        dtype: str = "float32",
        value_dtype: str | None = None,
        sequences: int = 1,
        page_tokens: int = 0,
        length: int | None = None,
        gate_heads: int = 0,
        values_in_keys: bool = False,
    ) -> Self:
        """An empty cache; all its memory is taken here.

        Args:
            encoding: None = positions are applied before.
            heads, head_dim: of keys; head_dim None = the encoding's.  value_dim: channels of values, None = head_dim.
            max_tokens: of all sequences together; shared ones count once.
            keys: "raw" = rotated each time they are read; "rotated" = rotated once.
            dtype, value_dtype: "float32", "float16", "bfloat16" or "q8".
            page_tokens: tokens of a page; 0 = one page for each sequence.
            gate_heads: query heads whose gate sums each key keeps, a multiple of heads; append then takes gate_sums.
            values_in_keys: True = the value of a token is the first value_dim channels of its key (None = those before
                the rotated ones): the latents of multi-head latent attention.  append then takes no v.
        """
        return cls._create(
            encoding=encoding,
            heads=heads,
            head_dim=head_dim,
            max_tokens=max_tokens,
            keys=keys,
            dtype=dtype,
            value_dtype=value_dtype,
            value_dim=value_dim,
            sequences=sequences,
            page_tokens=page_tokens,
            length=length,
            gate_heads=gate_heads,
            values_in_keys=values_in_keys,
        )

    @classmethod
    def load(cls, path: str | os.PathLike[str], encoding: Encoding | None = None) -> Self:
        """The cache that save wrote; encoding: that of the saved one, which the file knows by its frequencies."""
        return cls._load(path_text(path, "path"), encoding)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes all sequences and a checksum to a file, which appears whole or not at all."""
        self._save(path_text(path, "path"))

    def attention(
        self,
        q: A,
        sequences: Sequence[int] | None = None,
        *,
        layout: str | None = None,
        positions: Any = None,
        causal: bool | str = True,
        window: int | tuple[int | None, int | None] | None = None,
        sinks: int | None = None,
        scale: float | None = None,
        softcap: float | None = None,
        tables: Any = None,
        mask: Any = None,
        sink_logits: Any = None,
        order: str | None = None,
        length: int | None = None,
        query_gate_sums: Any = None,
        out: Any = None,
        lse: bool = False,
    ) -> Any:
        """gyre.attention over the tokens of sequences[b] for batch row b; None = 0, 1, 2, ...

        Append the tokens of the queries first.  positions None = the last of sequences[0], for every row.
        """
        options = _options(locals())
        return self._attention(q, sequences, out=out, lse=lse, **options)

    def contextual_attention(
        self,
        q: A,
        embeddings: Any,
        *,
        scale: float | None = None,
        gate_scale: float | None = None,
        position_scale: float | None = None,
        layout: str | None = None,
        sequences: Sequence[int] | None = None,
        key_first: Any = None,
        key_end: Any = None,
        lse: bool = False,
    ) -> Any:
        """gyre.contextual_attention over the tokens of sequences[b] for batch row b; None = 0, 1, 2, ...

        Append the tokens of the queries first: the last query stands beside the last token, or the last before key_end.  The cache
        has no encoding, because queries count positions.  key_first, key_end: one number a row, counted in its sequence.
        """
        return self._contextual_attention(
            q,
            embeddings,
            scale=scale,
            gate_scale=gate_scale,
            position_scale=position_scale,
            layout=layout,
            sequences=sequences,
            key_first=key_first,
            key_end=key_end,
            lse=lse,
        )

    def adaptive_attention(
        self,
        q: A,
        hidden_weights: Any,
        output_weights: Any,
        *,
        hidden_bias: Any = None,
        output_bias: Any = None,
        form: str | None = None,
        slope: float | None = None,
        scale: float | None = None,
        causal: bool | str = True,
        tables: Any = None,
        positions: Any = None,
        length: int | None = None,
        bias: Any = None,
        layout: str | None = None,
        sequences: Sequence[int] | None = None,
        key_first: Any = None,
        key_end: Any = None,
        lse: bool = False,
    ) -> Any:
        """gyre.adaptive_attention over the tokens of sequences[b] for batch row b; None = 0, 1, 2, ...

        Append the tokens of the queries first.  The biases are those of the cache's encoding at the positions of its tokens;
        positions: of the queries, None = those of the last tokens of each sequence, of those before key_end.  bias has the keys of
        the longest sequence.  key_first, key_end: one number a row, counted in its sequence.
        """
        return self._adaptive_attention(
            q,
            hidden_weights,
            output_weights,
            hidden_bias=hidden_bias,
            output_bias=output_bias,
            form=form,
            slope=slope,
            scale=scale,
            causal=causal,
            tables=tables,
            positions=positions,
            length=length,
            bias=bias,
            layout=layout,
            sequences=sequences,
            key_first=key_first,
            key_end=key_end,
            lse=lse,
        )

    def tokens(self, sequence: int = 0) -> int:
        """Tokens of a sequence."""
        return self._tokens(sequence)

    def positions(self, sequence: int = 0, axis: int = 0) -> Any:
        """Current positions of the tokens of a sequence, int64 [tokens]."""
        return self._positions(sequence, axis)

    def remove(self, first: int, count: int, *, sequence: int = 0) -> None:
        """Removes tokens first .. first + count - 1.  Later tokens keep their positions."""
        self._remove(sequence, first, count)

    def shift(self, first: int, count: int, delta: int | Sequence[int], *, sequence: int = 0) -> None:
        """Adds delta, one number or one for each axis, to the positions of tokens.  Factors are not applied again."""
        self._shift(sequence, first, count, delta)

    def fork(self, source: int, target: int) -> None:
        """Makes sequence `target` a copy of `source`, whatever it was."""
        self._fork(source, target)

    def slide(self, sinks: int, window: int, *, sequence: int = 0) -> int:
        """Keeps the first `sinks` tokens and the last window - sinks (StreamingLLM); returns the next position."""
        return self._slide(sequence, sinks, window)

    def set_encoding(self, encoding: Encoding, length: int | None = None) -> None:
        """Moves the cache to another encoding without reading the text again."""
        self._set_encoding(encoding, length or 0)
