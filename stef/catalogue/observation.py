"""What one record shows of a database: the tables, columns, links and values of its statement, beside its question.

Nothing of it is counted here; a learner counts observations.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from hashlib import blake2b
from types import MappingProxyType

from stef.names import stem, tokens
from stef.spec import Filter, Op, QuerySpec
from stef.timespan import Interval
from stef.values import Boolean, Many, Number, NumberRange, Text, Value, fold

_EXACT = frozenset({Op.EQ, Op.NE, Op.IN, Op.NOT_IN})
_CASE_BLIND = re.compile(r"\b(?:lower|upper|ilike|collate)\b", re.IGNORECASE)
_EDGES = " \t\n.,;:!?'\"。？！"
_MOST_VALUES = 50
_START = datetime(1970, 1, 1, tzinfo=UTC)


# One thing that a statement uses: its kind, then its names, folded, tables without their schema. Plain text throughout:
# items are hashed more often than anything else here.
Item = tuple[str, ...]
TABLE = "table"  # table
COLUMN = "column"  # table, column
ROLE = "role"  # table, column, role
LINK = "link"  # table.column, table.column
TYPE = "type"  # table, column, type of the values that it is compared with
VALUE = "value"  # table, column, mark of the folded value, mark of the value as written
FIGURE = "figure"  # aggregate function, column
SHAPE = "shape"  # a part of the statement that belongs to no column


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """What one record shows.

    Attributes:
        question: Digest of the normalised question: records that ask the same share it.
        words: Marks of the stems of its words.
        items: What the statement uses.
        texts: Mark → value as written; a catalogue keeps it only when enough questions used it.
        day: When it was asked, in days since 1970; None when not known.
        secret: No text of it may be kept, however many questions used it.
    """

    question: str
    words: frozenset[str]
    items: frozenset[Item]
    texts: MappingProxyType[str, str] = field(default_factory=lambda: MappingProxyType({}))
    day: int | None = None
    secret: bool = False


def observe(sql: QuerySpec, question: str, *, key: str = "", day: int | None = None) -> Observation:
    """Read off what a record shows.

    Args:
        sql: Spec of its statement.
        question: As asked.
        key: Secret of the catalogue, under which values and words are marked.
        day: When it was asked, in days since 1970.
    """
    texts: dict[str, str] = {}
    items = {*_tables(sql), *_columns(sql), *_links(sql), *_values(sql, key, texts), *_shape(sql)}
    return Observation(
        question=question_digest(question, key),
        words=frozenset(mark(word, key) for word in word_stems(question)),
        items=frozenset(items),
        texts=MappingProxyType(texts),
        day=day,
    )


def day_of(moment: datetime | None) -> int | None:
    """The day of an aware moment, in days since 1970."""
    return None if moment is None else (moment - _START) // timedelta(days=1)


def question_digest(question: str, key: str = "") -> str:
    """Digest of a question without regard to case, white space and closing marks."""
    return mark(f"?{fold(question).strip(_EDGES)}", key)


def word_stems(question: str) -> frozenset[str]:
    """Stems of a question's words."""
    return frozenset(found for word in tokens(question) if len(found := stem(word)) > 1)


@lru_cache(maxsize=4096)
def mark(text: str, key: str) -> str:
    """A keyed hash, 16 hexadecimal digits."""
    secret = blake2b(key.encode(), digest_size=32).digest()
    return blake2b(text.encode("utf-8", "surrogatepass"), key=secret, digest_size=8).hexdigest()


def key_mark(key: str) -> str:
    """Tells one key from another without giving it away."""
    return mark("key", key)


def folded_table(name: str) -> str:
    """A table's name without schema and quotes, folded; logs qualify the same table in different ways."""
    return fold(name.rpartition(".")[2].strip('`"[]'))


def folded_column(name: str) -> str:
    """A column's name, folded."""
    return fold(name.strip('`"[]'))


def _place(name: str) -> str:
    """`schema.Table.Column` folded to `table.column`."""
    table, _, column = name.rpartition(".")
    return f"{folded_table(table)}.{folded_column(column)}"


def _tables(sql: QuerySpec) -> Iterator[Item]:
    for name in sql.tables:
        yield (TABLE, folded_table(name))


def _columns(sql: QuerySpec) -> Iterator[Item]:
    for use in sql.uses:
        table, column = folded_table(use.table), folded_column(use.column)
        yield (COLUMN, table, column)
        yield (ROLE, table, column, use.role.value)


def _links(sql: QuerySpec) -> Iterator[Item]:
    for link in sql.links:
        left, right = sorted(_place(name) for name in link)
        yield (LINK, left, right)


def _values(sql: QuerySpec, key: str, texts: dict[str, str]) -> Iterator[Item]:
    for item in sql.filters:
        if not item.column or item.aggregate or item.column == "*":
            continue
        table, column = folded_table(item.table), folded_column(item.column)
        for value in _members(item.value):
            kind = _type(value)
            if kind:
                yield (TYPE, table, column, kind)
            if isinstance(value, Text) and _is_exact(item):
                exact = mark(value.raw, key)
                texts[exact] = value.raw
                yield (VALUE, table, column, mark(f"~{fold(value.raw)}", key), exact)


def _members(value: Value) -> tuple[Value, ...]:
    return value.members[:_MOST_VALUES] if isinstance(value, Many) else (value,)


def _is_exact(item: Filter) -> bool:
    """Whether the value stands as the column has it: not a pattern, and not folded by the statement."""
    return item.op in _EXACT and _CASE_BLIND.search(item.text) is None


def _type(value: Value) -> str:
    match value:
        case Text():
            return "text"
        case Number() | NumberRange():
            return "number"
        case Boolean():
            return "boolean"
        case Interval():
            return "time"
        case _:
            return ""


def _shape(sql: QuerySpec) -> Iterator[Item]:
    said = {
        "distinct": sql.distinct,
        "limit": sql.limit is not None,
        "grouped": bool(sql.group_by),
        "ordered": bool(sql.order_by),
        "set": bool(sql.set_operations),
        f"outputs {min(len(sql.projections), 6)}": bool(sql.projections),
    }
    for item in sql.aggregations:
        yield (FIGURE, item.function, folded_column(item.of))
        said[f"{item.function} distinct" if item.distinct else item.function] = True
    for name, holds in said.items():
        if holds:
            yield (SHAPE, name)
