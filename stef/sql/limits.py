"""Caps on rows in all their forms: LIMIT, TOP, FETCH, DISTINCT ON, LIMIT BY, ROWNUM, row numbers and ranks."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from stef.spec import Filter, Limit, Op, OrderKey
from stef.sql.keys import order_key
from stef.sql.reading import Ranked
from stef.sql.rendering import shown
from stef.values import Number, NumberRange


def limit_of(query: exp.Expr, path: str) -> Limit | None:
    """LIMIT, TOP or FETCH of one query; DISTINCT ON is one row per group, as is ClickHouse's LIMIT BY."""
    node = query.args.get("limit")
    if node is None:
        return _distinct_on(query, path)
    count = node.args.get("count") if isinstance(node, exp.Fetch) else node.args.get("expression")
    options = node.args.get("limit_options")
    ties = options is not None and bool(options.args.get("with_ties"))
    offset = query.args.get("offset")
    skipped = whole(offset.expression) if isinstance(offset, exp.Offset) else None
    per = tuple(part.name for part in node.expressions if isinstance(part, exp.Expr))
    return Limit(count=whole(count), per=per, offset=skipped or 0, ties=ties, text=shown(node).strip(), path=path)


def _distinct_on(query: exp.Expr, path: str) -> Limit | None:
    distinct = query.args.get("distinct")
    on = distinct.args.get("on") if isinstance(distinct, exp.Distinct) else None
    if on is None:
        return None
    per = tuple(column.name for column in on.find_all(exp.Column))
    return Limit(count=1, per=per, text=f"DISTINCT ON {shown(on)}", path=path)


def whole(node: object) -> int | None:
    """A literal whole number, or None."""
    if isinstance(node, exp.Paren):
        return whole(node.this)
    if isinstance(node, exp.Literal) and node.name.isascii() and node.name.isdigit() and len(node.name) < 19:
        return int(node.name)
    return None


def limit_of_rank(ranked: Ranked) -> tuple[Limit, tuple[OrderKey, ...]] | None:
    """A condition on a row number as a limit per group, with its sort."""
    rows = _rows(ranked.op, ranked.value)
    if rows is None:
        return None
    offset, count = rows
    window = ranked.window
    per = tuple(n.name for part in window.args.get("partition_by") or [] for n in part.find_all(exp.Column))
    order = window.args.get("order")
    keys = tuple(order_key(item, None, ranked.place.names) for item in order.expressions) if order is not None else ()
    ties = not isinstance(window.this, exp.RowNumber)
    return Limit(count=count, per=per, offset=offset, ties=ties, text=shown(window), path=ranked.place.path), keys


def _rows(op: Op, value: object) -> tuple[int, int | None] | None:
    """Rows skipped and rows kept by a condition on a row number; None when it is no such thing."""
    if isinstance(value, NumberRange) and op is Op.RANGE:
        low, high = int(value.low), int(value.high)
        return max(low - 1, 0), max(high - max(low, 1) + 1, 0)
    if not isinstance(value, Number):
        return None
    number = int(value.value)
    match op:
        case Op.LE:
            return 0, max(number, 0)
        case Op.LT:
            return 0, max(number - 1, 0)
        case Op.EQ:
            return max(number - 1, 0), 1
        case Op.GT:
            return max(number, 0), None
        case Op.GE:
            return max(number - 1, 0), None
        case _:
            return None


def limit_of_rownum(item: Filter, *, sorted_here: bool, path: str) -> Limit | None:
    """Oracle's ROWNUM is a limit, and stands below a sort of the same query; None for other conditions."""
    if item.column.upper() != "ROWNUM" or (rows := _rows(item.op, item.value)) is None:
        return None
    offset, count = rows
    return Limit(count=count, offset=offset, below=sorted_here and count is not None, text=item.text, path=path)


def joined(limits: list[Limit]) -> Limit | None:
    """A window of rows (`rn <= 20` and, outside of it, `rn > 10`) as one limit with its offset."""
    caps = [limit for limit in limits if limit.count is not None]
    if not caps:
        return None
    skipped = max((limit.offset for limit in limits if limit.count is None), default=0)
    first = caps[0]
    count = first.count or 0
    return replace(first, offset=first.offset + skipped, count=max(count - skipped, 0)) if skipped else first
