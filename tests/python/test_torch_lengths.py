"""RotaryEmbedding and patched models under scalings that follow the context length: nothing is read from a device, and the
angles are those of transformers and of the core at each length."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gyre
import gyre.torch as gt
import pytest
import torch
from gyre.torch import _device, _lengths
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch_models import config_of, model_of
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding
from transformers.models.phi3.modeling_phi3 import Phi3RotaryEmbedding

LONG = {"short_factor": [1 + i / 20 for i in range(8)], "long_factor": [0.5 + i for i in range(8)]}
# Encodings of 16 channels and trained length 64.
SCALINGS = {
    "longrope": gyre.rope(16, scaling="longrope", factor=4.0, trained_length=64, **LONG),
    "dynamic": gyre.rope(16, scaling="dynamic", factor=2.0, trained_length=64),
    "dynamic-yarn": gyre.rope(16, scaling="dynamic-yarn", trained_length=64),
    "axes": gyre.rope(16, axis_pairs=(4, 2, 2), scaling="dynamic", factor=2.0, trained_length=64),
}
LENGTHS = (1, 63, 64, 65, 66, 100, 199, 200)


class NothingRead(TorchDispatchMode):
    """Refuses what waits for a device: a number on the host, or a copy there."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        assert "_local_scalar_dense" not in str(func) and "is_nonzero" not in str(func), func
        return func(*args, **(kwargs or {}))


