"""Edits of a text: what stands for what, and where a place of the text is afterwards."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Edit:
    """Characters `[start, end)` of a text that something else stands for."""

    start: int
    end: int
    text: str


def applied(text: str, edits: Iterable[Edit]) -> str:
    """A text with its edits made; they are in order, none over another."""
    parts: list[str] = []
    done = 0
    for edit in edits:
        parts += [text[done : edit.start], edit.text]
        done = edit.end
    return "".join([*parts, text[done:]]) if parts else text


def moved(place: int, edits: Iterable[Edit], *, end: bool = False) -> int:
    """Where a place of a text is after the edits; inside of what was replaced, its start or its end."""
    shift = 0
    for edit in edits:
        if edit.start >= place:
            break
        if place < edit.end:
            return edit.start + shift + (len(edit.text) if end else 0)
        shift += len(edit.text) - (edit.end - edit.start)
    return place + shift


def fitting(edits: Iterable[Edit], taken: Iterable[Edit]) -> list[Edit]:
    """What is taken, and the longest of what begins first where nothing of it is taken."""
    held = list(taken)
    for edit in sorted(edits, key=lambda edit: (edit.start, -edit.end)):
        if all(edit.end <= other.start or edit.start >= other.end for other in held):
            held.append(edit)
    return held
