"""What a cascade saves and loses: the offline judge first, a model only where it is unsure.

    python benchmarks/out_of_fold.py LABELLED FOLDER --by db --seeds 1
    python benchmarks/cascade.py LABELLED FOLDER/texts.db.jsonl FOLDER/log.db.jsonl [--draws N] [--bounds LOW HIGH]

LABELLED: JSON lines (also .gz) with question, label, source, db. The other files: results of `out_of_fold.py`, whose
p_correct is the offline probability by a model that has not seen the statement.

A record goes to the model when low < p_offline < high. The model is simulated: perfect, or right in a share of the
right and of the wrong statements alike (its balanced accuracy), as sure as it is right, its mistakes independent of
everything else, which is kinder than a real model. Its verdict and p_offline become one probability as in the product
(`stef.score.combined`). Each figure is the mean of the draws with the interval that holds 95 % of them.

Printed for each file: how many records a band of probabilities holds and how many of them are right; the curve over
bands around 0.5, over bands around the median rank (the 10 %, 20 % … of records in the middle), and a table over low
and high. `saved` is the share of records not sent; `auroc` and `pairwise` are those of the final probability, and
what is lost against sending all. The knee is the band whose gain stands highest above the straight line from no call
to all calls.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from evidence_signals import pairs_of, read
from fit_weights import auroc

from stef.result import JudgeKind, Judgement, Verdict
from stef.score import combined

PERFECT = 1.0
ACCURACIES = (PERFECT, 0.77, 0.72)
_HALF_WIDTHS = (0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4)
_SHARES = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
_LOWS, _HIGHS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5), (0.5, 0.55, 0.6, 0.65, 0.7, 0.8, 1.0)
_SEED = 7
Numbers = np.ndarray


@dataclass(frozen=True, slots=True)
class Log:
    """Scored statements.

    Attributes:
        p: Offline probability of each.
        labels: 1 for right.
        better, worse: Places of a right and a wrong answer to one question.
    """

    p: Numbers
    labels: Numbers
    better: Numbers
    worse: Numbers


@dataclass(frozen=True, slots=True)
class Figures:
    """Values of the draws."""

    auroc: Numbers
    pairwise: Numbers


@dataclass(frozen=True, slots=True)
class Band:
    """Bounds between which a record goes to the model."""

    low: float
    high: float

    def sent(self, p: Numbers) -> Numbers:
        """Whether each record goes to the model."""
        return (p > self.low) & (p < self.high)


NOBODY, ALL = Band(0.5, 0.5), Band(-1.0, 2.0)


def logged(labelled: Sequence[Mapping[str, object]], path: Path) -> Log:
    """The records that have a result in the file."""
    results = {row["event_id"]: row for row in map(json.loads, path.read_text().splitlines())}
    items = [dict(item) for item in labelled if results.get(item["id"], {}).get("outcome") == "scored"]
    better, worse = zip(*pairs_of(items), strict=True)
    return Log(
        p=np.array([results[item["id"]]["p_correct"] for item in items]),
        labels=np.array([item["label"] for item in items]),
        better=np.array(better),
        worse=np.array(worse),
    )


def replied(log: Log, accuracy: float, draws: int) -> list[Numbers]:
    """For each draw the final probability of every record, had it been sent."""
    random = np.random.default_rng(_SEED)
    said = {
        says: np.array([combined(p, _judgement(says, accuracy)) for p in log.p]) for says in (False, True)
    }  # fmt: skip
    count = 1 if accuracy == PERFECT else draws
    agrees = (random.random(len(log.p)) < accuracy for _ in range(count))
    return [np.where(agree == (log.labels == 1), said[True], said[False]) for agree in agrees]


def _judgement(says: bool, accuracy: float) -> Judgement:  # noqa: FBT001 - one of two verdicts
    verdict = Verdict.CORRECT if says else Verdict.INCORRECT
    return Judgement(kind=JudgeKind.LLM, verdict=verdict, confidence=accuracy)


def figures(log: Log, replies: Sequence[Numbers], band: Band) -> Figures:
    """Figures of the final probabilities in each draw."""
    sent = band.sent(log.p)
    final = [np.where(sent, reply, log.p) for reply in replies]
    return Figures(
        auroc=np.array([auroc(log.labels.tolist(), scores) for scores in final]),
        pairwise=np.array([_pairwise(log, scores) for scores in final]),
    )


def _pairwise(log: Log, scores: Numbers) -> float:
    better, worse = scores[log.better], scores[log.worse]
    return float(np.mean((better > worse) + 0.5 * (better == worse)))


def knee(shares: Sequence[float], gains: Sequence[float]) -> int:
    """Place of the point that stands highest above the line from no call to all calls (the last point)."""
    heights = [gain - gains[-1] * share / shares[-1] for share, gain in zip(shares, gains, strict=True)]
    return int(np.argmax(heights))


def around_half() -> list[Band]:
    """Bands that are symmetric in p."""
    return [Band(round(0.5 - width, 2), round(0.5 + width, 2)) for width in _HALF_WIDTHS]


def around_median(p: Numbers) -> list[Band]:
    """Bands that hold a share of the records in the middle of the ranking."""
    bounds = [(float(np.quantile(p, 0.5 - share / 2)), float(np.quantile(p, 0.5 + share / 2))) for share in _SHARES]
    return [Band(round(low, 3), round(high, 3)) for low, high in bounds]


def curve(log: Log, replies: Mapping[float, Sequence[Numbers]], bands: Sequence[Band]) -> Iterator[str]:
    """Lines of a table: one for each band, between no call and all calls."""
    points = [NOBODY, *bands, ALL]
    shares = [float(np.mean(band.sent(log.p))) for band in points]
    found = {accuracy: [figures(log, replies[accuracy], band) for band in points] for accuracy in ACCURACIES}
    yield f"{'low':>6} {'high':>6} {'saved':>6}" + "".join(f" | {_name(accuracy):^57}" for accuracy in ACCURACIES)
    yield f"{'':20}" + f" | {'auroc':^20} {'lost':>6}  {'pairwise':^20} {'lost':>6}" * len(ACCURACIES)
    for place, (band, share) in enumerate(zip(points, shares, strict=True)):
        cells = "".join(f" | {_cell(found[accuracy][place], found[accuracy][-1])}" for accuracy in ACCURACIES)
        yield f"{max(band.low, 0):6.3f} {min(band.high, 1):6.3f} {1 - share:6.0%}{cells}"
    for accuracy in ACCURACIES:
        means = [(float(one.auroc.mean()), float(one.pairwise.mean())) for one in found[accuracy]]
        chosen = [knee(shares, [mean[which] - means[0][which] for mean in means]) for which in (0, 1)]
        shown = ", ".join(
            f"{name} {max(points[at].low, 0):.3f} to {min(points[at].high, 1):.3f}, {1 - shares[at]:.0%} saved"
            for name, at in zip(("auroc", "pairwise"), chosen, strict=True)
        )
        yield f"knee, {_name(accuracy)}: {shown}"


def _name(accuracy: float) -> str:
    return "perfect model" if accuracy == PERFECT else f"balanced accuracy {accuracy}"


def _cell(found: Figures, everything: Figures) -> str:
    both = ((found.auroc, everything.auroc), (found.pairwise, everything.pairwise))
    return "  ".join(f"{_interval(values):20} {all_.mean() - values.mean():6.3f}" for values, all_ in both)


def _interval(values: Numbers) -> str:
    low, high = np.quantile(values, (0.025, 0.975))
    return f"{values.mean():.3f}" + (f" [{low:.3f}, {high:.3f}]" if len(values) > 1 else "")


def table(log: Log, replies: Sequence[Numbers]) -> Iterator[str]:
    """Share saved, auroc and pairwise over low and high."""
    yield f"{'low, high':>9}" + "".join(f"{high:^18}" for high in _HIGHS)
    for low in _LOWS:
        bands = [Band(low if low else -1.0, high if high < 1 else 2.0) for high in _HIGHS]
        found = [(1 - band.sent(log.p).mean(), figures(log, replies, band)) for band in bands]
        cells = (f"{share:4.0%} {one.auroc.mean():.3f} {one.pairwise.mean():.3f}" for share, one in found)
        yield f"{low:9.2f}" + "".join(f"{cell:^18}" for cell in cells)


def spread(log: Log) -> Iterator[str]:
    """How many records have which probability, and how many of them are right."""
    for low in np.arange(0, 1, 0.1):
        here = (log.p >= low) & (log.p < low + 0.1)
        right = f"{log.labels[here].mean():.2f} right" if here.any() else ""
        yield f"p {low:.1f} to {low + 0.1:.1f}: {here.mean():5.1%} of records  {right}"


def main() -> None:
    """Print the curves."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("labelled")
    parser.add_argument("results", type=Path, nargs="+")
    parser.add_argument("--draws", type=int, default=20)
    parser.add_argument("--bounds", type=float, nargs=2, metavar=("LOW", "HIGH"), help="Print this band alone.")
    given = parser.parse_args()
    labelled = read(given.labelled)
    for path in given.results:
        log = logged(labelled, path)
        replies = {accuracy: replied(log, accuracy, given.draws) for accuracy in ACCURACIES}
        print(f"\n{path.name}: {len(log.p)} records, {len(log.better)} pairs")
        if given.bounds:
            print("\n".join(curve(log, replies, [Band(*given.bounds)])))
            continue
        print("\n".join(spread(log)))
        print("\naround 0.5", *curve(log, replies, around_half()), sep="\n")
        print("\naround the median rank", *curve(log, replies, around_median(log.p)), sep="\n")
        for accuracy in ACCURACIES:
            print(f"\nsaved, auroc, pairwise over low and high: {_name(accuracy)}", *table(log, replies[accuracy]), sep="\n")


if __name__ == "__main__":
    main()
