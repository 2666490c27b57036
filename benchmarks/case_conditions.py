"""Compares conditions by what they mean: those that a case states with those that stef has read.

Written apart from stef's own folding on purpose, so that an error there is seen here. Both sides are plain JSON:
`{"column", "op", "value"}` as in a case bank, and the filters of a result's JSON.

A condition has one or more *readings*, because a text may mean several things (`2024` is a number and a year; `1` is a
number and true). Two conditions agree when one reading of each does.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any, TypeVar

OPEN = "open"  # a side without a bound
ANY = "any"  # a bound that a case does not state
_SPELLINGS = {"<>": "!=", "==": "=", "ilike": "like", "not_ilike": "not_like"}
_SWAPPED = {"<": ">", ">": "<", "<=": ">=", ">=": "<=", "=": "=", "!=": "!="}
_PLAIN = frozenset({"is_null", "is_not_null", "exists", "not_exists"})
_DATE = re.compile(
    r"(?P<y>\d{4})(?:-(?P<m>\d{1,2})(?:-(?P<d>\d{1,2})"
    r"(?:[T ](?P<H>\d{2}):(?P<M>\d{2})(?::(?P<S>\d{2})(?:\.\d+)?)?)?)?)?(?:Z|\+00:00)?"
)
_TRUTH = {"true": True, "t": True, "yes": True, "y": True, "false": False, "f": False, "no": False, "n": False}
_TOKEN = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-zß-ÿ]+|\d+|[^\W\d_A-Za-zß-ÿ]+")
# Parts of names that say nothing by themselves.
_DULL = frozenset({"id", "name", "code", "no", "nr", "number", "date", "day", "of", "the", "on", "at", "in"})

E = TypeVar("E")
G = TypeVar("G")
Reading = tuple[Any, ...]
Forms = frozenset[Reading]


def fold(text: str) -> str:
    """Text without regard to case, width and white space."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


@dataclass(frozen=True, slots=True)
class Words:
    """What a case's texts say about names and values.

    Attributes:
        texts: Question, expansion, SQL, and the names in the rules.
        mappings: Business word and physical column.
        synonyms: Word or stored value → all that mean the same.
    """

    texts: str = ""
    mappings: tuple[tuple[str, str], ...] = ()
    synonyms: Mapping[str, frozenset[str]] = field(default_factory=dict)

    @classmethod
    def of(cls, record: Mapping[str, Any], rules: Mapping[str, Any]) -> Words:
        """Collect them from a record and its rules."""
        mappings = tuple((str(word), str(column)) for word, column in (rules.get("column_mappings") or {}).items())
        columns = rules.get("value_synonyms") or {}
        groups: dict[str, frozenset[str]] = {}
        for words in columns.values():
            for word, stored in words.items():
                group = frozenset(
                    fold(str(item)) for item in (word, *(stored if isinstance(stored, list) else [stored]))
                )
                groups |= {item: groups.get(item, frozenset()) | group for item in group}
        texts = [str(record.get(key) or "") for key in ("question", "expanded_question", "sql")]
        return cls(" ".join([*texts, *columns, *(name for pair in mappings for name in pair)]), mappings, groups)


NO_WORDS = Words()


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """One condition.

    Attributes:
        names: What its column may be called; () when only the value was said.
        readings: What it may mean; () when that cannot be told.
        scope: Where it stands; "" when that is not asked.
        alone: It is one arm of an OR, so no bound may be joined to it.
        text: For people.
    """

    names: tuple[str, ...]
    readings: tuple[Reading, ...]
    scope: str = ""
    alone: bool = False
    text: str = ""


def from_case(item: Mapping[str, Any], words: Words = NO_WORDS) -> Condition:
    """Read a condition as a case states it."""
    op, value = item["op"], item.get("value")
    scope = item.get("scope", "")
    return Condition(
        names=(item["column"],),
        readings=readings(op, value, words),
        scope=scope,
        text=_text(item["column"], op, value, scope),
    )


