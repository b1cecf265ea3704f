"""patch: Gyre's rotation in a model of transformers."""

from __future__ import annotations

import copy
import functools
import importlib
import inspect
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from types import ModuleType, TracebackType
from typing import Any, Self

import torch
from torch import Tensor, nn

from gyre._encoding import Encoding
from gyre._errors import Error
from gyre.torch import _device, _lengths
from gyre.torch._device import Increments
from gyre.torch._module import RotaryEmbedding, groups_of
from gyre.torch._rotate import _rotate, _rotate_pair
from gyre.torch._specs import encoding_of, spec_of

_NAMES = ("apply_rotary_pos_emb", "apply_rotary_pos_emb_interleave", "apply_rotary_emb")
_COMPLEX = "apply_rotary_emb"  # takes one complex tensor in place of cos and sin
_EXAMPLE = torch.tensor([[0, 1, 5, 2, 40]], device="cpu")  # positions of the check
CLOSE = 1e-4  # what rounding may change of the numbers of the check

# Positions of the attention layer that is running, where layers keep tables and get no cos and sin (GPT-J, CodeGen).
_running = threading.local()


class Positions:
    """What a patched rotary module returns in place of cos and sin: positions, and how to rotate by them."""

    by: Increments | None = None  # on a device, in place of those of the encoding at that length

    def __init__(self, positions: Tensor, spec: str, part_spec: str, dim: int, length: int) -> None:
        self.positions, self.spec, self.part_spec, self.dim, self.length = positions, spec, part_spec, dim, length

    def spec_for(self, channels: int) -> str:
        """Of the whole head, or of its rotated channels alone, which some models cut out before."""
        return self.part_spec if channels == self.dim else self.spec

    def to(self, *args: Any, **kwargs: Any) -> Positions:
        """On another device, as accelerate hands it to the layers there; no type changes it."""
        device = kwargs.get("device", args[0] if args and not isinstance(args[0], torch.dtype) else None)
        device = device.device if isinstance(device, Tensor) else device
        if device is None or torch.device(device) == self.positions.device:
            return self
        found = copy.copy(self)
        found.positions = self.positions.to(device)
        if not _device.takes(found.positions):
            found.by, found.length = None, self.length if self.by is None else _lengths.FOLLOWS
        elif self.by is not None:
            high, low, factor = self.by
            factor = factor.to(device) if isinstance(factor, Tensor) else factor
            found.by = Increments(high.to(device), low.to(device), factor)
        elif self.length == _lengths.FOLLOWS:
            found.length, found.by = _lengths.following(found.positions, self.spec, 0)
        return found


def _part(encoding: Encoding) -> Encoding:
    """The same rotation of the rotated channels alone, without a temperature, which models apply themselves."""
    return whole(encoding).replace(head_dim=encoding.config["rope.dim"], rope__first_channel=0)


def whole(encoding: Encoding) -> Encoding:
    """The encoding without a temperature."""
    return encoding.replace(query__temperature="none") if encoding.config["query.temperature"] != "none" else encoding


def at_rest(module: nn.Module) -> nn.Module:
    """A copy of a rotary module; of dynamic NTK, which keeps the frequencies of the longest text so far, as before that text."""
    copied = copy.deepcopy(module)
    trained = getattr(copied, "original_max_seq_len", 0)
    for name in [name for name in vars(copied) if name.endswith("max_seq_len_cached")]:
        prefix = name.removesuffix("max_seq_len_cached")
        original = getattr(copied, f"{prefix}original_inv_freq", None)
        if isinstance(original, Tensor) and getattr(copied, name) > trained:
            setattr(copied, f"{prefix}inv_freq", original.clone())
            setattr(copied, name, trained)
    return copied


