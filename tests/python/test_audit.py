"""gyre.torch.audit: finds each known way in which rotary buffers go wrong, and nothing in models that are right.

The bugs are those of transformers #45902, torchtitan #4783 and unsloth #4112, made again with tiny random models.
"""

from __future__ import annotations

import inspect
import json
import pickle
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gyre
import gyre.torch as gt
import pytest
import torch
import transformers
from torch import nn
from torch_models import FAMILIES, WITH_TABLES, class_of, config_of, model_of
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS


@pytest.fixture
def filled() -> Iterator[None]:
    """Memory that nothing was written to holds NaN: what happens to lie there would make the tests a matter of luck."""
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


def causes(report: gt.Audit) -> dict[str, str]:
    return {f"{f.module}.{f.buffer}": f.cause for f in report.findings}


@pytest.mark.parametrize("name", list(FAMILIES))
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_right_model_is_right(name: str, dtype: torch.dtype, tmp_path: Path) -> None:
    """Each family, made and saved and loaded, in float32 and in bfloat16, whose buffers stay float32."""
    made = model_of(name)
    made.save_pretrained(tmp_path)
    loader = class_of(name)
    for model in (made, loader.from_pretrained(tmp_path, dtype=dtype)):
        report = gt.audit(model)
        assert report.ok and not report.findings and not report.skipped, str(report)
        assert len(report.right) >= (1 if name in WITH_TABLES else 4)


@pytest.mark.parametrize(
    "changes",
    [
        {"global_head_dim": 32},
        {"head_dim": 32, "global_head_dim": 16},
        {"global_head_dim": 32, "num_hidden_layers": 12, "layer_types": (["sliding_attention"] * 5 + ["full_attention"]) * 2},
    ],
)
def test_heads_of_two_sizes(changes: dict[str, Any]) -> None:
    """Gemma 4's full layers have heads of global_head_dim channels, whatever it is."""
    model = model_of("gemma4", **changes)
    report = gt.audit(model)
    assert report.ok, str(report)
    for module in model.modules():
        if hasattr(module, "full_attention_inv_freq"):
            module.full_attention_inv_freq.mul_(1.5)
    assert causes(gt.audit(model)) == {"model.rotary_emb.full_attention_inv_freq": "other"}


@pytest.mark.parametrize("name", ["llama", "cohere", "gemma3", "phi", "gpt-oss"])
def test_right_numbers_in_another_form(name: str) -> None:
    """A rotary module that returns cos and sin as the model's functions do not take them changes its logits."""
    model = model_of(name)
    inner = next(module for module in model.modules() if hasattr(module, "rotary_emb"))
    kind = type(inner.rotary_emb)
    ids = torch.arange(19)[None]
    right = model(ids)[0]

    class Other(kind):  # type: ignore[misc, valid-type]
        def forward(self, *given: Any, **more: Any) -> Any:
            both = super().forward(*given, **more)
            pairs = both[0].shape[-1] // 2
            if name == "cohere":  # [c0 c0 c1 c1 ..] becomes [c0 c1 .. c0 c1 ..]
                return tuple(x[..., 0::2].repeat(1, 1, 2) for x in both)
            if name == "gpt-oss":  # numbers of pairs are doubled
                return tuple(x.repeat(1, 1, 2) for x in both)
            return tuple(x[..., :pairs].repeat_interleave(2, -1) for x in both)

    inner.rotary_emb.__class__ = type("Same", (kind,), {})
    assert gt.audit(model).ok
    inner.rotary_emb.__class__ = Other
    if name != "gpt-oss":  # whose functions fail
        assert (model(ids)[0] - right).abs().max() > 1e-4
    report = gt.audit(model)
    assert not report.ok and set(causes(report).values()) <= {"order", "shape"}, str(report)


