"""Records that name their fields: snake, camel or kebab case, flat or spread over nested objects and envelopes."""

from __future__ import annotations

from stef.ingest.content import bare_question, is_sql, is_statement, question_of
from stef.ingest.decode import opened
from stef.ingest.draft import QUESTION, SQL, Draft, Object, fill, find, fold, folded, of_shape

# Objects that are looked into, as themselves or as JSON in a text.
CONTAINERS = frozenset(
    {
        "payload", "data", "body", "event", "record", "value", "message", "after", "detail", "log", "entry", "item",
        "content",
        "jsonpayload", "document", "envelope", "request", "response", "input", "output", "inputs", "outputs", "result",
        "trace", "generation", "prediction", "interaction", "query", "answer", "user", "nl2sql", "text2sql",
        "properties", "fields",
    }
)  # fmt: skip
# Bags of loose facts beside the record.
BESIDE = ("metadata", "meta", "context", "extra", "attributes", "labels")
# Mean a question or SQL only beside the other one.
_MAYBE_QUESTION = ("query", "input", "text", "message", "content", "request", "ask")
_MAYBE_SQL = (
    "query",
    "output",
    "answer",
    "response",
    "completion",
    "result",
    "generation",
    "prediction",
    "code",
    "text",
    "content",
)
_MAX_DEPTH = 8

Place = tuple[str, Object]


def native(obj: Object) -> list[Draft] | None:
    """Read a record that names its question or its SQL; None when it names neither."""
    places = _reachable(obj)
    question = _first(places, QUESTION)
    sql = _first(places, SQL)
    if question is None:
        question = _maybe_question(places, sql_known=sql is not None)
    if sql is None and question is not None:
        sql = _maybe_sql(places, question)
    if question is None and sql is None:
        return None
    draft = Draft(source=obj)
    draft.fields["question"] = None if question is None else _question(places[question[0]][1][question[1]])
    draft.fields["sql"] = None if sql is None else _sql(places[sql[0]][1][sql[1]])
    _fill_all(draft, places, [found for found in (question, sql) if found is not None])
    return [draft]


def is_container(name: str) -> bool:
    """Whether records may stand in a field of that name; `source` is where a change came from, `_source` a document."""
    return fold(name) in CONTAINERS or name == "_source"


def _containers(names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(name for name in names if is_container(name))


def _opened_beside(names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(name for name in names if is_container(name) or fold(name) in BESIDE)


def is_plain(obj: Object) -> bool:
    """Whether the object itself names both a question and SQL, so that nothing else need be tried."""
    question, sql = find(obj, QUESTION), find(obj, SQL)
    return question is not None and sql is not None and isinstance(obj[question], str) and "run_type" not in obj


def _reachable(obj: Object) -> list[Place]:
    """The object and the objects in its containers, nearest first."""
    places: list[Place] = [("", obj)]
    level = places
    for _ in range(_MAX_DEPTH):
        if not level:
            break
        level = [
            (f"{path}.{name}".lstrip("."), inner)
            for path, item in level
            for name in of_shape(_containers, item)
            if isinstance(inner := opened(item[name]), dict)
        ]
        places = [*places, *level]
    return places


def _first(places: list[Place], aliases: tuple[str, ...]) -> tuple[int, str] | None:
    """Index of the place and the name of the first alias; one with a value goes before one that is null."""
    found = [(index, name) for index, (_, item) in enumerate(places) if (name := find(item, aliases)) is not None]
    valued = [(index, name) for index, name in found if places[index][1][name] is not None]
    return next(iter(valued or found), None)


def _maybe_question(places: list[Place], *, sql_known: bool) -> tuple[int, str] | None:
    for index, (_, item) in enumerate(places):
        names = folded(item)
        answered = sql_known or any(is_sql(item[names[alias]]) for alias in _MAYBE_SQL if alias in names)
        # A lone `query` that is no SQL is a question; a lone `message` is just a line of some log.
        for name in (names[alias] for alias in (_MAYBE_QUESTION if answered else ("query",)) if alias in names):
            text = item[name]
            if isinstance(text, str) and text.strip() and not is_statement(text):
                return index, name
    return None


def _maybe_sql(places: list[Place], question: tuple[int, str]) -> tuple[int, str] | None:
    for index, (_, item) in enumerate(places):
        names = folded(item)
        for name in (names[alias] for alias in _MAYBE_SQL if alias in names):
            if (index, name) != question and is_sql(item[name]):
                return index, name
    return None


def _question(value: object) -> object:
    """The text of a question; what is none is left for the check of types."""
    if isinstance(value, str):
        if not value.strip():
            return None
        inner = opened(value)
        return bare_question(value) if isinstance(inner, str) else question_of(inner) or value
    if isinstance(value, dict) or (isinstance(value, list) and value and isinstance(value[0], dict)):
        return question_of(value) or value
    return value


def _sql(value: object) -> object:
    """The text of the SQL: as logged, or out of an object or list around it."""
    if isinstance(value, dict):
        name = find(value, (*SQL, "query", "text", "value"))
        return value[name] if name is not None else value
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return ";\n".join(str(item) for item in value) or None
    return value


def _fill_all(draft: Draft, places: list[Place], cores: list[tuple[int, str]]) -> None:
    """Fill the other fields: from the record's own objects first, then outwards from the innermost one."""
    own = {index for index, _ in cores}
    order = sorted(range(len(places)), key=lambda index: (index not in own, index if index in own else -index))
    beside: list[Place] = []
    for index in order:
        path, item = places[index]
        used = {name for core, name in cores if core == index}
        for name in of_shape(_opened_beside, item):
            inner = opened(item[name])
            if isinstance(inner, dict) and name not in used:
                used.add(name)
                if fold(name) in BESIDE:
                    beside.append((f"{path}.{name}".lstrip("."), inner))
        fill(draft, item, used=used, path=path, own=index in own)
    for path, item in beside:
        fill(draft, item, path=path, beside=True)
