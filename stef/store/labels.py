"""Labels on disk: what people and programs say of the records in the store.

A label is of a record's content under its key, so it holds for every result of that record, whatever scored it and
whatever namespace it came from.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, Engine, RowMapping, delete, exists, or_, select, tuple_
from sqlalchemy.dialects.sqlite import insert

from stef.label import Given, Label
from stef.result import Evaluation, Outcome, from_json
from stef.store.file import errors, reading, writing
from stef.store.schema import evaluations, labels

_CHUNK = 500
Record = tuple[str, str]  # event key, content digest
Said = tuple[str, str, str]  # event key, content digest, source
_SAME_RECORD = (evaluations.c.event_key == labels.c.event_key) & (
    evaluations.c.content_digest == labels.c.content_digest
)


@dataclass(frozen=True, slots=True)
class Held:
    """What the store holds of a record."""

    event_id: str | None
    agent_version: str | None

    def answers(self, label: Given, record: Record) -> bool:
        """Whether a label can be of it."""
        return label.content_digest in {"", record[1]} and label.agent_version in {"", self.agent_version}


Known = Mapping[str, Mapping[Record, Held]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """What became of the labels of one import; the counts add up to what was given.

    Attributes:
        changed: Took the place of what the same source said before.
        older: What the source said later stays.
        unknown: Events that no result is of, in their order.
        ambiguous: Events under whose key or id there are several contents.
    """

    new: int = 0
    changed: int = 0
    unchanged: int = 0
    older: int = 0
    unknown: tuple[str, ...] = ()
    ambiguous: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Labelled:
    """A label with what its record's last result says of who answered; None where there is no result any more."""

    label: Label
    agent: str | None
    agent_version: str | None


class LabelTable:
    """The labels of a store; every method raises `StoreError` when the file cannot be read or written."""

    def __init__(self, path: str, engine: Engine) -> None:
        self.path, self._engine = path, engine

    def add(self, given: Sequence[Given], now: datetime) -> Imported:
        """Add labels in one transaction; the latest of a source wins.

        Args:
            given: In the order of their file.
            now: Aware; when a label without a time of its own was given, unless the store has the same already.
        """
        with errors(self.path, "write labels"), writing(self._engine) as connection:
            known = _records(connection, sorted({label.event for label in given}))
            found, unknown, ambiguous = _placed(given, known)
            latest = _latest(found, now)
            before = _before(connection, [said[0] for said in latest])
            rows, counts = _rows(latest, before, known, now)
            _upsert(connection, rows)
        counts["older"] += len(found) - len(latest)
        return Imported(**counts, unknown=tuple(unknown), ambiguous=tuple(ambiguous))

    def all(self) -> Iterator[Label]:
        """Every label, by key and source, a few at a time."""
        for row in self._stream(select(labels).order_by(*labels.primary_key)):
            yield _label(row)

    def labelled(self) -> Iterator[Labelled]:
        """Every label with who answered, by key and source, a few at a time."""
        query = select(labels, _last("agent"), _last("agent_version")).order_by(*labels.primary_key)
        for row in self._stream(query):
            yield Labelled(label=_label(row), agent=row["agent"], agent_version=row["agent_version"])

    def results(self) -> Iterator[Evaluation]:
        """Every scored result of a record that has a label, in the order of writing, a few at a time."""
        # Written so that SQLite goes from the labels to the results, which may be a thousand times as many.
        record = tuple_(evaluations.c.event_key, evaluations.c.content_digest)
        labelled = record.in_(select(labels.c.event_key, labels.c.content_digest))
        query = select(evaluations.c.result).where(evaluations.c.outcome == Outcome.SCORED.value, labelled)
        for row in self._stream(query.order_by(evaluations.c.id)):
            yield from_json(row["result"])

    def _stream(self, query: Any) -> Iterator[RowMapping]:  # noqa: ANN401 - rows of any query
        with errors(self.path, "read labels"), reading(self._engine) as connection:
            yield from connection.execution_options(yield_per=_CHUNK).execute(query).mappings()


def erase_labels(connection: Connection, event: str) -> None:
    """Erase what was said of one event, named by its key or id."""
    connection.execute(delete(labels).where(or_(labels.c.event_key == event, labels.c.event_id == event)))


