"""A function for each kind of encoding.  None stands for the default of gyre.h everywhere, and so does zero, unless it is refused."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from gyre import _gyre
from gyre._encoding import Encoding
from gyre._errors import Error

# What config.def says of each member of gyre_config.
_FIELDS = {field["name"]: field for field in _gyre.config_fields()}
# Options whose name is not the last part of their member's.
_MEMBERS = {
    "truncate": "rope.fractional_bounds",
    "chunk_size": "rope.chunk.size",
    "local_size": "rope.chunk.local",
    "original_length": "rope.chunk.original_length",
    "temperature": "query.temperature",
    "reference_length": "query.reference_length",
    "slope": "query.slope",
    "clip": "rope.clip.mode",
    "clip_pairs": "rope.clip.pairs",
    "start_tokens": "rope.longrope.start_tokens",
    "starts": "rope.longrope.starts",
    "dype_time": "rope.diffusion.time",
    "dype_strength": "rope.diffusion.strength",
    "dype_exponent": "rope.diffusion.exponent",
}


def _member(option: str, place: str) -> str:
    """The member of gyre_config that an option sets."""
    if option in _MEMBERS and place == "rope":
        return _MEMBERS[option]
    return option if option in _FIELDS or option == "kind" else f"{place}.{option}"


def _terms(terms: Iterable[str]) -> int:
    values = _FIELDS["score.terms"]["values"]
    given = [terms] if isinstance(terms, str) else list(terms)
    for term in given:
        if term not in values:
            raise Error("EINVAL", f"terms: holds {term!r}, not {' or '.join(map(repr, values))}", "terms")
    return sum({values[term] for term in given})


def _scalings_of_axes(given: dict[str, Any]) -> list[str]:
    """The scalings in use: each axis has its own or that of rope."""
    pairs = given["axis_pairs"]
    axes = 1 if pairs is None else len(pairs)
    own = list(given["axis_scalings"] or ())[:axes]
    scalings = [given["scaling"] if one is None else one.get("scaling", "none") for one in own]
    return scalings + [given["scaling"]] * (axes - len(own))


def _check_dype(given: dict[str, Any], scalings: list[str]) -> None:
    time = given["dype_time"]
    if time is None and (given["dype_strength"] is not None or given["dype_exponent"] is not None):
        raise Error("EINVAL", "dype_time: is None, but dype_strength or dype_exponent is set", "dype_time")
    faded = _FIELDS["rope.diffusion.timed"]["when"]
    if time is not None and not any(scaling in faded for scaling in scalings):
        names = ", ".join(repr(scaling) for scaling in dict.fromkeys(scalings))
        text = f"dype_time: is {time!r}, but no axis is scaled by one of {', '.join(faded)}, which DyPE fades: {names}"
        raise Error("EINVAL", text, "dype_time")


def _check_rope(given: dict[str, Any]) -> None:
    """Refuses options that would change nothing, and zeros, which gyre.h takes for its defaults."""
    scalings = _scalings_of_axes(given)
    _check_dype(given, scalings)
    for name, value in given.items():
        field = _FIELDS.get(_member(name, "rope"))
        if field is None:
            continue
        zero = isinstance(value, (int, float)) and not isinstance(value, bool) and value == 0
        if zero and (field["not_zero"] or field["standard"]):
            raise Error("EINVAL", f"{name}: is {value!r}; None is the default", name)
        by, when = field["by"], field["when"]
        if by is None or value is None or by == "rope.diffusion.timed" or (name == "truncate" and value):
            continue
        decider = {"rope.clip.mode": "clip", "query.temperature": "temperature"}.get(by, by.rpartition(".")[2])
        in_use = [given.get(decider), *(scalings if field["of_axes"] else ())]
        if not any(one in when for one in in_use):
            text = f"{name}: is {value!r}, but {decider} is {given[decider]!r}, which has no {name}"
            raise Error("EINVAL", text, name)
    if given["xpos_center"] is not None and given["xpos_base"] is None:
        raise Error("EINVAL", f"xpos_center: is {given['xpos_center']!r}, but xpos_base is None", "xpos_center")
    if given["starts"] is not None and not given["start_tokens"]:
        raise Error("EINVAL", f"starts: is {given['starts']!r}, but there are no start_tokens", "starts")


_OF_AXIS = tuple(name.rpartition(".")[2] for name in _FIELDS if name.startswith("rope.axis[0].") and not name.endswith(".own"))


def _of_axes(scalings: Sequence[Mapping[str, Any] | None] | None) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for i, own in enumerate(scalings or ()):
        if own is None:
            continue
        fields[f"rope.axis[{i}].own"] = True
        for name, value in own.items():
            if _FIELDS.get(_member(name, "rope"), {}).get("of_axes"):
                text = f"axis_scalings: [{i}] has {name!r}, which all axes share: it is an option of rope"
                raise Error("EINVAL", text, "axis_scalings")
            if name not in _OF_AXIS:
                raise Error("EINVAL", f"axis_scalings: [{i}] has {name!r}, which is none of {', '.join(_OF_AXIS)}", "axis_scalings")
            fields[f"rope.axis[{i}].{name}"] = value
    if len(scalings or ()) > 4:
        raise Error("EINVAL", f"axis_scalings: has {len(scalings or ())} axes, and 4 is the most", "axis_scalings")
    return fields


def _make(kind: str, place: str, options: Mapping[str, Any], **members: Any) -> Encoding:
    """options: by the names of a function's arguments; one without a value keeps its default."""
    given = {_member(name, place): value for name, value in options.items() if value is not None}
    return Encoding(kind=kind, **given, **members)


