"""Boolean expressions → canonical filters.

Source of the canonical forms: the design's list (negations pushed down, OR chains on one column as IN, bounds of time
as one half-open interval, every spelling of a year or a month as its range).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal

from sqlglot import exp

from stef.spec import Effect, Filter, Op, Scope
from stef.sql.moments import Instant, NoClockError, evaluate, literal_moment, upper_end
from stef.sql.targets import Names, Target, target
from stef.timespan import Calendar, Interval, Moment, Unit, parse_moment, shift
from stef.values import (
    Boolean,
    Column,
    Many,
    Null,
    Number,
    NumberRange,
    Placeholder,
    Text,
    Unknown,
    Unresolved,
    Value,
    decimal,
    fold,
)

_COMPARE = {
    exp.EQ: Op.EQ, exp.NEQ: Op.NE, exp.LT: Op.LT, exp.LTE: Op.LE, exp.GT: Op.GT, exp.GTE: Op.GE,
    exp.NullSafeEQ: Op.EQ, exp.NullSafeNEQ: Op.NE,
}  # fmt: skip
_FLIPPED = {Op.LT: Op.GT, Op.LE: Op.GE, Op.GT: Op.LT, Op.GE: Op.LE, Op.EQ: Op.EQ, Op.NE: Op.NE}
_LIKES = (exp.Like, exp.ILike, exp.RegexpLike, exp.RegexpILike, exp.SimilarTo)
_CONTAINS = frozenset({"contains", "instr", "strpos", "charindex", "position", "locate", "positioncaseinsensitive"})
_RANKS = (exp.RowNumber, exp.Rank, exp.DenseRank)
_MAX_TERMS = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where the expression being read stands."""

    scope: Scope
    path: str
    names: Names
    effect: Effect = Effect.EFFECTIVE
    join_keys: bool = False  # column = column joins two tables here and is no filter


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranked:
    """A condition on a row number or rank (`rn = 1`, `rank <= 3`)."""

    window: exp.Window
    op: Op
    value: Value
    place: Place


@dataclass(slots=True, kw_only=True)
class Reading:
    """What one statement's reading carries along.

    Attributes:
        calendar: For relative dates.
        variables: SQL text by lower-case name, from SET, DECLARE and logged parameters.
        subquery: Reads a query inside a condition; returns its filters. The flag says that it is negated.
        placeholders: Names of bind parameters without a value.
        ranked: Conditions on row numbers and ranks: they are limits.
        alternatives: Number of OR groups seen so far.
    """

    calendar: Calendar
    variables: Mapping[str, exp.Expr]
    subquery: Callable[[exp.Expr, Place, bool], tuple[Filter, ...]]
    placeholders: list[str] = field(default_factory=list)
    ranked: list[Ranked] = field(default_factory=list)
    alternatives: int = 0


def conditions(node: exp.Expr, place: Place, reading: Reading) -> list[Filter]:
    """Read a boolean expression whose terms all have to hold."""
    return merge_bounds(_all(node, place, reading, negated=False))


def _all(node: exp.Expr, place: Place, reading: Reading, *, negated: bool) -> list[Filter]:
    found: list[Filter] = []
    for term, flipped in _terms(node, negated=negated):
        found.extend(_term(term, place, reading, negated=flipped))
        if len(found) > _MAX_TERMS:
            break
    return found


def _terms(node: exp.Expr, *, negated: bool) -> Iterator[tuple[exp.Expr, bool]]:
    """The terms of a conjunction, negations pushed down (De Morgan), without recursion on long chains."""
    stack = [(node, negated)]
    while stack:
        term, flipped = stack.pop()
        match term:
            case exp.Paren():
                stack.append((term.this, flipped))
            case exp.Not():
                stack.append((term.this, not flipped))
            case exp.And() if not flipped:
                stack += [(term.expression, flipped), (term.this, flipped)]
            case exp.Or() if flipped:
                stack += [(term.expression, flipped), (term.this, flipped)]
            case _:
                yield term, flipped


