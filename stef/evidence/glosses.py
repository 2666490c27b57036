"""Mentions that are met in other words: by what the expansion explains them with, or letter by letter by a value."""

from __future__ import annotations

import re
from collections.abc import Iterator

from stef.evidence.facts import Facts, values_of
from stef.names import stems
from stef.result import FilterEvidence, Match
from stef.spec import Filter
from stef.values import Number, Text, fold

# `steel boats refers to hull = 'S'`
_GLOSS = re.compile(
    r"([^;()]+?)\s+(?:refers?\s+to|means?|stands?\s+for|is\s+represented\s+(?:as|by)|denotes?)\s+([^;]+)", re.IGNORECASE
)
_NAME = re.compile(r"[A-Za-z_]\w+")
_LEAST_VALUE = 2


def is_said_otherwise(item: FilterEvidence, facts: Facts) -> bool:
    """Whether a mention that seems missing is met by its explanation, or by a value that the question says.

    A condition of the SQL that the expansion explains so is not introduced either: `column = column` there is a join.
    """
    if item.match is not Match.MISSING or item.asked is None:
        return False
    return _is_glossed(item.asked, facts) or _is_spelled(item.asked, facts)


def _is_glossed(asked: Filter, facts: Facts) -> bool:
    """Whether the expansion explains its words by a column or value that the SQL uses."""
    words = stems(asked.text)
    if not words:
        return False
    used = facts.names | {fold(use.column) for use in facts.sql.uses}
    return any(words & stems(phrase) and _uses(meaning, used) for phrase, meaning in _glosses(facts))


def _glosses(facts: Facts) -> Iterator[tuple[str, str]]:
    for found in _GLOSS.finditer(facts.beyond):
        yield found[1], found[2]


def _uses(meaning: str, used: frozenset[str]) -> bool:
    return any(fold(name) in used for name in _NAME.findall(meaning))


def _is_spelled(asked: Filter, facts: Facts) -> bool:
    """Whether a value of the SQL stands in the question where the mention stands."""
    if asked.span is None:
        return False
    text = fold(facts.question_text)
    if len(text) != len(facts.question_text):
        return False  # folding moved the places
    for value in (value for item in facts.sql.filters for value in values_of(item)):
        said = fold(value.raw.strip("%")) if isinstance(value, Text) else _plain(value)
        for found in re.finditer(rf"(?<!\w){re.escape(said)}(?!\w)", text) if len(said) >= _LEAST_VALUE else ():
            if found.start() < asked.span.end and asked.span.start < found.end():
                return True
    return False


def _plain(value: object) -> str:
    return format(value.value.normalize(), "f") if isinstance(value, Number) else ""
