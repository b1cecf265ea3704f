"""What an encoding adds to scores, on any device, in operations of torch alone.

One formula of a score serves gyre.torch.bias, where queries, keys and heads are axes, and score_mod, where they are numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import torch
from torch import Tensor

from gyre._errors import Error
from gyre.torch._device import constant
from gyre.torch._specs import check_device, check_score_positions, check_tables, encoding_of


class Plan(NamedTuple):
    """A number for each score."""

    form: str
    slopes: tuple[float, ...]
    slopes_after: tuple[float, ...]  # () = as slopes
    rows: tuple[float, ...]  # of a table, by distance from -most
    most: int  # the largest distance that has a row
    units: int  # hidden units of FIRE
    kind: str
    tables: tuple[tuple[str, tuple[int, ...]], ...]  # Encoding.table_shapes


def _slopes(spec: str, length: int) -> tuple[tuple[float, ...], tuple[float, ...]]:
    encoding = encoding_of(spec)
    config, after = encoding.config, encoding.config["score.slopes_after"]
    if config["score.slope_scaling"] != "none" and not length and not config["context_length"] and not config["score.slope_factor"]:
        text = "length: is needed here: the slopes follow the length in use, and positions on a device are not looked at"
        raise Error("EINVAL", text, "length")
    before = tuple(float(one) for one in encoding.slopes(length or None))
    if after is None:
        return before, ()
    # The bias of a key at 1 and a query at 0, which is also divided as slopes are.
    pair = encoding.bias(torch.tensor([0]), torch.tensor([1]), double=True, length=length or None)
    return before, tuple(-float(one) for one in pair.flatten())


@lru_cache(maxsize=256)
def plan_of(spec: str, length: int) -> Plan:
    """Raises gyre.Error where the encoding puts no number on scores that this module computes."""
    encoding = encoding_of(spec)
    config, kind = encoding.config, encoding.kind
    plan = Plan(kind, (), (), (), 0, 0, kind, tuple(encoding.table_shapes.items()))
    if kind == "alibi":
        slopes, after = _slopes(spec, length)
        return plan._replace(slopes=slopes, slopes_after=after)
    if kind == "t5":
        most = int(config["score.max_distance"])
        rows = tuple(encoding.row(most, most + d) for d in range(-most, most + 1))
        return plan._replace(rows=rows, most=most)
    if kind == "kerple":
        return plan._replace(form=f"kerple {config['score.decay']}")
    if kind == "fire":
        return plan._replace(units=int(config["score.hidden_units"]))
    if "score" not in encoding.places:
        raise Error("EUNSUPPORTED", f"encoding: {kind} adds no bias to scores", "encoding")
    text = f"encoding: the bias of this {kind} is computed on the processor alone: pass positions and tables there"
    raise Error("EUNSUPPORTED", text, "encoding")


def _plan_constant(spec: str, length: int) -> Plan:
    return plan_of(spec, length)


_untyped: Any = torch.compiler  # its functions have no types
_plan: Callable[[str, int], Plan] = _untyped.assume_constant_result(_plan_constant)


def table_of(tables: Sequence[Tensor], names: Sequence[str], plan: Plan) -> Tensor | None:
    """[rows, heads], or None where the scheme trains no table."""
    check_tables(tables, names, plan.kind, plan.tables)
    if plan.tables and not tables:
        raise Error("EINVAL", "tables.bias: missing; the encoding trains one", "tables")
    return tables[0].reshape(plan.tables[0][1][2:]) if plan.tables else None


def _kerple(r1: Tensor, r2: Tensor, distance: Tensor, is_log: bool) -> Tensor:
    if is_log:
        return -r1 * torch.log1p(r2 * distance)
    at_0 = torch.zeros_like(r2) ** r2.detach()  # 1 for an exponent of 0; without the gradient 0 x log 0
    return -r1 * torch.where(distance == 0, at_0, torch.where(distance == 0, 1.0, distance) ** r2)


def _fire(column: Callable[[int], Tensor], distance: Tensor, query: Tensor, units: int) -> Tensor:
    """src/encodings/fire.c has the formula; column(i) is parameter i of the network of the head."""
    c, threshold = column(0).abs(), column(1).abs()
    longest = torch.where(query < threshold, threshold, query)
    psi = torch.log1p(c * longest)
    x = torch.where(psi == 0, 0.0, torch.log1p(c * distance) / torch.where(psi == 0, 1.0, psi))
    total = column(2 + 3 * units)
    for u in range(units):  # not a product of matrices, which a kernel of FlexAttention could not hold
        total = total + column(2 + 2 * units + u) * torch.relu(column(2 + u) * x + column(2 + units + u))
    return total


class Held(NamedTuple):
    """The tensors that a score needs, on one device."""

    slopes: tuple[Tensor, ...]  # those before the query and, where they differ, those after it
    rows: Tensor | None
    table: Tensor | None


def held(plan: Plan, table: Tensor | None, like: Tensor, dtype: torch.dtype) -> Held:
    slopes = tuple(constant(one, dtype, like) for one in (plan.slopes, plan.slopes_after) if one)
    return Held(slopes, constant(plan.rows, torch.int64, like) if plan.rows else None, table)


def _at(numbers: Tensor, *index: Tensor) -> Tensor:
    """numbers[index].  Brackets would read an index without axes, and touch the device of fake tensors."""
    found: Tensor = torch.ops.aten.index(numbers, list(index))
    return found


def number(plan: Plan, of: Held, query: Tensor, key: Tensor, head: Tensor, dtype: torch.dtype) -> Tensor:
    """What is added to the score of a query at position `query` and a key at `key`, whole numbers that broadcast with head."""
    apart = key - query
    distance = apart.abs().to(dtype)
    if plan.form == "alibi":
        slope = _at(of.slopes[0], head)
        return distance * -(torch.where(apart > 0, _at(of.slopes[1], head), slope) if len(of.slopes) > 1 else slope)
    assert of.table is not None
    if of.rows is not None:
        row = _at(of.rows, apart.clamp(-plan.most, plan.most) + plan.most)
        return _at(of.table, row, head).to(dtype)
    parameters: Tensor = of.table

    def column(i: int) -> Tensor:
        return _at(parameters.select(0, i), head).to(dtype)

    if plan.form == "fire":
        return _fire(column, distance, query.to(dtype), plan.units)
    return _kerple(column(0), column(1), distance, plan.form == "kerple log")


def bias(queries: Tensor, keys: Tensor, tables: list[Tensor], spec: str, names: list[str], double: bool, length: int) -> Tensor:
    """As the operator gyre::bias, for ALiBi, T5, KERPLE and FIRE."""
    plan = _plan(spec, length)
    check_device(queries=queries, keys=keys, tables=tables)
    check_score_positions(queries, keys)
    table = table_of(tables, names, plan)
    heads = constant(tuple(range(len(plan.slopes) or plan.tables[0][1][3])), torch.int64, keys).reshape(-1, 1, 1)
    query, key = queries.long().unsqueeze(-1).unsqueeze(-3), keys.long().unsqueeze(-2).unsqueeze(-3)
    dtype = torch.float64 if double else torch.float32
    return number(plan, held(plan, table, keys, dtype), query, key, heads, dtype)
