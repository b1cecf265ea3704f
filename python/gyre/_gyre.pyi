# Written by scripts/python-stubs from the extension itself.
import os
from collections.abc import Sequence
from typing import Any, Self, TypeVar

A = TypeVar("A")
B = TypeVar("B")

def jax_handler() -> Any: ...  # where the build has XLA

class Batch:
    """Positions of the tokens of documents."""
    @classmethod
    def _create(
        cls,
        *,
        form: str | None = None,
        documents: Any = None,
        lengths: Any = None,
        row_tokens: Any = None,
        mask: Any = None,
        cached: Any = None,
        first_positions: Any = None,
        axes: Any = None,
        spans: Any = None,
        steps: Any = None,
        span_starts: Any = None,
        after_grid: Any = None,
        padding_position: Any = None,
    ) -> Self: ...
    def _shape(self, *args: Any) -> tuple[int, int, int, int, int]: ...
    def _numbers(self, *args: Any) -> Any: ...
    def _shift_labels(self, labels: A, *, ignore: int = -100, layout: str | None = None, out: Any = None) -> A: ...

class Buffer:
    """Dense memory of a result, for from_dlpack and the buffer protocol."""
    def __dlpack__(self, *, max_version: Any = None) -> Any: ...
    def __dlpack_device__(self, *args: Any) -> tuple[int, int]: ...

