"""A year, a month and a day in columns of their own are one span of time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from stef.names import tokens
from stef.spec import Filter, Op
from stef.timespan import Interval, Unit, shift
from stef.timespan import year as year_span
from stef.values import Number

# Part of a date → the span that it is a part of, and how many of it there are.
_PARTS = {Unit.MONTH: (Unit.YEAR, 12), Unit.QUARTER: (Unit.YEAR, 4), Unit.DAY: (Unit.MONTH, 31)}
# More conditions than any date has parts: nobody writes one with so many others.
_MOST_FILTERS = 60


def joined_periods(filters: Sequence[Filter]) -> tuple[Filter, ...]:
    """`order_year = 2024 AND order_month = 3` is March 2024; the rest stays as it is."""
    if len(filters) > _MOST_FILTERS:
        return tuple(filters)
    for part in filters:
        for unit, (whole, _) in _PARTS.items():
            outer = next((item for item in filters if item is not part and _start(item, whole) is not None), None)
            if outer is not None and _is_part(part, unit):
                rest = [item for item in filters if item is not outer and item is not part]
                return joined_periods((_joined(outer, part, whole, unit), *rest))
    return tuple(filters)


def _is_part(part: Filter, unit: Unit) -> bool:
    """Whether a condition takes one part of a date."""
    number = part.value
    if part.op is not Op.EQ or part.alternative or not isinstance(number, Number):
        return False
    return 1 <= number.value <= _PARTS[unit][1] and (unit.value in tokens(part.column) or number.unit == unit)


def _start(item: Filter, whole: Unit) -> datetime | None:
    """The first moment of the year or month that a condition keeps, when it keeps exactly one."""
    match item.op, item.value:
        case _ if item.alternative:
            return None
        case Op.EQ, Number(number) if whole is Unit.YEAR and "year" in tokens(item.column) and 1900 <= number <= 2100:
            return year_span(int(number)).start
        case Op.RANGE, Interval(start, end) if start is not None and end == shift(start, whole, 1):
            return start
        case _:
            return None


def _joined(outer: Filter, part: Filter, whole: Unit, unit: Unit) -> Filter:
    start, number = _start(outer, whole), part.value
    if start is None or not isinstance(number, Number):
        return outer
    first = shift(start, unit, int(number.value) - 1)
    span = Interval(first, shift(first, unit, 1))
    return replace(outer, op=Op.RANGE, value=span, text=f"{outer.text} AND {part.text}")
