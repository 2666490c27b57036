"""Queries inside conditions: what is absent, which rows are chosen, what a column is compared with."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from stef.spec import Direction, Filter, Limit, Op, OrderKey
from stef.sql.blocks import Block
from stef.sql.reading import Place
from stef.sql.rendering import shown
from stef.sql.targets import Target
from stef.values import Null, Unknown, Unresolved

_EXTREMES = {"max": Direction.DESC, "min": Direction.ASC}
_OPS: dict[type[exp.Expr], Op] = {exp.LT: Op.LT, exp.LTE: Op.LE, exp.GT: Op.GT, exp.GTE: Op.GE, exp.EQ: Op.EQ}


def absent(node: exp.Expr, block: Block, place: Place) -> Filter:
    """NOT EXISTS and its relatives: named after the table that has no such row."""
    table = next((relation.table for relation in block.names.relations.values() if relation.table), "")
    return Filter(
        column=table.rpartition(".")[2],
        op=Op.NOT_EXISTS,
        value=Null(),
        scope=place.scope,
        table=table,
        text=shown(node),
        path=place.path,
    )


def chosen_rows(node: exp.Expr, column: str, block: Block) -> tuple[Limit, tuple[OrderKey, ...]] | None:
    """`x = (SELECT MAX(x) …)` and `id IN (SELECT id … ORDER BY … LIMIT 1)` choose the top rows; None for the others.

    `dept_id = (SELECT id FROM depts WHERE name = 'Sales' LIMIT 1)` looks one row up and chooses none.
    """
    if not isinstance(node, exp.EQ | exp.In):
        return None
    if block.limit is not None and block.limit.count is not None:
        looked_up = isinstance(node, exp.EQ) and not block.order_by
        return None if looked_up else (replace(block.limit, below=False), block.order_by)
    extreme = next((a for a in block.aggregations if a.function in _EXTREMES), None)
    if extreme is None or not block.projections:
        return None
    by = extreme.of or column
    key = OrderKey(by=by, direction=_EXTREMES[extreme.function], columns=(by,), text=extreme.text)
    per = tuple(group.column for group in block.group_by)
    return Limit(count=1, per=per, ties=True, text=shown(node)), (key,)


def against_query(node: exp.Expr, tested: Target, place: Place) -> tuple[Filter, ...]:
    """A comparison with what a query returns (`price > (SELECT AVG(price) …)`)."""
    op = _OPS.get(type(node))
    if op is None or not tested.column:
        return ()
    return (
        Filter(
            column=tested.column,
            op=op,
            value=Unknown(shown(node.expression), Unresolved.SUBQUERY),
            scope=place.scope,
            table=tested.table,
            aggregate=tested.aggregate,
            text=shown(node),
            path=place.path,
        ),
    )
