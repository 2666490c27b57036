"""Catalogue files: what `stef catalogue` reads and writes, and lists of tables and columns."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from stef.catalogue import Learners, Where, declared, declared_rows, from_plain, to_plain
from stef.errors import InputError


def load(path: str, key: str, *, create: bool = False) -> Learners:
    """The catalogue of a file.

    Args:
        path: Of the file.
        key: Secret under which it was made.
        create: Give an empty one when there is no file.

    Raises:
        InputError: It cannot be read, is no catalogue, or was made with another key.
    """
    if create and not Path(path).exists():
        return Learners(key)
    try:
        plain = json.loads(_text(path))
        if not isinstance(plain, dict):
            raise ValueError("found no object; allowed: what stef catalogue build writes")  # noqa: TRY004, TRY301
        return from_plain(plain, key=key)
    except ValueError as error:
        raise _wrong(path, str(error)) from error


def save(path: str, learners: Learners) -> None:
    """Write a catalogue whole or not at all.

    Raises:
        InputError: The path cannot be written.
    """
    beside = Path(f"{path}.new")
    try:
        beside.write_text(json.dumps(to_plain(learners), ensure_ascii=False, separators=(",", ":")), encoding="utf-8")
        beside.replace(path)
    except OSError as error:
        raise InputError(path, "", error.strerror or str(error), "a path that can be written") from error


def gather(path: str, key: str, *, app: str = "", database: str = "") -> Learners:
    """What a file gives: another catalogue, or lists of tables.

    Args:
        path: Of the file.
        key: Secret under which a catalogue was made.
        app: Application that a list is of, in place of the one that it names.
        database: The same for its database.

    Raises:
        InputError: It cannot be read, or is neither.
    """
    learners = Learners(key)
    text = _text(path)
    try:
        if not text.lstrip().startswith(("{", "[")):
            _declare(learners, Where(app, database), declared_rows(text))
            return learners
        for plain in _documents(text):
            if isinstance(plain, dict) and "stef_catalogue" in plain:
                add(learners, from_plain(plain, key=key))
            else:
                named = plain if isinstance(plain, dict) and "tables" in plain else {}
                where = Where(app or str(named.get("app", "")), database or str(named.get("database", "")))
                _declare(learners, where, declared(plain))
    except ValueError as error:
        raise _wrong(path, str(error)) from error
    return learners


def add(learners: Learners, others: Learners) -> None:
    """Add what others have counted and declared; both have one key."""
    for where, other in others.learners.items():
        learner = learners.of(where)
        if learner is not None:
            learner.merge(other)


def _documents(text: str) -> list[Any]:
    """One JSON document, or one on each line."""
    try:
        return [json.loads(text)]
    except json.JSONDecodeError:
        return [json.loads(line) for line in text.splitlines() if line.strip()]


def _declare(learners: Learners, where: Where, tables: Mapping[str, Sequence[str]]) -> None:
    learner = learners.of(where)
    if learner is not None:
        learner.declare(tables)


def _text(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(path, "", error.strerror or str(error), "a file that can be read") from error


def _wrong(path: str, what: str) -> InputError:
    found, _, allowed = what.partition("; allowed: ")
    return InputError(path, "", found, allowed or "a catalogue, or a list of tables")
