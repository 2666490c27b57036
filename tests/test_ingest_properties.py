"""What holds for every message: an answer of the documented kinds, and in bounded time."""

from __future__ import annotations

import gzip
import json
import time
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from stef.errors import RecordError
from stef.ingest import FieldMapping, Read, Rejection, read
from stef.record import Message

NOW = datetime(2026, 1, 2, tzinfo=UTC)
REASONS = set(Rejection)
# Names and values that the formats look for, so that their readers are reached.
NAMES = st.sampled_from(
    (
        "question", "sql", "query", "id", "payload", "data", "messages", "role", "content", "input", "output",
        "inputs", "outputs", "run_type", "type", "traceId", "attributes", "resourceSpans", "scopeSpans", "spans",
        "key", "value", "stringValue", "arrayValue", "values", "kvlistValue", "events", "name", "message",
        "attachments", "text", "intermediate_steps", "tool", "tool_input", "specversion", "data_base64", "response",
        "request", "choices", "parts", "observations", "metadata", "extra", "app_rules", "asked_at", "agent",
        "parameters", "context", "trace_id", "start_time", "spanId", "kwargs", "gen_ai.input.messages",
        "llm.input_messages.0.message.role", "input.value", "openinference.span.kind", "records", "child_runs",
        "tool_calls", "function", "arguments", "generations", "statement", "suggestions", "body", "op", "before",
        "after", "schema", "service", "db",
    )
)  # fmt: skip
WORDS = st.sampled_from(
    (
        "user",
        "assistant",
        "analyst",
        "chain",
        "tool",
        "GENERATION",
        "text",
        "sql",
        "SELECT 1",
        '{"question": "a"}',
        "[1]",
    )
)
LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=8) | WORDS
JSONS = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES | st.text(max_size=4), inner, max_size=6),
    max_leaves=30,
)
MAPPING = FieldMapping.of({"question": ["payload.text", "data[*].content"], "app_rules": "extra"}, place="m")


def check(value: bytes, mapping: FieldMapping | None = None) -> None:
    """Read, and check that the answer is of the documented kinds and can be written as UTF-8 JSON."""
    result = outcome(value, mapping)
    if isinstance(result, RecordError):
        assert result.reason in REASONS
        return
    assert result.arrivals
    for arrival in result.arrivals:
        assert arrival.event_key
        if arrival.record is not None:
            written = arrival.record.model_dump_json()
            assert "\\u0000" not in written
            assert len(arrival.record.content_digest()) == 32


def outcome(value: bytes, mapping: FieldMapping | None) -> Read | RecordError:
    """What reading gives."""
    try:
        return read(Message(value=value, topic="t"), mapping=mapping, now=NOW)
    except RecordError as error:
        return error


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=200))
@example(b"\x1f\x8b")
@example(b"\x00\x00\x00\x00\x01{}")
@example(b"\xff\xfe\x00")
def test_any_bytes(value: bytes) -> None:
    """Arbitrary bytes end as records or as a `RecordError` with a documented reason."""
    check(value)


@settings(max_examples=600, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(JSONS)
def test_any_json(value: Any) -> None:
    """So does arbitrary JSON, with the names that the formats look for in every wrong place."""
    check(json.dumps(value).encode())
    check(json.dumps(value).encode(), MAPPING)


@settings(max_examples=200, deadline=None)
@given(
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=60),
    st.text(max_size=60),
)
def test_sql_is_kept(question: str, sql: str) -> None:
    """SQL is kept as logged, character by character, whatever the question holds."""
    sql = "SELECT '" + sql.replace("\0", "") + "'"
    record = (
        read(Message(value=json.dumps({"question": "q " + question, "sql": sql}).encode()), now=NOW).arrivals[0].record
    )
    assert record is not None
    assert sql == record.sql


