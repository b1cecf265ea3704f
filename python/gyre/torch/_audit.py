"""audit: the live rotary buffers of a model of transformers against what its config means."""

from __future__ import annotations

import copy
import inspect
import json
import math
import re
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy
import torch
from torch import nn

from gyre import _encoding
from gyre._encoding import Encoding
from gyre._errors import Error
from gyre.torch import _diagnose
from gyre.torch._diagnose import Fault, Wanted
from gyre.torch._module import RotaryEmbedding
from gyre.torch._specs import depends_on_length
from gyre.torch._own import TOLD, form_of, own_module
from gyre.torch._patch import Positions, turning

_FREQUENCIES = re.compile(r"^(?P<layers>.*?)_?(?P<kind>original_inv_freq|inv_freq)$")
_FACTOR = re.compile(r"^(?P<layers>.*?)_?attention_scaling$")
_TABLES = {"cos_cached": "sin_cached", "_cos_cached": "_sin_cached", "cos_cache": "sin_cache", "freqs_cos": "freqs_sin"}
_JOINED = ("freqs_cis", "embed_positions")  # complex, [positions, pairs, 2], or [sin | cos] side by side
_POSITIONS = re.compile(r"pos|_ids$")  # in the name of an argument that is positions
_DENSE = 1024  # a module is run at every position below this, and about each power of two
_BEYOND = 4098  # and up to here, where the context length changes nothing
_SAME_FORM = 0.02  # of queries of about 1: what frequencies within their tolerance change is less, another form changes more
_MOST = 4096  # positions of one run that looks for the first wrong one


@dataclass(frozen=True)
class Finding:
    """A buffer, a factor or a result of a rotary module that is not what the config means.

    Attributes:
        module: its path in the model.  buffer: the attribute, or "forward()".
        cause: "meta", "shape", "dtype", "uninitialised", "rounded", "twice", "not applied", "switch" (a switch of lengths
            is not taken), "base", "factor", "sign", "positions", "order" or "other".
        text: the same for people.
        difference: the largest; relative, of frequencies and factors; absolute, of cos and sin.
        position: the first at which an angle is more than 0.01 rad off, or a row of a table is wrong.
    """

    module: str
    buffer: str
    cause: str
    text: str
    difference: float | None
    position: int | None

    def __str__(self) -> str:
        told = f"{self.module}.{self.buffer} {self.text}"
        if self.position is not None:
            told += f"; wrong from position {self.position} on"
        return told


@dataclass(frozen=True)
class Audit:
    """The result of audit.  print it, or read the lists.

    Attributes:
        model: its class.  profile: the program whose reading of the config counts.
        findings: what is wrong.  right: "module.buffer" of what was compared and is right.
        skipped: what could not be compared, and why; then the model is not ok.
    """

    model: str
    profile: str
    findings: list[Finding] = field(default_factory=list)
    right: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """True where something was compared, all of it is right and nothing was left out."""
        return bool(self.right) and not self.findings and not self.skipped

    def as_dict(self) -> dict[str, Any]:
        """For JSON, which has no NaN: a difference that is not finite is None."""
        told = asdict(self)
        for finding in told["findings"]:
            if finding["difference"] is not None and not math.isfinite(finding["difference"]):
                finding["difference"] = None
        return {**told, "ok": self.ok}

    def __str__(self) -> str:
        lines = [f"{self.model}, its config read as {self.profile} does"]
        for f in self.findings:
            lines.append(f"  WRONG    {f.module}.{f.buffer}")
            lines.append(f"           {f.text}")
            if f.position is not None:
                far = "" if f.difference is None else f"; the largest difference is {f.difference:.2g}"
                lines.append(f"           wrong from position {f.position} on{far}")
        lines += [f"  right    {name}" for name in self.right]
        lines += [f"  skipped  {text}" for text in self.skipped]
        total = len(self.findings) + len(self.right)
        left = f", {len(self.skipped)} not compared" if self.skipped else ""
        lines.append(f"{len(self.findings)} wrong of {total} compared{left}" if total else "nothing was compared")
        return "\n".join(lines)


