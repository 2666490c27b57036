"""What scored records show of their databases, counted in the store, and the epoch that runs are pinned to.

The counts are those of `stef.catalogue.Learner`, which does the counting here too: a batch loads the questions that it
asks again, adds to them, and writes them back in the transaction that writes its results.
"""

from __future__ import annotations

import json
import sys
import zlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, Connection, Engine, RowMapping, bindparam, delete, func, insert, select, update
from sqlalchemy.dialects import sqlite

from stef.catalogue import (
    Epoch,
    Learner,
    Learners,
    Observation,
    Tally,
    Where,
    day_of,
    from_plain,
    key_mark,
    observe,
    to_plain,
)
from stef.catalogue.epoch import MOST_DATABASES
from stef.catalogue.learner import ENOUGH_FOR_TEXT, MOST_QUESTIONS
from stef.catalogue.observation import VALUE
from stef.privacy import Redacted
from stef.result import Evaluation
from stef.store.file import errors, writing
from stef.store.schema import catalogue_epochs, catalogue_questions, catalogue_values, catalogues

_CHUNK = 500
# An epoch serves until the questions have become so many times as many.
_GROWN = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Learning:
    """How a store counts.

    Attributes:
        key: Secret under which values and words are marked. What was counted under another key stays apart.
        most: Distinct questions that are kept of one database; beyond it the least asked, then the oldest, go.
    """

    key: str = ""
    most: int = MOST_QUESTIONS


