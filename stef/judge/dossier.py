"""What the model is shown of a case: each text between marks, and what stef found as short lines of facts.

Nothing that comes from a record stands outside the marks. The offline probability is left out on purpose: the model's
verdict is combined with it later, and must not repeat it.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterator
from decimal import Decimal, InvalidOperation
from enum import StrEnum

import sqlglot
from sqlglot.errors import SqlglotError
from sqlglot.tokenizer_core import TokenType

from stef.apprules import AppRules
from stef.catalogue import folded_table, question_digest
from stef.judge.case import JudgeCase
from stef.judge.untrusted import are_still, fence
from stef.result import Alignment, Expansion, FilterEvidence
from stef.spec import Aggregation, GroupKey, Join, Limit, OrderKey, QuerySpec
from stef.values import to_plain

VARIABLES = ("question", "expansion", "sql", "facts", "rules", "schema", "nonce")
REQUIRED = ("question", "sql", "nonce")
# Characters kept of each text.
_LIMITS = {"question": 4_000, "expansion": 4_000, "sql": 24_000, "facts": 8_000, "rules": 6_000, "schema": 6_000}
_NOTHING = "(none)"
_MOST_COLUMNS, _MOST_TABLES = 60, 60
# Where a question is asked at a certain moment, what follows from it stands among the facts.
_MOMENT = "asked at: "


class SchemaHint(StrEnum):
    """Where the names of tables and columns come from that the model is shown."""

    NONE = "none"
    RULES = "rules"
    CATALOGUE = "catalogue"


def variables(case: JudgeCase, nonce: str, hint: SchemaHint = SchemaHint.NONE) -> dict[str, str]:
    """Everything that a prompt may show, by the names in `VARIABLES`.

    Args:
        case: Its texts are untrusted.
        nonce: Of this call; nobody may know it beforehand.
        hint: What `schema` holds.
    """
    texts = {
        "question": case.record.question,
        "expansion": case.record.expanded_question or _NOTHING,
        "sql": case.statement,
        "facts": "\n".join(facts(case)) or _NOTHING,
        "rules": rules(case.rules),
        "schema": "\n".join(schema(case, hint)) or _NOTHING,
    }
    still = are_still(texts)
    fenced = {name: fence(name, text, nonce, _LIMITS[name], is_still=still) for name, text in texts.items()}
    return fenced | {"nonce": nonce}


def gist(case: JudgeCase, hint: SchemaHint = SchemaHint.NONE) -> tuple[str, ...]:
    """What a verdict depends on: two records with the same gist can share one.

    Texts are in canonical form (white space, quotes, the spelling of numbers and keywords). The moment of the question
    is left out, since what it decides stands among the facts.
    """
    found = [line for line in facts(case) if not line.startswith(_MOMENT)]
    texts = (case.record.question, case.record.expanded_question or "")
    return (
        *(" ".join(unicodedata.normalize("NFKC", text).split()) for text in texts),
        _canonical(case.statement),
        "\n".join(found),
        rules(case.rules),
        "\n".join(schema(case, hint)),
    )


def _canonical(statement: str) -> str:
    """A statement as its tokens; as it is where sqlglot cannot take it apart."""
    try:
        tokens = sqlglot.tokenize(statement)
    except SqlglotError:
        return statement
    return json.dumps([_spelt(token.token_type, token.text) for token in tokens])


def _spelt(kind: TokenType, text: str) -> str:
    match kind:
        case TokenType.STRING:
            return f"'{text}'"
        case TokenType.IDENTIFIER:
            return f'"{text}"'
        case TokenType.NUMBER:
            try:
                return str(Decimal(text).normalize())
            except InvalidOperation:
                return text
        case _:
            return text.upper()


def schema(case: JudgeCase, hint: SchemaHint) -> Iterator[str]:
    """Names of tables and columns: those of the statement's tables, and what other tables there are.

    The record's own question never counts.
    """
    if hint is SchemaHint.RULES and case.rules.allowed_tables:
        yield f"tables that may be read: {', '.join(case.rules.allowed_tables[:_MOST_TABLES])}"
    if hint is not SchemaHint.CATALOGUE or case.catalogue is None:
        return
    view = case.catalogue.without(question_digest(case.asked or case.record.question, case.catalogue.key))
    known = view.tables()
    used = {folded_table(name) for name in (case.specs.sql.tables if case.specs.sql else ())}
    for table in (name for name in known if name in used):
        yield f"columns seen on {table}: {', '.join(view.columns(table)[:_MOST_COLUMNS])}"
    if others := [name for name in known if name not in used][:_MOST_TABLES]:
        yield f"other tables seen: {', '.join(others)}"


def facts(case: JudgeCase) -> Iterator[str]:
    """What the symbolic side found, one fact a line."""
    yield from case.notes
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
        yield f"{_MOMENT}{record.asked_at.isoformat()}{zone}"


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
