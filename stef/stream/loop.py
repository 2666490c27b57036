"""The one loop: read, evaluate side by side, flush, commit.

Three things run at once: one coroutine reads and commits (in a thread of its own, so that a source is never called by
two), `concurrency` workers evaluate, one coroutine flushes batches to the sinks (in another thread). What is read and
not committed is bounded in records and bytes; when it is full the source is paused and polled on. So a slow
`evaluate`, such as one that waits for a model that is down, holds the source back and loses nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import structlog

from stef.errors import RecordError, StefError, StoreError, StreamError
from stef.metrics import Metrics
from stef.record import Message
from stef.store import Store
from stef.stream.limits import Limits
from stef.stream.offsets import Tracker
from stef.stream.outlet import Item, Outlet
from stef.stream.protocols import DeadLetters, Evaluate, Judged, Partition, Poll, Sink, Source
from stef.stream.report import Counts, Report

log = structlog.get_logger("stef.stream")
T = TypeVar("T")


# Kept back from the time to drain, for the last flush and commit.
_FLUSH_SHARE = 0.2
_ALIVE_SECONDS = 60.0
_CLOSE_SECONDS = 10.0


class Loop:
    """Runs one source to its end, or until it is stopped.

    Args:
        source: Closed at the end.
        evaluate: See `Evaluate`.
        store: The sink that decides what is a duplicate; None for none. Not closed.
        sinks: Written after the store; closed at the end.
        dead_letters: Where messages go that are no records; closed at the end.
        limits: Bounds.
        metrics: What it counts with.
        on_flush: Called with the report after each flush, for a progress bar.
    """

    def __init__(
        self,
        source: Source,
        evaluate: Evaluate,
        *,
        dead_letters: DeadLetters,
        store: Store | None = None,
        sinks: Sequence[Sink] = (),
        limits: Limits | None = None,
        metrics: Metrics | None = None,
        on_flush: Callable[[Report], None] | None = None,
    ) -> None:
        self._source, self._evaluate, self._on_flush = source, evaluate, on_flush
        self._limits = limits or Limits()
        self.metrics = metrics or Metrics()
        self._counts = Counts()
        self._outlet = Outlet(
            store=store,
            dead_letters=dead_letters,
            sinks=sinks,
            limits=self._limits,
            metrics=self.metrics,
            counts=self._counts,
        )
        self._trackers: dict[Partition, Tracker] = {}
        self._unflushed = 0
        self._bytes = 0
        self._running: dict[asyncio.Task[Judged], Item] = {}
        self._backlog: asyncio.Queue[Item] = asyncio.Queue()
        self._finished: asyncio.Queue[Item] = asyncio.Queue()
        self._room = asyncio.Event()
        self._stop = asyncio.Event()
        self._stopped_at = 0.0
        self._beat = 0.0
        self._next_commit = 0.0
        self._next_lag = 0.0
        self._broken = False
        self._reading = ThreadPoolExecutor(1, thread_name_prefix="stef-source")

    @property
    def alive(self) -> bool:
        """Whether the loop turns; any thread may ask."""
        return not self._broken and time.monotonic() - self._beat < _ALIVE_SECONDS

    @property
    def ready(self) -> bool:
        """Whether the source is assigned and the sinks take what they are given; any thread may ask."""
        return self.alive and self._source.ready

    def report(self) -> Report:
        """What happened so far."""
        return self._counts.report(self._source.extent())

    def stop(self) -> None:
        """Finish or give back what is in flight, then end; a second call ends at once. From the loop's thread only."""
        now = time.monotonic()
        self._stopped_at = now - self._limits.drain_seconds if self._stop.is_set() else now
        self._stop.set()
        self._room.set()

    async def run(self, *, signals: bool = False) -> Report:
        """Read, evaluate, flush and commit until the source ends or `stop` is called.

        Args:
            signals: Let SIGTERM and SIGINT call `stop`; for the main thread.

        Returns:
            The counts.

        Raises:
            StreamError: The source, a sink or the dead letters failed; what was not flushed is not committed.
            StoreError: The store failed.
        """
        self._beat = time.monotonic()
        with self._signals() if signals else contextlib.nullcontext():
            tasks = [
                asyncio.create_task(self._read(), name="read"),
                asyncio.create_task(self._flush_all(), name="flush"),
            ]
            tasks += [asyncio.create_task(self._work(), name="work") for _ in range(self._limits.concurrency)]
            try:
                done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    task.result()
            except BaseException:
                self._broken = True
                raise
            finally:
                await self._cancel([*tasks, *self._running])
                report = self.report()
                await self._close()
        return report

    # Reading and committing.

    async def _read(self) -> None:
        failure: StefError | None = None
        try:
            while not self._stop.is_set() and not await self._turn():
                pass
        except StreamError as error:
            log.warning("source failed, finishing what was read", error=str(error))
            failure = error
        await self._finish(polling=failure is None)
        if failure is not None:
            raise failure

    async def _turn(self) -> bool:
        """Poll once and commit; whether the source has ended."""
        self._beat = time.monotonic()
        polled = await self._poll()
        self._take(polled)
        await self._commit()
        return polled.ended

    async def _poll(self) -> Poll:
        open_records = self._open()
        paused = open_records >= self._limits.in_flight or self._bytes >= self._limits.in_flight_bytes
        self.metrics.in_flight(open_records, self._bytes, paused=paused)
        if not paused:
            limit = min(self._limits.poll, self._limits.in_flight - open_records)
            return await self._in_source(self._poll_resumed, self._limits.poll_seconds, limit)
        self._room.clear()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._room.wait(), self._limits.poll_seconds)
        return await self._in_source(self._poll_paused)

    def _poll_resumed(self, timeout: float, limit: int) -> Poll:
        self._source.resume()
        return self._source.poll(timeout, limit)

    def _poll_paused(self) -> Poll:
        """Nothing comes from it; it keeps the consumer in its group."""
        self._source.pause()
        return self._source.poll(0.0, 1)

    def _take(self, polled: Poll) -> None:
        for partition in polled.revoked:
            self._drop(partition)
        for gap in polled.gaps:
            self._counts.gaps += 1
            self.metrics.gap(gap.partition.topic, gap.messages)
            log.warning("messages were gone before they were read", **gap.partition._asdict(), detail=gap.detail)
        for message in polled.messages:
            self._admit(message)

    def _admit(self, message: Message) -> None:
        partition = Partition(message.topic, message.partition)
        tracker = self._trackers.get(partition)
        if tracker is None or not tracker.follows(message.offset):
            # After a step back, what is under way is still flushed, and its position is not committed any more.
            tracker = self._trackers[partition] = Tracker()
        tracker.add(message.offset)
        size = len(message.value or b"") + len(message.key or b"")
        item = Item(message, self._source.namespace(message.topic), tracker, size)
        self._unflushed += 1
        self._bytes += item.size
        self._counts.received += 1
        self._backlog.put_nowait(item)

    def _drop(self, partition: Partition) -> None:
        """Forget a partition that is no longer ours: its results come too late."""
        tracker = self._trackers.pop(partition, None)
        self.metrics.no_lag()
        if tracker is not None:
            tracker.alive = False
            for task, item in self._running.items():
                if item.tracker is tracker:
                    task.cancel()

    def _open(self) -> int:
        """Messages between the committed position and the newest one, or still being worked on for nothing."""
        return max(self._unflushed, sum(len(tracker) for tracker in self._trackers.values()))

    async def _commit(self, *, now: bool = False) -> None:
        moment = time.monotonic()
        if not now and moment < self._next_commit:
            return
        self._next_commit = moment + self._limits.commit_seconds
        ready = {key: tracker.ready() for key, tracker in self._trackers.items()}
        offsets = {key: offset for key, offset in ready.items() if offset is not None}
        if offsets:
            done = await self._in_source(self._source.commit, offsets)
            self.metrics.committed(done=done)
            if done:
                self._counts.commits += 1
                for partition, offset in offsets.items():
                    self._trackers[partition].committed(offset)
        if moment >= self._next_lag:
            self._next_lag = moment + 1.0
            for partition, messages in (await self._in_source(self._source.lag)).items():
                self.metrics.lag(partition.topic, partition.number, messages)

    async def _finish(self, *, polling: bool) -> None:
        """Let everything that was read be flushed, or give it back when the time is over; then commit."""
        while self._unflushed:
            self._beat = time.monotonic()
            if self._stop.is_set():
                self._give_back()
            if self._late(1 - _FLUSH_SHARE):
                for task in self._running:
                    task.cancel()
            if self._late(1.0):
                log.warning("not all could be flushed in time, giving it back", messages=self._unflushed)
                self._counts.given_back += self._unflushed
                break
            self._room.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._room.wait(), self._limits.poll_seconds)
            if polling:
                # What a rebalance brings now is not taken in: it stays uncommitted and comes again.
                polled = await self._in_source(self._poll_paused)
                self._take(Poll(revoked=polled.revoked, gaps=polled.gaps))
            await self._commit()
        await self._commit(now=True)

    def _late(self, share: float) -> bool:
        return self._stop.is_set() and time.monotonic() >= self._stopped_at + self._limits.drain_seconds * share

    def _give_back(self) -> None:
        """Forget what nobody has begun: it is not committed, so it comes again."""
        while not self._backlog.empty():
            self._settle(self._backlog.get_nowait())
            self._counts.given_back += 1

    # Evaluating.

    async def _work(self) -> None:
        while True:
            item = await self._backlog.get()
            if item.tracker.alive and await self._judge(item):
                self._finished.put_nowait(item)
            else:
                self._set_aside(item)

    async def _judge(self, item: Item) -> bool:
        """Evaluate one message; False when it was called off."""
        task = asyncio.ensure_future(self._evaluate(item.message))
        self._running[task] = item
        try:
            await asyncio.wait({task})
        finally:
            del self._running[task]
            if not task.done():
                task.cancel()
        if task.cancelled():
            return False
        error = task.exception()
        if error is None:
            item.take(task.result())
        elif isinstance(error, RecordError):
            item.error = error
        elif isinstance(error, (StoreError, StreamError)) or not isinstance(error, Exception):
            raise error
        else:
            log.error(
                "evaluate has a bug, the message goes to the dead letters", at=item.message.position, exc_info=error
            )
            item.error = RecordError("internal", type(error).__name__)
        return True

    def _set_aside(self, item: Item) -> None:
        """An evaluation that was called off: its partition is another's, or the time to drain is over."""
        if item.tracker.alive:
            self._counts.given_back += 1
        else:
            self._counts.dropped += 1
            self.metrics.dropped(1)
        self._settle(item)

    def _settle(self, item: Item) -> None:
        """Nothing more happens to it."""
        self._unflushed -= 1
        self._bytes -= item.size
        self._room.set()

    # Flushing.

    async def _flush_all(self) -> None:
        while True:
            batch = [await self._finished.get()]
            end = time.monotonic() + self._limits.batch_seconds
            # With nothing else under way there is nothing to wait for.
            while len(batch) < self._limits.batch and len(batch) < self._unflushed:
                if not self._finished.empty():
                    batch.append(self._finished.get_nowait())
                    continue
                try:
                    batch.append(await asyncio.wait_for(self._finished.get(), end - time.monotonic()))
                except TimeoutError:
                    break
            await self._flush(batch)

    async def _flush(self, batch: list[Item]) -> None:
        live = [item for item in batch if item.tracker.alive]
        await self._outlet.write(live)
        for item in batch:
            if item.tracker.alive:
                item.tracker.finish(item.message.offset)
            else:
                self._counts.dropped += 1
                self.metrics.dropped(1)
            self._settle(item)
        if self._on_flush is not None:
            self._on_flush(self.report())

    # Running.

    async def _in_source(self, function: Callable[..., T], *given: object) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._reading, function, *given)

    @contextlib.contextmanager
    def _signals(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        kinds = (signal.SIGTERM, signal.SIGINT)
        for kind in kinds:
            loop.add_signal_handler(kind, self.stop)
        try:
            yield
        finally:
            for kind in kinds:
                loop.remove_signal_handler(kind)

    async def _cancel(self, tasks: Sequence[asyncio.Task[Any]]) -> None:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _close(self) -> None:
        try:
            async with asyncio.timeout(_CLOSE_SECONDS):
                await self._outlet.close()
                await self._in_source(self._source.close)
        except (StreamError, TimeoutError) as error:
            log.warning("closing failed", error=str(error) or "it took too long")
        self._reading.shutdown(wait=False)
