"""The main path: a message becomes evaluations.

    message ─ ingest ─▶ record ─ understand ─▶ judge ─▶ caps ─▶ score ─▶ evaluation

Everything left of the judge is pure (`understand.py`). `Pipeline` holds the one place that catches everything.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, tzinfo
from importlib.metadata import version
from pathlib import Path
from typing import Any

import structlog

from stef import calibrationfile, data, rulefiles
from stef.apprules import NO_RULES, AppRules
from stef.calibration import AS_SAID, Calibration, Combination, JudgeCalibration
from stef.catalogue import Epoch
from stef.config import Settings
from stef.errors import JudgeError, RecordError, RulesError, SettingError, StoreError
from stef.finding import Finding, FindingCode, finding
from stef.ingest import FieldMapping, read
from stef.judge import Judge, JudgeCase
from stef.judge.caps import capped, is_suspected
from stef.judge.case import case_of
from stef.judge.making import make_judge
from stef.judge.offline import OfflineJudge
from stef.leaving import Privacy, hidden_from_models, leaving, privacy_key
from stef.provenance import Provenance
from stef.recent import Recent
from stef.record import Arrival, Message, QueryRecord
from stef.result import (
    SEMANTICS_VERSION,
    Evaluation,
    JudgeKind,
    Judgement,
    Outcome,
    Reason,
)
from stef.score import PROFILE, combined, score
from stef.seen import Seen, content_key, found_in, look
from stef.timespan import Calendar
from stef.understand import Knowledge, Understood, catalogue_of, question_reader, remembering
from stef.version import __version__
from stef.weights import Weights

# Results that are kept for records with the same texts.
REMEMBERED = 2048
# (message, event_key, content_digest, basis of the scoring configuration) → whether the store has an answer already.
Known = Callable[[Message, str, str, str], bool]


# Fields of a result that are known before anything was understood, by name.
Start = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rulebook:
    """The operator's rules.

    Attributes:
        registry: By application.
        default_app: For records that name none that is known.
        trust_inline: Let rules inside a record set mappings, synonyms and benign filters.
    """

    registry: Mapping[str, AppRules]
    default_app: str = ""
    trust_inline: bool = True

    def rules(self, record: QueryRecord) -> tuple[AppRules, tuple[Finding, ...]]:
        """The rules that hold for a record; rules inside it that are wrong are left out and reported."""
        named = self.registry.get(record.app or "") or self.registry.get(self.default_app)
        operator = named or NO_RULES
        try:
            return rulefiles.merged(operator, record.app_rules, trust=self.trust_inline), ()
        except RulesError as error:
            return operator, (finding(FindingCode.INLINE_RULES_INVALID, str(error)[:300]),)


class Pipeline:
    """Scores messages.

    Args:
        rulebook: The operator's rules.
        knowledge: Words, weights, lists.
        judge: Who gives the verdict.
        mapping: Field mapping of the consumer's file.
        known: Says which records have an answer already, so that a second delivery is not judged again.
        remembered: Most records whose result is kept for others with the same texts; 0 keeps none.
        profile: Score profile.
        privacy: Hides the values of what leaves; None leaves them.
    """

    def __init__(
        self,
        rulebook: Rulebook,
        knowledge: Knowledge,
        judge: Judge,
        *,
        mapping: FieldMapping | None = None,
        known: Known | None = None,
        remembered: int = REMEMBERED,
        profile: str = PROFILE,
        privacy: Privacy | None = None,
    ) -> None:
        self.rulebook, self.knowledge, self.judge = rulebook, knowledge, judge
        self.mapping, self.known, self.profile, self.privacy = mapping, known, profile, privacy
        self.offline = OfflineJudge(knowledge.weights)
        fitted: JudgeCalibration = getattr(judge, "calibration", AS_SAID)
        self._combination = fitted.combination
        self._seen: Recent[bytes, Seen] = Recent(remembered)
        self._identities: Recent[Hashable, tuple[Provenance, str]] = Recent(64)

    def pinned(self, catalogues: Epoch | None) -> Pipeline:
        """The same with what a log has shown."""
        knowledge = replace(self.knowledge, catalogues=catalogues)
        return Pipeline(
            self.rulebook,
            knowledge,
            self.judge,
            mapping=self.mapping,
            known=self.known,
            remembered=self._seen.size,
            profile=self.profile,
            privacy=self.privacy,
        )

    async def evaluate(self, message: Message) -> tuple[Evaluation | RecordError, ...]:
        """Evaluate every record of a message; members of it that are no records come as errors.

        Raises:
            RecordError: The message holds no record at all.
            StoreError: The store cannot say what it knows.
        """
        found = read(message, mapping=self.mapping, now=datetime.now(UTC))
        results = [self._leaving(arrival, await self._guarded(arrival)) for arrival in found.arrivals]
        return (*results, *found.rejected)

    async def close(self) -> None:
        """Let go of the model's connections."""
        close = getattr(self.judge, "aclose", None)
        if close is not None:
            await close()

    def _leaving(self, arrival: Arrival, result: Evaluation) -> Evaluation:
        """The result as it may leave the process."""
        if self.privacy is None or arrival.record is None:
            return result
        return self.privacy.leaving(result, arrival.record, self.rulebook.rules(arrival.record)[0])

    async def _guarded(self, arrival: Arrival) -> Evaluation:
        """The one broad except: a bug costs one record its score, and the result says so."""
        start = None
        try:
            rules, problem = self.rulebook.rules(arrival.record) if arrival.record else (NO_RULES, ())
            start = self._start(arrival, rules, problem)
            return await self._evaluate(arrival, rules, start)
        except StoreError:
            raise  # not this record's fault: the consumer stops, and nothing is committed
        except JudgeError as error:
            start = start or self._start(arrival, NO_RULES)
            return _ended(start, outcome=Outcome.FAILED, reason=Reason(error.failure.value), detail=error.detail)
        except Exception as error:  # noqa: BLE001 - see the docstring
            kind = type(error).__name__
            told = {"event_key": arrival.event_key, "error": kind, "exc_info": self.privacy is None}
            structlog.get_logger().error("record failed", **told)
            start = start or self._start(arrival, NO_RULES)
            return _ended(start, outcome=Outcome.FAILED, reason=Reason.INTERNAL, detail=kind)

    async def _evaluate(self, arrival: Arrival, rules: AppRules, start: Start) -> Evaluation:
        """Read, understand, judge, cap, score."""
        record = arrival.record
        if record is None:
            return _ended(start, outcome=Outcome.SKIPPED, reason=Reason.EMPTY, detail="the message has no value")
        if self.known is not None and self.known(
            arrival.message, arrival.event_key, start["content_digest"], start["provenance"].basis
        ):
            return _ended(start, outcome=Outcome.SKIPPED, reason=Reason.DUPLICATE, detail="it has a result already")
        calendar = calendar_of(record, rules)
        key = content_key(record, rules, calendar, self.knowledge)
        seen = self._seen.get(key) or self._seen.keep(key, look(record, rules, calendar, self.knowledge))
        offline = self.judge.kind is JudgeKind.OFFLINE
        if seen.found is not None and offline:
            return _ended(start, **seen.found)
        result = await self._judged(record, rules, seen, _ended(start, outcome=Outcome.FAILED))
        if offline:
            seen.found = found_in(result)
        return result

    async def _judged(self, record: QueryRecord, rules: AppRules, seen: Seen, start: Evaluation) -> Evaluation:
        """Judge, cap, score; nothing of it where there is no statement to score."""
        understood = seen.understood
        so_far = _with_reading(start, understood, start.findings + seen.suspected)
        if understood.compared is None:
            return replace(so_far, outcome=Outcome.SKIPPED, reason=understood.reason, detail=understood.detail)
        case = case_of(
            record,
            understood,
            understood.compared,
            findings=so_far.findings,
            rules=rules,
            catalogue=catalogue_of(record, self.knowledge),
        )
        offline = self.offline.verdict(case)
        given = offline if self.judge.kind is JudgeKind.OFFLINE else await self.judge.judge(case)
        judgement = capped(given, case, offline)
        return finished(so_far, case, judgement, p_correct(case, judgement, given, self._combination))

    def _start(self, arrival: Arrival, rules: AppRules, problem: tuple[Finding, ...] = ()) -> Start:
        """What is known before anything was understood."""
        provenance, config = self._identity(rules)
        record = arrival.record
        copied: dict[str, Any] = {} if record is None else {name: getattr(record, name) for name in _COPIED}
        return {
            "event_key": arrival.event_key,
            "received_at": arrival.received_at,
            "provenance": provenance,
            "scoring_config": config,
            "findings": problem,
            "content_digest": "" if record is None else record.content_digest(),
            **copied,
        }

    def _identity(self, rules: AppRules) -> tuple[Provenance, str]:
        """Provenance, and the digest of what decides a score."""
        pinned, trust = self.knowledge.catalogues, self.rulebook.trust_inline
        key = (rules.name, rules.digest, rules.inline_digest, self.judge, pinned and pinned.digest, trust)
        return self._identities.get(key) or self._identities.keep(key, self._named(rules))

    def _named(self, rules: AppRules) -> tuple[Provenance, str]:
        weights, trust = self.knowledge.weights, self.rulebook.trust_inline
        judge = (self.judge.kind.value, self.judge.identity)
        decides = [self.profile, SEMANTICS_VERSION, rules.digest, judge, weights.digest, trust]
        pinned = self.knowledge.catalogues
        calibration = self.knowledge.calibration
        if calibration.digest:
            decides.append(f"calibration {calibration.digest}")
        config = _digest(decides if pinned is None else [*decides, pinned.digest])
        # An epoch that the next one follows by itself is no reason to score a record again; another file is.
        basis = _digest(decides) if pinned is not None and pinned.passing else config
        prompt = getattr(self.judge, "prompt", None)
        provenance = Provenance(
            stef=__version__,
            semantics=SEMANTICS_VERSION,
            score_profile=self.profile,
            sqlglot=_SQLGLOT,
            weights=named(weights),
            rules=f"{rules.name}@{rules.digest}" if rules.digest else "",
            prompt=f"{prompt.name}@{prompt.digest}" if prompt is not None else "",
            judge=self.judge.kind.value,
            model=str(getattr(self.judge, "model", "")),
            parameters=str(getattr(self.judge, "parameters", "")),
            basis=basis,
            catalogue="" if pinned is None else pinned.digest,
            calibration=_fitted(calibration),
            judge_calibration=_fitted(getattr(self.judge, "calibration", AS_SAID)),
            inline_rules=rules.inline_digest,
            trust_inline_rules=trust,
        )
        return provenance, config


