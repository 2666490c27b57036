"""The command line: parse, call, print. Everything heavy is imported by the command that needs it."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from stef.config import SETTINGS, Setting, Settings, resolve
from stef.errors import InputError, SettingError, StefError
from stef.version import __version__

if TYPE_CHECKING:
    from rich.console import Console

    from stef.compare import Row
    from stef.consume import Consumer
    from stef.record import Message
    from stef.result import Evaluation
    from stef.store import Store
    from stef.stream.protocols import DeadLetter
    from stef.stream.report import Report

F = TypeVar("F", bound=Callable[..., Any])
_SCORING = (
    "rules", "app", "trust_inline_rules", "prompts", "prompt", "judge", "model", "api_base", "judge_timeout", "judge_retries", "max_outage",
    "on_outage", "concurrency", "max_sql_bytes", "log_level", "log_format",
)  # fmt: skip
_PUT_ASIDE = 5


class _Commands(click.Group):
    """Lists the commands in the order in which a newcomer needs them, and turns our errors into exit codes."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Commands as written below."""
        del ctx
        return list(self.commands)

    def invoke(self, ctx: click.Context) -> Any:  # noqa: ANN401 - click's own signature
        """Run a command; an error of ours ends in one line and its exit code."""
        try:
            return super().invoke(ctx)
        except StefError as error:
            click.echo(f"stef: {_printable(str(error))}", err=True)
            ctx.exit(error.exit_code)
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            ctx.exit(0)


def _printable(text: str) -> str:
    from stef.display import clean

    return clean(text)


def settings_options(*names: str) -> Callable[[F], F]:
    """Flags for settings, from the table."""
    rows = [row for row in SETTINGS if row.name in names]

    def decorate(function: F) -> F:
        for row in reversed(rows):
            function = _option(row)(function)
        return function

    return decorate


def _option(row: Setting) -> Callable[[F], F]:
    shown = str(row.default).lower() if isinstance(row.default, bool) else str(row.default)
    text = f"{row.help}  [{row.env}; default: {shown or 'none'}]"
    kind = click.Choice(row.choices) if row.choices else None
    return click.option(row.flag, row.name, default=None, help=text, type=kind, metavar=None if row.choices else "VALUE")


def _resolved(flags: dict[str, Any], file: dict[str, Any] | None = None) -> Settings:
    settings = resolve(flags, os.environ, file)
    _start_log(settings)
    return settings


def _start_log(settings: Settings) -> None:
    """Send the log to standard error: text for people, JSON in a pipe."""
    import logging

    import structlog

    as_text = settings.log_format == "text" or (settings.log_format == "auto" and sys.stderr.isatty())
    renderer: Any = structlog.dev.ConsoleRenderer() if as_text else structlog.processors.JSONRenderer()
    steps = [structlog.processors.add_log_level, structlog.processors.TimeStamper(fmt="iso", utc=True), structlog.processors.format_exc_info]
    level = logging.getLevelNamesMapping()[settings.log_level.upper()]
    structlog.configure(
        processors=[*steps, renderer],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )


def _console(*, error: bool = False) -> Console:
    from rich.console import Console

    stream = sys.stderr if error else sys.stdout
    return Console(file=stream, width=None if stream.isatty() else 200, highlight=False)


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(__version__, prog_name="stef")
def main() -> None:
    """Score what a text-to-SQL agent did in production: no schema, no reference query, no execution.

    \b
    Try it:        stef demo-log demo.jsonl && stef score demo.jsonl
    Attach it:     stef init && stef consume --check consumers/jsonl.yaml
    Compare:       stef compare --by agent_version
    Look inside:   stef explain EVENT
    """


