"""The advice of `gyre extend`, judged by the engines that it is for: llama.cpp gets the flags, transformers the config.

A model reads a window of twice its trained length, once by Gyre under the method itself and once by the engine as the page
says; the nats of every token are compared.  Where the page says that an engine differs, they must differ.
GYRE_REAL names the folder of scripts/real-models; without it only the tiny random models run."""

import json
import os
import shlex
import sys
from pathlib import Path

import llama_cpp
import numpy
import pytest
import torch
import transformers

import gyre

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "python"))
from judges import tokenizer_files  # noqa: E402
from judges.gyre_command import gyre as command  # noqa: E402

transformers.logging.set_verbosity_error()
TRAINED, LENGTH = 64, 128
METHODS = ["none", "linear", "ntk", "ntk-mixed", "llama3", "dynamic", "by-parts", "yarn", "dynamic-yarn", "rerope", "leaky:2",
           "self-extend:2", "dca"]
SIZES = {"hidden_size": 64, "intermediate_size": 112, "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2,
         "max_position_embeddings": TRAINED, "initializer_range": 0.3}
# Those that gyre convert writes as a GGUF, and others.
FAMILIES = {"llama": {}, "mistral": {"sliding_window": None}, "qwen2": {}, "qwen3": {"head_dim": 16}}
ONLY_TRANSFORMERS = {"olmo2": {}, "phi3": {"pad_token_id": 0}, "gemma": {"head_dim": 16}, "granite": {}}
# Nats; both compute in f32 from the same numbers.  Most are within 1e-4.
CLOSE = {"transformers": 1e-3, "llama.cpp": 1e-3}
APART = 5e-2


def nats(logits, ids):
    """Of each token after the one whose logits come before it."""
    rows = numpy.asarray(logits, dtype=numpy.float64)[: len(ids) - 1]
    peak = rows.max(axis=1)
    total = peak + numpy.log(numpy.exp(rows - peak[:, None]).sum(axis=1))
    return total - rows[numpy.arange(len(rows)), ids[1 : len(rows) + 1]]


# -- the engines --
def by_transformers(folder, ids, keys=None):
    config = json.loads((folder / "config.json").read_text())
    for name, value in (keys or {}).items():
        config[name] = value
    loaded = transformers.AutoConfig.for_model(**config)
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, config=loaded, dtype=torch.float32).eval()
    with torch.no_grad():
        return nats(model(torch.tensor([ids[:-1]])).logits[0].numpy(), ids)


SCALINGS = {"none": 0, "linear": 1, "yarn": 2}


def by_llama_cpp(path, ids, flags=()):
    """flags: the words of llama-server that come after the model."""
    settings = {}
    names = {"--ctx-size": ("n_ctx", int), "--rope-freq-base": ("rope_freq_base", float), "--yarn-orig-ctx": ("yarn_orig_ctx", int),
             "--yarn-beta-fast": ("yarn_beta_fast", float), "--yarn-beta-slow": ("yarn_beta_slow", float),
             "--yarn-attn-factor": ("yarn_attn_factor", float), "--yarn-ext-factor": ("yarn_ext_factor", float),
             "--rope-scaling": ("rope_scaling_type", SCALINGS.__getitem__), "--rope-scale": ("rope_freq_scale", lambda x: 1 / float(x))}
    for flag, value in zip(flags[::2], flags[1::2], strict=True):
        name, read = names[flag]
        settings[name] = read(value)
    model = llama_cpp.Llama(str(path), **{"n_ctx": LENGTH, **settings}, n_batch=len(ids), n_ubatch=len(ids), logits_all=True, type_k=0,
                            type_v=0, flash_attn=False, n_threads=2, verbose=False)
    model.eval(ids[:-1])
    return nats(model.scores[: len(ids) - 1], ids)


# -- Gyre --
def by_gyre(path, ids, method, folder):
    """The method itself, not what a file says of it."""
    window = folder / "ids"
    window.write_text(" ".join(map(str, ids)))
    run = json.loads(command("eval", path, "--ids", window, "--contexts", LENGTH, "--windows", 1, "--first", "--methods", method,
                             "--by-position", LENGTH, "--json"))
    return numpy.array(run["results"][0]["by_position"])


def advice(path, method, *options):
    page = json.loads(command("extend", path, "--to", LENGTH, "--methods", method, "--json", *options))
    return page["verdict"]["engines"], page["methods"][0]["readers"]


def flags_of(line):
    """Those of a line for llama-server."""
    words = shlex.split(line)
    assert words[:2] == ["llama-server", "-m"]
    return words[3:]


def agree(engine, mine, theirs):
    assert mine.shape == theirs.shape
    print(f"{engine}: at most {numpy.abs(mine - theirs).max():.2g} nats apart")
    assert numpy.abs(mine - theirs).max() < CLOSE[engine]


# -- tiny random models --
def make_model(folder, family, settings):
    tokenizer = tokenizer_files.byte_level(tokenizer_files.QWEN_2)
    config = transformers.AutoConfig.for_model(family, vocab_size=tokenizer.get_vocab_size(), **SIZES, **settings)
    torch.manual_seed(1)
    model = transformers.AutoModelForCausalLM.from_config(config).eval()
    with torch.no_grad():
        for name, tensor in model.named_parameters():
            if "norm" not in name and tensor.dim() > 1:
                tensor.mul_(0.5)
    model.save_pretrained(folder)
    tokenizer.save(str(folder / "tokenizer.json"))
    return folder


