"""SQL → spec: one walk over the tree, with common table expressions and derived tables followed to their columns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from stef.spec import (
    Aggregation,
    Direction,
    Effect,
    Filter,
    GroupKey,
    Join,
    Limit,
    Op,
    OrderKey,
    Projection,
    QuerySpec,
    Scope,
    Source,
)
from stef.sql.predicates import Place, Reading, conditions
from stef.sql.setops import combine
from stef.sql.shape import (
    aggregate_conditions,
    aggregates,
    bare,
    group_keys,
    join_of,
    limit_of,
    limit_of_rank,
    order_key,
    order_keys,
    projection,
    shallow,
)
from stef.sql.targets import Names, Relation, target
from stef.timespan import Calendar
from stef.values import Null, Number, Unknown, Unresolved, fold

_EXTREMES = {"max": Direction.DESC, "min": Direction.ASC}
_MAX_NESTING = 60


@dataclass(slots=True, kw_only=True)
class Block:
    """What one query of the statement says, before the blocks are put together."""

    relation: Relation
    names: Names
    filters: list[Filter] = field(default_factory=list)
    projections: tuple[Projection, ...] = ()
    aggregations: list[Aggregation] = field(default_factory=list)
    group_by: tuple[GroupKey, ...] = ()
    order_by: tuple[OrderKey, ...] = ()
    limit: Limit | None = None
    distinct: bool = False
    children: list[Block] = field(default_factory=list)
    star: bool = False


@dataclass(slots=True, kw_only=True)
class _Context:
    """Where a query stands."""

    scope: Scope
    path: str
    ctes: Mapping[str, Block]
    outer: Names | None = None
    nesting: int = 0

    def inner(self, scope: Scope, step: str, outer: Names | None = None) -> _Context:
        return _Context(scope=scope, path=f"{self.path}{step}/", ctes=self.ctes, outer=outer, nesting=self.nesting + 1)


def extract(
    tree: exp.Query, *, calendar: Calendar, variables: Mapping[str, str] | None = None, dialect: str = ""
) -> QuerySpec:
    """Read what a statement asks for.

    Args:
        tree: From `parse.parse`.
        calendar: For clock functions.
        variables: SQL text of SET and DECLARE values and of logged parameters, by lower-case name.
        dialect: That read the tree.

    Raises:
        RecursionError: It is nested too deep.
    """
    return _Walk(calendar, variables or {}, dialect).spec(tree)


class _Walk:
    """Collects over one statement what belongs to no single query."""

    def __init__(self, calendar: Calendar, variables: Mapping[str, str], dialect: str) -> None:
        self.reading = Reading(calendar=calendar, variables=_values(variables, dialect), subquery=self._subquery)
        self.joins: list[Join] = []
        self.tables: dict[str, None] = {}
        self.used: Counter[str] = Counter()
        self.set_operations: list[str] = []
        self.windows: dict[str, None] = {}
        self.superlatives: list[tuple[Limit, tuple[OrderKey, ...]]] = []
        self.contexts: list[_Context] = []

    def spec(self, tree: exp.Query) -> QuerySpec:
        root = self._query(tree, _Context(scope=Scope.WHERE, path="", ctes={}))
        shape = _passed_through(root)
        limit, order = self._limit(root, shape)
        unused = {name for name, count in self.used.items() if not count}
        return QuerySpec(
            source=Source.SQL,
            projections=shape.projections,
            aggregations=tuple(dict.fromkeys(_all_aggregations(root))),
            filters=tuple(_mark_unused(item, unused) for item in root.filters),
            group_by=shape.group_by,
            order_by=order,
            limit=limit,
            distinct=root.distinct or shape.distinct,
            tables=tuple(self.tables),
            joins=tuple(self.joins),
            set_operations=tuple(self.set_operations),
            windows=tuple(self.windows),
            placeholders=tuple(dict.fromkeys(self.reading.placeholders)),
        )

    # ── queries ──

    def _query(self, node: exp.Expr, context: _Context) -> Block:
        if context.nesting > _MAX_NESTING:
            raise RecursionError(f"queries nested more than {_MAX_NESTING} deep")
        context = self._with(node, context)
        if isinstance(node, exp.SetOperation):
            return self._set_operation(node, context)
        if isinstance(node, exp.Subquery):
            return self._bracketed(node, context)
        if isinstance(node, exp.Select):
            return self._select(node, context)
        return Block(relation=Relation(), names=Names())

    def _with(self, node: exp.Expr, context: _Context) -> _Context:
        clause = node.args.get("with_")
        if clause is None:
            return context
        known = dict(context.ctes)
        for cte in clause.expressions:
            name = cte.alias.lower()
            self.used.setdefault(name, 0)
            recursive = (
                {**known, name: Block(relation=Relation(), names=Names())} if clause.args.get("recursive") else known
            )
            inner = _Context(
                scope=Scope.CTE, path=f"cte:{name}/", ctes=recursive, outer=context.outer, nesting=context.nesting + 1
            )
            block = self._query(cte.this, inner)
            _rename(block.relation, cte.args.get("alias"))
            known[name] = block
        return _Context(
            scope=context.scope, path=context.path, ctes=known, outer=context.outer, nesting=context.nesting
        )

    def _set_operation(self, node: exp.SetOperation, context: _Context) -> Block:
        branches, kinds = _branches(node)
        self.set_operations += kinds
        blocks = [self._query(branch, context) for branch in branches]
        first = blocks[0]
        select = next((b for b in branches if isinstance(b, exp.Select)), None)
        filters = combine([block.filters for block in blocks], kinds, self.reading)
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
            star=first.star,
        )

    def _bracketed(self, node: exp.Subquery, context: _Context) -> Block:
        block = self._query(node.this, context)
        order = node.args.get("order")
        if order is not None:
            block.order_by = tuple(order_key(item, None, block.names) for item in order.expressions)
        block.limit = limit_of(node, context.path) or block.limit  # type: ignore[arg-type]
        return block

    def _select(self, node: exp.Select, context: _Context) -> Block:
        names = Names(outer=context.outer)
        children = self._sources(node, names, context)
        names.aliases.update(
            {item.alias.lower(): item.this for item in node.expressions if isinstance(item, exp.Alias)}
        )
        relation = _outputs(node, names, children)
        block = Block(relation=relation, names=names, children=children, star=relation.star)
        self.contexts.append(context)
        block.filters = [
            *(item for child in children for item in child.filters),
            *self._conditions(node, block, context),
        ]
        self.contexts.pop()
        block.projections = _projections(node, names, children)
        block.aggregations = [item for output in node.expressions for item in aggregates(output, names)]
        block.group_by = group_keys(node, names)
        block.order_by = order_keys(node, node, names)
        block.limit = limit_of(node, context.path)
        block.distinct = node.args.get("distinct") is not None and node.args["distinct"].args.get("on") is None
        self.windows.update(
            {type(w.this).__name__.lower(): None for w in node.find_all(exp.Window) if isinstance(w.this, exp.Expr)}
        )
        return block

    # ── sources ──

    def _sources(self, node: exp.Select, names: Names, context: _Context) -> list[Block]:
        children: list[Block] = []
        sources = [node.args["from_"].this] if node.args.get("from_") is not None else []
        joins = list(node.args.get("joins") or [])
        for source in sources:
            self._source(source, names, children, context)
            joins = [*(source.args.get("joins") or []), *joins] if isinstance(source, exp.Table) else joins
        for join in joins:
            table = self._source(join.this, names, children, context)
            keys = _join_keys(join, names)
            self.joins.append(join_of(join, table, keys, context.path))
        return children

    def _source(self, node: exp.Expr, names: Names, children: list[Block], context: _Context) -> str:
        while (
            isinstance(node, exp.Final | exp.Lateral | exp.Paren)
            and isinstance(node.this, exp.Expr)
            and not isinstance(node, exp.Subquery)
        ):
            if isinstance(node, exp.Lateral) and not isinstance(node.this, exp.Subquery):
                return ""
            node = node.this
        alias = node.alias_or_name.lower()
        if isinstance(node, exp.Table):
            return self._table(node, alias, names, children, context)
        if isinstance(node, exp.Subquery | exp.Query):
            inner = node.this if isinstance(node, exp.Subquery) and isinstance(node.this, exp.Query) else node
            if isinstance(inner, exp.Table):
                return self._table(inner, alias, names, children, context)
            block = self._query(
                inner,
                context.inner(
                    Scope.SUBQUERY if context.scope is not Scope.CTE else Scope.CTE,
                    f"from:{alias or len(children)}",
                    names,
                ),
            )
            _rename(block.relation, node.args.get("alias"))
            names.relations[alias or f"#{len(names.relations)}"] = block.relation
            children.append(block)
        return ""

    def _table(self, node: exp.Table, alias: str, names: Names, children: list[Block], context: _Context) -> str:
        plain = not node.db
        cte = context.ctes.get(node.name.lower()) if plain else None
        if cte is not None:
            self.used[node.name.lower()] += 1
            names.relations[alias] = cte.relation
            if not any(child is cte for child in children):
                fresh = self.used[node.name.lower()] == 1
                children.append(cte if fresh else replace(cte, filters=[]))  # a second reader sees the same conditions
            return node.name
        table = ".".join(part.name for part in node.parts if part.name)
        if table:
            self.tables[table] = None
            names.relations[alias or table.lower()] = Relation(table=table)
        return table

    # ── conditions ──

    def _conditions(self, node: exp.Select, block: Block, context: _Context) -> list[Filter]:
        found: list[Filter] = []
        names = block.names
        for key, scope in (
            ("prewhere", Scope.PREWHERE),
            ("where", Scope.WHERE),
            ("having", Scope.HAVING),
            ("qualify", Scope.QUALIFY),
        ):
            clause = node.args.get(key)
            if clause is not None:
                at = scope if context.scope is Scope.WHERE else context.scope
                seen = replace(names, aliases_first=True) if key in {"having", "qualify"} else names
                found += conditions(clause.this, Place(scope=at, path=f"{context.path}{key}", names=seen), self.reading)
        found = [item for item in found if not self._rownum(item, node, context)]
        inside = Place(scope=context.scope, path=f"{context.path}select", names=names)
        for output in node.expressions:
            found += aggregate_conditions(output, inside, self.reading)
            for query in (n for n in shallow(output) if isinstance(n, exp.Query)):
                inner = self._query(query, context.inner(Scope.SUBQUERY, "select", names))
                found += inner.filters
                block.children.append(inner)
        having = node.args.get("having")
        if having is not None:
            found += aggregate_conditions(
                having.this, Place(scope=context.scope, path=f"{context.path}having", names=names), self.reading
            )
        return found + self._joined(node, found, block, context)

    def _rownum(self, item: Filter, node: exp.Select, context: _Context) -> bool:
        """Oracle's ROWNUM is a limit, and stands below a sort of the same query."""
        if item.column.upper() != "ROWNUM" or not isinstance(item.value, Number):
            return False
        count = int(item.value.value) - (1 if item.op is Op.LT else 0)
        below = node.args.get("order") is not None
        self.superlatives.append((Limit(count=count, below=below, text=item.text, path=context.path), ()))
        return True

    def _joined(self, node: exp.Select, known: list[Filter], block: Block, context: _Context) -> list[Filter]:
        """Conditions in ON; on an outer join they narrow only what is looked up, not what is kept."""
        found: list[Filter] = []
        for join in node.args.get("joins") or []:
            on = join.args.get("on")
            if on is None:
                continue
            scope = Scope.JOIN if context.scope is Scope.WHERE else context.scope
            read = conditions(
                on, Place(scope=scope, path=f"{context.path}join", names=block.names, join_keys=True), self.reading
            )
            side = str(join.side or "").upper()
            if side:
                rejects = _rejects_unmatched(join, side, node, block.names, known)
                read = [item if rejects and item.table in rejects else replace(item, effect=Effect.OUTER_JOIN) for item in read]
            found += read
        return found

    # ── queries inside conditions ──

    def _subquery(self, node: exp.Expr, place: Place, negated: bool) -> tuple[Filter, ...]:  # noqa: FBT001 - callback
        query = node.find(exp.Query)
        if query is None:
            return ()
        query = query.this if isinstance(query, exp.Subquery) and isinstance(query.this, exp.Query) else query
        context = self.contexts[-1].inner(Scope.SUBQUERY, "in", place.names)
        block = self._query(query, context)
        found = tuple(replace(item, path=f"{item.path}!") if negated else item for item in block.filters)
        tested = None if isinstance(node, exp.Exists) else target(node.this, place.names)
        if negated:
            return (*self._absent(node, block, query, place), *found)
        if tested is not None and self._superlative(node, tested.column, block):
            return found
        if isinstance(node, exp.LT | exp.LTE | exp.GT | exp.GTE) or (
            isinstance(node, exp.EQ) and block.aggregations and tested is not None
        ):
            return (*_against_query(node, place, self.reading), *found)
        return found

    def _absent(self, node: exp.Expr, block: Block, query: exp.Expr, place: Place) -> tuple[Filter, ...]:
        tables = [relation.table for relation in block.names.relations.values() if relation.table]
        table = tables[0] if tables else ""
        column = table.rpartition(".")[2]
        return (
            Filter(
                column=column,
                op=Op.NOT_EXISTS,
                value=Null(),
                scope=place.scope,
                table=table,
                text=node.sql()[:200],
                path=place.path,
            ),
        )

    def _superlative(self, node: exp.Expr, column: str, block: Block) -> bool:
        """`x = (SELECT MAX(x) …)` and `id IN (SELECT id … ORDER BY … LIMIT 1)` choose the top rows."""
        if not isinstance(node, exp.EQ | exp.In):
            return False
        if block.limit is not None and block.limit.count is not None:
            self.superlatives.append((replace(block.limit, below=False), block.order_by))
            return True
        extreme = next((a for a in block.aggregations if a.function in _EXTREMES), None)
        if extreme is None or not block.projections:
            return False
        key = OrderKey(
            by=extreme.of or column,
            direction=_EXTREMES[extreme.function],
            columns=(extreme.of or column,),
            text=extreme.text,
        )
        per = tuple(g.column for g in block.group_by)
        self.superlatives.append((Limit(count=1, per=per, ties=True, text=node.sql()[:200]), (key,)))
        return True

    # ── limits ──

    def _limit(self, root: Block, shape: Block) -> tuple[Limit | None, tuple[OrderKey, ...]]:
        """The cap that decides the rows, and the sort that goes with it."""
        order = root.order_by or shape.order_by
        if root.limit is not None:
            return root.limit, order
        if shape is not root and shape.limit is not None:
            return shape.limit, order
        for ranked in self.reading.ranked:
            found = limit_of_rank(ranked)
            if found is not None:
                return found[0], order or found[1]
        if (below := _limit_below(root)) is not None:
            return below, order
        if self.superlatives:
            limit, keys = self.superlatives[0]
            return limit, order or keys
        return None, order


