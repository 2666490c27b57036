"""Expressions as text for reports.

Rendering by sqlglot costs more than parsing; most conditions are a column, an operator and a literal, and those are
written here.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from sqlglot import exp
from sqlglot.errors import SqlglotError

_MAX_TEXT = 200
_MAX_DEPTH = 6
_OPERATORS: dict[type[exp.Expr], str] = {
    exp.EQ: "=", exp.NEQ: "<>", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">=", exp.And: "AND", exp.Or: "OR",
    exp.Like: "LIKE", exp.Is: "IS", exp.Add: "+", exp.Sub: "-", exp.Mul: "*",
}  # fmt: skip
_CALLS: dict[type[exp.Expr], str] = {exp.Count: "COUNT", exp.Sum: "SUM", exp.Avg: "AVG", exp.Min: "MIN", exp.Max: "MAX"}
# Longer chains are cut anyway; their text is the beginning of the list.
_MAX_MEMBERS = 40


def shown(node: exp.Expr) -> str:
    """An expression as text, cut to what a report shows."""
    written = simple(node, 0)
    if written is None:
        written = _long(node) or _rendered(node)
    return written if len(written) <= _MAX_TEXT else written[: _MAX_TEXT - 1] + "…"


def _rendered(node: exp.Expr) -> str:
    """Sqlglot's text; the kind of node where sqlglot cannot write what it read (a function without its argument)."""
    try:
        return node.sql()
    except (SqlglotError, ValueError, AttributeError, TypeError, KeyError, IndexError):
        return type(node).__name__.upper()


def simple(node: object, depth: int = 0) -> str | None:
    """The text of a plain expression, as sqlglot would write it; None when sqlglot must."""
    write = _FORMS.get(type(node))
    if write is None or depth > _MAX_DEPTH or not isinstance(node, exp.Expr) or node.comments:
        return None
    return write(node, depth + 1)


def _filled(template: str, depth: int, *parts: object) -> str | None:
    """A template with the texts of its parts; None when one of them is not plain."""
    texts: list[str] = []
    for part in parts:
        text = simple(part, depth)
        if text is None:
            return None
        texts.append(text)
    return template.format(*texts)


def _has_only(node: exp.Expr, *names: str) -> bool:
    """Whether nothing but some of its parts is there."""
    return all(name in names or not value for name, value in node.args.items())


def _column(node: exp.Expr, _: int) -> str | None:
    written: list[str] = []
    for key in ("catalog", "db", "table", "this"):
        part = node.args.get(key)
        if not part:
            continue
        if type(part) is not exp.Identifier:
            return None
        name = part.args["this"]
        written.append('"' + name.replace('"', '""') + '"' if part.args.get("quoted") else name)
    return ".".join(written)


def _literal(node: exp.Expr, _: int) -> str:
    text: str = node.args["this"]
    return "'" + text.replace("'", "''") + "'" if node.args["is_string"] else text


def _star(node: exp.Expr, _: int) -> str | None:
    return "*" if _has_only(node) else None


def _operation(node: exp.Expr, depth: int) -> str | None:
    if node.args.get("negate"):
        return None
    left = simple(node.args["this"], depth)
    right = None if left is None else simple(node.args.get("expression"), depth)
    return None if right is None else f"{left} {_OPERATORS[type(node)]} {right}"


def _quotient(node: exp.Expr, depth: int) -> str | None:
    """A division; what sqlglot adds where dialects divide whole numbers differently is left to it."""
    left, right = node.args["this"], node.args.get("expression")
    if isinstance(left, exp.Div | exp.Cast) or isinstance(right, exp.Div | exp.Cast):
        return None
    return _filled("{} / NULLIF({}, 0)" if node.args.get("safe") else "{} / {}", depth, left, right)


def _call(node: exp.Expr, depth: int) -> str | None:
    inner = None if node.args.get("expressions") else simple(node.args.get("this"), depth)
    return None if inner is None else f"{_CALLS[type(node)]}({inner})"


