"""The same meaning, written otherwise, gives the same spec; nothing makes the reader raise."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import datetime

import sqlglot
from hypothesis import given, settings
from hypothesis import strategies as st

from stef.apprules import NO_RULES
from stef.sql.extract import extract
from stef.sql.parse import parse
from stef.sql.safety import findings, real_tables
from stef.sql.statement import lift
from stef.timespan import Calendar
from tests import sqlcases

_NOW = "2026-03-15T10:00:00"
_DIALECTS = ("postgres", "mysql", "snowflake", "duckdb")
_BUDGET = settings(max_examples=60, derandomize=True, deadline=None)

# ── a small grammar of statements, in PostgreSQL's words ──

_TEXTS = st.sampled_from(["Turku", "Oulu", "it's", "50 %", "北京"])
_NUMBERS = st.integers(-5, 5_000).map(str)
_QUOTED = _TEXTS.map(lambda text: "'" + text.replace("'", "''") + "'")
_TEXT_COLUMNS = st.sampled_from(["city", "kind", "v.driver"])
_NUMBER_COLUMNS = st.sampled_from(["km", "seats", "v.price"])
_DATES = st.dates(datetime(2019, 1, 1).date(), datetime(2026, 12, 31).date()).map(lambda day: f"'{day}'")  # noqa: DTZ001
_COMPARES = st.sampled_from(["=", "<>", "<", "<=", ">", ">="])
_LEAVES = st.one_of(
    st.tuples(_TEXT_COLUMNS, st.sampled_from(["=", "<>"]), _QUOTED).map(" ".join),
    st.tuples(_NUMBER_COLUMNS, _COMPARES, _NUMBERS).map(" ".join),
    st.tuples(_NUMBER_COLUMNS, _NUMBERS, _NUMBERS).map(lambda t: f"{t[0]} BETWEEN {t[1]} AND {t[2]}"),
    st.tuples(_TEXT_COLUMNS, st.lists(_QUOTED, min_size=1, max_size=3)).map(lambda t: f"{t[0]} IN ({', '.join(t[1])})"),
    st.tuples(_TEXT_COLUMNS, st.lists(_QUOTED, min_size=2, max_size=3)).map(
        lambda t: f"{t[0]} NOT IN ({', '.join(t[1])})"
    ),
    st.tuples(_TEXT_COLUMNS, st.sampled_from(["LIKE", "NOT LIKE"]), st.sampled_from(["'blue%'", "'%ox'", "'box'"])).map(
        " ".join
    ),
    st.tuples(_TEXT_COLUMNS, st.sampled_from(["IS NULL", "IS NOT NULL"])).map(" ".join),
    st.tuples(_COMPARES, _DATES).map(lambda t: f"sold_on {t[0]} {t[1]}"),
    st.integers(2019, 2026).map(lambda year: f"EXTRACT(YEAR FROM sold_on) = {year}"),
    st.sampled_from(["sold_on >= CURRENT_DATE - INTERVAL '30 days'", "is_active", "NOT is_active"]),
)
_CONDITIONS = st.recursive(
    _LEAVES,
    lambda inner: st.one_of(
        st.tuples(inner, inner).map(lambda t: f"({t[0]} AND {t[1]})"),
        st.tuples(inner, inner).map(lambda t: f"({t[0]} OR {t[1]})"),
        inner.map(lambda condition: f"NOT ({condition})"),
    ),
    max_leaves=5,
)
_LIMITS = st.one_of(st.just(""), st.integers(1, 2_000).map(lambda count: f" LIMIT {count}"))


@st.composite
def _plain(draw):
    order = draw(st.sampled_from(["", " ORDER BY km DESC", " ORDER BY city, km DESC", " ORDER BY 2"]))
    where = draw(_CONDITIONS)
    join = draw(
        st.sampled_from(["", " JOIN depots AS d ON d.id = v.depot_id", " LEFT JOIN depots AS d ON d.id = v.id"])
    )
    distinct = draw(st.sampled_from(["", "DISTINCT "]))
    return f"SELECT {distinct}city, km FROM vans AS v{join} WHERE {where}{order}{draw(_LIMITS)}"


@st.composite
def _grouped(draw):
    aggregate = draw(
        st.sampled_from(["COUNT(*)", "SUM(km)", "AVG(price)", "COUNT(DISTINCT kind)", "SUM(km) / COUNT(*)", "MAX(km)"])
    )
    having = draw(st.sampled_from(["", " HAVING COUNT(*) > 5", " HAVING SUM(km) >= 100 AND COUNT(*) < 9"]))
    order = draw(st.sampled_from(["", " ORDER BY n DESC", " ORDER BY 2 DESC", " ORDER BY city"]))
    where = draw(_CONDITIONS)
    return f"SELECT city, {aggregate} AS n FROM vans AS v WHERE {where} GROUP BY city{having}{order}{draw(_LIMITS)}"


@st.composite
def _nested(draw):
    inner, outer = draw(_plain()), draw(st.sampled_from(["km > 5", "city = 'Turku'", "km BETWEEN 1 AND 9"]))
    inner = inner.partition(" ORDER BY")[0].partition(" LIMIT")[0]
    if draw(st.booleans()):
        return f"WITH some AS ({inner}) SELECT COUNT(*) FROM some WHERE {outer}"
    return f"SELECT COUNT(*) FROM ({inner}) AS some WHERE {outer}"


_STATEMENTS = st.one_of(_plain(), _grouped(), _nested())


def _read(sql, dialect):
    return sqlcases.spec_of(sql, dialect, _NOW)


def _meaning(spec):
    """What must not depend on the way of writing; a sort by an alias is one by what is behind it."""
    return {
        **sqlcases.short(spec),
        "order_by": [(key.columns, key.aggregate, key.direction) for key in spec.order_by],
        "effects": [item.effect for item in spec.filters],
        "columns": [(item.columns, item.aggregates) for item in spec.projections],
    }


@given(_STATEMENTS, st.sampled_from(_DIALECTS[1:]))
@_BUDGET
def test_another_dialect_means_the_same(sql, dialect):
    """A statement transpiled to another dialect has the same conditions, aggregates, grouping, ordering and limit."""
    other = sqlglot.transpile(sql, read="postgres", write=dialect)[0]
    assert _meaning(_read(sql, "postgres")) == _meaning(_read(other, dialect))


@given(_STATEMENTS)
@_BUDGET
def test_rendering_again_means_the_same(sql):
    """A statement that sqlglot writes anew, in one line or many, has the same spec."""
    for pretty in (False, True):
        again = sqlglot.parse_one(sql, read="postgres").sql(dialect="postgres", pretty=pretty)
        assert _meaning(_read(sql, "postgres")) == _meaning(_read(again, "postgres"))


@given(_STATEMENTS)
@_BUDGET
def test_keywords_have_no_case(sql):
    """Keywords in lower case change nothing."""
    parts = re.split(r"('(?:[^']|'')*')", sql)
    lower = "".join(part if i % 2 else part.lower() for i, part in enumerate(parts))
    assert _meaning(_read(sql, "postgres")) == _meaning(_read(lower, "postgres"))


@given(_STATEMENTS)
@_BUDGET
def test_names_of_aliases_mean_nothing(sql):
    """Other names for tables change nothing; the output's own names are not touched."""
    other = re.sub(r"\bsome\b", "chosen", re.sub(r"\bd\b(?=\.|\s+ON)", "depot", re.sub(r"\bv\b", "fleet", sql)))
    assert _meaning(_read(sql, "postgres")) == _meaning(_read(other, "postgres"))


