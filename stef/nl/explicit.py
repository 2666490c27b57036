"""Conditions that stand written in the text, as expansions and hints have them: `status = 'open'`, "X means …"."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator

from stef.lexicon import Kind
from stef.nl.reading import Reading
from stef.nl.tokens import MAX_CHARACTERS, Form
from stef.spec import Aggregation, Filter, Op, Scope, Span
from stef.timespan import parse_moment
from stef.values import Boolean, Many, Null, Number, NumberRange, Text, Value, decimal

_NAME = r"(?:`[^`\n]{1,80}`|\"[\w .%()/-]{1,80}\"|\[[\w ]{1,80}\]|(?:[^\W\d][\w]{0,60}\.)?[^\W\d]\w{0,60})"
_LITERAL = (
    r"(?:'(?:[^'\n]|''){0,120}'|\"[^\"\n]{0,120}\"|-?\d[\d.,]{0,20}%?|\b(?:true|false|null)\b"
    r"|[^\W\d][\w-]{0,60}(?![\w.(]|\s?\())"
)
_QUOTED = r"(?:'(?:[^'\n]|''){0,120}'|\"[^\"\n]{0,120}\"|-?\d[\d.]{0,20})"
_COMPARISON = re.compile(
    rf"(?P<column>{_NAME})\s?(?P<op>> ?=|< ?=|! ?=|<>|==|[=<>≥≤])\s?(?P<value>{_LITERAL})", re.IGNORECASE
)
_SIGN = re.compile(r"[=<>!≥≤]")
# More letters than a column and the space behind it can have.
_LONGEST_NAME = 160
_NULLS = ("null", "NULL", "Null")
_BETWEEN = re.compile(rf"(?P<column>{_NAME})\s(?:BETWEEN)\s(?P<low>{_QUOTED})\s(?:AND|and)\s(?P<high>{_QUOTED})")
_NULL = re.compile(rf"(?P<column>{_NAME})\s(?:is|IS)\s(?P<no>not\s|NOT\s|Not\s)?(?:null|NULL|Null)\b")
_LIKE = re.compile(rf"(?P<column>{_NAME})\s(?P<no>NOT\s)?I?LIKE\s(?P<value>{_QUOTED})")
_IN = re.compile(
    rf"(?P<column>{_NAME})\s(?P<no>NOT\s)?IN\s?\((?P<values>\s?{_QUOTED}(?:\s?,\s?{_QUOTED}){{0,50}})\s?\)"
)
_IN_LIST = re.compile(r"\sIN\s?\(")
_BRACKET = re.compile(r"[(\[]")
_CALLED = re.compile(r"\b[^\W\d]+(?=\s?\Z)")
_OPERAND = re.compile(r"\(\s?(?P<of>[^()\n]{0,80})")
_FUNCTIONS = frozenset({"MAX", "MIN", "SUM", "AVG", "COUNT", "DIVIDE"})
# More letters than the name of a function and the space behind it have.
_LONGEST_CALL = 10
_PIECE = re.compile(_QUOTED)
_OPS = {
    "=": Op.EQ,
    "==": Op.EQ,
    "!=": Op.NE,
    "<>": Op.NE,
    ">": Op.GT,
    "<": Op.LT,
    ">=": Op.GE,
    "<=": Op.LE,
    "≥": Op.GE,
    "≤": Op.LE,
}
_CLAUSE_MARKS = (";", "\n", ". ", "? ")
# An unquoted word as the value is as often another column.
_BARE = re.compile(r"[^\W\d][\w-]*")
_WRAPPING = frozenset({"DIVIDE", "SUM", "COUNT", "AVG", "MULTIPLY", "SUBTRACT", "MAX", "MIN", "CASE", "IF"})
# More written conditions than this are data, not a question; it also bounds the time.
MAX_WRITTEN = 60
# ILIKE alone may be prose about SQL; with one of these beside it, it is a condition.
_SIGNS = re.compile(r"[=<>≥≤]|\b(?:null|between|like|in)\b", re.IGNORECASE)


def written(r: Reading) -> list[Filter]:
    """All written conditions, with what they stand for in the rest of the text settled."""
    text = r.text[:MAX_CHARACTERS]
    found: list[Filter] = []
    used: list[tuple[int, int]] = []
    r.compared = tuple(_compared(text))
    for match, op, value in sorted(_read(text, r.compared), key=lambda read: read[0].start()):
        start, end = match.span()
        if used and start < used[-1][1]:
            continue
        if len(used) == MAX_WRITTEN:
            break
        used.append((start, end))
        found.append(
            Filter(
                column=match["column"].rpartition(".")[2].strip('`"[]'),
                op=op,
                value=value,
                scope=Scope.QUESTION,
                certainty=_certainty(r, match),
                text=match[0],
                span=Span(start, end),
            )
        )
    _take(r, used)
    return found


def _read(text: str, compared: Iterable[re.Match[str]]) -> Iterator[tuple[re.Match[str], Op, Value]]:
    for m in _BETWEEN.finditer(text) if "BETWEEN" in text else ():
        yield m, Op.RANGE, _range(m["low"], m["high"])
    for m in _NULL.finditer(text) if any(word in text for word in _NULLS) else ():
        yield m, Op.IS_NOT_NULL if m["no"] else Op.IS_NULL, Null()
    for m in _LIKE.finditer(text) if "LIKE" in text and _SIGNS.search(text) else ():
        yield m, Op.NOT_LIKE if m["no"] else Op.LIKE, _literal(m["value"])
    for m in _IN.finditer(text) if _IN_LIST.search(text) else ():
        members = tuple(v for v in map(_literal, _PIECE.findall(m["values"])) if isinstance(v, Text | Number | Boolean))
        yield m, Op.NOT_IN if m["no"] else Op.IN, Many(members)
    for m in compared:
        op, value = _OPS[m["op"].replace(" ", "")], _literal(m["value"])
        yield m, (Op.IS_NULL if op is Op.EQ else Op.IS_NOT_NULL) if isinstance(value, Null) else op, value


def _compared(text: str) -> Iterator[re.Match[str]]:
    """All comparisons with a sign; only what stands near a sign is looked at."""
    place = 0
    while (sign := _SIGN.search(text, place)) is not None:
        found = _COMPARISON.search(text, _name_start(text, place, sign.start()))
        if found is None:
            return
        yield found
        place = found.end()


def _name_start(text: str, place: int, sign: int) -> int:
    """Where the name before a sign may begin at the earliest: with its word, unless it stands in quotes."""
    first = max(place, sign - _LONGEST_NAME)
    end = start = sign - 1 if text[sign - 1 : sign].isspace() else sign
    if text[end - 1 : end] in {'"', "]"} or "`" in text[first:end]:
        return first
    while start > first and (text[start - 1].isalnum() or text[start - 1] in "_."):
        start -= 1
    return start


def _literal(raw: str) -> Value:
    if raw[:1] in {"'", '"'}:
        return Text(raw[1:-1].replace("''", "'").strip() or raw[1:-1])
    if raw.lower() in {"true", "false"}:
        return Boolean(raw.lower() == "true")
    if raw.lower() == "null":
        return Null()
    number = decimal(raw.rstrip("%.,"))
    return Text(raw) if number is None else Number(number, "%" if raw.endswith("%") else "")


def _range(low: str, high: str) -> Value:
    a, b = decimal(low.strip("'\"")), decimal(high.strip("'\""))
    if a is not None and b is not None and not (parse_moment(low.strip("'\"")) and low[:1] in {"'", '"'}):
        return NumberRange(a, b)
    first, last = parse_moment(low.strip("'\"")), parse_moment(high.strip("'\""))
    if first and last:
        return type(first.span)(first.span.start, last.span.end)
    return Many((Text(low.strip("'\"")), Text(high.strip("'\""))))


def _certainty(r: Reading, match: re.Match[str]) -> float:
    """How sure it is that a written condition is one of this question."""
    if match.re is _COMPARISON and _BARE.fullmatch(match["value"]):
        return 0.45
    start, end = match.span()
    lead, close = _clause(r.text, start, end)
    if _wrapping(r.text, lead, start):
        return 0.45
    return _settled(r, lead, start, end, close)


def _clause(text: str, start: int, end: int) -> tuple[int, int]:
    """The characters of the sentence or list item that holds `[start, end)`."""
    lead = max(text.rfind(mark, 0, start) for mark in _CLAUSE_MARKS) + 1
    close = min((p for p in (text.find(mark, end) for mark in _CLAUSE_MARKS) if p >= 0), default=len(text))
    return lead, close


def _settled(r: Reading, lead: int, start: int, end: int, close: int) -> float:
    term = _term(r, lead, start, end, close)
    if term is None:
        return 0.9
    words = {r[i].one for i in term if r.is_noun(i) or r[i].form in {Form.NUMBER, Form.QUOTED}}
    outside = {token.one for token in (*r.tokens[: bisect_right(r.stops, lead)], *r.tokens[r.at(close) :])}
    return 0.9 if words and len(words & outside) >= len(words) * 0.75 else 0.4


def defined(r: Reading) -> frozenset[str]:
    """Words that a written condition in the text defines ("A means approved"): the condition speaks for them."""
    found: set[str] = set()
    for m in r.compared:
        lead, close = _clause(r.text, *m.span())
        term = _term(r, lead, m.start(), m.end(), close) or []
        found.update(r[i].one for i in term if r.is_noun(i))
        if len(found) > MAX_WRITTEN:
            break
    return frozenset(found)


def hinted(r: Reading) -> list[tuple[int, int]]:
    """The characters of clauses that define words or spell out a calculation; plain words in them are no conditions."""
    text = r.text[:MAX_CHARACTERS]
    places = [r.starts[i] for i in r.places(Kind.DEFINE) if not r.opens(i)]
    places += _wrapping(text, 0, len(text))
    found: list[tuple[int, int]] = []
    for place in sorted(places):
        if not found or place >= found[-1][1]:
            found.append(_clause(text, place, place + 1))
    return found


def _wrapping(text: str, start: int, end: int) -> list[int]:
    """Where a function or CASE begins that is written out."""
    return [name.start() for name, _ in _calls(text, start, end) if name[0].upper() in _WRAPPING]


def _calls(text: str, start: int, end: int) -> Iterator[tuple[re.Match[str], int]]:
    """The words right before a bracket, with the place of the bracket."""
    for bracket in _BRACKET.finditer(text, start, end):
        place = bracket.start()
        called = _CALLED.search(text, max(start, place - _LONGEST_CALL), place)
        if called is not None:
            yield called, place


def _term(r: Reading, lead: int, start: int, end: int, close: int) -> list[int] | None:
    """Tokens of the words that a definition defines: before "refers to", or behind "means"; None for no definition."""
    first, last = r.at(lead), r.at(close)
    for i in r.places(Kind.DEFINE):
        if not first <= i < last:
            continue
        if r.starts[i] >= end:
            return list(range(r.marked(i, Kind.DEFINE).end, last))
        if r.stops[i] <= start:
            return list(range(first, i))
    return None


def _take(r: Reading, used: list[tuple[int, int]]) -> None:
    for start, end in used:
        r.take(bisect_right(r.stops, start), r.at(end))


def written_aggregates(r: Reading) -> list[Aggregation]:
    """Functions that a hint spells out: `SUM(cost)`, `DIVIDE(…)`; supporting evidence, below 0.5 for nested ones."""
    found: list[Aggregation] = []
    behind = 0
    for name, bracket in _calls(r.text, 0, MAX_CHARACTERS):
        operand = _OPERAND.match(r.text, bracket, MAX_CHARACTERS)
        if operand is None or name.start() < behind or name[0].upper() not in _FUNCTIONS:
            continue
        start, behind = name.start(), operand.end()
        function = "ratio" if name[0].upper() == "DIVIDE" else name[0].lower()
        of = "" if function == "ratio" else operand["of"].strip().split(" ")[0].strip('`"')
        found.append(
            Aggregation(function=function, of=of, certainty=0.45, text=r.text[start:behind], span=Span(start, behind))
        )
    return found
