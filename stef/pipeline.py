"""The main path: a message becomes evaluations.

    message ─ ingest ─▶ record ─┬─ sql ─▶ spec ─┐
                                └─ nl ──▶ specs ┴─▶ normalize ─▶ align ─▶ evidence ─▶ judge ─▶ score ─▶ evaluation

Everything left of the judge is pure. `Pipeline.evaluate` is the one place that catches everything.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import sqlglot
import structlog

from stef import data, rulefiles
from stef.align import Texts, align, check_expansion
from stef.apprules import NO_RULES, AppRules
from stef.config import Settings
from stef.errors import JudgeError, RecordError, RulesError, SettingError
from stef.evidence import Facts, gather
from stef.ingest import FieldMapping, read
from stef.judge import Judge, JudgeCase
from stef.judge.caps import capped
from stef.judge.offline import OfflineJudge
from stef.judge.untrusted import suspicions
from stef.nl import extract as nl
from stef.normalize import normalize
from stef.record import Arrival, Message, QueryRecord
from stef.result import SEMANTICS_VERSION, Evaluation, Finding, JudgeKind, Judgement, Outcome, Provenance, Reason, Severity, Specs, Verdict
from stef.score import PROFILE, score
from stef.spec import QuerySpec, Source
from stef.sql import extract as sql
from stef.sql.parse import Parsed, parse
from stef.sql.safety import findings as safety_findings
from stef.sql.statement import lift
from stef.timespan import Calendar
from stef.version import __version__
from stef.weights import Weights

# (message, event_key, content_digest, scoring_config) → whether the store has an answer already.
Known = Callable[[Message, str, str, str], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tools:
    """What the pure part needs beside a record: frozen, with digests."""

    registry: Mapping[str, AppRules]
    default_app: str
    trust_inline: bool
    max_sql_bytes: int
    weights: Weights
    denied: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Understood:
    """What the symbolic side found in one record; `case` is None when there is nothing to judge."""

    specs: Specs
    parsed: Parsed
    findings: tuple[Finding, ...]
    case: JudgeCase | None = None
    reason: Reason | None = None
    detail: str = ""


def understand(record: QueryRecord, rules: AppRules, tools: Tools) -> Understood:
    """Everything left of the judge; pure.

    Args:
        record: As read.
        rules: The operator's, with what the record carries.
        tools: Weights and built-in lists.
    """
    calendar = calendar_of(record, rules)
    question = read_question(record.question, calendar, rules, Source.QUESTION)
    expansion = read_question(record.expanded_question, calendar, rules, Source.EXPANSION) if record.expanded_question else None
    parsed = parse(lift(record.sql, max_bytes=tools.max_sql_bytes), dialect=record.dialect or rules.dialect or None, parameters=record.parameters)
    asked_only = Specs(question=question, expansion=expansion)
    reason, detail, spec = parsed.reason, parsed.detail, None
    if not record.question.strip():
        reason, detail = Reason.NO_SQL, "the log has no question to hold the SQL against"
    if reason is None and parsed.tree is not None:
        try:
            spec = sql.extract(parsed.tree, calendar=calendar, variables=_variables(record, parsed), dialect=parsed.dialect)
        except RecursionError:
            reason, detail = Reason.TOO_DEEP, "queries nested deeper than is followed"
    found = parsed.findings + safety_findings(parsed, spec, rules, tools.denied) + suspicions(_untrusted(record, parsed))
    if spec is None:
        return Understood(specs=asked_only, parsed=parsed, findings=found, reason=reason, detail=detail)
    specs = replace(asked_only, sql=spec)
    case = _case(record, specs, parsed, found, rules, calendar, tools.weights)
    return Understood(specs=specs, parsed=parsed, findings=found, case=case)


def _case(
    record: QueryRecord, specs: Specs, parsed: Parsed, found: tuple[Finding, ...], rules: AppRules, calendar: Calendar, weights: Weights
) -> JudgeCase:
    question, spec = specs.question or QuerySpec(source=Source.QUESTION), specs.sql or QuerySpec(source=Source.SQL)
    texts = Texts(
        question=question, question_text=record.question, expansion=specs.expansion, expansion_text=record.expanded_question or ""
    )
    follow_up = question.elliptical and specs.expansion is not None
    asked = specs.expansion if follow_up and specs.expansion is not None else question
    asked_text = f"{record.question} {record.expanded_question or ''}" if follow_up else record.question
    normalized, trace = normalize(asked, spec, rules)
    alignment = align(texts, normalized, rules, calendar)
    facts = Facts(
        asked=asked, asked_text=asked_text, sql=spec, normalized=normalized, alignment=alignment, rules=rules, findings=found, statement=parsed.sql
    )
    return JudgeCase(
        record=record,
        statement=parsed.sql,
        specs=specs,
        alignment=alignment,
        evidence=gather(facts, weights),
        expansion=check_expansion(texts, rules, calendar),
        normalizations=trace,
        findings=found,
        rules=rules,
    )


def read_question(text: str, calendar: Calendar, rules: AppRules, source: Source) -> QuerySpec:
    """Read a question or an expansion."""
    return nl.extract(text, lexicon=data.lexicon("en"), calendar=calendar, rules=rules, source=source)


def calendar_of(record: QueryRecord, rules: AppRules) -> Calendar:
    """The record's clock in its own zone, else the application's, else UTC."""
    now = None
    if record.asked_at is not None:
        zone = data.zone(record.timezone or "") or data.zone(rules.timezone) or UTC
        now = record.asked_at.astimezone(zone).replace(tzinfo=None)
    return Calendar(now=now, week_start=rules.week_start or 0, fiscal_year_start_month=rules.fiscal_year_start_month or 1)


def _variables(record: QueryRecord, parsed: Parsed) -> dict[str, str]:
    given = {name.lower(): _literal(value) for name, value in (record.parameters or {}).items()}
    return {**parsed.variables, **given}


def _literal(value: Any) -> str:  # noqa: ANN401 - logged parameters are untyped
    if isinstance(value, bool) or value is None:
        return str(value).upper() if value is not None else "NULL"
    return str(value) if isinstance(value, int | float) else "'" + str(value).replace("'", "''") + "'"


def _untrusted(record: QueryRecord, parsed: Parsed) -> dict[str, str]:
    texts = {
        "question": record.question,
        "expansion": record.expanded_question or "",
        "comments": "\n".join(parsed.comments),
        "sql": parsed.sql,
        "app_rules": json.dumps(record.app_rules, ensure_ascii=False) if record.app_rules else "",
    }
    return {name: text for name, text in texts.items() if text}


class Pipeline:
    """Scores messages.

    Args:
        tools: Rules, weights, limits.
        judge: Who gives the verdict.
        mapping: Field mapping of the consumer's file.
        known: Says which records have an answer already, so that a second delivery is not judged again.
    """

    def __init__(self, tools: Tools, judge: Judge, *, mapping: FieldMapping | None = None, known: Known | None = None) -> None:
        self.tools, self.judge, self.mapping, self.known = tools, judge, mapping, known
        self.offline = OfflineJudge(tools.weights)

    async def evaluate(self, message: Message) -> tuple[Evaluation | RecordError, ...]:
        """Evaluate every record of a message; the members that are no records come as errors.

        Raises:
            RecordError: The message holds no record at all.
        """
        found = read(message, mapping=self.mapping, now=datetime.now(UTC))
        results = [await self._guarded(arrival) for arrival in found.arrivals]
        return (*results, *found.rejected)

    async def close(self) -> None:
        """Let go of the model's connections."""
        close = getattr(self.judge, "aclose", None)
        if close is not None:
            await close()

    async def _guarded(self, arrival: Arrival) -> Evaluation:
        """The one broad except: a bug costs one record its score, and says so."""
        start = self._start(arrival)
        try:
            return await self._evaluate(arrival, start)
        except JudgeError as error:
            return replace(start, outcome=Outcome.FAILED, reason=Reason(error.failure.value), detail=error.detail)
        except Exception as error:  # noqa: BLE001 - see the docstring
            structlog.get_logger().error("record failed", event_key=arrival.event_key, error=type(error).__name__, exc_info=True)
            return replace(start, outcome=Outcome.FAILED, reason=Reason.INTERNAL, detail=type(error).__name__)

    async def _evaluate(self, arrival: Arrival, start: Evaluation) -> Evaluation:
        record = arrival.record
        if record is None:
            return replace(start, outcome=Outcome.SKIPPED, reason=Reason.EMPTY, detail="the message has no value")
        rules, problem = self._rules(record)
        start = replace(start, **self._identity(rules))
        if self.known is not None and self.known(arrival.message, start.event_key, start.content_digest, start.scoring_config):
            return replace(start, outcome=Outcome.SKIPPED, reason=Reason.DUPLICATE, detail="it has a result already")
        seen = understand(record, rules, self.tools)
        dialect = replace(start.provenance, dialect=seen.parsed.dialect, dialect_logged=record.dialect or "")
        read_so_far = replace(start, provenance=dialect, findings=seen.findings + problem, sql=seen.parsed.sql, spec=seen.specs)
        if seen.case is None:
            return replace(read_so_far, outcome=Outcome.SKIPPED, reason=seen.reason or Reason.NO_SQL, detail=seen.detail)
        offline = self.offline.verdict(seen.case)
        given = offline if self.judge.kind is JudgeKind.OFFLINE else await self.judge.judge(seen.case)
        return finished(read_so_far, seen.case, capped(given, seen.case, offline))

    def _start(self, arrival: Arrival) -> Evaluation:
        """What is known before anything was understood."""
        record = arrival.record
        start = Evaluation(
            event_key=arrival.event_key, outcome=Outcome.FAILED, received_at=arrival.received_at, **self._identity(NO_RULES)
        )
        if record is None:
            return start
        return replace(
            start,
            event_id=record.event_id,
            agent=record.agent,
            agent_version=record.agent_version,
            app=record.app,
            database=record.database,
            trace_id=record.trace_id,
            span_id=record.span_id,
            asked_at=record.asked_at,
            question=record.question,
            content_digest=record.content_digest(),
        )

    def _rules(self, record: QueryRecord) -> tuple[AppRules, tuple[Finding, ...]]:
        """The rules that hold for a record; rules inside it that are wrong are left out and reported."""
        operator = self.tools.registry.get(record.app or "") or self.tools.registry.get(self.tools.default_app) or NO_RULES
        try:
            return rulefiles.merged(operator, record.app_rules, trust=self.tools.trust_inline), ()
        except RulesError as error:
            finding = Finding(code="inline_rules_invalid", severity=Severity.WARNING, detail=str(error)[:300])
            return operator, (finding,)

    def _identity(self, rules: AppRules) -> dict[str, Any]:
        """Provenance, and the digest of what decides a score."""
        weights = self.tools.weights
        decides = [
            PROFILE, SEMANTICS_VERSION, rules.digest, self.judge.kind.value, self.judge.identity, weights.digest, self.tools.trust_inline, "catalogue:none",
        ]  # fmt: skip
        provenance = Provenance(
            stef=__version__,
            semantics=SEMANTICS_VERSION,
            score_profile=PROFILE,
            sqlglot=sqlglot.__version__,
            weights=f"{weights.name}@{weights.digest}",
            rules=f"{rules.name}@{rules.digest}" if rules.digest else "",
            prompt=_prompt(self.judge),
            judge=self.judge.kind.value,
            model=str(getattr(self.judge, "model", "")),
            parameters=str(getattr(self.judge, "parameters", "")),
            catalogue="none",
            inline_rules=rules.inline_digest,
            trust_inline_rules=self.tools.trust_inline,
        )
        digest = hashlib.sha256(json.dumps(decides).encode()).hexdigest()[:16]
        return {"provenance": provenance, "scoring_config": digest}