def test_a_right_model_stays_right_when_used() -> None:
    """Frequencies that are computed again for a long context are right too, and so is the way back."""
    for name in ("llama-dynamic", "phi3-longrope"):
        model = model_of(name, max_position_embeddings=128) if name == "llama-dynamic" else model_of(name)
        before = {k: v.clone() for k, v in model.named_buffers()}
        for tokens in (300, 50, 400):
            with torch.no_grad():
                model(torch.zeros(1, tokens, dtype=torch.int64))
            assert gt.audit(model).ok, str(gt.audit(model))
        live = dict(model.named_buffers())
        assert any(not torch.equal(live[k], v) for k, v in before.items()), "the long context changed nothing"
        kept = {k: v.clone() for k, v in live.items()}
        gt.audit(model)
        assert all(torch.equal(v, kept[k]) for k, v in model.named_buffers()), "audit changed the model"


# -- transformers #45902: meta, to_empty, and nothing that computes the buffers again --


@pytest.mark.parametrize("name", ["qwen3-moe", "llama-3.1", "gemma3", "gpt-oss", "gpt-j"])
def test_transformers_45902(name: str, filled: None) -> None:
    right = model_of(name)
    with torch.device("meta"):
        model = transformers.AutoModelForCausalLM.from_config(right.config)
    on_meta = gt.audit(model)
    assert not on_meta.ok and set(causes(on_meta).values()) == {"meta"}
    model.to_empty(device="cpu")
    model.load_state_dict(right.state_dict())
    report = gt.audit(model)
    found = causes(report)
    buffers = [n for n, _ in model.named_buffers() if n.endswith(("inv_freq", "embed_positions"))]
    assert buffers and found == {n: "uninitialised" for n in buffers}, str(report)
    assert all(f.position == 0 for f in report.findings)
    assert "uninitialised memory" in str(report) and f"{len(buffers)} wrong of" in str(report)


def test_finite_garbage_is_named() -> None:
    """What an allocator gives: bits of other tensors, small integers as denormals, zeros."""
    for garbage in (torch.randn(8) * 3, torch.arange(8).to(torch.int32).view(torch.float32), torch.zeros(8)):
        model = model_of("qwen3-moe")
        model.model.rotary_emb.inv_freq.copy_(garbage)
        (finding,) = gt.audit(model).findings
        assert finding.cause == "uninitialised" and finding.buffer == "inv_freq" and finding.module == "model.rotary_emb"


# -- torchtitan #4783: the loop that computes inv_freq again looks for an attribute that is gone --


def test_torchtitan_4783(filled: None) -> None:
    config = config_of("qwen2-yarn")
    with torch.device("meta"):
        model = transformers.AutoModelForCausalLM.from_config(config)
    model.to_empty(device="cpu")
    again = 0
    for module in model.modules():  # the loop of init_states, as it was for transformers 4.57
        rope_init_fn = getattr(module, "rope_init_fn", None)
        if rope_init_fn is not None:
            module.inv_freq, module.attention_scaling = rope_init_fn(module.config, "cpu")
            again += 1
    assert again == 0
    assert causes(gt.audit(model)) == {
        "model.rotary_emb.inv_freq": "uninitialised",
        "model.rotary_emb.original_inv_freq": "uninitialised",
    }
    rotary = model.model.rotary_emb  # the fix: both buffers, by the function of the rope type
    inv_freq, _ = ROPE_INIT_FUNCTIONS["yarn"](config, "cpu")
    rotary.inv_freq.copy_(inv_freq)
    assert causes(gt.audit(model)) == {"model.rotary_emb.original_inv_freq": "uninitialised"}
    rotary.original_inv_freq.copy_(inv_freq)
    assert gt.audit(model).ok


# -- unsloth #4112: a rotary module without original_inv_freq, which from_pretrained leaves as memory came --


