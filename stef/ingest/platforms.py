"""Exports of tracing platforms and replies of SQL assistants.

Langfuse observations and traces, LangSmith runs, LangChain chains and tools, Snowflake Cortex Analyst, Databricks
Genie, and logged chat completions.
"""

from __future__ import annotations

from collections.abc import Iterable

from stef.ingest.content import (
    Turn,
    answer_in,
    answer_of,
    argument_of,
    is_sql,
    question_in,
    question_of,
    turn_of,
    turns_of,
)
from stef.ingest.decode import opened
from stef.ingest.draft import QUESTION, SQL, Draft, Object, fill, find

_LANGFUSE_TYPES = frozenset({"GENERATION", "SPAN", "EVENT", "AGENT", "TOOL", "CHAIN", "TRACE"})
_LANGFUSE_NAMES = frozenset(
    {"traceId", "trace_id", "parentObservationId", "observations", "usageDetails", "sessionId", "htmlPath", "projectId"}
)
_CORTEX_TYPES = frozenset({"text", "sql", "suggestions", "suggestion"})
_BESIDE = ("metadata", "extra", "kwargs", "response_metadata")


def langsmith(obj: Object) -> list[Draft] | None:
    """Read a LangSmith run, or what a LangChain agent returned (`intermediate_steps`)."""
    inputs, outputs = opened(obj.get("inputs")), opened(obj.get("outputs"))
    if "run_type" in obj or (isinstance(inputs, dict) and isinstance(outputs, dict) and "run_id" in obj):
        if obj.get("run_type") == "tool":
            return [_exchange(obj, _stated(obj), argument_of(inputs) or _sql_or_none(outputs), ("inputs", "outputs"))]
        draft = _exchange(obj, question_of(inputs) or _stated(obj), _run_answer(obj, outputs), ("inputs", "outputs"))
        _add_dialect(draft, outputs)
        return [draft]
    if isinstance(obj.get("intermediate_steps"), list):
        steps = {name: obj[name] for name in ("intermediate_steps", "output", "result") if name in obj}
        used = ("query", "input", "question", *steps)
        asked = next((obj[name] for name in ("question", "input", "query") if obj.get(name) is not None), None)
        draft = _exchange(obj, question_of(asked), answer_of(steps), used)
        _add_dialect(draft, obj)
        return [draft]
    return None


def _add_dialect(draft: Draft, holder: object) -> None:
    """The dialect that a SQL chain names in its steps."""
    steps = holder.get("intermediate_steps") if isinstance(holder, dict) else None
    for step in steps if isinstance(steps, list) else ():
        if isinstance(step, dict) and isinstance(step.get("dialect"), str):
            draft.put("dialect", step["dialect"])


def _run_answer(obj: Object, outputs: object) -> str | None:
    """The SQL of a run: its output, else that of the runs in it."""
    answer = answer_of(outputs)
    if is_sql(answer):
        return answer
    children = obj.get("child_runs")
    inner = [child for child in reversed(children) if isinstance(child, dict)] if isinstance(children, list) else []
    found = (argument_of(child.get("inputs")) or answer_of(child.get("outputs")) for child in inner)
    return next((sql for sql in found if is_sql(sql)), answer)


def _sql_or_none(value: object) -> str | None:
    answer = answer_of(value)
    return answer if is_sql(answer) else None


def _stated(obj: Object) -> str | None:
    """A question that stands beside the input: at the top or among the metadata."""
    for holder in (obj, *(bag for _, bag in _bags(obj))):
        name = find(holder, QUESTION)
        if name is not None and isinstance(holder[name], str):
            return str(holder[name])
    return None


def langchain_tool(obj: Object) -> list[Draft] | None:
    """Read the call of a SQL tool: `query` in its arguments is SQL."""
    name = next((name for name in ("tool_input", "toolInput", "tool_args") if name in obj), None)
    if name is None:
        return None
    asked = _stated(obj) or (question_of(obj.get("input")) if not is_sql(obj.get("input")) else None)
    return [_exchange(obj, asked, argument_of(obj[name]), (name, "input"))]


def langfuse(obj: Object) -> list[Draft] | None:
    """Read a Langfuse observation, or a trace with the observations in it."""
    if not ({"input", "output"} & obj.keys()):
        return None
    if str(obj.get("type")) not in _LANGFUSE_TYPES and not (_LANGFUSE_NAMES & obj.keys()):
        return None
    if find(obj, SQL) is not None:
        return None
    asked, said = question_of(obj.get("input")), answer_of(obj.get("output"))
    if obj.get("type") == "TOOL":
        said = argument_of(obj.get("input")) or said
        asked = None if asked is not None and is_sql(asked) else asked
    observations = obj.get("observations")
    if isinstance(observations, list):
        inner = [item for item in observations if isinstance(item, dict)]
        asked = asked or next((found for item in inner if (found := question_of(item.get("input")))), None)
        if not is_sql(said):
            outputs = (argument_of(item.get("input")) or answer_of(item.get("output")) for item in reversed(inner))
            said = next((sql for sql in outputs if is_sql(sql)), said)
    return [_exchange(obj, asked or _stated(obj), said, ("input", "output", "observations"))]


