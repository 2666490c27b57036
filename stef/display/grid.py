"""Draws tables and lines: with frames and colour on a terminal, as aligned plain text in a pipe.

Every text passes `clean` here, so that no caller can forget it. In a pipe nothing is cut or wrapped, however narrow
the console believes itself to be.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from stef.display.text import clean

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text


@dataclass(frozen=True, slots=True)
class Styled:
    """A piece of text with a rich style (`bold red`); it may have several lines."""

    text: str
    style: str = ""


Cell = str | Styled | Sequence[Styled]


def line(console: Console, *pieces: str | Styled) -> None:
    """Print pieces one after the other on one line."""
    from rich.text import Text

    text = Text()
    for piece in map(_styled, pieces):
        text.append(clean(piece.text), piece.style or None)
    text.rstrip()
    console.print(text, soft_wrap=not console.is_terminal)


def block(console: Console, title: str, text: str) -> None:
    """Print a text of several lines under a title, indented."""
    heading(console, title)
    for part in clean(text, lines=True).split("\n"):
        line(console, "  ", part)


def heading(console: Console, title: str) -> None:
    """Print a heading after an empty line."""
    line(console)
    line(console, Styled(title, "bold"))


def table(
    console: Console, columns: Sequence[str], rows: Sequence[Sequence[Cell]], *, numbers: Sequence[str] = ()
) -> None:
    """Print a table.

    Args:
        console: Where to.
        columns: Headings.
        rows: One cell for each column.
        numbers: Headings of the columns that are set flush right.
    """
    cells = [[_lines(cell) for cell in row] for row in rows]
    if console.is_terminal:
        _framed(console, columns, cells, numbers)
    else:
        _aligned(console, columns, cells, numbers)


def _framed(
    console: Console, columns: Sequence[str], rows: Sequence[Sequence[Sequence[Styled]]], numbers: Sequence[str]
) -> None:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    drawn = Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True, header_style="bold")
    for column in columns:
        drawn.add_column(Text(clean(column)), overflow="fold", justify="right" if column in numbers else "left")
    for row in rows:
        drawn.add_row(*(_text(cell) for cell in row))
    console.print(drawn)


def _text(lines: Sequence[Styled]) -> Text:
    from rich.text import Text

    return Text("\n").join(Text(piece.text, piece.style) for piece in lines)


def _aligned(
    console: Console, columns: Sequence[str], rows: Sequence[Sequence[Sequence[Styled]]], numbers: Sequence[str]
) -> None:
    from rich.cells import cell_len

    head = [[Styled(column)] for column in columns]
    widths = [
        max((cell_len(piece.text) for row in (head, *rows) for piece in row[place]), default=0)
        for place in range(len(columns))
    ]
    for row in (head, *rows):
        for height in range(max(map(len, row), default=0)):
            texts = [cell[height].text if height < len(cell) else "" for cell in row]
            padded = [
                " " * (width - cell_len(text)) + text if column in numbers else text + " " * (width - cell_len(text))
                for text, width, column in zip(texts, widths, columns, strict=True)
            ]
            line(console, "  ".join(padded))


def _styled(piece: str | Styled) -> Styled:
    return Styled(piece) if isinstance(piece, str) else piece


def _lines(cell: Cell) -> list[Styled]:
    """Each line of a cell by itself, clean."""
    pieces = [_styled(cell)] if isinstance(cell, str | Styled) else list(cell)
    return [Styled(part, piece.style) for piece in pieces for part in clean(piece.text, lines=True).split("\n")]