# ── score ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@main.command()
@click.argument("file", default="-", metavar="[FILE]")
@click.option("--json", "as_json", is_flag=True, help="Results as JSON lines, one for each record, instead of a table.")
@click.option("--specs", is_flag=True, help="With --json: what was read from SQL, question and expansion too.")
@settings_options(*_SCORING)
def score(file: str, as_json: bool, specs: bool, **flags: Any) -> None:  # noqa: ANN401 - settings from the table
    """Score a log file of JSON lines; results go to standard output.

    FILE may be gzip; without it, or with -, the log comes from standard input. Lines that hold no record are named on
    standard error, and the exit code is then 5.
    """
    settings = _resolved(flags)
    kept: list[Evaluation] = []
    aside = asyncio.run(_score(file, settings, kept if not as_json else None, specs=specs))
    if not as_json:
        from stef.display import show_results

        show_results(_console(), kept)
    if aside:
        click.echo(f"stef: {aside} of the lines hold no record", err=True)
        sys.exit(_PUT_ASIDE)


async def _score(file: str, settings: Settings, kept: list[Evaluation] | None, *, specs: bool) -> int:
    from stef.display import progress
    from stef.pipeline import build
    from stef.stream.files import FileSource
    from stef.stream.limits import Limits
    from stef.stream.loop import Loop
    from stef.stream.memory import MemorySink
    from stef.stream.sinks import JsonlSink

    pipeline = build(settings, known=_SeenInThisRun())
    complaints, memory = _Complaints(), MemorySink()
    sink = memory if kept is not None else JsonlSink("-", specs=specs)
    with progress(_console(error=True), "scoring", _size(file)) as advance:
        loop = Loop(
            FileSource(file),
            pipeline.evaluate,
            sinks=[sink],
            dead_letters=complaints,
            limits=Limits(concurrency=settings.concurrency),
            on_flush=_advancing(advance),
        )
        try:
            await loop.run(signals=True)
        finally:
            await pipeline.close()
    if kept is not None:
        kept += [delivery.evaluation for delivery in memory.deliveries]
    return complaints.count


class _Complaints:
    """Dead letters of `stef score`: each is named on standard error."""

    name = "standard error"

    def __init__(self) -> None:
        self.count = 0

    def write(self, batch: Sequence[DeadLetter]) -> None:
        """Name them."""
        for letter in batch:
            self.count += 1
            click.echo(f"stef: {_printable(letter.message.topic)}, byte {letter.message.offset}: {_printable(str(letter.error))}", err=True)

    def close(self) -> None:
        """Nothing to let go of."""


class _SeenInThisRun:
    """Duplicates within one file, by key and content; what was seen is 16 bytes a record."""

    def __init__(self) -> None:
        self._seen: set[bytes] = set()

    def __call__(self, message: Message, key: str, digest: str, config: str) -> bool:
        import hashlib

        mark = hashlib.blake2b(f"{message.topic}\0{key}\0{digest}\0{config}".encode("utf-8", "replace"), digest_size=16).digest()
        known = mark in self._seen
        self._seen.add(mark)
        return known


def _size(path: str) -> int | None:
    return Path(path).stat().st_size if path != "-" and Path(path).is_file() else None


def _advancing(advance: Callable[[int], None]) -> Callable[[Report], None]:
    done = 0

    def moved(report: Report) -> None:
        nonlocal done
        if report.extent is not None:
            advance(report.extent.done - done)
            done = report.extent.done

    return moved


# ── explain ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@main.command()
@click.argument("event", required=False)
@click.option("--file", "log", metavar="FILE", help="Take the record from this log and not from the store.")
@click.option("--question", help="Score this question …")
@click.option("--sql", help="… against this SQL.")
@click.option("--expansion", help="The agent's reformulation of the question.")
@click.option("--dialect", help="Dialect of the SQL.")
@click.option("--asked-at", metavar="TIME", help="When it was asked, such as 2026-11-30T09:00:00Z.")
@click.option("--json", "as_json", is_flag=True, help="The result with its specs as JSON.")
@settings_options("store", *_SCORING)
def explain(event: str | None, log: str | None, as_json: bool, **flags: Any) -> None:  # noqa: ANN401 - settings from the table
    """Show how one record came to its score.

    EVENT is the record's id or key, looked up in the store or, with --file, in a log. With --question and --sql the
    record is given on the command line.
    """
    given = {name: flags.pop(name) for name in ("question", "sql", "expansion", "dialect", "asked_at")}
    settings = _resolved(flags)
    found = _found(event, log, given, settings)
    if as_json:
        from stef.result import to_json

        for evaluation in found:
            click.echo(to_json(evaluation, specs=True))
        return
    from stef.display import show_explanation

    for evaluation in found:
        show_explanation(_console(), evaluation)


