"""Lifting the statement out of what an agent logged."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stef.result import Reason
from stef.sql.scanner import Kind, pieces, survey
from stef.sql.statement import lift, starts_sql
from tests import sqlcases


@pytest.mark.parametrize("case", sqlcases.load("lifting"), ids=sqlcases.name)
def test_what_is_lifted(case):
    """The last statement that answers is lifted, whatever stands around it; what is no SQL is said to be none."""
    found = lift(case["logged"])
    expected = {key: case.get(key, default) for key, default in (("lifted", ""), ("reason", None))}
    assert expected == {"lifted": found.sql, "reason": found.reason and found.reason.value}
    assert case.get("findings", []) == [finding.code for finding in found.findings]
    assert case.get("others", []) == list(found.others)


def test_nothing_logged_is_no_sql():
    """A field that was not logged has no SQL."""
    assert Reason.NO_SQL == lift(None).reason


def test_too_long_texts_are_not_read():
    """A text above the cap is skipped as too large, without a look inside."""
    assert Reason.TOO_LARGE == lift("SELECT 1" + " " * 300_000).reason
    assert Reason.TOO_LARGE == lift("SELECT 'ä'", max_bytes=10).reason
    assert lift("SELECT 'ä'", max_bytes=11).reason is None


def test_hidden_characters_say_where_they_stood():
    """The finding names the first hidden character and its place in the logged text."""
    finding = lift("SELECT 1\u200b").findings[0]
    assert finding.span is not None
    assert ("U+200B and perhaps others were removed", 8) == (finding.detail, finding.span.start)


def test_a_beginning_of_sql_is_known_behind_comments_and_brackets():
    """Comments and brackets before the first keyword do not hide it."""
    assert starts_sql("-- a\n/* b */ ((SELECT 1))")
    assert not starts_sql("-- a\nplease")


@given(st.text(alphabet="SELECT'\"`$-/*;()ab \n\\", max_size=60), st.sampled_from(["", "postgres", "mysql"]))
@settings(max_examples=150, derandomize=True, deadline=None)
def test_pieces_leave_no_gap(text, dialect):
    """Pieces of a text, put together, are the text, and each knows where it starts."""
    found = list(pieces(text, dialect))
    assert text == "".join(piece.text for piece in found)
    assert all(text.startswith(piece.text, piece.start) for piece in found)


def test_what_the_scanner_takes_for_strings():
    """Doubled quotes, dollar quotes and, in MySQL, backslashes do not end a string early."""
    for text, dialect in (("'it''s'", ""), ("$q$a'b$q$", "postgres"), (r"'it\'s'", "mysql")):
        assert [(Kind.STRING, text)] == [(piece.kind, piece.text) for piece in pieces(text, dialect)]


def test_survey_counts_brackets_outside_strings_only():
    """Depth and balance ignore what stands in strings and comments."""
    seen = survey("SELECT ((1)), ')' -- ((((\n; SELECT 2")
    assert (2, False, 2) == (seen.depth, seen.unbalanced, len(seen.statements))
    assert survey("SELECT (1").unbalanced
    assert survey("SELECT 'a").unbalanced