def _fitted(calibration: Calibration | JudgeCalibration) -> str:
    return f"{calibration.name}@{calibration.digest}" if calibration.digest else ""


def _digest(decides: list[object]) -> str:
    return hashlib.sha256(json.dumps(decides).encode()).hexdigest()[:16]


def _ended(start: Start, **end: Any) -> Evaluation:  # noqa: ANN401 - the fields are those of the result
    """A result that says no more than how it ended."""
    return Evaluation(**{**start, **end})


_SQLGLOT = version("sqlglot")


def named(weights: Weights) -> str:
    """Weights as the provenance of a result names them."""
    return f"{weights.name}@{weights.digest}"


_COPIED = (
    "event_id", "agent", "agent_version", "app", "database", "trace_id", "span_id", "asked_at", "question",
)  # fmt: skip


def calendar_of(record: QueryRecord, rules: AppRules) -> Calendar:
    """The record's clock in its own zone, else the application's, else UTC."""
    now = None
    if record.asked_at is not None:
        zone = data.zone(record.timezone or "") or data.zone(rules.timezone) or UTC
        now = _in_zone(record.asked_at, zone)
    first_month = rules.fiscal_year_start_month or 1
    return Calendar(now=now, week_start=rules.week_start or 0, fiscal_year_start_month=first_month)


