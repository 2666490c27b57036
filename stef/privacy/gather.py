"""Which values of a record are hidden: from its literals, from what its questions name, and from the rules."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise

from stef.apprules import AppRules
from stef.privacy.kinds import Kinds
from stef.privacy.tokens import Tokens
from stef.privacy.veil import Veil
from stef.result import Alignment, Specs
from stef.spec import Filter, Op, QuerySpec
from stef.timespan import Interval
from stef.values import Many, Number, NumberRange, Text, Value, describe, fold

_SURE = 0.5
_LIKES = frozenset({Op.LIKE, Op.NOT_LIKE})


@dataclass(frozen=True, slots=True, kw_only=True)
class Contents:
    """What a record says and what was read from it.

    Attributes:
        question: As asked.
        expansion: "" for none.
        sql: As it is shown.
        dialect: Canonical name of the one that reads the SQL; "" for plain SQL.
        specs: Of the three.
        alignment: None where nothing was aligned.
    """

    question: str
    expansion: str
    sql: str
    dialect: str
    specs: Specs
    alignment: Alignment | None


def veiled(kinds: Kinds, tokens: Tokens, said: Contents, rules: AppRules) -> Veil:
    """The veil over a record.

    Args:
        kinds: What patterns tell.
        tokens: Makes the tokens.
        said: The record's texts, and what was read from them.
        rules: With private values and columns.
    """
    specs, texts = said.specs, (said.question, said.expansion, said.sql)
    veil = Veil(
        kinds,
        tokens,
        texts=texts,
        physical=_physical(specs.sql),
        private_columns=frozenset(map(fold, rules.private_columns)),
        dialect=said.dialect,
    )
    _hide_declared(veil, rules.private_values, texts)
    for text in texts:
        veil.hide_patterns(text)
    veil.hide_literals(said.sql)
    for item in specs.sql.filters if specs.sql else ():
        _hide_found(veil, item)
    for text, spec in ((said.question, specs.question), (said.expansion, specs.expansion)):
        veil.hide_quoted(text)
        _hide_mentions(veil, text, spec.filters if spec else ())
    if rules.private_columns:
        _hide_private(veil, specs, said.alignment, rules)
    veil.say_as(said.expansion)
    veil.say_as(said.question)
    return veil


def _physical(spec: QuerySpec | None) -> frozenset[str]:
    """Names of tables and columns that the statement uses."""
    if spec is None:
        return frozenset()
    tables = [part for name in (*spec.tables, *(use.table for use in spec.uses)) for part in name.split(".")]
    return frozenset(name.lower() for name in (*tables, *(use.column for use in spec.uses)))


def _hide_declared(veil: Veil, values: Iterable[str], texts: Iterable[str]) -> None:
    """Values that the rules name, where the record says them."""
    whole = fold(" ".join(texts)) if values else ""
    for value in values:
        if fold(value) in whole:
            veil.hide(value)


def _hide_found(veil: Veil, item: Filter) -> None:
    """Values of a condition of the SQL that are no plain string in it, such as those of variables."""
    for text in _texts(item.value):
        if item.op not in _LIKES and not veil.is_plain(text.strip("%*")):
            veil.hide(text.strip("%*"))


def _texts(value: Value) -> Iterator[str]:
    if isinstance(value, Text):
        yield value.raw
    elif isinstance(value, Many):
        yield from (member.raw for member in value.members if isinstance(member, Text))


def _hide_mentions(veil: Veil, text: str, filters: Iterable[Filter]) -> None:
    """Names that a question says: with a capital, in a script without capitals, or with a word of a hidden value."""
    named: list[Filter] = []
    for item in filters:
        for said in _texts(item.value):
            if not veil.knows(said) and (veil.is_plain(said) or veil.is_name(said)):
                continue
            sure = item.certainty >= _SURE or not item.implied_column or " " in said
            if (sure and _is_proper(said)) or veil.shares_word(said):
                veil.hide_name(said)
            if item.span is not None and _is_proper(said):
                named.append(item)
    # Two names in a row are a person's, however unsure each is.
    spans = sorted((item.span for item in named if item.span is not None), key=lambda span: span.start)
    for left, right in pairwise(spans):
        if left.end < right.start and text[left.end : right.start].isspace():
            veil.hide_name(text[left.start : right.end])


def _is_proper(text: str) -> bool:
    first = next((char for char in text if char.isalpha()), "")
    return first.isupper() or (first != "" and first.lower() == first.upper())


def _hide_private(veil: Veil, specs: Specs, alignment: Alignment | None, rules: AppRules) -> None:
    """Values of private columns, on the side of the SQL and in the words of the question."""
    private = frozenset(map(fold, rules.private_columns))
    asked = [item for spec in (specs.question, specs.expansion) if spec for item in spec.filters]
    for item in (*asked, *(specs.sql.filters if specs.sql else ())):
        if fold(item.column) in private or fold(rules.physical(item.column) or "").rpartition(".")[2] in private:
            _hide_value(veil, item)
    for pair in alignment.filters if alignment else ():
        if pair.asked is not None and pair.found is not None and fold(pair.found.column) in private:
            _hide_value(veil, pair.asked)


def _hide_value(veil: Veil, item: Filter) -> None:
    match item.value:
        case Interval():
            veil.hide_as(str(item.value), item.text)
        case NumberRange(low, high):
            veil.hide(f"{low.normalize():f}")
            veil.hide(f"{high.normalize():f}")
        case Number(number):
            veil.hide_as(f"{number.normalize():f}", describe(item.value))
        case Many(members):
            for member in members:
                veil.hide(member.raw if isinstance(member, Text) else describe(member))
        case Text(raw):
            veil.hide(raw.strip("%*"))
        case _:
            pass
