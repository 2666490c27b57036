"""The bounds of the loop."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds of the loop.

    Attributes:
        concurrency: Messages evaluated at the same time.
        in_flight: Messages between the committed position and the newest one read.
        in_flight_bytes: Bytes of messages read and not yet flushed; one larger message is let in alone.
        poll: Messages asked for at once.
        poll_seconds: Longest wait of one poll.
        batch: Messages flushed at once.
        batch_seconds: Longest wait of a finished message for its flush.
        commit_seconds: Shortest time between two commits.
        drain_seconds: From the signal to the end.
        attempts: Of a write to a sink or a dead-letter place.
        backoff_seconds: Before the second attempt; doubles with each.
    """

    concurrency: int = 8
    in_flight: int = 2000
    in_flight_bytes: int = 64 * 1024 * 1024
    poll: int = 500
    poll_seconds: float = 0.2
    batch: int = 500
    batch_seconds: float = 0.5
    commit_seconds: float = 0.5
    drain_seconds: float = 25.0
    attempts: int = 5
    backoff_seconds: float = 0.5