class OwnRotaryEmbedding(nn.Module):
    """A rotary module in the manner of unsloth: inv_freq alone, computed when it is made."""

    inv_freq: torch.Tensor

    def __init__(self, config: Any, device: Any = None) -> None:
        super().__init__()
        self.config = config
        dim = config.hidden_size // config.num_attention_heads
        inv_freq = 1.0 / (10000.0 ** (torch.arange(0, dim, 2).float() / dim))
        self.register_buffer("inv_freq", inv_freq, persistent=False)

    def forward(self, x: torch.Tensor, position_ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        angles = position_ids[..., None].float() * self.inv_freq
        angles = torch.cat((angles, angles), -1)
        return angles.cos().to(x.dtype), angles.sin().to(x.dtype)


def test_unsloth_4112(filled: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import transformers.models.llama.modeling_llama as file

    monkeypatch.setattr(file, "LlamaRotaryEmbedding", OwnRotaryEmbedding)
    made = model_of("llama")
    assert gt.audit(made).ok, "made directly, it is right"
    made.save_pretrained(tmp_path)
    model = transformers.AutoModelForCausalLM.from_pretrained(tmp_path)
    report = gt.audit(model)
    assert causes(report) == {"model.rotary_emb.inv_freq": "uninitialised"}, str(report)
    for module in model.modules():  # unsloth's fix
        if isinstance(module, OwnRotaryEmbedding):
            module.inv_freq = OwnRotaryEmbedding(model.config).inv_freq
    assert gt.audit(model).ok


# -- other ways --


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", ["llama", "llama-3.1", "qwen2-yarn", "gemma3"])
def test_rounded_buffers(name: str, dtype: torch.dtype) -> None:
    model = model_of(name).to(dtype)  # .to converts buffers; from_pretrained(dtype=...) does not
    for again in (model, model.float()):  # back in float32, the bits stay lost
        report = gt.audit(again)
        assert report.findings and set(causes(report).values()) == {"rounded"}, str(report)
        assert all(str(dtype).removeprefix("torch.") in f.text for f in report.findings)
        for f in report.findings:
            assert f.difference is not None and 1e-5 < f.difference < (0.04 if dtype == torch.float16 else 0.004)
            assert f.position is not None and f.position > 1


def test_the_first_wrong_position_is_where_angles_part() -> None:
    model = model_of("llama").to(torch.bfloat16)
    rounded = model.model.rotary_emb.inv_freq.double()
    exact = torch.from_numpy(gyre.rope(16).frequencies())
    finding = gt.audit(model).findings[0]
    assert finding.position is not None
    gap = (rounded - exact).abs().max()
    assert finding.position * gap >= 0.01 > (finding.position - 1) * gap


@pytest.mark.parametrize("name", ["llama-linear", "llama-3.1", "qwen2-yarn"])
def test_scaling_twice_and_not_at_all(name: str) -> None:
    model = model_of(name)
    rotary = model.model.rotary_emb
    plain = torch.from_numpy(10000.0 ** (-torch.arange(8).double() / 8).numpy()).float()
    if name == "llama-3.1":
        plain = (500000.0 ** (-torch.arange(8).double() / 8)).float()
    scaled = rotary.inv_freq.clone()
    rotary.inv_freq.copy_(scaled * scaled / plain)
    assert causes(gt.audit(model)) == {"model.rotary_emb.inv_freq": "twice"}
    rotary.inv_freq.copy_(plain)
    assert causes(gt.audit(model)) == {"model.rotary_emb.inv_freq": "not applied"}
    rotary.inv_freq.copy_(scaled * 0.5)
    assert causes(gt.audit(model)) == {"model.rotary_emb.inv_freq": "factor"}
    rotary.inv_freq.copy_(scaled)
    assert gt.audit(model).ok


def test_another_base() -> None:
    model = model_of("llama")
    model.model.rotary_emb.inv_freq.copy_(torch.from_numpy(gyre.rope(16, base=5e5).frequencies()))
    (finding,) = gt.audit(model).findings
    assert finding.cause == "base" and "500000" in finding.text and "10000" in finding.text


def test_the_attention_factor() -> None:
    model = model_of("qwen2-yarn")
    rotary = model.model.rotary_emb
    factor = rotary.attention_scaling
    for value, cause in ((factor**2, "twice"), (1.0, "not applied"), (1.5, "factor")):
        rotary.attention_scaling = value
        assert causes(gt.audit(model)) == {"model.rotary_emb.attention_scaling": cause}
    rotary.attention_scaling = factor
    assert gt.audit(model).ok


class AppliesTheFactorAgain(nn.Module):
    """Buffers are right, but forward multiplies cos and sin once more."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.config = inner.config
        self.register_buffer("inv_freq", inner.inv_freq, persistent=False)
        self.attention_scaling = inner.attention_scaling
        self.inner = [inner]

    def forward(self, x: torch.Tensor, position_ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        cosine, sine = self.inner[0](x, position_ids)
        return cosine * self.attention_scaling, sine * self.attention_scaling


def test_a_factor_that_forward_applies_twice() -> None:
    model = model_of("qwen2-yarn")
    model.model.rotary_emb = AppliesTheFactorAgain(model.model.rotary_emb)
    (finding,) = gt.audit(model).findings
    assert finding.cause == "twice" and finding.buffer == "forward()" and finding.position == 0


def test_a_length_switch_that_is_not_taken() -> None:
    """LongRoPE and dynamic NTK without the part of forward that looks at the context length."""
    for name in ("phi3-longrope", "llama-dynamic"):
        model = model_of(name)
        rotary = model.model.rotary_emb
        assert gt.audit(model).ok
        plain_forward = inspect.unwrap(type(rotary).forward)  # without no_grad and dynamic_rope_update
        wrong = type("StaticRotaryEmbedding", (type(rotary),), {"forward": plain_forward})
        rotary.__class__ = wrong
        (finding,) = gt.audit(model).findings
        assert finding.cause == "switch" and finding.buffer == "forward()", str(finding)
        assert "512" in finding.text or "1024" in finding.text


def test_a_switch_taken_for_good() -> None:
    """original_inv_freq of the long context: the short one never comes back."""
    model = model_of("phi3-longrope")
    rotary = model.model.rotary_emb
    long = 1 / (torch.tensor(FAMILIES["phi3-longrope"][1]["rope_parameters"]["long_factor"]) * 1e4 ** (torch.arange(8) / 8))
    rotary.original_inv_freq.copy_(long)
    assert causes(gt.audit(model)) == {"model.rotary_emb.original_inv_freq": "switch"}


class Rounded(OwnRotaryEmbedding):
    """A forward that rounds positions to bfloat16, from `first` on."""

    first = 0

    def forward(self, x: torch.Tensor, position_ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        rounded = position_ids.to(torch.bfloat16).to(position_ids.dtype)
        return super().forward(x, torch.where(position_ids < self.first, position_ids, rounded))


@pytest.mark.parametrize("length", [64, 256, 4096, 65536])
def test_the_first_wrong_position_of_a_forward(length: int) -> None:
    model = nn.Module()
    model.config = config_of("llama", max_position_embeddings=length)
    model.rotary = Rounded(model.config)
    (finding,) = gt.audit(model).findings
    assert (finding.buffer, finding.position) == ("forward()", 257), str(finding)
    model.rotary.first = 3000
    (finding,) = gt.audit(model).findings
    assert (finding.buffer, finding.position) == ("forward()", 3000), str(finding)


def test_audit_refuses_what_means_nothing() -> None:
    model = model_of("llama")
    with pytest.raises(gyre.Error, match="config: the model has its own"):
        gt.audit(model, config_of("llama-3.1"))
    assert gt.audit(model, model.config).ok
    with pytest.raises(gyre.Error, match="profile"):
        gt.audit(model, profile="zz")


class Cached(nn.Module):
    """A rotary module of the old kind, with tables; positions is the type in which angles are computed."""

    def __init__(self, config: Any, positions: torch.dtype = torch.float32, dtype: torch.dtype = torch.float32) -> None:
        super().__init__()
        self.config = config
        inv_freq = 1.0 / (10000.0 ** (torch.arange(0, 16, 2).float() / 16))
        angles = torch.outer(torch.arange(512).to(positions).float(), inv_freq)
        angles = torch.cat((angles, angles), -1)
        self.register_buffer("cos_cached", angles.cos().to(dtype), persistent=False)
        self.register_buffer("sin_cached", angles.sin().to(dtype), persistent=False)


def test_tables_of_cos_and_sin() -> None:
    model = nn.Module()
    model.config = config_of("llama")
    for dtype in (torch.float32, torch.bfloat16):
        model.rotary = Cached(model.config, dtype=dtype)
        assert gt.audit(model).ok
    model.rotary = Cached(model.config, positions=torch.bfloat16)
    (finding,) = gt.audit(model).findings
    assert (finding.cause, finding.position) == ("positions", 257), str(finding)
    model.rotary = Cached(model.config)
    model.rotary.cos_cached[300:] = 7.0
    (finding,) = gt.audit(model).findings
    assert (finding.cause, finding.position) == ("uninitialised", 300)
    model.rotary = Cached(model.config)
    model.rotary.sin_cached[400:] *= -1
    (finding,) = gt.audit(model).findings
    assert (finding.cause, finding.position) == ("other", 400)


def test_only_the_wrong_module_of_several_is_named() -> None:
    model = model_of("gemma3")
    model.model.rotary_emb.full_attention_inv_freq *= 0.25
    assert causes(gt.audit(model)) == {"model.rotary_emb.full_attention_inv_freq": "factor"}


def test_modules_of_gyre_are_audited_too() -> None:
    model = model_of("qwen2-yarn")
    model.model.rotary_emb = gt.RotaryEmbedding.from_config(model.config)
    assert gt.audit(model).ok
    model.model.rotary_emb = gt.RotaryEmbedding(gyre.rope(16))
    assert causes(gt.audit(model)) == {"model.rotary_emb.forward()": "not applied"}


def test_what_cannot_be_compared_is_said() -> None:
    model = nn.Sequential(OwnRotaryEmbedding(config_of("llama")))
    del model[0].config
    report = gt.audit(model)
    assert (
        not report.ok and not report.findings and "0.inv_freq" in report.skipped[0] and "nothing was compared" in str(report)
    )
    assert gt.audit(model, config_of("llama")).ok
    with pytest.raises(gyre.Error, match="model: is a dict"):
        gt.audit({})  # type: ignore[arg-type]


class TakesPositions(nn.Module):
    """A rotary module whose second argument has another name; off: its forward turns by another factor."""

    def __init__(self, config: Any, off: float = 1.0) -> None:
        super().__init__()
        self.inner, self.off, self.config = [OwnRotaryEmbedding(config)], off, config
        self.register_buffer("inv_freq", self.inner[0].inv_freq, persistent=False)

    def forward(self, x: torch.Tensor, pos: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        result: tuple[torch.Tensor, torch.Tensor] = self.inner[0](x, pos * self.off)
        return result


class TakesALength(TakesPositions):
    def forward(self, x: torch.Tensor, seq_len: Any = None) -> tuple[torch.Tensor, torch.Tensor]:
        return super().forward(x, torch.arange(int(seq_len))[None])


class TakesOnlyX(TakesPositions):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:  # type: ignore[override]
        return super().forward(x, torch.arange(x.shape[1])[None])


class TakesByName(TakesPositions):
    def forward(self, x: torch.Tensor, *, position_ids: torch.Tensor) -> Any:  # type: ignore[override]
        return super().forward(x, position_ids)


def test_a_forward_whose_positions_have_another_name() -> None:
    model = nn.Module()
    model.config = config_of("llama")
    model.rotary = TakesPositions(model.config)
    report = gt.audit(model)
    assert report.ok and "rotary.forward()" in report.right, str(report)
    model.rotary = TakesPositions(model.config, off=0.5)
    report = gt.audit(model)
    assert not report.ok and [f.buffer for f in report.findings] == ["forward()"], str(report)


@pytest.mark.parametrize("kind", [TakesALength, TakesOnlyX, TakesByName])
def test_a_forward_that_cannot_be_checked_is_never_ok(kind: type[TakesPositions]) -> None:
    model = nn.Module()
    model.config = config_of("llama")
    for off in (1.0, 0.5):
        model.rotary = kind(model.config, off)
        report = gt.audit(model)
        assert not report.ok and not report.findings and report.right == ["rotary.inv_freq"], str(report)
        assert "rotary.forward()" in report.skipped[0] and "not compared" in str(report)


# -- the command --


@pytest.mark.slow
def test_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from gyre.torch._audit import main

    folder = str(tmp_path)
    assert main([folder]) == 2 and "there is no" in capsys.readouterr().err
    assert main([]) == 2 and "one MODEL is needed" in capsys.readouterr().err
    assert main(["--what", folder]) == 2 and "no option --what" in capsys.readouterr().err
    assert main(["--help"]) == 0 and "usage" in capsys.readouterr().out
    model_of("qwen2-yarn").save_pretrained(tmp_path)
    done = subprocess.run([sys.executable, "-m", "gyre", "audit", "--buffers", folder], capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "right    model.rotary_emb.inv_freq" in done.stdout, done.stderr
    assert main([folder, "--as=hf-4.43", "--json"]) == 3  # to that version, YaRN is not known: no scaling is what it means
    assert {f["buffer"] for f in json.loads(capsys.readouterr().out)["findings"]} > {"inv_freq"}
    (tmp_path / "model.safetensors").unlink()
    assert main([folder, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["ok"]


def test_a_corrupt_file_of_weights_is_one_line(tmp_path: Path) -> None:
    model_of("llama").save_pretrained(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"\x10\0\0\0\0\0\0\0{not json at all")
    command = [sys.executable, "-m", "gyre", "audit", "--buffers", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2 and "Traceback" not in done.stderr, done.stderr
    assert "gyre: MODEL: " in done.stderr


# -- one tolerance, and causes that are the causes --


def llama_with(change: Any = None, forward: Any = None) -> nn.Module:
    """A Llama whose inv_freq a function changed, or whose rotary module has another forward."""
    model = model_of("llama")
    rotary = model.model.rotary_emb
    if change is not None:
        change(rotary)
    if forward is not None:
        own = type(rotary).forward
        other = type("Other", (type(rotary),), {"forward": lambda self, x, position_ids: forward(own, self, x, position_ids)})
        rotary.__class__ = other
    return model


@pytest.mark.parametrize("off", [0.0, 4e-6, -4e-6, 9e-6, 1.2e-5, -1.2e-5])
def test_frequencies_and_results_have_one_tolerance(off: float) -> None:
    report = gt.audit(llama_with(lambda rotary: rotary.inv_freq.mul_(1 + off)))
    assert report.ok == (abs(off) < 1e-5), str(report)
    if report.ok:
        assert "model.rotary_emb.forward()" in report.right, str(report)


def set_first(value: float) -> Any:
    def change(rotary: Any) -> None:
        rotary.inv_freq[0] = value

    return change


def of_base(base: float) -> Any:
    def change(rotary: Any) -> None:
        n = rotary.inv_freq.numel()
        rotary.inv_freq = torch.tensor([base ** (-i / n) for i in range(n)])

    return change


def whole(rotary: Any) -> None:
    rotary.inv_freq = rotary.inv_freq.to(torch.int64)


@pytest.mark.parametrize(
    ("change", "cause", "text"),
    [
        (lambda rotary: rotary.inv_freq.mul_(1 + 1e-4), "factor", r"is the config's times 1\.0001"),
        (lambda rotary: rotary.inv_freq.mul_(1 + 3e-5), "factor", r"is the config's times 1\.00003"),
        (set_first(1 + 2e-5), "other", r"pair 0 is 1\.00002.*, not 1$"),
        (of_base(9900.0), "base", "has the base 9900, the config means 10000"),
        (of_base(10001.0), "base", "has the base 10001, the config means 10000"),
        (lambda rotary: rotary.inv_freq.neg_(), "sign", "has the other sign"),
        (whole, "dtype", "is of type int64"),
    ],
)
def test_the_cause_of_frequencies(change: Any, cause: str, text: str) -> None:
    (finding,) = (f for f in gt.audit(llama_with(change)).findings if f.buffer == "inv_freq")
    assert finding.cause == cause and re.search(text, finding.text), str(finding)


def scaled(own: Any, self: Any, x: Any, at: Any) -> Any:
    cosine, sine = own(self, x, at)
    return cosine * 1.5, sine * 1.5


@pytest.mark.parametrize(
    ("forward", "cause", "text"),
    [
        (lambda own, self, x, at: (own(self, x, at)[0], -own(self, x, at)[1]), "sign", "sin with the other sign: it rotates in"),
        (lambda own, self, x, at: (-own(self, x, at)[0], own(self, x, at)[1]), "sign", "cos with the other sign"),
        (lambda own, self, x, at: own(self, x, at + 1), "positions", "at positions that are 1 too large"),
        (lambda own, self, x, at: own(self, x, at - 3), "positions", "at positions that are 3 too small"),
        (lambda own, self, x, at: own(self, x, at * 2), "factor", "config's times 2"),
        (scaled, "factor", "factor of cos and sin that is 1.5"),
    ],
)
def test_the_cause_of_results(forward: Any, cause: str, text: str) -> None:
    (finding,) = gt.audit(llama_with(forward=forward)).findings
    assert finding.buffer == "forward()" and finding.cause == cause and re.search(text, finding.text), str(finding)


def test_both_forms_of_the_profile_of_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from gyre.torch._audit import main

    model_of("llama").save_pretrained(tmp_path)
    told = []
    for options in (["--as=hf-4.55"], ["--as", "hf-4.55"]):
        assert main([str(tmp_path), *options, "--json"]) == 0
        told.append(json.loads(capsys.readouterr().out))
    assert told[0] == told[1] and told[0]["profile"] == "hf-4.55"
    assert main(["--as", "zzz", str(tmp_path)]) == 2 and "zzz" in capsys.readouterr().err
    assert main([str(tmp_path), "--as"]) == 2 and "--as: missing" in capsys.readouterr().err


class Bomb:
    """Makes a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return (Path.touch, (self.path,))


def test_no_pickle_is_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from gyre.torch._audit import main

    model = model_of("llama")
    model.config.architectures = [type(model).__name__]
    model.config.save_pretrained(tmp_path)
    with open(tmp_path / "pytorch_model.bin", "wb") as file:
        pickle.dump(Bomb(tmp_path / "exploded"), file)
    assert main([str(tmp_path)]) == 2
    told = capsys.readouterr().err
    assert "pytorch_model.bin: a pickle" in told and "safetensors" in told
    assert not (tmp_path / "exploded").exists()
    (tmp_path / "pytorch_model.bin").unlink()
    (tmp_path / "adapter_config.json").write_text("{}")
    assert main([str(tmp_path)]) == 2 and "adapter_config.json" in capsys.readouterr().err


def test_only_models_are_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    from gyre.torch._audit import main

    def never(*_: Any, **__: Any) -> None:
        raise AssertionError("an attribute of transformers that is no model was called")

    config = model_of("llama").config
    config.architectures = ["set_seed"]
    config.save_pretrained(tmp_path)
    monkeypatch.setattr(transformers, "set_seed", never)
    assert main([str(tmp_path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["ok"]


def test_code_of_a_folder_is_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from gyre.torch._audit import main

    monkeypatch.setattr("builtins.input", lambda *_: "y")  # transformers would ask
    (tmp_path / "own.py").write_text(f"open({str(tmp_path / 'exploded')!r}, 'w')\n")
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "own", "auto_map": {"AutoConfig": "own.Config"}}))
    assert main([str(tmp_path)]) == 2 and "trust_remote_code" in capsys.readouterr().err
    assert not (tmp_path / "exploded").exists()


def test_what_is_printed_commands_no_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from gyre.torch._audit import main

    (tmp_path / "config.json").write_text(json.dumps({"model_type": "a\x1b[2J\x9b\u202eb"}))
    assert main([str(tmp_path)]) == 2
    told = capsys.readouterr().err
    assert r"a\u001b[2J\u009b\u202eb" in told
    assert all(c == "\n" or c.isprintable() for c in told)


def test_json_has_no_nan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    from gyre.torch import _audit

    def refuse(name: str) -> None:
        raise AssertionError(name)

    finding = _audit.Finding("rotary", "inv_freq", "other", "is off", float("nan"), 0)
    (tmp_path / "config.json").write_text("{}")
    monkeypatch.setattr(_audit, "load", lambda _: nn.Module())
    monkeypatch.setattr(_audit, "audit", lambda *_, **__: _audit.Audit("Own", "hf-5", [finding]))
    assert _audit.main([str(tmp_path), "--json"]) == 3
    told = json.loads(capsys.readouterr().out, parse_constant=refuse)
    assert told["findings"][0]["difference"] is None