HOSTILE = {
    "deep_lists": b"[" * 200_000,
    "deep_objects": b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
    "five_megabytes_of_sql": json.dumps({"question": "q", "sql": "SELECT " + "a, " * 1_700_000 + "b FROM t"}).encode(),
    "five_megabytes_of_question": json.dumps({"question": "select " * 700_000, "sql": "SELECT 1"}).encode(),
    "blanks": json.dumps({"prompt": "sql" + " " * 5_000_000 + "x", "answer": " " * 1_000_000}).encode(),
    "comments": json.dumps({"question": "q", "answer": "/**/" * 5_000 + "x"}).encode(),
    "brackets_in_a_text": json.dumps({"question": "q", "payload": "[" * 1_000_000}).encode(),
    "many_fields": json.dumps({f"field{n}": n for n in range(300_000)}).encode(),
    "many_members": b"[" + b"{}," * 50_000 + b"{}]",
    "many_messages": json.dumps({"messages": [{"role": "user", "content": "select from"}] * 60_000}).encode(),
    "nested_texts": json.dumps({"payload": json.dumps({"payload": json.dumps({"payload": json.dumps([1])})})}).encode(),
    "huge_number": b'{"question":"q","sql":"SELECT 1","n":' + b"9" * 1_000_000 + b"}",
    "dotted": json.dumps({"input.value": "q", **{"a." * 50 + str(n): n for n in range(20_000)}}).encode(),
    "deep_dots": json.dumps({"llm.input_messages.0." + "a." * 100_000: 1}).encode(),
    "gzip_of_gzip": gzip.compress(gzip.compress(b"{}" * 100)),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile(name: str) -> None:
    """Messages made to hurt end in one of the documented ways, within seconds."""
    started = time.process_time()
    check(HOSTILE[name])
    assert time.process_time() - started < 10


def test_too_large() -> None:
    """A message beyond the limit is refused without being read."""
    with pytest.raises(RecordError) as caught:
        read(Message(value=b"x" * 101), now=NOW, max_bytes=100)
    assert caught.value.reason == "too_large"
    assert caught.value.detail == "found 101 bytes; allowed: 100"


def test_too_many_records() -> None:
    """A batch beyond the limit is refused as a whole."""
    with pytest.raises(RecordError) as caught:
        read(Message(value=HOSTILE["many_members"]), now=NOW)
    assert caught.value.reason == "too_large"


def test_details_do_not_quote_the_message() -> None:
    """What an error says goes to logs and headers, so it names fields and types and no content."""
    secret = "Marjatta"
    for value in ({"question": [secret], "sql": secret}, {"asked_at": secret, "question": "q", "sql": "x"}, [secret]):
        with pytest.raises(RecordError) as caught:
            read(Message(value=json.dumps(value).encode()), now=NOW)
        assert secret not in caught.value.detail


def test_reading_twice_gives_the_same() -> None:
    """A message that is delivered again has the same keys and the same content."""
    value = json.dumps([{"question": "a", "sql": "SELECT 1"}, {"question": "b", "sql": "SELECT 2"}]).encode()
    first, second = (read(Message(value=value, topic="t", offset=3), now=NOW) for _ in range(2))
    assert first == second


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"qestion": "a"}, "m.qestion: found an unknown field; allowed: question (did you mean this?), agent"),
        ({"question": ""}, "m.question: no path: ''"),
        ({"question": "a[x]"}, "m.question: no path: 'a[x]', at character 2"),
        ({"question": 5}, "m.question: found 5; allowed: a path, a list of paths, or {value: …}"),
        ({"question": []}, "m.question: found an empty list"),
        ({"metadata.": "a"}, "m.metadata.: found an unknown field"),
        ({"question": {"val": 1}}, "m.question: found {'val': 1}; allowed"),
    ],
)
def test_mapping_is_strict(table: dict[str, object], message: str) -> None:
    """A mapping that cannot be meant names its place, what was found, and what is allowed."""
    with pytest.raises(ValueError, match=r"^m\.") as caught:
        FieldMapping.of(table, place="m")
    assert str(caught.value).startswith(message)