class Cache:
    """Keys and values of earlier tokens of one layer, for several sequences, in pages.

    A sequence that is forked shares its pages until one of the two writes.  Moving tokens changes a number, not
    keys.  One call at a time uses a cache; others wait.  All its memory is taken when it is made.

    Args:
        encoding: None = positions are applied before.
        heads, head_dim: of keys; head_dim None = the encoding's.  value_dim: channels of values, None = head_dim.
        max_tokens: of all sequences together; shared ones count once.
        keys: "rotated" = rotated once, which is faster; "raw" = rotated each time they are read; "default" = rotated
            where the encoding allows it.  The attribute `keys` says which.
        dtype, value_dtype: "float32", "float16", "bfloat16" or "q8"; value_dtype None = dtype.
        page_tokens: tokens of a page; 0 = one page for each sequence.
        length: the context length in use of rotated keys; None = the encoding's.
        gate_heads: query heads whose gate sums each key keeps, a multiple of heads; append then takes gate_sums.
        values_in_keys: True = the value of a token is the first value_dim channels of its key (None = those before
            the rotated ones): the latents of multi-head latent attention.  append then takes no v.
    """
    def __new__(
        cls,
        encoding: Encoding | None = None,
        *,
        heads: int,
        max_tokens: int,
        head_dim: int | None = None,
        value_dim: int | None = None,
        keys: str = "default",
        dtype: str = "float32",
        value_dtype: str | None = None,
        sequences: int = 1,
        page_tokens: int = 0,
        length: int | None = None,
        gate_heads: int = 0,
        values_in_keys: bool = False,
    ) -> Self: ...
    @classmethod
    def load(cls, path: str | os.PathLike[str], encoding: Encoding | None = None) -> Self:
        """The cache that save wrote; encoding: that of the saved one, which the file knows by its frequencies."""
    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes all sequences and a checksum to a file, which appears whole or not at all."""
    def append(
        self,
        k: Any,
        v: Any = None,
        positions: Any = None,
        *,
        sequence: int | None = None,
        layout: str | None = None,
        length: int = 0,
        gate_sums: Any = None,
        sequences: Sequence[int] | None = None,
        starts: Any = None,
    ) -> None:
        """Appends tokens: raw keys and values, [tokens, heads, channels] ('thd') or 'bhsd' with batch 1, of float16,
        bfloat16 or float32, any strides.  v None where values are in keys.  positions None = after the last token.
        sequence: None = 0.  sequences: those of a call for several, each once: tokens starts[i] .. starts[i + 1] - 1 are those
        of sequences[i]; starts None = one token each, which may be batch rows.
        gate_sums, for a cache with gate_heads: [tokens, gate_heads], or [1, gate_heads, tokens] with 'bhsd', float32 or
        float64: those of gyre.gate_sums from the first token of the sequence on.  All or nothing.  Raises gyre.Error.
        """
    def attention(
        self,
        q: Any,
        sequences: Sequence[int] | None = None,
        *,
        query_starts: Any = None,
        out: Any = None,
        lse: bool = False,
        weights: bool = False,
        scores: bool = False,
        order: str | None = None,
        causal: bool | str = True,
        layout: str | None = None,
        positions: Any = None,
        window: int | tuple[int | None, int | None] | None = None,
        sinks: int | None = None,
        scale: float | None = None,
        softcap: float | None = None,
        tables: Any = None,
        mask: Any = None,
        sink_logits: Any = None,
        key_first: Any = None,
        key_end: Any = None,
        length: int | None = None,
        query_gate_sums: Any = None,
    ) -> Any:
        """gyre.attention over the tokens of sequences[b] for batch row b; None = 0, 1, 2, ...

        query_starts: a ragged batch, layout "thd": queries query_starts[i] .. query_starts[i + 1] - 1 see the tokens of
        sequences[i].
        Append the tokens of the queries first.  positions None = the last tokens of each sequence, or the last
        before key_end, at the positions that these have.
        """
    def contextual_attention(
        self,
        q: Any,
        embeddings: Any,
        *,
        sequences: Sequence[int] | None = None,
        lse: bool = False,
        scale: float | None = None,
        gate_scale: float | None = None,
        position_scale: float | None = None,
        layout: str | None = None,
        key_first: Any = None,
        key_end: Any = None,
    ) -> Any:
        """gyre.contextual_attention over the tokens of sequences[b] for batch row b; None = 0, 1, 2, ...

        Append the tokens of the queries first: the last query stands beside the last token, or the last before key_end.
        The cache has no encoding, because queries count positions.  key_first, key_end: one number a row, counted in
        its sequence.
        """
    def adaptive_attention(
        self,
        q: Any,
        hidden_weights: Any,
        output_weights: Any,
        *,
        sequences: Sequence[int] | None = None,
        lse: bool = False,
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
        key_first: Any = None,
        key_end: Any = None,
    ) -> Any:
        """gyre.adaptive_attention over the tokens of sequences[b] for batch row b; None = 0, 1, 2, ...

        Append the tokens of the queries first.  The biases are those of the cache's encoding at the positions of its
        tokens; positions: of the queries, None = those of the last tokens of each sequence, of those before key_end.
        bias has the keys of the longest sequence.  key_first, key_end: one number a row, counted in its sequence.
        """
    def tokens(self, sequence: int = 0) -> int:
        """Tokens of a sequence."""
    def positions(self, sequence: int = 0, axis: int = 0) -> Any:
        """Current positions of the tokens of a sequence, int64 [tokens]."""
    def remove(self, first: int, count: int, *, sequence: int = 0) -> None:
        """Removes tokens first .. first + count - 1.  Later tokens keep their positions."""
    def shift(self, first: int, count: int, delta: int | Sequence[int], *, sequence: int = 0) -> None:
        """Adds delta, one number or one for each axis, to the positions of tokens.  Factors are not applied again."""
    def fork(self, source: int, target: int) -> None:
        """Makes sequence `target` a copy of `source`, whatever it was."""
    def slide(self, sinks: int, window: int, *, sequence: int = 0) -> int:
        """Keeps the first `sinks` tokens and the last window - sinks (StreamingLLM); returns the next position."""
    def set_encoding(self, encoding: Encoding, length: int | None = None) -> None:
        """Moves the cache to another encoding without reading the text again."""
    def usage(self) -> dict[str, int]:
        """What is in use: bytes, used (bytes), pages, free_pages, tokens, shared_tokens;
        and token_bytes, what a token takes.
        """
    @property
    def keys(self) -> str:
        """"raw" or "rotated": how keys are kept."""

class Caches:
    """The caches of all layers of a model: each call edits all of them or none.

    Layers may differ in shape, types, pages and encoding, but a sequence that is edited must have the same number of
    tokens in all; fork does not need that.  Nothing is copied: tokens are appended to the caches themselves.  An error
    names the layer, and no layer has changed.

    Args:
        layers: a Cache for each layer, or None for a layer without one.
    """
    def __new__(cls, layers: Sequence[Cache | None]) -> Self: ...
    @classmethod
    def load(cls, path: str | os.PathLike[str], encodings: Sequence[Encoding | None]) -> Self:
        """The caches that save wrote; encodings: of each layer that of the saved cache, or None, as in Cache.load."""
    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the caches of all layers to one file, which appears whole or not at all."""
    def remove(self, first: int, count: int, *, sequence: int = 0) -> None:
        """Cache.remove in every layer."""
    def shift(self, first: int, count: int, delta: int | Sequence[int], *, sequence: int = 0) -> None:
        """Cache.shift in every layer."""
    def fork(self, source: int, target: int) -> None:
        """Cache.fork in every layer."""
    def slide(self, sinks: int, window: int, *, sequence: int = 0) -> None:
        """Cache.slide in every layer.  The next position is `window` where the sequence had more tokens."""
    @property
    def layers(self) -> tuple[Cache | None, ...]:
        """The cache of each layer, or None."""

class Context:
    """One sequence that a model reads, with its keys and values."""
    @classmethod
    def _create(cls, *args: Any) -> Self: ...
    def _read(self, *args: Any) -> Any: ...
    def _next(self, *args: Any) -> tuple[int, int]: ...
    def _tokens(self, *args: Any) -> int: ...
    def truncate(self, tokens: int, /) -> None:
        """Forgets all but the first `tokens`."""

