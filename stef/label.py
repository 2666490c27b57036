"""What somebody says of a record: the SQL is right, or it is not. Values, and what several of them say together."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import combinations


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """A label as a file gives it.

    Attributes:
        event: Key or id of the event.
        right: Whether the SQL answers the question.
        source: Who says so, lower-case: `analyst`, `execution`, a name.
        at: When, aware; None where the file does not say.
        note: Why, in free text; untrusted.
        agent_version: Which of several answers under that key; "" where the file does not say.
        content_digest: The same, exactly.
    """

    event: str
    right: bool
    source: str
    at: datetime | None = None
    note: str = ""
    agent_version: str = ""
    content_digest: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Label:
    """What one source says of one record.

    Attributes:
        event_key: With the content's digest it names the record, wherever it was read from.
        event_id: The record's own id.
        at: When it was said, else when it was imported.
    """

    event_key: str
    content_digest: str
    event_id: str | None
    right: bool
    source: str
    at: datetime
    note: str = ""

    @property
    def record(self) -> tuple[str, str]:
        """What the label is of."""
        return self.event_key, self.content_digest


def majority(labels: Iterable[Label]) -> bool | None:
    """What most sources say of one record, each of them counted once; None for a tie."""
    votes = sum(1 if label.right else -1 for label in labels)
    return None if votes == 0 else votes > 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """How two sources agree on the records that both have labelled.

    Attributes:
        records: That both have labelled.
        share: That both say the same of, 0 to 1.
        kappa: Cohen's: the same beyond what chance would give, 1 at most; None where chance gives everything.
    """

    first: str
    second: str
    records: int
    share: float
    kappa: float | None


def agreements(labels: Iterable[Label]) -> tuple[Agreement, ...]:
    """The agreement of every two sources that share a record, in the order of their names."""
    said: Mapping[tuple[str, str], dict[str, bool]] = defaultdict(dict)
    for label in labels:
        said[label.record][label.source] = label.right
    pairs: Mapping[tuple[str, str], Counter[tuple[bool, bool]]] = defaultdict(Counter)
    for by_source in said.values():
        for first, second in combinations(sorted(by_source), 2):
            pairs[first, second][by_source[first], by_source[second]] += 1
    return tuple(_agreement(*names, counts) for names, counts in sorted(pairs.items()))


def _agreement(first: str, second: str, counts: Counter[tuple[bool, bool]]) -> Agreement:
    records = counts.total()
    share = (counts[True, True] + counts[False, False]) / records
    yes = (counts[True, True] + counts[True, False]) / records, (counts[True, True] + counts[False, True]) / records
    chance = yes[0] * yes[1] + (1 - yes[0]) * (1 - yes[1])
    kappa = None if chance == 1 else (share - chance) / (1 - chance)
    return Agreement(first=first, second=second, records=records, share=share, kappa=kappa)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """How many labels one source gave to the records of one agent version, and how many of them say right."""

    agent: str | None
    agent_version: str | None
    source: str
    labels: int
    right: int


def tallies(labelled: Iterable[tuple[str | None, str | None, Label]]) -> tuple[Tally, ...]:
    """Count labels by agent, version and source; records without an agent first."""
    counts: Counter[tuple[str | None, str | None, str]] = Counter()
    rights: Counter[tuple[str | None, str | None, str]] = Counter()
    for agent, version, label in labelled:
        group = (agent, version, label.source)
        counts[group] += 1
        rights[group] += label.right
    ordered = sorted(counts, key=lambda group: tuple(part or "" for part in group))
    return tuple(
        Tally(agent=group[0], agent_version=group[1], source=group[2], labels=counts[group], right=rights[group])
        for group in ordered
    )
