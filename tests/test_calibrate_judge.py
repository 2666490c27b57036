"""What a model's word is worth: gathered from labels and results, fitted, written, and used."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from stef import calibrationfile
from stef.calibrate import gather_judged, study_judged
from stef.calibrate.judged import fit_judged
from stef.calibration import AS_SAID, Combination, log_odds, probability
from stef.cli import main
from stef.errors import CalibrationError, LabelsError
from stef.judge.llm import load_prompt
from stef.label import Given
from stef.result import JudgeKind, Judgement, Verdict
from stef.store import Entry, Store
from tests.openai_server import MODEL, in_turn, says, serve
from tests.streaming import evaluation

NOW = datetime(2026, 3, 1, tzinfo=UTC)
PROMPT = "judge@0123"


def result(key, p, judgement, *, question="?", model=MODEL, prompt=PROMPT):
    """A scored result with a model's verdict."""
    plain = evaluation(key)
    made = replace(plain.provenance, model=model, prompt=prompt)
    return replace(
        plain,
        p_offline=p,
        p_raw=p,
        p_correct=p,
        judge=judgement,
        question=question,
        provenance=made,
        content_digest="d",
    )


def said(verdict, confidence, basis="said", **more):
    """What a model says."""
    return Judgement(
        kind=JudgeKind.LLM, verdict=verdict, confidence=confidence, raw_confidence=confidence, basis=basis, **more
    )


def drawn(records, seed=1):
    """Results and labels of a model that is right in 70 of 100 and says 0.95 each time; offline is honest."""
    dice = random.Random(seed)  # noqa: S311 - no secret
    found = []
    for number in range(records):
        p = dice.uniform(0.1, 0.9)
        right = dice.random() < p
        verdict = Verdict.CORRECT if right == (dice.random() < 0.7) else Verdict.INCORRECT
        found.append((result(f"e{number}", p, said(verdict, 0.95), question=f"q{number // 2}"), right))
    return found


@pytest.fixture
def stored(tmp_path, monkeypatch):
    """Puts results and labels into the store of the working folder, and runs commands there."""
    monkeypatch.chdir(tmp_path)

    def put(found):
        with Store.open("stef.db") as store:
            store.write([Entry(namespace="n", evaluations=tuple(one for one, _ in found))])
            store.labels.add([Given(event=one.event_key, right=right, source="a", at=NOW) for one, right in found], NOW)
        return lambda *arguments: CliRunner().invoke(main, list(map(str, arguments)), catch_exceptions=False)

    return put


def gathered(found, model=""):
    """Samples of results and labels."""
    labels = []
    with Store.open(":memory:") as store:
        store.write([Entry(namespace="n", evaluations=tuple(one for one, _ in found))])
        store.labels.add([Given(event=one.event_key, right=right, source="a", at=NOW) for one, right in found], NOW)
        labels = list(store.labels.all())
        return gather_judged(labels, list(store.labels.results()), model)


def test_a_boast_is_brought_down_to_what_it_is_worth():
    """A model that says 0.95 and is right in 70 of 100 gets a γ of 0.7, on questions that the map has not seen too."""
    study = study_judged(gathered(drawn(1200)), 50)
    assert study.calibration.confidence("said", 0.95) == pytest.approx(0.7, abs=0.04)
    assert study.confidence_after.ece < 0.05
    assert study.confidence_before.ece > 0.2
    assert study.helps


def test_the_combination_trusts_each_side_as_far_as_it_holds():
    """Offline is honest and the model worth 0.7: both count in full, as independent evidence does."""
    study = study_judged(gathered(drawn(3000)), 50)
    both = study.calibration.combination
    assert (both.offline, both.model) == (pytest.approx(1.0, abs=0.2), pytest.approx(1.0, abs=0.25))
    assert study.p_after.log_loss < study.p_before.log_loss


def test_a_model_that_guesses_counts_for_nothing():
    """Verdicts that have nothing to do with the labels get a weight near 0."""
    dice = random.Random(3)  # noqa: S311 - no secret
    found = [
        (replace(one, judge=said(dice.choice([Verdict.CORRECT, Verdict.INCORRECT]), 0.9)), right)
        for one, right in drawn(1500)
    ]
    fitted = fit_judged(gathered(found).samples)
    assert abs(fitted.combination.model * log_odds(fitted.confidence("said", 0.9))) < 0.2
    assert fitted.combination.offline > 0.7


def test_few_labels_leave_the_mean():
    """Two labels move nothing far, and a basis with few labels has no map."""
    fitted = fit_judged(gathered(drawn(6)).samples)
    assert fitted.confidences == {}
    assert abs(fitted.combination.offline - 0.5) < 0.5


def test_without_a_fit_the_mean_of_the_log_odds_counts():
    """The default combination is what it was before anything was fitted."""
    expected = round(probability((log_odds(0.8) + log_odds(0.6)) / 2), 4)
    assert Combination().apply(0.8, 0.6) == expected
    assert AS_SAID.confidence("said", 0.8) == 0.8


