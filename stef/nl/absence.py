"""What must be missing: "without a phone number", "address is empty", "have never placed an order"."""

from __future__ import annotations

from stef.lexicon import Ending, Kind
from stef.nl.mentions import value_filter
from stef.nl.reading import Reading
from stef.spec import Filter, Op
from stef.values import Null

# How many words may stand between "also" and what is absent, between "not" and "at all".
_REACH = 6


def absent(r: Reading) -> list[Filter]:
    """All conditions on what is not there, left to right; what is let in ("also those without any") is none."""
    found: list[Filter] = []
    for i in sorted({*r.places(Kind.LACK, Kind.NEVER, Kind.NOT), *(i - 1 for i in r.places(Kind.NULL) if i)}):
        read = None if r.taken[i] else _lacking(r, i) or _null(r, i) or _never(r, i) or _not_once(r, i)
        if read is not None:
            found.append(read)
    return found


def _lacking(r: Reading, i: int) -> Filter | None:
    mark = r.mark(i, Kind.LACK)
    if mark is None or not r.free(i, mark.end) or r.has(i - 1, Kind.ARTICLE):
        return None
    start = r.skip(mark.end, Kind.ARTICLE)
    end = r.nouns_end(start)
    if _let_in(r, i):
        r.take(i, max(end, mark.end))
        return None
    if end == start or r.ends_as(start, Ending.GERUND) or r.has(start, Kind.COMPARE, Kind.DISTINCT):
        return None
    return _absent(r, i, end, r.words(start, end))


def _let_in(r: Reading, i: int) -> bool:
    """Whether "also", "including" or the like stands before, so that nothing is asked to be missing."""
    for j in range(i - 1, max(i - 1 - _REACH, -1), -1):
        if r[j].text in {".", "?", ";"} or r.has(j, Kind.RELATIVE_PRONOUN):
            return False
        mark = r.mark(j, Kind.INCLUSIVE)
        if mark is not None and (r.has(i, Kind.PREPOSITION) or mark.end < i) and not r.has(mark.end, Kind.HAVE):
            return True
    return False


def _null(r: Reading, i: int) -> Filter | None:
    null = r.mark(i + 1, Kind.NULL)
    if null is None or not r.free(i + 1, null.end) or not r.is_noun(i):
        return None
    if (lack := r.mark(i + 1, Kind.LACK)) and r.is_noun(r.skip(lack.end, Kind.ARTICLE)):
        return None  # "are missing a label"
    return _absent(r, i, null.end, r.low(i))


def _absent(r: Reading, start: int, end: int, column: str, op: Op = Op.IS_NULL, certainty: float = 0.65) -> Filter:
    condition = value_filter(r, start, end, column, Null(), certainty, op=op)
    r.take(start, end)
    return condition


def _never(r: Reading, i: int) -> Filter | None:
    """Read "never placed an order", "was never driven": there is no such event."""
    mark = r.mark(i, Kind.NEVER)
    return None if mark is None else _no_event(r, i, r.skip(mark.end, Kind.BE, Kind.HAVE), once=False)


def _not_once(r: Reading, i: int) -> Filter | None:
    """Read "did not drive at all", "have not placed any order"."""
    mark = r.mark(i, Kind.NOT)
    if mark is None or r.has(i, Kind.NEVER):
        return None
    return _no_event(r, i, r.skip(mark.end, Kind.BE, Kind.HAVE), once=True)


def _no_event(r: Reading, start: int, verb: int, *, once: bool) -> Filter | None:
    """The absence of what a verb speaks of: the noun behind a verb that says little, else unnamed.

    Args:
        r: The text.
        start: The negation.
        verb: The verb behind it.
        once: The words must say that it did not happen even once.
    """
    if r.has(verb, Kind.STATE, Kind.COMPARE) or not (r.is_noun(verb) or r.has(verb, Kind.VERB)) or r.taken[verb]:
        return None
    any_one = r.mark(verb + 1, Kind.EVEN_ONE)
    behind = r.skip(any_one.end if any_one else verb + 1, Kind.ARTICLE, Kind.DISTINCT)
    light = r.has(verb, Kind.LIGHT_VERB)
    end = r.nouns_end(behind) if light or any_one else behind
    if end == behind > verb + 1 and r.has(behind, Kind.VERB) and not r.taken[behind]:
        end += 1  # "a single report"
    last = max(end, any_one.end if any_one else verb + 1)
    at_all = next((m for k in range(verb + 1, last + 3) if (m := r.mark(k, Kind.AT_ALL))), None)
    if once and any_one is None and at_all is None:
        return None
    column = r.words(behind, end) if end > behind else ""
    # Without a noun, or with a verb of its own ("approve"), it is less plain which table it is about.
    return _absent(r, start, last, column, Op.NOT_EXISTS, 0.6 if column and light else 0.45)
