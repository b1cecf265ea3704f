"""Names that people know from elsewhere, and what stands for them here."""

from __future__ import annotations

from collections.abc import Iterable

_NAMES = {
    "attn_mask": "mask",
    "attention_mask": "mask",
    **dict.fromkeys(
        ("cu_seqlens", "cu_seqlens_q", "cu_seqlens_k"), "query_starts and key_starts, which gyre.Batch.from_cu_seqlens has in its arguments"
    ),
    "from_pretrained": "gyre.open for a model, gyre.Encoding.from_config for its positions",
    "inv_freq": "frequencies()",
    "is_causal": "causal",
    "kinds": "gyre.fields() for the fields of a config; a kind is a function, such as gyre.rope",
    "max_position_embeddings": "trained_length",
    "original_max_position_embeddings": "trained_length",
    "partial_rotary_factor": "dim, a number of channels: the factor times head_dim",
    "position_ids": "positions",
    "profiles": "profile= of Encoding.from_config, whose help lists them",
    "rope_scaling": "scaling",
    "rope_theta": "base",
    "rotary_dim": "dim",
    "softmax_scale": "scale",
    "theta": "base",
}


def hint(name: str, known: Iterable[str] = ()) -> str:
    """ "; did you mean ...?", of the table or of the names that are most alike; "" = nothing is."""
    found = _NAMES.get(name)
    if found is None:
        import difflib  # only for an error: what is imported with gyre is short

        alike = difflib.get_close_matches(name, list(known), 1)
        found = alike[0] if alike else None
    return f"; did you mean {found}?" if found else ""
