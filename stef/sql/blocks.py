"""What one query of a statement says, and how blocks are put together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from sqlglot import exp

from stef.spec import Aggregation, Filter, GroupKey, Join, Limit, OrderKey, Projection, Role, Scope
from stef.sql.outputs import aggregates, bare, is_star, projection
from stef.sql.targets import Names, Relation

MAX_NESTING = 60


@dataclass(slots=True, kw_only=True)
class Block:
    """What one query of the statement says, before the blocks are put together.

    Attributes:
        relation: The query as others see it.
        names: Its own sources and aliases.
        children: Queries that it reads from.
        readers: How many queries read it (common table expressions).
    """

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
    readers: int = 0


def empty_block() -> Block:
    """A block that says nothing: a VALUES list, or a recursive query inside itself."""
    return Block(relation=Relation(), names=Names())


@dataclass(slots=True, kw_only=True)
class Context:
    """Where a query stands.

    Attributes:
        scope: For its conditions.
        path: For its conditions, such as `cte:late/`.
        ctes: Common table expressions in sight, by lower-case name.
        recursing: The recursive ones that are being read: inside themselves they are empty.
        outer: Names of the query around it.
        nesting: How deep it stands.
    """

    scope: Scope
    path: str
    ctes: Mapping[str, Block]
    recursing: tuple[Block, ...] = ()
    outer: Names | None = None
    nesting: int = 0

    def inner(self, scope: Scope, step: str, outer: Names | None = None) -> Context:
        """The place of a query inside this one."""
        return replace(self, scope=scope, path=f"{self.path}{step}/", outer=outer, nesting=self.nesting + 1)


@dataclass(slots=True, kw_only=True)
class Seen:
    """What belongs to a whole statement and to no single query of it."""

    joins: list[Join] = field(default_factory=list)
    uses: dict[tuple[str, str, Role], None] = field(default_factory=dict)
    links: dict[tuple[str, str], None] = field(default_factory=dict)
    tables: dict[str, None] = field(default_factory=dict)
    set_operations: list[str] = field(default_factory=list)
    windows: dict[str, None] = field(default_factory=dict)
    ctes: list[Block] = field(default_factory=list)


def relation_of(node: exp.Select, names: Names, children: list[Block]) -> Relation:
    """A select as others see it: its outputs by name."""
    relation = Relation(names=names)
    for item in node.expressions:
        if is_star(item):
            relation.star = True
            for child in children:
                for name in child.relation.outputs:
                    relation.outputs.setdefault(name, exp.column(name))
        elif item.alias_or_name:
            relation.outputs[item.alias_or_name.lower()] = bare(item)
    return relation


def renamed(relation: Relation, alias: object) -> None:
    """Give outputs the names that `WITH t(a, b)` or `AS t(a, b)` lists."""
    columns = alias.args.get("columns") if isinstance(alias, exp.TableAlias) else None
    if columns:
        names = dict(zip((c.name.lower() for c in columns), relation.outputs.values(), strict=False))
        relation.outputs = {**relation.outputs, **names}


def put_out(node: exp.Select, names: Names, children: list[Block]) -> tuple[list[Projection], list[Aggregation]]:
    """Outputs and aggregates of a select; a star over derived tables puts out theirs."""
    projections: list[Projection] = []
    found: list[Aggregation] = []
    for item in node.expressions:
        inside = aggregates(bare(item), names)
        found += inside
        inherited = [p for child in children for p in child.projections] if is_star(item) else []
        if inherited and len(children) == len(names.relations):
            projections += inherited
        else:
            projections.append(projection(item, names, inside))
    return projections, found


def passed_through(block: Block) -> Block:
    """The block whose grouping counts: one that only passes on the rows of a derived table has none of its own."""
    for _ in range(MAX_NESTING):
        if block.group_by or block.aggregations or len(block.names.relations) != 1 or len(block.children) != 1:
            return block
        child = block.children[0]
        if child.limit is not None and len(block.filters) > len(child.filters):
            child = replace(child, limit=replace(child.limit, below=True))
        if block.limit is not None or block.order_by:
            child = replace(child, order_by=block.order_by or child.order_by, limit=block.limit or child.limit)
        block = replace(child, projections=block.projections)
    return block


def limit_below(block: Block) -> Limit | None:
    """A limit in a derived table under an aggregate or a further filter."""
    for parent, child in _edges(block):
        if child.limit is not None and child.limit.count is not None:
            narrows = bool(parent.aggregations) or len(parent.filters) > len(child.filters) or len(parent.children) > 1
            return replace(child.limit, below=narrows)
    return None


def _edges(block: Block) -> Iterator[tuple[Block, Block]]:
    """Every query below a block with the one that reads it first, depth first, each once."""
    seen: set[int] = set()
    stack = [(block, child) for child in reversed(block.children)]
    while stack:
        parent, child = stack.pop()
        if id(child) in seen:
            continue
        seen.add(id(child))
        yield parent, child
        stack += [(child, inner) for inner in reversed(child.children)]


def all_aggregations(block: Block) -> Iterator[Aggregation]:
    """Aggregates of a block and, marked as inner, of those below it."""
    yield from block.aggregations
    for _, child in _edges(block):
        yield from (replace(item, path="inner") for item in child.aggregations)
