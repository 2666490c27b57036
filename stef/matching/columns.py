"""How near the columns of two filters are: R_app's mappings first, then the parts of the names."""

from __future__ import annotations

from functools import lru_cache

from stef.apprules import AppRules
from stef.matching.comparison import Comparison
from stef.names import similarity, tokens
from stef.result import Match
from stef.spec import Filter, Op

# Names this similar speak of the same column.
NEAR = 0.6
# Below this a name says nothing about the column.
FAR = 0.3
# What the name of a moment's column ends in without saying which moment.
MOMENT_SUFFIXES = frozenset({"at", "on", "date", "time", "timestamp", "datetime"})
# Column names that say nothing without their table (`sites.name`).
_GENERIC = frozenset({"name", "title", "label", "code", "id", "key", "type", "value", "description"})
_ABOUT_ROWS = frozenset({Op.IS_NULL, Op.IS_NOT_NULL, Op.EXISTS, Op.NOT_EXISTS})


def nearness(asked: Filter, found: Filter, rules: AppRules) -> float:
    """0 to 1: how near the columns are; 0.5 when the question names none."""
    if not asked.column:
        return 0.5
    own = _names_near(asked.column, found)
    if asked.implied_column:
        return max(0.5, own)
    physical = rules.physical(asked.column)
    if physical is None:
        return own
    mapped = column_similarity(physical, found.column)
    pinned = mapped >= 0.95 or similarity(physical, asked.column) == 0.0
    return mapped if pinned else max(mapped, own)


@lru_cache(maxsize=4096)
def column_similarity(left: str, right: str) -> float:
    """Similarity of two column names; `opened_at` and `closed_at` share nothing that counts."""
    a, b = event_words(left), event_words(right)
    both_moments = a and b and a != tokens(left) and b != tokens(right)
    return similarity(" ".join(a), " ".join(b)) if both_moments else similarity(left, right)


def event_words(column: str) -> tuple[str, ...]:
    """What a moment's column is about (`placed_at` → placed); all parts where it has no such ending."""
    parts = tokens(column)
    return parts[:-1] if parts and parts[-1] in MOMENT_SUFFIXES else parts


def is_moment(column: str) -> bool:
    """Whether a column holds the moment of an event, by its name (`placed_at`, `hired_on`)."""
    parts = tokens(column)
    return len(parts) > 1 and parts[-1] in MOMENT_SUFFIXES


def _names_near(word: str, found: Filter) -> float:
    return max(column_similarity(word, name) for name in (found.column, *_with_table(found)))


def _with_table(found: Filter) -> tuple[str, ...]:
    """Names that the table lends to a column that says nothing, to absence and to a count of rows."""
    if not found.table:
        return ()
    table = found.table.rpartition(".")[2]
    parts = tokens(found.column)
    names = (f"{table} {found.column}",) if parts and set(parts) <= _GENERIC else ()
    return (*names, table) if found.op in _ABOUT_ROWS or found.aggregate == "count" else names


def elsewhere(asked: Filter, found: Filter, rules: AppRules) -> Comparison | None:
    """R_app says which column the word means, and it is another one."""
    physical = None if asked.implied_column else rules.physical(asked.column)
    if physical is None:
        return None
    return Comparison(Match.WRONG_COLUMN, 0.4, 0.9, f"{found.column} instead of {physical}")
