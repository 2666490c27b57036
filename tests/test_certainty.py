"""What γ rests on: token probabilities, agreement among samples, or the model's own word."""

from __future__ import annotations

import math

import pytest

from stef.judge.certainty import Basis, affirmed, opinion
from stef.judge.completion import Token
from stef.judge.reply import Reply
from stef.result import Verdict

RIGHT, LIKELY, DOUBTFUL, WRONG = Verdict


def token(text, p, **others):
    """A token of probability `p`, and the others at its place."""
    return Token(text, math.log(p), tuple((name, math.log(chance)) for name, chance in others.items()))


def plain(text):
    """Text of which nobody doubts a letter."""
    return Token(text, 0.0)


def reply(verdict, confidence=0.9):
    """A reply that says nothing but its verdict."""
    return Reply(verdict=verdict, confidence=confidence)


def test_both_verdicts_of_a_side_count_for_it():
    """A label says right or wrong: 0.5 on CORRECT and 0.3 on LIKELY_CORRECT make 0.8 for the side that affirms."""
    tokens = [plain('{"verdict": "'), token("COR", 0.5, LIKE=0.3, IN=0.15, POT=0.05), plain('RECT", "confidence": 50}')]
    assert affirmed(tokens) == pytest.approx(0.8)


@pytest.mark.parametrize(
    ("lead", "chosen", "other", "rest"),
    [
        ('{"verdict": ', '"IN', '"COR', "CORRECT"),
        ('{"verdict":', ' "IN', ' "COR', "CORRECT"),
        ("Verdict: ", "in", "cor", "correct"),
        ("**Verdict:** ", "INCORRECT", "LIKELY", ""),
        ('{"verdict": "', "I", "C", "NCORRECT"),
        ('{"verd', 'ict": "IN', 'ict": "COR', "CORRECT"),
    ],
)
def test_the_verdict_begins_anywhere_in_a_token(lead, chosen, other, rest):
    """Quotes, blanks and more may stand in the same token as the first letters."""
    odds = ((other, math.log(0.2)), ("zzz", math.log(0.1)))
    assert affirmed([plain(lead), Token(chosen, math.log(0.7), odds), plain(rest)]) == pytest.approx(0.2 / 0.9)


def test_the_last_verdict_counts():
    """A model that thinks aloud settles at the end."""
    tokens = [
        plain('verdict: "'), token("IN", 0.9, COR=0.1), plain('CORRECT"\n… no: verdict: "'),
        token("COR", 0.6, IN=0.4), plain('RECT"'),
    ]  # fmt: skip
    assert affirmed(tokens) == pytest.approx(0.6)


@pytest.mark.parametrize(
    "tokens",
    [
        [],
        [plain("no verdict here")],
        [plain('{"verdict": "'), Token("CORRECT", -30.0, (("The", -0.01),))],
        [plain('{"verdict": "'), Token("CORRECT", math.nan)],
    ],
    ids=["none", "no-verdict", "not-a-choice-among-verdicts", "not-a-number"],
)
def test_without_a_choice_among_verdicts_nothing_is_said(tokens):
    """Where the model did not choose among verdicts, its tokens say nothing of how sure it was."""
    assert affirmed(tokens) is None


def test_token_probability_goes_before_the_models_word():
    """A model that says 99 and whose token says 0.6 is believed 0.6."""
    tokens = (plain('{"verdict": "'), token("COR", 0.6, IN=0.4), plain('RECT"'))
    found = opinion([(reply(RIGHT, 0.99), tokens)])
    assert (found.confidence, found.basis, found.samples, found.agreement) == (0.6, Basis.TOKEN, 1, 1.0)


def test_gamma_of_a_verdict_that_denies_is_that_of_its_side():
    """γ is the probability that the verdict is right, whichever it is."""
    tokens = (plain('{"verdict": "'), token("IN", 0.7, COR=0.3), plain('CORRECT"'))
    assert opinion([(reply(WRONG, 0.5), tokens)]).confidence == 0.7


def test_the_models_word_is_the_last_resort():
    """One sample without probabilities: what the model says."""
    found = opinion([(reply(LIKELY, 0.8), ())])
    assert (found.confidence, found.basis) == (0.8, Basis.SAID)


@pytest.mark.parametrize(
    ("verdicts", "expected", "gamma"),
    [
        ([RIGHT, RIGHT, RIGHT], RIGHT, 0.8),
        ([RIGHT, LIKELY, WRONG], LIKELY, 0.6),
        ([RIGHT, RIGHT, LIKELY, WRONG], RIGHT, 4 / 6),
        ([RIGHT, WRONG], WRONG, 0.5),
        ([WRONG, DOUBTFUL, RIGHT, LIKELY], DOUBTFUL, 0.5),
    ],
)
def test_samples_are_settled_by_side_and_then_by_verdict(verdicts, expected, gamma):
    """Most decide the side, a draw does not affirm; within a side the commoner verdict, then the milder one."""
    found = opinion([(reply(verdict), ()) for verdict in verdicts])
    assert (found.reply.verdict, found.basis) == (expected, Basis.AGREEMENT)
    assert found.confidence == pytest.approx(gamma, abs=1e-4)
    assert found.samples == len(verdicts)


def test_probabilities_of_all_samples_are_averaged():
    """Where each sample has its token, they speak for themselves."""
    one = (plain('verdict: "'), token("COR", 0.9, IN=0.1), plain("RECT"))
    other = (plain('verdict: "'), token("IN", 0.6, COR=0.4), plain("CORRECT"))
    found = opinion([(reply(RIGHT), one), (reply(RIGHT), one), (reply(WRONG), other)])
    assert (found.basis, found.agreement) == (Basis.TOKEN, pytest.approx(2 / 3))
    assert found.confidence == pytest.approx((0.9 + 0.9 + 0.4) / 3, abs=1e-4)


def test_no_sample_is_no_opinion():
    """Nothing is made up of nothing."""
    with pytest.raises(ValueError, match="no sample"):
        opinion([])
