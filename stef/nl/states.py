"""Values that are plain words: states, attributes, "the fax channel", "status waiting"; what is left out."""

from __future__ import annotations

from stef.lexicon import Ending, Kind, Role
from stef.nl.mentions import negated, value_filter
from stef.nl.reading import Reading
from stef.nl.times import overdue
from stef.nl.tokens import Form
from stef.spec import Filter, Op
from stef.values import Many, Text

# Supporting guesses are cheap, but a page of text has too many words for them.
_MOST_GUESSES = 40


def classes(r: Reading) -> list[Filter]:
    """A plain word in front of a noun that names a class: "from the fax channel", "the rigging team"."""
    found: list[Filter] = []
    for i in (place - 1 for place in r.places(Kind.NAMING) if place > 1):
        named = r.marked(i + 1, Kind.NAMING)
        if r.taken[i] or named.payload or not _is_plain(r, i) or r.is_noun(i + 2) or r.has(i, Kind.VAGUE):
            continue
        led = r.has(i - 1, Kind.ARTICLE) and r.has(i - 2, Kind.PREPOSITION, Kind.VERB) and not r.has(i - 2, Kind.ASK)
        led = led or r[i - 1].text == ","
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


def valued(r: Reading) -> list[Filter]:
    """A bare value right behind the noun that it is a value of: "severity low", "fuel type diesel"."""
    found: list[Filter] = []
    places = range(len(r) - 1) if r.rules.column_mappings else r.places(Kind.CLASS)
    for i in places:
        mapped = bool(r.rules.column_mappings) and r.is_noun(i) and r.rules.physical(r.low(i)) is not None
        if r.taken[i] or not (mapped or r.has(i, Kind.CLASS)):
            continue
        start = i - 1 if r.has(i, Kind.IDENTIFY) and r.is_noun(i - 1) and not r.taken[i - 1] else i
        value = i + 2 if r.has(i + 1, Kind.BE) and r.has(start - 1, Kind.RELATIVE_PRONOUN) else i + 1
        end = r.nouns_end(value)
        certainty = _value_certainty(r, start, value, end)
        if certainty:
            found.append(value_filter(r, value, end, r.words(start, i + 1), Text(r.source(value, end)), certainty))
            r.take(value, end)
    return found


def _value_certainty(r: Reading, start: int, i: int, end: int) -> float:
    """How sure the words `[i, end)` are a value of the noun that begins at `start`; 0.0 for not at all."""
    article = r.has(start - 1, Kind.ARTICLE)
    lead = start - 2 if article else start - 1
    led = r.has(lead, Kind.PREPOSITION, Kind.RELATIVE_PRONOUN, Kind.AND, Kind.OR) or r[lead].text == ","
    if not led or r.plays(start - 1, Role.INDEFINITE) or r.has(lead, Kind.EACH, Kind.BY) or not 1 <= end - i <= 2:
        return 0.0
    if (
        r.is_noun(end)
        or r[i].is_capital
        or r.has_any(i, _NO_VALUE)
        or r.has(end, Kind.PATTERN, Kind.CALLED, Kind.COMPARE)
    ):
        return 0.0
    known = r.has(end - 1, Kind.STATE, Kind.ATTRIBUTE)
    if r.ends_as(end - 1, Ending.PARTICIPLE) and not known:
        return 0.0
    if r.ends_as(end - 1, Ending.PLURAL) or (r.ends_as(end - 1, Ending.GERUND) and not known):
        return 0.45
    return 0.5 if article else 0.6


_ASKED = (
    Kind.NAMING,
    Kind.IDENTIFY,
    Kind.SUPERLATIVE,
    Kind.ORDINAL,
    Kind.RELATIVE,
    Kind.AGGREGATE,
    Kind.DISTINCT,
    Kind.RATIO,
)
_NO_VALUE = frozenset(
    {*_ASKED, Kind.CLASS, Kind.NAME, Kind.COMPARATIVE, Kind.DATED_NOUN, Kind.PERIOD, Kind.SORT, Kind.MEASURE}
)
_NOT_PLAIN = frozenset({*_ASKED, Kind.PERIODIC, Kind.STATE, Kind.PLACE, Kind.EXTREME, Kind.PERIOD})
_NO_GUESS = _NOT_PLAIN | {Kind.ASK}


def _is_plain(r: Reading, i: int) -> bool:
    """Whether a word may be a value: no class, measure, superlative, ordinal or state."""
    return r.is_noun(i) and not r.has_any(i, _NOT_PLAIN)


