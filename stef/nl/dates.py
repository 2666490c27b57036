"""Dates and periods in a question, as half-open intervals: absolute, fiscal and relative to the clock."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from stef.lexicon import Ending, Kind, Role
from stef.nl.numbers import read_amount
from stef.nl.reading import Reading
from stef.nl.tokens import Form
from stef.timespan import Calendar, Interval, Unit, day, parse_moment, shift, year

_SLASHED = re.compile(r"(\d{1,2})[-/.](\d{1,2})[-/.](\d{4})")
_MONTH_YEAR = re.compile(r"(\d{1,2})/(\d{4})")
_SEASON = re.compile(r"\d{4}/\d{2,4}")
_PART = re.compile(r"([qh])([1-4])", re.IGNORECASE)
_FISCAL_NAME = re.compile(r"fy-?'?(\d{2}|\d{4})", re.IGNORECASE)
_DECADE = re.compile(r"(\d{3}0)s")
_DAY_NUMBER = re.compile(r"(\d{1,2})(?:st|nd|rd|th)?")
_COUNTED = {"-1": -1, "0": 0, "1": 1}


@dataclass(frozen=True, slots=True)
class When:
    """A date or period in the text.

    Attributes:
        end: Token behind it.
        span: What it covers; None when that cannot be told (a relative date without a clock).
        certainty: 0 to 1: how sure it is that this is a time, and this one.
        relative: It hangs on the clock.
        unit: Precision of what was said.
        edge: `start` or `end` when only that end of the period was named, else "".
    """

    end: int
    span: Interval | None
    certainty: float
    relative: bool = False
    unit: Unit = Unit.DAY
    edge: str = ""


def read_when(r: Reading, i: int) -> When | None:
    """Read the date or period that begins at a token, or None.

    Whether a bare number is a year at all, the words around it must tell; by itself it comes with a certainty of 0.4.
    """
    if i not in r.moments:
        return None
    token = r[i]
    if token.form is Form.DATE:
        return _literal(token.text, i)
    if token.form is Form.NUMBER:
        return _day_first(r, i) or _ago(r, i) or _calendar_year(r, i)
    if token.form is not Form.WORD:
        return None
    for form in (_today, _to_date, _ago, _month_first, _part, _fiscal_year, _relative, _day_first, _decade):
        found = form(r, i)
        if found is not None:
            return found
    return None


def is_season(text: str) -> bool:
    """Whether a literal such as `2008/2009` names a season, which is a label and no date."""
    return bool(_SEASON.fullmatch(text)) and not _MONTH_YEAR.fullmatch(text) and parse_moment(text) is None


def _literal(text: str, i: int) -> When | None:
    moment = parse_moment(text)
    if moment is not None:
        return When(i + 1, moment.span, 0.9, unit=moment.precision)
    if found := _MONTH_YEAR.fullmatch(text):
        return _month(int(found[2]), int(found[1]), i + 1)
    found = _SLASHED.fullmatch(text)
    if found is None:
        return None
    first, second, number = (int(part) for part in found.groups())
    ambiguous = first <= 12 and second <= 12 and first != second and "." not in text
    month, date = (second, first) if first > 12 or "." in text else (first, second)
    return _date(number, month, date, i + 1, 0.45 if ambiguous else 0.9)


def _date(number: int, month: int, date: int, end: int, certainty: float = 0.9) -> When | None:
    try:
        span = day(datetime(number, month, date))  # noqa: DTZ001 - naive by contract
    except ValueError:
        return None
    return When(end, span, certainty)


def _month(number: int, month: int, end: int, certainty: float = 0.9) -> When | None:
    if not (1 <= month <= 12 and 1 <= number <= 9998):
        return None
    start = datetime(number, month, 1)  # noqa: DTZ001 - naive by contract
    return When(end, Interval(start, shift(start, Unit.MONTH, 1)), certainty, unit=Unit.MONTH)


def year_at(r: Reading, i: int) -> int | None:
    """The year that a number token names (1800 to 2199), or None."""
    text = r[i].text
    if r[i].form is not Form.NUMBER or len(text) != 4 or not text.isdecimal():
        return None
    return int(text) if 1800 <= int(text) <= 2199 else None


def _calendar_year(r: Reading, i: int) -> When | None:
    number = year_at(r, i)
    if number is None:
        return None
    part = _PART.fullmatch(r[i + 1].text)
    if part:
        return _part_of(number, part[1].lower(), int(part[2]), i + 2)
    return When(i + 1, year(number), 0.4, unit=Unit.YEAR)


def _trailing_year(r: Reading, i: int) -> tuple[int | None, int]:
    """The year behind a month or quarter: "2025", ", 2025", "of 2025", "of the year 2025"."""
    j = i + 1 if r[i].text in {",", "-"} or r.has(i, Kind.OF) or r.plays(i, Role.IN) else i
    mark = r.mark(j, Kind.YEAR)
    j = mark.end if mark else j
    number = year_at(r, j)
    return (number, j + 1) if number is not None else (None, i)


def _month_first(r: Reading, i: int) -> When | None:
    mark = r.mark(i, Kind.MONTH)
    if mark is None or (len(r[i].text) <= 4 and not r[i].is_capital):
        return None
    month, j = int(mark.payload), mark.end
    date = _DAY_NUMBER.fullmatch(r[j].text)
    if date and year_at(r, j) is None:
        number, end = _trailing_year(r, j + 1)
        if number is not None:
            return _date(number, month, int(date[1]), end)
    number, end = _trailing_year(r, j)
    if number is not None:
        return _month(number, month, end)
    return _bare_month(r, month, j) if r[i].is_capital else None


def _bare_month(r: Reading, month: int, end: int) -> When:
    now = r.calendar.now
    found = _month(now.year if month <= now.month else now.year - 1, month, end, 0.4) if now else None
    return found or When(end, None, 0.4, relative=True, unit=Unit.MONTH)


def _day_first(r: Reading, i: int) -> When | None:
    date = _DAY_NUMBER.fullmatch(r[i].text) if r[i].has_digit else None
    if date is None:
        return None
    j = i + 2 if r.has(i + 1, Kind.OF) else i + 1
    mark = r.mark(j, Kind.MONTH)
    if mark is None:
        return None
    number, end = _trailing_year(r, mark.end)
    return None if number is None else _date(number, int(mark.payload), int(date[1]), end)


def _part(r: Reading, i: int) -> When | None:
    """`Q3 2024`, `H1 of 2024`, "the third quarter of 2024", "first half of 2024"."""
    part = _PART.fullmatch(r[i].text) if r[i].has_digit else None
    ordinal = r.mark(i, Kind.ORDINAL)
    if part:
        letter, count, end = part[1].lower(), int(part[2]), i + 1
    elif ordinal and r.has(ordinal.end, Kind.QUARTER, Kind.HALF):
        letter = "q" if r.has(ordinal.end, Kind.QUARTER) else "h"
        count, end = int(ordinal.payload), ordinal.end + 1
    else:
        return None
    if fiscal := _fiscal_year(r, r.skip(end, Kind.OF)):
        months = 3 if letter == "q" else 6
        start = fiscal.span.start if fiscal.span else None
        return fiscal if start is None else _months(shift(start, Unit.MONTH, months * (count - 1)), months, fiscal.end)
    number, after = _trailing_year(r, end)
    if number is not None:
        return _part_of(number, letter, count, after)
    if not part:
        return None
    now = r.calendar.now
    found = _part_of(now.year, letter, count, end) if now else None
    return When(end, found.span if found else None, 0.4, relative=True, unit=Unit.QUARTER)


def _part_of(number: int, letter: str, count: int, end: int) -> When | None:
    months = 3 if letter == "q" else 6
    if not 1 <= count <= 12 // months:
        return None
    return _months(datetime(number, months * (count - 1) + 1, 1), months, end)  # noqa: DTZ001 - naive by contract


def _months(start: datetime, months: int, end: int) -> When:
    return When(end, Interval(start, shift(start, Unit.MONTH, months)), 0.9, unit=Unit.QUARTER)


def _fiscal_year(r: Reading, i: int) -> When | None:
    """`FY2024`, `FY 24`, "fiscal year 2024"."""
    name = _FISCAL_NAME.fullmatch(r[i].text) if r[i].has_digit else None
    if name:
        number = int(name[1]) if len(name[1]) == 4 else 2000 + int(name[1])
        return When(i + 1, r.calendar.fiscal_year(number), 0.9, unit=Unit.YEAR) if 1 < number < 9998 else None
    fiscal = r.mark(i, Kind.FISCAL)
    if fiscal is None:
        return None
    full = year_at(r, fiscal.end)
    if full is not None:
        return When(fiscal.end + 1, r.calendar.fiscal_year(full), 0.9, unit=Unit.YEAR)
    short = r[fiscal.end].text
    if fiscal.payload == "short" and len(short) == 2 and short.isdecimal():
        return When(fiscal.end + 1, r.calendar.fiscal_year(2000 + int(short)), 0.9, unit=Unit.YEAR)
    return None


def _today(r: Reading, i: int) -> When | None:
    mark = r.mark(i, Kind.DAY)
    if mark is None:
        return None
    return When(mark.end, r.calendar.period(Unit.DAY, int(mark.payload)), 0.85, relative=True)


def _to_date(r: Reading, i: int) -> When | None:
    mark = r.mark(i, Kind.TO_DATE)
    if mark is None:
        return None
    return When(mark.end, r.calendar.to_date(Unit(mark.payload)), 0.85, relative=True)


def _relative(r: Reading, i: int) -> When | None:
    """Read "last month", "this fiscal year", "the past 30 days"."""
    mark = r.mark(i, Kind.RELATIVE)
    if mark is None:
        return None
    j = mark.end
    fiscal = r.mark(j, Kind.FISCAL) if not r.has(j, Kind.PERIOD) else None
    if fiscal:
        # "fiscal year" is one phrase, "fiscal quarter" two words.
        return _period(r, mark.payload, fiscal.end - 1, fiscal=True) or _period(
            r, mark.payload, fiscal.end, fiscal=True
        )
    amount = read_amount(r, j)
    if amount is None or not r.has(amount.bare_end, Kind.PERIOD):
        return _period(r, mark.payload, j, fiscal=False)
    period = r.marked(amount.bare_end, Kind.PERIOD)
    count = int(amount.number.value)
    if mark.payload != "-1" or not 0 < count < 10000:
        return None
    return When(
        period.end, r.calendar.rolling(Unit(period.payload), count), 0.75, relative=True, unit=Unit(period.payload)
    )


def _period(r: Reading, offset: str, i: int, *, fiscal: bool) -> When | None:
    period = r.mark(i, Kind.PERIOD)
    if period is None or r.ends_as(i, Ending.PLURAL):
        return None
    unit = Unit(period.payload)
    span = r.calendar.period(unit, _COUNTED[offset], fiscal=fiscal)
    rolling = unit in {Unit.HOUR, Unit.MINUTE}
    return When(period.end, r.calendar.rolling(unit, 1) if rolling else span, 0.85, relative=True, unit=unit)


def _ago(r: Reading, i: int) -> When | None:
    """Read "3 months ago" as the day of then."""
    amount = read_amount(r, i)
    if amount is None or not r.has(amount.bare_end, Kind.PERIOD) or not r.has(amount.bare_end + 1, Kind.AGO):
        return None
    unit = Unit(r.marked(amount.bare_end, Kind.PERIOD).payload)
    return When(amount.bare_end + 2, ago(r.calendar, unit, amount.number.value), 0.6, relative=True, unit=unit)


def ago(calendar: Calendar, unit: Unit, count: Decimal) -> Interval | None:
    """The day `count` units before today, or None without a clock."""
    if calendar.today is None:
        return None
    return day(shift(calendar.today, unit, -int(min(abs(count), Decimal(100_000)))))


def _decade(r: Reading, i: int) -> When | None:
    found = _DECADE.fullmatch(r[i].text) if r[i].has_digit else None
    if found is None or not 1000 <= int(found[1]) <= 2190:
        return None
    start = year(int(found[1])).start
    assert start is not None  # noqa: S101 - a calendar year is bounded
    return When(i + 1, Interval(start, shift(start, Unit.YEAR, 10)), 0.9, unit=Unit.YEAR)
