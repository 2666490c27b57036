"""Calibration files: `stef calibrate --out` writes one, the setting `calibration` names it. YAML or JSON."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError

from stef.calibration import IDENTITY, Calibration
from stef.errors import CalibrationError, nearest

_HEAD = """\
# Made by `stef calibrate`; name it with --calibration. It holds for results of the weights that it names.
# log-odds of p_offline = slope × log-odds as the weights give them + intercept
"""
Share = Annotated[float, Field(ge=0, le=1)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Measured(_Strict):
    """Figures of one kind of probabilities; smaller is better."""

    ece: Share
    brier: Share
    log_loss: float = Field(ge=0)


class CalibrationFile(_Strict):
    """A calibration and what it rests on. Slope, intercept and weights decide; the rest is for people.

    Attributes:
        weights: `name@digest` of the weights that it was fitted to.
        labels: Records with a label.
        questions: Different ones among them.
        right: Share of right records.
        newest_label: When the last of the labels was given.
        before: Without the map.
        after: With it, on questions that were held out.
        stef: The release that fitted it.
    """

    name: str = Field(min_length=1, max_length=200)
    digest: str
    slope: float = Field(gt=0)
    intercept: float
    weights: str
    labels: int = Field(ge=1)
    questions: int = Field(ge=1)
    right: Share
    newest_label: AwareDatetime
    before: Measured
    after: Measured
    stef: str


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
    file = _validated(path, _content(path))
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


def _validated(path: str, content: dict[str, Any]) -> CalibrationFile:
    try:
        return CalibrationFile.model_validate(content)
    except ValidationError as error:
        found = error.errors(include_url=False)
    first = next((item for item in found if item["type"] == "extra_forbidden"), found[0])
    place = ".".join(str(step) for step in first["loc"])
    if first["type"] == "extra_forbidden":
        model = CalibrationFile if len(first["loc"]) == 1 else Measured
        raise CalibrationError(path, place, "an unknown key", nearest(str(first["loc"][-1]), model.model_fields))
    if first["type"] == "missing":
        raise CalibrationError(path, place, "nothing", "a value: it is needed")
    raise CalibrationError(path, place, repr(first["input"])[:80], first["msg"])


def write(path: str, file: CalibrationFile) -> None:
    """Write a calibration file, whole or not at all.

    Raises:
        CalibrationError: It cannot be written.
    """
    plain = file.model_dump(mode="json")
    if path.endswith(".json"):
        text = json.dumps(plain, ensure_ascii=False, indent=2) + "\n"
    else:
        text = _HEAD + yaml.safe_dump(plain, sort_keys=False, allow_unicode=True)
    beside = Path(f"{path}.new")
    try:
        beside.write_text(text, encoding="utf-8")
        beside.replace(path)
    except OSError as error:
        raise CalibrationError(path, "", error.strerror or str(error), "a path that can be written") from None
