"""Times: absolute, fiscal and relative to the clock; which side of them counts; which column they are about."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from decimal import Decimal

from stef.phrasebook import Mask, Section
from stef.spec import Filter, Op
from stef.timespan import Interval, Unit, day, parse_moment, shift, year
from stef.tongues.amounts import spelled
from stef.tongues.sheet import Item, Sheet, condition
from stef.values import Many, Number, Unknown, Unresolved, Value

_LITERAL = re.compile(
    r"(?<![\w.-])(?:\d{4}([-/.])\d{1,2}\1\d{1,2}(?:[t ]\d{1,2}:\d{2}(?::\d{2})?)?|\d{1,2}([-/.])\d{1,2}\2\d{4}"
    r"|\d{1,2}/\d{4}|\d{4}[-/](?:0[1-9]|1[0-2]))(?![\d-])"
)
_QUARTER = re.compile(r"(?<![\w])(?:q([1-4])[ -/]?([1-9]\d{3})|([1-9]\d{3})[ -/]?q([1-4]))(?!\d)")
_HALF = 6
_MOST = Decimal(100_000)


def found_times(sheet: Sheet) -> list[Item]:
    """All times but bare years; they are not put down yet."""
    literals = [(match, _literal(match[0])) for match in _LITERAL.finditer(sheet.line)]
    found = [sheet.item(*match.span(), Mask.TIME, value) for match, value in literals if value is not None]
    for match in _QUARTER.finditer(sheet.line):
        number, count = (match[2], match[1]) if match[1] else (match[3], match[4])
        found.append(sheet.item(*match.span(), Mask.TIME, _part(int(number), 3, int(count))))
    for payload, match in sheet.find(Section.TIME):
        item = _phrase(sheet, payload, match)
        if item is not None and all(item.end <= other.start or item.start >= other.end for other in found):
            found.append(item)
    return found


def _literal(text: str) -> Interval | None:
    moment = parse_moment(text)
    if moment is not None:
        return moment.span
    if text[:4].isdigit():  # the year stands first, and it is no date all the same: hour 24, a second 60, year 9999
        return None
    parts = [int(part) for part in re.split(r"[-/.]", text)]
    try:
        start = datetime(parts[-1], parts[-2], parts[0] if len(parts) == 3 else 1)  # noqa: DTZ001 - naive by contract
    except ValueError:
        return None
    return day(start) if len(parts) == 3 else Interval(start, shift(start, Unit.MONTH, 1))


def _part(number: int, months: int, count: int) -> Interval:
    start = shift(datetime(max(number, 1), 1, 1), Unit.MONTH, months * (count - 1))  # noqa: DTZ001 - naive by contract
    return Interval(start, shift(start, Unit.MONTH, months))


def _phrase(sheet: Sheet, payload: str, match: re.Match[str]) -> Item | None:
    action, _, rest = payload.partition(" ")
    value = _ACTIONS[action](sheet, rest, match.groupdict())
    if value is None:
        return None
    certainty = 0.45 if action in {"bare_month", "bare_part"} else 0.85
    if isinstance(value, Unknown):
        value = replace(value, text=sheet.source(*match.span()))
    yearless = not match.groupdict().get("y") and (action == "bare_month" or (action == "date" and not rest))
    return sheet.item(*match.span(), Mask.TIME, value, certainty=certainty, yearless=yearless)


_UNTOLD = Unknown("", Unresolved.CLOCK)
_Slots = dict[str, str | None]


def _offset(sheet: Sheet, rest: str, slots: _Slots) -> Value | None:
    """`offset -1` with {p}, or `offset -1 month`."""
    count, _, unit = rest.partition(" ")
    period = Unit(unit or sheet.book.periods[slots["p"] or ""])
    return sheet.calendar.period(period, int(count)) or _UNTOLD


def _fiscal(sheet: Sheet, rest: str, slots: _Slots) -> Value | None:
    """`fiscal` with {y}, `fiscal start` where years are named after the one that they begin in, or `fiscal -1 year`."""
    if slots.get("y"):
        late = rest == "start" and sheet.calendar.fiscal_year_start_month != 1
        return sheet.calendar.fiscal_year(int(slots["y"] or 0) + late)
    count, _, unit = rest.partition(" ")
    return sheet.calendar.period(Unit(unit), int(count), fiscal=True) or _UNTOLD


def _count(sheet: Sheet, text: str | None) -> int | None:
    number = spelled(sheet.book, text or "") if not (text or "").isdecimal() else Number(Decimal(text or "0"))
    return int(number.value) if number is not None and 0 < number.value < _MOST else None


def _rolling(sheet: Sheet, rest: str, slots: _Slots) -> Value | None:
    """`rolling` with {i} and {p}, or `rolling 1 week`, `rolling month` with {i}."""
    words = rest.split()
    count = int(words[0]) if words and words[0].isdecimal() else _count(sheet, slots.get("i"))
    unit = Unit(words[-1] if words else sheet.book.periods[slots["p"] or ""])
    return None if count is None else sheet.calendar.rolling(unit, count) or _UNTOLD


def _ago(sheet: Sheet, rest: str, slots: _Slots) -> Value | None:
    """`ago` with {i} and {p}: the day of then."""
    count = _count(sheet, slots.get("i"))
    unit = Unit(rest or sheet.book.periods[slots["p"] or ""])
    if count is None or sheet.calendar.today is None:
        return None if count is None else _UNTOLD
    return day(shift(sheet.calendar.today, unit, -count))


def _elapsed(sheet: Sheet, rest: str, slots: _Slots) -> Value | None:
    """`elapsed` with {i} and {p}: before the day of then ("older than 30 days"); years are an age."""
    unit = Unit(rest or sheet.book.periods[slots["p"] or ""])
    then = None if unit is Unit.YEAR else _ago(sheet, unit, slots)
    return Interval(None, then.start) if isinstance(then, Interval) else then


def _to_date(sheet: Sheet, rest: str, slots: _Slots) -> Value | None:
    unit = Unit(rest or sheet.book.periods[slots["p"] or ""])
    return sheet.calendar.to_date(unit) or _UNTOLD


def _year(_: Sheet, rest: str, slots: _Slots) -> Value | None:
    del rest
    return year(int(slots["y"] or 0))


def _month(sheet: Sheet, rest: str, slots: _Slots) -> Value | None:
    """`month` with {m} and {y}; `month -1` with {m} in the year that is so far away."""
    number = _number_of_year(sheet, rest, slots)
    return None if number is None else _part(number, 1, int(sheet.book.months[slots["m"] or ""]))


def _number_of_year(sheet: Sheet, rest: str, slots: _Slots) -> int | None:
    if slots.get("y"):
        return int(slots["y"] or 0)
    return sheet.calendar.now.year + int(rest or 0) if sheet.calendar.now else None


def _bare_month(sheet: Sheet, rest: str, slots: _Slots) -> Value | None:
    """A month without a year: the last one of that name."""
    del rest
    month, now = int(sheet.book.months[slots["m"] or ""]), sheet.calendar.now
    return _part(now.year if month <= now.month else now.year - 1, 1, month) if now else _UNTOLD


def _bare_part(sheet: Sheet, rest: str, slots: _Slots) -> Value | None:
    """A quarter or half without a year: this year's."""
    now = sheet.calendar.now
    return _parted(sheet, rest, {**slots, "y": str(now.year)}) if now else _UNTOLD


