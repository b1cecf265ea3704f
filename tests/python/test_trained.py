"""Rotations with trained frequencies, by angles, PoPE, FoPE: values against numpy, gradients against differences."""

import gyre
import numpy as np
import pytest


def formula(x: np.ndarray, frequencies: np.ndarray, positions: np.ndarray, phases: np.ndarray) -> np.ndarray:
    """x [batch, heads, tokens, channels], pairs in halves; positions [axes, batch, tokens]."""
    angle = np.einsum("abt,ahp->bhtp", positions, np.broadcast_to(frequencies, (len(positions), x.shape[1], frequencies.shape[2])))
    angle = angle + phases[None, :, None, :]
    a, b = np.split(x, 2, axis=-1)
    return np.concatenate([a * np.cos(angle) - b * np.sin(angle), a * np.sin(angle) + b * np.cos(angle)], -1)


def numbers(heads: int) -> tuple[np.ndarray, ...]:
    random = np.random.default_rng(heads)
    x, dout = random.standard_normal((2, 2, 3, 4, 8))
    return x, dout, random.standard_normal((2, heads, 4)), random.integers(-9, 9, (2, 2, 4)), random.standard_normal((3, 4))


@pytest.mark.parametrize("heads", [1, 3])
def test_rotation_and_its_gradients(heads: int) -> None:
    x, dout, frequencies, positions, phases = numbers(heads)
    rotated = gyre.trained_rotate(x, frequencies, positions, phases=phases)
    assert np.allclose(rotated, formula(x, frequencies, positions, phases), rtol=0, atol=1e-13)
    assert np.allclose(gyre.trained_rotate(rotated, frequencies, positions, phases=phases, direction="adjoint"), x)
    df, dp = gyre.trained_gradient(rotated, dout, frequencies, positions, phases=phases)
    assert df.shape == frequencies.shape and dp.shape == phases.shape
    for gradient, number in ((df, frequencies), (dp, phases)):
        step = np.zeros_like(number)
        step[0, -1] = 1e-6
        moved = [
            np.sum(dout * formula(x, *((frequencies + s, positions, phases) if number is frequencies else (frequencies, positions, phases + s))))
            for s in (step, -step)
        ]
        assert np.isclose(np.sum(gradient[0, -1]), (moved[0] - moved[1]) / 2e-6, rtol=1e-6, atol=1e-6)


def test_rope_is_a_case() -> None:
    rope = gyre.rope(8, layout="interleaved")
    x = np.random.default_rng(1).standard_normal((5, 2, 8)).astype(np.float32)
    got = gyre.trained_rotate(x, rope.frequencies()[None, None], 7, pairs="interleaved")
    assert np.allclose(got, rope.rotate(x, 7), atol=1e-6) and got.dtype == np.float32
    df, dp = gyre.trained_gradient(got, x, rope.frequencies()[None, None].astype(np.float32), 7, pairs="interleaved")
    assert df.dtype == np.float32 and df.shape == (1, 1, 4) and dp is None


def test_refusals() -> None:
    x, dout, frequencies, positions, phases = numbers(3)
    with pytest.raises(gyre.Error, match=r"frequencies: has 2 axes, not \[axes, heads or 1, pairs\]"):
        gyre.trained_rotate(x, frequencies[0], positions)
    with pytest.raises(gyre.Error, match="phases"):
        gyre.trained_rotate(x, frequencies, positions, phases=phases[:2])
    with pytest.raises(gyre.Error, match="positions"):
        gyre.trained_rotate(x, frequencies, positions[:1])
    with pytest.raises(gyre.Error, match="pairs"):
        gyre.trained_rotate(x, frequencies, positions, pairs="thirds")
    with pytest.raises(gyre.Error, match="dout"):
        gyre.trained_gradient(x, dout[..., :6], frequencies, positions)


def turned(x: np.ndarray, angles: np.ndarray) -> np.ndarray:
    """x [batch, heads, tokens, channels], pairs in halves; angles [batch, heads or 1, tokens, pairs]."""
    a, b = np.split(x, 2, axis=-1)
    return np.concatenate([a * np.cos(angles) - b * np.sin(angles), a * np.sin(angles) + b * np.cos(angles)], -1)


