"""All catalogues of one moment, by application and database: what a run is pinned to."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from stef.catalogue.learner import MOST_QUESTIONS, Learner
from stef.catalogue.observation import Observation
from stef.catalogue.snapshot import Catalogue

MOST_DATABASES = 500


@dataclass(frozen=True, slots=True)
class Where:
    """Which database of which application; "" where the log does not say."""

    app: str = ""
    database: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Epoch:
    """Frozen catalogues.

    Attributes:
        digest: Of all of them, 16 hexadecimal digits.
        passing: Another one follows by itself, because what it was taken from is still counted on.
    """

    digest: str
    passing: bool = False
    catalogues: Mapping[Where, Catalogue] = field(default_factory=lambda: MappingProxyType({}))

    def of(self, app: str | None, database: str | None) -> Catalogue | None:
        """The catalogue for a record, or None when nothing of its database is known."""
        return self.catalogues.get(Where(app or "", database or ""))

    @property
    def questions(self) -> int:
        """Distinct questions that it rests on, of all databases."""
        return sum(len(catalogue.questions) for catalogue in self.catalogues.values())


class Learners:
    """A learner for each database.

    Args:
        key: Secret under which values and words are marked.
        most: Distinct questions that are kept of one database.
    """

    def __init__(self, key: str = "", *, most: int = MOST_QUESTIONS) -> None:
        self.key, self.most = key, most
        self.learners: dict[Where, Learner] = {}

    def of(self, where: Where) -> Learner | None:
        """The learner of a database, made when it is new; None when there are too many databases."""
        if where not in self.learners:
            if len(self.learners) >= MOST_DATABASES:
                return None
            self.learners[where] = Learner(self.key, most=self.most)
        return self.learners[where]

    def add(self, where: Where, seen: Observation) -> None:
        """Count one record."""
        learner = self.of(where)
        if learner is not None:
            learner.add(seen)

    def newest(self) -> int | None:
        """Day of the newest question, in days since 1970; None when no question has one."""
        days = (tally.day for learner in self.learners.values() for tally in learner.questions.values())
        return max((day for day in days if day is not None), default=None)

    def freeze(self) -> Epoch:
        """Snapshots of all; questions age from the newest one, so that no clock decides."""
        today = self.newest()
        found = {where: learner.freeze(today) for where, learner in self.learners.items()}
        named = sorted((where.app, where.database, catalogue.digest) for where, catalogue in found.items())
        digest = hashlib.sha256(repr(named).encode()).hexdigest()[:16]
        return Epoch(digest=digest, catalogues=MappingProxyType(found))
