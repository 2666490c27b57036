"""Lessons about tables, columns and joins: what stands in for a schema."""

from __future__ import annotations

from collections.abc import Iterator

from stef.catalogue.observation import COLUMN, ROLE, TABLE
from stef.evidence.facts import Signal
from stef.evidence.shown import RARE, TRACE, Shown, number


def columns_misplaced(shown: Shown) -> Iterator[Signal]:
    """A column that a well-known table never or hardly ever has, and that another table has."""
    for table, column in shown.columns:
        if not shown.hardly_has(table, column):
            continue
        home = shown.home(table, column)
        if home:
            detail = f"{table} is not known to have {column}; {home} has it"
            yield Signal("log_column_misplaced", 1.0, "wrong_column", detail)


def columns_unknown(shown: Shown) -> Iterator[Signal]:
    """A column that no other question used on a well-known table, nor on another one."""
    for table, column in shown.columns:
        seen = shown.view.used((COLUMN, table, column))
        if seen <= TRACE and shown.hardly_has(table, column) and not shown.home(table, column):
            detail = f"no other question used {column} of {table}"
            yield Signal("log_column_unknown", 1.0, "wrong_column", detail)


def columns_rare(shown: Shown) -> Iterator[Signal]:
    """How usual the columns are on their tables, and the tables in the log."""
    shares = []
    for table, column in shown.columns:
        share = shown.view.share((COLUMN, table, column), (TABLE, table))
        if share is None or not shown.view.knows_table(table):
            continue
        shares.append(share)
        if share <= RARE:
            yield number("log_column_rare", 1.0)
    if shares:
        yield number("log_column_least", min(shares))
        yield number("log_column_mean", sum(shares) / len(shares))
    if shown.tables:
        least = min(shown.view.used((TABLE, table)) for table in shown.tables)
        yield number("log_table_least", least / shown.view.size if shown.view.size > 0 else 0.0)


def ambiguous(shown: Shown) -> Iterator[Signal]:
    """An unqualified column that two tables of the query are known to have."""
    shared = {side.rpartition(".")[2] for _, *link in shown.links for side in link}
    for item in sorted(item for item in shown.own.items if item[0] == COLUMN and not item[1]):
        if item[2] in shared:
            continue
        homes = shown.homes(item[2])
        if len(homes) > 1:
            detail = f"{item[2]} has no qualifier, and {homes[0]} and {homes[1]} both have it"
            yield Signal("log_ambiguous", 1.0, "wrong_column", detail)


def links_new(shown: Shown) -> Iterator[Signal]:
    """A join that no other question made, between two tables that are well known."""
    shares = []
    for link in shown.links:
        left, right = (side.rpartition(".")[0] for side in link[1:])
        if left == right or not (shown.view.knows_table(left) and shown.view.knows_table(right)):
            continue
        others = shown.view.below("links", left, right)
        total = sum(shown.view.used(other) for other in others)
        if total > 0:
            shares.append(shown.view.used(link) / total)
        if shown.view.used(link) > 0:
            continue
        if total >= 2:
            best = max(others, key=shown.view.used)
            detail = f"{link[1]} = {link[2]} was never joined; others join {best[1]} = {best[2]}"
            yield Signal("log_link_otherwise", 1.0, "wrong_column", detail)
        elif total == 0:
            detail = f"no other question joins {left} and {right} directly"
            yield Signal("log_link_never", 1.0, "wrong_join_grain", detail)
    if shares:
        yield number("log_link_least", min(shares))


def routes(shown: Shown) -> Iterator[Signal]:
    """How usual the column is through which a joined table is reached."""
    least = []
    for link in shown.links:
        for side in link[1:]:
            table, _, column = side.rpartition(".")
            total = sum(map(shown.view.used, shown.view.catalogue.within.get(("joined", table), ())))
            if total >= 3:
                least.append(shown.view.used((ROLE, table, column, "joined")) / total)
    if least:
        yield number("log_route_least", min(least))


def roles(shown: Shown) -> Iterator[Signal]:
    """How usual it is to do with its columns what the statement does with them."""
    shares: dict[str, list[float]] = {}
    for item in shown.of(ROLE):
        if not item[1] or shown.view.used((COLUMN, item[1], item[2])) < 3:
            continue
        share = shown.view.share(item, (COLUMN, item[1], item[2]))
        if share is not None:
            shares.setdefault(item[3], []).append(share)
    for role, found in sorted(shares.items()):
        yield number(f"log_role_{role}", min(found))
