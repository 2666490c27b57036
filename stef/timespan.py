"""Calendar arithmetic on half-open intervals, shared by both readers.

Everything here is in the record's own zone, as naive datetimes: a filter in SQL has no zone of its own, and the
question is asked in the user's. The clock is a value (`Calendar.now`), never read.
"""

from __future__ import annotations

import calendar as _calendar
import re
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from enum import StrEnum
from functools import lru_cache


class Unit(StrEnum):
    """A calendar unit."""

    SECOND = "second"
    MINUTE = "minute"
    HOUR = "hour"
    DAY = "day"
    WEEK = "week"
    MONTH = "month"
    QUARTER = "quarter"
    YEAR = "year"


_FIXED = {
    Unit.SECOND: timedelta(seconds=1),
    Unit.MINUTE: timedelta(minutes=1),
    Unit.HOUR: timedelta(hours=1),
    Unit.DAY: timedelta(days=1),
    Unit.WEEK: timedelta(weeks=1),
}
_MONTHS = {Unit.MONTH: 1, Unit.QUARTER: 3, Unit.YEAR: 12}


@dataclass(frozen=True, slots=True)
class Interval:
    """A half-open span of time `[start, end)`; None is an open side."""

    start: datetime | None
    end: datetime | None

    def intersect(self, other: Interval) -> Interval:
        """The part that both spans share; empty spans have `start >= end`."""
        starts = [bound for bound in (self.start, other.start) if bound is not None]
        ends = [bound for bound in (self.end, other.end) if bound is not None]
        return Interval(max(starts, default=None), min(ends, default=None))

    @property
    def is_bounded(self) -> bool:
        """Whether both sides are closed."""
        return self.start is not None and self.end is not None

    def __str__(self) -> str:
        return f"[{_show(self.start)}, {_show(self.end)})"


def _show(moment: datetime | None) -> str:
    if moment is None:
        return "…"
    return moment.date().isoformat() if moment.time() == time() else moment.isoformat(sep=" ")


@dataclass(frozen=True, slots=True)
class Moment:
    """A literal date or time with the precision that it was written in (`2024`, `2024-03`, `2024-03-01`, …)."""

    start: datetime
    precision: Unit

    @property
    def span(self) -> Interval:
        """All moments that the literal covers at its precision."""
        return Interval(self.start, shift(self.start, self.precision, 1))


@dataclass(frozen=True, slots=True)
class Calendar:
    """What relative dates are resolved against.

    Attributes:
        now: When the question was asked, in the record's zone, naive; None when unknown: relative dates then stay
            undetermined.
        week_start: First day of the week, 0 = Monday … 6 = Sunday.
        fiscal_year_start_month: 1 to 12.
    """

    now: datetime | None = None
    week_start: int = 0
    fiscal_year_start_month: int = 1

    @property
    def today(self) -> datetime | None:
        """Midnight at the start of the day of the question."""
        return None if self.now is None else floor(self.now, Unit.DAY)

    def period(self, unit: Unit, offset: int = 0, *, fiscal: bool = False) -> Interval | None:
        """The calendar period `offset` units from the one that holds `now` (−1 = last, 0 = this, 1 = next).

        A fiscal year begins in `fiscal_year_start_month`; a fiscal quarter counts from there.
        """
        if self.now is None:
            return None
        lead = (self.fiscal_year_start_month - 1) if fiscal and unit in {Unit.YEAR, Unit.QUARTER} else 0
        base = shift(self.now, Unit.MONTH, -lead)
        start = shift(floor(base, unit, week_start=self.week_start), unit, offset)
        end = shift(start, unit, 1)
        return Interval(shift(start, Unit.MONTH, lead), shift(end, Unit.MONTH, lead))

    def rolling(self, unit: Unit, count: int) -> Interval | None:
        """The last `count` units up to and including today ("past 30 days")."""
        if self.now is None or self.today is None:
            return None
        if unit in {Unit.HOUR, Unit.MINUTE, Unit.SECOND}:
            return Interval(shift(self.now, unit, -count), self.now)
        return Interval(shift(self.today, unit, -count), shift(self.today, Unit.DAY, 1))

    def to_date(self, unit: Unit, *, fiscal: bool = False) -> Interval | None:
        """From the start of the current period up to and including today."""
        period = self.period(unit, fiscal=fiscal)
        if period is None or self.today is None:
            return None
        return Interval(period.start, shift(self.today, Unit.DAY, 1))

    def fiscal_year(self, year: int) -> Interval:
        """The fiscal year named `year`: named after the calendar year in which it ends, unless it starts in January."""
        first = self.fiscal_year_start_month
        start = datetime(year if first == 1 else year - 1, first, 1)  # noqa: DTZ001 - naive by contract
        return Interval(start, shift(start, Unit.YEAR, 1))


