"""Right statements made wrong on purpose, by one plain fault each.

Answers of models to benchmark questions are seldom wrong in plain ways: a condition left out, another aggregate,
another value. Trees that see only those learn how hard a question is, and forget what any analyst would see. These
statements remind them: each is to be ranked below the right one that it was made from. They count in no figure but that
of themselves.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from stef.sql.dialects import canonical

Item = dict[str, Any]
Fault = Callable[[exp.Expr, random.Random], bool]
_OTHER_AGGREGATE = {exp.Sum: exp.Avg, exp.Avg: exp.Sum, exp.Max: exp.Min, exp.Min: exp.Max, exp.Count: exp.Sum}
_OTHER_OPERATOR = {exp.GT: exp.LT, exp.GTE: exp.LTE, exp.LT: exp.GT, exp.LTE: exp.GTE, exp.EQ: exp.NEQ}


def _conditions(tree: exp.Expr) -> list[exp.Expr]:
    """What WHERE and HAVING join by AND."""
    found: list[exp.Expr] = []
    for clause in tree.find_all(exp.Where, exp.Having):
        found += clause.this.flatten(unnest=False) if isinstance(clause.this, exp.And) else [clause.this]
    return found


def without_a_condition(tree: exp.Expr, dice: random.Random) -> bool:
    """Leave one condition out."""
    found = _conditions(tree)
    if not found:
        return False
    one = dice.choice(found)
    if isinstance(one.parent, exp.And):
        one.parent.replace(one.parent.right if one.arg_key == "this" else one.parent.left)
    elif one.parent is not None:
        one.parent.pop()
    return True


def other_value(tree: exp.Expr, dice: random.Random) -> bool:
    """Compare with another value."""
    found = [one for clause in _conditions(tree) for one in clause.find_all(exp.Literal)]
    if not found:
        return False
    one = dice.choice(found)
    if one.is_string:
        text = one.this
        year = text[:4].isdigit() and len(text) >= 4
        one.replace(exp.Literal.string(str(int(text[:4]) - 1) + text[4:] if year else f"{text[::-1]}"))
    else:
        number = float(one.this)
        one.replace(exp.Literal.number(f"{number * 2 + 1:g}"))
    return True


def other_operator(tree: exp.Expr, dice: random.Random) -> bool:
    """Compare the other way round."""
    found = [one for clause in _conditions(tree) for one in clause.find_all(*_OTHER_OPERATOR)]
    found = [one for one in found if isinstance(one.right, exp.Literal)]
    if not found:
        return False
    one = dice.choice(found)
    one.replace(_OTHER_OPERATOR[type(one)](this=one.left, expression=one.right))
    return True


def other_aggregate(tree: exp.Expr, dice: random.Random) -> bool:
    """Aggregate in another way."""
    found = [one for one in tree.find_all(*_OTHER_AGGREGATE) if isinstance(one.this, exp.Column)]
    if not found:
        return False
    one = dice.choice(found)
    one.replace(_OTHER_AGGREGATE[type(one)](this=one.this))
    return True


def ungrouped(tree: exp.Expr, _dice: random.Random) -> bool:
    """Leave the grouping out."""
    return _without(tree, exp.Group)


def other_order(tree: exp.Expr, dice: random.Random) -> bool:
    """Take the other end."""
    found = list(tree.find_all(exp.Ordered))
    if not found:
        return False
    one = dice.choice(found)
    one.set("desc", not one.args.get("desc"))
    return True


def without_a_limit(tree: exp.Expr, _dice: random.Random) -> bool:
    """Give all rows."""
    return _without(tree, exp.Limit)


def _without(tree: exp.Expr, kind: type[exp.Expr]) -> bool:
    """Leave the first clause of a kind out."""
    clause = tree.find(kind)
    if clause is None:
        return False
    clause.pop()
    return True


FAULTS: tuple[Fault, ...] = (
    without_a_condition, without_a_condition, other_value, other_operator, other_aggregate, ungrouped, other_order,
    without_a_limit,
)  # fmt: skip


def spoiled(item: Item, seed: int) -> Item | None:
    """The same statement with one fault, labelled wrong; None where nothing can be spoiled.

    Args:
        item: A labelled statement, a right one.
        seed: The same gives the same fault.
    """
    dice = random.Random(f"{seed} {item['id']}")  # noqa: S311 - a choice, not a secret
    dialect = canonical(item["dialect"]) or None
    for fault in dice.sample(FAULTS, len(FAULTS)):
        try:
            tree = sqlglot.parse_one(item["sql"], read=dialect)
            if fault(tree, dice):
                return {**item, "sql": tree.sql(dialect), "label": 0, "fault": fault.__name__}
        except SqlglotError:
            return None
    return None