def _found(event: str | None, log: str | None, given: dict[str, str | None], settings: Settings) -> list[Evaluation]:
    if given["question"]:
        return asyncio.run(_explained([_typed(given)], settings))
    if not event:
        raise SettingError("explain: found nothing; allowed: an EVENT, or --question and --sql")
    if log is None:
        return _stored(event, settings)
    found = asyncio.run(_explained(_lines(log), settings, event))
    if not found:
        raise InputError(log, "", f"no record with the id {event!r}", "the id or key of a record in the file")
    return found


def _typed(given: dict[str, str | None]) -> bytes:
    import json

    record = {"event_id": "command line", **given, "expanded_question": given["expansion"]}
    record.pop("expansion")
    return json.dumps({name: value for name, value in record.items() if value is not None}).encode()


def _lines(path: str) -> list[bytes]:
    from stef.stream.files import FileSource

    source, found = FileSource(path), []
    try:
        while not (polled := source.poll(1.0, 1000)).ended or polled.messages:
            found += [message.value for message in polled.messages if message.value is not None]
            if polled.ended:
                break
    finally:
        source.close()
    return found


async def _explained(lines: Sequence[bytes], settings: Settings, event: str | None = None) -> list[Evaluation]:
    from stef.errors import RecordError
    from stef.pipeline import build
    from stef.record import Message
    from stef.result import Evaluation

    pipeline, found = build(settings), []
    for offset, line in enumerate(lines):
        if event is not None and event.encode() not in line:
            continue
        try:
            results = await pipeline.evaluate(Message(value=line, offset=offset))
        except RecordError:
            continue
        found += [e for e in results if isinstance(e, Evaluation) and (event is None or event in {e.event_id, e.event_key})]
    await pipeline.close()
    return found


def _stored(event: str, settings: Settings) -> list[Evaluation]:
    from stef.errors import StoreError
    from stef.store import Selection, Store

    with Store.open(settings.store, create=False) as store:
        found = list(store.rows(Selection(event=event)))
    if not found:
        raise StoreError(f"{settings.store}: no record with the id or key {event!r}")
    return found


# ── consume ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@main.command()
@click.argument("file", metavar="CONSUMER")
@click.option("--check", "only_check", is_flag=True, help="Read a few messages, show what becomes of them, commit and store nothing.")
@click.option("--count", default=5, show_default=True, help="With --check: messages to read.")
@settings_options("store", "http", "raw_days", *_SCORING)
def consume(file: str, only_check: bool, count: int, **flags: Any) -> None:  # noqa: ANN401 - settings from the table
    """Run a consumer: a file in consumers/ names the source, the rules, the judge and the sinks.

    SIGTERM and Ctrl-C finish what is in flight, then end.
    """
    from stef import consume as consumers

    consumer = consumers.read(file, os.environ)
    settings = _resolved(flags, consumer.settings())
    if only_check:
        from stef.display import show_check

        show_check(_console(), _check_report(consumer, settings, asyncio.run(consumers.check(consumer, settings, count=count))))
        return
    path = getattr(consumer.source, "path", "-")
    with progress_of(path) as moved:
        report = asyncio.run(consumers.run(consumer, settings, on_flush=moved))
    click.echo(_summary(report, settings), err=True)


@contextmanager
def progress_of(path: str) -> Iterator[Callable[[Report], None]]:
    """A bar for a source with an end."""
    from stef.display import progress

    with progress(_console(error=True), "scoring", _size(path)) as advance:
        yield _advancing(advance)


