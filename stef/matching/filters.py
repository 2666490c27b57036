"""Two filters side by side."""

from __future__ import annotations

from stef.apprules import AppRules
from stef.matching.columns import nearness
from stef.matching.comparison import EFFECTS, Comparison
from stef.matching.contents import content
from stef.matching.periods import is_timely, period
from stef.matching.presence import flag, presence, truth
from stef.names import similarity
from stef.result import Match
from stef.spec import Effect, Filter
from stef.timespan import Calendar
from stef.values import same


def compare(asked: Filter, found: Filter, rules: AppRules, calendar: Calendar) -> Comparison | None:
    """Say how `found` answers `asked`, or None when it is about something else."""
    said = _compared(asked, found, nearness(asked, found, rules), rules, calendar)
    if said is not None and said.match is Match.MATCHED and found.effect is not Effect.EFFECTIVE:
        return Comparison(Match.INEFFECTIVE, said.score, said.certainty, EFFECTS[found.effect])
    return said


def _compared(asked: Filter, found: Filter, near: float, rules: AppRules, calendar: Calendar) -> Comparison | None:
    said = presence(asked, found, near) or flag(asked, found, near)
    if said is not None:
        return said
    if is_timely(asked.value):
        return period(asked, found, near, rules, calendar)
    return content(asked, found, near, rules)


def covers(rule: Filter, found: Filter) -> bool:
    """Whether a condition of the SQL is the one that a rule names; spellings with the same truth value are one.

    The rule's column must be the filter's, after folding; `Anything` takes every single value of `=`.
    """
    if similarity(rule.column, found.column) < 1.0 or rule.aggregate != found.aggregate:
        return False
    if rule.op is found.op:
        return same(rule.value, found.value)
    said = truth(rule)
    return said is not None and said == truth(found)