# -- what the config means --


class _Meaning:
    """Readings of the configs of a model."""

    def __init__(self, model: nn.Module, config: Any, profile: str) -> None:
        self.model, self.config, self.profile = model, config, profile
        self.readings: dict[int, dict[str, Any] | Error] = {}

    def reading(self, config: Any) -> dict[str, Any] | Error:
        if id(config) not in self.readings:
            try:
                self.readings[id(config)] = _encoding.read(config, self.profile)
            except Error as why:
                self.readings[id(config)] = why
        return self.readings[id(config)]

    def configs(self, path: str) -> list[Any]:
        """The configs of a module and of those around it, inmost first."""
        names = path.split(".") if path else []
        found: list[Any] = []
        for depth in range(len(names), -1, -1):
            config = getattr(self.model.get_submodule(".".join(names[:depth])), "config", None)
            if hasattr(config, "to_dict") and not any(config is c for c in found):
                found.append(config)
        if self.config is not None and not any(self.config is c for c in found):
            found.append(self.config)
        return found

    def groups(self, path: str, layers: str) -> tuple[list[dict[str, Any]], Any]:
        """The groups of layers that a module may serve, and the config.  Raises gyre.Error where none is known."""
        why: Error | None = None
        vision = bool(re.search(r"visual|vision|image", path))
        configs = self.configs(path)
        for config in reversed(configs) if vision else configs:  # a vision_config alone does not say what model it is of
            reading = self.reading(config)
            if isinstance(reading, Error):
                why = why or reading
                continue
            ropes = [g for g in reading["groups"] if g["config"]["kind"] == "rope" and (g["name"] == "vision") == vision]
            chosen = _choose([g for g in ropes if not g["name"].startswith("indexer")], path, layers)
            if chosen:
                return chosen, config
        raise why or Error("EUNSUPPORTED", "no group of layers that rotates is known for it", "config")


def _choose(groups: list[dict[str, Any]], path: str, layers: str) -> list[dict[str, Any]]:
    if layers:  # a model whose layers are all of one type has one group, "all"
        return [g for g in groups if g["name"] in (layers, "all")]
    number = re.search(r"(?:layers|h|blocks)\.(\d+)\.", path)
    if number and len(groups) > 1:
        return [g for g in groups if int(number[1]) in g["layers"]] or groups
    if len(groups) > 1 and path.endswith("_local"):
        return [g for g in groups if g["name"] == "sliding_attention"] or groups
    return groups


def _plain(encoding: Encoding, pairs: int) -> Any:
    config = encoding.config
    if config["rope.axes_layout"] == "axial":
        return None
    return numpy.asarray(config["rope.base"] ** (-numpy.arange(pairs) / pairs))


def _wanted(encoding: Encoding, length: int | None) -> Wanted:
    inv_freq = encoding.frequencies(length)
    config = encoding.config
    if config["rope.axes_layout"] == "axial":  # the module has the frequencies of one axis
        inv_freq = inv_freq[: config["rope.axis_pairs"][0]]
    return Wanted(
        length or config["trained_length"], inv_freq, encoding.attention_factor(length), _plain(encoding, len(inv_freq))
    )


@dataclass(frozen=True)
class _Target:
    """The encoding of a module, at a length within the trained one and, where that matters, beyond."""

    encoding: Encoding
    near: Wanted
    far: Wanted | None
    several_axes: bool


def _target(group: dict[str, Any], config: Any) -> _Target:
    encoding = Encoding(**group["config"])
    trained = encoding.config["trained_length"]
    near = _wanted(encoding, trained or None)
    declared = int(getattr(config, "max_position_embeddings", 0) or 0)
    length = max(declared, 2 * trained)
    far = _wanted(encoding, length) if trained else None
    if far is not None and numpy.allclose(far.inv_freq, near.inv_freq, rtol=1e-9, atol=0) and far.factor == near.factor:
        far = None
    rope = getattr(config, "rope_parameters", None)
    several = encoding.config["rope.axes"] > 1 or (isinstance(rope, dict) and "mrope_section" in rope)
    return _Target(encoding, near, far, several)


