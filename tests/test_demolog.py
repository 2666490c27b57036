"""The demo log is what it says: varied, repeatable, and wrong in known places only."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from datetime import datetime
from itertools import pairwise

import pytest
import sqlglot
from sqlglot.errors import SqlglotError

from stef import demolog
from stef.demolog.script import Slip, edited, load_script
from stef.demolog.writer import Writer, _Filled, cuts
from stef.errors import InputError

TEMPLATES = {template.id: template for template in load_script().templates}
WRONG = {version.label: version.wrong for version in load_script().versions}


@pytest.fixture(scope="module")
def log():
    """The default log."""
    return list(demolog.records(seed=1, per_version=300))


def filled(template, seed=1):
    """A template with values chosen, as the writer chooses them."""
    writer = Writer(load_script(), load_script().versions[0], seed)
    return _Filled(writer._choose(template.slots), defaultdict(lambda: "2026-01-01"))


def test_log_repeats_from_its_seed(log):
    """The same seed gives the same log, another seed another one."""
    assert log == list(demolog.records(seed=1, per_version=300))
    assert log != list(demolog.records(seed=2, per_version=300))


def test_shares_are_as_planted(log):
    """Each version has its number of records and exactly its share of wrong statements."""
    wrong = Counter(record["agent_version"] for record in log if record["metadata"]["planted"])
    assert {label: round(300 * share) for label, share in WRONG.items()} == dict(wrong)
    assert {300} == set(Counter(record["agent_version"] for record in log).values())


def test_every_kind_comes_in_every_version(log):
    """Each kind of error is planted at least once in each version."""
    for label in WRONG:
        found = {record["metadata"]["planted"] for record in log if record["agent_version"] == label}
        assert {kind.value for kind in demolog.Planted} | {None} == found


def test_order_of_versions_is_no_artefact(log):
    """Neither the names nor the times of the versions are in the order of their quality, and the versions overlap."""
    shares = list(WRONG.values())
    assert shares not in (sorted(shares), sorted(shares, reverse=True))
    assert [record["asked_at"] for record in log] == sorted(record["asked_at"] for record in log)
    changes = sum(a["agent_version"] != b["agent_version"] for a, b in pairwise(log))
    assert changes > 100


def test_log_is_varied(log):
    """Forty templates or more, three applications, six dialects, and mostly questions of their own."""
    assert len(TEMPLATES) >= 40
    assert 3 == len({record["app"] for record in log})
    assert {"postgres", "bigquery", "mysql", "tsql", "snowflake", "sqlite"} == {t.dialect for t in TEMPLATES.values()}
    assert set(TEMPLATES) | {"refusal"} == {record["metadata"]["template"] for record in log}
    assert len({record["question"] for record in log}) > 400
    assert {"none", "faithful", "drifted"} == {record["metadata"]["expansion_kind"] for record in log}
    assert any("```" in record["sql"] for record in log if record["sql"])


def test_refusals_hold_no_statement(log):
    """A refusal is null or prose, in a known share of each version, and nothing is planted in it."""
    refused = [record for record in log if record["metadata"]["template"] == "refusal"]
    assert {15} == set(Counter(record["agent_version"] for record in refused).values())
    assert any(record["sql"] is None for record in refused)
    assert not [record for record in refused if record["sql"] and "select" in record["sql"].lower()]


def test_every_record_can_be_identified(log):
    """A record has its own id or a trace and a span; none comes twice."""
    keys = [record.get("event_id") or (record["trace_id"], record["span_id"]) for record in log]
    assert len(log) == len(set(keys))


def test_moments_carry_a_zone(log):
    """Each question says when it was asked, with a zone."""
    assert all(datetime.fromisoformat(record["asked_at"]).utcoffset() is not None for record in log)


@pytest.mark.parametrize("template", TEMPLATES.values(), ids=TEMPLATES)
def test_right_statements_parse(template):
    """Each template's right statement parses in its dialect, and no slot is left in it or in the question."""
    values = filled(template)
    sql = values.text(template.sql, stored=True)
    assert isinstance(sqlglot.parse_one(sql, dialect=template.dialect), sqlglot.exp.Query)
    for text in (sql, *(values.text(pattern, stored=False) for pattern in (*template.ask, *template.expand))):
        assert "{" not in text


