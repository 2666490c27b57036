"""The right side of a condition: literals, parameters, expressions of time, columns."""

from __future__ import annotations

from decimal import Decimal

from sqlglot import exp

from stef.sql.moments import Instant, NoClockError, evaluate
from stef.sql.reading import Place, Reading
from stef.sql.rendering import shown
from stef.sql.targets import target
from stef.timespan import Interval, Unit, shift
from stef.values import Boolean, Column, Null, Number, Placeholder, Text, Unknown, Unresolved, Value, decimal

_PARAMETERS = (exp.Parameter, exp.Placeholder, exp.SessionParameter)


def bound(node: exp.Expr, reading: Reading) -> exp.Expr:
    """The value that SET, DECLARE or the log gave a parameter, as an expression; other nodes as they are."""
    if not isinstance(node, _PARAMETERS):
        return node
    value = reading.variables.get(_name(node).lower())
    return node if value is None or isinstance(value, _PARAMETERS[:2]) else value


def _name(node: exp.Expr) -> str:
    return node.this.name if isinstance(node.this, exp.Expr) else str(node.this or "?")


def value_of(node: exp.Expr, place: Place, reading: Reading) -> Value:
    """Read the right side of a condition."""
    node = node.unnest() if isinstance(node, exp.Paren) else node
    if isinstance(node, exp.Literal):
        number = None if node.is_string else decimal(node.name)
        return Text(node.name) if number is None else Number(number)
    if isinstance(node, exp.Column):
        return _column(node, place)
    match node:
        case exp.National() | exp.RawString() | exp.UnicodeString():
            return Text(node.name)
        case exp.Neg() if isinstance(inner := value_of(node.this, place, reading), Number):
            return Number(-inner.value)
        case exp.Boolean():
            return Boolean(bool(node.this))
        case exp.Null():
            return Null()
        case exp.Parameter() | exp.Placeholder() | exp.SessionParameter():
            return _parameter(node, place, reading)
        case exp.Cast() | exp.TryCast() | exp.Lower() | exp.Upper() | exp.Trim() if isinstance(node.this, exp.Literal):
            return value_of(node.this, place, reading)
        case _:
            return _computed(node, reading)


def _column(node: exp.Column, place: Place) -> Value:
    found = target(node, place.names)
    if found is None:
        return Unknown(shown(node), Unresolved.EXPRESSION)
    return Column(f"{found.table}.{found.column}" if found.table else found.column)


def _computed(node: exp.Expr, reading: Reading) -> Value:
    try:
        found = evaluate(node, reading.calendar)
    except NoClockError:
        return Unknown(shown(node), Unresolved.CLOCK)
    if isinstance(found, int):
        return Number(Decimal(found))
    if isinstance(found, Instant):
        unit = Unit.DAY if found.whole_day else Unit.SECOND
        return Interval(found.moment, shift(found.moment, unit, 1))
    if (number := _arithmetic(node)) is not None:
        return Number(number)
    return Unknown(shown(node), Unresolved.SUBQUERY if node.find(exp.Query) else Unresolved.EXPRESSION)


def _parameter(node: exp.Expr, place: Place, reading: Reading) -> Value:
    value = bound(node, reading)
    if value is not node:
        return value_of(value, place, reading)
    reading.placeholders.append(_name(node))
    return Placeholder(_name(node))


def _arithmetic(node: exp.Expr) -> Decimal | None:
    """Constant arithmetic (`1000 * 12`), or None."""
    if isinstance(node, exp.Literal) and not node.is_string:
        return decimal(node.name)
    if isinstance(node, exp.Paren):
        return _arithmetic(node.this)
    if not isinstance(node, exp.Mul | exp.Add | exp.Sub | exp.Div):
        return None
    left = _arithmetic(node.this)
    right = None if left is None else _arithmetic(node.expression)
    if left is None or right is None:
        return None
    try:
        return _calculated(node, left, right)
    except ArithmeticError:
        return None


def _calculated(node: exp.Expr, left: Decimal, right: Decimal) -> Decimal | None:
    match node:
        case exp.Mul():
            return left * right
        case exp.Add():
            return left + right
        case exp.Sub():
            return left - right
        case _:
            return left / right if right else None
