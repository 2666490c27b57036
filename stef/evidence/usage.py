"""Lessons from how the log uses tables and columns: how usual each is, with these words, and together with others.

Shares of the log throughout, never counts that grow with it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet

from stef.catalogue.observation import COLUMN, FIGURE, LINK, ROLE, SHAPE, TABLE, VALUE, Item
from stef.catalogue.snapshot import UNIT
from stef.evidence.facts import Signal
from stef.evidence.shown import TRACE, Shown, number

# Below this share of the questions nothing is told apart; in log terms what is unseen has it too.
_LEAST_SHARE = 0.002
# Questions that a word is thought to have been in with average columns, before it was counted.
_DOUBT = 2.0
# Tables and columns of a statement that are looked up two by two; a statement with more names more than anybody reads.
_MOST_TOGETHER = 60
_COMPARED = {
    "tables": TABLE, "columns": COLUMN, "links": LINK, "roles": ROLE, "figures": FIGURE, "shape": SHAPE,
    "values": VALUE,
}  # fmt: skip


def usual(shown: Shown) -> Iterator[Signal]:
    """How usual its columns, tables and links are, as logarithms of their shares; and how many are hardly known."""
    if shown.view.size <= 0:
        return
    for name, items in (("column", _columns(shown)), ("table", _tables(shown)), ("link", list(shown.links))):
        yield from _summary(f"log_usual_{name}", [_rarity(shown, item) for item in items])
    columns = [shown.view.used(item) for item in _columns(shown)]
    yield number("log_columns_unseen", sum(seen <= TRACE for seen in columns))
    yield number("log_columns_once", sum(seen < 1 for seen in columns))
    yield number("log_columns_unplaced", sum(not item[1] for item in shown.of(COLUMN)))
    yield number("log_links_once", sum(shown.view.used(item) < 1 for item in shown.links))


def usual_roles(shown: Shown) -> Iterator[Signal]:
    """How usual it is to do with its columns what the statement does, over all of them."""
    found = []
    for item in shown.of(ROLE):
        if item[1] and item[3] != "passed":
            whole = max(shown.view.used((COLUMN, item[1], item[2])), 0.1)
            found.append(math.log(max(shown.view.used(item) / whole, 0.02)))
    yield from _summary("log_usual_role", found)


def _columns(shown: Shown) -> list[Item]:
    return [(COLUMN, table, column) for table, column in shown.columns]


def _tables(shown: Shown) -> list[Item]:
    return [(TABLE, table) for table in shown.tables]


def _rarity(shown: Shown, item: Item) -> float:
    return math.log(max(shown.view.used(item) / shown.view.size, _LEAST_SHARE))


def _summary(name: str, values: list[float]) -> Iterator[Signal]:
    if values:
        yield number(f"{name}_least", min(values))
        yield number(f"{name}_mean", sum(values) / len(values))


def fitting(shown: Shown) -> Iterator[Signal]:
    """How well its columns and tables fit the words of the question, against those that would fit better.

    The log-odds that a question with these words uses a thing: its share, and for each word how much more often it
    comes with the word. What is left out is compared with what is used.
    """
    if shown.view.size <= 0:
        return
    columns, tables = _columns(shown), _tables(shown)
    fitness, best = _fitness(shown, {*columns, *tables})
    for name, items in (("column", columns), ("table", tables)):
        if not items:
            continue
        yield from _summary(f"log_word_lift_{name}", [best.get(item, 0.0) for item in items])
        fits = [fitness[item] if item in fitness else _rarity(shown, item) for item in items]
        yield from _summary(f"log_fit_{name}", fits)
        kind = items[0][0]
        rest = [fit for item, fit in fitness.items() if item[0] == kind and item not in best]
        if rest:
            yield number(f"log_fit_{name}_regret", max(rest) - max(fits))
            yield number(f"log_fit_{name}_gap", max(rest) - min(fits))


def _fitness(shown: Shown, own: AbstractSet[Item]) -> tuple[Mapping[Item, float], Mapping[Item, float]]:
    """Item → how well it fits, of what came with a telling word of the question; and the largest lift of each own one.

    A lift is the logarithm of (count + share × doubt) ÷ (total + doubt) ÷ share, taken apart: it is asked for often.
    """
    view, fitness, best = shown.view, dict[Item, float](), dict.fromkeys(own, 0.0)
    size, log = view.size, math.log
    for word in sorted(shown.own.words):
        meant = view.meant(word) if view.telling(word) > 0 else None
        if meant is None or meant.total < _DOUBT * UNIT:
            continue
        usual = log(meant.total / UNIT + _DOUBT)
        for item, (count, whole) in meant.uses.items():
            if count > 0:
                lift = log(count / whole * size + _DOUBT) - usual
                before = fitness.get(item)
                fitness[item] = lift + (log(max(whole / UNIT / size, _LEAST_SHARE)) if before is None else before)
                if item in own:
                    best[item] = max(best[item], lift)
    return fitness, best


def together(shown: Shown) -> Iterator[Signal]:
    """How often other questions use its columns, and its tables, two by two in one statement."""
    for name, items in (("columns", _columns(shown)), ("tables", _tables(shown))):
        some = items[:_MOST_TOGETHER]
        pairs = [(one, other) for place, one in enumerate(some) for other in some[:place]]
        yield from _summary(f"log_together_{name}", [shown.view.together(*pair) for pair in pairs])


def resembling(shown: Shown) -> Iterator[Signal]:
    """How much the statement is like those of similar questions, kind by kind: the best and the mean resemblance."""
    similar = shown.similar
    if similar is None:
        return
    for name, kind in _COMPARED.items():
        own, found = shown.of(kind), []
        for nearness, asked in similar.near:
            theirs = asked.of(kind)
            whole = sum(theirs.values())
            if own or whole:
                shared = sum([theirs[item] for item in own if item in theirs])
                # Jaccard's, with shares: what both have over what either has.
                either = whole + len(own) * asked.weight - shared
                found.append((nearness**3, shared / either if either > 0 else 0.0))
        weight = sum(nearness for nearness, _ in found)
        if weight > 0:
            yield number(f"log_like_{name}_best", max(value for _, value in found))
            yield number(f"log_like_{name}", sum(nearness * value for nearness, value in found) / weight)
