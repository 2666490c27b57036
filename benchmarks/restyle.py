"""The same statement in other styles, and what of a reading must not change with the style."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from stef.apprules import NO_RULES, AppRules
from stef.record import QueryRecord
from stef.sql.parse import Parsed
from stef.timespan import Calendar
from stef.understand import Knowledge, Understood, read_statement, understand

Style = tuple[str, str]  # its name, and the statement in it
_KEYWORDS = frozenset({
    "ALL", "AND", "AS", "ASC", "BETWEEN", "BY", "CASE", "CROSS", "DESC", "DISTINCT", "ELSE", "END", "EXCEPT",
    "EXISTS", "FROM", "FULL", "GROUP", "HAVING", "IN", "INNER", "INTERSECT", "IS", "JOIN", "LEFT", "LIKE",
    "LIMIT", "NOT", "NULL", "OFFSET", "ON", "OR", "ORDER", "OUTER", "OVER", "PARTITION", "QUALIFY", "RIGHT",
    "SELECT", "THEN", "UNION", "USING", "WHEN", "WHERE", "WITH",
})  # fmt: skip
# As written: texts for reports, and where they stand; a path names the aliases that it leads through.
_WRITTEN = frozenset({"text", "span", "path"})
_RENAMED = "_x"
_MAX_SQL = 262_144


def styles(parsed: Parsed) -> Iterator[Style]:
    """A parsed statement in other words: rendered anew in one line and in many, other keywords, other aliases.

    A style that sqlglot cannot write in the statement's own dialect is left out.
    """
    tree, dialect = parsed.tree, parsed.dialect or None
    if tree is None:
        return
    yield "keywords", flipped(parsed.sql, parsed.dialect)
    for name, pretty in (("rendered", False), ("pretty", True)):
        again = _rendered(tree, dialect, pretty=pretty)
        if again is not None:
            yield name, again
    other = renamed(tree)
    again = None if other is None else _rendered(other, dialect)
    if again is not None:
        yield "aliases", again


def _rendered(tree: exp.Expr, dialect: str | None, *, pretty: bool = False) -> str | None:
    try:
        return tree.sql(dialect=dialect, pretty=pretty, unsupported_level=sqlglot.ErrorLevel.RAISE)
    except (SqlglotError, ValueError, AttributeError, TypeError, KeyError, IndexError):
        return None


def transpiled(parsed: Parsed, dialect: str) -> str | None:
    """The statement in another dialect; None when sqlglot cannot say it there."""
    return None if parsed.tree is None else _rendered(parsed.tree, dialect)


def flipped(sql: str, dialect: str) -> str:
    """Reserved words in small letters where they stood in capitals, and the reverse."""
    pieces, end = [], 0
    for token in sqlglot.tokenize(sql, read=dialect or None):
        word = sql[token.start : token.end + 1]
        is_name = sql[: token.start].endswith(("@", ":", "$", "."))
        if token.text.upper() in _KEYWORDS and re.fullmatch(r"[A-Za-z]+", word) and not is_name:
            pieces += [sql[end : token.start], word.lower() if word.isupper() else word.upper()]
            end = token.end + 1
    return "".join([*pieces, sql[end:]])


def renamed(tree: exp.Expr) -> exp.Expr | None:
    """A copy with other names for the tables' aliases; None when there are none to rename."""
    tree = tree.copy()
    real = {table.name.lower() for table in tree.find_all(exp.Table)} | {
        c.alias.lower() for c in tree.find_all(exp.CTE)
    }
    aliased = [node for node in tree.find_all(exp.Table, exp.Subquery) if node.alias and node.alias.lower() not in real]
    names = {node.alias.lower() for node in aliased}
    if not names:
        return None
    for node in aliased:
        alias = node.args["alias"]
        alias.set("this", _other(alias.this))
    for column in tree.find_all(exp.Column):
        outer = column.parts[0]
        if len(column.parts) > 1 and outer.name.lower() in names:
            outer.replace(_other(outer))
    return tree


def _other(name: exp.Expr) -> exp.Expr:
    return exp.to_identifier(f"{name.name}{_RENAMED}", quoted=bool(name.args.get("quoted")))


# ── what is compared ────────────────────────────────────────────────────────────────────────────────────────────────


def plain(value: object) -> Any:  # noqa: ANN401 - whatever the value is made of
    """A reading without what is as written, as plain values."""
    if is_dataclass(value) and not isinstance(value, type):
        kept = {item.name: plain(getattr(value, item.name)) for item in fields(value) if item.name not in _WRITTEN}
        return {"kind": type(value).__name__, **kept}
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, tuple | list) else value


def reading(seen: Understood) -> dict[str, Any]:
    """What style must leave as it is: each part of the spec, the probability, the features."""
    found = {f"spec.{name}": part for name, part in plain(seen.specs.sql).items()} if seen.specs.sql else {}
    if seen.compared is not None:
        found["p_offline"] = seen.compared.evidence.p_offline
        found |= {f"feature {name}": value for name, value in seen.compared.evidence.features.items()}
    return {**found, "reason": seen.reason}


def unlike(one: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    """Names of the parts in which two readings differ."""
    return sorted(name for name in {*one, *other} if one.get(name) != other.get(name))


def restyled(
    record: QueryRecord, known: Knowledge, rules: AppRules = NO_RULES, calendar: Calendar | None = None
) -> dict[str, tuple[str, list[str]]]:
    """Style → the statement in it, and the parts of its reading that differ; {} when the record cannot be read."""
    calendar = calendar or Calendar()
    parsed, spec, _, _ = read_statement(record, rules, calendar, max_bytes=_MAX_SQL)
    if spec is None:
        return {}
    record = record.model_copy(update={"sql": parsed.sql, "dialect": parsed.dialect or "sql"})
    known = replace(known, max_sql_bytes=_MAX_SQL)
    first = reading(understand(record, rules, calendar, known))
    return {
        name: (sql, unlike(first, reading(understand(record.model_copy(update={"sql": sql}), rules, calendar, known))))
        for name, sql in styles(parsed)
    }
