"""Messages for the fuzz run: by a grammar, by damaging statements and questions of the case files, or at random.

Everything is drawn from the dice that are given, so a seed and a number make the same message again.
"""

# ruff: noqa: S608 - statements are built from parts, and nothing runs them

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from fuzz_words import (
    DATES,
    DIALECTS,
    MOMENTS,
    NAMES,
    NUMBERS,
    PHRASES,
    SCRAPS,
    TABLES,
    TEXTS,
    UNITS,
    ZONES,
)

_CASES = Path(__file__).parents[1] / "tests" / "cases"


@dataclass(frozen=True, slots=True)
class Bank:
    """What the case files hold: statements with their dialects, and questions."""

    statements: tuple[tuple[str, str], ...]
    questions: tuple[str, ...]


def bank() -> Bank:
    """Read all case files.

    Raises:
        OSError: They are not there.
    """
    rows = [
        json.loads(line)
        for path in sorted(_CASES.glob("*/*.jsonl"))
        for line in path.read_text(encoding="utf-8").splitlines()
        if line.strip()
    ]
    records = [row.get("record", row) for row in rows if isinstance(row.get("record", row), dict)]
    statements = {(r["sql"], r.get("dialect") or "") for r in records if isinstance(r.get("sql"), str)}
    questions = {r[key] for r in records for key in ("question", "expansion", "text") if isinstance(r.get(key), str)}
    return Bank(tuple(sorted(statements)), tuple(sorted(questions)))


# ── statements by a grammar ─────────────────────────────────────────────────────────────────────────────────────────


def _value(dice: Random) -> str:
    return dice.choice(
        (
            lambda: dice.choice(NUMBERS),
            lambda: str(dice.randint(-(10**12), 10**12)),
            lambda: f"'{dice.choice(DATES)}'",
            lambda: f"{dice.choice(('DATE', 'TIMESTAMP', 'TIME'))} '{dice.choice(DATES)}'",
            lambda: f"'{dice.choice(TEXTS)}'",
            lambda: _moment(dice),
            lambda: dice.choice(("NULL", "TRUE", "FALSE", ":p", "@p", "$1", "?", "{p:Int32}", "%(p)s")),
        )
    )()


def _moment(dice: Random) -> str:
    """A moment that is computed, often past an end of the calendar."""
    start = dice.choice(
        ("CURRENT_DATE", "NOW()", "GETDATE()", "SYSDATE", "CURRENT_TIMESTAMP()", f"DATE '{dice.choice(DATES)}'")
    )
    unit, number = dice.choice(UNITS), dice.choice((*NUMBERS[:18], "1", "30", "12"))
    return dice.choice(
        (
            f"{start} {dice.choice('+-')} INTERVAL '{number} {unit}'",
            f"{start} - INTERVAL {number} {unit.upper()}",
            f"DATE_TRUNC('{unit}', {start})",
            f"DATEADD({unit}, {number}, {start})",
            f"DATE_SUB({start}, INTERVAL {number} {unit})",
            f"ADD_MONTHS({start}, {number})",
            f"date('now', '-{number} {unit}s', 'start of {unit}')",
            f"LAST_DAY({start})",
            f"TO_DATE('{dice.choice(DATES)}', 'YYYY-MM-DD')",
            f"MAKE_DATE({number}, {dice.choice(NUMBERS)}, 31)",
        )
    )


def _operand(dice: Random) -> str:
    name, unit = dice.choice(NAMES), dice.choice(UNITS)
    return dice.choice(
        (
            name,
            name,
            f"LOWER(TRIM({name}))",
            f"CAST({name} AS {dice.choice(('DATE', 'INT', 'TEXT', 'DECIMAL(99,98)'))})",
            f"EXTRACT({unit or 'YEAR'} FROM {name})",
            f"YEAR({name})",
            f"strftime('%Y-%m', {name})",
            f"DATE_TRUNC('{unit}', {name})",
            f"COALESCE({name}, {_value(dice)})",
            f"{name} {dice.choice('+-*/%')} {_value(dice)}",
            f"DATEDIFF({unit}, {name}, {_moment(dice)})",
            f"SUBSTR({name}, 1, {dice.choice(NUMBERS)})",
        )
    )


