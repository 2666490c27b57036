"""Settings: one table, from which flags, environment names, defaults and help come, and the README's list too.

Precedence: command-line flag, environment, consumer file, default. The environment is read once, in `resolve`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from stef.errors import SettingError, nearest


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One row of the table.

    Attributes:
        name: Attribute of `Settings`.
        flag: On the command line.
        env: In the environment.
        default: Its type decides how text is read.
        help: One sentence, with the unit.
        choices: Allowed words; () for any.
        low: Smallest number allowed.
        high: Largest one.
    """

    name: str
    flag: str
    env: str
    default: str | int | float | bool
    help: str
    choices: tuple[str, ...] = ()
    low: float = 0
    high: float = math.inf


SETTINGS: tuple[Setting, ...] = tuple(
    Setting(
        name=name, flag="--" + name.replace("_", "-"), env="STEF_" + name.upper(), default=default, help=text, **more
    )
    for name, default, text, more in (
        ("store", "stef.db", "Where evaluations are kept: a path of an SQLite file.", {}),
        ("rules", "rules", "Folder of rules files, one <app>.json per application.", {}),
        ("app", "", "Rules to use for records that name no application.", {}),
        ("trust_inline_rules", True, "Let rules inside a record set mappings, synonyms and benign filters.", {}),
        ("prompts", "prompts", "Folder of prompt files.", {}),
        ("prompt", "judge", "Name of the prompt that the model judges with.", {}),
        ("calibration", "", "File that stef calibrate wrote: fits p_offline to labels of your own.", {}),
        (
            "score_profile",
            "stef-1",
            "How Φ is made: the paper's way, or stef-2, where no answer gains by being surely wrong.",
            {"choices": ("stef-1", "stef-2")},
        ),
        ("judge", "offline", "Who judges.", {"choices": ("offline", "llm")}),
        ("model", "", "Model that judges, as litellm names it, such as openai/gpt-5-mini.", {}),
        ("api_base", "", "Address of an OpenAI-compatible endpoint, when it is not the provider's own.", {}),
        ("judge_timeout", 60.0, "Seconds that one call to the model may take.", {"low": 0.01}),
        ("judge_retries", 4, "Times that a failed call is repeated.", {}),
        ("max_outage", 600.0, "Seconds to wait for a model that is down before giving up on it.", {}),
        (
            "on_outage",
            "offline",
            "What records get when the model stays down: the offline verdict (marked), or outcome failed.",
            {"choices": ("offline", "failed")},
        ),
        ("concurrency", 8, "Records evaluated at the same time.", {"low": 1, "high": 10_000}),
        (
            "max_sql_bytes",
            262_144,
            "Longest statement that is read, in bytes; longer ones are skipped as too_large.",
            {"low": 1},
        ),
        (
            "catalogue",
            "auto",
            "What stands in for a schema: a catalogue file, store, none, or auto: score's own file, consume's store.",
            {},
        ),
        (
            "catalogue_days",
            30.0,
            "Days that one epoch serves, unless the questions have doubled; 0: each start takes a new one.",
            {"high": 36_500},
        ),
        (
            "catalogue_key",
            "",
            "Secret under which a catalogue marks values and words; the same for building one and for scoring with it.",
            {},
        ),
        ("http", "", "Address for /metrics, /healthz and /readyz, such as 127.0.0.1:9464; empty for none.", {}),
        ("raw_days", 30, "Days that raw payloads are kept in the store; 0 keeps none.", {"high": 36_500}),
        ("log_level", "info", "Least level that is logged.", {"choices": ("debug", "info", "warning", "error")}),
        ("log_format", "auto", "Shape of the log.", {"choices": ("auto", "text", "json")}),
    )
)
_BY_NAME = {row.name: row for row in SETTINGS}


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What the table says after flags, environment and consumer file; see `SETTINGS` for each one's meaning."""

    store: str
    rules: str
    app: str
    trust_inline_rules: bool
    prompts: str
    prompt: str
    calibration: str
    score_profile: str
    judge: str
    model: str
    api_base: str
    judge_timeout: float
    judge_retries: int
    max_outage: float
    on_outage: str
    concurrency: int
    max_sql_bytes: int
    catalogue: str
    catalogue_days: float
    catalogue_key: str
    http: str
    raw_days: int
    log_level: str
    log_format: str


def resolve(
    flags: Mapping[str, Any] | None = None,
    environment: Mapping[str, str] | None = None,
    file: Mapping[str, Any] | None = None,
) -> Settings:
    """Combine the places that a setting may come from; None counts as not given.

    Raises:
        SettingError: A value is not allowed, or a name is not known.
    """
    flags, environment, file = flags or {}, environment or {}, file or {}
    for name in (*flags, *file):
        if name not in _BY_NAME:
            raise SettingError(f"unknown setting {name}; allowed: {nearest(name, _BY_NAME)}")
    values: dict[str, Any] = {}
    for row in SETTINGS:
        for place, given in (
            (row.flag, flags.get(row.name)),
            (row.env, environment.get(row.env)),
            (row.name, file.get(row.name)),
        ):
            if given is not None:
                values[row.name] = _read(row, given, place)
                break
        else:
            values[row.name] = row.default
    return Settings(**{field.name: values[field.name] for field in fields(Settings)})


def _read(row: Setting, given: Any, place: str) -> str | int | float | bool:  # noqa: ANN401 - YAML and flags are untyped
    kind = type(row.default)
    try:
        if kind is bool:
            value: Any = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}[
                str(given).lower()
            ]
        else:
            value = kind(given)
    except (KeyError, ValueError):
        raise SettingError(f"{place}: found {given!r}; allowed: {_allowed(row)}") from None
    if row.choices and value not in row.choices:
        raise SettingError(f"{place}: found {given!r}; allowed: {', '.join(row.choices)}")
    if kind in (int, float) and not row.low <= value <= row.high:
        bound = f"{row.low:g} or more" if row.high == math.inf else f"{row.low:g} to {row.high:g}"
        raise SettingError(f"{place}: found {given!r}; allowed: {bound}")
    return value  # type: ignore[no-any-return]


def _allowed(row: Setting) -> str:
    words = {bool: "true, false", int: "a whole number", float: "a number", str: "text"}
    return words[type(row.default)]
