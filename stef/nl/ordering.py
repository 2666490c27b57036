"""The order of the answer, and the one row that a superlative asks for."""

from __future__ import annotations

from dataclasses import replace

from stef.lexicon import Ending, Kind, Role
from stef.nl.aggregates import asks_value
from stef.nl.reading import Reading
from stef.nl.shape import MOST_KEYS, direction, ends_list, per_group
from stef.nl.tokens import Form
from stef.spec import Direction, Limit, OrderKey

_DIRECTIONS = {"asc": Direction.ASC, "desc": Direction.DESC}


def ordering(r: Reading, limit: Limit | None) -> list[OrderKey]:
    """Sort keys: asked for in so many words, or behind a superlative."""
    stated = _stated(r)
    return stated or _superlatives(r, limit) or _top_by(r, direction(r, limit)) or _earliest(r, limit)


def _earliest(r: Reading, limit: Limit | None) -> list[OrderKey]:
    """Read "the first 3 orders": most often those of the earliest date, but perhaps any three."""
    if limit is None or limit.span is None:
        return []
    at = r.at(limit.span.start)
    if r.has(r.skip(at, Kind.ARTICLE), Kind.FIRST) and r.plays(at, Role.THE):
        return [replace(_order(r, at, at + 2, "date", "asc", 0.45), by="date")]
    return []


def _top_by(r: Reading, top: str) -> list[OrderKey]:
    """Read "top 3 customers by revenue"; `top` is the direction, "" where no first rows are asked for."""
    if not top:
        return []
    for i in r.places(Kind.BY):
        mark = r.marked(i, Kind.BY)
        if r.taken[i] or r.has(i - 1, Kind.DATED_VERB):
            continue
        start = r.skip(mark.end, Kind.ARTICLE, Kind.COUNT, Kind.OF, Kind.AGGREGATE)
        counted = any(r.has(k, Kind.COUNT) for k in range(mark.end, start))
        end = start
        while end - start < 3 and r.is_noun(end):
            end += 1
        if end > start:
            return [_order(r, i, end, "count" if counted else r.words(start, end), top, 0.7)]
    return []


def _stated(r: Reading) -> list[OrderKey]:
    found: list[OrderKey] = []
    i = 0
    asked = r.places(Kind.ORDER, Kind.SORT)
    while asked and i <= asked[-1] and len(found) < MOST_KEYS:
        order, sort = r.mark(i, Kind.ORDER), r.mark(i, Kind.SORT)
        if r.taken[i] or (order is None and sort is None):
            i += 1
        elif order is not None and (sort is None or order.end >= sort.end):
            keys, i = _sorted_by(r, i, order.end, order.payload)
            found.extend(keys)
        elif sort is not None:
            measure, direction = _payload(sort.payload)
            found.append(_order(r, i, sort.end, measure or _by_before(r, i), direction, 0.85))
            i = sort.end
    return found or _first(r)


def _by_before(r: Reading, i: int) -> str:
    """What a direction behind it sorts by: "by age in descending order"."""
    start = i
    while i - start < 4 and start > 0 and r.is_noun(start - 1):
        start -= 1
    return r.words(start, i) if start < i and r.has(start - 1, Kind.BY) else ""


def _payload(payload: str) -> tuple[str, str]:
    direction, _, measure = payload.partition(" ")
    return measure, direction


def _order(r: Reading, start: int, end: int, by: str, direction: str, certainty: float) -> OrderKey:
    return OrderKey(
        by=by,
        direction=_DIRECTIONS[direction],
        columns=(by,) if by not in {"", "count"} else (),
        aggregate="count" if by == "count" else "",
        certainty=certainty,
        text=r.source(start, end),
        span=r.span(start, end),
    )


def _sorted_by(r: Reading, i: int, end: int, direction: str) -> tuple[list[OrderKey], int]:
    found: list[OrderKey] = []
    while len(found) < MOST_KEYS:
        start = r.skip(end, Kind.ARTICLE, Kind.COUNT, Kind.OF)
        counted = any(r.has(k, Kind.COUNT) for k in range(end, start))
        stop = start
        while (
            stop < len(r)
            and stop - start < 4
            and (r.is_noun(stop) or (stop == start and r.has(stop, Kind.AGGREGATE)))
            and not r.has(stop, Kind.SORT)
        ):
            stop += 1
        sort = r.mark(stop, Kind.SORT) or r.mark(stop + 1, Kind.SORT) if not direction or stop == start else None
        where = _payload(sort.payload)[1] if sort else direction or "asc"
        by = "count" if counted else r.words(start, stop)
        after = sort.end if sort else max(stop, end)
        found.append(_order(r, i, after, by, where, 0.8))
        joined = r.skip(after + 1 if r[after].text == "," else after, Kind.AND)
        if joined == after or not ends_list(r, joined) or not r.is_noun(joined):
            return found, after
        end = joined
    return found, end


