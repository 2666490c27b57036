"""Conditions on amounts: which word is measured stands before or behind, as the language has it."""

from __future__ import annotations

import re
from dataclasses import replace
from decimal import Decimal

from stef.names import tokens
from stef.phrasebook import Mask, Section
from stef.spec import Filter, Op
from stef.tongues.amounts import amount_of, measure
from stef.tongues.sheet import Item, Sheet, condition
from stef.values import Number, NumberRange

_THINGS = frozenset({Mask.COLUMN, Mask.WORD, Mask.CLASS, Mask.NAME})


def bounds(sheet: Sheet) -> list[Filter]:
    """All conditions on amounts, left to right."""
    found: list[Filter] = []
    last = 0
    moments = [match.span() for _, match in sheet.find(Section.SIDE)]
    for payload, match in sheet.find(Section.COMPARE):
        if any(start <= match.start() and match.end() <= end for start, end in moments):
            continue
        read = _range(sheet, match) if payload == "between" else _bound(sheet, payload, match)
        if read is not None:
            if found and _goes_on(sheet, last, match.start()):
                read = replace(read, column=found[-1].column, implied_column=found[-1].implied_column)
            found.append(read)
            last = match.end()
            sheet.use(*match.span())
    return found + [item for payload, match in sheet.find(Section.COUNTED) if (item := _counted(sheet, payload, match))]


def _goes_on(sheet: Sheet, start: int, end: int) -> bool:
    """Whether only an "and" stands between two bounds: both are of one measure."""
    between = sheet.parts(start, end)
    return 0 < len(between) <= 2 and all(isinstance(part, str) and part in sheet.book.functions for part in between)


def _bound(sheet: Sheet, payload: str, match: re.Match[str]) -> Filter | None:
    amount = amount_of(sheet, match, "n")
    if amount is None or not isinstance(amount.value, Number):
        return None
    op = Op(payload)
    trivial = amount.value.value in {Decimal(0), Decimal(1)} and op in {Op.GE, Op.GT, Op.EQ} and not amount.value.unit
    column, implied = _measured(sheet, match, amount)
    return condition(sheet, *match.span(), column, op, amount.value, 0.45 if trivial else 0.85, implied=implied)


def _range(sheet: Sheet, match: re.Match[str]) -> Filter | None:
    low, high = amount_of(sheet, match, "n"), amount_of(sheet, match, "n2")
    if low is None or high is None or low.mask is high.mask is Mask.YEAR:
        return None
    if not isinstance(low.value, Number) or not isinstance(high.value, Number) or low.value.value > high.value.value:
        return None
    column, implied = _measured(sheet, match, high)
    value = NumberRange(low.value.value, high.value.value)
    return condition(sheet, *match.span(), column, Op.RANGE, value, 0.85, implied=implied)


def _counted(sheet: Sheet, payload: str, match: re.Match[str]) -> Filter | None:
    """An amount that is a value: "con 3 habitaciones"."""
    amount = amount_of(sheet, match, "n")
    if amount is None or not isinstance(amount.value, Number) or amount.value.value == 1:
        return None
    column, implied = _measured(sheet, match, amount)
    return condition(sheet, *match.span(), column, Op(payload), amount.value, 0.6, implied=implied) if column else None


def _measured(sheet: Sheet, match: re.Match[str], amount: Item) -> tuple[str, bool]:
    """The column, and whether it is a guess: what R_app maps, else the word beside it, else what the unit measures."""
    if "w" in match.groupdict() and match["w"]:
        return _name(sheet.named(match, "w"))
    before = sheet.before(match.start(), over=sheet.book.loose)
    behind = sheet.behind(match.end(), over=sheet.book.loose)
    near = [item for item in (before, behind) if item is not None and item.mask in _THINGS]
    mapped = next((item for item in near if item.mask is Mask.COLUMN), None)
    if mapped is not None:
        return _name(mapped)
    kind = measure(sheet.book, sheet.folded[amount.start : amount.end])
    if kind == "amount" and (word := _half_said(sheet)):
        return word, False
    direct = before if sheet.book.measure_first else sheet.before(match.start())
    if direct is not None and direct.mask in _THINGS:
        return _name(direct)
    if behind is not None and behind in near and (not kind or _adjoins(sheet, match, behind, kind)):
        return _name(behind)
    if before is not None and before in near:
        return _name(before)
    if not kind and (word := _half_said(sheet)):
        return word, False
    return kind, True


def _adjoins(sheet: Sheet, match: re.Match[str], item: Item, kind: str) -> bool:
    """Whether a unit is of what stands right behind it ("14 Tage Lieferzeit", "12 toneladas de carga")."""
    if sheet.book.measure_first:
        return False
    if sheet.behind(match.end()) is item or sheet.is_measure(item):
        return True
    return kind != "amount" and item.mask is not Mask.NAME


def _name(item: Item) -> tuple[str, bool]:
    return (item.column or item.text).lower(), item.mask is not Mask.COLUMN


def _half_said(sheet: Sheet) -> str:
    """The one mapped word of several parts of which the question says one: "loan amount" where loans are spoken of."""
    said = set(tokens(sheet.text))
    found = [word for word in sheet.rules.column_mappings if len(tokens(word)) > 1 and said & set(tokens(word))]
    return found[0] if len(found) == 1 else ""
