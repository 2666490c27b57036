"""`stef calibrate`: p_offline, fitted to labels of one's own."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from stef.cli.frame import console, settings_options
from stef.cli.labelling import opened

if TYPE_CHECKING:
    from stef.calibrate import Figures, Study
    from stef.calibrationfile import CalibrationFile


@click.command()
@click.option("--out", metavar="FILE", help="Write the calibration here: YAML, or JSON when the name ends with .json.")
@click.option("--min", "least", default=50, show_default=True, help="Labelled records that are needed at least.")
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
@settings_options("store")
def calibrate(out: str | None, least: int, as_json: bool, store: str | None) -> None:
    """Fit p_offline to the labels in the store, and say what that is worth on questions that were held out.

    Takes the labelled records that were scored with this release's weights. Give the file that --out writes to
    --calibration, and later results are scored with it.
    """
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
