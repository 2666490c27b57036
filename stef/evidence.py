"""What was asked against what is delivered beside the filters, and the probability from all of it.

Each check is one function: it names what it found with a feature (0 to 1, more is worse), a reason code and a sentence.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from stef.apprules import AppRules
from stef.matching import EFFECTS
from stef.names import similarity, stem, tokens
from stef.result import Alignment, Category, Evidence, Finding, JudgeReason, Match
from stef.spec import Aggregation, Effect, OrderKey, QuerySpec
from stef.timespan import Interval
from stef.values import Anything
from stef.weights import Weights

_FILTER_FEATURES = {
    Match.MISSING: ("missing", "missing_filter"),
    Match.INEFFECTIVE: ("ineffective", "missing_filter"),
    Match.WRONG_VALUE: ("wrong_value", "wrong_value"),
    Match.WRONG_OPERATOR: ("wrong_operator", "wrong_value"),
    Match.WRONG_COLUMN: ("wrong_column", "wrong_column"),
    Match.EXTRA: ("extra", "extra_filter"),
    Match.INTRODUCED: ("introduced", "extra_filter"),
    Match.UNDETERMINED: ("undetermined", "other"),
}
_COUNTED = frozenset({"number", "count", "total", "num", "quantity", "amount", "sum"})
_SURE = 0.6


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What the checks look at.

    Attributes:
        asked: The question; the expansion where the question is a follow-up.
        asked_text: Its text.
        sql: Spec of the statement as it is.
        normalized: The same after the tolerances.
    """

    asked: QuerySpec
    asked_text: str
    sql: QuerySpec
    normalized: QuerySpec
    alignment: Alignment
    rules: AppRules
    findings: tuple[Finding, ...] = ()
    statement: str = ""


@dataclass(frozen=True, slots=True)
class Signal:
    """One thing that speaks against the statement; `value` 0 to 1."""

    feature: str
    value: float
    code: str
    detail: str


Check = Callable[[Facts], Iterator[Signal]]


def gather(facts: Facts, weights: Weights) -> Evidence:
    """Run all checks and weigh what they found."""
    signals = [signal for check in CHECKS for signal in check(facts)]
    features: dict[str, float] = {}
    for signal in signals:
        features[signal.feature] = min(2.0, features.get(signal.feature, 0.0) + signal.value)
    odds = weights.intercept + sum(weights.terms[name] * value for name, value in features.items())
    telling = sorted(signals, key=lambda signal: weights.terms[signal.feature] * signal.value)
    reasons = tuple(JudgeReason(code=s.code, detail=s.detail) for s in telling if weights.terms[s.feature] * s.value <= -0.3)
    return Evidence(p_offline=round(1 / (1 + math.exp(-odds)), 4), reasons=reasons, features=features)


# ── filters ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def filters(facts: Facts) -> Iterator[Signal]:
    """Every filter that is not simply matched or benign."""
    for item in facts.alignment.filters:
        known = _FILTER_FEATURES.get(item.match)
        if known is None or (item.match is Match.UNDETERMINED and item.asked is not None and item.found is None):
            continue
        feature, code = known
        about = item.asked or item.found
        if code == "wrong_value" and about is not None and isinstance(about.value, Interval):
            code = "wrong_time_window"
        yield Signal(feature, item.certainty, code, _sentence(item.match, str(item.asked or ""), str(item.found or ""), item.note))


def nothing_met(facts: Facts) -> Iterator[Signal]:
    """None of several or the only required filter is there: the figure is about something else."""
    if facts.alignment.category is Category.NONE:
        yield Signal("none_met", 1.0, "missing_filter", "no condition of the question reached the SQL")


def against_rules(facts: Facts) -> Iterator[Signal]:
    """A column that R_app lets in with one value stands there with another (`is_deleted = 1`)."""
    for item in facts.alignment.filters:
        if item.match is not Match.EXTRA or item.found is None:
            continue
        for condition in facts.rules.benign_filters:
            for rule in condition.filters:
                if similarity(rule.column, item.found.column) == 1.0 and not isinstance(rule.value, Anything):
                    yield Signal("against_rules", 1.0, "wrong_value", f"the rules allow {condition.text}, and the SQL has {item.found}")
                    return


