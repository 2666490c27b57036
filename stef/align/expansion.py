"""What the expansion did to the constraints of the question: reported and counted, no part of Φ."""

from __future__ import annotations

from collections.abc import Sequence

from stef.align.comparer import REQUIRED, Comparer
from stef.align.mentions import explanations, interprets
from stef.align.words import Texts
from stef.apprules import AppRules
from stef.result import Drift, Expansion, ExpansionChange, Match
from stef.spec import Filter
from stef.timespan import Calendar


def check_expansion(
    asked: Texts, rules: AppRules, calendar: Calendar, comparer: Comparer | None = None
) -> Expansion | None:
    """Each constraint of the question: preserved, changed or dropped; and what was added. None without an expansion.

    Args:
        asked: Question and expansion.
        rules: Mappings and synonyms.
        calendar: The record's clock.
        comparer: Of the same texts, rules and clock, where there is one: what it has compared is kept.
    """
    if asked.expansion is None:
        return None
    comparer = comparer or Comparer.of(asked, rules, calendar)
    mine = [item for item in asked.question.filters if item.certainty >= REQUIRED]
    theirs = [item for item in asked.expansion.filters if item.certainty >= REQUIRED]
    changes = [_change(item, theirs, asked.expansion_text, comparer) for item in mine]
    taken = [change.expansion for change in changes]
    new = [item for item in theirs if item not in taken and not _is_said(item, asked, comparer)]
    added = [ExpansionChange(drift=Drift.ADDED, expansion=item) for item in new]
    return Expansion(changes=(*changes, *added), elliptical=asked.question.elliptical)


def _is_said(item: Filter, asked: Texts, comparer: Comparer) -> bool:
    """Whether the question says it too, or means it by other words."""
    said = any(comparer.says(other, item) for other in asked.question.filters)
    return said or interprets(item, asked, comparer)


def _change(item: Filter, theirs: Sequence[Filter], text: str, comparer: Comparer) -> ExpansionChange:
    for other in theirs:
        found = comparer.held(item, other)
        if found is not None and found.match in {Match.MATCHED, Match.UNDETERMINED}:
            return ExpansionChange(drift=Drift.PRESERVED, question=item, expansion=other)
    meant = next(iter(explanations(item, theirs, text)), None)
    if meant is not None:
        return ExpansionChange(drift=Drift.PRESERVED, question=item, expansion=meant)
    changed = next((other for other in theirs if comparer.contradicts(item, other)), None)
    if changed is not None:
        return ExpansionChange(drift=Drift.CHANGED, question=item, expansion=changed)
    kept = comparer.expansion.asks_for(item)
    return ExpansionChange(drift=Drift.PRESERVED if kept else Drift.DROPPED, question=item)
