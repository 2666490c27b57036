"""Where messages go that are no records: a file of JSON lines; for Kafka see `kafka_out`."""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from stef.errors import StreamError
from stef.stream.protocols import DeadLetter


class FileDeadLetters:
    """Appends dead letters to a file, the bytes in base64.

    Guarantee: synced to the disk when `write` returns; a letter may stand there twice after a crash.

    Args:
        path: Made when the first letter comes.
    """

    def __init__(self, path: str) -> None:
        self.name = f"dead letters {path}"
        self._path = path

    def write(self, batch: Sequence[DeadLetter]) -> None:
        """Append a batch and sync."""
        text = "".join(json.dumps(_row(letter), ensure_ascii=False) + "\n" for letter in batch)
        try:
            with Path(self._path).open("ab") as file:
                file.write(text.encode(errors="backslashreplace"))
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise StreamError(f"{self._path}: cannot write dead letters: {error.strerror or error}") from error

    def close(self) -> None:
        """The file is closed after each batch."""


def _row(letter: DeadLetter) -> dict[str, Any]:
    message = letter.message
    return {
        "reason": letter.error.reason,
        "detail": letter.error.detail,
        "put_aside_at": datetime.now(UTC).isoformat(),
        "topic": message.topic,
        "partition": message.partition,
        "offset": message.offset,
        "timestamp": message.timestamp and message.timestamp.isoformat(),
        "key_base64": _base64(message.key),
        "headers_base64": [[name, _base64(value)] for name, value in message.headers],
        "value_base64": _base64(message.value),
    }


def _base64(value: bytes | None) -> str | None:
    return None if value is None else base64.b64encode(value).decode()
