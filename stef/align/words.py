"""The words of question and expansion, for conditions that the reader of questions did not see as such."""

from __future__ import annotations

import re
from dataclasses import dataclass

from stef.matching import flag_words
from stef.matching.columns import MOMENT_SUFFIXES
from stef.matching.presence import ABSENT, happened
from stef.names import stem, stems, tokens
from stef.spec import Filter, Op, QuerySpec
from stef.values import Boolean, Column, Many, Number, Text, Unknown, Value, as_boolean, fold

NEGATIONS = frozenset(
    stem(word)
    for word in (
        "no", "not", "never", "without", "none", "neither", "nor", "t", "except", "excluding", "exclude", "other",
        "missing", "lack", "empty", "non", "but",
    )
)  # fmt: skip
_DENIED = frozenset({Op.NE, Op.NOT_IN, Op.NOT_LIKE, Op.NOT_RANGE})
# `inactive`, `unpaid`, `non-active`, `deactivated`: the word is there, and says the opposite.
_OPPOSITES = ("in", "un", "non", "dis", "de")
# Scripts without spaces between words: Chinese, Japanese, Thai.
_LEAST_FLAG = 4
_UNSPACED = re.compile(r"[\u0e00-\u0e7f\u3040-\u30ff\u3400-\u9fff]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Texts:
    """The two readings of what was asked, with their texts."""

    question: QuerySpec
    question_text: str
    expansion: QuerySpec | None = None
    expansion_text: str = ""


@dataclass(frozen=True, slots=True)
class Said:
    """One text and the stems of its words."""

    text: str
    stems: frozenset[str]

    @classmethod
    def of(cls, text: str) -> Said:
        """Fold a text."""
        return cls(fold(text), stems(text))

    @property
    def denies(self) -> bool:
        """Whether it holds a word of negation."""
        return bool(self.stems & NEGATIONS)

    def asks_for(self, item: Filter) -> bool:
        """Whether the value of a condition stands in the text, and the text does not say the opposite."""
        if item.op in ABSENT:
            return self.denies
        if item.op in _DENIED and not self.denies:
            return False
        values = item.value.members if isinstance(item.value, Many) else (item.value,)
        return bool(self.stems) and all(self._holds(item, value) for value in values)

    def _holds(self, item: Filter, value: Value) -> bool:
        match value:
            case Text(raw):
                return self._holds_text(raw) or (as_boolean(value) is not None and self._holds_flag(item.column))
            case Number(number) if number in {0, 1} and self._speaks_of(flag_words(item.column)):
                return True
            case Number(number):
                return _holds_digits(self.text, format(number.normalize(), "f"))
            case Column(name):
                return self._holds_columns(item.column, name.rpartition(".")[2])
            case Boolean():
                return self._speaks_of(flag_words(item.column))
            case Unknown():
                return bool(self.stems & stems(item.column))
            case _:
                return False

    def _holds_flag(self, column: str) -> bool:
        """Also where the name runs together: `isofficial`."""
        name = fold(column)
        bare = next((name.removeprefix(mark) for mark in ("is", "has") if name.startswith(mark)), "")
        return self._speaks_of(flag_words(column)) or (len(bare) >= _LEAST_FLAG and self._speaks_of(stems(bare)))

    def _holds_text(self, raw: str) -> bool:
        parts = tokens(raw)
        if not parts or not raw.strip("% "):
            return False
        if _UNSPACED.search(raw):
            return fold(raw.strip("% ")) in self.text
        if all(len(part) == 1 for part in parts):
            return fold(raw) in self.text.split()
        return self._speaks_of(stems(raw))

    def _holds_columns(self, *columns: str) -> bool:
        parts = [word for column in columns for word in tokens(column) if word not in MOMENT_SUFFIXES]
        return self._speaks_of(frozenset(stem(word) for word in parts))

    def _speaks_of(self, stems: frozenset[str]) -> bool:
        return bool(stems) and stems <= self.stems

    def contradicts(self, item: Filter) -> bool:
        """Whether a condition keeps out what the text asks for: deleted rows asked for, and `is_deleted = 0`."""
        kept = happened(item)
        about = flag_words(item.column)
        if kept is not None and about:
            return self._wants(about) is (not kept)
        words = _value_stems(item)
        return item.op in _DENIED and not self.denies and self._speaks_of(words)

    def _wants(self, about: frozenset[str]) -> bool | None:
        """Whether the text asks for what is so (True) or for what is not (False); None when it says nothing of it."""
        if any(prefix + word in self.stems for prefix in _OPPOSITES for word in about):
            return False
        if not about <= self.stems:
            return None
        return None if self.denies else True


def _holds_digits(text: str, digits: str) -> bool:
    """Whether a number stands in a text and is no part of a longer one."""
    start = text.find(digits)
    while start >= 0:
        end = start + len(digits)
        lead, behind, then = text[start - 1 : start], text[end : end + 1], text[end + 1 : end + 2]
        longer = lead == "." or lead.isdecimal() or behind.isdecimal() or (behind == "." and then.isdecimal())
        if not longer:
            return True
        start = text.find(digits, start + 1)
    return False


def _value_stems(item: Filter) -> frozenset[str]:
    return stems(item.value.raw) if isinstance(item.value, Text) else frozenset()
