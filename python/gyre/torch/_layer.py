"""What a layer does with queries and keys between its projections and attention: norms, rotation, the write to a paged cache."""

from __future__ import annotations

import torch
from torch import Tensor

from gyre._encoding import Encoding
from gyre._errors import Error
from gyre._guesses import named
from gyre.torch import _device, _fused
from gyre.torch._rotate import rotate_pair
from gyre.torch._specs import (
    REAL,
    WHOLE,
    check_device,
    check_fake,
    check_layout,
    check_tensor,
    dtype_text,
    length_of,
    number,
    spec_of,
    split_positions,
    tensor,
)


def _normed(x: Tensor, weight: Tensor, epsilon: float, letters: str) -> Tensor:
    """x / rms(x) weight, in float32 or float64."""
    wide = torch.promote_types(x.dtype, torch.float32)
    channel = letters.index("d")
    y = torch.nn.functional.rms_norm(x.to(wide).movedim(channel, -1), (x.shape[channel],), weight.to(wide), epsilon)
    return y.movedim(-1, channel)


def _tokens(x: Tensor, letters: str) -> Tensor:
    """[batch x tokens, heads, channels]."""
    order = [letters.index(letter) for letter in "bshd" if letter in letters]
    y = x.permute(order)
    y = y if "b" in letters else y.unsqueeze(0)
    y = y if "h" in letters else y.unsqueeze(2)
    return y.flatten(0, 1)


def _store(cache: Tensor, x: Tensor, slots: Tensor, letters: str) -> None:
    """cache[slot // page tokens, slot % page tokens] = a token, but for slots below 0, and without waiting for the device:
    these tokens write what the token of the largest slot does."""
    if slots.numel() == 0:
        return
    page_tokens, rows = cache.shape[1], _tokens(x, letters).to(cache.dtype)
    last = slots.argmax()
    chosen = torch.where(slots >= 0, torch.arange(len(slots), device=slots.device), last)
    slot = slots[chosen].clamp(min=0).long()
    at = torch.div(slot, page_tokens, rounding_mode="floor"), slot % page_tokens
    cache.index_put_(at, torch.where((slots[last] >= 0), rows[chosen], cache[at]))


def _check_pair(pair: object, name: str, of: str) -> None:
    if not isinstance(pair, (tuple, list)) or len(pair) != 2:
        count = f" of {len(pair)}" if isinstance(pair, (tuple, list)) else ""
        raise Error("EINVAL", f"{name}: is a {type(pair).__name__}{count}, not a pair of tensors, of {of}", name)


def _check_norms(norms: tuple[Tensor, Tensor], q: Tensor, k: Tensor, letters: str) -> None:
    _check_pair(norms, "norms", "q and of k")
    for name, weight, x in (("q", norms[0], q), ("k", norms[1], k)):
        channels = x.shape[letters.index("d")]
        if tensor(weight, "norms").dtype not in REAL:
            raise Error("EDTYPE", f"norms: the weight of {name} is of type {dtype_text(weight)}, not a real one", "norms")
        if tuple(weight.shape) != (channels,):
            text = f"norms: the weight of {name} has shape {list(weight.shape)}, not [{channels}], a number for each channel"
            raise Error("ESHAPE", text, "norms")


def _check_pages(pages: tuple[Tensor, Tensor], k: Tensor, v: Tensor | None, slots: Tensor | None, letters: str) -> None:
    if v is None or slots is None:
        raise Error("EINVAL", f"{'v' if v is None else 'slots'}: missing: pages need v and slots", "v" if v is None else "slots")
    _check_pair(pages, "pages", "keys and of values")
    check_tensor(tensor(v, "v"), "v", letters, REAL)
    tokens = _tokens(k, letters).shape[0]
    if any(v.shape[i] != k.shape[i] for i, letter in enumerate(letters) if letter in "bs"):
        raise Error("ESHAPE", f"v: has shape {list(v.shape)}, but k has {list(k.shape)}: they may differ in their channels alone", "v")
    if tensor(slots, "slots").dtype not in WHOLE or slots.numel() != tokens:
        text = f"slots: is {list(slots.shape)} of type {dtype_text(slots)}, not int32 or int64 for each of {tokens} tokens"
        raise Error("ESHAPE", text, "slots")
    for name, cache, x in (("keys", pages[0], k), ("values", pages[1], v)):
        rows = _tokens(x, letters)
        wanted = [*tensor(cache, "pages").shape[:2], *rows.shape[1:]]
        if cache.dim() != 4 or list(cache.shape) != wanted or pages[0].shape[:2] != cache.shape[:2]:
            text = f"pages: those of {name} have shape {list(cache.shape)}, not [pages, tokens of a page, {', '.join(map(str, rows.shape[1:]))}]"
            raise Error("ESHAPE", text, "pages")
        if 0 in cache.shape[:2]:
            raise Error("ESHAPE", f"pages: those of {name} have shape {list(cache.shape)}: no token has a slot", "pages")
        if not cache.dtype.is_floating_point:
            raise Error("EDTYPE", f"pages: those of {name} are of type {dtype_text(cache)}, not a real one", "pages")


