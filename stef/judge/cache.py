"""Verdicts on disk, so that the same question about the same statement is paid for once.

Of several who ask for the same at once, in one process or in several, one makes the call and the others wait for it. A
process that dies while it asks holds up nobody for longer than its claim lasts.
"""

from __future__ import annotations

import asyncio
import secrets
import sqlite3
import time
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

import structlog

from stef.judge.statefile import StateFile

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

Make = Callable[[], Awaitable[str]]
_log = structlog.get_logger()
_CLAIM = 30.0  # seconds; renewed while the one who has it is at work
_POLL = (0.02, 0.5)  # seconds between two looks for another process's answer: at first, at most
_FRESH = 3600.0  # seconds after which a use is written down again
_EVICT_EVERY = 64
_HOUSEKEEPING = 1.05  # so far beyond its size it may grow before the oldest go


class VerdictCache:
    """Keeps the newest verdicts.

    Args:
        file: Shared with others.
        size: Verdicts kept; the longest unused go first.
        now: Unix time, for tests.
    """

    def __init__(self, file: StateFile, size: int, *, now: Callable[[], float] = time.time) -> None:
        self.file, self.size = file, size
        self._now = now
        self._owner = secrets.token_hex(8)
        self._asking: dict[str, asyncio.Future[str]] = {}
        self._kept = 0
        self._is_broken = False

    async def once(self, key: str, make: Make) -> tuple[str, bool]:
        """What is kept under a key, else what `make` gives, which is kept.

        Returns:
            The answer, and whether somebody else's call gave it.

        Raises:
            JudgeError: From `make`, here or in the task of this process that asked first.
        """
        while (running := self._asking.get(key)) is not None:
            with suppress(asyncio.CancelledError):
                return await asyncio.shield(running), True
            if not running.cancelled():
                raise asyncio.CancelledError  # it is this task that is not wanted any more
        mine = self._asking[key] = asyncio.get_running_loop().create_future()
        try:
            answer, is_kept = await self._across_processes(key, make)
        except BaseException as error:
            if isinstance(error, Exception):
                mine.set_exception(error)
                mine.exception()  # nobody may be waiting for it
            else:
                mine.cancel()
            raise
        else:
            mine.set_result(answer)
            return answer, is_kept
        finally:
            del self._asking[key]

    async def _across_processes(self, key: str, make: Make) -> tuple[str, bool]:
        pause = _POLL[0]
        while True:
            try:
                found, is_mine = await self.file.run(lambda connection: self._look(connection, key))
            except sqlite3.Error as error:
                self._broken(error)
                return await make(), False
            if found is not None:
                return found, True
            if is_mine:
                return await self._made(key, make), False
            await asyncio.sleep(pause)
            pause = min(2 * pause, _POLL[1])

    def _look(self, connection: sqlite3.Connection, key: str) -> tuple[str | None, bool]:
        """The answer, or whether it is now ours to make."""
        now = self._now()
        row = connection.execute("SELECT content, used_at FROM verdicts WHERE key = ?", (key,)).fetchone()
        if row is not None:
            if now - row[1] > _FRESH:
                connection.execute("UPDATE verdicts SET used_at = ? WHERE key = ?", (now, key))
            return row[0], False
        # A clock that was set back must not make a claim last for ever.
        claimed = connection.execute(
            "INSERT INTO claims VALUES (?, ?, ?) ON CONFLICT (key) DO UPDATE SET owner = excluded.owner,"
            " until = excluded.until WHERE until < ? OR until > ? OR owner = excluded.owner",
            (key, self._owner, now + _CLAIM, now, now + 2 * _CLAIM),
        )
        return None, claimed.rowcount > 0

    async def _made(self, key: str, make: Make) -> str:
        async with self._holding(key):
            answer = await make()
            await self._attempted(lambda connection: self._keep(connection, key, answer))
            return answer

    def _keep(self, connection: sqlite3.Connection, key: str, answer: str) -> None:
        connection.execute("INSERT OR REPLACE INTO verdicts VALUES (?, ?, ?)", (key, answer, self._now()))
        self._kept += 1
        if self._kept % _EVICT_EVERY == 1:
            (held,) = connection.execute("SELECT COUNT(*) FROM verdicts").fetchone()
            if held > self.size * _HOUSEKEEPING or self.size < _EVICT_EVERY:
                connection.execute(
                    "DELETE FROM verdicts WHERE key IN (SELECT key FROM verdicts ORDER BY used_at LIMIT ?)",
                    (max(0, held - self.size),),
                )

    @asynccontextmanager
    async def _holding(self, key: str) -> AsyncIterator[None]:
        """Keep a claim alive, and give it back at the end whatever happens."""
        renewing = asyncio.create_task(self._renewing(key))
        try:
            yield
        finally:
            renewing.cancel()
            await self._attempted(
                lambda c: c.execute("DELETE FROM claims WHERE key = ? AND owner = ?", (key, self._owner))
            )

    async def _renewing(self, key: str) -> None:
        while True:
            await asyncio.sleep(_CLAIM / 3)
            until = self._now() + _CLAIM
            await self._attempted(
                lambda c, until=until: c.execute(  # type: ignore[misc]
                    "UPDATE claims SET until = ? WHERE key = ? AND owner = ?", (until, key, self._owner)
                )
            )

    async def _attempted(self, work: Callable[[sqlite3.Connection], object]) -> None:
        """Write; a file that cannot be written costs money and no record."""
        try:
            await self.file.run(work)
        except sqlite3.Error as error:
            self._broken(error)

    def _broken(self, error: sqlite3.Error) -> None:
        if not self._is_broken:
            _log.warning("judge_file_unusable", path=self.file.path, detail=str(error))
        self._is_broken = True