def _values(variables: Mapping[str, str], dialect: str) -> dict[str, exp.Expr]:
    found: dict[str, exp.Expr] = {}
    for name, text in variables.items():
        try:
            found[name.lower()] = sqlglot.parse_one(text, read=dialect or None)
        except (SqlglotError, ValueError, RecursionError):
            continue  # the parameter then stays a placeholder
    return found


def _branches(node: exp.SetOperation) -> tuple[list[exp.Expr], list[str]]:
    """The branches of a chain of set operations from left to right, and the operations between them."""
    branches: list[exp.Expr] = []
    kinds: list[str] = []
    current: exp.Expr = node
    while isinstance(current, exp.SetOperation):
        branches.append(current.expression)
        kinds.append(type(current).__name__.lower())
        current = current.this
        while (
            isinstance(current, exp.Subquery)
            and isinstance(current.this, exp.SetOperation)
            and current.args.get("limit") is None
        ):
            current = current.this
    return [current, *reversed(branches)], list(reversed(kinds))


def _rename(relation: Relation, alias: object) -> None:
    """Give outputs the names that `WITH t(a, b)` or `AS t(a, b)` lists."""
    columns = alias.args.get("columns") if isinstance(alias, exp.TableAlias) else None
    if columns:
        renamed = dict(zip((c.name.lower() for c in columns), relation.outputs.values(), strict=False))
        relation.outputs = {**relation.outputs, **renamed}


