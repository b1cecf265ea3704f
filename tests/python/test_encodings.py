"""Encodings: every kind, what they are, configs as programs read them."""

import json
import math
import pickle
from pathlib import Path

import gyre
import numpy as np
import pytest

EVERY_KIND = {
    "nope": lambda: gyre.nope(),
    "learned": lambda: gyre.learned(32, 8),
    "sinusoidal": lambda: gyre.sinusoidal(8),
    "rope": lambda: gyre.rope(16),
    "alibi": lambda: gyre.alibi(4),
    "t5": lambda: gyre.t5(4),
    "kerple": lambda: gyre.kerple(4),
    "shaw": lambda: gyre.shaw(16, max_distance=8),
    "nezha": lambda: gyre.nezha(16),
    "bert": lambda: gyre.bert(16, max_positions=32),
    "deberta": lambda: gyre.deberta(16, 4, max_distance=64, position_buckets=16),
    "transformer-xl": lambda: gyre.transformer_xl(16, 4, max_distance=32),
    "fire": lambda: gyre.fire(4),
    "sandwich": lambda: gyre.sandwich(4),
    "tapa": lambda: gyre.tapa(16),
    "multiplicative": lambda: gyre.multiplicative(16, max_distance=8),
    "inkling": lambda: gyre.inkling(32, max_distance=8),
}


@pytest.mark.parametrize("kind", EVERY_KIND)
def test_every_kind_survives_a_copy_and_shows_itself(kind: str) -> None:
    encoding = EVERY_KIND[kind]()
    assert encoding.kind == kind and kind in repr(encoding)
    copy = pickle.loads(pickle.dumps(encoding))
    assert copy == encoding and hash(copy) == hash(encoding) and copy.config == encoding.config
    page = encoding._repr_html_()
    assert page.startswith("<div>") and kind in page
    assert encoding.explain()["places"] == list(encoding.places)
    assert set(encoding.config) == set(gyre.fields())


def test_an_encoding_shows_what_is_not_usual(configs: Path) -> None:
    """Sizes and the base always; of the other fields those that were set to another number than the default."""
    assert repr(gyre.rope(64)) == "<gyre.Encoding rope head_dim=64 base=10000>"
    yarn = gyre.rope(64, scaling=gyre.Yarn(factor=4, trained_length=4096, beta_fast=16))
    assert repr(yarn) == "<gyre.Encoding rope head_dim=64 trained_length=4096 scaling='yarn' base=10000 factor=4 beta_fast=16>"
    assert "dim=32" in repr(gyre.rope(64, dim=32)) and "base=1234567.5" in repr(gyre.rope(64, base=1234567.5))
    phi = gyre.Encoding.from_config(configs / "phi-3-mini-128k.json")
    assert "scaling='longrope'" in repr(phi) and "long_factor=[48 numbers]" in repr(phi)
    assert repr(gyre.learned(512, 64)) == "<gyre.Encoding learned input.dim=64 input.positions=512>"


def test_every_kind_of_the_library_has_a_function() -> None:
    words = gyre.Error
    with pytest.raises(words) as caught:
        gyre.Encoding(kind="?")
    kinds = next(row for row in gyre._gyre.config_fields() if row["name"] == "kind")["names"]
    assert set(EVERY_KIND) <= set(kinds)
    for kind in kinds:
        assert f"'{kind}'" in caught.value.text and callable(getattr(gyre, kind.replace("-", "_")))
    assert caught.value.text.count("'") == 2 * (1 + len(kinds))
    assert gyre._options.of_kind("kerple")(4) == gyre.kerple(4)  # what a scheme without a function of its own has
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        getattr(gyre, "nothing")


def test_sinusoid_and_learned_table_at_the_input() -> None:
    x = np.random.default_rng(0).standard_normal((2, 5, 8)).astype("f4")
    positions = np.arange(3, 8)
    angle = positions[:, None] * 1e4 ** (-np.arange(0, 8, 2) / 8)
    want = np.stack([np.sin(angle), np.cos(angle)], -1).reshape(5, 8)
    np.testing.assert_allclose(gyre.sinusoidal(8).add(x, 3), x + want, atol=1e-6)
    learned, table = gyre.learned(32, 8), np.random.default_rng(1).standard_normal((32, 8)).astype("f4")
    assert learned.table_shapes == {"input": (1, 1, 32, 8)}
    np.testing.assert_array_equal(learned.add(x, positions, tables=table), x + table[positions])
    out = x.copy()
    assert learned.add(out, positions, tables=table, out=out) is out
    gradient = learned.add_gradient(np.ones_like(x), positions, tables=table)["input"]
    np.testing.assert_array_equal(gradient[:, 0], np.where((np.arange(32) >= 3) & (np.arange(32) < 8), 2, 0))


