"""Which physical columns a statement uses and for what, and which it holds equal: what a catalogue learns from."""

from __future__ import annotations

from functools import lru_cache

from sqlglot import exp

from stef.spec import ColumnUse, Role
from stef.sql.blocks import Block, Seen
from stef.sql.nodes import children, is_leaf, named, qualifier
from stef.sql.targets import Names, Target, aggregate_name, plain, target

_CLAUSES = (
    ("prewhere", Role.FILTERED),
    ("where", Role.FILTERED),
    ("group", Role.GROUPED),
    ("having", Role.FILTERED),
    ("qualify", Role.FILTERED),
    ("order", Role.ORDERED),
)
# Clauses in which an output's name hides a column.
_BY_ALIAS = frozenset({"group", "having", "qualify", "order"})


def note_uses(node: exp.Select, names: Names, seen: Seen, *, top: bool) -> None:
    """Note the columns of one select, those of queries inside it left out: they are read for themselves.

    Args:
        node: The select.
        names: Its sources.
        seen: Where uses and links are noted.
        top: Whether it is the statement's own select, whose outputs are the answer.
    """
    noting = _Noting(names, seen)
    for output in node.expressions:
        noting.walk(output, Role.PROJECTED if top else Role.PASSED)
    joins = list(node.args.get("joins") or [])
    source = node.args.get("from_")
    if source is not None and isinstance(source.this, exp.Table):
        joins += source.this.args.get("joins") or []
    for join in joins:
        if (on := join.args.get("on")) is not None:
            noting.walk(on, Role.FILTERED)
        for column in join.args.get("using") or []:
            noting.shared(column.name)
    by_alias = _Noting(names.turned(), seen)
    for key, role in _CLAUSES:
        if (clause := node.args.get(key)) is not None:
            (by_alias if key in _BY_ALIAS else noting).walk(clause, role)


def note_membership(node: exp.Expr, names: Names, block: Block, seen: Seen) -> None:
    """`a.x IN (SELECT b.y …)` and `a.x = (SELECT b.y …)` hold two columns equal as a join does."""
    outputs = list(block.relation.outputs.values())
    if not isinstance(node, exp.In | exp.EQ) or not isinstance(node.this, exp.Column) or len(outputs) != 1:
        return
    if isinstance(outputs[0], exp.Column):
        _link(physical(node.this, names), physical(outputs[0], block.names), seen)


class _Noting:
    """Walks the expressions of one select."""

    def __init__(self, names: Names, seen: Seen) -> None:
        self.names, self.seen = names, seen

    def walk(self, node: exp.Expr, role: Role) -> None:
        """Note what is used below a node."""
        stack = [(node, role)]
        while stack:
            current, doing = stack.pop()
            if isinstance(current, exp.Column):
                self._note(physical(current, self.names), doing)
            elif type(current) is exp.EQ and self._equal(current):
                continue
            elif not is_leaf(current) and not isinstance(current, exp.Query):
                doing = Role.AGGREGATED if doing is not Role.FILTERED and aggregate_name(current) else doing
                stack += [(inner, doing) for inner in reversed(children(current))]

    def shared(self, name: str) -> None:
        """USING: the column of the two tables that stand beside it."""
        tables = [relation.table for relation in self.names.relations.values() if relation.table]
        if len(tables) == 2:
            left, right = (plain(name, table) for table in tables)
            _link(left, right, self.seen)

    def _equal(self, node: exp.EQ) -> bool:
        """Note an equality of two columns of two tables as a link; False when it is none."""
        left, right = node.args["this"], node.args["expression"]
        if not isinstance(left, exp.Column) or not isinstance(right, exp.Column):
            return False
        return _link(physical(left, self.names), physical(right, self.names), self.seen)

    def _note(self, found: Target | None, role: Role) -> None:
        if found is not None:
            self.seen.uses[found.table, found.column, role] = None


@lru_cache(maxsize=4096)
def use(table: str, column: str, role: Role) -> ColumnUse:
    """One use of a column; the same few are met again and again."""
    return ColumnUse(table, column, role)


def _link(left: Target | None, right: Target | None, seen: Seen) -> bool:
    if left is None or right is None or not left.table or not right.table or left is right or left == right:
        return False
    for side in (left, right):
        seen.uses[side.table, side.column, Role.JOINED] = None
    a, b = f"{left.table}.{left.column}", f"{right.table}.{right.column}"
    seen.links[(a, b) if a <= b else (b, a)] = None
    return True


def physical(column: exp.Column, names: Names) -> Target | None:
    """The column of a table that a column stands for; None when it is computed, a star, or of no source in sight."""
    name, before = named(column), qualifier(column)
    if isinstance(column.this, exp.Star) or not name:
        return None
    if names.aliases_first and not before and _is_computed(names.aliases.get(name.lower())):
        return None
    found = target(column, names)
    if found is None or found.aggregate or found.window is not None or found.expression or found.part:
        return None
    if found.table:
        return found if found.table != before or _in_sight(before, names) else None
    if before or not _could_be_physical(column, names):
        return None
    return found


def _is_computed(output: exp.Expr | None) -> bool:
    return output is not None and not isinstance(output, exp.Column)


def _in_sight(qualifier: str, names: Names) -> bool:
    """Whether a qualifier names a source of the query or of one around it; else it is a record, or undefined."""
    wanted, scope = qualifier.lower(), names
    while True:
        if wanted in scope.relations:
            return True
        for alias, relation in scope.relations.items():
            if wanted in {alias, alias.rpartition(".")[2]} or wanted == relation.table.lower():
                return True
        if scope.outer is None:
            return False
        scope = scope.outer


def _could_be_physical(column: exp.Column, names: Names) -> bool:
    """Whether an unqualified column that no derived source puts out may be one of several tables."""
    if names.origin(column) != (None, None):
        return False
    return sum(bool(relation.table) for relation in names.relations.values()) > 1
