"""Values that stand in the text as themselves: quoted text, names, codes, words that the application declares."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from stef.lexicon import Ending, Kind, Phrase, Role
from stef.nl.reading import Reading
from stef.nl.tokens import Form
from stef.spec import Filter, Op, Scope
from stef.values import Many, Text, Value, fold

_LISTED = 20
_NEGATION_REACH = 6
_PAUSES = frozenset({".", "?", ";", ":", ","})
_UNMARKED: Mapping[Kind, Phrase] = {}


def declared(r: Reading) -> list[Filter]:
    """Words that R_app's value synonyms declare for a column."""
    spoken: dict[tuple[str, ...], tuple[str, str]] = {}
    for column, words in r.rules.value_synonyms.items():
        for word in words:
            spoken[tuple(fold(word).split())] = (column, word)
    if not spoken:
        return []
    longest = max(map(len, spoken))
    found: list[Filter] = []
    for i in range(len(r)):
        for size in range(min(longest, len(r) - i), 0, -1):
            hit = spoken.get(tuple(r[k].low for k in range(i, i + size)))
            if hit and r.free(i, i + size) and not _differs_in_case(hit[1], r[i].text):
                found.append(value_filter(r, i, i + size, hit[0], Text(hit[1]), 0.9))
                r.take(i, i + size)
                break
    return found


def _differs_in_case(word: str, written: str) -> bool:
    """A short word in capitals is not its lower-case namesake (US, us)."""
    return len(word) <= 3 and word.isupper() and not written.isupper()


def quoted(r: Reading) -> list[Filter]:
    """Quoted values, alone or listed."""
    found: list[Filter] = []
    for i in [i for i, token in enumerate(r.tokens) if token.form is Form.QUOTED and not r.taken[i]]:
        if r.taken[i]:
            continue
        ends = _list_ends(r, i, lambda j: j + 1 if r[j].form is Form.QUOTED and not r.taken[j] else None)
        places = [i, *(end - 1 for end in ends[1:])]
        found.append(_quoted(r, i, places))
        r.take(i, ends[-1])
    return found


def _quoted(r: Reading, i: int, places: list[int]) -> Filter:
    texts = [r[p].text[1:-1].strip() for p in places]
    end = places[-1] + 1
    pattern = _pattern(r, i)
    if pattern is not None:
        column, shape = pattern
        op = Op.NOT_LIKE if negated(r, i) else Op.LIKE
        return value_filter(r, i, end, column, Text(shape.replace("*", texts[0])), 0.85, op=op)
    column, certainty = _quoted_column(r, i), 0.9
    if r.plays(i - 1, Role.AS) and not r.has(i - 2, Kind.CALLED):
        certainty = 0.3  # an alias for the output
    if not column and r.is_noun(end) and r.has(end, Kind.NAMING):
        column = r.low(end)
    return value_filter(r, i, end, column, _value(texts), certainty)


def _pattern(r: Reading, i: int) -> tuple[str, str] | None:
    """The LIKE pattern that stands before a value, and the column that it is about."""
    if not r.holds(Kind.PATTERN):
        return None
    for back in range(1, 5):
        mark = r.mark(i - back, Kind.PATTERN)
        if mark is not None and all(r.is_noun(k) or r.has(k, Kind.ARTICLE) for k in range(mark.end, i)):
            named = r.words(mark.end, i) if mark.end < i else _noun_before(r, i - back)
            return named, mark.payload
    return None


def _quoted_column(r: Reading, i: int) -> str:
    j = i - 1
    while j >= 0 and (
        r.has(j, Kind.BE, Kind.ARTICLE) or r[j].text in {":", "=", ","} or r.plays(j, Role.AS, Role.WITH)
    ):
        j -= 1
    for back in range(4):
        mark = r.mark(j - back, Kind.CALLED)
        if mark is not None and mark.end == j + 1:
            inner = r.low(j) if r.is_noun(j) else ""
            return _noun_before(r, j - back) or inner
    return r.words(j - 1 if _compound(r, j) else j, j + 1) if r.is_noun(j) and not r.has(j, Kind.ASK) else ""


def _compound(r: Reading, j: int) -> bool:
    return r.is_noun(j - 1) and r.has(j, Kind.IDENTIFY) and not r.has(j - 1, Kind.ASK) and r[j].form is Form.WORD