def _summary(report: Report, settings: Settings) -> str:
    parts = [f"{count} {outcome.replace('_', ' ')}" for outcome, count in report.outcomes.items()]
    aside = sum(report.dead_letters.values())
    parts += [f"{aside} dead letter{'' if aside == 1 else 's'}"] if aside else []
    return f"{report.received} messages: {', '.join(parts) or 'nothing to do'}; {report.new} new in {settings.store}"


def _check_report(consumer: Consumer, settings: Settings, found: Sequence[Any]) -> Any:  # noqa: ANN401 - lazy types
    from stef.display import Check, CheckedMessage, CheckedRules

    messages: list[CheckedMessage] = []
    for item in found:
        messages += [CheckedMessage.of(item.position, record, result) for record, result in zip(item.records, item.evaluations, strict=False)]
        messages += [CheckedMessage.rejected(item.position, error) for error in item.errors]
    rules = [CheckedRules(app=name, version=r.version, digest=r.digest) for name, r in _registry(settings.rules).items()]
    source = consumer.source
    place = getattr(source, "path", None) or ", ".join(getattr(source, "topics", [])) or getattr(source, "pattern", "")
    judge = settings.judge if settings.judge == "offline" else f"{settings.judge} {settings.model}"
    sinks = tuple(" ".join(str(value) for value in sink.model_dump(exclude_defaults=True).values()) for sink in consumer.sinks)
    return Check(
        consumer=consumer.name, source=f"{source.kind} {place}", sinks=sinks, judge=judge, messages=tuple(messages), rules=tuple(rules)
    )


def _registry(folder: str) -> dict[str, Any]:
    from stef.rulefiles import load_folder

    return dict(load_folder(Path(folder)))


# ── compare ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@main.command(name="compare")
@click.argument("files", nargs=-1, metavar="[RESULTS]...")
@click.option("--by", default="agent_version", show_default=True, help="Fields to group by, separated by commas.")
@click.option("--baseline", help="Group to compare the others with; the first one by default.")
@click.option("--worst", default=5, show_default=True, help="Worst records to show of each group.")
@click.option("--scoring-config", help="Compare the results of this configuration; by default each application's newest.")
@click.option("--mix", is_flag=True, help="Compare results of different scoring configurations with one another.")
@click.option("--json", "as_json", is_flag=True, help="The comparison as JSON.")
@settings_options("store")
def compare_groups(files: Sequence[str], by: str, as_json: bool, store: str | None, **options: Any) -> None:  # noqa: ANN401 - click's options
    """Compare agent versions, or groups of any field: mean, quantiles, coverage, and whether a difference is real.

    Reads the store, or the RESULTS files that `stef score --json` wrote.
    """
    import json

    from stef.compare import compare

    settings = resolve({"store": store}, os.environ)
    found = compare(_rows(files, settings), by=[part.strip() for part in by.split(",")], **options)
    if as_json:
        click.echo(json.dumps(found.to_dict(), ensure_ascii=False, indent=1, default=str))
        return
    from stef.display import show_comparison

    show_comparison(_console(), found)


def _rows(files: Sequence[str], settings: Settings) -> Iterator[Row]:
    from stef.compare import from_evaluation, from_lines
    from stef.store import Store

    if not files:
        with Store.open(settings.store, create=False) as store:
            for evaluation in store.rows():
                yield from_evaluation(evaluation)
    for path in files:
        try:
            with Path(path).open("rb") as lines:
                yield from from_lines(lines, path)
        except OSError as error:
            raise InputError(path, "", error.strerror or str(error), "a file of results") from None


# ── files ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@main.group(cls=_Commands)
def rules() -> None:
    """Check rules files."""