def states(r: Reading) -> list[Filter]:
    """Words of the status lexicon where they describe something: "open grants", "are on leave"."""
    found: list[Filter] = []
    for i in r.places(Kind.STATE, Kind.STATE_PHRASE, Kind.ATTRIBUTE):
        for kind in (Kind.STATE, Kind.STATE_PHRASE, Kind.ATTRIBUTE):
            mark = r.mark(i, kind)
            if mark is None or not r.free(i, mark.end) or (r.opens(i) and r.has(i, Kind.ASK)):
                continue
            found.append(
                _listed(r, i, mark.end) or _state(r, i, mark.end, kind, _state_certainty(r, i, mark.end, kind))
            )
            r.take(i, r.marked(i, kind).end)
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
    payload = r.marked(i, kind).payload
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
        or r.plays(end, Role.PRONOUN)
    )
    after_be = (
        r.has(i - 1, Kind.BE) or (r.has(i - 2, Kind.BE) and r.has(i - 1, Kind.NOT)) or r.plays(i - 1, Role.MARKED)
    )
    if kind is Kind.STATE_PHRASE:
        return 0.65
    if describes and (r.has(end, Kind.DATED_NOUN) or r.has(end + 1, Kind.DATED_NOUN)):
        return 0.4  # "approved loan date"
    if describes and not (end < len(r) and r.taken[end]):
        return 0.7 if kind is Kind.STATE else 0.6
    if after_be or (r.has(i - 1, Kind.EXCLUDE) or negated(r, i)):
        by = r.has(end, Kind.BY, Kind.FIRST) or (end < len(r) and r.taken[end])
        return 0.45 if by else 0.65
    return 0.6 if r.is_noun(i - 1) and r.is_break(end) and r.ends_as(i, Ending.PARTICIPLE) else 0.35


def _is_defined(r: Reading, i: int) -> bool:
    """Whether the text itself says what the word means ("Late means …")."""
    low = r.low(i)
    return any(t.low == low and r.has(k + 1, Kind.DEFINE) for k, t in enumerate(r.tokens[:200]) if k != i)


def excluded(r: Reading) -> list[Filter]:
    """Plain words behind an exclusion, and words with a prefix of negation."""
    found: list[Filter] = []
    prefixes = r.lexicon.endings[Ending.NEGATION]
    denied = [i for i in r.affixed if r.low(i).startswith(prefixes)]
    for i in sorted({*denied, *r.places(Kind.NEITHER, Kind.EXCLUDE)}):
        prefix = next((p for p in prefixes if r.low(i).startswith(p)), "")
        if prefix and r.free(i, i + 1):
            word = r.low(i).removeprefix(prefix)
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
        end = r.nouns_end(start)
        if end > start and r.free(start, end) and end - start <= 2:
            found.append(
                value_filter(r, start, end, "", Text(r.words(start, end)), 0.5 if end - start == 1 else 0.45, op=Op.NE)
            )
            r.take(start, end)
    return found


def guesses(r: Reading) -> list[Filter]:
    """Words that may be values: modifiers and predicates; they can only support a match."""
    found: list[Filter] = []
    keys = _keys(r)
    for i in [i for i, noun in enumerate(r.nouns) if noun and not r.taken[i]]:
        if len(found) == _MOST_GUESSES:
            break
        if r.has_any(i, _NO_GUESS) or i in keys or r.ends_as(i, Ending.PARTICIPLE):
            continue
        superlative = r.mark(i - 1, Kind.SUPERLATIVE)
        if superlative is not None and superlative.end > i:
            continue
        modifier = r.continues(i + 1) and not r.taken[i + 1]
        lead = i - 2 if r.has(i - 1, Kind.ARTICLE) else i - 1
        if modifier or r.has(lead, Kind.BE, Kind.PREPOSITION, Kind.HAVE):
            column = r.low(i + 1) if modifier else ""
            found.append(value_filter(r, i, i + 1, column, Text(r[i].text), 0.3 if modifier else 0.2, implied=True))
    return found


def _keys(r: Reading) -> set[int]:
    """The last nouns behind "each", "per" and the like: what figures are asked for, and no values."""
    found: set[int] = set()
    for i in r.places(Kind.EACH):
        end = r.marked(i, Kind.EACH).end
        found.add(max(r.nouns_end(r.skip(end, Kind.ARTICLE)) - 1, end))
    return found
