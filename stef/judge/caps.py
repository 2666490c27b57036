"""What the symbolic side is sure of limits the verdict, whoever gives it. The table is data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from stef.finding import FindingCode
from stef.judge.case import JudgeCase
from stef.result import FAULTS, Category, FilterEvidence, Judgement, Match, Verdict

# A finding of this certainty counts as sure.
SURE = 0.6
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
    faults = (item for item in case.alignment.filters if item.required and item.match in FAULTS)
    return max((item.certainty for item in faults if _is_sure(item)), default=0.0)


def _is_sure(item: FilterEvidence) -> bool:
    return item.certainty >= SURE


def _none_met(case: JudgeCase) -> float:
    required = [item for item in case.alignment.filters if item.required]
    if case.alignment.category is not Category.NONE or not all(_is_sure(item) for item in required):
        return 0.0
    return min((item.certainty for item in required), default=0.0)


def _undetermined(case: JudgeCase) -> float:
    """What is undetermined is not counted as required; what was surely asked for would be."""
    return 1.0 if any(_is_open(item) for item in case.alignment.having(Match.UNDETERMINED)) else 0.0


def _is_open(item: FilterEvidence) -> bool:
    return item.found is not None and item.asked is not None and item.asked.certainty >= _REQUIRED


def _finding(*codes: FindingCode) -> Callable[[JudgeCase], float]:
    return lambda case: 1.0 if any(item.code in codes for item in case.findings) else 0.0


CAPS: tuple[Cap, ...] = (
    Cap(
        "filter_fault",
        "a required filter surely missing, ineffective or contradicted",
        Verdict.POTENTIALLY_INCORRECT,
        _faulty,
    ),
    Cap("no_filter_met", "category NONE, surely", Verdict.INCORRECT, _none_met),
    Cap("undetermined", "a required filter undetermined", Verdict.LIKELY_CORRECT, _undetermined),
    Cap(
        "unsafe",
        "not read-only, or a mandatory filter missing",
        Verdict.POTENTIALLY_INCORRECT,
        _finding(FindingCode.NOT_READ_ONLY, FindingCode.MANDATORY_FILTER_MISSING),
    ),
    Cap("injection", "suspected injection", None, _finding(FindingCode.PROMPT_INJECTION_SUSPECTED)),
)


def is_suspected(case: JudgeCase) -> bool:
    """Whether a text of the record speaks to the judge: a model's word then counts for nothing beyond offline's."""
    return any(item.code is FindingCode.PROMPT_INJECTION_SUSPECTED for item in case.findings)


def capped(given: Judgement, case: JudgeCase, offline: Judgement) -> Judgement:
    """Lower a verdict to what the facts allow.

    Args:
        given: The judge's.
        case: With the facts.
        offline: What the offline judge says of the same case.
    """
    result = _lowered(given, case)
    return _at_most(result, _lowered(offline, case), given) if is_suspected(case) else result


def _lowered(given: Judgement, case: JudgeCase) -> Judgement:
    result = given
    for cap in CAPS:
        certainty = cap.holds(case)
        if cap.highest is not None and certainty and cap.highest.rank > result.verdict.rank:
            result = replace(
                result,
                verdict=cap.highest,
                confidence=_confidence(result, cap.highest, certainty),
                cap=cap.fact,
                raw_verdict=given.raw_verdict or given.verdict,
            )
    return result


def _at_most(result: Judgement, offline: Judgement, given: Judgement) -> Judgement:
    """What a text of the record may have talked the judge into counts for nothing: neither verdict nor γ rises."""
    confidence = min(result.confidence, offline.confidence)
    if result.verdict.rank > offline.verdict.rank:
        return replace(result, confidence=confidence)
    if (result.verdict, result.confidence) == (offline.verdict, offline.confidence):
        return result
    raw = given.raw_verdict or given.verdict
    return replace(result, verdict=offline.verdict, confidence=offline.confidence, cap="injection", raw_verdict=raw)


def _confidence(before: Judgement, highest: Verdict, certainty: float) -> float:
    """γ of a capped verdict: that of the fact, where the fact turns right into wrong; else the judge's own stands.

    A fact that leaves "probably right" makes nothing surer. One that makes a wrong verdict worse adds its certainty.
    """
    if highest.affirms:
        return before.confidence
    return certainty if before.verdict.affirms else max(before.confidence, certainty)