class Catalogues:
    """The catalogues of a store under one key.

    Every public method raises `StoreError` when the file cannot be read or written, except `count`, which is part of
    a transaction of its caller.
    """

    def __init__(self, engine: Engine, path: str, learning: Learning) -> None:
        self.path, self.learning = path, learning
        self._engine = engine
        self._key = key_mark(learning.key)

    def count(
        self, connection: Connection, scored: Iterable[tuple[Evaluation, datetime | None]], now: datetime
    ) -> None:
        """Count what records show, in the transaction that writes their results.

        Args:
            connection: The transaction.
            scored: Results with their specs, and when each was asked.
            now: For pruning.
        """
        for where, observations in self._observed(scored).items():
            number = self._number(connection, where)
            if number is None:
                continue
            learner = self._resumed(connection, number, observations)
            for one in observations:
                learner.add(one)
            _save(connection, number, learner, now)
            self._shrink(connection, number)

    def learners(self) -> Learners:
        """Everything that was counted and declared."""
        with errors(self.path, "read the catalogue"), self._engine.connect() as connection:
            return self._learners(connection)

    def merge(self, others: Learners) -> None:
        """Add what others have counted and declared; the next run takes a new epoch.

        Raises:
            ValueError: They have another key.
        """
        with errors(self.path, "write the catalogue"), writing(self._engine) as connection:
            now = datetime.now(UTC)
            for where, other in others.learners.items():
                number = self._number(connection, where)
                if number is None:
                    continue
                learner = self._learner(connection, number)
                learner.merge(other)
                for table in (catalogue_questions, catalogue_values):
                    connection.execute(delete(table).where(table.c.catalogue == number))
                _save(connection, number, learner, now)
                tables = {table: sorted(columns) for table, columns in sorted(learner.declared.items())}
                row = update(catalogues).where(catalogues.c.id == number)
                connection.execute(row.values(declared=json.dumps(tables)))
            connection.execute(delete(catalogue_epochs).where(catalogue_epochs.c.key == self._key))

    def epoch(self, *, days: float, take: bool) -> Epoch | None:
        """What a run that starts now is pinned to; None when nothing was counted.

        Args:
            days: So long one epoch serves, unless the questions have doubled before; with 0 each start has its own.
            take: Keep a new one for those who start later.
        """
        with errors(self.path, "read the catalogue"), self._engine.connect() as connection:
            held = self._held(connection, days)
            learners = self._unpacked(held) if held is not None else self._learners(connection)
        if not learners.learners:
            return None
        epoch = replace(learners.freeze(), passing=True)
        if held is not None or not take:
            return epoch
        content = zlib.compress(json.dumps(to_plain(learners), ensure_ascii=False).encode(), 6)
        row = {"key": self._key, "taken_at": datetime.now(UTC), "questions": epoch.questions, "content": content}
        with errors(self.path, "write the catalogue"), writing(self._engine) as connection:
            # Another run that started meanwhile may have been quicker: then its epoch serves both.
            held = self._held(connection, days)
            if held is None:
                _put(connection, catalogue_epochs, [row])
        return epoch if held is None else replace(self._unpacked(held).freeze(), passing=True)

    def is_of_another_key(self) -> bool:
        """Whether the store has catalogues, and all of them were counted under other keys."""
        with errors(self.path, "read the catalogue"), self._engine.connect() as connection:
            keys = set(connection.scalars(select(catalogues.c.key).distinct()))
        return bool(keys) and self._key not in keys

    def _observed(self, scored: Iterable[tuple[Evaluation, datetime | None]]) -> dict[Where, list[Observation]]:
        found: dict[Where, list[Observation]] = defaultdict(list)
        for result, asked in scored:
            # Tokens teach nothing; what they stand for is counted by its marks alone.
            hidden = result.original if isinstance(result, Redacted) else None
            evaluation = hidden or result
            if evaluation.spec is None or evaluation.spec.sql is None:
                continue
            where = Where(evaluation.app or "", evaluation.database or "")
            key, day = self.learning.key, day_of(asked)
            seen = observe(evaluation.spec.sql, evaluation.question, key=key, day=day)
            found[where].append(replace(seen, secret=hidden is not None))
        return found

    def _number(self, connection: Connection, where: Where) -> int | None:
        """The number of a database's catalogue, made when it is new; None when there are too many."""
        place = {"key": self._key, "app": where.app, "database": where.database}
        clauses = [catalogues.c[name] == value for name, value in place.items()]
        found: int | None = connection.scalar(select(catalogues.c.id).where(*clauses))
        if found is not None:
            return found
        if _count(connection, catalogues, catalogues.c.key == self._key) >= MOST_DATABASES:
            return None
        made = insert(catalogues).values(**place, declared="{}")
        return int(connection.scalar(made.returning(catalogues.c.id)) or 0)

    def _resumed(self, connection: Connection, number: int, seen: Sequence[Observation]) -> Learner:
        """A learner that knows as much of a catalogue as it takes to count these."""
        learner = Learner(self.learning.key, most=sys.maxsize)
        for row in _rows(connection, catalogue_questions, number, "question", {one.question for one in seen}):
            learner.questions[row["question"]] = _tally(row)
        for row in _rows(connection, catalogue_values, number, "mark", {mark for one in seen for mark in one.texts}):
            learner.users[row["mark"]] = row["questions"]
            if row["text"] is not None:
                learner.texts[row["mark"]] = row["text"]
        return learner

    def _learners(self, connection: Connection) -> Learners:
        learners = Learners(self.learning.key, most=self.learning.most)
        found = select(catalogues).where(catalogues.c.key == self._key).order_by(catalogues.c.id)
        for row in connection.execute(found).mappings().all():
            learners.learners[Where(row["app"], row["database"])] = self._learner(connection, row["id"])
        return learners

    def _learner(self, connection: Connection, number: int) -> Learner:
        """Everything of one catalogue."""
        learner = Learner(self.learning.key, most=self.learning.most)
        questions = select(catalogue_questions).where(catalogue_questions.c.catalogue == number)
        for row in connection.execute(questions.execution_options(yield_per=_CHUNK)).mappings():
            learner.take(row["question"], _tally(row))
        texts = select(catalogue_values.c.mark, catalogue_values.c.text)
        known = texts.where(catalogue_values.c.catalogue == number, catalogue_values.c.text.is_not(None))
        learner.texts = {row[0]: row[1] for row in connection.execute(known)}
        declared = connection.scalar(select(catalogues.c.declared).where(catalogues.c.id == number))
        learner.declare(json.loads(declared or "{}"))
        return learner

    def _shrink(self, connection: Connection, number: int) -> None:
        """Drop the least used questions above the limit, as a learner does."""
        most, here = self.learning.most, catalogue_questions.c.catalogue == number
        if _count(connection, catalogue_questions, here) <= most + most // 10:
            return
        age = func.coalesce(catalogue_questions.c.day, 0)
        ranked = select(catalogue_questions.c.question).where(here)
        ranked = ranked.order_by(catalogue_questions.c.answers.desc(), age.desc(), catalogue_questions.c.question)
        _drop(connection, number, connection.scalars(ranked.offset(most)).all())

    def _held(self, connection: Connection, days: float) -> bytes | None:
        """The epoch that still serves, as it was kept; None when a new one is due."""
        row = connection.execute(select(catalogue_epochs).where(catalogue_epochs.c.key == self._key)).one_or_none()
        if row is None:
            return None
        mine = catalogue_questions.c.catalogue.in_(select(catalogues.c.id).where(catalogues.c.key == self._key))
        grown = _count(connection, catalogue_questions, mine) >= _GROWN * max(1, row.questions)
        old = datetime.now(UTC) - row.taken_at >= timedelta(days=days)
        content: bytes = row.content
        return None if grown or old else content

    def _unpacked(self, content: bytes) -> Learners:
        return from_plain(json.loads(zlib.decompress(content)), key=self.learning.key)