def _term(node: exp.Expr, place: Place, reading: Reading, *, negated: bool) -> list[Filter]:
    if isinstance(node, exp.Or | exp.And):
        return _any(node, place, reading, negated=negated)
    if isinstance(node, exp.Exists):
        return list(reading.subquery(node, place, negated))
    if isinstance(node, exp.In):
        return _in(node, place, reading, negated=negated)
    if isinstance(node, exp.Between):
        return _between(node, place, reading, negated=negated)
    if isinstance(node, _LIKES):
        return _like(node, place, reading, negated=negated)
    if isinstance(node, exp.Is):
        return _is(node, place, reading, negated=negated)
    if (op := _COMPARE.get(type(node))) is not None:
        return _comparison(node, op.negated if negated else op, place, reading)
    return _truth(node, place, reading, negated=negated)


# ── OR ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _branches(node: exp.Expr, *, negated: bool) -> list[tuple[exp.Expr, bool]]:
    """The branches of a disjunction (of a negated conjunction), in order, without recursion."""
    kind: type[exp.Expr] = exp.And if negated else exp.Or
    stack, found = [node], []
    while stack:
        term = stack.pop()
        bare = term.unnest() if isinstance(term, exp.Paren) else term
        if isinstance(bare, kind):
            stack += [bare.expression, bare.this]
        else:
            found.append((term, negated))
    return found


def _any(node: exp.Expr, place: Place, reading: Reading, *, negated: bool) -> list[Filter]:
    """An OR: one filter when all branches speak of one column, else alternatives with a number of their own."""
    branches = _branches(node, negated=negated)
    groups = [merge_bounds(_all(term, place, reading, negated=flipped)) for term, flipped in branches[:_MAX_TERMS]]
    singles = [group[0] for group in groups if len(group) == 1]
    if len(singles) == len(groups):
        one = united(singles)
        if one is not None:
            return [one]
        nullable = [item for item in singles if item.op is not Op.IS_NULL]
        if len(nullable) < len(singles) and (one := united(nullable)) is not None:
            return [one]  # `x = 1 OR x IS NULL` keeps the unknown beside the value
        if (outside := _outside(singles)) is not None:
            return [outside]
    elif (slipped := _precedence_slip(branches, groups)) is not None:
        return slipped
    reading.alternatives += 1
    number = reading.alternatives
    return [item if item.alternative else replace(item, alternative=number) for group in groups for item in group]


def _about(item: Filter) -> tuple[str, str, str]:
    return (fold(item.table), fold(item.column), item.aggregate)


def united(items: list[Filter]) -> Filter | None:
    """`a = 1 OR a = 2 OR a IN (3)` as one IN."""
    if not items or len({_about(item) for item in items}) > 1:
        return None
    members: list[Text | Number | Boolean | Interval] = []
    for item in items:
        match item.op, item.value:
            case (Op.EQ | Op.IN, Many(inner)):
                members.extend(inner)
            case (Op.EQ, Text() | Number() | Boolean() as value):
                members.append(value)
            case (Op.RANGE, Interval() as span) if span.is_bounded:
                members.append(span)
            case _:
                return None
    return _membership(items[0], members, " OR ".join(item.text for item in items[:3]))


def _membership(first: Filter, members: Iterable[Text | Number | Boolean | Interval], text: str) -> Filter:
    unique = sorted(dict.fromkeys(members), key=_member_order)
    if len(unique) == 1:
        op = Op.RANGE if isinstance(unique[0], Interval) else Op.EQ
        return replace(first, op=op, value=unique[0], text=text)
    if all(isinstance(member, Interval) for member in unique):
        joined = _contiguous([member for member in unique if isinstance(member, Interval)])
        if joined is not None:
            return replace(first, op=Op.RANGE, value=joined, text=text)
    return replace(first, op=Op.IN, value=Many(tuple(unique)), text=text)


def _member_order(member: Text | Number | Boolean | Interval) -> tuple[int, str]:
    return (0, fold(member.raw)) if isinstance(member, Text) else (1, str(member))


def _contiguous(spans: list[Interval]) -> Interval | None:
    """Neighbouring spans as one (`year IN (2023, 2024)` is a range of two years)."""
    ordered = sorted(spans, key=lambda span: (span.start is not None, span.start or 0))  # type: ignore[arg-type, return-value]
    for left, right in zip(ordered, ordered[1:], strict=False):
        if left.end != right.start:
            return None
    return Interval(ordered[0].start, ordered[-1].end)


