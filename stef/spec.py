"""What a query asks for, whoever says it: the question, its expansion, or the SQL.

Both readers produce the same `QuerySpec`, so that the two can be aligned. Source: STEF paper (arXiv 2604.28049),
which extracts the filters of both sides; positions, effects and certainties go beyond it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated

from pydantic import PlainSerializer, PlainValidator

from stef.values import Value, describe, from_plain, to_plain

PlainValue = Annotated[Value, PlainSerializer(to_plain), PlainValidator(from_plain, json_schema_input_type=object)]


class Source(StrEnum):
    """Which text a spec was read from."""

    QUESTION = "question"  # Qu
    EXPANSION = "expansion"  # Qe
    SQL = "sql"  # S
    RULES = "rules"  # R_app


class Op(StrEnum):
    """Operators in canonical form: LIKE without a wildcard and a one-element IN are `=`, bounds of time are `range`."""

    EQ = "="
    NE = "!="
    LT = "<"
    LE = "<="
    GT = ">"
    GE = ">="
    IN = "in"
    NOT_IN = "not_in"
    LIKE = "like"
    NOT_LIKE = "not_like"
    IS_NULL = "is_null"
    IS_NOT_NULL = "is_not_null"
    RANGE = "range"  # value is an Interval (half-open) or a NumberRange (inclusive)
    NOT_RANGE = "not_range"
    EXISTS = "exists"
    NOT_EXISTS = "not_exists"

    @property
    def negated(self) -> Op:
        """The operator that accepts exactly what this one refuses (three-valued logic aside)."""
        return _NEGATED[self]


_PAIRS = (
    (Op.EQ, Op.NE),
    (Op.LT, Op.GE),
    (Op.LE, Op.GT),
    (Op.IN, Op.NOT_IN),
    (Op.LIKE, Op.NOT_LIKE),
    (Op.IS_NULL, Op.IS_NOT_NULL),
    (Op.RANGE, Op.NOT_RANGE),
    (Op.EXISTS, Op.NOT_EXISTS),
)
_NEGATED = {a: b for pair in _PAIRS for a, b in (pair, pair[::-1])}


class Scope(StrEnum):
    """Where a condition stands."""

    QUESTION = "question"
    WHERE = "where"
    HAVING = "having"
    JOIN = "join"
    CTE = "cte"
    SUBQUERY = "subquery"
    QUALIFY = "qualify"
    PREWHERE = "prewhere"
    CASE = "case"
    AGGREGATE = "aggregate"


class Effect(StrEnum):
    """Whether a condition narrows the answer, and if not, why."""

    EFFECTIVE = "effective"
    OUTER_JOIN = "outer_join"  # in ON of an outer join, on the side that is kept
    COUNTED_ELSE = "counted_else"  # COUNT(CASE … ELSE 0 END) counts the others too
    ONE_BRANCH = "one_branch"  # in one branch of a UNION only
    OR_PRECEDENCE = "or_precedence"  # a AND b OR c: does not bind all rows
    NULL_COMPARISON = "null_comparison"  # = NULL is never true
    UNUSED = "unused"  # in a common table expression that nothing reads


@dataclass(frozen=True, slots=True)
class Span:
    """Characters `[start, end)` of the text that something was read from."""

    start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """One condition in canonical form.

    Attributes:
        column: Column name without qualifier, as written; in a question the word that stands for it, or "" when the
            question names a value only ("vans in Turku").
        op: Canonical operator.
        value: Canonical value; for IS NULL and EXISTS a `Null`.
        scope: Where it stands.
        effect: Whether it takes effect there.
        table: Table or alias that qualifies the column, resolved to the table's name where the SQL allows; else "".
        aggregate: Function around the column (`count`, `sum`) for conditions on groups, else "".
        alternative: Filters with the same non-zero number are joined by OR over different columns; 0 is AND.
        certainty: 0 to 1: how sure the reader is that this is a condition. SQL has 1.0.
        implied_column: The column is a guess from the lexicon (a status word) and binds nobody.
        text: As written.
        span: Place in the text, where the reader knows it.
        path: Place in the statement, such as `cte:late/where`; "" in a question.
    """

    column: str
    op: Op
    value: PlainValue
    scope: Scope
    effect: Effect = Effect.EFFECTIVE
    table: str = ""
    aggregate: str = ""
    alternative: int = 0
    certainty: float = 1.0
    implied_column: bool = False
    text: str = ""
    span: Span | None = None
    path: str = ""

    def __str__(self) -> str:
        column = f"{self.aggregate}({self.column or '*'})" if self.aggregate else (self.column or "?")
        if self.op in {Op.IS_NULL, Op.IS_NOT_NULL, Op.EXISTS, Op.NOT_EXISTS}:
            return f"{column} {self.op.replace('_', ' ')}"
        return f"{column} {self.op.replace('_', ' ')} {describe(self.value)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Aggregation:
    """One aggregate.

    Attributes:
        function: `count`, `sum`, `avg`, `min`, `max`, `median`, `percentile`, `ratio`, or the lower-case name.
        of: Column or words that it runs over; `*` for rows; "" when the question does not say.
        distinct: Over distinct values.
        certainty: 0 to 1.
    """

    function: str
    of: str = ""
    distinct: bool = False
    certainty: float = 1.0
    text: str = ""
    span: Span | None = None
    path: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Projection:
    """One output column: its name, the columns behind it and the aggregates in it."""

    name: str
    columns: tuple[str, ...] = ()
    aggregates: tuple[str, ...] = ()
    certainty: float = 1.0
    text: str = ""
    span: Span | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupKey:
    """One grouping key; `unit` is the calendar unit when a date is truncated or its part taken (`month`)."""

    column: str
    unit: str = ""
    certainty: float = 1.0
    text: str = ""
    span: Span | None = None


class Direction(StrEnum):
    """Of a sort."""

    ASC = "asc"
    DESC = "desc"


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderKey:
    """One sort key: a column, an alias (resolved in `columns`), or an aggregate.

    Attributes:
        by: As written: column, alias, or function; in a question the words ("count", "price"), "" when not said.
        direction: Ascending or descending.
        columns: Columns behind it.
        aggregate: Function behind it, else "".
    """

    by: str
    direction: Direction
    columns: tuple[str, ...] = ()
    aggregate: str = ""
    certainty: float = 1.0
    text: str = ""
    span: Span | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """A cap on rows.

    Attributes:
        count: Rows; None when it is an expression or a parameter.
        per: Columns of the group for a top-n per group, else ().
        below: It stands below an aggregate or another filter, so it changes what they see.
        offset: Rows skipped.
        ties: Rows equal to the last one are kept (WITH TIES, RANK).
    """

    count: int | None
    per: tuple[str, ...] = ()
    below: bool = False
    offset: int = 0
    ties: bool = False
    certainty: float = 1.0
    text: str = ""
    span: Span | None = None
    path: str = ""


class JoinKind(StrEnum):
    """How two tables meet."""

    INNER = "inner"
    LEFT = "left"
    RIGHT = "right"
    FULL = "full"
    CROSS = "cross"
    SEMI = "semi"
    ANTI = "anti"


@dataclass(frozen=True, slots=True, kw_only=True)
class Join:
    """One join; `keys` are pairs of `table.column` in alphabetical order."""

    table: str
    kind: JoinKind
    keys: tuple[tuple[str, str], ...] = ()
    path: str = ""


class Role(StrEnum):
    """What a statement does with a column."""

    PROJECTED = "projected"
    AGGREGATED = "aggregated"
    FILTERED = "filtered"
    GROUPED = "grouped"
    ORDERED = "ordered"
    JOINED = "joined"
    PASSED = "passed"  # put out by a query inside the statement


@dataclass(frozen=True, slots=True)
class ColumnUse:
    """A column that a statement uses, traced to its table.

    Attributes:
        table: Physical table; "" when the column has no qualifier and the query has several tables.
    """

    table: str
    column: str
    role: Role


@dataclass(frozen=True, slots=True, kw_only=True)
class QuerySpec:
    """Everything that one text asks for.

    Attributes:
        elliptical: The question makes sense only after another one ("and for the north?").
        plain_columns: Output columns outside any aggregate (SQL).
        undefined: Qualifiers that name no source: the statement will not run (SQL).
        truncated: Quotients that the dialect cuts to a whole number (SQL).
        tables: Physical tables, common table expressions resolved (SQL).
        uses: Physical columns with what is done to them, each once (SQL).
        links: Pairs of `table.column` held equal by ON, USING, WHERE or IN, each in alphabetical order (SQL).
        faults: Why the statement will not run or will give nothing, a sentence each (SQL).
        constructs: Construct → how often it stands in the statement (SQL).
        language: Of the question, ISO 639-1.
    """

    source: Source
    projections: tuple[Projection, ...] = ()
    aggregations: tuple[Aggregation, ...] = ()
    filters: tuple[Filter, ...] = ()
    group_by: tuple[GroupKey, ...] = ()
    order_by: tuple[OrderKey, ...] = ()
    limit: Limit | None = None
    distinct: bool = False
    tables: tuple[str, ...] = ()
    joins: tuple[Join, ...] = ()
    uses: tuple[ColumnUse, ...] = ()
    links: tuple[tuple[str, str], ...] = ()
    set_operations: tuple[str, ...] = ()
    windows: tuple[str, ...] = ()
    placeholders: tuple[str, ...] = ()
    undefined: tuple[str, ...] = ()
    truncated: tuple[str, ...] = ()
    faults: tuple[str, ...] = ()
    constructs: Mapping[str, int] = field(default_factory=dict)
    elliptical: bool = False
    language: str = ""
