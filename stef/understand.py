"""Everything left of the judge: one record and its rules become specs, alignment and evidence. Pure.

record ─┬─ sql.extract ─▶ spec (SQL) ─────────┐
        └─ nl.extract ──▶ spec (Qu), spec (Qe) ┴─▶ normalize ─▶ align ─▶ evidence
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from stef import tongues
from stef.align import Comparer, Texts, align, check_expansion
from stef.apprules import AppRules
from stef.calibration import IDENTITY, Calibration
from stef.catalogue import Catalogue, Epoch
from stef.evidence import Facts, gather
from stef.finding import Finding
from stef.lexicon import Lexicon
from stef.nl import extract as nl
from stef.normalize import normalize
from stef.phrasebook import Phrasebook
from stef.recent import Recent
from stef.record import QueryRecord
from stef.result import Alignment, Evidence, Expansion, Normalization, Reason, Specs
from stef.spec import QuerySpec, Source
from stef.sql import extract as sql
from stef.sql.parse import Parsed, parse
from stef.sql.safety import findings
from stef.sql.statement import lift
from stef.timespan import Calendar
from stef.weights import Weights

ReadQuestion = Callable[[str, Source, AppRules, Calendar], QuerySpec]


def question_reader(lexicon: Lexicon, books: Sequence[Phrasebook] = ()) -> ReadQuestion:
    """Reads questions in English, and in the languages of the phrasebooks."""
    detector = tongues.Detector(lexicon, books)

    def read(text: str, source: Source, rules: AppRules, calendar: Calendar) -> QuerySpec:
        book = detector.language(text)
        if book is not None:
            return tongues.extract(text, book=book, lexicon=lexicon, calendar=calendar, rules=rules, source=source)
        spec = nl.extract(text, lexicon=lexicon, calendar=calendar, rules=rules, source=source)
        guest = detector.guest(text) if spec.language else None
        if guest is None:
            return spec
        other = tongues.extract(text, book=guest, lexicon=lexicon, calendar=calendar, rules=rules, source=source)
        return tongues.joined(spec, other)

    return read


def remembering(read_question: ReadQuestion, size: int = 4096) -> ReadQuestion:
    """Keep what the last questions asked for: agents are asked the same things, and versions are compared on them."""
    memory: Recent[tuple[str, Source, str, str, Calendar], QuerySpec] = Recent(size)

    def read_or_recall(text: str, source: Source, rules: AppRules, calendar: Calendar) -> QuerySpec:
        key = (text, source, rules.digest, rules.inline_digest, calendar)
        return memory.get(key) or memory.keep(key, read_question(text, source, rules, calendar))

    return read_or_recall


@dataclass(frozen=True, slots=True, kw_only=True)
class Knowledge:
    """What the reading needs beside a record and its rules: frozen values.

    Attributes:
        read_question: Reads a question or an expansion: `question_reader`, perhaps with a memory.
        weights: The offline model.
        denied: Functions that no statement should call, lower-case, with what they do.
        max_sql_bytes: Longer statements are not read.
        catalogues: What the log has shown, pinned; None for nothing.
        calibration: Fits the probability to an operator's own labels.
    """

    read_question: ReadQuestion
    weights: Weights
    denied: Mapping[str, str]
    max_sql_bytes: int = 262_144
    catalogues: Epoch | None = None
    calibration: Calibration = IDENTITY


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """Question and SQL held against each other."""

    alignment: Alignment
    evidence: Evidence
    expansion: Expansion | None
    normalizations: tuple[Normalization, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Understood:
    """What was found in one record.

    Attributes:
        specs: Of the three texts; the SQL's is None when there is nothing to score.
        parsed: The statement and what is around it.
        findings: About the text and its safety.
        compared: None when there is nothing to score.
        reason: Why not.
        detail: One sentence for the reason.
    """

    specs: Specs
    parsed: Parsed
    findings: tuple[Finding, ...]
    compared: Compared | None = None
    reason: Reason | None = None
    detail: str = ""


def understand(record: QueryRecord, rules: AppRules, calendar: Calendar, known: Knowledge) -> Understood:
    """Read a record and hold its SQL against its question.

    Args:
        record: As it came in.
        rules: The operator's, with what the record may add.
        calendar: The record's clock in its own zone.
        known: Words, weights, lists.
    """
    question = known.read_question(record.question, Source.QUESTION, rules, calendar)
    expanded = record.expanded_question
    expansion = known.read_question(expanded, Source.EXPANSION, rules, calendar) if expanded else None
    parsed, spec, reason, detail = read_statement(record, rules, calendar, max_bytes=known.max_sql_bytes)
    found = parsed.findings + findings(parsed, spec, rules, known.denied)
    specs = Specs(sql=spec, question=question, expansion=expansion)
    if spec is None:
        return Understood(specs=specs, parsed=parsed, findings=found, reason=reason, detail=detail)
    compared = _compared(record, question, expansion, spec, found, rules, calendar, known)
    return Understood(specs=specs, parsed=parsed, findings=found, compared=compared)


def read_statement(
    record: QueryRecord, rules: AppRules, calendar: Calendar, *, max_bytes: int
) -> tuple[Parsed, QuerySpec | None, Reason | None, str]:
    """The statement of a record, its spec, or why there is nothing to score."""
    lifted = lift(record.sql, max_bytes=max_bytes)
    parsed = parse(lifted, dialect=record.dialect or rules.dialect or None, parameters=record.parameters)
    return (parsed, *_spec(record, parsed, calendar))


def _spec(record: QueryRecord, parsed: Parsed, calendar: Calendar) -> tuple[QuerySpec | None, Reason | None, str]:
    """The SQL's spec, or why there is nothing to score."""
    if parsed.tree is None or parsed.reason is not None:
        return None, parsed.reason or Reason.NO_SQL, parsed.detail
    if not record.question.strip():
        return None, Reason.NO_SQL, "the log has no question to hold the SQL against"
    variables = {**parsed.variables, **_parameters(record)}
    nodes = parsed.nodes if len(parsed.statements) == 1 else None
    try:
        spec = sql.extract(
            parsed.tree, calendar=calendar, variables=variables, dialect=parsed.dialect, text=parsed.sql, nodes=nodes
        )
    except RecursionError:
        return None, Reason.TOO_DEEP, "queries nested deeper than is followed"
    return spec, None, ""


