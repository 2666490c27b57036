"""SET and DECLARE: what they give to which variable, as SQL text."""

from __future__ import annotations

import re
from collections.abc import Iterator

from stef.sql.scanner import Kind, pieces

_START = re.compile(r"\A\s*(?:SET|DECLARE)\b(?:\s+(?:SESSION|LOCAL|GLOBAL|VARIABLE))?", re.IGNORECASE)
_GIVEN = re.compile(
    r"""\A\s*[@$:]*(?P<name>\w+)                        # the variable
        (?:\s+(?:AS\s+)?(?P<type>\w+)(?:\s*\([\d,\s]*\))?)?        # its type
        \s*(?::=|=|\bDEFAULT\b)\s*(?P<value>\S.*)\Z""",
    re.IGNORECASE | re.DOTALL | re.VERBOSE,
)
_MAX_CHARACTERS = 20_000


def assignments(statement: str, dialect: str = "") -> Iterator[tuple[str, str]]:
    """Lower-case names and values that one client command gives; none for other statements.

    `DECLARE @from date = '2025-03-01', @n int = 5` gives two.
    """
    start = _START.match(statement)
    if start is None or len(statement) > _MAX_CHARACTERS:
        return
    for part in _parts(statement[start.end() :], dialect):
        found = _GIVEN.match(part)
        if found is not None:
            value = found["value"].strip()
            dated = (found["type"] or "").upper() == "DATE"
            yield found["name"].lower(), f"CAST({value} AS DATE)" if dated else value


def _parts(text: str, dialect: str) -> list[str]:
    """Split at commas outside strings and brackets."""
    parts, depth = [""], 0
    for piece in pieces(text, dialect):
        if piece.kind is not Kind.CODE:
            parts[-1] += piece.text
            continue
        for word in re.split(r"([(),])", piece.text):
            depth += (word == "(") - (word == ")")
            if word == "," and depth == 0:
                parts.append("")
            else:
                parts[-1] += word
    return parts