@pytest.mark.parametrize("template", [t for t in TEMPLATES.values() if t.variants], ids=lambda template: template.id)
def test_variants_parse(template):
    """Another way to write a right statement differs from it and parses in the template's dialect."""
    for variant in template.variants:
        other = edited(template.sql, variant)
        assert template.sql != other
        sql = filled(template).text(other, stored=True)
        assert isinstance(sqlglot.parse_one(sql, dialect=template.dialect), sqlglot.exp.Query)


@pytest.mark.parametrize("template", TEMPLATES.values(), ids=TEMPLATES)
def test_planted_statements_parse_and_differ(template):
    """A planted error changes the statement, and the changed statement still parses: the error is in the meaning."""
    for slip in template.slips.values():
        wrong = edited(template.sql, slip)
        assert template.sql != wrong
        assert sqlglot.parse_one(filled(template).text(wrong, stored=True), dialect=template.dialect)


@pytest.mark.parametrize("template", TEMPLATES.values(), ids=TEMPLATES)
def test_cut_statements_are_broken(template):
    """A cut statement parses neither in its own dialect nor in another one."""
    beginnings = cuts(filled(template).text(template.sql, stored=True))
    assert beginnings
    for beginning in beginnings:
        for dialect in (template.dialect, None, "postgres", "mysql", "bigquery", "clickhouse", "duckdb"):
            with pytest.raises(SqlglotError):
                sqlglot.parse_one(beginning, dialect=dialect)


def test_every_edit_names_its_kind_once():
    """Each kind that a template can hold stands in two templates or more, so that it stands for no single question."""
    templates = Counter(kind for template in TEMPLATES.values() for kind in template.slips)
    general = {demolog.Planted.DML, demolog.Planted.BROKEN, demolog.Planted.TEMPLATED, demolog.Planted.INJECTION}
    assert set(demolog.Planted) - general == set(templates)
    assert min(templates.values()) >= 2


def test_planted_text_is_found(log):
    """What is planted can be seen in the record's text."""
    for record in log:
        match record["metadata"]["planted"]:
            case "templated":
                assert any(mark in record["sql"] for mark in load_script().template_marks)
            case "injection":
                assert any(text in record["sql"] for text in load_script().injections)
            case "dml":
                statements = [text for app in load_script().apps.values() for text in app["dml"]]
                assert any(text in record["sql"] for text in statements)
            case "introduced_filter":
                assert record["metadata"]["expansion_kind"] == "drifted"


def test_an_edit_that_fits_nowhere_is_refused():
    """A template whose planted error no longer fits its statement fails instead of planting nothing."""
    template = TEMPLATES["revenue_last_month"]
    slip = Slip(edits=(("no such text", "x"),))
    with pytest.raises(ValueError, match="0 times"):
        edited(template.sql, slip)


def test_small_logs_keep_the_share():
    """A small log has fewer kinds, not the same ones in each version, and still its share of wrong statements."""
    made = list(demolog.records(seed=3, per_version=25))
    wrong = Counter(record["agent_version"] for record in made if record["metadata"]["planted"])
    assert {label: round(25 * share) for label, share in WRONG.items()} == dict(wrong)
    kinds = [{r["metadata"]["planted"] for r in made if r["agent_version"] == label} for label in WRONG]
    assert not kinds[2] <= kinds[0] <= kinds[1]


def test_write_says_what_it_wrote(tmp_path, log):
    """The file holds one record a line, and the summary counts them."""
    path = tmp_path / "log.jsonl"
    summary = demolog.write(path, seed=1, per_version=300)
    assert log == [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    assert 900 == summary.records
    assert {v.label: sum(v.planted.values()) for v in summary.versions} == {
        label: round(300 * share) for label, share in WRONG.items()
    }


def test_write_names_a_path_that_cannot_be_written(tmp_path):
    """A path that cannot be written is an error that names it."""
    with pytest.raises(InputError, match="missing"):
        demolog.write(tmp_path / "missing" / "log.jsonl")