def _parameters(record: QueryRecord) -> dict[str, str]:
    """Logged values of bind parameters, as SQL text."""
    return {name.lower(): _literal(value) for name, value in (record.parameters or {}).items()}


def _literal(value: object) -> str:
    match value:
        case None:
            return "NULL"
        case bool():
            return str(value).upper()
        case int() | float():
            return str(value)
        case _:
            return "'" + str(value).replace("'", "''") + "'"


def _compared(
    record: QueryRecord,
    question: QuerySpec,
    expansion: QuerySpec | None,
    spec: QuerySpec,
    found: tuple[Finding, ...],
    rules: AppRules,
    calendar: Calendar,
    known: Knowledge,
) -> Compared:
    expanded = record.expanded_question or ""
    texts = Texts(question=question, question_text=record.question, expansion=expansion, expansion_text=expanded)
    # A follow-up says what changes; the rest of what is asked stands in its expansion.
    follow_up = expansion if question.elliptical else None
    asked = follow_up or question
    normalized, trace = normalize(asked, spec, rules)
    comparer = Comparer.of(texts, rules, calendar)
    alignment = align(texts, normalized, rules, calendar, comparer)
    facts = Facts(
        asked=asked,
        asked_text=f"{record.question} {expanded}" if follow_up else record.question,
        question_text=record.question,
        expansion_text=expanded,
        sql=spec,
        normalized=normalized,
        alignment=alignment,
        rules=rules,
        findings=found,
        catalogue=catalogue_of(record, known),
    )
    return Compared(
        alignment=alignment,
        evidence=_calibrated(gather(facts, known.weights), known.calibration),
        expansion=check_expansion(texts, rules, calendar, comparer),
        normalizations=trace,
    )


def _calibrated(evidence: Evidence, calibration: Calibration) -> Evidence:
    return replace(evidence, p_offline=calibration.apply(evidence.p_offline), p_raw=evidence.p_offline)


def catalogue_of(record: QueryRecord, known: Knowledge) -> Catalogue | None:
    """What the log has shown of a record's database; None where there is nothing."""
    return None if known.catalogues is None else known.catalogues.of(record.app, record.database)
