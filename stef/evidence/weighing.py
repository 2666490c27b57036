"""Runs the checks in order and weighs what they found."""

from __future__ import annotations

import math
from collections.abc import Iterable

from stef.evidence.conditions import against_rules, filters, nothing_met, self_defeating
from stef.evidence.facts import Check, Facts, Signal
from stef.evidence.figures import (
    aggregates,
    counted_keys,
    counted_measure,
    counted_outer,
    counted_twice,
    mean_of_quotients,
    measure,
    unasked_aggregate,
)
from stef.evidence.grounding import (
    unexplained,
    ungrounded_filters,
    ungrounded_outputs,
    ungrounded_values,
    unused_names,
)
from stef.evidence.grouping import grain, grouping, ungrouped
from stef.evidence.learned import learned
from stef.evidence.output import columns_beyond, columns_fewer, columns_more, dialect, distinct, truncated, undefined
from stef.evidence.ranking import limit_below, limit_count, limit_unasked, order_missing, ordering, sort_shown, unranked
from stef.result import Evidence, JudgeReason
from stef.weights import Weights

CHECKS: tuple[Check, ...] = (
    filters,
    nothing_met,
    against_rules,
    self_defeating,
    aggregates,
    counted_twice,
    counted_keys,
    counted_outer,
    counted_measure,
    mean_of_quotients,
    measure,
    unasked_aggregate,
    grouping,
    ungrouped,
    grain,
    ordering,
    order_missing,
    unranked,
    limit_below,
    limit_count,
    limit_unasked,
    distinct,
    columns_more,
    columns_fewer,
    columns_beyond,
    dialect,
    undefined,
    truncated,
    sort_shown,
    unexplained,
    ungrounded_values,
    ungrounded_filters,
    ungrounded_outputs,
    unused_names,
)
# A feature counts twice at most, however often it is found.
_MOST = 2.0
_LEAST = 0.0001
# Log-odds from which a signal is worth telling.
_TELLING = -0.3


def gather(facts: Facts, weights: Weights) -> Evidence:
    """Run all checks and weigh what they found."""
    signals = [signal for check in CHECKS for signal in check(facts)]
    features = _summed(signals)
    odds = weights.intercept + sum(weights.terms[name] * value for name, value in features.items())
    weighed = sorted(((weights.terms[item.feature] * item.value, item) for item in signals), key=lambda pair: pair[0])
    reasons = tuple(JudgeReason(code=item.code, detail=item.detail) for weight, item in weighed if weight <= _TELLING)
    shown = learned(facts, facts.catalogue)
    odds += sum(weights.terms.get(name, 0.0) * value for name, value in shown.features.items())
    told = tuple(JudgeReason(code=item.code, detail=item.detail) for item in shown.signals)
    return Evidence(p_offline=_probability(odds), reasons=(*reasons, *told), features={**features, **shown.features})


def _probability(odds: float) -> float:
    """Probability of log-odds; never quite 0 or 1, which no evidence from texts can be."""
    return min(max(round(1 / (1 + math.exp(-odds)), 4), _LEAST), 1 - _LEAST)


def _summed(signals: Iterable[Signal]) -> dict[str, float]:
    features: dict[str, float] = {}
    for item in signals:
        features[item.feature] = min(_MOST, features.get(item.feature, 0.0) + item.value)
    return features
