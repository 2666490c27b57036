"""What a statement is built of: how often each construct stands in it, and constructs that defeat themselves.

Only what re-rendering a statement leaves as it is: no layout, no spelling, no names of aliases.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from sqlglot import exp

from stef.names import tokens
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
_COMPARISONS = (exp.EQ, exp.GT, exp.GTE, exp.LT, exp.LTE)
_EXTREMES = (exp.Max, exp.Min)
_KEYS = frozenset({"id", "code", "key", "no", "number"})


def constructs(tree: exp.Query, nodes: Sequence[exp.Expr]) -> dict[str, int]:
    """Construct → how often it stands in a statement; what is not there is absent.

    Beside plain counts: `unequal_branches` (a set operation of selects with different widths: refused by every
    database), `bound_twice` (one column is held equal to two of one other source), `odd_comparison` (a column against
    another one that a query gives, with no word in common), `unbound_extreme` (the maximum of some rows, compared with
    all).
    """
    found: Counter[str] = Counter()
    firsts: dict[int, exp.Expr] = {}
    for node in nodes:
        name = _COUNTED.get(type(node))
        if name is not None:
            found[name] += 1
        found.update(_special(node))
        if isinstance(node, exp.SetOperation):
            found["unequal_branches"] += _unequal(node, firsts)
    top = _first_select(tree, firsts)
    if top is not None:
        found.update(_outputs(top))
    return {name: count for name, count in sorted(found.items()) if count}


def _special(node: exp.Expr) -> Mapping[str, int]:
    """What a count of node types does not tell."""
    match node:
        case exp.Literal():
            return {"text_literal" if node.is_string else "number_literal": 1}
        case exp.National() | exp.RawString() | exp.UnicodeString():
            return {"text_literal": 1}
        case exp.Count() if isinstance(node.this, exp.Distinct):
            return {"count_distinct": 1}
        case exp.Join() if (node.args.get("side") or "").upper() == "LEFT":
            return {"left_join": 1}
        case exp.Ordered() if node.args.get("desc"):
            return {"descending": 1}
        case exp.Subquery() if not isinstance(node.parent, exp.From | exp.Join):
            return {"subquery": 1}
        case exp.Select():
            return {"bound_twice": _bound_twice(node)}
    return _against_query(node) if isinstance(node, _COMPARISONS) else {}


def _outputs(top: exp.Select) -> Mapping[str, int]:
    """What the statement's own outputs are."""
    made = [item for item in top.expressions if item.find(exp.AggFunc)]
    shown = {item.name.lower() for item in top.expressions if isinstance(item.unalias(), exp.Column)}
    keys = top.args["group"].expressions if top.args.get("group") else []
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


def _unequal(node: exp.SetOperation, known: dict[int, exp.Expr]) -> int:
    sides = [_first_select(node.this, known), _first_select(node.expression, known)]
    widths = {len(side.expressions) for side in sides if side is not None and not side.is_star}
    return int(len(widths) > 1 and None not in sides)


def _bound_twice(node: exp.Select) -> int:
    """Columns that a select holds equal to two columns of one other source: one of them is mostly a slip."""
    where = node.args.get("where")
    parts = [join.args["on"] for join in node.args.get("joins") or [] if join.args.get("on") is not None]
    if where is not None:
        parts.append(where.this)
    held: dict[tuple[str, str, str], set[str]] = defaultdict(set)
    for item in (found for part in parts for found in conjuncts(part)):
        left, right = item.args.get("this"), item.args.get("expression")
        if isinstance(item, exp.EQ) and isinstance(left, exp.Column) and isinstance(right, exp.Column):
            for one, other in ((left, right), (right, left)):
                if one.table and other.table and one.table.lower() != other.table.lower():
                    held[one.table.lower(), one.name.lower(), other.table.lower()].add(other.name.lower())
    return sum(len(names) > 1 for names in held.values())


def _against_query(node: exp.Expr) -> Mapping[str, int]:
    """A column compared with what a query gives."""
    inner = node.expression.this if isinstance(node.expression, exp.Subquery) else node.expression
    if not isinstance(inner, exp.Select) or not isinstance(node.this, exp.Column):
        return {}
    given = [column.name.lower() for item in inner.expressions for column in item.find_all(exp.Column)]
    return {
        "odd_comparison": int(bool(given) and not _alike(node.this.name.lower(), given[0])),
        "unbound_extreme": int(inner.find(*_EXTREMES) is not None and _is_unbound(node, inner)),
    }


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
    conditions = [item for item in conjuncts(where.this) if not item.find(exp.Query)]
    return {column.name.lower() for item in conditions for column in item.find_all(exp.Column)}