def _noun_before(r: Reading, i: int) -> str:
    """The noun right before a place, a relative pronoun or copula between them left out."""
    j = i - 1
    while j >= 0 and r.has(j, Kind.RELATIVE_PRONOUN, Kind.BE):
        j -= 1
    return r.low(j) if r.is_noun(j) and not r.has(j, Kind.ASK) else ""


def _value(texts: list[str]) -> Value:
    return Text(texts[0]) if len(texts) == 1 else Many(tuple(Text(t) for t in sorted(texts, key=fold)))


def value_filter(
    r: Reading,
    start: int,
    end: int,
    column: str,
    value: Value,
    certainty: float,
    *,
    op: Op | None = None,
    implied: bool = False,
) -> Filter:
    """A condition for a value at tokens `[start, end)`; its operator follows from the value and a negation."""
    if op is None:
        op = Op.IN if isinstance(value, Many) else Op.EQ
        op = op.negated if negated(r, start) else op
    return Filter(
        column=column,
        op=op,
        value=value,
        scope=Scope.QUESTION,
        certainty=certainty,
        implied_column=implied,
        text=r.source(start, end),
        span=r.span(start, end),
    )


def negated(r: Reading, i: int) -> bool:
    """Whether a negation or an exclusion before a place governs it."""
    if not r.denies:
        return False
    for j in range(i - 1, max(i - 1 - _NEGATION_REACH, -1), -1):
        here = r.phrases.get(j, _UNMARKED)
        if Kind.NEITHER in here or (Kind.EXCLUDE in here and r.marked(j, Kind.EXCLUDE).end <= i):
            return True
        if Kind.NOT in here and i - j <= 4 and not r.has(j + 1, Kind.COMPARE):
            return True
        if r.plays(j, Role.NON):
            return True
        relative = Kind.RELATIVE_PRONOUN in here and Kind.EXCLUDE not in here
        if relative or r.taken[j] or r[j].text in _PAUSES:
            return False
    return False


def names(r: Reading) -> list[Filter]:
    """Proper names and codes, alone or listed."""
    shouting: bool | None = None
    found: list[Filter] = []
    for i in [i for i, token in enumerate(r.tokens) if token.is_capital or token.is_code]:
        if not _begins_name(r, i):
            continue
        shouting = _capitals_mean_nothing(r) if shouting is None else shouting
        ends = _list_ends(r, i, lambda j: _name_end(r, j))
        found.append(_named(r, i, ends, shouting=shouting))
        r.take(i, ends[-1])
    return found


def _capitals_mean_nothing(r: Reading) -> bool:
    """Whether the text is in title case or capitals throughout, so that a capital marks no name."""
    words = [i for i, token in enumerate(r.tokens) if token.form is Form.WORD]
    capital = [i for i in words if r.tokens[i].is_capital]
    if len(words) < 4 or len(capital) <= 0.5 * len(words):
        return False
    framed = [
        i
        for i in capital
        if not r.opens(i) and r.has(i, Kind.FUNCTION, Kind.AGGREGATE, Kind.VERB) and not r.has(i, Kind.MONTH)
    ]
    return bool(framed) or len(capital) == len(words)


def _list_ends(r: Reading, i: int, end_at: Callable[[int], int | None]) -> list[int]:
    """Ends of the members of a list that begins at a place: "A", "A or B", "A, B and C"."""
    first = end_at(i)
    ends: list[int] = [i + 1 if first is None else first]
    commas: list[int] = []
    while len(ends) + len(commas) < _LISTED:
        j = (commas or ends)[-1]
        comma = r[j].text == ","
        j = j + 1 if comma else j
        joined = r.has(j, Kind.AND, Kind.OR, Kind.CONTRAST)
        j = r.skip(j, Kind.AND, Kind.OR, Kind.CONTRAST) if joined else j
        if not (comma or joined):
            break
        after = end_at(r.skip(j, Kind.ARTICLE) if joined else j)
        if after is None:
            break
        commas.append(after)
        if joined:
            ends.extend(commas)
            commas = []
    return ends


