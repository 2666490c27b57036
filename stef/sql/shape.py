"""The parts of a select beside its conditions: outputs, aggregates, grouping, ordering, limits, joins."""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from stef.spec import (
    Aggregation,
    Direction,
    Effect,
    Filter,
    GroupKey,
    Join,
    JoinKind,
    Limit,
    OrderKey,
    Projection,
    Scope,
)
from stef.sql.moments import unit_of
from stef.sql.predicates import Place, Ranked, Reading, conditions
from stef.sql.targets import Names, aggregate_name, aliased, target
from stef.values import Number

_KINDS = {
    "LEFT": JoinKind.LEFT,
    "RIGHT": JoinKind.RIGHT,
    "FULL": JoinKind.FULL,
    "CROSS": JoinKind.CROSS,
    "SEMI": JoinKind.SEMI,
    "ANTI": JoinKind.ANTI,
}
_UNIT_PARTS = {
    exp.Year: "year",
    exp.Month: "month",
    exp.Day: "day",
    exp.Quarter: "quarter",
    exp.Week: "week",
    exp.DayOfWeek: "weekday",
}
_FORMAT_UNITS = {"%Y": "year", "%m": "month", "%Y-%m": "month", "%Y%m": "month", "%Y-%m-%d": "day", "%d": "day"}


def shallow(node: exp.Expr) -> Iterator[exp.Expr]:
    """Nodes of an expression without those of queries inside it (the queries themselves are given)."""
    stack = [node]
    while stack:
        current = stack.pop()
        yield current
        if not isinstance(current, exp.Query):
            stack.extend(current.iter_expressions(reverse=True))


def bare(node: exp.Expr) -> exp.Expr:
    """The expression under an alias."""
    return node.this if isinstance(node, exp.Alias) else node


def written(node: exp.Expr, names: Names) -> str:
    """A column as written, without the qualifier when it is an alias of this select; a nested field keeps its path."""
    if isinstance(node, exp.Column):
        known = not node.table or node.table.lower() in names.relations
        return node.name if known else f"{node.table}.{node.name}"
    if isinstance(node, exp.Dot):
        return node.sql()
    return node.sql()[:200]


def aggregates(node: exp.Expr, names: Names) -> list[Aggregation]:
    """The aggregates in an expression, a ratio of two as one more."""
    found: list[Aggregation] = []
    windowed = {id(inner.this) for inner in shallow(node) if isinstance(inner, exp.Window)}
    for inner in shallow(node):
        name = aggregate_name(inner)
        if not name or id(inner) in windowed:
            continue
        whole_call = inner.parent if isinstance(inner.parent, exp.WithinGroup) and inner is not node else inner
        about = target(whole_call, names)
        of = about.column if about is not None else ""
        distinct = about is not None and about.distinct
        found.append(Aggregation(function=name, of=of or "*", distinct=distinct, text=inner.sql()[:200]))
    if _is_ratio(node):
        found.insert(0, Aggregation(function="ratio", text=node.sql()[:200]))
    return found


def _is_ratio(node: exp.Expr) -> bool:
    for inner in shallow(node):
        if isinstance(inner, exp.Div | exp.IntDiv | exp.SafeDivide):
            top, bottom = inner.this, inner.expression
            if all(any(aggregate_name(n) or isinstance(n, exp.Query) for n in shallow(side)) for side in (top, bottom)):
                return True
        if isinstance(inner, exp.Avg) and isinstance(inner.this, exp.Case | exp.If | exp.Predicate):
            return True
    return False


def projection(node: exp.Expr, names: Names) -> Projection:
    """One output column."""
    inner = bare(node)
    columns = tuple(dict.fromkeys(n.name for n in shallow(inner) if isinstance(n, exp.Column)))
    functions = tuple(dict.fromkeys(item.function for item in aggregates(inner, names)))
    if not functions and isinstance(inner, exp.Column):
        behind = target(inner, names)
        if behind is not None and behind.aggregate:
            functions = (behind.aggregate,)
    name = node.alias_or_name or (columns[0] if len(columns) == 1 and not functions else "")
    return Projection(name=name, columns=columns, aggregates=functions, text=node.sql()[:200])


