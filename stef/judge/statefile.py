"""What a judge remembers on disk: verdicts, who is asking for which, and what each day's calls have cost.

One SQLite file, shared by all processes that name it. It holds answers of a model and no texts of records.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from stef.errors import SettingError

T = TypeVar("T")
_WAIT = 10.0  # seconds for a lock that another process holds
_TABLES = """
CREATE TABLE IF NOT EXISTS verdicts (key TEXT PRIMARY KEY, content TEXT NOT NULL, used_at REAL NOT NULL) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS verdicts_used ON verdicts (used_at);
CREATE TABLE IF NOT EXISTS claims (key TEXT PRIMARY KEY, owner TEXT NOT NULL, until REAL NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS spending (
    day TEXT PRIMARY KEY, usd REAL NOT NULL, judgements INTEGER NOT NULL,
    input_tokens INTEGER NOT NULL, output_tokens INTEGER NOT NULL
) WITHOUT ROWID;
"""


class StateFile:
    """Runs work on the file in a thread of its own, one after the other.

    Args:
        path: Made when it is not there.

    Raises:
        SettingError: It is no such file, or its folder cannot be written.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        try:
            self._connection = sqlite3.connect(path, timeout=_WAIT, isolation_level=None, check_same_thread=False)
            try:
                self._connection.execute("PRAGMA journal_mode = WAL")
                self._connection.execute("PRAGMA synchronous = NORMAL")
                self._connection.executescript(_TABLES)
            except sqlite3.Error:
                self._connection.close()
                raise
        except sqlite3.Error as error:
            allowed = f"a file that can be made in {Path(path).absolute().parent}, or one that stef made"
            raise SettingError(f"judge_file: found {path}, {error}; allowed: {allowed}") from None
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="stef-judge-file")

    async def run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Do something in one transaction.

        Raises:
            sqlite3.Error: The file cannot be read or written.
        """
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._transaction, work)

    def _transaction(self, work: Callable[[sqlite3.Connection], T]) -> T:
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            done = work(self._connection)
        except BaseException:
            self._connection.execute("ROLLBACK")
            raise
        self._connection.execute("COMMIT")
        return done

    def close(self) -> None:
        """Finish what is begun, and close the file."""
        self._thread.shutdown()
        self._connection.close()
