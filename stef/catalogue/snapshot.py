"""A catalogue, frozen: what a log has shown of one database, and how to ask it without a record's own question."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from heapq import nlargest
from itertools import chain
from types import MappingProxyType

from stef.catalogue.observation import COLUMN, FIGURE, LINK, ROLE, SHAPE, TABLE, Item

# What one question that uses a thing in each of its answers counts; whole numbers, so that taking one out is exact.
UNIT = 1_000_000
# Distinct questions before a catalogue says anything, and before it says anything about a table.
ENOUGH, ENOUGH_OF_TABLE = 8, 6
# Words in more questions than this share tell nothing, once there are enough questions to say so.
_COMMON = 0.3
# Most questions that one word is followed to, most questions that count as similar.
_MOST_POSTINGS, _MOST_CANDIDATES, _MOST_SIMILAR = 200, 40, 12
_LEAST_SIMILAR = 0.15
# What a word may mean, and what similar questions are expected to share.
_MEANT = (COLUMN, TABLE)
_EXPECTED = (TABLE, COLUMN, LINK, ROLE, FIGURE, SHAPE)
_NONE: Mapping[Item, int] = MappingProxyType({})
# A question counts as one that uses a thing from this share of its answers on.
_USES = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One distinct question of the log.

    Attributes:
        digest: Of the question.
        words: Marks of its words.
        weight: 0 to `UNIT`; less for what is long ago.
        shares: Kind → item of that kind → `weight` times the share of the answers that use it.
    """

    digest: str
    words: frozenset[str]
    weight: int
    shares: Mapping[str, Mapping[Item, int]]

    def of(self, kind: str) -> Mapping[Item, int]:
        """The shares of one kind."""
        return self.shares.get(kind, _NONE)


