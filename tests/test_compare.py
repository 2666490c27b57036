"""Comparisons: figures by hand, intervals that hold, and nothing mixed that does not belong together."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stef.compare import Answer, Row, compare, from_evaluation, from_lines, question_key
from stef.compare.difference import LEAST_QUESTIONS, answer, interval
from stef.compare.figures import quantile
from stef.errors import InputError, SettingError
from stef.provenance import Provenance
from stef.result import (
    Band,
    Evaluation,
    JudgeKind,
    Judgement,
    JudgeReason,
    Outcome,
    Reason,
    Verdict,
    to_json,
)

NOW = datetime(2026, 3, 2, 9, 30, tzinfo=UTC)
REACHABLE = [0, 30, 50, 64, 80, 100]


def cases(rule):
    """Cases of a file; a file without any is an error."""
    path = Path(__file__).parent / "cases" / "compare" / f"{rule}.jsonl"
    found = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line]
    assert found, f"no case in {path}"
    return [pytest.param(case, id=case["id"]) for case in found]


def band(phi):
    """The band of Φ."""
    return Band.EXCELLENT if phi >= 90 else Band.GOOD if phi >= 75 else Band.MARGINAL if phi >= 50 else Band.POOR


def row(number=0, phi=100, *, version="1", question=None, config="c1", **more):
    """A scored row."""
    question = f"question {number}" if question is None else question
    values = {
        "event_key": f"{version}-{number}",
        "outcome": Outcome.SCORED,
        "scoring_config": config,
        "received_at": NOW,
        "agent_version": version,
        "phi": phi,
        "band": band(phi),
        "p_correct": phi / 100,
        "question": question,
        "question_key": question_key(question),
    }
    return Row(**(values | more))


def unscored(number, outcome, reason, **more):
    """A row that has no score."""
    return (
        row(number, phi=0, **more)
        if outcome is Outcome.SCORED
        else replace(row(number, **more), outcome=outcome, reason=reason, phi=None, band=None, p_correct=None)
    )


def evaluation(**more):
    """A scored result."""
    values = {
        "event_key": "k1",
        "outcome": Outcome.SCORED,
        "scoring_config": "c1",
        "provenance": Provenance(
            stef="0", semantics=1, score_profile="stef-1", sqlglot="30", weights="w", dialect="mysql"
        ),
        "received_at": NOW,
        "event_id": "e1",
        "agent_version": "1.0",
        "phi": 40,
        "band": Band.POOR,
        "p_offline": 0.2,
        "p_correct": 0.25,
        "question": "How many?",
        "judge": Judgement(
            kind=JudgeKind.LLM,
            verdict=Verdict.INCORRECT,
            confidence=0.9,
            reasons=(JudgeReason(code="missing_filter", detail="The year is not used."),),
            fallback="outage",
            model="m",
        ),
    }
    return Evaluation(**(values | more))


def noisy(version, mean, count, seed):
    """Rows whose Φ is 100 with a probability that gives the mean, else 0."""
    rng = random.Random(seed)  # noqa: S311 - repeatable, not secret
    return [
        row(i, 100 if rng.random() < mean / 100 else 0, version=version, question=f"{version} {i}")
        for i in range(count)
    ]


@pytest.mark.parametrize("case", cases("quantiles"))
def test_quantile_is_a_value_that_occurs(case):
    """P10, P50 and P90 are the smallest values that so many do not exceed."""
    expected = [case["p10"], case["p50"], case["p90"]]
    assert expected == [quantile(sorted(case["values"]), percent) for percent in (10, 50, 90)]


@given(st.lists(st.sampled_from(REACHABLE), min_size=1), st.integers(1, 100))
def test_quantile_holds_its_definition(values, percent):
    """At least the wanted share lies at or below the quantile, and less than it below."""
    found = quantile(sorted(values), percent)
    assert 100 * sum(value <= found for value in values) >= percent * len(values)
    assert 100 * sum(value < found for value in values) < percent * len(values)


@pytest.mark.parametrize("case", cases("rates"))
def test_rates_count_what_should_have_had_a_score(case):
    """Coverage, refusal rate and broken rate divide by what should have had a score."""
    rows = [row(i) for i in range(case["scored"])]
    rows += [unscored(f"f{i}", Outcome.FAILED, Reason.TIMEOUT) for i in range(case["failed"])]
    for reason, count in case["skipped"].items():
        rows += [unscored(f"{reason}{i}", Outcome.SKIPPED, Reason(reason)) for i in range(count)]
    (group,) = compare(rows).groups
    assert case["coverage"] == pytest.approx(group.coverage) if group.coverage is not None else case["coverage"] is None
    assert case["refusal_rate"] == group.refusal_rate
    assert case["broken_rate"] == group.broken_rate
    assert (case["scored"], case["failed"]) == (group.scored, group.failed)
    assert len(rows) == group.n


def test_figures_by_hand():
    """Mean, bands, mean p and fallback share are over the scored records only."""
    rows = [
        row(1, 100),
        row(2, 80),
        row(3, 50, fallback="outage"),
        row(4, 30),
        unscored(5, Outcome.SKIPPED, Reason.BROKEN),
    ]
    (group,) = compare(rows).groups
    assert 65.0 == group.mean
    assert {"Excellent": 0.25, "Good": 0.25, "Marginal": 0.25, "Poor": 0.25} == group.bands
    assert 0.65 == group.mean_p_correct
    assert 0.25 == group.fallback_share
    assert {"broken": 1} == group.reasons


def test_a_group_without_scores_has_no_mean():
    """Nothing scored gives no mean, no quantile and no band, and never a zero."""
    (group,) = compare([unscored(1, Outcome.SKIPPED, Reason.NO_SQL)]).groups
    assert (None, None, {}, None, None) == (
        group.mean,
        group.p90,
        group.bands,
        group.mean_p_correct,
        group.fallback_share,
    )


def test_no_rows_give_no_groups():
    """An empty input is an empty comparison."""
    result = compare([])
    assert ((), (), None) == (result.groups, result.differences, result.baseline)


@pytest.mark.parametrize("case", cases("answers"))
def test_answer_in_words(case):
    """The interval and the margin decide the answer."""
    assert case["answer"] == answer(case["low"], case["high"])


def test_interval_covers_a_planted_difference():
    """Of many pairs with a known difference, about nineteen in twenty intervals hold it."""
    held = 0
    for seed in range(100):
        clusters = [(r.phi, 1, 0, 0) for r in noisy("a", 60, 150, seed)]
        clusters += [(0, 0, r.phi, 1) for r in noisy("b", 80, 150, seed + 1000)]
        low, high = interval(clusters, seed=1)
        held += low <= 20 <= high
    assert 88 <= held <= 100


def test_interval_is_deterministic():
    """Same rows and seed give the same interval, in whatever order the rows come."""
    rows = noisy("1", 60, 80, 1) + noisy("2", 75, 80, 2)
    once, again = compare(rows), compare(list(reversed(rows)))
    assert once.differences[0].low == again.differences[0].low
    assert once.differences[0].high == again.differences[0].high
    assert once.differences[0].low != compare(rows, seed=2).differences[0].low


def test_interval_resamples_whole_questions():
    """Ten copies of each record say no more than one: the interval does not shrink."""
    rows = noisy("1", 60, 60, 1) + noisy("2", 75, 60, 2)
    copies = [replace(r, event_key=f"{r.event_key}/{i}") for r in rows for i in range(10)]
    one, ten = compare(rows).differences[0], compare(copies).differences[0]
    assert one.high - one.low == pytest.approx(ten.high - ten.low, rel=0.05)


def test_shared_questions_are_paired():
    """When both groups answer the same questions, a steady gain is seen through the noise between questions."""
    before = [row(i, 0 if i % 2 else 90, version="1", question=f"q{i}") for i in range(60)]
    after = [row(i, 10 if i % 2 else 100, version="2", question=f"q{i}") for i in range(60)]
    (difference,) = compare(before + after).differences
    assert (10.0, 60) == (difference.mean, difference.shared_questions)
    assert (pytest.approx(10.0), pytest.approx(10.0)) == (difference.low, difference.high)


@pytest.mark.parametrize("count", [1, LEAST_QUESTIONS - 1])
def test_few_questions_decide_nothing(count):
    """Too few questions give no interval and the answer `undecided`, however large the difference."""
    rows = [row(i, 0, version="1") for i in range(count)] + [row(i, 100, version="2") for i in range(300)]
    (difference,) = compare(rows).differences
    assert (None, None, Answer.UNDECIDED) == (difference.low, difference.high, difference.answer)
    assert 100.0 == difference.mean


def test_better_worse_and_same_are_told_apart():
    """Known differences get their answer."""
    rows = noisy("1", 60, 400, 1) + noisy("2", 90, 400, 2) + noisy("3", 30, 400, 3)
    rows += [
        replace(r, agent_version="4", event_key=f"4{r.event_key}", question_key=r.question_key) for r in rows[:400]
    ]
    answers = {difference.label: difference.answer for difference in compare(rows).differences}
    assert {"2": Answer.BETTER, "3": Answer.WORSE, "4": Answer.SAME} == answers


def test_coverage_stands_beside_the_difference():
    """An agent that emits garbage looks no better for it: the coverage it lost is shown."""
    rows = [row(i, 80, version="1") for i in range(40)] + [row(i, 100, version="2") for i in range(30)]
    rows += [unscored(f"b{i}", Outcome.SKIPPED, Reason.BROKEN, version="2") for i in range(10)]
    (difference,) = compare(rows).differences
    assert -0.25 == difference.coverage


def test_groups_come_in_natural_order():
    """Version 10 comes after version 9, a missing version last, and the first one is the baseline."""
    rows = [row(i, version=version) for i, version in enumerate(["10.0", None, "9.1", "9.0-rc1"])]
    result = compare(rows)
    assert ["9.0-rc1", "9.1", "10.0", "(none)"] == [group.label for group in result.groups]
    assert ("9.0-rc1",) == result.baseline


def test_groups_by_several_fields():
    """Groups can be formed by several fields, and by the day."""
    rows = [
        row(1, app="a"),
        row(2, app="b"),
        row(3, app="a", version="2"),
        row(4, received_at=NOW + timedelta(days=1), app="a"),
    ]
    assert ["1 / a", "1 / b", "2 / a"] == [group.label for group in compare(rows, by=("agent_version", "app")).groups]
    assert ["2026-03-02", "2026-03-03"] == [group.label for group in compare(rows, by=("day",)).groups]


def test_baseline_is_named_by_its_label():
    """The baseline can be chosen, and an unknown one is refused with the known ones."""
    rows = [row(1, version="1"), row(2, version="2")]
    assert ["1"] == [difference.label for difference in compare(rows, baseline="2").differences]
    with pytest.raises(SettingError, match="3; allowed: 1, 2"):
        compare(rows, baseline="3")


def test_unknown_field_is_refused_with_the_nearest():
    """A misspelt field is an error that names the right one."""
    with pytest.raises(SettingError, match=r"agent_version \(did you mean"):
        compare([], by=("agent_versoin",))


def test_scoring_configs_are_not_mixed():
    """Only the newest configuration's results are compared; what was left out is said."""
    rows = [row(1, 10, config="old"), row(2, 20, config="old", version="2")]
    rows += [row(1, 90, config="new", received_at=NOW + timedelta(hours=1))]
    result = compare(rows)
    assert (("new",), [90.0]) == (result.scoring_configs, [group.mean for group in result.groups])
    assert [("old", 2, ("1", "2"))] == [(left.scoring_config, left.n, left.groups) for left in result.left_out]


