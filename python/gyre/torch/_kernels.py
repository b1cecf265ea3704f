"""The kernels of _fused, in Triton's language, which has no types."""

# mypy: ignore-errors

from __future__ import annotations

from typing import Any

import triton
import triton.language as tl

_jit: Any = triton.jit  # has no types


@_jit
def _angles(at, increments, factor, pair, is_pair):
    """cos and sin of each pair, as gyre_device.h has them.  at: the position of each pair."""
    phase = tl.load(increments + pair, mask=is_pair, other=0) * at
    quarter = (phase + 2305843009213693952) >> 62  # 2^61
    rest = phase - (quarter << 62)
    y = rest.to(tl.float32) * 4.3368086899420177e-19  # 2^-61
    z = y * y
    c = ((z * 3.5313346e-6 - 3.2594200e-4) * z + 1.5854327e-2) * z - 3.0842513e-1
    s = ((z * -3.5877260e-5 + 2.4898720e-3) * z - 8.0745369e-2) * z + 2.6894206e-8
    c, s = z * c + 1.0, y * 7.8539813e-1 + y * s
    odd = (quarter & 1) != 0
    across, along = tl.where(odd, s, c), tl.where(odd, c, s)
    cosine = tl.where(((quarter + 1) & 2) != 0, -across, across) * factor
    sine = tl.where((quarter & 2) != 0, -along, along) * factor
    return cosine, sine


@_jit
def _magnitude(at, decays, center, limit, pair, is_pair):
    """2^(decay distance) of xPos, the decays in 2^-48.  Further than `limit` from the center it is 0 or infinite anyway."""
    distance = tl.minimum(tl.maximum(at - center, -limit), limit)
    power = tl.load(decays + pair, mask=is_pair, other=0) * distance
    whole = power >> 48
    rest = (power - (whole << 48)).to(tl.float32) * 3.5527136788005009e-15  # 2^-48
    half = whole >> 1  # each of the factors is in range where the product is
    return tl.exp2(rest) * tl.exp2(half.to(tl.float32)) * tl.exp2((whole - half).to(tl.float32))


@_jit
def _members(pair, PAIRS: tl.constexpr, FIRST: tl.constexpr, HALF: tl.constexpr):
    """The channels of both members of each pair."""
    if HALF:
        first, second = FIRST + pair, FIRST + pair + PAIRS
    else:
        first, second = FIRST + 2 * pair, FIRST + 2 * pair + 1
    return first, second


@_jit
def _others(FIRST: tl.constexpr, PAIRS: tl.constexpr, BLOCK_REST: tl.constexpr):
    """The channels that are in no pair."""
    i = tl.arange(0, BLOCK_REST)
    return tl.where(i < FIRST, i, i + 2 * PAIRS)


@_jit
def _rows(x, head, x_head, channel, x_channel, mask):
    """[heads, channels] of a token as floats."""
    return tl.load(x + head * x_head + channel[None, :] * x_channel, mask=mask, other=0.0).to(tl.float32)


@_jit
def _put(out, head, out_head, channel, out_channel, mask, numbers):
    tl.store(out + head * out_head + channel[None, :] * out_channel, numbers.to(out.dtype.element_ty), mask=mask)


