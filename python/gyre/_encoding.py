"""The class Encoding: what the extension computes, and what a person wants to know of it."""

from __future__ import annotations

import functools
import json
import math
import os
from collections.abc import Mapping, Sequence
from typing import Any, Self, TypeVar

import numpy
from numpy.typing import NDArray

from gyre import _gyre
from gyre._errors import Error, calling, path_text
from gyre._guesses import Guessing, guess, named
from gyre._results import Explanation, TableAudit

FIELDS: dict[str, dict[str, Any]] = {field["name"]: field for field in _gyre.config_fields()}
A = TypeVar("A")
Source = str | os.PathLike[str] | Mapping[str, Any]
_PLACES = ((1, "input"), (2, "query and key"), (4, "score"), (8, "value"))
_ROPE_KEYS = ("rope_type", "rope_theta", "type", "factor")
BY_LENGTH = ("dynamic", "dynamic-yarn", "longrope")  # scalings whose frequencies follow the context length in use
_WITHOUT_LENGTH = ("default", "none", "linear", "proportional", "mrope", None)  # scalings whose angles do not depend on it


def _loses_switch(name: str, changed: Mapping[str, Any]) -> bool:
    """Whether a field has no effect any more because the field that it needs was changed to its zero."""
    switch = FIELDS[name]["when"] if name in FIELDS else None
    return switch is not None and switch in changed and changed[switch] in (FIELDS[switch]["zero"], 0, None)


def as_config(source: Any, name: str) -> Any:
    """source, or the dict of a config object of transformers."""
    to_dict = getattr(source, "to_dict", None)
    if not callable(to_dict) or isinstance(source, Mapping):
        return source
    if isinstance(source, type):
        raise Error("EINVAL", f"{name}: is the class {source.__name__}, not a config: pass an object of it", name)
    try:
        return to_dict()
    except Exception as why:
        raise Error("EINVAL", f"{name}: its to_dict() failed: {why}", name) from why


def json_text(config: Mapping[str, Any], name: str) -> str:
    """A config as JSON."""
    try:
        return json.dumps(dict(config), indent=1)
    except RecursionError:
        raise Error("EINVAL", f"{name}: is not a config: it is too deep", name) from None
    except (TypeError, ValueError) as why:
        raise Error("EINVAL", f"{name}: is not a config: {why}", name) from why


def _refuse_lone(head_dim: int | None, trained_length: int | None) -> None:
    """What describes a rope_parameters dict would change nothing about a config."""
    for name, value in (("head_dim", head_dim), ("trained_length", trained_length)):
        if value is not None:
            text = f"{name}: is {value!r}, but only a rope_parameters dict takes it: source is a config, which has its own"
            raise Error("EINVAL", text, name)


def _config_text(source: Mapping[str, Any], head_dim: int | None, trained_length: int | None) -> str:
    """A config as JSON; a lone rope_parameters dict becomes the config of a llama."""
    config = dict(source)
    if "model_type" not in config and any(key in config for key in _ROPE_KEYS) and "hidden_size" not in config:
        if head_dim is None:
            raise Error("EINVAL", "head_dim: missing; a rope_parameters dict does not state it", "head_dim")
        scaling = config.get("rope_type", config.get("type", "default"))
        stated = trained_length is not None or config.get("original_max_position_embeddings") is not None
        if not stated and scaling not in _WITHOUT_LENGTH:
            text = f"trained_length: missing; {scaling!r} needs it, and there is no original_max_position_embeddings"
            raise Error("EINVAL", text, "trained_length")
        config = {"model_type": "llama", "head_dim": head_dim, "hidden_size": head_dim, "num_attention_heads": 1}
        config["num_hidden_layers"] = 1
        config["rope_parameters"] = dict(source)
        if trained_length is not None:
            config["max_position_embeddings"] = trained_length
    else:
        _refuse_lone(head_dim, trained_length)
    return json_text(config, "source")