def test_later_written_results_are_the_newest():
    """After rescoring the same messages, the results that were written last count."""
    rows = [row(i, 10, config="old") for i in range(3)] + [row(i, 90, config="new") for i in range(3)]
    assert ("new",) == compare(rows).scoring_configs
    stored = [replace(r, stored_at=NOW + timedelta(days=1 if r.scoring_config == "old" else 0)) for r in rows]
    assert ("old",) == compare(stored).scoring_configs


def test_each_application_has_its_newest_configuration():
    """Applications have rules of their own, so the newest configuration is chosen for each of them."""
    rows = [row(1, 10, config="a1", app="a"), row(2, 50, config="a2", app="a"), row(3, 90, config="b1", app="b")]
    result = compare(rows)
    assert (70.0, ("a2", "b1"), False) == (result.groups[0].mean, result.scoring_configs, result.mixed)
    assert [("a1", 1)] == [(left.scoring_config, left.n) for left in result.left_out]


def test_mixing_and_choosing_must_be_asked_for():
    """All configurations together, or a named one, on request only."""
    rows = [row(1, 10, config="old"), row(2, 90, config="new")]
    assert [50.0] == [group.mean for group in compare(rows, mix=True).groups]
    assert [10.0] == [group.mean for group in compare(rows, scoring_config="old").groups]
    with pytest.raises(SettingError, match="other; allowed: new, old"):
        compare(rows, scoring_config="other")