@_jit
def _turn(
    x, out, cache, x_head, x_channel, out_head, out_channel, cache_head, cache_channel, heads, cosine, sine, weight, epsilon,
    kept_heads, pair, is_pair,
    PAIRS: tl.constexpr, FIRST: tl.constexpr, REST: tl.constexpr, READ_HALF: tl.constexpr, WRITE_HALF: tl.constexpr,
    NORM: tl.constexpr, CACHED: tl.constexpr, BLOCK_REST: tl.constexpr, BLOCK_HEADS: tl.constexpr,
):  # fmt: skip
    """The heads of one token.  x, out, cache: its first head.  CACHED: the first kept_heads of them go to the cache
    too."""
    read_x, read_y = _members(pair, PAIRS, FIRST, READ_HALF)
    write_x, write_y = _members(pair, PAIRS, FIRST, WRITE_HALF)
    other = _others(FIRST, PAIRS, BLOCK_REST)
    is_other = tl.arange(0, BLOCK_REST) < REST
    for begin in range(0, heads, BLOCK_HEADS):
        head = (begin + tl.arange(0, BLOCK_HEADS))[:, None].to(tl.int64)
        mask, kept = (head < heads) & is_pair[None, :], (head < heads) & is_other[None, :]
        a = _rows(x, head, x_head, read_x, x_channel, mask)
        b = _rows(x, head, x_head, read_y, x_channel, mask)
        if REST > 0:
            rest = _rows(x, head, x_head, other, x_channel, kept)
        if NORM:
            squares = tl.sum(a * a + b * b, 1)
            if REST > 0:
                squares += tl.sum(rest * rest, 1)
                rest_weight = tl.load(weight + other, mask=is_other, other=0.0).to(tl.float32)[None, :]
            by = tl.rsqrt(squares / (2 * PAIRS + REST) + epsilon)[:, None]
            a = a * by * tl.load(weight + read_x, mask=is_pair, other=0.0).to(tl.float32)[None, :]
            b = b * by * tl.load(weight + read_y, mask=is_pair, other=0.0).to(tl.float32)[None, :]
            if REST > 0:
                rest = rest * by * rest_weight
        first, second = a * cosine - b * sine, a * sine + b * cosine
        _put(out, head, out_head, write_x, out_channel, mask, first)
        _put(out, head, out_head, write_y, out_channel, mask, second)
        if REST > 0:
            _put(out, head, out_head, other, out_channel, kept, rest)
        if CACHED:
            mask, kept = (head < kept_heads) & is_pair[None, :], (head < kept_heads) & is_other[None, :]
            _put(cache, head, cache_head, write_x, cache_channel, mask, first)
            _put(cache, head, cache_head, write_y, cache_channel, mask, second)
            if REST > 0:
                _put(cache, head, cache_head, other, cache_channel, kept, rest)


@_jit
def _unturn(
    x, gradient, out, x_head, x_channel, gradient_head, gradient_channel, out_head, out_channel, heads, cosine, sine, weight,
    epsilon, to_weight, pair, is_pair,
    PAIRS: tl.constexpr, FIRST: tl.constexpr, REST: tl.constexpr, READ_HALF: tl.constexpr, WRITE_HALF: tl.constexpr,
    BLOCK_PAIRS: tl.constexpr, BLOCK_REST: tl.constexpr, BLOCK_HEADS: tl.constexpr,
):  # fmt: skip
    """The gradient of _turn with NORM for the heads of one token, from that of its result.  to_weight: its row of the gradient
    for the weight."""
    read_x, read_y = _members(pair, PAIRS, FIRST, READ_HALF)
    write_x, write_y = _members(pair, PAIRS, FIRST, WRITE_HALF)
    other = _others(FIRST, PAIRS, BLOCK_REST)
    is_other = tl.arange(0, BLOCK_REST) < REST
    weight_x = tl.load(weight + read_x, mask=is_pair, other=0.0).to(tl.float32)[None, :]
    weight_y = tl.load(weight + read_y, mask=is_pair, other=0.0).to(tl.float32)[None, :]
    sum_x, sum_y = tl.zeros([BLOCK_PAIRS], tl.float32), tl.zeros([BLOCK_PAIRS], tl.float32)
    if REST > 0:
        rest_weight = tl.load(weight + other, mask=is_other, other=0.0).to(tl.float32)[None, :]
        sum_rest = tl.zeros([BLOCK_REST], tl.float32)
    for begin in range(0, heads, BLOCK_HEADS):
        head = (begin + tl.arange(0, BLOCK_HEADS))[:, None].to(tl.int64)
        mask, kept = (head < heads) & is_pair[None, :], (head < heads) & is_other[None, :]
        a = _rows(x, head, x_head, read_x, x_channel, mask)
        b = _rows(x, head, x_head, read_y, x_channel, mask)
        first = _rows(gradient, head, gradient_head, write_x, gradient_channel, mask)
        second = _rows(gradient, head, gradient_head, write_y, gradient_channel, mask)
        to_a, to_b = first * cosine + second * sine, second * cosine - first * sine
        squares = tl.sum(a * a + b * b, 1)
        if REST > 0:
            rest = _rows(x, head, x_head, other, x_channel, kept)
            to_rest = _rows(gradient, head, gradient_head, other, gradient_channel, kept)
            squares += tl.sum(rest * rest, 1)
        by = tl.rsqrt(squares / (2 * PAIRS + REST) + epsilon)[:, None]
        a, b = a * by, b * by
        sum_x += tl.sum(to_a * a, 0)
        sum_y += tl.sum(to_b * b, 0)
        to_a, to_b = to_a * weight_x, to_b * weight_y
        along = tl.sum(to_a * a + to_b * b, 1)
        if REST > 0:
            rest = rest * by
            sum_rest += tl.sum(to_rest * rest, 0)
            to_rest = to_rest * rest_weight
            along += tl.sum(to_rest * rest, 1)
        mean = (along / (2 * PAIRS + REST))[:, None]
        _put(out, head, out_head, read_x, out_channel, mask, (to_a - a * mean) * by)
        _put(out, head, out_head, read_y, out_channel, mask, (to_b - b * mean) * by)
        if REST > 0:
            _put(out, head, out_head, other, out_channel, kept, (to_rest - rest * mean) * by)
    tl.store(to_weight + read_x, sum_x, mask=is_pair)
    tl.store(to_weight + read_y, sum_y, mask=is_pair)
    if REST > 0:
        tl.store(to_weight + other, sum_rest, mask=is_other)


