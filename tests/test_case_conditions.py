"""The case-bank runner's own comparison of conditions: a wrong reader must not pass by it."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest
from case_conditions import Words
from case_fields import nl_filters, sql_filters

CASES = Path(__file__).parent / "cases" / "case_conditions"


def load(rule):
    """The cases of one rule; none at all is a mistake."""
    rows = [json.loads(line) for line in (CASES / f"{rule}.jsonl").read_text(encoding="utf-8").splitlines()]
    assert rows, rule
    return [pytest.param(row, id=row["id"]) for row in rows]


def seen(side, filters, words):
    """What `Seen` gives to a check, with only one spec in it."""
    rows = [{"certainty": 1.0, **item} for item in filters]
    return SimpleNamespace(
        words=words, spec=lambda name: {"filters": rows} if name == side else {}, asked=lambda _: rows
    )


@pytest.mark.parametrize("case", load("sql"))
def test_conditions_of_sql(case):
    """Conditions in SQL are the same when they accept the same rows of the same column in the same place."""
    got = sql_filters(seen("sql", case["got"], Words()), case["expected"])
    assert case["same"] == (got is None), got


@pytest.mark.parametrize("case", load("question"))
def test_conditions_of_a_question(case):
    """Columns of a question are compared loosely, and values as strictly as those of SQL."""
    words = Words.of({"question": case["question"]}, case["rules"])
    got = nl_filters(seen("question", case["got"], words), case["expected"])
    assert case["same"] == (got is None), got
