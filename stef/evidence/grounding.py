"""What the texts and the SQL say of each other word by word, where no reading of either sees a condition.

A value that stands in no text, an output that nobody named, a word of the question that nothing in the SQL answers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache

from stef.evidence.facts import Facts, Signal, values_of
from stef.names import stem, stems, tokens
from stef.result import Alignment, Match
from stef.spec import Filter, Op
from stef.values import Number, Text, Value, fold

# Words that ask, count, compare or join, and stand for no thing.
FUNCTION_WORDS = frozenset(
    stem(word)
    for line in (
        "a an and are as at be been by can could did do does each every for from get give had has have how i",
        "if in into is it its list many me more much no not of on or our please provide show tell than that",
        "the their them there these they this those to us was we were what when where which who whom whose",
        "will with would you your find return among any about all also both only out state mention identify",
        "indicate calculate describe name names number numbers count total sum average mean maximum minimum",
        "highest lowest most least oldest youngest largest smallest greatest best percentage percent ratio",
        "rate share difference between order ordered descending ascending sorted top first last less fewer",
        "higher lower over under above below different distinct unique per one two three four five ten same",
        "other another whether having being so such but nor up down during since until after before day days",
        "week weeks month months quarter quarters year years today yesterday previous current past compare",
        "versus break broken figure figures trend time times long often ever never without rank made make",
        "makes exclude excluding excluded start end beginning still new need want lies use used",
    )
    for word in line.split()
)
# What tells one row from another, whatever was asked for.
_NAMING = frozenset({"name", "title", "label", "id", "code", "number", "key", "first", "last", "full"})
# A name as a database has it: snake or camel case.
WRITTEN = re.compile(r"\b(?:[A-Za-z][A-Za-z0-9]*_\w+|[a-z]+[A-Z]\w+)\b")
_NEUTRAL_NUMBERS = frozenset({"0", "1", "100"})
_SHARED_START = 4
_VALUED = frozenset({Op.EQ, Op.NE, Op.IN, Op.NOT_IN, Op.LIKE, Op.NOT_LIKE, Op.GT, Op.GE, Op.LT, Op.LE})


def unexplained(facts: Facts) -> Iterator[Signal]:
    """Words of the question that nothing in the SQL answers: no table, column or value."""
    met = _met(facts.alignment)
    words = stems(facts.question_text) - FUNCTION_WORDS - met
    wanted = [word for word in words if len(word) > 1 and not word.isdigit()]
    if not wanted:
        return
    given = facts.vocabulary | _mapped(facts)
    left = sorted(word for word in wanted if not answers(word, given))
    share = len(left) / len(wanted)
    if share > 0:
        detail = f"nothing in the SQL speaks of {', '.join(left[:4])}"
        yield Signal("unexplained", share, "other", detail)


def _met(alignment: Alignment) -> frozenset[str]:
    """Words of the mentions that a condition of the SQL meets, however it puts them."""
    open_ones = [item for item in alignment.filters if item.match is not Match.UNDETERMINED or item.found is not None]
    mentions = [item.asked for item in open_ones if item.asked is not None and item.match in _MET]
    return frozenset().union(*(stems(f"{asked.text} {asked.column}") for asked in mentions))


_MET = frozenset({Match.MATCHED, Match.UNDETERMINED, Match.BENIGN_EXTRA})


def _mapped(facts: Facts) -> frozenset[str]:
    """Business words whose column the SQL uses, and words whose stored value it uses."""
    used = {fold(name) for name in facts.columns} if facts.rules.column_mappings else set[str]()
    found: set[str] = set()
    for word, column in facts.rules.column_mappings.items():
        if fold(column) in used or any(fold(name) in fold(column) for name in used if len(name) > 3):
            found |= stems(word)
    return frozenset(found)


def answers(word: str, given: frozenset[str]) -> bool:
    """Whether a word stands in a vocabulary, also shortened or run together (`pop`, `firstname`)."""
    if word in given:
        return True
    return len(word) >= _SHARED_START and any(_relates(word, other) for other in given)


@lru_cache(maxsize=4096)
def _relates(word: str, other: str) -> bool:
    if len(other) < _SHARED_START:
        return False
    return word[:_SHARED_START] == other[:_SHARED_START] or word in other or other in word


# ── the SQL's side ──────────────────────────────────────────────────────────────────────────────────────────────────


def ungrounded_values(facts: Facts) -> Iterator[Signal]:
    """Values of conditions that stand in no text."""
    text, words = facts.folded, facts.said
    for item in _open_filters(facts):
        unsaid = [value for value in values_of(item) if not _is_said(value, text, words)] if item.op in _VALUED else []
        if unsaid:
            yield from [Signal("ungrounded_value", 0.5, "wrong_value", f"no text has the value of {item}")] * len(
                unsaid
            )


def _is_said(value: Value, text: str, words: frozenset[str]) -> bool:
    match value:
        case Text(raw):
            bare = fold(raw.strip("%"))
            return not bare or bare in text or (bool(stems(bare)) and stems(bare) <= words)
        case Number(number):
            plain = format(number.normalize(), "f")
            return plain in _NEUTRAL_NUMBERS or plain in text.replace(",", "")
        case _:
            return True


def _open_filters(facts: Facts) -> list[Filter]:
    """Conditions of the SQL that no mention accounts for and whose column R_app does not know."""
    rules = facts.rules
    named = [part.column for rule in (*rules.benign_filters, *rules.mandatory_filters) for part in rule.filters]
    known = {fold(name) for name in (*named, *rules.value_synonyms)}
    met = {id(item.found) for item in facts.alignment.filters if item.match in _MET}
    return [item for item in facts.sql.filters if id(item) not in met and fold(item.column) not in known]


def ungrounded_filters(facts: Facts) -> Iterator[Signal]:
    """Columns of conditions that no text names."""
    words = facts.said
    columns = [item.column for item in _open_filters(facts) if item.column not in {"", "*"}]
    for column in dict.fromkeys(_unnamed(columns, words, facts)):
        yield Signal("ungrounded_filter", 0.5, "wrong_column", f"no text names {column}, which the SQL filters by")


def ungrounded_outputs(facts: Facts) -> Iterator[Signal]:
    """Columns in the output that no text names."""
    words = facts.said
    shown = [column for item in facts.sql.projections for column in item.columns]
    columns = [column for column in shown if not set(tokens(column)) <= _NAMING]
    for column in dict.fromkeys(_unnamed(columns, words, facts)):
        yield Signal("ungrounded_output", 0.5, "wrong_column", f"no text names {column}, which the SQL gives")


def _unnamed(columns: Iterable[str], words: frozenset[str], facts: Facts) -> Iterator[str]:
    mapped = {part for target in facts.rules.column_mappings.values() for part in tokens(target)}
    for column in columns:
        own = stems(column)
        if (
            own
            and not own & words
            and not set(tokens(column)) & mapped
            and not any(answers(word, words) for word in own)
        ):
            yield column


# ── the expansion's side ────────────────────────────────────────────────────────────────────────────────────────────


def unused_names(facts: Facts) -> Iterator[Signal]:
    """Columns that the expansion writes out and the SQL does not use."""
    for name in dict.fromkeys(WRITTEN.findall(facts.expansion_text)):
        if fold(name) not in facts.names and name not in facts.question_text:
            detail = f"the expansion speaks of {name}, and the SQL does not use it"
            yield Signal("unused_name", 0.5, "wrong_column", detail)
