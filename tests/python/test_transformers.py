"""What Gyre says of a config.json against the rotary modules of transformers, run.

For every fixture of tests/configs that the installed transformers can build, its own rotary module is created and run, and its
frequencies, attention factor, cosines and sines at positions 0, 1, 4095 and 131071 are compared with `gyre explain`.  The
bounds follow from how transformers computes (docs/judges.md): frequencies in float32, position x frequency in float32, cosine
and sine in float32.  Then the same for every scaling under one small config of each class.
"""

import json
import os
from pathlib import Path

import pytest

if "GYRE_JUDGES" not in os.environ:
    pytest.skip("ci/run judges runs it", allow_module_level=True)

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from judges import compare_rotary as compare  # noqa: E402
from judges import rotary_modules as rm  # noqa: E402
from judges.gyre_command import CONFIGS, Refused, explain, gyre  # noqa: E402

records = []


@pytest.fixture(scope="module", autouse=True)
def write_records():
    """Leaves one line per fixture and group in $GYRE_JUDGES/rotary-VERSION.json, for scripts/judges-page."""
    yield
    folder = os.environ.get("GYRE_JUDGES")
    if folder:
        Path(folder).mkdir(parents=True, exist_ok=True)
        out = {"transformers": transformers.__version__, "torch": torch.__version__, "profile": compare.PROFILE}
        text = json.dumps({**out, "rows": records}, indent=1)
        (Path(folder) / f"rotary-{transformers.__version__}.json").write_text(text)


def record(name, result, **more):
    records.append({"config": name, "result": result, **more})


def read_at_both_lengths(path):
    return [explain(path, compare.PROFILE, max(positions) + 1) for positions in compare.POSITIONS]


def compare_all(reading, model, config):
    """Compares each group that rotates; out = (group, module, figures) of each."""
    rotaries = rm.rotary_modules(model)
    out = []
    for groups in zip(reading[0]["groups"], reading[1]["groups"]):
        if groups[0]["kind"] != "rope" or groups[0]["name"] == "vision" or groups[0]["name"].startswith("mtp"):
            continue
        rotary, layer_type = compare.module_for(rotaries, groups[0])
        assert rotary is not None, f"no rotary module for {groups[0]['name']}"
        out.append((groups[0], rotary, compare.compare_group(groups, rotary, layer_type, model, config)))
    compare.compare_layers(reading[0], model, config)
    compare.compare_scale(reading[0], compare.attention_layers(model))
    return out


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_rotary_module(path):
    try:
        config = rm.parse(path)
        model = rm.build(config)
    except rm.CannotBuild as why:
        record(path.stem, "not built", why=str(why))
        pytest.skip(str(why))
    reading = read_at_both_lengths(path)
    kinds = sorted({group["kind"] for group in reading[0]["groups"] if group["name"] != "vision"})
    if "rope" not in kinds:
        record(path.stem, "does not rotate", why=", ".join(kinds))
        pytest.skip("does not rotate: " + ", ".join(kinds))
    try:
        compared = compare_all(reading, model, config)
    except rm.CannotBuild as why:
        record(path.stem, "not built", why=str(why))
        pytest.skip(str(why))
    for group, rotary, figures in compared:
        names = {"group": group["name"], "encoding": group["encoding"], "module": type(rotary.module).__name__}
        record(path.stem, "agrees", **names, **figures)


# -- every scaling under every class --

CLASSES = """llama mistral ministral3 mixtral qwen2 qwen2_moe qwen3 qwen3_moe qwen3_next phi phi3 gemma gemma2 gemma3_text
    gemma3n_text gpt_neox gpt_oss falcon stablelm cohere cohere2 glm glm4 deepseek_v2 deepseek_v3 llama4_text qwen2_vl
    qwen2_5_vl qwen3_vl_text olmo olmo2 olmo3 starcoder2 granite smollm3 exaone4 minicpm3 hunyuan_v1_dense ernie4_5 nemotron
    persimmon modernbert modernbert-decoder helium bitnet arcee glm4_moe minimax apertus cwm lfm2 mistral4
    phimoe seed_oss solar_open falcon_h1 eurobert fuyu""".split()
