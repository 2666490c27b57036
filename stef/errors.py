"""The error tree.

    StefError
    ├── FileError            a file that a user edits is wrong: path, place, found, allowed
    │   ├── RulesError           rules/<app>.json
    │   ├── PromptError          prompts/<name>.md
    │   ├── ConsumerError        consumers/<name>.yaml
    │   ├── CalibrationError     a file that `stef calibrate` wrote
    │   └── InputError           a log, result or label file that cannot be opened or is no such file
    ├── SettingError         a flag or an environment variable
    ├── RecordError          a message that is no record: goes to the dead letters
    ├── JudgeError           no verdict: the record fails with the reason
    ├── StoreError           the evaluations on disk cannot be read or written
    ├── LabelsError          labels that nothing can be learned from
    └── StreamError          a source or a sink that cannot go on

Every class has an `exit_code`, which is what `stef` ends with when the error reaches the command line.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from enum import StrEnum
from typing import ClassVar


class StefError(Exception):
    """The root: whatever stef raises on purpose."""

    exit_code: ClassVar[int] = 1


class FileError(StefError):
    """A file that a user edits is wrong.

    Args:
        path: The file, as the user named it.
        place: Where in the file: a JSON path, a line, or "" for the file as a whole.
        found: What stands there.
        allowed: What could stand there.
    """

    exit_code = 3

    def __init__(self, path: str, place: str, found: str, allowed: str) -> None:
        self.path, self.place, self.found, self.allowed = path, place, found, allowed
        where = f"{path}: {place}" if place else path
        super().__init__(f"{where}: found {found}; allowed: {allowed}" if allowed else f"{where}: {found}")


class RulesError(FileError):
    """A rules file is wrong."""


class PromptError(FileError):
    """A prompt file is wrong."""


class ConsumerError(FileError):
    """A consumer file is wrong."""


class CalibrationError(FileError):
    """A calibration file is wrong, or was fitted to other weights."""


class InputError(FileError):
    """An input file cannot be read at all."""


class SettingError(StefError):
    """A flag or an environment variable has a value that is not allowed."""

    exit_code = 2


class RecordError(StefError):
    """A message that holds no record.

    Args:
        reason: Machine code, low cardinality (`not_utf8`, `not_json`, `not_an_object`, `wrong_type`, `no_question`, …).
        detail: What was found, without the content itself.
    """

    exit_code = 3

    def __init__(self, reason: str, detail: str) -> None:
        self.reason, self.detail = reason, detail
        super().__init__(f"{reason}: {detail}")


class JudgeFailure(StrEnum):
    """Why there is no verdict; the same words as the reasons of the outcome `failed`."""

    UNAVAILABLE = "judge_unavailable"
    REPLY_INVALID = "judge_reply_invalid"
    BUDGET = "judge_budget"
    TIMEOUT = "timeout"


class JudgeError(StefError):
    """The judge gave no verdict."""

    exit_code = 4

    def __init__(self, failure: JudgeFailure, detail: str) -> None:
        self.failure, self.detail = failure, detail
        super().__init__(f"{failure}: {detail}")


class StoreError(StefError):
    """The store cannot be opened, read or written."""

    exit_code = 4


class LabelsError(StefError):
    """There are too few labels, or all of one kind, to fit a calibration to."""

    exit_code = 6


class StreamError(StefError):
    """A source or a sink cannot go on."""

    exit_code = 4


def nearest(word: str, known: Iterable[str]) -> str:
    """Say what is allowed in place of a misspelt word, the nearest one first.

    Returns:
        `"limit_guard" (did you mean it?), default_limit, …`, or the plain list when nothing is near.
    """
    names = sorted(known)
    close = difflib.get_close_matches(word, names, n=1)
    if not close:
        return ", ".join(names)
    rest = ", ".join(name for name in names if name != close[0])
    return f"{close[0]} (did you mean this?), {rest}" if rest else close[0]
