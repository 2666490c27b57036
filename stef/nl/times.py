"""Conditions on time: which side of a date counts, and which column it is about."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from stef.lexicon import Ending, Kind, Role
from stef.nl.dates import When, ago, is_season, read_when, year_at
from stef.nl.numbers import read_amount
from stef.nl.reading import Reading
from stef.nl.tokens import Form
from stef.spec import Filter, Op, Scope
from stef.timespan import Interval, Unit
from stef.values import Many, Text, Unknown, Unresolved, Value

_SIDES = {
    "since": lambda span: Interval(span.start, None),
    "after": lambda span: Interval(span.end, None),
    "before": lambda span: Interval(None, span.start),
    "until": lambda span: Interval(None, span.end),
}
_PLAIN = {"in", "by", "from", ""}
# "After the start of May" is "since May"; the other pairs of side and edge say what the side alone says.
_EDGES = {
    ("after", "start"): "since",
    ("until", "start"): "before",
    ("by", "start"): "before",
    ("since", "end"): "after",
    ("from", "end"): "after",
    ("before", "end"): "until",
}
_TRAILING = {Op.GE: "since", Op.LE: "until"}
# How far back a verb or noun may stand that names the column.
_REACH = 5


def times(r: Reading) -> list[Filter]:
    """All conditions on time, left to right."""
    if not r.moments and not (r.holds(Kind.EDGE) and r.holds(Kind.PERIOD)):
        return []
    found: list[Filter] = []
    end = 0
    for i in r.figures(*_STARTS):
        if i not in r.moments and not r.has(i, Kind.BETWEEN, Kind.DIRECTION):
            continue
        read = None if i < end or r.taken[i] else _between(r, i) or _directed(r, i) or _bare(r, i)
        if read is not None:
            end, condition = read
            found.append(condition)
            r.take(i, end)
    return found


_STARTS = (
    Kind.BETWEEN,
    Kind.DIRECTION,
    Kind.MONTH,
    Kind.DAY,
    Kind.TO_DATE,
    Kind.RELATIVE,
    Kind.ORDINAL,
    Kind.FISCAL,
    Kind.NUMBER,
    Kind.EDGE,
)


def _between(r: Reading, i: int) -> tuple[int, Filter] | None:
    """Read "between D and E", "from D to E", "D to E"."""
    side = r.mark(i, Kind.DIRECTION)
    lead = r.mark(i, Kind.BETWEEN) or (side if side and side.payload in {"from", "in"} else None)
    start = lead.end if lead else i
    if lead is None and not _may_begin(r, i):
        return None
    first = _read(r, start)
    if first is None or not r.has(first.end, Kind.TO):
        return None
    joined_by_and = r.has(first.end, Kind.AND)
    if joined_by_and and not r.has(i, Kind.BETWEEN):
        return None
    last = _read(r, first.end + 1)
    if last is None or not _same_kind(r, start, first, first.end + 1, last):
        return None
    certainty = max(0.0 if lead is None else 0.85, min(first.certainty, last.certainty))
    if min(first.certainty, last.certainty) == 0.45:
        certainty = 0.45
    if first.span and last.span:
        value: Value = Interval(first.span.start, last.span.end)
    else:
        value = Unknown(r.source(i, last.end), Unresolved.CLOCK)
    return last.end, _condition(r, i, last.end, value, certainty)


def _may_begin(r: Reading, i: int) -> bool:
    return r[i].form is Form.NUMBER or r[i].form is Form.DATE or r.has(i, Kind.MONTH)


def _same_kind(r: Reading, i: int, first: When, j: int, last: When) -> bool:
    """Two bare numbers are years only when they are in order and close."""
    a, b = year_at(r, i), year_at(r, j)
    if a is not None and b is not None and first.end == i + 1 and last.end == j + 1:
        return 0 < b - a <= 150
    return first.unit is last.unit or first.relative or last.relative or first.unit is not Unit.YEAR


def _read(r: Reading, i: int) -> When | None:
    """A date behind "the year", "the month of", "the end of" and the like."""
    edge = r.mark(i, Kind.EDGE)
    if edge is not None:
        found = _current(r, edge.end) or _read(r, edge.end)
        return None if found is None else replace(found, edge=edge.payload)
    i = r.skip(i, Kind.ARTICLE)
    mark = r.mark(i, Kind.YEAR)
    found = read_when(r, mark.end if mark else i)
    if found is not None and mark is not None and found.unit is Unit.YEAR:
        return replace(found, certainty=max(found.certainty, 0.9))
    if found is None and r.has(i, Kind.PERIOD) and r.has(i + 1, Kind.OF):
        found = read_when(r, i + 2)
        return None if found is None or found.unit is Unit.YEAR else found
    return found


def _current(r: Reading, i: int) -> When | None:
    """Read "the year", "the month" behind "the beginning of": the one that holds the question's moment."""
    start = r.skip(i, Kind.ARTICLE)
    period = r.mark(start, Kind.PERIOD)
    if period is None or start == i or r.has(period.end, Kind.OF) or year_at(r, period.end) is not None:
        return None
    unit = Unit(period.payload)
    return When(period.end, r.calendar.to_date(unit), 0.8, relative=True, unit=unit)


