"""How far probabilities can be relied on: calibration error, Brier score, log loss. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

BINS = 10
# A probability of 0 for what came anyway must not make everything infinite.
_LEAST = 1e-15
Said = tuple[float, bool]  # a probability, and whether it was right


@dataclass(frozen=True, slots=True, kw_only=True)
class Bin:
    """Records whose probability lies in one tenth; `low` belongs to it, `high` to the next one.

    Attributes:
        records: How many.
        mean: Of their probabilities.
        right: Share that is right.
    """

    low: float
    high: float
    records: int
    mean: float
    right: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """How well probabilities and labels fit; smaller is better.

    Attributes:
        ece: Expected calibration error: the distance of `mean` and `right`, over the records, 0 to 1.
        brier: Mean squared error, 0 to 1.
        log_loss: Mean −log of the probability of what came, in nats.
        bins: Those that hold a record, lowest first.
    """

    ece: float
    brier: float
    log_loss: float
    bins: tuple[Bin, ...]


def figures(said: Sequence[Said]) -> Figures:
    """The figures of at least one probability.

    Raises:
        ValueError: There is none.
    """
    if not said:
        raise ValueError("no probability")
    bins = _bins(said)
    records = len(said)
    return Figures(
        ece=math.fsum(item.records * abs(item.mean - item.right) for item in bins) / records,
        brier=math.fsum((p - right) ** 2 for p, right in said) / records,
        log_loss=-math.fsum(math.log(max(p if right else 1 - p, _LEAST)) for p, right in said) / records,
        bins=bins,
    )


def _bins(said: Sequence[Said]) -> tuple[Bin, ...]:
    held: list[list[Said]] = [[] for _ in range(BINS)]
    for p, right in said:
        held[min(int(p * BINS), BINS - 1)].append((p, right))
    return tuple(_bin(place, items) for place, items in enumerate(held) if items)


def _bin(place: int, items: Sequence[Said]) -> Bin:
    return Bin(
        low=place / BINS,
        high=(place + 1) / BINS,
        records=len(items),
        mean=math.fsum(p for p, _ in items) / len(items),
        right=sum(right for _, right in items) / len(items),
    )
