"""From `p_offline` as the weights give it to one that holds for a user's own records, frozen: it comes in as a value.

How a map is fitted stands in `calibrate`, how it is kept in `calibrationfile.py`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

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


def log_odds(p: float) -> float:
    """Log-odds of a probability; those of 0 and 1 are taken a little inside."""
    p = min(max(p, _LEAST), 1 - _LEAST)
    return math.log(p / (1 - p))


def probability(odds: float) -> float:
    """Probability of log-odds, however large they are."""
    if odds >= 0:
        return 1 / (1 + math.exp(-odds))
    return math.exp(odds) / (1 + math.exp(odds))