def _directed(r: Reading, i: int) -> tuple[int, Filter] | None:
    """Read "since D", "before D", "in D", "in D or E"."""
    mark = r.mark(i, Kind.DIRECTION)
    if mark is None:
        return None
    when, side = _read(r, mark.end), mark.payload
    if when is None or not r.free(mark.end, when.end):
        return None
    number = when.certainty == 0.4 and not when.relative
    if r.has(i, Kind.OF) and number and _is_amount(r, i):
        return None
    if side in _PLAIN and (more := _listed(r, i, when)):
        return more
    certainty = 0.9 if number and not _counts_something(r, when.end) else when.certainty
    if number and r.has(i, Kind.OF) and not r.has(i - 1, Kind.PERIOD):
        certainty = min(certainty, 0.7)
    side, certainty, end = _side(r, when, side, certainty)
    value = _one_side(r, i, when, side)
    return end, _condition(r, i, end, value, certainty)


def _side(r: Reading, when: When, side: str, certainty: float) -> tuple[str, float, int]:
    """The side of the time that counts, how sure that is, and the token behind all of it."""
    end = when.end
    trailing = r.mark(end, Kind.AFTER_VALUE)
    if side in _PLAIN and trailing is not None and Op(trailing.payload) in _TRAILING:
        return _TRAILING[Op(trailing.payload)], certainty, trailing.end
    if side == "from" and r.has(end, Kind.ONWARD):
        return "since", certainty, end + 1
    if turned := _EDGES.get((side, when.edge)):
        return turned, certainty, end
    match side:
        case "from" if when.unit is Unit.DAY or when.edge:
            return "since", min(certainty, 0.7), end
        case "by":
            return "until", min(certainty, 0.5), end
        case "in" if when.edge:
            return side, min(certainty, 0.45), end  # how long a beginning lasts, nobody says
        case _:
            return side, certainty, end


def _is_amount(r: Reading, i: int) -> bool:
    """Whether the year-like number behind "of" is an amount ("a score of 2000", "with a capacity of 1900")."""
    if r.has(i - 1, Kind.PERIOD):
        return False
    start = i
    while r.is_noun(start - 1) or r.has(start - 1, Kind.AGGREGATE, Kind.STATE):
        start -= 1
    return start == i or r.has(start - 1, Kind.HAVE, Kind.RELATIVE_PRONOUN) or r.plays(start - 1, Role.INDEFINITE)


def _one_side(r: Reading, i: int, when: When, side: str) -> Value:
    if when.span is None:
        return Unknown(r.source(i, when.end), Unresolved.CLOCK)
    turn = _SIDES.get(side)
    return turn(when.span) if turn else when.span


def _counts_something(r: Reading, i: int) -> bool:
    """Whether a noun stands behind a number, so that it counts ("in 2024 cases")."""
    return r.is_noun(i) and r.ends_as(i, Ending.PLURAL) and not r[i].is_capital and not r.has(i, Kind.DATED_NOUN)


def _listed(r: Reading, i: int, first: When) -> tuple[int, Filter] | None:
    """Read "in 2022 and 2023", "in May or June 2024"."""
    members, end = [first], first.end
    while r.has(end, Kind.AND, Kind.OR) or r[end].text == ",":
        then = r.skip(end, Kind.AND, Kind.OR) if r[end].text != "," else r.skip(end + 1, Kind.AND, Kind.OR)
        following = read_when(r, r.skip(then, Kind.YEAR))
        if following is None or following.relative != first.relative:
            break
        members.append(following)
        end = following.end
    spans = [m.span for m in members if m.span is not None]
    if len(members) == 1 or len(spans) != len(members):
        return None
    if all(a.end == b.start for a, b in pairwise(spans)):
        return end, _condition(r, i, end, Interval(spans[0].start, spans[-1].end), 0.8)
    return end, replace(_condition(r, i, end, spans[0], 0.8), op=Op.IN, value=Many(tuple(spans)))


