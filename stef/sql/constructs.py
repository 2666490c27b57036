"""What a statement is built of: how often each construct stands in it, and constructs that defeat themselves.

Only what re-rendering a statement leaves as it is: no layout, no spelling, no names of aliases.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from types import MappingProxyType

from sqlglot import exp

from stef.names import tokens
from stef.sql.nodes import Nodes, holds, kinds, named, qualifier
from stef.sql.unrunnable import conjuncts

_COUNTED: Mapping[type[exp.Expr], str] = MappingProxyType(
    {
        exp.Select: "select", exp.Join: "join", exp.Count: "count", exp.Sum: "sum", exp.Avg: "avg", exp.Max: "max",
        exp.Min: "min", exp.Div: "quotient", exp.Mul: "product", exp.Sub: "difference", exp.Like: "like",
        exp.EQ: "equal", exp.NEQ: "unequal", exp.Or: "or", exp.Not: "not", exp.Cast: "cast", exp.Round: "round",
        exp.Group: "group", exp.Having: "having", exp.Order: "order", exp.Ordered: "order_key", exp.Limit: "limit",
        exp.Window: "window", exp.Except: "except", exp.Intersect: "intersect", exp.Union: "union",
    }
)  # fmt: skip
_COMPARISONS = kinds(exp.EQ, exp.GT, exp.GTE, exp.LT, exp.LTE)
_SET_OPERATIONS = kinds(exp.SetOperation)
_AGGREGATES = kinds(exp.AggFunc)
_QUERIES = kinds(exp.Query)
_EXTREMES = kinds(exp.Max, exp.Min)
_TEXTS = kinds(exp.National, exp.RawString, exp.UnicodeString)
_SOURCES = (exp.From, exp.Join)
_KEYS = frozenset({"id", "code", "key", "no", "number"})


def constructs(tree: exp.Query, nodes: Nodes) -> dict[str, int]:
    """Construct → how often it stands in a statement; what is not there is absent.

    Beside plain counts: `unequal_branches` (a set operation of selects with different widths: refused by every
    database), `bound_twice` (one column is held equal to two of one other source), `odd_comparison` (a column against
    another one that a query gives, with no word in common), `unbound_extreme` (the maximum of some rows, compared with
    all).
    """
    counted = {_COUNTED[kind]: len(found) for kind, found in nodes.kinds.items() if kind in _COUNTED}
    firsts: dict[int, exp.Expr] = {}
    unequal = sum(int(_is_unequal(node, firsts)) for node in nodes.select(_SET_OPERATIONS))
    top = _first_select(tree, firsts)
    outputs = {} if top is None else _outputs(top)
    found = {**counted, **_special(nodes), **_against_queries(nodes), **outputs, "unequal_branches": unequal}
    return {name: count for name, count in sorted(found.items()) if count}


def _special(nodes: Nodes) -> Mapping[str, int]:
    """What a count of node types does not tell."""
    literals, there = nodes.kinds.get(exp.Literal, ()), nodes.kinds
    texts = sum(node.args["is_string"] for node in literals)
    return {
        "text_literal": texts + len(nodes.select(_TEXTS)),
        "number_literal": len(literals) - texts,
        "count_distinct": sum(isinstance(node.this, exp.Distinct) for node in there.get(exp.Count, ())),
        "left_join": sum((node.args.get("side") or "").upper() == "LEFT" for node in there.get(exp.Join, ())),
        "descending": sum(bool(node.args.get("desc")) for node in there.get(exp.Ordered, ())),
        "subquery": sum(not isinstance(node.parent, _SOURCES) for node in there.get(exp.Subquery, ())),
        "bound_twice": sum(_bound_twice(node) for node in there.get(exp.Select, ())),
    }


def _outputs(top: exp.Select) -> Mapping[str, int]:
    """What the statement's own outputs are."""
    made = [item for item in top.expressions if holds(item, _AGGREGATES)]
    keys = top.args["group"].expressions if top.args.get("group") else []
    shown = {item.name.lower() for item in top.expressions if isinstance(item.unalias(), exp.Column)} if keys else set()
    grouped = {column.name.lower() for key in keys for column in key.find_all(exp.Column)}
    bare = bool(made) and len(made) == len(top.expressions) and not keys
    return {
        "figure_output": len(made),
        "sorted_single_row": int(bare and top.args.get("order") is not None),
        "key_not_shown": len(grouped - shown) if grouped else 0,
        "shown_not_key": len(shown - grouped) if grouped else 0,
    }


