"""`stef labels`: what people and programs say of the records in the store."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from stef.cli.frame import Commands, console, printable, settings_options
from stef.config import resolve

if TYPE_CHECKING:
    from stef.label import Label
    from stef.labelfile import LabelFile
    from stef.store import Imported, Store

_PUT_ASIDE = 5
_NAMED = 5
_FIELDS = ("event_key", "event_id", "content_digest", "label", "source", "time", "note")


@click.group(cls=Commands)
def labels() -> None:
    """Say of records whether they are right."""


@labels.command(name="import")
@click.argument("file", metavar="FILE")
@click.option("--source", default="analyst", show_default=True, help="Who labelled, where a line does not say.")
@click.option("--json", "as_json", is_flag=True, help="The counts as JSON.")
@settings_options("store")
def import_labels(file: str, source: str, as_json: bool, store: str | None) -> None:
    """Add labels from a CSV file or JSON lines; the latest label of a source wins.

    A line has event_key or event_id, and label: 1, true, right, correct, or 0, false, wrong, incorrect. It may have
    source, time, note, and where several answers share a key, agent_version or content_digest. With - the labels come
    from standard input. Lines that hold no label are named on standard error, and the exit code is then 5.
    """
    from datetime import UTC, datetime

    from stef.labelfile import read

    now = datetime.now(UTC)
    found = read(_bytes(file), file, source=source, now=now)
    for error in found.wrong:
        click.echo(printable(f"stef: {error}"), err=True)
    with opened(store) as held:
        done = held.labels.add(found.labels, now)
        _refuse_strangers(file, found, done, held)
    _report(found, done, as_json=as_json)
    sys.exit(_PUT_ASIDE if found.wrong else 0)


@labels.command()
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
@settings_options("store")
def show(as_json: bool, store: str | None) -> None:
    """Show how many records are right, by agent version and source, and how far the sources agree."""
    from stef.label import agreements, tallies

    with opened(store) as held:
        found = list(held.labels.labelled())
    counts = tallies((item.agent, item.agent_version, item.label) for item in found)
    agreed = agreements(item.label for item in found)
    if as_json:
        content = {"labels": [asdict(tally) for tally in counts], "agreement": [asdict(pair) for pair in agreed]}
        click.echo(json.dumps(content, ensure_ascii=False, indent=1))
        return
    from stef.display import show_labels

    show_labels(console(), counts, agreed, records=len({item.label.record for item in found}))


@labels.command()
@click.option("--json", "as_json", is_flag=True, help="JSON lines instead of CSV.")
@settings_options("store")
def export(as_json: bool, store: str | None) -> None:
    """Write all labels to standard output, as import reads them."""
    import csv

    with opened(store) as held:
        if as_json:
            for label in held.labels.all():
                click.echo(json.dumps(_plain(label), ensure_ascii=False))
            return
        writer = csv.DictWriter(sys.stdout, _FIELDS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(_plain(label) for label in held.labels.all())


def _plain(label: Label) -> dict[str, Any]:
    said = {"label": "right" if label.right else "wrong", "time": label.at.isoformat()}
    return {name: said[name] if name in said else getattr(label, name) for name in _FIELDS}


def _bytes(file: str) -> bytes:
    from stef.errors import InputError

    try:
        return sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    except OSError as error:
        raise InputError(file, "", error.strerror or str(error), "a file of labels") from None


def _refuse_strangers(file: str, found: LabelFile, done: Imported, held: Store) -> None:
    from stef.errors import InputError

    if found.labels and len(done.unknown) == len(found.labels):
        what = f"{len(found.labels)} labels, none of an event in {held.path} ({_first(done.unknown)})"
        raise InputError(file, "", what, "keys or ids of events that have a result")


def _first(events: Sequence[str]) -> str:
    """The first few of some events, each once."""
    different = list(dict.fromkeys(events))
    more = f" and {len(different) - _NAMED} more" if len(different) > _NAMED else ""
    return ", ".join(different[:_NAMED]) + more


def _report(found: LabelFile, done: Imported, *, as_json: bool) -> None:
    counts = {name: getattr(done, name) for name in ("new", "changed", "unchanged", "older")}
    if as_json:
        named = {"unknown": done.unknown, "ambiguous": done.ambiguous}
        aside = {"wrong": len(found.wrong), "blank": found.blank, "unused_columns": found.unused}
        click.echo(json.dumps({**counts, **named, **aside}, ensure_ascii=False))
        return
    click.echo(", ".join(f"{count} {name}" for name, count in counts.items()))
    for text in _remarks(found, done):
        click.echo(printable(f"stef: {text}"), err=True)


def _remarks(found: LabelFile, done: Imported) -> list[str]:
    """What a person should know beside the counts."""
    remarks = {
        f"{len(done.unknown)} of events without a result: {_first(done.unknown)}": done.unknown,
        f"{len(done.ambiguous)} of events with several answers, which agent_version or content_digest must tell "
        f"apart: {_first(done.ambiguous)}": done.ambiguous,
        f"lines that hold no label: {len(found.wrong)}": found.wrong,
        f"lines whose label is empty: {found.blank}": found.blank,
        f"columns that were passed over: {', '.join(found.unused)}": found.unused,
    }
    return [text for text, reason in remarks.items() if reason]


def opened(store: str | None) -> Store:
    """The store that a flag or the environment names; it must be there."""
    from stef.store import Store as Opened

    return Opened.open(resolve({"store": store}, os.environ).store, create=False)
