"""gyre.torch on tensors outside the processor's memory: the same operations, forced on tensors of the processor, against the
core, which tests of its own hold against formulas; and on fake tensors of a device, of which nothing can be read."""

from __future__ import annotations

import math
import weakref
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import gyre
import gyre.torch as gt
import pytest
import torch
import torch._dynamo.testing
from gyre.torch import _device
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

LONG = {"short_factor": [1 + i / 20 for i in range(16)], "long_factor": [0.5 + i for i in range(16)]}
# Encodings of 32 channels by name, with the context length of a call.
ROPES: dict[str, tuple[gyre.Encoding, int | None]] = {
    "plain": (gyre.rope(32), None),
    "fast": (gyre.rope(32, base=2.0), None),
    "clockwise": (gyre.rope(32, clockwise=True), None),
    "interleaved": (gyre.rope(32, layout="interleaved"), None),
    "deepseek": (gyre.rope(32, layout="interleaved-to-half"), None),
    "partial": (gyre.rope(32, dim=16), None),
    "last": (gyre.rope(32, dim=16, first_channel=16, layout="interleaved"), None),
    "middle": (gyre.rope(32, dim=12, first_channel=8), None),
    "linear": (gyre.rope(32, scaling="linear", factor=4.0), None),
    "yarn": (gyre.rope(32, scaling="yarn", factor=4.0, trained_length=64), None),
    "llama3": (gyre.rope(32, scaling="llama3", factor=8.0, trained_length=64, base=500000.0), None),
    "proportional": (gyre.rope(32, scaling="proportional", proportion=0.5), None),
    "dynamic": (gyre.rope(32, scaling="dynamic", factor=2.0, trained_length=64), 300),
    "longrope": (gyre.rope(32, scaling="longrope", factor=4.0, trained_length=64, **LONG), 300),
    "chunked": (gyre.rope(32, axis_pairs=(8, 4, 4)), None),
    "m-rope": (gyre.rope(32, axis_pairs=(8, 4, 4), axes_layout="interleaved"), None),
    "axial": (gyre.rope(32, axis_pairs=(8, 8), axes_layout="axial", layout="interleaved"), None),
    "log": (gyre.rope(32, temperature="log", reference_length=4, dim=16), None),
    "llama4": (gyre.rope(32, temperature="llama4", reference_length=4, slope=0.1, layout="interleaved"), None),
    "ministral": (gyre.rope(32, temperature="ministral", reference_length=4, slope=0.1, axis_pairs=(8, 4, 4)), None),
    "nope": (gyre.Encoding(**{"kind": "nope", "query.temperature": "log", "query.reference_length": 4}), None),
}
# Those whose angles come from a table.
TABLES: dict[str, tuple[gyre.Encoding, int | None]] = {
    "xpos": (gyre.xpos(32, trained_length=256), None),
    "xpos-log": (gyre.xpos(32, layout="interleaved", temperature="log", reference_length=4), 256),
    "llama.cpp": (gyre.rope(32, angles="llama.cpp", trained_length=256), None),
    "start": (gyre.rope(32, scaling="longrope", factor=4.0, trained_length=64, start_tokens=4, **LONG), 256),
}
BOUNDS = {torch.float32: 5e-7, torch.float16: 2**-10, torch.bfloat16: 2**-7, torch.float64: 2e-9}
EACH = {**ROPES, **TABLES}


@pytest.fixture
def forced() -> Iterator[None]:
    with _device.forcing():
        yield


def positions_of(encoding: gyre.Encoding, tokens: int, *, far: bool) -> torch.Tensor:
    """[batch, tokens] without order, up to 2^31 where far; [axes, batch, tokens] for several axes."""
    one = torch.tensor([[(7 * i) % 11 for i in range(tokens)], [i + 100 for i in range(tokens)]])
    if far:
        one[0, :4] = torch.tensor([2**31, -(2**31), 123456789, -7])
    axes = encoding.config["rope.axes"]
    return torch.stack([one, one.flip(1), one.flip(0)][:axes]) if axes > 1 else one


def close(got: torch.Tensor, wanted: torch.Tensor, x: torch.Tensor) -> None:
    """Within the bound of the type, of the largest number of x and of the result, which a temperature may have grown."""
    assert got.dtype == wanted.dtype and got.shape == wanted.shape
    bound = BOUNDS[x.dtype] * 2 * max(float(one.detach().double().abs().max()) if one.numel() else 0.0 for one in (x, wanted))
    assert float((got.double() - wanted.double()).abs().max()) <= bound