class _PatchedRotary(RotaryEmbedding):
    """Stands for a rotary module of transformers, which it keeps."""

    def __init__(self, encoding: Any, original: nn.Module, cached: int = 0, length: int | None = None) -> None:
        super().__init__(encoding, cached=cached, length=length)
        self._parts = {name: spec_of(_part(encoding_of(spec))) for name, spec in self._specs.items()}
        self._dims = {name: int(encoding_of(spec).config["rope.dim"]) for name, spec in self._specs.items()}
        self._wholes = {name: spec_of(whole(encoding_of(spec))) for name, spec in self._specs.items()}
        self._kept = (original,)  # in a tuple: not a submodule, so that parameters, buffers and names are as before
        name = next(iter(self._specs))
        made = at_rest(original).to("cpu")(torch.zeros(1, device="cpu"), self.example(name), *([name] if name else []))
        self._complex = isinstance(made, Tensor)

    def example(self, name: str) -> Tensor:
        """Positions to compare by; on each axis others."""
        axes = self._axes[name]
        return torch.stack([_EXAMPLE + 3 * axis for axis in range(axes)]) if axes > 1 else _EXAMPLE

    def forward(self, x: Tensor, position_ids: Tensor, layer_type: str | None = None) -> Any:
        name = self._chosen(layer_type)
        positions = position_ids
        if positions.shape[-2] == 1:
            positions = positions[..., 0, :]  # one row for every sequence of the batch
        length, by = self._length(name), None
        if length == _lengths.FOLLOWS and _device.takes(positions):
            length, by = _lengths.following(positions, self._wholes[name], self.cached)
        found = Positions(positions, self._wholes[name], self._parts[name], self._dims[name], length)
        found.by = by
        return found if self._complex else (found, found)


def _rotated(found: Positions, tensors: tuple[Tensor, ...], layout: str) -> Any:
    at, spec, length, on_device = found.positions, found.spec_for(tensors[0].shape[-1]), found.length, _device.takes(tensors[0])
    if len(tensors) == 1:
        one = functools.partial(_device.rotate, by=found.by) if on_device else _rotate
        return one(tensors[0], at, 0, spec, layout, "query", "forward", length)
    both = functools.partial(_device.rotate_pair, by=found.by) if on_device else _rotate_pair
    return both(tensors[0], tensors[1], at, 0, spec, layout, "forward", length)


def _parameters(function: Any) -> list[str]:
    return list(inspect.signature(function).parameters)


def _takes_both(function: Any) -> bool:
    """Whether it rotates queries and keys in one call."""
    names = _parameters(function)
    return function.__name__ == _COMPLEX or "k" in names[:2] or "key" in names[:2]


def _layout_of(function: Any) -> str | None:
    """The layout of the tensors of a function that has one only: other shapes do not fit together.  None: its unsqueeze_dim
    says it."""
    is_complex = function.__name__ == _COMPLEX
    if not is_complex and (_takes_both(function) or "unsqueeze_dim" in _parameters(function)):
        return None
    x = torch.zeros(1, 2, 5, 4, device="cpu")
    pairs = torch.ones(1, 5, 2, device="cpu")
    try:
        with torch.device("cpu"):
            function(x, x[:, :1], torch.complex(pairs, pairs)) if is_complex else function(x, pairs, pairs)
    except RuntimeError:
        return "bshd"
    return "bhsd"


def _fused(original: Any) -> Any:
    """apply_rotary_pos_emb for pairs of a patched module; others go to the function of transformers."""
    only = _layout_of(original)

    @functools.wraps(original)
    def apply(*args: Any, **kwargs: Any) -> Any:
        at = next((i for i, x in enumerate(args) if isinstance(x, Positions)), None)
        found = args[at] if at is not None else kwargs.get("cos")
        if not isinstance(found, Positions):
            running = getattr(_running, "positions", None)
            return original(*args, **kwargs) if running is None else _rotated(running, args[:1], "bshd")
        tensors = args[:at] if at is not None else args
        rest = args[at + 2 :] if at is not None else ()
        axis = kwargs.get("unsqueeze_dim", next((x for x in rest if isinstance(x, int)), 1))
        return _rotated(found, tensors, only or ("bhsd" if axis == 1 else "bshd"))

    apply.gyre_original = original  # type: ignore[attr-defined]
    apply.gyre_users = 0  # type: ignore[attr-defined]
    return apply


