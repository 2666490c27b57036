"""Findings about what a statement may do."""

from __future__ import annotations

import pytest

from stef.apprules import NO_RULES, AppRules, Condition
from stef.data import denied_functions
from stef.finding import SEVERITIES, Severity
from stef.sql.extract import extract
from stef.sql.parse import parse
from stef.sql.safety import findings, is_read_only, real_tables
from stef.sql.statement import lift
from stef.timespan import Calendar
from tests import sqlcases


def _found(sql, dialect="postgres", rules=NO_RULES):
    parsed = parse(lift(sql), dialect=dialect)
    spec = extract(parsed.tree, calendar=Calendar()) if parsed.tree is not None else None
    return findings(parsed, spec, rules, denied_functions())


@pytest.mark.parametrize("case", sqlcases.load("findings"), ids=sqlcases.name)
def test_what_is_found(case):
    """A statement has exactly the findings that its case lists, from its whole tree."""
    rules = AppRules(**{key: tuple(value) for key, value in case.get("rules", {}).items()})
    found = _found(case["sql"], case["dialect"], rules)
    assert case["findings"] == [f"{finding.code}: {finding.detail}" for finding in found]
    assert all(SEVERITIES[finding.code] is finding.severity for finding in found)


def test_read_only_is_the_absence_of_one_finding():
    """Warnings alone leave a text read-only."""
    assert is_read_only(_found("SELECT 1; SELECT 2"))
    assert not is_read_only(_found("SELECT 1; DROP TABLE vans"))


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("WITH secret AS (SELECT * FROM secret) SELECT * FROM secret", {"secret"}),
        ("WITH a AS (SELECT 1 AS x), b AS (SELECT x FROM a) SELECT x FROM b", set()),
        ("WITH RECURSIVE a AS (SELECT id FROM parts UNION ALL SELECT id FROM a) SELECT id FROM a", {"parts"}),
        ("SELECT id FROM fleet.vans v, LATERAL (SELECT 1 FROM depots) d", {"fleet.vans", "depots"}),
        ("SELECT (SELECT MAX(id) FROM trucks) FROM vans WHERE id IN (SELECT id FROM lost)", {"trucks", "vans", "lost"}),
        ("WITH a AS (SELECT 1 AS x) SELECT x FROM a UNION SELECT x FROM fleet.a", {"fleet.a"}),
    ],
)
def test_real_tables(sql, expected):
    """A common table expression hides a table in what follows it, and nowhere else."""
    assert expected == set(real_tables(parse(lift(sql), dialect="postgres").tree))


@pytest.mark.parametrize(
    ("where", "missing"),
    [
        ("tenant_id = 7", False),
        ("tenant_id = 7 AND kind = 'box'", False),
        ("kind = 'box'", True),
        ("tenant_id = 7 OR kind = 'box'", True),
        ("tenant_id <> 7", True),
    ],
)
def test_mandatory_filters_must_bind_every_row(where, missing):
    """A mandatory condition that stands in an OR, or is negated, is missing."""
    wanted = sqlcases.spec_of("SELECT 1 FROM t WHERE tenant_id = 7", "postgres").filters
    rules = AppRules(mandatory_filters=(Condition(text="tenant_id = 7", filters=wanted),))
    codes = [finding.code for finding in _found(f"SELECT id FROM vans WHERE {where}", rules=rules)]
    assert missing == ("mandatory_filter_missing" in codes)


def test_a_mandatory_filter_that_takes_no_effect_is_missing():
    """In ON of a LEFT JOIN, on the kept side, a tenant's condition lets every row through."""
    wanted = sqlcases.spec_of("SELECT 1 FROM t WHERE tenant_id = 7", "postgres").filters
    rules = AppRules(mandatory_filters=(Condition(text="tenant_id = 7", filters=wanted),))
    found = _found("SELECT v.id FROM vans v LEFT JOIN depots d ON d.id = v.depot_id AND v.tenant_id = 7", rules=rules)
    assert [("mandatory_filter_missing", Severity.CRITICAL)] == [(f.code, f.severity) for f in found]