def rope(
    head_dim: int,
    *,
    base: float = 10000.0,
    scaling: str = "none",
    factor: float | None = None,
    trained_length: int | None = None,
    context_length: int | None = None,
    dim: int | None = None,
    first_channel: int | None = None,
    layout: str = "half",
    clockwise: bool = False,
    attention_factor: float | None = None,
    mscale: float | None = None,
    mscale_all_dim: float | None = None,
    beta_fast: float | None = None,
    beta_slow: float | None = None,
    low_freq: float | None = None,
    high_freq: float | None = None,
    proportion: float | None = None,
    mixed_exponent: float | None = None,
    truncate: bool = True,
    resonance: bool = False,
    short_factor: Sequence[float] | None = None,
    long_factor: Sequence[float] | None = None,
    axis_pairs: Sequence[int] | None = None,
    axes_layout: str = "chunked",
    far: str = "as-near",
    far_window: int | None = None,
    far_factor: float | None = None,
    chunk_size: int | None = None,
    local_size: int | None = None,
    original_length: int | None = None,
    xpos_base: float | None = None,
    xpos_center: int | None = None,
    temperature: str = "none",
    reference_length: int | None = None,
    slope: float | None = None,
    angles: str = "exact",
    length_policy: str = "declared",
    length_block: int | None = None,
    table_positions: int | None = None,
    axis_scalings: Sequence[Mapping[str, Any] | None] | None = None,
    dype_time: float | None = None,
    dype_strength: float | None = None,
    dype_exponent: float | None = None,
    clip: str = "none",
    clip_pairs: int | None = None,
    start_tokens: int | None = None,
    starts: str | None = None,
) -> Encoding:
    """RoPE (Su 2021, arXiv 2104.09864) with any scaling.

    Args:
        head_dim: channels of a head.  dim of them rotate (None = all), from first_channel on.
        base: theta[i] = base^(-2 i / dim) radians a position.
        scaling: "none", "linear", "ntk", "dynamic", "by-parts", "by-parts-paper", "yarn", "llama3", "longrope",
            "proportional", "ntk-mixed" or "dynamic-yarn"; gyre.h has formulas and papers.
        factor: s, at least 1.  trained_length: L, in tokens.  context_length: the length in use, None = L.
        layout: "half" (Hugging Face's Llama), "interleaved" (GPT-J) or "interleaved-to-half" (DeepSeek-V3).
        truncate: False = do not round the ends of YaRN's ramp.
        short_factor, long_factor: LongRoPE's lists, [dim / 2] each.
        axis_pairs: pairs of each axis, dim / 2 in all, for several axes (M-RoPE); axes_layout: "chunked",
            "interleaved" or "axial".
        far: "clamped" (ReRoPE), "leaky" or "grouped" (Self-Extend), from far_window positions on; in attention only.
            "chunked" (Dual Chunk Attention, as released and in vLLM) or "chunked-paper": chunk_size and local_size as in
            a config.json's dual_chunk_attention_config; past original_length tokens (its
            original_max_position_embeddings) scores grow too.
        temperature: "log", "llama4" or "ministral": a factor of queries that grows with position.
        angles: "torch" = in float, as transformers gets them from PyTorch on a CPU with FMA; a PyTorch with MKL, as that of
            pip, rounds 2 of 100 cos and sin the other way.  "torch-bf16", "torch-f16" = those rounded, as a model in that
            type multiplies by them.  "vllm-bf16", "vllm-f16" = the formulas of vLLM's table, as PyTorch computes them on a
            CPU: linear scaling divides positions, not frequencies.  vLLM was not run: it makes the table on the GPU.
            "llama.cpp" = ggml's running product in float.  "tensorrt-llm" = the formulas of TensorRT-LLM's table, as NumPy
            computes them; TensorRT-LLM was not run.
        length_policy: "declared", "causal" or "prefix".
        axis_scalings: for each axis (also of one alone) None, as the options above say, or a dict of its own: scaling, also
            "riflex" or "riflex-paper" (RIFLEx, arXiv 2502.15894); base, factor, trained_length, context_length; and for
            RIFLEx intrinsic_pair, from 1, or repeats_at, the first frame that was seen to repeat.  What else a scaling has is
            one for all axes, given beside: beta_fast, beta_slow, truncate, low_freq, high_freq, proportion, mixed_exponent, and
            LongRoPE's lists, with a number for each of the dim / 2 pairs, of which an axis reads those of its own pairs.
            The attention factor is that of scaling or attention_factor; the scaling of an axis adds none.
        dype_time: DyPE (arXiv 2510.20766): 1 = pure noise ... 0 = the image.  With kappa = dype_strength (None = 2) times
            dype_time^dype_exponent (None = 2), scalings "linear" and "ntk" take factor^kappa, "by-parts" and "yarn" kappa
            times their betas, and so do "by-parts-paper" and "dynamic-yarn".  Others are refused.
        clip: clipped RoPE (arXiv 2602.05258), after any scaling: the frequencies of the last clip_pairs pairs (None = 20, as
            released) fall to 0 along half a cosine ("soft"), or are 0 ("hard").
        start_tokens: LongRoPE, past trained_length: positions below it rotate as without a scaling.  starts: "paper" (None) =
            with the attention factor of all tokens, "released" = with a factor of 1.

    Raises:
        gyre.Error: it names the field, its value and what is allowed.
    """
    given = dict(locals())
    _check_rope(given)
    axes = _of_axes(given.pop("axis_scalings"))
    given["truncate"] = not truncate  # the member is its opposite
    if axis_pairs is not None:
        axes["rope.axes"] = len(axis_pairs)
    if dype_time is not None:
        axes["rope.diffusion.timed"] = True
    return _make("rope", "rope", given, **axes)


