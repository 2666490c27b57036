"""Conditions on text, numbers and lists: the same value, another value of the same column, or something else."""

from __future__ import annotations

from decimal import Decimal

from stef.apprules import AppRules
from stef.matching.columns import FAR, NEAR, elsewhere
from stef.matching.comparison import Comparison
from stef.matching.presence import truth
from stef.names import stem, tokens
from stef.result import Match
from stef.spec import Filter, Op
from stef.values import (
    Boolean,
    Column,
    Many,
    Number,
    NumberRange,
    Placeholder,
    Text,
    Unknown,
    Value,
    as_number,
    fold,
    same,
)

_ORDERED = frozenset({Op.LT, Op.LE, Op.GT, Op.GE})
_SIDES = (
    frozenset({Op.GT, Op.GE, Op.RANGE}),
    frozenset({Op.LT, Op.LE, Op.RANGE}),
    frozenset({Op.EQ, Op.IN, Op.LIKE, Op.RANGE}),
    frozenset({Op.NE, Op.NOT_IN, Op.NOT_LIKE}),
)
_ONE_OPERATOR = (
    frozenset({Op.EQ, Op.LIKE}),
    frozenset({Op.NE, Op.NOT_LIKE}),
    frozenset({Op.EQ, Op.IN}),
    frozenset({Op.NE, Op.NOT_IN}),
)


def content(asked: Filter, found: Filter, near: float, rules: AppRules) -> Comparison | None:
    """Compare the values, then the columns and operators."""
    if isinstance(asked.value, Unknown):
        return _computed(asked, found, near)
    if isinstance(found.value, Placeholder | Unknown):
        return _untold(asked, found, near)
    equal = same_value(asked, found, rules)
    if equal:
        return _equal(asked, found, near, rules, equal)
    if is_equal_threshold(asked, found) and (near >= NEAR or found.aggregate == "count"):
        return Comparison(Match.MATCHED, 0.6 + near / 4, 0.9)
    return _other_value(asked, found, near, rules) if _one_column(asked, found, near) else None


def _untold(asked: Filter, found: Filter, near: float) -> Comparison | None:
    """The SQL compares with what the texts do not tell: a parameter, an expression."""
    if near < NEAR or not same_side(asked.op, found.op):
        return None
    return Comparison(Match.UNDETERMINED, 0.3 + near / 4, 0.5, "a value that the texts do not tell")


def _computed(asked: Filter, found: Filter, near: float) -> Comparison | None:
    """The question compares with something that is computed ("above average")."""
    if near < NEAR or not same_side(asked.op, found.op):
        return None
    match = Match.MATCHED if isinstance(found.value, Unknown | Column) else Match.UNDETERMINED
    return Comparison(match, 0.4 + near / 4, 0.6)


def _other_value(asked: Filter, found: Filter, near: float, rules: AppRules) -> Comparison | None:
    if is_code_for_label(asked.value, found.value) and not _is_declared(asked, found, rules):
        return Comparison(Match.UNDETERMINED, 0.35 + near / 4, 0.5, "a code against a label")
    if not same_side(asked.op, found.op):
        return None
    return Comparison(Match.WRONG_VALUE, 0.3 + near / 4, 0.9 if near >= 0.8 else 0.6)


# ── values ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def same_value(asked: Filter, found: Filter, rules: AppRules) -> float:
    """How sure the values are the same: 1.0 after folding, 0.9 by synonym or percentage, 0.8 by pattern or stem."""
    if same(asked.value, found.value):
        return 1.0
    synonym = _as_synonym(asked, found, rules)
    if isinstance(asked.value, Number):
        return max(synonym, _as_share(asked.value, found.value))
    if isinstance(asked.value, Text) and isinstance(found.value, Text):
        return max(synonym, _as_pattern(asked.value, found.value), _as_stem(asked, asked.value, found.value))
    return synonym


def _as_synonym(asked: Filter, found: Filter, rules: AppRules) -> float:
    if not rules.value_synonyms:
        return 0.0
    meant = [value for word in _words(asked) for value in rules.stored_values(found.column, word.raw)]
    stored = found.value.members if isinstance(found.value, Many) else (found.value,)
    return 0.9 if meant and all(any(same(value, one) for one in meant) for value in stored) else 0.0


