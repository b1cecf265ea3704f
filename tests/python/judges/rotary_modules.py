"""The rotary modules of transformers for a config.json: built, run, and brought to one form.

A model is built on torch's meta device, so its weights take no memory.  The rotary modules found in it are then created again
on the CPU from the config that each of them kept, and run.
"""

import contextlib
import importlib
import inspect
import json
from dataclasses import dataclass

import numpy as np
import torch
import transformers
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

transformers.logging.set_verbosity_error()

# Numbers of experts.  They do not matter for positions, and thousands of modules take minutes to create.
EXPERTS = ("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts")
TOWERS = ("vision", "visual", "audio")


class CannotBuild(Exception):
    """transformers has no module for this config; the text says why."""


@dataclass
class Rotary:
    """A rotary module: where it is in the model, and the module itself on the CPU."""

    path: str
    module: torch.nn.Module

    @property
    def is_tower(self):
        return any(word in self.path for word in TOWERS)


# Configs that no class of transformers computes as they are meant.
UNUSABLE = {
    "glm-4v-text-no-partial": "the class fails on its own defaults: its sections are those of half its heads",
    "nomic-embed-v1.5-original-keys": "rotary_scaling_factor is a key of the model's own code; the class does not read it",
}


def parse(path):
    """The transformers config of a config.json; raises CannotBuild with the reason."""
    if path.stem in UNUSABLE:
        raise CannotBuild(UNUSABLE[path.stem])
    text = json.loads(path.read_text())
    kind = text.get("model_type")
    if kind not in CONFIG_MAPPING:
        own = " (its code comes with the model)" if "auto_map" in text else ""
        raise CannotBuild(f"model_type {kind} is not among its classes{own}")
    try:
        config = CONFIG_MAPPING[kind].from_dict(text)
    except Exception as error:
        raise CannotBuild(f"its config class raises {type(error).__name__}: {error}") from error
    for part in (config, config.get_text_config()):
        for key in EXPERTS:  # of the file, or the default of the class
            if isinstance(getattr(part, key, None), int):
                setattr(part, key, min(getattr(part, key), 8))
    return config


def without_initial_weights():
    """The context in which transformers leaves weights as they are; their values do not matter here."""
    for name in ("transformers.initialization", "transformers.modeling_utils"):
        try:
            return importlib.import_module(name).no_init_weights()
        except (ImportError, AttributeError):
            continue
    return contextlib.nullcontext()


def build(config):
    """The model on the meta device, or its text model where the whole needs packages that are not here."""
    errors = []
    for part in (config, config.get_text_config()):
        try:
            with torch.device("meta"), without_initial_weights():
                return transformers.AutoModel.from_config(part)
        except Exception as error:
            errors.append(f"its model class raises {type(error).__name__}: {str(error).strip().splitlines()[0]}")
    raise CannotBuild(errors[0])


class Table(torch.nn.Module):
    """A table of sines and cosines (GPT-J, CodeGen, RoFormer), with as many rows as are asked for, as a rotary module."""

    def __init__(self, rows_of):
        super().__init__()
        self.rows_of = rows_of  # number of rows -> [rows, sines then cosines]
        sines, cosines = rows_of(2)[1].double().chunk(2)
        self.inv_freq = torch.atan2(sines, cosines)

    def forward(self, x, position_ids):
        sines, cosines = self.rows_of(int(position_ids.max()) + 1)[position_ids].chunk(2, dim=-1)
        return cosines, sines


def table_in(model):
    """(path, Table) of a model whose positions are a table of sines and cosines, or None."""
    for path, module in model.named_modules():
        source = importlib.import_module(type(module).__module__)
        if type(module).__name__ == "RoFormerSinusoidalPositionalEmbedding":
            dim = module.embedding_dim

            def rows_of(rows, kind=type(module), dim=dim):
                made = kind(rows, dim)
                if hasattr(made, "create_weight"):
                    weight = made.create_weight()
                elif inspect.signature(made._init_weight).parameters:  # 4.50
                    weight = made._init_weight(made.weight)
                else:
                    weight = made._init_weight()
                return made.weight.detach() if weight is None else torch.as_tensor(weight)

            return path, Table(rows_of)
        if hasattr(module, "embed_positions") and hasattr(source, "create_sinusoidal_positions"):
            dim = module.embed_positions.shape[-1]
            return path, Table(lambda rows, source=source, dim=dim: source.create_sinusoidal_positions(rows, dim))
    return None


def create_again(module):
    """The same module on the CPU: from the config it kept, or from the size and base of its buffer."""
    kind = type(module)
    if kind is Table:
        return module
    if hasattr(module, "config"):
        wanted = inspect.signature(kind.__init__).parameters
        extra = {"device": "cpu"} if "device" in wanted else {}
        if "rope_type" in wanted:
            extra["rope_type"] = module.rope_type
        if "base" in wanted:
            raise CannotBuild(f"its {kind.__name__} does not keep the base that it was made with")
        return kind(module.config, **extra)
    if hasattr(module, "inv_freq"):
        return kind(2 * module.inv_freq.shape[-1])
    return None


