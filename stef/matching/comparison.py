"""What a comparison of two filters says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from stef.result import Match
from stef.spec import Effect

EFFECTS: Mapping[Effect, str] = MappingProxyType(
    {
        Effect.EFFECTIVE: "",
        Effect.OUTER_JOIN: "in ON of an outer join it narrows what is looked up, not what is kept",
        Effect.COUNTED_ELSE: "the aggregate takes the ELSE value as well",
        Effect.ONE_BRANCH: "it stands in one branch of the UNION only",
        Effect.OR_PRECEDENCE: "an OR without brackets lets other rows past it",
        Effect.NULL_COMPARISON: "a comparison with NULL is never true",
        Effect.UNUSED: "nothing reads the table expression that it stands in",
    }
)
# Written to narrow the answer, and unable to: an error whoever asked for it. An outer join may be meant as it stands.
SELF_DEFEATING = frozenset({Effect.COUNTED_ELSE, Effect.NULL_COMPARISON, Effect.OR_PRECEDENCE})


@dataclass(frozen=True, slots=True)
class Comparison:
    """How a filter of the SQL answers a filter of the question.

    Attributes:
        match: MATCHED, WRONG_VALUE, WRONG_OPERATOR, WRONG_COLUMN, INEFFECTIVE or UNDETERMINED.
        score: 0 to 1; the best pairs are taken first.
        certainty: 0 to 1: how sure the finding is.
        note: Why, where that is not plain.
    """

    match: Match
    score: float
    certainty: float = 1.0
    note: str = ""
