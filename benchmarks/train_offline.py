"""Train the offline model on labelled statements, measure it on parts that it has not seen, and write it.

    pip install lightgbm
    python benchmarks/train_offline.py LABELLED [--by group|db] [--seeds N] [--write FOLDER]

LABELLED: JSON lines (also .gz) with question, evidence, sql, dialect, label, source, db, group.

Two models are made: one that knows the texts alone, for a log that is new, and one that also knows what the log has
shown. Each is the plain weights of `weights.yaml`, scaled down, and boosted trees over all numbers of the evidence.
The trees are trained on two aims at once: each statement's own label, and which of a right and a wrong answer to the
same question is which, so that how hard a question is does not hide what is wrong with an answer. A signal that speaks
against a statement can only lower the result. Numbers that help little are left out, chosen inside each part.

Printed: figures out of fold (`--by db`: whole databases unseen, `--by group`: whole questions with their paraphrases),
with 95 % intervals that resample questions. The slope and intercept that make the probabilities true are fitted out
of fold on whole databases.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lightgbm
import numpy as np
from evidence_signals import FOLDS, Items, features, folds, read
from fit_weights import auroc, macro, pairwise

from stef import data

# How much of the plain weights each model starts from. Less would rank these statements a little better; more keeps a
# plain fault plain in a domain that looks like none of them.
LINEAR = {"texts": 1.0, "log": 0.6}
_MOST = {"texts": 80, "log": 120}
# A benchmark counts every further column as an error, an analyst does not: the trees of the texts do not look at these.
_BENCHMARKS_OWN = frozenset({
    "columns_beyond", "columns_more", "figures_sorted_by", "outputs_compound", "outputs_over_asked",
    "outputs_over_listed", "outputs_sorted_by", "sort_shown",
})  # fmt: skip
# Fewer trees for the texts alone: they carry less far into another domain than what a log has shown.
_ROUNDS = {"texts": 110, "log": 220}
_TREES = {
    "learning_rate": 0.05,
    "num_leaves": 12,
    "min_data_in_leaf": 20,
    "feature_fraction": 0.2,
    "bagging_fraction": 0.8,
    "bagging_freq": 1,
    "lambda_l2": 5.0,
    "max_depth": 6,
    "num_threads": 1,
    "deterministic": True,
    "force_col_wise": True,
    "verbose": -1,
}
_RESAMPLED = 100
Score = np.ndarray


@dataclass(frozen=True, slots=True)
class Table:
    """All that the training looks at.

    Attributes:
        items: The labelled statements.
        matrix: A row of numbers for each; NaN where there is none.
        names: Of the columns.
        labels: 1 for right.
        linear: Log-odds of the plain weights, scaled.
        questions: Number of its question, for each.
        scale: By which they were.
        rounds: How many trees are grown on it.
    """

    items: Items
    matrix: np.ndarray
    names: list[str]
    labels: np.ndarray
    linear: np.ndarray
    questions: np.ndarray
    scale: float
    rounds: int


def table(items: Items, rows: Sequence[Mapping[str, float]], model: str) -> Table:
    """Put rows of evidence into a matrix, for the model of the texts or that of the log."""
    terms = data.weights().terms
    known = {name for row in rows for name in row}
    if model == "texts":
        known = {name for name in known - _BENCHMARKS_OWN if not name.startswith("log_")}
    names = sorted(known)
    always = {name for name in names if name in terms and not name.startswith("log_")}
    matrix = np.array([[row.get(name, 0.0 if name in always else np.nan) for name in names] for row in rows])
    used = [name for name in terms if model == "log" or not name.startswith("log_")]
    linear = np.array([LINEAR[model] * sum(terms[name] * row.get(name, 0.0) for name in used) for row in rows])
    numbers: dict[tuple[str, str], int] = {}
    questions = np.array([numbers.setdefault((item["source"], item["question"]), len(numbers)) for item in items])
    labels = np.array([item["label"] for item in items])
    return Table(items, matrix, names, labels, linear, questions, LINEAR[model], _ROUNDS[model])


def aims(labels: np.ndarray, questions: np.ndarray) -> Callable[[Score, Any], tuple[Score, Score]]:
    """Gradient and curvature of both aims together; in each question every statement counts alike."""
    members: dict[int, list[int]] = defaultdict(list)
    for place, question in enumerate(questions):
        members[question].append(place)
    right, wrong, weight = [], [], []
    for places in members.values():
        good, bad = [p for p in places if labels[p]], [p for p in places if not labels[p]]
        if not bad:
            continue
        for one in good:
            right += [one] * len(bad)
            wrong += bad
            weight += [len(places) / (len(good) * len(bad))] * len(bad)
    better, worse, share = np.array(right), np.array(wrong), np.array(weight)
    size = len(labels)

    def both(scores: Score, _: Any) -> tuple[Score, Score]:  # noqa: ANN401 - LightGBM's data set
        p = 1 / (1 + np.exp(-scores))
        miss = 1 / (1 + np.exp(scores[better] - scores[worse]))
        push, bend = share * miss, share * miss * (1 - miss)
        gradient = p - labels - np.bincount(better, push, size) + np.bincount(worse, push, size)
        curvature = p * (1 - p) + np.bincount(better, bend, size) + np.bincount(worse, bend, size)
        return gradient, curvature

    return both


def start(table: Table, rows: np.ndarray) -> float:
    """Intercept that makes the plain weights right on average."""
    intercept = 0.0
    for _ in range(60):
        intercept += 3 * float((table.labels[rows] - 1 / (1 + np.exp(-(table.linear[rows] + intercept)))).mean())
    return intercept


def grown(table: Table, rows: np.ndarray, columns: Sequence[int], seed: int) -> lightgbm.Booster:
    """Trees over some columns, trained on some rows."""
    terms = data.weights().terms
    falling = [-1 if table.names[column] in terms else 0 for column in columns]
    first = table.linear[rows] + start(table, rows)
    given = lightgbm.Dataset(
        table.matrix[np.ix_(rows, columns)],
        table.labels[rows],
        init_score=first,
        feature_name=[table.names[column] for column in columns],
    )
    objective = aims(table.labels[rows], table.questions[rows])
    settings = {**_TREES, "objective": objective, "seed": seed, "monotone_constraints": falling}
    return lightgbm.train(settings, given, table.rounds)


def chosen(table: Table, rows: np.ndarray, most: int) -> list[int]:
    """The columns that help most on these rows."""
    columns = list(range(len(table.names)))
    gains = sum(grown(table, rows, columns, seed).feature_importance("gain") for seed in (90, 91))
    return sorted(np.argsort(-gains, kind="stable")[:most].tolist())


def scores_of(table: Table, models: Sequence[lightgbm.Booster], rows: np.ndarray, columns: Sequence[int]) -> Score:
    """Log-odds of the trees alone."""
    matrix = table.matrix[np.ix_(rows, columns)]
    return np.mean([model.predict(matrix, raw_score=True) for model in models], axis=0)


def unseen(table: Table, parts: np.ndarray, most: int, seeds: int) -> Score:
    """Log-odds of each statement by a model that has not seen its part."""
    found = np.zeros(len(table.labels))
    for part in range(FOLDS):
        seen, rest = np.flatnonzero(parts != part), np.flatnonzero(parts == part)
        columns = chosen(table, seen, most)
        models = [grown(table, seen, columns, seed) for seed in range(seeds)]
        found[rest] = scores_of(table, models, rest, columns) + table.linear[rest] + start(table, seen)
    return found


def platt(scores: Score, labels: np.ndarray) -> tuple[float, float]:
    """Slope and intercept that make log-odds true on these labels (Platt 1999)."""
    right = int(labels.sum())
    target = np.where(labels == 1, (right + 1) / (right + 2), 1 / (len(labels) - right + 2))
    slope, intercept = 1.0, 0.0
    for _ in range(100):
        p = 1 / (1 + np.exp(-(slope * scores + intercept)))
        error, bend = p - target, p * (1 - p)
        gradient = np.array([(error * scores).sum(), error.sum()])
        second = np.array([[(bend * scores**2).sum(), (bend * scores).sum()], [(bend * scores).sum(), bend.sum()]])
        step = np.clip(np.linalg.solve(second + 1e-6 * np.eye(2), gradient), -0.2, 0.2)
        slope, intercept = slope - step[0], intercept - step[1]
    return float(slope), float(intercept)


def calibrated(scores: Score, labels: np.ndarray, parts: np.ndarray) -> Score:
    """Probabilities, each part's slope and intercept fitted on the others."""
    found = np.zeros(len(scores))
    for part in range(FOLDS):
        slope, intercept = platt(scores[parts != part], labels[parts != part])
        found[parts == part] = 1 / (1 + np.exp(-(slope * scores[parts == part] + intercept)))
    return found


