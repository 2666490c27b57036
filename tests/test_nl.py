"""Rules of the question reader that hold for every question."""

from __future__ import annotations

import time
from datetime import datetime
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stef.data import lexicon
from stef.lexicon import Ending, Kind, Role, build
from stef.nl.extract import extract
from stef.nl.numbers import plain_number
from stef.spec import Scope, Source
from stef.timespan import Calendar
from stef.values import Unknown, Unresolved

ENGLISH = lexicon("en")
CLOCK = Calendar(now=datetime(2025, 6, 18, 9, 30))  # noqa: DTZ001 - naive by contract
WORDS = sorted({" ".join(p.words) for phrases in ENGLISH.phrases.values() for p in phrases})


def read(text, calendar=CLOCK, **more):
    """The spec of a question in English."""
    return extract(text, lexicon=ENGLISH, calendar=calendar, **more)


@settings(max_examples=150, deadline=None)
@given(st.text(max_size=200))
def test_no_text_raises(text):
    """Whatever the text, a spec comes out, and every span lies inside the text."""
    spec = read(text)
    assert all(0 <= f.span.start < f.span.end <= len(text) for f in spec.filters)


PIECES = st.sampled_from(
    [*WORDS, "Kotka", "R55", "'a b'", '"Top 3"', "2024", "12.5", "1,234", "2024-02-30", "31/02/2024", ",", "?", "="]
)


@settings(max_examples=150, deadline=None)
@given(st.lists(PIECES, max_size=25))
def test_no_sequence_of_lexicon_words_raises(pieces):
    """Any order of known words, names, numbers and dates is read, with certainties between 0 and 1."""
    spec = read(" ".join(pieces))
    assert all(0.0 <= f.certainty <= 1.0 for f in spec.filters)


@pytest.mark.parametrize("text", ["", " ", "?", "\x00", "'", "1" * 5000, "２０２４", "🙂 🙂"])
def test_odd_texts_are_read(text):
    """Empty, blank, broken and foreign texts ask for nothing that is required."""
    assert () == tuple(f for f in read(text).filters if f.certainty >= 0.5)


def test_the_same_question_gives_the_same_spec():
    """Reading is pure: twice the same."""
    text = "How many open tickets were raised in Turin since last month, by team?"
    assert read(text) == read(text)


def test_filters_of_a_question_stand_in_the_question():
    """The scope of every filter is the question, the source is the one given, the language is the lexicon's."""
    spec = read("open tickets in Turin", source=Source.EXPANSION)
    assert {Scope.QUESTION} == {f.scope for f in spec.filters}
    assert (Source.EXPANSION, "en") == (spec.source, spec.language)


def test_without_a_clock_a_relative_date_is_undetermined():
    """A relative date without `now` is a required condition with an unknown value."""
    (condition,) = [f for f in read("tickets opened last month", Calendar()).filters if f.certainty >= 0.5]
    assert Unknown("last month", Unresolved.CLOCK) == condition.value


def test_a_guessed_column_binds_nobody():
    """The column of a state word is a guess."""
    (condition,) = [f for f in read("How many open grants are there?").filters if f.certainty >= 0.5]
    assert condition.implied_column


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1,234.5", "1234.5"),
        ("1.234,5", "1234.5"),
        ("1,234", "1234"),
        ("12,5", "12.5"),
        ("12.5", "12.5"),
        ("1,23,456", "123456"),
        ("1.234.567", "1234567"),
        ("-7", "-7"),
    ],
)
def test_digits_are_read_in_either_notation(text, expected):
    """The last of two marks is the decimal one; groups of three are thousands."""
    assert Decimal(expected) == plain_number(text)


@pytest.mark.parametrize("unit", ["open or closed ", "'a ", "A, ", "x = 'b' and ", "1 ", "means ", "between 1 and 2 "])
def test_a_huge_question_is_read_in_bounded_time(unit):
    """A text of 100 KB is cut, so that it costs no more than a long question."""
    text = unit * (100_000 // len(unit))
    start = time.process_time()
    read(text)
    assert time.process_time() - start < 1.0


def test_every_phrase_of_the_lexicon_can_be_reached():
    """A phrase is found where it stands alone, in each of its kinds."""
    assert all(p.words[0] == first for first, phrases in ENGLISH.phrases.items() for p in phrases)
    assert set(Kind) == {p.kind for phrases in ENGLISH.phrases.values() for p in phrases}


def test_every_role_and_ending_has_its_words():
    """What a rule asks the lexicon for is there, in lower case and as single words."""
    assert all(ENGLISH.roles[role] for role in Role)
    assert all(ENGLISH.endings[ending] for ending in Ending)
    assert all(word == word.lower().strip() and " " not in word for words in ENGLISH.roles.values() for word in words)


@pytest.mark.parametrize("more", [{"roles": {"hero": ["x"]}}, {"endings": {"dual": ["x"]}}])
def test_a_lexicon_refuses_unknown_roles_and_endings(more):
    """A misspelt role or ending is an error at load."""
    with pytest.raises(ValueError, match=r"hero|dual"):
        build("en", {}, **more)


@pytest.mark.parametrize("word", ["Bestellungen", "заказов", "注文", "zamówień", "commandes"])
def test_in_another_language_no_plain_word_is_required(word):
    """Words of another language may support a match, and are never required."""
    spec = read(f"Zeigt und {word} von Kotka nach {word} mit {word}")
    assert spec.language == ""
    assert [] == [f for f in spec.filters if f.certainty >= 0.5]


def test_in_another_language_amounts_dates_and_quoted_words_stay():
    """A number behind a comparison, an ISO date and a quoted word mean the same everywhere."""
    spec = read("Wie viele Boote mit Gewicht >= 500 und 'Möwe' nach 2024-03-01?")
    required = [f.text for f in spec.filters if f.certainty >= 0.5]
    assert ["Gewicht >= 500", "'Möwe'", "2024-03-01"] == required
    assert "" == spec.language


def test_a_lexicon_refuses_unknown_kinds_and_bare_truth_values():
    """An unknown kind, and a word that YAML reads as true, are errors at load."""
    with pytest.raises(ValueError, match="colour"):
        build("en", {"colour": {"": ["red"]}})
    with pytest.raises(ValueError, match="no text"):
        build("en", {"preposition": {"": [True]}})
