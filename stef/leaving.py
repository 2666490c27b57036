"""What of the settings decides which values may leave: to a model, and in results."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, replace
from functools import cache

import structlog

from stef import data
from stef.apprules import AppRules
from stef.config import Settings
from stef.judge.private import HideCase, hiding
from stef.privacy import Kinds, Tokens, redacted
from stef.record import QueryRecord
from stef.result import Evaluation, Outcome, Reason

log = structlog.get_logger("stef.privacy")


@cache
def kinds() -> Kinds:
    """The kinds that are shipped."""
    return Kinds.build(data.resource("privacy.yaml"))


def privacy_key(settings: Settings) -> bytes:
    """The key of the tokens: the operator's, or one of this process, which the log says once."""
    if settings.privacy_key:
        return settings.privacy_key.encode()
    if settings.pseudonymize or settings.redact_store:
        log.warning("no privacy key: the tokens are those of this process, and another one has others")
    return secrets.token_bytes(32)


def hidden_from_models(settings: Settings, key: bytes) -> HideCase | None:
    """What hides a case from a model; None when it is to be shown."""
    return hiding(kinds(), Tokens(key)) if settings.pseudonymize else None


def leaving(settings: Settings, key: bytes) -> Privacy | None:
    """What hides the values of results; None when they leave as they are."""
    return Privacy(Tokens(key)) if settings.redact_store else None


@dataclass(frozen=True, slots=True)
class Privacy:
    """Hides the values of results."""

    tokens: Tokens

    def leaving(self, result: Evaluation, record: QueryRecord, rules: AppRules) -> Evaluation:
        """The result with tokens in place of values; without any text, as failed, where that cannot be done."""
        try:
            return redacted(kinds(), self.tokens, result, expansion=record.expanded_question or "", rules=rules)
        except Exception as error:  # noqa: BLE001 - what cannot be hidden must not leave, whatever the reason
            kind = type(error).__name__
            log.error("values could not be hidden", event_key=result.event_key, error=kind)  # noqa: TRY400 - no texts
            return _bare(result, kind)


def _bare(result: Evaluation, kind: str) -> Evaluation:
    """What is left of a result without its texts."""
    return Evaluation(
        event_key=result.event_key,
        outcome=Outcome.FAILED,
        reason=Reason.INTERNAL,
        detail=kind,
        scoring_config=result.scoring_config,
        provenance=replace(result.provenance, dialect_logged=""),
        received_at=result.received_at,
        content_digest=result.content_digest,
        **{name: getattr(result, name) for name in _OWN},
    )


_OWN = ("event_id", "agent", "agent_version", "app", "database", "trace_id", "span_id", "asked_at")
