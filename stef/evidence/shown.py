"""What the lessons from the log look at: a statement, and the catalogue of its database without its own question."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from stef.catalogue import Observation, View
from stef.catalogue.observation import COLUMN, LINK, ROLE, TABLE, TYPE, VALUE, Item, mark
from stef.catalogue.snapshot import Similar
from stef.evidence.facts import Signal
from stef.names import stem, tokens

_OF_COLUMNS = frozenset({COLUMN, ROLE, TYPE, VALUE})
# A share that is low, and one that is high.
RARE, FIRM = 0.05, 0.6
# Of questions: what a stray answer leaves, and what is surely known.
TRACE, SURE = 0.3, 0.5


@dataclass(frozen=True)
class Shown:
    """What the lessons look at.

    Attributes:
        view: The catalogue without the record's own question.
        own: What the record itself shows.
        question: Its text.
    """

    view: View
    own: Observation
    question: str

    @cached_property
    def tables(self) -> tuple[str, ...]:
        """Tables of the statement."""
        return tuple(sorted(item[1] for item in self.own.items if item[0] == TABLE))

    @cached_property
    def items(self) -> frozenset[Item]:
        """What the statement uses; an unqualified column is that of the one table which is known to have it."""
        homeless = {item[2] for item in self.own.items if item[0] == COLUMN and not item[1]}
        homes = {column: found[0] for column in homeless if len(found := self.homes(column)) == 1}
        if not homes:
            return self.own.items
        return frozenset(
            (item[0], homes.get(item[2], ""), *item[2:]) if item[0] in _OF_COLUMNS and not item[1] else item
            for item in self.own.items
        )

    @cached_property
    def _kinds(self) -> Mapping[str, list[Item]]:
        found: dict[str, list[Item]] = {}
        for item in sorted(self.items):
            found.setdefault(item[0], []).append(item)
        return found

    def of(self, kind: str) -> list[Item]:
        """What the statement uses of one kind, in order."""
        return self._kinds.get(kind, [])

    def homes(self, column: str) -> list[str]:
        """Tables of the statement that are surely known to have a column."""
        declared = self.view.catalogue.declared
        return [
            table
            for table in self.tables
            if column in declared.get(table, ()) or self.view.used((COLUMN, table, column)) >= SURE
        ]

    def hardly_has(self, table: str, column: str) -> bool:
        """Whether a table is well known, and not for this column."""
        if table in self.view.catalogue.declared:
            return not self.view.has_column(table, column)
        seen, whole = self.view.used((COLUMN, table, column)), self.view.used((TABLE, table))
        return self.view.knows_table(table) and seen <= RARE * whole

    def home(self, table: str, column: str) -> str:
        """Another table on which a column is far better known, a table of the statement before others; else ""."""
        seen = self.view.used((COLUMN, table, column))
        found = [
            (other in self.tables, self.view.used((COLUMN, other, column)), other)
            for other in self.view.tables_with(column)
            if other != table
        ]
        known = self.view.catalogue.declared
        better = [row for row in found if row[1] >= max(1.0, 3 * seen) or column in known.get(row[2], ())]
        return max(better, default=(False, 0.0, ""))[2]

    @cached_property
    def columns(self) -> tuple[tuple[str, str], ...]:
        """Table and column of what it uses, where the table is plain."""
        return tuple((item[1], item[2]) for item in self.of(COLUMN) if item[1])

    @cached_property
    def links(self) -> tuple[Item, ...]:
        """What it holds equal."""
        return tuple(self.of(LINK))

    @cached_property
    def values(self) -> tuple[Item, ...]:
        """Texts that it compares columns with, where the table is plain."""
        return tuple(item for item in self.of(VALUE) if item[1])

    @cached_property
    def words(self) -> Mapping[str, str]:
        """Mark of a stem → the word of the question."""
        key = self.view.catalogue.key
        return {mark(stem(word), key): word for word in sorted(tokens(self.question)) if len(stem(word)) > 1}

    @cached_property
    def similar(self) -> Similar | None:
        """What similar questions' statements use."""
        return self.view.similar(self.own.words)

    def text(self, value: Item) -> str:
        """A value as the record writes it."""
        return self.own.texts.get(value[4], "")


Lesson = Callable[[Shown], Iterator[Signal]]


def number(name: str, value: float) -> Signal:
    """A number for the model that is no reason by itself."""
    return Signal(name, value, "", "")
