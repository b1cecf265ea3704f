"""rotate: the C library called by programs that XLA compiles (jax.ffi), or by way of Python (pure_callback)."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy

from gyre import _gyre
from gyre._encoding import Encoding
from gyre._errors import Error
from gyre._specs import encoding_of, spec_of

_TARGET = "gyre_rotate"
_DIRECTIONS = ("forward", "inverse", "adjoint")
_ROLES = ("query", "key")
_TYPES = ("float16", "bfloat16", "float32", "float64")

# Absent from an extension that was built without jaxlib's header.
_HANDLER = getattr(_gyre, "jax_handler", None)
if _HANDLER:
    jax.ffi.register_ffi_target(_TARGET, _HANDLER(), platform="cpu")


def uses_ffi() -> bool:
    """Whether compiled programs call the C library themselves (jax.ffi); otherwise they call back into Python."""
    return _HANDLER is not None


def _axes(layout: str) -> list[int]:
    return [layout.find(letter) for letter in "bshd"] if "t" not in layout else [-1, *(layout.find(x) for x in "thd")]


def _strides(shape: tuple[int, ...], axes: int) -> list[int]:
    """Of positions: for batch, token and axis."""
    tokens = shape[-1]
    axis = axes > 1 and len(shape) > 1
    batch = len(shape) - axis > 1
    rows = shape[-2] if batch else 1
    return [tokens if batch and rows > 1 else 0, 1, tokens * rows if axis else 0]


def _call_back(x: Any, positions: Any, encoding: str, layout: str, role: str, direction: str, length: int) -> Any:
    made = encoding_of(encoding)

    def host(x: Any, positions: Any) -> Any:
        at = numpy.asarray(positions)
        at = at[0] if at.ndim == 2 and len(at) == 1 and made.config["rope.axes"] == 1 else at
        rotated: Any = made.rotate(
            numpy.asarray(x), at, layout=layout, role=role, direction=direction, length=length
        )
        return rotated

    return jax.pure_callback(host, jax.ShapeDtypeStruct(x.shape, x.dtype), x, positions, vmap_method="sequential")


@partial(jax.custom_vjp, nondiff_argnums=(2, 3, 4, 5, 6))
def _rotate(x: Any, positions: Any, encoding: str, layout: str, role: str, direction: str, length: int) -> Any:
    if not uses_ffi():
        return _call_back(x, positions, encoding, layout, role, direction, length)
    like: Any = jax.ShapeDtypeStruct
    call: Any = jax.ffi.ffi_call(_TARGET, like(x.shape, x.dtype), vmap_method="sequential")
    axes = encoding_of(encoding).config["rope.axes"]
    return call(
        x,
        positions,
        encoding=encoding,
        axes=numpy.array(_axes(layout), numpy.int64),
        strides=numpy.array(_strides(positions.shape, axes), numpy.int64),
        numbers=numpy.array([_DIRECTIONS.index(direction), _ROLES.index(role), length], numpy.int64),
    )


def _forward(x: Any, positions: Any, *rest: Any) -> tuple[Any, Any]:
    return _rotate(x, positions, *rest), positions


def _backward(
    encoding: str, layout: str, role: str, direction: str, length: int, positions: Any, dout: Any
) -> tuple[Any, Any]:
    other = "adjoint" if direction == "forward" else "forward"
    none = numpy.zeros(positions.shape, jax.dtypes.float0)
    return _rotate(dout, positions, encoding, layout, role, other, length), none


_rotate.defvjp(_forward, _backward)


def _check(x: Any, positions: Any, layout: str, axes: int, channels: int) -> None:
    if sorted(layout) not in (sorted("bshd"), sorted("thd")):
        raise Error("EINVAL", f"layout: {layout!r} is not 'bhsd', 'bshd', 'thd' or the like", "layout")
    if x.ndim != len(layout):
        raise Error("ESHAPE", f"x: has {x.ndim} axes, but layout {layout!r} has {len(layout)}", "x")
    if str(x.dtype) not in _TYPES:
        raise Error("EDTYPE", f"x: is {x.dtype}, not {', '.join(_TYPES)}", "x")
    if x.shape[layout.index("d")] != channels:
        raise Error("ESHAPE", f"x: {x.shape[layout.index('d')]} channels a head, the encoding has {channels}", "x")
    if str(positions.dtype) not in ("int32", "int64"):
        raise Error("EDTYPE", f"positions: is {positions.dtype}, not int32 or int64", "positions")
    batch, tokens = (
        (1, x.shape[layout.index("t")]) if "t" in layout else (x.shape[layout.index("b")], x.shape[layout.index("s")])
    )
    allowed = [(tokens,), (batch, tokens), (1, tokens)]
    if axes > 1:
        allowed = [(tokens,), (axes, tokens), (axes, batch, tokens), (axes, 1, tokens)]
    if tuple(positions.shape) not in allowed:
        names = "[tokens], [axes, tokens] or [axes, batch, tokens]" if axes > 1 else "[tokens] or [batch, tokens]"
        text = f"positions: has shape {tuple(positions.shape)}, not {names} with batch {batch} and {tokens} tokens"
        raise Error("ESHAPE", text, "positions")


def rotate(
    x: Any,
    encoding: Encoding,
    positions: Any = None,
    *,
    layout: str | None = None,
    role: str = "query",
    direction: str = "forward",
    length: int | None = None,
) -> Any:
    """x rotated, as Encoding.rotate does, under jit, grad and vmap (one row after the other) too.

    Args:
        x: [batch, heads, tokens, channels], float16, bfloat16, float32 or float64; see layout.
        encoding: a RoPE; a constant of the program.
        positions: int32 or int64 [tokens] or [batch, tokens], with several axes [axes, tokens] or [axes, batch, tokens];
            an int p, which may be traced, for p, p + 1, ...; None = 0, 1, ...
        layout: "bhsd", "bshd", "thd" or the like; None = "bhsd", "thd" for three axes.
        role: "query" or "key", which differ under a temperature and under xPos.
        direction: "forward" or "adjoint", the transpose, which derivatives go through.
        length: the context length in use, in tokens; None = the encoding's own.

    Returns an array with the shape and type of x.  Raises gyre.Error when it is traced; what depends on numbers, such as a
    position past 2^31, is an error of the compiled program.
    """
    x, spec = jnp.asarray(x), spec_of(encoding)
    if encoding.kind != "rope":
        raise Error("EUNSUPPORTED", f"encoding: {encoding.kind} does not rotate", "encoding")
    if direction not in ("forward", "adjoint"):
        raise Error("EINVAL", f"direction: {direction!r} is not 'forward' or 'adjoint'", "direction")
    if role not in _ROLES:
        raise Error("EINVAL", f"role: {role!r} is not 'query' or 'key'", "role")
    layout = layout or ("thd" if x.ndim == 3 else "bhsd")
    at = jnp.asarray(0 if positions is None else positions)
    config = encoding.config
    if at.ndim == 0 and x.ndim == len(layout):
        letter = "t" if "t" in layout else "s"
        at = at + jnp.arange(x.shape[layout.find(letter)], dtype=at.dtype)
    _check(x, at, layout, config["rope.axes"], config["head_dim"])
    return _rotate(x, at, spec, layout, role, direction, length or 0)
