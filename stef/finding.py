"""Findings: what a text or a statement is beside its meaning. The list is closed.

They are counted and shown, and reach Φ only through the caps.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

from stef.spec import Span


class Severity(StrEnum):
    """How much a finding weighs for a reader of the report."""

    INFO = "info"
    WARNING = "warning"
    CRITICAL = "critical"


class FindingCode(StrEnum):
    """Every finding that is made."""

    NOT_READ_ONLY = "not_read_only"
    STACKED_STATEMENTS = "stacked_statements"
    EXECUTABLE_COMMENT = "executable_comment"
    DENIED_FUNCTION = "denied_function"
    TABLE_NOT_ALLOWED = "table_not_allowed"
    MANDATORY_FILTER_MISSING = "mandatory_filter_missing"
    PROMPT_INJECTION_SUSPECTED = "prompt_injection_suspected"
    HIDDEN_CHARACTERS = "hidden_characters"
    TYPOGRAPHIC_CHARACTERS = "typographic_characters"
    DIALECT_MISMATCH = "dialect_mismatch"
    EXPLAIN = "explain"
    INLINE_RULES_INVALID = "inline_rules_invalid"


_WARNINGS = frozenset(
    {
        FindingCode.STACKED_STATEMENTS,
        FindingCode.HIDDEN_CHARACTERS,
        FindingCode.TYPOGRAPHIC_CHARACTERS,
        FindingCode.DIALECT_MISMATCH,
        FindingCode.EXPLAIN,
        FindingCode.INLINE_RULES_INVALID,
    }
)
SEVERITIES: Mapping[FindingCode, Severity] = MappingProxyType(
    {code: Severity.WARNING if code in _WARNINGS else Severity.CRITICAL for code in FindingCode}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Something about the text or the statement that is not its meaning: safety, policy, hostile input.

    Attributes:
        detail: One sentence with what was found.
    """

    code: FindingCode
    severity: Severity
    detail: str = ""
    span: Span | None = None


def finding(code: FindingCode, detail: str, span: Span | None = None) -> Finding:
    """A finding with the severity of its code."""
    return Finding(code=code, severity=SEVERITIES[code], detail=detail, span=span)
