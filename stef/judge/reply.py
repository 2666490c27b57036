"""Reads a model's reply, which is untrusted input: one of four verdicts and a confidence, or nothing.

What a model may wrap its answer in is forgiven: code fences, prose around, trailing commas, thoughts before, labelled
lines in place of JSON. What it may not do is leave the answer open. A verdict in other words, two at once, a missing
or impossible confidence, a cut or an empty text: the reply is invalid, and no number is made up for it.

When a reply holds several complete answers, the last one counts. A verdict inside judged text that the reply repeats
(between our marks, in a code block of another language, in a quotation) is none.
"""

from __future__ import annotations

import json
import math
import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from stef.errors import JudgeError, JudgeFailure
from stef.judge.untrusted import MARK, clean
from stef.result import Confidence, JudgeReason, Verdict


class ReasonCode(StrEnum):
    """Why a judge takes points off; the closed list."""

    MISSING_FILTER = "missing_filter"
    WRONG_VALUE = "wrong_value"
    WRONG_AGGREGATE = "wrong_aggregate"
    MISSING_GROUP_BY = "missing_group_by"
    WRONG_JOIN_GRAIN = "wrong_join_grain"
    WRONG_TIME_WINDOW = "wrong_time_window"
    WRONG_ORDER_LIMIT = "wrong_order_limit"
    EXTRA_FILTER = "extra_filter"
    WRONG_COLUMN = "wrong_column"
    OTHER = "other"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What a reply says.

    Attributes:
        verdict: One of the four.
        confidence: 0 to 1.
        reasons: At most 8; details of at most 500 characters, without control characters.
    """

    verdict: Verdict
    confidence: Confidence
    reasons: tuple[JudgeReason, ...] = ()


@dataclass(frozen=True, slots=True)
class _Answer:
    """One place in the reply that gives an answer; None where it says something that cannot be read."""

    start: int
    verdict: Verdict | None
    confidence: float | None
    reasons: tuple[JudgeReason, ...] = ()


_LONGEST = 200_000  # characters; no judge has so much to say
_LONGEST_MENDED = 20_000  # of which trailing commas are searched
_MOST_OBJECTS = 200  # starts of JSON objects that are tried
_LONGEST_VALUE = 120  # of a labelled line
_MOST_REASONS = 8
_LONGEST_DETAIL = 500

_VERDICTS = {verdict.value.casefold(): verdict for verdict in Verdict}
_THOUGHT_TAGS = "think|thinking|thought|thoughts|reasoning|reflection|scratchpad"
_THOUGHT = re.compile(rf"<({_THOUGHT_TAGS})>.*?(?:</\1>|\Z)", re.DOTALL | re.IGNORECASE)
_THOUGHT_END = re.compile(rf"\A.*</(?:{_THOUGHT_TAGS})>", re.DOTALL | re.IGNORECASE)
_JUDGED = re.compile(rf"<{MARK}-(\w+)[^>\n]*>.*?(?:</{MARK}-\1>|\Z)", re.DOTALL | re.IGNORECASE)
_CODE = re.compile(
    r"^[ \t]*(?P<ticks>`{3,}|~{3,})[ \t]*(?P<language>[\w+-]*)[^\n]*\n(?P<body>.*?)(?:^[ \t]*(?P=ticks)[ \t]*$|\Z)",
    re.DOTALL | re.MULTILINE,
)
_OWN_LANGUAGES = frozenset({"", "json", "json5", "jsonc", "text", "txt", "yaml", "markdown", "md", "plaintext"})
_QUOTED = re.compile(r"^[ \t]*>.*$", re.MULTILINE)
# Left over once every whole object is taken out: an object that was cut or is no JSON.
_LOOSE_KEY = re.compile(r"[\"']verdict[\"']\s*[:=]", re.IGNORECASE)
_STRING_OR_COMMA = re.compile(r'"(?:[^"\\]|\\.)*"|,(?=\s*[}\]])', re.DOTALL)
# Spaces are taken once and not given back, or a long run of them would be divided in every way.
_LABEL = r"^[ \t]*+(?:(?:[-*+•]|\d+[.)]|#{1,6})[ \t]*+)?[*_`]{0,3}(?:final[ \t]++|overall[ \t]++|my[ \t]++)?"
_MARKUP = r"[ \t]*+(?:[*_`]{1,3}[ \t]*+)?"
_SIGN = rf"{_MARKUP}(?:[:=：]{_MARKUP}(?:\n\s*)?|\n\s*)(?P<value>[^\n]*)$"
_VERDICT_LINE = re.compile(rf"{_LABEL}verdict{_SIGN}", re.IGNORECASE | re.MULTILINE)
_CONFIDENCE_LINE = re.compile(rf"{_LABEL}confidence(?: score| level)?{_SIGN}", re.IGNORECASE | re.MULTILINE)
_REASON_LINE = re.compile(rf"{_LABEL}(?:reason(?:s|ing)?|explanation|rationale){_SIGN}", re.IGNORECASE | re.MULTILINE)
_INLINE_CONFIDENCE = re.compile(
    r"(?P<verdict>[^,;()\[\]–—]*?)[\s,;(\[–—-]+(?:with )?confidence"
    r" *(?:of|is|[:=])? *(?P<confidence>[^\s,;()]+(?: ?%)?)[)\].]*",
    re.IGNORECASE,
)
_NUMBER = re.compile(
    r"(?P<number>\d{1,12}(?:\.\d{1,20})?|\.\d{1,20})\s*(?P<scale>%|/\s*(?:100|10|1)(?:\.0)?)?(?:\s*\([^()]*\))?\.?"
)


def parse(reply: str) -> Reply:
    """Read a reply.

    Raises:
        JudgeError: `REPLY_INVALID`; the detail says what is wrong and repeats nothing of the reply.
    """
    if len(reply) > _LONGEST:
        raise _invalid(f"longer than {_LONGEST} characters")
    text = _own_words(_unwrapped(reply))
    if not text.strip():
        raise _invalid("empty")
    answers = sorted(_answers(text), key=lambda answer: answer.start)
    if not answers:
        raise _invalid("no verdict")
    return _settled(answers)


def _invalid(why: str) -> JudgeError:
    return JudgeError(JudgeFailure.REPLY_INVALID, why)


def _settled(answers: list[_Answer]) -> Reply:
    """The last answer; one that repeats the verdict before it may lean on that one's confidence."""
    last = answers[-1]
    if last.verdict is None:
        raise _invalid("a verdict that is none of the four, or that was cut")
    for answer in reversed(answers):
        if answer.verdict is not last.verdict:
            break
        if answer.confidence is not None:
            return Reply(verdict=last.verdict, confidence=answer.confidence, reasons=last.reasons or answer.reasons)
    raise _invalid("no confidence from 0 to 100")