def positions_up_to(length: int, axes: int) -> torch.Tensor:
    """[2, 3], or [axes, 2, 3], the largest of which is length - 1."""
    at = torch.tensor([[0, length // 2, 1], [length - 1, 5 % length, 0]])
    return torch.stack([at, at.flip(1), at.flip(0)]) if axes > 1 else at


def without_reading(call: Callable[[], Any]) -> Any:
    with NothingRead(), _device.forcing():
        return call()


@pytest.mark.parametrize("name", SCALINGS)
def test_angles_are_those_of_the_core_at_each_length(name: str) -> None:
    encoding = SCALINGS[name]
    axes = encoding.config["rope.axes"]
    module, core = gt.RotaryEmbedding(encoding, cached=200), gt.RotaryEmbedding(encoding)
    x = torch.zeros(1)
    module_of_core = [core(x, positions_up_to(length, axes)) for length in LENGTHS]
    for length, wanted in zip(LENGTHS, module_of_core, strict=True):
        got = without_reading(lambda length=length: module(x, positions_up_to(length, axes)))
        for a, b in zip(got, wanted, strict=True):
            torch.testing.assert_close(a, b, rtol=1.3e-7, atol=1.3e-7)
    assert not torch.allclose(module_of_core[2][0], core(x, positions_up_to(200, axes))[0], atol=1e-3), "lengths differ"


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("name", ["phi3-longrope", "llama-dynamic"])
def test_angles_are_those_of_transformers(name: str, fused: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    config = config_of(name, **({"max_position_embeddings": 64} if name == "llama-dynamic" else {}))
    made = Phi3RotaryEmbedding if name == "phi3-longrope" else LlamaRotaryEmbedding
    module = gt.RotaryEmbedding.from_config(config, cached=300)
    monkeypatch.setattr(_device, "has_doubles", lambda _: not fused)
    monkeypatch.setattr(_device, "made_tables", {})
    for length in (3, 64, 65, 100, 128, 129, 300):
        at = positions_up_to(length, 1)
        wanted = made(config)(torch.zeros(1), at)
        got = without_reading(lambda at=at: module(torch.zeros(1), at))
        for a, b in zip(got, wanted, strict=True):
            torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4)  # their angles are products of floats


@pytest.mark.parametrize("forced", [False, True])
@pytest.mark.parametrize("name", SCALINGS)
def test_compiled_whole(name: str, forced: bool) -> None:
    encoding = SCALINGS[name]
    axes, module, x = encoding.config["rope.axes"], gt.RotaryEmbedding(encoding, cached=200), torch.zeros(1)
    torch._dynamo.reset()
    step = torch.compile(module, fullgraph=True)
    for length in (3, 64, 65, 200):
        at = positions_up_to(length, axes)
        wanted = gt.RotaryEmbedding(encoding)(x, at)
        with _device.forcing(forced):
            got = step(x, at)
        for a, b in zip(got, wanted, strict=True):
            torch.testing.assert_close(a, b, rtol=2e-7, atol=2e-7)


@pytest.mark.parametrize("name", SCALINGS)
def test_nothing_of_a_device_is_read(name: str) -> None:
    module = gt.RotaryEmbedding(SCALINGS[name], cached=100)
    with FakeTensorMode():
        at = torch.empty(positions_up_to(9, SCALINGS[name].config["rope.axes"]).shape, dtype=torch.int64, device="cuda")
        cosine, sine = module(torch.empty(1, device="cuda", dtype=torch.bfloat16), at)
    assert cosine.device.type == "cuda" and cosine.shape == sine.shape == (2, 3, 16) and sine.dtype == torch.bfloat16


def test_past_the_table_angles_are_not_numbers() -> None:
    module, x = gt.RotaryEmbedding(SCALINGS["dynamic"], cached=100), torch.zeros(1)
    assert without_reading(lambda: module(x, torch.tensor([[3, 99]])))[0].isfinite().all()
    assert without_reading(lambda: module(x, torch.tensor([[3, 100]])))[0].isnan().all()


def test_without_a_table_a_dynamic_scaling_reads_the_length() -> None:
    module, x, at = gt.RotaryEmbedding(SCALINGS["dynamic"]), torch.zeros(1), torch.tensor([[3, 99]])
    with pytest.raises(AssertionError, match="_local_scalar_dense"):
        without_reading(lambda: module(x, at))
    with _device.forcing():
        got = module(x, at)
    for a, b in zip(got, module(x, at), strict=True):
        torch.testing.assert_close(a, b, rtol=1.3e-7, atol=1.3e-7)


@pytest.mark.parametrize("name", ["longrope", "dynamic", "dynamic-yarn"])
@pytest.mark.parametrize("cached", [0, 100])
def test_a_declared_length(name: str, cached: int) -> None:
    """Frequencies are those of that length wherever the positions are, from which nothing is read."""
    encoding, x, at = SCALINGS[name], torch.zeros(1), torch.tensor([[0, 3, 50]])
    module = gt.RotaryEmbedding(encoding, cached=cached, length=180)
    cosine, sine = encoding.cos_sin(at, length=180)
    assert torch.equal(module(x, at)[0], cosine) and torch.equal(module(x, at)[1], sine)
    assert "length=180" in repr(module) and not torch.equal(gt.RotaryEmbedding(encoding)(x, at)[0], cosine)
    torch.testing.assert_close(without_reading(lambda: module(x, at))[0], cosine, rtol=1.3e-7, atol=1.3e-7)
    with pytest.raises(gyre.Error, match="length: is -1"):
        gt.RotaryEmbedding(encoding, length=-1)


def test_a_table_is_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []
    right = _lengths._make_table
    monkeypatch.setattr(_device, "made_tables", {})
    monkeypatch.setattr(_lengths, "_make_table", lambda spec, most, device: made.append(most) or right(spec, most, device))
    for length in (3, 70, 90):
        without_reading(lambda length=length: gt.RotaryEmbedding(SCALINGS["dynamic"], cached=100)(torch.zeros(1), torch.tensor([[length]])))
    assert made == [100]


# -- patched models --

# What patch needs in order to read nothing up to 300 tokens; the trained lengths are 128 and 64.
PATCHES: dict[str, dict[str, int]] = {"phi3-longrope": {}, "llama-dynamic": {"cached": 300}}


def length_model(name: str) -> torch.nn.Module:
    return model_of(name, **({"max_position_embeddings": 64} if name == "llama-dynamic" else {}))


def logits(model: torch.nn.Module, tokens: int) -> torch.Tensor:
    """Two sequences of different positions, with a mask of each pair of tokens: to make one, transformers reads positions."""
    at = torch.stack([torch.arange(tokens), torch.arange(tokens) // 2])
    mask = torch.full((tokens, tokens), float("-inf")).triu(1).expand(2, 1, -1, -1)
    ids = torch.arange(2 * tokens).reshape(2, -1) * 37 % 128
    with torch.no_grad():
        found: torch.Tensor = model(ids, attention_mask=mask, position_ids=at, use_cache=False)[0]
    return found


@pytest.mark.parametrize("name", PATCHES)
def test_a_patched_model_reads_nothing(name: str) -> None:
    model = length_model(name)
    tokens = (3, 63, 64, 65, 128, 129, 300)
    wanted = [logits(model, n) for n in tokens]
    with gt.patch(model, **PATCHES[name]):
        for n, right in zip(tokens, wanted, strict=True):
            torch.testing.assert_close(without_reading(lambda n=n: logits(model, n)), right, rtol=1e-4, atol=1e-5)
        if name == "llama-dynamic":
            assert without_reading(lambda: logits(model, 301)).isnan().any()
    with gt.patch(model), _device.forcing():  # with no table it reads, and has the same logits
        torch.testing.assert_close(logits(model, 129), wanted[5], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("forced", [False, True])
@pytest.mark.parametrize("name", PATCHES)
def test_a_patched_model_is_compiled_whole(name: str, forced: bool) -> None:
    model = length_model(name)
    wanted = {n: logits(model, n) for n in (64, 200)}
    torch._dynamo.reset()
    with gt.patch(model, **PATCHES[name]), _device.forcing(forced):
        compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
        for n, right in wanted.items():
            torch.testing.assert_close(logits(compiled, n), right, rtol=1e-4, atol=1e-5)
    torch._dynamo.reset()


@pytest.mark.parametrize("name", PATCHES)
def test_a_patched_model_of_a_declared_length(name: str) -> None:
    """Short texts are rotated by the frequencies of the declared length, as the core has them; nothing is read."""
    model = length_model(name)
    rotary = model.model.rotary_emb
    encoding = gyre.Encoding.from_config(model.config)
    q = k = torch.randn(2, 4, 9, encoding.head_dim)
    at = positions_up_to(9, 1).repeat(1, 3)
    plain = encoding.rotate(q, at, length=64)
    wanted = encoding.rotate(q, at, length=250)
    assert not torch.allclose(plain, wanted, atol=1e-3)
    file = __import__(type(rotary).__module__, fromlist=["x"])
    with gt.patch(model, length=250):
        pair = model.model.rotary_emb(q, at)
        for got in (file.apply_rotary_pos_emb(q, k, *pair), without_reading(lambda: file.apply_rotary_pos_emb(q, k, *pair))):
            torch.testing.assert_close(got[0], wanted, rtol=2e-6, atol=2e-6)
    for wrong in ({"length": -1}, {"cached": -1}, {"cached": 1.5}):
        with pytest.raises(gyre.Error, match=f"{next(iter(wrong))}: is "):
            gt.patch(model, **wrong)
    assert model.model.rotary_emb is rotary


@pytest.mark.parametrize("more", [{}, {"length": 99}], ids=["following", "declared"])
@pytest.mark.parametrize("name", PATCHES)
def test_a_patched_model_of_two_devices(name: str, more: dict[str, int]) -> None:
    """Fake devices, so that a number that is read is an error; accelerate hands the results of the module to the others."""
    from accelerate.utils import send_to_device

    model = length_model(name)
    with gt.patch(model, **PATCHES[name], **more), FakeTensorMode():
        at, x = torch.empty(2, 9, dtype=torch.int64, device="cuda:0"), torch.empty(1, device="cuda:0", dtype=torch.bfloat16)
        pair = model.model.rotary_emb(x, at)
        file = __import__(type(model.model).__module__, fromlist=["x"])
        for device in ("cuda:0", "cuda:1", "cpu"):
            given = send_to_device(pair, torch.device(device))
            q, k = (torch.empty(2, heads, 9, 16, device=device, dtype=torch.bfloat16) for heads in (4, 2))
            for got in file.apply_rotary_pos_emb(q, k, *given):
                assert got.device == torch.device(device) and got.dtype == torch.bfloat16
        assert pair[0].to(torch.float16) is pair[0] and pair[0].to("cuda:0") is pair[0]
        assert (pair[0].to("cpu").length == _lengths.FOLLOWS) is (not more)


def test_a_patched_model_on_the_meta_device() -> None:
    """It has shapes, under a scaling that follows the length too."""
    model = length_model("phi3-longrope")
    with gt.patch(model):
        out = model.to("meta")(torch.zeros(1, 200, dtype=torch.int64, device="meta"))[0]
    assert out.is_meta and out.shape == (1, 200, 128)
