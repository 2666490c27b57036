"""The words of a text by themselves: what each is, wherever it stands."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache

from stef.lexicon import Ending, Kind, Lexicon, Phrase, Role
from stef.names import singular

# What is read of a text; a question of more characters is no question.
MAX_CHARACTERS = 8000
MAX_TOKENS = 2000
_YEAR_DIGITS = 4

_TOKEN = re.compile(
    r"""
    (?: (?P<plain> [a-zA-Z]++(?=[ ,?()]) )  # most words, before anything slower is tried
  | (?P<quoted> "[^"\n]{1,200}" | “[^”"\n]{1,200}[”"] | «[^»\n]{1,200}» | `[^`\n]{1,120}`
        | (?<!\w)'(?:[^'\n]|(?<=\w)'(?=\w)){1,200}'(?!\w) | (?<!\w)‘(?:[^‘’\n]|(?<=\w)’(?=\w)){1,200}’(?!\w) )
  | (?P<date> \d{4}[-/.]\d{1,2}[-/.]\d{1,2}(?:[T\ ]\d{1,2}:\d{2}(?::\d{2}(?:\.\d{1,9})?)?Z?)?(?!\d)
        | \d{1,2}[-/.]\d{1,2}[-/.]\d{4}(?!\d) | \d{1,2}/\d{4}(?!\d)
        | \d{4}[-/](?:0[1-9]|1[0-2])(?![-\d]) | \d{4}/\d{2,4}(?!\d) )
  | (?P<number> (?<![\w])-?\d+(?:[.,]\d+)*(?!\w|[.,]\d) )
  | (?P<sign> [<>]=|!=|<>|[<>=≥≤≠] )
  | (?P<word> \w+(?:[-'’.@]\w+)*\+? )
  | (?P<punct> [^\s\w] ) ) \s*+
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


@dataclass(frozen=True, slots=True)
class Token:
    """A piece of a text by itself, the same wherever it stands.

    Attributes:
        text: As written, the possessive 's dropped.
        low: Its lower-case form, apostrophes straight.
        is_capital: A word that begins with a capital letter.
        has_digit: A digit stands in it.
        is_code: A word of letters and digits (`R55`, `TR-006`) that is no ordinal, decade, quarter or the like.
        alone: What it is by itself, by kind; None when no phrase begins with it.
        is_noun: A word with a meaning of its own, unless it begins a phrase of several words.
        may_count: A number, or two words of numbers with a hyphen ("twenty-one").
        may_date: Digits that may be a date, a year or a part of one (`Q3`).
        one: Its lower-case form in the singular.
        endings: The forms that it may be of.
        roles: The parts that it plays.
    """

    text: str
    low: str
    form: Form
    is_capital: bool = False
    has_digit: bool = False
    is_code: bool = False
    alone: Mapping[Kind, Phrase] | None = None
    is_noun: bool = False
    may_count: bool = False
    may_date: bool = False
    one: str = ""
    endings: frozenset[Ending] = frozenset()
    roles: frozenset[Role] = frozenset()


NO_NOUN = frozenset({Kind.FUNCTION, Kind.VERB, Kind.PREPOSITION, Kind.BE, Kind.NUMBER, Kind.EXCLUDE})

_FORMS = {form.value: form for form in Form}
_WORDS = ("plain", "word")
_MOST_WORDS = 4096
_Pieces = tuple[tuple[Token, int, int], ...]


class _Known(dict[str, _Pieces]):
    """The tokens of what was read before; a mapping looks up faster than a function with a cache is called."""

    def __init__(self, form: str, lexicon: Lexicon) -> None:
        super().__init__()
        self._form, self._lexicon = form, lexicon

    def __missing__(self, text: str) -> _Pieces:
        if len(self) >= _MOST_WORDS:
            self.clear()
        words = self._form in _WORDS
        found = _pieces(text, self._lexicon) if words else (_piece(text, text, 0, _FORMS[self._form], self._lexicon),)
        self[text] = found
        return found


@lru_cache(maxsize=8)
def _vocabulary(lexicon: Lexicon) -> Mapping[int, _Known]:
    """For each group of the pattern the tokens that are known."""
    return {number: _Known(form, lexicon) for form, number in _TOKEN.groupindex.items()}


def tokenized(text: str, lexicon: Lexicon) -> tuple[list[Token], list[int], list[int]]:
    """The tokens of a text, the first character of each, and the one behind it."""
    tokens: list[Token] = []
    starts: list[int] = []
    stops: list[int] = []
    known = _vocabulary(lexicon)
    for found in _TOKEN.finditer(text[:MAX_CHARACTERS]):
        start, form = found.start(), found.lastindex or 0
        for token, first, stop in known[form][found[form]]:
            tokens.append(token)
            starts.append(start + first)
            stops.append(start + stop)
        if len(tokens) >= MAX_TOKENS:
            break
    return tokens[:MAX_TOKENS], starts[:MAX_TOKENS], stops[:MAX_TOKENS]


def _pieces(text: str, lexicon: Lexicon) -> _Pieces:
    """What a run of letters and digits is made of, with first character and the one behind; most often one word."""
    low = text.lower().replace("’", "'")
    attached = _ATTACHED.fullmatch(text)
    if attached and not _DECADE.fullmatch(low) and _is_unit(attached[2].lower(), lexicon):
        number, unit = attached[1], attached[2]
        return _piece(number, number, 0, Form.NUMBER, lexicon), _word(unit, unit.lower(), len(number), lexicon)
    sign, dot, digits = low.rpartition(".")
    if dot and digits.isdecimal() and _is_number_sign(sign + dot, lexicon):
        middle = len(text) - len(digits)
        return _word(text[:middle], sign, 0, lexicon), _piece(digits, digits, middle, Form.NUMBER, lexicon)
    owner = next((o for o in lexicon.endings[Ending.POSSESSIVE] if low.endswith(o)), "")
    if owner and low not in lexicon.phrases:
        text, low = text[: -len(owner)], low[: -len(owner)]
        if low.isdecimal():
            return (_piece(text, low, 0, Form.NUMBER, lexicon),)
    return (_word(text, low, 0, lexicon),)


def _word(text: str, low: str, start: int, lexicon: Lexicon) -> tuple[Token, int, int]:
    return _piece(text, low, start, Form.WORD, lexicon)


def _piece(text: str, low: str, start: int, form: Form, lexicon: Lexicon) -> tuple[Token, int, int]:
    word, digit = form is Form.WORD, any(map(str.isdecimal, text))
    alone = lexicon.single.get(low)
    token = Token(
        text=text,
        low=low,
        form=form,
        is_capital=word and text[:1].isupper(),
        has_digit=digit,
        is_code=word and digit and bool(_CODE.fullmatch(text)) and not _NO_CODE.fullmatch(text),
        alone=alone,
        is_noun=word and not low[:1].isdigit() and NO_NOUN.isdisjoint(alone or ()),
        may_count=form is Form.NUMBER or ("-" in low and all(_is_number(w, lexicon) for w in low.split("-", 1))),
        may_date=digit and (form is not Form.NUMBER or len(text) == _YEAR_DIGITS),
        one=singular(low),
        endings=_endings(low, lexicon),
        roles=lexicon.parts.get(low, frozenset()),
    )
    return token, start, start + len(text)


def _endings(low: str, lexicon: Lexicon) -> frozenset[Ending]:
    return frozenset(
        ending
        for ending, letters in lexicon.endings.items()
        if (low.startswith(letters) if ending is Ending.NEGATION else low.endswith(letters))
    )


def _is_number(word: str, lexicon: Lexicon) -> bool:
    return Kind.NUMBER in lexicon.single.get(word, ())


def _is_number_sign(word: str, lexicon: Lexicon) -> bool:
    return any(p.kind is Kind.IDENTIFY and len(p.words) == 1 for p in lexicon.phrases.get(word, ()))


def _is_unit(word: str, lexicon: Lexicon) -> bool:
    wanted = {Kind.UNIT, Kind.MULTIPLIER, Kind.CURRENCY}
    return any(len(p.words) == 1 and p.kind in wanted for p in lexicon.phrases.get(word, ()))
