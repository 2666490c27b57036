"""What a running consumer measures: one table of metrics, and the HTTP exporter.

Every collector is made from `METRICS` (resources/metrics.yaml), and the README's list too. Labels never hold anything
without a bound, such as a question, SQL or a user: agents, versions, applications, topics and dialects beyond the first
`limit` of each become "other".
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar, Self

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.exposition import choose_encoder

from stef.data import resource
from stef.errors import SettingError
from stef.result import Drift, Evaluation, JudgeKind, Outcome, Reason, Usage

OTHER = "other"
DEFAULT_HOST = "127.0.0.1"
_LABEL_LENGTH = 80


class Kind(StrEnum):
    """Kinds of metrics; an info is a gauge that is always 1 and says something by its labels."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"
    INFO = "info"


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """One row of the table."""

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()


METRICS: tuple[Metric, ...] = tuple(
    Metric(
        name=row["name"],
        kind=Kind(row["kind"]),
        help=row["help"],
        labels=tuple(row.get("labels", ())),
        buckets=tuple(row.get("buckets", ())),
    )
    for row in resource("metrics.yaml")
)

_UNREADABLE = frozenset({Reason.BROKEN, Reason.UNSUPPORTED})


class Bounded:
    """Keeps a label's values few: the first `limit` keep their name, the rest share "other"."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._known: set[str] = set()
        self._lock = threading.Lock()

    def __call__(self, value: str | None) -> str:
        """The label to use; "" for no value."""
        text = "".join(letter if letter.isprintable() else "�" for letter in (value or "")[:_LABEL_LENGTH])
        with self._lock:
            if text in self._known or not text:
                return text
            if len(self._known) >= self._limit:
                return OTHER
            self._known.add(text)
            return text


class Metrics:
    """Collectors made from the table, in a registry of their own.

    Args:
        limit: Names that each of agent, agent version, application, topic and dialect may show.
    """

    def __init__(self, *, limit: int = 50) -> None:
        self.registry = CollectorRegistry()
        self._collectors: dict[str, Any] = {row.name: self._collector(row) for row in METRICS}
        self._bounds = {name: Bounded(limit) for name in ("agent", "agent_version", "app", "topic", "dialect")}
        self._rules: dict[str, str] = {}

    def _collector(self, row: Metric) -> Counter | Gauge | Histogram:
        if row.kind is Kind.COUNTER:
            return Counter(row.name, row.help, row.labels, registry=self.registry)
        if row.kind is Kind.HISTOGRAM:
            return Histogram(row.name, row.help, row.labels, registry=self.registry, buckets=row.buckets)
        return Gauge(row.name, row.help, row.labels, registry=self.registry)

    def _of(self, name: str, **labels: str | None) -> Any:  # noqa: ANN401 - prometheus_client is untyped
        bounded = {
            key: self._bounds[key](value) if key in self._bounds else value or "" for key, value in labels.items()
        }
        collector = self._collectors[name]
        return collector.labels(**bounded) if bounded else collector

    def observe(self, evaluation: Evaluation, *, repeated: bool = False) -> None:
        """Count one evaluation.

        Args:
            evaluation: As written.
            repeated: It was in the store already: counted as a duplicate, and its score not again.
        """
        outcome = Outcome.SKIPPED if repeated else evaluation.outcome
        reason = Reason.DUPLICATE if repeated else evaluation.reason
        who = {"agent": evaluation.agent, "agent_version": evaluation.agent_version}
        self._of("stef_records_total", outcome=outcome, **who).inc()
        if reason is not None:
            self._of("stef_reasons_total", outcome=outcome, reason=reason).inc()
        if repeated:
            return
        if outcome is Outcome.FAILED:
            self._of("stef_judge_errors_total", reason=reason).inc()
        if reason in _UNREADABLE:
            self._of("stef_parse_failures_total", dialect=evaluation.provenance.dialect).inc()
        self._score(evaluation, who)
        self._judge(evaluation)
        self._symbolic(evaluation)

    def _score(self, evaluation: Evaluation, who: Mapping[str, str | None]) -> None:
        if evaluation.phi is not None:
            self._of("stef_score", **who).observe(evaluation.phi)
        if evaluation.p_correct is not None:
            self._of("stef_p_correct", **who).observe(evaluation.p_correct)
        if evaluation.score is not None:
            for component in ("filters", "verdict", "delta"):
                points = getattr(evaluation.score, component)
                self._of("stef_component_points", component=component).observe(points)

    def _judge(self, evaluation: Evaluation) -> None:
        judge = evaluation.judge
        if judge is None:
            return
        self._of("stef_verdicts_total", judge=judge.kind, verdict=judge.verdict).inc()
        if judge.cap:
            self._of("stef_verdict_caps_total", cap=judge.cap).inc()
        if judge.fallback:
            self._of("stef_judge_fallbacks_total", cause=judge.fallback).inc()
        if judge.kind is not JudgeKind.OFFLINE or judge.route is not None:
            self._of("stef_judge_routes_total", route=judge.route or ("cache" if judge.cached else "model")).inc()
        if judge.flipped is not None:
            self._of("stef_judge_repeats_total").inc()
            self._of("stef_judge_flips_total").inc(int(judge.flipped))
        if judge.usage is not None:
            self._usage(judge.kind, judge.usage)

    def _usage(self, judge: str, usage: Usage) -> None:
        if usage.seconds is not None:
            self._of("stef_judge_duration_seconds", judge=judge).observe(usage.seconds)
        for kind in ("input", "output"):
            tokens = getattr(usage, f"{kind}_tokens")
            if tokens:
                self._of("stef_judge_tokens_total", type=kind).inc(tokens)
        if usage.cost_usd:
            self._of("stef_judge_cost_usd_total").inc(usage.cost_usd)

    def _symbolic(self, evaluation: Evaluation) -> None:
        if evaluation.alignment is not None and evaluation.outcome is Outcome.SCORED:
            self._of("stef_filter_alignment_total", category=evaluation.alignment.category).inc()
        for finding in evaluation.findings:
            self._of("stef_findings_total", code=finding.code, severity=finding.severity).inc()
        if evaluation.expansion is not None and evaluation.expansion.drifted:
            for change in evaluation.expansion.changes:
                if change.drift is not Drift.PRESERVED:
                    self._of("stef_expansion_drift_total", drift=change.drift).inc()

    def dead_letter(self, reason: str) -> None:
        """Count a message that was put aside."""
        self._of("stef_dlq_records_total", reason=reason).inc()

    def stored(self, fate: str, *, conflict: bool = False) -> None:
        """Count what the store did with one evaluation."""
        self._of("stef_stored_total", fate=fate).inc()
        if conflict:
            self._of("stef_id_conflicts_total").inc()

    def gap(self, topic: str, messages: int | None) -> None:
        """Count messages that were gone before they were read; None when nobody knows how many."""
        self._of("stef_gaps_total", topic=topic).inc()
        if messages:
            self._of("stef_gap_messages_total", topic=topic).inc(messages)

    def committed(self, *, done: bool) -> None:
        """Count a commit; not done when a rebalance put it off."""
        self._of("stef_commits_total", result="done" if done else "put_off").inc()

    def dropped(self, records: int) -> None:
        """Count late results of partitions that are another consumer's now."""
        self._of("stef_dropped_total").inc(records)

    def sink_error(self, sink: str) -> None:
        """Count a failed write."""
        self._of("stef_sink_errors_total", sink=sink).inc()

    def lag(self, topic: str, partition: int, messages: int) -> None:
        """Set how far a partition is behind its end."""
        self._of("stef_lag_messages", topic=topic, partition=str(partition)).set(messages)

    def no_lag(self) -> None:
        """Forget the partitions: which of them are this consumer's has changed."""
        self._collectors["stef_lag_messages"].clear()

    def in_flight(self, records: int, size: int, *, paused: bool) -> None:
        """Set what is being worked on."""
        self._of("stef_in_flight_records").set(records)
        self._of("stef_in_flight_bytes").set(size)
        self._of("stef_paused").set(int(paused))

    def flushed(self) -> None:
        """Set the time of the last flush to now."""
        self._of("stef_last_record_processed_timestamp_seconds").set(time.time())

    def build(self, version: str) -> None:
        """Say which release runs."""
        self._of("stef_build_info", version=version).set(1)

    def rules(self, app: str, sha256: str) -> None:
        """Say which rules of an application are in use, in place of the ones before."""
        before = self._rules.get(app)
        if before is not None and before != sha256:
            self._collectors["stef_rules_info"].remove(self._bounds["app"](app), before)
        self._rules[app] = sha256
        self._of("stef_rules_info", app=app, sha256=sha256).set(1)

    def catalogue(self, questions: int) -> None:
        """Say how many distinct questions the pinned epoch of the catalogue rests on."""
        self._of("stef_catalogue_questions").set(questions)

    def rules_reload_error(self, app: str) -> None:
        """Count a rules file that could not be read again."""
        self._of("stef_rules_reload_errors_total", app=app).inc()

    def value(self, name: str, **labels: str) -> float | None:
        """One sample as it would be exported, for tests and for the closing report; None when there is none."""
        return self.registry.get_sample_value(name, labels)  # type: ignore[no-any-return]


