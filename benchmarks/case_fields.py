"""What a case may expect of stef, field by field, and how each is compared with what stef made of it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from case_conditions import (
    Condition,
    Words,
    agree,
    fold,
    from_case,
    from_filter,
    joined,
    named_alike,
    same_column,
    swapped,
    unmatched,
)

from stef.record import QueryRecord
from stef.result import Evaluation, Reason
from stef.sql.parse import Parsed

Json = dict[str, Any]
_FAULTS = frozenset({"missing", "wrong_value", "wrong_operator", "wrong_column", "ineffective"})
_EXTRAS = frozenset({"extra", "benign_extra", "introduced"})
_FUNCTIONS = {"average": "avg", "mean": "avg", "total": "sum", "number": "count", "maximum": "max", "minimum": "min"}
_PARSED_ALL_THE_SAME = frozenset({Reason.NOT_A_QUERY, Reason.OPAQUE})


@dataclass(slots=True, kw_only=True)
class Seen:
    """What stef made of one case.

    Attributes:
        outcomes: Of all messages, in the words of a case bank (`scored`, `skipped_no_sql`, `duplicate`, …).
        evaluation: Of the first record; None when the message holds none.
        result: The same as the public JSON, with specs.
        record: As read.
        parsed: The statement, as the reader of SQL has it.
        blocked: The record sent afterwards was not scored.
        reply: Verdict and confidence of a judge's reply; None when it holds no verdict.
        crash: Traceback, when something was raised that must not be.
    """

    words: Words = field(default_factory=Words)
    outcomes: list[str] = field(default_factory=list)
    evaluation: Evaluation | None = None
    result: Json = field(default_factory=dict)
    record: QueryRecord | None = None
    parsed: Parsed | None = None
    blocked: bool = False
    reply: tuple[str, float] | None = None
    crash: str = ""

    def spec(self, side: str) -> Json:
        """One of the three specs, {} when it was not read."""
        return (self.result.get("spec") or {}).get(side) or {}

    def asked(self, part: str) -> list[Json]:
        """What the question asks for; a follow-up's other parts come from its expansion."""
        own = [item for item in self.spec("question").get(part) or () if item["certainty"] >= 0.5]
        if not self.spec("question").get("elliptical"):
            return own
        more = [item for item in self.spec("expansion").get(part) or () if item["certainty"] >= 0.5]
        # What the follow-up names by its value alone, the expansion says again with its column: one condition.
        named = [(item["op"], item["value"]) for item in more if part == "filters" and item["column"]]
        kept = [item for item in own if part != "filters" or item["column"] or (item["op"], item["value"]) not in named]
        return kept + more

    def evidence(self, matches: frozenset[str]) -> list[Json]:
        """The filters that ended in one of these ways."""
        return [item for item in (self.result.get("alignment") or {}).get("filters", ()) if item["match"] in matches]


# ── fields with one value ────────────────────────────────────────────────────────────────────────────────────────────


def _verdict(seen: Seen) -> str | None:
    if seen.reply is not None:
        return seen.reply[0]
    judge = seen.result.get("judge")
    return judge["verdict"] if judge else None


def _confidence(seen: Seen) -> float | None:
    if seen.reply is not None:
        return seen.reply[1]
    judge = seen.result.get("judge")
    return judge["confidence"] if judge else None


def _parse_ok(seen: Seen) -> bool:
    known = seen.evaluation is not None and seen.evaluation.reason in _PARSED_ALL_THE_SAME
    return known or bool(seen.spec("sql"))


def _clean(sql: str) -> str:
    return " ".join(sql.split()).removesuffix(";").rstrip()


def _limit(side: str, seen: Seen) -> int | None:
    limit = seen.spec(side).get("limit")
    return limit["count"] if limit and limit["certainty"] >= 0.5 else None


def _category(seen: Seen) -> str | None:
    return (seen.result.get("alignment") or {}).get("category")


def _drift(seen: Seen) -> bool:
    return bool(seen.evaluation and seen.evaluation.expansion and seen.evaluation.expansion.drifted)