@_jit
def rotate_heads(
    q, q_out, k, k_out, positions, increments, axes, factor, tokens, q_heads, k_heads,
    q_batch, q_token, q_head, q_channel, q_out_batch, q_out_token, q_out_head, q_out_channel,
    k_batch, k_token, k_head, k_channel, k_out_batch, k_out_token, k_out_head, k_out_channel,
    axis_stride, batch_stride, token_stride,
    decays, center, limit, q_weight, k_weight, epsilon,
    k_cache, v, v_cache, slots, page_tokens, v_heads, v_channels,
    k_page, k_place, k_cache_head, k_cache_channel, v_batch, v_token, v_head, v_channel,
    v_page, v_place, v_cache_head, v_cache_channel,
    PAIRS: tl.constexpr, FIRST: tl.constexpr, REST: tl.constexpr, READ_HALF: tl.constexpr, WRITE_HALF: tl.constexpr,
    BACK: tl.constexpr, XPOS: tl.constexpr, NORM: tl.constexpr, CACHED: tl.constexpr, BLOCK_PAIRS: tl.constexpr,
    BLOCK_REST: tl.constexpr, BLOCK_HEADS: tl.constexpr, BLOCK_VALUES: tl.constexpr,
):  # fmt: skip
    """One program for each token.  XPOS: 1 where the first tensor is queries, -1 where it is keys; the second one is keys.
    CACHED: keys, and v, go to the pages of a cache too, but for slots below 0."""
    row = tl.program_id(0).to(tl.int64)
    b, t = row // tokens, row % tokens
    pair = tl.arange(0, BLOCK_PAIRS)
    is_pair = pair < PAIRS
    axis = tl.load(axes + pair, mask=is_pair, other=0)
    at = tl.load(positions + axis * axis_stride + b * batch_stride + t * token_stride, mask=is_pair, other=0).to(tl.int64)
    cosine, sine = _angles(at, increments, factor, pair, is_pair)
    if BACK:
        sine = -sine
    cosine, sine = cosine[None, :], sine[None, :]
    q_cosine, q_sine, k_cosine, k_sine = cosine, sine, cosine, sine
    if XPOS != 0:
        q_size = _magnitude(at * XPOS, decays, center * XPOS, limit, pair, is_pair)[None, :]
        k_size = _magnitude(-at, decays, -center, limit, pair, is_pair)[None, :]
        q_cosine, q_sine, k_cosine, k_sine = cosine * q_size, sine * q_size, cosine * k_size, sine * k_size
    _turn(
        q + b * q_batch + t * q_token, q_out + b * q_out_batch + t * q_out_token, q_out, q_head, q_channel, q_out_head,
        q_out_channel, q_head, q_channel, q_heads, q_cosine, q_sine, q_weight, epsilon, 0, pair, is_pair,
        PAIRS, FIRST, REST, READ_HALF, WRITE_HALF, NORM, False, BLOCK_REST, BLOCK_HEADS,
    )  # fmt: skip
    if CACHED:
        slot = tl.load(slots + row).to(tl.int64)
    else:
        slot = row * 0
    page, place, is_kept = slot // page_tokens, slot % page_tokens, (slot >= 0).to(tl.int32)
    _turn(
        k + b * k_batch + t * k_token, k_out + b * k_out_batch + t * k_out_token, k_cache + page * k_page + place * k_place,
        k_head, k_channel, k_out_head, k_out_channel, k_cache_head, k_cache_channel, k_heads, k_cosine, k_sine, k_weight,
        epsilon, k_heads * is_kept, pair, is_pair,
        PAIRS, FIRST, REST, READ_HALF, WRITE_HALF, NORM, CACHED, BLOCK_REST, BLOCK_HEADS,
    )  # fmt: skip
    if CACHED:
        channel = tl.arange(0, BLOCK_VALUES)
        mask = channel < v_channels
        for head in range(0, v_heads * is_kept):
            values = tl.load(v + b * v_batch + t * v_token + head * v_head + channel * v_channel, mask=mask, other=0.0)
            to = v_cache + page * v_page + place * v_place + head * v_cache_head + channel * v_cache_channel
            tl.store(to, values.to(v_cache.dtype.element_ty), mask=mask)


