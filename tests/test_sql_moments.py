"""Expressions of time, against the record's clock."""

from __future__ import annotations

from datetime import datetime

import pytest
import sqlglot

from stef.sql.moments import NoClockError, evaluate, literal_moment, stamped, step_of, unit_of
from stef.timespan import Calendar, Unit


def _at(*parts):
    return datetime(*parts)  # noqa: DTZ001 - naive by contract


_CALENDAR = Calendar(now=_at(2026, 3, 15, 10, 30))


def _moment(expression, dialect, calendar=_CALENDAR):
    found = evaluate(sqlglot.parse_one(expression, read=dialect), calendar)
    return (found.moment.isoformat(sep=" ", timespec="minutes"), found.whole_day) if hasattr(found, "moment") else found


@pytest.mark.parametrize(
    ("expression", "dialect", "expected"),
    [
        ("NOW()", "postgres", ("2026-03-15 10:30", False)),
        ("CURRENT_DATE", "postgres", ("2026-03-15 00:00", True)),
        ("CURRENT_DATE - 7", "postgres", ("2026-03-08 00:00", True)),
        ("NOW() - INTERVAL '2 hours'", "postgres", ("2026-03-15 08:30", False)),
        ("NOW() - '2 hours'::interval", "postgres", ("2026-03-15 08:30", False)),
        ("DATE_TRUNC('week', CURRENT_DATE)", "postgres", ("2026-03-09 00:00", True)),
        ("DATE_TRUNC('quarter', NOW())", "postgres", ("2026-01-01 00:00", True)),
        ("make_date(2025, 2, 28)", "postgres", ("2025-02-28 00:00", True)),
        ("make_date(2025, 2, 31)", "postgres", None),
        ("GETDATE()", "tsql", ("2026-03-15 10:30", False)),
        ("CAST(GETDATE() AS date)", "tsql", ("2026-03-15 00:00", True)),
        ("DATEADD(month, -1, GETDATE())", "tsql", ("2026-02-15 10:30", False)),
        ("DATEADD(year, DATEDIFF(year, 0, GETDATE()), 0)", "tsql", ("2026-01-01 00:00", True)),
        ("DATEADD(quarter, DATEDIFF(quarter, 0, GETDATE()), 0)", "tsql", ("2026-01-01 00:00", True)),
        ("DATEADD(day, DATEDIFF(day, 0, GETDATE()), 0)", "tsql", ("2026-03-15 00:00", True)),
        ("DATEFROMPARTS(2025, 3, 1)", "tsql", ("2025-03-01 00:00", True)),
        ("EOMONTH(GETDATE())", "tsql", ("2026-03-31 00:00", True)),
        ("TRUNC(SYSDATE, 'MM')", "oracle", ("2026-03-01 00:00", True)),
        ("ADD_MONTHS(TRUNC(SYSDATE, 'MM'), -1)", "oracle", ("2026-02-01 00:00", True)),
        ("LAST_DAY(SYSDATE)", "oracle", ("2026-03-31 00:00", True)),
        ("date('now', 'start of year')", "sqlite", ("2026-01-01 00:00", True)),
        ("date('now', '-1 month', 'start of month')", "sqlite", ("2026-02-01 00:00", True)),
        ("date('now', 'weekday 0')", "sqlite", None),
        ("CURDATE() - INTERVAL 1 MONTH", "mysql", ("2026-02-15 00:00", True)),
        ("DATE_SUB(CURRENT_DATE(), INTERVAL 1 QUARTER)", "bigquery", ("2025-12-15 00:00", True)),
        ("yesterday()", "clickhouse", ("2026-03-14 00:00", True)),
        ("addDays(today(), 3)", "clickhouse", ("2026-03-18 00:00", True)),
        ("subtractYears(now(), 1)", "clickhouse", ("2025-03-15 10:30", False)),
        ("date_add('day', -3, current_date)", "trino", ("2026-03-12 00:00", True)),
        ("YEAR(CURDATE())", "mysql", 2026),
        ("EXTRACT(MONTH FROM CURRENT_DATE)", "postgres", 3),
        ("YEAR(CURDATE()) - 1", "mysql", 2025),
        ("DATEDIFF(CURDATE(), '2026-03-01')", "mysql", 14),
        ("some_column", "postgres", None),
        ("UPPER('x')", "postgres", None),
    ],
)
def test_evaluated(expression, dialect, expected):
    """Clock functions, truncation and arithmetic give the moment that the database would; the rest gives nothing."""
    assert expected == _moment(expression, dialect)