class Encoding:
    """A position encoding, from the fields of a gyre_config.  Never changes."""
    def __new__(cls, **fields: Any) -> Self: ...
    def rotate(
        self,
        x: A,
        positions: Any = None,
        *,
        layout: str | None = None,
        role: str = "query",
        direction: str = "forward",
        length: int = 0,
        out: Any = None,
    ) -> A:
        """Rotates queries or keys: out[token] = E(position of token) x[token].  Su 2021, arXiv 2104.09864.

        Args:
            x: an array of numpy, torch or JAX, or with __dlpack__ or the buffer protocol, of float16, bfloat16, float32 or
                float64, any strides.  Nothing is copied.
            positions: None = 0, 1, 2, ...; an int p = p, p + 1, ...; int32 or int64 [tokens] or [batch, tokens]; for an
                encoding with several axes [axes, tokens] or [axes, batch, tokens].
            layout: what the axes of x are: b batch, s or t token, h head, d channel.  None = 'bhsd', of three axes 'thd'.
            role: 'query' or 'key'; they differ under a temperature and under xPos.
            direction: 'inverse' undoes a rotation, 'adjoint' is its transpose, hence the gradient.
            length: the context length in use, in tokens, where frequencies depend on it; 0 = the encoding's own.
            out: memory for the result, shaped and typed as x; x itself for a rotation in place.

        Returns an array of the caller's kind, or out.  Angles are computed in double and rounded once; float16 and
        bfloat16 are computed in float32 and rounded once.  Raises gyre.Error; also where the encoding does not rotate
        (EUNSUPPORTED), such as ALiBi.
        """
    def rotate_pair(
        self,
        q: A,
        k: B,
        positions: Any = None,
        *,
        layout: str | None = None,
        length: int = 0,
        out: Any = None,
    ) -> tuple[A, B]:
        """Rotates the queries and the keys of the same tokens in one call.  k may have fewer heads.

        out: a pair of arrays; out=(q, k) is a rotation in place.  Returns (q, k).  The rest is as in rotate.
        """
    def _cos_sin(
        self,
        positions: Any,
        *,
        tokens: int | None = None,
        double: bool = False,
        pairs: bool = False,
        length: int = 0,
    ) -> tuple[Any, Any]: ...
    def _bias(
        self,
        queries: Any,
        keys: Any = None,
        *,
        tables: Any = None,
        double: bool = False,
        length: int = 0,
        scores: Any = None,
    ) -> Any: ...
    def bias_gradient(
        self,
        dscores: Any,
        queries: Any,
        keys: Any = None,
        *,
        tables: Any = None,
        length: int | None = None,
    ) -> dict[str, Any]:
        """The gradient of a loss to the bias table, {"bias": float32}, given that to the scores."""
    def add(self, x: A, positions: Any = None, *, tables: Any = None, layout: str | None = None, out: Any = None) -> A:
        """Adds positions at the input of a model: out[token] = x[token] + p(position of token).

        x: [batch, tokens, channels] or [tokens, channels].  tables: the learned table, [rows, channels] of float32 or
        float64.  out: memory for the result; x itself for an addition in place.  Raises gyre.Error where the encoding
        adds nothing at the input.  Vaswani 2017, arXiv 1706.03762; Gehring 2017, arXiv 1705.03122.
        """
    def add_gradient(
        self,
        dout: Any,
        positions: Any = None,
        *,
        tables: Any = None,
        layout: str | None = None,
    ) -> dict[str, Any]:
        """The gradient of a loss to the input table, given dout, shaped as x of add.  Returns {'input': float32}.
        The gradient to x is dout itself.
        """
    def _config(self, *args: Any) -> dict[str, Any]: ...
    def _frequencies(self, *args: Any) -> tuple[list[float], float, tuple[int, int, int]]: ...
    def _phases(self, *args: Any) -> tuple[list[tuple[int, int]], float]: ...
    def _slopes(self, *args: Any) -> list[float]: ...
    def _places(self, *args: Any) -> int: ...
    def _table_shapes(self, *args: Any) -> dict[str, tuple[int, int, int, int]]: ...
    def _row_source(self, *args: Any) -> str: ...
    def row(self, m: int, n: int, /) -> int:
        """The table row for a query at position m and a key at position n.  Raises gyre.Error."""

class Model:
    """A model, mapped and run in the type it is stored in."""
    @classmethod
    def _open(cls, *args: Any) -> Self: ...
    @classmethod
    def _check(cls, *args: Any) -> Any: ...
    def about(self, *args: Any) -> dict[str, Any]:
        """what it is"""

