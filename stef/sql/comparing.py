"""One comparison of a column with a value in canonical form; dates and their parts become half-open intervals."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import datetime

from sqlglot import exp

from stef.spec import Effect, Filter, Op
from stef.sql.moments import literal_moment, stamped, upper_end
from stef.sql.reading import Place
from stef.sql.targets import Target
from stef.timespan import Interval, Unit, floor, parse_moment, shift
from stef.values import Boolean, Null, Number, Text, Value, decimal

# Names of columns that hold a time of day, and of those that do not.
_TIMED = re.compile(r"(?:_at|_ts|[a-z]At|(?i:timestamp|datetime|date_time))\Z")
_DATED = re.compile(r"(?:_on|[a-z]On|(?i:date|_day|_dt))\Z")


def built(found: Target, op: Op, value: Value, text: str, place: Place) -> Filter:
    """A filter on what was found; a comparison with NULL has no effect."""
    null = isinstance(value, Null) and op in {Op.EQ, Op.NE}
    return Filter(
        column=found.column,
        op=op,
        value=value,
        scope=place.scope,
        effect=Effect.NULL_COMPARISON if null else place.effect,
        table=found.table,
        aggregate=found.aggregate,
        text=text,
        path=place.path,
    )


def compared(found: Target, op: Op, value: Value, operand: exp.Expr, text: str, place: Place) -> Filter:
    """Bring a comparison into canonical form.

    Args:
        found: The left side.
        op: The operator.
        value: The right side, read.
        operand: The right side.
        text: The whole comparison as written.
        place: Where it stands.
    """
    if found.part and (span := _part_span(found.part, value)) is not None:
        return _bounded(found, op, (span, span.end), text, place)
    moment = None if found.part else literal_moment(operand)
    if moment is not None:
        return _bounded(found, op, (moment.span, upper_end(moment, timed=_is_timed(found, operand))), text, place)
    if isinstance(value, Interval):
        return _bounded(found, op, (value, value.end), text, place)
    if found.part and isinstance(value, Number):
        value = Number(value.value, found.part)
    elif found.part in {"month", "day", "quarter"} and isinstance(value, Text):
        number = decimal(value.raw)
        value = value if number is None else Number(number, found.part)
    if isinstance(value, Boolean) and op is Op.NE:
        op, value = Op.EQ, Boolean(not value.value)
    return built(found, op, value, text, place)


def _is_timed(found: Target, operand: exp.Expr) -> bool:
    """Whether the column holds a time of day: a bound that is a date then means its midnight."""
    if found.dated:
        return False
    if _TIMED.search(found.column) is not None:
        return True
    kind = stamped(operand)
    return kind == "zoned" or (kind == "plain" and _DATED.search(found.column) is None)


def _part_span(part: str, value: Value) -> Interval | None:
    """The span that a calendar part or a format pins (`YEAR(d) = 2024`, `strftime('%Y-%m', d) = '2024-03'`)."""
    if isinstance(value, Interval):
        return _truncated(part, value.start)
    text = value.raw if isinstance(value, Text) else str(value.value) if isinstance(value, Number) else None
    dated = part == "year" or part.startswith(("format:", "prefix:", "trunc:"))
    found = parse_moment(text) if text is not None and dated else None
    if found is None:
        return None
    return _truncated(part, found.start) if part.startswith("trunc:") else found.span


def _truncated(part: str, start: datetime | None) -> Interval | None:
    if start is None or not part.startswith("trunc:"):
        return None
    unit = Unit(part.removeprefix("trunc:"))
    first = start if unit is Unit.WEEK else floor(start, unit)
    return Interval(first, shift(first, unit, 1))


def _bounded(found: Target, op: Op, span: tuple[Interval, datetime | None], text: str, place: Place) -> Filter:
    """A comparison with a span of time; the second member of `span` is where `<=` ends."""
    whole, end = span
    spans = {
        Op.GE: Interval(whole.start, None),
        Op.GT: Interval(whole.end if end != whole.start else whole.start, None),
        Op.LT: Interval(None, whole.start),
        Op.LE: Interval(None, end),
    }
    bare = replace(found, part="")
    return built(bare, Op.NOT_RANGE if op is Op.NE else Op.RANGE, spans.get(op, whole), text, place)
