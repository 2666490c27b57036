"""What a fuzz run (`benchmarks/fuzz.py`) has found stays mended, and the run itself finds what is planted."""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import datetime

import fuzz
import pytest
from fuzz_records import bank

from stef.apprules import NO_RULES
from stef.catalogue import Learners, Where, observe
from stef.record import QueryRecord
from stef.spec import QuerySpec, Source
from stef.timespan import Calendar
from stef.understand import understand
from tests.records import KNOWN

# Seconds of processor time; each of the texts below took from 2 to 18 once, and takes less than 0.5.
_MOST = 4.0
_LIST = ", ".join(str(number) for number in range(3000))
_LARGE = {
    "a list of thousands that no text says": f"SELECT COUNT(*) FROM vans HAVING km IN ({_LIST})",
    "a long union": " UNION ALL ".join(["SELECT city FROM vans WHERE km > 5"] * 1500),
    "many joins": "SELECT 1 FROM t0 " + " ".join(f"JOIN t{k} ON t{k}.id = t{k - 1}.id" for k in range(1, 1500)),
}


def _seconds(call):
    began = time.thread_time()
    call()
    return time.thread_time() - began


def _understand(question, sql, known=KNOWN):
    record = QueryRecord(question=question, sql=sql, dialect="postgres", database="docks")
    assert understand(record, NO_RULES, Calendar(), known).compared is not None


@pytest.mark.parametrize("sql", _LARGE.values(), ids=_LARGE)
def test_a_large_statement_costs_in_proportion(sql):
    """Time grows with the length of a statement, not with its square."""
    assert _MOST > _seconds(lambda: _understand("How many vans are in Turku?", sql))


def test_a_long_question_is_searched_for_formulas_in_proportion():
    """Words without end and without an operator are not scanned from each of them."""
    question = "since the ferries of the northern harbours were sold " * 300
    assert _MOST > _seconds(lambda: _understand(question, "SELECT COUNT(*) FROM ferries WHERE region = 'north'"))


def test_a_long_expansion_is_searched_for_glosses_in_proportion():
    """What an explanation explains is looked for from its verb, not from each place of the text."""
    expansion = "the ferries of the northern harbours " * 400
    record = QueryRecord(
        question="How many steel boats are in Oban?", expanded_question=expansion, sql="SELECT name FROM boats"
    )
    assert _MOST > _seconds(lambda: understand(record, NO_RULES, Calendar(), KNOWN))


def test_a_statement_of_many_tables_is_held_against_a_log_in_proportion():
    """Of hundreds of tables not each two are looked up."""
    learners = Learners()
    for number in range(40):
        spec = QuerySpec(source=Source.SQL, tables=("vans",))
        learners.add(Where("", "docks"), observe(spec, f"How many vans were sold in {1980 + number}?"))
    tables = ", ".join(f"t{number}" for number in range(1500))
    known = replace(KNOWN, catalogues=learners.freeze())
    assert _MOST > _seconds(lambda: _understand("How many vans are in Turku?", f"SELECT 1 FROM {tables}", known))


@pytest.mark.parametrize(
    ("question", "now"),
    [
        ("Wie viele Kähne lagen am 2024-12-31 24:00:00 in Emden?", "2025-06-01"),
        ("Wie viele Kähne lagen bis 9999-12-31 23:59:59 in Emden?", "2025-06-01"),
        ("Umsatz pro Filiale in Q1 0000", "2025-06-01"),
        ("Umsatz pro Filiale im Februar", "0001-01-01"),
        ("前99999999999999999999999999999999999999名的渔民", "2025-06-01"),
    ],
)
def test_numbers_and_dates_that_no_calendar_has_do_not_fail(question, now):
    """They say what they can, and the question is read on."""
    spec = KNOWN.read_question(question, Source.QUESTION, NO_RULES, Calendar(now=datetime.fromisoformat(now)))
    assert spec.language in {"de", "zh"}


@pytest.fixture(scope="module")
def known():
    """What the case files hold."""
    return bank()


def test_a_seed_and_a_number_make_the_same_message_again(known):
    """A finding can be repeated from what is printed of it."""
    assert [fuzz.made(7, number, known) for number in range(50)] == [fuzz.made(7, n, known) for n in range(50)]
    assert len({fuzz.made(7, number, known)[0] for number in range(50)}) > 45


def test_a_short_run_fails_nowhere(known, tmp_path):
    """A hundred odd messages end as one of the outcomes, none of them as a failure."""
    pipelines = fuzz.pipelines(str(tmp_path), fuzz.small_catalogue(known))
    made = [(number, *fuzz.made(7, number, known)) for number in range(100)]
    runs = [fuzz.run(pipelines[place], value, number) for number, value, place in made]
    outcomes = {outcome for run in runs for outcome in run.outcomes}
    assert [] == [(run.number, run.error) for run in runs if run.error]
    assert {"scored", "skipped/broken", "dead_letter"} <= outcomes
    assert not {outcome for outcome in outcomes if outcome.startswith(("failed", "raised"))}


def test_a_failure_is_a_finding(known, tmp_path, monkeypatch):
    """What raises inside is found, with the place where it did."""
    pipeline, _ = fuzz.pipelines(str(tmp_path), fuzz.small_catalogue(known))

    def planted(*_):
        raise ZeroDivisionError

    monkeypatch.setattr("stef.pipeline.look", planted)
    found = fuzz.run(pipeline, b'{"question": "How many?", "sql": "SELECT 1"}', 0)
    assert "failed inside" == fuzz.judged(found, found, b"")


def test_time_is_a_finding_by_length():
    """A quarter of a second is too much for a short message, and not for one four times as long as a plain one."""
    slow = fuzz.Run(0.5, 0.0, 0, ("scored",))
    assert "took 500 ms, 0 of it parsing" == fuzz.judged(slow, slow, b"")
    assert "" == fuzz.judged(slow, slow, b" " * 65_536)
