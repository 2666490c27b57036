"""Mentions that no single condition answers, and that the SQL meets all the same.

A name that is spread over two columns, a word that the expansion explains by another condition, a number that an
identifier carries, two bounds that are one range.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal

from stef.align.comparer import Comparer
from stef.align.mentions import COMMON, VERB, Mention
from stef.align.pairing import Pairing
from stef.align.words import Texts
from stef.matching import NEAR
from stef.matching.columns import column_similarity
from stef.names import stems
from stef.result import FilterEvidence, Match
from stef.spec import Effect, Filter, Op, QuerySpec
from stef.values import Many, Number, NumberRange, Text, fold, same

_POSITIVE = frozenset({Op.EQ, Op.IN, Op.LIKE})
# A match that rests on a rule of this module and not on a comparison.
_SETTLED = 0.8
_BY_NAME = 0.6
_LEAST_DIGITS = 2
# Shorter words stand in many names by chance.
_LEAST_RUN = 4
_COMPARES = re.compile(r"[=<>]|\b(?:like|between)\s*['\d]|\bin\s*\(", re.IGNORECASE)
_NAME = re.compile(r"[A-Za-z_]\w+")


def settled(pairs: Pairing, mentions: Sequence[Mention], asked: Texts, comparer: Comparer) -> Pairing:
    """Settle what the pairs left, mention by mention.

    Args:
        pairs: What was paired, and what is left.
        mentions: All of them, paired or not.
        asked: The texts.
        comparer: With the statement.
    """
    if not any(item.required for item in pairs.mentions):
        return pairs
    evidence, filters, left = list(pairs.evidence), list(pairs.filters), list[Mention]()
    known = _Known(mentions, pairs.evidence, asked, comparer.sql, filters)
    for item in pairs.mentions:
        found = next(filter(None, (rule(item, known) for rule in _RULES)), None) if item.required else None
        if found is None:
            left.append(item)
            continue
        # A condition that already answers another mention stands in the evidence there.
        evidence.append(found if found.found in filters else replace(found, found=None))
        parts = (found.found, *_parts(item.filter, comparer.sql)) if found.match is not Match.UNDETERMINED else ()
        more = [one for one in filters if one in parts and one is not found.found]
        evidence += [replace(found, asked=None, found=one, required=False) for one in more]
        filters[:] = [one for one in filters if one not in parts]
    return Pairing(evidence=tuple(evidence), mentions=tuple(left), filters=tuple(filters))


@dataclass(frozen=True, slots=True)
class _Known:
    """What the rules look at.

    Attributes:
        mentions: All of them.
        paired: The evidence so far.
        asked: The texts.
        sql: Spec of the statement.
        left: Conditions that nobody has asked for so far.
    """

    mentions: Sequence[Mention]
    paired: Sequence[FilterEvidence]
    asked: Texts
    sql: QuerySpec
    left: Sequence[Filter]


# ── what the expansion explains ─────────────────────────────────────────────────────────────────────────────────────


def _by_explanation(item: Mention, known: _Known) -> FilterEvidence | None:
    """After "steel refers to hull = 'S'" the word has the fate of its explanation: a fault is charged once."""
    if not item.explained:
        return None
    fates = [one for one in known.paired if one.asked in item.explained]
    met = next((one for one in fates if one.match is Match.MATCHED), None)
    if met is not None:
        return _met(item, met.found, "the expansion explains it so", met.certainty)
    return _open(item, "the expansion explains it by another condition")


def _by_what_it_explains(item: Mention, known: _Known) -> FilterEvidence | None:
    """An explanation is not needed where the SQL has what it explains in another way (a name instead of its key)."""
    own = [one.filter for one in known.mentions if item.filter in one.explained]
    if any(one.asked in own and one.match is Match.MATCHED for one in known.paired):
        return _open(item, "the SQL has what this explains in another way")
    return None


def _by_shown_column(item: Mention, known: _Known) -> FilterEvidence | None:
    """Whether it is excellent, where "grade = 'A' means excellent": whoever shows the grade has answered."""
    if not item.of_expansion or not item.filter.column:
        return None
    name = fold(item.filter.column.rpartition(".")[2])
    shown = {fold(column) for output in known.sql.projections for column in output.columns}
    if name in shown and all(fold(one.column) != name for one in known.sql.filters):
        return _open(item, f"the SQL shows {item.filter.column}")
    return None


def _by_explained_name(item: Mention, known: _Known) -> FilterEvidence | None:
    """Where "a15 stands for crimes in 1995", whoever uses the column has said the year."""
    words = stems(item.filter.text) - COMMON
    if known.asked.expansion is None or item.of_expansion or not words:
        return None
    used = {fold(use.column) for use in known.sql.uses}
    for clause in known.asked.expansion_text.replace(known.asked.question_text, ";").split(";"):
        sides = VERB.split(clause, maxsplit=1)
        if len(sides) != 2 or _COMPARES.search(clause):
            continue
        for name_side, phrase in (sides, reversed(sides)):
            name = next((name for name in _NAME.findall(name_side) if fold(name) in used), "")
            if name and words <= stems(phrase):
                return _met(item, None, f"the expansion says so of {name}", _BY_NAME)
    return None


# ── what is spread, or stands in a name ─────────────────────────────────────────────────────────────────────────────


def _by_parts(item: Mention, known: _Known) -> FilterEvidence | None:
    """Such as "Ada Byron" and `first_name = 'Ada' AND last_name = 'Byron'`; "Kent County" and `county = 'Kent'`."""
    parts = _parts(item.filter, known.sql)
    return _met(item, parts[0], "its words are spread over conditions", _SETTLED) if parts else None


def _parts(asked: Filter, sql: QuerySpec) -> tuple[Filter, ...]:
    """The conditions whose values, with the names of their columns, hold all words of a mention; () if some are not."""
    wanted = _words(asked)
    if not wanted or asked.op not in _POSITIVE:
        return ()
    used: list[Filter] = []
    held: frozenset[str] = frozenset()
    for found in sql.filters:
        if found.op not in _POSITIVE or found.effect is not Effect.EFFECTIVE or not _is_near(asked, found):
            continue
        values, names = _words(found), stems(found.column)
        contains = wanted <= values and isinstance(found.value, Text)
        if values & wanted and (values <= wanted or contains):
            held |= values | names
            used.append(found)
        elif wanted <= names:
            return (found,)
    return tuple(used) if wanted <= held else ()


def _is_near(asked: Filter, found: Filter) -> bool:
    named = bool(asked.column) and not asked.implied_column
    return not named or column_similarity(asked.column, found.column) >= NEAR


def _words(item: Filter) -> frozenset[str]:
    """The words of a condition on text; none where it compares with anything else."""
    members = item.value.members if isinstance(item.value, Many) else (item.value,)
    if not all(isinstance(one, Text) for one in members):
        return frozenset()
    return frozenset[str]().union(*(stems(one.raw) for one in members if isinstance(one, Text)))


def _by_name(item: Mention, known: _Known) -> FilterEvidence | None:
    """Such as "over 1500" and a column `scored_over_1500`, "returned" and `returns`, "math" and `avgscrmath`."""
    name = next((name for name in _names(known.sql) if _is_in(item.filter, name)), "")
    return _met(item, None, f"the SQL speaks of it in {name}", _BY_NAME) if name else None


def _is_in(asked: Filter, name: str) -> bool:
    match asked.value:
        case Number(number):
            digits = format(number.normalize(), "f")
            return len(digits) >= _LEAST_DIGITS and digits in re.findall(r"\d+", name)
        case Text(raw) if asked.op is Op.EQ and (asked.implied_column or not asked.column):
            wanted = stems(raw)
            return bool(wanted) and (wanted <= stems(name) or all(_runs_in(word, name) for word in wanted))
        case _:
            return False


def _runs_in(word: str, name: str) -> bool:
    return len(word) >= _LEAST_RUN and word in fold(name)


def _names(sql: QuerySpec) -> Collection[str]:
    """Names of tables and columns that the statement uses."""
    columns = (*(use.column for use in sql.uses), *(item.column for item in sql.filters))
    shown = (column for item in sql.projections for column in item.columns)
    return dict.fromkeys((*(table.rpartition(".")[2] for table in sql.tables), *columns, *shown))


# ── numbers and dates ───────────────────────────────────────────────────────────────────────────────────────────────


def _by_one_number(item: Mention, known: _Known) -> FilterEvidence | None:
    """A number that the question says once asks for one condition, however often it was read."""
    number = item.filter.value
    if not isinstance(number, Number) or len(_said(number.value, known.asked.question_text)) != 1:
        return None
    met = (one for one in known.paired if one.match is Match.MATCHED and one.asked is not None)
    twin = next((one for one in met if one.asked is not None and same(one.asked.value, number)), None)
    return None if twin is None else _met(item, twin.found, "the number is said once", _SETTLED)


def _by_spelling(item: Mention, known: _Known) -> FilterEvidence | None:
    """A number that is a part of a longer value which the question says ("74" of `number = '74s'`)."""
    digits, span = set(re.findall(r"\d+", item.filter.text)), item.filter.span
    text = fold(known.asked.question_text)
    if not digits or span is None or item.of_expansion or len(text) != len(known.asked.question_text):
        return None
    for found in known.sql.filters:
        if found.op not in _POSITIVE or not isinstance(found.value, Text):
            continue
        said = fold(found.value.raw.strip("%"))
        if digits <= set(re.findall(r"\d+", said)):
            places = (one.start() for one in re.finditer(re.escape(said), text))
            if any(place < span.end and span.start < place + len(said) for place in places):
                return _met(item, found, "a part of a longer value", _SETTLED)
    return None


def _by_number(item: Mention, known: _Known) -> FilterEvidence | None:
    """A condition that nothing else asks for, with the same number, whatever its column is called ("the post 183")."""
    number = item.filter.value
    if not isinstance(number, Number):
        return None
    for found in known.left:
        if isinstance(found.value, Number) and found.value.value == number.value and found.op is item.filter.op:
            return _met(item, found, "the same number", _BY_NAME)
    return None


def _by_bounds(item: Mention, known: _Known) -> FilterEvidence | None:
    """For instance "from 1 to 10" and `BETWEEN 1 AND 10`; where a bound was to be left out, the operator is wrong."""
    number = item.filter.value
    if not isinstance(number, Number):
        return None
    for found in known.sql.filters:
        bounds = (found.value.low, found.value.high) if isinstance(found.value, NumberRange) else ()
        if number.value in bounds and all(_said(bound, known.asked.question_text) for bound in bounds):
            if item.filter.op in {Op.GT, Op.LT}:
                note = "the bound itself is let in"
                return replace(_met(item, found, note, 0.5), match=Match.WRONG_OPERATOR)
            return _met(item, found, "one of the two bounds", _SETTLED)
    return None


def _said(number: Decimal, text: str) -> list[str]:
    digits = re.escape(format(number.normalize(), "f"))
    return re.findall(rf"(?<![\d.,]){digits}(?!\d|[.,]\d)", text)


def _met(item: Mention, found: Filter | None, note: str, certainty: float) -> FilterEvidence:
    return FilterEvidence(
        match=Match.MATCHED, asked=item.filter, found=found, required=True, certainty=certainty, note=note
    )


def _open(item: Mention, note: str) -> FilterEvidence:
    return FilterEvidence(match=Match.UNDETERMINED, asked=item.filter, certainty=item.filter.certainty, note=note)


# Each takes a required mention that nothing answers; the first that settles it is kept.
_RULES: tuple[Callable[[Mention, _Known], FilterEvidence | None], ...] = (
    _by_explanation,
    _by_what_it_explains,
    _by_parts,
    _by_bounds,
    _by_number,
    _by_one_number,
    _by_spelling,
    _by_name,
    _by_explained_name,
    _by_shown_column,
)
