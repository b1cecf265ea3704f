"""The rotary module that a model of transformers has by itself: in which form it returns cos and sin."""

from __future__ import annotations

import contextlib
import copy
import importlib
import inspect
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

_PROBE = (0, 1, 2, 5)  # positions at which a module is run


TOLD = {  # the forms, for messages
    "half": "[c0 c1 .. c0 c1 ..]",
    "interleaved": "[c0 c0 c1 c1 ..]",
    "pairs": "[c0 c1 ..]",
    "complex": "complex numbers [c0 + i s0, ..]",
}


@dataclass(frozen=True)
class Own:
    """form: of its results' last axis, as in RotaryEmbedding; None where it is none of these.  channels: of that axis.
    layer_type: is the type of layers an argument of its forward?  sine_first: it returns (sin, cos), as GPT-J's does."""

    name: str
    form: str | None
    channels: int
    layer_type: bool
    sine_first: bool


def config_object(config: Any) -> Any:
    """The config of transformers that a path, a dict or an object means; None where transformers has none."""
    if hasattr(config, "to_dict"):
        return config
    try:
        from transformers import AutoConfig

        if isinstance(config, Mapping):
            return AutoConfig.for_model(**config)
        if isinstance(config, (str, os.PathLike)):
            return AutoConfig.from_pretrained(os.fspath(config), local_files_only=True)
    except Exception:  # what transformers does not know is not known here
        return None
    return None


def _classes(config: Any) -> Iterator[type[nn.Module]]:
    """The rotary modules of text in the file of the model."""
    name = type(config).__module__.replace("configuration_", "modeling_")
    if name == type(config).__module__:
        return
    file = importlib.import_module(name)
    for kind in vars(file).values():
        named = getattr(kind, "__name__", "")
        if isinstance(kind, type) and issubclass(kind, nn.Module) and named.endswith("RotaryEmbedding"):
            if "Vision" not in named and kind.__module__ == name:
                yield kind


def _form_of(out: Any) -> tuple[str | None, int]:
    """The form of a result, as it shows in its numbers, and its channels."""
    if isinstance(out, Tensor):
        return ("complex" if out.is_complex() else None), out.shape[-1]
    sine = out[1]
    channels = int(sine.shape[-1])
    pairs = channels // 2
    if _sine_first(out):
        return None, channels
    if channels % 2 == 0 and torch.equal(sine[..., :pairs], sine[..., pairs:]):
        return "half", channels
    if channels % 2 == 0 and torch.equal(sine[..., 0::2], sine[..., 1::2]):
        return "interleaved", channels
    return "pairs", channels


def _sine_first(out: Any) -> bool:
    """Whether the first of two tables is that of the sine, which is 0 at position 0."""
    return not isinstance(out, Tensor) and not out[0][..., 0, :].any() and bool(out[1][..., 0, :].all())


def form_of(module: nn.Module, layer_type: str) -> str | None:
    """The form in which a copy of a rotary module returns cos and sin; None where it is none of these."""
    with torch.device("cpu"), torch.no_grad():
        return _form_of(_run(copy.deepcopy(module).to("cpu"), [layer_type] if layer_type else []))[0]


def _run(module: nn.Module, more: list[Any]) -> Any:
    at = torch.tensor([_PROBE])
    x = torch.zeros(1, len(_PROBE), 1)
    try:
        return module(x, at, *more)
    except (IndexError, RuntimeError):  # positions of several axes
        return module(x, at.expand(3, 1, -1), *more)


def _probe(kind: type[nn.Module], config: Any) -> Own:
    parameters = inspect.signature(kind.forward).parameters
    typed = "layer_type" in parameters
    with torch.device("cpu"), torch.no_grad():
        module = kind(config)
        types = list(getattr(config, "layer_types", None) or ()) if typed else [None]
        out = _run(module, [types[0]] if typed else [])
    form, channels = _form_of(out)
    return Own(kind.__name__, form, channels, typed, _sine_first(out))


def own_module(config: Any) -> Own | None:
    """What the model's own rotary module returns; None where transformers has no such module of this config."""
    config = config_object(config)
    if config is None:
        return None
    text = config.get_text_config() if hasattr(config, "get_text_config") else config
    for one in (text, config):
        with contextlib.suppress(ImportError):
            for kind in _classes(one):
                with contextlib.suppress(Exception):  # a module of something else than text, that this config does not make
                    return _probe(kind, one)
    return None
