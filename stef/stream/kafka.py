"""Kafka as a source, with kafka-python."""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import structlog

from stef.errors import StreamError
from stef.record import Message
from stef.stream.protocols import Extent, Gap, Partition, Poll

log = structlog.get_logger("stef.stream")

CALL_MS = 15_000  # how long one question to the brokers may take
CLOSE_MS = 5_000
_WAIT_MS = 1_000  # how long a poll may wait for the group
_METADATA_MS = 30_000  # how soon new topics and partitions are noticed


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaSettings:
    """Where a topic is read from, and as whom.

    Attributes:
        bootstrap: `host:port` of some brokers.
        topics: To read; or
        pattern: a regular expression of their names.
        group: The consumer group.
        start: Where to begin in a partition that the group has no position for: "earliest", "latest" or a moment.
        instance: Name of a static member: a quick restart causes no rebalance.
        session_seconds: Without a sign of life for so long, the group takes the partitions away.
        poll_seconds: Without a poll for so long, the consumer leaves the group. The loop polls all the time.
        options: Further settings of kafka-python's clients, such as `security_protocol` and `sasl_mechanism`.
    """

    bootstrap: tuple[str, ...]
    topics: tuple[str, ...] = ()
    pattern: str = ""
    group: str = "stef"
    start: str | datetime = "earliest"
    instance: str = ""
    session_seconds: float = 45.0
    poll_seconds: float = 300.0
    options: Mapping[str, Any] = field(default_factory=dict)

    def client(self, known: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """What a kafka-python client is made with.

        Args:
            known: Settings that this kind of client has; without it all are given, and an unknown one is refused.
        """
        given = {"bootstrap_servers": list(self.bootstrap), "metrics_enabled": False, **self.options}
        return {name: value for name, value in given.items() if known is None or name in known}


class KafkaSource:
    """Topics of a Kafka cluster, read as a member of a consumer group.

    Guarantee: at least once. Positions are committed by the loop alone, after its flush. Partitions move between
    members one by one (cooperative rebalancing) and are reported as revoked. Offsets that are gone (retention, a topic
    made anew) are reported as a gap, and reading goes on at the first message that is there; a position is never reset
    in silence. The first position of a new partition is committed at once, so that "latest" means the same after a
    restart. Until that is done it is kept, also when the group takes the partition away and gives it back.

    Args:
        settings: See `KafkaSettings`.
        namespace: In place of `kafka:<cluster id>/<topic>`.

    Raises:
        StreamError: No broker answers, or it refuses.
    """

    def __init__(self, settings: KafkaSettings, *, namespace: str = "") -> None:
        from kafka import KafkaConsumer
        from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor

        self._settings, self._namespace = settings, namespace
        self._moves: deque[tuple[bool, frozenset[Any]]] = deque()
        self._committed: dict[Partition, int] = {}
        self._begun: dict[Any, int] = {}  # first positions that are not committed yet, also of partitions that went
        self._assigned = False
        self._patience = _WAIT_MS
        with failing(f"kafka {','.join(settings.bootstrap)}"):
            if not namespace:
                self._cluster = cluster_id(settings)
            self._consumer = KafkaConsumer(
                group_id=settings.group,
                group_instance_id=settings.instance or None,
                enable_auto_commit=False,
                allow_auto_create_topics=False,
                # Neither earliest nor latest: a position that is gone must raise, see `_recover`.
                auto_offset_reset="none",
                partition_assignment_strategy=[CooperativeStickyAssignor],
                session_timeout_ms=int(settings.session_seconds * 1000),
                heartbeat_interval_ms=int(settings.session_seconds * 1000 / 10),
                max_poll_interval_ms=int(settings.poll_seconds * 1000),
                **{"metadata_max_age_ms": _METADATA_MS, **settings.client()},
            )
            # The group's first round must know the topics, else it hands out nothing until the next refresh.
            for topic in settings.topics:
                if not self._consumer.partitions_for_topic(topic):
                    log.warning("topic is not there yet, waiting for it", topic=topic)
            listener = _listener(self._moves)
            if settings.pattern:
                self._consumer.subscribe(pattern=settings.pattern, listener=listener)
                # Waits for all topics: what the client is asking just now may be a question about none.
                self._consumer.topics()
            else:
                self._consumer.subscribe(topics=list(settings.topics), listener=listener)

    @property
    def ready(self) -> bool:
        """Whether partitions are assigned."""
        return self._assigned

    def namespace(self, topic: str) -> str:
        """The cluster and the topic, unless given."""
        return self._namespace or f"kafka:{self._cluster}/{topic}"

    def poll(self, timeout: float, limit: int) -> Poll:
        """Read, and take part in the group's life."""
        with failing("kafka"):
            gaps: tuple[Gap, ...] = ()
            records: dict[Any, list[Any]] = {}
            try:
                records = self._consumer.poll(timeout_ms=int(timeout * 1000), max_records=limit)
                if patience := self._joining():
                    records = self._consumer.poll(timeout_ms=patience, max_records=limit)
            except Exception as error:  # noqa: BLE001 - `_recover` raises again what it does not know
                gaps = self._recover(error)
            revoked = self._moved(records)
            self._pin()
            self._assigned = bool(self._consumer.assignment())
        return Poll(
            messages=tuple(to_message(record) for batch in records.values() for record in batch),
            revoked=revoked,
            gaps=gaps,
        )

    def commit(self, offsets: Mapping[Partition, int]) -> bool:
        """Commit the positions after these offsets; put off while the group rebalances or the coordinator is away."""
        from kafka.structs import OffsetAndMetadata, TopicPartition

        positions = {TopicPartition(*key): OffsetAndMetadata(offset + 1, "", -1) for key, offset in offsets.items()}
        with failing("kafka"):
            try:
                self._consumer.commit(positions, timeout_ms=CALL_MS)
            except _put_off() as error:
                log.info("commit put off", error=str(error))
                return False
        for key, offset in offsets.items():
            self._committed[key] = offset + 1
            self._begun.pop(TopicPartition(*key), None)
        return True

    def pause(self) -> None:
        """Pause every assigned partition; new ones are paused by the next call."""
        self._consumer.pause(*self._consumer.assignment())

    def resume(self) -> None:
        """Resume what is paused."""
        self._consumer.resume(*self._consumer.paused())

    def lag(self) -> Mapping[Partition, int]:
        """Messages between the committed position and the end, for partitions that were read from."""
        found = {}
        for topic_partition in self._consumer.assignment():
            key = Partition(*topic_partition)
            end, done = self._consumer.highwater(topic_partition), self._committed.get(key)
            if end is not None and done is not None:
                found[key] = max(0, end - done)
        return found

    def extent(self) -> Extent | None:
        """None: a topic has no end."""
        return None

    def close(self) -> None:
        """Leave the group, committing nothing."""
        self._consumer.close(autocommit=False, timeout_ms=CLOSE_MS)

    def _joining(self) -> int:
        """Milliseconds to poll once more, when the poll ended in the middle of a rebalance; 0 when it did not.

        A poll that ends while the client joins anew because a topic changed leaves the join to itself: the client then
        finds the topics as they should be, never looks at the answer, and is out of the group for good. With a pattern
        the client asks for all topics of the cluster in every poll before it joins, so it gets longer each time.
        """
        from kafka.structs import MemberState

        state = self._consumer.group_metadata().state
        if state == MemberState.STABLE or (state == MemberState.UNJOINED and not self._settings.pattern):
            self._patience = _WAIT_MS
            return 0
        if state == MemberState.REBALANCING:
            self._consumer._coordinator.request_rejoin()  # noqa: SLF001 - there is no public way to say it
        patience = self._patience
        if self._settings.pattern:
            self._patience = min(2 * patience, CALL_MS)
        return patience

    def _moved(self, records: dict[Any, list[Any]]) -> tuple[Partition, ...]:
        """Take in what the rebalances of this poll took away and gave.

        Messages of a partition that is no longer ours are dropped. If it went and came back within the one poll,
        nobody can say to which time its messages belong, so they are read once more.
        """
        revoked: set[Any] = set()
        while self._moves:
            gone, partitions = self._moves.popleft()
            log.info("partitions revoked" if gone else "partitions assigned", partitions=sorted(map(tuple, partitions)))
            if gone:
                revoked |= partitions
        owned = self._consumer.assignment()
        for topic_partition in revoked | (records.keys() - owned):
            dropped = records.pop(topic_partition, [])
            if dropped and topic_partition in owned:
                self._consumer.seek(topic_partition, dropped[0].offset)
            self._committed.pop(Partition(*topic_partition), None)
        for topic_partition, batch in records.items():
            if batch:
                self._committed.setdefault(Partition(*topic_partition), batch[0].offset)
        return tuple(Partition(*topic_partition) for topic_partition in revoked)

    def _recover(self, error: Exception) -> tuple[Gap, ...]:
        """Find a place to go on from when a partition has no position, or one that is gone."""
        from kafka import errors

        if isinstance(error, errors.NoOffsetForPartitionError):
            self._begin(error.args[0])
            return ()
        if isinstance(error, errors.OffsetOutOfRangeError) and error.args and isinstance(error.args[0], dict):
            return tuple(self._skip(key, offset) for key, offset in error.args[0].items())
        if isinstance(error, errors.LogTruncationError):
            return tuple(self._back(key, place) for key, place in error.divergent_offsets.items())
        raise error

    def _begin(self, partitions: Iterable[Any]) -> None:
        """Go to where reading begins in partitions that the group has no position for.

        That is looked up once. A second look, after the group took a partition away and gave it back before its first
        position was committed, would find another end, and what came in between would never be read. The group is asked
        anew: an answer that comes after its poll is over is kept by the client, and may be older than the last commit.
        """
        owned = self._consumer.assignment()
        places = {key: self._consumer.committed(key, timeout_ms=CALL_MS) for key in partitions if key in owned}
        new = [key for key, place in places.items() if place is None and key not in self._begun]
        self._begun |= start_offsets(self._consumer, new, self._settings.start)
        for key, place in places.items():
            self._consumer.seek(key, self._begun[key] if place is None else place)

    def _pin(self) -> None:
        """Commit the first positions of our partitions; what the group does not take now, it gets at a later poll."""
        from kafka.structs import OffsetAndMetadata

        due = self._begun.keys() & self._consumer.assignment()
        with contextlib.suppress(*_put_off()):
            # Another member may have had a partition in the meantime, and have gone on from there.
            missing = [key for key in due if self._consumer.committed(key, timeout_ms=_WAIT_MS) is None]
            places = {key: OffsetAndMetadata(self._begun[key], "", -1) for key in missing}
            self._consumer.commit(places, timeout_ms=_WAIT_MS)
            for key in due:
                del self._begun[key]

    def _skip(self, key: Any, offset: int) -> Gap:  # noqa: ANN401 - kafka-python is untyped
        first = self._consumer.beginning_offsets([key], timeout_ms=CALL_MS)[key]
        self._consumer.seek(key, first)
        if first > offset:
            detail = f"offsets {offset} to {first - 1} are gone; reading on at {first}"
            return Gap(partition=Partition(*key), messages=first - offset, detail=detail)
        detail = f"offset {offset} lies beyond the end, as after a topic was made anew; reading from {first}"
        return Gap(partition=Partition(*key), messages=None, detail=detail)

    def _back(self, key: Any, place: Any) -> Gap:  # noqa: ANN401 - kafka-python is untyped
        offset = self._consumer.beginning_offsets([key], timeout_ms=CALL_MS)[key] if place is None else place.offset
        self._consumer.seek(key, offset)
        detail = f"the broker lost the end of its log; reading on at {offset}"
        return Gap(partition=Partition(*key), messages=None, detail=detail)


def _put_off() -> tuple[type[Exception], ...]:
    """Errors of a commit that can pass later: the group rebalances, or the coordinator is away."""
    from kafka import errors

    return (
        errors.CommitFailedError,
        errors.RebalanceInProgressError,
        errors.IllegalGenerationError,
        errors.UnknownMemberIdError,
        errors.RetriableError,
    )


def start_offsets(consumer: Any, partitions: Sequence[Any], start: str | datetime) -> dict[Any, int]:  # noqa: ANN401 - untyped
    """Where to begin in each partition: its first message, its end, or the first message at or after a moment."""
    if start == "earliest":
        return dict(consumer.beginning_offsets(partitions, timeout_ms=CALL_MS))
    ends = dict(consumer.end_offsets(partitions, timeout_ms=CALL_MS))
    if not isinstance(start, datetime):
        return ends
    stamp = int(start.timestamp() * 1000)
    found = consumer.offsets_for_times(dict.fromkeys(partitions, stamp), timeout_ms=CALL_MS)
    return {key: ends[key] if found.get(key) is None else found[key].offset for key in partitions}


def cluster_id(settings: KafkaSettings) -> str:
    """The cluster's own name, which stays when brokers change.

    Raises:
        StreamError: No broker answers, or it refuses.
    """
    from kafka import KafkaAdminClient

    with failing(f"kafka {','.join(settings.bootstrap)}"):
        admin = KafkaAdminClient(**settings.client(KafkaAdminClient.DEFAULT_CONFIG))
        try:
            return str(admin.describe_cluster()["cluster_id"])
        finally:
            admin.close()


def _listener(moves: deque[tuple[bool, frozenset[Any]]]) -> Any:  # noqa: ANN401 - a class of kafka-python
    from kafka import ConsumerRebalanceListener

    class Listener(ConsumerRebalanceListener):  # type: ignore[misc]
        """Runs in the client's own thread, which must not wait: it only notes what happened."""

        def on_partitions_revoked(self, revoked: Iterable[Any]) -> None:
            moves.append((True, frozenset(revoked)))

        def on_partitions_assigned(self, assigned: Iterable[Any]) -> None:
            moves.append((False, frozenset(assigned)))

        def on_partitions_lost(self, lost: Iterable[Any]) -> None:
            moves.append((True, frozenset(lost)))

    return Listener()


def to_message(record: Any) -> Message:  # noqa: ANN401 - kafka-python is untyped
    """A record of kafka-python as stef has it."""
    stamp = record.timestamp
    return Message(
        value=record.value,
        key=record.key,
        headers=tuple((name, value or b"") for name, value in record.headers or ()),
        topic=record.topic,
        partition=record.partition,
        offset=record.offset,
        timestamp=None if stamp is None or stamp < 0 else datetime.fromtimestamp(stamp / 1000, UTC),
    )


class failing:  # noqa: N801 - a context manager reads as a word
    """Turns errors of kafka-python into `StreamError`."""

    def __init__(self, what: str) -> None:
        self._what = what

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        from kafka.errors import KafkaError

        if isinstance(error, KafkaError):
            raise StreamError(f"{self._what}: {type(error).__name__}: {error}") from error
