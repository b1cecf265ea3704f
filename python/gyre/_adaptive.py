"""Attention whose biases a network adapts to query and key (DAPE), and its gradient."""

from __future__ import annotations

from typing import Any

from gyre import _gyre
from gyre._encoding import Encoding
from gyre._errors import calling


def adaptive_attention(
    q: Any,
    k: Any,
    v: Any,
    hidden_weights: Any,
    output_weights: Any,
    *,
    hidden_bias: Any = None,
    output_bias: Any = None,
    form: str | None = None,
    slope: float | None = None,
    scale: float | None = None,
    causal: bool | str = True,
    encoding: Encoding | None = None,
    tables: Any = None,
    positions: Any = None,
    key_positions: Any = None,
    length: int | None = None,
    bias: Any = None,
    layout: str | None = None,
    query_starts: Any = None,
    key_starts: Any = None,
    key_first: Any = None,
    key_end: Any = None,
    lse: bool = False,
) -> Any:
    """Attention with data-adaptive biases (DAPE, Zheng 2024, arXiv 2405.14722), exact and without n x n memory.

    A network reads the scaled products A and the biases B of all heads of a query and a key, and gives each head a number that
    is added to its score: A + B + f([A, B]), f(x) = output_bias + output_weights leaky_relu(hidden_bias + hidden_weights x).

    Args:
        q, k, v: any arrays, layout as in gyre.attention.  All is computed in float32.
        hidden_weights: [hidden units, 2 x heads], the weights of A first; [hidden units, heads] for "add-residual".
        output_weights: [heads, hidden units].  hidden_bias: [hidden units]; output_bias: [heads]; None = zeros.
        form: "concat-residual" (the default, as in the released code), "concat": A + f([A, B]), or "add-residual":
            A + B + f(A + B), which without a bias is A + f(A), for queries and keys that are rotated before.
        slope: of the leaky ReLU below 0; default 0.01.  scale: of q . k; default 1 / sqrt(channels).
        causal: True or "order" = the last query stands beside the last key, and each before it sees one key fewer; False or
            "none" = each sees all.
        encoding: whose biases B are: gyre.alibi, t5, kerple, fire or sandwich.  tables: those of the scheme.
        positions, key_positions, length: of the scheme, as in gyre.attention.  None: keys stand at 0, 1, 2, ..., and the last
            query beside the last key, also in each sequence of a packed or padded batch.
        bias: [batch, heads, queries, keys], fewer axes from the left or 1 to broadcast: numbers that are added to B.
        query_starts, key_starts, key_first, key_end: a packed batch and padding, as in gyre.attention.
        lse: True returns (result, log-sum-exp in float32).

    Raises gyre.Error.
    """
    with calling():
        return _gyre.adaptive_attention(
            q,
            k,
            v,
            hidden_weights,
            output_weights,
            hidden_bias=hidden_bias,
            output_bias=output_bias,
            form=form,
            slope=slope,
            scale=scale,
            causal=causal,
            encoding=encoding,
            tables=tables,
            positions=positions,
            key_positions=key_positions,
            length=length,
            bias=bias,
            layout=layout,
            query_starts=query_starts,
            key_starts=key_starts,
            key_first=key_first,
            key_end=key_end,
            lse=lse,
        )


def adaptive_gradient(
    dout: Any,
    q: Any,
    k: Any,
    v: Any,
    hidden_weights: Any,
    output_weights: Any,
    out: Any,
    lse: Any,
    *,
    hidden_bias: Any = None,
    output_bias: Any = None,
    form: str | None = None,
    slope: float | None = None,
    scale: float | None = None,
    causal: bool | str = True,
    encoding: Encoding | None = None,
    tables: Any = None,
    positions: Any = None,
    key_positions: Any = None,
    length: int | None = None,
    bias: Any = None,
    layout: str | None = None,
    query_starts: Any = None,
    key_starts: Any = None,
    key_first: Any = None,
    key_end: Any = None,
) -> tuple[Any, Any, Any, dict[str, Any]]:
    """(dq, dk, dv, others), given dout and what adaptive_attention(..., lse=True) returned.

    others: "hidden_weights", "output_weights", and of what was given "hidden_bias", "output_bias" and "bias", the last
    [batch, heads, queries, keys] whatever was broadcast; "tables": a dict by name.  Gradients to the network are float64 where
    it is, else float32.  Raises gyre.Error.
    """
    with calling():
        return _gyre.adaptive_gradient(
            dout,
            q,
            k,
            v,
            hidden_weights,
            output_weights,
            out,
            lse,
            hidden_bias=hidden_bias,
            output_bias=output_bias,
            form=form,
            slope=slope,
            scale=scale,
            causal=causal,
            encoding=encoding,
            tables=tables,
            positions=positions,
            key_positions=key_positions,
            length=length,
            bias=bias,
            layout=layout,
            query_starts=query_starts,
            key_starts=key_starts,
            key_first=key_first,
            key_end=key_end,
        )