class PreparedAttention:
    """gyre.attention that is checked and planned once, for many small calls over the same memory: a token after the other.

    Arguments as in gyre.attention.  k and v have room for the most keys.  No array is copied: run() reads what they hold
    then, on the calling thread, and writes the same result again, which is the attribute `result`: out, or (out, lse).
    Raises gyre.Error.
    """
    def __new__(
        cls,
        q: Any,
        k: Any,
        v: Any,
        *,
        encoding: Encoding | None = None,
        out: Any = None,
        lse: bool = False,
        order: str | None = None,
        causal: bool | str = False,
        layout: str | None = None,
        positions: Any = None,
        window: int | tuple[int | None, int | None] | None = None,
        sinks: int | None = None,
        scale: float | None = None,
        softcap: float | None = None,
        tables: Any = None,
        mask: Any = None,
        sink_logits: Any = None,
        key_first: Any = None,
        key_end: Any = None,
        length: int | None = None,
        query_gate_sums: Any = None,
        key_gate_sums: Any = None,
        key_positions: Any = None,
        query_starts: Any = None,
        key_starts: Any = None,
        query_end: Any = None,
        dropout: float | None = None,
        seed: int | None = None,
    ) -> Self: ...
    def run(
        self,
        q: Any = None,
        k: Any = None,
        v: Any = None,
        *,
        keys: int | None = None,
        position: int | None = None,
        key_position: int | None = None,
    ) -> Any:
        """Runs the call and returns `result`, whose memory it writes.

        Args:
            q, k, v: other arrays of the same type, shape and strides, kept for later runs; None = those of the last.
            keys: the call has the first `keys` keys of k and v; None = as many as in the last run.
            position: of the first query; None = the last query is beside the last key, or, with positions at creation, as
                there.  key_position: of the first key; None = 0.  Positions that were an array are read where they were.
        """
    @property
    def result(self) -> Any:
        """What each run writes: out, or (out, lse)."""

class Shards:
    """A batch that is dealt out to ranks."""
    @classmethod
    def _create(
        cls,
        batch: Batch,
        ranks: int,
        *,
        layout: str | None = None,
        chunk_multiple: Any = None,
        causal: bool | str | None = None,
        window: int | tuple[int | None, int | None] | None = None,
        window_after: Any = None,
        sinks: int | None = None,
    ) -> Self: ...
    def _get(self, *args: Any) -> dict[str, Any]: ...
    def _imbalance(self, *args: Any) -> float: ...
    def _take(self, rank: int, whole: A, *, layout: str | None = None, out: Any = None) -> A: ...
    def _put(self, rank: int, part: Any, whole: A, *, layout: str | None = None) -> A: ...
    def _join(self, *args: Any) -> Any: ...

class Tokenizer:
    """Text to ids and back."""
    @classmethod
    def _open(cls, *args: Any) -> Self: ...
    def _encode(self, *args: Any) -> list[int]: ...
    def _decode(self, *args: Any) -> bytes: ...
    def _special(self, *args: Any) -> Any: ...
    def _notes(self, *args: Any) -> str: ...

def adaptive_attention(
    q: Any,
    k: Any,
    v: Any,
    hidden_weights: Any,
    output_weights: Any,
    *,
    lse: bool = False,
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
    key_first: Any = None,
    key_end: Any = None,
    query_starts: Any = None,
    key_starts: Any = None,
    encoding: Encoding | None = None,
    key_positions: Any = None,
) -> Any:
    """Attention with data-adaptive biases (DAPE, Zheng 2024, arXiv 2405.14722), exact and without n x n memory.

    A network reads the scaled products A and the biases B of all heads of a query and a key, and gives each head a
    number that is added to its score: A + B + f([A, B]), f(x) = output_bias + output_weights leaky_relu(hidden_bias
    + hidden_weights x).

    Args:
        q, k, v: any arrays, layout as in gyre.attention.  All is computed in float32.
        hidden_weights: [hidden units, 2 x heads], the weights of A first; [hidden units, heads] for "add-residual".
        output_weights: [heads, hidden units].  hidden_bias: [hidden units]; output_bias: [heads]; None = zeros.
        form: "concat-residual" (the default, as in the released code), "concat": A + f([A, B]), or "add-residual":
            A + B + f(A + B), which without a bias is A + f(A), for queries and keys that are rotated before.
        slope: of the leaky ReLU below 0; default 0.01.  scale: of q . k; default 1 / sqrt(channels).
        causal: True or "order" = the last query stands beside the last key, and each before it sees one key fewer;
            False or "none" = each sees all.
        encoding: whose biases B are: gyre.alibi, t5, kerple, fire or sandwich.  tables: those of the scheme.
        positions, key_positions, length: of the scheme, as in gyre.attention.  None: keys stand at 0, 1, 2, ...,
            and the last query beside the last key, also in each sequence of a packed or padded batch.
        bias: [batch, heads, queries, keys], fewer axes from the left or 1 to broadcast: numbers that are added to
            B.
        query_starts, key_starts, key_first, key_end: a packed batch and padding, as in gyre.attention.
        lse: True returns (result, log-sum-exp in float32).

    Raises gyre.Error.
    """
def adaptive_gradient(
    dout: Any,
    q: Any,
    k: Any,
    v: Any,
    hidden_weights: Any,
    output_weights: Any,
    out: Any,
    lse: Any,
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
    key_first: Any = None,
    key_end: Any = None,
    query_starts: Any = None,
    key_starts: Any = None,
    encoding: Encoding | None = None,
    key_positions: Any = None,
) -> tuple[Any, Any, Any, dict[str, Any]]:
    """(dq, dk, dv, others), given dout and what adaptive_attention(..., lse=True) returned.

    others: "hidden_weights", "output_weights", and of what was given "hidden_bias", "output_bias" and "bias", the
    last [batch, heads, queries, keys] whatever was broadcast; "tables": a dict by name.  Gradients to the network
    are float64 where it is, else float32.  Raises gyre.Error.
    """
