"""gyre.torch.patch and RotaryEmbedding in models of transformers."""

from __future__ import annotations

import copy
import io
import pickle
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import gyre
import gyre.torch as gt
import pytest
import torch
from torch_models import AXES, FAMILIES, NOT_PATCHED, WITH_TABLES, config_of, model_of

IDS = torch.arange(38).reshape(2, 19) * 37 % 128


def logits(model: torch.nn.Module, ids: torch.Tensor = IDS, **more: Any) -> torch.Tensor:
    with torch.no_grad():
        out: torch.Tensor = model(ids, **more)[0]
    return out


@pytest.mark.parametrize("name", [name for name in FAMILIES if name not in NOT_PATCHED])
def test_logits_are_equal_to_rounding(name: str) -> None:
    model = model_of(name)
    names = [n for n, _ in model.named_modules()]
    before = logits(model)
    turned: list[int] = []
    with gt.patch(model) as patched:
        assert patched.functions and (patched.hooks or patched.modules)
        patched_in_layers = bool(patched.hooks)
        for path in patched.modules:
            model.get_submodule(path).register_forward_hook(lambda *_: turned.append(1))
        after = logits(model)
        assert [n for n, _ in model.named_modules()] == names
    assert turned or patched_in_layers, "the patched module was not called"
    torch.testing.assert_close(after, before, rtol=1e-4, atol=1e-5)
    assert torch.equal(logits(model), before), "unpatched, the model is as it was"


@pytest.mark.parametrize("name", ["phi3-longrope", "llama-dynamic"])
def test_a_context_beyond_the_trained_one(name: str) -> None:
    changes = {"max_position_embeddings": 64} if name == "llama-dynamic" else {}
    model = model_of(name, **changes)
    ids = torch.arange(200)[None] * 37 % 128
    before = logits(model, ids)
    with gt.patch(model):
        torch.testing.assert_close(logits(model, ids), before, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["phi3-longrope", "llama-dynamic"])
def test_a_context_beyond_the_trained_one_states_its_length(name: str, tmp_path: Path) -> None:
    """Frequencies of a short context would be wrong without a word; with length=, logits are those of transformers."""
    model = model_of(name, **({"max_position_embeddings": 64} if name == "llama-dynamic" else {}))
    model.save_pretrained(tmp_path)
    ids = torch.arange(200)[None] * 37 % 128
    opened = gyre.open(tmp_path)
    found = torch.from_numpy(opened.context(200, length=200).read(ids[0].tolist()))
    torch.testing.assert_close(found[None], logits(model, ids), rtol=1e-4, atol=1e-5)
    short = torch.from_numpy(opened.context(200).read(ids[0, :60].tolist()))
    torch.testing.assert_close(short[None], logits(model, ids[:, :60]), rtol=1e-4, atol=1e-5)
    encoding = opened.encoding()
    x = torch.zeros(1, 1, 200, encoding.head_dim)
    for call in (
        lambda: opened.context(200).read(ids[0].tolist()),
        lambda: encoding.rotate(x),
        lambda: encoding.rotate_pair(x, x, torch.arange(200)),
        lambda: encoding.cos_sin(200),
        lambda: gt.rotate(x, encoding),
        lambda: gt.rotate_pair(x, x, encoding, torch.arange(200)),
        lambda: gt.attention(x, x, x, encoding=encoding),
    ):
        with pytest.raises(gyre.Error, match="is past the trained length, .*: pass length=, or set"):
            call()


