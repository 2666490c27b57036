"""Which language a text is in: its script first, then its words; English where nothing speaks against it."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Sequence

from stef.lexicon import Kind, Lexicon
from stef.phrasebook import LETTER, Phrasebook, fold

_WORD = re.compile(rf"[{LETTER}]+")
_PLAIN_WORD = re.compile(r"\w+")
_MOST = 600
# Words of English that say that a text is English; its verbs and nouns are in other languages too.
_FRAME = (Kind.FUNCTION, Kind.ASK, Kind.PREPOSITION, Kind.EACH, Kind.COUNT, Kind.AGGREGATE, Kind.COMPARE, Kind.RELATIVE)
# Letters of a language without spaces that weigh as much as a word.
_LETTERS = 2
# A word or letter that a language has not weighs as much as so many that it has.
_STRANGE = 2


class Detector:
    """Chooses the phrasebook for a text.

    Args:
        lexicon: English, which is read by its own rules.
        books: The other languages.
    """

    def __init__(self, lexicon: Lexicon, books: Sequence[Phrasebook]) -> None:
        self._books = tuple(books)
        english = [p for found in lexicon.phrases.values() for p in found if p.kind in _FRAME]
        self._english = frozenset(word for phrase in english for word in phrase.words)
        self._foreign = frozenset(
            p.words[0] for found in lexicon.phrases.values() for p in found if p.kind is Kind.FOREIGN
        )
        self._latin = tuple(book for book in books if "LATIN" in book.scripts)
        self._others = tuple(book for book in books if "LATIN" not in book.scripts)
        self._speakers: dict[str, tuple[Phrasebook, ...]] = {}
        for book in self._latin:
            for word in book.vocabulary | book.classes | set(book.measures):
                if not word.isdecimal() and (len(word) > 1 or word in book.functions):
                    self._speakers[word] = (*self._speakers.get(word, ()), book)
        # What a word adds to those of the other languages, less those of English.
        self._balance = dict.fromkeys(self._english - self._speakers.keys(), -1)
        self._balance |= dict.fromkeys(self._speakers.keys() - self._english, 1)

    def language(self, text: str) -> Phrasebook | None:
        """The phrasebook of the language that most of the text is in; None for English and for unknown languages."""
        plain = text[:_MOST]
        words = [] if plain.isascii() else self._scripts(plain)
        return self._by_script(plain, words) if words else self._by_words(plain)

    def guest(self, text: str) -> Phrasebook | None:
        """The phrasebook for words in another script inside a text that is in English otherwise."""
        scripts = [] if text.isascii() else self._scripts(text[:_MOST])
        if not scripts:
            return None
        fitting = [book for book in self._others if all(script in book.scripts for script in scripts)]
        known = {book: self._weight(book, text) for book in fitting}
        best = max(fitting, key=lambda book: known[book], default=None)
        return best if best is not None and known[best] else None

    def _weight(self, book: Phrasebook, text: str) -> int:
        known = _known(book, text)
        return known and known + 2 * sum(letter in book.marks for letter in text)

    def _scripts(self, text: str) -> list[str]:
        """The scripts of letters that are not Latin, once for each letter."""
        names = [unicodedata.name(c, "") for c in text if not c.isascii() and c.isalpha()]
        return [name.partition(" ")[0] for name in names if not name.startswith("LATIN")]

    def _by_script(self, text: str, scripts: list[str]) -> Phrasebook | None:
        counted = Counter(scripts)
        fitting = [book for book in self._others if all(script in book.scripts for script in _main(counted))]
        if not fitting:
            return None
        english = sum(word in self._english for word in _WORD.findall(text.lower()) if word.isascii())
        size = len(scripts) / _LETTERS if not fitting[0].spaced else len(_WORD.findall(text)) - english
        if english >= size:
            return None
        known = {book: self._weight(book, text) for book in fitting}
        best = max(fitting, key=lambda book: (known[book], -len(book.scripts)))
        return best if known[best] else None

    def _by_words(self, text: str) -> Phrasebook | None:
        if not self._latin:
            return None
        plain = text.isascii()
        words = _PLAIN_WORD.findall(text.lower()) if plain else [fold(word, {})[0] for word in _WORD.findall(text)]
        if sum(filter(None, map(self._balance.get, words))) <= 0:
            return None
        if text.isascii() and not any(word.strip("¿¡?!.,;:()\"'") in self._speakers for word in text.lower().split()):
            return None  # only inside words such as `{"total":`
        return self._spoken(text, words)

    def _spoken(self, text: str, words: list[str]) -> Phrasebook | None:
        """The language of most of the words, unless more of them are English."""
        english = sum(word in self._english for word in words)
        counted, own = dict.fromkeys(self._latin, 0.0), dict.fromkeys(self._latin, 0.0)
        strange = dict.fromkeys(self._latin, 0)
        for i, (said, word) in enumerate(zip(_WORD.findall(text), words, strict=True)):
            speakers, foreign = self._speakers.get(word, ()), said.lower() in self._foreign
            # A capital inside a sentence is a name, or a noun of German.
            weight = 0.5 if i and said[:1].isupper() else 1.0
            for book in speakers:
                counted[book] += weight
                own[book] += weight / len(speakers)
            for book in self._latin if foreign else ():
                strange[book] += book not in speakers
        for letter in text.lower() if not text.isascii() else "":
            owners = [book for book in self._latin if letter in book.marks]
            for book in owners:
                own[book] += 1 / len(owners)
            for book in self._latin:
                strange[book] += letter.isalpha() and not letter.isascii() and book not in owners
        best = max(self._latin, key=lambda book: own[book] - strange[book])
        return best if counted[best] > max(english, _STRANGE * strange[best]) else None


def _main(scripts: Counter[str]) -> list[str]:
    """The scripts that are no exception in the text."""
    most = sum(scripts.values())
    return [script for script, count in scripts.items() if count * 10 >= most]


def _known(book: Phrasebook, text: str) -> int:
    """How many letters of the text are words of the language."""
    line = fold(text, book.letters)[0]
    if book.spaced:
        return sum(len(word) for word in _WORD.findall(line) if word in book.vocabulary)
    return sum(len(found[0]) for found in book.word.finditer(line))
