"""What a model's word is worth: maps of its γ, and how its verdict and p_offline become one probability.

The maps of γ are Platt's, one for each thing that γ can rest on. The combination is a logistic regression on the
log-odds of p_offline and of the verdict's side, held near the mean of both by a prior while there are few labels.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from stef.calibrate.platt import Sample, fit
from stef.calibrate.reliability import Figures, Said, figures
from stef.calibrate.study import Record, check, folds, votes_of
from stef.calibration import AS_SAID, Calibration, Combination, JudgeCalibration, log_odds
from stef.compare.rows import question_key
from stef.label import Label
from stef.result import SEMANTICS_VERSION, Evaluation, JudgeKind, Judgement

# Of the three weights of the combination around their start, in log-odds.
_SPREAD = 0.5
_STEPS = 50
_LEAST_OF_A_BASIS = 30  # labels without which γ of a kind stays as it is


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """Which model was asked, and by which prompt: `name@digest`."""

    model: str
    prompt: str

    @property
    def prompt_digest(self) -> str:
        """Digest of the prompt."""
        return self.prompt.rpartition("@")[2]


@dataclass(frozen=True, slots=True)
class Judged:
    """A labelled record that a model judged.

    Attributes:
        p: p_offline.
        given: γ as the model gave it.
        basis: What γ rests on.
        affirms: Side of the model's own verdict.
        capped: What the facts left of it: γ and whether it affirms; None where no cap held.
        right: What the label says of the statement.
        group: Digest of the question.
    """

    p: float
    given: float
    basis: str
    affirms: bool
    capped: tuple[float, bool] | None
    right: bool
    group: str

    def said(self, calibration: JudgeCalibration) -> float:
        """Probability that the statement is right, by verdict and γ after caps and a calibration of γ."""
        gamma, affirms = self.capped or (calibration.confidence(self.basis, self.given), self.affirms)
        return gamma if affirms else 1 - gamma


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeSamples:
    """The labelled records that a model judged, and why others are left out.

    Attributes:
        asked: Whose results they are; None where there are none.
        others: Labelled records that another model judged, or this one by another prompt.
        newest: When the last of the labels was given.
    """

    samples: tuple[Judged, ...]
    asked: Asked | None
    others: int = 0
    newest: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeStudy:
    """Fitted maps and what they are worth; `after` is always of questions that a map was not fitted to.

    Attributes:
        confidence_before, confidence_after: Of γ against whether the model's verdict is right.
        p_before, p_after: Of p_correct against the label: the mean of both log-odds, and the fitted combination.
    """

    calibration: JudgeCalibration
    labels: int
    questions: int
    right: float
    confidence_before: Figures
    confidence_after: Figures
    p_before: Figures
    p_after: Figures
    samples: JudgeSamples

    @property
    def helps(self) -> bool:
        """Whether the maps are better than none on questions that they have not seen."""
        return self.p_after.log_loss < self.p_before.log_loss


def gather_judged(labels: Iterable[Label], results: Iterable[Evaluation], model: str = "") -> JudgeSamples:
    """Bring labels and results together.

    Args:
        labels: Of any records.
        results: Scored, in the order of writing; of one record the last one that a model judged counts.
        model: Whose results count; "": that of most of them. Of several prompts the most used one counts.
    """
    votes, newest = votes_of(labels)
    held: dict[tuple[Asked, Record], Evaluation] = {}
    for result in results:
        made = result.provenance
        record = (result.event_key, result.content_digest)
        if made.semantics == SEMANTICS_VERSION and _is_judged(result.judge) and votes.get(record) is not None:
            held[Asked(model=made.model, prompt=made.prompt), record] = result
    counts = Counter(asked for asked, _ in held if model in {"", asked.model})
    chosen = counts.most_common(1)[0][0] if counts else None
    used = {record: result for (asked, record), result in held.items() if asked == chosen}
    return JudgeSamples(
        samples=tuple(_judged(result, bool(votes[record])) for record, result in used.items()),
        asked=chosen,
        others=len({record for _, record in held} - used.keys()),
        newest=max((newest[record] for record in used), default=None),
    )


def _is_judged(judge: Judgement | None) -> bool:
    return judge is not None and judge.kind is JudgeKind.LLM and judge.raw_confidence is not None and not judge.fallback


def _judged(result: Evaluation, right: bool) -> Judged:
    judge = result.judge
    if judge is None or judge.raw_confidence is None or result.p_offline is None:
        raise ValueError(f"{result.event_key}: no model's verdict")
    own = judge.raw_verdict or judge.verdict
    capped = (judge.confidence, judge.verdict.affirms) if judge.cap else None
    group = question_key(result.question)
    return Judged(result.p_offline, judge.raw_confidence, judge.basis, own.affirms, capped, right, group)


def study_judged(gathered: JudgeSamples, least: int) -> JudgeStudy:
    """Fit the maps, and measure them on held-out questions.

    Args:
        gathered: Labels and results.
        least: Labels that are needed at least.

    Raises:
        LabelsError: There are too few, all say the same, or all are of one question.
    """
    samples = gathered.samples
    left = f"{gathered.others} were judged by another model or prompt" if gathered.others else ""
    check(samples, least, "labelled records that a model judged", left)
    parts = folds(samples)
    after = [held_out for place in range(len(parts)) for held_out in _held_out(parts, place)]
    return JudgeStudy(
        calibration=fit_judged(samples),
        labels=len(samples),
        questions=len({sample.group for sample in samples}),
        right=sum(sample.right for sample in samples) / len(samples),
        confidence_before=figures([(sample.given, sample.affirms is sample.right) for sample in samples]),
        confidence_after=figures([gamma for gamma, _ in after]),
        p_before=figures([_both(sample, AS_SAID) for sample in samples]),
        p_after=figures([p for _, p in after]),
        samples=gathered,
    )


def _held_out(parts: Sequence[Sequence[Judged]], place: int) -> list[tuple[Said, Said]]:
    """γ and p_correct of one part under maps that were fitted to the others."""
    fitted = fit_judged([sample for other, part in enumerate(parts) if other != place for sample in part])
    return [
        ((fitted.confidence(one.basis, one.given), one.affirms is one.right), _both(one, fitted))
        for one in parts[place]
    ]


def _both(sample: Judged, calibration: JudgeCalibration) -> Said:
    return calibration.combination.apply(sample.p, sample.said(calibration)), sample.right


def fit_judged(samples: Sequence[Judged]) -> JudgeCalibration:
    """Fit the maps of γ, then the combination on what they give."""
    confidences = JudgeCalibration(confidences=_confidences(samples))
    return JudgeCalibration(
        confidences=confidences.confidences, combination=_combination([(s, s.said(confidences)) for s in samples])
    )


def _confidences(samples: Sequence[Judged]) -> Mapping[str, Calibration]:
    """A map for each thing that γ rests on, where enough labels speak of it."""
    held = {basis: [s for s in samples if s.basis == basis] for basis in sorted({s.basis for s in samples})}
    return {
        basis: fit([Sample(s.given, s.affirms is s.right, s.group) for s in found])
        for basis, found in held.items()
        if len(found) >= _LEAST_OF_A_BASIS
    }


def _combination(samples: Sequence[tuple[Judged, float]]) -> Combination:
    """Newton's method on the penalised likelihood; it is concave, so that it has one top."""
    import numpy as np

    start = np.array([Combination().offline, Combination().model, Combination().intercept])
    odds = np.array([[log_odds(sample.p), log_odds(said), 1.0] for sample, said in samples])
    right = np.array([float(sample.right) for sample, _ in samples])
    weights = start.copy()
    for _ in range(_STEPS):
        p = 1 / (1 + np.exp(-np.clip(odds @ weights, -30, 30)))
        slope = odds.T @ (right - p) - (weights - start) / _SPREAD**2
        curve = (odds.T * (p * (1 - p))) @ odds + np.eye(3) / _SPREAD**2
        step = np.linalg.solve(curve, slope)
        weights = weights + step / max(1.0, float(np.abs(step).max()))
        if float(np.abs(step).max()) < 1e-9:
            break
    offline, model, intercept = (float(f"{value:.6g}") for value in weights)
    return Combination(offline, model, intercept)
