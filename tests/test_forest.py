"""Trees over named numbers, and the two forests that are shipped."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stef.data import weights
from stef.forest import forest

# One question (`b` up to 0.5, else on; absent goes right) and another below it.
TREE = [[0.1, 1, 0.5, 1, 2, 2], [-1.0], [0.4, 0, 2.0, 3, 4, 3], [0.25], [0.75]]
SMALL = {"features": ["a", "b"], "trees": [TREE, [[0.5]]], "intercept": 0.0, "slope": 1.0, "linear": 0.4}
SHIPPED = (weights().texts, weights().log)
numbers = st.dictionaries(st.sampled_from(SHIPPED[1].features), st.floats(-20, 20), max_size=40)


@pytest.mark.parametrize(
    ("given", "total", "parts"),
    [
        ({"a": 1.0, "b": 0.5}, -0.5, {"b": -1.1}),
        ({"a": 2.0, "b": 0.6}, 0.75, {"b": 0.3, "a": -0.15}),
        ({"a": 2.1, "b": 9.0}, 1.25, {"b": 0.3, "a": 0.35}),
        ({}, 0.75, {"b": 0.3, "a": -0.15}),
    ],
)
def test_a_walk_ends_in_the_leaf_that_the_numbers_lead_to(given, total, parts):
    """Numbers up to the bound go left, greater ones right, absent ones where the tree says."""
    found, shares = forest(SMALL).weigh(given)
    assert math.isclose(total, found)
    assert parts == {name: round(value, 6) for name, value in shares.items()}


def walked(nodes, given, features):
    """Value of the leaf that the numbers lead to, node by node."""
    node = nodes[0]
    while node.feature >= 0:
        value = given.get(features[node.feature])
        node = nodes[node.absent if value is None else node.left if value <= node.bound else node.right]
    return node.value


@given(numbers, st.data())
def test_all_trees_at_once_say_what_each_says_by_itself(given, data):
    """Also for numbers that are bounds, the sum is that of the leaves which single walks end in."""
    for made in SHIPPED:
        bounds = sorted({node.bound for nodes in made.trees for node in nodes if node.feature >= 0})
        exact = data.draw(st.dictionaries(st.sampled_from(made.features), st.sampled_from(bounds), max_size=40))
        mixed = {**given, **exact}
        total, _ = made.weigh(mixed)
        assert math.isclose(sum(walked(nodes, mixed, made.features) for nodes in made.trees), total, abs_tol=1e-9)


@given(numbers)
def test_parts_add_up_to_the_whole(given):
    """What each feature added, and the roots, are the log-odds of the trees."""
    for made in SHIPPED:
        total, parts = made.weigh(given)
        assert math.isclose(total, sum(nodes[0].value for nodes in made.trees) + sum(parts.values()), abs_tol=1e-9)


@given(numbers, st.sampled_from(sorted(weights().terms)), st.floats(0, 2))
def test_a_signal_never_raises_the_result(given, signal, more):
    """More of what speaks against a statement makes no tree think better of it."""
    for made in SHIPPED:
        before = {**given, signal: abs(given.get(signal, 0.0))}
        after = {**before, signal: before[signal] + more}
        assert made.weigh(after)[0] <= made.weigh(before)[0] + 1e-9


@pytest.mark.parametrize("made", SHIPPED, ids=("texts", "log"))
def test_shipped_trees_are_whole(made):
    """Every branch leads to a later node of its tree, and every feature is used."""
    asked = set()
    for nodes in made.trees:
        for place, node in enumerate(nodes):
            asked |= {node.feature} - {-1}
            if node.feature >= 0:
                assert place < min(node.left, node.right, node.absent) <= max(node.left, node.right) < len(nodes)
    assert set(range(len(made.features))) == asked


def test_the_model_of_texts_knows_nothing_of_the_log():
    """For a new log it must do without."""
    assert [] == [name for name in SHIPPED[0].features if name.startswith("log_")]
    assert [name for name in SHIPPED[1].features if name.startswith("log_")]


def test_no_feature_names_where_a_record_comes_from():
    """Neither agent, version, app, database nor dialect may decide."""
    text = json.dumps([made.features for made in SHIPPED])
    assert [] == [word for word in ("agent", "version", "app_", "database", "postgres", "sqlite") if word in text]
