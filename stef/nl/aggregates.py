"""Aggregates that a question asks for, and the columns that it wants to see."""

from __future__ import annotations

import re
from dataclasses import replace

from stef.lexicon import Ending, Kind, Role
from stef.nl.reading import Reading
from stef.nl.tokens import Form
from stef.spec import Aggregation, GroupKey, OrderKey, Projection

_PERCENTILE = re.compile(r"p(\d{2}(?:\.\d+)?)|(\d{2}(?:\.\d+)?)(?:st|nd|rd|th)?", re.IGNORECASE)
_MOST_COLUMNS = 12
_STARTS = (Kind.COUNT, Kind.RATIO, Kind.AGGREGATE, Kind.EXTREME, Kind.SUPERLATIVE, Kind.EACH)


def aggregates(r: Reading) -> list[Aggregation]:
    """All aggregates, left to right."""
    found: list[Aggregation] = []
    end = 0
    for i in r.figures(*_STARTS):
        if i < end:
            continue
        read = _count(r, i) or _percentile(r, i) or _ratio(r, i) or _function(r, i) or _extreme(r, i)
        if read is not None:
            end, aggregation = read
            found.append(aggregation)
    for k in range(len(found) - 2, -1, -1):
        found[k] = _shared(found[k], found[k + 1])
    return found


def _shared(left: Aggregation, right: Aggregation) -> Aggregation:
    """Give "average, minimum and maximum age" one object for all three."""
    near = left.span is not None and right.span is not None and right.span.start - left.span.end <= 6
    if left.of or not near or left.function == "count":
        return left
    return replace(left, of=right.of, certainty=max(left.certainty, 0.75))


def _built(r: Reading, i: int, end: int, function: str, certainty: float) -> tuple[int, Aggregation]:
    start = r.skip(end, Kind.ARTICLE, Kind.OF, Kind.PERIODIC)
    different = r.mark(start, Kind.DISTINCT)
    start = r.skip(start, Kind.DISTINCT, Kind.ARTICLE, Kind.OF)
    stop = nouns_end(r, start)
    return max(end, start), Aggregation(
        function=function,
        of=r.words(start, stop) if stop > start else "",
        distinct=different is not None,
        certainty=certainty,
        text=r.source(i, max(stop, end)),
        span=r.span(i, max(stop, end)),
    )


def implied(r: Reading, found: list[Aggregation], keys: list[GroupKey], order: list[OrderKey]) -> list[Aggregation]:
    """The aggregate that goes without saying: "revenue by country", "tickets per day", "unique buyers in May"."""
    if any(item.certainty >= 0.45 for item in found):
        return []
    if (different := r.mark(0, Kind.DISTINCT)) and not keys and not order:
        return _different(r, different.end)
    if not any(key.certainty >= 0.5 for key in keys):
        return []
    head = _head(r)
    start = r.skip(head, Kind.DISTINCT)
    end = nouns_end(r, start)
    if end == start or r.has(end, Kind.OF):
        return []
    mapped = r.rules.physical(r.words(start, end)) is not None and not r.has(end - 1, Kind.NAMING)
    if (mapped and not r.ends_as(end - 1, Ending.PLURAL)) or any(r.has(i, Kind.MEASURE) for i in range(start, end)):
        return [_unsaid(r, start, end, "sum", 0.55)]
    split = any(r.marked(i, Kind.EACH).payload for i in r.places(Kind.EACH) if i >= end)
    bare = head == 0 and not r.has(0, Kind.ASK)
    counts = r.ends_as(end - 1, Ending.PLURAL) and not order and (split or bare or any(key.unit for key in keys))
    return [replace(_unsaid(r, start, end, "count", 0.5), distinct=start > head)] if counts else []


def _unsaid(r: Reading, start: int, end: int, function: str, certainty: float) -> Aggregation:
    return Aggregation(
        function=function,
        of=r.words(start, end),
        certainty=certainty,
        text=r.source(start, end),
        span=r.span(start, end),
    )


def _different(r: Reading, start: int) -> list[Aggregation]:
    """A bare phrase such as "unique buyers in the shop": how many there are; alone it may as well be a list."""
    end = nouns_end(r, start)
    narrowed = r.has(end, Kind.PREPOSITION, Kind.RELATIVE_PRONOUN, Kind.DIRECTION)
    if end == start or not narrowed or any(r.opens(i) for i in r.places(Kind.ASK)):
        return []
    return [replace(_unsaid(r, start, end, "count", 0.6), distinct=True)]