def _outside(items: list[Filter]) -> Filter | None:
    """`a < 1 OR a > 9`: outside of a range."""
    if len(items) != 2 or _about(items[0]) != _about(items[1]):
        return None
    low, high = sorted(items, key=lambda item: item.op in {Op.GT, Op.GE})
    if low.op is Op.LT and high.op is Op.GT and isinstance(low.value, Number) and isinstance(high.value, Number):
        return replace(low, op=Op.NOT_RANGE, value=NumberRange(low.value.value, high.value.value))
    if low.op is high.op is Op.RANGE and isinstance(low.value, Interval) and isinstance(high.value, Interval):
        first, second = sorted((low.value, high.value), key=lambda span: span.start is not None)
        if first.start is None and second.end is None and first.end and second.start:
            return replace(low, op=Op.NOT_RANGE, value=Interval(first.end, second.start))
    return None


def _precedence_slip(branches: list[tuple[exp.Expr, bool]], groups: list[list[Filter]]) -> list[Filter] | None:
    """`a AND b = 1 OR b = 2` without brackets: `a` does not bind the rows of the second branch.

    Only where both branches speak of one column: there the writer meant an IN.
    """
    for i, (term, negated) in enumerate(branches):
        if negated or not isinstance(term, exp.And):
            continue
        others = [item for j, group in enumerate(groups) if j != i and len(group) == 1 for item in group]
        shared = [item for item in groups[i] if any(_about(item) == _about(other) for other in others)]
        if not shared or len(others) != len(groups) - 1:
            continue
        one = united([*shared, *others])
        if one is not None:
            loose = [replace(item, effect=Effect.OR_PRECEDENCE) for item in groups[i] if item not in shared]
            return [*loose, one]
    return None


# ── single conditions ───────────────────────────────────────────────────────────────────────────────────────────────


def _build(found: Target, op: Op, value: Value, node: exp.Expr, place: Place) -> Filter:
    effect = place.effect
    if isinstance(value, Null) and op in {Op.EQ, Op.NE}:
        effect = Effect.NULL_COMPARISON
    return Filter(
        column=found.column,
        op=op,
        value=value,
        scope=place.scope,
        effect=effect,
        table=found.table,
        aggregate=found.aggregate,
        text=_text(node),
        path=place.path,
    )


def _text(node: exp.Expr) -> str:
    written = node.sql()
    return written if len(written) <= 200 else written[:199] + "…"


def value_of(node: exp.Expr, place: Place, reading: Reading) -> Value:
    """Read the right side of a condition."""
    node = node.unnest() if isinstance(node, exp.Paren) else node
    if isinstance(node, exp.Literal):
        number = None if node.is_string else decimal(node.name)
        return Text(node.name) if number is None else Number(number)
    if isinstance(node, exp.Neg) and isinstance(inner := value_of(node.this, place, reading), Number):
        return Number(-inner.value)
    if isinstance(node, exp.Boolean):
        return Boolean(bool(node.this))
    if isinstance(node, exp.Null):
        return Null()
    if isinstance(node, exp.Parameter | exp.Placeholder | exp.SessionParameter):
        return _parameter(node, place, reading)
    if isinstance(node, exp.Cast | exp.TryCast | exp.Lower | exp.Upper | exp.Trim) and isinstance(
        node.this, exp.Literal
    ):
        return value_of(node.this, place, reading)
    try:
        found = evaluate(node, reading.calendar)
    except NoClockError:
        return Unknown(_text(node), Unresolved.CLOCK)
    if isinstance(found, int):
        return Number(Decimal(found))
    if isinstance(found, Instant):
        unit = Unit.DAY if found.whole_day else Unit.SECOND
        return Interval(found.moment, shift(found.moment, unit, 1))
    if (number := _arithmetic(node)) is not None:
        return Number(number)
    if node.find(exp.Query):
        return Unknown(_text(node), Unresolved.SUBQUERY)
    column = target(node, place.names)
    if isinstance(node, exp.Column) and column is not None:
        return Column(f"{column.table}.{column.column}" if column.table else column.column)
    return Unknown(_text(node), Unresolved.EXPRESSION)


def _parameter(node: exp.Expr, place: Place, reading: Reading) -> Value:
    inner = node.this
    name = inner.name if isinstance(inner, exp.Expr) else str(inner or "?")
    bound = reading.variables.get(name.lower())
    if bound is not None and not isinstance(bound, exp.Parameter | exp.Placeholder):
        return value_of(bound, place, reading)
    reading.placeholders.append(name)
    return Placeholder(name)


