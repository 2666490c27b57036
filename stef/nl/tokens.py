"""Tokens of a question, and what each phrase of the lexicon does among them."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import lru_cache
from itertools import islice
from typing import NamedTuple

from stef.apprules import AppRules
from stef.lexicon import Ending, Kind, Lexicon, Role
from stef.spec import Span
from stef.timespan import Calendar

# What is read of a text; a question of more characters is no question.
MAX_CHARACTERS = 8000
MAX_TOKENS = 2000

_TOKEN = re.compile(
    r"""
    (?P<quoted> "[^"\n]{1,200}" | “[^”"\n]{1,200}[”"] | «[^»\n]{1,200}» | `[^`\n]{1,120}`
        | (?<!\w)'(?:[^'\n]|(?<=\w)'(?=\w)){1,200}'(?!\w) | (?<!\w)‘(?:[^‘’\n]|(?<=\w)’(?=\w)){1,200}’(?!\w) )
  | (?P<date> \d{4}[-/.]\d{1,2}[-/.]\d{1,2}(?:[T\ ]\d{1,2}:\d{2}(?::\d{2}(?:\.\d{1,9})?)?Z?)?(?!\d)
        | \d{1,2}[-/.]\d{1,2}[-/.]\d{4}(?!\d) | \d{1,2}/\d{4}(?!\d)
        | \d{4}[-/](?:0[1-9]|1[0-2])(?![-\d]) | \d{4}/\d{2,4}(?!\d) )
  | (?P<number> (?<![\w])-?\d+(?:[.,]\d+)*(?!\w|[.,]\d) )
  | (?P<sign> [<>]=|!=|<>|[<>=≥≤≠] )
  | (?P<word> \w+(?:[-'’.@]\w+)*\+? )
  | (?P<punct> [^\s\w] )
    """,
    re.VERBOSE,
)
_ATTACHED = re.compile(r"(\d+(?:[.,]\d+)*)([^\W\d_]+)")
_DECADE = re.compile(r"\d{3}0s")
_CODE = re.compile(r"(?=.*\d)(?=.*[^\W\d]).+")
_NO_CODE = re.compile(r"\d+(?:st|nd|rd|th|s|d)|p\d\d|[qh]\d|fy-?\d+|\d+(?:-[a-z]+)+", re.IGNORECASE)


class Form(Enum):
    """The shape of a token."""

    QUOTED = "quoted"
    DATE = "date"
    NUMBER = "number"
    SIGN = "sign"
    WORD = "word"
    PUNCT = "punct"


class Token(NamedTuple):
    """A piece of the text.

    Attributes:
        text: As written, the possessive 's dropped.
        low: Its lower-case form, apostrophes straight.
        is_capital: A word that begins with a capital letter.
        has_digit: A digit stands in it.
        is_code: A word of letters and digits (`R55`, `TR-006`) that is no ordinal, decade, quarter or the like.
    """

    text: str
    low: str
    start: int
    end: int
    form: Form
    is_capital: bool = False
    has_digit: bool = False
    is_code: bool = False


class Mark(NamedTuple):
    """What a phrase does that begins at a token; `end` is the token behind it."""

    end: int
    payload: str


_NO_NOUN = frozenset({Kind.FUNCTION, Kind.VERB, Kind.PREPOSITION, Kind.BE, Kind.NUMBER, Kind.EXCLUDE})
_STOPS = frozenset(
    {
        Kind.COMPARATIVE,
        Kind.COMPARE,
        Kind.LACK,
        Kind.SORT,
        Kind.ORDER,
        Kind.PATTERN,
        Kind.CALLED,
        Kind.RELATIVE,
    }
)
_NOTHING: Mapping[Kind, Mark] = {}
_OUTSIDE = Token("", "", 0, 0, Form.PUNCT)


@dataclass(slots=True)
class Reading:
    """A text while it is read: its tokens, their marks, and which of them a rule has already used.

    Attributes:
        marks: The phrases that begin at a token, the longest of each kind; tokens without one are left out.
        taken: 1 for tokens that are part of something found.
        lows: The folded words.
        index: For each kind, the tokens at which a phrase of it begins, in order.
        nouns: 1 for words that have a meaning of their own.
        digits: Tokens in which a digit stands.
        compared: The comparisons that stand written in the text, once a rule has looked for them.
    """

    text: str
    lexicon: Lexicon
    calendar: Calendar
    rules: AppRules
    tokens: list[Token] = field(default_factory=list)
    marks: dict[int, Mapping[Kind, Mark]] = field(default_factory=dict)
    taken: bytearray = field(default_factory=bytearray)
    lows: tuple[str, ...] = ()
    index: dict[Kind, list[int]] = field(default_factory=dict)
    nouns: bytearray = field(default_factory=bytearray)
    digits: list[int] = field(default_factory=list)
    compared: tuple[re.Match[str], ...] = ()

    def __post_init__(self) -> None:
        self.tokens = list(islice(_tokenize(self.text, self.lexicon), MAX_TOKENS))
        self.lows = tuple(token.low for token in self.tokens)
        self.taken = bytearray(len(self.tokens))
        self.nouns = bytearray(len(self.tokens))
        self.digits = [i for i, token in enumerate(self.tokens) if token.has_digit]
        for i, token in enumerate(self.tokens):
            here = self._marks_at(i, token.low)
            if here:
                self.marks[i] = here
                for kind in here:
                    self.index.setdefault(kind, []).append(i)
            self.nouns[i] = token.form is Form.WORD and not token.low[:1].isdigit() and _NO_NOUN.isdisjoint(here)

    def __len__(self) -> int:
        return len(self.tokens)

    def __getitem__(self, i: int) -> Token:
        return self.tokens[i] if 0 <= i < len(self.tokens) else _OUTSIDE

    def low(self, i: int) -> str:
        """The folded word at a place, "" outside the text."""
        return self.lows[i] if 0 <= i < len(self.lows) else ""

    def mark(self, i: int, kind: Kind) -> Mark | None:
        """The phrase of that kind that begins at a place, or None."""
        here = self.marks.get(i)
        return None if here is None else here.get(kind)

    def has(self, i: int, *kinds: Kind) -> bool:
        """Whether a phrase of one of the kinds begins at a place."""
        here = self.marks.get(i)
        return here is not None and not here.keys().isdisjoint(kinds)

    def has_any(self, i: int, kinds: frozenset[Kind]) -> bool:
        """The same for many kinds."""
        here = self.marks.get(i)
        return here is not None and not kinds.isdisjoint(here)

    def places(self, *kinds: Kind) -> list[int]:
        """The tokens at which a phrase of one of the kinds begins, in order."""
        found = [self.index[kind] for kind in kinds if kind in self.index]
        return found[0] if len(found) == 1 else sorted(set().union(*found))

    def figures(self, *kinds: Kind) -> list[int]:
        """The tokens with a digit, and the places of the kinds: where an amount or a date may begin."""
        return sorted({*self.digits, *self.places(*kinds)})

    def spelled(self) -> list[int]:
        """The tokens that may begin an amount without a digit: a sign, two words with a hyphen ("twenty-one")."""
        return [i for i, token in enumerate(self.tokens) if token.form is Form.SIGN or "-" in token.text]

    def ends(self, i: int, kind: Kind) -> int | None:
        """Where the phrase of that kind begins that ends right before a place, or None."""
        for back in range(1, 5):
            mark = self.mark(i - back, kind)
            if mark is not None and mark.end == i:
                return i - back
        return None

    def skip(self, i: int, *kinds: Kind) -> int:
        """The first place from `i` on where none of the kinds begins."""
        while 0 <= i < len(self.tokens):
            here = self.marks.get(i)
            ends = [here[kind].end for kind in kinds if kind in here] if here else None
            if not ends:
                break
            i = max(ends)
        return i

    def take(self, start: int, end: int) -> None:
        """Mark tokens as used."""
        for i in range(max(start, 0), min(end, len(self.tokens))):
            self.taken[i] = 1

    def free(self, start: int, end: int) -> bool:
        """Whether no token is used yet."""
        return not any(self.taken[max(start, 0) : end])

    def at(self, character: int) -> int:
        """The token that begins at a character, or the first one behind it."""
        return bisect_left(self.tokens, character, key=lambda token: token.start)

    def opens(self, i: int) -> bool:
        """Whether a sentence begins at a place."""
        return i == 0 or self.tokens[i - 1].text in {".", "?", "!", ";", ":", "(", "-", "•"}

    def is_break(self, i: int) -> bool:
        """Whether a place ends a phrase: the end of the text, punctuation, a conjunction, a relative pronoun."""
        return not 0 <= i < len(self.tokens) or self.has(i, Kind.BREAK) or self.tokens[i].form is Form.QUOTED

    def is_noun(self, i: int) -> bool:
        """Whether a word has a meaning of its own: not a frame word, number, everyday verb or punctuation."""
        return 0 <= i < len(self.nouns) and self.nouns[i] == 1

    def continues(self, i: int) -> bool:
        """Whether a word may continue a noun phrase: a noun, and no verb form or comparison behind one."""
        if not self.is_noun(i):
            return False
        here = self.marks.get(i, _NOTHING)
        if Kind.DATED_VERB in here:
            return self.has(i + 1, Kind.DATED_NOUN)
        return not self.ends_as(i, Ending.PARTICIPLE) and _STOPS.isdisjoint(here)

    def plays(self, i: int, *roles: Role) -> bool:
        """Whether a word plays one of the parts."""
        played = self.lexicon.parts.get(self.low(i))
        return played is not None and not played.isdisjoint(roles)

    def ends_as(self, i: int, ending: Ending) -> bool:
        """Whether a word has one of the endings of that form."""
        return self.low(i).endswith(self.lexicon.endings[ending])

    def nouns_end(self, i: int, most: int = 3) -> int:
        """The place behind a run of up to `most` nouns that no rule has used."""
        end = i
        while end < len(self.tokens) and end - i < most and self.is_noun(end) and not self.taken[end]:
            end += 1
        return end

    def words(self, start: int, end: int) -> str:
        """The folded words of tokens `[start, end)`."""
        return " ".join(self.tokens[i].low for i in range(max(start, 0), min(end, len(self.tokens))))

    def span(self, start: int, end: int) -> Span:
        """The characters of tokens `[start, end)`."""
        return Span(self.tokens[start].start, self.tokens[end - 1].end)

    def source(self, start: int, end: int) -> str:
        """The text of tokens `[start, end)` as written."""
        return self.text[self.tokens[start].start : self.tokens[end - 1].end]

    def _marks_at(self, i: int, low: str) -> Mapping[Kind, Mark]:
        alone = _alone(low, i, self.lexicon)
        longer = self.lexicon.longer.get((low, self.low(i + 1)))
        if longer is None:
            return alone
        found: dict[Kind, Mark] = {}
        for phrase in longer:
            size = len(phrase.words)
            if phrase.kind not in found and (size == 2 or self.lows[i : i + size] == phrase.words):
                found[phrase.kind] = Mark(i + size, phrase.payload)
        return {**alone, **found}


@lru_cache(maxsize=16384)
def _alone(word: str, i: int, lexicon: Lexicon) -> Mapping[Kind, Mark]:
    """The marks of a word by itself at a place."""
    return {phrase.kind: Mark(i + 1, phrase.payload) for phrase in lexicon.single.get(word, ())}


def _tokenize(text: str, lexicon: Lexicon) -> Iterator[Token]:
    for found in _TOKEN.finditer(text[:MAX_CHARACTERS]):
        kind, word, start = found.lastgroup, found[0], found.start()
        if kind == "word":
            for piece, low, first, last, form, *traits in _pieces(word, lexicon):
                yield Token(piece, low, start + first, start + last, form, *traits)
        else:
            yield Token(word, word, start, found.end(), _FORMS[kind or ""], has_digit=_has_digit(word))


_FORMS = {form.value: form for form in Form}


@lru_cache(maxsize=16384)
def _pieces(word: str, lexicon: Lexicon) -> tuple[Token, ...]:
    """What a run of letters and digits is made of; most often one word. Places are counted from its beginning."""
    low, size = word.lower().replace("’", "'"), len(word)
    attached = _ATTACHED.fullmatch(word)
    if attached and not _DECADE.fullmatch(low) and _is_unit(attached[2].lower(), lexicon):
        middle = len(attached[1])
        return _token(attached[1], attached[1], 0, Form.NUMBER), _token(attached[2], attached[2].lower(), middle)
    sign, dot, digits = low.rpartition(".")
    if dot and digits.isdecimal() and _is_number_sign(sign + dot, lexicon):
        middle = size - len(digits)
        return _token(word[:middle], sign, 0), _token(digits, digits, middle, Form.NUMBER)
    owner = next((o for o in lexicon.endings[Ending.POSSESSIVE] if low.endswith(o)), "")
    if owner and low not in lexicon.phrases:
        word, low = word[: -len(owner)], low[: -len(owner)]
        return (_token(word, low, 0, Form.NUMBER if low.isdecimal() else Form.WORD),)
    return (_token(word, low, 0),)


def _token(text: str, low: str, start: int, form: Form = Form.WORD) -> Token:
    word, digit = form is Form.WORD, _has_digit(text)
    code = word and digit and bool(_CODE.fullmatch(text)) and not _NO_CODE.fullmatch(text)
    return Token(text, low, start, start + len(text), form, word and text[:1].isupper(), digit, code)


def _has_digit(text: str) -> bool:
    return any(map(str.isdecimal, text))


def _is_number_sign(word: str, lexicon: Lexicon) -> bool:
    return any(p.kind is Kind.IDENTIFY and len(p.words) == 1 for p in lexicon.phrases.get(word, ()))


def _is_unit(word: str, lexicon: Lexicon) -> bool:
    wanted = {Kind.UNIT, Kind.MULTIPLIER, Kind.CURRENCY}
    return any(len(p.words) == 1 and p.kind in wanted for p in lexicon.phrases.get(word, ()))
