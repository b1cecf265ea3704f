"""Rotations with trained frequencies, PoPE, FoPE, and their gradients."""

from __future__ import annotations

from typing import Any, TypeVar

from gyre import _gyre
from gyre._errors import calling

A = TypeVar("A")


def trained_rotate(
    x: A,
    frequencies: Any,
    positions: Any = 0,
    *,
    phases: Any = None,
    pairs: str = "half",
    first_channel: int = 0,
    layout: str | None = None,
    direction: str = "forward",
) -> A:
    """x with pair i of head h rotated by phases[h][i] + sum over axes a of position[a] frequencies[a][h][i].

    With two axes and frequencies for each head it is RoPE-Mixed (Heo 2024, arXiv 2403.13298).  The rotated queries and keys
    go to gyre.attention without an encoding.

    Args:
        x: queries or keys, any array; layout as in Encoding.rotate.
        frequencies: float32 or float64 [axes, heads or 1, pairs], radians per position.
        positions: those of Encoding.rotate: with several axes [axes, tokens] or [axes, batch, tokens].
        phases: float32 or float64 [heads or 1, pairs], radians.
        pairs: "half" or "interleaved"; first_channel: where they begin.  Other channels pass through.
        direction: "forward", or "inverse" and "adjoint", which are the same: the gradient to x is the adjoint of that to
            the result.

    Raises gyre.Error.
    """
    with calling():
        rotated: A = _gyre.trained_rotate(
            x,
            frequencies,
            positions,
            phases=phases,
            pairs=pairs,
            first_channel=first_channel,
            layout=layout,
            direction=direction,
        )
        return rotated


def trained_gradient(
    rotated: Any,
    dout: Any,
    frequencies: Any,
    positions: Any = 0,
    *,
    phases: Any = None,
    pairs: str = "half",
    first_channel: int = 0,
    layout: str | None = None,
) -> tuple[Any, Any]:
    """(gradient to frequencies, gradient to phases or None), given what trained_rotate returned and its gradient.

    Both are shaped and typed as what they are of.  Raises gyre.Error.
    """
    with calling():
        return _gyre.trained_gradient(
            rotated,
            dout,
            frequencies,
            positions,
            phases=phases,
            pairs=pairs,
            first_channel=first_channel,
            layout=layout,
        )


def polar_rotate(
    x: A, frequencies: Any, positions: Any = 0, *, phases: Any = None, pairs: str = "half", layout: str | None = None
) -> A:
    """PoPE (Gopalakrishnan 2025, arXiv 2509.10534): each channel becomes a complex number, so the result has twice as many.

    Its magnitude is softplus(x), its angle phases + sum over axes of position times frequency.  Rotate queries without phases
    and keys with them, and pass both to gyre.attention without an encoding and with scale=channels ** -0.5.

    Args:
        x: queries or keys, any array; layout as in Encoding.rotate.
        frequencies: float32 or float64 [axes, heads or 1, channels]; PoPE's are gyre.rope(2 * channels).frequencies().
        positions: those of Encoding.rotate.
        phases: float32 or float64 [heads or 1, channels], clamped to -2 pi .. 0.
        pairs: "half" = real parts, then imaginary ones; "interleaved" = beside each other.  Scores do not depend on it.

    Raises gyre.Error.
    """
    with calling():
        rotated: A = _gyre.polar_rotate(x, frequencies, positions, phases=phases, pairs=pairs, layout=layout)
        return rotated


def polar_gradient(
    x: A, dout: Any, frequencies: Any, positions: Any = 0, *, phases: Any = None, pairs: str = "half", layout: str | None = None
) -> tuple[A, Any, Any]:
    """(gradient to x, to frequencies, to phases or None), given x and the gradient to the result of polar_rotate.

    Raises gyre.Error.
    """
    with calling():
        return _gyre.polar_gradient(x, dout, frequencies, positions, phases=phases, pairs=pairs, layout=layout)


def fourier_rotate(
    x: A,
    frequencies: Any,
    cosines: Any,
    sines: Any,
    positions: Any = 0,
    *,
    pairs: str = "half",
    all_pairs: int | None = None,
    rest: str = "still",
    first_channel: int = 0,
    layout: str | None = None,
    direction: str = "forward",
) -> A:
    """FoPE (Hua 2024, arXiv 2412.17739): pair i of head h at position m is multiplied by the complex number C + i S.

    C is the sum over terms t of cosines[h][t][i] cos(m frequencies[t]), S that of sines[h][t][i] sin(m frequencies[t]).  FoPE's
    frequencies are those of gyre.rope(head_dim).frequencies() that are 2 pi / L or more, with L the trained length.

    Args:
        x: queries or keys, any array; layout as in Encoding.rotate.
        frequencies: float32 or float64 [terms], radians per position.
        cosines, sines: float32 or float64 [heads or 1, terms, pairs with a series]; they may be one array.
        positions: those of Encoding.rotate, on one axis.
        pairs: "half" or "interleaved"; first_channel: where they begin.  Other channels pass through.
        all_pairs: pairs with a series and the rest behind them (None = no rest), channels // 2 for a whole head.
        rest: "still" = the rest passes through, as frequency 0 does, or "released" = as the released code pads it: both cos and
            sin are 1 there, so (x, y) becomes (x - y, x + y).
        direction: "forward", "inverse" = divided by C + i S, "adjoint" = times C - i S: the gradient to x is the adjoint of that
            to the result.

    Raises gyre.Error.
    """
    with calling():
        rotated: A = _gyre.fourier_rotate(
            x,
            frequencies,
            cosines,
            sines,
            positions,
            pairs=pairs,
            all_pairs=all_pairs,
            rest=rest,
            first_channel=first_channel,
            layout=layout,
            direction=direction,
        )
        return rotated


def fourier_gradient(
    x: Any,
    dout: Any,
    frequencies: Any,
    cosines: Any,
    sines: Any,
    positions: Any = 0,
    *,
    pairs: str = "half",
    all_pairs: int | None = None,
    rest: str = "still",
    first_channel: int = 0,
    layout: str | None = None,
) -> tuple[Any, Any, Any]:
    """(gradient to frequencies, to cosines, to sines), given x and the gradient to the result of fourier_rotate.

    Each is shaped and typed as what it is of.  Raises gyre.Error.
    """
    with calling():
        return _gyre.fourier_gradient(
            x,
            dout,
            frequencies,
            cosines,
            sines,
            positions,
            pairs=pairs,
            all_pairs=all_pairs,
            rest=rest,
            first_channel=first_channel,
            layout=layout,
        )