def _arithmetic(node: exp.Expr) -> Decimal | None:
    """Constant arithmetic (`1000 * 12`), or None."""
    if isinstance(node, exp.Literal) and not node.is_string:
        return decimal(node.name)
    if isinstance(node, exp.Paren):
        return _arithmetic(node.this)
    if isinstance(node, exp.Mul | exp.Add | exp.Sub | exp.Div):
        left, right = _arithmetic(node.this), _arithmetic(node.expression)
        if left is None or right is None or (isinstance(node, exp.Div) and not right):
            return None
        return {exp.Mul: left * right, exp.Add: left + right, exp.Sub: left - right}.get(
            type(node), left / (right or 1)
        )
    return None


def _comparison(node: exp.Expr, op: Op, place: Place, reading: Reading) -> list[Filter]:
    left, right = node.this, node.expression
    if _has_query(left) or _has_query(right):
        return list(reading.subquery(node, place, op in {Op.NE}))
    contained = _containment(node, op, place, reading)
    if contained is not None:
        return contained
    found = target(left, place.names)
    if found is None or (isinstance(right, exp.Column) and not isinstance(left, exp.Column) and found.column == ""):
        found, left, right, op = target(right, place.names), right, left, _FLIPPED[op]
        if found is None:
            return []
    if isinstance(left, exp.Tuple):
        return _tuple(left, right, op, place, reading)
    value = value_of(right, place, reading)
    if isinstance(value, Column) and op is Op.EQ and _joins(found, value, place):
        return []
    if found.window is not None and isinstance(found.window.this, _RANKS):
        reading.ranked.append(Ranked(window=found.window, op=op, value=value, place=place))
        return []
    return [_compare(found, op, value, literal_moment(right), node, place)]


def _joins(found: Target, value: Column, place: Place) -> bool:
    """Whether an equality of two columns joins two tables and so is no filter."""
    other = value.name.rpartition(".")[0]
    return place.join_keys or (bool(other) and fold(other) != fold(found.table))


def _has_query(node: exp.Expr | None) -> bool:
    return isinstance(node, exp.Expr) and (
        isinstance(node, exp.Query | exp.Subquery | exp.Any | exp.All) or node.find(exp.Query) is not None
    )


def _tuple(left: exp.Tuple, right: exp.Expr, op: Op, place: Place, reading: Reading) -> list[Filter]:
    if not isinstance(right, exp.Tuple) or op is not Op.EQ:
        return []
    return [
        item
        for a, b in zip(left.expressions, right.expressions, strict=False)
        for item in _comparison(exp.EQ(this=a.copy(), expression=b.copy()), op, place, reading)
    ]


def _containment(node: exp.Expr, op: Op, place: Place, reading: Reading) -> list[Filter] | None:
    """`INSTR(col, 'x') > 0` and its relatives: a LIKE."""
    call = node.this
    is_call = isinstance(call, exp.StrPosition) or (isinstance(call, exp.Anonymous) and call.name.lower() in _CONTAINS)
    if not is_call or not isinstance(node.expression, exp.Literal):
        return None
    return _contains(call, place, reading, negated=op in {Op.EQ, Op.LE, Op.LT} and node.expression.name == "0")


def _contains(call: exp.Expr, place: Place, reading: Reading, *, negated: bool) -> list[Filter]:
    arguments = [a for a in call.iter_expressions() if isinstance(a, exp.Expr)]
    columns = [found for a in arguments if (found := target(a, place.names)) is not None]
    texts = [v for a in arguments if isinstance(v := value_of(a, place, reading), Text)]
    if not columns or not texts:
        return []
    return [_build(columns[0], Op.NOT_LIKE if negated else Op.LIKE, Text(f"%{texts[0].raw}%"), call, place)]


def _compare(found: Target, op: Op, value: Value, moment: Moment | None, node: exp.Expr, place: Place) -> Filter:
    """Bring a comparison into canonical form: dates and parts of dates become half-open intervals."""
    if found.part and (span := _part_span(found.part, value)) is not None:
        return _bounded(found, op, span, span.end, node, place)
    if moment is not None and not found.part:
        return _bounded(found, op, moment.span, upper_end(moment, timed=_is_timed(found, node)), node, place)
    if isinstance(value, Interval):
        return _bounded(found, op, value, value.end, node, place)
    if found.part and isinstance(value, Number):
        value = Number(value.value, found.part)
    elif found.part in {"month", "day"} and isinstance(value, Text) and (number := decimal(value.raw)) is not None:
        value = Number(number, found.part)
    if isinstance(value, Boolean) and op is Op.NE:
        op, value = Op.EQ, Boolean(not value.value)
    return _build(found, op, value, node, place)


