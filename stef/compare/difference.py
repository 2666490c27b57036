"""Whether the difference between two groups is real.

The bootstrap resamples whole questions, because the records of one question stand or fall together, and draws them
for both groups at once, because two versions often answer the same ones.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from stef.compare.figures import Group
from stef.compare.rows import Key, Row, label
from stef.result import Outcome

# A difference of means within so many points of Φ matters to nobody.
MARGIN = 2.0
# With fewer different questions in either group the interval is too narrow to be trusted.
LEAST_QUESTIONS = 20
RESAMPLES = 4000


class Answer(StrEnum):
    """What the interval says about a difference."""

    BETTER = "better"
    WORSE = "worse"
    SAME = "no difference that matters"
    UNDECIDED = "undecided"


@dataclass(frozen=True, slots=True, kw_only=True)
class Worsened:
    """A question that both groups answered and that this one answered worse; Φ as means over its records."""

    question: str
    event_key: str
    baseline_phi: float
    phi: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A group against the baseline.

    Attributes:
        key: The group.
        mean: Difference of the means of Φ in points; positive is better than the baseline.
        low, high: 95 % interval of it; None when there are too few questions.
        coverage: Difference of the coverages, -1 to 1.
        answer: In words.
        shared_questions: Questions that both have.
        worsened: Largest loss first.
    """

    key: Key
    mean: float | None
    low: float | None
    high: float | None
    coverage: float | None
    answer: Answer
    shared_questions: int
    worsened: tuple[Worsened, ...]

    @property
    def label(self) -> str:
        """The key for people."""
        return label(self.key)


@dataclass(slots=True)
class _Cluster:
    """All scored records of one question: weighted sum of Φ and weight on either side, and one record to open."""

    before: float = 0
    before_n: float = 0
    after: float = 0
    after_n: float = 0
    question: str = ""
    event_key: str = ""

    @property
    def loss(self) -> float:
        """How much lower the mean of the other group is."""
        return self.before / self.before_n - self.after / self.after_n


def difference(base: Group, group: Group, before: Sequence[Row], after: Sequence[Row], *, seed: int) -> Difference:
    """Compare a group with the baseline, from the figures and the rows of both."""
    clusters = _clusters(before, after)
    bounds = interval([(c.before, c.before_n, c.after, c.after_n) for c in clusters], seed=seed)
    shared = [cluster for cluster in clusters if cluster.before_n and cluster.after_n]
    worsened = sorted((c for c in shared if c.loss > 0), key=lambda c: (-c.loss, c.event_key))
    low, high = bounds or (None, None)
    return Difference(
        key=group.key,
        mean=None if base.mean is None or group.mean is None else group.mean - base.mean,
        low=low,
        high=high,
        coverage=None if base.coverage is None or group.coverage is None else group.coverage - base.coverage,
        answer=answer(low, high),
        shared_questions=len(shared),
        worsened=tuple(map(_worsened, worsened[: len(group.worst)])),
    )


def answer(low: float | None, high: float | None) -> Answer:
    """Put an interval of a difference into words."""
    if low is None or high is None:
        return Answer.UNDECIDED
    if low >= -MARGIN and high <= MARGIN:
        return Answer.SAME
    if low > 0:
        return Answer.BETTER
    return Answer.WORSE if high < 0 else Answer.UNDECIDED


def interval(clusters: Sequence[tuple[float, float, float, float]], *, seed: int) -> tuple[float, float] | None:
    """The 95 % bootstrap interval of the difference of two means (percentile method).

    Args:
        clusters: For each question: weighted sum and weight in the baseline, and in the other group.
        seed: Of the resampling.

    Returns:
        Both bounds; None when a group has fewer than `LEAST_QUESTIONS` questions.
    """
    if min(sum(c[1] > 0 for c in clusters), sum(c[3] > 0 for c in clusters)) < LEAST_QUESTIONS:
        return None
    import numpy as np

    # Φ takes few values, so most questions are alike: drawing kinds of questions with their frequencies is the same
    # as drawing questions, and much cheaper.
    kinds, counts = np.unique(np.asarray(clusters, dtype=np.float64), axis=0, return_counts=True)
    draws = np.random.default_rng(seed).multinomial(len(clusters), counts / counts.sum(), size=RESAMPLES)
    before, before_n, after, after_n = (draws @ kinds).T.astype(float)
    usable = (before_n > 0) & (after_n > 0)
    differences = after[usable] / after_n[usable] - before[usable] / before_n[usable]
    low, high = np.quantile(differences, [0.025, 0.975])
    return float(low), float(high)


def _counts(row: Row) -> bool:
    return row.outcome is Outcome.SCORED and row.weight > 0


def _clusters(before: Sequence[Row], after: Sequence[Row]) -> list[_Cluster]:
    found: dict[str, _Cluster] = defaultdict(_Cluster)
    for row in before:
        if _counts(row) and row.phi is not None:
            cluster = found[row.question_key or row.event_key]
            cluster.before += row.phi * row.weight
            cluster.before_n += row.weight
    lowest: dict[str, int] = {}
    for row in after:
        if _counts(row) and row.phi is not None:
            key = row.question_key or row.event_key
            cluster = found[key]
            cluster.after += row.phi * row.weight
            cluster.after_n += row.weight
            if row.phi < lowest.get(key, 101):
                lowest[key], cluster.question, cluster.event_key = row.phi, row.question, row.event_key
    return list(found.values())


def _worsened(cluster: _Cluster) -> Worsened:
    return Worsened(
        question=cluster.question,
        event_key=cluster.event_key,
        baseline_phi=cluster.before / cluster.before_n,
        phi=cluster.after / cluster.after_n,
    )
