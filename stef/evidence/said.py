"""Values, numbers, names and formulas that the texts write out, against those of the statement."""

from __future__ import annotations

import re
from collections.abc import Iterator

from stef.evidence.facts import Facts, values_of
from stef.evidence.grounding import WRITTEN
from stef.evidence.naming import Words
from stef.names import stems
from stef.values import Text, fold

_NUMBER = re.compile(r"(?<![\w.])\d+(?:[.,]\d+)*(?!\w)")
# `population > 1000`, `city = 'Turku'`: a condition as somebody writes it down. Bounded, or else a long text without an
# operator is scanned from each of its words to its end.
_CONDITION = re.compile(r"([A-Za-z_`][\w` ]{0,80}?)\s{0,9}(=|>=|<=|>|<|!=)\s*('[^']*'|\"[^\"]*\"|[\d.]+)")
_COMPARED = re.compile(r"[=<>]")
_FORMULA = re.compile(
    r"\b(?:max|min|sum|count|avg|divide|subtract|multiply)\s*\(\s*(?:distinct\s+)?([^()]*)", re.IGNORECASE
)
# A count says nothing of its column: any will do.
_FIGURE = re.compile(r"\b(?:max|min|sum|avg)\s*\(\s*(?:distinct\s+)?`?([A-Za-z_][\w.]*)`?\s*\)", re.IGNORECASE)
_QUOTED = re.compile(r"`([^`]+)`")
_NEUTRAL = frozenset({"0", "1", "100"})


def values_said(facts: Facts, words: Words) -> Iterator[tuple[str, float]]:
    """Texts that columns are compared with: how many, said in the expansion, in other letters, nowhere."""
    values = [value for item in facts.sql.filters for value in values_of(item)]
    texts = [value.raw.strip("%").strip() for value in values if isinstance(value, Text)]
    said, folded = facts.texts, facts.folded
    exact = [text for text in texts if text and text in said]
    other = [text for text in texts if text and text not in said and fold(text) in folded]
    known = {*exact, *other}
    nowhere = [text for text in texts if text and text not in known and not (stems(text) and stems(text) <= words.said)]
    yield "values", float(len(texts))
    yield "values_in_expansion", float(sum(text in facts.expansion_text for text in exact))
    yield "values_other_letters", float(len(other))
    yield "values_unsaid", float(len(nowhere))


def numbers_used(facts: Facts, words: Words) -> Iterator[tuple[str, float]]:  # noqa: ARG001
    """Numbers that the texts say and no condition has."""
    given = facts.literals
    count = facts.sql.limit.count if facts.sql.limit is not None else None
    for name, text in (("question", facts.question_text), ("expansion", facts.beyond)):
        said = {found.replace(",", "") for found in _NUMBER.findall(text)} - _NEUTRAL
        yield f"numbers_unused_{name}", float(sum(number not in given and number != str(count) for number in said))


def names_used(facts: Facts, words: Words) -> Iterator[tuple[str, float]]:  # noqa: ARG001
    """Columns and tables that the expansion writes out and the statement does not use."""
    text = facts.beyond
    written = {fold(name.rpartition(".")[2]) for name in (*_QUOTED.findall(text), *WRITTEN.findall(text))}
    if written:
        left = written - _used(facts)
        yield "names_unused", float(len(left))
        yield "names_unused_share", len(left) / len(written)


def _used(facts: Facts) -> frozenset[str]:
    return facts.names | {fold(use.column.rpartition(".")[2]) for use in facts.sql.uses}


def conditions_used(facts: Facts, words: Words) -> Iterator[tuple[str, float]]:  # noqa: ARG001
    """Conditions that the expansion writes out: met, met by column or value only, not met."""
    text = facts.beyond
    given, columns = facts.literals, {fold(item.column) for item in facts.sql.filters}
    met: list[tuple[bool, bool]] = []
    for column, _, value in _CONDITION.findall(text) if _COMPARED.search(text) is not None else ():
        last = fold((column.strip("` ").split() or [""])[-1])
        met.append((last in columns, fold(value.strip("'\"")) in given))
    if met:
        yield "written_met", met.count((True, True)) / len(met)
        yield "written_column_only", met.count((True, False)) / len(met)
        yield "written_value_only", met.count((False, True)) / len(met)
        yield "written_unmet", met.count((False, False)) / len(met)


def formulas_used(facts: Facts, words: Words) -> Iterator[tuple[str, float]]:  # noqa: ARG001
    """Formulas that the expansion writes out over columns that the statement does not use."""
    text, used = facts.beyond if "(" in facts.beyond else "", _used(facts)
    inside = [fold(part.rpartition(".")[2].strip("` ")) for part in _FORMULA.findall(text)]
    figures = {fold(part.rpartition(".")[2].strip("` ")) for part in _FIGURE.findall(text)}
    yield "formula_unused", float(sum(bool(name) and " " not in name and name not in used for name in inside))
    yield "formula_column_unused", float(sum(name not in used for name in figures))
