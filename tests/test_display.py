"""What a person sees: whole in a pipe, safe whatever the log holds."""

from __future__ import annotations

import io
import json
import re
import unicodedata
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from rich.text import Text as RichText

from stef import display
from stef.compare import compare, from_evaluation
from stef.display import Check, CheckedMessage, CheckedRules
from stef.display.grid import Styled, line, table
from stef.display.text import clean, number, percent, safe, short, signed
from stef.errors import RecordError
from stef.finding import Finding, Severity
from stef.provenance import Provenance
from stef.record import QueryRecord
from stef.result import (
    Alignment,
    Band,
    Category,
    Drift,
    Evaluation,
    Expansion,
    ExpansionChange,
    FilterEvidence,
    JudgeKind,
    Judgement,
    JudgeReason,
    Match,
    Normalization,
    Outcome,
    Reason,
    Score,
    Specs,
    Verdict,
)
from stef.spec import (
    Aggregation,
    Direction,
    Filter,
    GroupKey,
    Limit,
    Op,
    OrderKey,
    QuerySpec,
    Scope,
    Source,
    Span,
)
from stef.values import Number, Text

NOW = datetime(2026, 3, 2, 9, 30, tzinfo=UTC)
HOSTILE = "\x1b]0;owned\x07 [red]ok[/red] \u202egpj.exe \u200b\r:bomb: [link=https://example.org]x[/link]"
COUNTRY = Filter(column="country", op=Op.EQ, value=Text("Spain"), scope=Scope.QUESTION, text="Spain", span=Span(4, 9))
MAPPED = Filter(column="country_code", op=Op.EQ, value=Text("ES"), scope=Scope.QUESTION, text="Spain", span=Span(4, 9))
STORED = Filter(column="country", op=Op.EQ, value=Text("ES"), scope=Scope.WHERE)
YEAR = Filter(column="year", op=Op.EQ, value=Number(Decimal(2025)), scope=Scope.QUESTION, certainty=0.8)
EXTRA = Filter(column="channel", op=Op.EQ, value=Text("web"), scope=Scope.WHERE)


def cases(rule):
    """Cases of a file; a file without any is an error."""
    path = Path(__file__).parent / "cases" / "display" / f"{rule}.jsonl"
    found = [json.loads(text) for text in path.read_text(encoding="utf-8").splitlines() if text]
    assert found, f"no case in {path}"
    return [pytest.param(case, id=case["id"]) for case in found]


def piped(show, *values, width=80):
    """What a function writes into a pipe."""
    file = io.StringIO()
    show(Console(file=file, width=width, force_terminal=False, color_system=None), *values)
    return file.getvalue()


def on_terminal(show, *values, width=100):
    """What a function writes to a terminal."""
    file = io.StringIO()
    show(Console(file=file, width=width, force_terminal=True, color_system="truecolor"), *values)
    return file.getvalue()


