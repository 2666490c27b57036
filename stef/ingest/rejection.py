"""Why a message is no record: the closed list of reasons."""

from __future__ import annotations

from enum import StrEnum

from stef.errors import RecordError


class Rejection(StrEnum):
    """Reasons of `stef.errors.RecordError` as the ingest raises it."""

    TOO_LARGE = "too_large"  # the message, what it expands to, or the number of records in it
    TOO_DEEP = "too_deep"  # nested beyond `decode.MAX_DEPTH`
    BAD_COMPRESSION = "bad_compression"  # gzip that is damaged, cut, or expands beyond reason
    NOT_UTF8 = "not_utf8"  # neither UTF-8 nor UTF-16
    NOT_JSON = "not_json"
    NOT_AN_OBJECT = "not_an_object"  # a number, a truth value, or plain text
    UNKNOWN_FORMAT = "unknown_format"  # an object in which neither a question nor SQL was found
    NO_QUESTION = "no_question"  # SQL, but no question
    WRONG_TYPE = "wrong_type"  # a field holds something that it cannot hold


def rejected(reason: Rejection, detail: str) -> RecordError:
    """The error to raise; `detail` says what was found, never the content itself."""
    return RecordError(reason.value, detail)


def kind(value: object) -> str:
    """What a value is, in the words of JSON."""
    match value:
        case None:
            return "null"
        case bool():
            return "a truth value"
        case int() | float():
            return "a number"
        case str():
            return "text"
        case list():
            return "a list"
        case _:
            return "an object"