def _head(r: Reading) -> int:
    """Where what is asked for begins: behind "show", "how did", "monthly", "for each region,"."""
    i = r.skip(0, Kind.ASK, Kind.BE, Kind.ARTICLE, Kind.PERIODIC)
    while r.has(i, Kind.EACH):
        comma = next((k for k in range(i, min(i + 8, len(r))) if r[k].text == ","), None)
        if comma is None:
            break
        i = r.skip(comma + 1, Kind.ASK, Kind.BE, Kind.ARTICLE, Kind.PERIODIC)
    while r.has(i, Kind.FUNCTION) and not r.is_noun(i) and i < 4:
        i += 1
    return i


def nouns_end(r: Reading, i: int) -> int:
    """The token behind a run of up to four nouns; states and values before a noun are left to the filters."""
    end = i
    while (
        end < len(r)
        and end - i < 4
        and (
            (r.is_noun(end) if end == i else r.continues(end))
            or (end > i and r.has(end, Kind.OF) and r.is_noun(end + 1))
        )
    ):
        end += 1
    return end


def _count(r: Reading, i: int) -> tuple[int, Aggregation] | None:
    mark = r.mark(i, Kind.COUNT)
    if mark is None or r.has(r.skip(mark.end, Kind.ARTICLE), Kind.COUNT):
        return None
    if r.plays(i, Role.HOW) and r.has(mark.end, Kind.RATIO):
        return _built(r, i, mark.end + 1, "ratio", 0.8)
    if r.plays(i, Role.HOW) and r.has(mark.end, Kind.PERIOD, Kind.UNIT):
        if any(k >= mark.end for k in r.places(Kind.AGGREGATE)):
            return None  # "how many hours does it take on average"
        return _built(r, i, mark.end, "count", 0.5)
    if r.plays(i, Role.HOW):
        return _built(r, i, mark.end, "count", 0.9)
    if r.plays(i, Role.COUNT_VERB) and not r.opens(i) and not r.has(i + 1, Kind.OF) and mark.end == i + 1:
        return _built(r, i, mark.end, "count", 0.6)
    if r.plays(i, Role.COUNT_NOUN) and r.is_noun(i - 1) and not r.has(i - 1, Kind.ASK):
        return _built(r, i, mark.end, "count", 0.3)  # "phone number of"
    compared = r.has(i - 1, Kind.SUPERLATIVE, Kind.ORDER, Kind.BY) or r.has(i - 2, Kind.SUPERLATIVE)
    return _built(r, i, mark.end, "count", 0.45 if compared else 0.75)


def _percentile(r: Reading, i: int) -> tuple[int, Aggregation] | None:
    number = _PERCENTILE.fullmatch(r[i].text) if r[i].has_digit else None
    if number is None or not (number[1] or r.plays(i + 1, Role.QUANTILE)):
        return None
    return _built(r, i, i + 1 if number[1] else i + 2, "percentile", 0.85)


def _ratio(r: Reading, i: int) -> tuple[int, Aggregation] | None:
    if r.has(i, Kind.EACH) and r[i + 1].form is Form.NUMBER:
        return i + 2, replace(_unsaid(r, i, i + 2, "ratio", 0.55), of="")  # "litres per 100 km"
    mark = r.mark(i, Kind.RATIO)
    if mark is None or r[i - 1].form is Form.NUMBER:
        return None
    loose = r.plays(i, Role.LOOSE) and not r.has(mark.end, Kind.OF)
    return _built(r, i, mark.end, "ratio", 0.5 if loose else 0.8)


def _function(r: Reading, i: int) -> tuple[int, Aggregation] | None:
    mark = r.mark(i, Kind.AGGREGATE)
    if mark is None:
        return None
    if (
        r.plays(i, Role.ALSO_VERB)
        and (r.opens(i - 1) or not r.has(i - 1, Kind.ARTICLE, Kind.AND, Kind.ASK))
        and not r.opens(i)
    ):
        return None
    if r.has(i - 1, Kind.COMPARE) or r.has(i - 2, Kind.COMPARE):
        return _built(r, i, mark.end, mark.payload, 0.45)
    if r.plays(i, Role.HOW) and not r.is_noun(mark.end):
        return _built(r, i, mark.end, mark.payload, 0.4)
    if mark.payload == "sum" and r.has(i + 1, Kind.COUNT):
        return None
    if r.plays(i, Role.LOOSE) or r.is_break(mark.end):
        return _built(r, i, mark.end, mark.payload, 0.5)
    return _built(r, i, mark.end, mark.payload, 0.6 if r.plays(i, Role.HOW) else 0.85)