def evaluation(**more):
    """A scored result with everything in it."""
    values = {
        "event_key": "orders/0/17",
        "outcome": Outcome.SCORED,
        "scoring_config": "c0ffee",
        "provenance": Provenance(
            stef="0", semantics=1, score_profile="stef-1", sqlglot="30", weights="w", dialect="postgres"
        ),
        "received_at": NOW,
        "event_id": "evt-1",
        "agent": "assistant",
        "agent_version": "1.0",
        "app": "orders",
        "phi": 48,
        "band": Band.POOR,
        "p_offline": 0.31,
        "p_correct": 0.29,
        "question": "Web orders from Spain in 2025",
        "sql": "SELECT COUNT(*)\nFROM orders\nWHERE country = 'ES' AND channel = 'web'",
        "alignment": Alignment(
            category=Category.PARTIAL,
            filters=(
                FilterEvidence(match=Match.MATCHED, asked=MAPPED, found=STORED, required=True),
                FilterEvidence(match=Match.MISSING, asked=YEAR, required=True, certainty=0.8, note="No year in it."),
                FilterEvidence(match=Match.EXTRA, found=EXTRA),
            ),
        ),
        "expansion": Expansion(changes=(ExpansionChange(drift=Drift.DROPPED, question=YEAR),)),
        "normalizations": (Normalization(rule="limit_tolerance", detail="A cap of 1000 rows is a guard."),),
        "findings": (Finding(code="stacked", severity=Severity.CRITICAL, detail="Two statements."),),
        "judge": Judgement(
            kind=JudgeKind.OFFLINE,
            verdict=Verdict.POTENTIALLY_INCORRECT,
            confidence=0.71,
            reasons=(JudgeReason(code="missing_filter", detail="The year is not used."),),
            raw_verdict=Verdict.LIKELY_CORRECT,
            cap="required_filter_missing",
        ),
        "score": Score(phi=48, band=Band.POOR, filters=3, verdict=2, delta=1, multiplier=0.8),
        "spec": Specs(
            question=QuerySpec(
                source=Source.QUESTION, filters=(COUNTRY, YEAR), aggregations=(Aggregation(function="count"),)
            ),
            sql=QuerySpec(
                source=Source.SQL,
                filters=(STORED, EXTRA),
                aggregations=(Aggregation(function="count", of="customer_id", distinct=True),),
                group_by=(GroupKey(column="placed_at", unit="month"),),
                order_by=(OrderKey(by="n", direction=Direction.DESC),),
                limit=Limit(count=3, per=("country",), below=True),
                tables=("orders",),
            ),
        ),
    }
    return Evaluation(**(values | more))


def skipped(reason=Reason.BROKEN, **more):
    """A result without a score."""
    values = dict.fromkeys(("phi", "band", "p_offline", "p_correct", "alignment", "judge", "score", "spec"))
    return evaluation(outcome=Outcome.SKIPPED, reason=reason, detail="The statement is cut.", **(values | more))


def comparison(count=30, question="Which one?", **more):
    """Two versions, the second one worse."""
    rows = [from_evaluation(evaluation(event_key=f"a{i}", question=f"{question} {i}", phi=100, band=Band.EXCELLENT))
            for i in range(count)]  # fmt: skip
    rows += [
        from_evaluation(evaluation(event_key=f"b{i}", agent_version="2.0", question=f"{question} {i}", phi=48))
        for i in range(count)
    ]
    rows += [from_evaluation(skipped(event_key="s", agent_version="2.0"))]
    return compare(rows, **more)


def check(**more):
    """A check of a consumer with one message."""
    message = CheckedMessage(position="log/0/1", outcome="scored", fields={"question": "How many?", "sql": "SELECT 1"})
    values = {
        "consumer": "kafka.yaml",
        "source": "kafka localhost:9092, topic log",
        "sinks": ("store stef.db",),
        "judge": "offline",
        "messages": (message,),
        "rules": (
            CheckedRules(app="orders", version="3", digest="ab12"),
            CheckedRules(app="x", problem="no such file"),
        ),
    }
    return Check(**(values | more))


SHOWN = {
    "results": lambda text: (display.show_results, [evaluation(question=text, event_id=text, agent_version=text)]),
    "explanation": lambda text: (
        display.show_explanation,
        evaluation(
            question=text,
            sql=text,
            agent=text,
            detail=text,
            findings=(Finding(code="x", severity=Severity.INFO, detail=text),),
            spec=Specs(sql=QuerySpec(source=Source.SQL, tables=(text,), filters=(
                Filter(column=text, op=Op.EQ, value=Text(text), scope=Scope.WHERE),))),
        ),
    ),
    "skipped": lambda text: (display.show_explanation, skipped(question=text, sql=text)),
    "comparison": lambda text: (display.show_comparison, comparison(2, question=text)),
    "check": lambda text: (
        display.show_check,
        check(consumer=text, messages=(CheckedMessage(position=text, outcome="scored", fields={text: text}),)),
    ),
}  # fmt: skip


