"""Reads a question into a `QuerySpec`: an ordered tuple of rules, each of which takes the tokens that it has used."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from stef.apprules import NO_RULES, AppRules
from stef.lexicon import Kind, Lexicon
from stef.names import singular
from stef.nl.absence import absent
from stef.nl.aggregates import aggregates, implied, projections
from stef.nl.comparisons import comparisons
from stef.nl.explicit import defined, hinted, written, written_aggregates
from stef.nl.language import is_foreign
from stef.nl.mentions import declared, names, quoted
from stef.nl.ordering import ordering, row_limit
from stef.nl.reading import Reading
from stef.nl.shape import grouping, limits
from stef.nl.states import classes, excluded, guesses, states, valued
from stef.nl.times import times
from stef.nl.tokens import Form
from stef.spec import Filter, Op, QuerySpec, Source, Span
from stef.timespan import Calendar, Interval
from stef.values import Boolean, Many, Number, Text, Unknown, Value, describe, fold

# Surer readings first: what one rule has used, the next ones leave alone.
FILTER_RULES: tuple[Callable[[Reading], list[Filter]], ...] = (
    written,
    declared,
    quoted,
    times,
    comparisons,
    absent,
    names,
    valued,
    classes,
    states,
    excluded,
    guesses,
)
# What reads amounts, dates and declared or quoted words; the others go by words of the language.
_ANY_LANGUAGE: frozenset[Callable[[Reading], list[Filter]]] = frozenset({written, declared, quoted, times, comparisons})
_FOREIGN_CERTAINTY = 0.3
_REQUIRED = 0.5
# A follow-up is short, and names no aggregate of its own.
_SHORT = 9


def extract(
    text: str, *, lexicon: Lexicon, calendar: Calendar, rules: AppRules = NO_RULES, source: Source = Source.QUESTION
) -> QuerySpec:
    """Read what a question, or an expansion, asks for.

    Args:
        text: As the user wrote it; only its first 8,000 characters are read.
        lexicon: Words of its language.
        calendar: The clock and conventions that relative dates are resolved with.
        rules: Their column words and value synonyms are looked for.
        source: Which text this is.

    Returns:
        Filters with certainty 0.5 or more are meant to be required; spans are characters of `text`. The language is ""
        when the text is in none that the lexicon knows.
    """
    r = Reading(text, lexicon, calendar, rules)
    capped, foreign = limits(r), is_foreign(r)
    filters = _heeding(r, [found for rule in FILTER_RULES for found in (_ruled(r, rule) if foreign else rule(r))])
    limit = capped[0] if capped else None
    order, counted, elliptical = ordering(r, limit), aggregates(r), not foreign and _is_elliptical(r)
    keys = grouping(r, limit)
    limit = limit or row_limit(r, order)
    counted += implied(r, counted, keys, order)
    if elliptical:
        filters = [_insisted(condition) for condition in filters]
    return QuerySpec(
        source=source,
        projections=tuple(projections(r)),
        aggregations=(*counted, *written_aggregates(r)),
        filters=_joined(r, sorted(_mapped(r, filters), key=_place)),
        group_by=tuple(key for key in keys if limit is None or key.column not in limit.per),
        order_by=tuple(order),
        limit=limit,
        distinct=bool(r.places(Kind.DISTINCT)) and not any(a.distinct for a in counted),
        elliptical=elliptical,
        language="" if foreign else lexicon.language,
    )


def _ruled(r: Reading, rule: Callable[[Reading], list[Filter]]) -> list[Filter]:
    """What a rule finds in another language: its words may mean anything there, and can only support a match."""
    found = rule(r)
    if rule in {written, declared}:
        return found
    if rule in _ANY_LANGUAGE:
        return [replace(item, implied_column=True) for item in found]  # the column may be any word
    return [replace(item, certainty=min(item.certainty, _FOREIGN_CERTAINTY)) for item in found]


def _place(condition: Filter) -> int:
    return condition.span.start if condition.span else 0


def _heeding(r: Reading, filters: list[Filter]) -> list[Filter]:
    """Lower what stands in a hint without being written as a condition: "X means …" explains, it does not ask."""
    if all(f.certainty < _REQUIRED for f in filters) or not (hints := hinted(r)):
        return filters
    words = defined(r)
    return [replace(f, certainty=0.45) if _is_explained(r, f, hints, words) else f for f in filters]


def _is_explained(r: Reading, f: Filter, hints: list[tuple[int, int]], words: frozenset[str]) -> bool:
    return f.certainty >= _REQUIRED and (_explains(r, f, hints) or _spoken_for(f, words))


def _spoken_for(condition: Filter, words: frozenset[str]) -> bool:
    """Whether a guessed column's value is a word that a written condition defines."""
    return condition.implied_column and bool(words) and {singular(w) for w in fold(condition.text).split()} <= words


