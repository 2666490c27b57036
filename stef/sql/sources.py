"""FROM and JOIN: tables, common table expressions and derived tables under the names that a select gives them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from sqlglot import exp

from stef.spec import Scope
from stef.sql.blocks import Block, Context, Seen, renamed
from stef.sql.joins import join_of
from stef.sql.nodes import called
from stef.sql.targets import Names, Relation

_WRAPPERS = (exp.Final, exp.Lateral, exp.Paren)


@dataclass(slots=True, kw_only=True)
class Sources:
    """Reads the sources of one select.

    Attributes:
        query: Reads a query inside it.
        seen: Where tables and joins of the statement are noted.
        context: Where the select stands.
        names: Filled with the sources by alias.
        children: Filled with the queries that it reads from.
    """

    query: Callable[[exp.Expr, Context], Block]
    seen: Seen
    context: Context
    names: Names
    children: list[Block] = field(default_factory=list)

    def read(self, node: exp.Select) -> None:
        """Read FROM and all joins."""
        joins = list(node.args.get("joins") or [])
        if (clause := node.args.get("from_")) is not None:
            self._source(clause.this)
            if isinstance(clause.this, exp.Table):
                joins = [*(clause.this.args.get("joins") or []), *joins]
        for lateral in node.args.get("laterals") or []:
            self._source(lateral)
        for join in joins:
            table = self._source(join.this)
            self.seen.joins.append(join_of(join, table, self.names, self.context.path))

    def _source(self, node: exp.Expr) -> str:
        """Note one source; returns the name of the table, "" for a derived one."""
        alias = called(node).lower()
        while isinstance(node, _WRAPPERS) and isinstance(node.this, exp.Expr):
            if isinstance(node, exp.Lateral) and not isinstance(node.this, exp.Subquery):
                return ""
            node = node.this
            alias = alias or node.alias_or_name.lower()
        if isinstance(node, exp.Table):
            return self._table(node, alias)
        if isinstance(node, exp.Query):
            bracketed = isinstance(node, exp.Subquery) and isinstance(node.this, exp.Query | exp.Table)
            inner: exp.Expr = node.this if bracketed else node
            if isinstance(inner, exp.Table):
                return self._table(inner, alias)
            self._derived(node, inner, alias)
        return ""

    def _derived(self, node: exp.Expr, inner: exp.Expr, alias: str) -> None:
        scope = Scope.SUBQUERY if self.context.scope is not Scope.CTE else Scope.CTE
        step = f"from:{alias or len(self.children)}"
        block = self.query(inner, self.context.inner(scope, step, self.names))
        renamed(block.relation, node.args.get("alias"))
        self.names.relations[alias or f"#{len(self.names.relations)}"] = block.relation
        self.children.append(block)

    def _table(self, node: exp.Table, alias: str) -> str:
        cte = self.context.ctes.get(node.name.lower()) if self.context.ctes and not node.db else None
        if cte is not None:
            self._cte(cte, alias)
            return node.name
        plain = isinstance(node.this, exp.Identifier) and node.args.get("db") is None
        table = node.name if plain else ".".join(part.name for part in node.parts if part.name)
        if table:
            self.seen.tables[table] = None
            self.names.relations[alias or table.lower()] = Relation(table=table)
        return table

    def _cte(self, cte: Block, alias: str) -> None:
        cte.readers += 1
        self.names.relations[alias] = cte.relation
        if not any(child is cte for child in self.children):
            # A second reader sees the same conditions: they count once.
            self.children.append(cte if cte.readers == 1 else replace(cte, filters=[]))
