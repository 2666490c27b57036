"""Conditions that say the same of every row."""

from __future__ import annotations

from sqlglot import exp


def is_constant(term: exp.Expr) -> bool:
    """Whether a condition says the same of every row: `TRUE`, `1 = 1`."""
    bare = term.unnest()
    literal = (
        isinstance(bare, exp.EQ) and isinstance(bare.this, exp.Literal) and isinstance(bare.expression, exp.Literal)
    )
    return isinstance(bare, exp.Boolean) or literal


def is_always_true(term: exp.Expr) -> bool:
    """Whether a constant condition lets every row through."""
    bare = term.unnest()
    return bool(bare.this) if isinstance(bare, exp.Boolean) else bare.this == bare.expression
