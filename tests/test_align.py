"""Alignment of filters: a case is a line in `tests/cases/align/<rule>.jsonl`; of texts, in `tests/cases/expansion`."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.records import evidence, judged, load


@pytest.mark.parametrize("case", load("align"))
def test_filters_end_in_the_category_and_with_the_evidence_of_their_case(case):
    """Every filter of either side has the finding that the case states, and the category follows."""
    alignment = judged(case).alignment
    expected = {"category": case["category"], "evidence": case["evidence"], "benign": case.get("benign", False)}
    got = {
        "category": alignment.category.value,
        "evidence": {match: names for match, names in evidence(alignment).items() if _is_stated(match, case)},
        "benign": alignment.benign,
    }
    assert expected == got


def _is_stated(match, case):
    """A case states every fault and extra; what is matched or undetermined it may leave out."""
    return match not in {"matched", "undetermined"} or match in case["evidence"]


@pytest.mark.parametrize("case", load("expansion"))
def test_an_expansion_is_checked_as_its_case_says(case):
    """Each constraint of the question is preserved, dropped or changed, and what is new is added."""
    check = judged(case).expansion
    drift = Counter(change.drift.value for change in check.changes)
    assert (case["drift"], case["drifted"]) == (dict(drift), check.drifted)


def test_without_an_expansion_there_is_nothing_to_check():
    """No expansion is no drift."""
    assert judged({"question": "List the boats", "sql": "SELECT name FROM boats"}).expansion is None
