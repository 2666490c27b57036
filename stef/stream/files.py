"""Files of JSON lines as a source: read once, or followed while they grow."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import structlog

from stef.errors import InputError, StreamError
from stef.record import Message
from stef.stream.lines import STDIN, AtEnd, Line, Lines, fingerprint
from stef.stream.protocols import Extent, Gap, Partition, Poll

log = structlog.get_logger("stef.stream")

LONGEST_LINE = 64 * 1024 * 1024
_BYTES_PER_POLL = 8 * 1024 * 1024
_STEP_SECONDS = 0.05
_HEAD = 1024


class Positions(Protocol):
    """Remembers how far file sources came: the store, or a dictionary in memory."""

    def position(self, name: str) -> dict[str, Any] | None:
        """What was remembered; None for nothing."""
        ...

    def save_position(self, name: str, state: dict[str, Any]) -> None:
        """Remember."""
        ...


class FileSource:
    """One file of JSON lines: plain, gzip, or `-` for standard input; each line a message, empty lines none.

    Guarantee: at least once. Offsets are the byte positions at which lines start. With `positions` a later run goes on
    after the last committed line; without, it begins again, and the store recognises what it has.

    Following: a last line without its end waits until it is finished. When the file is renamed and a new one takes its
    place, the old one is read to its end first, also after a restart as long as it lies beside the new one under a name
    that begins the same. A file that was truncated is read from its start and counted as a gap. Each new file is the
    next partition.

    Args:
        path: The file.
        follow: Wait for more at the end, and for the file itself when it is not there yet.
        positions: Where to remember how far it came.
        namespace: In place of `file:` and the absolute path.
        longest: Bytes of a line that are kept; a longer one gives a message with its beginning and a header
            `stef.truncated`.

    Raises:
        InputError: It cannot be opened, or not be followed.
    """

    def __init__(
        self,
        path: str,
        *,
        follow: bool = False,
        positions: Positions | None = None,
        namespace: str = "",
        longest: int = LONGEST_LINE,
    ) -> None:
        self._path, self._follow, self._longest = path, follow, longest
        self._topic = "stdin" if path == STDIN else Path(path).name
        self._namespace = namespace or ("stdin" if path == STDIN else f"file:{Path(path).resolve()}")
        self._positions = None if path == STDIN else positions
        self._generation = 0
        self._paused = False
        self._ended = False
        self._gaps: list[Gap] = []
        # For each generation: the file's beginning, the last line given, the last line committed.
        self._heads: dict[int, tuple[int, str]] = {}
        self._given: dict[int, int] = {}
        self._committed: dict[int, int] = {}
        self._lines: Lines | None = None
        if not follow or path == STDIN or Path(path).exists():
            self._lines = self._first()

    @property
    def ready(self) -> bool:
        """Whether the file is open."""
        return self._lines is not None

    def namespace(self, topic: str) -> str:  # noqa: ARG002 - one file, one namespace
        """The file's."""
        return self._namespace

    def poll(self, timeout: float, limit: int) -> Poll:
        """Read lines; waits only when there is nothing to read."""
        deadline = time.monotonic() + timeout
        messages: list[Message] = []
        size = 0
        while not self._paused and len(messages) < limit and size < _BYTES_PER_POLL:
            try:
                message = self._next(0.0 if messages else max(0.0, deadline - time.monotonic()))
            except StreamError:
                if not messages:
                    raise
                break  # What was read before comes first; the next poll meets the error again.
            if message is None:
                if messages or self._ended or time.monotonic() >= deadline:
                    break
                time.sleep(min(_STEP_SECONDS, max(0.0, deadline - time.monotonic())))
                continue
            messages.append(message)
            size += len(message.value or b"")
        if self._paused:
            time.sleep(timeout)
        gaps, self._gaps = tuple(self._gaps), []
        return Poll(messages=tuple(messages), gaps=gaps, ended=self._ended and not self._paused)

    def commit(self, offsets: Mapping[Partition, int]) -> bool:
        """Remember the oldest generation that is not finished, so that a restart takes up the old file first."""
        for partition, offset in offsets.items():
            self._committed[partition.number] = offset
        for generation in sorted(self._given)[:-1]:
            if self._committed.get(generation) != self._given[generation]:
                break
            del self._given[generation]
        if self._positions is not None and self._given:
            oldest = min(self._given)
            head, digest = self._heads[oldest]
            offset = self._committed.get(oldest, -1)
            state = {"generation": oldest, "offset": offset, "head": head, "digest": digest}
            self._positions.save_position(self._namespace, state)
        return True

    def pause(self) -> None:
        """Give no lines."""
        self._paused = True

    def resume(self) -> None:
        """Give lines again."""
        self._paused = False

    def lag(self) -> Mapping[Partition, int]:
        """None: a file counts bytes, see `extent`."""
        return {}

    def extent(self) -> Extent | None:
        """Bytes read of the bytes that the file has now, compressed ones where it is compressed."""
        try:
            stat = None if self._lines is None else self._lines.stat()
            return None if self._lines is None or stat is None else Extent(done=self._lines.done(), total=stat.st_size)
        except (OSError, ValueError):
            return None

    def close(self) -> None:
        """Close the file."""
        if self._lines is not None:
            self._lines.close()

    # Opening.

    def _first(self) -> Lines:
        state = None if self._positions is None else self._positions.position(self._namespace)
        lines = Lines(self._path, self._longest)
        if self._follow and self._path != STDIN and lines.packed:
            lines.close()
            raise InputError(self._path, "", "a gzip file to follow", "a plain file; gzip files are read once")
        return lines if state is None else self._taken_up(lines, state)

    def _taken_up(self, lines: Lines, state: dict[str, Any]) -> Lines:
        """Go on where a run before came to: in this file, or first in the one that was renamed since."""
        self._generation = state["generation"]
        for path in (self._path, *self._siblings()):
            candidate = lines if path == self._path else Lines(path, self._longest)
            if fingerprint(candidate.head(state["head"])) == state["digest"] and _holds(candidate, state["offset"]):
                if candidate is not lines:
                    lines.close()
                if state["offset"] >= 0:
                    candidate.seek(state["offset"])
                    candidate.next(0.0)
                self._given[self._generation] = self._committed[self._generation] = state["offset"]
                self._heads[self._generation] = (state["head"], state["digest"])
                return candidate
            if candidate is not lines:
                candidate.close()
        self._lost("the file that was read before is gone; reading the one that is there from its start")
        self._generation += 1
        return lines

    def _siblings(self) -> list[str]:
        own = Path(self._path)
        found = (item for item in own.parent.glob(f"{_plain(own.name)}*") if item.is_file() and item != own)
        return [str(item) for item in sorted(found)] if self._follow else []

    def _lost(self, detail: str) -> None:
        log.warning("file changed", path=self._path, detail=detail)
        self._gaps.append(Gap(partition=Partition(self._topic, self._generation), messages=None, detail=detail))

    # Reading.

    def _next(self, wait: float) -> Message | None:
        while not self._ended:
            lines = self._lines or self._appeared()
            line = None if lines is None else self._line(lines, wait)
            if line is None:
                return None
            if line.text.strip():
                return self._message(line)
        return None

    def _line(self, lines: Lines, wait: float) -> Line | None:
        try:
            line = lines.next(wait)
        except AtEnd:
            self._ended = True
            return lines.rest()
        if line is not None or self._path == STDIN:
            return line
        if not self._follow:
            self._ended = True
            return lines.rest()
        return self._at_end(lines)

    def _at_end(self, lines: Lines) -> Line | None:
        """At the end of a followed file: has another taken its place, or was it cut?"""
        here = lines.stat()
        try:
            there = Path(self._path).stat()
        except OSError:
            return None  # Renamed, and the new one is not there yet.
        if here is not None and (here.st_dev, here.st_ino) != (there.st_dev, there.st_ino):
            if there.st_size == 0:
                return None  # The writer may not have changed over yet.
            # What was written between our last read and the rename comes first.
            line = lines.next(0.0) or lines.rest()
            if line is None:
                lines.close()
                self._lines = Lines(self._path, self._longest)
                self._generation += 1
                return self._lines.next(0.0)
            return line
        if there.st_size < lines.done():
            self._lost("the file was truncated; what was not read before is lost")
            lines.seek(0)
            self._generation += 1
            return lines.next(0.0)
        return None

    def _appeared(self) -> Lines | None:
        if Path(self._path).exists():
            self._lines = self._first()
        return self._lines

    def _message(self, line: Line) -> Message:
        if self._lines is not None and self._generation not in self._heads:
            head = self._lines.head()[: max(1, min(_HEAD, line.offset + len(line.text)))]
            self._heads[self._generation] = (len(head), fingerprint(head))
        self._given[self._generation] = line.offset
        headers = () if line.whole else (("stef.truncated", b"true"),)
        return Message(
            value=line.text,
            headers=headers,
            topic=self._topic,
            partition=self._generation,
            offset=line.offset,
        )


def _holds(lines: Lines, offset: int) -> bool:
    stat = lines.stat()
    return stat is not None and (stat.st_size > offset or lines.packed)


def _plain(name: str) -> str:
    """A name with what a glob pattern would read as a wildcard taken literally."""
    return "".join(f"[{letter}]" if letter in "*?[" else letter for letter in name)
