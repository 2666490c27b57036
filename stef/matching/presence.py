"""Conditions on what is there or not there, and flags."""

from __future__ import annotations

from decimal import Decimal

from stef.matching.columns import MOMENT_SUFFIXES, NEAR
from stef.matching.comparison import Comparison
from stef.names import stem, stems, tokens
from stef.result import Match
from stef.spec import Filter, Op
from stef.values import Boolean, Null, Number, Text, as_boolean, same

ABSENT = frozenset({Op.IS_NULL, Op.NOT_EXISTS})
_ABOUT_ROWS = ABSENT | {Op.IS_NOT_NULL, Op.EXISTS}
_FLAG_MARKS = frozenset(
    stem(word) for word in ("is", "has", "was", "flag", "count", "number", "total", "ind", "indicator")
)


def presence(asked: Filter, found: Filter, near: float) -> Comparison | None:
    """Questions about what is not there: `IS NULL`, NOT EXISTS, a count of 0, an empty text."""
    if asked.op not in _ABOUT_ROWS or near < NEAR:
        return None
    absent = asked.op in ABSENT
    if found.op in _ABOUT_ROWS:
        return _said(absent is (found.op in ABSENT), 0.5 + near / 2)
    if isinstance(found.value, Null):
        return _said(absent is (found.op is Op.EQ), near)
    if _is_empty(found):
        return _said(absent is (found.op is Op.EQ), near, 0.8)
    return None if absent else Comparison(Match.MATCHED, near, 0.6)


def _said(right: bool, score: float, certainty: float = 1.0) -> Comparison:
    return Comparison(Match.MATCHED if right else Match.WRONG_OPERATOR, score, certainty)


def _is_empty(found: Filter) -> bool:
    nothing = same(found.value, Text("")) or same(found.value, Number(Decimal(0)))
    return nothing and found.op in {Op.EQ, Op.NE, Op.GT}


def flag(asked: Filter, found: Filter, near: float) -> Comparison | None:
    """A status word against a flag or the date of that event (`cancelled` – `is_cancelled`, `cancelled_at IS NULL`)."""
    if asked.op not in {Op.EQ, Op.NE} or not isinstance(asked.value, Text | Boolean):
        return None
    words = stems(asked.value.raw if isinstance(asked.value, Text) else asked.column)
    if not words or not words <= stems(found.column):
        return None
    if found.op is Op.NOT_EXISTS and asked.op is Op.NE:
        return Comparison(Match.MATCHED, 0.8, 0.8)
    given = happened(found)
    if given is None:
        return None
    wanted = (asked.op is Op.EQ) is (not isinstance(asked.value, Boolean) or asked.value.value)
    return Comparison(Match.MATCHED if given is wanted else Match.WRONG_VALUE, max(near, 0.8), 0.9)


def happened(found: Filter) -> bool | None:
    """Whether a condition keeps what the column's event happened to; None when it says something else."""
    if found.op in {Op.IS_NULL, Op.IS_NOT_NULL}:
        return found.op is Op.IS_NOT_NULL
    return truth(found)


def truth(item: Filter) -> bool | None:
    """`archived = 0`, `archived <> 1` and `NOT archived` all say false; None for what is no boolean condition."""
    if item.op not in {Op.EQ, Op.NE}:
        return None
    value = as_boolean(item.value)
    return None if value is None else value is (item.op is Op.EQ)


def flag_words(column: str) -> frozenset[str]:
    """Stems of what a flag, a counter or an event's date is about (`reopened_count`, `is_urgent`, `deleted_at`)."""
    return frozenset(stem(word) for word in tokens(column) if word not in MOMENT_SUFFIXES) - _FLAG_MARKS
