"""Models that run: logits, tokens one by one, tokenizers."""

import json
from pathlib import Path
from typing import Any

import gyre
import gyre._command
import gyre._model
import numpy as np
import pytest

TEXT = "The quick brown fox jumps over the lazy dog."


def test_logits_do_not_depend_on_the_cut(bundled_model) -> None:
    model = gyre.open(bundled_model)
    ids = model.tokenizer().encode(TEXT)
    assert model.tokenizer().decode(ids) == TEXT
    whole = model.context(64).read(ids)
    assert whole.dtype == np.float32 and whole.shape == (len(ids), model.load().about()["vocab"])
    context = model.context(64)
    for i, token in enumerate(ids):
        np.testing.assert_array_equal(context.read([token])[0], whole[i])
    assert context.tokens == len(ids)
    context.truncate(5)
    np.testing.assert_array_equal(context.read(np.array(ids[5:9]), rows=1)[0], whole[8])
    nats = np.log(np.exp(whole.astype("f8")).sum(-1))[:-1] - whole[np.arange(len(ids) - 1), ids[1:]]
    assert nats.mean() < 4  # far below log 256


def test_a_model_reads_a_text_or_ids(bundled_model) -> None:
    model = gyre.open(bundled_model)
    ids = model.tokenizer().encode(TEXT)
    whole = model.context(64).read(ids)
    for given in (TEXT, ids, np.array(ids, "i4"), tuple(ids)):
        np.testing.assert_array_equal(model.logits(given), whole)
    np.testing.assert_array_equal(model.logits(ids, rows=2), whole[-2:])
    assert model.logits([]).shape == (0, 256)
    vectors = model.embeddings(TEXT)
    assert vectors.shape == (len(ids), 128) and vectors.dtype == np.float32
    np.testing.assert_array_equal(model.context(64).embed(ids), vectors)
    np.testing.assert_array_equal(model.embeddings(ids, rows=1), vectors[-1:])
    tied = np.linalg.lstsq(vectors.astype("f8"), whole.astype("f8"), rcond=None)[0]  # logits are a matrix of them
    np.testing.assert_allclose(vectors @ tied, whole, atol=2e-2)


def rounded(x: np.ndarray) -> np.ndarray:
    """To bfloat16, ties to even."""
    bits = x.view(np.uint32).astype(np.uint64)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16 << 16).astype(np.uint32).view(np.float32)