def ece(p: Score, labels: np.ndarray) -> float:
    """Expected calibration error, ten bins of equal width."""
    bins = np.minimum((p * 10).astype(int), 9)
    return float(sum(abs(p[bins == b].sum() - labels[bins == b].sum()) for b in range(10)) / len(p))


def figures(items: Items, labels: np.ndarray, scores: Score) -> dict[str, float]:
    """The headline figures."""
    spider = [place for place, item in enumerate(items) if item["source"] == "spider-dev"]
    return {
        "pairwise": pairwise(items, scores),
        "macro": macro(items, labels, scores),
        "auroc": auroc(labels.tolist(), scores.tolist()) or 0.0,
        "spider": auroc(labels[spider].tolist(), scores[spider].tolist()) or 0.0,
    }


def report(name: str, table: Table, scores: Score, parts: np.ndarray) -> None:
    """One line of figures with intervals, and one without questions that nobody answered."""
    error = ece(calibrated(scores, table.labels, parts), table.labels)
    line = _line(figures(table.items, table.labels, scores), _intervals(table, scores))
    print(f"{name:14} {line}  ece {error:.3f}")
    kept = [place for place, item in enumerate(table.items) if item.get("solve_rate") != 0]
    items = [table.items[place] for place in kept]
    print(f"{'  solvable':14} {_line(figures(items, table.labels[kept], scores[kept]), {})}", flush=True)