def _bare(r: Reading, i: int) -> tuple[int, Filter] | None:
    """A time without a preposition: "yesterday", "last month", "the 2024 budget", "2025-03-01"."""
    when = read_when(r, i)
    if when is None:
        if r[i].form is Form.DATE and is_season(r[i].text):
            return i + 1, replace(
                _condition(r, i, i + 1, Unknown("", Unresolved.EXPRESSION), 0.6), op=Op.EQ, value=Text(r[i].text)
            )
        return None
    certainty = when.certainty
    if year_at(r, i) is not None and when.end == i + 1:
        if named := _year_column(r, i, when):
            return named
        before = r.mark(i - 1, Kind.YEAR)
        year_noun = before is not None and before.end == i
        if not year_noun and (r.has(i - 1, Kind.OF) or _counts_something(r, i + 1) or r.has(i - 1, Kind.IDENTIFY)):
            return None
        label = r.plays(i - 1, Role.THE) and r.is_noun(i + 1)
        certainty = 0.85 if year_noun else 0.7 if label else 0.4
    if when.relative and r.ends(i, Kind.VERSUS) is not None:
        certainty = 0.4
    if r.has(i, Kind.ORDINAL) and when.certainty == 0.4:
        return None
    side, certainty, end = _side(r, when, "", certainty)
    return end, _condition(r, i, end, _one_side(r, i, when, side), certainty)


def _year_column(r: Reading, i: int, when: When) -> tuple[int, Filter] | None:
    """Read "model year is 2022 or later", "model year 2022": a year that is a column of its own."""
    j = i - 1
    while r.has(j, Kind.BE):
        j -= 1
    mark = r.mark(j, Kind.YEAR)
    if mark is None or mark.end != j + 1 or (j == i - 1 and not r.is_noun(j - 1)):
        return None
    start = j - 1 if r.is_noun(j - 1) and not r.has(j - 1, Kind.FISCAL) else j
    side, certainty, end = _side(r, when, "", 0.8)
    found = _condition(r, i, end, _one_side(r, i, when, side), certainty)
    return end, replace(found, column=r.words(start, j + 1))


def _condition(r: Reading, start: int, end: int, value: Value, certainty: float) -> Filter:
    return Filter(
        column=_column(r, start),
        op=Op.RANGE,
        value=value,
        scope=Scope.QUESTION,
        certainty=certainty,
        text=r.source(start, end),
        span=r.span(start, end),
    )


def _column(r: Reading, start: int) -> str:
    """The dated verb or noun before the time, within a few words; "" for none."""
    for i in range(start - 1, max(start - 1 - _REACH, -1), -1):
        if r[i].text in {".", "?", "!", ";", ","} or (r.taken[i] and r[i].form is not Form.WORD):
            return ""
        if r.has(i, Kind.DATED_NOUN):
            head = i - 1 if r.is_noun(i - 1) or r.has(i - 1, Kind.DATED_VERB) else i
            return r.words(head, i + 1)
        if r.has(i, Kind.DATED_VERB) and not (i == 0 or r.has(i + 1, Kind.OF)):
            return r.low(i)
        if r.has(i, Kind.RELATIVE_PRONOUN) and i != start - 1:
            return ""
    return ""


def elapsed(r: Reading, start: int, i: int, op: Op) -> tuple[int, Filter] | None:
    """An amount of time at `i` behind a comparison at `start`: "more than 3 months ago", "older than 30 days"."""
    amount = read_amount(r, i)
    if amount is None or not r.has(amount.bare_end, Kind.PERIOD):
        return None
    passed = r.has(amount.bare_end + 1, Kind.AGO)
    unit = Unit(r.marked(amount.bare_end, Kind.PERIOD).payload)
    comparative = r.mark(start, Kind.COMPARATIVE)
    old = comparative is not None and comparative.payload.startswith("age ") and unit is not Unit.YEAR
    if not passed and not old:
        return None
    end = amount.bare_end + (2 if passed else 1)
    then = ago(r.calendar, unit, amount.number.value)
    if then is None:
        value: Value = Unknown(r.source(start, end), Unresolved.CLOCK)
    else:
        value = Interval(None, then.start) if op in {Op.GT, Op.GE} else Interval(then.start, None)
    return end, _condition(r, start, end, value, 0.6)


def overdue(r: Reading, start: int, end: int) -> Value:
    """What lies before today, or unknown without a clock."""
    today = r.calendar.today
    return Unknown(r.source(start, end), Unresolved.CLOCK) if today is None else Interval(None, today)
