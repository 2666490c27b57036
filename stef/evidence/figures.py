"""The figure that was asked for against the one that is computed."""

from __future__ import annotations

import re
from collections.abc import Iterator

from stef.apprules import AppRules
from stef.evidence.facts import SURE, Facts, Signal
from stef.matching import is_moment
from stef.names import similarity, stem, stems, tokens
from stef.spec import Aggregation, JoinKind, Op, QuerySpec

_COUNTED = frozenset({"number", "count", "total", "num", "quantity", "amount", "sum"})
_FIGURES = frozenset(
    stem(word) for word in (*_COUNTED, "average", "maximum", "minimum", "percent", "rate", "ratio", "many", "much")
)
# What may deliver each function.
_DELIVERS = {
    "count": frozenset({"count", "sum", "ratio"}),
    "sum": frozenset({"sum", "ratio"}),
    "avg": frozenset({"avg", "ratio"}),
    "ratio": frozenset({"ratio", "avg"}),
    "max": frozenset({"max", "argmax"}),
    "min": frozenset({"min", "argmin"}),
    "median": frozenset({"median", "percentile"}),
    "percentile": frozenset({"percentile", "median"}),
}
_KEPT_IN = {
    "count": _COUNTED,
    "sum": _COUNTED,
    "ratio": frozenset({"percent", "rate", "ratio", "share", "average", "mean"}),
    "avg": frozenset({"average", "mean"}),
}
_KEYS = (("id",), ("key",), ("code",))
_MEAN_OF_QUOTIENTS = re.compile(r"\bAVG\s*\((?:[^()]|\([^()]*\))*/", re.IGNORECASE)


def aggregates(facts: Facts) -> Iterator[Signal]:
    """An aggregate that was asked for must be delivered."""
    answered = any(_given(wanted, facts) for wanted in facts.asked.aggregations)
    for wanted in facts.asked.aggregations:
        sureness = _sureness(wanted, facts)
        other_sense = answered and (wanted.function == "count" or _is_in_a_name(wanted, facts.sql))
        if sureness < SURE or other_sense or _given(wanted, facts) or _stored(wanted, facts.sql):
            continue
        detail = f"asked for {_named(wanted)}, and the SQL computes {_computed(facts.sql)}"
        yield Signal("aggregate", sureness, "wrong_aggregate", detail)


def _is_in_a_name(wanted: Aggregation, sql: QuerySpec) -> bool:
    """Whether "total" belongs to the name of a column that another figure runs over (average `total_amount`)."""
    return wanted.function == "sum" and any("total" in tokens(item.of) for item in sql.aggregations)


def _sureness(wanted: Aggregation, facts: Facts) -> float:
    """A sum of a measure that R_app knows is meant as one, however it was put."""
    mapped = wanted.function == "sum" and _measure(wanted.of, facts.rules) is not None
    return max(wanted.certainty, 0.8) if mapped else wanted.certainty


def counted_twice(facts: Facts) -> Iterator[Signal]:
    """Distinct values were to be counted, and rows are."""
    for wanted in facts.asked.aggregations:
        given = _given(wanted, facts)
        if wanted.certainty < SURE or not wanted.distinct or not given or any(item.distinct for item in given):
            continue
        if facts.sql.joins or any(item.of != "*" for item in given):
            detail = f"{_named(wanted)} counts rows, and the same one may come again"
            yield Signal("count_distinct", wanted.certainty, "wrong_aggregate", detail)


def counted_keys(facts: Facts) -> Iterator[Signal]:
    """Things were to be counted, and what is counted is their key in the rows of something else.

    `COUNT(customer_id)` over orders counts a customer once for each order.
    """
    sql = facts.sql
    if sql.joins or len(sql.tables) != 1:
        return
    table = stems(sql.tables[0].rpartition(".")[2])
    entities = [
        stems(wanted.of)
        for wanted in facts.asked.aggregations
        if wanted.function == "count" and not wanted.distinct and wanted.certainty >= SURE
    ]
    for item in sql.aggregations:
        key = tokens(item.of)
        of_key = item.function == "count" and not item.distinct and key[-1:] in _KEYS
        if of_key and any(stems(" ".join(key[:-1])) & entity and not table & entity for entity in entities):
            yield Signal("counted_keys", 1.0, "wrong_aggregate", f"COUNT({item.of}) counts rows of {sql.tables[0]}")
            return


def counted_outer(facts: Facts) -> Iterator[Signal]:
    """COUNT(*) after an outer join counts one row where there is nothing to count."""
    sql = facts.sql
    outer = any(join.kind is JoinKind.LEFT for join in sql.joins) and bool(sql.group_by)
    guarded = any(item.op in {Op.IS_NOT_NULL, Op.IS_NULL} for item in sql.filters)
    of_rows = [item for item in sql.aggregations if item.function == "count" and item.of == "*" and not item.distinct]
    if outer and of_rows and len(of_rows) == len(sql.aggregations) and not guarded:
        yield Signal("count_outer", 1.0, "wrong_aggregate", "COUNT(*) counts one row where the outer join found none")


