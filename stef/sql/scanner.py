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
_BACKSLASH = frozenset({
    "mysql", "bigquery", "clickhouse", "databricks", "spark", "spark2", "hive", "snowflake", "doris", "starrocks",
    "redshift",
})  # fmt: skip


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
_ESCAPED = _pattern(r"'(?:[^'\\]|''|\\.)*(?:'|\\?\Z)")


_BRACKETS = re.compile(r"[()\[\]{}]")
_EXECUTABLE_MARKS = re.compile(r"^/\*!\d*|\*/$")


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
    found = _Survey()
    for piece in pieces(sql, dialect):
        found.unbalanced |= not piece.closed
        match piece.kind:
            case Kind.CODE:
                found.read(piece.text)
            case Kind.COMMENT:
                found.comments.append(piece.text)
                found.put(" ", " ")
            case Kind.EXECUTABLE:
                inner = _EXECUTABLE_MARKS.sub(" ", piece.text)
                found.executable.append(inner.strip())
                found.read(inner if run_executable else " ")
            case Kind.STRING | Kind.NAME:
                found.put(piece.text, piece.text[:1] + piece.text[-1:])
    return found.done()


class _Survey:
    """Collects what `survey` sees."""

    def __init__(self) -> None:
        self.statements: list[list[str]] = [[]]
        self.code: list[list[str]] = [[]]
        self.comments: list[str] = []
        self.executable: list[str] = []
        self.depth = self.deepest = 0
        self.unbalanced = False

    def put(self, text: str, code: str) -> None:
        """Add a piece that holds no brackets and semicolons that count."""
        self.statements[-1].append(text)
        self.code[-1].append(code)

    def read(self, code: str) -> None:
        """Add code: count its brackets, part it at its semicolons."""
        first, *others = code.split(";")
        self._stretch(first)
        for part in others:
            self.unbalanced |= self.depth != 0
            self.depth = 0
            self.statements.append([])
            self.code.append([])
            self._stretch(part)

    def _stretch(self, code: str) -> None:
        self.put(code, code)
        for mark in _BRACKETS.findall(code):
            if mark in "([{":
                self.depth += 1
                self.deepest = max(self.deepest, self.depth)
            else:
                self.depth -= 1
                self.unbalanced |= self.depth < 0

    def done(self) -> Survey:
        """The result, empty statements left out."""
        texts = ["".join(parts).strip() for parts in self.statements]
        codes = ["".join(parts).strip() for parts in self.code]
        kept = [i for i, text in enumerate(texts) if text]
        return Survey(
            statements=tuple(texts[i] for i in kept),
            comments=tuple(self.comments),
            executable=tuple(self.executable),
            depth=self.deepest,
            unbalanced=self.unbalanced or self.depth != 0,
            code=tuple(codes[i] for i in kept),
        )
