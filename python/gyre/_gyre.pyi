from typing import Any, Self, TypeVar

A = TypeVar("A")
B = TypeVar("B")

class Buffer:
    def __dlpack__(self, *, max_version: tuple[int, int] | None = None) -> Any: ...
    def __dlpack_device__(self) -> tuple[int, int]: ...

def config_fields() -> list[dict[str, Any]]: ...

class Encoding:
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
    ) -> A: ...
    def rotate_pair(
        self,
        q: A,
        k: B,
        positions: Any = None,
        *,
        layout: str | None = None,
        length: int = 0,
        out: tuple[Any, Any] | None = None,
    ) -> tuple[A, B]: ...
    def add(
        self,
        x: A,
        positions: Any = None,
        *,
        tables: Any = None,
        layout: str | None = None,
        out: Any = None,
    ) -> A: ...
    def add_gradient(
        self, dout: Any, positions: Any = None, *, tables: Any = None, layout: str | None = None
    ) -> dict[str, Any]: ...
    def row(self, m: int, n: int, /) -> int: ...
    def _cos_sin(
        self, positions: Any, *, tokens: int | None = None, double: bool = False, pairs: bool = False, length: int = 0
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
    def _bias_gradient(
        self, dscores: Any, queries: Any, keys: Any = None, *, tables: Any = None, length: int = 0
    ) -> dict[str, Any]: ...
    def _config(self, all: bool, /) -> dict[str, Any]: ...
    def _frequencies(self, length: int | None, /) -> tuple[list[float], float, tuple[int, int, int]]: ...
    def _slopes(self, length: int | None, /) -> list[float]: ...
    def _places(self) -> int: ...
    def _table_shapes(self) -> dict[str, tuple[int, int, int, int]]: ...
    def _row_source(self) -> str: ...

class Cache:
    @classmethod
    def _create(cls, **config: Any) -> Self: ...
    @classmethod
    def _load(cls, path: str, encoding: Encoding | None, /) -> Self: ...
    def append(
        self,
        k: Any,
        v: Any = None,
        positions: Any = None,
        *,
        sequence: int = 0,
        layout: str | None = None,
        length: int = 0,
        gate_sums: Any = None,
    ) -> None: ...
    def usage(self) -> dict[str, int]: ...
    def _attention(self, q: Any, sequences: Any = None, **options: Any) -> Any: ...
    def _contextual_attention(self, q: Any, embeddings: Any, **options: Any) -> Any: ...
    def _adaptive_attention(self, q: Any, hidden_weights: Any, output_weights: Any, **options: Any) -> Any: ...
    def _remove(self, sequence: int, first: int, count: int, /) -> None: ...
    def _shift(self, sequence: int, first: int, count: int, delta: Any, /) -> None: ...
    def _fork(self, source: int, target: int, /) -> None: ...
    def _slide(self, sequence: int, sinks: int, window: int, /) -> int: ...
    def _set_encoding(self, encoding: Encoding, length: int, /) -> None: ...
    def _positions(self, sequence: int, axis: int, /) -> Any: ...
    def _tokens(self, sequence: int, /) -> int: ...
    def _save(self, path: str, /) -> None: ...

class Model:
    @classmethod
    def _open(cls, path: str, profile: str | None, length: int, /) -> Self: ...
    def about(self) -> dict[str, Any]: ...

class Context:
    @classmethod
    def _create(cls, model: Model, max_tokens: int, cache: str, fixed: bool, /) -> Self: ...
    def _read(self, ids: Any, rows: int | None, /) -> Any: ...
    def _tokens(self) -> int: ...
    def truncate(self, tokens: int, /) -> None: ...

class Tokenizer:
    @classmethod
    def _open(cls, path: str, /) -> Self: ...
    def _encode(self, text: str | bytes, flags: int, /) -> list[int]: ...
    def _decode(self, ids: Any, flags: int, /) -> bytes: ...
    def _notes(self) -> str: ...

class Batch:
    @classmethod
    def _create(cls, **config: Any) -> Self: ...
    def _shape(self) -> tuple[int, int, int, int, int]: ...
    def _numbers(self, name: str, /) -> Any: ...
    def _shift_labels(self, labels: A, *, ignore: int = -100, layout: str | None = None, out: Any = None) -> A: ...

class Shards:
    @classmethod
    def _create(cls, batch: Batch, ranks: int, **config: Any) -> Self: ...
    def _get(self, rank: int, /) -> dict[str, Any]: ...
    def _imbalance(self) -> float: ...
    def _take(self, rank: int, whole: A, *, layout: str | None = None, out: Any = None) -> A: ...
    def _put(self, rank: int, part: Any, whole: A, *, layout: str | None = None) -> A: ...
    def _join(self, parts: tuple[Any, ...], layout: str | None, /) -> Any: ...

def version() -> str: ...
def set_threads(threads: int, /) -> None:
    """Threads that later calls compute with; 0 = one per processor.  Results do not depend on it."""

def get_threads() -> int:
    """Threads that calls compute with."""

def after_fork() -> None: ...
def jax_handler() -> Any: ...
def read(
    *, path: str | None = None, text: str | None = None, profile: str | None = None, length: int | None = None
) -> dict[str, Any]: ...
def check_array(array: Any, name: str, /) -> None: ...
def attention(q: Any, k: Any, v: Any, *, encoding: Encoding | None = None, **options: Any) -> Any: ...
def attention_gradient(
    dout: Any, q: Any, k: Any, v: Any, out: Any, lse: Any, *, encoding: Encoding | None = None, **options: Any
) -> tuple[Any, Any, Any, dict[str, Any]]: ...
def gate_sums(
    log_gates: Any, *, layout: str | None = None, starts: Any = None, initial: Any = None, double: bool = True
) -> Any: ...
def gate_sums_gradient(
    dquery_gate_sums: Any, dkey_gate_sums: Any = None, *, layout: str | None = None, starts: Any = None
) -> Any: ...
def trained_rotate(
    x: Any,
    frequencies: Any,
    positions: Any,
    *,
    phases: Any = None,
    pairs: str = "half",
    first_channel: int = 0,
    layout: str | None = None,
    direction: str = "forward",
) -> Any: ...
def trained_gradient(
    rotated: Any,
    dout: Any,
    frequencies: Any,
    positions: Any,
    *,
    phases: Any = None,
    pairs: str = "half",
    first_channel: int = 0,
    layout: str | None = None,
) -> tuple[Any, Any]: ...
def polar_rotate(
    x: Any, frequencies: Any, positions: Any, *, phases: Any = None, pairs: str = "half", layout: str | None = None
) -> Any: ...
def polar_gradient(
    x: Any, dout: Any, frequencies: Any, positions: Any, *, phases: Any = None, pairs: str = "half", layout: str | None = None
) -> tuple[Any, Any, Any]: ...
def adaptive_attention(
    q: Any,
    k: Any,
    v: Any,
    hidden_weights: Any,
    output_weights: Any,
    *,
    hidden_bias: Any = None,
    output_bias: Any = None,
    form: str | None = None,
    slope: float | None = None,
    scale: float | None = None,
    causal: bool | str = True,
    encoding: Any = None,
    tables: Any = None,
    positions: Any = None,
    key_positions: Any = None,
    length: int | None = None,
    bias: Any = None,
    layout: str | None = None,
    query_starts: Any = None,
    key_starts: Any = None,
    key_first: Any = None,
    key_end: Any = None,
    lse: bool = False,
) -> Any: ...
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
    encoding: Any = None,
    tables: Any = None,
    positions: Any = None,
    key_positions: Any = None,
    length: int | None = None,
    bias: Any = None,
    layout: str | None = None,
    query_starts: Any = None,
    key_starts: Any = None,
    key_first: Any = None,
    key_end: Any = None,
) -> tuple[Any, Any, Any, dict[str, Any]]: ...
def contextual_attention(
    q: Any,
    k: Any,
    v: Any,
    embeddings: Any,
    *,
    gate_keys: Any = None,
    scale: float | None = None,
    gate_scale: float | None = None,
    position_scale: float | None = None,
    layout: str | None = None,
    query_starts: Any = None,
    key_starts: Any = None,
    key_first: Any = None,
    key_end: Any = None,
    lse: bool = False,
) -> Any: ...
def contextual_gradient(
    dout: Any,
    q: Any,
    k: Any,
    v: Any,
    embeddings: Any,
    out: Any,
    lse: Any,
    *,
    gate_keys: Any = None,
    scale: float | None = None,
    gate_scale: float | None = None,
    position_scale: float | None = None,
    layout: str | None = None,
    query_starts: Any = None,
    key_starts: Any = None,
    key_first: Any = None,
    key_end: Any = None,
) -> tuple[Any, Any, Any, Any, Any]: ...
def fourier_rotate(
    x: Any,
    frequencies: Any,
    cosines: Any,
    sines: Any,
    positions: Any,
    *,
    pairs: str = "half",
    all_pairs: int | None = None,
    rest: str = "still",
    first_channel: int = 0,
    layout: str | None = None,
    direction: str = "forward",
) -> Any: ...
def fourier_gradient(
    x: Any,
    dout: Any,
    frequencies: Any,
    cosines: Any,
    sines: Any,
    positions: Any,
    *,
    pairs: str = "half",
    all_pairs: int | None = None,
    rest: str = "still",
    first_channel: int = 0,
    layout: str | None = None,
) -> tuple[Any, Any, Any]: ...
def rerotate(
    k: A,
    old: Encoding,
    new: Encoding,
    *,
    positions: Any = None,
    new_positions: Any = None,
    shift: Any = None,
    length: int = 0,
    new_length: int = 0,
    layout: str | None = None,
    out: Any = None,
) -> A: ...
