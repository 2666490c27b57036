"""The one scanner of SQL text below the parser: where strings, quoted names and comments begin and end.

Everything that must be known before parsing stands on it: comments, depth of brackets, template marks, the split into
statements. It never fails: an unclosed string runs to the end of the text and is reported as such.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, auto

# Dialects in which a backslash escapes inside a string literal.
_BACKSLASH = frozenset(
    {
        "mysql",
        "bigquery",
        "clickhouse",
        "databricks",
        "spark",
        "spark2",
        "hive",
        "snowflake",
        "doris",
        "starrocks",
        "redshift",
    }
)


class Kind(Enum):
    """What a piece of SQL text is."""

    CODE = auto()
    STRING = auto()
    NAME = auto()  # quoted identifier
    COMMENT = auto()
    EXECUTABLE = auto()  # MySQL's /*! … */, which is no comment to MySQL


@dataclass(frozen=True, slots=True)
class Piece:
    """A stretch of SQL text of one kind; `closed` is False for a string or comment that the text ends inside."""

    kind: Kind
    text: str
    start: int
    closed: bool = True


def _pattern(string: str) -> re.Pattern[str]:
    return re.compile(
        rf"""(?P<executable>/\*!.*?(?:\*/|\Z))
           | (?P<comment>--[^\n]*|/\*.*?(?:\*/|\Z))
           | (?P<dollar>\$(?P<tag>\w*)\$.*?(?:\$(?P=tag)\$|\Z))
           | (?P<string>{string})
           | (?P<name>"(?:[^"]|"")*(?:"|\Z)|`(?:[^`]|``)*(?:`|\Z))
           | (?P<code>[^-/$'"`]+|[-/$])""",
        re.VERBOSE | re.DOTALL,
    )


_PLAIN = _pattern(r"'(?:[^']|'')*(?:'|\Z)")
_ESCAPED = _pattern(r"'(?:[^'\\]|''|\\.)*(?:'|\Z)")


def pieces(sql: str, dialect: str = "") -> Iterator[Piece]:
    """Split text into pieces, in order and without gaps; neighbouring code may come in several pieces."""
    pattern = _ESCAPED if dialect in _BACKSLASH else _PLAIN
    for found in pattern.finditer(sql):
        group, text = found.lastgroup, found.group()
        match group:
            case "executable":
                yield Piece(Kind.EXECUTABLE, text, found.start(), text.endswith("*/") and len(text) > 4)
            case "comment":
                yield Piece(Kind.COMMENT, text, found.start(), text.startswith("--") or text.endswith("*/"))
            case "dollar" | "tag":
                yield Piece(Kind.STRING, text, found.start())
            case "string":
                yield Piece(Kind.STRING, text, found.start(), len(text) > 1 and text.endswith("'"))
            case "name":
                yield Piece(Kind.NAME, text, found.start(), len(text) > 1 and text[-1] == text[0])
            case _:
                yield Piece(Kind.CODE, text, found.start())


@dataclass(frozen=True, slots=True)
class Survey:
    """What one pass over the text tells before it is parsed.

    Attributes:
        statements: Text of each statement without comments, split at semicolons outside strings; none empty.
        comments: Their texts.
        executable: Contents of MySQL's executable comments.
        depth: Deepest nesting of brackets.
        unbalanced: Brackets do not pair up, or a string or comment is not closed.
        code: Statements with the contents of strings blanked, for looking at words outside of them.
    """

    statements: tuple[str, ...]
    comments: tuple[str, ...]
    executable: tuple[str, ...]
    depth: int
    unbalanced: bool
    code: tuple[str, ...]


def survey(sql: str, dialect: str = "", *, run_executable: bool = True) -> Survey:
    """Look over a text once.

    Args:
        sql: The text.
        dialect: Canonical dialect name, for its string escapes.
        run_executable: Put the contents of `/*! … */` back as code, as MySQL would.
    """
    statements: list[list[str]] = [[]]
    code: list[list[str]] = [[]]
    comments: list[str] = []
    executable: list[str] = []
    depth = deepest = 0
    unbalanced = False
    for piece in pieces(sql, dialect):
        unbalanced |= not piece.closed
        match piece.kind:
            case Kind.COMMENT:
                comments.append(piece.text)
                shown, bare = " ", " "
            case Kind.EXECUTABLE:
                inner = re.sub(r"^/\*!\d*|\*/$", " ", piece.text)
                executable.append(inner.strip())
                shown = bare = inner if run_executable else " "
            case Kind.CODE:
                shown = bare = piece.text
            case _:
                shown, bare = piece.text, piece.text[:1] + piece.text[-1:]
        if piece.kind in {Kind.CODE, Kind.EXECUTABLE}:
            for part in re.split(r"([;()\[\]{}])", shown):
                if part == ";":
                    unbalanced |= depth != 0
                    depth = 0
                    statements.append([])
                    code.append([])
                    continue
                if part and part in "([{":
                    depth += 1
                    deepest = max(deepest, depth)
                elif part and part in ")]}":
                    depth -= 1
                    unbalanced |= depth < 0
                statements[-1].append(part)
                code[-1].append(part)
        else:
            statements[-1].append(shown)
            code[-1].append(bare)
    texts = ["".join(parts).strip() for parts in statements]
    codes = ["".join(parts).strip() for parts in code]
    kept = [i for i, text in enumerate(texts) if text]
    return Survey(
        tuple(texts[i] for i in kept),
        tuple(comments),
        tuple(executable),
        deepest,
        unbalanced or depth != 0,
        tuple(codes[i] for i in kept),
    )
