"""Who goes to the model: records of which the offline judge is unsure, and of those a share.

Whoever is not asked about gets the offline verdict, with the reason why. Which records make up the share is decided by
their content, so that all workers, and each run over the same log, take the same ones.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from stef.errors import SettingError
from stef.judge.case import JudgeCase
from stef.judge.llm import LlmJudge
from stef.judge.offline import OfflineJudge
from stef.result import JudgeKind, Judgement, Route


@dataclass(frozen=True, slots=True)
class Rates:
    """Share of the records in question that goes to the model, 0 to 1, and other ones for some agent versions."""

    every: float = 1.0
    versions: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))

    @classmethod
    def read(cls, text: str) -> Rates:
        """Read `0.1`, or `0.1, 2.3.0=1, 2.2.9=0.5`.

        Raises:
            SettingError: It is neither.
        """
        every, versions = 1.0, {}
        for part in filter(None, map(str.strip, text.split(","))):
            version, equals, number = part.rpartition("=")
            rate = _rate(number, text)
            if equals:
                versions[version.strip()] = rate
            else:
                every = rate
        return cls(every, MappingProxyType(versions))

    def of(self, version: str | None) -> float:
        """The rate of an agent version."""
        return self.versions.get(version or "", self.every)

    @property
    def takes_all(self) -> bool:
        """Whether every record is taken."""
        return self.every == 1 and all(rate == 1 for rate in self.versions.values())

    def __str__(self) -> str:
        return ", ".join([f"{self.every:g}", *(f"{name}={rate:g}" for name, rate in sorted(self.versions.items()))])


def _rate(text: str, whole: str) -> float:
    try:
        rate = float(text)
    except ValueError:
        rate = -1.0
    if not 0 <= rate <= 1:
        raise SettingError(f"judge_rate: found {whole!r}; allowed: 0 to 1, or 0.1, 2.3.0=1 for agent versions")
    return rate


class CascadeJudge:
    """Asks the model about records whose p_offline lies between two thresholds; a `Judge`.

    Args:
        offline: Judges first, and judges the rest.
        model: The judge that asks a model.
        low: At or below it the offline verdict stands.
        high: At or above it too.
        rates: Share of those in between that goes to the model.
        kind: `CASCADE`, or `LLM` where the thresholds leave nobody out and only a share is taken.
    """

    def __init__(
        self,
        offline: OfflineJudge,
        model: LlmJudge,
        *,
        low: float = 0.0,
        high: float = 1.0,
        rates: Rates | None = None,
        kind: JudgeKind = JudgeKind.CASCADE,
    ) -> None:
        self.offline, self.model_judge = offline, model
        self.low, self.high, self.rates, self.kind = low, high, rates or Rates(), kind
        # For the provenance of results.
        self.prompt, self.model, self.parameters = model.prompt, model.model, model.parameters
        self.calibration = model.calibration
        self.identity = f"{kind}:{low:g}-{high:g}:{self.rates}:{model.identity}"

    async def judge(self, case: JudgeCase) -> Judgement:
        """Judge one case; raises what the model's judge raises."""
        if self.kind is JudgeKind.CASCADE and not self.low < case.evidence.p_offline < self.high:
            return replace(self.offline.verdict(case), route=Route.SURE)
        rate = self.rates.of(case.record.agent_version)
        chance = None if self.rates.takes_all else rate
        if rate < 1 and _draw(case) >= rate:
            return replace(self.offline.verdict(case), route=Route.NOT_DRAWN, chance=chance)
        return replace(await self.model_judge.judge(case), chance=chance)

    async def aclose(self) -> None:
        """Close what the model's judge has open."""
        await self.model_judge.aclose()


def _draw(case: JudgeCase) -> float:
    """A number from 0 to below 1 that a record's content decides; a higher rate takes all that a lower one took."""
    digest = hashlib.sha256(f"judge rate {case.record.content_digest()}".encode()).digest()
    return int.from_bytes(digest[:8]) / 2**64
