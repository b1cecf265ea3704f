"""gyre::adaptive_attention and gyre::adaptive_gradient."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from gyre import _gyre as core
from gyre._encoding import Encoding
from gyre._errors import Error
from gyre._guesses import named
from gyre.torch._specs import (
    REAL,
    check_core_device,
    check_fake,
    check_layout,
    check_tensor,
    encoding_of,
    length_of,
    no_tangent,
    number,
    optional_tensor,
    spec_of,
    split_positions,
    tensor,
    word,
)

_FORMS = ("concat-residual", "concat", "add-residual")
# Tensors of a call in the order in which the operators take them: those with a gradient, then the others.
_GIVEN = ("q", "k", "v", "hidden_weights", "output_weights")
_TRAINED = ("hidden_bias", "output_bias", "tables", "bias")
_LISTS = ("positions", "key_positions", "query_starts", "key_starts", "key_first", "key_end")
_NUMBERS = ("slope", "scale", "first", "key_first_position", "length", "causal", "form", "encoding", "layout")
_TENSORS = ", ".join(f"Tensor {name}" for name in _GIVEN)
_REST = (
    ", ".join(f"Tensor? {name}" for name in _TRAINED + _LISTS)
    + ", float? slope, float? scale, SymInt? first, SymInt? key_first_position, SymInt length, bool causal, str form, "
    + "str encoding, str layout)"
)


def _call(rest: Sequence[Any]) -> dict[str, Any]:
    """What the core takes, from the end of the arguments of an operator (_REST)."""
    call = dict(zip(_TRAINED + _LISTS + _NUMBERS, rest, strict=True))
    call = {name: x.detach() if isinstance(x, Tensor) else x for name, x in call.items()}
    for name, first in (("positions", call.pop("first")), ("key_positions", call.pop("key_first_position"))):
        if call[name] is None:
            call[name] = first
    call["encoding"] = encoding_of(call["encoding"]) if call["encoding"] else None
    return call


def _shapes(q: Tensor, v: Tensor, layout: str) -> tuple[list[int], list[int]]:
    """Of the result, and of lse."""
    channel = layout.index("d")
    out, lse = list(q.shape), list(q.shape)
    out[channel] = v.shape[channel]
    del lse[channel]
    return out, lse


@torch.library.custom_op(
    "gyre::adaptive_attention", mutates_args=(), schema=f"({_TENSORS}, {_REST} -> (Tensor, Tensor)"
)
def _attention(q: Tensor, k: Tensor, v: Tensor, hidden: Tensor, output: Tensor, *rest: Any) -> tuple[Tensor, Tensor]:
    given = [x.detach() for x in (q, k, v, hidden, output)]
    out, lse = core.adaptive_attention(*given, lse=True, **_call(rest))
    return out.contiguous(), lse.contiguous()


@_attention.register_fake
def _(q: Tensor, k: Tensor, v: Tensor, hidden: Tensor, output: Tensor, *rest: Any) -> tuple[Tensor, Tensor]:
    layout = rest[-1]
    named = dict(zip(_TRAINED + _LISTS, rest, strict=False))
    check_core_device(q=q, k=k, v=v, hidden_weights=hidden, output_weights=output, **named)
    for x, name in ((q, "q"), (k, "k"), (v, "v")):
        check_tensor(x, name, layout, REAL)
    heads = q.shape[layout.index("h")] if "h" in layout else 1
    inputs = heads if rest[-3] == "add-residual" else 2 * heads
    if hidden.ndim != 2 or hidden.shape[1] != inputs:
        text = f"hidden_weights: has shape {list(hidden.shape)}, not [hidden units, {inputs}]"
        raise Error("ESHAPE", text, "hidden_weights")
    if list(output.shape) != [heads, hidden.shape[0]]:
        text = f"output_weights: has shape {list(output.shape)}, not [{heads}, {hidden.shape[0]}]"
        raise Error("ESHAPE", text, "output_weights")
    out, lse = _shapes(q, v, layout)
    return q.new_empty(out), q.new_empty(lse, dtype=torch.float32)


@torch.library.custom_op(
    "gyre::adaptive_gradient",
    mutates_args=(),
    schema=f"(Tensor dout, Tensor out, Tensor lse, {_TENSORS}, {_REST} -> Tensor[]",
)
def _gradient(dout: Tensor, out: Tensor, lse: Tensor, *given: Any) -> list[Tensor]:
    """Gradients to q, k, v and the weights, then to what was given of _TRAINED."""
    rest = given[len(_GIVEN) :]
    inputs = [x.detach() for x in given[: len(_GIVEN)]]
    each = (dout.detach(), *inputs, out.detach(), lse.detach())
    dq, dk, dv, others = core.adaptive_gradient(*each, **_call(rest))
    found = [dq, dk, dv, others["hidden_weights"], others["output_weights"]]
    like = [*inputs]
    for name, x in zip(_TRAINED, rest, strict=False):
        if x is None:
            continue
        gradient = others["tables"]["bias"] if name == "tables" else others[name]
        found.append(gradient.sum_to_size(x.shape) if name == "bias" else gradient.reshape(x.shape))
        like.append(x)
    return [gradient.to(x.dtype).contiguous() for gradient, x in zip(found, like, strict=True)]


@_gradient.register_fake
def _(dout: Tensor, out: Tensor, lse: Tensor, *given: Any) -> list[Tensor]:
    of = [*given[: len(_GIVEN)], *(x for x in given[len(_GIVEN) : len(_GIVEN) + len(_TRAINED)] if x is not None)]
    return [x.new_empty(x.shape) for x in of]


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    tensors = len(_GIVEN) + len(_TRAINED) + len(_LISTS)
    ctx.mark_non_differentiable(output[1])
    ctx.save_for_backward(*inputs[:tensors], *output)
    ctx.numbers = inputs[tensors:]


def _backward(ctx: Any, dout: Tensor, _: Any) -> tuple[Any, ...]:
    *inputs, out, lse = ctx.saved_tensors
    found = _gradient(dout, out, lse, *inputs, *ctx.numbers)
    of_trained = iter(found[len(_GIVEN) :])
    trained = [None if x is None else next(of_trained) for x in inputs[len(_GIVEN) : len(_GIVEN) + len(_TRAINED)]]
    return (*found[: len(_GIVEN)], *trained, *[None] * (len(_LISTS) + len(_NUMBERS)))


_attention.register_autograd(_backward, setup_context=_keep)


@named
def adaptive_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    hidden_weights: Tensor,
    output_weights: Tensor,
    *,
    hidden_bias: Tensor | None = None,
    output_bias: Tensor | None = None,
    form: str = "concat-residual",
    slope: float | None = None,
    scale: float | None = None,
    causal: bool | str = True,
    encoding: Encoding | None = None,
    tables: Mapping[str, Tensor] | Tensor | None = None,
    positions: Tensor | int | None = None,
    key_positions: Tensor | int | None = None,
    length: int | None = None,
    bias: Tensor | None = None,
    layout: str | None = None,
    query_starts: Tensor | None = None,
    key_starts: Tensor | None = None,
    key_first: Tensor | None = None,
    key_end: Tensor | None = None,
) -> Tensor:
    """gyre.adaptive_attention, with gradients to q, k, v, the network, the table of the scheme and the bias, under
    torch.compile too.

    The weights are those of torch.nn.Linear(2 heads, hidden units) and torch.nn.Linear(hidden units, heads).  Gradients are
    computed in float32 and have no gradients.  Raises gyre.Error.
    """
    chosen = check_layout(tensor(q, "q"), layout, "q")
    table = tables.get("bias") if isinstance(tables, Mapping) else tables
    if isinstance(tables, Mapping) and (table is None or len(tables) != 1):
        raise Error("EINVAL", f"tables: has {sorted(tables)}, not 'bias' alone", "tables")
    at, first = split_positions(positions)
    key_at, key_first_position = split_positions(key_positions, "key_positions")
    named = {
        "q": q, "k": k, "v": v, "hidden_weights": hidden_weights, "output_weights": output_weights,
        "hidden_bias": hidden_bias, "output_bias": output_bias, "tables": table, "bias": bias,
    }  # fmt: skip
    starts = {"query_starts": query_starts, "key_starts": key_starts, "key_first": key_first, "key_end": key_end}
    for name, value in {**named, **starts}.items():
        optional_tensor(value, name)
    for name in _GIVEN:
        tensor(named[name], name)
    lists = (at, key_at, *starts.values())
    check_fake(**named)
    no_tangent(**named)
    found: tuple[Tensor, Tensor] = _attention(
        *named.values(),
        *lists,
        number(slope, "slope"),
        number(scale, "scale"),
        first if at is None and positions is not None else None,
        key_first_position if key_at is None and key_positions is not None else None,
        length_of(length),
        causal if isinstance(causal, bool) else word(causal, "causal", ("none", "order")) == "order",
        word(form, "form", _FORMS),
        "" if encoding is None else spec_of(encoding),
        chosen,
    )
    return found[0]