def _line(found: Mapping[str, float], spread: Mapping[str, tuple[float, float]]) -> str:
    shown = []
    for name, value in found.items():
        low, high = spread.get(name, (value, value))
        shown.append(f"{name} {value:.3f}" + (f" [{low:.3f}, {high:.3f}]" if low != high else ""))
    return "  ".join(shown)


def _intervals(table: Table, scores: Score) -> dict[str, tuple[float, float]]:
    """95 % intervals; whole questions are resampled."""
    random = np.random.default_rng(7)
    members: dict[int, list[int]] = defaultdict(list)
    for place, question in enumerate(table.questions):
        members[question].append(place)
    found: dict[str, list[float]] = defaultdict(list)
    for _ in range(_RESAMPLED):
        drawn = random.choice(len(members), len(members))
        places = [place for question in drawn for place in members[question]]
        # A question that is drawn twice gives its pairs twice, but no pairs between its copies.
        copies = [number for number, question in enumerate(drawn) for _ in members[question]]
        items = [{**table.items[p_], "question": str(copy)} for p_, copy in zip(places, copies, strict=True)]
        for name, value in figures(items, table.labels[places], scores[places]).items():
            found[name].append(value)
    return {name: (float(np.quantile(v, 0.025)), float(np.quantile(v, 0.975))) for name, v in found.items()}


def plain(models: Sequence[lightgbm.Booster]) -> list[list[list[float]]]:
    """Trees as lists of nodes, their values shared among the models."""
    found = [tree for model in models for tree in model.dump_model()["tree_info"]]
    return [_nodes(tree["tree_structure"], len(models)) for tree in found]


def _nodes(root: dict[str, Any], share: int) -> list[list[float]]:
    rows: list[list[float]] = []

    def add(node: dict[str, Any]) -> int:
        place = len(rows)
        value = round(node.get("internal_value", node.get("leaf_value", 0.0)) / share, 5)
        rows.append([value])
        if "split_feature" in node:
            bound = round(node["threshold"], 5)
            left, right = add(node["left_child"]), add(node["right_child"])
            goes_left = node["default_left"] if node["missing_type"] == "NaN" else bound >= 0
            rows[place] = [value, node["split_feature"], bound, left, right, left if goes_left else right]
        return place

    add(root)
    return rows


def write(path: Path, table: Table, columns: Sequence[int], seeds: int, calibration: tuple[float, float]) -> None:
    """Train on everything and write a forest."""
    rows = np.arange(len(table.labels))
    models = [grown(table, rows, columns, seed) for seed in range(seeds)]
    slope, shift = calibration
    names = [table.names[column] for column in columns]
    head = {
        "features": names,
        "linear": table.scale,
        "slope": round(slope, 4),
        "intercept": round(slope * start(table, rows) + shift, 4),
    }
    lines = ",\n".join(json.dumps(tree, separators=(",", ":")) for tree in plain(models))
    text = json.dumps(head, indent=1)[:-2] + f',\n "trees": [\n{lines}\n]}}\n'
    path.write_text(text)
    print(f"{path}: {len(models) * table.rounds} trees, {len(text) // 1024} KB")


def main() -> None:
    """Print figures; write the forests if asked to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("labelled")
    parser.add_argument("--by", choices=("group", "db"), action="append")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--write", type=Path)
    given = parser.parse_args()
    items, rows = features(read(given.labelled), texts_only=False)
    for name, most in _MOST.items():
        made = table(items, rows, name)
        for by in given.by or ["db"]:
            parts = folds(items, by)
            scores = unseen(made, parts, most, given.seeds)
            report(f"{name}, {by}", made, scores, parts)
            if given.write and by == "db":
                everything = np.arange(len(made.labels))
                columns = chosen(made, everything, most)
                write(given.write / f"forest.{name}.json", made, columns, given.seeds, platt(scores, made.labels))


if __name__ == "__main__":
    main()
