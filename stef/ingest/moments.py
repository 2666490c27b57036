"""Points in time as logs write them."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

# Seconds, milliseconds, microseconds and nanoseconds since 1970 are told apart by their size; what is smaller than
# the first bound (March 1973) is a duration or a counter.
_EPOCH_FROM = 1e8
_UNITS = ((1e11, 1), (1e14, 1_000), (1e17, 1_000_000), (1e20, 1_000_000_000))
_NUMBER = re.compile(r"\d{9,20}(?:\.\d{1,9})?")
_ISO = re.compile(
    r"(?P<date>\d{4}-?\d{2}-?\d{2})(?:[T ](?P<time>[\d:]+)(?P<fraction>[.,]\d+)?\s*(?P<zone>\S*).*)?", re.DOTALL
)
_LONGEST = 64


def moment(value: object) -> datetime | None:
    """Read an ISO date, a mail date, or an epoch in s, ms, µs or ns.

    Returns:
        Aware; a time without a zone counts as UTC. None when it is no point in time.
    """
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return _epoch(value)
    if not isinstance(value, str) or len(value) > _LONGEST:
        return None
    text = value.strip()
    if _NUMBER.fullmatch(text):
        return _epoch(int(text) if text.isdecimal() else float(text))
    return _iso(text) or _mail(text)


def _epoch(number: float) -> datetime | None:
    if number < _EPOCH_FROM:
        return None
    for bound, per_second in _UNITS:
        if number < bound:
            whole, rest = divmod(number, per_second)
            stamp = datetime.fromtimestamp(int(whole), tz=UTC)
            micro = rest * 1_000_000 // per_second if per_second > 1 else (number % 1) * 1_000_000
            return stamp.replace(microsecond=min(int(micro), 999_999))
    return None


def _iso(text: str) -> datetime | None:
    found = _ISO.fullmatch(text)
    if found is None:
        return None
    fraction = (found["fraction"] or "").replace(",", ".")[:7].ljust(7, "0") if found["fraction"] else ""
    zone = re.sub(r"\[.*\]$", "", found["zone"] or "")
    zone = "+00:00" if zone.upper() in {"Z", "UTC", "GMT"} else zone
    try:
        stamp = datetime.fromisoformat(
            f"{found['date']}T{found['time']}{fraction}{zone}" if found["time"] else found["date"]
        )
        return stamp.replace(tzinfo=UTC) if stamp.tzinfo is None else stamp.astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def _mail(text: str) -> datetime | None:
    try:
        stamp = parsedate_to_datetime(text)
        return stamp.replace(tzinfo=UTC) if stamp.tzinfo is None else stamp.astimezone(UTC)
    except (ValueError, OverflowError, TypeError, IndexError):
        return None
