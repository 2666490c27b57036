"""Ask a model about labelled statements in several ways, and show what each way is worth.

    python benchmarks/judge.py LABELLED --out FILE --model openai/NAME --api-base URL [--records N] [--arms A,B]
    python benchmarks/judge.py LABELLED --report FILE [--offline SCORES]

LABELLED: JSON lines (also .gz) with id, question, evidence, sql, dialect, label, source, db.
FILE: one line for each record and arm; what is there already is not asked again.
SCORES: results of models that have not seen the records, as `benchmarks/out_of_fold.py` writes them; without, the
shipped model's own p_offline, which has seen them.

Records are drawn a question at a time, of those that have right and wrong answers: two of each, or as many as there
are. A larger `--records` begins with the records of a smaller one.

Arms: `verdict_first` is the prompt that ships; `catalogue` the same with the names that the log has shown;
`reason_first` the same with the explanation before the verdict; `one_word` shows the same texts, asks for yes or no
and takes the probability of the first token. They are asked about a record in the order named and with one nonce for a
question, so that a server which keeps what it has read need not read the same texts again.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import math
import random
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from evidence_signals import Items, catalogues, knowledge, read, record_of
from judge_report import report

from stef.apprules import NO_RULES
from stef.errors import JudgeError
from stef.judge.case import JudgeCase, case_of
from stef.judge.certainty import affirmed
from stef.judge.client import ModelClient, ModelOptions, ReplyForm, load
from stef.judge.completion import Completion, Request, Spent
from stef.judge.dossier import SchemaHint, variables
from stef.judge.llm import Asking, LlmJudge, load_prompt
from stef.judge.reply import parse
from stef.judge.retry import Clock, Policy
from stef.prompts import Order, Part, Prompt
from stef.timespan import Calendar
from stef.understand import Knowledge, catalogue_of, understand

ARMS = ("verdict_first", "catalogue", "one_word", "reason_first")
_OF_EACH = 2  # right and wrong answers of a question
_PROMPTS = Path(__file__).parents[1] / "prompts"
_TIMEOUT = 300.0
_LIKELIEST = 20  # first tokens of which yes and no are sought
_QUESTION = (
    "Does the statement between the marks of `sql`, number {nonce}, answer the question? For this request only, reply "
    "with one word and nothing else: yes or no."
)
_CLOCK = Calendar()
Row = dict[str, Any]


def drawn(items: Items, count: int, seed: int) -> Items:
    """Records to ask about: whole questions in a drawn order, some right and some wrong answers of each."""
    dice = random.Random(seed)  # noqa: S311 - no secret
    groups: dict[tuple[str, str], Items] = defaultdict(list)
    for item in items:
        groups[item["source"], item["question"]].append(item)
    order = sorted(name for name, group in groups.items() if len({item["label"] for item in group}) > 1)
    dice.shuffle(order)
    found: Items = []
    for name in order:
        for label in (1, 0):
            having = [item for item in groups[name] if item["label"] == label]
            found += dice.sample(having, min(_OF_EACH, len(having)))
    return found[:count]


def case_for(item: Row, known: Knowledge) -> JudgeCase | None:
    """What a judge is given; None for a statement that cannot be scored."""
    record = record_of(item)
    seen = understand(record, NO_RULES, _CLOCK, known)
    if seen.compared is None:
        return None
    return case_of(record, seen, seen.compared, findings=seen.findings, catalogue=catalogue_of(record, known))


def reason_first(prompt: Prompt) -> Prompt:
    """The same prompt with the explanation at the front of the reply.

    Raises:
        ValueError: The prompt shows no reply that ends with an explanation.
    """
    names = ["explanation", *(name for name in prompt.reply["properties"] if name != "explanation")]
    reply = {**prompt.reply, "required": names}
    reply["properties"] = {name: prompt.reply["properties"][name] for name in names}
    text, tail = "".join(part.text for part in prompt.system), ', "explanation": "One sentence."}'
    if text.count(tail) != 1:
        raise ValueError(f"{prompt.path}: no single example of a reply that ends with an explanation")
    start = text.rindex('{"verdict"', 0, text.index(tail))
    text = text.replace(tail, "}")
    text = f'{text[:start]}{{"explanation": "One sentence.", {text[start + 1 :]}'
    order = Order.REASONS_FIRST
    digest = hashlib.sha256(f"{prompt.digest}{order}".encode()).hexdigest()[:16]
    return replace(prompt, order=order, reply=reply, system=(Part(text),), digest=digest)


class Listening:
    """A client that keeps the last reply, for what a judgement does not say.

    Args:
        client: Makes the calls.
    """

    def __init__(self, client: ModelClient) -> None:
        self.client = client
        self.last: Completion | None = None

    async def complete(self, request: Request, spent: Spent) -> Completion:
        """Make one attempt; raises what the client raises."""
        self.last = None
        self.last = await self.client.complete(request, spent)
        return self.last

    async def aclose(self) -> None:
        """Close the client's connections."""
        await self.client.aclose()


