"""Conditions on an age: `DATEDIFF(day, due_on, GETDATE()) > 30`, `julianday('now') - julianday(d) <= 7`.

A difference between a column and the clock is a range of that column.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal

from sqlglot import exp

from stef.spec import Filter, Op
from stef.sql.comparing import built
from stef.sql.moments import Instant, NoClockError, evaluate, step_of, unit_of
from stef.sql.operands import value_of
from stef.sql.reading import Place, Reading
from stef.sql.rendering import shown
from stef.sql.targets import Target, target
from stef.timespan import Interval, Unit, floor, shift
from stef.values import Number, Unknown, Unresolved

_DIFFERENCES = (exp.DateDiff, exp.TimestampDiff, exp.DatetimeDiff)
_WRAPPERS = (exp.Paren, exp.Cast, exp.TryCast, exp.Floor, exp.Ceil, exp.Round, exp.Abs)
_DAY_FUNCTIONS = frozenset({"julianday", "to_days", "todays"})
_YEAR_DAYS = (Decimal(365), Decimal("365.25"), Decimal("365.2425"))
_FLIPPED = {Op.LT: Op.GT, Op.LE: Op.GE, Op.GT: Op.LT, Op.GE: Op.LE, Op.EQ: Op.EQ, Op.NE: Op.NE}
_SHORT = frozenset({Unit.HOUR, Unit.MINUTE, Unit.SECOND})


@dataclass(frozen=True, slots=True, kw_only=True)
class Age:
    """A difference between two moments.

    Attributes:
        later: What is subtracted from.
        earlier: What is subtracted.
        unit: Of the difference.
        borders: It counts borders of the unit (T-SQL, BigQuery), not whole units that have passed.
        fraction: It may be a fraction of the unit.
    """

    later: exp.Expr
    earlier: exp.Expr
    unit: Unit
    borders: bool = False
    fraction: bool = False


def aged(node: exp.Expr, op: Op, sides: tuple[exp.Expr, exp.Expr], place: Place, reading: Reading) -> Filter | None:
    """Read `age op number` as a range of the date; None when it is no such comparison.

    Args:
        node: The whole comparison.
        op: Its operator, negation applied.
        sides: The difference and the number that it is compared with.
        place: Where it stands.
        reading: For the clock.
    """
    age, count = _age(sides[0]), None
    unit, steps = step_of(sides[1]) if isinstance(sides[1], exp.Interval | exp.Cast) else (None, None)
    if unit is not None and steps is not None:
        age = replace(age, unit=unit, fraction=True) if age is not None else None
        count = steps
    elif age is not None and isinstance(value := value_of(sides[1], place, reading), Number):
        count = int(value.value) if value.value == value.value.to_integral_value() else None
    if age is None or count is None or abs(count) > 100_000:
        return None
    for date, clock, past in ((age.earlier, age.later, True), (age.later, age.earlier, False)):
        found = _date(date, place)
        if found is not None:
            return _ranged(found, clock, _Compared(age, op, count, past), node, place, reading)
    return None


@dataclass(frozen=True, slots=True)
class _Compared:
    age: Age
    op: Op
    count: int
    past: bool


def _date(node: exp.Expr, place: Place) -> Target | None:
    if node.find(exp.Query):
        return None
    found = target(node, place.names)
    return found if found is not None and found.column and not found.aggregate and found.window is None else None


def _ranged(
    found: Target, clock: exp.Expr, asked: _Compared, node: exp.Expr, place: Place, reading: Reading
) -> Filter | None:
    bare = replace(found, part="", expression=False)
    try:
        now = evaluate(clock, reading.calendar)
    except NoClockError:
        op = _FLIPPED[asked.op] if asked.past else asked.op
        return built(bare, op, Unknown(shown(node), Unresolved.CLOCK), shown(node), place)
    if not isinstance(now, Instant):
        return None
    op = Op.NOT_RANGE if asked.op is Op.NE else Op.RANGE
    return built(bare, op, _span(asked, now, reading.calendar.week_start), shown(node), place)


def _span(asked: _Compared, now: Instant, week_start: int) -> Interval:
    """The moments for which the comparison holds."""
    reached, passed = (_edge(asked, now, week_start, extra=extra) for extra in (0, 1))
    if not asked.past:
        spans = {
            Op.GE: Interval(reached, None),
            Op.GT: Interval(passed, None),
            Op.LT: Interval(None, reached),
            Op.LE: Interval(None, passed),
        }
        return spans.get(asked.op, Interval(reached, passed))
    spans = {
        Op.GE: Interval(None, reached),
        Op.GT: Interval(None, passed),
        Op.LT: Interval(reached, None),
        Op.LE: Interval(passed, None),
    }
    return spans.get(asked.op, Interval(passed, reached))


def _edge(asked: _Compared, now: Instant, week_start: int, *, extra: int) -> datetime:
    """Where an age of `count + extra` units begins.

    For the past it is the first moment that is too young, for the future the first that is far enough.
    """
    age, count = asked.age, asked.count
    if age.unit in _SHORT and not age.borders:
        return shift(now.moment, age.unit, -count if asked.past else count)
    if age.borders or age.unit is Unit.DAY:
        start = floor(now.moment, age.unit, week_start=week_start)
        return shift(start, age.unit, 1 - count - extra if asked.past else count + extra)
    today = floor(now.moment, Unit.DAY)
    if age.fraction:
        return shift(shift(today, age.unit, -count if asked.past else count), Unit.DAY, (extra == 0) == asked.past)
    if asked.past:
        return shift(shift(today, age.unit, -count - extra), Unit.DAY, 1)
    return shift(today, age.unit, count + extra)


def _age(node: exp.Expr) -> Age | None:
    """Read a difference of two moments, however a dialect writes it."""
    while isinstance(node, _WRAPPERS) and isinstance(node.this, exp.Expr):
        node = node.this
    if isinstance(node, _DIFFERENCES):
        unit = unit_of(node.args.get("unit")) or Unit.DAY
        borders = bool(node.args.get("date_part_boundary")) or "big_int" in node.args
        return Age(later=node.this, earlier=node.expression, unit=unit, borders=borders)
    if isinstance(node, exp.MonthsBetween):
        return Age(later=node.this, earlier=node.expression, unit=Unit.MONTH, fraction=True)
    if isinstance(node, exp.Extract):
        return _extracted(node)
    if isinstance(node, exp.Anonymous) and node.name.lower() == "age" and node.expressions:
        return _postgres_age(node)
    if isinstance(node, exp.Div):
        return _in_years(node)
    return _subtracted(node) if isinstance(node, exp.Sub) else None


def _postgres_age(node: exp.Anonymous) -> Age:
    first, *rest = node.expressions
    return Age(
        later=first if rest else exp.CurrentDate(), earlier=rest[0] if rest else first, unit=Unit.DAY, fraction=True
    )


def _extracted(node: exp.Extract) -> Age | None:
    """`EXTRACT(YEAR FROM AGE(born))`: whole units."""
    inner, unit = _age(node.expression), unit_of(node.this)
    if inner is None or unit is None or unit not in {Unit.YEAR, Unit.DAY}:
        return None
    return replace(inner, unit=unit, fraction=False)


def _in_years(node: exp.Div) -> Age | None:
    """Days divided by 365.25 are years."""
    inner, by = _age(node.this), node.expression
    if inner is None or inner.unit is not Unit.DAY or not isinstance(by, exp.Literal) or by.is_string:
        return None
    return replace(inner, unit=Unit.YEAR, borders=False, fraction=True) if Decimal(by.name) in _YEAR_DAYS else None


def _subtracted(node: exp.Sub) -> Age | None:
    later, earlier = node.this, node.expression
    years = tuple(inner for side in (later, earlier) if (inner := _year_of(side)) is not None)
    if len(years) == 2:
        return Age(later=years[0], earlier=years[1], unit=Unit.YEAR, borders=True)
    if isinstance(earlier, exp.Interval | exp.Literal) or isinstance(later, exp.Literal):
        return None
    return Age(later=_counted_days(later), earlier=_counted_days(earlier), unit=Unit.DAY)


def _counted_days(node: exp.Expr) -> exp.Expr:
    if isinstance(node, exp.Anonymous) and node.name.lower() in _DAY_FUNCTIONS and node.expressions:
        inner = node.expressions[0]
        now = isinstance(inner, exp.Literal) and inner.name.lower() == "now"
        return exp.CurrentDate() if now else inner
    return node


def _year_of(node: exp.Expr) -> exp.Expr | None:
    """What `YEAR(x)`, `EXTRACT(YEAR FROM x)` or `strftime('%Y', x)` takes the year of."""
    while isinstance(node, exp.Paren | exp.Cast | exp.TryCast):
        node = node.this
    if isinstance(node, exp.Year):
        inner = node.this
    elif isinstance(node, exp.Extract) and unit_of(node.this) is Unit.YEAR:
        inner = node.expression
    elif isinstance(node, exp.TimeToStr) and node.args["format"].name == "%Y":
        inner = node.this
    else:
        return None
    while isinstance(inner, exp.TsOrDsToTimestamp | exp.TsOrDsToDate) and isinstance(inner.this, exp.Expr):
        inner = inner.this
    now = isinstance(inner, exp.Literal) and inner.name.lower() == "now"
    return exp.CurrentDate() if now else inner
