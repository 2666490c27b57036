"""Retries, backoff and the circuit breaker: what happens when a model is down or busy.

One call: a fault that may pass (no connection, timeout, 429, 5xx) is retried, with exponential backoff and full
jitter, or after the time that the server names. All calls of one judge share a breaker:

* closed: calls pass. After `threshold` faults in a row, with no success between, it opens.
* open: calls wait, and one at a time goes ahead as a probe. A success closes it.
* `max_outage` seconds after the first fault of the row, waiting ends: calls raise `ModelDownError` at once, but for one
  probe per interval. A success closes it.

A call whose retries are used up while the breaker is closed fails by itself, since others get through: as a timeout
when all its attempts timed out, else the model counts as down for it. While the breaker is open, probes use up no
retries.

Everything here belongs to one event loop.
"""

from __future__ import annotations

import asyncio
import random
import secrets
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeVar

import structlog

from stef.errors import JudgeError, JudgeFailure

_log = structlog.get_logger()
_T = TypeVar("_T")
_LONGEST_POLL = 0.25  # seconds between two looks at a breaker that somebody else may close


class Trouble(StrEnum):
    """What went wrong with one attempt."""

    CONNECTION = "connection"
    TIMEOUT = "timeout"
    BUSY = "busy"  # 429
    SERVER = "server"  # 5xx, or a reply that is no completion at all
    REFUSED = "refused"  # any other 4xx: repeating it would not help


class CallError(Exception):
    """One attempt failed.

    Args:
        trouble: Kind.
        detail: One sentence without the texts, the key or the provider's own words.
        retry_after: Seconds that the server asks to wait; None when it does not.
    """

    def __init__(self, trouble: Trouble, detail: str, retry_after: float | None = None) -> None:
        self.trouble, self.detail, self.retry_after = trouble, detail, retry_after
        super().__init__(f"{trouble}: {detail}")


class ModelDownError(JudgeError):
    """The model has been down for longer than anybody wants to wait."""

    def __init__(self, detail: str) -> None:
        super().__init__(JudgeFailure.UNAVAILABLE, detail)


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """How patient a judge is.

    Attributes:
        retries: Times that a failed call is repeated.
        first_delay: Seconds; the upper bound of the first delay, doubled for each further one.
        longest_delay: Seconds; bound of the doubling.
        longest_retry_after: Seconds; a server that asks for more gets this.
        max_outage: Seconds since the first fault until waiting ends.
        threshold: Faults in a row that open the breaker; None: as many as one call has attempts, at most 5, so that a
            model that is down opens it before the first record is lost.
    """

    retries: int = 4
    first_delay: float = 0.5
    longest_delay: float = 30.0
    longest_retry_after: float = 120.0
    max_outage: float = 600.0
    threshold: int | None = None

    @property
    def faults_to_open(self) -> int:
        """Faults in a row that open the breaker."""
        return self.threshold or (min(5, self.retries + 1) if self.retries else 5)


@dataclass(slots=True, kw_only=True)
class Clock:
    """Time and chance; tests put in their own.

    Attributes:
        now: Seconds that never go back.
        sleep: Waits so many seconds.
        chance: For the jitter.
        nonce: Makes the mark of one call; nobody may foresee it.
    """

    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    chance: random.Random = field(default_factory=random.Random)
    nonce: Callable[[], str] = lambda: secrets.token_hex(8)