def from_filter(item: Mapping[str, Any], words: Words = NO_WORDS, *, other_names: tuple[str, ...] = ()) -> Condition:
    """Read a filter of a result's JSON."""
    column, aggregate, table = item["column"], item["aggregate"], item["table"]
    names: tuple[str, ...] = ()
    if column and not item["implied_column"]:
        names = (column, *other_names, *((f"{table}.{column}",) if table else ()))
    if aggregate and item["scope"] != "question":
        names = (f"{aggregate}({column or '*'})", *names)
    label = f"{aggregate}({column or '*'})" if aggregate else column or "?"
    return Condition(
        names=names,
        readings=readings(item["op"], item["value"], words),
        scope=item["scope"],
        alone=bool(item["alternative"]),
        text=_text(label, item["op"], item["value"], item["scope"]),
    )


def _text(column: str, op: str, value: object, scope: str) -> str:
    shown = "" if op in _PLAIN else " " + json.dumps(value, ensure_ascii=False)
    return f"{column} {op}{shown}" + (f" [{scope}]" if scope else "")


def readings(op: str, value: object, words: Words = NO_WORDS) -> tuple[Reading, ...]:
    """All that an operator with a value may mean."""
    op = _SPELLINGS.get(op, op)
    if op in _PLAIN:
        return ((op,),)
    match value:
        case {"unknown": _, "why": why}:
            subquery = {"in": "exists", "not_in": "not_exists"}.get(op) if why == "subquery" else None
            return ((subquery,),) if subquery else ()
        case {"column": name} | {"placeholder": name}:
            kind = "column" if value == {"column": name} else "placeholder"
            return (("compare", op, kind, _bare(str(name)).lstrip(":@$")),)
    if op in {"range", "not_range"}:
        return tuple(_negate(reading, negated=op == "not_range") for reading in _ranges(value))
    if op in {"like", "not_like"}:
        return _patterns(str(value), words, negated=op == "not_like")
    if op in {"<", "<=", ">", ">="}:
        return tuple(_bounds(op, value))
    return tuple(_members(value if isinstance(value, list) else [value], words, negated=op in {"!=", "not_in"}))


def _negate(reading: Reading, *, negated: bool) -> Reading:
    return (f"not_{reading[0]}", *reading[1:]) if negated else reading


def _members(members: Sequence[object], words: Words, *, negated: bool) -> Iterator[Reading]:
    each = [forms(member, words) for member in members]
    yield _negate(("in", tuple(each)), negated=negated)
    if len(each) == 1:
        yield from (_negate(form, negated=negated) for form in each[0] if form[0] == "span")
        only = members[0]
        truth = only if isinstance(only, bool) else _TRUTH.get(fold(only)) if isinstance(only, str) else None
        if negated and truth is not None:
            yield ("in", (forms(not truth),))


def forms(value: object, words: Words = NO_WORDS) -> Forms:
    """All that one value may be: text, number, truth value, span of time."""
    match value:
        case None:
            return frozenset({("null",)})
        case bool():
            return frozenset({("bool", value), ("number", Decimal(int(value)))})
        case int() | float():
            found: set[Reading] = {("number", Decimal(str(value)).normalize() + 0)}
            if value in {0, 1}:
                found.add(("bool", bool(value)))
            return frozenset(found | _spans(str(value)))
        case {"number": number, **_rest}:
            return forms(number)
        case {"from": _, **_rest}:
            return frozenset(_ranges(value))
        case str():
            return frozenset(_text_forms(value, words))
        case _:
            return frozenset({("other", json.dumps(value, sort_keys=True))})


def _text_forms(value: str, words: Words) -> Iterator[Reading]:
    text = fold(value)
    yield from (("text", word) for word in words.synonyms.get(text, {text}))
    yield from _spans(text)
    if text in _TRUTH:
        yield ("bool", _TRUTH[text])
    number = _number(text)
    if number is not None and not re.match(r"0\d", text):
        yield ("number", number)
        if number in {0, 1}:
            yield ("bool", bool(number))


def _number(value: object) -> Decimal | None:
    if isinstance(value, Mapping):
        value = value.get("number")
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = Decimal(str(value).strip())
    except InvalidOperation:
        return None
    return number.normalize() + 0 if number.is_finite() else None