def after_fork(*args: Any) -> None:
    """Forgets the threads of the parent process."""
def angle_gradient(
    rotated: Any,
    dout: Any,
    angles: Any,
    *,
    pairs: str = "half",
    first_channel: int = 0,
    layout: str | None = None,
) -> Any:
    """The gradient to angles, given what angle_rotate returned and its gradient; shaped and typed as the angles.

    For angles that are sums along the sequence, gate_sums_gradient makes of it that to what was summed.  Raises
    gyre.Error.
    """
def angle_rotate(
    x: A,
    angles: Any,
    *,
    pairs: str = "half",
    first_channel: int = 0,
    layout: str | None = None,
    direction: str = "forward",
) -> A:
    """x with pair i of head h of token t rotated by angles[t, h, i]: angles that a network makes of the tokens.

    Angles that add up along the sequence, as in Selective RoPE (Movahedi 2025, arXiv 2511.17388), are those of
    gate_sums.  The rotated queries and keys go to gyre.attention without an encoding.

    Args:
        x: queries or keys, any array; layout as in Encoding.rotate.
        angles: float32 or float64 with the axes of x, [batch, heads or 1, tokens, pairs], radians; 1 = all heads
            share them.  Sums of many are float64: a float32 near 10000 is off by up to 5e-4.
        pairs: "half" or "interleaved"; first_channel: where they begin.  Other channels pass through.
        direction: "forward", or "inverse" and "adjoint", which are the same: the gradient to x is the adjoint of
            that to the result.

    Raises gyre.Error.
    """
def attention(
    q: Any,
    k: Any,
    v: Any,
    *,
    encoding: Encoding | None = None,
    out: Any = None,
    lse: bool = False,
    weights: bool = False,
    scores: bool = False,
    order: str | None = None,
    causal: bool | str = False,
    layout: str | None = None,
    positions: Any = None,
    window: int | tuple[int | None, int | None] | None = None,
    sinks: int | None = None,
    scale: float | None = None,
    softcap: float | None = None,
    tables: Any = None,
    mask: Any = None,
    sink_logits: Any = None,
    key_first: Any = None,
    key_end: Any = None,
    length: int | None = None,
    query_gate_sums: Any = None,
    key_gate_sums: Any = None,
    key_positions: Any = None,
    query_starts: Any = None,
    key_starts: Any = None,
    query_end: Any = None,
    dropout: float | None = None,
    seed: int | None = None,
) -> Any:
    """softmax(scale q . k) v with positions applied to raw q, k and v, in one pass and without an n x n matrix.

    Args:
        q, k, v: arrays of float16, bfloat16 or float32, any strides, [batch, heads, tokens, channels] for layout
            "bhsd". Query heads are a multiple of key heads.  All three float64: computed in double, slowly, for checks
            of gradients.
        encoding: None = without positions, or they were applied before.
        layout: "bhsd" (the default of four axes), "bshd", "thd" (of three) or other letters.
        positions, key_positions: of queries and keys, as in Encoding.rotate.  None: keys stand at 0, 1, 2, ..., and
            the last query beside the last key.
        causal: True or "position" = a query sees keys at positions not above its own; "order" = counted in tokens.
        window: a query sees keys less than `window` positions away; (before, after) names each side; None and 0 =
            all, of a side too.
        sinks: keys at positions below this are seen whatever the window (StreamingLLM, arXiv 2309.17453).
        scale: of q . k; None = 1 / sqrt(channels).  softcap: c tanh(s / c) of a score s (Gemma 2).
        tables: of schemes that train some: a dict of arrays by name, or the one table there is.
        mask: [batch, heads, queries, keys], fewer axes from the left or 1 to broadcast; numbers to add, or truth
            values, True where a key is seen.
        sink_logits: float32 [heads] (or float64 with such q): a score without a key in each softmax (gpt-oss).
        dropout: probability of a weight to become 0, drawn from `seed`.
        query_starts, key_starts: a packed batch, "thd": sequence s is tokens starts[s] .. starts[s + 1] - 1.
            Positions None then begin at 0 in each, of queries too.
        key_first, key_end: padding: row b has keys key_first[b] .. key_end[b] - 1.  query_end: see q_end in gyre_attention.h.
        order: "fixed" = the bits of a query do not depend on how its sequence is cut into calls.
        length: the context length in use.
        query_gate_sums, key_gate_sums: float32 or float64 [batch, heads, tokens], in the layout of q without
            channels, a number for each token and query head whose difference is added to scores: running sums of
            log forget gates (Forgetting Transformer, arXiv 2503.02130).  numpy.cumsum in float64 makes them.
        out: memory for the result, shaped as q with the channels of v.
        lse: True = return (out, lse), lse float32 (float64 with such q) without the axis of channels: the log-sum-exp
            of each row.
        weights, scores: True = return them too, after lse, float32 [batch, heads, queries, keys of the longest
            sequence] in any layout: the softmax without dropout, and what it reads, after biases, softcap and mask.
            They are computed again, key by key, and have no gradient.

    Returns an array of the kind and type of q.  A row that sees no key is zeros.  Sums are of floats, or of
    doubles.

    Raises:
        gyre.Error: it names the argument, what it is and what would be right.
    """