def is_harmless(text):
    """Whether no character of it is a control, bidi, zero-width or other invisible one."""
    return all(c == "\n" or (c.isprintable() and unicodedata.category(c) not in {"Cf", "Cc", "Cs"}) for c in text)


@pytest.mark.parametrize("case", cases("hostile"))
def test_clean_shows_what_is_hidden(case):
    """A character that a terminal obeys or hides is written out; all others stay."""
    assert case["clean"] == clean(case["text"])


@given(st.text(st.characters(codec=None)), st.booleans())
def test_clean_leaves_nothing_hidden(text, lines):
    """Whatever comes in, nothing invisible comes out, and cleaning twice changes nothing more."""
    once = clean(text, lines=lines)
    assert is_harmless(once if lines else once.replace("\n", "\0"))
    assert once == clean(once, lines=lines)


def test_clean_can_keep_lines():
    """A statement keeps its lines, and each of them is clean."""
    assert "SELECT 1\n  FROM\\x1b t" == clean("SELECT 1\r\n  FROM\x1b t", lines=True)


@given(st.text())
def test_safe_text_is_no_markup(text):
    """Safe text put into a marked-up string is shown as it is."""
    assert clean(text) == RichText.from_markup(f"[bold]{safe(text)}[/bold]", emoji=False).plain


@pytest.mark.parametrize("name", SHOWN)
@pytest.mark.parametrize("show", [piped, on_terminal])
def test_no_view_lets_hostile_text_through(name, show):
    """In every view, in a pipe and on a terminal, the log's control characters and markup are shown and not obeyed."""
    function, value = SHOWN[name](HOSTILE)
    shown = re.sub(r"\x1b\[[0-9;]*m", "", show(function, value))
    assert is_harmless(shown)
    assert "[red]" in shown
    assert "\\x1b" in shown
    assert ":bomb:" in "".join(shown.split())


@pytest.mark.parametrize("name", SHOWN)
def test_a_pipe_gets_no_colour(name):
    """In a pipe there is no escape sequence at all."""
    function, value = SHOWN[name]("plain")
    assert "\x1b" not in piped(function, value)
    assert "\x1b[" in on_terminal(function, value)


def test_a_narrow_pipe_loses_nothing():
    """However narrow the pipe, each row is one whole line."""
    long = "word " * 50 + "end"
    text = piped(table, ("first", "second"), [[long, "x"], ["y", long]], width=20)
    rows = text.splitlines()
    assert 3 == len(rows)
    assert [long, "x"] == re.split(r" {2,}", rows[1])
    assert rows[2].endswith(long)


def test_a_terminal_folds_and_loses_nothing():
    """On a narrow terminal text is folded into more lines and never cut."""
    text = on_terminal(table, ("first", "second"), [["abcdefghij" * 8, "x"]], width=30)
    assert "abcdefghij" * 8 == re.sub(r"[^a-j]", "", re.sub(r"\x1b\[[0-9;]*m", "", text.split("\n", 2)[2]))


def test_columns_line_up():
    """Columns line up by what a terminal shows, also for wide characters, and numbers stand flush right."""
    rows = piped(table, ("name", "n"), [["売上", "5"], ["abcd", "100"]]).splitlines()
    assert ["name  n", "売上  5", "abcd  100"] == rows
    flush = table(console := Console(file=io.StringIO()), ("name", "n"), [["a", "5"], ["b", "100"]], numbers=("n",))
    assert flush is None
    assert ["name    n", "a       5", "b     100"] == console.file.getvalue().splitlines()


@pytest.mark.parametrize("show", [piped, on_terminal])
def test_headings_are_text(show):
    """Brackets in a heading are shown and not obeyed, and nothing hidden passes."""
    text = show(table, ("[red]a\u202e",), [["x"]])
    assert "[red]a\\u202e" in text


