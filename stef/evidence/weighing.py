"""Runs the checks in order and weighs what they found."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from heapq import nsmallest

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
from stef.evidence.measures import measured
from stef.evidence.output import (
    bound_twice,
    columns_beyond,
    columns_fewer,
    columns_more,
    dialect,
    distinct,
    fails,
    output_pinned,
    output_star,
    truncated,
    undefined,
)
from stef.evidence.ranking import limit_below, limit_count, limit_unasked, order_missing, ordering, sort_shown, unranked
from stef.forest import Weighed
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
    output_pinned,
    output_star,
    bound_twice,
    dialect,
    fails,
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
# Log-odds from which a signal is worth telling, and how many parts of the evidence are shown with their weight.
_TELLING = -0.3
_SHOWN = 3
# A statement of a thousand conditions has a thousand faults, which nobody reads.
_MOST_REASONS = 40


def gather(facts: Facts, weights: Weights) -> Evidence:
    """Run all checks, take all numbers and weigh them; what the log has shown counts where it has seen enough."""
    signals = [signal for check in CHECKS for signal in check(facts)]
    shown = learned(facts, facts.catalogue)
    forest = weights.log if shown.features else weights.texts
    features = {**_summed(signals), **measured(facts), **shown.features}
    grown, parts = forest.weigh(features)
    for name in features.keys() & weights.terms.keys():
        plain = weights.plain(name, forest) * features[name]
        grown, parts[name] = grown + plain, parts.get(name, 0.0) + plain
    return Evidence(
        p_offline=_probability(forest.intercept + forest.slope * grown),
        reasons=(*_reasons(signals, weights), *map(_reason, shown.signals))[:_MOST_REASONS],
        weighed=_heaviest(parts, features, forest.slope),
        features=features,
    )


def _reasons(signals: Iterable[Signal], weights: Weights) -> tuple[JudgeReason, ...]:
    """What is worth telling, most telling first."""
    rated = [(weights.terms[item.feature] * item.value, item) for item in signals]
    telling = sorted((pair for pair in rated if pair[0] <= _TELLING), key=lambda pair: pair[0])
    return tuple(_reason(item) for _, item in telling)


def _reason(item: Signal) -> JudgeReason:
    return JudgeReason(code=item.code, detail=item.detail)


def _heaviest(parts: Mapping[str, float], features: Mapping[str, float], slope: float) -> tuple[Weighed, ...]:
    """The features that moved the log-odds most."""
    heaviest = nsmallest(_SHOWN, [(-abs(part), name) for name, part in parts.items()])
    return tuple(
        Weighed(feature=name, value=features.get(name), log_odds=round(slope * parts[name], 3)) for _, name in heaviest
    )


def _probability(odds: float) -> float:
    """Probability of log-odds; never quite 0 or 1, which no evidence from texts can be."""
    return min(max(round(1 / (1 + math.exp(-odds)), 4), _LEAST), 1 - _LEAST)


def _summed(signals: Iterable[Signal]) -> dict[str, float]:
    features: dict[str, float] = {}
    for item in signals:
        features[item.feature] = min(_MOST, features.get(item.feature, 0.0) + item.value)
    return features
