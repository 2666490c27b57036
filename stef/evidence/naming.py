"""How far the words of the texts name the tables and columns of the statement, role by role."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from stef.evidence.facts import Facts
from stef.evidence.grounding import FUNCTION_WORDS, answers
from stef.names import stems
from stef.spec import Role


@dataclass(frozen=True, slots=True)
class Words:
    """Stems of the texts.

    Attributes:
        asked: Of the question.
        said: Of the question and its expansion.
    """

    asked: frozenset[str]
    said: frozenset[str]

    @classmethod
    def of(cls, facts: Facts) -> Words:
        """The words of a record."""
        return cls(stems(facts.question_text), facts.said)


def words_answered(facts: Facts, words: Words) -> Iterator[tuple[str, float]]:
    """How many words of the question the statement has, letter by letter or shortened."""
    telling = [word for word in words.asked - FUNCTION_WORDS if len(word) > 1]
    given = facts.vocabulary
    if telling:
        yield "words_exact", sum(word in given for word in telling) / len(telling)
    yield "words_open", float(sum(not word.isdigit() and not answers(word, given) for word in telling))


def columns_named(facts: Facts, words: Words) -> Iterator[tuple[str, float]]:
    """For each role the columns, those that share a word with the texts, those all of whose words are said."""
    by_role: dict[Role, list[frozenset[str]]] = {role: [] for role in Role}
    for use in facts.sql.uses:
        by_role[use.role].append(stems(use.column))
    for role, names in by_role.items():
        yield f"columns_{role.value}", float(len(names))
        if not names:
            continue
        touched = sum(bool(name & words.said) for name in names)
        yield f"unnamed_{role.value}", float(len(names) - touched)
        yield f"touched_{role.value}", touched / len(names)
        yield f"whole_{role.value}", sum(bool(name) and name <= words.said for name in names) / len(names)
        yield f"asked_{role.value}", sum(bool(name & words.asked) for name in names) / len(names)


def tables_named(facts: Facts, words: Words) -> Iterator[tuple[str, float]]:
    """Tables, those that are named, those that give nothing but a way to others."""
    tables = {name.rpartition(".")[2] for name in facts.sql.tables}
    used = {use.table for use in facts.sql.uses if use.role is not Role.JOINED}
    yield "tables", float(len(tables))
    yield "tables_idle", float(sum(name not in used for name in facts.sql.tables))
    if tables:
        yield "tables_named", sum(bool(stems(name) & words.said) for name in tables) / len(tables)
