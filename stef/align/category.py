"""The alignment of one record, and its category."""

from __future__ import annotations

from collections.abc import Sequence

from stef.align.comparer import WRONG, Comparer
from stef.align.leftover import coded, unasked, undetermined_code, unmet
from stef.align.mentions import mentions
from stef.align.otherwise import settled
from stef.align.pairing import pair
from stef.align.parts import joined_periods
from stef.align.words import Texts
from stef.apprules import AppRules
from stef.result import Alignment, Category, FilterEvidence, Match
from stef.spec import QuerySpec
from stef.timespan import Calendar

_EXTRAS = frozenset({Match.EXTRA, Match.BENIGN_EXTRA, Match.INTRODUCED})


def align(
    asked: Texts, sql: QuerySpec, rules: AppRules, calendar: Calendar, comparer: Comparer | None = None
) -> Alignment:
    """Align what was asked with what was queried.

    Args:
        asked: Question and expansion.
        sql: Spec of the statement.
        rules: Mappings, synonyms, benign and mandatory filters.
        calendar: The record's clock, for spans that end "now".
        comparer: Of the same texts, rules and clock, where there is one: what it has compared is kept.
    """
    comparer = (comparer or Comparer.of(asked, rules, calendar)).beside(sql)
    told_of = mentions(asked, comparer)
    pairs = settled(pair(told_of, joined_periods(sql.filters), comparer), told_of, asked, comparer)
    codes = tuple(coded(pairs.mentions, pairs.filters, comparer))
    told, taken = [mention for mention, _ in codes], [found for _, found in codes]
    # Absent from the SQL, what the expansion introduced is no fault.
    missing = tuple(unmet(item) for item in pairs.mentions if not item.introduced and item not in told)
    extra = tuple(unasked(item, comparer) for item in pairs.filters if item not in taken)
    evidence = (*pairs.evidence, *(undetermined_code(*code) for code in codes), *missing, *extra)
    found = category(evidence)
    extras = [item for item in evidence if item.match in _EXTRAS]
    benign = found is Category.FULL_WITH_EXTRAS and all(item.match is Match.BENIGN_EXTRA for item in extras)
    return Alignment(category=found, filters=evidence, benign=benign)


def category(evidence: Sequence[FilterEvidence]) -> Category:
    """FULL, FULL_WITH_EXTRAS, PARTIAL or NONE; what is undetermined has no say."""
    required = [item for item in evidence if item.required]
    met = [item for item in required if item.match is Match.MATCHED]
    if len(met) == len(required):
        return Category.FULL_WITH_EXTRAS if any(item.match in _EXTRAS for item in evidence) else Category.FULL
    attempted = any(item.match in WRONG for item in required)
    return Category.PARTIAL if met or attempted else Category.NONE