@pytest.mark.parametrize("expression", ["NOW()", "CURRENT_DATE - 7", "DATE_TRUNC('month', NOW())"])
def test_no_clock(expression):
    """Without the time of the question an expression of the clock has no value."""
    with pytest.raises(NoClockError):
        _moment(expression, "postgres", Calendar())


def test_weeks_begin_where_the_application_says():
    """A truncated week begins on the calendar's first day of the week."""
    sunday = Calendar(now=_at(2026, 3, 18), week_start=6)
    assert ("2026-03-15 00:00", True) == _moment("DATE_TRUNC('week', CURRENT_DATE)", "postgres", sunday)


@pytest.mark.parametrize(
    ("expression", "dialect", "expected"),
    [
        ("'2025-03-01'", "postgres", (_at(2025, 3, 1), Unit.DAY)),
        ("DATE '2025-03-01'", "oracle", (_at(2025, 3, 1), Unit.DAY)),
        ("'2025-03-01'::timestamp", "postgres", (_at(2025, 3, 1), Unit.DAY)),
        ("TO_DATE('01.03.2025', 'DD.MM.YYYY')", "oracle", (_at(2025, 3, 1), Unit.DAY)),
        ("TO_DATE('20250301', 'YYYYMMDD')", "postgres", (_at(2025, 3, 1), Unit.DAY)),
        ("toDate('2025-03-01')", "clickhouse", (_at(2025, 3, 1), Unit.DAY)),
        ("from_iso8601_date('2025-03-01')", "trino", (_at(2025, 3, 1), Unit.DAY)),
        ("'2025-03'", "sqlite", (_at(2025, 3, 1), Unit.MONTH)),
        ("'2025'", "sqlite", None),
        ("'box'", "sqlite", None),
        ("2025", "sqlite", None),
    ],
)
def test_literals(expression, dialect, expected):
    """A date literal is read bare, cast and in conversion functions, with its precision; a bare year is no date."""
    found = literal_moment(sqlglot.parse_one(expression, read=dialect))
    assert expected == (found and (found.start, found.precision))


def test_literals_that_are_typed_as_moments():
    """BigQuery's TIMESTAMP has a zone, others' have none, and a date is no moment."""
    kinds = {"TIMESTAMP '2025-03-01'": "zoned", "DATETIME '2025-03-01'": "plain", "DATE '2025-03-01'": ""}
    assert kinds == {text: stamped(sqlglot.parse_one(text, read="bigquery")) for text in kinds}


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("INTERVAL '3 days'", (Unit.DAY, 3)),
        ("INTERVAL 3 MONTH", (Unit.MONTH, 3)),
        ("CAST('-2 weeks' AS INTERVAL)", (Unit.WEEK, -2)),
        ("7", (Unit.DAY, 7)),
        ("CAST('soon' AS INTERVAL)", (None, None)),
        (f"INTERVAL '{'9' * 5_000} days'", (None, None)),
    ],
)
def test_steps(expression, expected):
    """An interval gives its unit and count however it is written; an absurd one gives none instead of an error."""
    assert expected == step_of(sqlglot.parse_one(expression, read="postgres"))


def test_units():
    """Abbreviations of units are known; others are none."""
    known = {"mm": Unit.MONTH, "yyyy": Unit.YEAR, "dd": Unit.DAY, "isoweek": Unit.WEEK, "fortnight": None, "": None}
    assert known == {name: unit_of(name) for name in known}