def _condition(dice: Random, depth: int) -> str:
    if depth > 0 and dice.random() < 0.5:
        left, right = _condition(dice, depth - 1), _condition(dice, depth - 1)
        return dice.choice((f"{left} AND {right}", f"({left} OR {right})", f"NOT ({left})", f"{left} OR {right}"))
    left = _operand(dice)
    return dice.choice(
        (
            lambda: (
                f"{left} {dice.choice(('=', '<>', '<', '<=', '>', '>=', '!=', '==', '<=>', '~', '@>'))} {_value(dice)}"
            ),
            lambda: f"{left} {dice.choice(('', 'NOT '))}BETWEEN {_value(dice)} AND {_value(dice)}",
            lambda: f"{left} {dice.choice(('', 'NOT '))}IN ({_members(dice)})",
            lambda: f"{left} {dice.choice(('LIKE', 'NOT LIKE', 'ILIKE', 'GLOB', 'RLIKE'))} '{dice.choice(TEXTS)}'",
            lambda: f"{left} IS {dice.choice(('', 'NOT '))}{dice.choice(('NULL', 'TRUE', 'DISTINCT FROM 5'))}",
            lambda: f"{left} {dice.choice(('=', '>', '<', 'IN'))} ({_inner(dice, depth)})",
            lambda: f"{dice.choice(('', 'NOT '))}EXISTS ({_inner(dice, depth)})",
            lambda: f"{_value(dice)} {dice.choice('<>=')} {left}",
            lambda: f"{left} = {dice.choice(('ANY', 'ALL'))}(ARRAY[{_members(dice)}])",
            lambda: left,
        )
    )()


def _inner(dice: Random, depth: int) -> str:
    return select(dice, depth - 1) if depth > 0 else "SELECT MAX(km) FROM vans v2 WHERE v2.id = v.id"


def _members(dice: Random) -> str:
    count = dice.choice((1, 2, 3, 3, 5, 40, 41, 3000))
    return ", ".join(_value(dice) for _ in range(count)) if count < 1000 else ", ".join(map(str, range(count)))


def _output(dice: Random) -> str:
    name = dice.choice(NAMES)
    alias = dice.choice(("", "", " AS n", ' AS "Odd Alias"', " AS 合計", " total"))
    return alias.join(
        (
            dice.choice(
                (
                    name,
                    "COUNT(*)",
                    f"COUNT(DISTINCT {name})",
                    f"SUM({name}) / {dice.choice(('COUNT(*)', '0', 'NULLIF(COUNT(*), 0)', '1e999999'))}",
                    f"AVG(CASE WHEN {_condition(dice, 0)} THEN 1 ELSE 0 END)",
                    f"SUM({name}) FILTER (WHERE {_condition(dice, 0)})",
                    f"ROW_NUMBER() OVER (PARTITION BY {name} ORDER BY {dice.choice(NAMES)} DESC)",
                    f"PERCENTILE_CONT({dice.choice(NUMBERS)}) WITHIN GROUP (ORDER BY {name})",
                    f"{_value(dice)}",
                    f"countIf({_condition(dice, 0)})",
                )
            ),
            "",
        )
    )