@pytest.mark.parametrize("heads", [1, 3])
def test_angles_of_the_caller_and_their_gradients(heads: int) -> None:
    random = np.random.default_rng(6)
    x, dout = random.standard_normal((2, 2, 3, 4, 8))
    angles = 100 * random.standard_normal((2, heads, 4, 4))
    rotated = gyre.angle_rotate(x, angles)
    np.testing.assert_allclose(rotated, turned(x, angles), rtol=0, atol=1e-14)
    np.testing.assert_allclose(gyre.angle_rotate(rotated, angles, direction="adjoint"), x, rtol=0, atol=1e-14)
    found = gyre.angle_gradient(rotated, dout, angles)
    assert found.shape == angles.shape and found.dtype == angles.dtype
    for at in np.ndindex(angles.shape):
        step = np.zeros_like(angles)
        step[at] = 1e-6
        moved = [np.sum(dout * turned(x, angles + s)) for s in (step, -step)]
        assert np.isclose(found[at], (moved[0] - moved[1]) / 2e-6, rtol=1e-6, atol=1e-7)
    short = gyre.angle_rotate(x.astype("f2"), angles[:1, :, :1].astype("f4").repeat(2, 0).repeat(4, 2))
    assert short.dtype == np.float16
    part = np.zeros((4, 3, 11), np.float32)  # [tokens, heads, channels]: some channels alone rotate
    part[..., 2:10] = gyre.angle_rotate(x[0].transpose(1, 0, 2), angles[0].transpose(1, 0, 2)).astype("f4")
    bare = np.zeros_like(part)
    bare[..., 2:10] = x[0].transpose(1, 0, 2)
    got = gyre.angle_rotate(bare, angles[0].transpose(1, 0, 2), first_channel=2)
    np.testing.assert_allclose(got, part, rtol=0, atol=1e-6)


def test_angles_that_tokens_make_are_summed() -> None:
    """The score of two tokens depends on what the tokens between them made; pieces have the bits of the whole."""
    random = np.random.default_rng(7)
    made = random.standard_normal((2, 3, 9, 4))
    sums = gyre.gate_sums(made)
    np.testing.assert_array_equal(sums, np.cumsum(made, 2))
    later = gyre.gate_sums(made[:, :, 5:], initial=sums[:, :, 4])
    np.testing.assert_array_equal(later, sums[:, :, 5:])
    packed = made[0].transpose(1, 0, 2)
    np.testing.assert_array_equal(
        gyre.gate_sums(packed, layout="thd", starts=np.array([0, 4, 9])),
        np.concatenate([np.cumsum(packed[:4], 0), np.cumsum(packed[4:], 0)]),
    )
    np.testing.assert_allclose(gyre.gate_sums_gradient(sums), sums[:, :, ::-1].cumsum(2)[:, :, ::-1], rtol=1e-12, atol=1e-12)
    with pytest.raises(gyre.Error, match=r"initial: has shape \[2, 3\], not \[2, 3, 4\]|initial: has 2 axes"):
        gyre.gate_sums(made, initial=np.zeros((2, 3)))


def test_refusals_of_angles() -> None:
    x, angles = np.zeros((2, 3, 4, 8)), np.zeros((2, 3, 4, 4))
    with pytest.raises(gyre.Error, match=r"angles: .*float32 or float64"):
        gyre.angle_rotate(x, angles.astype("f2"))
    with pytest.raises(gyre.Error, match="angles: has 3 axes"):
        gyre.angle_rotate(x, angles[0])
    with pytest.raises(gyre.Error, match=r"angles: shape"):
        gyre.angle_rotate(x, angles[:, :2])
    with pytest.raises(gyre.Error, match="angles: 4 pairs from channel 1 on"):
        gyre.angle_rotate(x, angles, first_channel=1)
    with pytest.raises(gyre.Error, match="pairs: "):
        gyre.angle_rotate(x, angles, pairs="thirds")
    with pytest.raises(gyre.Error, match="dout"):
        gyre.angle_gradient(x, x[..., :6], angles)


def polar(x: np.ndarray, frequencies: np.ndarray, positions: np.ndarray, phases: np.ndarray) -> np.ndarray:
    ones = np.concatenate([np.log1p(np.exp(x)), np.zeros_like(x)], -1)
    return formula(ones, frequencies, positions, np.clip(phases, -2 * np.pi, 0))