def test_repeated_deliveries_count_once():
    """A result that a sink delivered twice counts once; a failed record that was scored later counts as scored."""
    failed = unscored(1, Outcome.FAILED, Reason.TIMEOUT)
    result = compare([row(0, 50), row(0, 50), failed, row(1, 70), failed])
    assert (2, 60.0, 3) == (result.groups[0].n, result.groups[0].mean, result.repeated)


def test_same_key_with_other_content_is_kept():
    """Two records that share an id are both counted."""
    rows = [row(0, 50, content_digest="a"), row(0, 100, content_digest="b")]
    assert 2 == compare(rows).groups[0].n


def test_worst_records_first():
    """Lowest Φ first, then lowest p_correct, with the reason."""
    rows = [
        row(1, 100),
        row(2, 0, p_correct=0.3),
        row(3, 0, p_correct=0.1, first_reason="missing_filter: year"),
        row(4, 50),
    ]
    worst = compare(rows, worst=3).groups[0].worst
    assert ["1-3", "1-2", "1-4"] == [record.event_key for record in worst]
    assert "missing_filter: year" == worst[0].first_reason


def test_worsened_questions_are_named():
    """Questions that both groups answered are listed by what they lost."""
    before = [row(i, 100, version="1", question=f"q{i}") for i in range(3)]
    after = [row(i, phi, version="2", question=f"Q{i} ") for i, phi in enumerate([100, 30, 64])]
    (difference,) = compare(before + after, worst=2).differences
    found = [(item.question, item.baseline_phi, item.phi, item.event_key) for item in difference.worsened]
    assert [("Q1 ", 100.0, 30.0, "2-1"), ("Q2 ", 100.0, 64.0, "2-2")] == found


