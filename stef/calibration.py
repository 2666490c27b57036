"""From probabilities as weights and models give them to ones that hold for a user's own records, frozen values.

How the maps are fitted stands in `calibrate`, how they are kept in `calibrationfile.py`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

# No evidence from texts makes anything quite sure.
_LEAST = 0.0001


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """A straight line on the log-odds (Platt, 1999); a larger p never becomes the smaller one.

    Attributes:
        slope: Above 0; below 1 where p was too sure of itself.
        intercept: Log-odds that are added.
        name: Version, for provenance; "" for the identity.
        digest: Of what decides: slope, intercept, and the weights that they were fitted to; "" for the identity.

    Raises:
        ValueError: The slope is not above 0, or a number is not finite.
    """

    slope: float = 1.0
    intercept: float = 0.0
    name: str = ""
    digest: str = ""

    def __post_init__(self) -> None:
        if not (0 < self.slope < math.inf and math.isfinite(self.intercept)):
            raise ValueError(f"slope {self.slope}, intercept {self.intercept}: no map that keeps the order")

    def apply(self, p: float) -> float:
        """The calibrated probability, to six decimals, so that what differs stays different."""
        if self.slope == 1 and self.intercept == 0:
            return p
        return min(max(round(probability(self.slope * log_odds(p) + self.intercept), 6), _LEAST), 1 - _LEAST)


IDENTITY = Calibration()


@dataclass(frozen=True, slots=True)
class Combination:
    """How p_offline and what a model says become one probability: a weighted sum of their log-odds.

    The default is their mean.
    """

    offline: float = 0.5
    model: float = 0.5
    intercept: float = 0.0

    def apply(self, p_offline: float, said: float) -> float:
        """The probability that the statement is right, to four decimals.

        Args:
            p_offline: From the evidence.
            said: Probability that it is right, by the model's verdict and its γ.
        """
        odds = self.offline * log_odds(p_offline) + self.model * log_odds(said) + self.intercept
        return min(max(round(probability(odds), 4), _LEAST), 1 - _LEAST)


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeCalibration:
    """What a model's word is worth, as labels have shown it.

    Attributes:
        confidences: By what γ rests on (`token`, `agreement`, `said`): from γ as it is given to one that holds.
        combination: Of p_offline and the model's verdict.
        name: Version, for provenance; "" where nothing was fitted.
        digest: Of what decides; "" where nothing was fitted.
    """

    confidences: Mapping[str, Calibration] = field(default_factory=lambda: MappingProxyType({}))
    combination: Combination = Combination()
    name: str = ""
    digest: str = ""

    def confidence(self, basis: str, given: float) -> float:
        """γ that holds, to four decimals."""
        return round(self.confidences.get(basis, IDENTITY).apply(given), 4)


AS_SAID = JudgeCalibration()


def log_odds(p: float) -> float:
    """Log-odds of a probability; those of 0 and 1 are taken a little inside."""
    p = min(max(p, _LEAST), 1 - _LEAST)
    return math.log(p / (1 - p))


def probability(odds: float) -> float:
    """Probability of log-odds, however large they are."""
    if odds >= 0:
        return 1 / (1 + math.exp(-odds))
    return math.exp(odds) / (1 + math.exp(odds))