def test_cells_of_several_lines():
    """A cell may have several lines, each with a style of its own."""
    rows = piped(table, ("a", "b"), [[[Styled("one", "red"), Styled("two")], "x"]]).splitlines()
    assert ["a    b", "one  x", "two"] == rows


def test_line_prints_pieces():
    """Pieces stand on one line, and brackets in them are text."""
    assert "a [b] c\n" == piped(line, "a ", Styled("[b]", "bold"), " c  ")


def test_results_table():
    """Each result is a row, with its reason where there is no score, and the outcomes are counted below."""
    text = piped(display.show_results, [evaluation(), skipped(), skipped(Reason.NO_SQL)])
    rows = text.splitlines()
    assert ["evt-1", "1.0", "48", "Poor", "0.29", "PARTIAL"] == rows[1].split()[:6]
    assert "missing_filter: The year is not used." in rows[1]
    assert "broken: The statement is cut." in rows[2]
    assert "3 records: 1 scored, 2 skipped (broken 1, no_sql 1)" == rows[-1]


def test_results_table_without_results():
    """No result is a line of its own and no error."""
    assert piped(display.show_results, []).endswith("0 records: 0 scored\n")


def test_explanation_shows_everything():
    """The explanation holds texts, specs, evidence, tolerances, drift, findings, verdict and the arithmetic."""
    text = piped(display.show_explanation, evaluation())
    for expected in (
        "evt-1  Φ 48 Poor",
        "  Web orders from Spain in 2025",
        "  FROM orders",
        "✓ country = 'Spain'",
        "✗ year = 2025 (certainty 0.80)",
        "+ channel = 'web'",
        "count(distinct customer_id)",
        "placed_at by month",
        "3 per country, below an aggregate or a filter",
        "Filters: PARTIAL",
        "No year in it.",
        "limit_tolerance",
        "Expansion: drifted from the question",
        "critical  stacked  Two statements.",
        "POTENTIALLY_INCORRECT, confidence γ 0.71, by offline",
        "lowered from LIKELY_CORRECT: required_filter_missing",
        "  - missing_filter: The year is not used.",
        "B = min(10, filters 3 + verdict 2 + δ 1) = 6",
        "Φ = B × 10 × Γ = 6 × 10 × 0.8 = 48 (Poor)",
        "p_offline 0.31, p_correct 0.29",
    ):
        assert expected in text


def test_explanation_finds_rewritten_filters():
    """A filter that the rules mapped to another column keeps its mark, because it was read from the same words."""
    text = piped(display.show_explanation, evaluation())
    assert "· country" not in text


def test_explanation_of_a_skip():
    """Without a score the reason stands in its place, and nothing is made up."""
    text = piped(display.show_explanation, skipped())
    assert "evt-1  skipped: broken: The statement is cut." == text.splitlines()[0]
    assert "Score" not in text
    assert "Verdict" not in text


def test_explanation_marks_an_offline_verdict_in_place_of_a_model():
    """An offline verdict that stands for a model's is said to be one."""
    judge = Judgement(kind=JudgeKind.OFFLINE, verdict=Verdict.CORRECT, confidence=0.9, fallback="outage")
    assert "offline in place of the model (outage)" in piped(display.show_explanation, evaluation(judge=judge))


def test_comparison_shows_figures_and_answer():
    """The comparison holds figures, bands, the answer with its interval, the worst records, and what got worse."""
    text = piped(display.show_comparison, comparison())
    rows = [row.split() for row in text.splitlines()]
    assert ["1.0", "30", "30", "100.0", "%", "100.0", "100", "100", "100", "0.29"] in rows
    assert ["2.0", "31", "30", "96.8", "%", "48.0", "48", "48", "48", "0.29"] in rows
    assert "2.0: worse; mean Φ −52.0; 95 % interval −52.0 to −52.0; coverage −3.2 points" in text
    assert "missing_filter: The year is not used." in text
    assert "Φ 100 → 48" in text
    assert "Scoring configuration c0ffee." in text