def xpos(head_dim: int, *, xpos_base: float = 512.0, **options: Any) -> Encoding:
    """xPos (Sun 2022, arXiv 2212.10554): RoPE whose scores also decay.  Causal attention only.  options: those of rope."""
    return rope(head_dim, xpos_base=xpos_base, **options)


def nope(head_dim: int | None = None) -> Encoding:
    """No positions."""
    return _make("nope", "", {"head_dim": head_dim})


def sinusoidal(
    dim: int,
    *,
    layout: str = "interleaved",
    base: float = 10000.0,
    offset: int | None = None,
    scale: float | None = None,
    zero_padding: bool = False,
    trained_scale: bool = False,
) -> Encoding:
    """Sinusoids added at the input (Vaswani 2017, arXiv 1706.03762).

    dim: channels of the model.  layout: "interleaved", "sin-cos", "sin-cos-t2t", "cos-sin" or "cos-sin-t2t".
    offset: position m uses the sinusoid of m + offset.  zero_padding: zeros at position -1 (M2M100).
    trained_scale: times the one number of the input table (Li 2018, arXiv 1809.08895).
    """
    return _make("sinusoidal", "input", locals())


def learned(
    positions: int,
    dim: int,
    *,
    offset: int | None = None,
    scale: float | None = None,
    resized_length: int | None = None,
    hierarchy: float | None = None,
) -> Encoding:
    """A trained table added at the input (Gehring 2017, arXiv 1705.03122; GPT-2).

    positions: rows.  dim: channels of the model.  offset: position m uses row m + offset (BART, OPT, RoBERTa: 2).
    resized_length: the table is stretched over so many positions; hierarchy: alpha of Su's decomposition (kexue.fm 7947).
    """
    return _make("learned", "input", locals())


def alibi(
    heads: int,
    *,
    slopes: Sequence[float] | None = None,
    slopes_after: Sequence[float] | None = None,
    max_bias: float | None = None,
    before_scale: bool = False,
    head_dim: int | None = None,
    scaling: str | None = None,
    factor: float | None = None,
    trained_length: int | None = None,
    context_length: int | None = None,
    length_policy: str | None = None,
    length_block: int | None = None,
) -> Encoding:
    """ALiBi (Press 2021, arXiv 2108.12409): -slope[head] |m - n| on every score.

    slopes: [heads]; None = the paper's, which end at 2^-max_bias (None = 8; MPT sets it).  slopes_after: for keys after
    the query.  before_scale: slopes are divided by sqrt(head_dim), as Falcon does.

    Past the trained length: scaling "linear" divides every slope by factor (Al-Khateeb 2023, arXiv 2310.13017), "ntk" the
    flattest by it, the steepest by 1, and those between by a power (keezen/ntk_alibi, whose code is "ntk-released").
    factor: None = max(1, length in use / trained_length).  context_length, length_policy, length_block: as for rope.
    """
    if factor == 0:
        raise Error("EINVAL", "factor: is 0; None is the default", "factor")
    if factor is not None and scaling in (None, "none"):
        raise Error("EINVAL", f"factor: is {factor!r}, but scaling is {scaling!r}, which has no factor", "factor")
    given = dict(locals())
    given["slope_scaling"], given["slope_factor"] = given.pop("scaling"), given.pop("factor")
    return _make("alibi", "score", given)


