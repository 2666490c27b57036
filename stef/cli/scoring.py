"""`stef score`: a log file in, results out."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from stef.cli.frame import SCORING, advancing, console, printable, resolved, settings_options, size_of
from stef.config import Settings
from stef.errors import JudgeError

if TYPE_CHECKING:
    from stef.record import Message
    from stef.result import Evaluation
    from stef.stream.protocols import DeadLetter

_PUT_ASIDE = 5


@click.command()
@click.argument("file", default="-", metavar="[FILE]")
@click.option("--json", "as_json", is_flag=True, help="Results as JSON lines, one for each record, instead of a table.")
@click.option("--specs", is_flag=True, help="With --json: what was read from SQL, question and expansion too.")
@settings_options("store", *SCORING)
def score(file: str, as_json: bool, specs: bool, **flags: Any) -> None:  # noqa: ANN401 - settings from the table
    """Score a log file of JSON lines; results go to standard output.

    FILE may be gzip; without it, or with -, the log comes from standard input. Lines that hold no record are named on
    standard error, and the exit code is then 5. It is 4 when records failed, as they do when a model gives no verdict.

    A file is read twice: the first time for what its records show of their databases, which then counts as evidence. A
    record's own question never counts for itself. Standard input is read twice only if --catalogue auto says so.
    """
    from stef.cli.cataloguing import twice

    settings = resolved(flags)
    if file == "-" and flags["catalogue"] is None and settings.catalogue == "auto":
        settings = replace(settings, catalogue="none")
    kept: list[Evaluation] = []
    with twice(file, settings.catalogue) as path:
        failed, aside = asyncio.run(_score(path, settings, kept if not as_json else None, specs=specs))
    if not as_json:
        from stef.display import show_results

        show_results(console(), kept)
    if aside:
        click.echo(f"stef: lines that hold no record: {aside}", err=True)
    if failed:
        click.echo(f"stef: records that failed: {failed}", err=True)
    sys.exit(JudgeError.exit_code if failed else _PUT_ASIDE if aside else 0)


async def _score(file: str, settings: Settings, kept: list[Evaluation] | None, *, specs: bool) -> tuple[int, int]:
    """Score into `kept` or onto standard output; how many records failed, and how many lines hold none."""
    from stef.cli.cataloguing import pinned
    from stef.display import progress
    from stef.pipeline import build
    from stef.result import Outcome
    from stef.stream.files import FileSource
    from stef.stream.limits import Limits
    from stef.stream.loop import Loop
    from stef.stream.memory import MemorySink
    from stef.stream.sinks import JsonlSink

    pipeline = build(settings, known=_SeenInThisRun())
    pipeline = pipeline.pinned(pinned(file, pipeline, settings))
    complaints, memory = _Complaints(), MemorySink()
    sink = memory if kept is not None else JsonlSink("-", specs=specs)
    with progress(console(error=True), "scoring", size_of(file)) as advance:
        loop = Loop(
            FileSource(file),
            pipeline.evaluate,
            sinks=[sink],
            dead_letters=complaints,
            limits=Limits(concurrency=settings.concurrency),
            on_flush=advancing(advance),
        )
        try:
            report = await loop.run(signals=True)
        finally:
            await pipeline.close()
    if kept is not None:
        kept += [delivery.evaluation for delivery in memory.deliveries]
    return report.outcomes.get(Outcome.FAILED, 0), complaints.count


class _Complaints:
    """Dead letters of `stef score`: each is named on standard error."""

    name = "standard error"

    def __init__(self) -> None:
        self.count = 0

    def write(self, batch: Sequence[DeadLetter]) -> None:
        """Name them."""
        for letter in batch:
            self.count += 1
            place = f"{letter.message.topic}, byte {letter.message.offset}"
            click.echo(printable(f"stef: {place}: {letter.error}"), err=True)

    def close(self) -> None:
        """Nothing to let go of."""


class _SeenInThisRun:
    """Duplicates within one file, by key and content; what was seen is 16 bytes a record."""

    def __init__(self) -> None:
        self._seen: set[bytes] = set()

    def __call__(self, message: Message, key: str, digest: str, config: str) -> bool:
        import hashlib

        mark = hashlib.blake2b(
            f"{message.topic}\0{key}\0{digest}\0{config}".encode("utf-8", "replace"), digest_size=16
        ).digest()
        known = mark in self._seen
        self._seen.add(mark)
        return known
