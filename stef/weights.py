"""The offline model's weights, frozen: they come in as a value, so that the evidence stays pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """A logistic model: log-odds of "the SQL answers the question".

    Attributes:
        name: Version, for provenance.
        digest: Of the content.
        intercept: Log-odds of a record with nothing against it.
        terms: Feature → log-odds for each unit of it.
        thresholds: Verdict → least `p_offline` for it.
    """

    name: str
    digest: str
    intercept: float
    terms: Mapping[str, float]
    thresholds: Mapping[str, float]
