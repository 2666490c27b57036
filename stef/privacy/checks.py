"""Check digits: what tells a card or an identity number from any number of its length.

Each takes the text without spaces and dashes, letters as capitals, and is true when the number can exist.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from types import MappingProxyType

_DNI_LETTERS = "TRWAGMYFPDXBNJZSQVHLCKE"
_RESIDENT_WEIGHTS = (7, 9, 10, 5, 8, 4, 2, 1, 6, 3, 7, 9, 10, 5, 8, 4, 2)
_RESIDENT_DIGITS = "10X98765432"
_IBAN_LENGTH = range(15, 35)
_PHONE_DIGITS = range(8, 16)


def luhn(text: str) -> bool:
    """Payment cards: every second digit from the right doubled, the sum of the digits a multiple of ten."""
    digits = [int(char) for char in reversed(text)]
    doubled = (digit * 2 - 9 if digit > 4 else digit * 2 for digit in digits[1::2])
    return (sum(digits[::2]) + sum(doubled)) % 10 == 0 and len(set(text)) > 1


def iban(text: str) -> bool:
    """Bank accounts (ISO 13616): country and check digits at the end, letters as numbers, 1 modulo 97."""
    if len(text) not in _IBAN_LENGTH:
        return False
    return int("".join(str(int(char, 36)) for char in text[4:] + text[:4])) % 97 == 1


def verhoeff(text: str) -> bool:
    """Aadhaar: the digits, turned by their places, cancel out in the group of a pentagon's symmetries."""
    total = 0
    for place, char in enumerate(reversed(text)):
        total = _pentagon(total, _turned(int(char), place))
    return total == 0


def _pentagon(left: int, right: int) -> int:
    """The product of two symmetries: 0 to 4 are turns, 5 to 9 are reflections."""
    turn = left % 5 + right % 5 if left < 5 else left % 5 - right % 5
    return turn % 5 + 5 * ((left < 5) != (right < 5))


def _turned(digit: int, times: int) -> int:
    """A digit after the permutation of Verhoeff's scheme was applied so many times."""
    for _ in range(times % 8):
        digit = (1, 5, 7, 6, 2, 8, 3, 0, 9, 4)[digit]
    return digit


def cpf(text: str) -> bool:
    """Brazil: two check digits modulo 11; eleven equal digits are nobody's."""
    digits = [int(char) for char in text]
    return len(set(digits)) > 1 and all(_cpf_digit(digits[:size]) == digits[size] for size in (9, 10))


def _cpf_digit(digits: list[int]) -> int:
    rest = sum(digit * (len(digits) + 1 - place) for place, digit in enumerate(digits)) * 10 % 11
    return rest % 10


def steuer(text: str) -> bool:
    """Germany: one of the first ten digits stands there two or three times, the last is the check of ISO 7064."""
    most = sorted(Counter(text[:10]).values(), reverse=True)
    if most[0] not in {2, 3} or (len(most) > 1 and most[1] > 1):
        return False
    product = 10
    for char in text[:10]:
        product = ((int(char) + product) % 10 or 10) * 2 % 11
    return (11 - product) % 10 == int(text[10])


def dni(text: str) -> bool:
    """Spain: the letter is the rest modulo 23; a leading X, Y or Z counts as 0, 1 or 2."""
    digits = text[:-1].translate(str.maketrans("XYZ", "012"))
    return _DNI_LETTERS[int(digits) % 23] == text[-1]


def resident(text: str) -> bool:
    """China: a date of birth, and a check digit modulo 11 with X for ten."""
    month, day = int(text[10:12]), int(text[12:14])
    if text[6:8] not in {"18", "19", "20"} or not (1 <= month <= 12 and 1 <= day <= 31):
        return False
    total = sum(int(char) * weight for char, weight in zip(text[:17], _RESIDENT_WEIGHTS, strict=True))
    return _RESIDENT_DIGITS[total % 11] == text[17]


def phone(text: str) -> bool:
    """Telephones have 8 to 15 digits (E.164), and are no run of one digit."""
    digits = text.lstrip("+")
    return len(digits) in _PHONE_DIGITS and len(set(digits)) > 1


CHECKS: Mapping[str, Callable[[str], bool]] = MappingProxyType(
    {check.__name__: check for check in (luhn, iban, verhoeff, cpf, steuer, dni, resident, phone)}
)
