"""The output columns, and whether the statement will run."""

from __future__ import annotations

import re
from collections.abc import Iterator

from stef.evidence.facts import SURE, Facts, Signal
from stef.finding import FindingCode
from stef.names import stems
from stef.spec import Op

_EVERYTHING = re.compile(
    r"\b(?:all|every|everything|each|details?|information|info|records?|rows?|entries|complete|whole|entire|profile|columns?"
    r"|data|list|show)\b",
    re.IGNORECASE,
)


def distinct(facts: Facts) -> Iterator[Signal]:
    """Different values were asked for."""
    sql = facts.sql
    told_apart = sql.distinct or sql.group_by or sql.aggregations or "union" in sql.set_operations
    if facts.asked.distinct and not told_apart:
        yield Signal("distinct", 1.0, "wrong_join_grain", "asked for different values, and the SQL may repeat them")


def columns_more(facts: Facts) -> Iterator[Signal]:
    """More output columns than the question makes plain, beyond one that explains."""
    wanted, given = _wanted(facts), len(facts.sql.projections)
    if wanted and given > wanted + 1:
        detail = f"asked for {wanted} columns, and the SQL gives {given}"
        yield Signal("columns_more", min(1.0, (given - wanted) / 2), "other", detail)


def columns_beyond(facts: Facts) -> Iterator[Signal]:
    """More output columns than anything in the question accounts for; each further one counts half."""
    asked, shown = facts.asked, facts.sql.projections
    if not asked.projections or any(item.name == "*" for item in shown):
        return
    named = {function for item in asked.projections for function in item.aggregates}
    figures = [item for item in asked.aggregations if item.function not in named]
    beyond = len(shown) - len(asked.projections) - len(figures) - len(asked.group_by)
    if beyond > 0:
        detail = f"{len(shown)} output columns, {beyond} of them beyond what was asked for"
        yield Signal("columns_beyond", min(1.0, beyond / 2), "other", detail)


def columns_fewer(facts: Facts) -> Iterator[Signal]:
    """Fewer output columns than the question makes plain."""
    wanted, given = _wanted(facts), len(facts.sql.projections)
    if given < wanted and len(facts.asked.projections) > 1:
        yield Signal("columns_fewer", 1.0, "other", f"asked for {wanted} columns, and the SQL gives {given}")


def _wanted(facts: Facts) -> int:
    """Number of output columns that the question makes plain; 0 when it does not."""
    shown = facts.asked.projections
    unsure = any(item.certainty < SURE for item in shown)
    if not shown or unsure or any(item.name == "*" for item in facts.sql.projections):
        return 0
    named = {function for item in shown for function in item.aggregates}
    return len(shown) + len([item for item in facts.asked.aggregations if item.function not in named])


def dialect(facts: Facts) -> Iterator[Signal]:
    """A statement that its own dialect cannot read will not run."""
    for item in facts.findings:
        if item.code is FindingCode.DIALECT_MISMATCH:
            yield Signal("foreign_dialect", 1.0, "other", item.detail)


def fails(facts: Facts) -> Iterator[Signal]:
    """What its database would refuse, or answer with nothing: one fault, however many reasons."""
    for detail in facts.sql.faults:
        yield Signal("fails", 0.9, "other", detail)
        return


def output_pinned(facts: Facts) -> Iterator[Signal]:
    """An output column that the statement holds to one value, and that nobody asked to see."""
    pinned = {item.column.lower() for item in facts.sql.filters if item.op is Op.EQ and not item.aggregate}
    plain = [] if facts.sql.group_by else [item for item in facts.sql.projections if not item.aggregates]
    for column in (item.columns[0] for item in plain if len(item.columns) == 1):
        if column.lower() in pinned and not stems(column) & facts.words:
            yield Signal("output_pinned", 1.0, "other", f"{column} is put out and has one value only")
            return


def output_star(facts: Facts) -> Iterator[Signal]:
    """All columns, where the question asks for something."""
    if (
        any(item.name == "*" and not item.aggregates for item in facts.sql.projections)
        and _EVERYTHING.search(facts.texts) is None
    ):
        yield Signal("output_star", 1.0, "other", "every column is put out, and the question asks for less")


def bound_twice(facts: Facts) -> Iterator[Signal]:
    """A column held equal to two columns of one other table."""
    if facts.sql.constructs.get("bound_twice"):
        detail = "a column is held equal to two columns of one other table"
        yield Signal("bound_twice", 1.0, "wrong_join_grain", detail)


def undefined(facts: Facts) -> Iterator[Signal]:
    """A qualifier that names no source: the statement will not run."""
    for name in facts.sql.undefined:
        yield Signal("undefined", 1.0, "other", f"{name} names no table of the statement")


def truncated(facts: Facts) -> Iterator[Signal]:
    """A quotient of two counts that the dialect cuts to a whole number."""
    for quotient in facts.sql.truncated:
        yield Signal("truncated", 1.0, "wrong_aggregate", f"{quotient} is cut to a whole number")
