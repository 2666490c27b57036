"""What went wrong with a call, from what litellm raises; a provider's own words are never passed on."""

from __future__ import annotations

import email.utils
import time
from collections.abc import Mapping
from typing import Any

from stef.judge.retry import CallError, Trouble

# Optional parameters, and the words by which a provider says that it does not take one.
_COMPLAINTS = {
    "temperature": ("temperature",),
    "logprobs": ("logprobs",),
    "response_format": ("response_format", "json_schema", "schema"),
    "tools": ("tool",),
}


def refused_option(error: Exception, given: Mapping[str, Any]) -> str | None:
    """Which of the optional parameters a provider complains about."""
    if getattr(error, "status_code", None) not in {400, 422}:
        return None
    text = str(error).lower()
    for name, words in _COMPLAINTS.items():
        if name in given and any(word in text for word in words):
            return name
    return None


def fault(error: Exception, model: str) -> CallError:
    """Sort an exception of litellm by its status."""
    status = getattr(error, "status_code", None)
    name = type(error).__name__
    match status:
        case _ if "Timeout" in name or status == 408:
            return CallError(Trouble.TIMEOUT, "the call timed out")
        case 429:
            return CallError(Trouble.BUSY, "the provider is busy (429)", retry_after(error))
        case 401 | 403:
            return CallError(Trouble.REFUSED, f"the provider refuses the key (status {status}, {name})")
        case int() if 400 <= status < 500:
            hint = f"; litellm must know the model {model}" if "LLM Provider NOT provided" in str(error) else ""
            return CallError(Trouble.REFUSED, f"the provider refuses the request (status {status}, {name}{hint})")
        case int() if status >= 500 and "Connection" not in f"{name} {error}":
            return CallError(Trouble.SERVER, f"the provider fails (status {status})", retry_after(error))
        case _:
            return CallError(Trouble.CONNECTION, "no connection")


def retry_after(error: Exception) -> float | None:
    """Seconds of a Retry-After header, which is a number or a date; None when there is none that makes sense."""
    response = getattr(error, "response", None)
    text = str(response.headers.get("retry-after", "")) if response is not None else ""
    try:
        seconds = float(text)
    except ValueError:
        try:
            seconds = email.utils.parsedate_to_datetime(text).timestamp() - time.time()
        except (ValueError, TypeError, OverflowError):
            return None
    return seconds if 0 <= seconds < float("inf") else None
