"""Two filters side by side: soft on names, strict on values."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal

import pytest

from stef.apprules import AppRules
from stef.matching import SELF_DEFEATING, compare, covers, flag_words, is_moment, nearness, truth
from stef.matching.columns import column_similarity
from stef.result import Match
from stef.spec import Effect, Filter, Op, Scope
from stef.timespan import Calendar, Interval
from stef.values import Anything, Boolean, Many, Null, Number, NumberRange, Placeholder, Text, Unknown, Unresolved

RULES = AppRules(
    column_mappings={"height": "height_cm", "signed up": "joined_at"}, value_synonyms={"grade": {"top": (Text("P1"),)}}
)
CALENDAR = Calendar(now=datetime.fromisoformat("2025-06-18T09:30"))


def number(value, unit=""):
    """A number as filters have it."""
    return Number(Decimal(str(value)), unit)


def span(start, end):
    """An interval from two texts; "" is an open side."""
    return Interval(*(datetime.fromisoformat(text) if text else None for text in (start, end)))


def asked(column, op, value, **more):
    """A filter of a question."""
    return Filter(column=column, op=op, value=value, scope=Scope.QUESTION, certainty=0.9, **more)


def found(column, op, value, **more):
    """A filter of the SQL."""
    return Filter(column=column, op=op, value=value, scope=Scope.WHERE, **more)


MAY = span("2025-05-01", "2025-06-01")
CLOCK = Unknown("last month", Unresolved.CLOCK)
PAIRS = {
    "same": (asked("hull", Op.EQ, Text("steel")), found("hull", Op.EQ, Text("STEEL")), Match.MATCHED),
    "no-column": (asked("", Op.EQ, Text("steel")), found("hull", Op.EQ, Text("steel")), Match.MATCHED),
    "other-text": (asked("hull", Op.EQ, Text("steel")), found("hull", Op.EQ, Text("wood")), Match.WRONG_VALUE),
    "other-column": (asked("hull", Op.EQ, Text("steel")), found("harbour", Op.EQ, Text("Oban")), None),
    "refused": (asked("hull", Op.EQ, Text("steel")), found("hull", Op.NE, Text("steel")), Match.WRONG_OPERATOR),
    "pattern": (asked("name", Op.LIKE, Text("Sea")), found("name", Op.LIKE, Text("%Sea%")), Match.MATCHED),
    "number": (asked("depth", Op.GT, number(40)), found("depth", Op.GT, number("40.0")), Match.MATCHED),
    "bound-turned": (asked("depth", Op.GT, number(40)), found("depth", Op.LT, number(40)), Match.WRONG_OPERATOR),
    "whole-bound": (asked("crew", Op.GT, number(3)), found("crew", Op.GE, number(4)), Match.MATCHED),
    "not-whole-bound": (asked("crew", Op.GT, number(3)), found("crew", Op.GE, number(5)), Match.WRONG_VALUE),
    "number-range": (
        asked("depth", Op.RANGE, NumberRange(Decimal(1), Decimal(5))),
        found("depth", Op.RANGE, NumberRange(Decimal(1), Decimal(6))),
        Match.WRONG_VALUE,
    ),
    "percent": (asked("loss", Op.GT, number(20, "%")), found("loss", Op.GT, number("0.2")), Match.MATCHED),
    "not-percent": (asked("loss", Op.GT, number(20)), found("loss", Op.GT, number("0.2")), Match.WRONG_VALUE),
    "mapped": (asked("height", Op.GT, number(9)), found("height_cm", Op.GT, number(9)), Match.MATCHED),
    "synonym": (asked("grade", Op.EQ, Text("top")), found("grade", Op.EQ, Text("P1")), Match.MATCHED),
    "other-code": (asked("grade", Op.EQ, Text("top")), found("grade", Op.EQ, Text("S2")), Match.WRONG_VALUE),
    "code": (asked("grade", Op.EQ, Text("middling")), found("grade", Op.EQ, number(3)), Match.UNDETERMINED),
    "parameter": (asked("hull", Op.EQ, Text("steel")), found("hull", Op.EQ, Placeholder("h")), Match.UNDETERMINED),
    "absent": (asked("captain", Op.IS_NULL, Null()), found("captain_id", Op.IS_NULL, Null()), Match.MATCHED),
    "present": (asked("captain", Op.IS_NULL, Null()), found("captain", Op.IS_NOT_NULL, Null()), Match.WRONG_OPERATOR),
    "absent-rows": (
        asked("trips", Op.NOT_EXISTS, Null()),
        found("id", Op.IS_NULL, Null(), table="trips"),
        Match.MATCHED,
    ),
    "none-counted": (
        asked("trips", Op.NOT_EXISTS, Null()),
        found("*", Op.EQ, number(0), table="trips", aggregate="count"),
        Match.MATCHED,
    ),
    "flag": (
        asked("status", Op.EQ, Text("archived"), implied_column=True),
        found("is_archived", Op.EQ, number(1)),
        Match.MATCHED,
    ),
    "flag-turned": (
        asked("status", Op.EQ, Text("archived"), implied_column=True),
        found("is_archived", Op.EQ, Boolean(value=False)),
        Match.WRONG_VALUE,
    ),
    "flag-as-date": (
        asked("status", Op.EQ, Text("archived"), implied_column=True),
        found("archived_at", Op.IS_NOT_NULL, Null()),
        Match.MATCHED,
    ),
    "month": (asked("", Op.RANGE, MAY), found("sold_on", Op.RANGE, MAY), Match.MATCHED),
    "minute-short": (
        asked("", Op.RANGE, MAY),
        found("sold_on", Op.RANGE, span("2025-05-01", "2025-05-31T23:59:59")),
        Match.MATCHED,
    ),
    "last-day-lost": (
        asked("", Op.RANGE, MAY),
        found("sold_on", Op.RANGE, span("2025-05-01", "2025-05-31")),
        Match.WRONG_VALUE,
    ),
    "up-to-now": (
        asked("", Op.RANGE, span("2025-01-01", "2026-01-01")),
        found("sold_on", Op.RANGE, span("2025-01-01", "")),
        Match.MATCHED,
    ),
    "past-and-open": (
        asked("", Op.RANGE, span("2024-01-01", "2025-01-01")),
        found("sold_on", Op.RANGE, span("2024-01-01", "")),
        Match.WRONG_VALUE,
    ),
    "year-column": (
        asked("", Op.RANGE, span("2024-01-01", "2025-01-01")),
        found("sale_year", Op.EQ, number(2024)),
        Match.MATCHED,
    ),
    "plain-number-no-year": (
        asked("", Op.RANGE, span("2024-01-01", "2025-01-01")),
        found("weight", Op.EQ, number(2024)),
        None,
    ),
    "not-in-the-month": (asked("", Op.NOT_RANGE, MAY), found("sold_on", Op.RANGE, MAY), Match.WRONG_OPERATOR),
    "moment-of-the-day": (
        asked("", Op.RANGE, span("2025-05-01", "2025-05-02")),
        found("sold_on", Op.RANGE, span("2025-05-01", "2025-05-01T00:00:01")),
        Match.MATCHED,
    ),
    "no-clock": (asked("", Op.RANGE, CLOCK), found("sold_on", Op.RANGE, MAY), Match.UNDETERMINED),
    "no-clock-no-time": (asked("", Op.RANGE, CLOCK), found("hull", Op.EQ, Text("steel")), None),
    "mapped-elsewhere": (asked("signed", Op.RANGE, MAY), found("seen_at", Op.RANGE, MAY), Match.WRONG_COLUMN),
}


@pytest.mark.parametrize("pair", PAIRS.values(), ids=PAIRS)
def test_a_filter_is_answered_by_another(pair):
    """Each pair has the finding of a careful reader."""
    question, sql, expected = pair
    got = compare(question, sql, RULES, CALENDAR)
    assert expected == (None if got is None else got.match)


@pytest.mark.parametrize("effect", [effect for effect in Effect if effect is not Effect.EFFECTIVE])
def test_the_right_condition_in_the_wrong_place_is_ineffective(effect):
    """It is there and narrows nothing; the note says why."""
    sql = found("hull", Op.EQ, Text("steel"), effect=effect)
    got = compare(asked("hull", Op.EQ, Text("steel")), sql, RULES, CALENDAR)
    assert Match.INEFFECTIVE == got.match
    assert got.note


def test_an_outer_join_may_be_meant():
    """It is no mistake by itself; the others are."""
    assert Effect.OUTER_JOIN not in SELF_DEFEATING
    assert Effect.NULL_COMPARISON in SELF_DEFEATING


RULE = found("is_deleted", Op.EQ, number(0))


@pytest.mark.parametrize(
    ("rule", "sql", "expected"),
    [
        (RULE, found("is_deleted", Op.EQ, Text("0")), True),
        (RULE, found("isDeleted", Op.NE, Boolean(value=True)), True),
        (RULE, found("is_deleted", Op.EQ, number(1)), False),
        (RULE, found("is_deleted", Op.NE, number(0)), False),
        (RULE, found("deleted", Op.EQ, number(0)), False),
        (RULE, found("is_deleted", Op.EQ, number(0), aggregate="max"), False),
        (found("club", Op.EQ, Anything()), found("club", Op.EQ, number(7)), True),
        (found("club", Op.EQ, Anything()), found("club", Op.EQ, Placeholder("c")), True),
        (found("club", Op.EQ, Anything()), found("club", Op.IN, Many((number(7), number(8)))), False),
        (found("club", Op.EQ, Anything()), found("club", Op.NE, number(7)), False),
    ],
)
def test_a_rule_covers_the_condition_that_it_names(rule, sql, expected):
    """The same column with the same truth; `*` takes any one value and no list."""
    assert expected is covers(rule, sql)


@pytest.mark.parametrize(
    ("item", "expected"),
    [(RULE, False), (found("a", Op.NE, number(0)), True), (found("a", Op.GT, number(0)), None),
     (found("a", Op.EQ, Text("red")), None)],
)  # fmt: skip
def test_truth_of_a_condition(item, expected):
    """`archived = 0`, `archived <> 1` and `NOT archived` all say false."""
    assert expected is truth(item)


@pytest.mark.parametrize(
    ("left", "right", "near"),
    [("placed_at", "placed_on", True), ("placed_at", "shipped_at", False), ("date", "sold_date", True),
     ("opened", "opened_at", True), ("start_date", "end_date", False)],
)  # fmt: skip
def test_moments_are_told_apart_by_their_event(left, right, near):
    """What two moments' names end in says nothing."""
    assert near is (column_similarity(left, right) >= 0.6)


def test_a_mapping_pins_the_column():
    """The word's own column is the mapped one, even where another name looks alike."""
    word = asked("height", Op.GT, number(9))
    assert nearness(word, found("height_cm", Op.GT, number(9)), RULES) > 0.9
    assert nearness(asked("signed", Op.EQ, MAY), found("signed_at", Op.EQ, MAY), RULES) < 0.3


def test_a_generic_column_speaks_for_its_table():
    """`sites.name` is the site."""
    site = asked("site", Op.EQ, Text("Awe"))
    assert nearness(site, found("name", Op.EQ, Text("Awe"), table="sites"), RULES) >= 0.6
    assert nearness(site, found("name", Op.EQ, Text("Awe"), table="boats"), RULES) < 0.3


def test_what_a_flag_is_about():
    """Marks of flags, counters and moments are left out."""
    assert {"urgent"} == flag_words("is_urgent")
    assert flag_words("deleted_at") == flag_words("is_deleted")


@pytest.mark.parametrize(("column", "expected"), [("placed_at", True), ("at", False), ("harbour", False)])
def test_a_moment_is_known_by_its_name(column, expected):
    """An event and an ending."""
    assert expected is is_moment(column)
