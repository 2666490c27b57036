"""Reads labels out of a file: CSV as spreadsheets write it, or JSON lines. A wrong line costs no other its label."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from stef.errors import InputError, nearest
from stef.ingest.moments import moment
from stef.label import Given

# Name in the file → what it is; the first of several that a line has a value for.
_COLUMNS: Mapping[str, tuple[str, ...]] = {
    "event": ("event_key", "event_id", "event"),
    "label": ("label",),
    "source": ("source",),
    "note": ("note",),
    "at": ("time",),
    "agent_version": ("agent_version",),
    "content_digest": ("content_digest",),
}
_NAMES = frozenset(name for names in _COLUMNS.values() for name in names)
_WORDS = {
    **dict.fromkeys(("1", "1.0", "true", "right", "correct"), True),
    **dict.fromkeys(("0", "0.0", "false", "wrong", "incorrect"), False),
}
_ALLOWED = "1, true, right, correct, or 0, false, wrong, incorrect"
_LONGEST_SOURCE = 100
# A note may go over several lines; without a bound a quote that is never closed would take all the rest.
_MOST_LINES = 200
# Clocks differ.
_AHEAD = timedelta(days=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelFile:
    """What a file holds.

    Attributes:
        labels: In their order.
        wrong: Lines that hold no label: where, what was found, what is allowed.
        blank: Lines whose label is still empty.
        unused: Columns that say nothing of a label, by name.
    """

    labels: tuple[Given, ...]
    wrong: tuple[InputError, ...] = ()
    blank: int = 0
    unused: tuple[str, ...] = ()


@dataclass(slots=True)
class _Reading:
    """What is known while a file is read."""

    path: str
    source: str
    now: datetime
    labels: list[Given] = field(default_factory=list)
    wrong: list[InputError] = field(default_factory=list)
    blank: int = 0
    unused: set[str] = field(default_factory=set)

    def complain(self, line: int, found: str, allowed: str) -> None:
        self.wrong.append(InputError(self.path, f"line {line}", found, allowed))

    def add(self, line: int, values: Mapping[str, Any]) -> None:
        """Take the label of one line, or say what is wrong with it."""
        folded = {fold(name): value for name, value in values.items()}
        self.unused |= folded.keys() - _NAMES
        if folded.get("label") is None or not str(folded["label"]).strip():
            self.blank += 1
            return
        try:
            self.labels.append(_given(folded, self.source, self.now))
        except _WrongError as error:
            self.complain(line, error.found, error.allowed)


class _WrongError(Exception):
    """A line holds no label."""

    def __init__(self, found: str, allowed: str) -> None:
        super().__init__(found)
        self.found, self.allowed = found, allowed


def read(content: bytes, path: str, *, source: str, now: datetime) -> LabelFile:
    """Read the labels of a file.

    Args:
        content: UTF-8. JSON lines when the first character is `{`, else CSV with a head, parted by comma, semicolon
            or tab.
        path: Its name, for what is said about it.
        source: Who labelled, where a line does not say.
        now: Aware; no label is from later.

    Raises:
        InputError: It is a CSV file without the columns that are needed.
    """
    text = content.decode("utf-8-sig", "surrogateescape").replace("\r\n", "\n").replace("\r", "\n")
    reading = _Reading(path, fold_source(source), now)
    if text.lstrip().startswith("{"):
        _read_json(text.split("\n"), reading)
    else:
        _read_csv(text.split("\n"), reading)
    return LabelFile(
        labels=tuple(reading.labels),
        wrong=tuple(reading.wrong),
        blank=reading.blank,
        unused=tuple(sorted(filter(None, reading.unused))),
    )


def fold(name: object) -> str:
    """A column's name as it is looked up: case, spaces and hyphens do not count."""
    return "_".join(str(name).lower().replace("-", " ").replace("_", " ").split())


def fold_source(text: str) -> str:
    """A source as it is counted: one name in one spelling."""
    return " ".join(text.split()).casefold()


