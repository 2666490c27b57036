"""Compares two filters: soft on names, strict on values after canonical form.

Shared by the alignment of question and SQL, by the expansion check, and by the conditions of R_app.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal

from stef.apprules import AppRules
from stef.names import similarity, stem, tokens
from stef.result import Match
from stef.spec import Effect, Filter, Op
from stef.timespan import Calendar, Interval, Unit, floor
from stef.values import Anything, Boolean, Column, Many, Null, Number, NumberRange, Placeholder, Text, Unknown, Value, as_boolean, as_interval, as_number, fold, same

# Names this similar speak of the same column.
NEAR = 0.6
_DAY = timedelta(days=1)
_NULLISH = frozenset({Op.IS_NULL, Op.NOT_EXISTS})
_PRESENT = frozenset({Op.IS_NOT_NULL, Op.EXISTS})
_ORDERED = frozenset({Op.LT, Op.LE, Op.GT, Op.GE})
_TIME_OPS = frozenset({Op.EQ, Op.RANGE, Op.IN, Op.LT, Op.LE, Op.GT, Op.GE, Op.NOT_RANGE, Op.NE})


@dataclass(frozen=True, slots=True)
class Comparison:
    """How a filter of the SQL answers a filter of the question.

    Attributes:
        match: MATCHED, WRONG_VALUE, WRONG_OPERATOR, WRONG_COLUMN, INEFFECTIVE or UNDETERMINED.
        score: 0 to 1; the best pairs are taken first.
        certainty: 0 to 1: how sure the finding is.
        note: Why, where that is not plain.
    """

    match: Match
    score: float
    certainty: float = 1.0
    note: str = ""


def covers(rule: Filter, found: Filter) -> bool:
    """Whether a condition of the SQL is the one that a rule names; spellings with the same truth value are one.

    The rule's column must be the filter's, after folding; `Anything` takes every single value of `=`.
    """
    if similarity(rule.column, found.column) < 1.0 or rule.aggregate != found.aggregate:
        return False
    if rule.op is found.op:
        return same(rule.value, found.value)
    left, right = _truth(rule), _truth(found)
    return left is not None and left == right


def _truth(item: Filter) -> bool | None:
    """`archived = 0`, `archived <> 1` and `NOT archived` all say false; None for what is no boolean condition."""
    if item.op not in {Op.EQ, Op.NE}:
        return None
    value = as_boolean(item.value)
    return None if value is None else value is (item.op is Op.EQ)


def compare(asked: Filter, found: Filter, rules: AppRules, calendar: Calendar) -> Comparison | None:
    """Say how `found` answers `asked`, or None when it is about something else."""
    near = nearness(asked, found, rules)
    verdict = _presence(asked, found, near)
    if verdict is None:
        verdict = _flag(asked, found, near)
    if verdict is None and (_is_time(asked.value) or isinstance(asked.value, Interval)):
        verdict = _time(asked, found, near, rules, calendar)
    elif verdict is None:
        verdict = _value(asked, found, near, rules)
    if verdict is None:
        return None
    if verdict.match is Match.MATCHED and found.effect is not Effect.EFFECTIVE:
        return Comparison(Match.INEFFECTIVE, verdict.score, verdict.certainty, EFFECTS[found.effect])
    return verdict


EFFECTS = {
    Effect.EFFECTIVE: "",
    Effect.OUTER_JOIN: "in ON of an outer join it narrows what is looked up, not what is kept",
    Effect.COUNTED_ELSE: "the aggregate takes the ELSE value as well",
    Effect.ONE_BRANCH: "it stands in one branch of the UNION only",
    Effect.OR_PRECEDENCE: "an OR without brackets lets other rows past it",
    Effect.NULL_COMPARISON: "a comparison with NULL is never true",
    Effect.UNUSED: "nothing reads the table expression that it stands in",
}


def nearness(asked: Filter, found: Filter, rules: AppRules) -> float:
    """0 to 1: how near the columns are; 0.5 when the question names none."""
    if not asked.column or asked.implied_column:
        return 0.5 if not asked.column else max(0.5, _names_near(asked.column, found))
    physical = rules.physical(asked.column)
    if physical is not None:
        mapped = similarity(physical, found.column)
        return mapped if mapped >= 0.95 or similarity(physical, asked.column) == 0.0 else max(mapped, _names_near(asked.column, found))
    return _names_near(asked.column, found)


def _names_near(word: str, found: Filter) -> float:
    names = [found.column]
    if found.table:
        table = found.table.rpartition(".")[2]
        names += [f"{table} {found.column}"] if tokens(found.column)[-1:] and set(tokens(found.column)) <= _GENERIC else []
        if found.op in _NULLISH | _PRESENT or found.aggregate == "count":
            names.append(table)
    return max(similarity(word, name) for name in names)


# Column names that say nothing without their table (`sites.name`).
_GENERIC = frozenset({"name", "title", "label", "code", "id", "key", "type", "value", "description"})


# ── presence and flags ──────────────────────────────────────────────────────────────────────────────────────────────


def _presence(asked: Filter, found: Filter, near: float) -> Comparison | None:
    """Questions about what is not there: `IS NULL`, NOT EXISTS, a count of 0, an empty text."""
    if asked.op not in _NULLISH | _PRESENT:
        return None
    if near < NEAR:
        return None
    absent = asked.op in _NULLISH
    if found.op in _NULLISH | _PRESENT:
        right = absent is (found.op in _NULLISH)
        return Comparison(Match.MATCHED if right else Match.WRONG_OPERATOR, 0.5 + near / 2)
    if isinstance(found.value, Null):
        return Comparison(Match.MATCHED if absent is (found.op is Op.EQ) else Match.WRONG_OPERATOR, near)
    empty = same(found.value, Text("")) or same(found.value, Number(Decimal(0)))
    if empty and found.op in {Op.EQ, Op.NE, Op.GT}:
        return Comparison(Match.MATCHED if absent is (found.op is Op.EQ) else Match.WRONG_OPERATOR, near, 0.8)
    return Comparison(Match.MATCHED, near, 0.6) if not absent else None


def _flag(asked: Filter, found: Filter, near: float) -> Comparison | None:
    """A status word against a boolean column or a date of that event (`cancelled` – `is_cancelled`, `cancelled_at IS NULL`)."""
    if asked.op not in {Op.EQ, Op.NE} or not isinstance(asked.value, Text | Boolean):
        return None
    words = tokens(asked.value.raw) if isinstance(asked.value, Text) else tokens(asked.column)
    column = tokens(found.column)
    if not words or not {stem(word) for word in words} <= {stem(part) for part in column}:
        return None
    wanted = (asked.op is Op.EQ) is (not isinstance(asked.value, Boolean) or asked.value.value)
    if found.op in {Op.IS_NULL, Op.IS_NOT_NULL}:
        given = found.op is Op.IS_NOT_NULL
    else:
        truth = _truth(found)
        if truth is None:
            return None
        given = truth
    return Comparison(Match.MATCHED if given is wanted else Match.WRONG_VALUE, max(near, 0.8), 0.9)


# ── time ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _is_time(value: Value) -> bool:
    return isinstance(value, Unknown) and value.why == "clock"


def span_of(item: Filter) -> Interval | None:
    """The span of time that a filter keeps, also of a number on a year column (`order_year >= 2020`)."""
    if isinstance(item.value, Interval):
        return item.value
    span = as_interval(item.value)
    if span is None or item.op not in _TIME_OPS or item.aggregate:
        return None
    if isinstance(item.value, Number) and "year" not in tokens(item.column) and item.value.unit != "year":
        return None
    match item.op:
        case Op.GE:
            return Interval(span.start, None)
        case Op.GT:
            return Interval(span.end, None)
        case Op.LE:
            return Interval(None, span.end)
        case Op.LT:
            return Interval(None, span.start)
        case _:
            return span


def _time(asked: Filter, found: Filter, near: float, rules: AppRules, calendar: Calendar) -> Comparison | None:
    if _is_time(asked.value) or _is_time(found.value) or (isinstance(found.value, Placeholder) and near >= NEAR):
        return _untimed(asked, found, near)
    if not isinstance(asked.value, Interval):
        return None
    span = span_of(found)
    if span is None:
        return None
    negated = asked.op in {Op.NOT_RANGE, Op.NE}, found.op in {Op.NOT_RANGE, Op.NE}
    if _same_span(asked.value, span, calendar):
        if negated[0] is not negated[1]:
            return Comparison(Match.WRONG_OPERATOR, 0.7 + near / 4)
        if near < 0.3 and (wrong := _elsewhere(asked, found, rules)) is not None:
            return wrong
        return Comparison(Match.MATCHED, 0.75 + near / 4, 1.0 if near >= 0.5 else 0.8)
    if near < 0.3 and asked.column and not _vague(asked.column):
        return Comparison(Match.WRONG_VALUE, 0.3, 0.6, f"{span} instead of {asked.value}")
    return Comparison(Match.WRONG_VALUE, 0.35 + near / 4, 0.9, f"{span} instead of {asked.value}")


def _vague(column: str) -> bool:
    return bool({"date", "year", "month", "day", "time", "period", "quarter", "week"} & set(tokens(column)))


def _untimed(asked: Filter, found: Filter, near: float) -> Comparison | None:
    """One side depends on a clock that nobody has: neither met nor missing."""
    timely = _is_time(found.value) or span_of(found) is not None or isinstance(found.value, Placeholder)
    if not timely or not (_is_time(asked.value) or isinstance(asked.value, Interval)):
        return None
    return Comparison(Match.UNDETERMINED, 0.4 + near / 4, 0.5, "a relative date, and the record does not say when it was asked")


def _same_span(asked: Interval, found: Interval, calendar: Calendar) -> bool:
    if asked == found:
        return True
    starts = _day(asked.start) == _day(found.start)
    return starts and (_day_end(asked.end) == _day_end(found.end) or (_open_end(asked.end, calendar) and _open_end(found.end, calendar)))


def _day(moment: object) -> object:
    return floor(moment, Unit.DAY) if hasattr(moment, "hour") else moment  # type: ignore[arg-type]


def _day_end(moment: object) -> object:
    """An end within the last minute of a day is the end of that day."""
    if not hasattr(moment, "hour"):
        return moment
    return floor(moment + timedelta(minutes=1), Unit.DAY) if moment.hour == 23 and moment.minute == 59 else moment  # type: ignore[attr-defined, no-any-return, arg-type, operator]


def _open_end(moment: object, calendar: Calendar) -> bool:
    """Whether an end lies at the time of the question or later: nothing is logged from the future."""
    if moment is None:
        return True
    return calendar.today is not None and hasattr(moment, "hour") and moment >= calendar.today  # type: ignore[operator]


# ── other values ────────────────────────────────────────────────────────────────────────────────────────────────────


def _value(asked: Filter, found: Filter, near: float, rules: AppRules) -> Comparison | None:
    if isinstance(found.value, Placeholder | Unknown) and not isinstance(asked.value, Unknown):
        unresolved = near >= NEAR and _same_side(asked.op, found.op)
        return Comparison(Match.UNDETERMINED, 0.3 + near / 4, 0.5, "a value that the texts do not tell") if unresolved else None
    if isinstance(asked.value, Unknown):
        return _unknown(asked, found, near)
    equal = same_value(asked, found, rules)
    if equal:
        return _equal(asked, found, near, rules, equal)
    if _contradicts(asked, found, near):
        if code_for_label(asked.value, found.value) and not _declared(asked, found, rules):
            return Comparison(Match.UNDETERMINED, 0.35 + near / 4, 0.5, "a code against a label")
        if asked.op is found.op or _same_side(asked.op, found.op):
            return Comparison(Match.WRONG_VALUE, 0.3 + near / 4, 0.9 if near >= 0.8 else 0.6)
    return None


def _declared(asked: Filter, found: Filter, rules: AppRules) -> bool:
    """Whether R_app says what the word is stored as: another code is then another value."""
    words = asked.value.members if isinstance(asked.value, Many) else (asked.value,)
    return any(isinstance(word, Text) and rules.stored_values(found.column, word.raw) for word in words)


def _unknown(asked: Filter, found: Filter, near: float) -> Comparison | None:
    """The question compares with something that is computed ("above average")."""
    if near < NEAR or not _same_side(asked.op, found.op):
        return None
    match = Match.MATCHED if isinstance(found.value, Unknown | Column) else Match.UNDETERMINED
    return Comparison(match, 0.4 + near / 4, 0.6)


def same_value(asked: Filter, found: Filter, rules: AppRules) -> float:
    """How sure the values are the same, 0 to 1: 1.0 after folding, 0.9 by R_app's synonyms, 0.8 by a pattern or a stem."""
    if same(asked.value, found.value):
        return 1.0
    if isinstance(asked.value, NumberRange) and isinstance(found.value, NumberRange):
        return 1.0 if asked.value == found.value else 0.0
    return max(_by_synonym(asked, found, rules), _by_pattern(asked.value, found.value), _by_stem(asked, found))