def test_polar_coordinates_and_their_gradients() -> None:
    random = np.random.default_rng(5)
    x, dout = random.standard_normal((2, 3, 4, 6)), random.standard_normal((2, 3, 4, 12))
    frequencies, positions = random.standard_normal((1, 1, 6)), random.integers(-9, 9, (1, 2, 4))
    phases = 4 * random.standard_normal((3, 6)) - 3
    arguments = x, frequencies, positions, phases
    got = gyre.polar_rotate(x, frequencies, positions[0], phases=phases)
    assert np.allclose(got, polar(*arguments), rtol=0, atol=1e-12)
    gradients = gyre.polar_gradient(x, dout, frequencies, positions[0], phases=phases)
    for gradient, which in zip(gradients, (0, 1, 3), strict=True):
        assert gradient.shape == arguments[which].shape
        step = np.zeros_like(arguments[which])
        step.flat[-1] = 1e-6
        moved = [np.sum(dout * polar(*(a + s if i == which else a for i, a in enumerate(arguments)))) for s in (step, -step)]
        assert np.isclose(gradient.flat[-1], (moved[0] - moved[1]) / 2e-6, rtol=1e-6, atol=1e-6)
    short = gyre.polar_rotate(x.astype(np.float32)[0], frequencies, 3)
    assert short.dtype == np.float32 and short.shape == (3, 4, 12)
    with pytest.raises(gyre.Error, match="frequencies"):
        gyre.polar_rotate(x, frequencies[..., :5], positions[0])


def released_fope(x: np.ndarray, frequencies: np.ndarray, cosines: np.ndarray, sines: np.ndarray, positions: np.ndarray) -> np.ndarray:
    """x [batch, heads, tokens, channels] as the released code has it: two einsums, both padded with 1, and rotate_half."""
    angle = positions[None, None, :, None] * frequencies
    c, s = (np.einsum("bhtD,hDd->bhtd", f(angle), k) for f, k in ((np.cos, cosines), (np.sin, sines)))
    pad = ((0, 0), (0, 0), (0, 0), (0, x.shape[-1] // 2 - c.shape[-1]))
    c, s = (np.tile(np.pad(k, pad, constant_values=1), 2) for k in (c, s))
    a, b = np.split(x, 2, axis=-1)
    return x * c + np.concatenate([-b, a], -1) * s


def test_fourier_series_and_their_gradients() -> None:
    random = np.random.default_rng(4)
    x, dout = random.standard_normal((2, 2, 3, 5, 12))
    numbers = [random.standard_normal(s) for s in ((7,), (3, 7, 4), (3, 7, 4))]
    positions = np.array([0, 3, -4, 17, 9])
    options = {"all_pairs": 6, "rest": "released"}
    got = gyre.fourier_rotate(x, *numbers, positions, **options)
    assert np.allclose(got, released_fope(x, *numbers, positions), rtol=0, atol=1e-12)
    back = gyre.fourier_rotate(got, *numbers, positions, **options, direction="inverse")
    assert np.allclose(back, x)
    adjoint = gyre.fourier_rotate(dout, *numbers, positions, **options, direction="adjoint")
    assert np.isclose(np.sum(adjoint * x), np.sum(dout * got))
    still = gyre.fourier_rotate(x, *numbers, positions, all_pairs=6)
    assert np.array_equal(still[..., [4, 5, 10, 11]], x[..., [4, 5, 10, 11]]) and np.allclose(still[..., :4], got[..., :4])
    gradients = gyre.fourier_gradient(x, dout, *numbers, positions, **options)
    for which, gradient in enumerate(gradients):
        assert gradient.shape == numbers[which].shape
        for at in np.ndindex(gradient.shape):
            step = np.zeros_like(numbers[which])
            step[at] = 1e-6
            up, down = (
                np.sum(dout * released_fope(x, *(n + s if i == which else n for i, n in enumerate(numbers)), positions)) for s in (step, -step)
            )
            assert np.isclose(gradient[at], (up - down) / 2e-6, rtol=1e-6, atol=1e-5)
    short = gyre.fourier_rotate(x.astype(np.float32), *(n.astype(np.float32) for n in numbers), positions)
    assert short.dtype == np.float32
    for wrong in ({"rest": "moving"}, {"all_pairs": 3}, {"all_pairs": 7}, {"first_channel": 5}, {"direction": "back"}):
        with pytest.raises(gyre.Error):
            gyre.fourier_rotate(x, *numbers, positions, **wrong)
    with pytest.raises(gyre.Error, match=r"cosines: has 2 axes, not \[heads or 1, terms, pairs\]"):
        gyre.fourier_rotate(x, numbers[0], numbers[1][0], numbers[2], positions)
