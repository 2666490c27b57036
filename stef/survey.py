"""The first pass over a log: what it shows of its databases, before anything is scored."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

from stef.catalogue import Epoch, Learners, Where, day_of, observe
from stef.errors import RecordError
from stef.ingest import read
from stef.pipeline import Pipeline, calendar_of
from stef.record import Message, QueryRecord
from stef.understand import read_statement


class Survey:
    """Counts what the records of a log show.

    Args:
        pipeline: Says how messages are read, and which rules hold.
        key: Secret under which values and words are marked.
    """

    def __init__(self, pipeline: Pipeline, key: str = "") -> None:
        self.pipeline = pipeline
        self.learners = Learners(key)

    def add(self, messages: Iterable[Message]) -> None:
        """Count every record that can be read; what is no record is left to the second pass to report."""
        for message in messages:
            try:
                found = read(message, mapping=self.pipeline.mapping, now=datetime.now(UTC))
            except RecordError:
                continue
            for arrival in found.arrivals:
                if arrival.record is not None:
                    # A message without a time has none, whenever it is read.
                    self._count(arrival.record, day_of(arrival.record.asked_at or arrival.message.timestamp))

    def freeze(self) -> Epoch:
        """What was counted."""
        return self.learners.freeze()

    def _count(self, record: QueryRecord, day: int | None) -> None:
        rules, _ = self.pipeline.rulebook.rules(record)
        most = self.pipeline.knowledge.max_sql_bytes
        try:
            _, spec, _, _ = read_statement(record, rules, calendar_of(record, rules), max_bytes=most)
        except Exception:  # noqa: BLE001 - a bug costs one record; the second pass meets it again, and reports it
            return
        if spec is None:
            return
        where = Where(record.app or "", record.database or "")
        self.learners.add(where, observe(spec, record.question, key=self.learners.key, day=day))
