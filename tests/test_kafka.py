"""The consumer against a real Apache Kafka broker: STEF_TEST_KAFKA=host:port (`.ci/kafka start DIR` starts one)."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
import uuid
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

import pytest

from stef.errors import RecordError, StreamError
from stef.record import Message
from stef.result import Outcome
from stef.store import Store
from stef.stream.kafka import KafkaSettings, KafkaSource, start_offsets
from stef.stream.kafka_look import sample
from stef.stream.kafka_out import KafkaDeadLetters, KafkaSink
from stef.stream.limits import Limits
from stef.stream.loop import Loop
from stef.stream.memory import MemoryDeadLetters, MemorySink
from stef.stream.protocols import DeadLetter, Delivery
from tests.streaming import evaluate, evaluation, record

BROKER = os.environ.get("STEF_TEST_KAFKA", "")
RECORDS = int(os.environ.get("STEF_TEST_KAFKA_RECORDS", "10000"))
pytestmark = [
    pytest.mark.kafka,
    pytest.mark.skipif(not BROKER, reason="no broker: set STEF_TEST_KAFKA=host:port, or start one with .ci/kafka"),
]
FAST = Limits(batch_seconds=0.05, poll_seconds=0.1, commit_seconds=0.05)


@pytest.fixture
def store(tmp_path):
    """An empty store."""
    with Store.open(str(tmp_path / "stef.db")) as opened:
        yield opened


@pytest.fixture
def admin():
    """For what only an operator does."""
    from kafka import KafkaAdminClient

    client = KafkaAdminClient(bootstrap_servers=BROKER)
    yield client
    client.close()


@pytest.fixture
def topic(admin):
    """A new topic of three partitions."""
    name = f"log-{uuid.uuid4().hex[:12]}"
    admin.create_topics({name: {"num_partitions": 3, "replication_factor": 1}}, wait_for_metadata=True)
    return name


def settings(topic, **changes):
    """A group of its own for each topic, and short times."""
    given = {"bootstrap": (BROKER,), "topics": (topic,), "group": f"group-{topic}", "session_seconds": 6.0}
    return KafkaSettings(**{**given, **changes})


def produce(topic, values, *, partition=None, **more):
    """Write values and wait for them."""
    from kafka import KafkaProducer

    producer = KafkaProducer(bootstrap_servers=BROKER, linger_ms=20)
    for value in values:
        producer.send(topic, value=value, partition=partition, **more)
    producer.flush()
    producer.close()


def consume(topic, count):
    """Read a topic from its start, with a plain client, up to so many messages; one that comes again counts once."""
    from kafka import KafkaConsumer

    consumer = KafkaConsumer(topic, bootstrap_servers=BROKER, auto_offset_reset="earliest", consumer_timeout_ms=10_000)
    found = {}
    try:
        while len(found) < count:
            message = next(consumer, None)
            if message is None:
                break
            found.setdefault((message.key, message.value), message)
        return list(found.values())
    finally:
        consumer.close()


def records(count, start=0):
    """So many values."""
    return [record(f"e{number}") for number in range(start, start + count)]


async def run_until(loop, condition, seconds=40.0):
    """Run a loop until something holds, then stop it."""
    task = asyncio.create_task(loop.run())
    await until(lambda: condition() or task.done(), seconds)
    loop.stop()
    report = await task
    assert condition()
    return report


async def until(condition, seconds=40.0):
    """Wait for something that happens elsewhere."""
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:  # noqa: ASYNC110 - nothing tells
        await asyncio.sleep(0.05)


def make(source, store, judge=evaluate, **more):
    """A loop over a topic."""
    given = {"dead_letters": MemoryDeadLetters(), "limits": FAST, **more}
    return Loop(source, judge, store=store, **given)


def committed(admin, topic):
    """Committed offsets of the topic's group, by partition; 0 is one too. A new broker has no place for them yet."""
    from kafka.errors import CoordinatorNotAvailableError

    try:
        found = admin.list_group_offsets([f"group-{topic}"])[f"group-{topic}"]
    except CoordinatorNotAvailableError:
        return {}
    return {key.partition: place.offset for key, place in found.items()}


