"""What a comparison needs of one result, and where it is read from."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from pydantic import ValidationError

from stef.errors import InputError
from stef.result import Band, Evaluation, Outcome, Reason, from_json
from stef.values import fold

Key = tuple[str | None, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What a comparison needs of one result.

    Attributes:
        namespace: The source's, where it is known: keys are unique within it.
        question: As asked; untrusted text.
        question_key: Digest of the folded question: rows of one question are resampled together.
        content_digest: Two rows with one key and one digest are the same record.
        first_reason: The most telling reason for the score, or for there being none.
        fallback: Offline verdict in place of a model's: "", "outage" or "budget".
        weight: Records that it stands for, 0 and more; other than 1 where only a share was put to the model.
        stored_at: When the result was written; None where nobody kept it.
    """

    event_key: str
    outcome: Outcome
    scoring_config: str
    received_at: datetime
    namespace: str = ""
    event_id: str | None = None
    agent: str | None = None
    agent_version: str | None = None
    app: str | None = None
    database: str | None = None
    dialect: str | None = None
    judge: str | None = None
    model: str | None = None
    reason: Reason | None = None
    phi: int | None = None
    band: Band | None = None
    p_correct: float | None = None
    question: str = ""
    question_key: str = ""
    content_digest: str = ""
    first_reason: str = ""
    fallback: str = ""
    weight: float = 1.0
    stored_at: datetime | None = None


# What rows can be grouped by: `day` and `month` are those of the message's time.
FIELDS: Mapping[str, Callable[[Row], str | None]] = {
    "agent": lambda row: row.agent,
    "agent_version": lambda row: row.agent_version,
    "app": lambda row: row.app,
    "database": lambda row: row.database,
    "dialect": lambda row: row.dialect,
    "judge": lambda row: row.judge,
    "model": lambda row: row.model,
    "scoring_config": lambda row: row.scoring_config,
    "day": lambda row: row.received_at.date().isoformat(),
    "month": lambda row: row.received_at.strftime("%Y-%m"),
}


def label(key: Sequence[str | None]) -> str:
    """Write a group's key for people; a field without a value is `(none)`."""
    return " / ".join("(none)" if part is None else part for part in key)


def question_key(question: str) -> str:
    """Digest of a question after folding of case, width and white space, 16 hexadecimal digits."""
    return hashlib.sha256(fold(question).encode("utf-8", "surrogatepass")).hexdigest()[:16]


def from_evaluation(evaluation: Evaluation, *, namespace: str = "", stored_at: datetime | None = None) -> Row:
    """Take from a result what a comparison needs."""
    judge = evaluation.judge
    return Row(
        namespace=namespace,
        event_key=evaluation.event_key,
        event_id=evaluation.event_id,
        outcome=evaluation.outcome,
        reason=evaluation.reason,
        scoring_config=evaluation.scoring_config,
        received_at=evaluation.received_at,
        stored_at=stored_at,
        agent=evaluation.agent,
        agent_version=evaluation.agent_version,
        app=evaluation.app,
        database=evaluation.database,
        dialect=evaluation.provenance.dialect or None,
        judge=judge.kind if judge else None,
        model=(judge.model or None) if judge else None,
        phi=evaluation.phi,
        band=evaluation.band,
        p_correct=evaluation.p_correct,
        question=evaluation.question,
        question_key=question_key(evaluation.question),
        content_digest=evaluation.content_digest,
        first_reason=_first_reason(evaluation),
        fallback=judge.fallback if judge else "",
        weight=judge.weight if judge else 1.0,
    )


def _first_reason(evaluation: Evaluation) -> str:
    if evaluation.judge and evaluation.judge.reasons:
        first = evaluation.judge.reasons[0]
        return f"{first.code}: {first.detail}" if first.detail else first.code
    if evaluation.reason:
        return f"{evaluation.reason}: {evaluation.detail}" if evaluation.detail else evaluation.reason
    return evaluation.detail


def from_lines(lines: Iterable[str | bytes], name: str) -> Iterator[Row]:
    """Read rows from result files (JSON lines); blank lines are passed over.

    Raises:
        InputError: A line is no result; `name` and the line's number are named.
    """
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            evaluation = from_json(line)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            place = ".".join(str(part) for part in first["loc"])
            found = f"{place}: {first['msg']}" if place else first["msg"]
            raise InputError(name, f"line {number}", found, "a result as `stef score --json` writes it") from None
        yield from_evaluation(evaluation)
