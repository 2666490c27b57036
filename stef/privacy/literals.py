"""Where the literals of a statement stand, and its names, as sqlglot's tokenizer sees them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, auto

import sqlglot
from sqlglot.errors import SqlglotError
from sqlglot.tokenizer_core import Token, TokenType
from sqlglot.tokens import Tokenizer

from stef.sql.scanner import Kind, pieces


class Part(Enum):
    """What a piece of a statement is."""

    STRING = auto()
    PATTERN = auto()  # a string after LIKE and the like
    NUMBER = auto()
    QUOTED = auto()  # a name in quotes
    NAME = auto()
    CODE = auto()  # anything else, where the statement cannot be read


@dataclass(frozen=True, slots=True)
class Literal:
    """A piece of a statement.

    Attributes:
        part: What it is.
        start: First character of its content, inside the quotes.
        end: After the last one.
        text: The content, escapes resolved.
        private: It is compared with a private column.
    """

    part: Part
    start: int
    end: int
    text: str
    private: bool = False


_STRINGS = frozenset({
    TokenType.STRING, TokenType.NATIONAL_STRING, TokenType.RAW_STRING, TokenType.HEREDOC_STRING,
    TokenType.UNICODE_STRING, TokenType.BYTE_STRING,
})  # fmt: skip
_LIKES = frozenset({TokenType.LIKE, TokenType.ILIKE, TokenType.GLOB, TokenType.SIMILAR_TO})
_ENDS = frozenset({
    TokenType.AND, TokenType.OR, TokenType.THEN, TokenType.WHEN, TokenType.SELECT, TokenType.FROM, TokenType.WHERE,
    TokenType.GROUP_BY, TokenType.ORDER_BY, TokenType.HAVING, TokenType.LIMIT, TokenType.ON, TokenType.SEMICOLON,
})  # fmt: skip
_QUOTES = "'\"`$["


def is_keyword(word: str) -> bool:
    """Whether SQL has a meaning of its own for a word."""
    return word.upper() in Tokenizer.KEYWORDS


def literals(sql: str, dialect: str = "", private: frozenset[str] = frozenset()) -> tuple[Literal, ...]:
    """The literals and names of a statement or of a part of one, in order.

    Args:
        sql: The text.
        dialect: Canonical dialect name; "" for plain SQL.
        private: Names of private columns, lower-case.
    """
    try:
        tokens = sqlglot.tokenize(sql, read=dialect or None)
    except (SqlglotError, ValueError):
        return tuple(_unread(sql, dialect))
    held = _compared(tokens, private) if private else frozenset()
    return tuple(_read(sql, tokens, held))


def _read(sql: str, tokens: list[Token], held: frozenset[int]) -> Iterator[Literal]:
    like = False
    for number, token in enumerate(tokens):
        kind = token.token_type
        if kind in _LIKES:
            like = True
        elif kind in _ENDS:
            like = False
        if kind in _STRINGS or kind is TokenType.IDENTIFIER:
            part = Part.QUOTED if kind is TokenType.IDENTIFIER else Part.PATTERN if like else Part.STRING
            start, end = _inside(sql, token)
            yield Literal(part, start, end, token.text, number in held)
        elif kind is TokenType.NUMBER:
            yield Literal(Part.NUMBER, token.start, token.end + 1, token.text, number in held)
        elif kind is TokenType.VAR and not _is_call(tokens, number):
            yield Literal(Part.NAME, token.start, token.end + 1, token.text)


def _is_call(tokens: list[Token], number: int) -> bool:
    return number + 1 < len(tokens) and tokens[number + 1].token_type is TokenType.L_PAREN


def _inside(sql: str, token: Token) -> tuple[int, int]:
    """Where the content of a quoted token stands, prefixes such as N or E and the quotes left outside."""
    whole = sql[token.start : token.end + 1]
    if token.text and (at := whole.find(token.text)) > 0:
        return token.start + at, token.start + at + len(token.text)
    first = next((place for place, char in enumerate(whole) if char in _QUOTES), 0)
    return token.start + first + 1, token.end


def _compared(tokens: list[Token], private: frozenset[str]) -> frozenset[int]:
    """Places of the literals that are compared with a private column, on either side of the comparison."""
    found: set[int] = set()
    for number, token in enumerate(tokens):
        if token.text.lower() in private and token.token_type not in _STRINGS:
            found.update(_reached(tokens, range(number + 1, len(tokens))))
            found.update(_reached(tokens, range(number - 1, -1, -1)))
    return frozenset(found)


def _reached(tokens: list[Token], places: range) -> Iterator[int]:
    """Literals that nothing but operators, brackets and commas part from where one starts."""
    between = False
    for place in places:
        kind = tokens[place].token_type
        if kind in _STRINGS or kind is TokenType.NUMBER:
            yield place
        elif kind is TokenType.BETWEEN:
            between = True
        elif kind is TokenType.AND and between:
            between = False
        elif kind not in _BRIDGES:
            return


_BRIDGES = _LIKES | {
    TokenType.EQ, TokenType.NEQ, TokenType.LT, TokenType.LTE, TokenType.GT, TokenType.GTE, TokenType.NULLSAFE_EQ,
    TokenType.L_PAREN, TokenType.R_PAREN, TokenType.COMMA, TokenType.IN, TokenType.NOT, TokenType.ANY, TokenType.ALL,
    TokenType.DASH, TokenType.DATE, TokenType.TIMESTAMP, TokenType.DCOLON, TokenType.TEXT, TokenType.VARCHAR,
    TokenType.INT, TokenType.BIGINT,
}  # fmt: skip


_PIECES = re.compile(
    r"""'(?P<string>(?:[^']|'')*)(?:'|\Z)|"(?P<quoted>[^"]*)(?:"|\Z)|`(?P<ticked>[^`]*)(?:`|\Z)"""
    r"""|(?P<number>(?<!\w)\d+(?:\.\d+)?(?!\w))|(?P<name>[^\W\d]\w*)(?!\s*\()"""
)
_LIKE = re.compile(r"\b(?:LIKE|GLOB|SIMILAR)\b", re.IGNORECASE)
_PARTS = {"string": Part.STRING, "quoted": Part.QUOTED, "ticked": Part.QUOTED, "number": Part.NUMBER, "name": Part.NAME}


def scanned(sql: str) -> Iterator[Literal]:
    """The same for a part of a statement as a spec has it, such as a condition: quick, and without a dialect."""
    like = _LIKE.search(sql) is not None
    for found in _PIECES.finditer(sql):
        group = found.lastgroup or ""
        if group == "name" and is_keyword(found[group]):
            continue
        part = Part.PATTERN if like and group == "string" else _PARTS[group]
        yield Literal(part, found.start(group), found.end(group), found[group].replace("''", "'"))


def _unread(sql: str, dialect: str) -> Iterator[Literal]:
    """The same for what sqlglot cannot take apart: what is no string may be anything."""
    for piece in pieces(sql, dialect):
        end = piece.start + len(piece.text)
        if piece.kind in {Kind.STRING, Kind.NAME} and len(piece.text) > 1:
            last = end - 1 if piece.closed else end
            part = Part.STRING if piece.kind is Kind.STRING else Part.QUOTED
            yield Literal(part, piece.start + 1, last, sql[piece.start + 1 : last])
        else:
            yield Literal(Part.CODE, piece.start, end, piece.text)