def attention_gradient(
    dout: Any,
    q: Any,
    k: Any,
    v: Any,
    out: Any,
    lse: Any,
    *,
    dlse: Any = None,
    encoding: Encoding | None = None,
    float32: bool = False,
    causal: bool | str = False,
    layout: str | None = None,
    positions: Any = None,
    window: int | tuple[int | None, int | None] | None = None,
    sinks: int | None = None,
    scale: float | None = None,
    softcap: float | None = None,
    tables: Any = None,
    mask: Any = None,
    sink_logits: Any = None,
    key_first: Any = None,
    key_end: Any = None,
    length: int | None = None,
    query_gate_sums: Any = None,
    key_gate_sums: Any = None,
    key_positions: Any = None,
    query_starts: Any = None,
    key_starts: Any = None,
    query_end: Any = None,
    dropout: float | None = None,
    seed: int | None = None,
) -> tuple[Any, Any, Any, dict[str, Any]]:
    """Gradients of a loss to raw q, k and v and to the tables, given those to out and to lse.

    out, lse: what attention(..., lse=True) returned for the same arguments.  dlse: of the type and shape of lse;
    None = 0.
    float32: True = gradients of float32 for inputs of less; needed where queries of a sequence differ in their context
    length.

    Returns (dq, dk, dv, {table: gradient}), the dict also with "sink_logits", "query_gate_sums"
    and "key_gate_sums" where those were given, the latter in their type; the others float32, or float64 with such q.
    """
def audit_angles(
    table: Any,
    *,
    path: str | os.PathLike[str] | None = None,
    text: str | None = None,
    profile: str | None = None,
    length: int | None = None,
) -> dict[str, Any]:
    """What a table of angles is, against a config."""
def check_array(*args: Any) -> None:
    """Refuses what cannot be read, by the name of the argument."""
def config_fields(*args: Any) -> list[dict[str, Any]]:
    """The rows of config.def: what each field of a config is."""
def contextual_attention(
    q: Any,
    k: Any,
    v: Any,
    embeddings: Any,
    *,
    lse: bool = False,
    scale: float | None = None,
    gate_scale: float | None = None,
    position_scale: float | None = None,
    layout: str | None = None,
    key_first: Any = None,
    key_end: Any = None,
    query_starts: Any = None,
    key_starts: Any = None,
    gate_keys: Any = None,
) -> Any:
    """gyre.contextual_attention over the tokens of sequences[b] for batch row b; None = 0, 1, 2, ...

    Append the tokens of the queries first: the last query stands beside the last token, or the last before key_end.
    The cache has no encoding, because queries count positions.  key_first, key_end: one number a row, counted in
    its sequence.
    """
def contextual_gradient(
    dout: Any,
    q: Any,
    k: Any,
    v: Any,
    embeddings: Any,
    out: Any,
    lse: Any,
    *,
    scale: float | None = None,
    gate_scale: float | None = None,
    position_scale: float | None = None,
    layout: str | None = None,
    key_first: Any = None,
    key_end: Any = None,
    query_starts: Any = None,
    key_starts: Any = None,
    gate_keys: Any = None,
) -> tuple[Any, Any, Any, Any, Any]:
    """(dq, dk, dv, dembeddings, dgate_keys or None), given dout and what contextual_attention(..., lse=True) returned.

    dembeddings is float64 where the embeddings are, else float32; the others are of the type of what they are of.
    Raises gyre.Error.
    """
def draw_positions(draw: str, tokens: int, range: int, *, rows: int = 1, seed: int = 0) -> Any:
    """Random positions of training sequences, from 0 .. range - 1: int64 [rows, tokens], rising in each row.

    draw: "randomized", a set of them, each equally likely (arXiv 2305.16843); "shape", consecutive ones from
    a random start (2109.05644); "pose", two chunks with a random gap (2309.10400); "none", 0, 1, 2, ...
    The same seed gives the same positions on every machine, and more rows begin with those of fewer.
    """
def fourier_gradient(
    x: Any,
    dout: Any,
    frequencies: Any,
    cosines: Any,
    sines: Any,
    positions: Any = 0,
    *,
    pairs: str = "half",
    all_pairs: int | None = None,
    rest: str = "still",
    first_channel: int = 0,
    layout: str | None = None,
) -> tuple[Any, Any, Any]:
    """(gradient to frequencies, to cosines, to sines), given x and the gradient to the result of fourier_rotate.

    Each is shaped and typed as what it is of.  Raises gyre.Error.
    """
