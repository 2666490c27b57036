"""Sinks beside the store: a file of JSON lines, and the metrics; for Kafka see `kafka_out`."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from stef.errors import StreamError
from stef.metrics import Metrics
from stef.result import to_json
from stef.stream.protocols import Delivery

STDOUT = "-"


class JsonlSink:
    """Appends results as JSON lines.

    Guarantee: at least once. A batch is synced to the disk when `write` returns; `event_key` and `scoring_config` tell
    a second copy. Half a line that a crash left at the end of the file is cut off at the next start: its record comes
    again.

    Args:
        path: `-` is standard output.
        specs: Write the three specs too.

    Raises:
        StreamError: The file cannot be opened.
    """

    def __init__(self, path: str, *, specs: bool = False) -> None:
        self.name = f"jsonl {path}"
        self._specs = specs
        self._file: IO[bytes] = sys.stdout.buffer if path == STDOUT else _append(path)

    def write(self, batch: Sequence[Delivery]) -> None:
        """Append a batch, flush and sync."""
        text = "".join(to_json(delivery.evaluation, specs=self._specs) + "\n" for delivery in batch)
        try:
            self._file.write(text.encode())
            self._file.flush()
            if self._file is not sys.stdout.buffer:
                os.fsync(self._file.fileno())
        except OSError as error:
            raise StreamError(f"{self.name}: cannot write: {error.strerror or error}") from error

    def close(self) -> None:
        """Close the file; standard output stays open."""
        if self._file is not sys.stdout.buffer:
            self._file.close()


class PrometheusSink:
    """Counts results in the metrics that the exporter shows.

    Guarantee: none beyond the process: counters begin at 0 with each start. A result that the store had already counts
    as a duplicate.
    """

    name = "prometheus"

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def write(self, batch: Sequence[Delivery]) -> None:
        """Count a batch."""
        for delivery in batch:
            self._metrics.observe(delivery.evaluation, repeated=delivery.repeated)

    def close(self) -> None:
        """The exporter is its owner's."""


def _append(path: str) -> IO[bytes]:
    try:
        file = Path(path).open("a+b")  # noqa: SIM115 - the sink closes it
        _mend(file)
    except OSError as error:
        raise StreamError(f"{path}: cannot write results: {error.strerror or error}") from error
    return file


def _mend(file: IO[bytes]) -> None:
    """End the last line, or cut it off when it is no whole result."""
    size = file.seek(0, os.SEEK_END)
    start, tail = size, b""
    while start > 0 and b"\n" not in tail:
        step = min(65536, start)
        start -= step
        file.seek(start)
        tail = file.read(step) + tail
    last = tail.rpartition(b"\n")[2]
    file.seek(0, os.SEEK_END)
    if not last:
        return
    try:
        json.loads(last)
    except ValueError:
        file.truncate(size - len(last))
    else:
        file.write(b"\n")
