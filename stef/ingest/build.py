"""The border: a draft becomes a `QueryRecord`, or says why it cannot."""

from __future__ import annotations

import re
from datetime import datetime

from pydantic import ValidationError

from stef.ingest.decode import MAX_DEPTH, opened
from stef.ingest.draft import Draft
from stef.ingest.moments import moment
from stef.ingest.rejection import Rejection, kind, rejected
from stef.record import QueryRecord

_NAMES = ("event_id", "agent", "agent_version", "app", "database", "dialect", "timezone", "trace_id", "span_id")
_TEXTS = ("question", "expanded_question", "sql")
_SURROGATES = re.compile("[\ud800-\udfff]")
# Said in the metadata of a record whose texts were changed.
NOTES = "stef_notes"
NUL_NOTE = "NUL characters taken out"
SURROGATE_NOTE = "broken surrogates replaced"


def build(draft: Draft) -> QueryRecord:
    """Check the types and make the record; a question that is "" is one that was not logged.

    Raises:
        RecordError: wrong_type, no_question or too_deep.
    """
    notes: set[str] = set()
    fields = {name: _clean(value, notes) for name, value in draft.fields.items()}
    values: dict[str, object] = {name: _read(name, value) for name, value in fields.items()}
    values["sql"] = values.get("sql") or None
    if values.get("question") is None:
        raise rejected(Rejection.NO_QUESTION, "question: found nothing; allowed: text")
    metadata = _clean(draft.metadata, notes)
    if notes and isinstance(metadata, dict):
        metadata[NOTES] = sorted(notes)
    try:
        return QueryRecord.model_validate({**values, "metadata": metadata})
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        raise rejected(Rejection.WRONG_TYPE, f"{place}: {first['msg']}") from None


def _read(name: str, value: object) -> object:
    """Read one field in the type that it has in the record."""
    if value is None:
        return None
    if name in _TEXTS:
        return _text(name, value)
    if name in _NAMES:
        return _name(name, value)
    if name == "asked_at":
        return _moment(name, value)
    return _object(name, value)


def _text(name: str, value: object) -> str | None:
    if not isinstance(value, str):
        raise rejected(Rejection.WRONG_TYPE, f"{name}: found {kind(value)}; allowed: text")
    return value if value.strip() or name == "question" else None


def _name(name: str, value: object) -> str | None:
    if isinstance(value, dict) and set(value) == {"$oid"}:
        value = value["$oid"]
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise rejected(Rejection.WRONG_TYPE, f"{name}: found {kind(value)}; allowed: text or a number")
    return str(value).strip() or None


_YEARS = range(1900, 2200)


def _moment(name: str, value: object) -> datetime | None:
    if isinstance(value, datetime):
        return value
    if value == "":
        return None
    found = moment(value)
    if found is None:
        raise rejected(
            Rejection.WRONG_TYPE, f"{name}: found {kind(value)} that is no time; allowed: ISO 8601 or an epoch"
        )
    # A clock that was never set (Go's zero time is in the year 1) says nothing.
    return found if found.year in _YEARS else None


def _object(name: str, value: object) -> dict[str, object] | None:
    value = opened(value)
    if value in ("", []):
        return None
    if name == "parameters" and isinstance(value, list):
        return {str(number): member for number, member in enumerate(value, start=1)}
    if not isinstance(value, dict):
        raise rejected(
            Rejection.WRONG_TYPE, f"{name}: found {kind(value)}; allowed: an object, or text that holds one as JSON"
        )
    return value


def _clean(value: object, notes: set[str], depth: int = 0) -> object:
    """Take out of all texts what no store and no encoder accepts: NUL, and halves of surrogate pairs."""
    if depth > MAX_DEPTH:
        raise rejected(Rejection.TOO_DEEP, f"nested deeper than {MAX_DEPTH}")
    if isinstance(value, str):
        return _clean_text(value, notes)
    if isinstance(value, dict):
        return {_clean_text(str(name), notes): _clean(member, notes, depth + 1) for name, member in value.items()}
    if isinstance(value, list):
        return [_clean(member, notes, depth + 1) for member in value]
    return value


def _clean_text(text: str, notes: set[str]) -> str:
    if "\0" in text:
        notes.add(NUL_NOTE)
        text = text.replace("\0", "")
    if not text.isascii() and _SURROGATES.search(text):
        notes.add(SURROGATE_NOTE)
        # Two halves that belong together become one character again.
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text
