"""Models: a folder or a GGUF whose positions are read and whose perplexity is measured."""

from __future__ import annotations

import codecs
import contextlib
import json
import operator
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Self, TextIO, overload

import numpy
from numpy.typing import NDArray

from gyre import _command, _gyre
from gyre._encoding import BY_LENGTH, Encoding, read
from gyre._errors import Error, FileError, path_text
from gyre._guesses import Guessing, named
from gyre._results import Measurement, Result

Text = str | os.PathLike[str] | Sequence[os.PathLike[str]]
Ids = Sequence[int] | NDArray[numpy.integer[Any]]
INSIDE = 4  # flag of a piece of a text: no space before it


class Bar:
    """A line with the progress of a measurement, on stderr, in a notebook too."""

    def __init__(self, total: int, stream: TextIO | None = None) -> None:
        self.total, self.done, self.started = total, 0, time.monotonic()
        self.stream = stream or sys.stderr

    def _draw(self, label: str, end: str = "") -> None:
        full = 24 * self.done // max(self.total, 1)
        seconds = time.monotonic() - self.started
        self.stream.write(f"\r\033[K{'█' * full}{'░' * (24 - full)} {self.done}/{self.total} {seconds:.0f} s  {label}{end}")
        self.stream.flush()

    def step(self, label: str) -> None:
        """One figure more."""
        self.done += 1
        self._draw(label)

    def show(self, label: str) -> None:
        """Something new about the figure that is being measured."""
        self._draw(label)

    def close(self) -> None:
        """Ends the line."""
        self._draw("", "\n")


@contextlib.contextmanager
def _text_paths(text: Text) -> Iterator[list[str]]:
    """Files of a text; a str is the text itself and becomes a file for the time of a call."""
    if isinstance(text, str):
        if len(text) < 4096 and not {"\n", "\0"} & set(text) and os.path.exists(text):
            raise Error("EINVAL", f"text: is the name of a file, {text!r}: pass pathlib.Path({text!r})", "text")
        try:
            data = text.encode("utf-8")
        except UnicodeEncodeError as why:
            raise Error("EINVAL", f"text: holds {text[why.start]!r}, which UTF-8 cannot write", "text") from None
        with tempfile.TemporaryDirectory() as folder:
            written = Path(folder) / "text"
            written.write_bytes(data)
            yield [str(written)]
        return
    if not isinstance(text, (os.PathLike, Sequence)) or isinstance(text, bytes):
        raise Error("EINVAL", f"text: is a {type(text).__name__}, not a str, a pathlib.Path or a list of these paths", "text")
    names = []
    for path in [text] if isinstance(text, os.PathLike) else text:
        if not isinstance(path, os.PathLike):
            raise Error("EINVAL", f"text: holds a {type(path).__name__}, not a pathlib.Path", "text")
        names.append(path_text(path, "text"))
        if not os.path.exists(names[-1]):
            raise FileError("EIO", f"text: {names[-1]} does not exist", "text")
    if not names:
        raise Error("EINVAL", "text: is an empty list, not paths of texts", "text")
    yield names


def _truth(value: Any, name: str) -> bool:
    if not isinstance(value, (bool, int, numpy.bool_)):
        raise Error("EINVAL", f"{name}: is {value!r}, not True or False", name)
    return bool(value)


def _or_none(token: int) -> int | None:
    return None if token < 0 else token


