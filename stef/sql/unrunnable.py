"""What a parser takes and the database of the dialect would refuse, or answer with nothing."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence

from sqlglot import exp

from stef.sql.rendering import shown


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Functions of SQLite with its usual extensions; what else is called there does not exist.
_SQLITE = _names("""
    abs avg cast changes char coalesce concat concat_ws count date datetime time julianday strftime unixepoch timediff
    format glob group_concat string_agg hex ifnull iif if instr length like likelihood likely lower ltrim max min nullif
    octet_length printf quote random randomblob replace round rtrim sign soundex substr substring sum total trim typeof
    unhex unicode unlikely upper zeroblob row_number rank dense_rank percent_rank cume_dist ntile lag lead first_value
    last_value nth_value acos asin atan atan2 ceil ceiling cos degrees exp floor ln log log10 log2 mod pi pow power
    radians sin sqrt tan trunc json json_extract json_each json_tree json_array json_array_length json_object json_type
    json_valid json_group_array json_group_object median percentile last_insert_rowid total_changes load_extension match
    current_timestamp current_date current_time
""")
# Functions that these do not have, and agents call because others do.
_FOREIGN = {
    "mysql": _names("strftime iif julianday to_char date_part to_date date_trunc string_agg nvl"),
    "postgres": _names(
        "strftime iif ifnull julianday year month day date_format group_concat datediff timestampdiff instr str_to_date"
        " curdate nvl getdate"
    ),
}
# Words that stand before a bracket and call nothing.
_NO_CALLS = _names("""
    in values on and or as not exists over from select where when then else case using join by having union all any some
    partition with filter between like is distinct set limit numeric decimal varchar char int integer real float
    intersect except materialized recursive glob regexp escape collate text order offset end interval lateral table
