"""What the checks look at, and what they say."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from stef.apprules import AppRules
from stef.catalogue import Catalogue
from stef.finding import Finding
from stef.names import stems as stems_of
from stef.result import Alignment
from stef.spec import QuerySpec

# A mention of the question that a check may hold the SQL to.
SURE = 0.6


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What the checks look at.

    Attributes:
        asked: The question; the expansion where the question is a follow-up.
        asked_text: Its text.
        question_text: As the user wrote it.
        expansion_text: As the agent wrote it; "" without one.
        sql: Spec of the statement as it is.
        normalized: The same after the tolerances.
        catalogue: What the log has shown of its database; None when there is nothing.
    """

    asked: QuerySpec
    asked_text: str
    question_text: str
    expansion_text: str
    sql: QuerySpec
    normalized: QuerySpec
    alignment: Alignment
    rules: AppRules
    findings: tuple[Finding, ...] = ()
    catalogue: Catalogue | None = None

    @property
    def texts(self) -> str:
        """Everything that was said."""
        return f"{self.question_text} {self.expansion_text}"

    @property
    def words(self) -> frozenset[str]:
        """Stems of what was asked."""
        return stems(self.asked_text)


@dataclass(frozen=True, slots=True)
class Signal:
    """One thing that speaks against the statement; `value` 0 to 1."""

    feature: str
    value: float
    code: str
    detail: str


Check = Callable[[Facts], Iterator[Signal]]


def stems(text: str) -> frozenset[str]:
    """Stems of the words of a text or a name."""
    return stems_of(text)