def test_frequencies_and_cos_sin() -> None:
    encoding = gyre.rope(16, base=5e5)
    inv_freq = 5e5 ** (-np.arange(0, 16, 2) / 16)
    np.testing.assert_allclose(encoding.frequencies(), inv_freq, rtol=1e-15)
    positions = np.array([[0, 5, 100000], [7, 8, 9]])
    angle = positions[..., None] * inv_freq
    cosine, sine = encoding.cos_sin(positions)
    assert cosine.dtype == np.float32 and cosine.shape == (2, 3, 16)
    np.testing.assert_allclose(cosine, np.concatenate([np.cos(angle)] * 2, -1), atol=1e-7)
    np.testing.assert_allclose(sine, np.concatenate([np.sin(angle)] * 2, -1), atol=1e-7)
    cosine, sine = encoding.cos_sin(4, dtype="float64", pairs=True)
    np.testing.assert_allclose(sine, np.sin(np.arange(4)[:, None] * inv_freq), atol=1e-15)
    cosine, _ = gyre.rope(16, layout="interleaved").cos_sin(4)
    np.testing.assert_array_equal(cosine[:, 0::2], cosine[:, 1::2])
    torch = pytest.importorskip("torch")
    cosine, _ = encoding.cos_sin(torch.arange(6), dtype=torch.bfloat16)
    assert cosine.dtype == torch.bfloat16 and cosine.shape == (6, 16)


def test_slopes_past_the_trained_length() -> None:
    plain = gyre.alibi(8).slopes()
    linear = gyre.alibi(8, scaling="linear", trained_length=100)
    assert np.array_equal(linear.slopes(), plain) and np.array_equal(linear.slopes(400), plain / 4)
    ntk = gyre.alibi(8, scaling="ntk", factor=4)
    assert np.allclose(ntk.slopes(), plain / 4 ** (np.arange(8) / 7), rtol=1e-15)
    assert ntk.config["score.slope_factor"] == 4 and linear.explain(400)["slopes"][0] == plain[0] / 4
    for wrong in ({"factor": 2}, {"scaling": "linear", "factor": 0}, {"scaling": "linear"}, {"scaling": "yarn", "factor": 2}):
        with pytest.raises(gyre.Error):
            gyre.alibi(8, **wrong)
    with pytest.raises(gyre.Error, match="length: -1 is below 0"):
        linear.slopes(-1)


def test_scalings_of_axes_and_dype() -> None:
    options = {"axis_pairs": [8, 8], "axes_layout": "axial", "base": 256.0, "trained_length": 33}
    riflex = {"scaling": "riflex", "factor": 2, "intrinsic_pair": 4}
    encoding = gyre.rope(32, **options, axis_scalings=[riflex, None])
    want = np.tile(256.0 ** -(np.arange(8) / 8), 2)
    want[3] = 0.9 * 2 * math.pi / 66
    assert np.allclose(encoding.frequencies(), want, rtol=1e-15)
    assert encoding.config["rope.axis[0].intrinsic_pair"] == 4 and pickle.loads(pickle.dumps(encoding)) == encoding
    faded = gyre.rope(32, scaling="linear", factor=4, dype_time=0.5)
    assert gyre.rope(32, **options, dype_time=0.5, axis_scalings=[{"scaling": "ntk", "factor": 2}, None]).config["rope.diffusion.timed"]
    assert np.allclose(faded.frequencies(), gyre.rope(32).frequencies() / 2, rtol=1e-15)
    for wrong in ({"axis_scalings": [{"scalling": "ntk"}]}, {"axis_scalings": [riflex] * 5}, {"dype_strength": 2}, {"dype_time": 2}):
        with pytest.raises(gyre.Error):
            gyre.rope(32, **{**options, **wrong})