def read(
    source: Source | Any,
    profile: str | None = None,
    length: int | None = None,
    head_dim: int | None = None,
    trained_length: int | None = None,
) -> dict[str, Any]:
    """A reading of a config.json, a folder, a GGUF, a dict or a config of transformers, as a dict."""
    source = as_config(source, "source")
    if isinstance(source, Mapping):
        text = _config_text(source, head_dim, trained_length)
        return _gyre.read(path="config", text=text, profile=profile, length=length)
    if not isinstance(source, (str, os.PathLike)):
        raise Error(
            "EINVAL",
            f"source: is a {type(source).__name__}, not the path of a config.json, a folder or a GGUF, nor a dict",
            "source",
        )
    _refuse_lone(head_dim, trained_length)
    with calling(path="source"):
        return _gyre.read(path=path_text(source, "source"), profile=profile, length=length)


def audit_cache(
    table: Any, source: Source | Any, *, profile: str | None = None, length: int | None = None
) -> TableAudit:
    """Which program's table of cos and sin, or of frequencies, an array is.

    Args:
        table: an engine's cos_sin_cache, cos, sin or inv_freq, as an array of numpy, torch on the CPU or others; it is read
            where it is.  [positions, columns], [positions, pairs, 2], [positions, 2, pairs], [2, positions, pairs] or
            [pairs]; extents of 1 do not count, and the numbers say what the columns are.
        source: the path of a config.json, of a folder with one or of a GGUF; a config as a dict, or as an object of
            transformers.
        profile: the only program whose reading counts; None = every one.  length: the context length in use.

    Returns a dict: "ok" where the table is a program's, "verdict" in sentences, "matches" of each program and group of layers
    with "same", "precision", "first_position" and "first_pair" that are off, and what the numbers say: "form", "columns",
    "rounded", "factor", "base", "frequencies".
    """
    source = as_config(source, "source")
    if isinstance(source, Mapping):
        text = json_text(source, "source")
        return TableAudit(_gyre.audit_angles(table, path="config", text=text, profile=profile, length=length))
    if not isinstance(source, (str, os.PathLike)):
        raise Error("EINVAL", f"source: is a {type(source).__name__}, neither a path nor a config", "source")
    with calling(path="source"):
        path = path_text(source, "source")
        return TableAudit(_gyre.audit_angles(table, path=path, profile=profile, length=length))


def is_beside(name: str) -> bool:
    """Whether a group is of a tower, an indexer or layers that predict further tokens: not of the decoder's layers."""
    return name in ("vision", "audio") or name.startswith(("indexer", "mtp"))


def _is_of(group: Mapping[str, Any], layer_type: str) -> bool:
    """Whether layers are of a type.  Where all layers are alike, a config need not name their type: their window says it."""
    alike = "sliding_attention" if group["window"] else "full_attention"
    return bool(group["name"] == layer_type or (group["name"] == "all" and layer_type == alike))


def _choose_group(reading: dict[str, Any], layer_type: str | None) -> dict[str, Any]:
    groups: list[dict[str, Any]] = reading["groups"]
    if layer_type is None:
        placed = [group for group in groups if group["config"]["kind"] != "nope" and not is_beside(group["name"])]
        others = [group for group in placed if group["config"] != placed[0]["config"]]
        if not others:
            return groups[0]
        names = ", ".join(f"{group['name']!r} ({len(group['layers'])} layers)" if group["layers"] else repr(group["name"]) for group in placed)
        raise Error("EINVAL", f"layer_type: missing; the positions of layers differ: pass one of {names}", "layer_type")
    for group in groups:
        if _is_of(group, layer_type):
            return group
    names = ", ".join(repr(group["name"]) for group in groups)
    raise Error("EINVAL", f"layer_type: {layer_type!r} is not among {names}", "layer_type")


# What a repr shows even where it is the default.
_SIZES = ("kind", "head_dim", "heads", "rope.base", "input.dim", "input.positions", "score.max_positions")


@functools.lru_cache(maxsize=64)
def _usual(sizes: tuple[tuple[str, Any], ...]) -> dict[str, Any]:
    """The config of an encoding of these sizes without any option; nothing where its kind needs more than sizes."""
    try:
        return _gyre.Encoding(**dict(sizes))._config(False)
    except Error:
        return {}


