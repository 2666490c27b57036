"""Evaluates expressions of time: clock functions, truncation, arithmetic, against the record's clock."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, time

from sqlglot import exp

from stef.sql.nodes import kinds
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
    exp.Paren, exp.TsOrDsToTimestamp, exp.TsOrDsToDatetime, exp.StrToTime, exp.StrToDate, exp.TimeStrToTime,
    exp.DateStrToDate, exp.FromISO8601Date, exp.FromISO8601Timestamp,
)  # fmt: skip
_LITERAL_WRAPPERS = kinds(
    exp.Cast,
    exp.TryCast,
    exp.Date,
    exp.TsOrDsToDate,
    exp.Timestamp,
    exp.Datetime,
    *_PASS,
)
_NAMED_WRAPPERS = frozenset({"todate", "todatetime", "parsedatetimebesteffort", "from_iso8601_date"})
_ZONED = frozenset({exp.DataType.Type.TIMESTAMPTZ, exp.DataType.Type.TIMESTAMPLTZ})
_STAMPED = frozenset({exp.DataType.Type.TIMESTAMP, exp.DataType.Type.DATETIME, exp.DataType.Type.TIMESTAMPNTZ})
# Day 0 of T-SQL's calendar: `DATEADD(month, DATEDIFF(month, 0, GETDATE()), 0)` is the start of the month.
_DAY_ZERO = datetime(1900, 1, 1)  # noqa: DTZ001 - naive by contract
_CLOCK_NAMES = frozenset(
    {"now", "getdate", "sysdate", "systimestamp", "getutcdate", "sysdatetime", "current_timestamp", "localtime"}
)
_TODAY_NAMES = frozenset({"today", "curdate", "current_date"})
_MODIFIER = re.compile(r"(?P<count>[+-]?\s*\d+)\s*(?P<unit>[a-z]+?)s?", re.IGNORECASE)
# ClickHouse: `subtractDays(now(), 3)`.
_MOVES = re.compile(r"(?P<sign>add|subtract)(?P<unit>seconds|minutes|hours|days|weeks|months|quarters|years)")
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
    written = None
    while True:
        if type(node) in _LITERAL_WRAPPERS and isinstance(node.this, exp.Expr):
            written = node.args.get("format") or written
            node = node.this
        elif isinstance(node, exp.Anonymous) and node.name.lower() in _NAMED_WRAPPERS and node.expressions:
            node = node.expressions[0]
        else:
            break
    if not isinstance(node, exp.Literal) or not node.is_string:
        return None
    found = _by_format(node.name, written) or parse_moment(node.name)
    return None if found is None or found.precision is Unit.YEAR else found


def _by_format(text: str, written: object) -> Moment | None:
    """A literal with the format that its conversion names (`TO_DATE('31.12.2024', 'DD.MM.YYYY')`)."""
    form = written.name if isinstance(written, exp.Literal) else ""
    if "%d" not in form:
        return None
    try:
        moment = datetime.strptime(text, form)  # noqa: DTZ007 - naive by contract
    except (ValueError, re.error):  # a format that names one part twice is the latter
        return None
    return Moment(moment, Unit.SECOND if "%H" in form or "%I" in form else Unit.DAY)


def stamped(node: exp.Expr) -> str:
    """Whether a literal is typed as a moment: `zoned` (BigQuery's TIMESTAMP), `plain`, else ""."""
    if isinstance(node, exp.Timestamp):
        return "zoned"
    if isinstance(node, exp.Datetime | exp.TsOrDsToTimestamp):
        return "plain"
    kind = node.args["to"].this if isinstance(node, exp.Cast | exp.TryCast) else None
    return "zoned" if kind in _ZONED else "plain" if kind in _STAMPED else ""


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
        return _number(node)
    found = literal_moment(node)
    return None if found is None else Instant(found.start, found.precision not in {Unit.HOUR, Unit.MINUTE, Unit.SECOND})


def _moved(start: object, unit: Unit | None, count: int | None) -> Instant | None:
    if not isinstance(start, Instant) or unit is None or count is None:
        return None
    moved = shift(start.moment, unit, count)
    return Instant(moved, start.whole_day and unit not in {Unit.HOUR, Unit.MINUTE, Unit.SECOND})


def _number(node: object) -> int | None:
    match node:
        case exp.Neg():
            inner = _number(node.this)
            return None if inner is None else -inner
        case exp.Paren():
            return _number(node.this)
        case exp.Mul():
            left, right = _number(node.this), _number(node.expression)
            return None if left is None or right is None else left * right
        case exp.Literal() if len(node.name) <= 9:
            try:
                return int(node.name)
            except ValueError:
                return None
        case _:
            return None


def step_of(node: object) -> tuple[Unit | None, int | None]:
    """An interval: unit and count; a bare number is days."""
    if isinstance(node, exp.Interval):
        unit, count = unit_of(node.args.get("unit")), _number(node.this)
        return (unit, count) if count is not None else _worded(node.this)
    if isinstance(node, exp.Cast):
        return _worded(node.this) if node.args["to"].this == exp.DataType.Type.INTERVAL else (None, None)
    return Unit.DAY, _number(node)


def _worded(node: object) -> tuple[Unit | None, int | None]:
    """The words of an interval: `'30 days'`."""
    found = _MODIFIER.fullmatch(node.name.strip()) if isinstance(node, exp.Literal) else None
    if found is None or len(found["count"]) > 9:
        return None, None
    return _UNITS.get(found["unit"].lower()), int(found["count"].replace(" ", ""))


def _add(node: exp.Expr, calendar: Calendar) -> Instant | int | None:
    sign = -1 if isinstance(node, (exp.Sub, *_SUBS)) else 1
    start = _inner(node, calendar)
    other = node.args.get("expression")
    if isinstance(node, exp.Add | exp.Sub):
        if isinstance(start, int):
            number = _number(other)
            return None if number is None else start + sign * number
        unit, count = step_of(other)
    elif isinstance(other, exp.Interval):
        unit, count = step_of(other)
    else:
        unit, count = unit_of(node.args.get("unit")) or Unit.DAY, _count(other, calendar)
        start = Instant(_DAY_ZERO, whole_day=True) if start == 0 else start
    return _moved(start, unit, None if count is None else sign * count)


def _count(node: object, calendar: Calendar) -> int | None:
    """A number of units, also a computed one (`DATEDIFF(month, 0, GETDATE()) - 1`)."""
    number = _number(node)
    if number is not None or not isinstance(node, exp.Expr):
        return number
    found = evaluate(node, calendar)
    return found if isinstance(found, int) else None


def _difference(node: exp.Expr, calendar: Calendar) -> int | None:
    """Borders of a unit between two moments; None for units that need more than counting months or days."""
    unit = unit_of(node.args.get("unit")) or Unit.DAY
    later, earlier = evaluate(node.this, calendar), evaluate(node.expression, calendar)
    if not isinstance(later, Instant) or not isinstance(earlier, Instant):
        return None
    months = (later.moment.year - earlier.moment.year) * 12 + later.moment.month - earlier.moment.month
    match unit:
        case Unit.YEAR:
            return later.moment.year - earlier.moment.year
        case Unit.QUARTER:
            return (months + (earlier.moment.month - 1) % 3) // 3
        case Unit.MONTH:
            return months
        case Unit.WEEK:
            week = (floor(moment.moment, Unit.WEEK, week_start=6) for moment in (later, earlier))
            return (next(week) - next(week)).days // 7
        case Unit.DAY:
            return (later.moment.date() - earlier.moment.date()).days
        case _:
            return None


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
    if name in _NAMED_WRAPPERS and arguments:
        return evaluate(arguments[0], calendar)
    if name in {"date", "datetime", "timestamp"} and arguments:
        return _modified(arguments, calendar, whole_day=name == "date")
    if name == "yesterday":
        return _moved(_now(calendar, whole_day=True), Unit.DAY, -1)
    if name in {"make_date", "makedate", "datefromparts"}:
        return _from_parts(arguments)
    if (found := _MOVES.fullmatch(name)) is not None and len(arguments) == 2:
        count = _number(arguments[1])
        sign = -1 if found["sign"] == "subtract" else 1
        return _moved(evaluate(arguments[0], calendar), _UNITS.get(found["unit"]), count and sign * count)
    return None


def _from_parts(arguments: list[exp.Expr]) -> Instant | None:
    parts = [number for argument in arguments if (number := _number(argument)) is not None]
    try:
        year, month, day = parts
        return Instant(datetime(year, month, day), whole_day=True)  # noqa: DTZ001 - naive by contract
    except (ValueError, OverflowError):
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
        elif (found := _MODIFIER.fullmatch(text)) is not None and len(found["count"]) < 10:
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
    exp.DateDiff: _difference,
    exp.DateFromParts: _function,
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
