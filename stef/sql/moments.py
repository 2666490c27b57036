"""Evaluates expressions of time: clock functions, truncation, arithmetic, against the record's clock."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, time

from sqlglot import exp

from stef.timespan import Calendar, Moment, Unit, floor, parse_moment, shift


class NoClockError(Exception):
    """The expression needs the time of the question, and the record has none."""


@dataclass(frozen=True, slots=True)
class Instant:
    """A computed moment; `whole_day` when it stands for a date and not for a time of day."""

    moment: datetime
    whole_day: bool


_UNITS = {unit.value: unit for unit in Unit} | {
    "dd": Unit.DAY, "d": Unit.DAY, "dayofmonth": Unit.DAY, "ddd": Unit.DAY, "j": Unit.DAY, "days": Unit.DAY,
    "wk": Unit.WEEK, "ww": Unit.WEEK, "iw": Unit.WEEK, "weeks": Unit.WEEK, "isoweek": Unit.WEEK,
    "mm": Unit.MONTH, "mon": Unit.MONTH, "m": Unit.MONTH, "months": Unit.MONTH,
    "q": Unit.QUARTER, "qq": Unit.QUARTER, "quarters": Unit.QUARTER,
    "yy": Unit.YEAR, "yyyy": Unit.YEAR, "y": Unit.YEAR, "years": Unit.YEAR, "yr": Unit.YEAR,
    "hh": Unit.HOUR, "hours": Unit.HOUR, "hr": Unit.HOUR, "mi": Unit.MINUTE, "minutes": Unit.MINUTE,
    "ss": Unit.SECOND, "seconds": Unit.SECOND,
}  # fmt: skip
_CLOCKS: tuple[type[exp.Expr], ...] = tuple(
    getattr(exp, name)
    for name in ("CurrentTimestamp", "CurrentDatetime", "CurrentTimestampLTZ", "Localtimestamp")
    if hasattr(exp, name)
)
_ADDS: tuple[type[exp.Expr], ...] = (exp.DateAdd, exp.TsOrDsAdd, exp.TimestampAdd, exp.DatetimeAdd)
_SUBS: tuple[type[exp.Expr], ...] = (exp.DateSub, exp.TimestampSub, exp.DatetimeSub)
_TRUNCS: tuple[type[exp.Expr], ...] = (exp.DateTrunc, exp.TimestampTrunc, exp.DatetimeTrunc)
_PASS: tuple[type[exp.Expr], ...] = (
    exp.Paren,
    exp.TsOrDsToTimestamp,
    exp.TsOrDsToDatetime,
    exp.StrToTime,
    exp.StrToDate,
)
_CLOCK_NAMES = frozenset(
    {"now", "getdate", "sysdate", "systimestamp", "getutcdate", "sysdatetime", "current_timestamp", "localtime"}
)
_TODAY_NAMES = frozenset({"today", "curdate", "current_date"})
_MODIFIER = re.compile(r"(?P<count>[+-]?\s*\d+)\s*(?P<unit>[a-z]+?)s?", re.IGNORECASE)
# A day that ends a second or less before midnight is meant to be whole.
_END_OF_DAY = time(23, 59)


def unit_of(node: object) -> Unit | None:
    """Read a calendar unit from a node (`MONTH`, `'month'`, `WEEK(MONDAY)`), or None."""
    if isinstance(node, exp.Expr):
        name = node.name or (node.this.name if isinstance(node.this, exp.Expr) else str(node.this))
    else:
        name = str(node or "")
    return _UNITS.get(name.lower())


def literal_moment(node: exp.Expr) -> Moment | None:
    """A date literal, whether bare, cast, or in a conversion function; a bare year is none."""
    while isinstance(node, (exp.Cast, exp.TryCast, exp.Date, exp.TsOrDsToDate, exp.Timestamp, *_PASS)) and isinstance(
        node.this, exp.Expr
    ):
        node = node.this
    if not isinstance(node, exp.Literal) or not node.is_string:
        return None
    found = parse_moment(node.this)
    return None if found is None or found.precision is Unit.YEAR else found


def evaluate(node: exp.Expr, calendar: Calendar) -> Instant | int | None:
    """Evaluate an expression of time.

    Returns:
        A moment, a whole number (a year that was taken out of one), or None when it is no expression of time.

    Raises:
        NoClockError: It depends on the clock, and the calendar has none.
    """
    handler = _HANDLERS.get(type(node))
    return handler(node, calendar) if handler is not None else None


def _now(calendar: Calendar, *, whole_day: bool) -> Instant:
    if calendar.now is None:
        raise NoClockError
    return Instant(floor(calendar.now, Unit.DAY) if whole_day else calendar.now, whole_day)


def _clock(_: exp.Expr, calendar: Calendar) -> Instant:
    return _now(calendar, whole_day=False)


def _today(_: exp.Expr, calendar: Calendar) -> Instant:
    return _now(calendar, whole_day=True)


def _inner(node: exp.Expr, calendar: Calendar) -> Instant | int | None:
    return evaluate(node.this, calendar) if isinstance(node.this, exp.Expr) else None


def _cast(node: exp.Expr, calendar: Calendar) -> Instant | int | None:
    found = _inner(node, calendar)
    to = node.args.get("to")
    if isinstance(found, Instant) and (
        isinstance(node, exp.TsOrDsToDate) or (to is not None and to.this == exp.DataType.Type.DATE)
    ):
        return Instant(floor(found.moment, Unit.DAY), whole_day=True)
    return found


def _literal(node: exp.Expr, _: Calendar) -> Instant | int | None:
    if not node.is_string:
        return int(node.name) if node.name.isdigit() else None
    found = literal_moment(node)
    return None if found is None else Instant(found.start, found.precision not in {Unit.HOUR, Unit.MINUTE, Unit.SECOND})


def _moved(start: object, unit: Unit | None, count: int | None) -> Instant | None:
    if not isinstance(start, Instant) or unit is None or count is None:
        return None
    moved = shift(start.moment, unit, count)
    return Instant(moved, start.whole_day and unit not in {Unit.HOUR, Unit.MINUTE, Unit.SECOND})


def _number(node: object) -> int | None:
    if isinstance(node, exp.Neg):
        inner = _number(node.this)
        return None if inner is None else -inner
    if isinstance(node, exp.Paren):
        return _number(node.this)
    if isinstance(node, exp.Literal):
        try:
            return int(node.name)
        except ValueError:
            return None
    return None


def _step(node: object) -> tuple[Unit | None, int | None]:
    """An interval: unit and count; a bare number is days."""
    if isinstance(node, exp.Interval):
        unit, count = unit_of(node.args.get("unit")), _number(node.this)
        if count is None and isinstance(node.this, exp.Literal):
            found = _MODIFIER.fullmatch(node.this.name.strip())
            if found:
                return _UNITS.get(found["unit"].lower()), int(found["count"].replace(" ", ""))
        return unit, count
    return Unit.DAY, _number(node)


def _add(node: exp.Expr, calendar: Calendar) -> Instant | int | None:
    sign = -1 if isinstance(node, (exp.Sub, *_SUBS)) else 1
    start = _inner(node, calendar)
    other = node.args.get("expression")
    if isinstance(node, exp.Add | exp.Sub):
        if isinstance(start, int):
            number = _number(other)
            return None if number is None else start + sign * number
        unit, count = _step(other)
    elif isinstance(other, exp.Interval):
        unit, count = _step(other)
    else:
        unit, count = unit_of(node.args.get("unit")) or Unit.DAY, _number(other)
    return _moved(start, unit, None if count is None else sign * count)


def _add_months(node: exp.Expr, calendar: Calendar) -> Instant | None:
    return _moved(_inner(node, calendar), Unit.MONTH, _number(node.args.get("expression")))


def _trunc(node: exp.Expr, calendar: Calendar) -> Instant | None:
    start, unit = _inner(node, calendar), unit_of(node.args.get("unit"))
    if not isinstance(start, Instant) or unit is None:
        return None
    return Instant(floor(start.moment, unit, week_start=calendar.week_start), whole_day=True)


def _last_day(node: exp.Expr, calendar: Calendar) -> Instant | None:
    start = _inner(node, calendar)
    if not isinstance(start, Instant):
        return None
    return Instant(shift(shift(floor(start.moment, Unit.MONTH), Unit.MONTH, 1), Unit.DAY, -1), whole_day=True)


def _year(node: exp.Expr, calendar: Calendar) -> int | None:
    part = node.args.get("this") if isinstance(node, exp.Extract) else None
    inner = node.args.get("expression") if isinstance(node, exp.Extract) else node.this
    found = evaluate(inner, calendar) if isinstance(inner, exp.Expr) else None
    if not isinstance(found, Instant):
        return None
    name = str(part.name).lower() if isinstance(part, exp.Expr) else type(node).__name__.lower()
    return {"year": found.moment.year, "month": found.moment.month, "day": found.moment.day}.get(name)


def _function(node: exp.Expr, calendar: Calendar) -> Instant | int | None:
    """Functions that the parser does not know by type: `today()`, SQLite's `date('now', '-1 month')`."""
    name = (node.name if isinstance(node, exp.Anonymous) else type(node).__name__).lower()
    arguments = node.expressions if isinstance(node, exp.Anonymous) else list(node.iter_expressions())
    if name in _CLOCK_NAMES and not arguments:
        return _now(calendar, whole_day=False)
    if name in _TODAY_NAMES:
        return _now(calendar, whole_day=True)
    if name in {"date", "datetime", "timestamp"} and arguments:
        return _modified(arguments, calendar, whole_day=name == "date")
    if name in {"yesterday"}:
        return _moved(_now(calendar, whole_day=True), Unit.DAY, -1)
    return None


