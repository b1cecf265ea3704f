"""Scalings of RoPE as objects: gyre.rope(128, scaling=gyre.Yarn(factor=4, trained_length=8192)).

There is a class for each scaling of the description (config.def), with the options that act under it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, ClassVar

from gyre._guesses import named
from gyre._options import FIELDS, default_of, document, option_of, type_of


class Scaling:
    """A scaling of RoPE.  It never changes; two with the same options are equal.  None = the default of gyre.h."""

    name: ClassVar[str]  # in Encoding.config and in rope(scaling=...)

    def __post_init__(self) -> None:
        for option, value in vars(self).items():
            if (isinstance(value, Sequence) and not isinstance(value, str)) or hasattr(value, "tolist"):  # lists of LongRoPE
                object.__setattr__(self, option, tuple(value))

    @property
    def options(self) -> dict[str, Any]:
        """Those that were given."""
        return {option: value for option, value in vars(self).items() if value is not None and value != self._default(option)}

    def _default(self, option: str) -> Any:
        return type(self).__dataclass_fields__[option].default  # type: ignore[attr-defined]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{option}={value!r}' for option, value in self.options.items())})"


_TEXTS = {
    "linear": ("Linear", "theta[i] / factor: position interpolation (Chen 2023, arXiv 2306.15595)."),
    "ntk": ("Ntk", "base factor^(dim / (dim - 2)): NTK-aware base (bloc97, 2023)."),
    "dynamic": ("DynamicNtk", "NTK whose factor follows the context length in use: \"dynamic\" in transformers."),
    "by-parts": ("ByParts", "YaRN without its attention factor: fast pairs are kept, slow ones divided, as released."),
    "by-parts-paper": ("ByPartsPaper", "The same with the ramp of YaRN's text (Peng 2023, arXiv 2309.00071, eq. 17-20)."),
    "yarn": ("Yarn", "YaRN (Peng 2023, arXiv 2309.00071): ByParts with an attention factor of 0.1 ln factor + 1."),
    "llama3": ("Llama3", "Llama 3.1: wavelengths below L / high_freq are kept, those above L / low_freq divided."),
    "longrope": ("LongRope", "LongRoPE (Ding 2024, arXiv 2402.13753): lists of factors, one up to L and one past it."),
    "proportional": ("Proportional", "Gemma 4: the first `proportion` of the pairs rotate, divided by factor; others do not."),
    "ntk-mixed": ("NtkMixed", "theta[i] / exp(a (i + 1)^mixed_exponent), which is factor for the last pair (Su, kexue.fm 9706)."),
    "dynamic-yarn": ("DynamicYarn", "YaRN whose factor is max(n, L) / L at context length n (jquesnelle/yarn, 2023)."),
    "riflex": ("Riflex", "RIFLEx (arXiv 2502.15894), as released: one pair of an axis makes less than a turn.  Of an axis alone."),
    "riflex-paper": ("RiflexPaper", "RIFLEx as its text has it, eq. 8.  Of an axis alone."),
}
_OF_AN_AXIS = ("riflex", "riflex-paper")


def _members(scaling: str) -> dict[str, str]:
    """Options of a scaling, and their members."""
    acting = [name for name, field in FIELDS.items() if field["when"] == "rope.scaling" and scaling in field["values"]]
    acting = [name for name in acting if not name.startswith("rope.diffusion.")]  # DyPE acts on a scaling but is not part of it
    if scaling in _OF_AN_AXIS:
        acting += ["rope.axis[0].intrinsic_pair", "rope.axis[0].repeats_at"]
    return {option_of(name): name for name in [*acting, "trained_length", "context_length"]}


def _make(scaling: str) -> type[Scaling]:
    name, text = _TEXTS[scaling]
    members = _members(scaling)
    given = {option: default_of(member) for option, member in members.items()}
    fields = [(option, type_of(members[option], default), dataclasses.field(default=default)) for option, default in given.items()]
    kind = dataclasses.make_dataclass(name, fields, bases=(Scaling,), frozen=True, kw_only=True, repr=False)
    kind.name = scaling
    kind.__module__ = "gyre"
    kind.__init__ = named(kind.__init__)  # type: ignore[misc]
    kind.__doc__ = document(text, members.items(), conditions=False)
    return kind


SCALINGS = {_TEXTS[scaling][0]: _make(scaling) for scaling in FIELDS["rope.axis[0].scaling"]["names"] if scaling != "none"}
globals().update(SCALINGS)
__all__ = ["Scaling", *SCALINGS]
