"""Expressions as text for reports.

Rendering by sqlglot costs more than parsing; most conditions are a column, an operator and a literal, and those are
written here.
"""

from __future__ import annotations

from sqlglot import exp
from sqlglot.errors import SqlglotError

_MAX_TEXT = 200
_OPERATORS: dict[type[exp.Expr], str] = {
    exp.EQ: "=", exp.NEQ: "<>", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">=", exp.And: "AND", exp.Or: "OR",
    exp.Like: "LIKE",
}  # fmt: skip
_CALLS: dict[type[exp.Expr], str] = {exp.Count: "COUNT", exp.Sum: "SUM", exp.Avg: "AVG", exp.Min: "MIN", exp.Max: "MAX"}
# Longer chains are cut anyway; their text is the beginning of the list.
_MAX_MEMBERS = 40


def shown(node: exp.Expr) -> str:
    """An expression as text, cut to what a report shows."""
    written = _simple(node, 0)
    if written is None:
        written = _long(node) or _rendered(node)
    return written if len(written) <= _MAX_TEXT else written[: _MAX_TEXT - 1] + "…"


def _rendered(node: exp.Expr) -> str:
    """Sqlglot's text; the kind of node where sqlglot cannot write what it read (a function without its argument)."""
    try:
        return node.sql()
    except (SqlglotError, ValueError, AttributeError, TypeError, KeyError, IndexError):
        return type(node).__name__.upper()


def _simple(node: object, depth: int) -> str | None:
    """The text of a plain expression; None when sqlglot must write it."""
    if not isinstance(node, exp.Expr) or depth > 4 or node.comments:
        return None
    if isinstance(node, exp.Column):
        return _column(node)
    if isinstance(node, exp.Literal):
        return "'" + node.name.replace("'", "''") + "'" if node.is_string else node.name
    if isinstance(node, exp.Star) and not any(node.args.values()):
        return "*"
    if (operator := _OPERATORS.get(type(node))) is not None and not node.args.get("negate"):
        left, right = _simple(node.args["this"], depth + 1), _simple(node.args.get("expression"), depth + 1)
        return None if left is None or right is None else f"{left} {operator} {right}"
    if isinstance(node, exp.Paren):
        inner = _simple(node.this, depth + 1)
        return None if inner is None else f"({inner})"
    if (name := _CALLS.get(type(node))) is not None and not node.expressions:
        inner = _simple(node.this, depth + 1)
        return None if inner is None else f"{name}({inner})"
    if isinstance(node, exp.Alias | exp.Ordered):
        return _renamed(node, depth)
    return None


def _column(node: exp.Column) -> str | None:
    parts = node.parts
    if any(not isinstance(part, exp.Identifier) for part in parts):
        return None
    return ".".join(
        '"' + part.name.replace('"', '""') + '"' if part.args.get("quoted") else part.name for part in parts
    )


def _renamed(node: exp.Expr, depth: int) -> str | None:
    inner = _simple(node.this, depth + 1)
    if inner is None:
        return None
    if isinstance(node, exp.Alias):
        alias = node.args.get("alias")
        plain = isinstance(alias, exp.Identifier) and not alias.args.get("quoted")
        return f"{inner} AS {alias.name}" if plain and isinstance(alias, exp.Identifier) else None
    return f"{inner} DESC" if node.args.get("desc") else inner


def _long(node: exp.Expr) -> str | None:
    """The beginning of a list of thousands: rendering it whole would cost seconds."""
    if not isinstance(node, exp.In) or len(node.expressions) <= _MAX_MEMBERS:
        return None
    members = ", ".join(member.sql() for member in node.expressions[:_MAX_MEMBERS])
    return f"{node.this.sql()} IN ({members}, …)"
