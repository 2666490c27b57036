"""The judge that the settings name."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from stef.config import Settings
from stef.errors import SettingError
from stef.judge.case import Judge
from stef.judge.offline import OfflineJudge
from stef.judge.private import HideCase
from stef.result import JudgeKind
from stef.weights import Weights

_PRICE = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)\s*/\s*(\d{1,9}(?:\.\d{1,9})?)")

if TYPE_CHECKING:
    from stef.judge.budget import Budget
    from stef.judge.cache import VerdictCache
    from stef.judge.client import ModelOptions, Price
    from stef.judge.completion import Client
    from stef.judge.llm import LlmJudge


def make_judge(settings: Settings, weights: Weights, hide: HideCase | None = None) -> Judge:
    """Put a judge together; the parts that a model needs are imported only for one.

    Args:
        settings: What they say of the judge.
        weights: Of the offline judge.
        hide: Hides the values of a case from a model; None shows them.

    Raises:
        PromptError: The prompt is wrong.
        CalibrationError: The judge's calibration is wrong.
        InputError: The recorded exchanges cannot be read, or none can be written.
        SettingError: A setting does not fit the others.
    """
    offline = OfflineJudge(weights)
    if settings.judge == "offline":
        return offline
    from stef.judge.cascade import CascadeJudge, Rates

    if settings.judge == "cascade" and settings.cascade_low >= settings.cascade_high:
        found = f"{settings.cascade_low:g} and {settings.cascade_high:g}"
        raise SettingError(f"cascade_low, cascade_high: found {found}; allowed: the first one smaller")
    rates = Rates.read(settings.judge_rate)
    model = _model_judge(settings, offline, hide)
    if settings.judge == "llm" and rates.takes_all:
        return model
    return CascadeJudge(
        offline,
        model,
        low=settings.cascade_low,
        high=settings.cascade_high,
        rates=rates,
        kind=JudgeKind(settings.judge),
    )


def _model_judge(settings: Settings, offline: OfflineJudge, hide: HideCase | None) -> LlmJudge:
    from stef import calibrationfile
    from stef.judge.dossier import SchemaHint
    from stef.judge.limits import Gate
    from stef.judge.llm import Asking, LlmJudge, Means, load_prompt
    from stef.judge.retry import Policy

    options = model_options(settings)
    prompt = load_prompt(Path(settings.prompts), settings.prompt)
    calibration = calibrationfile.load_judge(settings.judge_calibration, options.model, prompt.digest)
    cache, budget = _kept(settings)
    return LlmJudge(
        options,
        prompt,
        client=_client(settings, options),
        policy=Policy(retries=settings.judge_retries, max_outage=settings.max_outage),
        fallback=offline if settings.on_outage == "offline" else None,
        asking=Asking(
            samples=settings.judge_samples,
            hint=SchemaHint(settings.schema_hint),
            recheck=settings.judge_recheck,
            calibration=calibration,
        ),
        means=Means(
            gate=Gate(calls=settings.judge_concurrency, tokens=settings.judge_tokens_per_minute),
            cache=cache,
            budget=budget,
        ),
        hide=hide,
    )


def model_options(settings: Settings) -> ModelOptions:
    """Which model is asked, and how.

    Raises:
        SettingError: No model is named, or a setting does not fit the others.
    """
    from stef.judge.client import ModelOptions, ReplyForm, has_price

    if not settings.model:
        raise SettingError("model: found nothing; allowed: a model as litellm names it (a model is to judge)")
    if settings.judge_samples > 1 and settings.judge_temperature == 0:
        raise SettingError(
            "judge_temperature: found 0; allowed: above 0 with judge_samples above 1, or all samples are the same"
        )
    price = _price(settings.judge_price)
    if settings.judge_budget and price is None and not settings.judge_replay and not has_price(settings.model):
        raise SettingError(
            f"judge_budget: found {settings.judge_budget:g}; allowed: 0, or a judge_price, since nobody knows what"
            f" {settings.model} costs"
        )
    return ModelOptions(
        model=settings.model,
        api_base=settings.api_base,
        timeout=settings.judge_timeout,
        form=ReplyForm(settings.judge_reply),
        logprobs={"on": True, "off": False}.get(settings.judge_logprobs),
        temperature=settings.judge_temperature,
        fallbacks=tuple(filter(None, map(str.strip, settings.judge_fallbacks.split(",")))),
        price=price,
    )


def _price(text: str) -> Price | None:
    from stef.judge.client import Price

    if not text:
        return None
    found = _PRICE.fullmatch(text.strip())
    if found is None:
        allowed = "US dollars for a million tokens in and out, such as 0.15/0.60"
        raise SettingError(f"judge_price: found {text!r}; allowed: {allowed}")
    return Price(input=float(found[1]), output=float(found[2]))


def _client(settings: Settings, options: ModelOptions) -> Client:
    from stef.judge.client import ModelClient
    from stef.judge.tape import RecordingClient, ReplayingClient

    if settings.judge_replay:
        if settings.judge_record:
            raise SettingError("judge_record: found a file; allowed: nothing beside judge_replay")
        return ReplayingClient(settings.judge_replay)
    client = ModelClient(options=options)
    return RecordingClient(client, settings.judge_record) if settings.judge_record else client


def _kept(settings: Settings) -> tuple[VerdictCache | None, Budget | None]:
    """What is remembered on disk: nothing of what is played back or recorded, which must be asked for each time."""
    from stef.judge.budget import Budget
    from stef.judge.cache import VerdictCache
    from stef.judge.statefile import StateFile

    remembers = settings.judge_cache and not (settings.judge_replay or settings.judge_record)
    if not settings.judge_file or settings.judge_replay or not (remembers or settings.judge_budget):
        if settings.judge_budget and not settings.judge_replay:
            raise SettingError("judge_file: found nothing; allowed: a file, since a judge_budget is kept in it")
        return None, None
    file = StateFile(settings.judge_file)
    cache = VerdictCache(file, settings.judge_cache) if remembers else None
    return cache, Budget(file, settings.judge_budget)