def _is_timed(found: Target, node: exp.Expr) -> bool:
    """Whether the column holds a time of day, by its name and unless it is cast to a date: `<= '2025-03-31'` then ends at midnight."""
    cast = node.find(exp.Date, exp.TsOrDsToDate, exp.Cast, exp.TryCast)
    return cast is None and _TIMED.search(found.column) is not None


_TIMED = re.compile(r"(?:_at|_ts|[a-z]At|(?i:timestamp|datetime|date_time))\Z")


def _part_span(part: str, value: Value) -> Interval | None:
    """The span that a calendar part or a format pins (`YEAR(d) = 2024`, `strftime('%Y-%m', d) = '2024-03'`)."""
    text = value.raw if isinstance(value, Text) else str(value.value) if isinstance(value, Number) else None
    if isinstance(value, Interval) and part.startswith("trunc:"):
        unit = Unit(part.removeprefix("trunc:"))
        return Interval(value.start, shift(value.start, unit, 1)) if value.start else None
    if text is None:
        return None
    found = parse_moment(text) if part == "year" or part.startswith(("format:", "prefix:", "trunc:")) else None
    if found is None:
        return None
    if part.startswith("trunc:"):
        return Interval(found.start, shift(found.start, Unit(part.removeprefix("trunc:")), 1))
    return found.span


def _bounded(found: Target, op: Op, span: Interval, upper: object, node: exp.Expr, place: Place) -> Filter:
    end = upper if not isinstance(upper, Interval) else upper.end
    bare = replace(found, part="")
    spans = {
        Op.EQ: span,
        Op.NE: span,
        Op.GE: Interval(span.start, None),
        Op.GT: Interval(span.end if end != span.start else span.start, None),
        Op.LT: Interval(None, span.start),
        Op.LE: Interval(None, end),  # type: ignore[arg-type]
    }
    return _build(bare, Op.NOT_RANGE if op is Op.NE else Op.RANGE, spans[op], node, place)


def _between(node: exp.Expr, place: Place, reading: Reading, *, negated: bool) -> list[Filter]:
    low, high = node.args["low"], node.args["high"]
    found = target(node.this, place.names)
    if found is None:
        return []
    lower = _compare(found, Op.GE, value_of(low, place, reading), literal_moment(low), node, place)
    upper = _compare(found, Op.LE, value_of(high, place, reading), literal_moment(high), node, place)
    op = Op.NOT_RANGE if negated else Op.RANGE
    if isinstance(lower.value, Interval) and isinstance(upper.value, Interval):
        return [replace(lower, op=op, value=lower.value.intersect(upper.value))]
    if isinstance(lower.value, Number) and isinstance(upper.value, Number):
        return [replace(lower, op=op, value=NumberRange(lower.value.value, upper.value.value))]
    return [] if negated else [lower, upper]


def _in(node: exp.Expr, place: Place, reading: Reading, *, negated: bool) -> list[Filter]:
    if node.args.get("query") is not None or node.args.get("unnest") is not None:
        return list(reading.subquery(node, place, negated))
    found = target(node.this, place.names)
    if found is None or isinstance(node.this, exp.Tuple):
        return []
    built = [
        _compare(found, Op.EQ, value_of(item, place, reading), literal_moment(item), node, place)
        for item in node.expressions
    ]
    members = [item.value for item in built if isinstance(item.value, Text | Number | Boolean | Interval)]
    if not built:
        return []
    if len(members) < len(built):
        first = next((item.value for item in built if isinstance(item.value, Placeholder)), built[0].value)
        value: Value = first if isinstance(first, Placeholder) else Unknown(_text(node), Unresolved.EXPRESSION)
        return [_build(found, Op.NOT_IN if negated else Op.IN, value, node, place)]
    one = _membership(replace(built[0], text=_text(node)), members, _text(node))
    return [replace(one, op=one.op.negated) if negated else one]


def _like(node: exp.Expr, place: Place, reading: Reading, *, negated: bool) -> list[Filter]:
    found = target(node.this, place.names)
    if found is None:
        return []
    if isinstance(node.expression, exp.Any | exp.All):
        patterns = node.expression.find_all(exp.Literal)
        like = [_pattern(found, Text(p.name), node, place, negated=negated) for p in patterns]
        return [united(like) or like[0]] if like else []
    value = value_of(node.expression, place, reading)
    if not isinstance(value, Text) or isinstance(node, exp.RegexpLike | exp.RegexpILike | exp.SimilarTo):
        return [_build(found, Op.NOT_LIKE if negated else Op.LIKE, value, node, place)]
    return [_pattern(found, value, node, place, negated=negated)]


