"""Values that stand as words: declared, quoted, beside a noun of a class, names, states; what is left out or absent."""

from __future__ import annotations

import re
from dataclasses import replace

from stef.phrasebook import Mask, Section
from stef.spec import Filter, Op
from stef.tongues.sheet import Item, Sheet, condition
from stef.values import Many, Null, Text, Value

_WORDS = frozenset({Mask.WORD, Mask.NAME, Mask.VALUE})
_MOST_GUESSES = 20
_LONGEST = 24


def states(sheet: Sheet) -> None:
    """Put down the words of states, with every way to say and to store them."""
    for payload, match in sheet.find(Section.STATE):
        text = sheet.source(*match.span())
        also = tuple(dict.fromkeys(_forms(sheet, payload)))
        sheet.put(sheet.item(*match.span(), Mask.STATE, Text(text, also)))


def _forms(sheet: Sheet, phrase: str) -> list[str]:
    endings = ("", *sheet.book.endings)
    return [form.replace("~", end) for form in sheet.book.states[phrase] for end in (endings if "~" in form else ("",))]


def excluded(sheet: Sheet) -> list[Filter]:
    """What is left out ("except X") and what must be missing ("without X")."""
    found = []
    for section in (Section.EXCLUDE, Section.LACK):
        for _, match in sheet.find(section):
            slot = next(name for name in ("s", "w", "W") if match.groupdict().get(name))
            found.append(_excluded(sheet, match, sheet.named(match, slot), lack=section is Section.LACK))
            sheet.use(*match.span())
    return found


def _excluded(sheet: Sheet, match: re.Match[str], item: Item, *, lack: bool) -> Filter:
    if match.groupdict().get("k"):
        noun = sheet.named(match, "k")
        value = item.value if item.value is not None else Text(item.text)
        name = (noun.column or noun.text).lower()
        return condition(sheet, *match.span(), name, Op.NE, value, 0.7, implied=not noun.column)
    if item.mask in {Mask.VALUE, Mask.STATE} and item.value is not None:
        column = item.column or ("status" if item.mask is Mask.STATE else "")
        implied = item.mask is Mask.STATE or not item.column
        return condition(sheet, *match.span(), column, Op.NE, item.value, 0.85, implied=implied)
    if lack:
        name = (item.column or item.text).lower()
        return condition(sheet, *match.span(), name, Op.IS_NULL, Null(), 0.5, implied=item.mask is not Mask.COLUMN)
    return condition(sheet, *match.span(), "", Op.NE, Text(item.text), 0.5)


def beside(sheet: Sheet) -> list[Filter]:
    """Values beside a noun of a class: before it, behind it, or behind "is", as the patterns of the language say."""
    found = []
    for payload, match in sheet.find(Section.VALUE):
        noun = sheet.named(match, "k") if match.groupdict().get("k") else sheet.named(match, "w2")
        slot = "W" if match.groupdict().get("W") else "s" if match.groupdict().get("s") else "w"
        start, end = match.span(slot)
        values, edges = _listed(sheet, start, end)
        if not values or not _is_class(noun):
            continue
        op = _operator(sheet, match.start(), values)
        value = values[0] if len(values) == 1 else Many(tuple(v for v in values if isinstance(v, Text)))
        mapped = noun.mask is Mask.COLUMN or bool(noun.column)
        span = (min(match.start(), edges[0]), max(match.end(), edges[1]))
        certainty = float(payload or 0.65)
        found.append(
            condition(sheet, *span, (noun.column or noun.text).lower(), op, value, certainty, implied=not mapped)
        )
        sheet.use(*span)
    return found


def _is_class(noun: Item) -> bool:
    return noun.mask in {Mask.CLASS, Mask.COLUMN}


def _operator(sheet: Sheet, start: int, values: list[Value]) -> Op:
    op = Op.EQ if len(values) == 1 else Op.IN
    return op.negated if _denied(sheet, start) else op


def _denied(sheet: Sheet, start: int) -> bool:
    """Whether a denial stands right before a place."""
    last = [part for part in sheet.parts(max(0, start - 15), start) if not isinstance(part, Item)][-2:]
    return any(part in sheet.book.denials for part in last)


def _listed(sheet: Sheet, start: int, end: int) -> tuple[list[Value], tuple[int, int]]:
    """The value in a slot and those that a list joins to it, and the letters from the first to the last."""
    item = sheet.items.get(start)
    if item is None or item.mask is Mask.COLUMN:
        return [], (start, end)
    values: list[Value] = [item.value if item.value is not None else Text(sheet.source(start, end))]
    first, last = start, end
    for ahead in (False, True):
        place = last if ahead else first
        while (other := _joined(sheet, place, ahead=ahead)) is not None:
            values.append(other.value if other.value is not None else Text(other.text))
            place = other.end if ahead else other.start
        first, last = (first, place) if ahead else (place, last)
    return values, (first, last)


