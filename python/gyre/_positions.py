"""Positions of the tokens of a batch, and what each rank of a group holds of it."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, NamedTuple, Self, TypeVar, cast, overload

import numpy

from gyre import _gyre
from gyre._errors import Error
from gyre._guesses import named

A = TypeVar("A")


class Grid(NamedTuple):
    """An image or a video among the spans of a document, as the model that rotates it counts it.

    A decoder counts after patches are merged.  Tokens come frame by frame, then row by row.

    Attributes:
        frames, rows, columns: at least 1 each; an image has one frame.
        frame_step: positions from frame to frame: frame f is at floor(f * frame_step).  Qwen2-VL: 1.  Qwen2.5-VL:
            tokens_per_second x seconds per grid.  Qwen3-VL: each frame is a separate grid, after the text of its time.
        merge: above 1, a frame comes in blocks of merge x merge patches, as encoders of Qwen2-VL and later order them.
    """

    frames: int
    rows: int
    columns: int
    frame_step: float = 1.0
    merge: int = 1


def _whole(values: Any, name: str) -> Any:
    """A list, an array or a tensor of whole numbers as int64."""
    try:
        array = numpy.asarray(values)
    except Exception as error:
        raise Error("EINVAL", f"{name}: is not a list of whole numbers: {error}", name) from error
    if array.size == 0:
        return numpy.zeros(array.shape, "i8")
    if array.dtype.kind not in "iu":
        raise Error("EDTYPE", f"{name}: is of type {array.dtype}, not a list of whole numbers", name)
    return array.astype("i8", copy=False)


def _lengths_of(sums: Any, name: str) -> Any:
    """The lengths of documents from their running sums."""
    ends = _whole(sums, name)
    if ends.ndim != 1 or len(ends) < 2 or ends[0] != 0:
        begins = f"begins with {int(ends[0])}" if ends.ndim == 1 and len(ends) > 1 else f"has shape {list(ends.shape)}"
        raise Error("ESHAPE", f"{name}: {begins}, not [documents + 1] running sums from 0", name)
    lengths = numpy.diff(ends)
    if (lengths < 0).any():
        at = int((lengths < 0).argmax())
        raise Error("EINVAL", f"{name}: falls from {int(ends[at])} to {int(ends[at + 1])}, but the sum of lengths rises", name)
    return lengths


def _shown(numbers: Any) -> str:
    """At most six numbers."""
    return f"[{', '.join(str(n) for n in numbers[:6])}{', ...' if len(numbers) > 6 else ''}]"


def _span(span: Any, document: int) -> tuple[tuple[int, ...], float]:
    """(tokens, frames, rows, columns, merge) and frame_step of a span."""
    try:
        if isinstance(span, Grid):
            sizes = tuple(operator.index(n) for n in (0, span.frames, span.rows, span.columns, span.merge))
            return sizes, float(span.frame_step)
        return (operator.index(span), 0, 0, 0, 0), 0.0
    except TypeError as error:
        message = f"documents: span {span!r} of document {document} is neither a number of tokens nor a gyre.Grid"
        raise Error("EINVAL", message, "documents") from error


def _spans(documents: Sequence[Any]) -> dict[str, Any]:
    """Documents, of which some are lists of spans."""
    sizes: list[tuple[int, ...]] = []
    steps: list[float] = []
    starts = [0]
    for d, document in enumerate(documents):
        for span in document if isinstance(document, (list, tuple)) and not isinstance(document, Grid) else [document]:
            size, step = _span(span, d)
            sizes.append(size)
            steps.append(step)
        starts.append(len(sizes))
    return {
        "documents": len(documents),
        "spans": numpy.array(sizes, "i8").reshape(-1, 5),
        "steps": numpy.array(steps, "f8"),
        "span_starts": numpy.array(starts, "i8"),
    }


def _read_documents(documents: Any) -> dict[str, Any]:
    if isinstance(documents, (list, tuple)) and any(isinstance(d, (list, tuple)) for d in documents):
        return _spans(documents)
    lengths = _whole(documents, "documents")
    if lengths.ndim != 1:
        message = f"documents: has {lengths.ndim} axes, not one: a length, or a list of spans, for each document"
        raise Error("ESHAPE", message, "documents")
    return {"documents": len(lengths), "lengths": lengths}


def _read_mask(mask: Any) -> dict[str, Any]:
    try:
        marks = numpy.ascontiguousarray(numpy.asarray(mask), dtype=bool)
    except Exception as error:
        raise Error("EINVAL", f"mask: is not an array of truth values: {error}", "mask") from error
    if marks.ndim != 2:
        raise Error("ESHAPE", f"mask: has shape {list(marks.shape)}, not [documents, tokens]", "mask")
    return {"documents": marks.shape[0], "row_tokens": marks.shape[1], "mask": marks.tobytes()}


class Batch(_gyre.Batch):
    """Documents as rows of tokens: their positions on every axis, and where each begins and ends.

    Never changes.  Arrays are numpy's, int64; an array is made when it is first asked for.

    Attributes:
        rows, tokens, axes, documents: counts; tokens are those of a row, with padding.
        sequences: documents of a packed row, and one more of padding where there is some; else the rows.
        positions: [rows, tokens], or [axes, rows, tokens] with several axes, as Encoding.rotate takes them.
        order: [rows, tokens], place of each token in its document, cached tokens counted; -1 for padding.
        document_of: [rows, tokens]; -1 for padding.
        query_starts, key_starts: [sequences + 1] of a packed row, else None.  Keys are cached and new tokens.
        key_first, key_end: [sequences]; None without padding.
        key_positions: [1, keys] or [axes, 1, keys] of a packed row, cached tokens among them; else as positions.
        lengths, next_positions: [documents]: new tokens, and the position after the last.
        context_lengths: [sequences]: the highest position of each, + 1.
    """

    rows: int
    tokens: int
    axes: int
    documents: int
    sequences: int

    @named
    def __new__(
        cls,
        documents: Any = None,
        *,
        form: str | None = None,
        row_tokens: int | None = None,
        mask: Any = None,
        cached: Any = None,
        first_positions: Any = None,
        axes: int = 1,
        after_grid: str = "largest",
        padding_position: int = 0,
    ) -> Self:
        """The batch of documents.

        Args:
            documents: the number of new tokens of each, or for each a list of spans: numbers of text tokens, and Grids.
                None with a mask, which has them.
            form: "packed" = one row, then padding (the default); "padded_right", "padded_left" = a row for each
                document; "masked" = a row for each, whose tokens `mask` marks (the default with a mask).
            row_tokens: of a row with its padding; None = as many as are needed.
            mask: [documents, tokens], True = a token of the document.
            cached: tokens of each document that came before: a prefix that is kept, or what a cache holds.
            first_positions: of the first new token of each document; None = cached.  After images: the next_positions
                of the batch that filled the cache.
            axes: 1 = tokens count up, in grids too; 2 = row, column; 3 = time, row, column.
            after_grid: where text continues: "largest" = past the largest position on any axis (the Qwen2-VL paper, vLLM,
                transformers 4); "sides" = past max(rows, columns), whatever the time (transformers 5).
            padding_position: of tokens that are padding.

        Raises:
            gyre.Error: EINVAL, ESHAPE or ERANGE (a position past 2^31), with the argument at fault.
        """
        config: dict[str, Any] = {} if documents is None else _read_documents(documents)
        if documents is None and mask is None:
            raise Error("EINVAL", "documents: missing: pass the length of each, or a mask", "documents")
        if mask is not None:
            marked = _read_mask(mask)
            if config and config["documents"] != marked["documents"]:
                message = f"mask: has {marked['documents']} rows, but there are {config['documents']} documents"
                raise Error("ESHAPE", message, "mask")
            if row_tokens is not None and row_tokens != marked["row_tokens"]:
                message = f"row_tokens: is {row_tokens}, but the rows of mask have {marked['row_tokens']} tokens"
                raise Error("EINVAL", message, "row_tokens")
            config |= marked
        elif row_tokens is not None:
            config["row_tokens"] = row_tokens
        for name, values in (("cached", cached), ("first_positions", first_positions)):
            if values is not None:
                config[name] = _whole(values, name)
        self = cls._create(
            form=form or ("packed" if mask is None else "masked"),
            axes=axes,
            after_grid=after_grid,
            padding_position=padding_position,
            **config,
        )
        self.rows, self.tokens, self.axes, self.documents, self.sequences = self._shape()
        return self

    @classmethod
    def from_cu_seqlens(cls, queries: Any, keys: Any = None, *, row_tokens: int | None = None) -> Self:
        """A packed row from running sums of lengths, as variable-length calls of flash-attention take them.

        Args:
            queries, keys: cu_seqlens_q and cu_seqlens_k, [documents + 1]: 0, then the end of each document.  keys None = as
                queries.  Keys that a document has more than queries are cached tokens, before the new ones.
            row_tokens: of the row with its padding; None = the last of `queries`.

        Raises:
            gyre.Error: EINVAL, ESHAPE or EDTYPE, with the argument at fault.
        """
        lengths = _lengths_of(queries, "queries")
        if keys is None:
            return cls(lengths, row_tokens=row_tokens)
        cached = _lengths_of(keys, "keys")
        if len(cached) != len(lengths):
            message = f"keys: has {len(cached)} documents, but queries has {len(lengths)}"
            raise Error("ESHAPE", message, "keys")
        cached = cached - lengths
        if (cached < 0).any():
            at = int((cached < 0).argmax())
            message = f"keys: document {at} has {int(-cached[at])} keys fewer than queries"
            raise Error("EINVAL", message, "keys")
        return cls(lengths, row_tokens=row_tokens, cached=cached)

    @classmethod
    def from_position_ids(cls, position_ids: Any) -> Self:
        """A packed row from the positions of its tokens, as transformers packs: 0 1 2 0 1 is two documents.

        A document ends where the next position is not one more.  Padding with zeros is a document for each token.

        Args:
            position_ids: whole numbers, [tokens] or [1, tokens].  Documents in separate rows are
                Batch(lengths, form="padded_right"), or Batch(mask=attention_mask).

        Raises:
            gyre.Error: EINVAL, ESHAPE or EDTYPE, with the argument at fault.
        """
        at = _whole(position_ids, "position_ids")
        if at.ndim not in (1, 2) or (at.ndim == 2 and len(at) != 1):
            message = f"position_ids: has shape {list(at.shape)}, not [tokens] or [1, tokens]: reshape(1, -1) packs rows"
            raise Error("ESHAPE", message, "position_ids")
        at = at.reshape(-1)
        starts = numpy.flatnonzero(numpy.diff(at, prepend=at[:1] - 2) != 1)
        return cls(numpy.diff(starts, append=len(at)), first_positions=at[starts])

    def __repr__(self) -> str:
        shown = {"row": self.rows, "token": self.tokens, "document": self.documents}
        counted = [f"{n} {name}{'s' if n != 1 else ''}" for name, n in shown.items()]
        padding = int((self.order < 0).sum())
        kind = "packed" if self.query_starts is not None else "in rows"
        more = [f"{self.axes} axes"] if self.axes > 1 else []
        more += [f"{padding} of padding"] if padding else []
        return f"<gyre.Batch {kind}: {counted[0]} of {', '.join(counted[1:] + more)}, lengths {_shown(self.lengths)}>"

    @cached_property
    def positions(self) -> Any:
        return self._numbers("positions")

    @cached_property
    def order(self) -> Any:
        return self._numbers("order")

    @cached_property
    def document_of(self) -> Any:
        return self._numbers("document_of")

    @cached_property
    def query_starts(self) -> Any:
        return self._numbers("query_starts")

    @cached_property
    def key_starts(self) -> Any:
        return self._numbers("key_starts")

    @cached_property
    def key_first(self) -> Any:
        return self._numbers("key_first")

    @cached_property
    def key_end(self) -> Any:
        return self._numbers("key_end")

    @cached_property
    def key_positions(self) -> Any:
        return self._numbers("key_positions")

    @cached_property
    def lengths(self) -> Any:
        return self._numbers("lengths")

    @cached_property
    def next_positions(self) -> Any:
        return self._numbers("next_positions")

    @cached_property
    def context_lengths(self) -> Any:
        return self._numbers("context_lengths")

    @property
    def arguments(self) -> dict[str, Any]:
        """What gyre.attention asks for besides q, k and v: gyre.attention(q, k, v, causal=True, **batch.arguments).

        A packed row is of layout "thd".  In a mask with holes, the tokens between are keys: pass mask= as well.
        """
        names = ("positions", "key_positions", "query_starts", "key_starts", "key_first", "key_end")
        return {name: array for name in names if (array := getattr(self, name)) is not None}

    def shift_labels(self, labels: A, *, ignore: int = -100, layout: str | None = None, out: Any = None) -> A:
        """The token to predict after each: labels[r, t + 1] where both are of one document, else `ignore`.

        Shift before labels are dealt out: in a shard the next token is often another rank's.

        Args:
            labels: int32 or int64 [rows, tokens], or [tokens] of a packed row.
            out: memory for the result, which may be labels itself.
        """
        return self._shift_labels(labels, ignore=ignore, layout=layout, out=out)


def _is_truth(array: Any) -> bool:
    return str(getattr(array, "dtype", "")) in ("bool", "torch.bool")


def _check_truth(array: Any, name: str) -> None:
    if array is not None and not _is_truth(array):
        raise Error("EDTYPE", f"{name}: is {getattr(array, 'dtype', type(array).__name__)}, not bool", name)


def _as_numbers(array: Any) -> Any:
    """A mask as int32: the C library copies no type of one byte."""
    return array.astype("int32") if hasattr(array, "astype") else array.int()


def _fill(array: Any, values: Any, name: str) -> None:
    if array.shape != values.shape:
        raise Error("ESHAPE", f"{name}: {tuple(array.shape)} is not {tuple(values.shape)}", name)
    array[...] = values


class Shard:
    """What a rank holds.  Arrays are numpy's, int64; positions and order are those of the whole.

    Attributes:
        rank, rows, tokens: tokens are those of each row.
        index: [tokens], place of each in the row of the whole, rising.
        runs: [runs, 2]: first token and number of tokens of each run of neighbours.
        positions: [rows, tokens], or [axes, rows, tokens].
        order: [rows, tokens]: place in its document; -1 for padding.
        starts: [sequences + 1] of a packed row, counted in the shard; sequences without a token here too.
        key_first, key_end: [sequences]; None without padding.
        pairs: of a query here and a key that it sees, wherever that is: the work of one head.
    """

    rank: int
    rows: int
    tokens: int
    index: Any
    runs: Any
    positions: Any
    order: Any
    starts: Any
    key_first: Any
    key_end: Any
    pairs: int

    def __init__(self, shards: Shards, rank: int) -> None:
        self.__dict__.update(shards._get(rank))
        self._shards = shards

    def __repr__(self) -> str:
        return f"<gyre.Shard {self.rank}: {self.tokens} tokens of each row, {self.pairs} pairs>"

    def take(self, whole: A, *, layout: str | None = None, out: Any = None) -> A:
        """whole[:, index]: the tokens of this rank.

        Args:
            whole: [rows, tokens], [rows, tokens, channels] or [rows, heads, tokens, channels]; of a packed row also
                [tokens].  Others by layout, as "thd".  float16, bfloat16, float32, float64, int32, int64 or bool.
            out: memory for the result.

        A tensor that requires a gradient is refused; index it: whole[:, torch.from_numpy(shard.index)].
        """
        if not _is_truth(whole):
            return self._shards._take(self.rank, whole, layout=layout, out=out)
        _check_truth(out, "out")
        taken = self._shards._take(self.rank, _as_numbers(whole), layout=layout) != 0
        if out is None:
            return cast(A, taken)
        _fill(out, taken, "out")
        return cast(A, out)

    def put(self, part: Any, whole: A, *, layout: str | None = None) -> A:
        """whole[:, index] = part, in place: the other way.  Returns whole, which all ranks together fill."""
        if not _is_truth(whole):
            return self._shards._put(self.rank, part, whole, layout=layout)
        _check_truth(part, "part")
        numbers = _as_numbers(whole)
        self._shards._put(self.rank, _as_numbers(part), numbers, layout=layout)
        _fill(whole, numbers != 0, "whole")
        return whole


class Shards(_gyre.Shards):
    """A batch, dealt out to ranks for context parallelism; shards[r] is what rank r holds.

    Attributes:
        batch: what is dealt out.
    """

    batch: Batch
    _ranks: int
    _layout: str

    def __new__(
        cls,
        batch: Batch | int,
        ranks: int,
        *,
        layout: str = "zigzag",
        chunk_multiple: int = 1,
        causal: bool = True,
        window: int | tuple[int | None, int | None] | None = None,
        sinks: int | None = None,
    ) -> Self:
        """The shards of a batch.

        Args:
            batch: a number is one document of as many tokens.
            layout: "contiguous", "zigzag" (2 ranks parts; rank r has parts r and 2 ranks - 1 - r), "striped" (token t
                belongs to rank t % ranks) or "zigzag_per_document" (of a packed row).
            chunk_multiple: parts begin at multiples of this; striped: tokens go in runs of it.
            causal, window, sinks: what is counted as work, as in gyre.attention, by order.

        Raises:
            gyre.Error: EINVAL, with the argument at fault.
        """
        before, after = window if isinstance(window, tuple) else (window, 0)
        try:
            whole = batch if isinstance(batch, _gyre.Batch) else Batch([operator.index(batch)])
        except TypeError as error:
            message = f"batch: is a {type(batch).__name__}, neither a gyre.Batch nor a number of tokens"
            raise Error("EINVAL", message, "batch") from error
        self = cls._create(
            whole,
            ranks,
            layout=layout,
            chunk_multiple=chunk_multiple,
            causal=causal,
            window=before or 0,
            window_after=after or 0,
            sinks=sinks or 0,
        )
        self.batch = whole
        self._ranks, self._layout = operator.index(ranks), layout
        return self

    def __repr__(self) -> str:
        tokens = sorted({shard.tokens for shard in self})
        each = f"{tokens[0]}" if len(tokens) == 1 else f"{tokens[0]} to {tokens[-1]}"
        return f"<gyre.Shards {self._layout}: {self._ranks} ranks, {each} tokens of each row, imbalance {self.imbalance:.4g}>"

    @property
    def imbalance(self) -> float:
        """The most pairs of a rank / the mean of all ranks; 1 is even."""
        return self._imbalance()

    def __len__(self) -> int:
        return self._ranks

    @overload
    def __getitem__(self, rank: int) -> Shard: ...
    @overload
    def __getitem__(self, rank: slice) -> list[Shard]: ...
    def __getitem__(self, rank: int | slice) -> Shard | list[Shard]:
        if isinstance(rank, slice):
            return [Shard(self, r) for r in range(*rank.indices(len(self)))]
        at = operator.index(rank)
        if not -len(self) <= at < len(self):
            raise IndexError(f"rank {at} of {len(self)}")
        return Shard(self, at % len(self))

    def __iter__(self) -> Iterator[Shard]:
        return (Shard(self, rank) for rank in range(len(self)))

    def join(self, parts: Sequence[A], *, layout: str | None = None) -> A:
        """The whole, from what each rank has, in the order of ranks: an array of the kind and type of parts[0]."""
        if not any(_is_truth(part) for part in parts):
            joined: A = self._join(tuple(parts), layout)
            return joined
        for i, part in enumerate(parts):
            _check_truth(part, f"parts[{i}]")
        return cast(A, self._join(tuple(_as_numbers(part) for part in parts), layout) != 0)