def fourier_rotate(
    x: A,
    frequencies: Any,
    cosines: Any,
    sines: Any,
    positions: Any = 0,
    *,
    pairs: str = "half",
    all_pairs: int | None = None,
    rest: str = "still",
    first_channel: int = 0,
    layout: str | None = None,
    direction: str = "forward",
) -> A:
    """FoPE (Hua 2024, arXiv 2412.17739): pair i of head h at position m is multiplied by the complex number C + i S.

    C is the sum over terms t of cosines[h][t][i] cos(m frequencies[t]), S that of sines[h][t][i] sin(m
    frequencies[t]).  FoPE's frequencies are those of gyre.rope(head_dim).frequencies() that are 2 pi / L or more,
    with L the trained length.

    Args:
        x: queries or keys, any array; layout as in Encoding.rotate.
        frequencies: float32 or float64 [terms], radians per position.
        cosines, sines: float32 or float64 [heads or 1, terms, pairs with a series]; they may be one array.
        positions: those of Encoding.rotate, on one axis.
        pairs: "half" or "interleaved"; first_channel: where they begin.  Other channels pass through.
        all_pairs: pairs with a series and the rest behind them (None = no rest), channels // 2 for a whole head.
        rest: "still" = the rest passes through, as frequency 0 does, or "released" = as the released code pads it:
            both cos and sin are 1 there, so (x, y) becomes (x - y, x + y).
        direction: "forward", "inverse" = divided by C + i S, "adjoint" = times C - i S: the gradient to x is the
            adjoint of that to the result.

    Raises gyre.Error.
    """
def gate_sums(
    log_gates: Any,
    *,
    layout: str | None = None,
    starts: Any = None,
    initial: Any = None,
    double: bool = True,
) -> Any:
    """sums[t] = log_gates[0] + ... + log_gates[t] for each head, added in double in the order of tokens.

    attention(..., query_gate_sums=sums, key_gate_sums=sums) then has the forget gates of the Forgetting Transformer
    (Lin 2025, arXiv 2503.02130).

    Args:
        log_gates: the logarithms of gates in (0, 1], [batch, heads, tokens], or [tokens, heads] of a packed batch:
            the axes of queries but channels.  With an axis more, [batch, heads, tokens, pairs], they are the angles
            of angle_rotate; name the layout of a packed batch then.  A padding token has 0.  They are added as they are: numbers above 0,
            as gates in the place of their logarithms, are not refused, and NaN or an infinity is in every sum after
            it.
        layout: that of the queries, "bhsd" (None), "bshd", "thd" (None with two axes) or the like.
        starts: a packed batch: sequence s is tokens starts[s] .. starts[s + 1] - 1, and its sums begin at 0.
        initial: float64 [batch, heads], or [sequences, heads] of a packed batch, of angles with an axis of pairs:
            the sums before the first token, where a sequence comes in pieces.
        double: True = float64, which keeps differences of large sums; False = float32, for short sequences.

    Returns an array of the kind of log_gates, shaped alike.  Raises gyre.Error.
    """
def gate_sums_gradient(
    dquery_gate_sums: Any,
    dkey_gate_sums: Any = None,
    *,
    layout: str | None = None,
    starts: Any = None,
) -> Any:
    """The gradient to log_gates, given those to the sums of queries and of keys, which attention_gradient returns.

    At each token: both added over it and the tokens after it in its sequence, in double.  Arguments as in
    gate_sums; float32 or float64.  Returns an array shaped and typed as the first.  Raises gyre.Error.
    """
def get_threads() -> int:
    """Threads that calls compute with."""
def paged_attention(
    q: Any,
    key_pages: Any,
    value_pages: Any,
    indices: Any,
    key_lengths: Any = None,
    *,
    indptr: Any = None,
    last_page_len: Any = None,
    query_starts: Any = None,
    page_layout: str | None = None,
    encoding: Encoding | None = None,
    out: Any = None,
    lse: bool = False,
    weights: bool = False,
    scores: bool = False,
    order: str | None = None,
    causal: bool | str = True,
    layout: str | None = None,
    positions: Any = None,
    window: int | tuple[int | None, int | None] | None = None,
    sinks: int | None = None,
    scale: float | None = None,
    softcap: float | None = None,
    tables: Any = None,
    mask: Any = None,
    sink_logits: Any = None,
    key_first: Any = None,
    key_end: Any = None,
    length: int | None = None,
    query_gate_sums: Any = None,
) -> Any:
    """gyre.attention over keys and values in pages, which are read where they are.

    Args:
        q: batch row s has the queries of sequence s; with query_starts, layout "thd", sequence s has queries
            query_starts[s] .. query_starts[s + 1] - 1.
        key_pages, value_pages: arrays of float16, bfloat16 or float32, [pages, tokens, heads, channels] for
            page_layout "NHD" (the default), [pages, heads, tokens, channels] for "HND".
        indices: int32, the pages of each sequence in order: [sequences, pages] with key_lengths, as in vLLM; [pages] with
            indptr and last_page_len, as in FlashInfer.
        key_lengths: int32 [sequences], tokens of each sequence.
        indptr: int32 [sequences + 1]: sequence s has pages indices[indptr[s]] .. indices[indptr[s + 1] - 1].
        last_page_len: int32 [sequences]: tokens of the last of them.
        positions: of the queries; None = the last tokens of each sequence.  Keys are at 0, 1, 2, ...
        encoding: None = keys are rotated already, as q is.

    The bits are those of gyre.attention over the same keys in one array.
    """