def _by_synonym(asked: Filter, found: Filter, rules: AppRules) -> float:
    if not rules.value_synonyms:
        return 0.0
    words = asked.value.members if isinstance(asked.value, Many) else (asked.value,)
    meant = [value for word in words if isinstance(word, Text) for value in rules.stored_values(found.column, word.raw)]
    if not meant:
        return 0.0
    stored = found.value.members if isinstance(found.value, Many) else (found.value,)
    return 0.9 if all(any(same(value, one) for one in meant) for value in stored) else 0.0


def _by_pattern(asked: Value, found: Value) -> float:
    if isinstance(asked, Text) and isinstance(found, Text) and "%" in asked.raw + found.raw:
        return 0.8 if fold(asked.raw.strip("%")) == fold(found.raw.strip("%")) else 0.0
    return 0.0


def _by_stem(asked: Filter, found: Filter) -> float:
    """Status words are inflected ("on leave", "cancellation"); names are not."""
    if not isinstance(asked.value, Text) or not isinstance(found.value, Text) or not (asked.implied_column or asked.certainty < 0.85):
        return 0.0
    a, b = [stem(word) for word in tokens(asked.value.raw)], [stem(word) for word in tokens(found.value.raw)]
    return 0.8 if a and a == b else 0.0


def _equal(asked: Filter, found: Filter, near: float, rules: AppRules, equal: float) -> Comparison | None:
    """Same value: what remains is whether it is the right column and the right operator."""
    if isinstance(asked.value, Number | NumberRange | Boolean) and near < NEAR and asked.column and not asked.implied_column:
        if not _loosely(asked, found):
            return _elsewhere(asked, found, rules)
    elif isinstance(asked.value, Text) and near < 0.3 and (wrong := _elsewhere(asked, found, rules)) is not None:
        return wrong
    if _same_op(asked, found):
        return Comparison(Match.MATCHED, 0.7 * equal + 0.3 * near, equal if near >= NEAR else 0.8 * equal)
    return Comparison(Match.WRONG_OPERATOR, 0.5 * equal + 0.2 * near, 0.9 if near >= NEAR else 0.7, f"{found.op} instead of {asked.op}")


