"""Compares a mention with a condition, with the words of the texts at hand."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

from stef.align.words import Said, Texts
from stef.apprules import AppRules
from stef.matching import NEAR, Comparison, compare, is_moment, nearness
from stef.matching.columns import column_similarity, event_words
from stef.names import stems
from stef.result import Match
from stef.spec import Filter, Op, QuerySpec, Source
from stef.timespan import Calendar, Interval
from stef.values import Many, fold

REQUIRED = 0.5
_NO_SQL = QuerySpec(source=Source.SQL)
WRONG = frozenset({Match.WRONG_VALUE, Match.WRONG_OPERATOR, Match.WRONG_COLUMN})


@dataclass(frozen=True, slots=True)
class Comparer:
    """Everything that two filters are compared by.

    Attributes:
        rules: Mappings and synonyms.
        calendar: The record's clock.
        question: Words of the question.
        expansion: Words of its expansion.
        sql: Spec of the statement.
    """

    rules: AppRules
    calendar: Calendar
    question: Said
    expansion: Said
    sql: QuerySpec = _NO_SQL
    _seen: dict[tuple[int, int], tuple[Filter, Filter, Comparison | None]] = field(default_factory=dict)

    @classmethod
    def of(cls, asked: Texts, rules: AppRules, calendar: Calendar) -> Comparer:
        """Take the words of the texts, and no statement."""
        return cls(rules, calendar, Said.of(asked.question_text), Said.of(asked.expansion_text))

    def beside(self, sql: QuerySpec) -> Comparer:
        """The same beside a statement; what was compared is shared."""
        return Comparer(self.rules, self.calendar, self.question, self.expansion, sql, self._seen)

    def held(self, asked: Filter, found: Filter) -> Comparison | None:
        """Hold a condition against what was asked; None when it is about something else."""
        result = self._compared(asked, found)
        dated = isinstance(asked.value, Interval) and is_moment(found.column)
        if result is None or result.match is not Match.MATCHED or not dated:
            return result
        meant = self._named_moment(asked) if asked.column else self._mapped_moment(found)
        if not meant or column_similarity(meant, found.column) >= NEAR:
            return result
        return Comparison(Match.WRONG_COLUMN, 0.4, 0.85, f"{found.column} instead of {meant}")

    def says(self, left: Filter, right: Filter) -> bool:
        """Whether the two are the same condition."""
        found = self._compared(left, right)
        return found is not None and found.match is Match.MATCHED

    def _compared(self, left: Filter, right: Filter) -> Comparison | None:
        """Compare each two once; the filters are kept too, so that no other takes their identity."""
        key = (id(left), id(right))
        known = self._seen.get(key)
        if known is None:
            known = self._seen[key] = left, right, compare(left, right, self.rules, self.calendar)
        return known[2]

    def contradicts(self, sure: Filter, other: Filter) -> bool:
        """Whether another condition on the same column cannot hold beside one that is surely asked for."""
        if sure.certainty < REQUIRED:
            return False
        found = self._compared(sure, other)
        near = not sure.column or not other.column or nearness(sure, other, self.rules) >= NEAR
        return (found is not None and found.match in WRONG and near) or self._narrows(sure, other)

    def _narrows(self, asked: Filter, other: Filter) -> bool:
        """Whether a condition takes one value of a list that was asked for."""
        return any(self.says(part, other) for part in members(asked))

    def _named_moment(self, asked: Filter) -> str:
        """A moment of the SQL that has the name that was asked for ("opened", and the SQL groups by `opened_on`)."""
        own = (name for name in sorted(_columns(self.sql)) if is_moment(name))
        return next((name for name in own if column_similarity(asked.column, name) >= 0.8), "")

    def _mapped_moment(self, found: Filter) -> str:
        """The one moment that R_app has for the words of the question, unless they are about the SQL's own."""
        if self._speaks_of(" ".join(event_words(found.column))):
            return ""
        mapped = self.rules.column_mappings.items()
        meant = {name for word, name in mapped if is_moment(name) and self._dates(word)}
        return meant.pop() if len(meant) == 1 else ""

    def _dates(self, event: str) -> bool:
        """Whether the texts name an event, in its own form or as what the SQL reads ("orders in May" – ordered)."""
        said = f"{self.question.text} {self.expansion.text}"
        if re.search(rf"\b{re.escape(fold(event))}\b", said):
            return True
        about = frozenset[str]().union(*(stems(table.rpartition(".")[2]) for table in self.sql.tables))
        return self._speaks_of(event) and stems(event) <= about

    def _speaks_of(self, words: str) -> bool:
        meant = stems(words)
        return bool(meant) and meant <= self.question.stems | self.expansion.stems


def members(item: Filter) -> list[Filter]:
    """One condition for each value of a list; [] for other conditions."""
    if not isinstance(item.value, Many) or item.op not in {Op.IN, Op.NOT_IN}:
        return []
    op = Op.EQ if item.op is Op.IN else Op.NE
    return [replace(item, op=op, value=value) for value in item.value.members]


def _columns(sql: QuerySpec) -> frozenset[str]:
    shown = [column for item in sql.projections for column in item.columns]
    sorted_by = [column for key in sql.order_by for column in key.columns]
    return frozenset(
        (*shown, *sorted_by, *(key.column for key in sql.group_by), *(item.column for item in sql.filters))
    )
