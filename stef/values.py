"""Values of conditions in canonical form, shared by both readers.

A value is compared strictly, but only after folding: text after NFKC, case and white space; numbers as decimals with
their multipliers written out; booleans in every spelling; dates as half-open intervals.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal, InvalidOperation
from enum import StrEnum
from functools import lru_cache

from stef.timespan import Interval, parse_moment


@dataclass(frozen=True, slots=True)
class Text:
    """A string literal or the words of a question; `raw` is as written, `also` are other ways to say the same."""

    raw: str
    also: tuple[str, ...] = field(default=(), compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Number:
    """A number with its multiplier applied; `unit` is what was counted, when it was said (`kg`, `%`, `USD`)."""

    value: Decimal
    unit: str = ""


@dataclass(frozen=True, slots=True)
class Boolean:
    """A truth value."""

    value: bool


@dataclass(frozen=True, slots=True)
class Null:
    """NULL as a value; only `= NULL` has it, IS NULL is an operator."""


@dataclass(frozen=True, slots=True)
class Column:
    """Another column: a comparison of two."""

    name: str


@dataclass(frozen=True, slots=True)
class Placeholder:
    """A bind parameter without its value."""

    name: str


@dataclass(frozen=True, slots=True)
class NumberRange:
    """Both bounds inclusive: BETWEEN."""

    low: Decimal
    high: Decimal


@dataclass(frozen=True, slots=True)
class Many:
    """The members of an IN list, in the order of their folded form."""

    members: tuple[Text | Number | Boolean | Interval, ...]


@dataclass(frozen=True, slots=True)
class Anything:
    """`*` in a rule: any one value."""


class Unresolved(StrEnum):
    """Why a value cannot be told from the texts."""

    CLOCK = "clock"  # a relative date, and no `asked_at`
    EXPRESSION = "expression"  # an expression that is not evaluated here
    SUBQUERY = "subquery"


@dataclass(frozen=True, slots=True)
class Unknown:
    """A value that the texts do not settle; `text` is as written."""

    text: str
    why: Unresolved


Value = Text | Number | Boolean | Null | Column | Placeholder | NumberRange | Many | Anything | Unknown | Interval

# Names and values are read again and again and are worth keeping; whole texts would fill the memory.
SHORT = 64
_TRUE = frozenset({"true", "t", "yes", "y", "1", "on"})
_FALSE = frozenset({"false", "f", "no", "n", "0", "off"})
_SPACE = re.compile(r"\s+")
_QUOTES = str.maketrans({"’": "'", "‘": "'", "“": '"', "”": '"', "–": "-", "—": "-", "\u00a0": " "})


def fold(text: str) -> str:
    """Fold text for comparison: NFKC, typographic quotes and dashes, case, white space."""
    return _short_folded(text) if len(text) <= SHORT else _folded(text)


def _folded(text: str) -> str:
    if text.isascii():
        return _SPACE.sub(" ", text.lower()).strip()
    return _SPACE.sub(" ", unicodedata.normalize("NFKC", text).translate(_QUOTES).casefold()).strip()


_short_folded = lru_cache(maxsize=4096)(_folded)


def strip_accents(text: str) -> str:
    """Drop combining marks of Latin letters (Málaga → Malaga); other scripts keep theirs."""
    if text.isascii():
        return text
    parts = unicodedata.normalize("NFD", text)
    kept = [c for i, c in enumerate(parts) if not (unicodedata.combining(c) and i and parts[i - 1].isascii())]
    return unicodedata.normalize("NFC", "".join(kept))


def as_boolean(value: Value) -> bool | None:
    """Read a truth value in any spelling (`1`, `'Y'`, `true`), or None."""
    match value:
        case Boolean(flag):
            return flag
        case Number(number) if number in {0, 1}:
            return bool(number)
        case Text(raw):
            word = fold(raw)
            return True if word in _TRUE else False if word in _FALSE else None
        case _:
            return None


def as_number(value: Value) -> Decimal | None:
    """Read a number, also from a string literal such as `'42'`, or None."""
    match value:
        case Number(number):
            return number
        case Text(raw):
            return decimal(raw)
        case _:
            return None


def as_interval(value: Value) -> Interval | None:
    """Read a span of time: an interval, a date literal, or a bare year as text or number, or None."""
    match value:
        case Interval():
            return value
        case Text(raw):
            moment = parse_moment(raw)
            return moment.span if moment else None
        case Number(number, _) if number == number.to_integral_value() and 1900 <= number <= 2100:
            moment = parse_moment(str(int(number)))
            return moment.span if moment else None
        case _:
            return None


_MOST_DIGITS = 60


def decimal(text: str) -> Decimal | None:
    """Read plain digits as SQL has them (`-12.5`, `1e3`), or None; also for what no column could hold (`1e999999`)."""
    try:
        number = Decimal(text.strip())
    except InvalidOperation:
        return None
    return number if number.is_finite() and abs(number.adjusted()) <= _MOST_DIGITS else None


def same(left: Value, right: Value) -> bool:
    """Whether two values mean the same after folding; `Anything` equals every single value."""
    if isinstance(left, Text) and isinstance(right, Text):
        short = len(left.raw) <= SHORT and len(right.raw) <= SHORT
        equal = (_short_same if short else _same_texts)(left.raw, right.raw)
        return equal or _also(left, right.raw) or _also(right, left.raw)
    if isinstance(left, Number) and isinstance(right, Number):
        return left.value == right.value
    if left == right:
        return True
    match left, right:
        case (Anything(), Many() | Unknown() | Null() | Column()) | (
            Many() | Unknown() | Null() | Column(),
            Anything(),
        ):
            return False
        case (Anything(), _) | (_, Anything()):
            return True
        case (Many(a), Many(b)):
            return all(any(same(x, y) for y in b) for x in a) and all(any(same(x, y) for x in a) for y in b)
        case (Column(a), Column(b)):
            return fold(a.rpartition(".")[2]) == fold(b.rpartition(".")[2])
        case _:
            return _same_scalar(left, right)


def _same_texts(left: str, right: str) -> bool:
    return left == right or fold(left) == fold(right) or _same_scalar(Text(left), Text(right))


_short_same = lru_cache(maxsize=4096)(_same_texts)


def _also(value: Value, word: str) -> bool:
    """Whether a word is another way to say a text, accents left aside."""
    if not isinstance(value, Text) or not value.also:
        return False
    return strip_accents(fold(word)) in {strip_accents(fold(form)) for form in value.also}


def _same_scalar(left: Value, right: Value) -> bool:
    """Compare across types: 1 and true, '42' and 42, 2024 and the year's interval."""
    for a, b in zip(_scalars(left), _scalars(right), strict=True):
        if a is not None and b is not None:
            return a == b
    return False


