"""Amounts in a question: digits in either notation, number words, multipliers, units, currencies."""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal

from stef.lexicon import Kind
from stef.nl.reading import Reading
from stef.nl.tokens import Form
from stef.values import Number, decimal

_GROUPS = re.compile(r"-?\d{1,3}(?:[.,]\d{3})+")
_INDIAN = re.compile(r"-?\d{1,2}(?:,\d{2})+,\d{3}(?:\.\d+)?")


@dataclass(frozen=True, slots=True)
class Amount:
    """A number in the text with its unit.

    Attributes:
        number: Multiplier applied.
        measure: What the unit measures (`weight`), else "".
        start: First token.
        end: Token behind it, the unit included.
        bare_end: Token behind the number, the unit left out.
        spelled: Written as a word.
    """

    number: Number
    measure: str
    start: int
    end: int
    bare_end: int
    spelled: bool = False


def read_amount(r: Reading, i: int, *, spelled: bool = True) -> Amount | None:
    """Read the amount that begins at a token, or None; `spelled` allows number words."""
    if i not in r.amounts:
        return None
    start = i
    currency = r.mark(i, Kind.CURRENCY)
    if currency is not None:
        i = currency.end
    plain = plain_number(r[i].text) if r[i].form is Form.NUMBER else None
    if plain is not None:
        value, i, by_word = plain, i + 1, False
    else:
        word = _spelled(r, i) if spelled else None
        if word is None:
            return None
        (value, i), by_word = word, True
    value, i = _multiplied(r, value, i, money=currency is not None)
    bare_end = i
    unit, measure, i = _unit(r, i)
    if currency is not None:
        unit, measure = unit or currency.payload, "amount"
    return Amount(Number(value, unit), measure, start, i, bare_end, by_word)


def plain_number(text: str) -> Decimal | None:
    """Read digits with either decimal mark (`1,234.5`, `1.234,5`, `12,5`, `1,23,456`), or None."""
    dots, commas = text.count("."), text.count(",")
    if _INDIAN.fullmatch(text):
        return decimal(text.replace(",", ""))
    if dots and commas:
        mark = max(".", ",", key=text.rfind)
        other = "," if mark == "." else "."
        return decimal(text.replace(other, "").replace(mark, "."))
    if commas == 1 and not _GROUPS.fullmatch(text):
        return decimal(text.replace(",", "."))
    if commas or dots > 1:
        return decimal(text.replace(",", "").replace(".", ""))
    return decimal(text)


def _spelled(r: Reading, i: int) -> tuple[Decimal, int] | None:
    mark = r.mark(i, Kind.NUMBER)
    if mark is not None:
        value = Decimal(mark.payload)
        unit = r.mark(mark.end, Kind.NUMBER)
        if value >= 20 and value % 10 == 0 and unit is not None and Decimal(unit.payload) < 10:
            return value + Decimal(unit.payload), unit.end
        return value, mark.end
    tens, dash, ones = r.low(i).partition("-")
    if not dash:
        return None
    parts = [_word_value(r, word) for word in (tens, ones)]
    return None if None in parts else (sum((p for p in parts if p is not None), Decimal(0)), i + 1)


def _word_value(r: Reading, word: str) -> Decimal | None:
    found = [p for p in r.lexicon.phrases.get(word, ()) if p.kind is Kind.NUMBER and len(p.words) == 1]
    return Decimal(found[0].payload) if found else None


def _multiplied(r: Reading, value: Decimal, i: int, *, money: bool) -> tuple[Decimal, int]:
    while (mark := r.mark(i, Kind.MULTIPLIER)) is not None:
        token = r[i]
        if len(token.text) <= 2:
            attached = r.stops[i - 1] == r.starts[i]
            metres = token.text == "m" and not money
            if not attached or metres:
                break
        value, i = value * Decimal(mark.payload), mark.end
    return value, i


def _unit(r: Reading, i: int) -> tuple[str, str, int]:
    currency = r.mark(i, Kind.CURRENCY)
    if currency is not None:
        return currency.payload, "amount", currency.end
    unit = r.mark(i, Kind.UNIT)
    if unit is None:
        return "", "", i
    letter = len(r[i].text) == 1 and r[i].text != "%"
    if letter and r.stops[i - 1] != r.starts[i] and r.is_noun(i + 1):
        return "", "", i
    symbol, _, measure = unit.payload.partition(" ")
    return symbol, measure, unit.end
