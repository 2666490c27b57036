"""Lessons from other questions: what their words went with, and what the statements of similar ones use."""

from __future__ import annotations

from collections.abc import Iterator

from stef.catalogue import View
from stef.catalogue.observation import COLUMN, FIGURE, LINK, ROLE, SHAPE, TABLE, Item
from stef.catalogue.snapshot import UNIT, Meant
from stef.evidence.facts import Signal
from stef.evidence.shown import FIRM, RARE, Shown, number

# From where on similar questions are expected to share a thing, and are near enough to be told.
EXPECTED, NEAR = 0.2, 0.4
# Questions with a word before it means anything.
_FEW = 3
# How much more often a column comes with a word than without, and the share that is told.
_TELLING, _SURELY = 2.0, 0.9
_ROLES = ("projected", "filtered", "aggregated", "ordered", "grouped")
COMPARED = {
    "tables": TABLE, "columns": COLUMN, "links": LINK, "roles": ROLE, "figures": FIGURE, "shape": SHAPE,
}  # fmt: skip


def words_meant(shown: Shown) -> Iterator[Signal]:
    """A word that in other questions went with a column which this statement does not use."""
    used = shown.of(COLUMN)
    support: dict[Item, float] = dict.fromkeys(used, 0.0)
    missed: list[tuple[float, float, str, Item]] = []
    for word, text in shown.words.items():
        telling = shown.view.telling(word)
        meant = shown.view.meant(word) if telling > 0 else None
        if meant is None or meant.questions < _FEW or meant.total == 0:
            continue
        for item in used:
            count, _ = meant.uses.get(item, (0, 0))
            support[item] = max(support[item], count / meant.total)
        firm = _firm(shown.view, meant)
        if firm and not any(item in support for _, item in firm):
            share, item = max(firm)
            missed.append((share, telling, text, item))
    if support:
        yield number("log_word_least", min(support.values()))
        yield number("log_word_mean", sum(support.values()) / len(support))
    share, _, text, item = max(missed, default=(0.0, 0.0, "", ()))
    yield number("log_word_missed", share)
    if share >= _SURELY:
        detail = f"{text!r} went with {item[1]}.{item[2]} in other questions, and the statement does not use it"
        yield Signal("log_word_other", share, "wrong_column", detail)


def _firm(view: View, meant: Meant) -> list[tuple[float, Item]]:
    """Columns that most questions with a word use, far more of them than without the word; with the share."""
    found, least = [], FIRM * meant.total
    for item, (count, whole) in meant.uses.items():
        if count >= least and item[0] == COLUMN:
            share = count / meant.total
            if share / (whole / UNIT / view.size) >= _TELLING:
                found.append((share, item))
    return found


def similar_uses(shown: Shown) -> Iterator[Signal]:
    """How far tables, columns, joins, figures and the shape agree with those of similar questions' statements."""
    similar = shown.similar
    if similar is None:
        return
    yield number("log_similar", similar.strength)
    for name, kind in COMPARED.items():
        own, expected = shown.of(kind), similar.expected[kind]
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
    roles: dict[str, dict[str, float]] = {role: {} for role in _ROLES}
    for (_, _, column, role), share in similar.expected[ROLE].items():
        expected = roles.setdefault(role, {})
        expected[column] = min(1.0, expected.get(column, 0.0) + share)
    for role in _ROLES:
        own, expected = _columns(shown, role), roles[role]
        if own:
            yield number(f"log_similar_{role}", sum(expected.get(name, 0.0) for name in own) / len(own))
        missed = [share for name, share in expected.items() if name not in own]
        if missed:
            yield number(f"log_similar_{role}_missed", max(missed))


def _columns(shown: Shown, role: str) -> list[str]:
    """Columns with which the statement does something, each once."""
    return sorted({item[2] for item in shown.of(ROLE) if item[3] == role})


def similar_filters(shown: Shown) -> Iterator[Signal]:
    """Filter columns that similar questions' statements do not filter by."""
    similar = shown.similar
    if similar is None or similar.strength < NEAR:
        return
    own = _columns(shown, "filtered")
    theirs = {item[2]: share for item, share in similar.expected[ROLE].items() if item[3] == "filtered"}
    firm = [name for name, share in sorted(theirs.items()) if share >= FIRM and name not in own]
    strange = [name for name in own if theirs.get(name, 0.0) <= RARE]
    if firm and strange:
        detail = f"similar questions are filtered by {firm[0]}, not by {strange[0]}"
        yield Signal("log_filters_unlike", 1.0, "wrong_column", detail)
