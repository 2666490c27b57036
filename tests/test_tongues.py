"""Questions in other languages than English; a case is a line in `tests/cases/tongues/<language>.jsonl`."""

from __future__ import annotations

import json
import re
import time
from datetime import datetime
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stef.apprules import AppRules
from stef.data import lexicon, phrasebook, phrasebooks
from stef.names import similarity, tokens
from stef.phrasebook import LETTER, Mask, build
from stef.spec import Source
from stef.timespan import Calendar
from stef.tongues import Detector
from stef.tongues.amounts import read as read_amount
from stef.tongues.amounts import spelled
from stef.tongues.extract import extract
from stef.understand import question_reader
from stef.values import Text, Unknown, Unresolved, same
from tests.questions import NOW, calendar_of, check_as_stated, check_spans, load, rules_of

FOLDER = Path(__file__).parent / "cases" / "tongues"
ENGLISH = lexicon("en")
BOOKS = phrasebooks()
READ = question_reader(ENGLISH, BOOKS)
FEWEST = 25
CASES = load(FOLDER)


def read(case):
    """The spec of a case's question, its language found out."""
    return READ(case["question"], Source.QUESTION, rules_of(case), calendar_of(case))


@pytest.mark.parametrize("case", CASES)
def test_a_question_is_read_as_its_case_says(case):
    """What a case states of a question is what the question is read as."""
    check_as_stated(case, read(case))


@pytest.mark.parametrize("case", CASES)
def test_a_mention_is_where_its_span_says(case):
    """The characters of a span are the text of the mention."""
    check_spans(case, read(case))


@pytest.mark.parametrize("book", BOOKS, ids=lambda book: book.language)
def test_every_language_is_held_to_cases(book):
    """A phrasebook comes with a file of cases in its language."""
    lines = (FOLDER / f"{book.language}.jsonl").read_text(encoding="utf-8").splitlines()
    assert len(lines) >= FEWEST
    assert {book.language} == {json.loads(line)["language"] for line in lines}


@pytest.mark.parametrize("book", BOOKS, ids=lambda book: book.language)
def test_every_phrase_is_found_in_its_own_words(book):
    """A phrase without a slot is found where it stands alone."""
    for section, table in book.phrases.items():
        phrases = [(payload, text) for payload, texts in table.items() for text in texts]
        for payload, text in phrases:
            if re.search(r"[{\[~]", text):
                continue
            found = [p.payload for p in book.patterns[section] if p.regex.fullmatch(text)]
            assert payload in found, (section, text)


@pytest.mark.parametrize("book", BOOKS, ids=lambda book: book.language)
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_no_text_raises(book, data):
    """Whatever the text, a spec comes out, with certainties between 0 and 1 and every span inside the text."""
    words = st.sampled_from([*sorted(book.vocabulary), "Kotka", "R55", "'a b'", "2024", "12.5", "३०", "１０", "/", "?"])
    text = data.draw(st.one_of(st.text(max_size=120), st.lists(words, max_size=20).map(" ".join)))
    spec = extract(text, book=book, lexicon=ENGLISH, calendar=Calendar(now=datetime.fromisoformat(NOW)))
    assert all(0 <= f.span.start < f.span.end <= len(text) for f in spec.filters)
    assert all(0.0 <= f.certainty <= 1.0 for f in spec.filters)