def _modified(arguments: list[exp.Expr], calendar: Calendar, *, whole_day: bool) -> Instant | int | None:
    first, *modifiers = arguments
    start = _now(calendar, whole_day=whole_day) if first.name.lower() == "now" else evaluate(first, calendar)
    for modifier in modifiers:
        if not isinstance(start, Instant):
            return None
        text = modifier.name.lower().strip()
        if text.startswith("start of "):
            unit = _UNITS.get(text.removeprefix("start of ").strip())
            start = None if unit is None else Instant(floor(start.moment, unit), whole_day=True)
        elif (found := _MODIFIER.fullmatch(text)) is not None:
            start = _moved(start, _UNITS.get(found["unit"].lower()), int(found["count"].replace(" ", "")))
        elif text not in {"localtime", "utc"}:
            return None
    if isinstance(start, Instant) and whole_day:
        return Instant(floor(start.moment, Unit.DAY), whole_day=True)
    return start


_Handler = Callable[[exp.Expr, Calendar], Instant | int | None]
_HANDLERS: dict[type[exp.Expr], _Handler] = {
    exp.CurrentDate: _today,
    exp.Literal: _literal,
    exp.Cast: _cast,
    exp.TryCast: _cast,
    exp.TsOrDsToDate: _cast,
    exp.Date: _function,
    exp.Datetime: _function,
    exp.Timestamp: _function,
    exp.Anonymous: _function,
    exp.Add: _add,
    exp.Sub: _add,
    exp.AddMonths: _add_months,
    exp.LastDay: _last_day,
    exp.Year: _year,
    exp.Month: _year,
    exp.Extract: _year,
    **dict.fromkeys(_CLOCKS, _clock),
    **dict.fromkeys(_ADDS + _SUBS, _add),
    **dict.fromkeys(_TRUNCS, _trunc),
    **dict.fromkeys(_PASS, _inner),
}


def upper_end(found: Moment, *, timed: bool = False) -> datetime:
    """Where `<= literal` ends, half-open: a date takes its whole day, midnight only itself, 23:59 the rest of the day.

    Args:
        found: The literal.
        timed: The column holds a time of day; a date then stands for its midnight.
    """
    if timed and found.precision is Unit.DAY:
        return found.start
    if found.precision not in {Unit.HOUR, Unit.MINUTE, Unit.SECOND}:
        end = found.span.end
        return end if end is not None else found.start
    if found.start.time() >= _END_OF_DAY:
        return shift(floor(found.start, Unit.DAY), Unit.DAY, 1)
    return found.start
