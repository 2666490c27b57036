"""What the model is worth while the log is still being learned: each record sees only the log before it.

    pip install lightgbm
    python benchmarks/streaming.py LABELLED [--seed N] [--block N]

LABELLED: JSON lines (also .gz) with question, evidence, sql, dialect, label, source, db, group.

The statements come in a random order. The catalogue is frozen anew after each block, as a consumer's is at each start.
Out of fold by database. Printed: figures of the texts alone, of the log before each record (with the texts alone where
that knows too little), and of the whole log (two passes); then the same by how many questions of its database the log
had seen.
"""

from __future__ import annotations

import argparse
import random
from itertools import pairwise

import numpy as np
from evidence_signals import FOLDS, Items, folds, knowledge, read, record_of
from train_offline import MOST, Score, Table, chosen, evidence, figures, grown, scores_of, start, table

from stef.apprules import NO_RULES
from stef.catalogue import Learners, Where, observe
from stef.timespan import Calendar
from stef.understand import understand

_CLOCK = Calendar()
_STEPS = (0, 8, 20, 50, 100, 10_000)


def in_order(items: Items, seed: int, block: int) -> tuple[dict[str, dict[str, float]], dict[str, int]]:
    """Features of each statement by its id, and questions of its database that were known by then."""
    known, learners = knowledge(), Learners()
    order = list(items)
    random.Random(seed).shuffle(order)  # noqa: S311 - an order, not a secret
    rows: dict[str, dict[str, float]] = {}
    seen: dict[str, int] = {}
    for first in range(0, len(order), block):
        pinned = knowledge(learners.freeze()) if first else known
        for item in order[first : first + block]:
            found = understand(record_of(item), NO_RULES, _CLOCK, pinned)
            if found.compared is None or found.specs.sql is None:
                continue
            catalogue = pinned.catalogues.of("", item["db"]) if pinned.catalogues else None
            rows[item["id"]] = dict(found.compared.evidence.features)
            seen[item["id"]] = 0 if catalogue is None else len(catalogue.questions)
            learners.add(Where("", item["db"]), observe(found.specs.sql, item["question"]))
    return rows, seen


def scored(made: Table, other: np.ndarray, parts: np.ndarray, most: int) -> tuple[Score, Score]:
    """Log-odds out of fold, of the table's own numbers and of other ones by the same trees."""
    own, theirs = np.zeros(len(parts)), np.zeros(len(parts))
    for part in range(FOLDS):
        rest, unseen = np.flatnonzero(parts != part), np.flatnonzero(parts == part)
        columns = chosen(made, rest, most)
        models = [grown(made, rest, columns, 0)]
        base = made.linear[unseen] + start(made, rest)
        own[unseen] = scores_of(models, made.matrix[unseen], columns) + base
        theirs[unseen] = scores_of(models, other[unseen], columns) + base
    return own, theirs


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("labelled")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--block", type=int, default=500)
    given = parser.parse_args()
    labelled = read(given.labelled)
    seen_whole = evidence(labelled)
    items = seen_whole[0]
    before, seen = in_order(labelled, given.seed, given.block)
    parts = folds(items, "db")
    late = [before[item["id"]] for item in items]
    alone = table(*seen_whole, "texts")
    whole = table(*seen_whole, "log")
    texts, _ = scored(alone, alone.matrix, parts, MOST["texts"])
    other = table(items, late, [], [], "log")
    moved = np.full_like(whole.matrix, np.nan)
    for place, name in enumerate(whole.names):
        if name in other.names:
            moved[:, place] = other.matrix[:, other.names.index(name)]
    twice, streamed = scored(whole, moved, parts, MOST["log"])
    cold = np.array([not any(name.startswith("log_") for name in row) for row in late])
    streamed = np.where(cold, texts, streamed)
    counts = np.array([seen[item["id"]] for item in items])
    print(
        f"{'questions known':16} {'statements':>10}   texts alone      log before it    whole log   (pairwise, auroc)"
    )
    for low, high in ((0, _STEPS[-1]), *pairwise(_STEPS)):
        here = np.flatnonzero((counts >= low) & (counts < high))
        if not len(here):
            continue
        chosen_items = [items[place] for place in here]
        shown = []
        for scores in (texts, streamed, twice):
            found = figures(chosen_items, whole.labels[here], scores[here])
            shown.append(f"{found['pairwise']:.3f}, {found['auroc']:.3f}")
        name = "all" if (low, high) == (0, _STEPS[-1]) else f"{low} to {high - 1}"
        print(f"{name:16} {len(here):10}   {'     '.join(shown)}")


if __name__ == "__main__":
    main()