@pytest.mark.parametrize("scaling", ["none", "dynamic", "llama3", "longrope", "proportional", "ntk-mixed"])
def test_dype_that_would_change_nothing(scaling) -> None:
    given = {"scaling": scaling, "trained_length": 128, "dype_time": 0.3}
    if scaling not in ("none", "dynamic"):
        given["factor"] = 4
    if scaling == "longrope":
        given |= {"short_factor": [1.0] * 16, "long_factor": [2.0] * 16}
    with pytest.raises(gyre.Error, match="dype_time: is 0.3, but no axis is scaled by one of linear, ntk") as caught:
        gyre.rope(32, **given)
    assert caught.value.field == "dype_time"
    del given["dype_time"]
    gyre.rope(32, **given)


# What a scaling has beside its factor and lengths is one for all axes, and an axis alone may use it.
def test_what_the_scaling_of_one_axis_reads() -> None:
    axes = {"axis_pairs": [8, 12, 12], "axes_layout": "axial", "base": 256.0}
    plain = gyre.rope(64, **axes).frequencies()
    own = {"scaling": "yarn", "factor": 4, "trained_length": 64}
    turns = 64 * plain[:8] / (2 * math.pi)
    for beta_fast in (8.0, 2.0):
        got = gyre.rope(64, **axes, beta_fast=beta_fast, beta_slow=1.0, axis_scalings=[own, None, None]).frequencies()
        assert np.array_equal(got[8:], plain[8:])
        low, high = (8 * math.log(64 / (2 * math.pi * b)) / math.log(256) for b in (beta_fast, 1.0))
        ramp = np.clip((np.arange(8) - max(0, math.floor(low))) / (math.ceil(high) - max(0, math.floor(low))), 0, 1)
        assert np.allclose(got[:8], plain[:8] * (1 - ramp + ramp / 4), rtol=1e-14)
    got = gyre.rope(64, **axes, beta_fast=8.0, truncate=False, axis_scalings=[own, None, None]).frequencies()
    low, high = (8 * math.log(64 / (2 * math.pi * b)) / math.log(256) for b in (8.0, 1.0))
    ramp = np.clip((np.arange(8) - low) / (high - low), 0, 1)
    assert np.allclose(got[:8], plain[:8] * (1 - ramp + ramp / 4), rtol=1e-14)
    own["scaling"] = "llama3"
    got = gyre.rope(64, **axes, low_freq=0.5, high_freq=2.0, axis_scalings=[own, None, None]).frequencies()
    keep = np.clip((turns - 0.5) / 1.5, 0, 1)
    assert np.array_equal(got[8:], plain[8:]) and np.allclose(got[:8], plain[:8] * (keep + (1 - keep) / 4), rtol=1e-14)
    own = {"scaling": "longrope", "trained_length": 64}
    lists = {"short_factor": [1.0] * 32, "long_factor": [float(i + 1) for i in range(32)]}
    encoding = gyre.rope(64, **axes, **lists, axis_scalings=[None, own, None])
    assert np.array_equal(encoding.frequencies(64), plain) and pickle.loads(pickle.dumps(encoding)) == encoding
    want = plain.copy()
    want[8:20] /= np.arange(9, 21)
    assert np.allclose(encoding.frequencies(65), want, rtol=1e-15) and encoding.attention_factor(65) == 1
    for name, value in (("proportion", 0.5), ("mixed_exponent", 0.5)):
        scaling = {"proportion": "proportional", "mixed_exponent": "ntk-mixed"}[name]
        gyre.rope(64, **axes, **{name: value}, axis_scalings=[{"scaling": scaling, "factor": 2}, None, None])
    # An axis that takes no part in them, and a place of their own for what is shared.
    with pytest.raises(gyre.Error, match="beta_fast: is 8.0, but scaling is 'none', which has no beta_fast"):
        gyre.rope(64, **axes, beta_fast=8.0, axis_scalings=[own, None, None], **lists)
    with pytest.raises(gyre.Error, match="truncate: is False, but scaling is 'none', which has no truncate"):
        gyre.rope(64, **axes, truncate=False, axis_scalings=[own, None, None], **lists)
    with pytest.raises(gyre.Error, match=r"axis_scalings: \[0\] has 'beta_fast', which all axes share"):
        gyre.rope(64, **axes, axis_scalings=[{"scaling": "yarn", "factor": 4, "trained_length": 64, "beta_fast": 8.0}])


