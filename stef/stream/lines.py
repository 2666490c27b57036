"""Reads a file as numbered lines: plain, gzip or standard input, with the byte at which each line starts."""

from __future__ import annotations

import gzip
import hashlib
import os
import select
import sys
import time
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from stef.errors import InputError, StreamError

STDIN = "-"
_CHUNK = 256 * 1024
_HEAD = 1024
_GZIP = b"\x1f\x8b"


@dataclass(frozen=True, slots=True)
class Line:
    """One line without its end.

    Attributes:
        offset: Byte at which it starts, in the uncompressed text.
        whole: False when it was longer than allowed; `text` then holds its beginning.
    """

    offset: int
    text: bytes
    whole: bool = True


class Lines:
    """One open file, or standard input.

    Attributes:
        packed: It is gzip.
        offset: Byte at which the next line starts.

    Args:
        path: `-` is standard input; a file that begins as gzip does is unpacked.
        longest: Bytes of a line that are kept.

    Raises:
        InputError: It cannot be opened.
    """

    def __init__(self, path: str, longest: int) -> None:
        self.path, self._longest = path, longest
        self._raw: IO[bytes] = sys.stdin.buffer if path == STDIN else _open(path)
        self.packed = path != STDIN and self.head()[:2] == _GZIP
        self._gzip = gzip.GzipFile(fileobj=self._raw, mode="rb") if self.packed else None
        self._buffer = bytearray()
        self._scanned = 0
        self._skipping = False
        self.offset = 0

    def head(self, length: int = _HEAD) -> bytes:
        """The first bytes of the file, as they stand on the disk now; b"" for standard input."""
        return b"" if self.path == STDIN else os.pread(self._raw.fileno(), length, 0)

    def seek(self, offset: int) -> None:
        """Go to the start of a line."""
        (self._gzip or self._raw).seek(offset)
        self._buffer.clear()
        self._scanned, self._skipping, self.offset = 0, False, offset

    def stat(self) -> os.stat_result | None:
        """Of the open file, whatever its name is now; None for standard input."""
        return None if self.path == STDIN else os.fstat(self._raw.fileno())

    def done(self) -> int:
        """Bytes of the file on disk that have been read."""
        return 0 if self.path == STDIN else self._raw.tell()

    def next(self, wait: float) -> Line | None:
        """The next line that is complete; None when there is none (yet).

        Args:
            wait: Seconds to wait for standard input; other files are never waited for.

        Raises:
            StreamError: The file cannot be read, or its compression is damaged.
        """
        deadline = time.monotonic() + wait
        while True:
            end = self._buffer.find(b"\n", self._scanned)
            if end >= 0:
                line = self._cut(end, end + 1)
                if line is not None:
                    return line
                continue
            self._scanned = len(self._buffer)
            if self._scanned > self._longest:
                line = self._overlong()
                if line is not None:
                    return line
            chunk = self._read(deadline)
            if not chunk:
                return None
            self._buffer += chunk

    def rest(self) -> Line | None:
        """What stands after the last line end, for a file that nobody writes to any more."""
        if not self._buffer and not self._skipping:
            return None
        return self._cut(len(self._buffer), len(self._buffer))

    def close(self) -> None:
        """Close the file; standard input stays open."""
        if self._gzip is not None:
            self._gzip.close()
        if self.path != STDIN:
            self._raw.close()

    def _cut(self, end: int, after: int) -> Line | None:
        """Take a line out of the buffer; None when it is the end of one that was too long."""
        text, skipped = bytes(self._buffer[:end]), self._skipping
        line = Line(self.offset, text.removesuffix(b"\r"))
        del self._buffer[:after]
        self.offset += after
        self._scanned, self._skipping = 0, False
        return None if skipped else line

    def _overlong(self) -> Line | None:
        """Give the beginning of a line that is too long, once, and forget the rest as it comes."""
        text, first, start = bytes(self._buffer[: self._longest]), not self._skipping, self.offset
        self.offset += len(self._buffer)
        self._buffer.clear()
        self._scanned, self._skipping = 0, True
        return Line(start, text, whole=False) if first else None

    def _read(self, deadline: float) -> bytes:
        try:
            if self.path == STDIN:
                return _read_stdin(self._raw, deadline)
            # One step of unpacking at a time, so that what comes before a damaged place is not lost with it.
            return self._raw.read(_CHUNK) if self._gzip is None else self._gzip.read1(_CHUNK)
        except (OSError, EOFError, zlib.error) as error:
            raise StreamError(f"{self.path}: cannot be read beyond byte {self.offset}: {error}") from error


class AtEnd(Exception):  # noqa: N818 - no error: how standard input says that it ended
    """Standard input was closed by its writer."""


def _read_stdin(file: IO[bytes], deadline: float) -> bytes:
    """Wait for input in steps, so that the thread is never stuck in a read that nothing can end."""
    descriptor = file.fileno()
    wait = max(0.0, deadline - time.monotonic())
    if not select.select([descriptor], [], [], wait)[0]:
        return b""
    chunk = os.read(descriptor, _CHUNK)
    if not chunk:
        raise AtEnd
    return chunk


def fingerprint(head: bytes) -> str:
    """Names a file by its beginning, whatever its name or inode is."""
    return hashlib.sha256(head).hexdigest()[:32]


def _open(path: str) -> IO[bytes]:
    try:
        if Path(path).is_dir():
            raise InputError(path, "", "a folder", "a file of JSON lines, plain or gzip, or - for standard input")
        return Path(path).open("rb", buffering=0)
    except OSError as error:
        raise InputError(path, "", error.strerror or str(error), "") from error
