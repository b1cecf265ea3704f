"""Errors in the names, the shapes and the layouts that a caller in Python knows, and what is refused rather than taken."""

import importlib
import inspect
import re
from pathlib import Path

import gyre
import numpy as np
import pytest
from test_refusals import ROPE, random, refused


def test_shapes_are_shown_in_the_order_of_the_callers_axes() -> None:
    q, k = random(1, 4, 5, 32), random(1, 2, 7, 32)
    attend = gyre.attention
    out, lse = attend(q, k, k, lse=True)
    gradient = gyre.attention_gradient
    for call, text, field in (
        (lambda: attend(q, k, k, out=q[..., :31].copy()), r"out: has shape \[1, 4, 5, 31\], not \[1, 4, 5, 32\]", "out"),
        (lambda: attend(q, k, k, mask=random(3, 3)), r"mask: has shape \[3, 3\], not \[1, 4, 5, 7\]", "mask"),
        (lambda: attend(q, k, k, mask=random(4, 1, 5, 7)), r"mask: has shape \[4, 1, 5, 7\], not \[1, 4, 5, 7\]", "mask"),
        (lambda: attend(q, k[:, :0], k[:, :0]), r"k: has shape \[1, 0, 7, 32\], so no heads, in layout 'bhsd'", "k"),
        (lambda: attend(q, k, k[:, :, :3]), r"v: has shape \[1, 2, 3, 32\], not \[1, 2, 7, 32\]", "v"),
        (lambda: attend(q, k, k, sink_logits=random(3)), r"sink_logits: has shape \[3\], not \[4\]", "sink_logits"),
        (lambda: gradient(out[:, :3], q, k, k, out, lse), r"dout: has shape \[1, 3, 5, 32\], not \[1, 4, 5, 32\]", "dout"),
        (lambda: gradient(out, q, k, k, out[:, :3], lse), r"out: has shape \[1, 3, 5, 32\], not \[1, 4, 5, 32\]", "out"),
        (lambda: gradient(out, q, k, k, out, lse[:, :3]), r"lse: has shape \[1, 3, 5\], not \[1, 4, 5\]", "lse"),
        (lambda: gyre.sinusoidal(8).add(random(2, 3, 7)), "x: 7 channels, the encoding has 8", "x"),
        (lambda: gyre.alibi(4).add_bias(random(4, 5, 6), 5), r"scores: has shape \[4, 5, 6\], which does not end with 5", "scores"),
        (lambda: gyre.rerotate(random(1, 1, 2, 6), ROPE, shift=1), "k: 6 channels a head, old has 8", "k"),
    ):
        assert refused(call, text, field).status == "ESHAPE"
    mask = random(5, 7)
    np.testing.assert_array_equal(attend(q, k, k, mask=mask), attend(q, k, k, mask=np.broadcast_to(mask, (1, 4, 5, 7)).copy()))


def test_shapes_that_a_cache_does_not_take() -> None:
    cache, x = gyre.Cache(gyre.rope(32), heads=2, max_tokens=9), random(1, 2, 7, 32)
    cache.append(x, x)
    q = random(1, 4, 5, 32)
    for call, text, field in (
        (lambda: cache.attention(q[:, :3]), "q: 3 heads are not a multiple of the 2 key heads", "q"),
        (lambda: cache.attention(q[..., :8]), "q: 8 channels, but the cache has 32", "q"),
        (lambda: cache.attention(q, out=q[:, :3].copy()), r"out: has shape \[1, 3, 5, 32\], not \[1, 4, 5, 32\]", "out"),
        (lambda: cache.attention(q, mask=random(3, 3)), r"mask: has shape \[3, 3\], not \[1, 4, 5, keys\]", "mask"),
        (lambda: cache.append(q[:, :3], q[:, :3]), r"k: has shape \[1, 3, 5, 32\], so batch 1, 3 heads and 32 channels", "k"),
        (lambda: cache.append(x, x[:, :, :3]), "v: has 3 tokens, but k has 7", "v"),
        (lambda: cache.append(x[..., :8], x), r"k: has shape \[1, 2, 7, 8\]", "k"),
    ):
        assert refused(call, text, field).status == "ESHAPE"
    assert cache.tokens() == 7


