"""Labels by agent version and source, and how far the sources agree."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from stef.display.grid import heading, line, table
from stef.display.text import number, percent
from stef.label import Agreement, Tally

if TYPE_CHECKING:
    from rich.console import Console

_NUMBERS = ("labels", "right", "share")


def show_labels(console: Console, tallies: Sequence[Tally], agreements: Sequence[Agreement], *, records: int) -> None:
    """Print both tables; `records` is how many different ones have a label."""
    if not tallies:
        line(console, "No labels.")
        return
    rows = [
        (tally.agent or "–", tally.agent_version or "–", tally.source, *_counts(tally.labels, tally.right))
        for tally in tallies
    ]
    total = ("all", "", "", *_counts(sum(tally.labels for tally in tallies), sum(tally.right for tally in tallies)))
    table(console, ("agent", "agent_version", "source", *_NUMBERS), [*rows, total], numbers=_NUMBERS)
    line(console, f"{records} different records.")
    if agreements:
        heading(console, "Agreement of two sources, on records that both have labelled")
        pairs = [
            (pair.first, pair.second, str(pair.records), percent(pair.share), number(pair.kappa, 2))
            for pair in agreements
        ]
        table(console, ("first", "second", "records", "agree", "kappa"), pairs, numbers=("records", "agree", "kappa"))


def _counts(labels: int, right: int) -> tuple[str, str, str]:
    return str(labels), str(right), percent(right / labels)