VALUES: dict[str, Callable[[Seen], Any]] = {
    "alignment": _category,
    "benign": lambda seen: (seen.result.get("alignment") or {}).get("benign"),
    "confidence": _confidence,
    "expansion_drift": _drift,
    "has_placeholders": lambda seen: bool(seen.spec("sql").get("placeholders")),
    "has_template": lambda seen: seen.result.get("reason") == Reason.TEMPLATED,
    "is_read_only": lambda seen: not any(item["code"] == "not_read_only" for item in seen.result.get("findings", ())),
    "judge_parsed": lambda seen: seen.reply is not None,
    "must_not_block": lambda seen: not seen.blocked,
    "must_not_crash": lambda seen: not seen.crash and "failed_internal" not in seen.outcomes,
    "nl_limit": partial(_limit, "question"),
    "outcome": lambda seen: seen.outcomes[0] if seen.outcomes else None,
    "outcomes": lambda seen: seen.outcomes,
    "parse_ok": _parse_ok,
    "phi": lambda seen: seen.result.get("phi"),
    "scored_count": lambda seen: seen.outcomes.count("scored"),
    "sql_clean": lambda seen: _clean(seen.result.get("sql", "")),
    "sql_limit": partial(_limit, "sql"),
    "statement_count": lambda seen: len(seen.parsed.statements) if seen.parsed else 0,
    "verdict": _verdict,
}


def _value_holds(suffix: str, expected: Any, got: Any) -> bool:  # noqa: ANN401 - a case's JSON
    match suffix:
        case "_in":
            return got in expected
        case "_not":
            return got not in expected
        case "_between":
            return got is not None and expected[0] <= got <= expected[1]
        case _ if isinstance(expected, float) and isinstance(got, int | float):
            return abs(expected - got) < 0.005
        case _:
            return bool(expected == got)


# ── fields with lists ────────────────────────────────────────────────────────────────────────────────────────────────


def _compare(
    expected: Sequence[Condition],
    got: Sequence[Condition],
    words: Words,
    same_name: Callable[..., bool],
    *,
    loose: bool = False,
) -> str | None:
    """None when both lists mean the same; else what was got."""

    def fits(want: Condition, have: Condition) -> bool:
        scopes = not want.scope or want.scope == have.scope
        turned = swapped(have, have.names[0]) if have.names else None
        each = [item for item in (have, turned) if item is not None]
        return scopes and any(agree(want, item) and same_name(want.names[0], item.names, words) for item in each)

    lost, left = unmatched(joined(expected), joined(got), fits)
    if not loose:
        left = [item for item in left if not _join_key(item) and not _semi_join(item, got)]
    if not lost and not left:
        return None
    return "; ".join(item.text for item in got) or "none"


def _join_key(item: Condition) -> bool:
    return any(reading[:3] == ("compare", "=", "column") for reading in item.readings)


def _semi_join(item: Condition, got: Sequence[Condition]) -> bool:
    """EXISTS or IN around a subquery whose own conditions are in the list ties the two together and is none itself."""
    ties = any(reading in {("exists",), ("not_exists",)} for reading in item.readings)
    return ties and any(other.scope == "subquery" for other in got if other is not item)


def sql_filters(seen: Seen, expected: list[Json]) -> str | None:
    """Same conditions, each where it stands."""
    got = [from_filter(item) for item in seen.spec("sql").get("filters", ())]
    return _compare([from_case(item) for item in expected], got, seen.words, same_column)


def nl_filters(seen: Seen, expected: list[Json]) -> str | None:
    """Same conditions as the user asks for."""
    got = [from_filter(item, seen.words) for item in seen.asked("filters")]
    return _compare([from_case(item, seen.words) for item in expected], got, seen.words, named_alike, loose=True)


def missing_filters(seen: Seen, expected: list[Json]) -> str | None:
    """Same required conditions lacking or wrong, given as they should be."""
    faults = [item for item in seen.evidence(_FAULTS) if item["required"] and item["asked"]]
    got = [from_filter(item["asked"], seen.words, other_names=_found_name(item)) for item in faults]
    return _compare([from_case(item, seen.words) for item in expected], got, seen.words, named_alike, loose=True)


def _found_name(item: Json) -> tuple[str, ...]:
    return (item["found"]["column"],) if item["found"] and item["match"] != "wrong_column" else ()


def extra_filters(seen: Seen, expected: list[Json]) -> str | None:
    """Same conditions that nobody asked for."""
    got = [from_filter(item["found"]) for item in seen.evidence(_EXTRAS) if item["found"]]
    return _compare([from_case(item) for item in expected], got, seen.words, same_column)


def _written(item: Json, name: str) -> set[str]:
    """A key as written: with its qualifier and without it, the direction left out."""
    text = re.sub(r"\s+(?:asc|desc)\b.*", "", item["text"], flags=re.IGNORECASE)
    return {fold(form) for form in (item[name], text, text.partition(".")[2]) if form}


def sql_tables(seen: Seen, expected: list[str]) -> str | None:
    """Same physical tables."""
    got = seen.spec("sql").get("tables", [])
    return None if {fold(name) for name in expected} == {fold(name) for name in got} else ", ".join(got) or "none"


def sql_group_by(seen: Seen, expected: list[str]) -> str | None:
    """Same keys; their order does not matter."""
    got = seen.spec("sql").get("group_by", ())
    lost, left = unmatched(expected, got, lambda want, have: fold(want) in _written(have, "column"))
    return None if not lost and not left else ", ".join(item["column"] for item in got) or "none"