def test_an_error_names_the_argument_of_python() -> None:
    rope, x, k = gyre.rope(32), random(1, 4, 5, 32), random(1, 2, 7, 32)
    cache = gyre.Cache(rope, heads=2, max_tokens=9)
    cache.append(k, k)
    th = random(5, 4, 32)
    starts = np.array([0, 3, 5])
    for call, field in (
        (lambda: rope.rotate(x, length=-1), "length"),
        (lambda: rope.cos_sin(3, length=-1), "length"),
        (lambda: gyre.attention(x, k, k, encoding=rope, length=-1), "length"),
        (lambda: gyre.alibi(4).bias(5, length=-1), "length"),
        (lambda: gyre.Cache(rope, heads=1, max_tokens=1, length=-1), "length"),
        (lambda: gyre.rerotate(x.copy(), rope, shift=1, length=-1), "length"),
        (lambda: gyre.rerotate(x.copy(), rope, shift=1, new_length=-1), "new_length"),
        (lambda: cache.append(k, k, length=-1), "length"),
        (lambda: gyre.attention(x, k, k, key_end=np.array([99])), "key_end"),
        (lambda: gyre.attention(x, k, k, key_first=np.array([-1])), "key_first"),
        (lambda: gyre.attention(th, th, th, query_starts=np.array([0, 3, 2]), key_starts=starts), "query_starts"),
        (lambda: gyre.attention(th, th, th, query_starts=starts, key_starts=np.array([0, 3, 9])), "key_starts"),
        (lambda: cache.fork(0, 5), "target"),
        (lambda: cache.fork(5, 0), "source"),
        (lambda: cache.remove(3, 9), "count"),
        (lambda: cache.remove(30, 1), "first"),
        (lambda: cache.shift(0, 9, 1), "count"),
        (lambda: cache.save("/nope/x"), "path"),
        (lambda: gyre.Cache.load("/nope"), "path"),
        (lambda: gyre.Encoding.from_config("/tmp"), "source"),
        (lambda: gyre.Encoding.from_config("/nope"), "source"),
        (lambda: gyre.Tokenizer.open("/nope"), "path"),
        (lambda: rope.row(0, 1), "encoding"),
    ):
        error = refused(call, ":", field)
        assert "context_length" not in error.text and not error.text.startswith(("q_", "k_", "to:", "from:")), error.text
    for dtype in ("f32", "float64", "int32"):
        text = f"dtype: is '{dtype}', not one of 'float32', 'float16', 'bfloat16', 'q8'$"
        refused(lambda dtype=dtype: gyre.Cache(rope, heads=1, max_tokens=1, dtype=dtype), f"^{text}", "dtype")
        refused(lambda dtype=dtype: gyre.Cache(rope, heads=1, max_tokens=1, value_dtype=dtype), f"^value_{text}", "value_dtype")


