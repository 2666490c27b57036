"""Writes, reads, prunes and erases evaluations."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Self

from sqlalchemy import Connection, Engine, delete, func, or_, select, update
from sqlalchemy.dialects import postgresql, sqlite

from stef.errors import StoreError
from stef.record import Message
from stef.result import Evaluation, Outcome, from_json
from stef.store.catalogues import Catalogues, Learning, forget
from stef.store.file import errors, open_file, outside, reading, writing
from stef.store.labels import LabelTable, erase_labels, prune_labels
from stef.store.rows import (
    EVERYTHING,
    FIGURE_COLUMNS,
    Entry,
    Fate,
    Figure,
    Judged,
    Kept,
    Selection,
    Written,
    basis_of,
    evaluation_row,
    figure,
    last_of_each,
    message_of,
    payload_key,
    payload_row,
)
from stef.store.schema import MIGRATIONS, dead_letters, evaluations, migrate, payloads, positions

_CHUNK = 500
_INSERT = {"sqlite": sqlite.insert, "postgresql": postgresql.insert}
_KEY = (
    evaluations.c.namespace,
    evaluations.c.event_key,
    evaluations.c.scoring_config,
    evaluations.c.content_digest,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pruned:
    """How many rows went."""

    payloads: int = 0
    evaluations: int = 0
    labels: int = 0
    questions: int = 0


class Store:
    """The evaluations of any number of consumers.

    Safe to use from several threads, and from several processes at once. Every method raises `StoreError` when the
    file cannot be read or written.
    """

    def __init__(self, path: str, engine: Engine, raw_days: int, learning: Learning | None = None) -> None:
        self.path, self.raw_days = path, raw_days
        self._engine = engine
        self.labels = LabelTable(path, engine)
        self._counted = None if learning is None else self.catalogues(learning)

    @classmethod
    def open(cls, path: str, *, create: bool = True, raw_days: int = 30, learning: Learning | None = None) -> Self:
        """Open the store, bringing its tables up to date.

        Args:
            path: The SQLite file.
            create: Make it when there is none.
            raw_days: Days that raw messages are kept; 0 keeps none.
            learning: Count what scored records show of their databases; None counts nothing.

        Raises:
            StoreError: It cannot be opened, is not there (without `create`), or was made by a newer release.
        """
        if not path:
            raise StoreError("the store has no path; name one with --store or STEF_STORE")
        if not create and not Path(path).is_file():
            raise StoreError(f"{path}: there is no store here; name another path with --store, or fill this one first")
        engine = open_file(path)
        store = cls(path, engine, raw_days, learning)
        try:
            with errors(path, "bring the tables up to date"), writing(engine) as connection:
                newer = migrate(connection)
        except BaseException:
            engine.dispose()
            raise
        if newer:
            engine.dispose()
            raise StoreError(f"{path}: made by a newer stef (it has {', '.join(newer)}); use that release or newer")
        return store

    def close(self) -> None:
        """Give the file back."""
        self._engine.dispose()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def write(self, entries: Sequence[Entry], *, echo: bool = False) -> Written:
        """Write a batch in one transaction; all of it is on the disk on return, or nothing.

        Args:
            entries: In any order; the same record may come twice.
            echo: Give back, for each duplicate, the evaluation that was there before.
        """
        if not entries:
            return Written()
        now = datetime.now(UTC)
        with errors(self.path, "write results"), writing(self._engine) as connection:
            judged = self._judged(connection, entries)
            kept: list[Kept] = []
            rows: list[dict[str, Any]] = []
            raw: list[dict[str, Any]] = []
            scored: list[tuple[Evaluation, datetime | None]] = []
            for entry in entries:
                placed = [_placed(judged, entry, evaluation) for evaluation in entry.evaluations]
                kept.extend(placed)
                fresh = [item.evaluation for item in placed if item.fate is not Fate.DUPLICATE]
                payload = self._payload(entry) if fresh else None
                if payload is not None and entry.message is not None:
                    raw.append(payload_row(entry.namespace, entry.message, now))
                rows.extend(evaluation_row(entry, evaluation, payload, now) for evaluation in fresh)
                sent = None if entry.message is None else entry.message.timestamp
                scored.extend((it.evaluation, it.evaluation.asked_at or sent) for it in placed if it.first_score)
            self._add(connection, payloads, raw)
            self._upsert(connection, last_of_each(rows))
            if self._counted is not None:
                self._counted.count(connection, scored, now)
            aside = self._put_aside(connection, entries, now)
            if echo:
                kept = self._echo(connection, entries, kept)
        return Written(kept=tuple(kept), dead_letters=aside)

    def known(self, namespace: str, pairs: Iterable[tuple[str, str]], basis: str) -> frozenset[tuple[str, str]]:
        """Which of these (event_key, content_digest) have an answer already, so that nobody pays for them again.

        A failed one has none. An epoch of the catalogue that has moved on is no reason to answer again.

        Args:
            namespace: Of the keys.
            pairs: Keys and digests.
            basis: Scoring configuration without the epoch.
        """
        wanted = frozenset(pairs)
        keys = sorted({key for key, _ in wanted})
        found: set[tuple[str, str]] = set()
        with errors(self.path, "look up results"), self._reading() as connection:
            for part in _chunks(keys):
                query = select(evaluations.c.event_key, evaluations.c.content_digest).where(
                    evaluations.c.namespace == namespace,
                    evaluations.c.event_key.in_(part),
                    evaluations.c.basis == basis,
                    evaluations.c.outcome != Outcome.FAILED.value,
                )
                found.update((key, digest) for key, digest in connection.execute(query))
        return wanted & found

    def rows(self, selection: Selection = EVERYTHING) -> Iterator[Evaluation]:
        """The whole results, in the order of writing, a few at a time."""
        query = select(evaluations.c.result).where(*selection.clauses()).order_by(evaluations.c.id)
        for row in self._stream(query):
            yield from_json(row["result"])

    def figures(self, selection: Selection = EVERYTHING) -> Iterator[Figure]:
        """The columns of each result without its JSON, in the order of writing, a few at a time."""
        columns = [evaluations.c[name] for name in FIGURE_COLUMNS]
        for row in self._stream(select(*columns).where(*selection.clauses()).order_by(evaluations.c.id)):
            yield figure(row)

    def messages(self, selection: Selection = EVERYTHING) -> Iterator[tuple[str, Message]]:
        """The raw messages that are still kept behind these results, each once, with its namespace."""
        wanted = select(evaluations.c.payload).where(*selection.clauses())
        query = select(payloads).where(payloads.c.key.in_(wanted)).order_by(payloads.c.stored_at, payloads.c.key)
        for row in self._stream(query):
            yield row["namespace"], message_of(row)

    def count(self, selection: Selection = EVERYTHING) -> int:
        """How many results."""
        return self._number(select(func.count()).select_from(evaluations).where(*selection.clauses()))

    def raw_count(self) -> int:
        """How many raw messages are kept."""
        return self._number(select(func.count()).select_from(payloads))

    def dead_letters(self) -> dict[str, int]:
        """How many messages were put aside, by reason."""
        query = select(dead_letters.c.reason, func.count()).group_by(dead_letters.c.reason)
        with errors(self.path, "count dead letters"), self._reading() as connection:
            rows = connection.execute(query.order_by(dead_letters.c.reason)).all()
        return {row[0]: row[1] for row in rows}

    def size(self) -> int:
        """Bytes on disk, the write-ahead log included."""
        files = (Path(self.path + end) for end in ("", "-wal", "-shm"))
        return sum(file.stat().st_size for file in files if file.exists())

    def schema(self) -> tuple[str, ...]:
        """Names of the migrations that this release applies; the last one is the version."""
        return tuple(name for name, _ in MIGRATIONS)

    def prune(self, before: datetime, *, results: bool = False, vacuum: bool = False) -> Pruned:
        """Forget raw messages that were stored before a moment.

        Args:
            before: Aware.
            results: Forget the results received before it too, the labels of records that have none left, and what
                questions that were last counted before it have shown.
            vacuum: Give the space back to the disk; rewrites the whole file.
        """
        with errors(self.path, "prune"), writing(self._engine) as connection:
            raw = connection.execute(delete(payloads).where(payloads.c.stored_at < before)).rowcount
            old = labels = questions = 0
            if results:
                questions = forget(connection, before)
                old = connection.execute(delete(evaluations).where(evaluations.c.received_at < before)).rowcount
                connection.execute(delete(dead_letters).where(dead_letters.c.stored_at < before))
                labels = prune_labels(connection, before)
        if vacuum:
            outside(self._engine, self.path, "VACUUM")
        return Pruned(payloads=raw, evaluations=old, labels=labels, questions=questions)

    def prune_raw(self) -> int:
        """Forget the raw messages that are older than `raw_days`; how many those were."""
        return self.prune(datetime.now(UTC) - timedelta(days=self.raw_days)).payloads

    def erase(self, event_id: str) -> int:
        """Erase every result and label of one event, and the raw messages that held it: no trace stays in the file.

        A raw message that held other records too goes as a whole; their results stay.

        Returns:
            Results erased.
        """
        clauses = Selection(event=event_id).clauses()
        with errors(self.path, "erase an event"), writing(self._engine) as connection:
            connection.exec_driver_sql("PRAGMA secure_delete=ON")
            held = list(connection.scalars(select(evaluations.c.payload).where(*clauses)))
            for part in _chunks([key for key in held if key is not None]):
                connection.execute(delete(payloads).where(payloads.c.key.in_(part)))
                connection.execute(update(evaluations).where(evaluations.c.payload.in_(part)).values(payload=None))
            erase_labels(connection, event_id)
            gone = connection.execute(delete(evaluations).where(*clauses)).rowcount
        outside(self._engine, self.path, "PRAGMA wal_checkpoint(TRUNCATE)")
        return gone

    def catalogues(self, learning: Learning) -> Catalogues:
        """What was counted under a key."""
        return Catalogues(self._engine, self.path, learning)

    def position(self, name: str) -> dict[str, Any] | None:
        """How far a file source came; None when it never said."""
        with errors(self.path, "read a position"), self._reading() as connection:
            state = connection.scalar(select(positions.c.state).where(positions.c.name == name))
        return None if state is None else json.loads(state)

    def save_position(self, name: str, state: dict[str, Any]) -> None:
        """Remember how far a file source came."""
        row = {"name": name, "state": json.dumps(state), "stored_at": datetime.now(UTC)}
        with errors(self.path, "save a position"), writing(self._engine) as connection:
            statement = self._insert(positions).values(row)
            new = {key: statement.excluded[key] for key in ("state", "stored_at")}
            connection.execute(statement.on_conflict_do_update(index_elements=[positions.c.name], set_=new))

    def _reading(self) -> AbstractContextManager[Connection]:
        return reading(self._engine)

    def _insert(self, table: Any) -> Any:  # noqa: ANN401 - the dialects' inserts share no public type
        return _INSERT[self._engine.dialect.name](table)

    def _judged(self, connection: Connection, entries: Sequence[Entry]) -> dict[tuple[str, str], Judged]:
        keys = sorted({(entry.namespace, item.event_key) for entry in entries for item in entry.evaluations})
        judged = {key: Judged({}) for key in keys}
        for namespace in {namespace for namespace, _ in keys}:
            for part in _chunks([key for owner, key in keys if owner == namespace]):
                query = select(*_KEY, evaluations.c.outcome).where(_KEY[0] == namespace, _KEY[1].in_(part))
                for _, key, config, digest, outcome in connection.execute(query):
                    judged[namespace, key].results[config, digest] = outcome
        return judged

    def _payload(self, entry: Entry) -> str | None:
        if self.raw_days == 0 or entry.message is None:
            return None
        return payload_key(entry.namespace, entry.message)

    def _add(self, connection: Connection, table: Any, rows: list[dict[str, Any]]) -> int:  # noqa: ANN401 - as in _insert
        """Add rows that are not there yet; how many that were."""
        return connection.execute(self._insert(table).on_conflict_do_nothing(), rows).rowcount if rows else 0

    def _upsert(self, connection: Connection, rows: list[dict[str, Any]]) -> None:
        if not rows:
            return
        statement = self._insert(evaluations)
        keys = {column.name for column in _KEY} | {"id"}
        replaced = statement.on_conflict_do_update(
            index_elements=list(_KEY),
            set_={column.name: statement.excluded[column.name] for column in evaluations.c if column.name not in keys},
            where=(evaluations.c.outcome == Outcome.FAILED.value)
            & (statement.excluded["outcome"] != Outcome.FAILED.value),
        )
        connection.execute(replaced, rows)

    def _put_aside(self, connection: Connection, entries: Sequence[Entry], now: datetime) -> int:
        rows = [
            {
                "namespace": entry.namespace,
                "position": entry.message.position,
                "reason": entry.error.reason,
                "detail": entry.error.detail.encode(errors="backslashreplace").decode(),
                "stored_at": now,
            }
            for entry in entries
            if entry.error is not None and entry.message is not None
        ]
        return self._add(connection, dead_letters, rows)

    def _echo(self, connection: Connection, entries: Sequence[Entry], kept: list[Kept]) -> list[Kept]:
        spaces = [entry.namespace for entry in entries for _ in entry.evaluations]
        found = []
        for namespace, item in zip(spaces, kept, strict=True):
            text = connection.scalar(_answer(namespace, item.evaluation)) if item.fate is Fate.DUPLICATE else None
            found.append(item if text is None else replace(item, evaluation=from_json(text)))
        return found

    def _stream(self, query: Any) -> Iterator[Any]:  # noqa: ANN401 - rows of any query
        with errors(self.path, "read results"), self._reading() as connection:
            yield from connection.execution_options(yield_per=_CHUNK).execute(query).mappings()

    def _number(self, query: Any) -> int:  # noqa: ANN401 - any counting query
        with errors(self.path, "count"), self._reading() as connection:
            return int(connection.scalar(query) or 0)


def _placed(judged: dict[tuple[str, str], Judged], entry: Entry, evaluation: Evaluation) -> Kept:
    before = judged[entry.namespace, evaluation.event_key]
    first = before.is_first_score(evaluation)
    fate, conflict = before.place(evaluation)
    first_score = first and fate is not Fate.DUPLICATE
    return Kept(evaluation=evaluation, fate=fate, conflict=conflict, first_score=first_score)


def _answer(namespace: str, evaluation: Evaluation) -> Any:  # noqa: ANN401 - a query
    """The result that makes an evaluation a duplicate: of its own scoring configuration, else of an earlier epoch."""
    own = evaluation.scoring_config
    clauses = (
        evaluations.c.namespace == namespace,
        evaluations.c.event_key == evaluation.event_key,
        evaluations.c.content_digest == evaluation.content_digest,
        or_(evaluations.c.scoring_config == own, evaluations.c.basis == basis_of(evaluation)),
    )
    failed = evaluations.c.outcome == Outcome.FAILED.value
    best = (failed, evaluations.c.scoring_config != own, evaluations.c.id.desc())
    return select(evaluations.c.result).where(*clauses).order_by(*best).limit(1)


def _chunks(items: Sequence[str]) -> Iterator[Sequence[str]]:
    for start in range(0, len(items), _CHUNK):
        yield items[start : start + _CHUNK]