def _alias(node: exp.Expr, depth: int) -> str | None:
    alias = node.args.get("alias")
    if not isinstance(alias, exp.Identifier) or alias.args.get("quoted"):
        return None
    inner = simple(node.this, depth)
    return None if inner is None else f"{inner} AS {alias.name}"


def _ordered(node: exp.Expr, depth: int) -> str | None:
    """A sort key; of a plain column or aggregate "ascending" goes without saying."""
    down = node.args.get("desc")
    if down is False and type(node.this) is not exp.Column and type(node.this) not in _CALLS:
        return None
    inner = simple(node.this, depth)
    return f"{inner} DESC" if down and inner is not None else inner


def _membership(node: exp.Expr, depth: int) -> str | None:
    members = node.expressions
    if not _has_only(node, "this", "expressions") or not 0 < len(members) <= _MAX_MEMBERS:
        return None
    return _filled(f"{{}} IN ({', '.join(['{}'] * len(members))})", depth, node.this, *members)


def _range(node: exp.Expr, depth: int) -> str | None:
    if node.args.get("symmetric"):
        return None
    return _filled("{} BETWEEN {} AND {}", depth, node.this, node.args["low"], node.args["high"])


def _case(node: exp.Expr, depth: int) -> str | None:
    branches = node.args["ifs"] if isinstance(node, exp.Case) else [node]
    other = node.args.get("default" if isinstance(node, exp.Case) else "false")
    if (isinstance(node, exp.Case) and node.this) or any(branch.comments for branch in branches):
        return None
    parts = [part for branch in branches for part in (branch.this, branch.args.get("true"))]
    whens = " ".join(["WHEN {} THEN {}"] * len(branches))
    if other is None:
        return _filled(f"CASE {whens} END", depth, *parts)
    return _filled(f"CASE {whens} ELSE {{}} END", depth, *parts, other)


def _cast(node: exp.Expr, depth: int) -> str | None:
    kind = node.args["to"]
    if not _has_only(node, "this", "to") or not isinstance(kind, exp.DataType) or not _has_only(kind, "this"):
        return None
    inner = simple(node.this, depth)
    return None if inner is None else f"CAST({inner} AS {_type(kind.this)})"


@lru_cache(maxsize=256)
def _type(kind: exp.DType) -> str:
    return exp.DataType(this=kind).sql()


def _cap(node: exp.Expr, depth: int) -> str | None:
    return _filled("LIMIT {}", depth, node.args.get("expression")) if _has_only(node, "expression") else None


def _distinct(node: exp.Expr, depth: int) -> str | None:
    one = _has_only(node, "expressions") and len(node.expressions) == 1
    return _filled("DISTINCT {}", depth, node.expressions[0]) if one else None


_FORMS: dict[type, Callable[[exp.Expr, int], str | None]] = {
    exp.Column: _column,
    exp.Literal: _literal,
    exp.Star: _star,
    exp.Null: lambda _, __: "NULL",
    exp.Boolean: lambda node, _: "TRUE" if node.this else "FALSE",
    exp.Paren: lambda node, depth: _filled("({})", depth, node.this),
    exp.Not: lambda node, depth: _filled("NOT {}", depth, node.this),
    exp.Ordered: _ordered,
    exp.Alias: _alias,
    exp.Div: _quotient,
    exp.In: _membership,
    exp.Between: _range,
    exp.Case: _case,
    exp.If: _case,
    exp.Cast: _cast,
    exp.Limit: _cap,
    exp.Distinct: _distinct,
    **dict.fromkeys(_OPERATORS, _operation),
    **dict.fromkeys(_CALLS, _call),
}


def _long(node: exp.Expr) -> str | None:
    """The beginning of a list of thousands: rendering it whole would cost seconds."""
    if not isinstance(node, exp.In) or len(node.expressions) <= _MAX_MEMBERS:
        return None
    members = ", ".join(member.sql() for member in node.expressions[:_MAX_MEMBERS])
    return f"{node.this.sql()} IN ({members}, …)"
