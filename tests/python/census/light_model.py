"""Models whose weights take no memory and whose large products take no time, but whose positions are computed.

Weights are created on the meta device, and become zeros that share one number before the model runs.  Small tensors are real,
among them those that positions are computed from.
"""

import contextlib
import functools
import importlib
import inspect
import math
import re

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

LARGE = 1 << 16  # a tensor with more numbers is a weight, or is computed from one
FACTORIES = {torch.empty, torch.zeros, torch.ones, torch.randn, torch.rand, torch.full}

aten = torch.ops.aten
PRODUCTS = {aten.mm, aten.addmm, aten.bmm, aten.convolution, aten._grouped_mm}

# What the source of a module says that has to do with positions.
POSITIONS = re.compile(r"rot|rope|\bcos\b|\bsin\b|position|relative|alibi", re.IGNORECASE)


class LargeOnMeta(TorchFunctionMode):
    """Creates large tensors on the meta device, and all others where they would be created."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        if function in FACTORIES and kwargs.get("device") is None:
            size = kwargs.get("size", args[0] if args and isinstance(args[0], (tuple, list)) else args)
            if all(hasattr(n, "__index__") for n in size) and math.prod(size) > LARGE:
                kwargs["device"] = "meta"
        return function(*args, **kwargs)


def without_initial_weights():
    """The context in which transformers leaves weights as they are; their values do not matter here."""
    for name in ("transformers.initialization", "transformers.modeling_utils"):
        with contextlib.suppress(ImportError, AttributeError):
            return importlib.import_module(name).no_init_weights()
    return contextlib.nullcontext()


def shared_zeros(tensor):
    return torch.zeros((), dtype=tensor.dtype).expand(tensor.shape)


def build(create):
    """The model that create() returns."""
    with without_initial_weights(), LargeOnMeta():
        model = create()
    for module in model.modules():
        for name, parameter in module._parameters.items():
            if parameter is not None and parameter.is_meta:
                module._parameters[name] = torch.nn.Parameter(shared_zeros(parameter), requires_grad=False)
        for name, buffer in module._buffers.items():
            if buffer is not None and buffer.is_meta:
                module._buffers[name] = shared_zeros(buffer)
        if hasattr(module, "create_weight"):  # a table of sines that is made where other weights get initial values
            module.weight = torch.nn.Parameter(module.create_weight(), requires_grad=False)
    return model.eval()


class NoProducts(TorchDispatchMode):
    """Products and convolutions of large tensors return zeros."""

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        packet = function.overloadpacket
        if packet not in PRODUCTS or not any(isinstance(a, torch.Tensor) and a.numel() > LARGE for a in args):
            return function(*args, **(kwargs or {}))
        if packet is aten.convolution:
            on_meta = [a.to("meta") if isinstance(a, torch.Tensor) else a for a in args]
            return args[0].new_zeros(function(*on_meta, **(kwargs or {})).shape)
        left, right = args[1:3] if packet is aten.addmm else args[:2]
        return left.new_zeros(*left.shape[:-1], right.shape[-1])


@functools.cache
def has_positions(kind):
    """Whether the source of a module's class has to do with positions; modules of torch have not."""
    if kind.__module__.startswith("torch."):
        return False
    try:
        return bool(POSITIONS.search(inspect.getsource(kind)))
    except (OSError, TypeError):
        return True


def modules_without_positions(model):
    """The outermost modules of transformers that have nothing to do with positions, nor has anything in them."""
    inside = {}
    for path, module in reversed(list(model.named_modules())):  # children before parents
        inside[path] = has_positions(type(module)) or any(
            inside.get(f"{path}.{name}" if path else name, True) for name, child in module._modules.items() if child is not None
        )
    for path, module in model.named_modules():
        parent = path.rpartition(".")[0]
        own = not type(module).__module__.startswith("torch.")
        if path and own and not inside[path] and inside.get(parent, True):
            yield module


def shape_of(value):
    if isinstance(value, torch.Tensor):
        return tuple(value.shape), value.dtype
    if isinstance(value, (tuple, list)):
        return tuple(shape_of(each) for each in value)
    return value if isinstance(value, (int, float, str, bool, type(None))) else type(value).__name__


def zeros_of(value):
    if isinstance(value, torch.Tensor):
        return torch.zeros_like(value)
    if isinstance(value, (tuple, list)):
        return type(value)(zeros_of(each) for each in value)
    return value


def run_once(model):
    """Runs one of the modules of each class and size without positions; the others return zeros of the shapes that it returned.

    Where it fails, for want of a setting that its class has no default of, it returns zeros of the shape of what it took.
    """
    returned = {}

    def light(module, forward):
        alike = type(module), tuple(tuple(weight.shape) for weight in module.parameters())

        @functools.wraps(forward)
        def run(*args, **kwargs):
            key = alike, shape_of(args), tuple(sorted((name, shape_of(value)) for name, value in kwargs.items()))
            if key not in returned:
                try:
                    out = forward(*args, **kwargs)
                except Exception:
                    out = next((a for a in (*args, *kwargs.values()) if isinstance(a, torch.Tensor)), None)
                    if out is None or not out.is_floating_point():
                        raise
                if not isinstance(out, (torch.Tensor, tuple, list, type(None))):
                    return out
                returned[key] = out
            return zeros_of(returned[key])

        return run

    for module in modules_without_positions(model):
        module.forward = light(module, module.forward)
