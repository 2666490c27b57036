"""What speaks against a statement: a case is a line in `tests/cases/evidence/<check>.jsonl`."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from stef.apprules import NO_RULES
from stef.evidence import CHECKS, Facts, gather
from stef.result import Alignment, Category, FilterEvidence, Match
from stef.spec import Filter, Op, QuerySpec, Scope, Source
from stef.values import Text
from tests.records import CASES, KNOWN, judged, load

FAINT = {
    "columns_beyond",
    "output_star",
    "sort_shown",
    "unexplained",
    "ungrounded_filter",
    "ungrounded_output",
    "ungrounded_value",
    "unused_name",
}


@pytest.mark.parametrize("case", load("evidence"))
def test_a_statement_has_the_features_of_its_case(case):
    """Exactly the features that the case names are found, and the reasons carry its codes.

    Faint features go by single words and stand in most statements: a case that is not `about` one leaves them out.
    """
    found = judged(case).evidence
    signals = found.features.keys() & KNOWN.weights.terms.keys()
    looked_at = {name for name in signals if name not in FAINT or name in {case.get("about"), *case["features"]}}
    assert sorted(case["features"]) == sorted(looked_at)
    assert set(case.get("codes", ())) <= {reason.code for reason in found.reasons}


@pytest.mark.parametrize("case", load("evidence"))
def test_p_offline_is_the_weighed_sum_of_the_features(case):
    """The probability follows from the features, the plain weights and the trees alone, by the formula of the card."""
    found, model = judged(case).evidence, KNOWN.weights.texts
    terms = {name: value for name, value in found.features.items() if name in KNOWN.weights.terms}
    plain = sum(KNOWN.weights.plain(name, model) * value for name, value in terms.items())
    grown, _ = model.weigh(found.features)
    odds = model.intercept + model.slope * (plain + grown)
    assert math.isclose(1 / (1 + math.exp(-odds)), found.p_offline, abs_tol=1e-4)


def test_what_labelled_data_hardly_show_keeps_its_weight_in_full():
    """A forest scales the plain weights that it can replace, and no other."""
    weights, halved = KNOWN.weights, replace(KNOWN.weights.texts, linear=0.5)
    assert weights.terms["missing"] / 2 == weights.plain("missing", halved)
    assert weights.terms["against_rules"] == weights.plain("against_rules", halved)


@pytest.mark.parametrize("case", load("evidence"))
def test_the_three_heaviest_are_shown(case):
    """A result lists the three features that moved its probability most, heaviest first."""
    weighed = judged(case).evidence.weighed
    weights = [abs(item.log_odds) for item in weighed]
    assert 3 == len(weighed)
    assert sorted(weights, reverse=True) == weights
    assert all(weights)


def test_each_check_has_a_case_file():
    """A check without cases is not tested."""
    assert {check.__name__ for check in CHECKS} == {path.stem for path in (CASES / "evidence").glob("*.jsonl")}


def test_every_feature_has_a_weight_and_every_weight_a_feature():
    """A signal that nothing weighs and a weight that nothing uses are both mistakes."""
    cases = [*load("evidence"), *load("learned")]
    named = {name for case in cases for name in case.values[0]["features"]}
    filters = {"wrong_column", "wrong_operator", "introduced", "undetermined"}
    # What the log shows may be a number that only a richer model weighs.
    terms = set(KNOWN.weights.terms)
    assert {name for name in named | filters if not name.startswith("log_")} == {
        name for name in terms if not name.startswith("log_")
    }
    assert {name for name in terms if name.startswith("log_")} <= named


def test_every_weight_speaks_against():
    """Checks look for faults: none makes a statement more probable."""
    assert [] == [name for name, weight in KNOWN.weights.terms.items() if weight >= 0]


def facts(*filters):
    """Facts with nothing in them but these filters."""
    nothing = QuerySpec(source=Source.QUESTION)
    alignment = Alignment(category=Category.PARTIAL, filters=filters)
    return Facts(
        asked=nothing,
        asked_text="",
        question_text="How many boats?",
        expansion_text="",
        sql=replace(nothing, source=Source.SQL),
        normalized=nothing,
        alignment=alignment,
        rules=NO_RULES,
    )


def missing(certainty):
    """A missing filter that is so sure."""
    asked = Filter(column="hull", op=Op.EQ, value=Text("steel"), scope=Scope.QUESTION, certainty=certainty)
    return FilterEvidence(match=Match.MISSING, asked=asked, required=True, certainty=certainty)


def test_a_vague_mention_that_is_missing_weighs_less_than_its_certainty():
    """At half the certainty little is left, so that guesses of the reader do not decide."""
    sure, vague = (gather(facts(missing(certainty)), KNOWN.weights).features["missing"] for certainty in (1.0, 0.5))
    assert 1.0 == sure
    assert vague < 0.5


def test_a_feature_counts_twice_at_most():
    """Ten missing filters are no worse than two."""
    assert 2.0 == gather(facts(*[missing(1.0)] * 10), KNOWN.weights).features["missing"]


def test_the_most_telling_reason_comes_first():
    """Readers see the reason that decided."""
    extra = replace(missing(1.0), match=Match.EXTRA)
    reasons = gather(facts(extra, missing(1.0)), KNOWN.weights).reasons
    assert ["missing_filter", "extra_filter"] == [reason.code for reason in reasons][:2]
