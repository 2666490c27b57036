"""One group's figures."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from statistics import fmean

from stef.compare.rows import Key, Row, label
from stef.result import COVERAGE_LOSSES, Band, Outcome, Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Worst:
    """A record to look at first."""

    event_key: str
    event_id: str | None
    phi: int
    p_correct: float | None
    question: str
    first_reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """One group's figures; every share is between 0 and 1, and None where nothing can be divided by.

    Attributes:
        key: Values of the fields that were grouped by.
        n: Results of the group, of any outcome.
        coverage: Scored ÷ everything that should have had a score.
        refusal_rate: Refusals ÷ (refusals and everything that should have had a score).
        broken_rate: Broken SQL ÷ everything that should have had a score.
        mean, p10, p50, p90: Of Φ over scored records, each with its weight; the quantiles are values that occur.
        bands: Band → share of the scored records, best band first.
        mean_p_correct: Over scored records.
        fallback_share: Offline verdicts in place of a model's ÷ scored.
        reasons: Why records were skipped or failed → how many.
        worst: Lowest Φ first, then lowest p_correct.
    """

    key: Key
    n: int
    scored: int
    failed: int
    coverage: float | None
    refusal_rate: float | None
    broken_rate: float | None
    mean: float | None
    p10: int | None
    p50: int | None
    p90: int | None
    bands: Mapping[str, float]
    mean_p_correct: float | None
    fallback_share: float | None
    reasons: Mapping[str, int]
    worst: tuple[Worst, ...]

    @property
    def label(self) -> str:
        """The key for people."""
        return label(self.key)


def figures(key: Key, rows: Sequence[Row], worst: int) -> Group:
    """Count one group."""
    scored = [row for row in rows if row.phi is not None and row.outcome is Outcome.SCORED]
    counted = sorted((row for row in scored if row.weight), key=lambda row: row.phi or 0)
    weights = [row.weight for row in counted]
    phis = [row.phi for row in counted if row.phi is not None]
    chances = [(row.p_correct, row.weight) for row in counted if row.p_correct is not None]
    failed = sum(row.outcome is Outcome.FAILED for row in rows)
    skipped = Counter(row.reason for row in rows if row.outcome is Outcome.SKIPPED)
    expected = len(scored) + failed + sum(skipped[reason] for reason in COVERAGE_LOSSES)
    refused = skipped[Reason.NO_SQL]
    bands = {band: sum(row.weight for row in counted if row.band is band) for band in Band}
    return Group(
        key=key,
        n=len(rows),
        scored=len(scored),
        failed=failed,
        coverage=_share(len(scored), expected),
        refusal_rate=_share(refused, expected + refused),
        broken_rate=_share(skipped[Reason.BROKEN], expected),
        mean=fmean(phis, weights) if phis else None,
        p10=quantile(phis, 10, weights),
        p50=quantile(phis, 50, weights),
        p90=quantile(phis, 90, weights),
        bands={band.value: weight / sum(weights) for band, weight in bands.items()} if phis else {},
        mean_p_correct=fmean(*zip(*chances, strict=True)) if chances else None,
        fallback_share=_share(sum(bool(row.fallback) for row in scored), len(scored)),
        reasons=dict(sorted(Counter(row.reason.value for row in rows if row.reason).items())),
        worst=tuple(map(_worst, sorted(filter(_could_be_better, scored), key=_badness)[:worst])),
    )


def quantile(ordered: Sequence[int], percent: int, weights: Sequence[float] = ()) -> int | None:
    """The smallest value that at least `percent` of all do not exceed (inverted distribution function).

    Args:
        ordered: Ascending.
        percent: 1 to 100.
        weights: Of the values, above 0; () when all weigh the same.

    Returns:
        A value that occurs, never one between two; None for no values.
    """
    if not ordered:
        return None
    heaped = list(accumulate(weights or [1] * len(ordered)))
    # The last bits of a sum of weights decide nothing.
    return ordered[bisect_left(heaped, heaped[-1] * percent / 100 * (1 - 1e-12))]


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def _could_be_better(row: Row) -> bool:
    return row.band is not Band.EXCELLENT


def _badness(row: Row) -> tuple[int, float, str]:
    return (row.phi or 0, 1.0 if row.p_correct is None else row.p_correct, row.event_key)


def _worst(row: Row) -> Worst:
    return Worst(
        event_key=row.event_key,
        event_id=row.event_id,
        phi=row.phi or 0,
        p_correct=row.p_correct,
        question=row.question,
        first_reason=row.first_reason,
    )
