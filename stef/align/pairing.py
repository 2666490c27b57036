"""Pairs mentions with conditions of the SQL, one to one, the best pairs first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from stef.align.comparer import WRONG, Comparer, members
from stef.align.mentions import Mention
from stef.apprules import Condition
from stef.matching import SELF_DEFEATING, Comparison, covers
from stef.result import FilterEvidence, Match
from stef.spec import Filter
from stef.timespan import Interval
from stef.values import fold

_FITTING = frozenset({Match.MATCHED, Match.INEFFECTIVE})
_RANKS = {Match.MATCHED: 2.0, Match.INEFFECTIVE: 1.0}
# How sure it is that a condition which cannot narrow anything is a fault, however vague the question is.
_SURELY_DEFEATED = 0.9


@dataclass(frozen=True, slots=True, kw_only=True)
class Pairing:
    """What was paired, and what is left of either side."""

    evidence: tuple[FilterEvidence, ...]
    mentions: tuple[Mention, ...]
    filters: tuple[Filter, ...]


@dataclass(frozen=True, slots=True)
class _Pair:
    """A mention and a condition that could be taken together, by their places."""

    mention: int
    found: int
    rank: float
    result: Comparison


def pair(mentions: Sequence[Mention], filters: Sequence[Filter], comparer: Comparer) -> Pairing:
    """Take the pairs that fit, then lists that are spread over several conditions, then the pairs that do not fit."""
    fitting = _by_one(mentions, filters, comparer, _FITTING)
    spread = _by_members(fitting.mentions, fitting.filters, comparer)
    rest = _by_one(spread.mentions, spread.filters, comparer, frozenset(Match))
    return replace(rest, evidence=(*fitting.evidence, *spread.evidence, *rest.evidence))


def _by_one(
    mentions: Sequence[Mention], filters: Sequence[Filter], comparer: Comparer, kinds: frozenset[Match]
) -> Pairing:
    done: set[int] = set()
    taken: set[int] = set()
    evidence: list[FilterEvidence] = []
    offered = [item for item in _candidates(mentions, filters, comparer) if item.result.match in kinds]
    for item in sorted(offered, key=lambda one: -one.rank):
        if item.mention in done or item.found in taken:
            continue
        found = filters[item.found]
        done.add(item.mention)
        taken.add(item.found)
        evidence.append(_evidence(mentions[item.mention], found, item.result, comparer))
        twins = [k for k, other in enumerate(filters) if k not in taken and _is_twin(found, other)]
        taken.update(twins)
        evidence += [_repeated(filters[k], evidence[-1]) for k in twins]
    return Pairing(
        evidence=tuple(evidence),
        mentions=tuple(item for i, item in enumerate(mentions) if i not in done),
        filters=tuple(item for i, item in enumerate(filters) if i not in taken),
    )


def _candidates(mentions: Sequence[Mention], filters: Sequence[Filter], comparer: Comparer) -> Iterator[_Pair]:
    for i, mention in enumerate(mentions):
        for j, found in enumerate(filters):
            result = comparer.held(mention.filter, found)
            # A guess that does not fit is no fault.
            if result is None or (result.match in WRONG and not mention.required):
                continue
            rank = _RANKS.get(result.match, 0.0) + result.score + mention.filter.certainty / 100
            yield _Pair(i, j, rank, result)


def _evidence(mention: Mention, found: Filter, result: Comparison, comparer: Comparer) -> FilterEvidence:
    if mention.introduced and result.match in {Match.MATCHED, Match.UNDETERMINED}:
        return _introduced(mention, found, result, comparer)
    return FilterEvidence(
        match=result.match,
        asked=mention.filter,
        found=found,
        required=mention.required and result.match is not Match.UNDETERMINED,
        certainty=_certainty(mention, found, result),
        note=result.note,
    )


def _certainty(mention: Mention, found: Filter, result: Comparison) -> float:
    """A match is as sure as the comparison; a fault also needs the mention to be one."""
    if result.match is Match.MATCHED:
        return result.certainty
    least = _SURELY_DEFEATED if result.match is Match.INEFFECTIVE and found.effect in SELF_DEFEATING else 0.0
    return result.certainty * max(mention.filter.certainty, least)


def _introduced(mention: Mention, found: Filter, result: Comparison, comparer: Comparer) -> FilterEvidence:
    """Only the expansion has it: an extra, unless R_app lets it in."""
    if is_let_in(found, comparer):
        return FilterEvidence(match=Match.BENIGN_EXTRA, asked=mention.filter, found=found)
    return FilterEvidence(
        match=Match.INTRODUCED, asked=mention.filter, found=found, certainty=result.certainty, note=result.note
    )


def is_let_in(found: Filter, comparer: Comparer) -> bool:
    """Whether R_app lets a condition in that nobody asked for, and the question does not ask for the opposite."""
    rules = comparer.rules
    if any(_is_part(found, condition, comparer) for condition in rules.mandatory_filters):
        return True
    benign = any(_is_part(found, condition, comparer) for condition in rules.benign_filters)
    return benign and not comparer.question.contradicts(found)


def _is_part(found: Filter, condition: Condition, comparer: Comparer) -> bool:
    """Whether a filter is one that a rule names, and the rest of the rule stands in the SQL too."""
    named = any(covers(part, found) for part in condition.filters)
    return named and all(any(covers(part, item) for item in comparer.sql.filters) for part in condition.filters)


def _is_twin(left: Filter, right: Filter) -> bool:
    """The same condition elsewhere in the statement: repeated in a subquery, or on other columns in an OR."""
    if left.op is not right.op or left.value != right.value:
        return False
    if left.alternative and left.alternative == right.alternative:
        return True
    if left.table and right.table and fold(left.table) != fold(right.table):
        return False
    return fold(left.column) == fold(right.column) and left.aggregate == right.aggregate


def _repeated(twin: Filter, first: FilterEvidence) -> FilterEvidence:
    return replace(first, asked=None, found=twin, required=False, note="the same condition once more")


# ── lists ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def _by_members(mentions: Sequence[Mention], filters: Sequence[Filter], comparer: Comparer) -> Pairing:
    """A list on one side may be spread over several conditions on the other."""
    evidence: list[FilterEvidence] = []
    for mention in mentions:
        used = _spread(mention.filter, filters, comparer) or _tiles(mention.filter, filters, comparer)
        if used:
            first = _evidence(mention, used[0], Comparison(Match.MATCHED, 1.0, 0.9), comparer)
            evidence += [first, *(_repeated(item, first) for item in used[1:])]
            mentions = [item for item in mentions if item is not mention]
            filters = [item for item in filters if item not in used]
    for found in filters:
        asked = _gathered(found, mentions, comparer)
        if asked:
            evidence += [_evidence(item, found, Comparison(Match.MATCHED, 1.0, 0.9), comparer) for item in asked]
            mentions = [item for item in mentions if item not in asked]
            filters = [item for item in filters if item is not found]
    return Pairing(evidence=tuple(evidence), mentions=tuple(mentions), filters=tuple(filters))


def _spread(asked: Filter, filters: Sequence[Filter], comparer: Comparer) -> list[Filter]:
    """The conditions that hold the members of a list that was asked for; [] when one has none."""
    used: list[Filter] = []
    for part in members(asked):
        hit = next((item for item in filters if comparer.says(part, item)), None)
        if hit is None:
            return []
        used.append(hit)
    return used


def _tiles(asked: Filter, filters: Sequence[Filter], comparer: Comparer) -> list[Filter]:
    """The conditions whose spans of time make up one that was asked for ("2010 and 2011"); [] where a part is open."""
    if not isinstance(asked.value, Interval) or asked.value.start is None or asked.value.end is None:
        return []
    used: list[Filter] = []
    reached: datetime | None = asked.value.start
    while reached is not None and reached != asked.value.end:
        spans = ((item, item.value) for item in filters if isinstance(item.value, Interval) and item not in used)
        part, span = next(((item, span) for item, span in spans if span.start == reached), (None, None))
        if part is None or span is None or not comparer.says(replace(asked, value=span), part):
            return []
        used.append(part)
        reached = span.end
    return used if reached is not None and len(used) > 1 else []


def _gathered(found: Filter, mentions: Sequence[Mention], comparer: Comparer) -> list[Mention]:
    """The mentions that a list of the SQL holds; [] when a member was not asked for."""
    used: list[Mention] = []
    for part in members(found):
        hit = next((item for item in mentions if comparer.says(item.filter, part)), None)
        if hit is None:
            return []
        used.append(hit)
    return used
