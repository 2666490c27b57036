"""Message → records: decode, recognise, map, check."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from stef.errors import RecordError
from stef.ingest.build import build
from stef.ingest.decode import MAX_BYTES, decode, opened
from stef.ingest.draft import Draft, Object
from stef.ingest.envelopes import add_event, members, recognise, unknown_format
from stef.ingest.mapping import FieldMapping
from stef.ingest.platforms import transcript
from stef.ingest.rejection import Rejection, kind, rejected
from stef.record import Arrival, Message, QueryRecord

MAX_RECORDS = 10_000
_TRACEPARENT = re.compile(r"[0-9a-f]{2}-(?P<trace>[0-9a-f]{32})-(?P<span>[0-9a-f]{16})-[0-9a-f]{2}.*", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """What one message held.

    Attributes:
        arrivals: The good records in their order, or one without a record for a message without a value.
        rejected: Why other members of the batch are none; the message belongs into the dead letters too then.
    """

    arrivals: tuple[Arrival, ...]
    rejected: tuple[RecordError, ...] = ()


def read(message: Message, *, mapping: FieldMapping | None = None, now: datetime, max_bytes: int = MAX_BYTES) -> Read:
    """Read the records of a message, whatever its format.

    Args:
        message: As delivered.
        mapping: The consumer's field mapping; what it finds wins, the rest is detected.
        now: When it arrived, aware; used where the message has no time of its own.
        max_bytes: Longest message that is read.

    Raises:
        RecordError: The message holds no record; the reasons are those of `Rejection`.
    """
    received_at = message.timestamp or now
    values = decode(message.value, max_bytes=max_bytes) if message.value is not None else []
    found: list[tuple[int, QueryRecord]] = []
    errors: list[RecordError] = []
    drafts = list(_drafts(values))
    for number, (draft, root) in enumerate(drafts, start=1):
        try:
            if isinstance(draft, RecordError):
                raise draft
            found.append((number, _record(draft, root, mapping, message, alone=len(drafts) == 1)))
        except RecordError as error:
            errors.append(error)
    if errors and not found:
        raise errors[0]
    if not found:
        return Read(
            arrivals=(Arrival(record=None, event_key=message.position, received_at=received_at, message=message),)
        )
    return Read(arrivals=_arrivals(found, message, received_at, batch=len(drafts) > 1), rejected=tuple(errors))


def _arrivals(
    found: list[tuple[int, QueryRecord]], message: Message, received_at: datetime, *, batch: bool
) -> tuple[Arrival, ...]:
    """Give every record its key: the n-th of a batch without ids gets `#<n>`, counted from 1."""
    keys = [record.key or message.position for _, record in found]
    times = Counter(keys) if batch else {}
    arrivals = []
    for key, (number, record) in zip(keys, found, strict=True):
        shared = batch and not record.event_id and (record.key is None or times[key] > 1)
        event_key = f"{key}#{number}" if shared else key
        arrivals.append(Arrival(record=record, event_key=event_key, received_at=received_at, message=message))
    return tuple(arrivals)


def _drafts(values: list[object]) -> Iterator[tuple[Draft | RecordError, object]]:
    """All drafts of a message with the object that each one came in, and errors in the place of bad members."""
    queue = [opened(value) for value in values]
    if len(queue) == 1 and isinstance(queue[0], list):
        whole = transcript(queue[0])
        if whole is not None:
            yield from ((draft, queue[0]) for draft in whole)
            return
        queue = [opened(member) for member in queue[0]]
    elif len(queue) == 1 and isinstance(queue[0], dict):
        batch = _batch(queue[0])
        queue = batch if batch is not None else queue
    if len(queue) > MAX_RECORDS:
        raise rejected(Rejection.TOO_LARGE, f"found {len(queue)} records in one message; allowed: {MAX_RECORDS}")
    for value in queue:
        yield from _drafts_of(value)


def _batch(obj: Object) -> list[object] | None:
    """The members of a batch in an envelope, if the object is no record itself."""
    listed = members(obj)
    if listed is None:
        return None
    try:
        return listed if recognise(obj) is None else None
    except RecordError:
        return listed


def _drafts_of(value: object) -> Iterator[tuple[Draft | RecordError, object]]:
    if value is None:
        return
    if not isinstance(value, dict):
        yield rejected(Rejection.NOT_AN_OBJECT, f"found {kind(value)}; allowed: an object"), value
        return
    try:
        found = recognise(value)
    except RecordError as error:
        yield error, value
        return
    # A mapping may find a record where no format is known.
    drafts = [Draft(source=value, metadata=dict(value))] if found is None else found
    yield from ((draft, value) for draft in drafts)


def _record(draft: Draft, root: object, mapping: FieldMapping | None, message: Message, *, alone: bool) -> QueryRecord:
    if mapping is not None:
        mapping.apply(draft, root, message)
    if not {"question", "sql"} & draft.fields.keys():
        raise unknown_format(draft.source)
    headers = {name.lower(): value.decode("utf-8", "replace") for name, value in message.headers}
    event: Object = {name[3:]: value for name, value in headers.items() if name.startswith(("ce_", "ce-"))}
    add_event(draft, event, alone=alone)
    _add_trace(draft, headers.get("traceparent") or event.get("traceparent") or _noted(draft))
    return build(draft)


def _noted(draft: Draft) -> object:
    """The trace header that a record or the event around it carries as a field."""
    return draft.metadata.get("traceparent") or draft.metadata.get("ce_traceparent")


def _add_trace(draft: Draft, traceparent: object) -> None:
    """Take trace and span from the W3C header, where the record names no trace."""
    found = _TRACEPARENT.fullmatch(traceparent) if isinstance(traceparent, str) else None
    if found is not None and not draft.fields.get("trace_id"):
        draft.fields.update(trace_id=found["trace"].lower(), span_id=found["span"].lower())
