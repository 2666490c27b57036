"""What is put out against what the question lists."""

from __future__ import annotations

import re
from collections.abc import Iterator

from stef.evidence.facts import Facts
from stef.evidence.grounding import FUNCTION_WORDS, answers
from stef.evidence.naming import Words
from stef.names import stem, stems
from stef.spec import Op

# Where a list of wanted things ends: what follows says of which.
_LIST_ENDS = re.compile(r"\b(?:of|for|in|from|with|where|who|that|whose|which)\b", re.IGNORECASE)
_LINKED = re.compile(r",| and ", re.IGNORECASE)
_WORD = re.compile(r"[A-Za-z_]+")
_FIRST_WORDS = 3


def outputs(facts: Facts, words: Words) -> Iterator[tuple[str, float]]:  # noqa: ARG001 - every measure is called alike
    """Output columns: how many, read more than once, made of several, sorted by, or held to one value."""
    shown = facts.sql.projections
    columns = [column for item in shown for column in item.columns]
    pinned = {item.column for item in facts.sql.filters if item.op is Op.EQ}
    sorted_by = {column for item in facts.sql.order_by for column in item.columns}
    figures = {item.text for item in shown if item.aggregates}
    yield "outputs", float(len(shown))
    yield "outputs_repeated", float(len(columns) - len(set(columns)))
    yield "outputs_compound", float(sum(len(item.columns) > 1 for item in shown))
    yield "outputs_sorted_by", float(len(set(columns) & sorted_by))
    yield "outputs_pinned", float(len(set(columns) & pinned))
    yield "figures_sorted_by", float(sum(item.by in figures or bool(item.aggregate) for item in facts.sql.order_by))


def outputs_listed(facts: Facts, words: Words) -> Iterator[tuple[str, float]]:  # noqa: ARG001
    """How many more outputs there are than things read from the question, and than its first words list."""
    shown, asked = len(facts.sql.projections), len(facts.asked.projections)
    yield "outputs_asked", float(asked)
    if asked:
        yield "outputs_over_asked", float(shown - asked)
    head = _LIST_ENDS.split(facts.question_text, maxsplit=1)[0]
    listed = len(_LINKED.findall(head)) if head.strip() else 0
    yield "things_listed", float(listed)
    yield "outputs_over_listed", float(shown - 1 - listed)


def outputs_placed(facts: Facts, words: Words) -> Iterator[tuple[str, float]]:  # noqa: ARG001
    """Outputs that no word of the question names, and first words of it that outputs or tables answer."""
    spoken = [stem(word.lower()) for word in _WORD.findall(facts.question_text)]
    names = [frozenset[str]().union(*map(stems, item.columns)) for item in facts.sql.projections if item.columns]
    yield "outputs_unplaced", float(sum(not any(word in name for word in spoken) for name in names))
    first = [word for word in spoken if word not in FUNCTION_WORDS][:_FIRST_WORDS]
    if first:
        tables = (stems(name.rpartition(".")[2]) for name in facts.sql.tables)
        given = frozenset[str]().union(*names, *tables)
        yield "first_words_answered", sum(answers(word, given) for word in first) / len(first)
