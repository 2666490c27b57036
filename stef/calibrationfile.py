"""Calibration files, YAML or JSON.

`stef calibrate --out` writes one of p_offline, which the setting `calibration` names; `stef calibrate judge --out` one
of a model's word, which `judge_calibration` names.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Annotated, Any, TypeVar

import yaml
from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError

from stef.calibration import AS_SAID, IDENTITY, Calibration, Combination, JudgeCalibration
from stef.errors import CalibrationError, nearest

_HEAD = """\
# Made by `stef calibrate`; name it with --calibration. It holds for results of the weights that it names.
# log-odds of p_offline = slope × log-odds as the weights give them + intercept
"""
_JUDGE_HEAD = """\
# Made by `stef calibrate judge`; name it with --judge-calibration. It holds for replies of the model to the prompt that
# it names. Log-odds of γ = slope × log-odds as given + intercept; those of p_correct = offline × those of p_offline +
# model × those of the verdict's side + intercept.
"""
Share = Annotated[float, Field(ge=0, le=1)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Measured(_Strict):
    """Figures of one kind of probabilities; smaller is better."""

    ece: Share
    brier: Share
    log_loss: float = Field(ge=0)


class _Fitted(_Strict):
    """What both kinds of files hold for people."""

    name: str = Field(min_length=1, max_length=200)
    digest: str
    labels: int = Field(ge=1)
    questions: int = Field(ge=1)
    right: Share
    newest_label: AwareDatetime
    stef: str


class CalibrationFile(_Fitted):
    """A calibration of p_offline and what it rests on. Slope, intercept and weights decide; the rest is for people.

    Attributes:
        weights: `name@digest` of the weights that it was fitted to.
        before: Without the map.
        after: With it, on questions that were held out.
    """

    slope: float = Field(gt=0)
    intercept: float
    weights: str
    before: Measured
    after: Measured


class Line(_Strict):
    """A straight line on the log-odds."""

    slope: float = Field(gt=0)
    intercept: float


class Weights(_Strict):
    """Of the log-odds of p_offline and of what a model says."""

    offline: float
    model: float
    intercept: float


class JudgeCalibrationFile(_Fitted):
    """What a model's word is worth. Maps, model and prompt decide; the rest is for people.

    Attributes:
        model: As the setting names it.
        prompt: Digest of the prompt.
        confidences: By what γ rests on (token, agreement, said): the map of γ.
        combination: How p_offline and the verdict become p_correct.
        confidence_before: Figures of γ without the map.
        confidence_after: With it, on questions that were held out.
        p_before: Figures of p_correct as the mean of both log-odds.
        p_after: Of the fitted one, on questions that were held out.
    """

    model: str
    prompt: str
    confidences: dict[str, Line]
    combination: Weights
    confidence_before: Measured
    confidence_after: Measured
    p_before: Measured
    p_after: Measured


def digest(slope: float, intercept: float, weights: str) -> str:
    """Digest of what decides, 16 hexadecimal digits."""
    return hashlib.sha256(json.dumps([slope, intercept, weights]).encode()).hexdigest()[:16]


def load(path: str, weights: str) -> Calibration:
    """The calibration that a setting names.

    Args:
        path: The file; "" for none.
        weights: `name@digest` of the weights that it is to be used with.

    Raises:
        CalibrationError: It cannot be read, is wrong, was changed by hand, or was fitted to other weights.
    """
    if not path:
        return IDENTITY
    file = _validated(path, _content(path), CalibrationFile)
    own = digest(file.slope, file.intercept, file.weights)
    if file.digest != own:
        raise CalibrationError(path, "digest", file.digest, f"{own}, that of slope, intercept and weights")
    if file.weights != weights:
        again = f"{weights}, the weights of this release: score the labelled records again, then run stef calibrate"
        raise CalibrationError(path, "weights", file.weights, again)
    return Calibration(slope=file.slope, intercept=file.intercept, name=file.name, digest=file.digest)


def _content(path: str) -> dict[str, Any]:
    try:
        content = yaml.safe_load(Path(path).read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise CalibrationError(path, "", error.strerror or str(error), "a file that stef calibrate wrote") from None
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError):
        raise CalibrationError(path, "", "neither YAML nor JSON", "a file that stef calibrate wrote") from None
    if not isinstance(content, dict):
        raise CalibrationError(path, "", type(content).__name__, "a file that stef calibrate wrote")
    return content


F = TypeVar("F", CalibrationFile, JudgeCalibrationFile)


def _validated(path: str, content: dict[str, Any], kind: type[F]) -> F:
    try:
        return kind.model_validate(content)
    except ValidationError as error:
        found = error.errors(include_url=False)
    first = next((item for item in found if item["type"] == "extra_forbidden"), found[0])
    place = ".".join(str(step) for step in first["loc"])
    if first["type"] == "extra_forbidden":
        known = kind.model_fields if len(first["loc"]) == 1 else Measured.model_fields
        raise CalibrationError(path, place, "an unknown key", nearest(str(first["loc"][-1]), known))
    if first["type"] == "missing":
        raise CalibrationError(path, place, "nothing", "a value: it is needed")
    raise CalibrationError(path, place, repr(first["input"])[:80], first["msg"])


def judge_digest(file: JudgeCalibrationFile) -> str:
    """Digest of what decides in a judge's calibration, 16 hexadecimal digits."""
    lines = {basis: [line.slope, line.intercept] for basis, line in sorted(file.confidences.items())}
    both = file.combination
    decides = [file.model, file.prompt, lines, [both.offline, both.model, both.intercept]]
    return hashlib.sha256(json.dumps(decides).encode()).hexdigest()[:16]


def load_judge(path: str, model: str, prompt: str) -> JudgeCalibration:
    """The calibration of a model's word that a setting names.

    Args:
        path: The file; "" for none.
        model: Whose word it is to be used for.
        prompt: Digest of the prompt that it is asked with.

    Raises:
        CalibrationError: It cannot be read, is wrong, was changed by hand, or was fitted to another model or prompt.
    """
    if not path:
        return AS_SAID
    file = _validated(path, _content(path), JudgeCalibrationFile)
    if file.digest != (own := judge_digest(file)):
        raise CalibrationError(path, "digest", file.digest, f"{own}, that of the maps, the model and the prompt")
    for place, found, wanted in (("model", file.model, model), ("prompt", file.prompt, prompt)):
        if found != wanted:
            again = f"{wanted}, which is in use: judge labelled records with it, then run stef calibrate judge"
            raise CalibrationError(path, place, found, again)
    return JudgeCalibration(
        confidences={
            basis: Calibration(slope=line.slope, intercept=line.intercept) for basis, line in file.confidences.items()
        },
        combination=Combination(file.combination.offline, file.combination.model, file.combination.intercept),
        name=file.name,
        digest=file.digest,
    )


def write(path: str, file: CalibrationFile | JudgeCalibrationFile) -> None:
    """Write a calibration file, whole or not at all.

    Raises:
        CalibrationError: It cannot be written.
    """
    plain = file.model_dump(mode="json")
    if path.endswith(".json"):
        text = json.dumps(plain, ensure_ascii=False, indent=2) + "\n"
    else:
        text = (_HEAD if isinstance(file, CalibrationFile) else _JUDGE_HEAD) + yaml.safe_dump(
            plain, sort_keys=False, allow_unicode=True
        )
    beside = Path(f"{path}.new")
    try:
        beside.write_text(text, encoding="utf-8")
        beside.replace(path)
    except OSError as error:
        raise CalibrationError(path, "", error.strerror or str(error), "a path that can be written") from None