def t5(heads: int, *, buckets: int = 32, max_distance: int = 128, bidirectional: bool = False) -> Encoding:
    """T5's bias (Raffel 2019, arXiv 1910.10683): a trained number for each bucket of distances.

    Its table "bias" is [buckets, heads], transformers' relative_attention_bias.weight.  bidirectional: an encoder.
    """
    return _make("t5", "score", locals())


def kerple(heads: int, *, decay: str = "log") -> Encoding:
    """KERPLE (Chi 2022, arXiv 2205.09921): a trained decay, "log" or "power".  Its table "bias" is [2, heads]: r1, r2."""
    return _make("kerple", "score", locals())


def fire(heads: int, *, hidden_units: int = 32) -> Encoding:
    """FIRE (Li 2023, arXiv 2310.04418): a small network of distance over position.  gyre.h describes the rows of "bias"."""
    return _make("fire", "score", locals())


def sandwich(heads: int, *, dim: int = 128) -> Encoding:
    """Sandwich (Chi 2022, arXiv 2212.10356): the product of two sinusoids of dim channels on every score."""
    return _make("sandwich", "score", {"heads": heads, "sinusoid_dim": dim})


def tapa(head_dim: int, *, amplitudes: int | None = None, exponent: float | None = None) -> Encoding:
    """TAPA, token-aware phase attention (Wang 2025, arXiv 2509.12635): (q_A . k_A) times the cosine of a phase.

    The phase is 2 pi |m - n|^exponent (q_P . k_P) / sqrt(phase channels).  amplitudes: channels of q_A and k_A, the first
    of a head; the others are q_P and k_P (None = half of them).  exponent: up to 2 (None = 0.1).  Nothing is trained.
    scale of attention multiplies the whole score; its default is 1 / sqrt(amplitudes).
    """
    for name, value in (("amplitudes", amplitudes), ("exponent", exponent)):
        if value == 0:
            raise Error("EINVAL", f"{name}: is 0; None is the default", name)
    return _make("tapa", "score", {"head_dim": head_dim, "amplitudes": amplitudes, "exponent": exponent})


def shaw(
    head_dim: int, *, max_distance: int, heads: int | None = None, terms: Iterable[str] = ("query", "value")
) -> Encoding:
    """Shaw's vectors (Shaw 2018, arXiv 1803.02155) for distances clipped to max_distance.

    Tables "query" (the paper's keys, which are multiplied with queries) and "value", [2 max_distance + 1, head_dim].
    """
    return _make("shaw", "score", {**locals(), "terms": _terms(terms)})


def nezha(
    head_dim: int, *, max_distance: int = 64, heads: int | None = None, terms: Iterable[str] = ("query", "value")
) -> Encoding:
    """NeZha (Wei 2019, arXiv 1909.00204): Shaw's two terms with a fixed sinusoid."""
    return _make("nezha", "score", {**locals(), "terms": _terms(terms)})


def bert(head_dim: int, *, max_positions: int, terms: Iterable[str] = ("query",), heads: int | None = None) -> Encoding:
    """BERT's relative keys ("relative_key" in transformers; with terms ("query", "key") "relative_key_query").

    Tables "query" and, with that term, "key", which are one memory: [2 max_positions - 1, head_dim].
    """
    return _make("bert", "score", {**locals(), "terms": _terms(terms)})


def deberta(
    head_dim: int,
    heads: int,
    *,
    max_distance: int,
    position_buckets: int | None = None,
    terms: Iterable[str] = ("query", "key"),
) -> Encoding:
    """DeBERTa (He 2020, arXiv 2006.03654; v3: 2111.09543): content to position ("query") and back ("key").

    max_distance: distances of this and more count as one.  position_buckets: log buckets on each side (v2, v3).
    """
    return _make("deberta", "score", {**locals(), "terms": _terms(terms)})


def transformer_xl(head_dim: int, heads: int, *, max_distance: int, bidirectional: bool = False) -> Encoding:
    """Transformer-XL (Dai 2019, arXiv 1901.02860): (q + u) . k + (q + v) . r.

    max_distance: clamp_len.  Tables "query" (r, projected by the caller), "content_bias" (u) and "position_bias" (v).
    """
    return _make("transformer-xl", "score", locals())
