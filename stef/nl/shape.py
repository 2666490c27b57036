"""The shape of the answer: grouping, order, number of rows."""

from __future__ import annotations

from dataclasses import replace

from stef.lexicon import Kind
from stef.nl.aggregates import asks_value
from stef.nl.numbers import read_amount
from stef.nl.tokens import Form, Mark, Reading
from stef.spec import Direction, GroupKey, Limit, OrderKey

_MOST_KEYS = 6
_DIRECTIONS = {"asc": Direction.ASC, "desc": Direction.DESC}


def limits(r: Reading) -> list[Limit]:
    """Caps on rows: "top 10", "the 5 most expensive", "which six barges carried the most"; takes their numbers."""
    for i in range(len(r)):
        found = None if r.taken[i] else _top(r, i) or _counted_superlative(r, i) or _which_ten(r, i)
        if found is not None:
            each = next((k for k in range(i, len(r)) if r.has(k, Kind.EACH)), None)
            return [found if each is None else replace(found, per=_per(r, each))]
    return []


def _topped(r: Reading) -> bool:
    """Whether the first rows are asked for, so that "by" names what they are ranked by."""
    return any(r.taken[i] and r.has(i, Kind.TOP) and r.marks[i][Kind.TOP].payload for i in range(len(r)))


def _limit(r: Reading, start: int, end: int, count: int, certainty: float) -> Limit | None:
    if not 0 < count <= 10_000_000:
        return None
    r.take(start, end)
    return Limit(count=count, certainty=certainty, text=r.source(start, end), span=r.span(start, end))


def _top(r: Reading, i: int) -> Limit | None:
    mark = r.mark(i, Kind.TOP)
    if mark is None:
        return None
    amount = read_amount(r, mark.end)
    if amount is None or amount.number.value != amount.number.value.to_integral_value():
        return None
    if r.has(amount.bare_end, Kind.PERIOD) or r.has(amount.bare_end, Kind.MONTH) or amount.number.unit == "%":
        return None
    return _limit(r, i, amount.bare_end, int(amount.number.value), 0.85)


def _counted_superlative(r: Reading, i: int) -> Limit | None:
    amount = read_amount(r, i)
    if amount is None or not r.has(amount.bare_end, Kind.SUPERLATIVE) or r[amount.bare_end].text == "last":
        return None
    if r.has(i - 1, Kind.COMPARE) or (amount.number.value == 1 and amount.spelled):
        return None
    return _limit(r, i, amount.bare_end, int(amount.number.value), 0.8)


def _which_ten(r: Reading, i: int) -> Limit | None:
    asked = r.mark(i, Kind.ASK)
    amount = read_amount(r, asked.end) if asked and asked.payload in {"which", "what", "list"} else None
    if amount is None or not any(r.has(k, Kind.SUPERLATIVE) for k in range(amount.end, min(amount.end + 12, len(r)))):
        return None
    if not r.is_noun(amount.bare_end) or amount.number.value == 1:
        return None
    return _limit(r, asked.end if asked else i, amount.bare_end, int(amount.number.value), 0.75)


def grouping(r: Reading) -> list[GroupKey]:
    """Grouping keys; none where one number is asked for."""
    if any(r.has(i, Kind.SINGLE) for i in range(len(r))):
        return []
    found: list[GroupKey] = []
    ranked = _topped(r)
    i = 0
    while i < len(r) and len(found) < _MOST_KEYS:
        mark = r.mark(i, Kind.EACH) or (None if ranked else _by(r, i))
        if mark is None:
            found.extend(_periodic(r, i))
            i += 1
            continue
        keys, i = _keys(r, mark.end, 0.8 if r.has(i, Kind.EACH) else 0.7)
        found.extend(keys)
    return found


