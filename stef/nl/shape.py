"""The shape of the answer: number of rows, grouping."""

from __future__ import annotations

from dataclasses import replace

from stef.lexicon import Ending, Kind, Role
from stef.nl.numbers import read_amount
from stef.nl.reading import Mark, Reading
from stef.nl.tokens import Form
from stef.spec import GroupKey, Limit

MOST_KEYS = 6


def limits(r: Reading) -> list[Limit]:
    """Caps on rows: "top 10", "the 5 most expensive", "which six barges carried the most"; takes their numbers."""
    if not r.amounts or not r.holds(Kind.TOP, Kind.SUPERLATIVE, Kind.SORT, Kind.FIRST):
        return []
    for i in sorted({*r.amounts, *r.places(Kind.TOP, Kind.SUPERLATIVE, Kind.ASK)}):
        found = None if r.taken[i] else _top(r, i) or _counted_superlative(r, i) or _which_ten(r, i)
        if found is not None:
            return [replace(found, per=per_group(r, counted=True))]
    return []


def per_group(r: Reading, *, counted: bool) -> tuple[str, ...]:
    """What the rows are counted for: "for each branch", "5 per branch" (but not "the highest revenue per hour")."""
    for i in r.places(Kind.EACH):
        ratio = r.marked(i, Kind.EACH).payload and any(
            not _has_measure(r.marked(k, Kind.SUPERLATIVE)) for k in r.places(Kind.SUPERLATIVE) if k < i
        )
        if counted or not ratio:
            return _per(r, i)
    return ()


def _has_measure(mark: Mark) -> bool:
    return " " in mark.payload


def direction(r: Reading, limit: Limit | None) -> str:
    """The direction that "top" or "bottom" gives, so that "by" names what the rows are ranked by; "" for none."""
    if limit is None or limit.span is None:
        return ""
    at = r.at(limit.span.start)
    mark = r.mark(at, Kind.TOP)
    return mark.payload if mark else ""


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
    if r.has(i, Kind.SUPERLATIVE) and (behind := read_amount(r, r.marked(i, Kind.SUPERLATIVE).end)):
        if r.is_noun(behind.bare_end) and not r.has(behind.bare_end, Kind.PERIOD) and not behind.measure:
            return _limit(r, i, behind.bare_end, int(behind.number.value), 0.75)
        return None
    amount = read_amount(r, i)
    if amount is None or not r.has(amount.bare_end, Kind.SUPERLATIVE) or r[amount.bare_end].text == "last":
        return None
    if r.has(i - 1, Kind.COMPARE) or (amount.number.value == 1 and amount.spelled):
        return None
    return _limit(r, i, amount.bare_end, int(amount.number.value), 0.8)


def _which_ten(r: Reading, i: int) -> Limit | None:
    asked = r.mark(i, Kind.ASK)
    if asked is None or asked.payload not in {"which", "what", "who", "list"}:
        return None
    start = r.skip(asked.end, Kind.ARTICLE)
    amount = read_amount(r, start)
    if amount is None or not r.is_noun(amount.bare_end) or amount.number.value == 1:
        return None
    ahead = range(amount.end, min(amount.end + 14, len(r)))
    if not any(r.has(k, Kind.SUPERLATIVE, Kind.SORT) or (r.has(k, Kind.FIRST) and r.is_break(k + 1)) for k in ahead):
        return None
    return _limit(r, start, amount.bare_end, int(amount.number.value), 0.75)


def grouping(r: Reading, limit: Limit | None) -> list[GroupKey]:
    """Grouping keys; none where one number is asked for, and none behind "top 3 … by"."""
    if r.places(Kind.SINGLE):
        return []
    found: list[GroupKey] = []
    ranked = bool(direction(r, limit))
    behind = 0
    for i in _key_places(r):
        if i < behind:
            continue
        if len(found) >= MOST_KEYS:
            break
        mark = r.mark(i, Kind.EACH) or (None if ranked else _by(r, i))
        if mark and ranked and mark.payload and any(r.has(k, Kind.BY) for k in range(i)):
            mark = None  # "by revenue per order"
        if mark is None:
            found.extend(_periodic(r, i))
            continue
        each = r.mark(i, Kind.EACH)
        keys, behind = _keys(r, mark.end, 0.8 if each else 0.7, single=each is not None and each.payload != "by")
        found.extend(keys)
    return found or _contrasted(r)


def _key_places(r: Reading) -> list[int]:
    """Where a key may begin: at "each", "by", "monthly", "over time", or a word in "-wise"."""
    manners = [i for i in r.affixed if r.ends_as(i, Ending.WISE)]
    return sorted({*manners, *r.places(Kind.EACH, Kind.BY, Kind.PERIODIC, Kind.OVER_TIME)})


def _contrasted(r: Reading) -> list[GroupKey]:
    """Read "in Ghent versus Turku", "compare the fees of Ghent and Turku": one figure for each side is natural."""
    side = next((i for i in r.places(Kind.CONTRAST) if i and r.taken[i - 1] and r.taken[i]), None)
    if side is None and r.has(0, Kind.COMPARE_VERB):
        side = next((i for i in r.places(Kind.AND) if i and r.taken[i]), None)
    if side is None or r[side - 1].form is not Form.WORD:
        return []
    return [replace(_key(r, side, side + 1, "", 0.55), column="")]


_NO_KEY = (Kind.RANK, Kind.DATED_VERB, Kind.NOT, Kind.BE, Kind.PERIODIC)