def _install(functions: list[tuple[ModuleType, str]]) -> None:
    """Has the files of a model call Gyre, for one patch more."""
    for file, name in functions:
        function = getattr(file, name)
        if not hasattr(function, "gyre_original"):
            function = _fused(function)
            setattr(file, name, function)
        function.gyre_users += 1


@dataclass
class Patch:
    """A patched model; also a context manager, which ends the patch."""

    model: nn.Module
    modules: dict[str, nn.Module] = field(default_factory=dict)
    functions: list[tuple[ModuleType, str]] = field(default_factory=list)
    hooks: list[Any] = field(default_factory=list)

    def remove(self) -> None:
        """The model as it was before.  Once is enough; more does nothing."""
        for path, original in self.modules.items():
            parent, _, name = path.rpartition(".")
            setattr(self.model.get_submodule(parent), name, original)
        for module, name in self.functions:
            function = getattr(module, name)
            function.gyre_users -= 1
            if function.gyre_users == 0:
                setattr(module, name, function.gyre_original)
        for hook in self.hooks:
            hook.remove()
        self.modules, self.functions, self.hooks = {}, [], []
        if getattr(self.model, "_gyre_patch", None) is self:
            del self.model._gyre_patch

    def __deepcopy__(self, memo: dict[int, Any]) -> Patch:
        """A copy of a patched model is patched, and its patch ends on its own."""
        other = Patch(self.model)
        memo[id(self)] = other
        other.model = copy.deepcopy(self.model, memo)
        other.modules = copy.deepcopy(self.modules, memo)
        other.hooks = copy.deepcopy(self.hooks, memo)
        other.functions = list(self.functions)
        _install(other.functions)
        return other

    def __getstate__(self) -> dict[str, Any]:
        """Files by name, because a module cannot be pickled."""
        return {**vars(self), "functions": [(file.__name__, name) for file, name in self.functions]}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """A loaded model is patched, also in another process."""
        functions = [(importlib.import_module(file), name) for file, name in state["functions"]]
        vars(self).update({**state, "functions": functions})
        _install(functions)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, why: BaseException | None, trace: TracebackType | None) -> None:
        self.remove()


def _rotaries(model: nn.Module) -> dict[str, nn.Module]:
    """The rotary modules of transformers that take position_ids, by path."""
    found = {}
    for path, module in model.named_modules():
        name = type(module).__name__
        if "RotaryEmbedding" not in name or "Vision" in name or isinstance(module, RotaryEmbedding):
            continue
        if "position_ids" in inspect.signature(module.forward).parameters:
            found[path] = module
    return found


def _encodings(model: nn.Module, path: str, module: nn.Module, profile: str) -> Any:
    """One encoding, or a dict by type of layers."""
    why: Error | None = None
    for config in (getattr(module, "config", None), getattr(model, "config", None)):
        if config is None:
            continue
        try:
            groups = groups_of(config, profile)
        except Error as error:
            why = why or error
            continue
        if "layer_type" in inspect.signature(module.forward).parameters:
            names = getattr(module, "layer_types", list(groups))
            alone = next(iter(groups.values())) if len(groups) == 1 else None
            return {name: groups.get(name, alone) for name in names if groups.get(name, alone)}
        if len({spec_of(encoding) for encoding in groups.values()}) == 1:
            return next(iter(groups.values()))
        if groups:
            why = Error("EUNSUPPORTED", f"model: {path} serves layers that differ: {', '.join(groups)}", "model")
    raise why or Error("EUNSUPPORTED", f"model: no layers are known that {path} serves", "model")


def _functions(model: nn.Module) -> list[tuple[ModuleType, str]]:
    """The functions that the files of a model call."""
    modules = {type(module).__module__: None for module in model.modules()}
    files = [sys.modules[name] for name in modules if name in sys.modules]
    return [(file, name) for file in files for name in _NAMES if hasattr(file, name)]


def _arguments(function: Any, q: Tensor, k: Tensor, pair: Any) -> tuple[Any, ...]:
    if _layout_of(function) == "bshd":
        q, k = q.transpose(1, 2), k.transpose(1, 2)
    if function.__name__ == _COMPLEX:
        return (q, k, pair)
    return (q, k, *pair) if _takes_both(function) else (q, *pair)


