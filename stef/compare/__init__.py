"""Compares groups of results: how good each is, whether the difference is real, and where to look.

Φ is averaged over scored records only. What has no score is counted beside it, because an agent that emits garbage
must not look better for it. A difference comes with an interval and an answer in words.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from stef.compare.difference import Answer, Difference, Worsened, difference
from stef.compare.figures import Group, Worst, figures
from stef.compare.rows import FIELDS, Key, Row, from_evaluation, from_lines, label, question_key
from stef.errors import SettingError, nearest
from stef.result import Outcome

__all__ = [
    "FIELDS",
    "Answer",
    "Comparison",
    "Difference",
    "Group",
    "LeftOut",
    "Row",
    "Worsened",
    "Worst",
    "compare",
    "from_evaluation",
    "from_lines",
    "question_key",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """Results that were not compared because something else made them."""

    scoring_config: str
    n: int
    groups: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """All groups, and each against the baseline.

    Attributes:
        by: Fields that were grouped by.
        scoring_configs: What made the results that are compared: one, or one for each application, since each has
            its own rules; more only when `mixed`.
        mixed: Mixing was asked for.
        repeated: Further deliveries of a result that were not counted twice.
    """

    by: tuple[str, ...]
    scoring_configs: tuple[str, ...]
    mixed: bool
    groups: tuple[Group, ...]
    baseline: Key | None
    differences: tuple[Difference, ...]
    left_out: tuple[LeftOut, ...]
    repeated: int

    def to_dict(self) -> dict[str, Any]:
        """Write it as plain values for JSON."""
        plain: dict[str, Any] = asdict(self)
        for part in (*plain["groups"], *plain["differences"]):
            part["label"] = label(part["key"])
        return plain


def compare(
    rows: Iterable[Row],
    *,
    by: Sequence[str] = ("agent_version",),
    baseline: str | None = None,
    scoring_config: str | None = None,
    mix: bool = False,
    worst: int = 3,
    seed: int = 1,
) -> Comparison:
    """Group results and compare the groups.

    Args:
        rows: In the order in which they were written.
        by: Names out of `FIELDS`.
        baseline: Label of the group that the others are compared with; the first group when None.
        scoring_config: Compare the results that this made; for each application the newest one when None.
        mix: Compare the results of all scoring configurations together.
        worst: Records to name for each group.
        seed: Of the resampling; same rows and seed, same interval.

    Raises:
        SettingError: A field, the baseline or the scoring configuration is not known.
    """
    keys = _keys_by(by)
    kept, repeated = _without_repeats(rows)
    chosen, left_out = _chosen(kept, scoring_config, mix=mix)
    groups: dict[Key, list[Row]] = defaultdict(list)
    for row in chosen:
        groups[keys(row)].append(row)
    ordered = sorted(groups, key=_natural)
    counted = {key: figures(key, groups[key], worst) for key in ordered}
    base = _baseline(ordered, baseline)
    return Comparison(
        by=tuple(by),
        scoring_configs=tuple(dict.fromkeys(row.scoring_config for row in chosen)),
        mixed=mix,
        groups=tuple(counted.values()),
        baseline=base,
        differences=tuple(
            difference(counted[base], counted[key], groups[base], groups[key], seed=seed)
            for key in ordered
            if base is not None and key != base
        ),
        left_out=_left_out(left_out, keys),
        repeated=repeated,
    )


def _keys_by(by: Sequence[str]) -> Callable[[Row], Key]:
    for name in by:
        if name not in FIELDS:
            raise SettingError(f"unknown field {name}; allowed: {nearest(name, FIELDS)}")
    read = [FIELDS[name] for name in by]
    return lambda row: tuple(field(row) for field in read)


def _without_repeats(rows: Iterable[Row]) -> tuple[list[Row], int]:
    """Count each result once: sinks deliver at least once, and a record that failed may have been scored later."""
    kept: dict[tuple[str, str, str, str], Row] = {}
    repeated = 0
    for row in rows:
        key = (row.scoring_config, row.namespace, row.event_key, row.content_digest)
        earlier = kept.get(key)
        repeated += earlier is not None
        if earlier is None or (earlier.outcome is Outcome.FAILED and row.outcome is Outcome.SCORED):
            kept[key] = row
    return list(kept.values()), repeated


def _chosen(rows: Sequence[Row], wanted: str | None, *, mix: bool) -> tuple[list[Row], list[Row]]:
    """Part the rows into those that are compared and those that something else made.

    An application's results all come from its newest scoring configuration, the one that was written last. It is
    chosen for each application, because each has rules of its own.
    """
    if mix:
        return list(rows), []
    known = {row.scoring_config for row in rows}
    if wanted is not None and wanted not in known:
        raise SettingError(f"no result has the scoring configuration {wanted}; allowed: {nearest(wanted, known)}")
    newest: dict[str | None, tuple[datetime, int, str]] = {}
    for place, row in enumerate(rows):
        written = (row.stored_at or row.received_at, place, row.scoring_config)
        newest[row.app] = max(newest.get(row.app, written), written)
    chosen: list[Row] = []
    left_out: list[Row] = []
    for row in rows:
        fits = row.scoring_config == (wanted or newest[row.app][2])
        (chosen if fits else left_out).append(row)
    return chosen, left_out


def _baseline(keys: Sequence[Key], wanted: str | None) -> Key | None:
    if wanted is None:
        return keys[0] if keys else None
    for key in keys:
        if label(key) == wanted:
            return key
    raise SettingError(f"no group is named {wanted}; allowed: {nearest(wanted, map(label, keys))}")


def _left_out(rows: Sequence[Row], keys: Callable[[Row], Key]) -> tuple[LeftOut, ...]:
    counts = Counter(row.scoring_config for row in rows)
    groups: dict[str, set[Key]] = defaultdict(set)
    for row in rows:
        groups[row.scoring_config].add(keys(row))
    return tuple(
        LeftOut(scoring_config=name, n=count, groups=tuple(map(label, sorted(groups[name], key=_natural))))
        for name, count in counts.most_common()
    )


def _natural(key: Key) -> tuple[tuple[tuple[int, int, str], ...], ...]:
    """Sort numbers as numbers, so that version 10 comes after 9; a missing value comes last."""
    return tuple(_natural_part(part) for part in key)


def _natural_part(part: str | None) -> tuple[tuple[int, int, str], ...]:
    if part is None:
        return ((2, 0, ""),)
    pieces = re.findall(r"[0-9]+|[^0-9]+", part)
    return tuple((0, int(piece), "") if piece.isdecimal() else (1, 0, piece) for piece in pieces)