def _sentence(match: Match, asked: str, found: str, note: str) -> str:
    says = {
        Match.MISSING: f"asked for {asked}, and the SQL has no such condition",
        Match.INEFFECTIVE: f"{found} has no effect: {note}",
        Match.WRONG_VALUE: f"asked for {asked}, found {found}",
        Match.WRONG_OPERATOR: f"asked for {asked}, found {found}",
        Match.WRONG_COLUMN: f"asked for {asked}, found {found}: {note}",
        Match.EXTRA: f"nobody asked for {found}",
        Match.INTRODUCED: f"{found} comes from the expansion and not from the question",
        Match.UNDETERMINED: f"{asked or found} cannot be checked: {note}",
    }
    return says[match]


# ── aggregates ──────────────────────────────────────────────────────────────────────────────────────────────────────


def aggregates(facts: Facts) -> Iterator[Signal]:
    """An aggregate that was asked for must be delivered, over distinct values where that was asked for."""
    answered = any(_delivers(wanted, item, facts.sql) for wanted in facts.asked.aggregations for item in facts.sql.aggregations)
    for wanted in facts.asked.aggregations:
        if wanted.certainty < _SURE or (wanted.function == "count" and not wanted.distinct and answered):
            continue
        given = [item for item in facts.sql.aggregations if _delivers(wanted, item, facts.sql)]
        if not given and not _stored(wanted, facts.sql):
            yield Signal("aggregate", wanted.certainty, "wrong_aggregate", f"asked for {_named(wanted)}, and the SQL computes {_given(facts.sql)}")
        elif wanted.distinct and given and not any(item.distinct for item in given) and _repeats(facts.sql, given):
            detail = f"{_named(wanted)} counts rows, which repeat after the join"
            yield Signal("count_distinct", wanted.certainty, "wrong_aggregate", detail)


def _named(item: Aggregation) -> str:
    return f"{item.function} of {'distinct ' if item.distinct else ''}{item.of}".strip() if item.of else item.function


def _given(sql: QuerySpec) -> str:
    return ", ".join(dict.fromkeys(item.function for item in sql.aggregations)) or "no aggregate"


_SAME_FUNCTION = {
    "count": {"count", "sum", "ratio"},
    "sum": {"sum", "ratio"},
    "avg": {"avg", "ratio"},
    "ratio": {"ratio", "avg"},
    "max": {"max", "argmax"},
    "min": {"min", "argmin"},
    "median": {"median", "percentile"},
    "percentile": {"percentile", "median"},
}


def _delivers(wanted: Aggregation, given: Aggregation, sql: QuerySpec) -> bool:
    if given.function == wanted.function or given.function in _SAME_FUNCTION.get(wanted.function, ()):
        return True
    return wanted.function == "sum" and given.function == "count" and (wanted.certainty < 0.8 or _is_entity(wanted.of, sql))


def _is_entity(words: str, sql: QuerySpec) -> bool:
    """Whether rows of a table are meant ("total orders")."""
    return any(similarity(words, table.rpartition(".")[2]) >= 0.6 for table in sql.tables)


def _stored(wanted: Aggregation, sql: QuerySpec) -> bool:
    """Whether the figure is kept in a column, ranked for, or made by a window."""
    columns = [word for item in sql.projections for name in item.columns for word in tokens(name)]
    if wanted.function in {"max", "min"}:
        return sql.limit is not None or bool(sql.order_by)
    if wanted.function in {"count", "sum"} and _COUNTED & set(columns):
        return True
    if wanted.function == "ratio" and any(word in columns for word in ("percent", "rate", "ratio", "share")):
        return True
    if wanted.function in {"avg", "ratio"} and any(word in columns for word in ("avg", "average", "mean")):
        return True
    return bool(sql.windows) or wanted.function not in _SAME_FUNCTION


def _repeats(sql: QuerySpec, given: list[Aggregation]) -> bool:
    return bool(sql.joins) or any(item.of != "*" for item in given)


def measure(facts: Facts) -> Iterator[Signal]:
    """R_app says which column a measure is; the aggregate must run over that one."""
    named = [item.of for item in facts.asked.aggregations if item.of] + [item.name for item in facts.asked.projections]
    used = {column for item in facts.sql.projections for column in item.columns} | {item.of for item in facts.sql.aggregations}
    for word in dict.fromkeys(named):
        physical = facts.rules.physical(word) or _mapped_word(word, facts.rules)
        if physical is None or not used - {"*"} or any(set(tokens(column)) <= set(tokens(physical)) for column in used - {"*"}):
            continue
        rivals = [item.of for item in facts.sql.aggregations if item.of not in {"", "*"}]
        if rivals:
            yield Signal("measure", 1.0, "wrong_column", f"{word} is {physical}, and the SQL takes {rivals[0]}")
        return


