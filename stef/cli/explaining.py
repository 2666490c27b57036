"""`stef explain`: how one record came to its score."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from stef.cli.frame import SCORING, console, resolved, settings_options
from stef.config import Settings
from stef.errors import InputError, SettingError

if TYPE_CHECKING:
    from stef.result import Evaluation


@click.command()
@click.argument("event", required=False)
@click.option("--file", "log", metavar="FILE", help="Take the record from this log and not from the store.")
@click.option("--question", help="Score this question …")
@click.option("--sql", help="… against this SQL.")
@click.option("--expansion", help="The agent's reformulation of the question.")
@click.option("--dialect", help="Dialect of the SQL.")
@click.option("--asked-at", metavar="TIME", help="When it was asked, such as 2026-11-30T09:00:00Z.")
@click.option("--json", "as_json", is_flag=True, help="The result with its specs as JSON.")
@settings_options("store", *SCORING)
def explain(event: str | None, log: str | None, as_json: bool, **flags: Any) -> None:  # noqa: ANN401 - settings from the table
    """Show how one record came to its score.

    EVENT is the record's id or key, looked up in the store or, with --file, in a log. With --question and --sql the
    record is given on the command line; --catalogue auto then means what the store has learned, if there is one.
    """
    given = {name: flags.pop(name) for name in ("question", "sql", "expansion", "dialect", "asked_at")}
    settings = resolved(flags)
    found = _found(event, log, given, settings)
    if as_json:
        from stef.result import to_json

        for evaluation in found:
            click.echo(to_json(evaluation, specs=True))
        return
    from stef.display import show_explanation

    for evaluation in found:
        show_explanation(console(), evaluation)


def _found(event: str | None, log: str | None, given: dict[str, str | None], settings: Settings) -> list[Evaluation]:
    if given["question"]:
        return asyncio.run(_explained([_typed(given)], settings, None))
    if not event:
        raise SettingError("explain: found nothing; allowed: an EVENT, or --question and --sql")
    if log is None:
        return _stored(event, settings)
    found = asyncio.run(_explained(_lines(log), settings, log, event))
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


async def _explained(
    lines: Sequence[bytes], settings: Settings, log: str | None, event: str | None = None
) -> list[Evaluation]:
    from stef.cli.cataloguing import pinned
    from stef.errors import RecordError
    from stef.pipeline import build
    from stef.record import Message
    from stef.result import Evaluation

    plain, found = build(settings), []
    pipeline = plain.pinned(pinned(log, plain, settings))
    for offset, line in enumerate(lines):
        if event is not None and event.encode() not in line:
            continue
        try:
            results = await pipeline.evaluate(Message(value=line, offset=offset))
        except RecordError:
            continue
        found += [
            e for e in results if isinstance(e, Evaluation) and (event is None or event in {e.event_id, e.event_key})
        ]
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
