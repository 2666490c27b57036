"""Plain queries inside expressions as text, as sqlglot would write them; None where sqlglot must."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from sqlglot import exp

Write = Callable[[object, int], str | None]
# Clauses behind the outputs, in the order of their writing.
_CLAUSES = ("from_", "joins", "where", "group", "having", "order", "limit")
_JOIN_PARTS = ("this", "on", "side", "kind")


def has_only(node: exp.Expr, *names: str) -> bool:
    """Whether nothing but some of its parts is there."""
    return all(name in names or not value for name, value in node.args.items())


def texts_of(parts: Iterable[object], write: Write, depth: int) -> list[str] | None:
    """The texts of some parts; None when one of them is not plain."""
    texts: list[str] = []
    for part in parts:
        text = write(part, depth)
        if text is None:
            return None
        texts.append(text)
    return texts


def joined(parts: Iterable[object], write: Write, depth: int, between: str = ", ") -> str | None:
    """The same as one text."""
    texts = texts_of(parts, write, depth)
    return None if texts is None else between.join(texts)


def select(node: exp.Expr, write: Write, depth: int) -> str | None:
    """A select with the usual clauses."""
    distinct = node.args.get("distinct")
    if not has_only(node, "expressions", "distinct", *_CLAUSES) or (distinct and not has_only(distinct)):
        return None
    outputs = joined(node.expressions, write, depth)
    clauses: list[object] = []
    for key in _CLAUSES:
        value = node.args.get(key)
        clauses += value if isinstance(value, list) else [value] if value is not None else []
    rest = joined(clauses, write, depth, " ") if outputs else None
    return None if rest is None else f"SELECT {'DISTINCT ' if distinct else ''}{outputs} {rest}".rstrip(" ")


def table(node: exp.Expr, write: Write, depth: int) -> str | None:
    """A table with its alias."""
    names = [node.args[key] for key in ("catalog", "db", "this") if node.args.get(key) is not None]
    plain = has_only(node, "this", "db", "catalog", "alias") and all(isinstance(name, exp.Identifier) for name in names)
    return _with_alias(joined(names, write, depth, "."), node, write, depth) if plain else None


def subquery(node: exp.Expr, write: Write, depth: int) -> str | None:
    """A select in brackets, with its alias."""
    if not has_only(node, "this", "alias") or not isinstance(node.this, exp.Select):
        return None
    inner = write(node.this, depth)
    return None if inner is None else _with_alias(f"({inner})", node, write, depth)


def _with_alias(text: str | None, node: exp.Expr, write: Write, depth: int) -> str | None:
    alias = node.args.get("alias")
    if alias is None or text is None:
        return text
    name = write(alias.this, depth) if isinstance(alias, exp.TableAlias) and has_only(alias, "this") else None
    return f"{text} AS {name}" if name else None


def join(node: exp.Expr, write: Write, depth: int) -> str | None:
    """A join with ON."""
    if node.args.get("on") is None or not has_only(node, *_JOIN_PARTS):
        return None
    words = " ".join(str(node.args[key]).upper() for key in ("side", "kind") if node.args.get(key))
    both = joined((node.this, node.args["on"]), write, depth, " ON ")
    return None if both is None else f"{words} JOIN {both}".lstrip()


def order(node: exp.Expr, write: Write, depth: int) -> str | None:
    """ORDER BY, with what sqlglot says of NULLs where another dialect places them elsewhere."""
    if not has_only(node, "expressions"):
        return None
    keys: list[str] = []
    for key in node.expressions:
        plain = isinstance(key, exp.Ordered) and has_only(key, "this", "desc", "nulls_first") and not key.comments
        text = write(key.this, depth) if plain else None
        if text is None:
            return None
        keys.append(text + direction(key))
    return f"ORDER BY {', '.join(keys)}"


def direction(key: exp.Expr) -> str:
    """What sqlglot writes behind a sort key."""
    down, nulls_first = key.args.get("desc"), bool(key.args.get("nulls_first"))
    nulls = "" if nulls_first is not bool(down) else " NULLS FIRST" if nulls_first else " NULLS LAST"
    return (" DESC" if down else " ASC" if down is False else "") + nulls


def group(node: exp.Expr, write: Write, depth: int) -> str | None:
    """GROUP BY columns or expressions."""
    if not has_only(node, "expressions") or node.args.get("all") is not None:
        return None
    keys = joined(node.expressions, write, depth)
    return None if not keys else f"GROUP BY {keys}"


def clause(word: str) -> Callable[[exp.Expr, Write, int], str | None]:
    """A word before what stands in it: FROM, WHERE, HAVING."""

    def written(node: exp.Expr, write: Write, depth: int) -> str | None:
        inner = write(node.this, depth) if has_only(node, "this") else None
        return None if inner is None else f"{word} {inner}"

    return written


def call(name: str) -> Callable[[exp.Expr, Write, int], str | None]:
    """A function whose arguments stand in the order of its type."""

    def written(node: exp.Expr, write: Write, depth: int) -> str | None:
        given: list[object] = []
        for key in node.arg_types:
            value = node.args.get(key)
            given += value if isinstance(value, list) else [value]
        inner = joined((part for part in given if part is not None and not isinstance(part, bool)), write, depth)
        return None if inner is None else f"{name}({inner})"

    return written