def _mapped_word(phrase: str, rules: AppRules) -> str | None:
    """The mapping of a word inside a phrase ("total revenue of stores")."""
    parts = {stem(word) for word in tokens(phrase)}
    return next((column for word, column in rules.column_mappings.items() if {stem(part) for part in tokens(word)} == parts), None)


def unasked_aggregate(facts: Facts) -> Iterator[Signal]:
    """An aggregate in the output beside plain columns that nobody asked for."""
    asked = facts.asked
    if asked.aggregations or asked.order_by or asked.group_by or asked.limit is not None or any(f.aggregate for f in facts.sql.filters):
        return
    shown = [item for item in facts.sql.projections if item.aggregates]
    if shown and len(shown) < len(facts.sql.projections):
        words = {stem(word) for word in tokens(facts.asked_text)}
        about = {stem(word) for column in shown[0].columns for word in tokens(column)}
        if not words & (about | _FIGURES):
            yield Signal("unasked_aggregate", 1.0, "wrong_aggregate", f"nobody asked for {shown[0].text}")


_FIGURES = frozenset(stem(word) for word in (*_COUNTED, "average", "maximum", "minimum", "percent", "rate", "ratio", "many", "much"))


def self_defeating(facts: Facts) -> Iterator[Signal]:
    """A condition that cannot do what it is there for is an error whoever asked for it."""
    known = {item.found for item in facts.alignment.filters if item.match is Match.INEFFECTIVE and item.required}
    for item in facts.sql.filters:
        if item.effect in _DEFEATED and item not in known:
            yield Signal("ineffective", 0.9, "missing_filter", f"{item} has no effect: {EFFECTS[item.effect]}")
            return


_DEFEATED = frozenset({Effect.COUNTED_ELSE, Effect.NULL_COMPARISON, Effect.OR_PRECEDENCE})


# ── grouping ────────────────────────────────────────────────────────────────────────────────────────────────────────


def grouping(facts: Facts) -> Iterator[Signal]:
    """A grouping that was asked for must be there."""
    if not facts.sql.aggregations or (facts.sql.limit is not None and facts.sql.limit.per) or facts.sql.windows:
        return
    for key in facts.asked.group_by:
        if key.certainty < _SURE:
            continue
        if not facts.sql.group_by and not any(not item.aggregates for item in facts.sql.projections):
            yield Signal("grouping", key.certainty, "missing_group_by", f"asked for figures by {key.column or key.unit}, and the SQL gives one figure")
            return


def ungrouped(facts: Facts) -> Iterator[Signal]:
    """Plain columns beside an aggregate without GROUP BY: most databases refuse it, the others pick any row.

    MIN and MAX are left out: SQLite then gives the row that holds the extreme, and people use it.
    """
    sql = facts.sql
    functions = {function for item in sql.projections for function in item.aggregates}
    plain = [item for item in sql.projections if not item.aggregates and item.columns]
    if functions and plain and not sql.group_by and not sql.windows and not functions & {"min", "max", "argmin", "argmax", "list", "any"}:
        yield Signal("grouping", 1.0, "missing_group_by", f"{plain[0].text} stands beside {', '.join(sorted(functions))} without GROUP BY")


def grain(facts: Facts) -> Iterator[Signal]:
    """A single figure was asked for, and the SQL gives one for each group."""
    asked, sql = facts.asked, facts.sql
    single = bool(asked.aggregations) and not asked.group_by and not asked.order_by and asked.limit is None
    if not single or not sql.group_by or not any(item.aggregates for item in sql.projections):
        return
    mentioned = {stem(word) for word in tokens(facts.asked_text)}
    plain = [item for item in sql.projections if not item.aggregates and not asked.projections]
    split = [key for key in facts.normalized.group_by] or [key for key in sql.group_by if _splits(key.column, sql)]
    unasked = [key for key in split if not {stem(word) for word in tokens(key.column)} & mentioned or _is_total(facts.asked_text)]
    if unasked and (plain or facts.normalized.group_by or _is_total(facts.asked_text)):
        yield Signal("grain", 0.9, "wrong_join_grain", f"asked for one figure, and the SQL gives one for each {unasked[0].column}")


