"""The nodes of a tree, in fewer steps than sqlglot's own walk and properties: every statement is looked at often."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlglot import exp

Kinds = frozenset[type[exp.Expr]]


def kinds(*types: type[exp.Expr]) -> Kinds:
    """Some types of nodes and all their subtypes."""
    below = (kinds(*kind.__subclasses__()) for kind in types)
    return frozenset(types).union(*below)


@dataclass(frozen=True, slots=True)
class Nodes:
    """All nodes of a tree, level by level, and the same by their exact type."""

    all: Sequence[exp.Expr]
    kinds: Mapping[type[exp.Expr], Sequence[exp.Expr]]

    @classmethod
    def of(cls, *trees: exp.Expr) -> Nodes:
        """Walk trees, once for everyone who looks for something in them."""
        found = [node for tree in trees for node in every(tree)]
        kinds: dict[type[exp.Expr], list[exp.Expr]] = defaultdict(list)
        for node in found:
            kinds[type(node)].append(node)
        return cls(found, kinds)

    def select(self, wanted: Kinds) -> Sequence[exp.Expr]:
        """The nodes of some types, in order."""
        there = wanted.intersection(self.kinds)
        if len(there) < 2:
            return self.kinds[next(iter(there))] if there else ()
        return [node for node in self.all if type(node) in there]


NO_NODES = Nodes((), {})


def children(node: exp.Expr) -> list[exp.Expr]:
    """The nodes right below one, in their order."""
    found: list[exp.Expr] = []
    for value in node.args.values():
        if type(value) is list:
            found += [item for item in value if isinstance(item, _ANY)]
        elif value is not None and isinstance(value, _ANY):
            found.append(value)
    return found


def every(tree: exp.Expr) -> list[exp.Expr]:
    """All nodes of a tree, level by level."""
    found = [tree]
    for node in found:
        if not is_leaf(node):
            found += children(node)
    return found


def shallow(node: exp.Expr) -> list[exp.Expr]:
    """Nodes of an expression, depth first, without those of queries inside it (the queries themselves are given)."""
    if is_leaf(node):
        return [node]
    found: list[exp.Expr] = []
    stack = [node]
    while stack:
        current = stack.pop()
        found.append(current)
        if not is_leaf(current) and not isinstance(current, exp.Query):
            stack += reversed(children(current))
    return found


def holds(node: exp.Expr, wanted: Kinds) -> bool:
    """Whether a node is of one of some types, or has one of them anywhere below it."""
    found = [node]
    for inner in found:
        if type(inner) in wanted:
            return True
        if not is_leaf(inner):
            found += children(inner)
    return False


def is_leaf(node: exp.Expr) -> bool:
    """Whether a node is a literal, or a plain column: below these stand only the parts of its name."""
    kind = type(node)
    return kind is _NAME or kind is _LITERAL or (kind is _COLUMN and type(node.args["this"]) is _NAME)


def named(column: exp.Expr) -> str:
    """The name of a column, as written."""
    part = column.args.get("this")
    return part.args["this"] if type(part) is _NAME else column.name


def qualifier(column: exp.Expr) -> str:
    """What stands right before a column's name, as written; "" when nothing does."""
    part = column.args.get("table")
    return "" if part is None else part.args["this"] if type(part) is _NAME else column.text("table")


def called(source: exp.Expr) -> str:
    """The alias of a source, else its own name, as written."""
    alias = source.args.get("alias")
    part = alias.args.get("this") if type(alias) is _ALIAS else source.args.get("this") if not alias else None
    return part.args["this"] if type(part) is _NAME else source.alias_or_name


_ANY = exp.Expr
_ALIAS = exp.TableAlias
_NAME = exp.Identifier
_LITERAL = exp.Literal
_COLUMN = exp.Column
