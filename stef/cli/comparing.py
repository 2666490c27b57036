"""`stef compare`: groups of results side by side."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from stef.cli.frame import console, settings_options
from stef.config import Settings, resolve
from stef.errors import InputError

if TYPE_CHECKING:
    from stef.compare import Row


@click.command(name="compare")
@click.argument("files", nargs=-1, metavar="[RESULTS]...")
@click.option("--by", default="agent_version", show_default=True, help="Fields to group by, separated by commas.")
@click.option("--baseline", help="Group to compare the others with; the first one by default.")
@click.option("--worst", default=5, show_default=True, help="Worst records to show of each group.")
@click.option(
    "--scoring-config", help="Compare the results of this configuration; by default each application's newest."
)
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

    show_comparison(console(), found)


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
