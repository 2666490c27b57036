"""Tries the formats in order, and looks into envelopes and batches around the records."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable

from stef.errors import RecordError
from stef.ingest import platforms
from stef.ingest.decode import opened, parse
from stef.ingest.draft import Draft, Object, fill, fold
from stef.ingest.moments import moment
from stef.ingest.native import is_container, is_plain, native
from stef.ingest.rejection import Rejection, kind, rejected
from stef.ingest.telemetry import telemetry

Format = Callable[[Object], list[Draft] | None]
# The first one that knows the object reads it.
FORMATS: tuple[Format, ...] = (
    telemetry,
    platforms.langsmith,
    platforms.langchain_tool,
    platforms.langfuse,
    platforms.cortex_analyst,
    platforms.genie,
    platforms.chat,
)
_LISTS = frozenset(
    {
        "records",
        "events",
        "batch",
        "items",
        "runs",
        "observations",
        "rows",
        "messages",
        "entries",
        "logs",
        "data",
        "value",
        "hits",
    }
)
_MAX_DEPTH = 8


def recognise(obj: Object) -> list[Draft] | None:
    """Read the records in an object: [] for a deletion, None when no format is known.

    Raises:
        RecordError: The format is known, and what should be in it is not there.
    """
    if _is_deletion(obj):
        return []
    if is_plain(obj):
        return native(obj)
    found = _known(obj, 0)
    return found if found is not None else native(obj)


def _known(obj: Object, depth: int) -> list[Draft] | None:
    """Read an object of a known format, at any depth of envelopes."""
    if "specversion" in obj and (found := _cloud_event(obj)) is not None:
        return found
    for reader in FORMATS:
        if (found := reader(obj)) is not None:
            return found
    for name, value in obj.items() if depth < _MAX_DEPTH else ():
        if is_container(name) and isinstance(inner := opened(value), dict):
            found = _known(inner, depth + 1)
            if found is not None:
                for draft in found:
                    # The id of an envelope around several records is none of theirs.
                    fill(draft, obj, used=(name,), own=False, beside=len(found) > 1)
                return found
    return None


def unknown_format(source: object) -> RecordError:
    """The error for an object in which nothing was found; it names the fields, never their values."""
    names = ", ".join(sorted(str(name)[:40] for name in source)[:12]) if isinstance(source, dict) else kind(source)
    return rejected(
        Rejection.UNKNOWN_FORMAT, f"found the fields: {names or 'none'}; allowed: a question and sql under known names"
    )


def members(obj: Object) -> list[object] | None:
    """The records of a batch that stands in an envelope (`{"records": […]}`); None when it is no batch."""
    for name, value in obj.items():
        if fold(name) in _LISTS and isinstance(value, list) and value and all(isinstance(item, dict) for item in value):
            return list(value)
    return None


def _is_deletion(obj: Object) -> bool:
    """A change event that says that a row is gone (`op` d, nothing after), or an envelope around nothing."""
    payload = obj.get("payload", obj) if obj.keys() <= {"schema", "payload"} else obj
    if payload is None:
        return True
    return (
        isinstance(payload, dict) and payload.get("op") == "d" and payload.get("after") is None and "before" in payload
    )


def _cloud_event(obj: Object) -> list[Draft] | None:
    """Read a structured CloudEvent: the data, with id, time and source of the event where the record has none."""
    data = opened(obj.get("data"))
    packed = obj.get("data_base64")
    if data is None and isinstance(packed, str):
        try:
            data = parse(base64.b64decode(packed, validate=True).decode())
        except (binascii.Error, UnicodeDecodeError, json.JSONDecodeError):
            raise rejected(Rejection.NOT_JSON, "data_base64 holds no JSON") from None
    if not isinstance(data, dict):
        raise rejected(Rejection.NOT_AN_OBJECT, f"data of the event: found {kind(data)}; allowed: an object")
    found = recognise(data)
    for draft in found or ():
        add_event(
            draft,
            {name: value for name, value in obj.items() if name not in {"data", "data_base64"}},
            alone=len(found or ()) == 1,
        )
    return found


def add_event(draft: Draft, event: Object, *, alone: bool) -> None:
    """Add the attributes of a CloudEvent to a record that came in it, its id only to one that came alone."""
    if alone:
        draft.put("event_id", event.get("id"))
    if moment(event.get("time")) is not None:
        draft.put("asked_at", event.get("time"))
    draft.put("agent", event.get("source"))
    for name, value in event.items():
        draft.keep(name if name.startswith("ce_") else f"ce_{name}", value)
