"""What a database would refuse or cut short, and a parser takes: names without a source, whole-number division."""

from __future__ import annotations

from sqlglot import exp

from stef.sql.nodes import Nodes, every, kinds, qualifier
from stef.sql.rendering import shown

# Where a dot cannot reach into a column, so that what stands before it names a source.
_FLAT = frozenset({"sqlite", "mysql", "postgres", "redshift", "tsql", "oracle"})
# Where dividing two whole numbers drops the rest.
_TRUNCATING = frozenset({"sqlite", "postgres", "redshift", "tsql", "trino", "presto", "athena"})
_COLUMNS = kinds(exp.Column)
_SOURCES = kinds(exp.Table, exp.Subquery, exp.CTE, exp.Lateral, exp.Unnest, exp.Values)


def undefined(nodes: Nodes, dialect: str) -> tuple[str, ...]:
    """Qualifiers of columns that name no table, alias or table expression of the statement, in order.

    Args:
        nodes: All nodes of the statement.
        dialect: That read it.
    """
    if dialect not in _FLAT:
        return ()
    columns = (column for column in nodes.select(_COLUMNS) if not column.args.get("db"))
    used = dict.fromkeys(name.lower() for column in columns if (name := qualifier(column)))
    known = {name.lower() for node in nodes.select(_SOURCES) for name in (node.alias, node.name)} if used else ()
    return tuple(name for name in used if name not in known)


def truncated(nodes: Nodes, dialect: str) -> tuple[str, ...]:
    """Quotients of two counts, which this dialect cuts to a whole number (mostly 0).

    Args:
        nodes: All nodes of the statement.
        dialect: That read it.
    """
    if dialect not in _TRUNCATING:
        return ()
    quotients = nodes.kinds.get(exp.Div, ())
    return tuple(shown(node) for node in quotients if _is_whole(node.this) and _is_whole(node.expression))


def _is_whole(side: exp.Expr) -> bool:
    """Whether a side counts and nothing in it makes a fraction."""
    counts = False
    for node in every(side):
        if isinstance(node, exp.Cast | exp.TryCast | exp.Round) or _is_fraction(node):
            return False
        if isinstance(node, exp.AggFunc):
            if not isinstance(node, exp.Count | exp.CountIf) and not (isinstance(node, exp.Sum) and _adds_ones(node)):
                return False
            counts = True
    return counts


def _is_fraction(node: exp.Expr) -> bool:
    return isinstance(node, exp.Literal) and not node.is_string and "." in node.name


def _adds_ones(node: exp.Sum) -> bool:
    """SUM(CASE WHEN … THEN 1 ELSE 0 END), SUM(IIF(…, 1, 0)), SUM(a = b)."""
    added = node.this
    if isinstance(added, exp.Case):
        results = [branch.args.get("true") for branch in added.args["ifs"]] + [added.args.get("default")]
    elif isinstance(added, exp.If):
        results = [added.args.get("true"), added.args.get("false")]
    else:
        return isinstance(added, exp.Predicate)
    return all(result is None or isinstance(result, exp.Literal | exp.Null) for result in results)
