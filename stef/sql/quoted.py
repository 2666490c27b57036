"""Texts in double quotes, which SQLite takes where no column has the name."""

from __future__ import annotations

from sqlglot import exp

_COMPARED = (exp.EQ, exp.NEQ, exp.Like, exp.GT, exp.GTE, exp.LT, exp.LTE)


def texts_for_names(tree: exp.Expr, dialect: str) -> None:
    """Make texts of the quoted names on the right of comparisons, in place.

    Only where SQLite would read a text: an unqualified name that the statement uses as a name nowhere else. Names in ON
    stay, since they are mostly keys.
    """
    if dialect != "sqlite":
        return
    for node in list(tree.find_all(*_COMPARED, exp.In)):
        if isinstance(node.find_ancestor(exp.Join, exp.Select), exp.Join):
            continue
        sides = node.expressions if isinstance(node, exp.In) else [node.expression]
        for side in sides:
            if _is_quoted(side) and not isinstance(node.this, exp.Literal) and not _is_used(side, tree):
                side.replace(exp.Literal.string(side.name))


def _is_quoted(node: exp.Expr) -> bool:
    bare = isinstance(node, exp.Column) and not node.table
    return bare and isinstance(node.this, exp.Identifier) and bool(node.this.args.get("quoted"))


def _is_used(name: exp.Expr, tree: exp.Expr) -> bool:
    """Whether the statement has the name elsewhere, as a column that is plainly one or as an alias."""
    wanted = name.name.lower()
    for node in tree.find_all(exp.Column, exp.Alias):
        if isinstance(node, exp.Alias):
            if node.alias.lower() == wanted:
                return True
        elif node is not name and node.name.lower() == wanted and not _stands_right(node):
            return True
    return False


def _stands_right(node: exp.Expr) -> bool:
    parent = node.parent
    return (isinstance(parent, _COMPARED) and parent.expression is node) or (
        isinstance(parent, exp.In) and parent.this is not node
    )
