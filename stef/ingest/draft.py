"""A record in the making, and the names under which logs write its fields."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TypeVar

from stef.ingest.moments import moment

Object = dict[str, object]
T = TypeVar("T")
# Of names whose meaning is kept: so many, of so many characters together.
_MOST_NAMES, _LONGEST_NAMES = 64, 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """What a format's reader found, not yet checked.

    Attributes:
        source: The object that it came from; a field mapping's paths start there.
        fields: Values by the field names of `QueryRecord`; a field that is there with None was looked for and is empty.
        metadata: Everything else.
    """

    source: object
    fields: Object = field(default_factory=dict)
    metadata: Object = field(default_factory=dict)

    def put(self, name: str, value: object) -> None:
        """Set a field unless it has a value already."""
        if value is not None and self.fields.get(name) is None:
            self.fields[name] = value

    def keep(self, name: str, value: object, path: str = "") -> None:
        """Keep an unknown field; one whose name is taken is kept under its whole path."""
        if name in self.metadata and self.metadata[name] == value:
            return
        while name in self.metadata:
            name = f"{path}.{name}" if path else f"{name}_"
            path = ""
        self.metadata[name] = value


# Names after folding (`fold`), the most telling first.
QUESTION = (
    "userquestion", "originalquestion", "rawquestion", "question", "latestquestion", "naturallanguagequestion",
    "nlquestion",
    "questiontext", "naturallanguagequery", "nlquery", "userquery", "userinput", "usermessage", "userprompt",
    "utterance",
    "usertext", "qu", "prompt",
)  # fmt: skip
SQL = (
    "sql", "generatedsql", "finalsql", "predictedsql", "sqlquery", "sqlstatement", "generatedquery", "outputsql",
    "sqloutput",
    "responsesql", "resultsql", "predsql", "sqlgenerated", "agentsql", "sqltext", "executedsql", "sqlcmd", "statement",
)  # fmt: skip
_NAMES: dict[str, tuple[str, ...]] = {
    "event_id": (
        "eventid", "recordid", "id", "requestid", "messageid", "uuid", "queryid", "runid", "logid", "interactionid",
    ),
    "expanded_question": (
        "expandedquestion", "questionexpanded", "expandedquery", "rewrittenquestion", "rewrittenquery",
        "questionrewritten",
        "reformulatedquestion", "standalonequestion", "contextualizedquestion", "condensedquestion", "enrichedquestion",
        "refinedquestion", "interpretedquestion", "expansion", "qe",
    ),
    "dialect": (
        "dialect", "sqldialect", "dbdialect", "databasetype", "dbtype", "dbengine", "sqlengine", "dbms", "dbsystem",
    ),
    "agent": ("agent", "agentname", "agentid", "servicename", "service", "bot"),
    "agent_version": (
        "agentversion", "agentrelease", "serviceversion", "appversion", "release", "revisionid", "version",
    ),
    "app": ("app", "application", "appname", "appid", "applicationname", "applicationid"),
    "database": ("database", "databasename", "db", "dbname", "dbid", "databaseid"),
    "app_rules": ("apprules", "applicationrules", "businessrules", "rapp", "rules"),
    "asked_at": (
        "askedat", "askedtime", "questionat", "questiontime", "questiontimestamp", "requestedat", "requesttime",
        "requesttimestamp", "ts", "timestamp", "time", "starttime", "startedat", "start", "createdat",
        "createdtimestamp",
        "created", "eventtime", "occurredat", "datetime",
    ),
    "timezone": ("timezone", "usertimezone", "timezoneid", "tz"),
    "trace_id": ("traceid",),
    "span_id": ("spanid",),
    "parameters": (
        "parameters", "params", "bindparameters", "bindparams", "bindings", "bindvariables", "sqlparameters",
        "sqlparams",
        "queryparameters", "queryparams",
    ),
}  # fmt: skip
# Under these names something else may stand; then it is kept as metadata and is no error.
_TENTATIVE = {
    "asked_at": frozenset(_NAMES["asked_at"][8:]),
    "app_rules": frozenset({"rules", "rapp", "businessrules"}),
    "parameters": frozenset(_NAMES["parameters"]),
    "agent": frozenset({"service", "bot", "agent"}),
    "app": frozenset({"app", "application"}),
    "database": frozenset({"database", "db"}),
}
# In an envelope or beside the record these mean the envelope, the schema, or a user.
_OWN_ONLY = frozenset({"version", "release", "start", "created", "time", "params", "parameters"})
_BESIDE_NEVER = frozenset({"event_id"})
_NESTED_NAME = {"agent": ("name", "id"), "app": ("name", "id"), "database": ("name", "id")}


@lru_cache(maxsize=4096)
def fold(name: str) -> str:
    """Fold snake, camel and kebab case: `user_question`, `userQuestion`, `User-Question` → `userquestion`."""
    return re.sub(r"[^a-z0-9]", "", name.lower()) if len(name) <= 64 else name


def folded(obj: Object) -> Mapping[str, str]:
    """Folded name → name as written; of two that fold alike the first one counts."""
    return of_shape(_folded, obj)


def _folded(names: tuple[str, ...]) -> Mapping[str, str]:
    found: dict[str, str] = {}
    for name in names:
        found.setdefault(fold(name), name)
    return found


def of_shape(read: Callable[[tuple[str, ...]], T], obj: Object) -> T:
    """What the names of an object say; kept, because the records of a log have the same few sets of names."""
    names = tuple(obj)
    usual = len(names) <= _MOST_NAMES and sum(map(len, names)) <= _LONGEST_NAMES
    return _remembered(read, names) if usual else read(names)


@lru_cache(maxsize=1024)
def _remembered(read: Callable[[tuple[str, ...]], T], names: tuple[str, ...]) -> T:
    return read(names)


def find(obj: Object, aliases: Iterable[str]) -> str | None:
    """The name in the object that is one of the aliases; one with a value goes before one that is null."""
    names, first = folded(obj), None
    for alias in aliases:
        if alias in names:
            name = names[alias]
            if obj[name] is not None:
                return name
            first = first or name
    return first


def fill(
    draft: Draft, obj: Object, *, used: Iterable[str] = (), path: str = "", own: bool = True, beside: bool = False
) -> None:
    """Take what an object says of a record's fields, question and SQL aside, and keep the rest as metadata.

    Args:
        draft: Fields that it has already stay.
        obj: The object.
        used: Names in it that were read already.
        path: Where it stands, for names that are taken.
        own: It is the record itself, not an envelope around it.
        beside: It is a bag of loose facts (`metadata`): ids in it are not the record's.
    """
    done = set(used)
    for target, aliases in of_shape(_meant, obj):
        if draft.fields.get(target) is not None or (beside and target in _BESIDE_NEVER):
            continue
        for alias, name in aliases:
            if name in done or obj[name] is None or (alias in _OWN_ONLY and (beside or not own)):
                continue
            if _take(draft, target, obj[name], tentative=alias in _TENTATIVE.get(target, ())):
                done.add(name)
                break
    for name, value in obj.items():
        if name not in done and value is not None:
            draft.keep(name, value, path)


def _meant(names: tuple[str, ...]) -> tuple[tuple[str, tuple[tuple[str, str], ...]], ...]:
    """Field of a record → its aliases among the names, each with the name as written."""
    known = _folded(names)
    found = ((target, tuple((a, known[a]) for a in aliases if a in known)) for target, aliases in _NAMES.items())
    return tuple((target, aliases) for target, aliases in found if aliases)


def _take(draft: Draft, target: str, value: object, *, tentative: bool) -> bool:
    """Set the field, if the value can be meant for it."""
    if isinstance(value, dict) and target in _NESTED_NAME:
        name = next((value[key] for key in _NESTED_NAME[target] if isinstance(value.get(key), str)), None)
        if target == "agent":
            draft.put("agent_version", value.get("version"))
        draft.put(target, name)
        # What else the object says is kept with the metadata.
        return name is not None and set(value) <= {"name", "version"}
    if tentative and not _plausible(target, value):
        return False
    draft.put(target, value)
    return True


def _plausible(target: str, value: object) -> bool:
    if target == "asked_at":
        return moment(value) is not None
    if target == "app_rules":
        return isinstance(value, dict) or (isinstance(value, str) and value.lstrip().startswith("{"))
    if target == "parameters":
        return isinstance(value, dict | list) and bool(value)
    return isinstance(value, str | int)