class Tokenizer(_gyre.Tokenizer):
    """Text to ids and back, as the tokenizer.json of a model or its GGUF says.  Never changes."""

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> Self:
        """That of a model folder, a tokenizer.json or a GGUF.  Raises gyre.Error with the kind or step that Gyre lacks."""
        return cls._open(path)

    def encode(self, text: str | bytes, *, begin: bool = True, special: bool = False) -> list[int]:
        """The ids of a text.  begin: the begin token first, if the model's texts have one.  special: the text of an added
        token ("<|eot|>") is that token."""
        return self._encode(text, _truth(begin, "begin") + 2 * _truth(special, "special"))

    def decode(self, ids: Any, *, special: bool = False) -> str:
        """The text of ids; bytes that are not UTF-8 become U+FFFD.  special: special tokens as their text."""
        return self._decode(ids, 2 * _truth(special, "special")).decode("utf-8", "replace")

    @property
    def begin(self) -> int | None:
        """The token that begins a text; None = the model has none."""
        return _or_none(self._special()[0])

    @property
    def end(self) -> int | None:
        """The token that ends a text; None = the model has none."""
        return _or_none(self._special()[1])

    @property
    def notes(self) -> str:
        """What the file asks for and Gyre does otherwise, such as a normalizer; "" = nothing."""
        return self._notes()


@contextlib.contextmanager
def _naming(name: str) -> Iterator[None]:
    """Errors of the library name tokens; here they are the argument `name`."""
    try:
        yield
    except Error as why:
        if why.field is None and why.text.startswith("token "):
            raise Error(why.status, f"{name}: {why.text}", name) from None
        if why.field in ("tokens", "ids", "text"):
            raise Error(why.status, f"{name}{why.text.removeprefix(why.field)}", name) from None
        raise


class Context(_gyre.Context):
    """One sequence that a model reads: Model.context."""

    def read(self, ids: Any, rows: int | None = None) -> NDArray[numpy.float32]:
        """Reads more tokens.  Returns log-odds of the next token after each of the last `rows` of them, None = after all:
        [rows, vocab].  However the tokens are cut into calls, the numbers are the same."""
        with _naming("ids"):
            logits: NDArray[numpy.float32] = self._read(ids, rows, False)
        return logits

    def embed(self, ids: Any, rows: int | None = None) -> NDArray[numpy.float32]:
        """Reads more tokens, as `read`.  Returns the vectors that logits are computed from, after the last norm:
        [rows, channels]."""
        with _naming("ids"):
            vectors: NDArray[numpy.float32] = self._read(ids, rows, True)
        return vectors

    @property
    def tokens(self) -> int:
        """Tokens read so far."""
        return self._tokens()


def _found(path: str) -> str:
    """path, or the folder of the model of that name that comes with the package: "rope" and "models/rope" are the same."""
    models = Path(__file__).parent / "share/gyre/models"
    bundled = models / path.removeprefix("models/").rstrip("/")
    if os.path.isdir(path) and not os.path.isfile(os.path.join(path, "config.json")):
        raise FileError("EIO", f"path: there is no config.json in {path}: pass the folder of a model, or a GGUF", "path")
    if os.path.exists(path):
        return path
    if bundled.parent == models and os.path.isfile(bundled / "config.json"):  # False too for a name that is too long
        return str(bundled)
    names = "" if "/" in path else ", ".join(sorted(one.parent.name for one in models.glob("*/config.json")))
    raise FileError("EIO", f"path: {path} does not exist" + (f"; the package has {names}" if names else ""), "path")


def _check_runs(path: str) -> None:
    """Raises where Gyre cannot run a model, before its weights are read."""
    alone = "gyre.explain and gyre.Encoding.from_config read its positions"
    if path.endswith(".json") and os.path.isfile(path):
        raise Error("EINVAL", f"path: {path} is a config without weights: pass the folder of the model; {alone}", "path")
    try:
        _gyre.Model._check(path)
    except Error as why:
        if why.status != "EUNSUPPORTED":
            raise
        raise Error(why.status, f"path: {why.text}; {alone}", "path") from None


def _number(value: Any, name: str, most: float, what: str) -> float:
    real = isinstance(value, (int, float, numpy.integer, numpy.floating)) and not isinstance(value, bool)
    if not real or not 0 <= value <= most:
        raise Error("EINVAL", f"{name}: is {value!r}, not {what}", name)
    return float(value)


