"""Compares the rotary modules of transformers with what `gyre explain` says of the same config.json."""

import math

import numpy as np
import transformers

from judges import rotary_modules as rm
from judges.gyre_command import field

VERSION = tuple(int(part) for part in transformers.__version__.split(".")[:2])
PROFILES = [((5, 0), "hf-5"), ((4, 56), "hf-4.56"), ((4, 55), "hf-4.55"), ((4, 51), "hf-4.51"), ((4, 43), "hf-4.43")]
PROFILE = next(name for first, name in PROFILES if VERSION >= first)
POSITIONS = [[0, 1, 4095], [131071]]  # two runs: some scalings look at the greatest position
EPS = 2.0**-24  # half a unit in the last place of float32, relative


def frequency_bound(group):
    """Relative bound of float32 frequencies against exact ones.

    base ** (i / dim) in float32: rounding the exponent costs ln(base) roundings, the power, the reciprocal, the division by
    a factor and the final rounding 6 more.  A blend of kept and divided frequencies takes its weight from a float32 as well,
    and an error of the weight is multiplied by the ratio of the two, the factor.
    """
    scaling = group["scaling"]
    blend = 1.0
    if scaling["type"] in ("yarn", "llama3"):
        blend += 4.0 * scaling["factor"]
    return EPS * (math.log(group["base"]) + 6.0) * blend


def axis_of_pairs(group, pairs):
    """Which axis each pair turns by: docs/encodings.md, "Pairs and axes"."""
    layout = field(group, "axes_layout")
    if layout is None:
        return np.zeros(pairs, dtype=int)
    sections = [int(n) for n in field(group, "sections").split()]
    if layout == "chunked":
        return np.repeat(np.arange(len(sections)), sections)
    assert layout == "interleaved"
    axis = np.zeros(pairs, dtype=int)
    for a in (1, 2):
        axis[a : 3 * sections[a] : 3] = a
    return axis


def is_beside(group):
    """Whether a group is not of the decoder's attention: a tower, an indexer, layers that predict further tokens."""
    return group["name"] == "vision" or group["name"].startswith(("indexer", "mtp"))


def module_for(rotaries, group):
    """(Rotary, layer type) that serve a group of layers."""
    text = [r for r in rotaries if not r.is_tower]
    sliding = "sliding" in group["name"] or bool(group["window"])
    for rotary in text:
        types = rm.layer_types_of(rotary.module)
        for name in types:  # "sliding_attention_2": layers of this type that differ in their windows
            if name is not None and group["name"].startswith(name):
                return rotary, name
        if set(types) == {"main", "compress"}:  # DeepSeek-V4
            return rotary, "main" if group["name"] == "sliding_attention" else "compress"
    named = [r for r in text if r.path.endswith(group["name"])]
    local = [r for r in text if "local" in r.path.split(".")[-1]]
    if named:
        return named[0], None
    if local:
        return (local[0] if sliding else next(r for r in text if r not in local)), None
    if len(text) > 1 and hasattr(text[0].module, "config"):  # ModernBERT 4.x: one module a layer, with its own base
        of_base = [r for r in text if getattr(r.module.config, "rope_theta", None) == group["base"]]
        return (of_base or text)[0], None
    return (text[0], rm.layer_types_of(text[0].module)[0]) if text else (None, None)


def expected_rotation(group, x, cos, sin):
    """x [n, rotary channels] rotated as the group's layout says, in float64."""
    half = x.shape[1] // 2
    first, second = (x[:, :half], x[:, half:]) if group["layout"] == "half" else (x[:, 0::2], x[:, 1::2])
    a, b = first * cos - second * sin, first * sin + second * cos
    out = np.empty_like(x)
    if group["layout"] == "interleaved":
        out[:, 0::2], out[:, 1::2] = a, b
    else:
        out[:, :half], out[:, half:] = a, b
    return out


