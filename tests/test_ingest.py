"""The formats of records, case by case: `tests/cases/ingest/<format>.jsonl`."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from stef.errors import RecordError
from stef.ingest import FieldMapping, read
from stef.record import Message, QueryRecord

FOLDER = Path(__file__).parent / "cases" / "ingest"
NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
FORMATS = (
    "asked_at",
    "assistants",
    "batches",
    "bytes",
    "chat",
    "cloudevents",
    "envelopes",
    "langfuse",
    "langsmith",
    "mapping",
    "native",
    "openinference",
    "otlp",
)


def load() -> list[Any]:
    """All cases; a format without any is an error."""
    params = []
    for name in FORMATS:
        lines = (FOLDER / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
        if not lines:
            raise AssertionError(f"no case in {name}.jsonl")
        rows = [json.loads(line) for line in lines]
        params += [pytest.param(row, id=f"{name}:{row['id']}") for row in rows]
    return params


def value_of(case: dict[str, Any]) -> bytes | None:
    """The message's bytes."""
    if case.get("null"):
        return None
    if "input_base64" in case:
        return base64.b64decode(case["input_base64"])
    return (case["input"] if case.get("text") else json.dumps(case["input"])).encode()


def message_of(case: dict[str, Any]) -> Message:
    """The message as a transport would deliver it."""
    stamp = case.get("timestamp")
    return Message(
        value=value_of(case),
        key=case["key"].encode() if "key" in case else None,
        headers=tuple((name, value.encode()) for name, value in case.get("headers", {}).items()),
        topic="log",
        offset=case.get("offset", 0),
        timestamp=datetime.fromisoformat(stamp) if stamp else None,
    )


def shown(record: QueryRecord | None, wanted: dict[str, Any]) -> dict[str, Any]:
    """The fields of a record that a case names; of the metadata the names that it names, or all when it names none."""
    assert record is not None
    plain = record.model_dump()
    plain["asked_at"] = record.asked_at and record.asked_at.isoformat()
    if wanted.get("metadata"):
        plain["metadata"] = {name: record.metadata.get(name) for name in wanted["metadata"]}
    return {name: plain[name] for name in wanted}


def test_every_case_file_is_read() -> None:
    """A case file that no test reads is a mistake."""
    assert sorted(path.stem for path in FOLDER.glob("*.jsonl")) == list(FORMATS)


@pytest.mark.parametrize("case", load())
def test_case(case: dict[str, Any]) -> None:
    """A message is read as its case says: records, keys, nothing, or the reason why it is none."""
    expect = case["expect"]
    mapping = FieldMapping.of(case["mapping"], place="mapping") if "mapping" in case else None
    if "rejected" in expect or "rejected_in" in expect:
        with pytest.raises(RecordError) as caught:
            read(message_of(case), mapping=mapping, now=NOW)
        assert caught.value.reason in expect.get("rejected_in", [expect.get("rejected")])
        assert expect.get("detail", caught.value.detail) == caught.value.detail
        return
    result = read(message_of(case), mapping=mapping, now=NOW)
    if expect.get("empty"):
        assert [None] == [arrival.record for arrival in result.arrivals]
        return
    assert len(expect["records"]) == len(result.arrivals)
    assert expect["records"] == [
        shown(a.record, wanted) for a, wanted in zip(result.arrivals, expect["records"], strict=True)
    ]
    if "keys" in expect:
        assert expect["keys"] == [arrival.event_key for arrival in result.arrivals]
    assert expect.get("bad", []) == [error.reason for error in result.rejected]
    received = expect.get("received_at", NOW.isoformat())
    assert {received} == {arrival.received_at.isoformat() for arrival in result.arrivals}
