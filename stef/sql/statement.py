"""Lifts the statement to be scored out of what an agent logged as "SQL".

Agents log prose, code fences, transcripts, JSON, thinking, several candidates. The last statement that answers wins.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field

from stef.finding import Finding, FindingCode, finding
from stef.result import Reason
from stef.spec import Span

_HIDDEN = re.compile("[\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff\u00ad]")
_TYPOGRAPHIC = str.maketrans(
    {"‘": "'", "’": "'", "“": '"', "”": '"', "，": ",", "（": "(", "）": ")", "；": ";", "＝": "=", "＜": "<",
     "＞": ">", "＊": "*", "\u00a0": " ", "\u3000": " "}
)  # fmt: skip
_THINK = re.compile(r"<(think|thinking|reasoning)>.*?(?:</\1>|\Z)", re.IGNORECASE | re.DOTALL)
_FENCE = re.compile(r"```[ \t]*(?P<tag>[\w+-]*)[ \t]*\r?\n?(?P<body>.*?)(?P<end>```|\Z)", re.DOTALL)
_TRANSCRIPT = re.compile(r"\b(?:SQLQuery|SQL Query|SQL_QUERY|Final SQL|SQL)\s*:\s*", re.IGNORECASE)
_TRANSCRIPT_END = re.compile(
    r"\n\s*(?:SQLResult|SQL Result|Answer|Result|Observation|Explanation|Question)\s*:", re.IGNORECASE
)
_LEADING_WORD = re.compile(r"\A\s*(?:sql|sqlite|mysql|postgresql|postgres|tsql)\b[:\s]\s*(?=[(\w])", re.IGNORECASE)
_QUERY = r"(?:SELECT|WITH|FROM|VALUES|TABLE)"
_OTHER = (
    r"(?:INSERT|UPDATE|DELETE|MERGE|CREATE|DROP|ALTER|TRUNCATE|GRANT|REVOKE|CALL|EXEC|EXECUTE|BEGIN|COMMIT|ROLLBACK"
    r"|COPY|EXPLAIN|DESCRIBE|DESC|SHOW|PRAGMA|USE|SET|DECLARE|REPLACE|UNLOAD|LOAD|VACUUM|ANALYZE|LOCK|ATTACH|GO)"
)
_STARTS_SQL = re.compile(rf"\A[\s(;]*(?:{_QUERY}|{_OTHER})\b", re.IGNORECASE)
_ANSWERS = re.compile(rf"[\s(]*{_QUERY}\b", re.IGNORECASE)
_COMMENT_START = re.compile(r"\A\s*(?:--[^\n]*\n|/\*.*?\*/)", re.DOTALL)
# Inside prose only what can hardly be English counts as a beginning.
_IN_PROSE = re.compile(
    r"""(?:(?<=[:\n])[ \t]*|(?<=\s)|(?<=\())
        (?P<start>
            \(?\s*SELECT\b(?=[\s\S]{1,4000}?\bFROM\b)
          | WITH\s+(?:RECURSIVE\s+)?[\w"`]+\s*(?:\([^)]*\)\s*)?AS\s+(?:NOT\s+)?(?:MATERIALIZED\s*)?\(
          | INSERT\s+INTO\b
          | UPDATE\s+\S+\s+SET\b
          | DELETE\s+FROM\b
          | DROP\s+TABLE\b
        )""",
    re.DOTALL | re.VERBOSE,
)
_IN_PROSE_LINE = re.compile(
    r"(?:^|(?<=:))[ \t]*(?P<start>\b(?i:select)\b(?=[\s\S]{1,4000}?\b(?i:from)\b))", re.MULTILINE
)
_PROSE_TAIL = re.compile(
    r"""(?:;|\n[ \t]*\n|```)\s*
        (?=(?:This|The|It|Here|Note|Explanation|I|You|We|In|If|Let|That|These|Please|Hope|Result|Answer)\b[^;]*\Z)""",
    re.VERBOSE,
)
_PROSE_END = re.compile(
    r""";(?=\s*(?:\n|\Z|[A-Z][a-z]+\s))        # a semicolon, then prose
      | \n[ \t]*\n(?=\s*[A-Z][a-z]+\ [a-z])   # an empty line, then a sentence
      | (?<=\w)\.\s*\Z                        # the full stop of the sentence around it""",
    re.VERBOSE,
)
# English that begins with a word of SQL.
_ENGLISH = re.compile(
    r"""\A\s*(?:
        with\ (?:this|that|the|these|your|regards?|respect|all|no|my|a|an)\b
            (?!\s*(?:\([^()]*\)\s*)?as\s*(?:(?:not\s+)?materialized\s*)?\()   # `with a as (` is SQL in any case
      | from\ (?:the|this|what|your|a|an|my)\b
      | show\ (?:me|that)\b
      | set\ (?:the|up)\b
      | use\ (?:the|this)\b
      | select\ (?:the|this|an?|one\ of|your)\b(?!.*\bfrom\b)
      | call\ (?:me|us|the)\b
      | table\ \w+\ (?:does|is|has)\b
      | go\ to\b
      | values\ (?:are|in|for)\b
      | create\ (?:a|an)\ (?!table|view|index|unique)\b
      | (?:update|delete)\ (?:the|your)\b
      | describe\ (?:the|what|how)\b
      | explain\b(?!\ (?:select|with|analy[sz]e|query|plan|\())
    )""",
    re.IGNORECASE | re.DOTALL | re.VERBOSE,
)
_JSON_KEYS = (
    "sql", "sql_query", "sqlQuery", "generated_sql", "generatedSql", "query", "statement", "sql_cmd", "final_sql",
    "code",
)  # fmt: skip
_CUT_ENDS = (".", "…", "]", ">", ")")
_CUT = re.compile(r"(?:\.\.\.|…|\[truncated\]|<truncated>|\(truncated\))\s*\Z", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lifted:
    """What was found in the logged text.

    Attributes:
        sql: The block that answers, comments still inside; "" when there is none.
        others: Other blocks of SQL in the text: they do not answer, but they may write.
        reason: Why there is nothing to score, else None.
        detail: One sentence for the reason.
        findings: Hidden or typographic characters.
    """

    sql: str = ""
    others: tuple[str, ...] = ()
    reason: Reason | None = None
    detail: str = ""
    findings: tuple[Finding, ...] = field(default=())


def lift(logged: str | None, *, max_bytes: int = 262_144) -> Lifted:
    """Find the SQL to be scored.

    Args:
        logged: The field as logged.
        max_bytes: Longer texts are not read.
    """
    if logged is None or not logged.strip():
        return Lifted(reason=Reason.NO_SQL, detail="the record has no SQL")
    if len(logged) > max_bytes or (not logged.isascii() and len(logged.encode("utf-8", "replace")) > max_bytes):
        return Lifted(reason=Reason.TOO_LARGE, detail=f"more than {max_bytes} bytes")
    text, findings = _visible(logged)
    blocks = _blocks(text)
    if not blocks:
        return Lifted(reason=Reason.NO_SQL, detail="the text holds no SQL", findings=findings)
    answers = [block for block in blocks if _ANSWERS.match(_without_leading_comments(block))]
    chosen = answers[-1] if answers else blocks[-1]
    others = tuple(block for block in blocks if block is not chosen)
    if chosen.endswith(_CUT_ENDS) and _CUT.search(chosen):
        return Lifted(sql=chosen, others=others, reason=Reason.BROKEN, detail="the text is cut", findings=findings)
    straight, typographic = _straighten(chosen)
    return Lifted(sql=straight, others=others, findings=findings + typographic)


def _visible(text: str) -> tuple[str, tuple[Finding, ...]]:
    """Drop what cannot be seen: it can hide or reorder SQL for a human reader."""
    hidden = None if text.isascii() else _HIDDEN.search(text)
    if hidden is None:
        return text.replace("\x00", ""), ()
    detail = f"U+{ord(hidden.group()):04X} and perhaps others were removed"
    found = finding(FindingCode.HIDDEN_CHARACTERS, detail, Span(hidden.start(), hidden.end()))
    return _HIDDEN.sub("", text).replace("\x00", ""), (found,)


def _straighten(sql: str) -> tuple[str, tuple[Finding, ...]]:
    """Write typographic quotes and full-width marks outside of strings in ASCII: a parser takes them for names."""
    if sql.isascii():
        return sql, ()
    parts = re.split(r"('(?:[^']|'')*'|\"[^\"]*\"|`[^`]*`)", sql)
    straight = "".join(part if i % 2 else part.translate(_TYPOGRAPHIC) for i, part in enumerate(parts))
    if straight == sql:
        return sql, ()
    return straight, (finding(FindingCode.TYPOGRAPHIC_CHARACTERS, "quotes or marks that no database reads as such"),)


def _blocks(text: str) -> list[str]:
    """All stretches of SQL in a text, in order."""
    # Each pattern stands behind a mark that it needs: most texts are a statement and nothing else.
    text = (_THINK.sub(" ", text) if "<" in text else text).strip()
    text = _from_json(text)
    if "```" in text:
        found = _fenced(text)
        if found:
            return found
        text = _FENCE.sub(lambda m: _from_json(m["body"]), text).replace("```", " ").strip()
    text = _strip_prefix(text)
    if starts_sql(text) and not _reads_as_prose(text):
        return [_without_tail(text)]
    return _in_prose(text)


def _fenced(text: str) -> list[str]:
    """The code blocks that hold SQL."""
    bodies = (
        found["body"].strip()
        for found in _FENCE.finditer(text)
        if found["tag"].lower() not in {"json", "python", "text"}
    )
    return [block for block in (_strip_prefix(body) for body in bodies) if block and starts_sql(block)]


def _from_json(text: str) -> str:
    """Unwrap JSON around the SQL, and quotes around the whole."""
    for _ in range(3):
        inner = _inside_json(text) if text.startswith(("{", '"', "[")) else None
        if inner is None:
            break
        text = inner
    if len(text) > 1 and text[0] == text[-1] == "'" and _STARTS_SQL.match(text[1:]):
        return text[1:-1].strip()
    return text


def _inside_json(text: str) -> str | None:
    """What stands in a JSON string, or under one of the usual keys of an object; None when there is no such thing."""
    try:
        parsed = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if isinstance(parsed, list) and parsed:
        parsed = parsed[-1]
    if isinstance(parsed, dict):
        parsed = next((parsed[key] for key in _JSON_KEYS if isinstance(parsed.get(key), str | dict)), None)
    if isinstance(parsed, dict):
        return json.dumps(parsed)
    return parsed.strip() if isinstance(parsed, str) else None


def _strip_prefix(text: str) -> str:
    """Drop a bare language name, a transcript's label, and what follows its end."""
    if text[:6].upper() == "SELECT" and ":" not in text:
        return text.strip()
    label = _TRANSCRIPT.search(text)
    if label is not None and not starts_sql(text[: label.start()] or "x"):
        rest = text[label.end() :]
        end = _TRANSCRIPT_END.search(rest)
        text = rest[: end.start()] if end else rest
    elif (end := _TRANSCRIPT_END.search(text)) is not None and starts_sql(text):
        text = text[: end.start()]
    without = _LEADING_WORD.sub("", text, count=1)
    return (without if starts_sql(without) else text).strip()


def starts_sql(text: str) -> bool:
    """Whether a text begins with an SQL keyword, comments and brackets aside."""
    return _STARTS_SQL.match(_without_leading_comments(text)) is not None


def _without_leading_comments(text: str) -> str:
    while (found := _COMMENT_START.match(text)) is not None:
        text = text[found.end() :]
    return text


def _reads_as_prose(text: str) -> bool:
    return _ENGLISH.match(text) is not None


def _without_tail(text: str) -> str:
    """Cut off the explanation behind the statement."""
    found = _PROSE_TAIL.search(text) if ";" in text or "\n" in text or "`" in text else None
    return text[: found.start()].strip() if found else text.strip()


def _in_prose(text: str) -> list[str]:
    found = _IN_PROSE.search("\n" + text) or _IN_PROSE_LINE.search("\n" + text)
    if found is None:
        return []
    rest = ("\n" + text)[found.start("start") :]
    end = _PROSE_END.search(rest)
    return [rest[: end.start()].strip() if end else rest.strip()]
