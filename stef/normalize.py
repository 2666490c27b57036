"""The four universal tolerances, each one pure function in an ordered tuple, each leaving a trace.

Source: STEF paper (arXiv 2604.28049). A tolerance takes a difference that no user would call an error out of the SQL's
spec; what it leaves is judged.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from stef.apprules import AppRules
from stef.names import similarity
from stef.result import Normalization
from stef.spec import Effect, Filter, GroupKey, Limit, Op, OrderKey, QuerySpec, Scope
from stef.timespan import Interval, Unit, floor, shift
from stef.values import Column, fold

# Conditions there hold for every row; one inside CASE or a subquery does not.
_ROW_SCOPES = frozenset({Scope.WHERE, Scope.PREWHERE, Scope.JOIN, Scope.CTE})
_UNITS = frozenset(Unit)
Tolerance = Callable[[QuerySpec, QuerySpec, AppRules], tuple[QuerySpec, str]]


def normalize(asked: QuerySpec, sql: QuerySpec, rules: AppRules) -> tuple[QuerySpec, tuple[Normalization, ...]]:
    """Apply the tolerances in order.

    Args:
        asked: What the question asks for, with what the expansion may add.
        sql: Spec of the statement.
        rules: Default sort and cap, λ_min.

    Returns:
        The SQL's spec without what was forgiven, and the trace.
    """
    trace: list[Normalization] = []
    for rule in TOLERANCES:
        sql, detail = rule(asked, sql, rules)
        if detail:
            trace.append(Normalization(rule=rule.__name__, detail=detail))
    return sql, tuple(trace)


def required_group_by(asked: QuerySpec, sql: QuerySpec, _: AppRules) -> tuple[QuerySpec, str]:
    """SELECT mixes aggregates and plain columns: the GROUP BY that this needs is right even if nobody asked for it."""
    plain = {fold(column) for item in sql.projections if not item.aggregates for column in (item.name, *item.columns)}
    mixed = bool(plain) and any(item.aggregates for item in sql.projections)
    if not mixed or asked.group_by:
        return sql, ""
    needed = tuple(key for key in sql.group_by if _is_plain(key, plain) and not _is_pinned(key, sql))
    why = f"GROUP BY {_names(needed)} is needed beside the aggregate"
    return (_without(sql, needed), why) if needed else (sql, "")


def _is_plain(key: GroupKey, plain: set[str]) -> bool:
    return fold(key.column) in plain or fold(key.column.rpartition(".")[2]) in plain


def benign_group_by(asked: QuerySpec, sql: QuerySpec, _: AppRules) -> tuple[QuerySpec, str]:
    """Grouping by a column that WHERE pins to one value changes nothing."""
    pinned = tuple(key for key in sql.group_by if _is_pinned(key, sql) and not _asks_for(asked, key))
    return (_without(sql, pinned), f"{_names(pinned)} has one value only") if pinned else (sql, "")


def _is_pinned(key: GroupKey, sql: QuerySpec) -> bool:
    """Whether a condition leaves one value for the key."""
    own = (item for item in sql.filters if fold(item.column) == fold(key.column))
    return any(_binds(item) and _leaves_one(item, key) for item in own)


def _binds(item: Filter) -> bool:
    """Whether a condition holds for every row of the answer."""
    everywhere = item.scope in _ROW_SCOPES and item.effect is Effect.EFFECTIVE
    return everywhere and not item.alternative and not item.aggregate


def _leaves_one(item: Filter, key: GroupKey) -> bool:
    match item.op, item.value:
        case Op.EQ, Column():
            return False
        case ((Op.EQ | Op.IS_NULL), _):
            return True
        case Op.RANGE, Interval(start, end) if key.unit in _UNITS and start is not None and end is not None:
            return end <= shift(floor(start, Unit(key.unit)), Unit(key.unit), 1)
        case _:
            return False


def _asks_for(asked: QuerySpec, key: GroupKey) -> bool:
    return any(similarity(key.column, wanted.column) >= 0.95 for wanted in asked.group_by)


def _without(sql: QuerySpec, keys: tuple[GroupKey, ...]) -> QuerySpec:
    return replace(sql, group_by=tuple(key for key in sql.group_by if key not in keys))


def _names(keys: tuple[GroupKey, ...]) -> str:
    return ", ".join(key.column for key in keys)


def order_by_tolerance(asked: QuerySpec, sql: QuerySpec, rules: AppRules) -> tuple[QuerySpec, str]:
    """A sort that nobody asked for is fine; a sort against the asked one is not.

    Where a cap is left the sort decides which rows are delivered, so it is judged with the cap.
    """
    capped = sql.limit is not None and not _is_guard(sql, rules)
    if not sql.order_by or asked.order_by or asked.limit is not None or capped:
        return sql, ""
    by_rule = bool(rules.default_order_by) and _same_keys(sql.order_by, rules.default_order_by)
    why = "the application's default sort" if by_rule else "nobody asked for an order"
    return replace(sql, order_by=()), f"ORDER BY {', '.join(key.by for key in sql.order_by)}: {why}"


def _same_keys(left: tuple[OrderKey, ...], right: tuple[OrderKey, ...]) -> bool:
    return [(fold(key.by), key.direction) for key in left] == [(fold(key.by), key.direction) for key in right]


def limit_tolerance(asked: QuerySpec, sql: QuerySpec, rules: AppRules) -> tuple[QuerySpec, str]:
    """A cap of λ_min rows or more that nobody asked for is a guard, unless it stands below an aggregate or a filter."""
    if sql.limit is None or asked.limit is not None or not _is_guard(sql, rules):
        return sql, ""
    by_rule = sql.limit.count == rules.default_limit
    why = "is the application's own cap" if by_rule else "guards against huge results"
    return replace(sql, limit=None), f"LIMIT {sql.limit.count} {why}"


def _is_guard(sql: QuerySpec, rules: AppRules) -> bool:
    limit = sql.limit
    if limit is None or limit.count is None or limit.per or limit.offset or _is_filtered_later(sql, limit):
        return False
    return limit.count >= rules.limit_guard or limit.count == rules.default_limit


def _is_filtered_later(sql: QuerySpec, limit: Limit) -> bool:
    """Whether an aggregate or another condition sees only what the cap left."""
    inside = limit.path.endswith("/")
    return limit.below or (inside and any(not item.path.startswith(limit.path) for item in sql.filters))


TOLERANCES: tuple[Tolerance, ...] = (required_group_by, benign_group_by, order_by_tolerance, limit_tolerance)
