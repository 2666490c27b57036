"""The judge that needs nothing: verdict and confidence from the evidence alone."""

from __future__ import annotations

from stef.judge.case import JudgeCase
from stef.result import JudgeKind, Judgement, Verdict
from stef.weights import Weights


class OfflineJudge:
    """Turns `p_offline` into a verdict by the thresholds of the weights; γ is the probability of the side it takes."""

    kind = JudgeKind.OFFLINE
    identity = ""

    def __init__(self, weights: Weights) -> None:
        self.weights = weights

    async def judge(self, case: JudgeCase) -> Judgement:
        """Judge one case; never fails."""
        return self.verdict(case)

    def verdict(self, case: JudgeCase) -> Judgement:
        """The same without waiting."""
        p = case.evidence.p_offline
        verdict = next(step for step in Verdict if p >= self.weights.thresholds[step.value])
        given = confidence(verdict, p)
        return Judgement(kind=self.kind, verdict=verdict, confidence=given, reasons=case.evidence.reasons)


def confidence(verdict: Verdict, p: float) -> float:
    """γ for a verdict that rests on a probability of being right: that of the side which the verdict takes."""
    return round(p if verdict.affirms else 1.0 - p, 4)