def group_keys(select: exp.Select, names: Names) -> tuple[GroupKey, ...]:
    """GROUP BY, ordinals and aliases resolved; GROUP BY ALL takes the plain outputs."""
    group = select.args.get("group")
    if group is None:
        return ()
    if group.args.get("all"):
        plain = [item for item in select.expressions if not aggregates(item, names) and not isinstance(item, exp.Star)]
        return tuple(_group_key(bare(item), names, item.alias_or_name) for item in plain)
    nodes = list(group.expressions)
    for kind in ("rollup", "cube", "grouping_sets"):
        for extra in group.args.get(kind) or []:
            if isinstance(extra, exp.Expr):
                nodes += [n for n in extra.find_all(exp.Column)]
    return tuple(
        _group_key(_behind(node, select, names), names, node.name if isinstance(node, exp.Column) else "")
        for node in nodes
    )


def _behind(node: exp.Expr, select: exp.Select, names: Names) -> exp.Expr:
    """The output that an ordinal or an alias stands for, else the node itself."""
    if isinstance(node, exp.Literal) and not node.is_string and node.name.isdigit():
        place = int(node.name) - 1
        return bare(select.expressions[place]) if 0 <= place < len(select.expressions) else node
    if (
        isinstance(node, exp.Column)
        and (output := aliased(node, names)) is not None
        and not isinstance(output, exp.Column)
    ):
        return output
    return node


def _group_key(node: exp.Expr, names: Names, alias: str) -> GroupKey:
    unit = ""
    for inner in shallow(node):
        if (part := _UNIT_PARTS.get(type(inner))) is not None:
            unit = part
        elif isinstance(inner, exp.Extract):
            unit = str(inner.this.name).lower()
        elif isinstance(inner, exp.DateTrunc | exp.TimestampTrunc | exp.DatetimeTrunc):
            unit = str(unit_of(inner.args.get("unit")) or "")
        elif isinstance(inner, exp.TimeToStr):
            unit = _FORMAT_UNITS.get(inner.args["format"].name, "")
        if unit:
            break
    if isinstance(node, exp.Column):
        return GroupKey(column=written(node, names), unit=unit, text=node.sql()[:200])
    about = target(node, names)
    column = about.column if about is not None and about.column else alias or written(node, names)
    return GroupKey(column=column, unit=unit, text=node.sql()[:200])


def order_keys(query: exp.Query, select: exp.Select, names: Names) -> tuple[OrderKey, ...]:
    """ORDER BY, ordinals and aliases resolved."""
    order = query.args.get("order")
    return tuple(order_key(item, select, names) for item in order.expressions) if order is not None else ()


def order_key(item: exp.Expr, select: exp.Select | None, names: Names) -> OrderKey:
    """One sort key."""
    node = item.this if isinstance(item, exp.Ordered) else item
    direction = Direction.DESC if item.args.get("desc") else Direction.ASC
    behind = node
    if select is not None:
        behind = _behind(node, select, names)
        if behind is node and isinstance(node, exp.Column) and (output := aliased(node, names)) is not None:
            behind = output
    about = target(behind, names)
    columns = tuple(dict.fromkeys(n.name for n in shallow(behind) if isinstance(n, exp.Column)))
    if about is not None and about.column and about.column != "*" and about.column not in columns:
        columns = (*columns, about.column)
    functions = aggregates(behind, names)
    aggregate = functions[0].function if functions else (about.aggregate if about is not None else "")
    by = written(node, names) if isinstance(node, exp.Column) else (aggregate or written(behind, names))
    return OrderKey(by=by, direction=direction, columns=columns, aggregate=aggregate, text=item.sql()[:200])


def limit_of(query: exp.Query, path: str) -> Limit | None:
    """LIMIT, TOP or FETCH of one query; DISTINCT ON is one row per group."""
    node = query.args.get("limit")
    distinct = query.args.get("distinct")
    if node is None:
        if isinstance(distinct, exp.Distinct) and distinct.args.get("on") is not None:
            on = distinct.args["on"]
            per = tuple(n.name for n in on.find_all(exp.Column))
            return Limit(count=1, per=per, text=f"DISTINCT ON {on.sql()}"[:200], path=path)
        return None
    count = node.args.get("count") if isinstance(node, exp.Fetch) else node.args.get("expression")
    options = node.args.get("limit_options")
    ties = options is not None and bool(options.args.get("with_ties"))
    offset = query.args.get("offset")
    skipped = (
        whole(offset.expression) if isinstance(offset, exp.Offset) and isinstance(offset.expression, exp.Expr) else 0
    )
    return Limit(count=whole(count), offset=skipped or 0, ties=ties, text=node.sql()[:200].strip(), path=path)


def whole(node: object) -> int | None:
    """A literal whole number, or None."""
    if isinstance(node, exp.Paren):
        return whole(node.this)
    if isinstance(node, exp.Literal) and node.name.isdigit():
        return int(node.name)
    return None


