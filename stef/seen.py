"""What a record shows by its content alone, kept so that a record with the same content costs next to nothing.

A result belongs to a record by its content, never by its identity: who asked, when it arrived and under which key it is
stored are the record's own.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from stef.apprules import AppRules
from stef.finding import Finding
from stef.judge.untrusted import silenced, suspicions
from stef.record import QueryRecord
from stef.result import Evaluation
from stef.sql.nodes import NO_NODES
from stef.timespan import Calendar
from stef.understand import Knowledge, Understood, understand
from stef.version import __version__


@dataclass(slots=True, kw_only=True)
class Seen:
    """What was found in the content of a record.

    Attributes:
        understood: Without the trees, which are large and which nothing reads any more.
        suspected: Texts that speak to a judge.
        rules: That held; kept so that no other rules take their place in the memory.
        found: What its result says beside whose it is, once it was judged by a judge that needs nothing else.
    """

    understood: Understood
    suspected: tuple[Finding, ...]
    rules: AppRules
    found: Mapping[str, Any] | None = None


def content_key(record: QueryRecord, rules: AppRules, calendar: Calendar, known: Knowledge) -> bytes:
    """Digest of all that decides what is found in a record."""
    # Rules that were made by hand have no digest.
    held = (rules.name, rules.digest, rules.inline_digest) if rules.digest or rules.inline_digest else id(rules)
    texts = (record.question, record.expanded_question, record.sql, record.dialect, record.timezone)
    given = (record.app, record.database, record.app_rules, record.parameters)
    pinned = (known.weights.digest, known.calibration.digest, known.max_sql_bytes, __version__)
    log = known.catalogues and known.catalogues.digest
    # Each text with its length, so that none runs into the next: faster than `repr`, which looks at every character.
    said = "".join(["-" if text is None else f"{len(text)}:{text}" for text in texts])
    whole = f"{said}{(given, held, calendar, pinned, log)!r}"
    return hashlib.blake2b(whole.encode("utf-8", "surrogatepass"), digest_size=20).digest()


def look(record: QueryRecord, rules: AppRules, calendar: Calendar, known: Knowledge) -> Seen:
    """Read a record, hold its SQL against its question, and look for texts that speak to a judge."""
    understood = understand(record, rules, calendar, known)
    suspected = suspicions(_untrusted(record, understood))
    if suspected:
        understood = _lower(understood, understand(_silent(record), rules, calendar, known))
    parsed = replace(understood.parsed, tree=None, statements=(), nodes=NO_NODES)
    return Seen(understood=replace(understood, parsed=parsed), suspected=suspected, rules=rules)


def _silent(record: QueryRecord) -> QueryRecord:
    """The record without what its texts say to a judge; a text that says nothing else stays."""
    question, expansion = record.question, record.expanded_question
    update = {"question": silenced(question, mark="")[0].strip() or question}
    if expansion:
        update["expanded_question"] = silenced(expansion, mark="")[0].strip() or expansion
    return record.model_copy(update=update)


def _lower(whole: Understood, silent: Understood) -> Understood:
    """The reading without the words to the judge, which must not make a statement look better, nor come back as facts.

    The probability is the lower one of both readings.
    """
    if whole.compared is None or silent.compared is None:
        return whole
    evidence = min(whole.compared.evidence, silent.compared.evidence, key=lambda one: one.p_offline)
    return replace(silent, compared=replace(silent.compared, evidence=evidence))


def found_in(result: Evaluation) -> dict[str, Any]:
    """The fields of a result that depend on the content of its record alone."""
    return {name: getattr(result, name) for name in _FOUND}


_FOUND = (
    "outcome", "reason", "detail", "phi", "band", "p_offline", "p_raw", "weighed", "p_correct", "alignment",
    "expansion", "normalizations", "judge", "score", "findings", "sql", "spec", "provenance",
)  # fmt: skip


def _untrusted(record: QueryRecord, seen: Understood) -> dict[str, str]:
    """The texts of a record that could speak to a judge."""
    texts = {
        "question": record.question,
        "expansion": record.expanded_question,
        "comments": "\n".join((*seen.parsed.comments, *seen.parsed.executable)),
        "sql": seen.parsed.sql,
        "rules": json.dumps(record.app_rules, ensure_ascii=False) if record.app_rules else "",
        "parameters": json.dumps(record.parameters, ensure_ascii=False, default=str) if record.parameters else "",
        "dialect": record.dialect,
        "timezone": record.timezone,
    }
    return {name: text for name, text in texts.items() if text}
