"""Files that Gyre writes, read by the gguf and safetensors packages and by transformers."""

import json
import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest

if "GYRE_JUDGES" not in os.environ:
    pytest.skip("ci/run judges runs it", allow_module_level=True)

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
gguf = pytest.importorskip("gguf")
safetensors = pytest.importorskip("safetensors")

from safetensors.torch import load_file, save_file  # noqa: E402

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "reference"))
import gguf_blocks  # noqa: E402
from judges import tokenizer_files  # noqa: E402
from judges.gyre_command import GYRE, gyre  # noqa: E402
from test_families import LLAMA3, make_model  # noqa: E402

FAMILIES = {
    "llama": ("llama", {"rope_parameters": LLAMA3}, "gemma, metaspace never"),
    "llama, biases": ("llama", {"tie_word_embeddings": True}, "llama3"),
    "mistral": ("mistral", {"sliding_window": 16}, "llama2"),
    "qwen2": ("qwen2", {}, "qwen2"),
    "qwen3": ("qwen3", {"head_dim": 32}, "qwen2"),
}
# The greatest error of a value, relative to the greatest of its block of 32 for q8.
ROUNDING = {"f32": 0.0, "f16": 2.0**-11, "bf16": 2.0**-8, "q8": 1 / 254 + 2.0**-11}
NAMES = {"model.embed_tokens.weight": "token_embd.weight", "model.norm.weight": "output_norm.weight", "lm_head.weight": "output.weight"}
OF_LAYER = {"input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm", "self_attn.q_proj": "attn_q",
            "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output",
            "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm", "mlp.gate_proj": "ffn_gate",
            "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down"}


def make_folder(name, folder):
    """A tiny model and a tokenizer as transformers saves them."""
    kind, changes, of_tokenizer = FAMILIES[name]
    tokenizer = tokenizer_files.READ[of_tokenizer]()
    sizes = {"vocab_size": tokenizer.get_vocab_size(), "hidden_size": 128, "intermediate_size": 160}
    model = make_model(kind, sizes | changes)
    model.save_pretrained(folder)
    tokenizer.save(str(folder / "tokenizer.json"))
    return model, tokenizer


def gguf_name(name):
    if name in NAMES:
        return NAMES[name]
    _, _, layer, rest = name.split(".", 3)
    part, end = rest.rsplit(".", 1)
    return f"blk.{layer}.{OF_LAYER[part]}.{end}"


def permuted(matrix, heads):
    """Rows of a llama's query or key as llama.cpp has them: pairs side by side instead of in halves."""
    return matrix.reshape(heads, 2, -1, *matrix.shape[1:]).swapaxes(1, 2).reshape(matrix.shape)


def value_of(field):
    return field.contents()


def expected_tensors(model):
    """GGUF name -> float32 values, with the order of rows that llama.cpp has."""
    config, out = model.config, {}
    for name, weight in model.state_dict().items():
        if name == "lm_head.weight" and config.tie_word_embeddings:
            continue
        value = weight.float().numpy()
        if config.model_type in ("llama", "mistral") and (".q_proj." in name or ".k_proj." in name):
            value = permuted(value, config.num_attention_heads if ".q_proj." in name else config.num_key_value_heads)
        out[gguf_name(name)] = value
    return out


def error_of(got, want, dtype):
    """The greatest error, relative as ROUNDING counts it."""
    if dtype != "q8":
        return (np.abs(got - want) / np.maximum(np.abs(want), 2.0**-14)).max()
    blocks = want.reshape(-1, 32)
    return (np.abs(got - want).reshape(-1, 32).max(1) / np.abs(blocks).max(1)).max()