def select(dice: Random, depth: int) -> str:
    """A statement; `depth` bounds how far queries nest."""
    if depth > 0 and dice.random() < 0.3:
        return _compound(dice, depth)
    outputs = ", ".join(_output(dice) for _ in range(dice.choice((1, 1, 2, 3, 30))))
    parts = [f"SELECT {dice.choice(('', '', 'DISTINCT ', 'TOP 5 '))}{outputs} FROM {dice.choice(TABLES)} v"]
    for place in range(dice.choice((0, 0, 0, 1, 2, 5, 40))):
        kind = dice.choice(("JOIN", "LEFT JOIN", "FULL OUTER JOIN", "CROSS JOIN", "NATURAL JOIN", ",", "ASOF JOIN"))
        on = "" if kind in {",", "CROSS JOIN", "NATURAL JOIN"} else f" ON v.id = j{place}.id AND {_condition(dice, 0)}"
        parts.append(f"{kind} {dice.choice(TABLES)} j{place}{on}")
    optional: tuple[Callable[[], str], ...] = (
        lambda: f"WHERE {_condition(dice, depth)}",
        lambda: (
            f"GROUP BY {', '.join(dice.choice((_operand(dice), '1', 'ALL', 'ROLLUP (city, km)')) for _ in range(2))}"
        ),
        lambda: f"HAVING COUNT(*) > {dice.choice(NUMBERS)} AND {_condition(dice, 0)}",
        lambda: f"QUALIFY RANK() OVER (ORDER BY km) <= {dice.choice(NUMBERS)}",
        lambda: f"ORDER BY {_operand(dice)} {dice.choice(('', 'DESC', 'ASC NULLS LAST'))}, {dice.choice(NUMBERS)}",
        lambda: (
            f"{dice.choice(('LIMIT', 'OFFSET', 'FETCH FIRST'))} {dice.choice((*NUMBERS, 'ALL', ':n', '10 OFFSET 5'))}"
        ),
    )
    return " ".join([*parts, *(part() for part in optional if dice.random() < 0.4)])


def _compound(dice: Random, depth: int) -> str:
    inner, other = select(dice, depth - 1), select(dice, depth - 1)
    return dice.choice(
        (
            lambda: f"{inner} {dice.choice(('UNION', 'UNION ALL', 'INTERSECT', 'EXCEPT'))} {other}",
            lambda: f"WITH a AS ({inner}), b AS (SELECT * FROM a WHERE {_condition(dice, 0)}) {other}, b",
            lambda: f"SELECT COUNT(*) FROM ({inner}) AS s WHERE {_condition(dice, 0)}",
            lambda: _chain(dice, dice.choice((2, 8, 60))),
            lambda: f"WITH RECURSIVE r AS ({inner} UNION ALL SELECT * FROM r WHERE km < 5) SELECT * FROM r LIMIT 5",
        )
    )()


def _chain(dice: Random, length: int) -> str:
    """Common table expressions that each read the one before, once or twice."""
    twice = dice.random() < 0.3
    steps = [f"c0 AS (SELECT * FROM vans WHERE {_condition(dice, 0)})"]
    for k in range(1, length):
        source = f"c{k - 1} a JOIN c{k - 1} b ON a.id = b.id" if twice else f"c{k - 1} a"
        steps.append(f"c{k} AS (SELECT a.* FROM {source} WHERE a.km > {k})")
    return f"WITH {', '.join(steps)} SELECT COUNT(*) FROM c{length - 1}"


