"""What the checks look at, and what they say."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

from stef.apprules import AppRules
from stef.catalogue import Catalogue
from stef.finding import Finding
from stef.names import stems
from stef.result import Alignment
from stef.spec import Filter, QuerySpec
from stef.values import Many, Number, Text, Value, fold

# A mention of the question that a check may hold the SQL to.
SURE = 0.6


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What the checks look at; what several of them need is found once.

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

    @cached_property
    def texts(self) -> str:
        """Everything that was said."""
        return f"{self.question_text} {self.expansion_text}"

    @cached_property
    def folded(self) -> str:
        """The same, folded."""
        return fold(self.texts)

    @cached_property
    def beyond(self) -> str:
        """The expansion without the question that it repeats."""
        return self.expansion_text.replace(self.question_text, " ")

    @cached_property
    def words(self) -> frozenset[str]:
        """Stems of what was asked."""
        return stems(self.asked_text)

    @cached_property
    def said(self) -> frozenset[str]:
        """Stems of everything that was said."""
        return stems(self.question_text) | stems(self.expansion_text)

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """Every column that the statement names, with repetitions."""
        return tuple(columns_of(self.sql))

    @cached_property
    def names(self) -> frozenset[str]:
        """Columns and tables that the statement names, folded."""
        return frozenset(fold(name.rpartition(".")[2]) for name in {*self.columns, *self.sql.tables})

    @cached_property
    def vocabulary(self) -> frozenset[str]:
        """Stems of all names and values of the statement."""
        values = [value for item in self.sql.filters for value in values_of(item)]
        parts = [name.rpartition(".")[2] for name in {*self.columns, *self.sql.tables}]
        parts += [value.raw if isinstance(value, Text) else str(value) for value in values]
        return frozenset[str]().union(*map(stems, parts))

    @cached_property
    def literals(self) -> str:
        """All values of its conditions as one folded text."""
        shown = []
        for item in self.sql.filters:
            for value in values_of(item):
                shown.append(format(value.value.normalize(), "f") if isinstance(value, Number) else str(value))
                if isinstance(value, Text):
                    shown.append(value.raw)
            shown.append(item.text)
        return fold(" ".join(shown))


@dataclass(frozen=True, slots=True)
class Signal:
    """One thing that speaks against the statement; `value` 0 to 1."""

    feature: str
    value: float
    code: str
    detail: str


Check = Callable[[Facts], Iterator[Signal]]


def columns_of(sql: QuerySpec) -> Iterator[str]:
    """Every column that a statement names, with repetitions."""
    for shown in sql.projections:
        yield from shown.columns
    for item in sql.filters:
        yield item.column
    for group in sql.group_by:
        yield group.column
    for order in sql.order_by:
        yield from order.columns
    for aggregate in sql.aggregations:
        yield aggregate.of
    for join in sql.joins:
        for left, right in join.keys:
            yield from (left, right)


def values_of(item: Filter) -> tuple[Value, ...]:
    """The members of a list, or the one value."""
    return item.value.members if isinstance(item.value, Many) else (item.value,)
