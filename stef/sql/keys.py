"""GROUP BY and ORDER BY: ordinals and aliases resolved to the columns behind them."""

from __future__ import annotations

from sqlglot import exp

from stef.spec import Direction, GroupKey, OrderKey
from stef.sql.moments import unit_of
from stef.sql.nodes import shallow
from stef.sql.outputs import aggregates, bare, columns_in, written
from stef.sql.rendering import shown
from stef.sql.targets import Names, aliased, target

_UNIT_PARTS: dict[type[exp.Expr], str] = {
    exp.Year: "year",
    exp.Month: "month",
    exp.Day: "day",
    exp.Quarter: "quarter",
    exp.Week: "week",
    exp.DayOfWeek: "weekday",
}
_SETS = (exp.Rollup, exp.Cube, exp.GroupingSets)
_FORMAT_UNITS = {"%Y": "year", "%m": "month", "%Y-%m": "month", "%Y%m": "month", "%Y-%m-%d": "day", "%d": "day"}


def group_keys(select: exp.Select, names: Names) -> tuple[GroupKey, ...]:
    """GROUP BY, ordinals and aliases resolved; GROUP BY ALL takes the plain outputs."""
    group = select.args.get("group")
    if group is None:
        return ()
    if group.args.get("all"):
        plain = [item for item in select.expressions if not aggregates(item, names) and not isinstance(item, exp.Star)]
        return tuple(_group_key(bare(item), names, item.alias_or_name) for item in plain)
    nodes = [part for node in group.expressions for part in (_columns(node) if isinstance(node, _SETS) else [node])]
    for kind in ("rollup", "cube", "grouping_sets"):
        nodes += [n for extra in group.args.get(kind) or [] if isinstance(extra, exp.Expr) for n in _columns(extra)]
    return tuple(
        _group_key(_behind(node, select, names), names, node.name if isinstance(node, exp.Column) else "")
        for node in nodes
    )


def _columns(node: exp.Expr) -> list[exp.Column]:
    return [inner for inner in shallow(node) if isinstance(inner, exp.Column)]


def _behind(node: exp.Expr, select: exp.Select, names: Names) -> exp.Expr:
    """The output that an ordinal or an alias stands for, else the node itself."""
    if isinstance(node, exp.Literal) and not node.is_string and node.name.isdigit():
        place = int(node.name) - 1
        return bare(select.expressions[place]) if 0 <= place < len(select.expressions) else node
    if isinstance(node, exp.Column):
        output = aliased(node, names)
        if output is not None and not isinstance(output, exp.Column):
            return output
    return node


def _group_key(node: exp.Expr, names: Names, alias: str) -> GroupKey:
    unit = next((unit for inner in shallow(node) if (unit := _unit(inner))), "")
    if isinstance(node, exp.Column):
        return GroupKey(column=written(node, names), unit=unit, text=shown(node))
    about = target(node, names)
    column = about.column if about is not None and about.column else alias or written(node, names)
    return GroupKey(column=column, unit=unit, text=shown(node))


def _unit(node: exp.Expr) -> str:
    """The calendar unit that a function takes of a date, or ""."""
    if isinstance(node, exp.Extract):
        return str(node.this.name).lower()
    if isinstance(node, exp.DateTrunc | exp.TimestampTrunc | exp.DatetimeTrunc):
        return str(unit_of(node.args.get("unit")) or "")
    if isinstance(node, exp.TimeToStr):
        return _FORMAT_UNITS.get(node.args["format"].name, "")
    return _UNIT_PARTS.get(type(node), "")


def order_keys(query: exp.Query, select: exp.Select, names: Names) -> tuple[OrderKey, ...]:
    """ORDER BY, ordinals and aliases resolved."""
    order = query.args.get("order")
    if order is None:
        return ()
    items = [item for item in order.expressions if not _places_nulls(item)] or order.expressions
    return tuple(order_key(item, select, names) for item in items)


def _places_nulls(item: exp.Expr) -> bool:
    """`ORDER BY km IS NULL, km`: where NULLs go is no sort of its own."""
    node = item.this if isinstance(item, exp.Ordered) else item
    if isinstance(node, exp.Case) and len(node.args.get("ifs") or []) == 1 and node.this is None:
        node = node.args["ifs"][0].this
    return isinstance(node, exp.Is) and isinstance(node.expression, exp.Null)


def order_key(item: exp.Expr, select: exp.Select | None, names: Names) -> OrderKey:
    """One sort key."""
    node = item.this if isinstance(item, exp.Ordered) else item
    direction = Direction.DESC if item.args.get("desc") else Direction.ASC
    behind = _behind(node, select, names) if select is not None else node
    if select is not None and behind is node and isinstance(node, exp.Column):
        behind = aliased(node, names) or node
    about = target(behind, names)
    columns = columns_in(behind)
    if about is not None and about.column and about.column != "*" and about.column not in columns:
        columns = (*columns, about.column)
    functions = aggregates(behind, names)
    aggregate = functions[0].function if functions else (about.aggregate if about is not None else "")
    by = written(node, names) if isinstance(node, exp.Column) else (aggregate or written(behind, names))
    return OrderKey(by=by, direction=direction, columns=columns, aggregate=aggregate, text=shown(item))