@rules.command(name="check")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option("--json", "as_json", is_flag=True, help="One JSON object for each file.")
def check_rules(files: Sequence[str], as_json: bool) -> None:
    """Check rules files: keys, values, conditions; says where, what was found, and what is allowed."""
    import json

    from stef.errors import RulesError
    from stef.rulefiles import load

    wrong = 0
    for name in files:
        row: dict[str, Any] = {"file": name}
        try:
            read = load(Path(name))
            row |= {"ok": True, "app": read.name, "version": read.version, "digest": read.digest}
            text = f"{name}: ok (version {read.version or 'none'}, digest {read.digest})"
        except RulesError as error:
            wrong += 1
            row |= {"ok": False, "place": error.place, "found": error.found, "allowed": error.allowed}
            text = str(error)
        click.echo(json.dumps(row, ensure_ascii=False) if as_json else _printable(text))
    sys.exit(RulesError.exit_code if wrong else 0)


@main.command()
@click.argument("folder", default=".", metavar="[FOLDER]")
@click.option("--force", is_flag=True, help="Write over files that are there.")
def init(folder: str, force: bool) -> None:
    """Write starter rules/, prompts/ and consumers/ into a folder."""
    from stef import starter

    written = 0
    for name, content in starter.files().items():
        path = Path(folder, name)
        if path.exists() and not force:
            click.echo(f"{path}: is there, left as it is")
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        click.echo(str(path))
        written += 1
    click.echo(f"{written} files written; next: stef consume --check {Path(folder, 'consumers', 'jsonl.yaml')}")


@main.command(name="demo-log")
@click.argument("file", metavar="FILE")
@click.option("--per-version", default=300, show_default=True, help="Records of each of the three versions.")
@click.option("--seed", default=1, show_default=True, help="The same seed gives the same log.")
def demo_log(file: str, per_version: int, seed: int) -> None:
    """Write the log of a made-up agent: three versions, with a known share of planted errors."""
    from stef import demolog

    summary = demolog.write(file, seed=seed, per_version=per_version)
    for version in summary.versions:
        wrong = sum(version.planted.values())
        click.echo(f"version {version.label}: {version.records} records, {version.refused} refusals, {wrong} with a planted error")
    click.echo(f"{summary.records} records in {summary.path}")


# ── store ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@main.group(cls=_Commands)
def db() -> None:
    """Look after the store."""


@db.command()
@settings_options("store")
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
def info(store: str | None, as_json: bool) -> None:
    """Show path, size, counts and schema."""
    import json

    with _opened(store) as opened:
        facts = {
            "path": str(Path(opened.path).resolve()),
            "bytes": opened.size(),
            "results": opened.count(),
            "raw_payloads": opened.raw_count(),
            "dead_letters": opened.dead_letters(),
            "schema": list(opened.schema()),
        }
    if as_json:
        click.echo(json.dumps(facts))
        return
    for name, value in facts.items():
        click.echo(f"{name.replace('_', ' ')}: {value if not isinstance(value, list) else ', '.join(value)}")


@db.command()
@click.option("--before", required=True, metavar="DAYS", type=int, help="What is older than so many days.")
@click.option("--results", is_flag=True, help="Delete results too, not only raw payloads.")
@click.option("--vacuum", is_flag=True, help="Give the space back to the file system.")
@settings_options("store")
def prune(before: int, results: bool, vacuum: bool, store: str | None) -> None:
    """Delete what is old: raw payloads, with --results results too."""
    from datetime import UTC, datetime, timedelta

    with _opened(store) as opened:
        gone = opened.prune(datetime.now(UTC) - timedelta(days=before), results=results, vacuum=vacuum)
    click.echo(f"{gone}".removeprefix("Pruned(").removesuffix(")").replace("=", " "))


@db.command()
@click.argument("event")
@settings_options("store")
def erase(event: str, store: str | None) -> None:
    """Delete everything that is stored of one event."""
    with _opened(store) as opened:
        gone = opened.erase(event)
    click.echo(f"{gone} results erased")
    sys.exit(0 if gone else StefError.exit_code)


def _opened(store: str | None) -> Store:
    from stef.store import Store as Opened

    return Opened.open(resolve({"store": store}, os.environ).store, create=False)
