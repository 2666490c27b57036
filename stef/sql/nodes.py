"""The nodes of a tree, in fewer steps than sqlglot's own walk: every statement is walked several times."""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp


def children(node: exp.Expr) -> list[exp.Expr]:
    """The nodes right below one, in their order."""
    found: list[exp.Expr] = []
    for value in node.args.values():
        if isinstance(value, list):
            found += [item for item in value if isinstance(item, exp.Expr)]
        elif isinstance(value, exp.Expr):
            found.append(value)
    return found


def every(tree: exp.Expr) -> list[exp.Expr]:
    """All nodes of a tree, level by level."""
    found = [tree]
    for node in found:
        if not is_leaf(node):
            found += children(node)
    return found


def shallow(node: exp.Expr) -> Iterator[exp.Expr]:
    """Nodes of an expression without those of queries inside it (the queries themselves are given)."""
    if is_leaf(node):
        yield node
        return
    stack = [node]
    while stack:
        current = stack.pop()
        yield current
        if not is_leaf(current) and not isinstance(current, exp.Query):
            stack += reversed(children(current))


def is_leaf(node: exp.Expr) -> bool:
    """Whether a node is a literal, or a plain column: below these stand only the parts of its name."""
    kind = type(node)
    return kind is exp.Identifier or kind is exp.Literal or (kind is exp.Column and type(node.args["this"]) is _NAME)


_NAME = exp.Identifier
