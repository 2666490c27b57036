"""Train the offline model on labelled statements, measure it on parts that it has not seen, and write it.

    pip install lightgbm
    python benchmarks/train_offline.py LABELLED [--by group|db] [--seeds N] [--write FOLDER]

LABELLED: JSON lines (also .gz) with question, evidence, sql, dialect, label, source, db, group.

Two models are made: one that knows the texts alone, for a log that is new, and one that also knows what the log has
shown. Each is the plain weights of `weights.yaml`, scaled down, and boosted trees over all numbers of the evidence.
The trees have several aims at once: each statement's own label; which of a right and a wrong answer to the same
question is which, so that how hard a question is does not hide what is wrong with an answer; and that right statements
which were spoiled on purpose (`spoiled.py`) rank below what they were made from. A signal that speaks against a
statement can only lower the result. Numbers that help little are left out, chosen inside each part.

Printed: figures out of fold (`--by db`: whole databases unseen, `--by group`: whole questions with their paraphrases),
with 95 % intervals that resample questions; `plain faults` is the share of spoiled statements that rank below their
own. The slope and intercept that make the probabilities true are fitted out of fold on whole databases.
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
from evidence_signals import FOLDS, Items, catalogues, folds, knowledge, read, seen_by
from fit_weights import auroc, macro, pairwise
from spoiled import spoiled

from stef import data

# How much of the plain weights each model starts from. Less ranks these statements a little better; more keeps a plain
# fault plain in a domain that looks like none of them.
LINEAR = {"texts": 0.6, "log": 0.3}
MOST = {"texts": 150, "log": 200}
_ROUNDS = {"texts": 150, "log": 150}
# A benchmark counts every further column as an error, an analyst does not; and its questions mostly need several
# tables. The trees of the texts do not look at these.
_BENCHMARKS_OWN = frozenset({
    "columns_beyond", "columns_more", "figures_sorted_by", "links_beyond", "outputs_compound", "outputs_over_asked",
    "outputs_over_listed", "outputs_sorted_by", "sort_shown",
})  # fmt: skip
# What a spoiled statement counts for, beside one that a model wrote.
_SPOILED = 0.5
_TREES = {
    "learning_rate": 0.05,
    "num_leaves": 24,
    "min_data_in_leaf": 10,
    "feature_fraction": 0.2,
    "bagging_fraction": 0.8,
    "bagging_freq": 1,
    "lambda_l2": 5.0,
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
        spoiled: Rows of numbers of statements made wrong on purpose.
        spoiled_linear: Their log-odds by the plain weights, scaled.
        origins: For each of them the row of the right one that it was made from.
    """

    items: Items
    matrix: np.ndarray
    names: list[str]
    labels: np.ndarray
    linear: np.ndarray
    questions: np.ndarray
    scale: float
    rounds: int
    spoiled: np.ndarray
    spoiled_linear: np.ndarray
    origins: np.ndarray


Rows = Sequence[Mapping[str, float]]


def table(items: Items, rows: Rows, worse: Items, worse_rows: Rows, model: str) -> Table:
    """Put rows of evidence into matrices, for the model of the texts or that of the log."""
    weights = data.weights()
    terms = weights.terms
    names = sorted({name for row in rows for name in row})
    if model == "texts":
        names = [name for name in names if name not in _BENCHMARKS_OWN and not name.startswith("log_")]
    always = {name for name in names if name in terms and not name.startswith("log_")}
    used = [name for name in terms if model == "log" or not name.startswith("log_")]

    def matrix(some: Rows) -> np.ndarray:
        return np.array([[row.get(name, 0.0 if name in always else np.nan) for name in names] for row in some])

    plain = {name: terms[name] * (1.0 if name in weights.kept else LINEAR[model]) for name in used}

    def linear(some: Rows) -> np.ndarray:
        return np.array([sum(plain[name] * row.get(name, 0.0) for name in used) for row in some])

    numbers: dict[tuple[str, str], int] = {}
    questions = np.array([numbers.setdefault((item["source"], item["question"]), len(numbers)) for item in items])
    places = {item["id"]: place for place, item in enumerate(items)}
    kept = [n for n, item in enumerate(worse) if item["id"] in places]
    some = [worse_rows[n] for n in kept]
    return Table(
        items=items,
        matrix=matrix(rows),
        names=names,
        labels=np.array([item["label"] for item in items]),
        linear=linear(rows),
        questions=questions,
        scale=LINEAR[model],
        rounds=_ROUNDS[model],
        spoiled=matrix(some),
        spoiled_linear=linear(some),
        origins=np.array([places[worse[n]["id"]] for n in kept]),
    )


def evidence(labelled: Items) -> tuple[Items, Rows, Items, Rows]:
    """Labelled statements and spoiled ones with their numbers, the catalogue counted from the labelled ones."""
    known = knowledge(catalogues(labelled, knowledge()))
    worse = [one for item in labelled if item["label"] and (one := spoiled(item, 1)) is not None]
    return *seen_by(labelled, known), *seen_by(worse, known)