@named
def rotate_layer(
    q: Tensor,
    k: Tensor,
    encoding: Encoding,
    positions: Tensor | int | None = None,
    *,
    norms: tuple[Tensor, Tensor] | None = None,
    epsilon: float = 1e-6,
    pages: tuple[Tensor, Tensor] | None = None,
    v: Tensor | None = None,
    slots: Tensor | None = None,
    layout: str | None = None,
    length: int | None = None,
) -> tuple[Tensor, Tensor]:
    """(q, k) of a layer, normalized, rotated, and k and v written to a paged cache, each where asked for.

    Under GYRE_TRITON=1 one kernel does it in one launch.

    Args:
        norms: the weights of an RMS norm of q and of k over the channels of a head, [channels] each, before the rotation
            (Qwen 3; for Gemma 3 pass 1 + weight).  epsilon: is added to the mean square.  Norm and rotation are computed in
            float32, or float64, and rounded once.
        pages: keys and values of a paged cache, [pages, tokens of a page, heads, channels] each, any strides, written in
            place: the rotated keys and v.
        v: values, in the layout of k, with pages.
        slots: int32 or int64, one for each token of the batch, row by row: page x tokens of a page + place, as the
            slot_mapping of vLLM.  Below 0 = the token is not written.  Others are not checked to be in the cache.
        q, k, encoding, positions, layout, length: as in rotate_pair.

    Gradients to q, k and the weights; with pages none, and tensors that require one are refused.  Raises gyre.Error.
    """
    letters = check_layout(tensor(q, "q"), layout, "q").replace("t", "s")
    check_layout(tensor(k, "k"), layout, "k")
    check_tensor(q, "q", letters, REAL)
    check_tensor(k, "k", letters, REAL)
    at, first = split_positions(positions)
    own = float(number(epsilon, "epsilon") or 0)
    if norms is not None:
        _check_norms(norms, q, k, letters)
    if pages is not None:
        _check_pages(pages, k, v, slots, letters)
        if torch.is_grad_enabled() and any(x.requires_grad for x in (q, k, v, *pages, *(norms or ())) if x is not None):
            text = "pages: q, k, v or a norm requires a gradient, which a cache does not pass on: use torch.no_grad()"
            raise Error("EUNSUPPORTED", text, "pages")
    elif v is not None or slots is not None:
        raise Error("EINVAL", f"pages: missing: {'slots' if v is None else 'v'} is written to them", "pages")
    given = {"q": q, "k": k, "norms": norms, "pages": pages, "v": v, "slots": slots, "positions": at}
    check_device(**given)
    check_fake(**given)
    kept = None if pages is None or v is None or slots is None else _fused.Pages(*pages, v, slots.reshape(-1).contiguous())
    if _device.takes(q):
        plan = _device.plan_of(spec_of(encoding), length_of(length))
        if _fused.takes(plan, q, k):
            _device.check_alike(q, k, letters)
            _device.check(q, "q", at, plan, letters)
            _device.check(k, "k", at, plan, letters)
            where = _device.positions_from(first, q, letters) if at is None else at
            turn, norm = _fused.Turn(plan, letters, False, "query"), None if norms is None else _fused.Norms(norms, own)
            return _fused.rotate_layer(turn, (q, k), where, _device.constants_of(plan, q), norm, kept)
    wide = (_normed(q, norms[0], own, letters), _normed(k, norms[1], own, letters)) if norms is not None else (q, k)
    new_q, new_k = rotate_pair(*wide, encoding, positions, layout=layout, length=length)
    new_q, new_k = new_q.to(q.dtype), new_k.to(k.dtype)
    if kept is not None:
        _store(kept.keys, new_k, kept.slots, letters)
        _store(kept.values, kept.v, kept.slots, letters)
    return new_q, new_k
