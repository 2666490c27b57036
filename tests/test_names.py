"""Folding of names."""

from __future__ import annotations

import pytest

from stef.names import similarity, singular, stem, tokens


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("custAcctNo", ("customer", "account", "number")),
        ("cust_acct_no", ("customer", "account", "number")),
        ("Customer account numbers", ("customer", "account", "number")),
        ('"placedAt"', ("placed", "at")),
        ("HTTPStatus", ("http", "status")),
        ("Málaga_cafés", ("malaga", "cafe")),
        ("order2item", ("order", "2", "item")),
        ("売上_合計", ("売上", "合計")),
        ("", ()),
    ],
)
def test_names_are_split_and_folded(name, expected):
    """Snake and camel case are split, plurals and accents folded, abbreviations written out."""
    assert expected == tokens(name)


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("cities", "city"),
        ("boxes", "box"),
        ("orders", "order"),
        ("status", "status"),
        ("glass", "glass"),
        ("gas", "gas"),
    ],
)
def test_english_plurals_are_folded(word, expected):
    """What only looks like a plural stays."""
    assert expected == singular(word)


@pytest.mark.parametrize(
    "family",
    [("signed", "signing", "signs", "sign"), ("order", "orders", "ordered", "ordering"), ("city", "cities"),
     ("movie", "movies"), ("store", "stored", "storing"), ("cancel", "cancelation")],
)  # fmt: skip
def test_a_word_family_has_one_stem(family):
    """Inflected forms of one word meet in their stem."""
    assert 1 == len({stem(word) for word in family})


@pytest.mark.parametrize(("left", "right"), [("rate", "rain"), ("opened", "closed"), ("north", "south")])
def test_other_words_have_other_stems(left, right):
    """Folding does not make different words one."""
    assert stem(left) != stem(right)


@pytest.mark.parametrize(
    ("left", "right", "least", "most"),
    [
        ("custAcctNo", "customer_account_number", 1.0, 1.0),
        ("date", "signed_date", 0.6, 0.99),
        ("qty", "quantity", 1.0, 1.0),
        ("descr", "description", 0.6, 0.6),
        ("harbour", "hull", 0.0, 0.0),
        ("", "hull", 0.0, 0.0),
        ("___", "hull", 0.0, 0.0),
    ],
)
def test_similarity_is_the_share_of_common_parts(left, right, least, most):
    """1.0 for the same parts, 0.0 for none, and the same from either side."""
    assert least <= similarity(left, right) <= most
    assert similarity(left, right) == similarity(right, left)