def test_the_worst_record_of_a_worsened_question_is_named():
    """Of several records of one question the one with the lowest Φ is the one to open."""
    rows = [row(1, 100, question="q"), row(2, 80, version="2", question="q"), row(3, 30, version="2", question="q")]
    rows += [row(4, 64, version="2", question="q")]
    (item,) = compare(rows).differences[0].worsened
    assert ("2-3", 58.0) == (item.event_key, item.phi)


@given(st.lists(st.tuples(st.sampled_from("123"), st.sampled_from(REACHABLE)), max_size=60))
def test_groups_add_up(drawn):
    """Every row is in exactly one group, bands add up to one, and the mean lies between the ends."""
    rows = [row(i, phi, version=version) for i, (version, phi) in enumerate(drawn)]
    result = compare(rows)
    assert len(rows) == sum(group.n for group in result.groups)
    for group in result.groups:
        assert pytest.approx(1.0) == sum(group.bands.values())
        assert group.p10 <= group.p50 <= group.p90
        assert 0 <= group.mean <= 100


def test_row_from_a_result():
    """A row takes from a result what it needs."""
    found = from_evaluation(evaluation())
    assert ("k1", "e1", 40, 0.25, "outage") == (
        found.event_key,
        found.event_id,
        found.phi,
        found.p_correct,
        found.fallback,
    )
    assert ("mysql", "llm", "m") == (found.dialect, found.judge, found.model)
    assert "missing_filter: The year is not used." == found.first_reason
    assert question_key("  how MANY? ") == found.question_key


