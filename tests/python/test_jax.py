"""gyre.jax.rotate under jit, grad and vmap, and arrays of JAX through DLPack."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import gyre
import gyre.jax as gj
import jax
import jax.numpy as jnp
import numpy
import pytest
from jax.test_util import check_grads

YARN = gyre.rope(32, scaling="yarn", factor=4.0, trained_length=64)


@pytest.fixture
def x64() -> Iterator[None]:
    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", True)
    yield
    jax.config.update("jax_enable_x64", before)


def some(*shape: int, dtype: Any = numpy.float32) -> Any:
    return jnp.asarray(numpy.random.default_rng(0).standard_normal(shape).astype(dtype))


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("layout", ["bhsd", "bshd", "thd"])
def test_jit_is_the_core(dtype: str, layout: str) -> None:
    x = some(*((2, 3, 5, 32) if layout != "thd" else (5, 3, 32))).astype(dtype)
    tokens = x.shape[{"bhsd": 2, "bshd": 1, "thd": 0}[layout]]
    for at in (jnp.arange(tokens) * 7, 3, None):
        right = YARN.rotate(x, at, layout=layout)
        for role in ("query", "key"):
            got = jax.jit(lambda x, at, role=role: gj.rotate(x, YARN, at, layout=layout, role=role))(x, at)
            assert got.dtype == x.dtype and jnp.array_equal(got, right)
        assert jnp.array_equal(gj.rotate(x, YARN, at, layout=layout), right)


def test_positions_by_row_and_by_axis() -> None:
    x = some(2, 3, 5, 32)
    rows = jnp.arange(10).reshape(2, 5) * 3 % 7
    assert jnp.array_equal(gj.rotate(x, YARN, rows), YARN.rotate(x, rows))
    assert jnp.array_equal(gj.rotate(x, YARN, rows[:1]), YARN.rotate(x, rows[0]))
    axes = gyre.rope(32, axis_pairs=(8, 4, 4))
    for at in (jnp.stack([rows, rows + 2, rows * 2]), jnp.stack([rows[0], rows[1], rows[0]]), rows[0]):
        assert jnp.array_equal(jax.jit(lambda x, at: gj.rotate(x, axes, at))(x, at), axes.rotate(x, at))


@pytest.mark.parametrize(
    "encoding",
    [
        YARN,
        gyre.rope(32, layout="interleaved"),
        gyre.rope(32, dim=16),
        gyre.rope(32, temperature="llama4", reference_length=4, slope=0.1),
    ],
)
def test_derivatives_in_double(encoding: gyre.Encoding, x64: None) -> None:
    x = some(2, 1, 5, 32, dtype=numpy.float64)
    assert x.dtype == jnp.float64
    for role in ("query", "key"):
        check_grads(jax.jit(lambda x, role=role: gj.rotate(x, encoding, 2, role=role)), (x,), order=2, modes=["rev"])


def test_grad_is_that_of_the_formula() -> None:
    x, at = some(1, 2, 5, 32), jnp.arange(5) + 9

    def formula(x: Any) -> Any:
        angles = at[:, None] * jnp.asarray(YARN.frequencies(), jnp.float32)
        c, s = (jnp.concatenate((f(angles), f(angles)), -1) * YARN.attention_factor() for f in (jnp.cos, jnp.sin))
        return x * c + jnp.concatenate((-x[..., 16:], x[..., :16]), -1) * s

    for f in (lambda x: (gj.rotate(x, YARN, at) ** 3).sum(), jax.jit(lambda x: (gj.rotate(x, YARN, at) ** 3).sum())):
        numpy.testing.assert_allclose(jax.grad(f)(x), jax.grad(lambda x: (formula(x) ** 3).sum())(x), rtol=2e-4, atol=2e-5)


def test_vmap_and_scan() -> None:
    x = some(4, 2, 3, 5, 32)
    mapped = jax.jit(jax.vmap(lambda x: gj.rotate(x, YARN, 1)))(x)
    assert jnp.array_equal(mapped, jnp.stack([YARN.rotate(one, 1) for one in x]))
    _, scanned = jax.lax.scan(lambda at, one: (at + 1, gj.rotate(one, YARN, at)), 0, x)
    assert jnp.array_equal(scanned, jnp.stack([YARN.rotate(one, i) for i, one in enumerate(x)]))


def test_one_program_for_every_position() -> None:
    traced: list[int] = []

    @jax.jit
    def step(x: Any, at: Any) -> Any:
        traced.append(1)
        return gj.rotate(x, YARN, at)

    x = some(1, 2, 1, 32)
    for at in range(20):
        assert jnp.array_equal(step(x, at), YARN.rotate(x, at))
    assert len(traced) == 1


def test_many_threads() -> None:
    """Several programs run at once, large enough for the threads of the library, with an encoding that is new to it."""
    encodings = [gyre.rope(64, base=1000.0 + i) for i in range(4)]
    x, failed = some(1, 8, 2048, 64), []

    def work(encoding: gyre.Encoding) -> None:
        right = encoding.rotate(x)
        for _ in range(10):
            if not jnp.array_equal(jax.jit(lambda x: gj.rotate(x, encoding))(x), right):
                failed.append(encoding)

    threads = [threading.Thread(target=work, args=(encoding,)) for encoding in encodings]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed


@pytest.mark.slow
def test_a_program_kept_on_disk(tmp_path: Path) -> None:
    """Another process runs it without compiling: the encoding is told by text, not by an address."""
    program = (
        "import jax, sys, gyre, gyre.jax, jax.numpy as jnp\n"
        f"jax.config.update('jax_compilation_cache_dir', {str(tmp_path)!r})\n"
        "jax.config.update('jax_persistent_cache_min_compile_time_secs', 0)\n"
        "jax.config.update('jax_persistent_cache_min_entry_size_bytes', -1)\n"
        "e = gyre.rope(32, base=777.0)\n"
        "x = jnp.ones((1, 2, 5, 32))\n"
        "assert jnp.array_equal(jax.jit(lambda x: gyre.jax.rotate(x, e))(x), e.rotate(x))\n"
    )
    for _ in range(2):
        subprocess.run([sys.executable, "-c", program], check=True)


def test_errors_name_the_argument() -> None:
    x = some(1, 2, 5, 32)
    for call, text in (
        (lambda: gj.rotate(x, "rope"), "encoding: is a str"),
        (lambda: gj.rotate(x, gyre.alibi(2)), "encoding: alibi does not rotate"),
        (lambda: gj.rotate(x, YARN, layout="xyz"), "layout: 'xyz'"),
        (lambda: gj.rotate(x, YARN, layout="thd"), "x: has 4 axes"),
        (lambda: gj.rotate(x[..., :16], YARN), "x: 16 channels"),
        (lambda: gj.rotate(x.astype(jnp.int32), YARN), "x: is int32"),
        (lambda: gj.rotate(x, YARN, jnp.arange(4)), r"positions: has shape \(4,\)"),
        (lambda: gj.rotate(x, YARN, jnp.arange(5.0)), "positions: is float32"),
        (lambda: gj.rotate(x, YARN, role="value"), "role: 'value'"),
        (lambda: gj.rotate(x, YARN, direction="inverse"), "direction: 'inverse'"),
    ):
        with pytest.raises(gyre.Error, match=text):
            call()


def test_errors_of_the_program(x64: None) -> None:
    with pytest.raises(Exception, match=r"2\^31|2147483648|range"):
        jax.block_until_ready(jax.jit(lambda x, at: gj.rotate(x, YARN, at))(some(1, 1, 1, 32), jnp.asarray([2**40])))


def test_dlpack_in_and_out() -> None:
    x = some(1, 2, 5, 32)
    out = YARN.rotate(x, jnp.arange(5))
    assert isinstance(out, jax.Array) and isinstance(gyre.attention(x, x, x, encoding=YARN, causal=True), jax.Array)
    numpy.testing.assert_array_equal(out, YARN.rotate(numpy.asarray(x), 0))
    c, s = YARN.cos_sin(jnp.arange(5))
    assert isinstance(c, jax.Array) and c.shape == s.shape == (5, 32)
    with pytest.raises(gyre.Error, match="out"):
        YARN.rotate(x, out=x)  # arrays of JAX never change


def test_without_the_header_of_jaxlib(monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs call the C library, and give the same bits by way of Python."""
    assert gj.uses_ffi()
    x = jnp.asarray(numpy.random.default_rng(3).standard_normal((2, 3, 5, 32)), jnp.float32)
    at = jnp.asarray([[7, 8, 9, 10, 11]])

    def both() -> list[Any]:
        jax.clear_caches()
        step = jax.jit(lambda x: gj.rotate(x, YARN, at, role="key"))
        return [numpy.asarray(step(x)), numpy.asarray(jax.jit(jax.grad(lambda x: (step(x) ** 2).sum()))(x))]

    called = both()
    monkeypatch.setattr("gyre.jax._rotate._HANDLER", None)
    assert not gj.uses_ffi()
    for a, b in zip(called, both(), strict=True):
        numpy.testing.assert_array_equal(a, b)
    jax.clear_caches()


