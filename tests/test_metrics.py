"""The table of metrics, what is counted, and the exporter over real HTTP."""

from __future__ import annotations

import http.client
import re
import socket
from dataclasses import replace

import pytest

from stef.errors import SettingError
from stef.finding import Finding, Severity
from stef.metrics import METRICS, OTHER, Exporter, Kind, Metrics, read_address
from stef.result import Drift, Expansion, ExpansionChange, JudgeKind, Judgement, Outcome, Reason, Route, Usage, Verdict
from tests.streaming import evaluation, failed


def get(exporter, path, method="GET", **headers):
    """Status, body and type of an answer."""
    connection = http.client.HTTPConnection(*exporter.address, timeout=5)
    try:
        connection.request(method, path, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.read().decode(), answer.headers["Content-Type"]
    finally:
        connection.close()


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)
def test_names_follow_prometheus(metric):
    """A name has the prefix, counters end in _total, infos in _info, and nothing else does."""
    assert re.fullmatch(r"stef_[a-z_]+", metric.name)
    assert (metric.kind is Kind.COUNTER) == metric.name.endswith("_total")
    assert (metric.kind is Kind.INFO) == metric.name.endswith("_info")
    assert (metric.kind is Kind.HISTOGRAM) == bool(metric.buckets)
    assert metric.help.endswith(".")


def test_names_are_unique():
    """No name stands in the table twice."""
    assert len(METRICS) == len({metric.name for metric in METRICS})


def test_no_label_can_hold_content():
    """Labels come from a closed list, in which there is no question, SQL, user or key."""
    allowed = (
        "agent agent_version app topic dialect outcome reason component judge verdict cap cause category drift code "
        "severity type fate result sink partition version sha256 route"
    )
    assert set() == {label for metric in METRICS for label in metric.labels} - set(allowed.split())


def test_every_metric_is_exported():
    """The exporter shows every row of the table, with its help."""
    metrics = Metrics()
    with Exporter(metrics, "127.0.0.1:0") as exporter:
        _, text, _ = get(exporter, "/metrics")
    for metric in METRICS:
        assert f"# HELP {metric.name} {metric.help}" in text


def test_scored_record():
    """A scored record counts in its outcome, its Φ, its parts, its category and its verdict."""
    metrics = Metrics()
    metrics.observe(evaluation())
    who = {"agent": "shop", "agent_version": "1.0"}
    assert 1 == metrics.value("stef_records_total", outcome="scored", **who)
    assert 80 == metrics.value("stef_score_sum", **who)
    assert 0 == metrics.value("stef_score_bucket", le="74.0", **who)
    assert 1 == metrics.value("stef_score_bucket", le="89.0", **who)
    assert 4 == metrics.value("stef_component_points_sum", component="filters")
    assert 1 == metrics.value("stef_filter_alignment_total", category="FULL_WITH_EXTRAS")
    assert 1 == metrics.value("stef_verdicts_total", judge="offline", verdict="LIKELY_CORRECT")


def test_record_without_score_adds_none():
    """A record that failed counts with its reason, and adds no Φ."""
    metrics = Metrics()
    metrics.observe(failed())
    metrics.observe(
        evaluation(outcome=Outcome.SKIPPED, reason=Reason.BROKEN, phi=None, p_correct=None, score=None, judge=None)
    )
    assert 1 == metrics.value("stef_reasons_total", outcome="failed", reason="judge_unavailable")
    assert 1 == metrics.value("stef_judge_errors_total", reason="judge_unavailable")
    assert 1 == metrics.value("stef_parse_failures_total", dialect="duckdb")
    assert metrics.value("stef_score_count", agent="shop", agent_version="1.0") is None


def test_repeated_record_is_a_duplicate():
    """A record that the store had already counts as a duplicate and its score not again."""
    metrics = Metrics()
    metrics.observe(evaluation(), repeated=True)
    assert 1 == metrics.value("stef_records_total", outcome="skipped", agent="shop", agent_version="1.0")
    assert 1 == metrics.value("stef_reasons_total", outcome="skipped", reason="duplicate")
    assert metrics.value("stef_score_count", agent="shop", agent_version="1.0") is None


def test_judge_findings_and_drift():
    """Usage, caps, fallbacks, findings and drift of an expansion are counted by their codes."""
    metrics = Metrics()
    usage = Usage(input_tokens=100, output_tokens=20, cost_usd=0.5, seconds=0.3)
    judge = Judgement(
        kind=JudgeKind.LLM,
        verdict=Verdict.INCORRECT,
        confidence=0.5,
        cap="category_none",
        fallback="outage",
        usage=usage,
    )
    drift = Expansion(changes=(ExpansionChange(drift=Drift.DROPPED), ExpansionChange(drift=Drift.PRESERVED)))
    findings = (Finding(code="not_read_only", severity=Severity.CRITICAL),)
    metrics.observe(evaluation(judge=judge, findings=findings, expansion=drift))
    assert 1 == metrics.value("stef_verdict_caps_total", cap="category_none")
    assert 1 == metrics.value("stef_judge_fallbacks_total", cause="outage")
    assert 100 == metrics.value("stef_judge_tokens_total", type="input")
    assert 0.5 == metrics.value("stef_judge_cost_usd_total")
    assert 0.3 == metrics.value("stef_judge_duration_seconds_sum", judge="llm")
    assert 1 == metrics.value("stef_findings_total", code="not_read_only", severity="critical")
    assert 1 == metrics.value("stef_expansion_drift_total", drift="dropped")
    assert metrics.value("stef_expansion_drift_total", drift="preserved") is None