def limit_of_rank(ranked: Ranked) -> tuple[Limit, tuple[OrderKey, ...]] | None:
    """A condition on a row number as a limit per group, with its sort."""
    if not isinstance(ranked.value, Number):
        return None
    count = int(ranked.value.value)
    if ranked.op == "<":
        count -= 1
    elif ranked.op not in {"=", "<="}:
        return None
    if ranked.op == "=" and count > 1:
        limit_offset, count = count - 1, 1
    else:
        limit_offset = 0
    window = ranked.window
    per = tuple(n.name for part in window.args.get("partition_by") or [] for n in part.find_all(exp.Column))
    order = window.args.get("order")
    keys = tuple(order_key(item, None, ranked.place.names) for item in order.expressions) if order is not None else ()
    ties = not isinstance(window.this, exp.RowNumber)
    return Limit(
        count=count, per=per, offset=limit_offset, ties=ties, text=window.sql()[:200], path=ranked.place.path
    ), keys


def join_of(node: exp.Join, table: str, keys: tuple[tuple[str, str], ...], path: str) -> Join:
    """One join with its kind and keys."""
    side, kind = str(node.side or "").upper(), str(node.kind or "").upper()
    found = _KINDS.get(kind) or _KINDS.get(side) or JoinKind.INNER
    return Join(table=table, kind=found, keys=keys, path=path)


# ── conditions inside aggregates ────────────────────────────────────────────────────────────────────────────────────


def aggregate_conditions(node: exp.Expr, place: Place, reading: Reading) -> list[Filter]:
    """Conditions that an aggregate carries: FILTER (WHERE …), COUNT_IF, CASE inside, a summed boolean."""
    found: list[Filter] = []
    for inner in shallow(node):
        if isinstance(inner, exp.Filter):
            condition = inner.expression.this if isinstance(inner.expression, exp.Where) else inner.expression
            found += conditions(condition, _at(place, Scope.AGGREGATE), reading)
        elif isinstance(inner, exp.CountIf):
            found += conditions(inner.this, _at(place, Scope.AGGREGATE), reading)
        elif isinstance(inner, exp.CombinedAggFunc | exp.Anonymous) and str(inner.name or inner.this).lower() in {
            "sumif",
            "avgif",
            "minif",
            "maxif",
            "uniqif",
        }:
            if inner.expressions:
                found += conditions(inner.expressions[-1], _at(place, Scope.AGGREGATE), reading)
        elif name := aggregate_name(inner):
            found += _inside(inner, name, place, reading)
    return found


def _at(place: Place, scope: Scope, effect: Effect = Effect.EFFECTIVE) -> Place:
    return Place(scope=scope, path=place.path, names=place.names, effect=effect)


def _inside(node: exp.Expr, name: str, place: Place, reading: Reading) -> list[Filter]:
    argument = node.this
    if isinstance(argument, exp.Distinct):
        argument = argument.expressions[0] if argument.expressions else None
    while isinstance(argument, exp.Paren | exp.Cast | exp.TryCast | exp.Mul | exp.Coalesce):
        argument = next(
            (
                a
                for a in (argument.this, argument.args.get("expression"))
                if isinstance(a, exp.Case | exp.If | exp.Paren | exp.Cast)
            ),
            argument.this,
        )
    if isinstance(argument, exp.Case | exp.If):
        return _case(argument, name, place, reading)
    if isinstance(argument, exp.Predicate | exp.And | exp.Or | exp.Not) and not isinstance(argument, exp.Query):
        effect = Effect.COUNTED_ELSE if name == "count" else Effect.EFFECTIVE
        return conditions(argument, _at(place, Scope.AGGREGATE, effect), reading)
    return []


def _case(node: exp.Expr, name: str, place: Place, reading: Reading) -> list[Filter]:
    branches = node.args.get("ifs") if isinstance(node, exp.Case) else [node]
    default = node.args.get("default") if isinstance(node, exp.Case) else node.args.get("false")
    if not branches or len(branches) > 1:
        return []  # several branches weigh the rows; none of them narrows
    branch = branches[0]
    condition = branch.this
    if isinstance(node, exp.Case) and node.this is not None:
        condition = exp.EQ(this=node.this.copy(), expression=condition.copy())
    counted = default is not None and not isinstance(default, exp.Null)
    share = name == "avg" and isinstance(branch.args.get("true"), exp.Literal)
    blind = counted and (name == "count" or (name == "avg" and not share))
    return conditions(condition, _at(place, Scope.CASE, Effect.COUNTED_ELSE if blind else Effect.EFFECTIVE), reading)