def shift(moment: datetime, unit: Unit, count: int) -> datetime:
    """Move by whole units; the day is clamped to the target month's last one (31 January + 1 month = 28 February).

    Saturates at the years 1 and 9999 instead of raising.
    """
    try:
        if unit in _FIXED:
            return moment + _FIXED[unit] * count
        month = moment.year * 12 + moment.month - 1 + _MONTHS[unit] * count
        year, month = divmod(month, 12)
        day = min(moment.day, _calendar.monthrange(year, month + 1)[1])
        return moment.replace(year=year, month=month + 1, day=day)
    except (OverflowError, ValueError, _calendar.IllegalMonthError):
        return datetime.min if count < 0 else datetime.max  # noqa: DTZ901 - naive by contract


def floor(moment: datetime, unit: Unit, *, week_start: int = 0) -> datetime:
    """Start of the unit that holds the moment (DATE_TRUNC)."""
    day = datetime.combine(moment.date(), time())
    match unit:
        case Unit.SECOND:
            return moment.replace(microsecond=0)
        case Unit.MINUTE:
            return moment.replace(second=0, microsecond=0)
        case Unit.HOUR:
            return moment.replace(minute=0, second=0, microsecond=0)
        case Unit.DAY:
            return day
        case Unit.WEEK:
            return shift(day, Unit.DAY, -((day.weekday() - week_start) % 7))
        case Unit.MONTH:
            return day.replace(day=1)
        case Unit.QUARTER:
            return day.replace(month=(day.month - 1) // 3 * 3 + 1, day=1)
        case Unit.YEAR:
            return day.replace(month=1, day=1)


def year(number: int) -> Interval:
    """The calendar year."""
    start = datetime(number, 1, 1)  # noqa: DTZ001 - naive by contract
    return Interval(start, shift(start, Unit.YEAR, 1))


def day(value: date) -> Interval:
    """The calendar day."""
    start = datetime.combine(value, time())
    return Interval(start, shift(start, Unit.DAY, 1))


_LITERAL = re.compile(
    r"""(?P<year>\d{4})
        (?:[-/.](?P<month>\d{1,2})
            (?:[-/.](?P<day>\d{1,2})
                (?:[T ](?P<hour>\d{1,2}):(?P<minute>\d{2})(?::(?P<second>\d{2})(?:[.,](?P<fraction>\d{1,9}))?)?
                    \s*(?:Z|UTC|[+-]\d{2}:?\d{2})?
                )?
            )?
        )?""",
    re.VERBOSE,
)
_COMPACT = re.compile(r"(?P<year>(?:19|20)\d{2})(?P<month>0[1-9]|1[0-2])(?P<day>0[1-9]|[12]\d|3[01])?")


# Values are read again and again and are worth keeping; whole texts would fill the memory.
_SHORT = 64


def parse_moment(text: str) -> Moment | None:
    """Read an ISO-like literal as SQL has it: `2024`, `2024-03`, `2024-03-01`, `20240301`, `2024-03-01 12:30:00`.

    Returns:
        None when the text is no date; a bare year counts as one only between 1000 and 2999.
    """
    return _short_moment(text) if len(text) <= _SHORT else _moment(text)


def _moment(text: str) -> Moment | None:
    found = _LITERAL.fullmatch(text.strip()) or _COMPACT.fullmatch(text.strip())
    if found is None or not 1000 <= int(found["year"]) <= 2999:
        return None
    parts = found.groupdict()
    names = ("year", "month", "day", "hour", "minute", "second")
    given = [int(parts[name]) for name in names if parts.get(name)]
    precision = (Unit.YEAR, Unit.MONTH, Unit.DAY, Unit.HOUR, Unit.MINUTE, Unit.SECOND)[len(given) - 1]
    try:
        start = datetime(*(given + [1] * (3 - len(given))))  # type: ignore[arg-type]  # noqa: DTZ001 - naive by contract
    except ValueError:
        return None
    if parts.get("fraction"):
        start = start.replace(microsecond=int(parts["fraction"][:6].ljust(6, "0")))
    return Moment(start, precision)


_short_moment = lru_cache(maxsize=4096)(_moment)
