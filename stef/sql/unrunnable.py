"""What a parser takes and the database of the dialect would refuse, or answer with nothing."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator

from sqlglot import exp

from stef.sql.nodes import Nodes, called, every, kinds, named, qualifier
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
_WORD_AT_END = re.compile(r"(?<![\w.])[A-Za-z_]\w*\Z")
_QUOTED = re.compile(r"'[^']*(?:''[^']*)*'|\"[^\"]*\"|`[^`]*`|\[[^\]]*\]|--[^\n]*|/\*.*?\*/", re.DOTALL)
_SOURCES = kinds(exp.CTE, exp.Table, exp.TableAlias)
_AGGREGATES = kinds(exp.AggFunc)
_COLUMNS = kinds(exp.Column)
_LOOKED_AT = kinds(exp.Select, exp.AggFunc, exp.Where, exp.SetOperation)
_WINDOWS = (exp.Window, exp.WithinGroup)
_ABOVE, _BELOW = (exp.GT, exp.GTE), (exp.LT, exp.LTE)


def unrunnable(nodes: Nodes, text: str, dialect: str) -> tuple[str, ...]:
    """One sentence for each thing that makes a statement fail or give nothing.

    Args:
        nodes: All nodes of the statement.
        text: The statement as written.
        dialect: Of its database; nothing is said of functions where it is not known.
    """
    found = list(_unknown_functions(nodes, text, dialect))
    for node in nodes.select(_LOOKED_AT):
        match node:
            case exp.Select():
                found += _of_select(node, nodes)
            case exp.AggFunc() if _is_nested(node):
                found.append(f"{shown(node)} stands in another aggregate")
            case exp.Where() if (inside := _aggregate_in(node, nodes)) is not None:
                found.append(f"{shown(inside)} stands in WHERE")
            case exp.SetOperation():
                found += _of_set_operation(node)
    return tuple(dict.fromkeys(found))


def _unknown_functions(nodes: Nodes, text: str, dialect: str) -> Iterator[str]:
    if "(" not in text or (dialect != "sqlite" and dialect not in _FOREIGN):
        return
    for name in _called(_QUOTED.sub(" x ", text)):
        known = name in _SQLITE if dialect == "sqlite" else name not in _FOREIGN[dialect]
        if not known and name not in _NO_CALLS and name not in _tables(nodes):
            yield f"{dialect} has no function {name}"


def _called(code: str) -> dict[str, None]:
    """Lower-case words right before an opening bracket, each once."""
    before = (part.rsplit(None, 1) for part in code.split("(")[:-1])
    words = (_WORD_AT_END.search(parts[-1]) for parts in before if parts)
    return dict.fromkeys(word.group().lower() for word in words if word is not None)


def _tables(nodes: Nodes) -> set[str]:
    return {called(node).lower() for node in nodes.select(_SOURCES)}


def _of_select(node: exp.Select, nodes: Nodes) -> Iterator[str]:
    names = [name.lower() for source in _sources(node) if (name := called(source))]
    if len(set(names)) < len(names):
        for name in dict.fromkeys(name for name in names if names.count(name) > 1):
            yield f"two sources of one FROM are called {name}"
    for name in _ambiguous(node, nodes):
        yield f"{name} has no qualifier, and two tables of the query have it"
    where = node.args.get("where")
    if where is not None:
        yield from _nothing(where.this)


def _sources(node: exp.Select) -> list[exp.Expr]:
    first = node.args.get("from_")
    return [*([first.this] if first is not None else []), *(join.this for join in node.args.get("joins") or [])]


def _ambiguous(node: exp.Select, nodes: Nodes) -> Iterator[str]:
    """Unqualified columns that an ON of the same select holds equal under two qualifiers."""
    joins = node.args.get("joins") or []
    if any(join.args.get("using") or str(join.args.get("method") or "").upper() == "NATURAL" for join in joins):
        return
    conditions = (on for join in joins if (on := join.args.get("on")) is not None)
    shared = {named(item.this).lower() for on in conditions for item in every(on) if _is_shared(item)}
    if not shared:
        return
    aliases = {item.alias.lower() for item in node.selects if item.alias}
    for column in nodes.select(_COLUMNS):
        if qualifier(column) or (name := named(column).lower()) not in shared or name in aliases:
            continue
        if column.find_ancestor(exp.Select) is node:
            yield name
            return


def _is_shared(item: exp.Expr) -> bool:
    """Whether two sources are held equal in columns of one name."""
    if not isinstance(item, exp.EQ):
        return False
    left, right = item.this, item.expression
    if not isinstance(left, exp.Column) or not isinstance(right, exp.Column):
        return False
    one, other = qualifier(left).lower(), qualifier(right).lower()
    return bool(one and other) and one != other and named(left).lower() == named(right).lower()


def _nothing(condition: exp.Expr) -> Iterator[str]:
    """Columns that should equal two values at once, or lie above one bound and below a lower one."""
    equal: dict[str, set[str]] = defaultdict(set)
    low: dict[str, float] = {}
    high: dict[str, float] = {}
    for item in conjuncts(condition):
        value = item.args.get("expression")
        if not isinstance(value, exp.Literal) or not isinstance(item.args.get("this"), exp.Column):
            continue
        name = f"{qualifier(item.this)}.{named(item.this)}".lower().strip(".")
        if isinstance(item, exp.EQ):
            equal[name].add(value.name)
        elif not value.is_string and isinstance(item, _ABOVE):
            low[name] = max(float(value.name), low.get(name, float(value.name)))
        elif not value.is_string and isinstance(item, _BELOW):
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
    return (
        isinstance(outer, exp.AggFunc)
        and not isinstance(node.parent, _WINDOWS)
        and not isinstance(outer.parent, _WINDOWS)
    )


def _aggregate_in(where: exp.Where, nodes: Nodes) -> exp.Expr | None:
    for node in nodes.select(_AGGREGATES):
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
