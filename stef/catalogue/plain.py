"""Catalogues as JSON, so that they can be kept, moved and given; and plain lists of tables and columns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from stef.catalogue.epoch import Learners, Where
from stef.catalogue.learner import Learner, Tally
from stef.catalogue.observation import VALUE, Item, key_mark

FORMAT = 1


def to_plain(learners: Learners) -> dict[str, Any]:
    """Everything that was counted, in one order whatever the order of counting.

    The key does not leave: a mark of it says whether another one is the same.
    """
    found = sorted(learners.learners.items(), key=lambda pair: (pair[0].app, pair[0].database))
    databases = [{"app": where.app, "database": where.database, **_plain(one)} for where, one in found]
    return {"stef_catalogue": FORMAT, "key": key_mark(learners.key), "databases": databases}


def _plain(learner: Learner) -> dict[str, Any]:
    items = sorted({item for tally in learner.questions.values() for item in tally.items})
    number = {item: place for place, item in enumerate(items)}
    questions = [
        {
            "question": digest,
            "words": sorted(tally.words),
            "answers": tally.answers,
            "day": tally.day,
            "items": sorted([number[item], count] for item, count in tally.items.items()),
        }
        for digest, tally in sorted(learner.questions.items())
    ]
    return {
        "declared": {table: sorted(columns) for table, columns in sorted(learner.declared.items())},
        "texts": dict(sorted(learner.texts.items())),
        "items": [list(item) for item in items],
        "questions": questions,
    }


def from_plain(plain: Mapping[str, Any], *, key: str = "") -> Learners:
    """Read what `to_plain` wrote.

    Raises:
        ValueError: It is no catalogue, or was made with another key.
    """
    if plain.get("stef_catalogue") != FORMAT:
        raise ValueError(f"stef_catalogue: found {plain.get('stef_catalogue')!r}; allowed: {FORMAT}")
    if plain.get("key") != key_mark(key):
        raise ValueError(
            "key: found a catalogue that was made with another key; allowed: the key that it was made with"
        )
    learners = Learners(key)
    try:
        for row in plain["databases"]:
            learners.learners[Where(str(row["app"]), str(row["database"]))] = _learner(row, key)
    except (KeyError, TypeError, IndexError, AttributeError) as error:
        raise ValueError(f"databases: found something that no catalogue has: {error}") from error
    return learners


def _learner(row: Mapping[str, Any], key: str) -> Learner:
    learner = Learner(key)
    items: list[Item] = [tuple(str(part) for part in item) for item in row["items"]]
    for question in row["questions"]:
        counts = Counter({items[place]: int(count) for place, count in question["items"]})
        learner.take(
            str(question["question"]),
            Tally(
                words=frozenset(str(word) for word in question["words"]),
                answers=int(question["answers"]),
                items=counts,
                values={item[4] for item in counts if item[0] == VALUE},
                day=question["day"],
            ),
        )
    learner.texts = {str(name): str(text) for name, text in row["texts"].items()}
    learner.declare(row["declared"])
    return learner


def declared(plain: object) -> dict[str, list[str]]:
    """Read a list of tables and columns: table → columns, or rows with `table` and `column`.

    Raises:
        ValueError: It is neither.
    """
    if isinstance(plain, Mapping) and isinstance(plain.get("tables"), Mapping):
        plain = plain["tables"]
    if isinstance(plain, Mapping) and plain and all(_is_names(names) for names in plain.values()):
        return {str(table): [str(name) for name in names] for table, names in plain.items()}
    if isinstance(plain, list) and plain and all(isinstance(row, Mapping) for row in plain):
        return _grouped((row.get("table"), row.get("column")) for row in plain)
    raise ValueError("found no list of tables; allowed: an object table → columns, or rows with table and column")


def declared_rows(text: str) -> dict[str, list[str]]:
    """Read lines `table,column`; a first line that says so is a heading.

    Raises:
        ValueError: A line has not two parts.
    """
    rows = [[part.strip().strip('"') for part in line.split(",")] for line in text.splitlines() if line.strip()]
    wrong = next((row for row in rows if len(row) != 2), None)
    if wrong is not None or not rows:
        raise ValueError(f"found {','.join(wrong or [])!r}; allowed: lines of table,column")
    heading = [part.lower() for part in rows[0]] in (["table", "column"], ["table_name", "column_name"])
    return _grouped((row[0], row[1]) for row in (rows[1:] if heading else rows))


def _is_names(names: object) -> bool:
    return isinstance(names, list) and all(isinstance(name, str) for name in names)


def _grouped(rows: Iterable[tuple[Any, Any]]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for table, column in rows:
        if not isinstance(table, str) or not isinstance(column, str):
            raise ValueError("found a row without table and column; allowed: both as text")  # noqa: TRY004 - content
        found.setdefault(table, []).append(column)
    return found
