"""What goes into the store's rows and what comes out of them: plain values, no connection."""

from __future__ import annotations

import base64
import hashlib
import json
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from sqlalchemy import ColumnElement, RowMapping, or_

from stef.errors import RecordError
from stef.record import Message
from stef.result import Evaluation, Outcome, Reason, to_json
from stef.store.schema import evaluations


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """What one message came to: its evaluations, or why it was put aside.

    Attributes:
        namespace: The source's; keys are unique within it.
        message: None when there is none to keep, such as in a second scoring.
        evaluations: One per record that the message held.
        error: Why the message, or a part of it, is a dead letter.
    """

    namespace: str
    message: Message | None = None
    evaluations: tuple[Evaluation, ...] = ()
    error: RecordError | None = None


class Fate(StrEnum):
    """What the store did with one evaluation."""

    NEW = "new"
    UPGRADED = "upgraded"  # replaced a failed one
    DUPLICATE = "duplicate"  # the one that was there stays


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """One evaluation after the write.

    Attributes:
        evaluation: What the store holds now: for a duplicate the earlier one, where it was asked for and is there.
        fate: What happened to the one that was given.
        conflict: Another content with the same key was there; both are kept.
        first_score: The record was never scored before, under no scoring configuration.
    """

    evaluation: Evaluation
    fate: Fate
    conflict: bool = False
    first_score: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """What one write did; `kept` follows the order of the evaluations given."""

    kept: tuple[Kept, ...] = ()
    dead_letters: int = 0

    def count(self, fate: Fate) -> int:
        """How many evaluations had this fate."""
        return sum(item.fate is fate for item in self.kept)

    @property
    def conflicts(self) -> int:
        """How many came under a key that another content has."""
        return sum(item.conflict for item in self.kept)


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which evaluations: every field that is given must hold.

    Attributes:
        since: Received at or after.
        until: Received before.
        event: `event_id` or `event_key`.
    """

    namespace: str | None = None
    agent: str | None = None
    agent_version: str | None = None
    app: str | None = None
    database: str | None = None
    scoring_config: str | None = None
    outcome: Outcome | None = None
    reason: Reason | None = None
    since: datetime | None = None
    until: datetime | None = None
    event: str | None = None

    def clauses(self) -> list[ColumnElement[bool]]:
        """The same as SQL conditions."""
        plain = ("namespace", "agent", "agent_version", "app", "database", "scoring_config", "outcome", "reason")
        found: list[ColumnElement[bool]] = [
            evaluations.c[name] == value for name in plain if (value := getattr(self, name)) is not None
        ]
        if self.since is not None:
            found.append(evaluations.c.received_at >= self.since)
        if self.until is not None:
            found.append(evaluations.c.received_at < self.until)
        if self.event is not None:
            found.append(or_(evaluations.c.event_id == self.event, evaluations.c.event_key == self.event))
        return found


EVERYTHING = Selection()


@dataclass(frozen=True, slots=True)
class Figure:
    """One row without its JSON: light enough to read a million of them."""

    id: int
    namespace: str
    event_key: str
    scoring_config: str
    event_id: str | None
    agent: str | None
    agent_version: str | None
    app: str | None
    database: str | None
    dialect: str | None
    asked_at: datetime | None
    received_at: datetime
    outcome: Outcome
    reason: Reason | None
    phi: int | None
    band: str | None
    p_offline: float | None
    p_correct: float | None
    category: str | None
    verdict: str | None
    confidence: float | None
    judge: str | None
    fallback: str | None
    drifted: bool | None
    findings: int


FIGURE_COLUMNS = tuple(Figure.__dataclass_fields__)


def figure(row: RowMapping) -> Figure:
    """Read one row of `FIGURE_COLUMNS`."""
    values: dict[str, Any] = {name: row[name] for name in FIGURE_COLUMNS}
    values["outcome"] = Outcome(row["outcome"])
    values["reason"] = None if row["reason"] is None else Reason(row["reason"])
    return Figure(**values)


def basis_of(evaluation: Evaluation) -> str:
    """The scoring configuration without the epoch of the store's catalogue."""
    return evaluation.provenance.basis or evaluation.scoring_config


