"""From the lifted text to a tree, or to the reason why there is none."""

from __future__ import annotations

import time

import pytest

from stef.apprules import NO_RULES
from stef.result import Reason
from stef.sql.dialects import canonical, guesses
from stef.sql.extract import extract
from stef.sql.parse import parse
from stef.sql.safety import findings
from stef.sql.statement import lift
from stef.sql.variables import assignments
from stef.timespan import Calendar
from tests import sqlcases

# Nothing of this size is right; each must end in an outcome within this time (seconds).
_LIMIT = 4.0


@pytest.mark.parametrize("case", sqlcases.load("outcomes"), ids=sqlcases.name)
def test_how_a_text_ends(case):
    """Every text ends as read, or with the one reason that fits it, in the dialect that took it."""
    found = sqlcases.parsed(case)
    assert case["outcome"] == (found.reason.value if found.reason else "read"), found.detail
    assert case["read_as"] == found.dialect
    assert case.get("findings", []) == [finding.code for finding in found.findings]
    if "statement" in case:
        assert case["statement"] == found.sql


def test_a_reason_always_says_something():
    """Every skipped text has a sentence for people."""
    for case in sqlcases.load("outcomes"):
        found = sqlcases.parsed(case)
        assert (found.reason is None) == (found.detail == "")


def test_executable_comments_count_as_code_only_where_they_run():
    """MySQL runs `/*! … */`, so its text is scored there, and only reported elsewhere."""
    text = "SELECT id FROM vans /*!50000 WHERE kind = 'box' */"
    mysql, postgres = (parse(lift(text), dialect=dialect) for dialect in ("mysql", "postgres"))
    assert ("WHERE" in mysql.sql, "WHERE" in postgres.sql) == (True, False)
    for found in (mysql, postgres):
        assert ["executable_comment"] == [finding.code for finding in found.findings]
        assert ("WHERE kind = 'box'",) == found.executable


def test_comments_are_kept_aside():
    """Comments are not scored, and not lost."""
    found = parse(lift("SELECT id -- it's one\nFROM vans /* don't */"), dialect="postgres")
    assert ("-- it's one", "/* don't */") == found.comments
    assert "--" not in found.sql


def test_braces_with_a_logged_value_are_parameters():
    """`{limit}` is a mark of a template unless the log has its value."""
    text = "SELECT id FROM vans WHERE km > {limit}"
    assert Reason.TEMPLATED == parse(lift(text), dialect="duckdb").reason
    assert Reason.TEMPLATED != parse(lift(text), dialect="duckdb", parameters={"limit": 3}).reason


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("DECLARE @a int = 5", {"a": "5"}),
        ("DECLARE @a AS varchar(10) = 'x, y', @b int = f(1, 2)", {"a": "'x, y'", "b": "f(1, 2)"}),
        ("DECLARE @d date = '2025-03-01'", {"d": "CAST('2025-03-01' AS DATE)"}),
        ("SET @a := 3", {"a": "3"}),
        ("SET SESSION a = 3", {"a": "3"}),
        ("DECLARE a INT DEFAULT 3", {"a": "3"}),
        ("DECLARE @a int", {}),
        ("SELECT a = 3", {}),
    ],
)
def test_assignments(statement, expected):
    """SET and DECLARE give values in every dialect's spelling; commas in strings and calls part nothing."""
    assert expected == dict(assignments(statement))


def test_names_of_dialects():
    """Logged names are mapped, whatever their case and spelling; unknown ones are None."""
    names = {
        "MSSQL": "tsql",
        "PostgreSQL": "postgres",
        "Spark_SQL": "spark",
        "sqlserver": "tsql",
        "ANSI": "",
        "xyz": None,
    }
    assert names == {name: canonical(name) for name in names}
    assert canonical(None) is None


def test_guesses_are_never_empty():
    """There is always a dialect to try, and plain SQL is among them."""
    assert "" in guesses("")


_HUGE = {
    "brackets": ("SELECT " + "(" * 10_000 + "1" + ")" * 10_000, "too_deep"),
    "cases": ("SELECT " + "CASE WHEN a THEN " * 10_000 + "1" + " END" * 10_000 + " FROM t", "too_deep"),
    "some-cases": ("SELECT " + "CASE WHEN a THEN " * 300 + "1" + " END" * 300 + " FROM t", "too_deep"),
    "five-megabytes": ("SELECT a FROM t WHERE b = '" + "x" * 5_000_000 + "'", "too_large"),
    "in-list": ("SELECT a FROM t WHERE b IN (" + ",".join(map(str, range(50_000))) + ")", "too_large"),
    "in-list-below-the-cap": ("SELECT a FROM t WHERE b IN (" + ",".join(f"'{i}'" for i in range(20_000)) + ")", "read"),
    "or-chain": ("SELECT a FROM t WHERE " + " OR ".join(f"b = {i}" for i in range(5_000)), "read"),
    "mixed-or-chain": ("SELECT a FROM t WHERE " + " OR ".join(f"c{i} = {i}" for i in range(5_000)), "read"),
    "and-chain": ("SELECT a FROM t WHERE " + " AND ".join(f"b <> {i}" for i in range(5_000)), "read"),
    "pairs": ("SELECT a FROM t WHERE " + " OR ".join(f"(a = {i} AND b = {i})" for i in range(3_000)), "read"),
    "union": (" UNION ALL ".join(f"SELECT a FROM t WHERE b = {i}" for i in range(2_000)), "read"),
    "derived": ("SELECT a FROM " + "(SELECT a FROM " * 300 + "t" + ") x" * 300, "too_deep"),
    "nots": ("SELECT a FROM t WHERE " + "NOT " * 5_000 + "b = 1", "too_deep"),
    "sums": ("SELECT a FROM t WHERE b > " + " + ".join(["1"] * 5_000), "too_deep"),
    "subscripts": ("SELECT a" + "[1]" * 3_000 + " FROM t", "too_deep"),
    "statements": ("; ".join(["SELECT a FROM t"] * 3_000), "too_large"),
    "chained-ctes": (
        "WITH c0 AS (SELECT * FROM t), "
        + ", ".join(f"c{i} AS (SELECT a.x FROM c{i - 1} a JOIN c{max(i - 2, 0)} b ON a.x = b.x)" for i in range(1, 40))
        + " SELECT COUNT(*) FROM c39 WHERE x = 3",
        "read",
    ),
    "open-slots": ("SELECT {{" * 20_000, "too_deep"),
    "thoughts": ("<think>" * 20_000, "no_sql"),
    "opening-comments": ("/*" * 50_000, "no_sql"),
    "prose": ("I will SELECT x " * 10_000, "no_sql"),
    "json": ("[" * 100_000, "no_sql"),
}


@pytest.mark.parametrize("name", _HUGE)
def test_huge_texts_end_in_an_outcome(name):
    """Nesting and length end in a typed outcome within seconds; only the extraction may say RecursionError."""
    text, expected = _HUGE[name]
    started = time.process_time()
    found = parse(lift(text), dialect="postgres")
    spec, outcome = None, found.reason.value if found.reason else "read"
    if found.tree is not None:
        try:
            spec = extract(found.tree, calendar=Calendar())
        except RecursionError:
            outcome = "too_deep"
    findings(found, spec, NO_RULES, {})
    assert expected == outcome
    assert time.process_time() - started < _LIMIT
