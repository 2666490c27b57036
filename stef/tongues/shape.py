"""The shape of the answer: aggregates, grouping, order, number of rows, columns."""

from __future__ import annotations

import re

from stef.phrasebook import Mask, Section
from stef.spec import Aggregation, Direction, GroupKey, Limit, OrderKey, Projection
from stef.tongues.amounts import amount_of
from stef.tongues.sheet import Item, Sheet
from stef.values import Number

_THINGS = frozenset({Mask.COLUMN, Mask.WORD, Mask.CLASS, Mask.NAME})
_MOST = 6


def limits(sheet: Sheet) -> tuple[Limit | None, list[OrderKey]]:
    """The first cap on rows, and the order that it goes by."""
    for payload, match in sheet.find(Section.LIMIT):
        amount = amount_of(sheet, match, "n")
        if amount is None or not isinstance(amount.value, Number) or amount.value.unit:
            continue
        if amount.value.value != amount.value.value.to_integral_value():
            continue
        text, span = sheet.source(*match.span()), sheet.span(*match.span())
        limit = Limit(count=int(amount.value.value), certainty=0.85, text=text, span=span)
        direction = payload.partition(" ")[0]
        by = payload.partition(" ")[2] or (_measured(sheet, match) if direction else "")
        by = by or (_near_measure(sheet, *match.span()) if direction else "")
        order = [_order(sheet, match.span(), by, direction, 0.7)] if direction else []
        sheet.use(match.start(), match.end("n"))
        return limit, order
    return None, []


def _measured(sheet: Sheet, match: re.Match[str]) -> str:
    """What the first rows are ranked by."""
    for payload, by in sheet.find(Section.RANK):
        if by.start() >= match.end("n") or by.end() <= match.start():
            name = payload or _name(sheet.named(by, "w"))
            sheet.use(*by.span())
            return name
    return ""


def _order(sheet: Sheet, span: tuple[int, int], by: str, direction: str, certainty: float) -> OrderKey:
    return OrderKey(
        by=by,
        direction=Direction(direction),
        columns=(by,) if by not in {"", "count"} else (),
        aggregate="count" if by == "count" else "",
        certainty=certainty,
        text=sheet.source(*span),
        span=sheet.span(*span),
    )


def ordering(sheet: Sheet) -> list[OrderKey]:
    """What is asked to be sorted, else what a superlative ranks by."""
    found = []
    for payload, match in sheet.find(Section.ORDER):
        direction, _, by = payload.partition(" ")
        if not by and match.groupdict().get("w"):
            by = _name(sheet.named(match, "w"))
        found.append(_order(sheet, match.span(), by, direction, 0.8))
        sheet.use(*match.span())
    if found:
        return found[:_MOST]
    for payload, match in sheet.find(Section.SUPERLATIVE):
        direction, _, by = payload.partition(" ")
        by = by or _near_measure(sheet, *match.span())
        return [_order(sheet, match.span(), by, direction, 0.6)]
    return []


def _near_measure(sheet: Sheet, start: int, end: int) -> str:
    """The measure right before or behind a place, or ""."""
    near = (sheet.before(start, over=sheet.book.loose), sheet.behind(end, over=sheet.book.loose))
    return next((_name(item) for item in near if item is not None and sheet.is_measure(item)), "")


def aggregates(sheet: Sheet) -> list[Aggregation]:
    """All aggregates, left to right."""
    found: list[Aggregation] = []
    for payload, match in sheet.find(Section.AGGREGATE):
        function, _, more = payload.partition(" ")
        slot = match.groupdict().get("w")
        thing = sheet.named(match, "w") if slot else sheet.behind(match.end(), over=sheet.book.loose)
        if thing is not None and thing.mask is Mask.STATE:
            thing = sheet.behind(thing.end)
        before = None if slot or function == "count" else sheet.before(match.start())
        if before is not None and sheet.is_measure(before):
            thing = before
        if more == "loose" and thing is not None and not sheet.is_measure(thing):
            thing = None
        of = _name(thing) if thing is not None and thing.mask in _THINGS else ""
        if any(item.function == function and item.of == of for item in found):
            continue
        certainty = 0.85 if more != "loose" else 0.5
        found.append(
            Aggregation(
                function=function,
                of=of,
                distinct=more == "distinct",
                certainty=certainty,
                text=sheet.source(*match.span()),
                span=sheet.span(*match.span()),
            )
        )
    return found


def implied(sheet: Sheet) -> list[Aggregation]:
    """The sum that goes without saying: "revenue per month"."""
    for item in sheet.parts(0, len(sheet.line)):
        if isinstance(item, Item) and item.mask in _THINGS and sheet.is_measure(item):
            span = sheet.span(item.start, item.end)
            return [Aggregation(function="sum", of=_name(item), certainty=0.55, text=item.text, span=span)]
    return []


def grouping(sheet: Sheet) -> list[GroupKey]:
    """What figures are split by: "je Monat", "por región y mes", 按部门."""
    found: list[GroupKey] = []
    for payload, match in sheet.find(Section.GROUP):
        period = match.groupdict().get("p")
        start, end = match.span("p") if period else match.span("w")
        if start < 0:
            continue
        found.append(_key(sheet, start, end, sheet.book.periods[period] if period else "", float(payload or 0.75)))
        if not period:
            found += _further(sheet, end)
        sheet.use(*match.span())
    for payload, match in sheet.find(Section.PERIODIC):
        found.append(_key(sheet, *match.span(), payload, 0.6, named=False))
        sheet.use(*match.span())
    return found[:_MOST]


def _further(sheet: Sheet, end: int) -> list[GroupKey]:
    """The keys that a list joins to the one before."""
    found: list[GroupKey] = []
    joined = sheet.book.joins | {",", "、", "，"}
    while True:
        parts = sheet.parts(end, len(sheet.line), most=2)
        if len(parts) < 2 or parts[0] not in joined:
            return found
        thing = parts[1]
        if isinstance(thing, Item) and thing.mask in _THINGS:
            found.append(_key(sheet, thing.start, thing.end, "", 0.7))
            end = thing.end
        elif isinstance(thing, str) and thing in sheet.book.periods:
            start = sheet.line.index(thing, end)
            found.append(_key(sheet, start, start + len(thing), sheet.book.periods[thing], 0.7))
            end = start + len(thing)
        else:
            return found


def _key(sheet: Sheet, start: int, end: int, unit: str, certainty: float, *, named: bool = True) -> GroupKey:
    item = sheet.items.get(start)
    column = _name(item) if item is not None else sheet.source(start, end).lower()
    return GroupKey(
        column=column if named else "",
        unit=unit,
        certainty=certainty,
        text=sheet.source(start, end),
        span=sheet.span(start, end),
    )


def _name(item: Item) -> str:
    return (item.column or item.text).lower()


def projections(sheet: Sheet) -> list[Projection]:
    """The columns asked for, as far as a question word stands with them."""
    found = []
    for _, match in sheet.find(Section.ASK):
        item: Item | None = sheet.named(match, "w")
        while item is not None and item.mask in {Mask.STATE, Mask.VALUE}:
            item = sheet.behind(item.end)
        if item is None or item.mask not in _THINGS:
            continue
        name, span = _name(item), sheet.span(item.start, item.end)
        found.append(Projection(name=name, columns=(name,), certainty=0.45, text=item.text, span=span))
    return found[:_MOST]
