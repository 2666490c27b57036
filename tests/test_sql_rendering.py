"""Expressions as text, and the walks over a tree: quicker than sqlglot's, and the same."""

from __future__ import annotations

import pytest
from sqlglot import exp

from stef.sql.nodes import Nodes, called, children, every, holds, kinds, named, qualifier, shallow
from stef.sql.rendering import simple
from tests.sqlcases import load, parsed

TREES = [tree for case in load() if "sql" in case for tree in parsed(case).statements]


def test_plain_expressions_are_written_as_sqlglot_writes_them():
    """Whatever is written without sqlglot reads as sqlglot's own text; a sort says no ASC behind a plain column."""
    differing = []
    written = queries = 0
    for node in (node for tree in TREES for node in every(tree) if not isinstance(node, exp.Ordered)):
        text = simple(node)
        if text is not None and not any(isinstance(part, exp.Ordered) for part in shallow(node)):
            written += 1
            differing += [(text, node.sql())] if text != node.sql() else []
            queries += isinstance(node, exp.Select)
    assert [] == differing
    assert written > 1000
    assert queries > 100


@pytest.mark.parametrize("tree", TREES[:200], ids=range(len(TREES[:200])))
def test_every_node_is_met_once(tree):
    """The walk meets the nodes that sqlglot's walk meets, in its order, the parts of names left out."""
    parts = {id(part) for node in tree.walk() if isinstance(node, exp.Column) for part in node.args.values()}
    theirs = [node for node in tree.walk() if id(node) not in parts]
    assert [id(node) for node in theirs] == [id(node) for node in every(tree) if id(node) not in parts]
    assert [id(node) for node in tree.iter_expressions()] == [id(node) for node in children(tree)]


def test_a_query_inside_is_given_and_not_entered():
    """What a condition says and what a query in it says are read apart."""
    tree = exp.maybe_parse("a = (SELECT b FROM t) AND c > 1")
    names = [node.name for node in shallow(tree) if isinstance(node, exp.Column)]
    assert (["a", "c"], 1) == (names, sum(isinstance(node, exp.Query) for node in shallow(tree)))


@pytest.mark.parametrize("tree", TREES[:200], ids=range(len(TREES[:200])))
def test_nodes_of_some_types_come_in_the_order_of_the_walk(tree):
    """What is asked of a statement by type is what sqlglot finds by the same types, subtypes included."""
    wanted = (exp.Column, exp.AggFunc, exp.Query)
    found = list(tree.find_all(*wanted))
    assert found == list(Nodes.of(tree).select(kinds(*wanted)))
    assert bool(list(tree.find_all(exp.AggFunc))) == holds(tree, kinds(exp.AggFunc))


def test_names_are_read_as_sqlglot_reads_them():
    """The name of a column, what stands before it, and what a source is called are sqlglot's own."""
    nodes = Nodes.of(*TREES)
    columns, sources = nodes.select(kinds(exp.Column)), nodes.select(kinds(exp.Table, exp.Subquery, exp.CTE))
    assert [(node.name, node.table) for node in columns] == [(named(node), qualifier(node)) for node in columns]
    assert [node.alias_or_name for node in sources] == [called(node) for node in sources]
    assert len(columns) > 500
    assert len(sources) > 300