def _extreme(r: Reading, i: int) -> tuple[int, Aggregation] | None:
    """Read "the maximum price", and "what is the highest price" as a value rather than a row."""
    mark = r.mark(i, Kind.EXTREME)
    if mark is not None and not r.plays(mark.end, Role.COUNT_NOUN) and not r.has(i - 1, Kind.HAVE):
        return _built(r, i, mark.end, mark.payload, 0.45 if r.plays(i - 1, Role.WITH) else 0.75)
    superlative = r.mark(i, Kind.SUPERLATIVE)
    if superlative is None or not asks_value(r, i):
        return None
    return _built(r, i, superlative.end, "max" if superlative.payload.startswith("desc") else "min", 0.7)


def asks_value(r: Reading, i: int) -> bool:
    """Whether a superlative asks for the extreme value itself ("What is the highest price"), not for a row."""
    mark = r.mark(i, Kind.SUPERLATIVE)
    if mark is None or " " in mark.payload or r.plays(i, Role.JUDGING):
        return False
    j = i - 1 if r.has(i - 1, Kind.ARTICLE) else i
    asked = r.mark(j - 2, Kind.ASK) if r.has(j - 1, Kind.BE) else r.mark(j - 1, Kind.ASK)
    led = (asked is not None and asked.end == j and asked.payload in {"what", "list"}) or (
        r.has(j - 1, Kind.AND) and r.plays(i, Role.FIGURE)
    )
    return led and r.is_noun(mark.end)


def projections(r: Reading) -> list[Projection]:
    """The columns asked for, as far as the question names them."""
    found: list[Projection] = []
    read = 0
    for i in r.places(Kind.ASK):
        mark = r.marked(i, Kind.ASK)
        if i < read or not _asks(r, i, mark.payload):
            continue
        read = mark.end
        start = mark.end if mark.payload != "what" else r.skip(mark.end, Kind.BE)
        found.extend(_listed(r, start, mark.payload))
        if len(found) >= _MOST_COLUMNS:
            break
    if not found and r.is_noun(0) and not r.has(0, Kind.TOP, Kind.ASK):
        found = _listed(r, 0, "list")
    return found[:_MOST_COLUMNS]


def _asks(r: Reading, i: int, payload: str) -> bool:
    """Whether a question word asks here, and does not begin a relative clause."""
    match payload:
        case "yes" | "how":
            return False
        case "what":
            return True
        case "list":
            return r.opens(i) or r[i - 1].text == "," or r.has(i - 1, Kind.AND) or r.plays(i - 1, Role.POLITE)
        case _:
            return r.opens(i) or r[i - 1].text == "," or r.has(i - 1, Kind.AND)


def _listed(r: Reading, i: int, asks: str) -> list[Projection]:
    found: list[Projection] = []
    while len(found) < _MOST_COLUMNS:
        i = r.skip(i, Kind.ARTICLE, Kind.DISTINCT)
        while i < len(r) and r.taken[i] and r.has(i, Kind.TOP, Kind.NUMBER):
            i += 1
        aggregate = (
            r.mark(i, Kind.AGGREGATE) or r.mark(i, Kind.COUNT) or r.mark(i, Kind.EXTREME) or r.mark(i, Kind.RATIO)
        )
        start = r.skip(aggregate.end, Kind.ARTICLE, Kind.OF) if aggregate else i
        end = start
        while end - start < 5 and (r.is_noun(end) if end == start else r.continues(end) and not r.taken[end]):
            end += 1
        if end == start and aggregate is None:
            break
        found.append(_projection(r, i, start, max(end, start), aggregate.payload if aggregate else None, asks))
        separator = r.skip(end + 1 if r[end].text == "," else end, Kind.AND)
        if separator == end:
            break
        i = separator
    return found


def _projection(r: Reading, i: int, start: int, end: int, function: str | None, asks: str) -> Projection:
    name = r.words(start, end) if end > start else r.words(i, start)
    owned = r.has(end, Kind.OF) or r.plays(end, Role.FOR)
    certainty = 0.7 if owned or asks in {"what", "which"} else 0.45
    last = max(end, start, i + 1)
    return Projection(
        name=name,
        columns=(name,) if end > start else (),
        aggregates=(function or "count",) if function is not None else (),
        certainty=certainty,
        text=r.source(i, last),
        span=r.span(i, last),
    )