def test_an_error_of_the_command_names_the_argument_of_python(bundled_model: Path) -> None:
    model = gyre.open(bundled_model)
    config = bundled_model / "config.json"
    refused(lambda: model.context(8, cache="x"), "cache: is 'x', not one of 'float32', 'float16', 'bfloat16', 'q8'", "cache")
    refused(lambda: model.context(8).read([10**9]), "ids: token 0: 1000000000 is outside", "ids")
    refused(lambda: model.context(2).read([1, 2, 3]), "ids: no room", "ids")
    llama = {"model_type": "llama", "hidden_size": 64, "num_attention_heads": 4, "num_hidden_layers": 1}
    llama["max_position_embeddings"] = 512
    for call, field in (
        (lambda: gyre.extend(llama, to=0), "to"),
        (lambda: gyre.extend(llama, to=4096, methods=[]), "methods"),
        (lambda: gyre.extend(llama, to=4096, methods=["zz"]), "methods"),
        (lambda: gyre.extend(llama, to=4096, profile="zz"), "profile"),
        (lambda: gyre.extend(llama, to=4096, beta_fast=-1), "beta_fast"),
        (lambda: gyre.extend(llama, to=4096, layer_type="zz"), "layer_type"),
        (lambda: gyre.diff(config), "b"),
        (lambda: gyre.diff(config, with_profile="zz"), "with_profile"),
        (lambda: gyre.explain(config, profile="zz"), "profile"),
        (lambda: gyre.explain(config, length=-1), "length"),
    ):
        text = refused(call, ":", field).text
        assert "--" not in text and text.startswith(f"{field}: "), text
    told = {"contexts": [32], "progress": False}
    for more in ({"contexts": [0]}, {"contexts": []}, {"windows": 1.5}, {"threads": -1}, {"methods": []}, {"length_policy": ["zz"]}):
        (field,) = more
        text = refused(lambda more=more: model.perplexity("a text " * 99, **{**told, **more}), ":", field).text
        assert "--" not in text and text.startswith(f"{field}: "), text


def test_a_folder_without_a_model_is_not_opened(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "none"):
        with pytest.raises(gyre.FileError, match="path: (there is no config.json|.* does not exist)") as caught:
            gyre.open(path)
        assert caught.value.field == "path" and str(path) in caught.value.text


def test_truth_values_are_no_windows_and_no_shifts() -> None:
    x = random(1, 1, 4, 8)
    for window in (True, False, (True, 2), (1, 2, 3), [1]):
        refused(lambda window=window: gyre.attention(x, x, x, window=window), "window: is ", "window")
    refused(lambda: gyre.rerotate(x.copy(), ROPE, shift=True), "shift: is True, not a whole number", "shift")


def test_an_encoding_that_does_not_rotate_is_refused() -> None:
    """C has the identity; in Python, as in gyre.jax and in rerotate, asking for a rotation is a mistake."""
    x = random(1, 4, 3, 8)
    for encoding in (gyre.alibi(4), gyre.t5(4), gyre.shaw(8, max_distance=4), gyre.sinusoidal(8), gyre.nope()):
        for call in (lambda e=encoding: e.rotate(x), lambda e=encoding: e.rotate_pair(x, x)):
            error = refused(call, f"encoding: {encoding.kind} does not rotate: ", "encoding")
            assert error.status == "EUNSUPPORTED"


def test_methods_of_the_extension_have_signatures() -> None:
    for method in (gyre.Encoding.rotate, gyre.Encoding.rotate_pair, gyre.Encoding.add, gyre.Encoding.row, gyre.Cache.append):
        assert next(iter(inspect.signature(method).parameters)) == "self", method


def test_tensors_without_numbers_say_what_would_be_right() -> None:
    torch = pytest.importorskip("torch")
    x = torch.zeros(1, 2, 3, 8)
    refused(lambda: ROPE.rotate(x.to("meta")), "x: is on the meta device, so it has no numbers: pass one of the processor", "x")
    refused(lambda: ROPE.rotate(x, torch.arange(3, device="meta")), "positions: is on the meta device", "positions")
    refused(lambda: ROPE.rotate(x.to_sparse()), r"x: is not strided but sparse: pass x.to_dense\(\)", "x")
    refused(lambda: ROPE.rotate(x.to(torch.float8_e4m3fn)), "x: is of type float8, not float16, bfloat16", "x")


