"""The one place that calls a model: litellm, imported when the first call is made.

litellm's own retries, callbacks, price download and `.env` reading are off. No text and no key is logged, and what a
provider says about a fault is not passed on, since it may repeat either.
"""

from __future__ import annotations

import asyncio
import importlib
import logging
import os
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from stef.judge.completion import Completion, Request, Spent, Token
from stef.judge.faults import fault, refused_option
from stef.judge.retry import CallError, Trouble

_loading = threading.Lock()
# A reply that is in no shape known to litellm ends in one of these.
_SHAPELESS = (LookupError, TypeError, ValueError, AttributeError)
_NO_KEY = "none"
_ALTERNATIVES = 5  # tokens whose probability is asked for at each place: one for each verdict, and one more
# Servers of one's own that take a JSON schema for whatever model they hold; litellm knows it of hosted models only.
_OWN_SERVERS = frozenset({"ollama", "ollama_chat", "hosted_vllm", "llamafile", "lm_studio"})

# Parameters that mean nothing without another one.
_TOGETHER = {"logprobs": "top_logprobs", "tools": "tool_choice"}


class ReplyForm(StrEnum):
    """How a model is held to the shape of the reply."""

    AUTO = "auto"  # the first of the others that litellm knows the model to take
    SCHEMA = "schema"
    TOOL = "tool"
    TEXT = "text"


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """US dollars for a million tokens."""

    input: float
    output: float

    def of(self, done: Completion) -> float | None:
        """What a reply cost; None when its tokens are not known."""
        if done.input_tokens is None or done.output_tokens is None:
            return None
        return (done.input_tokens * self.input + done.output_tokens * self.output) / 1e6


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelOptions:
    """Which model is asked, and how.

    Attributes:
        model: As litellm names it, such as `openai/gpt-5-mini`.
        api_base: Address of a compatible endpoint; "" for the provider's own.
        timeout: Seconds that one attempt may take in all.
        form: How the model is held to the shape of the reply.
        logprobs: Whether to ask for the probabilities of tokens; None: where litellm knows that the provider has them.
        temperature: 0 and more.
        fallbacks: Models that litellm asks when this one fails.
        price: Instead of litellm's; None: litellm's, where it knows one.
    """

    model: str
    api_base: str = ""
    timeout: float = 60.0
    form: ReplyForm = ReplyForm.AUTO
    logprobs: bool | None = None
    temperature: float = 0.0
    fallbacks: tuple[str, ...] = ()
    price: Price | None = None


@dataclass(slots=True, kw_only=True)
class ModelClient:
    """Calls one model through litellm; a `Client`.

    What is asked for beside the text (temperature, shape of the reply, probabilities of tokens) is left out where
    litellm knows that the model does not take it. When the provider refuses one, the call is made again without, and
    later calls leave it out from the start.

    Attributes:
        options: Which model, and how.
        now: Clock for `Spent.seconds`.
    """

    options: ModelOptions
    now: Callable[[], float] = time.monotonic
    _refused: set[str] = field(default_factory=set)
    _provider: _Provider | None = None

    async def complete(self, request: Request, spent: Spent) -> Completion:
        """Make one attempt, and count it.

        Raises:
            CallError: No reply.
        """
        if self._provider is None:
            self._provider = await asyncio.to_thread(_provider_of, self.options.model)
        provider = self._provider
        if not self.options.api_base and provider.missing:
            raise CallError(Trouble.REFUSED, f"{', '.join(provider.missing)} is not set in the environment")
        while True:
            given = self._given(request, provider)
            began = self.now()
            spent.attempts += 1
            try:
                done = await self._attempt(request, given, provider)
            except _OptionRefusedError as refused:
                self._refused.add(refused.option)
            else:
                spent.add(done)
                return done
            finally:
                spent.seconds += self.now() - began

    async def _attempt(self, request: Request, given: dict[str, Any], provider: _Provider) -> Completion:
        asked, litellm = self.options, provider.litellm
        messages = [dict(message) for message in request.messages]
        try:
            with provider.unlogged():
                async with asyncio.timeout(asked.timeout):
                    reply = await litellm.acompletion(
                        model=asked.model, messages=messages, timeout=asked.timeout, num_retries=0, **given
                    )
            return _completion(reply, asked)
        except TimeoutError:
            raise CallError(Trouble.TIMEOUT, f"no reply within {asked.timeout:g} s") from None
        except litellm.exceptions.openai.OpenAIError as error:
            refused = refused_option(error, given)
            raise (_OptionRefusedError(refused) if refused else fault(error, asked.model)) from None
        except _SHAPELESS as error:
            raise CallError(Trouble.SERVER, f"a reply in no known shape ({type(error).__name__})") from None
        except Exception as error:
            # What litellm raises when all of them have failed has no class of its own, and says nothing of the cause.
            if type(error) is Exception and asked.fallbacks:
                raise CallError(Trouble.SERVER, "the model and its fallbacks fail") from None
            raise

    def _given(self, request: Request, provider: _Provider) -> dict[str, Any]:
        """Everything beside model and messages."""
        asked = self.options.logprobs
        given: dict[str, Any] = {"temperature": self.options.temperature} | self._shape(request.schema, provider)
        if "top_logprobs" in provider.params if asked is None else asked:
            given |= {"logprobs": True, "top_logprobs": _ALTERNATIVES}
        if self.options.fallbacks:
            given["fallbacks"] = list(self.options.fallbacks)
        for name in self._refused:
            given.pop(name, None)
            given.pop(_TOGETHER.get(name, name), None)
        if self.options.api_base:
            given["api_base"] = self.options.api_base
            if not provider.has_key:
                given["api_key"] = _NO_KEY
        return given

    def _shape(self, schema: Mapping[str, Any], provider: _Provider) -> dict[str, Any]:
        """The parameters that hold the model to the reply's schema."""
        match self._form(provider):
            case ReplyForm.SCHEMA:
                named = {"name": "verdict", "schema": dict(schema), "strict": True}
                return {"response_format": {"type": "json_schema", "json_schema": named}}
            case ReplyForm.TOOL:
                function = {"name": "verdict", "description": "Give the verdict.", "parameters": dict(schema)}
                chosen = {"type": "function", "function": {"name": "verdict"}}
                return {"tools": [{"type": "function", "function": function}], "tool_choice": chosen}
            case _:
                return {}

    def _form(self, provider: _Provider) -> ReplyForm:
        """The form that is asked for: the wanted one, or else the strictest that the model takes."""
        if self.options.form is not ReplyForm.AUTO:
            return self.options.form
        if provider.takes_schema and "response_format" not in self._refused:
            return ReplyForm.SCHEMA
        if provider.takes_tools and "tools" not in self._refused:
            return ReplyForm.TOOL
        return ReplyForm.TEXT

    async def aclose(self) -> None:
        """Close the connections that litellm keeps."""
        if self._provider is not None:
            await self._provider.litellm.close_litellm_async_clients()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Provider:
    """What litellm knows of a model's provider.

    Attributes:
        litellm: The module.
        params: Optional parameters that the model takes.
        has_key: Whether the environment holds what the provider asks for.
        missing: API keys that it lacks; without one litellm reports a failing server.
        unlogged: Spares a call what litellm prepares for callbacks, a third of its time; ours are off.
    """

    litellm: Any
    params: frozenset[str]
    takes_schema: bool
    takes_tools: bool
    has_key: bool
    missing: tuple[str, ...]
    unlogged: Callable[[], AbstractContextManager[None]]