def _monster(dice: Random) -> str:
    """One construct, very often."""
    count = dice.choice((5, 30, 38, 45, 100, 400, 1500))
    inner = dice.choice(("km > 5", "city = 'Turku'", "SELECT 1"))
    return dice.choice(
        (
            lambda: f"SELECT 1 FROM vans WHERE {'(' * count}km > 5{')' * count}",
            lambda: f"SELECT 1 FROM vans WHERE {'NOT ' * count}is_active",
            lambda: "SELECT * FROM (" * count + "SELECT 1 FROM vans" + ") s" * count,
            lambda: f"SELECT 1 FROM vans WHERE {' OR '.join(f'c{k} = {k}' for k in range(count))}",
            lambda: f"SELECT 1 FROM vans WHERE {' AND '.join(f'km <> {k}' for k in range(count))}",
            lambda: f"SELECT 1 FROM vans WHERE {' OR '.join(f'(city = {k} AND km > {k})' for k in range(count))}",
            lambda: f"SELECT {'CASE WHEN km > 5 THEN 1 ELSE ' * count}0{' END' * count} FROM vans",
            lambda: f"SELECT {'COALESCE(' * count}km{', 0)' * count} FROM vans",
            lambda: f"SELECT {' + '.join(['km'] * count)} FROM vans",
            lambda: f"SELECT {', '.join(f'SUM(c{k}) AS s{k}' for k in range(count))} FROM vans GROUP BY 1",
            lambda: " UNION ALL ".join([f"SELECT city FROM vans WHERE {inner}"] * count),
            lambda: f"SELECT 1 FROM {', '.join(f't{k}' for k in range(count))} WHERE t0.a = t1.a",
            lambda: "SELECT 1 FROM t0 " + " ".join(f"JOIN t{k} ON t{k}.id = t{k - 1}.id" for k in range(1, count)),
            lambda: f"SELECT km{'[1]' * count} FROM vans",
            lambda: f"SELECT {'-' * 1}{' - ' * count}1 FROM vans",
            lambda: f"SELECT km{'::int' * count} FROM vans",
            lambda: f"SELECT 'a' {'|| city ' * count}FROM vans",
            lambda: "; ".join(["SELECT 1"] * count),
            lambda: f"SELECT 1 {'/* x */ ' * count}FROM vans {'-- y' * count}",
            lambda: _chain(dice, min(count, 400)),
            lambda: f"SELECT 1 FROM vans WHERE city IN ({', '.join(f'{k!r}' for k in range(count * 5))})",
            lambda: f"SELECT 1 FROM vans WHERE city LIKE '{'%a' * count}' AND km = {'9' * count} AND x = 1e{'9' * 20}",
        )
    )()


# ── damage ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def damaged(dice: Random, text: str, other: str) -> str:
    """A text after one to four accidents."""
    for _ in range(dice.randint(1, 4)):
        at, to = sorted((dice.randint(0, len(text)), dice.randint(0, len(text))))
        text = dice.choice(
            (
                lambda text, at, _: text[:at],
                lambda text, at, to: text[:at] + text[min(to, at + 9) :],
                lambda text, at, to: text[:to] + text[at:to] + text[to:],
                lambda text, at, _: text[:at] + dice.choice(SCRAPS) + text[at:],
                lambda text, at, _: f"{text[:at]} {dice.choice(SCRAPS)} {text[at:]}",
                lambda text, at, _: text[:at] + _value(dice) + text[at:],
                lambda text, at, _: text[:at] + other[at:],
                lambda text, _, __: text.replace(" ", dice.choice(("\n", "\t", "\xa0", "\u3000", " /* c */ ", "  "))),
                lambda text, _, __: text.swapcase(),
                lambda text, _, __: f"({text})",
                lambda text, at, to: text[:at] + "(" * 9 + text[at:to] + ")" * 9 + text[to:],
                lambda text, at, _: (
                    text[:at] + chr(dice.choice((dice.randint(0, 0x2FFF), dice.randint(0, 0x10FFFF)))) + text[at:]
                ),
                lambda text, _, __: _digits_changed(dice, text),
            )
        )(text, at, to)[:100_000]
    return text


def _digits_changed(dice: Random, text: str) -> str:
    """Other digits in place of some: years, months and counts that no calendar has."""
    return "".join(dice.choice("0123456789") if sign.isascii() and sign.isdigit() else sign for sign in text)


def statement(dice: Random, known: Bank) -> tuple[str, str]:
    """SQL as an agent might log it, with the dialect that it was written for ("" for none)."""
    text, dialect = dice.choice(known.statements)
    kind = dice.random()
    if kind < 0.35:
        return damaged(dice, text, dice.choice(known.statements)[0]), dialect
    if kind < 0.45:
        return text, dialect
    if kind < 0.55:
        return _monster(dice), ""
    made = select(dice, dice.choice((0, 1, 1, 2, 3)))
    return (damaged(dice, made, text) if kind > 0.9 else made), ""


