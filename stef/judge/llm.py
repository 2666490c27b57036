"""The judge that asks a model: any that litellm reaches, with a prompt file, a strict parser and our own patience.

What a model that is down does to a record: the call waits up to `max_outage` seconds (see `retry.py`), then the
offline verdict is given, marked `fallback="outage"`, or `JudgeError` is raised. When the day's budget is spent the same
happens at once, marked `fallback="budget"`. Nothing else has that way out: a refused key or request, a call that times
out while others succeed, and a reply that cannot be read are failures.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from pydantic import TypeAdapter

from stef.calibration import AS_SAID, JudgeCalibration
from stef.errors import JudgeError, JudgeFailure, PromptError
from stef.judge.budget import Budget, BudgetSpentError
from stef.judge.cache import VerdictCache
from stef.judge.case import Judge, JudgeCase
from stef.judge.certainty import Opinion, opinion
from stef.judge.client import ModelClient, ModelOptions
from stef.judge.completion import Client, Completion, Request, Spent, Token
from stef.judge.dossier import REQUIRED, VARIABLES, SchemaHint, gist, variables
from stef.judge.limits import Gate
from stef.judge.private import HideCase, as_it_is
from stef.judge.reply import ReasonCode, Reply, parse
from stef.judge.retry import Breaker, Clock, ModelDownError, Policy, persist
from stef.judge.untrusted import defuse, shorten
from stef.prompts import Prompt, load, locate
from stef.result import JudgeKind, Judgement, Usage, Verdict

# Bumped when one reply, or one case, would be read or shown in another way.
CLIENT_SEMANTICS = 3
_SHOWN_REPLY = 4_000  # characters of its own reply that the model is shown again
_Message = dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a model says of a case, before any calibration; what a cache keeps.

    Attributes:
        model: Who answered.
    """

    opinion: Opinion
    model: str
    usage: Usage


_ANSWER = TypeAdapter(Answer)


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Asking:
    """How a record is put to the model.

    Attributes:
        samples: Times that it is asked about each record.
        hint: What it is shown of tables and columns.
        recheck: Share of kept verdicts that are asked for once more, to see whether the model stands by them.
        calibration: From γ as the model gives it to one that holds.
    """

    samples: int = 1
    hint: SchemaHint = SchemaHint.NONE
    recheck: float = 0.0
    calibration: JudgeCalibration = AS_SAID


@dataclass(frozen=True, slots=True, kw_only=True)
class Means:
    """What calls may take; None bounds nothing and keeps nothing.

    Attributes:
        gate: Bounds what goes to the model at once.
        cache: Verdicts that were given before.
        budget: What may be spent in a day.
    """

    gate: Gate | None = None
    cache: VerdictCache | None = None
    budget: Budget | None = None


