"""What the reading of conditions carries along."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from sqlglot import exp

from stef.spec import Effect, Filter, Op, Scope
from stef.sql.targets import Names
from stef.timespan import Calendar
from stef.values import Value


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where the expression being read stands."""

    scope: Scope
    path: str
    names: Names
    effect: Effect = Effect.EFFECTIVE
    join_keys: bool = False  # column = column joins two tables here and is no filter


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranked:
    """A condition on a row number or rank (`rn = 1`, `rank <= 3`)."""

    window: exp.Window
    op: Op
    value: Value
    place: Place


@dataclass(slots=True, kw_only=True)
class Reading:
    """What one statement's reading carries along.

    Attributes:
        calendar: For relative dates.
        variables: SQL text by lower-case name, from SET, DECLARE and logged parameters.
        subquery: Reads a query inside a condition; returns its filters. The flag says that it is negated.
        placeholders: Names of bind parameters without a value.
        ranked: Conditions on row numbers and ranks: they are limits.
        alternatives: Number of OR groups seen so far.
    """

    calendar: Calendar
    variables: Mapping[str, exp.Expr]
    subquery: Callable[[exp.Expr, Place, bool], tuple[Filter, ...]]
    placeholders: list[str] = field(default_factory=list)
    ranked: list[Ranked] = field(default_factory=list)
    alternatives: int = 0
