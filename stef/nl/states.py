"""Values that are plain words: states, attributes, "the fax channel"; what is absent; what is left out."""

from __future__ import annotations

from stef.lexicon import Kind
from stef.nl.mentions import negated, value_filter
from stef.nl.times import overdue
from stef.nl.tokens import Form, Reading
from stef.spec import Filter, Op
from stef.values import Many, Null, Text

# Supporting guesses are cheap, but a page of text has too many words for them.
_MOST_GUESSES = 40


def absent(r: Reading) -> list[Filter]:
    """What must be missing: "have no tutor", "without a phone number", "address is empty"."""
    found: list[Filter] = []
    for i in range(len(r)):
        mark = r.mark(i, Kind.LACK)
        if mark is not None and r.free(i, mark.end) and not r.has(i - 1, Kind.ARTICLE):
            start = r.skip(mark.end, Kind.ARTICLE)
            end = _nouns_end(r, start)
            if end > start and not r.low(start).endswith("ing") and not r.has(start, Kind.COMPARE, Kind.DISTINCT):
                found.append(_absent(r, i, end, r.words(start, end)))
                continue
        null = r.mark(i, Kind.NULL)
        if null is not None and r.free(i, null.end) and r.is_noun(i - 1):
            found.append(_absent(r, i - 1, null.end, r.low(i - 1)))
    return found


def _absent(r: Reading, start: int, end: int, column: str) -> Filter:
    condition = value_filter(r, start, end, column, Null(), 0.65, op=Op.IS_NULL)
    r.take(start, end)
    return condition


def _nouns_end(r: Reading, i: int) -> int:
    end = i
    while end < len(r) and end - i < 3 and r.is_noun(end) and not r.taken[end]:
        end += 1
    return end


def classes(r: Reading) -> list[Filter]:
    """A plain word in front of a noun that names a class: "from the fax channel", "the rigging team"."""
    found: list[Filter] = []
    for i in range(1, len(r) - 1):
        if r.taken[i] or not r.has(i + 1, Kind.NAMING) or not _is_plain(r, i) or r.is_noun(i + 2):
            continue
        led = r.low(i - 1) == "the" and (r.has(i - 2, Kind.PREPOSITION) or r.has(i - 2, Kind.VERB))
        if (
            not led
            or r[i + 2].form is Form.QUOTED
            or r[i + 2].is_capital
            or r.has(i + 2, Kind.CALLED, Kind.OF, Kind.RELATIVE_PRONOUN)
        ):
            continue
        found.append(value_filter(r, i, i + 1, r.low(i + 1), Text(r[i].text), 0.6))
        r.take(i, i + 1)
    return found


def _is_plain(r: Reading, i: int) -> bool:
    """Whether a word may be a value: no class, measure, superlative, ordinal or state."""
    kinds = (
        Kind.NAMING,
        Kind.IDENTIFY,
        Kind.SUPERLATIVE,
        Kind.ORDINAL,
        Kind.RELATIVE,
        Kind.AGGREGATE,
        Kind.DISTINCT,
        Kind.RATIO,
    )
    return r.is_noun(i) and not r.has(i, *kinds, Kind.STATE, Kind.PLACE, Kind.EXTREME, Kind.PERIOD)


def states(r: Reading) -> list[Filter]:
    """Words of the status lexicon where they describe something: "open grants", "are on leave"."""
    found: list[Filter] = []
    for i in range(len(r)):
        for kind in (Kind.STATE, Kind.STATE_PHRASE, Kind.ATTRIBUTE):
            mark = r.mark(i, kind)
            if mark is None or not r.free(i, mark.end) or (r.opens(i) and r.has(i, Kind.ASK)):
                continue
            found.append(
                _listed(r, i, mark.end) or _state(r, i, mark.end, kind, _state_certainty(r, i, mark.end, kind))
            )
            r.take(i, r.marks[i][kind].end)
            break
    return found


def _listed(r: Reading, i: int, end: int) -> Filter | None:
    """Two states joined in front of a noun or behind a copula: "open or pending tickets"."""
    other = r.mark(end + 1, Kind.STATE)
    first = r.mark(i, Kind.STATE)
    if first is None or other is None or not r.has(end, Kind.AND, Kind.OR) or other.payload != first.payload:
        return None
    certainty = max(_state_certainty(r, end + 1, other.end, Kind.STATE), 0.65 if r.has(i - 1, Kind.BE) else 0.0)
    members = tuple(Text(word) for word in sorted((r.low(i), r.low(end + 1))))
    found = value_filter(r, i, other.end, first.payload, Many(members), certainty, implied=True)
    r.take(i, other.end)
    return found


