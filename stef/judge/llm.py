"""The judge that asks a model: any that litellm reaches, with a prompt file, a strict parser and our own patience.

What a model that is down does to a record: the call waits up to `max_outage` seconds (see `retry.py`), then the
offline verdict is given, marked `fallback="outage"`, or `JudgeError` is raised. Only an outage has that way out: a
refused key or request, a call that times out while others succeed, and a reply that cannot be read are failures.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from stef.errors import JudgeError, JudgeFailure, PromptError
from stef.judge.case import Judge, JudgeCase
from stef.judge.client import Completion, ModelClient, Spent
from stef.judge.dossier import REQUIRED, VARIABLES, variables
from stef.judge.reply import ReasonCode, Reply, parse
from stef.judge.retry import Breaker, Clock, ModelDownError, Policy, persist
from stef.judge.untrusted import defuse, shorten
from stef.prompts import Prompt, load, locate
from stef.result import JudgeKind, Judgement, Usage, Verdict

# Bumped when one reply, or one case, would be read or shown in another way.
CLIENT_SEMANTICS = 1
_SHOWN_REPLY = 4_000  # characters of its own reply that the model is shown again
_Message = dict[str, str]


def load_prompt(folder: Path, name: str) -> Prompt:
    """Read a prompt for this judge, from the user's folder or else from those that come with stef.

    Raises:
        PromptError: It is missing or wrong, or its reply schema does not ask for what is read.
    """
    prompt = load(locate(folder, name), offered=VARIABLES, required=REQUIRED)
    properties = prompt.reply["properties"]
    for field in ("verdict", "confidence"):
        if field not in properties:
            raise PromptError(
                prompt.path, "reply.properties", f"no {field}", "verdict, confidence, reasons, explanation"
            )
    _enum(prompt, "reply.properties.verdict.enum", properties["verdict"], [verdict.value for verdict in Verdict])
    reasons = properties.get("reasons")
    if reasons is not None:
        items = reasons.get("items") if isinstance(reasons, Mapping) else None
        _enum(prompt, "reply.properties.reasons.items.enum", items, [code.value for code in ReasonCode])
    return prompt


def _enum(prompt: Prompt, place: str, schema: object, allowed: list[str]) -> None:
    found = schema.get("enum") if isinstance(schema, Mapping) else None
    if not isinstance(found, list) or set(map(str, found)) != set(allowed):
        raise PromptError(prompt.path, place, repr(found), "exactly " + ", ".join(allowed))


class LlmJudge:
    """Asks a model; a `Judge`.

    Args:
        model: As litellm names it, such as `openai/gpt-5-mini`.
        prompt: From `load_prompt`.
        api_base: Address of an OpenAI-compatible endpoint; "" for the provider's own.
        timeout: Seconds that one call may take.
        policy: Retries, backoff and how long to wait for a model that is down.
        fallback: Who judges when the model stays down; None: `JudgeError`.
        json_schema: Whether to send the reply's JSON schema; None: where litellm knows that the model takes one.
        clock: Time and chance, for tests.
    """

    def __init__(
        self,
        *,
        model: str,
        prompt: Prompt,
        api_base: str = "",
        timeout: float = 60.0,
        policy: Policy | None = None,
        fallback: Judge | None = None,
        json_schema: bool | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.kind = JudgeKind.LLM
        self.model, self.prompt, self.fallback = model, prompt, fallback
        clock = clock or Clock()
        self.breaker = Breaker(policy or Policy(), clock)
        self._client = ModelClient(
            model=model, api_base=api_base, timeout=timeout, json_schema=json_schema, now=clock.now
        )
        self._nonce = clock.nonce
        self.parameters = json.dumps({"temperature": 0, "json_schema": json_schema, "client": CLIENT_SEMANTICS})
        parts = json.dumps([model, prompt.digest, self.parameters])
        self.identity = f"llm:{model}:{prompt.name}@{prompt.digest}:{hashlib.sha256(parts.encode()).hexdigest()[:16]}"

    async def judge(self, case: JudgeCase) -> Judgement:
        """Judge one case.

        Raises:
            JudgeError: `UNAVAILABLE` (down and no fallback, or the request is refused), `TIMEOUT` (every attempt of
                this call timed out while others succeed), `REPLY_INVALID` (also after the repair retry).
        """
        try:
            return await self._ask(case)
        except ModelDownError:
            if self.fallback is None:
                raise
            return replace(await self.fallback.judge(case), fallback="outage")

    async def aclose(self) -> None:
        """Close the connections to the model."""
        await self._client.aclose()

    async def _ask(self, case: JudgeCase) -> Judgement:
        nonce, spent = self._nonce(), Spent()
        messages = self._messages(case, nonce)
        done = await self._call(messages, spent)
        try:
            reply = parse(done.text)
        except JudgeError as error:
            done = await self._call([*messages, *_repair(done, error.detail, nonce)], spent)
            reply = _second(done, error.detail)
        return self._judgement(reply, spent)

    def _messages(self, case: JudgeCase, nonce: str) -> list[_Message]:
        values = variables(case, nonce)
        shown = self.prompt.render({name: values[name] for name in self.prompt.variables})
        system = [{"role": "system", "content": shown.system}] if shown.system else []
        return [*system, {"role": "user", "content": shown.user}]

    async def _call(self, messages: list[_Message], spent: Spent) -> Completion:
        return await persist(lambda: self._client.complete(messages, self.prompt.reply, spent), self.breaker)

    def _judgement(self, reply: Reply, spent: Spent) -> Judgement:
        return Judgement(
            kind=self.kind,
            verdict=reply.verdict,
            confidence=reply.confidence,
            reasons=reply.reasons,
            model=self.model,
            usage=Usage(
                input_tokens=spent.input_tokens,
                output_tokens=spent.output_tokens,
                cost_usd=spent.cost_usd,
                seconds=round(spent.seconds, 6),
                attempts=spent.attempts,
            ),
        )


def _repair(done: Completion, problem: str, nonce: str) -> list[_Message]:
    """Show the model its own reply, and say what was wrong with it."""
    shown, _ = shorten(defuse(done.text, nonce), _SHOWN_REPLY)
    verdicts, codes = ", ".join(Verdict), ", ".join(ReasonCode)
    request = (
        f"That reply cannot be read: {problem}{_cut(done)}. Reply again with one JSON object and nothing else. Keys: "
        f'"verdict" (exactly one of {verdicts}), "confidence" (a whole number from 0 to 100), '
        f'"reasons" (a list of none or some of {codes}), "explanation" (one sentence).'
    )
    return [{"role": "assistant", "content": shown.strip() or "(empty)"}, {"role": "user", "content": request}]


def _second(done: Completion, first: str) -> Reply:
    try:
        return parse(done.text)
    except JudgeError as error:
        detail = f"{error.detail}{_cut(done)}; before the repair: {first}"
        raise JudgeError(JudgeFailure.REPLY_INVALID, detail) from None


def _cut(done: Completion) -> str:
    return " (cut at the model's output limit)" if done.cut else ""