def _dated(sheet: Sheet, rest: str, slots: _Slots) -> Value | None:
    """`date` with {d}, {m} and {y}; without a year, this one."""
    number = _number_of_year(sheet, rest, slots)
    if number is None:
        return _UNTOLD
    try:
        return day(datetime(number, int(sheet.book.months[slots["m"] or ""]), int(slots["d"] or 0)))  # noqa: DTZ001
    except ValueError:
        return None


def _parted(sheet: Sheet, rest: str, slots: _Slots) -> Value | None:
    """`part quarter` or `part half` with {q}, in the year {y}; `part half 1` says which; `part half * -1` last year."""
    words = rest.split()
    number = _number_of_year(sheet, words[2] if len(words) > 2 else "", slots)
    said = slots.get("q") or ""
    count = int(words[1]) if len(words) > 1 and words[1] != "*" else int(sheet.book.ordinals.get(said, said))
    months = 3 if words[0] == "quarter" else _HALF
    return _part(number, months, count) if number is not None and count * months <= 12 else None


def _fiscal_part(sheet: Sheet, rest: str, slots: _Slots) -> Value | None:
    """`fiscal_part` with {q} and {y}: a quarter of a fiscal year."""
    del rest
    start = sheet.calendar.fiscal_year(int(slots["y"] or 0)).start
    said = slots["q"] or ""
    if start is None:
        return None
    first = shift(start, Unit.MONTH, 3 * (int(sheet.book.ordinals.get(said, said)) - 1))
    return Interval(first, shift(first, Unit.MONTH, 3))