def test_a_signature_is_what_a_call_takes() -> None:
    """The text that help() shows is what the extension reads arguments by."""
    calls = (gyre.attention, gyre.adaptive_gradient, gyre.Cache.attention, gyre.Cache.shift, gyre.Cache.load, gyre.fourier_rotate)
    for call in calls:
        names = {name: p for name, p in inspect.signature(call).parameters.items() if name != "self"}
        required = [name for name, p in names.items() if p.default is p.empty]
        first = (gyre.Cache(ROPE, heads=1, max_tokens=4),) if "self" in inspect.signature(call).parameters else ()
        for name in names:
            with pytest.raises(gyre.Error if [name] == required else (TypeError, gyre.Error)) as caught:
                call(*first, **{name: object()})
            assert "unexpected" not in str(caught.value), (call, name)
        with pytest.raises(TypeError, match=rf"missing required argument '{required[0]}'"):
            call(*first)
        with pytest.raises(TypeError, match="unexpected keyword argument 'zz'"):
            call(*first, zz=1)
        with pytest.raises(TypeError, match=f"multiple values for argument '{required[0]}'"):
            call(*first, 1, **{required[0]: 1})
        with pytest.raises(TypeError, match="takes at most"):
            call(*first, *range(len(names) + 1))
    assert list(inspect.signature(gyre.Cache).parameters)[:3] == ["encoding", "heads", "max_tokens"]


def test_a_cache_takes_no_options_of_arrays() -> None:
    """They would be ignored: the cache has an encoding and the keys."""
    cache, x = gyre.Cache(ROPE, heads=1, max_tokens=4), random(1, 1, 1, 8)
    cache.append(x, x)
    for name in ("encoding", "key_positions", "query_starts", "key_starts", "dropout"):
        for call in (cache.attention, cache.adaptive_attention, cache.contextual_attention):
            if name == "query_starts" and call == cache.attention:  # a ragged batch: its keys are the cache's
                continue
            with pytest.raises(TypeError, match=f"unexpected keyword argument '{name}'"):
                call(x, **{name: None})


MEANT = {  # a name from elsewhere: (an argument of these calls, what is meant)
    "is_causal": (("attention", "torch.attention"), "causal"),
    "attn_mask": (("attention", "torch.attention"), "mask"),
    "cu_seqlens": (("attention", "torch.attention"), "query_starts and key_starts, which gyre.Batch.from_cu_seqlens has"),
    "cu_seqlens_q": (("attention", "torch.attention"), "query_starts and key_starts, which gyre.Batch"),
    "position_ids": (("attention", "torch.attention", "Encoding.rotate", "Encoding.cos_sin", "torch.rotate", "torch.rotate_pair"), "positions"),
    "attention_mask": (("Batch", "attention", "torch.attention"), "mask"),
    "theta": (("rope", "xpos"), "base"),
    "rope_theta": (("rope", "xpos"), "base"),
    "rotary_dim": (("rope", "xpos"), "dim"),
    "partial_rotary_factor": (("rope",), "dim, a number of channels"),
    "layuot": (("rope", "torch.rotate", "torch.attention", "torch.rotate_layer"), "layout"),
    "original_max_position_embeddings": (("rope", "Yarn", "LongRope"), "trained_length"),
    "max_new_tokens": (("Model.generate",), "max_tokens"),
    "frm": (("torch.RotaryEmbedding",), "form"),
}


@pytest.mark.parametrize("name", MEANT)
def test_arguments_from_elsewhere(name: str) -> None:
    x = np.zeros((1, 1, 4, 8), np.float32)
    for path in MEANT[name][0]:
        target: object = gyre
        for part in path.split("."):
            if part == "torch":
                pytest.importorskip("torch")
                importlib.import_module("gyre.torch")
            target = getattr(target, part)
        given = (ROPE, x) if path.startswith("Encoding") else (x,)
        for wrong, text in ((name, f"{name}'; did you mean {MEANT[name][1]}"), ("nonsense", "nonsense'$")):
            with pytest.raises(TypeError, match=f"unexpected keyword argument '{text}"):
                target(*given[: 0 if path in ("Yarn", "LongRope") else 2], **{wrong: 1})  # type: ignore[operator]