def rotary_modules(model):
    """One Rotary per place in the model; copies in every layer count once."""
    found = {}
    for path, module in model.named_modules():
        buffers = [name for name, _ in module.named_buffers(recurse=False) if "inv_freq" in name]
        if "Rotary" not in type(module).__name__ and not buffers:
            continue
        tower = next((word for word in TOWERS if word in path), "")
        base = getattr(getattr(module, "config", None), "rope_theta", None)
        type_name = str(getattr(module, "rope_type", None))
        key = (type(module).__name__, tower, "local" in path.split(".")[-1], str(base), type_name)
        if key not in found:
            again = create_again(module)
            if again is not None:
                found[key] = Rotary(path, again)
    table = table_in(model)
    return [*found.values(), *([Rotary(*table)] if table else [])]


def layer_types_of(module):
    """Names of the kinds of layers that one module serves, or [None]."""
    if isinstance(getattr(module, "rope_type", None), dict):
        return list(module.rope_type)
    names = [name[: -len("_inv_freq")] for name, _ in module.named_buffers(recurse=False) if name.endswith("_inv_freq")]
    return [name for name in names if name != "original" and not name.endswith("_original")] or [None]


def in_order_of_pairs(module, frequencies):
    """The frequency of each pair: Ernie 4.5 VL keeps them in the order of its axes, and puts them in order when it runs."""
    out = frequencies.double().reshape(-1)
    if "Ernie4_5_VL" in type(module).__name__:
        out = module.recomposition_frequencies(out.expand(3, 1, 1, -1))[0, 0, 0::2]
    return out.numpy()


def run(module, positions, layer_type=None, axis=None):
    """(inv_freq [pairs], cos [n, pairs], sin [n, pairs], form): what the module gives at these positions.

    positions: int64 [n], or [axes, n] with axis [pairs], the axis of each pair.  form: how transformers lays the angles out in a row: half (a b a b), interleaved
    (a a b b), once (a b), or complex.
    """
    ids = torch.as_tensor(positions)
    ids = ids[:, None, :] if ids.dim() > 1 else ids[None, :]
    wants = inspect.signature(module.forward).parameters
    extra = {"layer_type": layer_type} if layer_type is not None and "layer_type" in wants else {}
    with torch.no_grad():
        out = module(torch.zeros(1, dtype=torch.float32), ids, **extra)
    name = f"{layer_type}_inv_freq" if hasattr(module, f"{layer_type}_inv_freq") else "inv_freq"
    frequencies = getattr(module, name, None)
    if isinstance(out, torch.Tensor):
        cos, sin, form = out.real, out.imag, "complex"
    else:
        cos, sin, form = *out, None
    if ids.dim() == 3 and cos.dim() == 4:  # all axes; the caller of the module picks one for each pair
        which = torch.as_tensor(np.concatenate([axis, axis]))
        cos, sin = (t[which, 0, :, torch.arange(len(which))].T for t in (cos, sin))
    while cos.dim() > 2:
        cos, sin = cos[0], sin[0]
    pairs = cos.shape[-1] if frequencies is None else frequencies.shape[-1]
    if form is None and cos.shape[-1] == pairs:
        form = "once"
    elif form is None:
        half = torch.equal(cos[..., :pairs], cos[..., pairs:]) and torch.equal(sin[..., :pairs], sin[..., pairs:])
        form = "half" if half else "interleaved"
        cos, sin = (t[..., :pairs] if half else t[..., 0::2] for t in (cos, sin))
    frequencies = None if frequencies is None else in_order_of_pairs(module, frequencies)
    return frequencies, cos.double().numpy(), sin.double().numpy(), form


def rotate(model, config, rotary, x, positions, layer_type=None, half=False):
    """x [n, channels] rotated by the function that the module's own source file uses, or None where none is found.  half: the
    one for halves, where a source file has two functions and its config does not choose: DeepSeek 3.2's indexer."""
    if isinstance(rotary.module, Table):
        return None
    source = importlib.import_module(type(rotary.module).__module__)
    ids = torch.as_tensor(positions)[None, :]
    wants = inspect.signature(rotary.module.forward).parameters
    extra = {"layer_type": layer_type} if layer_type is not None and "layer_type" in wants else {}
    with torch.no_grad():
        out = rotary.module(torch.zeros(1, dtype=torch.float32), ids, **extra)
        q = torch.as_tensor(x, dtype=torch.float32)[None, None]
        if isinstance(out, torch.Tensor):
            function = getattr(source, "apply_rotary_emb", None)
            if function is None:
                return None
            # DeepSeek-V2 takes [batch, heads, tokens, channels], Llama 4 [batch, tokens, heads, channels].
            swap = "Llama4" in type(rotary.module).__name__
            given = q.transpose(1, 2) if swap else q
            turned = function(given, given, out)[0]
            turned = turned.transpose(1, 2) if swap else turned
        else:
            name = "apply_rotary_pos_emb"
            beside = getattr(config.get_text_config(), "rope_interleave", not half)
            if beside and hasattr(source, name + "_interleave"):
                name += "_interleave"
            function = getattr(source, name, None)
            if function is None:
                return None
            parameters = list(inspect.signature(function).parameters)
            turned = function(q, *out) if parameters[1] == "cos" else function(q, q, *out)[0]
    return turned[0, 0].double().numpy()