@pytest.mark.parametrize("name", ["llama", "qwen3", "gemma", "phi3-longrope", "llama-dynamic", "olmo2", "cohere"])
def test_a_saved_model_computes_what_transformers_does(name: str, tmp_path: Path) -> None:
    """Logits, the vectors behind them, and the likeliest continuation; past the trained length too."""
    model = model_of(name, **({"max_position_embeddings": 64} if name == "llama-dynamic" else {}))
    model.save_pretrained(tmp_path)
    ids = torch.arange(100)[None] * 37 % 128
    with torch.no_grad():
        wanted = model(ids, output_hidden_states=True)
    opened = gyre.open(tmp_path)
    torch.testing.assert_close(torch.from_numpy(opened.logits(ids[0]))[None], wanted.logits, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(torch.from_numpy(opened.embeddings(ids[0]))[None], wanted.hidden_states[-1], rtol=1e-4, atol=1e-4)
    more = list(opened.generate(ids[0], max_tokens=9))
    if name != "llama-dynamic":  # transformers changes the frequencies with every token
        seen = logits(model, torch.cat([ids, torch.tensor([more])], 1))[0, 99:-1]
        assert len(more) == 9 and (seen[torch.arange(9), more] > seen.max(-1).values - 1e-4).all(), "each is the likeliest"


@pytest.mark.parametrize("trained", [16, 32, 64])
def test_a_dynamic_model_that_has_read_a_long_text(trained: int) -> None:
    """Its module keeps the frequencies of the longest text so far, which the check looks past and leaves as they are."""
    model = model_of("llama-dynamic", max_position_embeddings=trained)
    ids = torch.arange(200)[None] * 37 % 128
    before = logits(model, ids)
    kept = model.model.rotary_emb.inv_freq.clone()
    with gt.patch(model):
        torch.testing.assert_close(logits(model, ids), before, rtol=1e-4, atol=1e-5)
    assert torch.equal(model.model.rotary_emb.inv_freq, kept)
    if trained > 40:  # the positions of the check are those of a short text, which the original frequencies are for
        model.model.rotary_emb.original_inv_freq.mul_(1.5)
        with pytest.raises(gyre.Error, match="rotates otherwise than its config says"):
            gt.patch(model)


@pytest.mark.parametrize("name", ["llama-3.1", "gemma3", "gpt-neox", "cohere"])
def test_a_wrong_position_would_show(name: str) -> None:
    model = model_of(name)
    with gt.patch(model):
        right = logits(model)
        at = torch.arange(19)[None] * 3
        assert (logits(model, position_ids=at) - right).abs().max() > 1e-4
        torch.testing.assert_close(logits(model, position_ids=torch.arange(19).expand(2, -1)), right)
        uneven = torch.stack([torch.arange(19), torch.arange(19) + 7])
        shifted = logits(model, position_ids=uneven)
    torch.testing.assert_close(shifted, logits(model, position_ids=uneven), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", AXES)
def test_positions_of_three_axes(name: str) -> None:
    model = model_of(name)
    at = torch.stack([torch.arange(19), torch.arange(19) // 4, torch.arange(19) % 4])[:, None].expand(3, 2, 19).clone()
    at[:, 1] += 3
    before = logits(model, position_ids=at)
    assert (before - logits(model)).abs().max() > 1e-3
    with gt.patch(model):
        torch.testing.assert_close(logits(model, position_ids=at), before, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", WITH_TABLES)
def test_layers_with_tables(name: str) -> None:
    model, other = model_of(name), model_of(name)
    uneven = torch.stack([torch.arange(19) * 3, torch.arange(19) + 7])
    before, long = logits(model, position_ids=uneven), logits(model, torch.arange(300)[None] * 37 % 128)
    options: dict[str, Any] = {"max_new_tokens": 8, "do_sample": False, "eos_token_id": None}
    text = model.generate(IDS, **options)
    tables = [module.embed_positions for module in model.modules() if hasattr(module, "embed_positions")]
    assert tables
    with gt.patch(model):
        torch.testing.assert_close(logits(model, position_ids=uneven), before, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(logits(model, torch.arange(300)[None] * 37 % 128), long, rtol=1e-4, atol=1e-5)
        assert torch.equal(model.generate(IDS, **options), text)
        for table in tables:
            table.zero_()  # Gyre does not look at it
        torch.testing.assert_close(logits(model, position_ids=uneven), before, rtol=1e-4, atol=1e-5)
        assert torch.equal(logits(other, position_ids=uneven), before), "other models of the file are served as before"
    with pytest.raises(gyre.Error, match="tables differ from its config,|rotates otherwise than its config says"):
        gt.patch(model)


def test_gradients_are_equal() -> None:
    model = model_of("qwen2-yarn")

    def gradients() -> list[torch.Tensor]:
        model.zero_grad()
        model(IDS, labels=IDS).loss.backward()
        return [p.grad.clone() for p in model.parameters() if p.grad is not None]

    before = gradients()
    with gt.patch(model):
        for a, b in zip(gradients(), before, strict=True):
            torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-6)


def test_bfloat16_and_recomputed_layers(tmp_path: Any) -> None:
    """bfloat16: less than what one rounding of the logits, of about 0.5, may change; recomputing layers for a gradient."""
    from transformers import AutoModelForCausalLM

    model = model_of("llama-3.1")
    model.save_pretrained(tmp_path)
    short = AutoModelForCausalLM.from_pretrained(tmp_path, dtype=torch.bfloat16)
    before = logits(short)
    with gt.patch(short):
        torch.testing.assert_close(logits(short), before, rtol=0, atol=2**-6)
    model.train()
    model(IDS, labels=IDS).loss.backward()
    wanted = model.model.layers[0].self_attn.q_proj.weight.grad.clone()
    model.zero_grad()
    model.gradient_checkpointing_enable()
    with gt.patch(model):
        model(IDS, labels=IDS).loss.backward()
    torch.testing.assert_close(model.model.layers[0].self_attn.q_proj.weight.grad, wanted, rtol=1e-3, atol=1e-7)


def test_generation_and_compile() -> None:
    model = model_of("llama-3.1")
    options: dict[str, Any] = {"max_new_tokens": 8, "do_sample": False, "eos_token_id": None}
    before, right = model.generate(IDS, **options), logits(model)
    with gt.patch(model):
        assert torch.equal(model.generate(IDS, **options), before)
        compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
        torch.testing.assert_close(logits(compiled), right, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", WITH_TABLES)
def test_layers_with_tables_compile(name: str) -> None:
    """Whole where the model itself compiles whole; its own graph decides."""
    model = model_of(name)
    right = logits(model)
    torch._dynamo.reset()
    try:
        logits(torch.compile(model, fullgraph=True, backend="aot_eager"))
        whole = True
    except torch._dynamo.exc.Unsupported:
        whole = False
    torch._dynamo.reset()
    with gt.patch(model):
        compiled = torch.compile(model, fullgraph=whole, backend="aot_eager")
        torch.testing.assert_close(logits(compiled), right, rtol=1e-4, atol=1e-5)
        at = torch.stack([torch.arange(19) * 3, torch.arange(19) + 7])
        torch.testing.assert_close(logits(compiled, position_ids=at), logits(model, position_ids=at), rtol=1e-4, atol=1e-5)
    torch._dynamo.reset()


@pytest.mark.parametrize("name", ["llama", "gemma3", "gpt-j"])
def test_a_copy_of_a_patched_model_is_patched(name: str) -> None:
    model = model_of(name)
    right = logits(model)
    handle = gt.patch(model)
    other = copy.deepcopy(model)
    for path in handle.modules:
        assert type(other.get_submodule(path)) is type(model.get_submodule(path))
        assert other.get_submodule(path) is not model.get_submodule(path)
    torch.testing.assert_close(logits(other), right, rtol=1e-4, atol=1e-5)
    handle.remove()
    assert torch.equal(logits(model), right)
    torch.testing.assert_close(logits(other), right, rtol=1e-4, atol=1e-5)
    if name == "gpt-j":  # the copy looks at its tables no longer, so it is patched indeed
        for module in other.modules():
            if hasattr(module, "embed_positions"):
                module.embed_positions.mul_(2)
        torch.testing.assert_close(logits(other), right, rtol=1e-4, atol=1e-5)
        for module in other.modules():
            if hasattr(module, "embed_positions"):
                module.embed_positions.div_(2)
    with pytest.raises(gyre.Error, match="patched already"):
        gt.patch(other)
    gt.unpatch(other)
    assert torch.equal(logits(other), right)
    file = __import__(type(model).__module__, fromlist=["x"])
    assert not hasattr(file.apply_rotary_pos_emb, "gyre_original")


LOAD = """
import sys, torch
model, ids, right = torch.load(sys.argv[1], weights_only=False)
with torch.no_grad():
    torch.testing.assert_close(model(ids).logits, right, rtol=0, atol=0)
assert hasattr(sys.modules[type(model).__module__].apply_rotary_pos_emb, "gyre_original")
import gyre.torch
gyre.torch.unpatch(model)
assert not hasattr(sys.modules[type(model).__module__].apply_rotary_pos_emb, "gyre_original")
"""


@pytest.mark.parametrize("name", ["llama", "gemma3", "gpt-j"])
def test_a_saved_patched_model_is_patched_where_it_is_loaded(name: str, tmp_path: Path) -> None:
    """In this process, where its file is patched only by it, and in another."""
    model = model_of(name)
    file = sys.modules[type(model).__module__]
    right = logits(model)
    handle = gt.patch(model)
    patched = logits(model)
    torch.save((model, IDS, patched), tmp_path / "model.pt")
    handle.remove()
    other = torch.load(tmp_path / "model.pt", weights_only=False)[0]
    assert hasattr(file.apply_rotary_pos_emb, "gyre_original")
    assert torch.equal(logits(other), patched) and torch.equal(logits(model), right)
    sent = pickle.loads(pickle.dumps(other))
    gt.unpatch(other)
    assert torch.equal(logits(sent), patched) and torch.equal(logits(other), right)
    gt.unpatch(sent)
    assert torch.equal(logits(sent), right)
    assert not hasattr(file.apply_rotary_pos_emb, "gyre_original")
    told = subprocess.run([sys.executable, "-c", LOAD, tmp_path / "model.pt"], capture_output=True, text=True)
    assert told.returncode == 0, told.stderr


def test_packed_documents_are_those_of_transformers() -> None:
    """Its variable-length attention finds documents in position_ids, and these in Gyre's positions."""
    from transformers.modeling_flash_attention_utils import prepare_fa_kwargs_from_position_ids

    for lengths in ([5, 1, 1, 7], [3], [1, 1], [2, 9, 4]):
        ids = torch.cat([torch.arange(n) for n in lengths])[None]
        batch = gyre.Batch.from_position_ids(ids)
        (queries, keys), _ = prepare_fa_kwargs_from_position_ids(torch.from_numpy(batch.positions))
        assert batch.query_starts.tolist() == queries.tolist() and batch.key_starts.tolist() == keys.tolist()
        again = gyre.Batch.from_cu_seqlens(queries, keys)
        assert again.positions.tolist() == ids.tolist() and again.lengths.tolist() == lengths


def test_other_models_of_the_file_are_served_as_before() -> None:
    one, other = model_of("llama"), model_of("llama-3.1")
    before = logits(other)
    handle = gt.patch(one)
    assert torch.equal(logits(other), before)
    second = gt.patch(other)
    handle.remove()
    handle.remove()
    torch.testing.assert_close(logits(other), before, rtol=1e-4, atol=1e-5)
    gt.unpatch(other)
    assert torch.equal(logits(other), before)
    assert not second.modules
    import transformers.models.llama.modeling_llama as file

    assert not hasattr(file.apply_rotary_pos_emb, "gyre_original")


def test_patch_refuses_by_name() -> None:
    for name in NOT_PATCHED:
        with pytest.raises(gyre.Error, match="no rotary module with apply_rotary_pos_emb"):
            gt.patch(model_of(name))
    model = model_of("llama")
    with gt.patch(model), pytest.raises(gyre.Error, match="patched already"):
        gt.patch(model)
    with pytest.raises(gyre.Error, match="not patched"):
        gt.unpatch(model)
    model.model.rotary_emb.inv_freq *= 1.5
    with pytest.raises(gyre.Error, match="rotates otherwise than its config says.*audit"):
        gt.patch(model)


@pytest.mark.parametrize(
    ("kind", "share"),
    [("recurrent_gemma", 0.5), ("phi", 0.5), ("stablelm", 0.25), ("glm", 0.5), ("eurobert", 1), ("jina_embeddings_v3", 1)]
    + [("llama", 1), ("minimax", 1), ("nomic_bert", 1), ("phimoe", 1)],
)
def test_which_classes_read_a_share_of_the_head(kind: str, share: float) -> None:
    """partial_rotary_factor, which some classes of transformers do not look at where nothing is scaled."""
    from gyre.torch._own import own_module
    from transformers import AutoConfig

    given = 0.5 if share == 1 else share
    config = AutoConfig.for_model(kind, partial_rotary_factor=given, hidden_size=256, num_attention_heads=4, head_dim=64)
    own = own_module(config)
    assert own is not None
    pairs = own.channels // 2 if own.form in ("half", "interleaved") else own.channels
    assert pairs == gyre.Encoding.from_config(config).config["rope.dim"] // 2 == 32 * share


# -- RotaryEmbedding --


@pytest.mark.parametrize("name", [name for name in FAMILIES if name not in WITH_TABLES])
def test_the_module_is_a_drop_in(name: str) -> None:
    """In each family, whose modules return cos and sin in other forms; weights are large enough to show a wrong one."""
    model = model_of(name, initializer_range=0.5)
    inner = next(module for module in model.modules() if hasattr(module, "rotary_emb"))
    before = logits(model)
    inner.rotary_emb = new = gt.RotaryEmbedding.from_config(model.config)
    assert new.form == {"gpt-oss": "pairs", "llama4": "complex", "deepseek-v2": "complex"}.get(
        name, "interleaved" if name.startswith("cohere") else "half"
    )
    torch.testing.assert_close(logits(model), before, rtol=1e-3, atol=1e-3)
    report = gt.audit(model)
    assert report.ok and any(text.endswith(".form") for text in report.right), str(report)
    with pytest.raises(gyre.Error, match="has a gyre.torch.RotaryEmbedding"):
        gt.patch(model)


def test_a_form_that_the_model_does_not_take() -> None:
    model = model_of("cohere")
    model.model.rotary_emb = gt.RotaryEmbedding.from_config(model.config, form="half")
    (finding,) = gt.audit(model).findings
    assert finding.cause == "order" and "form='interleaved'" in finding.text, str(finding)
    model = model_of("gemma2")
    encoding = gyre.Encoding.from_config(model.config)
    model.model.rotary_emb = gt.RotaryEmbedding({"sliding_attention": encoding, "full_attention": encoding})
    assert [f.buffer for f in gt.audit(model).findings] == ["form"]
    for name in WITH_TABLES:
        with pytest.raises(gyre.Error, match="(has no rotary module|returns the sine before the cosine).*gyre.torch.patch"):
            gt.RotaryEmbedding.from_config(config_of(name))
    assert gt.RotaryEmbedding.from_config(config_of("cohere").to_dict()).form == "interleaved"
    with pytest.raises(gyre.Error, match="returns 64 channels for 8 pairs: use gyre.torch.patch"):
        gt.RotaryEmbedding.from_config({**config_of("llama").to_dict(), "model_type": "llama4"})


def test_the_module_refuses_what_it_cannot_do() -> None:
    rope = gyre.rope(8)
    with pytest.raises(gyre.Error, match="encoding: is an empty dict"):
        gt.RotaryEmbedding({})
    with pytest.raises(gyre.Error, match="x: is of type int64"):
        gt.RotaryEmbedding(rope)(torch.zeros(1, dtype=torch.int64), torch.arange(3)[None])
    dynamic = gt.RotaryEmbedding(gyre.rope(8, scaling="dynamic", factor=2.0, trained_length=16))
    assert dynamic(torch.zeros(1), torch.zeros(1, 0, dtype=torch.int64))[0].shape == (1, 0, 8)


def test_one_wrong_type_of_layers_is_enough() -> None:
    for name in ("sliding_attention", "full_attention"):
        model = model_of("gemma3")
        getattr(model.model.rotary_emb, f"{name}_inv_freq").mul_(0.5)
        with pytest.raises(gyre.Error, match="rotates otherwise than its config says"):
            gt.patch(model)


def test_patch_leaves_the_random_state_and_the_device_alone() -> None:
    model, layers = model_of("gemma3"), model_of("gpt-j")
    state = torch.get_rng_state()
    with torch.device("meta"), gt.patch(model), gt.patch(layers):
        pass
    assert torch.equal(torch.get_rng_state(), state)
    with pytest.raises(gyre.Error, match="model: is a NoneType"):
        gt.patch(None)  # type: ignore[arg-type]


def test_the_module_of_layers_that_differ() -> None:
    model = model_of("gemma3")
    before = logits(model)
    model.model.rotary_emb = gt.RotaryEmbedding.from_config(model.config)
    torch.testing.assert_close(logits(model), before, rtol=1e-4, atol=1e-5)
    with pytest.raises(gyre.Error, match="layer_type: 'nothing'"):
        model.model.rotary_emb(torch.zeros(1), torch.zeros(1, 1, dtype=torch.int64), "nothing")


def test_forms() -> None:
    encoding = gyre.rope(8, base=100.0)
    at, x = torch.arange(5)[None], torch.zeros(1)
    c, s = gt.RotaryEmbedding(encoding, form="pairs")(x, at)
    angles = at[..., None] * torch.from_numpy(encoding.frequencies())
    torch.testing.assert_close(c, angles.cos().float())
    half = gt.RotaryEmbedding(encoding)(x, at)
    assert torch.equal(half[0], torch.cat((c, c), -1)) and torch.equal(half[1], torch.cat((s, s), -1))
    assert torch.equal(gt.RotaryEmbedding(encoding, form="interleaved")(x, at)[1], s.repeat_interleave(2, -1))
    assert torch.equal(gt.RotaryEmbedding(encoding, form="complex")(x, at), torch.complex(c, s))
    for wrong in ([[0, 1]], 3, None):
        with pytest.raises(gyre.Error, match="position_ids: is a .*, not a tensor"):
            gt.RotaryEmbedding(encoding)(x, wrong)
    with pytest.raises(gyre.Error, match="x: is a float"):
        gt.RotaryEmbedding(encoding)(1.0, at)
    with pytest.raises(gyre.Error, match="form: 'quarter'"):
        gt.RotaryEmbedding(encoding, form="quarter")
    with pytest.raises(gyre.Error, match="alibi does not rotate"):
        gt.RotaryEmbedding(gyre.alibi(4))
    with pytest.raises(gyre.Error, match="not a gyre.Encoding"):
        gt.RotaryEmbedding("rope")  # type: ignore[arg-type]


TABLES = {
    "plain": gyre.rope(16),
    "yarn": gyre.rope(16, scaling=gyre.Yarn(factor=4, trained_length=64)),
    "dynamic": gyre.rope(16, scaling=gyre.DynamicNtk(factor=4, trained_length=300)),
    "axes": gyre.rope(16, axis_pairs=(4, 2, 2)),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("form", ["half", "interleaved", "pairs", "complex"])
@pytest.mark.parametrize("name", TABLES)
def test_a_table_has_the_same_bits(name: str, form: str, dtype: torch.dtype) -> None:
    """Within it, past it, below 0, past the trained length, and where axes differ."""
    plain, cached = gt.RotaryEmbedding(TABLES[name], form=form), gt.RotaryEmbedding(TABLES[name], form=form, cached=1000)
    x = torch.zeros(1, dtype=dtype)
    several = [[3]], [[0, 1, 2], [5, 255, 256]], [[299, 7]], [[998, 999]], [[999, 1000]], [[-1, 2]], [[1 << 20]], [[]]
    for at in [torch.tensor(one, dtype=whole) for one in several for whole in (torch.int64, torch.int32)]:
        for positions in (at.expand(3, *at.shape), torch.stack([at, at + 1, at])) if name == "axes" else (at,):
            a, b = plain(x, positions), cached(x, positions)
            for one, other in zip(*([[y] if form == "complex" else y for y in (a, b)]), strict=True):
                assert one.dtype == other.dtype and torch.equal(one, other), (positions, one, other)
    cached(x, torch.zeros((3, 1, 1) if name == "axes" else (1, 1), dtype=torch.int64))[0].zero_()
    again = torch.arange(4)[None].expand(3, 1, 4) if name == "axes" else torch.arange(4)[None]
    assert torch.equal(cached(x, again)[0], plain(x, again)[0]), "a result is no part of the table"


def test_a_table_is_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Angles are computed once for each doubling, past the trained length of a dynamic scaling in each call, and not kept."""
    from gyre.torch import _module

    computed: list[int] = []
    right = _module._cos_sin

    def count(at: torch.Tensor, *more: Any) -> Any:
        computed.append(at.shape[-1])
        return right(at, *more)

    monkeypatch.setattr(_module, "_cos_sin", count)
    module, x = gt.RotaryEmbedding(gyre.rope(16), cached=600), torch.zeros(1)
    for token in range(700):
        module(x, torch.tensor([[token]]))
    assert computed == [256, 512, 600] + [1] * 100
    for kept in (copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
        assert kept.cached == 600 and not kept._tables and module._tables and not module.state_dict()
    computed.clear()
    dynamic = gt.RotaryEmbedding(TABLES["dynamic"], cached=1000)
    for token in (3, 299, 300, 301):
        dynamic(x, torch.tensor([[token]]))
    assert computed == [256, 300, 1, 1]
    for wrong in (-1, 1.5, True, "x"):
        with pytest.raises(gyre.Error, match="cached: is "):
            gt.RotaryEmbedding(gyre.rope(16), cached=wrong)  # type: ignore[arg-type]


def test_a_model_with_a_table_generates_the_same(tmp_path: Path) -> None:
    model = model_of("llama-3.1")
    wanted = model.generate(IDS, max_new_tokens=9, do_sample=False)
    model.model.rotary_emb = gt.RotaryEmbedding.from_config(model.config, cached=64)
    assert torch.equal(model.generate(IDS, max_new_tokens=9, do_sample=False), wanted) and model.model.rotary_emb._tables
    compiled = torch.compile(model.model.rotary_emb, fullgraph=True, backend="aot_eager")
    at = torch.arange(7)[None]
    assert torch.equal(compiled(torch.zeros(1), at)[0], model.model.rotary_emb(torch.zeros(1), at)[0])


def test_nothing_spoils_the_module() -> None:
    encoding = gyre.rope(32, scaling="yarn", factor=4.0, trained_length=64)
    at, x = torch.tensor([[0, 1, 777, 100_000]]), torch.zeros(1)
    wanted = gt.RotaryEmbedding(encoding)(x, at)
    with torch.device("meta"):
        made_on_meta = gt.RotaryEmbedding(encoding)
    file = io.BytesIO()
    torch.save(made_on_meta, file)
    file.seek(0)
    for module in (
        made_on_meta,
        made_on_meta.to_empty(device="cpu"),
        gt.RotaryEmbedding(encoding).to(torch.bfloat16).float(),
        gt.RotaryEmbedding(encoding).half(),
        copy.deepcopy(gt.RotaryEmbedding(encoding)),
        torch.load(file, weights_only=False),
    ):
        assert not list(module.buffers()) and not list(module.parameters()) and not module.state_dict()
        for a, b in zip(module(x, at), wanted, strict=True):
            assert torch.equal(a, b)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(made_on_meta(x, at)[0], wanted[0])
    short = made_on_meta(x.bfloat16(), at)[0]
    assert short.dtype == torch.bfloat16 and torch.equal(short, wanted[0].bfloat16())
    assert made_on_meta(torch.zeros(1, device="meta"), torch.zeros(1, 4, dtype=torch.int64, device="meta"))[0].is_meta


def test_the_module_compiles_whole() -> None:
    module = gt.RotaryEmbedding(gyre.rope(32))
    compiled = torch.compile(module, fullgraph=True, backend="aot_eager")
    at = torch.arange(7)[None]
    assert torch.equal(compiled(torch.zeros(1), at)[0], module(torch.zeros(1), at)[0])
    torch.library.opcheck(torch.ops.gyre.cos_sin.default, (at, gyre.rope(32)._spec, 0))
    axes = gyre.rope(32, axis_pairs=(8, 4, 4))
    torch.library.opcheck(torch.ops.gyre.cos_sin.default, (at.expand(3, 2, 7), axes._spec, 0))


def test_a_model_loaded_on_meta_is_right(tmp_path: Any) -> None:
    """The whole way of torchtitan's backend: meta, to_empty, weights loaded; a module without buffers survives it."""
    model = model_of("qwen2-yarn")
    wanted, weights = logits(model), model.state_dict()
    with torch.device("meta"):
        from transformers import AutoModelForCausalLM

        empty = AutoModelForCausalLM.from_config(config_of("qwen2-yarn"))
    empty.model.rotary_emb = gt.RotaryEmbedding.from_config(empty.config)
    empty.to_empty(device="cpu").load_state_dict(weights)
    torch.testing.assert_close(logits(empty.eval()), wanted, rtol=1e-4, atol=1e-5)


def test_the_blocks_of_the_page_run_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """docs/torch.md, with a model and ids of a reader."""
    pytest.importorskip("jax")
    page = (Path(__file__).parent.parent.parent / "docs/torch.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", page, re.S)
    names: dict[str, Any] = {"model": model_of("llama"), "ids": torch.zeros(1, 4, dtype=torch.int64)}
    alone = {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0"}  # of a group of one process
    for name, value in alone.items():
        monkeypatch.setenv(name, value)
    assert len(blocks) == 12
    for block in blocks:
        exec(compile(block, "docs/torch.md", "exec"), names)  # noqa: S102
    assert names["report"].ok and names["bias"].shape == (8, 16, 16)
