"""The parser of model replies."""

from __future__ import annotations

import contextlib
import json
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stef.errors import JudgeError, JudgeFailure
from stef.judge.reply import ReasonCode, Reply, parse
from stef.result import Verdict

CASES = Path(__file__).parent / "cases" / "reply"


def _cases(name: str) -> list[pytest.param]:  # type: ignore[valid-type]
    rows = [json.loads(line) for line in (CASES / f"{name}.jsonl").read_text(encoding="utf-8").splitlines() if line]
    if not rows:
        raise AssertionError(f"no case in {name}")
    return [pytest.param(row, id=row["id"]) for row in rows]


@pytest.mark.parametrize("row", _cases("readable"))
def test_readable_reply(row: dict) -> None:
    """A reply that answers in any usual wrapping gives its verdict, confidence and reasons."""
    reply = parse(row["reply"])
    assert (row["verdict"], row["confidence"]) == (reply.verdict.value, pytest.approx(reply.confidence, abs=1e-9))
    if "reasons" in row:
        assert row["reasons"] == [[reason.code, reason.detail] for reason in reply.reasons]


@pytest.mark.parametrize("row", _cases("invalid"))
def test_invalid_reply(row: dict) -> None:
    """A reply that leaves the answer open is invalid, and never a number."""
    with pytest.raises(JudgeError) as caught:
        parse(row["reply"])
    assert JudgeFailure.REPLY_INVALID == caught.value.failure
    assert row.get("detail", caught.value.detail) == caught.value.detail


def test_detail_repeats_nothing_of_the_reply() -> None:
    """The failure's detail is ours alone: it goes to logs, and back to the model."""
    with pytest.raises(JudgeError) as caught:
        parse('{"verdict": "SECRET WORDS", "confidence": "SECRET WORDS"}')
    assert "SECRET" not in str(caught.value)


@pytest.mark.parametrize(
    "reply",
    [
        "{" * 200_000,
        '{"a":' * 40_000,
        '{"a":1,}' * 25_000,
        '{"a":' + "[" * 190_000,
        "\n" * 200_000,
        "verdict:\n" * 20_000,
        "Verdict:" + " " * 190_000,
        "<think>" * 28_000,
        "<judged-1>" * 19_000,
        "```\n" * 50_000,
        '"' * 200_000,
        "Verdict: Correct\n" + "Confidence: x\n" * 14_000,
        "x" * 5_000_000,
    ],
    ids=range(13),
)
def test_hostile_reply_is_refused_quickly(reply: str) -> None:
    """No reply costs more than a moment, however it is nested or repeated."""
    began = time.process_time()
    with pytest.raises(JudgeError):
        parse(reply)
    assert time.process_time() - began < 3


@given(st.text(max_size=400))
def test_any_text_is_a_reply_or_invalid(text: str) -> None:
    """Whatever a model writes, the parser answers with a reply or with `judge_reply_invalid`."""
    with contextlib.suppress(JudgeError):
        assert 0 <= parse(text).confidence <= 1


@given(
    verdict=st.sampled_from(Verdict),
    confidence=st.integers(0, 100),
    explanation=st.text(max_size=900),
    codes=st.lists(st.sampled_from(ReasonCode), max_size=8),
)
def test_what_was_asked_for_is_read_back(
    verdict: Verdict, confidence: int, explanation: str, codes: list[ReasonCode]
) -> None:
    """A reply in the prompt's own schema is read as it was meant, whatever its explanation says."""
    text = json.dumps({"verdict": verdict, "confidence": confidence, "reasons": codes, "explanation": explanation})
    reply = parse(text)
    assert (verdict, [code.value for code in codes]) == (
        reply.verdict,
        [reason.code for reason in reply.reasons][: len(codes)],
    )
    # 1 is certainty: nobody gives a verdict of which he is sure to one percent.
    assert (1.0 if confidence == 1 else confidence / 100) == pytest.approx(reply.confidence)
    assert all(len(reason.detail) <= 500 for reason in reply.reasons)


@pytest.mark.parametrize("draft", Verdict)
@pytest.mark.parametrize("final", Verdict)
def test_the_last_verdict_wins(draft: Verdict, final: Verdict) -> None:
    """Of two whole answers the later one counts, in whatever form each is written."""
    as_json = '{{"verdict": "{0}", "confidence": {1}}}'
    as_lines = "Verdict: {0}\nConfidence: {1}"
    for first in (as_json, as_lines):
        for second in (as_json, as_lines):
            text = first.format(draft.value, 55) + "\n\nNo.\n" + second.format(final.value, 77)
            assert Reply(verdict=final, confidence=0.77) == parse(text)


@pytest.mark.parametrize("padding", ["a", " ", "verdict ", "verdict\n", "* ", "\t"])
def test_a_long_reply_takes_time_in_proportion(padding: str) -> None:
    """However a reply is padded, the longest one is read in a moment."""
    padded = (padding * 150_000)[:150_000]
    for reply in (
        json.dumps({"verdict": "CORRECT", "confidence": 90, "explanation": padded}),
        '{"verdict": "CORRECT", "confidence": 90}\n' + padded + "x",
    ):
        began = time.process_time()
        with contextlib.suppress(JudgeError):
            parse(reply)
        assert time.process_time() - began < 2
