"""What a calibration is worth: figures before and after, and how far each tenth of the probabilities holds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stef.calibrate import Bin, Figures, JudgeStudy, Study
from stef.display.grid import Styled, heading, line, table
from stef.display.text import number, percent

if TYPE_CHECKING:
    from rich.console import Console

_FIGURES = ("calibration error", "Brier", "log loss")
_RELIABILITY = ("records", "mean p", "right", "records after", "mean p after", "right after")


def show_study(console: Console, study: Study) -> None:
    """Print the whole of it."""
    line(
        console, f"{study.labels} labelled records of {study.questions} questions, {percent(study.right)} of them right"
    )
    for text in _left_out(study):
        line(console, Styled("Left out: ", "yellow"), text)
    line(console)
    rows = [("before", *_figures(study.before)), ("after, on held-out questions", *_figures(study.after))]
    table(console, ("", *_FIGURES), rows, numbers=_FIGURES)
    heading(console, "Reliability: the mean probability of a tenth, and the share that is right")
    table(console, ("p", *_RELIABILITY), _reliability(study), numbers=_RELIABILITY)
    line(console)
    fitted = study.calibration
    intercept = f"{fitted.intercept:+.4f}".replace("-", "−")
    line(console, f"Slope {fitted.slope:.4f}, intercept {intercept} on the log-odds")
    if not study.helps:
        worse = "On questions that were held out the map is no better than none: stay without it."
        line(console, Styled(worse, "yellow"))


def _left_out(study: Study) -> list[str]:
    found = study.samples
    reasons = {
        f"{found.ties} records on which the sources disagree without a majority": found.ties,
        f"{found.unscored} labelled records without a score by this release's weights": found.unscored,
    }
    return [text for text, count in reasons.items() if count]


def _figures(figures: Figures) -> tuple[str, ...]:
    return tuple(number(value, 3) for value in (figures.ece, figures.brier, figures.log_loss))


def _reliability(study: Study) -> list[tuple[str, ...]]:
    before = {item.low: item for item in study.before.bins}
    after = {item.low: item for item in study.after.bins}
    lows = sorted({*before, *after})
    return [(f"{low:.1f}–{low + 0.1:.1f}", *_bin(before.get(low)), *_bin(after.get(low))) for low in lows]


def _bin(item: Bin | None) -> tuple[str, str, str]:
    return ("0", "–", "–") if item is None else (str(item.records), number(item.mean, 2), number(item.right, 2))


def show_judge_study(console: Console, study: JudgeStudy) -> None:
    """Print what a model's word is worth."""
    asked = study.samples.asked
    line(
        console,
        f"{study.labels} labelled records of {study.questions} questions, judged by {asked.model if asked else ''},"
        f" {percent(study.right)} of them right",
    )
    if study.samples.others:
        line(console, Styled("Left out: ", "yellow"), f"{study.samples.others} judged by another model or prompt")
    line(console)
    rows = [
        ("γ before", *_figures(study.confidence_before)),
        ("γ after, on held-out questions", *_figures(study.confidence_after)),
        ("p_correct before", *_figures(study.p_before)),
        ("p_correct after, on held-out questions", *_figures(study.p_after)),
    ]
    table(console, ("", *_FIGURES), rows, numbers=_FIGURES)
    line(console)
    for basis, fitted in study.calibration.confidences.items():
        line(console, f"γ that rests on {basis}: slope {fitted.slope:.4f}, intercept {fitted.intercept:+.4f}")
    both = study.calibration.combination
    weights = f"{both.offline:.3f} × p_offline + {both.model:.3f} × the model {both.intercept:+.3f}"
    line(console, f"p_correct, on the log-odds: {weights}")
    if not study.helps:
        worse = "On questions that were held out the map is no better than none: stay without it."
        line(console, Styled(worse, "yellow"))