# -- the parts of a module --


class _Auditor:
    def __init__(self, report: Audit, meaning: _Meaning) -> None:
        self.report, self.meaning = report, meaning

    def note(self, path: str, buffer: str, fault: Fault | None) -> bool:
        """Keeps what was found; True where it is right."""
        if fault is None:
            self.report.right.append(f"{path}.{buffer}")
        else:
            self.report.findings.append(Finding(path, buffer, fault.cause, fault.text, fault.difference, fault.position))
        return fault is None

    def targets(self, path: str, name: str, layers: str) -> list[_Target]:
        try:
            groups, config = self.meaning.groups(path, layers)
            return [_target(group, config) for group in groups]
        except Error as why:
            self.report.skipped.append(f"{path}.{name}: {why.text}")
            return []

    def best(self, targets: list[_Target], check: Any) -> tuple[_Target, Fault | None]:
        """The target that fits, or the first."""
        results = [(target, check(target)) for target in targets]
        for target, fault in results:
            if fault is None:
                return target, None
        return results[0]

    def module(self, path: str, module: nn.Module) -> None:
        good = True
        seen: dict[str, list[_Target]] = {}
        for name, value in _attributes(module):
            matched, factor = _FREQUENCIES.match(name), _FACTOR.match(name)
            if matched and isinstance(value, torch.Tensor):
                layers = matched["layers"]
                targets = seen.setdefault(layers, self.targets(path, name, layers))
                original = matched["kind"] == "original_inv_freq"
                if targets:
                    live = value
                    at = _cached_length(module, layers)
                    good &= self.note(path, name, self.best(targets, lambda t: _check_frequencies(live, t, original, at))[1])
            elif factor and isinstance(value, (int, float, torch.Tensor)):
                targets = seen.setdefault(factor["layers"], self.targets(path, name, factor["layers"]))
                if targets:
                    number = value
                    good &= self.note(path, name, self.best(targets, lambda t: _diagnose.factor(number, t.near.factor))[1])
        tables = list(_tables(module))
        for name, cosine, sine in tables:
            targets = seen.setdefault("", self.targets(path, name, ""))
            if targets:
                good &= self.note(path, name, self.best(targets, lambda t: _check_table(cosine, sine, t))[1])
        if isinstance(module, RotaryEmbedding):
            seen = {name: self.targets(path, "forward", name) for name in module.encodings}
        if good and seen and not tables and self.run(path, module, seen) and not isinstance(module, RotaryEmbedding):
            self.turn(path, module, list(seen))
        if isinstance(module, RotaryEmbedding):
            self.order(path, module)

    def order(self, path: str, module: RotaryEmbedding) -> None:
        """Are the results of a module of Gyre in the form that the model's functions take?"""
        own = next((one for one in map(own_module, self.meaning.configs(path)) if one is not None), None)
        if own is None or own.form is None:
            self.report.skipped.append(f"{path}.form: transformers has no rotary module of this model to see the form by")
        elif own.form != module.form:
            text = f"returns {TOLD[module.form]}; the model takes {TOLD[own.form]}: form={own.form!r}"
            self.note(path, "form", Fault("order", text, None, 0))
        elif not own.layer_type and "" not in module.encodings:
            self.note(path, "form", Fault("order", "needs a layer_type, which the model does not pass", None, 0))
        else:
            self.note(path, "form", None)

    def turn(self, path: str, module: nn.Module, layers: list[str]) -> None:
        """Do the functions of the model's file rotate as the config means by what a module returns?  Its numbers may be right
        and in another form.  Nothing is noted where it is right, or where no such function takes what the model's own class
        returns either."""
        try:
            off = turning(self.meaning.model, path, module, self.meaning.profile)
        except Exception:  # a module that patch does not know
            return
        if off <= _SAME_FORM:
            return
        has = form_of(module, layers[0])
        own = next((one for one in map(own_module, self.meaning.configs(path)) if one is not None), None)
        if math.isinf(off) and (own is None or own.form == has or own.name not in [kind.__name__ for kind in type(module).__mro__]):
            return
        text = f"returns {TOLD[has]}" if has in TOLD else "returns cos and sin in a form"
        if own is not None and own.form in TOLD and own.form != has:
            text += f"; the model takes {TOLD[own.form]}"
        else:
            text += ", by which the model does not rotate as its config says"
        self.note(path, "form", Fault("order", text, off if math.isfinite(off) else None, 0))

    def run(self, path: str, module: nn.Module, seen: dict[str, list[_Target]]) -> bool:
        """Runs a copy of a module whose buffers are right: does it give the cos and sin that the config means?  Returns False
        where it does not, or where that cannot be said."""
        before = len(self.report.findings), len(self.report.skipped)
        self.run_each(path, module, seen)
        return before == (len(self.report.findings), len(self.report.skipped))

    def run_each(self, path: str, module: nn.Module, seen: dict[str, list[_Target]]) -> None:
        parameters = inspect.signature(module.forward).parameters
        named = _second(parameters)
        if named is None:
            takes = ", ".join(parameters) or "nothing"
            self.report.skipped.append(f"{path}.forward(): takes ({takes}), no positions beside a tensor")
            return
        for layers, targets in seen.items():
            if any(_other_order(getattr(module, "inv_freq", None), target) for target in targets):
                self.report.skipped.append(f"{path}.forward(): its pairs are in another order")
            elif any(target.encoding.config["rope.axes_layout"] == "axial" for target in targets):
                self.report.skipped.append(f"{path}.forward(): is of images, whose positions are rows and columns")
            elif targets and (bool(layers) == ("layer_type" in parameters) or isinstance(module, RotaryEmbedding)):
                name = f"forward({layers})"
                try:
                    fault = self.best(targets, lambda t: _check_run(module, t, layers))[1]
                except Exception as why:
                    self.report.skipped.append(f"{path}.{name}: cannot be run alone: {type(why).__name__}: {why}")
                else:
                    if fault is None or _POSITIONS.search(named):
                        self.note(path, name, fault)
                    else:  # what it makes of positions may not be what it takes
                        self.report.skipped.append(f"{path}.{name}: takes {named}, which may not be positions")


