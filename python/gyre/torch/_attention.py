"""gyre::attention, gyre::attention_gradient, gyre::bias and gyre::bias_gradient."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from gyre import _gyre as core
from gyre._encoding import Encoding
from gyre._errors import Error
from gyre._guesses import named
from gyre.torch import _device, _scores
from gyre.torch._specs import (
    LONG_REAL,
    REAL,
    SHORT_REAL,
    check_core_device,
    check_fake,
    check_rows,
    check_score_positions,
    check_tables,
    check_tensor,
    encoding_of,
    is_whole,
    length_of,
    no_tangent,
    options_of,
    spec_of,
    split_positions,
    tensor,
    whole,
)

# Optional tensors of a call, in the order in which the operators take them.
_NAMES = (
    "positions",
    "key_positions",
    "mask",
    "sink_logits",
    "query_starts",
    "key_starts",
    "key_first",
    "key_end",
    "query_end",
    "query_gate_sums",
    "key_gate_sums",
)

# The end of the schemas of attention and its gradient.
_REST = (
    "Tensor[] tables, Tensor? positions, Tensor? key_positions, Tensor? mask, Tensor? sink_logits, Tensor? query_starts, "
    "Tensor? key_starts, Tensor? key_first, Tensor? key_end, Tensor? query_end, Tensor? query_gate_sums, Tensor? key_gate_sums, "
    "SymInt? first, SymInt? key_first_position, SymInt length, SymInt seed, str encoding, str options)"
)
_WHOLE = ("positions", "key_positions", "length", "seed")  # whole numbers of a call, which change from call to call
# Those that have a gradient, in the order in which the gradient returns them, and their places in _REST.
_TRAINED = ("sink_logits", "query_gate_sums", "key_gate_sums")
_PLACES = [1 + _NAMES.index(name) for name in _TRAINED]


def _tables(tables: Sequence[Tensor], names: Sequence[str]) -> Any:
    """The tables as the core takes them; the name "" is that of the one table there is."""
    if not tables:
        return None
    detached = [table.detach() for table in tables]
    return detached[0] if names[0] == "" else dict(zip(names, detached, strict=True))


def _gradients(found: Mapping[str, Tensor], tables: Sequence[Tensor], names: Sequence[str]) -> list[Tensor]:
    alone = [found[name] for name in found if name not in _TRAINED]
    each = alone if list(names) == [""] else [found[name] for name in names]
    return [g.reshape(table.shape).to(table.dtype) for g, table in zip(each, tables, strict=True)]


def _call(rest: Sequence[Any]) -> dict[str, Any]:
    """What the core takes, from the end of the arguments of an operator (_REST)."""
    tables, *given, encoding, text = rest
    options = dict(options_of(text))
    names = options.pop("tables", [])
    call = {name: x for name, x in zip(_NAMES + _WHOLE, given, strict=True) if x is not None}
    call.update({name: x.detach() for name, x in call.items() if isinstance(x, Tensor)})
    call.update(options, tables=_tables(tables, names))
    call["encoding"] = encoding_of(encoding) if encoding else None
    return call


def _json(value: Any) -> str:
    """JSON of a number, a word, a truth value or a list of them; torch.compile cannot follow json.dumps."""
    if value is None:
        return "null"
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join([_json(one) for one in value]) + "]"
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value}"


def _text(**options: Any) -> str:
    """Options as text, those that are None left out."""
    return "{" + ", ".join([f'"{name}": {_json(value)}' for name, value in options.items() if value is not None]) + "}"


def _shapes(q: Tensor, v: Tensor, options: str) -> tuple[list[int], list[int]]:
    """Of the result, and of lse."""
    channel = options_of(options)["layout"].index("d")
    out, lse = list(q.shape), list(q.shape)
    out[channel] = v.shape[channel]
    del lse[channel]
    return out, lse


@torch.library.custom_op(
    "gyre::attention", mutates_args=(), schema="(Tensor q, Tensor k, Tensor v, " + _REST + " -> (Tensor, Tensor)"
)
def _attention(q: Tensor, k: Tensor, v: Tensor, *rest: Any) -> tuple[Tensor, Tensor]:
    q, k, v = q.detach(), k.detach(), v.detach()
    out = q.new_empty(_shapes(q, v, rest[-1])[0])
    _, lse = core.attention(q, k, v, out=out, lse=True, **_call(rest))
    return out, lse.contiguous()


@torch.library.custom_op(
    "gyre::attention_weights",
    mutates_args=(),
    schema="(Tensor q, Tensor k, Tensor v, bool scores, " + _REST + " -> Tensor",
)
def _attention_weights(q: Tensor, k: Tensor, v: Tensor, scores: bool, *rest: Any) -> Tensor:
    """The weights, or the scores."""
    found: Tensor = core.attention(q, k, v, weights=not scores, scores=scores, **_call(rest))[1]
    return found.contiguous()


@_attention_weights.register_fake
def _(q: Tensor, k: Tensor, v: Tensor, scores: bool, *rest: Any) -> Tensor:
    _check(q, k, v, rest)
    layout = options_of(rest[-1])["layout"]
    extents = [q.shape[layout.index(letter)] for letter in "bhs" if letter in layout]
    extents += [q.shape[layout.index("t")]] if "t" in layout else []
    packed = rest[1 + _NAMES.index("key_starts")] is not None
    keys = torch.library.get_ctx().new_dynamic_size() if packed else k.shape[layout.index("t" if "t" in layout else "s")]
    return q.new_empty([*extents, keys], dtype=torch.float32)


def _check(q: Tensor, k: Tensor, v: Tensor, rest: Sequence[Any]) -> None:
    """What the core refuses of shapes and types, for tensors without memory."""
    given = dict(zip(_NAMES, rest[1:], strict=False))
    check_core_device(q=q, k=k, v=v, tables=rest[0], **given)
    layout = options_of(rest[-1])["layout"]
    channel, head, encoding = layout.index("d"), layout.find("h"), rest[-2]
    types = (torch.float64,) if q.dtype == torch.float64 else SHORT_REAL
    for x, name in ((q, "q"), (k, "k"), (v, "v")):
        check_tensor(x, name, layout, REAL if name == "q" else types)
    config = encoding_of(encoding).config if encoding else {}
    shared = q.shape[channel] - config.get("score.relative_channels", 0)  # keys may lack the others
    if k.shape[channel] not in (q.shape[channel], shared):
        raise Error("ESHAPE", f"k: {k.shape[channel]} channels a head, q has {q.shape[channel]}", "k")
    if encoding:
        wanted = config["head_dim"]
        if wanted and q.shape[channel] != wanted:
            raise Error("ESHAPE", f"q: {q.shape[channel]} channels a head, the encoding has {wanted}", "q")
    for axis in range(len(layout)):
        if axis != channel and k.shape[axis] != v.shape[axis]:
            raise Error("ESHAPE", f"v: has shape {list(v.shape)}, but k has {list(k.shape)}", "v")
    if head >= 0 and (k.shape[head] == 0 or q.shape[head] % k.shape[head]):
        raise Error("ESHAPE", f"q: {q.shape[head]} heads are not a multiple of the {k.shape[head]} of k", "q")
    _check_gates(q, k, layout, given["query_gate_sums"], given["key_gate_sums"])


def _check_gates(q: Tensor, k: Tensor, layout: str, queries: Tensor | None, keys: Tensor | None) -> None:
    """A number for each token of q or k and each head of q."""
    given = {"query_gate_sums": (queries, q), "key_gate_sums": (keys, k)}
    for name, (sums, like) in given.items():
        if sums is None:
            if queries is not None or keys is not None:
                raise Error("EINVAL", f"{name}: missing: gates need query_gate_sums and key_gate_sums", name)
            continue
        check_rows(sums, name, layout, LONG_REAL)
        wanted = [(q if letter == "h" else like).shape[axis] for axis, letter in enumerate(layout) if letter != "d"]
        if any(a != b for a, b in zip(sums.shape, wanted, strict=True)):
            raise Error("ESHAPE", f"{name}: has shape {list(sums.shape)}, not {wanted}", name)


@_attention.register_fake
def _(q: Tensor, k: Tensor, v: Tensor, *rest: Any) -> tuple[Tensor, Tensor]:
    _check(q, k, v, rest)
    out, lse = _shapes(q, v, rest[-1])
    return q.new_empty(out), q.new_empty(lse, dtype=torch.float64 if q.dtype == torch.float64 else torch.float32)


@torch.library.custom_op(
    "gyre::attention_gradient",
    mutates_args=(),
    schema="(Tensor? dout, Tensor? dlse, Tensor out, Tensor lse, Tensor q, Tensor k, Tensor v, " + _REST + " -> Tensor[]",
)
def _attention_gradient(
    dout: Tensor | None, dlse: Tensor | None, out: Tensor, lse: Tensor, q: Tensor, k: Tensor, v: Tensor, *rest: Any
) -> list[Tensor]:
    """Gradients to q, k, v, to each table, and to each of _TRAINED that was given; dout, dlse: None = 0."""
    call = _call(rest)
    call.pop("order", None)
    dout = torch.zeros_like(out) if dout is None else dout
    each = [x.detach() for x in (dout, q, k, v, out, lse)]
    dq, dk, dv, more = core.attention_gradient(*each, dlse=None if dlse is None else dlse.detach(), **call)
    found = [dq.contiguous(), dk.contiguous(), dv.contiguous()]
    found += _gradients(more, rest[0], options_of(rest[-1]).get("tables", []))
    for name, place in zip(_TRAINED, _PLACES, strict=True):
        if rest[place] is not None:
            found.append(more[name].reshape(rest[place].shape).to(rest[place].dtype))
    return found


@_attention_gradient.register_fake
def _(
    dout: Tensor | None, dlse: Tensor | None, out: Tensor, lse: Tensor, q: Tensor, k: Tensor, v: Tensor, *rest: Any
) -> list[Tensor]:
    given = dict(zip(_NAMES, rest[1:], strict=False))
    check_core_device(q=q, k=k, v=v, dout=dout, dlse=dlse, out=out, lse=lse, tables=rest[0], **given)
    like = [q, k, v, *rest[0], *(rest[place] for place in _PLACES)]
    return [x.new_empty(x.shape) for x in like if x is not None]


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    q, k, v, tables, *given = inputs[: 4 + len(_NAMES)]
    ctx.rest = inputs[4 + len(_NAMES) :]
    ctx.save_for_backward(*output, q, k, v, *tables, *given)
    ctx.set_materialize_grads(False)
    ctx.tables = len(tables)


def _backward(ctx: Any, dout: Tensor | None, dlse: Tensor | None) -> tuple[Any, ...]:
    out, lse, q, k, v, *rest = ctx.saved_tensors
    tables, given = rest[: ctx.tables], rest[ctx.tables :]
    dq, dk, dv, *more = _attention_gradient(dout, dlse, out, lse, q, k, v, tables, *given, *ctx.rest)
    to_given: list[Tensor | None] = [None] * len(given)
    trained = more[ctx.tables :]
    for place in _PLACES:
        if given[place - 1] is not None:
            to_given[place - 1] = trained.pop(0)
    return dq, dk, dv, more[: ctx.tables], *to_given, *[None] * len(ctx.rest)


_attention.register_autograd(_backward, setup_context=_keep)


def _number(value: Any, name: str) -> Any:
    """A finite number or None; the words of JSON have no other."""
    if value is None or isinstance(value, (torch.SymInt, torch.SymFloat)):
        return value
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        try:
            value = float(value) if not isinstance(value, str) else value
        except (TypeError, ValueError, RuntimeError):
            pass
        if not isinstance(value, float):
            raise Error("EINVAL", f"{name}: is {value!r}, not a number", name)
    if not math.isfinite(value):
        raise Error("EINVAL", f"{name}: {value} is not finite", name)
    return value


def _causal(value: Any) -> bool | str:
    if isinstance(value, bool) or (isinstance(value, str) and value in ("none", "position", "order")):
        return value
    raise Error("EINVAL", f"causal: is {value!r}, not one of True, False, 'none', 'position', 'order'", "causal")


def _window(value: Any) -> Any:
    if value is None:
        return None
    sides = list(value) if isinstance(value, (tuple, list)) else [value]
    if len(sides) > 2 or len(sides) != 2 and sides[0] is not value or any(isinstance(one, bool) for one in sides):
        raise Error("EINVAL", f"window: is {value!r}, not a number of keys or (before, after)", "window")
    numbers = tuple([None if one is None else whole(one, "window") for one in sides])
    return numbers if sides[0] is not value else numbers[0]


def sides_of(window: Any) -> tuple[int, int]:
    """Keys before and after a query that it sees; 0 = all."""
    given = _window(window)
    sides = given if isinstance(given, tuple) else (given, given)
    numbers = int(sides[0] or 0), int(sides[1] or 0)
    if min(numbers) < 0:
        raise Error("EINVAL", f"window: is {window!r}, below 0", "window")
    return numbers


def _word(value: Any, name: str) -> Any:
    if value is not None and not isinstance(value, str):
        raise Error("EINVAL", f"{name}: is {value!r}, not a word", name)
    return value


def _additive(mask: Tensor | None) -> Tensor | None:
    """A mask of truth values becomes numbers to add, on its own device whatever the default one is."""
    if mask is None or mask.dtype != torch.bool:
        return mask
    return torch.zeros_like(mask, dtype=torch.float32).masked_fill(~mask, -math.inf)


def split_tables(tables: Any) -> tuple[list[Tensor], list[str]]:
    if tables is None:
        return [], []
    if isinstance(tables, Mapping):
        for name in tables:
            if not isinstance(name, str) or not name.isprintable():
                raise Error("EINVAL", f"tables: {name!r} is not the name of a table", "tables")
        return [tensor(tables[name], f"tables[{name!r}]") for name in tables], list(tables)
    return [tensor(tables, "tables")], [""]


@named
def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    encoding: Encoding | None = None,
    layout: str | None = None,
    positions: Tensor | int | None = None,
    key_positions: Tensor | int | None = None,
    causal: bool | str = False,
    window: int | tuple[int | None, int | None] | None = None,
    sinks: int | None = None,
    scale: float | None = None,
    softcap: float | None = None,
    tables: Mapping[str, Tensor] | Tensor | None = None,
    mask: Tensor | None = None,
    sink_logits: Tensor | None = None,
    dropout: float | None = None,
    seed: int | None = None,
    query_starts: Tensor | None = None,
    key_starts: Tensor | None = None,
    key_first: Tensor | None = None,
    key_end: Tensor | None = None,
    query_end: Tensor | None = None,
    order: str | None = None,
    length: int | None = None,
    query_gate_sums: Tensor | None = None,
    key_gate_sums: Tensor | None = None,
    lse: bool = False,
    weights: bool = False,
    scores: bool = False,
) -> Any:
    """gyre.attention with gradients to q, k, v, to trained tables, to sink logits and to gate sums, under torch.compile too.

    q, k and v are not rotated before: the encoding is applied inside.  They are float16, bfloat16 or float32; sums are of
    floats, so a gradient has the precision of float32.  All of float64: slowly in double, for torch.autograd.gradcheck.
    Arguments, shapes and errors as in gyre.attention; a mask gets no
    gradient.  dropout drops the same weights in each call with one seed, None = 0: pass another in each step of a training.
    lse: True = return (out, lse), lse float32 or float64, with gradients as out.  weights, scores: likewise, after lse, without gradients.
    """
    for name, one in (
        ("mask", mask),
        ("sink_logits", sink_logits),
        ("query_starts", query_starts),
        ("key_starts", key_starts),
        ("key_first", key_first),
        ("key_end", key_end),
        ("query_end", query_end),
        ("query_gate_sums", query_gate_sums),
        ("key_gate_sums", key_gate_sums),
    ):
        if one is not None:
            tensor(one, name)
    if mask is not None and mask.requires_grad:
        raise Error("EUNSUPPORTED", "mask: requires a gradient, which attention does not compute; use mask.detach()", "mask")
    at, first = split_positions(positions)
    key_at, key_first_position = split_positions(key_positions, "key_positions")
    each, names = split_tables(tables)
    gates = {"query_gate_sums": query_gate_sums, "key_gate_sums": key_gate_sums}
    no_tangent(q=q, k=k, v=v, tables=each, sink_logits=sink_logits, **gates)
    text = _text(
        layout=_word(layout, "layout") or ("thd" if tensor(q, "q").dim() == 3 else "bhsd"),
        causal=_causal(causal),
        window=_window(window),
        sinks=None if sinks is None else whole(sinks, "sinks"),
        scale=_number(scale, "scale"),
        softcap=_number(softcap, "softcap"),
        dropout=_number(dropout, "dropout"),
        order=_word(order, "order"),
        tables=names,
    )
    spec = "" if encoding is None else spec_of(encoding)
    given = (at, key_at, _additive(mask), sink_logits, query_starts, key_starts, key_first, key_end, query_end, *gates.values())
    counts = (
        first if at is None and positions is not None else None,
        key_first_position if key_at is None and key_positions is not None else None,
        length_of(length),
        whole(seed or 0, "seed"),
    )
    check_fake(q=q, k=tensor(k, "k"), v=tensor(v, "v"), tables=each, **dict(zip(_NAMES, given, strict=True)))
    found = list(_attention(q, k, v, each, *given, *counts, spec, text))[: 2 if lse else 1]
    for of_scores, wanted in ((False, weights), (True, scores)):
        if wanted:
            plain = [x.detach() for x in (q, k, v)]
            found.append(_attention_weights(*plain, of_scores, each, *given, *counts, spec, text))
    return tuple(found) if len(found) > 1 else found[0]


# -- the numbers that are added to scores --


def _count(tokens: int, name: str) -> int:
    if not isinstance(tokens, torch.SymInt) and tokens >= 2**31:
        raise Error("ERANGE", f"{name}: {tokens} tokens have positions past 2^31", name)
    if tokens < 0:
        raise Error("EINVAL", f"{name}: is {tokens}, not a number of tokens, 0 or more, nor a tensor of positions", name)
    return tokens


@torch.library.custom_op(
    "gyre::bias",
    mutates_args=(),
    schema="(Tensor queries, Tensor keys, Tensor[] tables, str encoding, str names, bool double, SymInt length) -> Tensor",
)
def _bias(
    queries: Tensor, keys: Tensor, tables: Sequence[Tensor], encoding: str, names: str, double: bool, length: int
) -> Tensor:
    e = encoding_of(encoding)
    found: Tensor = e.bias(
        queries, keys, tables=_tables(tables, options_of(names)["tables"]), double=double, length=length or None
    )
    return found.contiguous()


@_bias.register_fake
def _(queries: Tensor, keys: Tensor, tables: Sequence[Tensor], encoding: str, names: str, double: bool, *_: Any) -> Tensor:
    check_core_device(queries=queries, keys=keys, tables=tables)
    batch, e = check_score_positions(queries, keys), encoding_of(encoding)
    check_tables(tables, options_of(names)["tables"], e.kind, list(e.table_shapes.items()))
    shape = [*batch, e.config["heads"], queries.shape[-1], keys.shape[-1]]
    return queries.new_empty(shape, dtype=torch.float64 if double else torch.float32)


@torch.library.custom_op(
    "gyre::bias_gradient",
    mutates_args=(),
    schema="(Tensor dscores, Tensor queries, Tensor keys, Tensor[] tables, str encoding, str names, SymInt length)"
    " -> Tensor[]",
)
def _bias_gradient(
    dscores: Tensor, queries: Tensor, keys: Tensor, tables: Sequence[Tensor], encoding: str, names: str, length: int
) -> list[Tensor]:
    each = options_of(names)["tables"]
    found = encoding_of(encoding).bias_gradient(
        dscores.detach(), queries, keys, tables=_tables(tables, each), length=length or None
    )
    return _gradients(found, tables, each)


@_bias_gradient.register_fake
def _(dscores: Tensor, queries: Tensor, keys: Tensor, tables: Sequence[Tensor], *rest: Any) -> list[Tensor]:
    check_core_device(dscores=dscores, queries=queries, keys=keys, tables=tables)
    return [table.new_empty(table.shape) for table in tables]


def _keep_bias(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    queries, keys, tables, ctx.encoding, ctx.names, _, ctx.length = inputs
    ctx.save_for_backward(queries, keys, *tables)


def _backward_bias(ctx: Any, dscores: Tensor) -> tuple[Any, ...]:
    queries, keys, *tables = ctx.saved_tensors
    found = _bias_gradient(dscores, queries, keys, tables, ctx.encoding, ctx.names, ctx.length) if tables else []
    return None, None, found, None, None, None, None


_bias.register_autograd(_backward_bias, setup_context=_keep_bias)


@named
def bias(
    encoding: Encoding,
    queries: Tensor | int,
    keys: Tensor | int | None = None,
    *,
    tables: Mapping[str, Tensor] | Tensor | None = None,
    double: bool = False,
    length: int | None = None,
) -> Tensor:
    """The number that is added to each score, as Encoding.bias does, with a gradient to a trained table.

    queries, keys: positions, int32 or int64 [tokens] or [batch, tokens]; or a number of tokens: keys at 0 .. keys - 1,
    queries at the last positions of the keys, also where those are a tensor.  keys None = as queries.  double: True = float64, else float32.

    Returns [heads, queries, keys] or [batch, heads, queries, keys].  Raises gyre.Error where the scheme puts no number on
    scores.  A gradient is computed in float32 and has the type of the table.
    """
    keys = queries if keys is None else keys
    each, names = split_tables(tables)
    device = each[0].device if each else torch.device("cpu")  # of positions that are counted here
    if is_whole(keys):
        first = keys - queries if is_whole(queries) else 0
        last, keys = keys, torch.arange(_count(keys, "keys"), device=device)
        queries = torch.arange(first, last, device=device) if is_whole(queries) and _count(queries, "queries") >= 0 else queries
    elif is_whole(queries):
        if not 0 <= queries <= tensor(keys, "keys").shape[-1]:
            text = f"queries: is {queries}, but there are positions of {keys.shape[-1]} keys: pass those of the queries"
            raise Error("EINVAL", text, "queries")
        queries = keys[..., keys.shape[-1] - queries :]
    if not isinstance(double, bool):
        raise Error("EINVAL", f"double: is {double!r}, not True or False", "double")
    at, to = tensor(queries, "queries"), tensor(keys, "keys")
    check_fake(queries=at, keys=to, tables=each)
    if _device.takes(to):
        return _scores.bias(at, to, each, spec_of(encoding), names, double, length_of(length))
    no_tangent(tables=each)
    result: Tensor = _bias(at, to, each, spec_of(encoding), _text(tables=names), double, length_of(length))
    return result
