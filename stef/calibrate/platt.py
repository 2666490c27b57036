"""Fits slope and intercept to labels: Platt, "Probabilistic Outputs for Support Vector Machines", 1999.

Pure. The targets are smoothed as in that paper: with n₊ right and n₋ wrong labels, (n₊ + 1) / (n₊ + 2) and 1 / (n₋ + 2)
in place of 1 and 0. A prior holds the map near the identity while there are few labels.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from stef.calibration import Calibration, log_odds, probability

# Standard deviations of the prior: of the slope's logarithm, which keeps it above 0, and of the intercept. Over maps of
# slope 0.3 to 1.5 and intercept −1.5 to 1 these lost least, on average and at worst, from 50 to 500 labels.
_SPREAD_SLOPE = 1.0
_SPREAD_INTERCEPT = 1.0
_MOST_STEPS = 100
_SMALLEST_STEP = 2.0**-30
_ENOUGH = 1e-10


@dataclass(frozen=True, slots=True)
class Sample:
    """A labelled record.

    Attributes:
        p: As the weights give it, before any calibration.
        right: What the label says.
        group: Digest of the question: records of one question are held out together.
    """

    p: float
    right: bool
    group: str = ""


@dataclass(frozen=True, slots=True)
class _Point:
    """Where the search stands: the logarithm of the slope, and the intercept."""

    log_slope: float
    intercept: float

    @property
    def slope(self) -> float:
        return math.exp(self.log_slope)


def fit(samples: Sequence[Sample]) -> Calibration:
    """The map under which the labels are likeliest, prior included; without a sample the identity.

    The prior alone decides a slope against which all labels speak: it becomes small and stays above 0.
    """
    right = sum(sample.right for sample in samples)
    yes, no = (right + 1) / (right + 2), 1 / (len(samples) - right + 2)
    data = [(log_odds(sample.p), yes if sample.right else no) for sample in samples]
    point = _Point(0.0, 0.0)
    loss = _loss(data, point)
    for _ in range(_MOST_STEPS):
        following, lower = _step(data, point, loss)
        done, point, loss = loss - lower < _ENOUGH, following, lower
        if done:
            break
    return Calibration(slope=point.slope, intercept=point.intercept)


def _loss(data: Sequence[tuple[float, float]], at: _Point) -> float:
    """What is made small: −log likelihood and −log prior."""
    prior = (at.log_slope / _SPREAD_SLOPE) ** 2 / 2 + (at.intercept / _SPREAD_INTERCEPT) ** 2 / 2
    slope, intercept = at.slope, at.intercept
    return prior + math.fsum(_surprise(slope * odds + intercept, target) for odds, target in data)


def _surprise(odds: float, target: float) -> float:
    """−log likelihood of one target, without overflow."""
    return max(odds, 0.0) + math.log1p(math.exp(-abs(odds))) - target * odds


def _step(data: Sequence[tuple[float, float]], at: _Point, loss: float) -> tuple[_Point, float]:
    """One step of Newton's method with the expected curvature, halved until it leads down; at the end none."""
    down = _direction(data, at)
    length = 1.0
    while length > _SMALLEST_STEP:
        following = _Point(at.log_slope - length * down[0], at.intercept - length * down[1])
        lower = _loss(data, following) if abs(following.log_slope) < 50 else math.inf
        if lower < loss:
            return following, lower
        length /= 2
    return at, loss


def _direction(data: Sequence[tuple[float, float]], at: _Point) -> tuple[float, float]:
    """Gradient over curvature, for two parameters."""
    first, second = at.log_slope / _SPREAD_SLOPE**2, at.intercept / _SPREAD_INTERCEPT**2
    a, b, c = 1 / _SPREAD_SLOPE**2, 0.0, 1 / _SPREAD_INTERCEPT**2
    slope = at.slope
    for odds, target in data:
        steep = slope * odds
        p = probability(steep + at.intercept)
        error, weight = p - target, p * (1 - p)
        first += error * steep
        second += error
        a += weight * steep * steep
        b += weight * steep
        c += weight
    determinant = a * c - b * b
    return (c * first - b * second) / determinant, (a * second - b * first) / determinant
