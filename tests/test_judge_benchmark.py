"""What `benchmarks/judge.py` asks a model, and the figures that it reports."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest
from judge import drawn, reason_first, yes
from judge_report import Sample, cascade, report, said, together

from stef.judge.llm import load_prompt
from stef.prompts import Order

PROMPTS = Path(__file__).parents[1] / "prompts"


def _items(questions: int, answers: str) -> list[dict]:
    """Answers to each question, right (1) or wrong (0)."""
    return [
        {"id": f"{question}-{place}", "source": "made", "question": f"question {question}", "label": int(label)}
        for question in range(questions)
        for place, label in enumerate(answers)
    ]


def test_a_smaller_sample_begins_a_larger_one():
    """Asking about more records later repeats none and leaves none out."""
    items = _items(20, "110001")
    assert drawn(items, 15, seed=3) == drawn(items, 40, seed=3)[:15]


def test_a_sample_holds_right_and_wrong_answers_of_each_question():
    """Whole questions are drawn, two right and two wrong answers of each; a question with one kind only is left out."""
    items = [*_items(5, "11100"), {"id": "x", "source": "made", "question": "all right", "label": 1}]
    found = drawn(items, 100, seed=1)
    assert 20 == len(found)
    assert 10 == sum(item["label"] for item in found)
    assert "x" not in {item["id"] for item in found}


def test_the_explanation_comes_first_in_schema_and_example():
    """The prompt that asks for reasons first shows and demands them first, and is told apart by its digest."""
    shipped = load_prompt(PROMPTS, "judge")
    prompt = reason_first(shipped)
    assert Order.REASONS_FIRST is prompt.order
    assert "explanation" == next(iter(prompt.reply["properties"]))
    assert list(prompt.reply["properties"]) == prompt.reply["required"]
    example = json.loads("".join(part.text for part in prompt.system).strip().splitlines()[-1])
    assert list(prompt.reply["properties"]) == list(example)
    assert shipped.digest != prompt.digest


def test_yes_is_a_share_of_yes_and_no():
    """Other words at the first place count for neither side; without both there is no probability."""
    first = [SimpleNamespace(token=" Yes", logprob=-1.0), SimpleNamespace(token="no", logprob=-1.0)]
    assert (pytest.approx(0.5), pytest.approx(0.735759)) == yes([*first, SimpleNamespace(token="The", logprob=-0.1)])
    assert (None, 0.0) == yes([SimpleNamespace(token="The", logprob=-0.1)])


def test_a_verdict_in_words_becomes_a_probability():
    """Confidence in a verdict that denies counts against the statement."""
    assert 0.8 == said({"verdict": "LIKELY_CORRECT", "said": 0.8})
    assert pytest.approx(0.2) == said({"verdict": "INCORRECT", "said": 0.8})


SAMPLE = Sample({"a": 1, "b": 0, "c": 1, "d": 0}, (("a", "b"), ("c", "d")))


def test_pairs_are_within_a_question():
    """Pairwise looks at one question at a time, auroc at all records; a tie is half a win."""
    scores = {"a": 0.9, "b": 0.8, "c": 0.3, "d": 0.3}
    assert 0.75 == SAMPLE.pairwise(scores, SAMPLE.questions)
    assert 0.625 == SAMPLE.auroc(scores, SAMPLE.questions)
    assert 2 == SAMPLE.pairs(scores)


def test_a_difference_takes_records_that_have_both_scores():
    """What one side could not judge counts for neither."""
    assert SAMPLE.difference({"a": 0.9, "b": 0.1, "c": 0.5}, {"a": 0.1, "b": 0.9}).startswith("2 | 1 | 1.000 ")


def test_a_cascade_keeps_offline_where_it_is_sure():
    """Only what lies between the thresholds takes the other score, and the share says how many that are."""
    scores, share = cascade({"a": 0.9, "b": 0.5, "c": 0.1}, {"a": 0.0, "b": 0.7, "c": 1.0}, 0.25, 0.65)
    assert {"a": 0.9, "b": 0.7, "c": 0.1} == scores
    assert pytest.approx(1 / 3) == share


def test_a_model_that_knows_nothing_moves_nothing():
    """The same word on every record leaves the offline order as it is; a word that is always right changes it."""
    items = _items(10, "10")
    sample = Sample({i["id"]: i["label"] for i in items}, [(f"{q}-0", f"{q}-1") for q in range(10)])
    offline = dict.fromkeys(sample.labels, 0.6)
    dull = together(sample, offline, dict.fromkeys(sample.labels, 0.8))
    assert offline == pytest.approx(dull)
    knowing = together(sample, offline, {name: 0.9 if label else 0.1 for name, label in sample.labels.items()})
    assert 1.0 == sample.auroc(knowing, sample.questions)


def test_a_report_counts_replies_without_a_verdict(capsys):
    """What failed stands in the table of the calls, under its reason, and has no score."""
    items = _items(6, "10")
    rows = [
        {"id": item["id"], "arm": "verdict_first", "verdict": "CORRECT", "said": 0.7, "p": 0.5 + item["label"] / 10}
        | {"seconds": 2.0, "input_tokens": 900, "output_tokens": 30, "attempts": 1}
        for item in items[:-1]
    ] + [{"id": items[-1]["id"], "arm": "verdict_first", "failure": "judge_reply_invalid", "detail": "empty"}]
    report(items, rows, dict.fromkeys((item["id"] for item in items), 0.5), is_unseen=True)
    shown = capsys.readouterr().out
    assert "| verdict_first | 12 | 1 judge_reply_invalid | 0 | 11 | 2 | 900 | 30 |" in shown
    assert "| verdict_first | 11 | 5 | 1.000 [1.000, 1.000] | 1.000 [1.000, 1.000] |" in shown
