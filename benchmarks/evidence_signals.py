"""What each piece of evidence tells right statements from wrong ones by, alone.

    python benchmarks/evidence_signals.py LABELLED [--by db|group] [--texts-only] [--least PAIRS]

LABELLED: JSON lines (also .gz) with question, evidence, sql, dialect, label, source, db, group.

For every feature: how often it is there, its share among wrong and among right statements, and, in pairs of a right and
a wrong answer to one question in which it differs, how often it is higher on the wrong one (0.5 is chance). A number
below 0.5 speaks for a statement. With `--by` the same figure in the worst and the best of five parts of the data, which
hold whole databases or whole questions with their paraphrases. The catalogue is counted from all statements; a
record's own question never counts for it.
"""

from __future__ import annotations

import argparse
import gzip
import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np

from stef import data
from stef.apprules import NO_RULES
from stef.catalogue import Epoch, Learners, Where, observe
from stef.record import QueryRecord
from stef.timespan import Calendar
from stef.understand import Knowledge, question_reader, read_statement, remembering, understand

FOLDS = 5
_CLOCK = Calendar()
Items = list[dict[str, Any]]
Pairs = list[tuple[int, int]]


def read(path: str) -> Items:
    """The labelled statements."""
    content = gzip.decompress(Path(path).read_bytes()) if path.endswith(".gz") else Path(path).read_bytes()
    return [json.loads(line) for line in content.splitlines() if line.strip()]


def record_of(item: dict[str, Any]) -> QueryRecord:
    """A labelled statement as a log would have it."""
    hint = item.get("evidence")
    return QueryRecord(
        question=item["question"],
        expanded_question=f"{item['question']} ({hint})" if hint else None,
        sql=item["sql"],
        dialect=item["dialect"],
        database=item["db"],
    )


def knowledge(pinned: Epoch | None = None) -> Knowledge:
    """What reading needs, with a log or without."""
    return Knowledge(read_question=_READ, weights=data.weights(), denied=data.denied_functions(), catalogues=pinned)


_READ = remembering(question_reader(data.lexicon("en")))


def catalogues(items: Items, known: Knowledge) -> Epoch:
    """What all statements show of their databases."""
    learners = Learners()
    for item in items:
        _, spec, _, _ = read_statement(record_of(item), NO_RULES, _CLOCK, max_bytes=known.max_sql_bytes)
        if spec is not None:
            learners.add(Where("", item["db"]), observe(spec, item["question"]))
    return learners.freeze()


def features(items: Items, *, texts_only: bool) -> tuple[Items, list[dict[str, float]]]:
    """The statements that can be scored, with their features."""
    return seen_by(items, knowledge() if texts_only else knowledge(catalogues(items, knowledge())))


def seen_by(items: Items, known: Knowledge) -> tuple[Items, list[dict[str, float]]]:
    """The same with what is known before."""
    kept: Items = []
    rows: list[dict[str, float]] = []
    for item in items:
        seen = understand(record_of(item), NO_RULES, _CLOCK, known)
        if seen.compared is not None:
            kept.append(item)
            rows.append(seen.compared.evidence.features)
    return kept, rows


def pairs_of(items: Items) -> Pairs:
    """Places of a right and a wrong answer to the same question."""
    groups: dict[tuple[str, str], list[int]] = defaultdict(list)
    for place, item in enumerate(items):
        groups[item["source"], item["question"]].append(place)
    return [
        (right, wrong)
        for group in groups.values()
        for right in group
        if items[right]["label"]
        for wrong in group
        if not items[wrong]["label"]
    ]


def folds(items: Items, by: str) -> np.ndarray:
    """A part for each statement, the largest groups dealt out first.

    By `db` whole databases stay together; by `group` all answers to a question and to its paraphrases.
    """
    names = [item["db"] for item in items] if by == "db" else _families(items)
    sizes: dict[str, int] = defaultdict(int)
    for name in names:
        sizes[name] += 1
    totals, place = [0] * FOLDS, {}
    for name, size in sorted(sizes.items(), key=lambda pair: (-pair[1], pair[0])):
        place[name] = totals.index(min(totals))
        totals[place[name]] += size
    return np.array([place[name] for name in names])


def _families(items: Items) -> list[str]:
    """For each statement its question's family: what shares a group or a wording."""
    parent: dict[str, str] = {}

    def root(name: str) -> str:
        while parent.setdefault(name, name) != name:
            name = parent[name]
        return name

    wordings = [f"question {item['question'].lower().strip()}" for item in items]
    for item, wording in zip(items, wordings, strict=True):
        parent[root(f"group {item['group']}")] = root(wording)
    return [root(wording) for wording in wordings]


def on_the_wrong_one(values: np.ndarray, right: np.ndarray, wrong: np.ndarray) -> tuple[float, int]:
    """How often a value is higher on the wrong one, and in how many pairs it differs."""
    higher = int((values[wrong] > values[right]).sum())
    lower = int((values[wrong] < values[right]).sum())
    return (higher / (higher + lower) if higher + lower else float("nan")), higher + lower


def main() -> None:
    """Print a line for each feature."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("labelled")
    parser.add_argument("--by", choices=("db", "group"))
    parser.add_argument("--texts-only", action="store_true")
    parser.add_argument("--least", type=int, default=0)
    given = parser.parse_args()
    items, rows = features(read(given.labelled), texts_only=given.texts_only)
    labels = np.array([item["label"] for item in items])
    right, wrong = (np.array(side) for side in zip(*pairs_of(items), strict=True))
    parts = folds(items, given.by) if given.by else None
    print(f"{len(items)} statements, {len(right)} pairs of a right and a wrong answer to one question")
    print(f"{'feature':32} {'known':>6} {'wrong':>7} {'right':>7} {'pairs':>6} {'of':>6}")
    for name in sorted({name for row in rows for name in row}):
        values = np.array([row.get(name, 0.0) for row in rows])
        known = np.mean([name in row for row in rows])
        share, count = on_the_wrong_one(values, right, wrong)
        if count < given.least:
            continue
        shares = [f"{100 * np.mean(values[labels == label] > 0):6.1f}%" for label in (0, 1)]
        line = f"{name:32} {100 * known:5.0f}% {' '.join(shares)} {share:6.2f} {count:6}"
        if parts is not None:
            found = [on_the_wrong_one(values, right[parts[right] == k], wrong[parts[right] == k]) for k in range(FOLDS)]
            firm = [value for value, size in found if size >= 20]
            line += f"   {min(firm):.2f} to {max(firm):.2f}" if firm else ""
        print(line)


if __name__ == "__main__":
    main()
