"""What was once taken in silence, or failed otherwise than with gyre.Error."""

import threading
from pathlib import Path

import gyre
import numpy as np
import pytest

ROPE = gyre.rope(8)


def random(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype("f4")


def refused(call, text: str = ":", field: str | None = None) -> gyre.Error:
    with pytest.raises(gyre.Error, match=text) as caught:
        call()
    if field:
        assert caught.value.field == field, caught.value.field
    return caught.value


# -- sizes --


@pytest.mark.parametrize("tokens", [2**30, 2**31 + 7, 2**62, 2**63 - 1])
def test_a_result_that_memory_cannot_hold_is_refused(tokens: int) -> None:
    error = refused(lambda: gyre.alibi(4).bias(tokens), r"memory: none for a result of shape \[4, ")
    assert isinstance(error, MemoryError) and error.status == "ENOMEM"
    if tokens > 2**40:
        refused(lambda: ROPE.cos_sin(tokens), r"memory: none for a result of shape")


def test_an_array_that_repeats_one_element_without_end() -> None:
    x = np.broadcast_to(np.float32(1), (1, 2**20, 2**30, 8))
    refused(lambda: ROPE.rotate(x), "memory: none for a result")
    torch = pytest.importorskip("torch")
    refused(lambda: ROPE.rotate(torch.ones(1).expand(1, 2**20, 2**30, 8)), "memory: none for a result")


# -- memory that overlaps --


def test_a_result_that_overlaps_its_input_in_part_is_refused() -> None:
    memory = random(1, 3, 6, 8)
    x, kept = memory[:, :, :5], memory.copy()
    refused(lambda: ROPE.rotate(x, 3, out=memory[:, :, 1:]), "out: shares a part of its memory with x: pass x itself", "out")
    refused(lambda: ROPE.rotate(x, 3, out=x[:, :, ::-1]), "out: shares a part of its memory with x", "out")
    refused(lambda: gyre.rerotate(x, ROPE, shift=1, out=memory[:, :, 1:]), "out: shares a part of its memory with k", "out")
    sinusoid = gyre.sinusoidal(8)
    refused(lambda: sinusoid.add(memory[0, :, :5], out=memory[0, :, 1:]), "out: shares a part of its memory with x", "out")
    np.testing.assert_array_equal(memory, kept)
    want = ROPE.rotate(x.copy(), 3)
    other_object = memory[:, :, :5]
    assert ROPE.rotate(x, 3, out=other_object) is other_object  # exactly the same memory is a rotation in place
    np.testing.assert_array_equal(x, want)


def test_results_between_the_rows_of_a_fused_projection_are_right() -> None:
    memory = random(1, 6, 3, 2, 8)  # batch, token, (q, k, free), head, channel
    q, k, free = (memory[:, :, i] for i in range(3))
    want = ROPE.rotate_pair(q.copy(), k.copy(), 5, layout="bshd")
    got = ROPE.rotate_pair(q, k, 5, layout="bshd", out=(free, k))
    np.testing.assert_array_equal(got[0], want[0])
    np.testing.assert_array_equal(got[1], want[1])


def test_a_result_whose_elements_share_addresses_is_refused() -> None:
    x, strided = random(1, 2, 4, 8), np.lib.stride_tricks.as_strided
    shared = strided(np.zeros(200, "f4"), (1, 2, 4, 8), (0, 16, 16, 4))
    refused(lambda: ROPE.rotate(x, out=shared), "out: its elements share addresses with each other", "out")
    refused(lambda: ROPE.rotate(shared, out=shared), "x: its elements share addresses", "x")
    refused(lambda: gyre.rerotate(shared, ROPE, shift=1), "k: its elements share addresses", "k")
    refused(lambda: gyre.attention(x, x, x, out=shared), "out: its elements share addresses", "out")
    rows = strided(np.zeros(200, "f4"), (5, 8), (16, 4))
    refused(lambda: gyre.sinusoidal(8).add(rows, out=rows), "x: its elements share addresses", "x")
    scores = strided(np.zeros(200, "f4"), (2, 3, 3), (4, 4, 4))
    refused(lambda: gyre.alibi(2).add_bias(scores, 3), "scores: its elements share addresses", "scores")
    back = strided(np.zeros(200, "f4")[100:], (1, 2, 4, 8), (0, -16, 16, 4))
    refused(lambda: ROPE.rotate(x, out=back), "out: its elements share addresses", "out")
    large = strided(np.zeros(2**22, "f4"), (1, 2, 2**18, 8), (0, 16, 32, 4))
    refused(lambda: ROPE.rotate(large, out=large), "x: its elements share addresses", "x")


def test_strided_results_with_an_address_for_each_element() -> None:
    strided, rope = np.lib.stride_tricks.as_strided, gyre.rope(2)
    woven = strided(np.arange(24, dtype="f4"), (1, 1, 3, 2), (0, 0, 8, 12))  # elements 0 3 2 5 4 7
    want = rope.rotate(woven.copy(), 3)
    np.testing.assert_array_equal(rope.rotate(woven, 3, out=woven), want)
    memory = random(2, 6, 3, 4, 8)
    for x in (memory[:, :, 1].swapaxes(1, 2), memory[:, ::-2, 2], memory.transpose(0, 3, 1, 2, 4)[:, :, :, 1], memory[1:, :1, 0]):
        want = ROPE.rotate(x.copy(), 3)
        np.testing.assert_array_equal(ROPE.rotate(x, 3, out=x), want)


# -- a refused pair changes nothing --


def read_only(x: np.ndarray) -> np.ndarray:
    x = x.copy()
    x.flags.writeable = False
    return x


def test_a_refused_pair_leaves_the_queries() -> None:
    q, k = random(1, 4, 3, 8), random(1, 2, 3, 8, seed=1)
    kept = q.copy()
    one_address = np.lib.stride_tricks.as_strided(np.zeros(8, "f4"), (1, 2, 3, 8), (0, 0, 0, 4))
    wide = np.zeros((1, 2, 4, 8), "f4")
    cases = [
        (wide, r"out\[1\]: has shape \[1, 2, 4, 8\], but k has \[1, 2, 3, 8\]"),
        (one_address, r"out\[1\]: the stride of axis 1 is 0"),
        (np.zeros((1, 2, 3, 8)), r"out\[1\]: is of type float64, not float32"),
        (read_only(k), r"out\[1\]: is read-only"),
        (q[:, 1:3], r"q: shares memory with the result for k"),
        (wide[:, :, ::-1][:, :, :3].reshape(1, 2, 3, 8)[:, :, :, :4], r"out\[1\]: has shape"),
    ]
    for out, text in cases:
        refused(lambda out=out: ROPE.rotate_pair(q, k, 3, out=(q, out)), text)
        np.testing.assert_array_equal(q, kept)
    part = np.zeros((1, 2, 4, 8), "f4")
    refused(lambda: ROPE.rotate_pair(q, part[:, :, :3], 3, out=(q, part[:, :, 1:])), r"out\[1\]: shares a part of its memory with k")
    refused(lambda: ROPE.rotate_pair(q, k, 3, out=(k, q)), "out", None)  # the queries would overwrite the keys
    refused(lambda: ROPE.rotate_pair(k, k, 3, out=(k, k)), "q: shares memory with k, which")
    np.testing.assert_array_equal(q, kept)


def test_a_pair_shows_shapes_in_the_layout_of_the_caller() -> None:
    q, k = random(1, 3, 4, 8), random(1, 5, 2, 8)
    refused(
        lambda: ROPE.rotate_pair(q, k, layout="bshd"), r"k: has shape \[1, 5, 2, 8\], but q has \[1, 3, 4, 8\]", "k"
    )
    refused(lambda: ROPE.rotate_pair(random(1, 2, 3, 6), random(1, 2, 3, 6)), "q: 6 channels a head, the encoding has 8", "q")


def test_keys_of_xpos_whose_magnitude_leaves_the_range() -> None:
    encoding = gyre.xpos(8, xpos_base=4.0)
    q, k = random(1, 1, 1, 8), random(1, 1, 1, 8)
    kept = q.copy()
    for position in (2**20, -(2**20)):
        refused(lambda position=position: encoding.rotate_pair(q, k, position, out=(q, k)), "magnitude")
        np.testing.assert_array_equal(q, kept)


# -- numbers and arrays --


def test_a_number_of_positions_is_any_whole_number() -> None:
    want = ROPE.cos_sin(5)
    numbers = [np.int64(5), np.int32(5), np.array(5)]
    for five in numbers:
        np.testing.assert_array_equal(ROPE.cos_sin(five), want)
        np.testing.assert_array_equal(ROPE.cos_sin(np.int64(2), tokens=five), ROPE.cos_sin(np.arange(2, 7)))
        np.testing.assert_array_equal(gyre.alibi(2).bias(five), gyre.alibi(2).bias(5))
    refused(lambda: ROPE.cos_sin(np.arange(4), tokens=2), "tokens: is 2, but positions is an array", "tokens")
    refused(lambda: ROPE.cos_sin(-1), "positions: is -1, not a number of positions", "positions")
    refused(lambda: ROPE.cos_sin(0, tokens=-1), "tokens: is -1, not a number of positions", "tokens")
    refused(lambda: ROPE.cos_sin(2.5), "positions: is a float", "positions")
    assert ROPE.cos_sin(-3, tokens=2)[0].shape == (2, 8)


def test_a_number_of_queries_stands_at_the_last_of_an_array_of_keys() -> None:
    alibi, keys = gyre.alibi(2), np.array([3, 4, 9, 20, 21])
    np.testing.assert_array_equal(alibi.bias(2, keys), alibi.bias(keys[-2:], keys))
    np.testing.assert_array_equal(alibi.bias(2, keys[None]), alibi.bias(keys[None, -2:], keys[None]))
    np.testing.assert_array_equal(alibi.bias(2, keys[::-1]), alibi.bias(keys[::-1][-2:].copy(), keys[::-1].copy()))
    np.testing.assert_array_equal(alibi.bias(keys, 4), alibi.bias(keys, np.arange(4)))
    refused(lambda: alibi.bias(6, keys), "queries: is 6, but there are positions of 5 keys", "queries")
    torch = pytest.importorskip("torch")
    from gyre.torch import bias

    at = torch.from_numpy(keys)
    np.testing.assert_array_equal(bias(alibi, 2, at).numpy(), alibi.bias(2, keys))


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_a_shift_does_not_wrap(dtype: str) -> None:
    k = ROPE.rotate(random(1, 1, 2, 8), np.array([2**31 - 5, 2**31 - 4]))
    at = np.array([2**31 - 5, 2**31 - 4], dtype)
    refused(lambda: gyre.rerotate(k.copy(), ROPE, positions=at, shift=100), "new_positions: .*2147483743|new_positions")
    down = gyre.rerotate(k.copy(), ROPE, positions=at, shift=-7)
    np.testing.assert_array_equal(down, gyre.rerotate(k.copy(), ROPE, positions=at, new_positions=at.astype("i8") - 7))
    refused(lambda: gyre.rerotate(k.copy(), ROPE, positions=at, shift=2**62), "shift: .* takes positions past 2\\^31", "shift")


def test_shifts_of_every_form() -> None:
    k = random(1, 2, 4, 8)
    want = gyre.rerotate(k.copy(), ROPE, positions=2, shift=5)
    for shift in (np.int64(5), [5], (5,), np.array([5]), np.array(5)):
        np.testing.assert_array_equal(gyre.rerotate(k.copy(), ROPE, positions=2, shift=shift), want)
    np.testing.assert_array_equal(gyre.rerotate(k.copy(), ROPE, positions=np.arange(2, 6), shift=5), want)
    for shift in (2.5, "5", [1, 2], [1.5], object()):
        refused(lambda shift=shift: gyre.rerotate(k.copy(), ROPE, positions=2, shift=shift), "shift: is ", "shift")
    refused(lambda: gyre.rerotate(k.copy(), ROPE, positions=[1, 2, 3, 4], shift=1), "positions: is a list", "positions")
    axes = gyre.rope(8, axis_pairs=[2, 1, 1])
    at = np.arange(12).reshape(3, 4)
    moved = at + np.array([[1], [0], [-3]])
    np.testing.assert_array_equal(
        gyre.rerotate(k.copy(), axes, positions=at, shift=(1, 0, -3)), gyre.rerotate(k.copy(), axes, positions=at, new_positions=moved)
    )
    refused(lambda: gyre.rerotate(k.copy(), axes, positions=at, shift=(1, 0)), "shift: is .* not a whole number or a list of 3")
    torch = pytest.importorskip("torch")
    np.testing.assert_array_equal(
        gyre.rerotate(torch.from_numpy(k.copy()), ROPE, positions=torch.arange(2, 6, dtype=torch.int32), shift=torch.tensor(5)).numpy(),
        want,
    )


def test_truth_values_are_no_positions() -> None:
    x = random(1, 2, 4, 8)
    for truth in (True, False):
        refused(lambda truth=truth: ROPE.rotate(x, truth), f"positions: is {truth}, not a whole number", "positions")
        refused(lambda truth=truth: ROPE.cos_sin(truth), f"positions: is {truth}", "positions")
        refused(lambda truth=truth: gyre.alibi(2).bias(truth), f"queries: is {truth}", "queries")
        refused(lambda truth=truth: ROPE.rotate(x, np.array(truth)), "positions: is ", "positions")
    torch = pytest.importorskip("torch")
    refused(lambda: ROPE.rotate(x, torch.tensor(True)), "positions: is of type bool", "positions")


def test_masked_arrays_are_refused() -> None:
    x, mask = random(1, 2, 4, 8), np.ones((4, 4), bool)
    refused(lambda: ROPE.rotate(np.ma.masked_array(x, x > 0)), r"x: is a masked array, whose mask would be lost: pass x\.filled", "x")
    refused(lambda: ROPE.rotate(x, np.ma.arange(4)), "positions: is a masked array", "positions")
    refused(lambda: gyre.attention(x, x, x, mask=np.ma.masked_array(mask, ~mask)), "mask: is a masked array", "mask")
    np.testing.assert_array_equal(ROPE.rotate(x.view(type("Own", (np.ndarray,), {}))), ROPE.rotate(x))


# -- tensors without memory, and other states of torch --


def test_tensors_without_memory() -> None:
    torch = pytest.importorskip("torch")
    from torch._subclasses.fake_tensor import FakeTensorMode

    def freed(tensor):
        tensor = tensor.clone()
        tensor.untyped_storage().resize_(0)
        return tensor

    with FakeTensorMode():
        fake = torch.arange(4)
    x, alibi, t5 = torch.randn(1, 2, 4, 8), gyre.alibi(2), gyre.t5(2)
    rows, cache = torch.randn(4, 2, 8), gyre.Cache(ROPE, heads=2, max_tokens=8)
    cache.append(rows, rows)
    packed = {"query_starts": torch.tensor([0, 4]), "key_starts": torch.tensor([0, 4])}
    calls = {
        "positions": [
            lambda at: ROPE.rotate(x, at),
            lambda at: ROPE.rotate_pair(x, x, at),
            lambda at: ROPE.cos_sin(at),
            lambda at: gyre.attention(x, x, x, encoding=ROPE, positions=at),
            lambda at: gyre.rerotate(x.clone(), ROPE, positions=at, shift=1),
            lambda at: cache.append(rows, rows, at),
            lambda at: cache.attention(x, positions=at),
            lambda at: gyre.sinusoidal(8).add(x[0], at),
        ],
        "new_positions": [lambda at: gyre.rerotate(x.clone(), ROPE, new_positions=at)],
        "key_positions": [lambda at: gyre.attention(x, x, x, encoding=ROPE, key_positions=at)],
        "queries": [lambda at: alibi.bias(at), lambda at: alibi.add_bias(torch.zeros(2, 4, 4), at)],
        "keys": [lambda at: alibi.bias(4, at)],
    }
    for name, of_name in calls.items():
        for call in of_name:
            for at in (freed(torch.arange(100, 104)), fake):
                refused(lambda call=call, at=at: call(at), f"^{name}: has no memory", name)
    for name in ("key_first", "key_end", "query_end"):
        for number in (torch.tensor([2]), torch.tensor([2], dtype=torch.int32)):
            refused(lambda name=name, n=number: gyre.attention(x, x, x, **{name: freed(n)}), f"{name}: has no memory", name)
    for name in packed:
        options = {**packed, name: freed(packed[name])}
        refused(lambda options=options: gyre.attention(rows, rows, rows, **options), f"{name}: has no memory", name)
    for mask in (torch.zeros(4, 4), torch.ones(4, 4, dtype=torch.bool)):
        refused(lambda mask=mask: gyre.attention(x, x, x, mask=freed(mask)), "mask: has no memory", "mask")
        refused(lambda mask=mask: gyre.attention(x, x, x, mask=mask.to("meta")), "mask: ", "mask")
    refused(lambda: gyre.attention(x, x, x, sink_logits=freed(torch.zeros(2))), "sink_logits: has no memory", "sink_logits")
    refused(lambda: t5.bias(3, tables=freed(torch.zeros(32, 2))), "bias: has no memory", "bias")
    for name, call in {"x": lambda bad: ROPE.rotate(bad), "out": lambda bad: ROPE.rotate(x, out=bad)}.items():
        refused(lambda call=call: call(freed(x)), f"{name}: has no memory", name)
    assert ROPE.rotate(x[:, :, :0], torch.arange(0)).shape == (1, 2, 0, 8)  # an empty one needs none
    refused(lambda: gyre.attention(x, x, x, mask=torch.zeros(4, 0)), "mask: ", "mask")


def test_a_default_device_of_torch_changes_nothing() -> None:
    torch = pytest.importorskip("torch")
    at, x, seen = torch.arange(4), torch.randn(1, 2, 4, 8), torch.ones(4, 4, dtype=torch.bool).tril()
    calls = [
        lambda: ROPE.cos_sin(at)[0],
        lambda: gyre.alibi(2).bias(at),
        lambda: gyre.attention(x, x, x, lse=True)[1],
        lambda: gyre.attention(x, x, x, mask=seen),
        lambda: ROPE.rotate(x, at),
    ]
    want = [call() for call in calls]
    with torch.device("meta"):
        got = [call() for call in calls]
    for one, other in zip(want, got, strict=True):
        assert torch.equal(one, other)


def test_torch_knows_of_results_in_place() -> None:
    """What was multiplied is needed for the gradient.  torch refuses one that was overwritten since."""
    torch = pytest.importorskip("torch")
    other = torch.zeros(1, 2, 4, 8)
    scores = torch.zeros(2, 4, 4)
    writes = [
        (torch.randn(1, 2, 4, 8), lambda z: ROPE.rotate(z, 3, out=z)),
        (torch.randn(1, 2, 4, 8), lambda z: ROPE.rotate_pair(z, other, out=(z, other))),
        (torch.randn(1, 2, 4, 8), lambda z: gyre.rerotate(z, ROPE, shift=1)),
        (torch.randn(1, 2, 4, 8), lambda z: gyre.attention(other, other, other, out=z)),
        (scores, lambda z: gyre.alibi(2).add_bias(z, 4)),
        (torch.randn(4, 8), lambda z: gyre.sinusoidal(8).add(z, out=z)),
    ]
    for z, write in writes:
        w = torch.ones_like(z, requires_grad=True)
        y = (w * z).sum()
        write(z)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            y.backward()
    with torch.inference_mode():
        z = torch.randn(1, 2, 4, 8)
        ROPE.rotate(z, out=z)


# -- capsules that can be read once --


def once(array: np.ndarray) -> object:
    return array.__dlpack__()


def test_arrays_are_read_once_everywhere() -> None:
    q, k, v = random(1, 2, 4, 8), random(1, 2, 4, 8, seed=1), random(1, 2, 4, 8, seed=2)
    at = np.arange(3, 7)
    want = gyre.attention(q, k, v, encoding=ROPE, positions=at, causal=True)
    got = gyre.attention(once(q), once(k), once(v), encoding=ROPE, positions=once(at), causal=True)
    np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(ROPE.cos_sin(once(at)), ROPE.cos_sin(at))
    alibi = gyre.alibi(2)
    np.testing.assert_array_equal(alibi.bias(once(at)), alibi.bias(at))
    np.testing.assert_array_equal(alibi.bias(once(at), once(at)), alibi.bias(at))
    np.testing.assert_array_equal(alibi.bias(2, once(at)), alibi.bias(2, at))
    np.testing.assert_array_equal(
        gyre.rerotate(k.copy(), ROPE, gyre.rope(8, base=5e5), positions=once(at)),
        gyre.rerotate(k.copy(), ROPE, gyre.rope(8, base=5e5), positions=at),
    )
    np.testing.assert_array_equal(
        gyre.rerotate(k.copy(), ROPE, positions=once(at), shift=4), gyre.rerotate(k.copy(), ROPE, positions=at, shift=4)
    )
    starts = np.array([0, 1, 4])
    packed = [x[0].transpose(1, 0, 2).copy() for x in (q, k, v)]
    np.testing.assert_array_equal(
        gyre.attention(*packed, query_starts=once(starts), key_starts=once(starts)),
        gyre.attention(*packed, query_starts=starts, key_starts=starts),
    )


# -- exceptions of the caller's objects --


class Raises:
    """An array whose export raises."""

    def __init__(self, error: BaseException, in_device: bool = False) -> None:
        self.error, self.in_device = error, in_device

    def __dlpack__(self, **options):
        raise self.error

    def __dlpack_device__(self):
        if self.in_device:
            raise self.error
        return (1, 0)


@pytest.mark.parametrize("in_device", [False, True])
def test_exceptions_of_an_export(in_device: bool) -> None:
    x, cause = random(1, 1, 2, 8), RuntimeError("the memory is gone")
    error = refused(lambda: ROPE.rotate(Raises(cause, in_device)), "x: its memory cannot be read: the memory is gone", "x")
    assert error.__cause__ is cause
    calls = [
        lambda bad: ROPE.rotate(bad),
        lambda bad: ROPE.rotate(x, bad),
        lambda bad: ROPE.rotate(x, out=bad),
        lambda bad: ROPE.cos_sin(bad),
        lambda bad: gyre.alibi(2).bias(bad),
        lambda bad: gyre.attention(x, x, bad),
        lambda bad: gyre.t5(2).bias(3, tables={"bias": bad}),
    ]
    for call in calls:
        for ends in (KeyboardInterrupt, SystemExit, GeneratorExit):
            with pytest.raises(ends):
                call(Raises(ends(), in_device))
        assert refused(lambda call=call: call(Raises(cause, in_device)), "memory is gone").__cause__ is cause


def test_ctrl_c_within_a_number() -> None:
    class Number:
        def __init__(self, error: BaseException) -> None:
            self.error = error

        def __index__(self) -> int:
            raise self.error

        __float__ = __index__

        def __repr__(self) -> str:
            raise self.error

    for call in (
        lambda n: ROPE.rotate(random(1, 1, 2, 8), length=n),
        lambda n: gyre.Encoding(kind="rope", head_dim=n),
        lambda n: gyre.Encoding(kind="rope", head_dim=8, **{"rope.base": n}),
        lambda n: gyre.rerotate(random(1, 1, 2, 8), ROPE, shift=n),
    ):
        with pytest.raises(KeyboardInterrupt):
            call(Number(KeyboardInterrupt()))
        refused(lambda call=call: call(Number(ValueError("no"))), "a value that cannot be shown, not a ")


def test_an_argument_that_changes_while_it_is_read() -> None:
    tables: dict[str, object] = {}

    class Changes(Raises):
        def __dlpack__(self, **options):
            for i in range(1000):
                tables[f"{i}"] = i
            return np.zeros((32, 2), "f4").__dlpack__()

    tables["bias"] = Changes(ValueError())
    assert gyre.t5(2).bias(3, tables=tables).shape == (2, 3, 3)

    fields: dict[str, object] = {"kind": "rope"}

    class Head:
        def __index__(self) -> int:
            fields.clear()
            return 8

    fields["head_dim"] = Head()
    assert gyre._gyre.Encoding(**fields)._config(False)["head_dim"] == 8


# -- texts --


TEXTS = ["é" * 40, "b" + "é" * 40, "bh" + "語" * 30, "\U0001f600" * 99, "\udc80", "b\udcff" * 30, "a\0b"]


@pytest.mark.parametrize("text", TEXTS, ids=range(len(TEXTS)))
def test_texts_of_any_kind_in_messages(text: str) -> None:
    refused(lambda: ROPE.rotate(random(1, 1, 2, 8), layout=text), "layout: is ", "layout")
    refused(lambda: ROPE.rotate(random(1, 1, 2, 8), role=text), "role: is ", "role")
    refused(lambda: gyre.rope(8, scaling=text), "rope.scaling: is ", "rope.scaling")
    refused(lambda: gyre.Encoding(kind="rope", head_dim=8, **{text: 1}), "is not a field of a config")
    refused(lambda: gyre.Encoding.from_config(text))
    refused(lambda: gyre.Encoding.from_config({"model_type": text}))
    refused(lambda: gyre.Encoding.from_config("config.json", profile=text), "profile: is ", "profile")
    refused(lambda: gyre.open(text), "path: ", "path")
    refused(lambda: gyre.diff(text), "a: ", "a")
    refused(lambda: gyre.diff({"model_type": object()}), "a: is not a config", "a")


def test_a_name_of_a_file_that_is_none(tmp_path: Path) -> None:
    cache = gyre.Cache(ROPE, heads=1, max_tokens=2)
    calls = [
        lambda path: gyre.open(path),
        lambda path: gyre.Tokenizer.open(path),
        lambda path: gyre.Cache.load(path, ROPE),
        lambda path: cache.save(path),
        lambda path: gyre.diff(path),
        lambda path: gyre.explain(path),
        lambda path: gyre.Encoding.from_config(path),
    ]
    for call in calls:
        refused(lambda call=call: call("a\0b"), "has no NUL")
        refused(lambda call=call: call(3), "is a int, not ")
    odd = tmp_path / "\udcff\udcfe"  # bytes that are no UTF-8
    cache.save(odd)
    assert odd.exists() and gyre.Cache.load(odd, ROPE).tokens() == 0
    with pytest.raises(gyre.FileError):
        gyre.Cache.load(tmp_path / "\udcaa", ROPE)


def test_perplexity_of_what_is_no_text(bundled_model: Path) -> None:
    model = gyre.open(bundled_model)
    for text in (None, 3, b"text", [], [3], Path("a\0b"), [Path("a\0b")]):
        refused(lambda text=text: model.perplexity(text, contexts=[32]), "text: ", "text")


# -- types of results --


def test_cos_and_sin_of_every_type() -> None:
    pytest.importorskip("ml_dtypes")
    want = ROPE.cos_sin(5)[0]
    assert ROPE.cos_sin(5, dtype="float16")[0].dtype == np.float16
    assert str(ROPE.cos_sin(5, dtype="bfloat16")[0].dtype) == "bfloat16"
    for dtype in (int, "int32", "complex64", "float128", object(), 7, "nothing"):
        refused(lambda dtype=dtype: ROPE.cos_sin(5, dtype=dtype), "dtype: is .* not float16, bfloat16", "dtype")
    torch = pytest.importorskip("torch")
    assert str(ROPE.cos_sin(5, dtype=torch.bfloat16)[0].dtype) == "bfloat16"
    at = torch.arange(5)
    for dtype in (torch.bfloat16, "bfloat16"):
        got = ROPE.cos_sin(at, dtype=dtype)[0]
        assert torch.equal(got, torch.from_numpy(want).bfloat16())
    for dtype in (torch.float16, "float16", np.float16):
        assert ROPE.cos_sin(at, dtype=dtype)[0].dtype == torch.float16
    jax = pytest.importorskip("jax")
    assert ROPE.cos_sin(jax.numpy.arange(5), dtype="bfloat16")[0].dtype == jax.numpy.bfloat16


# -- values that were not looked at --


class _Alone(str):
    """A key that equals no other of the same text."""

    def __hash__(self) -> int:
        return id(self)

    def __eq__(self, other: object) -> bool:
        return self is other


def test_a_list_given_twice() -> None:
    keys = [_Alone("score.slopes") for _ in range(9)]
    refused(lambda: gyre.Encoding(kind="alibi", heads=2, **{key: [1.0, 2.0] for key in keys}), "given twice", "score.slopes")


def test_values_that_would_change_nothing_are_refused() -> None:
    refused(lambda: gyre.rope(8, factor=4), "factor: is 4, but scaling is 'none', which has no factor", "factor")
    refused(lambda: gyre.rope(8, factor=1.0, scaling="llama3", beta_fast=3, trained_length=64), "beta_fast: is 3, but", "beta_fast")
    refused(lambda: gyre.rope(8, scaling="linear", factor=0), "factor: is 0", "factor")
    refused(lambda: gyre.rope(8, base=0), "base: is 0", "base")
    refused(lambda: gyre.rope(8, short_factor=[1] * 4, long_factor=[1] * 4), "short_factor: .*scaling is 'none'", "short_factor")
    refused(lambda: gyre.rope(8, xpos_center=4), "xpos_center: is 4, but", "xpos_center")
    refused(lambda: gyre.rope(8, far_window=4), "far_window: is 4, but far is 'as-near'", "far_window")
    refused(lambda: gyre.rope(8, far="clamped", far_window=4, far_factor=2), "far_factor: is 2, but far is 'clamped'", "far_factor")
    refused(lambda: gyre.rope(8, chunk_size=4), "chunk_size: is 4, but far is 'as-near'", "chunk_size")
    refused(lambda: gyre.rope(8, far="chunked", far_window=4), "far_window: is 4, but far is 'chunked'", "far_window")
    refused(lambda: gyre.rope(8, far="grouped", local_size=4), "local_size: is 4, but far is 'grouped'", "local_size")
    refused(lambda: gyre.rope(8, far="chunked", chunk_size=6, local_size=0), "local_size: is 0", "local_size")
    refused(lambda: gyre.rope(8, far="chunked", chunk_size=6), "rope.chunk.local: missing", "rope.chunk.local")
    refused(lambda: gyre.tapa(8, amplitudes=0), "amplitudes: is 0; None", "amplitudes")
    refused(lambda: gyre.tapa(8, exponent=0), "exponent: is 0; None", "exponent")
    refused(lambda: gyre.tapa(8, amplitudes=8), "score.amplitudes: 8 channels of 8 leave none", "score.amplitudes")
    refused(lambda: gyre.tapa(8, exponent=-1), "score.exponent: -1 is below 0", "score.exponent")
    for terms in (2**32 + 1, -1, 2**40):
        refused(
            lambda terms=terms: gyre.Encoding(kind="shaw", head_dim=8, **{"score.max_distance": 4, "score.terms": terms}),
            "score.terms: is ",
            "score.terms",
        )
    refused(lambda: gyre.shaw(8, max_distance=4, terms=("query", "keys")), "terms: .*'keys'.* not", "terms")
    x = random(1, 2, 4, 8)
    refused(lambda: gyre.attention(x, x, x, scale=0.0), "scale: is 0", "scale")
    refused(lambda: gyre.attention(x, x, x, scale=0), "scale: is 0", "scale")
    assert np.isfinite(gyre.attention(x, x, x, scale=1e-30)).all()


def test_shifts_of_a_cache() -> None:
    cache = gyre.Cache(ROPE, heads=1, max_tokens=4)
    x = random(2, 1, 8)
    cache.append(x, x)
    cache.shift(0, 2, np.int64(3))
    cache.shift(0, 2, (4,))
    cache.shift(0, 2, [np.int32(1)])
    np.testing.assert_array_equal(cache.positions(), [8, 9])
    for delta in ((1, 2), (), (1, 0, 0, 0), 1.5, "1", None):
        refused(lambda delta=delta: cache.shift(0, 2, delta), "delta: is .* not a whole number", "delta")
    np.testing.assert_array_equal(cache.positions(), [8, 9])
    refused(lambda: cache.remove(0, 1.5), "count: is 1.5", "count")
    refused(lambda: cache.fork("a", 0), "source: is 'a'", "source")
    refused(lambda: cache.slide(0, None), "window: is None", "window")


# -- threads --


def test_a_cache_whose_encoding_is_set_by_another_thread() -> None:
    """Each call computes under one of the two encodings, or says that it was changed; none reads memory that is gone."""
    x = random(4, 1, 8)
    cache = gyre.Cache(gyre.rope(8), heads=1, max_tokens=64)
    cache.append(x, x)
    done, wrong = threading.Event(), []

    def change() -> None:
        for i in range(300):
            cache.set_encoding(gyre.rope(8, base=100.0 + i))
        done.set()

    def attend() -> None:
        while not done.is_set():
            try:
                if not np.isfinite(cache.attention(x)).all():
                    wrong.append("numbers")
            except gyre.Error as why:
                if why.field != "encoding":
                    wrong.append(why.text)

    threads = [threading.Thread(target=work) for work in (change, attend, attend)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong, wrong[:3]


def test_an_encoding_that_is_set_while_arguments_are_read() -> None:
    x = random(4, 1, 8)
    cache = gyre.Cache(gyre.rope(8), heads=1, max_tokens=64)
    cache.append(x, x)

    class Sets(Raises):
        def __dlpack__(self, **options):
            cache.set_encoding(gyre.rope(8, base=77.0))
            return x.__dlpack__()

    refused(lambda: cache.attention(Sets(ValueError())), "encoding: was changed by another thread during the call", "encoding")
    cache.attention(x)


def test_a_context_is_cut_while_another_thread_reads(bundled_model: Path) -> None:
    context = gyre.open(bundled_model).context(400)
    ids = list(range(40))
    wrong: list[str] = []

    def read() -> None:
        for _ in range(6):
            try:
                context.read(ids, rows=1)
            except gyre.Error as why:  # no room: the other thread has not cut yet
                wrong.append(why.text)

    def cut() -> None:
        for _ in range(400):
            if not 0 <= context.tokens <= 400:
                wrong.append("tokens")
            try:
                context.truncate(0)
            except gyre.Error as why:
                wrong.append(why.text)

    threads = [threading.Thread(target=work) for work in (read, cut)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    refused(lambda: context.truncate(401), "tokens: is 401, not 0 .. ", "tokens")


# -- configs and texts --


def test_what_a_config_does_not_take() -> None:
    full = {"model_type": "llama", "hidden_size": 64, "num_attention_heads": 4, "num_hidden_layers": 1}
    read = gyre.Encoding.from_config
    assert read(full).head_dim == 16
    refused(lambda: read(full, head_dim=3), "head_dim: is 3, but only a rope_parameters dict takes it", "head_dim")
    refused(lambda: read(full, trained_length=7), "trained_length: is 7, but only", "trained_length")
    refused(lambda: read("config.json", head_dim=3), "head_dim: is 3, but only", "head_dim")
    lone = {"rope_type": "yarn", "factor": 4.0}
    for scaling in ("yarn", "dynamic"):
        told = {**lone, "rope_type": scaling}
        refused(lambda told=told: read(told, head_dim=64), f"trained_length: missing; '{scaling}' needs it", "trained_length")
        assert read(told, head_dim=64, trained_length=512).config["trained_length"] == 512
    assert read({**lone, "original_max_position_embeddings": 512}, head_dim=64).config["trained_length"] == 512
    assert read({"rope_type": "linear", "factor": 4.0}, head_dim=64).config["rope.factor"] == 4
    assert read({"rope_theta": 1e6}, head_dim=64).config["rope.base"] == 1e6


def test_configs_that_cannot_be_read() -> None:
    deep: dict[str, object] = {}
    for _ in range(3000):
        deep = {"text_config": deep}

    class Config:
        def to_dict(self) -> dict[str, object]:
            raise AttributeError("not yet made")

    for name, call in {"source": gyre.Encoding.from_config, "a": gyre.diff}.items():
        refused(lambda call=call: call(Config), f"{name}: is the class Config, not a config", name)
        refused(lambda call=call: call(Config()), rf"{name}: its to_dict\(\) failed: not yet made", name)
        refused(lambda call=call: call(deep), f"{name}: is not a config: it is too deep", name)
    refused(lambda: gyre.diff({"model_type": "llama"}, Config), "b: is the class Config", "b")
    refused(lambda: gyre.explain(Config), "source: is the class Config", "source")


def test_texts_and_numbers_of_models(bundled_model: Path) -> None:
    model = gyre.open(bundled_model)
    refused(lambda: model.perplexity("\udc80 " * 500, contexts=[32]), r"text: holds '\\udc80', which UTF-8 cannot write", "text")
    for windows in (0, -1, np.int64(0)):
        refused(lambda windows=windows: model.perplexity("a text " * 99, windows=windows), "windows: is .*, not 1 or more", "windows")
    tokenizer = model.tokenizer()
    refused(lambda: tokenizer.encode("a", begin="x"), "begin: is 'x', not True or False", "begin")
    refused(lambda: tokenizer.encode("a", special=None), "special: is None, not True or False", "special")
    refused(lambda: tokenizer.decode([1], special="x"), "special: is 'x', not True or False", "special")
    assert tokenizer.encode("a", begin=1) == tokenizer.encode("a", begin=True)
    context = model.context(16)
    refused(lambda: context.read([1, 2], rows=-1), "rows: is -1, not 0 or more; None = all", "rows")
    assert context.tokens == 0 and len(context.read([1, 2, 3])) == 3
    assert len(context.read([1, 2], rows=0)) == 0 and len(context.read([1, 2], rows=1)) == 1
