"""Conditions on time: spans after canonical form, with what lies in the future left open."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from stef.apprules import AppRules
from stef.matching.columns import FAR, NEAR, elsewhere
from stef.matching.comparison import Comparison
from stef.names import tokens
from stef.result import Match
from stef.spec import Filter, Op
from stef.timespan import Calendar, Interval, Unit, floor, shift
from stef.values import Number, NumberRange, Placeholder, Unknown, Unresolved, Value, as_interval

_TIME_OPS = frozenset({Op.EQ, Op.RANGE, Op.IN, Op.LT, Op.LE, Op.GT, Op.GE, Op.NOT_RANGE, Op.NE})
_A_MONTH = timedelta(days=31)
_NEGATED = frozenset({Op.NOT_RANGE, Op.NE})
# Words of a question that name a time and no column.
_VAGUE = frozenset({"date", "year", "month", "day", "time", "period", "quarter", "week"})


def is_clock(value: Value) -> bool:
    """Whether a value depends on a clock that nobody has."""
    return isinstance(value, Unknown) and value.why is Unresolved.CLOCK


def is_timely(value: Value) -> bool:
    """Whether a value of a question is a time."""
    return is_clock(value) or isinstance(value, Interval)


def period(asked: Filter, found: Filter, near: float, rules: AppRules, calendar: Calendar) -> Comparison | None:
    """Compare a span of time that was asked for with what a condition keeps."""
    if is_clock(asked.value) or is_clock(found.value) or (isinstance(found.value, Placeholder) and near >= NEAR):
        return _untimed(asked, found, near)
    span = span_of(found)
    if not isinstance(asked.value, Interval) or span is None:
        return None
    if _same_span(asked.value, span, calendar):
        return _same_time(asked, found, near, rules)
    if _is_moment_within(span, asked.value):
        note = "one moment of the day that was asked for"
        sure = span.start == asked.value.start
        return replace(_same_time(asked, found, near, rules), certainty=0.9 if sure else 0.6, note=note)
    note = f"{span} instead of {asked.value}"
    if near < FAR and asked.column and not _VAGUE & set(tokens(asked.column)):
        return Comparison(Match.WRONG_VALUE, 0.3, 0.6, note)
    return Comparison(Match.WRONG_VALUE, 0.35 + near / 4, 0.9, note)


def _same_time(asked: Filter, found: Filter, near: float, rules: AppRules) -> Comparison:
    if (asked.op in _NEGATED) is not (found.op in _NEGATED):
        return Comparison(Match.WRONG_OPERATOR, 0.7 + near / 4)
    wrong = elsewhere(asked, found, rules) if near < FAR else None
    return wrong or Comparison(Match.MATCHED, 0.75 + near / 4, 1.0 if near >= 0.5 else 0.8)


def _untimed(asked: Filter, found: Filter, near: float) -> Comparison | None:
    """One side depends on a clock that nobody has: neither met nor missing."""
    timely = is_clock(found.value) or span_of(found) is not None or isinstance(found.value, Placeholder)
    if not timely or not is_timely(asked.value):
        return None
    note = "a relative date, and the record does not say when it was asked"
    return Comparison(Match.UNDETERMINED, 0.4 + near / 4, 0.5, note)


def span_of(item: Filter) -> Interval | None:
    """The span of time that a filter keeps, also of a number on a year column (`order_year >= 2020`)."""
    if isinstance(item.value, Interval):
        return item.value
    span = _years(item) or as_interval(item.value)
    if span is None or item.op not in _TIME_OPS or item.aggregate:
        return None
    if isinstance(item.value, Number) and "year" not in tokens(item.column) and item.value.unit != "year":
        return None
    return _bounded(item.op, span)


def _years(item: Filter) -> Interval | None:
    """Years from one to another on a year column (`released_year BETWEEN 1990 AND 1999`)."""
    if not isinstance(item.value, NumberRange) or "year" not in tokens(item.column):
        return None
    first, last = as_interval(Number(item.value.low)), as_interval(Number(item.value.high))
    return Interval(first.start, last.end) if first is not None and last is not None else None


def _bounded(op: Op, span: Interval) -> Interval:
    """What a comparison with the span of a literal keeps."""
    match op:
        case Op.GE:
            return Interval(span.start, None)
        case Op.GT:
            return Interval(span.end, None)
        case Op.LE:
            return Interval(None, span.end)
        case Op.LT:
            return Interval(None, span.start)
        case _:
            return span


def _same_span(asked: Interval, found: Interval, calendar: Calendar) -> bool:
    if asked == found:
        return True
    if _day(asked.start) != _day(found.start) and not _from_month_start(asked, found, calendar):
        return False
    both_open = _is_open(asked.end, calendar) and _is_open(found.end, calendar)
    return both_open or _day_end(asked.end) == _day_end(found.end)


def _from_month_start(asked: Interval, found: Interval, calendar: Calendar) -> bool:
    """Whether "the last six months" begins with a whole month: figures by month are cut there."""
    if asked.start is None or found.start is None or not _is_open(asked.end, calendar):
        return False
    first = floor(asked.start, Unit.MONTH)
    months_long = asked.end is not None and asked.end - asked.start > _A_MONTH
    return months_long and found.start in {first, shift(first, Unit.MONTH, 1)}


def _is_moment_within(found: Interval, asked: Interval) -> bool:
    """Whether a day was asked for and one moment of it is kept: the question tells the time, or days are stored so."""
    if found.start is None or found.end is None or asked.start is None or asked.end is None:
        return False
    one_day = asked.end - asked.start == timedelta(days=1)
    return one_day and found.end - found.start <= timedelta(minutes=1) and asked.start <= found.start < asked.end


def _day(moment: datetime | None) -> datetime | None:
    return None if moment is None else floor(moment, Unit.DAY)


def _day_end(moment: datetime | None) -> datetime | None:
    """An end within the last minute of a day is the end of that day."""
    if moment is None or (moment.hour, moment.minute) != (23, 59):
        return moment
    return floor(moment + timedelta(minutes=1), Unit.DAY)


def _is_open(moment: datetime | None, calendar: Calendar) -> bool:
    """Whether an end lies at the time of the question or later: nothing is logged from the future."""
    return moment is None or (calendar.today is not None and moment >= calendar.today)
