"""The offline model's weights, frozen: they come in as a value, so that the evidence stays pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from stef.forest import Forest


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """The offline model: log-odds of "the SQL answers the question".

    Attributes:
        name: Version, for provenance.
        digest: Of the content.
        terms: Signal → log-odds for each unit of it, before a forest's `linear` scales them.
        kept: Signals that labelled data hardly show, whose log-odds count in full in every forest.
        thresholds: Verdict → least `p_offline` for it.
        texts: What is added by the texts alone; used while the log is new.
        log: What is added by the texts and what the log has shown.
    """

    name: str
    digest: str
    terms: Mapping[str, float]
    thresholds: Mapping[str, float]
    texts: Forest
    log: Forest
    kept: frozenset[str] = frozenset()

    def plain(self, name: str, forest: Forest) -> float:
        """Log-odds that one unit of a signal has beside a forest."""
        return self.terms[name] * (1.0 if name in self.kept else forest.linear)
