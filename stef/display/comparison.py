"""The comparison of groups: figures, bands, answers, and the records to look at."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stef.compare import Answer, Comparison, Difference, Group
from stef.compare.difference import LEAST_QUESTIONS, MARGIN
from stef.compare.rows import label
from stef.display.grid import Cell, Styled, heading, line, table
from stef.display.results import BAND_STYLES
from stef.display.text import number, percent, short, signed
from stef.result import Band

if TYPE_CHECKING:
    from rich.console import Console

_ANSWER_STYLES = {Answer.BETTER: "green", Answer.WORSE: "red", Answer.SAME: "", Answer.UNDECIDED: "yellow"}
_FIGURES = ("n", "scored", "coverage", "mean Φ", "P10", "P50", "P90", "mean p")
_SHARES = (*(band.value for band in Band), "refused", "broken", "failed")


def show_comparison(console: Console, comparison: Comparison) -> None:
    """Print the whole comparison."""
    name = " / ".join(comparison.by)
    if not comparison.groups:
        line(console, "No results to compare.")
        return
    table(console, (name, *_FIGURES), [_figures(group) for group in comparison.groups], numbers=_FIGURES)
    heading(console, "Bands, as shares of the scored records, and what was not scored")
    table(console, (name, *_SHARES), [_shares(group) for group in comparison.groups], numbers=_SHARES)
    _differences(console, comparison)
    _worst(console, comparison)
    _worsened(console, comparison)
    _notes(console, comparison)


def _figures(group: Group) -> list[Cell]:
    return [
        group.label,
        str(group.n),
        str(group.scored),
        percent(group.coverage),
        Styled(number(group.mean), "bold"),
        number(group.p10, 0),
        number(group.p50, 0),
        number(group.p90, 0),
        number(group.mean_p_correct, 2),
    ]


def _shares(group: Group) -> list[Cell]:
    return [
        group.label,
        *(Styled(percent(group.bands.get(band)), BAND_STYLES[band]) for band in Band),
        percent(group.refusal_rate),
        percent(group.broken_rate),
        str(group.failed),
    ]


def _differences(console: Console, comparison: Comparison) -> None:
    if not comparison.differences or comparison.baseline is None:
        return
    heading(console, f"Against {label(comparison.baseline)}")
    for difference in comparison.differences:
        style = f"bold {_ANSWER_STYLES[difference.answer]}".strip()
        line(console, f"  {difference.label}: ", Styled(difference.answer, style), _sentence(difference))


def _sentence(difference: Difference) -> str:
    """What stands behind the answer: the difference, its interval, and what coverage did meanwhile."""
    parts = []
    if difference.mean is not None:
        parts.append(f"mean Φ {signed(difference.mean)}")
    if difference.low is not None and difference.high is not None:
        parts.append(f"95 % interval {signed(difference.low)} to {signed(difference.high)}")
    else:
        parts.append(f"fewer than {LEAST_QUESTIONS} different questions, no interval")
    if difference.answer is Answer.SAME:
        parts.append(f"within ±{MARGIN:g} points")
    if difference.coverage is not None:
        parts.append(f"coverage {signed(100 * difference.coverage)} points")
    return "; " + "; ".join(parts)


def _worst(console: Console, comparison: Comparison) -> None:
    if any(group.worst for group in comparison.groups):
        heading(console, "Worst records")
    for group in comparison.groups:
        for record in group.worst:
            name = record.event_id or record.event_key
            line(
                console,
                f"  {group.label}  ",
                Styled(f"Φ {record.phi}", "red"),
                f", p {number(record.p_correct, 2)}  {name}",
            )
            line(console, f"      {short(record.question)}")
            line(console, Styled(f"      {short(record.first_reason)}", "yellow"))


def _worsened(console: Console, comparison: Comparison) -> None:
    if any(difference.worsened for difference in comparison.differences):
        heading(console, "Questions that were answered better before")
    for difference in comparison.differences:
        for item in difference.worsened:
            change = f"Φ {number(item.baseline_phi, 0)} → {number(item.phi, 0)}"
            line(console, f"  {difference.label}  ", Styled(change, "red"), f"  {item.event_key}")
            line(console, f"      {short(item.question)}")


def _notes(console: Console, comparison: Comparison) -> None:
    line(console)
    fallbacks = {group.label: group.fallback_share for group in comparison.groups if group.fallback_share}
    if fallbacks:
        shares = ", ".join(f"{name} {percent(share)}" for name, share in fallbacks.items())
        line(
            console, Styled("Offline verdicts in place of the model's: ", "yellow"), f"{shares} of the scored records."
        )
    for left in comparison.left_out:
        groups = ", ".join(left.groups)
        line(
            console,
            Styled("Left out: ", "yellow"),
            f"{left.n} results of another scoring configuration ({left.scoring_config}; groups {groups}). "
            "--mix compares them all the same.",
        )
    if comparison.mixed and len(comparison.scoring_configs) > 1:
        line(console, Styled("Mixed: ", "yellow"), f"{len(comparison.scoring_configs)} scoring configurations.")
    else:
        line(console, Styled(f"Scoring configuration {', '.join(comparison.scoring_configs)}.", "dim"))
    if comparison.repeated:
        line(console, Styled(f"{comparison.repeated} repeated deliveries counted once.", "dim"))