@pytest.mark.parametrize("name", list(EACH))
@pytest.mark.parametrize("dtype", list(BOUNDS))
def test_rotate_is_that_of_the_core(name: str, dtype: torch.dtype) -> None:
    encoding, length = EACH[name]
    at = positions_of(encoding, 6, far=name in ROPES)
    x = torch.randn(2, 3, 6, 32).to(dtype)
    for role in ("query", "key"):
        for direction in ("forward", "adjoint"):
            wanted = gt.rotate(x, encoding, at, role=role, direction=direction, length=length)
            with _device.forcing():
                got = gt.rotate(x, encoding, at, role=role, direction=direction, length=length)
            close(got, wanted, x)
    wanted_pair = gt.rotate_pair(x, x[:, :1], encoding, at, length=length)
    with _device.forcing():
        pair = gt.rotate_pair(x, x[:, :1], encoding, at, length=length)
    for got, wanted in zip(pair, wanted_pair, strict=True):
        close(got, wanted, x)


def test_rotate_moves_channels_and_no_others() -> None:
    """The bounds of this file are below what a wrong channel or position changes."""
    x = torch.randn(2, 3, 6, 32)
    encoding = gyre.rope(32)
    with _device.forcing():
        got = gt.rotate(x, encoding, 3)
    for wrong in (gt.rotate(x, encoding, 4), gt.rotate(x, gyre.rope(32, base=10001.0), 3), x):
        with pytest.raises(AssertionError):
            close(got, wrong, x)


@pytest.mark.parametrize("layout", ["bhsd", "bshd", "sbhd", "dsbh", "hsbd"])
@pytest.mark.parametrize("name", ["plain", "m-rope", "log", "last"])
def test_rotate_in_layouts(layout: str, name: str) -> None:
    encoding, _ = EACH[name]
    x = torch.randn(2, 3, 6, 32).permute(["bhsd".index(letter) for letter in layout])
    several = encoding.config["rope.axes"] > 1
    at = positions_of(encoding, 6, far=True)
    for positions in (at, at[..., 0, :], at[..., :1, :], at[0, 0] if several else at[0].int(), 5, None):
        wanted = gt.rotate(x, encoding, positions, layout=layout)
        with _device.forcing():
            close(gt.rotate(x, encoding, positions, layout=layout), wanted, x)
    packed = torch.randn(6, 3, 32)
    with _device.forcing():
        got = gt.rotate(packed, encoding, at[..., 0, :])
    close(got, gt.rotate(packed, encoding, at[..., 0, :]), packed)


def test_rotate_without_elements(forced: None) -> None:
    for shape in ((0, 3, 6, 32), (2, 0, 6, 32), (2, 3, 0, 32)):
        assert gt.rotate(torch.zeros(shape), gyre.rope(32)).shape == shape


def test_no_tables_past_their_end(forced: None) -> None:
    """Positions outside of a table give NaN, and those within numbers."""
    encoding, _ = TABLES["xpos"]
    out = gt.rotate(torch.ones(1, 1, 4, 32), encoding, torch.tensor([0, 255, 256, -1]))
    assert out[..., :2, :].isfinite().all() and out[..., 2:, :].isnan().all()


@pytest.mark.parametrize("name", ["plain", "yarn", "deepseek", "middle", "m-rope", "log", "xpos"])
def test_gradients_of_any_order(name: str, forced: None) -> None:
    encoding, length = EACH[name]
    x = torch.randn(2, 1, 3, 32, dtype=torch.float64, requires_grad=True)
    at = positions_of(encoding, 3, far=False)
    assert torch.autograd.gradcheck(lambda x: gt.rotate(x, encoding, at, length=length), (x,))
    assert torch.autograd.gradgradcheck(lambda x: gt.rotate(x, encoding, at, length=length), (x,))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", list(EACH))
def test_gradient_is_the_adjoint(name: str, dtype: torch.dtype) -> None:
    encoding, length = EACH[name]
    at = positions_of(encoding, 5, far=name in ROPES)
    x, dout = (torch.randn(2, 3, 5, 32).to(dtype) for _ in range(2))
    x.requires_grad_()
    with _device.forcing():
        gt.rotate(x, encoding, at, length=length).backward(dout)
    assert x.grad is not None
    close(x.grad, gt.rotate(dout, encoding, at, direction="adjoint", length=length), dout)