def _prompt(judge: Judge) -> str:
    prompt = getattr(judge, "prompt", None)
    return f"{prompt.name}@{prompt.digest}" if prompt is not None else ""


def finished(read_so_far: Evaluation, case: JudgeCase, judgement: Judgement) -> Evaluation:
    """Put the score on an evaluation."""
    points = score(case.alignment, judgement.verdict, judgement.confidence)
    return replace(
        read_so_far,
        outcome=Outcome.SCORED,
        phi=points.phi,
        band=points.band,
        p_offline=case.evidence.p_offline,
        p_correct=combined(case.evidence.p_offline, judgement),
        alignment=case.alignment,
        expansion=case.expansion,
        normalizations=case.normalizations,
        judge=judgement,
        score=points,
    )


def combined(p_offline: float, judgement: Judgement) -> float:
    """`p_correct`: p_offline, averaged in log-odds with a model's verdict where one gave it."""
    if judgement.kind is JudgeKind.OFFLINE:
        return p_offline
    right = judgement.verdict in {Verdict.CORRECT, Verdict.LIKELY_CORRECT}
    said = judgement.confidence if right else 1.0 - judgement.confidence
    mean = (_log_odds(p_offline) + _log_odds(said)) / 2
    return round(1 / (1 + math.exp(-mean)), 4)


