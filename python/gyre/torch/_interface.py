"""attn_implementation="gyre" of transformers: its models compute attention by gyre.torch.attention."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from gyre._errors import Error
from gyre.torch._attention import attention

_NAME = "gyre"


def _is_causal(module: torch.nn.Module, given: bool | None, queries: int) -> bool:
    """As transformers reads it: a mask that is left out stands for the causal one, which one query does not need."""
    causal = getattr(module, "is_causal", True) if given is None else given
    return queries > 1 and bool(causal)


def _forward(
    module: torch.nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    dropout: float = 0.0,
    is_causal: bool | None = None,
    softcap: float | None = None,
    s_aux: Tensor | None = None,
    position_bias: Tensor | None = None,
    output_attentions: bool | None = None,
    **_: Any,
) -> tuple[Tensor, Tensor | None]:
    """An attention function of transformers: [batch, heads, tokens, channels], rotated, to [batch, tokens, heads, channels]."""
    if position_bias is not None:
        raise Error("EUNSUPPORTED", "position_bias: is not passed on by attn_implementation='gyre'", "position_bias")
    causal = attention_mask is None and _is_causal(module, is_causal, query.shape[2])
    if causal and key.shape[2] > query.shape[2]:  # a static cache that is not full; without a mask its end is not seen
        key, value = key[:, :, : query.shape[2]], value[:, :, : query.shape[2]]
    found = attention(
        query,
        key,
        value,
        causal=causal,
        mask=attention_mask,
        scale=scaling,
        softcap=softcap or None,
        sink_logits=None if s_aux is None else s_aux.float(),
        dropout=dropout or None,
        seed=int(torch.randint(2**62, ())) if dropout else None,
        weights=bool(output_attentions),
    )
    out, weights = found if output_attentions else (found, None)
    return out.transpose(1, 2).contiguous(), weights


def register_attention() -> str:
    """Gives transformers the attention "gyre", and returns that name.

        model = AutoModelForCausalLM.from_pretrained(folder, attn_implementation=gyre.torch.register_attention())

    Models then compute attention, forward and backward, by gyre.torch.attention, on the CPU in float32, bfloat16 or
    float16, with masks, caches, windows, soft caps, sinks and dropout.  Positions remain those of the model.  A mask gets
    no gradient.  Tried with transformers 5.23 and 5.24.
    """
    from transformers import AttentionInterface, AttentionMaskInterface
    from transformers.masking_utils import sdpa_mask

    AttentionInterface.register(_NAME, _forward)
    AttentionMaskInterface.register(_NAME, sdpa_mask)
    return _NAME
