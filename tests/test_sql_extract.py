"""What a statement asks for: conditions in canonical form, where they stand, grouping, ordering, limits, lineage."""

from __future__ import annotations

import pytest

from stef.spec import JoinKind
from stef.sql.extract import extract
from stef.sql.parse import parse
from stef.sql.statement import lift
from stef.timespan import Calendar
from stef.values import Unknown, Unresolved
from tests import sqlcases

_RULES = sorted({path.stem for path in sqlcases.FOLDER.glob("*.jsonl")} - {"lifting", "outcomes", "findings"})
_PARTS = (
    "group_by",
    "order_by",
    "limit",
    "aggregations",
    "tables",
    "joins",
    "set_operations",
    "placeholders",
    "windows",
)


@pytest.mark.parametrize("case", sqlcases.load(*_RULES), ids=sqlcases.name)
def test_what_is_read(case):
    """A statement gives exactly the conditions and parts that its case lists, and no others."""
    read = sqlcases.short(sqlcases.spec_of(case["sql"], case["dialect"], case.get("asked_at")))
    expected = {key: case[key] for key in ("filters", *_PARTS, "distinct") if key in case}
    assert expected == read


def test_there_are_enough_cases():
    """The rules of the reader are held by a case bank, not by a few examples."""
    assert len(sqlcases.load(*_RULES)) >= 150


def test_without_a_clock_a_relative_date_is_undetermined():
    """A relative date is not missing when the record has no time: it is unknown, because of the clock."""
    for sql in ("SELECT a FROM t WHERE d >= CURRENT_DATE - 30", "SELECT a FROM t WHERE DATEDIFF(CURDATE(), d) > 30"):
        found = sqlcases.spec_of(sql, "mysql").filters[0]
        assert isinstance(found.value, Unknown)
        assert ("d", Unresolved.CLOCK) == (found.column, found.value.why)


def test_a_logged_parameter_that_the_parser_cannot_read_stays_open():
    """One parameter of nonsense costs no more than its own value."""
    found = parse(lift("SELECT 1 FROM orders WHERE placed > :start"), dialect="postgres")
    given = {"start": "now() + INTERVAL -1E+99999999999 YEAR"}
    (condition,) = extract(found.tree, calendar=Calendar(), variables=given).filters
    assert condition.column == "placed"


def test_logged_parameters_fill_placeholders():
    """A bind parameter whose value was logged is that value, and no placeholder any more."""
    found = parse(lift("SELECT a FROM t WHERE d >= :start AND n = :n"), dialect="postgres")
    spec = extract(found.tree, calendar=Calendar(), variables={"start": "'2025-03-01'"})
    assert ["d range [2025-03-01, …)", "n = :n"] == [str(item) for item in spec.filters]
    assert ("n",) == spec.placeholders


def test_where_a_condition_stands():
    """The path names the clauses and queries on the way to a condition; `!` marks a query that must find nothing."""
    sql = """WITH late AS (SELECT id FROM parcels WHERE days > 3)
             SELECT id FROM late WHERE id NOT IN (SELECT id FROM lost WHERE year_lost = 2020) AND id > 5"""
    paths = [item.path for item in sqlcases.spec_of(sql, "postgres").filters]
    assert ["cte:late/where", "where", "in/where!", "where"] == paths


def test_tables_of_conditions_are_physical():
    """An alias is resolved to its table, through derived tables too."""
    sql = "SELECT x.n FROM (SELECT p.days AS n FROM parcels p) x WHERE x.n > 3"
    assert [("parcels", "days")] == [(i.table, i.column) for i in sqlcases.spec_of(sql, "postgres").filters]


def test_joins_have_kind_and_keys():
    """Each join says how two tables meet, keys in alphabetical order."""
    sql = "SELECT 1 FROM vans v LEFT JOIN depots d ON v.depot_id = d.id CROSS JOIN towns JOIN kinds USING (kind)"
    joins = sqlcases.spec_of(sql, "postgres").joins
    assert [JoinKind.LEFT, JoinKind.CROSS, JoinKind.INNER] == [join.kind for join in joins]
    assert [(("depots.id", "vans.depot_id"),), (), (("kind", "kind"),)] == [join.keys for join in joins]


def test_projections_know_what_is_behind_them():
    """An output has its name, the columns in it and the aggregates in it, also when they stand in a derived table."""
    sql = "WITH s AS (SELECT city, SUM(km) AS total FROM vans GROUP BY city) SELECT city, total, km * 2 AS x FROM s"
    found = [(p.name, p.columns, p.aggregates) for p in sqlcases.spec_of(sql, "postgres").projections]
    assert [("city", ("city",), ()), ("total", ("total",), ("sum",)), ("x", ("km",), ())] == found


def test_texts_are_short():
    """What a report shows of a condition is at most 200 characters, also of a list of thousands."""
    sql = f"SELECT a FROM t WHERE b IN ({', '.join(str(i) for i in range(5_000))})"
    assert len(sqlcases.spec_of(sql, "postgres").filters[0].text) <= 200


def test_plain_texts_are_written_as_sqlglot_writes_them():
    """The short way of writing simple expressions gives the text that the long way gives."""
    sql = """SELECT COUNT(*) AS n, "Odd name", SUM(v.km) FROM vans v
             WHERE v.kind = 'it''s' AND (km > 3 OR km <> 5) AND name NOT LIKE 'x%' ORDER BY n DESC"""
    tree = parse(lift(sql), dialect="postgres").tree
    where = tree.args["where"].this
    shown = [item.text for item in extract(tree, calendar=Calendar()).filters]
    assert where.this.this.sql() in shown
    assert [node.sql() for node in tree.expressions] == [
        item.text for item in extract(tree, calendar=Calendar()).projections
    ]
    assert ["n DESC"] == [key.text for key in extract(tree, calendar=Calendar()).order_by]


def test_too_many_nested_queries_are_a_recursion_error():
    """Extraction says RecursionError instead of following queries without end."""
    deep = parse(lift("SELECT a FROM t"), dialect="postgres").tree
    for _ in range(80):
        deep = parse(lift("SELECT a FROM t"), dialect="postgres").tree.from_(deep.subquery("x"))
    with pytest.raises(RecursionError):
        extract(deep, calendar=Calendar())
