"""Counts observations of one database and freezes them; bounded, in any order, and mergeable."""

from __future__ import annotations

import hashlib
import json
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from stef.catalogue.observation import VALUE, Item, Observation, folded_column, folded_table
from stef.catalogue.snapshot import UNIT, Asked, Catalogue, snapshot

# Distinct questions after which a value is kept as text.
ENOUGH_FOR_TEXT = 5
# After so many days a question counts half.
HALF_LIFE = 180
MOST_QUESTIONS = 20_000
_MOST_ITEMS = 400
_MOST_WORDS = 60


@dataclass(slots=True)
class Tally:
    """One distinct question: how many answers it got, and how many of them used what."""

    words: frozenset[str]
    answers: int = 0
    items: Counter[Item] = field(default_factory=Counter)
    values: set[str] = field(default_factory=set)
    day: int | None = None


class Learner:
    """Counts what records show of one database.

    Args:
        key: Secret under which values and words are marked; observations must be made with the same.
        most: Distinct questions that are kept; beyond it those with the fewest answers, then the oldest, go.
    """

    def __init__(self, key: str = "", *, most: int = MOST_QUESTIONS) -> None:
        self.key, self.most = key, most
        self.questions: dict[str, Tally] = {}
        self.texts: dict[str, str] = {}
        self.declared: dict[str, set[str]] = {}
        self._interned: dict[Item, Item] = {}
        self.users: Counter[str] = Counter()  # mark of a value → distinct questions

    def add(self, seen: Observation) -> None:
        """Count one record."""
        tally = self.questions.get(seen.question)
        if tally is None:
            tally = self.questions[seen.question] = Tally(frozenset(sorted(seen.words)[:_MOST_WORDS]))
        tally.answers += 1
        tally.day = _later(tally.day, seen.day)
        for item in _bounded(seen.items, tally):
            self._count(tally, item, 1)
        for mark, text in seen.texts.items():
            if seen.secret:
                self.texts.pop(mark, None)
            elif self.users[mark] >= ENOUGH_FOR_TEXT:
                self.texts.setdefault(mark, text)
        if len(self.questions) > self.most + self.most // 10:
            self._shrink()

    def declare(self, tables: Mapping[str, Iterable[str]]) -> None:
        """Take a list of tables and columns that somebody gives: tables on it have no other columns."""
        for table, columns in tables.items():
            self.declared.setdefault(folded_table(table), set()).update(folded_column(name) for name in columns)

    def merge(self, other: Learner) -> None:
        """Add what another one has counted.

        Raises:
            ValueError: It has another key.
        """
        if other.key != self.key:
            raise ValueError("two catalogues with different keys cannot be merged")
        for digest, theirs in other.questions.items():
            self.take(digest, theirs)
        self.texts.update(other.texts)
        for table, columns in other.declared.items():
            self.declared.setdefault(table, set()).update(columns)
        self._shrink()

    def take(self, digest: str, theirs: Tally) -> None:
        """Add the tally of one question."""
        tally = self.questions.setdefault(digest, Tally(theirs.words))
        tally.answers += theirs.answers
        tally.day = _later(tally.day, theirs.day)
        for item, count in theirs.items.items():
            self._count(tally, item, count)

    def _count(self, tally: Tally, item: Item, count: int) -> None:
        if item[0] == VALUE and item[4] not in tally.values:
            tally.values.add(item[4])
            self.users[item[4]] += 1
        tally.items[self._interned.setdefault(item, item)] += count

    def _shrink(self) -> None:
        """Drop the least used questions above the limit, and texts that too few use then."""
        if len(self.questions) <= self.most:
            return
        ranked = sorted(self.questions, key=lambda d: (-self.questions[d].answers, -(self.questions[d].day or 0), d))
        for digest in ranked[self.most :]:
            gone = self.questions.pop(digest)
            self.users.subtract(gone.values)
        self.users = +self.users
        self._interned = {item: item for tally in self.questions.values() for item in tally.items}
        self.texts = {mark: text for mark, text in self.texts.items() if self.users[mark] >= ENOUGH_FOR_TEXT}

    def freeze(self, today: int | None = None) -> Catalogue:
        """A snapshot.

        Args:
            today: Days since 1970 from which age is counted; None for no decay.
        """
        asked = [_asked(digest, tally, today) for digest, tally in self.questions.items()]
        declared = {table: frozenset(columns) for table, columns in self.declared.items()}
        return snapshot(asked, digest=self.digest(today), key=self.key, texts=self.texts, declared=declared)

    def digest(self, today: int | None = None) -> str:
        """Of everything that a snapshot says."""
        found = hashlib.sha256(json.dumps([today, sorted(self.texts.items())]).encode())
        for table in sorted(self.declared):
            found.update(repr((table, sorted(self.declared[table]))).encode())
        for digest, tally in sorted(self.questions.items()):
            counts = sorted((item, count) for item, count in tally.items.items())
            found.update(repr((digest, sorted(tally.words), tally.answers, tally.day, counts)).encode())
        return found.hexdigest()[:16]


def _asked(digest: str, tally: Tally, today: int | None) -> Asked:
    weight = _weight(tally.day, today)
    shares: dict[str, dict[Item, int]] = defaultdict(dict)
    for item, count in tally.items.items():
        shares[item[0]][item] = weight * count // tally.answers
    return Asked(digest=digest, words=tally.words, weight=weight, shares=dict(shares))


def _later(left: int | None, right: int | None) -> int | None:
    return max((day for day in (left, right) if day is not None), default=None)


def _bounded(items: frozenset[Item], tally: Tally) -> list[Item]:
    """The items that still fit in; one question with endless answers must not fill the memory."""
    room = _MOST_ITEMS - len(tally.items)
    new = sorted(item for item in items if item not in tally.items)[: max(0, room)]
    return [*(item for item in items if item in tally.items), *new]


def _weight(day: int | None, today: int | None) -> int:
    if day is None or today is None:
        return UNIT
    return round(UNIT * math.pow(0.5, max(0, today - day) / HALF_LIFE))
