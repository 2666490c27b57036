"""Φ and its parts, and the probability beside it.

Source: STEF paper (arXiv 2604.28049). The points come from a digest of the paper: they are one named profile, `stef-1`.
Its Γ rises with the certainty of a verdict, also of one that says the answer is wrong, so that the surer a fault, the
higher Φ. `stef-2` differs in this alone: its Γ rises with the certainty that the answer is right.
"""

from __future__ import annotations

from collections.abc import Mapping

from stef.calibration import Combination
from stef.result import Alignment, Band, Category, Confidence, JudgeKind, Judgement, Phi, Score, Verdict

PROFILE = "stef-1"
MEAN = Combination()
PROFILES = (PROFILE, "stef-2")
FILTER_POINTS: Mapping[Category, int] = {
    Category.FULL: 5,
    Category.FULL_WITH_EXTRAS: 4,
    Category.PARTIAL: 3,
    Category.NONE: 0,
}
VERDICT_POINTS: Mapping[Verdict, int] = {
    Verdict.CORRECT: 5,
    Verdict.LIKELY_CORRECT: 3,
    Verdict.POTENTIALLY_INCORRECT: 2,
    Verdict.INCORRECT: 0,
}
_MULTIPLIERS = ((0.85, 1.0), (0.65, 0.8), (0.0, 0.5))
_BANDS = ((90, Band.EXCELLENT), (75, Band.GOOD), (50, Band.MARGINAL), (0, Band.POOR))


def multiplier(confidence: Confidence) -> float:
    """Γ: 1.0 from a confidence of 0.85, 0.8 from 0.65, else 0.5."""
    return next(value for least, value in _MULTIPLIERS if confidence >= least)


def reliance(verdict: Verdict, confidence: Confidence, profile: str) -> Confidence:
    """What Γ goes by, 0 to 1: γ; in `stef-2` γ of a verdict that affirms, and 1 - γ of one that does not."""
    return confidence if profile == PROFILE or verdict.affirms else 1.0 - confidence


def band(phi: Phi) -> Band:
    """Φ in words."""
    return next(name for least, name in _BANDS if phi >= least)


def score(alignment: Alignment, verdict: Verdict, confidence: Confidence, profile: str = PROFILE) -> Score:
    """Φ = min(10, filters + verdict + δ) × 10 × Γ.

    δ is 1 when R_app confirms that every extra filter is benign.

    Args:
        alignment: Category and whether the extras are benign.
        verdict: After the caps.
        confidence: γ, 0 to 1.
        profile: One of `PROFILES`.
    """
    filters, points = FILTER_POINTS[alignment.category], VERDICT_POINTS[verdict]
    delta = 1 if alignment.category is Category.FULL_WITH_EXTRAS and alignment.benign else 0
    gamma = multiplier(reliance(verdict, confidence, profile))
    phi = round(min(10, filters + points + delta) * 10 * gamma)
    return Score(phi=phi, band=band(phi), filters=filters, verdict=points, delta=delta, multiplier=gamma)


def combined(p_offline: float, judgement: Judgement, combination: Combination = MEAN) -> float:
    """`p_correct`: p_offline, put together with a model's verdict where one gave it."""
    if judgement.kind is JudgeKind.OFFLINE:
        return p_offline
    return combination.apply(p_offline, affirmed(judgement))


def affirmed(judgement: Judgement) -> float:
    """Probability that the statement is right, by a verdict and its γ."""
    return judgement.confidence if judgement.verdict.affirms else 1.0 - judgement.confidence
