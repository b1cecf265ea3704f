"""What the models of transformers rotate (trace_types) against what `gyre explain` says of their saved configs."""

import math
import re

EPS = 2.0**-24  # half a unit in the last place of float32, relative
TOWERS = re.compile(r"vision|visual|audio|image|video|speech|vit\b|codec|sound|tokenizer|tower", re.IGNORECASE)


def field(group, name):
    """The value of a group's field as text, or None."""
    return next((entry["value"] for entry in group["fields"] if entry["name"] == name), None)


# -- words --


def ranges(layers):
    """[0, 1, 2, 5] as 0-2, 5; equal steps as 2, 5, ..., 23."""
    layers = sorted(layers)
    steps = {b - a for a, b in zip(layers, layers[1:])}
    if len(layers) > 3 and len(steps) == 1 and steps != {1}:
        return f"{layers[0]}, {layers[1]}, ..., {layers[-1]}"
    runs = []
    for layer in layers:
        if runs and layer == runs[-1][1] + 1:
            runs[-1][1] = layer
        else:
            runs.append([layer, layer])
    if len(runs) > 8:
        return f"{len(layers)} layers from {layers[0]} to {layers[-1]}"
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)


def layout_of(turn):
    """half, interleaved, interleaved-to-half, or other."""
    pairs = turn["pairs"]
    if all(second == first + 1 and first % 2 == 0 for first, second in pairs):
        return "interleaved-to-half" if turn["moved"] else "interleaved"
    straight = len({second - first for first, second in pairs}) == 1 and [first for first, _ in pairs] == list(range(len(pairs)))
    return "half" if straight and not turn["moved"] else "other"


def axes_of(turn):
    """Sections and order of the axes in words, or nothing where there is one."""
    axis = turn.get("axis", [0])
    if len(set(axis)) == 1:
        return ""
    sections = " ".join(str(axis.count(a)) for a in range(turn["axes"]))
    return f", axes {sections} {'chunked' if axis == sorted(axis) else 'interleaved'}"


def in_words(turn):
    if "why_not" in turn:
        return f"{turn['function']} is no rotation: {turn['why_not']}"
    first = f" from {turn['first_channel']} on" if turn["first_channel"] else ""
    text = f"{2 * len(turn['pairs'])} of {turn['width']}{first}, {layout_of(turn)}{axes_of(turn)}"
    if "frequencies" in turn:
        text += f", frequencies to {turn['frequencies'][-1]:.4g}"
    return text + (f", factor {turn['factor']:.6g}" if abs(turn["factor"] - 1) > 1e-6 else "")


# -- one rotation --


def axis_of_pairs(group):
    """The axis that each pair of a group turns by."""
    pairs = len(group["inv_freq"])
    layout = field(group, "axes_layout")
    if layout is None:
        return [0] * pairs
    sections = [int(n) for n in field(group, "sections").split()]
    if layout in ("chunked", "axial"):
        return [a for a, n in enumerate(sections) for _ in range(n)]
    axis = [0] * pairs
    for a in (1, 2):
        for pair in range(a, 3 * sections[a], 3):
            axis[pair] = a
    return axis


def channels_of_pairs(group):
    pairs = len(group["inv_freq"])
    if group["layout"] == "half":
        return [[k, k + pairs] for k in range(pairs)]
    return [[2 * k, 2 * k + 1] for k in range(pairs)]


def frequency_bound(group):
    """Relative bound of a float32 frequency against an exact one: docs/judges.md; and 8 roundings of sine and arctangent."""
    scaling = group["scaling"] or {"type": "default"}
    blend = 1.0 + (4.0 * scaling["factor"] if scaling["type"] in ("yarn", "llama3") else 0.0)
    return EPS * ((math.log(max(group["base"], 2.0)) + 6.0) * blend + 8.0)


def directed(group):
    """The frequencies of a group, negative where its pairs turn the other way."""
    sign = -1.0 if field(group, "clockwise") == "true" else 1.0
    return [sign * frequency for frequency in group["inv_freq"]]


def difference(turn, group):
    """How what transformers did differs from what a group says, in words, or None."""
    if "why_not" in turn:
        return in_words(turn)
    exact = directed(group)
    live = [k for k, frequency in enumerate(exact) if frequency != 0]  # a pair of frequency 0 does not turn
    if len(live) != len(turn["pairs"]):
        return f"rotates {in_words(turn)}; Gyre: {2 * len(live)} of {group['head_dim']}, {group['layout']}"
    channels = channels_of_pairs(group)
    if [channels[k] for k in live] != turn["pairs"] or turn["moved"] != (group["layout"] == "interleaved-to-half"):
        return f"layout {layout_of(turn)}; Gyre: {group['layout']}"
    if "frequencies" not in turn:
        return axial_difference(turn, group)
    off = [abs(found / exact[k] - 1.0) for found, k in zip(turn["frequencies"], live)]
    worst = max(range(len(off)), key=off.__getitem__)
    if off[worst] > frequency_bound(group):
        return f"frequency of pair {live[worst]} {turn['frequencies'][worst]:.7g}; Gyre: {exact[live[worst]]:.7g}"
    if abs(turn["factor"] - group["attention_factor"]) > 1e-5 * group["attention_factor"]:
        return f"factor {turn['factor']:.7g}; Gyre: {group['attention_factor']:.7g}"
    axis = axis_of_pairs(group)
    if turn["axis"] != [axis[k] for k in live]:
        ours = f"{field(group, 'sections')} {field(group, 'axes_layout')}" if len(set(axis)) > 1 else "one axis"
        return f"{(axes_of(turn) or ', one axis')[2:]}; Gyre: {ours}"
    return None