def prune_labels(connection: Connection, before: datetime) -> int:
    """Forget labels that were stored before a moment and whose record has no result left; how many those were."""
    left = exists().where(_SAME_RECORD)
    return connection.execute(delete(labels).where(labels.c.stored_at < before, ~left)).rowcount


def _last(name: str) -> ColumnElement[Any]:
    """A column of the newest result of a label's record."""
    newest = select(evaluations.c[name]).where(_SAME_RECORD).order_by(evaluations.c.id.desc()).limit(1)
    return newest.correlate(labels).scalar_subquery().label(name)


def _records(connection: Connection, events: Sequence[str]) -> Known:
    """Key or id of an event → the records under it."""
    known: Mapping[str, dict[Record, Held]] = defaultdict(dict)
    names = ("event_key", "content_digest", "event_id", "agent_version")
    columns = [evaluations.c[name] for name in names]
    for part in _chunks(events):
        wanted = or_(evaluations.c.event_key.in_(part), evaluations.c.event_id.in_(part))
        for key, digest, own, version in connection.execute(select(*columns).where(wanted).distinct()):
            for name in {key, own} - {None}:
                known[name][key, digest] = Held(own, version)
    return known


def _placed(given: Iterable[Given], known: Known) -> tuple[list[tuple[Record, Given]], list[str], list[str]]:
    """Which record each label is of; the events that there is none of, and those that there are several of."""
    found: list[tuple[Record, Given]] = []
    unknown: list[str] = []
    ambiguous: list[str] = []
    for label in given:
        records = [record for record, held in known.get(label.event, {}).items() if held.answers(label, record)]
        if not records:
            unknown.append(label.event)
        elif len(records) > 1:
            ambiguous.append(label.event)
        else:
            found.append((records[0], label))
    return found, unknown, ambiguous


def _latest(found: Iterable[tuple[Record, Given]], now: datetime) -> dict[Said, Given]:
    """The last thing that each source says of each record; of two at one time, what stands further down."""
    latest: dict[Said, Given] = {}
    for record, label in found:
        said = (*record, label.source)
        if said not in latest or (label.at or now) >= (latest[said].at or now):
            latest[said] = label
    return latest


def _before(connection: Connection, keys: Iterable[str]) -> dict[Said, Label]:
    """What the store holds of these events."""
    held: dict[Said, Label] = {}
    for part in _chunks(sorted(set(keys))):
        for row in connection.execute(select(labels).where(labels.c.event_key.in_(part))).mappings():
            held[row["event_key"], row["content_digest"], row["source"]] = _label(row)
    return held


def _rows(
    latest: Mapping[Said, Given], before: Mapping[Said, Label], known: Known, now: datetime
) -> tuple[list[dict[str, Any]], dict[str, int]]:
    """The rows to write, and how many labels had which fate."""
    rows: list[dict[str, Any]] = []
    counts = {"new": 0, "changed": 0, "unchanged": 0, "older": 0}
    for said, label in latest.items():
        fate = _fate(label, before.get(said), now)
        counts[fate] += 1
        if fate in {"new", "changed"}:
            own = known[label.event][said[0], said[1]].event_id
            key = dict(zip(("event_key", "content_digest", "source"), said, strict=True))
            content = {"event_id": own, "is_right": label.right, "labelled_at": label.at or now, "note": label.note}
            rows.append({**key, **content, "stored_at": now})
    return rows, counts


def _fate(label: Given, held: Label | None, now: datetime) -> str:
    if held is None:
        return "new"
    if (label.right, label.note) == (held.right, held.note) and label.at in {None, held.at}:
        return "unchanged"
    return "older" if (label.at or now) < held.at else "changed"


def _upsert(connection: Connection, rows: list[dict[str, Any]]) -> None:
    if rows:
        statement = insert(labels)
        new = {column.name: statement.excluded[column.name] for column in labels.c if not column.primary_key}
        connection.execute(statement.on_conflict_do_update(index_elements=list(labels.primary_key), set_=new), rows)


def _label(row: RowMapping) -> Label:
    return Label(
        event_key=row["event_key"],
        content_digest=row["content_digest"],
        event_id=row["event_id"],
        right=row["is_right"],
        source=row["source"],
        at=row["labelled_at"],
        note=row["note"],
    )


def _chunks(items: Sequence[str]) -> Iterator[Sequence[str]]:
    for start in range(0, len(items), _CHUNK):
        yield items[start : start + _CHUNK]
