"""Finds the question and the SQL in what goes into a model and comes out of it.

The question is the last thing that the user says, not the system prompt. The SQL is what the assistant writes last that
looks like SQL: a tool's argument, or a message with its prose and fences, as logged. Where nothing looks like SQL the
last message stands (a refusal is told apart elsewhere).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from stef.ingest.decode import opened
from stef.ingest.draft import QUESTION, SQL, Object, find, fold, folded

_MAX_DEPTH = 12
_HEAD = 20_000
_STRONG = re.compile(
    r"""```\s*sql\b | ```\s*(?:select|with)\b | \A[\s("'`]*+(?:sql(?:query)?\s*+:?\s*+)?
        # Possessive: the comments before a statement can be cut in one way only.
        (?>/\*.{0,2000}?\*/\s*+|--[^\n]*+\n\s*+)*+
        (?:select\s+(?!the\b|a\b|an\b)|with\s+(?:recursive\s+)?["\w]+\s*+(?:\([^)]{0,500}\)\s*+)?as\s*+
            (?:not\s+)?(?:materialized\s*+)?\(|insert\s+into\b|delete\s+from\b|update\s+[\w."]+\s+set\b|
            merge\s+into\b|create\s+(?:or\s+replace\s+)?(?:temp\w*\s+)?(?:table|view)\b|alter\s+table\b|
            drop\s+(?:table|view|schema|database)\b|truncate\s+table\b|explain\s+(?:analyze|select|with)\b|
            declare\s+@|exec(?:ute)?\s+(?:immediate\b|\w+[._]\w)|call\s+[\w.]+\s*+\(|from\s+[\w.]+\s+select\b)""",
    re.IGNORECASE | re.VERBOSE | re.DOTALL,
)
_WEAK = re.compile(r"(?i:\bselect\b.{1,2000}?\bfrom\b|\bselect\s+[\d(*'\"])|\bSELECT\b", re.DOTALL)
_ASKED = re.compile(
    r"^[ \t]*+(?:user(?:'s)?[ _]?)?(?:question|request|query)[ \t]*:[ \t]*(\S[^\n]*)$", re.IGNORECASE | re.MULTILINE
)
_SCHEMA = re.compile(r"\bcreate table\b", re.IGNORECASE)
# How a prompt ends that waits for SQL.
_TRAILER = re.compile(r"\bsql ?(?:query)?[ ]?:\Z", re.IGNORECASE)
_TAIL = 20
_REPR = re.compile(r"""\{\s*['"](?:query|sql|statement)['"]\s*:\s*(['"])(.*)\1\s*\}""", re.DOTALL)

_ROLES = {
    "human": "user", "user": "user", "ai": "assistant", "assistant": "assistant", "analyst": "assistant",
    "model": "assistant",
    "aimessage": "assistant", "aimessagechunk": "assistant", "humanmessage": "user", "bot": "assistant",
    "system": "system",
    "systemmessage": "system", "developer": "system", "tool": "tool", "function": "tool", "toolmessage": "tool",
}  # fmt: skip
_CALLS = frozenset({"tool_call", "tool_use", "function_call", "toolCall"})
# Where a question may stand in an input, and SQL in an output, after the names that say so.
_ASKING = (
    "messages", "chatinput", "humaninput", "input", "query", "prompts", "text", "content", "contents", "inputs",
    "kwargs", "args", "request",
)  # fmt: skip
_ANSWERING = (
    "toolcalls", "functioncall", "toolinput", "intermediatesteps", "sqlresult", "messages", "generations", "choices",
    "message", "attachments", "query", "output", "outputs", "result", "answer", "response", "completion", "arguments",
    "input", "text", "content", "contents", "parts", "data", "value", "kwargs", "function", "generation",
)  # fmt: skip


def is_sql(text: object) -> bool:
    """Whether a text is SQL or holds some; a guess from its first characters, made to choose between candidates."""
    if not isinstance(text, str):
        return False
    head = text[:_HEAD]
    return _STRONG.search(head) is not None or _WEAK.search(head) is not None


def is_statement(text: object) -> bool:
    """Whether a text begins as SQL or has it in a fence: stricter than `is_sql`."""
    return isinstance(text, str) and _STRONG.search(text[:_HEAD]) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One message of a conversation: its role (user, assistant, system, tool, ""), text, and SQL given to tools."""

    role: str
    text: str
    calls: tuple[str, ...] = ()


def turn_of(value: object) -> Turn | None:
    """Read a message as OpenAI, Anthropic, LangChain, OpenTelemetry, OpenInference or Cortex Analyst write it."""
    if not isinstance(value, dict):
        return None
    body: Object = value
    role = value.get("role") or value.get("type")
    if isinstance(value.get("kwargs"), dict) and isinstance(value.get("id"), list):
        body, role = value["kwargs"], (value["id"] or [""])[-1]
    elif isinstance(value.get("data"), dict) and "content" in value["data"]:
        body = value["data"]
    elif isinstance(value.get("message"), dict):
        body, role = value["message"], value["message"].get("role", role)
    known = _ROLES.get(fold(role)) if isinstance(role, str) else None
    if known is None:
        return None
    content = next(
        (body[name] for name in ("content", "parts", "contents", "text") if body.get(name) is not None), None
    )
    return Turn(role=known, text=_text(content), calls=tuple(_calls(body, content)))


def turns_of(value: object) -> tuple[Turn, ...]:
    """Read a list of messages; () when it is none. Of a list of conversations the last one counts."""
    value = opened(value)
    if not isinstance(value, list) or not value:
        return ()
    if isinstance(value[-1], list):
        return turns_of(value[-1])
    turns = [turn_of(item) for item in value]
    return tuple(turn for turn in turns if turn is not None)


def _text(content: object) -> str:
    if isinstance(content, str):
        return content
    if isinstance(content, dict):
        return _part_text(content)
    if isinstance(content, list):
        texts = [
            part if isinstance(part, str) else _part_text(part) for part in content if isinstance(part, str | dict)
        ]
        return "\n".join(text for text in texts if text)
    return ""


def _part_text(part: Object) -> str:
    inner = part.get("message_content")
    part = inner if isinstance(inner, dict) else part
    if str(part.get("type", "text")) not in {"text", "input_text", "output_text", "refusal"}:
        return ""
    found = next(
        (part[name] for name in ("text", "content", "value", "refusal") if isinstance(part.get(name), str)), ""
    )
    return str(found)


def _calls(body: Object, content: object) -> Iterable[str]:
    extra = body.get("additional_kwargs")
    for holder in (body, extra):
        if isinstance(holder, dict):
            listed = holder.get("tool_calls")
            yield from _sql_of_calls([*(listed if isinstance(listed, list) else ()), holder.get("function_call")])
    if isinstance(content, list):
        for part in content:
            if isinstance(part, dict) and str(part.get("type")) in _CALLS:
                yield from _sql_of_calls([part])
            elif isinstance(part, dict) and part.get("type") == "sql" and isinstance(part.get("statement"), str):
                yield part["statement"]


def _sql_of_calls(calls: list[object]) -> Iterable[str]:
    for call in calls:
        inner = call.get("tool_call", call) if isinstance(call, dict) else None
        inner = inner.get("function", inner) if isinstance(inner, dict) else None
        if isinstance(inner, dict):
            argument = next(
                (inner[name] for name in ("arguments", "input", "args", "toolInput") if inner.get(name) is not None),
                None,
            )
            sql = argument_of(argument)
            if sql is not None:
                yield sql


def argument_of(argument: object) -> str | None:
    """The SQL among a tool's arguments (`query` is SQL here), or None."""
    argument = opened(argument)
    if isinstance(argument, str):
        printed = _REPR.fullmatch(argument.strip())
        text = printed[2].replace("\\n", "\n").replace("\\'", "'") if printed else argument
        return text if is_sql(text) else None
    if not isinstance(argument, dict):
        return None
    name = find(argument, SQL)
    if name is not None and isinstance(argument[name], str):
        return str(argument[name])
    name = find(argument, ("query", "command", "code", "input", "toolinput", "arguments", "kwargs"))
    return argument_of(argument[name]) if name is not None else None


def bare_question(text: str) -> str:
    """Take the question out of a whole prompt that ends in `Question: …`; other texts stay as they are."""
    text = text.strip()
    trailer = _TRAILER.search(text[-_TAIL:])
    if trailer is not None or _SCHEMA.search(text):
        asked: list[str] = _ASKED.findall(text)
        if asked:
            return asked[-1].strip()
    return text[: len(text) - len(trailer[0])].rstrip() if trailer is not None else text


def question_in(turns: Iterable[Turn]) -> str | None:
    """The last user message that has a text."""
    asked = [turn.text for turn in turns if turn.role == "user" and turn.text.strip()]
    return bare_question(asked[-1]) if asked else None


def answer_in(turns: Iterable[Turn]) -> str | None:
    """What the assistant says after the last question: the last SQL, else the last text."""
    said: list[Turn] = []
    for turn in turns:
        if turn.role == "user" and turn.text.strip():
            said = []
        elif turn.role == "assistant":
            said.append(turn)
    candidates = [text for turn in said for text in (turn.text, *turn.calls) if text.strip()]
    return _best(reversed(candidates))


def _best(candidates: Iterable[str]) -> str | None:
    """The first statement, else the first text with SQL in it, else the first text."""
    texts = list(candidates)
    for wanted in (is_statement, is_sql):
        found = next((text for text in texts if wanted(text)), None)
        if found is not None:
            return found
    return texts[0] if texts else None


def question_of(value: object, depth: int = 0) -> str | None:
    """The question in a model's input, whatever its shape; None when there is none."""
    value = opened(value)
    if depth > _MAX_DEPTH:
        return None
    if isinstance(value, str):
        return bare_question(value) or None
    if isinstance(value, list):
        if turns := turns_of(value):
            return question_in(turns)
        return question_of(value[-1], depth + 1) if value else None
    return _question_of_object(value, depth) if isinstance(value, dict) else None


def _question_of_object(value: Object, depth: int) -> str | None:
    turn = turn_of(value)
    if turn is not None:
        return question_in([turn])
    names = folded(value)
    said = [names[alias] for alias in QUESTION if alias in names]
    maybe = [names[alias] for alias in _ASKING if alias in names]
    for name in (*said, *maybe):
        found = question_of(value[name], depth + 1)
        if found and (name in said or not is_statement(found)):
            return found
    return None


def answer_of(value: object, depth: int = 0) -> str | None:
    """The SQL in a model's output, whatever its shape, else its last text; None when there is neither."""
    value = opened(value)
    if depth > _MAX_DEPTH:
        return None
    if isinstance(value, str):
        return (argument_of(value) or value) if value.strip() else None
    if isinstance(value, list):
        return _answer_of_list(value, depth)
    return _answer_of_object(value, depth) if isinstance(value, dict) else None


def _answer_of_list(value: list[object], depth: int) -> str | None:
    if turns := turns_of(value):
        return answer_in(turns)
    if len(value) == 2 and isinstance(value[0], dict) and ("tool" in value[0] or "kwargs" in value[0]):
        # An agent's step: the action and what it returned, which may quote SQL too.
        return answer_of(value[0], depth + 1)
    found = (answer_of(item, depth + 1) for item in reversed(value))
    return _best(text for text in found if text is not None)


def _answer_of_object(value: Object, depth: int) -> str | None:
    stated = find(value, SQL)
    if stated is not None and isinstance(value[stated], str | None):
        sql = value[stated]
        return sql if isinstance(sql, str) else None
    turn = turn_of(value)
    if turn is not None and (turn.text or turn.calls):
        return answer_in([turn])
    names = folded(value)
    found = []
    for alias in (*((fold(stated),) if stated is not None else ()), *(name for name in _ANSWERING if name in names)):
        text = answer_of(value[names[alias]], depth + 1)
        if text is not None and (alias not in {"query", "input"} or is_sql(text)):
            found.append(text)
    return _best(found)