def _difference(pairs: Any) -> float:
    """The largest; that of numbers that are not finite is 1e30."""
    return max(float((a - b).abs().nan_to_num(1e30, 1e30).max()) for a, b in pairs)


def difference(original: nn.Module, patched: _PatchedRotary, functions: list[tuple[ModuleType, str]]) -> float:
    """How far both ways differ on a small example; infinite where no function takes what the module gives."""
    worst = 0.0
    drawn = torch.Generator("cpu").manual_seed(0)  # a separate one: that of the program is unchanged
    own = at_rest(original).to("cpu")
    for name, encoding in patched.encodings.items():
        config = encoding.config
        closest = float("inf")  # of the functions and widths that a model may call, of which not all belong to these layers
        at = patched.example(name)
        more = (name,) if name else ()
        x = torch.zeros(1, device="cpu")
        pair, found = own(x, at, *more), patched(x, at, *more)
        for file, function_name in functions:
            function = getattr(getattr(file, function_name), "gyre_original", getattr(file, function_name))
            for channels in {config["head_dim"], config["rope.dim"]}:
                q, k = (torch.randn(1, heads, 5, channels, generator=drawn, device="cpu") for heads in (2, 1))
                try:
                    wanted = function(*_arguments(function, q, k, pair))
                except (RuntimeError, TypeError, ValueError):
                    continue
                got = _fused(function)(*_arguments(function, q, k, found))
                both = ((got, wanted),) if isinstance(got, Tensor) else zip(got, wanted, strict=True)
                closest = min(closest, _difference(both))
        worst = max(worst, closest)
    return worst


def turning(model: nn.Module, path: str, module: nn.Module, profile: str) -> float:
    """How far rotations by what a module returns are from those of the config, as `difference`.  Raises gyre.Error."""
    own = copy.deepcopy(module).to("cpu")
    return difference(own, _PatchedRotary(_encodings(model, path, module, profile), own), _functions(model))


def _check(path: str, original: nn.Module, patched: _PatchedRotary, functions: list[tuple[ModuleType, str]]) -> None:
    """Raises where both ways differ by more than rounding."""
    worst = difference(original, patched, functions)
    if worst == float("inf"):
        raise Error("EUNSUPPORTED", f"model: {path} is not called as those of the models that patch knows", "model")
    if not worst <= CLOSE:
        text = f"model: {path} rotates otherwise than its config says, by up to {worst:.2g} (gyre.torch.audit has details)"
        raise Error("EUNSUPPORTED", text, "model")


# -- layers with tables of their own: GPT-J, CodeGen --


def _with_tables(model: nn.Module) -> list[nn.Module]:
    """Attention layers that look cos and sin of position_ids up in embed_positions."""
    layers = [module for module in model.modules() if isinstance(getattr(module, "embed_positions", None), Tensor)]
    return [layer for layer in layers if "position_ids" in inspect.signature(layer.forward).parameters]


def _begin(spec: str, part_spec: str, dim: int, _: nn.Module, args: Any, kwargs: Any) -> None:
    at = kwargs.get("position_ids")
    if at is not None:
        _running.positions = Positions(at[0] if at.shape[0] == 1 else at, spec, part_spec, dim, 0)


def _end(*_: Any) -> None:
    _running.positions = None


def _hook(layer: nn.Module, encoding: Encoding) -> list[Any]:
    """Has a layer leave its positions to apply_rotary_pos_emb while it runs."""
    begin = functools.partial(_begin, spec_of(whole(encoding)), spec_of(_part(encoding)), int(encoding.config["rope.dim"]))
    return [
        layer.register_forward_pre_hook(begin, with_kwargs=True),
        layer.register_forward_hook(_end, always_call=True),
    ]