def _loosely(asked: Filter, found: Filter) -> bool:
    """Whether a number may be about the column although the names differ: counts, and columns that no mapping pins."""
    if found.aggregate:
        return True
    return asked.op in _ORDERED and found.op in _ORDERED


def _elsewhere(asked: Filter, found: Filter, rules: AppRules) -> Comparison | None:
    """R_app says which column the word means, and it is another one."""
    if asked.implied_column or rules.physical(asked.column) is None:
        return None
    return Comparison(Match.WRONG_COLUMN, 0.4, 0.9, f"{found.column} instead of {rules.physical(asked.column)}")


def _same_op(asked: Filter, found: Filter) -> bool:
    if asked.op is found.op:
        return True
    pairs = {asked.op, found.op}
    if pairs in ({Op.EQ, Op.LIKE}, {Op.NE, Op.NOT_LIKE}, {Op.EQ, Op.IN}, {Op.NE, Op.NOT_IN}):
        return True
    return _whole_bounds(asked, found)


def _whole_bounds(asked: Filter, found: Filter) -> bool:
    """`> 3` and `>= 4` keep the same whole numbers; the values are compared elsewhere, so only equal bounds get here."""
    left, right = _truth(asked), _truth(found)
    return left is not None and left == right


def _same_side(left: Op, right: Op) -> bool:
    """Whether two operators cut on the same side."""
    sides = ({Op.GT, Op.GE, Op.RANGE}, {Op.LT, Op.LE, Op.RANGE}, {Op.EQ, Op.IN, Op.LIKE, Op.RANGE}, {Op.NE, Op.NOT_IN, Op.NOT_LIKE})
    return any(left in side and right in side for side in sides)


