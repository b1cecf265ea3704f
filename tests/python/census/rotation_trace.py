"""Which layers of a model rotate and how, found by running the model.

Functions of transformers whose name speaks of rotation are wrapped.  A wrapped call is measured (rotation_matrix) under the
cosines and sines that it was given.  Modules that compute those are given the positions of the census in place of the model's.
"""

import functools
import hashlib
import inspect
import re
import sys
from dataclasses import dataclass, field

import torch
from census import rotation_matrix
from torch.utils._python_dispatch import _disable_current_modes

ROTATES = re.compile(r"rotary|rope|rot_emb|rotate_queries", re.IGNORECASE)
MAKES_ANGLES = re.compile(r"compute|get|param|index|freq|init|valid|standard|update|build|create|mixin", re.IGNORECASE)
ANGLES_OF_CLASS = re.compile(r"Rotary|Rope|RoPE|RotEmb")  # case matters: there is a SolarOpen
RELATIVE = re.compile(r"alibi|position_bucket|relative_bucket|bucket_position|compute_bias|rel_shift|relative|rel_pos|position_bias")
QUERIES = {"q", "query", "query_layer", "query_states", "x", "xq", "qk", "tensor", "hidden_states", "t"}
KEYS = {"k", "key", "key_layer", "key_states", "xk", "v", "value", "value_layer", "value_states"}
ANGLES = {"cos", "sin", "freqs", "freqs_cis", "sinusoidal_pos", "position_embeddings", "pos", "position_ids"}


@dataclass(frozen=True)
class Call:
    """A call of a function that rotates."""

    module: str  # path of the innermost module that ran
    function: str
    effect: rotation_matrix.Rotation | str  # or why it is none
    axes: int  # of the positions that the census gave; 0: the model's own positions


@dataclass
class Trace:
    """What one run of a model called."""

    calls: list[Call] = field(default_factory=list)
    relative: list[tuple[str, str, tuple]] = field(default_factory=list)  # path, function, its numbers
    entered: set[str] = field(default_factory=set)  # paths of the modules that ran
    stopped: str | None = None  # why the run ended early


def positions_like(given, length):
    """Positions of the census in the shape [..., tokens] of given: counted from 0, but the last is length - 1.

    With several axes, [axes, 1, tokens], token 1 + a is at 1 on axis a alone.
    """
    axes, tokens = given.shape[0] if given.dim() == 3 else 1, given.shape[-1]
    if axes == 1:
        rows = torch.arange(tokens)[None]
    else:
        rows = torch.zeros(axes, tokens, dtype=torch.long)
        rows[:, 1 : 1 + axes] = torch.eye(axes, dtype=torch.long)
    rows = rows.clone()
    rows[:, -1] = length - 1
    return (rows[:, None] if given.dim() == 3 else rows).expand(given.shape).to(given.dtype).contiguous()


def rotates(name, function):
    """Whether a function is one that may rotate queries; those that only make angles do not."""
    if not ROTATES.search(name) or MAKES_ANGLES.search(name):
        return False
    return len([p for p in inspect.signature(function).parameters if p != "self"]) >= 2


def query_in(arguments):
    """The name of the argument that has the queries, or None."""
    floats = [n for n, value in arguments.items() if isinstance(value, torch.Tensor) and value.is_floating_point()]
    named = [name for name in floats if name in QUERIES]
    return next(iter(named + [name for name in floats if name not in ANGLES | KEYS]), None)


def digest_of(arguments, query):
    """A number of what the effect depends on: the shape of the queries and all other arguments but the keys."""
    digest = hashlib.sha256()

    def add(value):
        if isinstance(value, torch.Tensor):
            plain = torch.view_as_real(value) if value.is_complex() else value
            digest.update(str(value.shape).encode() + plain.detach().double().contiguous().numpy().tobytes())
        elif isinstance(value, (tuple, list)):
            for each in value:
                add(each)
        elif isinstance(value, (int, float, str)) or value is None:
            digest.update(repr(value).encode())

    for name, value in arguments.items():
        digest.update(name.encode())
        if name == query or name in KEYS:
            digest.update(str(getattr(value, "shape", None)).encode())
        else:
            add(value)
    return digest.digest()


