"""`stef catalogue`, and the catalogue of `stef score`: what a log has shown of its databases."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from stef.cli.frame import Commands, console, resolved, settings_options, size_of

if TYPE_CHECKING:
    from stef.catalogue import Epoch, Learner, Learners, Where
    from stef.pipeline import Pipeline

_READING = ("rules", "app", "max_sql_bytes", "catalogue_key", "log_level", "log_format")
_KEPT = ("catalogue_key", "log_level", "log_format")
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
    from stef.pipeline import build as build_pipeline

    settings = resolved(flags)
    learners = _opened(path, settings.catalogue_key)
    _add(learners, surveyed(log, build_pipeline(settings), settings.catalogue_key)[0])
    _write(path, learners)
    _say(learners)


@catalogue.command()
@click.argument("path", metavar="CATALOGUE")
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
@settings_options(*_KEPT)
def show(path: str, as_json: bool, **flags: Any) -> None:  # noqa: ANN401 - settings from the table
    """Show what a catalogue knows: tables with their columns, most used first."""
    learners = _opened(path, resolved(flags).catalogue_key, create=False)
    rows = [row for where, one in _ordered(learners) for row in _rows(where.app, where.database, one)]
    if as_json:
        for row in rows:
            click.echo(json.dumps(row, ensure_ascii=False))
        return
    from stef.display import show_catalogue

    show_catalogue(console(), rows)


@catalogue.command()
@click.argument("path", metavar="CATALOGUE")
@settings_options(*_KEPT)
def export(path: str, **flags: Any) -> None:  # noqa: ANN401 - settings from the table
    """Write the tables and columns that a catalogue knows to standard output, as a list that import reads."""
    learners = _opened(path, resolved(flags).catalogue_key, create=False)
    for where, one in _ordered(learners):
        tables = {row["table"]: list(row["columns"]) for row in _rows(where.app, where.database, one)}
        line = {"app": where.app, "database": where.database, "tables": tables}
        click.echo(json.dumps(line, ensure_ascii=False))


@catalogue.command(name="import")
@click.argument("given", metavar="FILE")
@click.argument("path", metavar="CATALOGUE")
@click.option("--database", default="", help="Database that a list is of, where the list does not say.")
@settings_options(*_KEPT, "app")
def import_file(given: str, path: str, database: str, **flags: Any) -> None:  # noqa: ANN401 - settings from the table
    """Add a file to a catalogue: another catalogue, or a list of tables and columns.

    A list is JSON (an object table → columns, or what export writes) or lines of table,column. Its tables have no other
    columns than those.
    """
    settings = resolved(flags)
    learners = _opened(path, settings.catalogue_key)
    _import(given, learners, settings.app, database)
    _write(path, learners)
    _say(learners)


def _import(given: str, learners: Learners, app: str, database: str) -> None:
    """Add what a file gives."""
    from stef.catalogue import Where, declared, declared_rows, from_plain

    text = _text(given)
    try:
        if not text.lstrip().startswith(("{", "[")):
            _declare(learners, Where(app, database), declared_rows(text))
            return
        for plain in _documents(text):
            if isinstance(plain, dict) and "stef_catalogue" in plain:
                _add(learners, from_plain(plain, key=learners.key))
            else:
                named = plain if isinstance(plain, dict) and "tables" in plain else {}
                where = Where(app or str(named.get("app", "")), database or str(named.get("database", "")))
                _declare(learners, where, declared(plain))
    except ValueError as error:
        raise _wrong(given, str(error)) from error


def _documents(text: str) -> list[Any]:
    """One JSON document, or one on each line."""
    try:
        return [json.loads(text)]
    except json.JSONDecodeError:
        return [json.loads(line) for line in text.splitlines() if line.strip()]


def _declare(learners: Learners, where: Where, tables: Mapping[str, Sequence[str]]) -> None:
    learner = learners.of(where)
    if learner is not None:
        learner.declare(tables)


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


def pinned(given: str, file: str, pipeline: Pipeline, key: str) -> Epoch | None:
    """The catalogue that `--catalogue` names.

    Args:
        given: `auto`, `none`, or a path.
        file: The log that is to be scored.
        pipeline: That will score it.
        key: Of the catalogue.

    Raises:
        InputError: The catalogue or the log cannot be read.
    """
    match given:
        case "none":
            return None
        case "auto":
            return surveyed(file, pipeline, key)[1]
        case _:
            return _opened(given, key, create=False).freeze()


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


def _add(learners: Learners, others: Learners) -> None:
    for where, other in others.learners.items():
        learner = learners.of(where)
        if learner is not None:
            learner.merge(other)


def _opened(path: str, key: str, *, create: bool = True) -> Learners:
    """The catalogue of a file; an empty one when there is none and it may be made."""
    from stef.catalogue import Learners, from_plain

    if create and not Path(path).exists():
        return Learners(key)
    try:
        plain = json.loads(_text(path))
        if not isinstance(plain, dict):
            raise ValueError("found no object; allowed: what stef catalogue build writes")  # noqa: TRY004, TRY301
        return from_plain(plain, key=key)
    except ValueError as error:
        raise _wrong(path, str(error)) from error


def _text(path: str) -> str:
    from stef.errors import InputError

    try:
        return Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(path, "", error.strerror or str(error), "a file that can be read") from error


def _wrong(path: str, what: str) -> Exception:
    from stef.errors import InputError

    found, _, allowed = what.partition("; allowed: ")
    return InputError(path, "", found, allowed or "a catalogue, or a list of tables")


def _write(path: str, learners: Learners) -> None:
    """Write a catalogue whole or not at all."""
    from stef.catalogue import to_plain
    from stef.errors import InputError

    beside = Path(f"{path}.new")
    try:
        beside.write_text(json.dumps(to_plain(learners), ensure_ascii=False, separators=(",", ":")), encoding="utf-8")
        beside.replace(path)
    except OSError as error:
        raise InputError(path, "", error.strerror or str(error), "a path that can be written") from error


def _say(learners: Learners) -> None:
    for where, one in _ordered(learners):
        name = "/".join(part for part in (where.app, where.database) if part) or "no name"
        click.echo(f"{name}: {len(one.questions)} questions, {len(list(_rows('', '', one)))} tables")
