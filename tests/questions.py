"""Cases of questions: where they are read from, what a case sets, and which parts of a spec it may state."""

from __future__ import annotations

import json
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pytest

from stef.apprules import AppRules
from stef.timespan import Calendar
from stef.values import Text, to_plain

if TYPE_CHECKING:
    from pathlib import Path

    from stef.spec import QuerySpec

NOW = "2025-06-18T09:30:00"


def load(folder: Path) -> list[Any]:
    """All cases of a folder; an empty folder or a file without a case is an error."""
    found = []
    for path in sorted(folder.glob("*.jsonl")):
        lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
        if not lines:
            raise AssertionError(f"{path}: no case")
        found += [pytest.param(case, id=f"{path.stem}-{case['id']}") for case in lines]
    if not found:
        raise AssertionError(f"{folder}: no case")
    return found


def calendar_of(case: dict[str, Any]) -> Calendar:
    """The calendar of a case; `now` of null is a question without a time."""
    now = case.get("now", NOW)
    return Calendar(
        now=None if now is None else datetime.fromisoformat(now), fiscal_year_start_month=case.get("fiscal", 1)
    )


def rules_of(case: dict[str, Any]) -> AppRules:
    """The application's rules of a case."""
    synonyms = {
        column: {word: tuple(map(Text, stored)) for word, stored in words.items()}
        for column, words in case.get("synonyms", {}).items()
    }
    return AppRules(column_mappings=case.get("mappings", {}), value_synonyms=synonyms)


def shown(spec: QuerySpec) -> dict[str, Any]:
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


def check_as_stated(case: dict[str, Any], spec: QuerySpec) -> None:
    """Assert that what a case states of a question is what the question was read as."""
    got = shown(spec)
    stated = {key: case[key] for key in got.keys() & case.keys()}
    assert stated
    assert stated == {key: got[key] for key in stated}


def check_spans(case: dict[str, Any], spec: QuerySpec) -> None:
    """Assert that the characters of each span are the text of its mention."""
    for part in (*spec.filters, *spec.aggregations, *spec.group_by, *spec.order_by, *spec.projections):
        assert part.span is not None
        assert case["question"][part.span.start : part.span.end] == part.text