def test_comparison_fits_eighty_columns():
    """The tables of figures fit a terminal of eighty columns."""
    text = piped(display.show_comparison, comparison())
    tables = [row for row in text.splitlines() if re.match(r"(agent_version|[12]\.0 ) ", row)]
    assert 6 == len(tables)
    assert max(map(len, tables)) <= 80


def test_comparison_says_what_it_left_out():
    """Results of other scoring configurations and mixing are said."""
    rows = [from_evaluation(evaluation(event_key=k, scoring_config=c)) for k, c in (("a", "old"), ("b", "new"))]
    text = piped(display.show_comparison, compare(rows))
    assert "Left out: 1 results of another scoring configuration (old; groups 1.0)" in text
    assert "Mixed: 2 scoring configurations." in piped(display.show_comparison, compare(rows, mix=True))


def test_comparison_with_too_few_questions():
    """Too few questions are said instead of an interval."""
    text = piped(display.show_comparison, comparison(3))
    assert "2.0: undecided; mean Φ −52.0; fewer than 20 different questions, no interval" in text


def test_comparison_says_how_many_verdicts_were_offline():
    """Offline verdicts in place of a model's are said, where there are any."""
    judge = Judgement(kind=JudgeKind.OFFLINE, verdict=Verdict.CORRECT, confidence=0.9, fallback="outage")
    rows = [from_evaluation(evaluation(event_key="a", judge=judge)), from_evaluation(evaluation(event_key="b"))]
    text = piped(display.show_comparison, compare(rows))
    assert "Offline verdicts in place of the model's: 1.0 50.0 % of the scored records." in text
    assert "Offline" not in piped(display.show_comparison, comparison())


def test_comparison_of_nothing():
    """No results are a sentence."""
    assert "No results to compare.\n" == piped(display.show_comparison, compare([]))


def test_check_shows_mapping_and_rules():
    """A check shows source, sinks, the mapped fields of each message, its outcome, and the rules."""
    text = piped(display.show_check, check())
    for expected in (
        "kafka localhost:9092, topic log",
        "store stef.db",
        "log/0/1: scored",
        "How many?",
        "no such file",
    ):
        assert expected in text


def test_check_of_a_record_shows_what_was_mapped():
    """A record's fields are shown as they were read, those left open are not, and a rejection has its reason."""
    record = QueryRecord(question="How many?", sql="SELECT 1", metadata={"team": "x"})
    messages = (
        CheckedMessage.of("log/0/1", record, skipped()),
        CheckedMessage.rejected("log/0/2", RecordError("not_json", "a line of text")),
    )
    text = piped(display.show_check, check(messages=messages))
    assert "log/0/1: skipped (broken: The statement is cut.)" in text
    assert '  metadata  {"team": "x"}' in text
    assert "app_rules" not in text
    assert "log/0/2: dead_letter (not_json: a line of text)" in text
    assert "1 skipped, 1 dead_letter" in text


def test_check_of_an_empty_source():
    """A source without messages is said."""
    assert "No message to read" in piped(display.show_check, check(messages=()))


def test_progress_is_silent_in_a_pipe():
    """A pipe gets no progress bar; a terminal gets one with the label."""

    def run(console):
        with display.progress(console, "scoring [x]", total=3) as advance:
            advance(3)

    assert piped(run) == ""
    assert "scoring [x]" in re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", on_terminal(run))


def test_numbers_for_people():
    """A missing number is a dash and never a zero."""
    assert ("–", "–", "–") == (percent(None), number(None), signed(None))
    assert ("12.5 %", "0.33", "+1.0", "−2.5") == (percent(0.125), number(1 / 3, 2), signed(1), signed(-2.5))


def test_short_says_what_it_cut():
    """A cut text says how much is gone."""
    assert ("abc", "ab… (+3 characters)") == (short("abc", 3), short("abcde", 2))