@given(_CONDITIONS)
@_BUDGET
def test_negating_twice_means_the_same(condition):
    """NOT (NOT (…)) is no change."""
    once, twice = (
        _read(f"SELECT 1 FROM vans AS v WHERE {where}", "postgres")
        for where in (f"({condition})", f"NOT (NOT ({condition}))")
    )
    assert [replace(item, text="") for item in once.filters] == [replace(item, text="") for item in twice.filters]


# ── nothing raises ──

_WORDS = """
    SELECT FROM WHERE GROUP BY ORDER LIMIT TOP WITH AS ( ) ( ) , ; ' " ` * = < > <> IN NOT NULL IS LIKE BETWEEN AND
    OR UNION ALL JOIN LEFT ON USING CASE WHEN THEN ELSE END COUNT( SUM( EXISTS( INTERVAL DATE '2024-01-01' 1 2.5
    vans v.km city OVER( PARTITION QUALIFY ROW_NUMBER() HAVING DISTINCT @p :p $1 ? {{ }} [ ] /* */ -- /*! x ->
    :: LATERAL UNNEST( VALUES EXPLAIN DECLARE SET USE GO FETCH FIRST PIVOT( FOR ROWNUM CONNECT START DATEDIFF(
    JSON_VALUE( ANY( ALL( DELETE INSERT INTO EXEC CALL CREATE TABLE RECURSIVE PREWHERE EXTRACT( YEAR CAST(
    FILTER( WITHIN"""
_SCRAPS = st.lists(st.sampled_from(_WORDS.split()), max_size=30).map(" ".join)


@st.composite
def _mutated(draw):
    words = draw(st.sampled_from([case["sql"] for case in sqlcases.load() if "sql" in case])).split(" ")
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(words) - 1))
        what = draw(st.sampled_from(["drop", "double", "swap", "scrap"]))
        if what == "drop" and len(words) > 1:
            words.pop(at)
        elif what == "double":
            words.insert(at, words[at])
        elif what == "swap":
            other = draw(st.integers(0, len(words) - 1))
            words[at], words[other] = words[other], words[at]
        else:
            words.insert(at, draw(_SCRAPS.filter(bool)))
    return " ".join(words)


_NAMES = st.sampled_from(
    [None, "", "postgres", "mysql", "tsql", "bigquery", "snowflake", "oracle", "clickhouse", "no such"]
)


def _through(text, dialect):
    found = parse(lift(text), dialect=dialect)
    spec = None
    if found.tree is not None:
        spec = extract(found.tree, calendar=Calendar(), variables=found.variables, dialect=found.dialect)
    findings(found, spec, replace(NO_RULES, allowed_tables=("vans",)), {"sleep": "sleep"})
    for tree in found.statements:
        real_tables(tree)
    assert (found.tree is None) == (found.reason is not None)


@given(st.one_of(st.text(max_size=80), _SCRAPS), _NAMES)
@settings(max_examples=300, derandomize=True, deadline=None)
def test_arbitrary_text_never_raises(text, dialect):
    """Any text at all ends in a tree or in a reason."""
    _through(text, dialect)


@given(_mutated(), _NAMES)
@settings(max_examples=300, derandomize=True, deadline=None)
def test_damaged_sql_never_raises(text, dialect):
    """Statements with words lost, doubled, swapped or added end in a tree or in a reason."""
    _through(text, dialect)
