"""Questions and what they ask for, by rule; a case is a line in `tests/cases/nl/<rule>.jsonl`."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path

import pytest

from stef.apprules import AppRules
from stef.data import lexicon
from stef.nl.extract import extract
from stef.timespan import Calendar
from stef.values import Text, to_plain

FOLDER = Path(__file__).parent / "cases" / "nl"
NOW = "2025-06-18T09:30:00"


def load():
    """All cases of all rules; a file without a case is an error."""
    found = []
    for path in sorted(FOLDER.glob("*.jsonl")):
        lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
        if not lines:
            raise AssertionError(f"{path}: no case")
        found += [pytest.param(case, id=f"{path.stem}-{case['id']}") for case in lines]
    if not found:
        raise AssertionError(f"{FOLDER}: no case")
    return found


def read(case):
    """The spec of a case's question."""
    now = case.get("now", NOW)
    calendar = Calendar(
        now=None if now is None else datetime.fromisoformat(now), fiscal_year_start_month=case.get("fiscal", 1)
    )
    synonyms = {
        column: {word: tuple(map(Text, stored)) for word, stored in words.items()}
        for column, words in case.get("synonyms", {}).items()
    }
    rules = AppRules(column_mappings=case.get("mappings", {}), value_synonyms=synonyms)
    return extract(case["question"], lexicon=lexicon("en"), calendar=calendar, rules=rules)


def shown(spec):
    """The parts of a spec that a case may state."""
    return {
        "filters": [[f.column, f.op.value, to_plain(f.value)] for f in spec.filters if f.certainty >= 0.5],
        "possible": [to_plain(f.value) for f in spec.filters if f.certainty < 0.5],
        "aggregations": [[a.function, a.of, a.distinct] for a in spec.aggregations if a.certainty >= 0.5],
        "group_by": [[g.column, g.unit] for g in spec.group_by if g.certainty >= 0.5],
        "order_by": [[o.by, o.direction.value] for o in spec.order_by if o.certainty >= 0.5],
        "limit": spec.limit and [spec.limit.count, list(spec.limit.per), spec.limit.offset],
        "projections": [p.name for p in spec.projections],
        "distinct": spec.distinct,
        "elliptical": spec.elliptical,
        "language": spec.language,
        "implied": [f.column for f in spec.filters if f.certainty >= 0.5 and f.implied_column],
    }


@pytest.mark.parametrize("case", load())
def test_a_question_is_read_as_its_case_says(case):
    """What a case states of filters, aggregates, grouping, order and limit is what the question is read as."""
    stated = {key: case[key] for key in shown(read(case)).keys() & case.keys()}
    got = shown(read(case))
    assert stated
    assert stated == {key: got[key] for key in stated}


@pytest.mark.parametrize("case", load())
def test_a_mention_is_where_its_span_says(case):
    """The characters of a span are the text of the mention."""
    spec = read(case)
    for part in (*spec.filters, *spec.aggregations, *spec.group_by, *spec.order_by, *spec.projections):
        assert part.span is not None
        assert case["question"][part.span.start : part.span.end] == part.text
