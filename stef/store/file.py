"""Opens the SQLite file: WAL, waiting, syncing, and errors that say what to do."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import URL, Connection, Engine, create_engine, event
from sqlalchemy.exc import SQLAlchemyError

from stef.errors import StoreError

BUSY_SECONDS = 30.0
# What SQLite says → what a person can do.
_ADVICE = (
    ("disk is full", "free space on the disk and start again; nothing of this batch was committed"),
    ("locked", f"another process has been writing for more than {BUSY_SECONDS:.0f} seconds; stop it or wait"),
    ("readonly", "give this user write permission to the file and its folder"),
    ("unable to open", "check that the folder exists and that this user may write to it"),
    ("not a database", "this is no store; name another path"),
    ("malformed", "the file is damaged; restore it from a copy or name another path"),
    ("disk i/o error", "check the disk; nothing of this batch was committed"),
)


def open_file(path: str) -> Engine:
    """Open or make the file.

    Raises:
        StoreError: It is no database, or cannot be opened.
    """
    engine = create_engine(URL.create("sqlite", database=path), connect_args={"timeout": BUSY_SECONDS})
    event.listen(engine, "connect", _prepare)
    event.listen(engine, "begin", _begin)
    try:
        _use_wal(engine, path)
    except BaseException:
        engine.dispose()
        raise
    return engine


def _use_wal(engine: Engine, path: str) -> None:
    """Two processes that start at once may both try this; SQLite does not wait here by itself."""
    deadline = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            outside(engine, path, "PRAGMA journal_mode=WAL")
        except StoreError as error:
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.02)
        else:
            return


def outside(engine: Engine, path: str, statement: str) -> None:
    """Run a statement that must not stand in a transaction.

    Raises:
        StoreError: It failed.
    """
    with errors(path, statement.lower()):
        raw = engine.raw_connection()
        try:
            cursor = raw.cursor()
            cursor.execute(statement)
            cursor.fetchall()
            cursor.close()
        finally:
            raw.close()


def _prepare(connection: sqlite3.Connection, _: object) -> None:
    """Let SQLAlchemy's begin decide when a transaction starts, and sync every commit to the disk."""
    connection.isolation_level = None
    connection.execute("PRAGMA synchronous=FULL").close()


def _begin(connection: Connection) -> None:
    """A writer takes its lock at the start: one that reads first could not be given it later."""
    writes = connection.get_execution_options().get("stef_writes")
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


@contextmanager
def writing(engine: Engine) -> Iterator[Connection]:
    """A transaction that holds the write lock from its start."""
    with engine.connect().execution_options(stef_writes=True) as connection, connection.begin():
        yield connection


@contextmanager
def errors(path: str, what: str) -> Iterator[None]:
    """Turn what the database raises into a `StoreError` with the path, what was tried, and what to do."""
    try:
        yield
    except (SQLAlchemyError, sqlite3.Error, OSError) as error:
        text = str(getattr(error, "orig", None) or error)
        advice = next((advice for mark, advice in _ADVICE if mark in text.lower()), "")
        raise StoreError(f"{path}: cannot {what}: {text}" + (f"; {advice}" if advice else "")) from error
