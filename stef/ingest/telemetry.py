"""OpenTelemetry spans and log records (OTLP JSON, GenAI and database conventions) and OpenInference.

Read: whole exports (`resourceSpans`), single spans, and rows with flattened attribute names. Of the spans of one trace
in a message, those are records that hold a question and its SQL; a tool's or a database's span gives its SQL to the
question of its trace.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from stef.ingest.content import answer_in, answer_of, argument_of, is_sql, question_in, question_of, turns_of
from stef.ingest.decode import opened
from stef.ingest.draft import QUESTION, SQL, Draft, Object, fill, find
from stef.ingest.moments import moment

_BATCHES = ("resourceSpans", "resource_spans", "resourceLogs", "resource_logs")
_SCOPES = ("scopeSpans", "scope_spans", "scopeLogs", "scope_logs", "instrumentationLibrarySpans")
_SPANS = ("spans", "logRecords", "log_records")
_MARKS = (
    "gen_ai.",
    "llm.",
    "openinference.",
    "input.value",
    "output.value",
    "db.",
    "traceloop.",
    "tool.",
    "ai.prompt",
    "ai.response",
)
_MODEL_MARKS = ("gen_ai.", "llm.", "openinference.", "input.value", "traceloop.", "ai.prompt", "ai.response")
_INPUTS = (
    "gen_ai.input.messages", "llm.input_messages", "gen_ai.prompt", "ai.prompt.messages", "ai.prompt",
    "langfuse.observation.input",
    "mlflow.spanInputs", "traceloop.entity.input", "input.value", "llm.prompts",
)  # fmt: skip
_OUTPUTS = (
    "gen_ai.output.messages", "llm.output_messages", "gen_ai.completion", "ai.response.toolCalls", "ai.response.text",
    "langfuse.observation.output", "mlflow.spanOutputs", "traceloop.entity.output", "output.value", "llm.completions",
)  # fmt: skip
_TOOL_SQL = (
    "gen_ai.tool.call.arguments",
    "tool.parameters",
    "tool_call.function.arguments",
    "db.query.text",
    "db.statement",
)
_EVENTS = {
    "gen_ai.user.message": "user", "gen_ai.system.message": "system", "gen_ai.assistant.message": "assistant",
    "gen_ai.choice": "assistant",
}  # fmt: skip
_FIELDS = {
    "agent": ("gen_ai.agent.name", "service.name"),
    "agent_version": ("gen_ai.agent.version", "service.version"),
    "dialect": ("db.system.name", "db.system"),
    "database": ("db.namespace", "db.name"),
}
_STARTS = (
    "startTimeUnixNano",
    "start_time_unix_nano",
    "startTime",
    "start_time",
    "timeUnixNano",
    "time_unix_nano",
    "timestamp",
)
# Flattened names are put together again to this depth; real ones need eight.
_MAX_NESTED = 20
_SCALARS = ("stringValue", "intValue", "doubleValue", "boolValue", "bytesValue")


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """One span (or log record) with flat attributes; ids as logged, without `0x`."""

    raw: Object
    attributes: Object
    resource: Object = field(default_factory=dict)
    trace_id: str | None = None
    span_id: str | None = None


def telemetry(obj: Object) -> list[Draft] | None:
    """Read a batch of spans, or one; None when it is neither."""
    spans = list(_spans(obj))
    if not spans:
        return [] if any(isinstance(obj.get(name), list) for name in _BATCHES) else None
    traces: dict[object, list[Span]] = {}
    for number, span in enumerate(spans):
        traces.setdefault(span.trace_id or number, []).append(span)
    drafts = [draft for group in traces.values() for draft in _records(group)]
    # Spans that are no model's are passed over, unless there is nothing else.
    return drafts or [_draft(spans[0], None, None)]


def _spans(obj: Object) -> Iterator[Span]:
    if "attributes" in obj and not any(name in obj for name in (*_BATCHES, *_SCOPES)):
        if (span := _single(obj)) is not None:
            yield span
        return
    resources = next((obj[name] for name in _BATCHES if isinstance(obj.get(name), list)), None)
    if resources is None:
        resources = [obj]
    for entry in _objects(resources):
        resource = _resource(entry)
        scopes = [scope for name in _SCOPES for scope in _objects(entry.get(name))] or [entry]
        for raw in (raw for scope in scopes for name in _SPANS for raw in _objects(scope.get(name))):
            yield _span(raw, attributes_of(raw.get("attributes")), resource)
    if resources == [obj] and (row := _row(obj)) is not None:
        yield row


def _objects(value: object) -> list[Object]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _resource(entry: Object) -> Object:
    resource = entry.get("resource")
    return attributes_of(resource.get("attributes")) if isinstance(resource, dict) else {}


def _single(obj: Object) -> Span | None:
    attributes = attributes_of(opened(obj["attributes"]))
    timed = any(name in obj for name in ("spanId", "span_id", "context")) and any(name in obj for name in _STARTS)
    named = find(obj, QUESTION)
    if named is not None and isinstance(obj[named], str):
        return None
    if timed or any(name.startswith(_MARKS) for name in attributes):
        return _span(obj, attributes, _resource(obj))
    return None


def _row(obj: Object) -> Span | None:
    """A row of a table: attribute names as columns, with or without `attributes.` in front."""
    if not any("." in name and name.removeprefix("attributes.").startswith(_MARKS) for name in obj):
        return None
    flat = {name.removeprefix("attributes."): value for name, value in _flat(obj).items()}
    content = {name: value for name, value in flat.items() if name not in obj or name.startswith(_MARKS)}
    return _span({name: value for name, value in obj.items() if name not in content}, content, {})


def _span(raw: Object, attributes: Object, resource: Object) -> Span:
    context = raw.get("context")
    holder = {**attributes, **raw, **(context if isinstance(context, dict) else {})}
    trace, span = (
        next((str(holder[name]) for name in names if isinstance(holder.get(name), str) and holder[name]), None)
        for names in (("traceId", "trace_id", "context.trace_id"), ("spanId", "span_id", "context.span_id"))
    )
    return Span(
        raw=raw,
        attributes=attributes,
        resource=resource,
        trace_id=trace.removeprefix("0x") if trace else None,
        span_id=span.removeprefix("0x") if span else None,
    )


def attributes_of(value: object) -> Object:
    """Attributes as a flat object: from a key/value list, or from objects in objects."""
    if isinstance(value, list):
        return {
            str(item["key"]): _any_value(item.get("value"))
            for item in _objects(value)
            if isinstance(item.get("key"), str)
        }
    return _flat(value) if isinstance(value, dict) else {}


def _any_value(value: object) -> object:
    if not isinstance(value, dict):
        return value
    for name in _SCALARS:
        if name in value:
            whole = name == "intValue" and isinstance(value[name], str) and len(value[name]) < 20
            return int(value[name]) if whole and value[name].lstrip("-").isdecimal() else value[name]
    if isinstance(array := value.get("arrayValue"), dict):
        members = array.get("values")
        return [_any_value(member) for member in members] if isinstance(members, list) else []
    if isinstance(pairs := value.get("kvlistValue"), dict):
        return {str(item.get("key")): _any_value(item.get("value")) for item in _objects(pairs.get("values"))}
    return value or None


def _flat(value: Object, prefix: str = "") -> Object:
    flat: Object = {}
    for name, member in value.items():
        if isinstance(member, dict) and member:
            flat.update(_flat(member, f"{prefix}{name}."))
        else:
            flat[prefix + name] = member
    return flat


def _tree(attributes: Object, name: str) -> object:
    """The value of an attribute, put together again where it is flattened (`llm.input_messages.0.message.role`)."""
    if attributes.get(name) is not None:
        value = opened(attributes[name])
        return (
            [_nested(item) if isinstance(item, dict) else item for item in value] if isinstance(value, list) else value
        )
    start = name + "."
    parts = {key.removeprefix(start): value for key, value in attributes.items() if key.startswith(start)}
    return _nested(parts) if any(key.split(".", 1)[0].isdecimal() for key in parts) else None


def _nested(flat: Object, depth: int = 0) -> object:
    """Turn dotted names into objects, and numbered ones into lists in the order of their numbers."""
    groups: dict[str, Object] = {}
    plain: dict[str, object] = {}
    for name, value in flat.items():
        head, dot, rest = name.partition(".")
        if dot and depth < _MAX_NESTED:
            groups.setdefault(head, {})[rest] = value
        else:
            plain[name] = value
    members = {**plain, **{head: _nested(rest, depth + 1) for head, rest in groups.items()}}
    if members and all(head.isdecimal() and len(head) < 10 for head in members):
        return [members[head] for head in sorted(members, key=int)]
    return members


def _events(span: Span) -> Object:
    """Content that stands in events: their attributes, and a conversation put together from them."""
    found: Object = {}
    turns: list[object] = []
    for event in _objects(span.raw.get("events")):
        attributes = attributes_of(event.get("attributes"))
        found.update({name: value for name, value in attributes.items() if name in (*_INPUTS, *_OUTPUTS)})
        role = _EVENTS.get(str(event.get("name")))
        if role is not None:
            message = opened(attributes.get("message"))
            body = message if isinstance(message, dict) else attributes
            turns.append({**body, "role": role})
    return {"turns": turns, **found} if turns else found


def _stated(span: Span, aliases: tuple[str, ...]) -> str | None:
    """A text that an attribute or a column names outright."""
    for holder in (span.attributes, span.raw):
        name = find(holder, aliases)
        if name is not None and isinstance(holder[name], str):
            return str(holder[name])
    return None


def _asked(span: Span, events: Object) -> str | None:
    if (stated := _stated(span, QUESTION)) is not None:
        return stated
    trees = (_tree(holder, name) for holder in (span.attributes, events) for name in _INPUTS)
    found = next((text for tree in trees if tree is not None and (text := question_of(tree))), None)
    return found or question_in(turns_of(events.get("turns")))


def _answered(span: Span, events: Object) -> str | None:
    if (stated := _stated(span, SQL)) is not None:
        return stated
    trees = (_tree(holder, name) for holder in (span.attributes, events) for name in _OUTPUTS)
    texts = [text for tree in trees if tree is not None and (text := answer_of(tree))]
    said = answer_in(turns_of(events.get("turns")))
    texts = [*texts, said] if said else texts
    return next((text for text in texts if is_sql(text)), texts[0] if texts else None)


def _is_tool(span: Span) -> bool:
    kind = span.attributes.get("openinference.span.kind") or span.raw.get("span_kind")
    return (
        kind == "TOOL"
        or span.attributes.get("gen_ai.operation.name") == "execute_tool"
        or "tool.parameters" in span.attributes
    )


def _is_model(span: Span) -> bool:
    kind = span.attributes.get("openinference.span.kind") or span.raw.get("span_kind")
    if (
        str(kind) in {"EMBEDDING", "RETRIEVER", "RERANKER"}
        or span.attributes.get("gen_ai.operation.name") == "embeddings"
    ):
        return False
    return any(name.startswith(_MODEL_MARKS) for name in span.attributes) or find(span.attributes, QUESTION) is not None


def _donated(span: Span) -> str | None:
    """The SQL of a tool's or a database's span."""
    names = (*_TOOL_SQL, "input.value") if _is_tool(span) else _TOOL_SQL
    found = (span.attributes.get(name) for name in names)
    return next((sql for value in found if value is not None and (sql := argument_of(value))), None)


def _records(group: list[Span]) -> list[Draft]:
    """The records of one trace."""
    read = []
    donors = []
    for span in group:
        events = _events(span)
        sql = _donated(span)
        if sql is not None:
            donors.append((span, sql))
        if _is_model(span) and not _is_tool(span):
            read.append((span, _asked(span, events), _answered(span, events) or sql))
    asked: dict[str, list[tuple[Span, str | None]]] = {}
    for span, question, answer in read:
        if question:
            asked.setdefault(question, []).append((span, answer))
    drafts = [draft for question, answers in asked.items() for draft in _settle(question, answers, donors)]
    if not drafts and donors:
        return [_draft(span, "", sql) for span, sql in donors[-1:]]
    return drafts or [_draft(span, None, answer) for span, _, answer in read[:1]]


def _settle(question: str, answers: list[tuple[Span, str | None]], donors: list[tuple[Span, str]]) -> list[Draft]:
    """One record per distinct SQL of a question; steps of the agent that wrote none are no records of their own."""
    written: dict[str, Span] = {}
    for span, answer in answers:
        if answer is not None and is_sql(answer):
            written.setdefault(answer, span)
    if written:
        return [_draft(span, question, sql) for sql, span in written.items()]
    span, answer = answers[-1]
    if not donors:
        return [_draft(span, question, answer)]
    donor, sql = donors[-1]
    draft = _draft(answers[0][0], question, sql)
    _put_fields(draft, donor)
    return [draft]


def _put_fields(draft: Draft, span: Span) -> None:
    for target, names in _FIELDS.items():
        for name in names:
            draft.put(target, span.attributes.get(name) or span.resource.get(name) or None)


def _draft(span: Span, question: str | None, sql: str | None) -> Draft:
    fields: Object = {"question": question or "", "sql": sql, "trace_id": span.trace_id, "span_id": span.span_id}
    draft = Draft(source={**span.raw, "attributes": span.attributes, "resource": span.resource}, fields=fields)
    draft.put("asked_at", next((span.raw[name] for name in _STARTS if moment(span.raw.get(name)) is not None), None))
    _put_fields(draft, span)
    content = (*_INPUTS, *_OUTPUTS, *_TOOL_SQL[:3])
    rest = {
        name: value
        for name, value in span.attributes.items()
        if not any(name == known or name.startswith(known + ".") for known in content)
    }
    used = {
        *(name for names in _FIELDS.values() for name in names),
        find(rest, QUESTION) or "",
        find(rest, SQL) or "",
    }
    fill(draft, rest, used=used, path="attributes", beside=True)
    metadata = opened(span.attributes.get("metadata"))
    if isinstance(metadata, dict):
        draft.metadata.pop("metadata", None)
        fill(draft, metadata, path="metadata", beside=True)
    fill(draft, span.resource, used=used, path="resource", beside=True)
    taken = {
        *_STARTS,
        "traceId",
        "trace_id",
        "spanId",
        "span_id",
        "attributes",
        "events",
        "resource",
        "context",
        "context.trace_id",
        "context.span_id",
    }
    for name, value in span.raw.items():
        if name not in taken and value is not None:
            draft.keep(name, value, "span")
    return draft
