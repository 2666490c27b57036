"""What a model's verdicts are worth, beside the offline judge's and together with them.

`report` prints tables in Markdown. Every interval holds 95 % of the values that a thousand drawings of as many
questions give, each question with all its records; a difference is taken within each drawing, over records that have
both scores.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

import numpy as np
from evidence_signals import FOLDS, Items
from fit_weights import auroc

from stef.calibration import log_odds
from stef.config import SETTINGS
from stef.result import Verdict

_DRAWINGS = 1000
_HELD = 1.0  # how firmly the weight of the model is held to nothing
_STEPS = 50
Row = Mapping[str, Any]
Scores = Mapping[str, float]
_DEFAULTS = {setting.name: setting.default for setting in SETTINGS}
_OPEN = ((float(_DEFAULTS["cascade_low"]), float(_DEFAULTS["cascade_high"])), (0.1, 0.9), (0.4, 0.6))


@dataclass(frozen=True, slots=True)
class Sample:
    """The records that were asked about.

    Attributes:
        labels: 1 for right, by record.
        questions: Records of each question.
    """

    labels: Mapping[str, int]
    questions: Sequence[Sequence[str]]

    def auroc(self, scores: Scores, drawn: Sequence[Sequence[str]]) -> float | None:
        """Chance that a right record scores above a wrong one."""
        names = [name for group in drawn for name in group if name in scores]
        return auroc([self.labels[name] for name in names], [scores[name] for name in names]) if names else None

    def pairwise(self, scores: Scores, drawn: Sequence[Sequence[str]]) -> float | None:
        """The same within one question."""
        wins, pairs = 0.0, 0
        for group in drawn:
            right, wrong = ([scores[n] for n in group if n in scores and self.labels[n] == side] for side in (1, 0))
            pairs += len(right) * len(wrong)
            wins += sum((a > b) + 0.5 * (a == b) for a in right for b in wrong)
        return wins / pairs if pairs else None

    def pairs(self, scores: Scores) -> int:
        """Pairs of a right and a wrong answer to one question."""
        counts = (Counter(self.labels[name] for name in group if name in scores) for group in self.questions)
        return sum(count[0] * count[1] for count in counts)

    def interval(self, measured: Callable[[Sequence[Sequence[str]]], float | None]) -> str:
        """A figure with its interval."""
        dice = random.Random(1)  # noqa: S311 - no secret
        whole = measured(self.questions)
        drawings = (measured(dice.choices(self.questions, k=len(self.questions))) for _ in range(_DRAWINGS))
        found = [value for value in drawings if value is not None]
        if whole is None or not found:
            return "none"
        low, high = np.quantile(found, [0.025, 0.975])
        return f"{whole:.3f} [{low:.3f}, {high:.3f}]"

    def shown(self, scores: Scores) -> str:
        """Both figures of some scores, as cells of a table."""
        kept = {name: score for name, score in scores.items() if name in self.labels}
        figures = (self.interval(lambda drawn, of=of: of(kept, drawn)) for of in (self.auroc, self.pairwise))  # type: ignore[misc]
        return f"{len(kept)} | {self.pairs(kept)} | {' | '.join(figures)}"

    def difference(self, left: Scores, right: Scores) -> str:
        """Both figures of the first less those of the second, over the records that have both."""
        common = [name for name in self.labels if name in left and name in right]
        one, other = ({name: side[name] for name in common} for side in (left, right))

        def less(of: Callable[[Scores, Sequence[Sequence[str]]], float | None]) -> str:
            def measured(drawn: Sequence[Sequence[str]]) -> float | None:
                values = of(one, drawn), of(other, drawn)
                return None if values[0] is None or values[1] is None else values[0] - values[1]

            return self.interval(measured)

        return f"{len(common)} | {self.pairs(one)} | {less(self.auroc)} | {less(self.pairwise)}"


def sampled(items: Items, rows: Sequence[Row]) -> Sample:
    """The records of some replies."""
    asked = {row["id"] for row in rows}
    groups: dict[tuple[str, str], list[str]] = defaultdict(list)
    for item in items:
        if item["id"] in asked:
            groups[item["source"], item["question"]].append(item["id"])
    labels = {item["id"]: item["label"] for item in items if item["id"] in asked}
    return Sample(labels, list(groups.values()))


def fitted(said: np.ndarray, offset: np.ndarray, labels: np.ndarray) -> float:
    """The weight of a model's log-odds beside the offline ones, which count once; held to nothing."""
    columns = np.column_stack([said, np.ones(len(said))])
    found = np.zeros(2)
    for _ in range(_STEPS):
        p = 1 / (1 + np.exp(-(offset + columns @ found)))
        slope = columns.T @ (labels - p) - _HELD * found
        curve = (columns * (p * (1 - p))[:, None]).T @ columns + _HELD * np.eye(2)
        found = found + np.linalg.solve(curve, slope)
    return float(found[0])


