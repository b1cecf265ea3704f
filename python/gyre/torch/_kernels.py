"""The kernel of _fused, in Triton's language, which has no types."""

# mypy: ignore-errors

from __future__ import annotations

from typing import Any

import triton
import triton.language as tl

_jit: Any = triton.jit  # has no types


@_jit
def _turn(
    x, out, x_head, x_channel, out_head, out_channel, heads, cosine, sine, pair, is_pair,
    PAIRS: tl.constexpr, FIRST: tl.constexpr, REST: tl.constexpr, READ_HALF: tl.constexpr, WRITE_HALF: tl.constexpr,
    BLOCK_REST: tl.constexpr, BLOCK_HEADS: tl.constexpr,
):  # fmt: skip
    """The heads of one token.  x, out: its first head."""
    if READ_HALF:
        read_x, read_y = FIRST + pair, FIRST + pair + PAIRS
    else:
        read_x, read_y = FIRST + 2 * pair, FIRST + 2 * pair + 1
    if WRITE_HALF:
        write_x, write_y = FIRST + pair, FIRST + pair + PAIRS
    else:
        write_x, write_y = FIRST + 2 * pair, FIRST + 2 * pair + 1
    for begin in range(0, heads, BLOCK_HEADS):
        head = (begin + tl.arange(0, BLOCK_HEADS))[:, None].to(tl.int64)
        mask = (head < heads) & is_pair[None, :]
        from_head, to_head = x + head * x_head, out + head * out_head
        a = tl.load(from_head + read_x[None, :] * x_channel, mask=mask, other=0.0).to(tl.float32)
        b = tl.load(from_head + read_y[None, :] * x_channel, mask=mask, other=0.0).to(tl.float32)
        kind = out.dtype.element_ty
        tl.store(to_head + write_x[None, :] * out_channel, (a * cosine - b * sine).to(kind), mask=mask)
        tl.store(to_head + write_y[None, :] * out_channel, (a * sine + b * cosine).to(kind), mask=mask)
        if REST > 0:
            i = tl.arange(0, BLOCK_REST)
            channel = tl.where(i < FIRST, i, i + 2 * PAIRS)
            kept = (head < heads) & (i < REST)[None, :]
            numbers = tl.load(from_head + channel[None, :] * x_channel, mask=kept, other=0.0)
            tl.store(to_head + channel[None, :] * out_channel, numbers, mask=kept)


@_jit
def rotate_heads(
    q, q_out, k, k_out, positions, increments, axes, factor, tokens, q_heads, k_heads,
    q_batch, q_token, q_head, q_channel, q_out_batch, q_out_token, q_out_head, q_out_channel,
    k_batch, k_token, k_head, k_channel, k_out_batch, k_out_token, k_out_head, k_out_channel,
    axis_stride, batch_stride, token_stride,
    PAIRS: tl.constexpr, FIRST: tl.constexpr, REST: tl.constexpr, READ_HALF: tl.constexpr, WRITE_HALF: tl.constexpr,
    BACK: tl.constexpr, BLOCK_PAIRS: tl.constexpr, BLOCK_REST: tl.constexpr, BLOCK_HEADS: tl.constexpr,
):  # fmt: skip
    """One program for each token; the angles are those of gyre_device.h."""
    row = tl.program_id(0).to(tl.int64)
    b, t = row // tokens, row % tokens
    pair = tl.arange(0, BLOCK_PAIRS)
    is_pair = pair < PAIRS
    axis = tl.load(axes + pair, mask=is_pair, other=0)
    at = tl.load(positions + axis * axis_stride + b * batch_stride + t * token_stride, mask=is_pair, other=0).to(tl.int64)
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
    if BACK:
        sine = -sine
    cosine, sine = cosine[None, :], sine[None, :]
    _turn(
        q + b * q_batch + t * q_token, q_out + b * q_out_batch + t * q_out_token, q_head, q_channel, q_out_head,
        q_out_channel, q_heads, cosine, sine, pair, is_pair,
        PAIRS, FIRST, REST, READ_HALF, WRITE_HALF, BLOCK_REST, BLOCK_HEADS,
    )  # fmt: skip
    _turn(
        k + b * k_batch + t * k_token, k_out + b * k_out_batch + t * k_out_token, k_head, k_channel, k_out_head,
        k_out_channel, k_heads, cosine, sine, pair, is_pair,
        PAIRS, FIRST, REST, READ_HALF, WRITE_HALF, BLOCK_REST, BLOCK_HEADS,
    )  # fmt: skip