def _in_zone(moment: datetime, zone: tzinfo) -> datetime:
    """The wall clock of a zone; at the ends of the calendar, where there is none, that of the moment's own zone."""
    try:
        return moment.astimezone(zone).replace(tzinfo=None)
    except OverflowError:
        return moment.replace(tzinfo=None)


def _with_reading(start: Evaluation, seen: Understood, further: tuple[Finding, ...]) -> Evaluation:
    provenance = replace(start.provenance, dialect=seen.parsed.dialect, dialect_logged=seen.parsed.dialect_logged)
    return replace(start, provenance=provenance, findings=seen.findings + further, sql=seen.parsed.sql, spec=seen.specs)


def finished(so_far: Evaluation, case: JudgeCase, judgement: Judgement, p: float) -> Evaluation:
    """Put the score on an evaluation."""
    points = score(case.alignment, judgement.verdict, judgement.confidence, so_far.provenance.score_profile)
    return replace(
        so_far,
        outcome=Outcome.SCORED,
        phi=points.phi,
        band=points.band,
        p_offline=case.evidence.p_offline,
        p_raw=case.evidence.p_raw,
        weighed=case.evidence.weighed,
        p_correct=p,
        alignment=case.alignment,
        expansion=case.expansion,
        normalizations=case.normalizations,
        judge=judgement,
        score=points,
    )


def p_correct(case: JudgeCase, judgement: Judgement, given: Judgement, combination: Combination) -> float:
    """The evidence and the verdict together; a model that may have been talked to only lowers it.

    What it holds against such a record counts as it gave it, before the caps: no record asks for that.
    """
    evidence = case.evidence.p_offline
    both = combined(evidence, judgement, combination)
    return min(both, combined(evidence, given, combination), evidence) if is_suspected(case) else both


def build(settings: Settings, *, mapping: FieldMapping | None = None, known: Known | None = None) -> Pipeline:
    """Put a pipeline together from the settings; it has no catalogue (`pinned` gives it one).

    Raises:
        RulesError: A rules file is wrong.
        PromptError: The prompt is wrong.
        CalibrationError: The calibration is wrong, or was fitted to other weights.
        SettingError: A setting does not fit the others.
    """
    registry = rulefiles.load_folder(Path(settings.rules))
    if settings.app and settings.app not in registry:
        names = ", ".join(registry) or f"nothing, {settings.rules} holds no rules file"
        raise SettingError(f"app: found {settings.app!r}; allowed: {names}")
    rulebook = Rulebook(registry=registry, default_app=settings.app, trust_inline=settings.trust_inline_rules)
    weights = data.weights()
    knowledge = Knowledge(
        read_question=remembering(question_reader(data.lexicon("en"), data.phrasebooks())),
        weights=weights,
        calibration=calibrationfile.load(settings.calibration, named(weights)),
        denied=data.denied_functions(),
        max_sql_bytes=settings.max_sql_bytes,
    )
    key = privacy_key(settings)
    judge = make_judge(settings, weights, hide=hidden_from_models(settings, key))
    privacy = leaving(settings, key)
    profile = settings.score_profile
    return Pipeline(rulebook, knowledge, judge, mapping=mapping, known=known, profile=profile, privacy=privacy)
