"""Questions and what they ask for, by rule; a case is a line in `tests/cases/nl/<rule>.jsonl`."""

from __future__ import annotations

from pathlib import Path

import pytest

from stef.data import lexicon
from stef.nl.extract import extract
from tests.questions import calendar_of, check_as_stated, check_spans, load, rules_of

CASES = load(Path(__file__).parent / "cases" / "nl")


def read(case):
    """The spec of a case's question."""
    return extract(case["question"], lexicon=lexicon("en"), calendar=calendar_of(case), rules=rules_of(case))


@pytest.mark.parametrize("case", CASES)
def test_a_question_is_read_as_its_case_says(case):
    """What a case states of filters, aggregates, grouping, order and limit is what the question is read as."""
    check_as_stated(case, read(case))


@pytest.mark.parametrize("case", CASES)
def test_a_mention_is_where_its_span_says(case):
    """The characters of a span are the text of the mention."""
    check_spans(case, read(case))
