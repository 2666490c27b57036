"""The caps on verdicts: a case is a line in `tests/cases/caps/<fact>.jsonl`."""

from __future__ import annotations

import pytest

from stef.judge.caps import CAPS, SURE
from stef.result import JudgeKind, Judgement, Verdict
from tests.records import CASES, OFFLINE, judged, load, verdict


def said(name, confidence):
    """What some model says."""
    return Judgement(kind=JudgeKind.LLM, verdict=Verdict(name), confidence=confidence)


@pytest.mark.parametrize("case", load("caps"))
def test_a_verdict_is_capped_as_its_case_says(case):
    """The facts limit the verdict, whoever gives it; the verdict as given stays on the result."""
    record = judged(case)
    got = verdict(record, said(*case["given"]))
    expected = case["verdict"] or OFFLINE.verdict(record).verdict.value
    assert (expected, case["cap"]) == (got.verdict.value, got.cap)
    assert (Verdict(case["given"][0]) if case["cap"] else None) == got.raw_verdict


@pytest.mark.parametrize("case", [one for one in load("caps") if "confidence" in one.values[0]])
def test_gamma_of_a_capped_verdict_is_the_probability_that_it_is_right(case):
    """A fact that turns right into wrong brings its certainty; one that leaves "probably right" makes nothing surer."""
    assert case["confidence"] == verdict(judged(case), said(*case["given"])).confidence


@pytest.mark.parametrize("case", [one for one in load("caps") if one.values[0]["cap"] == "filter_fault"])
def test_gamma_is_the_certainty_of_the_fact_where_it_turns_right_into_wrong(case):
    """The judge's own confidence was in another verdict and does not count."""
    faults = [item.certainty for item in judged(case).alignment.filters if item.required and item.match != "matched"]
    assert max(faults) == verdict(judged(case), said(*case["given"])).confidence
    assert max(faults) >= SURE


def test_injection_leaves_the_confidence_of_the_offline_judge():
    """A judge that may have been talked to gives neither verdict nor confidence."""
    case = next(one.values[0] for one in load("caps") if one.values[0]["id"] == "offline-decides")
    offline = OFFLINE.verdict(judged(case))
    got = verdict(judged(case), said("CORRECT", 1.0))
    assert (offline.verdict, offline.confidence) == (got.verdict, got.confidence)


def test_each_cap_has_a_case_file():
    """A cap without cases is not tested."""
    assert {cap.fact for cap in CAPS} == {path.stem for path in (CASES / "caps").glob("*.jsonl")}


@pytest.mark.parametrize("case", load("caps"))
@pytest.mark.parametrize("given", list(Verdict))
def test_a_cap_never_raises_a_verdict(case, given):
    """What a judge holds for wrong stays at least as wrong."""
    assert verdict(judged(case), said(given.value, 0.9)).verdict.rank >= given.rank


@pytest.mark.parametrize("case", load("caps"))
def test_the_offline_judge_keeps_to_its_own_thresholds(case):
    """The verdict is the best one whose threshold the probability reaches; γ is that of the side it takes."""
    record = judged(case)
    p, got = record.evidence.p_offline, OFFLINE.verdict(record)
    thresholds = OFFLINE.weights.thresholds
    assert max((name for name in thresholds if p >= thresholds[name]), key=thresholds.__getitem__) == got.verdict.value
    right = got.verdict in {Verdict.CORRECT, Verdict.LIKELY_CORRECT}
    assert round(p if right else 1 - p, 4) == got.confidence
