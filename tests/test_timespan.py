"""Calendar arithmetic."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stef.timespan import Calendar, Interval, Unit, floor, parse_moment, shift, year

NOW = datetime.fromisoformat("2025-06-18T09:30:00")
CALENDAR = Calendar(now=NOW)
MOMENTS = st.datetimes(datetime(1950, 1, 1), datetime(2100, 1, 1))  # noqa: DTZ001 - naive by contract
FEW = settings(max_examples=150, derandomize=True, deadline=None)


def span(start, end):
    """An interval from two texts; "" is an open side."""
    return Interval(*(datetime.fromisoformat(text) if text else None for text in (start, end)))


@pytest.mark.parametrize(
    ("unit", "offset", "start", "end"),
    [
        (Unit.DAY, -1, "2025-06-17", "2025-06-18"),
        (Unit.WEEK, 0, "2025-06-16", "2025-06-23"),
        (Unit.MONTH, -1, "2025-05-01", "2025-06-01"),
        (Unit.QUARTER, 0, "2025-04-01", "2025-07-01"),
        (Unit.QUARTER, -2, "2024-10-01", "2025-01-01"),
        (Unit.YEAR, -1, "2024-01-01", "2025-01-01"),
    ],
)
def test_a_period_is_whole_units_of_the_calendar(unit, offset, start, end):
    """The last one ends where this one begins."""
    assert span(start, end) == CALENDAR.period(unit, offset)


def test_last_quarter_in_january_is_the_year_before_s():
    """Going back crosses the year."""
    january = Calendar(now=datetime.fromisoformat("2025-01-10"))
    assert span("2024-10-01", "2025-01-01") == january.period(Unit.QUARTER, -1)


@pytest.mark.parametrize(("week_start", "first"), [(0, "2025-06-16"), (6, "2025-06-15"), (2, "2025-06-18")])
def test_a_week_begins_on_its_day(week_start, first):
    """Monday, Sunday, or any other day that the application says."""
    assert datetime.fromisoformat(first) == floor(NOW, Unit.WEEK, week_start=week_start)


@pytest.mark.parametrize(
    ("unit", "offset", "start", "end"),
    [(Unit.YEAR, 0, "2025-04-01", "2026-04-01"), (Unit.YEAR, -1, "2024-04-01", "2025-04-01"),
     (Unit.QUARTER, 0, "2025-04-01", "2025-07-01"), (Unit.MONTH, 0, "2025-06-01", "2025-07-01")],
)  # fmt: skip
def test_a_fiscal_year_begins_in_its_month(unit, offset, start, end):
    """Years and quarters count from there, months do not move."""
    fiscal = Calendar(now=NOW, fiscal_year_start_month=4)
    assert span(start, end) == fiscal.period(unit, offset, fiscal=True)


def test_a_fiscal_year_is_named_after_the_year_in_which_it_ends():
    """Unless it is the calendar's own."""
    assert span("2024-04-01", "2025-04-01") == Calendar(fiscal_year_start_month=4).fiscal_year(2025)
    assert year(2025) == Calendar().fiscal_year(2025)


def test_the_past_thirty_days_are_not_the_last_month():
    """A rolling span counts back from today and holds it; a calendar month does neither."""
    assert span("2025-05-19", "2025-06-19") == CALENDAR.rolling(Unit.DAY, 30)
    assert CALENDAR.rolling(Unit.MONTH, 1) != CALENDAR.period(Unit.MONTH, -1)


def test_hours_roll_from_the_moment_itself():
    """Not from midnight."""
    assert Interval(NOW - timedelta(hours=24), NOW) == CALENDAR.rolling(Unit.HOUR, 24)


def test_to_date_ends_with_today():
    """From the start of the period."""
    assert span("2025-01-01", "2025-06-19") == CALENDAR.to_date(Unit.YEAR)


def test_without_a_clock_nothing_relative_is_known():
    """Undetermined is a value of its own."""
    blind = Calendar()
    known = (blind.today, blind.period(Unit.DAY), blind.rolling(Unit.DAY, 1), blind.to_date(Unit.YEAR))
    assert (None, None, None, None) == known


@pytest.mark.parametrize(
    ("moment", "unit", "count", "expected"),
    [("2025-01-31", Unit.MONTH, 1, "2025-02-28"), ("2024-01-31", Unit.MONTH, 1, "2024-02-29"),
     ("2024-02-29", Unit.YEAR, 1, "2025-02-28"), ("2025-03-31", Unit.QUARTER, -1, "2024-12-31"),
     ("2025-01-15", Unit.MONTH, -13, "2023-12-15")],
)  # fmt: skip
def test_months_end_where_they_end(moment, unit, count, expected):
    """The day is clamped to the last one of the month."""
    assert datetime.fromisoformat(expected) == shift(datetime.fromisoformat(moment), unit, count)


@pytest.mark.parametrize("count", [-10_000, 10_000])
def test_shifting_past_the_calendar_saturates(count):
    """A silly number in a question is no crash."""
    assert (datetime.min, datetime.max)[count > 0] == shift(NOW, Unit.YEAR, count)  # noqa: DTZ901 - naive by contract


@pytest.mark.parametrize(
    ("text", "start", "end"),
    [
        ("2024", "2024-01-01", "2025-01-01"),
        ("2024-03", "2024-03-01", "2024-04-01"),
        ("2024-03-05", "2024-03-05", "2024-03-06"),
        ("2024/3/5", "2024-03-05", "2024-03-06"),
        ("20240305", "2024-03-05", "2024-03-06"),
        ("202403", "2024-03-01", "2024-04-01"),
        ("2024-03-05 12:30", "2024-03-05 12:30", "2024-03-05 12:31"),
        ("2024-03-05T12:30:15Z", "2024-03-05 12:30:15", "2024-03-05 12:30:16"),
    ],
)
def test_a_literal_covers_its_precision(text, start, end):
    """A year literal is the year, a second literal the second."""
    assert span(start, end) == parse_moment(text).span


@pytest.mark.parametrize("text", ["", "12", "2024-13", "2024-02-30", "0999", "20241301", "tomorrow", "2024-1-1-1"])
def test_other_texts_are_no_dates(text):
    """A number of four digits outside the usual years, and a day that does not exist, are none."""
    assert parse_moment(text) is None


@FEW
@given(MOMENTS, st.sampled_from(Unit))
def test_the_start_of_a_unit_holds_the_moment(moment, unit):
    """Every moment lies in exactly the unit that begins at its floor."""
    start = floor(moment, unit)
    assert start <= moment < shift(start, unit, 1)
    assert start == floor(start, unit)


@FEW
@given(st.lists(MOMENTS, min_size=4, max_size=4))
def test_an_intersection_is_in_both(bounds):
    """And it does not matter which is named first."""
    one, other = Interval(*sorted(bounds[:2])), Interval(*sorted(bounds[2:]))
    both = one.intersect(other)
    assert both == other.intersect(one)
    empty = both.start >= both.end
    assert empty or all(part.start <= both.start <= both.end <= part.end for part in (one, other))