@pytest.mark.parametrize("dtype", ROUNDING)
@pytest.mark.parametrize("name", FAMILIES)
def test_gguf(name, dtype, tmp_path):
    model, tokenizer = make_folder(name, tmp_path / "hf")
    gyre("convert", tmp_path / "hf", "-o", tmp_path / "model.gguf", "--dtype", dtype)
    reader = gguf.GGUFReader(tmp_path / "model.gguf")
    keys, config = {key: value_of(field) for key, field in reader.fields.items()}, model.config
    arch = keys["general.architecture"]
    assert arch == {"mistral": "llama"}.get(config.model_type, config.model_type)
    assert keys[f"{arch}.block_count"] == config.num_hidden_layers
    assert keys[f"{arch}.embedding_length"] == config.hidden_size
    assert keys[f"{arch}.feed_forward_length"] == config.intermediate_size
    assert keys[f"{arch}.attention.head_count"] == config.num_attention_heads
    assert keys[f"{arch}.attention.head_count_kv"] == config.num_key_value_heads
    assert keys[f"{arch}.rope.freq_base"] == pytest.approx(config.rope_parameters["rope_theta"])
    assert keys[f"{arch}.attention.layer_norm_rms_epsilon"] == pytest.approx(config.rms_norm_eps)
    expected, seen = expected_tensors(model), set()
    for tensor in reader.tensors:
        values = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
        if tensor.name == "rope_freqs.weight":
            continue
        want = expected[tensor.name]
        assert values.shape == want.shape, tensor.name
        is_vector = want.ndim == 1
        kind = "f32" if is_vector else dtype
        assert tensor.tensor_type.name == {"q8": "Q8_0"}.get(kind, kind.upper()), tensor.name
        assert error_of(values.astype(np.float32), want, kind) <= ROUNDING[kind], tensor.name
        seen.add(tensor.name)
    assert seen == set(expected)
    by_id = sorted(tokenizer.get_vocab().items(), key=lambda item: item[1])
    assert keys["tokenizer.ggml.tokens"] == [token for token, _ in by_id]
    if keys["tokenizer.ggml.model"] == "gpt2":
        merges = json.loads(tokenizer.to_str())["model"]["merges"]
        assert keys["tokenizer.ggml.merges"] == [" ".join(pair) for pair in merges]