def test_given_frequencies() -> None:
    given = [3.0 / (1 + i * i) for i in range(8)]
    enc = gyre.rope(16, frequencies=given, layout="interleaved")
    assert enc.frequencies().tolist() == given and list(enc.config["rope.frequencies"]) == given
    assert pickle.loads(pickle.dumps(enc)) == enc and enc != gyre.rope(16, layout="interleaved")
    rows = enc.rotate(np.tile([1.0, 0.0], 8).reshape(1, 1, 1, 16), np.array([1000]))[0, 0, 0]
    assert np.allclose(rows[0::2], np.cos(1000 * np.array(given)), rtol=0, atol=1e-12)
    assert np.allclose(gyre.rope(16, frequencies=given, scaling="linear", factor=4).frequencies(), np.array(given) / 4, rtol=1e-15)
    for wrong in ({"scaling": "ntk", "factor": 4}, {"scaling": "yarn", "factor": 4, "trained_length": 8}, {"angles": "llama.cpp"}):
        with pytest.raises(gyre.Error, match="rope.(frequencies|angles)"):
            gyre.rope(16, frequencies=given, **wrong)
    for bad in ([1.0] * 7, [-1.0] + given[1:], [2000.0] + given[1:]):
        with pytest.raises(gyre.Error, match="frequencies"):
            gyre.rope(16, frequencies=bad)


def test_clipped_rope() -> None:
    plain = gyre.rope(64, scaling="yarn", factor=4, trained_length=512).frequencies()
    window = np.ones(32)
    window[-12:] = 0.5 * (1 + np.cos(np.linspace(0, math.pi, 12)))
    soft = gyre.rope(64, scaling="yarn", factor=4, trained_length=512, clip="soft", clip_pairs=12)
    assert np.allclose(soft.frequencies(), plain * window, rtol=1e-14, atol=0) and soft.frequencies()[-1] == 0
    assert soft.config["rope.clip.mode"] == "soft" and pickle.loads(pickle.dumps(soft)) == soft
    hard = gyre.rope(64, clip="hard")
    assert (hard.frequencies()[-20:] == 0).all() and (hard.frequencies()[:12] > 0).all() and hard.config["rope.clip.pairs"] == 20
    for wrong in ({"clip": "smooth"}, {"clip_pairs": 3}, {"clip": "soft", "clip_pairs": 0}, {"clip": "hard", "clip_pairs": -1}):
        with pytest.raises(gyre.Error):
            gyre.rope(64, **wrong)


def test_start_tokens_of_longrope() -> None:
    lists = {"short_factor": [1.0] * 8, "long_factor": [float(i + 1) for i in range(8)]}
    options = {"scaling": "longrope", "factor": 4, "trained_length": 64, "context_length": 256, **lists}
    x = np.random.default_rng(3).standard_normal((1, 1, 9, 16))
    plain, long = gyre.rope(16), gyre.rope(16, **options)
    for starts, factor in ((None, long.attention_factor()), ("paper", long.attention_factor()), ("released", 1)):
        got = gyre.rope(16, **options, start_tokens=5, starts=starts).rotate(x, 0)
        assert np.allclose(got[:, :, :5], factor * plain.rotate(x, 0)[:, :, :5], atol=1e-12)
        assert np.allclose(got[:, :, 5:], long.rotate(x, 0)[:, :, 5:], atol=1e-12)
    for wrong in ({"starts": "paper"}, {"start_tokens": 2, "starts": "?"}, {"start_tokens": -1}):
        with pytest.raises(gyre.Error):
            gyre.rope(16, **options, **wrong)
    with pytest.raises(gyre.Error, match="start_tokens"):
        gyre.rope(16, scaling="linear", factor=2, start_tokens=4)


def test_yarn_of_a_rope_parameters_dict() -> None:
    told = {"rope_type": "yarn", "factor": 4.0, "rope_theta": 1e6, "original_max_position_embeddings": 4096}
    encoding = gyre.Encoding.from_config(told, head_dim=64)
    assert encoding == gyre.rope(64, base=1e6, scaling="yarn", factor=4, trained_length=4096)
    assert math.isclose(encoding.attention_factor(), 0.1 * math.log(4) + 1)


def test_llama_3_of_a_path_a_folder_a_dict_and_an_object(configs, tmp_path) -> None:
    path = configs / "llama-3.1-8b.json"
    text = path.read_text()
    (tmp_path / "config.json").write_text(text)

    class Config:
        def to_dict(self):
            return json.loads(text)

    readings = [gyre.Encoding.from_config(source) for source in (path, tmp_path, json.loads(text), Config())]
    assert all(reading == readings[0] for reading in readings)
    encoding = readings[0]
    assert encoding.explain()["parts"] == {"kept": 29, "blended": 6, "divided": 29}
    factor = next(field for field in encoding.reading["fields"] if field["name"] == "factor")
    assert (factor["value"], factor["from"], factor["line"]) == ("8", "file", 15)