def evaluation_row(entry: Entry, evaluation: Evaluation, payload: str | None, now: datetime) -> dict[str, Any]:
    """The columns of one evaluation."""
    judge = evaluation.judge
    return {
        "namespace": entry.namespace,
        "event_key": evaluation.event_key,
        "scoring_config": evaluation.scoring_config,
        "basis": basis_of(evaluation),
        "content_digest": evaluation.content_digest,
        "event_id": evaluation.event_id,
        "trace_id": evaluation.trace_id,
        "span_id": evaluation.span_id,
        "agent": evaluation.agent,
        "agent_version": evaluation.agent_version,
        "app": evaluation.app,
        "database": evaluation.database,
        "dialect": evaluation.provenance.dialect or None,
        "asked_at": evaluation.asked_at,
        "received_at": evaluation.received_at,
        "stored_at": now,
        "outcome": evaluation.outcome.value,
        "reason": evaluation.reason and evaluation.reason.value,
        "phi": evaluation.phi,
        "band": evaluation.band and evaluation.band.value,
        "p_offline": evaluation.p_offline,
        "p_correct": evaluation.p_correct,
        "category": evaluation.alignment and evaluation.alignment.category.value,
        "verdict": judge and judge.verdict.value,
        "confidence": judge and judge.confidence,
        "judge": judge and judge.kind.value,
        "fallback": judge.fallback or None if judge else None,
        "drifted": None if evaluation.expansion is None else evaluation.expansion.drifted,
        "findings": len(evaluation.findings),
        "payload": payload,
        "result": to_json(evaluation, specs=True),
    }


def payload_key(namespace: str, message: Message) -> str:
    """Names a message by where it stood and what it held: a rotated file may use one position twice."""
    digest = hashlib.sha256(f"{namespace}\0{message.position}\0".encode(errors="surrogateescape"))
    digest.update(message.value or b"")
    return digest.hexdigest()[:32]


def payload_row(namespace: str, message: Message, now: datetime) -> dict[str, Any]:
    """The columns of one raw message."""
    return {
        "key": payload_key(namespace, message),
        "namespace": namespace,
        "topic": message.topic,
        "partition": message.partition,
        "offset": message.offset,
        "timestamp": message.timestamp,
        "message_key": message.key,
        "headers": json.dumps([(name, base64.b64encode(value).decode()) for name, value in message.headers]),
        "value": None if message.value is None else zlib.compress(message.value, 6),
        "stored_at": now,
    }


def message_of(row: RowMapping) -> Message:
    """Read a raw message back."""
    return Message(
        value=None if row["value"] is None else zlib.decompress(row["value"]),
        key=row["message_key"],
        headers=tuple((name, base64.b64decode(value)) for name, value in json.loads(row["headers"])),
        topic=row["topic"],
        partition=row["partition"],
        offset=row["offset"],
        timestamp=row["timestamp"],
    )


@dataclass(slots=True)
class Judged:
    """What is known of one key while a batch is sorted: (scoring_config, content_digest) → outcome."""

    results: dict[tuple[str, str], str]

    def is_first_score(self, evaluation: Evaluation) -> bool:
        """Whether it is the first score of its record."""
        scored = {digest for (_, digest), outcome in self.results.items() if outcome == Outcome.SCORED.value}
        return evaluation.outcome is Outcome.SCORED and evaluation.content_digest not in scored

    def place(self, evaluation: Evaluation) -> tuple[Fate, bool]:
        """Decide what becomes of an evaluation, and remember it for the next one of the batch."""
        if evaluation.reason is Reason.DUPLICATE:
            return Fate.DUPLICATE, False
        config, digest = evaluation.scoring_config, evaluation.content_digest
        before = self.results.get((config, digest))
        if before is None:
            conflict = any(other == config for other, _ in self.results)
            self.results[config, digest] = evaluation.outcome.value
            return Fate.NEW, conflict
        if before == Outcome.FAILED.value and evaluation.outcome is not Outcome.FAILED:
            self.results[config, digest] = evaluation.outcome.value
            return Fate.UPGRADED, False
        return Fate.DUPLICATE, False


def last_of_each(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """One row per key: within a batch a later one only stands here when it replaces a failed one."""
    key = ("namespace", "event_key", "scoring_config", "content_digest")
    return list({tuple(row[name] for name in key): row for row in rows}.values())