def together(sample: Sample, offline: Scores, model: Scores) -> Scores:
    """Offline's probability moved by the model's, for each record by as much as answers to other questions say.

    The model's log-odds are taken from their mean over those answers, so that parts with other means can be compared.
    """
    found: dict[str, float] = {}
    for fold in range(FOLDS):
        parts: tuple[list[str], list[str]] = ([], [])
        for place, group in enumerate(sample.questions):
            parts[place % FOLDS == fold].extend(name for name in group if name in offline and name in model)
        if not all(parts):
            continue
        (before, said), (their_before, theirs) = ((_odds(offline, names), _odds(model, names)) for names in parts)
        labels = np.array([sample.labels[name] for name in parts[0]])
        weight = fitted(said - said.mean(), before, labels)
        odds = their_before + weight * (theirs - said.mean())
        found |= dict(zip(parts[1], (1 / (1 + np.exp(-odds))).tolist(), strict=True))
    return found


def _odds(scores: Scores, names: Sequence[str]) -> np.ndarray:
    return np.array([log_odds(scores[name]) for name in names])


def cascade(offline: Scores, both: Scores, low: float, high: float) -> tuple[Scores, float]:
    """Scores where the model is asked between two thresholds only, and the share of records that it is asked about."""
    common = [name for name in both if name in offline]
    open_ones = {name for name in common if low < offline[name] < high}
    scores = {name: both[name] if name in open_ones else offline[name] for name in common}
    return scores, len(open_ones) / len(common) if common else 0.0


def said(row: Row) -> float:
    """Probability that the statement is right, by the verdict and the confidence in words."""
    return float(row["said"] if Verdict(row["verdict"]).affirms else 1 - row["said"])


def report(items: Items, rows: Sequence[Row], offline: Scores, *, is_unseen: bool) -> None:
    """Print what was asked, what each score is worth, and the differences.

    Args:
        items: Labelled statements.
        rows: Replies.
        offline: p_offline by record.
        is_unseen: Whether it comes from models that have not seen the records.
    """
    sample = sampled(items, rows)
    right = sum(sample.labels.values())
    print(f"{len(sample.labels)} records ({right} right) of {len(sample.questions)} questions\n")
    _asking(rows)
    arms: dict[str, Scores] = {}
    for arm in dict.fromkeys(row["arm"] for row in rows):
        answered = [row for row in rows if row["arm"] == arm and row["id"] in sample.labels]
        arms[arm] = {row["id"]: row["p"] for row in answered if row.get("p") is not None}
        in_words = {row["id"]: said(row) for row in answered if "said" in row}
        if in_words:
            arms[f"{arm}, confidence in words"] = in_words
    seen = "" if is_unseen else " (in sample)"
    offline = {name: offline[name] for name in sample.labels if name in offline}
    both = {arm: together(sample, offline, scores) for arm, scores in arms.items() if "words" not in arm}
    print("\n| score | records | pairs | auroc | pairwise |\n| --- | --- | --- | --- | --- |")
    _line(f"offline{seen}", sample.shown(offline))
    for arm, scores in arms.items():
        _line(arm, sample.shown(scores))
    for arm, scores in both.items():
        _line(f"offline and {arm}", sample.shown(scores))
    main = next(iter(both), None)
    if main is None:
        return
    print("\n| difference | records | pairs | auroc | pairwise |\n| --- | --- | --- | --- | --- |")
    for arm, scores in both.items():
        _line(f"offline and {arm}, less offline", sample.difference(scores, offline))
    for low, high in _OPEN:
        scores, share = cascade(offline, both[main], low, high)
        name = f"cascade {low:g} to {high:g} ({100 * share:.0f} % asked)"
        _line(f"{name}, less offline", sample.difference(scores, offline))
        _line(f"{name}, less asking about all", sample.difference(scores, both[main]))
    for arm in list(arms)[1:]:
        _line(f"{arm}, less {main}", sample.difference(arms[arm], arms[main]))
    _line(f"{main}, less offline", sample.difference(arms[main], offline))


def _line(name: str, cells: str) -> None:
    print(f"| {name} | {cells} |")


def _asking(rows: Sequence[Row]) -> None:
    """What the calls took, and how the replies ended."""
    print("| arm | asked | no verdict | repaired | affirmed | seconds | tokens in | tokens out |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for arm in dict.fromkeys(row["arm"] for row in rows):
        mine = [row for row in rows if row["arm"] == arm]
        good = [row for row in mine if "failure" not in row]
        failed = Counter(row["failure"] for row in mine if "failure" in row)
        again = sum(row.get("attempts", 1) > 1 for row in good)
        affirming = sum(Verdict(row["verdict"]).affirms if "verdict" in row else row["p"] >= 0.5 for row in good)
        middle = [median(row[name] or 0 for row in good) if good else 0 for name in _TAKEN]
        reasons = ", ".join(f"{count} {name}" for name, count in failed.items()) or "0"
        cells = (arm, len(mine), reasons, again, affirming, *(f"{value:.4g}" for value in middle))
        print(f"| {' | '.join(map(str, cells))} |")


_TAKEN = ("seconds", "input_tokens", "output_tokens")