_ACTIONS: dict[str, Callable[[Sheet, str, _Slots], Value | None]] = {
    "offset": _offset,
    "fiscal": _fiscal,
    "fiscal_part": _fiscal_part,
    "rolling": _rolling,
    "ago": _ago,
    "elapsed": _elapsed,
    "to_date": _to_date,
    "year": _year,
    "month": _month,
    "bare_month": _bare_month,
    "bare_part": _bare_part,
    "date": _dated,
    "part": _parted,
}


# ── which side counts ───────────────────────────────────────────────────────────────────────────────────────────────


def times(sheet: Sheet) -> list[Filter]:
    """Conditions on the times that were put down: with a side, between two, in a list, alone."""
    found: list[Filter] = []
    for payload, match in sheet.find(Section.SIDE):
        first = sheet.named(match, "t")
        last = sheet.named(match, "t2") if "t2" in match.groupdict() and match["t2"] else None
        if payload != "compare":
            value = _sided(first, last, payload)
            found.append(_condition(sheet, match.span(), value, _certainty(first, payload)))
        sheet.use(*match.span())
    found += [_alone(sheet, item) for item in _left(sheet, Mask.TIME)]
    for item in _left(sheet, Mask.YEAR):
        found.append(_alone(sheet, item))
    return found


def _left(sheet: Sheet, mask: Mask) -> list[Item]:
    return [item for item in sheet.parts(0, len(sheet.line)) if isinstance(item, Item) and item.mask is mask]


def _alone(sheet: Sheet, item: Item) -> Filter:
    certainty = item.certainty
    if item.mask is Mask.YEAR:
        certainty = 0.4 if isinstance(sheet.behind(item.end), Item) else 0.6
    found = _condition(sheet, (item.start, item.end), _span_of(item), certainty)
    sheet.use(item.start, item.end)
    return found


def _certainty(item: Item, payload: str) -> float:
    if item.mask is Mask.YEAR:
        return 0.85
    said = payload == "between" or not item.yearless or item.certainty >= 0.5
    return max(item.certainty, 0.7) if said else item.certainty


def _span_of(item: Item) -> Value:
    if isinstance(item.value, Number):
        return year(int(item.value.value))
    return item.value if item.value is not None else Unknown(item.text, Unresolved.CLOCK)


def _sided(first: Item, last: Item | None, payload: str) -> Value:
    start = _span_of(first)
    end = _span_of(last) if last is not None else start
    if not isinstance(start, Interval) or not isinstance(end, Interval):
        return Unknown(first.text, Unresolved.CLOCK)
    match payload:
        case "since":
            return Interval(start.start, None)
        case "after":
            return Interval(start.end, None)
        case "before":
            return Interval(None, start.start)
        case "until":
            return Interval(None, start.end)
        case "between":
            return _spanned(start, end, first, last)
        case "either" if start.end != end.start:
            return Many((start, end))
        case "either":
            return Interval(start.start, end.end)
        case _:
            return start


def _spanned(start: Interval, end: Interval, first: Item, last: Item | None) -> Interval:
    """From the one to the other; a date without a year is of the year that the other one says."""
    if start.start is None or end.start is None or last is None:
        return Interval(start.start, end.end)
    apart = start.start.year - end.start.year
    if first.yearless and not last.yearless:
        return Interval(shift(start.start, Unit.YEAR, -apart), end.end)
    if last.yearless and not first.yearless and end.end is not None:
        return Interval(start.start, shift(end.end, Unit.YEAR, apart))
    return Interval(start.start, end.end)


def _condition(sheet: Sheet, span: tuple[int, int], value: Value, certainty: float) -> Filter:
    column, implied = _column(sheet, span[0])
    op = Op.IN if isinstance(value, Many) else Op.RANGE
    return condition(sheet, *span, column, op, value, certainty, implied=implied)


def _column(sheet: Sheet, start: int) -> tuple[str, bool]:
    """The word for a time column right before a time; "" for none."""
    item = sheet.before(start, over=sheet.book.loose)
    if item is None or item.mask not in {Mask.COLUMN, Mask.WORD, Mask.NAME, Mask.CLASS}:
        return "", False
    plain = sheet.book.read_as(item.text)
    if not any(plain.endswith(ending) or plain.startswith(ending) for ending in sheet.book.dated):
        return "", False
    return (item.column or item.text).lower(), item.mask is not Mask.COLUMN
