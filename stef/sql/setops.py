"""Conditions across the branches of UNION, INTERSECT and EXCEPT."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from stef.spec import Effect, Filter
from stef.sql.merging import united
from stef.sql.reading import Reading
from stef.values import fold


def branches_of(node: exp.SetOperation) -> tuple[list[exp.Expr], list[str]]:
    """The branches of a chain of set operations from left to right, and the operations between them."""
    branches: list[exp.Expr] = []
    kinds: list[str] = []
    current: exp.Expr = node
    while isinstance(current, exp.SetOperation):
        branches.append(current.expression)
        kinds.append(type(current).__name__.lower())
        current = current.this
        while (
            isinstance(current, exp.Subquery)
            and isinstance(current.this, exp.SetOperation)
            and current.args.get("limit") is None
        ):
            current = current.this
    return [current, *reversed(branches)], list(reversed(kinds))


def combine(branches: list[list[Filter]], kinds: list[str], reading: Reading) -> list[Filter]:
    """Put the conditions of all branches together.

    Args:
        branches: Conditions of each branch, from left to right.
        kinds: `union`, `intersect` or `except` between them.
        reading: Numbers the alternatives.
    """
    if "except" in kinds:
        first, *rest = branches
        return first + [item for branch in rest for item in _excluded(branch, first, reading)]
    if "intersect" in kinds:
        return list(dict.fromkeys(item for branch in branches for item in branch))
    return _united(branches, reading)


def _excluded(branch: list[Filter], kept: list[Filter], reading: Reading) -> list[Filter]:
    """NOT (a AND b) is NOT a OR NOT b; what both sides share excludes nothing."""
    shared = {_meaning(item) for item in kept}
    own = [item for item in branch if _meaning(item) not in shared]
    negated = [replace(item, op=item.op.negated) for item in own]
    if len(negated) < 2:
        return negated
    reading.alternatives += 1
    return [replace(item, alternative=reading.alternatives) for item in negated]


def _meaning(item: Filter) -> tuple[str, str, str, str]:
    return (fold(item.column), item.aggregate, item.op, str(item.value).casefold())


def _united(branches: list[list[Filter]], reading: Reading) -> list[Filter]:
    """What every branch demands binds; what some demand binds only where the others demand something of their own."""
    meanings = [{_meaning(item) for item in branch} for branch in branches]
    shared = set.intersection(*meanings)
    found = [item for item in branches[0] if _meaning(item) in shared]
    own = [[item for item in branch if _meaning(item) not in shared] for branch in branches]
    if not any(own):
        return found
    merged, own = _one_column_each(own)
    found += merged
    if not any(own):
        return found
    if all(own):
        reading.alternatives += 1
        return found + [
            replace(item, alternative=item.alternative or reading.alternatives) for branch in own for item in branch
        ]
    return found + [replace(item, effect=Effect.ONE_BRANCH) for branch in own for item in branch]


def _one_column_each(own: list[list[Filter]]) -> tuple[list[Filter], list[list[Filter]]]:
    """`city = 'A'` in one branch and `city = 'B'` in the other are one IN."""
    merged: list[Filter] = []
    for item in own[0]:
        column = (fold(item.column), item.aggregate)
        same = [
            next((other for other in branch if (fold(other.column), other.aggregate) == column), None) for branch in own
        ]
        group = [replace(other, table=item.table) for other in same if other is not None]
        joined = united(group) if len(group) == len(own) else None
        if joined is not None:
            merged.append(joined)
            own = [[other for other in branch if (fold(other.column), other.aggregate) != column] for branch in own]
    return merged, own
