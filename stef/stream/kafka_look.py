"""A look into Kafka topics that leaves no trace there."""

from __future__ import annotations

import time
from typing import Any

from stef.errors import StreamError
from stef.record import Message
from stef.stream.kafka import CALL_MS, CLOSE_MS, KafkaSettings, failing, to_message


def sample(settings: KafkaSettings, count: int, *, seconds: float = 10.0) -> list[Message]:
    """Read the last few messages of the topics, joining no group and committing nothing.

    Raises:
        StreamError: No broker answers, or a topic is not there.
    """
    from kafka import KafkaConsumer
    from kafka.structs import TopicPartition

    with failing(f"kafka {','.join(settings.bootstrap)}"):
        consumer = KafkaConsumer(group_id=None, enable_auto_commit=False, **settings.client())
        try:
            keys = [
                TopicPartition(topic, n) for topic in _topics(consumer, settings) for n in _partitions(consumer, topic)
            ]
            consumer.assign(keys)
            first = consumer.beginning_offsets(keys, timeout_ms=CALL_MS)
            ends = consumer.end_offsets(keys, timeout_ms=CALL_MS)
            for key in keys:
                consumer.seek(key, max(first[key], ends[key] - count))
            found: list[Message] = []
            wanted = sum(min(count, ends[key] - first[key]) for key in keys)
            deadline = time.monotonic() + seconds
            while len(found) < min(count, wanted) and time.monotonic() < deadline:
                for batch in consumer.poll(timeout_ms=200, max_records=count).values():
                    found.extend(to_message(record) for record in batch)
            return found[:count]
        finally:
            consumer.close(autocommit=False, timeout_ms=CLOSE_MS)


def _topics(consumer: Any, settings: KafkaSettings) -> list[str]:  # noqa: ANN401 - kafka-python is untyped
    import re

    if not settings.pattern:
        return list(settings.topics)
    return sorted(topic for topic in consumer.topics() if re.match(settings.pattern, topic))


def _partitions(consumer: Any, topic: str) -> list[int]:  # noqa: ANN401 - kafka-python is untyped
    found = consumer.partitions_for_topic(topic)
    if not found:
        raise StreamError(f"kafka: there is no topic {topic}")
    return sorted(found)
