"""The judge as the settings put it together: forms, limits, samples, cascade, budget, tape. Against a real endpoint."""

from __future__ import annotations

import asyncio
import json
import math
import time
from dataclasses import replace
from pathlib import Path

import pytest

from stef.config import resolve
from stef.errors import InputError, SettingError
from stef.judge.cascade import Rates
from stef.judge.client import load
from stef.judge.completion import Completion
from stef.judge.limits import Gate
from stef.judge.retry import Clock
from stef.pipeline import build
from stef.record import Message
from stef.result import JudgeKind, Outcome, Reason, Route, Verdict
from tests.openai_server import MODEL, Scripted, fault, in_turn, says, serve

GOOD = says('{"verdict": "CORRECT", "confidence": 92, "reasons": [], "explanation": "All there."}')
BAD = says('{"verdict": "INCORRECT", "confidence": 70}')
RECORD = {"question": "How many vans are in Turku?", "sql": "SELECT COUNT(*) FROM vans WHERE city = 'Turku'"}


@pytest.fixture(autouse=True, scope="module")
def _litellm_is_loaded():
    """Importing takes seconds, which are none of a single test's."""
    load()


@pytest.fixture
def judged(tmp_path):
    """Judges records at an endpoint with some settings, all in one pipeline; results and the endpoint."""

    def run(script, *records, **settings):
        with serve(script) as endpoint:
            own = {"judge": "llm", "model": MODEL, "judge_file": str(tmp_path / "judge.db"), "judge_retries": 0}
            found = resolve({"rules": str(tmp_path), "api_base": endpoint.url, **own, **settings})

            async def all_of_them():
                pipeline = build(found)
                try:
                    values = [json.dumps(record).encode() for record in records or (RECORD,)]
                    messages = [Message(value=value, topic="t", offset=n) for n, value in enumerate(values)]
                    return [result for one in messages for result in await pipeline.evaluate(one)]
                finally:
                    await pipeline.close()

            return asyncio.run(all_of_them()), endpoint

    return run


def with_logprobs(text, start, chosen, others):
    """A completion with probabilities, its tokens three: before the verdict, its first letters, the rest."""
    rest = text[len(start) + len(chosen) :]
    places = [(start, []), (chosen, others), (rest, [])]
    content = [
        {
            "token": piece,
            "logprob": next((math.log(p) for name, p in odds if name == piece), 0.0),
            "bytes": None,
            "top_logprobs": [{"token": name, "logprob": math.log(p), "bytes": None} for name, p in odds],
        }
        for piece, odds in places
    ]
    body = json.loads(says(text).body)
    body["choices"][0]["logprobs"] = {"content": content}
    return Scripted(body=json.dumps(body))


# ── what is asked for ────────────────────────────────────────────────────────────────────────────────────────────────


def test_probabilities_of_tokens_make_gamma(judged):
    """An endpoint that gives logprobs is asked for them, and what the model says of itself does not count."""
    reply = with_logprobs(
        '{"verdict": "CORRECT", "confidence": 99}', '{"verdict": "', "COR", [("COR", 0.7), ("IN", 0.3)]
    )
    (found,), endpoint = judged(in_turn(reply))
    assert (endpoint.requests[0]["logprobs"], endpoint.requests[0]["top_logprobs"]) == (True, 5)
    assert (found.judge.basis, found.judge.confidence, found.judge.raw_confidence) == ("token", 0.7, 0.7)


def test_an_endpoint_without_probabilities_is_asked_without(judged):
    """A refusal of logprobs costs one call, once, and γ is what the model says."""
    script = lambda number, body: fault(400, "logprobs are not supported") if "logprobs" in body else GOOD  # noqa: ARG005, E731
    found, endpoint = judged(script, RECORD, {**RECORD, "question": "How many vans are in Oulu?"})
    assert [True, False, False] == ["logprobs" in body for body in endpoint.requests]
    assert [("said", 0.92)] * 2 == [(one.judge.basis, one.judge.raw_confidence) for one in found]
    assert ["top_logprobs" in body for body in endpoint.requests] == [True, False, False]


def test_a_tool_holds_the_model_to_the_shape(judged):
    """`judge_reply=tool` offers one function, and its arguments are the reply."""
    body = json.loads(says(None).body)
    call = {
        "id": "1",
        "type": "function",
        "function": {"name": "verdict", "arguments": '{"verdict": "CORRECT", "confidence": 80}'},
    }
    body["choices"][0]["message"]["tool_calls"] = [call]
    (found,), endpoint = judged(in_turn(Scripted(body=json.dumps(body))), judge_reply="tool")
    sent = endpoint.requests[0]
    assert "verdict" in sent["tools"][0]["function"]["parameters"]["properties"]
    assert sent["tool_choice"]["function"]["name"] == "verdict"
    assert (found.judge.raw_confidence, found.judge.usage.attempts) == (0.8, 1)