def question(dice: Random, known: Bank) -> str:
    """What somebody may ask, in any language, with odd numbers and dates."""
    text = dice.choice(known.questions)
    for _ in range(dice.choice((0, 0, 1, 1, 2, 6))):
        phrase = dice.choice(PHRASES)
        while "{" in phrase:
            filling = {"n": dice.choice(NUMBERS), "d": dice.choice(DATES), "t": dice.choice(TEXTS)}
            place = phrase[phrase.index("{") + 1]
            phrase = phrase.replace("{" + place + "}", filling[place].replace("{", "("), 1)
        text = f"{text} {phrase}" if dice.random() < 0.8 else f"{phrase} {text}"
    if dice.random() < 0.2:
        text = damaged(dice, text, dice.choice(known.questions))
    return text * dice.choice((200, 40)) if dice.random() < 0.01 else text


# ── messages ────────────────────────────────────────────────────────────────────────────────────────────────────────


def _rules(dice: Random) -> object:
    """Rules inside a record: plain, or wrong."""
    return dice.choice(
        (
            {"column_mappings": {"price": "v.price", "city": dice.choice(NAMES)}},
            {"value_synonyms": {"city": {"capital": dice.choice(TEXTS)}}},
            {"benign_filters": [_condition(dice, 1), "is_deleted = 0"]},
            {"default_limit": dice.choice((0, -1, 10**30, "5"))},
            [1, 2],
            "{}",
        )
    )


def record(dice: Random, known: Bank) -> dict[str, Any]:
    """The fields of one record."""
    sql, dialect = statement(dice, known)
    sql = f"Here it is:\n```sql\n{sql}\n```\nHope it helps." if dice.random() < 0.05 else sql
    found: dict[str, Any] = {"event_id": "e", "question": question(dice, known), "sql": sql}
    optional: dict[str, Callable[[], Any]] = {
        "dialect": lambda: dialect or dice.choice(DIALECTS),
        "database": lambda: "docks",
        "expanded_question": lambda: question(dice, known),
        "asked_at": lambda: dice.choice(MOMENTS),
        "timezone": lambda: dice.choice(ZONES),
    }
    found |= {name: make() for name, make in optional.items() if dice.random() < 0.6}
    if dice.random() < 0.08:
        found["app_rules"] = _rules(dice)
    if dice.random() < 0.08:
        found["parameters"] = {name: dice.choice((None, True, 5, 1e308, *TEXTS, *DATES)) for name in ("p", "1", "n")}
    return found


def message(dice: Random, known: Bank) -> bytes:
    """The bytes of one message; one in ten is no clean record."""
    found = record(dice, known)
    text = json.dumps(found, ensure_ascii=dice.random() < 0.5)
    value = text.encode("utf-8", "replace")
    kind = dice.random()
    if kind < 0.92:
        return value
    if kind < 0.96:
        return damaged(dice, text, text).encode("utf-8", "replace")
    return dice.choice(
        (
            lambda: dice.randbytes(dice.randint(0, 400)),
            lambda: gzip.compress(value, mtime=0)[: dice.randint(5, 400)],
            lambda: b"[" * dice.choice((10, 5000)),
            lambda: b'{"question": ' + b"9" * 5000 + b', "sql": 1e999}',
            lambda: json.dumps(
                {**found, "question": dice.choice((None, 5, [], {}, "")), "sql": [sql_of(found)]}
            ).encode(),
            lambda: json.dumps({"a": {"b": json.dumps(found)}}).encode(),
            lambda: value.replace(b'"sql"', b'"query"').replace(b"question", b"prompt"),
        )
    )()


def sql_of(found: dict[str, Any]) -> str:
    """The statement of a record."""
    return str(found["sql"])