def _name_end(r: Reading, i: int) -> int | None:
    """The token behind the name or code that begins at a place, or None."""
    if not _begins_name(r, i):
        return None
    end = i + 1
    while end < len(r) and not r.taken[end]:
        if _continues_name(r, end):
            end += 1
        elif r[end].text == "." and len(r[end - 1].text) == 1 and r[end - 1].is_capital and r[end + 1].is_capital:
            end += 2  # an initial
        elif r.has(end, Kind.JOINER) and not r.opens(end) and _joined(r, end):
            end += 1
        else:
            break
    return end


def _joined(r: Reading, i: int) -> bool:
    following = i + 1
    if (r.has(i, Kind.OF) or r.plays(i, Role.FOR)) and r.has(following, Kind.JOINER):
        following += 1
    return r[following].is_capital and not r.has(following, Kind.ACRONYM, Kind.MONTH) and not r.taken[following]


def _begins_name(r: Reading, i: int) -> bool:
    token = r[i]
    if token.form is not Form.WORD or r.taken[i]:
        return False
    if token.is_code:
        return True
    if not token.is_capital or r.has(i, Kind.ACRONYM, Kind.MONTH, Kind.CURRENCY, Kind.ASK, Kind.FOLLOW_UP):
        return False
    if token.text.isupper() and r[i + 1].text == "(" and r.starts[i + 1] == r.stops[i]:
        return False  # a function's name
    if len(token.text) == 1:
        return r.has(i - 1, Kind.NAMING, Kind.IDENTIFY) and not r.opens(i - 1)
    if r.ends_as(i, Ending.PLURAL) and token.text[:-1].isupper() and token.text[-1].islower() and len(token.text) > 2:
        return False
    if r.opens(i):
        if r.has(i, Kind.DEMONYM):
            return r.continues(i + 1)
        following = r[i + 1]
        known = token.low in r.lexicon.phrases
        return (
            not known
            and following.is_capital
            and not r.has(i + 1, Kind.ACRONYM, Kind.MONTH)
            and not r.ends_as(i + 1, Ending.PLURAL)
        )
    return not (r.has(i, Kind.FUNCTION) and not token.text.isupper())


def _continues_name(r: Reading, i: int) -> bool:
    token = r[i]
    if token.form is Form.NUMBER:
        return (
            token.text.isdecimal()
            and len(token.text) <= 3
            and not (r.is_noun(i + 1) and r.ends_as(i + 1, Ending.PLURAL))
        )
    if token.form is not Form.WORD or r.has(i, Kind.MONTH):
        return False
    return token.is_code or (token.is_capital and not (r.has(i, Kind.ACRONYM) and token.text != "Top"))


def _named(r: Reading, i: int, ends: list[int], *, shouting: bool) -> Filter:
    starts = [i]
    for end in ends[:-1]:
        j = r.skip(end + 1 if r[end].text == "," else end, Kind.AND, Kind.OR, Kind.CONTRAST)
        starts.append(r.skip(j, Kind.ARTICLE) if not r[j].is_capital else j)
    texts = [r.source(start, end) for start, end in zip(starts, ends, strict=True)]
    column, implied = _name_column(r, i, ends[-1])
    certainty = _name_certainty(r, i, ends)
    if len(ends) > 1 and _one_name(r, starts, ends):
        certainty = 0.45
    if shouting and not r[i].is_code:
        certainty = min(certainty, 0.3)
    if r.has(i, Kind.DEMONYM) and ends[0] == i + 1 and not r.has(i - 1, Kind.PREPOSITION, Kind.NAMING):
        # The country's name may be what is stored.
        certainty, implied = min(certainty, 0.55), True
    if (pattern := _pattern(r, i)) and len(r[i].text) <= 2:
        op = Op.NOT_LIKE if negated(r, i) else Op.LIKE
        return value_filter(r, i, ends[0], pattern[0], Text(pattern[1].replace("*", texts[0])), 0.8, op=op)
    return value_filter(r, i, ends[-1], column, _value(texts), certainty, implied=implied)


def _one_name(r: Reading, starts: list[int], ends: list[int]) -> bool:
    """Whether "X and Y Z" may be a single name, as those of laws, companies and subjects are."""
    sizes = [end - start for start, end in zip(starts, ends, strict=True)]
    return len(sizes) == 2 and r.has(ends[0], Kind.AND) and sizes[0] != sizes[1] and not r[starts[0]].is_code