def random_blocks(rng, name, rows, columns):
    """[rows][bytes of a row], of finite scales."""
    count, size = gguf_blocks.sizes(name)
    blocks = rng.integers(0, 256, (rows * columns // count, size), dtype=np.uint8)
    for byte in gguf_blocks.CLEARED[name]:
        blocks[:, byte] &= 0xBF
    return blocks.reshape(rows, -1)


def write_blocks(source, path, name):
    """A copy of a GGUF whose matrices are random blocks.  Returns their names and numbers."""
    reader, rng, wanted = gguf.GGUFReader(source), np.random.default_rng(len(name)), {}
    writer = gguf.GGUFWriter(path, arch="llama")
    for key, field in reader.fields.items():
        if not key.startswith("GGUF.") and key != "general.architecture":
            kinds = field.types + [None]
            writer.add_key_value(key, field.contents(), kinds[0], kinds[1] if kinds[0] == gguf.GGUFValueType.ARRAY else None)
    for tensor in reader.tensors:
        shape = tensor.data.shape
        if len(shape) != 2:
            writer.add_tensor(tensor.name, np.array(tensor.data))
            continue
        blocks = random_blocks(rng, name, *shape)
        numbers = gguf_blocks.dequantize(name, blocks.reshape(-1, gguf_blocks.sizes(name)[1])).reshape(shape)
        wanted[tensor.name] = numbers
        writer.add_tensor(tensor.name, blocks, raw_dtype=gguf.GGMLQuantizationType[name])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return wanted


@pytest.mark.parametrize("name", sorted(set(gguf_blocks.CLEARED) - set(gguf_blocks.OTHER_SIZES)))
def test_blocks(name, tmp_path):
    """Random blocks of every stored type, in files of the gguf package, become the floats of its dequantize to the bit."""
    model = make_model("llama", {"hidden_size": 256, "intermediate_size": 512, "vocab_size": 64})
    model.save_pretrained(tmp_path / "hf")
    gyre("convert", tmp_path / "hf", "-o", tmp_path / "f32.gguf", "--dtype", "f32")
    wanted = write_blocks(tmp_path / "f32.gguf", tmp_path / "blocks.gguf", name)
    gyre("convert", tmp_path / "blocks.gguf", "-o", tmp_path / "floats.gguf", "--dtype", "f32")
    for tensor in gguf.GGUFReader(tmp_path / "floats.gguf").tensors:
        if tensor.name in wanted:
            want = wanted.pop(tensor.name)
            assert np.array_equal(np.array(tensor.data).view(np.uint32), want.view(np.uint32)), tensor.name
    assert not wanted


def test_llama3_factors_in_a_gguf(tmp_path):
    """llama.cpp takes Llama 3's scaling from a tensor of divisors."""
    model, _ = make_folder("llama", tmp_path / "hf")
    gyre("convert", tmp_path / "hf", "-o", tmp_path / "model.gguf")
    reader = gguf.GGUFReader(tmp_path / "model.gguf")
    factors = next(t for t in reader.tensors if t.name == "rope_freqs.weight").data
    rotary = model.model.rotary_emb
    dim = model.config.head_dim
    plain = model.config.rope_parameters["rope_theta"] ** -(np.arange(0, dim, 2) / dim)
    assert np.abs(plain / factors / rotary.inv_freq.double().numpy() - 1).max() < 1e-5


@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16"])
@pytest.mark.parametrize("name", FAMILIES)
def test_safetensors_and_back(name, dtype, tmp_path):
    """Folder to GGUF to folder: safetensors opens it, transformers computes the same logits with it."""
    model, _ = make_folder(name, tmp_path / "hf")
    gyre("convert", tmp_path / "hf", "-o", tmp_path / "model.gguf", "--dtype", dtype)
    gyre("convert", tmp_path / "model.gguf", "-o", tmp_path / "back")
    kinds = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}
    tensors, state = load_file(tmp_path / "back/model.safetensors"), model.state_dict()
    for key, tensor in tensors.items():
        want = state[key]
        assert tensor.shape == want.shape, key
        kind = kinds[dtype] if want.dim() > 1 else torch.float32
        assert tensor.dtype == kind and torch.equal(tensor, want.to(kind)), key
    tied = {"lm_head.weight"} if model.config.tie_word_embeddings else set()
    assert set(tensors) == set(state) - tied
    again = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "back", dtype=torch.float32).eval()
    tokens = torch.arange(3, 40)[None]
    with torch.no_grad():
        if name == "mistral":  # a llama's GGUF has no window, of which gyre convert warns
            model.config.sliding_window = None
        rounded = type(model)(model.config).eval()
        rounded.load_state_dict({key: value.to(kinds[dtype] if value.dim() > 1 else torch.float32).float() for key, value in state.items()})
        got, want = again(tokens).logits, rounded(tokens).logits
    assert (got - want).abs().max() <= 1e-4 * want.abs().max()


def test_window_of_a_mistral_is_warned_of(tmp_path):
    make_folder("mistral", tmp_path / "hf")
    arguments = [GYRE, "convert", tmp_path / "hf", "-o", tmp_path / "model.gguf"]
    done = subprocess.run(arguments, capture_output=True, text=True, check=True)
    assert "sliding_window: llama.cpp has none for a llama, whose all layers see 16 of" in done.stderr


def test_shards_are_read(tmp_path):
    """What safetensors and transformers write in shards, Gyre reads whole."""
    model, _ = make_folder("qwen2", tmp_path)
    model.save_pretrained(tmp_path, max_shard_size="200KB")
    (tmp_path / "model.safetensors").unlink(missing_ok=True)
    assert len(list(tmp_path.glob("model-*.safetensors"))) > 1
    gyre("convert", tmp_path, "-o", tmp_path / "back")
    tensors = load_file(tmp_path / "back/model.safetensors")
    assert all(torch.equal(tensor, model.state_dict()[key]) for key, tensor in tensors.items())


def test_metadata_is_read(tmp_path):
    """A file with metadata and an odd order of tensors."""
    model, _ = make_folder("qwen2", tmp_path)
    state = {key: value.clone().contiguous() for key, value in reversed(model.state_dict().items())}
    save_file(state, tmp_path / "model.safetensors", metadata={"format": "pt", "note": "ä" * 33})
    gyre("convert", tmp_path, "-o", tmp_path / "back")
    assert set(load_file(tmp_path / "back/model.safetensors")) == set(state)
