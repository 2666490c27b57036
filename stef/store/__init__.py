"""Evaluations on disk: one SQLite file in WAL mode, one writer at a time, any number of readers.

The key (namespace, event_key, scoring_config, content_digest) makes a second delivery harmless: the first result with
an answer stays; `failed` may be replaced by one, never the reverse. A transaction is on the disk when `write` returns
(`synchronous=FULL`), because the position in the topic is committed right after it.

What scored records show of their databases is counted in the same transaction, and is the catalogue that a later run
starts with (`catalogues.py`).
"""

from __future__ import annotations

from stef.store.catalogues import Catalogues, Learning
from stef.store.evaluations import Pruned, Store
from stef.store.labels import Imported, Labelled
from stef.store.rows import EVERYTHING, Entry, Fate, Figure, Kept, Selection, Written
from stef.store.schema import MIGRATIONS

__all__ = [
    "EVERYTHING",
    "MIGRATIONS",
    "Catalogues",
    "Entry",
    "Fate",
    "Figure",
    "Imported",
    "Kept",
    "Labelled",
    "Learning",
    "Pruned",
    "Selection",
    "Store",
    "Written",
]
