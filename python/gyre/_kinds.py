"""A function for each kind of encoding.  None means the default of gyre.h everywhere, and so does zero, unless it is refused."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from gyre._encoding import Encoding
from gyre._errors import Error
from gyre._options import FIELDS, default_of, encoding_of, function, members_of, option_of
from gyre._scalings import Scaling


def _terms(terms: Iterable[str]) -> int:
    values = FIELDS["score.terms"]["numbers"]
    given = [terms] if isinstance(terms, str) else list(terms)
    for term in given:
        if term not in values:
            raise Error("EINVAL", f"terms: holds {term!r}, not {' or '.join(map(repr, values))}", "terms")
    return sum({values[term] for term in given})


def _scalings_of_axes(given: dict[str, Any]) -> list[str]:
    """The scalings in use: each axis has its own or that of rope."""
    pairs = given["axis_pairs"]
    axes = 1 if pairs is None else len(pairs)
    own = (given["axis_scalings"] or [])[:axes]
    scalings = [given["scaling"] if one is None else one.get("scaling", "none") for one in own]
    return scalings + [given["scaling"]] * (axes - len(own))


def _check_dype(given: dict[str, Any], scalings: list[str]) -> None:
    time = given["dype_time"]
    if time is None and (given["dype_strength"] is not None or given["dype_exponent"] is not None):
        raise Error("EINVAL", "dype_time: is None, but dype_strength or dype_exponent is set", "dype_time")
    faded = FIELDS["rope.diffusion.timed"]["values"]
    if time is not None and not any(scaling in faded for scaling in scalings):
        names = ", ".join(repr(scaling) for scaling in dict.fromkeys(scalings))
        text = f"dype_time: is {time!r}, but no axis is scaled by one of {', '.join(faded)}, which DyPE fades: {names}"
        raise Error("EINVAL", text, "dype_time")


def _check_rope(given: dict[str, Any]) -> None:
    """Refuses options that would change nothing, and zeros, which gyre.h takes for its defaults."""
    scalings = _scalings_of_axes(given)
    _check_dype(given, scalings)
    for name, value in given.items():
        field = FIELDS.get(_ROPE.get(name, ""), _NO_FIELD)
        zero = isinstance(value, (int, float)) and not isinstance(value, bool) and value == 0
        if zero and (field["not_zero"] or field["standard"]):
            raise Error("EINVAL", f"{name}: is {value!r}; None is the default", name)
        by, values = field["when"], field["values"]
        if value is None or by == "rope.diffusion.timed" or (name == "truncate" and value):
            continue
        decider = option_of(by) if by else ""
        of_axes = field["of_axes"] and any(one in values for one in scalings)
        known = not isinstance(given.get(decider), str) or not by or given[decider] in FIELDS[by]["names"]
        if by and known and not of_axes and given.get(decider) not in values:
            text = f"{name}: is {value!r}, but {decider} is {given[decider]!r}, which has no {name}"
            raise Error("EINVAL", text, name)
    if given["xpos_center"] is not None and given["xpos_base"] is None:
        raise Error("EINVAL", f"xpos_center: is {given['xpos_center']!r}, but xpos_base is None", "xpos_center")
    if given["starts"] is not None and not given["start_tokens"]:
        raise Error("EINVAL", f"starts: is {given['starts']!r}, but there are no start_tokens", "starts")


_OF_AXIS = tuple(name.rpartition(".")[2] for name in FIELDS if name.startswith("rope.axis[0].") and not name.endswith(".own"))


def _of_axes(scalings: Sequence[Mapping[str, Any] | None]) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for i, own in enumerate(scalings):
        if own is None:
            continue
        fields[f"rope.axis[{i}].own"] = True
        for name, value in own.items():
            if FIELDS.get(_ROPE.get(name, ""), _NO_FIELD)["of_axes"]:
                text = f"axis_scalings: [{i}] has {name!r}, which all axes share: it is an option of rope"
                raise Error("EINVAL", text, "axis_scalings")
            if name not in _OF_AXIS:
                raise Error("EINVAL", f"axis_scalings: [{i}] has {name!r}, which is not one of {', '.join(_OF_AXIS)}", "axis_scalings")
            fields[f"rope.axis[{i}].{name}"] = value
    if len(scalings) > 4:
        raise Error("EINVAL", f"axis_scalings: has {len(scalings)} axes, and 4 is the most", "axis_scalings")
    return fields


def _merge(given: dict[str, Any]) -> None:
    """An object of a scaling becomes its name and its options."""
    scaling = given["scaling"]
    if isinstance(scaling, Scaling):
        for name, value in scaling.options.items():
            if name not in given:
                raise Error("EINVAL", f"scaling: is {scaling!r}, which an axis alone has: see axis_scalings", "scaling")
            if given[name] not in (None, default_of(_ROPE[name])):
                raise Error("EINVAL", f"{name}: is {given[name]!r}, but scaling, {scaling!r}, has it too", name)
            given[name] = value
        given["scaling"] = scaling.name
    axes = given["axis_scalings"]
    own = [{"scaling": one.name, **one.options} if isinstance(one, Scaling) else one for one in axes or ()]
    given["axis_scalings"] = None if axes is None else own


def _build_rope(given: dict[str, Any]) -> Encoding:
    _merge(given)
    _check_rope(given)
    pairs = given.pop("axis_pairs")
    axes = _of_axes(given.pop("axis_scalings") or ())
    given["truncate"] = not given["truncate"]  # the member is its opposite
    if pairs is not None:
        axes |= {"rope.axes": len(pairs), "rope.axis_pairs": pairs}
    if given["dype_time"] is not None:
        axes["rope.diffusion.timed"] = True
    return encoding_of("rope", _ROPE, given, **axes)


_ROPE = members_of(
    "rope",
    ["head_dim"],
    place="rope",
    more=["trained_length", "query.temperature", "query.reference_length", "query.slope"],
    without=["rope.axes", "rope.diffusion.timed"],
)
_NO_FIELD = {"standard": 0, "when": None, "values": (), "of_axes": False, "not_zero": False}
rope = function(
    "rope",
    """RoPE (Su 2021, arXiv 2104.09864) with any scaling.

