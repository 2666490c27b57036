"""The one place that calls a model: litellm, imported when the first call is made.

litellm's own retries, callbacks, price download and `.env` reading are off. No text and no key is logged, and what a
provider says about a fault is not passed on, since it may repeat either.
"""

from __future__ import annotations

import asyncio
import email.utils
import importlib
import logging
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from stef.judge.retry import CallError, Trouble

_loading = threading.Lock()
# A reply that is in no shape known to litellm ends in one of these.
_SHAPELESS = (LookupError, TypeError, ValueError, AttributeError)
_NO_KEY = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """One reply; None for figures that the provider does not give."""

    text: str
    cut: bool = False
    input_tokens: int | None = None
    output_tokens: int | None = None
    cost_usd: float | None = None


@dataclass(slots=True, kw_only=True)
class Spent:
    """What the calls of one judgement took together; None where nobody said."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cost_usd: float | None = None
    seconds: float = 0.0
    attempts: int = 0

    def add(self, done: Completion) -> None:
        """Count one reply in."""
        self.input_tokens = _sum(self.input_tokens, done.input_tokens)
        self.output_tokens = _sum(self.output_tokens, done.output_tokens)
        self.cost_usd = _sum(self.cost_usd, done.cost_usd)


_Amount = TypeVar("_Amount", int, float)


def _sum(left: _Amount | None, right: _Amount | None) -> _Amount | None:
    if left is None or right is None:
        return right if left is None else left
    return left + right


@dataclass(slots=True, kw_only=True)
class ModelClient:
    """Calls one model through litellm.

    Temperature 0 and the reply's JSON schema are asked for where the model takes them: when the provider refuses one,
    the call is made again without, and later calls leave it out from the start.

    Attributes:
        model: As litellm names it.
        api_base: Address of a compatible endpoint; "" for the provider's own.
        timeout: Seconds that one attempt may take in all.
        json_schema: Whether to ask for the schema; None: where litellm knows that the model takes one.
        now: Clock for `Spent.seconds`.
    """

    model: str
    api_base: str = ""
    timeout: float = 60.0
    json_schema: bool | None = None
    now: Callable[[], float] = time.monotonic
    _refused: set[str] = field(default_factory=set)
    _litellm: Any = None

    async def complete(
        self, messages: Sequence[Mapping[str, str]], schema: Mapping[str, Any], spent: Spent
    ) -> Completion:
        """Make one attempt, and count it.

        Raises:
            CallError: No reply.
        """
        if self._litellm is None:
            self._litellm = await asyncio.to_thread(load)
        if not self.api_base and (missing := self._missing_keys()):
            raise CallError(Trouble.REFUSED, f"{', '.join(missing)} is not set in the environment")
        while True:
            options = self._options(schema)
            began = self.now()
            spent.attempts += 1
            try:
                done = await self._attempt(messages, options)
            except _OptionRefusedError as refused:
                self._refused.add(refused.option)
            else:
                spent.add(done)
                return done
            finally:
                spent.seconds += self.now() - began

    async def _attempt(self, messages: Sequence[Mapping[str, str]], options: dict[str, Any]) -> Completion:
        try:
            async with asyncio.timeout(self.timeout):
                reply = await self._litellm.acompletion(
                    model=self.model, messages=list(messages), timeout=self.timeout, num_retries=0, **options
                )
            return _completion(reply)
        except TimeoutError:
            raise CallError(Trouble.TIMEOUT, f"no reply within {self.timeout:g} s") from None
        except self._litellm.exceptions.openai.OpenAIError as error:
            refused = _refused_option(error, options)
            raise (_OptionRefusedError(refused) if refused else _fault(error, self.model)) from None
        except _SHAPELESS as error:
            raise CallError(Trouble.SERVER, f"a reply in no known shape ({type(error).__name__})") from None

    def _options(self, schema: Mapping[str, Any]) -> dict[str, Any]:
        options: dict[str, Any] = {"temperature": 0}
        known = self._litellm.supports_response_schema(self.model) if self.json_schema is None else self.json_schema
        if known:
            named = {"name": "verdict", "schema": dict(schema), "strict": True}
            options["response_format"] = {"type": "json_schema", "json_schema": named}
        for name in self._refused:
            options.pop(name, None)
        if self.api_base:
            options["api_base"] = self.api_base
            if not self._litellm.validate_environment(self.model)["keys_in_environment"]:
                options["api_key"] = _NO_KEY
        return options

    def _missing_keys(self) -> list[str]:
        """API keys that the provider needs and the environment lacks; without one litellm reports a failing server."""
        missing: list[str] = self._litellm.validate_environment(self.model)["missing_keys"]
        return missing if all(name.endswith("_API_KEY") for name in missing) else []

    async def aclose(self) -> None:
        """Close the connections that litellm keeps."""
        if self._litellm is not None:
            await self._litellm.close_litellm_async_clients()


class _OptionRefusedError(Exception):
    """The provider does not take an optional parameter."""

    def __init__(self, option: str) -> None:
        self.option = option
        super().__init__(option)


def load() -> Any:  # noqa: ANN401 - litellm is not typed
    """Import litellm, quietly; takes seconds the first time."""
    with _loading:
        # Read at import: the first would fetch a price list, the second read a .env file of the working directory.
        os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
        os.environ.setdefault("LITELLM_MODE", "PRODUCTION")
        litellm: Any = importlib.import_module("litellm")
        litellm.suppress_debug_info = True
        litellm.turn_off_message_logging = True
        for name in ("LiteLLM", "LiteLLM Router", "LiteLLM Proxy"):
            logging.getLogger(name).setLevel(logging.CRITICAL)
        return litellm


_COMPLAINTS = {"temperature": ("temperature",), "response_format": ("response_format", "json_schema", "schema")}


def _refused_option(error: Exception, options: Mapping[str, Any]) -> str | None:
    """Which of the optional parameters a provider complains about."""
    if getattr(error, "status_code", None) not in {400, 422}:
        return None
    text = str(error).lower()
    for name, words in _COMPLAINTS.items():
        if name in options and any(word in text for word in words):
            return name
    return None


def _completion(reply: Any) -> Completion:  # noqa: ANN401
    choice = reply.choices[0]
    usage = getattr(reply, "usage", None)
    tokens = (getattr(usage, "prompt_tokens", 0) or 0, getattr(usage, "completion_tokens", 0) or 0)
    said = any(tokens)
    # litellm puts zeros where the provider says nothing, and 0 or None for a model without a known price.
    cost = reply._hidden_params.get("response_cost") if said else None  # noqa: SLF001 - where litellm keeps the price
    return Completion(
        text=choice.message.content or "",
        cut=choice.finish_reason == "length",
        input_tokens=tokens[0] if said else None,
        output_tokens=tokens[1] if said else None,
        cost_usd=float(cost) if cost else None,
    )


def _fault(error: Exception, model: str) -> CallError:
    """Sort an exception of litellm by its status."""
    status = getattr(error, "status_code", None)
    name = type(error).__name__
    match status:
        case _ if "Timeout" in name or status == 408:
            return CallError(Trouble.TIMEOUT, "the call timed out")
        case 429:
            return CallError(Trouble.BUSY, "the provider is busy (429)", _retry_after(error))
        case 401 | 403:
            return CallError(Trouble.REFUSED, f"the provider refuses the key (status {status}, {name})")
        case int() if 400 <= status < 500:
            hint = f"; litellm must know the model {model}" if "LLM Provider NOT provided" in str(error) else ""
            return CallError(Trouble.REFUSED, f"the provider refuses the request (status {status}, {name}{hint})")
        case int() if status >= 500 and "Connection" not in f"{name} {error}":
            return CallError(Trouble.SERVER, f"the provider fails (status {status})", _retry_after(error))
        case _:
            return CallError(Trouble.CONNECTION, "no connection")


def _retry_after(error: Exception) -> float | None:
    """Seconds of a Retry-After header, which is a number or a date; None when there is none that makes sense."""
    response = getattr(error, "response", None)
    text = str(response.headers.get("retry-after", "")) if response is not None else ""
    try:
        seconds = float(text)
    except ValueError:
        try:
            seconds = email.utils.parsedate_to_datetime(text).timestamp() - time.time()
        except (ValueError, TypeError, OverflowError):
            return None
    return seconds if 0 <= seconds < float("inf") else None
