"""Make the tables of the README from the code.

    python .ci/tables.py            print them
    python .ci/tables.py --write    write them into the README, between their marks
    python .ci/tables.py --check    end with 1 when the README says something else

A table stands between `<!-- NAME:begin -->` and `<!-- NAME:end -->`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import click

import stef.cli
from stef import errors, metrics
from stef.config import SETTINGS, Setting

README = Path(__file__).parent.parent / "README.md"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(_cell(text) for text in line) + " |" for line in lines)


def _cell(text: str) -> str:
    """Text in which neither a bar nor a tag is read as markup; code is shown as it is."""
    text = text.replace("|", "\\|")
    return text if text.startswith("`") else text.replace("<", "&lt;")


def commands() -> str:
    """Every command with its first sentence."""
    root = next(item for item in vars(stef.cli).values() if isinstance(item, click.Group))
    return table(("Command", "What it does"), [(f"`{usage}`", text) for usage, text in _walk(root, "stef")])


def _walk(group: click.Group, path: str) -> Iterator[tuple[str, str]]:
    for name in group.commands:
        command = group.commands[name]
        if isinstance(command, click.Group):
            yield from _walk(command, f"{path} {name}")
        elif not command.hidden:
            pieces = [
                item.make_metavar(click.Context(command)) for item in command.params if isinstance(item, click.Argument)
            ]
            yield " ".join([path, name, *pieces]), (command.help or "").strip().partition("\n")[0]


def settings() -> str:
    """Every setting with flag, environment name and default."""
    rows = [(f"`{row.flag}`", f"`{row.env}`", _default(row), row.help + _choices(row)) for row in SETTINGS]
    return table(("Flag", "Environment", "Default", "Meaning"), rows)


def _default(row: Setting) -> str:
    value = str(row.default).lower() if isinstance(row.default, bool) else str(row.default)
    return f"`{value}`" if value else "none"


def _choices(row: Setting) -> str:
    return f" One of {', '.join(f'`{choice}`' for choice in row.choices)}." if row.choices else ""


def metric_names() -> str:
    """Every metric with its kind and labels."""
    rows = [
        (f"`{row.name}`", str(row.kind), ", ".join(f"`{label}`" for label in row.labels), row.help)
        for row in metrics.METRICS
    ]
    return table(("Metric", "Kind", "Labels", "Meaning"), rows)


def exit_codes() -> str:
    """Every exit code with the errors that end so."""
    meanings = {0: ["Everything went well."], errors.StefError.exit_code: ["Anything that is not named below."]}
    for kind in _errors(errors.StefError):
        if "exit_code" in vars(kind) and kind is not errors.StefError:
            meanings.setdefault(kind.exit_code, []).append((kind.__doc__ or "").strip().partition("\n")[0])
    return table(("Exit code", "Meaning"), [(str(code), " ".join(meanings[code])) for code in sorted(meanings)])


def _errors(kind: type[errors.StefError]) -> Iterator[type[errors.StefError]]:
    yield kind
    for below in kind.__subclasses__():
        yield from _errors(below)


TABLES: dict[str, Callable[[], str]] = {
    "commands": commands,
    "settings": settings,
    "metrics": metric_names,
    "exit-codes": exit_codes,
}


def written(text: str) -> str:
    """The README with its tables made anew.

    Raises:
        SystemExit: A table has no place.
    """
    for name, make in TABLES.items():
        begin, end = f"<!-- {name}:begin -->", f"<!-- {name}:end -->"
        before, found, rest = text.partition(begin)
        _, closed, after = rest.partition(end)
        if not found or not closed:
            raise SystemExit(f"{README.name}: the table has no place: {begin} … {end}")
        text = f"{before}{begin}\n\n{make()}\n\n{end}{after}"
    return text


def main(arguments: Sequence[str]) -> int:
    """Print, write or check the tables."""
    if not arguments:
        print("\n\n".join(f"{name}\n\n{make()}" for name, make in TABLES.items()))
        return 0
    text = README.read_text(encoding="utf-8")
    new = written(text)
    if arguments == ["--write"]:
        README.write_text(new, encoding="utf-8")
    elif new != text:
        print(f"{README.name}: its tables differ from the code; `make docs` writes them anew", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