def _contradicts(asked: Filter, found: Filter, near: float) -> bool:
    """Whether the two are about one column and so cannot both hold; a text needs a named column for that."""
    if near < NEAR:
        return False
    if asked.implied_column and near < 0.8:
        return False
    numbers = as_number(asked.value) is not None or isinstance(asked.value, NumberRange)
    if numbers:
        return as_number(found.value) is not None or isinstance(found.value, NumberRange)
    return isinstance(found.value, Text | Number | Many | Boolean)


def code_for_label(asked: Value, found: Value) -> bool:
    """Whether one side may be the other's code: a number or a very short text against words."""
    if not isinstance(asked, Text):
        return False
    if isinstance(found, Number):
        return True
    if isinstance(found, Text):
        return len(found.raw.strip()) <= 3 < len(asked.raw.strip()) and not found.raw.strip().islower()
    return isinstance(found, Many) and all(code_for_label(asked, member) for member in found.members)


def equal_threshold(asked: Filter, found: Filter) -> bool:
    """`> 3` and `>= 4` on whole numbers, as a count has them."""
    pair = (asked.value, found.value)
    if not isinstance(pair[0], Number) or not isinstance(pair[1], Number):
        return False
    step = pair[1].value - pair[0].value
    return (asked.op, found.op, step) in {
        (Op.GT, Op.GE, Decimal(1)),
        (Op.GE, Op.GT, Decimal(-1)),
        (Op.LT, Op.LE, Decimal(-1)),
        (Op.LE, Op.LT, Decimal(1)),
    }


def is_anything(value: Value) -> bool:
    """Whether a rule takes every value."""
    return isinstance(value, Anything)