def _outputs(node: exp.Select, names: Names, children: list[Block]) -> Relation:
    relation = Relation(names=names)
    for item in node.expressions:
        if isinstance(item, exp.Star) or (isinstance(item, exp.Column) and isinstance(item.this, exp.Star)):
            relation.star = True
            for child in children:
                for name in child.relation.outputs:
                    relation.outputs.setdefault(name, exp.column(name))
        elif item.alias_or_name:
            relation.outputs[item.alias_or_name.lower()] = bare(item)
    return relation


def _projections(node: exp.Select, names: Names, children: list[Block]) -> tuple[Projection, ...]:
    found: list[Projection] = []
    for item in node.expressions:
        star = isinstance(item, exp.Star) or (isinstance(item, exp.Column) and isinstance(item.this, exp.Star))
        inherited = [p for child in children for p in child.projections] if star else []
        if star and inherited and len(children) == len(names.relations):
            found += inherited
        else:
            found.append(projection(item, names))
    return tuple(found)


def _passed_through(block: Block) -> Block:
    """The block whose grouping counts: a select that only passes on the rows of one derived table has none of its own."""
    for _ in range(_MAX_NESTING):
        if block.group_by or block.aggregations or len(block.names.relations) != 1 or len(block.children) != 1:
            return block
        child = block.children[0]
        if block.limit is not None or block.order_by:
            child = replace(child, order_by=block.order_by or child.order_by, limit=block.limit or child.limit)
        block = replace(child, projections=block.projections)
    return block


