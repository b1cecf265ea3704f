# Written by scripts/python-stubs from config.def and _kinds.py.
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from gyre._encoding import Encoding
from gyre._scalings import Scaling

def rope(
    head_dim: int,
    *,
    context_length: int | None = None,
    length_policy: str = "declared",
    length_block: int | None = None,
    dim: int | None = None,
    first_channel: int | None = None,
    layout: str = "half",
    clockwise: bool = False,
    scaling: str | Scaling = "none",
    table_positions: int | None = None,
    base: float = 10000.0,
    factor: float | None = None,
    attention_factor: float | None = None,
    mscale: float | None = None,
    mscale_all_dim: float | None = None,
    beta_fast: float | None = None,
    beta_slow: float | None = None,
    low_freq: float | None = None,
    high_freq: float | None = None,
    proportion: float | None = None,
    mixed_exponent: float | None = None,
    resonance: bool = False,
    truncate: bool = True,
    short_factor: Sequence[float] | None = None,
    long_factor: Sequence[float] | None = None,
    frequencies: Sequence[float] | None = None,
    xpos_base: float | None = None,
    xpos_center: int | None = None,
    axes_layout: str = "chunked",
    far: str = "as-near",
    far_window: int | None = None,
    far_factor: float | None = None,
    angles: str = "exact",
    dype_time: float | None = None,
    dype_strength: float | None = None,
    dype_exponent: float | None = None,
    chunk_size: int | None = None,
    local_size: int | None = None,
    original_length: int | None = None,
    clip: str = "none",
    clip_pairs: int | None = None,
    start_tokens: int | None = None,
    starts: str | None = None,
    trained_length: int | None = None,
    temperature: str = "none",
    reference_length: int | None = None,
    slope: float | None = None,
    axis_pairs: Sequence[int] | None = None,
    axis_scalings: Sequence[Scaling | Mapping[str, Any] | None] | None = None,
) -> Encoding:
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
        gyre.Error: it names the field, its value and what is allowed.

    Values:
        head_dim: a whole number
        context_length: a whole number
        length_policy: "declared", "causal", "prefix"
        length_block: a whole number, with length_policy "causal"; None = 64
        dim: a whole number
        first_channel: a whole number
        layout: "half", "interleaved", "interleaved-to-half"
        clockwise: True or False
        scaling: "none", "linear", "ntk", "dynamic", "by-parts", "by-parts-paper", "yarn", "llama3", "longrope", "proportional", "ntk-mixed", "dynamic-yarn", "riflex", "riflex-paper"
        table_positions: a whole number from -1 to 2^31
        base: a number above 1 on
        factor: a number from 1 on, with scaling "linear" or "ntk" or "dynamic" or "by-parts" or "by-parts-paper" or "yarn" or "llama3" or "longrope" or "proportional" or "ntk-mixed" or "riflex" or "riflex-paper"; None = 1
        attention_factor: a number from 0 on
        mscale: a number from 0 on, with scaling "yarn" or "dynamic-yarn"
        mscale_all_dim: a number from 0 on, with scaling "yarn" or "dynamic-yarn"
        beta_fast: a number from 0 on, with scaling "by-parts" or "by-parts-paper" or "yarn" or "dynamic-yarn"; None = 32
        beta_slow: a number from 0 on, with scaling "by-parts" or "by-parts-paper" or "yarn" or "dynamic-yarn"; None = 1
        low_freq: a number from 0 on, with scaling "llama3"; None = 1
        high_freq: a number from 0 on, with scaling "llama3"; None = 4
        proportion: a number from 0 to 1, with scaling "proportional"; None = 1
        mixed_exponent: a number from 0 on, with scaling "ntk-mixed"; None = 0.625
        resonance: True or False
        truncate: True or False, with scaling "by-parts" or "by-parts-paper" or "yarn" or "dynamic-yarn"
        short_factor: a list of numbers from 2^-10 on, with scaling "longrope"
        long_factor: a list of numbers from 2^-10 on, with scaling "longrope"
        frequencies: a list of numbers from 0 to 1024
        xpos_base: a number from 4 on
        xpos_center: a whole number from -2^31 to 2^31
        axes_layout: "chunked", "interleaved", "axial"
        far: "as-near", "clamped", "leaky", "grouped", "chunked", "chunked-paper"
        far_window: a whole number, with far "clamped" or "leaky" or "grouped"
        far_factor: a number from 2^-10 to 2^32, with far "leaky" or "grouped"
        angles: "exact", "torch", "torch-bf16", "torch-f16", "llama.cpp", "tensorrt-llm", "vllm-bf16", "vllm-f16"
        dype_time: a number from 0 to 1
        dype_strength: a number from 0 to 64; None = 2
        dype_exponent: a number from 0 on; None = 2
        chunk_size: a whole number, with far "chunked" or "chunked-paper"
        local_size: a whole number, with far "chunked" or "chunked-paper"
        original_length: a whole number, with far "chunked" or "chunked-paper"
        clip: "none", "soft", "hard"
        clip_pairs: a whole number, with clip "soft" or "hard"; None = 20
        start_tokens: a whole number, with scaling "longrope"
        starts: "paper", "released", with scaling "longrope"
        trained_length: a whole number
        temperature: "none", "log", "llama4", "ministral", "inkling"
        reference_length: a whole number, with temperature "log" or "llama4" or "ministral" or "inkling"
        slope: a number from 0 to 2^32, with temperature "llama4" or "ministral" or "inkling"; None = 0.1
    """
def xpos(head_dim: int, *, xpos_base: float = 512.0, **options: Any) -> Encoding:
    """xPos (Sun 2022, arXiv 2212.10554): RoPE whose scores also decay.  Causal attention only.  options: those of rope."""
def nope(head_dim: int | None = None) -> Encoding:
    """No positions.

    Values:
        head_dim: a whole number
    """
def sinusoidal(
    dim: int,
    *,
    offset: int | None = None,
    zero_padding: bool = False,
    scale: float = 1.0,
    trained_scale: bool = False,
    base: float = 10000.0,
    layout: str = "interleaved",
) -> Encoding:
    """Sinusoids added at the input (Vaswani 2017, arXiv 1706.03762).

    dim: channels of the model.  offset: position m uses the sinusoid of m + offset.  zero_padding: zeros at position -1 (M2M100).
    trained_scale: times the one number of the input table (Li 2018, arXiv 1809.08895).

    Values:
        dim: a whole number
        offset: a whole number
        zero_padding: True or False
        scale: a number from -2^64 to 2^64
        trained_scale: True or False
        base: a number above 1 on
        layout: "interleaved", "sin-cos", "sin-cos-t2t", "cos-sin", "cos-sin-t2t"
    """
def learned(
    positions: int,
    dim: int,
    *,
    resized_length: int | None = None,
    hierarchy: float | None = None,
    offset: int | None = None,
    scale: float = 1.0,
) -> Encoding:
    """A trained table added at the input (Gehring 2017, arXiv 1705.03122; GPT-2).

    positions: rows.  dim: channels of the model.  offset: position m uses row m + offset (BART, OPT, RoBERTa: 2).
    resized_length: the table is stretched over so many positions; hierarchy: alpha of Su's decomposition (kexue.fm 7947).

    Values:
        positions: a whole number
        dim: a whole number
        resized_length: a whole number
        hierarchy: a number
        offset: a whole number
        scale: a number from -2^64 to 2^64
    """
def alibi(
    heads: int,
    *,
    scaling: str = "none",
    factor: float | None = None,
    context_length: int | None = None,
    length_policy: str = "declared",
    length_block: int | None = None,
    slopes: Sequence[float] | None = None,
    slopes_after: Sequence[float] | None = None,
    max_bias: float = 8.0,
    before_scale: bool = False,
    trained_length: int | None = None,
    head_dim: int | None = None,
) -> Encoding:
    """ALiBi (Press 2021, arXiv 2108.12409): -slope[head] |m - n| on every score.

    slopes: [heads]; None = the paper's, which end at 2^-max_bias (8; MPT sets it).  slopes_after: for keys after the query.
    before_scale: slopes are divided by sqrt(head_dim), as Falcon does.

    Past the trained length: scaling "linear" divides every slope by factor (Al-Khateeb 2023, arXiv 2310.13017), "ntk" the
    flattest by it, the steepest by 1, and those between by a power (keezen/ntk_alibi, whose code is "ntk-released").
    factor: None = max(1, length in use / trained_length).  context_length, length_policy, length_block: as for rope.

    Values:
        heads: a whole number
        scaling: "none", "linear", "ntk", "ntk-released"
        factor: a number from 1 to 2^64, with slope_scaling "linear" or "ntk" or "ntk-released"
        context_length: a whole number
        length_policy: "declared", "causal", "prefix"
        length_block: a whole number, with length_policy "causal"; None = 64
        slopes: a list of numbers from -2^64 to 2^64
        slopes_after: a list of numbers from -2^64 to 2^64
        max_bias: a number from 0 on
        before_scale: True or False
        trained_length: a whole number
        head_dim: a whole number
    """
def t5(heads: int, *, buckets: int = 32, max_distance: int = 128, bidirectional: bool = False) -> Encoding:
    """T5's bias (Raffel 2019, arXiv 1910.10683): a trained number for each bucket of distances.

    Its table "bias" is [buckets, heads], transformers' relative_attention_bias.weight.  bidirectional: an encoder.

    Values:
        heads: a whole number
        buckets: a whole number
        max_distance: a whole number
        bidirectional: True or False
    """
def kerple(heads: int, *, decay: str = "log") -> Encoding:
    """KERPLE (Chi 2022, arXiv 2205.09921): a trained decay with distance.  Its table "bias" is [2, heads]: r1, r2.

    Values:
        heads: a whole number
        decay: "log", "power"
    """
def fire(heads: int, *, hidden_units: int = 32) -> Encoding:
    """FIRE (Li 2023, arXiv 2310.04418): a small network of distance over position.  gyre.h describes the rows of "bias".

    Values:
        heads: a whole number
        hidden_units: a whole number
    """
def sandwich(heads: int, *, dim: int = 128) -> Encoding:
    """Sandwich (Chi 2022, arXiv 2212.10356): the product of two sinusoids of dim channels on every score.

    Values:
        heads: a whole number
        dim: a whole number
    """
def tapa(head_dim: int, *, amplitudes: int | None = None, exponent: float = 0.1) -> Encoding:
    """TAPA, token-aware phase attention (Wang 2025, arXiv 2509.12635): (q_A . k_A) times the cosine of a phase.

    The phase is 2 pi |m - n|^exponent (q_P . k_P) / sqrt(phase channels).  amplitudes: channels of q_A and k_A, the first of a
    head; the others are q_P and k_P (None = half of them).  Nothing is trained.  scale of attention multiplies the whole score;
    its default is 1 / sqrt(amplitudes).

    Values:
        head_dim: a whole number
        amplitudes: a whole number
        exponent: a number from 0 to 2
    """
def shaw(
    head_dim: int,
    *,
    max_distance: int,
    terms: Iterable[str] = ('query', 'value'),
    heads: int | None = None,
) -> Encoding:
    """Shaw's vectors (Shaw 2018, arXiv 1803.02155) for distances clipped to max_distance.

    Tables "query" (the paper's keys, which are multiplied with queries) and "value", [2 max_distance + 1, head_dim].

    Values:
        head_dim: a whole number
        max_distance: a whole number
        terms: a set of terms
        heads: a whole number
    """
def multiplicative(head_dim: int, *, max_distance: int, heads: int | None = None) -> Encoding:
    """The product of three vectors (Huang 2020, arXiv 2009.13658, method 3): q, k and a trained one of their distance.

    The score is scale sum over channels of q k A[r], r the distance clipped to max_distance.  Its table "query" is A,
    [2 max_distance + 1, head_dim]; all ones leave q . k.

    Values:
        head_dim: a whole number
        max_distance: a whole number
        heads: a whole number
    """
def inkling(
    head_dim: int,
    *,
    max_distance: int = 1024,
    relative_channels: int | None = None,
    heads: int | None = None,
    temperature: str = "none",
    reference_length: int | None = None,
    slope: float | None = None,
) -> Encoding:
    """Inkling's relative bias: a vector that the query's token makes, times a trained one of their distance.

    The last relative_channels of the head_dim channels of queries are that vector, r.  Its table "query" is P,
    [max_distance, relative_channels], and the score scale t q . k + t r . P[m - n], without P at other distances.  t is the
    temperature, "inkling" in its layers without a window.  Keys have the other channels alone, or head_dim, and the rest is
    not read.  The default scale is 1 / sqrt(head_dim - relative_channels).

    Values:
        head_dim: a whole number
        max_distance: a whole number
        relative_channels: a whole number
        heads: a whole number
        temperature: "none", "log", "llama4", "ministral", "inkling"
        reference_length: a whole number, with temperature "log" or "llama4" or "ministral" or "inkling"
        slope: a number from 0 to 2^32, with temperature "llama4" or "ministral" or "inkling"; None = 0.1
    """
def nezha(
    head_dim: int,
    *,
    max_distance: int = 64,
    terms: Iterable[str] = ('query', 'value'),
    heads: int | None = None,
) -> Encoding:
    """NeZha (Wei 2019, arXiv 1909.00204): Shaw's two terms with a fixed sinusoid.

    Values:
        head_dim: a whole number
        max_distance: a whole number
        terms: a set of terms
        heads: a whole number
    """
def bert(head_dim: int, *, max_positions: int, terms: Iterable[str] = ('query',), heads: int | None = None) -> Encoding:
    """BERT's relative keys ("relative_key" in transformers; with terms ("query", "key") "relative_key_query").

    Tables "query" and, with that term, "key", which are one memory: [2 max_positions - 1, head_dim].

    Values:
        head_dim: a whole number
        max_positions: a whole number
        terms: a set of terms
        heads: a whole number
    """
def deberta(
    head_dim: int,
    heads: int,
    *,
    max_distance: int,
    position_buckets: int | None = None,
    terms: Iterable[str] = ('query', 'key'),
) -> Encoding:
    """DeBERTa (He 2020, arXiv 2006.03654; v3: 2111.09543): content to position ("query") and back ("key").

    max_distance: distances of this and more count as one.  position_buckets: log buckets on each side (v2, v3).

    Values:
        head_dim: a whole number
        heads: a whole number
        max_distance: a whole number
        position_buckets: a whole number
        terms: a set of terms
    """
def transformer_xl(head_dim: int, heads: int, *, max_distance: int, bidirectional: bool = False) -> Encoding:
    """Transformer-XL (Dai 2019, arXiv 1901.02860): (q + u) . k + (q + v) . r.

    max_distance: clamp_len.  Tables "query" (r, projected by the caller), "content_bias" (u) and "position_bias" (v).

    Values:
        head_dim: a whole number
        heads: a whole number
        max_distance: a whole number
        bidirectional: True or False
    """