def test_function_transforms(forced: None) -> None:
    encoding, x = gyre.rope(32, layout="interleaved"), torch.randn(4, 2, 3, 5, 32)
    many = torch.func.vmap(lambda one: gt.rotate(one, encoding, 9))(x)
    torch.testing.assert_close(many, torch.stack([gt.rotate(one, encoding, 9) for one in x]))
    back = torch.func.grad(lambda one: gt.rotate(one, encoding, 9).square().sum() / 2)(x[0])
    torch.testing.assert_close(back, x[0], rtol=1e-5, atol=1e-5)  # a rotation keeps lengths
    xpos, rows = TABLES["xpos"][0], torch.arange(20).reshape(4, 5)
    each = torch.func.vmap(lambda one, at: gt.rotate(one, xpos, at))(x, rows)
    torch.testing.assert_close(each, torch.stack([gt.rotate(x[i], xpos, rows[i]) for i in range(4)]))
    tangent = torch.func.jvp(lambda one: gt.rotate(one, encoding, 9), (x[0],), (x[1],))[1]
    torch.testing.assert_close(tangent, gt.rotate(x[1], encoding, 9))


@pytest.mark.parametrize("name", ["plain", "partial", "deepseek", "m-rope", "llama4", "xpos"])
def test_compiled_whole(name: str) -> None:
    encoding, length = EACH[name]
    torch._dynamo.reset()

    @torch.compile(fullgraph=True, dynamic=True)
    def step(q: torch.Tensor, k: torch.Tensor, at: torch.Tensor) -> Any:
        q, k = gt.rotate_pair(q, k, encoding, at, length=length)
        return q @ k.transpose(-1, -2)

    for tokens in (5, 9, 17):
        q, k = torch.randn(2, 3, tokens, 32, requires_grad=True), torch.randn(2, 1, tokens, 32)
        at = positions_of(encoding, tokens, far=name in ROPES)
        a, b = gt.rotate_pair(q, k, encoding, at, length=length)
        (wanted,) = torch.autograd.grad((a @ b.transpose(-1, -2)).sum(), q)
        with _device.forcing():
            out = step(q, k, at)
            (got,) = torch.autograd.grad(out.sum(), q)
        torch.testing.assert_close(out, a @ b.transpose(-1, -2), rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(got, wanted, rtol=1e-4, atol=1e-4)


def test_compiled_once_for_each_first_position() -> None:
    encoding, counter = gyre.rope(32), torch._dynamo.testing.CompileCounter()
    torch._dynamo.reset()
    step = torch.compile(lambda x, first: gt.rotate(x, encoding, first), fullgraph=True, backend=counter)
    x = torch.randn(1, 2, 1, 32)
    for first in (5, 6, 7, 100, 131071):
        with _device.forcing():
            got = step(x, first)
        close(got, gt.rotate(x, encoding, first), x)
    assert counter.frame_count <= 2  # the second one has the position open


def test_exported(forced: None) -> None:
    class Rotated(torch.nn.Module):
        def forward(self, x: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
            return gt.rotate(x, gyre_rope, at)

    gyre_rope = ROPES["yarn"][0]
    tokens = torch.export.Dim("tokens", min=2, max=4096)
    program = torch.export.export(
        Rotated(), (torch.randn(1, 2, 6, 32), torch.arange(6)), dynamic_shapes={"x": {2: tokens}, "at": {0: tokens}}
    )
    assert not any("gyre" in str(node.target) for node in program.graph.nodes)  # it runs where Gyre is not installed
    x, at = torch.randn(1, 2, 11, 32), torch.arange(11) + 1000
    close(program.module()(x, at), gt.rotate(x, gyre_rope, at), x)


@pytest.mark.parametrize("name", list(EACH))
def test_nothing_of_a_device_is_read(name: str) -> None:
    """Fake tensors have no numbers: an operation that needed one on the host would raise."""
    encoding, length = EACH[name]
    shape = positions_of(encoding, 6, far=False).shape
    with FakeTensorMode():
        q = torch.empty(2, 3, 6, 32, dtype=torch.bfloat16, device="cuda")
        at = torch.empty(shape, dtype=torch.int64, device="cuda")
        a, b = gt.rotate_pair(q, q.narrow(1, 0, 1), encoding, at, length=length)
        assert a.device.type == b.device.type == "cuda" and a.dtype == torch.bfloat16
        assert a.shape == q.shape and b.shape == (2, 1, 6, 32)
    with FakeTensorMode(), _device.forcing():  # torch for processors has no backward of other devices
        x = torch.empty(2, 3, 6, 32, requires_grad=True)
        gt.rotate(x, encoding, torch.empty(shape, dtype=torch.int64), length=length).sum().backward()
        assert x.grad is not None and x.grad.shape == x.shape
    assert not any(isinstance(one, torch._subclasses.fake_tensor.FakeTensor) for one in _device._made.values())


class Operations(TorchDispatchMode):
    """The names of what runs, and those of it that read numbers of the host, or give it some."""

    HOST = ("lift_fresh", "_local_scalar_dense", "is_nonzero", "nonzero", "copy_", "masked_select")

    def __init__(self) -> None:
        super().__init__()
        self.of_host: list[str] = []
        self.count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = str(func).removeprefix("aten.").partition(".")[0]
        self.count += 1
        if name in self.HOST or (name == "_to_copy" and (kwargs or {}).get("device") is not None):
            self.of_host.append(name)
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("name", list(EACH))
def test_a_second_call_copies_nothing_from_the_host(name: str, forced: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a CUDA graph can capture it: the first call has made what the others read."""
    encoding, length = EACH[name]
    monkeypatch.setattr(_device, "_made", {})
    monkeypatch.setattr(_device, "made_tables", {})
    q, k, at = torch.randn(2, 3, 6, 32), torch.randn(2, 1, 6, 32), positions_of(encoding, 6, far=False)
    runs, made = [], []
    for _ in range(2):
        with Operations() as run:
            got = gt.rotate_pair(q, k, encoding, at, length=length)
        runs.append(run)
        made.append([*_device._made, *_device.made_tables])  # tables by an operator, which the mode does not see into
    assert not runs[1].of_host and runs[1].count and made[0] == made[1]
    assert bool(made[0]) is (name != "nope") and bool(runs[0].of_host) is bool(_device._made)
    with _device.forcing(False):
        for a, b, x in zip(got, gt.rotate_pair(q, k, encoding, at, length=length), (q, k), strict=True):
            close(a, b, x)


@pytest.mark.parametrize("name", ["plain", "start", "llama.cpp"])
@pytest.mark.parametrize("captured", [False, True])
def test_what_a_graph_captured_stays(name: str, captured: bool, forced: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """A replay reads the same memory; other constants and tables are given up in time."""
    encoding, length = EACH[name]
    for of in ("_made", "made_tables", "_captured"):
        monkeypatch.setattr(_device, of, {})
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: captured)
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    gt.rotate(torch.randn(1, 1, 6, 32), encoding, torch.arange(6), length=length)
    made = [weakref.ref(one) for one in (*_device._made.values(), *_device.made_tables.values())]
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    for i in range(300):
        gt.rotate(torch.randn(1, 1, 1, 32), encoding.replace(rope__base=2.0 + i), torch.arange(1), length=length)
    assert made and [one() is not None for one in made] == [captured] * len(made)


def test_meta() -> None:
    x = torch.empty(2, 3, 6, 32, device="meta", dtype=torch.float16)
    out = gt.rotate(x, gyre.rope(32), torch.arange(6, device="meta"))
    assert out.is_meta and out.shape == x.shape and out.dtype == x.dtype


def test_autocast_changes_nothing(forced: None) -> None:
    encoding, at = ROPES["partial"][0], torch.tensor([0, 1, 70000, 2**31 - 1])
    for dtype in (torch.float32, torch.bfloat16):
        x = torch.randn(1, 2, 4, 32).to(dtype)
        plain = gt.rotate(x, encoding, at)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            assert torch.equal(gt.rotate(x, encoding, at), plain)


@pytest.mark.parametrize("form", ["half", "interleaved", "pairs", "complex"])
@pytest.mark.parametrize("name", ["plain", "yarn", "clockwise", "m-rope", "longrope", "llama.cpp", "xpos", "xpos-log", "start"])
def test_rotary_embedding(name: str, form: str) -> None:
    module = gt.RotaryEmbedding(EACH[name][0], form=form)
    at, x = positions_of(EACH[name][0], 6, far=False), torch.zeros(1)
    wanted = module(x, at)
    with _device.forcing():
        got = module(x, at)
    torch.testing.assert_close(got, wanted, rtol=0, atol=2e-7)


def test_rotary_embedding_leaves_magnitudes_out(forced: None) -> None:
    """Those of xPos differ by role; also where angles come from a table."""
    plain = gt.RotaryEmbedding(gyre.rope(32, angles="llama.cpp", trained_length=64), form="pairs")
    xpos = gt.RotaryEmbedding(gyre.xpos(32, angles="llama.cpp", trained_length=64, xpos_center=7), form="pairs")
    at = torch.arange(64)[None]
    for got, wanted in zip(xpos(torch.zeros(1), at), plain(torch.zeros(1), at), strict=True):
        assert torch.equal(got, wanted)


def test_rotary_embedding_reads_nothing() -> None:
    with FakeTensorMode():
        x = torch.empty(1, dtype=torch.bfloat16, device="cuda")
        cosine, sine = gt.RotaryEmbedding(gyre.rope(32))(x, torch.empty(2, 6, dtype=torch.int64, device="cuda"))
        assert cosine.shape == sine.shape == (2, 6, 32) and cosine.device.type == "cuda" and sine.dtype == torch.bfloat16


@pytest.mark.parametrize("name", ["llama-3.1", "gemma3", "cohere", "phi3-longrope", "llama4", "qwen2-vl", "gpt-j"])
def test_patched_models(name: str) -> None:
    pytest.importorskip("transformers")
    from torch_models import FAMILIES, model_of

    assert name in FAMILIES
    model, ids = model_of(name), torch.arange(38).reshape(2, 19) * 37 % 128
    with torch.no_grad():
        wanted = model(ids)[0]
        with gt.patch(model), _device.forcing():
            got = model(ids)[0]
    torch.testing.assert_close(got, wanted, rtol=1e-4, atol=1e-5)


# -- devices without doubles, and tables --


class Doubles(TorchDispatchMode):
    """Counts operations that return doubles."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        self.count += sum(isinstance(one, torch.Tensor) and one.dtype == torch.float64 for one in (out if isinstance(out, tuple) else (out,)))
        return out


def test_no_doubles_where_a_device_has_none(forced: None, monkeypatch: pytest.MonkeyPatch) -> None:
    x, at = torch.randn(1, 2, 4, 32), torch.tensor([0, 5, 70000, 2**31])
    wanted = gt.rotate(x, gyre.rope(32), at)
    with Doubles() as before:
        gt.rotate(x, gyre.rope(32), at)
    monkeypatch.setattr(_device, "has_doubles", lambda device: False)
    with Doubles() as after:
        got = gt.rotate(x, gyre.rope(32), at)
    assert before.count > 0 and after.count == 0
    close(got, wanted, x)


def test_which_devices_have_doubles(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _device.has_doubles(torch.device("cpu")) and _device.has_doubles(torch.device("cuda", 0))
    assert not _device.has_doubles(torch.device("mps"))
    monkeypatch.setattr(torch.xpu, "is_available", lambda: True)
    for has in (False, True):
        monkeypatch.setattr(torch.xpu, "get_device_properties", lambda device, has=has: SimpleNamespace(has_fp64=int(has)))
        assert _device.has_doubles(torch.device("xpu", 0)) is has


@pytest.mark.parametrize("name", ["start", "xpos", "llama.cpp"])
def test_few_tables_while_a_context_grows(name: str, forced: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each decoded token has another length; tables are made for powers of two."""
    made: list[int] = []
    make = _device._make_table
    monkeypatch.setattr(_device, "made_tables", {})
    monkeypatch.setattr(_device, "_make_table", lambda *args: made.append(1) or make(*args))
    encoding = TABLES[name][0].replace(trained_length=64)
    x = torch.randn(1, 1, 1, 32)
    for length in range(50, 300, 3):
        for at in (0, length - 1):
            got = gt.rotate(x, encoding, at, length=length)
            with _device.forcing(False):
                close(got, gt.rotate(x, encoding, at, length=length), x)
        if length > 64:
            assert gt.rotate(x, encoding, length, length=length).isnan().all()
    assert len(made) <= 5  # 64, where the scaling changes once more, 128, 256, 512


def test_a_table_ends_where_magnitudes_do(forced: None) -> None:
    """Those of xPos leave their range at position 222, within a table of 256 rows."""
    steep, x = gyre.xpos(8, xpos_base=4.0), torch.ones(1, 1, 1, 8)
    for length in (200, 222):
        for role in ("query", "key"):
            with _device.forcing(False):
                wanted = gt.rotate(x, steep, length - 1, length=length, role=role)
            torch.testing.assert_close(gt.rotate(x, steep, length - 1, length=length, role=role), wanted)
    refused("ERANGE", "too far from rope.xpos_center", lambda: gt.rotate(x, steep, 0, length=223))


def test_a_table_for_each_length_where_frequencies_follow_it(forced: None) -> None:
    dynamic = gyre.xpos(32, scaling="dynamic", factor=2.0, trained_length=64)
    x = torch.randn(1, 1, 8, 32)
    for length in (50, 64, 65, 100, 101, 128):
        with _device.forcing(False):
            wanted = gt.rotate(x, dynamic, 3, length=length)
        close(gt.rotate(x, dynamic, 3, length=length), wanted, x)


# -- biases --

T5 = gyre.t5(4)
BIASES = {
    "alibi": (gyre.alibi(4), None),
    "alibi-6": (gyre.alibi(6), None),
    "stretched": (gyre.alibi(4, scaling="linear", trained_length=64, context_length=640000), None),
    "bloom": (gyre.alibi(4, before_scale=True, head_dim=64), None),
    "t5": (T5, (32, 4)),
    "t5-both": (gyre.t5(4, bidirectional=True, max_distance=40), (32, 4)),
    "two slopes": (gyre.alibi(4, slopes=[0.5, 0.1, 0.0, 0.2], slopes_after=[0.1, 1.0, 0.3, 0.2]), None),
    "fire": (gyre.fire(4, hidden_units=6), (21, 4)),
    "kerple": (gyre.kerple(4), (2, 4)),
    "kerple-power": (gyre.kerple(4, decay="power"), (2, 4)),
}


@pytest.mark.parametrize("name", list(BIASES))
@pytest.mark.parametrize("double", [False, True])
def test_bias_is_that_of_the_core(name: str, double: bool) -> None:
    encoding, shape = BIASES[name]
    numbers = None if shape is None else torch.rand(shape) + 0.1
    at = torch.tensor([[3, 200, 7, 0], [1, 2, 9, 500000]])
    for queries, keys in ((at, at + 5), (at[0], at[1]), (3, 7), (2, at), (5, None)):
        found = []
        for force in (False, True):
            table = None if numbers is None else numbers.clone().requires_grad_()
            with _device.forcing() if force else torch.enable_grad():
                out = gt.bias(encoding, queries, keys, tables=table, double=double)
            if table is not None:
                (out * torch.arange(out.numel()).reshape(out.shape).cos()).sum().backward()
                assert table.grad is not None
                found.append((out.detach(), table.grad))
            else:
                found.append((out, torch.zeros(1)))
        (wanted, slope), (got, slope_got) = found
        torch.testing.assert_close(got, wanted, rtol=1e-12 if double and shape is None else 2e-6, atol=1e-6)
        torch.testing.assert_close(slope_got, slope, rtol=1e-3, atol=1e-3 * (1 + float(slope.abs().max())))


def test_bias_compiled_and_fake() -> None:
    table = torch.rand(32, 4)
    with _device.forcing():
        got = torch.compile(lambda at: gt.bias(T5, at, tables=table), fullgraph=True)(torch.arange(9))
    torch.testing.assert_close(got, gt.bias(T5, 9, tables=table))
    with FakeTensorMode():
        out = gt.bias(T5, 3, 9, tables=torch.empty(32, 4, device="cuda"))
        assert out.shape == (4, 3, 9) and out.device.type == "cuda"


def test_kerple_power_of_exponent_0() -> None:
    """0^0 = 1, as in the core."""
    encoding, table = gyre.kerple(2, decay="power"), torch.tensor([[1.5, 2.0], [0.0, 1.0]])
    with _device.forcing():
        trained = table.clone().requires_grad_()
        got = gt.bias(encoding, 3, tables=trained)
        got.sum().backward()
    assert torch.equal(got.detach(), gt.bias(encoding, 3, tables=table)) and float(got[0, 0, 0].detach()) == -1.5
    plain = table.clone().requires_grad_()
    gt.bias(encoding, 3, tables=plain).sum().backward()
    torch.testing.assert_close(trained.grad, plain.grad)


def test_bias_of_one_head() -> None:
    """Axes of extent 1 of a table may be left out."""
    table = torch.rand(32)
    for given in (table, table[:, None], table[None, :, None], table[None, None, :, None]):
        with _device.forcing():
            got = gt.bias(gyre.t5(1), 5, tables=given)
        assert torch.equal(got, gt.bias(gyre.t5(1), 5, tables=given))


# -- refusals --


def refused(status: str, text: str, call: Any) -> None:
    with pytest.raises(gyre.Error, match=text) as caught:
        call()
    assert caught.value.status == status


def test_refusals(forced: None) -> None:
    x = torch.zeros(1, 2, 4, 32)
    at = torch.arange(4)
    dynamic = ROPES["dynamic"][0]
    tapa = gyre.Encoding(**{"kind": "tapa", "head_dim": 32, "query.temperature": "log", "query.reference_length": 4})
    stretched = gyre.alibi(4, scaling="linear", trained_length=64)
    refused("EINVAL", "length: is needed here: the scaling follows the length in use", lambda: gt.rotate(x, dynamic, at))
    bare = gyre.xpos(32)
    refused("EINVAL", "length: is needed here: the angles of this encoding come from a table", lambda: gt.rotate(x, bare, at))
    refused("EUNSUPPORTED", "encoding: alibi does not rotate", lambda: gt.rotate(x, gyre.alibi(2), at))
    refused("EUNSUPPORTED", "encoding: tapa is supported on the processor alone", lambda: gt.rotate(x, tapa, at))
    refused("ESHAPE", "x: 32 channels a head, the encoding has 64", lambda: gt.rotate(x, gyre.rope(64), at))
    refused("ESHAPE", "positions: has shape", lambda: gt.rotate(x, gyre.rope(32), torch.arange(5)))
    refused("EDTYPE", "positions: is of type float32", lambda: gt.rotate(x, gyre.rope(32), at.float()))
    refused("EDTYPE", "x: is of type int64", lambda: gt.rotate(x.long(), gyre.rope(32), at))
    refused("ESHAPE", "k: has shape", lambda: gt.rotate_pair(x, x[:, :, :3], gyre.rope(32)))
    refused("EUNSUPPORTED", "encoding: the bias of this sandwich", lambda: gt.bias(gyre.sandwich(4), at))
    refused("EUNSUPPORTED", "encoding: rope adds no bias to scores", lambda: gt.bias(gyre.rope(32), at))
    refused("EINVAL", "tables.bias: missing; the encoding trains one", lambda: gt.bias(T5, at))
    refused("EINVAL", "length: is needed here: the slopes follow", lambda: gt.bias(stretched, at))
    refused("EINVAL", "tables: alibi has 0 tables", lambda: gt.bias(gyre.alibi(4), at, tables=torch.zeros(2, 4)))


AT, X = torch.arange(4), torch.zeros(1, 2, 4, 32)
SMALL, M_ROPE, ALIBI, ROPE = gyre.t5(4, buckets=8), ROPES["m-rope"][0], gyre.alibi(4), gyre.rope(32)
SAME_REFUSALS: dict[str, Any] = {
    "32 rows for 8": lambda: gt.bias(SMALL, AT, tables=torch.zeros(32, 4)),
    "6 heads for 4": lambda: gt.bias(T5, AT, tables=torch.zeros(32, 6)),
    "two tables in one": lambda: gt.bias(SMALL, AT, tables=torch.zeros(2, 8, 4)),
    "float16": lambda: gt.bias(T5, AT, tables=torch.zeros(32, 4).half()),
    "int32": lambda: gt.bias(T5, AT, tables=torch.zeros(32, 4).int()),
    "query": lambda: gt.bias(T5, AT, tables={"query": torch.zeros(32, 4)}),
    "no table's name": lambda: gt.bias(T5, AT, tables={"rows": torch.zeros(32, 4)}),
    "a second table": lambda: gt.bias(T5, AT, tables={"bias": torch.zeros(32, 4), "query": torch.zeros(32, 4)}),
    "3 rows for KERPLE": lambda: gt.bias(gyre.kerple(4), AT, tables=torch.zeros(3, 4)),
    "5 rows": lambda: gt.bias(T5, AT, tables=torch.zeros(5, 4)),
    "transposed": lambda: gt.bias(T5, AT, tables=torch.zeros(4, 32)),
    "no table": lambda: gt.bias(T5, AT),
    "table of ALiBi": lambda: gt.bias(ALIBI, AT, tables=torch.zeros(2, 4)),
    "named table of ALiBi": lambda: gt.bias(ALIBI, AT, tables={"bias": torch.zeros(2, 4)}),
    "batches": lambda: gt.bias(ALIBI, torch.zeros(3, 2).long(), torch.zeros(2, 3).long()),
    "axes of queries": lambda: gt.bias(ALIBI, torch.zeros(1, 3, 2).long(), AT),
    "float queries": lambda: gt.bias(ALIBI, AT.float(), AT),
    "no bias": lambda: gt.bias(ROPE, AT),
    "int32 x": lambda: gt.rotate(X.int(), ROPE, AT),
    "int32 q": lambda: gt.rotate_pair(X.int(), X, ROPE, AT),
    "no rotation": lambda: gt.rotate(X, ALIBI, AT),
    "channels": lambda: gt.rotate(X, gyre.rope(64), AT),
    "tokens": lambda: gt.rotate(X, ROPE, torch.arange(5)),
    "axes of positions": lambda: gt.rotate(X, M_ROPE, torch.arange(10).reshape(2, 5)),
    "float positions": lambda: gt.rotate(X, ROPE, AT.float()),
    "first position": lambda: gt.rotate(X, ROPE, 2**33),
    "first position below": lambda: gt.rotate(X, ROPE, -(2**33)),
    "third position": lambda: gt.rotate(X, ROPE, 2**31 - 2),
    "first position of both": lambda: gt.rotate_pair(X, X, ROPE, 2**33),
    "module, float": lambda: gt.RotaryEmbedding(ROPE)(X, AT.float()[None]),
    "module, int16": lambda: gt.RotaryEmbedding(ROPE)(X, AT.short()[None]),
    "module, [1, 1, 4]": lambda: gt.RotaryEmbedding(ROPE)(X, AT[None, None]),
    "module, [2, 5] for three axes": lambda: gt.RotaryEmbedding(M_ROPE)(X, torch.arange(10).reshape(2, 5)),
    "module, no axes": lambda: gt.RotaryEmbedding(ROPE)(X, AT[0]),
}


@pytest.mark.parametrize("name", list(SAME_REFUSALS))
def test_refusals_are_those_of_the_processor(name: str) -> None:
    found = []
    for forced in (False, True):
        with _device.forcing(forced), pytest.raises(gyre.Error) as caught:
            SAME_REFUSALS[name]()
        found.append((caught.value.status, str(caught.value)))
    assert found[0] == found[1]


def test_the_last_first_position(forced: None) -> None:
    assert gt.rotate(X, ROPE, 2**31 - 3).shape == gt.rotate(X, ROPE, -(2**31)).shape == X.shape


def test_tables_are_checked_without_their_numbers() -> None:
    with FakeTensorMode():
        at, table = torch.empty(4, dtype=torch.int64, device="cuda"), torch.empty(5, 4, device="cuda")
        refused("ESHAPE", "tables: 'bias' is not of shape", lambda: gt.bias(T5, at, tables=table))
        refused("ESHAPE", "keys: has shape", lambda: gt.bias(ALIBI, at.expand(3, 4), at.expand(2, 4)))


def test_other_operators_refuse_devices() -> None:
    with FakeTensorMode():
        q = torch.empty(1, 2, 4, 32, device="cuda")
        refused("EUNSUPPORTED", "q: is on cuda:0, but Gyre computes on the processor", lambda: gt.attention(q, q, q))
        gates = torch.empty(1, 2, 4, device="cuda")
        refused("EUNSUPPORTED", "log_gates: is on cuda:0, but Gyre", lambda: gt.gate_sums(gates))
        q = q.cpu()
        assert gt.attention(q, q, q).shape == q.shape


def test_infinite_numbers_at_position_0() -> None:
    """docs/torch.md: the core copies what position 0 does not turn, and a device multiplies an infinity by a sine of 0."""
    x = torch.full((1, 1, 1, 32), math.inf)
    assert torch.equal(gt.rotate(x, ROPE, 0), x)
    with _device.forcing():
        assert gt.rotate(x, ROPE, 0).isnan().all()


def test_tensors_of_two_devices() -> None:
    with FakeTensorMode():
        x = torch.empty(1, 2, 4, 32, device="cuda")
        refused("EUNSUPPORTED", "pass both on one device", lambda: gt.rotate(x, gyre.rope(32), torch.arange(4)))
        refused("EUNSUPPORTED", "pass both on one device", lambda: gt.rotate_pair(x, x.cpu(), gyre.rope(32)))


def test_the_bound_holds_up_to_2_31(forced: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """cos and sin against doubles of the core, as docs/devices.md has the bound."""
    encoding = gyre.rope(128, base=500000.0)
    drawn = torch.Generator().manual_seed(1)
    at = torch.randint(0, 2**31, (4000,), generator=drawn)
    at[:3] = torch.tensor([0, 2**31, 1])
    ones = torch.zeros(1, 1, 4000, 128, dtype=torch.float64)
    ones[..., :64] = 1
    exact = encoding.rotate(ones, at)[0, 0]
    assert math.isclose(float(_device.cos_sin(at[:1], encoding._spec, 0)[0][0, 0]), 1.0)
    for doubles, bound in ((False, 1.26e-7), (True, 3.3e-8)):
        monkeypatch.setattr(_device, "has_doubles", lambda _, doubles=doubles: doubles)
        both = _device.cos_sin(at, encoding._spec, 0)
        for got, wanted in zip(both, (exact[:, :64], exact[:, 64:]), strict=True):
            assert got.dtype == torch.float32
            assert float((got.double() - wanted).abs().max()) <= bound + 2e-10
