"""A language's words as a frozen value: what each phrase does in a question.

Words are data (`stef/resources/lexicon.<language>.yaml`); `stef.data.lexicon` loads them. The reader of questions knows
the kinds below and no word of any language.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType


class Kind(StrEnum):
    """What a phrase does; the keys of a lexicon file. What the payload of each means stands in the file."""

    ACRONYM = "acronym"
    AFTER_VALUE = "after_value"
    AGENT = "agent"
    AGGREGATE = "aggregate"
    AGO = "ago"
    AND = "and"
    ARTICLE = "article"
    ASK = "ask"
    ATTRIBUTE = "attribute"
    BE = "be"
    BETWEEN = "between"
    BREAK = "break"
    BY = "by"
    CALLED = "called"
    COMPARATIVE = "comparative"
    COMPARE = "compare"
    COUNT = "count"
    CURRENCY = "currency"
    DATED_NOUN = "dated_noun"
    DATED_VERB = "dated_verb"
    DAY = "day"
    DEFINE = "define"
    DIRECTION = "direction"
    DISTINCT = "distinct"
    EACH = "each"
    EXACTLY = "exactly"
    EXCLUDE = "exclude"
    EXTREME = "extreme"
    FIRST = "first"
    FISCAL = "fiscal"
    FOLLOW_UP = "follow_up"
    FUNCTION = "function"
    HALF = "half"
    HAVE = "have"
    IDENTIFY = "identify"
    JOINER = "joiner"
    LACK = "lack"
    MEASURE_VERB = "measure_verb"
    MONTH = "month"
    MULTIPLIER = "multiplier"
    NAMING = "naming"
    NEITHER = "neither"
    NOT = "not"
    NULL = "null"
    NUMBER = "number"
    OF = "of"
    OR = "or"
    ORDER = "order"
    ORDINAL = "ordinal"
    OVER_TIME = "over_time"
    PATTERN = "pattern"
    PERIOD = "period"
    PERIODIC = "periodic"
    PLACE = "place"
    PREPOSITION = "preposition"
    QUARTER = "quarter"
    RANK = "rank"
    RATIO = "ratio"
    RELATIVE = "relative"
    RELATIVE_PRONOUN = "relative_pronoun"
    SINGLE = "single"
    SORT = "sort"
    STATE = "state"
    STATE_PHRASE = "state_phrase"
    SUPERLATIVE = "superlative"
    THAN_AVERAGE = "than_average"
    TIMES = "times"
    TO = "to"
    TO_DATE = "to_date"
    TOP = "top"
    UNIT = "unit"
    VERB = "verb"
    VERSUS = "versus"
    YEAR = "year"


@dataclass(frozen=True, slots=True)
class Phrase:
    """One or more words in lower case, in order, and what they do."""

    words: tuple[str, ...]
    kind: Kind
    payload: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Lexicon:
    """All phrases of a language.

    Attributes:
        language: ISO 639-1.
        phrases: First word → phrases that begin with it, longest first.
    """

    language: str
    phrases: Mapping[str, tuple[Phrase, ...]]


def build(language: str, table: Mapping[str, Mapping[str, list[str]]]) -> Lexicon:
    """Index a table kind → payload → phrases.

    Raises:
        ValueError: A kind is unknown, or a phrase is no text (YAML reads a bare `on` as true).
    """
    index: dict[str, list[Phrase]] = {}
    for kind, payloads in table.items():
        for payload, texts in payloads.items():
            for text in texts:
                if not isinstance(text, str):
                    raise ValueError(f"{kind}/{payload}: no text: {text!r}")  # noqa: TRY004 - a file's content, no type of ours
                words = tuple(text.lower().split())
                index.setdefault(words[0], []).append(Phrase(words, Kind(kind), str(payload)))
    ordered = {word: tuple(sorted(found, key=lambda p: -len(p.words))) for word, found in index.items()}
    return Lexicon(language=language, phrases=MappingProxyType(ordered))
