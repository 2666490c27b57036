"""Turns of phrase that ask for a construct, against whether the statement has it.

Coarser than the readers, and so without a say of their own: numbers for the model. English only; other languages have
none of these phrases, and get zeros.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from stef.evidence.facts import Facts
from stef.evidence.naming import Words
from stef.names import stems
from stef.spec import JoinKind, Op, OrderKey
from stef.values import Many, Text, fold


def _words(*lines: str) -> re.Pattern[str]:
    return re.compile(rf"\b(?:{'|'.join('|'.join(line.split()) for line in lines)})\b", re.IGNORECASE)


_EXTREME = _words(
    "most least top best worst maximum minimum max min first last latest newest oldest youngest highest lowest",
    "largest smallest biggest greatest fewest longest shortest tallest heaviest lightest fastest slowest cheapest",
    "richest poorest earliest strongest weakest rarest narrowest widest closest nearest furthest",
)
_LOW = _words(
    "least fewest lowest smallest minimum min worst shortest cheapest rarest weakest slowest lightest narrowest",
    "poorest ascending alphabetical alphabetically earliest oldest first youngest",
)
_HIGH = _words("most highest largest youngest latest last greatest longest oldest best top maximum max biggest")
_DENIAL = re.compile(
    r"\b(?:not|never|without|no|except|excluding|exclude|other than|neither|nor|non)\b|n't\b|\bnon-", re.IGNORECASE
)
_PERCENT = re.compile(r"percent|%", re.IGNORECASE)
_ROUNDED = re.compile(r"decimal|round|digit", re.IGNORECASE)
_PART = re.compile(
    r"contain|start|begin|end|like|includ|word|letter|substring|prefix|suffix|pattern|\d{4}", re.IGNORECASE
)
_ALL = _words("all each every even any zero including")
_COUNTED = re.compile(
    r"\s*(?:how many|count|(?:what is|find|calculate|give|return)(?: me)? the (?:total )?number)", re.IGNORECASE
)
_RANKING = frozenset({"max", "min", "argmax", "argmin"})


def conditions_turned(facts: Facts, words: Words) -> Iterator[tuple[str, float]]:  # noqa: ARG001 - called like the others
    """Denials without a negation, patterns where nothing speaks of a part, two values that should both hold."""
    text, sql = facts.question_text, facts.sql
    negated = any(item.op in _NEGATIVE for item in sql.filters) or "except" in sql.set_operations
    outer = any(join.kind in {JoinKind.LEFT, JoinKind.ANTI} for join in sql.joins)
    yield "denial_unmet", float(not negated and not outer and _DENIAL.search(text) is not None)
    yield "denial_unasked", float(any(i.op in _DENYING for i in sql.filters) and _DENIAL.search(facts.texts) is None)
    patterns = sum(item.op in {Op.LIKE, Op.NOT_LIKE} for item in sql.filters)
    yield "pattern_unasked", float(patterns if patterns and _PART.search(facts.texts) is None else 0)
    yield "both_as_either", float(_both_as_either(facts))


_NEGATIVE = frozenset({Op.NE, Op.NOT_IN, Op.NOT_LIKE, Op.NOT_EXISTS, Op.NOT_RANGE, Op.IS_NULL, Op.IS_NOT_NULL})
_DENYING = frozenset({Op.NE, Op.NOT_IN, Op.NOT_EXISTS})


def _both_as_either(facts: Facts) -> int:
    """Lists of two values that the question joins by "and": a row can have one of them only."""
    sql = facts.sql
    if "intersect" in sql.set_operations or sql.constructs.get("having"):
        return 0
    found = 0
    for item in sql.filters:
        if item.op is Op.IN and isinstance(item.value, Many) and len(item.value.members) == 2:
            text = fold(facts.question_text)
            names = [fold(value.raw) for value in item.value.members if isinstance(value, Text)]
            places = sorted((text.find(name), name) for name in names if name in text)
            if len(places) == 2:
                between = text[places[0][0] + len(places[0][1]) : places[1][0]]
                found += re.search(r"\band\b", between) is not None
    return found


def joins_turned(facts: Facts, words: Words) -> Iterator[tuple[str, float]]:  # noqa: ARG001
    """Links between tables: how many, beyond what they need, between columns that share no word; idle outer joins."""
    sql = facts.sql
    yield "links", float(len(sql.links))
    yield "links_beyond", float(len(sql.links) - max(0, len(sql.tables) - 1))
    yield "links_unlike", float(sum(not _alike(*link) for link in sql.links))
    outer = any(join.kind is JoinKind.LEFT for join in sql.joins)
    text = facts.question_text
    yield "outer_join_unasked", float(outer and _DENIAL.search(text) is None and _ALL.search(text) is None)


def _alike(left: str, right: str) -> bool:
    one, other = stems(left.rpartition(".")[2]), stems(right.rpartition(".")[2])
    return bool(one & other) or bool(stems(left) & other) or bool(stems(right) & one)


def shape_turned(facts: Facts, words: Words) -> Iterator[tuple[str, float]]:  # noqa: ARG001
    """Extremes without a ranking, a sort the other way, counts of joined rows, percentages that are none, rounding."""
    text, sql = facts.question_text, facts.sql
    functions = {item.function for item in sql.aggregations}
    ranked = bool(sql.order_by or sql.windows or functions & _RANKING or sql.limit)
    yield "extreme_unranked", float(not ranked and _EXTREME.search(text) is not None)
    yield "sort_turned", float(sql.limit is not None and bool(sql.order_by) and _is_turned(text, sql.order_by[0]))
    counted = _COUNTED.match(text) is not None
    whole = any(item.function == "count" and not item.distinct for item in sql.aggregations)
    yield "joined_rows_counted", float(counted and whole and bool(sql.joins))
    yield "count_not_given", float(counted and not functions)
    yield "count_with_more", float(counted and len(sql.projections) > 1)
    yield "percent_unscaled", float(_PERCENT.search(text) is not None and not _scales(facts))
    rounds = sql.constructs.get("round", 0)
    yield "round_unasked", float(rounds if rounds and _ROUNDED.search(facts.texts) is None else 0)
    yield "distinct_rows", float(sql.distinct)


def _is_turned(text: str, key: OrderKey) -> bool:
    """Whether the first sort key runs against the plainest word; where words of both kinds stand, it cannot be said."""
    descending = key.direction.value == "desc"
    low, high = _LOW.search(text) is not None, _HIGH.search(text) is not None
    return (low and not high and descending) or (high and not low and not descending)


def _scales(facts: Facts) -> bool:
    return any("100" in item.text for item in facts.sql.projections)
