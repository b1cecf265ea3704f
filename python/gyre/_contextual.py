"""Attention with positions that each query counts (CoPE), and its gradient."""

from __future__ import annotations

from typing import Any

from gyre import _gyre
from gyre._errors import calling


def contextual_attention(
    q: Any,
    k: Any,
    v: Any,
    embeddings: Any,
    *,
    gate_keys: Any = None,
    scale: float | None = None,
    gate_scale: float | None = None,
    position_scale: float | None = None,
    layout: str | None = None,
    query_starts: Any = None,
    key_starts: Any = None,
    key_first: Any = None,
    key_end: Any = None,
    lse: bool = False,
) -> Any:
    """Causal attention with contextual positions (CoPE, Golovneva 2024, arXiv 2405.18719), exact and without n x n memory.

    The position of a key is the sum of sigmoid(gate_scale q . k) over the keys from it to the query, and q . e of that position,
    on the line between two embeddings, is added to the score.

    Args:
        q, k, v: any arrays, layout as in gyre.attention.  The last query stands beside the last key.  All is computed in
            float32.
        embeddings: [positions, channels], or [positions, heads, channels] for heads with embeddings of their own.
        gate_keys: shaped as k: what the gates are of, in place of k.
        scale: of q . k; default 1 / sqrt(channels).  gate_scale: of q . k in the gates; default 1 / sqrt(channels); 1 is the
            text of the paper.  position_scale: of q . e; default 1; the released code has 1 / sqrt(channels).
        query_starts, key_starts, key_first, key_end: a packed batch and padding, as in gyre.attention.
        lse: True returns (result, log-sum-exp in float32).

    Raises gyre.Error.
    """
    with calling():
        return _gyre.contextual_attention(
            q,
            k,
            v,
            embeddings,
            gate_keys=gate_keys,
            scale=scale,
            gate_scale=gate_scale,
            position_scale=position_scale,
            layout=layout,
            query_starts=query_starts,
            key_starts=key_starts,
            key_first=key_first,
            key_end=key_end,
            lse=lse,
        )


def contextual_gradient(
    dout: Any,
    q: Any,
    k: Any,
    v: Any,
    embeddings: Any,
    out: Any,
    lse: Any,
    *,
    gate_keys: Any = None,
    scale: float | None = None,
    gate_scale: float | None = None,
    position_scale: float | None = None,
    layout: str | None = None,
    query_starts: Any = None,
    key_starts: Any = None,
    key_first: Any = None,
    key_end: Any = None,
) -> tuple[Any, Any, Any, Any, Any]:
    """(dq, dk, dv, dembeddings, dgate_keys or None), given dout and what contextual_attention(..., lse=True) returned.

    dembeddings is float64 where the embeddings are, else float32; the others are of the type of what they are of.
    Raises gyre.Error.
    """
    with calling():
        return _gyre.contextual_gradient(
            dout,
            q,
            k,
            v,
            embeddings,
            out,
            lse,
            gate_keys=gate_keys,
            scale=scale,
            gate_scale=gate_scale,
            position_scale=position_scale,
            layout=layout,
            query_starts=query_starts,
            key_starts=key_starts,
            key_first=key_first,
            key_end=key_end,
        )