""")
_CALL = re.compile(r"(?<![\w.])([A-Za-z_]\w*)\s*\(")
_QUOTED = re.compile(r"'(?:[^']|'')*'|\"[^\"]*\"|`[^`]*`|\[[^\]]*\]|--[^\n]*|/\*.*?\*/", re.DOTALL)


def unrunnable(nodes: Sequence[exp.Expr], text: str, dialect: str) -> tuple[str, ...]:
    """One sentence for each thing that makes a statement fail or give nothing.

    Args:
        nodes: All nodes of the statement.
        text: The statement as written.
        dialect: Of its database; nothing is said of functions where it is not known.
    """
    found = list(_unknown_functions(nodes, text, dialect))
    for node in nodes:
        match node:
            case exp.Select():
                found += _of_select(node)
            case exp.AggFunc() if _is_nested(node):
                found.append(f"{shown(node)} stands in another aggregate")
            case exp.Where() if (inside := _aggregate_in(node)) is not None:
                found.append(f"{shown(inside)} stands in WHERE")
            case exp.SetOperation():
                found += _of_set_operation(node)
    return tuple(dict.fromkeys(found))


def _unknown_functions(nodes: Sequence[exp.Expr], text: str, dialect: str) -> Iterator[str]:
    if dialect != "sqlite" and dialect not in _FOREIGN:
        return
    tables = {node.alias_or_name.lower() for node in nodes if isinstance(node, exp.CTE | exp.Table | exp.TableAlias)}
    for name in dict.fromkeys(found.lower() for found in _CALL.findall(_QUOTED.sub(" x ", text))):
        known = name in _SQLITE if dialect == "sqlite" else name not in _FOREIGN[dialect]
        if not known and name not in _NO_CALLS and name not in tables:
            yield f"{dialect} has no function {name}"


def _of_select(node: exp.Select) -> Iterator[str]:
    names = [source.alias_or_name.lower() for source in _sources(node) if source.alias_or_name]
    for name in dict.fromkeys(name for name in names if names.count(name) > 1):
        yield f"two sources of one FROM are called {name}"
    for name in _ambiguous(node):
        yield f"{name} has no qualifier, and two tables of the query have it"
    where = node.args.get("where")
    if where is not None:
        yield from _nothing(where.this)


def _sources(node: exp.Select) -> list[exp.Expr]:
    first = node.args.get("from_")
    return [*([first.this] if first is not None else []), *(join.this for join in node.args.get("joins") or [])]


def _ambiguous(node: exp.Select) -> Iterator[str]:
    """Unqualified columns that an ON of the same select holds equal under two qualifiers."""
    joins = node.args.get("joins") or []
    if any(join.args.get("using") or str(join.args.get("method") or "").upper() == "NATURAL" for join in joins):
        return
    shared = {
        item.this.name.lower()
        for join in joins
        for item in (join.args["on"].find_all(exp.EQ) if join.args.get("on") is not None else ())
        if _is_shared(item)
    }
    if not shared:
        return
    aliases = {item.alias.lower() for item in node.selects if item.alias}
    for column in node.find_all(exp.Column):
        name = column.name.lower()
        if not column.table and name in shared - aliases and column.find_ancestor(exp.Select) is node:
            yield name
            return


def _is_shared(item: exp.Expr) -> bool:
    left, right = item.this, item.expression
    if not (isinstance(left, exp.Column) and isinstance(right, exp.Column) and left.table and right.table):
        return False
    return left.table.lower() != right.table.lower() and left.name.lower() == right.name.lower()


def _nothing(condition: exp.Expr) -> Iterator[str]:
    """Columns that should equal two values at once, or lie above one bound and below a lower one."""
    equal: dict[str, set[str]] = defaultdict(set)
    low: dict[str, float] = {}
    high: dict[str, float] = {}
    for item in conjuncts(condition):
        if not (isinstance(item.args.get("this"), exp.Column) and isinstance(item.args.get("expression"), exp.Literal)):
            continue
        name, value = f"{item.this.table}.{item.this.name}".lower().strip("."), item.expression
        if isinstance(item, exp.EQ):
            equal[name].add(value.name)
        elif not value.is_string and isinstance(item, exp.GT | exp.GTE):
            low[name] = max(float(value.name), low.get(name, float(value.name)))
        elif not value.is_string and isinstance(item, exp.LT | exp.LTE):
            high[name] = min(float(value.name), high.get(name, float(value.name)))
    for name, values in equal.items():
        if len(values) > 1:
            yield f"{name} cannot equal {' and '.join(sorted(values))} at once"
    for name in sorted(low.keys() & high.keys()):
        if low[name] > high[name]:
            yield f"{name} cannot be above {low[name]:g} and below {high[name]:g}"


def conjuncts(node: exp.Expr, most: int = 200) -> list[exp.Expr]:
    """Conditions joined by AND, the first so many."""
    found: list[exp.Expr] = []
    waiting = [node]
    while waiting and len(found) < most:
        item = waiting.pop()
        if isinstance(item, exp.And):
            waiting += [item.this, item.expression]
        elif isinstance(item, exp.Paren):
            waiting.append(item.this)
        else:
            found.append(item)
    return found


def _is_nested(node: exp.AggFunc) -> bool:
    """Whether an aggregate stands in another one of the same select; windows apart."""
    outer = node.find_ancestor(exp.AggFunc, exp.Select, exp.Window)
    windows = exp.Window | exp.WithinGroup
    return (
        isinstance(outer, exp.AggFunc)
        and not isinstance(node.parent, windows)
        and not isinstance(outer.parent, windows)
    )


def _aggregate_in(where: exp.Where) -> exp.Expr | None:
    for node in where.find_all(exp.AggFunc):
        if node.find_ancestor(exp.Select, exp.Where) is where and not isinstance(node.parent, exp.Window):
            return node
    return None


def _of_set_operation(node: exp.SetOperation) -> Iterator[str]:
    order, left = node.args.get("order"), node.this
    while isinstance(left, exp.SetOperation | exp.Subquery):
        left = left.this
    if order is None or not isinstance(left, exp.Select):
        return
    outputs = {item.alias_or_name.lower() for item in left.selects}
    for key in order.expressions:
        column = key.this
        if isinstance(column, exp.Column) and column.name.lower() not in outputs and "*" not in outputs:
            yield f"{column.name} is no output of the set operation that is sorted by it"
