"""A forest of small decision trees over named numbers: what the offline model has learned beyond its plain weights.

Trained elsewhere (`benchmarks/train_offline.py`) and read from text; walking it needs no library. What each number
added to the log-odds is the sum of what changed where a tree asked for it (Saabas, Interpreting random forests, 2014).

All trees are walked at once. A leaf is one bit of a long whole number, and of each feature it is known which leaves
its values can reach: what all features leave is one leaf of each tree (Lucchese and others, QuickScorer, 2015). What a
leaf adds is one whole number as well, with some bits for each feature, so that one sum adds up all parts.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from itertools import accumulate
from operator import getitem, or_
from struct import Struct
from typing import Any

# Log-odds have five decimals, and so are whole numbers in this unit.
_UNIT = 100_000
# Bytes of a part, and what is added so that none is below 0: enough for log-odds from -83 to 83.
_BYTES, _MIDDLE = 3, 1 << 23
# Bits for the leaves of a tree → code of a whole number of that size.
_WIDTHS = {8: "B", 16: "H", 32: "I", 64: "Q"}


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


Tree = tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Reach:
    """Which leaves the value of one feature can reach, as bits.

    Attributes:
        feature: Its name.
        bounds: That nodes ask it for, in order.
        upto: With a value up to each bound; the last for values above all.
        absent: Without a value.
    """

    feature: str
    bounds: array[float]
    upto: tuple[int, ...]
    absent: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Forest:
    """Trees whose log-odds add up.

    Attributes:
        features: Names of the numbers.
        trees: Nodes, the root first.
        intercept: Log-odds before the first tree.
        slope: By which everything is multiplied, so that the probability is as often right as it says.
        linear: By which the plain weights are multiplied before.
        start: What the roots add.
        reaches: Of each feature.
        leaves: All of them, as bits.
        layout: Takes the bits of the trees apart.
        parts: Of each tree, by the length of the number that a leaf is as a bit: what it adds for each feature.
        middles: `_MIDDLE` for each feature.
    """

    features: tuple[str, ...]
    trees: tuple[Tree, ...]
    intercept: float
    slope: float
    linear: float
    start: float
    reaches: tuple[Reach, ...]
    leaves: int
    layout: Struct
    parts: tuple[tuple[int, ...], ...]
    middles: int

    def weigh(self, numbers: Mapping[str, float]) -> tuple[float, dict[str, float]]:
        """Log-odds of the trees alone, before intercept and slope, and the part of each feature in them."""
        left = self.leaves
        for reach in self.reaches:
            value = numbers.get(reach.feature)
            left &= reach.absent if value is None else reach.upto[bisect_left(reach.bounds, value)]
        reached = self.layout.unpack(left.to_bytes(self.layout.size, "little"))
        size = _BYTES * len(self.features)
        whole = sum(map(getitem, self.parts, map(int.bit_length, reached)), self.middles).to_bytes(size, "little")
        read = int.from_bytes
        sums = [read(whole[at : at + _BYTES], "little") - _MIDDLE for at in range(0, size, _BYTES)]
        found = {name: part / _UNIT for name, part in zip(self.features, sums, strict=True) if part}
        return self.start + sum(sums) / _UNIT, found


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
    features = tuple(content["features"])
    trees = tuple(tuple(_node(row) for row in rows) for rows in content["trees"])
    most = max(sum(node.feature < 0 for node in nodes) for nodes in trees)
    width = next(width for width in _WIDTHS if most <= width)
    cuts: dict[int, list[_Cut]] = defaultdict(list)
    planted = [_Planted(nodes, number * width, cuts) for number, nodes in enumerate(trees)]
    leaves = sum(tree.under(0, {}) for tree in planted)
    return Forest(
        features=features,
        trees=trees,
        intercept=float(content["intercept"]),
        slope=float(content["slope"]),
        linear=float(content["linear"]),
        start=sum(nodes[0].value for nodes in trees),
        reaches=tuple(_reach(name, cuts[place], leaves) for place, name in enumerate(features)),
        leaves=leaves,
        layout=Struct(f"<{len(trees)}{_WIDTHS[width]}"),
        parts=tuple(tuple(tree.parts) for tree in planted),
        middles=_packed(dict.fromkeys(range(len(features)), _MIDDLE)),
    )


@dataclass(frozen=True, slots=True)
class _Cut:
    """Which leaves a node cuts off from values up to its bound, from greater ones, and without a value."""

    bound: float
    upto: int
    beyond: int
    absent: int


@dataclass(frozen=True, slots=True)
class _Planted:
    """One tree on its way into a forest: its cuts by feature, and what its leaves add."""

    nodes: Tree
    shift: int
    cuts: dict[int, list[_Cut]]
    parts: list[int] = field(default_factory=lambda: [0])  # no bit has the length 0

    def under(self, place: int, path: Mapping[int, float]) -> int:
        """The leaves under a node, as bits; the path holds what each feature has added above it."""
        node = self.nodes[place]
        if node.feature < 0:
            self.parts.append(_packed({feature: round(part * _UNIT) for feature, part in path.items()}))
            return 1 << self.shift + len(self.parts) - 2
        left, right = (self.under(child, self._after(node, child, path)) for child in (node.left, node.right))
        self.cuts[node.feature].append(_Cut(node.bound, right, left, right if node.absent == node.left else left))
        return left | right

    def _after(self, node: Node, child: int, path: Mapping[int, float]) -> dict[int, float]:
        added = self.nodes[child].value - node.value
        return {**path, node.feature: path.get(node.feature, 0.0) + added}


def _packed(parts: Mapping[int, int]) -> int:
    """Place of a feature → what is added for it, as one whole number."""
    return sum(part << 8 * _BYTES * place for place, part in parts.items())


def _reach(feature: str, cuts: Sequence[_Cut], leaves: int) -> Reach:
    """What the cuts of one feature leave."""
    upto: dict[float, int] = {}
    beyond: dict[float, int] = {}
    for cut in sorted(cuts, key=lambda cut: cut.bound):
        upto[cut.bound] = upto.get(cut.bound, 0) | cut.upto
        beyond[cut.bound] = beyond.get(cut.bound, 0) | cut.beyond
    # A value is up to the bounds from one on, and beyond those before it.
    lost_upto = [*accumulate(reversed(upto.values()), or_, initial=0)]
    lost_beyond = accumulate(beyond.values(), or_, initial=0)
    kept = tuple(leaves ^ (one | other) for one, other in zip(reversed(lost_upto), lost_beyond, strict=True))
    absent = reduce(or_, (cut.absent for cut in cuts), 0)
    return Reach(feature, array("d", upto), kept, leaves ^ absent)


def _node(row: Sequence[float]) -> Node:
    if len(row) == 1:
        return Node(float(row[0]))
    value, feature, bound, left, right, absent = row
    return Node(float(value), int(feature), float(bound), int(left), int(right), int(absent))
