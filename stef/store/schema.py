"""The store's tables and its migrations.

Written with SQLAlchemy Core, so that another database needs another upsert and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

from sqlalchemy import (
    Boolean,
    Column,
    Connection,
    DateTime,
    Dialect,
    Float,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    TypeDecorator,
    UniqueConstraint,
    insert,
    inspect,
    select,
    update,
)


class Moment(TypeDecorator[datetime]):
    """An aware moment, kept in UTC, so that text order is time order."""

    impl = DateTime
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:  # noqa: ARG002 - SQLAlchemy's signature
        """Take the zone off on the way in."""
        return None if value is None else value.astimezone(UTC).replace(tzinfo=None)

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:  # noqa: ARG002 - SQLAlchemy's signature
        """Put it back on the way out."""
        return None if value is None else value.replace(tzinfo=UTC)


TABLES = MetaData()

applied = Table(
    "stef_migrations",
    TABLES,
    Column("name", String, primary_key=True),
    Column("applied_at", Moment, nullable=False),
)

# One row per result. The columns are what is filtered, grouped and ordered by; `result` is the whole of it as JSON.
# `basis` is `scoring_config` without the epoch of the store's catalogue.
evaluations = Table(
    "evaluations",
    TABLES,
    Column("id", Integer, primary_key=True),
    Column("namespace", String, nullable=False),
    Column("event_key", String, nullable=False),
    Column("scoring_config", String, nullable=False),
    Column("basis", String),
    Column("content_digest", String, nullable=False),
    Column("event_id", String),
    Column("trace_id", String),
    Column("span_id", String),
    Column("agent", String),
    Column("agent_version", String),
    Column("app", String),
    Column("database", String),
    Column("dialect", String),
    Column("asked_at", Moment),
    Column("received_at", Moment, nullable=False),
    Column("stored_at", Moment, nullable=False),
    Column("outcome", String, nullable=False),
    Column("reason", String),
    Column("phi", Integer),
    Column("band", String),
    Column("p_offline", Float),
    Column("p_correct", Float),
    Column("category", String),
    Column("verdict", String),
    Column("confidence", Float),
    Column("judge", String),
    Column("fallback", String),
    Column("drifted", Boolean),
    Column("findings", Integer, nullable=False),
    Column("payload", String),
    Column("result", Text, nullable=False),
    UniqueConstraint("namespace", "event_key", "scoring_config", "content_digest", name="evaluations_key"),
    Index("evaluations_group", "agent", "agent_version", "received_at"),
    Index("evaluations_received", "received_at"),
    Index("evaluations_event", "event_id"),
    Index("evaluations_event_key", "event_key"),
)

# One row per message that gave a result: what a later scoring reads. Emptied after `raw_days`.
payloads = Table(
    "payloads",
    TABLES,
    Column("key", String, primary_key=True),
    Column("namespace", String, nullable=False),
    Column("topic", String, nullable=False),
    Column("partition", Integer, nullable=False),
    Column("offset", Integer, nullable=False),
    Column("timestamp", Moment),
    Column("message_key", LargeBinary),
    Column("headers", Text, nullable=False),
    Column("value", LargeBinary),
    Column("stored_at", Moment, nullable=False),
    Index("payloads_stored", "stored_at"),
)

# One row per message that was put aside, so that a second delivery is not counted again.
dead_letters = Table(
    "dead_letters",
    TABLES,
    Column("namespace", String, primary_key=True),
    Column("position", String, primary_key=True),
    Column("reason", String, nullable=False),
    Column("detail", String, nullable=False),
    Column("stored_at", Moment, nullable=False),
)

# How far a file source came.
positions = Table(
    "positions",
    TABLES,
    Column("name", String, primary_key=True),
    Column("state", Text, nullable=False),
    Column("stored_at", Moment, nullable=False),
)

# One row per record and source: what the source says of the record, whatever namespace it was read from.
labels = Table(
    "labels",
    TABLES,
    Column("event_key", String, primary_key=True),
    Column("content_digest", String, primary_key=True),
    Column("source", String, primary_key=True),
    Column("event_id", String),
    Column("is_right", Boolean, nullable=False),
    Column("labelled_at", Moment, nullable=False),
    Column("note", Text, nullable=False),
    Column("stored_at", Moment, nullable=False),
)

# One row per database that scored records show something of. `key` is a mark of the secret that its values and words
# are marked under: another secret is another catalogue. `declared` is JSON, table → columns.
catalogues = Table(
    "catalogues",
    TABLES,
    Column("id", Integer, primary_key=True),
    Column("key", String, nullable=False),
    Column("app", String, nullable=False),
    Column("database", String, nullable=False),
    Column("declared", Text, nullable=False),
    UniqueConstraint("key", "app", "database", name="catalogues_key"),
)

# One row per distinct question of a database. `words` and `items` are JSON: marks, and [count, what is used …].
catalogue_questions = Table(
    "catalogue_questions",
    TABLES,
    Column("catalogue", Integer, primary_key=True),
    Column("question", String, primary_key=True),
    Column("answers", Integer, nullable=False),
    Column("day", Integer),
    Column("words", Text, nullable=False),
    Column("items", Text, nullable=False),
    Column("counted_at", Moment, nullable=False),
    Index("catalogue_questions_counted", "counted_at"),
)

# One row per value: how many distinct questions use it, and its text once they are enough.
catalogue_values = Table(
    "catalogue_values",
    TABLES,
    Column("catalogue", Integer, primary_key=True),
    Column("mark", String, primary_key=True),
    Column("questions", Integer, nullable=False),
    Column("text", Text),
)

# What runs are pinned to until the next epoch is due: the catalogues of one key as they were, compressed JSON.
catalogue_epochs = Table(
    "catalogue_epochs",
    TABLES,
    Column("key", String, primary_key=True),
    Column("taken_at", Moment, nullable=False),
    Column("questions", Integer, nullable=False),
    Column("content", LargeBinary, nullable=False),
)


def _tables(connection: Connection) -> None:
    TABLES.create_all(connection)


def _catalogue(connection: Connection) -> None:
    """Until now no consumer had a catalogue, so that the basis of every result is its scoring configuration."""
    TABLES.create_all(connection, tables=[catalogues, catalogue_questions, catalogue_values, catalogue_epochs])
    if "basis" not in {column["name"] for column in inspect(connection).get_columns(evaluations.name)}:
        connection.exec_driver_sql("ALTER TABLE evaluations ADD COLUMN basis VARCHAR")
        connection.execute(update(evaluations).values(basis=evaluations.c.scoring_config))


def _labels(connection: Connection) -> None:
    labels.create(connection, checkfirst=True)
    for index in evaluations.indexes:
        index.create(connection, checkfirst=True)


# In order, applied once each by name. The first one creates the tables as they are defined today, so a later one must
# add only what is not there yet. A name never changes and never goes away.
MIGRATIONS: tuple[tuple[str, Callable[[Connection], None]], ...] = (
    ("0001_tables", _tables),
    ("0002_catalogue", _catalogue),
    ("0003_labels", _labels),
)


def migrate(connection: Connection) -> tuple[str, ...]:
    """Apply the migrations that are missing; the connection holds the write lock.

    Returns:
        Names that the database has and this release does not know: it was made by a newer one, and is left as it is.
    """
    applied.create(connection, checkfirst=True)
    names = set(connection.scalars(select(applied.c.name)))
    newer = names - {name for name, _ in MIGRATIONS}
    if newer:
        return tuple(sorted(newer))
    for name, function in MIGRATIONS:
        if name not in names:
            function(connection)
            connection.execute(insert(applied).values(name=name, applied_at=datetime.now(UTC)))
    return ()
