"""Values in canonical form."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stef.timespan import Interval, year
from stef.values import (
    Anything,
    Boolean,
    Column,
    Many,
    Null,
    Number,
    NumberRange,
    Placeholder,
    Text,
    Unknown,
    Unresolved,
    as_boolean,
    decimal,
    describe,
    fold,
    from_plain,
    same,
    strip_accents,
    to_plain,
)

ONE, TWO = Number(Decimal(1)), Number(Decimal(2))
EQUAL = [
    (Text("Oban "), Text("oban")),
    (Text("Ｏｂａｎ"), Text("Oban")),
    (Text("O’Neil"), Text("O'Neil")),
    (Text("42"), Number(Decimal(42))),
    (Text("42.0"), Text("42")),
    (Text("Y"), Boolean(value=True)),
    (ONE, Boolean(value=True)),
    (Number(Decimal(2024)), year(2024)),
    (Text("2024"), year(2024)),
    (Many((ONE, TWO)), Many((TWO, ONE))),
    (Many((Text("A"), Text("b"))), Many((Text("B"), Text("a")))),
    (Anything(), Text("x")),
    (Anything(), Placeholder("p")),
    (Column("b.harbour"), Column("HARBOUR")),
]
OTHER = [
    (Text("Oban"), Text("Mallaig")),
    (ONE, TWO),
    (Text("2024-01-01"), Text("2024")),
    (Boolean(value=True), Boolean(value=False)),
    (Many((ONE, ONE)), Many((ONE, TWO))),
    (Many((ONE, TWO)), Many((ONE, ONE))),
    (Anything(), Many((ONE,))),
    (Anything(), Null()),
    (Anything(), Column("x")),
    (Anything(), Unknown("now()", Unresolved.CLOCK)),
    (Text("café"), Text("cafe")),
]


@pytest.mark.parametrize(("left", "right"), EQUAL)
def test_values_that_mean_the_same_are_the_same(left, right):
    """After folding, across types, from either side."""
    assert (True, True) == (same(left, right), same(right, left))


@pytest.mark.parametrize(("left", "right"), OTHER)
def test_other_values_are_not(left, right):
    """Values are compared strictly, from either side."""
    assert (False, False) == (same(left, right), same(right, left))


@pytest.mark.parametrize(
    ("value", "expected"),
    [(Text("Yes"), True), (Text("off"), False), (ONE, True), (TWO, None), (Text("maybe"), None), (Null(), None)],
)
def test_truth_is_read_in_every_spelling(value, expected):
    """What is no truth value is None and not False."""
    assert expected is as_boolean(value)


@pytest.mark.parametrize(
    ("text", "expected"), [("-12.5", "-12.5"), ("1e3", "1000"), ("NaN", None), ("inf", None), ("1,5", None), ("", None)]
)
def test_only_plain_numbers_are_numbers(text, expected):
    """SQL's digits and exponents; nothing infinite."""
    assert (None if expected is None else Decimal(expected)) == decimal(text)


def test_accents_of_latin_letters_are_dropped_and_no_others():
    """Marks of other scripts are part of the letter."""
    assert ("Malaga", "ガ", "कि") == (strip_accents("Málaga"), strip_accents("ガ"), strip_accents("कि"))


SCALARS = st.one_of(
    st.text(max_size=8).map(Text),
    st.integers(-10_000, 10_000).map(lambda number: Number(Decimal(number))),
    st.booleans().map(Boolean),
)
MOMENTS = st.datetimes(datetime(1990, 1, 1), datetime(2030, 1, 1)) | st.none()  # noqa: DTZ001 - naive by contract
VALUES = st.one_of(
    SCALARS,
    st.just(Null()),
    st.just(Anything()),
    st.builds(Column, st.text(min_size=1, max_size=5)),
    st.builds(Placeholder, st.text(max_size=5)),
    st.builds(Unknown, st.text(min_size=1, max_size=5), st.sampled_from(Unresolved)),
    st.builds(Interval, MOMENTS, MOMENTS),
    st.builds(NumberRange, st.integers(0, 9).map(Decimal), st.integers(0, 9).map(Decimal)),
    st.builds(Number, st.integers(0, 9).map(Decimal), st.sampled_from(["kg", "%"])),
    st.lists(SCALARS, max_size=3).map(lambda members: Many(tuple(members))),
)
FEW = settings(max_examples=150, derandomize=True, deadline=None)


@FEW
@given(VALUES)
def test_what_is_written_is_read_back(value):
    """JSON keeps every kind of value apart."""
    assert value == from_plain(to_plain(value))


@FEW
@given(VALUES)
def test_every_value_is_the_same_as_itself_and_can_be_described(value):
    """Whatever it is."""
    assert same(value, value)
    assert describe(value)


@FEW
@given(VALUES, VALUES)
def test_sameness_has_no_direction(left, right):
    """Either side may be the question's."""
    assert same(left, right) == same(right, left)


@FEW
@given(st.text(max_size=20))
def test_folding_twice_equals_once(text):
    """A folded text is in canonical form."""
    assert fold(text) == fold(fold(text))


@pytest.mark.parametrize("plain", [{"x": 1}, {"low": "a"}, object()])
def test_what_is_no_value_is_an_error(plain):
    """A result file with something else in it is not read in part."""
    with pytest.raises(ValueError, match="no value"):
        from_plain(plain)
