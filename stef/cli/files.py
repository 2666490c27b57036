"""`stef rules`, `stef init`, `stef demo-log`: files that a user reads and edits."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from stef.cli.frame import Commands, printable


@click.group(cls=Commands)
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
        if name.endswith(".schema.json"):
            continue  # `rules/*.json` names it too
        row: dict[str, Any] = {"file": name}
        try:
            read = load(Path(name))
            row |= {"ok": True, "app": read.name, "version": read.version, "digest": read.digest}
            text = f"{name}: ok (version {read.version or 'none'}, digest {read.digest})"
        except RulesError as error:
            wrong += 1
            row |= {"ok": False, "place": error.place, "found": error.found, "allowed": error.allowed}
            text = str(error)
        click.echo(json.dumps(row, ensure_ascii=False) if as_json else printable(text))
    sys.exit(RulesError.exit_code if wrong else 0)


@click.command()
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
    consumer = Path(folder, "consumers", "jsonl.yaml")
    click.echo(f"{written} files written; next: STEF_LOG=your-log.jsonl stef consume --check {consumer}")


@click.command(name="demo-log")
@click.argument("file", metavar="FILE")
@click.option("--per-version", default=300, show_default=True, help="Records of each of the three versions.")
@click.option("--seed", default=1, show_default=True, help="The same seed gives the same log.")
def demo_log(file: str, per_version: int, seed: int) -> None:
    """Write the log of a made-up agent: three versions, with a known share of planted errors."""
    from stef import demolog

    summary = demolog.write(file, seed=seed, per_version=per_version)
    for version in summary.versions:
        wrong = sum(version.planted.values())
        counts = f"{version.records} records, {version.refused} refusals, {wrong} with a planted error"
        click.echo(f"version {version.label}: {counts}")
    click.echo(f"{summary.records} records in {summary.path}")
