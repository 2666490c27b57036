"""A forest of small decision trees over named numbers: what the offline model has learned beyond its plain weights.

Trained elsewhere (`benchmarks/train_offline.py`) and read from text; walking it needs no library. What each number
added to the log-odds is the sum of what changed where a tree asked for it (Saabas, Interpreting random forests, 2014).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Node:
    """One question of a tree; a leaf has no feature.

    Attributes:
        value: Log-odds for what reaches it.
        feature: Place of the number that it asks for; -1 in a leaf.
        bound: Numbers up to it go left.
        left: Place of the next node.
        right: The same for greater numbers.
        absent: Where to go without the number.
    """

    value: float
    feature: int = -1
    bound: float = 0.0
    left: int = 0
    right: int = 0
    absent: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Forest:
    """Trees whose log-odds add up.

    Attributes:
        features: Names of the numbers.
        trees: Nodes, the root first.
        intercept: Log-odds before the first tree.
        slope: By which everything is multiplied, so that the probability is as often right as it says.
        linear: By which the plain weights are multiplied before.
    """

    features: tuple[str, ...]
    trees: tuple[tuple[Node, ...], ...]
    intercept: float
    slope: float
    linear: float

    def weigh(self, numbers: Mapping[str, float]) -> tuple[float, dict[str, float]]:
        """Log-odds of the trees alone, before intercept and slope, and the part of each feature in them."""
        given = [numbers.get(name) for name in self.features]
        parts = [0.0] * len(given)
        total = 0.0
        for nodes in self.trees:
            node = nodes[0]
            total += node.value
            while node.feature >= 0:
                asked = node.feature
                value = given[asked]
                node_after = nodes[node.absent if value is None else node.left if value <= node.bound else node.right]
                parts[asked] += node_after.value - node.value
                node = node_after
        found = {name: part for name, part in zip(self.features, parts, strict=True) if part}
        return total + sum(parts), found


@dataclass(frozen=True, slots=True, kw_only=True)
class Weighed:
    """One feature with what it did to the probability.

    Attributes:
        value: Of the feature; None where it could not be taken.
        log_odds: What it added; below 0 it speaks against the statement.
    """

    feature: str
    value: float | None
    log_odds: float


def forest(content: Mapping[str, Any]) -> Forest:
    """A forest from its plain form: `[value]` is a leaf, `[value, feature, bound, left, right, absent]` a question."""
    return Forest(
        features=tuple(content["features"]),
        trees=tuple(tuple(_node(row) for row in rows) for rows in content["trees"]),
        intercept=float(content["intercept"]),
        slope=float(content["slope"]),
        linear=float(content["linear"]),
    )


def _node(row: Sequence[float]) -> Node:
    if len(row) == 1:
        return Node(float(row[0]))
    value, feature, bound, left, right, absent = row
    return Node(float(value), int(feature), float(bound), int(left), int(right), int(absent))
