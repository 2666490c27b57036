"""What the model is shown of a case: each text between marks, and what stef found as short lines of facts.

Nothing that comes from a record stands outside the marks. The offline probability is left out on purpose: the model's
verdict is combined with it later, and must not repeat it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from stef.apprules import AppRules
from stef.judge.case import JudgeCase
from stef.judge.untrusted import fence
from stef.result import Alignment, Expansion, FilterEvidence
from stef.spec import Aggregation, GroupKey, Join, Limit, OrderKey, QuerySpec
from stef.values import to_plain

VARIABLES = ("question", "expansion", "sql", "facts", "rules", "nonce")
REQUIRED = ("question", "sql", "nonce")
# Characters kept of each text.
_LIMITS = {"question": 4_000, "expansion": 4_000, "sql": 24_000, "facts": 8_000, "rules": 6_000}
_NOTHING = "(none)"


def variables(case: JudgeCase, nonce: str) -> dict[str, str]:
    """Everything that a prompt may show, by the names in `VARIABLES`.

    Args:
        case: Its texts are untrusted.
        nonce: Of this call; nobody may know it beforehand.
    """
    texts = {
        "question": case.record.question,
        "expansion": case.record.expanded_question or _NOTHING,
        "sql": case.statement,
        "facts": "\n".join(facts(case)) or _NOTHING,
        "rules": rules(case.rules),
    }
    return {name: fence(name, text, nonce, _LIMITS[name]) for name, text in texts.items()} | {"nonce": nonce}


def facts(case: JudgeCase) -> Iterator[str]:
    """What the symbolic side found, one fact a line."""
    yield from _context(case)
    for title, spec in (
        ("question asks", case.specs.question),
        ("expansion asks", case.specs.expansion),
        ("sql does", case.specs.sql),
    ):
        if spec is not None:
            yield from (f"{title}: {line}" for line in _spec(spec))
    yield from _alignment(case.alignment)
    if case.expansion is not None:
        yield from _expansion(case.expansion)
    yield from (f"tolerated: {trace.rule}: {trace.detail}" for trace in case.normalizations)
    yield from (f"finding: {found.code} ({found.severity}) {found.detail}".rstrip() for found in case.findings)


def rules(app: AppRules) -> str:
    """R_app's mappings, synonyms and benign filters as JSON."""
    synonyms = {
        column: {word: [to_plain(value) for value in values] for word, values in words.items()}
        for column, words in app.value_synonyms.items()
    }
    shown = {
        "column_mappings": dict(app.column_mappings),
        "benign_filters": [condition.text for condition in app.benign_filters],
        "value_synonyms": synonyms,
    }
    kept = {name: value for name, value in shown.items() if value}
    return json.dumps(kept, ensure_ascii=False, indent=1) if kept else _NOTHING


def _context(case: JudgeCase) -> Iterator[str]:
    record = case.record
    if record.dialect:
        yield f"dialect as logged: {record.dialect}"
    if record.asked_at:
        zone = f", zone {record.timezone}" if record.timezone else ""
        yield f"asked at: {record.asked_at.isoformat()}{zone}"


def _spec(spec: QuerySpec) -> Iterator[str]:
    for name, items in (
        ("aggregate", map(_aggregation, spec.aggregations)),
        ("filter", map(str, spec.filters)),
        ("group by", map(_group, spec.group_by)),
        ("order by", map(_order, spec.order_by)),
        ("limit", map(_limit, [spec.limit] if spec.limit else [])),
        ("tables", [", ".join(spec.tables)] if spec.tables else []),
        ("join", map(_join, spec.joins)),
    ):
        yield from (f"{name} {item}" for item in items)
    if spec.distinct:
        yield "distinct rows"
    if spec.elliptical:
        yield "a follow-up of an earlier question"


def _aggregation(item: Aggregation) -> str:
    return f"{item.function}({'distinct ' if item.distinct else ''}{item.of or '?'})"


def _group(item: GroupKey) -> str:
    return f"{item.column} by {item.unit}" if item.unit else item.column


def _order(item: OrderKey) -> str:
    by = f"{item.aggregate}({item.by})" if item.aggregate and item.aggregate not in item.by else item.by
    return f"{by or '?'} {item.direction}"


def _limit(item: Limit) -> str:
    parts = ["?" if item.count is None else str(item.count)]
    parts += [f"per {', '.join(item.per)}"] if item.per else []
    parts += [f"offset {item.offset}"] if item.offset else []
    parts += ["below an aggregate or another filter"] if item.below else []
    return " ".join(parts)


def _join(item: Join) -> str:
    on = " and ".join(f"{left} = {right}" for left, right in item.keys)
    return f"{item.kind} {item.table}{' on ' + on if on else ''}"


def _alignment(alignment: Alignment) -> Iterator[str]:
    yield f"filters as a whole: {alignment.category}"
    yield from map(_evidence, alignment.filters)


def _evidence(item: FilterEvidence) -> str:
    asked = f"asked {item.asked}" if item.asked else ""
    found = f"found {item.found}" if item.found else ""
    sides = ", ".join(side for side in (asked, found) if side)
    effect = f" [{item.found.effect}]" if item.found and item.found.effect != "effective" else ""
    required = "required " if item.required else ""
    return f"{required}filter {item.match}: {sides}{effect}{' - ' + item.note if item.note else ''}"


def _expansion(expansion: Expansion) -> Iterator[str]:
    for change in expansion.changes:
        sides = " -> ".join(str(side) for side in (change.question, change.expansion) if side is not None)
        yield f"expansion {change.drift}: {sides}"
