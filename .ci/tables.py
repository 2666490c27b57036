"""Make from the code what must not differ from it: tables and the demo's output in the README, and two JSON Schemas.

    python .ci/tables.py            print what stands in the README
    python .ci/tables.py --write    write it into the README, between its marks, and the schemas
    python .ci/tables.py --check    end with 1 when a file says something else

What is called NAME stands between `<!-- NAME:begin -->` and `<!-- NAME:end -->`.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import click

import stef.cli
from stef import errors, metrics, result, rulefiles
from stef.config import SETTINGS, Setting
from stef.judge.caps import CAPS

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
# What a command ends with when it put lines aside: no error, so it is not in the tree.
PUT_ASIDE = {
    5: [
        "Some lines hold no record and were named; all others have their result (`stef score`).",
        "The same for lines that hold no label (`stef labels import`).",
    ]
}


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
        if not command.hidden and not (isinstance(command, click.Group) and not command.invoke_without_command):
            pieces = [
                item.make_metavar(click.Context(command)) for item in command.params if isinstance(item, click.Argument)
            ]
            yield " ".join([path, name, *pieces]), (command.help or "").strip().partition("\n")[0]
        if isinstance(command, click.Group):
            yield from _walk(command, f"{path} {name}")


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
    meanings |= PUT_ASIDE
    return table(("Exit code", "Meaning"), [(str(code), " ".join(meanings[code])) for code in sorted(meanings)])


def _errors(kind: type[errors.StefError]) -> Iterator[type[errors.StefError]]:
    yield kind
    for below in kind.__subclasses__():
        yield from _errors(below)


def caps() -> str:
    """Every cap with the best verdict that it leaves."""
    rows = [
        (f"`{cap.fact}`", cap.description, f"`{cap.highest}`" if cap.highest else "what the offline judge gives")
        for cap in CAPS
    ]
    return table(("Cap", "Fact", "Highest verdict"), rows)


def demo() -> str:
    """What `make demo` prints, with one record in each list."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "STEF_LOG": "agent.jsonl", "COLUMNS": "110"}
    lines: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        for command in ("init", "demo-log agent.jsonl", "consume consumers/jsonl.yaml", "compare --worst 1"):
            done = subprocess.run(  # noqa: S603 - starts stef itself
                [sys.executable, "-m", "stef", *command.split()],
                cwd=folder,
                env=environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                check=True,
            )
            if command != "init":
                lines += [f"$ stef {command}", *done.stdout.rstrip().splitlines(), ""]
    return "\n".join(["```text", *(line.rstrip() for line in lines[:-1]), "```"])


def result_schema() -> dict[str, Any]:
    """JSON Schema of one result, as `stef score --json` and the JSON sinks write it."""
    schema = result.adapter().json_schema(mode="serialization")
    for part in (schema, *schema["$defs"].values()):
        _describe(part)
        if "properties" in part:
            # Every field is always written, null where there is nothing; the specs only where they were asked for.
            part["required"] = [name for name in part["properties"] if name != "spec"]
    schema["properties"]["result_version"] = {"const": result.RESULT_VERSION, "description": "Version of this schema."}
    title = f"stef result, version {result.RESULT_VERSION}"
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": title}


_ATTRIBUTE = re.compile(r"^    (?P<names>\w+(?:, \w+)*): (?P<text>.*(?:\n {8}.*)*)", re.MULTILINE)


def _describe(part: dict[str, Any]) -> None:
    """Give what a docstring says of each attribute to the attribute."""
    about, _, attributes = part.get("description", "").partition("\n\nAttributes:\n")
    if about:
        part["description"] = " ".join(about.replace("`", "").split())
    for found in _ATTRIBUTE.finditer(attributes):
        for name in found["names"].split(", "):
            field = part["properties"].get(name, {})
            field["description"] = " ".join(found["text"].split())


SCHEMAS: dict[str, Callable[[], dict[str, Any]]] = {
    "stef/resources/result.schema.json": result_schema,
    "rules/app.schema.json": rulefiles.json_schema,
}


def schema_text(name: str) -> str:
    """The text of a schema file."""
    return json.dumps(SCHEMAS[name](), ensure_ascii=False, indent=2) + "\n"


TABLES: dict[str, Callable[[], str]] = {
    "commands": commands,
    "settings": settings,
    "metrics": metric_names,
    "exit-codes": exit_codes,
    "caps": caps,
    "demo": demo,
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
    """Print the tables; write or check the files."""
    if not arguments:
        print("\n\n".join(f"{name}\n\n{make()}" for name, make in TABLES.items()))
        return 0
    files = {README: written(README.read_text(encoding="utf-8"))}
    files |= {ROOT / name: schema_text(name) for name in SCHEMAS}
    if arguments == ["--write"]:
        for path, text in files.items():
            path.write_text(text, encoding="utf-8")
        return 0
    differ = [path for path, text in files.items() if not path.is_file() or path.read_text(encoding="utf-8") != text]
    for path in differ:
        print(f"{path.relative_to(ROOT)}: differs from the code; `make docs` writes it anew", file=sys.stderr)
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
