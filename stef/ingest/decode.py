"""Bytes → JSON values.

Read: UTF-8 with or without byte order mark, UTF-16 and UTF-32, gzip (told by its first bytes), the five bytes that a
schema registry puts in front. Of a name that comes twice in one object the last one counts.
"""

from __future__ import annotations

import json
import math
import re
import zlib

from stef.ingest.rejection import Rejection, rejected

MAX_BYTES = 8 * 1024 * 1024
MAX_EXPANDED = 64 * 1024 * 1024
MAX_RATIO = 200
MAX_DEPTH = 100
# Below this a high ratio is just a short text that repeats itself.
_RATIO_COUNTS_FROM = 1024 * 1024
# Longer numbers do not fit any column, and Python refuses to write the longest ones back.
_LONGEST_NUMBER = 40
_GZIP = b"\x1f\x8b"
_BLANK = " \t\r\n\0\ufeff"
_PREFIX = 5


def decode(value: bytes, *, max_bytes: int = MAX_BYTES) -> list[object]:
    """Read all JSON values of a message: one as a rule, several when it holds one per line.

    Args:
        value: The message.
        max_bytes: Longest message that is read; gzip may expand to `MAX_EXPANDED` bytes.

    Returns:
        [] when there is only white space.

    Raises:
        RecordError: too_large, bad_compression, not_utf8, not_json or too_deep.
    """
    if len(value) > max_bytes:
        raise rejected(Rejection.TOO_LARGE, f"found {len(value)} bytes; allowed: {max_bytes}")
    data = _expand(value) if value.startswith(_GZIP) else value
    text = _text(_without_prefix(data)).strip(_BLANK)
    if not text:
        return []
    try:
        return [parse(text)]
    except json.JSONDecodeError as error:
        return _lines(text, error)


def _lines(text: str, error: json.JSONDecodeError) -> list[object]:
    lines = [line for line in text.splitlines() if line.strip()]
    if len(lines) > 1 and error.msg == "Extra data":
        try:
            return [parse(line) for line in lines]
        except json.JSONDecodeError:
            pass
    raise rejected(Rejection.NOT_JSON, f"{error.msg} at character {error.pos} of {len(text)}") from None


def _expand(value: bytes) -> bytes:
    """Expand all gzip members, within the limits."""
    parts, size, rest = [], 0, value
    while rest.startswith(_GZIP):
        member = zlib.decompressobj(wbits=31)
        try:
            part = member.decompress(rest, MAX_EXPANDED - size + 1)
        except zlib.error:
            raise rejected(Rejection.BAD_COMPRESSION, "the gzip data is damaged") from None
        size += len(part)
        _check_expansion(len(value), size)
        if not member.eof:
            raise rejected(Rejection.BAD_COMPRESSION, "the gzip data is cut")
        parts.append(part)
        rest = member.unused_data
    return b"".join(parts)


def _check_expansion(packed: int, size: int) -> None:
    if size > MAX_EXPANDED:
        raise rejected(Rejection.TOO_LARGE, f"gzip expands to more than {MAX_EXPANDED} bytes")
    if size > _RATIO_COUNTS_FROM and size > packed * MAX_RATIO:
        raise rejected(Rejection.BAD_COMPRESSION, f"gzip expands more than {MAX_RATIO} times")


def _without_prefix(data: bytes) -> bytes:
    """Take off a schema registry's prefix (a zero byte and a four-byte number), where JSON follows it."""
    if data[:1] != b"\0" or not data[_PREFIX:].lstrip(b" \t\r\n").startswith((b"{", b"[", b'"')):
        return data
    return data[_PREFIX:]


def _text(data: bytes) -> str:
    try:
        return data.decode(json.detect_encoding(data))
    except UnicodeDecodeError as error:
        raise rejected(
            Rejection.NOT_UTF8, f"{error.encoding}: {error.reason} at byte {error.start} of {len(data)}"
        ) from None


def _integer(digits: str) -> int | str:
    return digits if len(digits) > _LONGEST_NUMBER else int(digits)


def _real(digits: str) -> float | str:
    number = float(digits)
    return number if math.isfinite(number) else digits


def _constant(name: str) -> str | None:
    # Tables write NaN where there is nothing; an infinity stays the text that it was, for as a number it would spread.
    return None if name == "NaN" else name


_DECODER = json.JSONDecoder(strict=False, parse_int=_integer, parse_float=_real, parse_constant=_constant)


def parse(text: str) -> object:
    """Read one JSON value; raw control characters inside texts are let through.

    Raises:
        json.JSONDecodeError: It is no JSON.
        RecordError: too_deep.
    """
    try:
        value: object = _DECODER.decode(text)
    except RecursionError:
        raise rejected(Rejection.TOO_DEEP, f"nested deeper than {MAX_DEPTH}") from None
    check_depth(value)
    return value


def check_depth(value: object) -> None:
    """Refuse what later readers could not walk.

    Raises:
        RecordError: too_deep.
    """
    level, depth = [value], 0
    while level:
        depth += 1
        if depth > MAX_DEPTH:
            raise rejected(Rejection.TOO_DEEP, f"nested deeper than {MAX_DEPTH}")
        level = [child for item in level for child in _children(item)]


def _children(item: object) -> list[object]:
    members = item.values() if isinstance(item, dict) else item if isinstance(item, list) else ()
    return [member for member in members if isinstance(member, dict | list)]


_STARTS = re.compile(r'\s*[\[{"]')


def opened(value: object) -> object:
    """Read JSON that stands in a text, and JSON in a text in that; everything else stays as it is."""
    for _ in range(MAX_DEPTH):
        if not isinstance(value, str) or _STARTS.match(value) is None:
            return value
        try:
            inner = parse(value)
        except json.JSONDecodeError:
            return value
        if isinstance(inner, str) and _STARTS.match(inner) is None:
            return value
        value = inner
    return value
