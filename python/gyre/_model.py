"""Models: a folder or a GGUF whose positions are read and whose perplexity is measured."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Self, TextIO

import numpy
from numpy.typing import NDArray

from gyre import _command, _gyre
from gyre._encoding import Encoding
from gyre._errors import Error, FileError, path_text
from gyre._results import Measurement, Result

Text = str | os.PathLike[str] | Sequence[os.PathLike[str]]


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
    def notes(self) -> str:
        """What the file asks for and Gyre does otherwise, such as a normalizer; "" = nothing."""
        return self._notes()


class Context(_gyre.Context):
    """One sequence that a model reads: Model.context."""

    def read(self, ids: Any, rows: int | None = None) -> NDArray[numpy.float32]:
        """Reads more tokens.  Returns log-odds of the next token after each of the last `rows` of them, None = after all:
        [rows, vocab].  However the tokens are cut into calls, the numbers are the same."""
        try:
            logits: NDArray[numpy.float32] = self._read(ids, rows)
        except Error as why:
            if why.field is None and why.text.startswith("token "):
                raise Error(why.status, f"ids: {why.text}", "ids") from None
            if why.field == "tokens":
                raise Error(why.status, f"ids{why.text.removeprefix('tokens')}", "ids") from None
            raise
        return logits

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


class Model:
    """A model's files: what its positions are, and how well it predicts a text."""

    def __init__(self, path: str | os.PathLike[str], profile: str | None = None) -> None:
        self.path = _found(path_text(path, "path"))
        self.profile = profile

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
        self, max_tokens: int, *, cache: str = "float32", order: str = "fixed", length: int = 0
    ) -> Context:
        """An empty sequence.

        cache: the type of keys and values, "float32", "float16", "bfloat16" or "q8".  order: "fixed" = logits have the same
        bits however the tokens are cut into calls of read; "fast" = the same to rounding.
        """
        if order not in ("fixed", "fast"):
            raise Error("EINVAL", f"order: is {order!r}, not 'fixed' or 'fast'", "order")
        return Context._create(self.load(length), max_tokens, cache, order == "fixed")

    def tokenizer(self) -> Tokenizer:
        """Its tokenizer."""
        return Tokenizer.open(self.path)

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


def open(path: str | os.PathLike[str], *, profile: str | None = None) -> Model:
    """The model in a folder or a GGUF, or one that comes with the package: "rope", "alibi", "learned", "sinusoidal", "nope".

    profile: the program as which its positions are read.
    """
    return Model(path, profile)