def axial_difference(turn, group):
    """Angles of positions that the model chose itself: on each axis they must be those of one coordinate for each token.

    A class token, which does not rotate or by an angle of its own, may come first or last.
    """
    tokens = len(turn["angles"][0])
    orders = [range(tokens), range(1, tokens), range(tokens - 1)]
    texts = [off_lattice(turn, group, list(order)) for order in orders if len(order) > 1]
    return None if None in texts else texts[0]


def off_lattice(turn, group, tokens):
    """Angles from the first of some tokens to the others that are not those of one coordinate on each axis."""
    exact, axis = directed(group), axis_of_pairs(group)
    live = [k for k, frequency in enumerate(exact) if frequency != 0]
    angles = [[each[token] - each[tokens[0]] for token in tokens] for each in turn["angles"]]
    for a in sorted(set(axis)):
        of_axis = [i for i, k in enumerate(live) if axis[k] == a]
        lowest = min(of_axis, key=lambda i: abs(exact[live[i]]))
        for token, at in zip(tokens, (math.remainder(angle, math.tau) / exact[live[lowest]] for angle in angles[lowest])):
            for i in of_axis:
                found = math.remainder(angles[i][tokens.index(token)], math.tau)
                if abs(math.remainder(found - at * exact[live[i]], math.tau)) > 1e-3:
                    pair, low = live[i], live[lowest]
                    return (
                        f"angles at token {token}: pair {pair} {found:.5g} beside {at * exact[low]:.5g} of pair {low}; "
                        f"Gyre: {exact[pair]:.5g} beside {exact[low]:.5g}"
                    )
    return None


# -- one type --


class Verdict:
    """What differs, by text: at which layers and lengths."""

    def __init__(self):
        self.found = {}

    def add(self, text, layer, length):
        self.found.setdefault(text, (set(), set()))
        self.found[text][0].add(layer)
        self.found[text][1].add(length)

    def texts(self, lengths):
        out = []
        for text, (layers, at) in self.found.items():
            layers = {layer for layer in layers if layer is not None}
            text += f" (layers {ranges(layers)})" if layers else ""
            out.append(text + ("" if len(at) == len(lengths) else f" (at {', '.join(map(str, sorted(at)))} positions)"))
        return out


def groups_at(groups, layer):
    return [group for group in groups if layer is None or not group["layers"] or layer in group["layers"]]


def turns_at(run, stack, layer):
    """Turns of a layer; those that undo another one are left out (DeepSeek-V4 turns its values back)."""
    turns = [t for t in run["turns"] if t["stack"] == stack and (layer is None or layer in t["layers"])]
    forward = [t["frequencies"] for t in turns if t.get("frequencies", [0])[0] > 0]
    return [t for t in turns if [-f for f in t.get("frequencies", [])] not in forward or "frequencies" not in t]


def compare_layer(run, stack, layer, groups, verdict, beside):
    turns = turns_at(run, stack, layer)
    ropes = [group for group in groups_at(groups, layer) if group["kind"] == "rope" and group["inv_freq"]]
    where = f"{stack}: " if stack else ""
    if not turns:
        for group in ropes[:1]:
            verdict.add(f"{where}does not rotate; Gyre: {group['encoding']} ({group['name']})", layer, run["length"])
        return
    if not ropes:
        verdict.add(f"{where}rotates {in_words(turns[0])}; Gyre: no rotation", layer, run["length"])
        return
    used = set()
    for group in ropes:
        differences = [difference(turn, group) for turn in turns]
        if None not in differences:
            verdict.add(where + differences[0], layer, run["length"])
            used.add(0)
        used |= {i for i, text in enumerate(differences) if text is None}
    for i, turn in enumerate(turns):
        if i not in used:
            beside.add(f"{where}{turn['by']} rotates {in_words(turn)}", layer, run["length"])


def compare_run(run, lists, reading, verdict, beside):
    groups = [group for group in reading["groups"] if group["name"] != "vision"]
    stacks = sorted({turn["stack"] for turn in run["turns"] if not (groups and TOWERS.search(turn["stack"]))})
    groups = groups or reading["groups"]  # a tower alone
    if not run["turns"] and any(group["kind"] == "rope" for group in groups):
        verdict.add("does not rotate; Gyre: rope", None, run["length"])
    for stack in stacks:
        layers = run["entered"].get(stack, []) if stack in lists else [None]
        for layer in layers:
            compare_layer(run, stack, layer, groups, verdict, beside)


def is_unknown(reading):
    """Whether Gyre took the type for another one, with a doubt that says so."""
    return any("is not known" in (warning["text"] or "") for warning in reading["warnings"])


def compare(traced, readings, refusal):
    """(result, texts, texts on rotations that Gyre does not show) of a type; readings: at each length of the runs.

    Results: agrees, differs, not described (a refusal that says what the model does), refused, not traced,
    does not rotate, relative.
    """
    if "runs" not in traced:
        return "not traced", [traced["why_not"]], []
    runs = traced["runs"]
    rotates = any(run["turns"] for run in runs)
    if refusal is not None:
        refused = "not described" if " is not described: " in refusal else "refused"
        return (refused if rotates else "relative" if runs[0]["relative"] else "does not rotate"), [refusal], []
    verdict, beside = Verdict(), Verdict()
    for run, reading in zip(runs, readings):
        compare_run(run, traced["lists"], reading, verdict, beside)
    lengths = [run["length"] for run in runs]
    texts, more = verdict.texts(lengths), beside.texts(lengths)
    if texts:
        return "differs", texts, more
    return ("agrees" if rotates else "relative" if runs[0]["relative"] else "does not rotate"), [], more
