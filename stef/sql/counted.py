"""Conditions that stand inside aggregates: FILTER (WHERE …), COUNT_IF, CASE, a summed boolean."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from stef.spec import Effect, Filter, Scope
from stef.sql.nodes import kinds, shallow
from stef.sql.predicates import conditions
from stef.sql.reading import Place, Reading
from stef.sql.targets import aggregate_name

# ClickHouse's combinators: the last argument is the condition.
_IF_FUNCTIONS = frozenset({"sumif", "avgif", "minif", "maxif", "uniqif", "quantileif"})
_CARRIERS = kinds(exp.Filter, exp.CountIf, exp.AggFunc, exp.Anonymous)
_CALLS = (exp.CombinedAggFunc, exp.Anonymous)
_BRANCHING = (exp.Case, exp.If)
_INNER = (exp.Case, exp.If, exp.Paren, exp.Cast)
_CONDITIONS = (exp.Predicate, exp.And, exp.Or, exp.Not)
_WRAPPERS = (exp.Paren, exp.Cast, exp.TryCast, exp.Mul, exp.Coalesce)


def aggregate_conditions(node: exp.Expr, place: Place, reading: Reading) -> list[Filter]:
    """Conditions that the aggregates in an expression carry."""
    found: list[Filter] = []
    for inner in shallow(node):
        if type(inner) not in _CARRIERS:
            continue
        if isinstance(inner, exp.Filter):
            condition = inner.expression.this if isinstance(inner.expression, exp.Where) else inner.expression
            found += conditions(condition, replace(place, scope=Scope.AGGREGATE), reading)
        elif isinstance(inner, exp.CountIf):
            found += conditions(inner.this, replace(place, scope=Scope.AGGREGATE), reading)
        elif _is_combinator(inner):
            found += conditions(inner.expressions[-1], replace(place, scope=Scope.AGGREGATE), reading)
        elif name := aggregate_name(inner):
            found += _inside(inner, name, place, reading)
    return found


def _is_combinator(node: exp.Expr) -> bool:
    if not isinstance(node, _CALLS) or not node.expressions:
        return False
    return str(node.name or node.this).lower() in _IF_FUNCTIONS


def _inside(node: exp.Expr, name: str, place: Place, reading: Reading) -> list[Filter]:
    argument = node.args.get("this")
    if argument is None or isinstance(argument, exp.Column):
        return []
    if isinstance(argument, exp.Distinct):
        argument = argument.expressions[0] if argument.expressions else None
    while isinstance(argument, _WRAPPERS):
        sides = (argument.this, argument.args.get("expression"))
        argument = next((a for a in sides if isinstance(a, _INNER)), argument.this)
    if isinstance(argument, _BRANCHING):
        return _case(argument, name, place, reading)
    if isinstance(argument, _CONDITIONS) and not isinstance(argument, exp.Query):
        effect = Effect.COUNTED_ELSE if name == "count" else Effect.EFFECTIVE
        return conditions(argument, replace(place, scope=Scope.AGGREGATE, effect=effect), reading)
    return []


def _case(node: exp.Expr, name: str, place: Place, reading: Reading) -> list[Filter]:
    branches = node.args.get("ifs") if isinstance(node, exp.Case) else [node]
    default = node.args.get("default") if isinstance(node, exp.Case) else node.args.get("false")
    if not branches or len(branches) > 1:
        return []  # several branches weigh the rows; none of them narrows
    branch = branches[0]
    condition = branch.this
    if isinstance(node, exp.Case) and node.this is not None:
        condition = exp.EQ(this=node.this.copy(), expression=condition.copy())
    counted = default is not None and not isinstance(default, exp.Null)
    share = name == "avg" and isinstance(branch.args.get("true"), exp.Literal)
    blind = counted and (name == "count" or (name == "avg" and not share))
    effect = Effect.COUNTED_ELSE if blind else Effect.EFFECTIVE
    return conditions(condition, replace(place, scope=Scope.CASE, effect=effect), reading)