def test_a_model_without_tools_is_asked_in_words(judged):
    """A refused tool is left out together with the choice of it."""
    script = lambda number, body: fault(422, "tools are not supported") if "tools" in body else GOOD  # noqa: ARG005, E731
    (found,), endpoint = judged(script, judge_reply="tool")
    assert [("tools" in body, "tool_choice" in body) for body in endpoint.requests] == [(True, True), (False, False)]
    assert found.outcome is Outcome.SCORED


@pytest.mark.parametrize(("form", "sent"), [("schema", True), ("text", False), ("auto", False)])
def test_the_form_of_the_reply_is_a_setting(judged, form, sent):
    """Of a model that litellm does not know auto asks in words; a setting can say better."""
    _, endpoint = judged(in_turn(GOOD), judge_reply=form)
    assert ("response_format" in endpoint.requests[0]) is sent


def test_a_fallback_model_answers_and_is_named(judged):
    """Litellm asks the next model, and the result says who answered."""
    script = lambda number, body: fault(500) if body["model"] == "stub-judge" else GOOD  # noqa: ARG005, E731
    (found,), endpoint = judged(script, judge_fallbacks="openai/spare-judge")
    assert [body["model"] for body in endpoint.requests] == ["stub-judge", "spare-judge"]
    assert (found.outcome, found.judge.raw_confidence) == (Outcome.SCORED, 0.92)
    assert found.provenance.model == MODEL


def test_model_and_fallbacks_down_is_an_outage(judged):
    """When none of them answers the record gets the offline verdict, marked."""
    (found,), endpoint = judged(in_turn(fault(500)), judge_fallbacks="openai/spare-judge", max_outage=0.2)
    assert (found.judge.kind, found.judge.fallback) == (JudgeKind.OFFLINE, "outage")
    assert len(endpoint.requests) >= 2


def test_several_samples_agree_or_do_not(judged):
    """Three replies without probabilities: the majority's verdict, γ from agreement, and that they differed."""
    (found,), endpoint = judged(in_turn(GOOD, BAD, GOOD), judge_samples=3, judge_temperature=0.7, judge_logprobs="off")
    judge = found.judge
    assert [body["temperature"] for body in endpoint.requests] == [0.7] * 3
    assert (judge.raw_verdict or judge.verdict, judge.samples, judge.basis) == (Verdict.CORRECT, 3, "agreement")
    assert (judge.raw_confidence, judge.flipped) == (0.6, True)
    assert judge.usage.attempts == 3


# ── the cache ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_same_case_is_paid_for_once(judged):
    """White space, keyword case and number spelling make no other case; the moment of asking neither."""
    again = {**RECORD, "sql": "select  count(*)\nfrom vans where city = 'Turku'", "asked_at": "2026-01-05T10:00:00Z"}
    (first, second), endpoint = judged(in_turn(GOOD), RECORD, again)
    assert len(endpoint.requests) == 1
    assert (first.judge.cached, second.judge.cached) == (False, True)
    assert (second.judge.usage, second.phi, second.p_correct) == (None, first.phi, first.p_correct)