DERIVES_HEAD = """llama qwen2 phi3 gpt_neox falcon stablelm phi nemotron persimmon starcoder2 granite olmo2 gemma2 cohere
    helium""".split()
AXES = ("qwen2_vl", "qwen2_5_vl", "qwen3_vl_text")
LATENT = ("deepseek_v2", "deepseek_v3", "minicpm3", "mistral4")


def scalings(pairs):
    """Objects for rope_scaling: each type, in the forms that files have, and none; with and without a base."""
    original = {"original_max_position_embeddings": 4096}
    yarn = {"rope_type": "yarn", "factor": 4.0}
    lists = {"short_factor": [1 + i / 100 for i in range(pairs)], "long_factor": [2 + i / 10 for i in range(pairs)]}
    return {
        "linear": {"rope_type": "linear", "factor": 4.0},
        "old linear": {"type": "linear", "factor": 4.0},
        "dynamic": {"rope_type": "dynamic", "factor": 2.0},
        "dynamic, original length": {"rope_type": "dynamic", "factor": 2.0, **original},
        "yarn": {**yarn, **original},
        "yarn, no original length": yarn,
        "yarn, mscale": {**yarn, **original, "mscale": 0.707, "mscale_all_dim": 0.9},
        "yarn, betas": {"rope_type": "yarn", "factor": 2.0, **original, "beta_fast": 16.0, "beta_slow": 2.0},
        "yarn, not truncated": {**yarn, **original, "truncate": False, "attention_factor": 1.1},
        "llama3": {"rope_type": "llama3", "factor": 8.0, **original, "low_freq_factor": 1.0, "high_freq_factor": 4.0},
        "longrope": {"rope_type": "longrope", **lists, **original},
        "longrope, factor": {"rope_type": "longrope", "factor": 8.0, **lists, **original},
        "su": {"type": "su", **lists},
        "yarn, another length beside": {**yarn, **original},
        "yarn, a length beside": yarn,
        "llama3, another length beside": {"rope_type": "llama3", "factor": 8.0, **original, "low_freq_factor": 1.0,
                                          "high_freq_factor": 4.0},
        "longrope, another length beside": {"rope_type": "longrope", **lists, **original},
        "linear, base of the class": {"rope_type": "linear", "factor": 4.0},
        "default, base of the class": {"rope_type": "default"},
        "nothing": {},
        "a base alone": {},
        "a share alone": {},
    }


def share_that_rotates(config):
    """The class's default share of the head."""
    text = config.get_text_config()
    inside = getattr(text, "rope_parameters", None) or {}
    share = getattr(text, "partial_rotary_factor", None) or getattr(text, "rotary_pct", None)
    share = share or inside.get("partial_rotary_factor")
    return share if isinstance(share, float) else 1.0


def small_config(kind, name, scaling):
    out = {"model_type": kind, "max_position_embeddings": 16384, "rope_theta": 10000.0, "hidden_size": 512, "head_dim": 64,
           "num_hidden_layers": 20 if kind == "gemma3n_text" else 6, "num_attention_heads": 8, "num_key_value_heads": 8,
           "pad_token_id": 0, "rope_scaling": dict(scaling)}
    if kind in LATENT:
        del out["head_dim"]
        out |= {"qk_rope_head_dim": 64, "qk_nope_head_dim": 64}
    if kind in DERIVES_HEAD:
        del out["head_dim"]
    if kind in AXES:
        out["rope_scaling"]["mrope_section"] = [16, 8, 8]
    if kind == "phi3" or scaling.get("type") == "su":
        out["original_max_position_embeddings"] = 4096
    if name.endswith("base of the class") or name == "nothing":
        del out["rope_theta"]
    if name.endswith("length beside"):
        out["original_max_position_embeddings"] = 8192
    if name == "a base alone":
        out["rope_theta"] = 20000.0
    if name == "a share alone" and kind == "gpt_neox":  # whose own name is rotary_pct
        out["partial_rotary_factor"] = 0.5
    if kind == "mistral4":  # its share of the head goes into rope_parameters alone
        out["rope_parameters"] = out.pop("rope_scaling")
    if not scaling:
        out.pop("rope_scaling", None)
        out.pop("rope_parameters", None)
    return out


