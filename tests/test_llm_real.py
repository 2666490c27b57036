"""The judge that asks a model, with a real one: STEF_TEST_LLM=http://host:port/v1.

`benchmarks/serve_gguf.py` serves a model that fits on a small machine.

What a model thinks of a record is its own matter; that every record comes back with a verdict or a named failure, and
that no figure is made up, is ours.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import urllib.request
from dataclasses import dataclass

import pytest

from stef import demolog
from stef.config import resolve
from stef.errors import JudgeFailure
from stef.pipeline import build
from stef.record import Message
from stef.result import Evaluation, JudgeKind, Outcome
from tests.records import load

ADDRESS = os.environ.get("STEF_TEST_LLM", "")
NAME = os.environ.get("STEF_TEST_LLM_MODEL", "")
pytestmark = [
    pytest.mark.llm,
    pytest.mark.skipif(not ADDRESS, reason="no model: set STEF_TEST_LLM=http://host:port/v1, an OpenAI-compatible one"),
]
EACH = 10  # records of the case files, and as many of the demo log
COPIED = ("question", "sql", "asked_at", "app_rules", "dialect")
TIMEOUT = 300.0


@dataclass(frozen=True)
class Run:
    """What was sent and what came back, in the order of sending."""

    model: str
    recorded: str
    sent: list[dict]
    results: list[Evaluation]


def messages():
    """Records of the project's own: the first case of some rules, and the begin of the demo log."""
    firsts = {param.values[0]["rule"]: param.values[0] for param in reversed(load("align"))}
    cases = [
        {name: case[name] for name in COPIED if name in case}
        | {"event_id": f"case-{rule}", "expanded_question": case.get("expansion")}
        for rule, case in sorted(firsts.items())[:EACH]
    ]
    answered = (record for record in demolog.records(per_version=EACH) if record.get("sql"))
    logged = [{**record, "event_id": f"log-{number}"} for number, record in enumerate(itertools.islice(answered, EACH))]
    return [*cases, *logged]


def evaluated(sent, settings):
    """One result for each message, over the whole path."""

    async def all_of_them():
        pipeline = build(resolve({"judge": "llm", "judge_file": "", "judge_reply": "schema", **settings}))
        found = []
        try:
            for number, record in enumerate(sent):
                message = Message(value=json.dumps(record).encode(), topic="real", offset=number)
                found += await pipeline.evaluate(message)
        finally:
            await pipeline.close()
        return found

    return asyncio.run(all_of_them())


def first_model():
    """What the endpoint lists first."""
    with urllib.request.urlopen(f"{ADDRESS}/models", timeout=30) as reply:  # noqa: S310 - the tester's own
        return json.load(reply)["data"][0]["id"]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """All records, judged once."""
    model = f"openai/{NAME or first_model()}"
    recorded = str(tmp_path_factory.mktemp("real") / "exchanges.jsonl")
    settings = {"api_base": ADDRESS, "judge_timeout": TIMEOUT, "judge_retries": 1, "on_outage": "failed"}
    sent = messages()
    return Run(model, recorded, sent, evaluated(sent, {**settings, "model": model, "judge_record": recorded}))


@pytest.fixture
def scored(run):
    """Results with a verdict; a model that judges nothing at all is no model to test with."""
    found = [result for result in run.results if result.outcome is Outcome.SCORED]
    assert found, [(result.outcome, result.reason, result.detail) for result in run.results]
    return found


def test_no_record_is_lost(run):
    """Every record that is sent comes back once, in order, under its own id."""
    assert 2 * EACH == len(run.sent)
    assert [record["event_id"] for record in run.sent] == [result.event_id for result in run.results]


def test_every_record_has_a_verdict_or_a_named_failure(run):
    """A record that the model could not judge says why, by one of the judge's own failures."""
    for result in run.results:
        assert result.outcome in {Outcome.SCORED, Outcome.FAILED}, (result.outcome, result.detail)
        if result.outcome is Outcome.FAILED:
            assert result.reason.value in set(JudgeFailure), result.detail


def test_a_failure_has_no_figures(run):
    """A record without a verdict has neither Φ nor a probability nor a judgement."""
    for result in run.results:
        if result.outcome is Outcome.FAILED:
            assert (None, None, None, None) == (result.phi, result.p_correct, result.p_offline, result.judge)


def test_the_verdict_is_the_models(run, scored):
    """A verdict over an endpoint that answers is the model's own, and the result names model and prompt."""
    for result in scored:
        assert (JudgeKind.LLM, "", run.model) == (result.judge.kind, result.judge.fallback, result.judge.model)
        assert run.model == result.provenance.model
        assert result.provenance.prompt.startswith("judge@")
        assert 0 <= result.judge.confidence <= 1


def test_time_and_tokens_are_measured(scored):
    """Every judgement carries its seconds, tokens and calls; a price that nobody knows stays unknown."""
    for result in scored:
        usage = result.judge.usage
        assert usage.seconds > 0
        assert usage.input_tokens > usage.output_tokens > 0
        assert usage.attempts >= 1
        assert usage.cost_usd is None


def test_recorded_exchanges_give_the_same_results(run):
    """What was recorded with a model plays back without one, to the same verdicts, confidences and failures."""
    again = evaluated(run.sent, {"model": run.model, "judge_retries": 0, "judge_replay": run.recorded})
    for first, second in zip(run.results, again, strict=True):
        if first.outcome is Outcome.SCORED:
            assert (first.judge.verdict, first.judge.confidence) == (second.judge.verdict, second.judge.confidence)
            assert first.phi == second.phi
