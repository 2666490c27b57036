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
        (
            "judge",
            "offline",
            "Who judges: the evidence alone, a model, or the model only where the evidence leaves it open.",
            {"choices": ("offline", "llm", "cascade")},
        ),
        ("model", "", "Model that judges, as litellm names it, such as openai/gpt-5-mini.", {}),
        ("api_base", "", "Address of an OpenAI-compatible endpoint, when it is not the provider's own.", {}),
        ("judge_timeout", 60.0, "Seconds that one call to the model may take.", {"low": 0.01}),
        ("judge_retries", 4, "Times that a failed call is repeated.", {}),
        ("max_outage", 600.0, "Seconds to wait for a model that is down before giving up on it.", {}),
        (
            "on_outage",
            "offline",
            "What records get when the model stays down or the budget is spent: a marked offline verdict, or failed.",
            {"choices": ("offline", "failed")},
        ),
        ("cascade_low", 0.35, "A cascade asks the model only where p_offline is above this.", {"high": 1.0}),
        ("cascade_high", 0.65, "A cascade asks the model only where p_offline is below this.", {"high": 1.0}),
        ("judge_rate", "1", "Share of those records that the model gets; for agent versions: 0.1, 2.3.0=1.", {}),
        ("judge_samples", 1, "Times that the model is asked about each record.", {"low": 1, "high": 25}),
        ("judge_temperature", 0.0, "Temperature of the model; several samples need one above 0.", {"high": 2.0}),
        (
            "judge_logprobs",
            "auto",
            "Whether to ask for probabilities of tokens, which make the best confidence.",
            {"choices": ("auto", "on", "off")},
        ),
        (
            "judge_reply",
            "auto",
            "How the model is held to the reply's shape; auto takes the strictest that it is known to take.",
            {"choices": ("auto", "schema", "tool", "text")},
        ),
        ("judge_fallbacks", "", "Models that litellm asks when the first one fails, with commas between.", {}),
        ("judge_concurrency", 0, "Calls to the model at the same time; 0 for as many as records.", {"high": 10_000}),
        ("judge_tokens_per_minute", 0, "Tokens that may go to and fro in a minute; calls queue; 0 for no bound.", {}),
        ("judge_budget", 0.0, "US dollars that one day (UTC) may cost; 0 for no bound.", {}),
        ("judge_price", "", "US dollars for a million tokens in and out, such as 0.15/0.60; empty: litellm's.", {}),
        ("judge_file", "stef-judge.db", "Where verdicts and what they cost are kept, for all processes together.", {}),
        ("judge_cache", 100_000, "Verdicts that are kept and not paid for again; 0 keeps none.", {}),
        ("judge_recheck", 0.0, "Share of kept verdicts that the model is asked for again, for flips.", {"high": 1.0}),
        ("judge_calibration", "", "File that stef calibrate judge wrote: what the model's word is worth.", {}),
        ("judge_record", "", "File to which each exchange with the model is appended.", {}),
        ("judge_replay", "", "File of recorded exchanges that are played back in place of a model.", {}),
        (
            "schema_hint",
            "none",
            "What the model is shown of tables and columns: nothing, what the rules allow, or what the log has shown.",
            {"choices": ("none", "rules", "catalogue")},
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
        (
            "pseudonymize",
            False,
            "Show a model keyed tokens in place of names, quoted values and the SQL's literals.",
            {},
        ),
        (
            "redact_store",
            False,
            "Store and emit such tokens too; raw messages are then not kept.",
            {},
        ),
        (
            "privacy_key",
            "",
            "Secret that the tokens are made with, the same for the same tokens; without it each process has its own.",
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
    cascade_low: float
    cascade_high: float
    judge_rate: str
    judge_samples: int
    judge_temperature: float
    judge_logprobs: str
    judge_reply: str
    judge_fallbacks: str
    judge_concurrency: int
    judge_tokens_per_minute: int
    judge_budget: float
    judge_price: str
    judge_file: str
    judge_cache: int
    judge_recheck: float
    judge_calibration: str
    judge_record: str
    judge_replay: str
    schema_hint: str
    concurrency: int
    max_sql_bytes: int
    catalogue: str
    catalogue_days: float
    catalogue_key: str
    pseudonymize: bool
    redact_store: bool
    privacy_key: str
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
