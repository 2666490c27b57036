"""Shows what a catalogue knows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from stef.display.grid import table

if TYPE_CHECKING:
    from rich.console import Console

_COLUMNS = 12


def show_catalogue(console: Console, rows: Sequence[Mapping[str, Any]]) -> None:
    """One row for each table, with the columns that most questions used.

    Args:
        console: Where to.
        rows: `app`, `database`, `table`, `questions`, and `columns` with the questions that used each.
    """
    cells = [
        (row["app"], row["database"], row["table"], f"{row['questions']:g}", _named(row["columns"])) for row in rows
    ]
    table(console, ("app", "database", "table", "questions", "columns"), cells, numbers=("questions",))


def _named(columns: Mapping[str, float]) -> str:
    shown = ", ".join(f"{name} {count:g}" for name, count in list(columns.items())[:_COLUMNS])
    return f"{shown}, and {len(columns) - _COLUMNS} more" if len(columns) > _COLUMNS else shown
