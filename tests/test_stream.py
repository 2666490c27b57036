"""The loop: order, commits, back-pressure, revocation, dead letters, sinks, draining."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stef.errors import RecordError, StoreError, StreamError
from stef.record import Message
from stef.result import Outcome, Reason
from stef.store import Store
from stef.stream.limits import Limits
from stef.stream.loop import Loop
from stef.stream.memory import LIST, Crash, ListSource, MemoryDeadLetters, MemorySink, Pause, Revoke
from stef.stream.offsets import Tracker
from stef.stream.protocols import Extent, Partition
from stef.stream.sinks import PrometheusSink
from tests.streaming import evaluate, evaluation, record

FAST = Limits(batch_seconds=0.02, poll_seconds=0.02, commit_seconds=0.0, backoff_seconds=0.01, attempts=3)


def limits(**changes):
    """Short times, and what a test is about."""
    return Limits(**{name: getattr(FAST, name) for name in Limits.__dataclass_fields__} | changes)


@pytest.fixture
def store(tmp_path):
    """An empty store."""
    with Store.open(str(tmp_path / "stef.db")) as opened:
        yield opened


def make(source, judge=evaluate, **more):
    """A loop with everything in memory."""
    more.setdefault("dead_letters", MemoryDeadLetters())
    more.setdefault("limits", FAST)
    return Loop(source, judge, **more)


def run(source, judge=evaluate, **more):
    """Run a loop to its end."""
    return asyncio.run(make(source, judge, **more).run())


async def until(condition):
    """Wait for something that happens in another thread."""
    while not condition():  # noqa: ASYNC110 - the product has no event for it
        await asyncio.sleep(0.01)


def records(count, start=0):
    """So many values."""
    return [record(f"e{number}") for number in range(start, start + count)]


def test_every_message_is_stored_and_committed(store):
    """At the end of the source every record is stored once and the last position is committed."""
    source = ListSource(records(1234))
    report = run(source, store=store)
    assert (1234, 1234, 1234) == (report.received, report.new, store.count())
    assert {LIST: 1233} == source.committed
    assert {Outcome.SCORED: 1234} == report.outcomes
    assert Extent(done=1234, total=1234) == report.extent


def test_empty_source_ends(store):
    """A source without messages ends at once."""
    assert 0 == run(ListSource([]), store=store).received


def test_second_delivery_stores_nothing(store):
    """What is delivered again is a duplicate: nothing is stored twice."""
    run(ListSource(records(50)), store=store)
    report = run(ListSource(records(60)), store=store)
    assert (50, 10, 60) == (report.duplicates, report.new, store.count())
    assert {Reason.DUPLICATE: 50} == report.reasons


def test_same_record_twice_in_one_batch(store):
    """A record that stands twice in one batch is stored once."""
    report = run(ListSource([record("a"), record("b"), record("a")]), store=store)
    assert (2, 1, 2) == (report.new, report.duplicates, store.count())


@given(st.lists(st.integers(0, 3), min_size=1, max_size=30), st.randoms(use_true_random=False))
def test_only_the_finished_prefix_is_ready(steps, random):
    """In whatever order messages finish, the offset to commit is that of the last one before the first unfinished."""
    offsets = [sum(steps[: n + 1]) + n for n in range(len(steps))]
    tracker = Tracker()
    for offset in offsets:
        tracker.add(offset)
    order = random.sample(offsets, len(offsets))
    for number, offset in enumerate(order, start=1):
        tracker.finish(offset)
        prefix = [item for item in offsets if all(before in order[:number] for before in offsets if before <= item)]
        assert (prefix[-1] if prefix else None) == tracker.ready()
        assert len(offsets) - len(prefix) == len(tracker)


def test_tracker_refuses_a_step_back():
    """An offset that does not follow is no part of this prefix."""
    tracker = Tracker()
    tracker.add(5)
    with pytest.raises(ValueError, match="offset 5 does not follow"):
        tracker.add(5)
    tracker.finish(5)
    assert (False, True) == (tracker.follows(5), tracker.follows(6))


def test_ready_offset_is_given_until_it_is_committed():
    """An offset stays ready when its commit was put off."""
    tracker = Tracker()
    tracker.add(0)
    tracker.finish(0)
    assert (0, 0) == (tracker.ready(), tracker.ready())
    tracker.committed(0)
    assert tracker.ready() is None


def test_slow_record_holds_the_commit_back(store):
    """While one record is under way, later ones are stored, and none from it on is committed."""
    gate = asyncio.Event()
    source = ListSource(records(20))

    async def judge(message):
        if message.offset == 5:
            await gate.wait()
        return await evaluate(message)

    async def main():
        task = asyncio.create_task(make(source, judge, store=store).run())
        await until(lambda: store.count() == 19)
        await asyncio.sleep(0.1)
        before = dict(source.committed)
        gate.set()
        await task
        return before

    assert {LIST: 4} == asyncio.run(main())
    assert {LIST: 19} == source.committed


def test_concurrency_is_bounded(store):
    """No more messages are evaluated at once than allowed, and as many as that."""
    running = peak = 0

    async def judge(message):
        nonlocal running, peak
        running += 1
        peak = max(peak, running)
        await asyncio.sleep(0.005)
        running -= 1
        return await evaluate(message)

    run(ListSource(records(40)), judge, store=store, limits=limits(concurrency=4))
    assert 4 == peak


@pytest.mark.parametrize("bound", [{"in_flight": 10}, {"in_flight_bytes": 10 * len(record("e1"))}])
def test_stuck_evaluation_pauses_the_source_and_polls_on(store, bound):
    """When evaluation hangs, the source is paused after a bounded number of records, and is still polled."""
    gate = asyncio.Event()
    source = ListSource(records(200))

    async def judge(message):
        await gate.wait()
        return await evaluate(message)

    async def main():
        loop = make(source, judge, store=store, limits=limits(poll=5, **bound))
        task = asyncio.create_task(loop.run())
        await until(lambda: source.paused)
        polls = source.polls
        await asyncio.sleep(0.3)
        state = (loop.report().received, source.polls - polls > 5, loop.alive, loop.metrics.value("stef_paused"))
        gate.set()
        await task
        return state

    received, polled, alive, paused = asyncio.run(main())
    assert received <= 15
    assert (True, True, 1) == (polled, alive, paused)
    assert 200 == store.count()


def test_message_larger_than_the_bound_gets_through(store):
    """One message that is larger than all that may be in flight is let in alone."""
    run(ListSource([record("a", text="x" * 10_000), record("b")]), store=store, limits=limits(in_flight_bytes=100))
    assert 2 == store.count()


def test_message_that_is_no_record_is_put_aside(store):
    """A dead letter keeps its message, counts with its reason, and holds nobody up."""
    source, dead = ListSource([record("a"), b"oops", record("b")]), MemoryDeadLetters()
    report = run(source, store=store, dead_letters=dead)
    assert [(b"oops", "not_json")] == [(letter.message.value, letter.error.reason) for letter in dead.letters]
    assert {"not_json": 1} == report.dead_letters == store.dead_letters()
    assert (2, {LIST: 2}) == (store.count(), source.committed)


def test_bug_in_evaluate_loses_no_message(store, caplog):
    """When evaluate has a bug, the message is a dead letter with the reason internal, and the others go on."""
    caplog.set_level(logging.CRITICAL)

    async def judge(message):
        if message.offset == 1:
            raise ZeroDivisionError
        return await evaluate(message)

    dead = MemoryDeadLetters()
    run(ListSource(records(3)), judge, store=store, dead_letters=dead)
    assert [("internal", "ZeroDivisionError")] == [(it.error.reason, it.error.detail) for it in dead.letters]
    assert 2 == store.count()


def test_partly_readable_message_is_scored_and_put_aside(store):
    """A message of which one part is no record gives its other results, and goes to the dead letters."""

    async def judge(message):
        return (*await evaluate(message), RecordError("wrong_type", "sql is a number"))

    dead = MemoryDeadLetters()
    report = run(ListSource(records(1)), judge, store=store, dead_letters=dead)
    assert (1, {"wrong_type": 1}, 1) == (store.count(), report.dead_letters, len(dead.letters))


def test_result_that_cannot_be_written_holds_nobody_up(store):
    """A result with text that is no Unicode becomes a dead letter; the records around it are stored."""

    async def judge(message):
        (found,) = await evaluate(message)
        return (evaluation(found.event_key, question="\ud800"),) if message.offset == 1 else (found,)

    dead = MemoryDeadLetters()
    report = run(ListSource(records(3)), judge, store=store, dead_letters=dead)
    assert (2, {"internal": 1}, [1]) == (store.count(), report.dead_letters, [it.message.offset for it in dead.letters])


def test_store_error_in_evaluate_stops_the_consumer(store):
    """When the store cannot be asked what is known, the consumer stops; no message is blamed for it."""
    source = ListSource(records(3))

    async def judge(message):
        raise StoreError("store is gone")

    with pytest.raises(StoreError, match="store is gone"):
        run(source, judge, store=store)
    assert ({}, {}) == (source.committed, store.dead_letters())


def test_dead_letters_that_cannot_be_written_stop_the_consumer(store):
    """Without a place for dead letters the consumer stops, uncommitted."""
    source = ListSource([b"oops", *records(3)])
    with pytest.raises(StreamError, match="told to fail"):
        run(source, store=store, dead_letters=MemoryDeadLetters(failures=99))
    assert {} == source.committed


def test_sink_gets_another_try(store):
    """A sink that fails for a while gets the batch again, and nothing is lost."""
    sink, source = MemorySink(failures=2), ListSource(records(5))
    loop = make(source, store=store, sinks=[sink])
    asyncio.run(loop.run())
    assert ["e0", "e1", "e2", "e3", "e4"] == [item.evaluation.event_key for item in sink.deliveries]
    assert (2, True) == (loop.metrics.value("stef_sink_errors_total", sink="memory"), sink.closed)


def test_sink_that_stays_broken_stops_the_consumer(store):
    """A sink that fails to the end stops the consumer with nothing committed; the next run brings the batch again."""
    source = ListSource(records(5))
    with pytest.raises(StreamError, match="told to fail"):
        run(source, store=store, sinks=[MemorySink(failures=99)])
    assert {} == source.committed
    source.rewind()
    sink = MemorySink()
    report = run(source, store=store, sinks=[sink])
    assert (5, 5) == (report.duplicates, len(sink.deliveries))
    assert {True} == {item.repeated for item in sink.deliveries}


def test_sink_is_given_what_the_store_holds(store):
    """Of a record that the store has already, the other sinks get the first score, which is the one that counts."""
    run(ListSource(records(1)), store=store)
    sink = MemorySink()

    async def judge(message):
        return (evaluation("e0", phi=0, content_digest=(await evaluate(message))[0].content_digest),)

    run(ListSource(records(1)), judge, store=store, sinks=[sink])
    assert [80] == [item.evaluation.phi for item in sink.deliveries]


def test_metrics_follow_the_store(store):
    """The metrics count a repeated record as a duplicate and its score once."""
    run(ListSource(records(3)), store=store)
    loop = make(ListSource(records(4)), store=store)
    loop._outlet._sinks = (PrometheusSink(loop.metrics),)
    asyncio.run(loop.run())
    assert 1 == loop.metrics.value("stef_records_total", outcome="scored", agent="shop", agent_version="1.0")
    assert 3 == loop.metrics.value("stef_reasons_total", outcome="skipped", reason="duplicate")
    assert 3 == loop.metrics.value("stef_stored_total", fate="duplicate")


def test_loop_works_without_a_store():
    """Without a store, results go to the sinks as they are."""
    sink = MemorySink()
    report = run(ListSource([*records(3), b"oops"]), sinks=[sink])
    assert (3, 3, 0) == (len(sink.deliveries), report.outcomes[Outcome.SCORED], report.new)


def test_source_that_fails_loses_nothing(store):
    """When the source fails, what it gave is finished and committed first; a restart goes on from there."""
    source = ListSource(
        [*records(10), Crash(), *(Message(value=record(f"e{n}"), topic="list", offset=n) for n in (10, 11))]
    )
    with pytest.raises(StreamError, match="crash mark"):
        run(source, store=store)
    assert (10, {LIST: 9}) == (store.count(), source.committed)
    source.rewind()
    report = run(source, store=store)
    assert (2, 0, 12) == (report.new, report.duplicates, store.count())


def test_late_results_of_a_revoked_partition_are_dropped(store):
    """What is under way of a partition that was taken away is called off, and neither stored nor committed by us."""
    begun = []
    gate = asyncio.Event()

    async def judge(message):
        begun.append(message.offset)
        if len(begun) <= 4:
            await gate.wait()  # Never: the first delivery hangs until it is called off.
        return await evaluate(message)

    source = ListSource([*records(4), Pause(0.2), Revoke()])
    report = run(source, judge, store=store)
    assert (4, 4, 4) == (report.dropped, report.new, store.count())
    assert ([0, 1, 2, 3] * 2, {LIST: 3}) == (begun, source.committed)


def test_partitions_are_committed_apart(store):
    """A record that hangs holds its own partition back and no other."""
    gate = asyncio.Event()
    items = [Message(value=record(f"p{p}-{n}"), topic="t", partition=p, offset=n) for n in range(5) for p in (0, 1)]
    source = ListSource(items)

    async def judge(message):
        if (message.partition, message.offset) == (0, 0):
            await gate.wait()
        return await evaluate(message)

    async def main():
        task = asyncio.create_task(make(source, judge, store=store).run())
        await until(lambda: source.committed.get(Partition("t", 1)) == 4)
        before = dict(source.committed)
        gate.set()
        await task
        return before

    assert {Partition("t", 1): 4} == asyncio.run(main())
    assert {Partition("t", 0): 4, Partition("t", 1): 4} == source.committed


class Reluctant(ListSource):
    """A source that puts the first commits off, as during a rebalance."""

    refusals = 3

    def commit(self, offsets):
        """Refuse a few times."""
        self.refusals -= 1
        return self.refusals < 0 and super().commit(offsets)


def test_commit_that_is_put_off_is_made_later(store):
    """A commit that is not possible now is tried again, and the records are not evaluated again."""
    source = Reluctant([*records(3), Pause(0.05), Pause(0.05), Pause(0.05), Pause(0.05)])
    report = run(source, store=store)
    assert ({LIST: 2}, 3, 1) == (source.committed, report.received, report.commits)


async def stopped(loop, after, kind=None):
    """Run, stop in the middle, and say how long it took."""
    task = asyncio.create_task(loop.run(signals=kind is not None))
    await after()
    start = time.monotonic()
    if kind is None:
        loop.stop()
    else:
        os.kill(os.getpid(), kind)
    return await task, time.monotonic() - start


@pytest.mark.parametrize("kind", [signal.SIGTERM, signal.SIGINT, None])
def test_stop_finishes_what_is_under_way_and_gives_the_rest_back(store, kind):
    """At SIGTERM what is under way is finished, stored and committed; what nobody began comes again."""
    begun = asyncio.Event()
    source = ListSource(records(100))

    async def judge(message):
        begun.set()
        await asyncio.sleep(0.2)
        return await evaluate(message)

    loop = make(source, judge, store=store, limits=limits(concurrency=4))
    report, seconds = asyncio.run(stopped(loop, begun.wait, kind))
    assert (4, {LIST: 3}, 96) == (store.count(), source.committed, report.given_back)
    assert seconds < 2


def test_stop_has_a_deadline(store):
    """What hangs is called off when the time to drain is over; what was finished before it is stored and committed."""
    begun = asyncio.Event()
    source = ListSource(records(4))

    async def judge(message):
        if message.offset >= 2:
            begun.set()
            await asyncio.sleep(60)
        return await evaluate(message)

    loop = make(source, judge, store=store, limits=limits(drain_seconds=2))
    report, seconds = asyncio.run(stopped(loop, begun.wait))
    assert (2, {LIST: 1}, 2) == (store.count(), source.committed, report.given_back)
    assert seconds < 10


def test_second_stop_ends_at_once(store):
    """Who asks twice does not wait for the deadline."""
    begun = asyncio.Event()

    async def judge(message):
        begun.set()
        await asyncio.sleep(60)

    async def main():
        loop = make(ListSource(records(4)), judge, store=store)
        task = asyncio.create_task(loop.run())
        await begun.wait()
        loop.stop()
        loop.stop()
        return await asyncio.wait_for(task, 5)

    assert 0 == asyncio.run(main()).new


def test_progress_is_told_after_each_flush(store):
    """The caller sees the counts grow with each flush."""
    seen = []
    run(ListSource(records(30)), store=store, limits=limits(batch=10), on_flush=seen.append)
    assert [10, 20, 30] == [report.new for report in seen]


def test_loop_says_whether_it_lives(store):
    """A loop that has not begun, or has failed, is not alive."""
    loop = make(ListSource([Crash()]), store=store)
    assert (False, False) == (loop.alive, loop.ready)
    with pytest.raises(StreamError):
        asyncio.run(loop.run())
    assert (False, False) == (loop.alive, loop.ready)