def test_only_verdicts_of_the_model_count():
    """Offline verdicts, fallbacks and those of another model or prompt are left out; the latter are counted."""
    offline = Judgement(kind=JudgeKind.OFFLINE, verdict=Verdict.CORRECT, confidence=0.9)
    found = [
        (result("a", 0.5, said(Verdict.CORRECT, 0.9)), True),
        (result("b", 0.5, said(Verdict.CORRECT, 0.9)), False),
        (result("c", 0.5, offline), True),
        (result("d", 0.5, replace(offline, fallback="outage")), True),
        (result("e", 0.5, said(Verdict.CORRECT, 0.9), model="openai/other"), True),
        (result("f", 0.5, said(Verdict.CORRECT, 0.9), prompt="judge@9999"), True),
    ]
    samples = gathered(found)
    assert (len(samples.samples), samples.others, samples.asked.model) == (2, 2, MODEL)
    assert [0.9] == [one.given for one in gathered(found, "openai/other").samples]


def test_a_cap_hides_the_verdict_and_not_the_models_word():
    """γ is fitted to the verdict that the model gave, p_correct to what the caps left of it."""
    capped = said(Verdict.POTENTIALLY_INCORRECT, 0.9, raw_verdict=Verdict.CORRECT, cap="filter_fault")
    capped = replace(capped, raw_confidence=0.7)
    (sample,) = gathered([(result("a", 0.5, capped), True)]).samples
    assert (sample.affirms, sample.given, sample.said(AS_SAID)) == (True, 0.7, pytest.approx(0.1))


@pytest.mark.parametrize(
    ("found", "says"),
    [
        ([], "found 0 labelled records that a model judged"),
        (drawn(20), "allowed: 50 or more"),
        ([(one, True) for one, _ in drawn(60)], "all of them right"),
        ([(replace(one, question="q"), right) for one, right in drawn(60)], "labels of one question"),
    ],
)
def test_what_nothing_can_be_learned_from_is_named(found, says):
    """Too few, all alike, all of one question: the error says what is needed."""
    with pytest.raises(LabelsError, match=says):
        study_judged(gathered(found), 50)


def test_the_command_writes_what_the_judge_then_uses(stored, tmp_path):
    """The command shows figures and writes a file; with it γ and p_correct change, and the result says so."""
    digest = load_prompt(Path("nowhere"), "judge").digest
    found = [
        (replace(one, provenance=replace(one.provenance, prompt=f"judge@{digest}")), right) for one, right in drawn(400)
    ]
    stef = stored(found)
    done = stef("calibrate", "judge", "--out", "mine.yaml")
    assert done.exit_code == 0, done.output
    for part in (
        "400 labelled records of 200 questions",
        f"judged by {MODEL}",
        "γ after, on held-out questions",
        "said",
    ):
        assert part in done.stdout
    written = yaml.safe_load((tmp_path / "mine.yaml").read_text(encoding="utf-8"))
    assert written["confidence_after"]["ece"] < written["confidence_before"]["ece"]
    assert json.loads(stef("calibrate", "judge", "--json").stdout)["digest"] == written["digest"]

    reply = says('{"verdict": "CORRECT", "confidence": 95}')
    with serve(in_turn(reply)) as endpoint:
        asking = (
            "score",
            "log.jsonl",
            "--json",
            "--catalogue",
            "none",
            "--judge",
            "llm",
            "--model",
            MODEL,
            "--api-base",
            endpoint.url,
        )
        (tmp_path / "log.jsonl").write_text('{"question": "How many vans?", "sql": "SELECT COUNT(*) FROM vans"}\n')
        plain, mapped = (json.loads(stef(*asking, *more).stdout) for more in ((), ("--judge-calibration", "mine.yaml")))
    assert (plain["judge"]["confidence"], plain["judge"]["raw_confidence"]) == (0.95, 0.95)
    assert (mapped["judge"]["confidence"], mapped["judge"]["raw_confidence"]) == (pytest.approx(0.7, abs=0.06), 0.95)
    assert mapped["p_correct"] != plain["p_correct"]
    assert mapped["provenance"]["judge_calibration"] == f"mine@{written['digest']}"
    assert mapped["scoring_config"] != plain["scoring_config"]


@pytest.mark.parametrize(
    ("changes", "place"),
    [
        ({"model": "openai/other"}, "model"),
        ({"prompt": "9999"}, "prompt"),
        ({"combination": {"offline": 1.0, "model": 1.0, "intercept": 0.0}}, "digest"),
        ({"surprise": 1}, "surprise"),
    ],
)
def test_a_file_of_something_else_is_refused(stored, tmp_path, changes, place):
    """Another model, another prompt, a change by hand, an unknown key: each is named with what is allowed."""
    stored(drawn(400))("calibrate", "judge", "--out", "mine.yaml")
    content = yaml.safe_load((tmp_path / "mine.yaml").read_text(encoding="utf-8")) | changes
    if place in {"model", "prompt"}:
        file = calibrationfile.JudgeCalibrationFile.model_validate(content)
        content["digest"] = calibrationfile.judge_digest(file)
    (tmp_path / "changed.yaml").write_text(yaml.safe_dump(content), encoding="utf-8")
    with pytest.raises(CalibrationError, match=rf"changed\.yaml: {place}: found .*; allowed: "):
        calibrationfile.load_judge("changed.yaml", MODEL, "0123")
    assert calibrationfile.load_judge("mine.yaml", MODEL, "0123").name == "mine"
    assert calibrationfile.load_judge("", MODEL, "0123") is AS_SAID
