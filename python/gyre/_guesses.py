"""Names that people know from elsewhere, and what stands for them here."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])

_NAMES = {
    "apply_rotary_pos_emb": "rotate_pair",
    "attn_mask": "mask",
    "attention_mask": "mask",
    **dict.fromkeys(
        ("cu_seqlens", "cu_seqlens_q", "cu_seqlens_k"), "query_starts and key_starts, which gyre.Batch.from_cu_seqlens has in its arguments"
    ),
    "dropout_p": "dropout",
    "from_pretrained": "gyre.open for a model, gyre.Encoding.from_config for its positions",
    "inv_freq": "frequencies()",
    "is_causal": "causal",
    "kinds": "gyre.fields() for the fields of a config; a kind is a function, such as gyre.rope",
    "max_new_tokens": "max_tokens",
    "max_position_embeddings": "trained_length",
    "num_attention_heads": "heads",
    "original_max_position_embeddings": "trained_length",
    "partial_rotary_factor": "dim, a number of channels: the factor times head_dim",
    "position_ids": "positions",
    "profiles": "profile= of Encoding.from_config, whose help lists them",
    "rope_scaling": "scaling",
    "rope_theta": "base",
    "rope_type": "scaling",
    "rotary_dim": "dim",
    "softmax_scale": "scale",
    "theta": "base",
}
# Values of arguments, without the signs that _folded leaves out.
_WORDS = {
    "gptj": "interleaved",
    "gptneox": "half",
    "huggingface": "hf-5",
    "neox": "half",
    "su": "longrope",
    "transformers": "hf-5",
}


def _folded(name: str) -> str:
    return name.lower().replace("-", "").replace("_", "")


def guess(name: str, known: Iterable[str] = ()) -> str | None:
    """What is meant by a name that is none of `known`: by the table, or the one that is most alike, whatever its case.

    Names may be those of fields of a config: "rope.theta" and "theta" are "rope.base".
    """
    each = list(known)
    place, dot, last = name.rpartition(".")
    meant = _NAMES.get(last.lower())
    found = f"{place}{dot}{meant}" if meant else name
    wanted = (_folded(found), _folded(f"rope.{found}"))
    for one in each:
        if _folded(one) in wanted:
            return one
    if meant:  # no other name stands for it, so nothing is said where it is missing
        return None if each and meant.isidentifier() else found
    if not each:
        return None
    import difflib  # only for an error: what is imported with gyre is short

    return next(iter(difflib.get_close_matches(name, each, 1)), None)


def hint(name: str, known: Iterable[str] = ()) -> str:
    """ "; did you mean ...?", or nothing."""
    found = guess(name, known)
    return f"; did you mean {found}?" if found else ""


def hint_of_word(word: str, words: Iterable[str]) -> str:
    """The same for the value of an argument that takes one of some words: those that differ in case and signs alone, and those
    of the table."""
    meant = _WORDS.get(_folded(word), word)
    found = next((one for one in words if _folded(one) == _folded(meant)), None)
    return f"; did you mean '{found}'?" if found else ""


def named(function: F) -> F:
    """A function that says what is meant by a keyword that it lacks."""
    code: Any = function.__code__
    known = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]

    @functools.wraps(function)
    def checked(*args: Any, **kwargs: Any) -> Any:
        for name in kwargs:
            if name not in known:
                raise TypeError(f"{function.__qualname__}() got an unexpected keyword argument '{name}'{hint(name, known)}")
        return function(*args, **kwargs)

    return checked  # type: ignore[return-value]


class Guessing(type):
    """The type of classes that say what is meant by a name that they lack."""

    def __getattr__(cls, name: str) -> Any:
        raise AttributeError(f"type object {cls.__name__!r} has no attribute {name!r}{hint(name)}", name=name, obj=cls)
