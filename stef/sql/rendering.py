"""Expressions as text for reports.

Rendering by sqlglot costs more than parsing; most conditions are a column, an operator and a literal, and those are
written here.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from sqlglot import exp
from sqlglot.errors import SqlglotError

from stef.sql import querytext
from stef.sql.nodes import holds, kinds
from stef.sql.querytext import has_only

_MAX_TEXT = 200
_MAX_DEPTH = 20
_OPERATORS: dict[type[exp.Expr], str] = {
    exp.EQ: "=", exp.NEQ: "<>", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">=", exp.And: "AND", exp.Or: "OR",
    exp.Like: "LIKE", exp.Is: "IS", exp.Add: "+", exp.Sub: "-", exp.Mul: "*",
    exp.DPipe: "||",
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
    texts = querytext.texts_of(parts, simple, depth)
    return None if texts is None else template.format(*texts)


def _column(node: exp.Expr, depth: int) -> str | None:
    written: list[str] = []
    for key in ("catalog", "db", "table", "this"):
        part = node.args.get(key)
        if not part:
            continue
        if type(part) is not exp.Identifier:
            return None
        written.append(_identifier(part, depth))
    return ".".join(written)


def _literal(node: exp.Expr, _: int) -> str:
    text: str = node.args["this"]
    return "'" + text.replace("'", "''") + "'" if node.args["is_string"] else text


def _star(node: exp.Expr, _: int) -> str | None:
    return "*" if has_only(node) else None


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


def _count(node: exp.Expr, depth: int) -> str | None:
    if node.args.get("this") is not None and not node.args.get("expressions"):
        return _call(node, depth)
    return querytext.call("COUNT")(node, simple, depth)


def _identifier(node: exp.Expr, _: int) -> str:
    name: str = node.args["this"]
    return '"' + name.replace('"', '""') + '"' if node.args.get("quoted") else name


def _alias(node: exp.Expr, depth: int) -> str | None:
    alias = node.args.get("alias")
    if not isinstance(alias, exp.Identifier):
        return None
    inner = simple(node.this, depth)
    return None if inner is None else f"{inner} AS {_identifier(alias, depth)}"


def _ordered(node: exp.Expr, depth: int) -> str | None:
    """A sort key; of columns and usual aggregates "ascending" goes without saying, and so do NULLS."""
    down, inner = node.args.get("desc"), simple(node.this, depth)
    said = down is False and type(node.this) is not exp.Column and type(node.this) not in _CALLS
    if inner is None or not (said or holds(node.this, _SAID_IN_FULL)):
        return f"{inner} DESC" if inner is not None and down else inner
    return inner + querytext.direction(node) if has_only(node, "this", "desc", "nulls_first") else None


def _membership(node: exp.Expr, depth: int) -> str | None:
    members = node.expressions
    if not members and has_only(node, "this", "query"):
        return _filled("{} IN {}", depth, node.this, node.args.get("query"))
    if not has_only(node, "this", "expressions") or not 0 < len(members) <= _MAX_MEMBERS:
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
    if not has_only(node, "this", "to") or not isinstance(kind, exp.DataType) or not has_only(kind, "this"):
        return None
    inner = simple(node.this, depth)
    return None if inner is None else f"CAST({inner} AS {_type(kind.this)})"


@lru_cache(maxsize=256)
def _type(kind: exp.DType) -> str:
    return exp.DataType(this=kind).sql()


def _cap(node: exp.Expr, depth: int) -> str | None:
    return _filled("LIMIT {}", depth, node.args.get("expression")) if has_only(node, "expression") else None


def _distinct(node: exp.Expr, depth: int) -> str | None:
    one = has_only(node, "expressions") and len(node.expressions) == 1
    return _filled("DISTINCT {}", depth, node.expressions[0]) if one else None


def _exists(node: exp.Expr, depth: int) -> str | None:
    inner = simple(node.this, depth) if has_only(node, "this") and isinstance(node.this, exp.Select) else None
    return None if inner is None else f"EXISTS({inner})"


def _by(write: Callable[[exp.Expr, querytext.Write, int], str | None]) -> Callable[[exp.Expr, int], str | None]:
    return lambda node, depth: write(node, simple, depth)


_QUERIES: dict[type[exp.Expr], Callable[[exp.Expr, querytext.Write, int], str | None]] = {
    exp.Select: querytext.select,
    exp.Subquery: querytext.subquery,
    exp.Table: querytext.table,
    exp.Join: querytext.join,
    exp.From: querytext.clause("FROM"),
    exp.Where: querytext.clause("WHERE"),
    exp.Having: querytext.clause("HAVING"),
    exp.Group: querytext.group,
    exp.Order: querytext.order,
}
# Functions that sqlglot writes by their name and arguments alone.
_FUNCTIONS: dict[type[exp.Expr], str] = {
    exp.Substring: "SUBSTRING", exp.TimeToStr: "TIME_TO_STR", exp.CountIf: "COUNT_IF", exp.Year: "YEAR",
    exp.Round: "ROUND", exp.Length: "LENGTH", exp.Month: "MONTH", exp.Coalesce: "COALESCE", exp.Lower: "LOWER",
    exp.Upper: "UPPER", exp.Abs: "ABS", exp.Replace: "REPLACE", exp.Nullif: "NULLIF",
    exp.ApproxDistinct: "APPROX_DISTINCT", exp.DayOfWeek: "DAY_OF_WEEK",
}  # fmt: skip

_SAID_IN_FULL = kinds(*_QUERIES, *_FUNCTIONS, exp.DPipe)
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
    exp.Identifier: _identifier,
    exp.Exists: _exists,
    **dict.fromkeys(_OPERATORS, _operation),
    **dict.fromkeys(_CALLS, _call),
    exp.Count: _count,
    **{kind: _by(write) for kind, write in _QUERIES.items()},
    **{kind: _by(querytext.call(name)) for kind, name in _FUNCTIONS.items()},
}


def _long(node: exp.Expr) -> str | None:
    """The beginning of a list of thousands: rendering it whole would cost seconds."""
    if not isinstance(node, exp.In) or len(node.expressions) <= _MAX_MEMBERS:
        return None
    members = ", ".join(member.sql() for member in node.expressions[:_MAX_MEMBERS])
    return f"{node.this.sql()} IN ({members}, …)"
