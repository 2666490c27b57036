"""Consumer files: what they may say, what is refused and how, and a consumer run from one."""

from __future__ import annotations

import asyncio
import http.client
import re
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml

from stef import consume
from stef.config import resolve
from stef.consume.file import FileIn
from stef.consume.wiring import beside, kafka_settings
from stef.errors import ConsumerError, InputError
from stef.result import Outcome, Reason
from stef.store import Store
from tests.streaming import evaluate, evaluation, record

SHIPPED = sorted(Path("consumers").glob("*.yaml"))
FILE = "source: {kind: file, path: log.jsonl}\n"
KAFKA = "source: {kind: kafka, bootstrap: 'a:1, b:2', topics: [log]}\n"


@pytest.fixture
def write(tmp_path):
    """Writes a consumer file and reads it."""

    def one(text, **environment):
        path = tmp_path / "orders.yaml"
        path.write_text(text)
        return consume.read(str(path), environment)

    return one


def test_shipped_files_are_found():
    """There is one for Kafka and one for files."""
    assert ["jsonl", "kafka"] == [path.stem for path in SHIPPED]


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
@pytest.mark.parametrize("everything", [False, True])
def test_shipped_files_can_be_read(path, tmp_path, everything):
    """The files that come with stef are right, also with every line in use that is commented out."""
    text = path.read_text()
    if everything:
        text = re.sub(r"^( *)# ( *(?:- )?[a-z_]+:( |$))", r"\1\2", text, flags=re.MULTILINE)
        text = "\n".join(line for line in text.splitlines() if "stef consume" not in line)
        assert text.count("#") < path.read_text().count("#")
    copy = tmp_path / "copy.yaml"
    copy.write_text(text)
    environment = {"KAFKA_USER": "u", "KAFKA_PASSWORD": "p", "HOSTNAME": "h"}
    consumer = consume.read(str(copy), environment)
    resolve(file=consumer.settings())


def test_smallest_file(write):
    """A source is enough: the name is the file's, results go to the store."""
    consumer = write(FILE)
    assert ("orders", FileIn(kind="file", path="log.jsonl")) == (consumer.name, consumer.source)
    assert ["store"] == [sink.kind for sink in consumer.sinks]
    assert {} == consumer.settings()


def test_settings_of_a_file(write):
    """What a file says of the settings has the settings' names, and counts below flags and environment."""
    consumer = write(
        FILE
        + """
rules: {folder: r, app: sales, trust_inline: false}
score_profile: stef-2
judge: {kind: llm, model: m, timeout: 5, retries: 1, on_outage: failed}
limits: {concurrency: 3}
sinks:
  - {kind: store, path: s.db, raw_days: 0}
  - {kind: prometheus, address: ":0"}
"""
    )
    settings = resolve({"model": "flag"}, {"STEF_RULES": "env"}, consumer.settings())
    found = (settings.rules, settings.app, settings.trust_inline_rules, settings.judge, settings.model)
    assert settings.score_profile == "stef-2"
    assert ("env", "sales", False, "llm", "flag") == found
    assert (5.0, 1, "failed", 3) == (
        settings.judge_timeout,
        settings.judge_retries,
        settings.on_outage,
        settings.concurrency,
    )
    assert ("s.db", 0, ":0") == (settings.store, settings.raw_days, settings.http)


def test_kafka_source(write):
    """Brokers may stand in one text; the group is named after the consumer; a moment is read as one."""
    consumer = write(KAFKA.replace("}", ", start: 2026-11-01T00:00:00Z, options: {security_protocol: SSL}}"))
    settings = kafka_settings(consumer, consumer.source)
    assert (("a:1", "b:2"), ("log",), "stef-orders") == (settings.bootstrap, settings.topics, settings.group)
    assert datetime(2026, 11, 1, tzinfo=UTC) == settings.start
    assert {"security_protocol": "SSL"} == settings.options


def test_kafka_sink_without_brokers_uses_those_of_the_source(write):
    """A sink on the source's cluster needs neither address nor credentials of its own."""
    text = KAFKA.replace("}", ", options: {security_protocol: SSL}}")
    consumer = write(text + "sinks: [{kind: kafka, topic: out}, {kind: kafka, topic: out, bootstrap: 'c:3'}]")
    first, second = (kafka_settings(consumer, sink) for sink in consumer.sinks)
    assert (("a:1", "b:2"), {"security_protocol": "SSL"}) == (first.bootstrap, first.options)
    assert (("c:3",), {}) == (second.bootstrap, second.options)