def test_nothing_is_changed_in_silence() -> None:
    """JAX makes 32 bits of 64; what does not fit is refused as the core does."""
    x = some(1, 2, 4, 32)
    rope = gyre.rope(32)
    for call, text in (
        (lambda: gj.rotate(x, rope, 2**31 - 2), "positions: 2147483649 of token 3 is past"),
        (lambda: gj.rotate(x, rope, -(2**31) - 1), "positions: -2147483649 of token 0 is past"),
        (lambda: gj.rotate(x, rope, 2**70), "positions: "),
        (lambda: gj.rotate(x, rope, numpy.array([2**32 + 5] * 4)), "positions: 4294967301 of token 0 is past"),
        (lambda: gj.rotate(x, rope, numpy.array([0, 1, 2, 2**63], dtype=numpy.uint64)), "of token 3 is past"),
        (lambda: gj.rotate(x, rope, "2"), "positions: is "),
        (lambda: gj.rotate(x, rope, 2.5), "positions: is 2.5"),
        (lambda: gj.rotate(numpy.zeros((1, 2, 4, 32)), rope), "x: is float64"),
        (lambda: gj.rotate("abc", rope), "x: is "),
        (lambda: gj.rotate(x, rope, length=33.9), "length: is 33.9"),
        (lambda: gj.rotate(x, rope, length=-4), "length: is -4"),
        (lambda: gj.rotate(x, rope, length="a"), "length: is 'a'"),
        (lambda: gj.rotate(x, rope, layout=4), "layout: 4"),
    ):
        with pytest.raises(gyre.Error, match=text):
            call()
    for at in (2**31 - 4, numpy.array([5, 6, 7, 8]), numpy.uint8(3), jnp.int32(3), -5):
        wanted = rope.rotate(x, at if isinstance(at, numpy.ndarray) else int(at))
        assert jnp.array_equal(gj.rotate(x, rope, at), wanted), at
        assert jnp.array_equal(jax.jit(lambda x, at=at: gj.rotate(x, rope, at))(x), wanted), at


def test_double_where_jax_has_it(x64: None) -> None:
    x = numpy.random.default_rng(1).standard_normal((1, 2, 4, 32))
    assert gj.rotate(x, gyre.rope(32)).dtype == jnp.float64
