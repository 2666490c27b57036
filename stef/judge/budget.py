"""A bound on what judgements may cost in a day, kept on disk, so that no restart and no second process lifts it."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime

import structlog

from stef.errors import JudgeError, JudgeFailure
from stef.judge.completion import Spent
from stef.judge.statefile import StateFile

_log = structlog.get_logger()
_FIRST_GUESS = 0.001  # US dollars, until the first judgement has shown what one costs
_SPEND = """INSERT INTO spending VALUES (:day, :usd, 1, :input, :output) ON CONFLICT (day) DO UPDATE SET
    usd = usd + :usd, judgements = judgements + 1,
    input_tokens = input_tokens + :input, output_tokens = output_tokens + :output"""


class BudgetSpentError(JudgeError):
    """The day's budget is spent."""

    def __init__(self, detail: str) -> None:
        super().__init__(JudgeFailure.BUDGET, detail)


def _now() -> datetime:
    return datetime.now(UTC)


class Budget:
    """What may be spent in a day, which begins at midnight UTC.

    What is in flight counts as much as a judgement has cost until now. It can be overstepped by what the judgements in
    flight of other processes cost more than that.

    Args:
        file: Shared with others.
        limit: US dollars a day; 0 for no bound: then it is only written down what was spent.
        now: For tests.
    """

    def __init__(self, file: StateFile, limit: float, *, now: Callable[[], datetime] = _now) -> None:
        self.file, self.limit = file, limit
        self._now = now
        self._in_flight = 0
        self._unwritten = 0.0
        self._warned = ""

    @asynccontextmanager
    async def judgement(self, spent: Spent) -> AsyncIterator[None]:
        """Make sure that a judgement can be paid, and write down afterwards what it cost, also when it failed.

        Raises:
            BudgetSpentError: The day's budget is spent, or it cannot be told what of it is.
        """
        await self._check()
        self._in_flight += 1
        try:
            yield
        finally:
            self._in_flight -= 1
            await self._spend(spent)

    async def _check(self) -> None:
        if not self.limit:
            return
        day = self._day()
        try:
            row = await self.file.run(
                lambda c: c.execute("SELECT usd, judgements FROM spending WHERE day = ?", (day,)).fetchone()
            )
        except sqlite3.Error as error:
            raise BudgetSpentError(f"what was spent today cannot be read: {error}") from None
        usd, judgements = row or (0.0, 0)
        each = usd / judgements if judgements and usd else _FIRST_GUESS
        usd += self._unwritten
        if usd + each * self._in_flight >= self.limit:
            if self._warned != day:
                _log.warning("judge_budget_spent", day=day, usd=round(usd, 6), limit=self.limit)
            self._warned = day
            raise BudgetSpentError(f"{usd:.2f} of {self.limit:g} US dollars are spent on {day}")

    async def _spend(self, spent: Spent) -> None:
        if not spent.attempts:
            return
        given = {
            "day": self._day(),
            "usd": spent.cost_usd or 0.0,
            "input": spent.input_tokens or 0,
            "output": spent.output_tokens or 0,
        }
        try:
            await self.file.run(lambda connection: connection.execute(_SPEND, given))
        except sqlite3.Error as error:
            self._unwritten += spent.cost_usd or 0.0
            _log.warning("judge_spending_not_written", detail=str(error), usd=given["usd"])

    def _day(self) -> str:
        return self._now().date().isoformat()
