"""gyre::trained_rotate, gyre::angle_rotate, gyre::polar_rotate, gyre::fourier_rotate and their gradients."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from gyre import _gyre as core
from gyre._errors import Error
from gyre.torch._specs import (
    LONG_REAL,
    REAL,
    check_core_device,
    check_fake,
    check_layout,
    check_numbers,
    check_positions,
    check_tensor,
    no_tangent,
    split_positions,
    tensor,
    whole,
    word,
)

_PAIRS, _RESTS = ("half", "interleaved"), ("still", "released")


def _bare(*given: Tensor | None) -> list[Any]:
    """Without what autograd knows of them."""
    return [None if x is None else x.detach() for x in given]


def _extents(x: Tensor, layout: str) -> tuple[Any, Any, Any, Any]:
    """Batch, tokens, heads, channels."""
    letters = layout.replace("t", "s")
    found = [x.shape[letters.index(letter)] if letter in letters else 1 for letter in "bshd"]
    return found[0], found[1], found[2], found[3]


def _check_tokens(x: Tensor, layout: str, positions: Tensor | None, axes: Any) -> None:
    """Refuses what the core refuses of tokens, for tensors without memory; axes: of positions."""
    if positions is not None and isinstance(axes, int):
        check_positions(positions, axes, *_extents(x, layout)[:2])


def _check_frequencies(
    x: Tensor, layout: str, positions: Tensor | None, frequencies: Tensor, phases: Tensor | None, first_channel: Any
) -> None:
    """first_channel: of the pairs; None = a frequency for each channel."""
    check_tensor(x, "x", layout, REAL)
    check_core_device(x=x, positions=positions, frequencies=frequencies, phases=phases)
    heads, channels = _extents(x, layout)[2:]
    check_numbers(
        frequencies,
        "frequencies",
        "[axes, heads or 1, pairs]",
        ((1, 2, 3, 4), (1, heads), channels if first_channel is None else None),
    )
    pairs = frequencies.shape[2]
    if phases is not None:
        check_numbers(phases, "phases", "[heads or 1, pairs]", ((1, heads), pairs))
    if first_channel is not None:
        _check_channels(channels, first_channel, pairs)
    _check_tokens(x, layout, positions, frequencies.shape[0])


def _check_channels(channels: Any, first: Any, pairs: Any, name: str = "frequencies") -> None:
    """Pairs of channels from the first on are within a head."""
    if all(isinstance(n, int) for n in (first, pairs, channels)) and not 0 <= first <= channels - 2 * pairs:
        text = f"{name}: {pairs} pairs from channel {first} on end past the {channels} channels of a head"
        raise Error("ESHAPE", text, name)


# -- trained frequencies --


@torch.library.custom_op(
    "gyre::trained_rotate",
    mutates_args=(),
    schema="(Tensor x, Tensor frequencies, Tensor? phases, Tensor? positions, SymInt first, str pairs, SymInt first_channel,"
    " str layout, bool back) -> Tensor",
)
def _rotate(
    x: Tensor,
    frequencies: Tensor,
    phases: Tensor | None,
    positions: Tensor | None,
    first: int,
    pairs: str,
    first_channel: int,
    layout: str,
    back: bool,
) -> Tensor:
    x, frequencies, phases = _bare(x, frequencies, phases)
    return core.trained_rotate(
        x,
        frequencies,
        first if positions is None else positions,
        phases=phases,
        pairs=pairs,
        first_channel=first_channel,
        layout=layout,
        direction="adjoint" if back else "forward",
    )


@_rotate.register_fake
def _(
    x: Tensor, frequencies: Tensor, phases: Tensor | None, positions: Tensor | None, first: int, pairs: str, *rest: Any
) -> Tensor:
    first_channel, layout, _ = rest
    _check_frequencies(x, layout, positions, frequencies, phases, first_channel)
    return torch.empty_like(x, requires_grad=False)


@torch.library.custom_op(
    "gyre::trained_gradient",
    mutates_args=(),
    schema="(Tensor rotated, Tensor dout, Tensor frequencies, Tensor? phases, Tensor? positions, SymInt first, str pairs,"
    " SymInt first_channel, str layout) -> (Tensor, Tensor)",
)
def _gradient(
    rotated: Tensor,
    dout: Tensor,
    frequencies: Tensor,
    phases: Tensor | None,
    positions: Tensor | None,
    first: int,
    pairs: str,
    first_channel: int,
    layout: str,
) -> tuple[Tensor, Tensor]:
    rotated, dout, frequencies, phases = _bare(rotated, dout, frequencies, phases)
    dfrequencies, dphases = core.trained_gradient(
        rotated,
        dout,
        frequencies,
        first if positions is None else positions,
        phases=phases,
        pairs=pairs,
        first_channel=first_channel,
        layout=layout,
    )
    return dfrequencies, frequencies.new_empty(0) if dphases is None else dphases


def _like(frequencies: Tensor, phases: Tensor | None) -> tuple[Tensor, Tensor]:
    return frequencies.new_empty(frequencies.shape), (
        frequencies.new_empty(0) if phases is None else phases.new_empty(phases.shape)
    )


@_gradient.register_fake
def _(rotated: Tensor, dout: Tensor, frequencies: Tensor, phases: Tensor | None, *rest: Any) -> tuple[Tensor, Tensor]:
    check_core_device(rotated=rotated, dout=dout, frequencies=frequencies, phases=phases, positions=rest[0])
    return _like(frequencies, phases)


def _keep(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    ctx.save_for_backward(*inputs[1:4], output)
    ctx.rest = inputs[4:]


def _backward(ctx: Any, dout: Tensor) -> tuple[Any, ...]:
    frequencies, phases, positions, rotated = ctx.saved_tensors
    *rest, back = ctx.rest
    if back and any(ctx.needs_input_grad[1:3]):
        raise Error("EUNSUPPORTED", "frequencies: rotating back has no gradient to them", "frequencies")
    dx = _rotate(dout, frequencies, phases, positions, *rest, not back)
    dfrequencies = dphases = None
    if any(ctx.needs_input_grad[1:3]):
        dfrequencies, dphases = _gradient(rotated, dout, frequencies, phases, positions, *rest)
    return (dx, dfrequencies, None if phases is None else dphases, *[None] * 6)


_rotate.register_autograd(_backward, setup_context=_keep)


def trained_rotate(
    x: Tensor,
    frequencies: Tensor,
    positions: Tensor | int | None = None,
    *,
    phases: Tensor | None = None,
    pairs: str = "half",
    first_channel: int = 0,
    layout: str | None = None,
) -> Tensor:
    """gyre.trained_rotate, with gradients to x, frequencies and phases, under torch.compile too.

    Gradients of gradients are those to x alone.  Raises gyre.Error.
    """
    at, first = split_positions(positions)
    chosen = check_layout(tensor(x, "x"), layout)
    each = {"frequencies": tensor(frequencies, "frequencies"), "phases": phases}
    check_fake(x=x, positions=at, **each)
    no_tangent(x=x, **each)
    rest = (first, word(pairs, "pairs", _PAIRS), whole(first_channel, "first_channel"), chosen, False)
    out: Tensor = _rotate(x, *each.values(), at, *rest)
    return out


# -- angles of the caller --


@torch.library.custom_op(
    "gyre::angle_rotate",
    mutates_args=(),
    schema="(Tensor x, Tensor angles, str pairs, SymInt first_channel, str layout, bool back) -> Tensor",
)
def _turn(x: Tensor, angles: Tensor, pairs: str, first_channel: int, layout: str, back: bool) -> Tensor:
    options: dict[str, Any] = {"pairs": pairs, "first_channel": first_channel, "layout": layout}
    turned: Tensor = core.angle_rotate(*_bare(x, angles), **options, direction="adjoint" if back else "forward")
    return turned


@_turn.register_fake
def _(x: Tensor, angles: Tensor, pairs: str, first_channel: int, layout: str, back: bool) -> Tensor:
    check_tensor(x, "x", layout, REAL)
    check_tensor(angles, "angles", layout, LONG_REAL)
    check_core_device(x=x, angles=angles)
    batch, tokens, heads, channels = _extents(x, layout)
    found = _extents(angles, layout)
    for extent, allowed in zip(found, ((batch,), (tokens,), (1, heads)), strict=False):
        if all(isinstance(one, int) for one in (extent, *allowed)) and extent not in allowed:
            text = f"angles: have shape {list(angles.shape)}, but x has {list(x.shape)}"
            raise Error("ESHAPE", text, "angles")
    _check_channels(channels, first_channel, found[3], "angles")
    return torch.empty_like(x, requires_grad=False)


@torch.library.custom_op(
    "gyre::angle_gradient",
    mutates_args=(),
    schema="(Tensor rotated, Tensor dout, Tensor angles, str pairs, SymInt first_channel, str layout) -> Tensor",
)
def _turn_gradient(rotated: Tensor, dout: Tensor, angles: Tensor, pairs: str, first_channel: int, layout: str) -> Tensor:
    options: dict[str, Any] = {"pairs": pairs, "first_channel": first_channel, "layout": layout}
    found: Tensor = core.angle_gradient(*_bare(rotated, dout, angles), **options)
    return found


@_turn_gradient.register_fake
def _(rotated: Tensor, dout: Tensor, angles: Tensor, *rest: Any) -> Tensor:
    check_core_device(rotated=rotated, dout=dout, angles=angles)
    return angles.new_empty(angles.shape)


def _keep_turn(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    ctx.save_for_backward(inputs[1], output)
    ctx.rest = inputs[2:]


def _backward_turn(ctx: Any, dout: Tensor) -> tuple[Any, ...]:
    angles, rotated = ctx.saved_tensors
    *rest, back = ctx.rest
    if back and ctx.needs_input_grad[1]:
        raise Error("EUNSUPPORTED", "angles: rotating back has no gradient to them", "angles")
    dangles = _turn_gradient(rotated, dout, angles, *rest) if ctx.needs_input_grad[1] else None
    return _turn(dout, angles, *rest, not back), dangles, None, None, None, None


_turn.register_autograd(_backward_turn, setup_context=_keep_turn)


def angle_rotate(
    x: Tensor, angles: Tensor, *, pairs: str = "half", first_channel: int = 0, layout: str | None = None
) -> Tensor:
    """gyre.angle_rotate, with gradients to x and angles, under torch.compile too.

        angles = gyre.torch.gate_sums(projection(x).view(batch, tokens, heads, pairs), layout="bshd").transpose(1, 2)
        q, k = (gyre.torch.angle_rotate(each, angles) for each in (q, k))

    Gradients of gradients are those to x alone.  Raises gyre.Error.
    """
    chosen = check_layout(tensor(x, "x"), layout)
    check_fake(x=x, angles=tensor(angles, "angles"))
    no_tangent(x=x, angles=angles)
    out: Tensor = _turn(x, angles, word(pairs, "pairs", _PAIRS), whole(first_channel, "first_channel"), chosen, False)
    return out


# -- PoPE --


@torch.library.custom_op(
    "gyre::polar_rotate",
    mutates_args=(),
    schema="(Tensor x, Tensor frequencies, Tensor? phases, Tensor? positions, SymInt first, str pairs, str layout) -> Tensor",
)
def _polar(
    x: Tensor, frequencies: Tensor, phases: Tensor | None, positions: Tensor | None, first: int, pairs: str, layout: str
) -> Tensor:
    x, frequencies, phases = _bare(x, frequencies, phases)
    at = first if positions is None else positions
    return core.polar_rotate(x, frequencies, at, phases=phases, pairs=pairs, layout=layout)


@_polar.register_fake
def _(x: Tensor, frequencies: Tensor, phases: Tensor | None, positions: Tensor | None, first: int, pairs: str, layout: str) -> Tensor:
    _check_frequencies(x, layout, positions, frequencies, phases, None)
    shape, channel = list(x.shape), layout.index("d")
    shape[channel] = 2 * shape[channel]
    return x.new_empty(shape)


@torch.library.custom_op(
    "gyre::polar_gradient",
    mutates_args=(),
    schema="(Tensor x, Tensor dout, Tensor frequencies, Tensor? phases, Tensor? positions, SymInt first, str pairs, str layout)"
    " -> (Tensor, Tensor, Tensor)",
)
def _polar_gradient(
    x: Tensor,
    dout: Tensor,
    frequencies: Tensor,
    phases: Tensor | None,
    positions: Tensor | None,
    first: int,
    pairs: str,
    layout: str,
) -> tuple[Tensor, Tensor, Tensor]:
    x, dout, frequencies, phases = _bare(x, dout, frequencies, phases)
    at = first if positions is None else positions
    dx, dfrequencies, dphases = core.polar_gradient(x, dout, frequencies, at, phases=phases, pairs=pairs, layout=layout)
    return dx, dfrequencies, frequencies.new_empty(0) if dphases is None else dphases


@_polar_gradient.register_fake
def _(x: Tensor, dout: Tensor, frequencies: Tensor, phases: Tensor | None, *rest: Any) -> tuple[Tensor, Tensor, Tensor]:
    check_core_device(x=x, dout=dout, frequencies=frequencies, phases=phases, positions=rest[0])
    return (x.new_empty(x.shape), *_like(frequencies, phases))


def _keep_polar(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    ctx.save_for_backward(*inputs[:4])
    ctx.rest = inputs[4:]


def _backward_polar(ctx: Any, dout: Tensor) -> tuple[Any, ...]:
    x, *given = ctx.saved_tensors
    dx, dfrequencies, dphases = _polar_gradient(x, dout, *given, *ctx.rest)
    return dx, dfrequencies, None if given[1] is None else dphases, *[None] * 4


_polar.register_autograd(_backward_polar, setup_context=_keep_polar)


def polar_rotate(
    x: Tensor,
    frequencies: Tensor,
    positions: Tensor | int | None = None,
    *,
    phases: Tensor | None = None,
    pairs: str = "half",
    layout: str | None = None,
) -> Tensor:
    """gyre.polar_rotate (PoPE), with gradients to x, frequencies and phases, under torch.compile too.

    A phase outside -2 pi .. 0 has no gradient.  Gradients have no gradients.  Raises gyre.Error.
    """
    at, first = split_positions(positions)
    chosen = check_layout(tensor(x, "x"), layout)
    each = {"frequencies": tensor(frequencies, "frequencies"), "phases": phases}
    check_fake(x=x, positions=at, **each)
    no_tangent(x=x, **each)
    out: Tensor = _polar(x, *each.values(), at, first, word(pairs, "pairs", _PAIRS), chosen)
    return out


# -- FoPE --

# The end of both schemas.
_SERIES = (
    "Tensor frequencies, Tensor cosines, Tensor sines, Tensor? positions, SymInt first, str pairs, SymInt? all_pairs, str rest,"
    " SymInt first_channel, str layout"
)


def _series(*rest: Any) -> tuple[list[Any], dict[str, Any]]:
    """What the core takes by place and by name, from the end of the arguments of an operator."""
    *numbers, positions, first, pairs, all_pairs, padded, first_channel, layout = rest
    by_name = {"pairs": pairs, "all_pairs": all_pairs, "rest": padded, "first_channel": first_channel, "layout": layout}
    return [*_bare(*numbers), first if positions is None else positions], by_name


@torch.library.custom_op(
    "gyre::fourier_rotate", mutates_args=(), schema="(Tensor x, " + _SERIES + ", bool back) -> Tensor"
)
def _fourier(x: Tensor, *rest: Any) -> Tensor:
    by_place, by_name = _series(*rest[:-1])
    back = rest[-1]
    return core.fourier_rotate(x.detach(), *by_place, **by_name, direction="adjoint" if back else "forward")


def _check_series(x: Tensor, *rest: Any) -> None:
    frequencies, cosines, sines, positions, _, _, all_pairs, _, first_channel, layout = rest
    check_tensor(x, "x", layout, REAL)
    check_core_device(x=x, positions=positions, frequencies=frequencies, cosines=cosines, sines=sines)
    heads, channels = _extents(x, layout)[2:]
    form = "[heads or 1, terms, pairs]"
    check_numbers(frequencies, "frequencies", "[terms]", (None,))
    check_numbers(cosines, "cosines", form, ((1, heads), frequencies.shape[0], None))
    check_numbers(sines, "sines", form, tuple(cosines.shape))
    pairs = cosines.shape[2]
    if isinstance(all_pairs, int) and isinstance(pairs, int) and 0 != all_pairs < pairs:
        raise Error("EINVAL", f"all_pairs: {all_pairs} are fewer than the {pairs} with a series", "all_pairs")
    _check_channels(channels, first_channel, all_pairs or pairs)
    _check_tokens(x, layout, positions, 1)


@_fourier.register_fake
def _(x: Tensor, *rest: Any) -> Tensor:
    _check_series(x, *rest[:-1])
    return torch.empty_like(x, requires_grad=False)


@torch.library.custom_op(
    "gyre::fourier_gradient", mutates_args=(), schema="(Tensor x, Tensor dout, " + _SERIES + ") -> (Tensor, Tensor, Tensor)"
)
def _fourier_gradient(x: Tensor, dout: Tensor, *rest: Any) -> tuple[Tensor, Tensor, Tensor]:
    by_place, by_name = _series(*rest)
    return core.fourier_gradient(*_bare(x, dout), *by_place, **by_name)


@_fourier_gradient.register_fake
def _(x: Tensor, dout: Tensor, *rest: Any) -> tuple[Tensor, Tensor, Tensor]:
    frequencies, cosines, sines, positions = rest[:4]
    check_core_device(x=x, dout=dout, frequencies=frequencies, cosines=cosines, sines=sines, positions=positions)
    return frequencies.new_empty(frequencies.shape), cosines.new_empty(cosines.shape), sines.new_empty(sines.shape)


def _keep_fourier(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    ctx.save_for_backward(*inputs[:5])
    ctx.rest = inputs[5:]


def _backward_fourier(ctx: Any, dout: Tensor) -> tuple[Any, ...]:
    x, *given = ctx.saved_tensors
    *rest, back = ctx.rest
    wanted = any(ctx.needs_input_grad[1:4])
    if back and wanted:
        raise Error("EUNSUPPORTED", "cosines: rotating back has no gradient to the series", "cosines")
    dx = _fourier(dout, *given, *rest, not back)
    numbers = _fourier_gradient(x, dout, *given, *rest) if wanted else (None, None, None)
    return dx, *numbers, *[None] * 8


_fourier.register_autograd(_backward_fourier, setup_context=_keep_fourier)


def fourier_rotate(
    x: Tensor,
    frequencies: Tensor,
    cosines: Tensor,
    sines: Tensor,
    positions: Tensor | int | None = None,
    *,
    pairs: str = "half",
    all_pairs: int | None = None,
    rest: str = "still",
    first_channel: int = 0,
    layout: str | None = None,
) -> Tensor:
    """gyre.fourier_rotate (FoPE), with gradients to x, frequencies, cosines and sines, under torch.compile too.

    Gradients of gradients are those to x alone.  Raises gyre.Error.
    """
    at, first = split_positions(positions)
    chosen = check_layout(tensor(x, "x"), layout)
    each = {"frequencies": frequencies, "cosines": cosines, "sines": sines}
    for name, one in each.items():
        tensor(one, name)
    check_fake(x=x, positions=at, **each)
    no_tangent(x=x, **each)
    out: Tensor = _fourier(
        x,
        *each.values(),
        at,
        first,
        word(pairs, "pairs", _PAIRS),
        None if all_pairs is None else whole(all_pairs, "all_pairs"),
        word(rest, "rest", _RESTS),
        whole(first_channel, "first_channel"),
        chosen,
        False,
    )
    return out