def _log_odds(p: float) -> float:
    p = min(max(p, 0.001), 0.999)
    return math.log(p / (1 - p))


def build(settings: Settings, *, mapping: FieldMapping | None = None, known: Known | None = None, metrics: object = None) -> Pipeline:
    """Put a pipeline together from the settings.

    Raises:
        RulesError: A rules file is wrong.
        PromptError: The prompt is wrong.
        SettingError: A setting does not fit the others.
    """
    del metrics
    registry = rulefiles.load_folder(Path(settings.rules))
    if settings.app and settings.app not in registry:
        raise SettingError(f"app: found {settings.app!r}; allowed: {', '.join(registry) or 'nothing, the rules folder is empty'}")
    tools = Tools(
        registry=registry,
        default_app=settings.app,
        trust_inline=settings.trust_inline_rules,
        max_sql_bytes=settings.max_sql_bytes,
        weights=data.weights(),
        denied=data.denied_functions(),
    )
    return Pipeline(tools, make_judge(settings, tools.weights), mapping=mapping, known=known)


def make_judge(settings: Settings, weights: Weights) -> Judge:
    """The judge that the settings name."""
    offline = OfflineJudge(weights)
    if settings.judge == "offline":
        return offline
    if not settings.model:
        raise SettingError("model: found nothing; allowed: a model as litellm names it, such as openai/gpt-5-mini (judge is llm)")
    from stef.judge.llm import LlmJudge, load_prompt
    from stef.judge.retry import Policy

    return LlmJudge(
        model=settings.model,
        prompt=load_prompt(Path(settings.prompts), settings.prompt),
        api_base=settings.api_base,
        timeout=settings.judge_timeout,
        policy=Policy(retries=settings.judge_retries, max_outage=settings.max_outage),
        fallback=offline if settings.on_outage == "offline" else None,
    )