Args:
    head_dim: channels of a head.  dim of them rotate (None = all), from first_channel on.
    base: theta[i] = base^(-2 i / dim) radians a position.
    scaling: an object such as gyre.Yarn(factor=4, trained_length=8192), or its name beside the options of it.
    factor: s.  trained_length: L, in tokens.  context_length: the length in use, None = L.
    layout: "half" (Hugging Face's Llama), "interleaved" (GPT-J) or "interleaved-to-half" (DeepSeek-V3).
    truncate: False = do not round the ends of YaRN's ramp.
    short_factor, long_factor: LongRoPE's lists, [dim / 2] each.
    frequencies: theta[i] itself, [dim / 2], of a model whose frequencies follow no base.  base is not used then, and
        scalings that are defined by one (NTK, YaRN, by parts) are refused.
    axis_pairs: pairs of each axis, dim / 2 in all, for several axes (M-RoPE); axes_layout: "chunked",
        "interleaved" or "axial".
    far: "clamped" (ReRoPE), "leaky" or "grouped" (Self-Extend), from far_window positions on; in attention only.
        "chunked" (Dual Chunk Attention, as released and in vLLM) or "chunked-paper": chunk_size and local_size as in
        a config.json's dual_chunk_attention_config; past original_length tokens (its
        original_max_position_embeddings) scores grow too.
    temperature: "log", "llama4", "ministral" or "inkling": a factor of queries that grows with position.
    angles: "torch" = in float, as transformers gets them from PyTorch on a CPU with FMA; a PyTorch with MKL, as that of
        pip, rounds 2 of 100 cos and sin the other way.  "torch-bf16", "torch-f16" = those rounded, as a model in that
        type multiplies by them.  "vllm-bf16", "vllm-f16" = the formulas of vLLM's table, as PyTorch computes them on a
        CPU: linear scaling divides positions, not frequencies.  vLLM was not run: it makes the table on the GPU.
        "llama.cpp" = ggml's running product in float.  "tensorrt-llm" = the formulas of TensorRT-LLM's table, as NumPy
        computes them; TensorRT-LLM was not run.
    length_policy: "declared", "causal" or "prefix".
    axis_scalings: for each axis (also of one alone) None, as the options above say, an object such as
        gyre.Riflex(factor=2, repeats_at=9), or a dict: scaling, also "riflex" or
        "riflex-paper"; base, factor, trained_length, context_length; and for RIFLEx intrinsic_pair, from 1, or repeats_at,
        the first frame that was seen to repeat.  What else a scaling has is
        one for all axes, given beside: beta_fast, beta_slow, truncate, low_freq, high_freq, proportion, mixed_exponent, and
        LongRoPE's lists, with a number for each of the dim / 2 pairs, of which an axis reads those of its pairs.
        The attention factor is that of scaling or attention_factor; the scaling of an axis adds none.
    dype_time: DyPE (arXiv 2510.20766): 1 = pure noise ... 0 = the image.  With kappa = dype_strength (None = 2) times
        dype_time^dype_exponent (None = 2), scalings "linear" and "ntk" take factor^kappa, "by-parts" and "yarn" kappa
        times their betas, and so do "by-parts-paper" and "dynamic-yarn".  Others are refused.
    clip: clipped RoPE (arXiv 2602.05258), after any scaling: the frequencies of the last clip_pairs pairs (None = 20, as
        released) fall to 0 along half a cosine ("soft"), or are 0 ("hard").
    start_tokens: LongRoPE, past trained_length: positions below it rotate as without a scaling.  starts: "paper" (None) =
        with the attention factor of all tokens, "released" = with a factor of 1.

