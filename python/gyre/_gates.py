"""Running sums of log forget gates, which attention takes as query_gate_sums and key_gate_sums, and their gradient."""

from __future__ import annotations

from typing import Any

from gyre import _gyre


def gate_sums(log_gates: Any, *, layout: str | None = None, starts: Any = None, initial: Any = None, double: bool = True) -> Any:
    """sums[t] = log_gates[0] + ... + log_gates[t] for each head, added in double in the order of tokens.

    attention(..., query_gate_sums=sums, key_gate_sums=sums) then has the forget gates of the Forgetting Transformer (Lin 2025,
    arXiv 2503.02130).

    Args:
        log_gates: the logarithms of gates in (0, 1], [batch, heads, tokens], or [tokens, heads] of a packed batch: the axes of
            queries but channels.  A padding token has 0.  They are added as they are: numbers above 0, as gates in the place of
            their logarithms, are not refused, and NaN or an infinity is in every sum after it.
        layout: that of the queries, "bhsd" (None), "bshd", "thd" (None with two axes) or the like.
        starts: a packed batch: sequence s is tokens starts[s] .. starts[s + 1] - 1, and its sums begin at 0.
        initial: float64 [batch, heads], or [sequences, heads] of a packed batch: the sums before the first token, where a
            sequence comes in pieces.
        double: True = float64, which keeps differences of large sums; False = float32, for short sequences.

    Returns an array of the kind of log_gates, shaped alike.  Raises gyre.Error.
    """
    return _gyre.gate_sums(log_gates, layout=layout, starts=starts, initial=initial, double=double)


def gate_sums_gradient(
    dquery_gate_sums: Any, dkey_gate_sums: Any = None, *, layout: str | None = None, starts: Any = None
) -> Any:
    """The gradient to log_gates, given those to the sums of queries and of keys, which attention_gradient returns.

    At each token: both added over it and the tokens after it in its sequence, in double.  Arguments as in gate_sums; float32 or
    float64.  Returns an array shaped and typed as the first.  Raises gyre.Error.
    """
    return _gyre.gate_sums_gradient(dquery_gate_sums, dkey_gate_sums, layout=layout, starts=starts)