def _limit_below(block: Block) -> Limit | None:
    """A limit in a derived table under an aggregate or a further filter."""
    for child in block.children:
        if child.limit is not None and child.limit.count is not None:
            narrows = bool(block.aggregations) or len(block.filters) > len(child.filters) or len(block.children) > 1
            return replace(child.limit, below=narrows)
        if (found := _limit_below(child)) is not None:
            return found
    return None


def _all_aggregations(block: Block) -> list[Aggregation]:
    found = list(block.aggregations)
    for child in block.children:
        found += [replace(item, path="inner") for item in _all_aggregations(child)]
    return found


def _mark_unused(item: Filter, unused: set[str]) -> Filter:
    if not unused or not item.path.startswith("cte:"):
        return item
    return replace(item, effect=Effect.UNUSED) if item.path.removeprefix("cte:").partition("/")[0] in unused else item


def _join_keys(join: exp.Join, names: Names) -> tuple[tuple[str, str], ...]:
    on = join.args.get("on")
    keys: list[tuple[str, str]] = []
    for node in on.find_all(exp.EQ) if on is not None else ():
        if isinstance(node.this, exp.Column) and isinstance(node.expression, exp.Column):
            pair = sorted(_qualified(column, names) for column in (node.this, node.expression))
            keys.append((pair[0], pair[1]))
    for column in join.args.get("using") or []:
        keys.append((column.name, column.name))
    return tuple(keys)