@pytest.fixture(scope="module", params=[*FAMILIES, *ONLY_TRANSFORMERS])
def tiny(request, tmp_path_factory):
    family = request.param
    folder = tmp_path_factory.mktemp("engines") / family
    make_model(folder, family, {**FAMILIES, **ONLY_TRANSFORMERS}[family])
    return family, folder


def window_of(folder):
    generator = numpy.random.default_rng(1)
    vocab = json.loads((folder / "config.json").read_text())["vocab_size"]
    return generator.integers(2, vocab, LENGTH + 1).tolist()


def test_a_wrong_method_would_be_seen(tiny, tmp_path):
    _, folder = tiny
    ids = window_of(folder)
    plain = by_gyre(folder, ids, "none", tmp_path)
    for method in ("linear", "ntk", "yarn"):
        assert numpy.abs(by_gyre(folder, ids, method, tmp_path) - plain).max() > APART


@pytest.mark.parametrize("method", METHODS)
def test_transformers(tiny, method, tmp_path):
    """The keys that the page prints; and where it says that transformers differs, the config that states the method."""
    _, folder = tiny
    engines, _ = advice(folder, method)
    ids = window_of(folder)
    mine = by_gyre(folder, ids, method, tmp_path)
    if engines["transformers"]["says"] == "same":
        agree("transformers", mine, by_transformers(folder, ids, engines["transformers"]["keys"]))
    elif engines["transformers"]["says"] == "differs":
        # Of the methods here Dual Chunk Attention: its key is read by vLLM, and left alone by transformers.
        chunks = {"chunk_size": TRAINED, "local_size": TRAINED // 2, "original_max_position_embeddings": TRAINED}
        keys = {"max_position_embeddings": LENGTH, "dual_chunk_attention_config": chunks}
        assert numpy.abs(mine - by_transformers(folder, ids, keys)).max() > APART
    else:
        pytest.skip(f"transformers cannot: {engines['transformers']['why']}")


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("tiny", FAMILIES, indirect=True)
def test_llama_cpp(tiny, method, tmp_path):
    """The flags that the page prints, with the model as it is; or the file that the page lets one write."""
    _, folder = tiny
    engines, _ = advice(folder, method)
    ids = window_of(folder)
    mine = by_gyre(folder, ids, method, tmp_path)
    says = engines["llama.cpp"]
    if says["says"] != "same":
        pytest.skip(f"llama.cpp cannot: {says['why']}")
    source, flags = folder, []
    if says["command"].startswith("gyre extend"):
        source = tmp_path / "stretched"
        source.mkdir()
        for path in folder.iterdir():
            if path.name != "config.json":
                (source / path.name).symlink_to(path)
        command("extend", folder, "--to", LENGTH, "--method", method, "--write", source / "config.json")
    else:
        flags = flags_of(says["command"])
    command("convert", source, "-o", tmp_path / "model.gguf", "--dtype", "f32")
    agree("llama.cpp", mine, by_llama_cpp(tmp_path / "model.gguf", ids, flags))


def test_llama_cpp_differs(tmp_path):
    """Why the page gives no flags for by-parts: YaRN's attention factor comes with its ramp, and no flag takes it back."""
    folder = make_model(tmp_path / "model", "llama", {})
    engines, readers = advice(folder, "by-parts")
    assert engines["llama.cpp"]["says"] == "no" and "attention factor" in readers["llama.cpp"]["why"]
    ids = window_of(folder)
    command("convert", folder, "-o", tmp_path / "model.gguf", "--dtype", "f32")
    flags = flags_of(advice(folder, "yarn")[0]["llama.cpp"]["command"])
    theirs = by_llama_cpp(tmp_path / "model.gguf", ids, [*flags, "--yarn-attn-factor", "0.5"])
    assert numpy.abs(theirs - by_llama_cpp(tmp_path / "model.gguf", ids, flags)).max() < CLOSE["llama.cpp"]
    assert numpy.abs(theirs - by_gyre(folder, ids, "by-parts", tmp_path)).max() > APART


# -- a published model --
@pytest.fixture(scope="module")
def published(tmp_path_factory):
    """The model, and its numbers in f32: with Q4_1 llama.cpp rounds activations to 8 bits before it multiplies."""
    path = Path(os.environ["GYRE_REAL"]) / "SmolLM2-135M-Instruct.Q4_1.gguf"
    plain = tmp_path_factory.mktemp("published") / "f32.gguf"
    command("convert", path, "-o", plain, "--dtype", "f32")
    yield path, plain
    plain.unlink()


@pytest.mark.skipif("GYRE_REAL" not in os.environ, reason="GYRE_REAL names no folder of models")
@pytest.mark.parametrize("method", ["none", "linear", "ntk", "yarn"])
def test_published_model(published, method, tmp_path):
    """As if it had been trained on 64 tokens: the flags in llama.cpp, and in Gyre the file that `gyre extend` writes."""
    path, plain = published
    trained = [] if method == "none" else ["--trained", TRAINED]
    ids = gyre.open(path).tokenizer().encode(Path("/usr/share/common-licenses/GPL-3").read_text())[: LENGTH + 1]
    flags = flags_of(advice(path, method, *trained)[0]["llama.cpp"]["command"])
    written = path
    if method != "none":
        written = tmp_path / "written.gguf"
        command("extend", path, *trained, "--to", LENGTH, "--method", method, "--write", written)
    mine = nats(gyre.open(written).context(LENGTH, length=LENGTH).read(ids[:-1]), ids)
    agree("llama.cpp", mine, by_llama_cpp(plain, ids, flags))
    if method != "none":
        assert numpy.abs(mine - nats(gyre.open(path).context(LENGTH).read(ids[:-1]), ids)).max() > 10 * CLOSE["llama.cpp"]
