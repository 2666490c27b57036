"""`stef catalogue`, and the catalogues of `stef score` and `stef explain`: what a log has shown of its databases."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from stef.cli.frame import Commands, console, resolved, settings_options, size_of
from stef.config import Settings

if TYPE_CHECKING:
    from stef.catalogue import Epoch, Learner, Learners, Where
    from stef.pipeline import Pipeline
    from stef.store import Catalogues

_READING = ("rules", "app", "max_sql_bytes", "catalogue_key", "log_level", "log_format")
_KEPT = ("store", "catalogue_key", "log_level", "log_format")
_AT_ONCE = 500


@click.group(cls=Commands)
def catalogue() -> None:
    """Build, look at and move catalogues."""


@catalogue.command()
@click.argument("log", metavar="LOG")
@click.argument("path", metavar="CATALOGUE")
@settings_options(*_READING)
def build(log: str, path: str, **flags: Any) -> None:  # noqa: ANN401 - settings from the table
    """Read a log file and write what it shows of its databases; what the catalogue holds already stays in it."""
    from stef import cataloguefiles
    from stef.pipeline import build as build_pipeline

    settings = resolved(flags)
    learners = cataloguefiles.load(path, settings.catalogue_key, create=True)
    cataloguefiles.add(learners, surveyed(log, build_pipeline(settings), settings.catalogue_key)[0])
    cataloguefiles.save(path, learners)
    _say(learners)


@catalogue.command()
@click.argument("path", metavar="[CATALOGUE]", required=False)
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
@settings_options(*_KEPT)
def show(path: str | None, as_json: bool, **flags: Any) -> None:  # noqa: ANN401 - settings from the table
    """Show what a catalogue, or without one the store, knows: tables with their columns, most used first."""
    learners = _known(path, resolved(flags))
    rows = [row for where, one in _ordered(learners) for row in _rows(where.app, where.database, one)]
    if as_json:
        for row in rows:
            click.echo(json.dumps(row, ensure_ascii=False))
        return
    from stef.display import show_catalogue

    show_catalogue(console(), rows)


@catalogue.command()
@click.argument("path", metavar="[CATALOGUE]", required=False)
@settings_options(*_KEPT)
def export(path: str | None, **flags: Any) -> None:  # noqa: ANN401 - settings from the table
    """Write the tables and columns that a catalogue, or without one the store, knows as a list that import reads."""
    learners = _known(path, resolved(flags))
    for where, one in _ordered(learners):
        tables = {row["table"]: list(row["columns"]) for row in _rows(where.app, where.database, one)}
        line = {"app": where.app, "database": where.database, "tables": tables}
        click.echo(json.dumps(line, ensure_ascii=False))


@catalogue.command(name="import")
@click.argument("given", metavar="FILE")
@click.argument("path", metavar="[CATALOGUE]", required=False)
@click.option("--database", default="", help="Database that a list is of, where the list does not say.")
@settings_options(*_KEPT, "app")
def import_file(given: str, path: str | None, database: str, **flags: Any) -> None:  # noqa: ANN401 - settings from the table
    """Add a file to a catalogue, or without one to the store: another catalogue, or a list of tables and columns.

    A list is JSON (an object table → columns, or what export writes) or lines of table,column. Its tables have no other
    columns than those.
    """
    from stef import cataloguefiles

    settings = resolved(flags)
    added = cataloguefiles.gather(given, settings.catalogue_key, app=settings.app, database=database)
    if path is None:
        with _stored(settings, create=True) as stored:
            stored.merge(added)
            _say(stored.learners())
        return
    learners = cataloguefiles.load(path, settings.catalogue_key, create=True)
    cataloguefiles.add(learners, added)
    cataloguefiles.save(path, learners)
    _say(learners)


def surveyed(log: str, pipeline: Pipeline, key: str) -> tuple[Learners, Epoch]:
    """Read a log file once: what was counted, and the same frozen.

    Raises:
        InputError: It cannot be read.
    """
    from stef.display import progress
    from stef.stream.files import FileSource
    from stef.survey import Survey

    survey = Survey(pipeline, key)
    source = FileSource(log)
    try:
        with progress(console(error=True), "reading", size_of(log)) as advance:
            done, ended = 0, False
            while not ended:
                poll = source.poll(1.0, _AT_ONCE)
                survey.add(poll.messages)
                extent, ended = source.extent(), poll.ended
                if extent is not None:
                    advance(extent.done - done)
                    done = extent.done
    finally:
        source.close()
    return survey.learners, survey.freeze()


def pinned(file: str | None, pipeline: Pipeline, settings: Settings) -> Epoch | None:
    """The catalogue that `--catalogue` names.

    Args:
        file: The log that `auto` reads; without one it is the store's, if there is a store.
        pipeline: That will score it.
        settings: Name it, its key, and the store.

    Raises:
        InputError: The catalogue or the log cannot be read.
        StoreError: The store cannot be read, or its catalogue has another key.
    """
    match settings.catalogue:
        case "none":
            return None
        case "auto" if file is not None:
            return surveyed(file, pipeline, settings.catalogue_key)[1]
        case "auto" if not Path(settings.store).is_file():
            return None
        case "auto" | "store":
            with _stored(settings) as stored:
                return stored.epoch(days=settings.catalogue_days, take=False)
        case path:
            from stef import cataloguefiles

            return cataloguefiles.load(path, settings.catalogue_key).freeze()


@contextmanager
def twice(file: str, given: str) -> Iterator[str]:
    """A path that can be read twice: standard input goes to a temporary file when its own catalogue is to be built."""
    if file != "-" or given != "auto":
        yield file
        return
    with tempfile.TemporaryDirectory(prefix="stef-") as folder:
        path = Path(folder, "stdin.jsonl")
        with path.open("wb") as spooled:
            while block := sys.stdin.buffer.read(1 << 20):
                spooled.write(block)
        yield str(path)


def _known(path: str | None, settings: Settings) -> Learners:
    """What a file holds, else what the store has counted."""
    if path is None:
        with _stored(settings) as stored:
            return stored.learners()
    from stef import cataloguefiles

    return cataloguefiles.load(path, settings.catalogue_key)


@contextmanager
def _stored(settings: Settings, *, create: bool = False) -> Iterator[Catalogues]:
    """The store's catalogue; another key than its own is refused, unless there may be a new one."""
    from stef.errors import StoreError
    from stef.store import Learning, Store

    with Store.open(settings.store, create=create) as store:
        stored = store.catalogues(Learning(key=settings.catalogue_key))
        if not create and stored.is_of_another_key():
            raise StoreError(
                f"{settings.store}: found a catalogue that was made with another key; "
                "allowed: the key that it was made with (--catalogue-key or STEF_CATALOGUE_KEY)"
            )
        yield stored