def what_transformers_says(path):
    """(model, config, None), or (None, None, why) if it stops while it creates or first runs the module."""
    try:
        config = rm.parse(path)
        model = rm.build(config)
        for rotary in rm.rotary_modules(model):
            if not rotary.is_tower:
                axis = [0] * 512
                rm.run(rm.create_again(rotary.module), [0, 1], rm.layer_types_of(rotary.module)[0], axis)
    except Exception as why:
        return None, None, f"{type(why).__name__}: {str(why).splitlines()[0]}"
    return model, config, None


@pytest.mark.parametrize("kind", CLASSES)
def test_scalings_of_class(kind, tmp_path):
    """Agreement, or refusal.  transformers also stops for reasons that have nothing to do with positions; those are counted."""
    if kind not in rm.CONFIG_MAPPING:
        record(kind, "class not known", why=f"model_type {kind} is not among its classes")
        pytest.skip("not among its classes")
    pairs = int(64 * share_that_rotates(rm.CONFIG_MAPPING[kind]())) // 2
    agreed, stopped, differ = [], [], []
    for name, scaling in scalings(pairs).items():
        path = tmp_path / "config.json"
        path.write_text(json.dumps(small_config(kind, name, scaling)))
        model, config, why = what_transformers_says(path)
        try:
            reading = read_at_both_lengths(path)
        except Refused as refusal:
            reading, message = None, str(refusal)
        if model is None:
            stopped.append(f"{name}: {why}")
        elif reading is None and (kind, name) == ("mistral4", "default, base of the class"):
            stopped.append(f"{name}: {message}")  # the module runs, and the attention stops at what it makes
        elif reading is None:
            # su is a name that only Phi-3's classes know; the others ignore it by accident, and Gyre refuses it.
            if scaling.get("type") != "su":
                differ.append(f"{name}: Gyre refuses: {message}")
        else:
            try:
                compare_all(reading, model, config)
                agreed.append(name)
            except AssertionError as difference:
                differ.append(f"{name}: {str(difference).splitlines()[0]}")
    record(kind, "scalings", agreed=agreed, stopped=stopped)
    assert not differ, "\n".join(differ)


@pytest.mark.parametrize("method", ["linear", "ntk", "yarn", "llama3"])
@pytest.mark.parametrize("kind", ["ministral3", "mistral4"])
def test_written_over_defaults_of_class(kind, method, tmp_path):
    """Files without a rotation have that of the class, of which a written copy keeps the base, the share and the temperature."""
    if kind not in rm.CONFIG_MAPPING:
        pytest.skip("not among its classes")
    config = small_config(kind, "nothing", {})
    (tmp_path / "config.json").write_text(json.dumps(config))
    path = tmp_path / "longer" / "config.json"
    path.parent.mkdir()
    extend = ["extend", tmp_path / "config.json", "--to", "4m", "--method", method, "--write", path]
    if (kind, method) == ("mistral4", "ntk"):  # whose class makes angles of another width for a plain rotation
        with pytest.raises(Refused, match="mistral4 class computes angles for the whole head"):
            gyre(*extend)
        return
    gyre(*extend)
    model, config, why = what_transformers_says(path)
    assert model is not None, why
    assert compare_all(read_at_both_lengths(path), model, config)
    assert config.rope_parameters["llama_4_scaling_beta"] == 0.1
    assert config.rope_parameters["original_max_position_embeddings"] == {"ministral3": 16384, "mistral4": 8192}[kind]
