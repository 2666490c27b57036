"""Kinds of values: what a text is by its form, and which literals name nobody. The patterns are data."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from stef.privacy.checks import CHECKS
from stef.privacy.tokens import DIGITS
from stef.values import Text, as_interval, as_number, fold

# Kinds of what no pattern tells, by its shape.
NAME, TEXT, NUMBER, DATE = SHAPES = ("name", "text", "number", "date")
_WORDS = re.compile(r"[^\W\d_]+(?:[ .'’-]{1,2}[^\W\d_]+){0,3}\.?")
_CODE = re.compile(r"[A-Z0-9]{1,3}|[a-z0-9]{1,2}")
# No pattern matches without a mark of a mail or six digits.
_DIGITS = re.compile(r"\d(?:[^\n]{0,3}?\d){5}")


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind that a pattern tells.

    Attributes:
        name: Letters; stands in the tokens.
        pattern: Searched in texts.
        needs: A text without it holds none.
        strip: Characters that do not count in its values.
        check: Whether a value without these can exist.
    """

    name: str
    pattern: re.Pattern[str]
    needs: str
    strip: str
    check: Callable[[str], bool] | None

    def bare(self, text: str) -> str:
        """A value without what does not count in it."""
        return text.translate({ord(char): None for char in self.strip}).upper()

    def holds(self, text: str) -> bool:
        """Whether a match of the pattern is a value of this kind."""
        return self.check is None or self.check(self.bare(text))


@dataclass(frozen=True, slots=True)
class Found:
    """A value of a pattern's kind in a text: characters `[start, end)`, its kind and its canonical form."""

    start: int
    end: int
    kind: str
    canon: str


@dataclass(frozen=True, slots=True)
class Kinds:
    """All kinds, in the order in which they are tried, and the literals that name nobody."""

    kinds: tuple[Kind, ...]
    plain: re.Pattern[str]
    tokens: re.Pattern[str]  # whatever may be a token

    @classmethod
    def build(cls, content: Mapping[str, Any]) -> Kinds:
        """Read what `resources/privacy.yaml` holds.

        Raises:
            KeyError: A kind names a check that there is not.
        """
        kinds = tuple(
            Kind(
                name=row["name"],
                # With the ends looked at here, no pattern needs to say that it begins and ends with a whole word.
                pattern=re.compile(
                    r"(?<![A-Za-z0-9_+À-ɏ])(?<!\d[.,-])(?:"
                    + row["pattern"].replace("| ", "|")
                    + r")(?![A-Za-z0-9À-ɏ])(?![.,-]\d)",
                    re.IGNORECASE,
                ),
                needs=row.get("needs", ""),
                strip=row.get("strip", ""),
                check=CHECKS[row["check"]] if "check" in row else None,
            )
            for row in content["kinds"]
        )
        names = "|".join((*(kind.name for kind in kinds), *SHAPES))
        return cls(
            kinds=kinds,
            plain=re.compile("|".join(f"(?:{text})" for text in content["plain"]), re.IGNORECASE),
            tokens=re.compile(rf"(?:{names})_[0-9a-f]{{{DIGITS}}}", re.IGNORECASE),
        )

    def find(self, text: str) -> list[Found]:
        """The values in a text that a pattern tells, none inside another; of two that overlap the earlier kind."""
        if "@" not in text and not _DIGITS.search(text):
            return []
        found: list[Found] = []
        for item in self._matches(text):
            if all(item.end <= other.start or item.start >= other.end for other in found):
                found.append(item)
        return found

    def _matches(self, text: str) -> Iterator[Found]:
        for kind in self.kinds:
            if kind.needs in text:
                for match in kind.pattern.finditer(text):
                    if kind.holds(match[0]):
                        yield Found(match.start(), match.end(), kind.name, kind.bare(match[0]))

    def of(self, text: str) -> tuple[str, str]:
        """Kind and canonical form of a whole value: two spellings of one value have the same."""
        text = text.strip()
        for item in self.find(text):
            if (item.start, item.end) == (0, len(text)):
                return item.kind, item.canon
        number = as_number(Text(text))
        if number is not None:
            return NUMBER, f"{number.normalize():f}"
        moment = as_interval(Text(text))
        if moment is not None:
            return DATE, str(moment)
        folded = fold(text)
        return (NAME if _WORDS.fullmatch(folded) else TEXT), folded

    def is_plain(self, literal: str) -> bool:
        """Whether a literal names nobody by its form: a number, a date, a format, a unit, a short code."""
        text = literal.strip()
        if len(text) < 2 or _CODE.fullmatch(text) is not None or not any(map(str.isalnum, text)):
            return True
        return (len(text) <= 40 and self.plain.fullmatch(text) is not None) and not self.find(text)
