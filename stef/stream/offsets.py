"""Keeps, for one partition, the contiguous prefix of finished messages: the only thing that may be committed."""

from __future__ import annotations

from collections import deque


class Tracker:
    """Offsets of one partition that are open, finished or committed.

    Messages are evaluated side by side and finish in any order; the position moves past a message only when all
    before it are finished too. Offsets may have holes (compacted topics, byte positions).

    Attributes:
        alive: The partition is still ours; results of a dead one are dropped.
    """

    __slots__ = ("_committed", "_finished", "_last", "_open", "alive")

    def __init__(self) -> None:
        self.alive = True
        self._open: deque[int] = deque()
        self._finished: set[int] = set()
        self._last: int | None = None
        self._committed: int | None = None

    def __len__(self) -> int:
        """Messages between the committed position and the newest one, the finished ones among them included."""
        return len(self._open)

    def follows(self, offset: int) -> bool:
        """Whether an offset comes after all that were added."""
        newest = self._open[-1] if self._open else self._last
        return newest is None or offset > newest

    def add(self, offset: int) -> None:
        """Take a message in.

        Raises:
            ValueError: It does not follow the ones before.
        """
        if not self.follows(offset):
            raise ValueError(f"offset {offset} does not follow")
        self._open.append(offset)

    def finish(self, offset: int) -> None:
        """Mark a message as finished."""
        self._finished.add(offset)
        while self._open and self._open[0] in self._finished:
            self._last = self._open.popleft()
            self._finished.remove(self._last)

    def ready(self) -> int | None:
        """The offset to commit: of the last message of the finished prefix; None when nothing is new."""
        return None if self._last == self._committed else self._last

    def committed(self, offset: int) -> None:
        """Note that the position was committed."""
        self._committed = offset