def _second(parameters: Any) -> str | None:
    """The name of the second argument that a forward takes by place, which is where rotary modules take positions."""
    places = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    names = [name for name, one in parameters.items() if one.kind in places]
    return names[1] if len(names) > 1 else None


def _attributes(module: nn.Module) -> Iterator[tuple[str, Any]]:
    """Buffers, and plain attributes that a subclass made of a buffer."""
    yield from module.named_buffers(recurse=False)
    for name, value in vars(module).items():
        if (_FREQUENCIES.match(name) or _FACTOR.match(name)) and not name.endswith("long_inv_freq"):
            yield name, value


def _cached_length(module: nn.Module, layers: str) -> int:
    """The context length that a dynamic module computed its frequencies for."""
    name = f"{layers}_max_seq_len_cached" if layers else "max_seq_len_cached"
    return int(getattr(module, name, 0) or 0)


def _check_frequencies(live: torch.Tensor, target: _Target, original: bool, length: int) -> Fault | None:
    """At rest: those for a short context; after a run in a long one, those for that."""
    accepted = [target.near]
    if target.far is not None and not original:
        scaling = target.encoding.config["rope.scaling"]
        if scaling == "longrope":
            accepted.append(target.far)
        elif length > target.near.length:
            accepted.insert(0, _wanted(target.encoding, length))
    others = [target.far] if target.far is not None else []
    if _other_order(live, target):
        return None
    return _diagnose.frequencies(live, accepted, others)