def _brief(value: Any) -> str:
    if isinstance(value, tuple) and len(value) > 4:
        return f"[{len(value)} numbers]"
    return f"{value:g}" if isinstance(value, float) and float(f"{value:g}") == value else repr(value)


class Encoding(_gyre.Encoding, metaclass=Guessing):
    """A position encoding, completely described.  It never changes; threads may share it.

    Make one with :meth:`from_config`, or with a function named after its kind: :func:`gyre.rope`, :func:`gyre.alibi` and
    so on.  The fields of a config are those of ``gyre_config`` in gyre.h, "rope.base" for ``rope.base``.
    """

    _reading: dict[str, Any] | None = None
    _spec: str  # the config as text: what operators of torch and jax take in place of the object

    def __init__(self, **fields: Any) -> None:
        self._spec = json.dumps(self._config(False))

    @classmethod
    @named
    def from_config(
        cls,
        source: Source | Any,
        *,
        profile: str | None = None,
        length: int | None = None,
        layer_type: str | None = None,
        head_dim: int | None = None,
        trained_length: int | None = None,
    ) -> Self:
        """The encoding that a model's config means, as one program reads it.

        Args:
            source: the path of a config.json, of a folder with one or of a GGUF; a config as a dict, or as an object of
                transformers; or a rope_parameters (rope_scaling) dict, which needs head_dim.
            profile: the program that reads: "hf-5" (the default for a config), "hf-4.56", "hf-4.55", "hf-4.51", "hf-4.43",
                "vllm" (the newest, "vllm-2026.09"), "vllm-2026.05", "sglang", "mlx-lm", "llama.cpp" (the default for a
                GGUF) or "reference"; or a trainer, whose settings `source` then is: "megatron", "torchtitan", "axolotl",
                "llama-factory" or "nanotron".
            length: the context length in use, in tokens, for programs and scalings that depend on it.
            layer_type: the layers meant, such as "full_attention"; needed where their positions differ, as in Gemma 3.
                Layers without positions, and those of a vision tower, an indexer or MTP, need a name only if they are meant.
            head_dim: channels of a head, for a rope_parameters dict alone.
            trained_length: tokens, for a rope_parameters dict alone; needed where its scaling depends on them and it has
                no original_max_position_embeddings.

        Raises:
            gyre.Error: a key is missing or makes no sense, or the program cannot run this model; it names key and line.
            gyre.FileError: the file cannot be read.
        """
        reading = read(source, profile, length, head_dim, trained_length)
        group = _choose_group(reading, layer_type)
        encoding = cls(**group["config"])
        encoding._reading = {**{k: v for k, v in reading.items() if k != "groups"}, **group}
        return encoding

    def __getattr__(self, name: str) -> Any:
        meant = guess(name, FIELDS) if not name.startswith("_") else None
        hint = f"; did you mean {f'config[{meant!r}]' if meant in FIELDS else meant}?" if meant else ""
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}{hint}", name=name, obj=self)

    # -- what it is --

    @property
    def config(self) -> dict[str, Any]:
        """All fields of the config, defaults filled in, by their names in gyre.h."""
        return self._config(True)

    @property
    def reading(self) -> dict[str, Any] | None:
        """Where the numbers come from: path, profile, fields with key and line, scale, window, warnings; None for an
        encoding that was not read from a config."""
        return self._reading

    @property
    def kind(self) -> str:
        """ "rope", "alibi", ..."""
        return str(self._config(True)["kind"])

    @property
    def head_dim(self) -> int:
        """Channels of a head; 0 if the encoding has no number of channels."""
        return int(self._config(True)["head_dim"])

    @property
    def places(self) -> tuple[str, ...]:
        """Where it acts: "input", "query and key", "score", "value"."""
        bits = self._places()
        return tuple(name for bit, name in _PLACES if bits & bit)

    @property
    def table_shapes(self) -> dict[str, tuple[int, int, int, int]]:
        """The shapes of the tables that it trains, by name; axes of extent 1 may be left out of an array."""
        return self._table_shapes()

    @property
    def row_source(self) -> str:
        """What rows of query, key and value tables are made of: "free", "shared", "projected" or "sinusoid"."""
        return self._row_source()

    def __repr__(self) -> str:
        config = self._config(False)
        usual = _usual(tuple((key, config[key]) for key in _SIZES if key in config))
        shown = {key: value for key, value in config.items() if key in _SIZES or usual.get(key) != value}
        shown.pop("kind")
        if shown.get("rope.dim") == config.get("head_dim"):
            shown.pop("rope.dim", None)
        names = [f"{key.removeprefix('rope.')}={_brief(value)}" for key, value in shown.items()]
        return f"<gyre.Encoding {' '.join([self.kind, *names])}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _gyre.Encoding) and self._config(True) == other._config(True)

    def __hash__(self) -> int:
        return hash(tuple(sorted(self._config(True).items())))

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self._config(False), self._reading)

    def replace(self, **fields: Any) -> Self:
        """A copy with other fields; dots of names are written as two underscores: rope__base=1e6.

        rope__scaling="none" also removes the fields of the old scaling.
        """
        changed = {name.replace("__", "."): value for name, value in fields.items()}
        kept = {name: value for name, value in self._config(False).items() if not _loses_switch(name, changed)}
        return type(self)(**{**kept, **changed})

    # -- numbers --

    def frequencies(self, length: int | None = None) -> NDArray[numpy.float64]:
        """Radians a position of each pair, [rope.dim / 2]: transformers' inv_freq, in double.

        length: the context length in use, in tokens; None = the encoding's own.  Raises gyre.Error where it does not
        rotate.
        """
        return numpy.array(self._frequencies(length)[0])

    def attention_factor(self, length: int | None = None) -> float:
        """The factor of cos and sin, which is 1 except under YaRN, LongRoPE and the like."""
        return self._frequencies(length)[1]

    def slopes(self, length: int | None = None) -> NDArray[numpy.float64]:
        """ALiBi's slope of each head, [heads].

        length: the context length in use, which score.slope_scaling may follow; None = the encoding's own.
        """
        return numpy.array(self._slopes(length))

    @named
    def cos_sin(
        self,
        positions: Any,
        *,
        tokens: int | None = None,
        dtype: Any = None,
        pairs: bool = False,
        length: int | None = None,
    ) -> tuple[Any, Any]:
        """cos and sin of the angles, the attention factor included.

        transformers' rotary modules of most models return [c0 c1 .. c0 c1 ..], which is this under a "half" layout.  Those
        of Helium and Ernie 4.5 do so too, though their encodings are interleaved, and those of gpt-oss return one number
        for each pair: pairs=True here.

        Args:
            positions: int32 or int64 [tokens] or [batch, tokens], with several axes [axes, tokens] or
                [axes, batch, tokens]; or an int p for `tokens` positions from p on; without `tokens`, an int n stands
                for 0 .. n - 1.  An array has its own number of tokens.
            dtype: of the results, of numpy, torch or JAX, or its name; None = float32.  float32 and float64 are computed so; others are rounded from float32.
            pairs: True = one number for each pair, [..., rope.dim / 2].  False = [..., rope.dim]: doubled as the layout
                pairs channels, [c0 c1 .. c0 c1 ..] for half, [c0 c0 c1 c1 ..] for interleaved.
            length: the context length in use.

        Returns arrays of the kind of `positions`, numpy's for an int.  Raises gyre.Error.
        """
        name = "float32" if dtype is None else _dtype_name(dtype)
        both = self._cos_sin(positions, tokens=tokens, double=name == "float64", pairs=pairs, length=length or 0)
        if name in ("float32", "float64"):
            return both
        return _rounded(both[0], name), _rounded(both[1], name)

    def bias(
        self,
        queries: Any,
        keys: Any = None,
        *,
        tables: Any = None,
        double: bool = False,
        length: int | None = None,
    ) -> Any:
        """The number that is added to each score, [heads, queries, keys] or [batch, heads, queries, keys].

        Args:
            queries, keys: positions, int32 or int64 [tokens] or [batch, tokens]; or a number of tokens: keys at
                0 .. keys - 1, queries at the last positions of the keys, as in decoding, also where those are an array.
                keys None = as queries.
            tables: where the scheme trains one: an array shaped as :attr:`table_shapes` says (T5: [buckets, heads]).
            double: True = float64, else float32.

        Returns an array of the kind of the positions; where these are numbers of tokens, of the kind of the table; numpy's
        without a table.  Raises gyre.Error where the scheme puts no number on scores.
        """
        return self._bias(queries, keys, tables=tables, double=double, length=length or 0)

    def add_bias(
        self, scores: A, queries: Any, keys: Any = None, *, tables: Any = None, length: int | None = None
    ) -> A:
        """Adds the bias to scores in place: [heads, queries, keys] or [batch, heads, queries, keys] of any real type."""
        result: A = self._bias(queries, keys, tables=tables, length=length or 0, scores=scores)
        return result

    def distance(self, other: Encoding, length: int | None = None) -> Any:
        """gyre.diff of two encodings."""
        from gyre._command import diff

        return diff(self, other, length=length)

    # -- for people --

    def explain(self, length: int | None = None) -> Explanation:
        """What the encoding does: every number, where it comes from, and what becomes of each pair of channels.

        A dict; ``frame()`` gives the pairs as a pandas frame, and a notebook shows a page.
        """
        config = self._config(True)
        told: dict[str, Any] = {
            "kind": config["kind"],
            "places": list(self.places),
            "head_dim": config["head_dim"],
            "heads": config["heads"],
            "trained_length": config["trained_length"],
            "length": length or config["context_length"] or config["trained_length"],
            "tables": {name: list(shape) for name, shape in self.table_shapes.items()},
        }
        if config["kind"] == "rope":
            inv_freq, factor, (kept, blended, divided) = self._frequencies(length)
            told.update(
                layout=config["rope.layout"],
                rotary_dim=config["rope.dim"],
                base=config["rope.base"],
                scaling=config["rope.scaling"],
                factor=config["rope.factor"],
                attention_factor=factor,
                parts={"kept": kept, "blended": blended, "divided": divided},
                inv_freq=list(inv_freq),
                wavelength=[2 * math.pi / f if f else math.inf for f in inv_freq],
            )
        if config["kind"] == "alibi":
            told["slopes"] = list(self._slopes(length))
        told["config"] = self._config(False)
        if self._reading:
            for key in ("path", "profile", "model_type", "name", "scale", "window", "fields", "warnings"):
                told[key] = self._reading[key]
        return Explanation(told)

    def _repr_html_(self) -> str:
        return self.explain()._repr_html_()