def _check_tables(layer: nn.Module, encoding: Encoding, original: Callable[..., Tensor]) -> None:
    """Raises where a layer's tables are not those of the encoding."""
    buffer = layer.get_buffer("embed_positions")
    table = buffer.reshape(-1, buffer.shape[-1]).cpu()
    drawn = torch.Generator("cpu").manual_seed(0)
    x = torch.randn(1, 5, 2, int(encoding.config["rope.dim"]), generator=drawn, device="cpu")
    sine, cosine = table[_EXAMPLE].float().chunk(2, -1)
    off = float((original(x, sine, cosine) - _part(encoding).rotate(x, _EXAMPLE, layout="bshd")).abs().max())
    if off > CLOSE:
        text = f"model: its tables differ from its config, by up to {off:.2g} (gyre.torch.audit has details)"
        raise Error("EUNSUPPORTED", text, "model")


def _patch_tables(model: nn.Module, layers: list[nn.Module], profile: str, check: bool) -> list[Any]:
    """Hooks on the layers."""
    groups = groups_of(model.config, profile)
    encoding = next(iter(groups.values()), None)
    if encoding is None or len(groups) > 1:
        raise Error("EUNSUPPORTED", f"model: {type(model).__name__} has layers that differ", "model")
    if check:
        function = sys.modules[type(layers[0]).__module__].apply_rotary_pos_emb
        _check_tables(layers[0], encoding, getattr(function, "gyre_original", function))
    return [hook for layer in layers for hook in _hook(layer, encoding)]


# -- patch --


def patch(
    model: nn.Module, *, profile: str = "hf-5", check: bool = True, cached: int = 0, length: int | None = None
) -> Patch:
    """Has a model of transformers rotate queries and keys with Gyre: one pass over memory, angles exact at any position.

    The rotary modules give positions in place of cos and sin, and apply_rotary_pos_emb of the model's file passes these on
    to gyre.torch.rotate_pair.  Other models of the same file are served as before.  Gradients, generation, KV caches and
    torch.compile work as before.  Under a scaling that follows the context length, nothing is read from a device for
    LongRoPE; dynamic NTK and YaRN need cached or length for that, and for a graph of torch.compile without a break.

    Args:
        model: on any device, one whose file has apply_rotary_pos_emb.
        profile: the program whose reading of the config counts.
        check: True = compare both ways on a small example first.
        cached: on other devices than the processor, dynamic NTK and YaRN look their frequencies up by the length, in a table
            of all lengths up to it, if it is past the trained length; a call with a position from `cached` on is NaN.
        length: the context length in use, for scalings that follow it; None = one past the largest position of a call, or
            the trained length.

    Returns a Patch: its remove(), leaving its `with`, or unpatch(model) end it.

    Raises:
        gyre.Error: Gyre cannot read the config, or the two ways differ (check), or the model has no such module.
    """
    if not isinstance(model, nn.Module):
        raise Error("EINVAL", f"model: is a {type(model).__name__}, not a torch.nn.Module", "model")
    if getattr(model, "_gyre_patch", None) is not None:
        raise Error("EINVAL", "model: is patched already", "model")
    if any(isinstance(module, RotaryEmbedding) for module in model.modules()):
        text = "model: has a gyre.torch.RotaryEmbedding, with which its rotations need no patch; put its own module back first"
        raise Error("EUNSUPPORTED", text, "model")
    rotaries, layers, functions = _rotaries(model), _with_tables(model), _functions(model)
    if not (rotaries or layers) or not functions:
        raise Error("EUNSUPPORTED", f"model: {type(model).__name__} has no rotary module with apply_rotary_pos_emb", "model")
    replaced: dict[str, _PatchedRotary] = {}
    for path, module in rotaries.items():
        encodings = _encodings(model, path, module, profile)
        replaced[path] = _PatchedRotary(encodings, module, cached, length)
        if check:  # at the lengths of the example
            _check(path, module, _PatchedRotary(encodings, module), functions)
    done = Patch(model, dict(rotaries), functions, _patch_tables(model, layers, profile, check) if layers else [])
    _install(functions)
    for path, new in replaced.items():
        parent, _, name = path.rpartition(".")
        setattr(model.get_submodule(parent), name, new)
    object.__setattr__(model, "_gyre_patch", done)
    return done


def unpatch(model: nn.Module) -> None:
    """Ends the patch of a model.  Raises gyre.Error where it has none."""
    found = getattr(model, "_gyre_patch", None)
    if found is None:
        raise Error("EINVAL", "model: is not patched", "model")
    found.remove()
