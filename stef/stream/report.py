"""What a run of the loop did, in numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from stef.result import Evaluation, Outcome, Reason
from stef.store import Fate, Kept
from stef.stream.protocols import Extent


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The counts of one run.

    Attributes:
        received: Messages read, repeated reading after a rebalance included.
        outcomes: Records by how they ended; a duplicate is `skipped`.
        reasons: Of those that were skipped or failed.
        dead_letters: Messages put aside, by reason.
        new: Evaluations that the store had not had.
        upgraded: Those that replaced a failed one.
        duplicates: Those that were there already.
        id_conflicts: Those whose key another content has.
        gaps: Times that messages were gone before they were read.
        dropped: Late results of partitions that went to another consumer.
        given_back: Messages that were read and not finished when it stopped; they come again.
        commits: Of positions.
        extent: How much of the source was read, where it has an end.
    """

    received: int = 0
    outcomes: Mapping[Outcome, int] = field(default_factory=lambda: MappingProxyType({}))
    reasons: Mapping[Reason, int] = field(default_factory=lambda: MappingProxyType({}))
    dead_letters: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    new: int = 0
    upgraded: int = 0
    duplicates: int = 0
    id_conflicts: int = 0
    gaps: int = 0
    dropped: int = 0
    given_back: int = 0
    commits: int = 0
    extent: Extent | None = None


class Counts:
    """Counts while the loop runs."""

    def __init__(self) -> None:
        self.received = self.gaps = self.dropped = self.given_back = self.commits = self.id_conflicts = 0
        self._fates: Counter[Fate] = Counter()
        self._outcomes: Counter[Outcome] = Counter()
        self._reasons: Counter[Reason] = Counter()
        self._dead: Counter[str] = Counter()

    def evaluated(self, evaluation: Evaluation, *, repeated: bool) -> None:
        """Count one record; one that the store had is a duplicate, whatever it said then."""
        self._outcomes[Outcome.SKIPPED if repeated else evaluation.outcome] += 1
        reason = Reason.DUPLICATE if repeated else evaluation.reason
        if reason is not None:
            self._reasons[reason] += 1

    def dead_letter(self, reason: str) -> None:
        """Count a message that was put aside."""
        self._dead[reason] += 1

    def kept(self, kept: Kept) -> None:
        """Count what the store did."""
        self._fates[kept.fate] += 1
        self.id_conflicts += kept.conflict

    def report(self, extent: Extent | None) -> Report:
        """The numbers as they stand."""
        return Report(
            received=self.received,
            outcomes=MappingProxyType(dict(self._outcomes)),
            reasons=MappingProxyType(dict(self._reasons)),
            dead_letters=MappingProxyType(dict(self._dead)),
            new=self._fates[Fate.NEW],
            upgraded=self._fates[Fate.UPGRADED],
            duplicates=self._fates[Fate.DUPLICATE],
            id_conflicts=self.id_conflicts,
            gaps=self.gaps,
            dropped=self.dropped,
            given_back=self.given_back,
            commits=self.commits,
            extent=extent,
        )