def _explains(r: Reading, condition: Filter, hints: list[tuple[int, int]]) -> bool:
    span = condition.span
    if span is None or any(sign in condition.text for sign in "=<>≥≤") or " IS " in condition.text.upper():
        return False
    return any(start <= span.start < end for start, end in hints) and not r.text.startswith(condition.text)


def _insisted(condition: Filter) -> Filter:
    """In a follow-up the few words said are what it is about: a bare word or month is meant."""
    known = not isinstance(condition.value, Unknown)
    return replace(condition, certainty=0.6) if known and 0.2 <= condition.certainty < 0.5 else condition


def _joined(r: Reading, filters: list[Filter]) -> tuple[Filter, ...]:
    """Join neighbours that stand on both sides of an "or": one set for one column, else alternatives."""
    found: list[Filter] = []
    if Kind.OR not in r.index:
        return tuple(_once(filters))
    for condition in _once(filters):
        last = next((k for k in range(len(found) - 1, -1, -1) if found[k].certainty >= 0.5), None)
        if last is None or condition.certainty < 0.5 or not _either(r, found[last], condition):
            found.append(condition)
            continue
        other = found[last]
        if other.column == condition.column and other.op is condition.op is Op.EQ:
            found[last] = _merged(r, other, condition)
            continue
        number = other.alternative or 1 + max((f.alternative for f in found), default=0)
        found[last] = replace(other, alternative=number)
        found.append(replace(condition, alternative=number))
    return tuple(found)


def _once(filters: list[Filter]) -> list[Filter]:
    """Drop what is said twice; the surer mention stays."""
    surest: dict[tuple[str, Op, Value], Filter] = {}
    for condition in filters:
        key = (condition.column, condition.op, condition.value)
        other = surest.setdefault(key, condition)
        if other.certainty < condition.certainty:
            surest[key] = condition
    kept = set(map(id, surest.values()))
    return [condition for condition in filters if id(condition) in kept]


def _either(r: Reading, left: Filter, right: Filter) -> bool:
    """Whether an "or" and at most a few words stand between two conditions."""
    if left.span is None or right.span is None or not 0 < right.span.start - left.span.end <= 80:
        return False
    between = range(r.at(left.span.end), r.at(right.span.start))
    return (
        0 < len(between) <= 6
        and any(r.has(i, Kind.OR) for i in between)
        and not any(r[i].text in ",.;?" for i in between)
    )


def _merged(r: Reading, left: Filter, right: Filter) -> Filter:
    members = [m for m in (left.value, right.value) if isinstance(m, Text | Number | Boolean | Interval)]
    value = Many(tuple(sorted(members, key=lambda member: fold(describe(member)))))
    assert left.span is not None and right.span is not None  # noqa: S101, PT018 - both were read from the text
    span = Span(left.span.start, right.span.end)
    return replace(left, op=Op.IN, value=value, span=span, text=r.text[span.start : span.end])


def _mapped(r: Reading, filters: list[Filter]) -> list[Filter]:
    """Name columns by the business words that R_app maps, where the question uses them."""
    return [_by_rule(r, f) if f.column else f for f in filters] if r.rules.column_mappings else filters


def _by_rule(r: Reading, condition: Filter) -> Filter:
    words = condition.column.split()
    for candidate in (condition.column, words[-1], words[0]):
        if r.rules.physical(candidate) is not None:
            return replace(condition, column=candidate, implied_column=False)
    return condition


def _is_elliptical(r: Reading) -> bool:
    """Whether the question leans on one before it: short, and begun like a follow-up or with a preposition."""
    if not r.has(0, Kind.FOLLOW_UP, Kind.PREPOSITION, Kind.DIRECTION):
        return False
    if sum(token.form is not Form.PUNCT for token in r.tokens) > _SHORT:
        return False
    if r.has(0, Kind.FOLLOW_UP):
        return not r.places(Kind.COUNT)
    asks = r.places(Kind.ASK, Kind.COUNT, Kind.AGGREGATE, Kind.BE)
    clauses = any(token.text == "," and r.is_noun(r.skip(i + 1, Kind.ARTICLE)) for i, token in enumerate(r.tokens))
    return not asks and not clauses