Raises:
    gyre.Error: it names the field, its value and what is allowed.""",
    _ROPE,
    others={
        "scaling": "str | Scaling",
        "axis_pairs": "Sequence[int] | None",
        "axis_scalings": "Sequence[Scaling | Mapping[str, Any] | None] | None",
    },
    build=_build_rope,
)


def xpos(head_dim: int, *, xpos_base: float = 512.0, **options: Any) -> Encoding:
    """xPos (Sun 2022, arXiv 2212.10554): RoPE whose scores also decay.  Causal attention only.  options: those of rope."""
    return rope(head_dim, xpos_base=xpos_base, **options)


nope = function("nope", "No positions.", members_of("nope", ["head_dim"]), defaults={"head_dim": None})
sinusoidal = function(
    "sinusoidal",
    """Sinusoids added at the input (Vaswani 2017, arXiv 1706.03762).

dim: channels of the model.  offset: position m uses the sinusoid of m + offset.  zero_padding: zeros at position -1 (M2M100).
trained_scale: times the one number of the input table (Li 2018, arXiv 1809.08895).""",
    members_of("sinusoidal", ["dim"], place="input"),
)
learned = function(
    "learned",
    """A trained table added at the input (Gehring 2017, arXiv 1705.03122; GPT-2).

positions: rows.  dim: channels of the model.  offset: position m uses row m + offset (BART, OPT, RoBERTa: 2).
resized_length: the table is stretched over so many positions; hierarchy: alpha of Su's decomposition (kexue.fm 7947).""",
    members_of("learned", ["positions", "dim"], place="input"),
    by_place=2,
)


def _refuse_zero(given: Mapping[str, Any], *names: str) -> None:
    for name in names:
        if given[name] == 0:
            raise Error("EINVAL", f"{name}: is 0; None is the default", name)


def _build_alibi(given: dict[str, Any]) -> Encoding:
    _refuse_zero(given, "factor")
    if given["factor"] is not None and given["scaling"] in (None, "none"):
        text = f"factor: is {given['factor']!r}, but scaling is {given['scaling']!r}, which has no factor"
        raise Error("EINVAL", text, "factor")
    return encoding_of("alibi", _ALIBI, given)


_ALIBI = members_of(
    "alibi",
    ["heads"],
    more=["trained_length", "head_dim"],
    renamed={"scaling": "score.slope_scaling", "factor": "score.slope_factor"},
)
alibi = function(
    "alibi",
    """ALiBi (Press 2021, arXiv 2108.12409): -slope[head] |m - n| on every score.

slopes: [heads]; None = the paper's, which end at 2^-max_bias (8; MPT sets it).  slopes_after: for keys after the query.
before_scale: slopes are divided by sqrt(head_dim), as Falcon does.

Past the trained length: scaling "linear" divides every slope by factor (Al-Khateeb 2023, arXiv 2310.13017), "ntk" the
flattest by it, the steepest by 1, and those between by a power (keezen/ntk_alibi, whose code is "ntk-released").
factor: None = max(1, length in use / trained_length).  context_length, length_policy, length_block: as for rope.""",
    _ALIBI,
    build=_build_alibi,
)
t5 = function(
    "t5",
    """T5's bias (Raffel 2019, arXiv 1910.10683): a trained number for each bucket of distances.

Its table "bias" is [buckets, heads], transformers' relative_attention_bias.weight.  bidirectional: an encoder.""",
    members_of("t5", ["heads"]),
    defaults={"buckets": 32, "max_distance": 128},
)
kerple = function(
    "kerple",
    "KERPLE (Chi 2022, arXiv 2205.09921): a trained decay with distance.  Its table \"bias\" is [2, heads]: r1, r2.",
    members_of("kerple", ["heads"]),
)
fire = function(
    "fire",
    "FIRE (Li 2023, arXiv 2310.04418): a small network of distance over position.  gyre.h describes the rows of \"bias\".",
    members_of("fire", ["heads"]),
    defaults={"hidden_units": 32},
)
sandwich = function(
    "sandwich",
    "Sandwich (Chi 2022, arXiv 2212.10356): the product of two sinusoids of dim channels on every score.",
    members_of("sandwich", ["heads"], renamed={"dim": "score.sinusoid_dim"}),
    defaults={"dim": 128},
)


