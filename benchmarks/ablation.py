"""What each family of evidence adds to the offline model.

    pip install lightgbm
    python benchmarks/ablation.py LABELLED [--by group|db] [--seeds N]

LABELLED: JSON lines (also .gz) with question, evidence, sql, dialect, label, source, db, group.

For every family: the figures of the model without it, as points lost (out of fold, 100 is all), and those of a model
that has nothing else, beside what constructs and tables alone tell. A loss below one point is within the noise of
the seeds. Families of the log are left out of the model with the log, all others of the model of the texts.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from evidence_signals import folds, read
from train_offline import MOST, Table, evidence, figures, table, unseen

_BARE = r"has_.*|tables|outputs|values"
# Family → names of its numbers.
FAMILIES: Mapping[str, str] = {
    "alignment of the filters": r"missing|extra|introduced|undetermined|ineffective|wrong_.*|none_met|order_direction",
    "values and numbers in the texts": r"values.*|numbers_.*|ungrounded_.*",
    "conditions and formulas of the expansion": r"written_.*|formula_.*|names_unused.*|unused_name",
    "words that nothing answers": r"words_.*|first_words_.*|unexplained|things_listed",
    "names of columns and tables": r"whole_.*|touched_.*|asked_.*|unnamed_.*|tables.*|columns_[a-z]+ed|links.*",
    "outputs": r"outputs.*|columns_(beyond|fewer|more)|output_.*|figures_sorted_by",
    "aggregates and figures": r"aggregate|unasked_aggregate|count(ed)?_.*|joined_rows_counted|percent_.*|round_.*",
    "grouping, distinct": r"grain|grouping|ungrouped|distinct.*",
    "order and limit": r"limit_.*|order_.*|sort_.*|unranked|extreme_unranked",
    "turned or denied": r"denial_.*|both_as_either|pattern_unasked|outer_join_unasked|bound_twice",
    "will not run": r"fails|foreign_dialect|undefined|truncated",
    "constructs": r"has_.*",
    "log: columns of tables": r"log_column.*|log_table_least|log_ambiguous",
    "log: similar questions": r"log_similar.*|log_like_.*|log_filters_unlike",
    "log: words of columns": r"log_word.*|log_fit_.*",
    "log: joins": r"log_link.*|log_route_.*",
    "log: values": r"log_value.*|log_spelling|log_type",
    "log: roles and company": r"log_role.*|log_usual_.*|log_together_.*",
}


def only(made: Table, pattern: str, *, keep: bool) -> Table:
    """A table with the numbers of a pattern alone, or without them; its plain weights go the same way."""
    meant = [bool(re.fullmatch(pattern, name)) for name in made.names]
    columns = [place for place, fits in enumerate(meant) if fits is keep]
    return replace(
        made,
        matrix=made.matrix[:, columns],
        names=[made.names[column] for column in columns],
        linear=np.zeros(len(made.labels)),
        spoiled=made.spoiled[:, columns],
        spoiled_linear=np.zeros(len(made.origins)),
    )


def measured(made: Table, parts: np.ndarray, most: int, seeds: int) -> dict[str, float]:
    """Figures out of fold, in points."""
    scores, _ = unseen(made, parts, min(most, len(made.names)), seeds)
    found = figures(made.items, made.labels, scores)
    return {name: 100 * found[name] for name in ("pairwise", "macro", "auroc")}


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("labelled")
    parser.add_argument("--by", choices=("group", "db"), default="db")
    parser.add_argument("--seeds", type=int, default=1)
    given = parser.parse_args()
    labelled = evidence(read(given.labelled))
    print(f"{'':42} {'numbers':>7}   {'left out':^25}   {'added to the bare ones':^25}")
    print(f"{'':51}{'pairwise':>9}{'macro':>8}{'auroc':>8}   {'pairwise':>9}{'macro':>8}{'auroc':>8}")
    for model in ("texts", "log"):
        made = table(*labelled, model)
        parts = folds(made.items, given.by)
        whole = measured(only(made, "", keep=False), parts, MOST[model], given.seeds)
        bare = measured(only(made, _BARE, keep=True), parts, MOST[model], given.seeds)
        print(f"{model}: all numbers {_line(whole)}; constructs and tables alone {_line(bare)}", flush=True)
        for family, pattern in FAMILIES.items():
            if family.startswith("log: ") is (model == "log"):
                count = sum(bool(re.fullmatch(pattern, name)) for name in made.names)
                less = measured(only(made, pattern, keep=False), parts, MOST[model], given.seeds)
                more = measured(only(made, f"{_BARE}|{pattern}", keep=True), parts, MOST[model], given.seeds)
                shown = "   ".join(_line(_difference(a, b)) for a, b in ((less, whole), (more, bare)))
                print(f"{family:42} {count:7}   {shown}", flush=True)


def _difference(one: Mapping[str, float], other: Mapping[str, float]) -> dict[str, float]:
    return {name: one[name] - other[name] for name in one}


def _line(found: Mapping[str, float]) -> str:
    return "".join(f"{value:8.1f}" for value in found.values())


if __name__ == "__main__":
    main()
