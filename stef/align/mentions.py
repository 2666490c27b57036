"""What is asked for: the filters of the question, and those of the expansion that interpret it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from stef.align.comparer import REQUIRED, Comparer
from stef.align.words import Texts
from stef.matching.presence import ABSENT
from stef.names import stem, stems
from stef.spec import Filter
from stef.values import Many, Null, Number, Text

# Below this a mention is a guess that nobody else makes.
_GUESS = 0.3
_VERBS = (
    r"(?:refers?\s+to|(?:is|are|be)\s+represented\s+(?:as|by)|means?|stands?\s+for|is\s+defined\s+as"
    r"|denotes?|indicates?|represents?|i\.e\.)"
)
VERB = re.compile(rf"\b{_VERBS}(?!\w)", re.IGNORECASE)
_DEFINES = re.compile(rf"\b{_VERBS}(?!\w)|=", re.IGNORECASE)
_MEANS = re.compile(rf"\s*(?:that\s+)?{_VERBS}(?!\w)", re.IGNORECASE)
_CLAUSE_END = re.compile(r"[;(]|(?<=[a-z])\.\s|,\s(?=[a-z]+ (?:refers?|means?))", re.IGNORECASE)
COMMON = frozenset(
    stem(word)
    for word in (
        "a", "an", "and", "are", "as", "at", "be", "by", "do", "does", "for", "from", "had", "has", "have", "how",
        "in", "is", "it", "its", "list", "many", "more", "much", "most", "name", "number", "of", "on", "or", "show",
        "that", "the", "their", "them", "there", "these", "this", "those", "to", "was", "were", "what", "when",
        "where", "which", "who", "whose", "with", "all", "each", "please", "give", "me", "than",
    )
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Mention:
    """A filter that the texts ask for.

    Attributes:
        filter: As read.
        required: The SQL must have it.
        introduced: Only the expansion has it, and it interprets nothing that the question says.
        of_expansion: The question does not have it.
        explained: Filters by which the expansion explains this one of the question ("steel refers to hull = 'S'").
    """

    filter: Filter
    required: bool
    introduced: bool = False
    of_expansion: bool = False
    explained: tuple[Filter, ...] = ()


def mentions(asked: Texts, comparer: Comparer) -> tuple[Mention, ...]:
    """Filters of the question, then those that only the expansion has."""
    theirs = () if asked.expansion is None else asked.expansion.filters
    own = _spelt_out(asked.question.filters, theirs, comparer)
    of_question = tuple(
        Mention(item, item.certainty >= REQUIRED, explained=explanations(item, theirs, asked.expansion_text))
        for item in own
    )
    new = (item for item in theirs if not any(comparer.says(other, item) for other in asked.question.filters))
    of_expansion = (_of_expansion(item, asked, own, comparer) for item in new)
    return (*of_question, *(item for item in of_expansion if item is not None))


def _spelt_out(own: Sequence[Filter], theirs: Sequence[Filter], comparer: Comparer) -> tuple[Filter, ...]:
    """A guess that the expansion spells out is no guess any more, and it may name the column."""
    known = list(own)
    for item in theirs:
        same = [i for i, other in enumerate(own) if comparer.says(other, item)]
        if same:
            i = max(same, key=lambda i: known[i].certainty)
            known[i] = _completed(known[i], item)
    return tuple(known)


def _completed(weak: Filter, strong: Filter) -> Filter:
    column = weak.column or ("" if strong.implied_column else strong.column)
    certainty = strong.certainty if strong.certainty > weak.certainty >= _GUESS else weak.certainty
    return replace(weak, column=column, certainty=certainty)


def _of_expansion(item: Filter, asked: Texts, own: Sequence[Filter], comparer: Comparer) -> Mention | None:
    """A filter that only the expansion has: required where it interprets, else introduced.

    Where it changes a condition of the question, the question decides, and the SQL is held against that one alone.
    """
    against = [
        other
        for other in own
        if comparer.contradicts(other, item) and not explanations(other, (item,), asked.expansion_text)
    ]
    theirs = () if asked.expansion is None else asked.expansion.filters
    if any(not any(comparer.says(other, kept) for kept in theirs) for other in against):
        return None
    sure = item.certainty >= REQUIRED
    if not against and (asked.question.elliptical or interprets(item, asked, comparer)):
        return Mention(item, sure, of_expansion=True)
    return Mention(item, required=False, introduced=True, of_expansion=True)


def interprets(item: Filter, asked: Texts, comparer: Comparer) -> bool:
    """Whether a filter of the expansion puts words of the question into a condition: defines one, or has its value."""
    question = comparer.question.stems
    match item.value:
        case Text(raw) if (words := stems(raw)) and words <= question:
            return True
        case Number(number) if str(number.normalize()) in asked.question_text:
            return True
        case _ if item.op in ABSENT and comparer.question.denies and stems(item.column) & question:
            return True
    return bool(_defined_words(item, asked.expansion_text) & question - COMMON)


def explanations(own: Filter, theirs: Sequence[Filter], text: str) -> tuple[Filter, ...]:
    """The filters of the expansion that are said to be what a filter of the question means; numbers mean themselves."""
    words = stems(own.text) - COMMON if theirs and isinstance(own.value, Text | Null | Many) else None
    if not words:
        return ()
    return tuple(item for item in theirs if words <= _defined_words(item, text))


def _defined_words(item: Filter, text: str) -> frozenset[str]:
    """The words that a filter defines: "late means delivered_at > promised_at", "grade = 'A' means excellent"."""
    if item.span is None:
        return frozenset()
    before, after = _CLAUSE_END.split(text[: item.span.start])[-1], _CLAUSE_END.split(text[item.span.end :])[0]
    mark, follows = _DEFINES.search(before), _MEANS.match(after)
    defined = before[: mark.start()] if mark else after[follows.end() :] if follows else ""
    return stems(defined)
