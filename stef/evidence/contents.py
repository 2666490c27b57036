"""Lessons about the values that columns take."""

from __future__ import annotations

from collections.abc import Iterator

from stef.catalogue.observation import LINK, TYPE, Item
from stef.evidence.facts import Signal
from stef.evidence.shown import RARE, TRACE, Shown, number


def values_elsewhere(shown: Shown) -> Iterator[Signal]:
    """A value that this column hardly ever had, and that is known under another one."""
    known = 0.0
    for value in shown.values:
        _, table, column, folded, _ = value
        here = sum(shown.view.used(item) for item in shown.view.below("spellings", table, column, folded))
        known += min(1.0, here)
        if here > 1:
            continue
        best = _other_column(shown, value)
        if best is not None:
            detail = f"{shown.text(value)!r} is known as a value of {best[1]}.{best[2]}, not of {table}.{column}"
            yield Signal("log_value_elsewhere", 1.0, "wrong_column", detail)
        elif here <= TRACE and shown.view.below("values of", table, column):
            yield number("log_value_new", 1.0)
    if shown.values:
        yield number("log_value_known", known / len(shown.values))


def _other_column(shown: Shown, value: Item) -> Item | None:
    """The column that a value is best known under; None when one that has it is joined with this one."""
    _, table, column, folded, _ = value
    found = [
        item
        for item in shown.view.below("values", folded)
        if item[1] and item[1:3] != (table, column) and shown.view.used(item) >= 1
    ]
    keys = (sorted((f"{table}.{column}", f"{item[1]}.{item[2]}")) for item in found)
    if any(shown.view.used((LINK, left, right)) > 0 for left, right in keys):
        return None
    return max(found, key=lambda item: (shown.view.used(item), item), default=None)


def spellings(shown: Shown) -> Iterator[Signal]:
    """A value in other letters, capital or small, than most others write it for that column."""
    for value in shown.values:
        _, table, column, folded, _ = value
        variants = shown.view.below("spellings", table, column, folded)
        mine = shown.view.used(value)
        best = max(variants, key=shown.view.used, default=value)
        if best != value and shown.view.used(best) > 2 * mine:
            usual = shown.view.catalogue.texts.get(best[4])
            instead = f"{usual!r}" if usual else "it in other capitals"
            detail = f"{shown.text(value)!r} in {table}.{column}, where others write {instead}"
            yield Signal("log_spelling", 1.0, "wrong_value", detail)


def types(shown: Shown) -> Iterator[Signal]:
    """A value of another type than those that the column is compared with elsewhere."""
    for item in shown.of(TYPE):
        if not item[1]:
            continue
        others = shown.view.below("types", item[1], item[2])
        total = sum(shown.view.used(other) for other in others)
        if total >= 2 and shown.view.used(item) <= RARE * total:
            best = max(others, key=shown.view.used)
            detail = f"{item[1]}.{item[2]} is compared with a {item[3]}, elsewhere with a {best[3]}"
            yield Signal("log_type", 1.0, "wrong_value", detail)