def throw_out(admin, topic):
    """Take the members out of the topic's group, as the broker does with one that it did not hear from."""
    from kafka.admin import MemberToRemove

    group = f"group-{topic}"
    members = admin.describe_groups([group])[group]["members"]
    admin.remove_group_members(group, [MemberToRemove(member_id=member["member_id"]) for member in members])


def test_restart_goes_on_after_what_is_committed(topic, store, admin):
    """A second run begins after the first one's commit; the namespace names the cluster and the topic."""
    produce(topic, records(300))
    report = asyncio.run(run_until(make(KafkaSource(settings(topic)), store), lambda: store.count() == 300))
    assert (300, 300) == (report.received, sum(committed(admin, topic).values()))
    produce(topic, records(20, 300))
    report = asyncio.run(run_until(make(KafkaSource(settings(topic)), store), lambda: store.count() == 320))
    assert (20, 0) == (report.received, report.duplicates)
    (namespace,) = {row.namespace for row in store.figures()}
    assert namespace.startswith("kafka:")
    assert namespace.endswith(f"/{topic}")


@contextmanager
def started(*command):
    """A process; killed when the test fails."""
    with subprocess.Popen([sys.executable, "-m", *command], stdout=subprocess.DEVNULL, text=True) as process:
        try:
            yield process
        except BaseException:
            process.kill()
            raise


def wait_for(store, count, process, patience=60.0):
    """Wait until a consumer has stored so many records: as long as that takes, if it does not stand still."""
    seen, end = -1, 0.0
    while (stored := store.count()) < count:
        if stored > seen:
            seen, end = stored, time.monotonic() + patience
        assert process.poll() is None
        assert time.monotonic() < end
        time.sleep(0.05)


