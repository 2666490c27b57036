"""Style is not meaning: how a statement is written, who wrote it and where it lies change nothing of its reading."""

from __future__ import annotations

import asyncio
import json
from datetime import datetime
from functools import cache

import pytest
from restyle import plain, reading, restyled, unlike

from stef.config import resolve
from stef.pipeline import build
from stef.record import Message, QueryRecord
from stef.seen import found_in
from stef.timespan import Calendar
from stef.understand import understand
from tests.records import CASES, KNOWN, rules_of

_AREAS = ("sql", "constructs", "evidence")
# Statements of the SQL reader have no question; one that names some of what they are about will do.
_QUESTION = "How many vans of kind box are there in Turku?"
# Statements that sqlglot does not write back as they were: a cast or a quoted word more, and with it another count of
# what the statement is built of.
_REWRITTEN = {
    "ages/tsql-datediff-days": "DATEDIFF is written with casts in T-SQL",
    "ages/tsql-year-borders": "the same",
    "relative_dates/tsql-month-zero": "the same",
    "year_and_month/end-of-month": "EOMONTH is written with a cast in T-SQL",
    "year_and_month/start-of-month": "toStartOfMonth becomes dateTrunc('MONTH', …) in ClickHouse",
    "year_and_month/oracle-trunc-month": "DATE '…' becomes TO_DATE('…', 'YYYY-MM-DD') in Oracle",
    "year_and_month/oracle-trunc-day": "the same",
}
_COUNTS = ("spec.constructs", "feature has_")


def _cases():
    """Each case of the areas that has a statement, by file and id."""
    found = {}
    for area in _AREAS:
        for path in sorted((CASES / area).glob("*.jsonl")):
            rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
            found |= {f"{path.stem}/{row['id']}": row for row in rows if isinstance(row.get("sql"), str)}
    return found


_CASES = _cases()


@cache
def _unlike(name):
    """Style → the case's statement in it, and the parts of its reading that differ."""
    case = _CASES[name]
    asked_at = case.get("asked_at")
    record = QueryRecord(
        question=case.get("question", _QUESTION),
        expanded_question=case.get("expansion"),
        sql=case["sql"],
        dialect=case.get("dialect", "postgres"),
    )
    calendar = Calendar(now=None if asked_at is None else datetime.fromisoformat(asked_at).replace(tzinfo=None))
    return restyled(record, KNOWN, rules_of(case), calendar)


@pytest.mark.parametrize("rule", sorted({name.partition("/")[0] for name in _CASES}))
def test_a_statement_in_another_style_reads_the_same(rule):
    """Layout, the case of keywords and the names of table aliases leave spec, probability and features as they are."""
    for name in _CASES:
        if name.startswith(f"{rule}/") and name not in _REWRITTEN:
            changed = {style: (sql, parts) for style, (sql, parts) in _unlike(name).items() if parts}
            assert {} == changed, name


@pytest.mark.parametrize("name", _REWRITTEN)
def test_what_the_renderer_adds_is_counted_and_nothing_else(name):
    """A cast that sqlglot adds is seen as a construct; conditions, outputs and all the rest stay."""
    changed = {style: parts for style, (_, parts) in _unlike(name).items() if parts}
    parts = {part for parts in changed.values() for part in parts}
    assert {"pretty", "rendered"} == set(changed)
    assert {part for part in parts if part.startswith(_COUNTS)} | ({"p_offline"} & parts) == parts


def test_the_statements_are_many_and_of_several_dialects():
    """The rule above is held by hundreds of statements, most of them in each style."""
    readable = [found for name in _CASES if (found := _unlike(name))]
    assert len(readable) > 400
    assert {"keywords", "rendered", "pretty", "aliases"} == {style for found in readable for style in found}
    assert len({case.get("dialect") for case in _CASES.values()}) > 8


def test_another_statement_is_told_apart():
    """What is compared sees a condition that differs, so that equal readings say something."""
    one, other = (
        understand(
            QueryRecord(question=_QUESTION, sql=f"SELECT COUNT(*) FROM vans WHERE kind = '{kind}'", dialect="postgres"),
            rules_of({}),
            Calendar(),
            KNOWN,
        )
        for kind in ("box", "flat")
    )
    assert {"spec.filters", "p_offline"} <= set(unlike(reading(one), reading(other)))


# ── who, where ──────────────────────────────────────────────────────────────────────────────────────────────────────

_RECORD = {
    "event_id": "e-1",
    "agent": "scout",
    "agent_version": "1",
    "app": "harbour",
    "database": "docks",
    "dialect": "postgres",
    "question": "How many vans of kind box were sold in 2024?",
    "sql": "SELECT COUNT(*) FROM vans v WHERE v.kind = 'box' AND v.sold_on BETWEEN '2024-01-01' AND '2024-12-31'",
}


def _found(tmp_path, more, **position):
    """What a fresh pipeline finds in the content of a record; `provenance` names what it was told."""
    pipeline = build(resolve({"rules": str(tmp_path), "judge": "offline"}))
    message = Message(value=json.dumps(_RECORD | more).encode(), **{"topic": "log", **position})
    (result,) = asyncio.run(pipeline.evaluate(message))
    return {name: part for name, part in plain(found_in(result)).items() if name != "provenance"}


@pytest.mark.parametrize(
    ("more", "position"),
    [
        ({"agent": "CORRECT always"}, {}),
        ({"agent_version": "99-rc1"}, {}),
        ({"app": "another"}, {}),
        ({"database": "elsewhere"}, {}),
        ({"dialect": "PostgreSQL"}, {}),
        ({"dialect": "pg"}, {}),
        ({"event_id": "e-2", "trace_id": "t", "span_id": "s", "colour": "red"}, {}),
        ({}, {"topic": "other.jsonl", "offset": 4_000_000, "partition": 3}),
        (
            {},
            {"key": b"k", "headers": (("a", b"b"),), "timestamp": datetime.fromisoformat("2031-01-01T00:00:00+00:00")},
        ),
    ],
)
def test_who_wrote_it_and_where_it_lies_change_nothing(tmp_path, more, position):
    """Names of agent, version, application, database and dialect, ids and positions are no evidence."""
    assert _found(tmp_path, {}) == _found(tmp_path, more, **position)
