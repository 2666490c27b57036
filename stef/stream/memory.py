"""Test doubles that are part of the product: a list as source with end, crash and pause marks, and sinks in memory."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from stef.errors import StreamError
from stef.record import Message
from stef.stream.protocols import DeadLetter, Delivery, Extent, Partition, Poll

# The partition of items that are given as bytes.
LIST = Partition("list", 0)


@dataclass(frozen=True, slots=True)
class Crash:
    """A mark in a list source: here the source fails with a `StreamError`, the first time it comes by."""

    detail: str = "crash mark"


@dataclass(frozen=True, slots=True)
class Pause:
    """A mark in a list source: here nothing comes for some seconds."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Revoke:
    """A mark in a list source: here a partition is taken away, and comes back from its committed position."""

    partition: Partition = LIST


@dataclass(slots=True)
class ListSource:
    """Messages from a list; ends after the last one.

    Guarantee: at least once within the process. `committed` survives in the object, so a second loop over it goes on
    after the committed position, as a restarted consumer would.

    Args:
        items: Messages, bytes (the value of a message of topic "list", partition 0, offsets counted from 0), and marks.
    """

    items: Iterable[Message | bytes | Crash | Pause | Revoke]
    committed: dict[Partition, int] = field(default_factory=dict)
    paused: bool = False
    polls: int = 0
    _todo: list[Message | Crash | Pause | Revoke] = field(default_factory=list)
    _next: int = 0
    _done: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        count = 0
        for item in self.items:
            if isinstance(item, bytes):
                self._todo.append(Message(value=item, topic=LIST.topic, offset=count))
                count += 1
            else:
                self._todo.append(item)

    @property
    def ready(self) -> bool:
        """Always."""
        return True

    def namespace(self, topic: str) -> str:
        """`list:` and the topic."""
        return f"list:{topic}"

    def rewind(self) -> None:
        """Start again after the committed positions, as a restarted consumer does."""
        self._next = 0

    def poll(self, timeout: float, limit: int) -> Poll:
        """Give the next messages up to a mark."""
        self.polls += 1
        if self.paused:
            time.sleep(timeout)
            return Poll()
        found: list[Message] = []
        while self._next < len(self._todo) and len(found) < limit:
            item = self._todo[self._next]
            if isinstance(item, Message):
                self._next += 1
                if item.offset > self.committed.get(Partition(item.topic, item.partition), -1):
                    found.append(item)
            elif self._next in self._done:
                self._next += 1
            elif found:
                break
            else:
                self._done.add(self._next)
                return self._mark(item)
        return Poll(messages=tuple(found), ended=self._next >= len(self._todo))

    def _mark(self, mark: Crash | Pause | Revoke) -> Poll:
        if isinstance(mark, Crash):
            raise StreamError(mark.detail)
        if isinstance(mark, Pause):
            time.sleep(mark.seconds)
            return Poll()
        self.rewind()
        return Poll(revoked=(mark.partition,))

    def commit(self, offsets: Mapping[Partition, int]) -> bool:
        """Remember the positions."""
        self.committed.update(offsets)
        return True

    def pause(self) -> None:
        """Give nothing until resumed."""
        self.paused = True

    def resume(self) -> None:
        """Give messages again."""
        self.paused = False

    def lag(self) -> Mapping[Partition, int]:
        """No such number."""
        return {}

    def extent(self) -> Extent | None:
        """Messages given so far, of all."""
        return Extent(done=self._next, total=len(self._todo))

    def close(self) -> None:
        """Nothing to let go of."""


@dataclass(slots=True)
class MemorySink:
    """Keeps what it was given.

    Args:
        failures: So many writes fail first.
    """

    name: str = "memory"
    failures: int = 0
    deliveries: list[Delivery] = field(default_factory=list)
    closed: bool = False

    def write(self, batch: Sequence[Delivery]) -> None:
        """Keep a batch.

        Raises:
            StreamError: While failures are left.
        """
        if self.failures > 0:
            self.failures -= 1
            raise StreamError("memory: told to fail")
        self.deliveries.extend(batch)

    def close(self) -> None:
        """Note it."""
        self.closed = True


@dataclass(slots=True)
class MemoryDeadLetters:
    """Keeps dead letters.

    Args:
        failures: So many writes fail first.
    """

    name: str = "memory dead letters"
    failures: int = 0
    letters: list[DeadLetter] = field(default_factory=list)

    def write(self, batch: Sequence[DeadLetter]) -> None:
        """Keep a batch.

        Raises:
            StreamError: While failures are left.
        """
        if self.failures > 0:
            self.failures -= 1
            raise StreamError("memory dead letters: told to fail")
        self.letters.extend(batch)

    def close(self) -> None:
        """Nothing to let go of."""


@dataclass(slots=True)
class MemoryPositions:
    """Keeps how far file sources came, as the store does."""

    states: dict[str, dict[str, Any]] = field(default_factory=dict)

    def position(self, name: str) -> dict[str, Any] | None:
        """How far a source came."""
        return self.states.get(name)

    def save_position(self, name: str, state: dict[str, Any]) -> None:
        """Remember it."""
        self.states[name] = state
