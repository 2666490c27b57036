"""A language's phrases as patterns with slots: what each says of a question, in the word order of that language.

Phrasebooks are data (`stef/resources/lexicon.<language>.yaml`); `stef.data.phrasebook` loads them. One engine
(`stef/tongues`) reads all of them, so a further language is a file. In a file a phrase is plain text with

    {n}   an amount, with its unit            {i}   a whole number
    {t}   a time                              {p}   a calendar unit
    {m}   a month  {y} a year  {d} a day      {q}   the number of a quarter or half
    {w}   a word with a meaning of its own    {W}   one or more words with a capital
    {k}   a noun that values stand beside     {s}   a state
    [ ]   what may be left out                ~     any ending of inflection
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from functools import cached_property
from typing import Any

# Letters, digits and the marks that stand on letters, which `\w` leaves out.
LETTER = r"\w\u0300-\u036f\u0590-\u05c7\u0610-\u061a\u064b-\u065f\u0900-\u0963\u0966-\u0dff\u0e31-\u0e3a\u0e47-\u0e4e"


class Mask(StrEnum):
    """What a part of the text was found to be; a run of one letter stands for it from then on, a capital first."""

    TIME = "\ue000\ue001"
    YEAR = "\ue002\ue003"  # four digits that may be a year, or an amount
    AMOUNT = "\ue004\ue005"
    COLUMN = "\ue006\ue007"  # a word that R_app maps
    CLASS = "\ue008\ue009"  # a noun that values stand beside
    VALUE = "\ue00a\ue00b"  # quoted, declared by R_app, or a code
    STATE = "\ue00c\ue00d"
    NAME = "\ue00e\ue00f"  # a word with a capital inside a sentence
    WORD = "\ue010\ue011"
    USED = "\ue012\ue013"

    @property
    def pattern(self) -> str:
        """Matches one such part."""
        return f"(?:{self.value[0]}{self.value[1]}*)"

    def run(self, size: int) -> str:
        """Stands for a part of that many letters."""
        return self.value[0] + self.value[1] * (size - 1)


_PRIVATE = re.compile("[\ue000-\ue0ff]")
_ANY_WORD = (Mask.WORD, Mask.NAME, Mask.COLUMN, Mask.CLASS, Mask.VALUE, Mask.STATE)
_PIECE = re.compile(r"\{(\w)\}|(\[)|(\])|(~)|(\s+)|([^{}\[\]~\s]+)")


class Section(StrEnum):
    """What a phrase does; the keys of `phrases` in a phrasebook. What the payload of each means stands in the files."""

    TIME = "time"
    SIDE = "side"
    COMPARE = "compare"
    COUNTED = "counted"
    VALUE = "value"
    NAMED = "named"
    STATE = "state"
    EXCLUDE = "exclude"
    LACK = "lack"
    AGGREGATE = "aggregate"
    GROUP = "group"
    RANK = "rank"
    PERIODIC = "periodic"
    LIMIT = "limit"
    ORDER = "order"
    SUPERLATIVE = "superlative"
    ASK = "ask"
    DISTINCT = "distinct"
    FOLLOW_UP = "follow_up"
    CONTEXT = "context"


@dataclass(frozen=True, slots=True)
class Pattern:
    """A phrase that is searched for; slots are the groups `n`, `t` …, a second one of a kind has a `2` behind it."""

    regex: re.Pattern[str]
    payload: str


@dataclass(frozen=True, kw_only=True, eq=False)
class Phrasebook:
    """All phrases of a language.

    Attributes:
        language: ISO 639-1.
        scripts: Beginnings of the Unicode names of its letters (`LATIN`, `CJK`).
        spaced: Words stand apart.
        decimal: The decimal mark.
        letters: Letter → how it is read (`個` as `个`).
        endings: Endings of inflection, without accents.
        functions: Words without a meaning of their own.
        loose: Functions that may stand between a measure and its bound ("de", "ist").
        measure_first: A measure stands before its bound, and what stands behind is what has it.
        marks: Letters that tell it from languages with the same script.
        joins: Functions that join the members of a list.
        denials: Functions that turn a state behind them round.
        numbers: Word → number.
        multipliers: Word → factor.
        units: Word → symbol and measure.
        months: Word → number of the month.
        periods: Word → calendar unit.
        ordinals: Word → number.
        classes: Nouns that values stand beside.
        measures: Nouns for amounts that are added up where figures are asked for by group.
        dated: What the name of a time column ends in.
        joiners: Small words inside a name.
        weak: States that are names of things as well.
        words: Words with a meaning of their own that phrases of the language stand inside.
        common: Endings, with a hyphen before them, and words that no name has although they begin with a capital.
        states: Phrase → the stored words that mean it.
        phrases: Section → payload → phrases, as written.
    """

    language: str
    scripts: tuple[str, ...]
    spaced: bool
    decimal: str
    letters: Mapping[str, str]
    endings: tuple[str, ...]
    functions: frozenset[str]
    loose: frozenset[str]
    measure_first: bool
    marks: frozenset[str]
    joins: frozenset[str]
    denials: frozenset[str]
    numbers: Mapping[str, Decimal]
    multipliers: Mapping[str, Decimal]
    units: Mapping[str, str]
    months: Mapping[str, str]
    periods: Mapping[str, str]
    ordinals: Mapping[str, str]
    classes: frozenset[str]
    measures: tuple[str, ...]
    dated: tuple[str, ...]
    joiners: frozenset[str]
    weak: frozenset[str]
    words: tuple[str, ...]
    common: frozenset[str]
    states: Mapping[str, tuple[str, ...]]
    phrases: Mapping[Section, Mapping[str, tuple[str, ...]]]

    @cached_property
    def vocabulary(self) -> frozenset[str]:
        """Every word that a phrase is made of, and the functions: no word with a meaning of its own for a filter."""
        texts = [text for table in self.phrases.values() for found in table.values() for text in found]
        words = {word for text in texts for word in _literals(text)}
        named = (self.numbers, self.multipliers, self.units, self.months, self.periods, self.ordinals)
        return frozenset((words - set(self.measures)) | self.functions | {word for table in named for word in table})

    @cached_property
    def inflected(self) -> frozenset[str]:
        """The words of phrases that take any ending."""
        texts = [text for table in self.phrases.values() for found in table.values() for text in found]
        return frozenset(word for text in texts for word in re.findall(rf"([{LETTER}]+)~", text))

    @cached_property
    def ending(self) -> str:
        """Matches an ending of inflection or nothing."""
        return f"(?:{_any(self.endings)})?" if self.endings else ""

    @cached_property
    def spelled(self) -> str:
        """Matches a number in words."""
        gap = r"\s?" if self.spaced else ""
        word = self.bounded(_any({**self.numbers, **self.multipliers}))
        return f"(?:{self.bounded(_any(self.numbers))}(?:{gap}{word})*)"

    @cached_property
    def patterns(self) -> Mapping[Section, tuple[Pattern, ...]]:
        """The phrases of each section, compiled."""
        return {section: tuple(self._compiled(section)) for section in Section}

    @cached_property
    def word(self) -> re.Pattern[str]:
        """Finds the next word of the vocabulary in a text without spaces."""
        return re.compile(_any(self.vocabulary))

    def bounded(self, pattern: str) -> str:
        """The pattern as whole words, where words stand apart."""
        return rf"(?<![{LETTER}])(?:{pattern})(?![{LETTER}])" if self.spaced else f"(?:{pattern})"

    def read_as(self, text: str) -> str:
        """Fold a text."""
        return fold(text, self.letters)[0]

    def stem_of(self, word: str) -> str:
        """The word without its ending of inflection."""
        found = next((e for e in self.endings if word.endswith(e) and len(word) - len(e) >= 3), "")
        return word.removesuffix(found) if found else word

    def _compiled(self, section: Section) -> Iterator[Pattern]:
        for payload, texts in self.phrases.get(section, {}).items():
            for text in texts:
                yield Pattern(re.compile(self._pattern(text)), payload)

    def _pattern(self, text: str) -> str:
        parts: list[str] = []
        used: dict[str, int] = {}
        for slot, opened, closed, tilde, space, plain in _PIECE.findall(text):
            if slot:
                used[slot] = used.get(slot, 0) + 1
                group = slot if used[slot] == 1 else f"{slot}{used[slot]}"
                parts += ["" if self.spaced or not parts else r"\s*", f"(?P<{group}>{self._slots[slot]})"]
            elif plain:
                after_slot = not self.spaced and bool(parts) and parts[-1].startswith("(?P<")
                parts += [r"\s*" if after_slot else "", re.escape(plain)]
            else:
                gap = r"\s+" if self.spaced else r"\s*"
                parts.append("(?:" if opened else ")?" if closed else self.ending if tilde else gap if space else "")
        inner = "".join(parts)
        if not self.spaced:
            return inner
        lead = rf"(?<![{LETTER}])" if _is_letter(text.lstrip("[")[:1]) or text[:2] in {"{p", "{m", "{q"} else ""
        trail = rf"(?![{LETTER}])" if _is_letter(text[-1:]) or text[-1:] in "]~}" else ""
        return lead + inner + trail

    @cached_property
    def _slots(self) -> Mapping[str, str]:
        word = "|".join(mask.pattern for mask in _ANY_WORD)
        name = rf"(?:{Mask.NAME.pattern}|{Mask.VALUE.pattern})"
        between = rf"\s(?:(?:{_any(self.joiners)})\s)*" if self.joiners else r"\s"
        unit = self.bounded(_any(self.units))
        gap = r"\s?" if self.spaced else r"\s*"
        return {
            "n": rf"{Mask.AMOUNT.pattern}|{Mask.YEAR.pattern}|{self.spelled}(?:{gap}{unit})?",
            "i": rf"(?<!\d)\d{{1,3}}(?!\d)|{self.spelled}",
            "t": f"{Mask.TIME.pattern}|{Mask.YEAR.pattern}",
            "p": self.bounded(_any(self.periods)),
            "m": self.bounded(_any(self.months)),
            "y": r"(?<!\d)(?:1[89]|2[01])\d\d(?!\d)",
            "d": r"(?<!\d)[0-3]?\d(?!\d)",
            "q": rf"(?<!\d)[1-4](?!\d)|{self.bounded(_any(self.ordinals))}",
            "w": word,
            "W": f"{name}(?:{between}{name})*",
            "k": Mask.CLASS.pattern,
            "s": Mask.STATE.pattern,
        }


def fold(text: str, letters: Mapping[str, str]) -> tuple[str, list[int]]:
    """Fold a text for reading: width, case, accents of Latin letters, digits of any script, variants of letters.

    Returns:
        The folded text, and for each of its letters the place in `text` that it came from, with the end behind them.
    """
    if text.isascii():
        return text.lower(), list(range(len(text) + 1))
    found: list[str] = []
    places: list[int] = []
    for place, letter in enumerate(text):
        for folded in _folded(letter, letters):
            if not (unicodedata.combining(folded) and found and found[-1].isascii()):
                found.append(folded)
                places.append(place)
    return "".join(found), [*places, len(text)]


def _folded(letter: str, letters: Mapping[str, str]) -> str:
    if letter.isascii():
        return letter.lower()
    if _PRIVATE.match(letter):
        return " "
    if letter.isdecimal():
        return str(unicodedata.decimal(letter))
    wide = unicodedata.normalize("NFKC", letter).casefold() or letter
    if unicodedata.normalize("NFD", wide)[:1].isascii():
        wide = "".join(c for c in unicodedata.normalize("NFD", wide) if not unicodedata.combining(c))
    return "".join(letters.get(c, c) for c in wide)


def _is_letter(text: str) -> bool:
    return bool(re.match(rf"[{LETTER}]", text))


def _any(words: Iterable[str]) -> str:
    """Matches one of the words, the longest that fits; nothing where there is none."""
    found = sorted(words, key=lambda word: (-len(word), word))
    return "|".join(re.escape(word).replace(r"\ ", r"\s+") for word in found) or r"(?!)"


def _literals(text: str) -> Iterator[str]:
    for piece in re.split(r"\{\w\}|[\[\]\s]", text):
        if piece and not piece.endswith("~"):
            yield piece


@dataclass(frozen=True, slots=True)
class _File:
    """What the file of a language says, its texts folded."""

    table: Mapping[str, Any]
    letters: Mapping[str, str]

    def folded(self, texts: Iterable[object]) -> list[str]:
        """Fold phrases; what is no text is an error."""
        wrong = [text for text in texts if not isinstance(text, str)]
        if wrong:
            raise ValueError(f"{self.table['language']}: no text: {wrong[0]!r}")
        return [_fold_phrase(str(text), self.letters) for text in texts]

    def section(self, name: str) -> Mapping[Any, Any]:
        """What stands under a name; nothing where it is left out."""
        return self.table.get(name) or {}

    def by_word(self, name: str) -> dict[str, str]:
        """Word → key under which it stands."""
        return {word: str(key) for key, texts in self.section(name).items() for word in self.folded(texts)}

    def states(self) -> dict[str, tuple[str, ...]]:
        """Word → what may be stored for it, and the words that mean the same."""
        return {
            word: (*str(stored).split("|"), *self.folded(texts))
            for stored, texts in self.section("states").items()
            for word in self.folded(texts)
        }

    def phrases(self) -> dict[Section, dict[str, tuple[str, ...]]]:
        """Section → payload → phrases."""
        return {
            Section(name): {str(payload): tuple(self.folded(texts)) for payload, texts in found.items()}
            for name, found in self.table["phrases"].items()
        }


def build(table: Mapping[str, Any]) -> Phrasebook:
    """Make a phrasebook from what its file says.

    Raises:
        ValueError: A key is missing or unknown, a section is unknown, or a phrase is no text.
    """
    file = _File(table, dict(table.get("letters") or {}))
    states = file.states()
    words = {name: file.folded(table.get(name) or []) for name in _LISTS}
    return Phrasebook(
        language=table["language"],
        scripts=tuple(table["scripts"]),
        spaced=bool(table["spaced"]),
        decimal=table["decimal"],
        letters=file.letters,
        endings=tuple(sorted(words["endings"], key=lambda ending: -len(ending))),
        functions=frozenset(words["functions"] + words["loose"] + words["joins"] + words["denials"]),
        loose=frozenset(words["loose"]),
        measure_first=table.get("measure") == "before",
        marks=frozenset(table.get("marks") or ""),
        joins=frozenset(words["joins"]),
        denials=frozenset(words["denials"]),
        numbers={word: Decimal(key) for word, key in file.by_word("numbers").items()},
        multipliers={word: Decimal(key) for word, key in file.by_word("multipliers").items()},
        units=file.by_word("units"),
        months=file.by_word("months"),
        periods=file.by_word("periods"),
        ordinals=file.by_word("ordinals"),
        classes=frozenset(words["classes"]),
        measures=tuple(words["measures"]),
        dated=tuple(words["dated"]),
        joiners=frozenset(words["joiners"]),
        weak=frozenset(words["weak"]),
        words=tuple(sorted(words["words"], key=lambda word: -len(word))),
        common=frozenset(words["common"]),
        states=states,
        phrases={**file.phrases(), Section.STATE: {word: (word,) for word in states}},
    )


_LISTS = (
    "endings", "functions", "loose", "joins", "denials", "classes", "measures", "dated", "joiners", "weak", "words",
    "common",
)  # fmt: skip


def _fold_phrase(text: str, letters: Mapping[str, str]) -> str:
    """Fold a phrase, its slots left as they are."""
    pieces = re.split(r"(\{\w\})", text)
    return "".join(piece if piece[:1] == "{" else fold(piece, letters)[0] for piece in pieces)