@pytest.mark.parametrize(
    ("given", "environment", "expected"),
    [
        ("${LOG}", {"LOG": "a.jsonl"}, "a.jsonl"),
        ("${LOG:-b.jsonl}", {}, "b.jsonl"),
        ("${LOG:-b.jsonl}", {"LOG": ""}, "b.jsonl"),
        ("/x/${DAY}/${LOG}.gz", {"DAY": "1", "LOG": "a"}, "/x/1/a.gz"),
        ("$${LOG}", {}, "${LOG}"),
        ("$LOG", {"LOG": "a"}, "$LOG"),
        ("${LOG}", {"LOG": "a: [b, ${C}]"}, "a: [b, ${C}]"),
    ],
)
def test_environment(write, given, environment, expected):
    """The environment's values are put into texts, and are never read as YAML or as another variable."""
    consumer = write(f"source: {{kind: file, path: '{given}'}}", **environment)
    assert expected == consumer.source.path


@pytest.mark.parametrize(
    ("text", "place", "found", "allowed"),
    [
        ("sauce: 1\n" + FILE, "sauce", "an unknown key", "source (did you mean this?)"),
        ("source: {kind: file, pth: x}", "source.pth", "an unknown key", "path (did you mean this?)"),
        ("source: {kind: file}", "source.path", "nothing", "needed"),
        ("source: {kind: file, path: x, folow: true}", "source.folow", "an unknown key", "follow (did you mean this?)"),
        ("source: {kind: files, path: x}", "source.kind", "'files'", "file, kafka"),
        ("source: {path: x}", "source", "no kind", "file or kafka"),
        ("source: {kind: kafka, bootstrap: a, topics: [x], pattern: y}", "source", "", "not both"),
        ("source: {kind: kafka, bootstrap: a}", "source", "", "topics, or a pattern"),
        (KAFKA.replace("}", ", start: later}"), "source.start", "'later'", "'earliest' or 'latest'"),
        ("source: {kind: kafka, topics: [x]}", "source.bootstrap", "nothing", "needed"),
        (FILE + "sinks: [{kind: store}, {kind: kafka, topc: x}]", "sinks[1].topc", "an unknown key", "topic (did you"),
        (FILE + "sinks: [{kind: store, pth: x}]", "sinks[0].pth", "an unknown key", "path (did you mean this?)"),
        (FILE + "sinks: [{kind: sql}]", "sinks[0].kind", "'sql'", "store, jsonl, kafka, prometheus"),
        (FILE + "judge: {modle: x}", "judge.modle", "an unknown key", "model (did you mean this?)"),
        (FILE + "limits: {batch: 0}", "limits.batch", "0", "greater than or equal to 1"),
        (FILE + "limits: {batch: many}", "limits.batch", "'many'", "integer"),
        (FILE + "name: a/b", "name", "'a/b'", "pattern"),
        (FILE + "path: x", "path", "an unknown key", "source"),
        (FILE + "dead_letters: {path: a, topic: b}", "dead_letters", "", "not both"),
        ("source: {kind: file, path: '${LOG}'}", "source.path", "${LOG}, which is not set", "set LOG"),
        (KAFKA.replace("}", ", options: {api_key: hunter2}}"), "source.options.api_key", "a secret", "${NAME}"),
        ("source: [", "line 1", "no YAML", "YAML"),
        ("- a", "", "no mapping", "source"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named(write, tmp_path, text, place, found, allowed):
    """An error names file, place, what was found and what is allowed, and shows no secret."""
    with pytest.raises(ConsumerError) as caught:
        write(text)
    error = caught.value
    assert str(tmp_path / "orders.yaml") == error.path
    assert error.place.startswith(place)
    assert found in error.found
    assert allowed in error.allowed
    assert "hunter2" not in str(error)


def test_file_that_is_not_there():
    """A consumer file that is not there is an error that names it."""
    with pytest.raises(ConsumerError, match=r"nowhere\.yaml: found No such file|nowhere\.yaml: No such file"):
        consume.read("nowhere.yaml", {})


def test_wrong_mapping_is_an_error_of_the_file(write, tmp_path):
    """A mapping to a field that there is not is an error of the consumer file."""
    (tmp_path / "log.jsonl").write_bytes(b"")
    consumer = write(f"source: {{kind: file, path: {tmp_path}/log.jsonl}}\nmapping: {{questoin: a.b}}")
    with pytest.raises(ConsumerError, match=r"orders\.yaml.*questoin.*question"):
        asyncio.run(consume.check(consumer, resolve(file=consumer.settings()), make=make))


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/a/log.jsonl", "/a/log.dlq.jsonl"),
        ("log.jsonl.gz", "log.dlq.jsonl"),
        ("log", "log.dlq.jsonl"),
        ("-", "orders.dlq.jsonl"),
    ],
)
def test_dead_letters_lie_beside_the_file(path, expected):
    """Without a place of their own, dead letters go beside the input."""
    assert expected == beside(path, "orders")


async def make(settings, *, mapping, known, catalogues, metrics, stack):
    """An `evaluate` that asks what is known, as the pipeline does."""

    async def judge(message):
        (found,) = await evaluate(message)
        if known(message, found.event_key, found.content_digest, found.scoring_config):
            return (evaluation(found.event_key, content_digest=found.content_digest, **DUPLICATE),)
        return (found,)

    return judge


DUPLICATE = {"outcome": Outcome.SKIPPED, "reason": Reason.DUPLICATE, "phi": None, "score": None, "band": None}


@pytest.fixture
def orders(tmp_path, write):
    """A consumer over a file with three records and one dead letter."""
    log = tmp_path / "log.jsonl"
    log.write_bytes(b"\n".join([record("a", question="How many?", sql="SELECT 1"), b"oops", record("b"), record("c")]))
    return write(
        f"""
source: {{kind: file, path: {log}}}
sinks:
  - {{kind: store, path: {tmp_path}/s.db}}
  - {{kind: jsonl, path: {tmp_path}/out.jsonl}}
  - {{kind: prometheus, address: "127.0.0.1:0"}}
"""
    )


def run(consumer, **more):
    """Run it to its end."""
    return asyncio.run(consume.run(consumer, resolve(file=consumer.settings()), make=make, signals=False, **more))


def test_consumer_runs_from_its_file(orders, tmp_path):
    """A run stores the records, writes the other sinks, and puts the dead letter beside the file."""
    report = run(orders)
    assert ({Outcome.SCORED: 3}, {"not_json": 1}) == (report.outcomes, report.dead_letters)
    assert 3 == len((tmp_path / "out.jsonl").read_text().splitlines())
    assert 1 == len((tmp_path / "log.dlq.jsonl").read_text().splitlines())
    with Store.open(str(tmp_path / "s.db")) as store:
        assert {f"file:{tmp_path}/log.jsonl"} == {row.namespace for row in store.figures()}


def test_second_run_judges_nothing_again(orders, tmp_path):
    """A second run over the same file finds every record known before it is judged."""
    run(orders)
    report = run(orders)
    assert (3, 0, {Reason.DUPLICATE: 3}) == (report.duplicates, report.new, report.reasons)
    with Store.open(str(tmp_path / "s.db")) as store:
        assert (3, {"not_json": 1}) == (store.count(), store.dead_letters())


def test_exporter_shows_the_run(orders):
    """While a consumer is wired, its exporter answers with its metrics."""

    async def main():
        async with consume.wired(orders, resolve(file=orders.settings()), make=make) as running:
            await running.loop.run()
            return await asyncio.to_thread(get, running.address)

    text = asyncio.run(main())
    assert 'stef_records_total{agent="shop",agent_version="1.0",outcome="scored"} 3.0' in text


def get(address):
    """The metrics over HTTP."""
    connection = http.client.HTTPConnection(*address, timeout=5)
    try:
        connection.request("GET", "/metrics")
        return connection.getresponse().read().decode()
    finally:
        connection.close()


def test_check_shows_and_stores_nothing(orders, tmp_path):
    """A check gives records, results and errors of a few messages, and leaves no file behind."""
    before = set(tmp_path.iterdir())
    checked = asyncio.run(consume.check(orders, resolve(file=orders.settings()), count=3, make=make))
    assert [1, 0] == [len(item.evaluations) for item in checked[:2]]
    assert ["How many?"] == [item.question for item in checked[0].records]
    assert ["not_json"] == [error.reason for error in checked[1].errors]
    assert before == set(tmp_path.iterdir())


def test_input_that_is_not_there(write):
    """A file that is not there is an error before anything begins."""
    consumer = write("source: {kind: file, path: /nowhere/log.jsonl}\nsinks: []")
    with pytest.raises(InputError, match=r"/nowhere/log\.jsonl: .*No such file"):
        run(consumer)


def test_kinds_in_the_files_are_all_kinds():
    """Every kind of source is shown by a shipped file."""
    shown = {yaml.safe_load(path.read_text())["source"]["kind"] for path in SHIPPED}
    assert {"file", "kafka"} == shown