def compare_group(groups, rotary, layer_type, model, config):
    """Compares one group at both sets of positions; groups: the group as read for either length.

    out = the greatest error of a frequency, in EPS; of a cosine or sine at 131071; whether vectors were rotated as well.
    """
    rng = np.random.default_rng(0)
    worst_frequency = worst_far = 0.0
    rotated = False
    for positions, group in zip(POSITIONS, groups):
        module = rm.create_again(rotary.module)  # scalings by length change a module's state
        axes = int(field(group, "axes") or 1)
        ids = np.array([positions] * axes) if axes > 1 else np.array(positions)
        if axes > 1:
            ids[1:] = ids[1:] // np.array([[2], [3]])[: axes - 1]
        exact = np.array(group["inv_freq"])
        axis = axis_of_pairs(group, exact.size)
        found, cos, sin, _ = rm.run(module, ids, layer_type, axis)
        assert found is not None and found.shape == exact.shape, "number of pairs"
        # The frequencies, relative.  Zeros (proportional) are exact.
        assert np.array_equal(found == 0, exact == 0)
        turning = exact != 0
        relative = np.abs(found - exact)[turning] / exact[turning]
        assert relative.max() <= frequency_bound(group), f"inv_freq: {relative.max():.3g} relative"
        worst_frequency = max(worst_frequency, relative.max() / EPS)
        # The recipe: cosine and sine of the float32 product, times the attention factor.
        at = ids.reshape(axes, -1)[axis].T.astype(np.float64)  # [n, pairs]
        factor = group["attention_factor"]
        product = (at.astype(np.float32) * found.astype(np.float32)).astype(np.float64)
        for name, got, function in (("cos", cos, np.cos), ("sin", sin, np.sin)):
            recipe = 0.0 if isinstance(module, rm.Table) else np.abs(got - factor * function(product)).max()
            assert recipe <= factor * 4 * EPS, f"{name}: {recipe:.3g} from float32 angles of its own frequencies"
            # Exact: what the rounding of the frequency (measured to an EPS or two) and of the product can change.
            bound = factor * (at * np.abs(found - exact) + 4 * at * exact * EPS + 4 * EPS)
            off = np.abs(got - factor * function(at * exact))
            assert np.all(off <= bound), f"{name}: {off.max():.3g} from exact"
            if positions == POSITIONS[1]:
                worst_far = max(worst_far, off.max())
        # The layout: random vectors through the function that transformers applies.
        if positions == POSITIONS[0] and axes == 1:
            x = rng.standard_normal((len(positions), 2 * exact.size))
            turned = rm.rotate(model, config, rotary, x, positions, layer_type, group["layout"] == "half")
            if turned is not None:
                want = expected_rotation(group, x, cos, sin)
                assert np.abs(turned - want).max() <= 1e-5, f"layout: {np.abs(turned - want).max():.3g}"
                rotated = True
    return {"frequency": worst_frequency, "far": worst_far, "rotated": rotated}


def attention_layers(model):
    """layer index -> attention module, for decoders whose attention knows its index."""
    out = {}
    for path, module in model.named_modules():
        index = getattr(module, "layer_idx", None)
        if isinstance(index, int) and path.endswith(("attn", "attention")) and not any(t in path for t in rm.TOWERS):
            out.setdefault(index, module)
    return out


def compare_layers(reading, model, config):
    """Which layers rotate and which slide, where the attention classes say so themselves."""
    text = config.get_text_config()
    types = getattr(text, "layer_types", None)
    modules = attention_layers(model)
    for group in reading["groups"]:
        if is_beside(group) or not group["layers"]:
            continue
        for layer in group["layers"]:
            module = modules.get(layer)
            rotates = getattr(module, "use_rope", None)
            if rotates is not None:
                assert bool(rotates) == (group["kind"] == "rope"), f"layer {layer}: use_rope {rotates}"
            if types and len(types) > layer and "attention" in group["name"]:
                assert types[layer] == group["name"], f"layer {layer}: {types[layer]}"
        if types and group["window"] and "sliding_attention" in {types[i] for i in group["layers"] if i < len(types)}:
            # ModernBERT's window to both sides is counted to one side, without the query itself.
            both = 1 if text.model_type == "modernbert" else 0
            assert group["window"] == text.sliding_window + both, "window"


def compare_scale(reading, modules):
    """The factor of the scores, where the attention classes keep it."""
    for group in reading["groups"]:
        for layer in [] if is_beside(group) else group["layers"]:
            module = modules.get(layer)
            scaling = getattr(module, "scaling", None)
            if group["kind"] == "rope" and isinstance(scaling, float) and group["scale"]:
                scaling *= getattr(module, "qk_scale_factor", 1.0)  # Muse multiplies its queries
                assert math.isclose(scaling, group["scale"], rel_tol=1e-6), f"scale {group['scale']}, not {scaling}"
