"""Numbers for the model: a case is a line in `tests/cases/measures/<measure>.jsonl` or `tests/cases/constructs/`."""

from __future__ import annotations

import pytest

from stef.evidence.measures import MEASURES
from stef.sql.extract import extract
from stef.sql.parse import parse
from stef.sql.statement import lift
from stef.timespan import Calendar
from tests.records import CASES, judged, load
from tests.sqlcases import spec_of


@pytest.mark.parametrize("case", load("measures"))
def test_a_record_has_the_numbers_of_its_case(case):
    """Each number that the case names is found as it says; None says that it cannot be taken."""
    found = judged(case).evidence.features
    assert case["numbers"] == {name: found.get(name) for name in case["numbers"]}


@pytest.mark.parametrize("case", load("constructs"))
def test_a_statement_has_the_constructs_of_its_case(case):
    """Each construct is counted as the case says; None says that it is not there."""
    found = spec_of(case["sql"], case.get("dialect")).constructs
    assert case["constructs"] == {name: found.get(name) for name in case["constructs"]}


@pytest.mark.parametrize("case", load("faults"))
def test_a_statement_that_cannot_work_says_why(case):
    """Exactly the sentences of the case are said: for what its database refuses, and for what gives nothing."""
    parsed = parse(lift(case["sql"]), dialect=case["dialect"])
    spec = extract(parsed.tree, calendar=Calendar(), dialect=parsed.dialect, text=parsed.sql)
    assert case["faults"] == list(spec.faults)


def test_each_measure_has_a_case_file():
    """A measure without cases is not tested."""
    assert {measure.__name__ for measure in MEASURES} == {path.stem for path in (CASES / "measures").glob("*.jsonl")}
