"""Numbers about a statement and its question for the model: none is a reason by itself, each can be read.

A number that cannot be taken (no column of that role, no condition in the expansion) is absent, and never 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from stef.evidence.facts import Facts
from stef.evidence.naming import Words, columns_named, tables_named, words_answered
from stef.evidence.outputs import outputs, outputs_listed, outputs_placed
from stef.evidence.said import conditions_used, formulas_used, names_used, numbers_used, values_said
from stef.evidence.turns import conditions_turned, joins_turned, shape_turned

Measure = Callable[[Facts, Words], Iterator[tuple[str, float]]]

MEASURES: tuple[Measure, ...] = (
    words_answered,
    columns_named,
    tables_named,
    outputs,
    outputs_listed,
    outputs_placed,
    values_said,
    numbers_used,
    names_used,
    conditions_used,
    formulas_used,
    conditions_turned,
    joins_turned,
    shape_turned,
)
# Constructs that are told as numbers of their own → the name of the number.
_CONSTRUCTS = {name: f"has_{name}" for name in (
    "text_literal", "number_literal", "equal", "join", "left_join", "count", "count_distinct", "sum", "figure_output",
    "difference", "product", "quotient", "subquery", "order", "group", "descending", "select", "max", "min", "like",
    "unequal_branches", "odd_comparison", "unbound_extreme", "sorted_single_row", "key_not_shown",
    "shown_not_key", "unequal", "having",
)}  # fmt: skip
_MOST = 20.0


def measured(facts: Facts) -> Mapping[str, float]:
    """All numbers, by name."""
    words = Words.of(facts)
    constructs = facts.sql.constructs
    found = {feature: min(_MOST, float(constructs.get(name, 0))) for name, feature in _CONSTRUCTS.items()}
    for measure in MEASURES:
        for name, value in measure(facts, words):
            found[name] = min(_MOST, round(value, 4))
    return found
