"""What is wrong with frequencies, factors and tables of cos and sin, said in words."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy
import torch
from numpy.typing import NDArray

Numbers = NDArray[numpy.float64]
CLOSE = 1e-5  # relative: float32 arithmetic gives a frequency to about 1e-6
ALIKE = 2e-4  # relative: what a guess at a cause may be off by, at most
ROUNDING = 2e-6  # relative: an error that is always allowed
TURN = 0.01  # radians: the difference of an angle that counts


@dataclass(frozen=True)
class Wanted:
    """What a config means: at one context length, in tokens."""

    length: int
    inv_freq: Numbers
    factor: float
    plain: Numbers | None  # without scaling; None where base^(-2 i / dim) is not how they are made


@dataclass(frozen=True)
class Fault:
    """cause: "meta", "shape", "dtype", "uninitialised", "rounded", "twice", "not applied", "switch", "base", "factor",
    "sign", "positions" or "other".  difference: relative, of frequencies and factors; absolute, of cos and sin."""

    cause: str
    text: str
    difference: float | None = None
    position: int | None = None


def numbers(x: torch.Tensor) -> Numbers:
    """A tensor as doubles."""
    found: Numbers = x.detach().to("cpu", torch.float64).numpy()
    return found


def relative(live: Numbers, wanted: Numbers) -> Numbers:
    """|live - wanted| / wanted; where wanted is 0, |live|."""
    found: Numbers = numpy.abs(live - wanted) / numpy.where(wanted == 0, 1.0, numpy.abs(wanted))
    return numpy.where(numpy.isfinite(found), found, numpy.inf)


def first_position(live: Numbers, wanted: Numbers) -> int | None:
    """The first position at which an angle is more than TURN off."""
    gap = float(numpy.max(numpy.where(numpy.isfinite(live), numpy.abs(live - wanted), numpy.inf)))
    if gap == 0:
        return None
    return 0 if math.isinf(gap) else max(1, math.ceil(TURN / gap))


def _rounded_to(live: Numbers, wanted: Numbers) -> str | None:
    """The short type that wanted was rounded to; a last bit may differ, as wanted is not computed in float32."""
    for dtype, name in ((torch.bfloat16, "bfloat16"), (torch.float16, "float16")):
        rounded = torch.from_numpy(wanted).to(torch.float32).to(dtype)
        same = numbers(rounded) == live
        if same.mean() >= 0.9 and bool(numpy.all(relative(live, wanted)[wanted > 1e-4] < 0.01)):
            return name
    return None


def _uninitialised(live: Numbers, wanted: Numbers) -> str | None:
    if not numpy.all(numpy.isfinite(live)):
        return "holds uninitialised memory: not every number is finite"
    if not numpy.any(live):
        return "holds uninitialised memory: all zeros"
    top = float(numpy.max(wanted))
    odd = (live < 0) | (live > 4 * top) | ((live != 0) & (live < 1e-30)) | ((live == 0) & (wanted > 1e-30))
    if numpy.any(odd):
        pair = int(numpy.argmax(odd))
        return f"holds uninitialised memory: pair {pair} is {live[pair]:.4g}, the config means {wanted[pair]:.4g}"
    return None


def _fit(difference: float) -> float:
    """A guess at a cause must fit much better than the fault is large."""
    return min(ALIKE, max(ROUNDING, difference / 8))


def _known_mistake(live: Numbers, wanted: Wanted, fit: float) -> tuple[str, str] | None:
    plain = wanted.plain
    if plain is None or numpy.any(wanted.inv_freq <= 0):
        return None
    if numpy.max(relative(plain, wanted.inv_freq)) > ALIKE:
        if numpy.max(relative(live, plain)) < fit:
            return "not applied", "is without the scaling that the config asks for"
        if numpy.max(relative(live, wanted.inv_freq**2 / plain)) < fit:
            return "twice", "has the scaling of the config applied twice"
    ratio = live / wanted.inv_freq
    if numpy.max(relative(ratio, numpy.full_like(ratio, ratio[0]))) < fit:
        return "factor", f"is the config's times {ratio[0]:.9g}"
    return None


def _base_of(live: Numbers, fit: float) -> float | None:
    """The base of plain frequencies, if they are that."""
    n = len(live)
    if n < 3 or numpy.any(live <= 0) or abs(live[0] - 1) > fit:
        return None
    base = float(live[-1] ** (-n / (n - 1)))
    return base if numpy.max(relative(live, base ** (-numpy.arange(n) / n))) < fit else None


def _base_text(base: float, meant: float | None) -> str:
    """Both bases, with the digits in which they differ."""
    if meant is None:
        return f"has the base {base:.6g}, unscaled"
    digits = next((n for n in (6, 8, 10) if f"{base:.{n}g}" != f"{meant:.{n}g}"), 12)
    return f"has the base {base:.{digits}g}, the config means {meant:.{digits}g}"


def frequencies(live_tensor: torch.Tensor, accepted: Sequence[Wanted], others: Sequence[Wanted] = ()) -> Fault | None:
    """What is wrong with inv_freq: None where it is that of one of `accepted`.  others: right at other lengths."""
    if live_tensor.is_meta:
        return Fault("meta", "is on the meta device: it has no numbers")
    live, wanted = numbers(live_tensor).reshape(-1), accepted[0]
    if live.shape != wanted.inv_freq.shape:
        return Fault("shape", f"has {live.size} pairs, the config means {wanted.inv_freq.size}")
    for each in accepted:
        if numpy.max(relative(live, each.inv_freq)) <= CLOSE:
            return None
    off = relative(live, wanted.inv_freq)
    pair, difference = int(numpy.argmax(off)), float(numpy.max(off))
    found = {"difference": difference, "position": first_position(live, wanted.inv_freq)}
    if not live_tensor.is_floating_point():
        dtype = str(live_tensor.dtype).removeprefix("torch.")
        return Fault("dtype", f"is of type {dtype}, which holds no frequencies below 1", **found)  # type: ignore[arg-type]
    if numpy.max(relative(-live, wanted.inv_freq)) <= CLOSE:
        return Fault("sign", "has the other sign: it rotates in the other direction", **found)  # type: ignore[arg-type]
    text = _uninitialised(live, wanted.inv_freq)
    if text:
        return Fault("uninitialised", text, **found)  # type: ignore[arg-type]
    for each in (*accepted, *others):
        name = _rounded_to(live, each.inv_freq)
        if name:
            text = f"is rounded to {name}: pair {pair} is {live[pair]:.7g}, not {wanted.inv_freq[pair]:.7g}"
            return Fault("rounded", text, **found)  # type: ignore[arg-type]
    fit = _fit(difference)
    for each in others:
        if numpy.max(relative(live, each.inv_freq)) < fit:
            text = f"is that for a context of {each.length} tokens, not {wanted.length}: the switch of lengths is not taken"
            return Fault("switch", text, **found)  # type: ignore[arg-type]
    known = _known_mistake(live, wanted, fit)
    base = _base_of(live, fit)
    if known is None and base is not None:
        known = "base", _base_text(base, _base_of(wanted.inv_freq, ALIKE))
    cause, text = known or (
        "other",
        f"is not the config's: pair {pair} is {live[pair]:.9g}, not {wanted.inv_freq[pair]:.9g}",
    )
    return Fault(cause, text, **found)  # type: ignore[arg-type]


def factor(live: Any, wanted: float) -> Fault | None:
    """What is wrong with the factor of cos and sin."""
    value = float(live)
    difference = abs(value - wanted) / wanted
    if difference <= CLOSE:
        return None
    text = f"is {value:.6g}, the config means {wanted:.6g}"
    if abs(value - wanted * wanted) < ALIKE:
        return Fault("twice", text + ": applied twice", difference, 0)
    if abs(value - 1) < CLOSE:
        return Fault("not applied", text + ": not applied", difference, 0)
    return Fault("factor", text, difference, 0)


def pairs_of(x: Numbers, pairs: int) -> Numbers | None:
    """[positions, pairs] of cos or sin that may have each number twice, in halves or side by side."""
    if x.shape[-1] == pairs:
        return x
    if x.shape[-1] != 2 * pairs:
        return None
    interleaved = numpy.array_equal(x[..., 0::2], x[..., 1::2], equal_nan=True)
    halves = numpy.array_equal(x[..., :pairs], x[..., pairs:], equal_nan=True)
    return x[..., 0::2] if interleaved and not halves else x[..., :pairs]


_SIGNS = ((1, -1, "has sin with the other sign: it rotates in the other direction"), (-1, 1, "has cos with the other sign"),
          (-1, -1, "has cos and sin with the other sign"))  # fmt: skip


def _sign_fault(cosine: Numbers, sine: Numbers, angles: Numbers, factor: float, allowed: Numbers) -> str | None:
    for of_cosine, of_sine, text in _SIGNS:
        if numpy.all(numpy.abs(of_cosine * cosine - factor * numpy.cos(angles)) <= allowed):
            if numpy.all(numpy.abs(of_sine * sine - factor * numpy.sin(angles)) <= allowed):
                return text
    return None


def _offset_fault(cosine: Numbers, sine: Numbers, at: Numbers, wanted: Wanted, precision: float) -> str | None:
    """Are these the numbers of positions a little before or after?  A slow pair shows how far."""
    turning = numpy.flatnonzero(wanted.inv_freq >= 1e-4)
    if not turning.size:
        return None
    slow = int(turning[numpy.argmin(wanted.inv_freq[turning])])
    speed = float(wanted.inv_freq[slow])
    gap = math.atan2(float(sine[0, slow]), float(cosine[0, slow])) - float(at[0]) * speed
    by = round((gap + math.pi) % (2 * math.pi) / speed - math.pi / speed)
    if by == 0:
        return None
    angles = (at + by)[:, None] * wanted.inv_freq
    allowed = _allowed(numpy.abs(angles), wanted.factor, precision)
    if numpy.any(numpy.abs(cosine - wanted.factor * numpy.cos(angles)) > allowed):
        return None
    if numpy.any(numpy.abs(sine - wanted.factor * numpy.sin(angles)) > allowed):
        return None
    return f"is computed at positions that are {abs(by)} too {'large' if by > 0 else 'small'}"


def _allowed(angles: Numbers, factor: float, precision: float) -> Numbers:
    """What cos and sin may be off by: rounding to their type, and frequencies and factors that count as equal."""
    found: Numbers = factor * (2 * precision + CLOSE + angles * (CLOSE + 2.0**-22))  # a product of float32 is rounded
    return found


def _factor_fault(cosine: Numbers, sine: Numbers, at: Numbers, wanted: Wanted) -> Fault | None:
    """Another factor, from the row of position 0 and the length of every pair."""
    zero = numpy.flatnonzero(at == 0)
    if not zero.size:
        return None
    value = float(numpy.mean(cosine[zero[0]]))
    fault = factor(value, wanted.factor)
    if fault is None or value <= 0 or numpy.ptp(cosine[zero[0]]) > CLOSE * value:
        return None
    if not numpy.allclose(numpy.hypot(cosine, sine), value, rtol=0.02, atol=0):  # of bfloat16 too
        return None
    return Fault(fault.cause, f"has a factor of cos and sin that {fault.text}", fault.difference, 0)


def _angle_fault(cosine: Numbers, sine: Numbers, at: Numbers, wanted: Wanted, others: Sequence[Wanted]) -> Fault | None:
    """The frequencies that follow from the row of position 1, if they are wrong."""
    one = numpy.flatnonzero(at == 1)
    if one.size:
        return frequencies(torch.from_numpy(numpy.arctan2(sine[one[0]], cosine[one[0]])), [wanted], others)
    return None


def table(
    cosine: Numbers, sine: Numbers, positions: Numbers, wanted: Wanted, precision: float, others: Sequence[Wanted] = ()
) -> Fault | None:
    """What is wrong with cos and sin [positions, pairs].  precision: of their type, 2^-24 of float32."""
    angles = positions[:, None] * wanted.inv_freq
    allowed = _allowed(angles, wanted.factor, precision)
    with numpy.errstate(invalid="ignore"):
        off = numpy.maximum(
            numpy.abs(cosine - wanted.factor * numpy.cos(angles)), numpy.abs(sine - wanted.factor * numpy.sin(angles))
        )
    off = numpy.where(numpy.isfinite(off), off, numpy.inf)
    bad = (off > allowed).any(axis=1)
    if not bad.any():
        return None
    row, difference = int(numpy.argmax(bad)), float(off.max())
    position = int(positions[row])
    if not (numpy.isfinite(cosine).all() and numpy.isfinite(sine).all()):
        return Fault("uninitialised", "holds uninitialised memory: not every number is finite", math.inf, position)
    fault = _factor_fault(cosine, sine, positions, wanted)
    if fault:
        return Fault(fault.cause, fault.text, fault.difference, position)
    if max(numpy.abs(cosine).max(), numpy.abs(sine).max()) > 1.01 * wanted.factor**2 or not cosine.any():
        return Fault("uninitialised", "has uninitialised memory: numbers that are not cos or sin", difference, position)
    text = _sign_fault(cosine, sine, angles, wanted.factor, allowed)
    if text:
        return Fault("sign", text, difference, position)
    text = _offset_fault(cosine, sine, positions, wanted, precision)
    if text:
        return Fault("positions", text, difference, position)
    fault = _angle_fault(cosine, sine, positions, wanted, others)
    if fault:
        return Fault(fault.cause, fault.text, fault.difference, position)
    short = numbers(torch.from_numpy(positions).to(torch.bfloat16))[:, None] * wanted.inv_freq
    if numpy.abs(cosine - wanted.factor * numpy.cos(short)).max() < 0.05:
        return Fault("positions", "is computed at positions rounded to bfloat16", difference, position)
    return Fault("other", f"is up to {difference:.3g} off", difference, position)
