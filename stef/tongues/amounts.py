"""Amounts: digits with the language's decimal mark, numerals in words and signs, multipliers, units, currencies."""

from __future__ import annotations

import re
from decimal import Decimal
from functools import lru_cache

from stef.nl.numbers import plain_number
from stef.phrasebook import LETTER, Mask, Phrasebook
from stef.tongues.sheet import Item, Sheet
from stef.values import Number

_DIGITS = r"\d+(?:[.,]\d+)*"
_GROUPS = re.compile(r"\d{1,3}(?:\.\d{3})+")
_YEAR = re.compile(r"(?:19|20|21)\d\d")
# A numeral in signs is built in steps of this size: 3億2000万.
_STEP = 10_000


@lru_cache(maxsize=64)
def _finder(book: Phrasebook) -> re.Pattern[str]:
    gap = r"[ \u00a0]?"
    factors = "|".join(sorted(map(re.escape, book.multipliers), key=len, reverse=True)) or "(?!)"
    multiplier = rf"(?:{factors})(?![{LETTER}])" if book.spaced else f"(?:{factors})"
    unit = _unit(book)
    more = rf"(?:{gap}{_DIGITS}(?:{gap}{multiplier})+)*" if book.spaced else rf"(?:{_DIGITS}(?:{multiplier})*)*"
    lead = r"(?<![a-z0-9_.,-])" if not book.spaced else rf"(?<![{LETTER}.,-])"
    return re.compile(
        rf"(?P<lead>(?:{_currency(book)}){gap})?{lead}(?P<body>{_DIGITS}(?:{gap}{multiplier})*{more})(?P<unit>{gap}{unit})?"
        rf"(?![0-9])"
    )


def _unit(book: Phrasebook) -> str:
    words = sorted(map(re.escape, book.units), key=len, reverse=True)
    return "(?:" + "|".join(_whole(book, word) for word in words) + ")" if words else "(?!)"


def _whole(book: Phrasebook, word: str) -> str:
    """A unit of letters ends where a word ends."""
    if book.spaced:
        return rf"{word}(?![{LETTER}])"
    return f"{word}(?![a-z])" if word.isascii() else word


def _currency(book: Phrasebook) -> str:
    found = [re.escape(word) for word, unit in book.units.items() if unit.endswith(" amount")]
    return "|".join(sorted(found, key=len, reverse=True)) or "(?!)"


def amounts(sheet: Sheet) -> None:
    """Put down every amount that is written in digits."""
    for match in _finder(sheet.book).finditer(sheet.line):
        number = read(sheet.book, match["body"], (match["unit"] or match["lead"] or "").strip())
        if number is None:
            continue
        mask = Mask.YEAR if _YEAR.fullmatch(match[0]) else Mask.AMOUNT
        sheet.put(sheet.item(match.start(), match.end(), mask, number))


def spelled(book: Phrasebook, text: str) -> Number | None:
    """Read a number in words with its unit ("drei Tage"), or None."""
    found = re.match(book.spelled, text)
    if found is None:
        return None
    return read(book, found[0], text[found.end() :].strip())


def read(book: Phrasebook, body: str, unit: str) -> Number | None:
    """Read a numeral: digits and words in any mixture ("3 lakh 50 thousand", 3億2000万)."""
    total = section = Decimal(0)
    current: Decimal | None = None
    for piece in _pieces(book, body):
        factor = book.multipliers.get(piece)
        if factor is not None and (current is not None or section or piece not in book.numbers):
            if factor < _STEP:
                section, current = section + (1 if current is None else current) * factor, None
            else:
                held = section + (current or 0)
                total, section, current = total + (held or 1) * factor, Decimal(0), None
            continue
        plain = book.numbers.get(piece) if piece in book.numbers else _plain(book, piece)
        if plain is None:
            return None
        current = plain if current is None else current + plain
    symbol = book.units.get(unit, "").partition(" ")[0] if unit else ""
    return Number(total + section + (current or 0), symbol)


def measure(book: Phrasebook, text: str) -> str:
    """What the unit at either end of an amount measures, or ""."""
    found = [word for word in book.units if text.endswith(word) or text.startswith(word)]
    return book.units[max(found, key=len)].partition(" ")[2] if found else ""


def _pieces(book: Phrasebook, body: str) -> list[str]:
    words = sorted(map(re.escape, {**book.numbers, **book.multipliers}), key=len, reverse=True)
    pattern = rf"{_DIGITS}|{'|'.join(words)}" if words else _DIGITS
    return re.findall(pattern, body)


def _plain(book: Phrasebook, digits: str) -> Decimal | None:
    if book.decimal == "," and _GROUPS.fullmatch(digits):
        return Decimal(digits.replace(".", ""))
    return plain_number(digits)


def amount_of(sheet: Sheet, match: re.Match[str], group: str) -> Item | None:
    """The amount in a slot, in digits or in words."""
    item = sheet.items.get(match.start(group))
    if item is not None:
        return item
    number = spelled(sheet.book, match[group])
    return None if number is None else sheet.item(*match.span(group), Mask.AMOUNT, number)
