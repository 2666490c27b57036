"""LIKE and its relatives: wildcards, prefixes of dates, containment."""

from __future__ import annotations

from sqlglot import exp

from stef.spec import Filter, Op
from stef.sql.comparing import built
from stef.sql.operands import value_of
from stef.sql.reading import Place, Reading
from stef.sql.rendering import shown
from stef.sql.targets import Target, target
from stef.timespan import parse_moment
from stef.values import Text

LIKES = (exp.Like, exp.ILike, exp.RegexpLike, exp.RegexpILike, exp.SimilarTo)
_CONTAINS = frozenset({"contains", "instr", "strpos", "charindex", "position", "locate", "positioncaseinsensitive"})
_INSIDE = (exp.Contains, exp.StrPosition)
_REGULAR = (exp.RegexpLike, exp.RegexpILike, exp.SimilarTo)


def is_containment(node: exp.Expr) -> bool:
    """Whether a call asks if one text is inside another (`INSTR(name, 'x')`)."""
    if isinstance(node, _INSIDE):
        return True
    return isinstance(node, exp.Anonymous) and node.name.lower() in _CONTAINS


def containment(node: exp.Expr, op: Op, place: Place, reading: Reading) -> list[Filter] | None:
    """`INSTR(col, 'x') > 0` and its relatives as a LIKE; None when it is no such comparison."""
    if not is_containment(node.this) or not isinstance(node.expression, exp.Literal):
        return None
    absent = op in {Op.EQ, Op.LE, Op.LT} and node.expression.name == "0"
    return contains(node.this, place, reading, negated=absent)


def contains(call: exp.Expr, place: Place, reading: Reading, *, negated: bool) -> list[Filter]:
    """A containment as a LIKE with wildcards on both ends."""
    arguments = list(call.iter_expressions())
    columns = [found for a in arguments if (found := target(a, place.names)) is not None]
    texts = [v for a in arguments if isinstance(v := value_of(a, place, reading), Text)]
    if not columns or not texts:
        return []
    return [built(columns[0], Op.NOT_LIKE if negated else Op.LIKE, Text(f"%{texts[0].raw}%"), shown(call), place)]


def like(node: exp.Expr, place: Place, reading: Reading, *, negated: bool) -> list[Filter]:
    """One LIKE; `LIKE ANY (…)` and `LIKE ALL (…)` give a filter for each pattern."""
    found = target(node.this, place.names)
    if found is None:
        return []
    text = shown(node)
    if isinstance(node.expression, exp.Any | exp.All):
        patterns = [Text(literal.name) for literal in node.expression.find_all(exp.Literal)]
        return [pattern(found, item, text, place, negated=negated) for item in patterns]
    value = value_of(node.expression, place, reading)
    if not isinstance(value, Text) or isinstance(node, _REGULAR):
        return [built(found, Op.NOT_LIKE if negated else Op.LIKE, value, text, place)]
    return [pattern(found, value, text, place, negated=negated)]


def pattern(found: Target, value: Text, text: str, place: Place, *, negated: bool) -> Filter:
    """A pattern: without a wildcard it is an equality, with the beginning of a date (`2024-03%`) a range."""
    raw = value.raw
    if "%" not in raw and "_" not in raw:
        return built(found, Op.NE if negated else Op.EQ, value, text, place)
    dated = parse_moment(raw[:-1].rstrip("-")) if raw.endswith("%") and raw.count("%") == 1 else None
    if dated is not None:
        return built(found, Op.NOT_RANGE if negated else Op.RANGE, dated.span, text, place)
    return built(found, Op.NOT_LIKE if negated else Op.LIKE, value, text, place)