def _state(r: Reading, i: int, end: int, kind: Kind, certainty: float) -> Filter:
    payload = r.marks[i][kind].payload
    if payload.endswith(" <"):
        value = overdue(r, i, end)
        return value_filter(r, i, end, payload[:-2], value, min(certainty, 0.6), op=Op.RANGE, implied=True)
    if kind is Kind.STATE_PHRASE:
        return value_filter(r, i, end, "status", Text(payload), certainty, implied=True)
    column = r.low(i - 1) if r.has(i - 1, Kind.NAMING) else payload
    return value_filter(r, i, end, column, Text(r.words(i, end)), certainty, implied=True)


def _state_certainty(r: Reading, i: int, end: int, kind: Kind) -> float:
    if _is_defined(r, i):
        return 0.4
    describes = (
        (r.is_noun(end) and not r.has(end, Kind.ORDINAL))
        or r.has(end, Kind.STATE, Kind.ATTRIBUTE)
        or r.low(end) in {"ones", "one"}
    )
    after_be = (
        r.has(i - 1, Kind.BE)
        or (r.has(i - 2, Kind.BE) and r.has(i - 1, Kind.NOT))
        or r.low(i - 1) in {"tested", "marked", "as"}
    )
    if kind is Kind.STATE_PHRASE:
        return 0.65
    if describes and not (end < len(r) and r.taken[end]):
        return 0.7 if kind is Kind.STATE else 0.6
    if after_be or (r.has(i - 1, Kind.EXCLUDE) or negated(r, i)):
        by = r.has(end, Kind.BY) or (end < len(r) and r.taken[end]) or (r.has(end, Kind.DIRECTION) and r.taken[end])
        return 0.45 if by else 0.65
    return 0.6 if r.is_noun(i - 1) and r.is_break(end) and r.low(i).endswith("ed") else 0.35


def _is_defined(r: Reading, i: int) -> bool:
    """Whether the text itself says what the word means ("Late means …")."""
    low = r.low(i)
    return any(t.low == low and r.has(k + 1, Kind.DEFINE) for k, t in enumerate(r.tokens[:200]) if k != i)


def excluded(r: Reading) -> list[Filter]:
    """Plain words behind an exclusion, and words with a prefix of negation."""
    found: list[Filter] = []
    for i in range(len(r)):
        if r[i].low.startswith("non-") and r.free(i, i + 1):
            word = r.low(i)[4:]
            column = next((p.payload for p in r.lexicon.phrases.get(word, ()) if p.kind is Kind.STATE), "")
            certainty = 0.6 if column else 0.4
            found.append(value_filter(r, i, i + 1, column, Text(word), certainty, op=Op.NE, implied=True))
            r.take(i, i + 1)
        if (
            r.has(i, Kind.NEITHER)
            and r.is_noun(i + 1)
            and r.has(i + 2, Kind.OR)
            and r.free(i + 1, i + 4)
            and r.is_noun(i + 3)
        ):
            members = tuple(Text(word) for word in sorted((r.low(i + 1), r.low(i + 3))))
            found.append(value_filter(r, i + 1, i + 4, "", Many(members), 0.5, op=Op.NOT_IN))
            r.take(i, i + 4)
        mark = r.mark(i, Kind.EXCLUDE)
        if mark is None or len(r.low(i)) <= 3:
            continue
        start = r.skip(mark.end, Kind.ARTICLE, Kind.PREPOSITION)
        end = _nouns_end(r, start)
        if end > start and r.free(start, end) and end - start <= 2:
            found.append(
                value_filter(r, start, end, "", Text(r.words(start, end)), 0.5 if end - start == 1 else 0.45, op=Op.NE)
            )
            r.take(start, end)
    return found


def guesses(r: Reading) -> list[Filter]:
    """Words that may be values: modifiers and predicates; they can only support a match."""
    found: list[Filter] = []
    for i in range(len(r)):
        if len(found) == _MOST_GUESSES:
            break
        if r.taken[i] or not _is_plain(r, i) or r.has(i, Kind.ASK):
            continue
        if r.low(i).endswith("ed") or (r.has(i - 1, Kind.SUPERLATIVE) and r.marks[i - 1][Kind.SUPERLATIVE].end > i):
            continue
        modifier = r.continues(i + 1) and not r.taken[i + 1]
        lead = i - 2 if r.has(i - 1, Kind.ARTICLE) else i - 1
        if modifier or r.has(lead, Kind.BE, Kind.PREPOSITION, Kind.HAVE):
            column = r.low(i + 1) if modifier else ""
            found.append(value_filter(r, i, i + 1, column, Text(r[i].text), 0.3 if modifier else 0.2, implied=True))
    return found