@pytest.mark.parametrize("kills", [1, 3])
def test_killed_consumer_stores_each_record_once(topic, tmp_path, kills):
    """`stef consume`, killed with -9 in the middle and started again, has stored every record exactly once."""
    count = RECORDS if kills == 1 else RECORDS // 5
    values = [
        record(
            f"e{number}",
            question=f"How many orders in {number}?",
            sql=f"SELECT COUNT(*) FROM orders WHERE y = {number}",
        )
        for number in range(count)
    ]
    produce(topic, values[:-1])
    path = tmp_path / "orders.yaml"
    path.write_text(
        f"""
source: {{kind: kafka, bootstrap: {BROKER}, topics: [{topic}], session_seconds: 6}}
sinks: [{{kind: store, path: {tmp_path}/s.db}}]
limits: {{batch: 50}}
"""
    )
    with Store.open(str(tmp_path / "s.db")) as store:
        for kill in range(1, kills + 1):
            with started("stef", "consume", str(path)) as process:
                wait_for(store, count * kill // (kills + 1), process)
                process.kill()
            assert -signal.SIGKILL == process.returncode
            # The later ones of several kills may come when the little that is left is stored already.
            assert kill > 1 or store.count() < count - 1
        # So that the last one has something left to do: a process that just begins does not know how to stop yet.
        produce(topic, values[-1:])
        with started("stef", "consume", str(path)) as process:
            wait_for(store, count, process)
            process.terminate()
        assert 0 == process.returncode
        rows = [(row.event_key, row.outcome) for row in store.figures()]
    assert {(f"e{number}", Outcome.SCORED) for number in range(count)} == set(rows)
    assert count == len(rows)


def test_second_member_takes_partitions_over(topic, store, tmp_path):
    """When a second consumer joins and the first one leaves, every record is stored once, and none is missed."""
    with Store.open(store.path) as other:

        async def slowly(message):
            await asyncio.sleep(0.005)
            return await evaluate(message)

        async def main():
            first = make(KafkaSource(settings(topic)), store, slowly)
            task = asyncio.create_task(first.run())
            await asyncio.to_thread(produce, topic, records(1500))
            await until(lambda: store.count() >= 100)
            second = make(await asyncio.to_thread(KafkaSource, settings(topic)), other, slowly)
            both = asyncio.create_task(second.run())
            while second.report().received < 100:
                await asyncio.to_thread(produce, topic, records(100, 1500))
                await asyncio.sleep(0.3)
            first.stop()
            await task
            await asyncio.to_thread(produce, topic, records(300, 1600))
            await until(lambda: store.count() >= 1900)
            second.stop()
            await both

        asyncio.run(main())
    keys = [row.event_key for row in store.figures()]
    assert {f"e{number}" for number in range(1900)} == set(keys)
    assert 1900 == len(keys)


def test_new_partitions_are_read(topic, store, admin):
    """When a topic grows, the new partitions are read, however short the polls are that the rebalance falls between."""
    produce(topic, records(10))
    source = KafkaSource(settings(topic, options={"metadata_max_age_ms": 300}))
    loop = make(source, store, limits=Limits(poll_seconds=0.001, batch_seconds=0.05, commit_seconds=0.05))

    async def main():
        task = asyncio.create_task(loop.run())
        for partitions in (4, 5, 6):
            await until(lambda: store.count() >= 10)
            await asyncio.to_thread(admin.create_partitions, {topic: partitions})
            await asyncio.sleep(1)
            value = record(f"new-{partitions}")
            await asyncio.to_thread(produce, topic, [value], partition=partitions - 1)
        await until(lambda: store.count() == 13, 15)
        loop.stop()
        return await task

    report = asyncio.run(main())
    assert (13, 13) == (store.count(), sum(committed(admin, topic).values()))
    assert 0 == report.dropped


def test_slow_evaluation_does_not_leave_the_group(topic, store):
    """While evaluation hangs for longer than the poll interval, the consumer stays in its group and repeats nothing."""
    produce(topic, records(60))
    begun = []

    async def judge(message):
        begun.append(message.position)
        await asyncio.sleep(7 if len(begun) == 1 else 0)
        return await evaluate(message)

    source = KafkaSource(settings(topic, poll_seconds=3.0))
    loop = make(source, store, judge, limits=Limits(in_flight=10, concurrency=1, poll_seconds=0.1))
    report = asyncio.run(run_until(loop, lambda: store.count() == 60))
    assert (60, 0, 60) == (report.received, report.dropped, len(begun))


def test_offsets_lost_to_retention_are_a_gap(topic, store, admin):
    """When messages are gone before they are read, the gap is counted, and reading goes on after it."""
    from kafka.structs import TopicPartition

    produce(topic, records(10), partition=0)
    asyncio.run(run_until(make(KafkaSource(settings(topic)), store), lambda: store.count() == 10))
    produce(topic, records(20, 10), partition=0)
    admin.delete_records({TopicPartition(topic, 0): 25})
    loop = make(KafkaSource(settings(topic)), store)
    report = asyncio.run(run_until(loop, lambda: store.count() == 15))
    assert 1 == report.gaps
    assert 15 == loop.metrics.value("stef_gap_messages_total", topic=topic)
    assert {f"e{number}" for number in (*range(10), *range(25, 30))} == {row.event_key for row in store.figures()}


def test_latest_means_the_same_after_a_restart(topic, store, admin):
    """With start: latest, what comes while the consumer is down is read at its next start, even if it begins at 0."""
    for partition in (0, 1):
        produce(topic, records(15, 15 * partition), partition=partition)
    loop = make(KafkaSource(settings(topic, start="latest")), store)
    asyncio.run(run_until(loop, lambda: committed(admin, topic) == {0: 15, 1: 15, 2: 0}))
    for partition in (0, 1, 2):
        produce(topic, [record(f"new-{partition}")], partition=partition)
    loop = make(KafkaSource(settings(topic, start="latest")), store)
    asyncio.run(run_until(loop, lambda: store.count() == 3))
    assert {"new-0", "new-1", "new-2"} == {row.event_key for row in store.figures()}


@pytest.mark.parametrize("late", [0.0, 0.3])
def test_latest_means_the_same_after_a_loss_of_the_partitions(topic, store, admin, monkeypatch, late):
    """With start: latest, a consumer that loses its partitions before it could commit goes on where it first began.

    That also holds when the group's answer, that it has no positions, comes late: after they were committed.
    """
    source = KafkaSource(settings(topic, start="latest"))
    coordinator = source._consumer._coordinator
    ask, looks = coordinator._send_offset_fetch_request, []

    async def answer(partitions):
        found = await ask(partitions)
        await coordinator._net.sleep(late if len(partitions) > 1 else 0)
        return found

    def look(*given):
        looks.append(start_offsets(*given))
        if len(looks) == 1:
            throw_out(admin, topic)
            produce(topic, records(5, 30))
            monkeypatch.setattr(coordinator, "_send_offset_fetch_request", answer)
        return looks[-1]

    monkeypatch.setattr("stef.stream.kafka.start_offsets", look)
    produce(topic, records(30))
    asyncio.run(run_until(make(source, store), lambda: store.count() == 5))
    assert {f"e{number}" for number in range(30, 35)} == {row.event_key for row in store.figures()}


def test_start_at_a_moment(topic, store):
    """With a moment as start, reading begins at the first message at or after it."""
    now = datetime.now(UTC)
    for hours, start in ((3, 0), (1, 10)):
        stamp = int((now - timedelta(hours=hours)).timestamp() * 1000)
        produce(topic, records(10, start), partition=1, timestamp_ms=stamp)
    source = KafkaSource(settings(topic, start=now - timedelta(hours=2)))
    asyncio.run(run_until(make(source, store), lambda: store.count() == 10))
    assert {f"e{number}" for number in range(10, 20)} == {row.event_key for row in store.figures()}


def test_topics_by_pattern(topic, store):
    """Topics may be named by a regular expression, and are known from the start."""
    produce(topic, records(5))
    source = KafkaSource(settings(topic, topics=(), pattern=f"^{topic[:-2]}.*"))
    assert {topic} == source._consumer.subscription()
    asyncio.run(run_until(make(source, store), lambda: store.count() == 5))
    assert {f"e{number}" for number in range(5)} == {row.event_key for row in store.figures()}


def test_message_comes_whole(topic):
    """Key, headers, time, topic, partition and offset come with the value; a message without a value is one too."""
    # Older than the broker's retention, a message may be gone before it is read.
    when = datetime.now(UTC).replace(microsecond=0)
    headers = (("h", b"1"), ("h", b"2"))
    produce(
        topic, [b"\xff", None], partition=2, key=b"k", headers=list(headers), timestamp_ms=int(when.timestamp() * 1000)
    )
    same = {"key": b"k", "headers": headers, "topic": topic, "partition": 2, "timestamp": when}
    expected = [Message(value=b"\xff", offset=0, **same), Message(value=None, offset=1, **same)]
    assert expected == sample(settings(topic), 5)


def test_sample_joins_no_group(topic, admin):
    """Looking at a few messages leaves no group and no commit behind."""
    produce(topic, records(50))
    assert 5 == len(sample(settings(topic), 5))
    assert f"group-{topic}" not in {group["group_id"] for group in admin.list_groups()}


def test_sample_of_no_topic():
    """A topic that is not there is an error that names it, and is not made by looking."""
    with pytest.raises(StreamError, match="no topic nowhere"):
        sample(settings("nowhere", options={"allow_auto_create_topics": False}), 5)


def test_dead_letter_keeps_everything(topic):
    """A dead letter has the original bytes, key and headers, and says in further headers where it was and why."""
    message = Message(value=b"\xff\x00", key=b"k", headers=(("h", b"\x01"),), topic=topic, partition=2, offset=7)
    letters = KafkaDeadLetters(settings(topic), consumer="orders")
    letters.write([DeadLetter(message=message, error=RecordError("not_utf8", "byte 0xff at 0"))])
    letters.close()
    (found,) = consume(f"{topic}.dlq", 1)
    headers = dict(found.headers)
    assert (b"\xff\x00", b"k", b"\x01") == (found.value, found.key, headers["h"])
    expected = {
        "__connect.errors.topic": topic,
        "__connect.errors.partition": "2",
        "__connect.errors.offset": "7",
        "__connect.errors.connector.name": "orders",
        "stef.error.reason": "not_utf8",
        "stef.error.detail": "byte 0xff at 0",
    }
    assert expected == {name: headers[name].decode() for name in expected}


def test_dead_letter_that_is_too_large_goes_without_its_bytes(topic):
    """A dead letter that no broker takes goes without its bytes, and says so; it does not stop the consumer."""
    letters = KafkaDeadLetters(settings(topic))
    large = Message(value=b"x" * 2_000_000, key=b"k", topic=topic, offset=7)
    small = Message(value=b"y", topic=topic, offset=8)
    error = RecordError("not_json", "x")
    letters.write([DeadLetter(message=large, error=error), DeadLetter(message=small, error=error)])
    letters.close()
    found = {dict(item.headers)["__connect.errors.offset"]: item for item in consume(f"{topic}.dlq", 2)}
    assert (b"", b"2000000") == (found[b"7"].value, dict(found[b"7"].headers)["stef.value_omitted"])
    assert b"y" == found[b"8"].value


def test_dead_letters_through_the_loop(topic, store):
    """Messages that are no records reach the dead-letter topic, and the position moves past them."""
    produce(topic, [record("a"), b"oops", record("b")], partition=0)
    loop = make(KafkaSource(settings(topic)), store, dead_letters=KafkaDeadLetters(settings(topic)))
    report = asyncio.run(run_until(loop, lambda: store.count() == 2 and store.dead_letters()))
    assert {"not_json": 1} == report.dead_letters
    assert [b"oops"] == [found.value for found in consume(f"{topic}.dlq", 1)]


def test_results_in_a_topic(topic):
    """A result is keyed by its event, is whole JSON, and carries the trace of the record."""
    trace = ("traceparent", b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
    message = Message(value=b"x", headers=(trace, ("other", b"1")))
    sink = KafkaSink(settings(topic), topic)
    sink.write([Delivery(evaluation=evaluation("e7"), message=message, namespace="kafka:c/t")])
    sink.close()
    (found,) = consume(topic, 1)
    assert (b"e7", 80) == (found.key, json.loads(found.value)["phi"])
    headers = dict(found.headers)
    assert (trace[1], b"kafka:c/t", None) == (headers["traceparent"], headers["stef.namespace"], headers.get("other"))


def test_lag_is_measured(topic, store):
    """The lag of a partition is what lies between the commit and its end."""
    produce(topic, records(40), partition=1)
    gate = asyncio.Event()

    async def judge(message):
        if message.offset >= 10:
            await gate.wait()
        return await evaluate(message)

    loop = make(KafkaSource(settings(topic)), store, judge)

    def lag():
        return loop.metrics.value("stef_lag_messages", topic=topic, partition="1")

    def step():
        if lag() == 30:
            gate.set()
        return gate.is_set() and lag() == 0

    asyncio.run(run_until(loop, step))
    assert (True, 0, 40) == (gate.is_set(), lag(), store.count())


def test_other_sinks_get_everything(topic, store):
    """A sink beside the store sees every record of the topic."""
    produce(topic, records(50))
    sink = MemorySink()
    asyncio.run(run_until(make(KafkaSource(settings(topic)), store, sinks=[sink]), lambda: len(sink.deliveries) == 50))
    assert {f"e{number}" for number in range(50)} == {item.evaluation.event_key for item in sink.deliveries}


def test_static_member_keeps_its_partitions(topic, store):
    """A static member that restarts at once goes on with the same partitions."""
    produce(topic, records(30))
    for expected in (30, 40):
        source = KafkaSource(settings(topic, instance="one"))
        asyncio.run(run_until(make(source, store), lambda count=expected: store.count() == count))
        produce(topic, records(10, 30))


NOBODY = """
from stef.stream.kafka import KafkaSettings, KafkaSource
KafkaSource(KafkaSettings(bootstrap=("127.0.0.1:1",), topics=("t",), options={"bootstrap_timeout_ms": 500}))
"""


def test_broker_that_does_not_answer():
    """An address where no broker answers is an error that names it, and the process ends."""
    # In a process of its own: the client leaves open sockets behind.
    process = subprocess.run([sys.executable, "-c", NOBODY], capture_output=True, text=True, check=False, timeout=60)
    assert "stef.errors.StreamError: kafka 127.0.0.1:1: KafkaTimeoutError" in process.stderr
    assert 1 == process.returncode


def test_unknown_option_is_refused(topic):
    """A setting that the client does not know is an error that names it."""
    with pytest.raises(StreamError, match="sasl_mechanisms"):
        KafkaSource(settings(topic, options={"sasl_mechanisms": "PLAIN"}))
