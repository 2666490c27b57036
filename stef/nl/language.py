"""Whether a text is in the language of the lexicon at all; a cheap look at its letters and function words."""

from __future__ import annotations

import unicodedata

from stef.lexicon import Kind
from stef.nl.reading import Reading
from stef.nl.tokens import Form

# More words than these say nothing new.
_MOST = 200
# A text of fewer plain words may be a title without a function word.
_FEW = 4
_KNOWN = frozenset(
    {
        Kind.FUNCTION,
        Kind.ASK,
        Kind.PREPOSITION,
        Kind.EACH,
        Kind.TOP,
        Kind.RELATIVE,
        Kind.PERIOD,
        Kind.PERIODIC,
        Kind.SUPERLATIVE,
        Kind.COUNT,
        Kind.AGGREGATE,
        Kind.COMPARE,
        Kind.COMPARATIVE,
        Kind.STATE,
        Kind.VERB,
        Kind.DATED_VERB,
        Kind.DATED_NOUN,
        Kind.MEASURE,
        Kind.NAME,
        Kind.DAY,
        Kind.DISTINCT,
    }
)


def is_foreign(r: Reading) -> bool:
    """Whether the text is in another language: foreign letters, or foreign function words and hardly any known word.

    Quoted text and words with a capital inside a sentence are names, and names belong to no language.
    """
    if r.text.isascii() and (Kind.FOREIGN not in r.index or r.index[Kind.FOREIGN][0] >= _MOST):
        return _is_strange(r)
    letters = [c for c in r.text[: _MOST * 10] if c.isalpha()]
    if sum(_is_latin(c) for c in letters) < len(letters) / 2:
        return True
    foreign, known = _counts(r)
    return (foreign > 0 and foreign >= known) or _is_strange(r)


def _is_latin(letter: str) -> bool:
    return letter.isascii() or unicodedata.name(letter, "").startswith("LATIN")


def _counts(r: Reading) -> tuple[int, int]:
    """How many words are function words of other languages only, and how many the lexicon knows."""
    foreign = known = 0
    for i in range(min(len(r), _MOST)):
        if r[i].form is not Form.WORD or r[i].is_code:
            continue
        if r.has_any(i, _KNOWN):
            known += 1
        elif r.has(i, Kind.FOREIGN) and (not r[i].is_capital or r.opens(i)):
            foreign += 1
    return foreign, known


def _is_strange(r: Reading) -> bool:
    """Whether several plain words stand there, and the lexicon knows none of them."""
    plain = 0
    for i, token in enumerate(r.tokens[:_MOST]):
        if token.form is Form.WORD and not token.is_code and "_" not in token.text:
            if i in r.phrases:
                return False
            plain += 1
    return plain >= _FEW