def _by(r: Reading, i: int) -> Mark | None:
    """A "by" that groups: not "made by", "sorted by", "by at least", "by Kranwerk"."""
    mark = r.mark(i, Kind.BY)
    if mark is None or r.taken[i] or i == 0 or r.has(i - 1, *_NO_KEY):
        return None
    behind = r.skip(mark.end, Kind.ARTICLE)
    if r.has(0, Kind.COUNT) and r.has(i - 1, Kind.FUNCTION):
        return None  # "how many wrote to us by telephone"
    verb = r.ends_as(i - 1, Ending.PASSIVE) or r.ends_as(i - 1, Ending.GERUND)
    if verb and not r.has(i - 1, Kind.MEASURE):
        return None
    if any((phrase := r.mark(i - k, Kind.ORDER) or r.mark(i - k, Kind.SORT)) and phrase.end > i for k in range(1, 8)):
        return None
    if r[behind].is_capital or (
        r.plays(i - 1, Role.PRONOUN)
        or r.has(mark.end, Kind.SUPERLATIVE, Kind.COUNT, Kind.COMPARE, Kind.EXTREME, Kind.SORT)
    ):
        return None
    if r.has(behind, Kind.MEASURE) and not r.has(behind, Kind.PERIOD) and not r.is_noun(behind + 1):
        return None  # "customers by revenue" is a ranking
    return mark if r.is_noun(behind) or r.has(behind, Kind.PERIOD) else None


def _keys(r: Reading, i: int, certainty: float, *, single: bool = False) -> tuple[list[GroupKey], int]:
    """The keys listed at a place, and the place behind them; `single` for "for each", which speaks of a thing."""
    found: list[GroupKey] = []
    while len(found) < MOST_KEYS:
        start = _unused(r, r.skip(i, Kind.ARTICLE, Kind.DISTINCT, Kind.OF))
        if (
            r.has(start, Kind.RATIO, Kind.SUPERLATIVE, Kind.SORT, Kind.ORDER)
            or (r.has(start, Kind.UNIT) and not r.has(start, Kind.PERIOD))
            or r.has(start - 1, Kind.RATIO)
            or (start < len(r) and r.taken[start])
        ):
            break
        end = r.nouns_end(start) if not r.has(start, Kind.PERIOD) or r.is_noun(start) else start + 1
        if end == start:
            break
        if single and end - start > 1 and not _is_compound(r, start, end):
            start = end - 1
        period = r.mark(end - 1, Kind.PERIOD)
        found.append(_key(r, start, end, period.payload if period else "", certainty))
        joined = r.skip(end + 1 if r[end].text == "," else end, Kind.AND)
        if joined == end or not ends_list(r, joined) or _is_clause(r, end, joined):
            return found, max(end, i)
        i = joined
    return found, max(i, 1)


def _is_clause(r: Reading, end: int, joined: int) -> bool:
    """Whether a bare comma ends the keys ("for each harbour, revenue in May"): the last one in a list has its "and"."""
    behind = r.nouns_end(r.skip(joined, Kind.ARTICLE))
    return r[end].text == "," and joined == end + 1 and not (r[behind].text == "," or r.has(behind, Kind.AND))


def _unused(r: Reading, i: int) -> int:
    """The noun behind values that stand before it ("per electric van"); the place itself where there is none."""
    start = i
    while start < len(r) and r.taken[start] and r[start].form is Form.WORD and start - i < 3:
        start += 1
    return start if r.is_noun(start) and not r.taken[start] else i


def _is_compound(r: Reading, start: int, end: int) -> bool:
    """Whether several nouns are one key ("product line", "order date"), not a value and a thing ("retail customer")."""
    kinds = (Kind.NAMING, Kind.PLACE, Kind.CLASS, Kind.DATED_NOUN, Kind.PERIOD, Kind.NAME)
    return r.has(end - 1, *kinds) or r.rules.physical(r.words(start, end)) is not None


def ends_list(r: Reading, i: int) -> bool:
    """Whether what follows "and" is one more key, not the next clause."""
    start = end = r.skip(i, Kind.ARTICLE)
    if r.has(start, Kind.SUPERLATIVE, Kind.SORT, Kind.ORDER):
        return False
    while r.is_noun(end):
        end += 1
    return end > start and (r.is_break(end) or r.has(end, Kind.PREPOSITION, Kind.DIRECTION))


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
        told = led or mark.end > i + 1 or r.is_break(mark.end) or r.has(mark.end, Kind.OVER_TIME, Kind.AGGREGATE)
        return [replace(_key(r, i, mark.end, mark.payload, 0.6 if told else 0.4), column="")]
    mark = r.mark(i, Kind.OVER_TIME)
    if mark is not None and not r.places(Kind.PERIODIC):
        return [replace(_key(r, i, mark.end, "", 0.5), column="date")]
    wise = next((e for e in r.lexicon.endings[Ending.WISE] if r.low(i).endswith(e)), "")
    if wise and r.low(i) != wise:
        return [replace(_key(r, i, i + 1, "", 0.75), column=r.low(i).removesuffix(wise))]
    return []


def _per(r: Reading, i: int) -> tuple[str, ...]:
    mark = r.mark(i, Kind.EACH)
    if mark is None:
        return ()
    keys, _ = _keys(r, mark.end, 0.8, single=mark.payload != "by")
    return (keys[0].column,) if keys else ()
