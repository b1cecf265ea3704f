"""Keys that were rotated under one encoding, made those of another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from gyre import _gyre
from gyre._encoding import Encoding
from gyre._errors import calling

A = TypeVar("A")


def rerotate(
    k: A,
    old: Encoding,
    new: Encoding | None = None,
    *,
    positions: Any = None,
    new_positions: Any = None,
    shift: int | Sequence[int] | None = None,
    length: int | None = None,
    new_length: int | None = None,
    layout: str | None = None,
    out: Any = None,
) -> A:
    """Keys that `old` rotated become those of `new`, in place: K' = E_new(p') E_old(p)^-1 K.

    A changed base, factor or LongRoPE list, another context length, keys moved by an offset.  Factors of cos and sin are
    not applied twice: a shift under YaRN changes no key's length.

    Args:
        k: keys, any array that may be written, any strides; layout as in Encoding.rotate.
        old, new: encodings that rotate the same channels in the same layout; new None = old, for a shift.
        positions: those that the keys were rotated for, p; None = 0, 1, 2, ...
        new_positions: p'; None = p.
        shift: p' = p + shift, one number or one for each axis.
        length, new_length: the context lengths in use under each; None = the encodings' own.
        out: memory for the result, for arrays that never change, such as JAX's.

    The difference of the angles is formed in double, and each key is rounded once.  Returns k, or out.
    Raises gyre.Error.
    """
    with calling(x="k"):
        return _gyre.rerotate(
            k,
            old,
            old if new is None else new,
            positions=positions,
            new_positions=new_positions,
            shift=shift,
            length=length or 0,
            new_length=new_length or 0,
            layout=layout,
            out=out,
        )
