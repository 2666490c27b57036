"""`stef consume`: run a consumer, or check it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from stef.cli.frame import SCORING, advancing, console, resolved, settings_options, size_of
from stef.config import Settings

if TYPE_CHECKING:
    from stef.consume import Consumer
    from stef.stream.report import Report


@click.command()
@click.argument("file", metavar="CONSUMER")
@click.option(
    "--check",
    "only_check",
    is_flag=True,
    help="Read a few messages, show what becomes of them, commit and store nothing.",
)
@click.option("--count", default=5, show_default=True, help="With --check: messages to read.")
@settings_options("store", "http", "raw_days", "catalogue_days", *SCORING)
def consume(file: str, only_check: bool, count: int, **flags: Any) -> None:  # noqa: ANN401 - settings from the table
    """Run a consumer: a file in consumers/ names the source, the rules, the judge and the sinks.

    SIGTERM and Ctrl-C finish what is in flight, then end.
    """
    from stef import consume as consumers

    consumer = consumers.read(file, os.environ)
    settings = resolved(flags, consumer.settings())
    if only_check:
        from stef.display import show_check

        show_check(
            console(), _check_report(consumer, settings, asyncio.run(consumers.check(consumer, settings, count=count)))
        )
        return
    path = getattr(consumer.source, "path", "-")
    with progress_of(path) as moved:
        report = asyncio.run(consumers.run(consumer, settings, on_flush=moved))
    click.echo(_summary(report, settings), err=True)


@contextmanager
def progress_of(path: str) -> Iterator[Callable[[Report], None]]:
    """A bar for a source with an end."""
    from stef.display import progress

    with progress(console(error=True), "scoring", size_of(path)) as advance:
        yield advancing(advance)


def _summary(report: Report, settings: Settings) -> str:
    parts = [f"{count} {outcome}" for outcome, count in report.outcomes.items()]
    aside = sum(report.dead_letters.values())
    if aside:
        parts.append(f"{aside} dead letter{'' if aside == 1 else 's'}")
    reasons = (*report.reasons.items(), *report.dead_letters.items())
    why = ", ".join(f"{reason} {count}" for reason, count in reasons)
    counts = ", ".join(parts) + (f" ({why})" if why else "")
    return f"{report.received} messages: {counts or 'nothing to do'}; {report.new} new in {settings.store}"


def _check_report(consumer: Consumer, settings: Settings, found: Sequence[Any]) -> Any:  # noqa: ANN401 - lazy types
    from stef.display import Check, CheckedMessage, CheckedRules

    messages: list[CheckedMessage] = []
    for item in found:
        messages += [
            CheckedMessage.of(item.position, record, result)
            for record, result in zip(item.records, item.evaluations, strict=False)
        ]
        messages += [CheckedMessage.rejected(item.position, error) for error in item.errors]
    rules = [
        CheckedRules(app=name, version=r.version, digest=r.digest) for name, r in _registry(settings.rules).items()
    ]
    source = consumer.source
    place = getattr(source, "path", None) or ", ".join(getattr(source, "topics", [])) or getattr(source, "pattern", "")
    judge = settings.judge if settings.judge == "offline" else f"{settings.judge} {settings.model}"
    sinks = tuple(
        " ".join(str(value) for value in sink.model_dump(exclude_defaults=True).values()) for sink in consumer.sinks
    )
    return Check(
        consumer=consumer.name,
        source=f"{source.kind} {place}",
        sinks=sinks,
        judge=judge,
        messages=tuple(messages),
        rules=tuple(rules),
    )


def _registry(folder: str) -> dict[str, Any]:
    from stef.rulefiles import load_folder

    return dict(load_folder(Path(folder)))
