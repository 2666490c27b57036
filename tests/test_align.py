"""Alignment of filters: a case is a line in `tests/cases/align/<rule>.jsonl`."""

from __future__ import annotations

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
