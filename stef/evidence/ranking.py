"""The sort and the number of rows that were asked for against those delivered."""

from __future__ import annotations

import re
from collections.abc import Iterator

from stef.evidence.facts import SURE, Facts, Signal
from stef.names import similarity
from stef.spec import Limit, OrderKey, QuerySpec
from stef.values import Unknown, Unresolved

_EXTREMES = frozenset({"max", "min", "argmax", "argmin"})
_NUMBERS = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
# Sort keys of a question that name nothing.
_UNNAMED = frozenset({"", "date", "count"})


def ordering(facts: Facts) -> Iterator[Signal]:
    """A sort that was asked for must run in the right direction."""
    key = _first_key(facts.asked)
    if key is None or not facts.sql.order_by:
        return
    given = facts.sql.order_by[0]
    if given.direction is key.direction:
        return
    sureness = _same_key(key, given, facts)
    if sureness:
        detail = f"asked for {key.by or 'a sort'} {key.direction}, found {given.by} {given.direction}"
        yield Signal("order_direction", key.certainty * sureness, "wrong_order_limit", detail)


def order_missing(facts: Facts) -> Iterator[Signal]:
    """A sort that was asked for must be there, unless the statement finds the extreme by other means."""
    key = _first_key(facts.asked)
    if key is not None and not facts.sql.order_by and not _ranked(facts.sql):
        detail = f"asked for a sort by {key.by or 'rank'}, and the SQL has none"
        yield Signal("order_missing", key.certainty, "wrong_order_limit", detail)


def sort_shown(facts: Facts) -> Iterator[Signal]:
    """The sort key stands in the output, and nobody asked to see it."""
    sql, asked = facts.sql, facts.asked
    if not sql.order_by or not asked.order_by or asked.aggregations or len(sql.projections) < 2:
        return
    key = sql.order_by[0]
    keys = {key.by, *key.columns}
    seen = [item for item in sql.projections if keys & {item.name, *item.columns} or key.aggregate in item.aggregates]
    wanted = [word for item in asked.projections for word in (item.name, *item.columns)]
    if seen and not any(similarity(word, name) >= 0.6 for word in wanted for name in keys):
        yield Signal("sort_shown", 1.0, "other", f"{key.by} is the sort key, and nobody asked to see it")


def unranked(facts: Facts) -> Iterator[Signal]:
    """The first rows of an order were asked for, and the statement neither sorts nor cuts nor looks for an extreme."""
    asked, sql = facts.asked, facts.sql
    if asked.limit is None or asked.limit.certainty < SURE or _first_key(asked) is None:
        return
    if not sql.order_by and sql.limit is None and not _ranked(sql) and not _equals_extreme(sql):
        detail = "asked for the first rows of an order, and the SQL gives all"
        yield Signal("unranked", asked.limit.certainty, "wrong_order_limit", detail)


def _equals_extreme(sql: QuerySpec) -> bool:
    """Whether a condition on a figure or a rank may pick the rows."""
    return any(item.aggregate in _EXTREMES for item in sql.filters)


def _first_key(asked: QuerySpec) -> OrderKey | None:
    return next((key for key in asked.order_by if key.certainty >= SURE), None)


def _ranked(sql: QuerySpec) -> bool:
    by_subquery = any(isinstance(item.value, Unknown) and item.value.why is Unresolved.SUBQUERY for item in sql.filters)
    return by_subquery or bool(sql.windows) or any(item.function in _EXTREMES for item in sql.aggregations)


def _same_key(asked: OrderKey, given: OrderKey, facts: Facts) -> float:
    """How sure the two sort by the same thing, 0 to 1; in a top-n with one key each the names need not say so."""
    if asked.aggregate and given.aggregate:
        return 1.0 if asked.aggregate in {given.aggregate, "count"} else 0.0
    if asked.by and max(similarity(asked.by, name) for name in (given.by, *given.columns)) >= 0.6:
        return 1.0
    if len(facts.asked.order_by) > 1:
        return 0.0
    if asked.by in _UNNAMED:
        return 1.0
    both_top = facts.asked.limit is not None and facts.sql.limit is not None and len(facts.sql.order_by) == 1
    return 0.8 if both_top and (given.aggregate or asked.by == "length") else 0.0


def limit_below(facts: Facts) -> Iterator[Signal]:
    """A cap below an aggregate cuts what the aggregate sees."""
    limit = facts.sql.limit
    if limit is not None and limit.below and facts.sql.aggregations:
        detail = f"{limit.text or 'a limit'} stands below the aggregate, which then sees no more rows"
        yield Signal("limit_below", 1.0, "wrong_order_limit", detail)


def limit_count(facts: Facts) -> Iterator[Signal]:
    """The number of rows asked for is the number of rows delivered."""
    asked, given = facts.asked.limit, _cap(facts)
    if asked is None or asked.count is None or asked.certainty < SURE or given is None or given.ties:
        return
    if asked.count != given.count and not _named(given, facts):
        # "the best day" is one row by grammar only.
        sureness = 1.0 if _is_counted(asked) else 0.3
        detail = f"asked for {asked.count}, and the SQL gives {given.count} rows"
        yield Signal("limit_count", asked.certainty * sureness, "wrong_order_limit", detail)


def limit_unasked(facts: Facts) -> Iterator[Signal]:
    """A cap on rows that nobody asked for hides the rest."""
    given = _cap(facts)
    if given is None or facts.asked.limit is not None or facts.asked.order_by or given.per or given.count == 1:
        return
    if not _named(given, facts) and not _gives_one_row(facts.sql):
        yield Signal("limit_unasked", 1.0, "wrong_order_limit", f"nobody asked for {given.count} rows only")


def _cap(facts: Facts) -> Limit | None:
    """The cap that the tolerances left, at the top of the statement and with a number."""
    given = facts.normalized.limit
    return None if given is None or given.count is None or given.below else given


def _named(given: Limit, facts: Facts) -> bool:
    """Whether the number of rows stands in the question."""
    count = given.count or 0
    word = _NUMBERS[count - 1] if 1 <= count <= len(_NUMBERS) else str(count)
    return re.search(rf"\b(?:{count}|{word})\b", facts.asked_text, re.IGNORECASE) is not None


def _is_counted(asked: Limit) -> bool:
    return (asked.count or 0) > 1 or re.search(r"\d|\bone\b", asked.text, re.IGNORECASE) is not None


def _gives_one_row(sql: QuerySpec) -> bool:
    return not sql.group_by and bool(sql.projections) and all(item.aggregates for item in sql.projections)
