"""A catalogue, frozen: what a log has shown of one database, and how to ask it without a record's own question."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from heapq import nlargest, nsmallest
from types import MappingProxyType

from stef.catalogue.observation import COLUMN, TABLE, Item

# What one question that uses a thing in each of its answers counts; whole numbers, so that taking one out is exact.
UNIT = 1_000_000
# Distinct questions before a catalogue says anything, and before it says anything about a table.
ENOUGH, ENOUGH_OF_TABLE = 8, 6
# Words in more questions than this share tell nothing, once there are enough questions to say so.
_COMMON = 0.3
# Most questions that one word is followed to, most questions that count as similar.
_MOST_POSTINGS, _MOST_CANDIDATES, _MOST_SIMILAR = 200, 40, 12
_LEAST_SIMILAR = 0.15
# What a word may mean.
_MEANT = frozenset({COLUMN, TABLE})
# A question counts as one that uses a thing from this share of its answers on.
_USES = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One distinct question of the log.

    Attributes:
        digest: Of the question.
        words: Marks of its words.
        weight: 0 to `UNIT`; less for what is long ago.
        shares: Item → `weight` times the share of the answers that use it.
        columns: The same of columns whose table is plain.
    """

    digest: str
    words: frozenset[str]
    weight: int
    shares: Mapping[Item, int]
    columns: tuple[tuple[Item, int], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalogue:
    """What a log has shown of one database.

    Attributes:
        digest: Of the content, 16 hexadecimal digits.
        key: Secret under which values and words are marked.
        questions: In the order of their digests.
        texts: Mark → value as written, for values that enough questions used.
        declared: Table → columns, as somebody gave them.
        total: Sum of the questions' weights.
        used: Item → sum over the questions.
        postings: Word → numbers of the questions that have it.
        within: Table, column or value → items below it, for what is asked by its beginning.
        places: Question → its number.
        telling: Word → how much it tells a question from the others, for one that is not among these.
        beside: The same for one of these, without itself, of a word that it does not have.
    """

    digest: str
    key: str
    questions: tuple[Asked, ...]
    texts: Mapping[str, str]
    declared: Mapping[str, frozenset[str]]
    total: int
    used: Mapping[Item, int]
    postings: Mapping[str, tuple[int, ...]]
    within: Mapping[tuple[str, ...], tuple[Item, ...]]
    places: Mapping[str, int]
    telling: Mapping[str, float]
    beside: Mapping[str, float]
    users: Mapping[Item, frozenset[int]]
    _meant: dict[str, tuple[int, Mapping[Item, int]]] = field(default_factory=dict, compare=False, repr=False)

    def meant(self, word: str) -> tuple[int, Mapping[Item, int]]:
        """Weight of the first questions with a word, and what their statements use of tables and columns.

        Counted when it is first asked for, and kept.
        """
        found = self._meant.get(word)
        if found is None:
            counts: dict[Item, int] = defaultdict(int)
            total = 0
            for number in self.postings.get(word, ())[:_MOST_POSTINGS]:
                total += self.questions[number].weight
                for item, share in self.questions[number].shares.items():
                    if item[0] in _MEANT and item[1]:
                        counts[item] += share
            found = self._meant[word] = (total, MappingProxyType(dict(counts)))
        return found

    def without(self, question: str) -> View:
        """The catalogue as if a question had never been asked."""
        place = self.places.get(question)
        return View(self, None if place is None else place)


def snapshot(
    questions: Iterable[Asked],
    *,
    digest: str,
    key: str,
    texts: Mapping[str, str],
    declared: Mapping[str, frozenset[str]],
) -> Catalogue:
    """Add up the questions."""
    ordered = tuple(sorted(questions, key=lambda asked: asked.digest))
    used: dict[Item, int] = defaultdict(int)
    postings: dict[str, list[int]] = defaultdict(list)
    for number, asked in enumerate(ordered):
        for item, share in asked.shares.items():
            used[item] += share
        for word in asked.words:
            postings[word].append(number)
    within: dict[tuple[str, ...], list[Item]] = defaultdict(list)
    for item in sorted(used):
        for group in _groups(item):
            within[group].append(item)
    return Catalogue(
        digest=digest,
        key=key,
        questions=ordered,
        texts=MappingProxyType(dict(texts)),
        declared=MappingProxyType(dict(declared)),
        total=sum(asked.weight for asked in ordered),
        used=MappingProxyType(dict(used)),
        postings=MappingProxyType({word: tuple(found) for word, found in postings.items()}),
        within=MappingProxyType({group: tuple(items) for group, items in within.items()}),
        places=MappingProxyType({asked.digest: number for number, asked in enumerate(ordered)}),
        telling={word: _telling(len(found), len(ordered)) for word, found in postings.items()},
        beside={word: _telling(len(found), len(ordered) - 1) for word, found in postings.items()},
        users=MappingProxyType(_users(ordered)),
    )


def _telling(having: int, total: int) -> float:
    """How much a word tells a question from others, by how many of them have it: 0 when every third has it, or none."""
    if having == 0 or (total >= ENOUGH and having > _COMMON * total):
        return 0.0
    return math.log(1 + total / having)


def _users(ordered: Iterable[Asked]) -> dict[Item, frozenset[int]]:
    """Table or column → numbers of the questions of which a good part of the answers use it."""
    found: dict[Item, set[int]] = defaultdict(set)
    for number, asked in enumerate(ordered):
        for item, share in asked.shares.items():
            if item[0] in _MEANT and share >= _USES * asked.weight:
                found[item].add(number)
    return {item: frozenset(numbers) for item, numbers in found.items()}


def _groups(item: Item) -> list[tuple[str, ...]]:
    """Under what an item can be found."""
    match item:
        case ("column", table, column):
            return [("columns", table), ("tables", column)]
        case ("link", left, right):
            one, other = left.rpartition(".")[0], right.rpartition(".")[0]
            return [("links", one, other), *([("links", other, one)] if one != other else [])]
        case ("type", table, column, _):
            return [("types", table, column)]
        case ("value", table, column, value, _):
            return [("spellings", table, column, value), ("values", value), ("values of", table, column)]
        case _:
            return []


@dataclass(frozen=True, slots=True)
class Similar:
    """Questions like one, and what their statements use.

    Attributes:
        strength: 0 to 1, of the nearest one.
        expected: Item → 0 to 1: share of the similar questions' answers that use it, nearer ones counting more.
        near: The questions with their nearness, 0 to 1, nearest first.
    """

    strength: float
    expected: Mapping[Item, float]
    near: tuple[tuple[float, Asked], ...] = ()


class View:
    """A catalogue without one question; counts are in questions, weighted by age.

    Args:
        catalogue: The whole.
        own: Number of the question that is left out; None when it has none.
    """

    def __init__(self, catalogue: Catalogue, own: int | None) -> None:
        self.catalogue = catalogue
        self._own = own
        asked = None if own is None else catalogue.questions[own]
        self._used = catalogue.used
        self._mine: Mapping[Item, int] = {} if asked is None else asked.shares
        mine = 0 if asked is None else asked.weight
        self._tells = catalogue.telling if asked is None else catalogue.beside
        # Words of the own question: one less of the others has them.
        self._own_words: dict[str, float] = {}
        for word in () if asked is None else asked.words:
            having = len(catalogue.postings.get(word, ())) - 1
            self._own_words[word] = _telling(having, len(catalogue.questions) - 1)
        self.size = (catalogue.total - mine) / UNIT

    @property
    def knows_enough(self) -> bool:
        """Whether it has seen enough to say anything; with a declared schema it need not."""
        return self.size >= ENOUGH or bool(self.catalogue.declared)

    def used(self, item: Item) -> float:
        """In how many questions something was used."""
        return (self._used.get(item, 0) - self._mine.get(item, 0)) / UNIT

    def share(self, item: Item, of: Item) -> float | None:
        """Share of the questions with `of` that have `item`; None when there is none of the former."""
        whole = self.used(of)
        return min(1.0, self.used(item) / whole) if whole > 0 else None

    def knows_table(self, table: str) -> bool:
        """Whether enough is known of a table to say what it does not have."""
        return table in self.catalogue.declared or self.used((TABLE, table)) >= ENOUGH_OF_TABLE

    def has_column(self, table: str, column: str) -> bool:
        """Whether a column was seen on a table, or declared."""
        declared = self.catalogue.declared.get(table, frozenset())
        return column in declared or self.used((COLUMN, table, column)) > 0

    def tables_with(self, column: str) -> tuple[str, ...]:
        """Tables on which a column was seen or declared."""
        seen = (item[1] for item in self.below("tables", column) if item[1])
        declared = (table for table, columns in self.catalogue.declared.items() if column in columns)
        return tuple(dict.fromkeys((*seen, *declared)))

    def below(self, *group: str) -> tuple[Item, ...]:
        """Items of a group that a question other than the own has used."""
        return tuple(item for item in self.catalogue.within.get(group, ()) if self.used(item) > 0)

    def meant(self, word: str) -> tuple[float, Mapping[Item, float]]:
        """In how many questions a word stands, and in how many of those each table and column is used."""
        total, counts = self.catalogue.meant(word)
        place = self._own
        if place is not None and place in self.catalogue.postings.get(word, ())[:_MOST_POSTINGS]:
            total -= self.catalogue.questions[place].weight
            return total / UNIT, {item: (count - self._mine.get(item, 0)) / UNIT for item, count in counts.items()}
        return total / UNIT, {item: count / UNIT for item, count in counts.items()}

    def together(self, one: Item, other: Item) -> float:
        """Share of the questions that use the rarer of two things which use both; 0 when one is never used."""
        users = self.catalogue.users
        first, second = users.get(one, frozenset()), users.get(other, frozenset())
        own = {self._own}
        fewer = min(len(first - own), len(second - own))
        return len((first & second) - own) / fewer if fewer else 0.0

    def asked_with(self, word: str) -> list[Asked]:
        """Questions with a word, at most 200."""
        return [self.catalogue.questions[number] for number in self._numbers(word)]

    def _numbers(self, word: str) -> list[int]:
        found = self.catalogue.postings.get(word, ())[: _MOST_POSTINGS + 1]
        return [number for number in found if number != self._own][:_MOST_POSTINGS]

    def telling(self, word: str) -> float:
        """How much a word tells a question from others, 0 when every third has it or no other."""
        own = self._own_words.get(word)
        return self._tells.get(word, 0.0) if own is None else own

    def similar(self, words: frozenset[str]) -> Similar | None:
        """What the statements of similar questions use; None when no question is similar enough."""
        weights = {word: weight for word in words if (weight := self.telling(word)) > 0}
        shared: dict[int, float] = defaultdict(float)
        for word in sorted(weights):
            square = weights[word] ** 2
            for number in self._numbers(word):
                shared[number] += square
        # Questions stand in the order of their digests, so that a number decides where two are equally near.
        nearest = nsmallest(_MOST_CANDIDATES, shared, key=lambda number: (-shared[number], number))
        own = sum(weight**2 for weight in weights.values())
        asked = self.catalogue.questions
        rated = nlargest(_MOST_SIMILAR, ((self._cosine(shared[n], own, asked[n]), n) for n in nearest))
        kept = [(nearness, asked[number]) for nearness, number in rated if nearness >= _LEAST_SIMILAR]
        if not kept:
            return None
        return Similar(kept[0][0], _expected(kept), tuple(kept))

    def _cosine(self, shared: float, own: float, other: Asked) -> float:
        own_words, tells, length = self._own_words, self._tells, 0.0
        for word in other.words:
            length += (own_words[word] if word in own_words else tells[word]) ** 2
        return shared / math.sqrt(own * length) if own > 0 and length > 0 else 0.0


def _expected(near: list[tuple[float, Asked]]) -> dict[Item, float]:
    """Weighted shares; the square lets near questions outweigh many far ones."""
    total = sum(nearness**2 * asked.weight for nearness, asked in near)
    found: dict[Item, float] = defaultdict(float)
    for nearness, asked in near:
        square = nearness**2
        for item, share in asked.shares.items():
            found[item] += square * share / total
    return found
