"""Fit the offline model's weights to labelled statements, held to the shipped ones.

    python benchmarks/fit_weights.py LABELLED [--by group|db] [--hold N] [--texts-only]

LABELLED: JSON lines (also .gz) with question, evidence, sql, dialect, label, source, db, group.

A logistic model over the features of the evidence, as log-odds for one unit of each. The shipped weights are the
prior: a feature that these data hardly show keeps its weight, one that they show often moves to what they say
(`--hold` is how many statements a shipped weight counts as). The intercept is not fitted: how often an agent is right
is the agent's matter. Printed: figures of the shipped and of the fitted weights on folds that the fit has not seen, and
every weight with its support.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Iterable, Sequence

import numpy as np
from evidence_signals import FOLDS, Items, features, folds, read

from stef import data

_STEPS = 400


def fit(matrix: np.ndarray, labels: np.ndarray, prior: np.ndarray, hold: float) -> np.ndarray:
    """Weights of most posterior probability: a normal prior around the shipped ones, an intercept of its own."""
    support = np.count_nonzero(matrix, axis=0)
    pull = hold / np.maximum(support, 1.0)
    weights, intercept = prior.copy(), 0.0
    scale = 4.0 / np.maximum((matrix**2).mean(axis=0) + pull, 1e-6)
    for _ in range(_STEPS):
        error = labels - 1 / (1 + np.exp(-(matrix @ weights + intercept)))
        gradient = matrix.T @ error / len(labels) - pull * (support / len(labels)) * (weights - prior)
        weights = np.minimum(weights + 0.3 * scale * gradient, 0.0)
        intercept += 2.0 * error.mean()
    return weights


def auroc(labels: Sequence[int], scores: Sequence[float]) -> float | None:
    """Chance that a right statement scores above a wrong one; ties count half."""
    order = np.argsort(scores, kind="stable")
    ordered = np.asarray(scores)[order]
    ranks = np.empty(len(order))
    _, starts, counts = np.unique(ordered, return_index=True, return_counts=True)
    for start, count in zip(starts, counts, strict=True):
        ranks[order[start : start + count]] = start + (count + 1) / 2
    positive = np.asarray(labels) == 1
    right, wrong = positive.sum(), (~positive).sum()
    if not right or not wrong:
        return None
    return float((ranks[positive].sum() - right * (right + 1) / 2) / (right * wrong))


def pairwise(items: Items, scores: Iterable[float]) -> float:
    """The same within one question, over all pairs."""
    groups: dict[tuple[str, str], list[tuple[int, float]]] = defaultdict(list)
    for item, score in zip(items, scores, strict=True):
        groups[item["source"], item["question"]].append((item["label"], score))
    wins = pairs = 0.0
    for group in groups.values():
        right = [score for label, score in group if label]
        wrong = [score for label, score in group if not label]
        pairs += len(right) * len(wrong)
        wins += sum((a > b) + 0.5 * (a == b) for a in right for b in wrong)
    return wins / pairs


def macro(items: Items, labels: np.ndarray, scores: np.ndarray) -> float:
    """Mean over the sources."""
    found = []
    for source in sorted({item["source"] for item in items}):
        here = np.array([item["source"] == source for item in items])
        value = auroc(labels[here].tolist(), scores[here].tolist())
        if value is not None:
            found.append(value)
    return float(np.mean(found))


def report(name: str, items: Items, labels: np.ndarray, scores: np.ndarray) -> None:
    """One line of figures."""
    overall = auroc(labels.tolist(), scores.tolist())
    figures = f"auroc {overall:.3f}  macro {macro(items, labels, scores):.3f}  pairwise {pairwise(items, scores):.3f}"
    print(f"{name:28} {figures}")


def main() -> None:
    """Print figures and weights."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("labelled")
    parser.add_argument("--by", choices=("group", "db"), default="db")
    parser.add_argument("--hold", type=float, default=40.0)
    parser.add_argument("--texts-only", action="store_true", help="Without what the log shows.")
    given = parser.parse_args()
    items, rows = features(read(given.labelled), texts_only=given.texts_only)
    terms = data.weights().terms
    names = list(terms)
    matrix = np.array([[row.get(name, 0.0) for name in names] for row in rows])
    labels = np.array([item["label"] for item in items])
    prior = np.array([terms[name] for name in names])
    report("shipped", items, labels, matrix @ prior)
    parts, scores = folds(items, given.by), np.zeros(len(items))
    for part in range(FOLDS):
        seen = parts != part
        scores[~seen] = matrix[~seen] @ fit(matrix[seen], labels[seen], prior, given.hold)
    report(f"fitted, unseen {given.by}", items, labels, scores)
    fitted = fit(matrix, labels, prior, given.hold)
    print(f"\n{'feature':20} {'support':>8} {'wrong':>7} {'shipped':>8} {'fitted':>8}")
    for j, name in enumerate(names):
        shown = matrix[:, j] != 0
        wrong = 1 - labels[shown].mean() if shown.any() else float("nan")
        print(f"{name:20} {int(shown.sum()):8} {wrong:7.2f} {prior[j]:8.2f} {fitted[j]:8.2f}")


if __name__ == "__main__":
    main()