def _words(asked: Filter) -> list[Text]:
    members = asked.value.members if isinstance(asked.value, Many) else (asked.value,)
    return [word for word in members if isinstance(word, Text)]


def _is_declared(asked: Filter, found: Filter, rules: AppRules) -> bool:
    """Whether R_app says what the word is stored as: another code is then another value."""
    return any(rules.stored_values(found.column, word.raw) for word in _words(asked))


def _as_share(asked: Number, found: Value) -> float:
    """20 % is stored as 20 or as 0.2."""
    if not isinstance(found, Number) or asked.unit not in {"%", "percent"}:
        return 0.0
    return 0.9 if found.value in {asked.value, asked.value / 100} else 0.0


def _as_pattern(asked: Text, found: Text) -> float:
    if "%" not in asked.raw and "%" not in found.raw:
        return 0.0
    return 0.8 if fold(asked.raw.strip("%")) == fold(found.raw.strip("%")) else 0.0


def _as_stem(asked: Filter, word: Text, stored: Text) -> float:
    """Status words are inflected ("on leave", "cancellation"); names are not."""
    if not asked.implied_column and asked.certainty >= 0.85:
        return 0.0
    a, b = tokens(word.raw), tokens(stored.raw)
    return 0.8 if a and len(a) == len(b) and [stem(part) for part in a] == [stem(part) for part in b] else 0.0


def is_code_for_label(asked: Value, found: Value) -> bool:
    """Whether one side may be the other's code: a number or a very short text against words."""
    if not isinstance(asked, Text):
        return False
    match found:
        case Number():
            return True
        case Text(raw):
            code = raw.strip()
            return len(code) <= 3 < len(asked.raw.strip()) and not code.islower()
        case Many(members):
            return all(is_code_for_label(asked, member) for member in members)
        case _:
            return False


# ── operators and columns ───────────────────────────────────────────────────────────────────────────────────────────


def _equal(asked: Filter, found: Filter, near: float, rules: AppRules, equal: float) -> Comparison | None:
    """Same value: what remains is whether it is the right column and the right operator."""
    if isinstance(asked.value, Number | NumberRange | Boolean):
        if near < NEAR and asked.column and not asked.implied_column and not _loosely(asked, found):
            return elsewhere(asked, found, rules)
    elif isinstance(asked.value, Text) and near < FAR and (wrong := elsewhere(asked, found, rules)) is not None:
        return wrong
    if _same_operator(asked, found):
        return Comparison(Match.MATCHED, 0.7 * equal + 0.3 * near, equal if near >= NEAR else 0.8 * equal)
    note = f"{found.op} instead of {asked.op}"
    return Comparison(Match.WRONG_OPERATOR, 0.5 * equal + 0.2 * near, 0.9 if near >= NEAR else 0.7, note)


def _loosely(asked: Filter, found: Filter) -> bool:
    """Whether a number may be about the column although the names differ: counts, and thresholds on both sides."""
    return bool(found.aggregate) or (asked.op in _ORDERED and found.op in _ORDERED)


def _same_operator(asked: Filter, found: Filter) -> bool:
    if asked.op is found.op or {asked.op, found.op} in _ONE_OPERATOR:
        return True
    said = truth(asked)
    return said is not None and said == truth(found)


def same_side(left: Op, right: Op) -> bool:
    """Whether two operators cut on the same side."""
    return left is right or any(left in side and right in side for side in _SIDES)


def _one_column(asked: Filter, found: Filter, near: float) -> bool:
    """Whether the two are about one column and so cannot both hold; a text needs a named column for that."""
    if near < (0.8 if asked.implied_column else NEAR):
        return False
    if as_number(asked.value) is not None or isinstance(asked.value, NumberRange):
        return as_number(found.value) is not None or isinstance(found.value, NumberRange)
    return isinstance(found.value, Text | Number | Many | Boolean)


def is_equal_threshold(asked: Filter, found: Filter) -> bool:
    """`> 3` and `>= 4` on whole numbers, as a count has them."""
    if not isinstance(asked.value, Number) or not isinstance(found.value, Number):
        return False
    return (asked.op, found.op, found.value.value - asked.value.value) in {
        (Op.GT, Op.GE, Decimal(1)),
        (Op.GE, Op.GT, Decimal(-1)),
        (Op.LT, Op.LE, Decimal(-1)),
        (Op.LE, Op.LT, Decimal(1)),
    }