def _pattern(found: Target, value: Text, node: exp.Expr, place: Place, *, negated: bool) -> Filter:
    raw = value.raw
    if "%" not in raw and "_" not in raw:
        return _build(found, Op.NE if negated else Op.EQ, value, node, place)
    dated = parse_moment(raw[:-1].rstrip("-")) if raw.endswith("%") and raw.count("%") == 1 else None
    if dated is not None:
        return _build(found, Op.NOT_RANGE if negated else Op.RANGE, dated.span, node, place)
    return _build(found, Op.NOT_LIKE if negated else Op.LIKE, value, node, place)


def _is(node: exp.Expr, place: Place, reading: Reading, *, negated: bool) -> list[Filter]:
    found = target(node.this, place.names)
    if found is None:
        return []
    if isinstance(node.expression, exp.Null):
        return [_build(found, Op.IS_NOT_NULL if negated else Op.IS_NULL, Null(), node, place)]
    value = value_of(node.expression, place, reading)
    return [_compare(found, Op.NE if negated else Op.EQ, value, literal_moment(node.expression), node, place)]


def _truth(node: exp.Expr, place: Place, reading: Reading, *, negated: bool) -> list[Filter]:
    """A bare boolean column, or a function that is one."""
    if isinstance(node, exp.Column):
        found = target(node, place.names)
        return [_build(found, Op.EQ, Boolean(not negated), node, place)] if found else []
    if isinstance(node, exp.Boolean | exp.Literal | exp.Null):
        return []
    name = node.name.lower() if isinstance(node, exp.Anonymous) else type(node).__name__.lower()
    if name in _CONTAINS or isinstance(node, exp.Contains | exp.StrPosition):
        return _contains(node, place, reading, negated=negated)
    if isinstance(node, exp.StartsWith):
        found, value = target(node.this, place.names), value_of(node.expression, place, reading)
        if found is not None and isinstance(value, Text):
            return [_pattern(found, Text(value.raw + "%"), node, place, negated=negated)]
    if _has_query(node):
        return list(reading.subquery(node, place, negated))
    found = target(node, place.names)
    return [_build(found, Op.EQ, Boolean(not negated), node, place)] if found is not None else []


# ── bounds ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def merge_bounds(filters: list[Filter]) -> list[Filter]:
    """A pair of bounds on one column is one range; a month beside its year is that month."""
    if len(filters) < 2:
        return filters
    merged: list[Filter] = []
    at: dict[tuple[tuple[str, str, str], int, Effect], int] = {}
    for item in filters:
        key = (_about(item), item.alternative, item.effect)
        place = at.get(key)
        both = _intersected(merged[place], item) if place is not None else None
        if place is None or both is None:
            at[key] = len(merged)
            merged.append(item)
        else:
            merged[place] = both
    return merged


def _intersected(left: Filter, right: Filter) -> Filter | None:
    text = f"{left.text} AND {right.text}"
    if left.op is right.op is Op.RANGE and isinstance(left.value, Interval) and isinstance(right.value, Interval):
        return replace(left, value=left.value.intersect(right.value), text=text)
    ops = {left.op: left.value, right.op: right.value}
    match ops.get(Op.GE), ops.get(Op.LE):
        case (Number(low, _), Number(high, _)) if low <= high:
            return replace(left, op=Op.RANGE, value=NumberRange(low, high), text=text)
    for span, part in ((left, right), (right, left)):
        if (
            span.op is Op.RANGE
            and part.op is Op.EQ
            and isinstance(span.value, Interval)
            and isinstance(part.value, Number)
        ):
            narrowed = _month_of(span.value, part.value)
            if narrowed is not None:
                return replace(left, op=Op.RANGE, value=narrowed, text=text)
    return None


def _month_of(span: Interval, part: Number) -> Interval | None:
    if part.unit not in {"month", "quarter"} or span.start is None or span.end != shift(span.start, Unit.YEAR, 1):
        return None
    unit = Unit(part.unit)
    start = shift(span.start, unit, int(part.value) - 1)
    return Interval(start, shift(start, unit, 1))
