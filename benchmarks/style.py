"""How often a statement in another style, or in another dialect, reads the same.

    python benchmarks/style.py LABELLED [--every N] [--transpiled N]

LABELLED: JSON lines (also .gz) with question, evidence, sql, dialect and db.

Every statement is written in other styles of its own dialect (see `restyle.py`) and read again. For each style the
table says of how many statements the spec, and the probability with all features, stay as they were; the kinds of
difference follow. Then statements are transpiled to four dialects, and the same is said of their filters, grouping,
ordering, limit and tables.
"""

from __future__ import annotations

import argparse
import logging
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from evidence_signals import Items, knowledge, read, record_of
from restyle import plain, restyled, transpiled

from stef.apprules import NO_RULES
from stef.spec import QuerySpec
from stef.sql.parse import Parsed
from stef.timespan import Calendar
from stef.understand import Knowledge, read_statement

_DIALECTS = ("postgres", "mysql", "snowflake", "bigquery")
_CLOCK = Calendar()
_MAX_SQL = 262_144


def styles(items: Items, known: Knowledge) -> None:
    """Print for each style how many statements read the same, and the kinds of difference."""
    whole, same_spec, same_p, kinds = Counter[str](), Counter[str](), Counter[str](), Counter[tuple[str, str]]()
    for item in items:
        for style, (_, parts) in restyled(record_of(item), known).items():
            spec = [part for part in parts if part.startswith("spec.")]
            whole[style] += 1
            same_spec[style] += not spec
            same_p[style] += parts == spec
            kinds.update([(style, ", ".join(spec) or "features only")] if parts else [])
    print(f"{'style':12} {'statements':>10} {'same spec':>10} {'same p and features':>20}")
    for style, count in whole.items():
        print(f"{style:12} {count:10} {same_spec[style]:10} {same_p[style]:20}")
    _show(kinds)


def dialects(items: Items) -> None:
    """Print for each dialect how many statements mean the same in it."""
    whole, same, kinds = Counter[str](), Counter[str](), Counter[tuple[str, str]]()
    for item in items:
        record = record_of(item)
        parsed, spec, _, _ = read_statement(record, NO_RULES, _CLOCK, max_bytes=_MAX_SQL)
        for dialect in _DIALECTS if spec is not None else ():
            parts = _moved(parsed, spec, dialect)
            if parts is not None:
                whole[dialect] += 1
                same[dialect] += not parts
                kinds.update([(dialect, part) for part in parts])
    print(f"\n{'dialect':12} {'statements':>10} {'same':>10}")
    for dialect, count in whole.items():
        print(f"{dialect:12} {count:10} {same[dialect]:10}")
    _show(kinds)


def _moved(parsed: Parsed, spec: QuerySpec | None, dialect: str) -> list[str] | None:
    """What differs in another dialect; None where sqlglot cannot say it there."""
    sql = transpiled(parsed, dialect)
    if sql is None or spec is None or dialect == parsed.dialect:
        return None
    record = record_of({"question": "?", "sql": sql, "dialect": dialect, "db": ""})
    _, other, _, _ = read_statement(record, NO_RULES, _CLOCK, max_bytes=_MAX_SQL)
    if other is None:
        return ["not read"]
    one, two = _meaning(spec), _meaning(other)
    return [name for name in one if one[name] != two[name]]


def _meaning(spec: QuerySpec) -> dict[str, Any]:
    """What a dialect must not change; a sort by an alias is one by what is behind it."""
    spec = replace(spec, order_by=tuple(replace(key, by="") if key.columns else key for key in spec.order_by))
    return {name: plain(getattr(spec, name)) for name in ("filters", "group_by", "order_by", "limit", "tables")}


def _show(kinds: Counter[tuple[str, str]]) -> None:
    for (where, what), count in kinds.most_common(12):
        print(f"  {count:6} {where}: {what}")


def main(arguments: Iterable[str] | None = None) -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("labelled")
    parser.add_argument("--every", type=int, default=8, help="take every n-th statement")
    parser.add_argument("--transpiled", type=int, default=500, help="so many of them in other dialects")
    given = parser.parse_args(None if arguments is None else [*arguments])
    logging.getLogger("sqlglot").setLevel(logging.ERROR)
    items = read(given.labelled)[:: given.every]
    styles(items, knowledge())
    dialects(items[:: max(1, len(items) // given.transpiled)][: given.transpiled])


if __name__ == "__main__":
    main()
