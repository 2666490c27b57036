"""Keeps what names a person out of what leaves the process: values become keyed tokens that can be told apart."""

from __future__ import annotations

from stef.privacy.gather import Contents, veiled
from stef.privacy.kinds import Kinds
from stef.privacy.redact import Redacted, redacted
from stef.privacy.tokens import Tokens
from stef.privacy.veil import Veil

__all__ = ["Contents", "Kinds", "Redacted", "Tokens", "Veil", "redacted", "veiled"]