def forget(connection: Connection, before: datetime) -> int:
    """Forget the questions, of all keys, that were last counted before a moment, and the epochs that rest on them.

    Returns:
        How many questions.
    """
    clause = catalogue_questions.c.counted_at < before
    found = select(catalogue_questions.c.catalogue, catalogue_questions.c.question).where(clause)
    gone: dict[int, list[str]] = defaultdict(list)
    for number, question in connection.execute(found):
        gone[number].append(question)
    for number, questions in gone.items():
        _drop(connection, number, questions)
    if gone:
        connection.execute(delete(catalogue_epochs))
    return sum(map(len, gone.values()))


def _drop(connection: Connection, number: int, questions: Sequence[str]) -> None:
    """Take questions out, and values and texts that too few use then."""
    users: Counter[str] = Counter()
    for row in _rows(connection, catalogue_questions, number, "question", questions):
        users.update(_tally(row).values)
    table = catalogue_questions
    for part in _chunks(questions):
        connection.execute(delete(table).where(table.c.catalogue == number, table.c.question.in_(part)))
    values = catalogue_values
    if users:
        less = update(values).where(values.c.catalogue == number, values.c.mark == bindparam("gone"))
        fewer = less.values(questions=values.c.questions - bindparam("by"))
        connection.execute(fewer, [{"gone": mark, "by": count} for mark, count in users.items()])
    here = values.c.catalogue == number
    connection.execute(delete(values).where(here, values.c.questions <= 0))
    connection.execute(update(values).where(here, values.c.questions < ENOUGH_FOR_TEXT).values(text=None))


def _save(connection: Connection, number: int, learner: Learner, now: datetime) -> None:
    """Write what a learner holds."""
    questions = [
        {
            "catalogue": number,
            "question": digest,
            "answers": tally.answers,
            "day": tally.day,
            "words": json.dumps(sorted(tally.words)),
            "items": json.dumps([[count, *item] for item, count in tally.items.items()], ensure_ascii=False),
            "counted_at": now,
        }
        for digest, tally in learner.questions.items()
    ]
    values = [
        {"catalogue": number, "mark": mark, "questions": count, "text": learner.texts.get(mark)}
        for mark, count in learner.users.items()
        if count > 0
    ]
    _put(connection, catalogue_questions, questions)
    _put(connection, catalogue_values, values)


def _put(connection: Connection, table: Any, rows: list[dict[str, Any]]) -> None:  # noqa: ANN401 - a table of any columns
    """Add rows, or replace those with their keys."""
    if rows:
        statement = sqlite.insert(table)
        keys = [column.name for column in table.primary_key]
        new = {column.name: statement.excluded[column.name] for column in table.c if column.name not in keys}
        connection.execute(statement.on_conflict_do_update(index_elements=keys, set_=new), rows)


def _tally(row: RowMapping) -> Tally:
    items = Counter({tuple(item): count for count, *item in json.loads(row["items"])})
    return Tally(
        words=frozenset(json.loads(row["words"])),
        answers=row["answers"],
        items=items,
        values={item[4] for item in items if item[0] == VALUE},
        day=row["day"],
    )


def _rows(
    connection: Connection,
    table: Any,  # noqa: ANN401 - a table of any columns
    number: int,
    column: str,
    wanted: Iterable[str],
) -> Iterator[RowMapping]:
    """Rows of a catalogue by a column's values, a few at a time."""
    for part in _chunks(sorted(wanted)):
        query = select(table).where(table.c.catalogue == number, table.c[column].in_(part))
        yield from connection.execute(query).mappings()


def _count(connection: Connection, table: Any, clause: ColumnElement[bool]) -> int:  # noqa: ANN401 - a table of any columns
    return connection.scalar(select(func.count()).select_from(table).where(clause)) or 0


def _chunks(items: Sequence[str]) -> Iterator[Sequence[str]]:
    for start in range(0, len(items), _CHUNK):
        yield items[start : start + _CHUNK]
