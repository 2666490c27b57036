"""The way out of the loop: store first, then the dead letters, then the other sinks, each durable before the next."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

import structlog

from stef.errors import RecordError, StreamError
from stef.metrics import Metrics
from stef.record import Message
from stef.result import Evaluation, to_json
from stef.store import Entry, Fate, Store
from stef.stream.limits import Limits
from stef.stream.offsets import Tracker
from stef.stream.protocols import DeadLetter, DeadLetters, Delivery, Judged, Sink
from stef.stream.report import Counts

log = structlog.get_logger("stef.stream")


@dataclass(eq=False, slots=True)
class Item:
    """One message on its way through the loop: read, then judged, then flushed.

    Attributes:
        size: Bytes that it is counted with.
        evaluations: Once judged.
        error: Once judged, when it is a dead letter or a part of it is.
    """

    message: Message
    namespace: str
    tracker: Tracker
    size: int
    evaluations: tuple[Evaluation, ...] = ()
    error: RecordError | None = None

    def take(self, judged: Judged) -> None:
        """Keep what `evaluate` gave; of several errors the first stands for all."""
        self.evaluations = tuple(part for part in judged if isinstance(part, Evaluation))
        self.error = next((part for part in judged if isinstance(part, RecordError)), None)


class Outlet:
    """Writes batches of judged messages, in a thread of its own.

    Guarantee: all of a batch is durable when `write` returns. After an error nobody knows what of it is, so the batch
    must come again; the store makes that harmless.
    """

    def __init__(
        self,
        *,
        store: Store | None,
        dead_letters: DeadLetters,
        sinks: Sequence[Sink],
        limits: Limits,
        metrics: Metrics,
        counts: Counts,
    ) -> None:
        self._store, self._dead_letters, self._sinks = store, dead_letters, tuple(sinks)
        self._limits, self._metrics, self._counts = limits, metrics, counts
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="stef-sinks")

    async def write(self, items: Sequence[Item]) -> None:
        """Write a batch.

        Raises:
            StoreError: The store could not take it.
            StreamError: A sink or the dead letters could not, after all attempts.
        """
        try:
            deliveries = await self._store_all(items)
        except ValueError:
            # A text that is no Unicode, or the like: it must not stop the records around it.
            _condemn(items)
            deliveries = await self._store_all(items)
        letters = [DeadLetter(message=item.message, error=item.error) for item in items if item.error is not None]
        if letters:
            await self._insist(self._dead_letters.name, self._dead_letters.write, letters)
        for sink in self._sinks if deliveries else ():
            await self._insist(sink.name, sink.write, deliveries)
        self._count(deliveries, letters)

    async def close(self) -> None:
        """Close the sinks and the dead letters; the store is its owner's."""
        ends: list[Sink | DeadLetters] = [*self._sinks, self._dead_letters]
        for end in ends:
            try:
                await self._run(end.close)
            except StreamError as error:
                log.warning("closing failed", sink=end.name, error=str(error))
        self._thread.shutdown(wait=False)

    async def _run(self, function: Callable[..., Any], *given: object) -> Any:  # noqa: ANN401 - whatever it returns
        return await asyncio.get_running_loop().run_in_executor(self._thread, function, *given)

    async def _store_all(self, items: Sequence[Item]) -> list[Delivery]:
        sources = [(item, evaluation) for item in items for evaluation in item.evaluations]
        if self._store is None or not items:
            return [Delivery(evaluation=it, message=item.message, namespace=item.namespace) for item, it in sources]
        entries = [
            Entry(namespace=item.namespace, message=item.message, evaluations=item.evaluations, error=item.error)
            for item in items
        ]
        written = await self._run(partial(self._store.write, entries, echo=bool(self._sinks)))
        for kept in written.kept:
            self._counts.kept(kept)
            self._metrics.stored(kept.fate, conflict=kept.conflict)
        return [
            Delivery(
                evaluation=kept.evaluation,
                message=item.message,
                namespace=item.namespace,
                repeated=kept.fate is Fate.DUPLICATE,
            )
            for (item, _), kept in zip(sources, written.kept, strict=True)
        ]

    async def _insist(self, name: str, write: Callable[[Any], None], batch: Sequence[object]) -> None:
        for attempt in range(1, self._limits.attempts + 1):
            try:
                await self._run(write, batch)
            except StreamError as error:
                self._metrics.sink_error(name)
                if attempt == self._limits.attempts:
                    raise
                log.warning("write failed, trying again", sink=name, attempt=attempt, error=str(error))
                await asyncio.sleep(self._limits.backoff_seconds * 2 ** (attempt - 1))
            else:
                return

    def _count(self, deliveries: Sequence[Delivery], letters: Sequence[DeadLetter]) -> None:
        for delivery in deliveries:
            self._counts.evaluated(delivery.evaluation, repeated=delivery.repeated)
        for letter in letters:
            self._counts.dead_letter(letter.error.reason)
            self._metrics.dead_letter(letter.error.reason)
        self._metrics.flushed()


def _condemn(items: Sequence[Item]) -> None:
    """Turn into dead letters whatever cannot be written as JSON."""
    for item in items:
        try:
            for evaluation in item.evaluations:
                to_json(evaluation, specs=True).encode()
        except ValueError as error:
            log.warning("a result cannot be written, the message goes to the dead letters", at=item.message.position)
            item.evaluations, item.error = (), RecordError("internal", type(error).__name__)
