"""The four tolerances: a case is a line in `tests/cases/normalize/<tolerance>.jsonl`."""

from __future__ import annotations

import pytest

from stef.normalize import TOLERANCES, normalize
from tests.records import CASES, judged, load, rules_of


@pytest.mark.parametrize("case", load("normalize"))
def test_what_is_forgiven_leaves_the_trace_of_its_case(case):
    """Exactly the tolerances that the case names are applied, in their order, each with a sentence."""
    trace = judged(case).normalizations
    assert case["normalizations"] == [item.rule for item in trace]
    assert all(item.detail for item in trace)
    assert case.get("detail", "") in "".join(item.detail for item in trace)


@pytest.mark.parametrize("case", load("normalize"))
def test_normalizing_twice_equals_once(case):
    """A tolerance finds nothing to forgive in what the tolerances left."""
    specs = judged(case).specs
    once, _ = normalize(specs.question, specs.sql, rules_of(case))
    assert (once, ()) == normalize(specs.question, once, rules_of(case))


def test_each_tolerance_has_a_case_file():
    """A tolerance without cases is not tested."""
    assert {rule.__name__ for rule in TOLERANCES} == {path.stem for path in (CASES / "normalize").glob("*.jsonl")}