def _count(value: Any, name: str, least: int, most: int, what: str) -> int:
    whole = isinstance(value, (int, numpy.integer)) and not isinstance(value, bool)
    if not whole or not least <= int(value) <= most:
        raise Error("EINVAL", f"{name}: is {value!r}, not {what}", name)
    return int(value)


PREFILL = 512  # tokens of a prompt between two looks for Ctrl-C


class Model(metaclass=Guessing):
    """A model's files: what its positions are, what it computes from tokens, and how well it predicts a text.

    Weights are mapped when they are first needed, and stay so as long as the object.
    """

    def __init__(self, path: str | os.PathLike[str], profile: str | None = None) -> None:
        self.path = _found(path_text(path, "path"))
        self.profile = profile
        _check_runs(self.path)
        self._mapped: tuple[int, _gyre.Model] | None = None

    def __repr__(self) -> str:
        return f"<gyre.Model {self.path}>"

    def encoding(self, *, length: int | None = None, layer_type: str | None = None) -> Encoding:
        """The encoding that its config means: Encoding.from_config."""
        return Encoding.from_config(self.path, profile=self.profile, length=length, layer_type=layer_type)

    def explain(self, *, length: int | None = None, layer_type: str | None = None) -> Result:
        """All its groups of layers: gyre.explain."""
        return _command.explain(self.path, profile=self.profile, length=length, layer_type=layer_type)

    def load(self, length: int = 0) -> _gyre.Model:
        """Maps the weights.  length: the context length in use, for scalings that depend on it; 0 = none."""
        return _gyre.Model._open(self.path, self.profile, length)

    def context(
        self, max_tokens: int, *, cache: str = "float32", order: str = "fixed", length: int = 0, products: str = "f32"
    ) -> Context:
        """An empty sequence.

        cache: the type of keys and values, "float32", "float16", "bfloat16" or "q8".  order: "fixed" = logits have the same
        bits however the tokens are cut into calls of read; "fast" = the same to rounding.  products: with matrices stored in
        bf16; "bf16" = of inputs rounded to bf16, as other libraries multiply.  It costs an error of up to 2^-8 sum |x w| in
        place of about 2^-24, and is faster only with AMX.  Refused for a model without such matrices.
        """
        if order not in ("fixed", "fast"):
            raise Error("EINVAL", f"order: is {order!r}, not 'fixed' or 'fast'", "order")
        return Context._create(self.load(length), max_tokens, cache, order == "fixed", products)

    def tokenizer(self) -> Tokenizer:
        """Its tokenizer."""
        return Tokenizer.open(self.path)

    def _context_for(self, tokens: int, cache: str, order: str, products: str) -> Context:
        """An empty sequence of so many tokens; scalings that depend on the length in use are those of that length."""
        groups = read(self.path, self.profile, None, None, None)["groups"]
        depends = any(group["config"].get("rope.scaling") in BY_LENGTH for group in groups)
        length = tokens if depends else 0
        if self._mapped is None or self._mapped[0] != length:
            self._mapped = length, self.load(length)
        if order not in ("fixed", "fast"):
            raise Error("EINVAL", f"order: is {order!r}, not 'fixed' or 'fast'", "order")
        return Context._create(self._mapped[1], tokens, cache, order == "fixed", products)

    def _ids(self, tokens: Any, name: str = "tokens") -> list[int]:
        """The ids of a text, or those that were given."""
        if isinstance(tokens, str):
            with _naming(name):
                return self.tokenizer().encode(tokens)
        try:
            ids = [operator.index(one) for one in tokens]
        except TypeError:
            raise Error("EINVAL", f"{name}: is neither a text nor a list or array of whole numbers", name) from None
        return ids

    def logits(
        self, tokens: str | Ids, rows: int | None = None, *, cache: str = "float32", products: str = "f32"
    ) -> NDArray[numpy.float32]:
        """Log-odds of the next token after each of the last `rows` tokens, None = after all: [rows, vocab].

        Args:
            tokens: ids, or a text, which its tokenizer makes ids of.
            cache: the type of keys and values, "float32", "float16", "bfloat16" or "q8".
            products: as of `context`.

        Raises gyre.Error.
        """
        ids = self._ids(tokens)
        with _naming("tokens"):
            return self._context_for(max(len(ids), 1), cache, "fixed", products).read(ids, rows)

    def embeddings(
        self, tokens: str | Ids, rows: int | None = None, *, cache: str = "float32", products: str = "f32"
    ) -> NDArray[numpy.float32]:
        """The vectors of the last `rows` tokens after the last norm, None = of all: [rows, channels].

        These are what logits are computed from, hidden_states[-1] of transformers.  The mean over tokens is a vector of the
        text; the arguments are those of `logits`.
        """
        ids = self._ids(tokens)
        with _naming("tokens"):
            return self._context_for(max(len(ids), 1), cache, "fixed", products).embed(ids, rows)

    @overload
    def generate(
        self,
        prompt: str,
        *,
        max_tokens: int = ...,
        temperature: float = ...,
        top_p: float = ...,
        top_k: int = ...,
        seed: int = ...,
        ignore_end: bool = ...,
        cache: str = ...,
        order: str = ...,
        products: str = ...,
    ) -> Iterator[str]: ...
    @overload
    def generate(
        self,
        prompt: Ids,
        *,
        max_tokens: int = ...,
        temperature: float = ...,
        top_p: float = ...,
        top_k: int = ...,
        seed: int = ...,
        ignore_end: bool = ...,
        cache: str = ...,
        order: str = ...,
        products: str = ...,
    ) -> Iterator[int]: ...
    @named
    def generate(
        self,
        prompt: str | Ids,
        *,
        max_tokens: int = 128,
        temperature: float = 0.0,
        top_p: float = 0.0,
        top_k: int = 0,
        seed: int = 1,
        ignore_end: bool = False,
        cache: str = "float32",
        order: str = "fast",
        products: str = "f32",
    ) -> Iterator[str] | Iterator[int]:
        """What follows a prompt, token by token, as it is computed: as `gyre generate`.

        Args:
            prompt: a text, whose continuation comes in pieces of text; or ids, and ids come.
            max_tokens: at most so many tokens.
            temperature: 0 = the likeliest token.  top_p: sample from the likeliest tokens with this total probability; 0 =
                all.  top_k: from at most so many; 0 = all.
            seed: the same seed gives the same tokens on every machine.
            ignore_end: True = go on after the token that ends a text; False = stop before it.
            cache, order, products: as of `context`.

        Raises gyre.Error, before the first token where an argument is wrong.
        """
        ids = self._ids(prompt, "prompt")
        if not ids:
            raise Error("EINVAL", "prompt: has no token, and the model none that begins a text", "prompt")
        most = _count(max_tokens, "max_tokens", 1, 1 << 30, "a number of tokens, 1 .. 2^30")
        heat = _number(temperature, "temperature", sys.float_info.max, "0 or more")
        share = _number(top_p, "top_p", 1, "between 0 and 1")
        kept = _count(top_k, "top_k", 0, 1 << 31, "a number of tokens, 0 or more")
        state = _count(seed, "seed", 0, (1 << 64) - 1, "a whole number, 0 .. 2^64 - 1")
        is_text = isinstance(prompt, str)
        tokenizer = None
        with contextlib.nullcontext() if is_text else contextlib.suppress(Error):  # ids need no tokenizer
            tokenizer = self.tokenizer()
        end = tokenizer.end if tokenizer and not _truth(ignore_end, "ignore_end") else None
        context = self._context_for(len(ids) + most, cache, order, products)
        stream = _stream(context, ids, most, (heat, share, kept), state, end)
        return _pieces(tokenizer, stream) if tokenizer and is_text else stream

    def perplexity(
        self,
        text: Text,
        *,
        methods: Sequence[str] = ("none",),
        contexts: Sequence[int] | None = None,
        windows: int | None = None,
        stride: int | None = None,
        protocol: str | None = None,
        length_policy: Sequence[str] | None = None,
        cache: str | None = None,
        products: str | None = None,
        threads: int | None = None,
        progress: bool = True,
        on_result: Callable[[dict[str, Any]], None] | None = None,
    ) -> Measurement:
        """Perplexity of the text under each method, at each context length.  Every method reads the same windows.

        Args:
            text: the text itself as a str, or a pathlib.Path (a folder = all files in it), or several.
            methods: "none", "linear", "ntk", "yarn", "yarn:4", ...: those of `gyre eval`.
            contexts: in tokens, rising; None = 1, 2 and 4 times the trained length.
            windows: at most so many a context, spread over the text; None = all.  stride: tokens from one to the next.
            protocol: "sliding", "truncate" or "last".  length_policy: "declared", "causal", "prefix".
            cache: the type of keys and values, "f32", "f16", "bf16" or "q8".
            products: "f32" or "bf16", as of `context`; a figure of "bf16" is also measured by floats, and "products_cost" is
                the difference in nats a token.
            progress: True = a bar on stderr.  on_result: called with each figure as it is measured.

        Ctrl-C raises gyre.Interrupted, a KeyboardInterrupt with the results so far.  Raises gyre.Error.
        Returns a dict; "results" has a dict for each figure, and frame() a row.
        """
        if isinstance(windows, (int, numpy.integer)) and windows <= 0:
            raise Error("EINVAL", f"windows: is {windows!r}, not 1 or more; None = all", "windows")
        _command.not_empty("methods", methods)
        _command.not_empty("contexts", contexts)
        results: list[dict[str, Any]] = []
        about: dict[str, Any] = {}
        bar = Bar(len(methods) * len(contexts or (1, 2, 4))) if progress else None

        def take(line: str) -> None:
            told = json.loads(line)
            about.update(told.get("run") or {})
            if result := told.get("result"):
                results.append(result)
                if bar:
                    bar.step(f"{result['label']} at {result['context']}: {result['perplexity']:.4g}")
                if on_result:
                    on_result(result)

        with _text_paths(text) as paths:
            options = _command._options(
                contexts=contexts,
                methods=methods,
                windows=windows,
                stride=stride,
                protocol=protocol,
                length_policy=length_policy,
                cache=cache,
                products=products,
                threads=threads,
                as_=self.profile,
            )
            texts = [f"--text={path}" for path in paths]
            try:
                _command.run(
                    ["eval", self.path, "--json-lines", *texts, *options], line=take, show=bar.show if bar else None
                )
            except KeyboardInterrupt:
                raise _command.Interrupted(results) from None
            finally:
                if bar:
                    bar.close()
        return Measurement({**about, "results": results})


def _stream(
    context: Context, ids: list[int], most: int, sampling: tuple[float, float, int], state: int, end: int | None
) -> Iterator[int]:
    """Tokens after ids, until `end` or so many."""
    read = 0
    while len(ids) - read > PREFILL:
        with _naming("prompt"):
            context.read(ids[read : read + PREFILL], 0)
        read += PREFILL
    pending = ids[read:]
    for _ in range(most):
        with _naming("prompt"):
            token, state = context._next(pending, *sampling, state)
        if token == end:
            return
        yield token
        pending = [token]


def _pieces(tokenizer: Tokenizer, stream: Iterator[int]) -> Iterator[str]:
    """Text of tokens, a character when all its bytes are there."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    for token in stream:
        if piece := decoder.decode(tokenizer._decode([token], INSIDE)):
            yield piece
    if rest := decoder.decode(b"", True):
        yield rest


def open(path: str | os.PathLike[str], *, profile: str | None = None) -> Model:
    """The model in a folder or a GGUF, or one that comes with the package: "rope", "alibi", "learned", "sinusoidal", "nope".

    profile: the program as which its positions are read.  Raises gyre.Error for a family that Gyre does not run.
    """
    return Model(path, profile)