def _other_order(live: Any, target: _Target) -> bool:
    """Are these the frequencies of several axes in an order of the module's own (ERNIE 4.5 VL)?"""
    wanted = target.near.inv_freq
    if not target.several_axes or live is None or live.is_meta or live.numel() != wanted.size:
        return False
    ours, theirs = numpy.sort(wanted), numpy.sort(_diagnose.numbers(live).reshape(-1))
    same_order = numpy.max(_diagnose.relative(_diagnose.numbers(live).reshape(-1), wanted)) <= _diagnose.CLOSE
    return not same_order and bool(numpy.max(_diagnose.relative(theirs, ours)) <= _diagnose.CLOSE)


def _numbers_of(cosine: torch.Tensor, sine: torch.Tensor, pairs: int) -> tuple[Any, Any]:
    both = [_diagnose.pairs_of(_diagnose.numbers(x).reshape(-1, x.shape[-1]), pairs) for x in (cosine, sine)]
    return both[0], both[1]


def _check_table(cosine: torch.Tensor, sine: torch.Tensor, target: _Target) -> Fault | None:
    if cosine.is_meta or sine.is_meta:
        return Fault("meta", "is on the meta device: it has no numbers")
    precision = torch.finfo(cosine.dtype).eps / 2
    c, s = _numbers_of(cosine, sine, len(target.near.inv_freq))
    if c is None or s is None:
        return Fault("shape", f"has rows of {cosine.shape[-1]}, the config means {2 * len(target.near.inv_freq)}")
    positions = numpy.arange(c.shape[0], dtype=numpy.float64)
    near = target.near
    if target.far is not None and c.shape[0] > near.length:  # a table for a long context
        return _diagnose.table(c, s, positions, _wanted(target.encoding, c.shape[0]), precision, [near])
    return _diagnose.table(c, s, positions, near, precision, [target.far] if target.far else [])


def _tables(module: nn.Module) -> Iterator[tuple[str, torch.Tensor, torch.Tensor]]:
    """(name, cos, sin), each [positions, pairs or twice that]."""
    found = dict(module.named_buffers(recurse=False))
    found.update({name: x for name, x in vars(module).items() if isinstance(x, torch.Tensor)})
    for name, other in _TABLES.items():
        if name in found and other in found:
            yield f"{name}, {other}", found[name], found[other]
    for name in _JOINED:
        x = found.get(name)
        if x is None:
            continue
        if x.is_complex():
            yield name, x.real, x.imag
        elif x.dim() == 3 and x.shape[-1] == 2:
            yield name, x[..., 0], x[..., 1]
        elif x.dim() == 2:
            half = x.shape[-1] // 2
            yield name, x[:, half:], x[:, :half]


def _forward(module: nn.Module, positions: Any, layers: str, axes: int) -> tuple[torch.Tensor, torch.Tensor]:
    at = torch.tensor(positions)[None]
    x = torch.zeros(1, len(positions), 1)
    given = (x, at if axes < 2 else at.expand(axes, 1, -1))
    with torch.no_grad():
        out = module(*given, layers) if layers else module(*given)
    if isinstance(out, torch.Tensor) and out.is_complex():
        return out.real, out.imag
    if isinstance(out[0], Positions):
        raise TypeError("the model is patched; audit it without the patch")
    cosine, sine = out
    return cosine, sine


def _run_once(
    module: nn.Module, target: _Target, wanted: Wanted, layers: str, others: list[Wanted], positions: list[int]
) -> Fault | None:
    axes = int(target.encoding.config["rope.axes"])
    cosine, sine = _forward(module, positions, layers, axes)
    if cosine.dim() > 3 or cosine.reshape(-1, cosine.shape[-1]).shape[0] != len(positions):  # axes are chosen outside
        cosine, sine = (x.reshape(-1, len(positions), x.shape[-1])[0] for x in (cosine, sine))
    c, s = _numbers_of(cosine, sine, len(wanted.inv_freq))
    if c is None or s is None:
        return Fault("shape", f"gives {cosine.shape[-1]} channels of cos, the config means {2 * len(wanted.inv_freq)}")
    at = numpy.asarray(positions, dtype=numpy.float64)
    return _diagnose.table(c, s, at, wanted, torch.finfo(torch.float32).eps / 2, others)


