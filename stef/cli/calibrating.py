"""`stef calibrate`: p_offline, and a model's word, fitted to labels of one's own."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from stef.cli.frame import console, settings_options
from stef.cli.labelling import opened

if TYPE_CHECKING:
    from stef.calibrate import Figures, JudgeStudy, Study
    from stef.calibrationfile import CalibrationFile, JudgeCalibrationFile


@click.group(invoke_without_command=True)
@click.option("--out", metavar="FILE", help="Write the calibration here: YAML, or JSON when the name ends with .json.")
@click.option("--min", "least", default=50, show_default=True, help="Labelled records that are needed at least.")
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
@settings_options("store")
@click.pass_context
def calibrate(context: click.Context, out: str | None, least: int, as_json: bool, store: str | None) -> None:
    """Fit p_offline to the labels in the store, and say what that is worth on questions that were held out.

    Takes the labelled records that were scored with this release's weights. Give the file that --out writes to
    --calibration, and later results are scored with it.
    """
    if context.invoked_subcommand is not None:
        return
    from stef import data
    from stef.calibrate import gather, study
    from stef.pipeline import named

    weights = named(data.weights())
    with opened(store) as held:
        gathered = gather(held.labels.all(), held.labels.results(), weights)
    found = study(gathered, least)
    file = _file(found, weights, Path(out or "").stem or "calibration")
    if out:
        from stef.calibrationfile import write

        write(out, file)
    if as_json:
        left = {"ties": gathered.ties, "unscored": gathered.unscored}
        bins = {"before": _bins(found.before), "after": _bins(found.after)}
        click.echo(
            json.dumps({**file.model_dump(mode="json"), **left, "reliability": bins}, ensure_ascii=False, indent=1)
        )
        return
    from stef.display import show_study

    show_study(console(), found)
    click.echo(f"Written to {out}." if out else "Nothing is written without --out.")


@calibrate.command("judge")
@click.option("--out", metavar="FILE", help="Write the calibration here: YAML, or JSON when the name ends with .json.")
@click.option(
    "--model", "asked", default="", metavar="NAME", help="Whose verdicts; default: those of which there are most."
)
@click.option("--min", "least", default=50, show_default=True, help="Labelled records that are needed at least.")
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
@settings_options("store")
def calibrate_judge(out: str | None, asked: str, least: int, as_json: bool, store: str | None) -> None:
    """Say what a model's word is worth, by the labels in the store, and fit γ and p_correct to them.

    Takes the labelled records that the model judged by one prompt. Give the file that --out writes to
    --judge-calibration, and later verdicts count for as much as they are worth.
    """
    from stef.calibrate import gather_judged, study_judged

    with opened(store) as held:
        gathered = gather_judged(held.labels.all(), held.labels.results(), asked)
    found = study_judged(gathered, least)
    file = _judge_file(found, Path(out or "").stem or "judge-calibration")
    if out:
        from stef.calibrationfile import write

        write(out, file)
    if as_json:
        click.echo(
            json.dumps({**file.model_dump(mode="json"), "others": gathered.others}, ensure_ascii=False, indent=1)
        )
        return
    from stef.display import show_judge_study

    show_judge_study(console(), found)
    click.echo(f"Written to {out}." if out else "Nothing is written without --out.")


def _judge_file(found: JudgeStudy, name: str) -> JudgeCalibrationFile:
    from stef.calibrationfile import JudgeCalibrationFile, judge_digest
    from stef.version import __version__

    fitted, asked = found.calibration, found.samples.asked
    file = JudgeCalibrationFile.model_validate(
        {
            "name": name,
            "digest": "",
            "model": asked.model if asked else "",
            "prompt": asked.prompt_digest if asked else "",
            "confidences": {
                basis: {"slope": float(f"{line.slope:.6g}"), "intercept": float(f"{line.intercept:.6g}")}
                for basis, line in fitted.confidences.items()
            },
            "combination": asdict(fitted.combination),
            "labels": found.labels,
            "questions": found.questions,
            "right": round(found.right, 4),
            "newest_label": found.samples.newest,
            "confidence_before": _measured(found.confidence_before),
            "confidence_after": _measured(found.confidence_after),
            "p_before": _measured(found.p_before),
            "p_after": _measured(found.p_after),
            "stef": __version__,
        }
    )
    return file.model_copy(update={"digest": judge_digest(file)})


def _file(found: Study, weights: str, name: str) -> CalibrationFile:
    from stef.calibrationfile import CalibrationFile, digest
    from stef.version import __version__

    fitted = found.calibration
    slope, intercept = float(f"{fitted.slope:.6g}"), float(f"{fitted.intercept:.6g}")
    return CalibrationFile.model_validate(
        {
            "name": name,
            "digest": digest(slope, intercept, weights),
            "slope": slope,
            "intercept": intercept,
            "weights": weights,
            "labels": found.labels,
            "questions": found.questions,
            "right": round(found.right, 4),
            "newest_label": found.samples.newest,
            "before": _measured(found.before),
            "after": _measured(found.after),
            "stef": __version__,
        }
    )


def _measured(figures: Figures) -> dict[str, float]:
    return {name: round(getattr(figures, name), 4) for name in ("ece", "brier", "log_loss")}


def _bins(figures: Figures) -> list[dict[str, float]]:
    return [asdict(item) for item in figures.bins]
