"""Aligns the filters of question and SQL: one-to-one, with evidence for every filter of either side.

Source: STEF paper (arXiv 2604.28049), the four categories; required and introduced filters as the design has them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from stef.apprules import AppRules
from stef.matching import NEAR, Comparison, compare, covers, equal_threshold, nearness
from stef.names import stem, tokens
from stef.result import Alignment, Category, Drift, Expansion, ExpansionChange, FilterEvidence, Match
from stef.spec import Effect, Filter, Op, QuerySpec
from stef.timespan import Calendar, Interval, Unit, shift
from stef.timespan import year as year_span
from stef.values import Boolean, Column, Many, Number, Placeholder, Text, Unknown, fold

REQUIRED = 0.5
_WRONG = frozenset({Match.WRONG_VALUE, Match.WRONG_OPERATOR, Match.WRONG_COLUMN})
_EXTRAS = frozenset({Match.EXTRA, Match.BENIGN_EXTRA, Match.INTRODUCED})
_DEFINES = re.compile(r"\b(?:refers?\s+to|means?|stands?\s+for|is\s+defined\s+as|denotes?|indicates?|represents?|i\.e\.)\b|=", re.IGNORECASE)
_CLAUSE_END = re.compile(r"[;(]|(?<=[a-z])\.\s|,\s(?=[a-z]+ (?:refers?|means?))", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Texts:
    """The two readings of what was asked, with their texts."""

    question: QuerySpec
    question_text: str
    expansion: QuerySpec | None = None
    expansion_text: str = ""


@dataclass(slots=True)
class _Asked:
    """A filter that the texts ask for, while it is being matched."""

    filter: Filter
    required: bool
    introduced: bool = False
    done: bool = False


def align(asked: Texts, sql: QuerySpec, rules: AppRules, calendar: Calendar) -> Alignment:
    """Align what was asked with what was queried.

    Args:
        asked: Question and expansion.
        sql: Spec of the statement.
        rules: Mappings, synonyms, benign and mandatory filters.
        calendar: The record's clock, for spans that end "now".
    """
    mentions = _mentions(asked, rules, calendar)
    filters = _year_and_month(list(sql.filters))
    evidence: list[FilterEvidence] = []
    open_filters = list(filters)
    _pair(mentions, open_filters, rules, calendar, evidence)
    _by_member(mentions, open_filters, rules, calendar, evidence)
    evidence += [_unmatched(item, sql) for item in mentions if not item.done and not item.introduced]
    words = _Words.of(asked)
    evidence += [_left_over(item, words, rules) for item in open_filters]
    category = _category(evidence)
    extras = [item for item in evidence if item.match in _EXTRAS]
    benign = category is Category.FULL_WITH_EXTRAS and all(item.match is Match.BENIGN_EXTRA for item in extras)
    return Alignment(category=category, filters=tuple(evidence), benign=benign)


# ── what is asked ───────────────────────────────────────────────────────────────────────────────────────────────────


def _mentions(asked: Texts, rules: AppRules, calendar: Calendar) -> list[_Asked]:
    """Filters of the question, and those of the expansion that interpret it; the rest of the expansion is introduced."""
    found = [_Asked(item, item.certainty >= REQUIRED) for item in asked.question.filters]
    if asked.expansion is None:
        return found
    own = [item.filter for item in found]
    for item in asked.expansion.filters:
        same = [other for other in own if _says(other, item, rules, calendar)]
        if same:
            strongest = max(same, key=lambda other: other.certainty)
            if item.certainty > strongest.certainty >= 0.3:
                _strengthen(found, strongest, item)
            continue
        contradicted = any(_contradicts(other, item, rules, calendar) for other in own)
        interprets = not contradicted and (asked.question.elliptical or _interprets(item, asked))
        if interprets:
            found.append(_Asked(item, item.certainty >= REQUIRED))
        elif item.certainty >= REQUIRED:
            found.append(_Asked(item, required=False, introduced=True))
    return found


def _strengthen(found: list[_Asked], weak: Filter, strong: Filter) -> None:
    """A guess in the question that the expansion spells out is no guess any more."""
    for item in found:
        if item.filter is weak:
            item.filter = replace(weak, certainty=strong.certainty, column=weak.column or strong.column)
            item.required = strong.certainty >= REQUIRED


def _says(left: Filter, right: Filter, rules: AppRules, calendar: Calendar) -> bool:
    found = compare(left, right, rules, calendar)
    return found is not None and found.match is Match.MATCHED


def _contradicts(left: Filter, right: Filter, rules: AppRules, calendar: Calendar) -> bool:
    found = compare(left, right, rules, calendar)
    return found is not None and found.match in _WRONG and left.certainty >= REQUIRED


def _interprets(item: Filter, asked: Texts) -> bool:
    """Whether a filter of the expansion puts words of the question into a condition: it defines one, or has its value."""
    question = {stem(word) for word in tokens(asked.question_text)}
    if isinstance(item.value, Text) and (value := tokens(item.value.raw)) and {stem(word) for word in value} <= question:
        return True
    if isinstance(item.value, Number) and str(item.value.value.normalize()) in asked.question_text:
        return True
    return bool(_defined_words(item, asked.expansion_text) & question - _COMMON)


_COMMON = frozenset(
    stem(word)
    for word in (
        "a", "an", "and", "are", "as", "at", "be", "by", "do", "does", "for", "from", "had", "has", "have", "how", "in", "is", "it", "its", "list",
        "many", "more", "much", "most", "name", "number", "of", "on", "or", "show", "that", "the", "their", "them", "there", "these", "this", "those",
        "to", "was", "were", "what", "when", "where", "which", "who", "whose", "with", "all", "each", "please", "give", "me", "than",
    )
)  # fmt: skip


def _defined_words(item: Filter, text: str) -> set[str]:
    """The words that the clause around a filter defines ("late means delivered_at > promised_at")."""
    if item.span is None:
        return set()
    before = text[: item.span.start]
    breaks = [found.end() for found in _CLAUSE_END.finditer(before)]
    clause = text[breaks[-1] if breaks else 0 : item.span.end]
    mark = _DEFINES.search(clause)
    if mark is None:
        return set()
    return {stem(word) for word in tokens(clause[: mark.start()])}


# ── matching ────────────────────────────────────────────────────────────────────────────────────────────────────────


def _pair(mentions: list[_Asked], filters: list[Filter], rules: AppRules, calendar: Calendar, evidence: list[FilterEvidence]) -> None:
    """Take the best pairs first; what is taken leaves both lists."""
    pairs: list[tuple[float, int, int, Comparison]] = []
    for i, mention in enumerate(mentions):
        for j, found in enumerate(filters):
            result = _compared(mention.filter, found, rules, calendar)
            if result is not None:
                rank = result.score + (2.0 if result.match is Match.MATCHED else 1.0 if result.match is Match.INEFFECTIVE else 0.0)
                pairs.append((rank + mention.filter.certainty / 100, i, j, result))
    taken: set[int] = set()
    for _, i, j, result in sorted(pairs, key=lambda pair: -pair[0]):
        mention = mentions[i]
        if mention.done or j in taken:
            continue
        if result.match in _WRONG and (mention.introduced or not mention.required):
            continue  # a guess that does not fit is no fault
        mention.done = True
        taken.add(j)
        evidence.append(_evidence(mention, filters[j], result))
        twins = [k for k, other in enumerate(filters) if k not in taken and _is_twin(filters[j], other)]
        taken.update(twins)
    filters[:] = [found for j, found in enumerate(filters) if j not in taken]


def _compared(asked: Filter, found: Filter, rules: AppRules, calendar: Calendar) -> Comparison | None:
    result = compare(asked, found, rules, calendar)
    if result is not None and result.match is Match.WRONG_VALUE and equal_threshold(asked, found):
        return Comparison(Match.MATCHED, result.score + 0.3, 0.9)
    return result


def _is_twin(left: Filter, right: Filter) -> bool:
    """The same condition elsewhere in the statement: repeated in a subquery, or on other columns in an OR."""
    if left.op is not right.op or left.value != right.value:
        return False
    if left.alternative and left.alternative == right.alternative:
        return True
    return fold(left.column) == fold(right.column) and left.aggregate == right.aggregate


def _evidence(mention: _Asked, found: Filter, result: Comparison) -> FilterEvidence:
    match = result.match
    if mention.introduced and match in {Match.MATCHED, Match.UNDETERMINED}:
        match = Match.INTRODUCED
    certainty = result.certainty * (mention.filter.certainty if match not in {Match.MATCHED, Match.INTRODUCED} else 1.0)
    required = mention.required and match is not Match.UNDETERMINED
    return FilterEvidence(match=match, asked=mention.filter, found=found, required=required, certainty=certainty, note=result.note)


def _by_member(mentions: list[_Asked], filters: list[Filter], rules: AppRules, calendar: Calendar, evidence: list[FilterEvidence]) -> None:
    """A list on one side may be spread over several conditions on the other."""
    for mention in mentions:
        if mention.done or not isinstance(mention.filter.value, Many):
            continue
        parts = [replace(mention.filter, op=Op.EQ, value=member) for member in mention.filter.value.members]
        hits = [next((f for f in filters if _says(part, f, rules, calendar)), None) for part in parts]
        if all(hit is not None for hit in hits):
            mention.done = True
            used = [hit for hit in hits if hit is not None]
            evidence.append(_evidence(mention, used[0], Comparison(Match.MATCHED, 1.0, 0.9)))
            filters[:] = [item for item in filters if item not in used]
    for found in [item for item in filters if isinstance(item.value, Many) and item.op in {Op.IN, Op.NOT_IN}]:
        assert isinstance(found.value, Many)  # noqa: S101 - tells mypy what the list holds
        op = Op.EQ if found.op is Op.IN else Op.NE
        parts = [replace(found, op=op, value=member) for member in found.value.members]
        hits2 = [next((m for m in mentions if not m.done and _says(m.filter, part, rules, calendar)), None) for part in parts]
        if all(hit is not None for hit in hits2):
            for hit in hits2:
                if hit is not None and not hit.done:
                    hit.done = True
                    evidence.append(_evidence(hit, found, Comparison(Match.MATCHED, 1.0, 0.9)))
            filters[:] = [item for item in filters if item is not found]


def _year_and_month(filters: list[Filter]) -> list[Filter]:
    """`order_year = 2024 AND order_month = 3` is March 2024."""
    years = [f for f in filters if f.op is Op.EQ and isinstance(f.value, Number) and "year" in tokens(f.column) and 1900 <= f.value.value <= 2100]
    spans = [f for f in filters if f.op is Op.RANGE and isinstance(f.value, Interval) and f.value.start and f.value.end == shift(f.value.start, Unit.YEAR, 1)]
    for part in filters:
        unit = next((u for u in (Unit.MONTH, Unit.QUARTER) if u.value in tokens(part.column) or (isinstance(part.value, Number) and part.value.unit == u)), None)
        if unit is None or part.op is not Op.EQ or not isinstance(part.value, Number) or not 1 <= part.value.value <= 12:
            continue
        for year in (*years, *spans):
            if year is part or year.alternative or part.alternative:
                continue
            start = year.value.start if isinstance(year.value, Interval) else _year_start(year)
            if start is None:
                continue
            first = shift(start, unit, int(part.value.value) - 1)
            both = replace(year, op=Op.RANGE, value=Interval(first, shift(first, unit, 1)), text=f"{year.text} AND {part.text}")
            return [both, *(f for f in filters if f is not year and f is not part)]
    return filters


def _year_start(item: Filter) -> datetime | None:
    return year_span(int(item.value.value)).start if isinstance(item.value, Number) else None


# ── what is left ────────────────────────────────────────────────────────────────────────────────────────────────────


def _unmatched(item: _Asked, sql: QuerySpec) -> FilterEvidence:
    if item.required and item.filter.implied_column and item.filter.op is Op.EQ and (where := _spoken_of(item.filter, sql)):
        return FilterEvidence(match=Match.MATCHED, asked=item.filter, required=True, certainty=0.6, note=f"the SQL speaks of it in {where}")
    if not item.required:
        return FilterEvidence(match=Match.UNDETERMINED, asked=item.filter, certainty=item.filter.certainty, note="perhaps no condition")
    if isinstance(item.filter.value, Unknown) and item.filter.value.why == "clock":
        return FilterEvidence(match=Match.MISSING, asked=item.filter, required=True, certainty=0.9 * item.filter.certainty)
    return FilterEvidence(match=Match.MISSING, asked=item.filter, required=True, certainty=item.filter.certainty)


def _spoken_of(item: Filter, sql: QuerySpec) -> str:
    """The table or column that a status word is about ("returned" – `returns`, "resolved" – `resolved_at`), or ""."""
    if not isinstance(item.value, Text):
        return ""
    wanted = {stem(word) for word in tokens(item.value.raw)}
    names = [table.rpartition(".")[2] for table in sql.tables] + [found.column for found in sql.filters]
    names += [column for shown in sql.projections for column in shown.columns]
    return next((name for name in names if wanted and wanted <= {stem(word) for word in tokens(name)}), "")


@dataclass(frozen=True, slots=True)
class _Words:
    """Stems of the two texts, for values that the reader of questions did not see as such."""

    question: frozenset[str]
    question_text: str
    expansion: frozenset[str]
    expansion_text: str

    @classmethod
    def of(cls, asked: Texts) -> _Words:
        return cls(_stems(asked.question_text), fold(asked.question_text), _stems(asked.expansion_text), fold(asked.expansion_text))


def _stems(text: str) -> frozenset[str]:
    return frozenset(stem(word) for word in tokens(text))


def _left_over(item: Filter, words: _Words, rules: AppRules) -> FilterEvidence:
    """A condition of the SQL that no mention asked for."""
    if isinstance(item.value, Placeholder) or (isinstance(item.value, Unknown) and item.value.why == "clock"):
        note = "a value that the texts do not tell"
        return FilterEvidence(match=Match.UNDETERMINED, found=item, certainty=0.5, note=note)
    if any(covers(part, item) for condition in (*rules.benign_filters, *rules.mandatory_filters) for part in condition.filters):
        return FilterEvidence(match=Match.BENIGN_EXTRA, found=item)
    if item.op in _ABSENCES and words.question & _NEGATIONS:
        return FilterEvidence(match=Match.MATCHED, found=item, certainty=0.6, note="the question asks for what is not there")
    if item.effect is Effect.EFFECTIVE and _stands_in(item, words.question, words.question_text):
        return FilterEvidence(match=Match.MATCHED, found=item, certainty=0.6, note="its value stands in the question")
    if item.effect is Effect.EFFECTIVE and _stands_in(item, words.expansion, words.expansion_text):
        return FilterEvidence(match=Match.INTRODUCED, found=item, certainty=0.6, note="only the expansion has its value")
    sure = 0.3 if item.op is Op.IS_NOT_NULL else 1.0
    return FilterEvidence(match=Match.EXTRA, found=item, certainty=sure, note=_effect_note(item))


_ABSENCES = frozenset({Op.IS_NULL, Op.NOT_EXISTS})
_NEGATIONS = frozenset(stem(word) for word in ("no", "not", "never", "without", "none", "neither", "nor", "t", "except", "excluding", "missing", "lack", "empty"))


def _effect_note(item: Filter) -> str:
    return "" if item.effect is Effect.EFFECTIVE else f"without effect ({item.effect})"


def _stands_in(item: Filter, stems: frozenset[str], text: str) -> bool:
    values = item.value.members if isinstance(item.value, Many) else (item.value,)
    return bool(stems) and all(_one_stands_in(item, value, stems, text) for value in values)


def _one_stands_in(item: Filter, value: object, stems: frozenset[str], text: str) -> bool:
    match value:
        case Text(raw) if raw.strip("% "):
            parts = [stem(word) for word in tokens(raw)]
            return bool(parts) and all(part in stems for part in parts) if any(len(p) > 1 for p in parts) else fold(raw) in text.split()
        case Number(number) if number in {0, 1} and (about := _flag_words(item.column)) and about <= stems:
            return True
        case Number(number):
            return re.search(rf"(?<![\d.]){re.escape(format(number.normalize(), 'f'))}(?![\d]|\.\d)", text) is not None
        case Column(name):
            both = [stem(word) for word in (*tokens(item.column), *tokens(name.rpartition(".")[2])) if word not in _SUFFIXES]
            return bool(both) and all(part in stems for part in both)
        case Boolean():
            about = _flag_words(item.column)
            return bool(about) and about <= stems
        case _:
            return False


def _flag_words(column: str) -> set[str]:
    """What a flag or a counter is about (`reopened_count > 0`, `is_urgent = 1`)."""
    return {stem(word) for word in tokens(column)} - _FLAG_MARKS


_FLAG_MARKS = frozenset(stem(word) for word in ("is", "has", "was", "flag", "count", "number", "total", "ind", "indicator"))
# What a column of an event ends in without saying more.
_SUFFIXES = frozenset({"at", "on", "date", "time", "timestamp", "datetime"})


# ── category ────────────────────────────────────────────────────────────────────────────────────────────────────────


def _category(evidence: Iterable[FilterEvidence]) -> Category:
    items = list(evidence)
    required = [item for item in items if item.required]
    met = [item for item in required if item.match is Match.MATCHED]
    if len(met) == len(required):
        return Category.FULL_WITH_EXTRAS if any(item.match in _EXTRAS for item in items) else Category.FULL
    if met or any(item.match in _WRONG for item in required):
        return Category.PARTIAL
    return Category.NONE


# ── expansion ───────────────────────────────────────────────────────────────────────────────────────────────────────


def check_expansion(asked: Texts, rules: AppRules, calendar: Calendar) -> Expansion | None:
    """What the expansion did to each constraint of the question; None without an expansion."""
    if asked.expansion is None:
        return None
    mine = [item for item in asked.question.filters if item.certainty >= REQUIRED]
    weak = [item for item in asked.question.filters if item.certainty < REQUIRED]
    theirs = [item for item in asked.expansion.filters if item.certainty >= REQUIRED]
    changes: list[ExpansionChange] = []
    for item in mine:
        changes.append(_change(item, theirs, rules, calendar, asked))
    taken = {change.expansion for change in changes}
    for item in theirs:
        if item in taken or any(_says(other, item, rules, calendar) for other in (*mine, *weak)):
            continue
        if not _interprets(item, asked):
            changes.append(ExpansionChange(drift=Drift.ADDED, expansion=item))
    return Expansion(changes=tuple(changes), elliptical=asked.question.elliptical)


def _change(item: Filter, theirs: Sequence[Filter], rules: AppRules, calendar: Calendar, asked: Texts) -> ExpansionChange:
    compared = [(other, compare(item, other, rules, calendar)) for other in theirs]
    for other, found in compared:
        if found is not None and found.match in {Match.MATCHED, Match.UNDETERMINED}:
            return ExpansionChange(drift=Drift.PRESERVED, question=item, expansion=other)
    for other, found in compared:
        if found is not None and found.match in _WRONG and nearness(item, other, rules) >= NEAR:
            return ExpansionChange(drift=Drift.CHANGED, question=item, expansion=other)
    words = _Words.of(asked)
    if _stands_in(item, words.expansion, words.expansion_text):
        return ExpansionChange(drift=Drift.PRESERVED, question=item)
    return ExpansionChange(drift=Drift.DROPPED, question=item)
