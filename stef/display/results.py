"""Scored results as a table, and the progress of a run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from stef.display.grid import Cell, Styled, line, table
from stef.display.text import number, short
from stef.result import Band, Evaluation, Match, Outcome, Verdict

if TYPE_CHECKING:
    from rich.console import Console

BAND_STYLES = {Band.EXCELLENT: "green", Band.GOOD: "green", Band.MARGINAL: "yellow", Band.POOR: "red"}
VERDICT_STYLES = {
    Verdict.CORRECT: "green",
    Verdict.LIKELY_CORRECT: "green",
    Verdict.POTENTIALLY_INCORRECT: "yellow",
    Verdict.INCORRECT: "red",
}
# A mark beside the colour, because a pipe has no colours.
MATCH_MARKS = {
    Match.MATCHED: ("✓", "green"),
    Match.WRONG_VALUE: ("✗", "red"),
    Match.WRONG_OPERATOR: ("✗", "red"),
    Match.WRONG_COLUMN: ("✗", "red"),
    Match.INEFFECTIVE: ("✗", "red"),
    Match.MISSING: ("✗", "red"),
    Match.EXTRA: ("+", "yellow"),
    Match.INTRODUCED: ("+", "yellow"),
    Match.BENIGN_EXTRA: ("+", "green"),
    Match.UNDETERMINED: ("?", "cyan"),
}
_COLUMNS = ("record", "version", "Φ", "band", "p", "filters", "verdict", "why", "question")


def show_results(console: Console, evaluations: Iterable[Evaluation]) -> None:
    """Print one row for each result, and below how many ended how."""
    held = list(evaluations)
    table(console, _COLUMNS, [_row(evaluation) for evaluation in held], numbers=("Φ", "p"))
    line(console, outcome_line(held))


def _row(evaluation: Evaluation) -> list[Cell]:
    record = evaluation.event_id or evaluation.event_key
    question = short(evaluation.question)
    version = evaluation.agent_version or ""
    if evaluation.outcome is not Outcome.SCORED or evaluation.judge is None or evaluation.band is None:
        ended = Styled(evaluation.outcome, "red" if evaluation.outcome is Outcome.FAILED else "dim")
        return [record, version, "–", ended, "–", "–", "–", short(ending(evaluation)), question]
    judge = evaluation.judge
    return [
        record,
        version,
        Styled(str(evaluation.phi), BAND_STYLES[evaluation.band]),
        Styled(evaluation.band, BAND_STYLES[evaluation.band]),
        number(evaluation.p_correct, 2),
        evaluation.alignment.category if evaluation.alignment else "–",
        Styled(judge.verdict, VERDICT_STYLES[judge.verdict]),
        short(reason_text(judge.reasons[0].code, judge.reasons[0].detail)) if judge.reasons else "",
        question,
    ]


def reason_text(code: str, detail: str) -> str:
    """A machine code with its sentence, if it has one."""
    return f"{code}: {detail}" if detail else code


def ending(evaluation: Evaluation) -> str:
    """Why there is no score."""
    return reason_text(evaluation.reason or evaluation.outcome, evaluation.detail)


def outcome_line(evaluations: Iterable[Evaluation]) -> str:
    """Count how many ended how: `5 records: 3 scored, 2 skipped (no_sql 2)`."""
    held = list(evaluations)
    outcomes = Counter(evaluation.outcome for evaluation in held)
    parts = []
    for outcome in Outcome:
        reasons = Counter(e.reason.value for e in held if e.outcome is outcome and e.reason)
        why = ", ".join(f"{name} {count}" for name, count in reasons.most_common())
        if outcomes[outcome] or outcome is Outcome.SCORED:
            parts.append(f"{outcomes[outcome]} {outcome.replace('_', ' ')}" + (f" ({why})" if why else ""))
    fallbacks = sum(bool(e.judge and e.judge.fallback) for e in held)
    if fallbacks:
        parts.append(f"{fallbacks} judged offline in place of the model")
    return f"{len(held)} record{'' if len(held) == 1 else 's'}: {', '.join(parts)}"


@contextmanager
def progress(console: Console, label: str, total: int | None = None) -> Iterator[Callable[[int], None]]:
    """Show how far a run is, on a terminal only.

    Args:
        console: Best that of the error stream, so that results can be piped.
        label: What is going on.
        total: Records (or bytes) in all; None when nobody knows.

    Yields:
        A function that takes how many more are done.
    """
    if not console.is_terminal:
        yield lambda count: None  # noqa: ARG005 - a pipe shows no progress
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    from stef.display.text import safe

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console) as bar:
        task = bar.add_task(safe(label), total=total)
        yield lambda count: bar.advance(task, count)
