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


def _array(x: Any, name: str) -> Any:
    """An array of JAX with unchanged numbers: without jax_enable_x64 JAX silently reduces 64 bits to 32."""
    if not isinstance(x, jax.Array):
        try:
            host = numpy.asarray(x)
        except (TypeError, ValueError) as why:
            raise Error("EINVAL", f"{name}: is a {type(x).__name__}, not an array: {why}", name) from None
        settings: Any = jax.config
        wide = settings.jax_enable_x64
        if host.dtype.kind not in "iuf" and str(host.dtype) not in _TYPES:
            raise Error("EDTYPE", f"{name}: is {host.dtype}, not numbers", name)
        if name == "x" and host.dtype == numpy.float64 and isinstance(x, numpy.ndarray) and not wide:
            raise Error("EDTYPE", f"{name}: is float64, which JAX keeps with jax_enable_x64 alone", name)
        if name == "positions":
            return _positions(host)
    return jnp.asarray(x)


def _positions(host: Any) -> Any:
    """Positions that are known when a program is traced; 2^31 is past what Gyre rotates by and past 32 bits."""
    if host.dtype.kind not in "iu":
        raise Error("EDTYPE", f"positions: is {host.dtype}, not int32 or int64", "positions")
    wrong = (host < -(2**31)) | (host >= 2**31)
    if wrong.any():
        text = f"positions: {int(host[wrong].flat[0])} of token {int(numpy.argwhere(wrong)[0][-1])} is past 2^31"
        raise Error("ERANGE", text, "positions")
    return jnp.asarray(host if host.dtype in (numpy.int32, numpy.int64) else host.astype(numpy.int64))


def _counted(first: Any, tokens: int) -> Any:
    """first, first + 1, ...; first may be traced, and is then not looked at."""
    if isinstance(first, jax.core.Tracer):
        at = jnp.asarray(first)
        return at + jnp.arange(tokens, dtype=at.dtype)
    host = numpy.asarray(first)
    if host.dtype.kind not in "iu":
        raise Error("EDTYPE", f"positions: is {first!r}, not a whole number, nor int32 or int64", "positions")
    value = int(host)
    for token, one in ((0, value), (tokens - 1, value + tokens - 1)):
        if tokens and not -(2**31) <= one < 2**31:
            raise Error("ERANGE", f"positions: {one} of token {token} is past 2^31", "positions")
    return jnp.asarray(numpy.arange(value, value + tokens, dtype=numpy.int64))


def _length(length: Any) -> int:
    if length is None:
        return 0
    if isinstance(length, bool) or not isinstance(length, (int, numpy.integer)) or not 0 <= length < 2**63:
        raise Error("EINVAL", f"length: is {length!r}, not a number of tokens, 0 or more", "length")
    return int(length)


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
    position past 2^31, is an error of the compiled program.  A traced int is of 32 bits without jax_enable_x64.
    """
    x, spec = _array(x, "x"), spec_of(encoding)
    if encoding.kind != "rope":
        raise Error("EUNSUPPORTED", f"encoding: {encoding.kind} does not rotate", "encoding")
    if direction not in ("forward", "adjoint"):
        raise Error("EINVAL", f"direction: {direction!r} is not 'forward' or 'adjoint'", "direction")
    if role not in _ROLES:
        raise Error("EINVAL", f"role: {role!r} is not 'query' or 'key'", "role")
    if layout is not None and not isinstance(layout, str):
        raise Error("EINVAL", f"layout: {layout!r} is not 'bhsd', 'bshd', 'thd' or the like", "layout")
    layout = layout or ("thd" if x.ndim == 3 else "bhsd")
    config = encoding.config
    at: Any = 0 if positions is None else positions
    if numpy.ndim(at) == 0 and not isinstance(at, (str, bytes)) and x.ndim == len(layout):
        letter = "t" if "t" in layout else "s"
        at = _counted(at, x.shape[layout.find(letter)])
    at = _array(at, "positions")
    _check(x, at, layout, config["rope.axes"], config["head_dim"])
    return _rotate(x, at, spec, layout, role, direction, _length(length))