def _first(r: Reading) -> list[OrderKey]:
    """Read "cheapest first": a superlative that sorts; "that were opened first": the date of what a verb says."""
    for i in r.places(Kind.FIRST):
        if r.has(i - 1, Kind.DATED_VERB) and r.is_break(i + 1) and not r.taken[i]:
            return [_order(r, i - 1, i + 1, r.low(i - 1), "asc", 0.75)]
        for back in (1, 2, 3):
            mark = r.mark(i - back, Kind.SUPERLATIVE)
            if mark is not None and mark.end <= i and not r.is_noun(i + 1):
                measure, direction = _payload(mark.payload)
                noun = r.words(mark.end, i)
                by = measure or ("count" if noun in {"number", "count"} else noun)
                return [_order(r, i - back, i + 1, by, direction, 0.85)]
    return []


def _superlatives(r: Reading, limit: Limit | None) -> list[OrderKey]:
    counted_at = r.at(limit.span.start) if limit and limit.span else -1
    for i in r.places(Kind.SUPERLATIVE):
        mark = r.marked(i, Kind.SUPERLATIVE)
        if (
            asks_value(r, i)
            or r.has(i - 1, Kind.COMPARE)
            or (r.plays(i, Role.IDLE) and i != counted_at and _is_idle(r, i, mark.end))
        ):
            continue
        if r.has(i, Kind.EXTREME) and not r.has(i - 2, Kind.HAVE, Kind.RELATIVE_PRONOUN):
            continue
        if r.plays(i - 1, Role.AT) or (
            r.taken[i]
            and i != counted_at
            and not r.has(i - 1, Kind.NUMBER)
            and r[i - 1].form is not Form.NUMBER
            and not r.has(i, Kind.TOP)
        ):
            continue
        measure, direction = _payload(mark.payload)
        start = r.skip(mark.end, Kind.COUNT, Kind.OF, Kind.DISTINCT, Kind.ARTICLE)
        counted = any(r.has(k, Kind.COUNT) for k in range(mark.end, start)) or (
            r.plays(i, Role.COUNTING) and r.is_noun(start)
        )
        stop = start
        while stop < len(r) and stop - start < 3 and r.is_noun(stop):
            stop += 1
        by = measure or ("count" if counted or r.plays(mark.end, Role.COUNT_NOUN) else r.words(start, stop))
        return [_order(r, i, max(stop, mark.end), by, direction, 0.65)]
    return []


def _is_idle(r: Reading, i: int, end: int) -> bool:
    """Read "last name", "most of the", "last month": no superlative at all."""
    if end > i + 1:
        return False
    return (
        r.plays(i, Role.LAST)
        or r.has(end, Kind.OF)
        or (not r.is_noun(end) and not r.is_break(end) and not r.has(end, Kind.COUNT))
    )


def row_limit(r: Reading, order: list[OrderKey]) -> Limit | None:
    """One row (per group) where a superlative speaks of a single thing."""
    if not order or order[0].span is None or order[0].certainty != 0.65:
        return None
    at = r.at(order[0].span.start)
    mark = r.mark(at, Kind.SUPERLATIVE)
    if mark is None:
        return None
    offset = 0
    if (ordinal := r.mark(at - 1, Kind.ORDINAL)) is not None:
        offset = int(ordinal.payload) - 1
    head = mark.end
    while r.is_noun(head):
        head += 1
    plural = (
        head > mark.end and r.ends_as(head - 1, Ending.PLURAL) and bool(order[0].by) and _payload(mark.payload)[0] != ""
    )
    per = per_group(r, counted=False)
    return Limit(
        count=1,
        per=per,
        offset=offset,
        certainty=0.4 if plural and not per else 0.6,
        text=order[0].text,
        span=order[0].span,
    )