def _joined(sheet: Sheet, place: int, *, ahead: bool) -> Item | None:
    joins = sheet.book.joins
    over = joins | frozenset({",", "、", "，"})
    item = sheet.behind(place, over=over) if ahead else sheet.before(place, over=over)
    if item is None or item.mask not in _WORDS:
        return None
    between = sheet.line[place : item.start] if ahead else sheet.line[item.end : place]
    return item if between.strip() else None


def named(sheet: Sheet) -> list[Filter]:
    """Names behind the words that lead to one ("en Lima")."""
    found = []
    for payload, match in sheet.find(Section.NAMED):
        start, end = match.span("W")
        values, edges = _listed(sheet, start, end)
        declared = sheet.items[start].column if start in sheet.items else ""
        if declared:
            continue
        value = values[0] if len(values) == 1 else Many(tuple(v for v in values if isinstance(v, Text)))
        op = _operator(sheet, match.start(), values)
        span = (match.start("W"), max(match.end(), edges[1]))
        found.append(condition(sheet, *span, "", op, value, float(payload or 0.6)))
        sheet.use(*span)
    return found


def told(sheet: Sheet) -> list[Filter]:
    """What is left of declared and quoted values and of states; values of one column are a list."""
    found: list[Filter] = []
    places: dict[str, int] = {}
    for item in sheet.parts(0, len(sheet.line)):
        if not isinstance(item, Item) or item.mask not in {Mask.VALUE, Mask.STATE} or item.value is None:
            continue
        read = _told(sheet, item)
        at = places.get(read.column)
        if at is not None and item.mask is Mask.VALUE and item.column and _is_or(sheet, found[at], item):
            found[at] = _merged(sheet, found[at], read)
        else:
            places[read.column] = len(found)
            found.append(read)
    for item in [i for i in sheet.parts(0, len(sheet.line)) if isinstance(i, Item)]:
        if item.mask in {Mask.VALUE, Mask.STATE}:
            sheet.use(item.start, item.end)
    return found


def _told(sheet: Sheet, item: Item) -> Filter:
    assert item.value is not None  # noqa: S101 - the caller has looked
    state = item.mask is Mask.STATE
    denied = _denied(sheet, item.start) or _denied_behind(sheet, item.end)
    column = "status" if state else item.column
    certainty = item.certainty if not state else 0.4 if sheet.book.read_as(item.text) in sheet.book.weak else 0.6
    op = Op.NE if denied else Op.EQ
    return condition(sheet, item.start, item.end, column, op, item.value, certainty, implied=state or not item.column)


def _denied_behind(sheet: Sheet, end: int) -> bool:
    """Whether the language denies behind the state: a denial with a hyphen before it in the list."""
    following = sheet.parts(end, min(len(sheet.line), end + 12))[:2]
    return any(isinstance(part, str) and f"-{part}" in sheet.book.denials for part in following)


def _is_or(sheet: Sheet, earlier: Filter, item: Item) -> bool:
    if earlier.op not in {Op.EQ, Op.IN} or earlier.span is None:
        return False
    between = sheet.text[earlier.span.end : sheet.at[item.start]]
    plain = sheet.book.read_as(between).strip()
    return plain in sheet.book.joins | {",", "、", "，"}


def _merged(sheet: Sheet, left: Filter, right: Filter) -> Filter:
    members = left.value.members if isinstance(left.value, Many) else (left.value,)
    start = next(i for i, place in enumerate(sheet.at) if left.span is not None and place == left.span.start)
    end = next(i for i, place in enumerate(sheet.at) if right.span is not None and place >= right.span.end)
    value = Many(tuple(m for m in (*members, right.value) if isinstance(m, Text)))
    return replace(condition(sheet, start, end, left.column, Op.IN, value, 0.9), implied_column=left.implied_column)


def guesses(sheet: Sheet) -> list[Filter]:
    """Words that may be values; they can only support a match."""
    parts = [item for item in sheet.parts(0, len(sheet.line)) if isinstance(item, Item)]
    plain = [item for item in parts if item.mask in {Mask.WORD, Mask.NAME} and item.end - item.start <= _LONGEST]
    return [condition(sheet, item.start, item.end, "", Op.EQ, Text(item.text), 0.3) for item in plain[:_MOST_GUESSES]]