def aims(labels: np.ndarray, questions: np.ndarray, origins: np.ndarray) -> Callable[[Score, Any], tuple[Score, Score]]:
    """Gradient and curvature of the aims together; in each question every statement counts alike.

    Behind the labelled statements stand the spoiled ones, which have a rank to keep and no label.
    """
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
    count, size = len(labels), len(labels) + len(origins)
    better = np.array([*right, *origins], dtype=int)
    worse = np.array([*wrong, *range(count, size)], dtype=int)
    share = np.array([*weight, *[_SPOILED] * len(origins)])

    def both(scores: Score, _: Any) -> tuple[Score, Score]:  # noqa: ANN401 - LightGBM's data set
        p = 1 / (1 + np.exp(-scores[:count]))
        miss = 1 / (1 + np.exp(scores[better] - scores[worse]))
        push, bend = share * miss, share * miss * (1 - miss)
        gradient = np.bincount(worse, push, size) - np.bincount(better, push, size)
        curvature = np.bincount(better, bend, size) + np.bincount(worse, bend, size)
        gradient[:count] += p - labels
        curvature[:count] += p * (1 - p)
        return gradient, curvature

    return both


def start(table: Table, rows: np.ndarray) -> float:
    """Intercept that makes the plain weights right on average."""
    intercept = 0.0
    for _ in range(60):
        intercept += 3 * float((table.labels[rows] - 1 / (1 + np.exp(-(table.linear[rows] + intercept)))).mean())
    return intercept


def grown(table: Table, rows: np.ndarray, columns: Sequence[int], seed: int) -> lightgbm.Booster:
    """Trees over some columns, trained on some rows and on what was made from them."""
    terms = data.weights().terms
    falling = [-1 if table.names[column] in terms else 0 for column in columns]
    local = np.full(len(table.labels), -1)
    local[rows] = np.arange(len(rows))
    made = np.flatnonzero(local[table.origins] >= 0)
    first = np.concatenate([table.linear[rows], table.spoiled_linear[made]]) + start(table, rows)
    given = lightgbm.Dataset(
        np.vstack([table.matrix[np.ix_(rows, columns)], table.spoiled[np.ix_(made, columns)]]),
        np.concatenate([table.labels[rows], np.zeros(len(made))]),
        init_score=first,
        feature_name=[table.names[column] for column in columns],
    )
    objective = aims(table.labels[rows], table.questions[rows], local[table.origins[made]])
    settings = {**_TREES, "objective": objective, "seed": seed, "monotone_constraints": falling}
    return lightgbm.train(settings, given, table.rounds)


def chosen(table: Table, rows: np.ndarray, most: int) -> list[int]:
    """The columns that help most on these rows."""
    columns = list(range(len(table.names)))
    gains = sum(grown(table, rows, columns, seed).feature_importance("gain") for seed in (90, 91))
    return sorted(np.argsort(-gains, kind="stable")[:most].tolist())


def scores_of(models: Sequence[lightgbm.Booster], matrix: np.ndarray, columns: Sequence[int]) -> Score:
    """Log-odds of the trees alone."""
    return np.mean([model.predict(matrix[:, columns], raw_score=True) for model in models], axis=0)


def unseen(table: Table, parts: np.ndarray, most: int, seeds: int) -> tuple[Score, float]:
    """Log-odds of each statement by a model that has not seen its part; share of the spoiled ones that rank below."""
    found, spoiled = np.zeros(len(table.labels)), np.zeros(len(table.origins))
    for part in range(FOLDS):
        seen, rest = np.flatnonzero(parts != part), np.flatnonzero(parts == part)
        made = np.flatnonzero(parts[table.origins] == part)
        columns = chosen(table, seen, most)
        models = [grown(table, seen, columns, seed) for seed in range(seeds)]
        base = start(table, seen)
        found[rest] = scores_of(models, table.matrix[rest], columns) + table.linear[rest] + base
        spoiled[made] = scores_of(models, table.spoiled[made], columns) + table.spoiled_linear[made] + base
    return found, float(np.mean(found[table.origins] > spoiled)) if len(spoiled) else float("nan")


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


def report(name: str, table: Table, scores: Score, below: float, parts: np.ndarray) -> None:
    """One line of figures with intervals, and one without questions that nobody answered."""
    error = ece(calibrated(scores, table.labels, parts), table.labels)
    line = _line(figures(table.items, table.labels, scores), _intervals(table, scores))
    print(f"{name:14} {line}  ece {error:.3f}  plain faults {below:.3f}")
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
    trees = plain(models)
    asked = sorted({int(node[1]) for tree in trees for node in tree if len(node) > 1})
    place = {column: number for number, column in enumerate(asked)}
    trees = [[[node[0], place[int(node[1])], *node[2:]] if len(node) > 1 else node for node in tree] for tree in trees]
    head = {
        "features": [table.names[columns[column]] for column in asked],
        "linear": table.scale,
        "slope": round(slope, 4),
        "intercept": round(slope * start(table, rows) + shift, 4),
    }
    lines = ",\n".join(json.dumps(tree, separators=(",", ":")) for tree in trees)
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
    labelled = evidence(read(given.labelled))
    for name, most in MOST.items():
        made = table(*labelled, name)
        for by in given.by or ["db"]:
            parts = folds(made.items, by)
            scores, below = unseen(made, parts, most, given.seeds)
            report(f"{name}, {by}", made, scores, below, parts)
            if given.write and by == "db":
                everything = np.arange(len(made.labels))
                columns = chosen(made, everything, most)
                write(given.write / f"forest.{name}.json", made, columns, given.seeds, platt(scores, made.labels))


if __name__ == "__main__":
    main()
