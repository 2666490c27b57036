"""From labels and results to a fitted map, with what it is worth on questions that it has not seen."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol, TypeVar

from stef.calibrate.platt import Sample, fit
from stef.calibrate.reliability import Figures, Said, figures
from stef.calibration import Calibration
from stef.compare.rows import question_key
from stef.errors import LabelsError
from stef.label import Label, majority
from stef.result import SEMANTICS_VERSION, Evaluation

FOLDS = 10
Record = tuple[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Samples:
    """The labelled records that a map can be fitted to, and why others are left out.

    Attributes:
        ties: Records on which as many sources say right as wrong.
        unscored: Labelled records without a score by these weights and this release's semantics.
        newest: When the last of the labels was given; None without any.
    """

    samples: tuple[Sample, ...]
    ties: int = 0
    unscored: int = 0
    newest: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Study:
    """A fitted map and what it is worth.

    Attributes:
        calibration: Fitted to all samples.
        labels: Records.
        questions: Different ones; all records of one are held out together.
        right: Share of right records.
        before: Of the probabilities as they were.
        after: Of each record under a map that was fitted without its question.
        samples: What it was fitted to, and what was left out.
    """

    calibration: Calibration
    labels: int
    questions: int
    right: float
    before: Figures
    after: Figures
    samples: Samples

    @property
    def helps(self) -> bool:
        """Whether the map is better than none on questions that it has not seen."""
        return self.after.log_loss < self.before.log_loss


def gather(labels: Iterable[Label], results: Iterable[Evaluation], weights: str) -> Samples:
    """Bring labels and results together.

    Args:
        labels: Of any records.
        results: Scored, in the order of writing; of one record the last one counts.
        weights: `name@digest` of the weights whose results count.
    """
    votes, newest = votes_of(labels)
    scored: dict[Record, Evaluation] = {}
    for result in results:
        made = result.provenance
        if (made.weights, made.semantics) == (weights, SEMANTICS_VERSION):
            scored[result.event_key, result.content_digest] = result
    used = [(record, right) for record, right in votes.items() if right is not None and record in scored]
    return Samples(
        samples=tuple(_sample(scored[record], right) for record, right in used),
        ties=sum(right is None for right in votes.values()),
        unscored=len(votes.keys() - scored.keys()),
        newest=max((newest[record] for record, _ in used), default=None),
    )


def votes_of(labels: Iterable[Label]) -> tuple[Mapping[Record, bool | None], Mapping[Record, datetime]]:
    """What most sources say of each record, None where they are even, and when the last of them said it."""
    by_record: Mapping[Record, list[Label]] = defaultdict(list)
    for label in labels:
        by_record[label.record].append(label)
    votes = {record: majority(said) for record, said in by_record.items()}
    return votes, {record: max(label.at for label in said) for record, said in by_record.items()}


def _sample(result: Evaluation, right: bool) -> Sample:
    raw = result.p_raw if result.p_raw is not None else result.p_offline
    if raw is None:
        raise ValueError(f"{result.event_key}: scored without a probability")
    return Sample(raw, right, question_key(result.question))


class _Labelled(Protocol):
    """What can be held out: its question's digest, and what the label says."""

    @property
    def group(self) -> str: ...

    @property
    def right(self) -> bool: ...


S = TypeVar("S", bound=_Labelled)


def study(gathered: Samples, least: int) -> Study:
    """Fit a map, and measure it on held-out questions.

    Args:
        gathered: Labels and results.
        least: Labels that are needed at least.

    Raises:
        LabelsError: There are too few, all say the same, or all are of one question.
    """
    samples = gathered.samples
    left = f"{gathered.ties} are ties and {gathered.unscored} have no score by these weights"
    check(samples, least, "labelled records with a score", left)
    parts = folds(samples)
    return Study(
        calibration=fit(samples),
        labels=len(samples),
        questions=len({sample.group for sample in samples}),
        right=sum(sample.right for sample in samples) / len(samples),
        before=figures([(sample.p, sample.right) for sample in samples]),
        after=figures([said for place in range(len(parts)) for said in _held_out(parts, place)]),
        samples=gathered,
    )


def check(samples: Sequence[_Labelled], least: int, what: str, left_out: str) -> None:
    """Make sure that something can be learned from samples, and that some of them can be held out.

    Args:
        samples: All there are.
        least: How many are needed at least; one is never enough.
        what: What they are, for the error.
        left_out: What there is beside them, for the error; "" for nothing.

    Raises:
        LabelsError: There are too few, all say the same, or all are of one question.
    """
    rights = sum(sample.right for sample in samples)
    if len(samples) < least or not samples:
        more = f"; {left_out}" if left_out else ""
        raise LabelsError(f"found {len(samples)} {what}; allowed: {max(least, 1)} or more{more}")
    if rights in {0, len(samples)}:
        said = "right" if rights else "wrong"
        raise LabelsError(f"found {len(samples)} {what}, all of them {said}; allowed: right ones and wrong ones")
    if len({sample.group for sample in samples}) == 1:
        raise LabelsError("found labels of one question; allowed: labels of several, so that some can be held out")


def folds(samples: Sequence[S]) -> list[list[S]]:
    """Part samples so that no question is in two parts: that with most records first, into the smallest part."""
    sizes = Counter(sample.group for sample in samples)
    parts: list[list[S]] = [[] for _ in range(min(FOLDS, len(sizes)))]
    loads = [0] * len(parts)
    where: dict[str, int] = {}
    for group, size in sorted(sizes.items(), key=lambda pair: (-pair[1], pair[0])):
        where[group] = min(range(len(parts)), key=loads.__getitem__)
        loads[where[group]] += size
    for sample in samples:
        parts[where[sample.group]].append(sample)
    return parts


def _held_out(parts: Sequence[Sequence[Sample]], place: int) -> list[Said]:
    """One part under a map that was fitted to the others."""
    fitted = fit([sample for other, part in enumerate(parts) if other != place for sample in part])
    return [(fitted.apply(sample.p), sample.right) for sample in parts[place]]
