"""Boolean expressions → canonical filters.

Source of the canonical forms: the design's list (negations pushed down, OR chains on one column as IN, bounds of time
as one half-open interval, every spelling of a year or a month as its range).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from sqlglot import exp

from stef.spec import Effect, Filter, Op
from stef.sql.ages import aged
from stef.sql.comparing import built, compared
from stef.sql.constants import is_always_true, is_constant
from stef.sql.merging import about, membership, merge_bounds, outside, united
from stef.sql.nodes import holds, kinds
from stef.sql.operands import bound, value_of
from stef.sql.patterns import LIKES, containment, contains, is_containment, like, pattern
from stef.sql.reading import Place, Ranked, Reading
from stef.sql.rendering import shown
from stef.sql.targets import Target, target
from stef.timespan import Interval
from stef.values import Boolean, Column, Null, Number, NumberRange, Placeholder, Text, Unknown, Unresolved, Value, fold

_COMPARE: dict[type[exp.Expr], Op] = {
    exp.EQ: Op.EQ, exp.NEQ: Op.NE, exp.LT: Op.LT, exp.LTE: Op.LE, exp.GT: Op.GT, exp.GTE: Op.GE,
    exp.NullSafeEQ: Op.EQ, exp.NullSafeNEQ: Op.NE,
}  # fmt: skip
_FLIPPED = {Op.LT: Op.GT, Op.LE: Op.GE, Op.GT: Op.LT, Op.GE: Op.LE, Op.EQ: Op.EQ, Op.NE: Op.NE}
_RANKS = (exp.RowNumber, exp.Rank, exp.DenseRank)
_LEAVES = (exp.Column, exp.Literal, exp.Placeholder, exp.Parameter, exp.Boolean, exp.Null)
_LISTS = (exp.Array, exp.Tuple)
_CONNECTIVES = (exp.Or, exp.And)
_QUANTIFIERS = (exp.Any, exp.All)
_QUERIES = kinds(exp.Query)
_MAX_TERMS = 20_000


def conditions(node: exp.Expr, place: Place, reading: Reading) -> list[Filter]:
    """Read a boolean expression whose terms all have to hold."""
    return merge_bounds(_all(node, place, reading, negated=False))


def _all(node: exp.Expr, place: Place, reading: Reading, *, negated: bool) -> list[Filter]:
    found: list[Filter] = []
    for term, flipped in _terms(node, negated=negated):
        found.extend(_term(term, place, reading, negated=flipped))
        if len(found) > _MAX_TERMS:
            break
    return found


def _terms(node: exp.Expr, *, negated: bool) -> Iterator[tuple[exp.Expr, bool]]:
    """The terms of a conjunction, negations pushed down (De Morgan), without recursion on long chains."""
    stack = [(node, negated)]
    while stack:
        term, flipped = stack.pop()
        if isinstance(term, exp.Or if flipped else exp.And):
            stack += [(term.expression, flipped), (term.this, flipped)]
        elif isinstance(term, exp.Paren):
            stack.append((term.this, flipped))
        elif isinstance(term, exp.Not):
            stack.append((term.this, not flipped))
        else:
            yield term, flipped


def _term(node: exp.Expr, place: Place, reading: Reading, *, negated: bool) -> list[Filter]:
    if isinstance(node, _CONNECTIVES):
        return _any(node, place, reading, negated=negated)
    # sqlglot writes `NOT LIKE` and, in some dialects, `IS NOT NULL` as one node.
    negated = negated != bool(node.args.get("negate"))
    if (op := _COMPARE.get(type(node))) is not None:
        return _comparison(node, op.negated if negated else op, place, reading)
    if isinstance(node, LIKES):
        return _like(node, place, reading, negated=negated)
    if isinstance(node, exp.Exists) and not isinstance(node.expression, exp.Lambda):
        return list(reading.subquery(node, place, negated))
    handler = _HANDLERS.get(type(node), _truth)
    return handler(node, place, reading, negated)


# ── OR ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _branches(node: exp.Expr, *, negated: bool) -> list[tuple[exp.Expr, bool]]:
    """The branches of a disjunction (of a negated conjunction), in order, without recursion."""
    kind: type[exp.Expr] = exp.And if negated else exp.Or
    stack, found = [node], []
    while stack:
        term = stack.pop()
        bare = term.unnest() if isinstance(term, exp.Paren) else term
        if isinstance(bare, kind):
            stack += [bare.expression, bare.this]
        else:
            found.append((term, negated))
    return found


def _any(node: exp.Expr, place: Place, reading: Reading, *, negated: bool) -> list[Filter]:
    """An OR: one filter when all branches speak of one column, else alternatives with a number of their own."""
    branches = _branches(node, negated=negated)
    groups = [merge_bounds(_all(term, place, reading, negated=flipped)) for term, flipped in branches[:_MAX_TERMS]]
    singles = [group[0] for group in groups if len(group) == 1]
    if any(is_always_true(term) is not flipped for term, flipped in branches if is_constant(term)):
        return [replace(item, effect=Effect.OR_PRECEDENCE) for group in groups for item in group]
    if len(singles) == len(groups):
        one = united(singles)
        if one is not None:
            return [one]
        nullable = [item for item in singles if item.op is not Op.IS_NULL]
        if len(nullable) < len(singles) and (one := united(nullable)) is not None:
            return [one]  # `x = 1 OR x IS NULL` keeps the unknown beside the value
        if (beyond := outside(singles)) is not None:
            return [beyond]
    elif (slipped := _precedence_slip(branches, groups)) is not None:
        return slipped
    return _alternatives(groups, reading)


def _alternatives(groups: list[list[Filter]], reading: Reading) -> list[Filter]:
    reading.alternatives += 1
    number = reading.alternatives
    return [item if item.alternative else replace(item, alternative=number) for group in groups for item in group]


def _precedence_slip(branches: list[tuple[exp.Expr, bool]], groups: list[list[Filter]]) -> list[Filter] | None:
    """`a AND b = 1 OR b = 2` without brackets: `a` does not bind the rows of the second branch.

    Only where both branches speak of one column: there the writer meant an IN.
    """
    for i, (term, negated) in enumerate(branches):
        if negated or not isinstance(term, exp.And):
            continue
        others = [item for j, group in enumerate(groups) if j != i and len(group) == 1 for item in group]
        shared = [item for item in groups[i] if any(about(item) == about(other) for other in others)]
        if not shared or len(others) != len(groups) - 1:
            continue
        one = united([*shared, *others])
        if one is not None:
            loose = [replace(item, effect=Effect.OR_PRECEDENCE) for item in groups[i] if item not in shared]
            return [*loose, one]
    return None


# ── single conditions ───────────────────────────────────────────────────────────────────────────────────────────────


def _comparison(node: exp.Expr, op: Op, place: Place, reading: Reading) -> list[Filter]:
    left, right = node.args["this"], bound(node.args["expression"], reading)
    if not (isinstance(left, _LEAVES) and isinstance(right, _LEAVES)):
        read = _elaborate(node, op, (left, right), place, reading)
        if read is not None:
            return read
    found = target(left, place.names)
    if found is None or (found.column == "" and isinstance(right, exp.Column) and not isinstance(left, exp.Column)):
        found, left, right, op = target(right, place.names), right, left, _FLIPPED[op]
        if found is None:
            return []
    value = value_of(right, place, reading)
    if isinstance(value, Column) and op is Op.EQ and _joins(found, value, place):
        return []
    if found.window is not None and isinstance(found.window.this, _RANKS):
        reading.ranked.append(Ranked(window=found.window, op=op, value=value, place=place))
        return []
    return [compared(found, op, value, right, shown(node), place)]


def _elaborate(
    node: exp.Expr, op: Op, sides: tuple[exp.Expr, exp.Expr], place: Place, reading: Reading
) -> list[Filter] | None:
    """A comparison with a list, a query, a containment, an age or a tuple in it; None when it is none of these."""
    left, right = sides
    if _is_quantified(right) and (members := _members(right)) is not None:
        return _against_list(node, op, members, place, reading)
    if _has_query(left) or _has_query(right):
        return list(reading.subquery(node, place, op is Op.NE))
    if (contained := containment(node, op, place, reading)) is not None:
        return contained
    if (age := _aged(node, op, place, reading)) is not None:
        return [age]
    return _tuple(left, right, op, place, reading) if isinstance(left, exp.Tuple) else None


def _aged(node: exp.Expr, op: Op, place: Place, reading: Reading) -> Filter | None:
    """A comparison of an age, whichever side it stands on."""
    left, right = node.args["this"], node.args["expression"]
    if isinstance(left, _LEAVES):
        return None if isinstance(right, _LEAVES) else aged(node, _FLIPPED[op], (right, left), place, reading)
    return aged(node, op, (left, right), place, reading)


def _joins(found: Target, value: Column, place: Place) -> bool:
    """Whether an equality of two columns joins two tables and so is no filter."""
    other = value.name.rpartition(".")[0]
    return place.join_keys or (bool(other) and fold(other) != fold(found.table))


def _has_query(node: exp.Expr | None) -> bool:
    if node is None or isinstance(node, _LEAVES):
        return False
    return isinstance(node, _QUANTIFIERS) or holds(node, _QUERIES)


def _is_quantified(node: exp.Expr) -> bool:
    if isinstance(node, exp.Anonymous):  # `ALL (ARRAY[…])`, which sqlglot takes for a function
        return node.name.lower() == "all" and len(node.expressions) == 1
    return isinstance(node, _QUANTIFIERS)


def _members(node: exp.Expr) -> list[exp.Expr] | None:
    """The members of `ARRAY[…]` or `ANY (ARRAY[…])`; None when it is no list."""
    inner = node.expressions[0] if isinstance(node, exp.Anonymous) else node
    inner = node.this if isinstance(node, exp.Any | exp.All) else inner
    while isinstance(inner, exp.Paren | exp.Cast):
        inner = inner.this
    if isinstance(inner, _LISTS):
        return list(inner.expressions)
    return [inner] if isinstance(inner, exp.Parameter | exp.Placeholder) else None


def _against_list(node: exp.Expr, op: Op, members: list[exp.Expr], place: Place, reading: Reading) -> list[Filter]:
    """`= ANY (ARRAY[…])` is an IN, `<> ALL (ARRAY[…])` a NOT IN."""
    found = target(node.this, place.names)
    wanted = Op.EQ if isinstance(node.expression, exp.Any) else Op.NE
    if found is None or op is not wanted:
        return []
    return _listed(found, members, node, place, reading, negated=op is Op.NE)


def _tuple(left: exp.Tuple, right: exp.Expr, op: Op, place: Place, reading: Reading) -> list[Filter]:
    if not isinstance(right, exp.Tuple) or op is not Op.EQ:
        return []
    return [
        item
        for a, b in zip(left.expressions, right.expressions, strict=False)
        for item in _comparison(exp.EQ(this=a.copy(), expression=b.copy()), op, place, reading)
    ]


def _between(node: exp.Expr, place: Place, reading: Reading, negated: bool) -> list[Filter]:
    low, high = bound(node.args["low"], reading), bound(node.args["high"], reading)
    found = target(node.this, place.names)
    if found is None:
        return []
    text = shown(node)
    if found.window is not None and isinstance(found.window.this, _RANKS):
        bounds = (Op.GE, low), (Op.LE, high)
        reading.ranked += [
            Ranked(window=found.window, op=op, value=value_of(bound, place, reading), place=place)
            for op, bound in bounds
        ]
        return []
    lower = aged(node, Op.GE, (node.this, low), place, reading)
    upper = aged(node, Op.LE, (node.this, high), place, reading)
    if lower is None or upper is None:
        lower = compared(found, Op.GE, value_of(low, place, reading), low, text, place)
        upper = compared(found, Op.LE, value_of(high, place, reading), high, text, place)
    op = Op.NOT_RANGE if negated else Op.RANGE
    if isinstance(lower.value, Interval) and isinstance(upper.value, Interval):
        return [replace(lower, op=op, value=lower.value.intersect(upper.value))]
    if isinstance(lower.value, Number) and isinstance(upper.value, Number):
        return [replace(lower, op=op, value=NumberRange(lower.value.value, upper.value.value))]
    return [] if negated else [lower, upper]


def _in(node: exp.Expr, place: Place, reading: Reading, negated: bool) -> list[Filter]:
    if node.args.get("query") is not None or node.args.get("unnest") is not None:
        return list(reading.subquery(node, place, negated))
    if isinstance(node.this, exp.Tuple):
        return _tuples(node.this, node.expressions, place, reading) if not negated else []
    found = target(node.this, place.names)
    return [] if found is None else _listed(found, node.expressions, node, place, reading, negated=negated)


def _listed(
    found: Target, expressions: list[exp.Expr], node: exp.Expr, place: Place, reading: Reading, *, negated: bool
) -> list[Filter]:
    """Membership in a list."""
    text, given = shown(node), [bound(item, reading) for item in expressions]
    items = [compared(found, Op.EQ, value_of(item, place, reading), item, text, place) for item in given]
    members = [item.value for item in items if isinstance(item.value, Text | Number | Boolean | Interval)]
    if not items:
        return []
    if len(members) < len(items):
        first = next((item.value for item in items if isinstance(item.value, Placeholder)), items[0].value)
        value: Value = first if isinstance(first, Placeholder) else Unknown(text, Unresolved.EXPRESSION)
        return [built(found, Op.NOT_IN if negated else Op.IN, value, text, place)]
    one = membership(items[0], members, text)
    return [replace(one, op=one.op.negated) if negated else one]


def _tuples(left: exp.Tuple, rows: list[exp.Expr], place: Place, reading: Reading) -> list[Filter]:
    """`(a, b) IN ((1, 2), (3, 4))`: alternatives of pairs."""
    groups = [_tuple(left, row, Op.EQ, place, reading) for row in rows[:_MAX_TERMS]]
    if len(groups) == 1:
        return groups[0]
    return _alternatives(groups, reading)


def _like(node: exp.Expr, place: Place, reading: Reading, *, negated: bool) -> list[Filter]:
    if holds(node.expression, _QUERIES):
        return list(reading.subquery(node, place, negated))
    found = like(node, place, reading, negated=negated)
    loose = isinstance(node.expression, exp.All if negated else exp.Any) and len(found) > 1
    if not loose:
        return found
    one = united(found)
    return [one] if one is not None else _alternatives([[item] for item in found], reading)


def _is(node: exp.Expr, place: Place, reading: Reading, negated: bool) -> list[Filter]:
    found = target(node.this, place.names)
    if found is None:
        return []
    if isinstance(node.expression, exp.Null):
        return [built(found, Op.IS_NOT_NULL if negated else Op.IS_NULL, Null(), shown(node), place)]
    value = value_of(node.expression, place, reading)
    return [compared(found, Op.NE if negated else Op.EQ, value, node.expression, shown(node), place)]


def _starts(node: exp.Expr, place: Place, reading: Reading, negated: bool) -> list[Filter]:
    found, value = target(node.this, place.names), value_of(node.expression, place, reading)
    if found is None or not isinstance(value, Text):
        return []
    return [pattern(found, Text(value.raw + "%"), shown(node), place, negated=negated)]


def _holds(node: exp.Expr, place: Place, reading: Reading, negated: bool) -> list[Filter]:
    """An array that holds a value: a condition on its elements."""
    found = target(node.this, place.names)
    if found is None:
        return []
    value = value_of(node.expression, place, reading)
    return [compared(found, Op.NE if negated else Op.EQ, value, node.expression, shown(node), place)]


def _holds_all(node: exp.Expr, place: Place, reading: Reading, negated: bool) -> list[Filter]:
    """`tags @> ARRAY['a', 'b']`: every one of them."""
    members = _members(node.expression)
    found = target(node.this, place.names)
    if found is None or members is None or (negated and len(members) > 1):
        return []
    return [item for member in members for item in _listed(found, [member], node, place, reading, negated=negated)]


def _overlaps(node: exp.Expr, place: Place, reading: Reading, negated: bool) -> list[Filter]:
    """`tags && ARRAY['a', 'b']`: any one of them."""
    members = _members(node.expression)
    found = target(node.this, place.names)
    if found is None or members is None:
        return []
    return _listed(found, members, node, place, reading, negated=negated)


def _truth(node: exp.Expr, place: Place, reading: Reading, negated: bool) -> list[Filter]:
    """A bare boolean column, or a function that is one."""
    if isinstance(node, exp.Boolean | exp.Literal | exp.Null):
        return []
    if is_containment(node):
        return contains(node, place, reading, negated=negated)
    if not isinstance(node, exp.Column):
        if (condition := _of_elements(node)) is not None:
            return _all(condition, place, reading, negated=negated)
        if _has_query(node):
            return list(reading.subquery(node, place, negated))
    found = target(node, place.names)
    return [built(found, Op.EQ, Boolean(not negated), shown(node), place)] if found is not None else []


def _of_elements(node: exp.Expr) -> exp.Expr | None:
    """The condition of `any_match(tags, x -> x = 'red')`, said of the array's column."""
    arguments = node.expressions if isinstance(node, exp.Anonymous) else [node.this, node.args.get("expression")]
    if len(arguments) != 2 or not isinstance(arguments[0], exp.Expr) or not isinstance(arguments[1], exp.Lambda):
        return None
    array, body = arguments
    element = {name.name for name in body.expressions}
    copied = body.this.copy()

    def said_of_array(inner: exp.Expr) -> exp.Expr:
        own = isinstance(inner, exp.Identifier) and inner.name in element and not isinstance(inner.parent, exp.Column)
        return array.copy() if own else inner

    changed = copied.transform(said_of_array)
    return changed if isinstance(changed, exp.Expr) else None


_Handler = Callable[[exp.Expr, Place, Reading, bool], list[Filter]]
_HANDLERS: dict[type[exp.Expr], _Handler] = {
    exp.In: _in,
    exp.Between: _between,
    exp.Is: _is,
    exp.StartsWith: _starts,
    exp.ArrayContains: _holds,
    exp.ArrayContainsAll: _holds_all,
    exp.ArrayOverlaps: _overlaps,
}