def _splits(column: str, sql: QuerySpec) -> bool:
    return not any(item.op == "=" and similarity(item.column, column) == 1.0 for item in sql.filters)


def _is_total(text: str) -> bool:
    words = text.lower()
    return any(mark in words for mark in ("one number", "single number", "single figure", "in total", "together", "overall", "combined"))


# ── order and limit ─────────────────────────────────────────────────────────────────────────────────────────────────


def ordering(facts: Facts) -> Iterator[Signal]:
    """A sort that was asked for must be there, in the right direction."""
    for key in facts.asked.order_by:
        if key.certainty < _SURE:
            continue
        if not facts.sql.order_by:
            if not _ranked(facts.sql):
                yield Signal("order_missing", key.certainty, "wrong_order_limit", f"asked for a sort by {key.by or 'rank'}, and the SQL has none")
            return
        first = facts.sql.order_by[0]
        if first.direction is not key.direction and _same_key(key, first, facts.asked.order_by):
            detail = f"asked for {key.by} {key.direction}, found {first.by} {first.direction}"
            yield Signal("order_direction", key.certainty, "wrong_order_limit", detail)
        return


def _ranked(sql: QuerySpec) -> bool:
    return bool(sql.windows) or any(item.function in {"max", "min", "argmax", "argmin"} for item in sql.aggregations)


def _same_key(asked: OrderKey, given: OrderKey, wanted: tuple[OrderKey, ...]) -> bool:
    """Whether the two sort by the same thing; with one key on each side a name that says nothing is enough."""
    if asked.aggregate and given.aggregate:
        return asked.aggregate == given.aggregate or asked.aggregate == "count"
    names = (given.by, *given.columns)
    if asked.by and max((similarity(asked.by, name) for name in names), default=0.0) >= 0.6:
        return True
    return len(wanted) == 1 and (not asked.by or asked.by in {"date", "count"})


def limits(facts: Facts) -> Iterator[Signal]:
    """The number of rows asked for is the number of rows delivered."""
    asked, given = facts.asked.limit, facts.normalized.limit
    if facts.sql.limit is not None and facts.sql.limit.below and facts.sql.aggregations:
        yield Signal("limit_below", 1.0, "wrong_order_limit", f"{facts.sql.limit.text or 'a limit'} stands below the aggregate, which then sees no more rows")
        return
    if given is None or given.count is None or given.below:
        return
    if asked is not None and asked.count is not None and asked.certainty >= _SURE:
        if asked.count != given.count and not given.ties:
            yield Signal("limit_count", asked.certainty, "wrong_order_limit", f"asked for {asked.count}, and the SQL gives {given.count} rows")
    elif asked is None and not given.per and given.count > 1 and not facts.asked.order_by:
        yield Signal("limit_unasked", 1.0, "wrong_order_limit", f"nobody asked for {given.count} rows only")


# ── output ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def distinct(facts: Facts) -> Iterator[Signal]:
    """Different values were asked for."""
    sql = facts.sql
    if facts.asked.distinct and not (sql.distinct or sql.group_by or sql.aggregations or "union" in sql.set_operations):
        yield Signal("distinct", 1.0, "wrong_join_grain", "asked for different values, and the SQL may repeat them")


def columns(facts: Facts) -> Iterator[Signal]:
    """The number of output columns, where the question makes it plain."""
    sure = [item for item in facts.asked.projections if item.certainty >= _SURE]
    if not sure or len(sure) < len(facts.asked.projections) or any(item.name == "*" for item in facts.sql.projections):
        return
    wanted, given = len(sure) + len([a for a in facts.asked.aggregations if not any(a.function in p.aggregates for p in sure)]), len(facts.sql.projections)
    if given > wanted + 1:
        yield Signal("columns_more", min(1.0, (given - wanted) / 2), "other", f"asked for {wanted} columns, and the SQL gives {given}")
    elif given < wanted and len(sure) > 1:
        yield Signal("columns_fewer", 1.0, "other", f"asked for {wanted} columns, and the SQL gives {given}")


def dialect(facts: Facts) -> Iterator[Signal]:
    """A statement that its own dialect cannot read will not run."""
    for item in facts.findings:
        if item.code == "dialect_mismatch":
            yield Signal("foreign_dialect", 1.0, "other", item.detail)


CHECKS: tuple[Check, ...] = (filters, nothing_met, against_rules, aggregates, measure, unasked_aggregate, self_defeating, grouping, ungrouped, grain, ordering, limits, distinct, columns, dialect)
