"""Whole records as case files state them: question, expansion, SQL, rules, clock; read as the pipeline reads them."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path

import pytest

from stef.data import denied_functions, lexicon, phrasebooks, weights
from stef.judge.caps import capped
from stef.judge.case import case_of
from stef.judge.offline import OfflineJudge
from stef.judge.untrusted import suspicions
from stef.record import QueryRecord
from stef.result import Match
from stef.rulefiles import compile_rules
from stef.timespan import Calendar
from stef.understand import Knowledge, question_reader, understand
from stef.values import describe

CASES = Path(__file__).parent / "cases"
KNOWN = Knowledge(
    read_question=question_reader(lexicon("en"), phrasebooks()),
    weights=weights(),
    denied=denied_functions(),
    max_sql_bytes=100_000,
)
OFFLINE = OfflineJudge(KNOWN.weights)


def load(module):
    """All cases of a module's folder, a file for each rule; a folder or a file without a case is an error."""
    found = []
    for path in sorted((CASES / module).glob("*.jsonl")):
        lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
        if not lines:
            raise AssertionError(f"{path}: no case")
        found += [pytest.param({**case, "rule": path.stem}, id=f"{path.stem}-{case['id']}") for case in lines]
    if not found:
        raise AssertionError(f"{CASES / module}: no case")
    return found


def rules_of(case):
    """The operator's rules of a case."""
    return compile_rules(case.get("app_rules", {}))


def judged(case):
    """Read a record and hold its SQL against its question."""
    rules = rules_of(case)
    asked_at = case.get("asked_at")
    calendar = Calendar(
        now=None if asked_at is None else datetime.fromisoformat(asked_at),
        week_start=rules.week_start or 0,
        fiscal_year_start_month=rules.fiscal_year_start_month or 1,
    )
    record = QueryRecord(
        question=case["question"],
        expanded_question=case.get("expansion"),
        sql=case["sql"],
        dialect=case.get("dialect", "postgres"),
    )
    seen = understand(record, rules, calendar, KNOWN)
    if seen.compared is None:
        raise AssertionError(f"nothing to score: {seen.reason}, {seen.detail}")
    findings = seen.findings + suspicions({"question": record.question, "sql": record.sql or ""})
    return case_of(record, seen, seen.compared, findings=findings, rules=rules)


def verdict(case, given=None):
    """The verdict after the caps: of the offline judge, or of a judge that says `given` whatever it sees."""
    offline = OFFLINE.verdict(case)
    return capped(given or offline, case, offline)


def evidence(alignment):
    """Finding → the columns that it is about, the SQL's own where it has one; unanswered guesses are left out."""
    found = {}
    for item in alignment.filters:
        if item.match is Match.UNDETERMINED and item.found is None:
            continue
        about = item.found or item.asked
        found.setdefault(item.match.value, []).append(about.column or describe(about.value))
    return {match: sorted(names) for match, names in found.items()}