def sql_order_by(seen: Seen, expected: list[Json]) -> str | None:
    """Same keys and directions in the same order."""
    got = seen.spec("sql").get("order_by", ())
    holds = len(got) == len(expected) and all(
        fold(want["column"]) in _written(have, "by") and want["direction"] == have["direction"]
        for want, have in zip(expected, got, strict=True)
    )
    return None if holds else ", ".join(f"{item['by']} {item['direction']}" for item in got) or "none"


def _function(name: str) -> str:
    return _FUNCTIONS.get(fold(name), fold(name))


def nl_aggregations(seen: Seen, expected: list[Json] | None) -> str | None:
    """Same aggregates; what they run over is compared where the case and the reader say it."""
    got = seen.asked("aggregations")

    def fits(want: Json, have: Json) -> bool:
        over = not want.get("of") or have["of"] in {"", "*"} or named_alike(want["of"], (have["of"],), seen.words)
        distinct = "distinct" not in want or want["distinct"] == have["distinct"]
        return _function(want["function"]) == _function(have["function"]) and over and distinct

    lost, left = unmatched(expected or [], got, fits)
    return None if not lost and not left else ", ".join(f"{item['function']}({item['of']})" for item in got) or "none"


def nl_group_by(seen: Seen, expected: list[str] | None) -> str | None:
    """Same groupings, named loosely."""
    got = seen.asked("group_by")
    lost, left = unmatched(expected or [], got, lambda want, have: named_alike(want, (have["column"],), seen.words))
    return None if not lost and not left else ", ".join(item["column"] for item in got) or "none"


def nl_order_by(seen: Seen, expected: list[Json] | None) -> str | None:
    """Same sorts; where the question does not say by what, the direction decides."""
    got = seen.asked("order_by")

    def fits(want: Json, have: Json) -> bool:
        by = {have["aggregate"], _function(have["by"])}
        name = not have["by"] or _function(want["by"]) in by or named_alike(want["by"], (have["by"],), seen.words)
        return want["direction"] == have["direction"] and name

    lost, left = unmatched(expected or [], got, fits)
    return None if not lost and not left else ", ".join(f"{item['by']} {item['direction']}" for item in got) or "none"


def normalizations_applied(seen: Seen, expected: list[str]) -> str | None:
    """These rules were used, whatever others were."""
    rules = [item["rule"] for item in seen.result.get("normalizations", ())]
    return None if set(expected) <= set(rules) else ", ".join(rules) or "none"


def not_normalized(seen: Seen, expected: list[str]) -> str | None:
    """None of these rules was used."""
    rules = [item["rule"] for item in seen.result.get("normalizations", ())]
    return ", ".join(rules) if set(expected) & set(rules) else None


def record_fields(seen: Seen, expected: Json) -> str | None:
    """The record's fields after reading; the SQL after lifting."""
    record = seen.record.model_dump(mode="json") if seen.record else {}
    record |= {"record_id": record.get("event_id"), "sql": _clean(seen.result.get("sql", ""))}
    got = {name: record.get(name) for name in expected}
    wanted = {name: _clean(value) if name == "sql" and value else value for name, value in expected.items()}
    return None if got == wanted else json.dumps(got, ensure_ascii=False)


LISTS: dict[str, Callable[[Seen, Any], str | None]] = {
    check.__name__: check
    for check in (
        sql_filters, sql_tables, sql_group_by, sql_order_by, nl_filters, nl_aggregations, nl_group_by, nl_order_by,
        missing_filters, extra_filters, normalizations_applied, not_normalized, record_fields,
    )
}  # fmt: skip


def check(name: str, expected: Any, seen: Seen) -> str | None:  # noqa: ANN401 - a case's JSON
    """Check one field of `expect`: None when it holds, else what was got."""
    if name in LISTS:
        return LISTS[name](seen, expected)
    for suffix in ("", "_in", "_not", "_between"):
        get = VALUES.get(name.removesuffix(suffix)) if name.endswith(suffix) else None
        if get is not None:
            got = get(seen)
            return None if _value_holds(suffix, expected, got) else json.dumps(got, ensure_ascii=False)
    return "a field that this runner does not know"


def failures(case: Json, seen: Seen) -> list[Json]:
    """The fields of a case that do not hold."""
    found = [(name, expected, check(name, expected, seen)) for name, expected in case["expect"].items()]
    rows = [{"field": name, "expected": expected, "got": got} for name, expected, got in found if got is not None]
    return [*rows, {"field": "", "expected": "no crash", "got": seen.crash}] if seen.crash else rows
