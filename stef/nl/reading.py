"""A question while it is read: its tokens, and what each phrase of the lexicon does among them."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from stef.apprules import AppRules
from stef.lexicon import Ending, Kind, Lexicon, Phrase, Role
from stef.nl.tokens import NO_NOUN, Form, Token, tokenized
from stef.spec import Span
from stef.timespan import Calendar


class Mark(NamedTuple):
    """What a phrase does that begins at a token; `end` is the token behind it."""

    end: int
    payload: str


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
_NOTHING: Mapping[Kind, Phrase] = {}
_OUTSIDE = Token("", "", Form.PUNCT)
_NEGATIONS = (Kind.NEITHER, Kind.EXCLUDE, Kind.NOT)
_AFFIXES = frozenset({Ending.WISE, Ending.NEGATION})
_DATES = (Kind.DAY, Kind.TO_DATE, Kind.MONTH, Kind.FISCAL)


@dataclass(slots=True)
class Reading:
    """A text while it is read: its tokens, their marks, and which of them a rule has already used.

    Attributes:
        starts: The first character of each token.
        stops: The character behind each token.
        phrases: Those that begin at a token, the longest of each kind; tokens without one are left out.
        taken: 1 for tokens that are part of something found.
        lows: The folded words.
        index: For each kind, the tokens at which a phrase of it begins, in order.
        nouns: 1 for words that have a meaning of their own.
        digits: Tokens in which a digit stands.
        amounts: The only tokens at which an amount can begin.
        moments: The only tokens at which a date or period can begin.
        affixed: Words with a prefix of negation or an ending for "by" ("region-wise").
        denies: Some word of negation or exclusion stands in the text.
        compared: The comparisons that stand written in the text, once a rule has looked for them.
    """

    text: str
    lexicon: Lexicon
    calendar: Calendar
    rules: AppRules
    tokens: list[Token] = field(init=False)
    starts: list[int] = field(init=False)
    stops: list[int] = field(init=False)
    phrases: dict[int, Mapping[Kind, Phrase]] = field(init=False)
    taken: bytearray = field(init=False)
    lows: tuple[str, ...] = field(init=False)
    index: dict[Kind, list[int]] = field(init=False)
    nouns: bytearray = field(init=False)
    digits: list[int] = field(init=False)
    amounts: frozenset[int] = field(init=False)
    moments: frozenset[int] = field(init=False)
    affixed: list[int] = field(init=False)
    denies: bool = field(init=False)
    compared: tuple[re.Match[str], ...] = ()

    def __post_init__(self) -> None:
        self.tokens, self.starts, self.stops = tokenized(self.text, self.lexicon)
        self.lows = tuple([token.low for token in self.tokens])
        self.taken = bytearray(len(self.tokens))
        self._mark()
        self.digits = [i for i, token in enumerate(self.tokens) if token.has_digit]
        counts = [i for i, token in enumerate(self.tokens) if token.may_count]
        self.amounts = frozenset((*counts, *self.places(Kind.NUMBER, Kind.CURRENCY)))
        self.moments = self._moments()
        self.affixed = [i for i, token in enumerate(self.tokens) if not _AFFIXES.isdisjoint(token.endings)]
        self.denies = self.holds(*_NEGATIONS) or not self.lexicon.roles[Role.NON].isdisjoint(self.lows)

    def _moments(self) -> frozenset[int]:
        found = [i for i in self.digits if self.tokens[i].may_date]
        if (self.digits or self.amounts) and self.holds(Kind.MONTH, Kind.AGO):
            found += (*self.digits, *self.amounts)
        if self.holds(Kind.QUARTER, Kind.HALF):
            found += self.places(Kind.ORDINAL)
        if self.holds(Kind.PERIOD):
            found += self.places(Kind.RELATIVE)
        return frozenset((*found, *self.places(*_DATES)))

    def _mark(self) -> None:
        """Find the phrases at each token, and the words that have a meaning of their own."""
        longer, lows = self.lexicon.longer, self.lows
        whole: dict[int, Mapping[Kind, Phrase]] = {}
        index: dict[Kind, list[int]] = defaultdict(list)
        nouns = [token.is_noun for token in self.tokens]
        for i, alone in [(i, token.alone) for i, token in enumerate(self.tokens) if token.alone is not None]:
            begun = longer.get(lows[i : i + 2])
            phrases = self._whole(i, begun) if begun else _NOTHING
            if phrases:
                nouns[i] = nouns[i] and NO_NOUN.isdisjoint(phrases)
            here = {**alone, **phrases} if phrases else alone
            if here:
                whole[i] = here
            for kind in here:
                index[kind].append(i)
        self.phrases, self.index, self.nouns = whole, index, bytearray(nouns)

    def __len__(self) -> int:
        return len(self.tokens)

    def __getitem__(self, i: int) -> Token:
        return self.tokens[i] if 0 <= i < len(self.tokens) else _OUTSIDE

    def low(self, i: int) -> str:
        """The folded word at a place, "" outside the text."""
        return self.lows[i] if 0 <= i < len(self.lows) else ""

    def mark(self, i: int, kind: Kind) -> Mark | None:
        """The phrase of that kind that begins at a place, or None."""
        here = self.phrases.get(i)
        phrase = None if here is None else here.get(kind)
        return None if phrase is None else Mark(i + len(phrase.words), phrase.payload)

    def marked(self, i: int, kind: Kind) -> Mark:
        """The phrase of that kind at a place where one is known to begin.

        Raises:
            KeyError: None does.
        """
        phrase = self.phrases[i][kind]
        return Mark(i + len(phrase.words), phrase.payload)

    def has(self, i: int, *kinds: Kind) -> bool:
        """Whether a phrase of one of the kinds begins at a place."""
        here = self.phrases.get(i)
        if here is not None:
            for kind in kinds:  # quicker than `any` for the one or two that most callers ask for
                if kind in here:
                    return True
        return False

    def has_any(self, i: int, kinds: frozenset[Kind]) -> bool:
        """The same for many kinds."""
        here = self.phrases.get(i)
        return here is not None and not kinds.isdisjoint(here)

    def holds(self, *kinds: Kind) -> bool:
        """Whether a phrase of one of the kinds stands anywhere in the text."""
        return not self.index.keys().isdisjoint(kinds)

    def places(self, *kinds: Kind) -> list[int]:
        """The tokens at which a phrase of one of the kinds begins, in order."""
        if len(kinds) == 1:
            return self.index.get(kinds[0], [])
        if self.index.keys().isdisjoint(kinds):
            return []
        found = [self.index[kind] for kind in kinds if kind in self.index]
        return found[0] if len(found) == 1 else sorted(set().union(*found))

    def figures(self, *kinds: Kind) -> list[int]:
        """The tokens with a digit, and the places of the kinds: where an amount or a date may begin."""
        found = self.places(*kinds)
        return sorted({*self.digits, *found}) if self.digits else found

    def ends(self, i: int, kind: Kind) -> int | None:
        """Where the phrase of that kind begins that ends right before a place, or None."""
        for back in range(1, 5):
            mark = self.mark(i - back, kind)
            if mark is not None and mark.end == i:
                return i - back
        return None

    def skip(self, i: int, *kinds: Kind) -> int:
        """The first place from `i` on where none of the kinds begins."""
        while (here := self.phrases.get(i)) is not None:
            sizes = [len(here[kind].words) for kind in kinds if kind in here]
            if not sizes:
                break
            i += max(sizes)
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
        return bisect_left(self.starts, character)

    def opens(self, i: int) -> bool:
        """Whether a sentence begins at a place."""
        return i == 0 or self.tokens[i - 1].text in {".", "?", "!", ";", ":", "(", "-", "•"}

    def is_break(self, i: int) -> bool:
        """Whether a place ends a phrase: the end of the text, punctuation, a conjunction, a relative pronoun."""
        return not 0 <= i < len(self.tokens) or self.has(i, Kind.BREAK) or self.tokens[i].form is Form.QUOTED

    def is_noun(self, i: int) -> bool:
        """Whether a word has a meaning of its own: not a frame word, number, everyday verb or punctuation."""
        return 0 <= i < len(self.nouns) and bool(self.nouns[i])

    def continues(self, i: int) -> bool:
        """Whether a word may continue a noun phrase: a noun, and no verb form or comparison behind one."""
        if not self.is_noun(i):
            return False
        here = self.phrases.get(i, _NOTHING)
        if Kind.DATED_VERB in here:
            return self.has(i + 1, Kind.DATED_NOUN)
        return not self.ends_as(i, Ending.PARTICIPLE) and _STOPS.isdisjoint(here)

    def plays(self, i: int, *roles: Role) -> bool:
        """Whether a word plays one of the parts."""
        return 0 <= i < len(self.tokens) and not self.tokens[i].roles.isdisjoint(roles)

    def ends_as(self, i: int, ending: Ending) -> bool:
        """Whether a word has one of the endings of that form."""
        return ending in self[i].endings

    def nouns_end(self, i: int, most: int = 3) -> int:
        """The place behind a run of up to `most` nouns that no rule has used."""
        end = i
        while end < len(self.tokens) and end - i < most and self.is_noun(end) and not self.taken[end]:
            end += 1
        return end

    def words(self, start: int, end: int) -> str:
        """The folded words of tokens `[start, end)`."""
        return " ".join(self.lows[max(start, 0) : max(end, 0)])

    def span(self, start: int, end: int) -> Span:
        """The characters of tokens `[start, end)`."""
        return Span(self.starts[start], self.stops[end - 1])

    def source(self, start: int, end: int) -> str:
        """The text of tokens `[start, end)` as written."""
        return self.text[self.starts[start] : self.stops[end - 1]]

    def _whole(self, i: int, phrases: Iterable[Phrase]) -> Mapping[Kind, Phrase]:
        """Those that stand at a token with all their words, of phrases whose first two words do."""
        found: dict[Kind, Phrase] = {}
        for phrase in phrases:
            size = len(phrase.words)
            if phrase.kind not in found and (size == 2 or self.lows[i : i + size] == phrase.words):
                found[phrase.kind] = phrase
        return found