def stored(folder: Path, name: str) -> np.ndarray:
    """A tensor of bfloat16."""
    data = (folder / "model.safetensors").read_bytes()
    length = int.from_bytes(data[:8], "little")
    about = json.loads(data[8 : 8 + length])[name]
    assert about["dtype"] == "BF16"
    first, end = about["data_offsets"]
    numbers = np.frombuffer(data, np.uint16, (end - first) // 2, 8 + length + first)
    return (numbers.astype(np.uint32) << 16).view(np.float32).reshape(about["shape"])


def test_products_of_rounded_numbers(bundled_model, tmp_path) -> None:
    model = gyre.open(bundled_model)
    head = stored(bundled_model, "model.embed_tokens.weight").astype("f8")  # tied
    for products in ("f32", "bf16"):
        vectors, logits = model.embeddings(TEXT, products=products), model.logits(TEXT, products=products)
        exact, of_rounded = (x.astype("f8") @ head.T for x in (vectors, rounded(vectors)))
        wanted, other = (of_rounded, exact) if products == "bf16" else (exact, of_rounded)
        assert np.abs(logits - wanted).max() < 1e-4 < np.abs(logits - other).max()
        ids = model.tokenizer().encode(TEXT)
        np.testing.assert_array_equal(model.context(64, products=products).read(ids), logits)
    assert list(model.generate([115, 116], max_tokens=2, products="bf16"))
    result = model.perplexity(TEXT * 20, contexts=[256], windows=1, products="bf16", progress=False)
    assert result["products"] == "bf16" and 0 < abs(result["products_cost"]) < 0.01
    with pytest.raises(gyre.Error, match="products: is 'int8'"):
        model.context(4, products="int8")
    with pytest.raises(gyre.Error, match="products"):
        model.perplexity(TEXT * 20, products="int8", progress=False)
    write_mixtral(tmp_path)
    with pytest.raises(gyre.Error, match="products") as caught:
        gyre.open(tmp_path).logits([1], products="bf16")
    assert caught.value.status == "EUNSUPPORTED"


def generated(bundled_model: Path, *more: str) -> dict[str, Any]:
    """What `gyre generate --json` says."""
    out: dict[str, Any] = {}
    arguments = ["generate", str(bundled_model), "--prompt", "static int", "--tokens", "40", "--json", *more]
    out.update(json.loads(gyre._command.run(arguments)))
    return out


@pytest.mark.parametrize(
    ("options", "flags"),
    [
        ({}, []),
        ({"temperature": 0.9, "top_p": 0.95, "seed": 5}, ["--temperature", "0.9", "--top-p", "0.95", "--seed", "5"]),
        ({"temperature": 1.5, "top_k": 7}, ["--temperature", "1.5", "--top-k", "7"]),
        ({"cache": "q8", "order": "fixed"}, ["--cache", "q8", "--order", "fixed"]),
    ],
)
def test_a_model_generates_what_the_command_does(bundled_model, options, flags) -> None:
    model = gyre.open(bundled_model)
    wanted = generated(bundled_model, *flags)
    assert "".join(model.generate("static int", max_tokens=40, **options)) == wanted["text"]
    ids = model.tokenizer().encode("static int")
    assert list(model.generate(ids, max_tokens=40, **options)) == wanted["ids"]


def test_generation_is_a_stream(bundled_model) -> None:
    """A piece comes before the next token is computed, and characters are whole."""
    model = gyre.open(bundled_model)
    stream = model.generate("static int", max_tokens=1 << 20)
    assert [next(stream) for _ in range(9)] == list("erface in"), "a million tokens were not computed"
    long = TEXT * 30  # more than one read of the prompt
    ids = model.tokenizer().encode(long)
    assert next(model.generate(ids, max_tokens=1)) == int(model.logits(ids, rows=1)[0].argmax())
    tokens = iter([0xE2, 0x82, 0xAC, 0x21, 0xE2])
    assert list(gyre._model._pieces(model.tokenizer(), tokens)) == ["€", "!", "\ufffd"]


def test_the_token_that_ends_a_text_ends_it(bundled_model, monkeypatch: pytest.MonkeyPatch) -> None:
    """The model has none; a letter takes its place here."""
    model = gyre.open(bundled_model)
    assert model.tokenizer().begin is None and model.tokenizer().end is None
    whole = "".join(model.generate("static int", max_tokens=40))
    monkeypatch.setattr(gyre.Tokenizer, "end", ord(" "))
    assert "".join(model.generate("static int", max_tokens=40)) == whole.split(" ")[0] == "erface"
    assert bytes(model.generate(b"static int", max_tokens=40)) == b"erface", "bytes are ids here"
    assert "".join(model.generate("static int", max_tokens=40, ignore_end=True)) == whole


def test_errors_of_generation(bundled_model) -> None:
    model = gyre.open(bundled_model)
    for options, text in (
        ({"max_tokens": 0}, "max_tokens: is 0, not a number of tokens"),
        ({"max_tokens": 1.5}, "max_tokens: is 1.5, not a number of tokens"),
        ({"temperature": -1}, "temperature: is -1, not 0 or more"),
        ({"temperature": float("nan")}, "temperature: is nan, not 0 or more"),
        ({"top_p": 1.5}, "top_p: is 1.5, not between 0 and 1"),
        ({"top_k": -1}, "top_k: is -1, not a number of tokens"),
        ({"seed": 1 << 64}, "seed: is 18446744073709551616, not a whole number"),
        ({"order": "quick"}, "order: is 'quick', not 'fixed' or 'fast'"),
        ({"cache": "int4"}, "cache: is 'int4'"),
        ({"ignore_end": "no"}, "ignore_end: is 'no', not True or False"),
    ):
        with pytest.raises(gyre.Error, match=text) as caught:
            model.generate("a", **options)
        assert caught.value.field == next(iter(options))
    for prompt, text in (("", "has no token"), (3, "is neither a text nor"), ([1.5], "is neither a text nor"), ("\ud800", "is not a str")):
        with pytest.raises(gyre.Error, match=f"prompt: {text}"):
            model.generate(prompt)
    with pytest.raises(gyre.Error, match="prompt: token 0: 300 is outside the vocabulary"):
        next(model.generate([300]))
    with pytest.raises(gyre.Error, match="tokens: token 1: 300 is outside the vocabulary"):
        model.logits([1, 300])


def test_a_model_that_does_not_run_is_refused_at_once(tmp_path, configs, bundled_model) -> None:
    """By its config, without weights; a config alone is no model."""
    config = configs / "gpt-oss-20b.json"
    with pytest.raises(gyre.Error, match="gpt-oss-20b.json is a config without weights: pass the folder") as caught:
        gyre.open(config)
    assert (caught.value.status, caught.value.field) == ("EINVAL", "path")
    (tmp_path / "config.json").write_text((configs / "gemma-3n-e4b.json").read_text())
    with pytest.raises(gyre.Error, match='path: model_type: "gemma3n" is not run: docs/models.md lists the families that are.*read its positions') as caught:
        gyre.open(tmp_path)
    assert (caught.value.status, caught.value.field) == ("EUNSUPPORTED", "path")
    (tmp_path / "config.json").write_text((bundled_model / "config.json").read_text())
    opened = gyre.open(tmp_path)
    assert opened.encoding().head_dim == 32, "weights are read when they are needed"
    with pytest.raises(gyre.FileError, match="safetensors"):
        opened.logits([1])


def test_errors_of_models(bundled_model, configs) -> None:
    model = gyre.open(bundled_model)
    with pytest.raises(gyre.Error, match="ids: "):
        model.context(8).read("text")
    with pytest.raises(gyre.Error):
        model.context(8).read([256])
    with pytest.raises(gyre.Error):
        model.context(4).read([1, 2, 3, 4, 5])
    with pytest.raises(gyre.Error, match="tokens: is 3, not 0 .. 0"):
        model.context(4).truncate(3)
    with pytest.raises(gyre.Error, match="cache: is 'int4'"):
        model.context(4, cache="int4")
    with pytest.raises(gyre.Error):
        gyre.open(configs).load()
    with pytest.raises(gyre.Error):
        gyre.Tokenizer.open(configs / "llama-2-7b.json")


def write_mixtral(folder: Path) -> None:
    """A random model of two layers with four experts each, over bytes."""
    sizes = {"vocab_size": 256, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
             "num_key_value_heads": 2, "num_local_experts": 4, "num_experts_per_tok": 2, "max_position_embeddings": 128}
    shapes = {"model.embed_tokens": (256, 32), "model.norm": (32,), "lm_head": (256, 32)}
    for layer in range(2):
        at = f"model.layers.{layer}."
        shapes |= {at + "input_layernorm": (32,), at + "post_attention_layernorm": (32,), at + "block_sparse_moe.gate": (4, 32)}
        shapes |= {f"{at}self_attn.{name}_proj": (rows, 32) for name, rows in (("q", 32), ("k", 16), ("v", 16), ("o", 32))}
        for expert in range(4):
            shapes |= {f"{at}block_sparse_moe.experts.{expert}.{name}": (32, 48) if name == "w2" else (48, 32)
                       for name in ("w1", "w2", "w3")}  # fmt: skip
    random, head, data = np.random.default_rng(0), {}, b""
    for name, shape in shapes.items():
        numbers = (random.normal(size=shape) / shape[-1] ** 0.5).astype("<f4").tobytes()
        head[name + ".weight"] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + len(numbers)]}
        data += numbers
    text = json.dumps(head).encode()
    (folder / "model.safetensors").write_bytes(len(text).to_bytes(8, "little") + text + data)
    (folder / "config.json").write_text(json.dumps({"model_type": "mixtral", "rope_theta": 10000.0, **sizes}))