def _first_select(tree: exp.Expr, known: dict[int, exp.Expr]) -> exp.Select | None:
    """The leftmost select; `known` keeps what is passed on the way, for a union of a thousand is a thousand deep."""
    passed = []
    while isinstance(tree, exp.SetOperation | exp.Subquery) and id(tree) not in known:
        passed.append(id(tree))
        tree = tree.this
    tree = known.get(id(tree), tree)
    known.update(dict.fromkeys(passed, tree))
    return tree if isinstance(tree, exp.Select) else None


def _is_unequal(node: exp.Expr, known: dict[int, exp.Expr]) -> bool:
    sides = [_first_select(node.this, known), _first_select(node.expression, known)]
    widths = {len(side.expressions) for side in sides if side is not None and not side.is_star}
    return len(widths) > 1 and None not in sides


def _bound_twice(node: exp.Expr) -> int:
    """Columns that a select holds equal to two columns of one other source: one of them is mostly a slip."""
    where = node.args.get("where")
    parts = [join.args["on"] for join in node.args.get("joins") or [] if join.args.get("on") is not None]
    if where is not None:
        parts.append(where.this)
    equal = [found for part in parts for found in conjuncts(part) if isinstance(found, exp.EQ)]
    pairs = [(item.this, item.expression) for item in equal if isinstance(item.this, exp.Column)]
    pairs = [(left, right) for left, right in pairs if isinstance(right, exp.Column)]
    if len(pairs) < 2:
        return 0
    held: dict[tuple[str, str, str], set[str]] = defaultdict(set)
    for left, right in (sides for pair in pairs for sides in (pair, pair[::-1])):
        here, there = qualifier(left).lower(), qualifier(right).lower()
        if here and there and here != there:
            held[here, named(left).lower(), there].add(named(right).lower())
    return sum(len(names) > 1 for names in held.values())


def _against_queries(nodes: Nodes) -> Mapping[str, int]:
    """Columns compared with what a query gives."""
    found = {"odd_comparison": 0, "unbound_extreme": 0}
    if exp.Select not in nodes.kinds or len(nodes.kinds[exp.Select]) < 2:
        return found
    for node in nodes.select(_COMPARISONS):
        inner = node.expression.this if isinstance(node.expression, exp.Subquery) else node.expression
        if isinstance(inner, exp.Select) and isinstance(node.this, exp.Column):
            given = [column.name.lower() for item in inner.expressions for column in item.find_all(exp.Column)]
            found["odd_comparison"] += bool(given) and not _alike(node.this.name.lower(), given[0])
            found["unbound_extreme"] += holds(inner, _EXTREMES) and _is_unbound(node, inner)
    return found


def _alike(left: str, right: str) -> bool:
    one, other = tokens(left), tokens(right)
    return bool(set(one) & set(other)) or bool({*one[-1:], *other[-1:]} & _KEYS) or left.endswith("id")


def _is_unbound(node: exp.Expr, inner: exp.Select) -> bool:
    """Whether the query looks at some rows only, and the select around it is not held to the same."""
    outer = node.find_ancestor(exp.Select)
    within = _filtered(inner)
    return bool(within) and outer is not None and not within <= _filtered(outer)


def _filtered(node: exp.Select) -> set[str]:
    """Columns of a select's own WHERE."""
    where = node.args.get("where")
    if where is None:
        return set()
    conditions = [item for item in conjuncts(where.this) if not holds(item, _QUERIES)]
    return {column.name.lower() for item in conditions for column in item.find_all(exp.Column)}
