"""Texts in double quotes, which SQLite takes where no column has the name."""

from __future__ import annotations

from sqlglot import exp

from stef.sql.nodes import Nodes, kinds, named

_COMPARED = (exp.EQ, exp.NEQ, exp.Like, exp.GT, exp.GTE, exp.LT, exp.LTE)


_COMPARISONS = kinds(*_COMPARED, exp.In)
_NAMES = kinds(exp.Column, exp.Alias)


def texts_for_names(nodes: Nodes, dialect: str) -> bool:
    """Make texts of the quoted names on the right of comparisons, in place; True when there were some.

    Only where SQLite would read a text: an unqualified name that the statement uses as a name nowhere else. Names in ON
    stay, since they are mostly keys.

    Args:
        nodes: Of the statement.
        dialect: That read it.
    """
    if dialect != "sqlite":
        return False
    quoted = [(node, side) for node in nodes.select(_COMPARISONS) for side in _right(node) if _is_quoted(side)]
    texts = [side for node, side in quoted if _may_be_text(node) and not _is_used(side, nodes)]
    for side in texts:
        side.replace(exp.Literal.string(side.name))
    return bool(texts)


def _right(node: exp.Expr) -> list[exp.Expr]:
    return node.expressions if isinstance(node, exp.In) else [node.args["expression"]]


def _is_quoted(node: exp.Expr) -> bool:
    if not isinstance(node, exp.Column) or node.args.get("table") is not None:
        return False
    name = node.args["this"]
    return isinstance(name, exp.Identifier) and bool(name.args.get("quoted"))


def _may_be_text(node: exp.Expr) -> bool:
    """Whether a comparison is no key of a join, and has no text on its left."""
    return not isinstance(node.this, exp.Literal) and not isinstance(node.find_ancestor(exp.Join, exp.Select), exp.Join)


def _is_used(name: exp.Expr, nodes: Nodes) -> bool:
    """Whether the statement has the name elsewhere, as a column that is plainly one or as an alias."""
    wanted = name.name.lower()
    for node in nodes.select(_NAMES):
        if isinstance(node, exp.Alias):
            if node.alias.lower() == wanted:
                return True
        elif node is not name and named(node).lower() == wanted and not _stands_right(node):
            return True
    return False


def _stands_right(node: exp.Expr) -> bool:
    parent = node.parent
    return (isinstance(parent, _COMPARED) and parent.expression is node) or (
        isinstance(parent, exp.In) and parent.this is not node
    )
