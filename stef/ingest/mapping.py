"""The field mapping of a consumer: where its messages keep what a record needs.

    question: payload.request.text
    sql: [payload.answer.sql, "payload.steps[-1].sql"]
    expanded_question: "payload.steps[*].rewritten"
    dialect: {value: snowflake}
    metadata.team: $headers.team

A path is names with dots between them; a name that has a dot itself stands in brackets and quotes (`["gen_ai.prompt"]`)
or as it is. `[0]` is the first member of a list, `[-1]` the last, `[*]` the first that has the rest of the path. JSON
in a text is looked into. `$headers.<name>`, `$key` and `$topic` are the transport's.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from stef.errors import nearest
from stef.ingest.decode import opened
from stef.ingest.draft import Draft, Object
from stef.ingest.telemetry import attributes_of
from stef.record import Message, QueryRecord

TARGETS: Final = tuple(name for name in QueryRecord.model_fields if name != "metadata")
_EXTRA = "metadata."
_STEP = re.compile(
    r"""\.?(?:\[(?P<index>-?\d{1,9}|\*)\]|\[(?P<quote>["'])(?P<quoted>.+?)(?P=quote)\]|(?P<name>[^.\[\]]+))"""
)


class _Absent:
    """Nothing stands at a path."""


_ABSENT: Final = _Absent()


@dataclass(frozen=True, slots=True)
class Path:
    """One path: names, indices, and None for `[*]`."""

    text: str
    steps: tuple[str | int | None, ...]

    @classmethod
    def of(cls, text: str) -> Path:
        """Read a path.

        Raises:
            ValueError: It is none.
        """
        steps: list[str | int | None] = []
        position = 0
        while position < len(text):
            found = _STEP.match(text, position)
            if found is None:
                raise ValueError(f"no path: {text!r}, at character {position + 1}")
            index = found["index"]
            steps.append(found["quoted"] or found["name"] if index is None else None if index == "*" else int(index))
            position = found.end()
        if not steps:
            raise ValueError(f"no path: {text!r}")
        return cls(text, tuple(steps))


@dataclass(frozen=True, slots=True)
class Constant:
    """A value that every record gets."""

    value: object


@dataclass(frozen=True, slots=True)
class FieldMapping:
    """Target field → where to look, in order; the first one that has a value wins."""

    fields: Mapping[str, tuple[Path | Constant, ...]]

    @classmethod
    def of(cls, table: Mapping[str, object], *, place: str) -> FieldMapping:
        """Read the mapping of a consumer file.

        Args:
            table: Target → path, list of paths, or `{value: …}`.
            place: Where it stands, for messages.

        Raises:
            ValueError: An unknown target or something that is no path; the message names the place.
        """
        fields = {}
        for target, given in table.items():
            if target not in TARGETS and not (str(target).startswith(_EXTRA) and len(target) > len(_EXTRA)):
                known = nearest(str(target), [*TARGETS, "metadata.<name>"])
                raise ValueError(f"{place}.{target}: found an unknown field; allowed: {known}")
            entries = given if isinstance(given, list | tuple) else [given]
            if not entries:
                raise ValueError(
                    f"{place}.{target}: found an empty list; allowed: a path, a list of paths, or {{value: …}}"
                )
            fields[target] = tuple(_entry(entry, f"{place}.{target}") for entry in entries)
        return cls(fields)

    def apply(self, draft: Draft, root: object, message: Message) -> None:
        """Set the mapped fields of a draft; what is found nowhere stays as it was detected."""
        for target, entries in self.fields.items():
            values = (_value(entry, draft.source, root, message) for entry in entries)
            found = [value for value in values if not isinstance(value, _Absent)]
            if not found:
                continue
            value = next((value for value in found if value is not None), None)
            if target.startswith(_EXTRA):
                draft.metadata[target.removeprefix(_EXTRA)] = value
            else:
                draft.fields[target] = (
                    None if target == "question" and isinstance(value, str) and not value.strip() else value
                )


def _entry(entry: object, place: str) -> Path | Constant:
    if isinstance(entry, Mapping) and set(entry) == {"value"}:
        return Constant(entry["value"])
    if not isinstance(entry, str):
        raise ValueError(f"{place}: found {entry!r}; allowed: a path, a list of paths, or {{value: …}}")  # noqa: TRY004
    try:
        return Path.of(entry)
    except ValueError as error:
        raise ValueError(f"{place}: {error}") from None


def _value(entry: Path | Constant, source: object, root: object, message: Message) -> object:
    if isinstance(entry, Constant):
        return entry.value
    if entry.steps[0] in {"$headers", "$key", "$topic"}:
        return _transport(entry.steps, message)
    found = walk(source, entry.steps)
    return walk(root, entry.steps) if isinstance(found, _Absent) and root is not source else found


def _transport(steps: tuple[str | int | None, ...], message: Message) -> object:
    if steps[0] == "$topic":
        return message.topic
    if steps[0] == "$key":
        return _ABSENT if message.key is None else message.key.decode("utf-8", "replace")
    name = ".".join(str(step) for step in steps[1:]).lower()
    return next((value.decode("utf-8", "replace") for key, value in message.headers if key.lower() == name), _ABSENT)


def walk(value: object, steps: tuple[str | int | None, ...]) -> object:
    """Follow a path; `_ABSENT` when nothing stands there."""
    if not steps:
        return value
    value, step = opened(value), steps[0]
    if isinstance(step, int):
        inside = isinstance(value, list) and -len(value) <= step < len(value)
        return walk(value[step], steps[1:]) if inside and isinstance(value, list) else _ABSENT
    if step is None:
        found = (walk(member, steps[1:]) for member in (value if isinstance(value, list) else ()))
        return next((member for member in found if not isinstance(member, _Absent) and member is not None), _ABSENT)
    if isinstance(value, list):
        value = attributes_of(value)
    return _named(value, steps) if isinstance(value, dict) else _ABSENT


def _named(value: Object, steps: tuple[str | int | None, ...]) -> object:
    """Follow a name; names with dots in them are tried from the longest on."""
    names = next((steps[:end] for end, step in enumerate(steps) if not isinstance(step, str)), steps)
    for length in range(len(names), 0, -1):
        key = ".".join(str(name) for name in names[:length])
        if key in value:
            found = walk(value[key], steps[length:])
            if not isinstance(found, _Absent):
                return found
    return _ABSENT
