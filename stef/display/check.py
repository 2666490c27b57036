"""What `stef consume --check` shows: whether a consumer's file fits the messages that it would read."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from stef.display.grid import Cell, Styled, heading, line, table
from stef.display.results import reason_text
from stef.display.text import short
from stef.errors import RecordError
from stef.record import QueryRecord
from stef.result import Evaluation, Outcome

if TYPE_CHECKING:
    from rich.console import Console


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedMessage:
    """One message that was read for the check.

    Attributes:
        position: Topic, partition and offset, or file and byte.
        outcome: How it would end.
        reason: Why, when it would not be scored.
        fields: Field of the record → what the mapping found for it; untrusted text.
    """

    position: str
    outcome: str
    reason: str = ""
    fields: Mapping[str, str]

    @classmethod
    def of(cls, position: str, record: QueryRecord, evaluation: Evaluation) -> Self:
        """A message that holds a record; fields that it leaves open are not shown."""
        values = record.model_dump(mode="json", exclude_defaults=True)
        fields = {
            name: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            for name, value in values.items()
        }
        reason = "" if evaluation.reason is None else reason_text(evaluation.reason, evaluation.detail)
        return cls(position=position, outcome=evaluation.outcome, reason=reason, fields=fields)

    @classmethod
    def rejected(cls, position: str, error: RecordError) -> Self:
        """A message that is no record, or a part of one that is not."""
        return cls(position=position, outcome=Outcome.DEAD_LETTER, reason=str(error), fields={})


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedRules:
    """One rules file in use; `problem` is "" when it is fine."""

    app: str
    version: str = ""
    digest: str = ""
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """Everything that a check found."""

    consumer: str
    source: str
    sinks: tuple[str, ...] = ()
    judge: str = ""
    messages: tuple[CheckedMessage, ...] = ()
    rules: tuple[CheckedRules, ...] = ()


def show_check(console: Console, check: Check) -> None:
    """Print a check; nothing was committed and no group was joined."""
    line(console, Styled(check.consumer, "bold"))
    line(console, f"  source: {check.source}")
    for sink in check.sinks:
        line(console, f"  sink: {sink}")
    if check.judge:
        line(console, f"  judge: {check.judge}")
    _messages(console, check)
    if check.rules:
        heading(console, "Rules")
        states: list[list[Cell]] = [
            [
                rules.app,
                rules.version,
                rules.digest,
                Styled(rules.problem, "red") if rules.problem else Styled("ok", "green"),
            ]
            for rules in check.rules
        ]
        table(console, ("app", "version", "digest", "state"), states)


def _messages(console: Console, check: Check) -> None:
    if not check.messages:
        heading(console, "No message to read")
        return
    heading(console, "Messages")
    for message in check.messages:
        reason = f" ({message.reason})" if message.reason else ""
        style = "green" if message.outcome == Outcome.SCORED else "yellow"
        line(console, message.position, ": ", Styled(message.outcome + reason, style))
        if message.fields:
            rows = [("  " + name, short(value)) for name, value in message.fields.items()]
            table(console, ("  field", "value"), rows)
    outcomes = Counter(message.outcome for message in check.messages)
    line(console, ", ".join(f"{count} {outcome}" for outcome, count in outcomes.most_common()))
