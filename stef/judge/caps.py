"""What the symbolic side is sure of limits the verdict, whoever gives it. The table is data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from stef.judge.case import JudgeCase
from stef.result import FAULTS, Category, Judgement, Match, Verdict

# A finding of this certainty counts as sure.
SURE = 0.7
_REQUIRED = 0.5


@dataclass(frozen=True, slots=True)
class Cap:
    """One row: when `holds` gives a certainty above 0, the verdict is `highest` at most.

    Attributes:
        fact: Machine name, shown on the result.
        description: For the README.
        highest: The best verdict left; None: what the offline judge gives.
        holds: Certainty of the fact, 0 when it does not hold.
    """

    fact: str
    description: str
    highest: Verdict | None
    holds: Callable[[JudgeCase], float]


def _faulty(case: JudgeCase) -> float:
    sure = [item.certainty for item in case.alignment.filters if item.required and item.match in FAULTS and item.certainty >= SURE]
    return max(sure, default=0.0)


def _none_met(case: JudgeCase) -> float:
    required = [item for item in case.alignment.filters if item.required]
    if case.alignment.category is not Category.NONE or not required:
        return 0.0
    least = min(item.certainty for item in required)
    return least if least >= SURE else 0.0


def _undetermined(case: JudgeCase) -> float:
    open_ones = [
        item for item in case.alignment.filters
        if item.match is Match.UNDETERMINED and item.found is not None and item.asked is not None and item.asked.certainty >= _REQUIRED
    ]  # fmt: skip
    return 1.0 if open_ones else 0.0


def _finding(*codes: str) -> Callable[[JudgeCase], float]:
    return lambda case: 1.0 if any(item.code in codes for item in case.findings) else 0.0


CAPS: tuple[Cap, ...] = (
    Cap("filter_fault", "a required filter surely missing, ineffective or contradicted", Verdict.POTENTIALLY_INCORRECT, _faulty),
    Cap("no_filter_met", "category NONE, surely", Verdict.INCORRECT, _none_met),
    Cap("undetermined", "a required filter undetermined", Verdict.LIKELY_CORRECT, _undetermined),
    Cap(
        "unsafe",
        "not read-only, or a mandatory filter missing",
        Verdict.POTENTIALLY_INCORRECT,
        _finding("not_read_only", "mandatory_filter_missing"),
    ),
    Cap("injection", "suspected injection", None, _finding("prompt_injection_suspected")),
)


def capped(given: Judgement, case: JudgeCase, offline: Judgement) -> Judgement:
    """Lower a verdict to what the facts allow; γ is then how sure the fact is.

    Args:
        given: The judge's.
        case: With the facts.
        offline: What the offline judge says of the same case.
    """
    result = given
    for cap in CAPS:
        certainty = cap.holds(case)
        highest = offline.verdict if cap.highest is None else cap.highest
        if certainty and highest.rank > result.verdict.rank:
            sure = offline.confidence if cap.highest is None else certainty
            result = replace(
                result, verdict=highest, confidence=sure, cap=cap.fact, raw_verdict=given.raw_verdict or given.verdict
            )
    return result