class Tracer:
    """Within it, runs of the model are traced: what was called is in trace."""

    def __init__(self, model, length):
        self.model = model
        self.length = length
        self.trace = Trace()
        self.path = []  # of the modules that are running
        self.axes = 0
        self.effects = {}
        self.inside = False  # of a wrapped function: those that it calls are parts of it
        self.undo = []

    def __enter__(self):
        for path, module in self.model.named_modules():
            enter = functools.partial(self.enter, path)
            self.undo.append(module.register_forward_pre_hook(enter, with_kwargs=True).remove)
            self.undo.append(module.register_forward_hook(self.leave, always_call=True).remove)
        kinds = {kind for module in self.model.modules() for kind in type(module).__mro__}
        owners = {sys.modules[kind.__module__] for kind in kinds} | kinds
        for owner in owners:
            if getattr(owner, "__module__", owner.__name__).startswith("transformers.models."):
                self.wrap_functions(owner)
        return self

    def __exit__(self, *_):
        for undo in reversed(self.undo):
            undo()
        self.undo.clear()

    # -- functions --

    def wrap_functions(self, owner):
        for name, value in list(vars(owner).items()):
            function = value.__func__ if isinstance(value, staticmethod) else value
            if not inspect.isfunction(function):
                continue
            if rotates(name, function):
                wrapped = self.measured(name, function)
            elif RELATIVE.search(name):
                wrapped = self.noted(name, function)
            else:
                continue
            setattr(owner, name, staticmethod(wrapped) if isinstance(value, staticmethod) else wrapped)
            self.undo.append(functools.partial(setattr, owner, name, value))

    def measured(self, name, function):
        signature = inspect.signature(function)

        @functools.wraps(function)
        def call(*args, **kwargs):
            if self.inside:
                return function(*args, **kwargs)
            self.inside = True
            try:
                self.measure(name, function, signature.bind(*args, **kwargs))
                return function(*args, **kwargs)
            finally:
                self.inside = False

        return call

    def noted(self, name, function):
        signature = inspect.signature(function)

        @functools.wraps(function)
        def call(*args, **kwargs):
            bound = signature.bind(*args, **kwargs)
            bound.apply_defaults()
            numbers = tuple((n, v) for n, v in bound.arguments.items() if isinstance(v, (bool, int, float)))
            self.trace.relative.append((self.path[-1] if self.path else "", name, numbers))
            return function(*args, **kwargs)

        return call

    def measure(self, name, function, bound):
        query = query_in(bound.arguments)
        if query is None:
            return
        key = function, digest_of(bound.arguments, query)
        if key not in self.effects:
            with _disable_current_modes():
                self.effects[key] = self.effect(function, bound, query)
        self.trace.calls.append(Call(self.path[-1] if self.path else "", name, self.effects[key], self.axes))

    def effect(self, function, bound, query):
        given = bound.arguments[query]

        def run(queries):
            arguments = inspect.BoundArguments(bound.signature, dict(bound.arguments))
            arguments.arguments[query] = queries.to(given.dtype)
            out = function(*arguments.args, **arguments.kwargs)
            return (out[0] if isinstance(out, (tuple, list)) else out).float()

        try:
            return rotation_matrix.rotation(rotation_matrix.matrices(run, given))
        except Exception as error:  # of any function that is called here with other vectors than its own
            return f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"

    # -- modules --

    def enter(self, path, module, args, kwargs):
        self.path.append(path)
        self.trace.entered.add(path)
        if not ANGLES_OF_CLASS.search(type(module).__name__):
            return None
        bound = inspect.signature(module.forward).bind(*args, **kwargs)
        given = bound.arguments.get("position_ids")
        self.axes = 0
        if not isinstance(given, torch.Tensor) or given.dim() not in (1, 2, 3) or given.shape[-1] < 6 or given.is_floating_point():
            return None
        if given.dim() == 3 and given.shape[0] + 2 > given.shape[-1]:
            return None
        bound.arguments["position_ids"] = positions_like(given, self.length)
        self.axes = given.shape[0] if given.dim() == 3 else 1
        return bound.args, bound.kwargs

    def leave(self, module, args, output):
        self.path.pop()
