"""What a cascade saves and loses: the offline judge first, a model only where it is unsure.

    python benchmarks/out_of_fold.py LABELLED FOLDER --by db --seeds 1
    python benchmarks/cascade.py LABELLED FOLDER/texts.db.jsonl FOLDER/log.db.jsonl [--draws N] [--added]
        [--bounds LOW HIGH]

LABELLED: JSON lines (also .gz) with question, label, source, db. The other files: results of `out_of_fold.py`, whose
p_correct is the offline probability by a model that has not seen the statement.

A record goes to the model when low < p_offline < high. The model is simulated: perfect, or right in a share of the
right and of the wrong statements alike (its balanced accuracy), as sure as it is right, its mistakes independent of
everything else, which is kinder than a real model. Its verdict and p_offline become one probability as in the product
(`stef.score.combined`), or with `--added` by adding log-odds, which does not shrink what was sent. Each figure is the
mean of the draws, with the interval that holds 95 % of them.

Printed for each file: how many records a band of probabilities holds and how many of them are right; the curve over
bands around 0.5, over bands around the median rank (the 10 %, 20 % … of records in the middle), and a table over low
and high. `saved` is the share of records not sent; `auroc` and `pairwise` are those of the final probability, `lost`
is what they lack against sending all, `chance` what they are when as many records are sent that were picked by lot;
`right` is the share of records whose final probability is on the right side of 0.5, and the same by lot. The knee is
the band that stands highest above the straight line from no call to all calls.
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
    right: Numbers

    def means(self) -> tuple[float, ...]:
        """The mean of each."""
        return tuple(float(values.mean()) for values in (self.auroc, self.pairwise, self.right))


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


def replied(log: Log, accuracy: float, draws: int, *, added: bool = False) -> list[Numbers]:
    """For each draw the final probability of every record, had it been sent."""
    random = np.random.default_rng(_SEED)
    both = _added if added else combined
    said = {says: np.array([both(p, _judgement(says, accuracy)) for p in log.p]) for says in (False, True)}
    count = 1 if accuracy == PERFECT else draws
    agrees = (random.random(len(log.p)) < accuracy for _ in range(count))
    return [np.where(agree == (log.labels == 1), said[True], said[False]) for agree in agrees]


def _added(p: float, judgement: Judgement) -> float:
    """Log-odds added instead of averaged: right for a model whose mistakes are its own and that is as sure as right."""
    said = judgement.confidence if judgement.verdict.affirms else 1 - judgement.confidence
    p, said = (min(max(one, 0.001), 0.999) for one in (p, said))
    odds = p / (1 - p) * said / (1 - said)
    return odds / (1 + odds)


def _judgement(says: bool, accuracy: float) -> Judgement:
    verdict = Verdict.CORRECT if says else Verdict.INCORRECT
    return Judgement(kind=JudgeKind.LLM, verdict=verdict, confidence=accuracy)


def figures(log: Log, replies: Sequence[Numbers], sent: Numbers) -> Figures:
    """Figures of the final probabilities in each draw."""
    final = [np.where(sent, reply, log.p) for reply in replies]
    return Figures(
        auroc=np.array([auroc(log.labels.tolist(), scores) for scores in final]),
        pairwise=np.array([_pairwise(log, scores) for scores in final]),
        right=np.array([np.mean((scores >= 0.5) == (log.labels == 1)) for scores in final]),
    )


def by_lot(sent: Numbers) -> Numbers:
    """As many records, picked by lot."""
    return np.random.default_rng(_SEED).permutation(sent)


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
    """Lines of a table for each model: one for each band, between no call and all calls."""
    points = [NOBODY, *bands, ALL]
    sent = [band.sent(log.p) for band in points]
    shares = [float(np.mean(some)) for some in sent]
    for accuracy in ACCURACIES:
        found = [figures(log, replies[accuracy], some) for some in sent]
        chance = [figures(log, replies[accuracy], by_lot(some)).means() for some in sent]
        heads = "".join(f"{name:22}{'lost':>6} {'chance':>7}   " for name in ("auroc", "pairwise"))
        yield f"{_name(accuracy):20} {heads}right by lot"
        for band, share, one, lot in zip(points, shares, found, chance, strict=True):
            yield _line(band, share, one, found[-1], lot)
        yield from _knees(points, shares, found)


def _line(band: Band, share: float, found: Figures, everything: Figures, lot: Sequence[float]) -> str:
    shown = f"{max(band.low, 0):6.3f} {min(band.high, 1):6.3f} {1 - share:5.0%} "
    for values, all_, chance in (
        (found.auroc, everything.auroc, lot[0]),
        (found.pairwise, everything.pairwise, lot[1]),
    ):
        shown += f" {_interval(values):22}{all_.mean() - values.mean():6.3f} {chance:7.3f}  "
    return f"{shown} {found.right.mean():.3f} {lot[2]:.3f}"


def _knees(points: Sequence[Band], shares: Sequence[float], found: Sequence[Figures]) -> Iterator[str]:
    means = [one.means() for one in found]
    for which, name in enumerate(("auroc", "pairwise", "right")):
        at = knee(shares, [mean[which] - means[0][which] for mean in means])
        low, high = max(points[at].low, 0), min(points[at].high, 1)
        yield f"  knee of {name}: {low:.3f} to {high:.3f}, {1 - shares[at]:.0%} saved"


def _name(accuracy: float) -> str:
    return "perfect model" if accuracy == PERFECT else f"accuracy {accuracy}"


def _interval(values: Numbers) -> str:
    low, high = np.quantile(values, (0.025, 0.975))
    return f"{values.mean():.3f}" + (f" [{low:.3f}, {high:.3f}]" if len(values) > 1 else "")


def table(log: Log, replies: Sequence[Numbers]) -> Iterator[str]:
    """Share saved, auroc and pairwise over low and high."""
    yield f"{'low, high':>9}" + "".join(f"{high:^18}" for high in _HIGHS)
    for low in _LOWS:
        bands = [Band(low or -1.0, high if high < 1 else 2.0) for high in _HIGHS]
        sent = [band.sent(log.p) for band in bands]
        found = [(1 - some.mean(), figures(log, replies, some)) for some in sent]
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
    parser.add_argument("--added", action="store_true", help="Add log-odds instead of averaging them.")
    parser.add_argument("--bounds", type=float, nargs=2, metavar=("LOW", "HIGH"), help="Print this band alone.")
    given = parser.parse_args()
    labelled = read(given.labelled)
    for path in given.results:
        log = logged(labelled, path)
        replies = {accuracy: replied(log, accuracy, given.draws, added=given.added) for accuracy in ACCURACIES}
        print(f"\n{path.name}: {len(log.p)} records, {len(log.better)} pairs")
        if given.bounds:
            print("\n".join(curve(log, replies, [Band(*given.bounds)])))
            continue
        print("\n".join(spread(log)))
        print("\naround 0.5", *curve(log, replies, around_half()), sep="\n")
        print("\naround the median rank", *curve(log, replies, around_median(log.p)), sep="\n")
        for accuracy in ACCURACIES:
            print(f"\n{_name(accuracy)}: saved, auroc, pairwise over low and high")
            print("\n".join(table(log, replies[accuracy])))


if __name__ == "__main__":
    main()