def _probes(last: int) -> list[int]:
    """Positions from 0 to last: what is rounded goes wrong first after a power of two."""
    powers = (p + d for p in (2**k for k in range(10, 31)) for d in (-1, 0, 1))
    return [*range(min(_DENSE, last)), *(p for p in powers if _DENSE <= p < last), max(1, last)]


def _run_at(module: nn.Module, target: _Target, wanted: Wanted, layers: str, others: list[Wanted]) -> Fault | None:
    """Runs at positions up to the length, whose last is always the same: some modules read it."""
    last = wanted.length - (2 if wanted is target.near else 1)  # transformers goes back to the short only below that length
    if not depends_on_length(target.encoding):
        last = max(last, _BEYOND)
    probes = _probes(last)
    fault = _run_once(module, target, wanted, layers, others, probes)
    first = fault.position if fault else None
    while first in probes[1:]:  # the first wrong one is after the probe before it
        right = probes[probes.index(first) - 1]
        between = range(right + 1, first, -(-(first - right) // _MOST))
        if not between:
            break
        probes = [right, *between, first]
        again = _run_once(module, target, wanted, layers, others, sorted({*probes[1:], max(1, last)}))
        if again is None or again.position not in probes:
            break
        first = again.position
    return replace(fault, position=first) if fault else None


def _check_run(module: nn.Module, target: _Target, layers: str) -> Fault | None:
    trial = copy.deepcopy(module).to("cpu")
    near, far = target.near, target.far
    fault = _run_at(trial, target, near, layers, [far] if far else [])
    if fault is None and far is not None:
        fault = _run_at(trial, target, far, layers, [near])
        fault = fault or _run_at(trial, target, near, layers, [far])
    return fault


def audit(model: nn.Module, config: Any = None, *, profile: str = "hf-5") -> Audit:
    """Compares every live rotary buffer of a model with what its config means.

    It checks inv_freq, original_inv_freq, attention_scaling and tables of cos and sin in each module, and runs a copy of
    each rotary module, in and beyond the trained length where the two differ.  The model is not changed.

    Args:
        model: a model of transformers, or one whose modules keep such buffers.
        config: a config of transformers, a dict or a path, for a model that has no `config`.
        profile: the program whose reading of the config counts, as in Encoding.from_config.

    Returns an Audit, which prints as a list.  Raises gyre.Error if `model` is not a module, has a config and another is
    given, or if the profile does not exist.
    """
    if not isinstance(model, nn.Module):
        raise Error("EINVAL", f"model: is a {type(model).__name__}, not a torch.nn.Module", "model")
    own = getattr(model, "config", None)
    if config is not None and hasattr(own, "to_dict") and config is not own:
        raise Error("EINVAL", "config: the model has its own, by which it is audited; pass none", "config")
    _encoding.read({"rope_type": "default", "rope_theta": 1e4}, profile, head_dim=8, trained_length=64)  # is it a profile?
    report = Audit(type(model).__name__, profile)
    auditor = _Auditor(report, _Meaning(model, config, profile))
    for path, module in model.named_modules():
        auditor.module(path, module)
    return report


# -- python -m gyre audit --buffers MODEL --

_USAGE = """usage: python -m gyre audit --buffers MODEL [--as=PROFILE] [--json]

MODEL is a folder with a config.json and, if it is to be loaded, weights.  With weights, the model is loaded on the
processor as transformers loads it, and its rotary buffers are compared with what the config means.  Without weights, the
rotary modules are made from the config.  Weights are read as safetensors only, nothing is downloaded and no code of the
folder is run.  Exit status: 0 = right, 3 = wrong, 4 = something could not be compared, 2 = an error."""


def _shown(text: object) -> str:
    """Text that may be a file's, for a terminal: what commands it or reverses a line becomes \\uXXXX."""
    return "".join(c if c == "\n" or c.isprintable() else f"\\u{ord(c):04x}" for c in str(text))


def _weights(folder: Path) -> bool:
    """Whether there are weights.  Raises gyre.Error for those that loading would unpickle."""
    if (folder / "adapter_config.json").exists():  # its base model is anywhere, its weights may be a pickle
        raise Error("EUNSUPPORTED", "adapter_config.json: an adapter is not loaded; audit its model in Python", "MODEL")
    if any(folder.glob("*.safetensors")):
        return True
    pickles = sorted(folder.glob("pytorch_model*.bin"))
    if pickles:
        why = "a pickle may run code and is not read; save the weights as safetensors (save_pretrained of transformers)"
        raise Error("EUNSUPPORTED", f"{pickles[0].name}: {why}", "MODEL")
    return False


def load(folder: Path) -> nn.Module:
    """A model of transformers, on the processor; without weights, one whose modules with rotary buffers have numbers.

    Nothing is downloaded, no code of the folder is run and no pickle is read.
    """
    has_weights = _weights(folder)
    import transformers

    own: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}
    # A config may name kernels of attention that would be downloaded; positions need none.
    config = transformers.AutoConfig.from_pretrained(folder, attn_implementation="eager", **own)
    named: Any = getattr(transformers, (config.architectures or [""])[0], None)
    if not (isinstance(named, type) and issubclass(named, transformers.PreTrainedModel)):
        named = None
    auto: Any = transformers.AutoModel
    if has_weights:
        kind: Any = named or auto
        loaded: nn.Module = kind.from_pretrained(folder, config=config, dtype="auto", use_safetensors=True, **own)
        return loaded
    with torch.device("meta"):
        model: nn.Module = named(config) if named else auto.from_config(config, trust_remote_code=False)
    _fill(model)
    return model


def _fill(model: nn.Module) -> None:
    """Gives rotary buffers of a model on the meta device the numbers of a new module of the same class."""
    made: dict[tuple[type, int], nn.Module] = {}
    for module in model.modules():
        names = [name for name, _ in module.named_buffers(recurse=False)]
        config = getattr(module, "config", None) or model.config
        if not any(_FREQUENCIES.match(name) or name in (*_TABLES, *_JOINED) for name in names):
            continue
        key = (type(module), id(config))
        if key not in made:
            made[key] = type(module)(config)
        for name in names:
            setattr(module, name, getattr(made[key], name))


def main(arguments: list[str]) -> int:
    """The command `gyre audit --buffers`; returns its exit status."""
    given, arguments = arguments, []
    for at, one in enumerate(given):  # --as PROFILE is --as=PROFILE
        if at > 0 and given[at - 1] == "--as":
            arguments[-1] = f"--as={one}"
        else:
            arguments.append(one)
    paths = [a for a in arguments if not a.startswith("-")]
    options = [a for a in arguments if a.startswith("-")]
    profiles = [a.removeprefix("--as=") for a in options if a.startswith("--as=")]
    if "--help" in options or "-h" in options:
        print(_USAGE)
        return 0
    unknown = [a for a in options if a != "--json" and not a.startswith("--as=")]
    if unknown or len(paths) != 1:
        why = f"no option {unknown[0]}" if unknown else "one MODEL is needed"
        why = "--as: missing: a profile, such as hf-5" if unknown[:1] == ["--as"] else why
        print(_shown(f"gyre: audit: {why}\n{_USAGE}"), file=sys.stderr)
        return 2
    folder = Path(paths[0])
    if not (folder / "config.json").is_file():
        print(_shown(f"gyre: MODEL: there is no {folder / 'config.json'}"), file=sys.stderr)
        return 2
    try:
        report = audit(load(folder), profile=profiles[0] if profiles else "hf-5")
    except Exception as why:  # transformers and safetensors raise their own for files that are none
        told = " ".join(str(why).split())
        print(_shown(f"gyre: MODEL: {told or type(why).__name__}"), file=sys.stderr)
        return 2
    told = json.dumps(report.as_dict(), indent=1, allow_nan=False) if "--json" in options else str(report)
    print(_shown(told))
    return 3 if report.findings else 0 if report.ok else 4
