"""What the tests of store, metrics, stream and consumers share: small evaluations, and an `evaluate` for JSON lines."""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime
from typing import Any

from stef.errors import RecordError
from stef.provenance import Provenance
from stef.record import Message
from stef.result import (
    Alignment,
    Band,
    Category,
    Evaluation,
    JudgeKind,
    Judgement,
    Outcome,
    Reason,
    Score,
    Verdict,
)

MADE_BY = Provenance(stef="0", semantics=1, score_profile="stef-1", sqlglot="30", weights="w", dialect="duckdb")
WHEN = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)


def evaluation(key: str = "e1", **changes: Any) -> Evaluation:
    """A scored evaluation."""
    values: dict[str, Any] = {
        "event_key": key,
        "event_id": key,
        "outcome": Outcome.SCORED,
        "scoring_config": "config",
        "provenance": MADE_BY,
        "received_at": WHEN,
        "agent": "shop",
        "agent_version": "1.0",
        "phi": 80,
        "band": Band.GOOD,
        "p_offline": 0.7,
        "p_correct": 0.75,
        "alignment": Alignment(category=Category.FULL_WITH_EXTRAS),
        "judge": Judgement(kind=JudgeKind.OFFLINE, verdict=Verdict.LIKELY_CORRECT, confidence=0.9),
        "score": Score(phi=80, band=Band.GOOD, filters=4, verdict=3, delta=1, multiplier=1.0),
        "question": "How many orders?",
        "sql": "SELECT COUNT(*) FROM orders",
        "content_digest": "digest",
    }
    return Evaluation(**{**values, **changes})


def failed(key: str = "e1", **changes: Any) -> Evaluation:
    """A failed evaluation."""
    nothing = dict.fromkeys(("phi", "band", "p_offline", "p_correct", "judge", "score", "alignment"))
    given = {**nothing, "outcome": Outcome.FAILED, "reason": Reason.JUDGE_UNAVAILABLE, **changes}
    return evaluation(key, **given)


def record(key: str, **more: Any) -> bytes:
    """A message's value."""
    return json.dumps({"id": key, **more}).encode()


async def evaluate(message: Message) -> tuple[Evaluation | RecordError, ...]:
    """One scored evaluation for each JSON object of a message."""
    try:
        found = json.loads(message.value or b"")
    except ValueError:
        raise RecordError("not_json", "no JSON") from None
    digest = hashlib.sha256(message.value or b"").hexdigest()
    return (evaluation(found.get("id") or message.position, content_digest=digest),)