def _qualified(column: exp.Column, names: Names) -> str:
    found = target(column, names)
    return f"{found.table}.{found.column}" if found is not None and found.table else column.name


def _rejects_unmatched(join: exp.Join, side: str, node: exp.Select, names: Names, known: list[Filter]) -> set[str]:
    """Tables that are looked up and whose unmatched rows fall out after all: WHERE tests them, or only they are counted."""
    looked_up = join.this.alias_or_name.lower()
    relation = names.relations.get(looked_up)
    if relation is None or side == "FULL":
        return set()
    others = {r.table for alias, r in names.relations.items() if alias != looked_up}
    tables = others if side == "RIGHT" else {relation.table}
    if any(item.table and item.table in tables and item.op is not Op.IS_NULL and item.scope is not Scope.CASE for item in known):
        return tables
    counted = [found for output in node.expressions for item in shallow(output) if (found := _aggregate_target(item, names)) is not None]
    return tables if counted and all(found and found in tables for found in counted) else set()


def _aggregate_target(node: exp.Expr, names: Names) -> str | None:
    if not isinstance(node, exp.AggFunc):
        return None
    found = target(node, names)
    return found.table if found is not None else ""


def _against_query(node: exp.Expr, place: Place, reading: Reading) -> tuple[Filter, ...]:
    """A comparison with what a query returns (`price > (SELECT AVG(price) …)`)."""
    tested = target(node.this, place.names)
    op = {exp.LT: Op.LT, exp.LTE: Op.LE, exp.GT: Op.GT, exp.GTE: Op.GE, exp.EQ: Op.EQ}.get(type(node))
    if tested is None or op is None or not tested.column:
        return ()
    value = Unknown(node.expression.sql()[:200], Unresolved.SUBQUERY)
    return (
        Filter(
            column=tested.column, op=op, value=value, scope=place.scope, table=tested.table, aggregate=tested.aggregate,
            text=node.sql()[:200], path=place.path,
        ),
    )  # fmt: skip


def same_column(left: Filter, right: Filter) -> bool:
    """Whether two conditions of one statement are about the same column."""
    return fold(left.column) == fold(right.column) and left.aggregate == right.aggregate