def _name_certainty(r: Reading, i: int, ends: list[int]) -> float:
    token = r[i]
    bound = token.is_code and r.has(i - 1, Kind.TO) and not r.has(i - 1, Kind.AND) and r[i - 2].is_code
    if (
        bound
        or r.has(i - 1, Kind.BETWEEN)
        or (token.is_code and r.has(i - 2, Kind.BETWEEN))
        or (r.has(ends[-1], Kind.TO) and r[ends[-1] + 1].is_code)
    ):
        return 0.4
    if _is_asked(r, i, ends[-1]):
        return 0.3
    if "_" in token.text and not any(c.isdigit() for c in token.text.split("_")[0]):
        return 0.4
    if len(token.text) > 1 and token.text[1] == "-" and token.text.count("-") == 1 and not token.is_code:
        return 0.45
    if _is_title(r, i, ends[0]):
        return 0.45
    if token.is_code:
        return 0.45 if token.text.islower() and len(token.text) <= 2 else 0.85
    if ends[0] - i == 1 and (
        r[i - 1].form is Form.NUMBER or r.has(i - 1, Kind.TOP, Kind.NUMBER, Kind.COUNT, Kind.DISTINCT)
    ):
        return 0.4
    if r.opens(i):
        return 0.55
    if len(token.text) == 1:
        return 0.8
    return 0.75 if r.has(i - 1, Kind.PREPOSITION, Kind.NAMING) or ends[0] - i > 1 else 0.7


def _is_title(r: Reading, i: int, end: int) -> bool:
    """Whether capitals write a column's or a class's own name ("Episode", "Ownership Code")."""
    if end == i + 1:
        return r.has(i, Kind.NAME, Kind.NAMING, Kind.PLACE, Kind.CLASS, Kind.MEASURE) and not r[i].is_code
    return r.has(end - 1, Kind.NAME, Kind.CLASS, Kind.DATED_NOUN)


def _is_asked(r: Reading, i: int, end: int) -> bool:
    """Whether capitals name a column that is asked for ("What is the Total Amount of …")."""
    while r[i - 1].is_capital and not r.opens(i - 1) and not r.taken[i - 1]:
        i -= 1
    if not r.has(i - 1, Kind.ARTICLE, Kind.ASK):
        return False
    lead = i - 2 if r.has(i - 1, Kind.ARTICLE) else i - 1
    asked = r.has(lead, Kind.ASK) or (r.has(lead, Kind.BE) and r.has(lead - 1, Kind.ASK))
    return asked and (r.has(end, Kind.OF) or r.plays(end, Role.FOR) or r.is_break(end))


def _name_column(r: Reading, i: int, end: int) -> tuple[str, bool]:
    """The noun that says what a name is a name of, and whether that is a guess."""
    for back in range(1, 4) if r.holds(Kind.AGENT, Kind.CALLED) else ():
        agent = r.mark(i - back, Kind.AGENT)
        if agent is not None and r.skip(agent.end, Kind.ARTICLE) == i:
            return agent.payload, True
        called = r.mark(i - back, Kind.CALLED)
        if called is not None and called.end == i and (noun := _noun_before(r, i - back)):
            return noun, False
    j = r.skip(i, Kind.ARTICLE) - 1
    j = j - 1 if r.has(j, Kind.ARTICLE) else j
    if r.has(j, Kind.OF) and r.has(j - 1, Kind.PLACE):
        return r.low(j - 1), False
    if r.has(j, Kind.BE) and r.is_noun(j - 1) and r.has(j - 1, Kind.NAMING, Kind.IDENTIFY, Kind.PLACE):
        return r.low(j - 1), False
    if r.is_noun(i - 1) and not r.opens(i - 1) and not r.has(i - 1, Kind.STATE, Kind.ATTRIBUTE, Kind.SUPERLATIVE):
        sure = r.has(i - 1, Kind.NAMING, Kind.IDENTIFY)
        return (r.words(i - 2, i) if _compound(r, i - 1) else r.low(i - 1)), not sure
    if r.continues(end) and not r[end].is_capital and not r.has(end, Kind.SUPERLATIVE, Kind.STATE):
        return r.low(end), not r.has(end, Kind.NAMING)
    return "", False
