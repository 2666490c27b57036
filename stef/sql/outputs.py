"""What a select puts out: columns and the aggregates in them."""

from __future__ import annotations

from sqlglot import exp

from stef.spec import Aggregation, Projection
from stef.sql.nodes import kinds, named, qualifier, shallow
from stef.sql.rendering import shown
from stef.sql.targets import Names, aggregate_name, target

_PLAIN = (exp.Column, exp.Literal, exp.Star)
_QUOTIENTS = kinds(exp.Div, exp.IntDiv, exp.SafeDivide)
_SHARED = (exp.Case, exp.If, exp.Predicate)


def bare(node: exp.Expr) -> exp.Expr:
    """The expression under an alias."""
    return node.this if isinstance(node, exp.Alias) else node


def is_plain(node: exp.Expr) -> bool:
    """Whether an output is a column, a literal or a star, and nothing is done to it."""
    return isinstance(bare(node), _PLAIN)


def is_star(node: exp.Expr) -> bool:
    """Whether an output stands for all columns (`*`, `t.*`)."""
    return isinstance(node, exp.Star) or (isinstance(node, exp.Column) and isinstance(node.this, exp.Star))


def columns_in(node: exp.Expr) -> tuple[str, ...]:
    """Names of the columns in an expression, each once, queries inside it left out."""
    if isinstance(node, exp.Column):
        return (named(node),)
    return tuple(dict.fromkeys(named(inner) for inner in shallow(node) if isinstance(inner, exp.Column)))


def written(node: exp.Expr, names: Names) -> str:
    """A column as written, without the qualifier when it is an alias of this select; a nested field keeps its path."""
    if isinstance(node, exp.Column):
        before = qualifier(node)
        known = not before or before.lower() in names.relations
        return named(node) if known else f"{before}.{named(node)}"
    return shown(node)


def aggregates(node: exp.Expr, names: Names) -> list[Aggregation]:
    """The aggregates in an expression, a ratio of two as one more."""
    if isinstance(node, _PLAIN):
        return []
    found: list[Aggregation] = []
    nodes = shallow(node)
    for inner in nodes:
        name = aggregate_name(inner)
        if not name or (isinstance(inner.parent, exp.Window) and inner is inner.parent.this and inner is not node):
            continue
        whole_call = inner.parent if isinstance(inner.parent, exp.WithinGroup) and inner is not node else inner
        about = target(whole_call, names)
        of = about.column if about is not None else ""
        distinct = about is not None and about.distinct
        found.append(Aggregation(function=name, of=of or "*", distinct=distinct, text=shown(inner)))
    if any(_is_ratio(inner) for inner in nodes):
        found.insert(0, Aggregation(function="ratio", text=shown(node)))
    return found


def _is_ratio(node: exp.Expr) -> bool:
    if type(node) in _QUOTIENTS:
        sides = (node.this, node.expression)
        return all(any(aggregate_name(n) or isinstance(n, exp.Query) for n in shallow(side)) for side in sides)
    return isinstance(node, exp.Avg) and isinstance(node.this, _SHARED)


def projection(node: exp.Expr, names: Names, inside: list[Aggregation]) -> Projection:
    """One output column.

    Args:
        node: The output, alias and all.
        names: Of the select.
        inside: Its aggregates.
    """
    inner = bare(node)
    columns = columns_in(inner)
    functions = tuple(dict.fromkeys(item.function for item in inside))
    if not functions and isinstance(inner, exp.Column):
        behind = target(inner, names)
        if behind is not None and behind.aggregate:
            functions = (behind.aggregate,)
    # A function that sqlglot does not know gives its name, in letters that mean nothing.
    given = node.alias or (inner.name.lower() if isinstance(inner, exp.Anonymous) else node.name)
    name = given or (columns[0] if len(columns) == 1 and not functions else "")
    return Projection(name=name, columns=columns, aggregates=functions, text=shown(node))