_Scalars = tuple[Decimal | None, bool | None, Interval | None]


def _scalars(value: Value) -> _Scalars:
    """What a value is as a number, as a truth value and as a span of time."""
    match value:
        case Text(raw) if len(raw) <= SHORT:
            return _text_scalars(raw)
        case Number(number):
            return _number_scalars(number)
        case _:
            return as_number(value), as_boolean(value), as_interval(value)


@lru_cache(maxsize=4096)
def _text_scalars(raw: str) -> _Scalars:
    value = Text(raw)
    return as_number(value), as_boolean(value), as_interval(value)


@lru_cache(maxsize=4096)
def _number_scalars(number: Decimal) -> _Scalars:
    value = Number(number)
    return number, as_boolean(value), as_interval(value)


def describe(value: Value) -> str:
    """Write a value for people."""
    match value:
        case Text(raw):
            return f"'{raw}'"
        case Number(number, unit):
            return f"{number.normalize():f}{' ' + unit if unit else ''}"
        case Boolean(flag):
            return str(flag).lower()
        case Null():
            return "NULL"
        case Column(name):
            return name
        case Placeholder(name):
            return f":{name}"
        case NumberRange(low, high):
            return f"{low.normalize():f} to {high.normalize():f}"
        case Many(members):
            return "(" + ", ".join(describe(member) for member in members) + ")"
        case Anything():
            return "*"
        case Unknown(text, _):
            return text
        case Interval():
            return str(value)


def to_plain(value: Value) -> object:
    """Write a value as JSON: text, number, truth value and null as themselves, the others as a small object."""
    match value:
        case Text(raw):
            return raw
        case Number(number, unit):
            plain = int(number) if number == number.to_integral_value() else float(number)
            return {"number": plain, "unit": unit} if unit else plain
        case Boolean(flag):
            return flag
        case Null():
            return None
        case Column(name):
            return {"column": name}
        case Placeholder(name):
            return {"placeholder": name}
        case NumberRange(low, high):
            return {"low": to_plain(Number(low)), "high": to_plain(Number(high))}
        case Many(members):
            return [to_plain(member) for member in members]
        case Anything():
            return {"anything": True}
        case Unknown(text, why):
            return {"unknown": text, "why": why.value}
        case Interval(start, end):
            return {"from": start and start.isoformat(), "to_exclusive": end and end.isoformat()}


def from_plain(plain: object) -> Value:
    """Read what `to_plain` wrote.

    Raises:
        ValueError: It is no value.
    """
    match plain:
        case None:
            return Null()
        case bool():
            return Boolean(plain)
        case int() | float():
            return Number(Decimal(str(plain)))
        case str():
            return Text(plain)
        case {"number": number, "unit": str(unit)}:
            return Number(Decimal(str(number)), unit)
        case {"column": str(name)}:
            return Column(name)
        case {"placeholder": str(name)}:
            return Placeholder(name)
        case {"low": low, "high": high}:
            return NumberRange(Decimal(str(low)), Decimal(str(high)))
        case {"anything": _}:
            return Anything()
        case {"unknown": str(text), "why": str(why)}:
            return Unknown(text, Unresolved(why))
        case {"from": start, "to_exclusive": end}:
            return Interval(_moment(start), _moment(end))
        case list():
            members = tuple(from_plain(member) for member in plain)
            return Many(tuple(m for m in members if isinstance(m, Text | Number | Boolean | Interval)))
        case _:
            raise ValueError(f"no value: {plain!r}")


def _moment(text: object) -> datetime | None:
    return datetime.fromisoformat(str(text)) if text else None