def _span(value: object) -> tuple[datetime, datetime] | None:
    """The moments that a date covers at the precision that it is written in; a bare year counts from 1900 to 2100."""
    found = _DATE.fullmatch(str(value).strip().upper())
    if found is None or not 1900 <= int(found["y"]) <= 2100:
        return None
    year, month, day = int(found["y"]), int(found["m"] or 1), int(found["d"] or 1)
    try:
        start = datetime(year, month, day, int(found["H"] or 0), int(found["M"] or 0), int(found["S"] or 0))  # noqa: DTZ001 - both sides are naive
    except ValueError:
        return None
    if not found["m"]:
        return start, start.replace(year=year + 1)
    if not found["d"]:
        return start, start.replace(year=year + month // 12, month=month % 12 + 1)
    step = timedelta(days=1) if not found["H"] else timedelta(minutes=1) if not found["S"] else timedelta(seconds=1)
    return start, start + step


def _spans(value: object) -> set[Reading]:
    span = _span(value)
    return {("span", *span)} if span else set()


def _ranges(value: object) -> Iterator[Reading]:
    """A half-open range of dates or numbers, or an inclusive one of numbers; a bound left out is `ANY`."""
    if not isinstance(value, Mapping):
        return
    if "low" in value:
        yield ("numbers", _number(value["low"]), True, _number(value["high"]), True)
        return
    bounds = [value.get(side, ANY) for side in ("from", "to_exclusive")]
    if any(isinstance(bound, int | float) for bound in bounds):
        low, high = (_number(bound) if bound not in {ANY, None} else bound or OPEN for bound in bounds)
        yield ("numbers", low, True, high, False)
        return
    spans = [bound if bound == ANY else OPEN if bound is None else _span(bound) for bound in bounds]
    if None not in spans:
        yield ("span", *(span[0] if isinstance(span, tuple) else span for span in spans))


def _bounds(op: str, value: object) -> Iterator[Reading]:
    number, span = _number(value), _span(value)
    if number is not None:
        low, high = (number, OPEN) if op in {">", ">="} else (OPEN, number)
        yield ("numbers", low, op == ">=" if low != OPEN else True, high, op == "<=" if high != OPEN else True)
    if span is not None:
        start, end = span
        yield ("span", *{"<": (OPEN, start), "<=": (OPEN, end), ">": (end, OPEN), ">=": (start, OPEN)}[op])


def _patterns(pattern: str, words: Words, *, negated: bool) -> tuple[Reading, ...]:
    if not re.search(r"[%_*]", pattern):
        return tuple(_members([pattern], words, negated=negated))
    found: list[Reading] = [("like", fold(pattern).replace("*", "%"))]
    found += _spans(pattern.rstrip("%-")) if re.fullmatch(r"\d{4}(-\d{2}){0,2}-?%", pattern) else ()
    return tuple(_negate(reading, negated=negated) for reading in found)


def agree(expected: Condition, got: Condition) -> bool:
    """Whether operator and value of two conditions mean the same."""
    return any(_same(a, b) for a in expected.readings for b in got.readings)


def _same(a: Reading, b: Reading) -> bool:
    if a[0] != b[0] or len(a) != len(b):
        return False
    if a[0] in {"in", "not_in"}:
        return _covers(a[1], b[1]) and _covers(b[1], a[1])
    return all(x == y or ANY in (x, y) for x, y in zip(a[1:], b[1:], strict=True))


def _covers(left: Sequence[Forms], right: Sequence[Forms]) -> bool:
    return all(any(a & b for b in right) for a in left)


def swapped(condition: Condition, column: str) -> Condition | None:
    """The same comparison of two columns, told from the other one's side."""
    match condition.readings:
        case (("compare", op, "column", name),) if op in _SWAPPED:
            return replace(condition, names=(name,), readings=(("compare", _SWAPPED[op], "column", _bare(column)),))
        case _:
            return None


def joined(conditions: Sequence[Condition]) -> list[Condition]:
    """Join a lower and an upper bound of one column into one range, and drop what is said twice."""
    out: list[Condition] = []
    for item in conditions:
        partner = next((other for other in out if _complement(other, item)), None)
        if partner is not None:
            both = tuple(r for a in partner.readings for b in item.readings if (r := _join(a, b)) is not None)
            out[out.index(partner)] = replace(partner, readings=both, text=f"{partner.text} and {item.text}")
        elif not any(_key(other) == _key(item) and other.readings == item.readings for other in out):
            out.append(item)
    return out


def _key(item: Condition) -> tuple[str, str]:
    return (fold(item.names[0]) if item.names else "", item.scope)


def _complement(a: Condition, b: Condition) -> bool:
    same_place = _key(a) == _key(b) and not a.alone and not b.alone
    return same_place and any(_join(x, y) is not None for x in a.readings for y in b.readings)


def _join(a: Reading, b: Reading) -> Reading | None:
    """The range that a lower and an upper bound make together, in either order; None for anything else."""
    for lower, upper in ((a, b), (b, a)):
        match lower, upper:
            case ("span", start, "open"), ("span", "open", end) if OPEN not in (start, end):
                return ("span", start, end)
            case ("numbers", low, low_in, "open", _), ("numbers", "open", _, high, high_in) if OPEN not in (low, high):
                return ("numbers", low, low_in, high, high_in)
    return None


def same_column(expected: str, names: Sequence[str], _words: Words = NO_WORDS) -> bool:
    """Whether a physical column is meant, whatever qualifier, quotes or function stand around it."""
    wanted = {_squeezed(expected), _bare(expected)}
    return any(_squeezed(name) in wanted or _bare(name) in wanted for name in names)


def _squeezed(name: str) -> str:
    return re.sub(r"[\s`\"\[\]]+", "", name).casefold()


def _bare(name: str) -> str:
    """The column inside a function call and behind a qualifier."""
    inner = re.findall(r"[^\W\d][\w$]*(?!\s*\()\b", name.replace("`", "").replace('"', ""))
    return inner[-1].casefold() if inner and "*" not in name else _squeezed(name)


def named_alike(expected: str, names: Sequence[str], words: Words = NO_WORDS) -> bool:
    """Whether a column is meant, loosely: a shared word will do, and the rules' mappings hold in both directions.

    The value decides where the question named no column, or where the case's name for it stands in none of the texts.
    """
    if not names or not _overlap(expected, words.texts):
        return True
    wanted = {expected}
    for word, column in words.mappings:
        if _overlap(expected, word):
            wanted.add(column)
        if same_column(expected, (column,)):
            wanted.add(word)
    return any(_overlap(one, name) for one in wanted for name in names)


def _overlap(left: str, right: str) -> bool:
    return any(_akin(a, b) for a in _tokens(left) for b in _tokens(right))


def _tokens(name: str) -> set[str]:
    parts = {fold(part) for part in _TOKEN.findall(name)}
    return parts - _DULL or parts


def _akin(a: str, b: str) -> bool:
    """Same word, same first four letters, a shortening, or one inside the other where there are no spaces."""
    if a == b or (len(a) >= 4 and a[:4] == b[:4]):
        return True
    if not a.isascii() or not b.isascii():
        return a in b or b in a
    return min(len(a), len(b)) >= 3 and (a.startswith(b) or b.startswith(a)) and a.isalpha()


def unmatched(expected: Sequence[E], got: Sequence[G], fits: Callable[[E, G], bool]) -> tuple[list[E], list[G]]:
    """Pair two lists one to one, as many as can be, and give what is left of each."""
    taken: dict[int, int] = {}

    def place(i: int, seen: set[int]) -> bool:
        for j, other in enumerate(got):
            if j not in seen and fits(expected[i], other):
                seen.add(j)
                if j not in taken or place(taken[j], seen):
                    taken[j] = i
                    return True
        return False

    lost = [item for i, item in enumerate(expected) if not place(i, set())]
    return lost, [item for j, item in enumerate(got) if j not in taken]