def test_commands_read_a_mixture_of_experts(tmp_path, bundled_model) -> None:
    write_mixtral(tmp_path)
    of_bytes = ["--tokenizer", str(bundled_model), "--json"]
    text, longer = tmp_path / "text", tmp_path / "longer"
    text.write_text((TEXT * 2)[:65])
    longer.write_text(TEXT * 30)
    ids = np.frombuffer(text.read_bytes(), "u1").astype("i4")
    logits = gyre.open(tmp_path).logits(ids).astype("f8")[:-1]
    bits = (np.log(np.exp(logits).sum(-1)) - logits[np.arange(64), ids[1:]]) / np.log(2)
    measured = json.loads(gyre._command.run(["eval", str(tmp_path), "--text", str(text), "--contexts", "64", "--protocol", "truncate",
                                             *of_bytes]))  # fmt: skip
    assert measured["results"][0]["bits_per_token"] == pytest.approx(bits.mean(), rel=1e-5)
    found = json.loads(gyre._command.run(["passkey", str(tmp_path), "--lengths", "400", "--depths", "2", *of_bytes]))
    assert [len(result["trials"]) for result in found["results"]] == [10, 10]
    advice = json.loads(gyre._command.run(["extend", str(tmp_path), "--to", "256", "--text", str(longer), *of_bytes]))
    assert advice["verdict"]["cost"]["near"] == 128