def _read_json(lines: Sequence[str], reading: _Reading) -> None:
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            values = json.loads(line)
        except (ValueError, RecursionError):
            reading.complain(number, "no JSON", "an object with event_key and label")
            continue
        if isinstance(values, dict):
            reading.add(number, values)
        else:
            reading.complain(number, type(values).__name__, "an object with event_key and label")


def _read_csv(lines: Sequence[str], reading: _Reading) -> None:
    rows = _rows(lines, reading)
    head = next(rows, None)
    if head is None:
        return
    columns = [fold(name) for name in head[1]]
    _check(columns, reading.path)
    for number, row in rows:
        if any(row[len(columns) :]):
            reading.complain(number, f"{len(row)} values", f"{len(columns)}, as in the head")
        else:
            reading.add(number, dict(zip(columns, row, strict=False)))


def _rows(lines: Sequence[str], reading: _Reading) -> Iterator[tuple[int, list[str]]]:
    """The rows with their lines; where quotes do not match, reading goes on at the next line."""
    first = next((line for line in lines if line.strip()), "")
    delimiter = max(",;\t", key=first.count)
    start = 0
    while start < len(lines):
        if not lines[start].strip():
            start += 1
            continue
        end = min(len(lines), start + _MOST_LINES)
        reader = csv.reader((lines[place] + "\n" for place in range(start, end)), delimiter=delimiter, strict=True)
        try:
            row = next(reader)
        except csv.Error as error:
            reading.complain(start + 1, str(error), "values with matching quotes")
            start += 1
        else:
            yield start + 1, row
            start += reader.line_num


def _check(columns: Sequence[str], path: str) -> None:
    """A head must have a column for the event and one for the label."""
    for names in (_COLUMNS["event"], _COLUMNS["label"]):
        if not set(names) & set(columns):
            close = nearest(names[0], columns)
            raise InputError(path, "line 1", f"no column {names[0]} among {close}", " or ".join(names))
    twice = sorted(name for name in set(columns) & _NAMES if columns.count(name) > 1)
    if twice:
        raise InputError(path, "line 1", f"two columns {twice[0]}", "each column once")


def _given(values: Mapping[str, Any], default: str, now: datetime) -> Given:
    event = _text(values, "event")
    if not event:
        raise _WrongError("no event", "its key or id under event_key or event_id")
    return Given(
        event=event,
        right=_right(values.get("label")),
        source=_source(_text(values, "source"), default),
        at=_at(values.get("time"), now),
        note=_text(values, "note"),
        agent_version=_text(values, "agent_version"),
        content_digest=_text(values, "content_digest"),
    )


def _text(values: Mapping[str, Any], kind: str) -> str:
    """The first value under the names of a kind, stripped; "" for none."""
    for name in _COLUMNS[kind]:
        value = values.get(name)
        if isinstance(value, bool) or not isinstance(value, str | int | float | None):
            raise _WrongError(f"{name} {json.dumps(value)[:50]}", "text")
        text = "" if value is None else str(value).strip()
        if not text.isprintable() and any("\ud800" <= letter <= "\udfff" for letter in text):
            raise _WrongError(f"{name} of bytes that are no UTF-8", "text in UTF-8")
        if text:
            return text
    return ""


def _right(value: object) -> bool:
    if isinstance(value, bool):
        return value
    right = _WORDS.get(str(value).strip().casefold())
    if right is None:
        raise _WrongError(f"label {str(value)[:50]!r}", _ALLOWED)
    return right


def _source(text: str, default: str) -> str:
    if len(text) > _LONGEST_SOURCE:
        raise _WrongError(f"a source of {len(text)} characters", f"{_LONGEST_SOURCE} at most")
    return fold_source(text) or default


def _at(value: object, now: datetime) -> datetime | None:
    if value is None or value == "":
        return None
    found = moment(value)
    if found is None:
        raise _WrongError(f"time {str(value)[:50]!r}", "a time such as 2026-11-30T09:00:00Z")
    if found > now + _AHEAD:
        raise _WrongError(f"time {found.isoformat()}, which is yet to come", "a time that has been")
    return found
