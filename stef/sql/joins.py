"""Joins: kind, keys, and whether a condition in ON narrows the answer."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from stef.spec import Effect, Filter, Join, JoinKind, Op, Scope
from stef.sql.nodes import every, shallow
from stef.sql.targets import Names, target

_KINDS = {
    "LEFT": JoinKind.LEFT,
    "RIGHT": JoinKind.RIGHT,
    "FULL": JoinKind.FULL,
    "CROSS": JoinKind.CROSS,
    "SEMI": JoinKind.SEMI,
    "ANTI": JoinKind.ANTI,
}


def join_of(node: exp.Join, table: str, names: Names, path: str) -> Join:
    """One join with its kind and keys."""
    side, kind = str(node.side or "").upper(), str(node.kind or "").upper()
    found = _KINDS.get(kind) or _KINDS.get(side) or JoinKind.INNER
    return Join(table=table, kind=found, keys=_keys(node, names), path=path)


def _keys(join: exp.Join, names: Names) -> tuple[tuple[str, str], ...]:
    on = join.args.get("on")
    keys: list[tuple[str, str]] = []
    for node in every(on) if on is not None else ():
        if not isinstance(node, exp.EQ):
            continue
        left, right = node.args["this"], node.args["expression"]
        if isinstance(left, exp.Column) and isinstance(right, exp.Column):
            one, other = _qualified(left, names), _qualified(right, names)
            keys.append((one, other) if one <= other else (other, one))
    keys += [(column.name, column.name) for column in join.args.get("using") or []]
    return tuple(keys)


def _qualified(column: exp.Column, names: Names) -> str:
    found = target(column, names)
    return f"{found.table}.{found.column}" if found is not None and found.table else column.name


def effective(read: list[Filter], join: exp.Join, node: exp.Select, names: Names, known: list[Filter]) -> list[Filter]:
    """Mark the conditions of an outer join that narrow only what is looked up, not what is kept.

    Args:
        read: Conditions of its ON clause.
        join: The join.
        node: The select that it belongs to.
        names: Of the select.
        known: Conditions of the select's other clauses.
    """
    side = str(join.side or "").upper()
    if not side or str(join.kind or "").upper() in {"SEMI", "ANTI"}:
        return read
    rejects = _rejects_unmatched(join, side, node, names, known)
    return [item if item.table in rejects else replace(item, effect=Effect.OUTER_JOIN) for item in read]


def _rejects_unmatched(join: exp.Join, side: str, node: exp.Select, names: Names, known: list[Filter]) -> set[str]:
    """Tables that are looked up and whose unmatched rows fall out after all: WHERE tests them, or they alone count."""
    looked_up = join.this.alias_or_name.lower()
    relation = names.relations.get(looked_up)
    if relation is None or side == "FULL":
        return set()
    others = {r.table for alias, r in names.relations.items() if alias != looked_up}
    tables = others if side == "RIGHT" else {relation.table}
    if any(_tests(item, tables) for item in known):
        return tables
    counted = [
        found
        for output in node.expressions
        for item in shallow(output)
        if (found := _aggregated_table(item, names)) is not None
    ]
    return tables if counted and all(found and found in tables for found in counted) else set()


def _tests(item: Filter, tables: set[str]) -> bool:
    return bool(item.table) and item.table in tables and item.op is not Op.IS_NULL and item.scope is not Scope.CASE


def _aggregated_table(node: exp.Expr, names: Names) -> str | None:
    if not isinstance(node, exp.AggFunc):
        return None
    found = target(node, names)
    return found.table if found is not None else ""