def _rows(app: str, database: str, learner: Learner) -> Iterator[dict[str, Any]]:
    """One row for each table: questions that used it, and its columns with theirs."""
    from stef.catalogue.observation import COLUMN, TABLE

    frozen = learner.freeze()
    view = frozen.without("")
    tables = {item[1] for item in frozen.used if item[0] == TABLE} | set(frozen.declared)
    for table in sorted(tables, key=lambda name: (-view.used((TABLE, name)), name)):
        seen = {item[2] for item in view.below("columns", table)} | frozen.declared.get(table, frozenset())
        columns = {name: round(view.used((COLUMN, table, name)), 2) for name in seen}
        ordered = dict(sorted(columns.items(), key=lambda pair: (-pair[1], pair[0])))
        questions = round(view.used((TABLE, table)), 2)
        yield {"app": app, "database": database, "table": table, "questions": questions, "columns": ordered}


def _ordered(learners: Learners) -> list[tuple[Where, Learner]]:
    return sorted(learners.learners.items(), key=lambda pair: (pair[0].app, pair[0].database))


def _say(learners: Learners) -> None:
    for where, one in _ordered(learners):
        name = "/".join(part for part in (where.app, where.database) if part) or "no name"
        click.echo(f"{name}: {len(one.questions)} questions, {len(list(_rows('', '', one)))} tables")