class LlmJudge:
    """Asks a model; a `Judge`.

    Args:
        options: Which model, and how it is called.
        prompt: From `load_prompt`.
        client: Who makes the calls; None: litellm.
        policy: Retries, backoff and how long to wait for a model that is down.
        fallback: Who judges when the model stays down or the budget is spent; None: `JudgeError`.
        asking: How a record is put to it.
        means: What calls may take.
        clock: Time and chance, for tests.
        hide: Hides the values of a case from the model; None shows them.
    """

    def __init__(  # noqa: PLR0913 - one keyword for each thing that decides a call
        self,
        options: ModelOptions,
        prompt: Prompt,
        *,
        client: Client | None = None,
        policy: Policy | None = None,
        fallback: Judge | None = None,
        asking: Asking | None = None,
        means: Means | None = None,
        clock: Clock | None = None,
        hide: HideCase | None = None,
    ) -> None:
        self.kind = JudgeKind.LLM
        self.model, self.prompt, self.fallback = options.model, prompt, fallback
        self.asking, means, self._clock = asking or Asking(), means or Means(), clock or Clock()
        self.calibration = self.asking.calibration
        self.breaker = Breaker(policy or Policy(), self._clock)
        self._client = client or ModelClient(options=options, now=self._clock.now)
        self._gate = means.gate or Gate(clock=self._clock)
        self._cache, self._budget = means.cache, means.budget
        self.parameters = json.dumps(
            {
                "temperature": options.temperature,
                "reply": options.form.value,
                "logprobs": options.logprobs,
                "samples": self.asking.samples,
                "schema_hint": self.asking.hint.value,
                "fallbacks": list(options.fallbacks),
                "client": CLIENT_SEMANTICS,
                **({"pseudonymize": True} if hide else {}),
            }
        )
        self._hide = hide or as_it_is
        parts = json.dumps([options.model, prompt.digest, self.parameters])
        self.identity = f"llm:{self.model}:{prompt.name}@{prompt.digest}:{_digest(parts)[:16]}"
        if self.calibration.digest:
            self.identity += f":{self.calibration.digest}"
        # Two servers may hold different models under one name.
        self._asked = json.dumps([parts, options.api_base])

    async def judge(self, case: JudgeCase) -> Judgement:
        """Judge one case.

        Raises:
            JudgeError: `UNAVAILABLE` (down and no fallback, or the request is refused), `TIMEOUT` (every attempt of
                this call timed out while others succeed), `REPLY_INVALID` (also after the repair retry), `BUDGET` (the
                day's is spent, and no fallback).
        """
        try:
            hidden, restored = self._hide(case)
            return restored(await self._judged(hidden))
        except (ModelDownError, BudgetSpentError) as error:
            if self.fallback is None:
                raise
            cause = "budget" if isinstance(error, BudgetSpentError) else "outage"
            return replace(await self.fallback.judge(case), fallback=cause)

    async def aclose(self) -> None:
        """Close the connections to the model and the files."""
        await self._client.aclose()
        if self._budget is not None:
            self._budget.file.close()

    async def _judged(self, case: JudgeCase) -> Judgement:
        if self._cache is None:
            return self._judgement(await self._ask(case))
        answers: list[Answer] = []

        async def made() -> str:
            answers.append(await self._ask(case))
            return _ANSWER.dump_json(answers[0]).decode()

        kept, is_kept = await self._cache.once(_digest(self._asked, *gist(case, self.asking.hint)), made)
        if not is_kept:
            return self._judgement(answers[0])
        answer = _ANSWER.validate_json(kept)
        judgement = replace(self._judgement(answer), usage=None, cached=True)
        if self._clock.chance.random() >= self.asking.recheck:
            return judgement
        again = await self._ask(case)
        return replace(judgement, usage=again.usage, flipped=_flipped(answer, again))

    async def _ask(self, case: JudgeCase) -> Answer:
        """Ask the model as often as there are to be samples, one after the other."""
        spent = Spent()
        if self._budget is None:
            return await self._sampled(case, spent)
        async with self._budget.judgement(spent):
            return await self._sampled(case, spent)

    async def _sampled(self, case: JudgeCase, spent: Spent) -> Answer:
        nonce = self._clock.nonce()
        messages = self._messages(case, nonce)
        replies: list[tuple[Reply, tuple[Token, ...]]] = []
        model = ""
        for sample in range(self.asking.samples):
            done, reply = await self._one(
                Request(messages=messages, schema=self.prompt.reply, nonce=nonce, sample=sample), spent
            )
            replies.append((reply, done.tokens))
            model = done.model or model
        return Answer(opinion=opinion(replies), model=model or self.model, usage=_usage(spent))

    async def _one(self, request: Request, spent: Spent) -> tuple[Completion, Reply]:
        """One sample; a reply that cannot be read is shown to the model once."""
        done = await self._call(request, spent)
        try:
            return done, parse(done.text)
        except JudgeError as error:
            repair = _repair(done, error.detail, request.nonce)
            done = await self._call(replace(request, messages=[*request.messages, *repair]), spent)
            return done, _second(done, error.detail)

    def _messages(self, case: JudgeCase, nonce: str) -> list[_Message]:
        values = variables(case, nonce, self.asking.hint)
        shown = self.prompt.render({name: values[name] for name in self.prompt.variables})
        system = [{"role": "system", "content": shown.system}] if shown.system else []
        return [*system, {"role": "user", "content": shown.user}]

    async def _call(self, request: Request, spent: Spent) -> Completion:
        size = sum(len(message["content"].encode("utf-8", "surrogatepass")) for message in request.messages)

        async def attempt() -> Completion:
            async with self._gate.turn(size) as turn:
                done = await self._client.complete(request, spent)
                turn.took(done)
                return done

        return await persist(attempt, self.breaker)

    def _judgement(self, answer: Answer) -> Judgement:
        said = answer.opinion
        return Judgement(
            kind=self.kind,
            verdict=said.reply.verdict,
            confidence=self.calibration.confidence(said.basis, said.confidence),
            raw_confidence=said.confidence,
            basis=said.basis.value,
            samples=said.samples,
            flipped=said.agreement < 1 if said.samples > 1 else None,
            reasons=said.reply.reasons,
            model=answer.model,
            usage=answer.usage,
        )


def _flipped(before: Answer, again: Answer) -> bool:
    return before.opinion.reply.verdict.affirms is not again.opinion.reply.verdict.affirms


def _usage(spent: Spent) -> Usage:
    return Usage(
        input_tokens=spent.input_tokens,
        output_tokens=spent.output_tokens,
        cost_usd=spent.cost_usd,
        seconds=round(spent.seconds, 6),
        attempts=spent.attempts,
    )


def _digest(*parts: str) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


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