def cortex_analyst(obj: Object) -> list[Draft] | None:
    """Read a Cortex Analyst reply; one without a `sql` part asks back and has no SQL."""
    holder = obj.get("response") if isinstance(obj.get("response"), dict) else obj
    message = opened(holder.get("message")) if isinstance(holder, dict) else None
    content = message.get("content") if isinstance(message, dict) else obj.get("content")
    parts = [part for part in content if isinstance(part, dict)] if isinstance(content, list) else []
    telling = _is_analyst(message) or any("statement" in part or "suggestions" in part for part in parts)
    if not parts or not telling or not all(str(part.get("type")) in _CORTEX_TYPES for part in parts):
        return None
    sql = next((part["statement"] for part in reversed(parts) if part.get("statement")), None)
    request = obj.get("request") if isinstance(obj.get("request"), dict) else obj
    asked = _stated(obj) or question_in(_conversation(request))
    draft = _exchange(obj, asked, sql, ("message", "request", "response", "messages"))
    texts = [part["text"] for part in parts if isinstance(part.get("text"), str)]
    draft.keep("reply", "\n".join(texts))
    if isinstance(holder, dict) and holder is not obj:
        fill(draft, holder, used=("message",), path="response", own=False)
    return [draft]


def _is_analyst(message: object) -> bool:
    return isinstance(message, dict) and message.get("role") == "analyst"


def genie(obj: Object) -> list[Draft] | None:
    """Read a Genie message: `content` is the question, `attachments[].query.query` the SQL."""
    attachments = opened(obj.get("attachments"))
    parts = [part for part in attachments if isinstance(part, dict)] if isinstance(attachments, list) else []
    queries = [part["query"] for part in parts if isinstance(part.get("query"), dict)]
    if not queries and not any(isinstance(part.get("text"), dict) for part in parts):
        return None
    sql = next((query["query"] for query in reversed(queries) if query.get("query")), None)
    content = obj.get("content")
    draft = _exchange(obj, content if isinstance(content, str) else _stated(obj), sql, ("content", "attachments"))
    draft.put("dialect", "databricks")
    draft.keep(
        "attachments",
        [
            {**part, "query": {**part["query"], "query": None}} if part.get("query") in queries else part
            for part in parts
        ],
    )
    return [draft]


def chat(obj: Object) -> list[Draft] | None:
    """Read a logged chat completion: messages, and the reply among or beside them."""
    request = opened(obj.get("request"))
    turns = list(_conversation(obj)) or (list(_conversation(request)) if isinstance(request, dict) else [])
    if not turns:
        return None
    used = ["messages", "request", "choices", *(name for name in ("input", "prompt") if turns_of(obj.get(name)))]
    said = answer_in(turns)
    for name in ("choices", "response", "output", "completion", "answer", "result", "reply", "message", "generation"):
        answer = answer_of(obj[name]) if obj.get(name) is not None else None
        if answer is not None:
            said = answer if said is None or is_sql(answer) or not is_sql(said) else said
            used.append(name)
    stated = find(obj, SQL)
    if stated is not None:
        said = answer_of(obj[stated])
        used.append(stated)
    return [_exchange(obj, _stated(obj) or question_in(turns), said, used)]


def _conversation(obj: object) -> tuple[Turn, ...]:
    if not isinstance(obj, dict):
        return ()
    found = (
        turns_of(obj[name])
        for name in ("messages", "input", "prompt", "conversation", "history")
        if isinstance(opened(obj.get(name)), list)
    )
    return next((turns for turns in found if turns), ())


def transcript(values: list[object]) -> list[Draft] | None:
    """Read a list of messages as one record."""
    turns = [turn_of(value) if isinstance(value, dict) and "role" in value else None for value in values]
    known = [turn for turn in turns if turn is not None]
    if not known or len(known) != len(turns):
        return None
    return [Draft(source=values, fields={"question": question_in(known) or "", "sql": answer_in(known)})]


def _exchange(obj: Object, question: object, sql: object, used: Iterable[str]) -> Draft:
    """A record of what went in and came out; content that was not logged leaves an empty question."""
    draft = Draft(source=obj, fields={"question": question or "", "sql": sql})
    bags = _bags(obj)
    stated = find(obj, QUESTION)
    fill(draft, obj, used={*used, *(name for name, _ in bags), *((stated,) if stated else ())})
    for name, bag in bags:
        asked = find(bag, QUESTION)
        fill(draft, bag, used=(asked,) if asked and bag[asked] == question else (), path=name, beside=True)
    return draft


def _bags(obj: Object) -> list[tuple[str, Object]]:
    """Bags of loose facts of an object, and the `metadata` in its `extra`."""
    bags: list[tuple[str, Object]] = []
    for name in _BESIDE:
        bag = opened(obj.get(name))
        if isinstance(bag, dict):
            inner = bag.get("metadata")
            if name == "extra" and isinstance(inner, dict):
                bags.append(("extra.metadata", inner))
                bag = {key: value for key, value in bag.items() if key != "metadata"}
            bags.append((name, bag))
    return bags
