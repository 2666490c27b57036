"""Kafka as a place for results and for dead letters."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from stef.errors import StreamError
from stef.result import to_json
from stef.stream.kafka import KafkaSettings
from stef.stream.protocols import DeadLetter, Delivery

# Larger than any broker takes by default: the broker decides, not the client.
_MAX_REQUEST = 128 * 1024 * 1024
_FLUSH_SECONDS = 60.0
_TRACE_HEADERS = ("traceparent", "tracestate")


class KafkaSink:
    """Results in a topic, as JSON, keyed by `event_key`.

    Guarantee: acknowledged by all replicas in sync when `write` returns; at least once. The headers of the record's
    trace are passed on.

    Args:
        settings: The cluster.
        topic: To write to.
        specs: Write the three specs too.

    Raises:
        StreamError: No broker answers, or it refuses.
    """

    def __init__(self, settings: KafkaSettings, topic: str, *, specs: bool = False) -> None:
        self.name = f"kafka {topic}"
        self._topic, self._specs = topic, specs
        self._producer = _Producer(settings)

    def write(self, batch: Sequence[Delivery]) -> None:
        """Send a batch and wait until all of it is acknowledged."""
        self._producer.send_all([self._record(delivery) for delivery in batch])

    def close(self) -> None:
        """Close the producer."""
        self._producer.close()

    def _record(self, delivery: Delivery) -> dict[str, Any]:
        result = delivery.evaluation
        headers = [(name, value) for name, value in delivery.message.headers if name in _TRACE_HEADERS]
        headers += [
            ("content-type", b"application/json"),
            ("stef.namespace", delivery.namespace.encode()),
            ("stef.scoring_config", result.scoring_config.encode()),
            ("stef.outcome", result.outcome.value.encode()),
        ]
        value = to_json(result, specs=self._specs).encode()
        return {"topic": self._topic, "value": value, "key": result.event_key.encode(), "headers": headers}


class KafkaDeadLetters:
    """Dead letters in a topic: the original bytes, key and headers, and why, in further headers.

    Guarantee: acknowledged by all replicas in sync when `write` returns; at least once. `__connect.errors.*` headers
    are there for tools that read Kafka Connect's. A message that is too large with the headers goes without its bytes,
    marked by `stef.value_omitted`: topic, partition and offset still say where it is.

    Args:
        settings: The cluster.
        topic: To write to; `{topic}` stands for the message's own.
        consumer: Name of the consumer, for the headers.

    Raises:
        StreamError: No broker answers, or it refuses.
    """

    def __init__(self, settings: KafkaSettings, topic: str = "{topic}.dlq", *, consumer: str = "stef") -> None:
        self.name = f"dead letters {topic}"
        self._topic, self._consumer = topic, consumer
        self._producer = _Producer(settings)

    def write(self, batch: Sequence[DeadLetter]) -> None:
        """Send a batch and wait until all of it is acknowledged."""
        self._producer.send_all([self._record(letter) for letter in batch])

    def close(self) -> None:
        """Close the producer."""
        self._producer.close()

    def _record(self, letter: DeadLetter) -> dict[str, Any]:
        message, error = letter.message, letter.error
        added = {
            "__connect.errors.topic": message.topic,
            "__connect.errors.partition": str(message.partition),
            "__connect.errors.offset": str(message.offset),
            "__connect.errors.connector.name": self._consumer,
            "__connect.errors.task.id": "0",
            "__connect.errors.stage": "VALUE_CONVERTER",
            "__connect.errors.class.name": "stef",
            "__connect.errors.exception.class.name": f"{type(error).__module__}.{type(error).__name__}",
            "__connect.errors.exception.message": str(error),
            "stef.error.reason": error.reason,
            "stef.error.detail": error.detail,
            "stef.error.at": datetime.now(UTC).isoformat(),
        }
        return {
            "topic": self._topic.format(topic=message.topic),
            # The client refuses a message that has neither.
            "value": b"" if message.value is None and message.key is None else message.value,
            "key": message.key,
            "headers": [
                *message.headers,
                *((name, text.encode(errors="backslashreplace")) for name, text in added.items()),
            ],
        }


class _Producer:
    """Sends batches and waits for every acknowledgement.

    After an error the client is made anew: an idempotent one refuses all that follows.
    """

    def __init__(self, settings: KafkaSettings) -> None:
        self._settings = settings
        self._client: Any = None
        self._connected()

    def send_all(self, records: Sequence[dict[str, Any]]) -> None:
        """Send, and wait; a record that is too large goes without its value."""
        for record in self._refused(records):
            # One too large record takes the others of its time down with it.
            for _ in self._refused([record]):
                mark = ("stef.value_omitted", str(len(record["value"])).encode())
                if self._refused([{**record, "value": b"", "headers": [*record["headers"], mark]}]):
                    raise StreamError(f"kafka: {record['topic']} takes not even the headers of a record")

    def _refused(self, records: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """Send; the records that were refused for their size."""
        from kafka.errors import KafkaError, MessageSizeTooLargeError

        refused = []
        try:
            client = self._connected()
            sent = [(record, client.send(**record)) for record in records]
            deadline = time.monotonic() + _FLUSH_SECONDS
            for record, future in sent:
                try:
                    future.get(timeout=max(0.1, deadline - time.monotonic()))
                except MessageSizeTooLargeError:
                    refused.append(record)
        except KafkaError as error:
            self.close()
            raise StreamError(f"kafka: cannot write: {type(error).__name__}: {error}") from error
        if refused:
            self.close()
        return refused

    def _connected(self) -> Any:  # noqa: ANN401 - kafka-python is untyped
        from kafka import KafkaProducer
        from kafka.errors import KafkaError

        if self._client is None:
            options = self._settings.client(KafkaProducer.DEFAULT_CONFIG)
            try:
                self._client = KafkaProducer(
                    acks="all", linger_ms=20, batch_size=256 * 1024, max_request_size=_MAX_REQUEST, **options
                )
            except KafkaError as error:
                brokers = ",".join(self._settings.bootstrap)
                raise StreamError(f"kafka {brokers}: {type(error).__name__}: {error}") from error
        return self._client

    def close(self) -> None:
        """Close the client."""
        if self._client is not None:
            self._client.close(timeout=5)
            self._client = None
