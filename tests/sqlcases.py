"""Reads the case files of the SQL reader, and writes what it read in the short form that they use."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any

from stef.spec import Effect, Filter, GroupKey, Join, Limit, OrderKey, QuerySpec
from stef.sql.extract import extract
from stef.sql.parse import Parsed, parse
from stef.sql.statement import lift
from stef.timespan import Calendar

FOLDER = Path(__file__).parent / "cases" / "sql"


def load(*rules: str) -> list[dict[str, Any]]:
    """All cases of some rules, of all rules when none is named."""
    files = [FOLDER / f"{rule}.jsonl" for rule in rules] or sorted(FOLDER.glob("*.jsonl"))
    cases = []
    for path in files:
        rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
        assert rows, f"{path} holds no case"
        cases += [{**row, "rule": path.stem} for row in rows]
    assert cases, f"{FOLDER} holds no case"
    assert len({(row["rule"], row["id"]) for row in cases}) == len(cases), "an id stands twice"
    return cases


def name(case: dict[str, Any]) -> str:
    """For pytest."""
    return f"{case['rule']}/{case['id']}"


def parsed(case: dict[str, Any]) -> Parsed:
    """A case's statement, lifted and parsed."""
    return parse(lift(case["sql"]), dialect=case.get("dialect"), parameters=case.get("parameters"))


def spec_of(sql: str, dialect: str | None = None, asked_at: str | None = None) -> QuerySpec:
    """The spec of a statement that can be read."""
    found = parse(lift(sql), dialect=dialect)
    assert found.tree is not None, found.detail
    calendar = Calendar(now=datetime.fromisoformat(asked_at) if asked_at else None)
    return extract(found.tree, calendar=calendar, variables=found.variables, dialect=found.dialect)


def short(spec: QuerySpec) -> dict[str, Any]:
    """A spec as the case files write it; parts that are empty are left out, filters never."""
    parts = {
        "group_by": [_group(key) for key in spec.group_by],
        "order_by": [_order(key) for key in spec.order_by],
        "limit": _limit(spec.limit),
        "aggregations": [
            f"{a.function}({'distinct ' if a.distinct else ''}{a.of}){' inner' if a.path else ''}"
            for a in spec.aggregations
        ],
        "tables": list(spec.tables),
        "joins": [_join(join) for join in spec.joins],
        "set_operations": list(spec.set_operations),
        "placeholders": list(spec.placeholders),
        "windows": list(spec.windows),
        "distinct": spec.distinct,
    }
    return {"filters": [filter_text(item) for item in spec.filters], **{k: v for k, v in parts.items() if v}}


def filter_text(item: Filter) -> str:
    """`kind = 'box' [where]`, with its effect where it has none and its number among alternatives."""
    effect = "" if item.effect is Effect.EFFECTIVE else f" {item.effect}"
    alternative = f" or{item.alternative}" if item.alternative else ""
    return f"{item} [{item.scope}{effect}{alternative}]"


def _group(key: GroupKey) -> str:
    return f"{key.column} by {key.unit}" if key.unit else key.column


def _order(key: OrderKey) -> str:
    return f"{key.by} {key.direction}"


def _limit(limit: Limit | None) -> str:
    if limit is None:
        return ""
    parts = [str(limit.count if limit.count is not None else "?")]
    parts += [f"per {', '.join(limit.per)}"] if limit.per else []
    parts += [f"after {limit.offset}"] if limit.offset else []
    parts += ["ties"] if limit.ties else []
    parts += ["below"] if limit.below else []
    return " ".join(parts)


def _join(join: Join) -> str:
    keys = ", ".join(f"{left} = {right}" for left, right in join.keys)
    return f"{join.kind} {join.table}: {keys}".strip(": ")
