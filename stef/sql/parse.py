"""From the lifted text to parsed statements: templates, depth, dialect, client commands, the statement that answers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from stef.result import Finding, Reason, Severity
from stef.sql.dialects import canonical, guesses
from stef.sql.scanner import Survey, survey
from stef.sql.statement import Lifted

# Brackets nested deeper than this may exceed the parser's recursion (pure Python raises at 48).
MAX_DEPTH = 40
_TEMPLATE = re.compile(r"\{\{.*?\}\}|\{%.*?%\}|\$\{[^}\n]*\}", re.DOTALL)
_SLOT = re.compile(
    r"<\s*[A-Za-z_][\w ]*\s+(?:here|goes here|value|name|placeholder)\s*>|<(?:your|insert|enter)[\w ]*>|\[(?:your|insert) [\w ]+\]",
    re.IGNORECASE,
)
_FSTRING = re.compile(r"(?<![\w{])\{\s*([A-Za-z_][\w.]*)\s*\}(?!\})")
_CLIENT = re.compile(
    r"\A\s*(?:USE|GO|SET|DECLARE|PRAGMA|ALTER\s+SESSION|\\\w+|DELIMITER|PROMPT|SHOW\s+WARNINGS)\b", re.IGNORECASE
)
_ASSIGNMENT = re.compile(
    r"\A\s*(?:SET|DECLARE)\s+[@$:]?(?P<name>\w+)(?:\s+[\w()]+)?\s*(?::=|=|DEFAULT)\s*(?P<value>.+)\Z",
    re.IGNORECASE | re.DOTALL,
)
_GO = re.compile(r"^[ \t]*GO[ \t]*(?:\d+[ \t]*)?$", re.IGNORECASE | re.MULTILINE)
_USE = re.compile(r"^[ \t]*USE[ \t]+[\w.\"`\[\]-]+[ \t]*$", re.IGNORECASE | re.MULTILINE)
_EXPLAIN = re.compile(
    r"\A\s*EXPLAIN(?:\s+(?:ANALY[SZ]E|VERBOSE|EXTENDED|QUERY\s+PLAN|PLAN(?:\s+FOR)?|FORMATTED|\([^)]*\)|FORMAT\s*=\s*\w+))*\s+(?=\(?\s*(?:SELECT|WITH)\b)",
    re.IGNORECASE,
)
_OPAQUE = re.compile(r"\A\s*(?:CALL|EXEC(?:UTE)?(?:\s+IMMEDIATE)?|DO|BEGIN)\b", re.IGNORECASE)
# What a database takes and sqlglot does not: failing on these is our gap.
_GAPS = re.compile(
    r"\bLIMIT\s+\d+(?:\s*,\s*\d+)?\s+BY\b|\bMODEL\s+(?:DIMENSION|RETURN|UNIQUE|IGNORE|PARTITION)|\bMATCH_RECOGNIZE\b|\bCONNECT\s+BY\b"
    r"|\bUNPIVOT\b|\bFOR\s+(?:XML|JSON)\b|\bARRAY\s+JOIN\b|\bASOF\s+JOIN\b|\bWITH\s+FILL\b|\bSAMPLE\s+0?\.\d|\bFORMAT\s+\w+\s*\Z|\bSETTINGS\s+\w+\s*=",
    re.IGNORECASE,
)
_QUERIES = (exp.Query,)
_WRITES = (
    exp.Insert, exp.Update, exp.Delete, exp.Merge, exp.Create, exp.Drop, exp.Alter, exp.TruncateTable, exp.Copy, exp.Grant,
    exp.LoadData, exp.Comment,
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Parsed:
    """A parsed text.

    Attributes:
        sql: The statement to be scored, without comments and final semicolon.
        tree: Its tree; None when there is a reason.
        statements: Trees of all statements of the block, client commands left out.
        others: Texts of statements beside it, for the safety findings.
        dialect: That read it.
        dialect_logged: As the record named it.
        reason: Why it cannot be scored, else None.
        detail: One sentence for the reason.
        findings: About the text.
        comments: Texts of the comments that were dropped.
        executable: Contents of MySQL's executable comments.
        variables: Values that SET and DECLARE gave, as SQL text by lower-case name.
        placeholders: The statement has bind parameters.
        templated: The text has unrendered template marks.
    """

    sql: str = ""
    tree: exp.Query | None = None
    statements: tuple[exp.Expr, ...] = ()
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
    """Parse what was lifted.

    Args:
        lifted: From `statement.lift`.
        dialect: As logged, or None.
        parameters: Values of bind parameters, where logged.
    """
    logged = dialect or ""
    if lifted.reason is not None:
        return Parsed(
            sql=lifted.sql, reason=lifted.reason, detail=lifted.detail, findings=lifted.findings, dialect_logged=logged
        )
    named = canonical(dialect)
    block = (
        _USE.sub("", _GO.sub(";", lifted.sql))
        if re.search(r"\b(?:GO|USE)\b", lifted.sql, re.IGNORECASE)
        else lifted.sql
    )
    seen = survey(block, named or "", run_executable=named in {None, "", "mysql"})
    text = ";\n".join(seen.statements)
    known = Parsed(
        sql=text,
        others=lifted.others,
        dialect_logged=logged,
        comments=seen.comments,
        executable=seen.executable,
        findings=_findings(lifted, seen),
    )
    problem = _unreadable(text, seen, named, parameters or {})
    if problem is not None:
        reason, detail = problem
        return _with(known, reason=reason, detail=detail, templated=reason is Reason.TEMPLATED)
    return _parse_statements(known, seen, named)


def _with(parsed: Parsed, **changes: object) -> Parsed:
    from dataclasses import replace

    return replace(parsed, **changes)  # type: ignore[arg-type]


def _findings(lifted: Lifted, seen: Survey) -> tuple[Finding, ...]:
    if not seen.executable:
        return lifted.findings
    found = Finding(code="executable_comment", severity=Severity.CRITICAL, detail="MySQL runs the text inside /*! … */")
    return (*lifted.findings, found)


def _unreadable(
    text: str, seen: Survey, named: str | None, parameters: Mapping[str, object]
) -> tuple[Reason, str] | None:
    """What keeps a text from being parsed at all, seen before the parser may misread it."""
    if not seen.statements:
        return Reason.NO_SQL, "the text holds nothing but comments"
    code = ";\n".join(seen.code)
    mark = _TEMPLATE.search(text) or _SLOT.search(code)
    if mark is None and named != "clickhouse":
        loose = next((m for m in _FSTRING.finditer(code) if m[1] not in parameters), None)
        mark = loose or re.search(r"'\{[A-Za-z_]\w*\}'", text)
    if mark is not None:
        return Reason.TEMPLATED, f"unrendered template mark {mark.group()[:40]!r}"
    if seen.depth > MAX_DEPTH:
        return Reason.TOO_DEEP, f"brackets nested {seen.depth} deep, more than {MAX_DEPTH}"
    return None


def _parse_statements(known: Parsed, seen: Survey, named: str | None) -> Parsed:
    statements = [
        (text, code) for text, code in zip(seen.statements, seen.code, strict=True) if not _CLIENT.match(text)
    ]
    variables = dict(filter(None, (_assignment(text) for text in seen.statements)))
    if not statements:
        return _with(known, reason=Reason.NOT_A_QUERY, detail="only client commands", variables=variables)
    findings = list(known.findings)
    if any(_EXPLAIN.match(text) for text, _ in statements):
        findings.append(Finding(code="explain", severity=Severity.WARNING, detail="EXPLAIN gives a plan and no rows"))
    texts = [_EXPLAIN.sub("", text) for text, _ in statements]
    codes = [_EXPLAIN.sub("", code) for _, code in statements]
    tried = _first_that_parses(texts, codes, named)
    if isinstance(tried, tuple):
        trees, dialect = tried
        if named and dialect != named:
            findings.append(
                Finding(
                    code="dialect_mismatch",
                    severity=Severity.WARNING,
                    detail=f"no {named}; read as {dialect or 'plain SQL'}",
                )
            )
        return _choose(_with(known, findings=tuple(findings), variables=variables, dialect=dialect), texts, trees)
    return _with(
        known, sql=";\n".join(texts), findings=tuple(findings), reason=tried, detail=_why(tried), dialect=named or ""
    )


def _assignment(text: str) -> tuple[str, str] | None:
    found = _ASSIGNMENT.match(text)
    return (found["name"].lower(), found["value"].strip()) if found else None


def _why(reason: Reason) -> str:
    return {
        Reason.TOO_DEEP: "nested deeper than the parser follows",
        Reason.UNSUPPORTED: "a construct that is not read yet",
        Reason.BROKEN: "no dialect can parse it",
    }[reason]


def _first_that_parses(texts: list[str], codes: list[str], named: str | None) -> tuple[list[exp.Expr], str] | Reason:
    """Parse in the logged dialect; only if there is none, or it fails, in others."""
    whole = ";\n".join(codes)
    order = dict.fromkeys([named] if named is not None else [])
    order |= dict.fromkeys(guesses(whole))
    deep = False
    for dialect in order:
        try:
            trees = [_one(text, dialect or "") for text in texts]
        except RecursionError:
            deep = True
            continue
        except (SqlglotError, ValueError, AttributeError, TypeError, KeyError, IndexError):
            continue  # sqlglot raises more than its own errors on broken input
        return trees, dialect or ""
    if deep:
        return Reason.TOO_DEEP
    return Reason.UNSUPPORTED if _GAPS.search(whole) and not _looks_cut(whole) else Reason.BROKEN


def _one(text: str, dialect: str) -> exp.Expr:
    tree = sqlglot.parse_one(text, read=dialect or None)
    if (
        isinstance(tree, exp.Select)
        and not tree.expressions
        and tree.args.get("from_") is not None
        and "," in text[:12]
    ):
        raise ValueError("an empty select list")
    if (
        isinstance(tree, exp.Select)
        and not tree.expressions
        and tree.args.get("kind") is None
        and re.match(r"\s*\(?\s*SELECT\s+(?:DISTINCT\s+)?(?:,|FROM\b)", text, re.IGNORECASE)
    ):
        raise ValueError("an empty select list")
    return tree


def _looks_cut(code: str) -> bool:
    balanced = code.count("(") == code.count(")")
    ends = len(re.findall(r"\bEND\b", code, re.IGNORECASE))
    cases = len(re.findall(r"\bCASE\b", code, re.IGNORECASE))
    return (
        not balanced
        or ends < cases
        or re.search(r"(?:[=<>,+(]|\b(?:AND|OR|WHERE|BY|ON|FROM|SELECT|IN|NOT|JOIN|THEN))\s*\Z", code, re.IGNORECASE)
        is not None
    )


def _choose(known: Parsed, texts: list[str], trees: list[exp.Expr]) -> Parsed:
    """Take the last statement that answers; the others still count for safety."""
    queries = [i for i, tree in enumerate(trees) if isinstance(unwrapped(tree), exp.Query)]
    if queries:
        i = queries[-1]
        rest = tuple(text for j, text in enumerate(texts) if j != i)
        tree = unwrapped(trees[i])
        assert isinstance(tree, exp.Query)  # noqa: S101 - tells mypy what `queries` holds
        return _with(known, sql=texts[i], tree=tree, statements=tuple(trees), others=known.others + rest)
    last = trees[-1]
    opaque = not isinstance(last, _WRITES) and (isinstance(last, exp.Command) or _OPAQUE.match(texts[-1]) is not None)
    command = str(last.this).upper() if isinstance(last, exp.Command) else ""
    if command in {"GRANT", "REVOKE", "VACUUM", "ANALYZE", "LOCK", "ALTER", "CREATE", "DROP", "SHOW", "DESCRIBE"}:
        opaque = False
    reason = Reason.OPAQUE if opaque else Reason.NOT_A_QUERY
    detail = "what it runs cannot be seen" if opaque else "it writes or changes, and answers nothing"
    return _with(known, sql=texts[-1], statements=tuple(trees), reason=reason, detail=detail)


def unwrapped(tree: exp.Expr | None) -> exp.Expr | None:
    """The query inside brackets around the whole statement."""
    while isinstance(tree, exp.Subquery | exp.Paren) and not tree.args.get("alias"):
        inner = tree.this
        if isinstance(tree, exp.Subquery) and any(tree.args.get(key) for key in ("order", "limit", "with_", "offset")):
            break
        tree = inner
    return tree
