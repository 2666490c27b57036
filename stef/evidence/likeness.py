"""Lessons from other questions: what their words went with, and what the statements of similar ones use."""

from __future__ import annotations

from collections.abc import Iterator

from stef.catalogue import View
from stef.catalogue.observation import COLUMN, FIGURE, LINK, ROLE, SHAPE, TABLE, Item
from stef.evidence.facts import Signal
from stef.evidence.shown import FIRM, RARE, Shown, number

# From where on similar questions are expected to share a thing, and are near enough to be told.
EXPECTED, NEAR = 0.2, 0.4
# How much more often a column comes with a word than without, and the share that is told.
_TELLING, _SURELY = 2.0, 0.9
COMPARED = {
    "tables": TABLE, "columns": COLUMN, "links": LINK, "roles": ROLE, "figures": FIGURE, "shape": SHAPE,
}  # fmt: skip


def words_meant(shown: Shown) -> Iterator[Signal]:
    """A word that in other questions went with a column which this statement does not use."""
    used = sorted(item for item in shown.items if item[0] == COLUMN)
    support: dict[Item, float] = dict.fromkeys(used, 0.0)
    missed: list[tuple[float, float, str, Item]] = []
    for word, text in shown.words.items():
        usual = _usual(shown.view, word)
        for item in used:
            support[item] = max(support[item], usual.get(item, (0.0, 0.0))[0])
        firm = [(share, item) for item, (share, lift) in usual.items() if share >= FIRM and lift >= _TELLING]
        if firm and not any(item in used for _, item in firm):
            share, item = max(firm)
            missed.append((share, shown.view.telling(word), text, item))
    if support:
        yield number("log_word_least", min(support.values()))
        yield number("log_word_mean", sum(support.values()) / len(support))
    share, _, text, item = max(missed, default=(0.0, 0.0, "", ()))
    yield number("log_word_missed", share)
    if share >= _SURELY:
        detail = f"{text!r} went with {item[1]}.{item[2]} in other questions, and the statement does not use it"
        yield Signal("log_word_other", share, "wrong_column", detail)


def _usual(view: View, word: str) -> dict[Item, tuple[float, float]]:
    """Column → share of the questions with a word that use it, and how much more than without the word."""
    if view.telling(word) == 0:
        return {}
    asked = view.asked_with(word)
    total = sum(other.weight for other in asked)
    if len(asked) < 3 or total == 0:
        return {}
    counts: dict[Item, int] = {}
    for other in asked:
        for item, share in other.columns:
            counts[item] = counts.get(item, 0) + share
    found = {}
    for item, count in counts.items():
        general = view.used(item) / view.size
        found[item] = (count / total, count / total / general if general > 0 else 1.0)
    return found


def similar_uses(shown: Shown) -> Iterator[Signal]:
    """How far tables, columns, joins, figures and the shape agree with those of similar questions' statements."""
    similar = shown.similar
    if similar is None:
        return
    yield number("log_similar", similar.strength)
    for name, kind in COMPARED.items():
        own = sorted(item for item in shown.items if item[0] == kind)
        expected = {item: share for item, share in similar.expected.items() if item[0] == kind}
        if own and expected:
            yield number(f"log_similar_{name}", sum(expected.get(item, 0.0) for item in own) / len(own))
        whole = sum(share for share in expected.values() if share >= EXPECTED)
        if whole > 0:
            missed = sum(share for item, share in expected.items() if share >= EXPECTED and item not in own)
            yield number(f"log_similar_{name}_missed", missed / whole)
        if kind in {TABLE, COLUMN}:
            yield number(f"log_similar_{name}_more", min(3.0, max(-3.0, len(own) - sum(expected.values()))))


def similar_roles(shown: Shown) -> Iterator[Signal]:
    """The same for what is done with the columns, by role."""
    similar = shown.similar
    if similar is None:
        return
    for role in ("projected", "filtered", "aggregated", "ordered", "grouped"):
        own = sorted({item[2] for item in shown.items if item[0] == ROLE and item[3] == role})
        expected: dict[str, float] = {}
        for item, share in similar.expected.items():
            if item[0] == ROLE and item[3] == role:
                expected[item[2]] = min(1.0, expected.get(item[2], 0.0) + share)
        if own:
            yield number(f"log_similar_{role}", sum(expected.get(name, 0.0) for name in own) / len(own))
        missed = [share for name, share in expected.items() if name not in own]
        if missed:
            yield number(f"log_similar_{role}_missed", max(missed))


def similar_filters(shown: Shown) -> Iterator[Signal]:
    """Filter columns that similar questions' statements do not filter by."""
    similar = shown.similar
    if similar is None or similar.strength < NEAR:
        return
    own = {item[2] for item in shown.items if item[0] == ROLE and item[3] == "filtered"}
    theirs = {item[2]: share for item, share in similar.expected.items() if item[0] == ROLE and item[3] == "filtered"}
    firm = [name for name, share in sorted(theirs.items()) if share >= FIRM and name not in own]
    strange = sorted(name for name in own if theirs.get(name, 0.0) <= RARE)
    if firm and strange:
        detail = f"similar questions are filtered by {firm[0]}, not by {strange[0]}"
        yield Signal("log_filters_unlike", 1.0, "wrong_column", detail)
