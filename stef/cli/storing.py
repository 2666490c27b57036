"""`stef db`: look after the store."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from stef.cli.frame import Commands, settings_options
from stef.config import resolve
from stef.errors import StefError

if TYPE_CHECKING:
    from stef.store import Store


@click.group(cls=Commands)
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
        click.echo(f"{name.replace('_', ' ')}: {_words(value)}")


def _words(value: object) -> str:
    match value:
        case dict():
            return ", ".join(f"{name} {count}" for name, count in value.items()) or "none"
        case list():
            return ", ".join(map(str, value))
        case _:
            return str(value)


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
    more = f", {gone.labels} labels without a result" if gone.labels else ""
    more += f", {gone.questions} questions of the catalogue" if gone.questions else ""
    click.echo(f"{gone.payloads} raw payloads and {gone.evaluations} results{more} deleted")


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
