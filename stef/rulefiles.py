"""rules/<app>.json → `AppRules`: validated, conditions compiled, digest taken.

The registry knows applications by the names of the files in its folder; a name from a record is a key and never a path.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Literal

import sqlglot
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from sqlglot import exp
from sqlglot.errors import SqlglotError

from stef.apprules import LIMIT_GUARD, NO_RULES, AppRules, Condition
from stef.data import zone
from stef.errors import RulesError, nearest
from stef.spec import Direction, Effect, Filter, OrderKey, Scope
from stef.sql.dialects import canonical
from stef.sql.extract import extract
from stef.timespan import Calendar
from stef.values import Anything, Text, Value, from_plain

_DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_ANY = "\x01any\x01"
# `= *`, outside a quoted text.
_STAR = re.compile(r"('(?:[^']|'')*')|(?<![<>!])=\s*\*(?=\s*(?:\Z|\)|AND\b))", re.IGNORECASE)
_CONDITION = "a condition such as `is_deleted = 0`, `tenant_id = *` or `status IN ('a', 'b')`, several joined by AND"
# What R_app inside a record may set; safety keys and λ_min belong to the operator.
INLINE_KEYS = ("column_mappings", "value_synonyms", "benign_filters")
Scalar = str | int | float | bool


class AppRulesFile(BaseModel):
    """Application rules (R_app): what is normal for one application. Every key may be left out."""

    model_config = ConfigDict(extra="forbid", strict=True, title="stef application rules")

    schema_: str | None = Field(default=None, alias="$schema", description="Address of this schema, for editors.")
    version: str = Field(default="", description="For people; the digest of the content is what counts.")
    description: str = Field(default="", description="What the application is about.")
    column_mappings: dict[str, str] = Field(
        default_factory=dict, description="Business word → physical column or expression."
    )
    benign_filters: list[str] = Field(
        default_factory=list,
        description="Conditions that may be added without being asked for, such as `is_deleted = 0`; "
        "`*` stands for any one value.",
    )
    mandatory_filters: list[str] = Field(
        default_factory=list, description="Conditions that every statement must have, such as `tenant_id = *`."
    )
    value_synonyms: dict[str, dict[str, Scalar | list[Scalar]]] = Field(
        default_factory=dict, description="Column → word → stored value or values that mean it."
    )
    default_order_by: str | list[str] = Field(
        default_factory=list, description="Sort that the application adds, such as `created_at DESC`."
    )
    default_limit: Annotated[int, Field(ge=1)] | None = Field(
        default=None, description="Row cap that the application adds."
    )
    limit_guard: Annotated[int, Field(ge=1)] = Field(
        default=LIMIT_GUARD, description="λ_min: a cap of so many rows or more that nobody asked for is a safety guard."
    )
    fiscal_year_start_month: Annotated[int, Field(ge=1, le=12)] | None = Field(
        default=None, description="1 = January … 12 = December."
    )
    week_start: Literal["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"] | None = Field(
        default=None, description="First day of the week."
    )
    timezone: str = Field(default="", description="IANA name, such as Europe/Vienna.")
    dialect: str = Field(default="", description="SQL dialect of the application, such as postgres.")
    allowed_tables: list[str] = Field(
        default_factory=list, description="Tables that may be read, `*` as a wildcard; empty for no restriction."
    )
    denied_functions: list[str] = Field(
        default_factory=list, description="Functions that may not be called, beside the built-in list."
    )
    out_of_scope: list[str] = Field(default_factory=list, description="Topics that the application does not answer.")
    private_values: list[Annotated[str, Field(min_length=1)]] = Field(
        default_factory=list, description="Texts that are hidden wherever they stand, where values are hidden."
    )
    private_columns: list[Annotated[str, Field(min_length=1)]] = Field(
        default_factory=list, description="Columns whose values are always hidden then, numbers and dates too."
    )


def json_schema() -> dict[str, Any]:
    """JSON Schema of a rules file, as it stands in `rules/app.schema.json`."""
    schema = AppRulesFile.model_json_schema(by_alias=True)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


def compile_rules(content: Mapping[str, Any], *, name: str = "", path: str = "", dialect: str = "") -> AppRules:
    """Check and compile the content of a rules file.

    Args:
        content: Parsed JSON.
        name: Key in the registry.
        path: For messages.
        dialect: Of the conditions, where the content names none.

    Raises:
        RulesError: With file, JSON path, what was found and what is allowed.
    """
    shown = path or name or "app_rules"
    try:
        read = AppRulesFile.model_validate(content)
    except ValidationError as error:
        raise _as_rules_error(error, shown) from None
    _check_names(read, shown)
    spoken = read.dialect or dialect
    return AppRules(
        name=name,
        digest=digest(content),
        version=read.version,
        description=read.description,
        column_mappings=MappingProxyType(dict(read.column_mappings)),
        benign_filters=_conditions(read.benign_filters, "benign_filters", spoken, shown),
        mandatory_filters=_conditions(read.mandatory_filters, "mandatory_filters", spoken, shown),
        value_synonyms=_synonyms(read.value_synonyms),
        default_order_by=_order(read.default_order_by, shown),
        default_limit=read.default_limit,
        limit_guard=read.limit_guard,
        fiscal_year_start_month=read.fiscal_year_start_month,
        week_start=None if read.week_start is None else _DAYS.index(read.week_start),
        timezone=read.timezone,
        dialect=read.dialect,
        allowed_tables=tuple(read.allowed_tables),
        denied_functions=tuple(read.denied_functions),
        out_of_scope=tuple(read.out_of_scope),
        private_values=tuple(read.private_values),
        private_columns=tuple(read.private_columns),
    )


def _check_names(read: AppRulesFile, path: str) -> None:
    """Zone and dialect are names that something else must know."""
    if read.timezone and zone(read.timezone) is None:
        raise RulesError(path, "$.timezone", repr(read.timezone), "an IANA time zone such as Europe/Vienna")
    if read.dialect and canonical(read.dialect) is None:
        known = "a dialect such as postgres, mysql, snowflake, bigquery, tsql"
        raise RulesError(path, "$.dialect", repr(read.dialect), known)


def digest(content: Mapping[str, Any]) -> str:
    """16 hexadecimal digits over the content, whatever its layout and the order of its keys."""
    return hashlib.sha256(json.dumps(content, sort_keys=True, ensure_ascii=False).encode()).hexdigest()[:16]


def _as_rules_error(error: ValidationError, path: str) -> RulesError:
    first = error.errors()[0]
    place = "$" + "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in first["loc"])
    if first["type"] == "extra_forbidden":
        key = str(first["loc"][-1])
        names = [field.alias or key for key, field in AppRulesFile.model_fields.items()]
        return RulesError(path, place, f"unknown key {key!r}", nearest(key, names))
    found = json.dumps(first["input"], ensure_ascii=False, default=str)
    return RulesError(
        path, place, found if len(found) <= 80 else found[:79] + "…", first["msg"].removeprefix("Input should be ")
    )


def _conditions(texts: list[str], key: str, dialect: str, path: str) -> tuple[Condition, ...]:
    return tuple(_condition(text, f"$.{key}[{i}]", dialect, path) for i, text in enumerate(texts))


def _condition(text: str, place: str, dialect: str, path: str) -> Condition:
    wild = _STAR.sub(lambda found: found[1] or f"= '{_ANY}'", text)
    read = canonical(dialect) or ""
    try:
        # In brackets, so that nothing but a condition fits; the line break ends a comment.
        tree = sqlglot.parse_one(f"SELECT 1 FROM t WHERE ({wild}\n)", read=read or None)  # noqa: S608 - never executed
        query = tree if isinstance(tree, exp.Query) and tree.find(exp.Star) is None else exp.Select()
        filters = extract(query, calendar=Calendar(), dialect=read).filters
    except (SqlglotError, ArithmeticError, RecursionError):
        filters = ()
    # An OR over columns and a condition that is never true let in what nobody meant.
    if not filters or any(item.alternative or item.effect is not Effect.EFFECTIVE for item in filters):
        raise RulesError(path, place, repr(text), _CONDITION)
    return Condition(text, tuple(_with_wildcard(item) for item in filters))


def _with_wildcard(item: Filter) -> Filter:
    bare = replace(item, table="", scope=Scope.WHERE, path="")
    return replace(bare, value=Anything(), text=f"{item.column} = *") if item.value == Text(_ANY) else bare


def _synonyms(
    given: Mapping[str, Mapping[str, Scalar | list[Scalar]]],
) -> Mapping[str, Mapping[str, tuple[Value, ...]]]:
    return MappingProxyType(
        {
            column: MappingProxyType(
                {
                    word: tuple(from_plain(value) for value in (stored if isinstance(stored, list) else [stored]))
                    for word, stored in words.items()
                }
            )
            for column, words in given.items()
        }
    )


def _order(given: str | list[str], path: str) -> tuple[OrderKey, ...]:
    if isinstance(given, str):
        return tuple(_order_key(part, "$.default_order_by", path) for part in given.split(","))
    return tuple(_order_key(part, f"$.default_order_by[{i}]", path) for i, part in enumerate(given))


def _order_key(text: str, place: str, path: str) -> OrderKey:
    found = re.fullmatch(r"\s*([\w.\"`]+)(?:\s+(asc|desc))?\s*", text, re.IGNORECASE)
    if found is None:
        raise RulesError(path, place, repr(text), "a column with ASC or DESC")
    column = found[1].rpartition(".")[2].strip('"`')
    direction = Direction.DESC if (found[2] or "").lower() == "desc" else Direction.ASC
    return OrderKey(by=column, direction=direction, columns=(column,), text=text.strip())


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Build an object; a key that stands there twice would hide one of its values."""
    content: dict[str, Any] = {}
    for key, value in pairs:
        if key in content:
            raise ValueError(f"the key {key!r} twice")
        content[key] = value
    return content