def _by(r: Reading, i: int) -> Mark | None:
    """A "by" that groups: not "made by", "sorted by", "by at least", "by Kranwerk"."""
    mark = r.mark(i, Kind.BY)
    if mark is None or r.taken[i] or i == 0 or r.has(i - 1, Kind.RANK, Kind.DATED_VERB, Kind.NOT, Kind.BE):
        return None
    before, behind = r.low(i - 1), r.skip(mark.end, Kind.ARTICLE)
    if before.endswith(("ed", "ing", "wn", "tten")) and before not in {"need", "speed"}:
        return None
    if any((phrase := r.mark(i - k, Kind.ORDER) or r.mark(i - k, Kind.SORT)) and phrase.end > i for k in range(1, 8)):
        return None
    if r[behind].is_capital or (
        r.low(i - 1) == "one" or r.has(mark.end, Kind.SUPERLATIVE, Kind.COUNT, Kind.COMPARE, Kind.EXTREME, Kind.SORT)
    ):
        return None
    return mark if r.is_noun(behind) or r.has(behind, Kind.PERIOD) else None


def _keys(r: Reading, i: int, certainty: float) -> tuple[list[GroupKey], int]:
    found: list[GroupKey] = []
    while len(found) < _MOST_KEYS:
        start = r.skip(i, Kind.ARTICLE, Kind.DISTINCT, Kind.OF)
        if (
            r.low(start) == "capita"
            or (start < len(r) and r.taken[start])
            or r.has(start, Kind.SUPERLATIVE, Kind.SORT, Kind.ORDER)
        ):
            break
        end = start
        while end < len(r) and end - start < 3 and (r.is_noun(end) or (end == start and r.has(end, Kind.PERIOD))):
            end += 1
        if end == start:
            break
        period = r.mark(end - 1, Kind.PERIOD)
        found.append(_key(r, start, end, period.payload if period else "", certainty))
        joined = r.skip(end + 1 if r[end].text == "," else end, Kind.AND)
        if joined == end or not _ends_list(r, joined):
            return found, max(end, i)
        i = joined
    return found, max(i, 1)


def _ends_list(r: Reading, i: int) -> bool:
    """Whether what follows "and" is one more key, not the next clause."""
    start = end = r.skip(i, Kind.ARTICLE)
    if r.has(start, Kind.SUPERLATIVE, Kind.SORT, Kind.ORDER):
        return False
    while r.is_noun(end):
        end += 1
    return end > start and (r.is_break(end) or r.has(end, Kind.PREPOSITION))


def _key(r: Reading, start: int, end: int, unit: str, certainty: float) -> GroupKey:
    return GroupKey(
        column=r.words(start, end), unit=unit, certainty=certainty, text=r.source(start, end), span=r.span(start, end)
    )


def _periodic(r: Reading, i: int) -> list[GroupKey]:
    mark = r.mark(i, Kind.PERIODIC)
    if mark is not None:
        if r.taken[i]:
            return []
        led = (
            i == 0
            or r.has(i - 1, Kind.ASK, Kind.AGGREGATE)
            or (r.has(i - 1, Kind.ARTICLE) and not r.has(i - 2, Kind.OF))
        )
        told = led or r.is_break(mark.end) or r.has(mark.end, Kind.OVER_TIME, Kind.AGGREGATE)
        return [replace(_key(r, i, mark.end, mark.payload, 0.6 if told else 0.4), column="")]
    mark = r.mark(i, Kind.OVER_TIME)
    if mark is not None and not any(r.has(k, Kind.PERIODIC) for k in range(len(r))):
        return [replace(_key(r, i, mark.end, "", 0.5), column="date")]
    wise = r.low(i)
    if wise.endswith("-wise") and len(wise) > 6:
        return [replace(_key(r, i, i + 1, "", 0.75), column=wise[:-5])]
    return []


def ordering(r: Reading) -> list[OrderKey]:
    """Sort keys: asked for in so many words, or behind a superlative."""
    stated = _stated(r)
    return stated or _superlatives(r) or _top_by(r)


def _top_by(r: Reading) -> list[OrderKey]:
    """Read "top 3 customers by revenue"."""
    if not _topped(r):
        return []
    top = next(r.marks[i][Kind.TOP].payload for i in range(len(r)) if r.taken[i] and r.has(i, Kind.TOP))
    for i in range(len(r)):
        mark = r.mark(i, Kind.BY)
        if mark is None or r.taken[i] or r.has(i - 1, Kind.DATED_VERB):
            continue
        start = r.skip(mark.end, Kind.ARTICLE, Kind.COUNT, Kind.OF, Kind.AGGREGATE)
        counted = any(r.has(k, Kind.COUNT) for k in range(mark.end, start))
        end = start
        while end - start < 3 and r.is_noun(end):
            end += 1
        if end > start:
            return [_order(r, i, end, "count" if counted else r.words(start, end), top or "desc", 0.7)]
    return []


