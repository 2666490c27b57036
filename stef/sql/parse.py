"""From the lifted text to parsed statements: templates, depth, dialect, client commands, the statement that answers."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from stef.finding import Finding, FindingCode, finding
from stef.result import Reason
from stef.sql.dialects import canonical, guesses
from stef.sql.marks import template_mark
from stef.sql.nodes import NO_NODES, Nodes
from stef.sql.scanner import Survey, survey
from stef.sql.statement import Lifted
from stef.sql.variables import assignments

# Brackets nested deeper than this may exceed the parser's recursion (pure Python raises at 48).
MAX_DEPTH = 40
# CASE, NOT and the like nest without brackets; more of them than this cannot be parsed and cost seconds to try.
_MAX_CASES = 5_000
_CHAIN = re.compile(r"(?:\[[^\[\]]{0,40}\]\s{0,9}){100}")  # a[1][1][1]…
# Each statement of a text is parsed.
_MAX_STATEMENTS = 500
# Characters that are read at most while dialects are tried one after the other; two are tried in any case. A broken
# text of fifty thousand would cost seconds.
_MOST_TRIED = 40_000
_CLIENT = re.compile(
    r"""\A\s*(?:(?:USE|GO|SET|DECLARE|PRAGMA|ALTER\s+SESSION|DELIMITER|PROMPT|SHOW\s+WARNINGS)\b|\\\w+\b)""",
    re.IGNORECASE,
)
_GO = re.compile(r"^[ \t]*GO(?:[ \t]+\d+)?[ \t]*$", re.IGNORECASE | re.MULTILINE)
_USE = re.compile(r"^[ \t]*USE[ \t]+[\w.\"`\[\]-]+[ \t]*$", re.IGNORECASE | re.MULTILINE)
_EXPLAIN = re.compile(
    r"""\A\s*EXPLAIN
        (?:\s+(?:ANALY[SZ]E|VERBOSE|EXTENDED|FORMATTED|QUERY\s+PLAN|PLAN(?:\s+FOR)?|\([^)]*\)|FORMAT\s*=\s*\w+)){0,5}
        \s+(?=\(?\s*(?:SELECT|WITH)\b)""",
    re.IGNORECASE | re.VERBOSE,
)
_OPAQUE = re.compile(r"\A\s*(?:CALL|EXEC(?:UTE)?(?:\s+IMMEDIATE)?|DO|BEGIN)\b", re.IGNORECASE)
_EMPTY_SELECT = re.compile(r"\s*\(?\s*SELECT\s+(?:DISTINCT\s+)?(?:,|FROM\b)", re.IGNORECASE)
# What a database takes and sqlglot does not: failing on these is our gap.
_GAPS = re.compile(
    r"""\bLIMIT\s+\d+(?:\s*,\s*\d+)?\s+BY\b
      | \bMODEL\s+(?:DIMENSION|RETURN|UNIQUE|IGNORE|PARTITION)
      | \b(?:MATCH_RECOGNIZE|UNPIVOT)\b
      | \b(?:CONNECT\s+BY|ARRAY\s+JOIN|ASOF\s+JOIN|WITH\s+FILL|FOR\s+XML|FOR\s+JSON)\b
      | \bSAMPLE\s+0?\.\d
      | \bSETTINGS\s+\w+\s*=
      | \bFORMAT\s+\w+\s*\Z""",
    re.IGNORECASE | re.VERBOSE,
)
_CUT = re.compile(r"(?:[=<>,+(]|\b(?:AND|OR|WHERE|BY|ON|FROM|SELECT|IN|NOT|JOIN|THEN))\s*\Z", re.IGNORECASE)
_WRITES = (
    exp.Insert, exp.Update, exp.Delete, exp.Merge, exp.Create, exp.Drop, exp.Alter, exp.TruncateTable, exp.Copy,
    exp.Grant, exp.LoadData, exp.Comment,
)  # fmt: skip
# Commands whose effect is known without reading them.
_PLAIN_COMMANDS = frozenset(
    {"GRANT", "REVOKE", "VACUUM", "ANALYZE", "LOCK", "ALTER", "CREATE", "DROP", "SHOW", "DESCRIBE", "REPLACE", "MERGE"}
)
_WHY = {
    Reason.TOO_DEEP: "nested deeper than the parser follows",
    Reason.UNSUPPORTED: "a construct that is not read yet",
    Reason.BROKEN: "no dialect can parse it",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Parsed:
    """A parsed text.

    Attributes:
        sql: The statement to be scored, without comments and final semicolon.
        tree: Its tree; None when there is a reason.
        statements: Trees of all statements of the block, client commands left out.
        nodes: All nodes of these.
        others: Texts of statements beside it, for the safety findings.
        dialect: That read it.
        dialect_logged: As the record named it.
        reason: Why it cannot be scored, else None.
        detail: One sentence for the reason.
        findings: About the text.
        comments: Texts of the comments that were dropped.
        executable: Contents of MySQL's executable comments.
        variables: Values that SET and DECLARE gave, as SQL text by lower-case name.
        templated: The text has unrendered template marks.
    """

    sql: str = ""
    tree: exp.Query | None = None
    statements: tuple[exp.Expr, ...] = ()
    nodes: Nodes = NO_NODES
    others: tuple[str, ...] = ()
    dialect: str = ""
    dialect_logged: str = ""
    reason: Reason | None = None
    detail: str = ""
    findings: tuple[Finding, ...] = ()
    comments: tuple[str, ...] = ()
    executable: tuple[str, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict)
    templated: bool = False


def parse(lifted: Lifted, *, dialect: str | None, parameters: Mapping[str, object] | None = None) -> Parsed:
    """Parse what was lifted; never raises.

    Args:
        lifted: From `statement.lift`.
        dialect: As logged, or None.
        parameters: Values of bind parameters, where logged.
    """
    if lifted.reason is not None:
        return Parsed(
            sql=lifted.sql,
            others=lifted.others,
            dialect_logged=dialect or "",
            findings=lifted.findings,
            reason=lifted.reason,
            detail=lifted.detail,
        )
    named = canonical(dialect)
    seen = survey(_without_client_lines(lifted.sql), named or "", run_executable=named in {None, "", "mysql"})
    known = Parsed(
        sql=";\n".join(seen.statements),
        others=lifted.others,
        dialect_logged=dialect or "",
        comments=seen.comments,
        executable=seen.executable,
        findings=_findings(lifted, seen),
    )
    problem = _unreadable(seen, named, parameters or {})
    if problem is not None:
        reason, detail = problem
        return replace(known, reason=reason, detail=detail, templated=reason is Reason.TEMPLATED)
    return _parse_statements(known, seen, named)


def _without_client_lines(sql: str) -> str:
    """`GO` parts batches, `USE shop` needs no semicolon: both speak to the client."""
    upper = sql.upper()
    if "GO" in upper:
        sql = _GO.sub(";", sql)
    return _USE.sub("", sql) if "USE" in upper else sql


def _findings(lifted: Lifted, seen: Survey) -> tuple[Finding, ...]:
    if not seen.executable:
        return lifted.findings
    return (*lifted.findings, finding(FindingCode.EXECUTABLE_COMMENT, "MySQL runs the text inside /*! … */"))


def _unreadable(seen: Survey, named: str | None, parameters: Mapping[str, object]) -> tuple[Reason, str] | None:
    """What keeps a text from being parsed at all, seen before the parser may misread it."""
    if not seen.statements:
        return Reason.NO_SQL, "the text holds nothing but comments and client commands"
    text, code = ";\n".join(seen.statements), ";\n".join(seen.code)
    mark = template_mark(text, code, parameters, braces=named != "clickhouse")
    if mark is not None:
        return Reason.TEMPLATED, f"unrendered template mark {mark[:40]!r}"
    if seen.depth > MAX_DEPTH:
        return Reason.TOO_DEEP, f"brackets nested {seen.depth} deep, more than {MAX_DEPTH}"
    if len(seen.statements) > _MAX_STATEMENTS:
        return Reason.TOO_LARGE, f"{len(seen.statements)} statements, more than {_MAX_STATEMENTS}"
    if code.upper().count("CASE") > _MAX_CASES or ("[" in code and _CHAIN.search(code)):
        return Reason.TOO_DEEP, "a chain of CASE or of subscripts that is too long to follow"
    return None


def _parse_statements(known: Parsed, seen: Survey, named: str | None) -> Parsed:
    given = {name: value for text in seen.statements for name, value in assignments(text, named or "")}
    known = replace(known, variables=given) if given else known
    pairs = [pair for pair in zip(seen.statements, seen.code, strict=True) if not _CLIENT.match(pair[0])]
    if not pairs:
        return replace(known, reason=Reason.NOT_A_QUERY, detail="only client commands")
    if any(_EXPLAIN.match(text) for text, _ in pairs):
        known = _with_finding(known, FindingCode.EXPLAIN, "EXPLAIN gives a plan and no rows")
        pairs = [(_EXPLAIN.sub("", text), _EXPLAIN.sub("", code)) for text, code in pairs]
    texts = [text for text, _ in pairs]
    tried = _first_that_parses(texts, [code for _, code in pairs], named)
    if isinstance(tried, Reason):
        return replace(known, sql=";\n".join(texts), reason=tried, detail=_WHY[tried], dialect=named or "")
    trees, dialect = tried
    if named and dialect != named:
        known = _with_finding(known, FindingCode.DIALECT_MISMATCH, f"no {named}; read as {dialect or 'plain SQL'}")
    return _choose(known, dialect, texts, trees)


def _with_finding(known: Parsed, code: FindingCode, detail: str) -> Parsed:
    return replace(known, findings=(*known.findings, finding(code, detail)))


def _first_that_parses(texts: list[str], codes: list[str], named: str | None) -> tuple[list[exp.Expr], str] | Reason:
    """Parse in the logged dialect; only if there is none, or it fails, in others."""
    whole = ";\n".join(codes)
    for dialect in islice(_tried(named, whole), max(2, _MOST_TRIED // (len(whole) + 1))):
        try:
            return [_one(text, dialect) for text in texts], dialect
        except RecursionError:
            return Reason.TOO_DEEP  # another dialect would take as long to find out
        except Exception:  # noqa: BLE001, S112 - on broken input sqlglot raises more than its own errors
            continue
    return Reason.UNSUPPORTED if _GAPS.search(whole) and not _looks_cut(whole) else Reason.BROKEN


def _tried(named: str | None, whole: str) -> Iterator[str]:
    """The dialects that are tried, in order, each once."""
    if named is not None:
        yield named
    yield from (dialect for dialect in dict.fromkeys(guesses(whole)) if dialect != named)


def _one(text: str, dialect: str) -> exp.Expr:
    """Parse one statement.

    Raises:
        SqlglotError: It is not of that dialect, or its select list is empty, which sqlglot lets pass.
    """
    tree = sqlglot.parse_one(text, read=dialect or None)
    if isinstance(tree, exp.Select) and not tree.expressions and _EMPTY_SELECT.match(text):
        raise SqlglotError("an empty select list")
    return tree


def _looks_cut(code: str) -> bool:
    ends = len(re.findall(r"\bEND\b", code, re.IGNORECASE))
    cases = len(re.findall(r"\bCASE\b", code, re.IGNORECASE))
    return code.count("(") != code.count(")") or ends < cases or _CUT.search(code) is not None


def _choose(known: Parsed, dialect: str, texts: list[str], trees: list[exp.Expr]) -> Parsed:
    """Take the last statement that answers; the others still count for safety."""
    kept, nodes = tuple(trees), Nodes.of(*trees)
    for i in range(len(trees) - 1, -1, -1):
        tree = unwrapped(trees[i])
        if isinstance(tree, exp.Query):
            others = (*known.others, *texts[:i], *texts[i + 1 :])
            return replace(known, sql=texts[i], tree=tree, statements=kept, nodes=nodes, others=others, dialect=dialect)
    last = trees[-1]
    command = str(last.this).upper() if isinstance(last, exp.Command) else ""
    unseen = isinstance(last, exp.Command) or _OPAQUE.match(texts[-1]) is not None
    opaque = unseen and not isinstance(last, _WRITES) and command not in _PLAIN_COMMANDS
    known = replace(known, sql=texts[-1], statements=kept, nodes=nodes, dialect=dialect)
    if opaque:
        return replace(known, reason=Reason.OPAQUE, detail="what it runs cannot be seen")
    writes = isinstance(last, _WRITES) or command in _PLAIN_COMMANDS - {"SHOW", "DESCRIBE"}
    detail = "it writes or changes, and answers nothing" if writes else "it asks for no rows of a table"
    return replace(known, reason=Reason.NOT_A_QUERY, detail=detail)


def unwrapped(tree: exp.Expr | None) -> exp.Expr | None:
    """The query inside brackets around the whole statement."""
    while isinstance(tree, exp.Subquery | exp.Paren) and not tree.args.get("alias"):
        inner = tree.this
        if isinstance(tree, exp.Subquery) and any(tree.args.get(key) for key in ("order", "limit", "with_", "offset")):
            break
        tree = inner
    return tree