def _unwrapped(reply: str) -> str:
    """Undo a reply that is one JSON string as a whole."""
    if reply.lstrip().startswith('"'):
        try:
            inner = json.loads(reply)
        except (ValueError, RecursionError):
            return reply
        return inner if isinstance(inner, str) else reply
    return reply


def _own_words(reply: str) -> str:
    """Drop what is not the model's answer: thoughts, repeated input, quotations, code of other languages."""
    text = _JUDGED.sub("", clean(reply))
    text = _THOUGHT.sub("", text)
    text = _THOUGHT_END.sub("", text)
    return _QUOTED.sub("", _CODE.sub(_code, text))


def _code(found: re.Match[str]) -> str:
    return found["body"] if found["language"].lower() in _OWN_LANGUAGES else ""


def _answers(text: str) -> Iterator[_Answer]:
    outside = list(text)
    for start, end, answer in _objects(text):
        outside[start:end] = " " * (end - start)
        if answer is not None:
            yield answer
    rest = "".join(outside)
    for found in _LOOSE_KEY.finditer(rest):
        yield _Answer(found.start(), None, None)
    yield from _lines(rest)


def _objects(text: str) -> Iterator[tuple[int, int, _Answer | None]]:
    """JSON objects with their places; objects without a verdict have no answer."""
    position = 0
    for _ in range(_MOST_OBJECTS):
        start = text.find("{", position)
        if start < 0:
            return
        read = _decoded(text, start)
        if read is not None:
            position = read[1]
            yield start, position, _from_json(start, read[0])
            continue
        position = start + 1


class _TwiceError(ValueError):
    """An object that names its verdict or its confidence twice."""


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    names = [key.strip().casefold() for key, _ in pairs]
    if names.count("verdict") > 1 or names.count("confidence") > 1:
        raise _TwiceError
    return {name: value for name, (_, value) in zip(names, pairs, strict=True)}


_DECODER = json.JSONDecoder(strict=False, object_pairs_hook=_once)


def _decoded(text: str, start: int) -> tuple[Any, int] | None:
    """The JSON value at that place and its end, trailing commas forgiven; None when there is none."""
    try:
        return _DECODER.raw_decode(text, start)
    except json.JSONDecodeError as error:
        if text[error.pos : error.pos + 1] not in {"}", "]", ","}:
            return None
    except (ValueError, RecursionError):
        return None
    # Spaces in place of commas keep every position.
    mended = _STRING_OR_COMMA.sub(_mended, text[start : start + _LONGEST_MENDED])
    try:
        value, end = _DECODER.raw_decode(mended)
    except (ValueError, RecursionError):
        return None
    return value, start + end


def _mended(found: re.Match[str]) -> str:
    return " " if found[0] == "," else found[0]


def _from_json(start: int, value: dict[str, Any]) -> _Answer | None:
    """The answer of an object, or of the one object inside it that has a verdict."""
    holders = list(_holders(value, 3))
    if not holders:
        return None
    if len(holders) > 1:
        return _Answer(start, None, None)
    found = holders[0]
    return _Answer(start, _verdict(found["verdict"]), _confidence(found.get("confidence")), _reasons(found))