@_jit
def normed_gradient(
    q, q_gradient, q_out, k, k_gradient, k_out, positions, increments, axes, factor, tokens, q_heads, k_heads,
    q_batch, q_token, q_head, q_channel, q_gradient_batch, q_gradient_token, q_gradient_head, q_gradient_channel,
    q_out_batch, q_out_token, q_out_head, q_out_channel,
    k_batch, k_token, k_head, k_channel, k_gradient_batch, k_gradient_token, k_gradient_head, k_gradient_channel,
    k_out_batch, k_out_token, k_out_head, k_out_channel,
    axis_stride, batch_stride, token_stride,
    decays, center, limit, q_weight, k_weight, epsilon, q_to_weight, k_to_weight,
    PAIRS: tl.constexpr, FIRST: tl.constexpr, REST: tl.constexpr, READ_HALF: tl.constexpr, WRITE_HALF: tl.constexpr,
    XPOS: tl.constexpr, BLOCK_PAIRS: tl.constexpr, BLOCK_REST: tl.constexpr, BLOCK_HEADS: tl.constexpr,
):  # fmt: skip
    """The gradient of rotate_heads with NORM.  q_to_weight, k_to_weight: [batch x tokens, channels], float32."""
    row = tl.program_id(0).to(tl.int64)
    b, t = row // tokens, row % tokens
    pair = tl.arange(0, BLOCK_PAIRS)
    is_pair = pair < PAIRS
    axis = tl.load(axes + pair, mask=is_pair, other=0)
    at = tl.load(positions + axis * axis_stride + b * batch_stride + t * token_stride, mask=is_pair, other=0).to(tl.int64)
    cosine, sine = _angles(at, increments, factor, pair, is_pair)
    cosine, sine = cosine[None, :], sine[None, :]
    q_cosine, q_sine, k_cosine, k_sine = cosine, sine, cosine, sine
    if XPOS != 0:
        q_size = _magnitude(at, decays, center, limit, pair, is_pair)[None, :]
        k_size = _magnitude(-at, decays, -center, limit, pair, is_pair)[None, :]
        q_cosine, q_sine, k_cosine, k_sine = cosine * q_size, sine * q_size, cosine * k_size, sine * k_size
    _unturn(
        q + b * q_batch + t * q_token, q_gradient + b * q_gradient_batch + t * q_gradient_token,
        q_out + b * q_out_batch + t * q_out_token, q_head, q_channel, q_gradient_head, q_gradient_channel, q_out_head,
        q_out_channel, q_heads, q_cosine, q_sine, q_weight, epsilon, q_to_weight + row * (2 * PAIRS + REST), pair, is_pair,
        PAIRS, FIRST, REST, READ_HALF, WRITE_HALF, BLOCK_PAIRS, BLOCK_REST, BLOCK_HEADS,
    )  # fmt: skip
    _unturn(
        k + b * k_batch + t * k_token, k_gradient + b * k_gradient_batch + t * k_gradient_token,
        k_out + b * k_out_batch + t * k_out_token, k_head, k_channel, k_gradient_head, k_gradient_channel, k_out_head,
        k_out_channel, k_heads, k_cosine, k_sine, k_weight, epsilon, k_to_weight + row * (2 * PAIRS + REST), pair, is_pair,
        PAIRS, FIRST, REST, READ_HALF, WRITE_HALF, BLOCK_PAIRS, BLOCK_REST, BLOCK_HEADS,
    )  # fmt: skip
