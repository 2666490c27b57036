"""What is left when the pairs are taken: mentions without a condition, and conditions that nobody mentioned."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from stef.align.comparer import Comparer
from stef.align.mentions import Mention
from stef.align.pairing import is_let_in
from stef.matching.contents import is_code_for_label
from stef.matching.periods import is_clock
from stef.names import tokens
from stef.result import FilterEvidence, Match
from stef.spec import Effect, Filter, Op
from stef.values import Placeholder, Text, fold

# A match that rests on words and not on a reading.
_BY_WORDS = 0.6


def unmet(item: Mention) -> FilterEvidence:
    """A mention that no condition answers."""
    asked = item.filter
    if not item.required:
        note = "perhaps no condition"
        return FilterEvidence(match=Match.UNDETERMINED, asked=asked, certainty=asked.certainty, note=note)
    certainty = 0.9 * asked.certainty if is_clock(asked.value) else asked.certainty
    return FilterEvidence(match=Match.MISSING, asked=asked, required=True, certainty=certainty)


# Columns that hold codes where people say names.
_CODED = frozenset({"code", "country", "nation", "state", "province", "language", "currency", "iso", "gender", "sex"})
_MOST_CODE = 3


def coded(
    mentions: Sequence[Mention], filters: Sequence[Filter], comparer: Comparer
) -> Iterator[tuple[Mention, Filter]]:
    """Mentions that name a value only, each with a condition that may be its code ("Germany" – `country = 'DE'`)."""
    left = [item for item in filters if _is_code(item) and not is_let_in(item, comparer)]
    for mention in mentions:
        asked = mention.filter
        unnamed = not asked.column or asked.implied_column
        if not left or not mention.required or asked.op is not Op.EQ or not unnamed:
            continue
        if is_code_for_label(asked.value, left[0].value):
            yield mention, left.pop(0)


def _is_code(item: Filter) -> bool:
    if item.op is not Op.EQ or item.effect is not Effect.EFFECTIVE or not isinstance(item.value, Text):
        return False
    return len(item.value.raw) <= _MOST_CODE and item.value.raw.isupper() and _holds_codes(item.column)


def _holds_codes(column: str) -> bool:
    """Also where a name runs together: `countrycode`."""
    return bool(_CODED & set(tokens(column))) or fold(column).endswith("code")


def undetermined_code(mention: Mention, found: Filter) -> FilterEvidence:
    """Nobody says what the code means: neither met nor missing."""
    note = "a code against a label"
    return FilterEvidence(match=Match.UNDETERMINED, asked=mention.filter, found=found, certainty=0.5, note=note)


def unasked(item: Filter, comparer: Comparer) -> FilterEvidence:
    """A condition of the SQL that no mention asked for."""
    if is_let_in(item, comparer):
        return FilterEvidence(match=Match.BENIGN_EXTRA, found=item)
    if isinstance(item.value, Placeholder) or is_clock(item.value):
        note = "a value that the texts do not tell"
        return FilterEvidence(match=Match.UNDETERMINED, found=item, certainty=0.5, note=note)
    if item.effect is Effect.EFFECTIVE and (by_words := _by_words(item, comparer)) is not None:
        return by_words
    return FilterEvidence(
        match=Match.EXTRA, found=item, certainty=_extra_certainty(item), note=_extra_note(item, comparer)
    )


def _by_words(item: Filter, comparer: Comparer) -> FilterEvidence | None:
    if comparer.question.asks_for(item):
        note = "its value stands in the question"
        return FilterEvidence(match=Match.MATCHED, found=item, certainty=_BY_WORDS, note=note)
    if comparer.expansion.asks_for(item):
        note = "only the expansion has its value"
        return FilterEvidence(match=Match.INTRODUCED, found=item, certainty=_BY_WORDS, note=note)
    return None


def _extra_certainty(item: Filter) -> float:
    """IS NOT NULL mostly guards a sort or an aggregate."""
    return 0.3 if item.op is Op.IS_NOT_NULL else 1.0


def _extra_note(item: Filter, comparer: Comparer) -> str:
    if comparer.question.contradicts(item):
        return "the question asks for the opposite"
    return "" if item.effect is Effect.EFFECTIVE else f"without effect ({item.effect})"