def _named(item: Aggregation) -> str:
    of = f"{'distinct ' if item.distinct else ''}{item.of}".strip()
    return f"{item.function} of {of}" if item.of else item.function


def _computed(sql: QuerySpec) -> str:
    return ", ".join(dict.fromkeys(item.function for item in sql.aggregations)) or "no aggregate"


def _given(wanted: Aggregation, facts: Facts) -> list[Aggregation]:
    """The aggregates of the SQL that may be the one asked for."""
    return [item for item in facts.sql.aggregations if _delivers(wanted, item, facts)]


def _delivers(wanted: Aggregation, given: Aggregation, facts: Facts) -> bool:
    if given.function == wanted.function or given.function in _DELIVERS.get(wanted.function, ()):
        return True
    return wanted.function == "sum" and given.function == "count" and _may_be_count(wanted, facts)


def _may_be_count(wanted: Aggregation, facts: Facts) -> bool:
    """Whether "total" may mean how many: of rows of a table, or of something that R_app has no measure for."""
    if any(similarity(wanted.of, table.rpartition(".")[2]) >= 0.6 for table in facts.sql.tables):
        return True
    return wanted.certainty < 0.8 and _measure(wanted.of, facts.rules) is None


def _stored(wanted: Aggregation, sql: QuerySpec) -> bool:
    """Whether the figure is kept in a column, ranked for, or made by a window."""
    if wanted.function in {"max", "min"}:
        return sql.limit is not None or bool(sql.order_by)
    plain = (item for item in sql.projections if not item.aggregates)
    columns = {word for item in plain for name in item.columns for word in tokens(name)}
    kept = bool(_KEPT_IN.get(wanted.function, frozenset()) & columns)
    return kept or bool(sql.windows) or wanted.function not in _DELIVERS


def measure(facts: Facts) -> Iterator[Signal]:
    """R_app says which column a measure is; the aggregate must run over that one."""
    rivals = [item.of for item in facts.sql.aggregations if item.of not in {"", "*"}]
    used = {column for item in facts.sql.projections for column in item.columns} | set(rivals)
    named = [item.of for item in facts.asked.aggregations if item.of] + [item.name for item in facts.asked.projections]
    for word in dict.fromkeys(named):
        physical = _measure(word, facts.rules)
        if physical is None or not rivals or _uses(used, physical):
            continue
        yield Signal("measure", 1.0, "wrong_column", f"{word} is {physical}, and the SQL takes {rivals[0]}")
        return


def _uses(columns: set[str], physical: str) -> bool:
    """Whether one of the columns is the physical one, or part of its expression."""
    return any(set(tokens(column)) <= set(tokens(physical)) for column in columns - {"*"})


def _measure(phrase: str, rules: AppRules) -> str | None:
    """The column that R_app has for what is measured ("total revenue" is revenue); a moment is no measure."""
    parts = stems(phrase) - _FIGURES
    mapped = (column for word, column in rules.column_mappings.items() if parts and stems(word) == parts)
    physical = rules.physical(phrase) or next(mapped, None)
    return None if physical is None or is_moment(physical) else physical


def counted_measure(facts: Facts) -> Iterator[Signal]:
    """A measure that R_app maps to a column was asked for, and the SQL only counts rows."""
    if {item.function for item in facts.sql.aggregations} != {"count"} or facts.asked.aggregations:
        return
    for phrase in (item.name for item in facts.asked.projections):
        physical = _measure(phrase, facts.rules)
        if physical is not None and not _shows(facts.sql, physical):
            detail = f"asked for {phrase}, which is {physical}, and the SQL counts rows"
            yield Signal("aggregate", 0.9, "wrong_aggregate", detail)
            return


def _shows(sql: QuerySpec, physical: str) -> bool:
    columns = [column for item in sql.projections for column in item.columns]
    grouped = [key.column for key in sql.group_by]
    return _uses({*columns, *grouped}, physical)


def mean_of_quotients(facts: Facts) -> Iterator[Signal]:
    """A quotient of totals was asked for, and the SQL averages the quotients of the rows."""
    if "averag" in facts.words or "mean" in facts.words:
        return
    for item in facts.sql.projections:
        if "avg" in item.aggregates and _MEAN_OF_QUOTIENTS.search(item.text):
            yield Signal("mean_of_quotients", 1.0, "wrong_aggregate", f"{item.text} weighs every row alike")
            return


def unasked_aggregate(facts: Facts) -> Iterator[Signal]:
    """An aggregate in the output beside plain columns that nobody asked for."""
    shown = [item for item in facts.sql.projections if item.aggregates]
    if not shown or len(shown) == len(facts.sql.projections) or _asks_for_figures(facts):
        return
    about = {stem(word) for column in shown[0].columns for word in tokens(column)}
    if not facts.words & (about | _FIGURES):
        yield Signal("unasked_aggregate", 1.0, "wrong_aggregate", f"nobody asked for {shown[0].text}")


def _asks_for_figures(facts: Facts) -> bool:
    asked = facts.asked
    ranked = asked.order_by or asked.group_by or asked.limit is not None
    return bool(asked.aggregations or ranked or any(item.aggregate for item in facts.sql.filters))