def _provider_of(model: str) -> _Provider:
    litellm = load()
    keys = litellm.validate_environment(model)
    missing = keys["missing_keys"]
    return _Provider(
        litellm=litellm,
        params=frozenset(litellm.get_supported_openai_params(model) or ()),
        takes_schema=litellm.supports_response_schema(model) or model.partition("/")[0] in _OWN_SERVERS,
        takes_tools=litellm.supports_function_calling(model),
        has_key=keys["keys_in_environment"],
        missing=tuple(missing) if all(name.endswith("_API_KEY") for name in missing) else (),
        unlogged=_unlogged(),
    )


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


def _unlogged() -> Callable[[], AbstractContextManager[None]]:
    """What litellm has for its own inner calls; nothing where a version has it no longer."""
    try:
        inner: Callable[[], AbstractContextManager[None]] = importlib.import_module(
            "litellm._internal_context"
        ).internal_sub_call
    except (ImportError, AttributeError):
        return nullcontext
    return inner


def has_price(model: str) -> bool:
    """Whether litellm knows what a model's tokens cost; imports it."""
    known: dict[str, Any] = load().model_cost
    found = known.get(model) or known.get(model.partition("/")[2]) or {}
    return bool(found.get("input_cost_per_token") or found.get("output_cost_per_token"))


def _completion(reply: Any, asked: ModelOptions) -> Completion:  # noqa: ANN401
    choice = reply.choices[0]
    usage = getattr(reply, "usage", None)
    tokens = (getattr(usage, "prompt_tokens", 0) or 0, getattr(usage, "completion_tokens", 0) or 0)
    said = any(tokens)
    # litellm puts zeros where the provider says nothing, and 0 or None for a model without a known price.
    cost = reply._hidden_params.get("response_cost") if said else None  # noqa: SLF001 - where litellm keeps the price
    done = Completion(
        text=_text(choice.message),
        cut=choice.finish_reason == "length",
        input_tokens=tokens[0] if said else None,
        output_tokens=tokens[1] if said else None,
        cost_usd=float(cost) if cost else None,
        model=str(reply.model or "") if asked.fallbacks and _fell_back(reply) else "",
        tokens=_tokens(choice),
    )
    return done if asked.price is None else replace(done, cost_usd=asked.price.of(done))


def _text(message: Any) -> str:  # noqa: ANN401
    """What the model said, in words or as the arguments of the tool that it was given."""
    for call in getattr(message, "tool_calls", None) or ():
        if call.function.arguments:
            return str(call.function.arguments)
    return message.content or ""


def _fell_back(reply: Any) -> bool:  # noqa: ANN401
    """Whether a fallback answered."""
    headers = reply._hidden_params.get("additional_headers") or {}  # noqa: SLF001 - where litellm says it
    return int(headers.get("x-litellm-attempted-fallbacks") or 0) > 0


def _tokens(choice: Any) -> tuple[Token, ...]:  # noqa: ANN401
    """The tokens with their probabilities; () for what is no such list."""
    content = getattr(getattr(choice, "logprobs", None), "content", None)
    try:
        return tuple(_token(item) for item in content or ())
    except (*_SHAPELESS, OverflowError):
        return ()


def _token(item: Any) -> Token:  # noqa: ANN401
    others = tuple((str(other.token), float(other.logprob)) for other in item.top_logprobs or ())
    return Token(str(item.token), float(item.logprob), others)
