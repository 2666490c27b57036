"""The case-bank runner on a bank of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
RECORD = {"question": "How many boats are moored in Oslo?", "sql": "SELECT COUNT(*) FROM boats WHERE town = 'Oslo'"}
TOWN = {"column": "town", "op": "=", "value": "oslo", "scope": "where"}
NATIVE = json.dumps({"event_id": "b-7", **RECORD})
HOLD = [
    {
        "id": "record",
        "kind": "sql_parse",
        "record": {**RECORD, "sql": f"Here you are:\n```sql\n{RECORD['sql']};\n```"},
        "expect": {"outcome": "scored", "sql_filters": [TOWN], "sql_clean": RECORD["sql"], "verdict_not": [None]},
    },
    {
        "id": "question",
        "kind": "nl_extract",
        "record": {"question": "Boats longer than 12 m", "sql": None},
        "expect": {"nl_filters": [{"column": "length", "op": ">", "value": 12}], "nl_limit": None, "phi": None},
    },
    {
        "id": "reply",
        "kind": "judge_output",
        "input": '{"verdict": "Incorrect", "confidence": 0.7}',
        "expect": {"judge_parsed": True, "verdict": "INCORRECT", "confidence_between": [0.6, 0.8]},
    },
    {"id": "no-reply", "kind": "judge_output", "input": "", "expect": {"judge_parsed": False, "verdict": None}},
    {
        "id": "tombstone",
        "kind": "ingest",
        "input": None,
        "expect": {"outcome": "skipped_empty", "must_not_block": True},
    },
    {
        "id": "bytes",
        "kind": "ingest",
        "input_base64": "//79AIA=",
        "expect": {"outcome": "dead_letter", "must_not_crash": True, "must_not_block": True},
    },
    {
        "id": "twice",
        "kind": "ingest",
        "inputs": [NATIVE, NATIVE],
        "expect": {"outcomes": ["scored", "duplicate"], "scored_count": 1, "record_fields": {"record_id": "b-7"}},
    },
]
FAIL = [
    ("sql_filters", [{**TOWN, "value": "Bergen"}]),
    ("sql_filters", []),
    ("sql_filters", [{**TOWN, "scope": "having"}]),
    ("sql_tables", ["ships"]),
    ("sql_group_by", ["town"]),
    ("sql_order_by", [{"column": "town", "direction": "asc"}]),
    ("sql_limit", 3),
    ("sql_clean", "SELECT 1"),
    ("statement_count", 2),
    ("is_read_only", False),
    ("parse_ok", False),
    ("has_placeholders", True),
    ("has_template", True),
    ("outcome", "skipped_no_sql"),
    ("nl_filters", []),
    ("nl_aggregations", [{"function": "avg"}]),
    ("nl_group_by", ["town"]),
    ("nl_order_by", [{"by": "town", "direction": "asc"}]),
    ("nl_limit", 3),
    ("expansion_drift", True),
    ("alignment_in", ["none of the four"]),
    ("missing_filters", [{"column": "berth", "op": "=", "value": 12}]),
    ("extra_filters", [{"column": "berth", "op": "=", "value": 12}]),
    ("benign", "never"),
    ("normalizations_applied", ["benign_group_by"]),
    ("verdict_in", []),
    ("confidence_between", [2, 3]),
    ("phi", None),
    ("record_fields", {"question": "Another one"}),
    ("scored_count", 2),
    ("sql_filtres", [TOWN]),
]


def run(bank, folder, *flags):
    """Run the runner over a bank."""
    path = folder / "bank.jsonl"
    path.write_text("".join(json.dumps(case) + "\n" for case in bank), encoding="utf-8")
    command = [sys.executable, ROOT / "benchmarks" / "cases.py", path, *flags]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(command, capture_output=True, text=True, env=environment, cwd=folder, check=False)


def test_cases_that_hold(tmp_path):
    """A case passes when every field of it holds, of whatever kind it is."""
    done = run(HOLD, tmp_path)
    assert done.stdout.splitlines()[-1:] == [f"{len(HOLD)} passed, 0 failed"], done.stdout + done.stderr
    assert done.returncode == 0


@pytest.fixture(scope="module")
def failed(tmp_path_factory):
    """What the runner says about cases with one wrong field each, as JSON."""
    bank = [
        {"id": f"{place}", "kind": "align", "record": RECORD, "expect": {name: value}}
        for place, (name, value) in enumerate(FAIL)
    ]
    return run(bank, tmp_path_factory.mktemp("bank"), "--json")


def test_every_field_can_fail(failed):
    """There is no field that passes whatever stef says, and an unknown one fails."""
    rows = [json.loads(line) for line in failed.stdout.splitlines()]
    assert [name for name, _ in FAIL] == [item["field"] for row in rows for item in row["failures"]], failed.stderr


def test_the_closing_line(failed):
    """The closing line counts cases, and a failed one ends the run with 1."""
    assert failed.stderr.splitlines()[-1] == f"0 passed, {len(FAIL)} failed"
    assert failed.returncode == 1


def test_an_empty_bank_fails(tmp_path):
    """A bank without cases has shown nothing."""
    assert run([], tmp_path).returncode == 1