@dataclass(slots=True)
class Asker:
    """Asks one model in all ways.

    Attributes:
        nonce: Of the question that is being asked about: the same in all arms, so that their texts begin the same.
    """

    options: ModelOptions
    prompt: Prompt
    nonce: str = ""

    def ways(self) -> dict[str, Callable[[JudgeCase], Awaitable[Row]]]:
        """For each arm what asks about a case and gives the figures."""
        return {
            "verdict_first": self._judging(self.prompt, SchemaHint.NONE),
            "catalogue": self._judging(self.prompt, SchemaHint.CATALOGUE),
            "reason_first": self._judging(reason_first(self.prompt), SchemaHint.NONE),
            "one_word": self._one_word,
        }

    def _judging(self, prompt: Prompt, hint: SchemaHint) -> Callable[[JudgeCase], Awaitable[Row]]:
        client = Listening(ModelClient(options=self.options))
        judge = LlmJudge(
            self.options,
            prompt,
            client=client,
            policy=Policy(retries=1, max_outage=_TIMEOUT),
            asking=Asking(hint=hint),
            clock=Clock(nonce=lambda: self.nonce),
        )

        async def ask(case: JudgeCase) -> Row:
            found = await judge.judge(case)
            if client.last is None or found.usage is None:
                raise ValueError("a judgement without a reply")
            return {
                "verdict": found.verdict.value,
                "gamma": found.confidence,
                "basis": found.basis,
                "said": parse(client.last.text).confidence,
                "p": affirmed(client.last.tokens),
                "input_tokens": found.usage.input_tokens,
                "output_tokens": found.usage.output_tokens,
                "attempts": found.usage.attempts,
                "seconds": found.usage.seconds,
            }

        return ask

    async def _one_word(self, case: JudgeCase) -> Row:
        values = variables(case, self.nonce)
        shown = self.prompt.render({name: values[name] for name in self.prompt.variables})
        texts, _, _ = shown.user.rpartition("\n\n")
        began = time.monotonic()
        reply = await load().acompletion(
            model=self.options.model,
            api_base=self.options.api_base,
            api_key="none",
            messages=[
                {"role": "system", "content": shown.system},
                {"role": "user", "content": f"{texts}\n\n{_QUESTION.format(nonce=self.nonce)}"},
            ],
            temperature=0,
            max_tokens=1,
            logprobs=True,
            top_logprobs=_LIKELIEST,
            timeout=_TIMEOUT,
            num_retries=0,
        )
        p, mass = yes(reply.choices[0].logprobs.content[0].top_logprobs)
        usage = reply.usage
        return {
            "p": p,
            "mass": mass,
            "input_tokens": usage.prompt_tokens,
            "output_tokens": usage.completion_tokens,
            "seconds": round(time.monotonic() - began, 3),
        }


def yes(first: list[Any]) -> tuple[float | None, float]:
    """Probability of yes among yes and no, and of both together, from the likeliest first tokens."""
    mass = {"yes": 0.0, "no": 0.0}
    for token in first:
        word = token.token.strip().casefold()
        if word in mass:
            mass[word] += math.exp(token.logprob)
    both = sum(mass.values())
    return (mass["yes"] / both if both else None), round(both, 6)


async def ask_all(items: Items, known: Knowledge, asker: Asker, arms: list[str], out: Path) -> None:
    """Ask about every record in every arm that the file does not hold, and append what comes."""
    with out.open("a+", encoding="utf-8") as file:
        file.seek(0)
        done = {(row["id"], row["arm"]) for row in map(json.loads, file)}
        ways = asker.ways()
        for number, item in enumerate(items):
            case = case_for(item, known)
            asker.nonce = hashlib.sha256(item["question"].encode()).hexdigest()[:16]
            for arm in arms:
                if case is None or (item["id"], arm) in done:
                    continue
                row = {"id": item["id"], "arm": arm, "model": asker.options.model, "prompt": asker.prompt.digest}
                began = time.monotonic()
                try:
                    row |= await ways[arm](case)
                except JudgeError as error:
                    row |= {"failure": error.failure.value, "detail": error.detail}
                row["elapsed"] = round(time.monotonic() - began, 3)
                file.write(json.dumps(row) + "\n")
                file.flush()
            print(f"{number + 1} of {len(items)}", flush=True)


def rows_of(path: Path) -> Iterator[Row]:
    """The lines of a file of replies."""
    for line in path.read_text(encoding="utf-8").splitlines():
        yield json.loads(line)


def main() -> None:
    """Ask, or report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("labelled")
    parser.add_argument("--out", type=Path, metavar="FILE")
    parser.add_argument("--report", type=Path, metavar="FILE")
    parser.add_argument("--offline", type=Path, metavar="SCORES")
    parser.add_argument("--model", default="")
    parser.add_argument("--api-base", default="")
    parser.add_argument("--records", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--arms", default=",".join(ARMS))
    given = parser.parse_args()
    items = read(given.labelled)
    if given.report:
        rows = list(rows_of(given.report))
        report(items, rows, offline(items, rows, given.offline), is_unseen=given.offline is not None)
        return
    arms = given.arms.split(",")
    if not given.out or not given.model or set(arms) - set(ARMS):
        parser.error(f"--out and --model are needed; arms are {', '.join(ARMS)}")
    options = ModelOptions(
        model=given.model, api_base=given.api_base, timeout=_TIMEOUT, form=ReplyForm.SCHEMA, logprobs=True
    )
    known = knowledge(catalogues(items, knowledge()))
    asker = Asker(options, load_prompt(_PROMPTS, "judge"))
    asyncio.run(ask_all(drawn(items, given.records, given.seed), known, asker, arms, given.out))


def offline(items: Items, rows: list[Row], scores: Path | None) -> dict[str, float]:
    """p_offline of the records that were asked about."""
    if scores is not None:
        return {row["event_id"]: row["p_correct"] for row in rows_of(scores) if row["outcome"] == "scored"}
    asked = {row["id"] for row in rows}
    known = knowledge(catalogues(items, knowledge()))
    cases = ((item["id"], case_for(item, known)) for item in items if item["id"] in asked)
    return {name: case.evidence.p_offline for name, case in cases if case is not None}


if __name__ == "__main__":
    main()
