"""How much goes to a model at once: calls in flight, and tokens a minute. Who comes first goes first, all get through.

Belongs to one event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass, field

from stef.judge.completion import Completion
from stef.judge.retry import Clock

_MINUTE = 60.0
# Seconds' worth of tokens that may go out at once after a pause; the rest is spread, so that no minute has much more.
_BURST = 6.0
_BYTES_PER_TOKEN = 3  # of English and SQL rather four
_EXPECTED_REPLY = 200  # tokens


@dataclass(slots=True, kw_only=True)
class Gate:
    """Lets calls through.

    Attributes:
        calls: In flight at most; 0 for no bound.
        tokens: A minute, of requests and replies together; 0 for no bound.
        clock: Time.
    """

    calls: int = 0
    tokens: int = 0
    clock: Clock = field(default_factory=Clock)
    _places: asyncio.Semaphore | None = None
    _due: float = 0.0

    @asynccontextmanager
    async def turn(self, size: int) -> AsyncIterator[Turn]:
        """Wait for a turn.

        Args:
            size: Bytes of the request; what it takes is estimated from it and put right by `Turn.took`.
        """
        if self.calls and self._places is None:
            self._places = asyncio.Semaphore(self.calls)
        async with self._places or nullcontext():
            expected = size // _BYTES_PER_TOKEN + _EXPECTED_REPLY
            await self._wait(expected)
            yield Turn(self, expected)

    async def _wait(self, tokens: int) -> None:
        """Take the next free stretch of time, as long as so many tokens need, and sleep until it begins."""
        if self.tokens:
            now = self.clock.now()
            begins = max(self._due, now - _BURST)
            self._due = begins + tokens * _MINUTE / self.tokens
            if begins > now:
                await self.clock.sleep(begins - now)

    def give_back(self, tokens: int) -> None:
        """Shift what comes next by tokens that were expected and not used; below 0, used beyond what was expected."""
        if self.tokens:
            self._due -= tokens * _MINUTE / self.tokens


@dataclass(frozen=True, slots=True)
class Turn:
    """One call's turn."""

    gate: Gate
    expected: int

    def took(self, done: Completion) -> None:
        """Say what the call took in the end."""
        if done.input_tokens is not None and done.output_tokens is not None:
            self.gate.give_back(self.expected - done.input_tokens - done.output_tokens)