def _stated(r: Reading) -> list[OrderKey]:
    found: list[OrderKey] = []
    i = 0
    while i < len(r) and len(found) < _MOST_KEYS:
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
    while len(found) < _MOST_KEYS:
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
        if joined == after or not _ends_list(r, joined) or not r.is_noun(joined):
            return found, after
        end = joined
    return found, end


def _first(r: Reading) -> list[OrderKey]:
    """Read "cheapest first": a superlative that sorts."""
    for i in range(1, len(r)):
        if not r.has(i, Kind.FIRST):
            continue
        for back in (1, 2, 3):
            mark = r.mark(i - back, Kind.SUPERLATIVE)
            if mark is not None and mark.end <= i and not r.is_noun(i + 1):
                measure, direction = _payload(mark.payload)
                noun = r.words(mark.end, i)
                by = measure or ("count" if noun in {"number", "count"} else noun)
                return [_order(r, i - back, i + 1, by, direction, 0.85)]
    return []


def _superlatives(r: Reading) -> list[OrderKey]:
    for i in range(len(r)):
        mark = r.mark(i, Kind.SUPERLATIVE)
        if (
            mark is None
            or asks_value(r, i)
            or r.has(i - 1, Kind.COMPARE)
            or (r.low(i) in {"last", "most", "least"} and _is_idle(r, i, mark.end))
        ):
            continue
        if r.has(i, Kind.EXTREME) and not r.has(i - 2, Kind.HAVE, Kind.RELATIVE_PRONOUN):
            continue
        if r.low(i - 1) == "at" or (
            r.taken[i] and not r.has(i - 1, Kind.NUMBER) and r[i - 1].form is not Form.NUMBER and not r.has(i, Kind.TOP)
        ):
            continue
        measure, direction = _payload(mark.payload)
        start = r.skip(mark.end, Kind.COUNT, Kind.OF, Kind.DISTINCT, Kind.ARTICLE)
        counted = any(r.has(k, Kind.COUNT) for k in range(mark.end, start)) or (
            r.low(i) in {"most", "fewest", "least"} and r.is_noun(start)
        )
        stop = start
        while stop < len(r) and stop - start < 3 and r.is_noun(stop):
            stop += 1
        by = measure or ("count" if counted or r.low(mark.end) == "number" else r.words(start, stop))
        return [_order(r, i, max(stop, mark.end), by, direction, 0.65)]
    return []


def _is_idle(r: Reading, i: int, end: int) -> bool:
    """Read "last name", "most of the", "last month": no superlative at all."""
    if end > i + 1:
        return False
    return (
        r.low(i) == "last"
        or r.has(end, Kind.OF)
        or (not r.is_noun(end) and not r.is_break(end) and not r.has(end, Kind.COUNT))
    )


def row_limit(r: Reading, order: list[OrderKey]) -> Limit | None:
    """One row (per group) where a superlative speaks of a single thing."""
    if not order or order[0].span is None or order[0].certainty != 0.65:
        return None
    at = next((k for k, t in enumerate(r.tokens) if t.start == order[0].span.start), -1)
    mark = r.mark(at, Kind.SUPERLATIVE)
    if mark is None:
        return None
    offset = 0
    if (ordinal := r.mark(at - 1, Kind.ORDINAL)) is not None:
        offset = int(ordinal.payload) - 1
    head = mark.end
    while r.is_noun(head):
        head += 1
    plural = head > mark.end and r[head - 1].low.endswith("s") and bool(order[0].by) and _payload(mark.payload)[0] != ""
    per = _per(r, head)
    return Limit(
        count=1,
        per=per,
        offset=offset,
        certainty=0.4 if plural and not per else 0.6,
        text=order[0].text,
        span=order[0].span,
    )


def _per(r: Reading, i: int) -> tuple[str, ...]:
    mark = r.mark(i, Kind.EACH)
    if mark is None:
        return ()
    start = r.skip(mark.end, Kind.ARTICLE)
    end = start
    while end < len(r) and end - start < 3 and r.is_noun(end) and not r.taken[end]:
        end += 1
    return (r.words(start, end),) if end > start else ()