def _rebuild(cls: type[Encoding], config: dict[str, Any], reading: dict[str, Any] | None) -> Encoding:
    encoding = cls(**config)
    encoding._reading = reading
    return encoding


_REAL = ("float32", "float64", "float16", "bfloat16")


def _dtype_name(dtype: Any) -> str:
    """The name of a type of numpy, torch or JAX, or of a str."""
    name = str(dtype).removeprefix("torch.")
    if name not in _REAL:
        try:
            name = str(numpy.dtype(dtype))
        except TypeError:
            name = ""
    if name not in _REAL:
        raise Error("EDTYPE", f"dtype: is {dtype!r}, not float16, bfloat16, float32 or float64", "dtype")
    return name


def _rounded(array: Any, name: str) -> Any:
    """An array of any framework, rounded to the type of that name."""
    if hasattr(array, "to") and type(array).__module__.startswith("torch"):
        import torch

        return array.to(getattr(torch, name))
    if name == "bfloat16" and isinstance(array, numpy.ndarray):
        try:
            import ml_dtypes
        except ImportError as why:
            raise Error("EUNSUPPORTED", "dtype: numpy has bfloat16 from the package ml_dtypes alone: install it", "dtype") from why
        return array.astype(ml_dtypes.bfloat16)
    return array.astype(name)


def fields() -> Sequence[str]:
    """The names of all fields of a config."""
    return tuple(_gyre.Encoding(kind="nope")._config(True))