def test_row_from_a_skipped_result():
    """A result without a score brings its reason."""
    skipped = evaluation(outcome=Outcome.SKIPPED, reason=Reason.BROKEN, detail="cut", phi=None, band=None, judge=None)
    assert "broken: cut" == from_evaluation(skipped).first_reason


def test_result_files_are_read_back():
    """Rows from result lines equal rows from the results; blank lines are passed over."""
    lines = [to_json(evaluation()), "\n", to_json(evaluation(event_key="k2")).encode()]
    expected = [from_evaluation(evaluation()), from_evaluation(evaluation(event_key="k2"))]
    assert expected == list(from_lines(lines, "results.jsonl"))


@pytest.mark.parametrize("line", ["{", "[]", '{"event_key": "k"}', "SELECT 1"])
def test_a_line_that_is_no_result_is_named(line):
    """A line that is no result stops the reading with the file and the line."""
    with pytest.raises(InputError, match=r"results.jsonl: line 2: "):
        list(from_lines([to_json(evaluation()), line], "results.jsonl"))


def test_comparison_as_plain_values():
    """A comparison can be written as JSON and carries its labels."""
    rows = noisy("1", 60, 40, 1) + noisy("2", 90, 40, 2)
    plain = json.loads(json.dumps(compare(rows).to_dict()))
    assert ["1", "2"] == [group["label"] for group in plain["groups"]]
    assert "2" == plain["differences"][0]["label"]
    assert ["agent_version"] == plain["by"]


def test_means_weigh_records_by_the_chance_that_the_model_was_asked():
    """A record drawn with a chance of a quarter stands for four; one that was not drawn stands for none."""
    rows = [row(1, 100), row(2, 50, weight=4.0), row(3, 0, weight=0.0)]
    (group,) = compare(rows).groups
    assert (group.scored, group.mean) == (3, (100 + 4 * 50) / 5)
    assert (group.p10, group.p50, group.p90) == (50, 50, 100)
    assert (group.bands["Marginal"], group.bands["Poor"]) == (0.8, 0.0)
    assert group.mean_p_correct == pytest.approx((1.0 + 4 * 0.5) / 5)


def test_a_group_of_which_nothing_was_drawn_has_no_mean():
    """Weights of 0 make no number."""
    (group,) = compare([row(1, 100, weight=0.0)]).groups
    assert (group.scored, group.mean, group.p50, group.bands, group.mean_p_correct) == (1, None, None, {}, None)


def test_a_difference_weighs_as_the_means_do():
    """Interval and difference rest on the same weights: what was not drawn moves neither."""
    before = [row(n, 50) for n in range(30)]
    drawn = [row(n, 80, version="2", weight=2.0) for n in range(30)]
    noise = [row(n + 100, 0, version="2", weight=0.0) for n in range(30)]
    (found,) = compare([*before, *drawn, *noise]).differences
    assert (found.mean, found.low, found.high, found.shared_questions) == (30.0, 30.0, 30.0, 30)
