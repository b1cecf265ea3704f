# Written by scripts/python-stubs from config.def and _scalings.py.
import dataclasses
from collections.abc import Sequence
from typing import Any, ClassVar

SCALINGS: dict[str, type[Scaling]]

class Scaling:
    """A scaling of RoPE.  It never changes; two with the same options are equal.  None = the default of gyre.h."""
    name: ClassVar[str]
    @property
    def options(self) -> dict[str, Any]:
        """Those that were given."""

@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class Linear(Scaling):
    """theta[i] / factor: position interpolation (Chen 2023, arXiv 2306.15595).

    Values:
        factor: a number from 1 on; None = 1
        trained_length: a whole number
        context_length: a whole number
    """
    factor: float | None = None
    trained_length: int | None = None
    context_length: int | None = None

@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class Ntk(Scaling):
    """base factor^(dim / (dim - 2)): NTK-aware base (bloc97, 2023).

    Values:
        factor: a number from 1 on; None = 1
        trained_length: a whole number
        context_length: a whole number
    """
    factor: float | None = None
    trained_length: int | None = None
    context_length: int | None = None

@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class DynamicNtk(Scaling):
    """NTK whose factor follows the context length in use: "dynamic" in transformers.

    Values:
        factor: a number from 1 on; None = 1
        trained_length: a whole number
        context_length: a whole number
    """
    factor: float | None = None
    trained_length: int | None = None
    context_length: int | None = None

@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class ByParts(Scaling):
    """YaRN without its attention factor: fast pairs are kept, slow ones divided, as released.

    Values:
        factor: a number from 1 on; None = 1
        beta_fast: a number from 0 on; None = 32
        beta_slow: a number from 0 on; None = 1
        truncate: True or False
        trained_length: a whole number
        context_length: a whole number
    """
    factor: float | None = None
    beta_fast: float | None = None
    beta_slow: float | None = None
    truncate: bool = True
    trained_length: int | None = None
    context_length: int | None = None

@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class ByPartsPaper(Scaling):
    """The same with the ramp of YaRN's text (Peng 2023, arXiv 2309.00071, eq. 17-20).

    Values:
        factor: a number from 1 on; None = 1
        beta_fast: a number from 0 on; None = 32
        beta_slow: a number from 0 on; None = 1
        truncate: True or False
        trained_length: a whole number
        context_length: a whole number
    """
    factor: float | None = None
    beta_fast: float | None = None
    beta_slow: float | None = None
    truncate: bool = True
    trained_length: int | None = None
    context_length: int | None = None

@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class Yarn(Scaling):
    """YaRN (Peng 2023, arXiv 2309.00071): ByParts with an attention factor of 0.1 ln factor + 1.

    Values:
        factor: a number from 1 on; None = 1
        mscale: a number from 0 on
        mscale_all_dim: a number from 0 on
        beta_fast: a number from 0 on; None = 32
        beta_slow: a number from 0 on; None = 1
        truncate: True or False
        trained_length: a whole number
        context_length: a whole number
    """
    factor: float | None = None
    mscale: float | None = None
    mscale_all_dim: float | None = None
    beta_fast: float | None = None
    beta_slow: float | None = None
    truncate: bool = True
    trained_length: int | None = None
    context_length: int | None = None

@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class Llama3(Scaling):
    """Llama 3.1: wavelengths below L / high_freq are kept, those above L / low_freq divided.

    Values:
        factor: a number from 1 on; None = 1
        low_freq: a number from 0 on; None = 1
        high_freq: a number from 0 on; None = 4
        trained_length: a whole number
        context_length: a whole number
    """
    factor: float | None = None
    low_freq: float | None = None
    high_freq: float | None = None
    trained_length: int | None = None
    context_length: int | None = None

@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class LongRope(Scaling):
    """LongRoPE (Ding 2024, arXiv 2402.13753): lists of factors, one up to L and one past it.

    Values:
        factor: a number from 1 on; None = 1
        short_factor: a list of numbers from 2^-10 on
        long_factor: a list of numbers from 2^-10 on
        start_tokens: a whole number
        starts: "paper", "released"
        trained_length: a whole number
        context_length: a whole number
    """
    factor: float | None = None
    short_factor: Sequence[float] | None = None
    long_factor: Sequence[float] | None = None
    start_tokens: int | None = None
    starts: str | None = None
    trained_length: int | None = None
    context_length: int | None = None

@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class Proportional(Scaling):
    """Gemma 4: the first `proportion` of the pairs rotate, divided by factor; others do not.

    Values:
        factor: a number from 1 on; None = 1
        proportion: a number from 0 to 1; None = 1
        trained_length: a whole number
        context_length: a whole number
    """
    factor: float | None = None
    proportion: float | None = None
    trained_length: int | None = None
    context_length: int | None = None

@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class NtkMixed(Scaling):
    """theta[i] / exp(a (i + 1)^mixed_exponent), which is factor for the last pair (Su, kexue.fm 9706).

    Values:
        factor: a number from 1 on; None = 1
        mixed_exponent: a number from 0 on; None = 0.625
        trained_length: a whole number
        context_length: a whole number
    """
    factor: float | None = None
    mixed_exponent: float | None = None
    trained_length: int | None = None
    context_length: int | None = None

@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class DynamicYarn(Scaling):
    """YaRN whose factor is max(n, L) / L at context length n (jquesnelle/yarn, 2023).

    Values:
        mscale: a number from 0 on
        mscale_all_dim: a number from 0 on
        beta_fast: a number from 0 on; None = 32
        beta_slow: a number from 0 on; None = 1
        truncate: True or False
        trained_length: a whole number
        context_length: a whole number
    """
    mscale: float | None = None
    mscale_all_dim: float | None = None
    beta_fast: float | None = None
    beta_slow: float | None = None
    truncate: bool = True
    trained_length: int | None = None
    context_length: int | None = None

@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class Riflex(Scaling):
    """RIFLEx (arXiv 2502.15894), as released: one pair of an axis makes less than a turn.  Of an axis alone.

    Values:
        factor: a number from 1 on; None = 1
        intrinsic_pair: a whole number
        repeats_at: a whole number
        trained_length: a whole number
        context_length: a whole number
    """
    factor: float | None = None
    intrinsic_pair: int | None = None
    repeats_at: int | None = None
    trained_length: int | None = None
    context_length: int | None = None

@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class RiflexPaper(Scaling):
    """RIFLEx as its text has it, eq. 8.  Of an axis alone.

    Values:
        factor: a number from 1 on; None = 1
        intrinsic_pair: a whole number
        repeats_at: a whole number
        trained_length: a whole number
        context_length: a whole number
    """
    factor: float | None = None
    intrinsic_pair: int | None = None
    repeats_at: int | None = None
    trained_length: int | None = None
    context_length: int | None = None
