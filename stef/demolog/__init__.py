"""Writes the log of an agent that does not exist, for trying stef out and for measuring it.

Three versions of one agent answer questions over three applications. A known share of each version's statements is
wrong in a known way; the truth stands in `metadata.planted`, which no part of the scoring reads. What is said and
what goes wrong is data: `resources/demo.yaml`. The same seed gives the same bytes.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stef.demolog.script import Planted, load_script
from stef.demolog.writer import Writer
from stef.errors import InputError

__all__ = ["Planted", "Summary", "VersionSummary", "records", "write"]


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionSummary:
    """What was written for one version; `planted` counts by kind."""

    label: str
    records: int
    refused: int
    planted: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """What `write` wrote."""

    path: str
    records: int
    versions: tuple[VersionSummary, ...]


def records(seed: int = 1, per_version: int = 300) -> Iterator[dict[str, Any]]:
    """The log, in the order in which the questions were asked; versions overlap in time as in a canary release.

    Args:
        seed: Same seed, same log.
        per_version: Records of each version, 1 or more. From 250 on every kind of error comes in every version.
    """
    plan = load_script()
    made = [record for version in plan.versions for record in Writer(plan, version, seed).log(per_version)]
    yield from sorted(made, key=lambda record: (record["asked_at"], record["agent_version"]))


def write(path: str | Path, *, seed: int = 1, per_version: int = 300) -> Summary:
    """Write the log as JSON lines.

    Raises:
        InputError: The file cannot be written.
    """
    made = list(records(seed, per_version))
    try:
        with Path(path).open("w", encoding="utf-8", newline="\n") as file:
            file.writelines(json.dumps(record, ensure_ascii=False) + "\n" for record in made)
    except OSError as error:
        raise InputError(str(path), "", error.strerror or str(error), "a path that can be written") from error
    versions = (_summary(version.label, made) for version in load_script().versions)
    return Summary(path=str(path), records=len(made), versions=tuple(versions))


def _summary(label: str, made: Sequence[Mapping[str, Any]]) -> VersionSummary:
    own = [record["metadata"] for record in made if record["agent_version"] == label]
    planted = Counter(meta["planted"] for meta in own if meta["planted"])
    refused = sum(meta["template"] == "refusal" for meta in own)
    return VersionSummary(label=label, records=len(own), refused=refused, planted=dict(sorted(planted.items())))