def test_agents_beyond_the_limit_share_a_label():
    """A log that invents agents cannot make the number of series grow without end."""
    metrics = Metrics(limit=2)
    for number in range(50):
        metrics.observe(evaluation(agent=f"a{number}", agent_version="1"))
    metrics.observe(evaluation(agent="a0", agent_version="1"))
    assert 2 == metrics.value("stef_records_total", agent="a0", agent_version="1", outcome="scored")
    assert 48 == metrics.value("stef_records_total", agent=OTHER, agent_version="1", outcome="scored")


def test_rules_info_shows_the_rules_in_use():
    """When rules change, the series of the old ones goes."""
    metrics = Metrics()
    metrics.rules("sales", "aaaa")
    metrics.rules("sales", "bbbb")
    assert metrics.value("stef_rules_info", app="sales", sha256="aaaa") is None
    assert 1 == metrics.value("stef_rules_info", app="sales", sha256="bbbb")


def test_two_metrics_do_not_share_a_registry():
    """Each instance counts for itself."""
    first, second = Metrics(), Metrics()
    first.dead_letter("not_json")
    assert 1 == first.value("stef_dlq_records_total", reason="not_json")
    assert second.value("stef_dlq_records_total", reason="not_json") is None


def test_health_and_readiness_follow_the_loop():
    """/healthz and /readyz answer 200 when all is well and 503 when not, each for itself."""
    state = {"alive": True, "ready": False}
    with Exporter(Metrics(), "127.0.0.1:0", alive=lambda: state["alive"], ready=lambda: state["ready"]) as exporter:
        assert (200, 503) == (get(exporter, "/healthz")[0], get(exporter, "/readyz")[0])
        state.update(alive=False, ready=True)
        assert (503, 200) == (get(exporter, "/healthz")[0], get(exporter, "/readyz")[0])
        assert 404 == get(exporter, "/secret")[0]
        assert (200, "") == get(exporter, "/metrics", "HEAD")[:2]


def test_openmetrics_when_asked_for():
    """The format follows the Accept header."""
    with Exporter(Metrics(), "127.0.0.1:0") as exporter:
        assert get(exporter, "/metrics")[2].startswith("text/plain")
        kind = get(exporter, "/metrics", Accept="application/openmetrics-text; version=1.0.0")[2]
    assert kind.startswith("application/openmetrics-text")


def test_listens_on_loopback_unless_told_otherwise():
    """Without a host it listens on 127.0.0.1."""
    with Exporter(Metrics(), ":0") as exporter:
        assert "127.0.0.1" == exporter.address[0]


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("9464", ("127.0.0.1", 9464)),
        (":9464", ("127.0.0.1", 9464)),
        ("0.0.0.0:80", ("0.0.0.0", 80)),
        ("[::1]:9464", ("::1", 9464)),
    ],
)
def test_addresses(address, expected):
    """A port, with or without a host."""
    assert expected == read_address(address)


@pytest.mark.parametrize("address", ["", "localhost", "127.0.0.1:", "127.0.0.1:http", "127.0.0.1:99999"])
def test_what_is_no_address(address):
    """An address without a port is refused, and the message shows one."""
    with pytest.raises(SettingError, match=r"127\.0\.0\.1:9464"):
        read_address(address)


def test_address_in_use():
    """An address that is taken is an error that names it."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(SettingError, match=address):
            Exporter(Metrics(), address)


def test_flips_are_counted_over_the_records_that_were_asked_about_again():
    """The flip rate is flips over repeats: a record that was asked about once is in neither."""
    metrics = Metrics()
    for flipped in (None, False, True):
        verdict = Judgement(kind=JudgeKind.LLM, verdict=Verdict.CORRECT, confidence=0.9, flipped=flipped)
        metrics.observe(evaluation(judge=verdict))
    assert metrics.value("stef_judge_repeats_total") == 2
    assert metrics.value("stef_judge_flips_total") == 1


def test_the_route_of_a_record_is_counted():
    """Model, cache, sure and not drawn are told apart; a purely offline judge has no route."""
    metrics = Metrics()
    model = Judgement(kind=JudgeKind.LLM, verdict=Verdict.CORRECT, confidence=0.9)
    offline = Judgement(kind=JudgeKind.OFFLINE, verdict=Verdict.CORRECT, confidence=0.9)
    given = (
        model,
        replace(model, cached=True),
        replace(offline, route=Route.SURE),
        replace(offline, route=Route.NOT_DRAWN),
        offline,
    )
    for verdict in given:
        metrics.observe(evaluation(judge=verdict))
    routes = {
        route: metrics.value("stef_judge_routes_total", route=route)
        for route in ("model", "cache", "sure", "not_drawn", "")
    }
    assert routes == {"model": 1, "cache": 1, "sure": 1, "not_drawn": 1, "": None}
