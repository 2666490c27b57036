"""Φ and its parts."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stef.config import SETTINGS
from stef.result import Alignment, Band, Category, Verdict
from stef.score import FILTER_POINTS, PROFILE, PROFILES, VERDICT_POINTS, band, multiplier, score

ALIGNMENTS = [Alignment(category=category) for category in Category]
ALIGNMENTS.append(Alignment(category=Category.FULL_WITH_EXTRAS, benign=True))
GAMMAS = [0.0, 0.649, 0.65, 0.849, 0.85, 1.0]
FEW = settings(max_examples=200, derandomize=True, deadline=None)


@pytest.mark.parametrize(
    ("category", "benign", "verdict", "gamma", "phi"),
    [
        (Category.FULL, False, Verdict.CORRECT, 0.9, 100),
        (Category.FULL, False, Verdict.CORRECT, 0.7, 80),
        (Category.FULL, False, Verdict.CORRECT, 0.5, 50),
        (Category.FULL_WITH_EXTRAS, False, Verdict.CORRECT, 0.9, 90),
        (Category.FULL_WITH_EXTRAS, True, Verdict.CORRECT, 0.9, 100),
        (Category.FULL_WITH_EXTRAS, True, Verdict.LIKELY_CORRECT, 0.7, 64),
        (Category.PARTIAL, False, Verdict.POTENTIALLY_INCORRECT, 0.9, 50),
        (Category.PARTIAL, False, Verdict.LIKELY_CORRECT, 0.6, 30),
        (Category.NONE, False, Verdict.INCORRECT, 1.0, 0),
        (Category.NONE, False, Verdict.POTENTIALLY_INCORRECT, 0.7, 16),
    ],
)
def test_phi_is_the_points_times_ten_times_the_multiplier(category, benign, verdict, gamma, phi):
    """Φ = min(10, filters + verdict + δ) × 10 × Γ, worked out by hand."""
    assert phi == score(Alignment(category=category, benign=benign), verdict, gamma).phi


def test_phi_takes_twenty_two_values():
    """The cliffs are known: these and no others."""
    reached = {score(a, v, g).phi for a, v, g in product(ALIGNMENTS, Verdict, GAMMAS)}
    expected = [0, 10, 15, 16, 20, 24, 25, 30, 32, 35, 40, 45, 48, 50, 56, 60, 64, 70, 72, 80, 90, 100]
    assert expected == sorted(reached)


@pytest.mark.parametrize(("gamma", "expected"), [(0.0, 0.5), (0.6499, 0.5), (0.65, 0.8), (0.8499, 0.8), (0.85, 1.0)])
def test_the_multiplier_steps_at_its_bounds(gamma, expected):
    """A bound belongs to the better side."""
    assert expected == multiplier(gamma)


@pytest.mark.parametrize(
    ("phi", "expected"),
    [(100, Band.EXCELLENT), (90, Band.EXCELLENT), (89, Band.GOOD), (75, Band.GOOD), (74, Band.MARGINAL),
     (50, Band.MARGINAL), (49, Band.POOR), (0, Band.POOR)],
)  # fmt: skip
def test_bands_step_at_their_bounds(phi, expected):
    """A bound belongs to the better band."""
    assert expected == band(phi)


def test_delta_counts_only_where_rules_confirm_every_extra():
    """δ is 1 with FULL_WITH_EXTRAS and benign extras, else 0."""
    given = {(a.category, a.benign): score(a, Verdict.CORRECT, 1.0).delta for a in ALIGNMENTS}
    assert [(Category.FULL_WITH_EXTRAS, True)] == [key for key, delta in given.items() if delta]


def test_a_result_carries_its_parts():
    """From the parts on the result Φ can be worked out again."""
    for a, v, g in product(ALIGNMENTS, Verdict, GAMMAS):
        got = score(a, v, g)
        points = (FILTER_POINTS[a.category], VERDICT_POINTS[v], multiplier(g), band(got.phi))
        assert points == (got.filters, got.verdict, got.multiplier, got.band)
        assert got.phi == min(10, got.filters + got.verdict + got.delta) * 10 * got.multiplier


@FEW
@given(st.sampled_from(ALIGNMENTS), st.sampled_from(list(Verdict)), st.floats(0, 1), st.floats(0, 1))
def test_phi_rises_with_gamma(alignment, verdict, one, other):
    """A surer verdict never gives a lower Φ."""
    low, high = sorted((one, other))
    assert score(alignment, verdict, low).phi <= score(alignment, verdict, high).phi


@pytest.mark.parametrize(
    ("verdict", "gamma", "phi"),
    [
        (Verdict.CORRECT, 0.9, 100),
        (Verdict.LIKELY_CORRECT, 0.7, 64),
        (Verdict.POTENTIALLY_INCORRECT, 0.9, 35),
        (Verdict.POTENTIALLY_INCORRECT, 0.3, 56),
        (Verdict.INCORRECT, 0.6, 25),
        (Verdict.INCORRECT, 0.95, 25),
    ],
)
def test_in_the_second_profile_the_multiplier_goes_by_how_right_the_answer_is(verdict, gamma, phi):
    """Γ of a verdict that does not affirm goes by 1 - γ; all else is as in the first profile."""
    assert phi == score(Alignment(category=Category.FULL), verdict, gamma, "stef-2").phi


@FEW
@given(st.sampled_from(ALIGNMENTS), st.sampled_from(list(Verdict)), st.floats(0, 1), st.floats(0, 1))
def test_in_the_second_profile_nothing_gains_by_being_surely_wrong(alignment, verdict, one, other):
    """A surer "wrong" never gives a higher Φ, and a surer "right" never a lower one."""
    low, high = sorted((one, other), reverse=not verdict.affirms)
    assert score(alignment, verdict, low, "stef-2").phi <= score(alignment, verdict, high, "stef-2").phi


def test_the_profiles_are_those_that_can_be_set():
    """The table of settings names them all, the paper's first."""
    row = next(row for row in SETTINGS if row.name == "score_profile")
    assert (PROFILES, PROFILE) == (row.choices, row.default)


@FEW
@given(st.sampled_from(ALIGNMENTS), st.sampled_from(list(Verdict)), st.sampled_from(list(Verdict)), st.floats(0, 1))
def test_phi_rises_with_the_verdict(alignment, one, other, gamma):
    """A better verdict never gives a lower Φ."""
    better, worse = sorted((one, other), key=lambda verdict: verdict.rank)
    assert score(alignment, worse, gamma).phi <= score(alignment, better, gamma).phi


@FEW
@given(st.sampled_from(ALIGNMENTS), st.sampled_from(ALIGNMENTS), st.sampled_from(list(Verdict)), st.floats(0, 1))
def test_phi_rises_with_the_category(one, other, verdict, gamma):
    """A better alignment never gives a lower Φ, and benign extras never a lower one than others."""
    points = {a: FILTER_POINTS[a.category] + a.benign for a in ALIGNMENTS}
    worse, better = sorted((one, other), key=points.__getitem__)
    assert score(worse, verdict, gamma).phi <= score(better, verdict, gamma).phi