@pytest.mark.parametrize(
    ("call", "meant"),
    [
        (lambda: gyre.rope(64, scaling="YaRN", factor=2.0), "'yarn'"),
        (lambda: gyre.rope(64, scaling="LongRoPE"), "'longrope'"),
        (lambda: gyre.rope(64, scaling="dynamic_yarn"), "'dynamic-yarn'"),
        (lambda: gyre.rope(64, layout="neox"), "'half'"),
        (lambda: gyre.rope(64, layout="GPT-J"), "'interleaved'"),
        (lambda: gyre.Encoding(kind="RoPE"), "'rope'"),
        (lambda: gyre.Encoding.from_config({"model_type": "llama"}, profile="vLLM-2026.09"), "'vllm-2026.09'"),
        (lambda: gyre.Encoding.from_config({"model_type": "llama"}, profile="transformers"), "'hf-5'"),
        (lambda: gyre.Cache(ROPE, heads=1, max_tokens=1, dtype="bfloat_16"), "'bfloat16'"),
        (lambda: gyre.Encoding(**{"kind": "rope", "head_dim": 64, "rope.theta": 1e4}), "rope.base"),
        (lambda: gyre.rope(64).replace(theta=1e4), "rope.base"),
        (lambda: gyre.rope(64).replace(rope__rotary_dim=32), "rope.dim"),
    ],
)
def test_values_and_fields_from_elsewhere(call, meant) -> None:
    with pytest.raises(gyre.Error, match=re.escape(f"; did you mean {meant}?") + "$"):
        call()
    for nonsense in (lambda: gyre.rope(64, scaling="qqqq"), lambda: gyre.rope(64).replace(qqqq=1), lambda: gyre.rope(64, layout=7)):
        with pytest.raises(gyre.Error) as caught:
            nonsense()
        assert "did you mean" not in caught.value.text


def test_attributes_from_elsewhere() -> None:
    enc, model = gyre.rope(64), gyre.Model
    for owner, name, meant in (
        (gyre, "from_pretrained", "gyre.open for a model, gyre.Encoding.from_config"),
        (gyre, "inv_freq", "frequencies()"),
        (gyre, "profiles", "profile= of Encoding.from_config"),
        (gyre, "kinds", "gyre.fields() for the fields of a config"),
        (gyre, "YaRN", "Yarn?"),
        (gyre, "RoPE", "rope?"),
        (gyre, "longrope", "LongRope?"),
        (gyre.Encoding, "from_pretrained", "gyre.open for a model"),
        (model, "from_pretrained", "gyre.open for a model"),
        (enc, "inv_freq", "frequencies()?"),
        (enc, "theta", "config['rope.base']?"),
        (enc, "base", "config['rope.base']?"),
        (enc, "rotary_dim", "config['rope.dim']?"),
    ):
        with pytest.raises(AttributeError, match=re.escape(f"'{name}'; did you mean {meant}")):
            getattr(owner, name)
    q = random(1, 1, 2, 64)
    for without in (lambda: gyre.alibi(4, theta=1e4), lambda: gyre.attention(q, q, q, theta=1e4)):  # neither has a base
        with pytest.raises(TypeError, match="unexpected keyword argument 'theta'$"):
            without()
    with pytest.raises(TypeError, match=r"unexpected keyword argument 'positions'; did you mean position\?$"):
        gyre.PreparedAttention(q, q, q).run(positions=1)  # type: ignore[call-arg]
    for owner in (gyre, gyre.Encoding, model, enc):
        with pytest.raises(AttributeError, match="has no attribute 'qqqq'$"):
            owner.qqqq  # noqa: B018
        assert not hasattr(owner, "__dlpack__")
    torch = pytest.importorskip("torch")
    importlib.import_module("gyre.torch")
    with pytest.raises(AttributeError, match=r"'apply_rotary_pos_emb'; did you mean rotate_pair\?$"):
        gyre.torch.apply_rotary_pos_emb  # noqa: B018
    whole = torch.compile(lambda x: gyre.torch.rotate(x, enc, layout="bhsd"), fullgraph=True, backend="eager")
    assert whole(torch.zeros(1, 1, 2, 64)).shape == (1, 1, 2, 64)
