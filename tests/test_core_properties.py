"""What holds for every spec: aligned with itself, with its sides swapped, normalized twice."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from decimal import Decimal

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from stef.align import Texts, align, check_expansion
from stef.apprules import NO_RULES, AppRules
from stef.evidence import Facts, gather
from stef.normalize import normalize
from stef.result import FAULTS, Category, Drift, Match
from stef.spec import (
    Aggregation,
    Direction,
    Filter,
    GroupKey,
    Limit,
    Op,
    OrderKey,
    Projection,
    QuerySpec,
    Scope,
    Source,
)
from stef.timespan import Calendar, Unit, shift, year
from stef.values import Boolean, Many, Null, Number, NumberRange, Text
from tests.records import KNOWN

FEW = settings(max_examples=60, derandomize=True, deadline=None)
EXTRAS = {Match.EXTRA, Match.BENIGN_EXTRA, Match.INTRODUCED}
# Names that share no part, so that filters on two of them are about two things.
COLUMNS = ["hull", "harbour", "depth", "captain", "sold_on", "tonnage", "grade"]
NUMBERS = st.integers(2, 40).map(lambda number: Number(Decimal(number)))
WORDS = st.sampled_from(["steel", "wood", "Oban", "Mallaig", "Port Ellen"]).map(Text)
YEARS = st.integers(2015, 2025).map(year)


def filters(column):
    """Any filter on a column, as both readers may give it."""
    scalar = st.one_of(NUMBERS, WORDS, st.booleans().map(Boolean))
    listed = st.lists(WORDS, min_size=2, max_size=3, unique=True).map(lambda words: Many(tuple(words)))
    bounds = st.tuples(st.integers(2, 20), st.integers(21, 40)).map(lambda ends: NumberRange(*map(Decimal, ends)))
    choices = st.one_of(
        st.tuples(st.sampled_from([Op.EQ, Op.NE]), scalar),
        st.tuples(st.sampled_from([Op.LT, Op.LE, Op.GT, Op.GE]), NUMBERS),
        st.tuples(st.sampled_from([Op.IN, Op.NOT_IN]), listed),
        st.tuples(st.just(Op.RANGE), st.one_of(YEARS, bounds)),
        st.tuples(st.sampled_from([Op.IS_NULL, Op.IS_NOT_NULL]), st.just(Null())),
    )
    return choices.map(lambda pair: Filter(column=column, op=pair[0], value=pair[1], scope=Scope.WHERE))


SPECS = st.lists(st.sampled_from(COLUMNS), unique=True, max_size=4).flatmap(
    lambda columns: st.tuples(*map(filters, columns)).map(lambda found: QuerySpec(source=Source.SQL, filters=found))
)


def refusals(column):
    """A filter that keeps or refuses words, so that either side may say either."""
    value = st.one_of(WORDS, st.lists(WORDS, min_size=2, max_size=2, unique=True).map(lambda two: Many(tuple(two))))
    return st.tuples(value, st.booleans()).map(lambda pair: _refusal(column, *pair))


def _refusal(column, value, kept):
    ops = (Op.IN, Op.NOT_IN) if isinstance(value, Many) else (Op.EQ, Op.NE)
    return Filter(column=column, op=ops[not kept], value=value, scope=Scope.WHERE)


WORD_SPECS = st.lists(st.sampled_from(COLUMNS[:3]), unique=True, max_size=3).flatmap(
    lambda columns: st.tuples(*map(refusals, columns)).map(lambda found: QuerySpec(source=Source.SQL, filters=found))
)


def aligned(question, sql, rules=NO_RULES):
    """The alignment of two specs, with texts that say nothing more."""
    asked = replace(question, source=Source.QUESTION)
    return align(Texts(question=asked, question_text=""), sql, rules, Calendar())


@FEW
@given(SPECS)
def test_a_spec_aligned_with_itself_has_nothing_missing_extra_or_wrong(spec):
    """Whatever was asked is there, and nothing else."""
    alignment = aligned(spec, spec)
    assert (Category.FULL, False) == (alignment.category, alignment.benign)
    assert [Match.MATCHED] * len(spec.filters) == [item.match for item in alignment.filters]


@FEW
@given(SPECS, st.data())
def test_swapping_sides_swaps_missing_and_extra(spec, data):
    """What one side lacks the other has too much of."""
    kept = data.draw(st.lists(st.sampled_from(spec.filters), unique=True) if spec.filters else st.just([]))
    part = replace(spec, filters=tuple(kept))
    one, other = aligned(spec, part), aligned(part, spec)
    missing = [item.asked.column for item in one.having(Match.MISSING)]
    extra = [item.found.column for item in other.having(Match.EXTRA)]
    assert sorted(missing) == sorted(extra)
    assert len(spec.filters) - len(kept) == len(missing)


@FEW
@given(WORD_SPECS, WORD_SPECS)
def test_swapping_sides_of_any_two_specs_swaps_missing_and_extra(one, other):
    """Also where values and operators differ: what is wrong stays wrong, and the rest changes sides."""
    there, back = (Counter(item.match for item in aligned(a, b).filters) for a, b in ((one, other), (other, one)))
    assert there[Match.MATCHED] == back[Match.MATCHED]
    assert (there[Match.MISSING], there[Match.EXTRA]) == (back[Match.EXTRA], back[Match.MISSING])


@FEW
@given(SPECS, SPECS)
def test_every_filter_of_either_side_ends_in_the_evidence_once(question, sql):
    """Matching is one-to-one, and nothing gets lost."""
    evidence = aligned(question, sql).filters
    asked = Counter(item.asked.column for item in evidence if item.asked)
    found = Counter(item.found.column for item in evidence if item.found)
    assert Counter(item.column for item in question.filters) == asked
    assert Counter(item.column for item in sql.filters) == found


@FEW
@given(SPECS, SPECS)
def test_the_category_follows_from_the_evidence(question, sql):
    """FULL has no fault and no extra, FULL_WITH_EXTRAS no fault, NONE nothing met."""
    alignment = aligned(question, sql)
    faults = [item for item in alignment.filters if item.required and item.match in FAULTS]
    extras = [item for item in alignment.filters if item.match in EXTRAS]
    met = [item for item in alignment.filters if item.required and item.match is Match.MATCHED]
    expected = {
        Category.FULL: not faults and not extras,
        Category.FULL_WITH_EXTRAS: not faults and bool(extras),
        Category.NONE: bool(faults) and not met and all(item.match is Match.MISSING for item in faults),
    }
    expected[Category.PARTIAL] = not any(expected.values())
    assert expected[alignment.category]


@FEW
@given(SPECS)
def test_a_condition_more_never_makes_the_category_better(spec):
    """An extra filter is seen."""
    extra = Filter(column="mast", op=Op.EQ, value=Text("tall"), scope=Scope.WHERE)
    more = replace(spec, filters=(*spec.filters, extra))
    assert Category.FULL_WITH_EXTRAS == aligned(spec, more).category


@FEW
@given(SPECS)
def test_an_expansion_that_says_the_same_preserves_everything(spec):
    """Nothing is dropped, added or changed."""
    question, expansion = replace(spec, source=Source.QUESTION), replace(spec, source=Source.EXPANSION)
    check = check_expansion(Texts(question=question, question_text="", expansion=expansion), NO_RULES, Calendar())
    assert {Drift.PRESERVED} >= {change.drift for change in check.changes}
    assert not check.drifted


@FEW
@given(SPECS)
def test_an_empty_expansion_drops_everything(spec):
    """Each constraint of the question is reported."""
    assume(spec.filters)
    empty = QuerySpec(source=Source.EXPANSION)
    texts = Texts(question=replace(spec, source=Source.QUESTION), question_text="", expansion=empty)
    check = check_expansion(texts, NO_RULES, Calendar())
    assert [Drift.DROPPED] * len(spec.filters) == [change.drift for change in check.changes]


# ── tolerances ──────────────────────────────────────────────────────────────────────────────────────────────────────

GROUPS = st.lists(st.sampled_from(COLUMNS), unique=True, max_size=2).map(
    lambda names: tuple(GroupKey(column=name) for name in names)
)
ORDERS = st.lists(st.sampled_from(COLUMNS), unique=True, max_size=2).map(
    lambda names: tuple(OrderKey(by=name, direction=Direction.ASC, columns=(name,)) for name in names)
)
LIMITS = st.none() | st.builds(Limit, count=st.sampled_from([5, 999, 1000, 50_000]), below=st.booleans())
OUTPUTS = st.lists(st.sampled_from(COLUMNS), unique=True, max_size=2).map(
    lambda names: (
        *(Projection(name=name, columns=(name,)) for name in names),
        Projection(name="count", aggregates=("count",), text="COUNT(*)"),
    )
)
SHAPED = st.builds(
    lambda spec, groups, orders, limit, shown: replace(
        spec,
        group_by=groups,
        order_by=orders,
        limit=limit,
        projections=shown,
        aggregations=(Aggregation(function="count", of="*"),),
    ),
    SPECS,
    GROUPS,
    ORDERS,
    LIMITS,
    OUTPUTS,
)
RULES = st.sampled_from([NO_RULES, AppRules(limit_guard=5), AppRules(default_limit=5, limit_guard=100_000)])


@FEW
@given(SHAPED, SHAPED, RULES)
def test_normalizing_twice_equals_once(asked, sql, rules):
    """What is forgiven is gone, and nothing else becomes forgivable."""
    once, _ = normalize(asked, sql, rules)
    assert (once, ()) == normalize(asked, once, rules)


@FEW
@given(SHAPED, SHAPED, RULES)
def test_a_tolerance_that_takes_something_leaves_a_trace(asked, sql, rules):
    """And without a trace nothing was taken; conditions and figures are never touched."""
    once, trace = normalize(asked, sql, rules)
    assert bool(trace) is (once != sql)
    assert (sql.filters, sql.projections, sql.aggregations) == (once.filters, once.projections, once.aggregations)


@FEW
@given(SHAPED, RULES)
def test_nothing_that_was_asked_for_is_forgiven(sql, rules):
    """What stands on both sides stays: grouping, sort, cap."""
    once, _ = normalize(sql, sql, rules)
    assert sql.limit == once.limit
    assert sql.group_by == once.group_by
    assert sql.order_by == once.order_by


# ── evidence ────────────────────────────────────────────────────────────────────────────────────────────────────────


@FEW
@given(SHAPED, SHAPED)
def test_p_offline_is_a_probability_and_every_feature_is_bounded(asked, sql):
    """Whatever comes in."""
    normalized, _ = normalize(asked, sql, NO_RULES)
    facts = Facts(
        asked=asked,
        asked_text="",
        question_text="",
        expansion_text="",
        sql=sql,
        normalized=normalized,
        alignment=aligned(asked, sql),
        rules=NO_RULES,
    )
    found = gather(facts, KNOWN.weights)
    assert 0 < found.p_offline < 1
    assert all(-20 <= value <= 20 for value in found.features.values())
    assert all(0 <= found.features.get(name, 0) <= 2 for name in KNOWN.weights.terms)


@pytest.mark.parametrize("unit", [Unit.MONTH, Unit.QUARTER])
def test_a_year_and_its_part_are_one_span(unit):
    """Two conditions of the SQL answer one of the question."""
    first = shift(year(2024).start, unit, 2)
    asked = Filter(
        column="sold_on",
        op=Op.RANGE,
        value=replace(year(2024), start=first, end=shift(first, unit, 1)),
        scope=Scope.QUESTION,
    )
    parts = tuple(
        Filter(column=f"sold_{name}", op=Op.EQ, value=Number(Decimal(value)), scope=Scope.WHERE)
        for name, value in (("year", 2024), (unit.value, 3))
    )
    question, sql = QuerySpec(source=Source.QUESTION, filters=(asked,)), QuerySpec(source=Source.SQL, filters=parts)
    assert Category.FULL == aligned(question, sql).category
