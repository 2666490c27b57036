"""The first pass over a log: what it shows of its databases, before anything is scored."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from stef.catalogue import Epoch, Learners, Where, observe
from stef.errors import RecordError
from stef.ingest import read
from stef.pipeline import Pipeline
from stef.record import Arrival, Message, QueryRecord
from stef.timespan import Calendar
from stef.understand import read_statement

_NO_CLOCK = Calendar(now=None)


class Survey:
    """Counts what the records of a log show.

    Args:
        pipeline: Says how messages are read, and which rules hold.
        key: Secret under which values and words are marked.
    """

    def __init__(self, pipeline: Pipeline, key: str = "") -> None:
        self.pipeline = pipeline
        self.learners = Learners(key)
        self.newest: int | None = None

    def add(self, messages: Iterable[Message]) -> None:
        """Count every record that can be read; what is no record is left to the second pass to report."""
        for message in messages:
            try:
                found = read(message, mapping=self.pipeline.mapping, now=datetime.now(UTC))
            except RecordError:
                continue
            for arrival in found.arrivals:
                if arrival.record is not None:
                    self._count(arrival.record, _day(arrival))

    def freeze(self) -> Epoch:
        """What was counted; questions age from the newest one."""
        return self.learners.freeze(self.newest)

    def _count(self, record: QueryRecord, day: int | None) -> None:
        rules, _ = self.pipeline.rulebook.rules(record)
        most = self.pipeline.knowledge.max_sql_bytes
        try:
            _, spec, _, _ = read_statement(record, rules, _NO_CLOCK, max_bytes=most)
        except Exception:  # noqa: BLE001 - a bug costs one record; the second pass meets it again, and reports it
            return
        if spec is None:
            return
        where = Where(record.app or "", record.database or "")
        self.learners.add(where, observe(spec, record.question, key=self.learners.key, day=day))
        if day is not None:
            self.newest = max(day, self.newest or day)


def _day(arrival: Arrival) -> int | None:
    """When it was asked, in days since 1970; a message without a time has none, whenever it is read."""
    asked = arrival.record.asked_at if arrival.record is not None else None
    moment = asked or arrival.message.timestamp
    return None if moment is None else (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(days=1)