def _always() -> bool:
    return True


class Exporter:
    """Serves `/metrics`, `/healthz` (the loop turns) and `/readyz` (the source is assigned, the store can be written).

    Args:
        metrics: What to show.
        address: `host:port`, or a port alone; without a host it listens on 127.0.0.1 only. Port 0 takes a free one.
        alive: Whether the loop turns.
        ready: Whether work can be done.

    Raises:
        SettingError: The address is none, or cannot be listened on.
    """

    def __init__(
        self,
        metrics: Metrics,
        address: str,
        *,
        alive: Callable[[], bool] = _always,
        ready: Callable[[], bool] = _always,
    ) -> None:
        host, port = read_address(address)
        handler = type("Handler", (_Handler,), {"metrics": metrics, "probes": {"/healthz": alive, "/readyz": ready}})
        server = type("Server", (ThreadingHTTPServer,), {"daemon_threads": True, "address_family": _family(host)})
        try:
            self._server: ThreadingHTTPServer = server((host, port), handler)
        except OSError as error:
            raise SettingError(f"http: cannot listen on {address}: {error.strerror or error}") from error
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.1,), name="stef-http", daemon=True)
        self._thread.start()

    @property
    def address(self) -> tuple[str, int]:
        """Host and port that it listens on."""
        host, port = self._server.server_address[:2]
        return str(host), int(port)

    def close(self) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(timeout=5)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Handler(BaseHTTPRequestHandler):
    metrics: ClassVar[Metrics]
    probes: ClassVar[dict[str, Callable[[], bool]]]
    timeout = 10
    server_version = "stef"
    sys_version = ""

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        if path == "/metrics":
            encode, content_type = choose_encoder(self.headers.get("Accept"))
            self._answer(HTTPStatus.OK, encode(self.metrics.registry), content_type)
        elif path in self.probes:
            good = self.probes[path]()
            status = HTTPStatus.OK if good else HTTPStatus.SERVICE_UNAVAILABLE
            self._answer(status, b"ok\n" if good else b"not now\n", "text/plain; charset=utf-8")
        else:
            self._answer(HTTPStatus.NOT_FOUND, b"/metrics, /healthz, /readyz\n", "text/plain; charset=utf-8")

    do_HEAD = do_GET  # noqa: N815 - the base class looks for this name

    def _answer(self, status: HTTPStatus, body: bytes, content_type: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        """Keep quiet: probes come every few seconds."""


def read_address(address: str) -> tuple[str, int]:
    """Split `host:port`; the host is 127.0.0.1 when it is not given.

    Raises:
        SettingError: It is no address.
    """
    host, _, port = address.rpartition(":")
    if not port.isdecimal() or int(port) > 65535:
        raise SettingError(f"http: found {address!r}; allowed: host:port, such as 127.0.0.1:9464")
    return host.strip("[]") or DEFAULT_HOST, int(port)


def _family(host: str) -> int:
    import socket

    return socket.AF_INET6 if ":" in host else socket.AF_INET