def polar_gradient(
    x: A,
    dout: Any,
    frequencies: Any,
    positions: Any = 0,
    *,
    phases: Any = None,
    pairs: str = "half",
    layout: str | None = None,
) -> tuple[A, Any, Any]:
    """(gradient to x, to frequencies, to phases or None), given x and the gradient to the result of polar_rotate.

    Raises gyre.Error.
    """
def polar_rotate(
    x: A,
    frequencies: Any,
    positions: Any = 0,
    *,
    phases: Any = None,
    pairs: str = "half",
    layout: str | None = None,
) -> A:
    """PoPE (Gopalakrishnan 2025, arXiv 2509.10534): each channel becomes a complex number, so the result has twice as
    many.

    Its magnitude is softplus(x), its angle phases + sum over axes of position times frequency.  Rotate queries
    without phases and keys with them, and pass both to gyre.attention without an encoding and with scale=channels
    ** -0.5.

    Args:
        x: queries or keys, any array; layout as in Encoding.rotate.
        frequencies: float32 or float64 [axes, heads or 1, channels]; PoPE's are gyre.rope(2 *
            channels).frequencies().
        positions: those of Encoding.rotate.
        phases: float32 or float64 [heads or 1, channels], clamped to -2 pi .. 0.
        pairs: "half" = real parts, then imaginary ones; "interleaved" = beside each other.  Scores do not depend on
            it.

    Raises gyre.Error.
    """
def read(
    *,
    path: str | os.PathLike[str] | None = None,
    text: str | None = None,
    profile: str | None = None,
    length: int | None = None,
) -> dict[str, Any]:
    """Which positions a file describes."""
def rerotate(
    k: A,
    old: Encoding,
    new: Encoding | None = None,
    *,
    positions: Any = None,
    new_positions: Any = None,
    shift: int | Sequence[int] | None = None,
    length: int | None = None,
    new_length: int | None = None,
    layout: str | None = None,
    out: Any = None,
) -> A:
    """Keys that `old` rotated become those of `new`, in place: K' = E_new(p') E_old(p)^-1 K.

    A changed base, factor or LongRoPE list, another context length, keys moved by an offset.  Factors of cos and
    sin are not applied twice: a shift under YaRN changes no key's length.

    Args:
        k: keys, any array that may be written, any strides; layout as in Encoding.rotate.
        old, new: encodings that rotate the same channels in the same layout; new None = old, for a shift.
        positions: those that the keys were rotated for, p; None = 0, 1, 2, ...
        new_positions: p'; None = p.
        shift: p' = p + shift, one number or one for each axis.
        length, new_length: the context lengths in use under each; None = the encodings' own.
        out: memory for the result, for arrays that never change, such as JAX's.

    The difference of the angles is formed in double, and each key is rounded once.  Returns k, or out.
    Raises gyre.Error.
    """
def set_threads(threads: int) -> None:
    """Threads that later calls compute with; 0 = one per processor.  Results do not depend on it.
    The default is GYRE_THREADS in the environment, else 0.
    """
def trained_gradient(
    rotated: Any,
    dout: Any,
    frequencies: Any,
    positions: Any = 0,
    *,
    phases: Any = None,
    pairs: str = "half",
    first_channel: int = 0,
    layout: str | None = None,
) -> tuple[Any, Any]:
    """(gradient to frequencies, gradient to phases or None), given what trained_rotate returned and its gradient.

    Both are shaped and typed as what they are of.  Raises gyre.Error.
    """
def trained_rotate(
    x: A,
    frequencies: Any,
    positions: Any = 0,
    *,
    phases: Any = None,
    pairs: str = "half",
    first_channel: int = 0,
    layout: str | None = None,
    direction: str = "forward",
) -> A:
    """x with pair i of head h rotated by phases[h][i] + sum over axes a of position[a] frequencies[a][h][i].

    With two axes and frequencies for each head it is RoPE-Mixed (Heo 2024, arXiv 2403.13298).  The rotated queries
    and keys go to gyre.attention without an encoding.

    Args:
        x: queries or keys, any array; layout as in Encoding.rotate.
        frequencies: float32 or float64 [axes, heads or 1, pairs], radians per position.
        positions: those of Encoding.rotate: with several axes [axes, tokens] or [axes, batch, tokens].
        phases: float32 or float64 [heads or 1, pairs], radians.
        pairs: "half" or "interleaved"; first_channel: where they begin.  Other channels pass through.
        direction: "forward", or "inverse" and "adjoint", which are the same: the gradient to x is the adjoint of
            that to the result.

    Raises gyre.Error.
    """
def version(*args: Any) -> str:
    """The version of the library."""