def _holders(value: object, depth: int) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        if "verdict" in value and not isinstance(value["verdict"], dict):
            yield value
        elif depth:
            for inner in value.values():
                yield from _holders(inner, depth - 1)


def _lines(text: str) -> Iterator[_Answer]:
    """Labelled lines: each verdict with the confidence that follows it, or else the one before it."""
    verdicts = list(_VERDICT_LINE.finditer(text))
    for index, found in enumerate(verdicts):
        low = verdicts[index - 1].end() if index else 0
        high = verdicts[index + 1].start() if index + 1 < len(verdicts) else len(text)
        verdict, inline = _verdict_and_confidence(found["value"])
        after = _CONFIDENCE_LINE.search(text, found.end(), high)
        before = _CONFIDENCE_LINE.search(text, low, found.start())
        line = after or before
        confidence = inline if inline is not None else _confidence(line["value"]) if line else None
        reason = _REASON_LINE.search(text, low, high)
        reasons = _reasons({"explanation": reason["value"]}) if reason else ()
        yield _Answer(found.start(), verdict, confidence, reasons)


def _verdict_and_confidence(text: str) -> tuple[Verdict | None, float | None]:
    verdict = _verdict(text)
    inline = _INLINE_CONFIDENCE.fullmatch(text.strip()) if verdict is None and len(text) <= _LONGEST_VALUE else None
    return (verdict, None) if inline is None else (_verdict(inline["verdict"]), _confidence(inline["confidence"]))


def _verdict(value: object) -> Verdict | None:
    """Exactly one of the four in any case, with spaces, hyphens or underscores between the words; else None."""
    if not isinstance(value, str) or len(value) > _LONGEST_VALUE:
        return None
    bare = unicodedata.normalize("NFKC", value).casefold().strip(" \t\n*_`\"'.!")
    return _VERDICTS.get(re.sub(r"[\s_-]+", "_", bare))


def _confidence(value: object) -> float | None:
    """A probability from 0.95, 95, "95%", "95/100" or "9.5/10"; None for anything else.

    A number above 1 is a percentage; between 1 and 2 it could be either, so that only whole ones count. Words ("high")
    are no measurement.
    """
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    if isinstance(value, str):
        return _spelt(unicodedata.normalize("NFKC", value).strip(" \t\n*_`\"'"))
    number = float(value) if abs(value) < 1e6 else math.inf
    return _scaled(number, 0)


def _spelt(text: str) -> float | None:
    found = _NUMBER.fullmatch(text)
    if found is None:
        return None
    scale = (found["scale"] or "").replace(" ", "").removesuffix(".0")
    return _scaled(float(found["number"]), {"": 0, "%": 100, "/100": 100, "/10": 10, "/1": 1}[scale])


def _scaled(number: float, scale: int) -> float | None:
    """Bring a number to 0 … 1; scale 0 is to be told from the number itself."""
    if not math.isfinite(number) or number < 0:
        return None
    if not scale:
        if 1 < number < 2:
            return None
        scale = 1 if number <= 1 else 100
    return number / scale if number <= scale else None


def _reasons(found: dict[str, Any]) -> tuple[JudgeReason, ...]:
    """Codes and sentences in the shapes that models give them; unknown codes become `other`."""
    given = found.get("reasons", found.get("reason_codes", ()))
    items = given if isinstance(given, list | tuple) else (given,)
    reasons = [reason for reason in map(_reason, items[:_MOST_REASONS]) if reason]
    spoken = (found.get(name) for name in ("explanation", "reasoning", "rationale", "reason"))
    detail = next((_sentence(text) for text in spoken if isinstance(text, str) and text.strip()), "")
    if detail and not reasons:
        return (JudgeReason(code=ReasonCode.OTHER.value, detail=detail),)
    if detail and not reasons[0].detail:
        reasons[0] = JudgeReason(code=reasons[0].code, detail=detail)
    return tuple(reasons)


def _reason(item: object) -> JudgeReason | None:
    if isinstance(item, dict):
        text = next((item[name] for name in ("detail", "explanation", "text") if isinstance(item.get(name), str)), "")
        code = _reason_code(item.get("code"))
        named = str(item.get("code") or "") if code is ReasonCode.OTHER else ""
        return JudgeReason(code=code.value, detail=_sentence(text or named))
    if not isinstance(item, str) or not item.strip():
        return None
    code = _reason_code(item)
    known = code is not ReasonCode.OTHER or item.strip().casefold() == ReasonCode.OTHER.value
    return JudgeReason(code=code.value, detail="" if known else _sentence(item))


def _reason_code(value: object) -> ReasonCode:
    word = re.sub(r"[\s_-]+", "_", value.strip().casefold()) if isinstance(value, str) else ""
    return ReasonCode(word) if word in set(ReasonCode) else ReasonCode.OTHER


def _sentence(text: str) -> str:
    """One line, without what a reader does not see, cut at 500 characters."""
    line = " ".join(clean(text[: 4 * _LONGEST_DETAIL]).split())
    return line if len(line) <= _LONGEST_DETAIL else line[: _LONGEST_DETAIL - 1] + "…"
