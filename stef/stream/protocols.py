"""What the loop works with: sources, sinks, places for dead letters."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from stef.errors import RecordError
from stef.record import Message
from stef.result import Evaluation

# One message → the evaluations of the records that it holds; a RecordError among them says that another part of it is
# no record, and sends the message to the dead letters too. Raises RecordError for a message that is none at all;
# StoreError and StreamError stop the consumer; anything else is a bug and the message a dead letter.
Judged = tuple[Evaluation | RecordError, ...]
Evaluate = Callable[[Message], Awaitable[Judged]]


class Partition(NamedTuple):
    """A part of a source whose messages have an order."""

    topic: str
    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """Messages that were gone before they were read.

    Attributes:
        messages: How many; None when nobody can know.
        detail: One sentence for the log.
    """

    partition: Partition
    messages: int | None
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Poll:
    """What one poll gave.

    Attributes:
        messages: In the order of their offsets within each partition. They count from after `revoked`.
        revoked: Partitions that are no longer this consumer's; what is under way of them is dropped.
        gaps: Messages lost to retention, rotation or truncation.
        ended: There will be no more.
    """

    messages: tuple[Message, ...] = ()
    revoked: tuple[Partition, ...] = ()
    gaps: tuple[Gap, ...] = ()
    ended: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Extent:
    """How much of a bounded source has been read, in bytes or records; `total` None when nobody knows."""

    done: int
    total: int | None


class Source(Protocol):
    """Gives messages.

    Guarantee: at least once. A message stays the source's until its position is committed; whoever opens the source
    again gets every message after the committed position. Within a partition, messages come in order; after a
    step back (a partition that went and came back, a topic made anew) the earlier position no longer counts.

    The loop calls all methods but `ready` from one thread, never two at a time.
    """

    @property
    def ready(self) -> bool:
        """Whether it has something to read from (connected, partitions assigned); any thread may ask."""
        ...

    def namespace(self, topic: str) -> str:
        """The space that the event keys of a topic are unique in; the same in every run."""
        ...

    def poll(self, timeout: float, limit: int) -> Poll:
        """Wait up to `timeout` seconds for at most about `limit` messages; while paused there are none.

        Must be called often, also while paused: this is what keeps a consumer in its group.

        Raises:
            StreamError: It cannot go on. Messages that it gave before are still worth finishing.
        """
        ...

    def commit(self, offsets: Mapping[Partition, int]) -> bool:
        """Remember, for each partition, the offset of the last message that is finished with all before it.

        Returns:
            False when that is not possible now and must be tried again (a rebalance is going on).

        Raises:
            StreamError: It cannot go on.
        """
        ...

    def pause(self) -> None:
        """Give no messages until `resume`; calling it again is harmless."""
        ...

    def resume(self) -> None:
        """Give messages again; calling it again is harmless."""
        ...

    def lag(self) -> Mapping[Partition, int]:
        """Messages behind the end, by partition; empty where there is no such number."""
        ...

    def extent(self) -> Extent | None:
        """How much has been read, for sources with an end."""
        ...

    def close(self) -> None:
        """Let go, committing nothing."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """One evaluation on its way to the sinks.

    Attributes:
        evaluation: For a repeated one, what the store holds.
        message: Where it came from.
        namespace: With `event_key` and `scoring_config` it is the key of the evaluation.
        repeated: The store had it already.
    """

    evaluation: Evaluation
    message: Message
    namespace: str
    repeated: bool = False


class Sink(Protocol):
    """Takes evaluations.

    Guarantee: what was given to `write` is durable when it returns. The loop commits positions after that, so a sink
    sees an evaluation at least once, and the same one again after a crash.

    `name` is what errors and metrics call it.
    """

    name: str

    def write(self, batch: Sequence[Delivery]) -> None:
        """Write and flush.

        Raises:
            StreamError: It could not; the loop tries again a few times, then stops uncommitted.
        """
        ...

    def close(self) -> None:
        """Let go."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetter:
    """A message that was put aside: the original, and why."""

    message: Message
    error: RecordError


class DeadLetters(Protocol):
    """Takes messages that cannot be read.

    Guarantee: acknowledged when `write` returns, at least once, with the original bytes, key and headers.
    """

    name: str

    def write(self, batch: Sequence[DeadLetter]) -> None:
        """Write and wait for the acknowledgement.

        Raises:
            StreamError: It could not; the loop tries again a few times, then stops uncommitted.
        """
        ...

    def close(self) -> None:
        """Let go."""
        ...
