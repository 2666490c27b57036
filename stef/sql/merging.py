"""Several conditions on one column as one: IN from an OR chain, a range from two bounds, a month beside its year."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime
from itertools import pairwise

from stef.spec import Effect, Filter, Op
from stef.timespan import Interval, Unit, shift
from stef.values import Boolean, Many, Number, NumberRange, Text, fold


def about(item: Filter) -> tuple[str, str, str]:
    """What a filter speaks of: table, column, aggregate."""
    return (fold(item.table), fold(item.column), item.aggregate)


def united(items: list[Filter]) -> Filter | None:
    """`a = 1 OR a = 2 OR a IN (3)` as one IN."""
    if not items or len({about(item) for item in items}) > 1:
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
    return membership(items[0], members, " OR ".join(item.text for item in items[:3]))


def membership(first: Filter, members: Iterable[Text | Number | Boolean | Interval], text: str) -> Filter:
    """A list of values as one filter: a single one is an equality, neighbouring spans are one range."""
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
    ordered = sorted(spans, key=lambda span: span.start or datetime.min)  # noqa: DTZ901 - naive by contract
    for left, right in pairwise(ordered):
        if left.end != right.start:
            return None
    return Interval(ordered[0].start, ordered[-1].end)


def outside(items: list[Filter]) -> Filter | None:
    """`a < 1 OR a > 9`: outside of a range."""
    if len(items) != 2 or about(items[0]) != about(items[1]):
        return None
    low, high = sorted(items, key=lambda item: item.op in {Op.GT, Op.GE})
    if low.op is Op.LT and high.op is Op.GT and isinstance(low.value, Number) and isinstance(high.value, Number):
        return replace(low, op=Op.NOT_RANGE, value=NumberRange(low.value.value, high.value.value))
    if low.op is high.op is Op.RANGE and isinstance(low.value, Interval) and isinstance(high.value, Interval):
        first, second = sorted((low.value, high.value), key=lambda span: span.start is not None)
        if first.start is None and second.end is None and first.end and second.start:
            return replace(low, op=Op.NOT_RANGE, value=Interval(first.end, second.start))
    return None


def merge_bounds(filters: list[Filter]) -> list[Filter]:
    """A pair of bounds on one column is one range; a month beside its year is that month."""
    if len(filters) < 2:
        return filters
    merged: list[Filter] = []
    at: dict[tuple[tuple[str, str, str], int, Effect], int] = {}
    for item in filters:
        key = (about(item), item.alternative, item.effect)
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