@dataclass(frozen=True, slots=True)
class Meant:
    """What the statements of questions with one word use.

    Attributes:
        questions: How many.
        total: Their weights.
        uses: Table or column → its shares in them, and its shares in all questions.
    """

    questions: int
    total: int
    uses: Mapping[Item, tuple[int, int]]


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
        users: Table or column → numbers of the questions that use it.
        lengths: For each question the sum of the squares of `telling` over its words.
        lengths_beside: The same of `beside`.
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
    lengths: tuple[float, ...]
    lengths_beside: tuple[float, ...]
    _meant: dict[str, Meant] = field(default_factory=dict, compare=False, repr=False)

    def meant(self, word: str) -> Meant:
        """What the first questions with a word use; counted when it is first asked for, and kept."""
        found = self._meant.get(word)
        if found is None:
            numbers = self.postings.get(word, ())[:_MOST_POSTINGS]
            counts: dict[Item, int] = defaultdict(int)
            for kind, number in ((kind, number) for kind in _MEANT for number in numbers):
                for item, share in self.questions[number].of(kind).items():
                    if item[1]:
                        counts[item] += share
            total = sum(self.questions[number].weight for number in numbers)
            uses = {item: (count, self.used[item]) for item, count in counts.items()}
            found = self._meant[word] = Meant(len(numbers), total, uses)
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
        for item, share in chain.from_iterable(found.items() for found in asked.shares.values()):
            used[item] += share
        for word in asked.words:
            postings[word].append(number)
    within: dict[tuple[str, ...], list[Item]] = defaultdict(list)
    for item in sorted(used):
        for group in _groups(item):
            within[group].append(item)
    telling = {word: _telling(len(found), len(ordered)) for word, found in postings.items()}
    beside = {word: _telling(len(found), len(ordered) - 1) for word, found in postings.items()}
    return Catalogue(
        digest=digest,
        key=key,
        questions=ordered,
        texts=MappingProxyType(dict(texts)),
        declared=MappingProxyType(dict(declared)),
        total=sum(asked.weight for asked in ordered),
        used=dict(used),
        postings=MappingProxyType({word: tuple(found) for word, found in postings.items()}),
        within=MappingProxyType({group: tuple(items) for group, items in within.items()}),
        places=MappingProxyType({asked.digest: number for number, asked in enumerate(ordered)}),
        telling=telling,
        beside=beside,
        users=MappingProxyType(_users(ordered)),
        lengths=tuple(sum(telling[word] ** 2 for word in sorted(asked.words)) for asked in ordered),
        lengths_beside=tuple(sum(beside[word] ** 2 for word in sorted(asked.words)) for asked in ordered),
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
        for item, share in chain.from_iterable(asked.of(kind).items() for kind in _MEANT):
            if share >= _USES * asked.weight:
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
        case ("role", table, _, "joined"):
            return [("joined", table)]
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
        near: The questions with their nearness, 0 to 1, nearest first.
        expected: Kind → item → 0 to 1: share of the similar questions' answers that use it, nearer ones counting more.
    """

    strength: float
    near: tuple[tuple[float, Asked], ...]
    expected: Mapping[str, Mapping[Item, float]]


class View:
    """A catalogue without one question; counts are in questions, weighted by age.

    Args:
        catalogue: The whole.
        own: Number of the question that is left out; None when it has none.
    """

    def __init__(self, catalogue: Catalogue, own: int | None) -> None:
        self.catalogue = catalogue
        self._own = own
        self._used = catalogue.used
        self._mine: dict[Item, int] = {}
        self._meaning: dict[Item, int] = {}
        # Words of the own question: one less of the others has them.
        self._own_words: dict[str, float] = {}
        self._tells, self._lengths, mine = catalogue.telling, catalogue.lengths, 0
        if own is not None:
            asked = catalogue.questions[own]
            mine = asked.weight
            self._tells, self._lengths = catalogue.beside, catalogue.lengths_beside
            self._mine = {item: share for found in asked.shares.values() for item, share in found.items()}
            self._meaning = {item: share for kind in _MEANT for item, share in asked.of(kind).items()}
            for word in asked.words:
                self._own_words[word] = _telling(len(catalogue.postings[word]) - 1, len(catalogue.questions) - 1)
        self._meant: dict[str, Meant] = {}
        self.size = (catalogue.total - mine) / UNIT

    @property
    def knows_enough(self) -> bool:
        """Whether it has seen enough to say anything; with a declared schema it need not."""
        return self.size >= ENOUGH or bool(self.catalogue.declared)

    def used(self, item: Item) -> float:
        """In how many questions something was used."""
        count = self._used.get(item, 0)
        return (count - self._mine.get(item, 0)) / UNIT if count else 0.0

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

    def columns(self, table: str) -> tuple[str, ...]:
        """Columns that were seen on a table, the most used first, then those that were only declared."""
        seen = sorted(self.below("columns", table), key=lambda item: (-self.used(item), item))
        declared = sorted(self.catalogue.declared.get(table, frozenset()))
        return tuple(dict.fromkeys((*(item[2] for item in seen), *declared)))

    def tables(self) -> tuple[str, ...]:
        """Tables of which enough is known, the most used first, and those that were declared."""
        used = sorted((-self.used(item), item[1]) for item in self.catalogue.used if item[0] == TABLE)
        return tuple(dict.fromkeys((*(name for _, name in used if self.knows_table(name)), *self.catalogue.declared)))

    def tables_with(self, column: str) -> tuple[str, ...]:
        """Tables on which a column was seen or declared."""
        seen = (item[1] for item in self.below("tables", column) if item[1])
        declared = (table for table, columns in self.catalogue.declared.items() if column in columns)
        return tuple(dict.fromkeys((*seen, *declared)))

    def below(self, *group: str) -> tuple[Item, ...]:
        """Items of a group that a question other than the own has used."""
        return tuple(item for item in self.catalogue.within.get(group, ()) if self.used(item) > 0)

    def meant(self, word: str) -> Meant:
        """What the first questions with a word use, the own one left out."""
        found = self._meant.get(word)
        if found is None:
            found = self.catalogue.meant(word)
            if self._own is not None:
                found = self._without_own(word, found, self._own)
            self._meant[word] = found
        return found

    def _without_own(self, word: str, found: Meant, own: int) -> Meant:
        uses = dict(found.uses)
        counted = word in self._own_words and own in self.catalogue.postings[word][:_MOST_POSTINGS]
        for item, mine in self._meaning.items():
            if item in uses:
                count, whole = uses[item]
                uses[item] = (count - mine if counted else count, whole - mine)
        if not counted:
            return Meant(found.questions, found.total, uses)
        return Meant(found.questions - 1, found.total - self.catalogue.questions[own].weight, uses)

    def together(self, one: Item, other: Item) -> float:
        """Share of the questions that use the rarer of two things which use both; 0 when one is never used."""
        users, own = self.catalogue.users, self._own
        first, second = users.get(one, frozenset()), users.get(other, frozenset())
        fewer = min(len(first) - (own in first), len(second) - (own in second))
        if fewer == 0:
            return 0.0
        both = first & second
        return (len(both) - (own in both)) / fewer

    def telling(self, word: str) -> float:
        """How much a word tells a question from others, 0 when every third has it or no other."""
        own = self._own_words.get(word)
        return self._tells.get(word, 0.0) if own is None else own

    def similar(self, words: frozenset[str]) -> Similar | None:
        """What the statements of similar questions use; None when no question is similar enough."""
        weights = {word: weight for word in words if (weight := self.telling(word)) > 0}
        own = sum(weight**2 for weight in weights.values())
        shorter = {word: weight**2 - self._tells[word] ** 2 for word, weight in self._own_words.items()}
        asked, own_words, rated = self.catalogue.questions, frozenset(shorter), []
        for number, shared in self._candidates(weights):
            length = self._lengths[number] + sum(map(shorter.__getitem__, own_words & asked[number].words))
            if own > 0 and length > 0:
                # Rounded, so that of two equally near ones the number decides, and not the order of a sum.
                rated.append((round(shared / math.sqrt(own * length), 12), number))
        near = [(nearness, asked[n]) for nearness, n in nlargest(_MOST_SIMILAR, rated) if nearness >= _LEAST_SIMILAR]
        return Similar(near[0][0], tuple(near), _expected(near)) if near else None

    def _candidates(self, weights: Mapping[str, float]) -> list[tuple[int, float]]:
        """Numbers of the questions that share most with weighted words, and how much."""
        shared: dict[int, float] = {}
        postings, own = self.catalogue.postings, self._own
        for word in sorted(weights):
            square = weights[word] ** 2
            found = postings.get(word, ())
            if len(found) > _MOST_POSTINGS:
                found = tuple(number for number in found[: _MOST_POSTINGS + 1] if number != own)[:_MOST_POSTINGS]
            for number in found:
                shared[number] = shared.get(number, 0.0) + square
        if own is not None:
            shared.pop(own, None)
        if len(shared) <= _MOST_CANDIDATES:
            return list(shared.items())
        least = sorted(shared.values(), reverse=True)[_MOST_CANDIDATES - 1]
        # Questions stand in the order of their digests, so that a number decides where two share as much.
        enough = sorted((-much, number) for number, much in shared.items() if much >= least)
        return [(number, -much) for much, number in enough[:_MOST_CANDIDATES]]


def _expected(near: list[tuple[float, Asked]]) -> dict[str, dict[Item, float]]:
    """Weighted shares; the square lets near questions outweigh many far ones."""
    total = sum(nearness**2 * asked.weight for nearness, asked in near)
    expected: dict[str, dict[Item, float]] = {}
    weights = [(nearness**2 / total, asked.shares) for nearness, asked in near]
    for kind in _EXPECTED:
        found = expected[kind] = {}
        for weight, shares in weights:
            for item, share in shares.get(kind, _NONE).items():
                found[item] = found.get(item, 0.0) + weight * share
    return expected
