"""gyre::contextual_attention and gyre::contextual_gradient."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from gyre import _gyre as core
from gyre._errors import Error
from gyre._guesses import named
from gyre.torch._specs import (
    REAL,
    check_core_device,
    check_fake,
    check_layout,
    check_tensor,
    no_tangent,
    number,
    optional_tensor,
    tensor,
)

# The end of both schemas.
_NAMES = ("gate_keys", "query_starts", "key_starts", "key_first", "key_end")
_NUMBERS = ("scale", "gate_scale", "position_scale", "layout")
_REST = (
    "Tensor? gate_keys, Tensor? query_starts, Tensor? key_starts, Tensor? key_first, Tensor? key_end, float? scale, "
    "float? gate_scale, float? position_scale, str layout)"
)


def _call(rest: Sequence[Any]) -> dict[str, Any]:
    call = dict(zip(_NAMES + _NUMBERS, rest, strict=True))
    return {name: x.detach() if isinstance(x, Tensor) else x for name, x in call.items()}


def _shapes(q: Tensor, v: Tensor, layout: str) -> tuple[list[int], list[int]]:
    """Of the result, and of lse."""
    channel = layout.index("d")
    out, lse = list(q.shape), list(q.shape)
    out[channel] = v.shape[channel]
    del lse[channel]
    return out, lse


@torch.library.custom_op(
    "gyre::contextual_attention",
    mutates_args=(),
    schema="(Tensor q, Tensor k, Tensor v, Tensor embeddings, " + _REST + " -> (Tensor, Tensor)",
)
def _attention(q: Tensor, k: Tensor, v: Tensor, embeddings: Tensor, *rest: Any) -> tuple[Tensor, Tensor]:
    out, lse = core.contextual_attention(q.detach(), k.detach(), v.detach(), embeddings.detach(), lse=True, **_call(rest))
    return out.contiguous(), lse.contiguous()


@_attention.register_fake
def _(q: Tensor, k: Tensor, v: Tensor, embeddings: Tensor, *rest: Any) -> tuple[Tensor, Tensor]:
    layout = rest[-1]
    check_core_device(q=q, k=k, v=v, embeddings=embeddings, **dict(zip(_NAMES, rest, strict=False)))
    for x, name in ((q, "q"), (k, "k"), (v, "v")):
        check_tensor(x, name, layout, REAL)
    if embeddings.ndim not in (2, 3) or embeddings.shape[-1] != q.shape[layout.index("d")]:
        text = f"embeddings: has shape {list(embeddings.shape)}, not [positions, {q.shape[layout.index('d')]}]"
        raise Error("ESHAPE", text, "embeddings")
    out, lse = _shapes(q, v, layout)
    return q.new_empty(out), q.new_empty(lse, dtype=torch.float32)


@torch.library.custom_op(
    "gyre::contextual_gradient",
    mutates_args=(),
    schema="(Tensor dout, Tensor out, Tensor lse, Tensor q, Tensor k, Tensor v, Tensor embeddings, " + _REST + " -> Tensor[]",
)
def _gradient(dout: Tensor, out: Tensor, lse: Tensor, q: Tensor, k: Tensor, v: Tensor, embeddings: Tensor, *rest: Any) -> list[Tensor]:
    given = [x.detach() for x in (dout, q, k, v, embeddings, out, lse)]
    dq, dk, dv, dembeddings, dgate_keys = core.contextual_gradient(*given, **_call(rest))
    found = [dq, dk, dv, dembeddings.to(embeddings.dtype)] + ([] if dgate_keys is None else [dgate_keys])
    return [x.contiguous() for x in found]


@_gradient.register_fake
def _(dout: Tensor, out: Tensor, lse: Tensor, q: Tensor, k: Tensor, v: Tensor, embeddings: Tensor, *rest: Any) -> list[Tensor]:
    of = [q, k, v, embeddings] + ([] if rest[0] is None else [rest[0]])
    return [x.new_empty(x.shape) for x in of]


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    ctx.mark_non_differentiable(output[1])
    ctx.save_for_backward(*inputs[: 4 + len(_NAMES)], *output)
    ctx.numbers = inputs[4 + len(_NAMES) :]


def _backward(ctx: Any, dout: Tensor, _: Any) -> tuple[Any, ...]:
    *inputs, out, lse = ctx.saved_tensors
    found = _gradient(dout, out, lse, *inputs, *ctx.numbers)
    return (*found[:4], found[4] if len(found) > 4 else None, *[None] * (len(_NAMES) - 1 + len(_NUMBERS)))


_attention.register_autograd(_backward, setup_context=_keep)


@named
def contextual_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    embeddings: Tensor,
    *,
    gate_keys: Tensor | None = None,
    scale: float | None = None,
    gate_scale: float | None = None,
    position_scale: float | None = None,
    layout: str | None = None,
    query_starts: Tensor | None = None,
    key_starts: Tensor | None = None,
    key_first: Tensor | None = None,
    key_end: Tensor | None = None,
) -> Tensor:
    """gyre.contextual_attention, with gradients to q, k, v, embeddings and gate_keys, under torch.compile too.

    Gradients are computed in float32 and have no gradients.  Raises gyre.Error.
    """
    for name, value in (("q", q), ("k", k), ("v", v), ("embeddings", embeddings)):
        tensor(value, name)
    chosen = check_layout(q, layout, "q")
    starts = {"query_starts": query_starts, "key_starts": key_starts, "key_first": key_first, "key_end": key_end}
    for name, other in {"gate_keys": gate_keys, **starts}.items():
        optional_tensor(other, name)
    check_fake(q=q, k=k, v=v, embeddings=embeddings, gate_keys=gate_keys)
    no_tangent(q=q, k=k, v=v, embeddings=embeddings, gate_keys=gate_keys)
    found: tuple[Tensor, Tensor] = _attention(
        q,
        k,
        v,
        embeddings,
        gate_keys,
        *starts.values(),
        number(scale, "scale"),
        number(gate_scale, "gate_scale"),
        number(position_scale, "position_scale"),
        chosen,
    )
    return found[0]