@pytest.mark.parametrize(
    "changes",
    [
        {"sql": "SELECT COUNT(*) FROM vans WHERE city = 'Oulu'"},
        {"question": "How many vans are in Oulu?"},
        {"app_rules": {"column_mappings": {"town": "city"}}},
        {"expanded_question": "How many vans are in the city of Turku?"},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_what_the_model_would_see_differently_is_another_case(judged, changes):
    """A changed text or rule is asked about anew."""
    _, endpoint = judged(in_turn(GOOD), RECORD, {**RECORD, **changes})
    assert len(endpoint.requests) == 2


@pytest.mark.parametrize("changes", [{"model": "openai/other"}, {"judge_temperature": 0.5}, {"judge_reply": "schema"}])
def test_another_way_of_asking_is_another_case(judged, tmp_path, changes):
    """Model and parameters are part of the key, and so is the server."""
    judged(in_turn(GOOD))
    _, endpoint = judged(in_turn(GOOD), **changes)
    assert len(endpoint.requests) == 1


def test_a_kept_verdict_can_be_asked_for_again(judged):
    """A recheck counts a flip, and the verdict that was given first stands."""
    (first, second), endpoint = judged(in_turn(GOOD, BAD), RECORD, RECORD, judge_recheck=1.0)
    assert len(endpoint.requests) == 2
    assert (first.judge.flipped, second.judge.flipped) == (None, True)
    assert second.phi == first.phi
    assert second.judge.usage.attempts == 1


def test_a_failure_is_not_kept(judged):
    """An unreadable reply fails its record, and the next one with the same texts is asked about."""
    (first, second), _ = judged(in_turn(says("hm"), says("hm"), GOOD), RECORD, RECORD)
    assert (first.outcome, first.reason) == (Outcome.FAILED, Reason.JUDGE_REPLY_INVALID)
    assert (second.outcome, second.judge.cached) == (Outcome.SCORED, False)


# ── limits and budget ────────────────────────────────────────────────────────────────────────────────────────────────


def test_calls_at_the_same_time_are_bounded(judged):
    """Eight records at once, two calls at once."""
    seen, most = [0], [0]

    def script(number, body):
        seen[0] += 1
        most[0] = max(most[0], seen[0])
        time.sleep(0.1)
        seen[0] -= 1
        return GOOD

    with serve(script) as endpoint:
        settings = resolve(
            {"judge": "llm", "model": MODEL, "api_base": endpoint.url, "judge_concurrency": 2, "judge_cache": 0}
        )

        async def at_once():
            pipeline = build(settings)
            values = [json.dumps({**RECORD, "question": f"How many vans are in town {n}?"}).encode() for n in range(8)]
            await asyncio.gather(
                *(pipeline.evaluate(Message(value=v, topic="t", offset=n)) for n, v in enumerate(values))
            )
            await pipeline.close()

        asyncio.run(at_once())
    assert (len(endpoint.requests), most[0]) == (8, 2)


def test_tokens_a_minute_queue_and_nobody_is_refused():
    """Requests of 1,000 tokens at 6,000 a minute leave every ten seconds after the first burst, in their order."""
    now, slept = [100.0], []

    async def sleep(seconds):
        slept.append(round(seconds, 3))

    async def three():
        gate = Gate(tokens=6_000, clock=Clock(now=lambda: now[0], sleep=sleep))
        for _ in range(3):
            async with gate.turn(2_400) as turn:
                turn.took(Completion(text="", input_tokens=900, output_tokens=100))

    asyncio.run(three())
    assert slept == [4.0, 14.0]


def test_a_spent_budget_gives_offline_verdicts_marked(judged, tmp_path):
    """Past the budget the record is scored offline, and the result says why; nothing is asked."""
    records = [{**RECORD, "question": f"How many vans are in town {n}?"} for n in range(4)]
    price = {"judge_price": "1000/1000", "judge_budget": 0.25}  # 150 tokens a call: 0.15 dollars
    found, endpoint = judged(in_turn(GOOD), *records, **price)
    assert [one.judge.fallback for one in found] == ["", "", "budget", "budget"]
    assert [one.judge.usage and one.judge.usage.cost_usd for one in found] == [0.15, 0.15, None, None]
    assert len(endpoint.requests) == 2
    later, endpoint = judged(in_turn(GOOD), {**RECORD, "question": "And another one?"}, on_outage="failed", **price)
    assert (later[0].outcome, later[0].reason, endpoint.requests) == (Outcome.FAILED, Reason.JUDGE_BUDGET, [])


@pytest.mark.parametrize(
    ("settings", "place"),
    [
        ({"judge_budget": 5.0}, "judge_budget"),
        ({"judge_price": "cheap"}, "judge_price"),
        ({"judge_rate": "2"}, "judge_rate"),
        ({"judge_rate": "v1=much"}, "judge_rate"),
        ({"judge_samples": 3}, "judge_temperature"),
        ({"model": ""}, "model"),
        ({"judge": "cascade", "cascade_low": 0.7, "cascade_high": 0.3}, "cascade_low"),
        ({"judge_budget": 5.0, "judge_price": "1/1", "judge_file": ""}, "judge_file"),
    ],
)
def test_settings_that_do_not_fit_are_named(settings, place):
    """What cannot be kept is said at the start, with what is allowed."""
    with pytest.raises(SettingError, match=rf"{place}.*: found .*; allowed: "):
        build(resolve({"judge": "llm", "model": MODEL, **settings}))


# ── cascade and rates ────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_cascade_asks_only_where_offline_is_unsure(judged):
    """Outside the thresholds the offline verdict stands, and the result says so."""
    (sure,), endpoint = judged(in_turn(GOOD), judge="cascade", cascade_low=0.0, cascade_high=0.001)
    assert (sure.judge.kind, sure.judge.route, endpoint.requests) == (JudgeKind.OFFLINE, Route.SURE, [])
    assert sure.p_correct == sure.p_offline
    (asked,), endpoint = judged(in_turn(GOOD), judge="cascade", cascade_low=0.0, cascade_high=1.0)
    assert (asked.judge.kind, asked.judge.route, len(endpoint.requests)) == (JudgeKind.LLM, None, 1)
    assert asked.scoring_config != sure.scoring_config


def test_a_share_of_the_records_is_drawn_by_content(judged):
    """The same records are drawn in each run, more with a higher rate, and each result says its chance and weight."""
    records = [{**RECORD, "question": f"How many vans are in town {n}?"} for n in range(40)]
    few, _ = judged(in_turn(GOOD), *records, judge_rate="0.25", judge_cache=0)
    many, _ = judged(in_turn(GOOD), *records, judge_rate="0.5", judge_cache=0)
    drawn = [{n for n, one in enumerate(found) if one.judge.route is None} for found in (few, many)]
    assert drawn[0] < drawn[1]
    assert 2 <= len(drawn[0]) <= 20
    assert {(one.judge.route, one.judge.chance, one.judge.weight) for one in few} == {
        (None, 0.25, 4.0),
        (Route.NOT_DRAWN, 0.25, 0.0),
    }


def test_an_agent_version_can_have_a_rate_of_its_own():
    """`0.1, 2.3.0=1`: all of the new version, a tenth of the others."""
    rates = Rates.read("0.1, 2.3.0=1")
    assert [rates.of("2.3.0"), rates.of("2.2.9"), rates.of(None)] == [1.0, 0.1, 0.1]
    assert (str(rates), rates.takes_all, Rates.read("1").takes_all) == ("0.1, 2.3.0=1", False, True)


# ── the tape ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_recorded_exchanges_are_played_back_without_a_model(judged, tmp_path):
    """A run is recorded with its repair, and a replay gives the same verdicts, tokens and seconds with no endpoint."""
    tape = str(tmp_path / "tape.jsonl")
    records = (RECORD, {**RECORD, "question": "How many vans are in Oulu?"})
    first, endpoint = judged(in_turn(says("hm"), GOOD, BAD), *records, judge_record=tape)
    assert len(endpoint.requests) == 3
    second, endpoint = judged(in_turn(fault(500)), *records, judge_replay=tape)
    assert endpoint.requests == []
    for before, after in zip(first, second, strict=True):
        assert replace(after.judge, usage=None) == replace(before.judge, usage=None)
        assert (after.judge.usage.attempts, after.judge.usage.input_tokens) == (
            before.judge.usage.attempts,
            before.judge.usage.input_tokens,
        )


def test_what_was_not_recorded_fails_by_name(judged, tmp_path):
    """A replay makes nothing up: the record fails, and the detail says what to do."""
    tape = tmp_path / "tape.jsonl"
    judged(in_turn(GOOD), judge_record=str(tape))
    (found,), _ = judged(in_turn(GOOD), {**RECORD, "question": "Another one?"}, judge_replay=str(tape))
    assert (found.outcome, found.reason) == (Outcome.FAILED, Reason.JUDGE_UNAVAILABLE)
    assert "record it with a model" in found.detail


@pytest.mark.parametrize("content", ["{}", "[1]", '{"request": "a", "reply": {"text": 1}}', "nonsense"])
def test_a_file_that_is_no_tape_is_refused(tmp_path, content):
    """The error names the file and the line."""
    tape = tmp_path / "tape.jsonl"
    tape.write_text("\n" + content + "\n")
    with pytest.raises(InputError, match=r"tape\.jsonl: line 2"):
        build(resolve({"judge": "llm", "model": MODEL, "judge_replay": str(tape)}))


def test_a_tape_holds_no_nonce(judged, tmp_path):
    """What is recorded today is found tomorrow, under another nonce."""
    tape = tmp_path / "tape.jsonl"
    judged(in_turn(GOOD), judge_record=str(tape))
    (line,) = map(json.loads, Path(tape).read_text().splitlines())
    assert "{nonce}" in line["messages"][1]["content"]
    assert line["reply"]["text"].startswith('{"verdict": "CORRECT"')
