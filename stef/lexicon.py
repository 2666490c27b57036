"""A language's words as a frozen value: what each phrase does in a question.

Words are data (`stef/resources/lexicon.<language>.yaml`); `stef.data.lexicon` loads them. The reader of questions knows
the kinds below and no word of any language.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
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
    AT_ALL = "at_all"
    ATTRIBUTE = "attribute"
    BE = "be"
    BETWEEN = "between"
    BREAK = "break"
    BY = "by"
    CALLED = "called"
    CLASS = "class"
    COMPARATIVE = "comparative"
    COMPARE = "compare"
    COMPARE_VERB = "compare_verb"
    CONTRAST = "contrast"
    COUNT = "count"
    CURRENCY = "currency"
    DATED_NOUN = "dated_noun"
    DATED_VERB = "dated_verb"
    DAY = "day"
    DEFINE = "define"
    DEMONYM = "demonym"
    DIRECTION = "direction"
    DISTINCT = "distinct"
    EACH = "each"
    EDGE = "edge"
    EVEN_ONE = "even_one"
    EXACTLY = "exactly"
    EXCLUDE = "exclude"
    EXTREME = "extreme"
    FIRST = "first"
    FISCAL = "fiscal"
    FOLLOW_UP = "follow_up"
    FOREIGN = "foreign"
    FUNCTION = "function"
    HALF = "half"
    HAVE = "have"
    IDENTIFY = "identify"
    INCLUSIVE = "inclusive"
    JOINER = "joiner"
    LACK = "lack"
    LIGHT_VERB = "light_verb"
    MEASURE = "measure"
    MEASURE_VERB = "measure_verb"
    MONTH = "month"
    MULTIPLIER = "multiplier"
    NAME = "name"
    NAMING = "naming"
    NEITHER = "neither"
    NEVER = "never"
    NOT = "not"
    NULL = "null"
    NUMBER = "number"
    OF = "of"
    ONWARD = "onward"
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
    VAGUE = "vague"
    VERB = "verb"
    VERSUS = "versus"
    YEAR = "year"


class Ending(StrEnum):
    """How a word changes; the keys of `endings` in a lexicon file."""

    PARTICIPLE = "participle"
    PASSIVE = "passive"
    GERUND = "gerund"
    PLURAL = "plural"
    POSSESSIVE = "possessive"
    WISE = "wise"
    NEGATION = "negation"  # a prefix


class Role(StrEnum):
    """Parts that single words play in one rule or two; the keys of `roles` in a lexicon file."""

    ALSO_VERB = "also_verb"  # names an aggregate, and is a verb as well ("mean")
    AS = "as"
    AT = "at"
    COUNT_NOUN = "count_noun"
    COUNT_VERB = "count_verb"
    COUNTING = "counting"  # superlatives that count what follows ("the most orders")
    FIGURE = "figure"  # superlatives that ask for the value itself
    FOR = "for"
    FROM = "from"
    HOW = "how"
    IDLE = "idle"  # superlatives that are often none ("last name", "most of the")
    IN = "in"
    INDEFINITE = "indefinite"  # articles
    JUDGING = "judging"  # superlatives of an opinion, which name no value
    LAST = "last"
    LINKING = "linking"  # between a measure and its bound
    LOOSE = "loose"  # says less surely what it says
    MARKED = "marked"  # a state follows
    NON = "non"
    OLD = "old"
    POLITE = "polite"  # before an order
    PRONOUN = "pronoun"  # stands for a noun
    QUANTILE = "quantile"
    SPATIAL = "spatial"  # comparisons that are about places too
    THE = "the"
    WITH = "with"


@dataclass(frozen=True, slots=True)
class Phrase:
    """One or more words in lower case, in order, and what they do."""

    words: tuple[str, ...]
    kind: Kind
    payload: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Lexicon:
    """All phrases of a language; two are the same only when they are one, so that what is found in one can be kept.

    Attributes:
        language: ISO 639-1.
        phrases: First word → phrases that begin with it, longest first.
        single: Word → the phrases of that word alone, by kind.
        longer: First two words → phrases of two words or more that begin with them, longest first.
        roles: Words by the part that they play.
        parts: The parts that a word plays.
        endings: What a word ends in (or begins with) when it is of that form; () where the language has none.
    """

    language: str
    phrases: Mapping[str, tuple[Phrase, ...]]
    single: Mapping[str, Mapping[Kind, Phrase]]
    longer: Mapping[tuple[str, ...], tuple[Phrase, ...]]
    roles: Mapping[Role, frozenset[str]]
    parts: Mapping[str, frozenset[Role]]
    endings: Mapping[Ending, tuple[str, ...]]


def build(
    language: str,
    table: Mapping[str, Mapping[str, list[str]]],
    roles: Mapping[str, list[str]] | None = None,
    endings: Mapping[str, list[str]] | None = None,
) -> Lexicon:
    """Index a table kind → payload → phrases, a table role → words, and a table ending → letters.

    Raises:
        ValueError: A kind, role or ending is unknown, or a phrase is no text (YAML reads a bare `on` as true).
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
    single = {word: _one_of_each(p for p in found if len(p.words) == 1) for word, found in ordered.items()}
    longer: dict[tuple[str, ...], tuple[Phrase, ...]] = {}
    for phrase in (p for found in ordered.values() for p in found if len(p.words) > 1):
        start = (phrase.words[0], phrase.words[1])
        longer[start] = (*longer.get(start, ()), phrase)
    parts = dict.fromkeys(Role, frozenset[str]()) | {
        Role(name): frozenset(found) for name, found in (roles or {}).items()
    }
    forms = dict.fromkeys(Ending, ()) | {Ending(name): tuple(found) for name, found in (endings or {}).items()}
    return Lexicon(
        language=language,
        phrases=MappingProxyType(ordered),
        single=MappingProxyType(single),
        longer=MappingProxyType(longer),
        roles=MappingProxyType(parts),
        parts=MappingProxyType({word: _roles(word, parts) for words in parts.values() for word in words}),
        endings=MappingProxyType(forms),
    )


def _one_of_each(phrases: Iterable[Phrase]) -> Mapping[Kind, Phrase]:
    """The first phrase of each kind."""
    found: dict[Kind, Phrase] = {}
    for phrase in phrases:
        found.setdefault(phrase.kind, phrase)
    return found


def _roles(word: str, parts: Mapping[Role, frozenset[str]]) -> frozenset[Role]:
    return frozenset(role for role, words in parts.items() if word in words)
