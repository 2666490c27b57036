"""A text while it is read: folded, with the parts that are understood replaced by runs of a private letter."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import islice

from stef.apprules import AppRules
from stef.phrasebook import LETTER, Mask, Phrasebook, Section, fold
from stef.spec import Filter, Op, Scope, Span
from stef.timespan import Calendar
from stef.values import Many, Null, Text, Value
from stef.values import fold as fold_value

MAX_CHARACTERS = 4000
_WORD = re.compile(rf"[{LETTER}]+(?:[-'’.][{LETTER}]+)*")
_QUOTED = re.compile(
    r"\"[^\"\n]{1,200}\"|“[^”\n]{1,200}”|„[^“”\n]{1,200}[“”]|«[^»\n]{1,200}»|‘[^’\n]{1,200}’"
    r"|「[^」\n]{1,200}」|『[^』\n]{1,200}』|《[^》\n]{1,200}》|(?<!\w)'[^'\n]{1,200}'(?!\w)"
)
_CODE = re.compile(r"(?<![A-Za-z0-9_-])(?=[A-Za-z_-]*\d)[A-Z]{1,6}(?:[-_]?[A-Z0-9]++)*+(?![A-Za-z0-9_-])")
_NO_CODE = re.compile(r"[QH]\d|FY\d+|P\d\d|\d+")
_STOP = re.compile(r"[.?!;:。？！；：¿¡।|]")


@dataclass(frozen=True, slots=True)
class Item:
    """A part that is understood, at characters `[start, end)` of the folded text.

    Attributes:
        mask: What it is.
        text: As written.
        value: What it stands for, where it is a value or time.
        column: The column that R_app declares for a value.
        certainty: 0 to 1: how sure that is.
        yearless: A date or month whose year was not said.
    """

    start: int
    end: int
    mask: Mask
    text: str
    value: Value | None = None
    column: str = ""
    certainty: float = 0.9
    yearless: bool = False


@dataclass(slots=True)
class Sheet:
    """A text with what is understood of it.

    Attributes:
        line: The folded text; parts that are understood are runs of a private letter.
        at: For each letter of the folded text its place in `text`.
        items: Place in `line` → what stands there.
    """

    text: str
    book: Phrasebook
    calendar: Calendar
    rules: AppRules
    line: str = ""
    folded: str = ""
    at: list[int] = field(default_factory=list)
    items: dict[int, Item] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.line, self.at = fold(self.text[:MAX_CHARACTERS], self.book.letters)
        self.folded = self.line

    def source(self, start: int, end: int) -> str:
        """The text of letters `[start, end)` as written."""
        span = self.span(start, end)
        return self.text[span.start : span.end]

    def span(self, start: int, end: int) -> Span:
        """The characters of letters `[start, end)`; marks that were folded away belong to the letter before them."""
        return Span(self.at[start], max(self.at[end], self.at[end - 1] + 1))

    def put(self, item: Item) -> None:
        """Set a part down as understood."""
        for place in range(item.start, item.end):
            self.items.pop(place, None)
        self.items[item.start] = item
        self._cover(item.start, item.end, item.mask)

    def use(self, start: int, end: int) -> None:
        """Leave a part to no further rule."""
        for place in range(start, end):
            self.items.pop(place, None)
        self._cover(start, end, Mask.USED)

    def _cover(self, start: int, end: int, mask: Mask) -> None:
        self.line = self.line[:start] + mask.run(end - start) + self.line[end:]

    def item(self, start: int, end: int, mask: Mask, value: Value | None = None, **more: object) -> Item:
        """A part with its text."""
        return replace(Item(start, end, mask, self.source(start, end), value), **more)  # type: ignore[arg-type]

    def find(self, section: Section) -> list[tuple[str, re.Match[str]]]:
        """The phrases of a section, left to right: of two that overlap the longer one."""
        hits = [
            (pattern.payload, match)
            for pattern in self.book.patterns[section]
            for match in pattern.regex.finditer(self.line)
            if match.end() > match.start()
        ]
        found: list[tuple[str, re.Match[str]]] = []
        covered = bytearray(len(self.line))
        for payload, match in sorted(hits, key=lambda hit: (hit[1].start() - hit[1].end(), hit[1].start())):
            start, end = match.span()
            if covered.find(1, start, end) < 0:
                covered[start:end] = b"\1" * (end - start)
                found.append((payload, match))
        return sorted(found, key=lambda hit: hit[1].start())

    def named(self, match: re.Match[str], group: str) -> Item:
        """The part in a slot."""
        return self.items[match.start(group)]

    def before(self, place: int, *, over: frozenset[str] = frozenset()) -> Item | None:
        """The part right before a place, some function words passed over; None where another word stands between."""
        start, step = place, 1
        while start > 0:
            start, step = self._edge(start - step), 2 * step
            for item in reversed(self.parts(start, place)):
                if isinstance(item, Item):
                    return item
                if item not in over:
                    return None
        return None

    def behind(self, place: int, *, over: frozenset[str] = frozenset()) -> Item | None:
        """The part right behind a place, some function words passed over."""
        for item in self._parts(place, len(self.line)):
            if isinstance(item, Item):
                return item
            if item not in over:
                return None
        return None

    def _edge(self, place: int) -> int:
        """The nearest place before or at one at which a part begins for certain: where what is understood ends."""
        line = self.line
        for start in range(place, 0, -1):
            if (self.book.spaced and line[start].isspace()) or _is_mask(line[start - 1]) is not _is_mask(line[start]):
                return start
        return 0

    def parts(self, start: int, end: int, most: int | None = None) -> list[Item | str]:
        """Parts and plain words of a stretch, in order, all or so many; punctuation is a word."""
        return list(islice(self._parts(start, end), most))

    def _parts(self, start: int, end: int) -> Iterator[Item | str]:
        place = start
        while place < end:
            letter = self.line[place]
            item = self.items.get(place) if _is_mask(letter) else None
            if item is not None:
                yield item
                place = item.end
            elif letter.isspace():
                place += 1
            else:
                plain = self._plain(place, end)
                yield plain
                place += len(plain)

    def _plain(self, place: int, end: int) -> str:
        finder = _WORD if self.book.spaced else self.book.word
        found = finder.match(self.line, place, end)
        return found[0] if found and found[0] else self.line[place]

    def is_measure(self, item: Item) -> bool:
        """Whether a word names an amount that is added up; compounds end in one."""
        plain = self.book.read_as(item.text)
        return any(plain.endswith(noun) for noun in self.book.measures)

    def opens(self, place: int) -> bool:
        """Whether a sentence begins at a place."""
        lead = self.folded[:place].rstrip(" \"'“„«(")
        return not lead or bool(_STOP.match(lead[-1]))


def quoted(sheet: Sheet) -> None:
    """Quoted texts and codes are values."""
    for match in _QUOTED.finditer(sheet.line):
        text = sheet.source(match.start() + 1, match.end() - 1).strip()
        if text:
            sheet.put(sheet.item(match.start(), match.end(), Mask.VALUE, Text(text)))
    for match in _CODE.finditer(sheet.text[:MAX_CHARACTERS]):
        start = bisect_left(sheet.at, match.start())
        if sheet.at[start] != match.start() or _NO_CODE.fullmatch(match[0]) or _is_mask(sheet.line[start]):
            continue
        sheet.put(sheet.item(start, start + len(match[0]), Mask.VALUE, Text(match[0]), certainty=0.7))


def declared(sheet: Sheet) -> list[Item]:
    """Words that R_app maps or declares as values, the longest first; they are not put down yet."""
    words = [(word, Mask.COLUMN, "") for word in sheet.rules.column_mappings]
    words += [(word, Mask.VALUE, column) for column, found in sheet.rules.value_synonyms.items() for word in found]
    found: list[Item] = []
    for word, mask, column in sorted(words, key=lambda one: -len(one[0])):
        plain = sheet.book.read_as(word)
        if not plain.strip():
            continue
        for match in re.finditer(_inflected(sheet.book, plain), sheet.line):
            if all(match.end() <= other.start or match.start() >= other.end for other in found):
                value = Text(word) if mask is Mask.VALUE else None
                item = sheet.item(match.start(), match.end(), mask, value, column=column or word)
                found.append(item)
    return found


def _inflected(book: Phrasebook, word: str) -> str:
    """Matches a declared word in any form; in compounds only where words do not stand apart."""
    if not book.spaced:
        return re.escape(word)
    words = [re.escape(book.stem_of(part) if len(part) > 4 else part) + book.ending for part in word.split()]
    whole = "|".join((re.escape(word).replace(r"\ ", r"\s+"), r"\s+".join(words)))
    return book.bounded(whole)


def words(sheet: Sheet) -> None:
    """Put down every word with a meaning of its own: what no phrase of the language is made of."""
    for word in sheet.book.words:
        for match in re.finditer(re.escape(word), sheet.line):
            sheet.put(sheet.item(*match.span(), Mask.WORD))
    stretches = list(_spaced(sheet) if sheet.book.spaced else _unspaced(sheet))
    for start, end in stretches:
        sheet.put(sheet.item(start, end, _kind(sheet, start, end)))


def _kind(sheet: Sheet, start: int, end: int) -> Mask:
    word = sheet.line[start:end]
    if word in sheet.book.classes:
        return Mask.CLASS
    written = sheet.text[sheet.at[start]]
    common = word in sheet.book.common or any(
        word.endswith(ending[1:]) for ending in sheet.book.common if ending[0] == "-"
    )
    capital = sheet.book.spaced and written.isupper() and not sheet.opens(start)
    return Mask.NAME if capital and not common else Mask.WORD


def _spaced(sheet: Sheet) -> Iterator[tuple[int, int]]:
    book = sheet.book
    for match in _WORD.finditer(sheet.line):
        word = match[0]
        if word in book.vocabulary or word[0].isdigit() or _is_inflected(book, word):
            continue
        yield match.span()


def _is_inflected(book: Phrasebook, word: str) -> bool:
    return any(word.startswith(stem) and word[len(stem) :] in {"", *book.endings} for stem in book.inflected)


def _unspaced(sheet: Sheet) -> Iterator[tuple[int, int]]:
    """What is left between the words of the vocabulary and the nouns of classes, by longest match."""
    line, start, place = sheet.line, None, 0
    nouns = sorted(sheet.book.classes, key=len, reverse=True)
    begins = {noun[0] for noun in nouns}
    while place < len(line):
        letter = line[place]
        known = sheet.book.word.match(line, place)
        noun = next((c for c in nouns if line.startswith(c, place)), "") if letter in begins else ""
        if noun and (not known or len(noun) >= len(known[0])):
            if start is not None:
                yield start, place
            yield place, place + len(noun)
            start, place = None, place + len(noun)
        elif (known and known[0]) or not _is_letter(letter):
            if start is not None:
                yield start, place
            start, place = None, place + (len(known[0]) if known and known[0] else 1)
        else:
            start = place if start is None else start
            place += 1
    if start is not None:
        yield start, place


def _is_letter(letter: str) -> bool:
    return _WORD.match(letter) is not None and not letter.isdecimal()


def _is_mask(letter: str) -> bool:
    return "\ue000" <= letter <= "\ue0ff"


def condition(
    sheet: Sheet,
    start: int,
    end: int,
    column: str,
    op: Op,
    value: Value,
    certainty: float,
    *,
    implied: bool = True,
) -> Filter:
    """A condition for letters `[start, end)`."""
    if isinstance(value, Many):
        value = Many(tuple(sorted(value.members, key=lambda member: fold_value(str(getattr(member, "raw", member))))))
    return Filter(
        column=column,
        op=Op.IS_NULL if isinstance(value, Null) else op,
        value=value,
        scope=Scope.QUESTION,
        certainty=certainty,
        implied_column=implied,
        text=sheet.source(start, end),
        span=sheet.span(start, end),
    )
