"""Reads a question with a phrasebook into a `QuerySpec`: rules in their order, each of which uses up what it reads."""

from __future__ import annotations

from dataclasses import replace

from stef.apprules import NO_RULES, AppRules
from stef.lexicon import Lexicon
from stef.nl.explicit import written, written_aggregates
from stef.nl.reading import Reading
from stef.phrasebook import Mask, Phrasebook, Section
from stef.spec import Filter, QuerySpec, Source
from stef.timespan import Calendar
from stef.tongues.amounts import amounts
from stef.tongues.bounds import bounds
from stef.tongues.shape import aggregates, grouping, implied, limits, ordering, projections
from stef.tongues.sheet import Item, Sheet, declared, quoted, words
from stef.tongues.times import found_times, times
from stef.tongues.values import beside, excluded, guesses, named, states, told

_SHORT = 8
_SURE = 0.5


def extract(
    text: str,
    *,
    book: Phrasebook,
    lexicon: Lexicon,
    calendar: Calendar,
    rules: AppRules = NO_RULES,
    source: Source = Source.QUESTION,
) -> QuerySpec:
    """Read what a question, or an expansion, asks for.

    Args:
        text: As the user wrote it; only its first 4,000 characters are read.
        book: Phrases of its language.
        lexicon: Of English, in which conditions are written out (`status = 'open' AND …`).
        calendar: The clock and conventions that relative dates are resolved with.
        rules: Their column words and value synonyms are looked for first.
        source: Which text this is.

    Returns:
        Filters with certainty 0.5 or more are meant to be required; spans are characters of `text`. The column of a
        condition is a guess unless `rules` have it: the schema may be in another language than the question.
    """
    reading = Reading(text, lexicon, calendar, rules)
    explicit = written(reading)
    sheet = Sheet(text, book, calendar, rules)
    _settle(sheet, explicit)
    elliptical = _is_elliptical(sheet)
    limit, ranked = limits(sheet)
    order = ordering(sheet)
    filters = bounds(sheet) + times(sheet) + excluded(sheet)
    counted, shown = aggregates(sheet), projections(sheet)
    keys = grouping(sheet)
    if keys and not counted:
        counted = implied(sheet)
    filters += beside(sheet) + named(sheet) + told(sheet) + guesses(sheet)
    return QuerySpec(
        source=source,
        projections=tuple(shown),
        aggregations=(*counted, *written_aggregates(reading)),
        filters=tuple(sorted((*explicit, *_once(filters)), key=_place)),
        group_by=tuple(keys),
        order_by=tuple(order or ranked),
        limit=limit,
        distinct=bool(sheet.find(Section.DISTINCT)) and not any(item.distinct for item in counted),
        elliptical=elliptical,
        language=book.language,
    )


def joined(spec: QuerySpec, guest: QuerySpec) -> QuerySpec:
    """Add to the reading of an English text what its words in another script ask for ("orders of 上个月")."""
    more = [item for item in guest.filters if item.certainty >= _SURE and not any(c.isascii() for c in item.text)]
    clear = [
        item for item in more if not any(_same_place(item, other) for other in spec.filters if other.certainty >= _SURE)
    ]
    return replace(spec, filters=tuple(sorted((*spec.filters, *clear), key=_place))) if clear else spec


def _same_place(left: Filter, right: Filter) -> bool:
    if left.span is None or right.span is None:
        return False
    return left.span.start < right.span.end and right.span.start < left.span.end


def _settle(sheet: Sheet, explicit: list[Filter]) -> None:
    """Put down what is surest: written conditions, quoted texts, R_app's words, times, amounts, states, other words."""
    for said in explicit:
        inside = [i for i, place in enumerate(sheet.at[:-1]) if said.span and said.span.start <= place < said.span.end]
        if inside:
            sheet.use(inside[0], inside[-1] + 1)
    quoted(sheet)
    known, moments = declared(sheet), found_times(sheet)
    for item in known:
        if not any(_holds(moment, item) or _crosses(moment, item) for moment in moments):
            sheet.put(item)
    for moment in moments:
        if not any(item.end - item.start > moment.end - moment.start and _overlap(item, moment) for item in known):
            sheet.put(moment)
    for _, match in sheet.find(Section.CONTEXT):
        sheet.use(*match.span())
    amounts(sheet)
    states(sheet)
    words(sheet)
    for part in sheet.parts(0, len(sheet.line)):
        if isinstance(part, Item) and part.mask is Mask.COLUMN and _names_class(sheet, part):
            sheet.put(replace(part, mask=Mask.CLASS))


def _overlap(left: Item, right: Item) -> bool:
    return left.start < right.end and right.start < left.end


def _holds(outer: Item, inner: Item) -> bool:
    return outer.start <= inner.start and inner.end <= outer.end


def _crosses(moment: Item, item: Item) -> bool:
    return _overlap(moment, item) and item.end - item.start <= moment.end - moment.start


def _names_class(sheet: Sheet, item: Item) -> bool:
    """Whether values stand beside a mapped word: its last part is a noun of a class."""
    plain = sheet.book.read_as(item.text)
    return any(plain.endswith(noun) or plain.startswith(noun) for noun in sheet.book.classes)


def _place(condition: Filter) -> int:
    return condition.span.start if condition.span else 0


def _once(filters: list[Filter]) -> list[Filter]:
    found: dict[tuple[object, ...], Filter] = {}
    for item in filters:
        key = (item.column, item.op, item.value)
        if key not in found or found[key].certainty < item.certainty:
            found[key] = item
    return list(found.values())


def _is_elliptical(sheet: Sheet) -> bool:
    """Whether the question leans on one before it: short, and begun like a follow-up."""
    begun = any(not sheet.folded[: match.start()].strip(" ¿¡") for _, match in sheet.find(Section.FOLLOW_UP))
    return begun and len(sheet.parts(0, len(sheet.line))) <= _SHORT and not sheet.find(Section.AGGREGATE)
