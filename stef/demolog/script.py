"""Reads the demo log's script: what is said, and what goes wrong with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from enum import StrEnum
from functools import cache
from typing import Any

from stef.data import resource


class Planted(StrEnum):
    """What is wrong with a statement."""

    MISSING_FILTER = "missing_filter"
    WRONG_VALUE = "wrong_value"
    WRONG_OPERATOR = "wrong_operator"
    WRONG_COLUMN = "wrong_column"
    INEFFECTIVE_FILTER = "ineffective_filter"  # in the ON clause of a LEFT JOIN, on the kept side
    COUNTED_ELSE = "counted_else"  # COUNT(CASE … ELSE 0 END)
    MISSING_GROUP_BY = "missing_group_by"
    WRONG_AGGREGATE = "wrong_aggregate"
    COUNT_NOT_DISTINCT = "count_not_distinct"
    WRONG_ORDER = "wrong_order"
    SMALL_LIMIT = "small_limit"
    WRONG_PERIOD = "wrong_period"
    LOST_LAST_DAY = "lost_last_day"  # BETWEEN up to midnight of the last day
    INTRODUCED_FILTER = "introduced_filter"  # the expansion adds it, the statement follows
    EXTRA_FILTER = "extra_filter"
    MISSING_MANDATORY_FILTER = "missing_mandatory_filter"
    DML = "dml"  # instead of the query, or stacked behind it
    BROKEN = "broken"  # cut
    TEMPLATED = "templated"  # a mark was left unrendered
    INJECTION = "injection"  # a wrong statement with a comment that talks to the judge


@dataclass(frozen=True, slots=True)
class Form:
    """One value of a slot: as said, as stored, and its further forms."""

    say: str
    sql: str
    more: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Slip:
    """A change of a statement: pairs of old and new text, and what the expansion then says ("" for no change)."""

    edits: tuple[tuple[str, str], ...]
    expand: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Template:
    """One question in several wordings, its right statement, other ways to write it, and what may go wrong with it."""

    id: str
    app: str
    database: str
    dialect: str
    ask: tuple[str, ...]
    expand: tuple[str, ...]
    drift: tuple[str, ...]
    always_expand: bool
    slots: Mapping[str, tuple[Form, ...]]
    sql: str
    variants: tuple[Slip, ...]
    slips: Mapping[Planted, Slip]


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """One version of the agent: when its log runs, and the share of its statements that is wrong."""

    label: str
    start: date
    days: int
    wrong: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """All of `demo.yaml`."""

    agent: str
    versions: tuple[Version, ...]
    shares: Mapping[str, float]
    weights: Mapping[Planted, int]
    apps: Mapping[str, Mapping[str, Any]]
    dialect_names: Mapping[str, Sequence[str]]
    wrappers: tuple[str, ...]
    injections: tuple[str, ...]
    template_marks: tuple[str, ...]
    templates: tuple[Template, ...]


@cache
def load_script() -> Script:
    """What is said and what goes wrong, from the package's `demo.yaml`."""
    plain = resource("demo.yaml")
    lists = {name: tuple(map(_form, values)) for name, values in plain["lists"].items()}
    return Script(
        agent=plain["agent"],
        versions=tuple(Version(**version) for version in plain["versions"]),
        shares=plain["shares"],
        weights={Planted(kind): weight for kind, weight in plain["weights"].items()},
        apps=plain["apps"],
        dialect_names=plain["dialect_names"],
        wrappers=tuple(plain["wrappers"]),
        injections=tuple(plain["injections"]),
        template_marks=tuple(plain["template_marks"]),
        templates=tuple(_template(template, lists) for template in plain["templates"]),
    )


def _form(value: object) -> Form:
    match value:
        case {"say": say, "sql": sql, **more}:
            return Form(str(say), str(sql), {str(name): str(text) for name, text in more.items()})
        case [say, sql]:
            return Form(str(say), str(sql), {})
        case _:
            return Form(str(value), str(value), {})


def _template(plain: Mapping[str, Any], lists: Mapping[str, tuple[Form, ...]]) -> Template:
    slots = {
        name: lists[source] if isinstance(source, str) else tuple(map(_form, source))
        for name, source in plain.get("slots", {}).items()
    }
    return Template(
        id=plain["id"],
        app=plain["app"],
        database=plain["database"],
        dialect=plain["dialect"],
        ask=tuple(plain["ask"]),
        expand=tuple(plain["expand"]),
        drift=tuple(plain.get("drift", ())),
        always_expand=plain.get("always_expand", False),
        slots=slots,
        sql=plain["sql"],
        variants=tuple(map(_slip, plain.get("variants", ()))),
        slips={Planted(kind): _slip(slip) for kind, slip in plain["errors"].items()},
    )


def _slip(plain: Any) -> Slip:  # noqa: ANN401 - as YAML has it
    edit, expand = (plain["edit"], plain["expand"]) if isinstance(plain, dict) else (plain, "")
    return Slip(edits=tuple(zip(edit[::2], edit[1::2], strict=True)), expand=expand)


def edited(sql: str, slip: Slip) -> str:
    """The statement after the change.

    Raises:
        ValueError: An old text does not stand in the statement exactly once.
    """
    for old, new in slip.edits:
        if sql.count(old) != 1:
            raise ValueError(f"{old!r} stands {sql.count(old)} times in {sql!r}")
        sql = sql.replace(old, new)
    return sql