def test_every_config_gives_the_frequencies_of_the_command(configs) -> None:
    """Dicts of fields lose nothing: the encoding of each group has the frequencies that gyre explain prints."""
    for path in sorted(configs.glob("*.json"))[::6]:
        for group in gyre.explain(path)["groups"]:
            encoding = gyre.Encoding.from_config(path, layer_type=group["name"])
            assert encoding.kind == group["kind"], path
            if group["inv_freq"]:
                np.testing.assert_allclose(encoding.frequencies(), group["inv_freq"], rtol=1e-14, err_msg=str(path))


def test_profiles_lengths_and_layers(configs) -> None:
    path = configs / "gpt-oss-20b.json"
    assert gyre.Encoding.from_config(path, profile="llama.cpp") != gyre.Encoding.from_config(path)
    long = gyre.Encoding.from_config(configs / "phi-3-mini-128k.json", length=131072)
    assert long.config["context_length"] == 131072
    gemma = configs / "gemma-3-4b.json"
    local = gyre.Encoding.from_config(gemma, layer_type="sliding_attention")
    assert local.config["rope.base"] != gyre.Encoding.from_config(gemma, layer_type="full_attention").config["rope.base"]


def test_layers_that_differ_need_a_name(configs) -> None:
    for name in ("gemma-3-4b", "t5-base"):
        with pytest.raises(gyre.Error, match="layer_type: missing; the positions of layers differ: pass one of '") as why:
            gyre.Encoding.from_config(configs / f"{name}.json")
        assert why.value.field == "layer_type"
    assert gyre.Encoding.from_config(configs / "gpt-oss-20b.json").kind == "rope"  # two types with the same positions
    assert gyre.Encoding.from_config(configs / "smollm3-3b.json").kind == "rope"  # the other layers have no positions


def test_layers_that_are_all_alike_have_a_type(configs) -> None:
    llama = configs / "llama-3.1-8b.json"
    assert gyre.Encoding.from_config(llama, layer_type="full_attention") == gyre.Encoding.from_config(llama)
    assert len(gyre.explain(llama, layer_type="full_attention")["groups"]) == 1
    windowed = {"model_type": "mistral", "hidden_size": 64, "num_attention_heads": 4, "sliding_window": 32}
    assert gyre.Encoding.from_config(windowed, layer_type="sliding_attention").kind == "rope"
    for source, name in ((llama, "sliding_attention"), (windowed, "full_attention"), (llama, "linear_attention")):
        with pytest.raises(gyre.Error, match=f"layer_type: '{name}' is not among 'all'"):
            gyre.Encoding.from_config(source, layer_type=name)
        with pytest.raises(gyre.Error, match=f'"{name}" is not one of all'):
            gyre.explain(source, layer_type=name)


def test_explanations_become_frames() -> None:
    pytest.importorskip("pandas")
    frame = gyre.rope(16).explain().frame()
    assert list(frame.columns) == ["pair", "inv_freq", "wavelength"] and len(frame) == 8
    assert len(gyre.alibi(4).explain().frame()) == 4


def test_html_escapes_what_files_say() -> None:
    encoding = gyre.Encoding.from_config({"model_type": "<b>x", "rope_theta": 1e4, "hidden_size": 64, "num_attention_heads": 4})
    page = encoding._repr_html_()
    assert "<b>x" not in page and "&lt;b&gt;x" in page and "<svg" in page


def test_figures_are_well_formed(configs) -> None:
    import re
    import xml.etree.ElementTree as ElementTree

    shown = [gyre.rope(16, trained_length=512), gyre.alibi(8), gyre.Encoding.from_config(configs / "gemma-3-4b.json", layer_type="full_attention")]
    shown.append(gyre.diff(gyre.rope(16), gyre.rope(16, base=2e4)))
    shown.append(gyre.rope(16, scaling="proportional", proportion=0.5))  # pairs that never turn have no point
    for thing in shown:
        figure = re.search(r"<svg.*?</svg>", thing._repr_html_(), re.S)
        root = ElementTree.fromstring(figure.group())
        lines = root.findall("{http://www.w3.org/2000/svg}polyline")
        assert lines
        for line in lines:
            for point in line.get("points").split():
                x, y = map(float, point.split(","))
                assert 0 <= x <= 420 and 0 <= y <= 190