def load(path: Path) -> AppRules:
    """Read one rules file.

    Raises:
        RulesError: It cannot be read, is no JSON, or is wrong.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8-sig"), object_pairs_hook=_unique)
    except RecursionError:
        raise RulesError(str(path), "", "JSON that is nested too deeply", "an object of lists and values") from None
    except OSError as error:
        raise RulesError(str(path), "", error.strerror or str(error), "a readable JSON file") from None
    except UnicodeDecodeError:
        raise RulesError(str(path), "", "bytes that are no UTF-8", "a JSON file in UTF-8") from None
    except json.JSONDecodeError as error:
        raise RulesError(str(path), f"line {error.lineno}, column {error.colno}", error.msg, "JSON") from None
    except ValueError as error:
        raise RulesError(str(path), "$", str(error), "each key once") from None
    if not isinstance(content, dict):
        raise RulesError(str(path), "$", type(content).__name__, "an object")
    return compile_rules(content, name=path.stem, path=str(path))


def load_folder(folder: Path) -> Mapping[str, AppRules]:
    """All rules files of a folder, by the names of their applications; no folder, no rules.

    Raises:
        RulesError: One of them is wrong.
    """
    files = (
        sorted(path for path in folder.glob("*.json") if not path.name.endswith(".schema.json"))
        if folder.is_dir()
        else []
    )
    return MappingProxyType({path.stem: load(path) for path in files})


@lru_cache(maxsize=512)
def _inline(text: str, dialect: str) -> AppRules:
    return compile_rules(json.loads(text), path="app_rules", dialect=dialect)


def merged(operator: AppRules, inline: Mapping[str, Any] | None, *, trust: bool) -> AppRules:
    """The rules that hold for a record: the operator's, with what the record carries on top where that is trusted.

    Keys that are unknown or belong to the operator are passed over here; a value of the wrong kind is an error.

    Raises:
        RulesError: The record's rules are wrong.
    """
    if not inline or not trust:
        return operator
    calendar_keys = () if operator is not NO_RULES else _OWN_KEYS
    given = {key: inline[key] for key in (*INLINE_KEYS, *calendar_keys) if key in inline}
    if not given:
        return operator
    own = _inline(json.dumps(given, sort_keys=True, ensure_ascii=False), operator.dialect)
    base = own if operator is NO_RULES else operator
    return replace(
        base,
        column_mappings=MappingProxyType({**operator.column_mappings, **own.column_mappings}),
        value_synonyms=MappingProxyType({**operator.value_synonyms, **own.value_synonyms}),
        benign_filters=(*own.benign_filters, *operator.benign_filters),
        name=operator.name,
        digest=operator.digest,
        inline_digest=own.digest,
    )


# Without rules of the operator a record may also say how its calendar and its defaults are.
_OWN_KEYS = ("fiscal_year_start_month", "week_start", "timezone", "dialect", "default_order_by", "default_limit")
