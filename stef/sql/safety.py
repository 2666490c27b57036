"""Findings about what a statement may do, from the whole tree and not from its first word.

They are counted and shown, and reach Φ only through the caps.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterator, Mapping

from sqlglot import exp

from stef.apprules import AppRules, Condition
from stef.finding import Finding, FindingCode, finding
from stef.matching import covers
from stef.spec import Effect, Filter, QuerySpec
from stef.sql.nodes import Nodes, kinds
from stef.sql.parse import Parsed

_WRITES: dict[type[exp.Expr], str] = {
    exp.Insert: "INSERT", exp.Update: "UPDATE", exp.Delete: "DELETE", exp.Merge: "MERGE", exp.Create: "CREATE",
    exp.Drop: "DROP", exp.Alter: "ALTER", exp.TruncateTable: "TRUNCATE", exp.Copy: "COPY", exp.Grant: "GRANT",
    exp.LoadData: "LOAD DATA", exp.Into: "SELECT INTO", exp.Lock: "a row lock", exp.Comment: "COMMENT",
    exp.Kill: "KILL", exp.Attach: "ATTACH", exp.Detach: "DETACH", exp.Transaction: "a transaction",
    exp.Commit: "COMMIT", exp.Rollback: "ROLLBACK", exp.Execute: "EXECUTE",
}  # fmt: skip
_WRITING = kinds(*_WRITES, exp.Command)
_FUNCTION_NAMES: dict[type[exp.Expr], str] = {
    kind: kind.sql_name().lower() for kind in kinds(exp.Func) if issubclass(kind, exp.Func) and kind is not exp.Func
}
_CALLING = kinds(exp.Dot, exp.Command, exp.Execute, exp.Func)
_WRITE_WORDS = re.compile(
    r"""(?:\A|;)\s*(?P<word>INSERT|UPDATE|DELETE|MERGE|CREATE|DROP|ALTER|TRUNCATE|GRANT|REVOKE|COPY|REPLACE|VACUUM|LOCK
          |ATTACH|UNLOAD|CALL|EXEC|EXECUTE)\b
      | \bINTO\s+(?P<file>OUTFILE|DUMPFILE)\b""",
    re.IGNORECASE | re.VERBOSE,
)


def findings(parsed: Parsed, spec: QuerySpec | None, rules: AppRules, denied: Mapping[str, str]) -> tuple[Finding, ...]:
    """Everything about safety and policy.

    Args:
        parsed: The text.
        spec: Of the statement that answers; None when it was not read.
        rules: Allowed tables, denied functions, mandatory filters.
        denied: Built-in denied functions, lower-case, with what they do.
    """
    found = list(_writes(parsed, parsed.nodes))
    if len(parsed.statements) > 1:
        found.append(finding(FindingCode.STACKED_STATEMENTS, f"{len(parsed.statements)} statements in one text"))
    found += _functions(parsed.nodes, denied, {name.lower() for name in rules.denied_functions})
    if rules.allowed_tables:
        found += _tables(parsed, rules.allowed_tables)
    if spec is not None and spec.tables:
        missing = [condition for condition in rules.mandatory_filters if not satisfied(condition, spec.filters)]
        found += [finding(FindingCode.MANDATORY_FILTER_MISSING, condition.text) for condition in missing]
    return tuple(found)


def is_read_only(found: tuple[Finding, ...]) -> bool:
    """Whether nothing in the text writes, locks or changes anything."""
    return all(item.code is not FindingCode.NOT_READ_ONLY for item in found)


def _writes(parsed: Parsed, nodes: Nodes) -> Iterator[Finding]:
    for node in nodes.select(_WRITING):
        if (what := _WRITES.get(type(node))) is not None:
            yield finding(FindingCode.NOT_READ_ONLY, f"the text holds {what}")
            return
        if isinstance(node, exp.Command) and _WRITE_WORDS.match(f"{node.this} "):
            yield finding(FindingCode.NOT_READ_ONLY, f"the text holds {str(node.this).upper()}")
            return
    texts = (*parsed.executable, *parsed.others, *(() if parsed.statements else (parsed.sql,)))
    for text in texts:
        if (word := _WRITE_WORDS.search(text)) is not None:
            yield finding(FindingCode.NOT_READ_ONLY, f"the text holds {(word['word'] or word['file']).upper()}")
            return


def _functions(nodes: Nodes, denied: Mapping[str, str], by_rules: set[str]) -> Iterator[Finding]:
    seen: set[str] = set()
    for node in nodes.select(_CALLING):
        for name in _names(node):
            why = "denied by the rules" if name in by_rules else denied.get(name)
            if why is not None and name not in seen:
                seen.add(name)
                yield finding(FindingCode.DENIED_FUNCTION, f"{name} ({why})")


def _names(node: exp.Expr) -> tuple[str, ...]:
    if isinstance(node, exp.Dot):
        called = isinstance(node.expression, exp.Func) and isinstance(node.this, exp.Expr)
        return (node.this.name.lower(),) if called else ()
    if isinstance(node, exp.Command):
        return (str(node.this).lower(),)
    if isinstance(node, exp.Execute):
        return (node.this.name.lower(),) if isinstance(node.this, exp.Table) else ()
    if isinstance(node, exp.Anonymous):
        return (node.name.lower(),)
    return (_FUNCTION_NAMES.get(type(node), ""),)


def real_tables(tree: exp.Expr) -> tuple[str, ...]:
    """Physical tables in any place of a statement; a common table expression hides a table only after its own body.

    `WITH secret AS (SELECT * FROM secret) SELECT * FROM secret` reads the table `secret`.
    """
    found: dict[str, None] = {}
    stack: list[tuple[exp.Expr, frozenset[str]]] = [(tree, frozenset())]
    while stack:
        node, hidden = stack.pop()
        clause = node.args.get("with_")
        if clause is not None:
            for cte in clause.expressions:
                name = cte.alias.lower()
                stack.append((cte.this, hidden | {name} if clause.args.get("recursive") else hidden))
                hidden = hidden | {name}
        if isinstance(node, exp.Table) and node.name and not (not node.db and node.name.lower() in hidden):
            found[".".join(part.name for part in node.parts if part.name)] = None
        procedure = node.this if isinstance(node, exp.Execute) else None
        stack += [
            (child, hidden) for child in node.iter_expressions() if child is not clause and child is not procedure
        ]
    return tuple(found)


def _tables(parsed: Parsed, allowed: tuple[str, ...]) -> Iterator[Finding]:
    patterns = [pattern.lower() for pattern in allowed]
    for tree in parsed.statements:
        for table in real_tables(tree):
            names = (table.lower(), table.lower().rpartition(".")[2])
            if not any(fnmatch.fnmatchcase(name, pattern) for name in names for pattern in patterns):
                yield finding(FindingCode.TABLE_NOT_ALLOWED, table)


def satisfied(condition: Condition, filters: tuple[Filter, ...]) -> bool:
    """Whether all parts of a condition stand in the statement and bind every row."""
    binding = [item for item in filters if item.effect is Effect.EFFECTIVE and not item.alternative]
    return all(any(covers(part, item) for item in binding) for part in condition.filters)