@pytest.mark.parametrize("book", BOOKS, ids=lambda book: book.language)
def test_a_huge_question_is_read_in_bounded_time(book):
    """A text of 100 KB is cut, so that it costs no more than a long question."""
    words = sorted(book.vocabulary)
    text = " ".join(words[i % len(words)] + " 12 'a" for i in range(20_000))
    extract("x", book=book, lexicon=ENGLISH, calendar=Calendar())
    start = time.process_time()
    extract(text, book=book, lexicon=ENGLISH, calendar=Calendar())
    assert time.process_time() - start < 5.0


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("How many kayaks were rented in Los Angeles?", None),
        ("Berths of the Van der Valk line", None),
        ("Kayaks rented in São Paulo and Málaga", None),
        ("Combien de barques sont louées à Lyon ?", None),
        ("Quante barche sono state vendute?", None),
        ("Сколько лодок было в Твери?", None),
        ("부산의 주문 수는?", None),
        ("Wie viele Kähne gibt es?", "de"),
        ("cuantas barcas hay en Cadiz", "es"),
        ("quantas barcas existem em Olhao", "pt"),
        ("कितनी नावें हैं?", "hi"),
        ("有多少条船？", "zh"),
        ("船は何隻ありますか", "ja"),
        ("show 上个月 revenue by region", None),
        ("本月 revenue 是多少", "zh"),
    ],
)
def test_the_language_is_that_of_most_of_the_text(text, expected):
    """The script tells first, then the words; English and languages without a phrasebook are none of theirs."""
    book = Detector(ENGLISH, BOOKS).language(text)
    assert expected == (book and book.language)


@pytest.mark.parametrize(
    ("language", "text", "expected"),
    [
        ("de", "1.234,5", "1234.5"),
        ("de", "1.234", "1234"),
        ("es", "12,5", "12.5"),
        ("pt", "2 mil", "2000"),
        ("es", "dos mil quinientos", "2500"),
        ("zh", "3万5000", "35000"),
        ("zh", "三百五十", "350"),
        ("ja", "1億2000万", "120000000"),
        ("hi", "5 लाख", "500000"),
        ("hi", "1,23,456", "123456"),
    ],
)
def test_a_numeral_is_read_as_its_language_writes_it(language, text, expected):
    """Decimal marks, groups, and multipliers that build on each other."""
    book = phrasebook(language)
    assert Decimal(expected) == read_amount(book, text, "").value


def test_a_number_in_words_has_its_unit():
    """Words for numbers are amounts as digits are."""
    found = spelled(phrasebook("de"), "drei tage")
    assert (Decimal(3), "d") == (found.value, found.unit)


def test_without_a_clock_a_relative_date_is_undetermined():
    """A relative date without `now` is a required condition with an unknown value."""
    spec = READ("Tickets vom letzten Monat und alle anderen", Source.QUESTION, AppRules(), Calendar())
    (condition,) = [f for f in spec.filters if f.certainty >= 0.5]
    assert isinstance(condition.value, Unknown)
    assert condition.value.why is Unresolved.CLOCK


def test_a_state_is_stored_in_any_of_its_forms():
    """The word of a state equals its inflections and what it is stored as in English, and nothing else."""
    spec = READ("¿Cuántas redes activas hay?", Source.QUESTION, AppRules(), Calendar())
    (condition,) = [f for f in spec.filters if f.certainty >= 0.5]
    forms = ("activa", "Active", "activas", "open")
    assert [True, True, True, False] == [same(condition.value, Text(form)) for form in forms]


def test_vowel_signs_belong_to_their_letter():
    """Words of Hindi that differ in a vowel sign only are two words, in names of columns too."""
    assert ("कुल",) == tokens("कुल")
    assert similarity("कुल", "कल") < 0.5


def test_what_is_masked_is_no_letter():
    """A part that is understood takes part in no word."""
    assert all(re.search(f"[{LETTER}]", mask.run(3)) is None for mask in Mask)
    assert len({letter for mask in Mask for letter in mask.value}) == 2 * len(Mask)


@pytest.mark.parametrize("phrases", [{"colour": {"": ["rot"]}}, {"side": {"in": [True]}}])
def test_a_phrasebook_refuses_unknown_sections_and_bare_truth_values(phrases):
    """A misspelt section, and a word that YAML reads as true, are errors at load."""
    table = {"language": "xx", "scripts": ["LATIN"], "spaced": True, "decimal": ",", "phrases": phrases}
    with pytest.raises(ValueError, match=r"colour|no text"):
        build(table)