def _build_tapa(given: dict[str, Any]) -> Encoding:
    _refuse_zero(given, "amplitudes", "exponent")
    return encoding_of("tapa", _TAPA, given)


_TAPA = members_of("tapa", ["head_dim"])
tapa = function(
    "tapa",
    """TAPA, token-aware phase attention (Wang 2025, arXiv 2509.12635): (q_A . k_A) times the cosine of a phase.

The phase is 2 pi |m - n|^exponent (q_P . k_P) / sqrt(phase channels).  amplitudes: channels of q_A and k_A, the first of a
head; the others are q_P and k_P (None = half of them).  Nothing is trained.  scale of attention multiplies the whole score;
its default is 1 / sqrt(amplitudes).""",
    _TAPA,
    build=_build_tapa,
)


def _of_vectors(
    kind: str,
    text: str,
    *needed: str,
    terms: Sequence[str] | None,
    by_place: int = 1,
    distance: int | None = None,
    more: Sequence[str] = (),
) -> Callable[..., Encoding]:
    """A scheme with trained or fixed vectors of distances.  needed: the first `by_place` by place, the rest by name."""
    heads = [] if "heads" in needed else ["heads"]
    first, members = needed[:by_place], members_of(kind, needed[:by_place], more=[*heads, *more])
    given = {"heads": None, "terms": terms} | ({} if distance is None else {"max_distance": distance})
    of = {name: value for name, value in given.items() if name in members and name not in first}

    def build(options: dict[str, Any]) -> Encoding:
        chosen = {} if terms is None else {"terms": _terms(options["terms"])}
        return encoding_of(kind, members, options | chosen)

    return function(kind, text, members, by_place=by_place, required=needed[by_place:], defaults=of, build=build)


shaw = _of_vectors(
    "shaw",
    """Shaw's vectors (Shaw 2018, arXiv 1803.02155) for distances clipped to max_distance.

Tables "query" (the paper's keys, which are multiplied with queries) and "value", [2 max_distance + 1, head_dim].""",
    "head_dim",
    "max_distance",
    terms=("query", "value"),
)
multiplicative = _of_vectors(
    "multiplicative",
    """The product of three vectors (Huang 2020, arXiv 2009.13658, method 3): q, k and a trained one of their distance.

The score is scale sum over channels of q k A[r], r the distance clipped to max_distance.  Its table "query" is A,
[2 max_distance + 1, head_dim]; all ones leave q . k.""",
    "head_dim",
    "max_distance",
    terms=None,
)
inkling = _of_vectors(
    "inkling",
    """Inkling's relative bias: a vector that the query's token makes, times a trained one of their distance.

The last relative_channels of the head_dim channels of queries are that vector, r.  Its table "query" is P,
[max_distance, relative_channels], and the score scale t q . k + t r . P[m - n], without P at other distances.  t is the
temperature, "inkling" in its layers without a window.  Keys have the other channels alone, or head_dim, and the rest is
not read.  The default scale is 1 / sqrt(head_dim - relative_channels).""",
    "head_dim",
    terms=None,
    distance=1024,
    more=("query.temperature", "query.reference_length", "query.slope"),
)
nezha = _of_vectors(
    "nezha",
    "NeZha (Wei 2019, arXiv 1909.00204): Shaw's two terms with a fixed sinusoid.",
    "head_dim",
    terms=("query", "value"),
    distance=64,
)
bert = _of_vectors(
    "bert",
    """BERT's relative keys ("relative_key" in transformers; with terms ("query", "key") "relative_key_query").

Tables "query" and, with that term, "key", which are one memory: [2 max_positions - 1, head_dim].""",
    "head_dim",
    "max_positions",
    terms=("query",),
)
deberta = _of_vectors(
    "deberta",
    """DeBERTa (He 2020, arXiv 2006.03654; v3: 2111.09543): content to position ("query") and back ("key").

max_distance: distances of this and more count as one.  position_buckets: log buckets on each side (v2, v3).""",
    "head_dim",
    "heads",
    "max_distance",
    terms=("query", "key"),
    by_place=2,
)
transformer_xl = _of_vectors(
    "transformer-xl",
    """Transformer-XL (Dai 2019, arXiv 1901.02860): (q + u) . k + (q + v) . r.

max_distance: clamp_len.  Tables "query" (r, projected by the caller), "content_bias" (u) and "position_bias" (v).""",
    "head_dim",
    "heads",
    "max_distance",
    terms=None,
    by_place=2,
)
