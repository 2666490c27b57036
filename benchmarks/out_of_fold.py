"""Write scores of labelled statements by models that have not seen them, Φ and verdict among them.

    pip install lightgbm
    python benchmarks/out_of_fold.py LABELLED FOLDER [--by group|db] [--seeds N]

LABELLED: JSON lines (also .gz) with question, evidence, sql, dialect, label, source, db, group.

For each model (`texts`, `log`) and way of folding a file `<model>.<by>.jsonl` of results as `stef score --json` names
their parts: event_id, outcome, phi (of the profile stef-1), p_correct, judge.verdict; and
`<model>.<by>.no-evidence.jsonl` of the same models on questions without their hints. The catalogue is counted from all
statements, a record's own question never for itself.

Printed: figures of p and of Φ in each score profile, and how often each verdict is right.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from evidence_signals import FOLDS, Items, catalogues, folds, knowledge, read, record_of, seen_by
from spoiled import spoiled
from train_offline import (
    MOST,
    Rows,
    Score,
    Table,
    calibrated,
    chosen,
    ece,
    figures,
    grown,
    platt,
    scores_of,
    start,
    table,
)

from stef import data
from stef.apprules import NO_RULES
from stef.judge.caps import capped
from stef.judge.case import JudgeCase
from stef.judge.offline import OfflineJudge
from stef.result import Verdict
from stef.score import PROFILES, score
from stef.timespan import Calendar
from stef.understand import Knowledge, understand

_CLOCK = Calendar()
Cases = Mapping[str, JudgeCase]


def cases(items: Items, known: Knowledge) -> Cases:
    """What a judge is given, for each statement that can be scored, by its id."""
    found = {}
    for item in items:
        record = record_of(item)
        seen = understand(record, NO_RULES, _CLOCK, known)
        if seen.compared is not None:
            found[item["id"]] = JudgeCase(
                record=record,
                statement=seen.parsed.sql,
                specs=seen.specs,
                alignment=seen.compared.alignment,
                evidence=seen.compared.evidence,
                findings=seen.findings,
            )
    return found


def unseen_scores(made: Table, others: Sequence[Table], parts: np.ndarray, most: int, seeds: int) -> list[Score]:
    """Log-odds of the table's statements and of the same with other evidence, each by models of the other parts."""
    tables = (made, *others)
    found = [np.zeros(len(one.labels)) for one in tables]
    places = {item["id"]: parts[place] for place, item in enumerate(made.items)}
    theirs = [np.array([places.get(item["id"], -1) for item in one.items]) for one in tables]
    for part in range(FOLDS):
        rows = np.flatnonzero(parts != part)
        columns = chosen(made, rows, most)
        models = [grown(made, rows, columns, seed) for seed in range(seeds)]
        for scores, one, their in zip(found, tables, theirs, strict=True):
            here = np.flatnonzero(their == part)
            scores[here] = scores_of(models, one.matrix[here], columns) + one.linear[here] + start(made, rows)
    return found


def like(scores: Score, labels: np.ndarray, parts: np.ndarray, theirs: Score, their_parts: np.ndarray) -> Score:
    """Probabilities of other log-odds, by the slope and intercept of these."""
    found = np.zeros(len(theirs))
    for part in range(FOLDS):
        slope, intercept = platt(scores[parts != part], labels[parts != part])
        here = their_parts == part
        found[here] = 1 / (1 + np.exp(-(slope * theirs[here] + intercept)))
    return found


def judged(case: JudgeCase, p: float) -> tuple[tuple[int, ...], Verdict]:
    """Φ in every score profile, and the verdict, of a case whose probability is another one."""
    case = replace(case, evidence=replace(case.evidence, p_offline=p))
    judge = OfflineJudge(data.weights())
    given = capped(judge.verdict(case), case, judge.verdict(case))
    phis = (score(case.alignment, given.verdict, given.confidence, profile).phi for profile in PROFILES)
    return tuple(phis), given.verdict


def write(path: Path, labelled: Items, made: Table, known: Cases, p: Score) -> None:
    """Write the results and print what they are worth."""
    chances = {item["id"]: float(p[place]) for place, item in enumerate(made.items)}
    results = {name: judged(known[name], chance) for name, chance in chances.items()}
    with path.open("w") as file:
        for item in labelled:
            name = item["id"]
            row: dict[str, object] = {"event_id": name, "outcome": "scored" if name in results else "skipped"}
            if name in results:
                phis, verdict = results[name]
                row |= {"phi": phis[0], "p_correct": chances[name], "judge": {"verdict": verdict.value}}
            file.write(json.dumps(row) + "\n")
    phis = np.array([results[item["id"]][0] for item in made.items]).T
    for name, scores in (("p", p), *zip(PROFILES, phis, strict=True)):
        shown = "  ".join(f"{figure} {value:.3f}" for figure, value in figures(made.items, made.labels, scores).items())
        print(f"{path.name:32} {name:6} {shown}" + (f"  ece {ece(p, made.labels):.3f}" if name == "p" else ""))
    counts = Counter((results[item["id"]][1], item["label"]) for item in made.items)
    shares = (
        f"{verdict.value} {counts[verdict, 1]} of {counts[verdict, 1] + counts[verdict, 0]}" for verdict in Verdict
    )
    print(f"{'':32} right: {', '.join(shares)}", flush=True)


def main() -> None:
    """Write the files."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("labelled")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--by", choices=("group", "db"), action="append")
    parser.add_argument("--seeds", type=int, default=2)
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    labelled = read(given.labelled)
    known = knowledge(catalogues(labelled, knowledge()))
    bare = [{**item, "evidence": None} for item in labelled]
    worse = [one for item in labelled if item["label"] and (one := spoiled(item, 1)) is not None]
    whole, hintless = cases(labelled, known), cases(bare, known)
    more = seen_by(worse, known)
    for model, most in MOST.items():
        made = table(*_rows(labelled, whole), *more, model)
        other = _aligned(table(*_rows(bare, hintless), [], [], model), made)
        for by in given.by or ["group", "db"]:
            parts = folds(made.items, by)
            scores, theirs = unseen_scores(made, [other], parts, most, given.seeds)
            write(given.folder / f"{model}.{by}.jsonl", labelled, made, whole, calibrated(scores, made.labels, parts))
            places = {item["id"]: parts[place] for place, item in enumerate(made.items)}
            same = np.array([places.get(item["id"], 0) for item in other.items])
            p = like(scores, made.labels, parts, theirs, same)
            write(given.folder / f"{model}.{by}.no-evidence.jsonl", labelled, other, hintless, p)


def _rows(items: Items, known: Cases) -> tuple[Items, Rows]:
    kept = [item for item in items if item["id"] in known]
    return kept, [known[item["id"]].evidence.features for item in kept]


def _aligned(other: Table, made: Table) -> Table:
    """The same numbers in the order of another table."""
    matrix = np.full((len(other.labels), len(made.names)), np.nan)
    for place, name in enumerate(made.names):
        if name in other.names:
            matrix[:, place] = other.matrix[:, other.names.index(name)]
    return replace(other, matrix=matrix, names=made.names)


if __name__ == "__main__":
    main()
