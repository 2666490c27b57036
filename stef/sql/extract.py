"""SQL → spec: one walk over the tree, with common table expressions and derived tables followed to their columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from stef.spec import Effect, Filter, Limit, OrderKey, QuerySpec, Scope, Source
from stef.sql.blocks import (
    MAX_NESTING,
    Block,
    Context,
    Seen,
    all_aggregations,
    empty_block,
    limit_below,
    passed_through,
    put_out,
    relation_of,
    renamed,
)
from stef.sql.constructs import constructs
from stef.sql.counted import aggregate_conditions
from stef.sql.faults import truncated, undefined
from stef.sql.joins import effective
from stef.sql.keys import group_keys, order_key, order_keys
from stef.sql.limits import joined, limit_of, limit_of_rank, limit_of_rownum
from stef.sql.nodes import Nodes, kinds, shallow
from stef.sql.outputs import is_plain
from stef.sql.predicates import conditions
from stef.sql.quoted import texts_for_names
from stef.sql.reading import Place, Reading
from stef.sql.setops import branches_of, combine
from stef.sql.sources import Sources
from stef.sql.subqueries import absent, against_query, chosen_rows
from stef.sql.targets import Names, target
from stef.sql.unrunnable import unrunnable
from stef.sql.uses import note_membership, note_uses, use
from stef.timespan import Calendar

_CLAUSES = (
    ("prewhere", Scope.PREWHERE),
    ("where", Scope.WHERE),
    ("having", Scope.HAVING),
    ("qualify", Scope.QUALIFY),
)
_NARROWING = ("where", "having", "qualify", "prewhere", "connect")
# Clauses of these in which an output's name hides a column.
_BY_ALIAS = frozenset({"having", "qualify"})
_QUERIES = kinds(exp.Query)


def extract(
    tree: exp.Query,
    *,
    calendar: Calendar,
    variables: Mapping[str, str] | None = None,
    dialect: str = "",
    text: str = "",
    nodes: Nodes | None = None,
) -> QuerySpec:
    """Read what a statement asks for.

    Args:
        tree: From `parse.parse`.
        calendar: For clock functions.
        variables: SQL text of SET and DECLARE values and of logged parameters, by lower-case name.
        dialect: That read the tree.
        text: The statement as written.
        nodes: All nodes of the tree, where they are known.

    Raises:
        RecursionError: It is nested too deep.
    """
    if nodes is None or nodes.all[0] is not tree:
        nodes = Nodes.of(tree)
    if texts_for_names(nodes, dialect):
        nodes = Nodes.of(tree)
    return _Walk(nodes, calendar, variables or {}, dialect).spec(tree, text)


def _values(variables: Mapping[str, str], dialect: str) -> dict[str, exp.Expr]:
    found: dict[str, exp.Expr] = {}
    for name, text in variables.items():
        try:
            found[name.lower()] = sqlglot.parse_one(text, read=dialect or None)
        except (SqlglotError, ValueError, ArithmeticError, RecursionError):
            continue  # the parameter then stays a placeholder
    return found


class _Walk:
    """Collects over one statement what belongs to no single query."""

    def __init__(self, nodes: Nodes, calendar: Calendar, variables: Mapping[str, str], dialect: str) -> None:
        self.nodes = nodes
        self.has_queries = len(nodes.select(_QUERIES)) > 1
        self.reading = Reading(calendar=calendar, variables=_values(variables, dialect), subquery=self._subquery)
        self.seen = Seen()
        self.rownums: list[Limit] = []
        self.superlatives: list[tuple[Limit, tuple[OrderKey, ...]]] = []
        self.contexts: list[Context] = []
        self.dialect = dialect

    def spec(self, tree: exp.Query, text: str) -> QuerySpec:
        """Everything that the statement asks for."""
        root = self._query(tree, Context(scope=Scope.WHERE, path="", ctes={}))
        shape = passed_through(root)
        limit, order = self._limit(root, shape)
        unread = [item for cte in self.seen.ctes if not cte.readers for item in cte.filters]
        return QuerySpec(
            source=Source.SQL,
            projections=shape.projections,
            aggregations=tuple(dict.fromkeys(all_aggregations(root))),
            filters=(*root.filters, *(replace(item, effect=Effect.UNUSED) for item in unread)),
            group_by=shape.group_by,
            order_by=order,
            limit=limit,
            distinct=root.distinct or shape.distinct,
            tables=tuple(self.seen.tables),
            joins=tuple(self.seen.joins),
            uses=tuple(use(*found) for found in self.seen.uses),
            links=tuple(self.seen.links),
            set_operations=tuple(self.seen.set_operations),
            windows=tuple(self.seen.windows),
            placeholders=tuple(dict.fromkeys(self.reading.placeholders)),
            undefined=undefined(self.nodes, self.dialect),
            truncated=truncated(self.nodes, self.dialect),
            faults=unrunnable(self.nodes, text, self.dialect),
            constructs=constructs(tree, self.nodes),
        )

    def _limit(self, root: Block, shape: Block) -> tuple[Limit | None, tuple[OrderKey, ...]]:
        """The cap that decides the rows, and the sort that goes with it."""
        order = root.order_by or shape.order_by
        if root.limit is not None:
            return root.limit, order
        if shape is not root and shape.limit is not None:
            return shape.limit, order
        ranked = [found for item in self.reading.ranked if (found := limit_of_rank(item)) is not None]
        if (first := joined([limit for limit, _ in ranked])) is not None:
            return first, order or next((keys for _, keys in ranked), ())
        if (below := limit_below(root)) is not None:
            return below, order
        if (first := joined(self.rownums)) is not None:
            return first, order
        if self.superlatives:
            limit, keys = self.superlatives[0]
            return limit, order or keys
        return None, order

    # ── queries ──

    def _query(self, node: exp.Expr, context: Context) -> Block:
        if context.nesting > MAX_NESTING:
            raise RecursionError(f"queries nested more than {MAX_NESTING} deep")
        context = self._with(node, context)
        match node:
            case exp.SetOperation():
                return self._set_operation(node, context)
            case exp.Subquery():
                return self._bracketed(node, context)
            case exp.Select():
                return self._select(node, context)
            case _:
                return empty_block()

    def _with(self, node: exp.Expr, context: Context) -> Context:
        clause = node.args.get("with_")
        if clause is None:
            return context
        known = dict(context.ctes)
        for cte in clause.expressions:
            name, itself = cte.alias.lower(), empty_block()
            recursive = bool(clause.args.get("recursive"))
            inner = Context(
                scope=Scope.CTE,
                path=f"cte:{name}/",
                ctes={**known, name: itself} if recursive else known,
                recursing=(*context.recursing, itself) if recursive else context.recursing,
                outer=context.outer,
                nesting=context.nesting + 1,
            )
            block = self._query(cte.this, inner)
            renamed(block.relation, cte.args.get("alias"))
            known[name] = block
            self.seen.ctes.append(block)
        return replace(context, ctes=known)

    def _set_operation(self, node: exp.SetOperation, context: Context) -> Block:
        branches, kinds = branches_of(node)
        self.seen.set_operations += kinds
        before = sum(block.readers for block in context.recursing)
        blocks = [self._query(branch, context) for branch in branches]
        first = blocks[0]
        if sum(block.readers for block in context.recursing) > before:
            # A recursion: the anchor's conditions bind where it begins, the others every further step.
            filters = list(dict.fromkeys(item for block in blocks for item in block.filters))
        else:
            filters = combine([block.filters for block in blocks], kinds, self.reading)
        select = next((b for b in branches if isinstance(b, exp.Select)), None)
        order = order_keys(node, select, first.names) if select is not None else ()
        return Block(
            relation=first.relation,
            names=first.names,
            filters=filters,
            projections=first.projections,
            aggregations=[item for block in blocks for item in block.aggregations],
            group_by=first.group_by,
            order_by=order or first.order_by,
            limit=limit_of(node, context.path) or first.limit,
            distinct=bool(node.args.get("distinct")) and "union" in kinds,
            children=[child for block in blocks for child in block.children],
        )

    def _bracketed(self, node: exp.Subquery, context: Context) -> Block:
        block = self._query(node.this, context)
        order = node.args.get("order")
        if order is not None:
            block.order_by = tuple(order_key(item, None, block.names) for item in order.expressions)
        block.limit = limit_of(node, context.path) or block.limit
        return block

    def _select(self, node: exp.Select, context: Context) -> Block:
        names = Names(outer=context.outer)
        sources = Sources(query=self._query, seen=self.seen, context=context, names=names)
        sources.read(node)
        names.settle({item.alias.lower(): item.this for item in node.expressions if isinstance(item, exp.Alias)})
        block = Block(relation=relation_of(node, names, sources.children), names=names, children=list(sources.children))
        self.contexts.append(context)
        own = self._conditions(node, block, context)
        self.contexts.pop()
        block.filters = [*(item for child in sources.children for item in child.filters), *own]
        projections, block.aggregations = put_out(node, names, sources.children)
        block.projections = tuple(projections)
        block.group_by = group_keys(node, names)
        block.order_by = order_keys(node, node, names)
        block.limit = limit_of(node, context.path)
        distinct = node.args.get("distinct")
        block.distinct = distinct is not None and distinct.args.get("on") is None
        if exp.Window in self.nodes.kinds:
            self._windows(node)
        note_uses(node, names, self.seen, top=not context.path)
        return block

    def _windows(self, node: exp.Select) -> None:
        clauses = (node.args.get(key) for key in ("qualify", "order"))
        for part in (*node.expressions, *(clause for clause in clauses if clause is not None)):
            for inner in shallow(part):
                if isinstance(inner, exp.Window) and isinstance(inner.this, exp.Expr):
                    self.seen.windows[type(inner.this).__name__.lower()] = None

    # ── conditions ──

    def _conditions(self, node: exp.Select, block: Block, context: Context) -> list[Filter]:
        found = self._clauses(node, block.names, context)
        having = node.args.get("having")
        if having is None and all(map(is_plain, node.expressions)):
            return found + self._joined(node, found, block, context)
        inside = Place(scope=context.scope, path=f"{context.path}select", names=block.names)
        for output in node.expressions:
            found += aggregate_conditions(output, inside, self.reading)
            for query in (n for n in shallow(output) if isinstance(n, exp.Query)) if self.has_queries else ():
                inner = self._query(query, context.inner(Scope.SUBQUERY, "select", block.names))
                found += inner.filters
                block.children.append(inner)
        if having is not None:
            found += aggregate_conditions(having.this, replace(inside, path=f"{context.path}having"), self.reading)
        return found + self._joined(node, found, block, context)

    def _clauses(self, node: exp.Select, names: Names, context: Context) -> list[Filter]:
        """WHERE, HAVING and their relatives; row numbers among them are limits."""
        found: list[Filter] = []
        if not any(node.args.get(key) for key in _NARROWING):
            return found
        connect = node.args.get("connect")
        if connect is not None and (start := connect.args.get("start")) is not None:
            found += conditions(start, Place(scope=Scope.WHERE, path=f"{context.path}start", names=names), self.reading)
        for key, scope in _CLAUSES:
            clause = node.args.get(key)
            if clause is None:
                continue
            at = scope if context.scope is Scope.WHERE else context.scope
            seen = names.turned() if key in _BY_ALIAS else names
            place = Place(scope=at, path=f"{context.path}{key}", names=seen)
            for item in conditions(clause.this, place, self.reading):
                limit = limit_of_rownum(item, sorted_here=node.args.get("order") is not None, path=context.path)
                if limit is None:
                    found.append(item)
                else:
                    self.rownums.append(limit)
        return found

    def _joined(self, node: exp.Select, known: list[Filter], block: Block, context: Context) -> list[Filter]:
        """Conditions in ON; on an outer join they narrow only what is looked up, not what is kept."""
        found: list[Filter] = []
        if not node.args.get("joins"):
            return found
        scope = Scope.JOIN if context.scope is Scope.WHERE else context.scope
        place = Place(scope=scope, path=f"{context.path}join", names=block.names, join_keys=True)
        for join in node.args["joins"]:
            on = join.args.get("on")
            if on is not None:
                found += effective(conditions(on, place, self.reading), join, node, block.names, known)
        return found

    # ── queries inside conditions ──

    def _subquery(self, node: exp.Expr, place: Place, negated: bool) -> tuple[Filter, ...]:
        query = node.find(exp.Query)
        if query is None:
            return ()
        query = query.this if isinstance(query, exp.Subquery) and isinstance(query.this, exp.Query) else query
        block = self._query(query, self.contexts[-1].inner(Scope.SUBQUERY, "in", place.names))
        note_membership(node, place.names, block, self.seen)
        found = tuple(replace(item, path=f"{item.path}!") if negated else item for item in block.filters)
        if negated:
            return (absent(node, block, place), *found)
        tested = target(node.this, place.names) if _has_left_side(node) else None
        if tested is None:
            return found
        chosen = chosen_rows(node, tested.column, block)
        if chosen is not None:
            self.superlatives.append(chosen)
            return found
        if isinstance(node, exp.LT | exp.LTE | exp.GT | exp.GTE) or (isinstance(node, exp.EQ) and block.aggregations):
            return (*against_query(node, tested, place), *found)
        return found


def _has_left_side(node: exp.Expr) -> bool:
    """Whether a condition with a query inside tests something against it; EXISTS does not."""
    return not isinstance(node, exp.Exists) and isinstance(node.this, exp.Expr)