@dataclass(slots=True)
class Breaker:
    """Shared by all calls of one judge; see the module's docstring for its states."""

    policy: Policy
    clock: Clock
    faults: int = 0
    since: float = 0.0
    is_open: bool = False
    _probing: bool = False
    _probes: int = 0
    _next_probe: float = 0.0
    _last_detail: str = ""

    async def enter(self) -> bool:
        """Wait until a call may be made.

        Returns:
            Whether it is a probe; who got one must end it with `succeeded`, `failed` or `abandoned`.

        Raises:
            ModelDownError: The outage has lasted too long.
        """
        while self.is_open:
            now = self.clock.now()
            if not self._probing and now >= self._next_probe:
                self._probing = True
                return True
            deadline = self.since + self.policy.max_outage
            if now >= deadline:
                raise ModelDownError(f"down for more than {self.policy.max_outage:g} s; last: {self._last_detail}")
            wake = deadline if self._probing else min(self._next_probe, deadline)
            await self.clock.sleep(min(max(wake - now, 0.001), _LONGEST_POLL))
        return False

    def succeeded(self) -> None:
        """The server answered: close."""
        if self.is_open:
            _log.info("judge_model_back", seconds=round(self.clock.now() - self.since, 1))
        self.faults, self.is_open, self._probing, self._probes = 0, False, False, 0

    def failed(self, fault: CallError, *, probe: bool) -> None:
        """The server did not answer, or not now."""
        now = self.clock.now()
        self.faults += 1
        self._last_detail = fault.detail
        if self.faults == 1:
            self.since = now
        if probe:
            self._probing = False
        if not self.is_open and self.faults >= self.policy.faults_to_open:
            self.is_open, self._probes = True, 0
            self._next_probe = now + self._pause(fault)
            _log.warning("judge_model_down", trouble=fault.trouble.value, detail=fault.detail)
        elif probe:
            self._probes += 1
            self._next_probe = now + self._pause(fault)

    def abandoned(self, *, probe: bool) -> None:
        """The call was cancelled: nothing is known, somebody else may probe."""
        if probe:
            self._probing = False

    def _pause(self, fault: CallError) -> float:
        """Seconds to the next probe: never nothing, so that a dead server is not hammered."""
        return max(delay(self._probes, fault, self.policy, self.clock), self.policy.first_delay)


def delay(attempt: int, fault: CallError, policy: Policy, clock: Clock) -> float:
    """Seconds to wait after a failed attempt (0 is the first): full jitter, or what the server asks for.

    Source: "Exponential Backoff And Jitter", AWS Architecture Blog, 2015.
    """
    bound = min(policy.longest_delay, policy.first_delay * 2 ** min(attempt, 30))
    jitter = clock.chance.uniform(0.0, bound)
    if fault.retry_after is None:
        return jitter
    # Those who were sent away together come back apart.
    return min(fault.retry_after, policy.longest_retry_after) + jitter * 0.1


async def persist(call: Callable[[], Awaitable[_T]], breaker: Breaker) -> _T:
    """Make a call, with retries, through the breaker.

    Args:
        call: One attempt; raises `CallError`.
        breaker: Of the judge.

    Raises:
        JudgeError: Refused, or every attempt timed out while others get through.
        ModelDownError: The retries are used up, or the outage has lasted too long.
    """
    troubles: list[Trouble] = []
    while True:
        probe = await breaker.enter()
        try:
            result = await call()
        except CallError as fault:
            if fault.trouble is Trouble.REFUSED:
                breaker.succeeded()
                raise JudgeError(JudgeFailure.UNAVAILABLE, fault.detail) from fault
            breaker.failed(fault, probe=probe)
            troubles.append(fault.trouble)
            await _between(troubles, fault, breaker)
        except BaseException:
            breaker.abandoned(probe=probe)
            raise
        else:
            breaker.succeeded()
            return result


async def _between(troubles: list[Trouble], fault: CallError, breaker: Breaker) -> None:
    """After a failed attempt: wait for the next one, or give up."""
    if breaker.is_open:
        return
    if len(troubles) > breaker.policy.retries:
        detail = f"{len(troubles)} attempts; last: {fault.detail}"
        if set(troubles) == {Trouble.TIMEOUT}:
            raise JudgeError(JudgeFailure.TIMEOUT, detail) from fault
        raise ModelDownError(detail) from fault
    await breaker.clock.sleep(delay(len(troubles) - 1, fault, breaker.policy, breaker.clock))
