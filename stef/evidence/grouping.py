"""The grain that was asked for against the one that is delivered."""

from __future__ import annotations

import re
from collections.abc import Iterator

from stef.evidence.facts import SURE, Facts, Signal
from stef.names import similarity, stems
from stef.spec import GroupKey, Op, Projection, QuerySpec

_TOTAL = re.compile(r"\b(?:(?:one|single) (?:number|figure)|in total|together|overall|combined)\b", re.IGNORECASE)
_SPLIT = re.compile(
    r"\b(?:each|every|per|by|versus|vs|compar\w*|respective\w*|and (?:how many|the number))\b", re.IGNORECASE
)
# With MIN and MAX some databases give the row that holds the extreme, and people use it.
_PICKS_A_ROW = frozenset({"min", "max", "argmin", "argmax", "list", "any"})


def grouping(facts: Facts) -> Iterator[Signal]:
    """A grouping that was asked for must be there."""
    sql = facts.sql
    if not sql.aggregations or sql.group_by or sql.windows or (sql.limit is not None and sql.limit.per):
        return
    key = next((key for key in facts.asked.group_by if key.certainty >= SURE and not _is_rate(key, facts)), None)
    if key is not None and any(item.aggregates and "(" in item.text for item in sql.projections):
        detail = f"asked for figures by {key.column or key.unit}, and the SQL gives one figure"
        yield Signal("grouping", key.certainty, "missing_group_by", detail)


def _is_rate(key: GroupKey, facts: Facts) -> bool:
    """Whether a calendar unit belongs to an average ("monthly average") and asks for no groups."""
    return bool(key.unit) and any(item.function in {"avg", "ratio"} for item in facts.asked.aggregations)


def ungrouped(facts: Facts) -> Iterator[Signal]:
    """Plain columns beside an aggregate without GROUP BY: most databases refuse it, the others pick any row."""
    sql = facts.sql
    made = [item for item in sql.projections if item.aggregates and "(" in item.text]
    functions = {function for item in made for function in item.aggregates}
    plain = [item for item in sql.projections if not item.aggregates and item.columns]
    if functions and plain and not (sql.group_by or sql.windows or functions & _PICKS_A_ROW):
        detail = f"{plain[0].text} stands beside {', '.join(sorted(functions))} without GROUP BY"
        yield Signal("ungrouped", 1.0, "missing_group_by", detail)


def grain(facts: Facts) -> Iterator[Signal]:
    """A single figure was asked for, and the SQL gives one for each group."""
    if not _asks_for_one(facts) or not any(item.aggregates for item in facts.sql.projections):
        return
    total = _TOTAL.search(facts.asked_text) is not None
    split = [key for key in facts.sql.group_by if _splits(key.column, facts.sql, total=total)]
    unasked = [key for key in split if total or not stems(key.column) & facts.words]
    if unasked and (total or facts.normalized.group_by or _plain(facts)):
        detail = f"asked for one figure, and the SQL gives one for each {unasked[0].column}"
        yield Signal("grain", 0.9, "wrong_join_grain", detail)


def _asks_for_one(facts: Facts) -> bool:
    asked = facts.asked
    if not asked.aggregations or asked.group_by or asked.order_by or asked.limit is not None:
        return False
    return _TOTAL.search(facts.asked_text) is not None or _SPLIT.search(facts.asked_text) is None


def _plain(facts: Facts) -> list[Projection]:
    """Output columns beside the figure, where the question names none."""
    return [item for item in facts.sql.projections if not item.aggregates and not facts.asked.projections]


def _splits(column: str, sql: QuerySpec, *, total: bool) -> bool:
    """Whether grouping by a column splits the figure; a list of its values mostly says that this is wanted."""
    one_or_named = {Op.EQ} if total else {Op.EQ, Op.IN}
    return not any(item.op in one_or_named and similarity(item.column, column) == 1.0 for item in sql.filters)
