"""What comes in: a message from a log, and the record that it holds."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One message as the source delivered it.

    Attributes:
        value: The bytes; None is a deletion mark (tombstone).
        key: The message's key, if the transport has one.
        headers: In their order; a name may come twice.
        topic: Topic or file name.
        partition: 0 where the transport has none.
        offset: Position in the partition: Kafka's offset, or the byte at which the line starts in a file.
        timestamp: When the message was written, aware; None when the transport does not say.
    """

    value: bytes | None
    key: bytes | None = None
    headers: tuple[tuple[str, bytes], ...] = ()
    topic: str = ""
    partition: int = 0
    offset: int = 0
    timestamp: datetime | None = None

    @property
    def position(self) -> str:
        """Identifies the message when the record has no id of its own: topic, partition, offset and timestamp."""
        stamp = "" if self.timestamp is None else f"@{int(self.timestamp.timestamp() * 1000)}"
        return f"{self.topic}/{self.partition}/{self.offset}{stamp}"


class QueryRecord(BaseModel):
    """One thing that an agent did: a question, and the SQL that it wrote.

    Only `question` and `sql` carry meaning on their own; all else has a sensible absence.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", str_strip_whitespace=False)

    event_id: str | None = None
    agent: str | None = None
    agent_version: str | None = None
    app: str | None = None
    database: str | None = None
    question: str
    expanded_question: str | None = None
    sql: str | None = None
    dialect: str | None = None
    app_rules: dict[str, Any] | None = None
    asked_at: AwareDatetime | None = None
    timezone: str | None = None
    trace_id: str | None = None
    span_id: str | None = None
    parameters: dict[str, Any] | None = Field(default=None, description="Values of bind parameters, where logged.")
    metadata: dict[str, Any] = Field(default_factory=dict)

    @property
    def key(self) -> str | None:
        """The record's own id, else trace and span id, else None (the message's position then identifies it)."""
        if self.event_id:
            return self.event_id
        return f"{self.trace_id}:{self.span_id or ''}" if self.trace_id else None

    def content_digest(self) -> str:
        """Digest of what a score depends on: deliveries of one record share it, another record with its id does not."""
        parts = {name: getattr(self, name) for name in _DECIDE}
        if any(parts[name] is not None for name in _OTHER_THAN_TEXT):
            parts |= self.model_dump(mode="json", include=_OTHER_THAN_TEXT)
        return hashlib.sha256(_AS_JSON(parts).encode()).hexdigest()[:32]


_AS_JSON = json.JSONEncoder(sort_keys=True, ensure_ascii=False).encode
_DECIDE = tuple(sorted(QueryRecord.model_fields.keys() - {"event_id", "trace_id", "span_id", "metadata"}))
_OTHER_THAN_TEXT = {"app_rules", "asked_at", "parameters"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """A record with what the transport knows of it.

    Attributes:
        record: The record; None for a message without a value.
        event_key: Unique within the namespace.
        received_at: The message's timestamp, else when it arrived; for trends and retention, never resolves a date.
        message: The message that held it.
    """

    record: QueryRecord | None
    event_key: str
    received_at: datetime
    message: Message = field(repr=False)
